"""Envelopes and formats: damaged records of each, by what has to hold whatever a record is.

Nothing raises. A record is rejected for one of `REASONS`. Records one by one give what they give
in a batch. A rejected record leaves no trace. `records` has a reference for JSON, and `avro` the reader for its kernel;
here there is none, so that one target does for every format. A new one is an entry in `_FORMATS`.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from riparian.app.stream_file.spec import Spec, build
from riparian.topics.codecs import Codec, Formats, of_stream
from riparian.topics.decoding.headers import HeaderWriter
from riparian.topics.decoding.paths import Index
from riparian.topics.records import IGNORED, REASONS, Packed, RawBatch, Rows
from riparian.topics.schemas import JSON, PROTOBUF, RegisteredSchema, Schemas, Written
from riparian.topics.vocabulary import Vocabulary
from tests.fuzz import letters, mutate
from tests.fuzz.decoded import Record, RecordTarget, batch_of, decode, read, write
from tests.fuzz.mutate import Random, pick
from tests.topics.arrow_records import MARKED, big_endian


class Format(NamedTuple):
    """codec : its name. record, label : of the stream file. schema : by which records of the registry are written.
    typed : whether each field has one type, so that records hold what fits it, before they are damaged."""

    codec: str
    record: dict[str, Any]
    label: dict[str, Any]
    schema: RegisteredSchema | None = None
    typed: bool = False


_ENVELOPED = {"x": "", "y": "y", "time": "@envelope:ts_ms"}
_PROTO = """syntax = "proto3";
message Row {
  string id = 1; optional int64 ts = 2; optional string y = 3; X x = 4; More more = 5; repeated double list = 6;
  repeated string words = 7; map<string, Row> rows = 8; oneof one { bytes raw = 9; Row row = 10; }
  message X { optional double a = 1; optional bool b = 2; optional string c = 3; double d = 4; }
  message More { Deep deep = 1; optional string c = 2; message Deep { optional double a = 1; } }
}"""
_FORMATS = {
    "debezium": Format("json", {**_ENVELOPED, "envelope": "debezium"}, {"envelope": "debezium"}),
    "connect": Format("json", {"x": "", "y": "y", "time": "ts", "envelope": "connect"}, {"envelope": "connect"}),
    "cloudevents": Format(
        "json",
        {"id": "@envelope:id", "x": "", "y": "y", "time": "@envelope:time", "envelope": "cloudevents"},
        {"id": "@envelope:subject", "envelope": "cloudevents"},
    ),
    "json-schema": Format("json-schema", {"time": "ts", "y": "y"}, {"time": "ts"}, RegisteredSchema(JSON, "{}")),
    "protobuf": Format(
        "protobuf", {"time": "ts", "y": "y"}, {"time": "ts"}, RegisteredSchema(PROTOBUF, _PROTO), typed=True
    ),
    "arrow": Format("arrow", {"time": "ts", "y": "y"}, {"time": "ts"}),
}
# Where things stand, and what they are; headers where the format takes them.
_FEATURES: dict[str, dict[str, Any]] = {
    "plain": {"a": "numeric", "b": "boolean", "c": {"type": "nominal", "max_values": 4}, "d": "numeric"},
    "deep": {
        "a": {"type": "numeric", "from": "more.deep.a"},
        "c": {"type": "nominal", "values": ["u", 1, True], "from": "more.c"},
        "e": {"type": "numeric", "from": "list[1]"},
        "f": {"type": "nominal", "max_values": 6, "from": "words[0]"},
    },
    "headers": {
        "a": "numeric",
        "n": {"type": "numeric", "from": "@header:n"},
        "c": {"type": "nominal", "max_values": 5, "from": "@header:c"},
    },
}
_CELLS = {
    "numeric": ("0.5", "-0.0", "1e300", "7", "null", "9007199254740993", "1.5", "-2", "1e-320"),
    "boolean": ("true", "false", "null"),
    "nominal": ('"u"', '"é"', "1", "true", "null", '"red"', '"x"', '"😀 \\" \\\\"'),
}
_TYPED_CELLS = {**_CELLS, "nominal": ('"u"', '"é"', "null", '"red"', '"😀 \\" \\\\"')}
_ODD = (None, b"", b"{}", b"\0\0\0\0\1", b"\0\0\0\0\2{}", b"\0\0\0\0\3\2", b"[" * 300, b"null")
_HEADERS = ("id", "time", "specversion", "type", "source", "subject", "datacontenttype")


@cache
def stream(format_: str, features: str) -> Spec:
    form = _FORMATS[format_]
    content = {
        "name": "fuzz",
        "task": "classification",
        "max_classes": 4,
        "champion": "last-label",
        "topics": {"features": "f", "labels": "l"},
        "features": _without_gaps(_FEATURES[features]) if form.typed else _FEATURES[features],
        "record": {"max_bytes": 4000, **form.record},
        "label": {**form.label},
        "codec": {"features": form.codec, "labels": form.codec, "predictions": "json"},
    }
    if form.schema is not None:
        content["registry"] = {"url": "http://127.0.0.1:1"}
    return build(content, "fuzz")


def _without_gaps(features: dict[str, Any]) -> dict[str, Any]:
    """Lists are mapped from their first item on: no type of Protobuf has a null before it."""
    return {
        name: {**one, "from": one["from"].replace("[1]", "[0]")} if isinstance(one, dict) and "from" in one else one
        for name, one in features.items()
    }


_REJECTIONS = {*REASONS, *IGNORED}


def codec_of(format_: str, spec: Spec) -> Codec:
    """The codec of a stream, with all that a registry would have told it."""
    form, schemas = _FORMATS[format_], Schemas()
    if form.schema is not None:
        schemas.known.update({1: form.schema, 2: RegisteredSchema(JSON, "[]"), 3: RegisteredSchema("AVRO", '"long"')})
        schemas.written.update(dict.fromkeys(("features", "labels"), Written(1, form.schema)))
    return of_stream(Formats(*(form.codec,) * 3), spec.mapping(), schemas)


def _texts(rng: Random, cells: tuple[str, ...], n: int) -> list[str]:
    return [pick(rng, cells) if rng.random() < 0.6 else cells[0] for _ in range(n)]


def _rows(rng: Random, spec: Spec, n: int, typed: bool) -> Rows:
    cells = _TYPED_CELLS if typed else _CELLS
    # No type of Protobuf has a null in a list.
    in_lists = {kind: tuple(cell for cell in of if cell != "null") if typed else of for kind, of in cells.items()}
    features = [
        _texts(rng, (in_lists if isinstance(feature.path[-1], Index) else cells)[feature.type], n)
        for feature in spec.mapping().features
    ]
    y = [pick(rng, ('"UP"', '"DOWN"', '"x"' if typed else "1", None)) for _ in range(n)]
    return Rows(0, [f"i{rng.integers(50)}" for _ in range(n)], features, y)


def _valid(rng: Random, format_: str, spec: Spec, topic: str) -> list[Record]:
    """Records as a replay writes them."""
    n, codec, mapping = int(rng.integers(1, 12)), codec_of(format_, spec), spec.mapping()
    rows = _rows(rng, spec, n, _FORMATS[format_].typed)
    times = [1_700_000_000_000 + int(rng.integers(10**9)) for _ in range(n)]
    writer, in_headers = codec.writer(labels_inside=True), HeaderWriter(mapping, labels_inside=True)
    headers: Any
    if topic == "features":
        values, headers = writer.features(in_headers.inside(rows), times), in_headers.features(rows, times)
    else:
        y = [text or '"UP"' for text in rows.y]
        values, headers = writer.labels(rows.ids, y, times), in_headers.labels(rows.ids, y, times)
    join = getattr(writer, f"join_{topic}", None)
    if join is not None:
        values = [join(values)]
    more = headers if headers is not None else [[] for _ in values]
    return [(b"k", value, list(about)) for value, about in zip(values, more, strict=False)]


def _damaged(rng: Random, value: bytes) -> bytes:
    """Its bytes, or where it is JSON what it says."""
    begin = max(0, value.find(b"{")) if rng.random() < 0.5 else -1
    if begin >= 0:
        try:
            content = json.loads(value[begin:])
        except ValueError:
            pass
        else:
            for _ in range(int(rng.integers(1, 3))):
                content = mutate.of_value(rng, content)
            return value[:begin] + json.dumps(content).encode("utf-8", "surrogatepass")
    for _ in range(int(rng.integers(1, 4))):
        value = mutate.of_bytes(rng, value)
    return value


def _strange_headers(rng: Random) -> list[tuple[str, bytes | None]]:
    """An event with its context in headers, or half of one, or a schema's id."""
    found: list[tuple[str, bytes | None]] = []
    for name in _HEADERS:
        if rng.random() < 0.7:
            value = {"id": b"7", "time": b"2024-05-01T12:00:00Z", "specversion": b"1.0"}.get(name, b"application/json")
            found.append((f"ce_{name}", mutate.of_bytes(rng, value) if rng.random() < 0.2 else value))
    found.append(("content-type", pick(rng, (b"application/json", b"text/plain", None, b"\xff"))))
    found.append(("__value_schema_id", pick(rng, (b"\0\0\0\0\1", b"\0", None, b"\1" + bytes(16)))))
    return [one for one in found if rng.random() < 0.8]


