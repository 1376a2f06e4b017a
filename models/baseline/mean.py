"""Mean: predicts the mean of the targets so far, or of the recent ones, whatever the features are.

The floor of every regressor, as the majority class is of every classifier.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.models.baseline.entries import MEAN
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.kernels.kernel import kernel


class MeanState(NamedTuple):
    """Everything that the learner knows.

    known : (2,) float64, the weight learned, faded, and the mean.
    """

    known: Floats


class Mean(Learner):
    """The weighted mean of the targets, of which older ones count less where it fades.

    Memory is two numbers. A target that is not finite and a weight that is not positive teach nothing.

    With `fading` 0.99 it is the mean of about the last hundred labels, with 0 the last one.

    Examples
    --------
    >>> learner = Mean(Schema((0,), 1, "regression"))
    >>> learner.learn_many([[0.0], [0.0], [0.0]], [1.0, 2.0, 6.0])
    >>> learner.predict_many([[0.0]]).tolist()
    [[3.0]]
    """

    entry = MEAN

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._state = MeanState(np.zeros(2))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(program.op, program.row, program.y, program.w, out, self._state.known, self._parameters["fading"])

    def describe(self) -> list[dict[str, Any]]:
        weight, mean = self._state.known.tolist()
        return [as_node(0, None, 0, weight, [mean])]


@kernel
def _run(op, row, y, w, out, known, fading):
    """Mutates `out` and `known`. O(1) an operation."""
    weight, mean = known[0], known[1]
    for i in range(len(op)):
        if op[i] == PREDICT:
            out[row[i], 0] = mean if weight > 0.0 else np.nan
        elif np.isfinite(y[i]) and 0.0 < w[i] < np.inf:
            weight = fading * weight + w[i]
            mean += (y[i] - mean) * (w[i] / weight)
    known[0], known[1] = weight, mean
