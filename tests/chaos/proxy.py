"""A TCP proxy between one worker and the broker, whose network can be cut.

Each worker has a listener of its own at the broker, which advertises the proxy's port: so all that a worker says to
Kafka passes its proxy, and cutting that cuts nobody else off.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK_BYTES = 65_536
HOST = "127.0.0.1"


class Network:
    """The event loop of all proxies, in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="network", daemon=True)

    def __enter__(self) -> "Network":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._cancel())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the loop, from another thread, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()


class Proxy:
    """Passes 127.0.0.1:`port` on to 127.0.0.1:`target`.

    `drop` closes what is connected. `refuse` closes it and accepts nothing until `heal`. `stall` holds every byte back
    until `heal`, then passes it on late, as a network does that was away for a while.

    Attributes
    ----------
    n_passed : bytes that came from the target
    """

    def __init__(self, network: Network, port: int, target: int) -> None:
        self.port, self.target, self.n_passed = port, target, 0
        self._network = network
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._on_loop(self._listen)

    def drop(self) -> None:
        self._on_loop(self._close_all)

    def refuse(self) -> None:
        self._on_loop(self._refuse)

    def stall(self) -> None:
        self._on_loop(self._stall)

    def heal(self) -> None:
        self._on_loop(self._heal)

    def _on_loop(self, action: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._network.run(action())

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _close_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._close_all()

    async def _stall(self) -> None:
        self._flowing.clear()

    async def _heal(self) -> None:
        self._flowing.set()
        await self._listen()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the campaign is over
            await self._pass_on(reader, writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            to_reader, to_writer = await asyncio.open_connection(HOST, self.target)
        except OSError:  # the broker is away
            writer.transport.abort()
            self._writers.discard(writer)
            return
        self._writers.add(to_writer)
        try:
            await asyncio.gather(self._pump(reader, to_writer, writer), self._pump(to_reader, writer, writer))
        finally:
            for either in (writer, to_writer):
                either.transport.abort()
                self._writers.discard(either)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        """Pass bytes on until either side ends. back : the writer to the client."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                self.n_passed += len(data) if writer is back else 0
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
