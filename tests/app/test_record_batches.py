"""Record batches are read as Kafka counts them: what clients write as the client reads it, and whatever others send."""

import random
import struct
from collections.abc import Iterator

import pytest
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition

from riparian.app.kafka.wire_format import batches as kafka_batches
from riparian.app.kafka.wire_format import unpacking
from riparian.app.kafka.wire_format.unpacking import BatchRecords, FetchedBatches, Unpacking, size_of
from riparian.app.partition.records.partition_group import concatenate
from riparian.topics.records import RawBatch, Unread
from riparian.topics.slices import Slices, chained
from tests import batches
from tests.batches import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from tests.conftest import jit

TP = TopicPartition("source", 0)
COMPRESSION = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PartitionRecords", "MemoryRecords"):
        monkeypatch.setattr(fetcher, name, getattr(fetcher, name))
    monkeypatch.setattr(unpacking, "LEAST", 1)
    unpacking.install()


def sealed(data: bytearray, base: int = 0, flags: int = 0) -> bytes:
    """A batch as a broker keeps it: with its offset, further attributes, and a checksum that fits."""
    data[:8] = base.to_bytes(8, "big")
    data[22] |= flags
    data[17:21] = struct.pack(">I", calc_crc32c(bytes(data[21:])))
    return bytes(data)


def batch(random_: random.Random, base: int, n: int, headers: int = 0) -> tuple[bytes, int]:
    """Random records, and the offset behind them. headers : 1 for some, 2 for names that are not ASCII, too."""
    builder = DefaultRecordBatchBuilder(2, random_.choice(list(COMPRESSION.values())), 0, 7, 0, 0, 1 << 30)
    at, stamp = 0, random_.choice([0, 1_700_000_000_000])
    for _ in range(n):
        key = random_.choice([None, b"", b"k%d" % at, bytes(random_.randrange(200))])
        value = random_.choice([None, b"", b'{"id": %d}' % at, random_.randbytes(random_.randrange(400))])
        names = ["trace", "", "x" * 70, *(["über"] if headers == 2 else [])]
        about = [
            (random_.choice(names), random_.choice([None, b"", b"v" * random_.randrange(90)]))
            for _ in range(random_.randrange(3) if headers else 0)
        ]
        builder.append(at, timestamp=stamp, key=key, value=value, headers=about)
        at += random_.choice([1, 1, 1, 3, 200])  # compaction leaves records out
        stamp += random_.choice([0, 1, -5, 100_000])
    return sealed(builder.build(), base, random_.choice([0, 0, LOG_APPEND_TIME])), base + at + random_.randrange(2)


def read(data: bytes, offset: int = 0, **more: object) -> tuple[list, str, int]:
    """Columns of all pieces, the error that ended them, and where the next fetch begins."""
    asked = Unpacking(["source"])
    records = BatchRecords(
        TP, FetchedBatches(data), more.get("aborted"), offset, None, asked, True, more.get("isolation", 0)
    )
    pieces, error = [], ""
    try:
        for piece in records:
            assert records.next_fetch_offset == asked.positions[TP] > piece.offsets[-1]
            pieces.append(piece)
    except CorruptRecordException as raised:
        error = type(raised).__name__
    whole = concatenate(pieces) if pieces else RawBatch([], [], [], [])
    assert sum(map(size_of, pieces)) == size_of(whole)
    return [list(column) for column in whole[:4]], error, records.next_fetch_offset


def as_client(data: bytes, offset: int = 0, **more: object) -> tuple[list, str, int]:
    """The same by the client's own classes."""
    client = BatchRecords.__bases__[0]
    records = client(TP, MemoryRecords(data), more.get("aborted"), offset, None, None, True, more.get("isolation", 0))
    rows = [(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value) for one in records]
    return [list(column) for column in zip(*rows, strict=True)] or [[]] * 4, "", records.next_fetch_offset


def usual(data: bytes) -> bool:
    """Whether all that is read stands in slices."""
    records = BatchRecords(TP, FetchedBatches(data), None, 0, None, Unpacking(["source"]), True, 0)
    return all(isinstance(piece.values, Slices) for piece in records)


