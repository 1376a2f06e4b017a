"""Decisions on a real Kafka: thresholds, calibration and sets of classes go on through kills, and what was said can be
proved and explained."""

import asyncio
import json

import pytest

from riparian.app.page.predictions import explained
from tests.broker.harness import instances
from tests.processes import until

pytestmark = pytest.mark.broker
N = 3000


def measured(s, n):
    """What was said of the champion after n labels."""
    told = (json.loads(record.value) for record in s.read("metrics"))
    return [record for record in told if record.get("model") == "champion" and record["overall"]["n"] == n]


def test_thresholds_go_on_through_kills_and_hold_in_an_audit(stream):
    s = stream(
        decision={"class": "yes", "alert_rate": 0.25}, class_weights={"yes": 2},
        predictions={"challengers": True, "calibrated": True, "coverage": 0.9}, metrics={"every": "200ms"},
    )  # fmt: skip
    rows = instances(N, delay=40)
    for start, known in ((0, 400), (1500, N)):  # the first one is killed in the middle of its records
        with s.worker(place="w") as worker:
            s.give(rows, start, start + 1500)
            learner = s.reach(known, known - 100 if known < N else N, worker)
            if known == N:
                until(lambda: measured(s, N))
            worker.kill()
    s.check(learner)
    s.holds()
    sent = s.predictions()
    assert sum(one["y"] == "yes" for one in sent[1000:]) / (N - 1000) == pytest.approx(0.25, abs=0.03)
    others = [i for i, one in enumerate(sent) if one["p"] and one["y"] != max(one["p"], key=one["p"].get)]
    assert len(others) > N / 20
    one = sent[others[-1]]
    found = asyncio.run(explained(s.spec, s.connection, one["id"]))
    assert found["said"][0]["y"] == one["y"]
    last = measured(s, N)[-1]
    assert all(one["set"] is None or one["set"] for one in sent)
    assert last["overall"]["coverage"] > 0.87  # the rows are easy: one class alone holds more
    assert 1.0 <= last["overall"]["set_size"] < 2.0
    assert 0.0 < last["window"]["threshold"] < 1.0
    assert set(last["classes"]) == {"yes", "no"}


def test_costs_by_amount_are_those_of_an_offline_fold(stream):
    n, decision = 600, {"costs": {"yes": {"no": "b"}, "no": {"yes": 0.2}}}
    s = stream(decision=decision, predictions={"challengers": True}, metrics={"every": "200ms"})
    rows = instances(n, delay=20)
    with s.worker() as worker:
        s.give(rows)
        learner = s.reach(n, n, worker)
        until(lambda: measured(s, n))
        worker.kill()
    s.check(learner)
    s.holds()
    amounts, labels = ({json.loads(one.value)["id"]: json.loads(one.value) for one in part} for part in rows)
    paid, seldom = [], 0
    for one in s.predictions():
        y, b = labels[one["id"]]["y"], amounts[one["id"]]["x"]["b"]
        paid.append(0.0 if one["y"] == y else max(1.0, b) if one["y"] is None else b if y == "yes" else 0.2)
        seldom += bool(one["p"]) and one["y"] != max(one["p"], key=one["p"].get)
    assert seldom > 0
    told = measured(s, n)[-1]["overall"]["cost"]
    assert told == pytest.approx(learner.figures().overall["champion"]["cost"]) == pytest.approx(sum(paid) / n)
