"""Arrow IPC streams to batches: what a stream claims is held against its bytes before Arrow is given it.

Arrow makes room for what a stream claims, and some hundred bytes may claim gigabytes: compressed buffers, columns of
nulls, buffers that lie over one another, one name for all fields. Compressed ones are refused; of all others nothing
may be more than a multiple of the bytes that came. The layout is that of Arrow's `Message.fbs`: an encapsulated message
is a continuation marker, the size of its metadata, the metadata (FlatBuffers) and a body; a buffer is an offset and a
length in the body.
"""

import hashlib
import struct
from collections.abc import Callable, Container, Iterator
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

MOST_ROWS = 2**20
MOST_BYTES = 64 * 1024 * 1024
MOST_MESSAGES = 1000
_MORE_ROWS = 64  # than bytes: places in memory would outweigh what Kafka keeps

_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)
_CONTINUES = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_TIMESTAMP, _UNION = 10, 14  # types that have a text or a list of their own
_ITEM = 16  # bytes that an item of a list of tables takes at least
_u8, _u16, _u32 = Struct("<B"), Struct("<H"), Struct("<I")
_i32, _i64, _pair = Struct("<i"), Struct("<q"), Struct("<qq")


class _Table:
    """A table of FlatBuffers within bounds. Whatever the bytes, reading raises struct.error or ValueError at worst."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - self._read(_i32, at)
        self._size = self._read(_u16, self._fields)

    def _read(self, kind: Struct, at: int) -> int:
        if at < 0:
            raise ValueError("an offset before the metadata")
        found: int = kind.unpack_from(self._data, at)[0]
        return found

    def _where(self, field: int) -> int:
        """Where a field stands; 0 where it is absent."""
        slot = 4 + 2 * field
        offset = self._read(_u16, self._fields + slot) if slot + 2 <= self._size else 0
        return self._at + offset if offset else 0

    def number(self, field: int, kind: Struct) -> int:
        at = self._where(field)
        return self._read(kind, at) if at else 0

    def table(self, field: int) -> "_Table | None":
        at = self._where(field)
        return _Table(self._data, at + self._read(_u32, at)) if at else None

    def vector(self, field: int) -> tuple[int, int]:
        """Where the items of a vector or a text begin, and how many they are."""
        at = self._where(field)
        at += self._read(_u32, at) if at else 0
        return at + 4, self._read(_u32, at) if at else 0

    def length(self, field: int) -> int:
        return self.vector(field)[1]

    def tables(self, field: int) -> Iterator["_Table"]:
        """A vector of tables."""
        begin, n = self.vector(field)
        for at in range(begin, begin + 4 * n, 4):
            yield _Table(self._data, at + self._read(_u32, at))

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two numbers."""
        begin, n = self.vector(field)
        if n and begin + 16 * n > len(self._data):
            raise ValueError("a vector beyond the metadata")
        return list(_pair.iter_unpack(self._data[begin : begin + 16 * n]))  # type: ignore[arg-type]


class Weight(NamedTuple):
    """rows : of all record batches. views : whether there may be views of texts. schema : a digest of what its message
    says: producers may write megabytes there, and other ones in each record."""

    rows: int
    views: bool
    schema: bytes


def weigh(value: bytes, known: Container[bytes] = ()) -> Weight:
    """What a stream claims. ValueError, with a clause for people, where that is too much, or no stream.

    known : digests of schemas that were looked at before.
    """
    try:
        return _weigh(memoryview(value), known)
    except (struct.error, OverflowError):
        raise ValueError("its messages do not end where they say") from None


def _weigh(data: memoryview, known: Container[bytes]) -> Weight:
    at = rows = words = copied = 0
    views, schema = False, b""
    for _ in range(MOST_MESSAGES):
        if at == len(data):
            break
        (size,) = _u32.unpack_from(data, at)
        at += 4
        if size == _CONTINUES:
            (size,) = _u32.unpack_from(data, at)
            at += 4
        if size == 0:
            break
        metadata = data[at : at + size]
        if len(metadata) < size:
            raise ValueError("it ends within a message")
        message = _Table(metadata, _u32.unpack_from(metadata)[0])
        kind, header, length = message.number(1, _u8), message.table(2), message.number(3, _i64)
        at += size
        if not 0 <= length <= len(data) - at:
            raise ValueError("it ends within a message")
        at += length
        if message.length(4):
            _look(message, None, size)
        if kind == _SCHEMA and header is not None:
            if schema:
                raise ValueError("it has two schemas")
            schema = hashlib.blake2b(metadata, digest_size=16).digest()
            if schema not in known:
                _look(message, header, size)
            continue
        batch = header.table(1) if header is not None and kind == _DICTIONARY else header
        if header is None or batch is None or kind not in (_DICTIONARY, _BATCH) or not schema:
            raise ValueError("it does not begin with a schema, or has messages other than batches")
        _look_at_batch(batch, length, len(data))
        views = views or batch.length(4) > 0
        if kind == _BATCH:
            rows += batch.number(0, _i64)
        else:
            words += length
            copied += words if header.number(2, _u8) else 0  # each batch has words of its own where some are added
        if rows > MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS:,} rows")
        if copied > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES // 2**20} MiB of dictionaries")
    else:
        raise ValueError(f"more than {MOST_MESSAGES:,} messages")
    if not schema:
        raise ValueError("it has no schema")
    if rows > len(data) + _MORE_ROWS:
        raise ValueError(f"{rows:,} rows in {len(data):,} bytes")
    return Weight(rows, views, schema)


