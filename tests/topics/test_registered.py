"""The formats of a schema registry, each by the same tests: what is read is what the JSON codec reads of the same
records, predictions hold what they hold in JSON, and hostile bytes are rejected."""

import hashlib
import io
import json
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import numpy as np
import pytest
from google.protobuf import json_format

from riparian.app.stream_file.spec import Spec, build
from riparian.topics import records as r
from riparian.topics.codecs import CODECS, JsonCodec
from riparian.topics.formats.avro import predictions as avro_predictions
from riparian.topics.formats.common.framing import HEADER
from riparian.topics.formats.json_schema import codec as json_schema
from riparian.topics.formats.protobuf import predictions as protobuf_predictions
from riparian.topics.formats.protobuf.types import MessageTypes, class_of
from riparian.topics.places import IndexBits
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Unknown
from riparian.topics.schemas import (
    AVRO,
    JSON,
    PROTOBUF,
    RegisteredSchema,
    Schemas,
    UnknownSchemaError,
    UnusableError,
    Written,
)
from tests.topics.decoding import raw, same
from tests.topics.test_avro import STREAM, features, labels, plain, record, spec_of

GUID = UUID(int=7)
TEXT, NUMBER = ["null", "string"], ["null", "double"]
ROW = record(
    ("id", "string"), ("ts", ["null", "long"]), ("inside", TEXT), ("y", TEXT),
    ("x", ["null", record(*((f"n{i}", NUMBER) for i in range(4)), ("c", TEXT), name="X")]),
    ("more", ["null", record(("b", ["null", "boolean"]), name="M")]),
)  # fmt: skip


def as_avro(value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ROW), value)
    return out.getvalue()


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


DRAFT_ROW = of(
    id={"type": "string"}, ts={"type": ["null", "integer"]}, inside={"type": ["null", "string"]},
    y={"oneOf": [{"type": "null"}, {"type": "string"}]},
    x=of(c={"$ref": "#/$defs/text"}, **{f"n{i}": {"type": ["null", "number"]} for i in range(4)}),
    more=of(b={"type": ["boolean", "null"]}),
) | {"$defs": {"text": {"type": ["null", "string"]}}}  # fmt: skip


PROTO_ROW = """syntax = "proto3";
message Row {
  string id = 1; optional int64 ts = 2; optional string inside = 3; optional string y = 4; X x = 5; More more = 6;
  message X { NUMBERS optional string c = 9; }
  message More { optional bool b = 1; }
}""".replace("NUMBERS", " ".join(f"optional double n{i} = {i + 1};" for i in range(4)))
ROW_MESSAGE = class_of(MessageTypes(RegisteredSchema(PROTOBUF, PROTO_ROW)).named("Row"))


def as_protobuf(value: Any) -> bytes:
    message = json_format.Parse(json.dumps(value), ROW_MESSAGE())
    return b"\0" + bytes(message.SerializeToString())


class Kit(NamedTuple):
    """A format. row : the schema of `a_row`. encode : a row -> its bytes. foreign : a schema of another format. junk :
    bytes that are no row. read : reads a prediction by other means."""

    row: RegisteredSchema
    encode: Callable[[Any], bytes]
    foreign: RegisteredSchema
    junk: list[bytes]
    malformed: str
    prediction: RegisteredSchema
    read: Callable[[bytes], Any]

    def value(self, row: Any, number: int = 1) -> bytes:
        return b"\0" + number.to_bytes(4, "big") + self.encode(row)


SHARED = ("learned_offset",)  # the further places of a stream whose partitions learn one model


def said_by(module: Any, more: int, further: tuple[str, ...]) -> RegisteredSchema:
    """The schema of predictions that say more (1), and why (2)."""
    return module.schemas_of(further)[more]  # type: ignore[no-any-return]


def read_avro(value: bytes, more: int = 0, further: tuple[str, ...] = ()) -> Any:
    schema = said_by(avro_predictions, more, further)
    parsed = fastavro.parse_schema(json.loads(schema.text))
    told: Any = fastavro.schemaless_reader(io.BytesIO(value), parsed, None)
    if told.get("reasons") is not None:
        told["reasons"] = {one["feature"]: one["value"] for one in told["reasons"]}
    return told


def read_json(value: bytes, more: int = 0, further: tuple[str, ...] = ()) -> Any:
    read = json.loads(value)
    content = json.loads(said_by(json_schema, more, further).text)
    jsonschema = pytest.importorskip("jsonschema")  # here, and not in each process that collects this file
    jsonschema.Draft7Validator(content).validate(read)
    assert set(read) <= set(content["properties"])
    return read


