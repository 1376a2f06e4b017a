"""Stochastic gradient trees against their naive twin, and what follows from the definitions."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.checks import snapshot
from riparian.models.contract import Schema
from riparian.models.gradient.bins import bin_of, equal_width, quantiles
from riparian.models.gradient.losses import LOSSES, SMOOTH, derivatives
from riparian.models.gradient.presets import effective
from riparian.models.gradient.significance import p_value
from riparian.models.gradient.stochastic_gradient_tree import StochasticGradientTree
from tests.models.naive_sgt import SgtTwin, p_of_f
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played, same

EAGER = {"warm_up": 40, "n_bins": 8, "grace_period": 20, "delta": 0.2, "rebin_period": 100}


def stream_of(n, seed, task="classification", **world):
    stream = mixed(n, seed, **world)
    if task == "classification":
        return stream
    rng = np.random.default_rng(seed)
    y = 3.0 * stream.y + rng.normal(size=n) + np.nan_to_num(stream.x[:, 0])
    return stream._replace(schema=stream.schema._replace(task="regression", n_outputs=1), y=y)


def twin_of(learner):
    schema = learner.schema
    given = effective(learner.parameters(), schema.task)
    given["max_nodes"] = given["max_nodes"] or 10**9
    return SgtTwin(schema.n_values, schema.n_outputs, schema.task, learner.seed, given)


def compare(stream, delay=0, seed=3, **parameters):
    fresh = partial(StochasticGradientTree, stream.schema, seed=seed, **parameters)
    twin, program = twin_of(fresh()), interleave(stream, delay)
    learner, out = in_pieces(fresh, program, stream.x)
    expected = played(twin, program, stream.x, stream.schema.n_outputs)
    check_nodes(learner, twin)
    np.testing.assert_array_equal(out, expected)
    return learner, twin


def check_nodes(learner, twin):
    """Structure, tests and what leaves know, exactly."""
    state = learner.state()
    ids = {id(node): i for i, node in enumerate(twin.nodes)}
    described = learner.describe()
    assert len(described) == 1 + len(twin.nodes)
    for i, (node, ours) in enumerate(zip(twin.nodes, described[1:], strict=True)):
        assert ours["parent"] == (0 if node.parent is None else ids[id(node.parent)] + 1)
        assert ours["depth"] == node.depth + 1
        assert state.value[i].tolist() == node.value
        assert ours.get("feature") == node.feature
        if node.feature is None:
            assert state.curvature[i].tolist() == node.curvature
            assert state.meta[i].tolist() == [node.seen, node.last_test]
            total = [node.total.weight]
            for k in range(len(node.value)):
                total += [moment[k] for moment in node.total.lists()]
            assert state.totals[i].tolist() == total
        else:
            children = [ids[id(child)] + 1 for child in node.children]
            if node.many:
                children = {child.code: ids[id(child)] + 1 for child in node.children}
            assert ours["children"] == children
            assert ours["default"] == ids[id(node.default)] + 1
            if not node.many:
                assert ours["equals" if learner.schema.n_values[node.feature] else "threshold"] == node.test


CLASSIFIERS = [
    {},
    {"preset": "paper", "delta": 0.3, "node_cost": 0.1},
    {"preset": "paper", "delta": 0.3, "multiway": False, "binning": "quantiles", "rebin_period": 70, "replay": True},
    {"preset": "boosted", "n_stages": 3, "linear_rate": 0.1},
    {"outputs": "one-tree", "multiway": True, "max_depth": 3},
    {"preset": "paper", "penalty_on": "mean", "delta": 0.3, "node_cost": 0.1},
    {"penalty_on": "mean", "linear_rate": 0.0},
    {"outputs": "one-tree", "n_stages": 2, "binning": "quantiles", "paired": False, "max_nodes": 12},
]
REGRESSORS = [
    {},
    {"preset": "paper", "loss": "huber", "loss_threshold": 0.5, "delta": 0.3},
    {"preset": "boosted", "n_stages": 2, "loss": "quantile", "quantile": 0.8, "binning": "quantiles"},
    {"loss": "poisson", "linear_rate": 0.1, "max_nodes": 9},
]
WORLDS = [
    {"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3},
    {"n_values": (4, 0, 6), "n_classes": 4, "weights": "fractions", "missing": 0.3},
    {"n_values": (0, 0), "n_classes": 2, "missing": 0.0, "weights": "whole"},
]


@pytest.mark.parametrize("mode", CLASSIFIERS, ids=str)
def test_classification_equals_twin(mode):
    world = WORLDS[CLASSIFIERS.index(mode) % 3]
    learner, twin = compare(stream_of(600, 7, **world), delay=3, **{**EAGER, **mode})
    assert learner.size()["n_nodes"] > 2
    assert twin.n_slow_tests > 1


@pytest.mark.parametrize("mode", REGRESSORS, ids=str)
def test_regression_equals_twin(mode):
    world = WORLDS[REGRESSORS.index(mode) % 3]
    learner, twin = compare(stream_of(600, 8, "regression", **world), delay=3, **{**EAGER, **mode})
    assert learner.size()["n_nodes"] > 2
    assert twin.n_slow_tests > 1


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    task=st.sampled_from(["classification", "regression"]),
    n_values=st.lists(st.sampled_from([0, 0, 2, 3, 7]), min_size=1, max_size=4),
    n_classes=st.integers(2, 4),
    missing=st.sampled_from([0.0, 0.2, 0.8]),
    weights=st.sampled_from(["one", "whole", "fractions"]),
    delay=st.sampled_from([0, 1, 20]),
    parameters=st.fixed_dictionaries(
        {
            "preset": st.sampled_from(["tuned", "paper", "boosted"]),
            "loss": st.sampled_from(list(LOSSES)),
            "outputs": st.sampled_from(["tree-a-class", "one-tree"]),
            "n_stages": st.sampled_from([None, 1, 2]),
            "grace_period": st.sampled_from([1, 10, 30]),
            "delta": st.sampled_from([0.9, 0.2, 1e-3]),
            "n_bins": st.sampled_from([2, 5, 16]),
            "binning": st.sampled_from(["equal-width", "quantiles"]),
            "warm_up": st.sampled_from([1, 7, 50]),
            "rebin_period": st.sampled_from([0, 30, 100]),
            "linear_rate": st.sampled_from([0.0, 0.2]),
            "multiway": st.booleans(),
            "paired": st.booleans(),
            "penalty_on": st.sampled_from(["sum", "sum", "mean"]),
            "replay": st.booleans(),
            "max_nodes": st.sampled_from([1000, 1000, 7, 1]),
            "max_depth": st.sampled_from([None, None, 0, 2]),
            "reset_delta": st.sampled_from([0.0, 0.0, 0.5, 1.0]),
        }
    ),
)
def test_equals_twin_anywhere(seed, task, n_values, n_classes, missing, weights, delay, parameters):
    stream = stream_of(200, seed, task, n_values=tuple(n_values), n_classes=n_classes, missing=missing, weights=weights)
    if parameters["loss"] == "poisson":
        stream = stream._replace(y=np.round(np.abs(stream.y)))
    compare(stream, delay, seed=seed % 1000, **parameters)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_stages_whose_errors_rise_begin_anew_as_the_twin_s(task):
    """The concept turns round half way."""
    stream = stream_of(1500, 11, task, missing=0.0)
    learner, twin = compare(stream, **EAGER, preset="boosted", n_stages=2, reset_delta=0.05)
    assert twin.n_resets > 0
    settled = StochasticGradientTree(stream.schema, seed=3, **EAGER, preset="boosted", n_stages=2)
    settled.learn_many(stream.x, stream.y)
    assert learner.size()["n_nodes"] < settled.size()["n_nodes"]
    assert learner.size() == {  # the counts are kept through the reset
        "n_nodes": len(twin.nodes),
        "n_leaves": sum(node.feature is None for node in twin.nodes),
        "depth": max(node.depth for node in twin.nodes),
    }


@pytest.mark.parametrize("mode", [*REGRESSORS, {"n_stages": 2, "reset_delta": 0.3}], ids=str)
def test_the_scale_follows_the_target_as_the_twin_s(mode):
    """Constant at first, then a hundred times as large, and small again."""
    stream = stream_of(1500, 8, "regression", n_values=(0, 3, 0), n_classes=3)
    y = np.abs(stream.y) if mode.get("loss") == "poisson" else stream.y.copy()
    y[:60] = 2.0
    y[500:800] *= 100.0
    learner, twin = compare(stream._replace(y=y), delay=3, **{**EAGER, **mode})
    assert twin.n_scales > (-1 if mode.get("loss") == "poisson" else 3)
    assert learner.size()["n_nodes"] > 2
    assert twin.n_resets > 0 or "reset_delta" not in mode


# classes and scales --------------------------------------------------------------------------------------------------


def test_states_from_before_detectors_had_a_unit():
    stream = stream_of(500, 8, "regression")
    learner = StochasticGradientTree(stream.schema, **EAGER)
    learner.learn_many(stream.x, stream.y)
    arrays = snapshot(learner)
    other = StochasticGradientTree(stream.schema, **EAGER)
    other.restore({**arrays, "target": arrays["target"][:5]})
    assert same(snapshot(other), arrays)


def test_lambda_on_the_mean_is_once_for_each_instance():
    for penalty_on, divisor in (("sum", 0.1), ("mean", 0.1 * 200)):
        learner = StochasticGradientTree(
            Schema((0,), 2, "classification"), preset="paper", penalty_on=penalty_on, delta=0.1
        )
        learner.learn_many(np.zeros((1000, 1)), np.tile([0.0, 1.0, 1.0, 1.0], 250))
        learner.learn_many(np.zeros((200, 1)), np.tile([0.0, 1.0, 1.0, 1.0], 50))
        g, h = 0.5 * 50 - 0.5 * 150, 0.25 * 200
        assert learner.state().value[0, 0] == pytest.approx(-g / (h + divisor))


# the test ------------------------------------------------------------------------------------------------------------


def tail_of_t(t, freedom):
    """P(|T| > t) for an even number of degrees of freedom: a finite sum (Abramowitz and Stegun, 26.7.4), in fractions
    but for one square root."""
    t = Fraction(t)
    cosine = Fraction(freedom) / (freedom + t * t)
    term, total = Fraction(1), Fraction(1)
    for k in range(1, freedom // 2):
        term *= cosine * Fraction(2 * k - 1, 2 * k)
        total += term
    square = t * t / (freedom + t * t)
    scale = 10**60
    sine = Fraction(math.isqrt(int(square * scale * scale)), scale)
    return float(1 - sine * total)


@pytest.mark.parametrize("freedom", [2, 4, 10, 48, 200])
@pytest.mark.parametrize("t", [0.01, 0.5, 1.0, 2.5, 6.0, 15.0])
def test_p_value_is_exact(t, freedom):
    assert p_value(t * t, float(freedom)) == pytest.approx(tail_of_t(t, freedom), rel=1e-10)


@pytest.mark.parametrize("freedom", [0.02, 0.15, 0.9, 1.0, 1.7, 19.0, 49.3, 1234.5, 1e6])
def test_p_value_of_any_weight(freedom):
    for f in (1e-6, 0.3, 1.0, 5.0, 30.0, 300.0):
        assert p_value(f, freedom) == pytest.approx(p_of_f(f, freedom), rel=1e-5)


def test_ends_of_the_p_value():
    assert p_value(0.0, 5.0) == 1.0
    assert p_value(math.nan, 5.0) == 1.0
    assert p_value(math.inf, 5.0) == 0.0
    assert p_value(1e300, 1e9) == 0.0


# losses --------------------------------------------------------------------------------------------------------------


def value(loss, parameter, y, score):
    r = y - score
    return {
        "squared": 0.5 * r * r,
        "huber": parameter * parameter * (math.hypot(1.0, r / parameter) - 1.0),
        "quantile": parameter * r + SMOOTH * np.logaddexp(0.0, -r / SMOOTH),
        "poisson": math.exp(score) - y * score,
    }[loss]


@pytest.mark.parametrize("loss", LOSSES)
def test_derivatives_are_those_of_the_loss(loss):
    code, step = LOSSES[loss], 1e-6
    for parameter in (0.2, 0.7):
        for y in (0.0, 0.4, 3.0):
            for score in (-2.0, -0.3, 0.1, 0.9, 2.5):
                g, h = derivatives(code, parameter, y, score)
                high, low = value(loss, parameter, y, score + step), value(loss, parameter, y, score - step)
                assert g == pytest.approx((high - low) / (2 * step), abs=1e-6)
                high, low = derivatives(code, parameter, y, score + step), derivatives(code, parameter, y, score - step)
                assert h == pytest.approx((high[0] - low[0]) / (2 * step), abs=1e-6)


# bins ----------------------------------------------------------------------------------------------------------------


def test_bins():
    assert equal_width(0.0, 8.0, 4).tolist() == [2.0, 4.0, 6.0]
    assert equal_width(3.0, 3.0, 4).tolist() == []
    assert np.all(np.isfinite(equal_width(-1.5e308, 1.5e308, 8)))
    assert quantiles(np.array([1.0, 1.0, 2.0, 5.0]), 4).tolist() == [1.5, 3.5]
    assert quantiles(np.array([4.0, 4.0]), 4).tolist() == []
    values = np.random.default_rng(1).normal(size=1000)
    edges = quantiles(values, 10)
    counts = np.bincount(np.searchsorted(edges, values), minlength=10)
    assert counts.tolist() == [100] * 10
    for v in (-9.0, *edges[:3], 0.0, 9.0, math.inf, -math.inf):
        assert bin_of(edges, len(edges), v) == np.searchsorted(edges, v, side="left")


# the learner ---------------------------------------------------------------------------------------------------------


def test_paper_preset_is_the_papers():
    learner = StochasticGradientTree(Schema((0,), 2, "classification"), preset="paper")
    given = effective(learner.parameters(), "classification")
    of_paper = {"grace_period": 200, "delta": 1e-7, "penalty": 0.1, "node_cost": 1.0, "n_bins": 64, "warm_up": 1000}
    assert {name: given[name] for name in of_paper} == of_paper
    assert (given["n_stages"], given["leaf_update"], given["multiway"]) == (1, "tested", True)


def test_max_nodes_bounds_all_trees():
    stream = stream_of(3000, 2, n_classes=4)
    learner = StochasticGradientTree(stream.schema, **{**EAGER, "preset": "boosted", "n_stages": 2, "max_nodes": 20})
    learner.learn_many(stream.x, stream.y)
    assert 18 <= learner.size()["n_nodes"] <= 20
    nodes = learner.describe()
    assert sum("stage" in node for node in nodes) == 2 * 3
    assert {node["class"] for node in nodes if "class" in node} == {1, 2, 3}


# Splits at nearly every test, whatever the labels say.
WILD = {"n_bins": 4, "grace_period": 2, "delta": 1.0, "node_cost": 0.0, "paired": False, "warm_up": 10}


@pytest.mark.parametrize("parameters", [{}, {"outputs": "one-tree"}, {"multiway": True}, {"linear_rate": 0.0}], ids=str)
def test_max_bytes_bounds_the_bytes(parameters):
    rng = np.random.default_rng(2)
    schema = Schema((0,) * 15 + (3,) * 5, 4, "classification")
    x = rng.random((20_000, 20))
    x[:, 15:] = rng.integers(0, 3, (len(x), 5))
    learner = StochasticGradientTree(schema, max_bytes=400_000, **{**WILD, **parameters})
    learner.learn_many(x, rng.integers(0, 4, len(x)))
    assert 100_000 < learner.n_bytes < 420_000
    small = StochasticGradientTree(schema, max_bytes=400_000, max_nodes=20, **WILD)
    small.learn_many(x, rng.integers(0, 4, len(x)))
    assert small.size()["n_nodes"] <= 20


def trees(learner):
    """(stage, class) -> the scores of the tree's nodes, as people are shown them."""
    tree_of, found = {}, {}
    for node in learner.describe()[1:]:
        tree = (node["stage"], node["class"]) if "stage" in node else tree_of[node["parent"]]
        tree_of[node["id"]] = tree
        found.setdefault(tree, []).append(node["value"])
    return found


