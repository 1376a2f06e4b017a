"""Mean decrease of impurity, against a twin that counts the labels in each node of a tree; of naive Bayes mutual
information, against sums over a fine grid. Soft trees: test_soft_importance."""

import math

import numpy as np
import pytest

from riparian.checks import rows, schema_of
from riparian.models.contract import Schema
from riparian.models.explanation.description import moved
from riparian.models.explanation.importance import importance, information
from riparian.models.registry import create

GROWS = {"grace_period": 50, "delta": 0.05}


def test_a_tree_by_hand():
    nodes = [
        {"id": 0, "feature": 1, "threshold": 0.5, "children": [1, 2], "default": 1, "weight": 8.0, "value": [4.0, 4.0]},
        {"id": 1, "feature": 0, "threshold": 0.1, "children": [3, 4], "default": 3, "weight": 4.0, "value": [3.0, 1.0]},
        {"id": 2, "weight": 4.0, "value": [1.0, 3.0]},
        {"id": 3, "weight": 3.0, "value": [3.0, 0.0]},
        {"id": 4, "weight": 1.0, "value": [0.0, 1.0]},
        {"id": 5, "feature": 2, "threshold": 0.1, "children": [6, 7], "background": True, "weight": 2.0,
         "value": [1.0, 1.0]},
    ]  # fmt: skip
    first, second = 0.5 - 0.375, 0.5 * 0.375  # Gini's 1/2 to 3/8; at half of the weight 3/8 to nothing
    expected = [second / (first + second), first / (first + second), 0.0]
    assert importance(nodes, 3, False) == pytest.approx(expected)


def split(at, feature, below, **more):
    return {"id": at, "feature": feature, "threshold": 0.5, "children": below, "default": below[0], **more}


def test_shares_scores_and_a_pool_by_hand():
    """Shares of the classes do not say how many came: "weight" does. Trees count by their share of the vote."""
    shares = [
        {"id": 0, "weight": 8.0, "value": [], "part": "ensemble"},
        split(1, 1, [2, 3], weight=8.0, value=[0.5, 0.5], unit="share", part="tree", share=0.75),
        {"id": 2, "weight": 6.0, "value": [1.0, 0.0], "unit": "share"},
        {"id": 3, "weight": 2.0, "value": [0.0, 1.0], "unit": "share"},
        split(4, 0, [5, 6], weight=8.0, value=[0.5, 0.5], unit="share", part="tree", share=0.25),
        {"id": 5, "weight": 4.0, "value": [0.75, 0.25], "unit": "share"},
        {"id": 6, "weight": 4.0, "value": [0.25, 0.75], "unit": "share"},
    ]
    first, second = 0.75 * (1.0 - 0.75**2 - 0.25**2), 0.25 * (0.5 - 0.375)
    expected = [second / (first + second), first / (first + second), 0.0]
    assert importance(shares, 3, False) == pytest.approx(expected)
    scores = [
        {"id": 0, "weight": 10.0, "value": [5.0, 5.0]},
        split(1, 2, [2, 3], weight=10.0, value=[0.3], unit="score"),
        split(2, 0, [4, 5], weight=5.0, value=[-1.0], unit="score"),
        {"id": 3, "weight": 5.0, "value": [1.0], "unit": "score"},
        {"id": 4, "weight": 4.0, "value": [-2.0], "unit": "score"},
        {"id": 5, "weight": 1.0, "value": [3.0], "unit": "score"},
    ]
    first, second = 1.0, 0.5 * (0.8 * 1.0 + 0.2 * 16.0)
    found = importance(scores, 3, False)
    assert found == pytest.approx([second / (first + second), 0.0, first / (first + second)])
    silent = [{"id": 0, "weight": 4.0, "value": [2.0, 2.0], "member": "last", "share": 5.0}]
    pool = silent + [
        {**node, "member": name, "share": weight} if at == 0 else node
        for name, weight, nodes in (("forest", 1.5, shares), ("gradient", 0.5, scores))
        for at, node in enumerate(nodes)
    ]
    both = 0.75 * np.array(expected) + 0.25 * np.array(found)
    assert importance(pool, 3, False) == pytest.approx(both.tolist())


def test_options_by_hand():
    """Each option of a node counts as much as the others, be the first one a leaf or not."""
    nodes = [
        {"id": 0, "weight": 8.0, "value": [5.0], "option": 1},
        split(1, 1, [2, 3], weight=8.0, value=[5.0], option=6),
        split(2, 0, [4, 5], weight=6.0, value=[4.0]),
        {"id": 3, "weight": 2.0, "value": [8.0]},
        {"id": 4, "weight": 3.0, "value": [3.0]},
        {"id": 5, "weight": 3.0, "value": [5.0]},
        split(6, 2, [7, 8], weight=4.0, value=[5.0]),
        {"id": 7, "weight": 2.0, "value": [2.0]},
        {"id": 8, "weight": 2.0, "value": [8.0]},
    ]
    decreases = np.array([0.75 * 1.0, 0.75 * 1.0 + 0.25 * 9.0, 0.5 * 9.0])
    assert importance(nodes, 3, True) == pytest.approx((decreases / decreases.sum()).tolist())
    below = moved([{**node, "parent": None, "depth": 0} for node in nodes], 7, None, 0)
    assert [node["option"] for node in below if "option" in node] == [8, 13]
    assert importance(below, 3, True) == pytest.approx(importance(nodes, 3, True))


