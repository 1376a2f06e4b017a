"""Tests of a node: the best one of a feature, on the rows of a small window. Random ones: models.shrubs.random_splits.

A test is good if it leaves little Gini impurity (or variance of the target). The impurity of a side, times its weight,
is the weight less `squares` / weight, where `squares` are those of the weight of each class (or of the weighted sum of
targets), so the test with the greatest sum of squares / weight over both sides is the best.

Three kinds of sums: a target (MEAN) and two classes (TWO) need one number, the sum of w y, beside the weight; more
classes (SHARES) need a number each. Which one depends on the classes seen, not on the room for them: that grows when
a batch is taken up, so it would let the cuts between batches decide how sums are rounded.

A window has a missing value as infinity. For best tests it is held by columns, too: `columns` (d, size).
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.shrubs.trees import KNOWN

MEAN, TWO, SHARES = 0, 1, 2


@kernel(inline=True)
def kind_of(classes, seen):
    """The kind of sums. seen : (n_outputs,) uint8, 1 for the classes seen."""
    if not classes:
        return MEAN
    for c in range(2, len(seen)):
        if seen[c]:
            return SHARES
    return TWO


@kernel(inline=True)
def sum_up(rows, start, end, y, w, kind, total):
    """Weight of rows[start:end], sum of w y, squares of `total`. Mutates total: weights of classes, or the sum."""
    weight = 0.0
    moment = 0.0
    if kind == SHARES:
        total[:] = 0.0
        for k in range(start, end):
            i = rows[k]
            weight += w[i]
            total[np.uint32(y[i])] += w[i]
    else:
        for k in range(start, end):
            i = rows[k]
            weight += w[i]
            moment += w[i] * y[i]
        if kind == TWO:
            total[0] = weight - moment
            total[1] = moment
        else:
            total[0] = moment
    squares = 0.0
    for c in range(len(total)):
        squares += total[c] * total[c]
    return weight, moment, squares


@kernel(inline=True)
def is_pure(rows, start, end, y):
    """Whether all of rows[start:end] have the same label."""
    first = y[rows[start]]
    k = start + 1
    while k < end and y[rows[k]] == first:
        k += 1
    return k == end


@kernel(inline=True)
def one_moment(weight, moment, kind):
    """`squares` / weight of a side with one sum."""
    if kind == TWO:
        other = weight - moment
        return (moment * moment + other * other) / weight
    return moment * moment / weight


@kernel(inline=True)
def between(here, following):
    """The threshold between two neighbouring values; the second may be missing."""
    if following == np.inf:
        return KNOWN
    value = here + 0.5 * (following - here)
    return value if value < following else here  # neighbouring floats


@kernel(inline=True)
def best_on(f, nominal, rows, start, end, columns, y, w, kind, weight, moment, squares, total, part):
    """Best test on one feature: score (-inf: none), value. rows[start:end] are sorted by value, missing ones last.

    Ties to the lowest value. Mutates part. O(rows)."""
    column = columns[f]
    best = -np.inf
    value = 0.0
    if column[rows[start]] == column[rows[end - 1]]:
        return best, value
    if nominal:
        return _best_value(column, rows, start, end, y, w, kind, weight, moment, squares, total, part)
    left_weight = 0.0
    here = column[rows[start]]
    if kind != SHARES:
        left = 0.0
        for k in range(start, end - 1):
            i = rows[k]
            left_weight += w[i]
            left += w[i] * y[i]
            following = column[rows[k + 1]]
            if following != here:
                score = one_moment(left_weight, left, kind) + one_moment(weight - left_weight, moment - left, kind)
                if score > best:
                    best = score
                    value = between(here, following)
                here = following
        return best, value
    part[:] = 0.0
    left_squares = 0.0
    right_squares = squares
    for k in range(start, end - 1):
        i = rows[k]
        left_weight += w[i]
        c = np.uint32(y[i])
        left_squares += w[i] * (2.0 * part[c] + w[i])
        right_squares -= w[i] * (2.0 * (total[c] - part[c]) - w[i])
        part[c] += w[i]
        following = column[rows[k + 1]]
        if following != here:
            score = left_squares / left_weight + right_squares / (weight - left_weight)
            if score > best:
                best = score
                value = between(here, following)
            here = following
    return best, value


@kernel(inline=True)
def _best_value(column, rows, start, end, y, w, kind, weight, moment, squares, total, part):
    """The best nominal value against the rest: each run of equal values is a candidate. Mutates part. O(rows)."""
    best = -np.inf
    value = 0.0
    k = start
    while k < end:
        here = column[rows[k]]
        if here == np.inf:
            break
        left_weight = 0.0
        left = 0.0
        left_squares = 0.0
        right_squares = squares
        if kind == SHARES:
            part[:] = 0.0
        while k < end and column[rows[k]] == here:
            i = rows[k]
            left_weight += w[i]
            if kind == SHARES:
                c = np.uint32(y[i])
                left_squares += w[i] * (2.0 * part[c] + w[i])
                right_squares -= w[i] * (2.0 * (total[c] - part[c]) - w[i])
                part[c] += w[i]
            else:
                left += w[i] * y[i]
            k += 1
        if kind == SHARES:
            score = left_squares / left_weight + right_squares / (weight - left_weight)
        else:
            score = one_moment(left_weight, left, kind) + one_moment(weight - left_weight, moment - left, kind)
        if score > best:
            best = score
            value = here
    return best, value
