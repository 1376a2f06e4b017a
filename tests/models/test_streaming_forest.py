"""Streaming decision trees and forests against their plain twin, and what must hold of them."""

from itertools import pairwise

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.streaming_forest.false_roots import NODES, LabelWindow, sort_in
from riparian.models.streaming_forest.node_tests import sort_values
from tests.models.naive_streaming_forest import NaiveForest
from tests.models.streams_of_instances import Stream, in_pieces, interleave, played

N_VALUES = (0, 0, 4, 0, 3)
SCHEMA = Schema(N_VALUES, 3, "classification")
FOREST, TREE = "streaming-decision-forest", "streaming-decision-tree"


def stream(n, seed=3, missing=0.05):
    """x on a coarse grid, so that values tie; the concept changes half way."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=(n, 5)), 1)
    x[:, 2], x[:, 4] = rng.integers(0, 4, n), rng.integers(0, 3, n)
    x[rng.random(x.shape) < missing] = np.nan
    turn = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    signal = np.nan_to_num(x[:, 0]) + (x[:, 2] == 1) - turn * np.nan_to_num(x[:, 3])
    return x, np.digitize(signal + 0.2 * rng.normal(size=n), [-0.5, 0.7]).astype(float)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (TREE, {"batch_size": 20, "window": 0}),
        (TREE, {"batch_size": 20, "window": 0, "leaf_values": "overwrite"}),
        (TREE, {"batch_size": 7, "window": 50, "max_nodes": 15}),
        (TREE, {"batch_size": 1, "window": 30, "min_split": 4}),
        (FOREST, {"n_trees": 5, "batch_size": 20, "window": 45, "n_replaced": 2}),
        (FOREST, {"n_trees": 3, "batch_size": 15, "window": 0, "replaced": "fading", "bootstrap": True}),
        (FOREST, {"n_trees": 2, "batch_size": 20, "window": 70, "bootstrap": True, "vote": "average"}),
        (FOREST, {"n_trees": 6, "batch_size": 20, "window": 130, "max_features": "all"}),
        (FOREST, {"n_trees": 7, "batch_size": 13, "window": 60, "bootstrap": True, "leaf_values": "overwrite"}),
        (FOREST, {"n_trees": 3, "batch_size": 25, "window": 60, "leaf_values": "overwrite", "max_features": "all"}),
    ],
)
def test_equal_to_the_twin(model, parameters):
    n = 260
    x, y = stream(n)
    weights = np.random.default_rng(1).integers(1, 4, n).astype(float)
    program = interleave(Stream(SCHEMA, x, y, weights))
    learner, ours = in_pieces(lambda: create(model, SCHEMA, seed=5, **parameters), program, x)
    shown = learner.parameters() | ({"vote": "average", "max_features": "all"} if model == TREE else {})
    naive = NaiveForest(N_VALUES, 3, 5, **shown)
    np.testing.assert_allclose(ours, played(naive, program, x, 3), atol=1e-12)
    state = learner.state()
    assert state.sizes[:, NODES].tolist() == [len(tree.root.nodes()) for tree in naive.trees]
    assert state.serials.tolist() == [tree.serial for tree in naive.trees]
    np.testing.assert_allclose(state.quality, [(tree.hits, tree.weight) for tree in naive.trees])
    assert state.sizes[:, NODES].max() > 10
    if model == FOREST:
        assert state.serials.max() >= parameters["n_trees"]


def counts(learner):
    """Of the leaves of each tree, the sum."""
    state = learner.state()
    return [state.counts[tree, : int(leaves)].sum(axis=0) for tree, (_, leaves) in enumerate(state.sizes)]


def test_leaves_hold_the_weight_of_all_that_was_learned():
    x, y = stream(900)
    w = np.random.default_rng(4).uniform(0.1, 3.0, 900)
    for window in (0, 200):
        learner = create(FOREST, SCHEMA, n_trees=3, batch_size=50, window=window, replaced="never")
        learner.learn_many(x, y, w)
        for found in counts(learner):
            np.testing.assert_allclose(found, np.bincount(y.astype(int), w), rtol=1e-12)


def test_few_contrary_rows_turn_a_leaf_only_where_values_are_overwritten():
    x = np.zeros((15, 5))
    for values, says in (("counts", 0), ("overwrite", 1)):
        learner = create(TREE, SCHEMA, batch_size=5, window=0, leaf_values=values)
        learner.learn_many(x, np.repeat([0.0, 0.0, 1.0], 5))
        assert learner.predict_many(x[:1])[0].argmax() == says


def test_what_waits_in_the_buffer_says_nothing():
    x, y = stream(400)
    learner = create(FOREST, SCHEMA, n_trees=3, batch_size=40, window=100)
    learner.learn_many(x[:240], y[:240])
    before = learner.predict_many(x).tobytes()
    learner.learn_many(x[240:279], y[240:279])
    assert learner.predict_many(x).tobytes() == before
    learner.learn_many(x[279:280], y[279:280])
    assert learner.predict_many(x).tobytes() != before


def test_trees_are_added_and_dropped():
    def of_trees(n_trees, before):
        learner = create(FOREST, SCHEMA, n_trees=n_trees, batch_size=50, window=150, replaced="never")
        learner.restore(before.state()._asdict())
        return learner

    x, y = stream(600)
    learner = create(FOREST, SCHEMA, n_trees=4, batch_size=50, window=150, replaced="never")
    learner.learn_many(x[:300], y[:300])
    quality = learner.state().quality.copy()
    worst = int(quality[:, 0].argmin())
    learner = of_trees(3, learner)
    assert learner.state().serials.tolist() == [serial for serial in range(4) if serial != worst]
    learner = of_trees(5, learner)
    assert learner.state().serials.tolist()[3:] == [4, 5]
    assert learner.state().sizes[3:, NODES].tolist() == [1, 1]
    learner.learn_many(x[300:350], y[300:350])
    assert learner.state().sizes[3:, NODES].min() > 5
    for found in counts(learner)[3:]:
        assert found.sum() == 150.0  # grown on the whole window
    whole = create(FOREST, SCHEMA, n_trees=5, batch_size=50, window=150, replaced="never")
    whole.restore(learner.state()._asdict())
    assert whole.predict_many(x).tobytes() == learner.predict_many(x).tobytes()


def test_at_the_bound_leaves_go_on_counting():
    x, y = stream(1500)
    learner = create(TREE, SCHEMA, batch_size=50, window=100, max_nodes=21)
    learner.learn_many(x, y)
    assert learner.size()["n_nodes"] == 21
    np.testing.assert_allclose(counts(learner)[0], np.bincount(y.astype(int)), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 100, 333])
def test_sorting_is_stable(n):
    values = np.random.default_rng(n).integers(0, 20, n).astype(float)
    order = np.argsort(values, kind="stable")
    places = np.arange(n, dtype=np.int32)
    expected = values[order]
    sort_values(values, places, n, np.zeros(n), np.zeros(n, np.int32))
    assert places.tolist() == order.tolist()
    assert all(a <= b for a, b in pairwise(values))
    assert values.tolist() == expected.tolist()


@pytest.mark.parametrize("size", [1, 40, 64, 200])
def test_the_window_is_kept_in_order(size):
    rng = np.random.default_rng(size)
    window = LabelWindow(
        np.full((2, size), np.inf), *np.zeros((2, size)), np.zeros(size, np.int64), np.zeros((1, size), np.int32),
        *np.zeros((2, 2, size), np.uint32),
    )  # fmt: skip
    n_values, learned = np.array([0, 0], np.int32), 0
    for n in [1, size // 2, size, *rng.integers(1, size + 1, 10).tolist()]:
        new = np.unique(np.arange(learned, learned + n) % size)
        window.columns[:, new] = rng.choice([0.5, 1.0, 2.0, 3.5, np.inf], (2, len(new)))
        replaced = np.zeros(size, np.uint8)
        replaced[new] = 1
        sort_in(window, n_values, new, min(learned, size), replaced)
        learned += n
        filled = min(learned, size)
        for column, order, rank in zip(window.columns, window.order, window.rank, strict=True):
            assert order[:filled].tolist() == np.argsort(column[:filled], kind="stable").tolist()
            assert rank[order[:filled]].tolist() == list(range(filled))


def test_a_label_may_add_more_nodes_than_two():
    """It takes two tests to tell it from what lies on both sides: there must be room for them."""
    learner = create(TREE, Schema((0,), 2, "classification"), batch_size=1, window=20)
    learner.learn_many([[0.0], [10.0], [20.0], [30.0], [40.0]], np.zeros(5))
    learner.learn_many([[5.0], [15.0], [25.0], [35.0]], np.ones(4))
    state = learner.state()
    assert state.sizes[0, NODES] == 17
    assert state.feature.shape[1] >= 17
    assert learner.predict_many([[25.0], [30.0]])[:, 1].tolist() == [1.0, 0.0]
