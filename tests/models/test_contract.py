"""One list of checks for every learner of the registry: what models/contract.py promises.

A learner that is registered and has no case here fails. Kernels are checked as well: their options, and that each is
compiled for one signature only.
"""

import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

import models
from models.contract import LEARN, PREDICT, Bags, Program, Schema
from models.registry import REGISTRY, create, validate
from tests.conftest import jit

pytestmark = pytest.mark.usefixtures("state_key")

N_VALUES = (0, 0, 4, 0, 2)
K = 3


class Case(NamedTuple):
    """parameters : to run the checks with. bounded : further ones under which 3,000 rows reach the memory's bound.
    breathes : parts are dropped and grown again all the time, so that bytes vary below the bound."""

    parameters: Mapping = MappingProxyType({})
    bounded: Mapping = MappingProxyType({})
    breathes: bool = False


CASES = {
    "majority-class": [Case()],
    "last-label": [Case()],
    "mean": [Case(), Case({"fading": 0.9})],
    "naive-bayes": [Case()],
    "hoeffding-tree": [
        Case({"grace_period": 50, "tie_threshold": 0.2, **more}, bounded)
        for more, bounded in (
            ({}, {"max_nodes": 15}),
            ({"leaf_prediction": "nb", "binary_splits": True}, {"max_nodes": 15}),
            ({"leaf_prediction": "mc", "split_criterion": "gini", "max_depth": 4}, {"max_nodes": 15}),
            ({"observer": "histogram", "n_bins": 8, "max_active_leaves": 3}, {"max_leaves": 8}),
            ({"split_criterion": "hellinger", "max_leaves": 12}, {}),
        )
    ],
    "hoeffding-adaptive-tree": [
        Case(
            {"grace_period": 50, "tie_threshold": 0.2, "drift_delta": 0.3, "least_window": 50, **more},
            {"max_nodes": 5, "drift_delta": 0.9, "least_window": 20, "tie_threshold": 1.0},
        )
        for more in (
            {},
            {"leaf_prediction": "nb", "binary_splits": True, "early_prediction": False},
            {"leaf_prediction": "mc", "split_criterion": "gini", "max_depth": 4, "bootstrap": True},
        )
    ],
    "extremely-fast-decision-tree": [
        Case({"grace_period": 50, "reevaluation_period": 100, "tie_threshold": 0.2, **more}, {"max_nodes": 15})
        for more in (
            {},
            {"leaf_prediction": "nb", "binary_splits": True},
            {"leaf_prediction": "mc", "split_criterion": "gini", "max_depth": 4},
            {"observer": "histogram", "n_bins": 8, "split_criterion": "hellinger"},
        )
    ],
    "stochastic-gradient-tree": [
        Case({"warm_up": 60, "n_bins": 16, "rebin_period": 300, **more}, {"max_nodes": 15})
        for more in (
            {"delta": 0.2, "linear_rate": 0.0},
            {"preset": "paper", "delta": 0.2, "grace_period": 50, "node_cost": 0.0, "binning": "quantiles"},
            {
                "preset": "boosted",
                "n_stages": 2,
                "linear_rate": 0.1,
                "outputs": "one-tree",
                "binning": "quantiles",
                "grace_period": 50,
            },
        )
    ],
    "fimt-dd": [
        Case({"grace_period": 50, "delta": 0.1, "tie_threshold": 0.2, "n_bins": 8, **more}, {"max_nodes": 15})
        for more in (
            {},
            {"leaf_prediction": "model", "drift_threshold": 2.0},
            {"leaf_prediction": "mean", "drift_detection": False, "max_depth": 4},
        )
    ],
    "hoeffding-regression-tree": [Case({"grace_period": 50, "delta": 0.1, "n_bins": 8}, {"max_nodes": 15})],
    "orto": [
        Case({"grace_period": 50, "delta": 0.1, "tie_threshold": 0.2, "n_bins": 8, **more}, {"max_nodes": 15})
        for more in ({}, {"prediction": "average", "keep_leaf": False}, {"prediction": "best-path"})
    ],
    "online-bagging": [
        Case({"n_models": 3, "grace_period": 50, "tie_threshold": 0.2, **more}, {"max_nodes": 15})
        for more in ({}, {"vote": "weighted", "threads": 2}, {"vote": "majority", "observer": "histogram"})
    ],
    "adaptive-random-forest": [
        Case(
            {"n_models": 3, "grace_period": 30, "warning_delta": 0.9, "drift_delta": 0.3, **more},
            {"max_nodes": 7, "drift_delta": 0.9, "tie_threshold": 1.0, "rate": 1.0, "n_models": 12},  # soon two trees
            breathes=True,
        )
        for more in ({}, {"threads": 2, "max_features": "sqrt", "observer": "histogram", "background_trees": False})
    ],
    "streaming-random-patches": [
        Case(
            {"n_models": 3, "grace_period": 30, "warning_delta": 0.9, "drift_delta": 0.3, **more},
            {"max_nodes": 7, "drift_delta": 0.9, "tie_threshold": 1.0, "rate": 1.0, "n_models": 12},  # soon two trees
            breathes=True,
        )
        for more in ({}, {"threads": 2, "training_method": "subspaces"}, {"training_method": "resampling"})
    ],
    **{
        name: [
            Case({"n_models": 3, "grace_period": 50, "tie_threshold": 0.2, **more}, {"max_nodes": 15}) for more in mores
        ]
        for name, mores in {
            "leveraging-bagging": ({"threads": 2}, {"rate": 2.0, "drift_delta": 0.9, "leaf_prediction": "mc"}),
            "smooth-boost": ({"threads": 2}, {"vote": "weighted", "gamma": 0.5}),
            "online-boosting": ({"threads": 3}, {"poisson": False}),
        }.items()
    },
    "streaming-decision-tree": [
        Case({"batch_size": 50, **more}, {"max_nodes": 15})
        for more in ({"window": 200}, {"window": 0, "leaf_values": "overwrite"}, {"batch_size": 1, "window": 30})
    ],
    "streaming-decision-forest": [
        Case({"n_trees": 5, "batch_size": 30, **more}, {"max_nodes": 15})
        for more in (
            {"window": 200, "threads": 2},
            {"window": 0, "replaced": "fading", "leaf_values": "overwrite", "bootstrap": True},
            {"window": 100, "replaced": "never", "vote": "average", "max_features": "all", "bootstrap": True},
        )
    ],
    "shrub-ensemble": [
        Case({"window": 64, "n_trees": 4, **more}, {"max_depth": 3}, breathes=True)
        for more in (
            {"splits": "best", "n_windows": 1, "every": 1},
            {"max_features": "sqrt", "every": 3, "train_share": 0.5, "ridge": 0.2, "n_windows": 2},
            {"weighting": "equal", "n_windows": 3},
        )
    ],
    "mondrian-forest": [
        Case({"n_trees": 3, **more}, {"max_nodes": 101})
        for more in (
            {},
            {"split_below": 1.0, "vote_power": 0, "max_bytes": 100_000},
            {"aggregation": False, "max_nodes": 301},
            {"split_pure": True, "step": 0.5, "threads": 2},
        )
    ],
    "soft-hoeffding-tree": [
        Case({"grace_period": 50, "learning_rate": 0.05, **more}, {"max_depth": 2})
        for more in ({"max_depth": 4}, {"max_depth": 3, "alpha": 0.0, "min_reach": 0.1})
    ],
    "model-pool": [
        Case({"of": "soft-tree", "candidates": "depth=1,2; learning_rate=0.02,0.1", "n_explored": 1}),
        Case({"of": "last-label", "candidates": ""}),
    ],
    "soft-tree": [Case({"depth": 3, "learning_rate": 0.05}), Case({"depth": 2, "n_trees": 3, "learning_rate": 0.05})],
    "cart": [
        Case({"window": 300, **more}, breathes=True)
        for more in ({"ccp_alpha": 0.01, "drift_delta": 0.1}, {"ccp_alpha": 0.0, "lag": 20, "max_depth": 4})
    ],
    "bagging": [Case({"n_trees": 3, "window": 300, "sample": 0.5}, breathes=True)],
    "random-forest": [Case({"n_trees": 3, "window": 300, "max_depth": 5, "lag": 0}, breathes=True)],
    "adaboost": [Case({"n_trees": 3, "window": 300}, breathes=True)],
    "gradient-boosting": [Case({"n_trees": 3, "window": 300, "sample": 0.7}, breathes=True)],
    "xgboost": [Case({"n_trees": 3, "window": 300, "max_depth": 3}, breathes=True)],
    "external": [
        Case({"arguments": {"grace_period": 50}}, {"arguments": {"grace_period": 50, "max_depth": 0}}, breathes=True)
    ],
    "miti": [
        Case({"refit_every": 100, "window": 200, **more}, {"max_instances": 300})
        for more in ({}, {"split_criterion": "max-bepp", "k": 0.0}, {"split_criterion": "sum-squared-bepp"})
    ],
    "quick-diverse-density": [
        Case({"refit_every": 200, "window": 200, "max_steps": 20, **more}, {"max_instances": 300})
        for more in ({}, {"cap": 3.0, "max_iterations": 1})
    ],
}

