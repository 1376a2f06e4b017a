"""What linear models in leaves and options add to contributions of regression trees, against slow twins."""

import numpy as np
import pytest

from models.contract import PREDICT, Program, Schema
from models.registry import create
from models.regression.fimt import FimtDD
from models.regression.orto import Orto
from models.regression.subspace_tree import SubspaceRegressionTree
from tests.models import naive_contributions
from tests.models.streams_of_instances import run_learns
from tests.models.test_regression_trees import make, targets, twin

ASKED = 40
WORLDS = {
    "mixed": {"n_values": (0, 3, 0, 5, 0, 2)},
    "two features": {"n_values": (0, 0), "missing": 0.0},
    "nominal": {"n_values": (4, 2, 6), "weights": "fractions"},
    "mostly missing": {"n_values": (0, 3, 0), "missing": 0.8, "weights": "whole"},
}
CASES = [
    (FimtDD, {}),
    (FimtDD, {"leaf_prediction": "model", "drift_delta": 0.0, "drift_threshold": 2.0}),
    (FimtDD, {"leaf_prediction": "model", "drift_detection": False, "n_bins": 4}),
    (FimtDD, {"leaf_prediction": "model", "max_depth": 0, "n_bins": 1000}),
    (SubspaceRegressionTree, {"n_features": 1, "leaf_prediction": "model"}),
    (SubspaceRegressionTree, {"n_features": 2}),
    (Orto, {}),
    (Orto, {"prediction": "average", "keep_leaf": False, "leaf_prediction": "model"}),
    (Orto, {"prediction": "best-path", "max_trees": 25, "tie_threshold": 0.0}),
    (Orto, {"keep_leaf": False, "option_decay": 1.0, "max_trees": 30, "tie_threshold": 0.0}),
    (Orto, {"max_trees": 30, "tie_threshold": 0.0, "leaf_prediction": "mean"}),
]


def told_by(learner, x):
    """What it says, also of codes that the schema does not have, and what features add."""
    row, out = np.arange(len(x), dtype=np.int32), np.zeros((len(x), 1))
    learner.run(Program(np.full(len(x), PREDICT, np.int8), row, np.full(len(x), np.nan), np.ones(len(x))), x, out)
    return out[:, 0], learner.contributions(x, row, np.full(len(x), -1))


def expected(learner, other, row):
    """What features add, where it begins, and what is left."""
    if isinstance(learner, Orto):
        added, begin, left = naive_contributions.of_options(other, row)
        return [*added, begin, left]
    added, begin = naive_contributions.contributions(learner.describe(), 0, row, -1)
    path = other.path(other.root, row)
    more, left = naive_contributions.of_linear_leaf(path[-1].leaf, row, {node.feature for node in path[:-1]})
    return [*(a + b for a, b in zip(added, more, strict=True)), begin, left]


@pytest.mark.parametrize("world", list(WORLDS))
@pytest.mark.parametrize(("cls", "parameters"), CASES, ids=str)
@pytest.mark.parametrize("n", [37, 900])
def test_contributions_equal_their_twin_and_add_up(cls, parameters, world, n):
    stream = targets(n, seed=3, **WORLDS[world])
    learner, other = make(cls, stream, **parameters), twin(cls, stream, **parameters)
    learner.learn_many(stream.x, stream.y, stream.w)
    for x, y, w in zip(stream.x.tolist(), stream.y.tolist(), stream.w.tolist(), strict=True):
        other.learn(x, y, w)
    x = targets(ASKED, seed=4, **WORLDS[world]).x
    said, told = told_by(learner, x)
    twins = np.array([expected(learner, other, row) for row in x.tolist()])
    np.testing.assert_allclose(told, twins[:, :-1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(said - told.sum(axis=1), twins[:, -1], atol=1e-9)
    if parameters.get("leaf_prediction") == "mean":
        np.testing.assert_allclose(said, told.sum(axis=1), atol=1e-9)
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2 or n < 900


def test_the_cases_reach_what_they_are_for():
    """Options below options, leaves that have seen nothing of some features, leaves with means and with models."""
    stream = targets(900, seed=3)
    learner = make(Orto, stream, keep_leaf=False, option_decay=1.0, max_trees=30, tie_threshold=0.0)
    learner.learn_many(stream.x, stream.y)
    heads = [node["depth"] for node in learner.describe() if "option" in node]
    assert len(set(heads)) > 1
    learner = make(FimtDD, stream)
    learner.learn_many(stream.x, stream.y)
    assert {node.get("predictor") for node in learner.describe()} == {None, "mean", "model"}


@pytest.mark.parametrize("name", ["fimt-dd", "orto"])
def test_terms_of_what_a_leaf_has_seen_are_nothing_on_average(name):
    """Where keys are the values themselves; nominal and missing values, too."""
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.integers(0, 9, 600) / 4.0, rng.integers(0, 3, 600), rng.normal(size=600).round(1)])
    x[rng.random(x.shape) < 0.2] = np.nan
    y = 5.0 + 3.0 * np.nan_to_num(x[:, 0]) - 2.0 * (x[:, 1] == 2) + rng.normal(size=600)
    w = rng.integers(1, 4, 600) * 0.001
    learner = create(name, Schema((0, 3, 0), 1, "regression"), leaf_prediction="model", max_depth=0, n_bins=100)
    learner.learn_many(x, y, w)
    said, told = told_by(learner, x)
    np.testing.assert_allclose(w @ told[:, :-1], 0.0, atol=1e-9)
    np.testing.assert_allclose(told[:, -1], np.average(y, weights=w), rtol=1e-9)
    left = said - told.sum(axis=1)
    np.testing.assert_allclose(left, left[0], atol=1e-9)  # it is no row's own
    assert np.abs(told[:, 0]).max() > 0.01


