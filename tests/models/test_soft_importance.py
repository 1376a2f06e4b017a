"""Importance of features for soft trees, against a twin that goes over its nodes and over the rows themselves."""

import math

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.explanation.importance import importance
from riparian.models.registry import create
from tests.models.naive_soft import SoftTwin
from tests.models.streams_of_instances import mixed
from tests.models.test_soft_trees import node_of, tree, twin

SOFT = ("soft-hoeffding-tree", "soft-tree")

WORLDS = [
    ({"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3}, {}),
    ({"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3}, {"alpha": 1.0, "learning_rate": 0.01}),
    ({"n_values": (0, 3, 0), "n_classes": 2, "missing": 0.4}, {"alpha": 0.0, "gamma": 0.5}),
    ({"n_values": (0, 0), "n_classes": 2, "missing": 0.0}, {"gamma": 0.2}),
    ({"n_values": (0, 4), "n_classes": 12, "weights": "fractions"}, {"alpha": 0.2}),
]


def told(learner):
    return importance(learner.describe(), learner.schema.n_features, learner.schema.task == "regression")


def shares_of(model, stream):
    """Of each feature, by recursion over the nodes of a twin; variances of terms are those over the rows learned."""
    added = [0.0] * len(model.n_values)

    def weight_of(node):
        return node.reach + sum(map(weight_of, node.children or ()))

    def said_by(node):
        if node.children is None:
            if model.n_outputs == 1:
                return [model.target.mean + math.sqrt(model.target.variance) * node.leaf.get(0, 0.0)]
            odds = model.probabilities({c: node.leaf.get(c, 0.0) for c in range(model.n_outputs)})
            return [odds.get(c, 0.0) for c in range(model.n_outputs)]
        weights, said = [weight_of(child) for child in node.children], [said_by(child) for child in node.children]
        first = weights[0] / sum(weights) if sum(weights) > 0.0 else 0.5
        return [first * a + (1.0 - first) * b for a, b in zip(*said, strict=True)]

    def term(node, f, value):
        if model.n_values[f]:
            return node.gate.get((f, int(value)), 0.0) if 0 <= value < model.n_values[f] else 0.0
        scale = model.scales[f]
        if not abs(value) < 1e100 or scale.variance == 0.0:
            return 0.0
        return node.gate.get(f, 0.0) * (value - scale.mean) / (3.0 * math.sqrt(scale.variance))

    def variance(node, f):
        terms = [term(node, f, value) for value in stream.x[:, f].tolist()]
        mean = sum(w * t for w, t in zip(stream.w, terms, strict=True)) / sum(stream.w)
        return sum(w * (t - mean) ** 2 for w, t in zip(stream.w, terms, strict=True)) / sum(stream.w)

    def go_down(node, whole):
        if node.children is None:
            return
        first, second = map(weight_of, node.children)
        if first + second > 0.0:
            apart = sum((a - b) ** 2 for a, b in zip(*map(said_by, node.children), strict=True))
            lost = weight_of(node) / whole * apart * first * second / (first + second) ** 2
            variances = [variance(node, f) for f in range(len(added))]
            for f, one in enumerate(variances):
                added[f] += lost * model.alpha * one / sum(variances) if sum(variances) > 0.0 else 0.0
            if node.feature is not None:
                added[node.feature] += lost * (1.0 - model.alpha)
        for child in node.children:
            go_down(child, whole)

    for root in model.trees:
        go_down(root, weight_of(root))
    return [one / sum(added) for one in added]


@pytest.mark.parametrize(("world", "parameters"), WORLDS)
def test_importance_of_a_soft_hoeffding_tree_equals_its_twin(world, parameters):
    stream = mixed(300, seed=3, **world)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    learner.learn_many(stream.x, stream.y, stream.w)
    for x, y, w in zip(stream.x.tolist(), stream.y.tolist(), stream.w.tolist(), strict=True):
        other.learn(x, y, w)
    assert told(learner) == pytest.approx(shares_of(other, stream), abs=1e-4)
    assert sum(told(learner)) == pytest.approx(1.0)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_importance_of_a_sum_of_soft_trees_equals_its_twin(n_classes):
    stream = mixed(300, seed=3)
    if n_classes == 1:
        y = 10.0 + 3.0 * np.nan_to_num(stream.x[:, 0])
        stream = stream._replace(schema=Schema(stream.schema.n_values, 1, "regression"), y=y)
    learner = create("soft-tree", stream.schema, seed=5, depth=3, n_trees=2, learning_rate=0.02)
    other = SoftTwin(
        stream.schema.n_values, n_classes, [node_of(learner, int(root)) for root in learner.state().roots[0]],
        alpha=1.0, gamma=1.0, learning_rate=0.02, beta1=0.5, beta2=0.999,
    )  # fmt: skip
    learner.learn_many(stream.x, stream.y)
    for row, label in zip(stream.x.tolist(), stream.y.tolist(), strict=True):
        other.learn(row, label)
    assert told(learner) == pytest.approx(shares_of(other, stream), abs=1e-4)


def two_of_six(n, task, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    signal = (x[:, 0] > 0.3) + np.tanh(x[:, 1]) - 0.5
    return x, (signal > 0.0).astype(float) if task == "classification" else signal


def learned(name, x, y, task, n_values=None, **parameters):
    n_values = n_values or (0,) * x.shape[1]
    learner = create(name, Schema(n_values, 2 if task == "classification" else 1, task), seed=1, **parameters)
    learner.learn_many(x, y)
    return learner


@pytest.mark.parametrize("name", SOFT)
def test_what_no_gate_looks_at_has_none(name):
    x, y = two_of_six(3000, "classification")
    learner = learned(name, x, y, "classification")
    state = {field: array.copy() for field, array in learner.state()._asdict().items()}
    before = told(learner)
    state["gates"][:, 0, 1] = 0.0  # the weights of feature 1
    state["links"][state["links"][:, 1] == 1, 1] = 0  # its tests become others'
    learner.restore(state)
    assert before[1] > 0.2
    assert told(learner)[1] == 0.0
    state["gates"][:] = 0.0  # no gate moves anything but by its test
    learner.restore(state)
    assert (told(learner) is None) == (name == "soft-tree")


def test_without_a_linear_form_it_is_that_of_the_tests():
    x, y = two_of_six(3000, "classification")
    learner = learned("soft-hoeffding-tree", x, y, "classification", alpha=0.0)
    nodes = learner.describe()
    hard = [{key: value for key, value in node.items() if key != "gate"} for node in nodes]
    assert importance(hard, 6, False) == pytest.approx(told(learner))


@pytest.mark.parametrize("name", [*SOFT, "model-pool", "naive-bayes"])
def test_null_before_there_is_anything(name):
    learner = create(name, Schema((0, 3), 3, "classification"), seed=1)
    assert told(learner) is None
    learner.learn_many(np.array([[1.0, 2.0]]), np.array([2.0]))
    assert told(learner) is None
    learner.learn_many(np.random.default_rng(1).integers(0, 3, (300, 2)), np.full(300, 2.0))
    assert told(learner) is None  # one class: nothing to tell apart


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_pools_count_soft_trees_in(task):
    x, y = two_of_six(4000, task)
    members = {"soft": "soft-tree", "grows": "soft-hoeffding-tree", "last": "last-label"}
    pool = learned("opinion-pool", x, y, task, members=members)
    weights = {node["member"]: node["share"] for node in pool.describe() if "member" in node}
    total = sum(weights[name] * np.array(told(pool.members[name])) for name in ("soft", "grows"))
    assert told(pool) == pytest.approx((total / total.sum()).tolist())
    chosen = learned("model-pool", x, y, task, of="soft-tree", candidates="depth=0,3", n_explored=0)
    alone = learned("soft-tree", x, y, task, depth=3)
    assert next(part for part in chosen.describe() if part.get("best"))["parameters"] == {"depth": 3}
    assert sum(told(chosen)[:2]) > 0.95
    assert sum(told(alone)[:2]) > 0.95


def test_a_mean_target_is_its_features():
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.random(3000), rng.integers(0, 40, 3000)])
    y = (rng.random(3000) < 0.1 + 0.8 * (x[:, 1] % 2)).astype(float)
    sees = {"model": "soft-hoeffding-tree", "max_values": 2, "target_means": [1]}
    members = {"soft": sees, "bayes": {**sees, "model": "naive-bayes"}}
    pool = learned("opinion-pool", x, y, "classification", (0, 40), members=members)
    assert told(pool)[1] > 0.95
    assert {len(node["gate"]["variance"]) for node in pool.describe() if "gate" in node} == {2}