ALL = [
    pytest.param(name, task, case, id=f"{name}-{task}-{i}")
    for name, cases in CASES.items()
    for task in REGISTRY[name].tasks
    for i, case in enumerate(cases)
]
every_learner = pytest.mark.parametrize(("name", "task", "case"), ALL)


def schema_of(task, n_values=N_VALUES, n_classes=K):
    return Schema(n_values, {"classification": n_classes, "regression": 1, "multi-instance": 2}[task], task)


def make(name, task, case, schema=None, seed=1):
    return create(name, schema or schema_of(task), seed=seed, **case.parameters)


def rows(n, task, seed=0, missing=0.1, n_values=N_VALUES):
    """x and y of a world in which every feature but the constant last but one says something about the label.

    For bags, a row of x is the first instance of one: see `slab_of`.
    """
    rng = np.random.default_rng(seed)
    x = np.empty((n, len(n_values)))
    for j, values in enumerate(n_values):
        x[:, j] = rng.integers(0, values, n) if values else rng.normal(0.0, 1.0, n)
    x[:, 3] = 7.0
    signal = x[:, 0] + (x[:, 2] == 1) - 2.0 * (x[:, 4] == 1) + 0.3 * rng.normal(size=n)
    y = np.digitize(signal, [-1.0, 0.5]).astype(float) if task == "classification" else 10.0 * signal
    if task == "multi-instance":
        y = (signal > 0.0).astype(float)
    x[rng.random(x.shape) < missing] = np.nan
    return x, y