@pytest.mark.parametrize("headers", [0, 1, 2])
def test_any_records_of_any_codec_are_those_of_the_client(headers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(headers)
    for trial in range(40):
        monkeypatch.setattr(unpacking, "PIECE_RECORDS", random_.choice([3, 20, 8192]))
        monkeypatch.setattr(unpacking, "PIECE_BYTES", random_.choice([500, 5_000, 1 << 20]))
        monkeypatch.setattr(unpacking, "SHARED_BYTES", random_.choice([0, 5_000, 1 << 20]))
        data, base = batch(random_, 0, random_.randrange(1, 60), headers)
        begin = random_.choice([0, 0, random_.randrange(base)])
        for _ in range(random_.randrange(5)):
            part, base = batch(random_, base, random_.randrange(1, 60), headers)
            data += part
        assert read(data, begin) == as_client(data, begin), trial
        if headers < 2:
            assert usual(data)


def test_control_batches_and_aborted_transactions_are_left_out() -> None:
    random_ = random.Random(5)

    def marker(base: int, kind: int) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, 1, 7, 0, 0, 1000)
        builder.append(0, timestamp=1, key=struct.pack(">hh", 0, kind), value=bytes(6), headers=[])
        return sealed(builder.build(), base, CONTROL | TRANSACTIONAL)

    def sent(base: int) -> bytes:
        return sealed(bytearray(batch(random_, base, 50)[0]), base, TRANSACTIONAL)

    data = sent(0) + marker(20_000, 0) + sent(20_001) + marker(40_000, 1) + sent(40_001) + marker(60_000, 1)
    for isolation, aborted in ((0, None), (1, [(7, 0)]), (1, [(7, 0), (7, 40_001)]), (1, [])):
        found = read(data, isolation=isolation, aborted=aborted)
        assert found == as_client(data, isolation=isolation, aborted=aborted)
        assert found[2] == 60_001
        assert len(found[0][0]) == 50 * (3 - len(aborted or []))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_the_clients(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for i in range(40):
        builder.append(i, timestamp=1000 + i, key=b"k", value=b"v%d" % i)
    data = bytes(builder.build())
    assert read(data) == as_client(data)
    assert read(data)[2] == 40


def test_a_batch_that_is_cut_off_is_left_to_the_next_fetch() -> None:
    whole, after = batch(random.Random(1), 0, 40)
    data = whole + batch(random.Random(2), after, 40)[0][:-1]
    assert read(data) == read(whole) == as_client(data)


def test_a_batch_that_is_shorter_than_its_header_is_an_error_behind_what_comes_before_it() -> None:
    good, base = batch(random.Random(2), 0, 40)
    for length in (-(2**31), -13, -12, -1, 0, 1, 4, 5, 48):
        bad = bytearray(batch(random.Random(2), base, 40)[0])
        bad[8:12] = length.to_bytes(4, "big", signed=True)
        assert kafka_batches.plain(good + bytes(bad), True) is None
        columns, error, offset = read(good + bytes(bad))
        assert error == "CorruptRecordException", length
        assert (columns, offset) == (as_client(good)[0], as_client(good)[2])


def test_a_wrong_checksum_is_an_error_behind_what_comes_before_it() -> None:
    random_ = random.Random(2)
    good, base = batch(random_, 0, 40)
    bad = bytearray(batch(random_, base, 40)[0])
    bad[-1] ^= 1
    columns, error, offset = read(good + bytes(bad))
    assert error == "CorruptRecordException"
    assert (columns, offset) == (as_client(good)[0], as_client(good)[2])


def _made(aheads: list[int], **about: object) -> list[bytes]:
    return [batches.record(ahead, b"%d" % i, b"k", **about) for i, ahead in enumerate(aheads)]  # type: ignore[arg-type]


USUAL = list(range(40))
CUT = batches.record(7, b"7")[:-3]  # a record without its end
DAMAGED: dict[str, tuple[bytes, list[int]]] = {
    # Kafka has taken each of the first, and counted its records: they have the offsets 0 to 39.
    "far": (batches.batch(_made([*range(39), 2**31 - 1])), USUAL),
    "gaps": (batches.batch(_made([3 * i for i in range(40)])), USUAL),
    "the same": (batches.batch(_made([0] * 40)), USUAL),
    "backwards": (batches.batch(_made([39 - i for i in range(40)])), USUAL),
    "below": (batches.batch(_made([i - 20 for i in range(40)])), USUAL),
    "attributes": (batches.batch(_made(USUAL, attributes=128)), USUAL),
    "all attributes": (batches.batch(_made(USUAL, attributes=255)), USUAL),
    "unused bits of the batch": (batches.batch(_made(USUAL), flags=0x7FC0), USUAL),
    "times before 1970": (batches.batch(_made(USUAL, delta=-(10**12)), first=-5), USUAL),
    "times beyond 64 bits": (batches.batch(_made(USUAL, delta=2**63 - 1), first=2**63 - 1), USUAL),
    "a name that is no text": (batches.batch(_made(USUAL, headers=[(b"\xff", None)])), USUAL),
    "long numbers": (batches.batch([batches.number(14, 3) + b"\x80" + batches.number(0, 8) + b"\0\1\1\0"] * 40), USUAL),
    # Compaction leaves records out, and keeps the batch's last offset.
    "compacted": (batches.batch(_made([3 * i for i in range(40)]), last=125), [3 * i for i in range(40)]),
    # What no record is stands for what follows, at the last offset.
    "compacted, the same": (batches.batch(_made([*range(7), 6, *range(7, 39)]), last=60), [*range(7), -60]),
    "compacted, beyond": (batches.batch(_made([*range(39), 2**31 - 1]), last=60), [*range(39), -60]),
    "cut off": (batches.batch([*_made(list(range(7))), CUT, *_made(list(range(32)))]), [*range(7), -39]),
    "more than there are": (batches.batch(_made(USUAL), count=41, last=40), [*USUAL, -40]),
    "more than their offsets": (batches.batch(_made(USUAL), last=20), [-20]),
    "fewer than there are": (batches.batch(_made(USUAL), count=39, last=38), [*range(38), -38]),
    "none": (batches.batch(_made(USUAL), count=0, last=38), [-38]),
    "no such compression": (batches.batch(_made(USUAL), flags=7), [-39]),
}


@jit
@pytest.mark.parametrize("name", DAMAGED)
def test_whatever_a_batch_says_no_record_is_lost_and_no_other_is_passed_over(name: str) -> None:
    """An offset below zero stands for what could not be read."""
    data, expected = DAMAGED[name]
    last = abs(expected[-1]) if name != "compacted" else 125
    whole = data + batches.batch([batches.record(0, b"next")], last + 1)
    for few in (1, 1000):
        unpacking.LEAST = few
        for asked in (Unpacking(["source"]), Unpacking(["source"], ["source"]), None):
            for begin in (0, 5):
                records = BatchRecords(TP, FetchedBatches(whole), None, begin, None, asked, True, 0)
                found = [
                    (offset, value)
                    for one in records
                    for offset, value in (
                        [(one.offset, one.value)] if asked is None else zip(one.offsets, one.values, strict=True)
                    )
                ]
                signed = [-offset if isinstance(value, Unread) else offset for offset, value in found]
                assert signed == [*(one for one in expected if abs(one) >= begin), last + 1]
                assert records.next_fetch_offset == last + 2
                unread = [value for _, value in found if isinstance(value, Unread)]
                first = len([one for one in expected if one >= 0])
                assert not unread or unread[0].startswith(b"the batch of offsets %d to %d: " % (first, last))


@jit
def test_few_records_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "LEAST", 32)
    few, base = batch(random.Random(3), 0, 31)
    assert not usual(few)
    assert usual(few + batch(random.Random(4), base, 1)[0])


