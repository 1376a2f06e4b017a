"""The kernels of the pending store: they find, add and remove what waits, and join features with labels.

What they work on is described in waiting_index.py. Each event takes the same time, amortised, however many instances
wait. No kernel can fail half way, since `WaitingIndex.reserve` makes room before a batch.

All of them, and the numbers of columns that they are compiled with, stand in this file: compiled kernels are kept by a
hash of their file and of what it imports of `models`, so an edit of another file here would not compile them anew.

Stream time may go on by more than a minute at once (clock.py), for example after a week-end without records. What
arrived last before such a *gap* counts as waiting since its end: it may have come at any time in between. Otherwise the
first records of Monday, which still have Friday's time, would expire at once.
"""

from typing import NamedTuple

import numpy as np

from app.partition.ids import Bytes, Ints
from models.contract import LEARN, PREDICT, Floats
from models.kernel import kernel

# columns of WaitingIndex.entries; with a spare one, an entry is as long as a line of the processor's cache
TAG, START, LENGTH, PLACE, ARRIVED, HOME, SERIAL, ENTRY_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 8
# numbers in WaitingIndex.at
N, N_FREE, N_LEFT = 0, 1, 2  # waiting; free rows; homes in `left`
HEAD, TAIL, SINCE = 3, 4, 5  # of the queue; where its tail was at the last checkpoint
TEXT_END, TEXT_LIVE = 6, 7  # bytes of text that are used, and that are needed
NEXT_SERIAL, READ = 8, 9  # number of the next arrival; what reading ahead came to, so that it is not optimised away
WEIGHED, EXTRA_LIVE, N_AT = 10, 11, 12  # whether rows have bytes beside those that all have; bytes of those that wait

# what happens to records, in PendingStore.counts
JOINED, EXPIRED, EVICTED, UNMATCHED, REPEATED_IDS, REPEATED_LABELS = 0, 1, 2, 3, 4, 5
# the clock: stream time, ms; columns that predictions have had up to now; rows of `gaps` that are used
NOW, WIDTH, N_GAPS, CLOCK = 0, 1, 2, 3
GAPS = 8  # that are remembered

ROW_BITS = 32
ROW_MASK = 0xFFFFFFFF
LARGE = 16_384  # rows from which on an index may not be in the processor's cache


class Batch(NamedTuple):
    """n records of one topic.

    text : (b,) uint8, their ids in UTF-8.
    ends : (n,) int64, the end of each in text.
    tags : (n,) int64, hashes of the ids (`app.partition.ids.tags`).
    times : (n,) int64 ms.
    y : (n,) float64, NaN for none; or empty.
    """

    text: Bytes
    ends: Ints
    tags: Ints
    times: Ints
    y: Floats


