"""Arrow batches as records: the same columns as JSON records of the same rows, whatever the types and the cuts.

The slow twin is the codec of JSON, on each row written as JSON.
"""

import datetime
import decimal
import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import DataError, SpecError
from app.replay import Messages, together
from app.stream_file.spec import build
from topics.formats import arrow_messages
from topics.formats.arrow import ArrowCodec, Table
from topics.formats.arrow_messages import layout, weigh
from topics.formats.json import JsonCodec
from topics.places import BITS, place_of
from topics.records import RawBatch, Unread
from topics.slices import Texts

STREAM = {
    "name": "s",
    "task": "classification",
    "topics": {"labels": "s.l"},
    "record": {"x": "", "time": "ts", "y": "y"},
    "label": {"time": "ts"},
    "features": {
        "a": "numeric",
        "b": {"type": "numeric", "from": "in.b"},
        "c": "nominal",
        "d": "boolean",
        "e": {"type": "numeric", "from": "list[1]"},
        "f": {"type": "nominal", "from": "in.deep.f"},
    },
}
SPEC = build(STREAM, "s")


def stream(batch, compression=None, batches=1):
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    size = -(-batch.num_rows // batches) or 1
    with pa.ipc.new_stream(sink, batch.schema, options=options) as out:
        for at in range(0, batch.num_rows, size):
            out.write_batch(batch.slice(at, size))
        if not batch.num_rows:
            out.write_batch(batch)
    return sink.getvalue().to_pybytes()


def raw(values, codec=None, role="features"):
    n = len(values)
    batch = RawBatch(list(range(n)), [1000 + i for i in range(n)], [b"k%d" % i for i in range(n)], list(values))
    return batch if codec is None else codec.unpack(role, batch)


def decoded(codec, batch, spec=SPEC, cuts=()):
    """What a codec makes of rows, cut into parts, with the vocabularies after."""
    known, classes = spec.vocabularies(), spec.class_vocabulary()
    edges = [0, *cuts, len(batch)]
    parts = [batch.part(a, b) for a, b in pairwise(edges)]
    found = [codec.decode_features(part, known, classes) for part in parts]
    rejected = [
        (a + one.position, one.reason, one.ignored)
        for a, part in zip(edges, found, strict=False)
        for one in part.rejected
    ]
    x = np.concatenate([part.x for part in found])
    y = [v for part in found for v in ([float("nan")] * len(part.ids) if part.y is None else list(map(float, part.y)))]
    times = [v for part in found for v in (part.times or [])]
    words = [None if v is None else v.texts for v in known]
    texts = [] if classes is None else classes.texts
    return [i for part in found for i in part.ids], x.tobytes(), repr(y), times, rejected, words, texts


def rows(n, seed):
    rng = np.random.default_rng(seed)

    def some(value, share=0.15):
        return None if rng.random() < share else value

    found = []
    for i in range(n):
        deep = some({"f": some(["u", "v", "ü" * 3][rng.integers(3)])})
        found.append(
            {
                "id": "" if i % 29 == 3 else some(f"id{i}", 0.02),
                "ts": some(1_700_000_000_000 + 1000 * i),
                "y": some(["up", "down"][rng.integers(2)], 0.5),
                "a": some(float(np.float32(rng.normal()))),
                "in": some({"b": some(int(rng.integers(-(2**60), 2**60))), "deep": deep}),
                "c": some(["p", "q", "r" * 2000][int(rng.integers(50) % 26 % 3 if i % 7 else 2)], 0.1),
                "d": some(bool(rng.integers(2))),
                "list": some([some(float(v)) for v in rng.random(rng.integers(4))]),
            }
        )
    return found


TYPES = {
    "id": pa.string(),
    "ts": pa.timestamp("ms", "UTC"),
    "y": pa.dictionary(pa.int8(), pa.string()),
    "a": pa.float32(),
    "in": pa.struct([("b", pa.int64()), ("deep", pa.struct([("f", pa.large_string())]))]),
    "c": pa.string(),
    "d": pa.bool_(),
    "list": pa.list_(pa.float64()),
}


def table(made, types=None):
    types = {**TYPES, **(types or {})}
    return pa.RecordBatch.from_arrays([pa.array([r[k] for r in made], types[k]) for k in types], list(types))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.sampled_from([None, "lz4", "zstd"]),
    st.integers(1, 3),
    st.data(),
)
def test_rows_of_batches_are_records_of_json(seed, n, compression, batches, data):
    made = rows(n, seed)
    codec = ArrowCodec(SPEC.mapping())
    at = data.draw(st.integers(0, n))
    values = [stream(table(part), compression, batches) for part in (made[:at], made[at:]) if part]
    batch = raw(values, codec)
    assert list(batch.offsets) == [
        place_of(o, i, BITS) for o, part in enumerate(p for p in (made[:at], made[at:]) if p) for i in range(len(part))
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    plain = raw([json.dumps(row).encode() for row in made])
    wanted = decoded(JsonCodec(SPEC.mapping()), plain)
    assert decoded(codec, batch, cuts=cuts) == wanted
    assert decoded(codec, raw(values, codec), cuts=range(1, n)) == wanted  # tables that were read before are closed


MICRO = "1970-01-01T00:00:00.000005"
MS = pa.timestamp("ms")
FIXED = pa.list_(pa.float64(), 2)


@pytest.mark.parametrize(
    ("name", "kind", "values", "as_json"),
    [
        ("id", pa.int64(), [1, -(2**62), None], [1, -(2**62), None]),
        ("id", pa.uint64(), [1, 2**64 - 1, 7], [1, 2**64 - 1, 7]),
        ("id", pa.dictionary(pa.int32(), pa.string()), ["a", "b", "a"], ["a", "b", "a"]),
        ("id", pa.large_string(), ["a", "x" * 1030, "c"], ["a", "x" * 1030, "c"]),
        ("ts", pa.int64(), [1_700_000_000, 1_700_000_000_123, None], [1_700_000_000, 1_700_000_000_123, None]),
        ("ts", pa.float64(), [1.5, float("inf"), None], [1.5, "inf", None]),
        ("ts", pa.string(), ["2024-01-02T03:04:05", "no", None], ["2024-01-02T03:04:05", "no", None]),
        ("ts", pa.timestamp("us"), [1_700_000_000_123_456, 5, None], ["2023-11-14T22:13:20.123456", MICRO, None]),
        ("ts", None, pa.array([1_700_000_000_123, None, 5], MS).dictionary_encode(), [1_700_000_000_123, None, 0.005]),
        ("id", pa.string_view(), ["a", "x" * 1030, "c"], ["a", "x" * 1030, "c"]),
        ("c", pa.string_view(), ["a", None, "a"], ["a", None, "a"]),
        ("ts", pa.date32(), [datetime.date(2024, 1, 2), None, None], ["2024-01-02", None, None]),
        ("y", pa.int32(), [1, 2, None], [1, 2, None]),
        ("y", pa.float64(), [1.0, 2.5, None], [1.0, 2.5, None]),
        ("y", pa.bool_(), [True, False, None], [True, False, None]),
        ("c", pa.int8(), [1, 2, 1], [1, 2, 1]),
        ("c", pa.float32(), [1.0, 2.5, float("nan")], [1.0, 2.5, None]),
        ("c", pa.dictionary(pa.uint8(), pa.int64()), [5, 6, 5], [5, 6, 5]),
        ("a", pa.float16(), np.float16([1.5, -0.25, 3]), [1.5, -0.25, 3]),
        ("a", pa.uint64(), [2**64 - 1, 2**53 + 1, 0], [2**64 - 1, 2**53 + 1, 0]),
        ("a", pa.decimal128(20, 3), [decimal.Decimal("1.125"), decimal.Decimal("-3.001"), None], [1.125, -3.001, None]),
        ("a", pa.decimal256(50, 3), [decimal.Decimal("1.125"), None, None], [1.125, None, None]),
        ("a", pa.null(), [None] * 3, [None] * 3),
        ("a", pa.dictionary(pa.int8(), pa.float64()), [1.5, 2.5, 1.5], [1.5, 2.5, 1.5]),
        ("a", pa.float64(), [1.0, float("nan"), -0.0], [1.0, None, -0.0]),
        ("list", FIXED, [[1.0, 2.0], None, [3.0, None]], [[1.0, 2.0], None, [3.0, None]]),
        ("list", pa.large_list(pa.int8()), [[1, 2], [1], []], [[1, 2], [1], []]),
        ("in", pa.null(), [None] * 3, [None] * 3),
    ],
)  # fmt: skip
def test_types(name, kind, values, as_json):
    made = [{**row, "id": f"i{k}", "c": "p"} for k, row in enumerate(rows(3, 5))]
    batch = table(made)
    column = values if kind is None else pa.array(values, kind)
    batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    codec = ArrowCodec(SPEC.mapping())
    plain = [json.dumps({**row, name: v}).encode() for row, v in zip(made, as_json, strict=True)]
    assert decoded(codec, raw([stream(batch)], codec)) == decoded(JsonCodec(SPEC.mapping()), raw(plain))


def test_rows_with_infinite_numbers_are_rejected_alone_and_named_as_in_json():
    made = [{**row, "id": f"i{k}"} for k, row in enumerate(rows(6, 8))]
    infinite = table(made, {"a": pa.float64()})
    infinite = infinite.set_column(3, "a", pa.array([1.0, float("inf"), 2.0, -float("inf"), float("nan"), 3.0]))
    codec = ArrowCodec(SPEC.mapping())
    found = codec.decode_features(raw([stream(infinite)], codec), SPEC.vocabularies(), SPEC.class_vocabulary())
    assert [(one.position, one.reason) for one in found.rejected if one.reason == "not-finite"] == [
        (1, "not-finite"), (3, "not-finite"),
    ]  # fmt: skip
    alone = raw([stream(infinite)], codec).values[0].one(place_of(0, 3, BITS))
    row = raw([alone], codec)
    assert (len(row), pa.ipc.open_stream(alone).read_all().num_rows) == (1, 1)
    found = codec.decode_features(row, SPEC.vocabularies(), SPEC.class_vocabulary())
    assert [one.reason for one in found.rejected] == ["not-finite"]


def said(batch, role="features", spec=SPEC):
    codec = ArrowCodec(spec.mapping())
    value = batch if isinstance(batch, bytes) else stream(batch)
    unpacked = raw([value], codec, role)
    decode = codec.decode_labels if role == "labels" else codec.decode_features
    args = () if role == "labels" else (spec.vocabularies(),)
    found = decode(unpacked, *args, spec.class_vocabulary())
    assert len(unpacked) == 1
    (one,) = found.rejected
    assert one.ignored or unpacked.values[0].one(unpacked.offsets[0]) == value
    return one.reason, one.detail


def test_a_batch_that_does_not_fit_is_one_dead_letter_with_a_sentence():
    good = table(rows(50, 1))
    renamed = good.rename_columns(["id", "ts", "y", "A1", "in", "c", "d", "list"])
    assert said(renamed) == (
        "unusable-schema",
        'features.a: expected the column "a", found none; the batch has id, ts, y, A1, in, c, d, list',
    )
    assert said(good.drop_columns(["id"]))[1].startswith('record.id: expected the column "id", found none')
    texts = good.set_column(3, "a", pa.array(["x"] * 50))
    assert said(texts) == ("unusable-schema", 'features.a: expected a number in the column "a", found string')
    assert said(good.set_column(6, "d", pa.array([1] * 50)))[1].endswith('a boolean in the column "d", found int64')
    assert said(good.set_column(5, "c", pa.array([b"x"] * 50)))[1].endswith(
        'expected a text, a number or a boolean in the column "c", found binary'
    )
    assert said(good.set_column(0, "id", pa.array([1.5] * 50)))[1].startswith("record.id: expected a text or a whole")
    assert said(good.drop_columns(["list"]))[1].startswith('features.e: expected the column "list[1]", found none')
    assert said(good.slice(0, 0)) == ("no-row", "a batch without rows")
    labels = pa.record_batch({"id": ["a"] * 3, "why": ["u"] * 3})
    assert said(labels, "labels")[1] == 'label.y: expected the column "y", found none; the batch has id, why'
    # What a record can do without, its batch can, too.
    codec = ArrowCodec(SPEC.mapping())
    bare = raw([stream(good.drop_columns(["ts", "y"]))], codec)
    found = codec.decode_features(bare, SPEC.vocabularies(), SPEC.class_vocabulary())
    assert found.y is None
    assert set(found.times) == {None}


def test_values_that_are_no_batches_are_one_row():
    codec = ArrowCodec(SPEC.mapping())
    batch = raw([None, b"", Unread.batch(1, 2, "x"), b"{}", stream(table(rows(2, 2)))[:-40]], codec)
    assert list(batch.offsets) == [place_of(i, 0, BITS) for i in range(5)]
    found = codec.decode_features(batch, SPEC.vocabularies(), SPEC.class_vocabulary())
    assert [one.reason for one in found.rejected] == [
        "tombstone", "empty", "unreadable-batch", "malformed", "malformed",
    ]  # fmt: skip


def test_headers_keys_and_times_are_those_of_the_record():
    codec = ArrowCodec(SPEC.mapping())
    two = [stream(table(rows(n, n))) for n in (3, 2)]
    batch = codec.unpack("features", RawBatch([4, 9], [10, 20], [b"a", None], two, [[("h", b"1")], []]))
    assert list(batch.timestamps) == [10] * 3 + [20] * 2
    assert batch.keys == [b"a"] * 3 + [None] * 2
    assert batch.headers == [[("h", b"1")]] * 3 + [[]] * 2
    assert batch.offsets[3] == place_of(9, 0, BITS)
    assert codec.unpack("features", RawBatch([], [], [], [])) == RawBatch([], [], [], [])


# Hostile bytes


def test_what_a_batch_claims_is_bounded_before_it_is_read(monkeypatch):
    zeros = pa.record_batch({"id": ["a"] * 1000, **{name: np.zeros(1000) for name in "abc"}})
    bomb = stream(pa.record_batch({"z": np.zeros(9 * 2**20)}).slice(0), "zstd")
    assert len(bomb) < 200_000
    with pytest.raises(ValueError, match=r"more than 1,048,576 rows"):
        weigh(bomb)
    wide = pa.record_batch({f"z{i}": np.zeros(100_000) for i in range(90)})
    with pytest.raises(ValueError, match="more than 64 MiB decompressed"):
        weigh(stream(wide, "lz4"))
    with pytest.raises(ValueError, match=r"1,000,000 rows in \d+ bytes"):
        weigh(stream(pa.record_batch({"n": pa.nulls(1_000_000)})))
    assert weigh(stream(zeros, "zstd"))[:2] == (1000, True)
    assert weigh(stream(zeros))[:2] == (1000, False)
    monkeypatch.setattr(arrow_messages, "MOST_MESSAGES", 5)
    with pytest.raises(ValueError, match="more than 5 messages"):
        weigh(stream(zeros, batches=10))


def mutated(value, rng):
    """Bytes changed, cut, repeated or put elsewhere; most often numbers in the metadata."""
    data = bytearray(value)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data))) if rng.random() < 0.6 else int(rng.integers(min(900, len(data))))
        kind = rng.integers(5)
        if kind == 0:
            data[at] = int(rng.integers(256))
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            width = [1, 2, 4, 8][rng.integers(4)]
            number = int(rng.choice([0, 1, 255, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**64 - 1, 2**40]))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 3:
            del data[at : at + int(rng.integers(1, 20))]
        else:
            data[at:at] = data[max(0, at - 16) : at]
        if not data:
            return b"\0"
    return bytes(data)


