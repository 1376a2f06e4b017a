"""Arrow batches as records: the same columns as JSON records of the same rows, whatever the types and the cuts.

The slow twin is the codec of JSON, on each row written as JSON.
"""

import datetime
import decimal
import hashlib
import json
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.errors import SpecError
from riparian.app.stream_file.spec import build
from riparian.topics.formats.arrow import messages as arrow_messages
from riparian.topics.formats.arrow.codec import ArrowCodec
from riparian.topics.formats.arrow.messages import _Table, sound_batch, weigh
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.places import BITS, place_of
from riparian.topics.records import RawBatch, Unread
from tests.topics.arrow_records import MARKED, SPEC, STREAM, big_endian, decoded, raw, rows, stream, table


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 60),
    st.integers(1, 3),
    st.data(),
)
def test_rows_of_batches_are_records_of_json(seed, n, batches, data):
    made = rows(n, seed)
    codec = ArrowCodec(SPEC.mapping())
    at = data.draw(st.integers(0, n))
    values = [stream(table(part), batches) for part in (made[:at], made[at:]) if part]
    batch = raw(values, codec)
    assert list(batch.offsets) == [
        place_of(o, i, BITS) for o, part in enumerate(p for p in (made[:at], made[at:]) if p) for i in range(len(part))
    ]
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    plain = raw([json.dumps(row).encode() for row in made])
    wanted = decoded(JsonCodec(SPEC.mapping()), plain)
    assert decoded(codec, batch, cuts=cuts) == wanted
    assert decoded(codec, raw(values, codec), cuts=range(1, n)) == wanted  # tables that were read before are closed


def test_records_of_big_endian_machines_are_those_of_little_endian_ones():
    """The first of a producer and all later ones, alone and among others."""
    codec, made = ArrowCodec(SPEC.mapping()), rows(40, 3)
    batches = [table(part).replace_schema_metadata(MARKED) for part in (made[:10], made[10:25], made[25:])]
    dictionaries = [batch.set_column(0, "id", batch.column("id").dictionary_encode()) for batch in batches]
    for parts in (batches, dictionaries):
        plain = [stream(part) for part in parts]
        other = [big_endian(value, part.schema) for value, part in zip(plain, parts, strict=True)]
        wanted = decoded(codec, raw(plain, codec))
        for values in (other, [plain[0], *other[1:]], [*other[:2], plain[2]]):
            for one in (codec, ArrowCodec(SPEC.mapping())):
                assert decoded(one, raw(values, one), cuts=[10, 25]) == wanted
    # Dead letters of single rows are little-endian.
    assert ArrowCodec(SPEC.mapping()).unpack("features", raw([other[1]])).values[3].one(place_of(0, 3, BITS)) == (
        ArrowCodec(SPEC.mapping()).unpack("features", raw([plain[1]])).values[3].one(place_of(0, 3, BITS))
    )


@pytest.mark.parametrize("kind", [pa.decimal32, pa.decimal64, pa.decimal128, pa.decimal256])
def test_decimals_of_scales_that_arrow_does_not_bound_are_refused(kind):
    """It ended the process for 2^31 - 1 places, and gave 0 for 39 of 128 bits."""
    most = {32: 9, 64: 18, 128: 38, 256: 76}[kind(5, 0).bit_width]
    for scale in (2**31 - 1, -(2**31), 400_000_000, most + 1, -most - 1, most, -most):
        width = kind(5, 0).bit_width // 8
        column = pa.Array.from_buffers(kind(5, scale), 2, [None, pa.py_buffer((7).to_bytes(width, "little") * 2)])
        for one in (column, pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), column)):
            batch = table(rows(2, 1))
            for name in ("a", "c", "ts"):
                given = batch.set_column(batch.schema.get_field_index(name), name, one)
                codec = ArrowCodec(SPEC.mapping())
                batches = raw([stream(given)], codec)
                found = codec.decode_features(batches, SPEC.vocabularies(), SPEC.class_vocabulary())
                if abs(scale) > most:
                    assert [bad.reason for bad in found.rejected] == ["unusable-schema"]
                elif name == "a":
                    assert found.x[0, 0] == pytest.approx(float(f"7e{-scale}"))


