"""Detectors over errors: every event against a naive twin, one error at a time, however the stream is cut."""

import math

import numpy as np
import pytest

from app.watch import RECENT, Watch
from models.contract import LEARN, PREDICT, Program
from models.drift import create

DETECTORS = {"adwin": {}, "ddm": {}, "page-hinkley": {"threshold": 20.0}}


def stream(task: str, n: int = 3000, *, delay: int = 7, seed: int = 0):
    """Instances predicted and learned `delay` later, and what was predicted: the errors change twice. Some instances
    have no prediction, some are never learned, and two predictions may stand between two labels."""
    rng = np.random.default_rng(seed)
    rate = np.where(np.arange(n) % 2000 < 1000, 0.1, 0.5)
    y = rng.integers(0, 2, n).astype(float) if task == "classification" else rng.normal(0, 1, n)
    if task == "classification":
        wrong = rng.random(n) < rate
        out = np.zeros((n, 2))
        out[np.arange(n), np.where(wrong, 1 - y, y).astype(int)] = 1.0
        out[::97] = 0.0
    else:
        out = (y + rng.normal(0, 1, n) * np.where(rate > 0.3, 5.0, 1.0))[:, None]
    ops = []
    for i in range(n):
        ops.append((PREDICT, i))
        if i >= delay and i % 50:
            ops.append((LEARN, i - delay))
    return ops, y, out


def naive(task: str, ops, y, out, offsets, label_offsets, times):
    """The events, straight from the definition."""
    detectors = {name: create(name, **given) for name, given in DETECTORS.items()}
    errors, since, absolute, last, events = [], 0, [], (0, 0, 0), []
    levels = dict.fromkeys(DETECTORS, 0)
    for op, i in ops:
        if op == PREDICT:
            last = offsets[i], label_offsets[i], times[i]
            continue
        if task == "classification":
            if not out[i].any():
                continue
            errors.append(float(out[i].argmax() != y[i]))
        else:
            absolute.append(abs(out[i, 0] - y[i]))
            errors.append(1.0 - math.exp(-absolute[-1] / (sum(absolute) / len(absolute))))
        drifted = False
        for name, detector in detectors.items():
            level = detector.update(errors[-1])
            if level == 2 or (level == 1 and levels[name] == 0):
                period = errors[since:] or errors[-1:]
                after, before = period[-RECENT:], period[:-RECENT]
                mean = sum(before) / len(before) if before else math.nan
                if not drifted:
                    events.append(
                        (name, ("warning", "drift")[level - 1], len(errors), *last, mean, sum(after) / len(after))
                    )
                drifted = drifted or level == 2
            levels[name] = level
        if drifted:
            since = len(errors)
    return events


def run(task, ops, y, out, cuts, offsets, label_offsets, times, detectors=DETECTORS):
    watch, found = Watch(task, ["m"], detectors), []
    for start, stop in zip([0, *cuts], [*cuts, len(ops)], strict=True):
        part = ops[start:stop]
        op = np.array([o for o, _ in part], np.int8)
        row = np.array([i for _, i in part], np.int32)
        values = np.where(op == LEARN, y[row] if len(row) else 0.0, np.nan)
        rows = row[op == PREDICT]
        program = Program(op, row, values, np.ones(len(op)))
        found += watch.update(program, {"m": out}, offsets[rows], label_offsets[rows], times[rows])
        fresh = Watch(task, ["m"], detectors)  # saved and restored at every cut
        fresh.restore({name: array.copy() for name, array in watch.state().items()})
        watch = fresh
    return found, watch


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_events_are_those_of_the_naive_twin_and_the_same_bits_for_every_cut(task):
    ops, y, out = stream(task)
    n = len(y)
    offsets, label_offsets, times = np.arange(n) * 2, np.arange(n) // 2, 1000 + np.arange(n)
    whole, watch = run(task, ops, y, out, [], offsets, label_offsets, times)
    drifts = [event for event in whole if event.level == "drift"]
    assert {event.detector for event in drifts} == set(DETECTORS)
    rng = np.random.default_rng(1)
    for pieces in (5, 300):
        cuts = sorted(rng.choice(len(ops), pieces, replace=False).tolist())
        again, other = run(task, ops, y, out, cuts, offsets, label_offsets, times)
        assert repr(again) == repr(whole)
        mine, theirs = watch.state(), other.state()
        assert {name: array.tobytes() for name, array in mine.items()} == {k: a.tobytes() for k, a in theirs.items()}
    assert sum(watch.counts().values()) == len(whole)
    for detector in DETECTORS:  # one at a time: several at one error share its period
        alone, _ = run(task, ops, y, out, [], offsets, label_offsets, times, {detector: DETECTORS[detector]})
        events = [event for event in whole if event.detector == detector]
        assert [(e.level, e.n, e.offset, e.label_offset, e.time) for e in alone] == [
            (e.level, e.n, e.offset, e.label_offset, e.time) for e in events
        ]


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("detector", list(DETECTORS))
def test_the_figures_of_an_event(task, detector, monkeypatch):
    ops, y, out = stream(task, seed=3)
    n = len(y)
    offsets, label_offsets, times = np.arange(n) * 2, np.arange(n) // 2, 1000 + np.arange(n)
    monkeypatch.setattr("tests.app.test_watch.DETECTORS", {detector: DETECTORS[detector]})
    found, _ = run(task, ops, y, out, [100, 2000], offsets, label_offsets, times, {detector: DETECTORS[detector]})
    expected = naive(task, ops, y, out, offsets, label_offsets, times)
    assert expected
    assert [event[1:6] for event in found] == [event[:5] for event in expected]
    for event, twin in zip(found, expected, strict=True):
        assert event.time == twin[5]
        assert event.before == pytest.approx(twin[6], nan_ok=True)
        assert event.after == pytest.approx(twin[7])


def test_nothing_watched_is_nothing_kept():
    watch = Watch("classification", ["m"], {})
    program = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    assert watch.update(program, {}, *(np.zeros(0, np.int64),) * 3) == []
    assert watch.state() == {}
    watch.restore({})


def test_a_model_or_detector_that_was_not_watched_begins_anew():
    ops, y, out = stream("classification")
    n = np.arange(len(y))
    _, watch = run("classification", ops, y, out, [], n, n, n)
    other = Watch("classification", ["m", "new"], {"adwin": {}})
    other.restore(watch.state())
    assert sum(other.counts().values()) == 0
    same = Watch("classification", ["m", "new"], DETECTORS)
    same.restore(watch.state())
    assert same.counts()["m", "adwin", "drift"] == watch.counts()["m", "adwin", "drift"] > 0
