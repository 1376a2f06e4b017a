"""FIMT-DD: a fast incremental model tree with drift detection.

Ikonomovska, Gama and Džeroski 2011: a leaf splits once the Hoeffding bound shows that its best test reduces the
standard deviation most; leaves predict by linear models; every inner node watches the errors below it with a
Page-Hinkley test, and when that finds a drift grows an alternate tree beside itself, which takes its place if it errs
less.

OTHER is the root of a node's alternate tree. On the way from the root to a leaf at most one node has one: where a drift
is found above, the alternate trees below are dropped, and nodes below one that has an alternate tree are not watched.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program, Schema
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.regression.base import RegressionTree
from riparian.models.regression.entries import FIMT_DD
from riparian.models.regression.leaf import (
    EVALUATED,
    MEAN_LEAF,
    ORIGIN,
    PER_WIDTH,
    SEEN,
    N,
    counted,
    learn_leaf,
    learn_target,
    learnable,
    predict_leaf,
    standardise,
    widen_all,
)
from riparian.models.regression.nodes import (
    BLOCK,
    DEPTH,
    LEFT,
    N_LIVE,
    OTHER,
    PARENT,
    RIGHT,
    SEEN_BEFORE,
    TEST,
    free_block,
    free_node,
    has_room,
    new_leaf,
    rank,
    route,
    split,
)
from riparian.models.regression.observers import observe
from riparian.models.regression.program_values import (
    ALL,
    EMPTY,
    UNTOLD,
    DriftSettings,
    FimtValues,
    Subset,
    new_frame,
    values_of,
)

# Columns of Nodes.monitor. Of the Page-Hinkley test: weight and mean of the errors, their cumulated deviation and its
# least. Of a node with an alternate tree: the weight that this learned, and faded squared errors of both.
PH_N, PH_MEAN, PH_SUM, PH_LEAST, OTHER_SEEN, LOSS, OTHER_LOSS = range(SEEN_BEFORE + 1, SEEN_BEFORE + 8)

# What one instance may need: two splits and a new alternate tree.
MORE_NODES, MORE_BLOCKS = 5, 3


class FramedTree(RegressionTree):
    """What FIMT-DD and the trees of forests have in common: `run_program`, by a frame."""

    _drift: DriftSettings
    _chosen: NDArray[np.int32] = ALL
    _subset: Subset = EMPTY

    def _run(self, program: Program, slab: Floats, out: Floats, errors: Floats) -> None:
        op, row, y, w = program
        while True:
            if self._running is None:
                values = FimtValues(
                    self._progress, self._nodes, self._chosen, self._layout, self._growth, self._drift, self._subset,
                    self._scratch,
                )  # fmt: skip
                self._running = new_frame(values)
            if run_program(op, row, y, w, slab, out, errors, self._running.words) != GROW:
                return
            self._make_room(MORE_NODES, MORE_BLOCKS)


class FimtDD(FramedTree):
    """Model tree for regression that adapts to drift (without `drift_detection`:
    models.regression.hoeffding_regression_tree).

    Missing values (NaN) are left out by the observers, and 0, the mean, to linear models; at a test they go to the
    child that was heavier when the node was split, as do nominal codes outside the schema. A nominal value that a test
    has not seen differs from the one it tests for. A target that is not finite, or beyond 1e100, and a weight that is
    not positive and finite teach nothing. Before the first label the prediction is NaN.

    Memory is bounded by `max_nodes` and the schema: a leaf has 4 n_bins + 2 numbers a numeric feature and 4 V a nominal
    feature of V values. At the bound nothing splits any more; leaves go on learning. With `drift_detection` a quarter
    of the nodes is kept for alternate trees.

    A step of the linear models is learning_rate / (1 + learning_rate_decay * weight learned). 64 MB hold 11,983 nodes
    of 10 numeric features and 32 bins, reckoned with ten values a nominal feature.

    Examples
    --------
    >>> learner = FimtDD(Schema((0, 2), 1, "regression"), grace_period=50)
    >>> x = np.random.default_rng(1).random((4000, 2)).round()
    >>> learner.learn_many(x, 10.0 * x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).round(3).tolist()
    [[10.0]]
    """

    entry = FIMT_DD

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        detects = p.get("drift_detection", False)
        self._drift = DriftSettings(
            bool(detects),
            float(p.get("drift_delta", 0.0)),
            float(p.get("drift_threshold", 0.0)),
            150.0,
            10.0 * p["grace_period"],
            self.most_nodes - (self.most_nodes // 4 if detects else 0),
        )

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        self._run(program, slab, out, UNTOLD)

    def describe(self) -> list[dict[str, Any]]:
        """Describe the nodes (RegressionTree.describe). A node with an alternate tree names its root under "alternate";
        that root has the node as its parent, and neither its weight nor its value are part of the node's."""
        return super().describe()

    def _describe(self, node: int, parent: int | None, depth: int) -> dict[str, Any]:
        other = int(self._nodes.links[node, OTHER])
        return super()._describe(node, parent, depth) | ({"alternate": other} if other >= 0 else {})