def test_labels_that_are_null_are_told_apart_from_those_that_are_none():
    values = ["up", None, "__debezium_unavailable_value", "down"]
    batch = pa.record_batch({"id": list("abcd"), "y": values, "ts": [1000.0] * 4})
    codec = ArrowCodec(SPEC.mapping())
    found = codec.decode_labels(raw([stream(batch)], codec, "labels"), SPEC.class_vocabulary())
    assert (list(found.ids), [bad.reason for bad in found.rejected]) == (["a", "b", "d"], ["wrong-label"])
    assert np.isnan(found.y).tolist() == [False, True, False]
    bare = pa.record_batch({"id": list("ab"), "ts": [1000.0] * 2})
    found = codec.decode_labels(raw([stream(bare)], codec, "labels"), SPEC.class_vocabulary())
    assert [bad.reason for bad in found.rejected] == ["unusable-schema"]


def test_schemas_are_remembered_by_digests():
    """With a trace or a text of a megabyte in its metadata, each record has a schema of its own."""
    codec = ArrowCodec(SPEC.mapping())
    for i in range(3):
        batch = table(rows(2, i)).replace_schema_metadata({"trace": f"{i}" * 300_000})
        codec.unpack("features", raw([stream(batch)]))
    schemas = codec._readers[0]._schemas
    assert [len(key) for key in schemas] == [16] * 3
    assert len({id(fit) for fit in schemas.values()}) == 3


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
    cure = "`text: true` takes numbers that are texts"
    assert said(texts) == ("unusable-schema", f'features.a: expected a number in the column "a", found string; {cure}')
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
    assert weigh(stream(zeros)).rows == 1000
    with pytest.raises(ValueError, match=r"1,000 rows in \d{3} bytes"):
        weigh(stream(pa.record_batch({"n": pa.nulls(1000)})))
    with pytest.raises(ValueError, match="columns of an impossible length"):
        weigh(stream(pa.record_batch({"n": pa.nulls(1_000_000)})))
    with pytest.raises(ValueError, match="more than 1,048,576 rows"):
        weigh(stream(pa.record_batch({"n": np.zeros(2**20 + 1, np.int8)})))
    monkeypatch.setattr(arrow_messages, "MOST_MESSAGES", 5)
    with pytest.raises(ValueError, match="more than 5 messages"):
        weigh(stream(zeros, batches=10))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_one_dead_letter_that_names_the_cure(compression):
    reason, detail = said(stream(table(rows(9, 1)), compression=compression))
    assert reason == "malformed"
    assert detail.endswith("compressed buffers; write them plain, and let the producer compress (its compression.type)")
    words = pa.record_batch({"id": pa.array(["a" * 99] * 9).dictionary_encode()})
    with pytest.raises(ValueError, match="compressed buffers"):
        weigh(stream(words, compression=compression))


def changed(value, old, new):
    """The pairs of numbers `old`, as messages have them, as `new`."""
    old, new = struct.pack("<qq", *old), struct.pack("<qq", *new)
    assert old in value
    return value.replace(old, new)


def test_words_that_take_no_bytes_are_bounded():
    """A dictionary of nulls, of which a column's values are made one by one."""
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.nulls(1234))
    value = stream(pa.record_batch({"c": words}))
    assert weigh(value).rows == 2
    with pytest.raises(ValueError, match="columns of an impossible length"):
        weigh(changed(value, (1234, 1234), (60_000_000, 60_000_000)))


def test_buffers_that_lie_over_one_another_are_refused():
    """Batches are joined, and each column would take what all of them do."""
    value = stream(pa.record_batch({f"c{i}": np.arange(100, dtype=float) for i in range(3)}))
    assert weigh(value).rows == 100
    with pytest.raises(ValueError, match="lie over one another"):
        weigh(changed(changed(value, (800, 800), (0, 800)), (1600, 800), (0, 2400)))
    with pytest.raises(ValueError, match="beyond its message"):
        weigh(changed(value, (1600, 800), (1608, 800)))


def repeated(value, where, message=0):
    """The bytes of a stream in which all items of a list are its first one, as a message may say.

    where : (table, field) of the list, as `arrow.messages` reads the message, by its number in the stream.
    """
    at = 0
    for _ in range(message):
        (size,) = struct.unpack_from("<I", value, at + 4)
        at += 8 + size
    begin_of = at + 8
    (size,) = struct.unpack_from("<I", value, at + 4)
    metadata = memoryview(value)[begin_of : begin_of + size]
    begin, n = where(_Table(metadata, struct.unpack_from("<I", metadata)[0]))
    first, data = begin + struct.unpack_from("<I", metadata, begin)[0], bytearray(value)
    assert n > 1
    for place in range(begin, begin + 4 * n, 4):
        struct.pack_into("<I", data, begin_of + place, first - place)
    return bytes(data)


