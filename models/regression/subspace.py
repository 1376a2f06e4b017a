"""A regression tree each of whose leaves looks for its test among some of the features: the member of a forest.

FIMT-DD without drift detection (models.regression.fimt, models.regression.hoeffding), but a leaf observes a random
subset of the features, as the members of the adaptive random forest for regression do (Gomes, Barddal, Ferreira and
Bifet 2018); its linear model has all of them. What a leaf does not observe has no merit, so ranking and splitting are
those of the plain tree.

A subset follows from the tree's seed and the node's id (nodes are never given back), so it is not state.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import PREDICT, Floats, Program, Schema
from models.ensemble.draws import key
from models.hoeffding.subspaces import draw_features
from models.kernel import kernel
from models.regression.base import RegressionTree
from models.regression.fimt import DONE, GROW, try_split
from models.regression.leaf import (
    EVALUATED,
    MEAN_LEAF,
    ORIGIN,
    SEEN,
    N,
    learn_target,
    learnable,
    predict_leaf,
    standardise,
    widen_all,
)
from models.regression.nodes import BLOCK, PARENT, has_room, route
from models.regression.observers import observe

# What one instance may need: a split.
MORE_NODES, MORE_BLOCKS = 2, 1


class Subset(NamedTuple):
    """Scratch: the features that a leaf observes of one row, as `observe` takes features. n_values, offset : of
    models.regression.observers.Layout, (m,). x : (1, m). places : (2, m)."""

    n_values: NDArray[np.int32]
    offset: NDArray[np.int64]
    x: Floats
    places: NDArray[np.int64]


class SubspaceRegressionTree(RegressionTree):
    """Hoeffding regression tree whose leaves observe `n_features` random features each, and that tells its errors.

    Missing values, nominal features, labels, weights and bounds on memory: as in models.regression.fimt.FimtDD.

    Parameters
    ----------
    schema : Schema
        Task "regression".
    seed : int
        Of the subsets.
    n_features : int or None
        Features that a leaf observes, >= 1; None, or more than there are: all.
    grace_period, delta, tie_threshold, leaf_prediction, learning_rate, learning_rate_decay, error_fading, n_bins, \
