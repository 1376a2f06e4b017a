"""Kernels of the opinion pool: what members said of an instance becomes one prediction, and weights learn from labels.

Votes stand in planes, one a member: (members, rows, n_outputs). A plane row of zeros, or NaN, says that the member knew
nothing. With p_m the probabilities of member m, none below `floor`, and w its weight:

- LOGARITHMIC: p(c) ~ exp(sum of w_m log p_m(c)). The loss of a label y is -log p(y), and its derivative by w_m is
  sum over c of p(c) log p_m(c), less log p_m(y).
- LINEAR, classes: p(c) ~ sum of w_m p_m(c). A label multiplies w_m by p_m(y), and then `rate` of all weight is shared
  out equally (fixed share).
- LINEAR, values: v = sum of w_m v_m, weights on the simplex. The derivative of half the squared error by w_m, along the
  simplex, is (v - y)(v_m - v).
- LEADER: the prediction of the member with the least faded error.

Each derivative is divided by the running mean of its absolute value, so `rate` is a step whatever the scale. While
there are few labels steps are longer: rate times 100 / sqrt(labels), where that is above 1.
"""

import numpy as np

from models.contract import LARGEST_TARGET, LEARN, PREDICT
from models.kernel import kernel

LOGARITHMIC, LINEAR, LEADER = 0, 1, 2

# Kinds of operations in a gathered program: predicted for the caller, predicted only since a label comes next, learned.
WANTED, AT_LABEL, LABEL = 0, 1, 2

EARLY = 100.0  # rate * EARLY / sqrt(labels) is the step while that is above the rate
FADING = 0.999  # of the mean size of derivatives, each label
ERROR, WEIGHT = 0, 1  # columns of the members' quality, faded


@kernel
def gather(
    op, row, y, w, slab, start, n, n_classes, kept,
    some_op, some_row, some_y, some_w, kind, source, some_slab, loaded, place,
):  # fmt: skip
    """Make what members run of operations start .. start + n; returns its numbers of operations and of rows. O(n d).

    A label is learned beside the votes that `kept` has for its instance, or that were wanted before in this program and
    will be kept. Where nothing is kept, members predict once more right before the label, in a row of its own.

    kept : (capacity, n_outputs), the first member's votes, NaN in column 0 where none stand there; or no columns.
    loaded : of each row, whether its votes are those that were kept.
    place : int32, a row for each row of the slab, of any content. It is right where `source` says so.
    """
    keeping = kept.shape[1] > 0
    at_op = 0
    n_rows = 0
    for i in range(start, start + n):
        r = row[i]
        learn = op[i] == LEARN
        teaches = learn and w[i] > 0.0 and w[i] < np.inf
        if teaches:
            teaches = (y[i] >= 0.0 and y[i] < n_classes) if n_classes > 0 else abs(y[i]) <= LARGEST_TARGET
        at = place[r]
        if not (learn and keeping and 0 <= at < n_rows and source[at] == r):
            at = n_rows
            n_rows += 1
            source[at] = r
            for f in range(slab.shape[1]):
                some_slab[at, f] = slab[r, f]
            if not learn or (keeping and not np.isnan(kept[r, 0])):
                place[r] = at
            loaded[at] = learn and keeping and not np.isnan(kept[r, 0])
            if teaches and not loaded[at]:
                some_op[at_op] = PREDICT
                some_row[at_op] = at
                some_y[at_op] = np.nan
                some_w[at_op] = 1.0
                kind[at_op] = AT_LABEL
                at_op += 1
        some_op[at_op] = op[i]
        some_row[at_op] = at
        some_y[at_op] = y[i]
        some_w[at_op] = w[i] if teaches or not learn else 0.0
        kind[at_op] = LABEL if learn else WANTED
        at_op += 1
    return at_op, n_rows


@kernel
def pool_classes(
    rule, op, row, y, w, kind, source, n, planes, rate, floor, weights, sizes, quality, counts, out, p, g
):  # fmt: skip
    """Write the pooled probabilities of what was wanted into `out`, and learn from labels.

    counts : (2,) float64, labels that taught, and the sum that makes a faded mean of `sizes`.
    p : (n_outputs,), g : (members,), scratch.
    """
    m = planes.shape[0]
    for i in range(n):
        if kind[i] == AT_LABEL:
            continue
        at = row[i]
        if kind[i] == WANTED:
            _classes(rule, planes, at, weights, quality, floor, p)
            for c in range(len(p)):
                out[source[at], c] = p[c]
            continue
        if not w[i] > 0.0:
            continue
        known = _classes(rule, planes, at, weights, quality, floor, p)
        label = int(y[i])
        possible = False
        for j in range(m):
            possible = possible or planes[j, at, label] > 0.0
        if not known or not possible:  # no weights would have made it right
            continue
        share = min(1.0, w[i])
        if rule == LOGARITHMIC:
            for j in range(m):
                mean, own = 0.0, 0.0
                if _says(planes, j, at):
                    for c in range(len(p)):
                        if p[c] > 0.0 or c == label:
                            log = np.log(max(planes[j, at, c], floor))
                            mean += p[c] * log
                            if c == label:
                                own = log
                g[j] = mean - own
            _step(rate, share, weights, sizes, counts, g)
            for j in range(m):
                weights[j] = max(0.0, weights[j])
        elif rule == LINEAR:
            total = 0.0
            for j in range(m):
                likelihood = planes[j, at, label] if _says(planes, j, at) else p[label]
                weights[j] *= max(likelihood, floor) ** share
                total += weights[j]
            for j in range(m):
                weights[j] = (1.0 - rate) * weights[j] / total + rate / m
        for j in range(m):
            best = 0
            for c in range(1, len(p)):
                if planes[j, at, c] > planes[j, at, best]:
                    best = c
            _judge(quality, j, rate, share, 0.0 if best == label and planes[j, at, best] > 0.0 else 1.0)


