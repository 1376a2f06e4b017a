"""What is kept between questions for reasons: asked after each label, a model says bit for bit what its restored copy
says, which is asked for the first time; and what it keeps is no state."""

import numpy as np
import pytest

from models.contract import LEARN, Program, Schema
from models.contributions import largest
from models.ensemble.regression import Patch
from models.hoeffding.subspace_tree import SubspaceTree
from models.registry import create
from models.regression.subspace_tree import SubspaceRegressionTree
from tests.models import naive_contributions
from tests.models.contract.worlds import rows, schema_of

N = 900
GROWS = {"grace_period": 30, "delta": 0.2, "tie_threshold": 0.3}
EAGER = {"delta": 0.3, "node_cost": 0.0, "warm_up": 40, "grace_period": 20}
DRIFTS = {"drift_delta": 0.0, "drift_threshold": 1.0}
CASES = [
    ("hoeffding-tree", "classification", {**GROWS}),
    ("hoeffding-tree", "classification", {**GROWS, "binary_splits": False, "leaf_prediction": "mc"}),
    ("hoeffding-tree", "classification", {**GROWS, "max_nodes": 9, "observer": "histogram", "n_bins": 12}),
    ("hoeffding-tree", "classification", {**GROWS, "max_active_leaves": 3}),
    (SubspaceTree, "classification", {**GROWS, "n_chosen": 2}),
    (SubspaceTree, "classification", {**GROWS, "n_chosen": 2, "per_leaf": False}),
    ("extremely-fast-decision-tree", "classification", {**GROWS}),
    ("hoeffding-adaptive-tree", "classification", {**GROWS}),
    ("adaptive-random-forest", "classification", {**GROWS, "n_models": 3, "warning_delta": 0.3, "drift_delta": 0.2}),
    ("adaptive-random-forest", "regression", {**GROWS, "n_models": 3, "warning_delta": 0.3, "drift_delta": 0.2}),
    ("online-boosting", "classification", {**GROWS, "n_models": 3}),
    ("streaming-random-patches", "regression", {**GROWS, "n_models": 3}),
    ("fimt-dd", "regression", {**GROWS, **DRIFTS}),
    ("fimt-dd", "regression", {**GROWS, **DRIFTS, "max_nodes": 21, "leaf_prediction": "model"}),
    ("hoeffding-regression-tree", "regression", {**GROWS, "leaf_prediction": "mean"}),
    (SubspaceRegressionTree, "regression", {**GROWS, "n_features": 2}),
    ("orto", "regression", {**GROWS}),
    ("stochastic-gradient-tree", "classification", {**EAGER}),
    ("stochastic-gradient-tree", "classification", {**EAGER, "multiway": True, "max_nodes": 60}),
    ("stochastic-gradient-tree", "classification", {**EAGER, "preset": "boosted", "n_stages": 3, "reset_delta": 0.3}),
    ("stochastic-gradient-tree", "classification", {**EAGER, "outputs": "one-tree", "leaf_update": "tested"}),
    ("stochastic-gradient-tree", "regression", {**EAGER}),
    ("stochastic-gradient-tree", "regression", {**EAGER, "preset": "boosted", "n_stages": 3, "rebin_period": 90}),
    ("shrub-ensemble", "classification", {"window": 64, "n_trees": 5}),
    ("shrub-ensemble", "classification", {"window": 50, "n_trees": 4, "n_windows": 1, "splits": "best", "every": 3}),
    ("shrub-ensemble", "classification", {"window": 64, "n_trees": 4, "weighting": "equal", "max_depth": 3}),
    ("shrub-ensemble", "regression", {"window": 64, "n_trees": 5, "train_share": 0.6}),
    ("shrub-ensemble", "regression", {"window": 9, "n_trees": 3, "every": 7}),
    ("mondrian-forest", "classification", {"n_trees": 3}),
    ("soft-hoeffding-tree", "classification", {}),
]


def made(kind, schema, parameters):
    return create(kind, schema, seed=1, **parameters) if isinstance(kind, str) else kind(schema, seed=1, **parameters)