def of_grid(weights, means, deviations):
    """Mutual information of a class and a Gaussian in each, by a sum over a fine grid."""
    prior = np.array(weights) / sum(weights)
    low, high = min(means) - 9.0 * max(deviations), max(means) + 9.0 * max(deviations)
    x = np.linspace(low, high, 400_001)
    each = [
        np.exp(-0.5 * ((x - m) / s) ** 2) / (s * math.sqrt(2.0 * math.pi))
        for m, s in zip(means, deviations, strict=True)
    ]
    mixed = sum(p * density for p, density in zip(prior, each, strict=True))
    found = 0.0
    for p, density in zip(prior, each, strict=True):
        found += p * np.sum(
            np.where(density > 0.0, density * np.log(np.maximum(density, 1e-300) / np.maximum(mixed, 1e-300)), 0.0)
        )
    return found * (x[1] - x[0])


@pytest.mark.parametrize(("weights", "means", "deviations"), [
    ([30.0, 70.0], [0.0, 1.0], [1.0, 1.0]), ([1.0, 289.0], [2.0, 0.0], [0.5, 1.0]),
    ([10.0, 20.0, 30.0], [-5.0, 0.0, 5.0], [1.0, 0.3, 2.0]), ([5.0, 5.0], [0.0, 100.0], [1.0, 1.0]),
    ([5.0, 5.0], [0.0, 0.0], [1.0, 1.0]),
])  # fmt: skip
def test_information_of_gaussians(weights, means, deviations):
    part = {"value": [*weights, 0.0], "mean": [*means, 0.0], "deviation": [*deviations, 0.0]}
    assert information(part) == pytest.approx(of_grid(weights, means, deviations), rel=0.02, abs=1e-6)
    wide = part | {"mean": [1e6 * m for m in part["mean"]], "deviation": [1e6 * s for s in part["deviation"]]}
    assert information(wide) == pytest.approx(information(part))


def test_information_of_values_points_and_what_cannot_be():
    counts = [[9.0, 0.0, 3.0], [1.0, 0.0, 5.0]]
    smooth = np.array([[10.0, 4.0], [2.0, 6.0]])  # Laplace's estimates of the two values that came
    prior, given = np.array([12.0, 6.0]) / 18.0, smooth / smooth.sum(axis=1, keepdims=True)
    expected = 0.0
    for c in range(2):
        for v in range(2):
            expected += prior[c] * given[c, v] * math.log(given[c, v] / sum(prior * given[:, v]))
    assert information({"value": [12.0, 6.0], "values": counts}) == pytest.approx(expected)
    entropy = -sum(prior * np.log(prior))
    points = {"value": [12.0, 6.0], "mean": [0.0, 1.0], "deviation": [0.0, 0.0]}
    assert information(points) == pytest.approx(entropy)
    assert information(points | {"mean": [1.0, 1.0]}) == 0.0
    assert information(points | {"mean": [1e300, -1e300]}) == 0.0
    assert information(points | {"value": [12.0, 0.0]}) == 0.0


def test_importance_of_naive_bayes():
    learner = create("naive-bayes", schema_of("classification"))
    x, y = rows(6000, "classification", missing=0.0)
    x[:3000, 0] = np.nan  # what is known half of the time tells half as much
    learner.learn_many(x, y)
    nodes = learner.describe()
    told = np.array([information(node) for node in nodes[1:]])
    found = importance(nodes, 5, False)
    assert found == pytest.approx((told * [0.5, 1, 1, 1, 1] / (told @ [0.5, 1, 1, 1, 1])).tolist())
    assert found[3] == 0.0  # constant
    assert found[1] < 0.01  # noise
    pool = create("opinion-pool", schema_of("classification"), members={"a": "naive-bayes", "b": "last-label"})
    pool.learn_many(x, y)
    assert importance(pool.describe(), 5, False) == pytest.approx(found)


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("name", ["mondrian-forest", "shrub-ensemble", "stochastic-gradient-tree", "opinion-pool"])
def test_of_other_trees_what_says_nothing_has_least(name, task):
    own = {
        "opinion-pool": {"members": {"a": "mondrian-forest", "b": "last-label", "c": "stochastic-gradient-tree"}},
        "stochastic-gradient-tree": {"delta": 0.2},
    }
    learner = create(name, schema_of(task), seed=1, **own.get(name, {}))
    learner.learn_many(*rows(2000, task, missing=0.0))
    found = importance(learner.describe(), 5, task == "regression")
    assert sum(found) == pytest.approx(1.0)
    assert found[3] == 0.0  # constant
    assert max(found) in (found[0], found[4])
    assert found[1] < 0.5 * max(found)  # noise


def test_who_has_no_such_nodes_has_none():
    for name in ("majority-class", "hoeffding-tree", "online-bagging", "soft-hoeffding-tree"):
        learner = create(name, Schema((0, 0), 2, "classification"))
        assert importance(learner.describe(), 2, False) is None
    forest = create("adaptive-random-forest", schema_of("classification"), n_models=3, seed=1, **GROWS)
    forest.learn_many(*rows(2000, "classification"))
    assert sum(importance(forest.describe(), 5, False)) == pytest.approx(1.0)
