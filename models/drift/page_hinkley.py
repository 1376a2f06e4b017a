"""Page-Hinkley: the cumulated deviation from the mean, against the least it has been.

Page: Continuous inspection schemes. Biometrika 41, 1954; with fading (alpha) as in Gama, Sebastião, Rodrigues: On
evaluating stream learning algorithms. Machine Learning 90, 2013.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.contract import DRIFT, STABLE, Detector, Floats, Levels
from riparian.models.drift.entries import PAGE_HINKLEY
from riparian.models.kernels.kernel import kernel

MEAN, UP, LEAST, DOWN, GREATEST = 0, 1, 2, 3, 4


class PageHinkleyState(NamedTuple):
    """Everything that the detector knows.

    n : (1,) int64, values since the last drift.
    sums : (5,) float64, their mean, the cumulated deviation for increases and its least, the one for decreases and its
        greatest.
    """

    n: NDArray[np.int64]
    sums: Floats


class PageHinkley(Detector):
    """Level 2 where the cumulated deviation is more than `threshold` above its least (`two_sided`: or below its
    greatest); no warnings. Then starts anew. The threshold is in units of the values."""

    entry = PAGE_HINKLEY

    def _fresh(self) -> PageHinkleyState:
        return PageHinkleyState(np.zeros(1, np.int64), np.array([0.0, 0.0, np.inf, 0.0, -np.inf]))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _page_hinkley(x, level, p["min_values"], p["delta"], p["threshold"], p["alpha"], p["two_sided"], *self._state)


@kernel
def _page_hinkley(x, level, min_values, delta, threshold, alpha, two_sided, n, sums):
    """Fold `x` into `n` and `sums`, one level a value. O(1) a value."""
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        n[0] += 1
        sums[MEAN] += (x[i] - sums[MEAN]) / n[0]
        sums[UP] = alpha * sums[UP] + (x[i] - sums[MEAN] - delta)
        sums[LEAST] = min(sums[LEAST], sums[UP])
        sums[DOWN] = alpha * sums[DOWN] + (x[i] - sums[MEAN] + delta)
        sums[GREATEST] = max(sums[GREATEST], sums[DOWN])
        if n[0] < min_values:
            continue
        if sums[UP] - sums[LEAST] > threshold or (two_sided and sums[GREATEST] - sums[DOWN] > threshold):
            level[i] = DRIFT
            n[0] = 0
            sums[MEAN], sums[UP], sums[LEAST], sums[DOWN], sums[GREATEST] = 0.0, 0.0, np.inf, 0.0, -np.inf
