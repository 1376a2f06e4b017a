"""The client's connections with fewer copies of the records that pass through them.

aiokafka reads by a stream of asyncio, which takes 256 kB at a time as an object, adds that to a buffer, stops reading
at 128 kB and cuts the answer out of the buffer. Here the socket fills the place where a large answer will stand. And
where aiokafka joins a request for each list and structure within it, so that records are copied six times, here it is
joined once. An answer of many partitions is read by structures, and not number by number.
"""

import asyncio
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from aiokafka import conn
from aiokafka.protocol import fetch, produce
from aiokafka.protocol.api import Response
from aiokafka.protocol.types import Array, Bytes, Int8, Int16, Int32, Int64, Schema, String

SMALL_BYTES = 1 << 16  # up to which an answer comes by the buffer of all
NUMBERS = {Int8: "b", Int16: "h", Int32: "i", Int64: "q"}  # the client's type -> that of `struct`
LENGTHS = {String: struct.Struct(">h"), Bytes: struct.Struct(">i")}  # what stands before a text and before bytes
COUNT = struct.Struct(">i")

Read = Callable[[bytes, int], tuple[Any, int]]  # given bytes and a place, the value there and the place behind it


class Receiver(conn.AIOKafkaProtocol, asyncio.BufferedProtocol):  # type: ignore[misc]
    """What a connection receives, in place of its stream's own buffer; one reader waits at a time."""

    def __init__(self, closed: Any, reader: Any, *, loop: Any) -> None:
        super().__init__(closed, reader, loop=loop)
        reader.readexactly = self.exactly
        self._reader, self._events = reader, loop
        self._waiter: asyncio.Future[None] | None = None
        self._buffer = memoryview(bytearray(SMALL_BYTES))
        self._start = self._stop = 0  # of what was not read yet
        self._large: memoryview | None = None  # an answer that is on its way
        self._filled = 0

    def get_buffer(self, _: int) -> memoryview:
        if self._large is not None and self._filled < len(self._large):
            return self._large[self._filled :]
        if self._stop == len(self._buffer):
            self._make_room()
        return self._buffer[self._stop :]

    def _make_room(self) -> None:
        left = self._buffer[self._start : self._stop]
        room = memoryview(bytearray(max(SMALL_BYTES, 2 * len(left))))
        room[: len(left)] = left
        self._buffer, self._start, self._stop = room, 0, len(left)

    def buffer_updated(self, n: int) -> None:
        if self._large is not None and self._filled < len(self._large):
            self._filled += n
            if self._filled < len(self._large):
                return
        else:
            self._stop += n
        self._wake()

    def eof_received(self) -> bool | None:
        kept: bool | None = super().eof_received()
        self._wake()
        return kept

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self, there: int, n: int) -> None:
        """For more to come. there : bytes so far, of n."""
        if self._reader.exception() is not None:
            raise self._reader.exception()
        if self._reader.at_eof():
            raise asyncio.IncompleteReadError(bytes(there), n)
        self._waiter = self._events.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def exactly(self, n: int) -> bytes:
        """The next n bytes. asyncio.IncompleteReadError where the connection ends before."""
        if n < 0:
            raise ValueError("an answer of fewer bytes than none")  # as asyncio's stream: the connection ends
        if n <= SMALL_BYTES:
            while self._stop - self._start < n:
                await self._wait(self._stop - self._start, n)
            found = bytes(self._buffer[self._start : self._start + n])
            self._start += n
            if self._start == self._stop:
                self._start = self._stop = 0
            return found
        there = min(n, self._stop - self._start)
        self._large, self._filled = memoryview(np.empty(n, np.uint8)), there  # type: ignore[arg-type]
        self._large[:there] = self._buffer[self._start : self._start + there]
        self._start += there
        if self._start == self._stop:
            self._start = self._stop = 0
        try:
            while self._filled < n:
                await self._wait(self._filled, n)
            return bytes(self._large)
        finally:
            self._large = None


@cache
def _numbers(kind: Any) -> struct.Struct | None:
    """Of a structure that has nothing but numbers."""
    found = [NUMBERS.get(field, "") if isinstance(field, type) else "" for field in kind.fields]
    return struct.Struct(">" + "".join(found)) if all(found) else None


def _add(kind: Any, value: Any, parts: list[Any]) -> None:
    """The bytes of a value of one of the client's types."""
    if isinstance(kind, Schema) and (numbers := _numbers(kind)) is not None:
        parts.append(numbers.pack(*value))
    elif isinstance(kind, Schema):
        for field, one in zip(kind.fields, value, strict=True):
            _add(field, one, parts)
    elif type(kind) is Array and value is not None:
        parts.append(Int32.encode(len(value)))
        for one in value:
            _add(kind.array_of, one, parts)
    elif kind is Bytes and value is not None:
        parts += (Int32.encode(len(value)), value)
    else:
        parts.append(kind.encode(value))