@pytest.mark.parametrize("name", ["fimt-dd", "orto", "online-bagging"])
def test_a_linear_world_is_told_as_it_is(name):
    rng = np.random.default_rng(1)
    x = rng.random((20_000, 3))
    y = 10.0 + 4.0 * x[:, 0] - 2.0 * x[:, 1]
    learner = create(name, Schema((0, 0, 0), 1, "regression"), seed=1, max_depth=0)
    learner.learn_many(x, y)
    said, told = told_by(learner, x[:200])
    np.testing.assert_allclose(told[:, :-1], (x[:200] - 0.5) * [4.0, -2.0, 0.0], atol=0.1)
    np.testing.assert_allclose(said, told.sum(axis=1), atol=0.05)


@pytest.mark.parametrize("leaf_prediction", ["mean", "model", "adaptive"])
@pytest.mark.parametrize("name", ["fimt-dd", "hoeffding-regression-tree", "orto"])
def test_odd_worlds(name, leaf_prediction):
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=400), np.full(400, 7.0), rng.integers(0, 2, 400)])
    y = np.where(x[:, 0] > 0.0, 3.0, 1.0) + x[:, 0] + 2.0 * x[:, 2]
    odd = [[0.1, 8.0, 1.0], [np.nan] * 3, [np.inf, 7.0, 2.0], [-np.inf, np.inf, 9.0], [1e308, -1e308, -1.0]]
    asked = np.vstack([x[:20], odd])

    def fresh():
        eager = {"grace_period": 40, "delta": 0.2, "n_bins": 4}
        return create(name, Schema((0, 0, 3), 1, "regression"), leaf_prediction=leaf_prediction, **eager)

    told = told_by(fresh(), asked)[1]
    assert np.isnan(told[:, -1]).all()
    assert not told[:, :-1].any()
    one = fresh()
    one.learn_many(x[:1], y[:1])
    said, told = told_by(one, asked)
    np.testing.assert_allclose(told, [[0.0, 0.0, 0.0, y[0]]] * 25, atol=1e-12)
    for weights in (np.ones(400), np.full(400, 0.001)):
        learner = fresh()
        learner.learn_many(x, y, weights)
        said, told = told_by(learner, asked)
        assert np.isfinite(told).all()
        np.testing.assert_allclose(told[:20, 1], 0.0, atol=1e-12)  # the column is constant
        if leaf_prediction == "mean":
            np.testing.assert_allclose(said, told.sum(axis=1), atol=1e-9)
    learner = fresh()  # values as far apart as there are
    run_learns(learner, np.vstack([x, odd * 20]), np.append(y, np.arange(100.0)))
    assert np.isfinite(told_by(learner, asked)[1]).all()


@pytest.mark.parametrize("name", ["adaptive-random-forest", "streaming-random-patches", "online-bagging"])
def test_ensembles_have_the_mean_of_their_trees(name):
    stream = targets(900, seed=3)
    learner = create(name, stream.schema, seed=1, n_models=3, grace_period=20, delta=0.3, tie_threshold=0.2)
    learner.learn_many(stream.x, stream.y)
    x = targets(ASKED, seed=4).x
    _, told = told_by(learner, x)
    each = np.array([tree.contributions(x, np.arange(ASKED, dtype=np.int32), np.full(ASKED, -1))
                     for tree in learner._voting()])  # fmt: skip
    votes = learner._votes()
    np.testing.assert_allclose(told, np.tensordot(votes / votes.sum(), each, 1), atol=1e-9)
