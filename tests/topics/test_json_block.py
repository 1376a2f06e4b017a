"""Blocks of JSON records: what the kernel takes, and what it leaves to the decoder. That both give the same bits is
what `tests/fuzz/blocks.py` holds them to, in `make test` too."""

import json
import math
import struct
from typing import Any

import numpy as np
import pytest

from riparian.app.partition.join.ids import packed
from riparian.topics import records as r
from riparian.topics.codecs import JsonCodec
from riparian.topics.formats.common.blocks import Block
from riparian.topics.formats.json import block as json_block
from riparian.topics.formats.json.block import JsonBlockReader
from riparian.topics.formats.json.number import LARGEST, SMALLEST, decimal
from riparian.topics.formats.json.program import program
from riparian.topics.records import Feature, Mapping
from riparian.topics.slices import Slices, Texts
from riparian.topics.vocabulary import Vocabulary
from tests.conftest import jit
from tests.topics.decoding import raw, same, watch

N = 40
FEATURES = (
    Feature("a", r.NUMERIC, ("x", "a")),
    Feature("b", r.BOOLEAN, ("x", "b")),
    Feature("c", r.NOMINAL, ("x", "c")),
    Feature("far", r.NUMERIC, ("more", "deep", "far")),
)
MAPPING = Mapping(r.CLASSIFICATION, FEATURES, time=("ts",))


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[Block | None]:
    return watch(monkeypatch, JsonBlockReader)


def both(values: list[Any], mapping: Mapping = MAPPING, batches: int = 1) -> Any:
    """The features of the records, and that the decoder alone gives the same."""
    found = []
    for plain in (False, True):
        codec = JsonCodec(mapping)
        if plain:
            codec.readers[0].few = 1 << 60
        vocabularies = [Vocabulary(9) if f.type == r.NOMINAL else None for f in mapping.features]
        for _ in range(batches):
            last = codec.decode_features(raw(values), vocabularies, Vocabulary(9))
        found.append((last, [None if v is None else v.state() for v in vocabularies]))
    (one, known), (other, known_too) = found
    assert repr(known) == repr(known_too)
    assert one.rejected == other.rejected
    same(one, other)
    return one


def record(i: int, **changed: Any) -> dict[str, Any]:
    inside = {"c": ["u", "v", "é"][i % 3], "a": [1.5, -2, 0.1, 1e-7, None][i % 5] or i / 7, "b": i % 2 == 0}
    more = {"deep": {"far": i / 3}, "list": [i, "text", None]}
    return {"id": f"i{i}", "ts": 1_700_000_000_000 + i, "x": inside, "note": f"n{i}", "more": more, **changed}


@pytest.mark.parametrize("style", [{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}])
def test_usual_records_are_all_taken(blocks: list[Block | None], style: dict[str, Any]) -> None:
    values = [json.dumps(record(i, x={**record(i)["x"], "c": "uvw"[i % 3]}), **style).encode() for i in range(N)]
    both(values)
    assert blocks[0] is not None
    assert blocks[0].left == []


def test_texts_beyond_ascii_are_taken_where_they_are_not_escaped(blocks: list[Block | None]) -> None:
    found = both([json.dumps(record(i), ensure_ascii=False).encode() for i in range(N)])
    assert blocks[0] is not None
    assert blocks[0].left == []
    assert len(found.ids) == N


