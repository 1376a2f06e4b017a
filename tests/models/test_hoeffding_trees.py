"""Trees that split by the Hoeffding bound against their naive twins, by hand, and by their invariants: the tree itself,
the extremely fast one, and the adaptive one, whose windows are compared with ADWIN."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.checks import run_learns, snapshot
from riparian.models.contract import LEARN, Program, Schema
from riparian.models.hoeffding import nodes as plain
from riparian.models.hoeffding.adaptation.error_window import (
    BUCKETS,
    ERRORS,
    MAX_BUCKETS,
    RANKS,
    ROW,
    STEP,
    WIDTH,
    add_error,
    cut,
)
from riparian.models.hoeffding.extremely_fast_decision_tree import ExtremelyFastDecisionTree
from riparian.models.hoeffding.hoeffding_adaptive_tree import HoeffdingAdaptiveTree
from riparian.models.hoeffding.hoeffding_tree import HoeffdingTree
from riparian.models.hoeffding.mutable_tree import (
    ALTERNATE,
    DEAD,
    FIRST_DEAD,
    MAP,
    N_MAP,
    N_MAPPED,
    N_NODES,
    PARENT,
    TEST,
)
from riparian.models.streams.generators import agrawal
from tests.models.naive_drift import NaiveAdwin
from tests.models.naive_efdt import EfdtTwin
from tests.models.naive_hat import HatTwin
from tests.models.naive_hoeffding import HoeffdingTreeTwin
from tests.models.streams_of_instances import Stream, in_pieces, interleave, mixed, played

# Grow trees of some ten nodes in a few hundred instances, which think again, and doubt them soon.
PLAIN = {"grace_period": 20, "delta": 0.1, "tie_threshold": 0.4}
FAST = {"grace_period": 20, "reevaluation_period": 30, "delta": 0.3, "tie_threshold": 0.3}
ADAPTIVE = {
    "grace_period": 20,
    "delta": 0.3,
    "tie_threshold": 0.3,
    "drift_delta": 0.5,
    "switch_delta": 0.9,
    "least_window": 20,
}
KINDS = {
    HoeffdingTree: (HoeffdingTreeTwin, PLAIN),
    ExtremelyFastDecisionTree: (EfdtTwin, FAST),
    HoeffdingAdaptiveTree: (partial(HatTwin, seed=7), ADAPTIVE),
}
WORLDS = [
    {"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3},
    {"n_values": (0, 0), "n_classes": 2, "missing": 0.0},
    {"n_values": (4, 2, 6), "n_classes": 4, "weights": "fractions"},
    {"n_values": (0, 3, 0), "n_classes": 2, "missing": 0.3, "weights": "whole"},
]
MODES = {
    HoeffdingTree: [
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
    ],
    ExtremelyFastDecisionTree: [
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
    ],
    HoeffdingAdaptiveTree: [
        {},
        {"leaf_prediction": "mc", "early_prediction": False},
        {"leaf_prediction": "nb", "binary_splits": True},
        {"bootstrap": True},
        {"split_criterion": "gini", "binary_splits": True, "leaf_prediction": "mc"},
        {"split_criterion": "hellinger"},
        {"max_nodes": 12},
        {"max_depth": 2, "n_split_points": 3, "min_branch_fraction": 0.2},
        {"alternate_trees": False},
    ],
}
# Each way of growing in one world, and the usual one in all.
CASES = [
    (kind, mode, WORLDS[(i + 3) % 4])
    for kind, modes in MODES.items()
    for i, mode in enumerate([{}, {}, {}, *modes], start=-3)
]
ANYWHERE = {
    "seed": st.integers(0, 2**32 - 1),
    "n_values": st.lists(st.sampled_from([0, 0, 2, 3, 7]), min_size=1, max_size=4),
    "n_classes": st.integers(2, 4),
    "missing": st.sampled_from([0.0, 0.2, 0.8]),
    "weights": st.sampled_from(["one", "whole", "fractions"]),
    "delay": st.sampled_from([0, 0, 1, 20]),
}
PARAMETERS = {
    "grace_period": st.sampled_from([1, 10, 30]),
    "delta": st.sampled_from([0.9, 0.5, 1e-7]),
    "tie_threshold": st.sampled_from([0.5, 5.0, 0.0]),
    "split_criterion": st.sampled_from(["info-gain", "gini", "hellinger"]),
    "leaf_prediction": st.sampled_from(["mc", "nb", "nba"]),
    "n_split_points": st.integers(1, 12),
    "binary_splits": st.booleans(),
    "min_branch_fraction": st.sampled_from([0.0, 0.01, 0.3]),
    "max_nodes": st.sampled_from([10_000, 10_000, 10_000, 7, 2]),
    "max_depth": st.sampled_from([None, None, None, 1, 3]),
}
MORE = {
    HoeffdingTree: {
        "observer": st.sampled_from(["gaussian", "histogram"]),
        "n_bins": st.sampled_from([3, 5, 20, 300]),
        "max_leaves": st.sampled_from([None, None, None, 1, 4]),
        "max_active_leaves": st.sampled_from([None, None, 1, 2, 5]),
    },
    ExtremelyFastDecisionTree: {
        "reevaluation_period": st.sampled_from([1, 10, 50]),
        "observer": st.sampled_from(["gaussian", "histogram"]),
        "n_bins": st.sampled_from([3, 5, 20]),
    },
    HoeffdingAdaptiveTree: {
        "alternate_trees": st.sampled_from([True, True, True, False]),
        "drift_delta": st.sampled_from([0.9, 0.3, 0.002]),
        "switch_delta": st.sampled_from([1.0, 0.05]),
        "least_window": st.sampled_from([1, 15, 60]),
        "early_prediction": st.booleans(),
        "bootstrap": st.booleans(),
    },
}


def tree(kind, stream, **parameters):
    return kind(stream.schema, seed=7, **{**KINDS[kind][1], **parameters})


def twin(kind, stream, **parameters):
    made, eager = KINDS[kind]
    everything = {**kind(stream.schema).parameters(), **eager, **parameters}
    return made(stream.schema.n_values, stream.schema.n_outputs, **everything)


def compare(kind, stream, delay=0, other=None, **parameters):
    program = interleave(stream, delay)
    other = other or twin(kind, stream, **parameters)
    learner, out = in_pieces(lambda: tree(kind, stream, **parameters), program, stream.x)
    assert out.tolist() == played(other, program, stream.x, stream.schema.n_outputs).tolist()
    check_equal(learner, other)
    if kind is HoeffdingTree:
        check_plain_rows(learner, stream.w.sum())
    else:
        check_rows(learner)
    if kind is ExtremelyFastDecisionTree:
        assert learner.describe()[0]["weight"] == pytest.approx(stream.w.sum(), rel=1e-9)
    if kind is HoeffdingAdaptiveTree:
        check_windows(learner)
    return learner


def renumbered(nodes):
    """The nodes with ids that count from the root on."""
    ids = {node["id"]: i for i, node in enumerate(nodes)} | {None: None}
    result = []
    for node in nodes:
        other = node | {"id": ids[node["id"]], "parent": ids[node["parent"]]}
        if "alternate" in node:
            other["alternate"] = ids[node["alternate"]]
        if "feature" in node:
            children = node["children"]
            other["default"] = ids[node["default"]]
            other["children"] = (
                {value: ids[child] for value, child in children.items()}
                if isinstance(children, dict)
                else [ids[child] for child in children]
            )
        result.append(other)
    return result


def check_equal(learner, twin):
    """Structure, tests and leaves exactly; sums over leaves up to rounding."""
    described = learner.describe()
    ours, theirs = renumbered(described), twin.describe()
    assert len(ours) == len(theirs)
    rounded = {"value", "weight"} if isinstance(learner, HoeffdingTree) else {"value"}
    for a, b in zip(ours, theirs, strict=True):
        about = rounded if "feature" in a else set()
        assert {k: v for k, v in a.items() if k not in about} == {k: v for k, v in b.items() if k not in about}
        assert [*a["value"], a["weight"]] == pytest.approx([*b["value"], b["weight"]], rel=1e-12)
    rows = [node["id"] for node in described]
    for row, node in zip(learner.state().leaf[rows].tolist(), twin.nodes, strict=True):
        assert row == [node.seen, node.evaluated, node.mc_correct, node.nb_correct, node.unobserved][: len(row)]


def test_values_that_a_test_has_not_seen_get_branches_up_to_the_bound_on_leaves():
    learner = HoeffdingTree(Schema((5,), 2, "classification"), grace_period=50, max_leaves=3)
    for values in ([0.0, 1.0], [2.0, 3.0, 4.0]):
        x = np.repeat(values, 100)[:, None]
        learner.learn_many(x, x[:, 0] % 2)
    assert learner.size()["n_leaves"] == 3


def check_plain_rows(learner, weight):
    """Every block has one owner, nothing leaks, no number is beyond what is used, bounds are kept."""
    state, size, bounds = learner.state(), learner.size(), learner.parameters()
    links, leaves = state.links, state.links[:, plain.TEST] < 0
    assert size["n_nodes"] == len(links) <= bounds["max_nodes"]
    assert size["n_leaves"] == leaves.sum() <= (bounds["max_leaves"] or np.inf)
    assert size["depth"] == max(node["depth"] for node in learner.describe())
    blocks = links[leaves, plain.BLOCK]
    assert sorted(blocks[blocks >= 0]) == list(range(len(state.stats)))
    assert len(state.stats) == min(size["n_leaves"], bounds["max_active_leaves"] or np.inf)
    assert np.all(links[~leaves, plain.BLOCK] == -1)
    assert np.all(links[1:, plain.PARENT] < np.arange(1, len(links)))
    assert state.leaf[:, plain.SEEN].sum() == pytest.approx(weight, rel=1e-9)
    assert learner.describe()[0]["weight"] == pytest.approx(weight, rel=1e-9)
    assert np.all(state.weights >= 0.0)
    # A block holds what its leaf saw, feature by feature, unless values were missing.
    for node in np.flatnonzero(links[:, plain.BLOCK] >= 0):
        first = state.stats[links[node, plain.BLOCK], : learner.schema.n_outputs]
        assert first.sum() <= state.leaf[node, plain.SEEN] * (1 + 1e-9) + 1e-9


def check_rows(learner):
    """Every row lives, reached once, or is dead, zero and chained once; maps are packed."""
    state = learner.state()
    links, counts = state.links, state.counts
    reached, frontier = [], [0]
    assert links[0, PARENT] == -1
    while frontier:
        row = frontier.pop()
        reached.append(row)
        children = state.child_of_value[links[row, MAP] : links[row, MAP] + links[row, N_MAP]]
        below = [int(child) for child in children if child >= 0]
        assert bool(below) == (links[row, TEST] >= 0)
        if links[row, ALTERNATE] >= 0:
            below.append(int(links[row, ALTERNATE]))
        assert all(links[child, PARENT] == row for child in below)
        frontier += below
    dead, row = [], int(counts[FIRST_DEAD])
    while row >= 0:
        dead.append(row)
        row = int(links[row, PARENT])
    assert sorted(reached + dead) == list(range(len(links)))
    assert counts[N_NODES] == len(reached) <= learner.parameters()["max_nodes"]
    assert np.all(links[dead, TEST] == DEAD)
    for array in (state.test, state.weights, state.leaf, state.stats):
        assert not np.any(array[dead])
    assert counts[N_MAPPED] == len(state.child_of_value)
    mapped = links[:, N_MAP].sum()
    assert mapped <= counts[N_MAPPED] <= 2 * mapped  # maps that moved leave less behind than they are
    assert np.all(state.weights >= 0.0)


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


@pytest.mark.parametrize(("kind", "mode", "world"), CASES, ids=str)
def test_equals_twin(kind, mode, world):
    # The labels of every other world come late.
    learner = compare(kind, mixed(600, seed=3, **world), 5 * (WORLDS.index(world) % 2), **mode)
    if mode == {}:
        assert learner.size()["n_nodes"] > 5  # or else the test sees little


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from([*KINDS]),
    n=st.sampled_from([250, 400, 100, 300, 30, 1]),  # hypothesis likes small numbers, of which no tree grows
    parameters=st.fixed_dictionaries(PARAMETERS),
    data=st.data(),
    **ANYWHERE,
)
def test_equals_twin_anywhere(kind, seed, n, n_values, n_classes, missing, weights, delay, parameters, data):
    stream = mixed(n, seed, n_values=n_values, n_classes=n_classes, missing=missing, weights=weights)
    compare(kind, stream, delay, **parameters, **data.draw(st.fixed_dictionaries(MORE[kind])))


# the Hoeffding tree --------------------------------------------------------------------------------------------------


def test_the_bound_decides():
    """One separating feature: merit 1 bit, second best 0; the leaf splits once sqrt(log(1 / delta) / 2n) < 1."""
    for delta in (1e-3, 1e-7, 1e-20):
        learner = HoeffdingTree(Schema((2,), 2, "classification"), grace_period=1, delta=delta, tie_threshold=0.0)
        n = 0
        while learner.size()["n_nodes"] == 1:
            learner.learn_many([[n % 2]], [n % 2])
            n += 1
        assert n == math.ceil(math.log(1.0 / delta) / 2.0)


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


@pytest.mark.parametrize("binary", [False, True])
def test_codes_beyond_the_capacity_are_missing(binary):
    """A root that tests feature 0, of which values 0 (light) and 2 (heavy) were seen."""
    learner = HoeffdingTree(
        Schema((5, 0), 2, "classification"), grace_period=30, binary_splits=binary, leaf_prediction="mc"
    )
    learner.learn_many([[0, 0.0]] * 10 + [[2, 0.0]] * 20, [0] * 10 + [1] * 20)
    assert learner.size() == {"n_nodes": 3, "n_leaves": 2, "depth": 1}
    for value in (-1.0, 5.0, 1e9, np.inf):
        run_learns(learner, np.array([[value, 0.0]]), [0.0])
    assert learner.size()["n_nodes"] == 3
    check_plain_rows(learner, 34.0)


def test_cold_leaves_keep_their_bytes():
    """Learning in one leaf changes no other's row: what a checkpoint cuts into chunks stays the same."""
    stream = mixed(2000, seed=5, missing=0.0)
    learner = tree(HoeffdingTree, stream, max_nodes=20)
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
    learner, other = tree(HoeffdingTree, stream), twin(HoeffdingTree, stream)
    out = np.zeros((300, 3))
    learner.run(program, stream.x, out)
    assert out.tolist() == played(other, program, stream.x, 3).tolist()
    check_equal(learner, other)


