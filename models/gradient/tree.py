"""Stochastic gradient trees: nodes, routing, what a leaf learns from a gradient and a Hessian, splitting.

Nothing here knows a loss or a task: a caller routes an instance to a leaf, computes gradient and Hessian of its loss
there (for a bag of instances: at the one with the highest score, and 0 for the others), and passes them to `learn`.
All trees of a learner share one pool of nodes. Invariants:

- nodes are appended and never move; parents come before their children;
- a leaf has a block of `stats`, all others have none (-1); the first child of a split takes the block of its parent;
- the weight that each node saw as a leaf (`meta[:, SEEN]`) sums up to the weight that its tree has learned.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.gradient.bins import GG, GH, HH, MOMENTS, WEIGHT, G, H
from riparian.models.gradient.splits import best_candidate, children_of, is_better
from riparian.models.joined import enlarge, zeros
from riparian.models.kernels.kernel import DONE, GROW, kernel

# Columns of GradientNodes.links.
TEST, LEFT, RIGHT, DEFAULT, NEXT, CODE, PARENT, DEPTH, BLOCK, TREE = range(10)
LEAF, MANY = -1, -1  # of TEST; of RIGHT, where a node has a child a value

# Columns of GradientNodes.meta: weight that the node saw as a leaf, and the same at its last test.
SEEN, LAST_TEST = range(2)

# Places in GradientNodes.counts.
N_NODES, N_BLOCKS, N_LEAVES, DEEPEST = range(4)

# GradientGrowth.leaf_update
EVERY_INSTANCE, TESTED = 0, 1

LEAST_HESSIAN = 1e-4


class GradientNodes(NamedTuple):
    """The trees, with room to grow. q : outputs of a tree.

    links : (n_nodes, 10) int32. TEST is the feature tested, or LEAF. Numeric: values up to `test` go LEFT, others
        RIGHT. Nominal: the value `test` goes LEFT, others RIGHT; or, where RIGHT is MANY, a value goes to the child
        whose CODE it is, in the chain that begins with LEFT and goes on with NEXT. DEFAULT is the child of missing
        values and of those without a branch. PARENT is -1 for a root; BLOCK the leaf's row of `stats`; TREE the number
        of the tree.
    test : (n_nodes,) float64.
    meta : (n_nodes, 2) float64, SEEN and LAST_TEST.
    value : (n_nodes, q) float64, the raw score.
    slope : (n_nodes, q d) float64 of linear leaves, or (n_nodes, 0).
    curvature : (n_nodes, q) float64, decayed sum of Hessians, where leaves are updated at every instance.
    totals : (n_nodes, cell) float64, the sums of a cell (models.gradient.bins) over all instances since the leaf's last
        update.
    stats : (n_blocks, width) float64.
    counts : (4,) int64, nodes, blocks, leaves, greatest depth.
    """

    links: NDArray[np.int32]
    test: Floats
    meta: Floats
    value: Floats
    slope: Floats
    curvature: Floats
    totals: Floats
    stats: Floats
    counts: NDArray[np.int64]


class GradientGrowth(NamedTuple):
    """The parameters of trees, as kernels take them.

    max_depth : -1 for none.
    linear_rate : 0 for constant leaves.
    """

    grace_period: float
    delta: float
    penalty: float  # lambda of equation 5
    on_mean: bool  # a test adds it to the mean of a leaf's Hessians, not to their sum
    node_cost: float  # gamma of equation 5
    paired: bool
    multiway: bool
    leaf_update: int
    rate: float
    decay: float
    largest_step: float
    linear_rate: float
    max_nodes: int
    max_depth: int


def no_nodes(n_outputs: int, width: int, n_slopes: int) -> GradientNodes:
    shapes = (0, n_outputs), (0, n_slopes), (0, n_outputs), (0, 1 + MOMENTS * n_outputs), (0, width)
    return zeros(GradientNodes, (0, 10), 0, (0, 2), *shapes, 4)


def make_room(nodes: GradientNodes, n_nodes: int, n_blocks: int) -> GradientNodes:
    """Copy trees into arrays with capacity for so many nodes and blocks; capacities double."""
    needed = {name: n_blocks if name == "stats" else n_nodes for name in nodes._fields if name != "counts"}
    return nodes._replace(**{name: enlarge(getattr(nodes, name), n) for name, n in needed.items()})


def used(nodes: GradientNodes) -> dict[str, NDArray[Any]]:
    """The arrays without free capacity: what is state."""
    n_nodes, n_blocks = int(nodes.counts[N_NODES]), int(nodes.counts[N_BLOCKS])
    cut = {"stats": n_blocks, "counts": len(nodes.counts)}
    return {name: array[: cut.get(name, n_nodes)] for name, array in nodes._asdict().items()}


def without_trees(nodes: GradientNodes, dead: NDArray[np.bool_]) -> tuple[GradientNodes, NDArray[np.int32]]:
    """The nodes of the trees that are not `dead` (by TREE), in order, and the new id of each old node (-1: gone)."""
    old = used(nodes)
    links = old["links"]
    kept = np.flatnonzero(~dead[links[:, TREE]])
    ids = np.full(len(links) + 1, -1, np.int32)  # the last is that of "none", -1
    ids[kept] = np.arange(len(kept))
    moved = {name: np.ascontiguousarray(array[kept]) for name, array in old.items() if name not in ("stats", "counts")}
    links = moved["links"]
    blocks = links[:, BLOCK] >= 0
    stats = np.ascontiguousarray(old["stats"][links[blocks, BLOCK]])
    links[blocks, BLOCK] = np.arange(len(stats))
    inner = links[:, TEST] != LEAF
    for column in (LEFT, RIGHT, DEFAULT):
        links[inner, column] = ids[links[inner, column]]
    for column in (NEXT, PARENT):
        links[:, column] = ids[links[:, column]]
    deepest = int(links[:, DEPTH].max()) if len(links) else 0
    counts = np.array([len(kept), len(stats), int((~inner).sum()), deepest], np.int64)
    return GradientNodes(**moved, stats=stats, counts=counts), ids[:-1]


@kernel(inline=True)
def route(links, test, n_values, x, r, node):
    """The leaf below `node` to which row r of x belongs. O(depth), and values of a feature with a child for each."""
    while True:
        feature = links[node, TEST]
        if feature < 0:
            return node
        value = x[r, feature]
        n = n_values[feature]
        if value != value or (n > 0 and not (value >= 0.0 and value < n)):
            node = links[node, DEFAULT]
        elif n == 0:
            node = links[node, LEFT] if value <= test[node] else links[node, RIGHT]
        elif links[node, RIGHT] != MANY:
            node = links[node, LEFT] if value == test[node] else links[node, RIGHT]
        else:
            child = links[node, LEFT]
            code = int(value)
            while child >= 0 and links[child, CODE] != code:
                child = links[child, NEXT]
            node = links[node, DEFAULT] if child < 0 else child


@kernel(inline=True)
def score(nodes, leaf, k, z):
    """Output k of a leaf: its value, and the inner product of its slope with the standardised features `z`."""
    result = nodes.value[leaf, k]
    if nodes.slope.shape[1] > 0:
        start = k * len(z)
        for f in range(len(z)):
            result += nodes.slope[leaf, start + f] * z[f]
    return result


@kernel(inline=True)
def learn(nodes, growth, leaf, cells, chosen, stage, z, gradient, hessian, first, w):
    """Take gradient and Hessian of an instance into a leaf; true when the leaf is due for a test.

    cells : first number of each feature's cell (models.gradient.bins.find_cells). chosen : row `stage` has the features
    that the tree looks at. gradient, hessian : of the tree's outputs, from place `first` on. Mutates the leaf's row of
    all arrays. O(d q).
    """
    n_outputs = nodes.value.shape[1]
    # Whole arrays and unsigned places: a slice counts references, and a signed place is tested for "from the end".
    stats = nodes.stats
    totals = nodes.totals
    block = np.uint64(nodes.links[leaf, BLOCK])
    leaf = np.uint64(leaf)
    n_chosen = chosen.shape[1]
    totals[leaf, WEIGHT] += w
    for k in range(n_outputs):
        g = gradient[first + k]
        h = max(hessian[first + k], LEAST_HESSIAN)
        at = np.uint64(k * MOMENTS)
        wk = w if k == 0 else 0.0
        wg = w * g
        wh = w * h
        wgg = wg * g
        wgh = wg * h
        whh = wh * h
        totals[leaf, at + G] += wg
        totals[leaf, at + H] += wh
        totals[leaf, at + GG] += wgg
        totals[leaf, at + GH] += wgh
        totals[leaf, at + HH] += whh
        for j in range(n_chosen):
            i = np.uint64(cells[chosen[stage, j]])
            stats[block, i] += wk
            i += at
            stats[block, i + G] += wg
            stats[block, i + H] += wh
            stats[block, i + GG] += wgg
            stats[block, i + GH] += wgh
            stats[block, i + HH] += whh
        if growth.leaf_update == EVERY_INSTANCE:
            curvature = growth.decay * nodes.curvature[leaf, k] + wh
            nodes.curvature[leaf, k] = curvature
            step = -growth.rate * wg / (growth.penalty + curvature)
            nodes.value[leaf, k] += min(max(step, -growth.largest_step), growth.largest_step)
        if growth.linear_rate > 0.0:
            norm = 1.0
            for f in range(len(z)):
                norm += z[f] * z[f]
            # A steep loss (a Poisson rate of thousands) would throw the slope far beyond its minimum.
            step = -min(growth.linear_rate * w, 1.0) * g / max(h, 1.0)
            step = min(max(step, -growth.largest_step), growth.largest_step) / norm
            start = k * len(z)
            for f in range(len(z)):
                nodes.slope[leaf, start + f] += step * z[f]
    nodes.meta[leaf, SEEN] += w
    return nodes.meta[leaf, SEEN] - nodes.meta[leaf, LAST_TEST] >= growth.grace_period


@kernel
def plant(nodes, tree):
    """A new tree that is one empty leaf; its root. There is room. Mutates nodes."""
    node = nodes.counts[N_NODES]
    links = nodes.links
    links[node, TEST] = LEAF
    links[node, NEXT] = -1
    links[node, CODE] = -1
    links[node, PARENT] = -1
    links[node, DEPTH] = 0
    links[node, BLOCK] = nodes.counts[N_BLOCKS]
    links[node, TREE] = tree
    nodes.counts[N_NODES] += 1
    nodes.counts[N_BLOCKS] += 1
    nodes.counts[N_LEAVES] += 1
    return node


@kernel
def _begin_anew(nodes, leaf):
    """Forget what a leaf observed since its last update."""
    nodes.totals[leaf, :] = 0.0
    nodes.stats[nodes.links[leaf, BLOCK], :] = 0.0


@kernel
def rescale(nodes, ratio, exact):
    """Give all scores in another unit of the target: `ratio` is the old one in the new.

    exact : gradients are proportional to residuals and Hessians are not, as of the squared error, so what leaves
    observed follows; else they observe anew. Mutates nodes. O(nodes + blocks d n_bins q).
    """
    n_nodes = nodes.counts[N_NODES]
    for i in range(n_nodes):
        for k in range(nodes.value.shape[1]):
            nodes.value[i, k] *= ratio
        for k in range(nodes.slope.shape[1]):
            nodes.slope[i, k] *= ratio
        if not exact and nodes.links[i, BLOCK] >= 0:
            _begin_anew(nodes, i)
        elif exact:
            _rescale_cells(nodes.totals[i], ratio)
    if exact:
        size = nodes.totals.shape[1]
        for block in range(nodes.counts[N_BLOCKS]):
            row = nodes.stats[block]
            for start in range(0, len(row), size):
                _rescale_cells(row[start : start + size], ratio)


@kernel
def _rescale_cells(cell, ratio):
    """The sums of one cell, of gradients that are now `ratio` times as large. Mutates cell."""
    for at in range(0, len(cell) - 1, MOMENTS):
        cell[at + G] *= ratio
        cell[at + GG] *= ratio * ratio
        cell[at + GH] *= ratio


@kernel
def try_change(leaf, nodes, bins, layout, growth, chosen, search, need):
    """Test a leaf: split it, update its value, or leave it as it is (sections 3.1 to 3.3).

    Mutates nodes, search. GROW, with nothing changed but scratch, where a split needs capacity for `need[0]` nodes and
    `need[1]` blocks. O(d (n_bins or values) q).
    """
    links = nodes.links
    if links[leaf, DEPTH] >= growth.max_depth >= 0:
        splits_allowed = False
    else:
        splits_allowed = nodes.counts[N_NODES] + 2 <= growth.max_nodes
    if not splits_allowed and growth.leaf_update == EVERY_INSTANCE:
        nodes.meta[leaf, LAST_TEST] = nodes.meta[leaf, SEEN]
        return DONE
    block = nodes.stats[links[leaf, BLOCK]]
    best = best_candidate(block, nodes.totals, leaf, bins, layout, growth, chosen, splits_allowed, search)
    return _apply(leaf, best, nodes, bins, layout, growth, search, need)


@kernel
def _apply(leaf, best, nodes, bins, layout, growth, search, need):
    """Test the best candidate, and change the leaf by it. As `try_change`."""
    links = nodes.links
    n_outputs = nodes.value.shape[1]
    total = nodes.totals[leaf]
    if best.feature < 0:
        if growth.leaf_update == TESTED:
            for i in range(len(total)):
                search.children[0, i] = total[i]
            if is_better(search, 1, total, growth, False):
                for k in range(n_outputs):
                    nodes.value[leaf, k] += search.steps[0, k]
                _begin_anew(nodes, leaf)
        nodes.meta[leaf, LAST_TEST] = nodes.meta[leaf, SEEN]
        return DONE
    block = nodes.stats[links[leaf, BLOCK]]
    n_children, default = children_of(best, block, bins, layout, growth, search)
    if nodes.counts[N_NODES] + n_children > growth.max_nodes or not is_better(
        search, n_children, total, growth, growth.paired
    ):
        nodes.meta[leaf, LAST_TEST] = nodes.meta[leaf, SEEN]
        return DONE
    first = nodes.counts[N_NODES]
    n_blocks = nodes.counts[N_BLOCKS]
    need[0] = first + n_children
    need[1] = n_blocks + n_children - 1
    if need[0] > len(links) or need[1] > len(nodes.stats):
        return GROW

    nodes.meta[leaf, LAST_TEST] = nodes.meta[leaf, SEEN]
    _begin_anew(nodes, leaf)
    for j in range(n_children):
        child = first + j
        links[child, TEST] = LEAF
        links[child, NEXT] = child + 1 if j + 1 < n_children else -1
        links[child, CODE] = search.codes[j]
        links[child, PARENT] = leaf
        links[child, DEPTH] = links[leaf, DEPTH] + 1
        links[child, BLOCK] = links[leaf, BLOCK] if j == 0 else n_blocks + j - 1
        links[child, TREE] = links[leaf, TREE]
        for i in range(nodes.slope.shape[1]):
            nodes.slope[child, i] = nodes.slope[leaf, i]
        for k in range(n_outputs):
            nodes.value[child, k] = nodes.value[leaf, k] + search.steps[j, k]
            nodes.curvature[child, k] = search.children[j, k * MOMENTS + H]
    many = layout.n_values[best.feature] > 0 and growth.multiway
    links[leaf, TEST] = best.feature
    links[leaf, LEFT] = first
    links[leaf, RIGHT] = MANY if many else first + 1
    links[leaf, DEFAULT] = first + default
    links[leaf, BLOCK] = -1
    nodes.test[leaf] = 0.0 if many else best.threshold
    nodes.counts[N_NODES] += n_children
    nodes.counts[N_BLOCKS] += n_children - 1
    nodes.counts[N_LEAVES] += n_children - 1
    nodes.counts[DEEPEST] = max(nodes.counts[DEEPEST], links[leaf, DEPTH] + 1)
    return DONE