def test_names_that_are_no_text_are_one_dead_letter():
    value = stream(table(rows(3, 1)).append_column("unmapped", pa.array([1.0, 2.0, 3.0])))
    reason, detail = said(value.replace(b"unmapped", b"unm\xb7pped"))
    assert reason == "malformed"
    assert "utf-8" in detail


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_mutated_batches_never_raise_and_give_one_answer(compression):
    rng = np.random.default_rng(7)
    codec, slow = ArrowCodec(SPEC.mapping()), by_arrow(SPEC)
    values = [stream(table(rows(n, n)), compression, batches) for n, batches in ((1, 1), (9, 2), (40, 3))]
    read = refused = 0
    for _ in range(1500):
        value = mutated(values[rng.integers(3)], rng)
        batch = raw([value], codec)
        known, classes = SPEC.vocabularies(), SPEC.class_vocabulary()
        found = codec.decode_features(batch, known, classes)
        read += isinstance(batch.values[0], Table) and batch.values[0].refused is None
        refused += len(batch) == len(found.rejected) == 1
        again = raw([value], codec)
        assert decoded(codec, again, cuts=range(1, len(again))) == decoded(codec, raw([value], codec))
        assert decoded(slow, raw([value], slow)) == decoded(codec, again)
        for one in found.rejected:
            made = batch.values[one.position]
            if isinstance(made, Table):
                assert made.one(batch.offsets[one.position])
    assert read > 40
    assert refused > 300


