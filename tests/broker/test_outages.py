"""When Kafka is absent at the start, or goes away while a worker runs."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from app.kafka.broker import LocalBroker
from tests.broker.harness import (
    PATIENCE,
    ROOT,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker


def test_an_absent_broker_is_one_sentence_and_an_exit_code(tmp_path, topic_name):
    path, _ = stream_file(tmp_path, topic_name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "app.cli", "worker", str(path), "--broker", f"127.0.0.1:{port}", "--wait", "2"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert "trying again" in lines[0]
    assert lines[-1].startswith(f"riparian: Expected Kafka at 127.0.0.1:{port}")
    assert "Traceback" not in done.stderr


def test_a_worker_started_before_its_broker_waits_for_it(tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    local = LocalBroker(tmp_path / "kafka")
    local.start()
    address = local.bootstrap
    local.stop()
    with Worker(path, address, tmp_path) as worker:
        worker.wait_for("trying again")
        with local:
            features, labels = instances(200)
            worker.wait_for("Worker ready")
            send(address, spec.topics.features, features)
            send(address, spec.topics.labels, labels)
            check_against_oracle(address, spec, wait_for_state(address, spec, 200, 200, worker=worker))
            assert worker.stop() == 0
            assert "ERROR" not in worker.output  # a broker that is new has no coordinator of groups at first


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_goes_and_comes_back_costs_nothing(tmp_path, topic_name, way):
    path, spec = stream_file(tmp_path, topic_name)
    n = 4000
    features, labels = instances(n, delay=20)
    with LocalBroker(tmp_path / "kafka") as local:
        address = local.bootstrap
        create_topics(spec, address)
        with Worker(path, address, tmp_path) as worker:
            send(address, spec.topics.features, features[: n // 2])
            send(address, spec.topics.labels, labels[: n // 2])
            wait_for_state(address, spec, n // 2, n // 2, worker=worker)
            senders = [
                threading.Thread(
                    target=send, args=(address, topic, records[n // 2 :]), kwargs={"pause": 0.1, "chunk": 100}
                )
                for topic, records in ((spec.topics.features, features), (spec.topics.labels, labels))
            ]
            for sender in senders:
                sender.start()
            while len(predictions(address, spec)) < n // 2 + 300:
                time.sleep(0.1)
            (local.stop if way == signal.SIGTERM else local.kill)()
            time.sleep(5)
            assert worker.process.poll() is None, worker.output[-3000:]
            local.start()
            for sender in senders:
                sender.join()
            learner = wait_for_state(address, spec, n, n, worker=worker)
            assert worker.stop() == 0
        oracle = check_against_oracle(address, spec, learner)
        assert oracle.pending.counts["joined"] == n
        assert json.dumps(oracle.pending.counts)
