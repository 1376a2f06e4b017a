"""What features add to predictions, against a twin that walks through the nodes that models describe."""

import numpy as np
import pytest

from models.contract import Schema
from models.registry import create
from tests.models.contract.worlds import rows, schema_of
from tests.models.naive_contributions import contributions, roots

GROWS = {"grace_period": 50, "delta": 0.05}
LEAVES = {"classification": {"leaf_prediction": "mc"}, "regression": {"leaf_prediction": "mean"}}
TREES = [
    ("hoeffding-tree", "classification", {}),
    ("hoeffding-tree", "classification", {"binary_splits": False}),
    ("hoeffding-adaptive-tree", "classification", {}),
    ("extremely-fast-decision-tree", "classification", {"binary_splits": False}),
    ("fimt-dd", "regression", {}),
    ("hoeffding-regression-tree", "regression", {}),
]
FORESTS = [
    ("online-bagging", "classification", {"n_models": 3}),
    ("online-bagging", "regression", {"n_models": 3}),
    ("leveraging-bagging", "classification", {"n_models": 3}),
    ("online-boosting", "classification", {"n_models": 3}),
    ("adaptive-random-forest", "classification", {"n_models": 3, "vote": "weighted"}),
    ("adaptive-random-forest", "regression", {"n_models": 3, "vote": "weighted"}),
    ("streaming-random-patches", "classification", {"n_models": 3}),
    ("streaming-random-patches", "regression", {"n_models": 3}),
]


def grown(name, task, parameters, n=3000):
    leaves = LEAVES["classification" if "n_models" in parameters else task]
    learner = create(name, schema_of(task), seed=1, **GROWS, **leaves, **parameters)
    x, y = rows(n, task)
    learner.learn_many(x, y)
    return learner


def asked(learner, x):
    """What was predicted, what it is asked about, and what the model says."""
    said = learner.predict_many(x)
    about = np.full(len(x), -1) if said.shape[1] == 1 else said.argmax(axis=1)
    told = learner.contributions(x, np.arange(len(x), dtype=np.int32), about)
    return said[np.arange(len(x)), np.maximum(about, 0)], about, told


@pytest.mark.parametrize(("name", "task", "parameters"), TREES)
def test_contributions_equal_their_twin_and_add_up(name, task, parameters):
    learner = grown(name, task, parameters)
    x = rows(200, task, seed=5)[0]
    said, about, told = asked(learner, x)
    nodes = learner.describe()
    expected = [contributions(nodes, 0, row, c) for row, c in zip(x.tolist(), about.tolist(), strict=True)]
    np.testing.assert_allclose(told[:, :-1], [added for added, _ in expected], atol=1e-9)
    np.testing.assert_allclose(told[:, -1], [begin for _, begin in expected], rtol=1e-9)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-12)
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2


@pytest.mark.parametrize(("name", "task", "parameters"), FORESTS)
def test_contributions_of_a_forest_are_those_of_its_trees(name, task, parameters):
    learner = grown(name, task, parameters)
    x = rows(100, task, seed=5)[0]
    said, about, told = asked(learner, x)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=1e-9, atol=1e-12)
    if parameters.get("vote") or "boosting" in name or "patches" in name:
        return  # its weights are its own: the sum says that they are these
    nodes, expected = learner.describe(), []
    for row, c in zip(x.tolist(), about.tolist(), strict=True):
        expected.append(np.mean([contributions(nodes, root, row, c)[0] for root in roots(nodes)], axis=0))
    np.testing.assert_allclose(told[:, :-1], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("task", "pool"), [("classification", "linear"), ("classification", "leader"), ("regression", "linear")]
)
def test_contributions_of_a_pool_are_those_of_its_members_by_their_weights(task, pool):
    trees = {
        "classification": {"a": "hoeffding-tree", "b": "extremely-fast-decision-tree"},
        "regression": {"a": "fimt-dd", "b": "hoeffding-regression-tree"},
    }[task]
    own = {name: {"model": model, **LEAVES[task], **GROWS} for name, model in trees.items()}
    learner = create("opinion-pool", schema_of(task), seed=1, members=own, pool=pool)
    x, y = rows(1500, task)
    learner.learn_many(x, y)
    others = rows(50, task, seed=5)[0]
    said, about, told = asked(learner, others)
    np.testing.assert_allclose(told.sum(axis=1), said, rtol=0.02 if pool == "linear" else 1e-9)
    if pool == "linear":
        share = np.array(list(learner.weights.values())) / sum(learner.weights.values())
        row = np.arange(50, dtype=np.int32)
        parts = [member.contributions(others, row, about) for member in learner.members.values()]
        np.testing.assert_allclose(told, share[0] * parts[0] + share[1] * parts[1], atol=1e-12)


def test_who_has_learned_nothing_says_so_and_who_cannot_say_it():
    x, about = np.zeros((2, 2)), np.zeros(2, np.int64)
    row = np.arange(2, dtype=np.int32)
    for name in ("hoeffding-tree", "extremely-fast-decision-tree", "online-bagging"):
        told = create(name, Schema((0, 0), 2, "classification")).contributions(x, row, about)
        assert np.isnan(told[:, -1]).all()
        assert not told[:, :-1].any()
    schema = Schema((0, 0), 1, "regression")
    assert np.isnan(create("fimt-dd", schema).contributions(x, row, about - 1)[:, -1]).all()
    assert not create("orto", schema).tells_why
    assert not create("online-bagging", Schema((0, 0), 2, "classification"), vote="majority").tells_why
    with pytest.raises(NotImplementedError, match="last-label does not say"):
        create("last-label", schema).contributions(x, row, about)
