"""Record batches made by hand, with whatever numbers, and a slow reader of them: what Kafka makes of the same bytes.

Kafka takes an uncompressed batch as it comes, gives it its first and last offset, and looks at no record's own offset.
"""

import io
import struct
from collections.abc import Sequence
from typing import NamedTuple

import aiokafka.codec as codecs
from aiokafka.record.util import calc_crc32c

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
_PACK = {GZIP: codecs.gzip_encode, SNAPPY: codecs.snappy_encode, LZ4: codecs.lz4_encode, ZSTD: codecs.zstd_encode}
_UNPACK = {GZIP: codecs.gzip_decode, SNAPPY: codecs.snappy_decode, LZ4: codecs.lz4_decode, ZSTD: codecs.zstd_decode}
_HEADER = ">qiibIhiqqqhii"
Headers = Sequence[tuple[bytes, bytes | None]]


def number(value: int, more: int = 0) -> bytes:
    """A whole number as records have them, in so many bytes more than it needs."""
    left, found = (value << 1) ^ (value >> 63), bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left | 128, *[128] * (more - 1), 0] if more else [*found, left])


def sized(value: bytes | None) -> bytes:
    return number(-1) if value is None else number(len(value)) + value


def record(
    ahead: int,
    value: bytes | None = b"v",
    key: bytes | None = None,
    delta: int = 0,
    headers: Headers = (),
    attributes: int = 0,
) -> bytes:
    """A record. ahead, delta : of its offset and timestamp, from those of the batch."""
    about = b"".join(sized(name) + sized(one) for name, one in headers)
    return sized(
        bytes([attributes]) + number(delta) + number(ahead) + sized(key) + sized(value) + number(len(headers)) + about
    )


def batch(
    records: Sequence[bytes],
    base: int = 0,
    *,
    last: int | None = None,
    count: int | None = None,
    codec: int = NONE,
    flags: int = 0,
    first: int = 1000,
    greatest: int = 2000,
    producer: int = -1,
) -> bytes:
    """A batch with the right checksum. last : ahead of the base; count : both as there are records, if left out."""
    body = b"".join(records)
    body = _PACK[codec](body) if codec else body
    count = len(records) if count is None else count
    last = len(records) - 1 if last is None else last
    numbers = (codec | flags, last, first, greatest, producer, 0 if producer >= 0 else -1, -1, count)
    data = bytearray(struct.pack(_HEADER, base, 49 + len(body), 0, 2, 0, *numbers) + body)
    data[17:21] = struct.pack(">I", calc_crc32c(bytes(data[21:])))
    return bytes(data)


class Row(NamedTuple):
    """A record, or what stands for those that could not be read: `unread` is then the first offset of these."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    unread: int | None = None


def _take(data: io.BytesIO, n: int) -> bytes:
    found = data.read(n)
    if n < 0 or len(found) < n:
        raise EOFError
    return found


def _number(data: io.BytesIO, bits: int) -> int:
    digits = 0
    for at in range(-(-bits // 7)):
        (byte,) = _take(data, 1)
        digits |= (byte & 127) << (7 * at)
        if byte < 128:
            digits %= 1 << bits
            return -(digits // 2) - 1 if digits % 2 else digits // 2
    raise EOFError


def _sized(data: io.BytesIO) -> bytes | None:
    n = _number(data, 32)
    return None if n < 0 else _take(data, n)


def slow(data: bytes, first: int = 0) -> tuple[list[Row], int]:
    """The records of batches from offset `first` on, and the offset behind them."""
    rows: list[Row] = []
    while len(data) >= 61:
        base, size, _, _, _, flags, last, stamp, greatest, _, _, _, count = struct.unpack_from(_HEADER, data)
        body, data, last = data[61 : 12 + size], data[12 + size :], base + max(0, last)
        stamp = greatest if flags & LOG_APPEND_TIME else stamp
        at, i = base - 1, 0
        try:
            left = io.BytesIO(_UNPACK[flags & 7](body) if flags & 7 else body)
            while i < count or (i == 0 and left.getbuffer().nbytes):
                inside = io.BytesIO(_sized(left) or b"")
                _take(inside, 1)
                delta, ahead, key, value = _number(inside, 64), _number(inside, 32), _sized(inside), _sized(inside)
                headers: list[tuple[str, bytes | None]] = []
                n_headers = _number(inside, 32)
                while len(headers) != n_headers:
                    name = _sized(inside)
                    headers.append((name.decode(errors="replace"), _sized(inside)))  # type: ignore[union-attr]
                offset = base + (i if count == last - base + 1 else ahead)
                behind = count - 1 - i  # records, of which each has an offset
                if inside.read() or behind < 0 or not at < offset <= last - behind or (not behind and left.read()):
                    raise EOFError
                own = 0 if flags & LOG_APPEND_TIME else delta
                rows.append(Row(offset, (stamp + own + 2**63) % 2**64 - 2**63, key, value, headers))
                at, i = offset, i + 1
        except Exception:
            rows.append(Row(last, stamp, unread=at + 1))
    return [row for row in rows if row.offset >= first], last + 1
