"""ORTO: regression trees with options.

Ikonomovska, Gama, Ženko and Džeroski 2011: where the Hoeffding bound cannot single out the best tests of a leaf apart,
it does not wait: all of them are made, each with a subtree of its own, as the options of an option node. An instance is
learned by every option; a prediction is the mean of the options' (ORTO-A), or that of the option that erred least
(ORTO-BP).

Deviations, both of which can be switched off: the leaf itself is an option too (`keep_leaf`), for a linear model that
sees all instances follows a change that each of many leaves would have to learn for itself; and the mean is weighted by
the options' errors. On abalone in file order the paper's ORTO-A errs by 1.417, with the leaf kept 1.368.

OTHER is the next option of the same option node. An instance reaches at most `max_trees` leaves, by twice as many
*stretches* at most: ways from an option, or the root, down to a leaf or the next option node.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program, Schema
from riparian.models.kernels.kernel import DONE, GROW, kernel
from riparian.models.regression.base import RegressionTree
from riparian.models.regression.entries import ORTO
from riparian.models.regression.leaf import (
    EVALUATED,
    MEAN_LEAF,
    SEEN,
    N,
    counted,
    learn_leaf,
    learnable,
    predict_leaf,
    standardise,
    widen_all,
)
from riparian.models.regression.nodes import (
    BLOCK,
    DEPTH,
    N_LIVE,
    N_OTHER,
    OTHER,
    PARENT,
    SEEN_BEFORE,
    TEST,
    child_of,
    free_block,
    has_room,
    new_node,
    rank,
    split,
)

LOSS = SEEN_BEFORE + 1  # column of Nodes.monitor: an option's squared errors, faded
LEAST_LOSS, GREATEST_LOSS = 1e-100, 1e100  # beyond them 1 / L^2 overflows, or is 0


AVERAGE, WEIGHTED, BEST_PATH = 0, 1, 2
PREDICTIONS = {"average": AVERAGE, "weighted": WEIGHTED, "best-path": BEST_PATH}


class Options(NamedTuple):
    """The parameters of option nodes, as kernels take them."""

    prediction: int
    keep_leaf: bool
    max_options: float
    decay: float
    max_trees: int


class Stretches(NamedTuple):
    """Scratch: the ways of one instance, (2 max_trees + 1,) each; what an option node leads to comes after it.

    start : the option, or the root, that a stretch begins at.
    leaf : where it ends, -1 for an option node.
    up : the stretch above; the last place stands for the tree.
    value : the prediction.
    total, n : of the options at the end, the weighted sum of predictions and of weights.
    least : the least loss of them; in best-path mode `total` is its prediction.
    """

    start: NDArray[np.int64]
    leaf: NDArray[np.int64]
    up: NDArray[np.int64]
    value: Floats
    total: Floats
    n: Floats
    least: Floats


class Orto(RegressionTree):
    """Option tree for regression: several tests at once where none is sure to be best.

    Missing values, nominal features, labels and weights are treated as in FIMT-DD. There is no drift detection.

    Memory is bounded by `max_nodes` and the schema, as in FIMT-DD, and the time of an instance by `max_trees`. At the
    bound nothing splits any more; leaves go on learning.

    Options are weighted by 1 / L^2, where L is the faded sum of their squared errors. An option tree stands for one
    tree, and for one more with each further option: `max_trees` bounds these.

    Examples
    --------
    >>> learner = Orto(Schema((0, 2), 1, "regression"), grace_period=50)
    >>> x = np.random.default_rng(1).random((4000, 2)).round()
    >>> learner.learn_many(x, 10.0 * x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).round(3).tolist()
    [[10.0]]
    """

    entry = ORTO

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self._options = Options(
            PREDICTIONS[p["prediction"]], p["keep_leaf"], float(p["max_options"]), p["option_decay"], p["max_trees"]
        )
        n = 2 * p["max_trees"] + 1
        start, leaf, up = np.zeros((3, n), np.int64)
        self._stretches = Stretches(start, leaf, up, *np.zeros((4, n)))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        progress = np.zeros(1, np.int64)
        more = 5 * self._options.max_trees
        while (
            _run(
                program.op, program.row, program.y, program.w, slab, out, progress, more,
                self._nodes, self._layout, self._growth, self._options, self._stretches, self._scratch,
            ) == GROW
        ):  # fmt: skip
            self._make_room(more, more)

    def describe(self) -> list[dict[str, Any]]:
        """Describe the nodes (RegressionTree.describe). A node with a further option names it under "option"; that has
        the node as its parent, and neither its weight nor its value are part of the node's."""
        return super().describe()

    def _describe(self, node: int, parent: int | None, depth: int) -> dict[str, Any]:
        option = int(self._nodes.links[node, OTHER])
        return super()._describe(node, parent, depth) | ({"option": option} if option >= 0 else {})


@kernel(inline=True)
def _enter(links, stretches, n, node, up):
    """Begin a stretch at `node` and at each further option of it; the number of stretches. Mutates stretches."""
    while node >= 0:
        stretches.start[n] = node
        stretches.up[n] = up
        stretches.total[n] = 0.0
        stretches.n[n] = 0.0
        node = links[node, OTHER]
        n += 1
    return n


