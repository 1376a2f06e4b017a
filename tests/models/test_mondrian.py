"""Mondrian forests against their plain twin; weights against the sum over all prunings; growth against its law."""

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.mondrian.nodes import FEATURE, LEFT, THRESHOLD, TIME, WEIGHT
from riparian.models.registry import create
from tests.models.naive_mondrian import NaiveForest, NaiveTree
from tests.models.streams_of_instances import Stream, in_pieces, interleave, mixed, played


def learner_of(schema, **parameters):
    return create("mondrian-forest", schema, **parameters)


def nodes_of(learner, tree):
    """The tests and weights of a tree in the order of depth first."""
    tests, nodes = learner.state().tests[tree], learner.state().nodes[tree]
    links = tests.view(np.uint32)
    found, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        inner = links[node, LEFT] > 0
        test = (int(links[node, FEATURE]), tests[node, THRESHOLD], nodes[node, TIME])
        found.append((*(test if inner else (None, None, np.inf)), nodes[node, WEIGHT]))
        waiting += [int(links[node, LEFT]) + 1, int(links[node, LEFT])] if inner else []
    return found


def naive_nodes_of(tree):
    found, waiting = [], [tree.root]
    while waiting:
        node = waiting.pop()
        found.append((*node.test, node.time, node.weight) if node.children else (None, None, np.inf, node.weight))
        waiting += list(node.children[::-1])
    return found


@pytest.mark.parametrize(
    ("task", "weights", "parameters"),
    [
        ("classification", "one", {}),
        ("classification", "one", {"split_below": 1.0, "vote_power": 0}),
        ("classification", "fractions", {"step": 0.5, "dirichlet": 0.3}),
        ("classification", "whole", {"split_pure": True, "max_nodes": 41}),
        ("classification", "fractions", {"max_nodes": 12, "split_below": 0.95}),
        ("classification", "one", {"aggregation": False, "split_below": 1.0}),
        ("classification", "fractions", {"aggregation": False, "max_nodes": 101}),
        ("regression", "one", {}),
        ("regression", "fractions", {"max_nodes": 41, "step": 2.0}),
        ("regression", "one", {"aggregation": False, "max_nodes": 201}),
    ],
)
def test_equal_to_the_twin(task, weights, parameters):
    n, classes = 250, task == "classification"
    stream = mixed(n, 3, weights=weights)
    schema = Schema(stream.schema.n_values, 3 if classes else 1, task)
    y = stream.y if classes else stream.y + np.nan_to_num(stream.x[:, 0])
    naive = NaiveForest(schema.n_values, schema.n_outputs, seed=7, n_trees=3, classes=classes, **parameters)
    program = interleave(stream._replace(y=y))
    learner, ours = in_pieces(lambda: learner_of(schema, seed=7, n_trees=3, **parameters), program, stream.x)
    np.testing.assert_allclose(ours, played(naive, program, stream.x, schema.n_outputs), atol=1e-9)
    for tree in range(3):
        nodes, expected = nodes_of(learner, tree), naive_nodes_of(naive.trees[tree])
        assert [(node[:2], node[3]) for node in nodes] == [(node[:2], node[3]) for node in expected]
        # Distances are summed in another order.
        np.testing.assert_allclose([node[2] for node in nodes], [node[2] for node in expected], rtol=1e-12)


