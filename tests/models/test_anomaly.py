"""Learners of anomalies against slow twins."""

import numpy as np
import pytest

from models.contract import LEARN, PREDICT, Program, Schema
from models.registry import create
from tests.models.naive_half_space import NaiveHalfSpaceTrees

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


@pytest.mark.parametrize("size", [1, 37, 500])
@pytest.mark.parametrize(("height", "window"), [(1, 10), (5, 40), (8, 100)])
def test_half_space_trees_equal_their_twin(height, window, size):
    x = stream(500, window)
    parameters = {"n_trees": 4, "height": height, "window": window}
    learner = create("half-space-trees", Schema(N_VALUES, 1, "anomaly"), seed=3, **parameters)
    twin = NaiveHalfSpaceTrees(N_VALUES, 3, **parameters)
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
    known = out[window:, 0]
    assert np.isnan(out[:window, 0]).all()
    assert (known >= 0.0).all()
    assert (known <= 1.0).all()
    assert len(np.unique(known)) > 5


def test_what_is_far_from_all_others_scores_highest():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, 3))
    learner = create("half-space-trees", Schema((0, 0, 0), 1, "anomaly"))
    learner.learn_many(x, np.full(1000, np.nan))
    others, far = learner.predict_many(x)[:, 0], learner.predict_many(np.full((1, 3), 6.0))[0, 0]
    assert far > np.quantile(others, 0.999)
