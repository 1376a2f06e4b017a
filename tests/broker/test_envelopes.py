"""Records that do not stand alone: fields in headers, and rows in envelopes, as a worker reads them on a real Kafka."""

import asyncio
import json
import time

import numpy as np
import pytest

from app.dataset.rows import rows_of_arrays
from app.kafka.connection import Connection
from app.kafka.keys import sample
from app.partition.learner import PartitionLearner
from app.replay import publish
from tests.broker.harness import (
    Sent,
    Worker,
    check_against_oracle,
    create_topics,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.test_audit import riparian_audit

pytestmark = pytest.mark.broker

N = 400
HEADERS = {
    "task": "classification",
    "features": {"a": "numeric", "b": {"type": "numeric", "from": "@header:b"}, "c": "nominal"},
    "record": {"id": "@header:ce_id", "time": "@header:ce_time", "y": None},
    "label": {"id": "@header:ce_id", "y": "@header:y"},
    "champion": "naive-bayes",
}


def replayed(broker, tmp_path, topic_name, **fields):
    """A stream whose records a replay has written, and a worker has learned to the end."""
    path, spec = stream_file(tmp_path, topic_name, **fields)
    create_topics(spec, broker)
    PartitionLearner(spec).warm_up()
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random((N, 2)), rng.integers(3, size=N)])
    sent = asyncio.run(publish(spec, rows_of_arrays(spec, x, (x[:, 1] > 0.5) * 1.0), Connection(broker), n=N))
    assert (sent.features, sent.labels) == (N, N)
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, N, N, worker=worker)
    oracle = check_against_oracle(broker, spec, learner)
    assert oracle.pending.counts["joined"] == N
    assert len(predictions(broker, spec)) == N
    assert read(broker, spec.topics.deadletters) == []
    (found,) = json.loads(riparian_audit(broker, path, "--json"))["partitions"]
    assert found["holds"]
    return spec, learner


def test_fields_in_headers_are_replayed_learned_and_audited(broker, tmp_path, topic_name):
    spec, learner = replayed(broker, tmp_path, topic_name, **HEADERS)
    records = read(broker, spec.topics.features)
    assert json.loads(records[0].value).keys() == {"x"}
    assert [name for name, _ in records[0].headers] == ["ce_id", "ce_time", "b"]
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.7
    assert asyncio.run(sample(spec, Connection(broker))) is None  # of one partition there is nothing to compare


def test_changes_of_a_database_are_learned_and_audited(broker, tmp_path, topic_name):
    fields = {
        "task": "classification",
        "features": {"a": "numeric", "b": "numeric", "c": "nominal"},
        "record": {"envelope": "debezium", "x": "", "y": None},
        "label": {"envelope": "connect"},
        "champion": "naive-bayes",
    }
    path, spec = stream_file(tmp_path, topic_name, **fields)
    create_topics(spec, broker)
    # A delete and its tombstone come before all of the features, and behind them.
    gone = [json.dumps({"before": {"id": 1}, "after": None, "op": "d"}).encode(), None]
    now = int(time.time() * 1000) - 3_600_000
    send(broker, spec.topics.features, [Sent(value, now, b"1") for value in gone])
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random((N, 2)), rng.integers(3, size=N)])
    asyncio.run(publish(spec, rows_of_arrays(spec, x, (x[:, 1] > 0.5) * 1.0), Connection(broker), n=N))
    send(broker, spec.topics.features, [Sent(value, int(time.time() * 1000), b"1") for value in gone])
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, spec, N + 4, N, worker=worker)
    oracle = check_against_oracle(broker, spec, learner)
    assert oracle.pending.counts["joined"] == N
    assert [one["offset"] for one in predictions(broker, spec)] == list(range(2, N + 2))
    assert read(broker, spec.topics.deadletters) == []
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.7
    (found,) = json.loads(riparian_audit(broker, path, "--json"))["partitions"]
    assert found["holds"]
