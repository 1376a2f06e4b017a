"""What each feature adds to the vote of a shrub ensemble, as kernels.

A leaf keeps what its tree grew on, an inner node nothing. Its value is the class shares, or the mean target, of the
window's items that come to it now; where none comes, it is as its parent. On the way to the leaf, whose own value is
what votes, each change is put down to the feature that is tested (Saabas 2014). The window is run through all trees
whenever values are asked for, since each label changes it: O(items trees depth), and no state.
"""

import numpy as np

from models.kernel import kernel
from models.shrubs.trees import NODES


@kernel(inline=True)
def _child(trees, slot, node, n_values, x, r):
    """The child of an inner node that row r of x goes to; as `models.shrubs.trees.leaf_of`."""
    f = trees.feature[slot, node]
    value = x[r, f]
    if n_values[f] > 0:
        left = value == trees.value[slot, node]
    else:
        left = value <= trees.value[slot, node] and value - value == 0.0
    return trees.left[slot, node] if left else trees.left[slot, node] + 1


@kernel(inline=True)
def _value(trees, slot, node, sums, mass, about, above):
    """Of class `about`, or of the target where it is -1; `above` where no item comes to an inner node."""
    c = max(about, 0)
    if trees.feature[slot, node] < 0:
        return trees.values[slot, trees.left[slot, node], c]
    return sums[node, c] / mass[node] if mass[node] > 0.0 else above


@kernel(allocates=True)
def contribute(slab, rows, about, share, n, window, trees, slots, weights, n_values, classes, out):
    """Add what the features do to the vote of one window's trees, and in the last column the values of their roots.

    share : of the window. n : items in it. slots, weights : (m,), of its members. about : (n,) int64, -1 of a target.
    Mutates out : (rows, d + 1). O((n + rows) m depth).
    """
    last = out.shape[1] - 1
    n_outputs = trees.values.shape[2]
    sums = np.empty((trees.feature.shape[1], n_outputs))
    mass = np.empty(trees.feature.shape[1])
    for j in range(len(slots)):
        slot = slots[j]
        for node in range(trees.sizes[slot, NODES]):
            mass[node] = 0.0
            for c in range(n_outputs):
                sums[node, c] = 0.0
        for i in range(n):
            w = window.w[i]
            c = np.int64(window.y[i]) if classes else 0
            more = w if classes else w * window.y[i]
            node = np.int64(0)
            while trees.feature[slot, node] >= 0:
                mass[node] += w
                sums[node, c] += more
                node = np.int64(_child(trees, slot, node, n_values, window.x, i))
        for i in range(len(rows)):
            node = np.int64(0)
            here = _value(trees, slot, node, sums, mass, about[i], 0.0)
            out[i, last] += share * weights[j] * here
            while trees.feature[slot, node] >= 0:
                f = trees.feature[slot, node]
                node = np.int64(_child(trees, slot, node, n_values, slab, rows[i]))
                there = _value(trees, slot, node, sums, mass, about[i], here)
                out[i, f] += share * weights[j] * (there - here)
                here = there
