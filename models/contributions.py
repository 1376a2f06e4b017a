"""Why a tree says what it says: what each test on the way to the leaf changed (Saabas 2014).

The value of a node is the share of a class among what its leaves have, or the mean of their targets. From the root to
the leaf it changes at each test, and the change is put down to the feature that was tested. So the changes of all
features add up to the value of the leaf less that of the root. What a leaf says besides its value (naive Bayes, a
linear model) is no feature's: it is what is left of the prediction.

Trees of all kinds give the same things: links with columns for the feature tested (-1 in a leaf) and for the parent,
and of each leaf what it has. The values of all nodes are added up anew whenever they are asked for, since learning
moves those of all nodes above: O(nodes depth), and no state.
"""

import numpy as np

from models.kernel import kernel

LEAF = -1


@kernel
def add_up(links, test, parent, beside, mass, sums):
    """Write what the leaves below each node have.

    links : (n, columns) int32. test, parent, beside : its columns; beside leads to the root of another tree whose
    leaves are none of the node's, -1 where trees have none. mass, sums : (n, k) float64. Mutates sums. O(n depth k).
    """
    n, k = mass.shape
    for node in range(n):
        for c in range(k):
            sums[node, c] = 0.0
    for leaf in range(n):
        if links[leaf, test] != LEAF:
            continue
        node = leaf
        while True:
            for c in range(k):
                sums[node, c] += mass[leaf, c]
            above = links[node, parent]
            if above < 0 or (beside >= 0 and links[above, beside] == node):
                break
            node = above


@kernel(inline=True)
def _value(sums, node, about):
    """The share of class `about`, or the mean where that is -1; NaN where nothing is there."""
    if about < 0:
        return sums[node, 0] / sums[node, 1] if sums[node, 1] > 0.0 else np.nan
    total = 0.0
    for c in range(sums.shape[1]):
        total += sums[node, c]
    return sums[node, about] / total if total > 0.0 else np.nan


@kernel
def climb(links, test, parent, sums, leaves, about, out):
    """Write what each feature changed on the way to the leaf, and in the last column the value of the root.

    leaves : (n,) int64, of each instance. about : (n,) int64, the class whose share it is about, -1 of a regression.
    out : (n, d + 1) float64; NaN in the last column where the tree knows nothing. A node without anything is as its
    parent. Mutates out. O(n depth k).
    """
    last = out.shape[1] - 1
    for i in range(len(leaves)):
        for f in range(last):
            out[i, f] = 0.0
        node = np.int64(leaves[i])
        here = _value(sums, node, about[i])
        while links[node, parent] >= 0:
            node = links[node, parent]
            there = _value(sums, node, about[i])
            if here == here:
                out[i, links[node, test]] += here - there
            here = there
        out[i, last] = here
