"""The kernel `join`: it puts a batch into the pending store, finds the instance of each label, and writes the program.

Each event takes the same time, amortised, however many instances wait. No kernel can fail half way, since
`WaitingIndex.reserve` makes room before a batch.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.app.partition.join.counts import (
    CORRECTED,
    CORRECTIONS,
    EVICTED,
    EXPIRED,
    JOINED,
    NULL,
    REPEATED_IDS,
    REPEATED_LABELS,
    UNMATCHED,
)
from riparian.app.partition.join.gaps import NEVER, NOW, WIDTH, note_gap
from riparian.app.partition.join.ids import write_digests, write_tags
from riparian.app.partition.join.joined_ids import JoinedIds
from riparian.app.partition.join.maturity import (
    AMENDED,
    CAME,
    is_assumed,
    is_learned,
    leave,
    mature,
    meet,
    next_due,
    stays,
)
from riparian.app.partition.join.remembering import (
    FIRST,
    NEXT,
    forget_old,
    mark_all,
    recall,
    remember,
    same_features,
    same_label,
)
from riparian.app.partition.join.series import TIME, KeyQueues, add, first_due, remove
from riparian.app.partition.join.waiting import (
    EXTRA_LIVE,
    LARGE,
    MARK,
    N_FREE,
    READ,
    TEXT_LIVE,
    Batch,
    N,
    find,
    free_row,
    oldest,
    put,
    read_ahead,
    take_out,
    waits_since,
)
from riparian.app.partition.join.waiting_index import WaitingIndex
from riparian.models.contract import LEARN, PREDICT
from riparian.models.kernels.frames import BOOLEAN, INTEGER, NUMBER, array_of, framed
from riparian.models.kernels.frames import put as put_values
from riparian.models.kernels.kernel import kernel

REPEATED = -1  # the mark of features whose id waits, or that were delivered again


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


class StoreValues(NamedTuple):
    """What `join` works on, all of which it mutates but for the limits.

    instances, labels, series, joined : what waits, by id and by key, and what was joined.
    early_y : (C,) float64, y by row of `labels`.
    known : (C,) float64 by row of `instances`: the label that has come, NaN for none; (0,) where no instance waits on
        with its label.
    slab : (rows, d) uint64, bits of x by row; (0, d) of bags.
    clock : numbers of stream time (gaps.py). gaps : (GAPS, 2) int64 ms, from where to where time went on.
    """

    instances: Any
    labels: Any
    series: Any
    joined: Any
    early_y: Any
    known: Any
    slab: Any
    limits: Any
    clock: Any
    gaps: Any


@kernel
def _fill(words, values):
    """Mutates words."""
    put_values(words, values)


_ints, _numbers, _hashes = array_of(np.int64, 1), array_of(np.float64, 1), array_of(np.uint64, 1)
_rows, _table, _words = array_of(np.int32, 1), array_of(np.int64, 2), array_of(np.uint64, 2)
_index = WaitingIndex(
    slots=_ints, entries=_table, queue=_rows, text=array_of(np.uint8, 1), free=_rows, left=_ints, key=_hashes, at=_ints,
    extra=_ints,
)  # fmt: skip
new_frame, values_of = framed(
    StoreValues(
        instances=_index,
        labels=_index,
        series=KeyQueues(_table, _rows, array_of(np.int32, 2), _hashes),
        joined=JoinedIds(_words, array_of(np.uint32, 1), _table, _ints, _hashes),
        early_y=_numbers,
        known=_numbers,
        slab=_words,
        limits=Limits(*(INTEGER,) * 10, NUMBER, BOOLEAN, INTEGER),
        clock=_ints,
        gaps=_table,
    ),
    _fill,
)


@kernel(inline=True)
def _drop(instances, series, row):
    """An instance leaves, also those of its key. O(1)."""
    if len(series.next) > 0:
        remove(series, row)
    take_out(instances, row)


@kernel
def _deadline(instances, labels, horizon, now, clock, gaps):
    """Stream time up to which nothing can expire. What waits longest may leave before: the next check then finds the
    new oldest, so a label that joins costs no bookkeeping."""
    since = now
    row = oldest(instances)
    if row >= 0:
        since = min(since, waits_since(instances, row, clock, gaps))
    row = oldest(labels)
    if row >= 0:
        since = min(since, waits_since(labels, row, clock, gaps))
    return since + horizon


@kernel
def _expire(instances, labels, series, known, counts, limits, now, clock, gaps):
    """Drop what has waited longer than the horizon; the next deadline."""
    horizon = limits.horizon
    row = oldest(instances)
    while row >= 0 and waits_since(instances, row, clock, gaps) < now - horizon:
        if len(known) == 0 or not is_learned(instances, known, limits, row):
            counts[EXPIRED] += 1
        _drop(instances, series, row)
        row = oldest(instances)
    row = oldest(labels)
    while row >= 0 and waits_since(labels, row, clock, gaps) < now - horizon:
        take_out(labels, row)
        counts[UNMATCHED] += 1
        row = oldest(labels)
    return _deadline(instances, labels, horizon, now, clock, gaps)


@kernel(inline=True)
def _alike(y, other):
    """Whether two labels are the same, or both null."""
    return y == other or (np.isnan(y) and np.isnan(other))


@kernel
def _is_again(instances, joined, features, marks, i):
    """Whether the id of a feature record waits, or the record was delivered again."""
    remembered = recall(joined, features.digests[i])
    again = remembered >= 0 and same_features(joined, remembered, marks[i])
    return again or find(instances, features, i) >= 0


@kernel(inline=True)
def _met(
    instances,
    joined,
    known,
    limits,
    counts,
    found,
    label,
    digest,
    now,
    clock,
    gaps,
    op,
    row,
    y,
    instead,
    waited,
    k,
    n_met,
    forget_at,
):
    """What a label does to the instance that waits for it: the next operation, how many labels have met their instance,
    and when to look for what is to be forgotten. The arrays are mutated."""
    keeps = len(known) > 0
    assumed = keeps and is_assumed(instances, known, limits, found)
    since = now - waits_since(instances, found, clock, gaps)
    if keeps:
        instead[k] = limits.assumed if assumed else known[found]
        if stays(instances, known, limits, found, label):
            # It waits on, for its time or for a correction.
            op[k], row[k], y[k] = meet(instances, known, limits, counts, found, label), found, label
            if op[k] == LEARN or op[k] == CAME:
                waited[n_met] = since
                n_met += 1
            return k + (op[k] != PREDICT), n_met, forget_at
    if np.isnan(label):  # none will come
        counts[NULL] += 1
    else:
        op[k], row[k], y[k] = AMENDED if assumed else LEARN, found, label
        k += 1
        counts[JOINED] += 1
        if assumed:
            counts[CORRECTIONS] += 1
        else:
            waited[n_met] = since
            n_met += 1
    take_out(instances, found)
    mark = instances.entries[found, MARK]
    return k, n_met, min(forget_at, remember(joined, digest, mark, label, limits, now, counts))


@kernel
def join(
    store,
    text,
    words,
    ends,
    tags,
    digests,
    times,
    labels_y,
    bits,
    sizes,
    marks,
    follows,
    rows,
    before,
    op,
    row,
    y,
    instead,
    waited,
    reached,
    counts,
):
    """Put a batch into the store and write the program; its length, and how many labels met their instance. O(records
    and what expires, or has waited for its time).

    store : the words of `new_frame` of StoreValues, mutated. text, words, ends, tags, digests, times, labels_y : of n
    feature and then m label records, as `Batch` has them; tags and digests are written. y of a feature is that of a
    label which came inside it. bits, sizes, marks : of the features, as in `mark_all`. follows : (n,) float64, what
    each is to those of its key that wait (series.py). rows : (n,) int32, taken for the features. before : (n,) int64,
    labels before each feature. op, row, y : (2 n + m,) and as many as may have waited for their time, or for a later
    record, and waited : (n + m,) and as many, int64 ms of each label that met its instance: written. instead : as op,
    the label by which an instance was learned before, written at each AMENDED; (0,) where known is. marks : (n,) int64,
    written, REPEATED of features whose id waits, or that were delivered again. reached : (n,) int64, written:
    operations of what comes before each feature. counts : mutated.
    """
    values = values_of(store)
    instances, labels, series, joined = values.instances, values.labels, values.series, values.joined
    early_y, known, slab, limits = values.early_y, values.known, values.slab, values.limits
    clock, gaps = values.clock, values.gaps
    batch = Batch(text, ends, tags, times, labels_y, digests, words)
    n, width = len(rows), limits.width
    m = len(ends) - n
    keeps, forecasts = len(known) > 0, len(series.next) > 0
    for i in range(n if len(slab) > 0 else 0):
        for j in range(slab.shape[1]):
            slab[rows[i], j] = bits[i, j]
    write_tags(instances.key, text, words, ends, tags)
    if limits.max_joined > 0 or joined.at[NEXT] > joined.at[FIRST]:  # else none is remembered
        write_digests(text, words, ends, digests)
        mark_all(bits, sizes, marks)
    now = clock[NOW]
    deadline = _deadline(instances, labels, limits.horizon, now, clock, gaps)
    forget_at = forget_old(joined, limits.horizon, now)
    due = next_due(instances, limits.after, now, clock, gaps) if keeps else NEVER
    if instances.at[N] > LARGE:
        instances.at[READ] = read_ahead(instances, tags)
    k = n_met = j = 0
    for i in range(n + 1):
        until = before[i] if i < n else m
        while j <= until:
            # The next label before this feature, or the feature itself: time goes on to it.
            if j == until and i == n:
                break
            time = times[n + j] if j < until else times[i]
            if j == until:
                reached[i] = k
            if time - now > limits.bound:
                note_gap(clock, gaps, limits.horizon, now, time)
                deadline = min(deadline, now)  # gaps that are forgotten protect nothing any more
                if limits.after >= 0:
                    due = min(due, now)
            now = max(now, time)
            if now > due:
                k = mature(instances, joined, known, limits, counts, now, clock, gaps, op, row, y, k)
                due = next_due(instances, limits.after, now, clock, gaps)
                forget_at = forget_old(joined, limits.horizon, now)
            if now > deadline:
                deadline = _expire(instances, labels, series, known, counts, limits, now, clock, gaps)
            if now > forget_at:
                forget_at = forget_old(joined, limits.horizon, now)
            if j == until:
                break
            label = labels_y[n + j]
            while label >= clock[WIDTH] and clock[WIDTH] < width:
                clock[WIDTH] = min(2 * clock[WIDTH], width)
            found = find(instances, batch, n + j)
            if found >= 0:
                k, n_met, forget_at = _met(
                    *(instances, joined, known, limits, counts, found, label, digests[n + j], now, clock, gaps),
                    *(op, row, y, instead, waited, k, n_met, forget_at),
                )
                j += 1
                continue
            remembered = recall(joined, digests[n + j])
            early = find(labels, batch, n + j) if remembered < 0 else -1
            if remembered >= 0:
                counts[REPEATED_LABELS if same_label(joined, remembered, label) else CORRECTED] += 1
            elif early >= 0:
                counts[REPEATED_LABELS if _alike(early_y[early], label) else CORRECTED] += 1
            else:
                while labels.at[N] >= limits.max_labels:  # more than one where the bound was lowered
                    take_out(labels, oldest(labels))
                    counts[UNMATCHED] += 1
                labels.at[N_FREE] -= 1
                early = labels.free[labels.at[N_FREE]]
                put(labels, early, batch, n + j, now)
                early_y[early] = label
            j += 1
        if i == n:
            break
        again = forecasts and _is_again(instances, joined, batch, marks, i)
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
            forget_at = min(forget_at, leave(instances, joined, one, follows[i], limits, now, counts))
        op[k], row[k], y[k] = PREDICT, rows[i], np.nan
        k += 1
        label = labels_y[i]
        while label >= clock[WIDTH] and clock[WIDTH] < width:
            clock[WIDTH] = min(2 * clock[WIDTH], width)
        ends = not np.isnan(label)  # whether nothing more is waited for
        if labels.at[N] > 0:
            early = find(labels, batch, i)
            if early >= 0:
                if not ends:
                    label, ends = early_y[early], True
                else:
                    counts[REPEATED_LABELS if early_y[early] == label else CORRECTED] += 1
                take_out(labels, early)
        first = find(instances, batch, i) if not np.isnan(labels_y[i]) and instances.at[N] > 0 else -1
        if first >= 0:  # a record of its id waits, of which it is the label
            k, n_met, forget_at = _met(
                *(instances, joined, known, limits, counts, first, label, digests[i], now, clock, gaps),
                *(op, row, y, instead, waited, k, n_met, forget_at),
            )
            counts[REPEATED_IDS] += 1
            marks[i] = REPEATED
            free_row(instances, rows[i])
            continue
        if ends and not (keeps and not np.isnan(label) and (limits.after >= 0 or limits.corrects)):
            if np.isnan(label):
                counts[NULL] += 1
            else:
                op[k], row[k], y[k] = LEARN, rows[i], label
                waited[n_met] = 0
                k += 1
                n_met += 1
                counts[JOINED] += 1
            free_row(instances, rows[i])
            forget_at = min(forget_at, remember(joined, digests[i], marks[i], label, limits, now, counts))
            continue
        if limits.max_pending == 0:  # nothing waits
            free_row(instances, rows[i])
            continue
        if again or (not forecasts and _is_again(instances, joined, batch, marks, i)):
            counts[REPEATED_IDS] += 1
            marks[i] = REPEATED
            free_row(instances, rows[i])
        else:
            put(instances, rows[i], batch, i, now)
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
