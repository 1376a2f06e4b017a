"""The kernels of the pending store: they find, add and remove what waits, and join features with labels.

What they work on is described in waiting_index.py. Each event takes the same time, amortised, however many instances
wait. No kernel can fail half way, since `WaitingIndex.reserve` makes room before a batch.

Stream time may go on by more than a minute at once (clock.py), for example after a week-end without records. What
arrived last before such a *gap* counts as waiting since its end: it may have come at any time in between. Otherwise the
first records of Monday, which still have Friday's time, would expire at once.

An instance that was learned is remembered by hashes (joined_ids.py): a label that finds none waiting, and features that
were not waiting, are looked up there.
"""

from typing import NamedTuple

import numpy as np

from riparian.app.partition.join.ids import Bytes, Hashes, Ints, digest_of, write_digests, write_tags
from riparian.app.partition.join.series import TIME, add, first_due, remove
from riparian.models.contract import LEARN, PREDICT, Floats
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import zeros_above

# columns of WaitingIndex.entries; an entry is as long as a line of the processor's cache
TAG, START, LENGTH, PLACE, ARRIVED, HOME, SERIAL, MARK, ENTRY_COLUMNS = 0, 1, 2, 3, 4, 5, 6, 7, 8
# numbers in WaitingIndex.at
N, N_FREE, N_LEFT = 0, 1, 2  # waiting; free rows; homes in `left`
HEAD, TAIL, SINCE = 3, 4, 5  # of the queue; where its tail was at the last checkpoint
TEXT_END, TEXT_LIVE = 6, 7  # bytes of text that are used, and that are needed
NEXT_SERIAL, READ = 8, 9  # number of the next arrival; what reading ahead came to, so that it is not optimised away
WEIGHED, EXTRA_LIVE = 10, 11  # whether rows have bytes beside those that all have; bytes of those that wait
MATURE = 12  # of the queue: what is before it has waited for its time
HASHED, N_AT = (
    13,
    14,
)  # whether ids are hashes of 128 bits: an entry has the two words of its own in START and MARK, and no text

# what happens to records, in PendingStore.counts
JOINED, EXPIRED, EVICTED, UNMATCHED, REPEATED_IDS, REPEATED_LABELS, CORRECTED, FORGOTTEN = 0, 1, 2, 3, 4, 5, 6, 7
NULL, ASSUMED, CORRECTIONS = 8, 9, 10
# operations besides PREDICT and LEARN, where labels wait for a time: a label has come that is learned later; it is
# learned, and counted before; another one is learned, or waits, in the place of one that was counted
CAME, MATURED, AMENDED, EXCHANGED = 2, 3, 4, 5
# numbers in JoinedIds.at: the first position that is remembered, the next one, rows of `times` that are used
FIRST, NEXT, N_TIMES, N_REMEMBERED = 0, 1, 2, 3
GRAINS = 64  # of a horizon: joined ids are forgotten together with others of the same grain
NEVER = 2**62
# the clock: stream time, ms; columns that predictions have had up to now; rows of `gaps` that are used
NOW, WIDTH, N_GAPS, CLOCK = 0, 1, 2, 3
GAPS = 8  # that are remembered
REPEATED = -1  # the mark of features whose id waits, or that were delivered again

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


class Limits(NamedTuple):
    """What bounds the waiting instances and labels.

    horizon : ms that they may wait.
    max_pending, max_labels : how many may wait; of max_pending 0 says that none is to.
    max_bytes : that all instances may take.
    row_bytes : that an instance takes without its id and its predictions.
    column_bytes : that one column of predictions takes, of all models.
    width : columns that the predictions have.
    bound : ms; stream time that goes on by more at once leaves a gap.
    max_joined : how many joined ids are remembered.
    after : ms after which a label is learned, or that none came; -1: as soon as it comes.
    assumed : the label of what has none by then; NaN: none.
    corrects : whether a label is learned again where another one comes.
    ahead : ms; how much later a record is that is the label of one of its key.
    """

    horizon: int
    max_pending: int
    max_labels: int
    max_bytes: int
    row_bytes: int
    column_bytes: int
    width: int
    bound: int
    max_joined: int
    after: int
    assumed: float
    corrects: bool
    ahead: int


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


@kernel(inline=True)
def _drop(instances, series, row):
    """An instance leaves, also those of its key. O(1)."""
    if len(series.next) > 0:
        remove(series, row)
    take_out(instances, row)


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
    row = oldest(instances)
    if row >= 0:
        since = min(since, _since(instances, row, clock, gaps))
    row = oldest(labels)
    if row >= 0:
        since = min(since, _since(labels, row, clock, gaps))
    return since + horizon


