"""Record batches of version 2, as Kafka reads them: what a batch's header says, and its records one by one.

Kafka looks at less of an uncompressed batch than its clients believe. It counts the records, gives the batch its first
and last offset, and takes whatever the records say of offsets and attributes, and so what no client writes. Therefore:

- In a batch that holds as many records as offsets, a record's offset is its place, whatever the record says. Where
  compaction has left records out, offsets ascend within the batch.
- The attributes of a record mean nothing, and are one byte.
- A length below zero says None. Numbers take at most five bytes, those of time ten, and are cut off to 32 and 64 bits.

What does not fit is no record. It and what follows in its batch is one row at the batch's last offset, whose value is
`Unread`. `app.kafka.wire_format.record_batches` reads the same by a kernel.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from crc32c import crc32c

from riparian.app.kafka.wire_format import decompression
from riparian.app.kafka.wire_format.decompression import UnreadableBatchError
from riparian.topics.records import Unread

# Of a batch, without what only the client looks at: base offset, magic, attributes, last offset, first and greatest
# timestamp, count
_HEADER = struct.Struct(">q8xb4xhiqq14xi")
_MAGIC, _MAGIC_AT = 2, 16
_CHECKSUM, _BEHIND_CHECKSUM = slice(17, 21), 21
_CODEC, _LOG_APPEND_TIME, _UNUSUAL = 0x07, 0x08, 0x37  # unusual: compressed, of a transaction, or a control batch
_LENGTH, _BEHIND_LENGTH = struct.Struct(">8xi"), 12
_DECOMPRESS = {1: decompression.gzip, 2: decompression.snappy, 3: decompression.lz4, 4: decompression.zstd}
_INT, _LONG = 32, 64  # bits of numbers
_COPIED = 1 << 20  # bytes that are rather copied than looked into

Headers = list[tuple[str, bytes | None]]
Row = tuple[int, int, bytes | None, bytes | None, Headers]  # offset, timestamp, key, value, headers


class BatchHeader(NamedTuple):
    """What a batch says of its records.

    base, last : the offsets that it takes
    stamp : what the records' timestamps count from; that of all records where `own_stamps` is 0
    n_records : how many there are
    """

    base: int
    last: int
    stamp: int
    own_stamps: int
    n_records: int

    @property
    def whole(self) -> bool:
        """Whether no record was left out."""
        return self.n_records == self.last - self.base + 1

    def unread(self, first: int, why: str) -> Row:
        """Stands for the records from offset `first` on."""
        return self.last, self.stamp, None, Unread.batch(first, self.last, why), []


def head(raw: memoryview) -> BatchHeader | None:
    """What a batch says; None of an older version."""
    if len(raw) < _HEADER.size or raw[_MAGIC_AT] != _MAGIC:
        return None
    base, _, attributes, ahead, first, greatest, count = _HEADER.unpack_from(raw)
    own = not attributes & _LOG_APPEND_TIME
    return BatchHeader(base, base + max(ahead, 0), first if own else greatest, int(own), count)


def plain(data: bytes, check: bool) -> list[tuple[BatchHeader, bytes]] | None:
    """The whole batches at the front of what was fetched, with their bodies; None where there is anything unusual about
    one. check : whether to compare checksums."""
    found, at = list[tuple[BatchHeader, bytes]](), 0
    while at + _HEADER.size <= len(data):
        stop = at + _BEHIND_LENGTH + _LENGTH.unpack_from(data, at)[0]
        if stop > len(data):
            break
        if stop < at + _HEADER.size:
            return None
        base, _, attributes, ahead, first, greatest, count = _HEADER.unpack_from(data, at)
        raw = data[at:stop]
        if (
            raw[_MAGIC_AT] != _MAGIC
            or attributes & _UNUSUAL
            or not 0 < count <= ahead + 1
            or (check and crc32c(raw[_BEHIND_CHECKSUM:]) != int.from_bytes(raw[_CHECKSUM], "big"))
        ):
            return None
        own = not attributes & _LOG_APPEND_TIME
        header = BatchHeader(base, base + ahead, first if own else greatest, int(own), count)
        found.append((header, raw[_HEADER.size :]))
        at = stop
    return found or None


def body(raw: memoryview) -> Any:
    """The bytes of a batch's records.

    Raises UnreadableBatchError where they cannot be decompressed, or not within the bound.
    """
    codec, data = _HEADER.unpack_from(raw)[2] & _CODEC, raw[_HEADER.size :]
    if not codec:
        return data
    if codec not in _DECOMPRESS:
        raise UnreadableBatchError(f"compressed in a way that has no name ({codec})")
    return _DECOMPRESS[codec](data)


def sound(raw: memoryview, batch: Any) -> bool:
    """Whether a batch has the checksum that it says. batch : the client's own of these bytes."""
    if raw[_MAGIC_AT] != _MAGIC:
        return bool(batch.validate_crc())
    return crc32c(raw[_BEHIND_CHECKSUM:]) == int.from_bytes(raw[_CHECKSUM], "big")


