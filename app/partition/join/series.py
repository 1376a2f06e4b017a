"""The records of each key that wait for their label, which a later record of the key is (`label.of` of a stream file).

A queue a key: rows of the pending store, linked in order of arrival, and found by the key's hash in a table with open
addressing. A row leaves at the head of its queue only: with its label, or as the oldest of all that wait. So neither
the links nor the table stand in a state: they follow from the rows, `about` them, and their order.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import zeros_above

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

TIME, KEY = 0, 1  # columns of `about`: ms; the key's hash, two words, 0 of one that is missing
FIRST, LAST = 0, 1  # columns of `slots`: a row + 1, 0 where free; a row


class Follow(NamedTuple):
    """What records are to those of their key that wait.

    times : (n,) int64 ms, of each record. keys : (n, 2) uint64, hashes; 0 of one that is missing. y : (n,) float64,
    the label; NaN of none.
    """

    times: Ints
    keys: Hashes
    y: Floats


class KeyQueues(NamedTuple):
    """With room for C rows; (0, …) where labels come otherwise.

    about : (C, 3) int64, by row. next : (C,) int32, by row: the next of its key, -1 of the last. slots : (power of
    two, 2) int32, by key: the first and the last that waits. key : (2,) uint64, of the process.
    """

    about: Ints
    next: NDArray[np.int32]
    slots: NDArray[np.int32]
    key: Hashes

    @classmethod
    def empty(cls, key: Hashes) -> "KeyQueues":
        return cls(np.zeros((0, KEY + 2), np.int64), np.zeros(0, np.int32), np.zeros((2, 2), np.int32), key)

    def linked(self, rows: Ints, about: Ints, after: NDArray[np.int32]) -> "KeyQueues":
        """With room for more. rows : those that wait, in order of arrival. about, after : what was grown of `about` and
        `next`."""
        slots = np.zeros((max(2, 1 << (2 * len(about)).bit_length()), 2), np.int32)
        larger = KeyQueues(about, after, slots, self.key)
        link(larger, rows)
        return larger

    @property
    def n_bytes(self) -> int:
        return self.about.nbytes + self.next.nbytes + self.slots.nbytes


@kernel(inline=True)
def _first_slot(series, row):
    """Where the search for the key of a row begins: by a product with a number of the process, so that nobody can
    choose keys that all begin in one place."""
    shift = zeros_above(np.uint64(len(series.slots))) + np.uint64(1)
    return np.int64((np.uint64(series.about[row, KEY]) * (series.key[0] | np.uint64(1))) >> shift)


@kernel(inline=True)
def _slot_of(series, row):
    """The slot of a row's key, or the free one in which it would stand. O(1)."""
    about, slots = series.about, series.slots
    mask = len(slots) - 1
    slot = _first_slot(series, row)
    while slots[slot, FIRST] != 0:
        first = slots[slot, FIRST] - 1
        if about[first, KEY] == about[row, KEY] and about[first, KEY + 1] == about[row, KEY + 1]:
            break
        slot = (slot + 1) & mask
    return slot


@kernel(inline=True)
def _has_key(series, row):
    return series.about[row, KEY] != 0 or series.about[row, KEY + 1] != 0


@kernel
def add(series, row):
    """Row waits, behind those of its key; nothing where that is missing. O(1)."""
    if not _has_key(series, row):
        return
    slot = _slot_of(series, row)
    series.next[row] = -1
    if series.slots[slot, FIRST] == 0:
        series.slots[slot, FIRST] = row + 1
    else:
        series.next[series.slots[slot, LAST]] = row
    series.slots[slot, LAST] = row


@kernel
def remove(series, row):
    """Row, the first of its key, waits no longer. O(1)."""
    if not _has_key(series, row):
        return
    slots = series.slots
    gap = _slot_of(series, row)
    if series.next[row] >= 0:
        slots[gap, FIRST] = series.next[row] + 1
        return
    mask = len(slots) - 1
    slot = (gap + 1) & mask
    while slots[slot, FIRST] != 0:  # what stands behind the gap moves up, unless its search begins behind the gap
        first = _first_slot(series, slots[slot, FIRST] - 1)
        if (slot - first) & mask >= (slot - gap) & mask:
            slots[gap, FIRST], slots[gap, LAST] = slots[slot, FIRST], slots[slot, LAST]
            gap = slot
        slot = (slot + 1) & mask
    slots[gap, FIRST] = 0


@kernel
def first_due(series, row, ahead):
    """The row that waits longest of those of the key of `row`, if it is at least `ahead` before that one's time; else
    -1. O(1)."""
    if not _has_key(series, row):
        return -1
    first = series.slots[_slot_of(series, row), FIRST] - 1
    if first >= 0 and series.about[row, TIME] - series.about[first, TIME] >= ahead:
        return first
    return -1


@kernel
def link(series, rows):
    """All of these wait, in this order."""
    for row in rows:
        add(series, row)


def forget(series: KeyQueues, rows: Ints, words: NDArray[Any]) -> Ints:
    """Those of `rows`, which wait, whose key has this hash (2,): it is missing from here on, and they have no queue."""
    found: Ints = rows[(series.about[rows, KEY:] == words).all(axis=1)]
    series.about[found, KEY:] = 0
    return found
