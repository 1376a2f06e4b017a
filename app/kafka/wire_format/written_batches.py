"""Record batches of version 2 written by a kernel from slices: to the byte what the client's builder makes of the same
records."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.producer.message_accumulator import BatchBuilder
from crc32c import crc32c

from riparian.models.kernels.kernel import kernel
from riparian.topics.slices import Slices

# Base offset, length, leader's epoch, version, checksum, attributes, last offset, two timestamps, producer's id, epoch
# and sequence, count
_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_LENGTH, _BEFORE_CHECKSUM, _BEHIND_CHECKSUM = 12, 17, 21
_VERSION, _NO_EPOCH = 2, -1
_COMPRESS: dict[int, Callable[[bytes], bytes]] = {1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
_MOST_BESIDES = 32  # bytes of a record besides key and value

_ONE, _SEVEN = np.uint64(1), np.uint64(7)
_MORE, _DIGITS = np.uint64(128), np.uint64(127)


class WrittenBatch(BatchBuilder):  # type: ignore[misc]
    """A batch of n records that is whole, for the client's `send_batch`. Compressed at once, off the event loop.

    body : bytes or what has them, the records. timestamp : ms, of all of them. codec : as in Kafka's record format.
    """

    def __init__(self, body: Any, n: int, timestamp: int, codec: int) -> None:
        compressed = _COMPRESS[codec](bytes(body)) if codec else body
        if len(compressed) >= len(body):  # as the client: no gain
            compressed, codec = body, 0
        self._relative_offset, self._timestamp, self._codec = n, timestamp, codec
        self._state = (-1, -1, 0)
        self._buffer = bytearray().join((bytes(_HEADER.size), compressed))
        self._size = len(self._buffer)
        self._is_built = False
        self._closed = True

    def _set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        self._state = producer_id, producer_epoch, base_sequence

    def _build(self) -> bytearray:
        if not self._is_built:
            n, now, buffer = self._relative_offset, self._timestamp, self._buffer
            _HEADER.pack_into(
                buffer, 0, *(0, self._size - _BEFORE_LENGTH, _NO_EPOCH, _VERSION, 0, self._codec, n - 1, now, now),
                *(*self._state, n),
            )  # fmt: skip
            found = crc32c(memoryview(buffer)[_BEHIND_CHECKSUM:])
            buffer[_BEFORE_CHECKSUM:_BEHIND_CHECKSUM] = found.to_bytes(4, "big")
            self._is_built = True
        return self._buffer

    def size(self) -> int:
        return self._size


def written(keys: Slices, values: Slices, size: int, codec: int, now: int) -> list[WrittenBatch]:
    """Batches of records without headers, each of less than `size` bytes before compression, or of one record.

    codec, now : as in `WrittenBatch`.
    """
    key_bytes, value_bytes = np.frombuffer(keys.data, np.uint8), np.frombuffer(values.data, np.uint8)
    lengths = keys.lengths + values.lengths + _MOST_BESIDES
    room = max(size, int(lengths.max(initial=0)))
    out = np.empty(min(room, int(lengths.sum())), np.uint8)
    batches, n = [], 0
    while n < len(keys):
        more, end = write(
            key_bytes, keys.starts, keys.stops, value_bytes, values.starts, values.stops, n, size - _HEADER.size, out
        )  # fmt: skip
        batches.append(WrittenBatch(out[:end].data, more, now, codec))
        n += more
    return batches


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    written(Slices.of([None]), Slices.of([b""]), 1, 0, 0)


@kernel(inline=True)
def _size_of(number):  # type: ignore[no-untyped-def]
    """Bytes of a number that is not below 0."""
    left, n = np.uint64(number) << _ONE, 1
    while left >= _MORE:
        left >>= _SEVEN
        n += 1
    return n


@kernel(inline=True)
def _number(out, at, number):  # type: ignore[no-untyped-def]
    """Write a number that is not below 0, in zigzag; the place behind it."""
    left = np.uint64(number) << _ONE
    while left >= _MORE:
        out[at] = np.uint8(left & _DIGITS | _MORE)
        at += _ONE
        left >>= _SEVEN
    out[at] = np.uint8(left)
    return at + _ONE


@kernel(inline=True)
def _bytes(out, at, data, start, length):  # type: ignore[no-untyped-def]
    """Write bytes, or None (a length below 0), with their length before them; the place behind."""
    if length < 0:
        out[at] = 1
        return at + _ONE
    at = _number(out, at, length)
    for i in range(np.uint64(length)):
        out[at + i] = data[np.uint64(start) + i]
    return at + np.uint64(length)


@kernel
def write(keys, key_starts, key_stops, values, starts, stops, first, room, out):  # type: ignore[no-untyped-def]
    """Write the records of a batch, one at least; how many, and their bytes.

    first : the number of the first. room : bytes for all of them. out : uint8, filled in.
    """
    at, n = np.uint64(0), 0
    for i in range(first, len(starts)):
        key, value = key_stops[i] - key_starts[i], stops[i] - starts[i]
        # Attributes, time since the first, number, key, value, number of headers
        size = 3 + _size_of(n)
        size += 1 if key < 0 else _size_of(key) + key
        size += 1 if value < 0 else _size_of(value) + value
        if n > 0 and np.int64(at) + size + _size_of(size) >= room:
            break
        at = _number(out, at, size)
        out[at], out[at + _ONE] = 0, 0
        at = _number(out, at + _ONE + _ONE, n)
        at = _bytes(out, at, keys, key_starts[i], key)
        at = _bytes(out, at, values, starts[i], value)
        out[at] = 0
        at += _ONE
        n += 1
    return n, np.int64(at)
