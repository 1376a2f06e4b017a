"""What each feature adds to the vote of a shrub ensemble, as kernels.

A leaf keeps what its tree grew on, an inner node nothing. Its value is the class shares, or the mean target, of the
window's items that come to it now; where none comes, it is as its parent. On the way to the leaf, whose own value is
what votes, each change is put down to the feature that is tested (Saabas 2014). The items go down with the instances
that are asked about, since each label changes what comes to a node: no state, and time only for nodes that are asked.
"""

import numpy as np

from models.kernel import kernel
from models.shrubs.trees import FEATURE, LEFT, VALUE


@kernel(inline=True)
def _part(trees, slot, node, n_values, x, rows, places, start, end):
    """Move the places whose row goes left before the others; where these begin. Mutates places. O(end - start).

    Tests are those of `models.shrubs.trees.leaf_of`.
    """
    f = trees.links[slot, node, FEATURE]
    nominal = n_values[f] > 0
    test = trees.tests[slot, node, VALUE]
    at = start
    for k in range(start, end):
        i = places[k]
        value = x[rows[i], f]
        left = value == test if nominal else value <= test and value - value == 0.0
        if left:
            places[k] = places[at]
            places[at] = i
            at += 1
    return at


@kernel(allocates=True)
def contribute(slab, rows, about, share, n, window, trees, slots, weights, n_values, classes, out):
    """Add what the features do to the vote of one window's trees, and in the last column the values of their roots.

    share : of the window. n : items in it. slots, weights : (m,), of its members. about : (n,) int64, -1 of a target.
    Mutates out : (rows, d + 1). O((n + rows) m depth).
    """
    last = out.shape[1] - 1
    n_outputs = trees.values.shape[2]
    every = np.arange(n)
    items = np.empty(n, np.int64)
    asked = np.empty(len(rows), np.int64)
    here = np.empty(len(rows))
    sums = np.empty(n_outputs)
    stack = np.empty((trees.tests.shape[1] + 1, 6), np.int64)
    for j in range(len(slots)):
        slot = slots[j]
        weight = share * weights[j]
        for i in range(n):
            items[i] = i
        for k in range(len(rows)):
            asked[k] = k
            here[k] = 0.0
        stack[0, 0] = 0
        stack[0, 1] = 0
        stack[0, 2] = n
        stack[0, 3] = 0
        stack[0, 4] = len(rows)
        stack[0, 5] = last
        top = 1
        while top > 0:
            top -= 1
            node = stack[top, 0]
            start = stack[top, 1]
            end = stack[top, 2]
            first = stack[top, 3]
            stop = stack[top, 4]
            changed = stack[top, 5]
            below = np.int64(trees.links[slot, node, LEFT])
            inner = trees.links[slot, node, FEATURE] >= 0
            mass = 0.0
            for c in range(n_outputs):
                sums[c] = 0.0 if inner else trees.values[slot, below, c]
            if inner:
                for k in range(start, end):
                    i = items[k]
                    mass += window.w[i]
                    if classes:
                        sums[np.int64(window.y[i])] += window.w[i]
                    else:
                        sums[0] += window.w[i] * window.y[i]
            if mass > 0.0 or not inner:
                for k in range(first, stop):
                    r = asked[k]
                    there = sums[max(about[r], 0)]
                    if inner:
                        there /= mass
                    out[r, changed] += weight * (there - here[r])
                    here[r] = there
            if not inner:
                continue
            middle = _part(trees, slot, node, n_values, window.x, every, items, start, end)
            half = _part(trees, slot, node, n_values, slab, rows, asked, first, stop)
            for side in range(2):
                to = (first, half) if side == 0 else (half, stop)
                if to[0] == to[1]:
                    continue
                stack[top, 0] = below + side
                stack[top, 1] = start if side == 0 else middle
                stack[top, 2] = middle if side == 0 else end
                stack[top, 3] = to[0]
                stack[top, 4] = to[1]
                stack[top, 5] = trees.links[slot, node, FEATURE]
                top += 1
