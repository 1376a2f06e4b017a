"""HDDM: the mean now against the best cut so far, by Hoeffding's bound (A) or McDiarmid's for a moving average (W).

Frías-Blanco, del Campo-Ávila, Ramos-Jiménez, Morales-Bueno, Ortiz-Díaz, Caballero-Mota: Online and non-parametric drift
detection methods based on Hoeffding's bounds. IEEE Transactions on Knowledge and Data Engineering 27, 2015.

Values must lie in [0, 1]: the bounds are about nothing else. `two_sided` also watches decreases; a decrease of the
error is no alarm, the detector only starts anew and compares with the better rate from then on (level 0).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.contract import DRIFT, STABLE, WARNING, Detector, Floats, Levels
from riparian.models.drift.entries import HDDM_A, HDDM_W
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

ALL, LOW, HIGH = 0, 1, 2
AFTER_LOW, AFTER_HIGH = 3, 4


class HddmAState(NamedTuple):
    """Everything that the detector knows: now, and at the cuts with the lowest upper and the highest lower bound.

    n : (3,) int64, values since the last drift up to each of the three.
    sums : (3,) float64, of these values.
    """

    n: NDArray[np.int64]
    sums: Floats


class HddmA(Detector):
    """Level 2 where the mean rose since the best cut; then starts anew."""

    entry = HDDM_A

    def _fresh(self) -> HddmAState:
        return HddmAState(np.zeros(3, np.int64), np.zeros(3))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _hddm_a(x, level, p["drift_confidence"], p["warning_confidence"], p["two_sided"], *self._state)


@kernel(inline=True)
def _gap(n_cut, n, confidence):
    """By how much the mean of n values may differ from that of the first n_cut. O(1)."""
    return np.sqrt((n - n_cut) / (2.0 * n_cut * n) * log(2.0 / confidence))


@kernel
def _hddm_a(x, level, drift, warning, two_sided, n, sums):
    """Fold `x` into `n` and `sums`, one level a value. O(1) a value."""
    log_drift = log(1.0 / drift)
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        n[ALL] += 1
        sums[ALL] += x[i]
        mean = sums[ALL] / n[ALL]
        bound = np.sqrt(log_drift / (2.0 * n[ALL]))
        if n[LOW] == 0 or mean + bound <= sums[LOW] / n[LOW] + np.sqrt(log_drift / (2.0 * n[LOW])):
            n[LOW], sums[LOW] = n[ALL], sums[ALL]
        if n[HIGH] == 0 or mean - bound >= sums[HIGH] / n[HIGH] - np.sqrt(log_drift / (2.0 * n[HIGH])):
            n[HIGH], sums[HIGH] = n[ALL], sums[ALL]
        anew = False
        if n[LOW] < n[ALL]:
            rise = mean - sums[LOW] / n[LOW]
            if rise >= _gap(n[LOW], n[ALL], drift):
                level[i] = DRIFT
                anew = True
            elif rise >= _gap(n[LOW], n[ALL], warning):
                level[i] = WARNING
        if two_sided and not anew and n[HIGH] < n[ALL]:
            anew = sums[HIGH] / n[HIGH] - mean >= _gap(n[HIGH], n[ALL], drift)
        if anew:
            n[:] = 0
            sums[:] = 0.0


class HddmWState(NamedTuple):
    """Everything that the detector knows.

    n : (1,) int64, values since the last drift.
    means, weights : (5,) float64, moving averages and their summed squared weights (0: empty): of all values, at the
        low cut, at the high cut, since low, since high.
    """

    n: NDArray[np.int64]
    means: Floats
    weights: Floats


class HddmW(Detector):
    """Level 2 where the moving average since the best cut exceeds the one at the cut; then starts anew."""

    entry = HDDM_W

    def _fresh(self) -> HddmWState:
        return HddmWState(np.zeros(1, np.int64), np.zeros(5), np.zeros(5))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _hddm_w(x, level, p["drift_confidence"], p["warning_confidence"], p["fading"], p["two_sided"], *self._state)


@kernel
def _average(value, fading, which, means, weights):
    """Fold `value` into moving average `which`. Mutates both arrays. O(1)."""
    if weights[which] == 0.0:
        means[which], weights[which] = value, 1.0
    else:
        rest = 1.0 - fading
        means[which] = fading * value + rest * means[which]
        weights[which] = fading * fading + rest * rest * weights[which]


@kernel(inline=True)
def _bound(weight, confidence):
    """McDiarmid's bound for summed squared weights `weight`. O(1)."""
    return np.sqrt(weight * log(1.0 / confidence) / 2.0)


@kernel
def _hddm_w(x, level, drift, warning, fading, two_sided, n, means, weights):
    """Fold `x` into the averages, one level a value. O(1) a value."""
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        n[0] += 1
        _average(x[i], fading, ALL, means, weights)
        bound = _bound(weights[ALL], drift)
        if n[0] == 1 or means[ALL] + bound < means[LOW] + _bound(weights[LOW], drift):
            means[LOW], weights[LOW] = means[ALL], weights[ALL]
            weights[AFTER_LOW] = 0.0
        else:
            _average(x[i], fading, AFTER_LOW, means, weights)
        if n[0] == 1 or means[ALL] - bound > means[HIGH] - _bound(weights[HIGH], drift):
            means[HIGH], weights[HIGH] = means[ALL], weights[ALL]
            weights[AFTER_HIGH] = 0.0
        else:
            _average(x[i], fading, AFTER_HIGH, means, weights)
        anew = False
        if weights[AFTER_LOW] > 0.0:
            rise = means[AFTER_LOW] - means[LOW]
            if rise > _bound(weights[LOW] + weights[AFTER_LOW], drift):
                level[i] = DRIFT
                anew = True
            elif rise > _bound(weights[LOW] + weights[AFTER_LOW], warning):
                level[i] = WARNING
        if two_sided and not anew and weights[AFTER_HIGH] > 0.0:
            anew = means[HIGH] - means[AFTER_HIGH] > _bound(weights[HIGH] + weights[AFTER_HIGH], drift)
        if anew:
            n[0] = 0
            means[:] = 0.0
            weights[:] = 0.0
