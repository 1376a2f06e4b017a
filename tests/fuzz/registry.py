"""What a hostile schema registry answers: a sentence or a schema, within bounds, and no record that raises.

A case is what the registry says to each request: schemas with references that lead in circles or into nothing, texts
that are nested deeply or name each other again and again, numbers and objects where there should be others. Whatever
schema comes of it is held against a stream, and records are decoded by it, by every format of a registry.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from riparian.app.errors import RegistryError
from riparian.app.registry import client
from riparian.app.registry.client import Registry
from riparian.app.stream_file.sections.codec import RegistrySpec
from riparian.app.stream_file.spec import build
from riparian.topics.codecs import CODECS, REGISTERED
from riparian.topics.schemas import JSON, PROTOBUF, RegisteredSchema, Schemas, UnusableError
from tests.fuzz import avro as made_up
from tests.fuzz import mutate
from tests.fuzz.formats import _PROTO, _REJECTIONS
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target
from tests.topics.decoding import raw

_URL = "http://127.0.0.1:1"
_SPEC = build({"name": "fuzz", "champion": "last-label", **made_up.STREAMS["mixed"]}, "fuzz")
_KINDS = ("AVRO", "JSON", "PROTOBUF")
_MOST_DETAIL = 1000


def _nested(rng: Random, opening: str, middle: str, closing: str) -> str:
    depth = int(pick(rng, (50, 150, 250, 900, 2000, 20_000)))
    return opening * depth + middle + closing * depth


def _again_and_again(rng: Random, kind: str) -> str:
    """Types of which each holds the one before many times over: 10^20 values in a few thousand bytes."""
    n, m = int(rng.integers(2, 21)), int(rng.integers(2, 11))
    if kind == "JSON":
        below = [{f"f{j}": {"$ref": f"#/$defs/T{i}"} for j in range(m)} for i in range(n - 1)]
        steps = {f"T{i}": {"properties": fields} for i, fields in enumerate(below, 1)}
        several = {"allOf": [{"$ref": f"#/$defs/T{n - 1}"}] * m}
        return json.dumps({"$defs": {"T0": {"type": "number"}, **steps}, "properties": {"x": several}})
    kind_: Any = {"type": "record", "name": "T0", "fields": [{"name": "v", "type": "int"}]}
    for i in range(1, n):
        rest = [{"name": f"f{j}", "type": f"T{i - 1}"} for j in range(1, m)]
        kind_ = {"type": "record", "name": f"T{i}", "fields": [{"name": "f0", "type": kind_}, *rest]}
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": kind_}]})


_NUMBERS = (0, 1, 2, 15, 16, 38, 1000, 1001, 10**9, 2**31 - 1, 2**31, 2**62, 2**63, 2**64, 10**300, -1, -(2**63))
_COUNTS = (2, 30, 300, 3000)


class _Enemy:
    """Schemas that are small and ask for much: types of no size and of enormous ones, scales, many of all, and deep."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._n = rng, 0

    def _name(self) -> str:
        self._n += 1
        return f"T{self._n}"

    def _number(self) -> Any:
        return pick(self._rng, (*_NUMBERS, 1.5, "7", True, None, [1]) if self._rng.random() < 0.3 else _NUMBERS)

    def record(self, *kinds: Any) -> Any:
        return {
            "type": "record",
            "name": self._name(),
            "fields": [{"name": f"f{i}", "type": k} for i, k in enumerate(kinds)],
        }

    def leaf(self) -> Any:
        about = {"logicalType": pick(self._rng, ("decimal", "decimal", "uuid", "date", ["decimal"], "x" * 2000, None))}
        about |= {"scale": self._number(), "precision": self._number()}
        if self._rng.random() < 0.3:
            about |= {
                "connect.name": pick(self._rng, ("io.debezium.time.NanoTimestamp", "io.debezium.time.Time", 7, ["x"]))
            }
        fixed = {"type": "fixed", "name": self._name(), "size": self._number()}
        return pick(
            self._rng,
            (
                *("null", "null", "int", "bytes", ["null"], ["null", "double"], "double"),
                *(self.record(), self.record("null"), self.record("null", "null"), self.record(["null"])),
                *(
                    fixed,
                    {**fixed, "size": 0},
                    {**fixed, **about},
                    {"type": "bytes", **about},
                    {"type": "long", **about},
                ),
                {
                    "type": "enum",
                    "name": self._name(),
                    "symbols": [f"s{i}" for i in range(pick(self._rng, (0, 1, 9000)))],
                },
            ),
        )

    def around(self, kind: Any) -> Any:
        """A type with a type in it: again, one in the other, or in lists."""
        named = kind["name"] if isinstance(kind, dict) and "name" in kind else "null"
        roll = int(self._rng.integers(9))
        if roll == 0:
            return {"type": "array", "items": kind}
        if roll == 1:
            return {"type": "map", "values": kind}
        if roll == 2:
            return ["null", kind] if kind != "null" and not isinstance(kind, list) else self.record(kind)
        if roll == 3:  # 2^60 of them
            for _ in range(int(pick(self._rng, (3, 20, 60)))):
                kind = self.record(kind, named)
                named = kind["name"]
            return kind
        if roll == 4:
            for _ in range(int(pick(self._rng, (3, 30, 60, 190)))):
                kind = self.record(kind)
            return kind
        if roll == 5:
            return self.record(kind, *[named] * int(pick(self._rng, _COUNTS)))
        if roll == 6:
            return [self.record(named if i else kind) for i in range(int(pick(self._rng, _COUNTS)))]
        if roll == 7:
            return self.record(
                kind, ["null", f"T{self._n + 1}"], f"T{self._n + 1}" if self._rng.random() < 0.3 else "int"
            )
        return self.record(kind, "null")

    def avro(self) -> str:
        content = made_up._Schemas(self._rng).of("mixed", "features")
        for field in content["fields"]:
            if self._rng.random() < 0.4:
                field["type"] = self.leaf()
                for _ in range(int(self._rng.integers(0, 4))):
                    field["type"] = self.around(field["type"])
        for i in range(int(self._rng.integers(1, 3))):
            kind = self.leaf()
            for _ in range(int(self._rng.integers(1, 4))):
                kind = self.around(kind)
            content["fields"].insert(
                int(self._rng.integers(len(content["fields"]) + 1)), {"name": f"e{i}", "type": kind}
            )
        try:
            return json.dumps(content)
        except RecursionError:
            return "[" * 5000

    def json(self) -> str:
        n = int(pick(self._rng, (3, 300, 9000)))
        one = pick(
            self._rng,
            (
                {"$ref": "#/" + "1" * n}, {"$ref": "#/a/" + "9" * n}, {"$ref": "#" + "/x" * n}, {"$ref": "#" + "y" * n},
                {"$ref": "z" * n}, {"$ref": "#"}, {"enum": [*range(n)]}, {"const": "x" * n}, {"format": "f" * n},
                {"type": ["number"] * n}, {"items": [{}] * n}, {"properties": {f"p{i}": {} for i in range(n)}},
                {"prefixItems": [{"$ref": "#/$defs/A"}] * n}, {"multipleOf": 10**300},
            ),
        )  # fmt: skip
        many = {"allOf": [{"$ref": "#/$defs/A"}] * int(pick(self._rng, _COUNTS))}
        some = {pick(self._rng, ("anyOf", "oneOf")): [{"title": "t"}] * int(pick(self._rng, (2, 199, 300)))}
        defs = {
            "A": one,
            "B": many,
            "C": {"allOf": [some, many, many]},
            **{f"d{i}": {"$id": f"i{i}"} for i in range(n)},
        }
        x = pick(self._rng, (one, many, some, {"$ref": "#/$defs/B"}, {"$ref": "#/$defs/C"}))
        return json.dumps({"$defs": defs, "a": [1], "properties": {"x": x, "id": pick(self._rng, (one, x, {}))}})

    def protobuf(self) -> str:
        n = int(pick(self._rng, _COUNTS))
        ways: tuple[Any, ...] = (
            lambda i: f"message M{i} {{ M{(i + 1) % n} a = 1; }}",
            lambda i: f"message M{i} {{ M{max(0, i - 1)} a = 1; M{max(0, i - 1)} b = 2; }}",
            lambda i: f"message M{i} {{}}",
            lambda i: f"message M{i} {{ map<string, M{i}> m = {pick(self._rng, (1, 536870911, 536870912))}; }}",
            lambda i: f"enum E{i} {{ A{i} = {pick(self._rng, (0, 2**31 - 1, 2**31, -(2**31)))}; }}",
        )
        way = pick(self._rng, ways)
        text = " ".join(way(i) for i in range(n))
        star = "message S { string id = 1; " + " ".join(f"M{i} m{i} = {i + 2};" for i in range(n)) + "}"
        return 'syntax = "proto3"; ' + pick(
            self._rng, (text, f"{text} {star}", f"{star} {text}", f"{_PROTO[18:]} {text}")
        )


