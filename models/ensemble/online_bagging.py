"""Online bagging: each tree learns each instance as often as a bootstrap sample would hold it.

Oza and Russell 2001: the number of times that an instance is in a bootstrap sample of n tends to Poisson(1), so each
member draws it for itself, label by label.
"""

from typing import Any

import numpy as np

from riparian.models.contract import Floats, Program
from riparian.models.ensemble.chunks import Chunk, draw_weights
from riparian.models.ensemble.entries import ONLINE_BAGGING
from riparian.models.ensemble.members import Ensemble
from riparian.models.ensemble.regression import regression_tree
from riparian.models.hoeffding.hoeffding_tree import HoeffdingTree
from riparian.models.kernels.draws import key, poisson_table

BOOTSTRAP = 1  # what draws are for


class OnlineBagging(Ensemble):
    """Hoeffding trees over online bootstrap samples (OzaBag).

    An instance's own weight multiplies the drawn one. Missing values, what teaches nothing, and bounds on memory: as
    HoeffdingTree, of which there are `n_models`.

    Votes, threads and the trees of a regression are as in AdaptiveRandomForest.

    Notes
    -----
    MOA's OzaBag adds up normalised votes, which is "average".

    Examples
    --------
    >>> import numpy as np
    >>> from riparian.models.contract import Schema
    >>> learner = OnlineBagging(Schema((0, 2), 2, "classification"), n_models=3, grace_period=50)
    >>> x = np.random.default_rng(1).random((2000, 2)).round()
    >>> learner.learn_many(x, x[:, 1])
    >>> learner.predict_many([[0.0, 1.0]]).tolist()
    [[0.0, 1.0]]
    """

    entry = ONLINE_BAGGING

    def _set_up(self) -> None:
        self._table = poisson_table(self._parameters.get("rate", 1.0))

    def _new_member(self, serial: int) -> Any:
        if self.schema.task == "regression":
            return regression_tree(self.schema, serial, self._tree)
        return HoeffdingTree(self.schema, seed=serial, **self._tree)

    def _prepare(self) -> None:
        super()._prepare()
        self._keys = np.array([key(self.seed, serial, BOOTSTRAP) for serial in self._serials.tolist()], np.uint64)
        self._drawn = list(self._weights)

    def _draw(self, first: int, last: int, chunk: Chunk) -> None:
        """Write the weights that these members learn the labels of a chunk with."""
        draw_weights(first, last, chunk.ordinal, chunk.program.w, *self._table, self._keys, self._weights)

    def _run_slots(self, first: int, last: int, chunk: Chunk) -> None:
        self._draw(first, last, chunk)
        super()._run_slots(first, last, chunk)

    def _run_member(self, slot: int, chunk: Chunk, votes: Floats, errors: Floats) -> None:
        op, row, y, _ = chunk.program
        self._members[slot].run(Program(op, row, y, self._drawn[slot]), chunk.slab, votes, errors)
