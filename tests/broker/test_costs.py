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