@kernel
def try_split(node, nodes, layout, growth, room, scratch):
    """Split leaf `node` if the bound allows it and there are at most `room` nodes then. Mutates nodes and scratch.

    O(d (n_bins or V)).
    """
    links = nodes.links
    block = nodes.blocks[links[node, BLOCK]]
    block[EVALUATED] = block[SEEN]
    if nodes.counts[N_LIVE] + 2 > room or (growth.max_depth >= 0 and links[node, DEPTH] >= growth.max_depth):
        return
    best, rival, bound = rank(block, layout, growth, scratch.merits, scratch.values)
    if best < 0:
        return
    ratio = scratch.merits[rival] / scratch.merits[best] if rival >= 0 else 0.0
    if ratio < 1.0 - bound or bound < growth.tie_threshold:
        for i in range(len(block)):
            scratch.block[i] = block[i]
        free_block(nodes, node)
        split(nodes, layout, node, best, scratch.values[best], scratch.block, scratch.sides)


@kernel
def _drop_below(nodes, top):
    """Give back every node below `top`, and the alternate trees at `top` and below. O(nodes given back)."""
    links = nodes.links
    node = top
    while True:
        # Down to a leaf, OTHER first; what has been given back is unlinked, and a node without links is a leaf.
        if links[node, OTHER] >= 0:
            below = links[node, OTHER]
            links[node, OTHER] = -1
            links[below, PARENT] = node
            node = below
        elif links[node, TEST] >= 0 and links[node, RIGHT] >= 0:
            below = links[node, RIGHT]
            links[node, RIGHT] = -1
            node = below
        elif links[node, TEST] >= 0 and links[node, LEFT] >= 0:
            below = links[node, LEFT]
            links[node, LEFT] = -1
            node = below
        elif node == top:
            return
        else:
            above = links[node, PARENT]
            free_node(nodes, node)
            node = above


@kernel
def _drop_alternates(nodes, top):
    """Give back the alternate trees at `top` and below. O(nodes below)."""
    links = nodes.links
    node = top
    came_from = -1
    while True:
        if came_from < 0:
            other = links[node, OTHER]
            if other >= 0:
                _drop_tree(nodes, node)
            if links[node, TEST] >= 0:
                node = links[node, LEFT]
                continue
        elif came_from == links[node, LEFT]:
            node = links[node, RIGHT]
            came_from = -1
            continue
        if node == top:
            return
        came_from = node
        node = links[node, PARENT]


@kernel
def _drop_tree(nodes, owner):
    """Give back the alternate tree of `owner`; its Page-Hinkley test begins anew. Mutates nodes."""
    other = nodes.links[owner, OTHER]
    nodes.links[owner, OTHER] = -1
    _drop_below(nodes, other)
    free_node(nodes, other)
    for column in range(PH_N, OTHER_LOSS + 1):
        nodes.monitor[owner, column] = 0.0