def slab_of(learner, x):
    """What the learner is given for the rows of x. Bags have one to three instances, by the row: it, and some that say
    less; they do not lie in order."""
    if learner.schema.task != "multi-instance":
        return x
    size = 1 + np.nan_to_num(x[:, 4]).astype(int) + (np.nan_to_num(x[:, 2]) > 1)
    others = np.where(np.arange(x.shape[1]) == 0, x - 1.0, x)
    start = np.cumsum(size[::-1])[::-1] - size
    instances = np.empty((int(size.sum()), x.shape[1]))
    for r in range(len(x)):
        instances[start[r] : start[r] + size[r]] = others[r]
        instances[start[r]] = x[r]
    return Bags(start, size, instances)


def learn(learner, x, y, w=None):
    learner.learn_many(slab_of(learner, x), y, w)


def predict(learner, x):
    return learner.predict_many(slab_of(learner, x))


def interleaved(n, y, delay, w=None):
    """The program of a stream whose labels come `delay` instances late."""
    steps = []
    for i in range(n + delay):
        if i < n:
            steps.append((PREDICT, i, np.nan, 1.0))
        if i >= delay:
            steps.append((LEARN, i - delay, y[i - delay], 1.0 if w is None else w[i - delay]))
    op, row, label, weight = zip(*steps, strict=True)
    return Program(np.array(op, np.int8), np.array(row, np.int32), np.array(label), np.array(weight))


