"""Adaptive random forests and streaming random patches against naive twins, and by their invariants."""

import numpy as np
import pytest

from models.contract import LEARN, Schema
from models.hoeffding.subspace_tree import SubspaceTree
from models.hoeffding.tree import HoeffdingTree
from tests.models.naive_forests import SubspaceTreeTwin
from tests.models.streams_of_instances import cut, interleave, mixed, same, snapshot
from tests.models.test_hoeffding_tree import EAGER, check_equal

WORLDS = [
    {"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3},
    {"n_values": (0, 0, 0, 0), "n_classes": 2},
]
TREES = [
    {},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"leaf_prediction": "mc", "split_criterion": "gini", "max_nodes": 15},
    {"observer": "histogram", "n_bins": 8},
    {"max_active_leaves": 3, "grace_period": 8},
]


@pytest.mark.parametrize("parameters", TREES, ids=str)
@pytest.mark.parametrize("world", WORLDS, ids=lambda world: str(len(world["n_values"])))
@pytest.mark.parametrize("per_leaf", [True, False])
@pytest.mark.parametrize("delay", [0, 7])
def test_subspace_tree_equals_twin(world, per_leaf, parameters, delay):
    stream = mixed(900, 3, weights="whole", **world)
    how = {"seed": 5, "n_chosen": 2, "per_leaf": per_leaf}
    everything = {**HoeffdingTree(stream.schema).parameters(), **EAGER, **parameters}
    learner = SubspaceTree(stream.schema, **how, **everything)
    other = SubspaceTreeTwin(stream.schema.n_values, stream.schema.n_outputs, **how, **everything)
    program = interleave(stream, delay)
    out, errors = np.zeros((len(stream.y), stream.schema.n_outputs)), np.full(len(program.op), np.nan)
    for a, b in ((0, 301), (301, 302), (302, len(program.op))):
        learner.run(cut(program, a, b), stream.x, out, errors[a:b])
    for i, (op, r, y, w) in enumerate(zip(*program, strict=True)):
        predicted = other.predict(stream.x[r].tolist())
        if op == LEARN:
            assert errors[i] == (max(predicted) == 0.0 or predicted.index(max(predicted)) != y)
            other.learn(stream.x[r].tolist(), y, w)
        else:
            assert out[r].tolist() == predicted
    check_equal(learner, other)
    assert learner.size()["n_nodes"] > 3
    assert [learner.features(node.id) for node in other.nodes] == [node.chosen for node in other.nodes]
    assert (len({tuple(node.chosen) for node in other.nodes}) > 1) == per_leaf


def test_a_subspace_tree_grows_with_its_schema():
    """Classes and values that are not there yet change nothing, nor does a restart."""
    small, large = Schema((0, 3, 0, 4), 2, "classification"), Schema((0, 5, 0, 9), 4, "classification")
    stream = mixed(1500, 2, n_values=small.n_values, n_classes=2)
    grown, ample = (SubspaceTree(schema, seed=1, n_chosen=2, **EAGER) for schema in (small, large))
    for learner in (grown, ample):
        learner.learn_many(stream.x[:800], stream.y[:800])
    assert grown.size()["n_nodes"] > 5
    grown.resize(large)
    assert same(snapshot(grown), snapshot(ample))
    resumed = SubspaceTree(large, seed=1, n_chosen=2, **EAGER)
    resumed.restore(snapshot(grown))
    for learner in (resumed, ample):
        learner.learn_many(stream.x[800:], stream.y[800:])
    assert same(snapshot(resumed), snapshot(ample))
    assert resumed.predict_many(stream.x).tobytes() == ample.predict_many(stream.x).tobytes()
