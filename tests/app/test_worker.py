"""The worker's log: what it leaves out."""

import logging

from app import worker


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
