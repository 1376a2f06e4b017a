"""The kernels of labels that wait for a time: an instance matures when it has waited for it, and is learned then.

It is learned by its label, or by the one that is assumed where none came; corrections may come afterwards.
"""

import numpy as np

from riparian.app.partition.join.counts import ASSUMED, CORRECTED, CORRECTIONS, JOINED, REPEATED_LABELS
from riparian.app.partition.join.gaps import NEVER, WIDTH
from riparian.app.partition.join.ids import digest_of
from riparian.app.partition.join.remembering import remember
from riparian.app.partition.join.waiting import (
    ARRIVED,
    HEAD,
    LENGTH,
    MARK,
    MATURE,
    PLACE,
    START,
    TAIL,
    take_out,
    waits_since,
)
from riparian.models.contract import LEARN, PREDICT
from riparian.models.kernels.kernel import kernel

# operations besides PREDICT and LEARN: a label has come that is learned later; it is learned, and counted before;
# another one is learned, or waits, in the place of one that was counted
CAME, MATURED, AMENDED, EXCHANGED = 2, 3, 4, 5


@kernel(inline=True)
def _is_mature(instances, limits, row):
    """Whether a row that waits has waited for its time."""
    return limits.after < 0 or instances.entries[row, PLACE] < instances.at[MATURE]


@kernel(inline=True)
def is_assumed(instances, known, limits, row):
    """Whether a row that waits was learned by the label that is assumed."""
    return np.isnan(known[row]) and not np.isnan(limits.assumed) and _is_mature(instances, limits, row)


@kernel(inline=True)
def is_learned(instances, known, limits, row):
    """Whether a row that waits was learned."""
    return _is_mature(instances, limits, row) and not (np.isnan(known[row]) and np.isnan(limits.assumed))


@kernel
def stays(instances, known, limits, row, label):
    """Whether an instance waits on, though a label has met it."""
    said = not np.isnan(known[row])
    assumed = is_assumed(instances, known, limits, row)
    if np.isnan(label):
        return said or assumed
    if said or limits.corrects or not _is_mature(instances, limits, row):
        return True
    return assumed and label == limits.assumed


@kernel
def meet(instances, known, limits, counts, row, label):
    """What a label does that has met an instance which waits on: an operation, PREDICT for none."""
    before, mature = known[row], _is_mature(instances, limits, row)
    assumed = is_assumed(instances, known, limits, row)
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
def next_due(instances, after, now, clock, gaps):
    """Stream time up to which nothing has waited for its time."""
    if after < 0:
        return NEVER
    i = next_to_mature(instances)
    return after + (
        min(now, waits_since(instances, instances.queue[i], clock, gaps)) if i < instances.at[TAIL] else now
    )


@kernel
def mature(instances, joined, known, limits, counts, now, clock, gaps, op, row, y, k):
    """Learn what has waited for its time: by its label, or by the one that is assumed where none came; where nothing is
    assumed, it waits on. The next operation."""
    at = instances.at
    while next_to_mature(instances) < at[TAIL]:
        one = instances.queue[at[MATURE]]
        if waits_since(instances, one, clock, gaps) >= now - limits.after:
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
            leave(instances, joined, one, label, limits, now, counts)
    return k


@kernel
def leave(instances, joined, row, y, limits, now, counts):
    """An instance leaves with its label, and is remembered. When to look for what is to be forgotten."""
    text, entries = instances.text, instances.entries
    start = np.uint64(entries[row, START])
    digest = digest_of(text, start, start + np.uint64(entries[row, LENGTH]))
    take_out(instances, row)
    return remember(joined, digest, entries[row, MARK], y, limits, now, counts)