def copy_of(kind, learner, parameters):
    other = made(kind, learner.schema, parameters)
    other.restore({name: array.copy() for name, array in learner.state()._asdict().items()})
    return other


def stream(task, weights):
    """Rows whose labels turn over twice, in other units for a while, with weights that are whole, fractions, or none;
    and some that teach nothing."""
    x, y = rows(N, task, seed=3)
    rng = np.random.default_rng(4)
    turned = (np.arange(N) > N // 3) & (np.arange(N) < 2 * N // 3)
    y = np.where(turned, 2.0 - y if task == "classification" else -5.0 * y, y)
    y[rng.random(N) < 0.02] = np.nan
    w = {"one": np.ones(N), "fractions": rng.random(N), "whole": rng.integers(0, 4, N).astype(float)}[weights]
    return x, y, w


def learn(learner, x, y, w):
    """As a stream does, where a label may be missing."""
    n = len(y)
    program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), y, w)
    learner.run(program, np.ascontiguousarray(x), np.zeros((n, learner.schema.n_outputs)))


def told(learner, x):
    """Of each class, as a logarithmic pool asks."""
    n, k = len(x), learner.schema.n_outputs
    about = np.tile(np.arange(k), n) if k > 1 else np.full(n, -1)
    return learner.contributions(x, np.repeat(np.arange(n, dtype=np.int32), k), about)


@pytest.mark.parametrize("weights", ["one", "fractions", "whole"])
@pytest.mark.parametrize(("kind", "task", "parameters"), CASES, ids=str)
def test_asked_after_each_label_it_says_what_its_copy_says(kind, task, parameters, weights):
    x, y, w = stream(task, weights)
    learner, silent = (made(kind, schema_of(task), parameters) for _ in range(2))
    others, rng, at, step = rows(N, task, seed=5)[0], np.random.default_rng(6), 0, 0
    while at < N:
        n = 1 if rng.random() < 0.9 else int(rng.integers(2, 120))  # labels until it is asked again
        for one in (learner, silent):
            learn(one, x[at : at + n], y[at : at + n], w[at : at + n])
        at, step = at + n, step + 1
        if step == 60:
            for one in (learner, silent):
                one.resize(schema_of(task, (0, 0, 6, 0, 2), 4))
        if step % 40 == 0:  # goes on after a restart
            learner = copy_of(kind, learner, parameters)
        x_now = others[2 * step % (N - 2) :][:2]
        said = told(learner, x_now)
        if step % 4 == 0 or n > 1:
            assert said.tobytes() == told(copy_of(kind, learner, parameters), x_now).tobytes(), step
    for name, array in learner.state()._asdict().items():
        assert array.tobytes() == getattr(silent.state(), name).tobytes(), name
    assert np.abs(said[:, :-1]).max() > 0.0 or parameters.get("n_trees")


@pytest.mark.parametrize(
    ("kind", "task", "parameters"),
    [
        ("hoeffding-tree", "classification", {**GROWS, "binary_splits": False, "leaf_prediction": "mc"}),
        ("fimt-dd", "regression", {**GROWS, **DRIFTS, "leaf_prediction": "mean"}),
        ("hoeffding-regression-tree", "regression", {**GROWS, "leaf_prediction": "mean", "max_nodes": 9}),
    ],
)
def test_asked_after_each_label_it_says_what_its_twin_says(kind, task, parameters):
    x, y, w = stream(task, "fractions")
    learner, others = made(kind, schema_of(task), parameters), rows(N, task, seed=5)[0]
    sizes = set()
    for i in range(N):
        learn(learner, x[i : i + 1], y[i : i + 1], w[i : i + 1])
        about = np.array([1 if task == "classification" else -1])
        said = learner.contributions(others[[i]], np.zeros(1, np.int32), about)[0]
        sizes.add(learner.size()["n_nodes"])
        if i > 60 and i % 3 == 0:
            added, begin = naive_contributions.contributions(learner.describe(), 0, others[i].tolist(), int(about[0]))
            np.testing.assert_allclose(said, [*added, begin], rtol=1e-9, atol=1e-9)
    assert len(sizes) > 2


