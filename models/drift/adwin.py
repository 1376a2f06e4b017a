"""ADWIN: a window as long as its halves agree, kept in an exponential histogram.

Bifet, Gavaldà: Learning from time-changing data with adaptive windowing. SIAM International Conference on Data Mining,
2007 (the variant ADWIN2, with the variance in the bound).

Row r holds up to `max_buckets` buckets of 2^r values each: their sum, and their summed squared deviation from their own
mean. A row that overflows gives its two oldest buckets, merged, to the next. Every `clock` values all cuts between
buckets are tried, oldest first; where the means of the two sides differ by more than the bound, the *oldest bucket* is
dropped and the search begins again.

Conventions of MOA, beyond the paper: the clock; no cut within `min_side` + 1 values of either end, and `min_side` - 1
subtracted from both sizes in the bound; nothing is tried in a window of 10 values or fewer; delta is divided by
2 ln(n) rather than by n. Unlike MOA's, the variance is never below 0 (it is a difference, and rounding would make the
bound NaN: never a drift again).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.contract import DRIFT, STABLE, Detector, Floats, Levels
from riparian.models.drift.entries import ADWIN
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

ROWS = 48  # 5 x 2^48 values: no stream fills it
SMALLEST_WINDOW = 10

_DEFAULTS = {parameter.name: parameter.default for parameter in ADWIN.parameters}
CLOCK, MIN_SIDE, MAX_BUCKETS = _DEFAULTS["clock"], _DEFAULTS["min_side"], _DEFAULTS["max_buckets"]

TIME, WIDTH, LAST_ROW = 0, 1, 2
TOTAL, SPREAD = 0, 1


class AdwinState(NamedTuple):
    """Everything that the detector knows.

    counts : (3,) int64, values seen, values in the window, highest row in use.
    sums : (2,) float64, sum and summed squared deviation of the window.
    filled : (48,) int64, buckets in each row.
    totals, spreads : (48, max_buckets + 1) float64, of each bucket, the oldest of a row first.
    """

    counts: NDArray[np.int64]
    sums: Floats
    filled: NDArray[np.int64]
    totals: Floats
    spreads: Floats


def empty(rows: tuple[int, ...] = (), max_buckets: int = MAX_BUCKETS) -> AdwinState:
    """Of one window, or of many, in arrays of these rows and more."""
    buckets = *rows, ROWS, max_buckets + 1
    counts, filled = np.zeros((*rows, 3), np.int64), np.zeros((*rows, ROWS), np.int64)
    return AdwinState(counts, np.zeros((*rows, 2)), filled, np.zeros(buckets), np.zeros(buckets))


class Adwin(Detector):
    """Level 2 where the window was cut, upwards or downwards; no warnings. Keeps the newer part of the window."""

    entry = ADWIN

    def _fresh(self) -> AdwinState:
        return empty(max_buckets=self._parameters["max_buckets"])

    def _update(self, x: Floats, level: Levels) -> None:
        p = self._parameters
        adwin_update(x, level, p["delta"], p["clock"], p["min_side"], *self._state)

    @property
    def width(self) -> int:
        """Values in the window."""
        return int(self._state.counts[WIDTH])

    @property
    def mean(self) -> float:
        """Mean of the window; NaN before the first value."""
        return float(self._state.sums[TOTAL]) / self.width if self.width else float("nan")


@kernel(inline=True)
def forget(counts, sums, filled, totals, spreads):
    """Begin anew. Mutates all arrays."""
    counts[:] = 0
    sums[:] = 0.0
    filled[:] = 0
    totals[:] = 0.0
    spreads[:] = 0.0


@kernel
def _insert(value, counts, sums, filled, totals, spreads):
    """Append `value` to the window and merge rows that overflow. Mutates all arrays. Amortised O(max_buckets)."""
    counts[WIDTH] += 1
    width = counts[WIDTH]
    if width > 1:
        deviation = value - sums[TOTAL] / (width - 1)
        sums[SPREAD] += (width - 1) * deviation * deviation / width
    sums[TOTAL] += value
    totals[0, filled[0]] = value
    spreads[0, filled[0]] = 0.0
    filled[0] += 1
    row, size = 0, 1.0
    while filled[row] == totals.shape[1]:
        deviation = totals[row, 0] / size - totals[row, 1] / size
        above = filled[row + 1]
        totals[row + 1, above] = totals[row, 0] + totals[row, 1]
        spreads[row + 1, above] = spreads[row, 0] + spreads[row, 1] + size * deviation * deviation / 2.0
        filled[row + 1] = above + 1
        for k in range(2, filled[row]):
            totals[row, k - 2] = totals[row, k]
            spreads[row, k - 2] = spreads[row, k]
        filled[row] -= 2
        row += 1
        size *= 2.0
        counts[LAST_ROW] = max(counts[LAST_ROW], row)


@kernel
def _drop(counts, sums, filled, totals, spreads):
    """Take the oldest bucket out of the window. Mutates all arrays. O(max_buckets)."""
    row = counts[LAST_ROW]
    size = 1 << row
    counts[WIDTH] -= size
    width = counts[WIDTH]
    sums[TOTAL] -= totals[row, 0]
    deviation = totals[row, 0] / size - sums[TOTAL] / width
    sums[SPREAD] -= spreads[row, 0] + float(size) * width * deviation * deviation / (size + width)
    sums[SPREAD] = max(sums[SPREAD], 0.0)
    for k in range(1, filled[row]):
        totals[row, k - 1] = totals[row, k]
        spreads[row, k - 1] = spreads[row, k]
    filled[row] -= 1
    while counts[LAST_ROW] > 0 and filled[counts[LAST_ROW]] == 0:
        counts[LAST_ROW] -= 1


@kernel
def _has_cut(delta, min_side, counts, sums, filled, totals):
    """Whether the means differ at some cut between buckets. O(max_buckets log(width))."""
    width = counts[WIDTH]
    log_term = log(2.0 * log(float(width)) / delta)
    variance = sums[SPREAD] / width
    older, older_total, newer_total = 0, 0.0, sums[TOTAL]
    row = counts[LAST_ROW]
    while row >= 0:
        for k in range(filled[row]):
            older += 1 << row
            older_total += totals[row, k]
            newer_total -= totals[row, k]
            newer = width - older
            if newer <= min_side + 1:
                return False
            if older > min_side + 1:
                inverse = 1.0 / (older - min_side + 1) + 1.0 / (newer - min_side + 1)
                bound = np.sqrt(2.0 * inverse * variance * log_term) + 2.0 / 3.0 * log_term * inverse
                if abs(older_total / older - newer_total / newer) > bound:
                    return True
        row -= 1
    return False


@kernel
def adwin_update(x, level, delta, clock, min_side, counts, sums, filled, totals, spreads):
    """Fold `x` into the window, one level a value. O(max_buckets log(width) / clock) a value."""
    for i in range(len(x)):
        level[i] = STABLE
        if not np.isfinite(x[i]):
            continue
        counts[TIME] += 1
        _insert(x[i], counts, sums, filled, totals, spreads)
        if counts[TIME] % clock == 0 and counts[WIDTH] > SMALLEST_WINDOW:
            while _has_cut(delta, min_side, counts, sums, filled, totals):
                _drop(counts, sums, filled, totals, spreads)
                level[i] = DRIFT


@kernel
def rises(value, delta, clock, min_side, counts, sums, filled, totals, spreads):
    """Add a finite value to the window; whether it is cut then, and its mean rises. Mutates all arrays. Cost as
    `adwin_update`."""
    counts[TIME] += 1
    _insert(value, counts, sums, filled, totals, spreads)
    if counts[TIME] % clock != 0 or counts[WIDTH] <= SMALLEST_WINDOW:
        return False
    mean = sums[TOTAL] / counts[WIDTH]
    n = counts[WIDTH]
    while _has_cut(delta, min_side, counts, sums, filled, totals):
        _drop(counts, sums, filled, totals, spreads)
    return counts[WIDTH] < n and sums[TOTAL] / counts[WIDTH] > mean
