"""The demo's figures, from expositions whose numbers are known."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest

from riparian.app import compiling
from riparian.app.cli.run.demo import _run
from riparian.app.demo import run
from riparian.app.demo import view as demo_view
from riparian.app.demo.view import (
    ModelFigures,
    Rate,
    Story,
    WorkerFigures,
    duration,
    line,
    parse,
    percent,
    quantile,
    table,
)
from riparian.app.errors import BrokerError, RiparianError
from riparian.app.stream_file.spec import load, loads

EXPOSITION = """
riparian_instances_total{stream="s",partition="0"} 70
riparian_instances_total{stream="s",partition="1"} 30
riparian_joined_instances_total{stream="s",partition="0"} 60
riparian_joined_instances_total{stream="s",partition="1"} 20
riparian_model_info{stream="s",partition="0",model="champion",learner="hoeffding-tree"} 1
riparian_model_info{stream="s",partition="0",model="nb",learner="naive-bayes"} 1
riparian_model_info{stream="s",partition="1",model="champion",learner="hoeffding-tree"} 1
riparian_scored_labels_total{stream="s",partition="0",model="champion"} 60
riparian_class_recall_ratio{stream="s",partition="0",model="champion",scope="window",class="ok"} 0.99
riparian_class_recall_ratio{stream="s",partition="0",model="champion",scope="window",class="fraud"} 0.75
# TYPE riparian_prediction_latency_seconds histogram
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="0.01"} 50
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="0.02"} 100
riparian_prediction_latency_seconds_bucket{stream="s",partition="0",le="+Inf"} 100
"""


def test_an_exposition_becomes_figures() -> None:
    found = parse(EXPOSITION.lstrip(), "opinion-pool")
    assert (found.instances, found.learned) == (100, 80)
    assert found.models == (
        ModelFigures("champion", "hoeffding-tree", 0.75),
        ModelFigures("nb", "naive-bayes", None),
    )
    assert found.latency == pytest.approx((0.01, 0.0198))
    assert all(map(math.isnan, parse("", None).latency))


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


def figures(at: int, *models: tuple[str, str, float | None]) -> WorkerFigures:
    return WorkerFigures(float(at), at, at, (math.nan, math.nan), tuple(ModelFigures(*one) for one in models))


def test_a_story_has_courses_events_and_a_summary() -> None:
    story, n = Story(100_000, [40_000]), 1000
    for at in range(0, 100_001, n):
        new = 0.0 if 40_000 <= at < 60_000 else 0.8
        roles = ("champion", "tree") if at >= 20_000 else ("pool", "champion")
        models = [(roles[0], "auto", new), (roles[1], "tree", 0.5 if at < 40_000 else 0.1 if at < 70_000 else None)]
        story.note(figures(at, *sorted(models)), "freeze" if at == 30_000 else None)
    assert story.events == [
        "      0  champion: tree",
        "      0  fraud is large payments by stolen cards",
        " 20,000  champion: auto",
        " 30,000  riparian freeze tree",
        " 40,000  fraud is all payments at some terminals",
    ]
    assert story.course("auto") == "▇" * 20 + "▁" * 10 + "▇" * 20
    assert story.course("tree") == "▅" * 20 + "▁" * 15 + " " * 15
    assert story.marks() == " " * 20 + "^"
    heads, *rows = story.summary()
    assert heads.split() == ["pattern", "1", "pattern", "2"]
    assert sorted(row.split() for row in rows) == [
        ["auto", "80%", "0%,", "then", "80%"],
        ["tree", "50%", "10%,", "then", "10%"],
    ]


def test_a_line_and_a_table_say_it() -> None:
    from rich.console import Console

    found, story = parse(EXPOSITION.lstrip(), "opinion-pool"), Story(200, [100])
    story.note(found)
    assert line(found, story) == (
        "100 of 200 predicted (0/s), 80 learned: recall champion hoeffding-tree 75%, nb naive-bayes –"
    )
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(table("the heading", found, story))
    text = console.export_text()
    for shown in ("the heading", "hoeffding-tree", "75%", "▇", "^", "10.0 ms, p99 19.8 ms", "100 of 200"):
        assert shown in text


def test_figures_before_anything_has_happened() -> None:
    nothing, story = parse("", None), Story(10, [])
    story.note(nothing)
    assert nothing.models == ()
    assert "0 of 10 predicted" in line(nothing, story)
    assert story.summary() == [f"{'':<18}{'pattern 1':>18}"]
    assert percent(None) == duration(math.nan) == "–"


@pytest.mark.parametrize(("seconds", "text"), [(0.0042, "4.2 ms"), (1.5, "1.5 s")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_nothing_listens() -> None:
    with pytest.raises(OSError):
        demo_view.scrape("http://127.0.0.1:1/metrics", None)


class FakeProcess:
    """A process of the demo that ended well."""

    log, ended = Path("log"), True

    def __enter__(self) -> "FakeProcess":
        return self

    def __exit__(self, *_: object) -> None: ...

    def check(self, may_end: bool = False) -> None: ...


@pytest.mark.parametrize("promoted_at", [36_000, 78_000, 200_000])
def test_the_tree_is_frozen_once_it_is_a_challenger_again(promoted_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However late auto is the champion, if ever: until then no model is called tree."""
    given: list[tuple[str, str, int]] = []
    looks = iter(range(0, 150_001, 750))

    def look(*_: object) -> WorkerFigures:
        if (at := next(looks)) % 10_500 == 0:
            raise TimeoutError
        tree, auto = ("tree", "hoeffding-tree", None), ("champion", "opinion-pool", None)
        if given and at < promoted_at:
            tree, auto = ("champion", *tree[1:]), ("opinion-pool", *auto[1:])
        monkeypatch.setattr(run, "Process", lambda _, name, role, *__: given.append((name, role, at)) or FakeProcess())
        return figures(at, auto, tree)

    monkeypatch.setattr(run, "replay_process", lambda _: FakeProcess())
    monkeypatch.setattr(run.demo_view, "scrape", look)
    monkeypatch.setattr(run.time, "sleep", lambda _: None)
    plan: Any = SimpleNamespace(rows=150_000, metrics_url="", auto=None)
    worker: Any = FakeProcess()
    run.stream(plan, worker, lambda *_: None)
    frozen = [("freeze", "tree", max(37_500, promoted_at))] if promoted_at < 150_000 else []
    assert given == [("promote", "tree", 750), *frozen]
    looks = iter([0] * 2)
    monkeypatch.setattr(run, "STALL_SECONDS", -1.0)
    with pytest.raises(BrokerError, match="the worker does not answer"):
        run.stream(plan, worker, lambda *_: None)