def test_trees_keep_their_stage_and_class_when_classes_come():
    learner = StochasticGradientTree(
        Schema((0, 0), 2, "classification"), preset="boosted", n_stages=3, warm_up=20, delta=0.3, node_cost=0.0
    )
    x = np.random.default_rng(1).random((1200, 2))
    learner.learn_many(x[:600], (x[:600, 0] > 0.5).astype(float))
    before = learner.predict_many(x)
    learner.resize(Schema((0, 0), 4, "classification"))
    assert np.array_equal(learner.predict_many(x)[:, :2], before)
    learner.learn_many(x[600:], np.floor(4.0 * x[600:, 0]))
    assert sorted(trees(learner)) == [(stage, code) for stage in range(3) for code in (1, 2, 3)]
    assert max(map(len, trees(learner).values())) > 1
    twin = StochasticGradientTree(learner.schema, **learner.parameters())
    stale = {name: array.copy() for name, array in learner.state()._asdict().items()}
    stale["links"][:, -1] = 0  # as states were written
    twin.restore(stale)
    assert twin.describe() == learner.describe()
    # A reset of one stage leaves the trees of the others alone.
    kept = {tree: values for tree, values in trees(learner).items() if tree[0] != 1}
    learner._scratch.drifted[:] = [False, True, False]
    learner._reset()
    assert {tree: values for tree, values in trees(learner).items() if tree[0] != 1} == kept
    assert {len(values) for tree, values in trees(learner).items() if tree[0] == 1} == {1}


@pytest.mark.parametrize("preset", ["tuned", "paper", "boosted"])
def test_one_tree_that_is_not_planted_yet_says_the_frequencies(preset):
    x, y = np.random.default_rng(1).random((40, 2)), np.arange(40.0) % 3
    out = []
    for outputs in ("one-tree", "tree-a-class"):
        schema = Schema((0, 0), 3, "classification")
        learner = StochasticGradientTree(schema, preset=preset, replay=False, warm_up=40, outputs=outputs)
        learner.learn_many(x, y)
        out.append(learner.predict_many(x))
    assert np.array_equal(*out)