@kernel
def _says(planes, j, at):
    """Whether a member knew anything of the instance."""
    total = 0.0
    for c in range(planes.shape[2]):
        total += planes[j, at, c]
    return total > 0.0


@kernel
def _classes(rule, planes, at, weights, quality, floor, p):
    """Pooled probabilities into p; whether any member knew anything. A class that all give 0 keeps 0."""
    m, k = planes.shape[0], planes.shape[2]
    best, total = -1, 0.0
    for c in range(k):
        p[c] = 0.0
    for j in range(m):
        if _says(planes, j, at):
            total += weights[j]
            if best < 0 or quality[j, ERROR] * quality[best, WEIGHT] < quality[best, ERROR] * quality[j, WEIGHT]:
                best = j
    if best < 0:
        return False
    if rule == LEADER:
        for c in range(k):
            p[c] = planes[best, at, c]
        return True
    most = -np.inf
    for c in range(k):
        possible, pooled = False, 0.0
        for j in range(m):
            if _says(planes, j, at):
                possible = possible or planes[j, at, c] > 0.0
                weight = weights[j] if rule == LOGARITHMIC or total > 0.0 else 1.0
                pooled += weight * (np.log(max(planes[j, at, c], floor)) if rule == LOGARITHMIC else planes[j, at, c])
        if rule == LOGARITHMIC:
            p[c] = pooled if possible else -np.inf
            most = max(most, p[c])
        else:
            p[c] = pooled
    total = 0.0
    for c in range(k):
        if rule == LOGARITHMIC:
            p[c] = np.exp(p[c] - most) if p[c] > -np.inf else 0.0
        total += p[c]
    for c in range(k):
        p[c] /= total
    return True


@kernel
def pool_values(
    rule, op, row, y, w, kind, source, n, planes, rate, weights, sizes, quality, counts, out, g
):  # fmt: skip
    """As pool_classes, of a regression."""
    m = planes.shape[0]
    for i in range(n):
        if kind[i] == AT_LABEL:
            continue
        at = row[i]
        value = _value(rule, planes, at, weights, quality)
        if kind[i] == WANTED:
            out[source[at], 0] = value
            continue
        if not w[i] > 0.0 or np.isnan(value):
            continue
        share = min(1.0, w[i])
        if rule == LINEAR:
            finite = True
            for j in range(m):
                own = planes[j, at, 0]
                g[j] = (value - y[i]) * (own - value) if np.isfinite(own) else 0.0
                finite = finite and np.isfinite(g[j])
            if finite:
                _step(rate, share, weights, sizes, counts, g)
                _onto_simplex(weights)
        for j in range(m):
            if np.isfinite(planes[j, at, 0]):
                _judge(quality, j, rate, share, abs(planes[j, at, 0] - y[i]))


@kernel
def _value(rule, planes, at, weights, quality):
    """The pooled value, NaN where no member knows one."""
    m = planes.shape[0]
    best, n, total, pooled, mean = -1, 0, 0.0, 0.0, 0.0
    for j in range(m):
        own = planes[j, at, 0]
        if np.isfinite(own):
            n += 1
            total += weights[j]
            pooled += weights[j] * own
            mean += own
            if best < 0 or quality[j, ERROR] * quality[best, WEIGHT] < quality[best, ERROR] * quality[j, WEIGHT]:
                best = j
    if best < 0:
        return np.nan
    if rule == LEADER:
        return planes[best, at, 0]
    return pooled / total if total > 0.0 else mean / n


@kernel
def _step(rate, share, weights, sizes, counts, g):
    """One step against the derivatives, each over its running mean size."""
    counts[0] += 1.0
    counts[1] = FADING * counts[1] + (1.0 - FADING)
    length = share * rate * max(1.0, EARLY / np.sqrt(counts[0]))
    for j in range(len(g)):
        sizes[j] = FADING * sizes[j] + (1.0 - FADING) * abs(g[j])
        if sizes[j] > 0.0:
            weights[j] -= length * g[j] * counts[1] / sizes[j]


@kernel
def _onto_simplex(weights):
    """The nearest weights >= 0 whose sum is 1 (Michelot's algorithm)."""
    threshold, before = -np.inf, 0
    for _ in range(len(weights)):  # each round but the last leaves out one at least
        left, total = 0, 0.0
        for weight in weights:
            if weight > threshold:
                left += 1
                total += weight
        if left in (0, before):
            break
        threshold, before = (total - 1.0) / left, left
    for j in range(len(weights)):
        weights[j] = max(0.0, weights[j] - threshold)


@kernel
def _judge(quality, j, rate, share, error):
    """Note an error of a member; what was before fades."""
    quality[j, ERROR] = (1.0 - rate) * quality[j, ERROR] + share * error
    quality[j, WEIGHT] = (1.0 - rate) * quality[j, WEIGHT] + share
