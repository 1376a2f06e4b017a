"""Nearest neighbours: who votes, what the memories keep, and odd worlds."""

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program, Schema
from riparian.models.neighbours.nearest_neighbours import NearestNeighbours
from riparian.models.restoring import DamagedError, restore


def made(n_values=(0, 0), n_outputs=2, **parameters):
    task = "classification" if n_outputs > 1 else "regression"
    return NearestNeighbours(Schema(tuple(n_values), n_outputs, task), **parameters)


def prequential(learner, x, y):
    n = len(y)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), n)
    row = np.repeat(np.arange(n, dtype=np.int32), 2)
    label = np.where(op == LEARN, np.repeat(y, 2), np.nan)
    out = np.full((n, learner.schema.n_outputs), np.nan)
    learner.run(Program(op, row, label, np.ones(2 * n)), np.ascontiguousarray(x, dtype=np.float64), out)
    return out


def sizes(learner):
    short, long = learner.state().sizes.tolist()
    return short, long


def test_votes_are_weights_over_distances():
    learner = made((0,), k=2)
    learner.learn_many([[0.0], [4.0], [100.0]], [0, 1, 1], [1.0, 2.0, 5.0])
    (found,) = learner.predict_many([[1.0]])
    assert found == pytest.approx([1.0 / (1.0 + 2.0 / 3.0), (2.0 / 3.0) / (1.0 + 2.0 / 3.0)], rel=1e-5)


def test_a_value_is_the_mean_of_the_neighbours_by_their_votes():
    learner = made((0,), 1, k=2)
    learner.learn_many([[0.0], [4.0], [100.0]], [10.0, 20.0, 500.0])
    assert learner.predict_many([[1.0]])[0, 0] == pytest.approx((10.0 / 1.0 + 20.0 / 3.0) / (1.0 + 1.0 / 3.0), rel=1e-5)


def test_units_of_features_do_not_matter():
    """By powers of two: not a bit."""
    x = np.random.default_rng(1).normal(size=(900, 3))
    y = (x[:, 0] * x[:, 1] > 0.0).astype(float)
    small, large = made((0, 0, 0)), made((0, 0, 0))
    found = prequential(small, x, y)
    assert found.tobytes() == prequential(large, x * [2.0**40, 2.0**-30, 8.0], y).tobytes()
    assert (found[300:].argmax(1) == y[300:]).mean() > 0.85


def test_values_that_differ_or_are_missing_are_apart():
    learner = made((3,), k=1)
    learner.learn_many([[0.0], [1.0], [np.nan]], [0, 1, 0])
    assert learner.predict_many([[1.0], [0.0], [np.nan]]).argmax(1).tolist() == [1, 0, 0]
    assert learner.predict_many([[2.0]]).argmax() == 0, "of equal distances the newest row"


def test_the_short_memory_shrinks_where_the_concept_changes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1200, 2))
    y = (x[:, 0] > 0.0).astype(float)
    learner = made(window=800, long=0, minimum=25)
    prequential(learner, x[:700], y[:700])
    before = sizes(learner)[0]
    out = prequential(learner, x[700:], 1.0 - y[700:])
    assert sizes(learner)[0] < before
    assert (out[150:].argmax(1) == 1.0 - y[850:]).mean() > 0.9


def test_the_long_memory_keeps_what_nothing_contradicts():
    """A region that was seen long ago is known; what rows show to be otherwise there is forgotten."""
    rng = np.random.default_rng(3)

    def region(centre, n):
        return rng.normal(centre, 0.3, size=(n, 2))

    old, new = region(-6.0, 300), region(6.0, 900)
    remembers, forgets = made(window=200, long=200), made(window=200, long=0)
    for learner in (remembers, forgets):
        learner.learn_many(old, np.ones(300))
        learner.learn_many(new, (new[:, 0] > 6.0).astype(float))
    n_long = sizes(remembers)[1]
    state = remembers.state()
    assert n_long > 20
    assert sizes(forgets)[1] == 0
    there = state.x[-n_long:, 0] < 0.0
    assert there.any()
    assert (state.y[-n_long:][there] == 1.0).all()
    remembers.learn_many(region(-6.0, 150), np.zeros(150))
    state, (_, n_long) = remembers.state(), sizes(remembers)
    left = (state.x[-n_long:, 0] < 0.0) & (state.y[-n_long:] == 1.0) if n_long else np.zeros(1)
    assert left.sum() < there.sum() / 4


