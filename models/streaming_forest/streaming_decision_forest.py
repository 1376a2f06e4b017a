"""Streaming decision trees and forests: CART that goes on growing with each mini-batch of labels.

Xu, Dey, Panda and Vogelstein 2021, Algorithms 1 and 2. How a tree learns a batch: models.streaming_forest.false_roots.

Labels are buffered in the state until `batch_size` of them are there, and count for nothing before: so a tree is the
same however programs are cut, down to single instances. The buffer is the newest part of the window of labels that
false roots are grown on.

Everything a tree draws is a function of the seed, its serial number, and the number of the label or batch. Trees do
not see each other, so any number of threads gives the same bits: threads are over trees where they learn, and over
rows where they vote.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from riparian.models.explanation.description import moved
from riparian.models.kernels.draws import key
from riparian.models.kernels.threads import Parts
from riparian.models.layout import Paths, StateLayout
from riparian.models.observers.gaussians import check_growth
from riparian.models.streaming_forest.description import depth_of, describe_tree
from riparian.models.streaming_forest.entries import STREAMING_DECISION_FOREST
from riparian.models.streaming_forest.false_roots import (
    LEAVES,
    NODES,
    LabelWindow,
    RegrowScratch,
    StreamingForestSettings,
    StreamingForestTrees,
    arrive,
    place,
    regrow,
    room_for_forest,
    room_to_regrow,
    sort_in,
    vote,
    with_room,
)

BOOTSTRAP, FEATURES = 1, 2  # what draws are for
FADING = 0.9  # share of the trees' quality that a batch leaves
FIRST_REPLACED = 3  # batch
SHARING = 6  # trees from which on to keep the rows of the window in order takes less time than it saves
LEAST_NODES = 16  # room in a tree

# Places in `numbers`, and in `quality`.
LEARNED, NEXT_SERIAL = range(2)
HITS, WEIGHT = range(2)


class StreamingForestState(NamedTuple):
    """Everything the forest knows. n: room for nodes in a tree.

    feature, left, value, counts, sizes : as models.streaming_forest.false_roots.StreamingForestTrees has them.
    serials : (trees,) int64, numbers of the trees in the order they were begun.
    quality : (trees, 2) float64, faded weight of labels that a tree would have predicted just before it learned their
        batch, and of all.
    columns : (d, size) float64, the window, a ring; missing values as infinity.
    y : (size,) int64, of the window.
    w : (size,) float64, of the window.
    numbers : (2,) int64, labels learned, the next serial.
    """

    feature: NDArray[np.int32]
    left: NDArray[np.int32]
    value: Floats
    counts: Floats
    sizes: NDArray[np.int32]
    serials: NDArray[np.int64]
    quality: Floats
    columns: Floats
    y: NDArray[np.int64]
    w: Floats
    numbers: NDArray[np.int64]


# Of a single tree, what a forest lets its users choose.
SINGLE = {"n_trees": 1, "max_features": "all", "bootstrap": False, "replaced": "never", "n_replaced": 0}
SINGLE |= {"vote": "average"}


class StreamingDecisionForest(Learner):
    """Streaming decision forest (SDF).

    A tree learns each batch of `batch_size` labels: the leaves that it reaches are grown further on the rows of the
    window that lie in them. Missing values (NaN) go to the right child of a test, and whether a value is known is a
    test as well. Nominal features are tested for one value against the rest (the paper has them as numbers). A label
    outside 0 .. n_outputs - 1 and a weight that is not positive and finite teach nothing. Weights count as repetitions,
    `min_split` counts rows.

    Memory is bounded by n_trees, max_nodes and window. At max_nodes a tree does not split any more, and its leaves go
    on counting; where trees are replaced it is gone some day.

    Up to `batch_size` labels wait, and do not influence predictions. Trees that predicted the fewest labels right are
    begun anew from the third batch on ("fading": with probability 1 / batches so far). Threads pay where batches and
    trees are many: a tree that is begun anew grows on one, half of the work at the defaults.

    Notes
    -----
    The paper permutes each tree's batches, which moves nothing but the draws of features: those are each tree's own.
    Its reference implementation bootstraps them; here the bootstrap is online (Oza and Russell 2001). It grows a leaf
    on the batch's rows alone and overwrites its values, so that one row turns what many have taught: `leaf_values:
    overwrite` with `window: 0`. It replaces "fading", by the accuracy on one batch; here that is faded by 0.9 a batch.
    A new tree is grown on the whole window.

    Examples
    --------
    >>> learner = StreamingDecisionForest(Schema((0, 0), 2, "classification"), n_trees=10, batch_size=50)
    >>> x = np.random.default_rng(1).random((500, 2))
    >>> learner.learn_many(x, (x[:, 1] > 0.5).astype(float))
    >>> int(learner.predict_many([[0.3, 0.9]]).argmax())
    1
    """

    entry = STREAMING_DECISION_FOREST
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"feature left value": "trees room", "counts": "trees leaves", "sizes serials quality": "trees"},
        places={"feature": "features", "y": "outputs"},
        bounded={("sizes", NODES): "room", ("sizes", LEAVES): "leaves"},
        paths=(Paths("feature", ("left",), pairs=True, leaves="leaves"),),
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = {**SINGLE, **self._parameters}
        d, n_trees = schema.n_features, p["n_trees"]
        self._batch_size: int = p["batch_size"]
        self._replaced: str = p["replaced"]
        self._n_replaced: int = p["n_replaced"]
        self._voting, self._reaching, self._growing = Parts(), Parts(), Parts()
        self._settings = StreamingForestSettings(
            d if p["max_features"] == "all" else int(np.ceil(np.sqrt(d))),
            p["min_split"],
            p["max_nodes"],
            p["leaf_values"] == "counts",
            p["bootstrap"],
            p["vote"] == "majority",
        )
        size, k = max(p["window"], self._batch_size), schema.n_outputs
        self._forest = room_for_forest(n_trees, LEAST_NODES, k)
        self._serials = np.arange(n_trees, dtype=np.int64)
        self._quality = np.zeros((n_trees, 2))
        self._columns = np.full((d, size), np.inf)
        self._y, self._w = np.zeros(size, np.int64), np.zeros(size)
        self._numbers = np.array([0, n_trees], np.int64)
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the state, and is not state itself."""
        n_trees, size = len(self._serials), len(self._y)
        self._n_values = np.array(self.schema.n_values, np.int32)
        self._nominal = np.flatnonzero(self._n_values)
        self._keys: dict[int, NDArray[np.uint64]] = {
            purpose: np.array([key(self.seed, int(serial), purpose) for serial in self._serials], np.uint64)
            for purpose in (BOOTSTRAP, FEATURES)
        }
        sorts = n_trees >= SHARING and len(self._nominal) < len(self._columns)
        self._window = LabelWindow(
            self._columns, self._y, self._w, np.full(size, -1, np.int64), np.full((n_trees, size), -1, np.int32),
            *np.zeros((2, len(self._columns), size if sorts else 0), np.uint32),
        )  # fmt: skip
        self._n_sorted = 0
        self._right = np.zeros(n_trees)
        self._scratch: list[RegrowScratch] = []
        self._number_rows()
        learned = int(self._numbers[LEARNED])
        self._sort_in(np.arange(min(learned, size)))
        self._place(0, n_trees, learned - learned % self._batch_size)

    def _number_rows(self) -> None:
        """window.number: the ring's place i holds the newest label whose number is i, modulo its size."""
        size, learned = len(self._y), int(self._numbers[LEARNED])
        newest = learned - 1 - (learned - 1 - np.arange(size)) % size
        self._window.number[:] = np.maximum(newest, -1)

    def _sort_in(self, new: NDArray[np.int64]) -> None:
        """Rows at these places, ascending, into the window's order."""
        if not self._window.order.size:
            return
        replaced = np.zeros(len(self._y), np.uint8)
        replaced[new] = 1
        sort_in(self._window, self._n_values, new, self._n_sorted, replaced)
        self._n_sorted = min(int(self._numbers[LEARNED]), len(self._y))

    def _place(self, first: int, last: int, before: int) -> None:
        rows = np.ascontiguousarray(self._columns.T)
        place(
            self._forest, self._window, self._n_values, rows, self._keys[BOOTSTRAP], self._settings.bootstrap, before,
            first, last,
        )  # fmt: skip

    # Running

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        with np.errstate(invalid="ignore"):
            teaches = (program.op == LEARN) & (program.y >= 0.0) & (program.y < self.schema.n_outputs)
            teaches &= (program.w > 0.0) & (program.w < np.inf)
        labels, predictions = np.flatnonzero(teaches), np.flatnonzero(program.op == PREDICT)
        rows = program.row[predictions]
        n_taken = n_voted = 0
        while n_taken < len(labels):
            wanted = self._batch_size - int(self._numbers[LEARNED]) % self._batch_size
            taken = labels[n_taken : n_taken + wanted]
            self._take_in(slab[program.row[taken]], program.y[taken], program.w[taken])
            n_taken += len(taken)
            if len(taken) == wanted:
                voted = int(np.searchsorted(predictions, taken[-1]))
                self._predict(rows[n_voted:voted], slab, out)
                n_voted = voted
                self._learn_batch()
        self._predict(rows[n_voted:], slab, out)

    def _predict(self, rows: NDArray[np.int32], slab: Floats, out: Floats) -> None:
        if not len(rows):
            return

        def vote_on(first: int, last: int) -> None:
            vote(self._forest, self._n_values, slab, rows, first, last, self._settings.majority, out)

        self._voting.run(len(rows), len(rows), vote_on)

    def _take_in(self, x: Floats, y: Floats, w: Floats) -> None:
        """Put labels into the ring. x : (n, d), a copy."""
        x[~np.isfinite(x)] = np.inf
        for f in self._nominal:
            column = x[:, f]
            column[(column < 0.0) | (column >= self._n_values[f])] = np.inf
        learned = int(self._numbers[LEARNED])
        at = np.arange(learned, learned + len(y)) % len(self._y)
        self._columns[:, at] = x.T
        self._y[at], self._w[at] = y, w
        self._numbers[LEARNED] += len(y)

    def _learn_batch(self) -> None:
        n, learned, n_trees = self._batch_size, int(self._numbers[LEARNED]), len(self._serials)
        self._number_rows()
        self._make_room()
        new = np.arange(learned - n, learned) % len(self._y)
        batch = np.ascontiguousarray(self._columns[:, new].T)
        number = learned // n
        self._sort_in(np.sort(new))
        begun: list[int] = []

        def reach(first: int, last: int) -> None:
            arrive(
                self._forest, self._window, self._n_values, batch, new, self._keys[BOOTSTRAP],
                self._settings.bootstrap, first, last, self._right,
            )  # fmt: skip

        def learn(first: int, last: int) -> None:
            try:
                scratch = self._scratch.pop()  # there is one a thread
            except IndexError:
                scratch = room_to_regrow(*self._shape)
            regrow(
                self._forest, self._window, self._n_values, new, self._keys[BOOTSTRAP], self._keys[FEATURES], number,
                self._settings, scratch, first, last,
            )  # fmt: skip
            self._scratch.append(scratch)

        self._reaching.run(n, n_trees, reach)
        self._quality *= FADING
        self._quality[:, HITS] += self._right
        self._quality[:, WEIGHT] += self._w[new].sum()
        if self._replaced != "never" and number >= FIRST_REPLACED:
            chance = 1.0 if self._replaced == "always" else 1.0 / number
            if chance == 1.0 or key(self.seed, number) < chance * 2.0**64:
                begun = self._weakest(self._n_replaced).tolist()
                for tree in begun:
                    self._begin_anew(tree)
        self._growing.run(n, n_trees, learn)

    def _make_room(self) -> None:
        """For as many nodes as a batch can add, in every tree; and scratch.

        That is two for each row of the window: one label may be why all rows of its leaf are distinguished.
        """
        n_rows = min(int(self._numbers[LEARNED]), len(self._y))
        wanted = min(int(self._forest.sizes[:, NODES].max()) + 2 * n_rows, self._settings.max_nodes + 1)
        room = self._forest.feature.shape[1]
        if room < wanted:
            while room < wanted:
                room *= 2
            self._forest = with_room(self._forest, room, self.schema.n_outputs)
            self._scratch = []
        n_codes = max(self.schema.n_values, default=0)
        self._shape = self.schema.n_features, len(self._y), room, self.schema.n_outputs, n_codes

    # Trees

    def _weakest(self, n: int) -> NDArray[np.int64]:
        """The n trees of least quality; of equal ones the oldest."""
        rate = self._quality[:, HITS] / np.maximum(self._quality[:, WEIGHT], 1e-300)
        return np.lexsort((self._serials, rate))[:n]

    def _begin_anew(self, tree: int) -> None:
        """Make a fresh tree of one, to be grown on the whole window with the batch that has arrived."""
        forest = self._forest
        forest.feature[tree], forest.value[tree], forest.left[tree] = -1, 0.0, 0
        forest.counts[tree], forest.sizes[tree] = 0.0, 1
        self._quality[tree] = 0.0
        self._serials[tree] = self._numbers[NEXT_SERIAL]
        self._numbers[NEXT_SERIAL] += 1
        for purpose, keys in self._keys.items():
            keys[tree] = key(self.seed, int(self._serials[tree]), purpose)
        self._place(tree, tree + 1, int(self._numbers[LEARNED]))

    # The contract

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        self._forest = with_room(self._forest, self._forest.feature.shape[1], schema.n_outputs)
        self.schema = schema
        self._prepare()

    def state(self) -> StreamingForestState:
        forest = self._forest
        return StreamingForestState(
            forest.feature, forest.left, forest.value, forest.counts, forest.sizes, self._serials, self._quality,
            self._columns, self._y, self._w, self._numbers,
        )  # fmt: skip

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore a state (Learner.restore). A state of more trees loses its weakest, to one of fewer fresh ones are
        added, which are grown on the window with the next batch; the rest goes on as it was."""
        n_trees = len(self._serials)
        self._columns = np.array(state["columns"], np.float64, order="C")
        self._y, self._w = np.array(state["y"], np.int64), np.array(state["w"], np.float64)
        self._numbers = np.array(state["numbers"], np.int64)
        self._serials, self._quality = np.array(state["serials"], np.int64), np.array(state["quality"], np.float64)
        dropped = self._weakest(max(len(self._serials) - n_trees, 0))
        kept = np.setdiff1d(np.arange(len(self._serials)), dropped)
        self._serials, self._quality = self._serials[kept], self._quality[kept]
        self._forest = StreamingForestTrees(
            *(np.array(state[field][kept], order="C") for field in StreamingForestTrees._fields)
        )
        fresh = n_trees - len(kept)
        if fresh > 0:
            first = int(self._numbers[NEXT_SERIAL])
            self._numbers[NEXT_SERIAL] += fresh
            self._serials = np.concatenate([self._serials, np.arange(first, first + fresh)])
            self._quality = np.concatenate([self._quality, np.zeros((fresh, 2))])
            more = room_for_forest(fresh, self._forest.feature.shape[1], self.schema.n_outputs)
            pairs: Any = zip(self._forest, more, strict=True)
            self._forest = StreamingForestTrees(*map(np.concatenate, pairs))
        self._prepare()

    def warm_up(self) -> None:
        """Compile the kernels (Learner.warm_up). A batch of one label, or else none would be learned."""
        twin = type(self)(self.schema, seed=self.seed, **{**self._parameters, "batch_size": 1, "window": 1})
        twin.learn_many(np.zeros((1, self.schema.n_features)), np.zeros(1))
        twin.predict_many(np.zeros((1, self.schema.n_features)))
        twin.size()

    def describe(self) -> list[dict[str, Any]]:
        """The trees, root first. Nodes as in a Hoeffding tree; "value": the counts of the leaves below. A root has
        "member", its serial number, and "accuracy", faded, of its predictions of labels just before it learned them."""
        nodes: list[dict[str, Any]] = []
        for tree in range(len(self._serials)):
            own = describe_tree([array[tree] for array in self._forest], self.schema)
            if len(self._serials) > 1:
                own[0]["member"] = int(self._serials[tree])
            if self._quality[tree, WEIGHT] > 0.0:
                own[0]["accuracy"] = float(self._quality[tree, HITS] / self._quality[tree, WEIGHT])
            nodes += moved(own, len(nodes), None, 0)
        return nodes

    def size(self) -> dict[str, int]:
        """Nodes and leaves of all trees together, and the depth of the deepest."""
        sizes = self._forest.sizes
        depth = max(
            depth_of(*arrays) for arrays in zip(self._forest.feature, self._forest.left, sizes[:, NODES], strict=True)
        )
        found = {"n_nodes": int(sizes[:, NODES].sum()), "n_leaves": int(sizes[:, LEAVES].sum()), "depth": depth}
        return found | ({"n_models": len(sizes)} if "n_trees" in self._parameters else {})
