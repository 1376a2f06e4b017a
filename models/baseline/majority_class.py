"""Majority class: predicts how frequent each class has been, whatever the features are.

The floor of every classifier: one that does not beat it has learned nothing from the features.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.models.baseline.entries import MAJORITY_CLASS
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.joined import grown
from riparian.models.kernels.kernel import kernel


class MajorityClassState(NamedTuple):
    """Everything that the learner knows.

    weights : (n_outputs,) float64, the weight learned of each class.
    """

    weights: Floats


class MajorityClass(Learner):
    """Class frequencies as probabilities.

    Memory is one number a class; there is no bound to reach. A label outside 0 .. n_outputs - 1 and
    a weight that is not positive teach nothing.

    Examples
    --------
    >>> learner = MajorityClass(Schema((0,), 2, "classification"))
    >>> learner.learn_many([[0.0], [0.0], [0.0], [0.0]], [1, 1, 0, 1])
    >>> learner.predict_many([[0.0]]).tolist()
    [[0.25, 0.75]]
    """

    entry = MAJORITY_CLASS

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._state = MajorityClassState(np.zeros(schema.n_outputs))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(program.op, program.row, program.y, program.w, out, self._state.weights)

    def resize(self, schema: Schema) -> None:
        self._state = MajorityClassState(grown(self._state.weights, schema.n_outputs))
        self.schema = schema

    def describe(self) -> list[dict[str, Any]]:
        weights = self._state.weights
        return [as_node(0, None, 0, weights.sum(), weights.tolist())]


@kernel
def _run(op, row, y, w, out, weights):
    """Mutates `out` and `weights`. O(n_outputs) a prediction, O(1) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] != PREDICT:
            if 0.0 <= y[i] < len(weights) and 0.0 < w[i] < np.inf:
                weights[int(y[i])] += w[i]
            continue
        total = 0.0
        for k in range(len(weights)):
            total += weights[k]
        for k in range(len(weights)):
            out[r, k] = weights[k] / total if total > 0.0 else 0.0
