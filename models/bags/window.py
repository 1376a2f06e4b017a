"""A window of bags, and what learners have in common that are fitted to one.

The batch learners for bags make a model of all bags they are given. On a stream they are given a window, the newest
bags, and the model is made anew each time so many more have come. The window is two rings, of bags and of their
instances, so that it is bounded in both, whatever the sizes of the bags.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riparian.models.contract import Bags, Floats, Learner, Program, Schema
from riparian.models.joined import copied, zeros
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout

# numbers in BagWindow.at
FIRST, N_BAGS = 0, 1  # the oldest bag's place in the ring of bags; bags
HEAD, N_ROWS = 2, 3  # the oldest instance's place in the ring of instances; instances
SINCE, FITTED, N_AT = 4, 5, 6  # bags learned since the last fit; bags in the window at that time

# what `add` returns
ADDED, FULL = 0, 1

LEAST_ROWS = 64


class BagWindow(NamedTuple):
    """The newest bags: a ring of C bags, and a ring of R instances that grows to the bound.

    x : (R, d) float64.
    size : (C,) int64, instances of each bag.
    y, w : (C,) float64, label (0 or 1) and weight.
    at : (6,) int64, the numbers named above.
    """

    x: Floats
    size: NDArray[np.int64]
    y: Floats
    w: Floats
    at: NDArray[np.int64]

    @classmethod
    def empty(cls, n_features: int, n_bags: int) -> "BagWindow":
        return zeros(cls, (0, n_features), n_bags, n_bags, n_bags, N_AT)

    def rows(self) -> NDArray[np.int64]:
        """Rows of x in order of arrival."""
        head, n = int(self.at[HEAD]), int(self.at[N_ROWS])
        return (head + np.arange(n)) % max(1, len(self.x))

    def bags(self) -> NDArray[np.int64]:
        """Places of the bags in order of arrival."""
        return (int(self.at[FIRST]) + np.arange(int(self.at[N_BAGS]))) % len(self.size)

    def grown(self, n_rows: int) -> "BagWindow":
        """A copy with room for n_rows instances."""
        x = np.zeros((n_rows, self.x.shape[1]))
        rows = self.rows()
        x[: len(rows)] = self.x[rows]
        self.at[HEAD] = 0
        return self._replace(x=x)


class TrainingSet(NamedTuple):
    """m bags of n instances in order of arrival.

    x : (n, d) float64.
    bag : (n,) int64, which bag an instance is of, ascending.
    size : (m,) int64.
    positive : (m,) uint8.
    w : (m,) float64.
    """

    x: Floats
    bag: NDArray[np.int64]
    size: NDArray[np.int64]
    positive: NDArray[np.uint8]
    w: Floats


@kernel
def add(window, slab, row, y, w, max_rows):
    """Put bag `row` of `slab` into the window (mutated); the oldest leave for it. FULL, and nothing has changed, where
    the ring of instances must grow first. A bag is left out where it has no instance, or more than max_rows. O(size of
    the bag, and of those that leave)."""
    n = slab.size[row]
    if n < 1 or n > max_rows or not (y == 0.0 or y == 1.0) or not (w > 0.0 and w < np.inf):
        return ADDED
    at, capacity = window.at, len(window.x)
    if at[N_ROWS] + n > capacity and capacity < max_rows:
        return FULL
    while at[N_BAGS] >= len(window.size) or at[N_ROWS] + n > capacity:
        oldest = window.size[at[FIRST]]
        at[HEAD] = (at[HEAD] + oldest) % capacity
        at[N_ROWS] -= oldest
        at[FIRST] = (at[FIRST] + 1) % len(window.size)
        at[N_BAGS] -= 1
    tail = (at[HEAD] + at[N_ROWS]) % capacity
    for i in range(n):
        for f in range(slab.x.shape[1]):
            window.x[tail, f] = slab.x[slab.start[row] + i, f]
        tail = (tail + 1) % capacity
    place = (at[FIRST] + at[N_BAGS]) % len(window.size)
    window.size[place] = n
    window.y[place] = y
    window.w[place] = w
    at[N_BAGS] += 1
    at[N_ROWS] += n
    at[SINCE] += 1
    return ADDED


@kernel
def is_due(at, refit_every):
    """Whether a fit is due: bags learned since the last one are `refit_every`, or as many as it had (so that the
    first bags of a stream are used at once: it fits at 1, 2, 4, 8, … bags)."""
    return at[SINCE] >= max(1, min(refit_every, at[FITTED]))


class BagWindowLearner(Learner):
    """Base of learners that are fitted to a window of bags.

    Parameters
    ----------
    schema : Schema
        Task "multi-instance".
    window : int
        Most bags kept.
    max_instances : int
        Most instances kept, of all bags together: the oldest bags leave. A bag of more than that teaches nothing.
    refit_every : int
        Bags learned until the model is made anew (sooner while there are fewer).
    """

    state_type: ClassVar[Any]  # of the window's fields, behind "window_", and those of `_model`
    _model: Any  # a NamedTuple of arrays
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"window_x": "room", "window_size": "=bags"},
        bounded={"window_size": "room", ("window_at", N_ROWS): "room", ("window_at", N_BAGS): "bags"},
    )

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        super().__init__(schema, seed=seed, **parameters)
        p = self._parameters
        self.max_instances, self.refit_every = p["max_instances"], p["refit_every"]
        self._window = BagWindow.empty(schema.n_features, p["window"])
        self._n_values = np.array(schema.n_values, np.int64)

    @abstractmethod
    def _run(self, i: int, program: Program, slab: Bags, out: Floats) -> int:
        """Execute `program` from operation i on; where it stopped, because the window is full or a fit is due."""

    @abstractmethod
    def _fit(self, training: TrainingSet) -> None:
        """Make a new model."""

    def run(self, program: Program, slab: Bags, out: Floats) -> None:
        i = 0
        while i < len(program.op):
            i = self._run(i, program, slab, out)
            if is_due(self._window.at, self.refit_every):
                self._refit()
            elif i < len(program.op):
                needed = int(self._window.at[N_ROWS] + slab.size[program.row[i]])
                larger = max(2 * len(self._window.x), needed, LEAST_ROWS)
                self._window = self._window.grown(min(larger, self.max_instances))

    def fit(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn the bags, and make a model of all that are in the window then."""
        every, self.refit_every = self.refit_every, 2**62
        self._window.at[FITTED] = 2**62
        try:
            self.learn_many(x, y, w)
        finally:
            self.refit_every = every
        self._refit()

    def _refit(self) -> None:
        at = self._window.at
        at[SINCE], at[FITTED] = 0, at[N_BAGS]
        if at[N_BAGS]:
            self._fit(self._training_set())

    def _training_set(self) -> TrainingSet:
        rows, bags = self._window.rows(), self._window.bags()
        size = self._window.size[bags]
        return TrainingSet(
            self._window.x[rows],
            np.repeat(np.arange(len(bags)), size),
            size,
            (self._window.y[bags] == 1.0).astype(np.uint8),
            self._window.w[bags],
        )

    def resize(self, schema: Schema) -> None:
        self.schema = schema
        self._n_values = np.array(schema.n_values, np.int64)

    def state(self) -> Any:
        return self.state_type(*self._window, *self._model)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._window, self._model = copied(state, self._window, "window_"), copied(state, self._model)
