"""Several streams in one worker: each as in a worker of its own, and one end for all."""

import json
import signal
import urllib.error
from typing import Any

import pytest

from tests.broker.clients import send
from tests.broker.harness import PATIENCE, Page, Stream, instances

pytestmark = pytest.mark.broker

REGRESSION: dict[str, Any] = {
    "task": "regression",
    "features": {"a": "numeric", "b": "numeric"},
    "champion": {"model": "fimt-dd", "grace_period": 50},
    "challengers": {"last": "last-label"},
}


KINDS: dict[str, dict[str, Any]] = {"classes": {}, "numbers": REGRESSION}
LONG = 60.0  # a session that no test waits for


def made(stream: Any, *ends: str) -> dict[str, Stream]:
    """Streams of two tasks, for each end of a name: all read one topic of features, those of a task one of labels."""
    broker, folder, name = stream.args
    return {
        kind + end: Stream(
            broker,
            folder,
            f"{name}-{kind}{end}",
            topics={"features": f"{name}.shared", "labels": f"{name}.{kind}"},
            **fields,
        )
        for kind, fields in KINDS.items()
        for end in ends
    }


def give(streams: dict[str, Stream], first: int, last: int) -> None:
    features, classes = instances(last)
    numbers = []
    for i, label in enumerate(classes):
        found = json.loads(label.value or b"")
        y = (3.0 if found["y"] == "yes" else -1.0) + i % 7 / 10
        numbers.append(label._replace(value=json.dumps({"id": found["id"], "y": y}).encode()))
    streams["classes"].give((features, classes), first, last)
    send(streams["numbers"].broker, str(streams["numbers"].spec.topics.labels), numbers[first:last])


def test_two_streams_in_a_worker_do_what_two_workers_do(stream: Any) -> None:
    """Killed in the middle, and then joined by the streams of the two workers, which shall have done the same."""
    streams = made(stream, "", "-alone")
    first, *others = streams.values()
    give(streams, 0, 600)  # before anybody reads, so that time stamps alone say the order
    page = Page()
    placed: dict[str, Any] = {"session_timeout": LONG, "web_port": page.port, "place": "place-0"}
    with (
        first.worker(name="both", options=(streams["numbers"].path,), **placed) as both,
        streams["classes-alone"].worker(name="c") as one,
        streams["numbers-alone"].worker(name="n") as other,
    ):
        for kind in KINDS:
            streams[kind].reach(1, worker=both)
        both.kill()
        for kind, worker in zip(KINDS, (one, other), strict=True):
            streams[f"{kind}-alone"].reach(600, worker=worker)
            assert worker.stop() == 0, worker.output
    loaded = [line for line in both.output.splitlines() if "partition 0: checkpoint" in line]
    assert all(any(f"{streams[kind].name}: partition 0: " in line for line in loaded) for kind in KINDS), both.output

    options = (*(s.path for s in others), "--log-format", "json")
    with first.worker(name="all", options=options, **placed) as worker:
        for kind in KINDS:
            streams[kind].reach(600, worker=worker)
        give(streams, 600, 900)
        learners = {key: s.reach(900, worker=worker) for key, s in streams.items()}
        for s in streams.values():
            page.wait_for("riparian_instances_total", [900.0], stream=s.name)
            assert page.health()["streams"][s.name]["partitions"]["0"]["offset"] == 900
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
    assert sorted(loaded) == sorted(s.name for s in streams.values())
    for key, s in streams.items():
        s.check(learners[key])
    for kind in KINDS:
        assert streams[kind].predictions()[:600] == streams[f"{kind}-alone"].predictions()[:600]


def test_a_stream_that_is_wrong_or_taken_over_ends_the_worker_by_its_name(stream: Any) -> None:
    """At the start nothing is predicted; while it runs, the other streams are handed over, too, and their last
    checkpoint is written."""
    streams = made(stream, "")
    classes, numbers = streams.values()
    topics = {"features": classes.spec.topics.features}
    wrong = Stream(
        classes.broker, classes.folder, f"{classes.name}-wrong", topics_made=False, topics=topics, partitions=2
    )
    page = Page()
    with classes.worker(web_port=page.port, options=(wrong.path,)) as worker:
        said = worker.sentence()
        assert said.startswith(f"riparian: {wrong.path}: ")
        assert "partitions" in said
        with pytest.raises(urllib.error.URLError):
            page.get("/health")
    assert classes.read("predictions") == []

    with classes.worker(name="both", place="place-0", options=(numbers.path,)) as both:
        give(streams, 0, 100)
        for s in (classes, numbers):
            s.reach(100, worker=both)
        with numbers.worker(name="n", place="place-0") as other:
            said = both.sentence()
            assert said.startswith(f"riparian: {numbers.path}: another worker has joined the group")
            give(streams, 100, 200)
            learner = numbers.reach(200, worker=other)
            assert other.stop() == 0, other.output
    numbers.check(learner)
    seen = [classes.read(role)[:100] for role in ("features", "labels")]
    classes.check(classes.reach(100), *seen)
