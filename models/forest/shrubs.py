"""Shrub ensembles: small trees on a sliding window, weighted by stochastic proximal gradient.

Buschjäger, Hess and Morik 2022, Algorithm 1. With each label the oldest item of the window goes, a new tree is grown on
the window and enters with weight 0; `burn_in` + 1 proximal gradient steps on the loss over the window decide whose
weight falls to 0: that tree goes. At most `n_trees` stay.

For the squared error a gradient step needs only products of the members' predictions, summed over the window (the
Gram matrix), and of predictions and labels: both are kept up to date as items come and go, so a step costs n_trees^2
whatever the window is. They are summed anew each time the window has been filled once more, so rounding does not pile
up.

Trees and window: models.forest.cart. The members are in the order of their age, the oldest first.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import PREDICT, Floats, Learner, Program, Schema
from models.forest.cart import (
    LEAVES,
    NODES,
    Scratch,
    Trees,
    grow,
    leaf_in,
    leaf_of,
    most_nodes,
    room_for_trees,
    room_to_grow,
)
from models.forest.simplex import project
from models.kernel import kernel
from models.observers import check_growth
from models.streams.randomness import seeded, uniform

MSE, CROSS_ENTROPY = 0, 1
LOSSES = {"mse": MSE, "cross-entropy": CROSS_ENTROPY}
LEAST_PROBABILITY = 0.01  # below it the gradient of the cross-entropy is that at this probability
LEAST_WEIGHT = 1e-12  # what rounding leaves of 0 in the projection

# Places in `counts`.
LEARNED, FILLED, HEAD, MEMBERS = range(4)


class ShrubEnsembleState(NamedTuple):
    """Everything the ensemble knows. m: members, the oldest first; b: items in the window.

    x : (b, d) float64, missing values as infinity; y, w : (b,) float64: the window as a ring.
    weights : (m,) float64. sizes : (m, 2) int32, nodes and leaves. features, left : int32, values : float64, of the
    nodes of all members, one after the other. leaves : (leaves, n_outputs) float64.
    gram, together : (m, m) float64, sums over the window of products of predictions, and of the weights of these items.
    labels, alone : (m,) float64, the same of products with the label, and of the weights.
    masks : (m, b) uint8, 1 where an item judges a member, or (m, 0) where all do.
    counts : (4,) int64, labels learned, items in the window, the ring's next place, members. random : (4,) uint64.
    """

    x: Floats
    y: Floats
    w: Floats
    weights: Floats
    sizes: NDArray[np.int32]
    features: NDArray[np.int32]
    left: NDArray[np.int32]
    values: Floats
    leaves: Floats
    gram: Floats
    together: Floats
    labels: Floats
    alone: Floats
    masks: NDArray[np.uint8]
    counts: NDArray[np.int64]
    random: NDArray[np.uint64]


class Window(NamedTuple):
    """columns : (d, size). y, w : (size,). order : (d, size) int32, items by value, -1 beyond. chosen : (size,) uint8,
    scratch: the items that a tree grows on."""

    columns: Floats
    y: Floats
    w: Floats
    order: NDArray[np.int32]
    chosen: NDArray[np.uint8]


class Members(NamedTuple):
    """slots : (n_trees + 1,) int32, the tree of each member, then the free ones. weights : of the members. said :
    (slots, size, n_outputs), predictions for the window. masks : (slots, size) uint8, 1 where an item judges.

    gram, together : (slots, slots). labels, alone : (slots,). order, gradient : scratch.
    """

    slots: NDArray[np.int32]
    weights: Floats
    said: Floats
    masks: NDArray[np.uint8]
    gram: Floats
    together: Floats
    labels: Floats
    alone: Floats
    order: NDArray[np.int32]
    gradient: Floats


class Settings(NamedTuple):
    """The parameters, as kernels take them. n_tried : features tried a node."""

    n_trees: int
    max_depth: int
    every: int
    step: float
    burn_in: int
    ridge: float
    loss: int
    train_share: float
    n_tried: int
    best_splits: bool
    equal_weights: bool
    classes: bool


class ShrubEnsemble(Learner):
    """Shrub ensemble for classification and regression.

    Missing values (NaN) go to the right child of a test, and whether a value is known is a test as well. Nominal
    features are tested for one value against the rest. A label outside 0 .. n_outputs - 1 and a weight that is not
    positive and finite teach nothing. Weights count as repetitions, in trees and in the loss.

    Memory is bounded by window and n_trees: a tree has at most 2 window - 1 nodes. Nothing happens at the bound: the
    oldest item and the tree of least weight always make room.

    Parameters
    ----------
    schema : Schema
    seed : int
        Of random tests, sampled features and sampled items.
    n_trees : int
        Most trees with a weight above 0 (M), >= 1.
    window : int
        Items that trees grow on and are judged by (B), >= 2.
    max_depth : int
        Of a tree, >= 1; from window - 1 on it is no limit.
    every : int
        A new tree with each such label, >= 1.
    step : float
        Of the gradient (alpha), > 0.
    burn_in : int
        Further gradient steps with each new tree, >= 0.
    ridge : float
        Factor of the squared weights in the objective, >= 0.
    loss : {"mse", "cross-entropy"}
        Classification: of the class probabilities. Regression: the squared error in units of the window's variance.
    splits : {"best", "random"}
        The best threshold of a feature, or one drawn at random.
    max_features : {"all", "sqrt"}
        Features tried a node.
    train_share : float
        Share of the window that a tree grows on, in (0, 1]; below 1 it is judged by the others alone, and by those that
        come later.
    weighting : {"learned", "equal"}
        Equal: the newest n_trees trees with equal weights, the baseline.

    Notes
    -----
    The gradient is that of the mean over the window and the classes: 2 (G w - b) / C, so that one item moves a weight
    by alpha / (B C) at most, as in the paper's Theorem 1. Weights are pruned once, after the last step. With
    train_share below 1 each entry of the Gram matrix is a mean over the items that judge both members.

    References
    ----------
    S. Buschjäger, S. Hess and K. Morik: Shrub ensembles for online classification. AAAI 2022.

    Examples
    --------
    >>> learner = ShrubEnsemble(Schema((0, 0), 2, "classification"), window=64)
    >>> x = np.random.default_rng(1).random((500, 2))
    >>> learner.learn_many(x, (x[:, 1] > 0.5).astype(float))
    >>> learner.predict_many([[0.3, 0.9]]).argmax()
    1
    """

    name = "shrub-ensemble"

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_trees: int = 16,
        window: int = 256,
        max_depth: int = 8,
        every: int = 1,
        step: float = 1.0,
        burn_in: int = 5,
        ridge: float = 0.0,
        loss: str = "mse",
        splits: str = "random",
        max_features: str = "all",
        train_share: float = 1.0,
        weighting: str = "learned",
    ) -> None:
        super().__init__(schema, seed=seed)
        if loss not in LOSSES:
            raise ValueError(f"loss is {loss!r}: use one of {', '.join(LOSSES)}")
        if loss == "cross-entropy" and schema.task == "regression":
            raise ValueError("loss is 'cross-entropy' and the task regression: use 'mse'")
        self._parameters: dict[str, Any] = {
            "n_trees": int(n_trees),
            "window": int(window),
            "max_depth": int(max_depth),
            "every": int(every),
            "step": float(step),
            "burn_in": int(burn_in),
            "ridge": float(ridge),
            "loss": loss,
            "splits": splits,
            "max_features": max_features,
            "train_share": float(train_share),
            "weighting": weighting,
        }
        tried = schema.n_features if max_features == "all" else int(np.ceil(np.sqrt(schema.n_features)))
        self._settings = Settings(
            int(n_trees),
            int(max_depth),
            int(every),
            float(step),
            int(burn_in),
            float(ridge),
            LOSSES[loss],
            float(train_share),
            tried,
            splits == "best",
            weighting == "equal",
            schema.task == "classification",
        )
        self._counts = np.zeros(4, np.int64)
        self._random = seeded(seed)
        self._allot()

    def _allot(self) -> None:
        """Empty arrays of the sizes that parameters and schema ask for."""
        d, k, size = self.schema.n_features, self.schema.n_outputs, self._parameters["window"]
        slots = self._settings.n_trees + 1
        n_nodes = most_nodes(size, self._parameters["max_depth"])
        self._n_values = np.array(self.schema.n_values, np.int32)
        self._window = Window(
            np.zeros((d, size)),
            np.zeros(size),
            np.zeros(size),
            np.full((d, size), -1, np.int32),
            np.zeros(size, np.uint8),
        )
        self._trees: Trees = room_for_trees(slots, n_nodes, k)
        self._members = Members(
            np.arange(slots, dtype=np.int32),
            np.zeros(slots),
            np.zeros((slots, size, k)),
            np.zeros((slots, size), np.uint8),
            np.zeros((slots, slots)),
            np.zeros((slots, slots)),
            np.zeros(slots),
            np.zeros(slots),
            np.zeros(slots, np.int32),
            np.zeros(slots),
        )
        self._scratch: Scratch = room_to_grow(d, size, n_nodes, k)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(
            program.op, program.row, program.y, program.w, slab, out, self._counts, self._random,
            self._window, self._trees, self._members, self._scratch, self._n_values, self._settings,
        )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        state = self.state()
        leaves = np.zeros((len(state.leaves), schema.n_outputs))
        leaves[:, : self.schema.n_outputs] = state.leaves
        self.schema = schema
        self.restore(state._replace(leaves=leaves)._asdict())

    def state(self) -> ShrubEnsembleState:
        n, m = int(self._counts[FILLED]), int(self._counts[MEMBERS])
        window, trees, members = self._window, self._trees, self._members
        slots = members.slots[:m]
        sizes = trees.sizes[slots]

        def nodes(array: NDArray[Any], place: int) -> NDArray[Any]:
            parts = [array[slot, : int(size[place])] for slot, size in zip(slots, sizes, strict=True)]
            return np.concatenate([array[0, :0], *parts])

        return ShrubEnsembleState(
            np.ascontiguousarray(window.columns[:, :n].T),
            window.y[:n],
            window.w[:n],
            members.weights[:m],
            sizes,
            nodes(trees.feature, NODES),
            nodes(trees.left, NODES),
            nodes(trees.value, NODES),
            nodes(trees.values, LEAVES),
            members.gram[np.ix_(slots, slots)],
            members.together[np.ix_(slots, slots)],
            members.labels[slots],
            members.alone[slots],
            np.ascontiguousarray(members.masks[slots, : n if self._settings.train_share < 1.0 else 0]),
            self._counts,
            self._random,
        )

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._allot()
        self._counts = np.array(state["counts"], np.int64)
        self._random = np.array(state["random"], np.uint64)
        n, m = int(self._counts[FILLED]), int(self._counts[MEMBERS])
        window, trees, members = self._window, self._trees, self._members
        window.columns[:, :n] = state["x"].T
        window.y[:n], window.w[:n] = state["y"], state["w"]
        for f, column in enumerate(window.columns[:, :n]):
            window.order[f, :n] = np.argsort(column, kind="stable")
        trees.sizes[:m] = state["sizes"]
        node = leaf = 0
        for slot, (n_nodes, n_leaves) in enumerate(state["sizes"].tolist()):
            trees.feature[slot, :n_nodes] = state["features"][node : node + n_nodes]
            trees.left[slot, :n_nodes] = state["left"][node : node + n_nodes]
            trees.value[slot, :n_nodes] = state["values"][node : node + n_nodes]
            trees.values[slot, :n_leaves] = state["leaves"][leaf : leaf + n_leaves]
            node, leaf = node + n_nodes, leaf + n_leaves
        members.weights[:m] = state["weights"]
        members.gram[:m, :m], members.together[:m, :m] = state["gram"], state["together"]
        members.labels[:m], members.alone[:m] = state["labels"], state["alone"]
        members.masks[:m, :n] = state["masks"] if self._settings.train_share < 1.0 else 1
        _say_again(window, trees, members, self._n_values, n, m)

    def describe(self) -> list[dict[str, Any]]:
        """The ensemble, then each tree, root first. Trees: "share" is the weight in the vote. Nodes as in a Hoeffding
        tree; "weight" is that of the items in the window that reach a node, "value" of an inner node their mean."""
        n, m = int(self._counts[FILLED]), int(self._counts[MEMBERS])
        nodes: list[dict[str, Any]] = [
            {
                "id": 0,
                "parent": None,
                "depth": 0,
                "weight": float(self._window.w[:n].sum()),
                "value": [],
                "part": "ensemble",
            }
        ]
        for member in range(m):
            nodes += self._describe_tree(
                int(self._members.slots[member]), float(self._members.weights[member]), len(nodes)
            )
        return nodes

    def _describe_tree(self, slot: int, share: float, first: int) -> list[dict[str, Any]]:
        trees, window, n = self._trees, self._window, int(self._counts[FILLED])
        nodes: list[dict[str, Any]] = []
        waiting: list[tuple[int, int, int, NDArray[np.bool_]]] = [(0, 0, 1, np.ones(n, bool))]
        ids: dict[int, int] = {}
        while waiting:
            node, parent, depth, here = waiting.pop(0)
            ids[node] = first + len(nodes)
            feature, value, left = (
                int(trees.feature[slot, node]),
                float(trees.value[slot, node]),
                int(trees.left[slot, node]),
            )
            weight = window.w[:n] * here
            told: dict[str, Any] = {"id": ids[node], "parent": parent, "depth": depth, "weight": float(weight.sum())}
            if node == 0:
                told |= {"part": "tree", "share": share}
            if feature < 0:
                told |= {"value": trees.values[slot, left].tolist(), "predictor": "shares"}
            else:
                nominal = self._n_values[feature] > 0
                column = window.columns[feature, :n]
                goes = column == value if nominal else column <= value
                told |= {"value": self._mean(weight), "feature": feature}
                told |= {"equals": int(value)} if nominal else {"threshold": value}
                queued = first + len(nodes) + len(waiting) + 1
                told |= {"children": [queued, queued + 1], "default": queued + 1}
                waiting += [(left, ids[node], depth + 1, here & goes), (left + 1, ids[node], depth + 1, here & ~goes)]
            nodes.append(told)
        return nodes

    def _mean(self, weight: Floats) -> list[float]:
        """Class shares, or mean target, of the window's items by these weights."""
        y, total = self._window.y[: len(weight)], weight.sum()
        if not self._settings.classes:
            return [float(weight @ y / total) if total else 0.0]
        counts = np.bincount(y.astype(np.int64), weight, self.schema.n_outputs)
        shares: list[float] = (counts / total if total else counts).tolist()
        return shares

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.state())

    def size(self) -> dict[str, int]:
        m = int(self._counts[MEMBERS])
        sizes = self._trees.sizes[self._members.slots[:m]]
        return {"n_nodes": int(sizes[:, NODES].sum()), "n_leaves": int(sizes[:, LEAVES].sum()), "depth": 0}

    def parameters(self) -> dict[str, Any]:
        return dict(self._parameters)


