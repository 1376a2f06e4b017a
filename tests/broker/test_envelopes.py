"""Records that do not stand alone: fields in headers, and rows in envelopes, as a worker reads them on a real Kafka."""

import asyncio
import json
import time

import numpy as np
import pytest

from benchmarks.written import rows_of_arrays
from riparian.app.kafka.topics.keys import sample
from riparian.app.page.predictions import explained
from riparian.app.partition.learner import PartitionLearner
from riparian.app.replay import publish
from tests.broker.clients import Sent, send

pytestmark = pytest.mark.broker

N = 400
COMMON = {"task": "classification", "champion": "naive-bayes"}


def replay(s):
    """What `riparian replay` writes of a concept."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random((N, 2)), rng.integers(3, size=N)])
    sent = asyncio.run(publish(s.spec, rows_of_arrays(s.spec, x, (x[:, 1] > 0.5) * 1.0), s.connection, n=N))
    assert (sent.features, sent.labels) == (N, N)


def learned(s, n_features, first=0):
    """What a worker makes of the records, of which those behind `first` are instances."""
    PartitionLearner(s.spec).warm_up()
    learner = s.run(n_features, N)
    assert s.check(learner).pending.counts["joined"] == N
    assert [one["offset"] for one in s.predictions()] == list(range(first, first + N))
    assert s.read("deadletters") == []
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.7
    s.holds()


def test_fields_in_headers_are_replayed_learned_and_audited(stream):
    s = stream(
        **COMMON,
        features={"a": "numeric", "b": {"type": "numeric", "from": "@header:b"}, "c": "nominal"},
        record={"id": "@header:ce_id", "time": "@header:ce_time", "y": None},
        label={"id": "@header:ce_id", "y": "@header:y"},
    )
    replay(s)
    learned(s, N)
    records = s.read("features")
    assert json.loads(records[0].value).keys() == {"x"}
    assert [name for name, _ in records[0].headers] == ["ce_id", "ce_time", "b"]
    found = asyncio.run(sample(s.spec, s.connection))
    assert found is not None
    assert (found.ids.both, found.ids.apart) == (N, 0)  # ids are read from headers


def test_changes_of_a_database_are_learned_and_audited(stream):
    s = stream(
        **COMMON,
        features={"a": "numeric", "b": "numeric", "c": "nominal"},
        record={"envelope": "debezium", "x": "", "y": None},
        label={"envelope": "connect"},
    )
    # A delete and its tombstone come before all of the features, and behind them.
    gone = [json.dumps({"before": {"id": 1}, "after": None, "op": "d"}).encode(), None]
    now = int(time.time() * 1000)
    send(s.broker, s.spec.topics.features, [Sent(value, now - 3_600_000, b"1") for value in gone])
    replay(s)
    send(s.broker, s.spec.topics.features, [Sent(value, now, b"1") for value in gone])
    learned(s, N + 4, first=2)


@pytest.mark.parametrize("silence", [False, True])
def test_an_update_of_a_row_brings_its_label(stream, silence):
    """What the row was at first is learned, and what was predicted then is scored, whatever else the update changes."""
    more = {"join": {"unlabelled": {"is": False, "after": "10s"}}, "classes": [False, True]} if silence else {}
    s = stream(
        **COMMON,
        features={"a": "numeric", "state": "nominal"},
        topics={"labels": None},
        record={"envelope": "debezium", "x": "", "y": "late"},
        **more,
    )
    rng, now = np.random.default_rng(3), int(time.time() * 1000)
    a = rng.random(N)
    late = (a > 0.5) != (rng.random(N) < 0.1)

    def change(op, i, state, y):
        row = {"id": i, "a": a[i], "state": state, "late": y}
        return json.dumps({"before": None, "after": row, "op": op}).encode()

    for start in range(0, N, 50):  # the states of updates say what the label is
        at, part = now - (N - start) * 60_000, range(start, start + 50)
        send(s.broker, s.spec.topics.features, [Sent(change("c", i, "new", None), at, b"%d" % i) for i in part])
        send(
            s.broker,
            s.spec.topics.features,
            [Sent(change("u", i, str(late[i]), bool(late[i])), at + 30_000, b"%d" % i) for i in part],
        )
    learner = s.run(2 * N, 0)
    s.holds()
    counts = learner.pending.counts
    assert counts["repeated_ids"] == N
    if silence:  # it comes before the update does, which corrects what was late
        assert (counts["assumed"], counts["corrections"]) == (N, late.sum())
        return
    assert (counts["joined"], learner.pending.n_waiting) == (N, 0)
    at_first = {int(one["id"]): one["y"] for one in reversed(s.predictions())}
    right = [at_first[i] is not None and at_first[i] == late[i] for i in range(N)]
    metrics = learner.roles["champion"].metrics.metrics()
    assert metrics["accuracy"] == pytest.approx(np.mean(right))
    assert 0.7 < metrics["accuracy"] < 0.95
    found = asyncio.run(explained(s.spec, s.connection, "120"))
    assert found["why"]["features"]["state"] == "new"
    assert found["label"]["y"] == str(late[120]).lower()
    assert found["label"]["offset"] > found["offset"]
