"""What a real worker serves at /metrics and /health, and what `riparian inspect` reads behind its back."""

import asyncio
import json
import re
import urllib.error
from itertools import pairwise
from operator import le
from typing import Any

import pytest

from riparian.app.kafka.connection import Connection
from riparian.app.state import changelog, loading
from riparian.app.worker.exposition import metric_names as names
from riparian.topics.names import changelog_topic
from tests.broker.clients import Sent, send
from tests.broker.harness import Page, Worker, instances
from tests.processes import until

pytestmark = pytest.mark.broker

FIELDS: dict[str, Any] = {"partitions": 2, "learning": "partition", "metrics": {"every": "200ms"}}


def test_a_worker_shows_what_it_did(stream: Any) -> None:
    s = stream(**FIELDS)
    assert "no state in partition 0 yet" in s.riparian("inspect", code=2)
    page = Page()
    features, labels = instances(500, delay=5)
    with s.worker(web_port=page.port) as worker:
        page.wait_for_partitions(2)
        assert page.values(names.INSTANCES) == [0, 0]
        for path_of_faust in ("/router/nope/", "/table/", "/table/state/"):  # they ask any address that a member names
            with pytest.raises(urllib.error.HTTPError, match="404"):
                page.get(path_of_faust)
        bad = [Sent(b"not json", features[-1].time), Sent(b"", features[-1].time)]
        s.give(([*features, *bad], labels[:400]), partition=1)
        learner = s.reach(502, 400, worker, 1)
        here = {"stream": s.name, "partition": "1"}
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
        page.wait_for(names.LAG, [0.0], topic=s.spec.topics.features, **here)
        page.wait_for(names.LAG, [0.0], topic=s.spec.topics.labels, **here)
        assert page.value(names.CHECKPOINT + "_count", **here) >= 1
        page.wait_for(names.CHECKPOINT_AGE, [0.0], **here)
        assert page.values(names.NODES, model="champion", **here) == [learner.roles["champion"].model.size()["n_nodes"]]
        assert page.value("process_resident_memory_bytes") > 0
        assert page.health()["partitions"]["1"]["offset"] == 502
        assert page.health()["status"] == "ok"
        assert json.loads(page.get("/ready")) == {"status": "ok"}

        # The state, read by somebody else while the worker runs.
        found = json.loads(s.riparian("inspect", "--partition", 1, "--json"))
        assert (found["offset"], found["label_offset"], found["waiting"]) == (502, 400, 100)
        assert found["metrics"] == learner.roles["champion"].metrics.metrics()
        assert len(found["nodes"]) == found["n_nodes"]
        assert "champion is a hoeffding-tree" in s.riparian("inspect", "--partition", 1)
        assert s.riparian("inspect", "--partition", 1, "--dot").startswith("digraph")
        assert worker.stop() == 0
    assert loading.load(s.spec, s.connection, 1).learner.digest() == learner.digest()


def test_of_a_model_for_all_partitions_every_partition_is_told_of_and_nothing_twice(stream: Any) -> None:
    """Partition 0 rests from the kill on; it tells the model's scores all the same."""
    s = stream(partitions=3, metrics={"every": "200ms"}, challengers={})
    rows = instances(900, delay=5)
    page, sent = Page(), [(0, 40), (40, 240), (240, 900)]  # of each partition
    first = [(p, a, b if p == 0 else (a + b) // 2) for p, (a, b) in enumerate(sent)]
    rest = [(p, m, b) for (p, _, m), (_, b) in zip(first, sent, strict=True)]

    def last(p: int) -> dict[str, dict[str, Any]]:
        told = [json.loads(record.value) for record in s.read("metrics", p)]
        models = [record for record in told if "model" in record]
        fields = ("offset", "label_offset", "learned_offset")
        places = [tuple(record.get(field, 0) for field in fields) for record in models]
        assert all(a != b and all(map(le, a, b)) for a, b in pairwise(places)), places
        return {record.get("kind", "model"): record for record in told}

    def scored(n: int, worker: Worker) -> None:
        until(lambda: last(0).get("model", {}).get("n") == n or worker.process.poll() is not None)
        assert last(0)["model"]["n"] == n, worker.output[-3000:]

    with s.worker(place="w") as worker:
        for p, start, stop in first:
            s.give(rows, start, stop, partition=p)
        scored(sum(b - a for _, a, b in first), worker)
        worker.kill()
    with s.worker(place="w", web_port=page.port) as worker:
        send(s.broker, s.spec.topics.features, [Sent(b"not json", rows[0][-1].time)], partition=2)
        for p, start, stop in rest:
            s.give(rows, start, stop, partition=p)
        scored(900, worker)
        for p, n in enumerate(b - a for a, b in sent):
            until(lambda p=p, n=n: last(p)["partition"]["learned"] == n)
            model = last(p)["model"]
            assert model["counters"]["joined"] == n
            assert ("accuracy" in model["overall"], "size" in model, model["n"] > 0) == (p == 0,) * 3
            here = {"stream": s.name, "partition": str(p)}
            page.wait_for(names.INSTANCES, [float(n)], **here)
            page.wait_for("riparian_joined_instances_total", [float(n)], **here)
            if p:  # all of partition 0 was predicted before any label had come
                page.wait_for(names.OBSERVED, [model["estimated"]["observed"]], model="champion", **here)
        assert last(2)["partition"]["rejected"] == {"not-json": 1}
        assert last(1)["partition"].get("rejected", {}) == {}
        page.wait_for(names.SCORED, [900.0], model="champion")
        page.wait_for("riparian_accuracy_ratio", [last(0)["model"]["overall"]["accuracy"]], scope="overall")
        assert [row["lag"] for row in json.loads(s.riparian("lag", "--json"))["partitions"]] == [0] * 6
        assert worker.stop() == 0


def test_series_go_where_the_partition_goes_and_ports_are_found(stream: Any) -> None:
    """Of two workers that are not told a port, each takes one; a third that is told one of them says so."""
    s = stream(**FIELDS)

    def page_of(worker: Worker) -> Page:
        worker.wait_for("metrics at http://127.0.0.1:")
        found = re.search(r"metrics at http://127.0.0.1:(\d+)/metrics", worker.output)
        assert found is not None
        return Page(int(found[1]))

    for partition in (0, 1):
        send(s.broker, s.spec.topics.features, instances(50, start=partition * 100)[0], partition=partition)
    with s.worker(web_port=None, name="first") as one:
        first = page_of(one)
        first.wait_for_partitions(2)
        first.wait_for(names.INSTANCES, [50.0, 50.0])
        with s.worker(web_port=None, name="second") as two:
            second = page_of(two)
            assert second.port != first.port
            second.wait_for_partitions(1)
            first.wait_for_partitions(1)
            partitions = [set(page.health()["partitions"]) for page in (first, second)]
            assert partitions in ([{"0"}, {"1"}], [{"1"}, {"0"}])
            for page, mine in zip((first, second), partitions, strict=True):
                # A count of the stream goes on where it was.
                assert page.values(names.INSTANCES) == [50]
                assert page.values(names.INSTANCES, partition=next(iter(mine))) == [50]
                assert page.health()["stream"] == s.name
            said = s.fails(web_port=first.port, name="third")
            assert said.startswith(f"riparian: port {first.port} of 127.0.0.1 is in use")
            assert two.stop() == 0
        assert one.stop() == 0
        assert "rebalancing" not in one.output + two.output


def test_a_changelog_that_is_not_there_is_empty(broker: str, topic_name: str) -> None:
    assert asyncio.run(changelog.read(Connection(broker), changelog_topic(topic_name), 0)).items == {}
