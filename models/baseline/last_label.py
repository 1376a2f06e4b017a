"""Last label: predicts again what was learned last (the persistent or no-change classifier; of a regression, the last
target).

Where labels are autocorrelated it is hard to beat: 85.3 % on elec. Under a label delay it repeats the last
label that had *arrived*, and so shows what repetition is really worth to a user.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.models.baseline.entries import LAST_LABEL
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.kernels.kernel import kernel


class LastLabelState(NamedTuple):
    """Everything that the learner knows.

    last : (2,) float64, the last label (class code or target, NaN before the first), the weight so far.
    """

    last: Floats


class LastLabel(Learner):
    """The last label learned: probability 1 for its class, or its value.

    Memory is two numbers. A class outside 0 .. n_outputs - 1 and a weight that is not positive teach nothing. Before
    the first label probabilities are all 0, and a value is NaN.

    Examples
    --------
    >>> learner = LastLabel(Schema((0,), 2, "classification"))
    >>> learner.learn_many([[0.0], [0.0]], [0, 1])
    >>> learner.predict_many([[0.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = LAST_LABEL
    repeats = True

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._state = LastLabelState(np.array([np.nan, 0.0]))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(program.op, program.row, program.y, program.w, out, self._state.last, self.schema.task != "regression")

    def describe(self) -> list[dict[str, Any]]:
        last, weight = self._state.last.tolist()
        if np.isnan(last):
            value = [0.0] * self.schema.n_outputs
        elif self.schema.task != "regression":
            value = [float(k == int(last)) for k in range(self.schema.n_outputs)]
        else:
            value = [last]
        return [as_node(0, None, 0, weight, value)]


@kernel
def _run(op, row, y, w, out, last, classify):
    """Mutates `out` and `last`. O(n_outputs) a prediction, O(1) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] != PREDICT:
            known = 0.0 <= y[i] < out.shape[1] if classify else np.isfinite(y[i])
            if known and 0.0 < w[i] < np.inf:
                last[0] = y[i]
                last[1] += w[i]
            continue
        if not classify:
            out[r, 0] = last[0]
            continue
        for k in range(out.shape[1]):
            out[r, k] = 0.0
        if not np.isnan(last[0]):
            out[r, int(last[0])] = 1.0
