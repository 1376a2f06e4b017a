"""The kernel of one key: finds the row of what a record has there, and adds what is new to it.

A row has the time of the key's last record, and the latest time of these and of the records whose labels have come;
then the columns of each aggregate: of a count its epoch and sum, of a mean or share its epoch, the sum of weights and
that of values, of a last value that one. Sums are forward-decayed (Cormode, Shkapenyuk, Srivastava, Xu: Forward decay:
a practical time decay model for streaming systems. ICDE 2009): an event of time t adds 2^(t / half-life), relative to
the sum's epoch, and nothing changes until the next one. So reading writes nothing, and a late record weighs what it
would have weighed in time.
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.app.partition.join.ids import Ints
from riparian.app.partition.join.waiting import (
    ARRIVED,
    HOME,
    LARGE,
    MARK,
    N_FREE,
    N_LEFT,
    NEXT_SERIAL,
    PLACE,
    ROW_MASK,
    SERIAL,
    START,
    TAIL,
    find_hash,
    oldest,
    put_hash,
    tag_of,
    take_out,
)
from riparian.app.partition.join.waiting import READ as READ_AHEAD
from riparian.app.partition.join.waiting import N as N_ROWS
from riparian.app.partition.keys.powers import place, scaled
from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel

OBSERVE, READ, LABEL, CORRECTION, NOTHING = 0, 1, 2, 3, 4  # what happens
COUNT, MEAN, LAST, SINCE, SHARE, LABEL_MEAN, LABEL_LAST = 0, 1, 2, 3, 4, 5, 6  # kinds of aggregates
# numbers of an aggregate: its kind; the column of x, or the class; the half-life, ms; its first column in the row; the
# column of what is written; how many labels a share is smoothed by
KIND, SOURCE, HALF_LIFE, AT, OUT, SMOOTH, OF_AGGREGATE = 0, 1, 2, 3, 4, 5, 6
SEEN, TOUCHED, BEGIN = 0, 1, 2  # columns of a row: times, ms; the first of the aggregates
COLUMNS = {COUNT: 2, MEAN: 3, LAST: 1, SINCE: 0, SHARE: 3, LABEL_MEAN: 3, LABEL_LAST: 1}  # of an aggregate in a row
LARGEST = 1e100  # value that is added
LINE = 8  # numbers in a line of the processor's cache
AHEAD = 256  # events for which memory is read ahead: what they need stays in the nearest cache until it is used


class Events(NamedTuple):
    """What happens, in order.

    kind : (n,) int8, OBSERVE a record, READ for one that changes nothing, LABEL, a CORRECTION of one that counted, or
        NOTHING.
    at : (n,) int64, number of the record among those that are predicted.
    time : (n,) int64 ms, of the record, also of one whose label this is.
    now : (n,) int64 ms, stream time.
    y : (n,) float64, of labels.
    """

    kind: Any
    at: Ints
    time: Ints
    now: Ints
    y: Floats


@kernel(inline=True)
def _touch(index, row, now):
    """Row was touched last, and is to be written anew. O(1)."""
    at, entries = index.at, index.entries
    index.queue[entries[row, PLACE]] = -1
    index.queue[at[TAIL]] = row
    entries[row, PLACE] = at[TAIL]
    entries[row, ARRIVED] = now
    entries[row, SERIAL] = at[NEXT_SERIAL]
    at[TAIL] += 1
    at[NEXT_SERIAL] += 1
    if entries[row, HOME] >= 0:
        index.left[at[N_LEFT]] = entries[row, HOME]
        at[N_LEFT] += 1
        entries[row, HOME] = -1


@kernel
def _read_ahead(index, rows, hashes, start, stop):
    """Read what the keys of events need. Nothing here waits for anything read before, so the memory's answers overlap.
    Returns nonsense."""
    slots, entries = index.slots, index.entries
    mask, seen = len(slots) - 1, np.int64(0)
    for i in range(start, stop):
        seen += slots[tag_of(index, hashes[i, 0], hashes[i, 1]) & mask]
    for i in range(start, stop):
        row = (slots[tag_of(index, hashes[i, 0], hashes[i, 1]) & mask] & ROW_MASK) - 1
        if row >= 0:
            seen += entries[row, START] + entries[row, MARK]
            for c in range(0, rows.shape[1], LINE):
                seen += np.int64(rows[row, c] > 0.0)
            seen += np.int64(rows[row, -1] > 0.0)
    for i in range(start, stop):
        row = (slots[tag_of(index, hashes[i, 0], hashes[i, 1]) & mask] & ROW_MASK) - 1
        if row >= 0:
            seen += index.queue[entries[row, PLACE]]
    return seen


@kernel(inline=True)
def _row_of(index, rows, blank, one, other, time, now, most, idle):
    """The row of a key, touched; without events where it is new, or was idle. O(1)."""
    row = find_hash(index, one, other)
    known = row >= 0
    if known:
        _touch(index, row, now)
        known = time - rows[row, TOUCHED] <= idle
    else:
        while index.at[N_ROWS] >= most:
            take_out(index, oldest(index))
        index.at[N_FREE] -= 1
        row = np.int64(index.free[index.at[N_FREE]])
        put_hash(index, row, one, other, now)
    if not known:
        for c in range(len(blank)):
            rows[row, c] = blank[c]
    if not known or time > rows[row, TOUCHED]:
        rows[row, TOUCHED] = time
    return row


@kernel(inline=True)
def _add(rows, row, at, epoch, g, value, has_values):
    """Add an event of weight g to sums whose epoch is in column `at`."""
    there = rows[row, at]
    if np.isnan(there):
        rows[row, at] = epoch
    elif epoch > there:
        behind = epoch - np.int64(there)
        rows[row, at] = epoch
        rows[row, at + 1] = scaled(rows[row, at + 1], behind)
        if has_values:
            rows[row, at + 2] = scaled(rows[row, at + 2], behind)
    else:
        g = scaled(g, np.int64(there) - epoch)
    rows[row, at + 1] += g
    if has_values:
        product = g * value
        rows[row, at + 2] += product


@kernel
def _add_hit(rows, row, at, epoch, g):
    """Count a label for its class that was counted for another one: what there is of all stays, and bounds it."""
    if not np.isnan(rows[row, at]):
        _add(rows, row, at, epoch, 0.0, 0.0, True)  # come to the epoch
        g = scaled(g, np.int64(rows[row, at]) - epoch)
        rows[row, at + 2] = min(rows[row, at + 2] + g, rows[row, at + 1])


@kernel(inline=True)
def _total(rows, row, at, column, epoch, g):
    """A decayed sum at a time."""
    there = rows[row, at]
    return 0.0 if np.isnan(there) else scaled(rows[row, column], epoch - np.int64(there)) / g


@kernel(inline=True)
def _value(rows, row, aggregate, shares, a, powers, time):
    """What an aggregate is for a record of this time. shares, a : of one of labels, its row."""
    kind, at = aggregate[KIND], aggregate[AT]
    if kind in (LAST, LABEL_LAST):
        return rows[row, at]
    if kind == SINCE:
        seconds = (time - rows[row, SEEN]) / 1000.0  # NaN where there was none
        return 0.0 if seconds < 0.0 else seconds
    if kind == COUNT or aggregate[SMOOTH] > 0:
        latest = rows[row, SEEN] if kind == COUNT else rows[row, TOUCHED]
        epoch, g = place(powers, aggregate[HALF_LIFE], time if np.isnan(latest) else max(time, np.int64(latest)))
        n = _total(rows, row, at, at + 1, epoch, g)
        if kind == COUNT:
            return n
        overall = shares[a, 1] / shares[a, 0] if shares[a, 0] > 0.0 else np.nan
        return (_total(rows, row, at, at + 2, epoch, g) + aggregate[SMOOTH] * overall) / (n + aggregate[SMOOTH])
    return rows[row, at + 2] / rows[row, at + 1] if rows[row, at + 1] > 0.0 else np.nan


@kernel
def fold(index, rows, blank, shares, records, labels, events, hashes, x, powers, before, after, most, idle):
    """Go through the events. O(events, and keys that go).

    index, rows (C, w) : mutated. blank : (w,), a row without events. records, labels : (m, 6) int64, the aggregates
    that these change. shares : (m, 2), of `labels`: how many have come, and how many of
    the class; mutated. hashes : (n, 2) int64, of the events' keys; 0 of one that is missing. x : (n, d),
    of records. before, after : (n, m), written: the aggregates without and with a record, where that has the key.
    most : keys. idle : ms, after which a key is new.
    """
    nothing = blank.reshape(1, -1)
    for i in range(len(events.kind)):
        if i % AHEAD == 0 and index.at[N_ROWS] > LARGE:
            index.at[READ_AHEAD] = _read_ahead(index, rows, hashes, i, min(i + AHEAD, len(hashes)))
        now, time, kind = events.now[i], events.time[i], events.kind[i]
        while index.at[N_ROWS] > 0 and (index.at[N_ROWS] > most or now - index.entries[oldest(index), ARRIVED] > idle):
            take_out(index, oldest(index))
        one, other = hashes[i, 0], hashes[i, 1]
        if kind == NOTHING or (one == 0 and other == 0):
            continue
        known, table = True, rows
        if kind == READ:
            row = find_hash(index, one, other)
            if row < 0 or time - rows[row, TOUCHED] > idle:
                known, table, row = False, nothing, 0
        else:
            row = _row_of(index, rows, blank, one, other, time, now, most, idle)
        if kind in (LABEL, CORRECTION):
            y = events.y[i]
            for a in range(len(labels)):
                at = labels[a, AT]
                if labels[a, KIND] == SHARE:
                    hit = 1.0 if y == labels[a, SOURCE] else 0.0
                    epoch, g = place(powers, labels[a, HALF_LIFE], time)
                    if kind == CORRECTION:
                        if hit > 0.0:
                            _add_hit(rows, row, at, epoch, g)
                            shares[a, 1] = min(shares[a, 1] + 1.0, shares[a, 0])
                        continue
                    _add(rows, row, at, epoch, g, hit, True)
                    shares[a, 0] += 1.0
                    shares[a, 1] += hit
                elif abs(y) <= LARGEST:
                    if labels[a, KIND] == LABEL_LAST:
                        rows[row, at] = y
                    elif kind == LABEL:
                        epoch, g = place(powers, labels[a, HALF_LIFE], time)
                        _add(rows, row, at, epoch, g, y, True)
            continue
        n = events.at[i]
        for a in range(len(labels)):
            out = labels[a, OUT]
            before[n, out] = after[n, out] = _value(table, row, labels[a], shares, a, powers, time)
        if not known:
            continue
        for a in range(len(records)):
            out, at = records[a, OUT], records[a, AT]
            before[n, out] = after[n, out] = _value(rows, row, records[a], shares, 0, powers, time)
            if kind == READ or records[a, KIND] == SINCE:
                continue
            if records[a, KIND] == COUNT:
                epoch, g = place(powers, records[a, HALF_LIFE], time)
                _add(rows, row, at, epoch, g, 0.0, False)
            else:
                v = x[n, records[a, SOURCE]]
                if not abs(v) <= LARGEST:
                    continue
                if records[a, KIND] == LAST:
                    rows[row, at] = v
                else:
                    epoch, g = place(powers, records[a, HALF_LIFE], time)
                    _add(rows, row, at, epoch, g, v, True)
            after[n, out] = _value(rows, row, records[a], shares, 0, powers, time)
        if kind == OBSERVE and not time <= rows[row, SEEN]:
            rows[row, SEEN] = time
