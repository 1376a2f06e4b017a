"""What a real worker serves at /metrics and /health, and what `riparian inspect` reads behind its back."""

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from itertools import pairwise
from operator import le
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.kafka.connection import Connection
from app.kafka.ports import free_port
from app.state import changelog, loading
from app.stream_file.spec import Spec
from app.worker import measures as names
from tests.broker.harness import (
    PATIENCE,
    Sent,
    Worker,
    create_topics,
    instances,
    read,
    send,
    stream_file,
    wait_for_state,
)
from tests.broker.test_control import riparian
from tests.processes import until
from topics.names import changelog_topic

pytestmark = pytest.mark.broker


class Page:
    """A worker's web server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            assert answer.status == 200
            text: str = answer.read().decode()
            return text

    def values(self, name: str, **labels: str) -> list[float]:
        families = text_string_to_metric_families(self.get("/metrics"))
        samples = [sample for family in families for sample in family.samples]
        return [s.value for s in samples if s.name == name and labels.items() <= s.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        """One sample, once the worker has it: a counter of a model appears with the first page after its first step."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.values(name, **labels)):
            assert time.monotonic() < deadline, f"{name} {labels} is not on the page"
            time.sleep(0.1)
        return found[0]

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/health"))
        return found

    def wait_for_partitions(self, n: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                last: object = (found := self.health())
                if len(found["partitions"]) == n:
                    return
            except OSError as error:
                last = error
            assert time.monotonic() < deadline, last
            time.sleep(0.1)

    def wait_for(self, name: str, expected: list[float], **labels: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (found := self.values(name, **labels)) != expected:
            assert time.monotonic() < deadline, f"{name} {labels} is {found}, not {expected}"
            time.sleep(0.1)


def inspect(path: Path, broker: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", "inspect", str(path), "--broker", broker, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.fixture
def stream(broker: str, tmp_path: Path, topic_name: str) -> tuple[Path, Spec]:
    path, spec = stream_file(tmp_path, topic_name, partitions=2, learning="partition", metrics={"every": "200ms"})
    create_topics(spec, broker)
    return path, spec


def test_a_worker_shows_what_it_did(broker: str, tmp_path: Path, stream: tuple[Path, Spec]) -> None:
    path, spec = stream
    assert "no state in partition 0 yet" in inspect(path, broker).stderr
    page = Page(free_port())
    features, labels = instances(500, delay=5)
    with Worker(path, broker, tmp_path, web_port=page.port) as worker:
        page.wait_for_partitions(2)
        assert page.values(names.INSTANCES) == [0, 0]
        for path_of_faust in ("/router/nope/", "/table/", "/table/state/"):  # they ask any address that a member names
            with pytest.raises(urllib.error.HTTPError, match="404"):
                page.get(path_of_faust)
        bad = [Sent(b"not json", features[-1].time), Sent(b"", features[-1].time)]
        send(broker, spec.topics.features, [*features, *bad], partition=1)
        assert spec.topics.labels is not None
        send(broker, spec.topics.labels, labels[:400], partition=1)
        learner = wait_for_state(broker, spec, 502, 400, partition=1, worker=worker)
        here = {"stream": spec.name, "partition": "1"}
        page.wait_for(names.SCORED, [400.0], model="champion", **here)
        assert page.values(names.INSTANCES, **here) == [500]
        assert page.values(names.INSTANCES, partition="0") == [0]
        assert page.values(names.LABELS, **here) == [400]
        assert page.values(names.WAITING, **here) == [100]
        assert page.values(names.REJECTED, reason="not-json", **here) == [1]
        assert page.values(names.REJECTED, reason="empty", **here) == [1]
        accuracy = learner.roles["champion"].metrics.metrics()["accuracy"]
        page.wait_for("riparian_accuracy_ratio", [accuracy], model="champion", scope="overall", **here)
        assert page.values(names.WAITED + "_count", **here) == [400]
        assert page.values(names.LATENCY + "_count", **here) == [500]
        page.wait_for(names.LAG, [0.0], topic=spec.topics.features, **here)
        page.wait_for(names.LAG, [0.0], topic=spec.topics.labels, **here)
        assert page.value(names.CHECKPOINT + "_count", **here) >= 1
        page.wait_for(names.CHECKPOINT_AGE, [0.0], **here)
        assert page.values(names.NODES, model="champion", **here) == [learner.roles["champion"].model.size()["n_nodes"]]
        assert page.value("process_resident_memory_bytes") > 0
        assert page.health()["partitions"]["1"]["offset"] == 502
        assert page.health()["status"] == "ok"
        assert json.loads(page.get("/ready")) == {"status": "ok"}

        # The state, read by somebody else while the worker runs.
        shown = inspect(path, broker, "--partition", "1", "--format", "json")
        found = json.loads(shown.stdout)
        assert (found["offset"], found["label_offset"], found["waiting"]) == (502, 400, 100)
        assert found["metrics"] == learner.roles["champion"].metrics.metrics()
        assert len(found["nodes"]) == found["n_nodes"]
        assert "champion is a hoeffding-tree" in inspect(path, broker, "--partition", "1").stdout
        assert inspect(path, broker, "--partition", "1", "--format", "dot").stdout.startswith("digraph")
        assert worker.stop() == 0
    state = loading.load(spec, Connection(broker), 1)
    assert state.learner.digest() == learner.digest()


def test_of_a_model_for_all_partitions_every_partition_is_told_of_and_nothing_twice(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    """Partition 0 rests from the kill on; it tells the model's scores all the same."""
    path, spec = stream_file(tmp_path, topic_name, partitions=3, metrics={"every": "200ms"}, challengers={})
    create_topics(spec, broker)
    features, labels = instances(900, delay=5)
    page, sent = Page(free_port()), [(0, 40), (40, 240), (240, 900)]  # of each partition
    first = [(p, a, b if p == 0 else (a + b) // 2) for p, (a, b) in enumerate(sent)]
    rest = [(p, m, b) for (p, _, m), (_, b) in zip(first, sent, strict=True)]

    def come(parts: list[tuple[int, int, int]]) -> None:
        for p, start, stop in parts:
            send(broker, spec.topics.features, features[start:stop], partition=p)
            send(broker, str(spec.topics.labels), labels[start:stop], partition=p)

    def last(p: int) -> dict[str, dict[str, Any]]:
        told = [json.loads(record.value) for record in read(broker, spec.topics.metrics, p)]
        models = [record for record in told if "model" in record]
        fields = ("offset", "label_offset", "learned_offset")
        places = [tuple(record.get(field, 0) for field in fields) for record in models]
        assert all(a != b and all(map(le, a, b)) for a, b in pairwise(places)), places
        return {record.get("kind", "model"): record for record in told}

    def scored(n: int) -> None:
        until(lambda: last(0).get("model", {}).get("n") == n or worker.process.poll() is not None)
        assert last(0)["model"]["n"] == n, worker.output[-3000:]

    with Worker(path, broker, tmp_path) as worker:
        come(first)
        scored(sum(b - a for _, a, b in first))
        worker.kill()
    with Worker(path, broker, tmp_path, web_port=page.port) as worker:
        send(broker, spec.topics.features, [Sent(b"not json", features[-1].time)], partition=2)
        come(rest)
        scored(900)
        counts = [b - a for a, b in sent]
        for p, n in enumerate(counts):
            until(lambda p=p, n=n: last(p)["partition"]["learned"] == n)
            model = last(p)["model"]
            assert model["counters"]["joined"] == n
            assert ("accuracy" in model["overall"], "size" in model, model["n"] > 0) == (p == 0,) * 3
            here = {"stream": spec.name, "partition": str(p)}
            page.wait_for(names.INSTANCES, [float(n)], **here)
            page.wait_for("riparian_joined_instances_total", [float(n)], **here)
            if p:  # all of partition 0 was predicted before any label had come
                page.wait_for(names.OBSERVED, [model["estimated"]["observed"]], model="champion", **here)
        assert last(2)["partition"]["rejected"] == {"not-json": 1}
        assert last(1)["partition"].get("rejected", {}) == {}
        page.wait_for(names.SCORED, [900.0], model="champion")
        page.wait_for("riparian_accuracy_ratio", [last(0)["model"]["overall"]["accuracy"]], scope="overall")
        shown = json.loads(riparian("lag", path, "--broker", broker, "--json"))
        assert [row["lag"] for row in shown["partitions"]] == [0] * 6
        assert worker.stop() == 0


def test_series_go_where_the_partition_goes(broker: str, tmp_path: Path, stream: tuple[Path, Spec]) -> None:
    path, spec = stream
    first, second = Page(free_port()), Page(free_port())
    for partition in (0, 1):
        send(broker, spec.topics.features, instances(50, start=partition * 100)[0], partition=partition)
    with Worker(path, broker, tmp_path, web_port=first.port, name="first") as one:
        first.wait_for_partitions(2)
        first.wait_for(names.INSTANCES, [50.0, 50.0])
        with Worker(path, broker, tmp_path, web_port=second.port, name="second") as two:
            second.wait_for_partitions(1)
            first.wait_for_partitions(1)
            partitions = [set(page.health()["partitions"]) for page in (first, second)]
            assert partitions in ([{"0"}, {"1"}], [{"1"}, {"0"}])
            for page, mine in zip((first, second), partitions, strict=True):
                # A count of the stream goes on where it was.
                assert page.values(names.INSTANCES) == [50]
                assert page.values(names.INSTANCES, partition=next(iter(mine))) == [50]
            assert two.stop() == 0
        assert one.stop() == 0


def test_workers_that_are_not_told_a_port_take_the_next_one(
    broker: str, tmp_path: Path, stream: tuple[Path, Spec]
) -> None:
    path, spec = stream

    def port_of(worker: Worker) -> int:
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(r"metrics at http://127.0.0.1:(\d+)/metrics", worker.output)) is None:
            assert worker.process.poll() is None, worker.output
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return int(found[1])

    with (
        Worker(path, broker, tmp_path, web_port=None, name="first") as one,
        Worker(path, broker, tmp_path, web_port=None, name="second") as two,
    ):
        first, second = port_of(one), port_of(two)
        assert first != second
        for port in (first, second):
            page = Page(port)
            page.wait_for_partitions(1)
            assert page.health()["stream"] == spec.name
        with Worker(path, broker, tmp_path, web_port=first, name="third") as third:
            assert third.process.wait(PATIENCE) == 2
            assert third.output.splitlines()[-1].startswith(f"riparian: port {first} of 127.0.0.1 is in use")
            assert "Traceback" not in third.output
        assert one.stop() == two.stop() == 0
        assert "rebalancing" not in one.output + two.output


def test_a_changelog_that_is_not_there_is_empty(broker: str, topic_name: str) -> None:
    topic = changelog_topic(topic_name)
    assert asyncio.run(changelog.read(Connection(broker), topic, 0)).items == {}
