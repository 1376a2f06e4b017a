"""What a backtest takes from the predictions, and from the stream file."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riparian.app.cli.evaluate.backtest import _plain, _show
from riparian.app.cli.evaluate.table import show_whole
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state.audit.backtest import Backtest, _recorded, of_models
from riparian.app.stream_file.spec import Spec, build

N = 100


def stream(**fields: Any) -> Spec:
    features = {"a": "numeric", "b": "numeric"}
    return build({"name": "s", "task": "classification", "features": features, "champion": "hoeffding-tree"} | fields)


def prediction(offset: int, label_offset: int) -> SimpleNamespace:
    fields = {"id": f"{offset}", "y": None, "p": None, "model": "m", "offset": offset, "label_offset": label_offset}
    return SimpleNamespace(value=json.dumps(fields).encode())


class Sent:
    """A reader of a topic that is read at once."""

    def __init__(self, records: list[Any]) -> None:
        self.records, self.end = records, len(records)

    async def read(self, _: int) -> list[Any]:
        found, self.records = self.records, []
        return found


@pytest.mark.parametrize("at", [0, 40, N])
@pytest.mark.parametrize("odd", [prediction(10**6, 0), prediction(N - 1, 0), SimpleNamespace(value=b"{oops")])
def test_one_odd_record_costs_no_other_its_place(at: int, odd: SimpleNamespace) -> None:
    good = [prediction(i, max(0, i - 5)) for i in range(N - 1)]
    records: Any = Sent([*good[:at], odd, *good[at:]])
    script = asyncio.run(_recorded(stream(), records, ["features", "labels"], N))
    assert set(range(N - 1)) <= set(script.offsets.tolist()) <= set(range(N))
    labels = script.next_offsets["labels"][: N - 1]
    np.testing.assert_array_equal(labels, np.maximum(0, np.arange(N - 1) - 5))


def test_nothing_is_sent_so_no_reasons_are_asked_for() -> None:
    spec = of_models(stream(predictions={"reasons": 2, "coverage": 0.8}, control=True), [("naive-bayes", {})])
    assert list(spec.models()) == ["champion"]
    assert spec.predictions.coverage
    assert spec.predictions.coverage.share == 0.8
    assert spec.predictions.reasons is None
    assert not spec.control


def test_figures_of_a_model_with_many_parameters_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    figures = SimpleNamespace(
        overall={"champion": {"n": 9, "mae": 91906.8419, "rmse": 487030.6892, "r2": 0.65}}, n_instances=9
    )
    learner = PartitionLearner(stream())
    found: list[Any] = [
        SimpleNamespace(partition=0, figures=figures, n_recorded=9, n_rejected=0, first={}, learner=learner)
    ]
    found[0].figures.overall["model-2"] = found[0].figures.overall["champion"]
    pool = ("opinion-pool", {"members": {f"m{i}": {"model": "last-label"} for i in range(30)}})
    for labels in ([], ["champion: opinion-pool", "last: last-label"]):
        _show([pool, ("last-label", {})], labels, found)
        said = capsys.readouterr().out
        assert said.count("91906.8419") == said.count("487030.6892") == 2
        assert all(label in said for label in labels)
        assert "partition 0: 9 instances, in the order of 9 predictions" in said
    found[0].n_recorded = 0
    _show([("last-label", {})], [], found)
    assert "partition 0: 9 instances, in the order of their timestamps" in capsys.readouterr().out


def test_of_a_decision_the_classes_are_shown_as_evaluate_shows_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,y\n" + "".join(f"{i % 10},{i % 3},{'no' if i % 10 else 'yes'}\n" for i in range(600)))
    decision = {"class": "yes", "recall": 0.8}
    whole = Whole(Setup(data=path, stream=stream(decision=decision, classes=["no", "yes"])))
    evaluated = whole.run(lambda _: None)
    found = [Backtest(0, {}, 600, 0, whole.learner, whole.learner.figures())]
    show_whole(evaluated)
    wanted = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("class  ", "yes  ", "no  "))]
    assert len(wanted) == 3
    _show([("hoeffding-tree", {})], ["champion: hoeffding-tree"], found)
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line in wanted] == wanted
    assert any(line.startswith("champion: hoeffding-tree, partition 0: alert rate") for line in shown)
    (one,) = _plain("s", [("hoeffding-tree", {})], found)["models"][0]["partitions"]
    assert one["overall"]["classes"] == evaluated["models"]["champion"]["overall"]["classes"]