def test_equal_to_the_twin_while_classes_leave_no_room_for_as_many_nodes():
    n, k = 250, 25
    stream = mixed(n, 3)
    y = np.minimum(np.arange(n) // 7, np.random.default_rng(1).integers(0, k, n)).astype(float)
    schema = Schema(stream.schema.n_values, k, "classification")
    learner = learner_of(schema, seed=7, n_trees=3, max_bytes=100_000)
    naive = NaiveForest(schema.n_values, k, seed=7, n_trees=3, max_bytes=100_000)
    most = 0
    for i in range(n):
        np.testing.assert_allclose(
            learner.predict_many(stream.x[i : i + 1])[0], naive.predict(stream.x[i].tolist()), atol=1e-9
        )
        learner.learn_many(stream.x[i : i + 1], y[i : i + 1])
        naive.learn(stream.x[i].tolist(), y[i], 1.0)
        most = max(most, learner.size()["n_nodes"])
        assert learner.n_bytes <= 100_000
    assert learner.size()["n_nodes"] < 0.9 * most
    for tree in range(3):
        assert [node[:2] for node in nodes_of(learner, tree)] == [
            node[:2] for node in naive_nodes_of(naive.trees[tree])
        ]


@pytest.mark.parametrize("seed", range(4))
def test_prediction_is_the_sum_over_all_prunings(seed):
    """Context-tree weighting by its definition: prior times likelihood of every pruning, all written out."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((9, 2)).round(2), rng.integers(0, 3, 9)
    learner = learner_of(Schema((0, 0), 3, "classification"), seed=seed, n_trees=1, split_pure=True)
    learner.learn_many(x, y)
    tree = NaiveTree((0, 0), int(learner._settings.keys[0]), split_pure=True)
    for row, label in zip(x.tolist(), y.tolist(), strict=True):
        tree.learn(row, label)
    prunings = tree.root.prunings()
    assert len(prunings) > 5
    assert sum(prior for prior, _, _ in prunings) == pytest.approx(1.0)
    weights = np.array([prior * np.exp(likelihood) for prior, likelihood, _ in prunings])
    assert np.log(weights.sum()) == pytest.approx(tree.root.log_tree())
    for point in rng.random((20, 2)):
        leaf = tree.root
        path = [leaf]
        while leaf.children:
            leaf = leaf.child(point.tolist(), (0, 0))
            path.append(leaf)
        expected = np.zeros(3)
        for weight, (_, _, leaves) in zip(weights, prunings, strict=True):
            (end,) = [node for node in path if any(node is one for one in leaves)]
            for label, p in tree.says(end).items():
                expected[label] += weight * p
        np.testing.assert_allclose(learner.predict_many(point[None])[0], expected / weights.sum(), atol=1e-12)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_bytes_are_bounded_however_many_features(task):
    rng = np.random.default_rng(1)
    x = rng.random((300, 400))
    learner = learner_of(Schema((0,) * 400, 2 if task == "classification" else 1, task), max_bytes=3_000_000)
    learner.learn_many(x, (x[:, 0] > 0.5).astype(float))
    assert 2_000_000 < learner.n_bytes <= 3_000_000
    assert learner.size()["n_nodes"] > 400


def test_the_bound_in_bytes_does_not_see_how_batches_are_cut_nor_what_the_schema_has_room_for():
    """Classes and values become known a batch early, where batches are large: capacities are no part of the bound."""
    n = 600
    rng = np.random.default_rng(2)
    x = np.column_stack([rng.random((n, 3)), np.minimum(np.arange(n) // 9, rng.integers(0, 70, n))])
    y = np.minimum(np.arange(n) // 11, rng.integers(0, 50, n)).astype(float)
    found = []
    for size in (1, 37, n):
        learner = learner_of(Schema((0, 0, 0, 2), 2, "classification"), n_trees=2, max_bytes=100_000)
        out = np.zeros((n, 50))
        for a in range(0, n, size):
            now = slice(a, a + size)
            n_values, n_outputs = (1 << int(known[: a + size].max()).bit_length() for known in (x[:, 3], y))
            schema = Schema((0, 0, 0, max(2, n_values)), max(2, n_outputs), "classification")
            learner.resize(schema)
            said = np.zeros((len(y[now]), schema.n_outputs))
            learner.run(interleave(Stream(schema, x[now], y[now], np.ones(n))), x[now], said)
            out[now, : schema.n_outputs] = said[:, :50]
            assert learner.n_bytes <= 100_000
        found.append((out.tobytes(), learner.size(), learner.n_bytes))
    assert found[0] == found[1] == found[2]


def test_describe_tells_where_a_row_goes():
    stream = mixed(300, 2, missing=0.0)
    learner = learner_of(stream.schema, n_trees=2, aggregation=False)
    learner.learn_many(stream.x, stream.y)
    nodes = {node["id"]: node for node in learner.describe()}
    roots = [node for node in nodes.values() if node.get("part") == "tree"]
    assert [root["weight"] for root in roots] == [300.0, 300.0]
    assert len(nodes) == 1 + learner.size()["n_nodes"]
    assert max(node["depth"] for node in nodes.values()) == 1 + learner.size()["depth"]
    arrived = dict.fromkeys(nodes, 0)
    for row in stream.x:
        for node in roots:
            while "children" in node:
                f = node["feature"]
                goes = row[f] == node["equals"] if "equals" in node else row[f] <= node["threshold"]
                child = nodes[node["children"][0 if goes else 1]]
                assert child["parent"] == node["id"]
                assert node["default"] in node["children"]
                assert 0.0 <= node["stop"] <= 1.0
                node = child
            arrived[node["id"]] += 1
    assert all(arrived[i] == node["weight"] for i, node in nodes.items() if "predictor" in node)