@kernel
def _say_again(window, trees, members, n_values, n, m):
    """Predictions of all members for the whole window, after a restore. Mutates members.said."""
    for j in range(m):
        slot = members.slots[j]
        for i in range(n):
            leaf = leaf_in(trees, slot, n_values, window.columns, i)
            for c in range(trees.values.shape[2]):
                members.said[slot, i, c] = trees.values[slot, leaf, c]


@kernel(inline=True)
def _weigh_item(i, sign, window, members, m, classes):
    """Add item i of the window to the sums of all members (sign 1), or take it out (-1). Mutates members. O(m^2 C)."""
    n_outputs = members.said.shape[2]
    weight = sign * window.w[i]
    for j in range(m):
        a = members.slots[j]
        if members.masks[a, i] == 0:
            continue
        if classes:
            members.labels[a] += weight * members.said[a, i, np.int64(window.y[i])]
        else:
            members.labels[a] += weight * members.said[a, i, 0] * window.y[i]
        members.alone[a] += weight
        for l in range(j + 1):
            b = members.slots[l]
            if members.masks[b, i] == 0:
                continue
            product = 0.0
            for c in range(n_outputs):
                product += members.said[a, i, c] * members.said[b, i, c]
            members.gram[a, b] += weight * product
            members.together[a, b] += weight
            if a != b:
                members.gram[b, a] = members.gram[a, b]
                members.together[b, a] = members.together[a, b]


