"""Shrub ensembles against their plain twin, against the paper's theorem, and the projection against its definition."""

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.shrubs.simplex import project
from tests.models import naive_shrubs
from tests.models.naive_shrubs import NaiveShrubEnsemble, NaiveShrubs
from tests.models.streams_of_instances import Stream, in_pieces, interleave, played

N_VALUES = (0, 0, 4, 0)
ONE = {"n_windows": 1, "every": 1, "max_depth": 8, "ridge": 0.0}  # the paper's


def stream(n, task, seed=3, missing=0.05):
    """x on a coarse grid, so that values tie; the concept changes half way."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, 4)), 1)
    x[:, 2] = rng.integers(0, 4, n)
    x[rng.random(x.shape) < missing] = np.nan
    signal = (
        np.nan_to_num(x[:, 0]) + (x[:, 2] == 1) - np.where(np.arange(n) < n // 2, 1.0, -1.0) * np.nan_to_num(x[:, 3])
    )
    if task == "regression":
        y = np.round(4.0 * signal + rng.normal(size=n))
        y[n // 2] = 1e5  # a wrong one
        return x, y
    return x, np.digitize(signal + 0.2 * rng.normal(size=n), [-0.5, 0.7]).astype(float)


@pytest.mark.parametrize(
    ("task", "parameters"),
    [
        ("classification", {"splits": "best", "window": 24, "n_trees": 5}),  # 4: two equal weights, rounding decides
        ("classification", {"splits": "best", "window": 32, "n_trees": 8, "step": 4.0, "burn_in": 0, "max_depth": 3}),
        ("classification", {"splits": "random", "window": 24, "max_features": "sqrt", "every": 3, "max_depth": 99}),
        ("classification", {"splits": "best", "window": 24, "train_share": 0.5, "ridge": 0.2, "n_trees": 5}),
        ("classification", {"splits": "best", "window": 24, "max_features": "subspace", "every": 2, "max_depth": 99}),
        ("classification", {"splits": "random", "window": 40, "n_trees": 20, "ridge": 0.3, "every": 2}),  # 9 and more
        ("classification", {"splits": "random", "window": 20, "loss": "cross-entropy", "n_trees": 5}),
        ("classification", {"splits": "best", "window": 16, "weighting": "equal", "n_trees": 5}),
        ("regression", {"splits": "best", "window": 24, "n_trees": 5}),
        ("regression", {"splits": "random", "window": 24, "max_depth": 4, "train_share": 0.6, "ridge": 0.1}),
    ],
)
def test_equal_to_the_twin(task, parameters):
    n = 70
    x, y = stream(n, task)
    weights = np.random.default_rng(1).integers(1, 4, n).astype(float)
    classes = task == "classification"
    parameters = ONE | parameters
    schema = Schema(N_VALUES, 3 if classes else 1, task)
    program = interleave(Stream(schema, x, y, weights))
    learner, ours = in_pieces(lambda: create("shrub-ensemble", schema, seed=5, **parameters), program, x)
    naive = NaiveShrubs(
        N_VALUES, schema.n_outputs, seed=5, classes=classes, **{k: v for k, v in parameters.items() if k != "n_windows"}
    )
    np.testing.assert_allclose(ours, played(naive, program, x, schema.n_outputs), atol=1e-8)
    state = learner.state()
    assert state.n_nodes.tolist() == [len(tree.nodes()) for tree, _, _ in naive.members]
    np.testing.assert_allclose(state.weights, [weight for _, weight, _ in naive.members], atol=1e-8)
    np.testing.assert_allclose(state.weights.sum(), 1.0)


def test_sums_are_those_of_the_window_after_it_has_slid_for_long():
    """Gram matrix and label products against their definition; between two renewals rounding stays tiny."""
    x, y = stream(700, "classification")
    parameters = {**ONE, "window": 64, "n_trees": 6, "splits": "best"}
    learner = create("shrub-ensemble", Schema(N_VALUES, 3, "classification"), **parameters)
    learner.learn_many(x[:690], y[:690])
    state = learner.state()
    codes = np.where(state.codes == 255, np.nan, state.codes.astype(float))
    window = np.insert(np.where(np.isinf(state.x), np.nan, state.x), 2, codes[:, 0], axis=1)
    said = []
    for j in range(len(state.weights)):  # a member alone
        alone = create("shrub-ensemble", learner.schema, **parameters)
        alone.restore(state._replace(weights=np.eye(len(state.weights))[j])._asdict())
        said.append(alone.predict_many(window))
    said = np.array(said)
    gram = np.einsum("jic,kic->jk", said, said)
    np.testing.assert_allclose(state.gram, gram[np.tril_indices(len(said))], atol=1e-10)
    np.testing.assert_allclose(state.labels, said[:, np.arange(64), state.y.astype(int)].sum(axis=1), atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_projection(seed):
    rng = np.random.default_rng(seed)
    for n, m in ((1, 1), (5, 3), (8, 20), (30, 7)):
        weights = rng.normal(size=n)
        ours = weights.copy()
        project(ours, n, m, rng.permutation(n).astype(np.uint32))
        np.testing.assert_allclose(ours, naive_shrubs.project(weights.tolist(), m), atol=1e-12)
        assert (ours > 0.0).sum() <= m


def test_equal_weights_keep_those_that_come_first():
    weights = np.array([0.5, 0.5, 0.5, 0.1])
    project(weights, 4, 2, np.array([2, 1, 3, 0], np.uint32))
    assert weights.tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("task", "parameters"),
    [
        ("classification", {"window": 48, "n_trees": 8, "every": 5, "max_depth": 4, "n_windows": 2}),
        ("regression", {"window": 48, "n_trees": 3, "every": 4, "n_windows": 4, "weighting": "equal"}),
    ],
)
def test_windows_of_several_lengths_are_blended_as_the_twin_does(task, parameters):
    """Programs of any length: what a window said before a label is kept for the blend."""
    n = 120
    # Of 3, tests tie beside the wrong target, which counts as no whole number.
    x, y = stream(n, task, seed=3 if task == "classification" else 4)
    classes = task == "classification"
    weights = np.random.default_rng(1).integers(1, 3, n).astype(float)
    schema = Schema(N_VALUES, 3 if classes else 1, task)
    program = interleave(Stream(schema, x, y, weights))
    learner, ours = in_pieces(lambda: create("shrub-ensemble", schema, seed=5, **parameters), program, x)
    naive = NaiveShrubEnsemble(N_VALUES, schema.n_outputs, seed=5, classes=classes, **parameters)
    np.testing.assert_allclose(ours, played(naive, program, x, schema.n_outputs), atol=1e-8)
    np.testing.assert_allclose(learner.state().blend, naive.shares, atol=1e-8)


def test_nominal_windows_take_a_byte_a_value_and_elec_fits_two_kilobytes():
    nominal = create("shrub-ensemble", Schema((4,) * 60, 3, "classification"), window=64, n_windows=1)
    rng = np.random.default_rng(1)
    nominal.learn_many(rng.integers(0, 4, (64, 60)).astype(float), rng.integers(0, 3, 64).astype(float))
    assert nominal.state().codes.nbytes == 64 * 60
    small = create("shrub-ensemble", Schema((7,) + (0,) * 7, 2, "classification"), **ONE, window=16, n_trees=4)
    x = rng.random((300, 8))
    x[:, 0] = np.floor(7.0 * x[:, 0])
    small.learn_many(x, rng.integers(0, 2, 300).astype(float))
    assert small.n_bytes <= 2048


def test_the_trees_that_are_shown_are_those_that_vote():
    """Descending the described nodes, weighted by their shares, predicts what the ensemble predicts."""
    x, y = stream(400, "classification", missing=0.3)
    learner = create("shrub-ensemble", Schema(N_VALUES, 3, "classification"), window=64, n_windows=2, every=4)
    learner.learn_many(x[:380], y[:380])
    root, *nodes = learner.describe()
    by_id = {node["id"]: node for node in nodes}
    trees = [node for node in nodes if "share" in node]
    tests = [node for node in nodes if "feature" in node]
    assert any("known" in node for node in tests)
    assert sum(window["share"] for window in root["windows"]) == pytest.approx(1.0)
    assert {tree["window"] for tree in trees} == {64, 16}

    def said(node, row):
        while "feature" in node:
            value = row[node["feature"]]
            if "known" in node:
                left = not np.isnan(value)
            else:
                left = value == node["equals"] if "equals" in node else value <= node["threshold"]
            node = by_id[node["children"][0 if left else 1]]
        return np.array(node["value"])

    shown = [sum(tree["share"] * said(tree, row) for tree in trees) for row in x[380:]]
    np.testing.assert_allclose(learner.predict_many(x[380:]), shown, atol=1e-12)
