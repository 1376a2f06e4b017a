"""Learners of anomalies against slow twins."""

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program, Schema
from riparian.models.registry import create
from tests.models.naive_half_space import NaiveHalfSpaceTrees
from tests.models.naive_online_isolation import NaiveOnlineIsolationForest

N_VALUES = (0, 3, 0, 0)


def stream(n, seed):
    """Drifting features, some missing, one constant, some values far out."""
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [rng.normal(np.arange(n) / 100.0), rng.integers(0, 3, n), np.full(n, 4.0), rng.exponential(size=n)]
    )
    x[rng.random(x.shape) < 0.05] = np.nan
    x[rng.random(n) < 0.01, 0] = 1e9
    x[: n // 3, 3] = np.nan
    return x


def compare(learner, twin, x, size):
    """Predict and learn row by row, in programs of so many operations; what both predict is the same."""
    op = np.tile([PREDICT, LEARN], len(x)).astype(np.int8)
    row = np.repeat(np.arange(len(x), dtype=np.int32), 2)
    program = Program(op, row, np.full(len(op), np.nan), np.ones(len(op)))
    out = np.zeros((len(x), 1))
    for at in range(0, len(op), size):
        learner.run(program.part(at, at + size), x, out)
    expected = []
    for one in x:
        expected.append(twin.predict(one))
        twin.learn(one)
    assert out[:, 0] == pytest.approx(expected, abs=1e-12, nan_ok=True)
    return out


@pytest.mark.parametrize("size", [1, 37])
@pytest.mark.parametrize(
    ("height", "window", "max_window"),
    [(1, 10, None), (5, 40, None), (8, 100, None), (4, 10, 11), (5, 12, 96), (8, 40, 150), (6, 100, 10_000)],
)
def test_half_space_trees_equal_their_twin(height, window, max_window, size):
    x = stream(500, window)
    parameters = {"n_trees": 4, "height": height, "window": window, "max_window": max_window}
    learner = create("half-space-trees", Schema(N_VALUES, 1, "anomaly"), seed=3, **parameters)
    twin = NaiveHalfSpaceTrees(N_VALUES, 3, **parameters)
    out = compare(learner, twin, x, size)
    known = out[window:, 0]
    assert np.isnan(out[:window, 0]).all()
    assert (known >= 0.0).all()
    assert (known <= 1.0).all()
    assert len(np.unique(known)) > 5


@pytest.mark.parametrize("size", [1, 37])
@pytest.mark.parametrize(("window", "leaf_size"), [(10, 2), (100, 4), (300, 2), (60, 30)])
def test_online_isolation_forest_equals_its_twin(window, leaf_size, size):
    x = stream(500, window)
    parameters = {"n_trees": 3, "window": window, "leaf_size": leaf_size}
    learner = create("online-isolation-forest", Schema(N_VALUES, 1, "anomaly"), seed=3, **parameters)
    twin = NaiveOnlineIsolationForest(N_VALUES, 3, **parameters)
    out = compare(learner, twin, x, size)
    assert np.isnan(out[: leaf_size + 1, 0]).all()
    assert len(np.unique(out[window:, 0])) > 5
    heights = learner.state().heights
    for tree, naive in zip(range(3), twin.trees, strict=True):
        assert heights[tree, 0] == naive.root.height == min(window, 500)


def test_online_isolation_forest_equals_its_twin_where_all_has_moved_on():
    """Cuts of before stay where enough instances pass them, though all on one side: most of the window then lies in one
    box, as the authors' rules have it. Every node and box is the twin's."""
    n, window = 1500, 200
    rng = np.random.default_rng(2)
    x = rng.normal(size=(n, 3)) + 4.0 * rng.integers(0, 2, (n, 1)) + 20.0 * (np.arange(n) >= n // 2)[:, None]
    parameters = {"n_trees": 8, "window": window, "leaf_size": 4}
    learner = create("online-isolation-forest", Schema((0, 0, 0), 1, "anomaly"), seed=3, **parameters)
    twin = NaiveOnlineIsolationForest((0, 0, 0), 3, **parameters)
    fullest = []
    for at in (0, n // 2):
        half = x[at : at + n // 2]
        learner.learn_many(half, np.full(len(half), np.nan))
        for one in half:
            twin.learn(one)
        expected = [twin.predict(one) for one in half[-50:]]
        assert learner.predict_many(half[-50:])[:, 0] == pytest.approx(expected, abs=1e-12)
        state, most = learner.state(), []
        for t, tree in enumerate(twin.trees):
            waiting, leaves = [(0, tree.root)], []
            while waiting:
                i, node = waiting.pop()
                assert state.heights[t, i] == node.height
                for f, ends in node.box.items():
                    assert state.boxes[t, i, :, f] == pytest.approx(ends, abs=1e-12)
                waiting += [(2 * i + 1 + k, child) for k, child in enumerate(node.children)]
                leaves += [] if node.children else [node.height]
            most.append(max(leaves) / window)
        fullest.append(np.mean(most))
    assert fullest[0] < 0.6
    assert fullest[1] > 0.7


@pytest.mark.parametrize(("name", "share"), [("half-space-trees", 0.999), ("online-isolation-forest", 0.9)])
def test_what_is_far_from_others_scores_high(name, share):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, 3))
    learner = create(name, Schema((0, 0, 0), 1, "anomaly"))
    learner.learn_many(x, np.full(1000, np.nan))
    others, far = learner.predict_many(x)[:, 0], learner.predict_many(np.full((1, 3), 6.0))[0, 0]
    assert far > np.quantile(others, share)
