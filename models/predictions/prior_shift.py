"""Probabilities whose mean is the share of each class among the labels that have come.

Where classes are learned in other shares than they have, as labels that come late or are corrected make it, the log
odds of all predictions are off by about the same (Saerens, Latinne, Decaestecker: Adjusting the outputs of a classifier
to new a priori probabilities. Neural Computation 14, 2002). So each class has a shift: its probability is multiplied by
exp(shift), and all are divided by their sum. The shifts follow the labels by stochastic gradient steps of the log loss:
at each label the shift of each class goes up by (1 if it is the label, else 0, less what is said now) / `INFORMATION`.
What is said now for an instance is made of what its model predicted then and of the shifts of now, so however late
labels come, the steps are not too long. They do not change any more where the means of both are equal.

Of two classes the log odds have a variance of about 1 / `INFORMATION`, and follow a change within about `INFORMATION` /
(2 p (1 - p)) labels, p (1 - p) as it is on average: rare classes take longer, and no class is noisier than another.

A label that corrects another one moves a step from the class of that to its own. A label whose class has the
probability 0 changes nothing, since no shift makes more of 0. Shifts stay within `BOUND`.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.kernels.elementary import exp
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.statistic import Statistic

INFORMATION = 400.0
BOUND = 6.0  # odds up to 400 times as large


class PriorShiftState(NamedTuple):
    """Everything a `PriorShift` knows. shifts : (n_outputs,) float64 of log odds."""

    shifts: Floats


class PriorShift(Statistic):
    """The probabilities of one classifier, shifted so that on average they are the shares of the classes.

    Parameters
    ----------
    n_outputs : int
        Capacity of class codes.

    Examples
    --------
    >>> shift, n, out, said = PriorShift(2), 10000, np.array([[0.1, 0.9]]), np.zeros((1, 2))
    >>> ops, rows, weights = np.tile(np.array([0, 1], np.int8), n), np.zeros(2 * n, np.int32), np.ones(2 * n)
    >>> shift.run(Program(ops, rows, np.arange(2 * n) // 2 % 2.0, weights), out, said)  # half of them are each class
    >>> [round(one, 2) for one in said[0].tolist()]
    [0.5, 0.5]
    """

    layout: ClassVar[StateLayout] = StateLayout(rows={"shifts": "*"})

    def __init__(self, n_outputs: int) -> None:
        self._state = PriorShiftState(np.zeros(n_outputs))

    def run(self, program: Program, out: Floats, said: Floats, instead: Floats | None = None) -> None:
        """Shift what was predicted at each PREDICT of a program, and follow each LEARN.

        Parameters
        ----------
        out : (capacity, n_outputs) float64
            What a model predicted for the rows. NaN where it made none.
        said : (capacity, n_outputs) float64
            The same, shifted: written at each PREDICT.
        instead : (n,) float64, optional
            For each operation the label that the one of this operation corrects; NaN: none.
        """
        nothing, now = np.zeros(0) if instead is None else instead, np.zeros((1, out.shape[1]))
        _run(program.op, program.row, program.y, program.w, out, said, nothing, now, self._state.shifts)

    @property
    def has_begun(self) -> bool:
        """Whether any label has changed it."""
        return bool(self._state.shifts.any())

    def copy(self) -> "PriorShift":
        """One that goes on by itself as this one would."""
        made = PriorShift(len(self._state.shifts))
        made.restore(self._state._asdict())
        return made

    def resize(self, n_outputs: int) -> None:
        """Raise the capacity of class codes; nothing known changes."""
        more = n_outputs - len(self._state.shifts)
        if more > 0:
            self._state = PriorShiftState(np.pad(self._state.shifts, (0, more)))


@kernel
def _shift(out, r, shifts, said, at):
    """Write the shifted probabilities of row r into row `at` of said; whether there are any. O(n_outputs)."""
    total = 0.0
    for k in range(out.shape[1]):
        said[at, k] = out[r, k] * exp(shifts[k]) if out[r, k] > 0.0 else out[r, k]
        total += said[at, k]
    if not total > 0.0:
        return False
    for k in range(out.shape[1]):
        said[at, k] /= total
    return True


@kernel
def _run(op, row, y, w, out, said, instead, now, shifts):
    """Shift and follow; mutates said, now (of the row that is learned) and shifts. O(n_outputs) an operation."""
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT:
            _shift(out, r, shifts, said, r)
            continue
        if not w[i] > 0.0:
            continue
        label = int(y[i])
        if not _shift(out, r, shifts, now, 0) or not out[r, label] > 0.0:
            continue
        before = int(instead[i]) if len(instead) > 0 and not np.isnan(instead[i]) else -1
        if before >= 0 and out[r, before] > 0.0:
            shifts[before] -= 1.0 / INFORMATION
        else:
            for k in range(len(shifts)):
                shifts[k] -= now[0, k] / INFORMATION
        shifts[label] += 1.0 / INFORMATION
        for k in range(len(shifts)):
            shifts[k] = min(max(shifts[k], -BOUND), BOUND)
