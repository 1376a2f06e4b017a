"""Avro: what is read is what fastavro and the JSON codec read, whatever the schema; hostile bytes are rejected."""

import io
import json
import math
import random
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pytest

from riparian.app.errors import SpecError
from riparian.app.stream_file.spec import Spec, build
from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.formats.avro import types as avro_types
from riparian.topics.formats.avro.codec import AvroCodec
from riparian.topics.formats.common.json_text import MAX_DEPTH
from riparian.topics.formats.common.varints import MalformedError, whole
from riparian.topics.schemas import AVRO, RegisteredSchema, Schemas
from tests.topics.decoding import raw, same

STREAM = {
    "name": "s",
    "task": "classification",
    "features": {
        **{f"n{i}": "numeric" for i in range(4)},
        "b": {"type": "boolean", "from": "more.b"},
        "c": {"type": "nominal", "max_values": 50},
    },
    "record": {"time": "ts", "y": "inside"},
    "champion": "majority-class",
}


def spec_of(**fields: Any) -> Spec:
    champion = "mean" if fields.get("task") == "regression" else "majority-class"
    return build({**STREAM, "champion": champion, **fields}, "s")


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


def schema(content: Any, *references: tuple[str, Any]) -> RegisteredSchema:
    below = tuple((name, RegisteredSchema(AVRO, json.dumps(one))) for name, one in references)
    return RegisteredSchema(AVRO, json.dumps(content), below)


def encode(content: Any, value: Any, number: int = 1) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(content), value)
    return out.getvalue()


def codec_of(spec: Spec, *contents: Any) -> AvroCodec:
    schemas = Schemas()
    schemas.known.update({i: schema(content) for i, content in enumerate(contents, 1)})
    return AvroCodec(spec.mapping(), schemas)


def features(spec: Spec, codec: Any, values: list[bytes | None]) -> tuple[Any, list[Any]]:
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    found = codec.decode_features(raw(values), known, classes)
    return found, [None if v is None else v.texts for v in [*known, classes]]


def labels(spec: Spec, codec: Any, values: list[bytes | None]) -> Any:
    return codec.decode_labels(raw(values), spec.class_vocabulary())


# what is read --------------------------------------------------------------------------------------------------------


def a_schema(rng: random.Random) -> tuple[Any, Any]:
    """A schema that has what STREAM maps, in any order and among other fields, and a function that makes records."""

    def nullable(kind: Any) -> Any:
        return rng.choice(
            [kind, ["null", kind], [kind, "null"], ["null", "boolean", kind] if kind != "boolean" else kind]
        )

    def other(i: int) -> tuple[str, Any]:
        kinds: list[Any] = [
            *avro_types.PRIMITIVES,
            {"type": "array", "items": "double"},
            {"type": "map", "values": ["null", "long"]},
            {"type": "fixed", "name": f"F{i}", "size": 3},
            {"type": "enum", "name": f"E{i}", "symbols": ["A", "B"]},
            record(("u", "long"), ("v", ["null", "string"]), name=f"O{i}"),
        ]
        return f"o{i}", rng.choice(kinds)

    numbers = [
        (f"n{i}", rng.choice(["double", "float", "int", "long", ["null", "double"], ["double", "null"]]))
        for i in range(4)
    ]
    if rng.random() < 0.3:  # a row of numbers
        numbers = [(name, rng.choice(["double", ["null", "double"]])) for name, _ in numbers]
    if rng.random() < 0.3:
        numbers = [(name, numbers[0][1]) for name, _ in numbers]
    inside = [*numbers, ("c", rng.choice(["string", "long", "double", "boolean", ["null", "string", "long"]]))]
    inside += [other(10 + i) for i in range(rng.randrange(3))]
    rng.shuffle(inside)
    fields = [
        ("id", rng.choice(["string", "long", "int"])),
        ("ts", rng.choice(["long", "double", ["null", "long"]])),
        ("inside", nullable("string")),
        ("x", rng.choice([record(*inside, name="X"), ["null", record(*inside, name="X")]])),
        ("more", record(("b", nullable("boolean")), other(20), name="M")),
        *[other(i) for i in range(rng.randrange(4))],
    ]
    rng.shuffle(fields)
    content = record(*fields)
    return content, lambda: a_value(rng, content)


