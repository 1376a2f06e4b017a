"""The kernels of an index whose ids are hashes of 128 bits: an entry holds the two words of its own in START and MARK.

There is no text, so what finds a hash and what is known of it lie in one line of the processor's cache.
"""

import numpy as np

from riparian.app.partition.join.joining import MARK, ROW_BITS, ROW_MASK, START, enter
from riparian.models.kernels.kernel import kernel


@kernel(inline=True)
def tag_of(index, one, other):
    """31 bits by which a hash is looked for: the high ones of a sum of products with the index's own numbers
    (Dietzfelbinger, Hagerup, Katajainen, Penttonen: A reliable randomized algorithm for the closest-pair problem.
    J. Algorithms 25, 1997), so nobody can choose texts whose hashes all have the same."""
    found = np.uint64(one) * (index.key[0] | np.uint64(1)) + np.uint64(other) * (index.key[1] | np.uint64(1))
    return np.int64(found >> np.uint64(33))


@kernel(inline=True)
def find_hash(index, one, other):
    """The row of the hash of these two words, or -1. O(1)."""
    slots, entries = index.slots, index.entries
    mask, tag = len(slots) - 1, tag_of(index, one, other)
    slot = tag & mask
    while slots[slot] != 0:
        if slots[slot] >> ROW_BITS == tag:
            row = (slots[slot] & ROW_MASK) - 1
            if entries[row, START] == one and entries[row, MARK] == other:
                return row
        slot = (slot + 1) & mask
    return -1


@kernel(inline=True)
def put_hash(index, row, one, other, now):
    """Row waits under a hash that has none yet, from now on. O(1)."""
    index.entries[row, START] = one
    index.entries[row, MARK] = other
    enter(index, row, tag_of(index, one, other), now)


@kernel
def put_hashes(index, rows, hashes, times):
    """All of (n, 2) int64 hashes wait, in this order; none of them does yet."""
    for i in range(len(rows)):
        put_hash(index, rows[i], hashes[i, 0], hashes[i, 1], times[i])
