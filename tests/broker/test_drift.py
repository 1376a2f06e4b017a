"""A concept that changes while a worker runs, and a worker that is killed while it does."""

import asyncio
import subprocess
import sys
import time
from collections import Counter

import pytest

from app.kafka.connection import Connection
from app.kafka.ports import free_port
from app.state.audit import audit
from app.worker import measures as names
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    drifts,
    stream_file,
    wait_for_state,
)
from tests.broker.test_metrics_page import Page, inspect

pytestmark = pytest.mark.broker

N, CHANGE = 4000, 1500
TREE = {"model": "hoeffding-tree", "grace_period": 50}


def test_a_change_of_concept_is_told_once_and_answered_though_the_worker_is_killed(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        features=dict.fromkeys(("x1", "x2"), "numeric"),
        champion=TREE,
        challengers={"again": {**TREE, "on_drift": "reset"}, "fresh": {**TREE, "on_drift": "replace"}},
        drift={"detectors": ["adwin", "ddm"], "window": 100},
        checkpoint={"every": "30s"},  # what the first worker has done is only in its outputs
    )
    create_topics(spec, broker)
    replay = [sys.executable, "-m", "app.cli", "replay", str(path), "--broker", broker, "--generate", "sine"]
    replay += ["-n", str(N), "--seed", "1", "--drift", str(CHANGE), "--to", "function=1"]
    replay += ["--label-delay", "5ms", "--rate", "700"]
    with Worker(path, broker, tmp_path) as worker, subprocess.Popen(replay) as sending:
        deadline = time.monotonic() + PATIENCE
        while not any(event.level == "drift" for event in drifts(broker, spec)):
            assert time.monotonic() < deadline, worker.output[-3000:]
            time.sleep(0.2)
        worker.kill()
        assert sending.wait(PATIENCE) == 0
    before = drifts(broker, spec)
    page = Page(free_port())
    with Worker(path, broker, tmp_path, web_port=page.port) as worker:
        page.wait_for_partitions(1)
        page.wait_for("riparian_joined_instances_total", [float(N)])
        counted = {role: sum(page.values(names.DRIFTS, model=role)) for role in spec.models()}
        assert page.value(names.REPLACEMENTS, model="again", action="reset") >= 1
        assert page.value(names.REPLACEMENTS, model="fresh", action="replaced") >= 1
        assert worker.stop() == 0
    learner = wait_for_state(broker, spec, N, N)
    check_against_oracle(broker, spec, learner)
    events = drifts(broker, spec)
    assert events[: len(before)] == before
    audited = asyncio.run(audit(spec, Connection(broker), 0))
    assert audited.holds
    assert audited.drift.n_compared == len(events)
    of_detectors = Counter(event.model for event in events if event.level is not None)
    assert counted == of_detectors
    alert = next(event for event in events if event.model == "champion" and event.level == "drift")
    assert alert.action == "alert"
    assert CHANGE <= alert.offset < CHANGE + 300
    assert alert.label_offset <= alert.offset
    assert alert.before < 0.2 < alert.after
    reset = next(event for event in events if event.action == "reset")
    assert (reset.model, reset.offset) == ("again", alert.offset)
    accuracy = {name: role.metrics.metrics()["accuracy"] for name, role in learner.roles.items()}
    assert accuracy["again"] > accuracy["champion"] + 0.1
    assert accuracy["fresh"] > accuracy["champion"] + 0.1
    shown = inspect(path, broker, "--model", "again").stdout
    assert "drift of the error: " in shown
    assert "× drift (ddm)" in shown
    assert "× reset" in shown


def test_a_shift_without_labels_is_told_once_though_the_worker_is_killed(broker, tmp_path, topic_name):
    path, spec = stream_file(
        tmp_path,
        topic_name,
        features=dict.fromkeys(("size", "colour", "shape"), "nominal"),
        champion=TREE,
        drift={"detectors": [], "distributions": {"window": 200}},
        checkpoint={"every": "30s"},
    )
    create_topics(spec, broker)
    replay = [sys.executable, "-m", "app.cli", "replay", str(path), "--broker", broker, "--generate", "stagger"]
    replay += ["-n", str(N), "--seed", "1", "--drift", str(CHANGE), "--to", "function=2"]
    replay += ["--label-delay", "5ms", "--rate", "700"]
    with Worker(path, broker, tmp_path) as worker, subprocess.Popen(replay) as sending:
        deadline = time.monotonic() + PATIENCE
        while not any(event.offset >= CHANGE for event in drifts(broker, spec)):
            assert time.monotonic() < deadline, worker.output[-3000:]
            time.sleep(0.2)
        worker.kill()
        assert sending.wait(PATIENCE) == 0
    before = drifts(broker, spec)
    page = Page(free_port())
    with Worker(path, broker, tmp_path, web_port=page.port) as worker:
        page.wait_for_partitions(1)
        page.wait_for("riparian_joined_instances_total", [float(N)])
        counted = page.value(names.DRIFTS, model="champion", signal="prediction", detector="two-sample", level="drift")
        assert 0.0 <= page.value(names.DISTANCE, model="", signal="size") < 0.3
        assert worker.stop() == 0
    learner = wait_for_state(broker, spec, N, N)
    check_against_oracle(broker, spec, learner)
    events = drifts(broker, spec)
    assert events[: len(before)] == before
    audited = asyncio.run(audit(spec, Connection(broker), 0))
    assert audited.holds
    assert audited.drift.n_compared == len(events)
    assert counted == sum(event.signal == "prediction" for event in events)
    told = next(event for event in events if event.offset >= CHANGE)
    assert (told.model, told.signal, told.shift.kind) == ("champion", "prediction", "values")
