"""Arrow batches as records: the same columns as JSON records of the same rows, whatever the types and the cuts.

The slow twin is the codec of JSON, on each row written as JSON.
"""

import datetime
import decimal
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import SpecError
from app.stream_file.spec import build
from tests.topics.arrow_records import SPEC, STREAM, by_arrow, decoded, raw, rows, stream, table
from topics.formats import arrow_messages
from topics.formats.arrow import ArrowCodec, Table
from topics.formats.arrow_messages import weigh
from topics.formats.json import JsonCodec
from topics.places import BITS, place_of
from topics.records import RawBatch, Unread


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
