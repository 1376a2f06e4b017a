"""Stream time: what is known of the moment up to which a topic has come, by its records' Kafka timestamps.

Timestamps run backwards here and there (several producers, clock skew), so time is a running maximum. But producers
also send what no clock showed: microseconds for milliseconds, a device's first hours. A plain maximum would stay there
for ever, and all that waits would expire. So one record moves time by at most BOUND_MS. One that is further ahead, a
*leap*, is believed once CONFIRMATIONS records after it are as late: of the last four timestamps the lowest always
counts, and from there (or from the time so far) every other that is reached by steps of at most BOUND_MS.

- `Clock` knows the records up to now: its time is a function of the order of one topic alone. Expiry goes by it.
- `orders` knows the three records after one, too: by this, two topics are merged. Where all timestamps are right,
  the order is theirs, also where every record is a leap.

The two agree except for the last three records: `Clock.time` and `Clock.stamps` are all that an order goes on from.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel

Ints = NDArray[np.int64]

BOUND_MS = 60_000  # clocks of producers are apart by seconds; a topic that rests for longer needs confirmation
CONFIRMATIONS = 3
BELIEVED, IGNORED = 0, 1  # what became of leaps
LEAPS = ("believed_leaps", "ignored_leaps")
LATEST_MS = 253_402_300_799_999  # the end of the year 9999: nothing is later, so sums cannot overflow


@kernel(inline=True)
def _reach(base, a, b, c, d):
    """Where one gets from `base` by steps of at most BOUND_MS up the four timestamps."""
    a, b = min(a, b), max(a, b)
    c, d = min(c, d), max(c, d)
    a, c = min(a, c), max(a, c)
    b, d = min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    for stamp in (a, b, c, d):
        if stamp - base > BOUND_MS:
            break
        base = max(base, stamp)
    return base


@kernel
def _times(stamps, time, times):
    """Write the time after each record. stamps : (n + 3,), of three records before as well. times : (n,)."""
    for i in range(len(times)):
        a, b, c, d = stamps[i], stamps[i + 1], stamps[i + 2], stamps[i + 3]
        time = _reach(max(time, min(min(a, b), min(c, d))), a, b, c, d)
        times[i] = time


@kernel
def _orders(stamps, order, written):
    """Write where each record stands in order; how many of them stand there whatever comes next.

    stamps, written : (n,). order : of the record before.
    """
    n = settled = len(stamps)
    for i in range(n):
        a = stamps[i]
        if a - order <= BOUND_MS:
            order = max(order, a)
        else:
            if i + CONFIRMATIONS >= n and settled == n:
                settled = i
            b, c, d = stamps[min(i + 1, n - 1)], stamps[min(i + 2, n - 1)], stamps[min(i + 3, n - 1)]
            order = max(order, min(min(a, b), min(c, d)))
            if a <= _reach(order, a, b, c, d):
                order = a
        written[i] = order
    return settled


@kernel
def _rise(times, time):
    """Make timestamps their running maximum from `time` on. False where a record leaps: then some are."""
    for i in range(len(times)):
        times[i] = max(time, times[i])
        if times[i] - time > BOUND_MS:
            return False
        time = times[i]
    return True


def _maximum(stamps: Ints, time: int) -> Ints | None:
    """The running maximum, where no record leaps; else None."""
    times = stamps.copy()
    return times if _rise(times, time) else None


def warm_up() -> None:
    """Compile the kernel of records that do not leap, or load it from the cache."""
    _maximum(np.zeros(1, np.int64), 0)


def orders(stamps: Ints, order: int) -> tuple[Ints, int]:
    """Where consecutive records stand in the order of two topics, ms; and how many of them do whatever comes next.

    A leap among the last three can stand elsewhere once the records after it are known, and so can all behind it.

    Parameters
    ----------
    stamps : (n,) int64, n > 0
        Timestamps.
    order : int
        Where the record before them stands.
    """
    found = _maximum(stamps, order)
    if found is not None:
        return found, len(found)
    found = np.empty_like(stamps)
    return found, int(_orders(np.clip(stamps, 0, LATEST_MS), order, found))


class Clock:
    """The time of one topic, as far as its records were taken.

    Attributes
    ----------
    time : int
        Milliseconds; 0 while it is not known.
    stamps : tuple of 3 int
        The last timestamps, on which the next ones depend.
    leaps : list of int
        How often the time went on by more than BOUND_MS at once, after it was known (BELIEVED); and of how many
        records the timestamp was not taken, counted when the third one after them comes (IGNORED).
    """

    def __init__(self, time: int = 0, stamps: Sequence[int] = (), leaps: Sequence[int] = (0, 0)) -> None:
        self.time = min(max(time, 0), LATEST_MS)
        kept = [min(max(int(stamp), 0), LATEST_MS) for stamp in stamps][-CONFIRMATIONS:]
        self.stamps = (*[self.time] * (CONFIRMATIONS - len(kept)), *kept)
        believed, ignored = leaps
        self.leaps = [int(believed), int(ignored)]

    def advance(self, stamps: Ints) -> Ints:
        """The time after each of the next records, (n,) int64 ms."""
        if not len(stamps):
            return stamps
        before = self.stamps
        times = _maximum(stamps, self.time) if max(before) <= self.time else None
        if times is None:
            known = np.concatenate((np.array(self.stamps, np.int64), np.clip(stamps, 0, LATEST_MS)))
            times = np.empty_like(stamps)
            _times(known, self.time, times)
            steps = np.diff(times, prepend=self.time)
            if self.time == 0:
                steps[np.argmax(times > 0)] = 0
            self.leaps[BELIEVED] += int(np.count_nonzero(steps > BOUND_MS))
            self.leaps[IGNORED] += int(np.count_nonzero(known[: len(times)] > times))
            self.stamps = tuple(known[-CONFIRMATIONS:].tolist())
        else:
            self.stamps = (*before, *[max(stamp, 0) for stamp in stamps[-CONFIRMATIONS:].tolist()])[-CONFIRMATIONS:]
        self.time = int(times[-1])
        return times