@kernel
def _weigh_all(n, window, members, m, classes):
    """The sums of all members over the whole window, anew. Mutates members. O(n m^2 C)."""
    for j in range(m):
        a = members.slots[j]
        members.labels[a] = 0.0
        members.alone[a] = 0.0
        for l in range(m):
            members.gram[a, members.slots[l]] = 0.0
            members.together[a, members.slots[l]] = 0.0
    for i in range(n):
        _weigh_item(i, 1.0, window, members, m, classes)


@kernel
def _weigh_newest(n, window, members, m, classes):
    """The sums of the newest member with all. Mutates members. O(n m C)."""
    n_outputs = members.said.shape[2]
    a = members.slots[m - 1]
    members.labels[a] = 0.0
    members.alone[a] = 0.0
    for i in range(n):
        if members.masks[a, i]:
            if classes:
                members.labels[a] += window.w[i] * members.said[a, i, np.int64(window.y[i])]
            else:
                members.labels[a] += window.w[i] * members.said[a, i, 0] * window.y[i]
            members.alone[a] += window.w[i]
    for l in range(m):
        b = members.slots[l]
        total = 0.0
        weight = 0.0
        for i in range(n):
            if members.masks[a, i] and members.masks[b, i]:
                product = 0.0
                for c in range(n_outputs):
                    product += members.said[a, i, c] * members.said[b, i, c]
                total += window.w[i] * product
                weight += window.w[i]
        members.gram[a, b] = total
        members.gram[b, a] = total
        members.together[a, b] = weight
        members.together[b, a] = weight