# -- slices -----------------------------------------------------------------------------------------------------------


def values(seed: int) -> Iterator[list[bytes | None]]:
    random_ = random.Random(seed)
    while True:
        yield [
            random_.choice([None, b"", random_.randbytes(random_.randrange(50))]) for _ in range(random_.randrange(9))
        ]


def test_slices_are_the_list_that_they_stand_for() -> None:
    for plain, _ in zip(values(1), range(200), strict=False):
        found = Slices.of(plain)
        assert found == plain
        assert plain == list(found) == [found[i] for i in range(len(plain))] == list(found.compact())
        assert found.lengths.tolist() == [len(one or b"") for one in plain]
        assert found.complete == (None not in plain)
        assert (None in found) == (None in plain)
        for start in range(len(plain)):
            part = found[start : start + 3]
            assert part == plain[start : start + 3] == list(part.compact())
            assert chained([part, found, found[start:]]) == [[*plain[start : start + 3], *plain, *plain[start:]]]


def test_columns_of_one_buffer_stay_in_one() -> None:
    for (one, other), _ in zip(zip(values(1), values(2), strict=True), range(100), strict=False):
        n = min(len(one), len(other))
        whole = Slices.of(one[:n] + other[:n])
        keys, records = chained([whole[:n], whole[:n]], [whole[n:], whole[n:]])
        assert (keys, records) == (one[:n] * 2, other[:n] * 2)
        assert keys.data is records.data
        keys, records = chained([whole[:n], one[:n]], [whole[n:], Slices.of(other[:n])])
        assert (keys, records) == (one[:n] * 2, other[:n] * 2)
