"""Shrubs on one sliding window: Buschjäger, Hess and Morik 2022, Algorithm 1, as one kernel over a program.

With each label the oldest item of the window goes, a new tree is grown on the window and enters with weight 0;
`burn_in` + 1 proximal gradient steps on the loss over the window decide whose weight falls to 0: that tree goes. At
most `n_trees` stay.

Trees: models.shrubs.cart. Window: models.shrubs.window. Weights: models.shrubs.members.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LARGEST_TARGET, PREDICT, Floats, Program, Schema
from riparian.models.joined import grown
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.shrubs.cart import CartScratch, grow, room_to_grow
from riparian.models.shrubs.members import (
    Members,
    descend,
    enter,
    prune,
    room_for_members,
    weigh_all,
    weigh_item,
    weigh_newest,
)
from riparian.models.shrubs.splits import kind_of
from riparian.models.shrubs.trees import (
    LEAVES,
    NODES,
    PackedTrees,
    Trees,
    find_leaves,
    leaf_of,
    most_nodes,
    pack_trees,
    room_for_trees,
    unpack_trees,
)
from riparian.models.shrubs.window import (
    FILLED,
    HEAD,
    LEARNED,
    MEMBERS,
    ORIGIN,
    PackedWindow,
    ShrubWindow,
    centre,
    counted,
    pack_window,
    room_for_window,
    take_in,
    unpack_window,
)


class ShrubSettings(NamedTuple):
    """The parameters, as kernels take them.

    n_tried : features tried a node, or, in a subspace, a tree.
    """

    n_trees: int
    max_depth: int
    every: int
    step: float
    burn_in: int
    ridge: float
    loss: int
    train_share: float
    n_tried: int
    subspace: bool
    best_splits: bool
    equal_weights: bool
    classes: bool


# Where each tuple ends among the fields of all that `_run` takes.
_WINDOW = len(ShrubWindow._fields)
_TREES = _WINDOW + len(Trees._fields)
_MEMBERS = _TREES + len(Members._fields)
_SCRATCH = _MEMBERS + len(CartScratch._fields)


class PackedShrubs(NamedTuple):
    """What the shrubs of one window know, besides window and trees. m: members, the oldest first; b: items.

    weights : (m,) float64.
    n_nodes : (m,) int32.
    gram : (m (m + 1) / 2,) float64, the lower triangle by rows.
    labels : (m,) float64.
    together, alone : as gram and labels, or empty.
    judged : (m b / 8, rounded up) uint8, bits.
    counts : (4,) int64, labels learned, items in the window, the ring's next place, members.
    random : (4,) uint64.
    seen : (n_outputs,) uint8, 1 for the classes learned so far; of a regression (0,).
    level : (2,) float64, of the targets (models.shrubs.window), of classes 0.
    """

    weights: Floats
    n_nodes: NDArray[np.int32]
    gram: Floats
    labels: Floats
    together: Floats
    alone: Floats
    judged: NDArray[np.uint8]
    counts: NDArray[np.int64]
    random: NDArray[np.uint64]
    seen: NDArray[np.uint8]
    level: Floats


class Shrubs:
    """The arrays of one window and its trees, and what is done with them."""

    def __init__(self, schema: Schema, settings: ShrubSettings, size: int, seed: int) -> None:
        self.schema, self.settings, self.size = schema, settings, size
        self.counts = np.zeros(4, np.int64)
        self.random = seeded(seed)
        self.seen = np.zeros(0, np.uint8)
        self.level = np.zeros(2)
        self._allot()

    def _allot(self) -> None:
        """Empty arrays of the sizes that parameters and schema ask for."""
        d, k, settings = self.schema.n_features, self.schema.n_outputs, self.settings
        n_nodes = most_nodes(self.size, settings.max_depth)
        self.seen = grown(self.seen, k if settings.classes else 0)
        self.n_values = np.array(self.schema.n_values, np.int32)
        self.window: ShrubWindow = room_for_window(d, self.size, settings.best_splits)
        self.trees: Trees = room_for_trees(settings.n_trees + 1, n_nodes, k)
        self.members: Members = room_for_members(settings.n_trees, self.size, k, settings.train_share < 1.0)
        self.scratch: CartScratch = room_to_grow(d, self.size, n_nodes, k)

    def run(self, program: Program, slab: Floats, out: Floats, predict_before_learn: bool) -> None:
        """Execute a program. out : (capacity, n_outputs), by row; or, `predict_before_learn`, (n, n_outputs), by
        operation: what is predicted before a label is learned stands there as well. Mutates out and the arrays."""
        _run(
            *program, slab, out, predict_before_learn, self.counts, self.random, self.seen, self.level, self.n_values,
            *self.window, *self.trees, *self.members, *self.scratch, *self.settings,
        )  # fmt: skip

    def resize(self, schema: Schema) -> None:
        """Raise capacities."""
        window, trees, rest = self.pack()
        self.schema = schema
        self.unpack(window, trees, rest)

    def pack(self) -> tuple[PackedWindow, PackedTrees, PackedShrubs]:
        n, m = int(self.counts[FILLED]), int(self.counts[MEMBERS])
        members = self.members
        slots = members.slots[:m]
        below = np.tril_indices(m)
        judging = len(members.alone) > 0
        rest = PackedShrubs(
            members.weights[:m],
            self.trees.sizes[slots, NODES],
            members.gram[below],
            members.labels[:m],
            members.together[below] if judging else np.zeros(0),
            members.alone[:m] if judging else np.zeros(0),
            np.packbits(members.judged[slots, :n]),
            self.counts,
            self.random,
            self.seen,
            self.level,
        )
        return (
            pack_window(self.window, n, self.schema),
            pack_trees(self.trees, slots, self.schema.n_features, self.settings.classes),
            rest,
        )

    def unpack(self, window: PackedWindow, trees: PackedTrees, rest: PackedShrubs) -> None:
        self.counts = np.array(rest.counts, np.int64)
        self.random = np.array(rest.random, np.uint64)
        self.seen = np.array(rest.seen, np.uint8)
        self.level = np.array(rest.level, np.float64)
        self._allot()
        n, m = int(self.counts[FILLED]), int(self.counts[MEMBERS])
        members = self.members
        unpack_window(window, self.level, self.schema, self.window)
        unpack_trees(trees, rest.n_nodes.tolist(), self.trees)
        members.weights[:m] = rest.weights
        members.labels[:m] = rest.labels
        below = np.tril_indices(m)
        for array, triangle in ((members.gram, rest.gram), (members.together, rest.together)):
            if len(triangle):
                array[below] = triangle
        if len(members.alone):
            members.alone[:m] = rest.alone
            members.judged[:m, :n] = np.unpackbits(rest.judged, count=m * n).reshape(m, n)
        _predict_again(self.window, self.trees, members, self.n_values, n, m)

    def size_of_trees(self) -> tuple[int, int]:
        """Nodes and leaves of all members."""
        sizes = self.trees.sizes[self.members.slots[: int(self.counts[MEMBERS])]]
        return int(sizes[:, NODES].sum()), int(sizes[:, LEAVES].sum())


@kernel(inline=True)
def _predict_item(slot, leaf, i, trees, members):
    """Write the prediction of a member for an item of the window that comes to this leaf. Mutates
    members.predictions."""
    for c in range(trees.values.shape[2]):
        members.predictions[i, c, slot] = trees.values[slot, leaf, c]


@kernel
def _predict_again(window, trees, members, n_values, n, m):
    """Predictions of all members for the whole window, after a restore. Mutates members.predictions."""
    for j in range(m):
        slot = members.slots[j]
        for i in range(n):
            if len(members.alone) == 0 or members.judged[slot, i]:
                _predict_item(slot, leaf_of(trees, slot, n_values, window.x, i), i, trees, members)


@kernel
def _centre(n, level, window, trees, members, m):
    """Let all be less the origin that is now right. Mutates level, window, trees, members. O(n m)."""
    step = centre(n, level, window)
    if step == 0.0:
        return
    for j in range(m):
        slot = members.slots[j]
        for leaf in range(trees.sizes[slot, LEAVES]):
            trees.values[slot, leaf, 0] -= step
        for i in range(n):
            if len(members.alone) == 0 or members.judged[slot, i]:
                members.predictions[i, 0, slot] -= step


@kernel
def _enrol(counts, random, seen, window, trees, members, scratch, n_values, settings):
    """Grow a tree on the window, weigh all members anew, and prune. Mutates everything but seen and n_values."""
    n = counts[FILLED]
    m = counts[MEMBERS] + 1
    slot = enter(members, m)
    n_chosen = n
    if settings.train_share < 1.0:
        n_chosen = 0
        for i in range(n):
            window.chosen[i] = 1 if uniform(random) < settings.train_share else 0
            n_chosen += window.chosen[i]
        if n_chosen == 0 or n_chosen == n:
            window.chosen[:n] = 1
            n_chosen = n
    grow(
        trees, slot, window.x, window.columns, window.above, window.w, n_values, window.order, n, window.chosen,
        n_chosen, settings.n_tried, settings.subspace, settings.best_splits, kind_of(settings.classes, seen),
        settings.max_depth, random, scratch,
    )  # fmt: skip
    if settings.equal_weights:
        members.weights[:m] = 1.0
        if m > settings.n_trees:
            members.weights[0] = 0.0
            m = prune(members, m)
        members.weights[:m] = 1.0 / m
        counts[MEMBERS] = m
        return
    for i in range(n):
        if n_chosen < n:
            members.judged[slot, i] = 1 - window.chosen[i]
            if window.chosen[i]:
                members.predictions[i, :, slot] = 0.0
            else:
                _predict_item(slot, leaf_of(trees, slot, n_values, window.x, i), i, trees, members)
            continue
        if settings.train_share < 1.0:
            members.judged[slot, i] = 1
        _predict_item(slot, scratch.leaf[i], i, trees, members)
    weigh_newest(n, window, members, m, settings.classes)
    n_classes = 0
    for c in range(len(seen)):
        n_classes += seen[c]
    descend(n, window, members, m, n_classes, settings)
    counts[MEMBERS] = prune(members, m)


@kernel(inline=True)
def teachable(y, w, classes, n_outputs):
    """Whether a label and its weight teach anything. classes : whether it is a class."""
    if not (w > 0.0 and w < np.inf):
        return False
    if classes:
        return y >= 0.0 and y < n_outputs
    return abs(y) <= LARGEST_TARGET


@kernel
def _run(op, row, y, w, slab, out, predict_before_learn, counts, random, seen, level, n_values, *flat):
    """Execute a program. flat : the fields of window, trees, members, scratch and settings; numba takes a tuple from
    Python for a microsecond, an array for a fiftieth of one. Mutates out and all state."""
    window = ShrubWindow(*flat[:_WINDOW])
    trees = Trees(*flat[_WINDOW:_TREES])
    members = Members(*flat[_TREES:_MEMBERS])
    scratch = CartScratch(*flat[_MEMBERS:_SCRATCH])
    settings = ShrubSettings(*flat[_SCRATCH:])
    n_outputs = trees.values.shape[2]
    size = len(window.y)
    fallen = -1  # the row whose leaves the members know: most labels come right after the prediction
    for step in range(len(op)):
        r = np.int64(row[step])
        nothing = np.nan if counts[LEARNED] == 0 and not settings.classes else 0.0
        if op[step] == PREDICT:
            at = step if predict_before_learn else r
            out[at, :] = nothing
            find_leaves(trees, members.slots, counts[MEMBERS], n_values, slab, r, members.leaves)
            for j in range(counts[MEMBERS]):
                slot = members.slots[j]
                leaf = members.leaves[j]
                for c in range(n_outputs):
                    out[at, c] += members.weights[j] * trees.values[slot, leaf, c]
            out[at, 0] += level[ORIGIN]
            fallen = r
            continue
        if not teachable(y[step], w[step], settings.classes, n_outputs):
            continue
        if settings.classes:
            seen[np.int64(y[step])] = 1
        m = counts[MEMBERS]
        if predict_before_learn:
            out[step, :] = nothing
        if not settings.equal_weights and counts[FILLED] == size:
            weigh_item(counts[HEAD], -1.0, window, members, m, settings.classes)
        target = y[step] if settings.classes else counted(y[step], counts, size, level)
        i = take_in(slab, r, target, w[step], counts, level, window)
        counts[LEARNED] += 1
        for j in range(m):
            if settings.equal_weights and not predict_before_learn:
                break
            slot = members.slots[j]
            leaf = members.leaves[j] if r == fallen else leaf_of(trees, slot, n_values, slab, r)
            _predict_item(slot, leaf, i, trees, members)
            if predict_before_learn:
                for c in range(n_outputs):
                    out[step, c] += members.weights[j] * trees.values[slot, leaf, c]
            if settings.train_share < 1.0:
                members.judged[slot, i] = 1
        if predict_before_learn:
            out[step, 0] += level[ORIGIN]
        filled_anew = counts[LEARNED] % size == 0
        if filled_anew and not settings.classes:
            _centre(counts[FILLED], level, window, trees, members, m)
        if not settings.equal_weights:
            if filled_anew:
                weigh_all(counts[FILLED], window, members, m, settings.classes)
            else:
                weigh_item(i, 1.0, window, members, m, settings.classes)
        learned = counts[LEARNED]
        if learned % settings.every == 0 or (learned < settings.every and learned & (learned - 1) == 0):
            _enrol(counts, random, seen, window, trees, members, scratch, n_values, settings)
            fallen = -1