@kernel
def _take_in(x, r, y, w, counts, window, members, classes):
    """Put an item in the place of the oldest, and keep orders and sums. Mutates counts, window, members. O(d size)."""
    d, size = window.columns.shape
    i = counts[HEAD]
    full = counts[FILLED] == size
    if full:
        _weigh_item(i, -1.0, window, members, counts[MEMBERS], classes)
    n = counts[FILLED] - 1 if full else counts[FILLED]
    for f in range(d):
        order = window.order[f]
        if full:
            found = False
            for k in range(n):
                found = found or order[k] == i
                if found:
                    order[k] = order[k + 1]
        value = x[r, f]
        if value - value != 0.0:
            value = np.inf
        window.columns[f, i] = value
        k = n
        while k > 0:
            there = window.columns[f, order[k - 1]]
            if there < value or (there == value and order[k - 1] < i):
                break
            order[k] = order[k - 1]
            k -= 1
        order[k] = i
    window.y[i] = y
    window.w[i] = w
    counts[HEAD] = (i + 1) % size
    counts[FILLED] = n + 1
    return i


@kernel
def _descend(n, window, members, m, settings, scale):
    """One proximal gradient step. Mutates members.weights. MSE: O(m^2); cross-entropy: O(n m C)."""
    gradient = members.gradient
    n_outputs = members.said.shape[2]
    if settings.loss == MSE:
        for j in range(m):
            a = members.slots[j]
            total = 0.0
            for l in range(m):
                b = members.slots[l]
                if members.together[a, b] > 0.0:
                    total += members.weights[l] * members.gram[a, b] / members.together[a, b]
            if members.alone[a] > 0.0:
                total -= members.labels[a] / members.alone[a]
            gradient[j] = 2.0 * total / (n_outputs * scale)
    else:
        gradient[:m] = 0.0
        weight = 0.0
        for i in range(n):
            c = np.int64(window.y[i])
            p = 0.0
            for j in range(m):
                if members.masks[members.slots[j], i]:
                    p += members.weights[j] * members.said[members.slots[j], i, c]
            p = max(p, LEAST_PROBABILITY)
            weight += window.w[i]
            for j in range(m):
                if members.masks[members.slots[j], i]:
                    gradient[j] -= window.w[i] * members.said[members.slots[j], i, c] / p
        for j in range(m):
            gradient[j] /= weight * n_outputs
    for j in range(m):
        members.weights[j] -= settings.step * (gradient[j] + 2.0 * settings.ridge * members.weights[j])
    project(members.weights, m, settings.n_trees, members.order)


