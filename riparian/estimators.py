"""Learners with scikit-learn's methods: partial_fit, predict, predict_proba, get_params."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_array, check_is_fitted, check_X_y, validate_data

from riparian.models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from riparian.models.frames import FrameColumn, columns_of, is_frame
from riparian.models.registry import create

_PARAMETERS = """
    It takes arrays, data frames (of pandas, polars, or with the Arrow PyCapsule interface) and single records, which
    are mappings. Columns and fields of text, categories and booleans are nominal features, all others numbers. None
    and NaN are missing values. Each text takes room for good, so leave out what is an id.

    Parameters
    ----------
    learner : str
        "auto", or a name of `riparian.learner_names("{task}")`.
    parameters : mapping, optional
        Of the learner, by name; the defaults of all others (`riparian models NAME`).
    n_values : sequence of int, optional
        Of each column of an array: 0 for a number, k for a nominal feature with codes 0 .. k - 1. By default all are
        numbers. Not for frames and records, whose features show what they are.
    random_state : int or RandomState
        Seed of whatever the learner draws, >= 0, or what it is drawn from at each fit.

    Attributes
    ----------
    learner_ : Learner
        What has learned. n_features_in_ : int. {attributes}
"""
CAPACITY = 10  # values of a nominal feature that room is made for at first


class _Scratch(NamedTuple):
    """One row, its prediction, and the programs that predict and learn it."""

    row: Floats
    slab: Floats
    out: Floats
    predict: Program
    learn: Program

    @classmethod
    def of(cls, schema: Schema) -> "_Scratch":
        slab, row, nan, one = np.zeros((1, schema.n_features)), np.zeros(1, np.int32), np.full(1, np.nan), np.ones(1)
        programs = [Program(np.full(1, op, np.int8), row, nan.copy(), one.copy()) for op in (PREDICT, LEARN)]
        return cls(slab[0], slab, np.zeros((1, schema.n_outputs)), *programs)


class _StreamEstimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common."""

    task: str

    def __init__(
        self,
        learner: str = "mondrian-forest",
        parameters: Mapping[str, Any] | None = None,
        n_values: Sequence[int] | None = None,
        random_state: int | np.random.RandomState = 0,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.n_values = n_values
        self.random_state = random_state

    # features ---------------------------------------------------------------------------------------------------------

    def _name(self, features: Sequence[tuple[str, bool]]) -> None:
        """Begin with these features: each its name, and whether it is nominal."""
        self._values: list[dict[str, int] | None] = [{} if nominal else None for _, nominal in features]
        self._coming = self._values  # with those of the rows that are about to be learned
        self._names = [name for name, _ in features]

    def _encoded(self, columns: Sequence[FrameColumn], learns: bool) -> Floats:
        """Rows of a frame. learns : whether values that are new are kept, once the rows are learned."""
        rows = np.empty((len(columns[0].values) if columns else 0, len(columns)))
        self._coming = [values if values is None else dict(values) for values in self._values]
        for j, (column, values) in enumerate(zip(columns, self._coming, strict=True)):
            rows[:, j] = column.values
            if column.texts is None and values is None:
                continue
            if values is None or (column.texts is None and not np.isnan(column.values).all()):
                was, now = ("numbers", "text") if values is None else ("text", "numbers")
                raise ValueError(f"column {column.name!r} has {now}, and had {was} at first: give {was}")
            known = []
            for text in column.texts or ():
                known.append(_code(values, text))
                if learns:
                    values[text] = known[-1]
            there = np.flatnonzero(~np.isnan(column.values))
            rows[there, j] = np.array(known, np.float64)[column.values[there].astype(np.int64)]
        return rows

    def _rows(self, X: Any, *labels: Any, begins: bool = False) -> Any:
        """X as an array of float64, or X and its labels where they are given: then its values may be new."""
        how: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        if labels:
            how["y_numeric"] = self.task == "regression"
        if not is_frame(X):
            if begins:
                self._name([])
            found: Any = validate_data(self, X, *labels, reset=begins, **how)
            return (_own(found[0]), found[1]) if labels else _own(found)
        columns = columns_of(X)
        validate_data(self, X, reset=begins, skip_check_array=True)
        if begins:
            self._name([(column.name, column.texts is not None) for column in columns])
        elif not self._values:
            self._name([(column.name, False) for column in columns])
        rows = self._encoded(columns, bool(labels))
        return (check_X_y if labels else check_array)(rows, *labels, estimator=self, **how)

    # the learner ------------------------------------------------------------------------------------------------------

    def _begin(self, n_features: int, n_outputs: int) -> None:
        n_values = [0] * n_features if self.n_values is None else [int(k) for k in self.n_values]
        if len(n_values) != n_features:
            raise ValueError(f"n_values has {len(n_values)} entries, X {n_features} columns: give one for each")
        self._values = self._coming
        for j, values in enumerate(self._values):
            if values is not None:
                n_values[j] = max(CAPACITY, len(values) + 1)
        schema = Schema(tuple(n_values), n_outputs, self.task)
        seed: Any = self.random_state or 0
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        self.learner_: Learner = create(self.learner, schema, seed=int(seed), **dict(self.parameters or {}))
        self._scratch = _Scratch.of(schema)

    def _make_room(self, n_classes: int) -> None:
        """Raise the capacities of the learner to what has come, and a new value of each feature."""
        schema = self.learner_.schema
        n_values = list(schema.n_values)
        for j, values in enumerate(self._values):
            if values is not None and len(values) >= n_values[j]:
                n_values[j] = max(2 * n_values[j], len(values) + 1)
        n_outputs = schema.n_outputs
        if n_classes > n_outputs:
            n_outputs = max(2 * n_outputs, n_classes)
        larger = schema._replace(n_values=tuple(n_values), n_outputs=n_outputs)
        if larger != schema:
            self.learner_.resize(larger)
            self._scratch = self._scratch._replace(out=np.zeros((1, n_outputs)))

    def _learn(self, X: Floats, y: Floats, sample_weight: ArrayLike | None, whole: bool) -> None:
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        self._values = self._coming
        self._make_room(0)
        (self.learner_.fit if whole else self.learner_.learn_many)(_own(X), y, weights)

    # single records ---------------------------------------------------------------------------------------------------

    def _begin_with(self, x: Mapping[str, Any], n_outputs: int) -> None:
        if not x:
            raise ValueError("the first record has no fields: give those that all will have, None where one is missing")
        self._name([(name, isinstance(value, _NOMINAL)) for name, value in x.items()])
        self.feature_names_in_ = np.array(self._names, object)
        self.n_features_in_ = len(self._names)
        self._begin(len(self._names), n_outputs)

    def _fill(self, x: Mapping[str, Any]) -> None:
        """The record into the row."""
        row, known = self._scratch.row, False
        for j, (name, values) in enumerate(zip(self._names, self._values, strict=True)):
            value = x.get(name)
            known = known or name in x
            if value is None:
                row[j] = np.nan
            elif values is not None:
                row[j] = np.nan if value != value else _code(values, str(value))
            elif isinstance(value, _NOMINAL):
                raise ValueError(f"{name!r} is {value!r}, and was no text in the first record: give a number, or None")
            else:
                row[j] = value
        if not known:
            raise ValueError(f"a record has none of the fields of the first one, {', '.join(map(repr, self._names))}")
        if np.isinf(row).any():
            raise ValueError(f"{self._names[int(np.isinf(row).argmax())]!r} is infinite: give a finite number, or None")

    def _predicted(self, x: Mapping[str, Any]) -> Floats | None:
        """What is predicted, a view; None while nothing is known."""
        if not hasattr(self, "learner_"):
            return None
        self._fill(x)
        self.learner_.run(self._scratch.predict, self._scratch.slab, self._scratch.out)
        out: Floats = self._scratch.out[0]
        return out

    def _learn_row(self, x: Mapping[str, Any], y: float, w: float) -> None:
        if not 0.0 <= w < np.inf:
            raise ValueError(f"w is {w}: give a finite number that is 0 or more")
        self._fill(x)
        for name, values, code in zip(self._names, self._values, self._scratch.row.tolist(), strict=True):
            if values is not None and code == len(values):
                values[str(x[name])] = int(code)
        self._make_room(0 if self.task == "regression" else int(y) + 1)
        program = self._scratch.learn
        program.y[0], program.w[0] = y, w
        self.learner_.run(program, self._scratch.slab, self._scratch.out)

    # scikit-learn -----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """With the learner as its arrays, which a new one takes over: nothing else of it is pickled."""
        kept = dict(super().__getstate__())
        kept.pop("_scratch", None)
        if "learner_" in kept:
            learner: Learner = kept["learner_"]
            arrays = {name: array.copy() for name, array in learner.state()._asdict().items()}
            kept["learner_"] = (learner.name, learner.schema, learner.seed, learner.parameters(), arrays)
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "learner_" in state:
            name, schema, seed, parameters, arrays = state["learner_"]
            self.learner_ = create(name, schema, seed=seed, **parameters)
            self.learner_.restore(arrays)
            self._scratch = _Scratch.of(schema)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


_NOMINAL = (str, bool, np.bool_)


def _code(values: dict[str, int], text: str) -> int:
    """Of a value; the next one where it is new, as a worker gives it."""
    return values.get(text, len(values))


def _is_missing(label: Any) -> bool:
    """Whether it is None, NaN, or pandas' NA, which equals nothing and says not even that."""
    try:
        return label is None or bool(label != label)
    except TypeError:
        return True


def _own(rows: Any) -> Floats:
    """Kernels are compiled for arrays that may be written, though none writes into rows."""
    own: Floats = rows if rows.flags.writeable else rows.copy()
    return own


class StreamClassifier(ClassifierMixin, _StreamEstimator):  # type: ignore[misc]
    __doc__ = f"""A streaming classifier.
{_PARAMETERS.format(task="classification", attributes="classes_ : (k,), the classes in the order of predict_proba.")}
    Examples
    --------
    >>> x = np.random.default_rng(1).random((600, 2))
    >>> y = np.where(x[:, 0] > x[:, 1], "left", "right")
    >>> model = StreamClassifier("hoeffding-tree").partial_fit(x[:300], y[:300], classes=["left", "right"])
    >>> bool(model.partial_fit(x[300:], y[300:]).score(x, y) > 0.8)
    True
    """

    task = "classification"

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Begin anew, and learn a training set: in order, or as the learner learns one best."""
        return self._take(X, y, None, sample_weight, True)

    def partial_fit(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn further instances, in order. classes : all there will ever be, at the first call."""
        begun = hasattr(self, "learner_")
        if not begun and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        if begun and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes {np.unique(classes).tolist()} are not those of the first call, {self.classes_.tolist()}"
            )
        return self._take(X, y, classes, sample_weight, False)

    def _take(
        self, X: Any, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, whole: bool
    ) -> Self:
        begins = whole or not hasattr(self, "learner_")
        rows, labels = self._rows(X, y, begins=begins)
        check_classification_targets(labels)
        if begins:
            self._know(np.unique(labels if classes is None else classes).tolist())
            self._begin(rows.shape[1], max(2, len(self.classes_)))
        there, place = np.unique(labels, return_inverse=True)
        unknown = [label for label in there.tolist() if label not in self._codes]
        if unknown:
            raise ValueError(f"y has the class {unknown[0]!r}, the classes are {self.classes_.tolist()}")
        codes = np.array([self._codes[label] for label in there.tolist()], np.float64)
        self._learn(rows, codes[place.reshape(-1)], sample_weight, whole)
        return self

    def _know(self, classes: Sequence[Any]) -> None:
        self._codes = {label: code for code, label in enumerate(classes)}
        self.classes_: NDArray[Any] = np.array(classes)

    def begin(self, X: Any, y: Any) -> tuple[Learner, Floats, Floats]:
        """Begin anew for these columns and classes: the learner, and the rows and codes that it learns; NaN where a
        label is None or NaN."""
        labels = np.asarray(y, object)
        known = np.array([not _is_missing(label) for label in labels], bool)
        self._know(np.unique(np.array(labels[known].tolist())).tolist())
        rows, _ = self._rows(X, np.zeros(len(labels)), begins=True)
        self._begin(rows.shape[1], max(2, len(self.classes_)))
        codes = np.full(len(labels), np.nan)
        codes[known] = [self._codes[label] for label in labels[known].tolist()]
        return self.learner_, rows, codes

    def learn_one(self, x: Mapping[str, Any], y: Any, w: float = 1.0) -> None:
        """Learn a record of the class y, which may be new; None teaches nothing. The first record names the features.

        Raises
        ------
        ValueError
            A field is of another kind than in the first record, none of its fields is there, or w is negative.

        Examples
        --------
        >>> model = StreamClassifier("naive-bayes")
        >>> for amount, country, y in [(3.0, "de", "ok"), (900.0, "fr", "fraud"), (4.0, "de", "ok")]:
        ...     model.learn_one({"amount": amount, "country": country}, y)
        >>> model.predict_one({"amount": 5.0, "country": "de"})
        'ok'
        """
        if not hasattr(self, "learner_"):
            self._begin_with(x, 2)
            self._know([])
        if _is_missing(y):
            return
        self._learn_row(x, self._codes.get(y, len(self._codes)), w)
        if y not in self._codes:
            self._know([*self._codes, y])

    def predict_proba_one(self, x: Mapping[str, Any]) -> dict[Any, float]:
        """The probability of each class; nothing while nothing is known."""
        out = self._predicted(x)
        if out is None:
            return {}
        p = out[None, : len(self._codes)]
        return dict(zip(self._codes, _shares(p)[0].tolist(), strict=False)) if p.sum() > 0.0 else {}

    def predict_one(self, x: Mapping[str, Any]) -> Any:
        """The most probable class; None while nothing is known."""
        out = self._predicted(x)
        if out is None:
            return None
        code = int(out.argmax())
        return list(self._codes)[code] if out[code] > 0.0 else None

    def predict_proba(self, X: Any) -> Floats:
        """(n, k) probabilities; all alike while the learner knows nothing."""
        check_is_fitted(self, "learner_")
        p: Floats = self.learner_.predict_many(self._rows(X))[:, : len(self.classes_)]
        return _shares(p)

    def predict(self, X: Any) -> NDArray[Any]:
        """(n,) classes."""
        p = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[p.argmax(axis=1)]
        return found