def test_each_order_of_fields_has_a_program_of_its_own(blocks: list[Block | None]) -> None:
    """Of a few orders; what comes in any other is left, and read all the same."""
    turned = [dict(reversed(record(i).items())) if i % 2 else record(i) for i in range(N)]
    turned[7] = {"id": "i7", "x": {"a": 1, "b": None}}
    both([json.dumps(one, ensure_ascii=False).encode() for one in turned])
    assert blocks[0] is not None
    assert blocks[0].left == [7]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id":"a","x":{"a":1}} {}', r.NOT_JSON),
        (b'{"id":"a","x":{"a":01}}', r.NOT_JSON),
        (b'{"id":"a","x":{"a":1.}}', r.NOT_JSON),
        (b'{"id":"a","x":{"a":1e999}}', r.NOT_FINITE),
        (b'{"id":"a","x":{"a":1', r.NOT_JSON),
        (b'{"id":"a', r.NOT_JSON),
        (b'{"id":"\xff","x":{"a":1}}', r.NOT_UTF8),
        (None, r.TOMBSTONE),
        (b"", r.EMPTY),
    ],
)
def test_what_is_no_such_record_is_left(blocks: list[Block | None], value: Any, reason: str) -> None:
    mapping = Mapping(r.CLASSIFICATION, FEATURES[:1])
    for at in (0, 11, N - 1):
        values: list[Any] = [b'{"id":"i%d","x":{"a":%d}}' % (i, i) for i in range(N)]
        values[at] = value
        found = both(values, mapping)
        assert [(bad.position, bad.reason) for bad in found.rejected] == [(at, reason)]
        assert blocks[-1] is not None
        assert blocks[-1].left == [at]


@pytest.mark.parametrize("number", ["-12.5", "0.000123456789e-05", "-7", "null", "123456789012", "1e+9"])
def test_nothing_is_read_behind_the_end_of_a_record(blocks: list[Block | None], number: str) -> None:
    """Whatever stands there: here the rest of the record, and then the next one."""
    whole = json.dumps(record(1, id="id of more bytes than eight")).replace("-2", number).encode()
    n, several = len(whole), [0] * N
    cuts = range(n)
    starts, stops = np.array([*several, *(0 for _ in cuts)]), np.array([*(n for _ in several), *cuts])
    both(Slices(whole + whole[: n - 1] + bytes(16), starts, stops))
    assert blocks[0] is not None
    assert blocks[0].left == list(range(N, N + n))


def test_records_of_which_none_is_like_another_are_not_tried_for_a_while(blocks: list[Block | None]) -> None:
    values = [json.dumps({"id": "a", f"n{i}": 0, "x": {"a": i}}).encode() for i in range(N)]
    both(values, batches=4)
    assert blocks[0] is not None  # the first two are like themselves
    assert blocks[1:4] == [None] * 3


@pytest.mark.parametrize(
    "value",
    [
        b'{"id":"a","id":"b","x":{"a":1}}',
        b'{"id":"a","i\\u0064":"b","x":{"a":1}}',
        b'{"id":"a","x":{"a":1,"a":2}}',
        b'{"id":"a","x":{"a":1},"t":"a\\"b"}',
    ],
)
def test_there_is_no_program_where_a_name_or_a_text_may_mean_something_else(value: bytes) -> None:
    shape = JsonCodec(Mapping(r.CLASSIFICATION, FEATURES[:1])).readers[0].shape
    assert shape is not None
    assert program(shape, b'{"id":"a","x":{"a":1}}') is not None
    assert program(shape, value) is None
    both([value] * N, Mapping(r.CLASSIFICATION, FEATURES[:1]))


def test_programs_are_bounded(blocks: list[Block | None]) -> None:
    codec = JsonCodec(Mapping(r.CLASSIFICATION, FEATURES[:1]))
    for i in range(30):
        value = json.dumps({"id": "a", f"n{i}": 0, "x": {"a": i}}).encode()
        codec.decode_features(raw([value] * N), [None], Vocabulary(9))
    reader = codec.readers[0]._blocks
    assert len(reader._programs) == json_block.MOST_PROGRAMS
    assert blocks[-1] is not None
    assert blocks[-1].left == []


def test_a_block_is_bounded(monkeypatch: pytest.MonkeyPatch, blocks: list[Block | None]) -> None:
    monkeypatch.setattr(json_block, "MOST_BYTES", 100)
    both([json.dumps(record(i)).encode() for i in range(N)])
    assert blocks[0] is None


