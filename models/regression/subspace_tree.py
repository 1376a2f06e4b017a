"""A regression tree each of whose leaves looks for its test among some of the features: the member of a forest.

FIMT-DD without drift detection (models.regression.fimt_dd, models.regression.hoeffding_regression_tree), but a leaf
observes a random subset of the features, as the members of the adaptive random forest for regression do (Gomes,
Barddal, Ferreira and Bifet 2018); its linear model has all of them. What a leaf does not observe has no merit, so
ranking and splitting are those of the plain tree.

A subset follows from the tree's seed and the node's id (nodes are never given back), so it is not state.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats, Program, Schema
from riparian.models.hoeffding.feature_subsets import draw_features
from riparian.models.kernels.draws import key
from riparian.models.regression.entries import SUBSPACE_TREE
from riparian.models.regression.fimt_dd import FramedTree
from riparian.models.regression.program_values import UNTOLD, DriftSettings, room_for


class SubspaceRegressionTree(FramedTree):
    """Hoeffding regression tree whose leaves observe `n_features` random features each, and that reports its errors.

    Missing values, nominal features, labels, weights and bounds on memory: as in models.regression.fimt_dd.FimtDD.

    Examples
    --------
    >>> learner = SubspaceRegressionTree(Schema((0, 2), 1, "regression"), n_features=1, grace_period=50)
    >>> x = np.random.default_rng(1).random((4000, 2)).round()
    >>> learner.learn_many(x, 10.0 * x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).round(3).tolist()
    [[10.0]]
    """

    entry = SUBSPACE_TREE

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._drift = DriftSettings(False, 0.0, 0.0, 1.0, 1.0, self.most_nodes)
        self._choose(np.zeros((0, self._n_chosen), np.int32))

    @property
    def _n_chosen(self) -> int:
        d, wanted = self.schema.n_features, self._parameters["n_features"]
        return d if wanted is None else min(int(wanted), d)

    def _prepare(self) -> None:
        super()._prepare()
        self._subset = room_for(self._n_chosen)

    def _make_room(self, more_nodes: int, more_blocks: int) -> None:
        super()._make_room(more_nodes, more_blocks)
        self._choose(self._chosen)

    def _choose(self, known: NDArray[np.int32]) -> None:
        """What each node observes as a leaf, (n_nodes, m) int32, ascending; the first ones are known."""
        self._running = None
        self._chosen = np.zeros((len(self._nodes.links), self._n_chosen), np.int32)
        self._chosen[: len(known)] = known
        draw_features(key(self.seed), len(known), self._chosen, self.schema.n_features)

    def run(self, program: Program, slab: Floats, out: Floats, errors: Floats | None = None) -> None:
        """Execute a program (Learner.run). errors : (n,) float64 or None; a LEARN of a target that could teach, of
        whatever weight, writes how far the tree was off before it, |y - prediction|; NaN where it knew nothing."""
        self._run(program, slab, out, UNTOLD if errors is None else errors)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super().restore(state)
        self._choose(self._chosen[:1])
