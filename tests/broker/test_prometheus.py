"""Real workers under a real Prometheus: every query of the dashboards brings data, and alerts fire when they should."""

import asyncio
import json
import math
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from riparian.app.kafka import command_client
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.ports import free_port
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.exposition import metric_names as names
from tests.broker.clients import Sent, create_topics, send
from tests.broker.harness import PATIENCE, ROOT, Worker, here, stream_file
from tests.broker.prometheus import AVAILABLE, Prometheus

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not AVAILABLE, reason="prometheus is not here: apt-get install prometheus"),
]

BOARDS: list[dict[str, Any]] = [
    json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "deploy" / "grafana").glob("*.json"))
]
# What Grafana puts in place of variables, with "All" chosen.
VARIABLES = {v["name"]: v.get("allValue", "") for board in BOARDS for v in board["templating"]["list"]}
VARIABLES |= {"__rate_interval": "10s", "__range": "10m"}

BEFORE, AFTER = 6000, 1500  # instances of a concept, and of its reverse


def filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(f"${name}", value)
    assert "$" not in expression
    return expression


def publish(path: Path, broker: str, generator: str, n: int, *more: str) -> None:
    here("replay", path, "--broker", broker, "--generate", generator, "-n", n, "--seed", 1, *more)


def streams(folder: Path, broker: str, name: str) -> list[tuple[Path, Spec]]:
    """A classification of `sine`, in which naive Bayes may drift unheard, one with a threshold, and a regression of
    `friedman`."""
    common: dict[str, Any] = {"metrics": {"every": "200ms"}, "predictions": {"coverage": 0.9}}
    fields: dict[str, Any] = {"features": {f"x{i}": "numeric" for i in range(1, 5)}}
    fields |= {"challengers": {"nb": {"model": "naive-bayes", "on_drift": "nothing"}, "last": "last-label"}}
    sine = stream_file(folder, f"{name}-c", control=True, decision={"costs": {"0": {"1": 1}}}, **fields, **common)
    rare = stream_file(folder, f"{name}-t", decision={"class": "1", "alert_rate": 0.2}, **fields, **common)
    fields = {"features": {f"x{i}": "numeric" for i in range(1, 11)}, "task": "regression"}
    fields |= {"champion": "last-label", "challengers": {}}
    friedman = stream_file(folder, f"{name}-r", **fields, **common)
    for _, spec in (sine, rare, friedman):
        create_topics(spec, broker)
        PartitionLearner(spec).warm_up()  # here, and not while somebody waits for the worker
    return [sine, rare, friedman]


def scored(prometheus: Prometheus, spec: Spec, n: int) -> None:
    """Wait until Prometheus has heard of n scored labels."""
    query = f'{names.SCORED}{{stream="{spec.name}", model="champion"}} == {n}'
    prometheus.wait_for(f"{n} labels of {spec.name}", lambda: prometheus.query(query) or None)


def test_the_dashboard_has_data_and_a_drift_raises_alerts(broker: str, tmp_path: Path, topic_name: str) -> None:
    (sine, of_sine), (rare, of_rare), (friedman, of_friedman) = streams(tmp_path, broker, topic_name)
    ports = [free_port() for _ in range(3)]
    with (
        Prometheus(tmp_path / "prometheus", [f"127.0.0.1:{port}" for port in ports]) as prometheus,
        Worker(sine, broker, tmp_path, web_port=ports[0], name="sine") as worker,
        Worker(friedman, broker, tmp_path, web_port=ports[1], name="friedman") as other,
        Worker(rare, broker, tmp_path, web_port=ports[2], name="rare") as third,
    ):
        publish(rare, broker, "sine", AFTER)
        publish(friedman, broker, "friedman", BEFORE)
        asyncio.run(
            command_client.ask(of_sine, Connection(broker), command_client.command("freeze", model="last"), 0.0)
        )
        publish(sine, broker, "sine", BEFORE)
        scored(prometheus, of_sine, BEFORE)
        scored(prometheus, of_friedman, BEFORE - 1)  # of the first instance nothing was known
        scored(prometheus, of_rare, AFTER)
        # What is usual has to be known for longer than the drop will have lasted.
        usual = f'count_over_time(model:riparian_accuracy_ratio:recent{{stream="{of_sine.name}"}}[5m]) > 15'
        prometheus.wait_for("a usual accuracy", lambda: prometheus.query(usual) or None)
        # Alerts wait a second here, where a worker may take longer to begin.
        prometheus.wait_for("silence", lambda: not prometheus.alerts("firing") or None)

        send(broker, of_sine.topics.features, [Sent(b"not json", int(time.time() * 1000))])
        publish(sine, broker, "sine", AFTER, "--set", "function=1", "--id-prefix", "after-")
        scored(prometheus, of_sine, BEFORE + AFTER)
        drift = prometheus.wait_for_alert("RiparianDrift", stream=of_sine.name, model="champion")
        assert (drift["detector"], drift["signal"], drift["level"]) == ("adwin", "error", "drift")
        prometheus.wait_for_alert("RiparianQualityDrop", stream=of_sine.name, measure="accuracy")
        unheard = f'{names.DRIFTS}{{stream="{of_sine.name}", model="nb", level="drift"}} > 0'
        prometheus.wait_for("a drift of naive Bayes", lambda: prometheus.query(unheard) or None)
        # Of a page that was late on a busy machine there may be alerts, too.
        firing = [a for a in prometheus.alerts("firing") if a["alertname"] in ("RiparianDrift", "RiparianQualityDrop")]
        assert {a["stream"] for a in firing} == {of_sine.name}
        assert {a["model"] for a in firing if a["alertname"] == "RiparianDrift"} == {"champion"}

        missing = [what for board in BOARDS for what in empty(prometheus, board)]
        prometheus.wait_for(
            f"a value of {missing}", lambda: not any(empty(prometheus, board) for board in BOARDS) or None
        )
        page = metrics_page(ports[0])
        worker.kill()
        prometheus.wait_for_alert("RiparianWorkerDown", instance=f"127.0.0.1:{ports[0]}")
        prometheus.wait_for_alert("RiparianPartitionMissing", stream=of_sine.name, partition="0")
        assert other.stop() == third.stop() == 0
    check = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True)
    ours = [line for line in check.stderr.splitlines() if line.startswith("riparian_")]
    assert ours == []
    assert "error while linting" not in check.stderr


def metrics_page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text: str = answer.read().decode()
    return text


def empty(prometheus: Prometheus, board: dict[str, Any]) -> list[str]:
    """What in a dashboard brings no finite value: panels, marks, and variables without a choice."""
    found = []
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            expression = filled(target["expr"])
            series = prometheus.query(expression) if target["instant"] else prometheus.range(expression)
            if not any(math.isfinite(float(v)) for s in series for _, v in s.get("values", [s.get("value")])):
                found.append(f"{panel['title']}: {expression}")
    for mark in board["annotations"]["list"]:
        if not mark.get("builtIn"):
            times = [float(v) for s in prometheus.range(filled(mark["expr"])) for _, v in s["values"]]
            # No detector of this test warns, and no model is replaced: of these marks only the query is tried.
            first, last = prometheus.started - 3600, time.time() + 60
            if mark["name"] == "Drifts" and not any(first < t / 1000 < last for t in times):
                found.append(f"{mark['name']}: {times[:5]}")
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, _, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rpartition(", ")
            if not any(label in series["metric"] for series in prometheus.query(filled(metric))):
                found.append(f"${variable['name']}")
    return found
