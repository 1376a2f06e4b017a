"""Importance of features by permutation, prequentially: how much worse a model predicts rows that it has not learned
when they have the values of other rows in a feature.

Breiman: Random forests. Machine Learning 45, 2001, section 10; for a stream Fumagalli, Muschalik, Hüllermeier, Hammer:
Incremental permutation feature importance (iPFI). Machine Learning 112, 2023, where values come from rows before. Here
a sample of the rows is tried, each by the model as it was before the step that the row is in.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats, Learner
from topics.records import CLASSIFICATION

TRIED = 5000  # rows of a run, about, where it has as many
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
        self._since, self._sums_since = 0, np.zeros((len(names), width))

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
        self._since += len(rows)
        self._sums_since += rises.sum(axis=1)

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

    def since(self) -> dict[str, float]:
        """Name of a feature -> the first measure of `result` over the rows tried since the last call."""
        if not self._since:
            return {}
        found = dict(zip(self._names, (self._sums_since[:, 0] / self._since).tolist(), strict=True))
        self._since, self._sums_since = 0, np.zeros_like(self._sums_since)
        return {name: value for name, value in found.items() if math.isfinite(value)}
