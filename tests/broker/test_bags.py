"""Bags of instances through a worker on real Kafka: late labels, kills, records that are no bags."""

import json
import time

import numpy as np
import pytest

from riparian.app.partition.learner import PartitionLearner
from tests.broker.clients import Sent

pytestmark = pytest.mark.broker

N = 1500
FIELDS = {
    "task": "multi-instance",
    "classes": ["no", "yes"],
    "features": {"a": "numeric", "b": "numeric", "c": {"type": "nominal", "values": ["x", "y", "z"]}},
    "record": {"max_instances": 4},
    "champion": {"model": "miti", "window": 200, "refit_every": 50},
    "challengers": {
        "qdd": {"model": "quick-diverse-density", "window": 100, "refit_every": 100, "max_steps": 20},
        "sgt": {"model": "stochastic-gradient-tree", "warm_up": 200},
        "last": "last-label",
    },
}
POISON = {
    "empty-bag": b'{"id": "1", "x": []}',
    "too-many-instances": b'{"id": "1", "x": [{}, {}, {}, {}, {}]}',
    "missing-x": b'{"id": "1"}',
    "wrong-type": b'{"id": "1", "x": {"a": 1}}',
    "unknown-value": b'{"id": "1", "x": [{"c": "x"}, {"c": "w"}]}',
}


def bags(delay):
    """Features and labels of bags: a positive one has an instance with a large a that is no x."""
    rng = np.random.default_rng(3)
    now = int(time.time() * 1000) - 3_600_000
    features, labels = [], []
    for i in range(N):
        instances = [
            {"a": round(float(rng.random()), 4), "b": round(float(rng.random()), 4), "c": "xyz"[rng.integers(3)]}
            for _ in range(1 + rng.integers(4))
        ]
        y = any(x["a"] > 0.7 and x["c"] != "x" for x in instances)
        id_ = f"{i:05d}"
        features.append(Sent(json.dumps({"id": id_, "x": instances}).encode(), now + i, id_.encode()))
        label = json.dumps({"id": id_, "y": "yes" if y else "no"}).encode()
        labels.append(Sent(label, now + i + delay, id_.encode()))
    for i, poison in enumerate(POISON.values()):
        at = 200 * (i + 1)
        features.insert(at, features[at]._replace(value=poison))
    return features, labels


def test_bags_are_predicted_and_learned_once_through_kills(stream):
    s = stream(**FIELDS)
    PartitionLearner(s.spec).warm_up()  # compiled here, and not while somebody waits for the worker
    rows = bags(delay=60)
    half = N // 2
    s.give(rows, 0, half)
    with s.worker(place="w") as worker:
        s.reach(half // 2, half // 4, worker)
        worker.kill()
    with s.worker(place="w") as worker:
        s.reach(half, half // 2, worker)
        with s.giving(rows, half, pause=0.1, chunk=50):
            s.reach(half + 200, half, worker)
            worker.kill()
    with s.worker(place="w") as worker:
        learner = s.reach(len(rows[0]), N, worker)
        worker.kill()
    assert s.check(learner).pending.counts["joined"] == N
    assert len(s.predictions()) == N
    assert learner.roles["champion"].metrics.metrics()["accuracy"] > 0.8
    assert learner.roles["sgt"].model.size()["n_nodes"] > 0
    assert [one["riparian-reason"] for one in s.letters()] == list(POISON)
    s.holds()
