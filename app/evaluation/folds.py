"""Cross-validation: how good a learner is when it is given a training set as a whole, and not a stream.

The rows, or bags, are dealt into folds at random, each class by itself, so that all folds have their share of it. Each
fold is predicted by a learner that was fitted to the other folds (`Learner.fit`), in random order, since files are
often sorted by class. The metrics are of all predictions together, as `models.evaluation.prequential` computes them.
Another repeat deals the rows anew, and gives the learner another seed.
"""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.dataset.files.table import Table
from riparian.app.errors import DataError, SpecError
from riparian.app.evaluation.measures.measured import Measured
from riparian.models.auto.auto import AUTO
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.memory import live_bytes
from riparian.models.registry import create, resolved, validate
from riparian.topics.records import VALUES


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
) -> dict[str, Any]:
    """One cross-validation.

    Returns
    -------
    dict
        model, parameters, task, folds, seed, n, the metrics that the task has as
        `app.evaluation.measures.measured` has them, classes, seconds (of fitting and predicting), n_nodes and
        n_leaves (means of the folds), state_bytes and peak_live_bytes (of the largest learner), by_fold (metric -> its
        value over each fold alone, None where it is undefined).
    """
    n = len(table.y)
    if n_folds > n:
        raise DataError(
            f"there are {n} rows or bags with a label for {n_folds} folds: use --folds {max(2, n)}, or less"
        )
    asked = model
    try:
        model, parameters = resolved(model, table.schema, parameters)
        given = validate(model, table.schema.task, parameters)
    except ValueError as error:
        raise SpecError(str(error)) from None
    fold = folds_of(table.y, n_folds, seed, table.schema.task not in VALUES)
    out = np.zeros((n, table.schema.n_outputs))
    seconds, n_bytes, live = 0.0, 0, 0
    rng = np.random.default_rng(seed)
    create(model, table.schema, seed=seed, **given).warm_up()
    sizes, by_fold = [], []
    for k in range(n_folds):
        training, test = rng.permutation(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)
        began = time.perf_counter()
        learner = create(model, table.schema, seed=seed, **given)
        learner.fit(table.take(training), table.y[training])
        out[test] = learner.predict_many(table.take(test))
        seconds += time.perf_counter() - began
        n_bytes, live = max(n_bytes, learner.n_bytes), max(live, live_bytes(learner))
        sizes.append(learner.size())
        by_fold.append(_metrics(table, test, out)[0])
    found, classes = _metrics(table, np.arange(n), out)
    about = {"model": model, "parameters": given, **({"auto": True} if asked == AUTO else {})}
    about |= {"task": table.schema.task, "folds": n_folds, "seed": seed}
    means = {key: float(np.mean([size[key] for size in sizes])) for key in ("n_nodes", "n_leaves")}
    folds = {key: [one.get(key) for one in by_fold] for key in found if key != "n"}
    size = {"state_bytes": n_bytes, "peak_live_bytes": live}
    return {**about, **found, "seconds": round(seconds, 6), **means, **size, **classes, "by_fold": folds}


def _metrics(table: Table, rows: NDArray[np.int64], out: Floats) -> tuple[dict[str, float], dict[str, Any]]:
    """Metrics of what was predicted for some rows, and those by class. Rows have no order."""
    measured = Measured(table.schema.task, table.schema.n_outputs, window=1)
    program = Program(np.full(len(rows), LEARN, np.int8), rows.astype(np.int32), table.y[rows], np.ones(len(rows)))
    measured.score(program, out)
    found = measured.metrics() | measured.ranked()
    kept = {key: value for key, value in found.items() if key not in ("kappa_temporal", "mean_running_accuracy")}
    return kept, {"classes": measured.classes(table.classes)} if table.classes else {}
