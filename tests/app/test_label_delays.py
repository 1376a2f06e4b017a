"""How much earlier labels of one class come than those of another, and when that is worth a word."""

import re
import threading
import weakref

import numpy as np
import pytest

from riparian.app.partition.join.label_delays import MOST_CLASSES, LabelDelays, apart, rounded
from riparian.app.partition.join.maturity import CAME
from riparian.app.partition.learner import PartitionLearner, early_labels
from riparian.app.stream_file.durations import parse_duration
from riparian.app.stream_file.spec import build
from riparian.models.contract import LEARN, PREDICT, Program
from tests.app.test_past import START, release_of

NAMES = ["ok", "fraud", "else"]
DAY = 86_400.0


def came(delays: LabelDelays, codes, seconds, start=0.0, stop=250 * DAY, steps=50):
    """Labels, evenly over a time, in steps."""
    for i, at in enumerate(np.array_split(np.arange(len(codes)), steps)):
        now = int(1000 * (start + (stop - start) * i / (steps - 1)))
        delays.add(np.array(codes, np.float64)[at], np.array(seconds, np.float64)[at], now)
    return delays


def test_labels_of_one_class_that_come_weeks_before_the_others_are_named_with_the_cure():
    rng, n = np.random.default_rng(0), 20_000
    codes = (rng.random(n) < 0.02).astype(float)
    seconds = np.where(codes == 1.0, DAY + rng.exponential(15 * DAY, n), 60 * DAY)
    parts = [came(LabelDelays(), codes[i::2], seconds[i::2]) for i in range(2)]
    said = apart([(one, NAMES[:2]) for one in parts], 90 * DAY)
    assert said is not None
    assert re.match(r"labels of fraud come 4[3-5]d before those of ok, on average", said)
    assert "join: {unlabelled: {after: 60d}}" in said
    means = parts[0].means(NAMES)
    assert set(means) == {"ok", "fraud"}
    assert means["ok"] == 60 * DAY
    assert 14 * DAY < means["fraud"] < 18 * DAY
    assert "after: 30d" in str(apart([(one, NAMES[:2]) for one in parts], 30 * DAY))  # no longer than records wait


@pytest.mark.parametrize(
    ("n", "fraud", "delay"),
    [
        (300, 0.2, 5 * DAY),  # few of the class
        (20_000, 0.1, 40 * DAY),  # more than half of the other's
        (2_000, 0.2, 0.1),  # next to no label comes in between
    ],
)
def test_what_a_model_does_not_err_by_is_not_named(n, fraud, delay):
    rng = np.random.default_rng(1)
    codes = (rng.random(n) < fraud).astype(float)
    late = 60 * DAY if delay > 1 else 1.0
    assert apart([(came(LabelDelays(), codes, np.where(codes == 1, delay, late)), NAMES)], 90 * DAY) is None


