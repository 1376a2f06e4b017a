"""What our web servers grant to strangers: so many connections, each for so long, and enough open files.

A connection is cut off that sends no whole request within `PATIENCE_SECONDS` (half a header, or nothing), or does not
take what it is answered. There are `MAX_CONNECTIONS`: where one more comes, the one goes that has been without a
request longest; where all are being answered, the new one. Otherwise whoever opens a thousand takes the files that the
clients of Kafka need.
"""

import asyncio
import errno
import ipaddress
import logging
import resource
import socket
import ssl
import time
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from yarl import URL

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 100
PATIENCE_SECONDS = 10.0
WANTED_FILES = 65_536
FEW_FILES = 1024
REPEAT_SECONDS = 60.0


class _Guarded(asyncio.Protocol):
    """One connection: hands everything on to the web server's own protocol, unless there are too many."""

    def __init__(self, front: "ConnectionLimits", inner: Any) -> None:
        self._front, self._inner = front, inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        if not self._front.has_room():
            transport.abort()
            return
        self._transport = transport
        self._front.connections[self] = None
        self.wait()
        self._inner.connection_made(transport)

    def abort(self) -> None:
        self._front.connections.pop(self, None)
        if self._transport is not None:
            self._transport.abort()

    def answer(self) -> None:
        """A whole request has come: as long as it takes us, unless nobody takes the answer."""
        self.answering = True
        self._wait_no_more()

    def wait(self) -> None:
        """For the next request, and until what was answered is taken."""
        self.answering = False
        if self in self._front.connections:  # the last to go
            del self._front.connections[self]
            self._front.connections[self] = None
        self._wait_for_them()

    def _wait_for_them(self) -> None:
        self._wait_no_more()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self.abort)

    def _wait_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._wait_no_more()
        self._front.connections.pop(self, None)
        self._transport = None
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._inner.data_received(data)

    def eof_received(self) -> Any:
        return None if self._transport is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._wait_for_them()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self.answering:
            self._wait_no_more()
        self._inner.resume_writing()


class ConnectionLimits(web.SockSite):
    """A site of the web server's on a socket that listens already. `patient` is one of its middlewares."""

    __slots__ = ("connections",)

    def __init__(self, runner: web.AppRunner, sock: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(runner, sock, ssl_context=tls)
        self.connections: dict[_Guarded, None] = {}  # that which was answered longest ago comes first
        server_logger.addFilter(_Ours())
        logging.getLogger("asyncio").addFilter(_Accepted())

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        tls = self._ssl_context
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Guarded(self, server()),
            sock=self._sock,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else PATIENCE_SECONDS,
        )

    def has_room(self) -> bool:
        """Whether there is room for one connection more, or one that waits went for it."""
        if len(self.connections) < MAX_CONNECTIONS:
            return True
        idle = next((one for one in self.connections if not one.answering), None)
        if idle is not None:
            idle.abort()
        return idle is not None


@web.middleware
async def patient(request: web.Request, handler: Any) -> Any:
    """Waits for no one while a request is answered, but for who does not take the answer."""
    connection = None if request.transport is None else request.transport.get_protocol()
    if not isinstance(connection, _Guarded):
        return await handler(request)
    connection.answer()
    try:
        return await handler(request)
    finally:
        connection.wait()


def is_loopback(host: str) -> bool:
    """Whether an address, or the host of a request, is this machine itself."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def host_of(request: web.Request) -> str | None:
    """The host that a request names, without its port; None where that is none."""
    try:
        return URL(f"http://{request.headers.get('Host', '')}").host
    except ValueError:
        return None


@web.middleware
async def of_this_machine(request: web.Request, handler: Any) -> Any:
    """Of a server that listens on this machine alone: another host's name is that of a page in somebody's browser,
    which leads here."""
    if not is_loopback(host_of(request) or ""):
        return web.Response(status=421, text="These pages answer on 127.0.0.1 and localhost alone: see --host.")
    return await handler(request)


class _Accepted(logging.Filter):
    """Has the loop say once a minute, in a line, that it has no files for another connection. It would write a hundred
    tracebacks a second."""

    def __init__(self) -> None:
        super().__init__()
        self._until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            return True
        now, until = time.monotonic(), self._until
        if now >= until:
            self._until = now + REPEAT_SECONDS
            record.exc_info, record.exc_text = None, None
        return now >= until


class _Ours(logging.Filter):
    """Leaves out requests that are none, and bodies that are not as their headers say. They are answered 400, or not at
    all, and their tracebacks would fill a disk."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


def serve(app: Any, sock: socket.socket) -> None:
    """Have Faust's web server listen on `sock`, within these limits."""
    app.web.web_app.middlewares.append(patient)
    if is_loopback(sock.getsockname()[0]):
        app.web.web_app.middlewares.append(of_this_machine)
    app.web._transport_handlers["tcp"] = lambda: ConnectionLimits(app.web._runner, sock)


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