def _encode(self: Any) -> bytes:
    parts: list[Any] = []
    _add(self.SCHEMA, [self.__dict__[name] for name in self.SCHEMA.names], parts)
    return b"".join(parts)


def _reader(kind: Any) -> Read:
    """Reads a value of one of the client's types."""
    if isinstance(kind, Schema):
        by_field = _reader_of_fields(kind.fields)
        return _reader_of_bytes(kind.fields, by_field) if kind.fields and kind.fields[-1] is Bytes else by_field
    if isinstance(kind, Array):
        return _reader_of_list(_reader(kind.array_of))
    if kind in NUMBERS:
        return _reader_of_fields([kind], alone=True)
    length, is_text = LENGTHS[Bytes if kind is Bytes else type(kind)], kind is not Bytes

    def read(data: bytes, at: int) -> tuple[bytes | str | None, int]:
        (n,), at = length.unpack_from(data, at), at + length.size
        if n < 0:
            return None, at
        found = data[at : at + n]
        if len(found) < n:
            raise ValueError(f"an answer ends within {n} bytes")
        return found.decode() if is_text else found, at + n

    return read


def _reader_of_list(one: Read) -> Read:
    def read(data: bytes, at: int) -> tuple[list[Any] | None, int]:
        (n,), at = COUNT.unpack_from(data, at), at + COUNT.size
        found = []
        for _ in range(n):
            value, at = one(data, at)
            found.append(value)
        return None if n == -1 else found, at

    return read


def _reader_of_fields(kinds: Sequence[Any], alone: bool = False) -> Read:
    """Numbers that stand beside each other are read at once. alone : the value is that of the one field."""
    steps = list[tuple[str, Read | None]]()  # numbers, or what reads another value
    for kind in kinds:
        number = NUMBERS.get(kind) if isinstance(kind, type) else None
        if number is None:
            steps.append(("", _reader(kind)))
        elif steps and steps[-1][1] is None:
            steps[-1] = steps[-1][0] + number, None
        else:
            steps.append((number, None))
    parts = [(struct.Struct(f">{numbers}"), one) for numbers, one in steps]

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found = list[Any]()
        for numbers, one in parts:
            if one is None:
                found += numbers.unpack_from(data, at)
                at += numbers.size
            else:
                value, at = one(data, at)
                found.append(value)
        return found[0] if alone else tuple(found), at

    return read


def _reader_of_bytes(kinds: Sequence[Any], by_field: Read) -> Read:
    """Of numbers and lists with bytes behind them, as an answer has for each partition: where the lists are empty, as
    they mostly are, all that stands before the bytes is read at once."""
    before = struct.Struct(">" + "".join(NUMBERS.get(kind, "i") for kind in kinds))
    lists = [i for i, kind in enumerate(kinds) if isinstance(kind, Array)]
    if len(lists) + sum(kind in NUMBERS for kind in kinds) + 1 < len(kinds):
        return by_field

    def read(data: bytes, at: int) -> tuple[Any, int]:
        found: list[Any] = list(before.unpack_from(data, at))
        for i in lists:
            if found[i] > 0:
                return by_field(data, at)
            found[i] = None if found[i] == -1 else []
        n, at = found[-1], at + before.size
        end = at + max(n, 0)
        found[-1] = data[at:end] if n >= 0 else None
        if end > len(data):
            raise ValueError(f"an answer ends within {n} bytes")
        return tuple(found), end

    return read


def _decoder(answer: Any) -> Any:
    """The `decode` of a class of the client's answers."""
    read = _reader(answer.SCHEMA)

    def decode(cls: Any, data: Any) -> Any:
        whole, at = (data, 0) if isinstance(data, bytes) else (data.getvalue(), data.tell())  # none is copied
        try:
            return cls(*read(whole, at)[0])
        except struct.error as error:
            raise ValueError(f"an answer is cut off: {error}") from None

    return classmethod(decode)


def install() -> None:
    """Have all connections of this process be so."""
    conn.AIOKafkaProtocol = Receiver
    for one in (*vars(produce).values(), *vars(fetch).values()):
        if isinstance(one, type) and issubclass(one, produce.RequestStruct):
            setattr(one, "encode", _encode)  # noqa: B010 (the client's classes say nothing of their types)
        elif isinstance(one, type) and issubclass(one, Response) and one.__module__.endswith(("fetch", "produce")):
            setattr(one, "decode", _decoder(one))  # noqa: B010
