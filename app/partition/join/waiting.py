"""The kernels of an index of what waits (waiting_index.py): they find, add and remove. None can fail half way."""

from typing import NamedTuple

import numpy as np

from riparian.app.partition.join.gaps import N_GAPS
from riparian.app.partition.join.ids import Bytes, Hashes, Ints
from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel

# columns of WaitingIndex.entries; an entry is as long as a line of the processor's cache
TAG, START, LENGTH, PLACE, ARRIVED, HOME, SERIAL, MARK, ENTRY_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7, 8
# numbers in WaitingIndex.at
N, N_FREE, N_LEFT = 0, 1, 2  # waiting; free rows; homes in `left`
HEAD, TAIL, SINCE = 3, 4, 5  # of the queue; where its tail was at the last checkpoint
TEXT_END, TEXT_LIVE = 6, 7  # bytes of text that are used, and that are needed
NEXT_SERIAL, READ = 8, 9  # number of the next arrival; what reading ahead came to, so that it is not optimised away
WEIGHED, EXTRA_LIVE = 10, 11  # whether rows have bytes beside those that all have; bytes of those that wait
MATURE = 12  # of the queue: what is before it has waited for its time
HASHED = 13  # whether ids are hashes of 128 bits: an entry has the two words of its own in START and MARK, and no text
N_AT = 14

ROW_BITS = 32
ROW_MASK = 0xFFFFFFFF
NO_HASHES: Hashes = np.zeros(0, np.uint64)
LARGE = 16_384  # rows from which on an index may not be in the processor's cache


class Batch(NamedTuple):
    """n records of one topic.

    text : (b,) uint8, their ids in UTF-8.
    ends : (n,) int64, the end of each in text.
    tags : (n,) int64, hashes of the ids (`app.partition.join.ids.tags`).
    times : (n,) int64 ms.
    y : (n,) float64; or empty. NaN of features: no label; of labels: null, none will come.
    digests : (n,) uint64, further hashes of the ids (`app.partition.join.ids.write_digests`); or empty.
    words : the numbers that begin at each byte of text; or empty.
    """

    text: Bytes
    ends: Ints
    tags: Ints
    times: Ints
    y: Floats
    digests: Hashes = NO_HASHES
    words: Hashes = NO_HASHES


@kernel
def rehash(old, new):
    """Put what is in the table `old` into the empty table `new`. O(slots)."""
    mask = len(new) - 1
    for slot in old:
        if slot != 0:
            i = (slot >> ROW_BITS) & mask
            while new[i] != 0:
                i = (i + 1) & mask
            new[i] = slot


@kernel
def compact(index, queue, text):
    """Move the queue and the ids that wait to the beginning of `queue` and `text` (the index's own, or others), without
    gaps. O(queue and text)."""
    at, entries = index.at, index.entries
    n = n_text = 0
    since = mature = -1
    for i in range(at[HEAD], at[TAIL]):
        if i >= at[SINCE] and since < 0:
            since = n
        if i >= at[MATURE] and mature < 0:
            mature = n
        row = index.queue[i]
        if row >= 0:
            queue[n] = row
            entries[row, PLACE] = n
            n += 1
            start, length = entries[row, START], entries[row, LENGTH]
            if length > 0:
                entries[row, START] = n_text
            for j in range(start, start + length):
                text[n_text] = index.text[j]
                n_text += 1
    at[HEAD] = 0
    at[TAIL] = n
    at[SINCE] = n if since < 0 else since
    at[MATURE] = n if mature < 0 else mature
    at[TEXT_END] = n_text


@kernel
def ascends(index, stop):
    """Whether the numbers of all in the queue, which has no gaps, ascend from 0 on and below `stop`."""
    last = -1
    for i in range(index.at[TAIL]):
        serial = index.entries[index.queue[i], SERIAL]
        if serial <= last:
            return False
        last = serial
    return last < stop


@kernel
def find(index, batch, i):
    """The row that waits under id i, or -1. O(1)."""
    slots = index.slots
    mask = len(slots) - 1
    tag = batch.tags[i]
    start = batch.ends[i - 1] if i > 0 else 0
    length = batch.ends[i] - start
    slot = tag & mask
    while slots[slot] != 0:
        if slots[slot] >> ROW_BITS == tag:
            row = (slots[slot] & ROW_MASK) - 1
            if index.entries[row, LENGTH] == length:
                begin = index.entries[row, START]
                j = 0
                while j < length and index.text[begin + j] == batch.text[start + j]:
                    j += 1
                if j == length:
                    return row
        slot = (slot + 1) & mask
    return -1


