"""Adaptive random forests and streaming random patches against naive twins, and by their invariants."""

from functools import partial

import numpy as np
import pytest

from riparian.checks import cut, snapshot
from riparian.models.contract import LEARN, Schema
from riparian.models.ensemble.adaptation.watched_trees import n_chosen
from riparian.models.hoeffding.hoeffding_tree import HoeffdingTree
from riparian.models.hoeffding.subspace_tree import SubspaceTree
from riparian.models.registry import create
from tests.models.naive_forests import ForestTwin, SubspaceTreeTwin
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played
from tests.models.test_hoeffding_trees import PLAIN, check_equal

WORLDS = [{"n_values": (0, 3, 0, 5, 0, 2), "n_classes": 3}, {"n_values": (0, 0, 0, 0), "n_classes": 2}]
TREES = [
    {},
    {"leaf_prediction": "nb", "binary_splits": True},
    {"leaf_prediction": "mc", "split_criterion": "gini", "max_nodes": 15},
    {"observer": "histogram", "n_bins": 8},
    {"max_active_leaves": 3, "grace_period": 8},
]


@pytest.mark.parametrize(
    ("parameters", "world", "per_leaf", "delay"),
    [(more, WORLDS[i % 2], bool(k), 7 * ((i + k) // 2 % 2)) for i, more in enumerate(TREES) for k in range(2)],
    ids=str,
)
def test_subspace_tree_equals_twin(parameters, world, per_leaf, delay):
    stream = mixed(900, 3, weights="whole", **world)
    how = {"seed": 5, "n_chosen": 2, "per_leaf": per_leaf}
    everything = {**HoeffdingTree(stream.schema).parameters(), **PLAIN, **parameters}
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


ARF, SRP = "adaptive-random-forest", "streaming-random-patches"
# Trees of some nodes, and drifts, in a thousand instances.
QUICK = {
    "n_models": 3,
    "grace_period": 30,
    "delta": 0.1,
    "max_nodes": 25,
    "warning_delta": 0.5,
    "drift_delta": 0.05,
    "feature_share": 0.4,
}
FORESTS = [
    (ARF, {}),
    (ARF, {"vote": "average", "rate": 1.0, "leaf_prediction": "mc"}),
    (ARF, {"background_trees": False, "max_features": "sqrt", "binary_splits": False, "drift_delta": 0.5}),
    (ARF, {"vote": "majority", "drift_detection": False, "observer": "histogram", "n_bins": 8}),
    (SRP, {}),
    (SRP, {"training_method": "subspaces", "vote": "majority", "warning_delta": 0.9, "grace_period": 10}),
    (SRP, {"training_method": "resampling", "warning_delta": 0.9}),
]


def changing(n, seed, weights="one", period=400):
    """A stream whose concept is turned round every `period` instances."""
    stream = mixed(n, seed, n_values=(0, 3, 0, 5, 0), n_classes=3, missing=0.05, weights=weights, drift=False)
    turned = np.arange(n) // period % 2 == 1
    return stream._replace(y=np.where(turned, 2.0 - stream.y, stream.y))


@pytest.mark.parametrize(("name", "parameters"), FORESTS, ids=str)
def test_forest_equals_twin(name, parameters):
    """Members run chunks and go back at drifts; instance by instance through all members gives the same."""
    late = FORESTS.index((name, parameters)) % 2
    stream = changing(1000, 7, ("one", "fractions")[late])
    made = partial(create, name, stream.schema, seed=11, **{**QUICK, **parameters})
    p = made().parameters()
    s = 3 if p["max_features"] == "sqrt" else 5 if p.get("training_method") == "resampling" else 2
    rate = 0.0 if p.get("training_method") == "subspaces" else p["rate"]
    other = ForestTwin(stream.schema.n_values, 3, 11, name == ARF, s, rate, p)
    program = interleave(stream, 20 * late)
    learner, out = in_pieces(made, program, stream.x)
    assert out.tolist() == played(other, program, stream.x, 3).tolist()
    happened = {event for member in other.members for event in member.events}
    if p["drift_detection"]:
        assert "warning" in happened if p["background_trees"] else "begins anew" in happened
        assert happened & {"begins anew", "succeeds"}
    described = learner.describe()
    for member in other.members:
        for grown, root in ((member.front, {"member": member.serial}), (member.back, {"background": True})):
            if grown is None:
                continue
            nodes, described = described[: len(grown.tree.nodes)], described[len(grown.tree.nodes) :]
            assert nodes[0].items() >= root.items()
            assert [node.get("feature") for node in nodes] == [node.feature for node in grown.tree.nodes]
            assert [node["weight"] for node in nodes] == pytest.approx([grown.tree.weight(n) for n in grown.tree.nodes])
    assert described == []


def test_trees_come_go_and_come_back_as_the_twin_s():
    """Everything that can become of the two trees of a member, in one run."""
    stream = changing(7000, 3, period=300)
    calm = np.arange(7000) >= 3000
    stream = stream._replace(y=np.where(calm, np.nan_to_num(stream.x[:, 1]), stream.y))
    p = {**QUICK, "n_models": 4, "warning_delta": 0.9, "drift_delta": 0.2, "leaf_prediction": "mc"}
    learner = create(ARF, stream.schema, seed=3, **p)
    other = ForestTwin(stream.schema.n_values, 3, 3, True, 2, 6.0, learner.parameters())
    learner.learn_many(stream.x, stream.y)
    for x, y in zip(stream.x.tolist(), stream.y.tolist(), strict=True):
        other.learn(x, y)
    happened = {event for member in other.members for event in member.events}
    assert happened == {"warning", "succeeds", "begins anew", "is better", "comes back", "is worse", "is late"}
    state = learner.state()
    assert state.member_numbers[:, 0].tolist() == [member.begun for member in other.members]
    assert state.member_numbers[:, 1].tolist() == [member.front.number - 1 for member in other.members]
    assert state.member_compared[:, 2].tolist() == [len(member.differences) for member in other.members]


@pytest.mark.parametrize(
    ("parameters", "n_features", "n"),
    [
        ({"max_features": "share", "feature_share": 0.5}, 1, 1),
        ({"max_features": "share", "feature_share": 0.5}, 2, 2),
        ({"max_features": "share", "feature_share": 1e-9}, 9, 2),
        ({"max_features": "share", "feature_share": 0.7}, 10, 7),
        ({"max_features": "sqrt"}, 9, 4),
        ({"max_features": "all"}, 9, 9),
    ],
)
def test_a_subset_has_two_features_where_there_are_two(parameters, n_features, n):
    assert n_chosen({"feature_share": 0.5, **parameters}, n_features) == n


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_state_of_other_subsets_is_refused(task):
    """As one of two features is that was written while each of its trees looked at one."""
    x = np.random.default_rng(1).random((600, 3))
    wide, narrow = (
        create(SRP, Schema((0, 0, 0), 2 if task == "classification" else 1, task), feature_share=share)
        for share in (1.0, 0.5)
    )
    wide.learn_many(x, (x[:, 0] > 0.5).astype(float))
    with pytest.raises(ValueError, match="another number of features"):
        narrow.restore(snapshot(wide))