class Damaged(RecordTarget):
    """A case is a batch of records of one topic of one format."""

    seconds, megabytes, budget = 10.0, 400, 100

    def __init__(self, format_: str) -> None:
        self._format = format_

    def prepare(self) -> None:
        for features in _FEATURES:
            codec_of(self._format, stream(self._format, features)).warm_up()

    def make(self, rng: Random) -> bytes:
        features = pick(rng, tuple(_FEATURES))
        spec = stream(self._format, features)
        topic = pick(rng, ("features", "features", "labels"))
        records: list[Record] = []
        while len(records) < 8:
            records += _valid(rng, self._format, spec, topic)
        damaged: list[Record] = []
        for key, value, headers in records:
            if rng.random() < 0.6 and value:
                value = _damaged(rng, value)
            if rng.random() < 0.04:
                value = pick(rng, _ODD)
            if rng.random() < 0.15:
                headers = [*headers, *_strange_headers(rng)]
            if rng.random() < 0.1:
                key = pick(rng, (None, b"", b"\xff", b"k" * 16_385))
            damaged.append((key, value, headers))
        return write(features, topic, damaged)

    def run(self, case: bytes) -> None:
        features, topic, records, _ = read(case)
        spec = stream(self._format, features)
        run = _Run(self._format, spec, topic)
        codec = run.codec
        self.n_records += len(records)
        batch = codec.unpack(topic, batch_of(records))
        run.ask(batch)
        known, found = run.decode(batch)
        unknown = {bad.reason for bad in found.rejected} - _REJECTIONS
        assert not unknown, unknown
        for bad in found.rejected:
            assert isinstance(bad.detail, str)
            assert len(bad.detail) < 1000
            bad.detail.encode()
            value = batch.values[bad.position]
            if isinstance(value, Packed):
                assert isinstance(value.one(batch.offsets[bad.position]), bytes)
        letters.check(topic, batch, found.rejected, getattr(codec.index_bits, topic))
        # One by one, and then without those that were refused: nothing of them is anywhere.
        whole = run.alone(batch, range(len(batch)))
        assert whole == _said(known, found, len(batch))
        refused = {bad.position for bad in found.rejected}
        kept = [i for i in range(len(batch)) if i not in refused]
        again = run.alone(batch, kept)
        assert (again.rows, again.texts, again.rejected) == (whole.rows, whole.texts, [])


