"""Naive Bayes: Gaussian likelihoods for numeric features, Laplace's estimates for nominal ones, one pass.

Langley, Iba and Thompson 1992 (nominal); John and Langley 1995 (Gaussians). Statistics and their deviations from MOA
are those of models.observers.gaussians; the model is one block of them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.baseline.entries import NAIVE_BAYES
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.joined import grown
from riparian.models.kernels.kernel import kernel
from riparian.models.observers.gaussians import (
    Cache,
    SeenValues,
    check_growth,
    know_nothing,
    lay_out,
    observe,
    transfer,
    write_weights,
)
from riparian.models.observers.likelihood import score_leaf, scratch_of

LEFT = 0.9  # of all weights, once they are those of a window
KEPT = 10.0  # weight of what is known of a class's feature from which on it fades: a rare one is not forgotten


class NaiveBayesState(NamedTuple):
    """Everything that the learner knows.

    weights : (1, n_outputs) float64, of the classes.
    stats : (1, width) float64, one block of models.observers.gaussians.
    values : uint8, which values of the nominal features were learned.
    n_values : (d,) int64, how many of each.
    """

    weights: Floats
    stats: Floats
    values: NDArray[np.uint8]
    n_values: NDArray[np.int64]


class NaiveBayes(Learner):
    """Naive Bayes over numeric and nominal features.

    Missing values are left out, in learning and in predicting. Where every class has likelihood 0 (a value far from
    the mean of constants), the prediction is the class frequencies. A label outside 0 .. n_outputs - 1 and a weight
    that is not positive teach nothing. Memory is bounded by the schema: 5 numbers a class and numeric feature, 1 + V a
    class and nominal feature of V values.

    With `window` older labels fade: whenever all weigh that much, they count nine tenths from then on. What they say
    of a feature of a class stays where it weighs less than 10. Of a concept that changed about as many labels have to
    come.

    References
    ----------
    P. Langley, W. Iba and K. Thompson: An analysis of Bayesian classifiers. AAAI 1992.
    G. John and P. Langley: Estimating continuous distributions in Bayesian classifiers. UAI 1995.

    Examples
    --------
    >>> learner = NaiveBayes(Schema((0, 2), 2, "classification"))
    >>> learner.learn_many([[1.0, 0], [2.0, 0], [7.0, 1], [9.0, 1]], [0, 0, 1, 1])
    >>> learner.predict_many([[1.5, 0]]).argmax()
    np.int64(0)
    """

    entry = NAIVE_BAYES

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._window = self._parameters["window"] or np.inf
        self._known = know_nothing(schema)
        self._weights = np.zeros((1, schema.n_outputs))
        self._stats = np.zeros((1, lay_out(schema)[1]))
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the schema, and is not state."""
        self._layout, _, width = lay_out(self.schema)
        self._cache = Cache(np.zeros((1, width)), np.zeros(1, np.uint8))
        self._joint = scratch_of(self.schema)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(
            program.op, program.row, program.y, program.w, slab, out,
            self._weights, self._stats, self._known, self._cache, self._layout, self._joint, self._window,
        )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        self._stats, self._known = transfer(self._stats, self._known, self.schema, schema)
        self._weights = grown(self._weights, 1, schema.n_outputs)
        self.schema = schema
        self._prepare()

    def state(self) -> NaiveBayesState:
        return NaiveBayesState(self._weights, self._stats, self._known.values, self._known.n_seen)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._weights = np.array(state["weights"], dtype=np.float64, order="C")
        self._stats = np.array(state["stats"], dtype=np.float64, order="C")
        self._known = SeenValues(np.array(state["values"], dtype=np.uint8), np.array(state["n_values"], dtype=np.int64))
        self._prepare()

    def describe(self) -> list[dict[str, Any]]:
        """One part for the classes, and one a feature: weight of each class, mean and deviation or value weights."""
        parts = [as_node(0, None, 0, self._weights.sum(), self._weights[0].tolist())]
        k = self.schema.n_outputs
        for f, n_values in enumerate(self.schema.n_values):
            start = int(self._layout.offset[f])
            block = self._stats[0, start : start + (5 if n_values == 0 else 1 + n_values) * k].reshape(-1, k)
            part = as_node(f + 1, 0, 1, block[0].sum(), block[0].tolist(), feature=f)
            if n_values == 0:
                spread = np.sqrt(np.divide(block[2], block[0] - 1, where=block[0] > 1, out=np.zeros(k)))
                part |= {"mean": block[1].tolist(), "deviation": spread.tolist()}
            else:
                part["values"] = block[1:].T.tolist()
            parts.append(part)
        return parts


@kernel
def _run(op, row, y, w, slab, out, weights, stats, known, cache, layout, joint, window):
    """Mutates out, weights, stats, known, cache, joint. O(d n_outputs) a prediction, O(d) a label, but where
    weights fade."""
    n_classes = weights.shape[1]
    fresh = cache.fresh
    for i in range(len(op)):
        r = np.int64(row[i])
        if op[i] == PREDICT:
            best = score_leaf(stats, cache.rows, fresh, 0, weights, 0, known.n_seen, layout, slab, r, joint)
            if best >= 0:
                write_weights(joint[0], out, r)
            else:
                write_weights(weights[0], out, r)
        elif y[i] >= 0.0 and y[i] < n_classes and w[i] > 0.0 and w[i] < np.inf:
            c = int(y[i])
            weights[0, c] += w[i]
            if observe(
                stats[0], cache.rows[0], fresh[0] == 1, known, layout, n_classes, slab, r, c, w[i], weights[0, c]
            ):
                fresh[0] = 0
            while window < np.inf and weights[0].sum() >= window:
                _fade(weights[0], stats[0], layout)
                fresh[0] = 0


@kernel
def _fade(weights, block, layout):
    """Let what was learned count less. Mutates weights and block. O(d n_outputs)."""
    k = len(weights)
    for c in range(k):
        weights[c] *= LEFT
        for f in range(len(layout.n_values)):
            start, n_values = layout.offset[f] + np.uint64(c), layout.n_values[f]
            if block[start] < KEPT:
                continue
            for j in range(1 + n_values if n_values > 0 else 3):
                if n_values > 0 or j != 1:  # the mean of numbers stays
                    block[start + np.uint64(j * k)] *= LEFT
