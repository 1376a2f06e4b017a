"""Streams of the task anomaly: learned at arrival, ranked where labels come, and waiting for none that cannot."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.errors import SpecError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.models.contract import PREDICT, Program, Schema
from riparian.models.evaluation.auroc import areas
from riparian.models.predictions.decision import Threshold
from riparian.models.registry import create
from riparian.topics.records import RawBatch
from tests.app.test_learner import fold, records

STREAM = {
    "name": "s",
    "task": "anomaly",
    "features": {"a": "numeric", "c": {"type": "nominal", "max_values": 6}, "b": "boolean"},
    "champion": {"model": "half-space-trees", "window": 20, "max_window": 60, "height": 5, "n_trees": 4},
    "challengers": {"flat": {"model": "half-space-trees", "window": 10, "height": 1, "n_trees": 4}},
    "join": {"horizon": "40ms", "max_pending": 8, "max_labels": 5},
    "metrics": {"window": 25},
    "drift": {"on_drift": "reset"},
}


ALERTS = {**STREAM, "decision": {"alert_rate": 0.2}}


@pytest.mark.parametrize(
    ("seed", "limit", "restart_every", "stream"),
    [(0, 1, 0, STREAM), (1, 7, 2, STREAM), (2, 1, 0, ALERTS), (3, 7, 2, ALERTS), (4, 33, 1, ALERTS)],
)
def test_the_same_fold_however_it_is_cut_and_restarted(seed, limit, restart_every, stream):
    features, (_, labels) = records(seed, 150)[0], records(seed, 150, bags=True)
    whole = fold(features, labels, 10_000, stream=stream)
    parts = fold(features, labels, limit, restart_every, stream=stream)
    assert repr(parts[:2]) == repr(whole[:2])  # before the first window is full, scores are NaN
    assert parts[2].digest() == whole[2].digest()
    assert parts[2].pending.counts["joined"] > 10
    assert parts[2].figures().recent["champion"] == whole[2].figures().recent["champion"]
    assert parts[2].figures().by_class == whole[2].figures().by_class
    assert ("alert_rate" in whole[2].figures().recent["flat"]) == (stream is ALERTS)


def raw(rows):
    values = [json.dumps(row).encode() for row in rows]
    return RawBatch(list(range(len(rows))), list(range(len(rows))), [None] * len(rows), values)


def step(learner, features, labels=()):
    merge = PartitionGroup(limit=10_000)
    merge.buffers["features"].add(raw(features))
    merge.buffers["labels"].add(raw(labels))
    return learner.step(merge.release(EVERYTHING))


def test_an_instance_is_learned_right_after_its_prediction_and_labels_only_rank():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    x[::20] += 5.0
    y = (np.arange(300) % 20 == 0).astype(int)
    parameters = {"window": 50, "height": 6, "n_trees": 5}
    stream = {"name": "s", "task": "anomaly", "features": {"a": "numeric", "b": "numeric"}}
    learner = PartitionLearner(build(stream | {"champion": {"model": "half-space-trees", **parameters}}, "test"))
    features = [{"id": str(i), "x": {"a": a, "b": b}} for i, (a, b) in enumerate(x.tolist())]
    outcome = step(learner, features, [{"id": str(i), "y": int(v)} for i, v in enumerate(y)])
    alone = create("half-space-trees", Schema((0, 0), 1, "anomaly"), **parameters)
    expected = []
    for row in x:
        expected.append(alone.predict_many(row[None])[0, 0])
        alone.learn_many(row[None], [np.nan])
    scores = outcome.p["champion"][:, 0]
    np.testing.assert_array_equal(scores, expected)
    said = [json.loads(one) for one in learner.encode(outcome)]
    assert said[0]["y"] is None
    assert said[-1]["y"] == scores[-1]
    known = ~np.isnan(scores)
    expected = areas(y[known], np.column_stack((1.0 - scores, scores))[known], np.ones(known.sum()))
    assert learner.figures().recent["champion"] == {"n": 250, "auroc": pytest.approx(expected[1])}
    assert expected[1] > 0.9


def test_a_stream_without_labels_waits_for_none():
    stream = {**STREAM, "topics": {"labels": None}, "record": {"y": None}}
    del stream["join"]
    learner = PartitionLearner(build(stream, "test"))
    outcome = step(learner, [{"id": str(i), "x": {"a": float(i % 7)}} for i in range(60)])
    assert np.isnan(outcome.p["champion"][:20]).all()
    assert not np.isnan(outcome.p["champion"][20:]).any()
    figures = learner.figures()
    assert (figures.n_instances, figures.n_waiting) == (60, 0)
    assert not any(figures.counts.values())


def test_a_label_of_an_anomaly_is_1_or_0():
    learner = PartitionLearner(build(STREAM, "test"))
    labels = [{"id": str(i), "y": y} for i, y in enumerate([0, 1, 1.0, 2, 0.5, "1", True])]
    labels += [{"id": f"more{i}", "y": 7 if i == 20 else i % 2} for i in range(60)]  # alike: they are read as a block
    features = [{"id": "a", "x": {"a": 1.0}, "y": 3}]
    outcome = step(learner, features, labels)
    rejected = outcome.rejected["labels"]
    assert [(one.offset, one.reason) for one in rejected] == [(i, "wrong-label") for i in (3, 4, 5, 6, 27)]
    assert "y: expected 1 of an anomaly, or 0, found 2" in rejected[0].detail
    assert [one.reason for one in outcome.rejected["features"]] == ["wrong-label"]


def test_the_most_unusual_are_alerts_with_and_without_labels():
    """As a threshold says that has seen the scores alone. Its rate is told of all, its precision where labels come."""
    rng, n = np.random.default_rng(1), 3000
    y = (rng.random(n) < 0.05).astype(int)
    rows = [{"id": str(i), "x": {"a": float(a)}} for i, a in enumerate(rng.normal(size=n) + 7.0 * y)]
    model = {"model": "half-space-trees", "window": 50, "height": 6, "n_trees": 10}
    stream = {"name": "s", "task": "anomaly", "features": {"a": "numeric"}, "metrics": {"window": 500}}
    stream |= {"champion": model, "challengers": {"other": {**model, "height": 3}}, "decision": {"alert_rate": 0.05}}
    learner = PartitionLearner(build(stream, "test"))
    outcome = step(learner, rows, [{"id": str(i), "y": int(v)} for i, v in enumerate(y)])
    scores, twin, expected = outcome.p["champion"], Threshold("alert_rate", 0.05, scores=True), np.zeros((n, 2))
    every = Program(np.full(n, PREDICT, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
    twin.run(every, scores, expected, 1)
    said = [json.loads(one) for one in learner.encode(outcome)]
    assert [one["y"] for one in said] == [None if np.isnan(one) else one for one in scores[:, 0]]
    assert [one["alert"] for one in said] == [None if np.isnan(one) else one == 1.0 for one in expected[:, 0]]
    assert sum(one["alert"] is None for one in said) == 50 + 1 / 0.05
    alerts, found = np.array([one["alert"] is True for one in said]), learner.figures()
    assert alerts[70:].mean() == found.overall["champion"]["alert_rate"] == pytest.approx(0.05, abs=0.01)
    assert found.recent["champion"]["alert_rate"] == pytest.approx(0.05, abs=0.01)
    assert found.recent["champion"]["threshold"] == twin.value
    assert found.recent["other"]["threshold"] != twin.value
    of_alerts, last = found.by_class["champion"], slice(n - 500, n)
    assert set(of_alerts) == {"1"}
    assert of_alerts["1"]["precision"] == pytest.approx(y[last][alerts[last]].mean()) == pytest.approx(0.8, abs=0.2)
    assert of_alerts["1"]["recall"] == pytest.approx(alerts[last][y[last] == 1].mean())
    others = PartitionLearner(build({**stream, "predictions": {"challengers": True}}, "test"))
    of_other = [json.loads(one)["challengers"]["other"] for one in others.encode(step(others, rows))]
    Threshold("alert_rate", 0.05, scores=True).run(every, outcome.p["other"], expected, 1)
    assert [one["alert"] for one in of_other] == [None if np.isnan(one) else one == 1.0 for one in expected[:, 0]]
    assert sum(one["alert"] is True for one in of_other) == pytest.approx(0.05 * n, rel=0.2)
    alone = PartitionLearner(build({**stream, "topics": {"labels": None}, "record": {"y": None}}, "test"))
    assert [json.loads(one)["alert"] for one in alone.encode(step(alone, rows))] == [one["alert"] for one in said]
    assert alone.figures().overall["champion"] == {"n": 0, "alert_rate": found.overall["champion"]["alert_rate"]}
    plain = PartitionLearner(build({name: value for name, value in stream.items() if name != "decision"}, "test"))
    assert all("alert" not in json.loads(one) for one in plain.encode(step(plain, rows)))
    arrays, others = plain.snapshot().arrays, alone.snapshot().arrays
    assert all(
        array.tobytes() == others[name].tobytes() for name, array in arrays.items() if name.startswith("models/")
    )


def test_a_state_of_before_gets_alerts_and_another_rate_goes_on():
    rows = [{"id": str(i), "x": {"a": float(i % 97)}} for i in range(400)]
    cut = (before := PartitionLearner(build(STREAM, "test"))) and step(before, rows) and before.snapshot()
    learner = PartitionLearner(build(ALERTS, "test"))
    (note,) = [one for one in learner.restore(cut) if "decision" in one]
    assert note.startswith("decision was none, is {alert_rate: 0.2}")
    step(learner, [{**row, "id": f"n{i}"} for i, row in enumerate(rows)], [{"id": "n399", "y": 1}])
    assert learner.figures().by_class["champion"]["1"]["n"] == 1.0
    cut = learner.snapshot()
    other = PartitionLearner(build({**ALERTS, "decision": {"alert_rate": 0.1}}, "test"))
    assert not any("begun anew" in one for one in other.restore(cut))
    assert other.figures().overall["champion"]["alert_rate"] == learner.figures().overall["champion"]["alert_rate"]
    plain = PartitionLearner(build(STREAM, "test"))
    plain.restore(cut)
    assert "alert_rate" not in plain.figures().overall["champion"]
    assert plain.figures().by_class["champion"] == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"decision": {"recall": 0.9}},
            "decision.recall: expected alert_rate with task anomaly, whose labels may never",
        ),
        (
            {"decision": {"precision": 0.9}},
            "decision.precision: expected alert_rate .* write decision: {alert_rate: 0.01}",
        ),
        ({"decision": {"costs": {"1": {"0": 5}}}}, "decision.costs: expected alert_rate"),
        ({"decision": {"class": 1, "alert_rate": 0.1}}, "decision.class: expected none .* found .1.; remove it"),
        ({"decision": {"alert_rate": 0.9}}, "decision.alert_rate: expected a number of at most 0.5, found 0.9"),
        ({"decision": {}}, "decision: expected one of costs, precision, recall, alert_rate, found none"),
        ({"drift": {"on_drift": "replace"}}, "drift.on_drift: expected nothing, alert or reset"),
        ({"metrics": {"fading": 0.99}}, "metrics.fading: expected a window"),
        ({"predictions": {"coverage": 0.9}}, "predictions.coverage: expected nothing"),
        ({"control": True, "promotion": "propose"}, "promotion: expected nothing"),
        ({"classes": [0, 1]}, "classes: expected only with task classification"),
        ({"champion": "hoeffding-tree"}, "does not do anomaly: use one of half-space-trees"),
    ],
)
def test_what_has_no_meaning_for_scores_is_refused(fields, said):
    with pytest.raises(SpecError, match=said):
        build({**STREAM, **fields}, "test")


def test_paused_predictions_are_null_and_no_scores():
    learner = PartitionLearner(build({**ALERTS, "control": True}, "test"))
    outcome = step(learner, [{"id": str(i), "x": {"a": float(i % 7)}} for i in range(90)])
    assert json.loads(learner.encode(outcome)[-1])["alert"] is not None
    learner.lineup.steering.pause()
    outcome = step(learner, [{"id": "z", "x": {"a": 3.0}}])
    said = json.loads(learner.encode(outcome)[-1])
    assert (said["y"], said["alert"]) == (None, None)


def test_a_file_is_evaluated_by_its_ranks(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(800) < 0.05).astype(int)
    x = rng.normal(size=800) + 8.0 * y
    file = tmp_path / "a.csv"
    file.write_text("a,odd\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(x, y, strict=True)))
    model = ["half-space-trees", "--set", "height=6", "--set", "window=50"]
    arguments = ["evaluate", str(file), "--task", "anomaly", "--label", "odd", "--model", *model]
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == 0, shown.output
    assert "AUROC over the last 1,000 labels" in " ".join(shown.output.split())
    assert re.search(r"labels scored +750\s", shown.output)
    assert re.search(r"labels not scored, nothing was known +50\s", shown.output)
    assert float(re.search(r"AUROC +(0\.\d+)", shown.output)[1]) > 0.9


def test_an_evaluation_by_a_stream_file_tells_alerts_as_its_worker_would(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.05).astype(int)
    x = rng.normal(size=4000) + 8.0 * y
    (tmp_path / "a.csv").write_text("a,odd\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(x, y, strict=True)))
    model = {"model": "half-space-trees", "height": 6, "window": 50}
    stream = {"name": "s", "task": "anomaly", "features": {"a": "numeric"}, "champion": model}
    (tmp_path / "s.yaml").write_text(json.dumps({**stream, "decision": {"alert_rate": 0.05}}))
    arguments = ["evaluate", str(tmp_path / "a.csv"), "--stream", str(tmp_path / "s.yaml"), "--label", "odd", "--json"]
    done = CliRunner().invoke(
        cli, [*arguments, "--model", "half-space-trees", "--set", "height=6", "--set", "window=50"]
    )
    (found,) = json.loads(done.stdout)["runs"]
    learner = PartitionLearner(build({**stream, "decision": {"alert_rate": 0.05}}, "test"))
    rows = [
        {"id": str(i), "x": {"a": float(f"{a:.4f}")}, "y": int(b)} for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    step(learner, rows)
    figures = learner.figures()
    assert found["alert_rate"] == figures.overall["champion"]["alert_rate"] == pytest.approx(0.05, abs=0.01)
    assert found["curves"]["threshold"][-1] == figures.recent["champion"]["threshold"]
    of_alerts = learner.roles["champion"].metrics.by_class()[1]
    assert {name: found["classes"]["1"][name] for name in of_alerts} == of_alerts
    assert 0.7 < of_alerts["precision"] <= 1.0
    assert found["curves"]["recall:1"][-1] == figures.by_class["champion"]["1"]["recall"]
