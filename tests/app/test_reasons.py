"""The features that moved a prediction most, in its record: told by the model that made it, as it was then."""

import json

import numpy as np
import pytest

from app.errors import SpecError
from app.inspection import Names
from app.page.predictions import _added
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge
from app.stream_file.spec import build
from models.contract import Schema
from models.registry import create
from topics.records import RawBatch

N = 700
TREE = {"model": "hoeffding-tree", "grace_period": 20, "delta": 0.3, "leaf_prediction": "mc"}
STREAM = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "b": "numeric", "c": "numeric"},
    "classes": [0, 1],
    "champion": TREE,
    "predictions": {"reasons": 2},
    "join": {"horizon": "10s"},
}


def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 3)).round(3)
    return x, ((x[:, 1] > 0.2) | (x[:, 2] > 1.0)).astype(int)


def topics():
    """Labels come between four and eleven instances late."""
    x, y = data()
    stamps = [1000 + 10 * i for i in range(N)]
    late = [stamp + 45 + 10 * (i % 7) for i, stamp in enumerate(stamps)]
    order = sorted(range(N), key=late.__getitem__)
    features = [{"id": str(i), "x": dict(zip("abc", row, strict=True))} for i, row in enumerate(x.tolist())]
    labels = [{"id": str(i), "y": int(y[i])} for i in order]
    made = [
        RawBatch(list(range(N)), times, [None] * N, [json.dumps(row).encode() for row in rows])
        for times, rows in ((stamps, features), ([late[i] for i in order], labels))
    ]
    return made[0], made[1], late


def fold(stream, limit, restart_every=0):
    spec = build(stream, "test")
    learner, merge, sent, steps = PartitionLearner(spec), Merge(limit=limit), [], 0
    features, labels, _ = topics()
    merge.buffers["features"].add(features)
    merge.buffers["labels"].add(labels)
    while merge.n_waiting:
        sent += [bytes(one) for one in learner.encode(learner.step(merge.release(EVERYTHING)))]
        steps += 1
        if restart_every and steps % restart_every == 0:
            cut = learner.snapshot()
            learner = PartitionLearner(spec)
            learner.restore(cut)
    return sent, learner


@pytest.mark.parametrize("drift", [{}, {"on_drift": "replace", "window": 250, "patience": 500}, {"on_drift": "reset"}])
def test_the_same_reasons_however_a_stream_is_cut_and_restarted(drift):
    stream = {**STREAM, "drift": drift, "champion": TREE}
    whole, learner = fold(stream, 10_000)
    for limit, restart_every in ((1, 0), (7, 3), (100, 1)):
        parts, other = fold(stream, limit, restart_every)
        assert parts == whole
        assert other.digest() == learner.digest()
    without, plain = fold({**stream, "predictions": {}}, 10_000)
    for one, told in zip(without, whole, strict=True):
        assert json.loads(one) == {k: v for k, v in json.loads(told).items() if k != "reasons"}
    assert plain.digest() == learner.digest()


MEMBERS = {
    "mondrian": {"model": "mondrian-forest", "n_trees": 3},
    "gradient": {"model": "stochastic-gradient-tree", "warm_up": 50, "delta": 0.3, "node_cost": 0.0},
    "shrubs": {"model": "shrub-ensemble", "window": 64, "n_trees": 4},
    "streaming": {"model": "streaming-decision-forest", "n_trees": 3},
}


@pytest.mark.parametrize(
    "champion", [*MEMBERS.values(), {"model": "opinion-pool", "members": {**MEMBERS, "last": "last-label"}}, "auto"],
    ids=[*MEMBERS, "pool", "auto"],
)  # fmt: skip
def test_other_trees_too_however_a_stream_is_cut_and_restarted(champion):
    stream = {**STREAM, "champion": champion}
    whole, learner = fold(stream, 10_000)
    for limit, restart_every in ((1, 0), (40, 2)):
        parts, other = fold(stream, limit, restart_every)
        assert parts == whole
        assert other.digest() == learner.digest()
    without, plain = fold({**stream, "predictions": {}}, 10_000)
    for one, told in zip(without, whole, strict=True):
        assert json.loads(one) == {k: v for k, v in json.loads(told).items() if k != "reasons"}
    assert plain.digest() == learner.digest()
    told = [json.loads(one)["reasons"] for one in whole[-300:]]
    assert sum(reasons is not None for reasons in told) > 250
    assert sum(next(iter(reasons)) == "b" for reasons in told if reasons) > 150  # which labels follow most
    explained = _added(learner.roles["champion"].model, data()[0][:1], Names(learner.spec, learner, "champion"))
    assert explained["of"] in ("0", "1")
    assert set(explained["features"]) <= set("abc")
    parts = explained["begin"], *explained["features"].values(), explained["left"]
    assert sum(parts) == pytest.approx(explained["prediction"])
    if champion in MEMBERS.values():
        assert abs(explained["left"]) < 1e-9


def test_reasons_are_those_of_the_model_when_it_predicted():
    sent, _ = fold(STREAM, 10_000)
    x, y = data()
    late, alone = topics()[2], create("hoeffding-tree", Schema((0, 0, 0), 2, "classification"), **{
        name: value for name, value in TREE.items() if name != "model"
    })  # fmt: skip
    steps = sorted([(1000 + 10 * i, 0, i) for i in range(N)] + [(late[i], 1, i) for i in range(N)])
    n_told = 0
    for _, learns, i in steps:
        if learns:
            alone.learn_many(x[[i]], y[[i]])
            continue
        about = alone.predict_many(x[[i]]).argmax(axis=1)
        told = alone.contributions(x[[i]], np.zeros(1, np.int32), about)[0, :3].tolist()
        first = sorted(range(3), key=lambda f: (-abs(told[f]), f))[:2]
        expected = {"abc"[f]: told[f] for f in first if told[f]}
        found = json.loads(sent[i])["reasons"]
        assert found == (expected or None)
        assert list(found or ()) == list(expected)
        n_told += found is not None
    assert n_told > 300


def test_after_a_promotion_the_reasons_are_the_new_champions():
    challengers = {"silent": {"model": "last-label"}, "twin": {**TREE, "grace_period": 30}}
    learner = PartitionLearner(build({**STREAM, "control": True, "challengers": challengers}, "test"))
    features, labels, _ = topics()
    merge = Merge(limit=10_000)
    merge.buffers["features"].add(features.part(0, 600))
    merge.buffers["labels"].add(labels.part(0, 600))
    learner.step(merge.release(EVERYTHING))
    told = {}
    for at, name in enumerate(("champion", "twin", "silent")):
        if name != "champion":
            learner.steering.promote(name)
        merge.buffers["features"].add(features.part(600 + at, 601 + at))
        (sent,) = learner.encode(learner.step(merge.release(EVERYTHING)))
        told[name] = json.loads(bytes(sent))["reasons"]
    assert told["champion"] and told["twin"]  # noqa: PT018
    assert told["silent"] is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"champion": "naive-bayes"}, "expected a champion that keeps what its nodes have, found naive-bayes, .* use "),
        ({"champion": {"model": "online-bagging", "vote": "majority"}}, "online-bagging with vote: majority, which"),
        ({"task": "anomaly", "classes": None, "champion": "half-space-trees"}, "expected task classification or regr"),
        ({"predictions": {"reasons": 0}}, "predictions.reasons"),
    ],
)
def test_what_cannot_have_reasons_is_refused(fields, said):
    with pytest.raises(SpecError, match=said):
        PartitionLearner(build({name: v for name, v in {**STREAM, **fields}.items() if v is not None}, "test"))