# Records that are like one that Arrow has read

FLAT = {
    "name": "s",
    "task": "classification",
    "topics": {"labels": "s.l"},
    "record": {"x": "x", "time": "ts", "y": "y"},
    "features": {"a": "numeric", "b": "numeric", "i": "numeric", "d": "boolean", "c": "nominal", "w": "nominal"},
}
FLAT_SPEC = build(FLAT, "s")
DICTIONARY = pa.dictionary(pa.int8(), pa.string())


def by_arrow(spec):
    codec = ArrowCodec(spec.mapping())
    for reader in codec.readers:
        reader.scans = False
    return codec


def flat(n, seed, share=0.2, ids=None, words=("p", "q")):
    """A batch of columns that the kernel knows, in structs."""
    rng = np.random.default_rng(seed)

    def some(values, kind):
        return pa.array(values, kind, mask=rng.random(n) < share)

    x = {
        "a": some(rng.normal(size=n), pa.float64()),
        "b": some(rng.normal(size=n).astype(np.float32), pa.float32()),
        "i": some(rng.integers(-(2**62), 2**62, n), pa.int64()),
        "d": some(rng.random(n) < 0.5, pa.bool_()),
        "c": some(rng.choice(words, n), pa.string()),
        "w": pa.DictionaryArray.from_arrays(some(rng.integers(0, 3, n), pa.int8()), pa.array(["u", "v", "w"])),
    }
    return pa.record_batch(
        {
            "id": pa.array([f"i{k}" for k in range(n)]) if ids is None else ids,
            "ts": some(1_700_000_000_000 + np.arange(n), pa.int64()).cast(pa.timestamp("ms")),
            "y": some(rng.choice(["up", "down"], n), pa.large_string()),
            "more": some([b"\xff"] * n, pa.binary()),
            "none": pa.nulls(n),
            "x": pa.StructArray.from_arrays(list(x.values()), list(x)),
        }
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("ids", [None, pa.int64(), pa.uint8(), pa.large_string()])
def test_records_like_one_that_arrow_has_read_are_not_read_by_it_again(share, ids):
    def made(n, seed):
        return flat(n, seed, share, None if ids is None else pa.array(range(n)).cast(ids))

    codec, slow = ArrowCodec(FLAT_SPEC.mapping()), by_arrow(FLAT_SPEC)
    values = [stream(made(n, n)) for n in (5, 1, 64, 200, 33)]
    wanted = decoded(slow, raw(values, slow), FLAT_SPEC)
    assert decoded(codec, raw(values, codec), FLAT_SPEC, cuts=(3, 80, 81)) == wanted
    # The places of the lengths of a batch that has no nulls are those of one that has some.
    again = raw(values, codec)
    assert all(one.scanned for one in again.values.values)
    assert not any(one.scanned for one in raw(values, slow).values.values)
    assert decoded(codec, again, FLAT_SPEC, cuts=range(1, len(again))) == wanted


def test_what_is_unusual_is_read_by_arrow():
    codec = ArrowCodec(FLAT_SPEC.mapping())
    raw([stream(flat(9, 1))], codec)

    def scanned(value):
        return [one.scanned for one in raw([value], codec).values.values]

    good = stream(flat(9, 2))
    assert scanned(good) == [True]
    assert scanned(good[:-8]) == [True]  # without the mark of the end
    assert scanned(good + b"\0" * 8) == [False]  # what stands behind it, Arrow does not look at
    assert scanned(stream(flat(9, 2), "lz4")) == [False]
    assert scanned(stream(flat(9, 2), batches=2)) == [False]
    assert scanned(stream(flat(9, 2, words=("p", "ü")))) == [False]
    assert scanned(stream(flat(9, 2).slice(0, 0))) == [False]
    # What Arrow refuses, the kernel does not take.
    for old, new in ((b"i1i2", b"\xff1i2"), (b"downdown", b"dow\xffdown")):
        value = stream(flat(60, 2)).replace(old, new, 1)
        assert scanned(value) == [False]


def test_infinite_numbers_of_records_that_arrow_has_not_read_are_rejected_alone():
    codec, slow = ArrowCodec(FLAT_SPEC.mapping()), by_arrow(FLAT_SPEC)
    values = [stream(flat(40, 1))]
    batch = flat(40, 2, 0.0)
    x = batch.column("x").flatten()
    x[0] = pa.array([float("inf") if i in (3, 17) else 0.5 for i in range(40)])
    x[1] = pa.array([-float("inf") if i in (3, 20) else 0.5 for i in range(40)], pa.float32())
    names = [field.name for field in batch.schema.field("x").type]
    values.append(stream(batch.set_column(5, "x", pa.StructArray.from_arrays(x, names))))
    found = [
        one.decode_features(raw(values, one), FLAT_SPEC.vocabularies(), FLAT_SPEC.class_vocabulary())
        for one in (codec, slow)
    ]
    assert raw(values, codec).values[40].scanned
    assert found[0].rejected == found[1].rejected
    assert [(one.position, one.detail[:3]) for one in found[0].rejected if one.reason == "not-finite"] == [
        (43, "x.a"), (57, "x.a"), (60, "x.b"),
    ]  # fmt: skip
    assert found[0].x.tobytes() == found[1].x.tobytes()


def test_numbers_of_a_message_alone_may_differ():
    """One number after the other of the messages, set to what is hostile: what a kernel takes, Arrow takes."""
    codec, slow = ArrowCodec(FLAT_SPEC.mapping()), by_arrow(FLAT_SPEC)
    value = stream(flat(12, 1))
    raw([value], codec)
    head = 8 + int.from_bytes(value[4:8], "little")
    taken = 0
    for at in range(head, min(len(value), head + 1200), 8):
        for number in (0, 1, 11, 13, 2**31, 2**40, 2**63 - 1, 2**64 - 8, 2**64 - 1):
            other = value[:at] + number.to_bytes(8, "little") + value[at + 8 :]
            batch = raw([other], codec)
            if isinstance(batch.values[0], Table) and batch.values[0].scanned:
                taken += 1
                assert decoded(codec, batch, FLAT_SPEC) == decoded(slow, raw([other], slow), FLAT_SPEC)
    assert taken > 10


def test_layouts_whose_numbers_stand_among_what_says_where_they_are_are_none():
    value = stream(flat(12, 1))
    at, found = 0, []
    while at + 8 < len(value):
        size = int.from_bytes(value[at + 4 : at + 8], "little")
        metadata = value[at + 8 : at + 8 + size]
        known = layout(metadata)
        found.append(known)
        at += 8 + size + (0 if known is None else int.from_bytes(metadata[known.body : known.body + 8], "little"))
    assert found[0] is None  # a schema
    assert [one.dictionary for one in found[1:]] == [0, None]
    assert [one.n_nodes for one in found[1:]] == [1, 12]
    rng = np.random.default_rng(3)
    for _ in range(3000):
        changed = bytearray(metadata)
        for _ in range(int(rng.integers(1, 4))):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
        one = layout(bytes(changed))
        if one is not None:
            assert len(one.fixed) == len(changed)
            assert one.fixed.count(0) == 16 + 16 * (one.n_nodes + one.n_buffers)


# Replays and predictions


@pytest.mark.parametrize("first", [0.5, None])
def test_what_a_replay_writes_is_read_as_its_json(first):
    made = [{**row, "id": f"i{k}", "list": [first, 1.5]} for k, row in enumerate(rows(40, 3))]
    codec, plain = ArrowCodec(SPEC.mapping()), JsonCodec(SPEC.mapping())
    texts = [json.dumps({k: v for k, v in row.items() if k != "ts"}).encode() for row in made]
    joined = codec.writer().join_features(texts)
    assert decoded(codec, raw([joined], codec)) == decoded(plain, raw(texts))
    labels = [json.dumps({"id": f"i{k}", "y": k % 2, "ts": None}).encode() for k in range(5)]
    one = codec.decode_labels(raw([codec.writer().join_labels(labels)], codec, "labels"), SPEC.class_vocabulary())
    two = plain.decode_labels(raw(labels), SPEC.class_vocabulary())
    assert (one.ids, one.y) == (two.ids, two.y)


def test_a_list_of_numbers_and_texts_is_refused_with_a_sentence():
    row = json.dumps({**rows(1, 3)[0], "ts": None, "list": ["a", 1.5]}).encode()
    with pytest.raises(DataError, match=r"""one type in the list "list", as Arrow has them, found string and double"""):
        together(Messages([b"i0"], [row], [1000]), ArrowCodec(SPEC.mapping()).writer().join_features, 10)


@pytest.mark.parametrize("challengers", [None, ["nb"]])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predictions_are_joined_and_split(task, challengers):
    changed = {"task": task} if task == "classification" else {"task": task, "record": {"x": ""}}
    spec = build({**STREAM, **changed, "codec": "arrow"}, "s")
    codec, classes = spec.make_codec(), spec.class_vocabulary()
    for word in ["up", 1, True] if classes is not None else []:
        classes.code(word)
    p = (
        np.array([[0.1, 0.7, 0.2], [0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
        if classes is not None
        else np.array([[1.5], [np.nan], [-0.0]])
    )
    named = {"challengers": dict.fromkeys(challengers, p)} if challengers else {}
    if challengers:
        named["reasons"] = [{"b": 2.5, "ü": -1.0}, None, {"a": 0.5}]
        named["said"] = np.array([[1.0, 0.0, 1.0], [0, 0, 0], [1, 1, 1]])
        if classes is None:
            named["said"] = np.array([[0.5, 2.5], [np.nan, np.nan], [-1.0, 1.0]])
    values = codec.encode_predictions(
        ["a", "b", "ü"], p, classes, "m", [1, 1, 2], [0, 0, 3], further={"index": [0, 1, 0], "label_index": [2, 3, 0]},
        **named,
    )  # fmt: skip
    packed = codec.pack_predictions(
        10**6, ids=["a", "b", "ü"], p=p, classes=classes, model="m", offsets=[1, 1, 2], label_offsets=[0, 0, 3],
        further={"index": [0, 1, 0], "label_index": [2, 3, 0]}, **named,
    )  # fmt: skip
    assert [row for record in packed for row in codec.split_predictions(record)] == values
    records = codec.join_predictions(values, 10**6)
    assert pa.ipc.open_stream(packed[0]).read_all().equals(pa.ipc.open_stream(records[0]).read_all())
    assert [row for record in records for row in codec.split_predictions(record)] == values
    assert len(records) == 1
    whole = pa.ipc.open_stream(records[0]).read_all().to_pydict()
    assert whole["y"] == (["1", None, "up"] if classes is not None else [1.5, None, -0.0])
    assert whole["offset"] == [1, 1, 2]
    assert whole["label_index"] == [2, 3, 0]
    if challengers:
        assert whole["reasons"] == [[("b", 2.5), ("ü", -1.0)], None, [("a", 0.5)]]
    if challengers and classes is None:
        assert (whole["lower"], whole["upper"]) == ([0.5, None, -1.0], [2.5, None, 1.0])
    elif challengers:
        assert whole["set"] == [["up", "true"], None, ["up", "1", "true"]]
    if classes is not None:
        assert whole["p"][0] == [("up", 0.1), ("1", 0.7), ("true", 0.2)]
    assert codec.read_place(values[1]).places(codec.index_bits) == (place_of(1, 1, BITS), place_of(0, 3, BITS))
    fewer = codec.encode_predictions(["d"], p[:1], classes, "other", [3], [0], challengers={"more": p[:1]})
    several = codec.join_predictions([*values, *fewer, *values], 10**6)
    assert len(several) == 3  # the models were others
    assert [row for record in several for row in codec.split_predictions(record)] == [*values, *fewer, *values]
    small = codec.join_predictions(values, 2 * len(values[0]))
    assert len(small) == 3
    assert [row for record in small for row in codec.split_predictions(record)] == values
    for wrong in (None, b"", b"{}", records[0][:-60]):
        with pytest.raises(ValueError):
            codec.split_predictions(wrong)


@given(st.integers(0, 10**6), st.integers(0, 6), st.booleans(), st.sampled_from([None, ["one"], ["one", "two"]]))
@settings(max_examples=60, deadline=None)
def test_predictions_are_packed_as_their_texts_say(seed, n_classes, probabilities, challengers):
    rng = np.random.default_rng(seed)
    spec = build({**STREAM, "codec": "arrow"}, "s")
    codec, classes, n = spec.make_codec(), spec.class_vocabulary(), int(rng.integers(0, 40))
    for k in range(n_classes):
        classes.code(["ü" * k + "c", k, bool(k % 2), k / 2][k % 4])

    def outputs():
        p = rng.random((n, 8)) * (rng.random((n, 1)) < 0.7)
        p[rng.random((n, 8)) < 0.05] = np.nan
        return p

    columns = {
        "ids": [f"i{i}" for i in range(n)], "p": outputs(), "classes": classes, "model": "m",
        "offsets": rng.integers(0, 99, n).tolist(), "label_offsets": rng.integers(0, 99, n).tolist(),
        "probabilities": probabilities, "further": {"index": list(range(n)), "label_index": [0] * n},
        "challengers": {role: outputs() for role in challengers} if challengers else None,
        "decided": {role: rng.integers(0, 4, n).astype(float) for role in ("champion", *(challengers or ()))},
        "reasons": [{"b": 0.5} if i % 2 else None for i in range(n)] if challengers else None,
    }  # fmt: skip
    room = int(rng.choice([100, 3000, 10**6]))
    packed = codec.pack_predictions(room, **columns)
    assert [row for record in packed for row in codec.split_predictions(record)] == codec.encode_predictions(**columns)
    assert codec.pack_predictions(10**6, **{**columns, "ids": ["x" * 6000] * n}) is None or n == 0
    edges = np.cumsum([2, *(len(one) + int(seed % 2) for one in columns["ids"])])
    data = b"ab" + b"".join(one.encode() + b"-" * int(seed % 2) for one in columns["ids"])
    texts = Texts(data, edges[:-1], edges[1:] - seed % 2)
    for name in ("offsets", "label_offsets"):
        columns[name] = np.array(columns[name], np.int64)
    assert codec.pack_predictions(room, **{**columns, "ids": texts}) == packed


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"record": {"id": "@key"}},
            "record.id: expected a column, since the instances of a record in arrow share its",
        ),
        ({"label": {"id": "@header:id"}}, 'found "@header:id"; name the column of the ids'),
        ({"predictions": {"trace": True}}, "predictions.trace: expected false"),
        (
            {"task": "multi-instance", "classes": ["a", "b"], "record": {}},
            "codec.features: expected a format with a record an instance, since these are bags, found arrow",
        ),
        (
            {"codec": {"features": "arrow", "predictions": "avro"}, "registry": {"url": "http://localhost:1"}},
            "codec.predictions: expected json or arrow, since predictions name their instance",
        ),
        ({"record": {"envelope": "debezium"}}, "codec.features: expected json"),
    ],
)
def test_what_a_stream_file_cannot_ask_of_batches(changed, sentence):
    with pytest.raises(SpecError) as caught:
        build({**STREAM, "record": {"x": ""}, "label": {}, "codec": "arrow", **changed}, "s")
    assert sentence in str(caught.value)
