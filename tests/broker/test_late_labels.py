"""Chargebacks alone on real Kafka: what has no label is learned as ok, through a kill, and audited equal."""

import json
import random

import pytest

from tests.broker.harness import Sent

pytestmark = pytest.mark.broker

START, HORIZON, AFTER = 1_700_000_000_000, 9_000, 3_000  # ms
FIELDS = {
    "classes": ["ok", "fraud"],
    "keys": {"terminal": {"max": 1000}},
    "features": {"amount": "numeric", "risk": {"share": "fraud", "by": "terminal", "half_life": "4s"}},
    "champion": {"model": "hoeffding-tree", "grace_period": 50},
    "challengers": {},
    "join": {"horizon": "9s", "unlabelled": {"is": "ok", "after": "3s"}},
}


def payments(n):
    """Rows of amount, terminal, time and class; and of each the label record that comes for it, with its delay: none of
    what is ok, null of what was blocked."""
    draws, now, rows, labels = random.Random(3), START, [], []
    for i in range(n):
        now += draws.choice([0, 1, 5, 20])
        terminal = f"t{draws.randrange(30)}"
        fraud = (terminal in ("t1", "t2", "t3")) != (draws.random() < 0.03)
        rows.append((round(draws.lognormvariate(3, 1), 2), terminal, now, "fraud" if fraud else "ok"))
        blocked = fraud and draws.random() < 0.1
        if fraud:
            delay = draws.randrange(HORIZON)
            labels.append((now + delay, {"id": str(i), "y": None if blocked else "fraud"}))
    return rows, sorted(labels, key=lambda one: one[0])


@pytest.mark.parametrize("learning", ["partition", "shared"])
def test_what_has_no_chargeback_is_learned_as_ok_through_a_kill(stream, learning):
    n = 3000
    rows, late = payments(n)
    fields = FIELDS if learning == "partition" else {**FIELDS, "keys": {}, "features": {"amount": "numeric"}}
    s = stream(**fields, learning=learning)
    features = [
        Sent(json.dumps({"id": str(i), "x": {"amount": a, "terminal": t}}).encode(), at, b"k")
        for i, (a, t, at, _) in enumerate(rows)
    ]
    s.give((features, [Sent(json.dumps(label).encode(), at, b"k") for at, label in late]))
    for n_sent in (500, 1500):
        with s.worker() as worker:
            s.predicted(n_sent, worker)
            worker.kill()
    with s.worker() as worker:
        learner = s.reach(n, len(late), worker)
        worker.kill()
    s.check(learner)
    s.holds()
    counts = learner.pending.counts
    assert counts["joined"] == learner.roles["champion"].metrics.metrics()["n"] or learning == "shared"
    assert counts["assumed"] > n / 2
    assert min(counts["corrections"], counts["null_labels"]) > 10
    assert not counts["expired"]
