"""The worker: what its log leaves out, and where it listens."""

import logging

from app.worker import application as worker
from app.worker.metrics import Metrics
from tests.broker.harness import stream_file


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


def test_the_web_server_listens_where_it_is_told(tmp_path):
    _, spec = stream_file(tmp_path, "listens")

    def listens(**where):
        return worker.create_app(
            spec, "localhost:9092", web_port=6066, data_dir=tmp_path, observer=Metrics(spec), **where
        )[0].conf.web_bind

    assert listens() == "127.0.0.1"
    assert listens(web_host="0.0.0.0") == "0.0.0.0"
