"""Learners with scikit-learn's methods: partial_fit, predict, predict_proba, get_params."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from riparian.models.contract import Floats, Learner, Schema
from riparian.models.registry import create

_PARAMETERS = """
    Parameters
    ----------
    learner : str
        A name of `riparian.learner_names("{task}")`.
    parameters : mapping, optional
        Of the learner, by name; the defaults of all others (`riparian models NAME`).
    n_values : sequence of int, optional
        Of each column of X: 0 for a number, k for a nominal feature with codes 0 .. k - 1. By default all are numbers.
    random_state : int or RandomState
        Seed of whatever the learner draws, >= 0, or what it is drawn from at each fit.

    Attributes
    ----------
    learner_ : Learner
        What has learned. n_features_in_ : int. {attributes}
"""


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

    def _begin(self, n_features: int, n_outputs: int) -> None:
        n_values = (0,) * n_features if self.n_values is None else tuple(int(k) for k in self.n_values)
        if len(n_values) != n_features:
            raise ValueError(f"n_values has {len(n_values)} entries, X {n_features} columns: give one for each")
        schema = Schema(n_values, n_outputs, self.task)
        seed: Any = self.random_state or 0
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        self.learner_: Learner = create(self.learner, schema, seed=int(seed), **dict(self.parameters or {}))

    def _rows(self, X: ArrayLike) -> Floats:
        return _own(validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"))

    def _learn(self, X: Floats, y: Floats, sample_weight: ArrayLike | None, whole: bool) -> None:
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        (self.learner_.fit if whole else self.learner_.learn_many)(_own(X), y, weights)

    def __getstate__(self) -> dict[str, Any]:
        """With the learner as its arrays, which a new one takes over: nothing else of it is pickled."""
        kept = dict(super().__getstate__())
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Begin anew, and learn a training set: in order, or as the learner learns one best."""
        return self._take(X, y, None, sample_weight, True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
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
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, whole: bool
    ) -> Self:
        begins = whole or not hasattr(self, "learner_")
        rows: Any
        labels: Any
        rows, labels = validate_data(self, X, y, reset=begins, dtype=np.float64, ensure_all_finite="allow-nan")
        check_classification_targets(labels)
        if begins:
            self.classes_: NDArray[Any] = np.unique(labels if classes is None else classes)
            self._begin(rows.shape[1], max(2, len(self.classes_)))
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            raise ValueError(f"y has the class {unknown.tolist()[0]!r}, the classes are {self.classes_.tolist()}")
        self._learn(rows, np.searchsorted(self.classes_, labels).astype(np.float64), sample_weight, whole)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """(n, k) probabilities; all alike while the learner knows nothing."""
        check_is_fitted(self, "learner_")
        p = self.learner_.predict_many(self._rows(X))[:, : len(self.classes_)]
        total = p.sum(axis=1, keepdims=True)
        known = total > 0.0
        return np.where(known, p / np.where(known, total, 1.0), 1.0 / len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) classes."""
        p = self.predict_proba(X)
        found: NDArray[Any] = self.classes_[p.argmax(axis=1)]
        return found


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

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Begin anew, and learn a training set: in order, or as the learner learns one best."""
        return self._take(X, y, sample_weight, True)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn further instances, in order."""
        return self._take(X, y, sample_weight, False)

    def _take(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, whole: bool) -> Self:
        begins = whole or not hasattr(self, "learner_")
        rows: Any
        targets: Any
        rows, targets = validate_data(
            self, X, y, reset=begins, dtype=np.float64, y_numeric=True, ensure_all_finite="allow-nan"
        )
        if begins:
            self._begin(rows.shape[1], 1)
        self._learn(rows, targets, sample_weight, whole)
        return self

    def predict(self, X: ArrayLike) -> Floats:
        """(n,) values; 0 while the learner knows nothing."""
        check_is_fitted(self, "learner_")
        values = self.learner_.predict_many(self._rows(X))[:, 0]
        return np.where(np.isnan(values), 0.0, values)
