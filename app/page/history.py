"""Series over time that are kept in bounded memory: fine lately, coarser further back. Pure.

A series is a number that is told every few seconds, say the accuracy of a model in a partition. It is kept in four
tiers of buckets, each with the least, the largest and the mean value of its time. Buckets are aligned to absolute time,
so that a picture does not shimmer while time goes on, and values may come in any order: of a topic the last hour is
read first, and the days before it after that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]


class Tier(NamedTuple):
    """Buckets of one width.

    width : ms of a bucket.
    n : how many are kept.
    """

    width: int
    n: int


TIERS = (  # a quarter of an hour, an hour, a day, eight days
    Tier(2_000, 450),
    Tier(10_000, 360),
    Tier(60_000, 1440),
    Tier(600_000, 1152),
)
MOST = 1e30  # largest value; sums of many stay within float32
BLOCK = 48  # buckets that are stored together
FIELDS = 4  # numbers of a bucket: least, largest, mean, number of values


class SeriesSpan(NamedTuple):
    """Part of a series, as equal steps of time.

    start : ms of the first bucket.
    width : ms of each.
    low, high, mean : (n,) float32, NaN where nothing was told.
    """

    start: int
    width: int
    low: Floats32
    high: Floats32
    mean: Floats32


class TimeSeries:
    """One number over time.

    A tier is a ring: bucket number b (time divided by width) stands at b modulo n. Only the newest n buckets are there.
    """

    def __init__(self) -> None:
        self.rings = [np.full((tier.n, FIELDS), np.nan, np.float32) for tier in TIERS]
        self.newest = [-1] * len(TIERS)  # bucket number
        self.dirty: set[tuple[int, int]] = set()  # (tier, block number) with values that were not stored

    def add(self, time: int, value: float) -> None:
        """Take a value. time : ms since 1970."""
        value = min(max(value, -MOST), MOST)
        for i, (tier, ring) in enumerate(zip(TIERS, self.rings, strict=True)):
            number = time // tier.width
            if number <= self.newest[i] - tier.n:
                continue
            self._advance(i, number)
            place = number % tier.n
            low, high, mean, n = ring[place].tolist()  # Python's own numbers: numpy's are five times as slow here
            if n != n:
                ring[place] = value, value, value, 1.0
            else:
                ring[place] = min(low, value), max(high, value), mean + (value - mean) / (n + 1.0), n + 1.0
            self.dirty.add((i, number // BLOCK))

    def _advance(self, i: int, number: int) -> None:
        """Make `number` the newest bucket of tier i, if it is later: what was at its place, and between, is gone."""
        tier, ring, newest = TIERS[i], self.rings[i], self.newest[i]
        if number <= newest:
            return
        if number - newest >= tier.n:
            ring[:] = np.nan
        else:
            ring[np.arange(newest + 1, number + 1) % tier.n] = np.nan
        self.newest[i] = number

    def since(self, least: float) -> int | None:
        """ms since when a value has been above `least` that only grows until it begins anew; None where it is not."""
        found = None
        for tier, ring, newest in zip(TIERS, self.rings, self.newest, strict=True):
            numbers = np.arange(max(0, newest - tier.n + 1), newest + 1)
            rows = ring[numbers % tier.n]
            numbers, values = numbers[~np.isnan(rows[:, 3])], rows[~np.isnan(rows[:, 3]), 1]
            if not len(values) or values[-1] <= least:
                return found
            falls = np.flatnonzero(np.diff(values) < 0.0)
            begun = int(falls[-1]) + 1 if len(falls) else 0
            first = begun + int(np.argmax(values[begun:] > least))
            at = int(numbers[first]) * tier.width
            if found is None or not at <= found < at + tier.width:  # else the finer tier says it better
                found = at
            if first:
                break  # what was before is known: coarser tiers say no more
        return found

    def between(self, start: int, stop: int, n: int, carry: int = 0) -> SeriesSpan:
        """About n buckets, at most twice as many, of the finest tier that reaches back to `start`. All in ms.

        carry : how long a value stands where no other one comes, and at least for one bucket; 0 for not at all.
        """
        i = next((i for i, tier in enumerate(TIERS) if start >= stop - tier.n * tier.width), len(TIERS) - 1)
        tier, ring = TIERS[i], self.rings[i]
        together = max(1, -(-(stop - start) // (tier.width * n)))  # fine buckets that become one
        width = tier.width * together
        carried = -(-carry // width)  # buckets
        first, last = start // width - carried, max(start, stop - 1) // width
        numbers = np.arange(first * together, (last + 1) * together)
        rows = ring[numbers % tier.n]
        rows[(numbers > self.newest[i]) | (numbers <= self.newest[i] - tier.n)] = np.nan
        grouped = rows.reshape(-1, together, FIELDS)
        count = np.nan_to_num(grouped[:, :, 3])
        total = count.sum(axis=1)
        with np.errstate(invalid="ignore"):
            mean = np.nan_to_num(grouped[:, :, 2] * count).sum(axis=1) / np.where(total, total, np.nan)
        low, high = np.fmin.reduce(grouped[:, :, 0], axis=1), np.fmax.reduce(grouped[:, :, 1], axis=1)
        if carried:
            at = np.arange(len(mean))
            of = np.maximum.accumulate(np.where(np.isnan(mean), -1, at))  # the bucket whose value stands
            gaps = np.isnan(mean) & (of >= 0) & (at - of <= carried)
            mean[gaps] = low[gaps] = high[gaps] = mean[of[gaps]]
            low, high, mean = low[carried:], high[carried:], mean[carried:]
        return SeriesSpan(int((first + carried) * width), width, low, high, mean.astype(np.float32))

    # -- what is stored ----------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[tuple[int, int, bytes]]:
        """(tier, block number, values) of the blocks that changed since the last call. A block is BLOCK buckets."""
        changed, self.dirty = self.dirty, set()
        for i, block in sorted(changed):
            if (block + 1) * BLOCK <= self.newest[i] - TIERS[i].n:
                continue  # out of the ring by now
            numbers = np.arange(block * BLOCK, (block + 1) * BLOCK)
            rows = self.rings[i][numbers % TIERS[i].n]
            rows[(numbers > self.newest[i]) | (numbers <= self.newest[i] - TIERS[i].n)] = np.nan
            yield i, block, rows.tobytes()

    def restore(self, i: int, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Take stored blocks of tier i back, all in one go: one by one they cost ten times as much.

        blocks : (block number, values), the oldest first.
        """
        rows = np.frombuffer(b"".join(values for _, values in blocks), np.float32).reshape(-1, FIELDS)
        numbers = (np.array([block for block, _ in blocks])[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        there = ~np.isnan(rows[:, 3])
        if there.any():
            self._advance(i, int(numbers[there].max()))
            there &= numbers > self.newest[i] - TIERS[i].n
            self.rings[i][numbers[there] % TIERS[i].n] = rows[there]


def together(ranges: list[SeriesSpan], how: str) -> SeriesSpan:
    """The series of several partitions as one: their `sum`, their `mean`, or the `max`imum. All of the same buckets."""
    first = ranges[0]
    if len(ranges) == 1:
        return first
    low, high, mean = (np.stack([getattr(each, name) for each in ranges]) for name in ("low", "high", "mean"))
    known = ~np.isnan(mean).all(axis=0)

    made: dict[str, Callable[..., Any]] = {"sum": np.nansum, "mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}

    def merged(values: Floats32, how: str) -> Floats32:
        found = np.full(values.shape[1], np.nan, np.float32)
        found[known] = made[how](values[:, known], axis=0)
        return found

    ends = ("sum", "sum") if how == "sum" else ("min", "max")
    return SeriesSpan(first.start, first.width, merged(low, ends[0]), merged(high, ends[1]), merged(mean, how))
