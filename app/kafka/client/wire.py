"""The client's connections with fewer copies of the records that pass through them.

aiokafka reads by a stream of asyncio, which takes 256 kB at a time as an object, adds that to a buffer, stops reading
at 128 kB and cuts the answer out of the buffer. Here the socket fills the place where a large answer will stand. And
where aiokafka joins a request for each list and structure within it, so that records are copied six times, here it is
joined once.
"""

import asyncio
from typing import Any

import numpy as np
from aiokafka import conn
from aiokafka.protocol import produce
from aiokafka.protocol.types import Array, Bytes, Int32, Schema

SMALL_BYTES = 1 << 16  # up to which an answer comes by the buffer of all


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


def _add(kind: Any, value: Any, parts: list[Any]) -> None:
    """The bytes of a value of one of the client's types."""
    if isinstance(kind, Schema):
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


def install() -> None:
    """Have all connections of this process be so."""
    conn.AIOKafkaProtocol = Receiver
    for request in vars(produce).values():
        if isinstance(request, type) and issubclass(request, produce.RequestStruct):
            setattr(request, "encode", _encode)  # noqa: B010 (the client's classes say nothing of their types)
