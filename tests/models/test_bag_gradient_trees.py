"""Stochastic gradient trees on bags: those of one instance are instances; who takes the gradient, and the weight."""

import numpy as np
import pytest

from riparian.models.contract import Bags, Schema
from riparian.models.gradient.bins import MOMENTS, WEIGHT
from riparian.models.gradient.presets import BAG_PRESETS, PRESETS, effective
from riparian.models.gradient.tree import BLOCK, LEAF, SEEN, TEST
from riparian.models.registry import REGISTRY, create
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
    """To the bit."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1500, 4))
    x[:, 1] = rng.integers(0, 3, len(x))
    y = (x[:, 0] + (x[:, 1] == 2) > 0.4).astype(float)
    w = rng.choice([0.0, 0.5, 1.0], len(y))
    given = {**ONE, "penalty": 0.1, "rebin_period": 200, "multiway": False, "paired": False, **more}
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


def test_presets_of_bags_are_what_is_advertised():
    """The paper's own settings are not overridden by those that were tuned for bags."""
    found = {preset: effective(create(NAME, SCHEMA, preset=preset).parameters(), SCHEMA.task) for preset in PRESETS}
    of_paper = {"grace_period": 200, "delta": 1e-7, "penalty": 0.1, "node_cost": 1.0, "n_bins": 64, "warm_up": 1000}
    assert {name: found["paper"][name] for name in of_paper} == of_paper
    assert (found["tuned"]["grace_period"], found["tuned"]["delta"], found["tuned"]["epochs"]) == (20, 1e-4, 300)
    assert (found["boosted"]["grace_period"], found["boosted"]["n_stages"]) == (20, 10)
    texts = {parameter.name: parameter.text for parameter in REGISTRY[NAME].parameters}
    assert "(tuned 50, paper 200; bags: tuned 20, paper 200)" in texts["grace_period"]
    assert texts["n_bins"].endswith("(tuned 64)")
    for preset, values in found.items():
        for name, value in values.items():
            if name in BAG_PRESETS[preset]:
                assert value == BAG_PRESETS[preset][name]


def one_leaf(**more):
    """A tree that is one leaf, after the warm-up."""
    learner = create(NAME, Schema((0,), 2, "multi-instance"), warm_up=4, replay=False, **more)
    learner.learn_many(Bags.of([2, 2], [[0.0], [1.0], [2.0], [3.0]]), [0, 1])
    return learner


def cells_of(learner, leaf):
    """What a leaf observed of the one feature, a row a bin."""
    state = learner.state()
    return state.stats[state.links[leaf, BLOCK]].reshape(-1, 1 + MOMENTS)


def test_the_highest_instances_share_the_gradient_and_the_weight():
    learner = one_leaf(grace_period=1000, n_bins=16)
    for _ in range(2):
        learner.learn_many(Bags.of([3], [[0.1], [1.2], [2.3]]), [1], [2.0])
    assert learner.state().nodes[0] == 1
    # All instances come to the score 0: a probability of a half.
    expected = [4.0, 4.0 * -0.5, 4.0 * 0.25, 4.0 * 0.25, 4.0 * -0.125, 4.0 * 0.0625]
    assert learner.state().totals[0].tolist() == pytest.approx(expected)
    cells = cells_of(learner, 0)
    assert (cells[:, WEIGHT] > 0.0).sum() == 3
    for cell in cells[cells[:, WEIGHT] > 0.0]:
        assert cell.tolist() == pytest.approx([moment / 3 for moment in expected])


def test_instances_below_the_highest_teach_nothing():
    """Of a grown tree: those in the lower leaf, however many they are, leave it as it was."""
    learner = one_leaf(grace_period=10, n_bins=16, delta=0.05, node_cost=0.0)
    bags = Bags.of(np.ones(40), np.tile([[0.1], [2.9]], (20, 1)))
    learner.learn_many(bags, np.tile([0, 1], 20))
    before = learner.state()
    before = before._replace(totals=before.totals.copy(), meta=before.meta.copy())
    leaves = np.flatnonzero(before.links[:, TEST] == LEAF)
    assert len(leaves) == 2
    low, high = leaves[np.argsort(before.value[leaves, 0])]
    learner.learn_many(Bags.of([7], [[0.1]] * 3 + [[2.9], [0.2], [2.8], [0.1]]), [1])
    after = learner.state()
    assert after.totals[low].tolist() == before.totals[low].tolist()
    assert after.meta[low].tolist() == before.meta[low].tolist()
    assert after.totals[high, WEIGHT] - before.totals[high, WEIGHT] == pytest.approx(1.0)
    assert after.meta[high, SEEN] - before.meta[high, SEEN] == pytest.approx(1.0)


def test_a_bag_is_one_observation_however_large():
    """A leaf is tested after so many bags, and moves by -sum g / (sum h + lambda) of bags."""
    learner = one_leaf(grace_period=20, penalty=0.1, delta=0.5)
    y = np.tile([1, 1, 1, 0], 5)
    learner.learn_many(Bags.of(np.full(20, 2), np.full((40, 1), 1.5)), y)
    g, h = -0.5 * 15 + 0.5 * 5, 0.25 * 20
    assert learner.state().value[0, 0] == pytest.approx(-g / (h + 0.1))


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