class FakeWorker:
    """A worker that writes a line into its log, and is ready after `looks` looks at it."""

    name, log = "worker", "worker.log"

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
    said: list[str] = []
    compiles: Any = FakeWorker(f"riparian: {compiling.SENTENCE} …")
    run.until_ready(compiles, "", said.append)
    assert said == [f"{compiling.SENTENCE} …"]
    looks = 0
    silent: Any = FakeWorker("riparian: metrics at nowhere")
    with pytest.raises(RiparianError, match=r"not ready, although it runs.*worker\.log"):
        run.until_ready(silent, "", said.append)
    assert len(said) == 1


def test_only_what_is_auto_in_the_stream_file_is_called_so() -> None:
    spec = load(run.TEMPLATE)
    plan: Any = run.DemoPlan(Path(), None, run.TEMPLATE, spec, 1, 1)  # type: ignore[arg-type]
    assert plan.auto == spec.models()["champion"][0]
    tree = loads(run.TEMPLATE.read_text().replace("challengers:", "champion: naive-bayes\nchallengers:"))
    assert plan._replace(spec=tree).auto is None
    assert "auto" not in {model.learner for model in parse(EXPOSITION.lstrip(), None).models}


@pytest.mark.parametrize("as_json", [False, True])
def test_the_end_for_people_and_as_one_json_object(as_json: bool, monkeypatch, capsys) -> None:
    plan = SimpleNamespace(
        rows=100_000, spec=SimpleNamespace(name="s"), connection="b:1", health_url="h", metrics_url="m"
    )

    def streamed(plan, worker, show):
        for at in range(0, 100_001, 1000):
            show(figures(at, ("champion", "auto", 0.8 if at < 40_000 else 0.2)), "promote" if at == 2000 else None)

    for name, found in (("stream", streamed), ("until_ready", lambda *_: None), ("changes", lambda _: [40_000])):
        monkeypatch.setattr(run, name, found)
    _run(plan, None, None, as_json, lambda line: click.echo(line, err=as_json))
    shown = capsys.readouterr()
    if not as_json:
        assert shown.out.splitlines()[-1].split() == ["auto", "80%", "20%,", "then", "20%"]
        return
    told = json.loads(shown.out)
    assert told["recall"] == {"auto": [{"lowest": 0.8, "last": 0.8}, {"lowest": 0.2, "last": 0.2}]}
    assert (told["payments"], told["changes"]) == (100_000, [40_000])
    assert "  2,000  riparian promote tree" in told["events"]
    assert "100,000 of 100,000 predicted" in shown.err