def cut(program, a, b):
    return Program(*(np.ascontiguousarray(column[a:b]) for column in program))


def bits(learner):
    return comparable(learner, learner.state()._asdict())


def comparable(learner, state):
    return {f: (a.shape, a.dtype, a.tobytes()) for f, a in state.items() if f not in learner.incomparable}


def check_outputs(out, task):
    assert np.all(np.isfinite(out))
    if task != "regression":
        assert np.all(out >= 0.0)
        totals = out.sum(axis=1)
        assert np.all((np.abs(totals - 1.0) < 1e-9) | (totals == 0.0))


def check_nothing(out, task):
    """Predictions of who knows nothing."""
    assert np.all(np.isnan(out) if task == "regression" else out == 0.0)


def test_every_registered_learner_has_a_case():
    assert set(CASES) == set(REGISTRY)


@every_learner
def test_inputs_stay_unchanged(name, task, case):
    x, y = rows(600, task)
    program = interleaved(600, y, 10)
    learner = make(name, task, case)
    slab = slab_of(learner, np.vstack([x, np.zeros((100, x.shape[1]))]))
    inputs = [*program, *(slab if task == "multi-instance" else [slab])]
    before = [column.tobytes() for column in inputs]
    out = np.full((700, learner.schema.n_outputs), -7.0)
    learner.run(program, slab, out)
    assert before == [column.tobytes() for column in inputs]
    check_nothing(out[:11], task)  # the first label comes after the eleventh
    check_outputs(out[11:600], task)
    assert np.all(out[600:] == -7.0)  # rows that were not predicted


@every_learner
def test_same_seed_same_bits(name, task, case):
    x, y = rows(1500, task)
    first, second = make(name, task, case), make(name, task, case)
    learn(first, x, y)
    learn(second, x, y)
    assert bits(first) == bits(second)
    assert predict(first, x).tobytes() == predict(second, x).tobytes()


@every_learner
@pytest.mark.parametrize("delay", [0, 25])
def test_splits_of_a_program_do_not_matter(name, task, case, delay):
    n = 1500
    x, y = rows(n, task)
    program = interleaved(n, y, delay)
    shape = (n, schema_of(task).n_outputs)
    whole, out = make(name, task, case), np.zeros(shape)
    slab = slab_of(whole, x)
    whole.run(program, slab, out)
    rng = np.random.default_rng(5)
    for cuts in (np.arange(1, len(program.op)), np.sort(rng.integers(0, len(program.op), 9))):
        pieces, pieced = make(name, task, case), np.zeros(shape)
        for a, b in pairwise([0, *cuts, len(program.op)]):
            pieces.run(cut(program, a, b), slab, pieced)
        assert pieced.tobytes() == out.tobytes()
        assert bits(pieces) == bits(whole)


@every_learner
def test_batches_equal_the_program(name, task, case):
    x, y = rows(800, task)
    one, many = make(name, task, case), make(name, task, case)
    learn(one, x, y)
    for i in range(len(x)):
        learn(many, x[i : i + 1], y[i : i + 1])
    assert bits(one) == bits(many)
    together = predict(one, x[:50])
    assert together.tobytes() == b"".join(predict(many, x[i : i + 1]).tobytes() for i in range(50))


@every_learner
def test_predict_changes_nothing(name, task, case):
    x, y = rows(1200, task)
    learner, twin = make(name, task, case), make(name, task, case)
    predict(learner, x)
    learn(learner, x[:600], y[:600])
    learn(twin, x[:600], y[:600])
    known = bits(learner)
    predict(learner, x)
    assert bits(learner) == known
    learn(learner, x[600:], y[600:])
    learn(twin, x[600:], y[600:])
    assert bits(learner) == bits(twin)