min_branch_fraction, max_nodes, max_depth
        As for FIMT-DD.

    References
    ----------
    H. M. Gomes, J. P. Barddal, L. E. B. Ferreira and A. Bifet: Adaptive random forests for data stream regression.
    ESANN 2018.

    Examples
    --------
    >>> learner = SubspaceRegressionTree(Schema((0, 2), 1, "regression"), n_features=1, grace_period=50)
    >>> x = np.random.default_rng(1).random((4000, 2)).round()
    >>> learner.learn_many(x, 10.0 * x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).round(3).tolist()
    [[10.0]]
    """

    name = "subspace-regression-tree"
    _chosen: NDArray[np.int32]

    def __init__(
        self,
        schema: Schema,
        *,
        seed: int = 0,
        n_features: int | None = None,
        grace_period: int = 100,
        delta: float = 0.01,
        tie_threshold: float = 0.05,
        leaf_prediction: str = "adaptive",
        learning_rate: float = 0.1,
        learning_rate_decay: float = 0.001,
        error_fading: float = 0.995,
        n_bins: int = 32,
        min_branch_fraction: float = 0.01,
        max_nodes: int = 2000,
        max_depth: int | None = None,
    ) -> None:
        if n_features is not None and n_features < 1:
            raise ValueError(f"parameter 'n_features' of model {self.name!r} is {n_features!r}: give at least 1")
        self._n_chosen = schema.n_features if n_features is None else min(int(n_features), schema.n_features)
        super().__init__(
            schema,
            seed,
            {
                "n_features": None if n_features is None else int(n_features),
                "grace_period": int(grace_period),
                "delta": float(delta),
                "tie_threshold": float(tie_threshold),
                "leaf_prediction": leaf_prediction,
                "learning_rate": float(learning_rate),
                "learning_rate_decay": float(learning_rate_decay),
                "error_fading": float(error_fading),
                "n_bins": int(n_bins),
                "min_branch_fraction": float(min_branch_fraction),
                "max_nodes": int(max_nodes),
                "max_depth": None if max_depth is None else int(max_depth),
            },
        )
        self._choose(np.zeros((0, self._n_chosen), np.int32))

    def _prepare(self) -> None:
        super()._prepare()
        m = self._n_chosen
        self._subset = Subset(
            np.zeros(m, np.int32), np.zeros(m, np.int64), np.zeros((1, m)), np.zeros((2, m), np.int64)
        )

    def _make_room(self, more_nodes: int, more_blocks: int) -> None:
        super()._make_room(more_nodes, more_blocks)
        self._choose(self._chosen)

    def _choose(self, known: NDArray[np.int32]) -> None:
        """What each node observes as a leaf, (n_nodes, m) int32, ascending; the first ones are known."""
        self._chosen = np.zeros((len(self._nodes.links), self._n_chosen), np.int32)
        self._chosen[: len(known)] = known
        draw_features(key(self.seed), len(known), self._chosen, self.schema.n_features)

    def run(self, program: Program, slab: Floats, out: Floats, errors: Floats | None = None) -> None:
        """As Learner.run. errors : (n,) float64 or None; a LEARN of a target that could teach, of whatever weight,
        writes how far the tree was off before it, |y - prediction|; 0 where it knew nothing. Then a PREDICT writes
        NaN while the tree knows nothing, not 0."""
        progress = np.zeros(1, np.int64)
        nothing = 0.0 if errors is None else np.nan
        errors = np.empty(len(program.op)) if errors is None else errors
        while (
            _run(
                program.op, program.row, program.y, program.w, slab, out, errors, nothing, progress,
                self._nodes, self._chosen, self._layout, self._growth, self._subset, self._scratch,
            ) == GROW
        ):  # fmt: skip
            self._make_room(MORE_NODES, MORE_BLOCKS)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._choose(self._chosen[:1])


@kernel
def _run(op, row, y, w, slab, out, errors, nothing, progress, nodes, chosen, layout, growth, subset, scratch):
    """Execute a program from progress[0] on. Mutates out, errors, progress, nodes and scratch.

    GROW: the next operation may need more capacity than there is; nothing of it has happened.
    O(depth + d + m log n_bins) an operation that observes m features, a split attempt once in a grace period.
    """
    links, test, blocks = nodes.links, nodes.test, nodes.blocks
    n_values, weight, offset, bins = layout
    z = scratch.z
    # The leaf of the row predicted last, and its inputs in z, while nothing was learned since.
    last_row = -1
    last_leaf = links[0, PARENT]
    for i in range(progress[0], len(op)):
        r = row[i]
        if op[i] == PREDICT:
            leaf = route(links, test, n_values, slab, r, 0)
            if growth.leaf_prediction != MEAN_LEAF:
                standardise(nodes.scales, n_values, slab, r, z)
            last_row = r
            last_leaf = leaf
            block = blocks[links[leaf, BLOCK]]
            out[r, 0] = nothing
            if block[N] > 0.0:
                out[r, 0] = predict_leaf(block, n_values, weight, growth.leaf_prediction, z, slab, r)
            continue
        if not learnable(y[i], 1.0):
            continue
        learns = learnable(y[i], w[i])
        if learns and not has_room(nodes, MORE_NODES, MORE_BLOCKS):
            progress[0] = i
            return GROW
        leaf = last_leaf
        if last_row != r:
            leaf = route(links, test, n_values, slab, r, 0)
            if growth.leaf_prediction != MEAN_LEAF:
                standardise(nodes.scales, n_values, slab, r, z)
        block = blocks[links[leaf, BLOCK]]
        if not learns:
            known = predict_leaf(block, n_values, weight, growth.leaf_prediction, z, slab, r)
            errors[i] = abs(y[i] - known) if block[N] > 0.0 else 0.0
            continue
        last_row = -1
        own = chosen[leaf]
        errors[i] = abs(y[i] - learn_target(block, n_values, weight, growth, z, slab, r, y[i], w[i]))
        for j in range(len(own)):
            f = own[j]
            subset.n_values[j] = n_values[f]
            subset.offset[j] = offset[f]
            subset.x[0, j] = slab[r, f]
        observe(block, subset.n_values, subset.offset, bins[0], subset.places, subset.x, 0, y[i] - block[ORIGIN], w[i])
        if block[SEEN] - block[EVALUATED] >= growth.grace_period:
            try_split(leaf, nodes, layout, growth, growth.max_nodes, scratch)
        widen_all(nodes.scales, n_values, slab, r, y[i], w[i])
    return DONE
