"""Chargebacks alone on real Kafka: what has no label is learned as ok, through a kill, and audited equal."""

import json
import random

import pytest

from tests.broker.clients import Sent

pytestmark = pytest.mark.broker

START, HORIZON, AFTER = 1_700_000_000_000, 9_000, 3_000  # ms
FIELDS = {
    "classes": ["ok", "fraud"],
    "keys": {"terminal": {"max": 1000}},
    "features": {"amount": "numeric", "risk": {"share": "fraud", "by": "terminal", "half_life": "4s"}},
    "champion": {"model": "hoeffding-tree", "grace_period": 50},
    "challengers": {},
    "join": {"horizon": "9s", "unlabelled": {"is": "ok", "after": "3s"}},
    "predictions": {"calibrated": "matured"},
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
    shifts = learner.servings["champion"].shift.state().shifts
    assert abs(shifts).max() > 0.01
    counts = learner.pending.counts
    assert counts["joined"] == learner.roles["champion"].metrics.metrics()["n"] or learning == "shared"
    assert counts["assumed"] > n / 2
    assert min(counts["corrections"], counts["null_labels"]) > 10
    assert not counts["expired"]


@pytest.mark.parametrize("unlabelled", [None, {"after": "30m"}])
def test_check_says_which_labels_come_first_by_what_the_topics_hold(stream, unlabelled):
    n, classes = 6000, ("ok", "fraud")
    fields = {"classes": classes, "features": {"a": "numeric"}, "champion": "majority-class"}
    s = stream(**fields, join={"horizon": "2h", "unlabelled": unlabelled})
    features = [Sent(json.dumps({"id": str(i), "x": {"a": i}}).encode(), START + 1000 * i, b"k") for i in range(n)]
    late = [(START + 1000 * i + (60_000 if i % 10 else 1_500_000), i) for i in range(n)]
    labels = [Sent(json.dumps({"id": str(i), "y": classes[i % 10 > 0]}).encode(), at, b"k") for at, i in sorted(late)]
    labels[10:10] = [Sent(b"no label", labels[10].time, b"k"), Sent(b'{"id": "1", "y": null}', START, b"k")]
    s.give((features, labels))
    shown = s.riparian("check")
    said = "warning: labels of fraud come 24m before those of ok, on average, and predictions name fraud too often"
    assert (said in shown, "after: 25m}} in the stream file" in shown) == (unlabelled is None,) * 2


def test_check_says_that_labels_are_of_one_class_alone(stream):
    s, n = stream(classes=["ok", "fraud"], features={"a": "numeric"}, champion="majority-class"), 3000
    features = [Sent(json.dumps({"id": str(i), "x": {"a": i}}).encode(), START + 1000 * i, b"k") for i in range(n)]
    y = [(START + 1000 * i + 500, {"id": str(i), "y": "fraud"}) for i in range(0, n, 25)]
    s.give((features, [Sent(json.dumps(label).encode(), at, b"k") for at, label in y]))
    shown = s.riparian("check")
    assert "warning: all of 120 labels are fraud, and 2,8" in shown
    assert "join: {unlabelled: {is: CLASS, after: 14d}}" in shown
