"""Strangers at the live page's server: what they ask, how they ask it, and a thousand who ask nothing."""

import json
import logging
import re
import resource
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from riparian.app.worker.exposition.connection_limits import MAX_CONNECTIONS
from tests.app.page_server import Fed, Serving, served
from tests.processes import PATIENCE

__all__ = ["served"]  # a fixture

Served = tuple[Fed, Serving]
TYPED = b"Content-Type: application/json\r\n"
N = 400
OTHER_SITE = b"Sec-Fetch-Site: cross-site\r\n"


def ask(port: int, path: bytes, headers: bytes = b"", host: bytes = b"127.0.0.1", body: bytes | None = None) -> int:
    """The status of an answer."""
    method = b"GET" if body is None else b"POST"
    length = b"" if body is None else b"Content-Length: %d\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as one:
        head = method + b" " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n"
        one.sendall(head + headers + length + b"\r\n" + (body or b""))
        answer = b"".join(iter(lambda: one.recv(65_536), b""))
    return int(answer.split(b" ", 2)[1])


PREDICT = b"/api/streams/taps/partitions/0/predict"
FIND = b"/api/streams/taps/predictions?id=a"
CASES: list[tuple[int, bytes, dict[str, Any]]] = [
    (200, b"/health", {}),
    (200, b"/health", {"headers": b"Sec-Fetch-Site: same-origin\r\n"}),
    (200, b"/", {"headers": OTHER_SITE}),  # a link from elsewhere
    (200, b"/health", {"host": b"localhost:99"}),
    (400, b"/health", {"host": b":999999"}),
    (400, b"/health", {"host": b"\xff"}),
    (421, b"/health", {"host": b"evil.example"}),
    (404, b"/static/" + b"a" * 5000, {}),
    (404, b"/static/..%2fserver.py", {}),
    (404, b"/static/%00", {}),
    (403, FIND, {"headers": OTHER_SITE}),
    (403, FIND, {"headers": b"Sec-Fetch-Site: same-site\r\n"}),
    (403, FIND, {"headers": b"Origin: http://evil.example\r\n"}),
    (403, FIND, {"headers": b"Origin: null\r\n"}),
    (400, PREDICT, {"headers": TYPED, "body": b'{"x": {"a": 1%s}}' % (b"0" * 402)}),
    (400, PREDICT, {"headers": TYPED, "body": b'{"x": {"a": %s}}' % (b"[" * 30_000)}),
    (400, PREDICT, {"headers": TYPED, "body": b'{"x": {"a": "\xff"}}'}),
    (400, PREDICT, {"headers": TYPED, "body": b" " * 70_000}),
    (403, PREDICT, {"headers": TYPED + OTHER_SITE, "body": b"{}"}),
]


def test_odd_requests_are_answered_and_none_is_an_error_of_ours(served: Served, caplog: Any) -> None:
    _, serving = served
    with serving() as url, caplog.at_level(logging.WARNING):
        port = int(url.rpartition(":")[2])
        for status, path, more in CASES:
            assert ask(port, path, **more) == status, (path[:60], more)
    assert not caplog.records


@pytest.fixture
def many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))


def test_more_idle_connections_than_may_be_leave_the_page_answering(
    served: Served, caplog: Any, many_files: None
) -> None:
    watch, serving = served
    with serving() as url, ExitStack() as opened, caplog.at_level(logging.WARNING):
        port = int(url.rpartition(":")[2])
        live = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
        live.sendall(b"GET /api/streams/taps/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"text/event-stream" in live.recv(65_536)
        for _ in range(N):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            one.sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
        assert ask(port, b"/health") == 200
        # Who is answered stays, and is told what comes.
        watch.version += 1
        said, message = b"", None
        while message is None:
            said += live.recv(65_536)
            message = re.search(rb"data: (.*)\n\n", said)
        assert json.loads(message[1])["name"] == "taps"
        # Where all are answered, who comes is not.
        asked = b"GET /api/streams/taps/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for _ in range(MAX_CONNECTIONS - 1):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            one.sendall(asked)
            assert b"text/event-stream" in one.recv(65_536)
        with pytest.raises((OSError, IndexError)):
            ask(port, b"/health")
    assert not caplog.records
