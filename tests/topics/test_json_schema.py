"""JSON Schema held against a stream file: what it has, what it lacks, and what only some records have."""

import json
from typing import Any

import pytest

from riparian.app.stream_file.spec import build
from riparian.topics.codecs import CODECS
from riparian.topics.schemas import JSON, RegisteredSchema, Schemas, UnusableError
from tests.topics.decoding import raw
from tests.topics.test_avro import spec_of

NUMBER, TEXT = {"type": ["null", "number"]}, {"type": "string"}


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def said(content: Any, *references: tuple[str, Any], **fields: Any) -> list[str]:
    """What is wrong about a schema for a stream that maps id, x.a (numeric), x.c (nominal) and x.b (boolean)."""
    features = {"a": "numeric", "c": "nominal", "b": "boolean"}
    codec = CODECS["json-schema"](spec_of(features=features, record={"y": None}, **fields).mapping(), Schemas())
    below = tuple((name, RegisteredSchema(JSON, json.dumps(one))) for name, one in references)
    problems = codec.problems("features", RegisteredSchema(JSON, json.dumps(content), below), "S")
    return [f"{p.slot.owner}{' partly' if p.partly else ''}: {p.sentence.partition('found ')[2]}" for p in problems]


X = of(a=NUMBER, c=TEXT, b={"type": "boolean"})
FITTING: list[Any] = [
    of(id=TEXT, x=X),
    {},
    True,
    {"type": "object"},
    of(id={}, x=True),
    of(id={"type": "integer"}, x={"oneOf": [{"type": "null"}, X]}),
    of(id={"type": "string", "format": "uuid"}, x=X),
    of(id={"enum": ["1", 2]}, x=of(a={"const": 1.5}, c={"enum": ["u", "v", None]}, b={"enum": [True, None]})),
    {"allOf": [of(id=TEXT), {"properties": {"x": X}}, {"required": ["id"]}]},
    {"allOf": [of(id=TEXT, x={}), {"properties": {"x": of(a=NUMBER)}}, {"properties": {"x": of(c=TEXT, b={})}}]},
    {"anyOf": [of(id=TEXT, x=X), of(id=TEXT, x=X, more=TEXT)]},
    {"type": "object", "additionalProperties": {"type": ["string", "null"]}, "properties": {"x": X}},
    {"properties": {"x": {"patternProperties": {"^[abc]$": {}}}, "id": TEXT}},
    {"$ref": "#/definitions/Row", "definitions": {"Row": of(id=TEXT, x={"$ref": "#/definitions/X"}), "X": X}},
    {"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": of(id=TEXT, x={"$ref": "#x"}), "X": {**X, "$anchor": "x"}}},
    {"$id": "http://s/row.json", "$defs": {"i": {"$id": "x.json", **X}}, **of(id=TEXT, x={"$ref": "x.json"})},
    of(id=TEXT, x={"$ref": "nobody-has-this.json"}),
    of(id=TEXT, x={"type": ["object", "null"], "properties": {**X["properties"], "next": {"$ref": "#"}}}),
    of(id=TEXT, x=of(a={"type": "number", "minimum": 0, "not": {"type": "string"}}, c=TEXT, b={"type": "boolean"})),
    of(id=TEXT, x=of(a={"type": "null"}, c={"type": "null"}, b={"type": "null"})),
]


@pytest.mark.parametrize("content", FITTING)
def test_what_fits(content: Any) -> None:
    assert said(content) == []