def a_value(rng: random.Random, kind: Any) -> Any:
    if isinstance(kind, list):
        return a_value(rng, rng.choice(kind))
    name = kind["type"] if isinstance(kind, dict) else kind
    if name == "record":
        return {f["name"]: a_value(rng, f["type"]) for f in kind["fields"]}
    made = {
        "null": lambda: None,
        "boolean": lambda: rng.random() < 0.5,
        "int": lambda: rng.randrange(-(2**31), 2**31) >> rng.randrange(32),
        "long": lambda: rng.randrange(-(2**63), 2**63) >> rng.randrange(20, 64),
        "float": lambda: struct.unpack("f", struct.pack("f", rng.random()))[0],
        "double": lambda: rng.uniform(-1e9, 1e9),
        "bytes": lambda: bytes(rng.randrange(5)),
        "string": lambda: rng.choice(["u", "v", "wé", "x" * 90]),
        "fixed": lambda: b"abc",
        "enum": lambda: rng.choice("AB"),
        "array": lambda: [rng.random() for _ in range(rng.randrange(3))],
        "map": lambda: {str(i): rng.choice([None, i]) for i in range(rng.randrange(3))},
    }
    return made[name]()


def plain(value: Any) -> Any:
    return json.dumps(value, default=lambda data: data.hex()).encode()


@pytest.mark.parametrize("seed", range(20))
def test_columns_are_those_of_the_same_records_in_json(seed: int) -> None:
    rng, spec = random.Random(seed), spec_of()
    contents, values, texts = [], [], []
    for number in range(1, 4):
        content, make = a_schema(rng)
        contents.append(content)
        for _ in range(20):
            made = make()
            values.append(encode(content, made, number))
            # What Avro read: a union of long and double, say, may have taken another branch.
            back = io.BytesIO(values[-1][5:])
            texts.append(plain(fastavro.schemaless_reader(back, fastavro.parse_schema(content), None)))
    order = rng.sample(range(60), 60)
    values, texts = [values[i] for i in order], [texts[i] for i in order]
    one, known = features(spec, codec_of(spec, *contents), values)
    other, known_too = features(spec, JsonCodec(spec.mapping()), texts)
    same(one, other)
    assert known == known_too
    # Batches of one give what one batch gives.
    codec, vocabularies, classes = codec_of(spec, *contents), spec.vocabularies(), spec.class_vocabulary()
    alone = [codec.decode_features(raw([value]), vocabularies, classes) for value in values]
    assert [one_id for found in alone for one_id in found.ids] == one.ids
    assert np.concatenate([found.x for found in alone]).tobytes() == one.x.tobytes()


@pytest.mark.parametrize("text", [False, True])
def test_bags_are_those_of_the_same_records_in_json(text: bool) -> None:
    spec = spec_of(
        task="multi-instance", features={"a": {"type": "numeric", "text": text}, "c": "nominal"},
        classes=["no", "yes"], record={"x": "bag", "max_instances": 3},
    )  # fmt: skip
    inner = record(("c", ["null", "string"]), ("a", ["null", "double"]), name="I")
    texts = record(("c", ["null", "string"]), ("a", ["null", "string"]), name="I")
    content = record(("id", "long"), ("bag", ["null", {"type": "array", "items": inner}]))
    rng = random.Random(1)
    made = [
        {"id": i, "bag": None if i % 9 == 4 else [a_value(rng, inner) for _ in range(rng.randrange(5))]}
        for i in range(80)
    ]
    if text:
        content = record(("id", "long"), ("bag", ["null", {"type": "array", "items": texts}]))
        for k, item in enumerate(item for row in made for item in row["bag"] or ()):
            item["a"] = "n/a" if k % 20 == 7 else item["a"] and repr(item["a"])
    one, known = features(spec, codec_of(spec, content), [encode(content, value) for value in made])
    other, known_too = features(spec, JsonCodec(spec.mapping()), list(map(plain, made)))
    same(one, other)
    assert known == known_too
    assert [x.reason for x in one.rejected] == [x.reason for x in other.rejected]
    assert (r.WRONG_TYPE in {x.reason for x in one.rejected}) == text
    if text:
        return
    none = encode(content, {"id": 1, "bag": []})[:-1] + b"\2" + b"\2\2x\2" + struct.pack("<d", math.inf) + b"\0"
    found, _ = features(spec, codec_of(spec, content), [none])
    assert found.rejected[0].reason == r.NOT_FINITE


