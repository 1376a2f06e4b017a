"""Stochastic gradient trees on bags: those of one instance are instances; who takes the gradient; lambda."""

import numpy as np
import pytest

from models.contract import Bags, Schema
from models.gradient.bins import GG, GH, HH, WEIGHT, G, H
from models.gradient.tree import LEAST_HESSIAN
from models.registry import create
from tests.models.test_bags import SCHEMA, world

NAME = "stochastic-gradient-tree"
ONE = {
    "preset": "paper",
    "warm_up": 50,
    "replay": True,
    "grace_period": 20,
    "delta": 0.05,
    "node_cost": 0.0,
    "n_bins": 8,
}


def bits(learner):
    return {name: array.tobytes() for name, array in learner.state()._asdict().items()}


@pytest.mark.parametrize(
    "more", [{}, {"n_stages": 3, "poisson": True, "linear_rate": 0.1, "leaf_update": "every-instance", "decay": 0.9}]
)
def test_bags_of_one_instance_are_instances(more):
    """To the bit, where there is no lambda: it is relative to the number of instances in bags only."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 4))
    x[:, 1] = rng.integers(0, 3, len(x))
    y = (x[:, 0] + (x[:, 1] == 2) > 0.4).astype(float)
    w = rng.choice([0.0, 0.5, 1.0], len(y))
    given = {**ONE, "penalty": 0.0, "rebin_period": 200, "multiway": False, "paired": False, **more}
    bags = create(NAME, SCHEMA, seed=3, **given)
    rows = create(NAME, Schema(SCHEMA.n_values, 2, "classification"), seed=3, **given)
    bags.learn_many(Bags.of(np.ones(len(x)), x), y, w)
    rows.learn_many(x, y, w)
    assert bags.size()["n_nodes"] > 3
    assert bags.predict_many(Bags.of(np.ones(99), x[:99])).tobytes() == rows.predict_many(x[:99]).tobytes()
    found, expected = bits(bags), bits(rows)
    assert found.keys() == expected.keys()
    differ = {name for name in found if found[name] != expected[name]}
    assert differ <= {"buffer"}  # that of the warm-up, which is no more


def one_leaf(**more):
    """A tree that is one leaf, after the warm-up, and one bag of three instances of which the last two are the top."""
    learner = create(NAME, Schema((0,), 2, "multi-instance"), grace_period=1000, warm_up=4, replay=False, **more)
    learner.learn_many(Bags.of([2, 2], [[0.0], [1.0], [2.0], [3.0]]), [0, 1])
    return learner


def test_the_highest_instance_takes_the_gradient_and_the_others_count():
    learner = one_leaf(penalty=0.25, n_bins=16)
    learner.learn_many(Bags.of([3], [[0.1], [1.2], [2.3]]), [1], [2.0])
    learner.learn_many(Bags.of([3], [[0.1], [1.2], [2.3]]), [1], [2.0])
    state = learner.state()
    assert state.nodes[0] == 1
    total = state.totals[0]
    # Both bags come to the score 0: the first instance, a probability of a half.
    g, h = -0.5, 0.25 + 0.25
    rest = max(0.25, LEAST_HESSIAN)
    assert total[WEIGHT] == 2 * 6.0
    assert total[G] == pytest.approx(4.0 * g)
    assert total[H] == pytest.approx(4.0 * h + 8.0 * rest)
    assert (total[GG], total[GH]) == (pytest.approx(4.0 * g * g), pytest.approx(4.0 * g * h))
    assert total[HH] == pytest.approx(4.0 * h * h + 8.0 * rest * rest)
    size = 6
    cells = state.stats[0].reshape(-1, size)
    taken = cells[cells[:, G] != 0.0]
    assert len(taken) == 1  # the bin of 0.1, the first of equals
    assert taken[0, WEIGHT] == 4.0
    assert cells[0].tolist() == taken[0].tolist()


def test_lambda_is_relative_to_the_number_of_instances():
    """A leaf that is tested moves by -mean g / (mean h + lambda), however many zero rows there are."""
    learner = create(
        NAME, Schema((0,), 2, "multi-instance"), grace_period=40, warm_up=4, replay=False, penalty=0.1, delta=0.5
    )
    learner.learn_many(Bags.of([2, 2], [[0.0], [1.0], [2.0], [3.0]]), [0, 1])
    y = np.tile([1, 1, 1, 0], 5)
    learner.learn_many(Bags.of(np.full(20, 2), np.full((40, 1), 1.5)), y)
    n, g, h = 40, -0.5 * 15 + 0.5 * 5, 0.25 * 20
    step = -(g / n) / (h / n + 0.1)
    assert learner.state().value[0, 0] == pytest.approx(step)


def test_a_bag_is_as_positive_as_its_highest_instance():
    bags, y = world(300, 2)
    learner = create(NAME, SCHEMA, warm_up=100)
    learner.fit(bags, y)
    assert learner.size()["n_nodes"] > 3
    alone = learner.predict_many(Bags.of(np.ones(len(bags.x)), bags.x))[:, 1]
    expected = [alone[s : s + n].max() for s, n in zip(bags.start, bags.size, strict=True)]
    p = learner.predict_many(bags)
    assert p[:, 1].tolist() == expected
    assert (p.argmax(axis=1) == y).mean() > 0.85
    assert learner.predict_many(Bags.of([0], np.zeros((0, 4)))).tolist() == [[0.0, 0.0]]


def test_fit_is_several_passes_with_bins_of_all_instances():
    bags, y = world(100, 3)
    two, one = create(NAME, SCHEMA, epochs=2), create(NAME, SCHEMA, epochs=1)
    two.fit(bags, y)
    one.fit(bags, y)
    assert one.state().counts[0] == 100
    assert one.state().ranges[0].tolist() == [bags.x[:, 0].min(), bags.x[:, 0].max()]
    one.learn_many(bags, y)
    assert bits(one) == bits(two)
