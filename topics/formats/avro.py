"""Avro records, each with the id of its schema in a registry before it.

A record is read by the schema that it was written by. What a stream maps is looked up in that schema by name, so fields
may come, go and change their places from one schema to the next. A field that a schema lacks is missing; defaults are
those of a reader's schema, and the stream file has none. NaN is a missing number.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from itertools import chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np

from topics import records as r
from topics.columns import Bad, ColumnDecoder, no_record
from topics.formats import avro_reader as a
from topics.formats.avro_predictions import PREDICTION, PredictionReader, PredictionWriter
from topics.formats.avro_reader import Read, Shape
from topics.formats.avro_types import parse
from topics.formats.framing import ID_BYTES, NO_HEAD, head_of, inline, unknown
from topics.formats.registered import Encode, Writer
from topics.formats.slots import Problem, of_features, of_labels
from topics.headers import Wanted, inside
from topics.records import Floats, Mapping, Path, RawBatch
from topics.schemas import Key, NotToldError, Schema, Schemas, UnusableError

_INFINITE = "a number that is not finite"


class _Records(list[Any]):
    """Records as tuples, and the numbers of all of them: (n, m)."""

    numbers: Floats


class _Reader:
    """What features and labels have in common: bytes to tuples, and tuples to columns."""

    def __init__(self, mapping: Mapping, shape: Shape, schemas: Schemas) -> None:
        self.max_bytes = mapping.max_bytes
        self.shape = shape
        self._schemas = schemas
        self._readers: dict[bytes, Read] = {}  # head of a record -> what reads it
        self._made: dict[Key, Read | str] = {}  # or why the schema cannot be used

    def decode(self, batch: RawBatch, bad: Bad) -> list[Any]:
        values = inline(batch.values, batch.headers)
        try:
            return self._numbered(_Records(self._decode(values)), bad)
        except (TypeError, KeyError, *a.READING):
            return self._numbered(_Records(self._decode_one(i, value, bad) for i, value in enumerate(values)), bad)

    def _decode(self, values: list[Any]) -> list[Any]:
        """All records, where nothing is unusual about any of them."""
        if not set(map(type, values)) <= {bytes} or max(map(len, values), default=0) > self.max_bytes:
            raise TypeError
        heads = {value[:ID_BYTES] for value in values}
        if len(heads) == 1:
            return list(map(self._readers[heads.pop()], values, repeat(ID_BYTES)))
        readers = self._readers
        return [readers[value[:ID_BYTES]](value, ID_BYTES) for value in values]

    def _decode_one(self, i: int, value: Any, bad: Bad) -> Any:
        refused = no_record(value, self.max_bytes)
        found = head_of(value) if refused is None else None
        if refused is not None:
            bad[i] = refused
        elif found is None:
            bad[i] = r.NO_SCHEMA_ID, NO_HEAD
        else:
            read = self._reader(found.key)
            if isinstance(read, str):
                bad[i] = r.UNUSABLE_SCHEMA, read
            else:
                if found.start == ID_BYTES:
                    self._readers[value[:ID_BYTES]] = read
                try:
                    return read(value, found.start)
                except a.READING as error:
                    reason, detail = a.why(error)
                    bad[i] = reason, f"{detail} (schema {found.key})"
        return self.shape.empty

    def _reader(self, key: Key) -> Read | str:
        """What reads the records of a schema, or why nothing does."""
        made = self._made.get(key)
        if made is None:
            schema = self._schemas.known.get(key)
            if schema is None:
                raise NotToldError(f"nobody has asked the registry for schema {key}")
            try:
                made = self.shape.reader(parse(schema), f"schema {key}")[0]
            except UnusableError as error:
                made = f"schema {key} cannot be used: {error}"
            self._made[key] = made
        return made

    def _numbered(self, records: _Records, bad: Bad) -> _Records:
        records.numbers = self._array(records)
        infinite = np.isinf(records.numbers)
        if infinite.any():
            for i in np.flatnonzero(infinite.any(axis=1)).tolist():
                bad.setdefault(i, (r.NOT_FINITE, _INFINITE))
        return records

    def _array(self, tuples: Sequence[Any]) -> Floats:
        n, m = len(tuples), len(self.shape.numbers)
        # None becomes NaN, true and false become 1 and 0.
        values = chain.from_iterable(map(itemgetter(-1), tuples))
        return np.fromiter(values, np.float64, count=n * m).reshape(n, m)

    def column(self, records: list[Any], path: Path) -> list[Any]:
        return list(map(itemgetter(self.shape.places[path]), records))


class _LabelReader(_Reader):
    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        super().__init__(mapping, Shape(of_labels(mapping)), schemas)


class _FeatureReader(_Reader):
    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        slots, inside_bag = of_features(mapping)
        instances = None if inside_bag is None else Shape(inside_bag)
        super().__init__(mapping, Shape(slots, instances), schemas)
        self._inside = instances or self.shape
        self._bag = self.shape.places.get(mapping.x) if instances is not None else None
        self._columns = [i for i, f in enumerate(mapping.features) if f.type != r.NOMINAL]
        self._width = len(mapping.features)

    def _numbered(self, records: _Records, bad: Bad) -> _Records:
        if self._bag is not None:
            for i, record in enumerate(records):
                for instance in record[self._bag] or ():
                    if any(v is not None and v - v != 0 and v == v for v in instance[-1]):
                        bad.setdefault(i, (r.NOT_FINITE, _INFINITE))
        return super()._numbered(records, bad)

    def missing(self, records: list[Any], path: Path) -> list[int]:
        return [i for i, there in enumerate(self.column(records, path)) if there is None]

    def feature(self, instances: list[Any], path: Path) -> list[Any]:
        return list(map(itemgetter(self._inside.places[path]), instances))

    def numbers(self, instances: list[Any]) -> Floats:
        if isinstance(instances, _Records):
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


class AvroCodec(ColumnDecoder):
    """The codec of Avro: see `topics.codecs.Codec`."""

    prediction: Schema | None = PREDICTION

    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        self._readers = _FeatureReader(inside(mapping), schemas), _LabelReader(inside(mapping), schemas)
        super().__init__(mapping, *self._readers)
        self.headers = Wanted(True, True)  # the schema may be named there
        self._schemas = schemas
        self.encode_predictions = PredictionWriter(schemas).write
        reader = PredictionReader(schemas)
        self.read_place, self.read_prediction = reader.place, reader.read

    def unknown_features(self, batch: RawBatch) -> dict[Key, list[int]]:
        return unknown(inline(batch.values, batch.headers), self._schemas, self.mapping.max_bytes)

    unknown_labels = unknown_features

    def problems(self, kind: str, schema: Schema, name: str) -> list[Problem]:
        """Where a schema does not fit what the stream maps of `kind`, "features" or "labels".

        name : of the schema, for sentences. Raises UnusableError where it is none.
        """
        return self._readers[kind == "labels"].shape.reader(parse(schema), name)[1]

    def writer(self, labels_inside: bool = False) -> "AvroWriter":
        return AvroWriter(self.mapping, self._schemas, labels_inside)


class AvroWriter(Writer):
    """Feature and label records as Avro, for replays."""

    def encoder(self, schema: Schema) -> Encode:
        from fastavro import parse_schema, schemaless_writer

        named: dict[str, Any] = {}
        for _, reference in schema.references:
            parse_schema(json.loads(reference.text), named)
        parsed = parse_schema(json.loads(schema.text), named)

        def encode(value: bytes) -> bytes:
            data = BytesIO()
            schemaless_writer(data, parsed, json.loads(value))
            return data.getvalue()

        return encode
