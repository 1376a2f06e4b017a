"""Batch learners on the rows of a window, by scikit-learn and XGBoost, and what they learned as arrays.

This runs in a process of its own (models/batch/process.py). It is a function of the job alone: one thread, a seed in
the job, classes in order. So it may be run again, anywhere, wherever the same versions of the libraries are installed.

Rows become columns of float32, as both libraries have them: a numeric feature less its median in the window (a time in
seconds has no room in 24 bits, its distance from the median has), a nominal one a column for each of its most frequent
values. Targets are less their mean, since they are squared. CART, bagging, random forests and XGBoost are given missing
values as such and learn where they go. AdaBoost and gradient boosting of scikit-learn take none: they are given 0,
which is the median and "no such value". So in their trees, too, a missing value has a side at every test, which is
known beforehand.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.batch.forest import LOGISTIC, MEDIAN, SOFTMAX, SUM, VECTOR, FittedForest
from riparian.models.contract import Floats
from riparian.models.entry import CLASSIFICATION
from riparian.models.kernels.elementary import logs

NATIVE = {"cart", "bagging", "random-forest", "xgboost"}  # whose library takes missing values as such
MOST_VALUES = 64  # columns of a nominal feature; the rarer values share having none
LARGEST = 1e37  # beyond, values of a feature are not distinguished: float32 ends at 3e38
LARGEST_FITTED_TARGET = 1e15  # beyond, targets are not distinguished: sums of squares have to be finite in float32


class Job(NamedTuple):
    """What is to be fitted.

    x : (n, d) float64.
    y, w : (n,) float64, as learners have them.
    nominal : (d,) bool.
    """

    method: str
    task: str
    parameters: Mapping[str, Any]
    seed: int
    x: Floats
    y: Floats
    w: Floats
    nominal: NDArray[np.bool_]


class FeatureColumns(NamedTuple):
    """Rows as the libraries have them.

    x : (n, c) float32, NaN where missing; the others as in FittedForest.
    """

    x: NDArray[np.float32]
    feature: NDArray[np.int32]
    code: Floats
    centre: Floats


class FittedTree(NamedTuple):
    """One tree, its nodes numbered from 0.

    leaf : (n, k or 1) float64, read at the leaves. The rest as in FittedForest.
    """

    column: NDArray[np.int32]
    threshold: Floats
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing: NDArray[np.uint8]
    cover: NDArray[np.float32]
    leaf: Floats


class Votes(NamedTuple):
    """Trees and how they are combined.

    base : None for zeros.
    """

    trees: Sequence[FittedTree]
    link: int
    weight: Sequence[float]
    group: Sequence[int]
    base: Sequence[float] | None = None


class Data(NamedTuple):
    """A training set as the libraries want it.

    x : (n, c) float32, without NaN unless the method is NATIVE.
    y : (n,) places of classes (int64), or targets.
    k : classes; 1 for a regression.
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    w: Floats
    k: int
    seed: int


