"""Classification and regression trees (CART) on the rows of a small window, as kernels.

Breiman, Friedman, Olshen and Stone 1984: the test that lowers the Gini impurity (or the variance of the target) most,
at midpoints between neighbouring values, down to pure leaves or a given depth. Geurts, Ernst and Wehenkel 2006
(extremely randomised trees): one threshold a feature, drawn between the least and the greatest value.

A window is held by columns: `columns` (d, size), a missing value as infinity. Tests: numeric x <= value, nominal
x == value, so a missing value always goes right; where some are missing, "known" is a candidate as well (value KNOWN).
A test without gain is taken too while the rows are not pure: two of them can be what an exclusive or needs.

A tree is one row of `Trees`: node 0 is the root; the children of an inner node are left and left + 1; a leaf has
feature -1, and `left` is its row in `values`: class shares, or the mean.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel
from models.streams.randomness import below, uniform

KNOWN = np.finfo(np.float64).max  # a threshold that only missing values exceed

# Places in Trees.sizes.
NODES, LEAVES = 0, 1


class Trees(NamedTuple):
    """Room for trees, one a row. n: most nodes of a tree.

    feature : (slots, n) int32, -1 for a leaf. value : (slots, n) float64, threshold or nominal code.
    left : (slots, n) int32. values : (slots, leaves, outputs) float64. sizes : (slots, 2) int32, nodes and leaves.
    """

    feature: NDArray[np.int32]
    value: Floats
    left: NDArray[np.int32]
    values: Floats
    sizes: NDArray[np.int32]


class Scratch(NamedTuple):
    """What growing a tree needs and leaves behind as rubbish.

    work : (d + 1, size) int32, rows by feature, the last for all. moved : (size,) int32. side : (size,) uint8.
    stack : (nodes + 1, 4) int32: node, first row, last row + 1, depth. features : (d,) int32. total, part : (outputs,).
    """

    work: NDArray[np.int32]
    moved: NDArray[np.int32]
    side: NDArray[np.uint8]
    stack: NDArray[np.int32]
    features: NDArray[np.int32]
    total: Floats
    part: Floats


def most_nodes(size: int, max_depth: int) -> int:
    """Nodes that a tree on `size` rows can have."""
    full = 2 * size - 1
    return full if max_depth > 40 else min(full, 2 ** (max_depth + 1) - 1)


def room_for_trees(slots: int, n_nodes: int, n_outputs: int) -> Trees:
    return Trees(
        np.full((slots, n_nodes), -1, np.int32),
        np.zeros((slots, n_nodes)),
        np.zeros((slots, n_nodes), np.int32),
        np.zeros((slots, (n_nodes + 1) // 2, n_outputs)),
        np.zeros((slots, 2), np.int32),
    )


def room_to_grow(n_features: int, size: int, n_nodes: int, n_outputs: int) -> Scratch:
    return Scratch(
        np.zeros((n_features + 1, size), np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.uint8),
        np.zeros((n_nodes + 1, 4), np.int32),
        np.zeros(n_features, np.int32),
        np.zeros(n_outputs),
        np.zeros(n_outputs),
    )


@kernel(inline=True)
def leaf_of(trees, slot, n_values, x, r):
    """The row of `values` for row r of x (rows by instance; missing as NaN or infinity). O(depth)."""
    node = 0
    f = trees.feature[slot, 0]
    while f >= 0:
        value = x[r, f]
        if n_values[f] > 0:
            left = value == trees.value[slot, node]
        else:
            left = value <= trees.value[slot, node] and value - value == 0.0
        node = trees.left[slot, node] if left else trees.left[slot, node] + 1
        f = trees.feature[slot, node]
    return trees.left[slot, node]


@kernel(inline=True)
def leaf_in(trees, slot, n_values, columns, i):
    """`leaf_of` for instance i of a window, by columns."""
    node = 0
    f = trees.feature[slot, 0]
    while f >= 0:
        value = columns[f, i]
        left = value == trees.value[slot, node] if n_values[f] > 0 else value <= trees.value[slot, node]
        node = trees.left[slot, node] if left else trees.left[slot, node] + 1
        f = trees.feature[slot, node]
    return trees.left[slot, node]


@kernel(inline=True)
def _sum_up(rows, start, end, y, w, classes, total):
    """Weight of rows[start:end], sum of squares of `total`, and whether they are pure.

    Mutates total: the weight of each class, or the weighted sum of targets."""
    weight = 0.0
    pure = True
    total[:] = 0.0
    first = y[rows[start]]
    for k in range(start, end):
        i = rows[k]
        weight += w[i]
        pure = pure and y[i] == first
        if classes:
            total[np.int64(y[i])] += w[i]
        else:
            total[0] += w[i] * y[i]
    squares = 0.0
    for c in range(len(total)):
        squares += total[c] * total[c]
    return weight, squares, pure


@kernel(inline=True)
def _score(left_squares, left_weight, right_squares, right_weight):
    """What a test makes of its rows: the greater, the lower is the weighted Gini impurity (or variance) after it."""
    return left_squares / left_weight + right_squares / right_weight


@kernel(inline=True)
def _best_on(f, nominal, rows, start, end, columns, y, w, classes, weight, squares, total, part):
    """Best test on one feature: score (-inf: none), value. rows[start:end] are sorted by value, missing ones last.

    Ties to the lowest value. Mutates part. O(rows)."""
    best = -np.inf
    value = 0.0
    left_weight = 0.0
    left_squares = 0.0
    right_squares = squares
    part[:] = 0.0
    for k in range(start, end):
        i = rows[k]
        here = columns[f, i]
        if here == np.inf:
            break
        left_weight += w[i]
        if classes:
            c = np.int64(y[i])
            right = total[c] - part[c]
            left_squares += w[i] * (2.0 * part[c] + w[i])
            right_squares -= w[i] * (2.0 * right - w[i])
            part[c] += w[i]
        else:
            part[0] += w[i] * y[i]
            left_squares = part[0] * part[0]
            right_squares = (total[0] - part[0]) * (total[0] - part[0])
        following = columns[f, rows[k + 1]] if k + 1 < end else here
        last = k + 1 == end or following != here
        if not last:
            continue
        # nominal: the last run of all is a candidate as well, if there was one before it
        if k + 1 < end or (nominal and columns[f, rows[start]] != here):
            score = _score(left_squares, left_weight, right_squares, weight - left_weight)
            if score > best:
                best = score
                if nominal:
                    value = here
                elif following == np.inf:
                    value = KNOWN
                else:
                    value = here + 0.5 * (following - here)
                    if not value < following:  # neighbouring floats
                        value = here
        if nominal:  # the next run begins anew
            left_weight = 0.0
            left_squares = 0.0
            right_squares = squares
            part[:] = 0.0
    return best, value


@kernel(inline=True)
def _random_on(f, nominal, rows, start, end, columns, y, w, classes, weight, squares, total, part, random):
    """One random test on one feature: score (-inf: all rows have the same value), value. Mutates part, random."""
    least = np.inf
    greatest = -np.inf
    missing = False
    for k in range(start, end):
        here = columns[f, rows[k]]
        if here == np.inf:
            missing = True
        else:
            least = min(least, here)
            greatest = max(greatest, here)
    if not least < greatest and not (missing and least < np.inf):
        return -np.inf, 0.0
    if nominal:
        value = np.inf
        while value == np.inf:
            value = columns[f, rows[start + below(random, end - start)]]
    elif least < greatest:
        value = least + uniform(random) * (greatest - least)
        if not value < greatest:
            value = least
    else:
        value = KNOWN
    left_weight = 0.0
    part[:] = 0.0
    for k in range(start, end):
        i = rows[k]
        here = columns[f, i]
        if (here == value) if nominal else (here <= value):
            left_weight += w[i]
            if classes:
                part[np.int64(y[i])] += w[i]
            else:
                part[0] += w[i] * y[i]
    left_squares = 0.0
    right_squares = 0.0
    for c in range(len(total)):
        left_squares += part[c] * part[c]
        right_squares += (total[c] - part[c]) * (total[c] - part[c])
    return _score(left_squares, left_weight, right_squares, weight - left_weight), value


@kernel(inline=True)
def _part(rows, start, end, side, moved):
    """Move the rows of the left side before the others, each in its order. Mutates rows, moved. O(rows)."""
    at = start
    n = 0
    for k in range(start, end):
        i = rows[k]
        if side[i]:
            rows[at] = i
            at += 1
        else:
            moved[n] = i
            n += 1
    for k in range(n):
        rows[at + k] = moved[k]
    return at


@kernel
def grow(
    trees,
    slot,
    columns,
    y,
    w,
    n_values,
    order,
    chosen,
    n_chosen,
    n_tried,
    best_splits,
    classes,
    max_depth,
    random,
    scratch,
):
    """Grow a tree on the rows in `chosen`.

    columns : (d, size). y, w : (size,), class codes or targets, weights > 0. order : (d, size) int32, of each feature
    the rows by value, missing ones last, -1 beyond (used for best splits only). chosen : (size,) uint8, 1 for the rows
    to learn. n_chosen : how many, >= 1. n_tried : features tried a node; more while none of them differs. best_splits :
    the best test a feature, or a random one. random : state of models.streams.randomness, used
    where n_tried < d or for random tests.

    Mutates trees[slot], random, scratch. O(d rows depth).
    """
    d, size = columns.shape
    work, moved, side, stack, features, total, part = scratch
    all_rows = work[d]
    n = 0
    for i in range(size):
        if chosen[i]:
            all_rows[n] = i
            n += 1
    if best_splits:
        for f in range(d):
            n = 0
            for k in range(order.shape[1]):
                i = order[f, k]
                if i >= 0 and chosen[i]:
                    work[f, n] = i
                    n += 1
    for f in range(d):
        features[f] = f
    n_nodes = 1
    n_leaves = 0
    stack[0, 0] = 0
    stack[0, 1] = 0
    stack[0, 2] = n_chosen
    stack[0, 3] = 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top, 0]
        start = stack[top, 1]
        end = stack[top, 2]
        depth = stack[top, 3]
        weight, squares, pure = _sum_up(all_rows, start, end, y, w, classes, total)
        best = -np.inf
        best_feature = -1
        best_value = 0.0
        if not pure and depth < max_depth:
            for tried in range(d):
                if tried >= n_tried and best_feature >= 0:
                    break
                if n_tried < d:
                    swap = tried + below(random, d - tried)
                    f = features[swap]
                    features[swap] = features[tried]
                    features[tried] = f
                else:
                    f = tried
                if best_splits:
                    score, value = _best_on(
                        f, n_values[f] > 0, work[f], start, end, columns, y, w, classes, weight, squares, total, part
                    )
                else:
                    score, value = _random_on(
                        f,
                        n_values[f] > 0,
                        all_rows,
                        start,
                        end,
                        columns,
                        y,
                        w,
                        classes,
                        weight,
                        squares,
                        total,
                        part,
                        random,
                    )
                if score > best:
                    best = score
                    best_feature = f
                    best_value = value
        trees.feature[slot, node] = best_feature
        trees.value[slot, node] = best_value
        if best_feature < 0:
            trees.left[slot, node] = n_leaves
            for c in range(len(total)):
                trees.values[slot, n_leaves, c] = total[c] / weight
            n_leaves += 1
            continue
        for k in range(start, end):
            i = all_rows[k]
            here = columns[best_feature, i]
            side[i] = here == best_value if n_values[best_feature] > 0 else here <= best_value
        middle = _part(all_rows, start, end, side, moved)
        if best_splits:
            for f in range(d):
                _part(work[f], start, end, side, moved)
        trees.left[slot, node] = n_nodes
        stack[top, 0] = n_nodes + 1
        stack[top, 1] = middle
        stack[top, 2] = end
        stack[top, 3] = depth + 1
        stack[top + 1, 0] = n_nodes
        stack[top + 1, 1] = start
        stack[top + 1, 2] = middle
        stack[top + 1, 3] = depth + 1
        top += 2
        n_nodes += 2
    trees.sizes[slot, NODES] = n_nodes
    trees.sizes[slot, LEAVES] = n_leaves