OTHER = "declare the feature of another type, or map another field by from"
WRONG: list[tuple[Any, list[str]]] = [
    (of(id={"type": "number"}, x=X), ["record.id partly: a number; records with that are rejected; map another field"]),
    (of(id=TEXT), [
        "record.x: none; name a field that it has", "features.a: none; name a field that it has",
        "features.c: none; name a field that it has", "features.b: none; name a field that it has",
    ]),
    (of(id=TEXT, x=of(a=TEXT, c={"type": "array"}, B={})), [
        f"features.a: a string; {OTHER}; `text: true` takes numbers that are texts",
        "features.c: an array; map another field", "features.b: none; name a field that it has",
    ]),
    (of(idd=TEXT, x={**X, "additionalProperties": False}), ["record.id: none; did you mean \"idd\"?"]),
    (of(id=TEXT, x=of(a={"type": ["null", "string", "number"]}, c=TEXT, b={"enum": ["yes", "no", True]})), [
        f"features.a partly: a string; records with that are rejected; {OTHER}; `text: true` takes numbers that are "
        "texts",
        f"features.b partly: a string; records with that are rejected; {OTHER}",
    ]),
    (of(id=TEXT, x={"anyOf": [X, TEXT]}), [
        f"{owner} partly: a string; records with that are rejected; {cure}" for owner, cure in (
            ("record.x", "map another field"),
            ("features.a", f"{OTHER}; `text: true` takes numbers that are texts"),
            ("features.c", "map another field"),
            ("features.b", OTHER))
    ]),
    (False, [f"{owner}: none; name a field that it has" for owner in
             ("record.id", "record.x", "features.a", "features.c", "features.b")]),
]  # fmt: skip


@pytest.mark.parametrize(("content", "sentences"), WRONG)
def test_what_does_not_fit(content: Any, sentences: list[str]) -> None:
    assert said(content) == sentences


def test_a_pointer_of_many_digits_leads_nowhere() -> None:
    content = of(id={"$ref": "#/a/" + "1" * 5000}, x={"$ref": "#/a/0"}) | {"a": [of(a=NUMBER, c=TEXT, b=TEXT)]}
    codec = CODECS["json-schema"](spec_of(record={"y": None}).mapping(), Schemas())
    said = codec.problems("features", RegisteredSchema(JSON, json.dumps(content)), "S")
    assert "record.id" not in [one.slot.owner for one in said]


def test_what_a_schema_refers_to_in_the_registry() -> None:
    base = {"$id": "http://shop/x.json", **of(a={"$ref": "#/definitions/n"}, c=TEXT, b={"$ref": "types.json#/b"})}
    base["definitions"] = {"n": NUMBER}
    types = {"b": {"type": "boolean"}}
    for name in ("x.json", "http://shop/x.json", "any"):
        content = of(id=TEXT, x={"$ref": "http://shop/x.json" if name == "any" else name})
        assert said(content, ("types.json", types), (name, base)) == []
    base["definitions"] = {"n": TEXT}
    content = of(id=TEXT, x={"$ref": "x.json"})
    assert [one.partition(";")[0] for one in said(content, ("http://shop/x.json", base))] == ["features.a: a string"]