def _text(rng: Random, kind: str) -> Any:
    """A schema's text, or something in its place."""
    roll = rng.random()
    if roll < 0.1:
        return _again_and_again(rng, kind)
    if roll > 0.6:
        enemy = _Enemy(rng)
        return {"AVRO": enemy.avro, "JSON": enemy.json, "PROTOBUF": enemy.protobuf}[kind]()
    if roll < 0.2:
        return pick(
            rng,
            (
                _nested(rng, '{"type":"array","items":', '"int"', "}"),
                _nested(rng, '{"properties":{"x":', "{}", "}}"),
                _nested(rng, '{"allOf":[', "{}", "]}"),
                _nested(rng, "[", "", "]"),
                _nested(rng, "message M {", "int32 a = 1;", "}"),
                '{"$ref":"#"}',
                '{"allOf":[{"$ref":"#"},{"$ref":"#/allOf/0"}],"$defs":{"a":{"$ref":"#/$defs/a"}}}',
                '{"type":"record","name":"R","fields":[{"name":"x","type":"R"}]}',
                '{"type":"record","name":"R","fields":[{"name":"id","type":["null","R"]}]}',
                '{"type":"fixed","name":"F","size":-1}',
                '{"type":"fixed","name":"F","size":1e300}',
                '{"type":"fixed","name":"F","size":' + "9" * 400 + "}",
                '{"type":"enum","name":"E","symbols":' + json.dumps([f"s{i}" for i in range(20_000)]) + "}",
                '{"type":{"type":{"type":"R"}}}',
                "a" * 2_000_000,
            ),
        )
    if kind == "PROTOBUF" and rng.random() < 0.8:
        made = _PROTO.encode()
        for _ in range(int(rng.integers(0, 3))):
            made = mutate.of_bytes(rng, made)
        return made.decode(errors="replace")
    if kind == "JSON":
        content: Any = {"type": "object", "properties": {"id": {"type": "string"}, "x": {"properties": {"a": {}}}}}
    else:
        content = made_up._Schemas(rng).of("mixed", "features")
    for _ in range(int(rng.integers(0, 4))):
        content = mutate.of_value(rng, content)
    text = json.dumps(content)
    if rng.random() < 0.2:
        text = mutate.of_bytes(rng, text.encode("utf-8", "surrogatepass")).decode(errors="replace")
    return pick(rng, (text, text, text, text, content, None, 7))