@kernel
def enter(index, row, tag, now):
    """Row waits from now on, under an id of this tag that does not wait yet. O(1)."""
    at, slots, entries = index.at, index.slots, index.entries
    mask = len(slots) - 1
    slot = tag & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = (tag << ROW_BITS) | (row + 1)
    entries[row, TAG] = tag
    entries[row, PLACE] = at[TAIL]
    entries[row, ARRIVED] = now
    entries[row, HOME] = -1
    entries[row, SERIAL] = at[NEXT_SERIAL]
    index.queue[at[TAIL]] = row
    at[TAIL] += 1
    at[NEXT_SERIAL] += 1
    at[N] += 1
    if len(index.extra) > 0:
        at[EXTRA_LIVE] += index.extra[row]


@kernel
def put(index, row, batch, i, now):
    """Row waits under id i, which does not wait yet, from now on. O(1)."""
    at, entries = index.at, index.entries
    start = batch.ends[i - 1] if i > 0 else 0
    length = batch.ends[i] - start
    for j in range(length):
        index.text[at[TEXT_END] + j] = batch.text[start + j]
    entries[row, START] = at[TEXT_END]
    entries[row, LENGTH] = length
    at[TEXT_END] += length
    at[TEXT_LIVE] += length
    enter(index, row, batch.tags[i], now)


@kernel
def put_all(index, rows, batch):
    """All of a batch wait, in its order; none of them does yet."""
    for i in range(len(rows)):
        put(index, rows[i], batch, i, batch.times[i])


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


@kernel
def free_row(index, row):
    """Row can be taken again. Rows are taken before a program is made, so none means two things within one."""
    index.free[index.at[N_FREE]] = row
    index.at[N_FREE] += 1


@kernel
def take_out(index, row):
    """Row waits no longer. O(1)."""
    at, slots, entries = index.at, index.slots, index.entries
    mask = len(slots) - 1
    gap = entries[row, TAG] & mask
    while slots[gap] & ROW_MASK != row + 1:
        gap = (gap + 1) & mask
    # What stands behind the gap moves up, unless its search begins behind the gap.
    slot = (gap + 1) & mask
    while slots[slot] != 0:
        first = (slots[slot] >> ROW_BITS) & mask
        if (slot - first) & mask >= (slot - gap) & mask:
            slots[gap] = slots[slot]
            gap = slot
        slot = (slot + 1) & mask
    slots[gap] = 0
    index.queue[entries[row, PLACE]] = -1
    at[TEXT_LIVE] -= entries[row, LENGTH]
    at[N] -= 1
    if len(index.extra) > 0:
        at[EXTRA_LIVE] -= index.extra[row]
    if entries[row, HOME] >= 0:
        index.left[at[N_LEFT]] = entries[row, HOME]
        at[N_LEFT] += 1
    free_row(index, row)


@kernel
def oldest(index):
    """The row that has waited longest, or -1. Amortised O(1)."""
    at = index.at
    if at[N] == 0:
        return -1
    while index.queue[at[HEAD]] < 0:
        at[HEAD] += 1
    return index.queue[at[HEAD]]


@kernel
def read_ahead(index, tags):
    """Read what finding ids of these tags needs. Nothing here waits for anything read before, so the memory's answers
    overlap: at a million that wait in random order, joining takes 0.7 instead of 0.9 µs. Returns nonsense."""
    slots = index.slots
    mask = len(slots) - 1
    seen = 0
    for tag in tags:
        seen += slots[tag & mask]
    for tag in tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            seen += index.entries[(slot & ROW_MASK) - 1, START]
    for tag in tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            row = (slot & ROW_MASK) - 1
            seen += index.text[index.entries[row, START]] + index.queue[index.entries[row, PLACE]]
    return seen


@kernel
def waits_since(index, row, clock, gaps):
    """From when on the row has waited: its arrival, or the end of the gap that time stood before."""
    arrived = index.entries[row, ARRIVED]
    for i in range(clock[N_GAPS]):
        if gaps[i, 0] == arrived:
            return gaps[i, 1]
    return arrived
