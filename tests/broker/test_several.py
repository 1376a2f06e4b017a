"""Several streams in one worker: each as in a worker of its own, and one end for all."""

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.kafka.ports import free_port
from app.stream_file.spec import Spec
from tests.broker.harness import (
    PATIENCE,
    Worker,
    check_against_oracle,
    create_topics,
    instances,
    predictions,
    read,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.test_metrics_page import Page

pytestmark = pytest.mark.broker

REGRESSION: dict[str, Any] = {
    "task": "regression",
    "features": {"a": "numeric", "b": "numeric"},
    "champion": {"model": "fimt-dd", "grace_period": 50},
    "challengers": {"last": "last-label"},
}


KINDS: dict[str, dict[str, Any]] = {"classes": {}, "numbers": REGRESSION}
LONG = 60.0  # a session that no test waits for


def _streams(broker: str, folder: Path, name: str, *ends: str) -> tuple[dict[str, Path], dict[str, Spec]]:
    """Streams of two tasks, for each end of a name: all read one topic of features, those of a task one of labels."""
    paths, specs = {}, {}
    for kind, fields in KINDS.items():
        for end in ends:
            topics = {"features": f"{name}.shared", "labels": f"{name}.{kind}"}
            paths[kind + end], specs[kind + end] = stream_file(folder, f"{name}-{kind}{end}", topics=topics, **fields)
            create_topics(specs[kind + end], broker)
    return paths, specs


def _send(broker: str, specs: dict[str, Spec], first: int, last: int) -> None:
    features, classes = instances(last)
    numbers = []
    for i, label in enumerate(classes):
        found = json.loads(label.value or b"")
        y = (3.0 if found["y"] == "yes" else -1.0) + i % 7 / 10
        numbers.append(label._replace(value=json.dumps({"id": found["id"], "y": y}).encode()))
    send(broker, specs["classes"].topics.features, features[first:last])
    for kind, labels in (("classes", classes), ("numbers", numbers)):
        send(broker, specs[kind].topics.labels or "", labels[first:last])


def test_two_streams_in_a_worker_do_what_two_workers_do(broker: str, tmp_path: Path, topic_name: str) -> None:
    """Killed in the middle, and then joined by the streams of the two workers, which shall have done the same."""
    paths, specs = _streams(broker, tmp_path, topic_name, "", "-alone")
    _send(broker, specs, 0, 600)  # before anybody reads, so that time stamps alone say the order
    page = Page(free_port())
    placed: dict[str, Any] = {"session_timeout": LONG, "web_port": page.port}
    id_ = ("--instance-id", "place-0")
    with (
        Worker(paths["classes"], broker, tmp_path, name="both", options=(paths["numbers"], *id_), **placed) as both,
        Worker(paths["classes-alone"], broker, tmp_path, name="c") as one,
        Worker(paths["numbers-alone"], broker, tmp_path, name="n") as other,
    ):
        for kind in KINDS:
            wait_for_state(broker, specs[kind], 1, 1, worker=both)
        both.kill()
        for kind, worker in zip(KINDS, (one, other), strict=True):
            wait_for_state(broker, specs[f"{kind}-alone"], 600, 600, worker=worker)
            assert worker.stop() == 0, worker.output
    loaded = [line for line in both.output.splitlines() if "partition 0: checkpoint" in line]
    assert all(any(f"{specs[kind].name}: partition 0: " in line for line in loaded) for kind in KINDS), both.output

    options = (*list(paths.values())[1:], *id_, "--log-format", "json")
    with Worker(paths["classes"], broker, tmp_path, name="all", options=options, **placed) as worker:
        for kind in KINDS:
            wait_for_state(broker, specs[kind], 600, 600, worker=worker)
        _send(broker, specs, 600, 900)
        learners = {key: wait_for_state(broker, spec, 900, 900, worker=worker) for key, spec in specs.items()}
        for spec in specs.values():
            page.wait_for("riparian_instances_total", [900.0], stream=spec.name)
            assert page.health()["streams"][spec.name]["partitions"]["0"]["offset"] == 900
        assert page.health()["status"] == "ok"
        assert json.loads(page.get("/ready")) == {"status": "ok"}
        text = page.get("/metrics")
        assert text.count("# TYPE riparian_instances_total ") == text.count("# TYPE riparian_build_info ") == 1
        series = [line for line in text.splitlines() if line.startswith(("riparian_", "faust_"))]
        assert [line.split("{")[0] for line in series if "stream=" not in line] == ["riparian_build_info"]
        worker.process.send_signal(signal.SIGINT)
        assert worker.process.wait(PATIENCE) == 0, worker.output
    lines = [json.loads(line) for line in worker.output.splitlines()]  # Faust's, too, and no traceback
    loaded = [line["stream"] for line in lines if line["message"].startswith("partition 0: checkpoint")]
    assert sorted(loaded) == sorted(spec.name for spec in specs.values())
    for key, spec in specs.items():
        check_against_oracle(broker, spec, learners[key])
    for kind in KINDS:
        assert predictions(broker, specs[kind])[:600] == predictions(broker, specs[f"{kind}-alone"])[:600]


def test_a_stream_whose_topics_are_wrong_stops_the_worker_with_its_sentence(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    paths, specs = _streams(broker, tmp_path, topic_name, "")
    topics = {"features": f"{topic_name}.shared"}
    wrong, _ = stream_file(tmp_path, f"{topic_name}-wrong", topics=topics, partitions=2)
    page = Page(free_port())
    with Worker(paths["classes"], broker, tmp_path, web_port=page.port, options=(wrong,)) as worker:
        assert worker.process.wait(PATIENCE) == 2
        (said,) = [line for line in worker.output.splitlines() if line.startswith("riparian: ")]
        assert said.startswith(f"riparian: {wrong}: ")
        assert "partitions" in said
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{page.port}/health", timeout=5)
    assert read(broker, specs["classes"].topics.predictions) == []


def test_a_stream_that_another_worker_takes_over_ends_the_worker_by_its_name(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    """An error while it runs: the other streams are handed over, too, and their last checkpoint is written."""
    paths, specs = _streams(broker, tmp_path, topic_name, "")
    page, id_ = Page(free_port()), ("--instance-id", "place-0")
    options = (paths["numbers"], *id_)
    with Worker(paths["classes"], broker, tmp_path, name="both", web_port=page.port, options=options) as both:
        _send(broker, specs, 0, 100)
        for spec in specs.values():
            wait_for_state(broker, spec, 100, 100, worker=both)
        with Worker(paths["numbers"], broker, tmp_path, name="n", options=id_) as other:
            assert both.process.wait(PATIENCE) == 2
            last = both.output.splitlines()[-1]
            assert last.startswith(f"riparian: {paths['numbers']}: another worker has joined the group")
            _send(broker, specs, 100, 200)
            learner = wait_for_state(broker, specs["numbers"], 200, 200, worker=other)
            assert other.stop() == 0, other.output
    check_against_oracle(broker, specs["numbers"], learner)
    classes = specs["classes"]
    seen = [read(broker, topic)[:100] for topic in (classes.topics.features, classes.topics.labels or "")]
    check_against_oracle(broker, classes, wait_for_state(broker, classes, 100, 100), *seen)
