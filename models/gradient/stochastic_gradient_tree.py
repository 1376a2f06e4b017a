"""The learner: stochastic gradient trees for classification and regression. Bags: models.gradient.bag_gradient_tree."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riparian.models.contract import LEARN, Bags, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.gradient import committee
from riparian.models.gradient.bins import MOMENTS, Bins, lay_out, no_bins, refit, transfer
from riparian.models.gradient.committee import BIN, LEAST_SPREAD, N_DRIFTED, NEED_BLOCKS, NEED_NODES, RESET, WARM
from riparian.models.gradient.description import describe_bins, describe_trees
from riparian.models.gradient.entries import STOCHASTIC_GRADIENT_TREE
from riparian.models.gradient.learner_state import (
    BUFFERED,
    CENTRE,
    CROSS_ENTROPY,
    LEARNED,
    MEAN,
    NEXT_BINS,
    READY,
    SPREAD,
    SQUARES,
    UNIT,
    WEIGHT,
    LearnerState,
    StageDetectors,
    choose,
    new_learner_state,
    no_watch,
    nodes_in,
    scratch_for,
    shape_of,
    task_of,
)
from riparian.models.gradient.losses import POISSON
from riparian.models.gradient.presets import effective
from riparian.models.gradient.splits import SplitSearch
from riparian.models.gradient.tree import (
    BLOCK,
    DEEPEST,
    DEFAULT,
    DEPTH,
    EVERY_INSTANCE,
    LEFT,
    N_BLOCKS,
    N_LEAVES,
    N_NODES,
    NEXT,
    PARENT,
    RIGHT,
    TEST,
    TESTED,
    TREE,
    GradientGrowth,
    GradientNodes,
    make_room,
    no_nodes,
    plant,
    used,
    without_trees,
)
from riparian.models.joined import copied, grown, joined
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.kernel import GROW
from riparian.models.kernels.randomness import seeded
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers.gaussians import check_growth

# Everything the learner knows: arrays of GradientNodes, whose counts are `nodes`, Bins, LearnerState and
# StageDetectors, and roots : (stages, trees) int32, -1 where there is none yet.
# chosen : (stages, m) int32, features a stage looks at.
SgtState = joined(
    "SgtState",
    GradientNodes._fields[:-1],
    ("nodes", "roots", "chosen"),
    Bins._fields,
    LearnerState._fields,
    StageDetectors._fields,
)


class StochasticGradientTree(Learner):
    """Trees that minimise a loss by stochastic gradients: a leaf splits where a t test shows that this lowers it.

    Classification has a tree for each class but the first under softmax and cross-entropy, regression one tree; several
    stages of them boost each other. Each instance moves the leaf that it reaches by a Newton step; with
    `leaf_update="tested"`, the paper's rule, leaves move only when the test allows it. `preset="paper"` is the learner
    of the paper. docs/evidence/learners/gradient-trees.md explains where and why the default is another.

    Until the warm-up is over the prediction is the class frequencies or the mean. Missing values (NaN) are counted
    apart; a test sends them where more weight went. So it does with nominal codes outside the schema, and with values
    that a test with a branch for each value has not seen. A label outside 0 .. n_outputs - 1, a target that is not
    finite or beyond 1e100 (Poisson: or negative), and a weight that is not positive and finite teach nothing.

    Memory is bounded by `max_bytes` or `max_nodes`, the schema and the warm-up, which is kept till it is learned: a
    leaf has 6 (n_bins + 1) numbers a numeric feature and 6 (V + 1) a nominal feature of V values. At the bound nothing
    splits any more, leaves go on learning, and only the first trees of a new class are still made.

    What the presets set is in models.gradient.presets, losses in models.gradient.losses; "poisson" predicts exp of the
    score. A small `loss_threshold` is nearly the absolute error. Bins are made anew after 2, 4 and 8 times the warm-up,
    and then with each `rebin_period`. `learning_rate` is a factor on the Newton step, `decay` on the sum of Hessians.
    Linear models are over standardised numeric features.

    Examples
    --------
    >>> learner = StochasticGradientTree(Schema((0, 2), 2, "classification"))
    >>> x = np.random.default_rng(1).random((2000, 2)).round()
    >>> learner.learn_many(x, x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).round(2).tolist()
    [[0.0, 1.0]]
    """

    entry = STOCHASTIC_GRADIENT_TREE
    layout: ClassVar[StateLayout] = StateLayout(
        rows={
            "links test meta value slope curvature totals": "nodes", "stats": "blocks", "edges": "= =edges",
            "buffer": "buffered", "target": "*",
        },
        counts={("nodes", N_NODES): "nodes", ("nodes", N_BLOCKS): "blocks"},
        places={("links", TEST): "features", ("links", BLOCK): "blocks", "roots": "nodes", "chosen": "features"},
        bounded={"n_edges": "edges"},
        paths=(
            Paths(("links", TEST), (("links", LEFT), ("links", RIGHT), ("links", DEFAULT))),
            Paths(("links", NEXT), (("links", NEXT),)),
        ),
    )  # fmt: skip

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._effective = effective(self._parameters, schema.task)
        if p["max_nodes"] is None:
            p["max_nodes"] = nodes_in(p["max_bytes"], schema, p)
        self._growth = GradientGrowth(
            float(p["grace_period"]),
            p["delta"],
            p["penalty"],
            p["penalty_on"] == "mean",
            p["node_cost"],
            p["paired"],
            p["multiway"],
            EVERY_INSTANCE if p["leaf_update"] == "every-instance" else TESTED,
            p["learning_rate"],
            p["decay"],
            p["largest_step"],
            p["linear_rate"],
            p["max_nodes"],
            -1 if p["max_depth"] is None else p["max_depth"],
        )
        self._task = task_of(schema, p)
        d = schema.n_features
        n_trees, n_outputs = shape_of(schema, self._task)
        n_slopes = n_outputs * d if self._task.linear else 0
        self._nodes = no_nodes(n_outputs, lay_out(schema, p["n_bins"], n_outputs)[1], n_slopes)
        self._roots = np.full((p["n_stages"], n_trees), -1, np.int32)
        self._bins = no_bins(d, p["n_bins"])
        rng = seeded(seed)
        self._chosen = choose(rng, p["n_stages"], d, p["feature_share"])
        self._learned = new_learner_state(schema, self._task, p["warm_up"], rng)
        self._watch = no_watch(p["n_stages"] if p["reset_delta"] > 0.0 else 0)
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the schema and is not state."""
        n_trees, n_outputs = shape_of(self.schema, self._task)
        self._layout, _ = lay_out(self.schema, self._effective["n_bins"], n_outputs)
        size = int(self._layout.size[0])
        self._scratch = scratch_for(self.schema, self._effective["n_stages"], n_trees)
        m = max(4, *self.schema.n_values, 4)
        self._search = SplitSearch(np.zeros((m, size)), np.zeros((m, n_outputs)), np.zeros(m, np.int32))

    def run(self, program: Program, slab: Any, out: Floats) -> None:
        self._run(program, slab, out, False)

    def fit(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn a training set in several passes; what is left of a warm-up ends with the first."""
        for _ in range(self._effective["epochs"]):
            self.learn_many(x, y, w)

    def _run(self, program: Program, slab: Any, out: Floats, replay: bool) -> None:
        progress = np.zeros(6, np.int64)
        while True:
            status = committee.run(
                program.op, program.row, program.y, program.w, slab, out, progress, self._nodes, self._roots,
                self._bins, self._layout, self._growth, self._learned, self._watch, self._task, self._chosen,
                self._scratch, self._search, replay,
            )  # fmt: skip
            if status == GROW:
                self._make_room(int(progress[NEED_NODES]), int(progress[NEED_BLOCKS]))
            elif status == WARM:
                self._begin(out)
            elif status == RESET:
                self._reset()
                progress[N_DRIFTED] = 0
            elif status == BIN:
                self._rebin()
            else:
                return

    def _make_room(self, n_nodes: int, n_blocks: int) -> None:
        self._nodes = make_room(self._nodes, n_nodes, n_blocks)

    def _begin(self, out: Floats) -> None:
        """End the warm-up: bins and scales from the buffer, and the trees learn it if they replay it."""
        state, d = self._learned, self.schema.n_features
        rows = np.ascontiguousarray(state.buffer[:, :d])
        y, w = state.buffer[:, d].copy(), state.buffer[:, d + 1].copy()
        target = state.target
        target[SPREAD] = 1.0
        self._centre()
        if self._task.loss not in (CROSS_ENTROPY, POISSON):
            spread = math.sqrt(target[SQUARES] / target[WEIGHT])
            target[SPREAD] = spread if LEAST_SPREAD <= spread < math.inf else 1.0
        target[UNIT] = target[SPREAD]
        for f, n in enumerate(self.schema.n_values):
            finite = rows[np.isfinite(rows[:, f]), f]
            if n == 0 and len(finite):
                self._bins.ranges[f] = finite.min(), finite.max()
        state.counts[READY] = 1
        state.counts[BUFFERED] = 0
        sample = np.full((self._task.sample, d + 2), np.nan)
        n_kept = min(len(rows), len(sample))
        sample[:n_kept] = state.buffer[:n_kept]
        self._learned = state._replace(buffer=sample)
        self._find_bins(rows)
        self._schedule()
        if not self._effective["replay"]:
            self._plant_known()
        else:
            n_rows = len(rows)
            program = Program(np.full(n_rows, LEARN, np.int8), np.arange(n_rows, dtype=np.int32), y, w)
            self._run(program, rows, out, True)

    def _centre(self) -> None:
        """Let a score of 0 be the mean of the target."""
        target = self._learned.target
        if self._task.loss == POISSON:
            target[CENTRE] = logs(target[MEAN]) if target[MEAN] > 0.0 else 0.0
        elif self._task.loss != CROSS_ENTROPY:
            target[CENTRE] = target[MEAN]

    def _plant_known(self) -> None:
        """Trees of the classes that the warm-up has seen: they have a probability, which labels of others move, too."""
        if self._task.loss != CROSS_ENTROPY or self._task.one_tree:
            return
        trees = np.flatnonzero(self._learned.known[1:] > 0.0).tolist()
        n_stages, counts = len(self._roots), self._nodes.counts
        n = len(trees) * n_stages
        self._make_room(int(counts[N_NODES]) + n, int(counts[N_BLOCKS]) + n)
        for tree in trees:
            for s in range(n_stages):
                self._roots[s, tree] = plant(self._nodes, s * self._roots.shape[1] + tree)

    def _reset(self) -> None:
        """Give the stages whose errors rose new trees for the classes that they had trees for."""
        drifted, roots = self._scratch.drifted, self._roots
        trees = np.repeat(drifted, roots.shape[1])
        replaced = np.flatnonzero(trees & (roots.ravel() >= 0))
        self._nodes, ids = without_trees(self._nodes, trees)
        self._roots = np.where(roots >= 0, ids[roots], -1).astype(np.int32)
        counts = self._nodes.counts
        n = len(replaced)
        self._make_room(int(counts[N_NODES]) + n, int(counts[N_BLOCKS]) + n)
        for tree in replaced.tolist():
            self._roots[divmod(tree, roots.shape[1])] = plant(self._nodes, tree)
        if drifted.all():
            self._centre()
        target = self._learned.target
        if target[UNIT] < target[SPREAD]:
            target[UNIT] = target[SPREAD]
            self._watch = no_watch(len(self._watch.watch_counts))
        drifted[:] = False

    def _schedule(self) -> None:
        """Bins are due at twice the labels learned, at the latest after `rebin_period`."""
        period, learned = self._effective["rebin_period"], int(self._learned.counts[LEARNED])
        self._learned.counts[NEXT_BINS] = learned + min(learned, period) if period > 0 else np.iinfo(np.int64).max

    def _rebin(self) -> None:
        self._find_bins(self._learned.buffer)
        self._schedule()

    def _find_bins(self, rows: Floats) -> None:
        p = self._effective
        sample = rows if p["binning"] == "quantiles" else None
        refit(self._bins, self._layout, self._nodes.stats, int(self._nodes.counts[N_BLOCKS]), p["n_bins"], sample)

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        n_bins = self._effective["n_bins"]
        n_trees, n_outputs = shape_of(schema, self._task)
        old = lay_out(self.schema, n_bins, shape_of(self.schema, self._task)[1])
        nodes, n = self._nodes, len(self._nodes.value)
        self._nodes = nodes._replace(
            value=grown(nodes.value, n, n_outputs),
            curvature=grown(nodes.curvature, n, n_outputs),
            totals=grown(nodes.totals, n, 1 + MOMENTS * n_outputs),
            slope=grown(nodes.slope, n, n_outputs * schema.n_features if nodes.slope.shape[1] else 0),
            stats=transfer(nodes.stats, old, lay_out(schema, n_bins, n_outputs)),
        )
        self._roots = grown(self._roots, len(self._roots), n_trees, fill=-1)
        _number_trees(self._nodes, self._roots)
        if schema.n_outputs > len(self._learned.known):
            self._learned = self._learned._replace(known=grown(self._learned.known, schema.n_outputs))
        self.schema = schema
        self._prepare()

    def state(self) -> Any:
        nodes = used(self._nodes)
        counts = nodes.pop("counts")
        return SgtState(*nodes.values(), counts, self._roots, self._chosen, *self._bins, *self._learned, *self._watch)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._nodes = copied({**state, "counts": state["nodes"]}, self._nodes)
        self._bins, self._learned = copied(state, self._bins), copied(state, self._learned)
        if len(self._learned.target) == UNIT:  # stored before detectors had a unit of their own
            self._learned = self._learned._replace(target=np.append(self._learned.target, self._learned.target[SPREAD]))
        if len(self._learned.target) != UNIT + 1:
            raise ValueError(f"target has {len(self._learned.target)} numbers, not {UNIT + 1}")
        self._watch = copied(state, self._watch)
        self._roots = np.array(state["roots"], np.int32)
        self._chosen = np.array(state["chosen"], np.int32)
        _number_trees(self._nodes, self._roots)
        self._prepare()

    def describe(self) -> list[dict[str, Any]]:
        """A node for the learner, with the weight of each class or the mean of the last thousand or so targets under
        "value" and the edges of the bins under "bins", and below it the trees: roots have "stage" and "class" (the one
        that the tree is for).

        Inner nodes: "feature", and "threshold" (numeric: values up to it go to the first child), "equals" (nominal) or
        "children" (value -> id); "default" is the child of missing values. "value" is the score, of an inner node the
        mean of the leaves below; for a single regression tree it is the prediction, without "unit". "slope" of a linear
        leaf: what a deviation of each feature adds.
        """
        state, task = self._learned, self._task
        classes = task.loss == CROSS_ENTROPY
        value = state.known.tolist() if classes else [float(state.target[MEAN])]
        top = as_node(0, None, 0, state.known.sum(), value, bins=describe_bins(self._bins, self.schema))
        plain = not classes and task.loss != POISSON and len(self._roots) == 1
        centre = float(state.target[CENTRE]) if plain else None
        nodes = self._nodes._replace(**used(self._nodes))
        trees = describe_trees(nodes, self._roots, self.schema, centre, float(state.target[SPREAD]))
        return [top, *trees]

    def size(self) -> dict[str, int]:
        counts = self._nodes.counts
        return {"n_nodes": int(counts[N_NODES]), "n_leaves": int(counts[N_LEAVES]), "depth": int(counts[DEEPEST])}


def _number_trees(nodes: GradientNodes, roots: NDArray[np.int32]) -> None:
    """Write TREE of all nodes, from the roots: a tree's number counts those of the stages before, which have more where
    classes came."""
    links = nodes.links[: int(nodes.counts[N_NODES])]
    trees = np.flatnonzero(roots >= 0)
    links[roots.ravel()[trees], TREE] = trees
    order = np.argsort(links[:, DEPTH], kind="stable")
    ends = np.searchsorted(links[order, DEPTH], np.arange(1, int(links[:, DEPTH].max(initial=0)) + 2))
    for start, stop in pairwise(ends.tolist()):
        level = order[start:stop]
        links[level, TREE] = links[links[level, PARENT], TREE]
