"""The example of payments on Kafka: from raw payments to the predictions of an evaluation in memory."""

import csv
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml

from riparian.app.dataset.files.synthetic import Recipe
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.models.streams.registry import open_source
from tests.broker.harness import riparian

pytestmark = pytest.mark.broker

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "payments" / "payments.yaml"
N = 4000  # half a day
FEW = {"customers": 40, "terminals": 60, "radius": 20}


def fields(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")) | more
    del found["name"]
    return found


def test_a_worker_predicts_raw_payments_as_an_evaluation_does(stream: Any) -> None:
    s = stream(**fields(champion="mondrian-forest", challengers={}))
    made = ("--generate", "payments", "-n", N, "--seed", 5, "--time", "time", "--label-delay", "1h")
    s.riparian("replay", *made)
    s.run(N)
    found, recipe = list[Any](), Recipe("payments", N, 5)
    whole = Whole(Setup(recipe=recipe, stream=s.spec, clock="time", label_delay=3600))
    whole.run(lambda _: None, lambda line: found.append(msgspec.json.decode(line)))
    assert [one["p"] for one in s.predictions()] == [one["p"] for one in found]
    assert len({str(one["p"]) for one in found}) > N / 4
    s.holds()


@pytest.mark.parametrize("calibrated", [False, "matured"])
def test_a_worker_predicts_chargebacks_as_an_evaluation_does(stream: Any, calibrated: Any) -> None:
    """At their own times, and null of what was blocked."""
    n, few = 4000, {"customers": 60, "terminals": 60, "radius": 20, "labels": "fraud", "blocked": 0.1}
    late = yaml.safe_load(EXAMPLE.with_name("chargebacks.yaml").read_text(encoding="utf-8"))
    late |= {"name": "", "predictions": {"calibrated": calibrated}}
    s = stream(**fields(**late | {"champion": "hoeffding-tree", "challengers": {}}))
    made = [word for name, value in few.items() for word in ("--set", f"{name}={value}")]
    s.riparian("replay", "--generate", "payments", "-n", n, *made, "--time", "time", "--label-time", "labelled")
    found = list[Any]()
    whole = Whole(Setup(recipe=Recipe("payments", n, 0, few), stream=s.spec, clock="time", label_clock="labelled"))
    whole.run(lambda _: None, lambda line: found.append(msgspec.json.decode(line)))
    s.run(n, int(np.isfinite(open_source("payments", 0, few).take(n).x[:, 4]).sum()))
    assert [one["p"] for one in s.predictions()] == [one["p"] for one in found]
    assert len({str(one["p"]) for one in found}) > n / 4
    assert min(whole.learner.pending.counts[name] for name in ("assumed", "corrections", "null_labels")) > 10
    s.holds()


def test_a_worker_that_begins_with_a_history_predicts_as_an_evaluation_of_both(stream: Any, tmp_path: Path) -> None:
    """With keys that went and keys that did not, and labels that came at the end of the history."""
    n, delay = 2000, 43_200
    night = delay + 3600  # a day would be more than timestamps are believed to leap
    few = {name: {"from": name, "max": 35, "idle": "30d"} for name in ("card", "terminal")}
    s = stream(**fields(champion="hoeffding-tree", challengers={"nb": "naive-bayes"}, keys=few))
    made = open_source("payments", 5, FEW).take(n)
    rows = [
        [at + (night if i >= n // 2 else 0), f"v{card:.0f}", f"v{terminal:.0f}", amount, ("ok", "fraud")[int(y)]]
        for i, ((at, card, terminal, amount, _), y) in enumerate(zip(made.x.tolist(), made.y.tolist(), strict=True))
    ]
    files = {"whole": rows, "history": rows[: n // 2], "rest": rows[n // 2 :]}
    for name, some in files.items():
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows([["time", "card", "terminal", "amount", "class"], *some])
    timed = ("--time", "time", "--label-delay", f"{delay}s")
    state, found = tmp_path / "history.state", list[Any]()
    riparian("evaluate", tmp_path / "history", "--stream", s.path, *timed, "--state", state)
    s.riparian("import", state, "--models-only")
    s.riparian("replay", tmp_path / "rest", *timed)
    s.run(n // 2)
    whole = Whole(Setup(data=tmp_path / "whole", stream=s.spec, clock="time", label_delay=delay))
    whole.run(lambda _: None, lambda line: found.append(msgspec.json.decode(line)))
    assert [one["p"] for one in s.predictions()] == [one["p"] for one in found[n // 2 :]]
    assert len({str(one["p"]) for one in found[n // 2 :]}) > n / 4
    assert len(whole.learner.past._known["card"]) == 35
    s.holds(start=1)