def read_protobuf(value: bytes, more: int = 0, further: tuple[str, ...] = ()) -> Any:
    """By protobuf's own way to JSON."""
    assert value[:1] == b"\0"
    schema = said_by(protobuf_predictions, more, further)
    message = class_of(MessageTypes(schema).named("riparian.Prediction"))
    told = json_format.MessageToDict(message.FromString(value[1:]), preserving_proto_field_name=True)
    told |= {name: int(told[name]) for name in ("offset", "label_offset", *further)}
    for part in (told, *told.get("challengers", {}).values()):
        said = {name: part.pop(name) for name in list(part) if name.startswith("y_")}
        part["y"] = int(said["y_int"]) if "y_int" in said else next(iter(said.values()), None)
    if "reasons" in told:
        told["reasons"] = {one["feature"]: one.get("value", 0.0) for one in told["reasons"]}
    for i, one in enumerate(told.get("set", ())):
        told["set"][i] = int(one["y_int"]) if "y_int" in one else next(iter(one.values()))
    return told


KITS = {
    "avro": Kit(
        RegisteredSchema(AVRO, json.dumps(ROW)), as_avro, RegisteredSchema(JSON, "{}"), [b"\xff" * 4, b"\2"],
        r.MALFORMED, avro_predictions.schemas_of()[0], read_avro,
    ),
    "json-schema": Kit(
        RegisteredSchema(JSON, json.dumps(DRAFT_ROW)), plain, RegisteredSchema(AVRO, '"string"'), [b"{", b"", b"[]x"],
        r.NOT_JSON, json_schema.schemas_of()[0], read_json,
    ),
    "protobuf": Kit(
        RegisteredSchema(PROTOBUF, PROTO_ROW), as_protobuf, RegisteredSchema(AVRO, '"string"'),
        [b"", b"\0\xff", b"\0\x0a\5ab", b"\2\2\x0a\0", b"\4\0", b"\xff" * 30, b"\1", b"\0\x0b"], r.MALFORMED,
        protobuf_predictions.schemas_of()[0], read_protobuf,
    ),
}  # fmt: skip