_PLACES = (0, 1, 2, 7, 8, 255, 2**15, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 8, 2**63, 2**64 - 1)
_WORDS = (*("u", "v", "red", "", "x" * 1025, "1"), "é")


class Batches(Damaged):
    """Records of Arrow; most cases have some of one producer, of which numbers and bits are then changed."""

    def __init__(self) -> None:
        super().__init__("arrow")

    def make(self, rng: Random) -> bytes:
        if rng.random() < 0.3:
            return super().make(rng)
        topic = pick(rng, ("features", "features", "labels"))
        schema = self._schema(rng, stream("arrow", "plain"), topic)
        values = [self._written(rng, schema) for _ in range(int(rng.integers(3, 7)))]
        damaged = [values[0], *(self._changed(rng, one) if rng.random() < 0.7 else one for one in values[1:])]
        return write("plain", topic, [(b"k", value, []) for value in damaged])

    def _schema(self, rng: Random, spec: Spec, topic: str) -> Any:
        import pyarrow as pa

        words = (pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.int16())
        numbers = (pa.float64(), pa.float64(), pa.float32(), pa.float16(), pa.int8(), pa.uint16(), pa.int64())
        kinds: dict[str, Any] = {
            "numeric": (*numbers, pa.uint64(), pa.null(), pa.dictionary(pa.uint16(), pa.float64()), self._decimal(rng)),
            "boolean": (pa.bool_(),),
            "nominal": (*words, pa.bool_(), pa.dictionary(pa.uint8(), pa.int64())),
        }
        times = (pa.timestamp("ms"), pa.timestamp("ns", "UTC"), pa.int64(), pa.float64(), pa.date32())
        fields = [("id", pick(rng, (*words[:3], pa.int64(), pa.uint32()))), ("ts", pick(rng, times))]
        fields.append(("y", pick(rng, (*words, pa.bool_()))))
        if topic == "features":
            x = [pa.field(one.path[-1], pick(rng, kinds[one.type])) for one in spec.mapping().features]
            fields.append(("x", pa.struct(x)))
            fields.append(
                ("more", pick(rng, (pa.binary(), pa.duration("s"), pa.string(), pa.date64(), *self._nested(rng))))
            )
        return pa.schema([fields[i] for i in rng.permutation(len(fields))], MARKED)

    @staticmethod
    def _nested(rng: Random) -> tuple[Any, ...]:
        """Types in types, in a column that nobody maps."""
        import pyarrow as pa

        kind = pick(
            rng, (pa.float64(), pa.string(), pa.null(), pa.dictionary(pa.int8(), pa.string()), pa.decimal128(5, 2))
        )
        for _ in range(int(rng.integers(1, 5))):
            kind = pick(
                rng, (pa.list_(kind), pa.large_list(kind), pa.list_(kind, 2), pa.struct([("a", kind), ("b", kind)]))
            )
        return kind, pa.list_(pa.null(), int(pick(rng, (0, 1, 1000)))), pa.struct([])

    @staticmethod
    def _decimal(rng: Random) -> Any:
        import pyarrow as pa

        kind, most = pick(rng, ((pa.decimal128, 38), (pa.decimal256, 76)))
        return kind(5, int(pick(rng, (2, 2, 0, most, most + 1, 2**31 - 1, -3, -(2**31)))))

    def _written(self, rng: Random, schema: Any) -> bytes:
        import pyarrow as pa

        from riparian.topics.formats.arrow.columns import written

        n = int(rng.integers(1, 20))
        nulls = 0.0 if rng.random() < 0.6 else 0.2
        batch = pa.RecordBatch.from_arrays([self._array(rng, f.type, n, nulls) for f in schema], schema=schema)
        value = written(batch)
        return big_endian(value, schema) if rng.random() < 0.25 else value

    def _array(self, rng: Random, kind: Any, n: int, nulls: float) -> Any:
        import pyarrow as pa

        t = pa.types
        if t.is_struct(kind) and not kind.num_fields:
            return pa.array([{}] * n, kind)
        if t.is_struct(kind):
            parts = [self._array(rng, one.type, n, nulls) for one in kind]
            missing = pa.array(rng.random(n) < nulls) if nulls and rng.random() < 0.3 else None
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)
        if t.is_null(kind):
            return pa.nulls(n)
        if t.is_dictionary(kind):
            words = self._array(rng, kind.value_type, int(rng.integers(1, 5)), nulls / 2)
            codes = pa.array(rng.integers(0, len(words), n), mask=rng.random(n) < nulls).cast(kind.index_type)
            return pa.DictionaryArray.from_arrays(codes, words)
        if t.is_decimal(kind):
            data = rng.integers(0, 100, (n, 1)).astype("<i8").view(np.uint8)
            return pa.Array.from_buffers(
                kind, n, [None, pa.py_buffer(np.pad(data, ((0, 0), (0, kind.byte_width - 8))).tobytes())]
            )
        if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
            size = kind.list_size if t.is_fixed_size_list(kind) else 2
            return pa.array([None if rng.random() < nulls else [None] * size for _ in range(n)], kind)
        values: list[Any]
        if t.is_string(kind) or t.is_large_string(kind):
            values = [f"i{rng.integers(60)}" if rng.random() < 0.5 else pick(rng, _WORDS[:4]) for _ in range(n)]
            if rng.random() < 0.1:
                values[int(rng.integers(n))] = pick(rng, _WORDS)
        elif t.is_binary(kind):
            values = [bytes([int(rng.integers(256))]) for _ in range(n)]
        elif t.is_floating(kind):
            values = rng.normal(size=n).tolist()
            if rng.random() < 0.1:
                values[int(rng.integers(n))] = pick(rng, (float("inf"), float("nan"), -0.0, 1e300, 5e-324))
            return pa.array(values, pa.float64(), mask=rng.random(n) < nulls).cast(kind, safe=False)
        elif t.is_boolean(kind):
            values = (rng.random(n) < 0.5).tolist()
        elif t.is_date64(kind):
            values = (rng.integers(0, 99, n) * 86_400_000).tolist()
        else:
            values = rng.integers(0, 99, n).tolist()
            if rng.random() < 0.2 and t.is_integer(kind):
                width = kind.bit_width - t.is_signed_integer(kind)
                values[int(rng.integers(n))] = 2**width - 1
        made = [None if rng.random() < nulls else value for value in values]
        if t.is_integer(kind) or t.is_boolean(kind) or t.is_string(kind) or t.is_large_string(kind):
            return pa.array(made, kind)
        first = pa.binary() if t.is_binary(kind) else pa.int32() if t.is_date32(kind) else pa.int64()
        return pa.array(made, first).cast(kind, safe=False)

    def _changed(self, rng: Random, value: bytes) -> bytes:
        if rng.random() < 0.15:
            return mutate.of_bytes(rng, value)
        data = bytearray(value)
        # Most often the schema stays, or Arrow would not look at what is behind it.
        head = 8 + (int.from_bytes(data[4:8], "little") if rng.random() < 0.8 else 0)
        for _ in range(int(rng.integers(1, 4))):
            at, width = int(rng.integers(head, len(data))), int(pick(rng, (1, 1, 2, 4, 8)))
            if rng.random() < 0.7:
                at -= at % width
            number = int(pick(rng, _PLACES))
            if rng.random() < 0.5:
                number = int.from_bytes(data[at : at + width], "little") + int(pick(rng, (-8, -1, 1, 8, 64)))
            elif rng.random() < 0.3:
                number = int.from_bytes(data[at : at + width], "little") ^ 1 << int(rng.integers(8 * width))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        return bytes(data)


