"""Intervals and sets in the fold: in records, metrics and states, and through promotions. That they are the same for
every cut and restart is asked in test_promotion.py."""

import json

import numpy as np
import pytest

from riparian.app.errors import SpecError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.predictions.conformal import Conformal
from tests.app.test_promotion import FILE, fold, records

OF_VALUES = {
    "task": "regression",
    "champion": "mean",
    "challengers": {"tree": {"model": "fimt-dd", "grace_period": 50}},
    "promotion": "automatic",
}
TASKS = {
    "classification": ({"promotion": "automatic"}, {"turns": (2500,)}),
    "regression": (OF_VALUES, {"values": True}),
}
BY_CLASS = {"predictions": {"coverage": {"share": 0.8, "by": "class"}, "challengers": True}}


def stream(task, **changes):
    given = {**FILE, **TASKS[task][0], "predictions": {"coverage": 0.8, "challengers": True}}
    return build({**given, **changes}, "s")


@pytest.mark.parametrize(("task", "more"), [*((task, {}) for task in TASKS), ("classification", BY_CLASS)])
def test_coverage_is_kept_through_promotions_and_told_of_the_champion_and_of_classes(task, more):
    whole, _, events, _ = fold(stream(task, **more), records(**TASKS[task][1]), 100_000)
    assert events
    coverage = whole.figures().overall["champion"]["coverage"]
    assert abs(coverage - 0.8) < 0.02 if task == "regression" else 0.79 < coverage <= 1.0
    told = {name for classes in whole.figures().by_class["champion"].values() for name in classes}
    assert ("coverage" in told) == (task == "classification")
    assert "coverage" not in whole.figures().overall[next(name for name in whole.roles if name != "champion")]


def test_what_is_written_is_what_a_label_scores_and_belongs_to_the_champion_of_that_moment():
    spec, data = stream("regression"), records(values=True)
    learner, sent, events, _ = fold(spec, data, 333)
    assert [event.event for event in events]
    labels = {json.loads(raw)["id"]: json.loads(raw)["y"] for raw in data[1].values}
    scored = [one for one in sent if one["id"] in labels and one["lower"] is not None]
    assert {one["model"] for one in scored} == {"mean", "fimt-dd"}
    for one in scored:
        assert (one["lower"] + one["upper"]) / 2 == pytest.approx(one["y"], abs=1e-9)
    held = [one["lower"] <= labels[one["id"]] <= one["upper"] for one in scored]
    found = learner.figures().overall["champion"]
    # All instances but the last few have met their labels, which are learned in the order of the records.
    n = learner.intervals.state()["interval/n"][1]
    assert found["coverage"] == pytest.approx(np.mean(held[:n]))
    assert found["interval_width"] == pytest.approx(np.mean([one["upper"] - one["lower"] for one in scored[:n]]))


def test_sets_hold_the_predicted_class_and_nothing_is_said_before_enough_labels():
    spec, data = stream("classification"), records()
    sent = fold(spec, data, 200)[1]
    assert sent[0]["set"] is None
    # For 0.8 it takes four labels, which come a few instances late.
    assert [one["set"] is None for one in sent].index(False) in range(4, 15)
    assert all(one["set"] is None or one["y"] in one["set"] for one in sent)
    assert {tuple(sorted(one["set"])) for one in sent if one["set"]} == {("up",), ("down",), ("down", "up")}


def test_a_state_of_before_goes_on_and_what_waits_then_is_not_scored():
    data = records(600)
    cut = fold(stream("classification", predictions={}), data, 100)[0].snapshot()
    learner = PartitionLearner(stream("classification"))
    said = learner.restore(cut)
    assert [one for one in said if "predictions.coverage was none, is 0.8" in one]
    assert learner.origin is not None  # what was sent before was sent without
    assert np.isnan(learner.pending.out[".interval/0"][: learner.pending.n_waiting, 0]).all()
    assert "coverage" not in learner.figures().overall["champion"]


