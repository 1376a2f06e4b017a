"""What each feature adds to the vote of a shrub ensemble, as kernels.

A leaf keeps what its tree grew on, an inner node nothing. Its value is the class shares, or the mean target, of the
window's items that come to it now; where none comes, it is as its parent. On the way to the leaf, whose own value is
what votes, each change is put down to the feature that is tested (Saabas 2014).

A label lets one item come and one go, which moves the nodes on their two ways. So of trees that have been asked it is
kept where each item of the window falls: whoever asks lets the items fall that have come since, and adds up what is
above them, leaves from their items, the oldest first, other nodes from their two children. O(depth k) a label and tree,
and the items of two leaves; a tree that has come since takes O(n depth). What a node has follows from the window and
its tree alone, so it is the same bits whenever it is added up, and it is no state.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel
from models.shrubs.trees import FEATURE, LEFT, NODES, VALUE, Trees
from models.shrubs.window import FILLED, HEAD, LEARNED, MEMBERS, Window


class Fallen(NamedTuple):
    """Where the items of a window fall in its trees, by slots; n nodes.

    place : (slots, size) int32, the leaf of an item, -1 where there is none.
    after : (slots, size) int32, the next younger item of the leaf, -1 for none.
    oldest, youngest : (slots, n) int32, items of a leaf, -1 for none.
    parent : (slots, n) int32.
    stale : (slots, n) uint8, whether a node has to be added up anew. If it has, so have all nodes above.
    sums : (slots, n, outputs + 1) float64, the weight of each class, or that of the items times their targets; and the
        weight of all.
    order : (n,) int32, scratch.
    grown : (slots,) int64, of the tree, as models.shrubs.members has it; -1 of none.
    asked : (1,) int64, labels learned when somebody asked last.
    """

    place: NDArray[np.int32]
    after: NDArray[np.int32]
    oldest: NDArray[np.int32]
    youngest: NDArray[np.int32]
    parent: NDArray[np.int32]
    stale: NDArray[np.uint8]
    sums: Floats
    order: NDArray[np.int32]
    grown: NDArray[np.int64]
    asked: NDArray[np.int64]


def nothing_fallen(slots: int, size: int, n_nodes: int, n_outputs: int) -> Fallen:
    place, after = np.full((2, slots, size), -1, np.int32)
    oldest, youngest, parent = np.full((3, slots, n_nodes), -1, np.int32)
    return Fallen(
        place,
        after,
        oldest,
        youngest,
        parent,
        np.ones((slots, n_nodes), np.uint8),
        np.zeros((slots, n_nodes, n_outputs + 1)),
        np.zeros(n_nodes, np.int32),
        np.full(slots, -1, np.int64),
        np.zeros(1, np.int64),
    )


_WINDOW = len(Window._fields)
_TREES = _WINDOW + len(Trees._fields)


@kernel(inline=True)
def _child(trees, slot, node, n_values, x, r):
    """Of an inner node, where row r of x goes. Tests are those of `models.shrubs.trees.leaf_of`."""
    f = trees.links[slot, node, FEATURE]
    value = x[r, f]
    test = trees.tests[slot, node, VALUE]
    left = value == test if n_values[f] > 0 else value <= test and value - value == 0.0
    return np.int64(trees.links[slot, node, LEFT]) + (0 if left else 1)


@kernel(inline=True)
def _touch(fallen, slot, node):
    """As models.contributions.touch. Mutates fallen.stale."""
    while node >= 0 and fallen.stale[slot, node] == 0:
        fallen.stale[slot, node] = 1
        node = np.int64(fallen.parent[slot, node])


@kernel(inline=True)
def _take(fallen, slot, i):
    """Item i, the oldest of the window, goes. Mutates fallen."""
    leaf = np.int64(fallen.place[slot, i])
    if leaf < 0:
        return
    fallen.oldest[slot, leaf] = fallen.after[slot, i]
    if fallen.after[slot, i] < 0:
        fallen.youngest[slot, leaf] = -1
    fallen.place[slot, i] = -1
    _touch(fallen, slot, leaf)


@kernel(inline=True)
def _drop(trees, fallen, slot, n_values, x, i):
    """Item i, the youngest, falls. Mutates fallen. O(depth)."""
    leaf = np.int64(0)
    while trees.links[slot, leaf, FEATURE] >= 0:
        leaf = _child(trees, slot, leaf, n_values, x, i)
    before = fallen.youngest[slot, leaf]
    if before < 0:
        fallen.oldest[slot, leaf] = i
    else:
        fallen.after[slot, before] = i
    fallen.youngest[slot, leaf] = i
    fallen.after[slot, i] = -1
    fallen.place[slot, i] = leaf
    _touch(fallen, slot, leaf)


@kernel
def _begin(trees, fallen, slot, n_values, x, counts):
    """Let all items fall in the tree of a slot. Mutates fallen. O(n depth)."""
    for node in range(trees.sizes[slot, NODES]):
        fallen.oldest[slot, node] = -1
        fallen.youngest[slot, node] = -1
        fallen.stale[slot, node] = 1
        if trees.links[slot, node, FEATURE] >= 0:
            for side in range(2):
                fallen.parent[slot, trees.links[slot, node, LEFT] + side] = node
    fallen.parent[slot, 0] = -1
    size = len(x)
    n = counts[FILLED]
    for k in range(n):
        _drop(trees, fallen, slot, n_values, x, (counts[HEAD] + k) % size if n == size else k)


@kernel
def _add_up(trees, window, fallen, slot, classes):
    """Add up the stale nodes of a tree. Mutates fallen. O(stale nodes k, and the items of stale leaves)."""
    last = fallen.sums.shape[2] - 1
    order = fallen.order
    n = 0
    if fallen.stale[slot, 0] != 0:
        order[0] = 0
        n = 1
    at = 0
    while at < n:
        node = order[at]
        at += 1
        if trees.links[slot, node, FEATURE] >= 0:
            for side in range(2):
                child = trees.links[slot, node, LEFT] + side
                if fallen.stale[slot, child] != 0:
                    order[n] = child
                    n += 1
    for at in range(n - 1, -1, -1):
        node = order[at]
        sums = fallen.sums[slot, node]
        fallen.stale[slot, node] = 0
        if trees.links[slot, node, FEATURE] >= 0:
            left = np.int64(trees.links[slot, node, LEFT])
            for c in range(last + 1):
                sums[c] = fallen.sums[slot, left, c] + fallen.sums[slot, left + 1, c]
            continue
        for c in range(last + 1):
            sums[c] = 0.0
        i = np.int64(fallen.oldest[slot, node])
        while i >= 0:
            w = window.w[i]
            sums[last] += w
            if classes:
                sums[np.int64(window.y[i])] += w
            else:
                sums[0] += w * window.y[i]
            i = np.int64(fallen.after[slot, i])


@kernel
def contribute(slab, rows, about, share, counts, slots, grown, weights, n_values, classes, out, *flat):
    """Add what the features do to the vote of one window's trees, and in the last column the values of their roots.

    share : of the window. counts : its. slots, grown, weights : of models.shrubs.members. about : (n,) int64, -1 of a
    target. flat : the fields of window, trees and Fallen. Mutates Fallen and out : (rows, d + 1). O(rows m depth), and
    what has come since somebody asked.
    """
    window = Window(*flat[:_WINDOW])
    trees = Trees(*flat[_WINDOW:_TREES])
    fallen = Fallen(*flat[_TREES:])
    last = out.shape[1] - 1
    mass = fallen.sums.shape[2] - 1
    size = len(window.y)
    n_new = counts[LEARNED] - fallen.asked[0]
    fallen.asked[0] = counts[LEARNED]
    for j in range(counts[MEMBERS]):
        slot = slots[j]
        weight = share * weights[j]
        if trees.links[slot, 0, FEATURE] >= 0:
            if fallen.grown[slot] != grown[slot] or n_new >= size:
                fallen.grown[slot] = grown[slot]
                _begin(trees, fallen, slot, n_values, window.x, counts)
            else:
                for k in range(n_new):
                    i = (counts[HEAD] - n_new + k + size) % size
                    _take(fallen, slot, i)
                    _drop(trees, fallen, slot, n_values, window.x, i)
            _add_up(trees, window, fallen, slot, classes)
        first = 0
        while first < len(rows):
            stop = first + 1  # a row that is asked about class after class goes down once
            while stop < len(rows) and rows[stop] == rows[first]:
                stop += 1
            _go_down(trees, fallen, slot, weight, n_values, slab, rows[first], about, first, stop, mass, last, out)
            first = stop


@kernel(inline=True)
def _go_down(trees, fallen, slot, weight, n_values, slab, r, about, first, stop, mass, last, out):
    """Add what the tests on the way of row r change, of the classes about[first : stop]. Mutates out."""
    node = np.int64(0)
    above = np.int64(-1)  # the last node on the way that has a value of its own
    changed = last
    while True:
        inner = trees.links[slot, node, FEATURE] >= 0
        total = fallen.sums[slot, node, mass] if inner else 0.0
        if total > 0.0 or not inner:
            below = np.int64(trees.links[slot, node, LEFT])
            for i in range(first, stop):
                c = max(about[i], 0)
                there = fallen.sums[slot, node, c] / total if inner else trees.values[slot, below, c]
                here = fallen.sums[slot, above, c] / fallen.sums[slot, above, mass] if above >= 0 else 0.0
                out[i, changed] += weight * (there - here)
            above = node
        if not inner:
            return
        changed = np.int64(trees.links[slot, node, FEATURE])
        node = _child(trees, slot, node, n_values, slab, r)