@kernel
def _expire(instances, labels, series, known, counts, limits, now, clock, gaps):
    """Drop what has waited longer than the horizon; the next deadline."""
    horizon = limits.horizon
    row = oldest(instances)
    while row >= 0 and _since(instances, row, clock, gaps) < now - horizon:
        if len(known) == 0 or not _is_learned(instances, known, limits, row):
            counts[EXPIRED] += 1
        _drop(instances, series, row)
        row = oldest(instances)
    row = oldest(labels)
    while row >= 0 and _since(labels, row, clock, gaps) < now - horizon:
        take_out(labels, row)
        counts[UNMATCHED] += 1
        row = oldest(labels)
    return _deadline(instances, labels, horizon, now, clock, gaps)


@kernel(inline=True)
def _is_mature(instances, limits, row):
    """Whether a row that waits has waited for its time."""
    return limits.after < 0 or instances.entries[row, PLACE] < instances.at[MATURE]


@kernel(inline=True)
def _is_assumed(instances, known, limits, row):
    """Whether a row that waits was learned by the label that is assumed."""
    return np.isnan(known[row]) and not np.isnan(limits.assumed) and _is_mature(instances, limits, row)


@kernel(inline=True)
def _is_learned(instances, known, limits, row):
    """Whether a row that waits was learned."""
    return _is_mature(instances, limits, row) and not (np.isnan(known[row]) and np.isnan(limits.assumed))


@kernel
def _stays(instances, known, limits, row, label):
    """Whether an instance waits on, though a label has met it."""
    said = not np.isnan(known[row])
    assumed = _is_assumed(instances, known, limits, row)
    if np.isnan(label):
        return said or assumed
    if said or limits.corrects or not _is_mature(instances, limits, row):
        return True
    return assumed and label == limits.assumed


@kernel
def _meet(instances, known, limits, counts, row, label):
    """What a label does that has met an instance which waits on: an operation, PREDICT for none."""
    before, mature = known[row], _is_mature(instances, limits, row)
    assumed = _is_assumed(instances, known, limits, row)
    if np.isnan(before) and not assumed:  # the first
        known[row] = label
        counts[JOINED] += mature
        return LEARN if mature else CAME
    if label == (limits.assumed if assumed else before):
        counts[REPEATED_LABELS] += 1
        return PREDICT
    if np.isnan(label) or not (assumed or limits.corrects):
        counts[CORRECTED] += 1
        return PREDICT
    known[row] = label
    counts[CORRECTIONS] += 1
    counts[JOINED] += mature
    return AMENDED if mature else EXCHANGED


@kernel
def next_to_mature(instances):
    """The place in the queue of the first that has not waited for its time, or where the next will stand. Amortised
    O(1)."""
    at = instances.at
    at[MATURE] = max(at[MATURE], at[HEAD])
    while at[MATURE] < at[TAIL] and instances.queue[at[MATURE]] < 0:
        at[MATURE] += 1
    return at[MATURE]


@kernel
def n_to_mature(instances, until):
    """How many arrived before `until` and have not waited for their time."""
    n = 0
    for i in range(next_to_mature(instances), instances.at[TAIL]):
        row = instances.queue[i]
        if row >= 0:
            if instances.entries[row, ARRIVED] >= until:
                break
            n += 1
    return n


@kernel
def _due(instances, after, now, clock, gaps):
    """Stream time up to which nothing has waited for its time."""
    if after < 0:
        return NEVER
    i = next_to_mature(instances)
    return after + (min(now, _since(instances, instances.queue[i], clock, gaps)) if i < instances.at[TAIL] else now)


@kernel
def _mature(instances, joined, known, limits, counts, now, clock, gaps, op, row, y, k):
    """Learn what has waited for its time: by its label, or by the one that is assumed where none came; where nothing is
    assumed, it waits on. The next operation."""
    at = instances.at
    while next_to_mature(instances) < at[TAIL]:
        one = instances.queue[at[MATURE]]
        if _since(instances, one, clock, gaps) >= now - limits.after:
            break
        at[MATURE] += 1
        label, code = known[one], MATURED
        if np.isnan(label):
            label, code = limits.assumed, LEARN
            if np.isnan(label):
                continue
            counts[ASSUMED] += 1
            while label >= clock[WIDTH] and clock[WIDTH] < limits.width:
                clock[WIDTH] = min(2 * clock[WIDTH], limits.width)
        op[k], row[k], y[k] = code, one, label
        k += 1
        counts[JOINED] += 1
        if code == MATURED and not limits.corrects:
            _leave(instances, joined, one, label, limits, now, counts)
    return k


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
def _forget_old(joined, horizon, now):
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
def _remember(joined, digest, mark, y, limits, now, counts):
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


@kernel
def _leave(instances, joined, row, y, limits, now, counts):
    """An instance leaves with its label, and is remembered. When to look for what is to be forgotten."""
    text, entries = instances.text, instances.entries
    start = np.uint64(entries[row, START])
    digest = digest_of(text, start, start + np.uint64(entries[row, LENGTH]))
    take_out(instances, row)
    return _remember(joined, digest, entries[row, MARK], y, limits, now, counts)


