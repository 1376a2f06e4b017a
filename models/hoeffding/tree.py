"""The Hoeffding tree: a leaf splits once the Hoeffding bound says that the best test is best.

Domingos and Hulten 2000 (VFDT): grace period, tie threshold, "no split" as a candidate. Adaptive naive Bayes leaves
after Gama, Rocha and Medas 2003 and Holmes, Kirkby and Pfahringer 2005. Observers: models.observers; tests and their
merit: models.hoeffding.split. Invariants:

- nodes are appended and never move; parents come before their children;
- a leaf has a block of statistics, all others have none (-1); the first child of a split takes the block of its parent,
  zeroed, so every block has an owner;
- the weight that each node saw as a leaf (`leaf[:, SEEN]`) sums up to the weight learned: nothing leaks;
- a split leaves its children the class weights that the observers of the leaf estimate for them, as MOA does;
- whatever is kept for speed (models.observers.Cache) follows from state alone.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import PREDICT, Floats, Learner, Program, Schema
from models.hoeffding.split import FEATURE, GINI, INFO_GAIN, MERIT, SECOND, VALUE, best_split, branch
from models.kernel import kernel
from models.observers import (
    Cache,
    Known,
    check_growth,
    heaviest,
    know_nothing,
    lay_out,
    observe,
    refresh,
    score,
    score_two,
    transfer,
    write_joint,
    write_weights,
)

CRITERIA = {"info-gain": INFO_GAIN, "gini": GINI}
MC, NB, NBA = 0, 1, 2
LEAF_PREDICTIONS = {"mc": MC, "nb": NB, "nba": NBA}

# Columns of Nodes.links.
TEST, FIRST, DEFAULT, MAP, N_MAP, PARENT, DEPTH, BLOCK = range(8)
# Columns of Nodes.leaf.
SEEN, EVALUATED, MC_CORRECT, NB_CORRECT = range(4)
# Places in `counts`.
N_NODES, N_BLOCKS, N_MAPPED, N_LEAVES, DEEPEST = range(5)
# Places in `progress`: the next operation, the leaf whose split waits for room, and the room it needs.
NEXT, WAITING, NEED_NODES, NEED_BLOCKS, NEED_MAPPED = range(5)

DONE, GROW = 0, 1


class HoeffdingTreeState(NamedTuple):
    """Everything the tree knows.

    links : (n_nodes, 8) int32. TEST is the feature tested, -1 for a leaf. Numeric: values above `test` go to child
        FIRST + 1, others to FIRST. Nominal, binary: equal to `test` goes to FIRST, others to FIRST + 1. Nominal, a
        branch a value: value v goes to child_of_value[MAP + v] if v < N_MAP. DEFAULT is the child of all others and of
        missing values. PARENT (-1 for the root), DEPTH; BLOCK is the leaf's row of `stats`, -1 for others.
    test : (n_nodes,) float64, threshold or value.
    weights : (n_nodes, n_outputs) float64, of the classes; a node that was split keeps those of that moment.
    leaf : (n_nodes, 4) float64, weight that the node saw as a leaf, the same at its last split attempt, and the weight
        that majority class and naive Bayes would have predicted correctly.
    stats : (n_leaves, width) float64, blocks of models.observers.
    child_of_value : int32, node of a value, -1 for none.
    values : uint8, which values of the nominal features were learned. n_values : (d,) int64, how many of each.
    counts : (5,) int64, nodes, blocks, entries of child_of_value, leaves, depth of the deepest leaf.
    """

    links: NDArray[np.int32]
    test: Floats
    weights: Floats
    leaf: Floats
    stats: Floats
    child_of_value: NDArray[np.int32]
    values: NDArray[np.uint8]
    n_values: NDArray[np.int64]
    counts: NDArray[np.int64]


class Nodes(NamedTuple):
    """The arrays of HoeffdingTreeState with room to grow, as kernels take them."""

    links: NDArray[np.int32]
    test: Floats
    weights: Floats
    leaf: Floats
    stats: Floats
    child_of_value: NDArray[np.int32]
    counts: NDArray[np.int64]


class Settings(NamedTuple):
    """The parameters, as kernels take them. log_delta : log(1 / delta). max_depth : -1 for none."""

    grace_period: float
    log_delta: float
    tie_threshold: float
    min_branch_fraction: float
    criterion: int
    leaf_prediction: int
    n_split_points: int
    max_nodes: int
    max_depth: int
    binary_splits: bool


class HoeffdingTree(Learner):
    """Very fast decision tree (VFDT) with numeric and nominal features and naive Bayes in the leaves.

    Missing values (NaN) are left out by the observers; at a test they go to the child that was heaviest when the node
    was split. A nominal value without a branch gets one, an empty leaf, when it is learned; till then, and at the bound
    of memory, it goes the way of missing ones, as do codes outside the schema. A label outside 0 .. n_outputs - 1 and a
    weight that is not positive and finite teach nothing. A leaf whose classes all have likelihood 0 falls back on its
    class weights.

    Memory is bounded by `max_nodes` and the schema: a leaf has 5 numbers a class and numeric feature and 1 + V a class
    and nominal feature of V values, and about as much again in scratch that is not state. At the bound nothing splits
    any more; leaves go on learning. A split that would exceed it does not happen, though a smaller one might.

    Parameters
    ----------
    schema : Schema
        Task "classification".
    seed : int
        Not used: nothing is random.
    grace_period : int
        Weight that a leaf sees between two split attempts, >= 1.
    delta : float
        Probability, in (0, 1], that a decision differs from the one that infinite data would give.
    tie_threshold : float
        Hoeffding bound below which the best test is taken although another may be as good, >= 0.
    split_criterion : {"info-gain", "gini"}
    leaf_prediction : {"mc", "nb", "nba"}
        Majority class, naive Bayes, or in each leaf the one that has been correct more often there.
    n_split_points : int
        Thresholds tried a numeric feature, >= 1.
    binary_splits : bool
        Test nominal features for one value against the rest. False: one branch a value that the leaf saw.
    min_branch_fraction : float
        At least two branches of a test have more than this share of the weight, in [0, 0.5].
    max_nodes : int
        Bound on the number of nodes, >= 1.
    max_depth : int or None
        Leaves at this depth do not split (the root has depth 0).

    Notes
    -----
    The bound is sqrt(R^2 log(1 / delta) / 2n) with R = log2(classes in the leaf) bits for the information gain, 1 for
    Gini; n is the weight in the leaf with the estimate that it inherited, as in MOA: counting only what the leaf itself
    saw, as in the paper, costs 0.6 points on elec. The default delta is 1e-3: with 1e-7, the paper's, elec loses 2.8.

    References
    ----------
    P. Domingos and G. Hulten: Mining high-speed data streams. KDD 2000.
    G. Holmes, R. Kirkby and B. Pfahringer: Stress-testing Hoeffding trees. PKDD 2005.

    Examples
    --------
    >>> learner = HoeffdingTree(Schema((0, 2), 2, "classification"), grace_period=50)
    >>> x = np.random.default_rng(1).random((2000, 2)).round()
    >>> learner.learn_many(x, x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).tolist()
    [[0.0, 1.0]]
    """

    name = "hoeffding-tree"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        grace_period: int = 200,
        delta: float = 1e-3,
        tie_threshold: float = 0.05,
        split_criterion: str = "info-gain",
        leaf_prediction: str = "nba",
        n_split_points: int = 10,
        binary_splits: bool = False,
        min_branch_fraction: float = 0.01,
        max_nodes: int = 10_000,
        max_depth: int | None = None,
    ) -> None:
        super().__init__(schema, seed=seed)
        if schema.task != "classification":
            raise ValueError(f"hoeffding-tree does classification, the task is {schema.task!r}: choose another model")
        self._parameters = {
            "grace_period": int(grace_period),
            "delta": float(delta),
            "tie_threshold": float(tie_threshold),
            "split_criterion": split_criterion,
            "leaf_prediction": leaf_prediction,
            "n_split_points": int(n_split_points),
            "binary_splits": bool(binary_splits),
            "min_branch_fraction": float(min_branch_fraction),
            "max_nodes": int(max_nodes),
            "max_depth": None if max_depth is None else int(max_depth),
        }
        check_parameters(self.name, self._parameters)
        self._settings = settings_of(self._parameters)
        self._known = know_nothing(schema)
        k = schema.n_outputs
        self._nodes = Nodes(
            np.zeros((1, 8), np.int32),
            np.zeros(1),
            np.zeros((1, k)),
            np.zeros((1, 4)),
            np.zeros((1, lay_out(schema)[1])),
            np.zeros(0, np.int32),
            np.array([1, 1, 0, 1, 0], np.int64),
        )
        self._nodes.links[0, [TEST, PARENT]] = -1
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the schema and the size of the arrays, and is not state."""
        self._layout, _, width = lay_out(self.schema)
        n_blocks = len(self._nodes.stats)
        self._cache = Cache(np.zeros((n_blocks, width)), np.zeros(n_blocks, np.uint8))
        k = self.schema.n_outputs
        self._joint = np.zeros(k)
        self._post = np.zeros((max(2, *self.schema.n_values, 2) + 1, k))
        self._found = np.zeros(4)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        progress = np.array([0, -1, 0, 0, 0], np.int64)
        while (
            _run(
                program.op, program.row, program.y, program.w, slab, out, progress,
                self._nodes, self._known, self._cache, self._layout, self._settings,
                self._joint, self._post, self._found,
            ) == GROW
        ):  # fmt: skip
            self._grow(*(int(progress[i]) for i in (NEED_NODES, NEED_BLOCKS, NEED_MAPPED)))

    def _grow(self, n_nodes: int, n_blocks: int, n_mapped: int) -> None:
        """Room for so many nodes, blocks and entries of child_of_value; capacities double."""
        old = self._nodes
        self._nodes = Nodes(
            enlarge(old.links, n_nodes),
            enlarge(old.test, n_nodes),
            enlarge(old.weights, n_nodes),
            enlarge(old.leaf, n_nodes),
            enlarge(old.stats, n_blocks),
            enlarge(old.child_of_value, n_mapped),
            old.counts,
        )
        self._cache = Cache(enlarge(self._cache.rows, n_blocks), enlarge(self._cache.fresh, n_blocks))

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        old = self._nodes
        stats, self._known = transfer(old.stats, self._known, self.schema, schema)
        weights = np.zeros((len(old.weights), schema.n_outputs))
        weights[:, : self.schema.n_outputs] = old.weights
        self._nodes = old._replace(weights=weights, stats=stats)
        self.schema = schema
        self._prepare()

    def state(self) -> HoeffdingTreeState:
        nodes = self._nodes
        n_nodes, n_blocks, n_mapped = (int(nodes.counts[i]) for i in (N_NODES, N_BLOCKS, N_MAPPED))
        return HoeffdingTreeState(
            nodes.links[:n_nodes],
            nodes.test[:n_nodes],
            nodes.weights[:n_nodes],
            nodes.leaf[:n_nodes],
            nodes.stats[:n_blocks],
            nodes.child_of_value[:n_mapped],
            self._known.values,
            self._known.n_seen,
            nodes.counts,
        )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        fields = {
            name: np.array(state[name], dtype=array.dtype, order="C") for name, array in self._nodes._asdict().items()
        }
        self._nodes = Nodes(**fields)
        self._known = Known(np.array(state["values"], np.uint8), np.array(state["n_values"], np.int64))
        self._prepare()

    def describe(self) -> list[dict[str, Any]]:
        """Nodes, root first, parents before children. Inner nodes: "feature", and "threshold" (numeric), "equals"
        (binary nominal) or "children" (value -> id); "default" is the child of missing values. Leaves: "predictor".

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
            node: dict[str, Any] = {
                "id": i,
                "parent": None if link[PARENT] < 0 else link[PARENT],
                "depth": link[DEPTH],
                "weight": float(seen[i]),
                "value": weights[i].tolist(),
            }
            if link[TEST] < 0:
                node["predictor"] = self._predictor(i)
            else:
                node |= self._test(link, float(state.test[i]))
            nodes.append(node)
        return nodes

    def _predictor(self, node: int) -> str:
        if self._settings.leaf_prediction != NBA:
            return str(self._parameters["leaf_prediction"])
        leaf = self._nodes.leaf[node]
        return "mc" if leaf[MC_CORRECT] > leaf[NB_CORRECT] else "nb"

    def _test(self, link: list[int], value: float) -> dict[str, Any]:
        test: dict[str, Any] = {"feature": link[TEST], "default": link[DEFAULT]}
        if link[N_MAP]:
            children = self._nodes.child_of_value[link[MAP] : link[MAP] + link[N_MAP]].tolist()
            return test | {"children": {v: child for v, child in enumerate(children) if child >= 0}}
        if self.schema.n_values[link[TEST]]:
            return test | {"equals": int(value), "children": [link[FIRST], link[FIRST] + 1]}
        return test | {"threshold": value, "children": [link[FIRST], link[FIRST] + 1]}

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.state())

    def size(self) -> dict[str, int]:
        counts = self._nodes.counts
        return {"n_nodes": int(counts[N_NODES]), "n_leaves": int(counts[N_LEAVES]), "depth": int(counts[DEEPEST])}

    def parameters(self) -> dict[str, Any]:
        return dict(self._parameters)


def settings_of(p: dict[str, Any]) -> Settings:
    """The parameters that all Hoeffding trees share, for kernels."""
    return Settings(
        float(p["grace_period"]),
        math.log(1.0 / p["delta"]),
        p["tie_threshold"],
        p["min_branch_fraction"],
        CRITERIA[p["split_criterion"]],
        LEAF_PREDICTIONS[p["leaf_prediction"]],
        p["n_split_points"],
        p["max_nodes"],
        -1 if p["max_depth"] is None else p["max_depth"],
        p["binary_splits"],
    )


def check_parameters(name: str, p: dict[str, Any]) -> None:
    """ValueError with one sentence for a parameter out of range. name : of the model."""
    ranges = {
        "grace_period": (p["grace_period"] >= 1, "at least 1"),
        "delta": (0.0 < p["delta"] <= 1.0, "above 0 and at most 1"),
        "tie_threshold": (p["tie_threshold"] >= 0.0, "at least 0"),
        "split_criterion": (p["split_criterion"] in CRITERIA, f"one of {', '.join(CRITERIA)}"),
        "leaf_prediction": (p["leaf_prediction"] in LEAF_PREDICTIONS, f"one of {', '.join(LEAF_PREDICTIONS)}"),
        "n_split_points": (p["n_split_points"] >= 1, "at least 1"),
        "min_branch_fraction": (0.0 <= p["min_branch_fraction"] <= 0.5, "0 .. 0.5"),
        "max_nodes": (p["max_nodes"] >= 1, "at least 1"),
        "max_depth": (p["max_depth"] is None or p["max_depth"] >= 0, "at least 0, or left out"),
    }
    for parameter, (valid, expected) in ranges.items():
        if not valid:
            raise ValueError(f"parameter {parameter!r} of model {name!r} is {p[parameter]!r}: give {expected}")


def enlarge(array: NDArray[Any], needed: int) -> NDArray[Any]:
    """`array`, or a copy with room for `needed` rows, zero beyond what was there."""
    if needed <= len(array):
        return array
    larger = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@kernel(inline=True)
def _route(links, test, child_of_value, n_values, x, r, node):
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
def _route_known(links, test, child_of_value, n_values, x, r, node):
    """From `node`, which has no branch for its nominal value, on to a leaf: such values go the way of missing ones."""
    while links[node, TEST] >= 0:
        node = _route(links, test, child_of_value, n_values, x, r, links[node, DEFAULT])
    return node


@kernel
def _try_branch(node, value, nodes, progress):
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


@kernel
def _try_split(node, nodes, cache, layout, settings, post, found, progress):
    """Split leaf `node` if the bound allows it. GROW, with nothing changed, where there is no room for its children.

    Mutates nodes, cache, progress and scratch. O(d (n_split_points or V) n_outputs).
    """
    links = nodes.links
    block = links[node, BLOCK]
    n_classes = nodes.weights.shape[1]
    seen = nodes.leaf[node, SEEN]
    n_present = 0
    total = 0.0
    for c in range(n_classes):
        total += nodes.weights[node, c]
        if nodes.weights[node, c] > 0.0:
            n_present += 1
    if n_present < 2:
        return DONE
    best_split(
        nodes.stats, layout, block, n_classes, seen, settings.n_split_points, settings.binary_splits,
        settings.criterion, settings.min_branch_fraction, post, found,
    )  # fmt: skip
    if found[FEATURE] < 0.0:
        return DONE
    span = 1.0 if settings.criterion == GINI else math.log(n_present) / math.log(2.0)
    bound = math.sqrt(span * span * settings.log_delta / (2.0 * total))
    if not (found[MERIT] - found[SECOND] > bound or bound < settings.tie_threshold):
        return DONE

    feature = int(found[FEATURE])
    n_branches = branch(nodes.stats, layout, block, n_classes, feature, found[VALUE], settings.binary_splits, post)
    mapped = layout.n_values[feature] > 0 and not settings.binary_splits
    n_children = 0
    n_map = 0
    default = 0
    most = -1.0
    for j in range(n_branches):
        weight = 0.0
        for c in range(n_classes):
            weight += post[j, c]
        if mapped and weight == 0.0:
            continue
        if weight > most:
            most = weight
            default = n_children
        if mapped:
            n_map = j + 1
            for c in range(n_classes):  # in place: n_children <= j
                post[n_children, c] = post[j, c]
        n_children += 1
    n_nodes = nodes.counts[N_NODES]
    n_blocks = nodes.counts[N_BLOCKS]
    n_mapped = nodes.counts[N_MAPPED]
    if n_nodes + n_children > settings.max_nodes:
        return DONE
    progress[NEED_NODES] = n_nodes + n_children
    progress[NEED_BLOCKS] = n_blocks + n_children - 1
    progress[NEED_MAPPED] = n_mapped + n_map
    if (
        progress[NEED_NODES] > len(links)
        or progress[NEED_BLOCKS] > len(nodes.stats)
        or progress[NEED_MAPPED] > len(nodes.child_of_value)
    ):
        return GROW

    links[node, TEST] = feature
    links[node, FIRST] = n_nodes
    links[node, DEFAULT] = n_nodes + default
    links[node, MAP] = n_mapped if mapped else 0
    links[node, N_MAP] = n_map
    links[node, BLOCK] = -1
    nodes.test[node] = 0.0 if mapped else found[VALUE]
    child = n_nodes
    i = np.int64(layout.offset[feature])
    for v in range(n_map):
        weight = 0.0
        for c in range(n_classes):
            weight += nodes.stats[block, i + (1 + v) * n_classes + c]
        nodes.child_of_value[n_mapped + v] = child if weight > 0.0 else -1
        if weight > 0.0:
            child += 1
    for j in range(n_children):
        child = n_nodes + j
        for c in range(n_classes):
            nodes.weights[child, c] = post[j, c]
        links[child, TEST] = -1
        links[child, PARENT] = node
        links[child, DEPTH] = links[node, DEPTH] + 1
        links[child, BLOCK] = block if j == 0 else n_blocks + j - 1
    nodes.stats[block, :] = 0.0
    cache.fresh[block] = 0
    nodes.counts[N_NODES] = n_nodes + n_children
    nodes.counts[N_BLOCKS] = n_blocks + n_children - 1
    nodes.counts[N_MAPPED] = n_mapped + n_map
    nodes.counts[N_LEAVES] += n_children - 1
    nodes.counts[DEEPEST] = max(nodes.counts[DEEPEST], links[node, DEPTH] + 1)
    return DONE


@kernel
def _run(op, row, y, w, slab, out, progress, nodes, known, cache, layout, settings, joint, post, found):
    """Execute a program from progress[NEXT] on. Mutates out, progress, nodes, known, cache and scratch.

    GROW: the leaf progress[WAITING] has learned and now splits, but lacks room for its children: nothing of the split
    has happened; make room and call again. Or no leaf waits, and the next operation needs room for a branch.
    O(depth + d n_outputs) an operation, a split attempt once in a grace period.
    """
    # Callees get the arrays they need, not the tuples: an argument list of 100 words costs 100 ns a call.
    links, test, weights, leaf, stats, child_of_value, counts = nodes
    n_values = layout.n_values
    n_seen = known.n_seen
    cached, fresh = cache
    n_classes = weights.shape[1]
    if progress[WAITING] >= 0:
        if _try_split(progress[WAITING], nodes, cache, layout, settings, post, found, progress) == GROW:
            return GROW
        progress[WAITING] = -1
    # The leaf and naive Bayes class of the row predicted last, while nothing was learned since.
    last_row = -1
    last_node = 0
    last_best = -1
    last_scored = False
    for i in range(progress[NEXT], len(op)):
        r = row[i]
        if op[i] == PREDICT:
            node = _route(links, test, child_of_value, n_values, slab, r, 0)
            last_row = r
            if links[node, TEST] >= 0:
                node = _route_known(links, test, child_of_value, n_values, slab, r, node)
                last_row = -1  # learning it may open a branch
            last_node = node
            last_scored = False
            best = -1
            if settings.leaf_prediction == NB or (
                settings.leaf_prediction == NBA and not leaf[node, MC_CORRECT] > leaf[node, NB_CORRECT]
            ):
                block = links[node, BLOCK]
                if fresh[block] == 0:
                    refresh(stats[block], cached[block], n_seen, layout, weights[node])
                    fresh[block] = 1
                if n_classes == 2:
                    best = score_two(cached[block], n_values, layout.cached, slab, r, joint)
                else:
                    best = score(cached[block], n_values, layout.cached, slab, r, joint)
                last_best = best
                last_scored = True
            if best >= 0:
                write_joint(joint, best, out, r)
            else:
                write_weights(weights[node], out, r)
            continue
        if not (y[i] >= 0.0 and y[i] < n_classes and w[i] > 0.0 and w[i] < np.inf):
            continue
        c = int(y[i])
        if last_row == r:
            node = last_node
        else:
            last_scored = False
            node = _route(links, test, child_of_value, n_values, slab, r, 0)
            if links[node, TEST] >= 0 and counts[N_NODES] < settings.max_nodes:
                if _try_branch(node, int(slab[r, links[node, TEST]]), nodes, progress) == GROW:
                    progress[NEXT] = i
                    return GROW
                node = counts[N_NODES] - 1
            elif links[node, TEST] >= 0:
                node = _route_known(links, test, child_of_value, n_values, slab, r, node)
        last_row = -1
        block = links[node, BLOCK]
        if settings.leaf_prediction == NBA:
            majority = heaviest(weights[node])
            best = last_best
            if not last_scored:
                if fresh[block] == 0:
                    refresh(stats[block], cached[block], n_seen, layout, weights[node])
                    fresh[block] = 1
                if n_classes == 2:
                    best = score_two(cached[block], n_values, layout.cached, slab, r, joint)
                else:
                    best = score(cached[block], n_values, layout.cached, slab, r, joint)
            if best < 0:
                best = majority
            if majority == c:
                leaf[node, MC_CORRECT] += w[i]
            if best == c:
                leaf[node, NB_CORRECT] += w[i]
        weights[node, c] += w[i]
        leaf[node, SEEN] += w[i]
        if observe(
            stats[block], cached[block], fresh[block] == 1, known, layout, n_classes, slab, r, c, w[i], weights[node, c]
        ):
            fresh[:] = 0
        seen = leaf[node, SEEN]
        if seen - leaf[node, EVALUATED] >= settings.grace_period:
            leaf[node, EVALUATED] = seen
            if settings.max_depth >= 0 and links[node, DEPTH] >= settings.max_depth:
                continue
            if counts[N_NODES] + 2 > settings.max_nodes:
                continue
            if _try_split(node, nodes, cache, layout, settings, post, found, progress) == GROW:
                progress[WAITING] = node
                progress[NEXT] = i + 1
                return GROW
    return DONE