@kernel
def _predict(nodes, n_values, weight, growth, options, stretches, z, x, r, y, w):
    """The ways of row r and the predictions on them: the number of stretches; value[-1] is the tree's prediction.

    y, w : if w > 0, the errors of the options are added to their losses (not of a leaf that knew nothing). Mutates
    stretches, and then nodes.
    O(max_trees (depth + d)).
    """
    links = nodes.links
    none = len(stretches.up) - 1
    stretches.total[none] = 0.0
    stretches.n[none] = 0.0
    n = _enter(links, stretches, 0, 0, none)
    i = 0
    while i < n:
        node = stretches.start[i]
        while links[node, TEST] >= 0:
            node = child_of(links, nodes.test, n_values, x, r, node)
            if links[node, OTHER] >= 0:
                break
        if links[node, OTHER] >= 0 and node != stretches.start[i]:
            stretches.leaf[i] = -1
            n = _enter(links, stretches, n, node, i)
        else:
            stretches.leaf[i] = node
        i += 1
    for i in range(n - 1, -2, -1):  # what is above comes later, at last the tree itself
        at = i if i >= 0 else none
        if i >= 0 and stretches.leaf[i] >= 0:
            block = nodes.blocks[links[stretches.leaf[i], BLOCK]]
            value = np.nan
            if block[N] > 0.0:
                value = predict_leaf(block, n_values, weight, growth.leaf_prediction, z, x, r)
        elif options.prediction == BEST_PATH:
            value = stretches.total[at]
        else:
            value = stretches.total[at] / stretches.n[at]
        stretches.value[at] = value
        if i < 0:
            break
        up = stretches.up[i]
        loss = nodes.monitor[stretches.start[i], LOSS]
        if options.prediction == BEST_PATH:
            if stretches.n[up] == 0.0 or loss <= stretches.least[up]:
                stretches.total[up] = value
                stretches.least[up] = loss
            stretches.n[up] = 1.0
        else:
            share = 1.0
            if options.prediction == WEIGHTED:
                share = 1.0 / min(max(loss, LEAST_LOSS), GREATEST_LOSS)
                share *= share
            stretches.total[up] += share * value
            stretches.n[up] += share
        if w > 0.0 and value == value:
            nodes.monitor[stretches.start[i], LOSS] = growth.error_fading * loss + w * (y - value) * (y - value)
    return n


@kernel
def _try_split(node, nodes, layout, growth, options, scratch):
    """Split leaf `node` if the bound allows it, or else by all tests that it cannot distinguish from the best, as
    options.

    Mutates nodes and scratch. O(d (n_bins or V)).
    """
    links = nodes.links
    block = nodes.blocks[links[node, BLOCK]]
    block[EVALUATED] = block[SEEN]
    if nodes.counts[N_LIVE] + 2 > growth.max_nodes or (
        growth.max_depth >= 0 and links[node, DEPTH] >= growth.max_depth
    ):
        return
    merits = scratch.merits
    best, rival, bound = rank(block, layout, growth, merits, scratch.values)
    if best < 0:
        return
    n_options = 1
    ratio = merits[rival] / merits[best] if rival >= 0 else 0.0
    if not (ratio < 1.0 - bound or bound < growth.tie_threshold):
        n_alike = 0
        for f in range(len(merits)):
            if merits[f] > 0.0 and merits[f] >= merits[best] * (1.0 - bound):
                n_alike += 1
        allowed = int(options.max_options * options.decay ** links[node, DEPTH])
        kept = 1 if options.keep_leaf else 0
        n_options = min(n_alike, allowed, options.max_trees - nodes.counts[N_OTHER] - kept)
        if n_options < 2 or nodes.counts[N_LIVE] + 3 * n_options - 1 + kept > growth.max_nodes:
            return
    for i in range(len(block)):
        scratch.block[i] = block[i]
    option = node
    keep = options.keep_leaf and n_options > 1
    if keep:
        nodes.monitor[node, LOSS] = 0.0
    else:
        free_block(nodes, node)
    for i in range(n_options):
        if i > 0:
            best = 0
            for f in range(1, len(merits)):
                if merits[f] > merits[best]:
                    best = f
        if i > 0 or keep:
            links[option, OTHER] = new_node(nodes, links[node, PARENT], links[node, DEPTH])
            option = links[option, OTHER]
            nodes.counts[N_OTHER] += 1
        split(nodes, layout, option, best, scratch.values[best], scratch.block, scratch.sides)
        if option != node:
            nodes.monitor[option, SEEN_BEFORE] = 0.0
        merits[best] = -1.0


@kernel
def _run(op, row, y, w, slab, out, progress, more, nodes, layout, growth, options, stretches, scratch):
    """Execute a program from progress[0] on. Mutates out, progress, nodes and scratch.

    more : nodes and blocks that one operation may need. GROW: there is no capacity for them, nothing of the next
    operation has happened. O(max_trees (depth + d log n_bins)) an operation.
    """
    n_values, weight, offset, bins = layout
    z = scratch.z
    none = len(stretches.up) - 1
    for i in range(progress[0], len(op)):
        r = row[i]
        learns = op[i] != PREDICT
        if learns and not learnable(y[i], w[i]):
            continue
        if learns and not has_room(nodes, more, more):
            progress[0] = i
            return GROW
        if growth.leaf_prediction != MEAN_LEAF:
            standardise(nodes.scales, n_values, slab, r, z)
        target = counted(nodes.scales, len(n_values), y[i]) if learns else y[i]
        n = _predict(nodes, n_values, weight, growth, options, stretches, z, slab, r, target, w[i] if learns else 0.0)
        if not learns:
            out[r, 0] = stretches.value[none]
            continue
        for j in range(n):
            leaf = stretches.leaf[j]
            if leaf < 0:
                continue
            block = nodes.blocks[nodes.links[leaf, BLOCK]]
            learn_leaf(block, n_values, weight, offset, bins[0], growth, z, scratch.places, slab, r, target, w[i])
            if block[SEEN] - block[EVALUATED] >= growth.grace_period and nodes.links[leaf, OTHER] < 0:
                _try_split(leaf, nodes, layout, growth, options, scratch)
        widen_all(nodes.scales, n_values, slab, r, target, w[i])
    return DONE