def test_a_week_between_prediction_and_label_scores_what_was_said_a_week_before():
    """A stream whose labels all come after the last prediction: nothing is known while predictions are made."""
    n = 3000
    out, y = np.zeros((2 * n, 1)), np.random.default_rng(1).normal(size=2 * n)
    op = np.concatenate([np.full(n, PREDICT), np.full(n, LEARN), np.full(n, PREDICT), np.full(n, LEARN)])
    row = np.concatenate([np.arange(n), np.arange(n), np.arange(n, 2 * n), np.arange(n, 2 * n)])
    program = Program(op.astype(np.int8), row.astype(np.int32), y[row], np.ones(4 * n))
    conformal = Conformal("regression", 1, 0.9, window=n)
    said = [np.zeros((2 * n, 1)) for _ in range(3)]
    conformal.run(program, out, said)
    assert np.isnan(said[0][:n]).all()
    assert len(np.unique(said[0][n:, 0])) == 1
    assert abs(conformal.windowed()["coverage"] - 0.9) < 0.03


@pytest.mark.parametrize(
    ("coverage", "said"),
    [
        (0.2, "predictions.coverage.share: expected"),
        (1, "predictions.coverage.share: expected"),
        ("most", "predictions.coverage"),
        ({"share": 0.9, "by": "class"}, "predictions.coverage.by: expected nothing, since a regression has no classes"),
    ],
)
def test_a_coverage_that_makes_no_sense_is_one_sentence(coverage, said):
    with pytest.raises(SpecError, match=said) as caught:
        stream("regression", predictions={"coverage": coverage})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("task", TASKS)
def test_while_predictions_are_paused_nothing_is_said_and_all_is_scored(task):
    spec, data = stream(task, promotion=None), records(600, **({"values": True} if task == "regression" else {}))
    plain, learner = PartitionLearner(spec), PartitionLearner(spec)
    learner.lineup.steering.pause()
    sent = []
    for one in (plain, learner):
        merge = PartitionGroup(one.buffers(), limit=100)
        for name, raw in zip(("features", "labels"), data, strict=True):
            merge.buffers[name].add(raw)
        while merge.n_waiting:
            sent.append([json.loads(value) for value in one.encode(one.step(merge.release(EVERYTHING)))])
    told = sent[len(sent) // 2 :]
    assert all(one.get("lower") is None and one.get("set") is None for records_ in told for one in records_)
    assert learner.figures().overall["champion"] == plain.figures().overall["champion"]


CALIBRATED = {"predictions": {"calibrated": True, "challengers": True, "coverage": 0.8}}


def test_calibrated_probabilities_lose_less_and_change_no_class_through_promotions():
    spec, data = stream("classification", **CALIBRATED), records(turns=(2500,))
    whole, sent, events, _ = fold(spec, data, 100_000)
    assert events
    assert {f"calibration/{role}/scaling" for role in whole.roles} <= set(whole.snapshot().arrays)
    plain, raw, *_ = fold(stream("classification"), data, 1000)
    assert [one["y"] for one in raw] == [one["y"] for one in sent]
    assert [one["p"] for one in raw] != [one["p"] for one in sent]
    found, before = whole.figures().overall, plain.figures().overall
    assert {role: one["accuracy"] for role, one in found.items()} == {r: one["accuracy"] for r, one in before.items()}
    gains = [before[role]["log_loss"] - found[role]["log_loss"] for role in found]
    assert min(gains) > -0.001
    assert max(gains) > 0.1  # the last label is sure of itself


def test_the_calibration_error_is_known_without_scaling_and_of_classes_only():
    learner = fold(stream("classification", predictions={}), records(700), 100)[0]
    assert all(0 <= found["calibration_error"] <= 1 for found in learner.figures().recent.values())
    assert not [name for name in learner.pending.out if "said" in name]
    values = fold(stream("regression"), records(300, values=True), 100)[0]
    assert not any("calibration_error" in found for found in values.figures().overall.values())
    older = learner.snapshot()
    arrays = {name: array for name, array in older.arrays.items() if not name.startswith("calibration/")}
    again = PartitionLearner(stream("classification", **CALIBRATED))
    assert any(
        "predictions.calibrated was none, is true" in one for one in again.restore(older._replace(arrays=arrays))
    )
    assert "calibration_error" not in again.figures().overall["champion"]


def test_values_have_no_probabilities_to_calibrate():
    with pytest.raises(SpecError, match=r"predictions\.calibrated: expected false with task regression"):
        stream("regression", predictions={"calibrated": True})
