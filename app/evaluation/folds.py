"""Cross-validation: how good a learner is that is given a training set as a whole, and not a stream.

The rows, or bags, are dealt into folds at random, each class by itself, so that all folds have their share of it. Each
fold is predicted by a learner that was fitted to the others (`Learner.fit`), in random order, since files are often
sorted by class; the metrics are of all predictions
together, as `models.prequential` has them. Another repeat deals anew, and gives the learner another seed.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dataset.table import Table
from app.errors import DataError, SpecError
from models.contract import LEARN, Program
from models.prequential import Prequential
from models.registry import create, validate
from topics.records import REGRESSION


def folds_of(y: NDArray[np.float64], n_folds: int, seed: int, stratified: bool) -> NDArray[np.int64]:
    """The fold of each of n labels, 0 .. n_folds - 1; sizes differ by one at most, and those of a class, too."""
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(y == c) for c in np.unique(y)] if stratified else [np.arange(len(y))]
    order = np.concatenate([rng.permutation(group) for group in groups])
    fold = np.empty(len(y), np.int64)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


def cross_validate(
    table: Table,
    model: str,
    parameters: Mapping[str, Any],
    n_folds: int,
    *,
    seed: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """One cross-validation.

    Parameters
    ----------
    on_progress : callable, optional
        Told the number of rows, or bags, predicted.

    Returns
    -------
    dict
        model, parameters, task, folds, seed, n, the metrics that the task has, seconds (of fitting and predicting),
        state_bytes (of the largest learner).
    """
    n = len(table.y)
    if n_folds > n:
        raise DataError(
            f"there are {n} rows or bags with a label for {n_folds} folds: use --folds {max(2, n)}, or less"
        )
    try:
        given = validate(model, table.schema.task, parameters)
    except ValueError as error:
        raise SpecError(str(error)) from None
    fold = folds_of(table.y, n_folds, seed, table.schema.task != REGRESSION)
    out = np.zeros((n, table.schema.n_outputs))
    seconds, n_bytes, done = 0.0, 0, 0
    rng = np.random.default_rng(seed)
    create(model, table.schema, seed=seed, **given).warm_up()
    for k in range(n_folds):
        training, test = rng.permutation(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)
        began = time.perf_counter()
        learner = create(model, table.schema, seed=seed, **given)
        learner.fit(table.take(training), table.y[training])
        out[test] = learner.predict_many(table.take(test))
        seconds += time.perf_counter() - began
        n_bytes, done = max(n_bytes, learner.n_bytes), done + len(test)
        if on_progress is not None:
            on_progress(done)
    metrics = Prequential(table.schema.task, table.schema.n_outputs, window=1)
    metrics.score(Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), table.y, np.ones(n)), out)
    found = metrics.metrics()
    found.pop("kappa_temporal", None)  # rows have no order
    about = {"model": model, "parameters": given, "task": table.schema.task, "folds": n_folds, "seed": seed}
    return {**about, **found, "seconds": round(seconds, 6), "state_bytes": n_bytes}