@every_learner
def test_save_restore_continue(name, task, case):
    x, y = rows(2000, task)
    whole = make(name, task, case)
    learn(whole, x[:900], y[:900])
    saved = {field: array.copy() for field, array in whole.state()._asdict().items()}
    for array in saved.values():
        array.flags.writeable = False  # as np.frombuffer gives them
    predict(whole, x[:10])
    resumed = make(name, task, case)
    resumed.restore(saved)
    assert bits(resumed) == comparable(whole, saved)
    learn(whole, x[900:], y[900:])
    learn(resumed, x[900:], y[900:])
    assert bits(resumed) == bits(whole)
    assert predict(resumed, x).tobytes() == predict(whole, x).tobytes()
    assert resumed.describe() == whole.describe()


@every_learner
def test_state_is_arrays_that_n_bytes_counts(name, task, case):
    x, y = rows(1000, task)
    learner = make(name, task, case)
    for _ in range(2):
        state = learner.state()
        assert all(isinstance(array, np.ndarray) and array.flags.c_contiguous for array in state)
        assert all(array.dtype.kind in "iuf" for array in state)
        assert learner.n_bytes == sum(array.nbytes for array in state)
        learn(learner, x, y)


@every_learner
def test_missing_values(name, task, case):
    x, y = rows(1500, task, missing=0.6)
    learner = make(name, task, case)
    learn(learner, x, y)
    learn(learner, np.full((20, x.shape[1]), np.nan), y[:20])
    check_outputs(predict(learner, x), task)
    check_outputs(predict(learner, np.full((1, x.shape[1]), np.nan)), task)


@every_learner
def test_new_nominal_values_after_resize(name, task, case):
    x, y = rows(1500, task)
    learner = make(name, task, case)
    learn(learner, x, y)
    before = predict(learner, x)
    wider = (0, 0, 16, 0, 2)
    learner.resize(schema_of(task, wider))
    assert learner.schema.n_values == wider
    assert predict(learner, x).tobytes() == before.tobytes()
    unseen = x[:100].copy()
    unseen[:, 2] = np.arange(100) % 12 + 4
    check_outputs(predict(learner, unseen), task)
    learn(learner, unseen, y[:100])
    check_outputs(predict(learner, unseen), task)
    x, y = rows(1500, task, seed=8, n_values=wider)
    learn(learner, x, y)
    check_outputs(predict(learner, x), task)


@every_learner
def test_new_classes_after_resize(name, task, case):
    if task != "classification":
        pytest.skip("a regression has no classes, and bags have two")
    x, y = rows(1500, task)
    learner = make(name, task, case)
    learn(learner, x, y)
    before = predict(learner, x)
    learner.resize(schema_of(task, n_classes=K + 5))
    after = predict(learner, x)
    assert after.shape == (len(x), K + 5)
    assert np.ascontiguousarray(after[:, :K]).tobytes() == before.tobytes()
    assert np.all(after[:, K:] == 0.0)
    x[:, 0] += 50.0
    learn(learner, x, np.full(len(x), K + 4.0))
    after = predict(learner, x)
    check_outputs(after, task)
    assert after[-1].argmax() == K + 4


@every_learner
def test_restore_after_resize(name, task, case):
    x, y = rows(1200, task)
    bigger = schema_of(task, (0, 0, 8, 0, 2), K + 2)
    learner = make(name, task, case)
    learn(learner, x[:500], y[:500])
    learner.resize(bigger)
    resumed = make(name, task, case, bigger)
    resumed.restore(learner.state()._asdict())
    learn(learner, x[500:], y[500:])
    learn(resumed, x[500:], y[500:])
    assert bits(resumed) == bits(learner)


@every_learner
def test_constant_features(name, task, case):
    _, y = rows(1500, task)
    x = np.tile([1.0, 0.0, 2.0, -5.0, 1.0], (1500, 1))
    learner = make(name, task, case)
    learn(learner, x, y)
    check_outputs(predict(learner, x[:1]), task)
    moved = x[:1] + np.array([0.5, 0.0, 0.0, 1e9, 0.0])
    check_outputs(predict(learner, moved), task)