def test_times_and_bags_and_places_of_arrays() -> None:
    def problems(kind: str, content: Any, **fields: Any) -> list[str]:
        codec = CODECS["json-schema"](spec_of(**fields).mapping(), Schemas())
        found = codec.problems(kind, RegisteredSchema(JSON, json.dumps(content)), "S")
        return [f"{p.slot.owner}: {p.sentence.partition('found ')[2].partition(';')[0]}" for p in found]

    label = of(id=TEXT, y=TEXT, ts={"type": "string", "format": "date-time"})
    stream: dict[str, Any] = {"label": {"time": "ts"}}
    assert problems("labels", label, **stream) == []
    label["properties"]["ts"]["format"] = "uuid"
    assert problems("labels", label, **stream) == ["label.time: a string (uuid)"]
    assert problems("labels", label, task="regression") == ["label.y: a string"]

    stream = {"task": "multi-instance", "classes": ["no", "yes"], "features": {"a": "numeric", "z": "boolean"}}
    stream |= {"record": {"x": "bag", "y": None}}
    bag: dict[str, Any] = of(id=TEXT, bag={"type": ["array", "null"], "items": of(a=TEXT, z={"type": "boolean"})})
    assert problems("features", bag, **stream) == ["features.a: a string"]
    bag["properties"]["bag"] = of(a=NUMBER)
    assert problems("features", bag, **stream) == ["record.x: an object"]

    places = {"a": {"type": "numeric", "from": "list[1].p"}, "b": {"type": "boolean", "from": "pair[2]"}}
    content = of(
        id=TEXT,
        list={"items": of(p=NUMBER)},
        pair={"type": "array", "prefixItems": [TEXT, NUMBER], "items": {"type": "boolean"}},
    )
    assert problems("features", content, features=places, record={"y": None}) == []
    content["properties"]["pair"] = {"type": "array", "items": [NUMBER, NUMBER, TEXT], "additionalItems": False}
    assert problems("features", content, features=places, record={"y": None}) == ["features.b: a string"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", '"string"', "7", "[" * 100_000, '{"$ref": "#"}',
        '{"allOf": [{"$ref": "#"}, {"$ref": "#"}]}', '{"a": "' + "x" * 1_000_000 + '"}',
        json.dumps({"$ref": "#/a0", **{f"a{i}": {"allOf": [{"$ref": f"#/a{i + 1}"}] * 2} for i in range(60)}}),
        json.dumps({"anyOf": [{"anyOf": [{"type": "object"}] * 20}] * 20}),
        json.dumps({"allOf": [{"anyOf": [{"type": "object"}] * 20}] * 20}),
        # Each of these took from half a minute on: to look for a name or to follow a pointer, again and again, to copy
        # what has to hold, and to look at the values of an enum.
        json.dumps({"$defs": {f"d{i}": {} for i in range(20_000)}, "allOf": [{"$ref": f"#a{i}"} for i in range(9000)]}),
        json.dumps({
            "$defs": {"A": {"$ref": "#" + "/x" * 200_000}, "B": {"allOf": [{"$ref": "#/$defs/A"}] * 100}},
            "allOf": [{"$ref": "#/$defs/B"}] * 100,
        }),
        json.dumps({"allOf": [{"anyOf": [{"title": "a"}] * 199}, *[{"title": "a"}] * 9000]}),
        json.dumps({"$defs": {"E": {"enum": [*range(50_000)]}}, "allOf": [{"$ref": "#/$defs/E"}] * 9000}),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_or_is_too_large_is_a_sentence(text: str) -> None:
    codec = CODECS["json-schema"](spec_of().mapping(), Schemas())
    with pytest.raises(UnusableError, match=r"^(it|its|a place of it) "):
        codec.problems("features", RegisteredSchema(JSON, text), "S")


@pytest.mark.parametrize("content", [{"type": 7}, {"properties": []}, {"items": 1, "enum": {}, "anyOf": 3, "$ref": []}])
def test_words_of_another_kind_say_nothing(content: Any) -> None:
    assert isinstance(said(content), list)


@pytest.mark.parametrize("envelope", ["debezium", "connect", "cloudevents"])
def test_envelopes_are_those_of_plain_json(envelope: str) -> None:
    """Also what is passed over, and what an event has in headers."""
    content: dict[str, Any] = {
        "name": "s", "task": "classification", "champion": "majority-class", "features": {"a": "numeric"},
        "record": {"x": "", "y": None, "envelope": envelope}, "codec": "json-schema", "registry": {"url": "http://r:1"},
    }  # fmt: skip
    spec = build(content, "s")
    row = {"id": "7", "a": 1.5}
    event = {"specversion": "1.0", "id": "8", "source": "s", "type": "t", "data": row}
    bare: list[Any] = [
        {"before": None, "after": row, "op": "c"}, {"before": row, "after": None, "op": "d"}, {"op": "m"},
        {"schema": None, "payload": row}, event, {**event, "data": {"a": "x"}}, row, None,
    ]  # fmt: skip
    values = [None if value is None else json.dumps(value).encode() for value in bare]
    headers = [[]] * len(values)
    headers[6] = [(f"ce_{name}", str(value).encode()) for name, value in event.items() if name != "data"]
    headers[6] += [("content-type", b"application/json")]
    schemas = Schemas()
    schemas.known[1] = RegisteredSchema(JSON, "{}")
    known = spec.vocabularies()
    one, other = CODECS["json"](spec.mapping(), schemas), CODECS["json-schema"](spec.mapping(), schemas)
    framed = [None if value is None else b"\0\0\0\0\1" + value for value in values]
    found, wanted = (
        codec.decode_features(raw(of, headers), known, spec.class_vocabulary())
        for codec, of in ((other, framed), (one, values))
    )
    assert found.ids
    assert (found.ids, found.times, found.rejected) == (wanted.ids, wanted.times, wanted.rejected)
    assert found.x.tobytes() == wanted.x.tobytes()
    changed = of(before={"type": "null"}, op=TEXT, after={"oneOf": [{"type": "null"}, of(id=TEXT, a=NUMBER)]})
    if envelope == "debezium":
        assert other.problems("features", RegisteredSchema(JSON, json.dumps(changed)), "S") == []
