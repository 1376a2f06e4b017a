"""Avro: blocks that the kernel walks, against the reader of each record. Values, reasons and details, bit for bit.

A case has schemas of its own, made up by seed: types that fit and types that do not, lists, maps, types that contain
themselves. Its records are written by them, and then some are damaged.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import fastavro
import numpy as np

from riparian.app.stream_file.spec import Spec, build
from riparian.topics.formats.avro.codec import AvroCodec
from riparian.topics.records import IGNORED, REASONS
from riparian.topics.schemas import AVRO, RegisteredSchema, Schemas
from tests.fuzz import letters, mutate
from tests.fuzz.decoded import Record, RecordTarget, batch_of, check_same, decode, read, write
from tests.fuzz.mutate import Random, pick

_MIXED = {
    **dict.fromkeys("abcdef", "numeric"),
    "n": {"type": "nominal", "max_values": 6},
    "m": {"type": "nominal", "values": ["u", "v", 1, True]},
    "t": "boolean",
    "far": {"type": "numeric", "from": "more.deep.far"},
    "kind": {"type": "nominal", "max_values": 9, "from": "more.kind"},
}
STREAMS: dict[str, dict[str, Any]] = {
    "numbers": {"task": "classification", "features": dict.fromkeys("abcdefgh", "numeric")},
    "mixed": {
        "task": "classification",
        "features": _MIXED,
        "max_classes": 4,
        "record": {"time": "ts", "y": "y", "max_bytes": 700},
        "label": {"time": "ts"},
    },
    "flat": {
        "task": "regression",
        "features": {"a": "numeric", "t": "boolean", "n": "nominal"},
        "record": {"x": "", "id": "@key", "y": "y"},
        "label": {"y": "y"},
    },
    "bags": {
        "task": "multi-instance",
        "features": {"a": "numeric", "n": {"type": "nominal", "max_values": 5}},
        "classes": ["no", "yes"],
        "record": {"x": "x", "max_instances": 3},
    },
}
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_STAMPS = ("timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "date")
_DOUBLES = (0.0, -0.0, 1.5, 1e300, -1e-300, 5e-324, float("nan"), float("inf"), float("-inf"), 1e11, 1_700_000_000.5)
_WHOLES = (0, 1, -1, 63, 64, -64, 2**31 - 1, 2**53, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**11, 86_400)
_STRINGS = ("", "u", "v", "7", "UP", "red", "é", "😀", "x" * 70, "x" * 1025, "2024-05-01T12:00:00Z", "2024-05-01")
# Whole numbers as Avro writes them: of many bytes, of too many, at the bounds, and longer than they need to be.
_TOKENS = (
    *(b"\0", b"\1", b"\2", b"\3", b"\x7f", b"\x80\0", b"\x82\0", b"\x80\x80\x80\0", b"\xff" * 9 + b"\1"),
    *(b"\xff" * 9 + b"\x7f", b"\xff" * 11, b"\x80" * 8 + b"\1", b"\x80" * 9 + b"\1", b"\xff" * 8 + b"\x7f"),
    *(b"\xff\xff\xff\xff\x0f", b"\0\0\0\0\0\0\xf0\x7f", b"\0\0\xc0\x7f", b"\1\0\0\0\0\0\xf0\x7f", b"\1\0\xa0\x7f"),
    *(b"\xff", b"\xc3\x28", b"\xed\xa0\x80"),
)
DAMAGE = (*_TOKENS, *mutate.TOKENS[:40])


@cache
def stream(name: str) -> Spec:
    return build({"name": "fuzz", "champion": "last-label", **STREAMS[name]})


class _Schemas:
    """Schemas made up by chance; names of types are numbered, since Avro wants each once."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._names = rng, 0

    def _name(self) -> str:
        self._names += 1
        return f"T{self._names}"

    def _odds(self, share: float) -> bool:
        return bool(self._rng.random() < share)

    def record(self, fields: dict[str, Any]) -> dict[str, Any]:
        names = list(fields)
        self._rng.shuffle(names)
        named = [{"name": name, "type": fields[name]} for name in names]
        return {"type": "record", "name": self._name(), "fields": named}

    def other(self, depth: int = 0) -> Any:
        """What a stream does not map."""
        kind = int(self._rng.integers(15 if depth < 3 else 8))
        if kind < 8:
            return _PRIMITIVES[kind]
        if kind == 8:
            return {"type": "fixed", "name": self._name(), "size": int(self._rng.integers(1, 12))}
        if kind == 9:
            return {"type": "enum", "name": self._name(), "symbols": ["A", "B", "C"]}
        if kind == 10:
            return {"type": "array", "items": self.other(depth + 1)}
        if kind == 11:
            return {"type": "map", "values": self.other(depth + 1)}
        if kind == 12:
            return self.record({f"f{i}": self.other(depth + 1) for i in range(int(self._rng.integers(0, 4)))})
        if kind == 13:
            name = self._name()
            fields = [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", name]}]
            return {"type": "record", "name": name, "fields": fields}
        return self.union([pick(self._rng, _PRIMITIVES) for _ in range(int(self._rng.integers(1, 5)))])

    @staticmethod
    def union(branches: Sequence[Any]) -> list[Any]:
        kept: dict[str, Any] = {}
        for branch in branches:
            kept.setdefault(branch if isinstance(branch, str) else branch["type"] + branch.get("name", ""), branch)
        return list(kept.values())

    def _maybe(self, kind: Any) -> Any:
        if isinstance(kind, list) or kind == "null":
            return kind
        roll = self._rng.random()
        if roll < 0.4:
            return kind
        if roll < 0.65:
            return ["null", kind]
        if roll < 0.85:
            return [kind, "null"]
        return self.union(["null", pick(self._rng, _PRIMITIVES), kind, pick(self._rng, _PRIMITIVES)])

    def _decimal(self) -> Any:
        scale = int(self._rng.integers(0, 18))
        about = {"logicalType": "decimal", "precision": 20, "scale": scale}
        if self._odds(0.5):
            return {"type": "bytes", **about}
        size = int(self._rng.integers(1, 18))
        about |= {"precision": max(1, 2 * size), "scale": min(scale, 2 * size)}
        return {"type": "fixed", "name": self._name(), "size": size, **about}

    def number(self) -> Any:
        if self._odds(0.5):
            return self._maybe("double")
        return self._maybe(pick(self._rng, ("float", "int", "long", "double", self._decimal(), "float")))

    def scalar(self) -> Any:
        enum = {"type": "enum", "name": self._name(), "symbols": ["u", "v", "UP", "no", "yes"]}
        uuid = {"type": "string", "logicalType": "uuid"}
        return self._maybe(pick(self._rng, ("string", "string", enum, uuid, "long", "double", "float", "boolean")))

    def time(self) -> Any:
        stamp = {"type": "long", "logicalType": pick(self._rng, _STAMPS)}
        return self._maybe(pick(self._rng, (stamp, stamp, "long", "double", "float", "string")))

    def of(self, name: str, topic: str) -> Any:
        """A schema of records that a stream reads, or nearly so."""
        mapping, wrong = stream(name).mapping(), self._odds(0.12)

        def given(right: Any) -> Any:
            return self.other() if wrong and self._odds(0.3) else right

        def target() -> Any:
            return given(self.number() if mapping.task == "regression" else self.scalar())

        fields: dict[str, Any] = {"id": given(self._maybe(pick(self._rng, ("string", "string", "long", "int"))))}
        if topic == "labels":
            fields |= {"y": target(), "ts": given(self.time())}
        else:
            kinds = {"numeric": self.number, "nominal": self.scalar, "boolean": lambda: self._maybe("boolean")}
            near = {f.path[-1]: given(kinds[f.type]()) for f in mapping.features if f.path[0] != "more"}
            if self._odds(0.4):
                alike = self.number()
                alike = alike if isinstance(alike, str | list) and "string" not in alike else "double"
                plain = not isinstance(alike, list) or all(isinstance(branch, str) for branch in alike)
                near |= (
                    {f.path[-1]: alike for f in mapping.features if f.type == "numeric" and f.path[0] != "more"}
                    if (plain)
                    else {}
                )
            if self._odds(0.2):
                near["more_or_less"] = self.other()
            if self._odds(0.1):
                near.pop(pick(self._rng, list(near)))
            if mapping.task == "multi-instance":
                fields["x"] = given(self._maybe({"type": "array", "items": self.record(near)}))
            elif not mapping.x:
                fields |= near
            elif self._odds(0.07):
                fields["x"] = self._maybe({"type": "map", "values": ["null", "double", "string"]})
            else:
                fields["x"] = given(self._maybe(self.record(near)))
            deep = self._maybe(self.record({"far": given(self.number()), "o": self.other()}))
            fields |= {"more": self._maybe(self.record({"deep": deep, "kind": given(self.scalar())}))}
            fields |= {"ts": given(self.time()), "y": target()}
        fields |= {f"o{i}": self.other() for i in range(int(self._rng.integers(0, 3)))}
        return self.record(fields)


def _long(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _write(rng: Random, kind: Any, named: dict[str, Any], out: bytearray, depth: int = 0) -> None:
    """Some value of a type. Written here, since fastavro's writer takes long to find the branch of a union."""
    if isinstance(kind, list):
        i = kind.index("null") if depth > 8 and "null" in kind else int(rng.integers(len(kind)))
        out += _long(i)
        _write(rng, kind[i], named, out, depth + 1)
        return
    if isinstance(kind, str) and kind in named:
        kind = named[kind]
    name = kind["type"] if isinstance(kind, dict) else kind
    if name == "record":
        named[kind["name"]] = kind
        for field in kind["fields"]:
            _write(rng, field["type"], named, out, depth + 1)
    elif name in ("array", "map"):
        _write_items(rng, kind, named, out, depth)
    elif name == "boolean":
        out.append(int(rng.integers(2)))
    elif name in ("int", "long"):
        out += _long(int(pick(rng, _WHOLES)) if rng.random() < 0.2 else int(rng.integers(-1000, 1000)))
    elif name in ("double", "float"):
        number = float(pick(rng, _DOUBLES)) if rng.random() < 0.05 else float(rng.normal())
        with np.errstate(over="ignore"):
            out += np.array(number, "<f8" if name == "double" else "<f4").tobytes()
    elif name == "string":
        text = pick(rng, _STRINGS) if rng.random() < 0.3 else f"i{rng.integers(30)}"
        out += _long(len(text.encode())) + text.encode()
    elif name == "enum":
        out += _long(int(rng.integers(len(kind["symbols"]))))
    elif name in ("bytes", "fixed"):
        n = kind["size"] if name == "fixed" else int(rng.integers(9))
        data = bytes(n - 1) + b"\7" if n and rng.random() < 0.5 else rng.integers(0, 256, n, np.uint8).tobytes()
        out += data if name == "fixed" else _long(n) + data


def _write_items(rng: Random, kind: Any, named: dict[str, Any], out: bytearray, depth: int) -> None:
    """Of a list or a map, in blocks, some of which say how many bytes they take."""
    for _ in range(int(rng.integers(3))):
        n, items = int(rng.integers(1, 4)), bytearray()
        for _ in range(n):
            if kind["type"] == "map":
                key = pick(rng, ("a", "n", "é", "zz")).encode()
                items += _long(len(key)) + key
            _write(rng, kind["items" if kind["type"] == "array" else "values"], named, items, depth + 1)
        out += _long(n) if rng.random() < 0.8 else _long(-n) + _long(len(items))
        out += items
    out.append(0)


def _written(rng: Random, schema: Any, number: int) -> bytes:
    head = number.to_bytes(4, "big")
    out = bytearray(b"\0" + head if rng.random() < 0.97 else b"\1" + bytes(12) + head)
    _write(rng, schema, {}, out)
    return bytes(out)


class Avro(RecordTarget):
    """A case is some schemas and a batch of records, in two parts: what the first one teaches counts in the second."""

    seconds, megabytes, budget = 10.0, 400, 100

    def prepare(self) -> None:
        for name in STREAMS:
            AvroCodec(stream(name).mapping(), Schemas()).warm_up()
        fastavro.parse_schema("string")

    def make(self, rng: Random) -> bytes:
        name = pick(rng, tuple(STREAMS))
        topic = pick(rng, ("features", "features", "labels"))
        schemas = [_Schemas(rng).of(name, topic) for _ in range(int(rng.integers(1, 4)))]
        records: list[Record] = []
        # How much of a batch is damaged: whole batches that are not are the usual case.
        share = pick(rng, (0.0, 0.1, 0.6))
        for _ in range(int(rng.integers(20, 60))):
            which = int(rng.integers(len(schemas)))
            data: bytes | None = _written(rng, schemas[which], which + 1)
            if rng.random() < share:
                for _ in range(int(rng.integers(1, 4))):
                    data = mutate.of_bytes(rng, data or b"", DAMAGE)
                if rng.random() < 0.03:
                    data = pick(rng, (None, b"", b"\0", b"{}", b"\0\0\0\0\1", b"\0\0\0\0\7u", b"\1" + bytes(16)))
            key = pick(rng, (None, b"7", b"k", b"\xff")) if rng.random() < 0.1 else b"k%d" % rng.integers(99)
            records.append((key, data, []))
        return write(name, topic, records, schemas=schemas)

    def run(self, case: bytes) -> None:
        name, topic, records, more = read(case)
        self.n_records += len(records)
        spec, told = stream(name), Schemas()
        for i, schema in enumerate(more["schemas"], 1):
            told.known[i] = told.known[f"00000000-0000-0000-0000-0000{i:08x}"] = RegisteredSchema(
                AVRO, json.dumps(schema)
            )
        # Whatever other schema a damaged record names is one that nobody can read.
        for number in _named(records) - told.known.keys():
            told.known[number] = RegisteredSchema(AVRO, "{")
        codecs = [AvroCodec(spec.mapping(), told) for _ in range(2)]
        for few, codec in zip((1, 1 << 60), codecs, strict=True):
            for reader in codec._readers.values():
                reader.few = few
        known = [(spec.vocabularies(), spec.class_vocabulary()) for _ in codecs]
        for part in (records[: len(records) // 3], records[len(records) // 3 :]):
            batch = batch_of(part)
            found = [decode(codec, topic, batch, *one) for codec, one in zip(codecs, known, strict=True)]
            check_same(*found)
            assert not {bad.reason for bad in found[0].rejected} - {*REASONS, *IGNORED}
            letters.check(topic, batch, found[0].rejected)
            for one, other in zip(*([*vocabularies, classes] for vocabularies, classes in known), strict=True):
                assert one is None or (one.texts, repr(one.values)) == (other.texts, repr(other.values))


def _named(records: Sequence[Record]) -> set[int | str]:
    from riparian.topics.formats.common.framing import head_of

    return {found.key for _, value, _ in records if value and (found := head_of(value)) is not None}


TARGETS = {"avro": Avro()}
