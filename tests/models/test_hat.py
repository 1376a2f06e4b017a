"""The Hoeffding adaptive tree against its naive twin, by hand, and by its invariants; its window against ADWIN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import Schema
from riparian.models.hoeffding.adaptive import HoeffdingAdaptiveTree
from riparian.models.hoeffding.error_window import BUCKETS, ERRORS, MAX_BUCKETS, RANKS, ROW, STEP, WIDTH, add_error, cut
from riparian.models.hoeffding.mutable_tree import ALTERNATE, DEAD, TEST
from riparian.models.hoeffding.tree import HoeffdingTree
from riparian.models.streams import agrawal
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
from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_hat import HatTwin
from tests.models.streams_of_instances import Stream, interleave, mixed, same, snapshot

# Grows a tree of some ten nodes in a few hundred instances, and doubts it soon.
EAGER = {
    "grace_period": 20,
    "delta": 0.3,
    "tie_threshold": 0.3,
    "drift_delta": 0.5,
    "switch_delta": 0.9,
    "least_window": 20,
}
SIZES = [250, 400, 100, 600, 30, 1]
MODES = [
    {},
    {"leaf_prediction": "mc", "early_prediction": False},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"bootstrap": True},
    {"split_criterion": "gini", "binary_splits": True, "leaf_prediction": "mc"},
    {"split_criterion": "hellinger"},
    {"max_nodes": 12},
    {"max_depth": 2, "n_split_points": 3, "min_branch_fraction": 0.2},
    {"alternate_trees": False},
]


def tree(stream, **parameters):
    return HoeffdingAdaptiveTree(stream.schema, seed=7, **{**EAGER, **parameters})


def twin(stream, **parameters):
    everything = {**HoeffdingAdaptiveTree(stream.schema).parameters(), **EAGER, **parameters}
    return HatTwin(stream.schema.n_values, stream.schema.n_outputs, seed=7, **everything)


def alternates(learner):
    return [node["alternate"] for node in learner.describe() if "alternate" in node]


def check_windows(learner):
    """Windows add up, and are where they are needed."""
    state = learner.state()
    dead = state.links[:, TEST] == DEAD
    assert not np.any(state.windows[dead])
    watched = (state.links[:, TEST] >= 0) | np.isin(np.arange(len(dead)), state.links[~dead, ALTERNATE])
    assert not np.any(state.windows[~watched])
    ranks = state.windows[:, BUCKETS:].reshape(-1, RANKS, STEP)
    assert np.all(ranks[:, :, 0] <= MAX_BUCKETS)
    assert (ranks[:, :, 0] * 2 ** np.arange(RANKS)).sum(axis=1).tolist() == state.windows[:, WIDTH].tolist()
    assert ranks[:, :, 1:].sum(axis=(1, 2)).tolist() == state.windows[:, ERRORS].tolist()


def compare(stream, delay=0, **parameters):
    program = interleave(stream, delay)
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    out = np.zeros((len(stream.y), stream.schema.n_outputs))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_rows(learner)
    check_windows(learner)
    return learner


@pytest.mark.parametrize("world", WORLDS, ids=lambda w: str(w["n_values"]))
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_equals_twin(world, mode):
    learner = compare(mixed(900, seed=3, **world), delay=5 * (mode == {}), **mode)
    if mode in ({}, {"bootstrap": True}):
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    n=st.sampled_from(SIZES),
    parameters=st.fixed_dictionaries(
        {
            **PARAMETERS,
            "alternate_trees": st.sampled_from([True, True, True, False]),
            "drift_delta": st.sampled_from([0.9, 0.3, 0.002]),
            "switch_delta": st.sampled_from([1.0, 0.05]),
            "least_window": st.sampled_from([1, 15, 60]),
            "early_prediction": st.booleans(),
            "bootstrap": st.booleans(),
        }
    ),
    **ANYWHERE,
)
def test_equals_twin_anywhere(seed, n, n_values, n_classes, missing, weights, delay, parameters):
    stream = mixed(n, seed, n_values=n_values, n_classes=n_classes, missing=missing, weights=weights)
    compare(stream, delay, **parameters)


def turning(n, seed):
    """Agrawal's functions, another one every quarter."""
    parts = [agrawal.source(seed, function=function).take(n // 4) for function in (0, 3, 1, 0)]
    schema = Schema(parts[0].n_values, 2, "classification")
    return Stream(schema, np.vstack([p.x for p in parts]), np.concatenate([p.y for p in parts]), np.ones(n))


def test_everything_happens_and_equals_the_twin():
    """Alternate trees begin, end and take over, also within alternate trees."""
    stream = turning(6000, seed=15)
    growth = {"grace_period": 5, "delta": 0.5, "tie_threshold": 2.0, "leaf_prediction": "mc"}
    parameters = growth | {"drift_delta": 0.9, "switch_delta": 1e-6, "least_window": 200}
    learner, other = tree(stream, **parameters), twin(stream, **parameters)
    seen = set()
    for method in (other.plant, other.decide):

        def spied(node, method=method, name=method.__name__):
            nested = is_beside(node)
            had = node.alternate is not None
            result = method(node)
            seen.add((name, nested, had, result, node.alternate is not None))
            return result

        setattr(other, method.__name__, spied)
    program = interleave(stream)
    out = np.zeros((6000, 2))
    learner.run(program, stream.x, out)
    assert out.tolist() == play(other, program, stream.x).tolist()
    check_equal(learner, other)
    check_rows(learner)
    for nested in (False, True):
        assert ("plant", nested, False, None, True) in seen
        assert ("decide", nested, True, False, False) in seen  # it ended
    assert ("plant", False, True, None, True) in seen  # another one in its place
    assert ("decide", False, True, True, False) in seen  # it took over


def is_beside(node):
    """Whether a node belongs to an alternate tree."""
    while node.parent is not None and node.parent.alternate is not node:
        node = node.parent
    return node.parent is not None


test_cuts_and_snapshots_do_not_matter = cuts_and_snapshots(tree, SIZES, MODES)
test_growing_equals_having_had_the_room = growing(tree, SIZES, MODES)


@pytest.mark.parametrize("mode", [{}, {"leaf_prediction": "mc", "max_nodes": 9}, {"binary_splits": True}], ids=str)
def test_without_alternate_trees_it_is_a_hoeffding_tree(mode):
    stream = mixed(2000, seed=6)
    program = interleave(stream, delay=2)
    common = {name: EAGER[name] for name in ("grace_period", "delta", "tie_threshold")} | mode
    plain, ours = np.zeros((2000, 3)), np.zeros((2000, 3))
    HoeffdingTree(stream.schema, **common).run(program, stream.x, plain)
    tree(stream, alternate_trees=False, **mode).run(program, stream.x, ours)
    assert ours.tobytes() == plain.tobytes()


def test_the_bound_leaves_room_for_alternate_trees():
    """A tree that has grown up to the bound adapts nevertheless, and never exceeds it."""
    stream = turning(16_000, seed=3)
    learner = HoeffdingAdaptiveTree(stream.schema, max_nodes=40, tie_threshold=0.5, grace_period=50, drift_delta=0.05)
    took_over, roots = 0, set()
    for i in range(0, 16_000, 200):
        before = alternates(learner)
        learner.learn_many(stream.x[i : i + 200], stream.y[i : i + 200])
        check_rows(learner)  # which looks at max_nodes
        roots.add(learner.describe()[0].get("feature"))
        took_over += len(set(before) - set(alternates(learner)))
    assert took_over > 0
    assert len(roots - {None}) > 1
    assert len(learner.state().links) <= 40


def test_weights_drawn_depend_on_the_seed_only():
    stream = mixed(1500, seed=2)
    states = []
    for seed in (1, 1, 2):
        learner = HoeffdingAdaptiveTree(stream.schema, seed=seed, bootstrap=True)
        learner.learn_many(stream.x, stream.y)
        states.append(snapshot(learner))
    assert same(states[0], states[1])
    assert not same(states[0], states[2])


@pytest.mark.parametrize("delta", [0.002, 0.5])
def test_the_window_is_adwins(delta):
    rng = np.random.default_rng(5)
    window, other, cuts = np.zeros(ROW, np.int32), NaiveAdwin(delta), 0
    for share in (0.2, 0.6, 0.6, 0.1, 0.0, 1.0):
        for error in (rng.random(700) < share).astype(int).tolist():
            found = bool(add_error(window, error) and cut(window, delta))
            assert found == (other.update(error) == 2)
            cuts += found
            assert window[WIDTH] == len(other.values)
            assert window[ERRORS] == sum(other.values)
    assert cuts > 3


def test_a_window_that_is_full_forgets():
    window = np.zeros(ROW, np.int32)
    for rank in range(RANKS):
        at = BUCKETS + rank * STEP
        window[at] = MAX_BUCKETS
        window[at + 1 : at + 1 + MAX_BUCKETS] = 1
    full = MAX_BUCKETS * (2**RANKS - 1)
    window[[WIDTH, ERRORS, 3]] = full, MAX_BUCKETS * RANKS, RANKS - 1
    add_error(window, 1)
    assert window[WIDTH] == full + 1 - 2 ** (RANKS - 1)
    ranks = window[BUCKETS:].reshape(RANKS, STEP)
    assert ranks[:, 0].tolist() == [MAX_BUCKETS - 1] * (RANKS - 1) + [MAX_BUCKETS]
    assert ranks[:, 1:].sum() == window[ERRORS] == MAX_BUCKETS * RANKS