def test_logical_types() -> None:
    spec = spec_of(features={"a": "numeric", "f": "numeric", "e": "nominal", "u": "nominal"}, record={"time": "ts"})
    small = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
    fixed = {"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 16, "scale": 2}
    uuid = {"type": "string", "logicalType": "uuid"}
    content = record(
        ("id", uuid), ("ts", {"type": "long", "logicalType": "timestamp-micros"}),
        ("x", record(("a", ["null", small]), ("f", fixed), ("e", {"type": "enum", "name": "E", "symbols": ["p", "q"]}),
                     ("u", uuid), name="X")),
    )  # fmt: skip
    when = datetime(1971, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
    one = "0e3e1f2a-1111-2222-3333-444455556666"
    x = {"a": Decimal("-12345678901234.567"), "f": Decimal("0.07"), "e": "q", "u": one}
    values = [
        encode(content, {"id": one, "ts": when, "x": x}),
        encode(content, {"id": one, "ts": when, "x": {**x, "a": None}}),
    ]
    found, known = features(spec, codec_of(spec, content), values)
    assert found.rejected == []
    assert found.x[0].tolist() == [-12345678901234.567, 0.07, 0.0, 0.0]
    assert np.isnan(found.x[1, 0])
    assert known[2:4] == [["q"], [one]]
    assert found.times == [when.timestamp() * 1000] * 2
    for logical, unit in (("timestamp-millis", 1), ("local-timestamp-millis", 1), ("timestamp-nanos", 1_000_000)):
        content = record(
            ("id", "string"), ("ts", {"type": "long", "logicalType": logical}), ("x", record(("a", "int"), name="X"))
        )
        raw = record(("id", "string"), ("ts", "long"), ("x", record(("a", "int"), name="X")))
        values = [encode(raw, {"id": "1", "ts": ms * unit, "x": {"a": 1}}) for ms in (5, 1_700_000_000_000)]
        assert features(spec, codec_of(spec, content), values)[0].times == [5.0, 1_700_000_000_000.0]


def connect(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "connect.version": 1, "connect.name": name}


# 2026-11-26T12:34:56.789Z in the unit of each, as an envelope of Debezium's holds it.
MOMENT = 1_795_696_496_789
CHANGE = record(
    ("before", ["null", record(
        ("order_id", "long"),
        ("total", {"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": 10}),
        ("note", ["null", "string"]),
        ("micro", connect("long", "io.debezium.time.MicroTimestamp")),
        ("nano", ["null", connect("long", "io.debezium.time.NanoTimestamp")]),
        ("ms", connect("long", "io.debezium.time.Timestamp")),
        ("both", {**connect("long", "org.apache.kafka.connect.data.Timestamp"), "logicalType": "timestamp-millis"}),
        ("day", connect("int", "io.debezium.time.Date")),
        ("clock", connect("long", "io.debezium.time.MicroTime")),
        name="Value",
    )]),
    ("after", ["null", "Value"]), ("op", "string"), ("ts_ms", ["null", "long"]), name="Envelope",
)  # fmt: skip
ORDER = {
    "order_id": 7, "total": Decimal("12.50"), "note": "n", "micro": MOMENT * 1000, "nano": MOMENT * 10**6, "ms": MOMENT,
    "both": datetime.fromtimestamp(MOMENT / 1000, UTC), "day": 20_783, "clock": 45_296_000_000,
}  # fmt: skip


@pytest.mark.parametrize("n", [1, 30])  # one by one, and as a block
@pytest.mark.parametrize("envelope", [None, "debezium"])
def test_times_that_connectors_write_are_read_in_their_unit(n: int, envelope: str | None) -> None:
    """As JSON with a schema: microseconds were beyond the year 9999, and days were taken for seconds."""
    value = encode(CHANGE, {"before": None, "after": ORDER, "op": "c", "ts_ms": 5})
    inside = "" if envelope else "after."
    more = {"envelope": envelope} if envelope else {}
    for name, ms in (
        ("micro", MOMENT),
        ("nano", MOMENT),
        ("ms", MOMENT),
        ("both", MOMENT),
        ("day", 20_783 * 86_400_000),
    ):
        fields = {"id": inside + "order_id", "x": "", "y": None, "time": inside + name, **more}
        spec = spec_of(features={"total": {"type": "numeric", "from": inside + "total"}}, record=fields)
        found, _ = features(spec, codec_of(spec, CHANGE), [value] * n)
        assert (found.ids, found.times, found.x.tolist()) == (["7"] * n, [float(ms)] * n, [[12.5]] * n)
        assert codec_of(spec).problems("features", schema(CHANGE), "S") == []
    spec = spec_of(
        features={"total": {"type": "numeric", "from": inside + "total"}}, record={**fields, "time": inside + "clock"}
    )
    found, _ = features(spec, codec_of(spec, CHANGE), [value] * n)
    assert [x.reason for x in found.rejected] == [r.WRONG_TIME] * n
    (problem,) = codec_of(spec).problems("features", schema(CHANGE), "S")
    assert problem.sentence.endswith('after.clock" of S, found a long (MicroTime); map another field')


@pytest.mark.parametrize("n", [1, 10])
def test_changes_of_debezium_are_rows(n: int) -> None:
    """As in JSON: deletes, tombstones and events that are about no row are passed over, and counted."""
    spec = spec_of(
        features={"total": "numeric", "note": "nominal", "kind": {"type": "nominal", "from": "@envelope:op"}},
        record={"id": "order_id", "x": "", "y": None, "time": "@envelope:ts_ms", "envelope": "debezium"},
        label={"id": "order_id", "y": "note", "envelope": "debezium"},
    )
    changes = [
        *({"before": None, "after": ORDER, "op": op, "ts_ms": MOMENT} for op in "cru"),
        {"before": ORDER, "after": None, "op": "d", "ts_ms": MOMENT},
        *({"before": None, "after": None, "op": op, "ts_ms": None} for op in "tc"),
        {"before": None, "after": ORDER, "op": "?", "ts_ms": None},
    ]  # fmt: skip
    values = [None, *(encode(CHANGE, change) for change in changes)] * n
    found, known = features(spec, codec_of(spec, CHANGE), values)
    assert (found.ids, found.times) == (["7"] * 3 * n, [float(MOMENT)] * 3 * n)
    assert known[1:3] == [["n"], ["c", "r", "u"]]
    wanted = [
        (r.TOMBSTONE, True), (r.DELETE, True), (r.NO_ROW, True), (r.WRONG_ENVELOPE, False), (r.WRONG_ENVELOPE, False),
    ]  # fmt: skip
    assert [(x.reason, x.ignored) for x in found.rejected] == wanted * n
    assert codec_of(spec).problems("features", schema(CHANGE), "S") == []
    of_labels = labels(spec, codec_of(spec, CHANGE), values)
    assert (of_labels.ids, [(x.reason, x.ignored) for x in of_labels.rejected]) == (["7"] * 3 * n, wanted * n)
    plain = codec_of(spec).problems("labels", schema(record(("order_id", "long"), ("total", "double"))), "S")
    assert 'label.envelope: expected the field "op" in S, found none' in [p.sentence.partition(";")[0] for p in plain]
    with pytest.raises(
        SpecError, match="remove the envelope, since Kafka Connect writes the row alone in other formats"
    ):
        spec_of(codec="avro", registry={"url": "http://r:1"}, record={"envelope": "connect"})


PLACED = record(("id", "string"), ("total", "double"), name="ev.OrderPlaced")
CANCELLED = record(("id", "string"), ("reason", "string"), name="ev.OrderCancelled")


@pytest.mark.parametrize("n", [1, 10])
@pytest.mark.parametrize("contents", [([PLACED, CANCELLED],), (PLACED, CANCELLED)])
def test_records_of_another_kind_are_no_instances_without_a_feature(n: int, contents: tuple[Any, ...]) -> None:
    """Of a union, or of a schema of their own: none of the features is in them."""
    spec = spec_of(features={"total": "numeric"}, record={"x": "", "y": None})
    bodies = [{"id": "1", "total": 2.5}, {"id": "2", "reason": "no"}]
    if len(contents) == 1:
        values = [
            encode(contents[0], (f"ev.Order{kind}", body))
            for kind, body in zip(("Placed", "Cancelled"), bodies, strict=True)
        ]
    else:
        values = [encode(content, body, i) for i, (content, body) in enumerate(zip(contents, bodies, strict=True), 1)]
    found, _ = features(spec, codec_of(spec, *contents), values * n)
    assert found.ids == ["1"] * n
    detail = f"none of the features is in ev.OrderCancelled, so it is a record of another kind (schema {len(contents)})"
    assert [(x.reason, x.detail) for x in found.rejected] == [(r.UNUSABLE_SCHEMA, detail)] * n
    # A feature in a header may be all that there is.
    spec = spec_of(
        features={"total": "numeric", "h": {"type": "nominal", "from": "@header:h"}}, record={"x": "", "y": None}
    )
    batch = raw(values, [[], [("h", b"u")]])
    assert codec_of(spec, *contents).decode_features(batch, spec.vocabularies()).ids == ["1", "2"]


def test_names_of_maps_and_types_of_references() -> None:
    spec = spec_of(features={"a": "numeric", "c": "nominal"}, record={})
    content = record(("id", "string"), ("x", {"type": "map", "values": ["null", "double", "string"]}))
    found, _ = features(spec, codec_of(spec, content), [
        encode(content, {"id": "1", "x": {"c": "u", "zzz": 1.0, "a": 2.0}}),
        encode(content, {"id": "2", "x": {"a": "text"}}),
        encode(content, {"id": "3", "x": {"a": math.nan, "c": math.inf}}),
        encode(content, {"id": "4", "x": {}}),
    ])  # fmt: skip
    assert found.ids == ["1", "4"]
    assert found.x[0].tolist() == [2.0, 0.0]
    assert [x.reason for x in found.rejected] == [r.WRONG_TYPE, r.NOT_FINITE]
    schemas = Schemas()
    x = record(("a", "double"), ("c", "string"), name="com.shop.X")
    schemas.known[1] = schema(record(("id", "string"), ("x", "com.shop.X")), ("com.shop.X", x))
    value = b"\0\0\0\0\1" + b"\x02" + b"1" + struct.pack("<d", 3.0) + b"\x02v"
    found, _ = features(spec, AvroCodec(spec.mapping(), schemas), [value])
    assert found.x.tolist() == [[3.0, 0.0]]


def test_places_in_arrays() -> None:
    feature = {"a": {"type": "numeric", "from": "items[1].price"}, "c": {"type": "nominal", "from": "words[0]"}}
    spec = spec_of(features=feature, record={})
    item = record(("price", ["null", "double"]), name="I")
    words = ["null", {"type": "array", "items": "string"}]
    content = record(("id", "string"), ("items", {"type": "array", "items": item}), ("words", words))
    made: list[Any] = [
        {"id": "1", "items": [{"price": 1.0}, {"price": 2.0}], "words": ["u"]},
        {"id": "2", "items": [{"price": 1.0}], "words": []},
        {"id": "3", "items": [], "words": None},
    ]
    one, known = features(spec, codec_of(spec, content), [encode(content, value) for value in made])
    other, known_too = features(spec, JsonCodec(spec.mapping()), list(map(plain, made)))
    same(one, other)
    assert known == known_too
    assert one.x[0].tolist() == [2.0, 0.0]


def test_schemas_may_change_from_one_record_to_the_next() -> None:
    """A field comes, goes, moves and changes its type; what a schema lacks is missing."""
    spec = spec_of(features={"a": "numeric", "c": "nominal"}, record={})
    contents = [
        record(("id", "string"), ("x", record(("a", "double"), name="X"))),
        record(("new", "string"), ("x", record(("c", "string"), ("a", ["null", "int"]), name="X")), ("id", "long")),
        record(("id", "string"), ("x", record(("c", "string"), name="X"))),
        record(("id", "string"), ("x", record(("a", "string"), name="X"))),
        record(("id", "string"), ("other", "long")),
    ]
    made: list[Any] = [
        {"id": "1", "x": {"a": 1.5}}, {"new": "?", "x": {"c": "u", "a": 2}, "id": 2}, {"id": "3", "x": {"c": "v"}},
        {"id": "4", "x": {"a": "1.5"}}, {"id": "5", "other": 1},
    ]  # fmt: skip
    values = [encode(c, value, i) for i, (c, value) in enumerate(zip(contents, made, strict=True), 1)]
    found, _ = features(spec, codec_of(spec, *contents), values * 2)
    assert found.ids == ["1", "2", "3"] * 2
    np.testing.assert_array_equal(found.x[:3], [[1.5, math.nan], [2.0, 0.0], [math.nan, 1.0]])
    assert [x.reason for x in found.rejected] == [r.WRONG_TYPE, r.MISSING_X] * 2
    assert (
        found.rejected[0].detail
        == "x.a: expected a number, found a string; `text: true` takes numbers that are texts (schema 4)"
    )


def test_targets_are_finite_numbers() -> None:
    spec = spec_of(task="regression", features={"a": "numeric"}, record={})
    content = record(("id", "string"), ("y", ["null", "double", "int", "string"]))
    said = [1.5, 3, math.nan, math.inf, None, "1"]
    found = labels(spec, codec_of(spec, content), [encode(content, {"id": str(i), "y": y}) for i, y in enumerate(said)])
    assert found.ids == ["0", "1", "2", "4"]
    np.testing.assert_array_equal(found.y, [1.5, 3.0, math.nan, math.nan])  # NaN is null
    assert [x.reason for x in found.rejected] == [r.NOT_FINITE, r.WRONG_LABEL]
    bare = record(("id", "string"))
    assert [x.reason for x in labels(spec, codec_of(spec, bare), [encode(bare, {"id": "1"})]).rejected] == [
        r.WRONG_LABEL
    ]


# what is refused -----------------------------------------------------------------------------------------------------

CONTENT = record(
    ("id", "string"), ("ts", "long"), ("inside", ["null", "string"]),
    ("x", record(*((f"n{i}", ["null", "double"]) for i in range(4)), ("c", "string"), name="X")),
    ("more", record(("b", "boolean"), name="M")), ("list", {"type": "array", "items": "double"}),
    ("names", {"type": "map", "values": "long"}), ("next", ["null", "R"]),
)  # fmt: skip
GOOD = {
    "id": "7", "ts": 1, "inside": "yes", "x": {"n0": 1.0, "n1": None, "n2": 2.0, "n3": 3.0, "c": "u"},
    "more": {"b": True}, "list": [1.0, 2.0], "names": {"a": 1}, "next": None,
}  # fmt: skip
HEAD = b"\0\0\0\0\1"


def reason(value: bytes, content: Any = CONTENT, **fields: Any) -> str | None:
    spec = spec_of(**fields)
    found, known = features(spec, codec_of(spec, content), [value])
    if found.rejected:
        assert not any(known[i] for i in (5, 6)), "a rejected record has left a trace"
    return found.rejected[0].reason if found.rejected else None


def deep(levels: int) -> bytes:
    """A record in a record in a record."""
    body = encode(CONTENT, GOOD)[5:-1]
    return HEAD + (body + b"\2") * levels + body + b"\0"


def test_a_value_at_the_greatest_depth_is_passed_over() -> None:
    kind = avro_types.parse(RegisteredSchema(AVRO, '"long"'))
    assert kind.skip(b"\2", 0, MAX_DEPTH) == 1
    with pytest.raises(avro_types.TooDeepError):
        kind.skip(b"\2", 0, MAX_DEPTH + 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (encode(CONTENT, GOOD), None),
        (deep(99), None),
        (deep(100), r.TOO_DEEP),
        (deep(1500), r.TOO_DEEP),
        (b"", r.EMPTY),
        (HEAD, r.MALFORMED),
        (encode(CONTENT, GOOD)[:-22] + whole(2**60) + b"\0\0", r.MALFORMED),  # 2^60 numbers
    ],
)  # fmt: skip
def test_hostile_bytes_are_rejected_with_their_reason(value: bytes, expected: str | None) -> None:
    assert reason(value) == expected


@pytest.mark.parametrize("name", [7, None, ["x"], {"a": 1}])
def test_names_that_are_no_text_make_a_schema_unusable(name: Any) -> None:
    """Fastavro takes them."""
    fields: list[Any] = [{"name": "id", "type": "string"}, {"name": name, "type": "double"}]
    assert reason(HEAD + b"\x027" + bytes(8), {"type": "record", "name": "R", "fields": fields}) == r.UNUSABLE_SCHEMA
    fields[1] = {"name": "e", "type": {"type": "enum", "name": "E", "symbols": [name]}}
    assert reason(HEAD + b"\x027\0", {"type": "record", "name": "R", "fields": fields}) == r.UNUSABLE_SCHEMA


def test_lists_of_nothing_take_no_time_and_no_room() -> None:
    """2^62 nulls are eleven bytes."""
    content = record(
        ("id", "string"), ("bomb", {"type": "array", "items": "null"}), ("x", record(("n0", "int"), name="X"))
    )
    assert reason(HEAD + b"\x027" + whole(2**62) + b"\0" + b"\2", content, record={}) is None
    mapped = spec_of(
        task="multi-instance", features={"a": "numeric"}, classes=["no", "yes"], record={"x": "bag"}
    )  # fmt: skip
    content = record(("id", "string"), ("bag", {"type": "array", "items": record(name="I")}))
    found, _ = features(mapped, codec_of(mapped, content), [HEAD + b"\x027" + whole(2**62) + b"\0"])
    assert found.rejected[0].reason == r.WRONG_TYPE


def nested(leaf: Any, levels: int) -> Any:
    """A type that has the one before twice, so many times over: 2^60 values in a few thousand bytes of schema."""
    kind = leaf
    for i in range(levels):
        kind = record(("p", kind), ("q", kind["name"]), name=f"N{i}")
    return kind


@pytest.mark.parametrize(
    "leaf", [record(("v", "null"), name="T"), record(name="T"), {"type": "fixed", "name": "T", "size": 0}]
)
@pytest.mark.parametrize("n", [1, 30])  # one by one, and as a block
def test_types_of_nothing_take_no_time_and_no_room(leaf: Any, n: int) -> None:
    """In a field that nobody maps, in lists and maps, in branches, and on the way to a feature."""
    kind = nested(leaf, 60)
    lists = {"type": "array", "items": "N59"}, {"type": "map", "values": "N59"}
    x = record(("n0", "int"), ("t", kind), name="X")
    content = record(
        ("id", "string"), ("x", x), ("lists", {"type": "array", "items": lists[0]}), ("o", lists[1]),
        ("u", ["null", "N59"]),
    )  # fmt: skip
    body = b"\x027" + b"\2" + (b"\2" + whole(2**62) + b"\0\0") + (b"\2\2k\0") + b"\2"
    spec = spec_of(features={"n0": "numeric", "a": {"type": "numeric", "from": "o.k.p.q.v"}}, record={})
    found, _ = features(spec, codec_of(spec, content), [HEAD + body] * n)
    assert found.rejected == []
    np.testing.assert_array_equal(found.x, [[1.0, math.nan]] * n)


def test_a_record_of_one_value_costs_no_more_than_the_value() -> None:
    """So steps are in proportion to bytes: a list of 100,000 of these took 21 s, one within the other 190 times."""
    kind: Any = record(("v", "int"), name="C0")
    for i in range(1, 60):
        kind = record(("nothing", "null"), ("p", kind), name=f"C{i}")
    assert avro_types.parse(schema(kind)).whole.kind == avro_types.INT
    content = record(("id", "string"), ("x", record(("n0", "int"), name="X")), ("l", {"type": "array", "items": kind}))
    body = b"\x027\2" + whole(3) + b"\2\4\6" + b"\0"
    assert reason(HEAD + body, content, record={}) is None
    itself = record(
        ("id", "string"), ("x", record(("n0", "int"), name="X")), ("u", ["null", record(("r", "I"), name="I")])
    )
    assert reason(HEAD + b"\x027\2\0", itself, record={}) is None
    assert reason(HEAD + b"\x027\2\2", itself, record={}) == r.TOO_DEEP


@pytest.mark.parametrize("size", [2**31, 2**63, 2**64, 10**300, 1.5, True, "1"])
@pytest.mark.parametrize("n", [1, 30])
def test_fixed_of_an_enormous_size_make_a_schema_unusable(size: Any, n: int) -> None:
    kinds = ["null", {"type": "fixed", "name": "F", "size": size}]
    spec, content = spec_of(record={}), record(("id", "string"), ("x", record(("n0", "int"), name="X")), ("u", kinds))
    schemas = Schemas()
    schemas.known[1] = schema(content)
    found, _ = features(spec, AvroCodec(spec.mapping(), schemas), [HEAD + b"\x027\2\0"] * n)
    assert [x.reason for x in found.rejected] == [r.UNUSABLE_SCHEMA] * n


def test_decimals_of_an_enormous_scale_make_a_schema_unusable() -> None:
    """Ten to its power would take minutes, and 400 MB."""
    number = {"type": "bytes", "logicalType": "decimal", "precision": 10**9, "scale": 10**9}
    content = record(("id", "string"), ("x", record(("n0", number), name="X")))
    assert reason(HEAD + b"\x027" + b"\2\7", content, record={}) == r.UNUSABLE_SCHEMA
    number |= {"scale": 1000}
    assert reason(HEAD + b"\x027" + b"\2\7", content, record={}) is None
    number |= {"scale": 2.5}
    assert reason(HEAD + b"\x027" + b"\2\7", content, record={}) == r.UNUSABLE_SCHEMA


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"nothing"',
        '{"type": "record"}',
        "[" * 100_000,
        '{"type":"fixed","name":"f","size":-1}',
        "7",
        '{"type":"array","items":' * 120 + '"int"' + "}" * 120,
        "[" + ",".join(['"int"'] * 100_001) + "]",
        '{"type":"int","logicalType":["a"]}',
        '{"type":"int","logicalType":"' + "x" * 900_000 + '"}',
    ],
)
def test_a_schema_that_is_none_rejects_its_records(text: str) -> None:
    spec, schemas = spec_of(), Schemas()
    schemas.known[1] = RegisteredSchema(AVRO, text)
    found, _ = features(spec, AvroCodec(spec.mapping(), schemas), [HEAD + b"abc"])
    assert found.rejected[0].reason in (r.UNUSABLE_SCHEMA, r.MALFORMED, r.WRONG_TYPE), found.rejected


