"""Ensembles for regression against their naive twin, and by hand."""

from functools import partial

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.ensemble import chunks
from riparian.models.registry import create
from tests.models.naive_regression_forests import RegressionForestTwin
from tests.models.streams_of_instances import in_pieces, interleave, mixed, played

ARF, SRP, BAGGING = "adaptive-random-forest", "streaming-random-patches", "online-bagging"
# Trees of some nodes, and drifts, in a thousand instances.
QUICK = {"n_models": 3, "grace_period": 30, "delta": 0.3, "tie_threshold": 0.2, "n_bins": 8, "max_nodes": 25}
WATCHED = {"warning_delta": 0.5, "drift_delta": 0.1, "feature_share": 0.4}
FORESTS = [
    (ARF, WATCHED),
    (ARF, {**WATCHED, "vote": "average", "rate": 0.5, "leaf_prediction": "mc"}),
    (ARF, {**WATCHED, "background_trees": False, "max_features": "all", "vote": "majority", "n_models": 4}),
    (ARF, {"drift_detection": False, "feature_share": 0.4, "leaf_prediction": "nb"}),
    (SRP, {**WATCHED, "warning_delta": 0.9, "drift_delta": 0.4}),
    (SRP, {**WATCHED, "warning_delta": 0.9, "drift_delta": 0.4, "training_method": "subspaces", "vote": "average"}),
    (BAGGING, {}),
    (BAGGING, {"vote": "weighted", "max_depth": 2}),
]


def changing(n, seed, weights="one"):
    """Targets that turn to others every 400 instances. weights : as `mixed` has them."""
    stream = mixed(n, seed, n_values=(0, 3, 0, 5, 0), missing=0.05, weights=weights, drift=False)
    turned = np.arange(n) // 400 % 2 == 1
    y = 10.0 * np.where(turned, 2.0 - stream.y, stream.y) + np.nan_to_num(stream.x[:, 0])
    return stream._replace(schema=Schema(stream.schema.n_values, 1, "regression"), y=y.round(3))


@pytest.mark.parametrize(("name", "parameters"), FORESTS, ids=str)
def test_forest_equals_twin(name, parameters, monkeypatch):
    """Members run chunks and go back at drifts; instance by instance through all members gives the same."""
    monkeypatch.setattr(chunks, "MOST", 1000)
    late = FORESTS.index((name, parameters)) % 2
    stream = changing(1600, 7, ("one", "fractions")[late])
    stream.y[[5, 600]] = np.nan, 1e101  # teach nothing
    made = partial(create, name, stream.schema, seed=11, **{**QUICK, **parameters})
    p = made().parameters()
    all_features = name == BAGGING or p["max_features"] == "all"
    rate = 0.0 if p.get("training_method") == "subspaces" else p.get("rate", 1.0)
    other = RegressionForestTwin(stream.schema.n_values, 11, name != SRP, 5 if all_features else 2, rate, p)
    program = interleave(stream, 20 * late)
    learner, out = in_pieces(made, program, stream.x)
    np.testing.assert_array_equal(out, played(other, program, stream.x))
    happened = {event for member in other.members for event in member.events}
    if p.get("drift_detection"):
        assert ({"warning", "succeeds"} if p["background_trees"] else {"begins anew"}) <= happened
    described = learner.describe()
    for member in other.members:
        for grown in (member.front, member.back):
            if grown is not None:
                twins = grown.tree.describe("alternate")
                nodes, described = described[: len(twins)], described[len(twins) :]
                assert [node["weight"] for node in nodes] == pytest.approx([node["weight"] for node in twins])
    assert described == []


def test_members_that_know_nothing_have_no_vote():
    schema = Schema((0,), 1, "regression")
    learner = create(BAGGING, schema, n_models=20)
    learner.learn_many([[0.0]], [1000.0])
    sizes = [node["weight"] for node in learner.describe()]
    assert 0.0 in sizes  # drew it no time
    assert max(sizes) > 0.0
    assert learner.predict_many([[0.0]])[0, 0] == pytest.approx(1000.0)
    learner.set_members(40)
    assert learner.predict_many([[0.0]])[0, 0] == pytest.approx(1000.0)
