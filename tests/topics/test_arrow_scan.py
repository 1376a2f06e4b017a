"""Arrow batches that are like one that Arrow has read: a kernel takes them, and they are as Arrow reads them."""

import numpy as np
import pyarrow as pa
import pytest

from app.stream_file.spec import build
from tests.topics.arrow_records import by_arrow, decoded, raw, stream
from topics.formats.arrow import ArrowCodec, Table
from topics.formats.arrow_messages import layout

FLAT = {
    "name": "s",
    "task": "classification",
    "topics": {"labels": "s.l"},
    "record": {"x": "x", "time": "ts", "y": "y"},
    "features": {"a": "numeric", "b": "numeric", "i": "numeric", "d": "boolean", "c": "nominal", "w": "nominal"},
}
FLAT_SPEC = build(FLAT, "s")


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
