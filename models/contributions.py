"""Why a tree says what it says: what each test on the way to the leaf changed (Saabas 2014).

The value of a node is the share of a class among what its leaves have, or the mean of their targets. From the root to
the leaf it changes at each test, and the change is put down to the feature that was tested. So the changes of all
features add up to the value of the leaf less that of the root. What a leaf says besides its value is added by
models.hoeffding.contributions (naive Bayes) and models.regression.contributions (linear models); what is no feature's
there is what is left of the prediction.

Trees of all kinds give the same things: links with columns for the feature tested (-1 in a leaf) and for the parent,
and of each leaf what it has. A label moves the values of all nodes on its way, and of no others: so of a tree that has
been asked sums are kept, and its learning marks the way as *stale*, which ends where somebody marked before. Whoever
asks adds up the stale nodes, each from its children: O(depth children k) a label in between, whatever the tree has
grown to. A sum follows from what is below the node alone, so it is the same bits whenever it is added up: sums are kept
beside the state, and are none. Trees whose subtrees come and go are added up as a whole (`add_up`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.kernel import kernel

LEAF = -1


class Sums(NamedTuple):
    """What the leaves below each node of a tree have, of n nodes that there is room for; n is 0 before anybody asked.

    stale : (n,) uint8, whether it has to be added up anew. If it has, so have all nodes above.
    sums : (n, k) float64.
    order : (n,) int32, scratch.
    """

    stale: NDArray[np.uint8]
    sums: Floats
    order: NDArray[np.int32]


def no_sums(k: int) -> Sums:
    """Before anybody asks."""
    return Sums(np.zeros(0, np.uint8), np.zeros((0, k)), np.zeros(0, np.int32))


def room_for_sums(old: Sums, n: int) -> Sums:
    """Sums of n nodes, the first ones as they were, the others stale."""
    stale, sums = np.ones(n, np.uint8), np.zeros((n, old.sums.shape[1]))
    stale[: len(old.stale)], sums[: len(old.sums)] = old.stale, old.sums
    return Sums(stale, sums, np.zeros(n, np.int32))


@kernel(inline=True)
def touch(links, parent, stale, node):
    """Something of a node has changed: it is stale, with all above it. A node that begins is stale, so whoever gives a
    node a child touches the node. Mutates stale. O(depth), and O(1) where nobody asks in between."""
    if len(stale) > 0:
        while node >= 0 and stale[node] == 0:
            stale[node] = 1
            node = links[node, parent]


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
def climb(links, test, parent, beside, sums, leaves, about, out):
    """Write what each feature changed on the way to the leaf, and in the last column the value of the root.

    leaves : (n,) int64, of each instance. about : (n,) int64, the class whose share it is about, -1 of a regression.
    out : (n, d + 1) float64; NaN in the last column where the tree knows nothing. A node without anything is as its
    parent. A tree beside a node, if a leaf is there, is on the way in the node's place. Mutates out. O(n depth k).
    """
    last = out.shape[1] - 1
    for i in range(len(leaves)):
        for f in range(last):
            out[i, f] = 0.0
        node = np.int64(leaves[i])
        here = _value(sums, node, about[i])
        while links[node, parent] >= 0:
            below = node
            node = np.int64(links[node, parent])
            if beside >= 0 and links[node, beside] == below:
                continue
            there = _value(sums, node, about[i])
            if here == here:
                out[i, links[node, test]] += here - there
            here = there
        out[i, last] = here


@kernel
def largest(added, columns, places, found):
    """Write the features that moved each prediction most, the largest first, of equal ones the first; NaN behind the
    last one that moved it. O(n most d).

    added : (n, d + 1), what features add, and where it begins. columns : (d,) int64, the number that each is called by.
    places : (n,) int64, of each row that of `found`. Mutates found : (places, most, 2), the number and what it added.
    """
    d, most = added.shape[1] - 1, found.shape[1]
    for i in range(len(added)):
        told = found[places[i]]
        limit, after = np.inf, -1  # of the last one that was taken
        for j in range(most):
            best, size = -1, 0.0
            for f in range(d):
                here = abs(added[i, f])
                if here > size and (here < limit or (here == limit and f > after)):
                    best, size = f, here
            told[j, 0] = np.nan if best < 0 else np.float64(columns[best])
            told[j, 1] = np.nan if best < 0 else added[i, best]
            if best >= 0:
                limit, after = size, best
            else:
                limit = 0.0