class Limits(NamedTuple):
    """What bounds the waiting instances and labels.

    horizon : ms that they may wait.
    max_pending, max_labels : how many may wait; of max_pending 0 says that none is to.
    max_bytes : that all instances may take.
    row_bytes : that an instance takes without its id and its predictions.
    column_bytes : that one column of predictions takes, of all models.
    width : columns that the predictions have.
    bound : ms; stream time that goes on by more at once leaves a gap.
    """

    horizon: int
    max_pending: int
    max_labels: int
    max_bytes: int
    row_bytes: int
    column_bytes: int
    width: int
    bound: int


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
    since = -1
    for i in range(at[HEAD], at[TAIL]):
        if i >= at[SINCE] and since < 0:
            since = n
        row = index.queue[i]
        if row >= 0:
            queue[n] = row
            entries[row, PLACE] = n
            n += 1
            start = entries[row, START]
            entries[row, START] = n_text
            for j in range(start, start + entries[row, LENGTH]):
                text[n_text] = index.text[j]
                n_text += 1
    at[HEAD] = 0
    at[TAIL] = n
    at[SINCE] = n if since < 0 else since
    at[TEXT_END] = n_text


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
def put(index, row, batch, i, now):
    """Row waits under id i, which does not wait yet, from now on. O(1)."""
    at, slots, entries = index.at, index.slots, index.entries
    mask = len(slots) - 1
    slot = batch.tags[i] & mask
    while slots[slot] != 0:
        slot = (slot + 1) & mask
    slots[slot] = (batch.tags[i] << ROW_BITS) | (row + 1)
    start = batch.ends[i - 1] if i > 0 else 0
    length = batch.ends[i] - start
    for j in range(length):
        index.text[at[TEXT_END] + j] = batch.text[start + j]
    entries[row, TAG] = batch.tags[i]
    entries[row, START] = at[TEXT_END]
    entries[row, LENGTH] = length
    entries[row, PLACE] = at[TAIL]
    entries[row, ARRIVED] = now
    entries[row, HOME] = -1
    entries[row, SERIAL] = at[NEXT_SERIAL]
    index.queue[at[TAIL]] = row
    at[TEXT_END] += length
    at[TEXT_LIVE] += length
    at[TAIL] += 1
    at[NEXT_SERIAL] += 1
    at[N] += 1
    if len(index.extra) > 0:
        at[EXTRA_LIVE] += index.extra[row]


@kernel
def put_all(index, rows, batch):
    """All of a batch wait, in its order; none of them does yet."""
    for i in range(len(rows)):
        put(index, rows[i], batch, i, batch.times[i])


@kernel
def _free(index, row):
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
    _free(index, row)


@kernel
def _oldest(index):
    """The row that has waited longest, or -1. Amortised O(1)."""
    at = index.at
    if at[N] == 0:
        return -1
    while index.queue[at[HEAD]] < 0:
        at[HEAD] += 1
    return index.queue[at[HEAD]]


@kernel
def _read_ahead(index, batch):
    """Read what finding these ids will need. Nothing here waits for anything read before, so the memory's answers
    overlap: at a million that wait in random order, joining takes 0.7 instead of 0.9 µs. Returns nonsense."""
    slots = index.slots
    mask = len(slots) - 1
    seen = 0
    for tag in batch.tags:
        seen += slots[tag & mask]
    for tag in batch.tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            seen += index.entries[(slot & ROW_MASK) - 1, START]
    for tag in batch.tags:
        slot = slots[tag & mask]
        if slot >> ROW_BITS == tag:
            row = (slot & ROW_MASK) - 1
            seen += index.text[index.entries[row, START]] + index.queue[index.entries[row, PLACE]]
    return seen


@kernel
def _since(index, row, clock, gaps):
    """From when on the row has waited: its arrival, or the end of the gap that time stood before."""
    arrived = index.entries[row, ARRIVED]
    for i in range(clock[N_GAPS]):
        if gaps[i, 0] == arrived:
            return gaps[i, 1]
    return arrived


@kernel
def _deadline(instances, labels, horizon, now, clock, gaps):
    """Stream time up to which nothing can expire. What waits longest may leave before: the next check then finds the
    new oldest, so a label that joins costs no bookkeeping."""
    since = now
    row = _oldest(instances)
    if row >= 0:
        since = min(since, _since(instances, row, clock, gaps))
    row = _oldest(labels)
    if row >= 0:
        since = min(since, _since(labels, row, clock, gaps))
    return since + horizon


@kernel
def _expire(instances, labels, counts, horizon, now, clock, gaps):
    """Drop what has waited longer than the horizon; the next deadline."""
    row = _oldest(instances)
    while row >= 0 and _since(instances, row, clock, gaps) < now - horizon:
        take_out(instances, row)
        counts[EXPIRED] += 1
        row = _oldest(instances)
    row = _oldest(labels)
    while row >= 0 and _since(labels, row, clock, gaps) < now - horizon:
        take_out(labels, row)
        counts[UNMATCHED] += 1
        row = _oldest(labels)
    return _deadline(instances, labels, horizon, now, clock, gaps)


