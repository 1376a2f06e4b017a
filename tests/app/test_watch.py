"""Detectors over a series: every event against a naive twin, one value at a time, however the series is cut."""

import math
import statistics

import numpy as np
import pytest

from riparian.app.partition.drift.detection import ABSOLUTE, MISTAKES, RECENT, VALUES, Signal, _fallen, errors
from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.drift import create
from tests.models.naive_drift import NaiveScale

DETECTORS = {"adwin": {}, "ddm": {}, "page-hinkley": {"threshold": 20.0}}


def stream(kind: str, n: int = 3000, *, delay: int = 7, seed: int = 0):
    """Instances predicted and learned `delay` later, and what was predicted: the errors change twice. Some instances
    have no prediction, some are never learned, and two predictions may stand between two labels."""
    rng = np.random.default_rng(seed)
    rate = np.where(np.arange(n) % 2000 < 1000, 0.1, 0.5)
    y = rng.integers(0, 2, n).astype(float) if kind == MISTAKES else rng.normal(0, 1, n)
    if kind == MISTAKES:
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


def naive(kind: str, values: list[float], detectors=DETECTORS):
    """The events of a series, straight from the definition."""
    watching = {name: create(name, **given) for name, given in detectors.items()}
    since, events, levels, reference, last = 0, [], dict.fromkeys(detectors, 0), math.nan, ""
    scale = NaiveScale(kind == ABSOLUTE)
    for i in range(len(values)):
        drifted = False
        changed, value = (False, values[i]) if kind == MISTAKES else scale.take(values[i])
        if changed:
            watching = {name: create(name, **given) for name, given in detectors.items()}
            reference, last = statistics.fmean(values[since:i][-RECENT:]), "scale"
            since, levels = i, dict.fromkeys(detectors, 0)
        for name, detector in watching.items():
            level = detector.update(math.nan if value is None else value)
            if level == 2 or (level == 1 and levels[name] == 0):
                period = values[since : i + 1]
                after, before = period[-RECENT:], period[:-RECENT]
                old, new = sum(before) / len(before) if before else reference, sum(after) / len(after)
                if last == "drift":
                    fallen = new < old
                elif before:
                    fallen = new <= old
                elif last:  # a further step, if it is not clear
                    fallen = new - old <= 2.0 * statistics.pstdev(after) / math.sqrt(len(after))
                else:
                    half = len(after) // 2
                    fallen = half > 0 and statistics.fmean(after[half:]) < statistics.fmean(after[:half])
                said = "improvement" if level == 2 and kind != VALUES and fallen else ("warning", "drift")[level - 1]
                if not drifted:
                    events.append((i, name, said, i + 1, old, new))
                    said_first = said
                drifted = drifted or level == 2
            levels[name] = level
        since, reference, last = (i + 1, new, said_first) if drifted else (since, reference, last)
    return events


def scored(kind: str, ops, y, out) -> list[float]:
    """Errors of the labels whose instance was predicted."""
    found = []
    for op, i in ops:
        if op == LEARN and (kind == ABSOLUTE or out[i].any()):
            found.append(float(out[i].argmax() != y[i]) if kind == MISTAKES else float(abs(out[i, 0] - y[i])))
    return found


def run(kind: str, parts: list[np.ndarray], detectors=DETECTORS):
    """The events of a series that comes in parts, saved and restored at every cut."""
    signal, found, seen = Signal(detectors, kind), [], 0
    for part in parts:
        found += [(seen + one.i, *one[1:]) for one in signal.update(part)]
        seen += len(part)
        fresh = Signal(detectors, kind)
        fresh.restore(signal.copy())
        signal = fresh
    return found, signal


def series(kind: str, seed: int = 0) -> np.ndarray:
    if kind == VALUES:
        rng = np.random.default_rng(seed)
        return rng.normal(40, 7, 3000) + np.where(np.arange(3000) % 2000 < 1000, 0.0, 10.0)
    ops, y, out = stream(kind, seed=seed)
    return np.array(scored(kind, ops, y, out))


@pytest.mark.parametrize("kind", [MISTAKES, ABSOLUTE])
def test_errors_are_those_of_labels_whose_instance_was_predicted(kind):
    ops, y, out = stream(kind)
    op, row = np.array([o for o, _ in ops], np.int8), np.array([i for _, i in ops], np.int32)
    program = Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(len(op)))
    if kind == ABSOLUTE:
        out[::97] = np.nan
    places, found = errors(kind, program, out)
    there = [place for place, (o, i) in enumerate(ops) if o == LEARN and i % 97]
    assert places.tolist() == there
    wanted = [float(out[i].argmax() != y[i]) if kind == MISTAKES else abs(out[i, 0] - y[i]) for i in row[there]]
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", [MISTAKES, ABSOLUTE, VALUES])
def test_events_are_those_of_the_naive_twin_and_the_same_bits_for_every_cut(kind):
    values = series(kind)
    detectors = {name: given for name, given in DETECTORS.items() if kind != VALUES or name != "ddm"}
    whole, signal = run(kind, [values], DETECTORS)
    assert {name for _, name, *_ in whole} == set(detectors)
    rng = np.random.default_rng(1)
    for pieces in (5, 300):
        again, other = run(kind, np.split(values, np.sort(rng.choice(len(values), pieces, replace=False))))
        assert repr(again) == repr(whole)
        one, two = signal.state(), other.state()
        assert {name: array.tobytes() for name, array in one.items()} == {k: a.tobytes() for k, a in two.items()}
    assert signal.counts.sum() == len(whole)
    for name, given in detectors.items():  # one at a time: several at one value share its period
        found, alone = run(kind, [values[:100], values[100:2000], values[2000:]], {name: given})
        expected = naive(kind, values.tolist(), {name: given})
        assert [event[:4] for event in found] == [event[:4] for event in expected]
        for event, wanted in zip(found, expected, strict=True):
            assert event[4:] == pytest.approx(wanted[4:], nan_ok=True, abs=1e-9)
        assert found
        last = max((n for _, _, level, n, *_ in found if level == "drift"), default=0)
        assert alone.alarmed(len(values) - last + 1) == (last > 0)
        assert not alone.alarmed(len(values) - last)


