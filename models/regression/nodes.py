"""The nodes of a regression tree: arrays with free places, routing, splitting, and what people see of them.

Shared by models.regression.fimt_dd and models.regression.orto. Invariants:

- node 0 is the root; every node in use but the root and other trees' roots is LEFT or RIGHT of its PARENT;
- a leaf has a block (models.observers.gaussians), all others have none (-1); places that are free are zero but for the
  link to the next free one, and are taken again, the last one freed first, before the arrays grow;
- OTHER is the root of another tree for the same instances: see the modules that use it.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.joined import enlarge
from riparian.models.kernels.kernel import kernel
from riparian.models.regression.leaf import AGE, EVALUATED, MEAN, ORIGIN, SEEN, N
from riparian.models.regression.observers import MEAN_FALSE, MEAN_TRUE, N_FALSE, N_TRUE, divide, rank_tests

# Columns of RegressionNodes.links.
TEST, LEFT, RIGHT, DEFAULT, PARENT, DEPTH, BLOCK, OTHER = range(8)
LEAF, FREE = -1, -2  # values of TEST that are no feature

# Columns of RegressionNodes.monitor: weight that the node learned as a leaf, before it was split; the others are the
# modules'.
SEEN_BEFORE = 0
N_MONITOR = 8

# Places in RegressionNodes.counts: places ever used, nodes in use, first free ones plus 1 (0: none), trees that OTHER
# adds.
N_NODES, N_BLOCKS, N_LIVE, FREE_NODE, FREE_BLOCK, N_OTHER = range(6)


class RegressionNodes(NamedTuple):
    """The arrays of a tree, with room to grow.

    links : (n_nodes, 8) int32. TEST is the feature tested, or LEAF. Numeric: values up to `test` go LEFT; nominal: the
        value `test` goes LEFT; others go RIGHT, missing ones and codes outside the schema to DEFAULT. PARENT is -1 for
        the root, BLOCK the leaf's row of `blocks`, OTHER -1 for none.
    test : (n_nodes,) float64.
    monitor : (n_nodes, 8) float64.
    blocks : (n_leaves, width) float64.
    scales : (4, n_features + 1) float64, of models.regression.leaf, in the state (n_features + 1, 4).
    counts : (6,) int64.
    """

    links: NDArray[np.int32]
    test: Floats
    monitor: Floats
    blocks: Floats
    scales: Floats
    counts: NDArray[np.int64]


class RegressionGrowth(NamedTuple):
    """The parameters that trees share, as kernels take them.

    log_delta : log(1 / delta).
    max_depth : -1 for none.
    """

    grace_period: float
    log_delta: float
    tie_threshold: float
    min_branch_fraction: float
    leaf_prediction: int
    learning_rate: float
    learning_rate_decay: float
    error_fading: float
    max_nodes: int
    max_depth: int


class RegressionScratch(NamedTuple):
    """What kernels write though it is no state.

    z : (d,) standardised inputs.
    merits, values : (d,) best test of each feature.
    sides : (4,) of `divide`.
    block : a copy of a block.
    places : (2, d) of models.regression.observers.
    """

    z: Floats
    merits: Floats
    values: Floats
    sides: Floats
    block: Floats
    places: NDArray[np.int64]


def plant(n_features: int, width: int) -> RegressionNodes:
    """A tree that is one empty leaf."""
    links = np.zeros((1, 8), np.int32)
    links[0, [TEST, PARENT, OTHER]] = LEAF, -1, -1
    return RegressionNodes(
        links,
        np.zeros(1),
        np.zeros((1, N_MONITOR)),
        np.zeros((1, width)),
        np.zeros((4, n_features + 1)),
        np.array([1, 1, 1, 0, 0, 0], np.int64),
    )


def make_room(nodes: RegressionNodes, more_nodes: int, more_blocks: int) -> RegressionNodes:
    """Copy a tree into arrays with free capacity for so many; capacities double."""
    n_nodes, n_blocks = int(nodes.counts[N_NODES]) + more_nodes, int(nodes.counts[N_BLOCKS]) + more_blocks
    needed = {"links": n_nodes, "test": n_nodes, "monitor": n_nodes, "blocks": n_blocks}
    return nodes._replace(**{name: enlarge(getattr(nodes, name), n) for name, n in needed.items()})


def used(nodes: RegressionNodes) -> RegressionNodes:
    """The arrays without free capacity: what is state."""
    n_nodes, n_blocks = int(nodes.counts[N_NODES]), int(nodes.counts[N_BLOCKS])
    return RegressionNodes(
        nodes.links[:n_nodes],
        nodes.test[:n_nodes],
        nodes.monitor[:n_nodes],
        nodes.blocks[:n_blocks],
        np.ascontiguousarray(nodes.scales.T),
        nodes.counts,
    )


@kernel(inline=True)
def has_room(nodes, more_nodes, more_blocks):
    """Whether the arrays have capacity for so many new nodes and blocks, without looking at free places."""
    counts = nodes.counts
    return counts[N_NODES] + more_nodes <= len(nodes.links) and counts[N_BLOCKS] + more_blocks <= len(nodes.blocks)


@kernel(inline=True)
def child_of(links, test, n_values, x, r, node):
    """The child of an inner node to which row r of x belongs."""
    feature = links[node, TEST]
    value = x[r, feature]
    n = n_values[feature]
    if value != value or (n > 0 and not (value >= 0.0 and value < n)):
        return links[node, DEFAULT]
    if n == 0:
        return links[node, LEFT if value <= test[node] else RIGHT]
    return links[node, LEFT if value == test[node] else RIGHT]


@kernel(inline=True)
def route(links, test, n_values, x, r, node):
    """From `node` on to the leaf of row r of x."""
    while links[node, TEST] >= 0:
        node = child_of(links, test, n_values, x, r, node)
    return node


@kernel
def new_node(nodes, parent, depth):
    """A node without a block; its id. Takes free places first. Mutates nodes."""
    counts = nodes.counts
    node = counts[FREE_NODE] - 1
    if node >= 0:
        counts[FREE_NODE] = nodes.links[node, LEFT]
    else:
        node = counts[N_NODES]
        counts[N_NODES] += 1
    counts[N_LIVE] += 1
    links = nodes.links
    links[node, TEST] = LEAF
    links[node, LEFT] = 0
    links[node, PARENT] = parent
    links[node, DEPTH] = depth
    links[node, BLOCK] = -1
    links[node, OTHER] = -1
    return node


@kernel
def new_leaf(nodes, parent, depth):
    """An empty leaf; its id. Mutates nodes."""
    node = new_node(nodes, parent, depth)
    counts = nodes.counts
    block = counts[FREE_BLOCK] - 1
    if block >= 0:
        counts[FREE_BLOCK] = np.int64(nodes.blocks[block, 0])
        nodes.blocks[block, 0] = 0.0
    else:
        block = counts[N_BLOCKS]
        counts[N_BLOCKS] += 1
    nodes.links[node, BLOCK] = block
    return node


@kernel
def free_block(nodes, node):
    """Give back the block of a leaf. Mutates nodes."""
    block = nodes.links[node, BLOCK]
    nodes.blocks[block, :] = 0.0
    nodes.blocks[block, 0] = nodes.counts[FREE_BLOCK]
    nodes.counts[FREE_BLOCK] = block + 1
    nodes.links[node, BLOCK] = -1


@kernel
def free_node(nodes, node):
    """Give back a node and its block, if it has one. Mutates nodes."""
    if nodes.links[node, BLOCK] >= 0:
        free_block(nodes, node)
    counts = nodes.counts
    nodes.links[node, :] = 0
    nodes.links[node, TEST] = FREE
    nodes.links[node, LEFT] = counts[FREE_NODE]
    nodes.test[node] = 0.0
    nodes.monitor[node, :] = 0.0
    counts[FREE_NODE] = node + 1
    counts[N_LIVE] -= 1


@kernel
def rank(block, layout, growth, merits, values):
    """Rank the tests of a leaf: the best feature (-1: none reduces the deviation), its rival (the best other feature,
    -1 for none) and the Hoeffding bound. Mutates merits and values: models.regression.observers.rank_tests.
    """
    seen = block[SEEN]
    rank_tests(block, layout, seen, growth.min_branch_fraction, merits, values)
    best = -1
    rival = -1
    for f in range(len(merits)):
        if best < 0:
            if merits[f] > 0.0:
                best = f
        elif merits[f] > merits[best]:
            rival = best
            best = f
        elif merits[f] > 0.0 and (rival < 0 or merits[f] > merits[rival]):
            rival = f
    return best, rival, math.sqrt(growth.log_delta / (2.0 * seen))


@kernel
def split(nodes, layout, node, feature, value, block, sides):
    """Give `node`, which has no block, a test with two new leaves; they begin with what `block` knows of their halves.

    block : a copy of the block of the leaf that is split. Mutates nodes, sides. O(n_bins or V).
    """
    links = nodes.links
    divide(block, layout, feature, value, sides)
    left = new_leaf(nodes, node, links[node, DEPTH] + 1)
    right = new_leaf(nodes, node, links[node, DEPTH] + 1)
    links[node, TEST] = feature
    links[node, LEFT] = left
    links[node, RIGHT] = right
    links[node, DEFAULT] = left if sides[N_TRUE] >= sides[N_FALSE] else right
    nodes.test[node] = value
    nodes.monitor[node, :] = 0.0
    nodes.monitor[node, SEEN_BEFORE] = block[SEEN]
    for side in range(2):
        child = nodes.blocks[links[left if side == 0 else right, BLOCK]]
        for i in range(layout.offset[0]):
            child[i] = block[i]
        child[layout.offset[0] :] = 0.0
        child[SEEN] = 0.0
        child[EVALUATED] = 0.0
        child[AGE] = 0.0
        child[N] = sides[N_TRUE if side == 0 else N_FALSE]
        child[MEAN] = block[ORIGIN] + sides[MEAN_TRUE if side == 0 else MEAN_FALSE]
        child[ORIGIN] = child[MEAN]