class _DamagedError(Exception):
    """What stands here is no record."""


def _number(data: Any, p: int, bits: int = _INT) -> tuple[int, int]:
    """The number at p, and the place behind it."""
    byte = data[p]
    if byte < 128:  # as most
        return (byte >> 1) ^ -(byte & 1), p + 1
    found = shift = 0
    while byte > 127:
        found |= (byte & 127) << shift
        p, shift = p + 1, shift + 7
        if shift >= bits:
            raise _DamagedError
        byte = data[p]
    found = (found | byte << shift) & ((1 << bits) - 1)
    return (found >> 1) ^ -(found & 1), p + 1


def _bytes(data: Any, p: int) -> tuple[bytes | None, int]:
    """The bytes whose length stands at p, None where that is below zero, and the place behind them."""
    byte = data[p]
    if byte < 128:
        size, p = (byte >> 1) ^ -(byte & 1), p + 1
    else:
        size, p = _number(data, p)
    if size < 0:
        return None, p
    stop = p + size
    return bytes(data[p:stop]), stop


def _headers(data: Any, p: int, stop: int) -> tuple[Headers, int]:
    """The headers whose number stands at p, and the place behind them."""
    count, p = _number(data, p)
    if count < 0:
        raise _DamagedError
    found: Headers = []
    for _ in range(count):
        name, p = _bytes(data, p)
        if name is None or p > stop:
            raise _DamagedError
        value, p = _bytes(data, p)
        if p > stop:
            raise _DamagedError
        found.append((str(name, "utf-8", "replace"), value))
    return found, p


def rows(header: BatchHeader, data: Any) -> Iterator[Row]:
    """The records of a batch. data : its body."""
    base, last, stamp, own, count = header
    whole, end, p, at = header.whole, len(data), 0, base - 1
    data = bytes(data) if end < _COPIED else data
    try:
        for left in range(count - 1, -1, -1):  # how many follow
            size, p = _number(data, p)
            stop = p + size
            delta, p = _number(data, p + 1, _LONG)
            ahead, p = (0, p + 1) if whole and data[p] < 128 else _number(data, p)
            key, p = _bytes(data, p)
            value, p = _bytes(data, p)
            headers, p = _headers(data, p, stop) if data[p] else ([], p + 1)
            offset = at + 1 if whole else base + ahead
            if p != stop or stop > end or not at < offset <= last - left or (p < end and not left):
                raise _DamagedError
            yield offset, _wrapped(stamp + delta) if own else stamp, key, value, headers
            at = offset
        if count <= 0 and end:
            raise _DamagedError
    except (_DamagedError, IndexError):
        yield header.unread(at + 1, f"it says that {count:,} records stand there, and they do not")


def _wrapped(stamp: int) -> int:
    """A timestamp in 64 bits."""
    return stamp if -(1 << 63) <= stamp < 1 << 63 else (stamp + (1 << 63)) % (1 << 64) - (1 << 63)
