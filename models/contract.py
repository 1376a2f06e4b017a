"""What every learner is: a fold over predictions and labels, held in arrays.

A learner sees instances as rows of a `slab`, a (capacity, d) float64 array that the caller owns: numeric
features are values, nominal ones are codes 0, 1, 2, … as floats, NaN is a missing value. Where the task is
"multi-instance" a row holds a bag of instances, and the slab is a `Bags`. A `Program` says which row to predict and
which to learn, in order; `run` executes it in one kernel call and writes each prediction beside its row, into `out`.
Invariants that the contract tests hold every learner to:

- `run` of one program equals `run` of any split of it, bit for bit; so do `predict_many` and `learn_many`.
- PREDICT changes no state. Inputs are never changed.
- A learner that has learned nothing says so: probabilities are all 0, a value is NaN.
- Same schema, parameters, seed and programs give the same bits.
- `restore(state())` into a new learner of the same schema continues as if nothing had happened.
- `resize` to a larger schema changes no prediction for what was known; new classes have probability 0.
- Memory is bounded, and the docstring of the learner says what happens at the bound.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

PREDICT = 0
LEARN = 1

Floats = NDArray[np.float64]


class Schema(NamedTuple):
    """The shape of a learner's world.

    n_values : tuple of d int. 0 marks a numeric feature; k > 0 a nominal one whose codes stay below k (a
        capacity: it is raised by `resize` as values are learned).
    n_outputs : int. Capacity of class codes (classification, at least 2), or 1 (regression).
    task : "classification", "regression" or "multi-instance" (two classes, of which code 1 is the positive one; what
        is predicted and learned are bags).
    """

    n_values: tuple[int, ...]
    n_outputs: int
    task: str

    @property
    def n_features(self) -> int:
        return len(self.n_values)


class Bags(NamedTuple):
    """A slab of bags, for the task "multi-instance": what stands in row r are size[r] instances.

    start, size : (capacity,) int64. x : (n, d) float64; the instances of r are x[start[r] : start[r] + size[r]].
    """

    start: NDArray[np.int64]
    size: NDArray[np.int64]
    x: Floats

    @classmethod
    def of(cls, size: ArrayLike, x: ArrayLike) -> "Bags":
        """Bags that lie in `x` one after the other."""
        sizes = np.array(size, np.int64).reshape(-1)
        return cls(np.cumsum(sizes) - sizes, sizes, np.ascontiguousarray(x, dtype=np.float64))

    def take(self, rows: NDArray[np.integer[Any]] | Sequence[int]) -> "Bags":
        """A copy of some of the bags, one after the other."""
        start, size = self.start[rows], self.size[rows]
        return Bags.of(size, self.x[indices(start, size)])


def indices(start: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of pieces of an array, the indices of their items, piece by piece."""
    ends = np.cumsum(size)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) + np.repeat(start - ends + size, size)


class Program(NamedTuple):
    """Operations in order; arrays of one length n.

    op : (n,) int8, PREDICT or LEARN. row : (n,) int32, a row of the slab. No row is predicted twice in a program.
    y : (n,) float64, class code or target of a LEARN, NaN for a PREDICT. w : (n,) float64, instance weight >= 0.
    """

    op: NDArray[np.int8]
    row: NDArray[np.int32]
    y: Floats
    w: Floats

    def part(self, start: int, stop: int | None = None) -> "Program":
        """Operations start to stop, or to the end; views."""
        op, row, y, w = self
        return Program(op[start:stop], row[start:stop], y[start:stop], w[start:stop])


class Learner(ABC):
    """Base class of all learners. Subclasses implement the abstract methods and take their parameters, all
    keyword-only with defaults, in `__init__(self, schema, *, seed=0, ...)`."""

    name: ClassVar[str]  # the stream file's name, e.g. "hoeffding-tree"
    incomparable: ClassVar[tuple[str, ...]] = ()  # fields of the state whose bytes equal folds may differ in
    # Times that `run` waited for another process, and how long; None where it never does. For metrics, no state.
    n_waits: int | None = None
    wait_seconds: float = 0.0

    def __init__(self, schema: Schema, *, seed: int = 0) -> None:
        self.schema = schema
        self.seed = seed

    @abstractmethod
    def run(self, program: Program, slab: Any, out: Floats) -> None:
        """Execute `program`. slab : (capacity, d) float64, or Bags. out : (capacity, schema.n_outputs); PREDICT r
        writes out[r, :]: class probabilities that sum to 1 (all 0 when nothing is known yet), or the predicted value
        in column 0 (NaN when nothing is known yet)."""

    @abstractmethod
    def resize(self, schema: Schema) -> None:
        """Raise capacities (`n_outputs`, entries of `n_values`); the number of features stays."""

    @abstractmethod
    def state(self) -> Any:
        """A NamedTuple of arrays: everything the learner knows. The arrays are live: copy before the next `run`."""

    @abstractmethod
    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()` of the same schema and parameters."""

    @abstractmethod
    def describe(self) -> list[dict[str, Any]]:
        """Nodes (or parts) of the model for people, root first; JSON-serialisable. Feature indices are under
        "feature", class or value vectors under "value"; each has "id", "depth", "weight", and "parent" (or None)."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Bytes of the arrays of `state()`."""

    def size(self) -> dict[str, int]:
        """Figures for metrics: at least n_nodes, n_leaves, depth (0 where they have no meaning)."""
        return {"n_nodes": 0, "n_leaves": 0, "depth": 0}

    def predict_many(self, x: ArrayLike | Bags) -> Floats:
        """x : (n, d), or n Bags -> (n, n_outputs). Changes nothing."""
        slab, n = _slab(x)
        out = np.zeros((n, self.schema.n_outputs))
        program = Program(np.full(n, PREDICT, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
        self.run(program, slab, out)
        return out

    def learn_many(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """x : (n, d), or n Bags, y : (n,), w : (n,) or None (all 1): learn in order, as if one at a time."""
        slab, n = _slab(x)
        weights = np.ones(n) if w is None else np.ascontiguousarray(w, dtype=np.float64)
        program = Program(
            np.full(n, LEARN, np.int8),
            np.arange(n, dtype=np.int32),
            np.ascontiguousarray(y, dtype=np.float64),
            weights,
        )
        self.run(program, slab, np.zeros((n, self.schema.n_outputs)))

    def fit(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """Learn a training set that is there as a whole, as in a cross-validation: in one pass, unless the learner has
        a better way (several passes; a model of the whole window at once)."""
        self.learn_many(x, y, w)

    def warm_up(self) -> None:
        """Compile (or load from the cache) the kernels with one tiny program, on a learner of the same schema, so
        that the first record does not wait. Leaves no trace in this learner."""
        twin = type(self)(self.schema, seed=self.seed, **self.parameters())
        x = np.zeros((1, self.schema.n_features))
        one = Bags.of([1], x) if self.schema.task == "multi-instance" else x
        twin.predict_many(one)
        twin.learn_many(one, np.zeros(1))

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters as given or defaulted, without the seed."""


def _slab(x: ArrayLike | Bags) -> tuple[Floats | Bags, int]:
    """As `run` takes it, and the number of rows."""
    if isinstance(x, Bags):
        return x, len(x.start)
    slab = np.ascontiguousarray(x, dtype=np.float64)
    return slab, len(slab)
