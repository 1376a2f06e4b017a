"""Strangers at the worker's web server: whatever they open, predictions go on, and the pages come back."""

import resource
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from app.kafka.ports import free_port
from app.worker.front import MAX_CONNECTIONS
from tests.broker.harness import PATIENCE, Worker, create_topics, instances, send, stream_file, wait_for_state

pytestmark = pytest.mark.broker

N = 1100


def metrics(port: int, seconds: float) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=seconds) as page:
        text: str = page.read().decode()
        return text


def test_a_thousand_half_open_connections_stop_nothing(broker: str, tmp_path: Path, topic_name: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * N)), hard))
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    assert spec.topics.labels is not None
    features, labels = instances(400)
    port = free_port()
    opened: list[socket.socket] = []
    with Worker(path, broker, tmp_path, web_port=port, n_files=500) as worker:
        send(broker, spec.topics.features, features[:200])
        send(broker, spec.topics.labels, labels[:200])
        wait_for_state(broker, spec, 200, 200, worker=worker)
        assert "this process may have 500 files open" in worker.output
        assert "riparian_instances_total" in metrics(port, PATIENCE)
        try:
            for _ in range(N):
                one = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
                opened.append(one)
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
            send(broker, spec.topics.features, features[200:])
            send(broker, spec.topics.labels, labels[200:])
            learner = wait_for_state(broker, spec, 400, 400, worker=worker)
            # Half a header is given up after a while, though its sender is still there.
            answered, deadline = "", time.monotonic() + PATIENCE
            while not answered and time.monotonic() < deadline:
                try:
                    answered = metrics(port, 5)
                except OSError:
                    time.sleep(0.2)
        finally:
            for one in opened:
                one.close()
        assert worker.stop() == 0, worker.output[-3000:]
        assert "Traceback" not in worker.output
    assert learner.pending.counts["joined"] == 400
    assert "riparian_instances_total" in answered
    assert MAX_CONNECTIONS < 500 < N
