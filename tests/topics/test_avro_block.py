"""Blocks of Avro records: what the kernel takes, and what it leaves to the reader. That both give the same bits is what
`tests/fuzz/avro.py` holds them to, in `make test` too."""

import struct
from typing import Any

import numpy as np
import pytest

from riparian.topics import records as r
from riparian.topics.formats.avro import kernel as avro_kernel
from riparian.topics.formats.avro.block import AvroBlockReader
from riparian.topics.formats.avro.codec import AvroCodec
from riparian.topics.formats.avro.predictions import whole
from riparian.topics.formats.common.blocks import Block
from tests.conftest import jit
from tests.topics.decoding import raw, same, watch
from tests.topics.test_avro import codec_of, encode, record, spec_of

N = 40
ENUM = {"type": "enum", "name": "E", "symbols": ["p", "q"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
STAMP = {"type": "long", "logicalType": "timestamp-micros"}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[Block | None]:
    return watch(monkeypatch, AvroBlockReader)


def twin(codec: AvroCodec) -> AvroCodec:
    """The codec without its kernel."""
    for reader in codec._readers.values():
        reader.few = 1 << 60
    return codec


def both(spec: Any, contents: list[Any], values: list[bytes | None]) -> Any:
    """The features of the records, and that the reader alone gives the same."""
    found = []
    for codec in (codec_of(spec, *contents), twin(codec_of(spec, *contents))):
        vocabularies, classes = spec.vocabularies(), spec.class_vocabulary()
        found.append(codec.decode_features(raw(values), vocabularies, classes))
        found[-1] = (found[-1], [None if v is None else v.texts for v in [*vocabularies, classes]])
    (one, known), (other, known_too) = found
    assert known == known_too
    assert one.rejected == other.rejected
    same(one, other)
    return one


@pytest.mark.parametrize("id_", ["string", "long"])
@pytest.mark.parametrize(
    ("number", "nominal"),
    [
        ("double", "string"),
        ("float", "long"),
        ("int", "boolean"),
        ("long", "double"),
        (["null", "double"], ENUM),
        (["int", "null", "float"], ["null", "string"]),
    ],
)
def test_usual_records_are_all_taken(blocks: list[Block | None], id_: Any, number: Any, nominal: Any) -> None:
    """Whatever their schema is: a record that is left costs ten times as much."""
    spec = spec_of(features={"a": "numeric", "b": "boolean", "c": "nominal", "d": "numeric"})
    inside = [("c", nominal), ("u", "bytes"), ("a", number), ("b", "boolean"), ("d", DECIMAL)]
    content = record(
        ("o", {"type": "map", "values": {"type": "array", "items": ["null", "long", "string"]}}),
        ("id", id_), ("ts", STAMP), ("inside", ["null", "string"]), ("node", NODE),
        ("x", ["null", record(*inside, name="X")]),
    )  # fmt: skip
    rng = np.random.default_rng(1)
    usual = {"string": "é", "long": 7, "boolean": True, "double": 0.5}
    values = []
    for i in range(N):
        kinds = number if isinstance(number, list) else [number]
        a: Any = {"null": None, "int": i, "long": -i, "double": i / 3, "float": 0.5}[
            kinds[int(rng.integers(len(kinds)))]
        ]
        c = "q" if isinstance(nominal, dict) else usual.get(str(nominal))
        x = {"c": c, "u": b"zz", "a": a, "b": i % 2 == 0, "d": (i - 9).to_bytes(2, "big", signed=True)}
        value = {
            "o": {"k": [None, i, "t"]}, "id": f"i{i}" if id_ == "string" else i, "ts": 1_700_000_000_000_000 + i,
            "inside": "yes" if i % 3 else None, "node": {"next": None}, "x": x,
        }  # fmt: skip
        values.append(encode(without_logic(content), value))
    found = both(spec, [content], values)
    assert len(found.ids) == N
    assert len(blocks) == 1
    assert blocks[0] is not None
    assert blocks[0].left == []


def without_logic(kind: Any) -> Any:
    """The same schema, by which fastavro writes raw values."""
    if isinstance(kind, dict):
        return {
            name: without_logic(part)
            for name, part in kind.items()
            if name not in ("logicalType", "__fastavro_parsed__")
        }
    return [without_logic(part) for part in kind] if isinstance(kind, list) else kind


CONTENT = record(("id", "string"), ("x", record(("a", ["null", "double"]), ("n", ["double", "string"]), name="X")))
GOOD = encode(CONTENT, {"id": "7", "x": {"a": 1.0, "n": 2.0}})
TEXT = GOOD[:-9] + b"\x02\x02u"


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (GOOD[:-1], r.MALFORMED),
        (GOOD + b"\0", r.MALFORMED),
        (GOOD[:5], r.MALFORMED),
        (GOOD[:5] + whole(2**62) + b"7", r.MALFORMED),
        (GOOD[:5] + whole(-1) + b"7", r.MALFORMED),
        (GOOD[:5] + b"\xff" * 30, r.MALFORMED),
        (GOOD[:5] + b"\x02\xff" + GOOD[7:], r.NOT_UTF8),
        (TEXT, r.WRONG_TYPE),
        (GOOD[:-9] + b"\0" + struct.pack("<d", float("inf")), r.NOT_FINITE),
        (GOOD[:4] + b"\2" + GOOD[5:], r.UNUSABLE_SCHEMA),
        (b"{}", r.NO_SCHEMA_ID),
        (None, r.TOMBSTONE),
        (r.Unknown(GOOD), r.UNKNOWN_SCHEMA),
        (GOOD * 30, r.TOO_LARGE),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [0, N // 2, N])
def test_an_odd_record_is_the_readers_and_leaves_the_others_alone(
    blocks: list[Block | None], odd: Any, reason: str, place: int
) -> None:
    spec = spec_of(features={"a": "numeric", "n": "numeric"}, record={"max_bytes": 300})
    values: list[bytes | None] = [GOOD] * N
    values.insert(place, odd)
    found = both(spec, [CONTENT, "["], values)
    assert [(one.position, one.reason) for one in found.rejected] == [(place, reason)]
    assert found.x.tolist() == [[1.0, 2.0]] * N
    assert blocks[0] is not None
    assert blocks[0].left == [place]


def test_each_schema_of_a_block_has_its_walk(blocks: list[Block | None]) -> None:
    """Symbols of one are not those of another, and records of a ninth schema are the reader's."""
    spec = spec_of(features={"a": "numeric", "c": "nominal"}, record={})
    contents = [
        record(("id", "string"), ("x", record(("a", "long"), ("c", {**ENUM, "symbols": [f"s{i}", f"t{i}"]}), name="X")))
        for i in range(10)
    ]
    values: list[bytes | None] = [
        encode(contents[i % 10], {"id": str(i), "x": {"a": i, "c": f"{'st'[i % 2]}{i % 10}"}}, i % 10 + 1)
        for i in range(4 * N)
    ]
    found = both(spec, contents, values)
    assert found.x[:, 0].tolist() == list(range(4 * N))
    assert blocks[0] is not None
    assert len(blocks[0].left) == 4 * N // 5
    both(spec, contents, values)


def test_records_that_only_the_reader_can_tell_are_no_block(blocks: list[Block | None]) -> None:
    spec = spec_of(features={"a": "numeric", "c": "nominal"}, record={})
    content = record(("id", "string"), ("x", {"type": "map", "values": "double"}))
    assert len(both(spec, [content], [encode(content, {"id": "1", "x": {"a": 2.0}})] * N).ids) == N
    assert blocks == [None]


def test_types_that_are_named_again_and_again_make_no_endless_program() -> None:
    """Each holds the one before ten times: 10^9 fields, of a schema of a few hundred bytes."""
    kind: Any = record(("v", "int"), name="T0")
    known = [kind]
    for i in range(1, 10):
        fields = [(f"f{j}", known[-1] if j == 0 else f"T{i - 1}") for j in range(10)]
        known.append(record(*fields, name=f"T{i}"))
    content = record(("id", "string"), ("x", record(("a", "int"), name="X")), ("o", ["null", known[-1]]))
    spec = spec_of(features={"a": "numeric"}, record={})
    values: list[bytes | None] = [b"\0\0\0\0\1\x027\x04\0"] * N
    assert both(spec, [content], values).x.tolist() == [[2.0]] * N


@jit
def test_the_kernel_is_compiled_once() -> None:
    spec = spec_of(features={"a": "numeric", "n": "numeric"}, record={})
    both(spec, [CONTENT], [GOOD] * N)
    codec = codec_of(spec, record(("id", "string"), ("y", "string")))
    codec.warm_up()
    codec.decode_labels(raw([b"\0\0\0\0\1\x027\2u"] * N), spec.class_vocabulary())
    assert len(avro_kernel.walk.signatures) == 1
    assert avro_kernel.walk.targetoptions["nogil"] is True
    assert avro_kernel.walk.targetoptions["error_model"] == "numpy"
    assert avro_kernel.walk.targetoptions["_nrt"] is False