@pytest.mark.parametrize("parameters", [{"window": 32, "n_trees": 4}, {"window": 32, "n_trees": 4, "max_depth": 2}])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_asked_after_each_label_shrubs_say_what_their_twin_says(task, parameters):
    x, y, w = stream(task, "fractions")
    learner, others = made("shrub-ensemble", schema_of(task), parameters), rows(N, task, seed=5)[0]
    for i in range(200):
        learn(learner, x[i : i + 1], y[i : i + 1], w[i : i + 1])
        about = np.array([1 if task == "classification" else -1])
        said = learner.contributions(others[[i]], np.zeros(1, np.int32), about)[0]
        if i < 20 or i % 5:
            continue
        nodes, expected = learner.describe(), np.zeros(len(x[0]) + 1)
        for root in (node for node in nodes if node.get("part") == "tree"):
            row = others[i].tolist()
            added, begin = naive_contributions.contributions_of_window(nodes, root["id"], row, int(about[0]))
            expected += root["share"] * np.array([*added, begin])
        np.testing.assert_allclose(said, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_pool_says_the_same_with_the_votes_that_it_has_cast_and_without(task):
    """Votes on the instances that are asked about are there when a pool has predicted just them."""
    members = {"a": "last-label", "b": "naive-bayes" if task == "classification" else "fimt-dd", "c": "shrub-ensemble"}
    schema = Schema((0, 0), 3 if task == "classification" else 1, task)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    y = np.digitize(x[:, 0], [-0.5, 0.5]).astype(float)
    pool = create("opinion-pool", schema, seed=1, members=members)
    row = np.zeros(1, np.int32)
    for i in range(300):
        about = np.array([pool.predict_many(x[[i]]).argmax() if task == "classification" else -1])
        said = pool.contributions(x[[i]], row, about)
        pool.predict_many(x[[i - 1]])  # somebody else
        assert said.tobytes() == pool.contributions(x[[i]], row, about).tobytes()
        pool.learn_many(x[[i]], y[[i]])
        pool.contributions(x[[i]], row, about)


def test_a_patch_says_what_its_copy_says():
    x, y, w = stream("regression", "one")
    parameters = {**create("streaming-random-patches", schema_of("regression"))._tree, **GROWS}
    patch, other = (Patch(schema_of("regression"), 5, parameters, 3) for _ in range(2))
    row, about = np.zeros(1, np.int32), np.full(1, -1)
    for i in range(400):
        program = Program(np.full(1, LEARN, np.int8), row, y[i : i + 1], w[i : i + 1])
        patch.run(program, x[[i]], np.zeros((1, 1)), np.zeros(1))
        said = patch.contributions(x[[i]], row, about)
        if i % 10 == 0:
            other.restore({name: array.copy() for name, array in patch.state()._asdict().items()})
            assert said.tobytes() == other.contributions(x[[i]], row, about).tobytes()


@pytest.mark.parametrize("most", [1, 3, 8])
def test_the_largest_are_the_first_of_a_stable_sort(most):
    rng = np.random.default_rng(most)
    added = np.round(rng.normal(size=(200, 6)), 1)  # many are equal, some 0
    added[rng.random(added.shape) < 0.1] = 0.0
    added[0] = 0.0
    columns, places = np.array([7, 5, 3, 2, 0], np.int64), rng.permutation(200)
    found = np.zeros((200, most, 2))
    largest(added, columns, places, found)
    for one, place in zip(added[:, :-1].tolist(), places.tolist(), strict=True):
        first = [f for f in sorted(range(5), key=lambda f: -abs(one[f])) if one[f]][:most]
        told = [[float(columns[f]), one[f]] for f in first]
        assert found[place, : len(told)].tolist() == told
        assert np.isnan(found[place, len(told) :]).all()
