"""The learner for bags of instances: stochastic gradient trees with the loss of section 4.3."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from riparian.models.contract import LEARN, Bags, Floats, Program, Schema
from riparian.models.gradient import bag_committee
from riparian.models.gradient.bag_committee import N_PROGRESS
from riparian.models.gradient.committee import BIN, NEED_BLOCKS, NEED_NODES, WARM
from riparian.models.gradient.learner_state import BUFFERED, NEXT_BINS, READY, SPREAD, UNIT
from riparian.models.gradient.stochastic_gradient_tree import StochasticGradientTree
from riparian.models.gradient.tree import make_room
from riparian.models.kernels.kernel import GROW


class BagGradientTree(StochasticGradientTree):
    """Stochastic gradient trees on instances, learned from labels of bags: the bag is as positive as its highest one.

    The warm-up is `warm_up` instances, of whole bags. Quantile bins stay as the warm-up gave them, and `reset_delta` is
    not used.

    Parameters
    ----------
    schema : Schema
        Task "multi-instance".
    **parameters
        As of `StochasticGradientTree`. `grace_period` counts bags, `rebin_period` bags, `poisson` draws for bags.

    References
    ----------
    H. Gouk, B. Pfahringer and E. Frank: Stochastic gradient trees. ACML 2019.

    Examples
    --------
    >>> learner = BagGradientTree(Schema((0,), 2, "multi-instance"), warm_up=10)
    >>> bags = Bags.of([1, 2] * 50, np.tile([[0.0], [1.0], [9.0]], (50, 1)))
    >>> learner.fit(bags, [0, 1] * 50)
    >>> learner.predict_many(Bags.of([2, 2], [[0.0], [0.1], [8.5], [0.0]])).argmax(axis=1)
    array([0, 1])
    """

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        self._task = self._task._replace(sample=0, reset_delta=0.0)
        n_stages = self._effective["n_stages"]
        self._gradients, self._weights = np.zeros((n_stages, 2)), np.zeros(n_stages)

    def _run(self, program: Program, slab: Bags, out: Floats, replay: bool) -> None:
        progress = np.zeros(N_PROGRESS, np.int64)
        heights = np.zeros(max(1, int(slab.size.max(initial=0))))
        while True:
            status = bag_committee.run(
                program.op, program.row, program.y, program.w, slab, out, progress, self._nodes, self._roots,
                self._bins, self._layout, self._growth, self._learned, self._task, self._chosen, self._scratch,
                self._search, self._gradients, self._weights, heights, replay,
            )  # fmt: skip
            if status == GROW:
                self._nodes = make_room(self._nodes, int(progress[NEED_NODES]), int(progress[NEED_BLOCKS]))
            elif status == WARM:
                self._begin(out)
            elif status == BIN:
                self._rebin()
            else:
                return

    def fit(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn a training set in several passes, with bins of all its instances."""
        if isinstance(x, Bags) and not self._learned.counts[READY] and len(x.size):
            self._end_warm_up(x.take(np.arange(len(x.size))).x)
        super().fit(x, y, w)

    def _end_warm_up(self, rows: Floats) -> None:
        """Bins of these instances."""
        for f, n in enumerate(self.schema.n_values):
            finite = rows[np.isfinite(rows[:, f]), f]
            if n == 0 and len(finite):
                self._bins.ranges[f] = finite.min(), finite.max()
        self._learned.target[SPREAD] = self._learned.target[UNIT] = 1.0
        counts = self._learned.counts
        counts[READY], counts[BUFFERED] = 1, 0
        self._learned = self._learned._replace(buffer=np.zeros((0, self.schema.n_features + 2)))
        self._find_bins(rows)
        self._schedule()

    def _schedule(self) -> None:
        super()._schedule()
        if self._effective["binning"] == "quantiles":
            self._learned.counts[NEXT_BINS] = np.iinfo(np.int64).max

    def _begin(self, out: Floats) -> None:
        state, d = self._learned, self.schema.n_features
        kept = state.buffer[: state.counts[BUFFERED]]
        rows = np.ascontiguousarray(kept[:, :d])
        first = np.flatnonzero(~np.isnan(kept[:, d]))
        y, w = kept[first, d].copy(), kept[first, d + 1].copy()
        self._end_warm_up(rows)
        if self._effective["replay"]:
            n = len(first)
            bags = Bags.of(np.diff(first, append=len(rows)), rows)
            program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), y, w)
            self._run(program, bags, np.zeros((n, 2)), True)
