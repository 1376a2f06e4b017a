"""Batches of every codec become records within a bound of memory: a batch beyond it is one record that says so."""

import json

import aiokafka.codec as codec
import pytest
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from riparian.app.kafka.wire_format import decompression, unpacking
from riparian.app.kafka.wire_format.unpacking import BatchRecords, FetchedBatches, Unpacking, size_of
from riparian.app.partition.records.partition_group import concatenate
from riparian.topics.codecs import CODECS
from riparian.topics.names import dead_letter
from riparian.topics.records import UNREADABLE_BATCH, Feature, Mapping, Unread
from riparian.topics.schemas import Schemas
from riparian.topics.vocabulary import Vocabulary

CODECS_OF_KAFKA = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TP = TopicPartition("source", 0)


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    for name in ("PartitionRecords", "MemoryRecords"):
        monkeypatch.setattr(fetcher, name, getattr(fetcher, name))
    monkeypatch.setattr(unpacking, "LEAST", 1 << 60)  # all one by one; by the kernel: test_record_batches.py
    unpacking.install()


def batch(values, compression="none", base=0, headers=()):
    builder = DefaultRecordBatchBuilder(2, CODECS_OF_KAFKA[compression], 0, -1, -1, 0, 1 << 30)
    for i, value in enumerate(values):
        builder.append(i, timestamp=1000 + i, key=b"k%d" % i, value=value, headers=list(headers))
    data = builder.build()
    data[:8] = base.to_bytes(8, "big")  # the broker writes it, and it is no part of the checksum
    return bytes(data)


def fetch(data, offset=0, asked=None, crc=True):
    """What a consumer is given that has asked for nothing before."""
    return BatchRecords(TP, FetchedBatches(data), None, offset, None, asked or Unpacking(["source"]), crc, 0)


@pytest.mark.parametrize("compression", CODECS_OF_KAFKA)
def test_records_of_every_codec_come_whole(compression):
    values = [json.dumps({"id": i}).encode() for i in range(3000)] + [None, b""]
    found = list(fetch(batch(values, compression)))
    assert [v for piece in found for v in piece.values] == values
    assert [o for piece in found for o in piece.offsets] == list(range(3002))
    assert found[0].timestamps[:2] == [1000, 1001]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_large_batch_comes_in_pieces_and_goes_on_from_each(compression):
    values = [b"%06d" % i + bytes(20_000) for i in range(1000)]
    data = batch(values, compression) + batch([b"next"], base=1000)
    assert len(data) < 1_500_000
    records = fetch(data)
    sizes, offsets, stops = [], [], []
    for piece in records:
        sizes.append(size_of(piece))
        offsets += piece.offsets
        stops.append(records.next_fetch_offset)
    assert offsets == list(range(1001))
    assert len(sizes) >= 15
    assert max(sizes) <= 2 * unpacking.PIECE_BYTES
    assert stops == sorted(stops)
    # Whoever stops after a piece asks for the rest, and is given the whole batch again.
    asked = Unpacking(["source"])
    begun = fetch(data, asked=asked)
    taken = next(begun).offsets + next(begun).offsets
    again = fetch(data, begun.next_fetch_offset, asked)
    assert taken + [o for piece in again for o in piece.offsets] == list(range(1001))
    assert asked.jumps == {}


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_is_one_record_without_a_value(compression, monkeypatch):
    monkeypatch.setattr(decompression, "MAX_BATCH_BYTES", 2_000_000)
    small = [b"%d" % i for i in range(10)]
    bomb = batch([bytes(200_000)] * 30, compression, base=10)
    data = batch(small, compression) + bomb + batch(small, compression, base=40)
    records = fetch(data)
    (found,) = records
    assert found.offsets == [*range(10), 39, *range(40, 50)]
    assert found.keys[10] is None
    unread = found.values[10]
    assert isinstance(unread, Unread)
    assert unread == b"the batch of offsets 10 to 39: more than 2,000,000 bytes when decompressed"
    assert records.next_fetch_offset == 50
    # Everybody who reads records one by one sees the same.
    told = list(BatchRecords(TP, FetchedBatches(data), None, 0, None, None, True, 0))
    assert [(r.offset, r.value) for r in told] == list(zip(found.offsets, found.values, strict=True))

    mapping = Mapping("classification", (Feature("a", "numeric", ("x", "a")),))
    rejected = CODECS["json"](mapping, Schemas()).decode_features(found, [None], Vocabulary(10)).rejected
    assert (10, UNREADABLE_BATCH, unread.decode(), False) in [tuple(one) for one in rejected]
    assert dead_letter(None, unread) == (None, None, [])


def test_the_memory_of_a_bomb_is_bounded():
    """Counted by the decompressor, not by the process: what it may write is what it is given."""
    bomb = codec.zstd_encode(bytes(300_000_000))
    assert len(bomb) < 20_000
    with pytest.raises(decompression.UnreadableBatchError, match="more than 268,435,456 bytes"):
        decompression.zstd(bomb)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_what_cannot_be_decompressed_is_a_record_that_says_so(compression, monkeypatch):
    data = bytearray(batch([b"value"] * 500, compression))
    data[-20:] = bytes(20)
    records = fetch(bytes(data), crc=False)
    (found,) = records
    assert found.offsets == [499]
    assert found.values[0].startswith(b"the batch of offsets 0 to 499: ")


def test_blocks_of_snappy_as_the_client_for_java_writes_them():
    raw = json.dumps(list(range(50_000))).encode()
    framed = codec.snappy_encode(raw, xerial_compatible=True)
    assert framed.startswith(decompression.XERIAL)
    assert bytes(decompression.snappy(framed)) == raw
    assert bytes(decompression.snappy(codec.snappy_encode(raw, xerial_compatible=False))) == raw
    with pytest.raises(decompression.UnreadableBatchError):
        decompression.snappy(framed[:16] + b"\xff\xff\xff\xff")


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_headers_are_kept_only_of_topics_that_are_asked_for_them(compression):
    about = [("trace", b"\xff"), ("trace", None), ("", b"")]
    data = batch([b"v"] * 3, compression, headers=about) + batch([b"w"], compression, base=3)
    (plain,) = fetch(data)
    assert plain.headers is None
    (found,) = fetch(data, asked=Unpacking(["source"], ["source"]))
    assert found[:4] == plain[:4]
    assert found.headers == [about] * 3 + [[]]
    assert size_of(found) == size_of(plain) + 3 * (3 * unpacking.HEADER_BYTES + 11)
    joined = concatenate([found.part(0, 1), found.part(1), found])
    assert joined.headers == found.headers * 2
    assert concatenate([plain, found]).headers is None
