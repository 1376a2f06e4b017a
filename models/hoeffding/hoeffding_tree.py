"""The Hoeffding tree: a leaf splits once the Hoeffding bound shows that the best test is best.

Domingos and Hulten 2000 (VFDT): grace period, tie threshold, "no split" as a candidate. Adaptive naive Bayes leaves
after Gama, Rocha and Medas 2003 and Holmes, Kirkby and Pfahringer 2005. Observers: models.observers.gaussians,
models.observers.histogram_blocks; tests and their merit: models.hoeffding.splitting.candidates; splits:
models.hoeffding.splitting.split; the loop over a program: models.hoeffding.loop. Invariants:

- nodes are appended and never move; parents come before their children;
- a leaf has a block of statistics unless it was deactivated, others have none (-1); the first child of a split takes
  the block of its parent, zeroed, so every block has an owner;
- the weight that each node saw as a leaf (`leaf[:, SEEN]`) sums up to the weight learned: nothing leaks;
- a split leaves its children the class weights that the observers of the leaf estimate for them, as MOA does;
- whatever is kept for speed (models.observers.gaussians.Cache) follows from state alone.
"""

from typing import Any, ClassVar

import numpy as np

from riparian.models.contract import Floats, Program, Schema
from riparian.models.hoeffding.base import ClassificationTree
from riparian.models.hoeffding.entries import HOEFFDING_TREE
from riparian.models.hoeffding.feature_subsets import NO_SUBSETS, FeatureSubsets
from riparian.models.hoeffding.loop import TreeValues, new_frame, run_binned, run_gaussian, watch_binned, watch_gaussian
from riparian.models.hoeffding.nodes import (
    BLOCK,
    DEEPEST,
    DEFAULT,
    DEPTH,
    FIRST,
    MAP,
    N_BLOCKS,
    N_LEAVES,
    N_MAP,
    N_MAPPED,
    N_NODES,
    NEED_BLOCKS,
    NEED_MAPPED,
    NEED_NODES,
    PARENT,
    SEEN,
    TEST,
    HoeffdingNodes,
)
from riparian.models.hoeffding.parameters import bins_of, settings_of
from riparian.models.joined import joined
from riparian.models.kernels.frames import KernelFrame
from riparian.models.kernels.kernel import GROW
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers.gaussians import Cache, know_nothing, lay_out
from riparian.models.observers.likelihood import scratch_of

# Everything the tree knows: HoeffdingNodes as far as they are used, and SeenValues.
HoeffdingTreeState = joined("HoeffdingTreeState", HoeffdingNodes._fields[:-1], ("values", "n_values", "counts"))

UNWATCHED = np.zeros(0)
FIRST_ROOM = 16  # leaves, once there are two


