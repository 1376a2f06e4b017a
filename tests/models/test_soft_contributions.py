"""What features add to the predictions of soft trees, against a twin that goes to its values in small steps."""

import math

import numpy as np
import pytest

from models.contract import Schema
from models.registry import create
from models.soft.contributions import rise
from models.soft.gates import smooth_step
from tests.models import naive_contributions
from tests.models.naive_soft import BIAS, SoftTwin, smooth_step_slope
from tests.models.streams_of_instances import mixed
from tests.models.test_naive_bayes_contributions import added_up
from tests.models.test_soft_trees import node_of, tree, twin

STEPS = 20_000
ALONE = {BIAS: 1.0}  # a row without values, as gates weigh it


def outputs_added(model, x):
    """(of each feature what it adds to the outputs, where these begin), by recursion over all nodes."""
    row, nothing = model.encoded(x), [math.nan] * len(x)
    added = [[0.0] * model.n_outputs for _ in x]

    def go_down(node, reach):
        if node.children is None:
            return
        first, second = (model.logits(child, nothing, ALONE) for child in node.children)
        start, way = model.linear(node, ALONE), model.linear(node, row) - model.linear(node, ALONE)
        slope = sum(smooth_step_slope(start + (i + 0.5) / STEPS * way, model.gamma) for i in range(STEPS)) / STEPS
        moves = [0.0] * len(x)
        for name, value in row.items():
            if name != BIAS:
                moves[name[0] if isinstance(name, tuple) else name] += (
                    model.alpha * slope * node.gate.get(name, 0.0) * value
                )
        if model.alpha < 1.0:
            moves[node.feature] += (1.0 - model.alpha) * (model.test(node, x) - node.share)
        for f, move in enumerate(moves):
            for c in range(model.n_outputs):
                added[f][c] += reach * move * (first[c] - second[c])
        passes = model.passes(node, x, row)
        go_down(node.children[0], reach * passes)
        go_down(node.children[1], reach * (1.0 - passes))

    begin = [0.0] * model.n_outputs
    for root in model.trees:
        go_down(root, 1.0)
        begin = [b + one for b, one in zip(begin, model.logits(root, nothing, ALONE).values(), strict=True)]
    return added, begin


def expected(model, x, about):
    added, begin = outputs_added(model, x)
    if model.n_outputs == 1:
        deviation = math.sqrt(model.target.variance)
        return [*(deviation * one[0] for one in added), model.target.mean + deviation * begin[0]]
    classes = sorted(model.known)
    of_known = [[one[c] for c in classes] for one in [*added, begin]]
    features, start = naive_contributions.by_score(of_known, classes.index(about))
    return [*features, start]


