"""Record batches of version 2 read by a kernel: where the keys and values of their records stand, with no object each.

The kernel takes only what is usual, and stops where something is not: the client reads that batch then, and says what
is wrong with it. What the kernel takes is what the client would give.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from crc32c import crc32c

from app.kafka import decompression
from models.kernel import kernel
from topics.records import RawBatch
from topics.slices import PADDING, Slices

# Of a batch, without what only the client looks at: base offset, magic, attributes, first and greatest timestamp, count
_HEADER = struct.Struct(">q8xb4xh4xqq14xi")
_MAGIC = 2
_CHECKSUM, _BEHIND_CHECKSUM = slice(17, 21), 21
_CODEC, _LOG_APPEND_TIME = 0x07, 0x08
_DECOMPRESS = {1: decompression.gzip, 2: decompression.snappy, 3: decompression.lz4, 4: decompression.zstd}

# columns of a batch's row: its records begin and end in the data; offset and timestamp that theirs count from; whether
# they have timestamps of their own; how many they are
BEGIN, END, BASE, STAMP, OWN_STAMPS, COUNT = range(6)
# where the kernel stands: which batch, where in the data, which of its records, the last offset, bytes so far
BATCH, PLACE, RECORD, LAST, BYTES = range(5)
# what it stopped at
FULL, ENDED, UNUSUAL = range(3)

_ONE, _SEVEN = np.uint64(1), np.uint64(7)
_MORE, _DIGITS = np.uint64(128), np.uint64(127)
_MOST_SHIFT = np.uint64(56)  # longer numbers are the client's
_NOTHING = np.uint64(0)


class Body(NamedTuple):
    """The records of a batch. row : of the kernel's table, but for where they begin and end. data : decompressed."""

    row: tuple[int, int, int, int]
    data: Any


def body(raw: memoryview) -> Body | None:
    """The records of a batch; None where the client has to read them.

    Raises UnreadableBatchError where they cannot be decompressed, or not within the bound.
    """
    base, magic, attributes, first, greatest, count = _HEADER.unpack_from(raw)
    codec = attributes & _CODEC
    if magic != _MAGIC or count <= 0 or codec > max(_DECOMPRESS):
        return None
    data = raw[_HEADER.size :]
    own = not attributes & _LOG_APPEND_TIME
    row = base, first if own else greatest, int(own), count
    return Body(row, _DECOMPRESS[codec](data) if codec else data)


def count_of(raw: memoryview) -> int:
    """How many records a batch says that it holds; 0 of an older version."""
    return _HEADER.unpack_from(raw)[-1] if len(raw) >= _HEADER.size and raw[16] == _MAGIC else 0  # type: ignore[no-any-return]


def sound(raw: memoryview, batch: Any) -> bool:
    """Whether a batch has the checksum that it says. batch : the client's own of these bytes."""
    if raw[16] != _MAGIC:
        return bool(batch.validate_crc())
    return crc32c(raw[_BEHIND_CHECKSUM:]) == int.from_bytes(raw[_CHECKSUM], "big")


class Parser:
    """Reads the records of batches, as many at a time as make a piece.

    Parameters
    ----------
    bodies : sequence of Body
    first : int
        Offset below which records are left out.
    most : int
        Bytes of keys and values, of bodies and in all, up to which pieces may share a buffer.

    Attributes
    ----------
    batch : the batch in which it stands. state : what it stopped at.
    """

    def __init__(self, bodies: Sequence[Body], first: int, most: int) -> None:
        lengths = [len(one.data) for one in bodies]
        self._shared = sum(lengths) <= most
        if self._shared or len(bodies) > 1:
            self._data: Any = b"".join([*(one.data for one in bodies), PADDING])
        else:
            self._data = bodies[0].data
        self._bytes = np.frombuffer(self._data, np.uint8)
        self._bytes.flags.writeable = False  # one type for the kernel
        ends = np.cumsum(lengths)
        self._table = np.array(
            [(end - n, end, *one.row) for end, n, one in zip(ends, lengths, bodies, strict=True)], np.int64
        )
        self._first = first
        self._at = np.array([0, 0, 0, -1, 0], np.int64)
        self.state = FULL

    @property
    def batch(self) -> int:
        return int(self._at[BATCH])

    @property
    def begins_batch(self) -> bool:
        """Whether it stands before the first record of its batch."""
        return int(self._at[RECORD]) == 0

    def skip(self) -> None:
        """Go on with the next batch."""
        after = self.batch + 1
        self._at[:] = after, self._table[after, BEGIN] if after < len(self._table) else 0, 0, self._at[LAST], 0
        self.state = FULL if after < len(self._table) else ENDED

    def piece(self, records: int, n_bytes: int, each: int) -> RawBatch:
        """The next records: so many, or as many as have so many bytes, counting `each` for a record besides."""
        records = min(records, int(self._table[self.batch :, COUNT].sum()))
        columns = np.empty((6, records), np.int64)
        self._at[BYTES] = 0
        started = int(self._at[PLACE])
        self.state, n = parse(
            self._bytes, self._table, self._at, self._first, n_bytes, each, columns[0], columns[1], columns[2:]
        )
        columns = columns[:, :n] if 2 * n > records else columns[:, :n].copy()
        (offsets, stamps), edges, data = columns[:2], columns[2:], self._data
        if not self._shared:
            data = bytes(data[started : int(self._at[PLACE])]) + PADDING
            edges = edges - started
        keys, values = Slices(data, edges[0], edges[1]), Slices(data, edges[2], edges[3])
        return RawBatch(offsets, stamps, keys, values)


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    Parser([Body((0, 0, 1, 1), memoryview(bytes(8)))], 0, 8).piece(1, 1, 1)