@pytest.mark.parametrize("kind", ["equal", "exponential", "heavy", "bursts", "zero"])
def test_equal_delays_are_never_named_however_often_one_looks(kind):
    for seed in range(40):
        rng, n = np.random.default_rng(seed), 5_000
        drawn = {
            "equal": np.full(n, 7 * DAY),
            "exponential": rng.exponential(7 * DAY, n),
            "heavy": np.minimum(rng.pareto(1.2, n), 300) * DAY,
            "bursts": np.repeat(rng.exponential(7 * DAY, n // 50), 50),
            "zero": np.zeros(n),
        }
        codes = (rng.random(n) < rng.choice([0.03, 0.2, 0.5])).astype(float)
        seconds, delays = drawn[kind], LabelDelays()
        for i in range(0, n, 100):
            delays.add(codes[i : i + 100], seconds[i : i + 100], int(1000 * DAY * i / 20))
            assert apart([(delays, NAMES)], 90 * DAY) is None, (kind, seed, i)


def test_what_has_come_of_classes_beyond_the_first_is_not_kept():
    delays = LabelDelays()
    delays.add(np.array([0.0, 19.0, 20.0, 999.0]), np.arange(4.0), 5)
    assert delays.sums[:, 0].sum() == 2
    assert apart([(delays, [str(i) for i in range(1000)])], 1.0) is None
    assert apart([], 1.0) is None


@pytest.mark.parametrize("seconds", [0.0042, 1.26, 75.0, 5000.0, 3 * DAY, 43.7 * DAY, 123 * DAY])
def test_what_is_said_of_a_delay_can_be_written_into_a_stream_file(seconds):
    from riparian.app.stream_file.durations import format_duration

    found = format_duration(rounded(seconds))
    assert parse_duration(found, example="7d") == pytest.approx(seconds, rel=0.5)
    assert len(found) < 7


@pytest.mark.parametrize(("label", "named"), [({}, True), ({"of": "a", "ahead": "1h", "above": 0}, False)])
def test_labels_of_the_stream_itself_get_no_advice_that_its_file_cannot_take(label, named):
    fields = {"name": "s", "task": "classification", "classes": ["ok", "fraud"], "features": {"a": "numeric"}}
    learner = PartitionLearner(build({**fields, "champion": "majority-class", "label": label}, "s"))
    came(learner.delays, [0, 1] * 10_000, [60.0, 7200.0] * 10_000, stop=DAY)
    assert (early_labels([learner]) is not None) == named


@pytest.mark.parametrize(
    ("fields", "every", "named"),
    [
        ({}, 10, True),
        ({}, 2, False),  # labels of most records, so far of one class
        ({"join": {"horizon": "2h", "unlabelled": {"is": "ok", "after": "30m"}}}, 10, False),
    ],
)
def test_labels_of_one_class_alone_are_named_where_most_records_have_none(fields, every, named):
    common = {"name": "s", "task": "classification", "classes": ["ok", "fraud"], "features": {"a": "numeric"}}
    common |= {"champion": "majority-class", "join": {"horizon": "2h"}}
    learner, n, at = PartitionLearner(build(common | fields, "s")), 12_000, (0, 0)
    events = [(START + 1000 * i, {"id": str(i), "x": {"a": 1}}, None) for i in range(n)]
    events += [(START + 1000 * i + 999, None, {"id": str(i), "y": "fraud"}) for i in range(0, n // 5, every)]
    events.sort(key=lambda one: one[0])
    for start in range(0, len(events), 500):
        release, at = release_of(events[start : start + 500], at)
        learner.step(release)
    said = early_labels([learner])
    assert (said is not None) == named
    assert not named or said.startswith("all of 240 labels are fraud, and 4,")


def test_records_that_left_before_a_start_are_held_against_no_labels_after_it():
    common = {"name": "s", "task": "classification", "classes": ["ok", "fraud"], "features": {"a": "numeric"}}
    spec = build({**common, "champion": "majority-class", "join": {"max_pending": 10}}, "s")
    learner, again = PartitionLearner(spec), PartitionLearner(spec)
    events = [(START + i, {"id": str(i), "x": {"a": 1}}, None) for i in range(2000)]
    release, at = release_of(events, (0, 0))
    learner.step(release)
    again.restore(learner.snapshot())
    for one in (learner, again):
        came(one.delays, [0] * 100, [60.0] * 100, stop=DAY)
    assert early_labels([learner]).startswith("all of 100 labels are ok, and 1,990 records have none")
    assert early_labels([again]) is None
    release, _ = release_of([(START + i, {"id": str(i), "x": {"a": 1}}, None) for i in range(2000, 3500)], at)
    again.step(release)
    assert early_labels([again]).startswith("all of 100 labels are ok, and 1,500 records have none")


@pytest.mark.parametrize("unlabelled", [None, {"after": "30m"}, {"is": "ok", "after": "30m"}])
def test_a_learner_measures_delays_by_class_and_names_them_unless_labels_wait(unlabelled):
    fields = {"name": "s", "task": "classification", "classes": ["ok", "fraud"], "features": {"a": "numeric"}}
    spec = build({**fields, "champion": "majority-class", "join": {"horizon": "2h", "unlabelled": unlabelled}}, "s")
    learner, n = PartitionLearner(spec), 6000
    events = [(START + 1000 * i, {"id": str(i), "x": {"a": i % 7}}, None) for i in range(n)]
    events += [
        (
            START + 1000 * i + (60_000 if i % 10 else 1_500_000) + 1,
            None,
            {"id": str(i), "y": "fraud" if i % 10 else "ok"},
        )
        for i in range(n)
    ]
    at, events = (0, 0), sorted(events, key=lambda one: one[0])
    for start in range(0, len(events), 500):
        release, at = release_of(events[start : start + 500], at)
        learner.step(release)
    means, said = learner.delays.means(["ok", "fraud"]), early_labels([learner])
    if unlabelled is None:
        assert means == {"ok": pytest.approx(1500, rel=0.01), "fraud": pytest.approx(60, rel=0.05)}
        assert said is not None
        assert said.startswith("labels of fraud come 24m before those of ok")
        assert "after: 25m" in said
    else:
        assert said is None
        assert ("fraud" in means) == ("is" not in unlabelled)


def step(rng):
    """A step's program with labels, their codes and delays."""
    op = rng.choice([PREDICT, LEARN, CAME], 1 + rng.integers(40)).astype(np.int8)
    y = np.where(op == PREDICT, np.nan, rng.integers(0, MOST_CLASSES + 3, len(op)))
    codes = y[op != PREDICT]
    events = Program(op, np.arange(len(op), dtype=np.int32), y, np.ones(len(op)))
    return events, codes, rng.exponential(9.0, len(codes))


def test_labels_that_are_counted_later_are_those_that_came():
    rng, delays, slow = np.random.default_rng(0), LabelDelays(), np.zeros((MOST_CLASSES, 3))
    for i in range(400):
        events, codes, seconds = step(rng)
        delays.note(events, seconds, i)
        for code, waited in zip(codes, seconds, strict=True):
            if code < MOST_CLASSES:
                slow[int(code)] += 1.0, waited, waited * waited
        if rng.random() < 0.1:
            np.testing.assert_allclose(delays.sums, slow)
    np.testing.assert_allclose(delays.sums, slow)


def test_of_a_step_only_its_labels_are_kept():
    delays = LabelDelays()
    events = Program(np.zeros(10_000, np.int8), np.zeros(10_000, np.int32), np.zeros(10_000), np.ones(10_000))
    events.op[5] = LEARN
    kept = [weakref.ref(column) for column in events]
    delays.note(events, np.ones(1), 0)
    del events
    assert [one() for one in kept] == [None] * 4
    assert delays.sums.sum() == 3.0


def test_who_reads_while_labels_are_counted_sees_all_of_them_or_none(monkeypatch):
    delays, found, bincount = LabelDelays(), list[float](), np.bincount
    reader = threading.Thread(target=lambda: found.extend(delays.sums[1]))

    def counted(*args):
        if delays._sums[1].any() and not reader.ident:
            reader.start()
            reader.join(0.2)  # where nothing holds it up, it has read
        return bincount(*args)

    monkeypatch.setattr(np, "bincount", counted)
    delays.add(np.ones(1000), np.full(1000, 2.0), 0)
    reader.join()
    assert found == [1000.0, 2000.0, 4000.0]