@kernel(inline=True)
def _alike(y, other):
    """Whether two labels are the same, or both null."""
    return y == other or (np.isnan(y) and np.isnan(other))


@kernel(inline=True)
def _same_label(joined, row, y):
    return joined.ring[row, 1] & np.uint64(ROW_MASK) == _hash_of(y)


@kernel(inline=True)
def _same_features(joined, row, mark):
    return joined.ring[row, 1] >> np.uint64(32) == np.uint64(mark)


@kernel
def _is_again(instances, joined, features, marks, i):
    """Whether the id of a feature record waits, or the record was delivered again."""
    remembered = recall(joined, features.digests[i])
    again = remembered >= 0 and _same_features(joined, remembered, marks[i])
    return again or find(instances, features, i) >= 0


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


@kernel
def join(
    instances,
    labels,
    series,
    joined,
    early_y,
    known,
    slab,
    limits,
    clock,
    gaps,
    counts,
    features,
    bits,
    sizes,
    marks,
    follows,
    late,
    rows,
    before,
    op,
    row,
    y,
    instead,
    waited,
    reached,
):
    """Put a batch into the store and write the program; its length, and how many labels met their instance. O(records
    and what expires, or has waited for its time).

    instances, labels, series, joined, early_y (y by row of `labels`), clock, counts : mutated. known : (C,) float64 by
    row of `instances`, mutated: the label that has come, NaN for none; (0,) where no instance waits on with its label.
    slab : (rows, d) uint64, bits of x by row, written; (0, d) of bags. gaps : (GAPS, 2) int64 ms, mutated: from where
    to where time went on. features, late : Batch of n feature and m label records, whose hashes are written. bits,
    sizes, marks : of the features, as in `mark_all`. follows : (n,) float64, what each is to those of its key that wait
    (series.py). rows : (n,) int32, taken for the features. before : (n,) int64, labels before each feature. op, row, y
    : (2 n + m,) and as many as may have waited for their time, or for a later record, and waited : (n + m,) and as
    many, int64 ms of each label that met its instance: written. instead : as op, the label by which an instance was
    learned before, written at each AMENDED; (0,) where known is. marks : (n,) int64, written, REPEATED of features
    whose id waits, or that were delivered again. reached : (n,) int64, written: operations of what comes before each
    feature.
    """
    n, m, width = len(features.ends), len(late.ends), limits.width
    keeps, forecasts = len(known) > 0, len(series.next) > 0
    for i in range(n if len(slab) > 0 else 0):
        for j in range(slab.shape[1]):
            slab[rows[i], j] = bits[i, j]
    write_tags(instances.key, features.text, features.words, features.ends, features.tags)
    write_tags(instances.key, late.text, late.words, late.ends, late.tags)
    if limits.max_joined > 0 or joined.at[NEXT] > joined.at[FIRST]:  # else none is remembered
        write_digests(features.text, features.words, features.ends, features.digests)
        write_digests(late.text, late.words, late.ends, late.digests)
        mark_all(bits, sizes, marks)
    now = clock[NOW]
    deadline = _deadline(instances, labels, limits.horizon, now, clock, gaps)
    forget_at = _forget_old(joined, limits.horizon, now)
    due = _due(instances, limits.after, now, clock, gaps) if keeps else NEVER
    if instances.at[N] > LARGE:
        instances.at[READ] = read_ahead(instances, late.tags) + read_ahead(instances, features.tags)
    k = n_met = j = 0
    for i in range(n + 1):
        until = before[i] if i < n else m
        while j <= until:
            # The next label before this feature, or the feature itself: time goes on to it.
            if j == until and i == n:
                break
            time = late.times[j] if j < until else features.times[i]
            if j == until:
                reached[i] = k
            if time - now > limits.bound:
                _note_gap(clock, gaps, limits.horizon, now, time)
                deadline = min(deadline, now)  # gaps that are forgotten protect nothing any more
                if limits.after >= 0:
                    due = min(due, now)
            now = max(now, time)
            if now > due:
                k = _mature(instances, joined, known, limits, counts, now, clock, gaps, op, row, y, k)
                due = _due(instances, limits.after, now, clock, gaps)
                forget_at = _forget_old(joined, limits.horizon, now)
            if now > deadline:
                deadline = _expire(instances, labels, series, known, counts, limits, now, clock, gaps)
            if now > forget_at:
                forget_at = _forget_old(joined, limits.horizon, now)
            if j == until:
                break
            label = late.y[j]
            while label >= clock[WIDTH] and clock[WIDTH] < width:
                clock[WIDTH] = min(2 * clock[WIDTH], width)
            found = find(instances, late, j)
            if found >= 0 and keeps:
                instead[k] = limits.assumed if _is_assumed(instances, known, limits, found) else known[found]
            if found >= 0 and keeps and _stays(instances, known, limits, found, label):
                # It waits on, for its time or for a correction.
                op[k], row[k], y[k] = _meet(instances, known, limits, counts, found, label), found, label
                if op[k] == LEARN or op[k] == CAME:
                    waited[n_met] = now - _since(instances, found, clock, gaps)
                    n_met += 1
                k += op[k] != PREDICT
                j += 1
                continue
            if found >= 0:
                if np.isnan(label):  # none will come
                    counts[NULL] += 1
                else:
                    assumed = keeps and _is_assumed(instances, known, limits, found)
                    op[k], row[k], y[k] = AMENDED if assumed else LEARN, found, label
                    k += 1
                    counts[JOINED] += 1
                    if assumed:
                        counts[CORRECTIONS] += 1
                    else:
                        waited[n_met] = now - _since(instances, found, clock, gaps)
                        n_met += 1
                take_out(instances, found)
                mark = instances.entries[found, MARK]
                forget_at = min(forget_at, _remember(joined, late.digests[j], mark, label, limits, now, counts))
                j += 1
                continue
            remembered = recall(joined, late.digests[j])
            early = find(labels, late, j) if remembered < 0 else -1
            if remembered >= 0:
                counts[REPEATED_LABELS if _same_label(joined, remembered, label) else CORRECTED] += 1
            elif early >= 0:
                counts[REPEATED_LABELS if _alike(early_y[early], label) else CORRECTED] += 1
            else:
                while labels.at[N] >= limits.max_labels:  # more than one where the bound was lowered
                    take_out(labels, oldest(labels))
                    counts[UNMATCHED] += 1
                labels.at[N_FREE] -= 1
                early = labels.free[labels.at[N_FREE]]
                put(labels, early, late, j, now)
                early_y[early] = label
            j += 1
        if i == n:
            break
        again = forecasts and _is_again(instances, joined, features, marks, i)
        while forecasts and not again and not np.isnan(follows[i]):
            one = first_due(series, rows[i], limits.ahead)
            if one < 0:
                break
            op[k], row[k], y[k] = LEARN, one, follows[i]
            waited[n_met] = series.about[rows[i], TIME] - series.about[one, TIME]
            k += 1
            n_met += 1
            counts[JOINED] += 1
            remove(series, one)
            forget_at = min(forget_at, _leave(instances, joined, one, follows[i], limits, now, counts))
        op[k], row[k], y[k] = PREDICT, rows[i], np.nan
        k += 1
        label = features.y[i] if len(features.y) > 0 else np.nan
        while label >= clock[WIDTH] and clock[WIDTH] < width:
            clock[WIDTH] = min(2 * clock[WIDTH], width)
        ends = not np.isnan(label)  # whether nothing more is waited for
        if labels.at[N] > 0:
            early = find(labels, features, i)
            if early >= 0:
                if not ends:
                    label, ends = early_y[early], True
                else:
                    counts[REPEATED_LABELS if early_y[early] == label else CORRECTED] += 1
                take_out(labels, early)
        if ends and not (keeps and not np.isnan(label) and (limits.after >= 0 or limits.corrects)):
            if np.isnan(label):
                counts[NULL] += 1
            else:
                op[k], row[k], y[k] = LEARN, rows[i], label
                waited[n_met] = 0
                k += 1
                n_met += 1
                counts[JOINED] += 1
            _free(instances, rows[i])
            forget_at = min(forget_at, _remember(joined, features.digests[i], marks[i], label, limits, now, counts))
            continue
        if limits.max_pending == 0:  # nothing waits
            _free(instances, rows[i])
            continue
        if again or (not forecasts and _is_again(instances, joined, features, marks, i)):
            counts[REPEATED_IDS] += 1
            marks[i] = REPEATED
            _free(instances, rows[i])
        else:
            put(instances, rows[i], features, i, now)
            instances.entries[rows[i], MARK] = marks[i]
            if forecasts:
                add(series, rows[i])
            if keeps:
                known[rows[i]] = label
                if not np.isnan(label):
                    op[k], row[k], y[k] = CAME if limits.after >= 0 else LEARN, rows[i], label
                    counts[JOINED] += limits.after < 0
                    waited[n_met] = 0
                    k += 1
                    n_met += 1
            each = limits.row_bytes + limits.column_bytes * clock[WIDTH]
            while (
                instances.at[N] > limits.max_pending
                or instances.at[N] * each + instances.at[TEXT_LIVE] + instances.at[EXTRA_LIVE] > limits.max_bytes
            ):
                _drop(instances, series, oldest(instances))
                counts[EVICTED] += 1
    clock[NOW] = now
    return k, n_met
