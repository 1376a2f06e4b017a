"""Records of a registry's formats as tuples, and the columns of these.

A format makes a function for each schema, from the bytes of a record to a tuple of what the stream maps (`Shape`). All
else is the same for all of them: which schema a record was written by, and what becomes of a record that cannot be
read.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from riparian.topics import records as r
from riparian.topics.decoding.columns import Bad, no_record
from riparian.topics.decoding.envelopes import DEBEZIUM, OP, ROW, Ignored, judged
from riparian.topics.decoding.headers import inside
from riparian.topics.formats.common.blocks import Blocks, ColumnReader, Records, Shape
from riparian.topics.formats.common.framing import ID_BYTES, head_of, inline, no_head
from riparian.topics.formats.common.registered import Predictions, RegisteredCodec
from riparian.topics.formats.common.slots import (
    RejectedRecordError,
    SchemaMismatch,
    of_envelope,
    of_features,
    of_labels,
)
from riparian.topics.records import Feature, Floats, Mapping, Path, RawBatch
from riparian.topics.schemas import Key, RegisteredSchema, Schemas, UnusableError

Read = Callable[[bytes, int], Any]  # value, where the record begins in it -> its tuple


Parsed = Callable[[Key], Any]  # what `Way.parse` gave; None where no record can be read by it


class TupleFormat(NamedTuple):
    """How a format reads.

    parse : a schema -> what the others want of it; UnusableError where it is none. reader : a shape and a schema ->
    what reads the records of this schema. problems : a shape, a schema and its name -> where it does not fit. errors :
    what a reader may raise besides RefusedError. why : one of these -> reason and detail. blocks : a shape without
    instances, and what gives what `parse` gave -> what reads blocks.
    """

    parse: Callable[[RegisteredSchema], Any]
    reader: Callable[[Shape, Any], Read]
    problems: Callable[[Shape, Any, str], list[SchemaMismatch]]
    errors: tuple[type[Exception], ...]
    why: Callable[[Exception], tuple[str, str]]
    blocks: Callable[[Shape, Parsed], Blocks] | None = None


_INFINITE = "a number that is not finite"


class TupleReader(ColumnReader):
    """What features and labels have in common: bytes to tuples."""

    def __init__(
        self,
        mapping: Mapping,
        features: Sequence[Feature],
        shape: Shape,
        schemas: Schemas,
        way: TupleFormat,
        envelope: str | None,
    ) -> None:
        blocks = None if way.blocks is None or shape.instances else partial(way.blocks, shape, self._usable)
        super().__init__(mapping, features, shape, blocks, shape, shape.instances)
        self._schemas, self._way, self._envelope = schemas, way, envelope
        self._refusals: tuple[type[Exception], ...] = (RejectedRecordError, *way.errors)
        self._unusual: tuple[type[Exception], ...] = (TypeError, KeyError, *self._refusals)

    def _usable(self, key: Key) -> Any:
        return None if isinstance(self._reader(key), str) else self._parsed(key)

    def decode(self, batch: RawBatch, bad: Bad) -> Any:
        records = self._read(inline(batch.values, batch.headers), bad)
        if self._envelope == DEBEZIUM:
            self._judge(records, batch.values, bad)
        return records

    def _judge(self, records: Any, values: Sequence[Any], bad: Bad) -> None:
        """Find the changes that are no instances."""
        ops, rows = self.column(records, OP), self.column(records, ROW[DEBEZIUM])
        for i, (op, row) in enumerate(zip(ops, rows, strict=True)):
            if values[i] is None:
                bad[i] = Ignored(*bad[i])
            elif i not in bad:
                why = judged(None if op is None else str(op), row is not None)
                if why is not None:
                    bad[i] = why

    def _read(self, values: list[Any], bad: Bad) -> Any:
        block = self._block(values, bad)
        if block is not None:
            return block
        try:
            return self._numbered(self._decode(values), bad)
        except self._unusual:
            return self._read_left(values, bad)

    def _read_left(self, values: list[Any], bad: Bad) -> Records:
        return self._numbered([self._decode_one(i, value, bad) for i, value in enumerate(values)], bad)

    def _decode(self, values: list[Any]) -> list[Any]:
        """All records, where nothing is unusual about any of them."""
        if not set(map(type, values)) <= {bytes} or max(map(len, values), default=0) > self.max_bytes:
            raise TypeError
        readers = {first: self._of_head(first) for first in {value[:ID_BYTES] for value in values}}
        if len(readers) == 1:
            (read,) = readers.values()
            return list(map(read, values, repeat(ID_BYTES)))
        return [readers[value[:ID_BYTES]](value, ID_BYTES) for value in values]

    def _of_head(self, first: bytes) -> Read:
        """What reads the records that begin so. TypeError where something is unusual about them."""
        found = head_of(first)
        read = "" if found is None else self._reader(found.key)
        if isinstance(read, str):
            raise TypeError
        return read

    def _decode_one(self, i: int, value: Any, bad: Bad) -> Any:
        refused = no_record(value, self.max_bytes)
        found = head_of(value) if refused is None else None
        if refused is not None:
            bad[i] = refused
        elif found is None:
            bad[i] = r.NO_SCHEMA_ID, no_head(value)
        else:
            read = self._reader(found.key)
            if isinstance(read, str):
                bad[i] = r.UNUSABLE_SCHEMA, read
            else:
                try:
                    return read(value, found.start)
                except self._refusals as error:
                    refusal = error.args if isinstance(error, RejectedRecordError) else self._way.why(error)
                    bad[i] = refusal[0], f"{refusal[1]} (schema {found.key})"
        return self.shape.empty

    def _reader(self, key: Key) -> Read | str:
        """What reads the records of a schema, or why nothing does."""
        made: Read | str = self._schemas.made(key, self, lambda schema: self._make(key))
        return made

    def _make(self, key: Key) -> Read | str:
        parsed = self._parsed(key)
        if isinstance(parsed, UnusableError):
            return f"schema {key} cannot be used: {parsed}"
        return self._way.reader(self.shape, parsed)

    def _parsed(self, key: Key) -> Any:
        """A schema as the format holds it, or why it cannot be used; one for all readers."""
        return self._schemas.made(key, self._way.parse, self._parse)

    def _parse(self, schema: RegisteredSchema) -> Any:
        try:
            return self._way.parse(schema)
        except UnusableError as error:
            return UnusableError(*error.args)  # without the frames that it came through

    def prepare(self, key: Key) -> None:
        """Parse a schema, which may take long."""
        self._parsed(key)

    def _numbered(self, tuples: list[Any], bad: Bad) -> Records:
        records = Records(tuples)
        records.numbers = _array(tuples, self.shape)
        infinite = np.isinf(records.numbers)
        if infinite.any():
            for i in np.flatnonzero(infinite.any(axis=1)).tolist():
                bad.setdefault(i, (r.NOT_FINITE, _INFINITE))
        return records

    def _narrow(self, instances: Any) -> Floats:
        return _array(instances, self.inside)

    def problems(self, schema: RegisteredSchema, name: str) -> list[SchemaMismatch]:
        """Where a schema does not fit the stream file: see `topics.codecs.Codec`."""
        return self._way.problems(self.shape, self._way.parse(schema), name)


def _array(tuples: Sequence[Any], shape: Shape) -> Floats:
    """The numbers and flags of tuples. None becomes NaN, true and false become 1 and 0."""
    n, m = len(tuples), len(shape.numbers)
    return np.fromiter(chain.from_iterable(map(itemgetter(-1), tuples)), np.float64, count=n * m).reshape(n, m)


class TupleLabelReader(TupleReader):
    def __init__(self, mapping: Mapping, schemas: Schemas, way: TupleFormat) -> None:
        slots, envelope = of_labels(mapping), mapping.label_envelope
        super().__init__(mapping, (), Shape([*slots, *of_envelope("label", envelope, slots)]), schemas, way, envelope)
        self._without: dict[Key, bool] = {}  # whether records of a schema have no label

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        """Whether a field is null: where the schema has the field, and it is null, or not set."""
        (value,) = inline([batch.values[i]], None if batch.headers is None else [batch.headers[i]])
        found = head_of(value or b"")
        if found is None:
            return False
        without = self._without.get(found.key)
        if without is None:
            problems = self._way.problems(self.shape, self._parsed(found.key), "")
            without = self._without[found.key] = any(one.missing and one.slot.path == path for one in problems)
        return not without


class TupleFeatureReader(TupleReader):
    """mapping : what stands in values. needs_one : as of `Shape`."""

    def __init__(self, mapping: Mapping, schemas: Schemas, way: TupleFormat, *, needs_one: bool = False) -> None:
        slots, inside_bag = of_features(mapping)
        instances = None if inside_bag is None else Shape(inside_bag)
        slots += of_envelope("record", mapping.envelope, slots)
        shape = Shape(slots, instances, needs_one=needs_one)
        super().__init__(mapping, mapping.features, shape, schemas, way, mapping.envelope)
        self._bag = shape.places.get(mapping.x) if instances is not None else None

    def _numbered(self, tuples: list[Any], bad: Bad) -> Records:
        if self._bag is not None:
            for i, record in enumerate(tuples):
                for instance in record[self._bag] or ():
                    if any(v is not None and v - v != 0 and v == v for v in instance[-1]):
                        bad.setdefault(i, (r.NOT_FINITE, _INFINITE))
        return super()._numbered(tuples, bad)


class TupleCodec(RegisteredCodec):
    """The codec of a format that reads records as tuples. ways : how it reads features, and labels."""

    def __init__(
        self, mapping: Mapping, schemas: Schemas, ways: tuple[TupleFormat, TupleFormat], predictions: Predictions
    ) -> None:
        values, (way, other) = inside(mapping), ways
        features = TupleFeatureReader(values, schemas, way, needs_one=len(values.features) == len(mapping.features))
        super().__init__(mapping, schemas, features, TupleLabelReader(values, schemas, other), predictions)
