"""The features that moved a prediction most, in its record: asked of the model that made it, as it was then."""

import json
from typing import Any

import numpy as np
import pytest

from riparian.app.errors import SpecError
from riparian.app.inspection import Names
from riparian.app.page.predictions import _added
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.predictions.reasons import keys_of
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.models.contract import Schema
from riparian.models.explanation.shapley import contributions
from riparian.models.predictions.prior_shift import PriorShift
from riparian.models.registry import create
from riparian.topics.records import RawBatch

N = 700
TREE = {"model": "hoeffding-tree", "grace_period": 20, "delta": 0.3, "leaf_prediction": "mc"}
STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "b": "numeric", "c": "numeric"},
    "classes": [0, 1],
    "champion": TREE,
    "predictions": {"reasons": 2},
    "join": {"horizon": "10s"},
}
ALERTS = {"reasons": {"top": 2, "of": "alerts"}}
RARE = {"class": "1", "alert_rate": 0.2}


def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 3)).round(3)
    b = np.where(np.arange(N) < N // 2, x[:, 1], -x[:, 1])
    return x, ((b > 0.2) | (x[:, 2] > 1.0)).astype(int)


def topics(bags=False):
    """Labels come between four and eleven instances late."""
    x, y = data()
    stamps = [1000 + 10 * i for i in range(N)]
    late = [stamp + 45 + 10 * (i % 7) for i, stamp in enumerate(stamps)]
    order = sorted(range(N), key=late.__getitem__)
    rows = [dict(zip("abc", row, strict=True)) for row in x.tolist()]
    features = [{"id": str(i), "x": [row, rows[i - 1]] if bags else row} for i, row in enumerate(rows)]
    labels = [{"id": str(i), "y": int(y[i])} for i in order]
    made = [
        RawBatch(list(range(N)), times, [None] * N, [json.dumps(row).encode() for row in rows])
        for times, rows in ((stamps, features), ([late[i] for i in order], labels))
    ]
    return made[0], made[1], late


def fold(stream, limit, restart_every=0):
    spec = build(stream, "test")
    learner, merge, sent, steps = PartitionLearner(spec), PartitionGroup(limit=limit), [], 0
    features, labels, _ = topics(spec.task == "multi-instance")
    merge.buffers["features"].add(features)
    if spec.has_labels:
        merge.buffers["labels"].add(labels)
    while merge.n_waiting:
        sent += [bytes(one) for one in learner.encode(learner.step(merge.release(EVERYTHING)))]
        steps += 1
        if restart_every and steps % restart_every == 0:
            cut = learner.snapshot()
            learner = PartitionLearner(spec)
            learner.restore(cut)
    return [json.loads(one) for one in sent], learner


def without(sent):
    return [{name: value for name, value in one.items() if name != "reasons"} for one in sent]


RESET = {"drift": {"on_drift": "reset", "detectors": {"adwin": {"delta": 0.9}}}}
STREAMS: dict[str, dict[str, Any]] = {
    "tree": {},
    "replaced": {"drift": {"on_drift": "replace", "detectors": {"adwin": {"delta": 0.9}}}},
    "reset": RESET,
    "reset and alerts": {**RESET, "predictions": ALERTS | {"calibrated": True}, "decision": RARE},
    "alerts": {"predictions": ALERTS, "decision": RARE},
    "costs": {
        "decision": {"costs": {"1": {"0": "a"}, "0": {"1": 0.2}}},
        "predictions": {"reasons": 2, "calibrated": True},
    },
    "matured": {
        "join": {"horizon": "10s", "unlabelled": {"after": "120ms"}},
        "predictions": {"reasons": 2, "calibrated": "matured"},
    },
    "auto": {"champion": "auto"},
    "regression": {"task": "regression", "classes": None, "champion": "fimt-dd"},
    "bags": {"task": "multi-instance", "champion": "quick-diverse-density"},
    "anomaly": {
        **{"task": "anomaly", "classes": None, "champion": "half-space-trees", "record": {"y": None}},
        **{"decision": {"alert_rate": 0.05}, "predictions": ALERTS},
    },
    "external": {"champion": {"model": "external", "as_champion": True}, "trust": ["code", "pickles"]},
    "promoted": {
        **{"champion": "majority-class", "control": True},
        "challengers": {"tree": {"model": "hoeffding-adaptive-tree", "grace_period": 20, "delta": 0.3}},
        "promotion": {"mode": "automatic", "at_least": 250},
    },
}


def stream(which):
    return {name: value for name, value in {**STREAM, **STREAMS[which]}.items() if value is not None}


@pytest.mark.parametrize("which", STREAMS)
def test_the_same_reasons_however_a_stream_is_cut_and_restarted(which):
    whole, learner = fold(stream(which), 10_000)
    again, restored = fold(stream(which), 5, 0 if which == "external" else 40)
    assert again == whole
    predictions = {k: v for k, v in stream(which)["predictions"].items() if k != "reasons"}
    plain, untouched = fold({**stream(which), "predictions": predictions}, 10_000)
    assert [{name: value for name, value in one.items() if name != "reasons"} for one in whole] == plain
    if which != "external":  # a pickle has no bytes of its own
        assert len({one.digest() for one in (learner, restored, untouched)}) == 1
    champion = learner.roles["champion"]
    assert not which.startswith("reset") or champion.reactions.any()
    assert which != "replaced" or champion.trial is not None
    explained = [one for one in whole if one["reasons"]]
    if which == "promoted":
        assert champion.learner_name == "hoeffding-adaptive-tree"
        assert not any(one["reasons"] for one in whole if one["model"] == "majority-class")
        assert sum(one["model"] == champion.learner_name for one in explained) > 100
    elif which == "anomaly":
        assert {one["id"] for one in explained} == {one["id"] for one in whole if one["alert"]}
        assert 10 < len(explained) < 100
    elif "alerts" in which:
        assert {int(one["y"]) for one in explained} == {1}
        assert 50 < len(explained) >= sum(one["y"] in (1, "1") for one in whole) - 5  # before the first split
    else:
        assert len(explained) > 250
        assert sum(next(iter(one["reasons"])) == "b" for one in explained) > 150  # which labels follow most


def test_reasons_are_those_of_the_model_when_it_predicted_by_permutations_of_the_id():
    sent, learner = fold(STREAM, 10_000)
    x, y = data()
    late, alone = topics()[2], create("hoeffding-tree", Schema((0, 0, 0), 2, "classification"), **{
        name: value for name, value in TREE.items() if name != "model"
    })  # fmt: skip
    steps = sorted([(1000 + 10 * i, 0, i) for i in range(N)] + [(late[i], 1, i) for i in range(N)])
    n_found = 0
    for _, learns, i in steps:
        if learns:
            alone.learn_many(x[[i]], y[[i]])
            continue
        about = alone.predict_many(x[[i]]).argmax(axis=1)
        added = contributions(alone, x[[i]], np.zeros(1, np.int32), about, keys_of([str(i)]))[0, :3].tolist()
        first = sorted(range(3), key=lambda f: (-abs(added[f]), f))[:2]
        expected = {"abc"[f]: added[f] for f in first if added[f]}
        found = sent[i]["reasons"]
        assert found == (expected or None)
        assert list(found or ()) == list(expected)
        n_found += found is not None
    assert n_found > 300
    names = Names(learner.spec, learner, "champion")
    explained = _added(alone, x[:1], names, keys_of(["0"]), sent[0]["y"] or "1")
    assert explained["begin"] + sum(explained["features"].values()) == pytest.approx(explained["prediction"])


def test_reasons_are_of_the_class_that_a_shift_makes_the_likeliest(monkeypatch):
    plain, _ = fold({**stream("matured"), "predictions": {"reasons": 2}}, 10_000)
    made = PriorShift.__init__

    def begun(self, n_outputs):
        made(self, n_outputs)
        self.state().shifts[:] = -6.0, 6.0

    monkeypatch.setattr(PriorShift, "__init__", begun)
    shifted, n = fold(stream("matured"), 10_000)[0], 0
    for one, other in zip(plain, shifted, strict=True):
        sign = 1 if one["y"] == other["y"] else -1
        n += sign < 0 and one["reasons"] is not None
        expected = one["reasons"] and {name: pytest.approx(sign * added) for name, added in one["reasons"].items()}
        assert other["reasons"] == expected
    assert n > 9


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"predictions": ALERTS}, "decision: {class: NAME, alert_rate: 0.01}, found none; write one, or of: all"),
        (
            {"predictions": ALERTS, "decision": {"costs": {"0": {"1": 3}}}},
            "found one by costs, which marks none; write one, or of: all",
        ),
        (
            {"predictions": ALERTS, "task": "anomaly", "classes": None, "champion": "half-space-trees"},
            "such as decision: {alert_rate: 0.01}, found none",
        ),
        ({"predictions": {"reasons": 0}}, "predictions.reasons"),
        ({"predictions": {"reasons": {"top": 3, "of": "some"}}}, "predictions.reasons.of"),
    ],
)
def test_what_cannot_have_reasons_is_refused(fields, found):
    with pytest.raises(SpecError) as refused:
        build({name: value for name, value in {**STREAM, **fields}.items() if value is not None}, "test")
    assert found in str(refused.value)


def test_a_number_alone_asks_for_all_predictions():
    plain, named = (build({**STREAM, "predictions": {"reasons": r}}, "test") for r in (3, {"top": 3, "of": "all"}))
    assert plain.predictions == named.predictions
    assert plain.running() == named.running()
    assert plain.predictions.model_dump(mode="json")["reasons"] == 3  # as states have it
