"""The Hoeffding tree against its naive twin, by hand, and by its invariants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import LEARN, Program, Schema
from riparian.models.hoeffding.nodes import BLOCK, PARENT, SEEN, TEST
from riparian.models.hoeffding.tree import HoeffdingTree
from tests.models.hoeffding_trees import ANYWHERE, PARAMETERS, WORLDS, cuts_and_snapshots, growing, play
from tests.models.naive_hoeffding import HoeffdingTreeTwin
from tests.models.streams_of_instances import interleave, mixed, run_learns, same, snapshot

# Grows a tree of some ten nodes in a few hundred instances.
EAGER = {"grace_period": 20, "delta": 0.1, "tie_threshold": 0.4}


def tree(stream, **parameters):
    return HoeffdingTree(stream.schema, **{**EAGER, **parameters})


def twin(stream, **parameters):
    everything = {**HoeffdingTree(stream.schema).parameters(), **EAGER, **parameters}
    return HoeffdingTreeTwin(stream.schema.n_values, stream.schema.n_outputs, **everything)


def check_equal(learner, other):
    """Structure, tests and leaves exactly; sums over leaves up to rounding."""
    ours, theirs = learner.describe(), other.describe()
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        exact = {"weight", "value"} if "feature" in a else set()
        assert {k: v for k, v in a.items() if k not in exact} == {k: v for k, v in b.items() if k not in exact}
        assert a["weight"] == pytest.approx(b["weight"], rel=1e-12)
        assert a["value"] == pytest.approx(b["value"], rel=1e-12)
    state = learner.state()
    for row, node in zip(state.leaf.tolist(), other.nodes, strict=True):
        assert row == [node.seen, node.evaluated, node.mc_correct, node.nb_correct, node.unobserved][: len(row)]


def check_invariants(learner, weight):
    """Links agree, every block has one owner, nothing leaks, no number is beyond what is used, bounds are kept."""
    state = learner.state()
    links, leaves = state.links, state.links[:, TEST] < 0
    size = learner.size()
    assert size["n_nodes"] == len(links) <= learner.parameters()["max_nodes"]
    assert size["n_leaves"] == leaves.sum()
    assert size["depth"] == max(node["depth"] for node in learner.describe())
    blocks = links[leaves, BLOCK]
    assert sorted(blocks[blocks >= 0]) == list(range(len(state.stats)))
    bounds = learner.parameters()
    assert size["n_leaves"] <= (bounds["max_leaves"] or np.inf)
    assert len(state.stats) == min(size["n_leaves"], bounds["max_active_leaves"] or np.inf)
    assert np.all(links[~leaves, BLOCK] == -1)
    assert np.all(links[1:, PARENT] < np.arange(1, len(links)))
    assert state.leaf[:, SEEN].sum() == pytest.approx(weight, rel=1e-9)
    assert learner.describe()[0]["weight"] == pytest.approx(weight, rel=1e-9)
    assert np.all(state.weights >= 0.0)
    nodes = {node["id"]: node for node in learner.describe()}
    for node in nodes.values():
        if "feature" in node:
            children = node["children"]
            children = children if isinstance(children, list) else list(children.values())
            assert node["default"] in children
            assert len(set(children)) == len(children) >= 2
            assert all(nodes[child]["parent"] == node["id"] for child in children)
            assert all(nodes[child]["depth"] == node["depth"] + 1 for child in children)
            own = state.leaf[node["id"], SEEN]
            assert node["weight"] == pytest.approx(own + sum(nodes[c]["weight"] for c in children))
    # A block holds what its leaf saw, feature by feature, unless values were missing.
    for node in np.flatnonzero(links[:, BLOCK] >= 0):
        first = state.stats[links[node, BLOCK], : learner.schema.n_outputs]
        assert first.sum() <= state.leaf[node, SEEN] * (1 + 1e-9) + 1e-9


# Instances: hypothesis likes small numbers, of which no tree grows.
SIZES = [250, 400, 100, 300, 30, 1]
MODES = [
    {},
    {"leaf_prediction": "mc"},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"split_criterion": "gini"},
    {"split_criterion": "gini", "binary_splits": True, "leaf_prediction": "mc"},
    {"max_nodes": 9},
    {"max_depth": 2, "n_split_points": 3, "min_branch_fraction": 0.2},
    {"delta": 1e-7, "tie_threshold": 0.0},
    {"observer": "histogram", "n_bins": 8},
    {"observer": "histogram", "n_bins": 3, "split_criterion": "hellinger", "max_leaves": 6},
    {"split_criterion": "hellinger", "binary_splits": True, "leaf_prediction": "mc", "max_active_leaves": 1},
    {"observer": "histogram", "n_bins": 40, "max_active_leaves": 3},
    {"max_active_leaves": 4, "grace_period": 8},
]


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: str(w["n_values"]))
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_equals_twin(world, mode):
    delay = 5 * (WORLDS.index(world) % 2)  # the labels of every other world come late
    stream = mixed(900, seed=3, **world)
    program = interleave(stream, delay)
    learner, other = tree(stream, **mode), twin(stream, **mode)
    out = np.zeros((len(stream.y), stream.schema.n_outputs))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_invariants(learner, stream.w.sum())
    if mode in ({}, {"leaf_prediction": "mc"}):
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.sampled_from(SIZES),
    parameters=st.fixed_dictionaries(
        {
            **PARAMETERS,
            "observer": st.sampled_from(["gaussian", "histogram"]),
            "n_bins": st.sampled_from([3, 5, 20, 300]),
            "max_leaves": st.sampled_from([None, None, None, 1, 4]),
            "max_active_leaves": st.sampled_from([None, None, 1, 2, 5]),
        }
    ),
    **ANYWHERE,
)
def test_equals_twin_anywhere(seed, n, n_values, n_classes, missing, weights, delay, parameters):
    stream = mixed(n, seed, n_values=n_values, n_classes=n_classes, missing=missing, weights=weights)
    program = interleave(stream, delay)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    out = np.zeros((n, n_classes))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_invariants(learner, stream.w.sum())


test_cuts_and_snapshots_do_not_matter = cuts_and_snapshots(tree, SIZES, MODES)
test_growing_equals_having_had_the_room = growing(tree, SIZES, MODES)


def test_the_bound_decides():
    """One separating feature: merit 1 bit, second best 0; the leaf splits once sqrt(log(1 / delta) / 2n) < 1."""
    for delta in (1e-3, 1e-7, 1e-20):
        learner = HoeffdingTree(Schema((2,), 2, "classification"), grace_period=1, delta=delta, tie_threshold=0.0)
        n = 0
        while learner.size()["n_nodes"] == 1:
            learner.learn_many([[n % 2]], [n % 2])
            n += 1
        assert n == math.ceil(math.log(1.0 / delta) / 2.0)


def grown(binary=False):
    """A root that tests nominal feature 0, of which values 0 (light) and 2 (heavy) were seen."""
    learner = HoeffdingTree(
        Schema((5, 0), 2, "classification"), grace_period=30, binary_splits=binary, leaf_prediction="mc"
    )
    learner.learn_many([[0, 0.0]] * 10 + [[2, 0.0]] * 20, [0] * 10 + [1] * 20)
    assert learner.size() == {"n_nodes": 3, "n_leaves": 2, "depth": 1}
    return learner


def test_maps_of_values_move_and_leave_zeros():
    n = 40
    learner = HoeffdingTree(Schema((n,), 2, "classification"), grace_period=30, leaf_prediction="mc")
    learner.learn_many([[0]] * 10 + [[1]] * 20, [0] * 10 + [1] * 20)
    for value in range(2, n):
        learner.learn_many([[value]], [value % 2])
    learner.learn_many([[0]], [0])
    assert learner.size()["n_nodes"] == n + 1
    assert learner.describe()[0]["children"] == {value: value + 1 for value in range(n)}
    assert learner.predict_many([[v] for v in range(2, n)])[:, 0].tolist() == [1.0, 0.0] * (n // 2 - 1)
    # Maps of 2, 4, 8, 16, 32 and 64 places: all but the last one are left behind, zeroed.
    assert learner.state().child_of_value.tolist() == [0] * 62 + list(range(1, n + 1)) + [-1] * (64 - n)


def test_codes_beyond_the_capacity_are_missing():
    for binary in (False, True):
        learner = grown(binary)
        for value in (-1.0, 5.0, 1e9, np.inf):
            run_learns(learner, np.array([[value, 0.0]]), [0.0])
        assert learner.size()["n_nodes"] == 3
        check_invariants(learner, 34.0)


def test_labels_and_weights_that_teach_nothing():
    learner = grown()
    before = snapshot(learner)
    for y, w in ((np.nan, 1.0), (-1.0, 1.0), (2.0, 1.0), (0.0, 0.0), (0.0, -1.0), (0.0, np.nan), (0.0, np.inf)):
        run_learns(learner, np.array([[4, 0.0]]), [y], [w])
    assert same(snapshot(learner), before)


def test_cold_leaves_keep_their_bytes():
    """Learning in one leaf changes no other's row: what a checkpoint cuts into chunks stays the same."""
    stream = mixed(2000, seed=5, missing=0.0)
    learner = tree(stream, max_nodes=20)
    learner.learn_many(stream.x, stream.y)
    before = snapshot(learner)
    learner.learn_many(stream.x[:1], stream.y[:1])
    after = snapshot(learner)
    for name in ("stats", "leaf", "weights"):
        assert np.any(before[name] != after[name], axis=1).sum() == 1
    for name in ("links", "test", "child_of_value", "values", "n_values"):
        assert before[name].tobytes() == after[name].tobytes()


def test_repeated_rows_do_not_reuse_an_old_score():
    """Predict r, learn s, learn r: the second label meets another state than the prediction did."""
    stream = mixed(300, seed=7)
    steps = []
    for i in range(0, 300, 2):
        steps += [(0, i), (1, i + 1), (1, i), (1, i)]
    op, row = (np.array(column) for column in zip(*steps, strict=True))
    y = np.where(op == LEARN, stream.y[row], np.nan)
    program = Program(op.astype(np.int8), row.astype(np.int32), y, np.ones(len(op)))
    learner, other = tree(stream), twin(stream)
    out = np.zeros((300, 3))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