class HoeffdingTree(ClassificationTree):
    """Very fast decision tree (VFDT) with numeric and nominal features and naive Bayes in the leaves.

    Missing values (NaN) are left out by the observers; at a test they go to the child that was heaviest when the node
    was split. A nominal value without a branch gets one, an empty leaf, when it is learned; till then, and at the bound
    of memory, it goes the way of missing ones, as do codes outside the schema. A label outside 0 .. n_outputs - 1 and a
    weight that is not positive and finite teach nothing. A leaf whose classes all have likelihood 0 falls back on its
    class weights.

    Memory is bounded by `max_nodes`, `max_active_leaves` and the schema: a leaf has 5 numbers a class and numeric
    feature (with histograms 1 + n_bins, and 1 + n_bins more), 1 + V a class and nominal feature of V values, and
    scratch of 3 and 1 + V that is not state. At `max_nodes` or `max_leaves` nothing splits any more; leaves go on
    learning. A split that would exceed it does not happen, though a smaller one might. At `max_active_leaves` the tree
    goes on growing: the least promising leaves lose their statistics and predict their majority class, until they are
    more promising than another (models.hoeffding.splitting.split).

    Nominal tests that are not binary have a branch for each value that the leaf saw. A tree of binary tests has one
    inner node less than leaves: `max_leaves` of 128 gives HT-limit, the Hoeffding tree with at most 127 inner nodes of
    the soft Hoeffding tree's authors.

    Notes
    -----
    The bound is sqrt(R^2 log(1 / delta) / 2n) with R = log2(classes in the leaf) bits for the information gain, 1 for
    Gini, sqrt(2) for Hellinger; n is the weight in the leaf with the estimate that it inherited, as in MOA: counting
    only what the leaf itself saw, as in the paper, costs 0.6 points on elec. The default delta is 1e-3: with 1e-7, the
    paper's, elec loses 2.8.

    References
    ----------
    P. Domingos and G. Hulten: Mining high-speed data streams. KDD 2000.
    G. Holmes, R. Kirkby and B. Pfahringer: Stress-testing Hoeffding trees. PKDD 2005.
    K. Köbschall, L. Hartung and S. Kramer: Soft Hoeffding tree: a transparent and differentiable model on data streams.

    Examples
    --------
    >>> learner = HoeffdingTree(Schema((0, 2), 2, "classification"), grace_period=50)
    >>> x = np.random.default_rng(1).random((2000, 2)).round()
    >>> learner.learn_many(x, x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = HOEFFDING_TREE
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"links test weights leaf": "nodes", "stats": "blocks", "child_of_value": "mapped"},
        counts={("counts", N_NODES): "nodes", ("counts", N_BLOCKS): "blocks", ("counts", N_MAPPED): "mapped"},
        places={("links", TEST): "features", ("links", BLOCK): "blocks"},
        paths=(
            Paths(("links", TEST), (("links", FIRST),), pairs=True),
            Paths(("links", TEST), (("links", DEFAULT),), mapped=(("links", MAP), ("links", N_MAP), "child_of_value")),
        ),
    )
    _chosen: FeatureSubsets = NO_SUBSETS  # what leaves look at
    _frame: KernelFrame | None  # None where an array has been replaced since

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._settings = settings_of(self._parameters)
        binned = bool(bins_of(self._parameters))
        self._loop, self._watch = (run_binned, watch_binned) if binned else (run_gaussian, watch_gaussian)
        self._known = know_nothing(schema)
        k = schema.n_outputs
        self._nodes = HoeffdingNodes(
            np.zeros((1, 8), np.int32),
            np.zeros(1),
            np.zeros((1, k)),
            np.zeros((1, 4 if self._parameters["max_active_leaves"] is None else 5)),
            np.zeros((1, self._widths(schema)[0])),
            np.zeros(0, np.int32),
            np.array([1, 1, 0, 1, 0], np.int64),
        )
        self._nodes.links[0, [TEST, PARENT]] = -1
        self._prepare()

    def _widths(self, schema: Schema) -> tuple[int, int]:
        """Of a block of statistics, and of a row of the cache."""
        return lay_out(schema, bins_of(self._parameters))[1:]

    def _prepare(self) -> None:
        """What follows from the schema and the size of the arrays, and is not state."""
        self._frame = None
        self._progress = np.array([0, -1, 0, 0, 0], np.int64)
        self._layout = lay_out(self.schema, bins_of(self._parameters))[0]
        n_blocks = len(self._nodes.stats)
        self._cache = Cache(np.zeros((n_blocks, self._widths(self.schema)[1])), np.zeros(n_blocks, np.uint8))
        k = self.schema.n_outputs
        self._joint = scratch_of(self.schema)
        self._post = np.zeros((max(2, *self.schema.n_values, 2) + 1, k))
        self._found = np.zeros(4)

    def run(self, program: Program, slab: Floats, out: Floats, errors: Floats = UNWATCHED) -> None:
        """Execute a program (Learner.run). errors : (n,) float64 where the tree is watched; a LEARN of a class within
        the schema, of whatever weight, writes 1 if the tree would have predicted another class, or nothing, before it;
        else 0."""
        self._run(self._watch if errors is not UNWATCHED else self._loop, program, slab, out, errors)

    def _run(self, loop: Any, program: Program, slab: Floats, out: Floats, errors: Floats) -> None:
        op, row, y, w = program
        while True:
            if self._frame is None:
                self._frame = new_frame(self._values())
            if loop(op, row, y, w, slab, out, errors, self._frame.words) != GROW:
                return
            self._grow(*(int(self._progress[i]) for i in (NEED_NODES, NEED_BLOCKS, NEED_MAPPED)))

    def _values(self) -> TreeValues:
        return TreeValues(
            self._progress, self._joint, self._post, self._found, self._nodes, self._known, self._cache, self._layout,
            self._settings, self._chosen,
        )  # fmt: skip

    def _grow(self, n_nodes: int, n_blocks: int, n_mapped: int) -> None:
        self._enlarge(max(n_nodes, 2 * FIRST_ROOM), max(n_blocks, FIRST_ROOM), n_mapped)
        self._frame = None

    def state(self) -> Any:
        nodes = self._without_room(*(int(self._nodes.counts[i]) for i in (N_NODES, N_BLOCKS, N_MAPPED)))
        return HoeffdingTreeState(**nodes._asdict(), values=self._known.values, n_values=self._known.n_seen)

    def describe(self) -> list[dict[str, Any]]:
        """Nodes, root first, parents before children. Inner nodes: "feature", and "threshold" (numeric), "equals"
        (binary nominal) or "children" (value -> id); "default" is the child of missing values. Leaves: "predictor", and
        "active", false, where they have no statistics.

        "weight" is what passed through since the node is there. "value" is the weight of each class: of a leaf with
        what it inherited, of an inner node the sum over the leaves below.
        """
        state = self.state()
        links, seen = state.links, state.leaf[:, SEEN].copy()
        weights = np.where(links[:, [TEST]] < 0, state.weights, 0.0)
        for i in range(len(links) - 1, 0, -1):
            seen[links[i, PARENT]] += seen[i]
            weights[links[i, PARENT]] += weights[i]
        nodes = []
        for i, link in enumerate(links.tolist()):
            node = self._described(i, link[PARENT], link[DEPTH], seen[i], weights[i])
            if link[TEST] >= 0:
                node |= self._test(link[TEST], link[DEFAULT], float(state.test[i]), self._children(link))
            elif link[BLOCK] >= 0:
                node["predictor"] = self._predictor(i)
            else:
                node |= {"predictor": "mc", "active": False}
            nodes.append(node)
        return nodes

    def _children(self, link: list[int]) -> list[int]:
        """Children by branch, -1 for none."""
        if not link[N_MAP]:
            return [link[FIRST], link[FIRST] + 1]
        children: list[int] = self._nodes.child_of_value[link[MAP] : link[MAP] + link[N_MAP]].tolist()
        return children

    def size(self) -> dict[str, int]:
        counts = self._nodes.counts
        return {"n_nodes": int(counts[N_NODES]), "n_leaves": int(counts[N_LEAVES]), "depth": int(counts[DEEPEST])}