@kernel
def _take_place(nodes, owner):
    """Put the alternate tree of `owner` into its place; the node keeps its id. Mutates nodes."""
    links = nodes.links
    other = links[owner, OTHER]
    links[owner, OTHER] = -1
    parent = links[owner, PARENT]
    if links[owner, TEST] >= 0:
        _drop_below(nodes, owner)
    for column in range(links.shape[1]):
        links[owner, column] = links[other, column]
    links[owner, PARENT] = parent
    nodes.test[owner] = nodes.test[other]
    nodes.monitor[owner, :] = 0.0
    nodes.monitor[owner, SEEN_BEFORE] = nodes.monitor[other, SEEN_BEFORE]
    if links[owner, TEST] >= 0:
        links[links[owner, LEFT], PARENT] = owner
        links[links[owner, RIGHT], PARENT] = owner
    links[other, BLOCK] = -1  # now the owner's
    free_node(nodes, other)


@kernel
def _watch(nodes, node, error, w, drift):
    """Add an error to the Page-Hinkley tests of `node` and the nodes above; the highest that found a drift, or -1."""
    monitor = nodes.monitor
    alarmed = -1
    while node >= 0:
        n = monitor[node, PH_N] + w
        mean = monitor[node, PH_MEAN]
        mean += (error - mean) * (w / n)
        total = monitor[node, PH_SUM] + w * (error - mean - drift.delta)
        least = min(monitor[node, PH_LEAST], total)
        monitor[node, PH_N] = n
        monitor[node, PH_MEAN] = mean
        monitor[node, PH_SUM] = total
        monitor[node, PH_LEAST] = least
        if total - least > drift.threshold:
            alarmed = node
        node = nodes.links[node, PARENT]
    return alarmed


@kernel
def _adapt(nodes, layout, growth, drift, scratch, leaf, predicted, target, x, r, y, w):
    """What follows in the inner nodes from an error that `leaf` made: alternate trees learn, begin, take over or end.

    predicted : by the leaf. target : what y counts as, for the tests: a wrong label is no drift. An alternate tree
    learns y as it is, since it is of the time after a drift. Mutates nodes and scratch. O(depth + d).
    """
    error = y - predicted
    links = nodes.links
    monitor = nodes.monitor
    owner = links[leaf, PARENT]
    while owner >= 0 and links[owner, OTHER] < 0:
        owner = links[owner, PARENT]
    watched = links[owner, PARENT] if owner >= 0 else links[leaf, PARENT]
    width = nodes.scales[PER_WIDTH, len(layout.n_values)]
    alarmed = _watch(nodes, watched, abs(target - predicted) * width, w, drift)
    if alarmed >= 0:
        _drop_alternates(nodes, alarmed)
        for column in range(PH_N, OTHER_LOSS + 1):
            monitor[alarmed, column] = 0.0
        if nodes.counts[N_LIVE] + 1 <= growth.max_nodes:
            links[alarmed, OTHER] = new_leaf(nodes, links[alarmed, PARENT], links[alarmed, DEPTH])
            links[links[alarmed, OTHER], PARENT] = -1
        return
    if owner < 0:
        return
    node = route(links, nodes.test, layout.n_values, x, r, links[owner, OTHER])
    block = nodes.blocks[links[node, BLOCK]]
    other_error = y - learn_leaf(
        block, layout.n_values, layout.weight, layout.offset, layout.bins[0], growth, scratch.z, scratch.places, x, r,
        y, w,
    )  # fmt: skip
    if block[SEEN] - block[EVALUATED] >= growth.grace_period:
        try_split(node, nodes, layout, growth, growth.max_nodes, scratch)
    seen = monitor[owner, OTHER_SEEN]
    monitor[owner, OTHER_SEEN] = seen + w
    monitor[owner, LOSS] = growth.error_fading * monitor[owner, LOSS] + w * error * error
    monitor[owner, OTHER_LOSS] = growth.error_fading * monitor[owner, OTHER_LOSS] + w * other_error * other_error
    if np.floor((seen + w) / drift.period) > np.floor(seen / drift.period):
        if monitor[owner, OTHER_LOSS] < monitor[owner, LOSS]:
            _take_place(nodes, owner)
        elif seen + w >= drift.patience:
            _drop_tree(nodes, owner)


