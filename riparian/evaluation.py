"""Test-then-train over arrays: what `riparian evaluate` does with a file, for one learner in memory."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, labels_of, rows_of, weights_of
from riparian.models.evaluation.prequential import Prequential

BLOCK = 10_000  # instances that the learner gets at once; the results are the same for any number


class Evaluation(NamedTuple):
    """predictions : (n, n_outputs) float64, of each instance before its label was learned. metrics : over the whole
    stream. recent : over the last `window` labels."""

    predictions: Floats
    metrics: dict[str, float]
    recent: dict[str, float]


def evaluate(
    learner: Any,
    x: Any,
    y: Any,
    w: ArrayLike | None = None,
    *,
    delay: int = 0,
    window: int = 1000,
) -> Evaluation:
    """Predict each instance, and learn it when its label comes.

    Parameters
    ----------
    learner : Learner, StreamClassifier or StreamRegressor
        A learner continues from what it knows; an estimator begins anew, and has learned all at the end.
    x : (n, d), or n Bags; for an estimator also a data frame. y, w : (n,), as the learner or estimator takes them.
    delay : int
        Instances that are predicted between an instance and its label. The labels still to come at the end are learned
        then.
    window : int
        Labels that `recent` is of.

    Raises
    ------
    ValueError
        x, y or w do not fit the schema or each other, or the delay is negative.

    Examples
    --------
    >>> from riparian.models.baseline.naive_bayes import NaiveBayes
    >>> x = np.random.default_rng(1).random((400, 1)).round()
    >>> found = evaluate(NaiveBayes(Schema((0,), 2, "classification")), x, x[:, 0], delay=10)
    >>> found.predictions.shape, found.metrics["accuracy"] > 0.9
    ((400, 2), True)
    """
    if delay < 0:
        raise ValueError(f"delay is {delay}: give 0 or more instances")
    if not isinstance(learner, Learner):
        learner, x, y = learner.begin(x, y)
    schema = learner.schema
    slab, n = rows_of(schema, x)
    program = _program(labels_of(schema, y, n), weights_of(w, n), delay)
    out, scores = np.zeros((n, schema.n_outputs)), Prequential(schema.task, schema.n_outputs, window=window)
    parts = [program.part(start, start + 2 * BLOCK) for start in range(0, len(program.op), 2 * BLOCK)]
    for part in _run(learner, parts, slab, out):
        scores.score(part, out)
    return Evaluation(out, scores.metrics(), scores.windowed())


def _run(learner: Learner, parts: list[Program], slab: Any, out: Floats) -> Iterator[Program]:
    """Each part, once it has run. What the learner notes at a prediction for the label (a pool: its members' votes) is
    kept for the instances of a part and those that still wait then, as a worker keeps it."""
    first = 0
    kept: list[Floats] = []
    for part in parts:
        if not learner.n_memos:
            learner.run(part, slab, out)
        else:
            stop = max(first + len(kept[0]) if kept else 0, int(part.row.max()) + 1)
            votes = [np.full((stop - first, out.shape[1]), np.nan) for _ in range(learner.n_memos)]
            for before, after in zip(kept, votes, strict=False):
                after[: len(before)] = before
            learner.run_with(part._replace(row=part.row - first), slab[first:stop], out[first:stop], votes)
            learned = int((part.op == LEARN).sum())  # in the order of the rows
            first, kept = first + learned, [each[learned:] for each in votes]
        yield part


def _program(y: Floats, w: Floats, delay: int) -> Program:
    """PREDICT i, then LEARN i - delay; and the rest."""
    n = len(y)
    order: Any = np.argsort(np.r_[np.arange(n) * 2, (np.arange(n) + delay) * 2 + 1], kind="stable")
    op = np.repeat(np.array([PREDICT, LEARN], np.int8), n)[order]
    row = np.tile(np.arange(n, dtype=np.int32), 2)[order]
    return Program(op, row, np.where(op == LEARN, y[row], np.nan), np.where(op == LEARN, w[row], 1.0))
