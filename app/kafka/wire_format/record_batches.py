"""Record batches of version 2 read by a kernel: where the keys and values of their records stand, with no object each.

What it takes is what `app.kafka.wire_format.batches` reads one by one. It stops where that finds something damaged.
Headers are passed over, and found afterwards where somebody wants them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from riparian.app.kafka.wire_format.batches import BatchHeader
from riparian.models.kernels.kernel import kernel
from riparian.topics.records import Headers, RawBatch
from riparian.topics.slices import PADDING, Ints, Slices

# columns of a batch's row: its records begin and end in the data; its first and last offset; the timestamp that theirs
# count from; whether they have timestamps of their own; how many they are
BEGIN, END, BASE, LAST, STAMP, OWN_STAMPS, COUNT = range(7)
# where the kernel stands: which batch, where in the data, which of its records, the last offset, bytes so far
BATCH, PLACE, RECORD, OFFSET, BYTES = range(5)
# what it stopped at
FULL, ENDED, DAMAGED = range(3)

_ONE, _SEVEN = np.uint64(1), np.uint64(7)
_MORE, _DIGITS = np.uint64(128), np.uint64(127)
_INT, _LONG = np.uint64(32), np.uint64(64)  # bits of numbers
_NOTHING, _LOW = np.uint64(0), np.uint64(0xFFFF_FFFF)


class Body(NamedTuple):
    """The records of a batch. header : of them, at least one. data : decompressed."""

    header: BatchHeader
    data: Any


class Parser:
    """Reads the records of batches, as many at a time as make a piece.

    Parameters
    ----------
    first : int
        Offset below which records are left out.
    most : int
        Bytes of keys and values, of bodies and in all, up to which pieces may share a buffer.
    header_bytes : int, optional
        What a header counts besides its name and value; None where headers are not wanted.

    Attributes
    ----------
    batch : the batch in which it stands. state : what it stopped at.
    """

    def __init__(self, bodies: Sequence[Body], first: int, most: int, header_bytes: int | None = None) -> None:
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
            [(end - n, end, *one.header) for end, n, one in zip(ends, lengths, bodies, strict=True)], np.int64
        )
        self._first, self._header_bytes = first, header_bytes
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
        self._at[:] = after, self._table[after, BEGIN] if after < len(self._table) else 0, 0, -1, 0
        self.state = FULL if after < len(self._table) else ENDED

    def piece(self, records: int, n_bytes: int, each: int) -> RawBatch:
        """The next records: so many, or as many as have so many bytes, counting `each` for a record besides."""
        records = min(records, int(self._table[self.batch :, COUNT].sum()))
        columns = np.empty((6, records), np.int64)
        about = np.empty((2, 0 if self._header_bytes is None else records), np.int64)
        self._at[BYTES] = 0
        started = int(self._at[PLACE])
        counted = each, self._header_bytes or 0
        self.state, n = parse(
            self._bytes, self._table, self._at, self._first, n_bytes, *counted, *columns[:2], columns[2:], about
        )
        columns = columns[:, :n] if 2 * n > records else columns[:, :n].copy()
        (offsets, stamps), edges, data = columns[:2], columns[2:], self._data
        headers = None if self._header_bytes is None else self._headers(about[:, :n])
        if not self._shared:
            data = bytes(data[started : int(self._at[PLACE])]) + PADDING
            edges = edges - started
        keys, values = Slices(data, edges[0], edges[1]), Slices(data, edges[2], edges[3])
        return RawBatch(offsets, stamps, keys, values, headers)

    def _headers(self, about: Ints) -> list[Headers]:
        """Of each record. about : where they begin, and how many they are."""
        n, data = int(about[1].sum()), memoryview(self._data)
        edges = np.empty((4, n), np.int64)
        find_headers(self._bytes, about, edges)
        found = [
            (str(data[a:b], "utf-8", "replace"), None if d < c else bytes(data[c:d])) for a, b, c, d in edges.T.tolist()
        ]
        ends = about[1].cumsum().tolist()
        return [found[end - count : end] for end, count in zip(ends, about[1].tolist(), strict=True)]


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    Parser([Body(BatchHeader(0, 0, 0, 1, 1), memoryview(bytes(8)))], 0, 8, 1).piece(1, 1, 1)


@kernel(inline=True)
def _number(data, p, end, bits):  # type: ignore[no-untyped-def]
    """The number at p, of so many bits, and the place behind it; beyond `end` where there is none."""
    shift, found = _NOTHING, _NOTHING
    while p < end:
        byte = np.uint64(data[p])
        p += _ONE
        found |= (byte & _DIGITS) << shift
        if byte < _MORE:
            if bits == _INT:
                found &= _LOW
            return np.int64(found >> _ONE) ^ -np.int64(found & _ONE), p
        shift += _SEVEN
        if shift >= bits:
            break
    return np.int64(0), end + _ONE


@kernel(inline=True)
def _bytes(data, p, end):  # type: ignore[no-untyped-def]
    """Of the bytes whose length stands at p: where they begin and end, an end before the beginning for None, and the
    place behind them; beyond `end` where they do not fit."""
    size, p = _number(data, p, end, _INT)
    if size < 0 or p > end:
        return np.int64(p), np.int64(p) - 1, p
    if np.uint64(size) > end - p:
        return np.int64(p), np.int64(p), end + _ONE
    return np.int64(p), np.int64(p) + size, p + np.uint64(size)


@kernel(inline=True)
def _behind_headers(data, p, end, count):  # type: ignore[no-untyped-def]
    """The place behind so many headers; beyond `end` where they do not fit."""
    for _ in range(count):
        begin, stop, p = _bytes(data, p, end)
        if stop < begin:
            return end + _ONE
        begin, stop, p = _bytes(data, p, end)
        if p > end:
            break
    return p


@kernel
def parse(data, table, at, first, room, each, header, offsets, stamps, edges, about):  # type: ignore[no-untyped-def]
    """Read records until there is no room for more.

    Parameters
    ----------
    data : uint8
    table : (batches, 7) int64, in columns BEGIN to COUNT
    at : (5,) int64, where to begin; mutated
    first : offset below which records are left out
    room : bytes of keys and values, and `each` for a record, at which to stop; where headers are wanted, theirs, and
        `header` for one
    offsets, stamps : (n,) int64, filled in
    edges : (4, n) int64, filled in: where keys begin and end, where values do. A stop before its start is None
    about : (2, n) int64, filled in: where headers begin, and how many they are; (2, 0) where they are not wanted

    Returns
    -------
    FULL, ENDED or DAMAGED, and how many records were written. `at` is then before the next record.
    """
    n, k = 0, at[BATCH]
    p, taken, last = np.uint64(at[PLACE]), at[BYTES], at[OFFSET]
    wanted = about.shape[1] > 0
    while k < len(table):
        end, base, count = np.uint64(table[k, END]), table[k, BASE], table[k, COUNT]
        whole = count == table[k, LAST] - base + 1
        i = at[RECORD]
        if i == 0:
            last = base - 1
        while i < count:
            if n == len(offsets) or taken >= room:
                at[BATCH], at[PLACE], at[RECORD], at[BYTES], at[OFFSET] = k, np.int64(p), i, taken, last
                return FULL, n
            length, q = _number(data, p, end, _INT)
            good = q < end and length > 0 and np.uint64(length) <= end - q
            stop, offset = p, last
            if good:
                stop = q + np.uint64(length)
                delta, q = _number(data, q + _ONE, stop, _LONG)
                ahead, q = _number(data, q, stop, _INT)
                offset = base + (i if whole else ahead)
                key_begin, key_end, q = _bytes(data, q, stop)
                begin, value_end, q = _bytes(data, q, stop)
                n_headers, q = _number(data, q, stop, _INT)
                behind = q
                left = count - 1 - i
                good = q <= stop and n_headers >= 0 and last < offset <= table[k, LAST] - left
                if good and n_headers > 0:
                    q = _behind_headers(data, q, stop, n_headers)
                good = good and q == stop and (left > 0 or q == end)
            if not good:
                at[BATCH], at[PLACE], at[RECORD], at[BYTES], at[OFFSET] = k, np.int64(p), i, taken, last
                return DAMAGED, n
            p, last = stop, offset
            i += 1
            if offset >= first:
                offsets[n] = offset
                stamps[n] = table[k, STAMP] + delta * table[k, OWN_STAMPS]
                edges[0, n], edges[1, n], edges[2, n], edges[3, n] = key_begin, key_end, begin, value_end
                taken += max(key_end - key_begin, 0) + max(value_end - begin, 0) + each
                if wanted:
                    about[0, n], about[1, n] = np.int64(behind), n_headers
                    taken += n_headers * header + np.int64(stop - behind)
                n += 1
        at[RECORD] = 0
        k += 1
    at[BATCH], at[PLACE], at[BYTES], at[OFFSET] = k, np.int64(p), taken, last
    return ENDED, n


@kernel
def find_headers(data, about, edges):  # type: ignore[no-untyped-def]
    """Where headers that `parse` has passed over begin and end: names in rows 0 and 1, values in 2 and 3."""
    n, end = 0, np.uint64(len(data))
    for i in range(about.shape[1]):
        p = np.uint64(about[0, i])
        for _ in range(about[1, i]):
            edges[0, n], edges[1, n], p = _bytes(data, p, end)
            edges[2, n], edges[3, n], p = _bytes(data, p, end)
            n += 1