@kernel
def _spread(n, y, w):
    """Variance of the targets in the window; 1 where there is none."""
    total = 0.0
    mean = 0.0
    squares = 0.0
    for i in range(n):
        total += w[i]
        step = y[i] - mean
        mean += step * w[i] / total
        squares += w[i] * step * (y[i] - mean)
    return squares / total if squares > 0.0 else 1.0


@kernel
def _forget(members, m, gone):
    """Take member `gone` out; its slot is free. Mutates members."""
    slot = members.slots[gone]
    for j in range(gone, m - 1):
        members.slots[j] = members.slots[j + 1]
        members.weights[j] = members.weights[j + 1]
    members.slots[m - 1] = slot
    members.weights[m - 1] = 0.0


@kernel
def _enrol(counts, random, window, trees, members, scratch, n_values, settings):
    """Grow a tree on the window, weigh all members anew, and prune. Mutates everything but n_values."""
    n = counts[FILLED]
    m = counts[MEMBERS]
    slot = members.slots[m]
    n_chosen = 0
    for i in range(n):
        if settings.train_share < 1.0 and uniform(random) >= settings.train_share:
            window.chosen[i] = 0
        else:
            window.chosen[i] = 1
            n_chosen += 1
    judged = settings.train_share < 1.0 and 0 < n_chosen < n
    if not judged:
        window.chosen[:n] = 1
        n_chosen = n
    grow(
        trees, slot, window.columns, window.y, window.w, n_values, window.order, window.chosen, n_chosen,
        settings.n_tried, settings.best_splits, settings.classes, settings.max_depth, random, scratch,
    )  # fmt: skip
    for i in range(n):
        leaf = leaf_in(trees, slot, n_values, window.columns, i)
        for c in range(trees.values.shape[2]):
            members.said[slot, i, c] = trees.values[slot, leaf, c]
        members.masks[slot, i] = 0 if judged and window.chosen[i] else 1
    m += 1
    if settings.equal_weights:
        if m > settings.n_trees:
            _forget(members, m, 0)
            m -= 1
        members.weights[:m] = 1.0 / m
        counts[MEMBERS] = m
        return
    members.weights[m - 1] = 0.0
    _weigh_newest(n, window, members, m, settings.classes)
    scale = 1.0 if settings.classes else _spread(n, window.y, window.w)
    for _ in range(settings.burn_in + 1):
        _descend(n, window, members, m, settings, scale)
    for j in range(m - 1, -1, -1):
        if not members.weights[j] > LEAST_WEIGHT:
            _forget(members, m, j)
            m -= 1
    counts[MEMBERS] = m


