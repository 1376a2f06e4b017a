"""Mondrian forests: trees that grow by an instance each, and predict by all their prunings.

Mourtada, Gaïffas and Scornet 2021 (AMF); without aggregation, Lakshminarayanan, Roy and Teh 2014. Trees never talk:
each runs a whole piece of a program in one kernel call, alone, and puts what it predicts into a plane of its own, and
the planes are added in the order of the trees. So threads, which share out the trees, change no bit. The random numbers
of a label depend on its count and the tree alone.

One tree: models.mondrian.nodes. How it grows: tree; what it predicts: weights, smoothing.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LARGEST_TARGET, PREDICT, Floats, Learner, Program, Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded
from riparian.models.kernels.threads import Parts
from riparian.models.layout import StateLayout
from riparian.models.mondrian.description import describe
from riparian.models.mondrian.entries import MONDRIAN_FOREST
from riparian.models.mondrian.nodes import (
    FEATURE,
    LEFT,
    NODES,
    PARENT,
    VALUES,
    Instance,
    MondrianSettings,
    MondrianTree,
    MondrianTrees,
    allowed,
    columns_of,
    layout_of,
    measure,
    node_bytes,
    outside,
    room,
    take,
)
from riparian.models.mondrian.smoothing import smooth
from riparian.models.mondrian.tree import learn, plant, shrink
from riparian.models.mondrian.weights import aggregate, trust
from riparian.models.observers.gaussians import check_growth

FIXED_BYTES = 40  # bytes of a tree, nodes apart
MOST_NODES = 1 << 31
PIECE = 4096  # operations that a tree runs at once
MOST_VOTES = 1 << 21  # numbers that the trees' predictions are at once; of more, pieces are shorter
CLASSIFICATION_NODES = 4001  # nodes of a tree: more remember what was, and follow drift later
LEAST_ROOM = 16  # nodes


def _links(state: Mapping[str, NDArray[Any]]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(state["tests"]).view(np.uint32)


class MondrianForest(Learner):
    """Aggregated Mondrian forest for classification and regression.

    Features are compared in units of their ranges so far, so no scaling is needed beforehand. A nominal feature is
    split one value against the rest; of more than 64 values, those 64 codes apart count as one when a box is asked
    what it has seen. A missing value (NaN, or beyond 1e300) is no distance to a box, and goes to the heavier child. A
    label outside 0 .. n_outputs - 1, or beyond 1e100, and a weight that is not positive and finite teach nothing.

    Memory is bounded by max_bytes, which the trees share alike, and max_nodes. At the bound a tree goes on splitting:
    of 16 pairs of leaves drawn at random, the one goes whose parent has predicted best compared with them. That parent
    begins its box anew, and so can split again. A node takes more bytes once more classes have been learned: pairs of
    leaves go until the others fit. A tree has room for 3 nodes, whatever they take.

    A classification's trees have at most 4,001 nodes by default: older ones are in the way when a concept changes. A
    regression's are bounded by `max_bytes` alone. `step` is eta of the aggregation; the default of `dirichlet` is the
    Krichevsky-Trofimov estimator for two classes. `split_below` asks before the instance is learned; as in the papers,
    with 1 only nodes of one class are not split, and with `vote_power` 0 trees vote alike, as regression trees always
    do; labels fade by .999 a label. Without `aggregation` it is a Mondrian forest of Lakshminarayanan et al.
    (classification), or the mean of the leaf (regression).

    Notes
    -----
    As in the authors' implementation, a new leaf is not charged for its first label. The likelihood of a target is
    normal around a node's mean; its variance is that of the tree's errors so far, so the unit of targets does not
    matter (the authors': squared errors as they are). Of instance weight w, a likelihood counts w times.

    References
    ----------
    J. Mourtada, S. Gaïffas and E. Scornet: AMF: Aggregated Mondrian forests for online learning. JRSS B 83(3), 2021.
    B. Lakshminarayanan, D. M. Roy and Y. W. Teh: Mondrian forests: efficient online random forests. NIPS 2014.

    Examples
    --------
    >>> learner = MondrianForest(Schema((0, 0), 2, "classification"))
    >>> x = np.random.default_rng(1).random((500, 2))
    >>> learner.learn_many(x, (x[:, 1] > 0.5).astype(float))
    >>> int(learner.predict_many([[0.3, 0.9]]).argmax())
    1
    """

    entry = MONDRIAN_FOREST
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"tests boxes seen": "= room", "nodes": "= room *", "pairs": "= *"},
        places={lambda state: _links(state)[..., FEATURE]: "features"},
        bounded={("counts", NODES): "room", lambda state: _links(state)[..., LEFT]: "room"},
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._set()
        self._parts = Parts()
        self._trees = self._room(min(LEAST_ROOM, allowed(self._settings, 1)), columns_of(1))

    def _room(self, capacity: int, columns: int) -> MondrianTrees:
        m, layout = self._parameters["n_trees"], self._settings.layout
        return MondrianTrees(
            room((m, capacity, 2)),
            room((m, capacity, columns)),
            room((m, capacity, layout.n_sides)),
            room((m, capacity, layout.n_words), np.uint64),
            np.zeros((m, capacity // 2, 2)),
            np.zeros((m, 3), np.int64),
            np.zeros((m, 2)),
        )

    def _set(self) -> None:
        """What follows from the parameters and the schema."""
        given = self._parameters
        classes, layout = self.schema.task == "classification", layout_of(self.schema)
        self._settings = MondrianSettings(
            layout,
            np.array(self.schema.n_values, np.int32),
            np.array([seeded(int(seeded(self.seed)[0]) + tree)[1] for tree in range(given["n_trees"])], np.uint64),
            given["max_nodes"] or (CLASSIFICATION_NODES if classes else MOST_NODES),
            given["max_bytes"] // given["n_trees"] - FIXED_BYTES,
            node_bytes(layout),
            given["step"],
            given["dirichlet"] or 0.0,
            given["split_pure"],
            given["split_below"],
            given["vote_power"],
            classes,
            given["aggregation"],
        )
        # Nodes that a tree may have whatever it learns: up to there nobody has to ask which classes it knows.
        self._fewest = int(allowed(self._settings, self.schema.n_outputs))

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        m, k = self._parameters["n_trees"], self.schema.n_outputs
        length = max(1, min(PIECE, len(program.op), MOST_VOTES // (m * k)))
        planes = np.zeros((m, length, k))
        for start in range(0, len(program.op), length):
            piece = program.part(start, start + length)
            at = np.zeros(m, np.int64)
            while True:
                self._run_trees(piece, slab, planes, at)
                if at.min() == len(piece.op):
                    break
                self._grow(piece, at)
            _combine(piece.op, piece.row, planes, out)
        capacity, columns = self._trees.nodes.shape[1:]
        if capacity > self._fewest and capacity > self.most_nodes:
            self._lay_out(self.most_nodes, columns)

    def _run_trees(self, piece: Program, slab: Floats, planes: Floats, at: NDArray[np.int64]) -> None:
        """Every tree from at[tree] to the end of the piece, or to where it has no room. Mutates trees, planes, at."""
        m = self._parameters["n_trees"]

        def run(first: int, last: int) -> None:
            _run(*piece, slab, self._trees, self._settings, first, last, at, planes)

        self._parts.run(len(piece.op) - int(at.min()), m, run)

    @property
    def most_nodes(self) -> int:
        """That a tree may have, of the classes that all trees have learned."""
        n_codes = 1
        if self._settings.classes:
            known = self._trees.nodes[:, 0, VALUES:] > 0.0
            n_codes = int((np.arange(1, known.shape[1] + 1) * known).max(axis=1, initial=1).min())
        return int(allowed(self._settings, n_codes))

    def _grow(self, piece: Program, at: NDArray[np.int64]) -> None:
        """Columns for the class that a tree stopped at, or else twice the nodes, but no more than a tree may have."""
        capacity, columns = self._trees.nodes.shape[1:]
        wanted = int(piece.y[at[at < len(piece.op)]].max()) + 1 if self._settings.classes else 1
        if columns_of(wanted) > columns:
            self._lay_out(capacity, columns_of(wanted))
        else:
            self._lay_out(min(2 * capacity, self.most_nodes), columns)

    def _lay_out(self, capacity: int, columns: int) -> None:
        """Room for so many nodes of each tree; what is beyond is dropped."""
        before = self._trees
        self._trees = self._room(capacity, columns)
        for name, new in self._trees._asdict().items():
            old = getattr(before, name)
            shared = tuple(slice(min(a, b)) for a, b in zip(new.shape, old.shape, strict=True))
            new[shared] = old[shared]

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        before, old = self._trees, self._settings.layout
        self.schema = schema
        self._set()
        new = self._settings.layout
        seen = room((*before.seen.shape[:2], new.n_words), np.uint64)
        for i, j, a, b, mask in zip(old.word, new.word, old.first, new.first, old.mask, strict=True):
            seen[:, :, j] |= (before.seen[:, :, i] & mask) >> a << b
        self._trees = before._replace(seen=seen)

    def state(self) -> MondrianTrees:
        return self._trees

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._trees = MondrianTrees(
            *(room(state[name].shape, state[name].dtype.type) for name in MondrianTrees._fields)
        )
        for name, array in self._trees._asdict().items():
            array[...] = state[name]

    def describe(self) -> list[dict[str, Any]]:
        """The forest, then each tree, root first; see `models.mondrian.description`."""
        return describe(self._trees, self._settings, self.schema.n_outputs)

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self._trees)

    def size(self) -> dict[str, int]:
        n_nodes = self._trees.counts[:, NODES]
        return {
            "n_nodes": int(n_nodes.sum()),
            "n_leaves": int(((n_nodes + 1) // 2).sum()),
            "depth": int(_depth(self._trees.tests.view(np.uint32), self._trees.pairs, n_nodes)),
        }


@kernel(allocates=True)
def _run(op, row, y, w, slab, trees, settings, first, last, at, planes):
    """Trees first .. last - 1 of a piece, each from operation at[tree]. Mutates trees, at, planes.

    planes[tree, i] is what the tree predicts where operation i is a prediction. at[tree] is where the tree stopped: at
    the end, or at a label for which there is no room, or no column.
    """
    capacity = trees.nodes.shape[1]
    one = Instance(
        np.empty(slab.shape[1]),
        np.full(trees.boxes.shape[2], np.nan),
        np.empty(trees.seen.shape[2], np.uint64),
        np.empty(trees.boxes.shape[2]),
        np.empty(len(settings.layout.nominal)),
    )
    path = np.empty(capacity, np.uint32)
    voted = np.empty(capacity)
    above = np.empty(planes.shape[2])
    here = np.empty(planes.shape[2])
    links = trees.tests.view(np.uint32)
    for tree in range(first, last):
        one_tree = MondrianTree(
            links[tree], trees.tests[tree], trees.nodes[tree], trees.boxes[tree], trees.seen[tree], trees.pairs[tree],
            trees.counts[tree], trees.errors[tree],
        )  # fmt: skip
        key = settings.keys[tree]
        at[tree] = _run_tree(
            op, row, y, w, slab, one_tree, settings, key, at[tree], planes[tree], one, path, voted, above, here
        )


@kernel
def _run_tree(op, row, y, w, slab, tree, settings, key, start, votes, one, path, voted, above, here):
    """One tree, from operation `start`; returns where it stopped. Mutates the tree, votes, and the scratch."""
    capacity = len(tree.nodes)
    n_outputs = votes.shape[1]
    n_codes = 1
    if settings.classes:
        for c in range(tree.nodes.shape[1] - VALUES):
            if tree.nodes[0, VALUES + c] > 0.0:
                n_codes = c + 1
    most = allowed(settings, n_codes)
    measured = False  # whether the units in `one` are those of the root's box
    for i in range(start, len(op)):
        if op[i] == PREDICT:
            vote = votes[i]
            vote[:] = 0.0
            if tree.counts[NODES] == 0:
                vote[:] = 0.0 if settings.classes else np.nan
                continue
            take(slab, row[i], settings, one)
            if settings.aggregation:
                aggregate(tree, settings, one, vote)
            else:
                smooth(tree, settings, one, above, here, vote)
                measured = False
            if settings.classes:
                weight = trust(tree.errors, settings.vote_power)
                for c in range(n_outputs):
                    vote[c] *= weight
            continue
        if not (w[i] > 0.0 and w[i] < np.inf):
            continue
        if settings.classes:
            if not (y[i] >= 0.0 and y[i] < n_outputs):
                continue
            if y[i] >= n_codes:
                if VALUES + np.int64(y[i]) >= tree.nodes.shape[1]:
                    return i
                n_codes = np.int64(y[i]) + 1
                most = allowed(settings, n_codes)
        elif not abs(y[i]) <= LARGEST_TARGET:
            continue
        if tree.counts[NODES] > most:
            shrink(tree, most, key)
        if tree.counts[NODES] + 2 > capacity and capacity < most:
            return i
        take(slab, row[i], settings, one)
        if tree.counts[NODES] == 0:
            plant(tree, settings, one, y[i], w[i])
            continue
        if not measured or outside(tree, 0, one):
            measure(tree, settings, one)
            measured = True
        learn(tree, settings, most, key, one, path, voted, y[i], w[i])
    return len(op)


@kernel
def _combine(op, row, planes, out):
    """The mean of what the trees predict, added in their order. Mutates out. O(operations trees outputs)."""
    m, _, n_outputs = planes.shape
    for i in range(len(op)):
        if op[i] != PREDICT:
            continue
        r = row[i]
        out[r, :] = 0.0
        for tree in range(m):
            for c in range(n_outputs):
                out[r, c] += planes[tree, i, c]
        if n_outputs == 1:
            out[r, 0] /= m
            continue
        total = 0.0
        for c in range(n_outputs):
            total += out[r, c]
        if total > 0.0:
            for c in range(n_outputs):
                out[r, c] /= total


@kernel
def _depth(links, pairs, n_nodes):
    """Of the deepest tree. Nodes are not in an order of depth, since parents come above nodes: each leaf walks up."""
    deepest = 0
    for tree in range(len(n_nodes)):
        for node in range(n_nodes[tree]):
            if links[tree, node, LEFT] > 0:
                continue
            depth = 0
            up = node
            while up > 0:
                up = np.int64(pairs[tree, (up - 1) // 2, PARENT])
                depth += 1
            deepest = max(deepest, depth)
    return deepest
