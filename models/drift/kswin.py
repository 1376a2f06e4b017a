"""KSWIN: the newest values against a sample of the older ones, by a Kolmogorov-Smirnov test at each value.

Raab, Heusinger, Schleif: Reactive soft prototype computing for concept drift streams. Neurocomputing 416, 2020.

Of a window of `window_size` values the newest `stat_size` (r) are compared with r of the others, drawn uniformly
without replacement. Drift where the largest distance of the two empirical distributions exceeds the paper's
sqrt(-ln(alpha) / r). scikit-multiflow and River instead compare an exact p-value with alpha, for distances above 0.1.
At the defaults, and for values without ties, they need a distance of 14/30 (p = 0.0025), the paper's threshold 13/30
(p = 0.0065).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.contract import DRIFT, STABLE, Detector, Floats, Levels
from riparian.models.drift.entries import KSWIN
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded

MOST_INSERTED = 64
FILLED, NEXT = 0, 1


class KswinState(NamedTuple):
    """Everything that the detector knows.

    counts : (2,) int64, values in the window and where the next one goes.
    window : (window_size,) float64, a ring.
    random : (4,) uint64, the random state.
    """

    counts: NDArray[np.int64]
    window: Floats
    random: NDArray[np.uint64]


class Kswin(Detector):
    """Level 2 where the newest values are distributed otherwise; keeps these. Any value, any change; no warnings."""

    entry = KSWIN

    def _fresh(self) -> KswinState:
        return KswinState(np.zeros(2, np.int64), np.zeros(self._parameters["window_size"]), seeded(self.seed))

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        _kswin(x, level, np.sqrt(-logs(p["alpha"]) / p["stat_size"]), p["stat_size"], *self._state)


@kernel
def draw_older(state, window, oldest, order, places, sample):
    """Fill `sample` from the window's values but the newest len(sample), each set with the same probability (the
    beginning of a Fisher-Yates shuffle).

    window : ring, whose oldest value stands at `oldest`. order : 0, 1, … for all values but the newest, the same again
    at the end; places : scratch. Mutates the random state. O(r).
    """
    n, size = len(order), len(window)
    for k in range(len(sample)):
        places[k] = k + below(state, n - k)
        order[k], order[places[k]] = order[places[k]], order[k]
        position = oldest + order[k]
        sample[k] = window[position if position < size else position - size]
    for k in range(len(sample) - 1, -1, -1):
        order[k], order[places[k]] = order[places[k]], order[k]


@kernel(allocates=True)
def sort(values):
    """Sort in place: by insertion where there are few, which takes a third of the time for 30."""
    if len(values) > MOST_INSERTED:
        values.sort()
        return
    for i in range(1, len(values)):
        value, j = values[i], i - 1
        while j >= 0 and values[j] > value:
            values[j + 1] = values[j]
            j -= 1
        values[j + 1] = value


@kernel
def distance(a, b):
    """Largest difference of two empirical distributions. a, b : (r,) float64, sorted. O(r)."""
    r = len(a)
    i, j, most = 0, 0, 0
    while i < r and j < r:
        value = min(a[i], b[j])
        while i < r and a[i] == value:
            i += 1
        while j < r and b[j] == value:
            j += 1
        most = max(most, abs(i - j))
    return most / r


@kernel(allocates=True)
def _kswin(x, level, bound, stat_size, counts, window, random):
    """Fold `x` into the window, one level a value. O(stat_size log(stat_size)) a value."""
    size = len(window)
    older, newer = np.empty(stat_size), np.empty(stat_size)
    order, places = np.arange(size - stat_size), np.empty(stat_size, np.int64)
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        window[counts[NEXT]] = x[i]
        counts[NEXT] = (counts[NEXT] + 1) % size
        counts[FILLED] = min(counts[FILLED] + 1, size)
        if counts[FILLED] < size:
            continue
        draw_older(random, window, counts[NEXT], order, places, older)
        for k in range(stat_size):
            newer[k] = window[(counts[NEXT] - stat_size + k) % size]
        sort(older)
        sort(newer)
        if distance(older, newer) > bound:
            level[i] = DRIFT
            counts[FILLED] = stat_size