@kernel(inline=True)
def _number(data, p, end):  # type: ignore[no-untyped-def]
    """The number at p, and the place behind it; beyond `end` where there is none."""
    shift, found = _NOTHING, _NOTHING
    while p < end:
        byte = np.uint64(data[p])
        p += _ONE
        found |= (byte & _DIGITS) << shift
        if byte < _MORE:
            return np.int64(found >> _ONE) ^ -np.int64(found & _ONE), p
        shift += _SEVEN
        if shift > _MOST_SHIFT:
            break
    return np.int64(0), end + _ONE


@kernel(inline=True)
def _headers(data, p, end, count):  # type: ignore[no-untyped-def]
    """The place behind so many headers; beyond `end` where they are not usual. Their names are ASCII: the client
    refuses those that are no text."""
    for _ in range(count):
        length, p = _number(data, p, end)
        if p > end or length < 0 or np.uint64(length) > end - p:
            return end + _ONE
        high, stop = np.uint8(0), p + np.uint64(length)
        while p < stop:
            high |= data[p]
            p += _ONE
        length, p = _number(data, p, end)
        if high > 127 or p > end or (length > 0 and np.uint64(length) > end - p):
            return end + _ONE
        if length > 0:
            p += np.uint64(length)
    return p


@kernel
def parse(data, table, at, first, room, each, offsets, stamps, edges):  # type: ignore[no-untyped-def]
    """Read records until there is no room for more.

    Parameters
    ----------
    data : uint8
    table : (batches, 6) int64, in columns BEGIN to COUNT
    at : (5,) int64, where to begin; mutated
    first : offset below which records are left out
    room : bytes of keys and values, and `each` for a record, at which to stop
    offsets, stamps : (n,) int64, filled in
    edges : (4, n) int64, filled in: where keys begin and end, where values do. A stop before its start is None

    Returns
    -------
    FULL, ENDED or UNUSUAL, and how many records were written. `at` is then before the next record.
    """
    n, k = 0, at[BATCH]
    p, taken, last = np.uint64(at[PLACE]), at[BYTES], at[LAST]
    while k < len(table):
        end = np.uint64(table[k, END])
        i = at[RECORD]
        while i < table[k, COUNT]:
            if n == len(offsets) or taken >= room:
                at[BATCH], at[PLACE], at[RECORD], at[BYTES], at[LAST] = k, np.int64(p), i, taken, last
                return FULL, n
            length, q = _number(data, p, end)
            good = q < end and length > 0 and np.uint64(length) <= end - q and data[q] == 0
            stop = q + np.uint64(length)
            if good:
                delta, q = _number(data, q + _ONE, stop)
                good = q < stop
            if good:
                ahead, q = _number(data, q, stop)
                offset = table[k, BASE] + ahead
                good = q < stop and offset > last
            if good:
                size, q = _number(data, q, stop)
                begin = q
                good = q < stop and size >= -1 and (size < 0 or np.uint64(size) < stop - q)
            if good:
                if size > 0:
                    q += np.uint64(size)
                edges[0, n], edges[1, n] = np.int64(begin), np.int64(begin) + size
                taken_by = max(size, 0)
                size, q = _number(data, q, stop)
                begin = q
                good = q < stop and size >= -1 and (size < 0 or np.uint64(size) < stop - q)
            if good:
                if size > 0:
                    q += np.uint64(size)
                edges[2, n], edges[3, n] = np.int64(begin), np.int64(begin) + size
                taken_by += max(size, 0)
                count, q = _number(data, q, stop)
                good = q <= stop and count >= 0
                if good and count > 0:
                    q = _headers(data, q, stop, count)
                good = good and q == stop and (i + 1 < table[k, COUNT] or q == end)
            if not good:
                at[BATCH], at[PLACE], at[RECORD], at[BYTES], at[LAST] = k, np.int64(p), i, taken, last
                return UNUSUAL, n
            p, last = stop, offset
            i += 1
            if offset >= first:
                offsets[n] = offset
                stamps[n] = table[k, STAMP] + delta * table[k, OWN_STAMPS]
                taken += taken_by + each
                n += 1
        at[RECORD] = 0
        k += 1
    at[BATCH], at[PLACE], at[BYTES], at[LAST] = k, np.int64(p), taken, last
    return ENDED, n
