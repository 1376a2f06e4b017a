"""DDM and EDDM: the rate of errors, and the distance between them, against the best they have been.

Both watch errors: 1 a mistake, 0 a hit. For EDDM every value that is not 0 is a mistake.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.contract import DRIFT, STABLE, WARNING, Detector, Floats, Levels
from riparian.models.drift.entries import DDM, EDDM
from riparian.models.kernels.kernel import kernel

ERRORS, BEST_RATE, BEST_DEVIATION = 0, 1, 2
SEEN, MISTAKES, LAST_MISTAKE, LEVEL = 0, 1, 2, 3
MEAN, SPREAD, BEST = 0, 1, 2


class DdmState(NamedTuple):
    """Everything that the detector knows.

    n : (1,) int64, values since the last drift.
    sums : (3,) float64, their sum; error rate and standard deviation where rate + deviation was least.
    """

    n: NDArray[np.int64]
    sums: Floats


class Ddm(Detector):
    """Warning and drift where rate + deviation exceeds the least one by 2 and 3 of its deviations; then starts anew.

    Strictly exceeds: with the paper's "greater or equal" a stream without any error would alarm at once. The first
    error after a perfect beginning still does, as in the paper, since the least deviation is then 0.
    """

    entry = DDM

    def _fresh(self) -> DdmState:
        return DdmState(np.zeros(1, np.int64), np.array([0.0, np.inf, np.inf]))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _ddm(x, level, p["min_values"], p["warning"], p["drift"], *self._state)


@kernel
def _ddm(x, level, min_values, warning, drift, n, sums):
    """Fold `x` into `n` and `sums`, one level a value. O(1) a value."""
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        n[0] += 1
        sums[ERRORS] += x[i]
        if n[0] < min_values:
            continue
        rate = sums[ERRORS] / n[0]
        deviation = np.sqrt(max(rate * (1.0 - rate), 0.0) / n[0])
        if rate + deviation < sums[BEST_RATE] + sums[BEST_DEVIATION]:
            sums[BEST_RATE], sums[BEST_DEVIATION] = rate, deviation
        if rate + deviation > sums[BEST_RATE] + drift * sums[BEST_DEVIATION]:
            level[i] = DRIFT
            n[0] = 0
            sums[ERRORS], sums[BEST_RATE], sums[BEST_DEVIATION] = 0.0, np.inf, np.inf
        elif rate + deviation > sums[BEST_RATE] + warning * sums[BEST_DEVIATION]:
            level[i] = WARNING


class EddmState(NamedTuple):
    """Everything that the detector knows.

    counts : (4,) int64, values since the last drift, mistakes among them, position of the last mistake, level at it.
    sums : (3,) float64, mean and summed squared deviation of the distances between mistakes, and the greatest mean + 2
        standard deviations.
    """

    counts: NDArray[np.int64]
    sums: Floats


class Eddm(Detector):
    """Warning and drift where mean + 2 deviations of the distance between mistakes falls below 0.95 and 0.9 of its
    greatest; then starts anew. The level stays until the next mistake. The greatest is kept from value `min_values` on
    (MOA's convention: the deviation of the first few distances means nothing)."""

    entry = EDDM

    def _fresh(self) -> EddmState:
        return EddmState(np.zeros(4, np.int64), np.zeros(3))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _eddm(x, level, p["min_values"], p["min_errors"], p["warning"], p["drift"], *self._state)


@kernel
def _eddm(x, level, min_values, min_errors, warning, drift, counts, sums):
    """Fold `x` into `counts` and `sums`, one level a value. O(1) a value."""
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        counts[SEEN] += 1
        if x[i] == 0.0:
            level[i] = counts[LEVEL]
            continue
        counts[MISTAKES] += 1
        distance = counts[SEEN] - counts[LAST_MISTAKE]
        counts[LAST_MISTAKE] = counts[SEEN]
        before = distance - sums[MEAN]
        sums[MEAN] += before / counts[MISTAKES]
        sums[SPREAD] += before * (distance - sums[MEAN])
        reach = sums[MEAN] + 2.0 * np.sqrt(sums[SPREAD] / counts[MISTAKES])
        counts[LEVEL] = STABLE
        if counts[SEEN] < min_values:
            continue
        if reach > sums[BEST]:
            sums[BEST] = reach
        elif counts[MISTAKES] > min_errors:
            if reach < drift * sums[BEST]:
                level[i] = DRIFT
                counts[:] = 0
                sums[:] = 0.0
            elif reach < warning * sums[BEST]:
                level[i] = WARNING
                counts[LEVEL] = WARNING
