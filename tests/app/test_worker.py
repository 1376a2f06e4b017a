"""The worker: what its log leaves out, and where it listens."""

import logging
import socket

import pytest

from app.errors import RiparianError
from app.kafka import ports
from app.worker import application as worker


def test_a_line_that_comes_again_and_again_is_written_now_and_then(monkeypatch):
    now = 0.0
    monkeypatch.setattr(worker.time, "monotonic", lambda: now)
    repeated = worker.Repeated()

    def shown(text, *args, name="aiokafka"):
        return repeated.filter(logging.LogRecord(name, logging.ERROR, "", 0, text, args, None))

    assert shown("no broker at %s", "a")
    assert not shown("no broker at %s", "b")
    assert shown("something else")
    assert shown("no broker at %s", "a", name="aiokafka.conn")
    now = worker.REPEAT_SECONDS
    assert shown("no broker at %s", "a")
    assert not shown(worker.REBALANCING, "riparian-elec")


def test_a_port_that_is_taken_is_one_sentence_or_the_next_one():
    with ports.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RiparianError, match=f"port {port} of 127.0.0.1 is in use.*another by --web-port"):
            ports.listen("127.0.0.1", port)
        with ports.listen("127.0.0.1", port, or_next=True) as found:
            assert found.getsockname()[1] > port
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    with ports.listen("0.0.0.0", 0) as everywhere:
        assert everywhere.getsockname()[0] == "0.0.0.0"
    with pytest.raises(RiparianError, match=r"cannot listen on 192\.0\.2\.1:6066 \(.*--web-host"):
        ports.listen("192.0.2.1", 6066)  # nobody's, for documentation