@kernel
def run_program(op, row, y, w, slab, out, errors, frame):
    """Execute a program from progress[0] on. Mutates out, errors, and what is in the frame but layout and parameters.

    errors : (n,) float64, of each LEARN of a target that could teach, of whatever weight, how far the tree was off
    before it; NaN where it knew nothing. Or (0,): nobody asks.
    frame : the words of `new_frame` of FimtValues.

    GROW: the next operation may need more capacity than there is; nothing of it has happened. DONE: progress is that of
    a next program.
    O(depth + d log n_bins) an operation, a split attempt once in a grace period.
    """
    values = values_of(frame)
    progress, nodes, chosen, layout, growth = values.progress, values.nodes, values.chosen, values.layout, values.growth
    drift, subset, scratch = values.drift, values.subset, values.scratch
    reports_errors = len(errors) > 0
    m = chosen.shape[1]
    links, test, blocks = nodes.links, nodes.test, nodes.blocks
    n_values, weight, offset, bins = layout
    z = scratch.z
    # The leaf of the row predicted last, and its inputs in z, while nothing was learned since.
    last_row = -1
    last_leaf = links[0, PARENT]
    for i in range(progress[0], len(op)):
        r = row[i]
        if op[i] == PREDICT:
            leaf = route(links, test, n_values, slab, r, 0)
            if growth.leaf_prediction != MEAN_LEAF:
                standardise(nodes.scales, n_values, slab, r, z)
            last_row = r
            last_leaf = leaf
            block = blocks[links[leaf, BLOCK]]
            out[r, 0] = np.nan
            if block[N] > 0.0:
                out[r, 0] = predict_leaf(block, n_values, weight, growth.leaf_prediction, z, slab, r)
            continue
        learns = learnable(y[i], w[i])
        if not learns and not (reports_errors and learnable(y[i], 1.0)):
            continue
        if learns and not has_room(nodes, MORE_NODES, MORE_BLOCKS):
            progress[0] = i
            return GROW
        leaf = last_leaf
        if last_row != r:
            leaf = route(links, test, n_values, slab, r, 0)
            if growth.leaf_prediction != MEAN_LEAF:
                standardise(nodes.scales, n_values, slab, r, z)
        block = blocks[links[leaf, BLOCK]]
        target = counted(nodes.scales, len(n_values), y[i])
        if not learns:
            known = predict_leaf(block, n_values, weight, growth.leaf_prediction, z, slab, r)
            errors[i] = abs(y[i] - known) if block[N] > 0.0 else np.nan
            continue
        last_row = -1
        knew = block[N] > 0.0
        predicted = learn_target(block, n_values, weight, growth, z, slab, r, target, w[i])
        above = target - block[ORIGIN]
        if m == 0:
            observe(block, n_values, offset, bins[0], scratch.places, slab, r, above, w[i])
        else:
            for j in range(m):
                f = chosen[leaf, j]
                subset.n_values[j] = n_values[f]
                subset.offset[j] = offset[f]
                subset.x[0, j] = slab[r, f]
            observe(block, subset.n_values, subset.offset, bins[0], subset.places, subset.x, 0, above, w[i])
        if reports_errors:
            errors[i] = abs(y[i] - predicted) if knew else np.nan
        if block[SEEN] - block[EVALUATED] >= growth.grace_period:
            try_split(leaf, nodes, layout, growth, drift.room, scratch)
        if drift.detect:
            _adapt(nodes, layout, growth, drift, scratch, leaf, predicted, target, slab, r, y[i], w[i])
        widen_all(nodes.scales, n_values, slab, r, target, w[i])
    progress[0] = 0
    return DONE
