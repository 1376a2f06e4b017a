"""A stream file that was changed between two workers: what goes on, and what is refused."""

import asyncio
import subprocess
import sys

import pytest

from app.errors import StateError
from app.kafka.connection import Connection
from app.state.audit import audit
from tests.broker.harness import (
    PATIENCE,
    ROOT,
    Worker,
    create_topics,
    instances,
    predictions,
    send,
    stored,
    stream_file,
    wait_for_state,
)

pytestmark = pytest.mark.broker


def check(broker, path, code=0):
    """`riparian check`: what it prints, or with `code` 2 its sentence."""
    command = [sys.executable, "-m", "app.cli", "check", str(path), "--broker", broker]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def test_a_challenger_is_added_and_another_becomes_champion(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    n = 2000
    features, labels = instances(2 * n, delay=50)
    send(broker, spec.topics.features, features[:n])
    send(broker, spec.topics.labels, labels[: n - 100])
    with Worker(path, broker, tmp_path) as worker:
        before = wait_for_state(broker, spec, n, n - 100, worker=worker)
        assert worker.stop() == 0
    n_scored = {name: role.metrics.metrics()["n"] for name, role in before.roles.items()}
    assert set(n_scored.values()) == {n - 100}
    report = asyncio.run(audit(spec, Connection(broker), 0))
    assert report is not None
    assert report.holds
    at = report.checkpoints[-1].sequence

    tree = {"model": "hoeffding-tree", "grace_period": 50}
    path, changed = stream_file(
        tmp_path, topic_name, champion="naive-bayes", challengers={"tree": tree, "most": "majority-class"}
    )
    shown = check(broker, path)
    assert f"state of partition 0, checkpoint {at:,}: goes on\n" in shown
    assert "  restarted: challengers.most (majority-class) is new and starts afresh\n" in shown
    send(broker, spec.topics.features, features[n:])
    send(broker, spec.topics.labels, labels[n - 100 :])
    with Worker(path, broker, tmp_path) as worker:
        learner = wait_for_state(broker, changed, 2 * n, 2 * n, worker=worker)
        assert worker.stop() == 0
        for sentence in (
            "partition 0: champion is naive-bayes and goes on with state and metrics of challengers.nb",
            "partition 0: challengers.tree is hoeffding-tree (grace_period 50, ",
            "partition 0: challengers.most (majority-class) is new and starts afresh",
            "partition 0: what challengers.last (last-label) has learned is dropped",
        ):
            assert sentence in worker.output
    sent = predictions(broker, spec)
    assert [one["offset"] for one in sent] == list(range(2 * n))
    assert {one["model"] for one in sent[:n]} == {"hoeffding-tree"}
    assert {one["model"] for one in sent[n:]} == {"naive-bayes"}
    counted = {name: role.metrics.metrics()["n"] for name, role in learner.roles.items()}
    assert counted == {"champion": 2 * n, "tree": 2 * n, "most": n}  # not of the 100 that waited
    assert learner.origin == [n, n - 100, 1]

    # The proof begins where the stream file was changed, and reaches back to there.
    with pytest.raises(
        StateError, match=rf"does not follow from its records from the beginning on: .*at offset {n:,} .*--from {at}"
    ):
        asyncio.run(audit(changed, Connection(broker), 0))
    report = asyncio.run(audit(changed, Connection(broker), 0, start=at))
    assert report is not None
    assert report.holds, report
    assert report.n_predictions == n
    assert report.checkpoints[-1].digest == learner.digest()
    # Before that, it is the stream file of then that it holds for.
    report = asyncio.run(audit(spec, Connection(broker), 0, until=at))
    assert report is not None
    assert report.holds
    assert report.n_predictions == n


def test_what_is_refused_ends_the_worker_with_a_sentence_and_changes_nothing(broker, tmp_path, topic_name):
    path, spec = stream_file(tmp_path, topic_name)
    create_topics(spec, broker)
    features, labels = instances(200)
    send(broker, spec.topics.features, features)
    send(broker, spec.topics.labels, labels)
    with Worker(path, broker, tmp_path) as worker:
        before = wait_for_state(broker, spec, 200, 200, worker=worker).digest()
        assert worker.stop() == 0
    assert "goes on as it is" in check(broker, path)
    other = f"{topic_name}.other"
    for change, sentence in (
        ({"features": {"a": "numeric", "z": "numeric", "c": {"type": "nominal"}}}, "b is gone; z is new"),
        (
            {"champion": {"model": "hoeffding-tree", "grace_period": 51}},
            "champion was hoeffding-tree (grace_period 50)",
        ),
        ({"topics": {"labels": other}}, f"topics.labels was {spec.topics.labels}, is {other}"),
    ):
        path, _ = stream_file(tmp_path, topic_name, **change)
        assert sentence in check(broker, path, code=2)
        with Worker(path, broker, tmp_path) as worker:
            assert worker.process.wait(90) == 2, worker.output
            assert sentence in worker.output.strip().splitlines()[-1]
    learner = stored(broker, spec)
    assert learner is not None
    assert learner.digest() == before
