"""Prior shifts against a naive twin, their bits for every cut, and what they make of odd worlds."""

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.predictions.prior_shift import BOUND, PriorShift
from riparian.models.restoring import restore
from tests.models.naive_prior_shift import NaivePriorShift
from tests.models.test_conformal import program_of


def test_it_says_what_the_twin_does_however_it_is_cut():
    rng, n = np.random.default_rng(2), 1500
    y = rng.choice(4, n, p=[0.7, 0.2, 0.05, 0.05]).astype(float)
    out = rng.dirichlet(np.ones(4), n)
    out[rng.random(n) < 0.03] = 0.0
    out[rng.random(n) < 0.03] = np.nan
    out[rng.random(n) < 0.1, 0] = 0.0
    program = program_of(y, 40, 0.9, rng, rng.choice([0.0, 1.0], n, p=[0.05, 0.95]))
    instead = np.where((program.op == LEARN) & (rng.random(len(program.op)) < 0.3), 2.0, np.nan)
    shift, whole, twin = PriorShift(4), PriorShift(4), NaivePriorShift(4)
    said, other = np.zeros_like(out), np.zeros_like(out)
    assert not shift.has_begun
    for i in range(len(program.op)):
        r = int(program.row[i])
        shift.run(program.part(i, i + 1), out, said, instead[i : i + 1])
        if program.op[i] == PREDICT:
            assert said[r].tolist() == pytest.approx(twin.say(out[r].tolist()), abs=1e-12, nan_ok=True)
        elif program.w[i] > 0:
            twin.learn(out[r].tolist(), int(program.y[i]), None if np.isnan(instead[i]) else int(instead[i]))
        if i % 29 == 0:
            assert shift.state().shifts.tolist() == pytest.approx(twin.shifts, abs=1e-12)
            before, shift = shift, PriorShift(4)
            restore(shift, before.state()._asdict())
    whole.run(program, out, other, instead)
    assert [a.tobytes() for a in (whole.state().shifts, other)] == [a.tobytes() for a in (shift.state().shifts, said)]
    assert abs(whole.state().shifts).max() > 0.3


def told(p, y, late, shift=None):
    """What is said of each instance, whose label comes `late` instances later."""
    out, said, shift = np.column_stack((1 - p, p)), np.zeros((len(p), 2)), shift or PriorShift(2)
    at = np.arange(len(p))
    order = np.argsort(np.concatenate((at, at + late + 0.5)), kind="stable")
    op = np.repeat(np.array([PREDICT, LEARN], np.int8), len(p))[order]
    labels = np.concatenate((np.full(len(p), np.nan), y))[order]
    shift.run(Program(op, np.tile(at, 2)[order].astype(np.int32), labels, np.ones(2 * len(p))), out, said)
    return said[:, 1]


def logit(p):
    return np.log(p / (1 - p))


def world(n, seed, share, off):
    """Probabilities that are right but for odds that are exp(off) too large, and labels."""
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-logit(share) - rng.normal(0, 1, n)))
    return 1 / (1 + np.exp(-logit(p) - off)), (rng.random(n) < p).astype(float)


@pytest.mark.parametrize("off", [-2.0, 3.3])
@pytest.mark.parametrize("late", [0, 30_000])
def test_the_mean_becomes_the_share_however_late_labels_come(off, late):
    p, y = world(240_000, 1, 0.02, off)
    said = told(p, y, late)
    last = slice(160_000, None)
    assert said[last].mean() == pytest.approx(y[last].mean(), rel=0.07)
    assert p[last].mean() / y[last].mean() > 3 or p[last].mean() / y[last].mean() < 0.3
    assert (np.argsort(said[-30:]) == np.argsort(p[-30:])).all()


def test_a_share_that_drifts_is_followed():
    (p, y), (_, later) = world(60_000, 1, 0.1, 0.0), world(60_000, 2, 0.3, 0.0)
    said = told(np.concatenate((p, p)), np.concatenate((y, later)), 1000)
    assert said[40_000:60_000].mean() == pytest.approx(y[40_000:].mean(), rel=0.05)
    assert said[-20_000:].mean() == pytest.approx(later[-20_000:].mean(), rel=0.05)


def test_a_class_that_vanishes_and_returns():
    p, y = world(120_000, 3, 0.2, 0.0)
    y[40_000:80_000] = 0.0
    said = told(p, y, 500)
    assert said[79_000:80_000].mean() < 0.02
    assert said[-20_000:].mean() == pytest.approx(y[-20_000:].mean(), rel=0.06)
    assert np.isfinite(said).all()


def test_one_class_alone_stays_within_the_bound():
    p, _ = world(500_000, 4, 0.5, 0.0)
    shift = PriorShift(2)
    said = told(p, np.zeros(len(p)), 100, shift)
    assert said[-1000:].mean() < 0.005
    assert abs(shift.state().shifts).max() <= BOUND
    never = told(np.zeros(50_000), np.ones(50_000), 0, shift)  # no shift makes more of 0
    assert not never.any()


def test_room_for_more_classes_changes_nothing():
    rng = np.random.default_rng(5)
    out = rng.dirichlet(np.ones(3), 500)
    program = program_of(rng.integers(0, 3, 500).astype(float), 20, 1.0, rng, np.ones(500))
    small, large, said, wide = PriorShift(3), PriorShift(3), np.zeros((500, 3)), np.zeros((500, 5))
    small.run(program, out, said)
    large.resize(5)
    large.run(program, np.pad(out, ((0, 0), (0, 2))), wide)
    assert wide[:, :3].tobytes() == said.tobytes()
    assert not wide[:, 3:].any()