def _shares(p: Floats) -> Floats:
    """(n, k) what adds up to 1 in each row; all alike where there is nothing. Not by `sum`, which rounds otherwise from
    Python 3.12 on."""
    total = p.sum(axis=1, keepdims=True)
    known = total > 0.0
    return np.where(known, p / np.where(known, total, 1.0), 1.0 / p.shape[1])


class StreamRegressor(RegressorMixin, _StreamEstimator):  # type: ignore[misc]
    __doc__ = f"""A streaming regressor.
{_PARAMETERS.format(task="regression", attributes="").rstrip()}

    Examples
    --------
    >>> x = np.random.default_rng(1).random((600, 2))
    >>> model = StreamRegressor("fimt-dd").partial_fit(x, 3.0 * x[:, 0] + x[:, 1])
    >>> bool(model.score(x, 3.0 * x[:, 0] + x[:, 1]) > 0.8)
    True
    """

    task = "regression"

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Begin anew, and learn a training set: in order, or as the learner learns one best."""
        return self._take(X, y, sample_weight, True)

    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn further instances, in order."""
        return self._take(X, y, sample_weight, False)

    def _take(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, whole: bool) -> Self:
        begins = whole or not hasattr(self, "learner_")
        rows, targets = self._rows(X, y, begins=begins)
        if begins:
            self._begin(rows.shape[1], 1)
        self._learn(rows, targets, sample_weight, whole)
        return self

    def begin(self, X: Any, y: Any) -> tuple[Learner, Floats, Floats]:
        """Begin anew for these columns: the learner, and the rows and targets that it learns; NaN where none is."""
        targets = np.array(y, np.float64)
        rows, _ = self._rows(X, np.zeros(len(targets)), begins=True)
        self._begin(rows.shape[1], 1)
        return self.learner_, rows, targets

    def learn_one(self, x: Mapping[str, Any], y: float | None, w: float = 1.0) -> None:
        """Learn a record of the target y; None teaches nothing. The first record names the features.

        Raises
        ------
        ValueError
            A field is of another kind than in the first record, none of its fields is there, or w is negative.
        """
        if not hasattr(self, "learner_"):
            self._begin_with(x, 1)
        if y is not None and np.isfinite(y):
            self._learn_row(x, y, w)

    def predict_one(self, x: Mapping[str, Any]) -> float:
        """The predicted value; 0 while nothing is known."""
        out = self._predicted(x)
        return 0.0 if out is None or np.isnan(out[0]) else float(out[0])

    def predict(self, X: Any) -> Floats:
        """(n,) values; 0 while the learner knows nothing."""
        check_is_fitted(self, "learner_")
        values = self.learner_.predict_many(self._rows(X))[:, 0]
        return np.where(np.isnan(values), 0.0, values)


def auto(task: str = "classification", random_state: int = 0, **budget: Any) -> "StreamClassifier | StreamRegressor":
    """The estimator of the default model: a pool of learners that are weighted by how right they are.

    Parameters
    ----------
    task : str
        "classification" or "regression".
    random_state : int
    **budget
        `max_microseconds` (100 by default) to predict and learn an instance, `max_bytes` (64,000,000) of the model, and
        `members` of the pool besides those chosen.

    Examples
    --------
    >>> auto("regression", max_microseconds=25).get_params()["parameters"]
    {'max_microseconds': 25}
    """
    estimators = {one.task: one for one in (StreamClassifier, StreamRegressor)}
    if task not in estimators:
        raise ValueError(f"task is {task!r}: give one of {', '.join(map(repr, estimators))}")
    return estimators[task]("auto", budget or None, random_state=random_state)