LONG = "x" * 2000
LABELS = {"0" + LONG: LONG, **{str(i): "" for i in range(1, 60)}}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (pa.schema([(LONG, pa.int8()), *((str(i), pa.int8()) for i in range(60))]), lambda m: m.table(2).vector(1)),
        (
            pa.schema([("a", pa.timestamp("ms", LONG)), *((str(i), pa.int8()) for i in range(60))]),
            lambda m: m.table(2).vector(1),
        ),
        (pa.schema([("id", pa.string())], LABELS), lambda m: m.table(2).vector(2)),
        (
            pa.schema([pa.field("id", pa.string(), metadata=LABELS)]),
            lambda m: next(m.table(2).tables(1)).vector(6),
        ),
        (
            pa.schema([("s", pa.struct([(LONG, pa.int8()), *((str(i), pa.int8()) for i in range(60))]))]),
            lambda m: next(m.table(2).tables(1)).vector(5),
        ),
    ],
    ids=["fields", "zones", "metadata", "metadata of a field", "fields of a struct"],
)
def test_schemas_that_say_the_same_bytes_again_and_again_are_refused(schema, where):
    """Arrow would make each of them anew: 208 KB were 929 MiB."""
    value = stream(pa.RecordBatch.from_pylist([], schema))
    assert weigh(value).rows == 0
    hostile = repeated(value, where)
    pa.ipc.open_stream(hostile).read_all()  # a stream as any other to Arrow
    with pytest.raises(ValueError, match="the same bytes again and again"):
        weigh(hostile)
    metadata = hostile[8 : 8 + int.from_bytes(hostile[4:8], "little")]
    assert weigh(hostile, {weigh(value).schema, hashlib.blake2b(metadata, digest_size=16).digest()}).rows == 0


def test_messages_that_say_the_same_bytes_again_and_again_are_refused():
    sink, batch = pa.BufferOutputStream(), pa.record_batch({"id": ["a"]})
    with pa.ipc.new_stream(sink, batch.schema) as out:
        out.write_batch(batch, custom_metadata=LABELS)
    value = sink.getvalue().to_pybytes()
    assert weigh(value).rows == 1
    with pytest.raises(ValueError, match="the same bytes again and again"):
        weigh(repeated(value, lambda m: m.vector(4), 1))


def test_views_of_the_same_bytes_are_bounded():
    n, text = 1000, b"x" * 100_000
    views = (struct.pack("<i", len(text)) + text[:4] + struct.pack("<ii", 0, 0)) * n
    array = pa.Array.from_buffers(pa.string_view(), n, [None, pa.py_buffer(views), pa.py_buffer(text)])
    few = array.slice(0, 671)
    for column in (array, pa.StructArray.from_arrays([array], ["a"]), array.slice(0, 672)):
        with pytest.raises(ValueError, match="views of more than 64 MiB"):
            sound_batch(stream(pa.record_batch({"c": column})))
    batch, _ = sound_batch(stream(pa.record_batch({"c": few})))
    assert batch.num_rows == 671


def test_words_that_are_added_again_and_again_are_bounded(monkeypatch):
    """Each batch behind an addition has all of the words anew."""
    sink, kind = pa.BufferOutputStream(), pa.dictionary(pa.int8(), pa.string())
    options, words = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True), [LONG + str(i) for i in range(20)]
    with pa.ipc.new_stream(sink, pa.schema([("c", kind)]), options=options) as out:
        for i in range(1, 20):
            column = pa.DictionaryArray.from_arrays(pa.array([i - 1], pa.int8()), pa.array(words[:i]))
            out.write_batch(pa.record_batch({"c": column}))
    value = sink.getvalue().to_pybytes()
    assert sound_batch(value)[0].column("c").to_pylist() == words[:19]
    monkeypatch.setattr(arrow_messages, "MOST_BYTES", 300_000)
    with pytest.raises(ValueError, match="MiB of dictionaries"):
        weigh(value)


def test_names_that_are_no_text_are_one_dead_letter():
    value = stream(table(rows(3, 1)).append_column("unmapped", pa.array([1.0, 2.0, 3.0])))
    reason, detail = said(value.replace(b"unmapped", b"unm\xb7pped"))
    assert reason == "malformed"
    assert "utf-8" in detail


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
