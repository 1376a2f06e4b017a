"""Intervals and sets against a naive twin; how often they hold labels that come late, and in odd worlds."""

from functools import partial

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.predictions.conformal import Conformal, sets
from riparian.models.restoring import restore
from tests.models.naive_conformal import NaiveConformal

TASKS = ("regression", "classification")
BY = ((False, 4), (True, 4), (True, 23))  # by class or all together, classes; more than 20 go together


def program_of(y, delay, every=1.0, rng=None, weights=None):
    """Each instance is predicted, and learned `delay` instances later; a share of the labels never comes."""
    n = len(y)
    ops = [(PREDICT, i, float(i)) for i in range(n)]
    ops += [(LEARN, i, i + delay + 0.5) for i in range(n) if rng is None or rng.random() < every]
    ops.sort(key=lambda one: one[2])
    op, row = (np.array(column) for column in list(zip(*ops, strict=True))[:2])
    w = np.ones(n) if weights is None else weights
    return Program(op.astype(np.int8), row.astype(np.int32), y[row], np.where(op == LEARN, w[row], 1.0))


def world(task, n, seed, delay=0, n_classes=4):
    """Predictions, some of nothing, and labels whose spread changes."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], n, p=[0.05, 0.1, 0.7, 0.15])
    if task == "regression":
        out = rng.normal(size=(n, 1))
        y = out[:, 0] + rng.normal(size=n) * np.where(np.arange(n) < n // 2, 1.0, 4.0)
        out[rng.random(n) < 0.03] = np.nan
    else:
        out = rng.dirichlet(np.ones(n_classes) * 0.6, n).round(2)
        y = np.array([rng.choice(n_classes, p=p / p.sum()) for p in out], float)
        y[: n // 10] = 0.0  # the other classes come later
        out[rng.random(n) < 0.03] = 0.0
        out[rng.random(n) < 0.03, 0] = np.nan
    return program_of(y, delay, 0.9, rng, weights), out


def arrays_for(conformal, out):
    return [np.zeros(out.shape) for _ in range(conformal.n_regions)]


@pytest.mark.parametrize("fading", [None, 0.99])
@pytest.mark.parametrize("delay", [0, 40])
@pytest.mark.parametrize(
    ("task", "by_class", "n_classes"), [("regression", False, 1), *((TASKS[1], by, n) for by, n in BY)]
)
def test_it_says_and_scores_what_the_twin_does(task, by_class, n_classes, delay, fading):
    program, out = world(task, 700, 1, delay, n_classes)
    fresh = partial(Conformal, task, out.shape[1], 0.8, by_class=by_class, window=100, fading=fading)
    conformal, whole, twin = fresh(), fresh(), NaiveConformal(task == "regression", 0.8, by_class)
    said, other, twins = arrays_for(conformal, out), arrays_for(whole, out), {}
    assert conformal.metrics() == conformal.windowed() == {}
    n_said = 0
    for i in range(len(program.op)):
        conformal.run(program.part(i, i + 1), out, said)
        r, p = int(program.row[i]), out[program.row[i]].tolist()
        if program.op[i] == PREDICT:
            twins[r] = twin.say(p)
            if twins[r] is None:
                assert np.isnan(said[0][r, 0])
            elif task == "regression":
                assert (said[0][r, 0], said[1][r, 0]) == pytest.approx(twins[r][0], abs=1e-9)
            else:
                assert set(np.flatnonzero(sets(said[0][r : r + 1])[0]).tolist()) == set(twins[r][0])
            n_said += twins[r] is not None
        elif program.w[i] > 0:
            twin.learn(p, twins[r], program.y[i], program.w[i])
        if i % 37 == 0 or i + 1 == len(program.op):
            assert conformal.metrics() == pytest.approx(twin.metrics(), abs=1e-9)
            recent = twin.metrics(fading=fading) if fading else twin.metrics(window=100)
            assert conformal.windowed() == pytest.approx(recent, abs=1e-9)
            assert conformal.whole_by_class() == pytest.approx(twin.coverage_of_classes(), abs=1e-9)
            recent = twin.coverage_of_classes(fading=fading, window=None if fading else 100)
            assert conformal.recent_by_class() == pytest.approx(recent, abs=1e-9)
            conformal, before = fresh(), conformal
            restore(conformal, before.state()._asdict())
    assert n_said > 450
    whole.run(program, out, other)
    assert [a.tobytes() for a in (*whole.state(), *other)] == [a.tobytes() for a in (*conformal.state(), *said)]
    assert whole.windowed() == conformal.windowed()


@pytest.mark.parametrize("delay", [0, 200])
@pytest.mark.parametrize("task", TASKS)
def test_they_hold_the_share_asked_for_whatever_the_spread(task, delay):
    rng, n = np.random.default_rng(3), 20_000
    if task == "regression":
        out = np.zeros((n, 1))
        y = rng.standard_t(3, n) * np.repeat([1.0, 5.0], n // 2)
    else:  # overconfident: a probability of 0.9 is right half of the time, and then less
        out = np.column_stack([np.full(n, 0.4) + rng.random(n) / 5, rng.random(n) / 5 + 0.2, rng.random(n) / 5])
        y = rng.choice(3, n, p=[0.5, 0.3, 0.2]).astype(float)
    conformal = Conformal(task, out.shape[1], 0.9, window=5000)
    said = arrays_for(conformal, out)
    program = program_of(y, delay)
    for end in range(5000 + delay, n, 5000):
        conformal.run(program.part(0 if end == 5000 + delay else 2 * (end - 5000), 2 * end), out, said)
        worst = 0.01 if delay == 0 else 0.025  # labels in between were said something for another spread
        assert abs(conformal.windowed()["coverage"] - 0.9) < worst


@pytest.mark.parametrize("delay", [0, 200])
def test_a_rare_class_is_held_as_often_by_class_and_else_seldom(delay):
    rng, n = np.random.default_rng(4), 20_000
    y = (rng.random(n) < 0.07).astype(float)
    log_odds = np.log(0.07 / 0.93) + rng.normal(size=n) + 1.2 * y
    out = np.column_stack([1 / (1 + np.exp(log_odds)), 1 / (1 + np.exp(-log_odds))])
    program, shares, sizes = program_of(y, delay), {}, {}
    for by_class in (False, True):
        conformal = Conformal("classification", 2, 0.9, by_class=by_class)
        conformal.run(program, out, arrays_for(conformal, out))
        shares[by_class], sizes[by_class] = conformal.whole_by_class(), conformal.metrics()["set_size"]
    assert shares[False][1] < 0.25
    assert 0.88 < shares[True][1] < 0.92
    assert shares[True][0] > 0.88  # more, as the likeliest class is in each set
    assert sizes[True] < 1.9


def test_a_state_of_before_classes_were_told_apart_goes_on():
    program, out = world("classification", 2000, 2)
    half = len(program.op) // 2
    older = Conformal("classification", 4, 0.9, window=150)
    older.run(program.part(0, half), out, (said := arrays_for(older, out)))
    state = {name: array for name, array in older.state()._asdict().items() if "class" not in name}
    for by_class in (False, True):
        after = Conformal("classification", 4, 0.9, by_class=by_class, window=150)
        restore(after, state)
        assert after.metrics() == older.metrics()
        assert after.recent_by_class() == {}
        after.run(program.part(half), out, [array.copy() for array in said])
        assert set(after.recent_by_class()) == {0, 1, 2, 3}


def test_where_nothing_is_said_nothing_is_left_of_the_row_before():
    """Rows of the pending store come again, and what stands there is part of a state."""
    out = np.full((200, 3), [0.8, 0.2, 0.0])
    conformal = Conformal("classification", 3, 0.8)
    conformal.run(program_of(np.zeros(200), 0), out, (said := arrays_for(conformal, out)))
    out[-1] = np.nan
    said[0][-1] = 7.0
    last = Program(np.array([PREDICT], np.int8), np.array([199], np.int32), np.zeros(1), np.ones(1))
    conformal.run(last, out, said)
    np.testing.assert_array_equal(said[0][-1], [np.nan, 0.0, 0.0])


def test_a_class_that_never_occurred_is_in_no_set_and_room_for_more_classes_changes_nothing():
    program, out = world("classification", 1200, 7)
    small, large = Conformal("classification", 4, 0.9), Conformal("classification", 4, 0.9)
    wide = np.pad(out, ((0, 0), (0, 4)))
    said, other = arrays_for(small, out), arrays_for(large, wide)
    small.run(program, out, said)
    large.resize(8)
    large.run(program, wide, other)
    assert small.metrics() == large.metrics()
    assert not sets(other[0])[:, 4:].any()
    assert (sets(other[0])[:, :4] == sets(said[0])).all()


def test_another_coverage_goes_on_with_the_scores():
    rng, n = np.random.default_rng(8), 4000
    out, y = np.zeros((n, 1)), rng.normal(size=n)
    one = Conformal("regression", 1, 0.8, window=1000)
    said, program = arrays_for(one, out), program_of(y, 0)
    one.run(program.part(0, n), out, said)
    other = Conformal("regression", 1, 0.95, window=1000)
    restore(other, one.state()._asdict())
    other.run(program.part(n), out, said)
    assert not np.isnan(said[0][n // 2, 0])
    assert abs(other.windowed()["coverage"] - 0.95) < 0.015


def test_a_coverage_that_is_no_share_is_refused():
    with pytest.raises(ValueError, match=r"coverage is 1\.5: give a share between 0 and 1"):
        Conformal("regression", 1, 1.5)
