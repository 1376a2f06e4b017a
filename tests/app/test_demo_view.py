"""The demo's figures, from expositions whose numbers are known."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riparian.app import compiling
from riparian.app.demo import run
from riparian.app.demo import view as demo_view
from riparian.app.demo.view import ModelFigures, Rate, WorkerFigures, duration, line, parse, percent, quantile, table
from riparian.app.errors import RiparianError

EXPOSITION = """
riparian_instances_total{stream="s",partition="0"} 70
riparian_instances_total{stream="s",partition="1"} 30
riparian_joined_instances_total{stream="s",partition="0"} 60
riparian_joined_instances_total{stream="s",partition="1"} 20
riparian_waiting_instances{stream="s",partition="0"} 20
riparian_consumer_lag_records{stream="s",partition="0",topic="s.features"} 3
riparian_consumer_lag_records{stream="s",partition="0",topic="s.labels"} 4
riparian_model_info{stream="s",partition="0",model="champion",learner="hoeffding-tree"} 1
riparian_model_info{stream="s",partition="0",model="nb",learner="naive-bayes"} 1
riparian_model_info{stream="s",partition="1",model="champion",learner="hoeffding-tree"} 1
riparian_scored_labels_total{stream="s",partition="0",model="champion"} 60
riparian_accuracy_ratio{stream="s",partition="0",model="champion",scope="overall"} 0.875
riparian_accuracy_ratio{stream="s",partition="0",model="champion",scope="window"} 0.9
riparian_kappa_ratio{stream="s",partition="0",model="champion",scope="overall"} 0.5
riparian_model_nodes{stream="s",partition="0",model="champion"} 9
# TYPE riparian_prediction_latency_seconds histogram
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="0.01"} 50
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="0.02"} 100
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="+Inf"} 100
"""


def test_an_exposition_becomes_figures() -> None:
    found = parse(EXPOSITION.lstrip())
    assert (found.instances, found.learned, found.waiting, found.lag, found.rejected) == (100, 80, 20, 7, 0)
    assert found.models == (
        ModelFigures("champion", "hoeffding-tree", 60, 0.875, 0.9, 0.5, 9),
        ModelFigures("nb", "naive-bayes", 0, None, None, None, 0),
    )
    assert found.prediction_latency == pytest.approx((0.01, 0.0198))
    assert all(map(math.isnan, found.verification_latency))


def test_a_quantile_is_within_its_bucket() -> None:
    values = np.random.default_rng(3).exponential(size=5000)
    bounds = np.linspace(0, 10, 101)[1:]
    buckets = [*((float(b), float((values <= b).sum())) for b in bounds), (math.inf, 5000.0)]
    for q in (0.01, 0.5, 0.9, 0.99):
        assert quantile(q, buckets) == pytest.approx(np.quantile(values, q), abs=0.1)
    assert quantile(0.5, [(1.0, 0.0), (math.inf, 4.0)]) == 1.0  # above the last bound nothing is known
    assert math.isnan(quantile(0.5, [(1.0, 0.0), (math.inf, 0.0)]))
    assert quantile(0.5, [(0.0, 10.0), (1.0, 10.0), (math.inf, 10.0)]) == 0.0


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate(0.0, 0) == 0.0
    assert rate(1.0, 100) == 100.0
    for second in range(2, 20):
        last = rate(float(second), 100 + 10 * (second - 1))
    assert last == 10.0


def test_a_line_and_a_table_say_it() -> None:
    from rich.console import Console

    figures = parse(EXPOSITION.lstrip())
    assert line(100, 200, figures, 12.3) == (
        "100 of 200 sent, 100 predicted (12/s), 80 learned, 20 waiting, lag 7: accuracy champion 87.50%, nb –"
    )
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table("the heading", 100, 200, figures, 12.3))
    text = console.export_text()
    for shown in ("the heading", "hoeffding-tree", "87.50%", "90.00%", "0.500", "10.0 ms, p99 19.8 ms", "100 of 200"):
        assert shown in text


def test_figures_before_anything_has_happened() -> None:
    nothing = parse("")
    assert isinstance(nothing, WorkerFigures)
    assert nothing.models == ()
    assert "0 predicted" in line(0, 10, nothing, 0.0)
    assert percent(None) == duration(math.nan) == "–"


@pytest.mark.parametrize(("seconds", "text"), [(0.0042, "4.2 ms"), (1.5, "1.5 s"), (180.0, "3.0 min")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_nothing_listens() -> None:
    with pytest.raises(OSError):
        demo_view.scrape("http://127.0.0.1:1/metrics")


class FakeWorker:
    """A worker that writes a line into its log, and is ready after `looks` looks at it."""

    log = "worker.log"

    def __init__(self, line: str) -> None:
        self.line = line

    def check(self) -> None: ...

    def lines(self) -> list[str]:
        return [self.line]


def test_a_worker_that_compiles_is_waited_for_longer_and_the_line_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def health(url: str) -> dict[str, Any]:
        nonlocal looks
        looks += 1
        if looks < 5:
            raise OSError
        return {"partitions": {"0": {}}}

    monkeypatch.setattr(run, "_json", health)
    monkeypatch.setattr(run, "WORKER_SECONDS", 0.15)
    plan: Any = SimpleNamespace(health_url="")
    said: list[str] = []
    compiles: Any = FakeWorker(f"riparian: {compiling.SENTENCE} …")
    asyncio.run(run.until_ready(plan, compiles, said.append))
    assert said == [f"{compiling.SENTENCE} …"]
    looks = 0
    silent: Any = FakeWorker("riparian: metrics at nowhere")
    with pytest.raises(RiparianError, match=r"not ready, although it runs.*worker\.log"):
        asyncio.run(run.until_ready(plan, silent, said.append))
    assert len(said) == 1
