"""The shrub ensemble as a learner: shrubs on windows of several lengths, and the blend of their votes.

Buschjäger, Hess and Morik 2022 have one window (`n_windows` 1). How long it should be is what decides most: 16 items
on a stream that changes all the time, 1,024 on one that does not. Here windows of `window`, `window` / 4, `window` / 16
… items each have shrubs of their own (models.shrubs.shrubs), which run a program one after the other, or on threads:
they know nothing of each other. Then their votes are blended in the program's order (models.shrubs.blend).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Learner, Program, Schema
from riparian.models.joined import joined
from riparian.models.kernels.threads import Parts
from riparian.models.layout import StateLayout
from riparian.models.observers.gaussians import check_growth
from riparian.models.shrubs.blend import Blend, blend_votes, even
from riparian.models.shrubs.description import describe
from riparian.models.shrubs.entries import SHRUB_ENSEMBLE
from riparian.models.shrubs.members import CROSS_ENTROPY, MSE
from riparian.models.shrubs.shrubs import PackedShrubs, Shrubs, ShrubSettings
from riparian.models.shrubs.trees import PackedTrees
from riparian.models.shrubs.window import FILLED, MEMBERS, PackedWindow

LOSSES = {"mse": MSE, "cross-entropy": CROSS_ENTROPY}
RATIO = 4  # length of one window to that of the next
SHORTEST = 2
PIECE = 4096  # operations whose votes are held at once


# Everything the ensemble knows: of each window its fields one after the other, the longest window first.
#
# b: items in all windows; m: members of all windows, the oldest of each first.
#
# x : (b, numeric features) float64, the windows, as models.shrubs.window.PackedWindow.
# codes : (b, nominal features) uint8, uint16 or uint32, as there.
# y : (b,) codes or float64, as there.
# w : (b,) float64, or (0,) where all are 1: the windows, models.shrubs.window.PackedWindow.
# features, tests, classes, shares : the trees, models.shrubs.trees.PackedTrees.
# weights, n_nodes, gram, labels, together, alone, judged : models.shrubs.shrubs.PackedShrubs.
# counts : (windows, 4) int64.
# random : (windows, 4) uint64.
# seen : (n_outputs,) uint8, alike in all windows.
# level : (windows, 2) float64.
# blend : (windows,), weights of models.shrubs.blend.Blend.
# errors : (windows, windows), as there.
ShrubEnsembleState = joined(
    "ShrubEnsembleState", PackedWindow._fields, PackedTrees._fields, PackedShrubs._fields, ("blend", "errors")
)


class ShrubEnsemble(Learner):
    """Shrub ensemble for classification and regression.

    Missing values (NaN) go to the right child of a test, and whether a value is known is a test as well. Nominal
    features are tested for one value against the rest. A label outside 0 .. n_outputs - 1 and a weight that is not
    positive and finite teach nothing. Weights count as repetitions, in trees and in the loss.

    Memory is bounded by window and n_trees: a tree has at most 2 window - 1 nodes. Nothing happens at the bound: the
    oldest item and the tree of least weight always make room.

    `every`, `window` and the bounds are of the longest window: one a quarter as long has a tree four times as often,
    and never less than 2 items. Before `every` labels there is a tree with labels 1, 2, 4, 8 … The loss of a regression
    is the squared error in units of the window's variance. "subspace" are at least two features a tree (random
    subspaces: Ho 1998). With a `train_share` below 1 a tree is also judged by what comes later.

    Notes
    -----
    The gradient is that of the mean over the window and the classes: 2 (G w - b) / C, so that one item moves a weight
    by alpha / (B C) at most, as in the paper's Theorem 1. C is the number of classes learned so far. Weights are pruned
    once, after the last step. With train_share below 1 each entry of the Gram matrix is a mean over the items that
    judge both members.

    Examples
    --------
    >>> learner = ShrubEnsemble(Schema((0, 0), 2, "classification"), window=64)
    >>> x = np.random.default_rng(1).random((500, 2))
    >>> learner.learn_many(x, (x[:, 1] > 0.5).astype(float))
    >>> int(learner.predict_many([[0.3, 0.9]]).argmax())
    1
    """

    entry = SHRUB_ENSEMBLE
    layout: ClassVar[StateLayout] = StateLayout(
        rows={
            "x codes y": "items", "w gram together alone judged": "*", "features": "nodes", "tests": "*",
            "classes": "*", "shares": "*", "weights n_nodes labels": "members",
        },
        counts={("counts", FILLED): "items", ("counts", MEMBERS): "members", "n_nodes": "nodes"},
        places={"features": "features", "classes": "outputs"},
    )  # fmt: skip

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self._settings = ShrubSettings(
            p["n_trees"],
            p["max_depth"],
            p["every"],
            p["step"],
            p["burn_in"],
            p["ridge"],
            LOSSES[p["loss"]],
            p["train_share"],
            _n_tried(p["max_features"], schema.n_features),
            p["max_features"] == "subspace",
            p["splits"] == "best",
            p["weighting"] == "equal",
            schema.task == "classification",
        )
        self._windows = [
            Shrubs(
                schema,
                self._settings._replace(every=max(1, p["every"] // RATIO**k)),
                max(SHORTEST, p["window"] // RATIO**k),
                seed + (k << 32),
            )
            for k in range(p["n_windows"])
        ]
        self._blend = even(p["n_windows"])
        self._parts = Parts(even=False)

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        n, n_windows = len(program.op), len(self._windows)
        if n_windows == 1:
            self._windows[0].run(program, slab, out, False)
            return
        gradient, order = np.zeros(n_windows), np.zeros(n_windows, np.uint32)
        products = np.zeros((n_windows, n_windows))
        for at in range(0, n, PIECE):
            now = slice(at, at + PIECE)
            piece = Program(program.op[now], program.row[now], program.y[now], program.w[now])
            votes = np.zeros((n_windows, len(piece.op), self.schema.n_outputs))
            self._parts.run(len(piece.op), n_windows, partial(self._run_windows, piece, slab, votes))
            blend_votes(*piece, votes, out, *self._blend, self._settings.classes, gradient, order, products)

    def _run_windows(self, piece: Program, slab: Floats, votes: Floats, first: int, last: int) -> None:
        for k in range(first, last):
            self._windows[k].run(piece, slab, votes[k], True)

    def resize(self, schema: Schema) -> None:
        check_growth(self.schema, schema)
        self.schema = schema
        for shrubs in self._windows:
            shrubs.resize(schema)

    def state(self) -> Any:
        parts = [
            window._asdict() | trees._asdict() | rest._asdict()
            for window, trees, rest in (shrubs.pack() for shrubs in self._windows)
        ]
        fields = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        if (fields["w"] == 1.0).all():
            fields["w"] = np.zeros(0)
        fields |= {name: fields[name].reshape(-1, 4) for name in ("counts", "random")}
        fields |= {"level": fields["level"].reshape(-1, 2), "seen": parts[0]["seen"]}
        return ShrubEnsembleState(**fields, blend=self._blend.weights, errors=self._blend.errors)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        before = {"seen": self._seen_in(state), "level": np.zeros((len(self._windows), 2))}  # of states without
        given_state = ShrubEnsembleState(**{**before, **state})
        w = given_state.w if len(given_state.w) else np.ones(len(given_state.y))
        judging = len(given_state.alone) > 0
        item = member = node = inner = leaf = share = triangle = byte = 0
        for k, shrubs in enumerate(self._windows):
            b, m = int(given_state.counts[k, FILLED]), int(given_state.counts[k, MEMBERS])
            own = slice(member, member + m)
            n_nodes = int(given_state.n_nodes[own].sum())
            n_leaves, n_pairs, n_bytes = (n_nodes + m) // 2, m * (m + 1) // 2, (m * b + 7) // 8
            classes = given_state.classes[leaf : leaf + n_leaves]
            n_shares = int((classes < 0).sum()) if len(classes) else n_leaves
            items, pairs = slice(item, item + b), slice(triangle, triangle + n_pairs)
            shrubs.unpack(
                PackedWindow(given_state.x[items], given_state.codes[items], given_state.y[items], w[items]),
                PackedTrees(
                    given_state.features[node : node + n_nodes],
                    given_state.tests[inner : inner + n_nodes - n_leaves],
                    classes,
                    given_state.shares[share : share + n_shares],
                ),
                PackedShrubs(
                    given_state.weights[own],
                    given_state.n_nodes[own],
                    given_state.gram[pairs],
                    given_state.labels[own],
                    given_state.together[pairs],
                    given_state.alone[own],
                    given_state.judged[byte : byte + n_bytes],
                    given_state.counts[k],
                    given_state.random[k],
                    given_state.seen,
                    given_state.level[k],
                ),
            )
            item, member, node = item + b, member + m, node + n_nodes
            inner, leaf, share = inner + n_nodes - n_leaves, leaf + n_leaves, share + n_shares
            triangle, byte = triangle + n_pairs, byte + (n_bytes if judging else 0)
        self._blend = Blend(np.array(given_state.blend), np.array(given_state.errors))

    def _seen_in(self, state: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
        """The classes of the windows: what a state was written with before it counted those seen."""
        seen = np.zeros(self.schema.n_outputs if self._settings.classes else 0, np.uint8)
        if len(seen):
            seen[state["y"].astype(np.int64)] = 1
        return seen

    def describe(self) -> list[dict[str, Any]]:
        """The ensemble, with the shares of its "windows" in the vote, then each tree, root first, with its own "share"
        and the length of its "window". Nodes as in a Hoeffding tree, and tests whether a value is "known"; "weight" is
        that of the items in the window that reach a node, "value" of an inner node their mean."""
        return describe(self._windows, self._blend)

    def size(self) -> dict[str, int]:
        sizes = [shrubs.size_of_trees() for shrubs in self._windows]
        return {"n_nodes": sum(n for n, _ in sizes), "n_leaves": sum(n for _, n in sizes), "depth": 0}


def _n_tried(max_features: str, n_features: int) -> int:
    if max_features == "subspace":
        return min(n_features, max(2, (n_features + 1) // 2))
    return n_features if max_features == "all" else int(np.ceil(np.sqrt(n_features)))
