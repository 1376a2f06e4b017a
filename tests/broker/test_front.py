"""Strangers at the worker's web server: whatever they open, predictions go on, and the pages come back."""

import http.client
import resource
import socket
from contextlib import suppress
from typing import Any

import pytest

from riparian.app.worker.exposition.connection_limits import MAX_CONNECTIONS
from tests.broker.harness import PATIENCE, Page, instances
from tests.processes import until

pytestmark = pytest.mark.broker

N = 1100


def status_of(port: int, host: str) -> int:
    """What /health answers to whoever asks this host for it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/health", headers={"Host": host})
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_thousand_half_open_connections_stop_nothing(stream: Any) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * N)), hard))
    s = stream()
    rows, page = instances(400), Page()
    opened: list[socket.socket] = []
    with s.worker(web_port=page.port, n_files=500) as worker:
        s.give(rows, 0, 200)
        s.reach(200, worker=worker)
        assert "this process may have 500 files open" in worker.output
        assert page.values("riparian_instances_total") == [200]
        for host, status in (("localhost", 200), ("[::1]:7", 200), ("worker.example:80", 421), ("a:b:c", 421)):
            assert status_of(page.port, host) == status, host
        try:
            for _ in range(N):
                one = socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE)
                opened.append(one)
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            s.give(rows, 200)
            learner = s.reach(400, worker=worker)

            def answered() -> bool:
                """Half a header is given up after a while, though its sender is still there."""
                with suppress(OSError):
                    return page.values("riparian_instances_total") == [400]
                return False

            until(answered)
        finally:
            for one in opened:
                one.close()
        assert worker.stop() == 0, worker.output[-3000:]
        assert "Traceback" not in worker.output
    assert learner.pending.counts["joined"] == 400
    assert MAX_CONNECTIONS < 500 < N
