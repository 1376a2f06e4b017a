"""Learners for bags against their twins, the window, and what must hold of likelihoods and scales."""

import math

import numpy as np
import pytest

from riparian.models.bags.likelihood import bag_loss, gradient_of, loss_of
from riparian.models.bags.miti import CRITERIA, MITI
from riparian.models.bags.optimise import optimise_scale
from riparian.models.bags.quick_diverse_density import QuickDiverseDensity
from riparian.models.bags.window import TrainingSet
from riparian.models.contract import Bags, Schema, indices
from tests.models.naive_bags import MITITwin, loss, probability

N_VALUES = (0, 3, 0, 0)
SCHEMA = Schema(N_VALUES, 2, "multi-instance")


def world(n, seed=0, missing=0.0, ties=False):
    """Bags of 1 to 6 instances; one of a positive bag, at least, is near (1, value 2)."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 7, n)
    bags = Bags.of(size, np.column_stack([rng.normal(size=(size.sum(), 4))]))
    bags.x[:, 1] = rng.integers(0, 3, len(bags.x))
    y = rng.integers(0, 2, n).astype(float)
    for r in np.flatnonzero(y):
        bags.x[bags.start[r] + rng.integers(size[r]), :3] = 1.0 + rng.normal(scale=0.2), 2.0, rng.normal()
    if ties:
        bags.x[:, [0, 2, 3]] = np.round(bags.x[:, [0, 2, 3]])
    bags.x[rng.random(bags.x.shape) < missing] = np.nan
    return bags, y


def lists(bags):
    return [bags.x[s : s + n].tolist() for s, n in zip(bags.start, bags.size, strict=True)]


def nodes_of(twin):
    """The twin's nodes as `describe` has them."""
    number = {id(node): i for i, node in enumerate(twin.nodes)}
    found = []
    for node in twin.nodes:
        entry = {"parent": None if node.parent is None else number[id(node.parent)]}
        entry |= {"weight": node.weight, "value": [1.0 - node.value, node.value]}
        if node.test is not None:
            f, at = node.test
            left, right = number[id(node.left)], number[id(node.right)]
            entry |= {"feature": f, "children": [left, right], "default": right}
            entry |= {"equals": int(at)} if N_VALUES[f] else {"threshold": at}
        found.append(entry)
    return found


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("missing", "ties", "k"), [(0.0, False, 5.0), (0.2, False, 1.0), (0.1, True, 0.5)])
def test_miti_is_its_twin(criterion, missing, ties, k):
    for seed in range(3):
        bags, y = world(60, seed, missing, ties)
        w = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], len(y))
        learner = MITI(SCHEMA, k=k, split_criterion=criterion, size_exponent=1.0 if seed else 0.5)
        learner.fit(bags, y, w)
        twin = MITITwin(N_VALUES, k, criterion, 1.0 if seed else 0.5).fit(lists(bags), y, w)
        described = [{k: v for k, v in node.items() if k not in ("id", "depth")} for node in learner.describe()]
        assert len(described) > 9
        assert described == nodes_of(twin)
        unseen, _ = world(50, seed + 100, missing, ties)
        expected = [twin.predict(bag) for bag in lists(unseen)]
        assert learner.predict_many(unseen)[:, 1].tolist() == expected
        assert len(set(expected)) > 3


def training(n=40, seed=0):
    bags, y = world(n, seed)
    whole, number = bags.x[indices(bags.start, bags.size)], np.repeat(np.arange(n), bags.size)
    w = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], n)
    return TrainingSet(whole, number, bags.size.copy(), (y == 1.0).astype(np.uint8), w), bags, y


def test_likelihood_is_the_twins_where_that_can_be_computed():
    known, bags, y = training()
    n_values, distances = np.array(N_VALUES), np.empty(6)
    for i in (0, 5, 11):
        target = bags.x[i] + 0.05
        for scale in (0.3, 1.0, 1.7):
            scales = scale * np.array([1.0, 0.7, 0.2, 0.4])
            expected = loss(lists(bags), y, known.w, target, scales, N_VALUES)
            found = loss_of(known, target, scales, n_values, np.inf, np.inf, distances)
            assert found == pytest.approx(expected, rel=1e-9)


def test_likelihood_far_away():
    """Where the twin's probabilities are 0: the nearest instance says it all, and one of equals counts as two."""
    distances = np.array([800.0, 1000.0])
    assert bag_loss(distances, True, np.inf) == pytest.approx(800.0)
    assert distances.tolist() == [1.0, pytest.approx(math.exp(-200.0))]
    distances = np.array([900.0, 900.0])
    assert bag_loss(distances, True, np.inf) == pytest.approx(900.0 - math.log(2.0))
    assert distances.tolist() == [0.5, 0.5]
    distances = np.array([900.0, 900.0])
    assert bag_loss(distances, True, 30.0) == 30.0
    assert distances.tolist() == [0.0, 0.0]
    near, far = np.array([30.0 - 1e-9, 31.0]), np.array([30.0 + 1e-9, 31.0])
    assert bag_loss(near, True, np.inf) == pytest.approx(bag_loss(far, True, np.inf), abs=1e-6)  # no step at FAR
    assert near == pytest.approx(far, rel=1e-6)


