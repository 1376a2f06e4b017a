"""Classification and regression trees (CART) on the rows of a small window, as one kernel.

Breiman, Friedman, Olshen and Stone 1984: the test that lowers the Gini impurity (or the variance of the target) most,
at midpoints between neighbouring values, down to pure leaves or a given depth. Geurts, Ernst and Wehenkel 2006
(extremely randomised trees): one threshold a feature, drawn between the least and the greatest value.

Where some values are missing, "known" is a candidate as well. A test without gain is taken too while the rows are not
pure: two of them can be what an exclusive or needs. Of features whose tests are equally good one is drawn: on two or
three rows most of them are, and always the first of those would be a poor choice.

For best tests the rows are sorted by each feature once, by the window, and handed down from node to node in that
order, to children that look for a test only. Rows change places without a branch: which side a row takes is a toss-up
for the processor. Rows are unsigned, for numba asks of each signed index whether it is negative (20 % of the time).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.joined import zeros
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below
from riparian.models.kernels.simd import WIDTH
from riparian.models.shrubs.random_splits import FEW, random_on, random_on_all, random_on_few, takes_place
from riparian.models.shrubs.splits import best_on, is_pure, sum_up
from riparian.models.shrubs.trees import FEATURE, LEAVES, LEFT, NODES, VALUE

INNER = 1  # in CartScratch.stack: the node looks for a test


class CartScratch(NamedTuple):
    """What growing a tree needs and leaves behind as rubbish, but for `leaf`.

    work : (d + 1, size) uint32, rows by feature, the last for all.
    moved : (size,) uint32.
    side : (size,) uint8.
    stack : (nodes + 1, 5) int32: node, first row, last row + 1, depth, whether it is inner.
    features : (d,) int32.
    total, part : (outputs,).
    column : (size,).
    parts, lanes, states, few : of models.shrubs.random_splits.
    leaf : (size,) int32, of the rows that the last tree grew on their leaf.
    """

    work: NDArray[np.uint32]
    moved: NDArray[np.uint32]
    side: NDArray[np.uint8]
    stack: NDArray[np.int32]
    features: NDArray[np.int32]
    total: Floats
    part: Floats
    column: Floats
    parts: Floats
    lanes: Floats
    states: NDArray[np.uint64]
    few: Floats
    leaf: NDArray[np.int32]


def room_to_grow(n_features: int, size: int, n_nodes: int, n_outputs: int) -> CartScratch:
    return zeros(
        CartScratch, (n_features + 1, size), size, size, (n_nodes + 1, 5), n_features, n_outputs, n_outputs, size,
        (n_outputs, WIDTH), (6, WIDTH), (WIDTH, 4), (3, FEW), size,
    )  # fmt: skip


@kernel(inline=True)
def _part(rows, start, end, side, moved):
    """Move the rows of the left side before the others, each in its order. Mutates rows, moved. O(rows)."""
    at = start
    n = 0
    for k in range(start, end):
        i = rows[k]
        left = np.int64(side[i])
        rows[at] = i
        moved[n] = i
        at += left
        n += 1 - left
    for k in range(n):
        rows[at + k] = moved[k]
    return at


@kernel(inline=True)
def _part_by(x, f, lowest, value, rows, start, end, moved):
    """Part the rows of a node (`_part`) where no other order of the rows asks for their sides. Mutates rows, moved.
    O(rows)."""
    at = start
    n = 0
    for k in range(start, end):
        i = rows[k]
        here = x[i, f]
        left = np.int64((here <= value) & (here >= lowest))
        rows[at] = i
        moved[n] = i
        at += left
        n += 1 - left
    for k in range(n):
        rows[at + k] = moved[k]
    return at


@kernel(inline=True)
def _keep_left(rows, start, end, side):
    """The rows of the left side to the start, and rubbish behind. Mutates rows."""
    at = start
    for k in range(start, end):
        i = rows[k]
        rows[at] = i
        at += np.int64(side[i])


@kernel(inline=True)
def _keep_right(rows, start, end, side):
    """The rows of the right side to the end, and rubbish before. Mutates rows."""
    at = end - 1
    for k in range(end - 1, start - 1, -1):
        i = rows[k]
        rows[at] = i
        at -= 1 - np.int64(side[i])


@kernel(inline=True)
def _draw(features, at, random):
    """Put one of features[at:] at `at`, at random. Mutates features, random."""
    swap = at + below(random, len(features) - at)
    f = features[swap]
    features[swap] = features[at]
    features[at] = f


@kernel(allocates=True)
def grow(
    trees, slot, x, columns, y, w, n_values, order, n_filled, chosen, n_chosen, n_tried, subspace, best_splits, kind,
    max_depth, random, scratch,
):  # fmt: skip
    """Grow a tree on the rows in `chosen`.

    x, columns : of the window. y, w : (size,), class codes or targets, weights > 0. order : (d, size) uint32, of each
    feature the n_filled rows by value, missing ones last (used for best splits only, as `columns` is). chosen : (size,)
    uint8, 1 for the rows to learn. n_chosen : how many, >= 1. n_tried : features tried a node, drawn anew for each, and
    more while none of them differs; or, in a subspace, drawn once for the whole tree. best_splits : the best test a
    feature, or a random one. kind : of sums, models.shrubs.splits. random : state of models.kernels.randomness, used
    for features where n_tried < d, for random tests, and where features tie.

    Mutates trees[slot], random, scratch. O(d rows depth).
    """
    d = len(n_values)
    work, moved, side, stack, features, total, part, column, parts, lanes, states, few, leaf = scratch
    all_rows = work[d]
    n = 0
    for i in range(n_filled):
        if chosen[i]:
            all_rows[n] = i
            n += 1
    for f in range(d):
        features[f] = f
    n_used = n_tried if subspace else d
    if n_used < d:
        for tried in range(n_used):
            _draw(features, tried, random)
    if best_splits:
        for f in features[:n_used]:
            if n_chosen == n_filled:
                work[f, :n_filled] = order[f, :n_filled]
                continue
            n = 0
            for k in range(n_filled):
                i = order[f, k]
                if chosen[i]:
                    work[f, n] = i
                    n += 1
    n_nodes = 1
    n_leaves = 0
    stack[0, 0] = 0
    stack[0, 1] = 0
    stack[0, 2] = n_chosen
    stack[0, 3] = 0
    stack[0, 4] = INNER if max_depth > 0 and not is_pure(all_rows, 0, n_chosen, y) else 0
    top = 1
    while top > 0:
        top -= 1
        node = stack[top, 0]
        start = stack[top, 1]
        end = stack[top, 2]
        depth = stack[top, 3]
        weight, moment, squares = sum_up(all_rows, start, end, y, w, kind, total)
        best = -np.inf
        best_feature = -1
        best_value = 0.0
        n_equal = 0
        if stack[top, 4] == INNER and not best_splits and n_tried >= d:
            if end - start >= FEW:
                best_feature, best_value = random_on_all(
                    n_values, all_rows, start, end, x, y, w, kind, weight, moment, total, parts, lanes, states, random
                )
            else:
                best_feature, best_value = random_on_few(
                    n_values, all_rows, start, end, x, y, w, kind, weight, moment, total, part, lanes, few, random
                )
        elif stack[top, 4] == INNER:
            for tried in range(n_used):
                if tried >= n_tried and best_feature >= 0:
                    break
                if n_tried < n_used:
                    _draw(features, tried, random)
                f = features[tried]
                if best_splits:
                    score, value = best_on(
                        f, n_values[f] > 0, work[f], start, end, columns, y, w, kind, weight, moment, squares, total,
                        part,
                    )  # fmt: skip
                else:
                    score, value = random_on(
                        f, n_values[f] > 0, all_rows, start, end, x, y, w, kind, weight, moment, total, part, column,
                        random,
                    )  # fmt: skip
                takes, n_equal = takes_place(score, best, best_feature, n_equal, random)
                if takes:
                    best = score
                    best_feature = f
                    best_value = value
        trees.links[slot, node, FEATURE] = best_feature
        trees.tests[slot, node, VALUE] = best_value
        if best_feature < 0:
            trees.links[slot, node, LEFT] = n_leaves
            for c in range(len(total)):
                trees.values[slot, n_leaves, c] = total[c] / weight
            for k in range(start, end):
                leaf[all_rows[k]] = n_leaves
            n_leaves += 1
            continue
        lowest = best_value if n_values[best_feature] > 0 else -np.inf
        if best_splits:
            for k in range(start, end):
                i = all_rows[k]
                here = x[i, np.uint64(best_feature)]
                side[i] = (here <= best_value) & (here >= lowest)
            middle = _part(all_rows, start, end, side, moved)
        else:
            middle = _part_by(x, np.uint64(best_feature), lowest, best_value, all_rows, start, end, moved)
        deeper = depth + 1 < max_depth
        left = deeper and not is_pure(all_rows, start, middle, y)
        right = deeper and not is_pure(all_rows, middle, end, y)
        if best_splits and (left or right):
            for f in features[:n_used]:
                if not right:
                    _keep_left(work[f], start, end, side)
                elif not left:
                    _keep_right(work[f], start, end, side)
                else:
                    _part(work[f], start, end, side, moved)
        trees.links[slot, node, LEFT] = n_nodes
        stack[top, 0] = n_nodes + 1
        stack[top, 1] = middle
        stack[top, 2] = end
        stack[top, 3] = depth + 1
        stack[top, 4] = INNER if right else 0
        stack[top + 1, 0] = n_nodes
        stack[top + 1, 1] = start
        stack[top + 1, 2] = middle
        stack[top + 1, 3] = depth + 1
        stack[top + 1, 4] = INNER if left else 0
        top += 2
        n_nodes += 2
    trees.sizes[slot, NODES] = n_nodes
    trees.sizes[slot, LEAVES] = n_leaves
