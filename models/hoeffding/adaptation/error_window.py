"""ADWIN over the errors of a node, 1 for a wrong prediction and 0 for a right one, in one row of integers.

The window of models.drift.adwin (Bifet and Gavaldà 2007; the same cuts, with MOA's clock and sides) where every value
is 0 or 1: a bucket is a number of errors, and its variance follows from that. So a window takes 772 bytes where that of
any values takes 5,100, its figures are exact, and trying all cuts takes no division unless one is near the bound.

Row: values since the last search for a cut, values in the window, errors among them, highest rank in use; then for each
rank r the number of its buckets, and the errors of each bucket of 2^r values, oldest first. A window that has filled
all ranks, 6.7e8 values, forgets its oldest bucket instead of merging it.
"""

import math

from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

CLOCK = 32
MAX_BUCKETS = 5
MIN_SIDE = 5
SMALLEST_WINDOW = 10
RANKS = 27

TIME, WIDTH, ERRORS, HIGHEST, BUCKETS = range(5)
STEP = 1 + MAX_BUCKETS + 1  # numbers a rank: one bucket more than it keeps
ROW = BUCKETS + RANKS * STEP


@kernel(inline=True)
def error_rate(window):
    """Share of errors in the window; 0 before the first value."""
    return window[ERRORS] / window[WIDTH] if window[WIDTH] > 0 else 0.0


@kernel(inline=True)
def add_error(window, error):
    """Append 0 or 1, merging ranks that overflow; whether a cut is due. Mutates window. Amortised O(1)."""
    window[WIDTH] += 1
    window[ERRORS] += error
    window[BUCKETS] += 1
    window[BUCKETS + window[BUCKETS]] = error
    if window[BUCKETS] > MAX_BUCKETS:
        _merge(window)
    window[TIME] += 1
    if window[TIME] < CLOCK:
        return False
    window[TIME] = 0
    return window[WIDTH] > SMALLEST_WINDOW


@kernel
def _merge(window):
    """Merge the two oldest buckets of each rank that overflows into one of the next. Mutates window."""
    rank = 0
    at = BUCKETS
    while window[at] > MAX_BUCKETS:
        if rank == RANKS - 1:
            drop_oldest(window)
            return
        above = at + STEP
        window[above] += 1
        window[above + window[above]] = window[at + 1] + window[at + 2]
        for k in range(3, MAX_BUCKETS + 2):
            window[at + k - 2] = window[at + k]
        window[at + MAX_BUCKETS] = 0
        window[at + MAX_BUCKETS + 1] = 0
        window[at] -= 2
        rank += 1
        at = above
    window[HIGHEST] = max(window[HIGHEST], rank)


@kernel
def drop_oldest(window):
    """Take the oldest bucket out of the window. Mutates window. O(MAX_BUCKETS)."""
    rank = window[HIGHEST]
    at = BUCKETS + rank * STEP
    window[WIDTH] -= 1 << rank
    window[ERRORS] -= window[at + 1]
    n = window[at]
    for k in range(1, n):
        window[at + k] = window[at + k + 1]
    window[at + n] = 0
    window[at] = n - 1
    while window[HIGHEST] > 0 and window[BUCKETS + window[HIGHEST] * STEP] == 0:
        window[HIGHEST] -= 1


@kernel
def has_cut(window, delta):
    """Whether the error rates differ at some cut between buckets. O(MAX_BUCKETS log(width)).

    The bound is above sqrt(2 L v / older + 2 L v / newer), L the logarithm and v the variance, and most cuts are ruled
    out by comparing squares with that.
    """
    width = float(window[WIDTH])
    errors = float(window[ERRORS])
    log_term = log(2.0 * log(width) / delta)
    rate = errors / width
    variance = rate * (1.0 - rate)
    least = 1.999999 * variance * log_term * width
    older = 0.0
    older_errors = 0.0
    size = math.ldexp(1.0, window[HIGHEST])
    for rank in range(window[HIGHEST], -1, -1):
        at = BUCKETS + rank * STEP
        for k in range(1, window[at] + 1):
            older += size
            older_errors += window[at + k]
            newer = width - older
            if newer <= MIN_SIDE + 1:
                return False
            if older <= MIN_SIDE + 1:
                continue
            difference = older_errors * newer - (errors - older_errors) * older
            if difference * difference > least * older * newer:
                inverse = 1.0 / (older - MIN_SIDE + 1) + 1.0 / (newer - MIN_SIDE + 1)
                bound = math.sqrt(2.0 * inverse * variance * log_term) + 2.0 / 3.0 * log_term * inverse
                if abs(older_errors / older - (errors - older_errors) / newer) > bound:
                    return True
        size *= 0.5
    return False


@kernel
def cut(window, delta):
    """Drop the oldest buckets while the window differs at some cut; whether any was. Mutates window."""
    found = False
    while has_cut(window, delta):
        drop_oldest(window)
        found = True
    return found
