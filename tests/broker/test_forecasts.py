"""One topic of sensors on real Kafka, without labels: forecasts of two partitions, through a kill, audited equal."""

import json
import random

import pytest

from tests.broker.clients import Sent

pytestmark = pytest.mark.broker

START, AHEAD = 1_700_000_000_000, 2_000  # ms
FIELDS = {
    "task": "regression",
    "partitions": 2,
    "record": {"id": "@offset"},
    "features": {"t": "numeric", "mean": {"mean": "label", "by": "sensor"}},
    "keys": {"sensor": {"from": "@key", "max": 100}},
    "label": {"of": "t", "ahead": "2s", "by": "sensor"},
    "champion": "fimt-dd",
    "challengers": {"last": "last-label"},
    "join": {"horizon": "6s"},
}


def readings(n, partition):
    """Records of four sensors, one of which is away for a while; and how many have a label in the stream."""
    draws, now, values, sent = random.Random(partition), START, dict.fromkeys(range(4), 20.0), []
    for i in range(n):
        now += draws.choice([0, 1, 40])
        sensor = draws.randrange(4)
        if sensor == 3 and n // 3 < i < 2 * n // 3:
            continue
        values[sensor] += draws.gauss(0, 1)
        record = {"x": {"t": round(values[sensor], 2)}}
        sent.append(Sent(json.dumps(record).encode(), now, b"sensor-%d" % (2 * sensor + partition)))
    labelled = sum(
        any(later.key == one.key and later.time - one.time >= AHEAD for later in sent[i:]) for i, one in enumerate(sent)
    )
    return sent, labelled


@pytest.mark.parametrize("learning", ["partition", "shared"])
def test_forecasts_of_one_topic_are_learned_once_through_a_kill(stream, learning):
    s = stream(**FIELDS, learning=learning)
    given = [readings(1500, partition) for partition in range(2)]
    for partition, (sent, _) in enumerate(given):
        s.give((sent, []), partition=partition)
    with s.worker() as worker:
        s.predicted(400, worker)
        worker.kill()
    with s.worker() as worker:
        learners = [s.reach(len(sent), 0, worker, partition) for partition, (sent, _) in enumerate(given)]
        worker.kill()
    for partition, (learner, (sent, labelled)) in enumerate(zip(learners, given, strict=True)):
        s.check(learner)
        s.holds(partition)
        counts = learner.pending.counts
        assert counts["joined"] == labelled - counts["expired"] > 1000
        assert counts["expired"] > 0
        assert [one["id"] for one in s.predictions(partition)] == [f"{partition}@{i}" for i in range(len(sent))]
    assert not s.letters()
