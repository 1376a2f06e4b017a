"""The extremely fast decision tree against its naive twin, by hand, and by its invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.contract import Schema
from models.hoeffding.efdt import ExtremelyFastDecisionTree
from models.hoeffding.mutable_tree import DEAD, TEST
from models.hoeffding.nodes import SEEN
from models.hoeffding.tree import HoeffdingTree
from models.streams import agrawal, led, random_rbf
from tests.models.hoeffding_trees import (
    ANYWHERE,
    PARAMETERS,
    WORLDS,
    check_equal,
    check_rows,
    cuts_and_snapshots,
    growing,
    play,
)
from tests.models.naive_efdt import EfdtTwin
from tests.models.streams_of_instances import Stream, interleave, mixed

# Grows a tree of some ten nodes in a few hundred instances, and thinks again.
EAGER = {"grace_period": 20, "reevaluation_period": 30, "delta": 0.3, "tie_threshold": 0.3}
SIZES = [250, 400, 100, 300, 30, 1]
MODES = [
    {},
    {"leaf_prediction": "mc"},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"split_criterion": "gini", "reevaluation_period": 1},
    {"split_criterion": "gini", "binary_splits": True, "leaf_prediction": "mc"},
    {"max_nodes": 9},
    {"max_depth": 2, "n_split_points": 3, "min_branch_fraction": 0.2},
    {"delta": 1e-7, "tie_threshold": 0.0},
    {"observer": "histogram", "n_bins": 8},
    {"observer": "histogram", "n_bins": 30, "split_criterion": "hellinger", "reevaluation_period": 5},
]


def tree(stream, **parameters):
    return ExtremelyFastDecisionTree(stream.schema, **{**EAGER, **parameters})


def twin(stream, **parameters):
    everything = {**ExtremelyFastDecisionTree(stream.schema).parameters(), **EAGER, **parameters}
    return EfdtTwin(stream.schema.n_values, stream.schema.n_outputs, **everything)


def check(learner, other, stream):
    check_equal(learner, other)
    check_rows(learner)
    assert learner.describe()[0]["weight"] == pytest.approx(stream.w.sum(), rel=1e-9)


def compare(stream, delay=0, **parameters):
    program = interleave(stream, delay)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    out = np.zeros((len(stream.y), stream.schema.n_outputs))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check(learner, other, stream)
    return learner


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: str(w["n_values"]))
@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("delay", [0, 5])
def test_equals_twin(world, mode, delay):
    learner = compare(mixed(900, seed=3, **world), delay, **mode)
    if mode in ({}, {"leaf_prediction": "mc"}):
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    n=st.sampled_from(SIZES),
    parameters=st.fixed_dictionaries(
        {
            **PARAMETERS,
            "reevaluation_period": st.sampled_from([1, 10, 50]),
            "observer": st.sampled_from(["gaussian", "histogram"]),
            "n_bins": st.sampled_from([3, 5, 20]),
        }
    ),
    **ANYWHERE,
)
def test_equals_twin_anywhere(seed, n, n_values, n_classes, missing, weights, delay, parameters):
    stream = mixed(n, seed, n_values=n_values, n_classes=n_classes, missing=missing, weights=weights)
    compare(stream, delay, **parameters)


@pytest.mark.parametrize("generator", [agrawal, random_rbf, led], ids=lambda g: g.__name__)
def test_equals_twin_on_generated_streams(generator):
    made = generator.generate(4000, seed=2)
    schema = Schema(made.n_values, made.n_classes, "classification")
    learner = compare(
        Stream(schema, made.x, made.y, np.ones(4000)),
        grace_period=100, reevaluation_period=200, delta=0.05, tie_threshold=0.2,
    )  # fmt: skip
    assert learner.size()["n_nodes"] > 3


test_cuts_and_snapshots_do_not_matter = cuts_and_snapshots(tree, SIZES, MODES)
test_growing_equals_having_had_the_room = growing(tree, SIZES, MODES)


def test_splits_once_better_than_no_split():
    """Two equal features keep a Hoeffding tree waiting for the tie; merit 1 bit beats no test once the bound is < 1."""
    schema = Schema((2, 2), 2, "classification")
    learner = ExtremelyFastDecisionTree(schema, grace_period=1, delta=1e-7, tie_threshold=0.0)
    patient = HoeffdingTree(schema, grace_period=1, delta=1e-7, tie_threshold=0.0)
    n = 0
    while learner.size()["n_nodes"] == 1:
        learner.learn_many([[n % 2, n % 2]], [n % 2])
        n += 1
    assert n == math.ceil(math.log(1e7) / 2.0)
    x = [[i % 2, i % 2] for i in range(1000)]
    patient.learn_many(x, [i % 2 for i in range(1000)])
    assert patient.size()["n_nodes"] == 1


def two_phases(n):
    """Feature 0 is right for 60 instances, then feature 1, and 0 says nothing any more."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (60 + n, 2)).astype(float)
    y = np.concatenate([x[:60, 0], x[60:, 1]])
    return x, y


