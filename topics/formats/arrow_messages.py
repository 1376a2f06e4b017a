"""What an Arrow IPC stream claims to hold, read from its messages before anything is allocated for it.

A compressed buffer of some hundred bytes may claim to hold gigabytes, and Arrow's reader would try. So rows, and bytes
once decompressed, are counted here first. The layout is that of Arrow's `Message.fbs`: an encapsulated message is a
continuation marker, the size of its metadata, the metadata (FlatBuffers) and a body; a buffer is an offset and a length
in the body, and where it is compressed, its first eight bytes say how long it will be (-1: it is stored as it is).
"""

import struct
from struct import Struct
from typing import NamedTuple

MOST_ROWS = 2**20
MOST_BYTES = 64 * 1024 * 1024
MOST_MESSAGES = 1000
_MORE_ROWS = 64  # than bytes: see `weigh`

_CONTINUES = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_u8, _u16, _u32 = Struct("<B"), Struct("<H"), Struct("<I")
_i32, _i64, _pair = Struct("<i"), Struct("<q"), Struct("<qq")


class Weight(NamedTuple):
    """rows : of all record batches. compressed : whether any buffer is. schema : metadata of the schema's message."""

    rows: int
    compressed: bool
    schema: bytes


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

    def tables(self, field: int) -> list["_Table"]:
        """A vector of tables."""
        at = self._where(field)
        if not at:
            return []
        at += self._read(_u32, at)
        places = range(at + 4, at + 4 + 4 * min(self._read(_u32, at), len(self._data)), 4)
        return [_Table(self._data, place + self._read(_u32, place)) for place in places]

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A vector of structs of two numbers."""
        at = self._where(field)
        if not at:
            return []
        at += self._read(_u32, at)
        n = self._read(_u32, at)
        if at + 4 + 16 * n > len(self._data):
            raise ValueError("a vector beyond the metadata")
        return list(_pair.iter_unpack(self._data[at + 4 : at + 4 + 16 * n]))  # type: ignore[arg-type]

    def own(self) -> list[tuple[int, int]]:
        """Where the bytes stand that say where its fields are."""
        return [(self._at, self._at + 4), (self._fields, self._fields + self._size)]

    def span(self, field: int, size: int) -> list[tuple[int, int]]:
        """Where a field of so many bytes stands, as a list of one; of none where it is absent."""
        at = self._where(field)
        return [(at, at + size)] if at else []

    def vector(self, field: int) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """Where a vector of pairs stands, and its length; and where its items do."""
        at = self._where(field)
        begin = at + self._read(_u32, at)
        return [(at, at + 4), (begin, begin + 4)], (begin + 4, begin + 4 + 16 * self._read(_u32, begin))


def weigh(value: bytes) -> Weight:
    """What a stream claims. ValueError, with a clause for people, where that is too much, or no stream.

    There may not be more rows than about a byte for each: places in memory would outweigh what Kafka keeps.
    """
    try:
        return _weigh(memoryview(value))
    except (struct.error, OverflowError):
        raise ValueError("its messages do not end where they say") from None


def _weigh(data: memoryview) -> Weight:
    at = rows = n_bytes = 0
    compressed, schema = False, b""
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
        kind, length = message.number(1, _u8), message.number(3, _i64)
        at += size
        body = data[at : at + length]
        if length < 0 or len(body) < length:
            raise ValueError("it ends within a message")
        at += length
        if kind == _SCHEMA:
            if schema:
                raise ValueError("it has two schemas")
            schema = bytes(metadata)
            continue
        header = message.table(2)
        batch = header.table(1) if header is not None and kind == _DICTIONARY else header
        if batch is None or kind not in (_DICTIONARY, _BATCH) or not schema:
            raise ValueError("it does not begin with a schema, or has messages other than batches")
        n, lengths = batch.number(0, _i64), [length for length, _ in batch.pairs(1)]
        if n < 0 or any(not 0 <= length <= MOST_BYTES for length in lengths):
            raise ValueError("it has columns of an impossible length")
        rows += n if kind == _BATCH else 0
        found, is_compressed = _bytes(batch, body)
        n_bytes, compressed = n_bytes + found, compressed or is_compressed
        if rows > MOST_ROWS:
            raise ValueError(f"more than {MOST_ROWS:,} rows")
        if n_bytes > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES // 2**20} MiB decompressed")
    else:
        raise ValueError(f"more than {MOST_MESSAGES:,} messages")
    if not schema:
        raise ValueError("it has no schema")
    if rows > len(data) + _MORE_ROWS:
        raise ValueError(f"{rows:,} rows in {len(data):,} bytes")
    return Weight(rows, compressed, schema)


def _bytes(batch: _Table, body: memoryview) -> tuple[int, bool]:
    """Bytes of a batch's buffers once decompressed, and whether any is compressed."""
    if batch.table(3) is None:
        return len(body), False
    total = 0
    for offset, length in batch.pairs(2):
        if offset < 0 or length < 0 or offset + length > len(body):
            raise ValueError("a buffer beyond its message")
        if length:
            (claimed,) = _i64.unpack_from(body[offset : offset + length])
            if claimed < -1:
                raise ValueError("a buffer of negative length")
            total += length if claimed == -1 else claimed
    return total, True