def test_nothing_of_a_schema_becomes_part_of_a_program() -> None:
    name, spec = "x'];import os;raise SystemExit(3)#", spec_of(features={"a": "numeric"}, record={"x": ""})
    content = {"type": "record", "name": "R", "fields": [
        {"name": "id", "type": "string"}, {"name": "a", "type": "double"},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"], "doc": name}, "doc": name},
    ]}  # fmt: skip
    found, _ = features(spec, codec_of(spec, content), [HEAD + b"\x02k" + struct.pack("<d", 1.0) + b"\0"])
    assert found.x.tolist() == [[1.0]]


def test_mutated_bytes_are_read_as_the_slow_reader_reads_them() -> None:
    """Bit by bit and byte by byte: what the made reader accepts, the reader of values accepts, and reads the same."""
    spec, rng = spec_of(), random.Random(5)
    kind, good = avro_types.parse(schema(CONTENT)), encode(CONTENT, GOOD)
    n = 0
    for _ in range(600):
        value = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(5, len(value))
            value[at : at + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(2)))
            value += b"\0" * (6 - len(value))
        data = bytes(value)
        found, _ = features(spec, codec_of(spec, CONTENT), [data])
        try:
            read, p = kind.value(data, 5, 0)
            fits = p == len(data)
        except (MalformedError, avro_types.TooDeepError, IndexError, struct.error, UnicodeDecodeError):
            fits = False
        if found.ids:
            n += 1
            # It passes over texts that nobody maps without looking at their bytes.
            if fits:
                told, _ = features(spec, JsonCodec(spec.mapping()), [plain(read)])
                np.testing.assert_array_equal(found.x, told.x if told.ids else np.nan)
        else:
            assert not fits or found.rejected[0].reason != r.MALFORMED
    assert n > 20


