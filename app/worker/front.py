"""What the worker's web server grants to strangers: so many connections, each for so long, and enough open files.

Its pages are small and have no bodies to send, so a connection that has not asked for one within `PATIENCE_SECONDS`
(half a header, say), or has not taken its answer, is cut off; so is one that is idle for so long. Connections beyond
`MAX_CONNECTIONS` are closed at once. Otherwise whoever opens a thousand takes the files that the clients of Kafka need.
"""

import asyncio
import logging
import resource
import socket
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 100
PATIENCE_SECONDS = 10.0
WANTED_FILES = 65_536
FEW_FILES = 1024


class _Guarded(asyncio.Protocol):
    """One connection: hands everything on to the web server's own protocol, unless there are too many."""

    def __init__(self, front: "Front", inner: Any) -> None:
        self._front, self._inner = front, inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if len(self._front.connections) >= MAX_CONNECTIONS:
            transport.abort()
            return
        self._transport = transport
        self._front.connections[transport] = self
        self.heard()
        self._inner.connection_made(transport)

    def heard(self) -> None:
        """A whole request has come."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._front.connections.pop(self._transport, None)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> Any:
        return None if self._transport is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


class Front(web.SockSite):
    """A site of the web server's on a socket that listens already."""

    __slots__ = ("connections",)

    def __init__(self, runner: web.AppRunner, sock: socket.socket) -> None:
        super().__init__(runner, sock)
        self.connections: dict[Any, _Guarded] = {}

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Guarded(self, server()), sock=self._sock)


class _Ours(logging.Filter):
    """Leaves out requests that are none. They are answered 400, and their tracebacks would fill a disk."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def serve(app: Any, sock: socket.socket) -> None:
    """Have Faust's web server listen on `sock`, within these limits."""
    sites: list[Front] = []
    server_logger.addFilter(_Ours())

    @web.middleware
    async def note(request: web.Request, handler: Any) -> Any:
        for site in sites:
            if request.transport in site.connections:
                site.connections[request.transport].heard()
        return await handler(request)

    def site() -> Front:
        sites.append(Front(app.web._runner, sock))
        return sites[-1]

    app.web.web_app.middlewares.append(note)
    app.web._transport_handlers["tcp"] = site


def raise_file_limit() -> None:
    """Allow this process as many open files as it may have, and say where these are few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft != resource.RLIM_INFINITY and soft < FEW_FILES:
        log.warning(
            "this process may have %d files open, with connections to brokers and of its web server among them: raise "
            "the limit (ulimit -n) to %d or more",
            soft,
            FEW_FILES,
        )
