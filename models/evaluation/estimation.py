"""How accurate predictions are before their labels come: by the model's confidence, calibrated by labels that came.

The confidence of a prediction is its highest probability, as a share of their sum. Labels show how often predictions of
about that confidence were right: a calibration by histogram (Zadrozny, Elkan: Obtaining calibrated probability
estimates from decision trees and naive Bayesian classifiers. ICML 2001), in which the past fades. The accuracy of the
last predictions is estimated as that of the last labels, and by how much the mean calibrated confidence has changed
from those to these (difference of confidences; Guillory et al.: Predicting with confidence on unseen distributions.
ICCV 2021). It sees that instances come which the model is less sure of. It cannot see that the same instances have
other labels now: that only labels show.
"""

from typing import NamedTuple

import numpy as np

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.kernels.kernel import kernel
from riparian.models.statistic import Statistic

BINS = 20  # of equal width, from 0 to 1
FADING = 0.999  # factor by which a prediction, or a label, counts less with each that follows
PRIOR = 10.0  # labels that the confidence itself counts as, in a bin

# places in the sums: calibrated confidence and number of the last predictions; of the last labels the calibrated
# confidence before each came, how many were right, and their number
CONFIDENCE, PREDICTED, EXPECTED, RIGHT, LABELLED = range(5)


class EstimationState(NamedTuple):
    """Everything an `Estimation` knows, all of it faded.

    bins : (20, 2) float64, labels and how many predictions were right, by confidence.
    totals : (5,) float64.
    """

    bins: Floats
    totals: Floats


class Estimation(Statistic):
    """The estimated accuracy of one classifier.

    Examples
    --------
    >>> estimation, n = Estimation(), 2000
    >>> out = np.array([[0.1, 0.9]])
    >>> columns = np.zeros(n, np.int32), np.arange(n) % 2.0, np.ones(n)
    >>> estimation.follow(Program(np.ones(n, np.int8), *columns), out)  # half of the labels are the other class
    >>> estimation.follow(Program(np.zeros(n, np.int8), *columns), out)
    >>> round(estimation.accuracy(), 1)
    0.5
    """

    def __init__(self) -> None:
        self._state = EstimationState(np.zeros((BINS, 2)), np.zeros(5))

    def follow(self, program: Program, out: Floats) -> None:
        """Take the predictions and labels of a program, in order.

        Left out are labels of weight 0, and rows that were never predicted (NaN). A prediction of nothing is wrong.

        Parameters
        ----------
        out : (capacity, n_outputs) float64
            What was predicted for the program's rows.
        """
        _follow(program.op, program.row, program.y, program.w, out, *self._state)

    def accuracy(self) -> float | None:
        """Of about the last 1,000 predictions; None before the first label, or prediction."""
        totals, error = self._state.totals, self.error()
        if error is None or not totals[PREDICTED]:
            return None
        return min(max(float(totals[CONFIDENCE] / totals[PREDICTED]) - error, 0.0), 1.0)

    def error(self) -> float | None:
        """The mean calibrated confidence, by what was known before each label came, minus the accuracy, of about the
        last 1,000 labels: what `accuracy` subtracts. None before the first.
        """
        totals = self._state.totals
        return float((totals[EXPECTED] - totals[RIGHT]) / totals[LABELLED]) if totals[LABELLED] else None

    def observed(self) -> float | None:
        """The accuracy that about the last 1,000 labels show; None before the first."""
        totals = self._state.totals
        return float(totals[RIGHT] / totals[LABELLED]) if totals[LABELLED] else None

    @property
    def has_begun(self) -> bool:
        """Whether anything was taken."""
        return bool(self._state.totals.any())


@kernel
def _follow(op, row, y, w, out, bins, totals):
    """Add predictions and labels; mutates bins and totals. O(n_outputs), and O(BINS) a label."""
    for i in range(len(op)):
        r = row[i]
        if np.isnan(out[r, 0]) or (op[i] != PREDICT and not w[i] > 0.0):
            continue
        best, highest, total = -1, 0.0, 0.0
        for k in range(out.shape[1]):
            total += out[r, k]
            if out[r, k] > highest:
                best, highest = k, out[r, k]
        place, expected = 0, 0.0
        if best >= 0:
            confidence = min(highest / total, 1.0)
            place = min(int(confidence * BINS), BINS - 1)
            expected = (bins[place, 1] + PRIOR * confidence) / (bins[place, 0] + PRIOR)
        if op[i] == PREDICT:
            totals[CONFIDENCE] = FADING * totals[CONFIDENCE] + expected
            totals[PREDICTED] = FADING * totals[PREDICTED] + 1.0
            continue
        right = 1.0 if best >= 0 and best == y[i] else 0.0
        totals[EXPECTED] = FADING * totals[EXPECTED] + expected
        totals[RIGHT] = FADING * totals[RIGHT] + right
        totals[LABELLED] = FADING * totals[LABELLED] + 1.0
        for k in range(BINS):
            bins[k, 0] *= FADING
            bins[k, 1] *= FADING
        if best >= 0:
            bins[place, 0] += 1.0
            bins[place, 1] += right
