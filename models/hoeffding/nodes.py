"""The arrays of a tree that only grows, and the way through it: nodes are appended and never move.

Node i is row i; parents come before their children. A leaf that observes has a block of statistics; inner nodes have
none, nor have leaves that were deactivated (models.hoeffding.splitting.split). Trees whose subtrees come and go have
arrays of their own (models.hoeffding.mutable_tree), but the same columns in `leaf`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import DONE, GROW, kernel

# Columns of HoeffdingNodes.links.
TEST, FIRST, DEFAULT, MAP, N_MAP, PARENT, DEPTH, BLOCK = range(8)
# Columns of HoeffdingNodes.leaf. The last one is there only where leaves can be deactivated.
SEEN, EVALUATED, MC_CORRECT, NB_CORRECT, UNOBSERVED = range(5)
# Places in `counts`.
N_NODES, N_BLOCKS, N_MAPPED, N_LEAVES, DEEPEST = range(5)
# Places in `progress`: the next operation, the leaf whose split waits for room, and the room it needs.
NEXT, WAITING, NEED_NODES, NEED_BLOCKS, NEED_MAPPED = range(5)


class HoeffdingNodes(NamedTuple):
    """Everything a tree knows but the values seen, with room to grow, as kernels take it.

    links : (n_nodes, 8) int32. TEST is the feature tested, -1 for a leaf. Numeric: values above `test` go to child
        FIRST + 1, others to FIRST. Nominal, binary: equal to `test` goes to FIRST, others to FIRST + 1. Nominal, a
        branch a value: value v goes to child_of_value[MAP + v] if v < N_MAP. DEFAULT is the child of all others and of
        missing values. PARENT (-1 for the root), DEPTH; BLOCK is the leaf's row of `stats`, -1 for none.
    test : (n_nodes,) float64, threshold or value.
    weights : (n_nodes, n_outputs) float64, of the classes; a node that was split keeps those of that moment.
    leaf : (n_nodes, 4) float64, weight that the node saw as a leaf, the same at its last split attempt, and the weight
        that majority class and naive Bayes would have predicted correctly. Where leaves can be deactivated there is a
        fifth column: the weight that it saw before it last got its block.
    stats : (n_blocks, width) float64, blocks of models.observers.gaussians.
    child_of_value : int32, node of a value, -1 for none.
    counts : (5,) int64, nodes, blocks, entries of child_of_value, leaves, depth of the deepest leaf.
    """

    links: NDArray[np.int32]
    test: Floats
    weights: Floats
    leaf: Floats
    stats: Floats
    child_of_value: NDArray[np.int32]
    counts: NDArray[np.int64]


@kernel(inline=True)
def route(links, test, child_of_value, n_values, x, r, node):
    """From `node` on to the leaf of row r of x, or to the node that has no branch for its nominal value."""
    while True:
        feature = links[node, TEST]
        if feature < 0:
            return node
        value = x[r, feature]
        n = n_values[feature]
        if value != value or (n > 0 and not (value >= 0.0 and value < n)):
            node = links[node, DEFAULT]
        elif n == 0:
            node = links[node, FIRST] + (1 if value > test[node] else 0)
        elif links[node, N_MAP] == 0:
            node = links[node, FIRST] + (0 if value == test[node] else 1)
        else:
            child = -1
            if value < links[node, N_MAP]:
                child = child_of_value[links[node, MAP] + int(value)]
            if child < 0:
                return node
            node = child


@kernel(inline=True)
def route_known(links, test, child_of_value, n_values, x, r, node):
    """From `node`, which has no branch for its nominal value, on to a leaf: such values go the way of missing ones."""
    while links[node, TEST] >= 0:
        node = route(links, test, child_of_value, n_values, x, r, links[node, DEFAULT])
    return node


@kernel
def try_branch(node, value, nodes, progress):
    """Give the test of `node` a branch for a value: an empty leaf, whose id is the last. O(values).

    GROW, with nothing changed, where there is no room. A map that the value is beyond moves to the end of
    child_of_value, doubled. Mutates nodes, progress.
    """
    links = nodes.links
    child = nodes.counts[N_NODES]
    start = links[node, MAP]
    n_map = links[node, N_MAP]
    n_mapped = nodes.counts[N_MAPPED]
    if value >= n_map:
        n_mapped += max(value + 1, 2 * n_map)
    progress[NEED_NODES] = child + 1
    progress[NEED_BLOCKS] = nodes.counts[N_BLOCKS] + 1
    progress[NEED_MAPPED] = n_mapped
    if child + 1 > len(links) or nodes.counts[N_BLOCKS] + 1 > len(nodes.stats) or n_mapped > len(nodes.child_of_value):
        return GROW
    if value >= n_map:
        moved = nodes.counts[N_MAPPED]
        for v in range(n_mapped - moved):
            nodes.child_of_value[moved + v] = nodes.child_of_value[start + v] if v < n_map else -1
        for v in range(n_map):
            nodes.child_of_value[start + v] = 0
        links[node, MAP] = moved
        links[node, N_MAP] = n_mapped - moved
        nodes.counts[N_MAPPED] = n_mapped
        start = moved
    nodes.child_of_value[start + value] = child
    links[child, TEST] = -1
    links[child, PARENT] = node
    links[child, DEPTH] = links[node, DEPTH] + 1
    links[child, BLOCK] = nodes.counts[N_BLOCKS]
    nodes.counts[N_NODES] += 1
    nodes.counts[N_BLOCKS] += 1
    nodes.counts[N_LEAVES] += 1
    return DONE