def _answer(rng: Random, names: list[str]) -> Any:
    kind = pick(rng, _KINDS)
    found: dict[str, Any] = {"schema": _text(rng, kind), "id": pick(rng, (1, 1, 1, -1, "1", 2**40, None, 1.0))}
    if kind != "AVRO" or rng.random() < 0.3:
        found["schemaType"] = pick(rng, (kind, kind, kind, "", None, 7, "X" * 100_000, ["AVRO"], "\x1b[2J"))
    if rng.random() < 0.5:
        references: Any = [
            {"name": pick(rng, names), "subject": pick(rng, names), "version": int(rng.integers(1, 3))}
            for _ in range(int(pick(rng, (1, 2, 3, 250))))
        ]
        if rng.random() < 0.4:
            references = mutate.of_value(rng, references)
        found["references"] = pick(rng, (references, references, references, 5, True, {"a": 1}, "abc", [[]], 1e999))
    if rng.random() < 0.1:
        found = mutate.of_value(rng, found)
    if rng.random() < 0.1:
        return {"error_code": pick(rng, (40401, 40403, 50001, None)), "message": pick(rng, ("no", "\x1b[2J", 7, None))}
    return found


class _Content:
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def iter_any(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._data), 1 << 16):
            yield self._data[at : at + (1 << 16)]


class _Reply:
    def __init__(self, status: int, data: bytes) -> None:
        self.status, self.content = status, _Content(data)


class _Session:
    """In place of aiohttp's: a path, and after it the next answer of the case, round and round."""

    def __init__(self, answers: list[list[Any]]) -> None:
        self._answers, self.asked = answers, 0

    @asynccontextmanager
    async def request(self, method: str, url: Any, **_: Any) -> AsyncIterator[_Reply]:
        status, text = self._answers[self.asked % len(self._answers)]
        self.asked += 1
        assert str(url).startswith(_URL + "/"), url
        yield _Reply(status, text.encode("utf-8", "surrogatepass"))


