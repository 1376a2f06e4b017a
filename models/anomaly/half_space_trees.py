"""Half-space trees: how many instances of the last window lie where this one does (Tan, Ting and Liu 2011).

A tree halves the working space again and again, along features that are drawn once; so it is complete before the first
instance. Learning counts an instance in all nodes on its way. At the end of a window these counts are the profile by
which the next window is scored. Here a node notes the window of its counts, and they are moved on when it is met again:
no window's end visits the nodes that nothing came to.

With `max_window` a node has a second profile, of windows that double, so that normal behaviour of a long cycle is known
as a whole, and the mass is the mean of both: who is normal by either is no anomaly.

The paper supposes features between 0 and 1. Here the ranges of one window are the units of the next one; a profile is
read in the units in which it was counted.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.anomaly.entries import HALF_SPACE_TREES
from riparian.models.contract import PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import as_node
from riparian.models.joined import copied
from riparian.models.kernels.draws import key, uniform_at
from riparian.models.kernels.elementary import log1p
from riparian.models.kernels.kernel import kernel

# columns of a node: the last window in which it was met; its counts of the window before that, and of that one
MET, REFERENCE, LATEST = 0, 1, 2
SHOWN, COUNTED, COMING = 0, 1, 2  # ranges: of the profile that scores, of the one that is counted, of this window
LOW, HIGH = 0, 1
WINDOW, N = 0, 1  # of `counts`: the number of this window, and instances in it

SIZE_LIMIT = 0.1  # share of a window: a node of fewer instances is not looked into
MOST_DOUBLINGS = 20  # more than from the shortest window to the longest
BELOW, BEYOND = -1.0, 2.0  # where 0 .. 1 is the range


class HalfSpaceState(NamedTuple):
    """Everything that the learner knows. Of P profiles (one, or two with `max_window`) one after the other:

    keys : (n_trees,) uint64, from which the trees follow.
    nodes : (P n_trees, 2^(height + 1) - 1, 3) int32, level by level: MET, REFERENCE, LATEST.
    ranges : (3 P, 2, d) float64, least and greatest known value: SHOWN, COUNTED, COMING; inf and -inf of none.
    first : (window, d) float64, instances of the first window.
    counts : (2 P,) int64, WINDOW, N.
    """

    keys: NDArray[np.uint64]
    nodes: NDArray[np.int32]
    ranges: Floats
    first: Floats
    counts: NDArray[np.int64]


class HalfSpaceTrees(Learner):
    """Half-space trees.

    A score is 1 - log(1 + m) / log(1 + window 2^height), where m is the paper's mass, the mean over the trees of
    r 2^depth at the node where the search ends: 1 where nobody was, in the paper's order. It is NaN until the first
    window is full. Labels are not looked at, and a weight above 0 counts once.

    With `max_window` two profiles are counted: one of windows of one size, and one of windows that are each twice as
    long as the one before, up to `max_window`. The first window is the same. Then m is the mean of the masses by both,
    each times max_window / instances of its window, and `max_window` stands in the place of `window` above.

    A missing value lies below all known ones; nominal values lie at random places between 0 and 1, others in each tree.
    Memory is bounded by the parameters: 12 bytes a node and profile, and one window of instances.

    Examples
    --------
    >>> learner = HalfSpaceTrees(Schema((0,), 1, "anomaly"), window=10)
    >>> learner.learn_many([[float(i % 5)] for i in range(20)], [np.nan] * 20)
    >>> near, far = learner.predict_many([[2.0], [9.0]])[:, 0]
    >>> bool(near < far)
    True
    """

    entry = HALF_SPACE_TREES

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        trees, height, window = (self._parameters[name] for name in ("n_trees", "height", "window"))
        d, n_profiles = schema.n_features, len(self.longest)
        nodes = np.zeros((n_profiles * trees, (2 << height) - 1, 3), np.int32)
        ranges = np.empty((3 * n_profiles, 2, d))
        ranges[:, LOW], ranges[:, HIGH] = np.inf, -np.inf
        keys = np.array([key(seed, t) for t in range(trees)], np.uint64)
        self._take(HalfSpaceState(keys, nodes, ranges, np.zeros((window, d)), np.zeros(2 * n_profiles, np.int64)))

    @property
    def longest(self) -> tuple[int, ...]:
        """Instances of the longest window of each profile."""
        window, most = self._parameters["window"], self._parameters["max_window"]
        return (window,) if most is None else (window, most)

    def profiles(self) -> tuple[NDArray[np.int32], Floats, NDArray[np.int64]]:
        """Views of the state: nodes, ranges and counts of each profile."""
        state, n = self._state, len(self.longest)
        return (
            state.nodes.reshape(n, len(state.keys), -1, 3),
            state.ranges.reshape(n, 3, 2, -1),
            state.counts.reshape(n, 2),
        )

    def sizes(self) -> NDArray[np.int64]:
        """(profiles, 2): instances of the window that scores, and of this one."""
        counts, first = self.profiles()[2], len(self._state.first)
        return np.array([_sizes(n, first, most) for n, most in zip(counts[:, WINDOW], self.longest, strict=True)])

    def _take(self, state: HalfSpaceState) -> None:
        """Go on from this state; the trees follow from their keys."""
        self._state, d = state, self.schema.n_features
        trees, inner = len(state.keys), state.nodes.shape[1] // 2
        self._features, self._thresholds = np.zeros((trees, inner), np.int32), np.zeros((trees, inner))
        _grow(state.keys, d, self._features, self._thresholds)
        self._most, self._profiles = np.array(self.longest, np.int64), self.profiles()
        self._prepare()

    def _prepare(self) -> None:
        self._nominal = np.array(self.schema.n_values, np.int64) > 0
        self._units = np.zeros(self.schema.n_features)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        _run(
            program.op, program.row, program.w, slab, out, self._most, self._state.keys,
            *self._profiles, self._state.first, self._features, self._thresholds, self._nominal, self._units,
        )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        self.schema = schema
        self._prepare()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._take(copied(state, self._state))

    def describe(self) -> list[dict[str, Any]]:
        """The forest, and the range of each numeric feature that had one in the profiles that score."""
        _, ranges, counts = self._profiles
        shown, (_, size) = float(self.sizes()[-1, 0]), self.sizes()[0].tolist()
        window, n = counts[0].tolist()
        parts = [as_node(0, None, 0, window * size + n, [])]
        lows, highs = ranges[:, SHOWN, LOW].min(axis=0).tolist(), ranges[:, SHOWN, HIGH].max(axis=0).tolist()
        for f, (low, high) in enumerate(zip(lows, highs, strict=True)):
            if not self._nominal[f] and low <= high:
                parts.append(as_node(f + 1, 0, 1, shown, [low, high], feature=f))
        return parts

    def size(self) -> dict[str, int]:
        trees, nodes = len(self._state.keys), self._state.nodes.shape[1]
        return {"n_nodes": trees * nodes, "n_leaves": trees * (nodes // 2 + 1), "depth": self._parameters["height"]}


@kernel
def _grow(keys, d, features, thresholds):
    """Write the test of each inner node. O(nodes depth)."""
    for t in range(features.shape[0]):
        for node in range(features.shape[1]):
            f = int(uniform_at(keys[t], d + node) * d)
            s = uniform_at(keys[t], f)
            reach = 2.0 * max(s, 1.0 - s)
            low, high = s - reach, s + reach
            # From the node to the root, the first halving on either side is the closest.
            has_low = has_high = False
            child = node
            while child > 0:
                parent = (child - 1) // 2
                if features[t, parent] == f:
                    if child == 2 * parent + 1:
                        if not has_high:
                            high, has_high = thresholds[t, parent], True
                    elif not has_low:
                        low, has_low = thresholds[t, parent], True
                child = parent
            features[t, node], thresholds[t, node] = f, (low + high) / 2.0


@kernel
def _to_units(x, ranges, nominal, units):
    """Write where each numeric value of an instance lies in its range."""
    for f in range(len(x)):
        low, high = ranges[LOW, f], ranges[HIGH, f]
        if np.isnan(x[f]):
            units[f] = BELOW
        elif nominal[f]:
            units[f] = 0.0
        elif low > high:
            units[f] = BEYOND
        elif low == high:
            units[f] = 0.5 if x[f] == low else BELOW if x[f] < low else BEYOND
        else:
            units[f] = (x[f] / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)


@kernel(inline=True)
def _child(node, feature, threshold, tree_key, x, nominal, units):
    u = units[feature]
    if nominal[feature] and u >= 0.0:
        u = uniform_at(tree_key, (feature + 1) * 4294967296 + np.int64(x[feature]))
    return 2 * node + 1 if u < threshold else 2 * node + 2


@kernel
def _count(x, window, keys, nodes, features, thresholds, nominal, units):
    """Count an instance in the profile of `window`. O(trees height)."""
    inner = features.shape[1]
    for t in range(len(keys)):
        node = 0
        while True:
            met = nodes[t, node, MET]
            if met == window:
                nodes[t, node, LATEST] += 1
            else:
                nodes[t, node, REFERENCE] = nodes[t, node, LATEST] if met == window - 1 else 0
                nodes[t, node, MET], nodes[t, node, LATEST] = window, 1
            if node >= inner:
                break
            node = _child(node, features[t, node], thresholds[t, node], keys[t], x, nominal, units)


@kernel
def _mass(x, window, limit, keys, nodes, features, thresholds, nominal, units):
    """Sum over the trees of r 2^depth. O(trees height)."""
    inner = features.shape[1]
    total = 0.0
    for t in range(len(keys)):
        node, scale = 0, 1.0
        while True:
            met = nodes[t, node, MET]
            r = nodes[t, node, REFERENCE] if met == window else nodes[t, node, LATEST] if met == window - 1 else 0
            if node >= inner or r <= limit:
                break
            node = _child(node, features[t, node], thresholds[t, node], keys[t], x, nominal, units)
            scale *= 2.0
        total += r * scale
    return total


@kernel
def _sizes(number, first, longest):
    """Instances of the window before window `number`, and of this one."""
    n = min(number, MOST_DOUBLINGS)
    return min(first << max(n - 1, 0), longest), min(first << n, longest)


@kernel
def _run(op, row, w, slab, out, longest, keys, nodes, ranges, counts, first, features, thresholds, nominal, units):
    """Mutates out, nodes, ranges, counts, first and units. O(d + trees height) an operation and profile."""
    n_first = len(first)
    most = log1p(longest[-1] * (features.shape[1] + 1.0))
    for i in range(len(op)):
        x = slab[row[i]]
        if op[i] == PREDICT:
            if counts[0, WINDOW] == 0:
                out[row[i], 0] = np.nan
                continue
            mass = 0.0
            for p in range(len(longest)):
                window = counts[p, WINDOW]
                n, _ = _sizes(window, n_first, longest[p])
                _to_units(x, ranges[p, SHOWN], nominal, units)
                own = _mass(x, window, SIZE_LIMIT * n, keys, nodes[p], features, thresholds, nominal, units)
                mass += own * (longest[-1] / n)
            out[row[i], 0] = 1.0 - log1p(mass / (len(keys) * len(longest))) / most
        elif 0.0 < w[i] < np.inf:
            for p in range(len(longest)):
                _learn(x, p, longest[p], keys, nodes, ranges, counts, first, features, thresholds, nominal, units)


@kernel
def _learn(x, p, longest, keys, nodes, ranges, counts, first, features, thresholds, nominal, units):
    """Count an instance in profile p."""
    for f in range(len(x)):
        if x[f] < ranges[p, COMING, LOW, f]:
            ranges[p, COMING, LOW, f] = x[f]
        if x[f] > ranges[p, COMING, HIGH, f]:
            ranges[p, COMING, HIGH, f] = x[f]
    window = counts[p, WINDOW]
    if window == 0:
        for f in range(len(x)):
            first[counts[p, N], f] = x[f]
    else:
        _to_units(x, ranges[p, COUNTED], nominal, units)
        _count(x, window, keys, nodes[p], features, thresholds, nominal, units)
    counts[p, N] += 1
    if counts[p, N] == _sizes(window, len(first), longest)[1]:
        _end(keys, nodes[p], ranges[p], counts[p], first, features, thresholds, nominal, units)
        if window == 0 and p == len(counts) - 1:
            first[:] = 0.0


@kernel
def _end(keys, nodes, ranges, counts, first, features, thresholds, nominal, units):
    """The window is full: its profile scores from here on. The first one is counted now, as its ranges are known."""
    begins = counts[WINDOW] == 0
    for f in range(ranges.shape[2]):
        for side in range(2):
            if begins:
                ranges[COUNTED, side, f] = ranges[COMING, side, f]
            ranges[SHOWN, side, f] = ranges[COUNTED, side, f]
            ranges[COUNTED, side, f] = ranges[COMING, side, f]
        ranges[COMING, LOW, f], ranges[COMING, HIGH, f] = np.inf, -np.inf
    if begins:
        for i in range(first.shape[0]):
            _to_units(first[i], ranges[SHOWN], nominal, units)
            _count(first[i], 0, keys, nodes, features, thresholds, nominal, units)
    counts[WINDOW] += 1
    counts[N] = 0
