"""Calibration against a naive twin, its bits for every cut, and what it makes of models that are too sure, or not."""

from functools import partial

import numpy as np
import pytest

from riparian.models.contract import PREDICT
from riparian.models.predictions.calibration import POWER, Calibration
from riparian.models.restoring import restore
from tests.models.naive_calibration import NaiveCalibration
from tests.models.test_conformal import program_of


def world(n, seed, delay, power=2.0):
    """Probabilities that are too sure (power above 1), some of nothing, some never made; a class that comes late."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), n)
    p[: n // 10, 3] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(4, p=one) for one in p], float)
    out = p**power / (p**power).sum(axis=1, keepdims=True)
    out[rng.random(n) < 0.03] = 0.0
    out[rng.random(n) < 0.03] = np.nan
    out[rng.random(n) < 0.05, 1] = 0.0
    weights = rng.choice([0.0, 0.5, 1.0], n, p=[0.05, 0.15, 0.8])
    return program_of(y, delay, 0.9, rng, weights), out


@pytest.mark.parametrize("fading", [None, 0.99])
@pytest.mark.parametrize("delay", [0, 40])
@pytest.mark.parametrize("scales", [True, False])
def test_it_says_and_scores_what_the_twin_does(scales, delay, fading):
    program, out = world(1200, 1, delay)
    fresh = partial(Calibration, 4, scales=scales, window=100, fading=fading)
    calibration, whole, twin = fresh(), fresh(), NaiveCalibration(scales)
    said, raw, twins, other = np.full((len(out), 2), np.nan), out.copy(), {}, out.copy()
    assert calibration.metrics() == calibration.windowed() == {}
    assert not calibration.has_begun
    for i in range(len(program.op)):
        r = int(program.row[i])
        calibration.run(program.part(i, i + 1), out, said)
        if program.op[i] == PREDICT:
            twins[r] = twin.say(raw[r].tolist())
            assert out[r].tolist() == pytest.approx(twins[r][0], abs=1e-12, nan_ok=True)
        elif program.w[i] > 0:
            twin.learn(*twins[r], int(program.y[i]), program.w[i])
        if i % 29 == 0 or i + 1 == len(program.op):
            assert calibration.metrics() == pytest.approx(twin.metrics(), abs=1e-9)
            recent = twin.metrics(fading=fading) if fading else twin.metrics(window=100)
            assert calibration.windowed() == pytest.approx(recent, abs=1e-9)
            assert calibration.state().scaling[POWER] == pytest.approx(twin.power)
            calibration, before = fresh(), calibration
            restore(calibration, before.state()._asdict())
    says = np.full((len(out), 2), np.nan)
    whole.run(program, other, says)
    expected = [a.tobytes() for a in (*whole.state(), other, says)]
    assert [a.tobytes() for a in (*calibration.state(), out, said)] == expected
    assert whole.windowed() == calibration.windowed()


def test_a_class_that_never_was_a_label_stays_at_0_and_room_for_more_changes_nothing():
    program, out = world(1500, 4, 0)
    wide = np.pad(out, ((0, 0), (0, 3)))
    small, large = Calibration(4, scales=True), Calibration(4, scales=True)
    small.run(program, out, np.full((len(out), 2), np.nan))
    large.resize(7)
    large.run(program, wide, np.full((len(out), 2), np.nan))
    assert (np.nan_to_num(wide[:, 4:]) == 0).all()
    assert wide[:, :4].tobytes() == out.tobytes()
    assert small.metrics() == large.metrics()
