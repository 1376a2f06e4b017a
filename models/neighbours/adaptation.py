"""Which rows the memories keep: how long the short-term memory is, and what the long-term memory takes and forgets."""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.neighbours.memory import (
    BY_BOTH,
    BY_LONG,
    BY_SHORT,
    LEARNED,
    LONG,
    SHORT,
    ZERO,
    grow_scale,
    loss_of,
    measure,
    merge,
    renew_scales,
    scale_rows,
    search,
    valid,
    who_predicts,
)

NOWHERE = -1


@kernel
def learn(x, r, y, w, asked, memories, settings, scratch):
    """Learn a row whose standardised values stand in scratch.query. Mutates memories, scratch. O(d rows), and from time
    to time O(d rows^2).

    asked : whether it was predicted just before, so that its distances from the memories that predict are known.
    """
    counts = memories.counts
    n, window, minimum = counts[SHORT], settings.window, settings.minimum
    by = who_predicts(memories)
    if not asked or by == BY_LONG:
        measure(memories.scaled, settings.nominal, scratch.query, 0, n, scratch.distance)
    if not asked or by == BY_SHORT:
        measure(memories.scaled, settings.nominal, scratch.query, window, window + counts[LONG], scratch.distance)
    best, place = scratch.best, scratch.place
    n_short, stop = 0, n
    for j in range((n - 1) // minimum, -1, -1):
        n_short = search(scratch.distance, j * minimum, stop, NOWHERE, best[BY_SHORT], place[BY_SHORT], n_short)
        stop = j * minimum
        memories.sums[j] += loss_of(best[BY_SHORT], place[BY_SHORT], n_short, y, memories, settings.classes)
    n_long = search(scratch.distance, window, window + counts[LONG], NOWHERE, best[BY_LONG], place[BY_LONG], 0)
    n_both = merge(best, place, n_short, n_long)
    if n % minimum == 0:
        memories.sums[n // minimum] = 0.0
    memories.losses[n, BY_SHORT] = loss_of(best[BY_SHORT], place[BY_SHORT], n_short, y, memories, settings.classes)
    memories.losses[n, BY_LONG] = loss_of(best[BY_LONG], place[BY_LONG], n_long, y, memories, settings.classes)
    memories.losses[n, BY_BOTH] = loss_of(best[BY_BOTH], place[BY_BOTH], n_both, y, memories, settings.classes)
    for j in range(3):
        memories.totals[j] += memories.losses[n, j]
    _clean(y, n_short, n_long, memories, settings, scratch)
    for f in range(len(settings.nominal)):
        value = valid(x[r, f])
        memories.raw[f, n] = value
        memories.scaled[f, n] = scratch.query[f]
        if value == value and not settings.nominal[f]:
            grow_scale(memories.scales, f, value, window)
    if not settings.classes:
        grow_scale(memories.scales, len(settings.nominal), y, window)
    memories.y[n], memories.w[n] = y, w
    counts[SHORT] += 1
    counts[LEARNED] += 1
    _leave(minimum * _best_window(memories, minimum), memories, settings, scratch)
    if counts[SHORT] >= window:
        _leave(minimum * _windows(counts[SHORT] - window + window // 4, minimum), memories, settings, scratch)
    if counts[LEARNED] <= minimum or counts[LEARNED] % minimum == 0:
        renew_scales(memories)
        scale_rows(memories, settings.nominal, 0, counts[SHORT])
        scale_rows(memories, settings.nominal, window, window + counts[LONG])


@kernel(inline=True)
def _windows(rows, minimum):
    """Windows that begin within so many rows."""
    return (rows + minimum - 1) // minimum


@kernel
def _best_window(memories, minimum):
    """Of the windows of all rows, of half of them, a quarter and so on, that of the least mean loss, each row predicted
    by those before it in the window (interleaved test-train error). O(windows)."""
    n = memories.counts[SHORT]
    found, least = 0, memories.sums[0] / max(1, n - 1)
    most = n // 2
    while most >= minimum:
        j = _windows(n - most, minimum)
        rows = n - j * minimum
        if rows >= minimum and memories.sums[j] / (rows - 1) < least:
            found, least = j, memories.sums[j] / (rows - 1)
        most //= 2
    return found


@kernel
def _agreement(y, n, best, place, memories, classes):
    """How far the n nearest rows agree with a label: the squared distance within which others have to, and by how much
    they may differ. A distance below 0: none have to. O(n)."""
    reach, most = np.float32(-1.0), 0.0
    for i in range(n):
        apart = abs(memories.y[place[i]] - y)
        if not classes:
            most = max(most, apart)
        if not classes or apart == 0.0:
            reach = best[i]
    return reach, most


@kernel
def _clean(y, n_short, n_long, memories, settings, scratch):
    """Delete of the nearest rows of the long-term memory those that the short-term memory contradicts. The last row
    takes the place of one that goes. Mutates memories, scratch. O(k^2 + d k)."""
    reach, most = _agreement(y, n_short, scratch.best[BY_SHORT], scratch.place[BY_SHORT], memories, settings.classes)
    best, place = scratch.best[BY_LONG], scratch.place[BY_LONG]
    while True:
        last = NOWHERE
        for i in range(n_long):
            if best[i] <= reach and abs(memories.y[place[i]] - y) > most and (last < 0 or place[i] > place[last]):
                last = i
        if last < 0:
            break
        memories.counts[LONG] -= 1
        _copy(settings.window + memories.counts[LONG], place[last], memories)
        best[last] = np.float32(np.inf)  # done


@kernel
def _copy(source, target, memories):
    """Copy a row. Mutates memories. O(d)."""
    for f in range(memories.raw.shape[0]):
        memories.raw[f, target] = memories.raw[f, source]
        memories.scaled[f, target] = memories.scaled[f, source]
    memories.y[target] = memories.y[source]
    memories.w[target] = memories.w[source]


@kernel
def _leave(n, memories, settings, scratch):
    """Take the n oldest rows out of the short-term memory. Those that the others do not contradict go on in the
    long-term memory. Mutates memories, scratch. O(d rows^2)."""
    if n == 0:
        return
    counts, place, best = memories.counts, scratch.place, scratch.best
    rows = counts[SHORT]
    if settings.long > 0:
        for i in range(n):
            scratch.marked[i] = 0
        for i in range(n, rows):
            _measure_from(i, 0, rows, memories, settings, scratch)
            found = search(scratch.distance, n, rows, i, best[BY_SHORT], place[BY_SHORT], 0)
            y = memories.y[i]
            reach, most = _agreement(y, found, best[BY_SHORT], place[BY_SHORT], memories, settings.classes)
            found = search(scratch.distance, 0, n, NOWHERE, best[BY_LONG], place[BY_LONG], 0)
            for j in range(found):
                other = place[BY_LONG, j]
                if best[BY_LONG, j] <= reach and abs(memories.y[other] - y) > most:
                    scratch.marked[other] = 1
        for i in range(n):
            if scratch.marked[i]:
                continue
            if counts[LONG] == settings.long:
                _compress(memories, settings, scratch)
            _copy(i, settings.window + counts[LONG], memories)
            counts[LONG] += 1
    counts[SHORT] -= n
    for j in range(3):
        memories.totals[j] = 0.0
    for i in range(counts[SHORT]):
        _copy(i + n, i, memories)
        for j in range(3):
            memories.losses[i, j] = memories.losses[i + n, j]
            memories.totals[j] += memories.losses[i, j]
    for j in range(_windows(counts[SHORT], settings.minimum)):
        memories.sums[j] = memories.sums[j + n // settings.minimum]


@kernel(inline=True)
def _measure_from(i, start, stop, memories, settings, scratch):
    for f in range(len(scratch.query)):
        scratch.query[f] = memories.scaled[f, i]
    measure(memories.scaled, settings.nominal, scratch.query, start, stop, scratch.distance)


@kernel
def _compress(memories, settings, scratch):
    """Make half as many rows of each class in the long-term memory: of the rows that are next to each of some seeds
    their mean. A seed is the row farthest from those before it. Where each class has one row, the rows of the first
    half of the places go, as the older ones. Mutates memories, scratch. O(d rows^2)."""
    window, rows = settings.window, memories.counts[LONG]
    n_seeds = 0
    label = _next_class(-np.inf, memories, settings)
    while label < np.inf:
        first, size = NOWHERE, 0
        for i in range(rows):
            if not settings.classes or memories.y[window + i] == label:
                size += 1
                scratch.nearest[i] = np.float32(np.inf)
                if first < 0:
                    first = i
        at, before = first, n_seeds
        while True:
            _measure_from(window + at, window, window + rows, memories, settings, scratch)
            farthest, at = ZERO, NOWHERE
            for i in range(rows):
                if settings.classes and memories.y[window + i] != label:
                    continue
                if scratch.distance[window + i] < scratch.nearest[i]:
                    scratch.nearest[i] = scratch.distance[window + i]
                    scratch.seed[i] = n_seeds
                if scratch.nearest[i] > farthest:
                    farthest, at = scratch.nearest[i], i
            n_seeds += 1
            if at < 0 or n_seeds - before >= size // 2:
                break
        label = _next_class(label, memories, settings)
    if n_seeds == rows:
        n_seeds = rows // 2
        for i in range(n_seeds):
            _copy(window + rows - n_seeds + i, window + i, memories)
    else:
        _average(n_seeds, memories, settings, scratch)
    memories.counts[LONG] = n_seeds
    scale_rows(memories, settings.nominal, window, window + n_seeds)


@kernel
def _next_class(label, memories, settings):
    """The lowest class in the long-term memory above this one; of targets all are one class. Infinite: none."""
    if not settings.classes:
        return 0.0 if label < 0.0 else np.inf
    found = np.inf
    for i in range(settings.window, settings.window + memories.counts[LONG]):
        if label < memories.y[i] < found:
            found = memories.y[i]
    return found


@kernel
def _average(n_seeds, memories, settings, scratch):
    """Replace rows by the means of those of each seed. Mutates memories, scratch. O(d rows), and for each nominal
    feature O(rows^2) where a seed has most of them."""
    window, rows = settings.window, memories.counts[LONG]
    order, ends = scratch.order, scratch.ends
    for s in range(n_seeds):
        ends[s] = 0
    for i in range(rows):
        ends[scratch.seed[i]] += 1
    total = 0
    for s in range(n_seeds):
        total, ends[s] = total + ends[s], total
    for i in range(rows):
        order[ends[scratch.seed[i]]] = window + i
        ends[scratch.seed[i]] += 1
    for f in range(len(settings.nominal)):
        _average_column(memories.raw[f], settings.nominal[f] > 0, False, n_seeds, window, scratch)
    _average_column(memories.y, False, True, n_seeds, window, scratch)
    _average_column(memories.w, False, False, n_seeds, window, scratch)


@kernel
def _average_column(column, nominal, above, n_seeds, window, scratch):
    """Of each seed the mean, or of codes the most frequent. above : sum differences from the first one. Mutates column,
    scratch. O(rows), of codes O(rows^2) where a seed has most of them."""
    start = 0
    for s in range(n_seeds):
        stop = scratch.ends[s]
        first = column[scratch.order[start]] if above else 0.0
        n, found = 0, 0.0
        for i in range(start, stop):
            value = column[scratch.order[i]]
            if value != value:
                continue
            if not nominal:
                n += 1
                found += value - first
                continue
            same = 0
            for j in range(start, stop):
                same += column[scratch.order[j]] == value
            if same > n or (same == n and value < found):
                n, found = same, value
        if n == 0:
            found = np.nan
        elif not nominal:
            found = first + found / n
        scratch.mean[s] = found
        start = stop
    for s in range(n_seeds):
        column[window + s] = scratch.mean[s]