def test_a_better_test_takes_over():
    x, y = two_phases(600)
    learner = ExtremelyFastDecisionTree(Schema((2, 2), 2, "classification"), grace_period=30, reevaluation_period=50)
    learner.learn_many(x[:60], y[:60])
    assert learner.describe()[0]["feature"] == 0
    learner.learn_many(x[60:], y[60:])
    nodes = learner.describe()
    assert nodes[0]["feature"] == 1
    assert nodes[0]["weight"] == 660.0
    # the new children know what the root had observed, and are rows that had died
    for value, child in nodes[0]["children"].items():
        described = next(node for node in nodes if node["id"] == child)
        assert sum(described["value"]) == (x[:, 1] == value).sum()
    assert len(learner.state().links) <= 7
    check_rows(learner)


def test_a_test_stays_until_it_is_evaluated_again():
    x, y = two_phases(600)
    learner = ExtremelyFastDecisionTree(Schema((2, 2), 2, "classification"), grace_period=30, reevaluation_period=10**6)
    learner.learn_many(x, y)
    assert learner.describe()[0]["feature"] == 0


def test_equal_tests_do_not_take_turns():
    """Two features that are wrong equally often: which is ahead changes, by less than half the tie threshold."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 5000).astype(float)
    x = np.abs(y[:, None] - (rng.random((5000, 2)) < 0.05))
    learner = ExtremelyFastDecisionTree(
        Schema((2, 2), 2, "classification"), reevaluation_period=100, delta=1e-7, tie_threshold=0.2
    )
    tested, ahead = set(), set()
    for i in range(0, 5000, 100):
        learner.learn_many(x[i : i + 100], y[i : i + 100])
        tested.add(learner.describe()[0].get("feature"))
        ahead.add(int(np.argmax((x[: i + 100] == y[: i + 100, None]).sum(axis=0))))
    assert ahead == {0, 1}
    assert len(tested - {None}) == 1


def test_a_threshold_that_became_poor_is_replaced():
    rng = np.random.default_rng(4)
    x = rng.random((12_000, 1))
    y = (x[:, 0] > 0.2).astype(float)
    y[2000:] = x[2000:, 0] > 0.8
    learner = ExtremelyFastDecisionTree(Schema((0,), 2, "classification"))
    learner.learn_many(x[:2000], y[:2000])
    before = learner.describe()[0]["threshold"]
    learner.learn_many(x[2000:], y[2000:])
    after = learner.describe()[0]["threshold"]
    assert before < 0.3
    assert after > 0.5


def test_dead_rows_are_used_again():
    stream = mixed(6000, seed=1, drift=True, missing=0.0)
    learner = tree(stream, reevaluation_period=50)
    died = 0
    for i in range(0, 6000, 50):
        rows = len(learner.state().links)
        learner.learn_many(stream.x[i : i + 50], stream.y[i : i + 50])
        died = max(died, int((learner.state().links[:, TEST] == DEAD).sum()))
        assert len(learner.state().links) >= rows
        check_rows(learner)
    assert died > 2


def test_inner_nodes_go_on_observing():
    stream = mixed(3000, seed=5, missing=0.0)
    learner = tree(stream)
    learner.learn_many(stream.x, stream.y)
    nodes = {node["id"]: node for node in learner.describe()}
    state = learner.state()
    assert len(nodes) > 3
    for node in nodes.values():
        assert state.stats[node["id"], :3].sum() == pytest.approx(state.leaf[node["id"], SEEN])
        if "feature" in node:
            children = node["children"]
            children = children.values() if isinstance(children, dict) else children
            assert sum(nodes[child]["weight"] for child in children) <= node["weight"]


@pytest.mark.parametrize(("name", "value"), [("reevaluation_period", 0), ("delta", 0.0), ("max_nodes", 0)])
def test_parameters_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"parameter '{name}' of model 'extremely-fast-decision-tree'"):
        ExtremelyFastDecisionTree(Schema((0,), 2, "classification"), **{name: value})


def test_classification_only():
    with pytest.raises(ValueError, match="classification"):
        ExtremelyFastDecisionTree(Schema((0,), 1, "regression"))
