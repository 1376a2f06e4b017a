"""Whether probabilities mean what they claim, and probabilities that do.

The *calibration error* of a window (expected calibration error; Naeini, Cooper, Hauskrecht: Obtaining well calibrated
probabilities using Bayesian binning. AAAI 2015): predictions are put into 15 bins of equal width by their confidence,
the highest probability; the error is the mean over all of how far, in its bin, the mean confidence is from the share
that was right.

*Temperature scaling* (Guo et al.: On calibration of modern neural networks. ICML 2017) takes each probability to the
power b and divides by the sum: below 1 predictions become less sure, above it surer, and their order stays. Here log b
follows the labels by online gradient steps of the log loss, each divided by a faded mean of its second derivative. What
was predicted for an instance waits with it, with the b of then, and its label scores that. With late labels the step is
at most 1 / (`SWING` * labels that come in between), as in models/predictions/conformal.py.

A class whose probability is below `LEAST` counts as that, once it has been a label: no power makes more of 0. A class
that never was a label keeps the probability 0.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.joined import grown
from riparian.models.kernels.elementary import exp, log
from riparian.models.kernels.elementary import power as powered
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.statistic import WindowStatistic

BINS = 15
LEAST = 1e-4
STEP, SWING = 0.01, 8.0
DELAY_STEP = 0.01
FADING = 0.999  # share of the second derivative that a label leaves
LEAST_CURVATURE = 0.05
BOUND = 2.5  # largest log b: a temperature between 0.08 and 12

POWERS_WIDTH = 2  # columns beside instances: b, and how many labels had been learned

# places in `scaling`: log b, mean second derivative, mean number of labels between predicting and scoring
POWER, CURVATURE, DELAY = 0, 1, 2
# columns of bins and ring
WEIGHT, CONFIDENCE, RIGHT = 0, 1, 2


class CalibrationState(NamedTuple):
    """Everything a `Calibration` knows; K = n_outputs.

    n : (2,) int64, labels scored, and labels learned.
    seen : (K,) uint8, 1 for classes that occurred as a label.
    scaling : (3,) float64, POWER, CURVATURE and DELAY.
    bins : (15, 3) float64 over all labels: weight, weighted confidence, weight of those that were right.
    recent : (15, 3) float64, the same, faded (zero without fading).
    ring : (window, 3) float64, the last labels (no rows with fading).
    """

    n: NDArray[np.int64]
    seen: NDArray[np.uint8]
    scaling: Floats
    bins: Floats
    recent: Floats
    ring: Floats


class Calibration(WindowStatistic):
    """The probabilities of one classifier: how well calibrated they are, and if asked for scaled so that they are.

    Parameters
    ----------
    n_outputs : int
        Capacity of class codes.
    scales : bool
        Whether probabilities are scaled.
    window, fading
        Of the metrics, as `models.evaluation.prequential.Prequential` takes them.

    Examples
    --------
    >>> calibration, n, out = Calibration(2), 1000, np.array([[0.1, 0.9]])
    >>> labels = np.ones(n, np.int8), np.zeros(n, np.int32), np.arange(n) % 2.0, np.ones(n)
    >>> calibration.run(Program(*labels), out, np.ones((1, 2)))  # half of them are the other class
    >>> round(calibration.metrics()["calibration_error"], 2)
    0.4
    """

    layout: ClassVar[StateLayout] = StateLayout(rows={"seen ring": "*"})

    def __init__(
        self, n_outputs: int, *, scales: bool = False, window: int = 1000, fading: float | None = None
    ) -> None:
        self.n_outputs, self.scales, self.window, self.fading = n_outputs, scales, window, fading
        self._state = CalibrationState(
            n=np.zeros(2, np.int64),
            seen=np.zeros(n_outputs, np.uint8),
            scaling=np.array([0.0, 1.0, 0.0]),
            bins=np.zeros((BINS, 3)),
            recent=np.zeros((BINS, 3)),
            ring=np.zeros((window if fading is None else 0, 3)),
        )

    def run(self, program: Program, out: Floats, powers: Floats) -> None:
        """Scale what was predicted at each PREDICT of a program, if asked for, and score each LEARN by the prediction
        that was made.

        Parameters
        ----------
        out : (capacity, n_outputs) float64
            What a model predicted for the rows; mutated where probabilities are scaled. NaN where it made none.
        powers : (capacity, 2) float64
            Beside the instances: the power, and how many labels had been learned. NaN: as the model predicted it.
        """
        fading = 0.0 if self.fading is None else self.fading
        _run(program.op, program.row, program.y, program.w, out, powers, self.scales, fading, *self._state)

    def scaling_alike(self) -> "Calibration":
        """One that scales as this one does from here on, by itself; it does not know the scores."""
        other = Calibration(self.n_outputs, scales=self.scales, window=1)
        other.restore(self._state._asdict() | {"ring": other.state().ring})
        return other

    def metrics(self) -> dict[str, float]:
        """`calibration_error` over the whole stream; nothing before the first label."""
        return _error(self._state.bins)

    def windowed(self) -> dict[str, float]:
        """The figures over the sliding window, or faded."""
        if self.fading is not None:
            return _error(self._state.recent)
        bins = np.zeros((BINS, 3))
        _sum_ring(int(self._state.n[0]), self._state.ring, bins)
        return _error(bins)

    @property
    def has_begun(self) -> bool:
        """Whether any label was taken."""
        return bool(self._state.n[1])

    def resize(self, n_outputs: int) -> None:
        """Raise the capacity of class codes; nothing known changes."""
        if n_outputs > self.n_outputs:
            self._state = self._state._replace(seen=grown(self._state.seen, n_outputs))
            self.n_outputs = n_outputs

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self.n_outputs = len(self._state.seen)


def _error(bins: Floats) -> dict[str, float]:
    total = bins[:, WEIGHT].sum()
    if not total > 0.0:
        return {}
    return {"calibration_error": float(np.abs(bins[:, CONFIDENCE] - bins[:, RIGHT]).sum() / total)}


@kernel
def _sum_ring(n, ring, bins):
    """Add the ring's labels, oldest first, to `bins` (mutated). O(window)."""
    for i in range(max(0, n - len(ring)), n):
        _add(bins, ring[i % len(ring), CONFIDENCE], ring[i % len(ring), WEIGHT], ring[i % len(ring), RIGHT])


