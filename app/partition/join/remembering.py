"""The kernels of ids that were joined (joined_ids.py): they remember and forget an instance that was learned.

A label that finds none waiting, and features that were not waiting, are looked up here.
"""

import numpy as np

from riparian.app.partition.join.counts import FORGOTTEN
from riparian.app.partition.join.gaps import NEVER
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import zeros_above

# numbers in JoinedIds.at: the first position that is remembered, the next one, rows of `times` that are used
FIRST, NEXT, N_TIMES, N_REMEMBERED = 0, 1, 2, 3
GRAINS = 64  # of a horizon: joined ids are forgotten together with others of the same grain


@kernel(inline=True)
def _first_slot(joined, digest):
    """Where the search for a joined id begins: by a product with a key of the process, so that nobody can choose ids
    that all begin in one place."""
    shift = zeros_above(np.uint64(len(joined.slots))) + np.uint64(1)
    return np.int64((digest * joined.key[0]) >> shift)


@kernel(inline=True)
def _slot_of(joined, digest):
    """The slot of a joined id, or the free one in which it would stand. O(1)."""
    slots, ring = joined.slots, joined.ring
    mask = len(slots) - 1
    slot = _first_slot(joined, digest)
    while slots[slot] != 0 and ring[slots[slot] - 1, 0] != digest:
        slot = (slot + 1) & mask
    return slot


@kernel(inline=True)
def recall(joined, digest):
    """The row in which an id was remembered last, or -1. O(1)."""
    return np.int64(joined.slots[_slot_of(joined, digest)]) - 1


@kernel(inline=True)
def _forget_first(joined):
    """Forget the position that was remembered first; whether its id is forgotten by that. O(1)."""
    at, slots, ring = joined.at, joined.slots, joined.ring
    mask = len(slots) - 1
    row = at[FIRST] & (len(ring) - 1)
    at[FIRST] += 1
    gap = _slot_of(joined, ring[row, 0])
    if np.int64(slots[gap]) != row + 1:  # the id was joined again since
        return False
    slot = (gap + 1) & mask
    while slots[slot] != 0:
        first = _first_slot(joined, ring[slots[slot] - 1, 0])
        if (slot - first) & mask >= (slot - gap) & mask:
            slots[gap] = slots[slot]
            gap = slot
        slot = (slot + 1) & mask
    slots[gap] = 0
    return True


@kernel
def _drop_time(joined):
    at, times = joined.at, joined.times
    for i in range(1, at[N_TIMES]):
        times[i - 1, 0], times[i - 1, 1] = times[i, 0], times[i, 1]
    at[N_TIMES] -= 1


@kernel(inline=True)
def _kept_for(horizon):
    return horizon + max(1, horizon // GRAINS)


@kernel
def forget_old(joined, horizon, now):
    """Forget what was joined longer ago than the horizon, and a grain; when to look again."""
    at, times = joined.at, joined.times
    kept = _kept_for(horizon)
    while at[N_TIMES] > 0 and now - times[0, 0] > kept:
        stop = times[1, 1] if at[N_TIMES] > 1 else at[NEXT]
        while at[FIRST] < stop:
            _forget_first(joined)
        _drop_time(joined)
    return times[0, 0] + kept if at[N_TIMES] > 0 else NEVER


@kernel(inline=True)
def _place_next(joined, digest, hashes):
    """Remember an id at the next position. O(1)."""
    row = joined.at[NEXT] & (len(joined.ring) - 1)
    slot = _slot_of(joined, digest)
    joined.ring[row, 0] = digest
    joined.ring[row, 1] = hashes
    joined.slots[slot] = row + 1
    joined.at[NEXT] += 1


@kernel
def place_all(joined, ring):
    """Remember all of `ring`, in its order."""
    for i in range(len(ring)):
        _place_next(joined, ring[i, 0], ring[i, 1])


@kernel(inline=True)
def _hash_of(y):
    """32 bits of a label. One that is null has the same, whatever the bits of its NaN are."""
    value = np.nan if np.isnan(y) else y + 0.0
    word = np.uint64(np.float64(value).view(np.int64)) * np.uint64(0x9E3779B97F4A7C15)
    return word >> np.uint64(32)


@kernel(inline=True)
def remember(joined, digest, mark, y, limits, now, counts):
    """An instance left with its label. mark : of its features. When to look for what is to be forgotten. Amortised
    O(1)."""
    at, times = joined.at, joined.times
    if limits.max_joined == 0:
        return NEVER
    while at[NEXT] - at[FIRST] >= limits.max_joined:
        if _forget_first(joined):
            counts[FORGOTTEN] += 1
        while at[N_TIMES] > 1 and times[1, 1] <= at[FIRST]:
            _drop_time(joined)
    n = at[N_TIMES]
    if n == 0 or (n < len(times) and now - times[n - 1, 0] > max(1, limits.horizon // GRAINS)):
        times[n, 0], times[n, 1] = now, at[NEXT]
        at[N_TIMES] += 1
    _place_next(joined, digest, np.uint64(mark) << np.uint64(32) | _hash_of(y))
    return times[0, 0] + _kept_for(limits.horizon)


@kernel(inline=True)
def same_label(joined, row, y):
    return joined.ring[row, 1] & np.uint64(0xFFFFFFFF) == _hash_of(y)


@kernel(inline=True)
def same_features(joined, row, mark):
    return joined.ring[row, 1] >> np.uint64(32) == np.uint64(mark)


@kernel
def mark_all(bits, sizes, marks):
    """Write 32 bits of the features of each instance. bits : (rows, d) uint64, those of x; sizes : (n,) int64, rows of
    each. A missing feature counts as none, so one that is new does not change the marks of those before."""
    k = 0
    for i in range(len(sizes)):
        mark = np.uint64(sizes[i])
        for _ in range(sizes[i]):
            for j in range(bits.shape[1]):
                word = bits[k, j]
                if word << np.uint64(1) <= np.uint64(0xFFE0000000000000):  # no NaN
                    if word << np.uint64(1) == np.uint64(0):
                        word = np.uint64(0)  # -0.0 is 0.0
                    mark = (mark ^ (word + np.uint64(j))) * np.uint64(0x9E3779B97F4A7C15)
                    mark ^= mark >> np.uint64(32)
            mark *= np.uint64(0x9E3779B97F4A7C15)
            k += 1
        marks[i] = np.int64(mark >> np.uint64(32))
