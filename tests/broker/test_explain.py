"""`riparian explain` and its page on real Kafka: what is said of a prediction is what was sent, and why."""

import asyncio
import json

import numpy as np
import pytest

from riparian.app.cli.operate.explain import lines
from riparian.app.errors import StateError
from riparian.app.page.predictions import explained
from riparian.models.contract import PREDICT, Program
from riparian.models.predictions.decision import Threshold
from tests.broker.clients import send
from tests.broker.harness import instances

pytestmark = pytest.mark.broker
N = 3000


def test_a_prediction_its_label_and_its_path(stream):
    s = stream(
        champion={"model": "hoeffding-tree", "grace_period": 50, "leaf_prediction": "mc"},
        partitions=2, predictions={"challengers": True, "reasons": 2},
    )  # fmt: skip
    features, labels = instances(N, delay=20)
    for i, value in ((5, "v"), (-1, "new")):  # the model has room for four, and the last one is missing to it
        record = json.loads(features[i].value)
        record["x"]["c"] = value
        features[i] = features[i]._replace(value=json.dumps(record).encode())
    for start in range(0, N, 1000):  # a checkpoint and a worker in between: two of them are kept
        stop = min(start + 1000, N - 1)  # the last one's label does not come
        for partition in (0, 1):
            send(s.broker, s.spec.topics.features, features[start : start + 1000], partition=partition)
            send(s.broker, s.spec.topics.labels, labels[start:stop], partition=partition)
        s.run(start + 1000, stop)
    sent = {partition: {one["id"]: one for one in s.predictions(partition)} for partition in (0, 1)}
    split = 0
    for i in (0, 1500, 2400, N - 1):
        id_ = f"{i:07d}"
        found = asyncio.run(explained(s.spec, s.connection, id_))
        one = sent[found["partition"]][id_]
        champion = found["said"][0]
        assert (champion["y"], champion["p"], found["offset"]) == (one["y"], one["p"], one["offset"])
        assert [row["role"] for row in found["said"]] == ["champion", "last", "nb"]
        added = found["why"]["models"][0]["added"]
        if added is None:
            assert one["y"] is one["reasons"] is None
        else:
            assert dict(list(added["features"].items())[:2]) == (one["reasons"] or {})
            assert added["begin"] + sum(added["features"].values()) == pytest.approx(max(one["p"].values()))
        truth = json.loads(labels[i].value)["y"]
        if i == N - 1:
            assert found["label"] is None
        else:
            assert (found["label"]["y"], found["label"]["offset"]) == (truth, i)
            assert champion.get("right") == (None if one["y"] is None else one["y"] == truth)
        assert found["why"] is not None, found["why_not"]
        assert found["why"]["same"]
        assert found["why"]["features"] == json.loads(features[i].value)["x"]
        tree = found["why"]["models"][0]["trees"]
        if tree:  # the leaf at the end of the path says what was sent
            split += 1
            assert tree[0]["whole"]
            best = tree[0]["steps"][-1]["said"].partition(" ")[0]
            assert best == one["y"]
        assert any(id_ in line for line in lines(found))
    assert split >= 2
    with pytest.raises(StateError, match=r"has the id .nobody., in 6,0\d\d records"):
        asyncio.run(explained(s.spec, s.connection, "nobody"))
    for options, code, said in (
        ((), 0, "made again from checkpoint"), (("--json",), 0, '"folded"'), (("--since", "1h"), 0, "  label "),
        (("--since", "soon"), 2, "neither a duration"),
    ):  # fmt: skip
        assert said in s.riparian("explain", "--id", "0001500", *options, code=code)
    assert "made again from checkpoint" in s.riparian("explain", "0001500")


def test_a_label_that_came_before_its_record(stream):
    s = stream()
    features, labels = instances(60, delay=-30)
    send(s.broker, s.spec.topics.labels, labels)
    send(s.broker, s.spec.topics.features, features)
    assert s.run(60, 60).pending.counts["joined"] == 60
    found = asyncio.run(explained(s.spec, s.connection, "0000050"))
    assert found["record"]["label_offset"] > 50
    assert (found["label"]["y"], found["label"]["offset"]) == (json.loads(labels[50].value)["y"], 50)


def test_an_anomaly_without_labels(stream):
    forest = {"model": "online-isolation-forest", "n_trees": 10, "window": 200, "leaf_size": 8}
    s = stream(
        task="anomaly", champion="half-space-trees", challengers={"forest": forest}, topics={"labels": None},
        record={"y": None}, predictions={"challengers": True}, decision={"alert_rate": 0.1}, metrics={"every": "200ms"},
    )  # fmt: skip
    features, _ = instances(400)
    record = json.loads(features[350].value)
    record["x"] |= {"a": 7.5, "b": -3.0}
    features[350] = features[350]._replace(value=json.dumps(record).encode())
    for start, stop in ((0, 300), (300, 400)):  # killed between: the threshold is of its state, or is made again
        with s.worker(place="w") as worker:
            send(s.broker, s.spec.topics.features, features[start:stop])
            s.reach(stop, 0, worker)
            worker.kill()
    sent = s.predictions()
    alone, decided = Threshold("alert_rate", 0.1, scores=True), np.zeros((400, 2))
    every = Program(np.full(400, PREDICT, np.int8), np.arange(400, dtype=np.int32), np.full(400, np.nan), np.ones(400))
    alone.run(every, np.array([one["y"] for one in sent], float)[:, None], decided, 1)
    assert [one["alert"] for one in sent] == [None if np.isnan(one) else one == 1.0 for one in decided[:, 0]]
    assert sent[350]["alert"] is True
    assert sum(one["alert"] is None for one in sent) == 250 + 10
    s.holds()
    scores = [[one["y"] for one in sent], [one["challengers"]["forest"]["y"] for one in sent]]
    assert scores[0].index(max(scores[0][250:])) == 350
    assert sorted(scores[1][9:], reverse=True).index(scores[1][350]) < 100
    found = asyncio.run(explained(s.spec, s.connection, record["id"]))
    assert found["why"] is not None, found["why_not"]
    assert found["why"]["same"]
    assert found["label"] is None
    for model in found["why"]["models"]:
        assert {name: one["value"] for name, one in model["outside"].items()} == {"a": 7.5, "b": -3.0}
    assert any("a = 7.5 is outside of 0" in line for line in lines(found))
    assert any(line.endswith(": an alert") for line in lines(found))
