"""Rows of both memories, the scales that make features comparable, and the neighbours of an instance.

Rows lie feature by feature, so that a distance to many rows is a loop over neighbouring numbers: each lane of a vector
instruction is a row, and each row's sum has the order of the features whatever the width of the machine.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LARGEST_TARGET, Floats
from riparian.models.joined import zeros
from riparian.models.kernels.kernel import kernel
from riparian.models.running_scale import held

# Places in `counts`: labels learned, rows of each memory.
LEARNED, SHORT, LONG = range(3)
# Rows of `scales`, and of `used`.
N, MEAN, VARIANCE = range(3)
CENTRE, INVERSE = range(2)
# Who predicts, and rows of `best` and `place`.
BY_SHORT, BY_LONG, BY_BOTH = range(3)

FARTHEST = 1e6  # deviations from the mean that a value counts as at most
LARGEST_WEIGHT = 1e100
NEAREST = 1e-6  # a row that is nearer votes as one at this distance
ZERO = np.float32(0.0)
# Squared distance of two different values, or of a value and none: one deviation.
APART = np.float32(1.0)


class Memories(NamedTuple):
    """The short-term memory has places 0 .., oldest first, the long-term memory those from `window` on.

    raw : (d, window + long) float64, NaN where a value is missing.
    scaled : the same float32, standardised by `used`; nominal codes as they are.
    y, w : (window + long,).
    losses : (window, 3), of the predictions by each of BY_SHORT, … before a row was learned.
    totals : (3,), the sums of losses.
    sums : of the window that begins at each place that `minimum` divides, the losses from its second row on.
    scales : (3, d + 1), running N, MEAN and VARIANCE of each feature, and of the target.
    used : (2, d + 1), CENTRE and INVERSE deviation, copied from scales from time to time.
    counts : (3,) int64.
    """

    raw: Floats
    scaled: NDArray[np.float32]
    y: Floats
    w: Floats
    losses: Floats
    totals: Floats
    sums: Floats
    scales: Floats
    used: Floats
    counts: NDArray[np.int64]


class NeighbourScratch(NamedTuple):
    """query : (d,). distance : (window + long,), squared. best, place : (3, k), neighbours, nearest first. marked :
    (window,) uint8. nearest, seed, order, ends, mean : (long,), of models.neighbours.adaptation._compress."""

    query: NDArray[np.float32]
    distance: NDArray[np.float32]
    best: NDArray[np.float32]
    place: NDArray[np.int64]
    marked: NDArray[np.uint8]
    nearest: NDArray[np.float32]
    seed: NDArray[np.int64]
    order: NDArray[np.int64]
    ends: NDArray[np.int64]
    mean: Floats


class NeighbourSettings(NamedTuple):
    """The parameters, whether labels are classes, and which features are nominal."""

    k: int
    window: int
    long: int
    minimum: int
    classes: bool
    nominal: NDArray[np.uint8]


def room_for_memories(d: int, settings: NeighbourSettings) -> Memories:
    window, rows = settings.window, settings.window + settings.long
    n_sums = window // settings.minimum + 1
    return zeros(Memories, (d, rows), (d, rows), rows, rows, (window, 3), 3, n_sums, (3, d + 1), (2, d + 1), 3)


def scratch_for(d: int, settings: NeighbourSettings) -> NeighbourScratch:
    k, window, long = settings.k, settings.window, settings.long
    return zeros(NeighbourScratch, d, window + long, (3, k), (3, k), window, long, long, long, long, long)


@kernel(inline=True)
def standardised(value, used, f, nominal):
    if nominal[f] or value != value:
        return np.float32(value)
    z = (value - used[CENTRE, f]) * used[INVERSE, f]
    return np.float32(min(FARTHEST, max(-FARTHEST, z)))


@kernel(inline=True)
def valid(value):
    """The value, or NaN where it counts as missing."""
    return value if abs(value) <= LARGEST_TARGET else np.nan


@kernel
def grow_scale(scales, f, value, window):
    """Take a value into a running mean and variance. Mutates scales. O(1)."""
    scales[N, f] += 1.0
    n = min(scales[N, f], float(window))
    apart = value - scales[MEAN, f]
    square = held(apart * apart, scales[VARIANCE, f], n)
    if square < apart * apart:
        apart = math.copysign(math.sqrt(square), apart)
    scales[MEAN, f] += apart / n
    scales[VARIANCE, f] += (square * (1.0 - 1.0 / n) - scales[VARIANCE, f]) / n


@kernel
def renew_scales(memories):
    """Use the running scales from here on. Mutates memories. O(d)."""
    for f in range(memories.used.shape[1]):
        variance = memories.scales[VARIANCE, f]
        memories.used[CENTRE, f] = memories.scales[MEAN, f]
        memories.used[INVERSE, f] = 1.0 / math.sqrt(variance) if variance > 0.0 else 0.0


@kernel
def scale_rows(memories, nominal, start, stop):
    """Standardise rows anew. Mutates memories. O(d rows)."""
    for f in range(len(nominal)):
        for i in range(start, stop):
            memories.scaled[f, i] = standardised(memories.raw[f, i], memories.used, f, nominal)


@kernel
def measure(scaled, nominal, query, start, stop, distance):
    """Squared distances of rows from an instance. Mutates distance. O(d rows)."""
    found = distance[start:stop]
    for i in range(len(found)):
        found[i] = ZERO
    for f in range(len(query)):
        row, value = scaled[f, start:stop], query[f]
        if value != value:
            for i in range(len(found)):
                found[i] += ZERO if row[i] != row[i] else APART
        elif nominal[f]:
            for i in range(len(found)):
                found[i] += ZERO if row[i] == value else APART
        else:
            for i in range(len(found)):
                apart = row[i] - value
                square = apart * apart
                found[i] += square if square == square else APART


@kernel
def search(distance, start, stop, leave_out, best, place, n):
    """Add rows of these places, the last one first, to the n nearest so far; how many there are then. Of equal ones
    those stay that came first. Mutates best, place. O(rows k)."""
    k = len(best)
    for back in range(stop - start):
        i = stop - 1 - back
        apart = distance[i]
        if i == leave_out or (n == k and not apart < best[k - 1]):
            continue
        if n < k:
            n += 1
        j = n - 1
        while j > 0 and apart < best[j - 1]:
            best[j], place[j] = best[j - 1], place[j - 1]
            j -= 1
        best[j], place[j] = apart, i
    return n


@kernel
def merge(best, place, n_short, n_long):
    """The nearest of both memories from those of each; how many. Mutates best, place. O(k)."""
    k, i, j = best.shape[1], 0, 0
    while i + j < k and (i < n_short or j < n_long):
        if j == n_long or (i < n_short and best[BY_SHORT, i] <= best[BY_LONG, j]):
            best[BY_BOTH, i + j], place[BY_BOTH, i + j] = best[BY_SHORT, i], place[BY_SHORT, i]
            i += 1
        else:
            best[BY_BOTH, i + j], place[BY_BOTH, i + j] = best[BY_LONG, j], place[BY_LONG, j]
            j += 1
    return i + j


@kernel(inline=True)
def vote(best, place, i, w):
    return w[place[i]] / max(math.sqrt(np.float64(best[i])), NEAREST)


@kernel
def class_of(best, place, n, y, w):
    """The class of the greatest sum of n votes. O(n^2)."""
    found, most = -1.0, -1.0
    for i in range(n):
        label, total = y[place[i]], 0.0
        for j in range(n):
            if y[place[j]] == label:
                if j < i:
                    break
                total += vote(best, place, j, w)
        else:
            if total > most or (total == most and label < found):
                found, most = label, total
    return found


@kernel
def value_of(best, place, n, y, w):
    """The mean of n targets, by their votes. O(n)."""
    first, total, above = y[place[0]], 0.0, 0.0
    for i in range(n):
        share = vote(best, place, i, w)
        total += share
        above += share * (y[place[i]] - first)
    return first + above / total if total > 0.0 else first


@kernel
def loss_of(best, place, n, label, memories, classes):
    """Of what n neighbours predict, 0 .. 1. O(n^2)."""
    if n == 0:
        return 1.0
    if classes:
        return 0.0 if class_of(best, place, n, memories.y, memories.w) == label else 1.0
    error = abs(value_of(best, place, n, memories.y, memories.w) - label)
    inverse = memories.used[INVERSE, memories.used.shape[1] - 1]
    if inverse > 0.0:
        return min(1.0, error * inverse)
    return 0.0 if error == 0.0 else 1.0


@kernel(inline=True)
def who_predicts(memories):
    """The memory of the fewest losses over the rows that the short-term memory holds."""
    short, long, both = memories.totals[BY_SHORT], memories.totals[BY_LONG], memories.totals[BY_BOTH]
    if memories.counts[LONG] == 0 or (short <= long and short <= both):
        return BY_SHORT
    return BY_LONG if long <= both else BY_BOTH