@jit  # Python's math raises where compiled kernels go on with infinity
@every_learner
def test_huge_and_tiny_values(name, task, case):
    x, y = rows(1500, task, missing=0.0)
    for scale in (1e-200, 1e150, 1e300):
        scaled = x.copy()
        scaled[:, :2] *= scale
        learner = make(name, task, case)
        learn(learner, scaled, y)
        check_outputs(predict(learner, scaled), task)


@every_learner
def test_weights(name, task, case):
    x, y = rows(1500, task)
    rng = np.random.default_rng(2)
    w = rng.choice([0.0, 0.1, 1.0, 2.5], len(y))
    weighted, kept = make(name, task, case), make(name, task, case)
    learn(weighted, x, y, w)
    learn(kept, x[w > 0], y[w > 0], w[w > 0])
    check_outputs(predict(weighted, x), task)
    assert bits(weighted) == bits(kept)  # an instance of weight 0 is none
    if task != "regression":
        light, heavy = make(name, task, case), make(name, task, case)
        for learner, weights in ((light, (1.0, 0.25)), (heavy, (0.25, 1.0))):
            learn(learner, np.tile(x[:1], (2, 1)), np.array([0.0, 1.0]), np.array(weights))
        # the heavier class is not the less likely one (the last label does not weigh)
        assert predict(heavy, x[:1])[0, 1] >= predict(light, x[:1])[0, 1]


@every_learner
def test_one_class_only(name, task, case):
    x, _ = rows(1000, task)
    learner = make(name, task, case)
    learn(learner, x, np.ones(1000))
    out = predict(learner, x)
    check_outputs(out, task)
    if task == "classification":
        assert np.all(out[:, 1] == 1.0)
    elif task == "multi-instance":
        assert np.all(out[:, 1] > 0.5)
    else:
        assert out == pytest.approx(np.ones_like(out), abs=1e-6)


@every_learner
def test_nothing_is_known_before_the_first_label(name, task, case):
    x, y = rows(10, task)
    learner = make(name, task, case)
    check_nothing(predict(learner, x), task)
    assert predict(learner, x[:0]).shape == (0, schema_of(task).n_outputs)
    no_labels = [np.nan, np.inf] if task == "regression" else [np.nan, -1.0]
    learn(learner, x[:4], [*no_labels, *y[2:4]], [1.0, 1.0, 0.0, 0.0])
    check_nothing(predict(learner, x), task)
    if task == "regression":
        learn(learner, x[4:5], y[4:5])
        known = predict(learner, x)  # a bootstrap may leave out the first label
        assert np.all(np.isnan(known) | np.isclose(known, y[4]))
        learn(learner, x[5:], y[5:])
        check_outputs(predict(learner, x), task)


@every_learner
def test_memory_is_bounded(name, task, case):
    learner = make(name, task, case._replace(parameters={**case.parameters, **case.bounded}))
    x, y = rows(6000, task, seed=4)
    reached = []
    for a in range(0, 6000, 300):
        learn(learner, x[a : a + 300], y[a : a + 300])
        reached.append(learner.n_bytes)
    if case.breathes:
        assert max(reached[10:]) <= 1.1 * max(reached[:10])
    else:
        assert reached[-1] == reached[9]
    check_outputs(predict(learner, x), task)


@every_learner
def test_describe(name, task, case):
    x, y = rows(2000, task)
    learner = make(name, task, case)
    for n in (0, 1, 2000):
        learn(learner, x[:n], y[:n])
        nodes = json.loads(json.dumps(learner.describe(), allow_nan=False))
        assert nodes[0]["parent"] is None
        assert nodes[0]["depth"] == 0
        known = {}
        for node in nodes:
            assert {"id", "depth", "weight", "parent", "value"} <= set(node)
            assert node["id"] not in known
            if node["parent"] is not None:
                assert node["depth"] == known[node["parent"]]["depth"] + 1
            known[node["id"]] = node
        assert {"n_nodes", "n_leaves", "depth"} <= set(learner.size())
        assert all(type(value) is int for value in learner.size().values())


