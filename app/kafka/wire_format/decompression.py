"""Decompresses Kafka batches into bounded memory, whatever they hold.

The client decompresses a batch whole, and one of 9 KB can hold 300 MB. Here memory is allocated first: a little, enough
for usual batches, and if that is not enough, up to `MAX_BATCH_BYTES`, of which the operating system provides pages as
they are used.

The client has no hook for this: `install` replaces four functions of its modules in the whole process.
"""

import mmap
import struct
from collections.abc import Callable
from importlib import import_module
from typing import Any

import cramjam
from aiokafka.record import default_records, legacy_records

MAX_BATCH_BYTES = 256 * 1024 * 1024
FIRST_RATIO = 24  # JSON compresses by 10 to 20
FIRST_BYTES = 65_536
XERIAL, XERIAL_BYTES = b"\x82SNAPPY\x00", 16  # how Java's framing in blocks begins; two numbers follow that say nothing
TOO_SMALL = "failed to write whole buffer"

Bytes = bytes | memoryview
Into = Callable[[bytes, Any], int]


class UnreadableBatchError(Exception):
    """A batch that cannot be decompressed, or not within the bound; its text says which."""


def _bounded(data: bytes, into: Into) -> Bytes:
    """What `into(data, room)` writes, with as much room as it needs."""
    room: Any = bytearray(min(MAX_BATCH_BYTES, max(FIRST_BYTES, FIRST_RATIO * len(data))))
    try:
        try:
            n = into(data, room)
        except cramjam.DecompressionError as error:
            if TOO_SMALL not in str(error) or len(room) >= MAX_BATCH_BYTES:
                raise
            room = mmap.mmap(-1, MAX_BATCH_BYTES)
            n = into(data, room)
    except cramjam.DecompressionError as error:
        if TOO_SMALL in str(error):
            raise _too_large() from None
        raise UnreadableBatchError(str(error)) from None
    return memoryview(room)[:n]


def _too_large() -> UnreadableBatchError:
    return UnreadableBatchError(f"more than {MAX_BATCH_BYTES:,} bytes when decompressed")


def gzip(data: Bytes) -> Bytes:
    return _bounded(bytes(data), cramjam.gzip.decompress_into)


def lz4(data: Bytes) -> Bytes:
    return _bounded(bytes(data), cramjam.lz4.decompress_into)


def zstd(data: Bytes) -> Bytes:
    return _bounded(bytes(data), cramjam.zstd.decompress_into)


def snappy(data: Bytes) -> Bytes:
    """Each block of snappy says at its beginning how long it becomes."""
    data = bytes(data)
    try:
        blocks = _blocks(data)
        if sum(map(cramjam.snappy.decompress_raw_len, blocks)) > MAX_BATCH_BYTES:
            raise _too_large()
        return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
    except (cramjam.DecompressionError, struct.error, ValueError) as error:
        raise UnreadableBatchError(f"snappy: {error}") from None


def _blocks(data: bytes) -> list[bytes]:
    if not data.startswith(XERIAL):
        return [data]
    blocks, at = [], XERIAL_BYTES
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size < 0:
            raise ValueError(f"a block of {size} bytes")
        blocks.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks


def install() -> None:
    """Have the client decompress so, in all of this process."""
    for batch in (default_records.DefaultRecordBatch, legacy_records.LegacyRecordBatch):  # compiled, where they can be
        module = import_module(batch.__module__)
        for function in (gzip, lz4, snappy, zstd):
            name = f"{function.__name__}_decode"
            if hasattr(module, name):
                setattr(module, name, function)