def test_memories_never_have_more_rows_than_they_may():
    rng = np.random.default_rng(4)
    learner = made((0, 3), 3, window=40, long=30, minimum=10)
    for _ in range(300):
        x = np.column_stack([rng.normal(size=7), rng.integers(0, 3, 7)])
        learner.learn_many(x, rng.integers(0, 3, 7).astype(float))
        short, long = sizes(learner)
        assert 0 < short < 40
        assert long <= 30


def test_a_prototype_is_a_mean_of_rows():
    """Compressed, numbers are means, codes the most frequent, and no class is lost."""
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.normal(size=900), rng.integers(0, 4, 900)])
    y = np.repeat([0.0, 1.0, 2.0], 300)
    x[:, 0] += 50.0 * y
    learner = made((0, 4), 3, window=60, long=40, minimum=10)
    learner.learn_many(x, y)
    state, (_, n_long) = learner.state(), sizes(learner)
    kept, labels = state.x[-n_long:], state.y[-n_long:]
    assert set(labels.tolist()) >= {0.0, 1.0}
    assert np.abs(kept[:, 0] - 50.0 * labels).max() < 4.0
    assert set(kept[:, 1].tolist()) <= {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_odd_worlds(n_outputs):
    rng = np.random.default_rng(6)
    constant = np.column_stack([np.full(400, 7.0), np.full(400, np.nan), rng.normal(size=400)])
    y = (constant[:, 2] > 0.0).astype(float)
    out = prequential(made((0, 0, 0), n_outputs), constant, y)
    said = out.argmax(1) if n_outputs > 1 else out[:, 0] > 0.5
    assert (said[100:] == y[100:]).mean() > 0.95
    same = prequential(made((0,), n_outputs), np.full((300, 1), 1e300), y[:300])
    assert np.isfinite(same[1:]).all()


def test_forty_classes():
    rng = np.random.default_rng(7)
    y = rng.integers(0, 40, 3000).astype(float)
    x = np.column_stack([np.cos(y), np.sin(y)]) * 10.0 + rng.normal(0.0, 0.1, (3000, 2))
    out = prequential(made((0, 0), 40), x, y)
    assert (out[1000:].argmax(1) == y[1000:]).mean() > 0.98


@pytest.mark.parametrize("n_outputs", [1, 40])
def test_a_long_memory_without_two_rows_of_a_class_forgets_the_older_ones(n_outputs):
    """Thirty rows of forty classes, and one row of targets."""
    rng = np.random.default_rng(10)
    y = rng.integers(0, n_outputs, 4000).astype(float) if n_outputs > 1 else np.zeros(4000)
    x = np.column_stack([np.cos(y), np.sin(y)]) * 10.0 + rng.normal(0.0, 0.1, (4000, 2))
    x[1000:] += 1000.0
    learner = made((0, 0), n_outputs, window=100, long=30 if n_outputs > 1 else 1, minimum=20)
    learner.learn_many(x, y)
    state, (_, n_long) = learner.state(), sizes(learner)
    assert n_long > 0
    assert (state.x[-n_long:, 0] > 500.0).all()


@pytest.mark.parametrize("name", ["window", "long"])
def test_a_label_may_compare_so_many_rows_and_no_more(name):
    made(**{name: 10_000})
    with pytest.raises(ValueError, match=rf"{name}.*10,?000"):
        made(**{name: 10_001})


def test_a_state_with_more_rows_than_fit_is_damaged():
    small, large = made(window=40, minimum=10), made(window=400)
    large.learn_many(np.random.default_rng(9).normal(size=(100, 2)), np.arange(100) % 2.0)
    with pytest.raises(DamagedError, match="more than window and long allow"):
        restore(small, large.state()._asdict())
    torn = large.state()._asdict()
    torn["sizes"] = torn["sizes"] + [1, -1]
    with pytest.raises(DamagedError, match="none that this program writes"):
        restore(made(window=400), torn)