def _look_at_batch(batch: _Table, length: int, size: int) -> None:
    """length : of its body. size : of the stream."""
    if batch.table(3) is not None:
        raise ValueError("compressed buffers; write them plain, and let the producer compress (its compression.type)")
    # A value may take a bit, but none takes nothing: a column of nulls may have as many as there are rows.
    if any(not 0 <= n <= 8 * size + _MORE_ROWS for n in (batch.number(0, _i64), *(n for n, _ in batch.pairs(1)))):
        raise ValueError("it has columns of an impossible length")
    total = 0
    for offset, n in batch.pairs(2):
        if offset < 0 or n < 0 or offset + n > length:
            raise ValueError("a buffer beyond its message")
        total += n
    if total > length:
        raise ValueError("buffers that lie over one another")


def _look(message: _Table, schema: _Table | None, size: int) -> None:
    """ValueError where fields and texts are more than the bytes of a message: one place may stand for many."""
    room, left = 2 * size, [(message, 4, False)]
    if schema is not None:
        left += [(schema, 1, True), (schema, 2, False)]
    while left:
        table, field, of_fields = left.pop()
        room -= _ITEM * table.length(field)
        for one in table.tables(field) if room >= 0 else ():
            room -= one.length(0)  # a name
            if of_fields:
                kind = one.table(3)
                if kind is not None and one.number(2, _u8) in (_TIMESTAMP, _UNION):
                    room -= 4 * kind.length(1)
                left += [(one, 5, True), (one, 6, False)]
            else:
                room -= one.length(1)
        if room < 0:
            raise ValueError("fields or texts that are the same bytes again and again")


def sound_batch(value: bytes, known: Container[bytes] = ()) -> tuple[Any, bytes]:
    """The rows of a stream that somebody else wrote, as one batch, and the digest of its schema. ValueError where it
    cannot be read.

    known : as of `weigh`.
    """
    weight = weigh(value, known)
    return _opened(value, lambda batch: _validate(batch, weight.views)), weight.schema


def open_batch(value: bytes) -> Any:
    """The rows of a stream that was sound before."""
    return _opened(value, lambda batch: None)


def _opened(value: bytes, validate: Callable[[Any], None]) -> Any:
    try:
        with pa.ipc.open_stream(pa.py_buffer(value), options=_OPTIONS) as reader:
            batches = list(reader)
            schema = reader.schema
            schema.names  # noqa: B018 - names that are no text raise here, and not where a column is asked for
        for batch in batches:
            validate(batch)
        if len(batches) == 1:
            return batches[0]
        whole = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
        return whole[0] if whole else pa.RecordBatch.from_pylist([], schema)
    except (pa.ArrowException, ValueError, OSError, MemoryError, OverflowError, KeyError, TypeError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None


def _validate(batch: Any, views: bool) -> None:
    """Every buffer, offset and text, before a value is looked at. views : whether there may be some."""
    if views:
        batch.validate()
        _look_at_views(batch.columns)
    batch.validate(full=True)


def _look_at_views(arrays: list[Any]) -> None:
    """Views may be of the same bytes: ValueError where their texts are more than MOST_BYTES in all."""
    total = 0
    while arrays:
        array, *arrays = arrays
        kind = array.type
        if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            lengths = np.frombuffer(array.buffers()[1], np.uint32, 4 * len(array), 16 * array.offset)[::4]
            if array.null_count:
                lengths = lengths[array.is_valid().to_numpy(zero_copy_only=False)]
            total += int(lengths.sum(dtype=np.int64))
        if total > MOST_BYTES:
            raise ValueError(f"views of more than {MOST_BYTES // 2**20} MiB")
        arrays += [getattr(array, name) for name in ("storage", "dictionary", "values") if hasattr(array, name)]
        if pa.types.is_struct(kind) or pa.types.is_union(kind):
            arrays += [array.field(i) for i in range(kind.num_fields)]