@kernel
def _note_gap(clock, gaps, horizon, start, end):
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


@kernel
def join(instances, labels, early_y, limits, clock, gaps, counts, features, late, rows, before, op, row, y, waited):
    """Put a batch into the store and write the program; its length. O(records and what expires).

    instances, labels, early_y (y by row of `labels`), clock, counts : mutated. gaps : (GAPS, 2) int64 ms, mutated: from
    where to where time went on at once. features, late : Batch of n feature and m label records. rows : (n,) int32,
    taken for the features. before : (n,) int64, labels before each feature. op, row, y : (2 n + m,) and waited :
    (n + m,) int64 ms by LEARN: written.
    """
    n, m, width = len(features.ends), len(late.ends), limits.width
    now = clock[NOW]
    deadline = _deadline(instances, labels, limits.horizon, now, clock, gaps)
    if instances.at[N] > LARGE:
        instances.at[READ] = _read_ahead(instances, late) + _read_ahead(instances, features)
    k = n_learned = j = 0
    for i in range(n + 1):
        until = before[i] if i < n else m
        while j < until:
            if late.times[j] - now > limits.bound:
                _note_gap(clock, gaps, limits.horizon, now, late.times[j])
            now = max(now, late.times[j])
            if now > deadline:
                deadline = _expire(instances, labels, counts, limits.horizon, now, clock, gaps)
            label = late.y[j]
            while label >= clock[WIDTH] and clock[WIDTH] < width:
                clock[WIDTH] = min(2 * clock[WIDTH], width)
            found = find(instances, late, j)
            if found >= 0:
                op[k], row[k], y[k] = LEARN, found, label
                waited[n_learned] = now - _since(instances, found, clock, gaps)
                k += 1
                n_learned += 1
                counts[JOINED] += 1
                take_out(instances, found)
            elif find(labels, late, j) >= 0:
                counts[REPEATED_LABELS] += 1
            else:
                while labels.at[N] >= limits.max_labels:  # more than one where the bound was lowered
                    take_out(labels, _oldest(labels))
                    counts[UNMATCHED] += 1
                labels.at[N_FREE] -= 1
                early = labels.free[labels.at[N_FREE]]
                put(labels, early, late, j, now)
                early_y[early] = label
            j += 1
        if i == n:
            break
        if features.times[i] - now > limits.bound:
            _note_gap(clock, gaps, limits.horizon, now, features.times[i])
        now = max(now, features.times[i])
        if now > deadline:
            deadline = _expire(instances, labels, counts, limits.horizon, now, clock, gaps)
        op[k], row[k], y[k] = PREDICT, rows[i], np.nan
        k += 1
        label = features.y[i] if len(features.y) > 0 else np.nan
        while label >= clock[WIDTH] and clock[WIDTH] < width:
            clock[WIDTH] = min(2 * clock[WIDTH], width)
        if np.isnan(label) and labels.at[N] > 0:
            early = find(labels, features, i)
            if early >= 0:
                label = early_y[early]
                take_out(labels, early)
        if not np.isnan(label):
            op[k], row[k], y[k] = LEARN, rows[i], label
            waited[n_learned] = 0
            k += 1
            n_learned += 1
            counts[JOINED] += 1
            _free(instances, rows[i])
        elif limits.max_pending == 0:  # nothing waits
            _free(instances, rows[i])
        elif find(instances, features, i) >= 0:
            counts[REPEATED_IDS] += 1
            _free(instances, rows[i])
        else:
            put(instances, rows[i], features, i, now)
            each = limits.row_bytes + limits.column_bytes * clock[WIDTH]
            while (
                instances.at[N] > limits.max_pending
                or instances.at[N] * each + instances.at[TEXT_LIVE] + instances.at[EXTRA_LIVE] > limits.max_bytes
            ):
                take_out(instances, _oldest(instances))
                counts[EVICTED] += 1
    clock[NOW] = now
    return k