@pytest.fixture(params=list(KITS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def kit(name: str) -> Kit:
    return KITS[name]


def codec_of(name: str, spec: Spec, more: dict[Any, RegisteredSchema] | None = None) -> Any:
    schemas = Schemas()
    schemas.known.update({1: KITS[name].row, 2: KITS[name].row, str(GUID): KITS[name].row, **(more or {})})
    return CODECS[name](spec.mapping(), schemas)


def a_row(rng: random.Random) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    x = {f"n{i}": maybe(rng.uniform(-1e9, 1e9)) for i in range(4)}
    return {
        "id": f"i{rng.randrange(1000)}", "ts": maybe(rng.randrange(2**41)), "inside": maybe(rng.choice("ab")),
        "y": maybe(rng.choice("ab")), "x": {**x, "c": maybe(rng.choice(["u", "wé", "z" * 200, ""]))},
        "more": {"b": maybe(rng.random() < 0.5)},
    }  # fmt: skip


# what is read --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_columns_are_those_of_the_same_records_in_json(name: str, kit: Kit, seed: int) -> None:
    rng, spec = random.Random(seed), spec_of()
    rows = [a_row(rng) for _ in range(80)]
    if seed:  # in most batches something is unusual
        rows[3]["x"] = None
        rows[5]["id"] = ""
    values = [kit.value(row, rng.choice([1, 2])) for row in rows]
    one, known = features(spec, codec_of(name, spec), values)
    other, known_too = features(spec, JsonCodec(spec.mapping()), list(map(plain, rows)))
    same(one, other)
    assert known == known_too
    assert [bad.reason for bad in one.rejected] == [bad.reason for bad in other.rejected]
    codec, vocabularies, classes = codec_of(name, spec), spec.vocabularies(), spec.class_vocabulary()
    alone = [codec.decode_features(raw([value]), vocabularies, classes) for value in values]
    assert [one_id for found in alone for one_id in found.ids] == one.ids
    assert np.concatenate([found.x for found in alone]).tobytes() == one.x.tobytes()
    same(labels(spec, codec, values), labels(spec, JsonCodec(spec.mapping()), list(map(plain, rows))))


def test_a_schema_is_named_by_number_or_guid_in_the_value_or_in_a_header(name: str, kit: Kit) -> None:
    spec, row = spec_of(), a_row(random.Random(1))
    body, number, guid = kit.encode(row), b"\0\0\0\0\1", b"\1" + GUID.bytes
    given: list[tuple[bytes, Any]] = [
        (number + body, []), (guid + body, []), (body, [(HEADER, number)]), (body, [(HEADER, guid), ("other", b"1")]),
        (number + body, [(HEADER, None)]), (number + body, [("other", guid)]), (number + body, [(HEADER, b"\0\0")]),
        (number + body, [(HEADER, number + b"?")]),
    ]  # fmt: skip
    values, headers = [value for value, _ in given], [about for _, about in given]
    records = raw(values, headers)
    codec = codec_of(name, spec)
    assert codec.unknown("features", records) == {}
    found = codec.decode_features(records, spec.vocabularies(), spec.class_vocabulary())
    assert found.ids == [row["id"]] * len(given), found.rejected


def test_what_is_wrong_about_a_value_leaves_the_next_ones_alone(name: str, kit: Kit) -> None:
    row = a_row(random.Random(2))
    spec, good = spec_of(record={"max_bytes": 2000, "y": "inside", "time": "ts"}), kit.value(row)
    other = b"\0\0\0\0\3" + good[5:]
    odd = {
        None: r.TOMBSTONE, b"": r.EMPTY, b"{}": r.NO_SCHEMA_ID, b"\0\0\0": r.NO_SCHEMA_ID,
        b"\0" + (1).to_bytes(8, "big") + good[5:]: r.NO_SCHEMA_ID,
        b"\1" + bytes(15): r.NO_SCHEMA_ID, other: r.UNUSABLE_SCHEMA, Unknown(good): r.UNKNOWN_SCHEMA,
        good + bytes(2000): r.TOO_LARGE, **{good[:5] + junk: kit.malformed for junk in kit.junk},
    }  # fmt: skip
    for values in ([v for one in odd for v in (good, one)], list(odd)):
        found, _ = features(spec, codec_of(name, spec, {3: kit.foreign}), values)
        assert found.ids == [row["id"]] * (len(values) - len(odd))
        assert [x.reason for x in found.rejected] == list(odd.values())
    for one, reason in odd.items():
        assert [x.reason for x in features(spec, codec_of(name, spec, {3: kit.foreign}), [one])[0].rejected] == [reason]


def test_ids_of_eight_bytes_are_said_to_be_some(name: str, kit: Kit) -> None:
    """Apicurio's own serializers write them until 3.0; four zero bytes first are no id of four bytes."""
    spec, codec, value = (
        spec_of(),
        codec_of(name, spec_of()),
        b"\0" + (5).to_bytes(8, "big") + kit.value(a_row(random.Random(2)))[5:],
    )
    assert codec.unknown("features", raw([value])) == {}
    found, _ = features(spec, codec, [value] * 5)
    assert {(x.reason, "io.apicurio.registry.serde.Legacy4ByteIdHandler" in x.detail) for x in found.rejected} == {
        (r.NO_SCHEMA_ID, True)
    }
    assert len(found.rejected) == 5


def test_a_schema_that_nobody_asked_for_is_a_mistake_of_the_program(name: str, kit: Kit) -> None:
    spec, row = spec_of(), a_row(random.Random(3))
    codec, good, other = codec_of(name, spec), kit.value(row), kit.value(row, 9)
    assert codec.unknown("features", raw([good, None, b"", b"x", Unknown(other)])) == {}
    assert codec.unknown("labels", raw([other, good, other, b"\1" + bytes(20)])) == {
        9: [0, 2], "00000000-0000-0000-0000-000000000000": [3],
    }  # fmt: skip
    with pytest.raises(UnknownSchemaError, match="schema 9"):
        codec.decode_features(raw([other]), spec.vocabularies(), spec.class_vocabulary())


def test_the_schema_of_its_rows_fits_the_stream(name: str, kit: Kit) -> None:
    codec = codec_of(name, spec_of())
    assert codec.problems("features", kit.row, "schema 7") == []
    assert codec.problems("labels", kit.row, "schema 7") == []
    with pytest.raises(UnusableError, match=f"it is a schema of {kit.foreign.kind}, not of {kit.row.kind}"):
        codec.problems("labels", kit.foreign, "schema 7")
    spec = spec_of(record={"id": "x.n0"}, features={"a": {"type": "numeric", "from": "x.c"}, "z": "numeric"})
    found = codec_of(name, spec).problems("features", kit.row, "schema 7")
    assert [(problem.slot.owner, problem.missing) for problem in found] == [
        ("record.id", False), ("features.a", False), ("features.z", True),
    ]  # fmt: skip
    assert 'found none; did you mean "' not in found[1].sentence


# predictions ---------------------------------------------------------------------------------------------------------


def written(name: str, spec: Spec, number: int = 77) -> Any:
    schemas = Schemas()
    codec = CODECS[name](spec.mapping(), schemas)
    assert codec.prediction is not None
    schemas.written["predictions"] = Written(number, codec.prediction)
    return codec


def normal(prediction: dict[str, Any]) -> dict[str, Any]:
    """A prediction as every format can say it."""
    if prediction.get("challengers", True) is None:
        del prediction["challengers"]
    for name in [name for name in ("lower", "upper", "set", "reasons") if prediction.get(name, 0) is None]:
        del prediction[name]
    if "set" in prediction:
        prediction["set"] = [str(one) if one == 2**70 else one for one in prediction["set"]]
    for part in (prediction, *prediction.get("challengers", {}).values()):
        part.setdefault("p", None)
        if part.get("alert", 0) is None:
            del part["alert"]
        if part["y"] == 2**70:
            part["y"] = str(2**70)
    return prediction


def both(
    name: str, kit: Kit, spec: Spec, columns: PredictionColumns, more: int = 0, further: tuple[str, ...] = ()
) -> tuple[list[bytes], list[Any]]:
    """What a codec writes, and what each prediction says: the same as in JSON, to the codec and to others.

    more : of the schema, as `said_by` has it.
    """
    one, json_codec = written(name, spec), JsonCodec(spec.mapping())
    values, others = (list(codec.encode_predictions(columns)) for codec in (one, json_codec))
    said = [normal(json.loads(other)) for other in others]
    for value, other, told in zip(values, others, said, strict=True):
        assert value[:5] == b"\0\0\0\0\x4d"
        assert normal(one.read_prediction(value)) == told
        assert normal(kit.read(value[5:], more, further)) == told
        places = (codec.read_place(raw).places(IndexBits()) for codec, raw in ((one, value), (json_codec, other)))
        assert len({*places}) == 1
    return values, said


WHY = [{"n0": 0.25, 'é"c': -0.125}, None, {"b": 0.0}]


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize(
    ("asked", "more", "why"),
    [(False, False, False), (True, False, False), (True, True, False), (True, True, True), (True, False, True)],
)
def test_predictions_are_those_of_json(name: str, kit: Kit, task: str, asked: bool, more: bool, why: bool) -> None:
    """Those with intervals, sets and reasons by a schema of their own."""
    given = {**({"coverage": 0.9} if more else {}), **({"reasons": 2} if why else {})}
    spec, rng = spec_of(task=task, predictions=given), np.random.default_rng(0)
    classes = spec.class_vocabulary()
    for value in ("up", 3, True, 'a"b', 2**70, 1.5):
        if classes is not None:
            classes.code(value)
    p = rng.random((50, 8))
    said = rng.normal(size=(50, 2)) if classes is None else (rng.random((50, 8)) < 0.4).astype(float)
    p[7] = 0.0 if classes is not None else math.nan
    said[7] = math.nan if classes is None else 0.0
    challengers = {"nb": rng.random((50, 8)), "none": np.zeros((50, 8))} if asked else None
    decided = {"champion": np.where(np.arange(50) % 3 > 0, np.arange(50) % 6.0, np.nan), "nb": np.full(50, 2.0)}
    args = [f"i{i}é" for i in range(50)], p, classes, "tree", np.arange(50) * 1000, np.arange(50)
    options: dict[str, Any] = {"probabilities": asked, "challengers": challengers, "regions": said if more else None}
    options |= {"decided": decided if classes is not None and not given else None}
    options |= {"reasons": [WHY[i % 3] for i in range(50)] if why else None}
    _, told = both(name, kit, spec, PredictionColumns(*args, **options), 2 if why else int(more))
    assert classes is None or given or [one["y"] for one in told[1:3]] == [3, True]
    one = written(name, spec)
    assert (one.prediction == kit.prediction) == (not given)
    # What was written before they were asked for is read by the same codec.
    before = written(name, spec_of(task=task)).encode_predictions(PredictionColumns(*args))
    plain = JsonCodec(spec.mapping()).encode_predictions(PredictionColumns(*args))
    assert normal(one.read_prediction(before[0])) == normal(json.loads(plain[0]))


def test_alerts_are_those_of_json_by_a_schema_of_their_own(name: str, kit: Kit) -> None:
    plain = {"task": "anomaly", "champion": "half-space-trees"}
    spec, rng = spec_of(**plain, decision={"alert_rate": 0.1}), np.random.default_rng(0)
    p = rng.random((50, 1))
    p[7] = math.nan
    args = [f"i{i}" for i in range(50)], p, None, "trees", np.arange(50) * 1000, np.arange(50)
    said = np.array([0.0, 1.0, math.nan])[np.arange(50) % 3]
    options: dict[str, Any] = {"challengers": {"nb": p, "forest": rng.random((50, 1)), "undecided": p}}
    decided = {"champion": said, "nb": 1.0 - said, "forest": said[::-1]}
    values, found = both(name, kit, spec, PredictionColumns(*args, **options, decided=decided), 3)
    today = written(name, spec_of(**plain), 78)  # of a stream that writes by another schema
    for i, (value, told) in enumerate(zip(values, found, strict=True)):
        assert told.get("alert") == (None if i % 3 == 2 or i == 7 else i % 3 == 1)
        assert told["challengers"]["nb"].get("alert") == (None if i % 3 == 2 or i == 7 else i % 3 == 0)
        assert told["challengers"]["forest"].get("alert") == (None if math.isnan(said[49 - i]) else said[49 - i] == 1.0)
        assert "alert" not in told["challengers"]["undecided"]
        assert normal(today.read_prediction(value)) == told
    values, found = both(name, kit, spec_of(**plain), PredictionColumns(*args, **options))
    one = written(name, spec)
    assert one.prediction not in (None, kit.prediction)
    assert [normal(one.read_prediction(value)) for value in values] == found


def test_features_over_the_past_are_those_of_json_by_a_schema_of_their_own(name: str, kit: Kit) -> None:
    keys = {"keys": {"card": {"max": 9}}, "predictions": {"features": True}}
    spec = spec_of(**keys, features={**STREAM["features"], "n": {"count": "card"}, "since": {"since": "card"}})
    p = np.random.default_rng(0).random((9, 1))
    args = [f"i{i}" for i in range(9)], p, None, "mean", np.arange(9) * 1000, np.arange(9)
    made = [{"n": i + 1.0, **({"since": i / 3} if i else {})} for i in range(9)]
    for more in ({}, {"regions": np.tile([0.5, 1.5], (9, 1))}, {"challengers": {"nb": p}}):
        values, found = both(name, kit, spec, PredictionColumns(*args, features=made, **more), 4)
        assert [one["features"] for one in found] == made
        today = written(name, spec_of(), 78)  # of a stream that writes by another schema
        assert [normal(today.read_prediction(value)) for value in values] == found


@pytest.mark.parametrize("more", [0, 1, 2])
def test_predictions_of_shared_learning_say_how_much_was_learned(name: str, kit: Kit, more: int) -> None:
    asked = ({}, {"coverage": 0.9}, {"reasons": 2})[more]
    spec, rng = spec_of(learning="shared", partitions=2, predictions=asked), np.random.default_rng(0)
    classes = spec.class_vocabulary()
    assert classes is not None
    for value in ("up", "x" * 100_000, "y" * 700_000):
        classes.code(value)
    n, ats = 5, np.array([0, 7, 2**20, 2**40, 2**62])
    for width in (2, 3):  # with the third class records are too large for probabilities
        p = rng.random((n, width))
        args = [f"i{i}" for i in range(n)], p, classes, "tree", np.arange(n) * 1000, np.arange(n)
        options: dict[str, Any] = {"further": {"learned_offset": ats}, "challengers": {"nb": p}}
        options |= {"regions": np.tile([1.0, 0.0, 0.0][:width], (n, 1))} if more == 1 else {}
        options |= {"reasons": [WHY[i % 3] for i in range(n)]} if more == 2 else {}
        values, found = both(name, kit, spec, PredictionColumns(*args, **options), more, SHARED)
        for value, told, at in zip(values, found, ats.tolist(), strict=True):
            assert (told["learned_offset"], told["p"] is None) == (at, width == 3)
            places = written(name, spec).read_place(value).places(IndexBits())
            assert places == (told["offset"], told["label_offset"], at)


@pytest.mark.parametrize(
    ("name", "digests"),
    [
        ("avro", ["aae95f3fb2550e8a", "a85d2a70490688f8", "5682c36aaefd5944"]),
        ("json-schema", ["bcade860fa953c34", "2732fa7daff76bf7", "57af6232a5b20029"]),
        ("protobuf", ["2c35c401cd6ffb2e", "f5ce6d7bcc5d2ce6", "93239acc2acac7eb"]),
    ],
)
def test_schemas_that_are_registered_stay_what_they_are(name: str, digests: list[str]) -> None:
    """Another text is another schema, which every stream would have to register again."""
    asked: list[dict[str, Any]] = [{}, {"coverage": 0.9}, {"reasons": 2}]
    codecs = [CODECS[name](spec_of(predictions=one).mapping(), Schemas()) for one in asked]
    texts = [codec.prediction.text.encode() for codec in codecs if codec.prediction is not None]
    assert [hashlib.blake2b(text, digest_size=8).hexdigest() for text in texts] == digests


def test_a_prediction_without_a_class_and_a_huge_one(name: str) -> None:
    spec = spec_of()
    one, classes = written(name, spec), spec.class_vocabulary()
    assert classes is not None
    (value,) = one.encode_predictions(PredictionColumns(["1"], np.zeros((1, 0)), classes, "m", [1], [2]))
    assert one.read_prediction(value) == {"offset": 1, "label_offset": 2, "id": "1", "model": "m", "y": None, "p": None}
    large = build({**STREAM, "max_class_bytes": 1024, "max_classes": 1000}, "s").class_vocabulary()
    assert large is not None
    for i in range(1000):
        large.code(f"{i:03d}" + "x" * 1000)
    p = np.full((2, 1000), 0.001)
    values = one.encode_predictions(PredictionColumns(["1", "2"], p, large, "m", [1, 2], [2, 2], challengers={"nb": p}))
    for value in values:
        read = one.read_prediction(value)
        assert (read["p"], read["challengers"]["nb"]["p"]) == (None, None)
        assert read["y"] == "000" + "x" * 1000
        assert len(value) < 5000
    codec = written(name, spec_of(predictions={"coverage": 0.9, "probabilities": False}))
    (value,) = codec.encode_predictions(
        PredictionColumns(["1"], p[:1], large, "m", [1], [2], probabilities=False, regions=np.ones((1, 1000)))
    )
    assert len(value) < 5000
    assert codec.read_prediction(value).get("set") is None


def test_predictions_need_the_id_of_their_schema(name: str, kit: Kit) -> None:
    codec = CODECS[name](spec_of().mapping(), Schemas())
    assert codec.prediction == kit.prediction
    with pytest.raises(UnknownSchemaError, match="schema of predictions"):
        codec.encode_predictions(
            PredictionColumns(["1"], np.zeros((1, 0)), spec_of().class_vocabulary(), "m", [1], [2])
        )


@pytest.mark.parametrize(
    "value", [None, b"", b"{}", b"\0\0\0\0\1", b"\0\0\0\0\1\0\0\xff\xff", b"\0\0\0\0\1" + bytes(90)]
)
@pytest.mark.parametrize("shared", [{}, {"learning": "shared", "partitions": 2}])
def test_what_is_no_prediction_is_a_value_error(name: str, value: bytes | None, shared: dict[str, Any]) -> None:
    one = written(name, spec_of(**shared))
    for read in (one.read_place, one.read_prediction):
        with pytest.raises(ValueError):
            read(value)


def test_a_replay_writes_by_the_schema_of_the_topic(name: str, kit: Kit) -> None:
    from benchmarks.written import rows_of_arrays

    spec = spec_of(features={"n0": "numeric", "c": "nominal"}, record={})
    codec, schemas = codec_of(name, spec), Schemas()
    for kind, number in (("features", 1), ("labels", 2)):
        schemas.written[kind] = Written(number, kit.row)
    writer = CODECS[name](spec.mapping(), schemas).writer()
    (rows,) = rows_of_arrays(spec, np.array([[0.5, 1.0], [np.nan, 0.0]]), np.array([1.0, 0.0]))
    found, _ = features(spec, codec, writer.features(rows, [0, 0]))
    assert found.ids == ["0", "1"]
    np.testing.assert_array_equal(found.x, [[0.5, 0.0], [math.nan, 1.0]])
    assert labels(spec, codec, writer.labels(["0", "1"], ['"u"', '"v"'], [0, 0])).ids == ["0", "1"]