class _Hostile(Registry):
    def __init__(self, answers: list[list[Any]]) -> None:
        super().__init__(RegistrySpec(url=_URL), {})
        self.session = _Session(answers)

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[Any]:
        yield self.session


class Answers(Target):
    """A case is the answers of a registry, in order."""

    seconds, megabytes, budget = 20.0, 600, 40

    def prepare(self) -> None:
        for name in REGISTERED:
            CODECS[name](_SPEC.mapping(), Schemas()).warm_up()

    def make(self, rng: Random) -> bytes:
        names = ["a", "b", "c", *(f"n{i}" for i in range(300))][: int(pick(rng, (2, 3, 300)))]
        names += ["..", "é/ü", "\ud800"][: int(rng.integers(0, 4))]
        answers = []
        for _ in range(int(rng.integers(1, 5))):
            text = json.dumps(_answer(rng, names))
            if rng.random() < 0.05:
                text = mutate.of_bytes(rng, text.encode()).decode(errors="replace")
            answers.append([int(pick(rng, (200, 200, 200, 200, 200, 404, 401, 500, 302))), text])
        return json.dumps(answers).encode()

    def run(self, case: bytes) -> None:
        answers = json.loads(case)
        found: dict[Any, RegisteredSchema] = {}
        calls: list[Any] = [
            lambda registry: registry.schemas([1, "00000000-0000-0000-0000-000000000001"]),
            lambda registry: registry.latest("s"),
            lambda registry: registry.lookup("s", RegisteredSchema(JSON, "{}")),
            lambda registry: registry.register("s", RegisteredSchema(PROTOBUF, "")),
        ]
        for call in calls:
            registry = _Hostile(answers)
            said, refused = None, "-"
            try:
                said = asyncio.run(call(registry))
            except RegistryError as error:
                refused = str(error)
            assert refused.isprintable(), refused
            assert len(refused) < _MOST_DETAIL
            assert registry.session.asked <= 2 * client.MAX_REFERENCES + 4
            if isinstance(said, dict):
                found |= {key: schema for key, schema in said.items() if schema is not None}
            elif isinstance(said, tuple):
                found["latest"] = said.schema
        # Two answers are often the same schema.
        for schema in set(found.values()):
            for name in REGISTERED:
                _used(name, schema)

    def shrink(self, case: bytes) -> Iterator[bytes]:
        answers = json.loads(case)
        for fewer in mutate.smaller(answers):
            yield json.dumps(fewer).encode()
        for i, (status, text) in enumerate(answers):
            for less in mutate.shorter(text.encode("utf-8", "surrogatepass")):
                less_ = [status, less.decode("utf-8", "replace")]
                yield json.dumps([*answers[:i], less_, *answers[i + 1 :]]).encode()


# Records of whatever schema: whole numbers of all sizes where counts, lengths and places of messages stand.
_BODIES = [
    *(b"", b"\2", bytes(9), bytes(40), b"\x02\x02" * 9, b"\xff" * 12, b'{"id":"7","x":{}}', b"\0\x0a\1\x37"),
    *(b"\2" + made_up._long(n) + b"\x0a\1\x37" for n in (0, 1, 2, 29, 299, 2999, 2**31, -1)),
    *(bytes(k) + token + bytes(60 - k) for token in made_up._TOKENS for k in (0, 1, 9)),
    *(token * 7 for token in made_up._TOKENS),
]


def _used(name: str, schema: RegisteredSchema) -> None:
    """A schema as the one by which records of a stream were written, and at the start of its worker."""
    schemas = Schemas()
    schemas.known[1] = schema
    codec: Any = CODECS[name](_SPEC.mapping(), schemas)
    for kind in ("features", "labels"):
        try:
            said = [one.sentence for one in codec.problems(kind, schema, "the schema")]
        except UnusableError as error:
            said = [str(error)]
        assert all(len(sentence) < 4 * _MOST_DETAIL for sentence in said), name
    codec.prepare([1])
    values: list[Any] = [b"\0\0\0\0\1" + body for body in _BODIES]
    batch = raw(values, keys=[b"k"] * len(values))
    for found in (
        codec.decode_features(batch, _SPEC.vocabularies(), _SPEC.class_vocabulary()),
        codec.decode_labels(batch, _SPEC.class_vocabulary()),
    ):
        for bad in found.rejected:
            assert bad.reason in _REJECTIONS, (name, bad)
            assert len(bad.detail) < _MOST_DETAIL, (name, bad.reason)
            bad.detail.encode()


TARGETS = {"registry": Answers()}
