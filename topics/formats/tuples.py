"""Records of a registry's formats as tuples, and the columns of these.

A format makes a function for each schema, from the bytes of a record to a tuple of what the stream maps (`Shape`). All
else is the same for all of them: which schema a record was written by, what becomes of a record that cannot be read,
and how columns are made of tuples. A format may know how to make columns of many records at once (`Blocks`); the
function remains the truth about each of them.
"""

from collections.abc import Callable, Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np

from riparian.topics import records as r
from riparian.topics.columns import Bad, no_record
from riparian.topics.envelopes import DEBEZIUM, OP, ROW, Ignored, judged
from riparian.topics.formats.framing import ID_BYTES, head_of, inline, no_head
from riparian.topics.formats.slots import FLAG, NUMBER, Problem, Slot, of_envelope, of_features, of_labels
from riparian.topics.records import Floats, Mapping, Path, RawBatch
from riparian.topics.schemas import Key, Schema, Schemas, UnusableError

Read = Callable[[bytes, int], Any]  # value, where the record begins in it -> its tuple


class Shape:
    """What a stream maps of a kind of record.

    Parameters
    ----------
    slots : sequence of Slot
    instances : Shape, optional
        What it maps of each instance of a bag.
    needs_one : bool
        Whether a record has to have one of the features, for they stand nowhere else.

    Attributes
    ----------
    places : path -> place of its value in the tuple that a reader gives, but for numbers and flags of features.
    numbers : slots of numeric and boolean features; the last value of the tuple is theirs.
    """

    def __init__(self, slots: Sequence[Slot], instances: "Shape | None" = None, *, needs_one: bool = False) -> None:
        self.slots = list(slots)
        self.needs_one = needs_one
        self.instances = instances
        self.numbers = [i for i, slot in enumerate(slots) if slot.kind in (NUMBER, FLAG)]
        self.others = [i for i, slot in enumerate(slots) if slot.kind not in (NUMBER, FLAG)]
        self.places = {slots[i].path: place for place, i in enumerate(self.others)}
        self.empty = (*(None for _ in self.others), (None,) * len(self.numbers))


class Block:
    """Records as columns.

    Attributes
    ----------
    numbers : (n, m) numbers and flags of features, NaN where missing.
    columns : of each other slot, n values, None where missing: a list, or Texts.
    left : the records that are to be read one by one; `put` gives them their values.
    """

    def __init__(self, numbers: Floats, columns: list[Any], left: list[int]) -> None:
        self.numbers, self.columns, self.left = numbers, columns, left

    def __len__(self) -> int:
        return len(self.numbers)

    def put(self, records: Sequence[Any], numbers: Floats) -> None:
        """Fill in the records that were left: their tuples, and the numbers of them all."""
        self.numbers[self.left] = numbers
        for place, column in enumerate(self.columns):
            column = self.columns[place] = list(column)
            for i, record in zip(self.left, records, strict=True):
                column[i] = record[place]


class Blocks(Protocol):
    """Reads many records at once, and none that a function would not read to the same bits."""

    def warm_up(self) -> None:
        """Compile what there is to compile, or load it."""

    def read(self, values: Sequence[Any], max_bytes: int, parsed: "Parsed") -> Block | None:
        """The records as columns; None where none can be read so. max_bytes : larger records are left."""


Parsed = Callable[[Key], Any]  # what `Way.parse` gave; None where no record can be read by it


class Way(NamedTuple):
    """How a format reads.

    parse : a schema -> what the others want of it; UnusableError where it is none. reader : a shape and a schema ->
    what reads the records of this schema. problems : a shape, a schema and its name -> where it does not fit. errors :
    what a reader may raise. why : one of these -> reason and detail. blocks : a shape without instances -> what reads
    blocks.
    """

    parse: Callable[[Schema], Any]
    reader: Callable[[Shape, Any], Read]
    problems: Callable[[Shape, Any, str], list[Problem]]
    errors: tuple[type[Exception], ...]
    why: Callable[[Exception], tuple[str, str]]
    blocks: Callable[[Shape], Blocks] | None = None


_INFINITE = "a number that is not finite"


class Records(list[Any]):
    """Records as tuples, and the numbers of all of them: (n, m)."""

    numbers: Floats