@kernel
def _add(bins, confidence, weight, right):
    """One label into `bins` (mutated). right : 0 or 1. O(1)."""
    place = min(int(confidence * len(bins)), len(bins) - 1)
    bins[place, WEIGHT] += weight
    bins[place, CONFIDENCE] += weight * confidence
    bins[place, RIGHT] += weight * right


@kernel
def _scale(out, r, power, seen):
    """Probabilities of row r to this power; mutates out. O(n_outputs)."""
    total = 0.0
    for k in range(out.shape[1]):
        if out[r, k] > 0.0 or seen[k] == 1:
            out[r, k] = powered(max(out[r, k], LEAST), power)
            total += out[r, k]
    for k in range(out.shape[1]):
        out[r, k] /= total


@kernel
def _follow(out, r, label, power, between, n, scaling):
    """A step of log b by the probabilities of row r with this power; mutates scaling. O(n_outputs)."""
    mean, square, total = 0.0, 0.0, 0.0
    for k in range(out.shape[1]):
        if out[r, k] > 0.0:
            level = log(out[r, k]) / power  # of the model, but for a constant
            total += out[r, k]
            mean += out[r, k] * level
            square += out[r, k] * level * level
    mean /= total
    spread = max(square / total - mean * mean, 0.0)
    slope = power * (mean - log(out[r, label]) / power)
    scaling[DELAY] += max(DELAY_STEP, 1.0 / (n + 1.0)) * (between - scaling[DELAY])
    scaling[CURVATURE] = FADING * scaling[CURVATURE] + (1.0 - FADING) * power * power * spread
    step = min(STEP, 1.0 / (SWING * (1.0 + scaling[DELAY])))
    moved = scaling[POWER] - step * slope / (scaling[CURVATURE] + LEAST_CURVATURE)
    scaling[POWER] = min(max(moved, -BOUND), BOUND)


@kernel
def _run(op, row, y, w, out, powers, scales, fading, n, seen, scaling, bins, recent, ring):
    """Scale and score; mutates out, powers and the state arrays. O(n_outputs), with fading O(BINS) a label."""
    for i in range(len(op)):
        r = row[i]
        best, highest, total = -1, 0.0, 0.0
        for k in range(out.shape[1]):
            total += out[r, k]
            if out[r, k] > highest:
                best, highest = k, out[r, k]
        known = best >= 0 and not np.isnan(total)
        if op[i] == PREDICT:
            if scales:
                powers[r, 0], powers[r, 1] = np.nan, np.nan
                if known:
                    powers[r, 0], powers[r, 1] = exp(scaling[POWER]), n[1]
                    _scale(out, r, powers[r, 0], seen)
            continue
        if not w[i] > 0.0:
            continue
        label = int(y[i])
        if known:
            confidence, right = min(highest / total, 1.0), 1.0 if best == label else 0.0
            _add(bins, confidence, w[i], right)
            if fading > 0.0:
                for k in range(len(recent)):
                    for j in range(recent.shape[1]):
                        recent[k, j] *= fading
                _add(recent, confidence, w[i], right)
            else:
                slot = n[0] % len(ring)
                ring[slot, WEIGHT], ring[slot, CONFIDENCE], ring[slot, RIGHT] = w[i], confidence, right
            if scales and powers[r, 0] > 0.0 and out[r, label] > 0.0:
                _follow(out, r, label, powers[r, 0], max(n[1] - powers[r, 1], 0.0), n[0], scaling)
            n[0] += 1
        seen[label] = 1
        n[1] += 1
