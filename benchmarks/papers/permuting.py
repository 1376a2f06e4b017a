"""Importance of features by permutation, prequentially: how much worse a model predicts rows that it has not learned
when they have the values of other rows in a feature.

Breiman: Random forests. Machine Learning 45, 2001, section 10; for a stream Fumagalli, Muschalik, Hüllermeier, Hammer:
Incremental permutation feature importance (iPFI). Machine Learning 112, 2023, where values come from rows before. Here
a sample of the rows is tried, each by the model as it was before the step that the row is in.

    python -m benchmarks.papers.permuting elec.csv.gz --model hoeffding-tree
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from riparian.app.cli.terminal.parsing import parse_model
from riparian.app.dataset.files.arrow import open_data
from riparian.app.dataset.instances import InstanceReader
from riparian.app.evaluation.course import Course
from riparian.app.evaluation.evaluate import CURVE_POINTS, LARGEST_BATCH, problem_for
from riparian.models.contract import Floats, Learner
from riparian.topics.names import CHAMPION
from riparian.topics.records import CLASSIFICATION

TRIED = 5000  # rows of a run, about, where it has as many
WORTH = {
    "log_loss": ("rise of log loss", "{:+.4f}"),
    "error": ("fall of accuracy", "{:+.2%}"),
    "mae": ("rise of MAE", "{:+.5g}"),
}  # what a feature is worth: heading and form
LEAST_P = 1e-4  # of the log loss, as where probabilities are calibrated: one certain mistake must not decide


class Permuted:
    """Importance of the features of one model.

    Parameters
    ----------
    names : sequence of str
        Of the features, d of them.
    task : str
    n : int
        Rows of the run, of which about `TRIED` are tried.
    window : int
        Values come from so many rows before.
    seed : int
        Of the rows tried and of the values that they get.
    """

    def __init__(self, names: Sequence[str], task: str, n: int, *, window: int = 1000, seed: int = 0) -> None:
        self._names, self._task, self._window = list(names), task, window
        self._share = min(1.0, TRIED / max(1, n))
        self._random = np.random.default_rng(seed)
        self._before = np.zeros((0, len(names)))
        width = 2 if task == CLASSIFICATION else 1
        self._n = 0
        self._sums, self._squares = (np.zeros((len(names), width)) for _ in range(2))

    def step(self, model: Learner, x: Floats, y: Floats) -> None:
        """Rows that the model has not learned. x : (n, d), y : (n,), NaN where there is no label."""
        if len(self._before):
            labelled = np.flatnonzero(~np.isnan(y))
            self._try(model, x, y, labelled[self._random.random(len(labelled)) < self._share])
        self._before = np.concatenate((self._before, x))[-self._window :]

    def _try(self, model: Learner, x: Floats, y: Floats, rows: NDArray[np.int64]) -> None:
        n, d = len(rows), len(self._names)
        donors = self._random.integers(0, len(self._before), (d, n))
        if not n:
            return
        told = model.predict_many(x[rows])
        known = told.max(axis=1) > 0.0 if self._task == CLASSIFICATION else ~np.isnan(told[:, 0])
        rows, told, donors = rows[known], told[known], donors[:, known]
        if not len(rows):
            return
        # All features at once: one call costs a learner that has to prepare itself less than d.
        others = np.repeat(x[rows][None], d, axis=0)
        for j in range(d):
            others[j, :, j] = self._before[donors[j], j]
        without = model.predict_many(others.reshape(d * len(rows), d))
        rises = self._losses(without, np.tile(y[rows], d)) - np.tile(self._losses(told, y[rows]), (d, 1))
        rises = np.nan_to_num(rises).reshape(d, len(rows), -1)
        self._n += len(rows)
        self._sums += rises.sum(axis=1)
        self._squares += (rises**2).sum(axis=1)

    def _losses(self, told: Floats, y: Floats) -> Floats:
        """(n, 2): log loss and mistake; or (n, 1): absolute error."""
        if self._task != CLASSIFICATION:
            return np.abs(told[:, :1] - y[:, None])
        codes, every = y.astype(np.int64), np.arange(len(y))
        return np.column_stack((-np.log(np.maximum(told[every, codes], LEAST_P)), told.argmax(axis=1) != codes))

    def result(self) -> dict[str, dict[str, Any]]:
        """Name of a feature -> log_loss and error, or mae, by which it makes predictions better, and the standard error
        of the first; the most important one first. Nothing where no row could be tried."""
        if not self._n:
            return {}
        means = self._sums / self._n
        errors = np.sqrt(np.maximum(self._squares / self._n - means**2, 0.0) / self._n)
        kinds = ("log_loss", "error") if self._task == CLASSIFICATION else ("mae",)
        order = np.argsort(-means[:, 0], kind="stable")
        return {
            self._names[j]: {kind: float(means[j, i]) for i, kind in enumerate(kinds)}
            | {"standard_error": float(errors[j, 0])}
            for j in order
        }


def importance(
    data: Path, model: str, *, ignore: Sequence[str] = (), limit: int | None = None, window: int = 1000, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """`Permuted.result` of a model over a file, test-then-train with labels at once.

    model : NAME[:KEY=VALUE,…], as `riparian evaluate --model` takes it. ignore : columns. window : of `Permuted`.
    """
    file = open_data(data)
    problem = problem_for(file, ignore=ignore, window=window, limit=limit)
    spec = problem.spec(*parse_model(model), seed)
    every = -(-problem.n // CURVE_POINTS)
    run = Course(spec, 0, False, (), every)
    found = Permuted(list(spec.features), spec.task, problem.n, window=window, seed=seed)
    for instances in InstanceReader(file, spec, problem.goal, run.learner).read(limit, min(LARGEST_BATCH, every)):
        run.learner.lineup.fit_schema()  # as the step would do
        kept = np.delete(np.arange(len(instances.x)), [one.position for one in instances.rejected])
        found.step(run.learner.roles[CHAMPION].model, instances.x[kept], instances.y[kept])
        run.step(instances)
    return found.result()


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--model", required=True, metavar="NAME[:KEY=VALUE,…]")
@click.option("--ignore", multiple=True, metavar="COLUMN", help="No feature. Repeatable.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Rows to read.")
@click.option("--window", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows that values are of.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(data: Path, model: str, ignore: tuple[str, ...], limit: int | None, window: int, seed: int) -> None:
    """Print what each feature is worth to a model: how much worse it predicts rows with the values of other rows."""
    found = importance(data, model, ignore=ignore, limit=limit, window=window, seed=seed)
    kinds = [kind for kind in next(iter(found.values()), {}) if kind in WORTH]
    table = Table("feature", *(WORTH[kind][0] for kind in kinds), box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, worth in found.items():
        cells = [WORTH[kind][1].format(worth[kind]) for kind in kinds]
        table.add_row(name, f"{cells[0]} ± {worth['standard_error']:.2g}", *cells[1:])
    Console(highlight=False).print(table)


if __name__ == "__main__":
    main()