@kernel
def _run(op, row, y, w, slab, out, counts, random, window, trees, members, scratch, n_values, settings):
    """Execute a program. Mutates out and all state."""
    n_outputs = trees.values.shape[2]
    size = window.columns.shape[1]
    for step in range(len(op)):
        r = row[step]
        if op[step] == PREDICT:
            out[r, :] = 0.0
            for j in range(counts[MEMBERS]):
                slot = members.slots[j]
                leaf = leaf_of(trees, slot, n_values, slab, r)
                for c in range(n_outputs):
                    out[r, c] += members.weights[j] * trees.values[slot, leaf, c]
            continue
        if not (w[step] > 0.0 and w[step] < np.inf):
            continue
        if settings.classes:
            if not (y[step] >= 0.0 and y[step] < n_outputs):
                continue
        elif y[step] - y[step] != 0.0:
            continue
        i = _take_in(slab, r, y[step], w[step], counts, window, members, settings.classes)
        for j in range(counts[MEMBERS]):
            slot = members.slots[j]
            leaf = leaf_in(trees, slot, n_values, window.columns, i)
            for c in range(n_outputs):
                members.said[slot, i, c] = trees.values[slot, leaf, c]
            members.masks[slot, i] = 1
        counts[LEARNED] += 1
        if not settings.equal_weights:
            if counts[LEARNED] % size == 0:
                _weigh_all(counts[FILLED], window, members, counts[MEMBERS], settings.classes)
            else:
                _weigh_item(i, 1.0, window, members, counts[MEMBERS], settings.classes)
        if counts[LEARNED] % settings.every == 0:
            _enrol(counts, random, window, trees, members, scratch, n_values, settings)
