"""Requests to the web server of a worker, which is Faust's with our limits, in a process of its own without Kafka.

Whatever comes, /health and /metrics are answered afterwards, no answer is an error of the server, and none writes a
traceback. `python -m tests.fuzz.web` is the server.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from tests.fuzz import mutate
from tests.fuzz.mutate import Random, pick
from tests.fuzz.target import Target

ROOT = Path(__file__).resolve().parents[2]
SERVER_MEGABYTES = 400  # beyond what it has when it begins
ANSWER_SECONDS = 30.0  # until which the server has to answer again; it lets go of a slow connection after ten
READ_SECONDS = 0.05  # that a case waits for answers

_METHODS = (
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "get",
    "G" * 9000,
    "",
    "\0",
    "PRI",
)
_PATHS = (
    *(
        "/metrics",
        "/health",
        "/",
        "/metrics/",
        "//health",
        "/health?a=1&a=2",
        "/metrics?" + "a" * 9000,
        "/nope",
        "/router/nope/",
    ),
    *(
        "/../../etc/passwd",
        "/%2e%2e/%00",
        "/%ff%fe",
        "/%",
        "/%zz",
        "*",
        "http://example.invalid/health",
        "example.invalid:443",
    ),
    *(
        "/health#a",
        "/health;a=b",
        "/tables/",
        "/table/state/a/",
        "/stats/",
        "/é",
        "/" + "a/" * 4000,
        "/health\t",
        "?",
        "/\0",
    ),
)
_HEADERS = (
    *("Host: a", "Host: a\r\nHost: b", "Host:", "Connection: close", "Connection: keep-alive", "Connection: upgrade"),
    *(
        "Content-Length: 5",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999",
        "Content-Length: 5, 5",
        "Content-Length: 0x5",
    ),
    *(
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Expect: 100-continue",
    ),
    *(
        "Expect: nonsense",
        "Upgrade: websocket",
        "Upgrade: h2c\r\nHTTP2-Settings: AAA",
        "Sec-WebSocket-Key: a",
        "Range: bytes=0-,5-1",
    ),
    *(
        "Accept: application/openmetrics-text; version=1.0.0",
        "Accept: " + "a/b;q=" * 500,
        "Accept-Encoding: gzip, br, *;q=nan",
    ),
    *(
        "Content-Encoding: gzip",
        "Content-Encoding: br",
        "Content-Type: multipart/form-data; boundary=" + "b" * 300,
        'Cookie: a="\\',
    ),
    *(
        "Cookie: " + "a=b;" * 1000,
        "If-Modified-Since: yesterday",
        "Authorization: Basic %",
        "X: \0",
        "X : a",
        " X: a",
        "X",
        ": a",
    ),
    *("X: a\r\n b", "X: é", "X-" + "a" * 9000 + ": a", "X: " + "a" * 9000, "Content-Type: text/plain; charset=nope"),
)
_VERSIONS = (
    "HTTP/1.1",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/0.9",
    "HTTP/2.0",
    "HTTP/9999999999.1",
    "HTTP/1.1 ",
    "http/1.1",
    "",
    "HTTP/1.é",
)
_BODIES = (
    b"",
    b"hello",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"-1\r\n",
    b"FFFFFFFFFFFFFFFFF\r\nx",
    b"5;a=b\r\nhello\r\n",
    b"\x1f\x8b\x08\0",
    b"{}" * 9,
)
_TOKENS = (
    *mutate.TOKENS,
    b"\r\n",
    b"\r\n\r\n",
    b"\r",
    b"\n\n",
    b"HTTP/1.1",
    b"GET / ",
    b"Host: localhost\r\n",
    b"chunked",
    b"\x16\x03\x01",
)

# What is sent on one connection: pieces, each a text of bytes (latin-1) and how often it is repeated.
Pieces = list[list[Any]]


def _request(rng: Random) -> Pieces:
    head = " ".join((pick(rng, _METHODS), pick(rng, _PATHS), pick(rng, _VERSIONS))) + "\r\n"
    if rng.random() < 0.5:
        head = f"{pick(rng, ('GET', 'HEAD', 'POST', 'OPTIONS'))} {pick(rng, ('/metrics', '/health'))} HTTP/1.1\r\n"
    headers = "".join(pick(rng, _HEADERS) + "\r\n" for _ in range(int(rng.integers(0, 6))))
    data = (head + headers + pick(rng, ("\r\n", "\r\n", "\r\n", ""))).encode() + pick(rng, _BODIES)
    for _ in range(int(rng.integers(0, 3))):
        data = mutate.of_bytes(rng, data, _TOKENS)
    pieces: Pieces = [[data.decode("latin-1"), 1]]
    kind = rng.random()
    if kind < 0.05:  # a flood of headers
        pieces = [
            [head, 1],
            [f"{pick(rng, ('X: a', 'Cookie: a=b', 'Host: a'))}\r\n", int(rng.integers(10, 20_000))],
            ["\r\n", 1],
        ]
    elif kind < 0.1:  # a large body
        n = int(rng.integers(1, 300))
        pieces = [
            [f"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n * 10_000}\r\n\r\n", 1],
            ["x" * 100, n * 100],
        ]
    elif kind < 0.15:  # chunks without an end, or one request after the other
        endless = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        more = [[endless, 1], ["1\r\nx\r\n", int(rng.integers(1, 50_000))]]
        health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        pieces = more if rng.random() < 0.5 else [[health, int(rng.integers(1, 300))]]
    elif kind < 0.2 and len(data) > 1:  # in two parts
        at = int(rng.integers(1, len(data)))
        pieces = [[data[:at].decode("latin-1"), 1], [data[at:].decode("latin-1"), 1]]
    return pieces


class Web(Target):
    """A case is what is sent on each of some connections, which are all open at a time."""

    seconds, megabytes, budget = 20.0, 300, 40

    def prepare(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        said = Path(self.folder.name) / "said"
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.web", str(os.getpid())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said.open("ab"),
        )
        self.said = said.open("rb")
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        assert line, self._written()
        self.port = int(line)
        self._check()

    def make(self, rng: Random) -> bytes:
        n = 150 if rng.random() < 0.01 else 1 if rng.random() < 0.8 else int(rng.integers(2, 12))
        request = _request(rng)
        connections = [request] * n if n == 150 else [request, *(_request(rng) for _ in range(n - 1))]
        return json.dumps(connections, indent=1).encode()

    def run(self, case: bytes) -> None:
        with contextlib.ExitStack() as stack:
            opened = []
            for pieces in json.loads(case):
                with contextlib.suppress(OSError):
                    connection = socket.create_connection(("127.0.0.1", self.port), timeout=1.0)
                    opened.append(stack.enter_context(connection))
                    for text, times in pieces:
                        connection.sendall(text.encode("latin-1") * times)
            for connection in opened:
                answer = _read(connection)
                assert b"HTTP/1.1 500" not in answer, answer[:500]
        self._check()

    def _check(self) -> None:
        until = time.monotonic() + ANSWER_SECONDS
        for path, wanted in (("/health", b"{"), ("/metrics", b"riparian_")):
            answer = b""
            while not (answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")) and wanted in answer):
                assert self.server.poll() is None, f"the server ended: {self.server.returncode}\n{self._written()}"
                assert time.monotonic() < until, f"{path} is not answered: {answer[:500]!r}\n{self._written()}"
                with contextlib.suppress(OSError):
                    connection = socket.create_connection(("127.0.0.1", self.port), timeout=ANSWER_SECONDS)
                    with connection:
                        asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                        connection.sendall(asked.encode())
                        answer = b"".join(iter(lambda c=connection: c.recv(65_536), b""))  # type: ignore[misc]
        written = self._written()
        assert "Traceback" not in written, written

    def _written(self) -> str:
        """What the server wrote since the last time."""
        text = self.said.read().decode(errors="replace")
        return text[-6000:]

    def shrink(self, case: bytes) -> Iterator[bytes]:
        connections = json.loads(case)
        for fewer in mutate.smaller(connections):
            yield json.dumps(fewer, indent=1).encode()
        for i, pieces in enumerate(connections):
            for j, (text, times) in enumerate(pieces):
                halves = [[text, times // 2]] if times > 1 else []
                shorter = ([less.decode("latin-1"), times] for less in mutate.shorter(text.encode("latin-1")))
                for change in chain(halves, shorter):
                    other = [*pieces[:j], change, *pieces[j + 1 :]]
                    yield json.dumps([*connections[:i], other, *connections[i + 1 :]], indent=1).encode()

    def close(self) -> None:
        self.server.kill()
        self.server.wait()
        self.said.close()
        self.folder.cleanup()


def _read(connection: socket.socket) -> bytes:
    """What is answered, until nothing comes for a moment."""
    answer = b""
    with contextlib.suppress(OSError):
        connection.settimeout(READ_SECONDS)
        while len(answer) < 1_000_000:
            more = connection.recv(65_536)
            if not more:
                break
            answer += more
    return answer


async def _serve(parent: int) -> None:
    from riparian.app.kafka.connection import Connection
    from riparian.app.kafka.local_broker.ports import listen
    from riparian.app.stream_file.spec import build
    from riparian.app.worker.application import create_app
    from riparian.app.worker.exposition.metrics import Metrics
    from riparian.app.worker.exposition.web import expose
    from tests.fuzz.children import limit_memory

    spec = build({"name": "fuzz", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"})
    metrics, sock = Metrics(spec), listen("127.0.0.1", 0)
    with tempfile.TemporaryDirectory() as folder:
        app, assignment = create_app(spec, Connection("127.0.0.1:9"), web=sock, data_dir=Path(folder), observer=metrics)
        expose([(app, assignment, metrics)])
        await app.web.start()
        limit_memory(SERVER_MEGABYTES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
        print(sock.getsockname()[1], flush=True)
        while os.getppid() == parent:  # which may have been killed
            await asyncio.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)


TARGETS = {"web": Web()}

if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
