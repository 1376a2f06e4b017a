"""A challenger that is better is found out on a real Kafka, whatever happens to the worker."""

import asyncio
import json
import time

import pytest
from click.testing import CliRunner

from app.cli.compare import command
from app.kafka.connection import Connection
from app.state.audit import audit
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    send,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker

N = 3000


def compared(path, broker):
    result = CliRunner().invoke(command, [str(path), "--broker", broker, "--json"])
    assert result.exit_code == 0, f"{result.output}{result.exception!r}"
    return json.loads(result.output)["compared"]


def test_a_better_challenger_is_found_though_the_worker_is_killed(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        champion="last-label",
        challengers={"tree": {"model": "hoeffding-tree", "grace_period": 50}},
    )
    create_topics(spec, broker)
    assert compared(path, broker) == []
    features, labels = instances(N)
    send(broker, spec.topics.features, features[: N // 2])
    send(broker, spec.topics.labels, labels[: N // 2])
    with Worker(path, broker, tmp_path) as worker:
        deadline = time.monotonic() + PATIENCE
        while not compared(path, broker):
            assert time.monotonic() < deadline, worker.output[-3000:]
            time.sleep(0.2)
        worker.kill()
    send(broker, spec.topics.features, features[N // 2 :])
    send(broker, spec.topics.labels, labels[N // 2 :])
    with Worker(path, broker, tmp_path) as worker:
        wait_for_state(broker, spec, N, N, worker=worker)
        assert worker.stop() == 0
    learner = wait_for_state(broker, spec, N, N)
    check_against_oracle(broker, spec, learner)
    audited = asyncio.run(audit(spec, Connection(broker), 0))
    assert audited.holds
    figures, (row,) = learner.figures().compared["tree"], compared(path, broker)
    assert figures["total_labels"] > 0.9 * N
    assert (row["verdict"], row["learner"], row["partition"]) == ("better", "hoeffding-tree", 0)
    assert row["low"] > 0
    assert row["labels"] <= figures["total_labels"]
    shown = CliRunner().invoke(command, [str(path), "--broker", broker]).output
    assert "better" in shown
