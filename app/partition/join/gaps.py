"""Gaps of stream time, which goes on by more than a minute at once (clock.py), for example after a week-end.

What arrived last before a gap counts as waiting since its end: it may have come at any time in between. Otherwise the
first records of Monday, which still have Friday's time, would expire at once.
"""

from riparian.models.kernels.kernel import kernel

# the clock: stream time, ms; columns that predictions have had up to now; rows of `gaps` that are used
NOW, WIDTH, N_GAPS, CLOCK = 0, 1, 2, 3
GAPS = 8  # that are remembered
NEVER = 2**62


@kernel
def note_gap(clock, gaps, horizon, start, end):
    """Time goes on from `start` to `end` at once. Forget the gaps that protect nothing any more; where there is still
    no room, the shortest."""
    n = 0
    for i in range(clock[N_GAPS]):
        if gaps[i, 1] >= end - horizon:
            gaps[n, 0], gaps[n, 1] = gaps[i, 0], gaps[i, 1]
            n += 1
    if n == len(gaps):
        shortest = 0
        for i in range(n):
            if gaps[i, 1] - gaps[i, 0] < gaps[shortest, 1] - gaps[shortest, 0]:
                shortest = i
        n -= 1
        for i in range(shortest, n):
            gaps[i, 0], gaps[i, 1] = gaps[i + 1, 0], gaps[i + 1, 1]
    gaps[n, 0], gaps[n, 1] = start, end
    clock[N_GAPS] = n + 1