def test_a_scale_measured_anew_begins_a_period():
    """Where a detector has not seen the fall: the twin, and a rise afterwards is known as one."""
    rng = np.random.default_rng(3)
    values = rng.exponential(1.0, 4000) * np.where(np.arange(4000) < 300, 1e6, 1.0) * (1 + (np.arange(4000) >= 3000))
    found, _ = run(ABSOLUTE, np.split(values, [10, 100, 101, 600, 601, 2000]), {"ddm": {}})
    expected = naive(ABSOLUTE, values.tolist(), {"ddm": {}})
    assert [event[:4] for event in found] == [event[:4] for event in expected]
    drifts = [(n, before, after) for _, _, level, n, before, after in found if level == "drift"]
    assert len(drifts) == 1
    n, before, after = drifts[0]
    assert 3000 < n < 4000
    assert before == pytest.approx(1.0, abs=0.3)  # without the beginning
    assert after == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beginning", [1.0, 1e3])
def test_errors_that_stay_as_they_are_raise_no_drift_whatever_came_first(beginning, seed):
    rng = np.random.default_rng(seed)
    values = np.abs(rng.normal(0, 5.0, 20000)) * np.where(np.arange(20000) < 400, beginning, 1.0)
    detectors = {"adwin": {}, "ddm": {}, "hddm-a": {}, "page-hinkley": {}}
    found, _ = run(ABSOLUTE, np.array_split(values, 50), detectors)
    assert [event for event in found if event[2] == "drift"] == []
    values[10000:] *= 1.5
    for name in ("adwin", "hddm-a"):
        found, _ = run(ABSOLUTE, np.array_split(values, 50), {name: {}})
        assert 10000 < min(n for _, _, level, n, *_ in found if level == "drift") < 11000


@pytest.mark.parametrize("seed", range(3))
def test_errors_that_have_fallen_to_none_raise_no_drift(seed):
    """A detector finds one improvement in several steps, of which the last compare no error with none."""
    values = np.concatenate((np.random.default_rng(seed).random(2000) < 0.3, np.zeros(4000))).astype(np.float64)
    found, _ = run(MISTAKES, np.array_split(values, 50), {"adwin": {}})
    assert found[-1][-2:] == (0.0, 0.0)
    assert {level for _, _, level, *_ in found} == {"improvement"}


def test_a_state_of_running_sums_goes_on_in_their_unit():
    rng = np.random.default_rng(5)
    for kind, values in ((ABSOLUTE, rng.exponential(2.0, 3000)), (VALUES, rng.normal(40.0, 7.0, 3000))):
        signal = Signal({"adwin": {}}, kind)
        arrays = signal.copy()
        sums = [3000.0, values.sum(), 0.0] if kind == ABSOLUTE else [3000.0, 40.0, 3000.0 * 49.0]
        arrays["scale"] = np.array(sums)
        signal.restore(arrays)
        assert signal.update(values) == []
        assert signal.scale[2] == pytest.approx(2.0 if kind == ABSOLUTE else 7.0, rel=0.1)
        assert signal.scale[1] == (0.0 if kind == ABSOLUTE else 40.0)
        arrays["scale"] = np.array([99.0, *sums[1:]])  # too few
        signal.restore(arrays)
        assert not signal.scale.any()


def test_a_first_event_is_told_by_the_halves_of_what_was_seen():
    learning = np.concatenate((np.ones(40), np.zeros(40)))
    assert _fallen(math.nan, learning, measured=False, follows_drift=False)
    assert not _fallen(math.nan, learning[::-1], measured=False, follows_drift=False)


class Fires:
    """A detector that finds a change at one place."""

    def __init__(self, place):
        self.place = place

    def update_many(self, values):
        return np.where(np.arange(len(values)) == self.place, 2, 0).astype(np.int8)


def test_detectors_that_fire_together_tell_the_same():
    signal = Signal({"adwin": {}, "ddm": {}}, MISTAKES)
    signal.detectors = {"adwin": Fires(249), "ddm": Fires(249)}
    one, other = signal.update(np.repeat([0.0, 1.0], [200, 60]))
    assert (one.detector, other.detector) == ("adwin", "ddm")
    assert one._replace(detector="ddm") == other
    assert (one.level, one.before, one.after) == ("drift", 0.0, 0.5)
    assert signal.counts[:, 1].tolist() == [1, 1]


def test_a_signal_that_forgets_is_new_but_for_its_counts():
    values = series(MISTAKES)
    _, signal = run(MISTAKES, [values])
    counts, seen = signal.counts.copy(), len(values)
    signal.forget()
    fresh = Signal(DETECTORS, MISTAKES)
    assert [(e.i, e.n - seen, *e[4:]) for e in signal.update(values)] == [
        (e.i, e.n, *e[4:]) for e in fresh.update(values)
    ]
    assert (signal.counts - counts).tolist() == fresh.counts.tolist()
