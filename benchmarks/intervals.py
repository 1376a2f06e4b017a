"""How often intervals and sets hold the label, over every 5,000 labels, with labels at once and late.

    python -m benchmarks.intervals DATA [--coverage 0.9] [--only elec agrawal ...]
    python -m benchmarks.intervals DATA --calibration      how well probabilities mean what they say

DATA is a folder with elec, weather, pendigits, nursery, splice, fried and abalone (.csv.gz); `demand` is elec's demand
instead of its class. Beside them are streams that are generated, with drifts in the middle or none. A row: for each
delay of labels the least and the greatest share of the labels that were held in any 5,000 of them in a row (looked at
every 250 labels; over all of them where there are fewer, and only where what comes before the first label is out of
them), then what intervals or sets and predictions are over all labels.

A second table says why, where `auto` is more than a point off. Over the 5,000 labels that were held most often: how
many of them the predicted class was right for, which is in the set whatever is asked for. And the least and greatest
share if each label came at once for the intervals, around the predictions that were made without it.

--calibration: log loss and calibration error over all labels, of probabilities as models give them and scaled by
`calibrated`.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import printed
from riparian.app.cli.terminal.parsing import parse_recipe
from riparian.app.dataset.files.arrow import open_data
from riparian.app.dataset.files.synthetic import SyntheticFile
from riparian.app.dataset.instances import InstanceReader
from riparian.app.evaluation.evaluate import evaluate_all, problem_for
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.models.contract import Floats, Program
from riparian.models.predictions.conformal import Conformal

SPAN, LOOK = 5000, 250
DELAYS = (0, 200, 2000)
OFF = 0.01  # more than that is told why
CLASSES, VALUES = "classification", "regression"
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "elec": ("elec", {"task": CLASSES}),
    "weather": ("weather", {"task": CLASSES}),
    "pendigits": ("pendigits", {"task": CLASSES}),
    "nursery": ("nursery", {"task": CLASSES}),
    "splice": ("splice", {"task": CLASSES}),
    "fried": ("fried", {"task": VALUES}),
    "abalone": ("abalone", {"task": VALUES}),
    "demand": ("elec", {"task": VALUES, "target": "nswdemand", "ignore": ["class"]}),
}
GENERATED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "agrawal, abrupt": ("agrawal:function=1", ("20000",), ("function=4",)),
    "sea, abrupt": ("sea", ("20000",), ("function=2",)),
    "led, gradual": ("led", ("20000:gradual:5000",), ("n_swapped=7",)),
    "hyperplane, gradual": ("hyperplane", (), ()),
    "friedman": ("friedman", (), ()),
    "friedman, abrupt": ("friedman", ("20000",), ("function=1",)),
    "friedman, gradual": ("friedman", ("20000:gradual:5000",), ("function=2",)),
}
N = 40_000  # generated rows
CALIBRATED = ("elec", "weather", "pendigits", "nursery")
MODELS = {CLASSES: ["hoeffding-tree", "adaptive-random-forest", "auto"], VALUES: ["fimt-dd", "auto"]}


class Found(NamedTuple):
    """One model with labels so late. least, greatest : shares, and `right` of the labels of the greatest one that the
    predicted class was right for. of_said : the least and greatest around the same predictions with labels at once."""

    task: str
    least: float
    greatest: float
    right: float
    of_said: tuple[float, float]
    share: float
    size: float
    quality: float


def measure(name: str, folder: Path, delay: int, coverage: float) -> list[Found]:
    """Of each model of the task."""
    options: dict[str, Any] = {}
    if name in FILES:
        path, options = FILES[name]
        file = open_data(folder / f"{path}.csv.gz")
    else:
        recipe, drifts, concepts = GENERATED[name]
        file = SyntheticFile(parse_recipe(recipe, N, drifts, concepts))
    problem = problem_for(file, coverage=coverage, window=SPAN, label_delay=delay, **options)
    task = problem.fields["task"]
    specs = [problem.spec(model, {}, 0) for model in MODELS[task]]
    predicted: list[list[Floats]] = [[] for _ in specs]

    def keep(k: int, outcome: Outcome) -> None:
        predicted[k].append(outcome.p["champion"].copy())

    points = max(1, problem.n // LOOK)
    results = evaluate_all(file, specs, problem.goal, problem.n, label_delay=delay, points=points, on_outcome=keep)
    reader = InstanceReader(file, specs[0], problem.goal, PartitionLearner(specs[0]))
    y = np.concatenate([part.y for part in reader.read(None, 4096)])
    return [
        _found(task, result, _together(parts), y, delay, coverage)
        for result, parts in zip(results, predicted, strict=True)
    ]


def _together(parts: list[Floats]) -> Floats:
    width = max(part.shape[1] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])


def _found(task: str, result: dict[str, Any], out: Floats, y: Floats, delay: int, coverage: float) -> Found:
    curves = result["curves"]
    if "coverage" not in result:  # no score in time: the first labels are of instances that nothing was predicted for
        nothing = np.nan, np.nan
        return Found(task, np.nan, np.nan, np.nan, nothing, np.nan, np.nan, result["accuracy"])
    told = [i for i, n in enumerate(curves["n"]) if n >= SPAN + delay and curves["coverage"][i] is not None]
    told = told or [len(curves["n"]) - 1]
    shares = [curves["coverage"][i] for i in told]
    right = curves["accuracy"][told[int(np.argmax(shares))]] if task == CLASSES else np.nan
    size: Any = result.get("interval_width", result.get("set_size"))
    quality = result["accuracy"] if task == CLASSES else result["mae"]
    at_once = _at_once(task, out, y, delay, coverage)
    return Found(task, min(shares), max(shares), right, at_once, result["coverage"], size, quality)


def _at_once(task: str, out: Floats, y: Floats, delay: int, coverage: float) -> tuple[float, float]:
    """The least and the greatest share of the labels held, where each is told before the next prediction."""
    n, conformal = len(y), Conformal(task, out.shape[1], coverage, window=SPAN)
    row = np.repeat(np.arange(n, dtype=np.int32), 2)
    program = Program(np.tile(np.array([0, 1], np.int8), n), row, y[row], np.ones(2 * n))
    said, shares, done = [np.zeros_like(out) for _ in range(conformal.n_regions)], [], 0
    for end in (*range(SPAN + delay, n, LOOK), n):
        conformal.run(program.part(2 * done, 2 * end), out, said)
        shares.append(conformal.windowed()["coverage"])
        done = end
    return min(shares), max(shares)


def _row(*cells: object) -> None:
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def _range(least: float, greatest: float) -> str:
    low, high = f"{100 * least:.1f}", f"{100 * greatest:.1f}"
    if np.isnan(least):
        return "none"
    return low if low == high else f"{low} to {high}"


def _tables(found: dict[tuple[str, str], list[Found]], coverage: float) -> None:
    late = [f"{delay:,} late" if delay else "held %: immediate labels" for delay in DELAYS]
    forms: dict[str, tuple[str, str, Callable[[float], str]]] = {
        CLASSES: ("classes in a set", "accuracy %", lambda value: f"{100 * value:.1f}"),
        VALUES: ("width", "MAE", lambda value: f"{value:.3g}"),
    }
    for task, (size, quality, form) in forms.items():
        _row("data", "model", *late, size, quality)
        _row(*["---"] * (4 + len(DELAYS)))
        for key, rows in found.items():
            if rows[0].task == task:
                sizes = ", ".join("–" if np.isnan(one.size) else f"{one.size:.3g}" for one in rows)
                cells = [_range(one.least, one.greatest) for one in rows]
                _row(*key, *cells, sizes, ", ".join(form(one.quality) for one in rows))
        print()
    _row(
        "data",
        "labels late",
        "held %",
        "the predicted class is right %",
        "held %, labels known immediately",
        "of all %",
    )
    _row(*["---"] * 6)
    for (data, model), rows in found.items():
        for delay, one in zip(DELAYS, rows, strict=True):
            if model == "auto" and (coverage - one.least > OFF or one.greatest - coverage > OFF):
                right = "" if np.isnan(one.right) else f"{100 * one.right:.1f}"
                texts = (_range(one.least, one.greatest), right, _range(*one.of_said) if delay else "")
                _row(data, f"{delay:,}", *texts, f"{100 * one.share:.1f}")


def calibration(folder: Path) -> None:
    _row("data", "model", "labels late", "log loss", "scaled", "calibration error %", "scaled")
    _row(*["---"] * 7)
    models = ["naive-bayes", *MODELS[CLASSES]]
    for name in CALIBRATED:
        for delay in DELAYS[:2]:
            file, found = open_data(folder / f"{name}.csv.gz"), []
            for scales in (False, True):
                problem = problem_for(file, task=CLASSES, label_delay=delay, calibrated=scales)
                specs = [problem.spec(model, {}, 0) for model in models]
                found.append(evaluate_all(file, specs, problem.goal, problem.n, label_delay=delay))
            for model, plain, scaled in zip(models, *found, strict=True):
                losses = (f"{one['log_loss']:.3f}" for one in (plain, scaled))
                errors = (f"{100 * one['calibration_error']:.1f}" for one in (plain, scaled))
                _row(name, model, f"{delay:,}", *losses, *errors)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--only", nargs="+", default=[*FILES, *GENERATED])
    parser.add_argument("--calibration", action="store_true")
    given = parser.parse_args()
    if given.calibration:
        calibration(given.data)
        return
    found: dict[tuple[str, str], list[Found]] = {}
    for name in given.only:
        for delay in DELAYS:
            results = measure(name, given.data, delay, given.coverage)
            for model, one in zip(MODELS[results[0].task], results, strict=True):
                found.setdefault((name, model), []).append(one)
                print(name, model, delay, one, file=sys.stderr, flush=True)
    _tables(found, given.coverage)


if __name__ == "__main__":
    with printed("intervals", "--calibration"):
        main()