WORLDS = [
    ({"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3}, {}),
    ({"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3}, {"alpha": 1.0, "learning_rate": 0.01}),
    ({"n_values": (0, 3, 0), "n_classes": 2, "missing": 0.4}, {"alpha": 0.0, "gamma": 0.5}),
    ({"n_values": (0, 0), "n_classes": 2, "missing": 0.0}, {"gamma": 0.2}),
    ({"n_values": (0, 4), "n_classes": 12, "weights": "fractions"}, {"alpha": 0.2}),
]


@pytest.mark.parametrize(("world", "parameters"), WORLDS)
def test_contributions_of_a_soft_hoeffding_tree_equal_their_twin_and_add_up(world, parameters):
    stream = mixed(300, seed=3, **world)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    learner.learn_many(stream.x, stream.y, stream.w)
    for x, y, w in zip(stream.x.tolist(), stream.y.tolist(), stream.w.tolist(), strict=True):
        other.learn(x, y, w)
    x = mixed(6, seed=4, **world).x
    told = added_up(learner, x)
    about = learner.predict_many(x).argmax(axis=1).tolist()
    twins = [expected(other, row, c) for row, c in zip(x.tolist(), about, strict=True)]
    np.testing.assert_allclose(told, twins, rtol=1e-3, atol=1e-3)
    assert (np.abs(told[:, :-1]).max(axis=0) > 0.0).sum() >= 2
    nothing = learner.predict_many(np.full((1, x.shape[1]), np.nan))[0]
    np.testing.assert_allclose(told[:, -1], nothing[about], rtol=1e-9)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_contributions_of_an_ensemble_of_soft_trees_equal_their_twin_and_add_up(n_classes):
    stream = mixed(400, seed=3)
    schema = stream.schema if n_classes > 1 else Schema(stream.schema.n_values, 1, "regression")
    y = stream.y if n_classes > 1 else 10.0 + 3.0 * np.nan_to_num(stream.x[:, 0])
    learner = create("soft-tree", schema, seed=5, depth=3, n_trees=2, learning_rate=0.02)
    other = SoftTwin(
        schema.n_values, n_classes, [node_of(learner, int(root)) for root in learner.state().roots[0]],
        alpha=1.0, gamma=1.0, learning_rate=0.02, beta1=0.5, beta2=0.999,
    )  # fmt: skip
    learner.learn_many(stream.x, y)
    for row, label in zip(stream.x.tolist(), y.tolist(), strict=True):
        other.learn(row, label)
    x = mixed(5, seed=4).x
    x[0], x[1, 0], x[2, 3] = np.nan, np.inf, np.nan
    said = learner.predict_many(x)
    about = said.argmax(axis=1) if n_classes > 1 else np.full(5, -1)
    told = learner.contributions(x, np.arange(5, dtype=np.int32), about)
    np.testing.assert_allclose(told.sum(axis=1), said[np.arange(5), np.maximum(about, 0)], rtol=1e-9)
    assert not told[0, :-1].any()
    twins = [expected(other, row, c) for row, c in zip(x.tolist(), about.tolist(), strict=True)]
    np.testing.assert_allclose(told, twins, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "parameters"), [
    ("soft-hoeffding-tree", {"grace_period": 50, "significance": 1.0}), ("soft-tree", {"n_trees": 2}),
    ("model-pool", {"candidates": "gamma=0.5,1"}), ("model-pool", {"of": "naive-bayes", "candidates": "auto"}),
])  # fmt: skip
def test_forty_classes_one_class_a_constant_column_and_light_weights(name, parameters):
    if parameters.get("of"):
        parameters = {"of": "hoeffding-tree", "candidates": "grace_period=50,100"}
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.random(1500), np.full(1500, 7.0)])
    y = np.floor(40.0 * x[:, 0])
    row = np.arange(20, dtype=np.int32)

    def fresh():
        return create(name, Schema((0, 0), 40, "classification"), seed=1, **parameters)

    assert np.isnan(fresh().contributions(x, row, np.zeros(20, np.int64))[:, -1]).all()
    many, one, light = fresh(), fresh(), fresh()
    many.learn_many(x, y)
    told = added_up(many, x[:20], exactly=not parameters.get("of"))  # leaves may not have seen all classes
    assert np.abs(told[:, 0]).mean() > 0.0
    assert np.abs(told[:, 1]).max() < 1e-12
    one.learn_many(x[:300], np.full(300, 7.0))
    np.testing.assert_allclose(added_up(one, x[:20]), [[0.0, 0.0, 1.0]] * 20, atol=1e-12)
    light.learn_many(x, y, np.full(1500, 0.001))
    added_up(light, x[:20], exactly=not parameters.get("of"))


def test_nothing_is_left_in_a_pool_with_a_soft_tree():
    stream = mixed(600, seed=3)
    members = {"tree": {"model": "hoeffding-tree", "grace_period": 50}, "soft": "soft-hoeffding-tree"}
    learner = create("opinion-pool", stream.schema, seed=1, members=members)
    learner.learn_many(stream.x, stream.y)
    added_up(learner, mixed(30, seed=4).x)


@pytest.mark.parametrize("u", [-0.7, -0.5, -0.1, 0.0, 0.3, 0.5, 2.0])
def test_the_rise_of_a_gate(u):
    for v in (-3.0, -0.5, -0.2, 0.1, 0.5, 0.9):
        if u != v:
            assert rise(u, v) == pytest.approx((smooth_step(v) - smooth_step(u)) / (v - u), abs=1e-12)
    assert rise(u, u) == pytest.approx(max(0.0, 1.5 - 6.0 * min(u * u, 0.25)), abs=1e-12)
    assert rise(u, u + 1e-14) == pytest.approx(rise(u, u), abs=2e-2)
