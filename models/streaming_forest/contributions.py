"""What each feature adds to the vote of a streaming forest, as kernels.

A leaf counts the classes of its labels, and an inner node has the counts of all leaves below it. The value of a node is
the share of a class among them; where trees have a vote each, it is 1 if the class is the most frequent there, and else
0. On the way from the root to the leaf, each change is put down to the feature that is tested (Saabas 2014).
"""

import numpy as np

from models.kernel import kernel
from models.streaming_forest.false_roots import NODES


@kernel(inline=True)
def _value(totals, node, about, by_majority):
    """Of class `about`."""
    total = 0.0
    most = 0.0
    says = -1
    for c in range(totals.shape[1]):
        total += totals[node, c]
        if totals[node, c] > most:
            most = totals[node, c]
            says = c
    if by_majority:
        return 1.0 if says == about else 0.0
    return totals[node, about] / total if total > 0.0 else 0.0


@kernel(allocates=True)
def contribute(forest, n_values, slab, rows, about, by_majority, out):
    """Write what the features add to the forest's probabilities, and in the last column the values of the roots; NaN
    where no tree has learned anything. about : (n,) int64. Mutates out : (n, d + 1). O(trees (nodes + n depth) K)."""
    last = out.shape[1] - 1
    n_classes = forest.counts.shape[2]
    totals = np.empty((forest.feature.shape[1], n_classes))
    out[:, :] = 0.0
    n_voting = 0
    for tree in range(len(forest.sizes)):
        for node in range(forest.sizes[tree, NODES] - 1, -1, -1):  # children come after their parents
            below = np.int64(forest.left[tree, node])
            for c in range(n_classes):
                if forest.feature[tree, node] < 0:
                    totals[node, c] = forest.counts[tree, below, c]
                else:
                    totals[node, c] = totals[below, c] + totals[below + 1, c]
        knows = False
        for c in range(n_classes):
            knows = knows or totals[0, c] > 0.0
        if not knows:
            continue
        n_voting += 1
        for i in range(len(rows)):
            node = np.int64(0)
            here = _value(totals, node, about[i], by_majority)
            out[i, last] += here
            while forest.feature[tree, node] >= 0:
                f = forest.feature[tree, node]
                value = slab[rows[i], f]
                if n_values[f] > 0:
                    left = value == forest.value[tree, node]
                else:
                    left = value <= forest.value[tree, node] and value - value == 0.0
                node = np.int64(forest.left[tree, node]) + (0 if left else 1)
                there = _value(totals, node, about[i], by_majority)
                out[i, f] += there - here
                here = there
    for i in range(len(rows)):
        if n_voting == 0:
            out[i, last] = np.nan
        else:
            for f in range(last + 1):
                out[i, f] /= n_voting