class _Reader:
    """What features and labels have in common: bytes to tuples, and tuples to columns."""

    few = 3  # records; fewer are sooner read one by one than as a block

    def __init__(self, mapping: Mapping, shape: Shape, schemas: Schemas, way: Way, envelope: str | None) -> None:
        self._envelope = envelope
        self.max_bytes = mapping.max_bytes
        self.shape = shape
        self._way = way
        self._unusual: tuple[type[Exception], ...] = (TypeError, KeyError, *way.errors)
        self._schemas = schemas
        self._blocks: Blocks | None = None

    def warm_up(self) -> None:
        """Compile what reads blocks, or load it."""
        blocks = self._block_reader()
        if blocks is not None:
            blocks.warm_up()

    def _block_reader(self) -> Blocks | None:
        if self._blocks is None and self._way.blocks is not None and self.shape.instances is None:
            self._blocks = self._way.blocks(self.shape)
        return self._blocks

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
        blocks = self._block_reader() if len(values) >= self.few else None
        block = None if blocks is None else blocks.read(values, self.max_bytes, self._usable)
        if block is not None:
            if block.left:
                left = Records(self._decode_one(i, values[i], bad) for i in block.left)
                left.numbers = self._array(left)
                block.put(left, left.numbers)
                self._refuse_infinite(left.numbers, block.left, bad)
            return block
        try:
            return self._numbered(Records(self._decode(values)), bad)
        except self._unusual:
            return self._numbered(Records(self._decode_one(i, value, bad) for i, value in enumerate(values)), bad)

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
                except self._way.errors as error:
                    reason, detail = self._way.why(error)
                    bad[i] = reason, f"{detail} (schema {found.key})"
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

    def _parse(self, schema: Schema) -> Any:
        try:
            return self._way.parse(schema)
        except UnusableError as error:
            return UnusableError(*error.args)  # without the frames that it came through

    def prepare(self, key: Key) -> None:
        """Parse a schema, which may take long."""
        self._parsed(key)

    def _usable(self, key: Key) -> Any:
        return None if isinstance(self._reader(key), str) else self._parsed(key)

    def _numbered(self, records: Records, bad: Bad) -> Records:
        records.numbers = self._array(records)
        self._refuse_infinite(records.numbers, range(len(records)), bad)
        return records

    def _refuse_infinite(self, numbers: Floats, rows: Sequence[int], bad: Bad) -> None:
        """rows : the record of each row of numbers."""
        infinite = np.isinf(numbers)
        if infinite.any():
            for i in np.flatnonzero(infinite.any(axis=1)).tolist():
                bad.setdefault(rows[i], (r.NOT_FINITE, _INFINITE))

    def _array(self, tuples: Sequence[Any]) -> Floats:
        n, m = len(tuples), len(self.shape.numbers)
        # None becomes NaN, true and false become 1 and 0.
        values = chain.from_iterable(map(itemgetter(-1), tuples))
        return np.fromiter(values, np.float64, count=n * m).reshape(n, m)

    def problems(self, schema: Schema, name: str) -> list[Problem]:
        """As in `topics.codecs.Codec`."""
        return self._way.problems(self.shape, self._way.parse(schema), name)

    def column(self, records: Any, path: Path) -> Any:
        if isinstance(records, Block):
            return records.columns[self.shape.places[path]]
        return list(map(itemgetter(self.shape.places[path]), records))


class LabelReader(_Reader):
    def __init__(self, mapping: Mapping, schemas: Schemas, way: Way) -> None:
        slots, envelope = of_labels(mapping), mapping.label_envelope
        super().__init__(mapping, Shape([*slots, *of_envelope("label", envelope, slots)]), schemas, way, envelope)


class FeatureReader(_Reader):
    """mapping : what stands in values. needs_one : as of `Shape`."""

    def __init__(self, mapping: Mapping, schemas: Schemas, way: Way, *, needs_one: bool = False) -> None:
        slots, inside_bag = of_features(mapping)
        instances = None if inside_bag is None else Shape(inside_bag)
        slots += of_envelope("record", mapping.envelope, slots)
        super().__init__(mapping, Shape(slots, instances, needs_one=needs_one), schemas, way, mapping.envelope)
        self._inside = instances or self.shape
        self._bag = self.shape.places.get(mapping.x) if instances is not None else None
        self._columns = [i for i, f in enumerate(mapping.features) if f.type != r.NOMINAL]
        self._width = len(mapping.features)

    def _numbered(self, records: Records, bad: Bad) -> Records:
        if self._bag is not None:
            for i, record in enumerate(records):
                for instance in record[self._bag] or ():
                    if any(v is not None and v - v != 0 and v == v for v in instance[-1]):
                        bad.setdefault(i, (r.NOT_FINITE, _INFINITE))
        return super()._numbered(records, bad)

    def missing(self, records: Any, path: Path) -> list[int]:
        return [i for i, there in enumerate(self.column(records, path)) if there is None]

    def feature(self, instances: Any, path: Path) -> Any:
        if isinstance(instances, Block):
            return self.column(instances, path)
        return list(map(itemgetter(self._inside.places[path]), instances))

    def numbers(self, instances: Any) -> Floats:
        if isinstance(instances, Records | Block):
            found = instances.numbers
        else:
            n, m = len(instances), len(self._inside.numbers)
            values = chain.from_iterable(map(itemgetter(-1), instances))
            found = np.fromiter(values, np.float64, count=n * m).reshape(n, m)
        if len(self._columns) == self._width:
            return found
        x = np.full((len(instances), self._width), np.nan)
        x[:, self._columns] = found
        return x
