"""What the tests of Hoeffding trees have in common, and those of trees whose subtrees come and go (`check_…`)."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import LEARN, Schema
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
from tests.models.streams_of_instances import cut, interleave, mixed, same, snapshot

WORLDS = [
    {"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3},
    {"n_values": (0, 0), "n_classes": 2, "missing": 0.0},
    {"n_values": (4, 2, 6), "n_classes": 4, "weights": "fractions"},
    {"n_values": (0, 3, 0), "n_classes": 2, "missing": 0.3, "weights": "whole"},
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


def play(twin, program, x):
    """A twin's predictions, one row each."""
    out = np.zeros((len(x), twin.n_classes))
    for op, r, y, w in zip(*program, strict=True):
        if op == LEARN:
            twin.learn(x[r].tolist(), y, w)
        else:
            out[r] = twin.predict(x[r].tolist())
    return out


def cuts_and_snapshots(tree, sizes, modes, made=mixed):
    """A test that neither cuts of a program nor snapshots between them change anything. tree : (stream, **mode). made :
    makes a stream."""

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32 - 1),
        n=st.sampled_from(sizes),
        cuts=st.lists(st.floats(0.0, 1.0), max_size=4),
        delay=st.integers(0, 30),
        mode=st.sampled_from(modes),
        weights=st.sampled_from(["one", "fractions"]),
    )
    def test(seed, n, cuts, delay, mode, weights):
        stream = made(n, seed, weights=weights)
        program = interleave(stream, delay)
        whole, out = tree(stream, **mode), np.zeros((n, stream.schema.n_outputs))
        whole.run(program, stream.x, out)
        pieces, learner = np.zeros_like(out), tree(stream, **mode)
        places = [0, *sorted(int(c * len(program.op)) for c in cuts), len(program.op)]
        for start, stop in pairwise(places):
            learner.run(cut(program, start, stop), stream.x, pieces)
            saved = snapshot(learner)
            learner.predict_many(stream.x)
            learner = tree(stream, **mode)
            learner.restore(saved)
            assert same(snapshot(learner), saved)
        assert pieces.tobytes() == out.tobytes()
        assert same(snapshot(learner), snapshot(whole))
        assert learner.describe() == whole.describe()

    return test


def growing(tree, sizes, modes, made=mixed):
    """A test that a tree whose schema grows equals one that had the room from the beginning."""

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32 - 1),
        n=st.sampled_from(sizes),
        at=st.floats(0.0, 1.0),
        mode=st.sampled_from(modes),
        more=st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 2)),
    )
    def test(seed, n, at, mode, more):
        stream = made(n, seed)
        program, task = interleave(stream, delay=3), stream.schema.task
        at, k = int(at * len(program.op)), stream.schema.n_outputs
        larger = Schema((0, 3 + more[0], 0, 5 + more[1], 0, 2), k + more[2] * (task == "classification"), task)
        growing, roomy = tree(stream, **mode), tree(stream._replace(schema=larger), **mode)
        small, (large, out) = np.zeros((n, k)), np.zeros((2, n, larger.n_outputs))
        growing.run(cut(program, 0, at), stream.x, small)
        growing.resize(larger)
        assert growing.schema == larger
        out[:, :k] = small
        growing.run(cut(program, at, len(program.op)), stream.x, out)
        roomy.run(program, stream.x, large)
        assert out.tobytes() == large.tobytes()
        assert same(snapshot(growing), snapshot(roomy))

    return test


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
    for a, b in zip(ours, theirs, strict=True):
        exact = {"value"} if "feature" in a else set()
        assert {k: v for k, v in a.items() if k not in exact} == {k: v for k, v in b.items() if k not in exact}
        assert a["value"] == pytest.approx(b["value"], rel=1e-12)
    rows = [node["id"] for node in described]
    for row, node in zip(learner.state().leaf[rows].tolist(), twin.nodes, strict=True):
        assert row == [node.seen, node.evaluated, node.mc_correct, node.nb_correct]


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