# what does not fit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        (CONTENT, []),
        (
            record(
                ("id", "double"),
                ("x", record(("n0", "string"), ("c", ["null", "bytes", "string"]), ("N1", "int"), name="X")),
            ),
            [
                'record.id: expected a text or a whole number at "id" of schema 7, found a double; map another field',
                'record.time: expected the field "ts" in schema 7, found none; name a field that it has',
                'record.y: expected the field "inside" in schema 7, found none; name a field that it has',
                'features.n0: expected a number at "x.n0" of schema 7, found a string; declare the feature of another '
                "type, or map another field by from; `text: true` takes numbers that are texts",
                'features.n1: expected the field "x.n1" in schema 7, found none; name a field that it has',
                'features.n2: expected the field "x.n2" in schema 7, found none; name a field that it has',
                'features.n3: expected the field "x.n3" in schema 7, found none; name a field that it has',
                'features.b: expected the field "more.b" in schema 7, found none; name a field that it has',
                'features.c: expected a text, an enum, a number or a boolean at "x.c" of schema 7, found a bytes; '
                "records with that are rejected; map another field",
            ],
        ),
    ],
)  # fmt: skip
def test_what_a_schema_lacks_is_a_sentence_each(content: Any, sentences: list[str]) -> None:
    spec = spec_of()
    found = codec_of(spec).problems("features", schema(content), "schema 7")
    assert [problem.sentence for problem in found] == sentences
