"""Batches of records as any program may send them: read by the kernel, and one by one, against a slow reader.

Kafka takes most of them, and its clients read many otherwise (docs/evidence/threats.md): offsets that jump,
repeat or go back, attributes, numbers longer than they need to be or cut off, counts and lengths that do not fit.
"""

import struct
from collections.abc import Iterator
from typing import Any

from aiokafka.consumer import fetcher
from aiokafka.structs import TopicPartition

from tests import batches
from tests.batches import Row
from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target

_TP = TopicPartition("source", 0)
_DELTAS = (-(2**31), -1000, -20, -1, 0, 0, 1, 2, 3, 6, 1000, 2**31 - 1)
_STAMPS = (0, 1, -1, -1000, 10**12, 2**63 - 1, -(2**63))
_NAMES = (b"", b"trace", b"x" * 70, "\u00fcber".encode(), b"\xff\xfe", b"riparian-source")
_TOKENS = (
    *(b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff", b"\x80\0", b"\x81\0", b"\xff\xff\xff\xff\x0f", b"\xff" * 5),
    *(b"\xfe\xff\xff\xff\x0f", b"\x82\x80\x80\x80\x70", b"\x80" * 4 + b"\1", b"\xff" * 9 + b"\1", b"\xff" * 10),
)


def _record(rng: Random, i: int, wild: float) -> bytes:
    """Record i, with so large a share of odd numbers."""

    def odd(values: Any, usual: Any) -> Any:
        return pick(rng, values) if rng.random() < wild else usual

    key = pick(rng, (None, b"", b"k%d" % i, rng.bytes(int(rng.integers(200)))))
    value = pick(rng, (None, b"", b'{"id": %d}' % i, rng.bytes(int(rng.integers(300)))))
    headers = [(pick(rng, _NAMES), pick(rng, (None, b"", b"v"))) for _ in range(int(rng.integers(3)))]
    data = batches.record(
        odd(_DELTAS, i), value, key, odd(_STAMPS, i), headers * (rng.random() < 0.3), odd((1, 127, 128, 255), 0)
    )
    return mutate.of_bytes(rng, data, _TOKENS) if rng.random() < wild / 4 else data


def drawn(rng: Random, base: int) -> tuple[bytes, int]:
    """A batch, and the offset behind it."""
    wild, n = pick(rng, (0.0, 0.02, 0.3)), int(rng.integers(0, 60))
    compacted = rng.random() < 0.3
    aheads = sorted(rng.choice(3 * n + 1, n, replace=False).tolist()) if compacted else list(range(n))
    data = [_record(rng, i, wild) for i in aheads]
    more = int(rng.integers(3)) if compacted else 0
    last = max(aheads, default=0) + more
    if rng.random() < wild:
        last = max(0, last + pick(rng, (-n, -2, -1, 1, 5)))
    count = n + pick(rng, (-n, -1, 1, 2**30, -(2**31) // 2)) if rng.random() < wild / 3 else n
    made = batches.batch(
        data,
        base,
        last=last,
        count=count,
        codec=pick(rng, (0, 0, 0, 1, 2, 3, 4)) if n else 0,
        flags=pick(rng, (0, 0, 0, batches.LOG_APPEND_TIME, 0x40)),
        first=pick(rng, (0, 1_700_000_000_000, *_STAMPS)),
        greatest=pick(rng, (1_700_000_000_000, *_STAMPS)),
    )
    return made, base + last + 1 + int(rng.integers(2)) * int(rng.integers(3))


class Batches(Target):
    """A case is what a fetch brings, with where it began, and the sizes of pieces."""

    seconds, megabytes, budget = 5.0, 300, 150
    n_records = 0

    def prepare(self) -> None:
        from riparian.app.kafka.wire_format.unpacking import Unpacking

        self._asked = Unpacking(["source"]), Unpacking(["source"], ["source"]), None

    def make(self, rng: Random) -> bytes:
        data, base = b"", pick(rng, (0, 0, 40, 2**40))
        for _ in range(int(rng.integers(1, 5))):
            part, base = drawn(rng, base)
            data += part
        sizes = pick(rng, (3, 20, 8192)), pick(rng, (500, 5_000, 1 << 20)), pick(rng, (0, 5_000, 1 << 21))
        first = min(pick(rng, (0, 0, base // 2, base)), batches.slow(data)[1] - 1)
        return struct.pack(">qiiib", first, *sizes, int(rng.integers(1, 34))) + data

    def run(self, case: bytes) -> None:
        from riparian.app.kafka.wire_format import unpacking

        first, *sizes, few = struct.unpack_from(">qiiib", case)
        data = case[21:]
        rows, behind = batches.slow(data, first)
        self.n_records += len(rows)
        usual = unpacking.PIECE_RECORDS, unpacking.PIECE_BYTES, unpacking.SHARED_BYTES, unpacking.LEAST
        try:
            unpacking.PIECE_RECORDS, unpacking.PIECE_BYTES, unpacking.SHARED_BYTES = sizes
            unpacking.LEAST = few
            for asked in self._asked:
                records = fetcher.PartitionRecords(_TP, fetcher.MemoryRecords(data), None, first, None, asked, True, 0)
                found = list(records)
                _compare(found, rows, asked is not None)
                assert records.next_fetch_offset == behind, (records.next_fetch_offset, behind)
        finally:
            unpacking.PIECE_RECORDS, unpacking.PIECE_BYTES, unpacking.SHARED_BYTES, unpacking.LEAST = usual

    def shrink(self, case: bytes) -> Iterator[bytes]:
        """Each batch for itself."""
        parts, data = [], case[21:]
        while len(data) >= 12:
            end = 12 + int.from_bytes(data[8:12], "big")
            parts.append(data[:end])
            data = data[end:]
        for fewer in mutate.smaller(parts):
            yield case[:21] + b"".join(fewer)


def _compare(found: list[Any], rows: list[Row], pieces: bool) -> None:
    from riparian.topics.records import Unread

    ours = []
    for one in found:
        if not pieces:
            ours.append((one.offset, one.timestamp, one.key, one.value, list(one.headers)))
            continue
        offsets, stamps = ([int(number) for number in column] for column in one[:2])
        assert len(offsets) > 0
        headers = one.headers if one.headers is not None else [None] * len(offsets)
        ours += zip(offsets, stamps, list(one.keys), list(one.values), headers, strict=True)
    assert [one[0] for one in ours] == [row.offset for row in rows]
    for one, row in zip(ours, rows, strict=True):
        if row.unread is None:
            assert one[:4] == row[:4], (one, row)
            assert not isinstance(one[3], Unread)
            assert one[4] is None or [*one[4]] == [*row.headers], (one, row)
        else:
            assert isinstance(one[3], Unread)
            assert one[1] == row.timestamp
            assert one[3].startswith(b"the batch of offsets %d to %d: " % (row.unread, row.offset)), (one, row)


TARGETS = {"batches": Batches()}
