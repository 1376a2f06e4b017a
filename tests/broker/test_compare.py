"""A challenger that is better is found out on a real Kafka, whatever happens to the worker."""

import asyncio
import json
import time

import pytest
from aiokafka.structs import TopicPartition
from click.testing import CliRunner

from app.cli.compare import command
from app.kafka.connection import Connection
from app.kafka.reading import EVERYTHING, read_to_end
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


def told(broker, spec):
    """The events of the stream's partition, and its predictions."""
    found = {spec.topics.events: [], spec.topics.predictions: []}
    starts = {TopicPartition(topic, 0): 0 for topic in found}

    def take(tp, records):
        found[tp.topic] += [json.loads(record.value) for record in records]

    asyncio.run(read_to_end(Connection(broker), starts, take, isolation=EVERYTHING))
    return found[spec.topics.events], found[spec.topics.predictions]


def test_a_better_challenger_is_promoted_by_rule_though_the_worker_is_killed(broker, tmp_path, topic_name):
    """The second worker is killed after the promotion, and has only its outputs to show for it."""
    tree = {"model": "hoeffding-tree", "grace_period": 50}
    fields = {"champion": "last-label", "challengers": {"tree": tree}, "control": True, "promotion": "automatic"}
    path, spec = stream_file(tmp_path, topic_name, **fields, checkpoint={"every": "1h"})
    create_topics(spec, broker)
    features, labels = instances(N)
    cuts = [0, N // 4, 2 * N // 3, N]
    for stop, start in zip(cuts[1:-1], cuts, strict=False):
        send(broker, spec.topics.features, features[start:stop])
        send(broker, spec.topics.labels, labels[start:stop])
        with Worker(path, broker, tmp_path) as worker:
            deadline = time.monotonic() + PATIENCE
            while len(told(broker, spec)[1]) < stop:
                assert time.monotonic() < deadline, worker.output[-3000:]
                time.sleep(0.2)
            worker.kill()
    events, _ = told(broker, spec)
    assert [event["event"] for event in events] == ["applied"]
    send(broker, spec.topics.features, features[cuts[2] :])
    send(broker, spec.topics.labels, labels[cuts[2] :])
    path, spec = stream_file(tmp_path, topic_name, **fields)  # with checkpoints, which say when all labels were learned
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, N, N, worker=worker)
        assert worker.stop() == 0
    check_against_oracle(broker, spec, learner)
    assert asyncio.run(audit(spec, Connection(broker), 0)).holds
    after, predictions = told(broker, spec)
    (event,) = after
    assert [event] == events
    assert (event["model"], event["by"], event["number"]) == ("tree", "promotion", 0)
    assert {one["model"] for one in predictions if one["offset"] < event["offset"]} == {"last-label"}
    assert {one["model"] for one in predictions if one["offset"] >= event["offset"]} == {"hoeffding-tree"}
    assert {role: running.learner_name for role, running in learner.roles.items()} == event["models"]
    (row,) = compared(path, broker)
    assert (row["challenger"], row["verdict"]) == ("last-label", "worse")
