"""The extremely fast decision tree against its naive twin, by hand, and by its invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import Schema
from riparian.models.hoeffding.efdt import ExtremelyFastDecisionTree
from riparian.models.hoeffding.tree import HoeffdingTree
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
from tests.models.streams_of_instances import interleave, mixed

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
def test_equals_twin(world, mode):
    delay = 5 * (WORLDS.index(world) % 2)  # the labels of every other world come late
    learner = compare(mixed(900, seed=3, **world), delay, **mode)
    if mode in ({}, {"leaf_prediction": "mc"}):
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=60, deadline=None, derandomize=True)
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