# the extremely fast decision tree ------------------------------------------------------------------------------------


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


# the adaptive tree ---------------------------------------------------------------------------------------------------


def turning(n, seed):
    """Agrawal's functions, another one every quarter."""
    parts = [agrawal.source(seed, function=function).take(n // 4) for function in (0, 3, 1, 0)]
    schema = Schema(parts[0].n_values, 2, "classification")
    return Stream(schema, np.vstack([p.x for p in parts]), np.concatenate([p.y for p in parts]), np.ones(n))


def test_everything_happens_and_equals_the_twin():
    """Alternate trees begin, end and take over, also within alternate trees."""
    stream = turning(2400, seed=3)
    growth = {"grace_period": 5, "delta": 0.5, "tie_threshold": 2.0, "leaf_prediction": "mc"}
    parameters = growth | {"drift_delta": 0.9, "switch_delta": 1e-6, "least_window": 60}
    other, seen = twin(HoeffdingAdaptiveTree, stream, **parameters), set()
    for method in (other.plant, other.decide):

        def spied(node, method=method, name=method.__name__):
            nested = is_beside(node)
            had = node.alternate is not None
            result = method(node)
            seen.add((name, nested, had, result, node.alternate is not None))
            return result

        setattr(other, method.__name__, spied)
    compare(HoeffdingAdaptiveTree, stream, other=other, **parameters)
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


@pytest.mark.parametrize("mode", [{}, {"leaf_prediction": "mc", "max_nodes": 9}, {"binary_splits": True}], ids=str)
def test_without_alternate_trees_it_is_a_hoeffding_tree(mode):
    stream = mixed(2000, seed=6)
    program = interleave(stream, delay=2)
    common = {name: ADAPTIVE[name] for name in ("grace_period", "delta", "tie_threshold")} | mode
    plain, ours = np.zeros((2000, 3)), np.zeros((2000, 3))
    HoeffdingTree(stream.schema, **common).run(program, stream.x, plain)
    tree(HoeffdingAdaptiveTree, stream, alternate_trees=False, **mode).run(program, stream.x, ours)
    assert ours.tobytes() == plain.tobytes()


def alternates(nodes):
    return [node["alternate"] for node in nodes if "alternate" in node]


def test_the_bound_leaves_room_for_alternate_trees():
    """A tree that has grown up to the bound adapts nevertheless, and never exceeds it."""
    stream = turning(16_000, seed=3)
    learner = HoeffdingAdaptiveTree(stream.schema, max_nodes=40, tie_threshold=0.5, grace_period=50, drift_delta=0.05)
    took_over, roots = 0, set()
    for i in range(0, 16_000, 200):
        before = alternates(learner.describe())
        learner.learn_many(stream.x[i : i + 200], stream.y[i : i + 200])
        check_rows(learner)  # which looks at max_nodes
        roots.add(learner.describe()[0].get("feature"))
        took_over += len(set(before) - set(alternates(learner.describe())))
    assert took_over > 0
    assert len(roots - {None}) > 1
    assert len(learner.state().links) <= 40


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