@every_learner
def test_parameters_come_back(name, task, case):
    learner = make(name, task, case)
    assert learner.parameters() == validate(name, task, case.parameters)
    assert type(learner).name == name
    assert json.loads(json.dumps(learner.parameters())) == learner.parameters()


@every_learner
def test_warm_up_leaves_no_trace(name, task, case):
    learner = make(name, task, case)
    before = bits(learner)
    learner.warm_up()
    assert bits(learner) == before


def modules_of_models():
    found = [models]
    for info in pkgutil.walk_packages(models.__path__, "models."):
        found.append(importlib.import_module(info.name))
    return found


def kernels():
    """Every numba dispatcher of the package, by name."""
    from numba.core.dispatcher import Dispatcher

    found = {}
    for module in modules_of_models():
        for name, value in vars(module).items():
            if isinstance(value, Dispatcher):
                found[f"{value.py_func.__module__}.{name}"] = value
    return found


# Kernels that make arrays of their own: rare ones, over a window or a whole tree.
ALLOCATING = {
    "models.bags.diverse_density._predict",
    "models.bags.diverse_density.search",
    "models.bags.miti.grow",
    "models.bags.optimise._direction",
    "models.bags.optimise.optimise_scale",
    "models.batch.learner._run",
    "models.batch.predict._median",
    "models.batch.predict.predict",
    "models.drift.kswin._kswin",
    "models.drift.kswin.sort",
    "models.forest.cart.grow",
    "models.forest.members.weigh_newest",
    "models.forest.mondrian._run",
    "models.forest.node_tests.sort_values",
    "models.forest.streaming._depth",
    "models.hoeffding.outlook.may_win",
    "models.hoeffding.subtrees.pack_maps",
}


@jit
def test_options_of_every_kernel():
    found = kernels()
    assert len(found) > 10
    for name, dispatcher in found.items():
        options = dispatcher.targetoptions
        assert options.get("nogil") is True, name
        assert options.get("error_model") == "numpy", name
        assert not options.get("fastmath"), name
        assert not options.get("parallel"), name
        assert options.get("nopython") is True, name
        assert options.get("_nrt") is (name in ALLOCATING), name


SIGNATURES = """
import numpy as np
from numba.core import types
from tests.models import test_contract as contract
from models.prequential import Prequential

for name, cases in contract.CASES.items():
    for task in contract.REGISTRY[name].tasks:
        for case in cases:
            learner = contract.make(name, task, case)
            x, y = contract.rows(1500, task)
            program = contract.interleaved(1500, y, 5)
            out = np.zeros((1500, learner.schema.n_outputs))
            learner.warm_up()
            learner.run(program, contract.slab_of(learner, x), out)
            contract.predict(learner, x)
            saved = {field: array.copy() for field, array in learner.state()._asdict().items()}
            for array in saved.values():
                array.flags.writeable = False
            learner.restore(saved)
            contract.learn(learner, x, y)
            learner.describe()
            learner.resize(contract.schema_of(task, (0, 0, 8, 0, 2), contract.K + 1))
            contract.learn(learner, x, y)
            for fading in (None, 0.99):
                evaluation = Prequential(task, out.shape[1], fading=fading)
                evaluation.score(program, out)
                evaluation.restore(evaluation.state()._asdict())
                evaluation.score(program, out)
                evaluation.windowed()

for name, dispatcher in contract.kernels().items():
    signatures = {tuple(str(types.unliteral(t)) for t in signature) for signature in dispatcher.signatures}
    if len(signatures) > 1:
        print(name, *sorted(signatures), sep="\\n    ")
    for compiled in dispatcher.overloads.values():
        # References are not counted: an array that is returned would be freed while it is in use.
        kinds = [compiled.signature.return_type, *getattr(compiled.signature.return_type, "types", ())]
        if any(isinstance(kind, types.Array) for kind in kinds):
            print(name, "returns an array")
"""


@jit
def test_one_signature_a_kernel():
    """In a process of its own: other tests may call kernels with other types."""
    done = subprocess.run([sys.executable, "-c", SIGNATURES], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