class Layout(NamedTuple):
    """Where the numbers of a batch's message stand in its metadata.

    body, rows : places of the length of its body, and of the number of its rows
    nodes, buffers : where (length, nulls) of its arrays begin, and (offset, length) of its buffers
    n_nodes, n_buffers : how many there are
    fixed : (n,) bytes, 1 for those that are none of these
    dictionary : id of the dictionary that it holds, or None
    """

    body: int
    rows: int
    nodes: int
    buffers: int
    n_nodes: int
    n_buffers: int
    fixed: bytes
    dictionary: int | None


def layout(metadata: bytes) -> Layout | None:
    """The layout of a message that Arrow has read: whatever the numbers, another one that has the same bytes but for
    these has the same structure. None where it has more than numbers to be looked at, or they stand elsewhere.
    """
    try:
        return _layout(memoryview(metadata))
    except (struct.error, OverflowError, ValueError, IndexError):
        return None


def _layout(data: memoryview) -> Layout | None:
    message = _Table(data, _u32.unpack_from(data)[0])
    kind, header, dictionary = message.number(1, _u8), message.table(2), None
    if header is None or kind not in (_DICTIONARY, _BATCH) or message.span(4, 4):
        return None
    said = [(0, 4), *message.own(), *message.span(0, 2), *message.span(1, 1), *message.span(2, 4), *header.own()]
    batch = header
    if kind == _DICTIONARY:
        inner, dictionary = header.table(1), header.number(0, _i64)
        if inner is None or header.number(2, _u8):
            return None
        said += [*header.span(0, 8), *header.span(1, 4), *header.span(2, 1), *inner.own()]
        batch = inner
    lengths, rows = message.span(3, 8), batch.span(0, 8)
    if not lengths or not rows or batch.span(3, 4) or batch.span(4, 4) or not (batch.span(1, 4) and batch.span(2, 4)):
        return None
    (of_nodes, nodes), (of_buffers, buffers) = batch.vector(1), batch.vector(2)
    fixed = bytearray(b"\1" * len(data))
    for begin, end in (*lengths, *rows, nodes, buffers):
        if not 0 <= begin <= end <= len(data) or 0 in fixed[begin:end]:
            return None
        fixed[begin:end] = bytes(end - begin)
    if any(0 in fixed[begin:end] or end > len(data) for begin, end in (*said, *of_nodes, *of_buffers)):
        return None
    n_nodes, n_buffers = (nodes[1] - nodes[0]) // 16, (buffers[1] - buffers[0]) // 16
    places = lengths[0][0], rows[0][0], nodes[0], buffers[0]
    return Layout(*places, n_nodes, n_buffers, bytes(fixed), dictionary)


def dictionaries(metadata: bytes) -> list[int | None]:
    """The id of the dictionary of each field of a schema that Arrow has read, depth first; None of those without."""
    data = memoryview(metadata)
    schema = _Table(data, _u32.unpack_from(data)[0]).table(2)

    def of(field: _Table) -> list[int | None]:
        encoding = field.table(4)
        own = None if encoding is None else encoding.number(0, _i64)
        return [own, *(one for child in field.tables(5) for one in of(child))]

    return [one for field in (schema.tables(1) if schema is not None else ()) for one in of(field)]