class _Said(NamedTuple):
    """What records were found to be: of each that was kept id, time, label and numbers; texts that were learned."""

    rows: list[Any]
    texts: list[Any]
    rejected: list[Any]


class _Run:
    """Decoders of one stream, each with vocabularies of its own."""

    def __init__(self, format_: str, spec: Spec, topic: str) -> None:
        self._format, self._spec, self._topic = format_, spec, topic
        self.codec = codec_of(format_, spec)

    def ask(self, batch: RawBatch) -> None:
        """What a registry would be asked for before: whatever else a record names is a schema of another format."""
        for positions in self.codec.unknown(self._topic, batch).values():
            for i in positions:
                batch.values[i] = None

    def _fresh(self) -> tuple[list[Vocabulary | None], Vocabulary | None]:
        return self._spec.vocabularies(), self._spec.class_vocabulary()

    def decode(self, batch: RawBatch) -> tuple[Any, Any]:
        known = self._fresh()
        return known, decode(self.codec, self._topic, batch, *known)

    def alone(self, batch: RawBatch, positions: Sequence[int]) -> _Said:
        """The records at some positions, one after the other."""
        known, rows, rejected = self._fresh(), [], []
        for i in positions:
            found = decode(self.codec, self._topic, batch.part(i, i + 1), *known)
            said = _said(known, found, 1)
            rows += said.rows
            rejected += [(i, *bad[1:]) for bad in said.rejected]
        return _Said(rows, _said(known, None, 0).texts, rejected)


def _said(known: Any, found: Any, n: int) -> _Said:
    vocabularies, classes = known
    texts = [None if one is None else one.texts for one in (*vocabularies, classes)]
    if found is None:
        return _Said([], texts, [])
    m = len(found.ids)
    y = [float("nan")] * m if found.y is None else list(map(float, found.y))
    times = [None] * m if found.times is None else found.times
    x = [row.tobytes() for row in found.x] if hasattr(found, "x") else [b""] * m
    rows = [(i, repr(v), repr(t), bits) for i, v, t, bits in zip(found.ids, y, times, x, strict=True)]
    assert len(found.rejected) + m == n
    return _Said(rows, texts, [tuple(bad) for bad in found.rejected])


TARGETS = {name: Damaged(name) for name in _FORMATS} | {"arrow": Batches()}