def test_labels_are_read_in_blocks_too() -> None:
    values: list[Any] = [json.dumps({"id": i, "y": "UP" if i % 2 else "DOWN"}).encode() for i in range(N)]
    values[3] = b'{"id": 3}'
    found = []
    for few in (2, 1 << 60):
        codec = JsonCodec(MAPPING)
        codec.readers[1].few = few
        found.append(codec.decode_labels(raw(values), Vocabulary(9)))
    assert found[0] == found[1]
    assert [bad.reason for bad in found[0].rejected] == [r.WRONG_LABEL]


@jit
def test_numbers_are_those_that_python_reads() -> None:
    """Those at half the distance between two numbers, at the ends of the table, and by chance."""
    rng = np.random.default_rng(1)
    cases = [(d, p) for d in (0, 1, 2**53 - 1, 2**53, 2**53 + 1, 10**19 - 1) for p in range(SMALLEST - 2, LARGEST + 3)]
    for _ in range(40_000):
        digits = int(rng.integers(1, 10 ** int(rng.integers(1, 19))))
        cases.append((digits, int(rng.integers(SMALLEST, LARGEST))))
    for _ in range(20_000):
        half = (int(rng.integers(2**52, 2**53)) * 2 + 1) << int(rng.integers(0, 10))
        power = int(rng.integers(-3, 4))
        cases.append((half // 5**-power if power < 0 and half % 5**-power == 0 else half, power))
    out, left = np.zeros(1), 0
    for digits, power in cases:
        expected = float(f"{digits}e{power}")
        if decimal(np.uint64(digits), power, out, out.view(np.uint64)):
            assert struct.pack("<d", out[0]) == struct.pack("<d", expected), (digits, power)
        else:
            left += 1
            assert digits == 0 or expected < 2.3e-308 or math.isinf(expected), (digits, power)
    assert left < len(cases) / 10


def test_texts_that_no_object_was_made_of_are_the_strings_that_they_stand_for(blocks: list[Block | None]) -> None:
    values = [json.dumps(record(i, x={"a": 1, "b": None, "c": "uvw"[i % 3]}, y="no")).encode() for i in range(N)]
    ids = both(values).ids
    assert isinstance(ids, Texts)
    plain = [f"i{i}" for i in range(N)]
    assert ids == plain
    assert (list(ids), ids[3], ids[3:5], ids.take([7, 2])) == (plain, "i3", ["i3", "i4"], ["i7", "i2"])
    assert ids.lengths.tolist() == list(map(len, plain))
    text, ends = packed(ids)
    assert (text[: ends[-1]].tobytes(), ends.tolist()) == ("".join(plain).encode(), packed(plain)[1].tolist())
    # Of rejected records, and beside one that is left to the decoder, too.
    both([*values[:9], json.dumps(record(0, id="", y="no")).encode(), *values[9:]])
    both([*values[:9], b'{"id": "\\u00e9", "x": {"c": "new"}, "y": "no"}', *values[9:]])


@pytest.mark.parametrize("n_classes", [1, 2, 9, 80])
def test_classes_and_nominal_values_have_the_codes_of_their_texts(n_classes: int) -> None:
    names = [f"class {i}" * (1 + i % 3) for i in range(n_classes)]
    for known in (names, names[1:]):
        values = [
            json.dumps(record(i, x={"c": names[-i % n_classes]}, y=names[i % n_classes])).encode() for i in range(N)
        ]
        found = []
        for few in (2, 1 << 60):
            codec = JsonCodec(MAPPING)
            codec.readers[0].few = few
            vocabulary, classes = Vocabulary(100, known or ["other"]), Vocabulary(9)
            found.append(codec.decode_features(raw(values), [None, None, vocabulary, None], classes))
        one, other = found
        assert (one.rejected, one.ids, one.y) == (other.rejected, other.ids, other.y)
        assert one.x.tobytes() == other.x.tobytes()
        assert bool(one.rejected) == (known != names or n_classes == 80)