def seed_of(seed: int, number: int) -> int:
    """The seed of a learner's fit with this number, below 2^31."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") >> 1


def fit(job: Job) -> FittedForest:
    """Fit a model. What the library raises comes through."""
    classification = job.task == CLASSIFICATION
    columns = columns_of(job.x, job.nominal)
    classes: NDArray[np.int64] = np.zeros(1, np.int64)
    centre = 0.0 if classification else float(np.average(job.y, weights=job.w))
    y: NDArray[Any] = np.clip(job.y - centre, -LARGEST_FITTED_TARGET, LARGEST_FITTED_TARGET)
    if classification:
        classes, y = np.unique(job.y.astype(np.int64), return_inverse=True)
    if len(columns.feature) == 0 or (classification and len(classes) == 1):
        shares = np.bincount(y, job.w) / job.w.sum() if classification else [np.average(y, weights=job.w)]
        return assemble(Votes((), SUM, (), (), [float(share) + centre for share in shares]), columns, classes, len(y))
    method = METHODS[job.method]
    x = columns.x if job.method in NATIVE else np.nan_to_num(columns.x, nan=0.0)
    data = Data(x, y, job.w, len(classes), job.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        votes = raised(method(data, classification, job.parameters), centre)
    return assemble(votes, columns, classes, len(y))


def raised(votes: Votes, by: float) -> Votes:
    """Raise trees to targets that are so much higher."""
    if by == 0.0:
        return votes
    if VECTOR in votes.group:  # trees that are averaged, or whose median counts
        return votes._replace(trees=[tree._replace(leaf=tree.leaf + by) for tree in votes.trees])
    return votes._replace(base=[(votes.base or [0.0])[0] + by])


def columns_of(x: Floats, nominal: NDArray[np.bool_]) -> FeatureColumns:
    """Rows as columns of float32."""
    found: list[NDArray[Any]] = []
    about: list[tuple[int, float, float]] = []
    for f in range(x.shape[1]):
        values = x[:, f]
        known = np.sort(values[np.isfinite(values)])
        if nominal[f]:
            codes, counts = np.unique(known, return_counts=True)
            frequent = np.sort(codes[np.argsort(-counts, kind="stable")[:MOST_VALUES]])
            for code in frequent.tolist():
                found.append(np.where(np.isnan(values), np.nan, values == code))
                about.append((f, code, 0.0))
        elif len(known):
            centre = float(known[(len(known) - 1) // 2])
            with np.errstate(over="ignore"):
                found.append(np.clip(values - centre, -LARGEST, LARGEST))
            about.append((f, np.nan, centre))
    table = np.array(found, np.float32).T if found else np.zeros((len(x), 0))
    features, codes, centres = np.array(about, np.float64).reshape(-1, 3).T
    return FeatureColumns(
        np.ascontiguousarray(table, np.float32), features.astype(np.int32), codes.copy(), centres.copy()
    )


def assemble(votes: Votes, columns: FeatureColumns, classes: NDArray[np.int64], n_rows: int) -> FittedForest:
    """All trees in one store, each leaf a row of `values`."""
    k = len(classes)
    width = votes.trees[0].leaf.shape[1] if votes.trees else k
    parts = []
    root, first, first_leaf = [], 0, 0
    for tree in votes.trees:
        leaf = tree.column < 0
        rows = first_leaf + np.cumsum(leaf) - 1
        parts.append(
            tree._replace(
                left=np.where(leaf, rows, tree.left + first).astype(np.int32),
                right=np.where(leaf, 0, tree.right + first).astype(np.int32),
                leaf=tree.leaf[leaf],
            )
        )
        root.append(first)
        first += len(leaf)
        first_leaf += int(leaf.sum())

    def joined(name: str, dtype: Any) -> NDArray[Any]:
        return np.concatenate([np.zeros(0, dtype), *(getattr(part, name) for part in parts)], dtype=dtype)

    values = np.concatenate([np.zeros((0, width)), *(part.leaf for part in parts)])
    return FittedForest(
        joined("column", np.int32),
        joined("threshold", np.float64),
        joined("left", np.int32),
        joined("right", np.int32),
        joined("missing", np.uint8),
        joined("cover", np.float32),
        np.ascontiguousarray(values, np.float64),
        np.array(root, np.int32),
        np.array(votes.weight, np.float64),
        np.array(votes.group, np.int32),
        np.zeros(k) if votes.base is None else np.array(votes.base, np.float64),
        classes.astype(np.int64),
        columns.feature,
        columns.code,
        columns.centre,
        np.array([votes.link, 1, n_rows], np.int64),
    )


# scikit-learn --------------------------------------------------------------------------------------------------------


def _tree(fitted: Any, leaf: Floats, native: bool = False) -> FittedTree:
    """A fitted decision tree. leaf : what its nodes hold. native : it learned where missing values go (a test that only
    they fail has an infinite threshold); else they were 0."""
    tree = fitted.tree_
    inner = tree.children_left >= 0
    threshold = np.where(inner, tree.threshold, 0.0)
    missing = tree.missing_go_to_left if native else threshold >= 0.0
    return FittedTree(
        np.where(inner, tree.feature, -1).astype(np.int32),
        threshold,
        tree.children_left.astype(np.int32),
        tree.children_right.astype(np.int32),
        np.where(inner, missing, False).astype(np.uint8),
        tree.weighted_n_node_samples.astype(np.float32),
        leaf,
    )


def _shares(fitted: Any, k: int) -> Floats:
    """Class shares of each node, of all k classes: a bootstrap may have missed some."""
    value = fitted.tree_.value[:, 0, :]
    total = value.sum(axis=1, keepdims=True)
    shares = np.zeros((len(value), k))
    shares[:, fitted.classes_.astype(np.int64)] = value / np.where(total > 0.0, total, 1.0)
    return shares


def _mean(fitted: Any) -> Floats:
    value: Floats = fitted.tree_.value[:, 0, :1].astype(np.float64)
    return value


def _average(trees: Sequence[Any], k: int, classification: bool) -> Votes:
    """Trees that vote alike with their shares, or means; all methods of this kind are NATIVE."""
    made = [_tree(fitted, _shares(fitted, k) if classification else _mean(fitted), native=True) for fitted in trees]
    return Votes(made, SUM, [1.0 / len(made)] * len(made), [VECTOR] * len(made))


def _base(parameters: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"max_depth": parameters["max_depth"], "min_samples_leaf": parameters["min_leaf"], **more}


def _cart(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind = DecisionTreeClassifier if classification else DecisionTreeRegressor
    settings = _base(parameters, random_state=data.seed)
    alpha = parameters["ccp_alpha"]
    if alpha is None:
        alpha = chosen_alpha(data, lambda alpha: kind(**settings, ccp_alpha=alpha))
    fitted = kind(**settings, ccp_alpha=alpha).fit(data.x, data.y, data.w)
    return _average([fitted], data.k, classification)


FOLDS, CANDIDATES = 5, 12
ROOT_ALONE = float(np.finfo(np.float64).max)  # no leaf is worth that penalty; sklearn takes no infinite one


def chosen_alpha(data: Data, tree: Callable[[float], Any]) -> float:
    """The penalty a leaf that predicts best in a cross-validation (Breiman et al. 1984, 3.4.2 and 8.5.2): candidates
    are geometric means of neighbours on the path of the whole window's tree, at most CANDIDATES of them, and one that
    leaves the root alone. Of equal ones, the largest: the smaller tree.

    The folds are blocks of rows that follow each other. Rows of a stream resemble their neighbours, so a tree that was
    grown on those would look good on a row between them, however much it has learned by heart."""
    path = np.maximum(tree(0.0).cost_complexity_pruning_path(data.x, data.y, data.w).ccp_alphas, 0.0)
    between = np.unique(np.concatenate([[0.0], np.sqrt(path[1:-1] * path[2:])]))
    picked = np.append(between[np.unique(np.linspace(0, len(between) - 1, CANDIDATES).astype(int))], ROOT_ALONE)
    if len(path) == 1 or len(data.y) < 2 * FOLDS:
        return 0.0
    fold = np.arange(len(data.y)) * FOLDS // len(data.y)
    loss = np.zeros(len(picked))
    for held in range(FOLDS):
        train, test = fold != held, fold == held
        for i, alpha in enumerate(picked.tolist()):
            predicted = tree(alpha).fit(data.x[train], data.y[train], data.w[train]).predict(data.x[test])
            wrong = predicted != data.y[test] if data.k > 1 else (predicted - data.y[test]) ** 2
            loss[i] += float(data.w[test] @ wrong)
    return float(picked[len(picked) - 1 - int(np.argmin(loss[::-1]))])


def _bagging(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    from sklearn.ensemble import BaggingClassifier, BaggingRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    kind, base = (
        (BaggingClassifier, DecisionTreeClassifier) if classification else (BaggingRegressor, DecisionTreeRegressor)
    )
    # In rows: newer versions take a float as a share of the weights' sum, so the unit of weights would matter.
    rows = max(1, round(parameters["sample"] * len(data.y)))
    settings = {"n_estimators": parameters["n_trees"], "max_samples": rows, "random_state": data.seed}
    fitted = kind(base(**_base(parameters)), n_jobs=1, **settings).fit(data.x, data.y, data.w)
    return _average(fitted.estimators_, data.k, classification)


def _random_forest(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    kind = RandomForestClassifier if classification else RandomForestRegressor
    features = parameters["max_features"]
    if features == "auto":
        features = "sqrt" if classification else "third"
    settings = _base(parameters, n_estimators=parameters["n_trees"], random_state=data.seed)
    tried = {"third": 1.0 / 3.0, "all": 1.0}.get(features, features)
    fitted = kind(**settings, max_features=tried, n_jobs=1).fit(data.x, data.y, data.w)
    return _average(fitted.estimators_, data.k, classification)


def _adaboost(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    """SAMME: a tree votes for the class of its leaf, and against the others; the probabilities are the softmax of what
    is left on average (Zhu et al. 2009). Regression: the weighted median (Drucker 1997)."""
    from sklearn.ensemble import AdaBoostClassifier, AdaBoostRegressor
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    settings = {
        "n_estimators": parameters["n_trees"],
        "learning_rate": parameters["learning_rate"],
        "random_state": data.seed,
    }
    if not classification:
        fitted = AdaBoostRegressor(DecisionTreeRegressor(**_base(parameters)), **settings).fit(data.x, data.y, data.w)
        trees = [_tree(one, _mean(one)) for one in fitted.estimators_]
        return Votes(trees, MEDIAN, fitted.estimator_weights_[: len(trees)].tolist(), [VECTOR] * len(trees))
    fitted = AdaBoostClassifier(DecisionTreeClassifier(**_base(parameters)), **settings).fit(data.x, data.y, data.w)
    trees = []
    for one in fitted.estimators_:
        shares = _shares(one, data.k)
        voted = np.full(shares.shape, -1.0 / (data.k - 1))
        voted[np.arange(len(shares)), shares.argmax(axis=1)] = 1.0
        trees.append(_tree(one, voted))
    weight = fitted.estimator_weights_[: len(trees)]
    return Votes(trees, SOFTMAX, (weight / weight.sum() / (data.k - 1)).tolist(), [VECTOR] * len(trees))


def _gradient_boosting(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    kind = GradientBoostingClassifier if classification else GradientBoostingRegressor
    settings = _base(
        parameters,
        n_estimators=parameters["n_trees"],
        learning_rate=parameters["learning_rate"],
        subsample=parameters["sample"],
        random_state=data.seed,
    )
    fitted = kind(**settings).fit(data.x, data.y, data.w)
    rounds, outputs = fitted.estimators_.shape
    trees = [_tree(one, _mean(one)) for row in fitted.estimators_ for one in row]
    weight, group = [parameters["learning_rate"]] * len(trees), list(range(outputs)) * rounds
    if not classification:
        return Votes(trees, SUM, weight, group, [float(np.average(data.y, weights=data.w))])
    shares = np.bincount(data.y, data.w) / data.w.sum()
    if data.k == 2:
        return Votes(trees, LOGISTIC, weight, group, [float(logs(shares[1] / shares[0])), 0.0])
    return Votes(trees, SOFTMAX, weight, group, logs(shares).tolist())


# XGBoost -------------------------------------------------------------------------------------------------------------


def _xgboost(data: Data, classification: bool, parameters: Mapping[str, Any]) -> Votes:
    import xgboost

    settings = {
        "objective": "reg:squarederror",
        "base_score": 0.0,
        "max_depth": parameters["max_depth"],
        "learning_rate": parameters["learning_rate"],
        "subsample": parameters["sample"],
        "colsample_bytree": parameters["column_sample"],
        "reg_lambda": parameters["ridge"],
        "gamma": parameters["min_gain"],
        "min_child_weight": parameters["min_child_weight"],
        "tree_method": "hist",
        "nthread": 1,
        "seed": data.seed,
        "verbosity": 0,
    }
    if classification:
        settings |= {"objective": "binary:logistic", "base_score": 0.5}
        if data.k > 2:
            settings |= {"objective": "multi:softprob", "num_class": data.k}
    matrix = xgboost.DMatrix(data.x, data.y, weight=data.w, nthread=1)
    booster = xgboost.train(settings, matrix, parameters["n_trees"])
    model = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    trees = [_booster_tree(tree) for tree in model["trees"]]
    weight, group = [1.0] * len(trees), [int(g) for g in model["tree_info"]]
    if not classification:
        return Votes(trees, SUM, weight, group)
    return Votes(trees, LOGISTIC if data.k == 2 else SOFTMAX, weight, group)


def _booster_tree(tree: Mapping[str, Any]) -> FittedTree:
    """XGBoost sends what is below a float32 left: at most the next smaller one."""
    left = np.array(tree["left_children"], np.int32)
    inner = left >= 0
    condition = np.array(tree["split_conditions"], np.float32)
    below = np.nextafter(condition, np.float32(-np.inf)).astype(np.float64)
    return FittedTree(
        np.where(inner, np.array(tree["split_indices"]), -1).astype(np.int32),
        np.where(inner, below, 0.0),
        left,
        np.array(tree["right_children"], np.int32),
        np.array(tree["default_left"], np.uint8),
        np.array(tree["sum_hessian"], np.float32),
        condition.astype(np.float64).reshape(-1, 1),
    )


METHODS: dict[str, Callable[[Data, bool, Mapping[str, Any]], Votes]] = {
    "cart": _cart,
    "bagging": _bagging,
    "random-forest": _random_forest,
    "adaboost": _adaboost,
    "gradient-boosting": _gradient_boosting,
    "xgboost": _xgboost,
}
