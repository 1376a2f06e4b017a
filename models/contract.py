"""What every learner is: a fold over predictions and labels, held in arrays.

A learner sees instances as rows of a `slab`, a (capacity, d) float64 array that the caller owns: numeric
features are values, nominal ones are codes 0, 1, 2, … as floats, NaN is a missing value. Where the task is
"multi-instance" a row holds a bag of instances, and the slab is a `Bags`. A `Program` names which row to predict and
which to learn, in order; `run` executes it in one kernel call and writes each prediction beside its row, into `out`.
Invariants that the contract tests hold every learner to:

- `run` of one program equals `run` of any split of it, bit for bit; so do `predict_many` and `learn_many`.
- PREDICT changes no state. Inputs are never changed.
- A learner that has learned nothing shows it: probabilities are all 0, a value is NaN.
- Same schema, parameters, seed and programs give the same bits.
- `restore(state())` into a new learner of the same schema continues as if nothing had happened.
- `resize` to a larger schema changes no prediction for what was known; new classes have probability 0.
- Memory is bounded, and the docstring of the learner states what happens at the bound.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from riparian.models.entry import VALUES, Entry, documented, signature
from riparian.models.frames import is_frame, rows_of_frame
from riparian.models.joined import copied

PREDICT = 0
LEARN = 1

LARGEST_TARGET = 1e100  # largest target of a regression that teaches: squares have to be finite

Floats = NDArray[np.float64]


class Schema(NamedTuple):
    """The shape of a learner's world.

    n_values : tuple of d int. 0 marks a numeric feature; k > 0 a nominal one whose codes stay below k (a capacity: it
        is raised by `resize` as values are learned).
    n_outputs : int. Capacity of class codes (classification, at least 2), or 1 (regression, anomaly).
    task : "classification", "regression", "multi-instance" (two classes, of which code 1 is the positive one; what is
        predicted and learned are bags) or "anomaly" (what is predicted is how anomalous an instance is, 0 .. 1; LEARN
        looks at its features alone).

    Examples
    --------
    >>> schema = Schema((0, 3), 2, "classification")  # a number, a nominal feature of three values; two classes
    >>> schema.n_features
    2
    """

    n_values: tuple[int, ...]
    n_outputs: int
    task: str

    @classmethod
    def of(cls, frame: Any, n_outputs: int = 2, task: str = "classification") -> "Schema":
        """That of a data frame whose columns are numbers, booleans and categories. ValueError where one is not."""
        return cls(rows_of_frame(frame)[1], n_outputs, task)

    @property
    def n_features(self) -> int:
        return len(self.n_values)


class Bags(NamedTuple):
    """A slab of bags, for the task "multi-instance": what stands in row r are size[r] instances.

    start, size : (capacity,) int64.
    x : (n, d) float64; the instances of r are x[start[r] : start[r] + size[r]].
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

    op : (n,) int8, PREDICT or LEARN.
    row : (n,) int32, a row of the slab. No row is predicted twice in a program.
    y : (n,) float64, class code or target of a LEARN, NaN for a PREDICT.
    w : (n,) float64, instance weight >= 0.
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
    """Base class of all learners.

    A subclass has an `entry`, where its name, its tasks and its parameters with their types, ranges and defaults are
    declared. They are checked here, whether a stream file or a caller gives them, and stand in `self._parameters`; the
    class's docstring names them. A subclass that prepares something from them does it in its own
    `__init__(schema, *, seed, **parameters)`, after this one.

    Parameters
    ----------
    schema : Schema
    seed : int
        Of whatever is drawn.
    **parameters
        Those of the entry; the default of each that is left out.

    Raises
    ------
    ValueError
        One sentence that names the parameter or the task, what was given, and what would do.
    """

    entry: ClassVar[Entry]
    name: ClassVar[str]  # the entry's, by which stream files call it: "hoeffding-tree"
    repeats: ClassVar[bool] = False  # whether it predicts the last label again
    incomparable: ClassVar[tuple[str, ...]] = ()  # fields of the state whose bytes equal folds may differ in
    # Times that `run` waited for another process, and how long; None where it never does. For metrics, no state.
    n_waits: int | None = None
    wait_seconds: float = 0.0
    _state: Any  # a NamedTuple of arrays, of a subclass that has no `state` and `restore` of its own

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "entry" in vars(cls):
            cls.name = cls.entry.name
            cls.__doc__ = documented(vars(cls).get("__doc__"), cls.entry)
            cls.__signature__ = signature(cls.entry.parameters)  # type: ignore[attr-defined]

    def __init__(self, schema: Schema, *, seed: int = 0, **parameters: Any) -> None:
        self.schema = schema
        self.seed = seed
        self._parameters = self.entry.valid(schema.task, parameters)

    @abstractmethod
    def run(self, program: Program, slab: Any, out: Floats) -> None:
        """Execute `program`. slab : (capacity, d) float64, or Bags. out : (capacity, schema.n_outputs); PREDICT r
        writes out[r, :]: class probabilities that sum to 1 (all 0 when nothing is known yet), or the predicted value
        or score in column 0 (NaN when nothing is known yet)."""

    @property
    def frozen_parts(self) -> list[str]:
        """Names of what it is made of that predicts and does not learn."""
        return []

    @property
    def n_memos(self) -> int:
        """Number of `memos` that `run_with` takes: scratch beside each instance, that a learner writes at PREDICT and
        reads at LEARN, such as the votes of a pool's members."""
        return 0

    def run_with(self, program: Program, slab: Any, out: Floats, memos: Sequence[Floats]) -> None:
        """Execute `program` as `run` does, with notes of the caller's. memos : n_memos arrays as `out`; PREDICT r
        writes row r of each, and LEARN r reads it. NaN in column 0 means that nothing stands there, as before r was
        predicted."""
        self.run(program, slab, out)

    def inherit(self, before: "Learner") -> None:  # noqa: B027
        """Begin in the place of a model of the same schema and parameters: know what of it does not learn, as frozen
        members of a pool. Most models have nothing of the kind."""

    def resize(self, schema: Schema) -> None:
        """Raise capacities (`n_outputs`, entries of `n_values`); the number of features stays."""
        self.schema = schema

    def state(self) -> Any:
        """A NamedTuple of arrays: everything the learner knows. The arrays are live: copy before the next `run`."""
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()` of the same schema and parameters."""
        self._state = copied(state, self._state)

    def adapted(self, was: Mapping[str, Any], state: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """A state of a model of parameters `was`, as `restore` of this one, which has learned nothing, takes it: it may
        have other parts. ValueError where it is none of these."""
        return state

    @abstractmethod
    def describe(self) -> list[dict[str, Any]]:
        """Nodes (or parts) of the model for people, root first; JSON-serialisable. Feature indices are under
        "feature", class or value vectors under "value"; each has "id", "depth", "weight", and "parent" (or None)."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of `state()`."""
        return sum(array.nbytes for array in self.state())

    def size(self) -> dict[str, int]:
        """Figures for metrics: at least n_nodes, n_leaves, depth (0 where they have no meaning)."""
        return {"n_nodes": 0, "n_leaves": 0, "depth": 0}

    def predict_many(self, x: ArrayLike | Bags) -> Floats:
        """x : (n, d), or n Bags -> (n, n_outputs). Changes nothing. ValueError where x does not fit the schema."""
        slab, n = rows_of(self.schema, x)
        out = np.zeros((n, self.schema.n_outputs))
        program = Program(np.full(n, PREDICT, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
        self.run(program, slab, out)
        return out

    def learn_many(self, x: ArrayLike | Bags, y: ArrayLike, w: ArrayLike | None = None) -> None:
        """x : (n, d), or n Bags, y : (n,), w : (n,) or None (all 1): learn in order, as if one at a time. ValueError
        where they do not fit the schema or each other, or a weight is below 0 or not finite; a label that is NaN
        or infinite and a weight of 0 teach nothing."""
        slab, n = rows_of(self.schema, x)
        labels, weights = labels_of(self.schema, y, n), weights_of(w, n)
        program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), labels, weights)
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

    def __repr__(self) -> str:
        """With the parameters that are not defaults, as a call that makes another one."""
        defaults = {one.name: one.default for one in self.entry.parameters}
        given = {name: value for name, value in self._parameters.items() if value != defaults[name]}
        given |= {"seed": self.seed} if self.seed else {}
        return f"{type(self).__name__}({', '.join([repr(self.schema), *(f'{k}={v!r}' for k, v in given.items())])})"

    def parameters(self) -> dict[str, Any]:
        """The parameters as given or defaulted, without the seed."""
        return dict(self._parameters)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made from the state: what else a learner has may be addresses of its arrays."""
        state = {field: np.array(array) for field, array in self.state()._asdict().items()}
        return _restored, (type(self), self.schema, self.seed, self.parameters(), state)


def _restored(
    cls: type[Learner], schema: Schema, seed: int, parameters: Mapping[str, Any], state: Mapping[str, NDArray[Any]]
) -> Learner:
    learner = cls(schema, seed=seed, **parameters)
    learner.restore(state)
    return learner


def rows_of(schema: Schema, x: ArrayLike | Bags) -> tuple[Floats | Bags, int]:
    """Instances as `run` takes them, and how many. ValueError where they do not fit the schema."""
    bags = schema.task == "multi-instance"
    if isinstance(x, Bags) != bags:
        raise ValueError(f"x is {type(x).__name__}, the task {schema.task!r}: give {'Bags' if bags else 'an array'}")
    if is_frame(x):
        x, _ = rows_of_frame(x)
    rows = np.ascontiguousarray(x.x if isinstance(x, Bags) else x, dtype=np.float64)
    d = schema.n_features
    if rows.ndim != 2 or rows.shape[1] != d:
        raise ValueError(f"x has the shape {rows.shape}, the schema {d} features: give (n, {d})")
    for f, n_values in enumerate(schema.n_values):
        if n_values and not _are_codes(rows[:, f], n_values):
            raise ValueError(f"feature {f} is nominal with {n_values} values: give codes 0 .. {n_values - 1}, or NaN")
    if not isinstance(x, Bags):
        return rows, len(rows)
    start, size = (np.ascontiguousarray(column, dtype=np.int64) for column in (x.start, x.size))
    inside = (start >= 0) & (size >= 0) & (start <= len(rows) - size)
    if start.ndim != 1 or start.shape != size.shape or not inside.all():
        raise ValueError(f"bags have a start and a size each, inside their {len(rows)} instances: see Bags.of")
    return Bags(start, size, rows), len(start)


def labels_of(schema: Schema, y: ArrayLike, n: int) -> Floats:
    """Class codes or targets of n instances, NaN where there is none: what is infinite is no target. ValueError where
    they do not fit."""
    labels = _column("y", y, n)
    if schema.task not in VALUES and not _are_codes(labels, schema.n_outputs):
        raise ValueError(f"y has a class that the schema does not: give codes 0 .. {schema.n_outputs - 1}")
    return np.where(np.isinf(labels), np.nan, labels)


def weights_of(w: ArrayLike | None, n: int) -> Floats:
    """Weights of n instances, all 1 where none are given. ValueError where they do not fit."""
    if w is None:
        return np.ones(n)
    weights = _column("w", w, n)
    wrong = weights[~(np.isfinite(weights) & (weights >= 0.0))]
    if len(wrong):
        raise ValueError(f"w has the weight {wrong[0]}: give finite numbers that are 0 or more")
    return weights


def _column(name: str, values: ArrayLike, n: int) -> Floats:
    column = np.ascontiguousarray(values, dtype=np.float64)
    if column.shape != (n,):
        raise ValueError(f"{name} has the shape {column.shape}: give ({n},), one for each of x")
    return column


def _are_codes(column: Floats, n: int) -> bool:
    """Whether all are whole numbers 0 .. n - 1, or NaN."""
    return bool((((column >= 0) & (column < n) & (column == np.floor(column))) | np.isnan(column)).all())
