"""Online isolation forest: how soon random cuts of the last window set an instance apart (Leveni et al. 2024).

A tree counts the window's instances in boxes. A box that has as many as its depth asks for is cut in two along a random
feature. Where its instances lie within it is not kept: as many are drawn evenly from it to estimate what either half
begins with. The instance that leaves the window is taken out again, and a cut whose box has too few for it is undone.

Nodes lie level by level, as in a heap: 2 i + 1 and 2 i + 2 are the children of i. A node that is not in use is empty,
so what the arrays hold follows from what was learned.
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.anomaly.entries import ONLINE_ISOLATION_FOREST
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.kernels.draws import key, uniform_at
from riparian.models.kernels.elementary import LN_2, log, power
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout

LEAF = -1  # in `features`
LOW, HIGH = 0, 1


class OnlineIsolationState(NamedTuple):
    """Everything that the learner knows.

    keys : (n_trees,) uint64, of the draws of each tree.
    draws : (n_trees,) int64, how many a tree has made.
    features : (n_trees, nodes) int32, of the cut; LEAF.
    cuts : (n_trees, nodes) float64, what is below goes left.
    heights : (n_trees, nodes) int64, instances; drawn ones may not be where those were that leave, so a half can go
        below zero.
    boxes : (n_trees, nodes, 2, d) float64, least and greatest known value; inf and -inf of none.
    last : (window, d) float64, the instances of the window, each at its number modulo the window.
    counts : (1,) int64, instances learned.
    """

    keys: NDArray[np.uint64]
    draws: NDArray[np.int64]
    features: NDArray[np.int32]
    cuts: Floats
    heights: NDArray[np.int64]
    boxes: Floats
    last: Floats
    counts: NDArray[np.int64]


class _Scratch(NamedTuple):
    """x : (d,), an instance as a tree sees it. points : (window + 1, d). ends : (nodes, 2), of a node's points. path :
    (depth + 1,)."""

    x: Floats
    points: Floats
    ends: NDArray[np.int64]
    path: NDArray[np.int64]


class OnlineIsolationForest(Learner):
    """Online isolation forest.

    A score is 2^(-E / c): E is the mean depth of the leaves that an instance comes to, each deeper by log4(height /
    leaf_size) where that is above 0; c is log4(instances in the window / leaf_size). It is NaN until the window has
    more than leaf_size instances. Labels are not looked at, and a weight above 0 counts once.

    A missing value is in no box and goes to the upper half of a cut; nominal values lie at random places between 0 and
    1, others in each tree. Features with one value in a box are not cut there. Memory is bounded by the parameters: a
    tree has fewer than 4 sqrt((window + 1) / leaf_size) nodes of 16 d + 20 bytes, and one window is kept.

    Examples
    --------
    >>> learner = OnlineIsolationForest(Schema((0,), 1, "anomaly"), window=40, leaf_size=4)
    >>> learner.learn_many([[float(i % 5)] for i in range(40)], [np.nan] * 40)
    >>> near, far = learner.predict_many([[2.0], [90.0]])[:, 0]
    >>> bool(near < far)
    True
    """

    entry = ONLINE_ISOLATION_FOREST
    layout: ClassVar[StateLayout] = StateLayout(places={"features": "features"})

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        m, window, leaf_size = (self._parameters[name] for name in ("n_trees", "window", "leaf_size"))
        depth = 0
        while leaf_size << (2 * depth) < window + 1:
            depth += 1
        nodes, d = (2 << depth) - 1, schema.n_features
        boxes = np.empty((m, nodes, 2, d))
        boxes[:, :, LOW], boxes[:, :, HIGH] = np.inf, -np.inf
        self._state = OnlineIsolationState(
            np.array([key(seed, t) for t in range(m)], np.uint64),
            np.zeros(m, np.int64),
            np.full((m, nodes), LEAF, np.int32),
            np.zeros((m, nodes)),
            np.zeros((m, nodes), np.int64),
            boxes,
            np.zeros((window, d)),
            np.zeros(1, np.int64),
        )
        self._scratch = _Scratch(
            np.zeros(d), np.zeros((window + 1, d)), np.zeros((nodes, 2), np.int64), np.zeros(depth + 1, np.int64)
        )
        self._nominal = np.array(schema.n_values, np.int64) > 0

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        leaf_size = self._parameters["leaf_size"]
        _run(program.op, program.row, program.w, slab, out, *self._state, leaf_size, self._nominal, self._scratch)

    def resize(self, schema: Schema) -> None:
        self.schema = schema
        self._nominal = np.array(schema.n_values, np.int64) > 0

    def describe(self) -> list[dict[str, Any]]:
        """The forest, and of each numeric feature the widest range that a tree has of it."""
        n, boxes = int(self._state.counts[0]), self._state.boxes[:, 0]
        parts = [as_node(0, None, 0, n, [])]
        weight = float(min(n, len(self._state.last)))
        ranges = np.column_stack((boxes[:, LOW].min(axis=0), boxes[:, HIGH].max(axis=0))).tolist()
        for f, (low, high) in enumerate(ranges):
            if not self._nominal[f] and low <= high:
                parts.append(as_node(f + 1, 0, 1, weight, [low, high], feature=f))
        return parts

    def size(self) -> dict[str, int]:
        n_inner = (self._state.features != LEAF).sum(axis=0)
        used = np.flatnonzero(n_inner)
        depth = int(used[-1] + 1).bit_length() if len(used) else 0
        m = len(self._state.keys)
        return {"n_nodes": m + 2 * int(n_inner.sum()), "n_leaves": m + int(n_inner.sum()), "depth": depth}


@kernel(inline=True)
def _seen_by(tree_key, row, nominal, x):
    """Write the instance as a tree sees it: NaN where a value is missing."""
    for f in range(len(row)):
        value = row[f]
        if value - value != 0.0:
            x[f] = np.nan
        elif nominal[f]:
            x[f] = uniform_at(tree_key, (f + 1) * 4294967296 + np.int64(value)) if value >= 0.0 else np.nan
        else:
            x[f] = value


@kernel(inline=True)
def _widen(box, x):
    for f in range(len(x)):
        if x[f] < box[LOW, f]:
            box[LOW, f] = x[f]
        if x[f] > box[HIGH, f]:
            box[HIGH, f] = x[f]


@kernel(inline=True)
def _child(node, features, cuts, x):
    return 2 * node + 1 if x[features[node]] < cuts[node] else 2 * node + 2


@kernel
def _empty(node, features, cuts, heights, boxes):
    features[node], cuts[node], heights[node] = LEAF, 0.0, 0
    for f in range(boxes.shape[2]):
        boxes[node, LOW, f], boxes[node, HIGH, f] = np.inf, -np.inf


@kernel
def _join(node, boxes):
    """A node's box is what its children's are together."""
    left, right = 2 * node + 1, 2 * node + 2
    for f in range(boxes.shape[2]):
        boxes[node, LOW, f] = min(boxes[left, LOW, f], boxes[right, LOW, f])
        boxes[node, HIGH, f] = max(boxes[left, HIGH, f], boxes[right, HIGH, f])


@kernel
def _may_cut(height, depth, n, leaf_size):
    """Whether a box is full for its depth, and a window of n has room for a level more."""
    return height >= leaf_size << depth and leaf_size << (2 * depth) < n


@kernel
def _draw(node, tree_key, at, heights, boxes, points):
    """Draw points evenly from the box, as many as it has instances; returns the number of the next draw."""
    d = boxes.shape[2]
    for i in range(heights[node]):
        for f in range(d):
            low, high = boxes[node, LOW, f], boxes[node, HIGH, f]
            u = uniform_at(tree_key, at)
            at += 1
            points[i, f] = low * (1.0 - u) + high * u if low <= high else np.nan
    return at


@kernel
def _build(root, depth, n, leaf_size, tree_key, at, features, cuts, heights, boxes, points, ends):
    """Make a subtree of `root`, a full leaf, of points that are drawn; returns the number of the next draw.

    O(height d depth). Nodes are visited level by level, so each is cut after its parent.
    """
    d = boxes.shape[2]
    at = _draw(root, tree_key, at, heights, boxes, points)
    ends[root, 0], ends[root, 1] = 0, heights[root]
    first, width = root, 1
    while first < len(heights):
        n_cut = 0
        for node in range(first, first + width):
            if node != root and (features[(node - 1) // 2] == LEAF):
                continue
            start, stop = ends[node, 0], ends[node, 1]
            _empty(node, features, cuts, heights, boxes)
            heights[node] = stop - start
            n_wide = 0
            for i in range(start, stop):
                _widen(boxes[node], points[i])
            for f in range(d):
                if boxes[node, LOW, f] < boxes[node, HIGH, f]:
                    n_wide += 1
            if n_wide == 0 or not _may_cut(stop - start, depth, n, leaf_size) or 2 * node + 2 >= len(heights):
                continue
            left_out = int(uniform_at(tree_key, at) * n_wide)
            u = uniform_at(tree_key, at + 1)
            at += 2
            f = -1
            for g in range(d):
                if boxes[node, LOW, g] < boxes[node, HIGH, g]:
                    if left_out == 0:
                        f = g
                    left_out -= 1
            cut = boxes[node, LOW, f] * (1.0 - u) + boxes[node, HIGH, f] * u
            features[node], cuts[node] = f, cut
            middle = start
            for i in range(start, stop):
                if points[i, f] < cut:
                    for g in range(d):
                        points[i, g], points[middle, g] = points[middle, g], points[i, g]
                    middle += 1
            ends[2 * node + 1, 0], ends[2 * node + 1, 1] = start, middle
            ends[2 * node + 2, 0], ends[2 * node + 2, 1] = middle, stop
            n_cut += 1
        if n_cut == 0:
            break
        first, width, depth = 2 * first + 1, 2 * width, depth + 1
    return at


@kernel
def _learn(x, n, leaf_size, tree_key, at, features, cuts, heights, boxes, points, ends):
    """Take an instance in; returns the number of the next draw. O(d depth), and now and then a leaf is cut."""
    node, depth = 0, 0
    while True:
        heights[node] += 1
        _widen(boxes[node], x)
        if features[node] == LEAF:
            break
        node = _child(node, features, cuts, x)
        depth += 1
    if _may_cut(heights[node], depth, n, leaf_size):
        at = _build(node, depth, n, leaf_size, tree_key, at, features, cuts, heights, boxes, points, ends)
    return at


@kernel
def _close(root, features, cuts, heights, boxes):
    """Undo the cut of a node, and all below it."""
    first, width = root, 1
    while 2 * first + 1 < len(heights):  # the levels below, from the lowest one up
        first, width = 2 * first + 1, 2 * width
    while first > root:
        parent, half = (first - 1) // 2, width // 2
        for node in range(parent, parent + half):
            if features[node] != LEAF:
                _join(node, boxes)
        first, width = parent, half
    while 2 * first + 1 < len(heights):
        first, width = 2 * first + 1, 2 * width
        for node in range(first, first + width):
            _empty(node, features, cuts, heights, boxes)
    features[root], cuts[root] = LEAF, 0.0


@kernel
def _unlearn(x, leaf_size, features, cuts, heights, boxes, path):
    """Take an instance out that was learned before. O(d depth), and now and then a cut is undone."""
    node, depth = 0, 0
    while True:
        heights[node] -= 1
        path[depth] = node
        if features[node] == LEAF:
            break
        if heights[node] < leaf_size << depth:
            _close(node, features, cuts, heights, boxes)
            break
        node = _child(node, features, cuts, x)
        depth += 1
    for i in range(depth - 1, -1, -1):
        _join(path[i], boxes)


@kernel(inline=True)
def _levels(n, leaf_size):
    """log4(n / leaf_size), 0 where that is below."""
    return log(n / leaf_size) / (2.0 * LN_2) if n > leaf_size else 0.0


@kernel
def _run(
    op, row, w, slab, out, keys, draws, features, cuts, heights, boxes, last, counts, leaf_size, nominal, scratch
):  # fmt: skip
    """Mutates out, the state and scratch. O(trees d depth) an operation."""
    x, points, ends, path = scratch
    window, d = last.shape
    first_draw = (d + 1) * 4294967296  # beyond those of nominal values
    for i in range(len(op)):
        r = row[i]
        n = min(counts[0], window)
        if op[i] == PREDICT:
            if n <= leaf_size:
                out[r, 0] = np.nan
                continue
            total = 0.0
            for t in range(len(keys)):
                _seen_by(keys[t], slab[r], nominal, x)
                node, depth = 0, 0
                while features[t, node] != LEAF:
                    node = _child(node, features[t], cuts[t], x)
                    depth += 1
                total += depth + _levels(heights[t, node], leaf_size)
            out[r, 0] = power(2.0, -total / len(keys) / _levels(n, leaf_size))
        elif 0.0 < w[i] < np.inf:
            place = counts[0] % window
            full = counts[0] >= window
            for t in range(len(keys)):
                _seen_by(keys[t], slab[r], nominal, x)
                at = first_draw + draws[t]
                draws[t] = _learn(
                    x, n + 1, leaf_size, keys[t], at, features[t], cuts[t], heights[t], boxes[t], points, ends
                ) - first_draw  # fmt: skip
                if full:
                    _seen_by(keys[t], last[place], nominal, x)
                    _unlearn(x, leaf_size, features[t], cuts[t], heights[t], boxes[t], path)
            for f in range(d):
                last[place, f] = slab[r, f]
            counts[0] += 1