@pytest.mark.parametrize("cap", [np.inf, 2.0])
def test_gradient_is_that_of_the_likelihood(cap):
    known, bags, _ = training(20, 3)
    n_values, distances, gradient = np.array(N_VALUES), np.empty(6), np.empty(4)
    target, scale = bags.x[2] + 0.01, np.array([0.9, 0.4, -0.3, 0.6])
    gradient_of(known, target, scale, n_values, cap, distances, gradient)
    for f in range(4):
        step = np.eye(4)[f] * 1e-6
        after = loss_of(known, target, scale + step, n_values, cap, np.inf, distances)
        before = loss_of(known, target, scale - step, n_values, cap, np.inf, distances)
        assert gradient[f] == pytest.approx((after - before) / 2e-6, rel=1e-4, abs=1e-6)


def test_optimise_finds_where_the_gradient_vanishes():
    known, bags, y = training(60, 1)
    n_values, distances, gradient = np.array(N_VALUES), np.empty(6), np.empty(4)
    i = int(np.flatnonzero(np.repeat(y, bags.size) == 1.0)[0])
    scale = np.full(4, 0.5)
    before = loss_of(known, bags.x[i], scale, n_values, 30.0, np.inf, distances)
    found = optimise_scale(known, bags.x[i], scale, n_values, 30.0, 500, 1e-12)
    assert found < before
    assert found == gradient_of(known, bags.x[i], scale, n_values, 30.0, distances, gradient)
    assert np.abs(gradient).max() < 1e-3


def test_quick_diverse_density_takes_the_best_instance():
    """With no step of optimisation it is the instance that a search over all of them finds."""
    bags, y = world(50, 4)
    learner = QuickDiverseDensity(SCHEMA, max_steps=0, max_iterations=1, cap=1e9)
    learner.fit(bags, y)
    state = learner.state()
    x = np.where(np.array(N_VALUES) > 0, bags.x, (bags.x - state.mean) / state.deviation)
    standard = bags._replace(x=x)
    assert x[:, [0, 2, 3]].mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-9)
    assert x[:, [0, 2, 3]].std(axis=0, ddof=1) == pytest.approx(np.ones(3))
    candidates = x[np.repeat(y, bags.size) == 1.0]
    losses = []
    for target in candidates:
        # Its own bag and whatever else stands there: the twin's logarithm of 0 is none, so it is moved a little.
        losses.append(loss(lists(standard), y, np.ones(len(y)), target + 1e-9, [0.5] * 4, (0, 3, 0, 0)))
    best = candidates[int(np.argmin(losses))]
    assert state.target == pytest.approx(best)
    assert state.scale.tolist() == [0.5] * 4
    expected = [probability(bag, best, [0.5] * 4, N_VALUES) for bag in lists(standard)]
    assert learner.predict_many(bags)[:, 1] == pytest.approx(expected, abs=1e-6)


def test_window_keeps_the_newest_bags():
    bags, y = world(90, 7)
    n = int(bags.size[-20:].sum())
    for bounds in ({"window": 20}, {"max_instances": n, "window": 90}):
        few, whole = MITI(SCHEMA, **{"window": 50, **bounds}), MITI(SCHEMA)
        few.fit(bags, y)
        whole.fit(bags.take(np.arange(70, 90)), y[70:])
        assert few.describe() == whole.describe()
        assert len(few.state().window_x) <= bounds.get("max_instances", 128)


def test_bags_that_teach_nothing():
    bags, y = world(30, 8)
    size = np.concatenate([bags.size, [0, 40]])
    more = Bags(np.concatenate([bags.start, [0, 0]]), size, bags.x)
    one, other = (MITI(SCHEMA, max_instances=39) for _ in range(2))
    one.fit(bags, y)
    other.fit(more, [*y, 1.0, 1.0])  # no instance; more than the window holds
    assert one.describe() == other.describe()
    assert other.predict_many(Bags.of([0], np.zeros((0, 4)))).tolist() == [[1.0, 0.0]]


def test_fits_come_early_and_then_every_so_many_bags():
    bags, y = world(60, 9)
    learner, fitted = MITI(SCHEMA, refit_every=16), []
    for i in range(60):
        before = learner.state().window_at[5]
        learner.learn_many(bags.take([i]), y[i : i + 1])
        if learner.state().window_at[5] != before:
            fitted.append(i + 1)
    assert fitted == [1, 2, 4, 8, 16, 32, 48]
