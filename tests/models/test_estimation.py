"""The estimated accuracy against a naive twin, and what it sees before labels come."""

import numpy as np
import pytest

from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.evaluation.estimation import Estimation
from riparian.models.restoring import restore
from tests.models.naive_estimation import NaiveEstimation


def operations(n, seed):
    """Predictions of three classes, some of nothing and some never made; labels come for most of them, later."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3) * 0.7, n)
    p[rng.random(n) < 0.03] = 0.0
    p[rng.random(n) < 0.03] = np.nan
    p[rng.random(n) < 0.03] *= 0.5
    ops = [(PREDICT, i, i) for i in range(n)] + [(LEARN, i, i + 30.5) for i in range(n) if rng.random() < 0.8]
    ops.sort(key=lambda one: one[2])
    y = np.where(rng.random(n) < 0.6, np.argmax(np.nan_to_num(p), axis=1), rng.integers(0, 3, n)).astype(float)
    op, row = (np.array(column) for column in list(zip(*ops, strict=True))[:2])
    weight = np.where(rng.random(len(op)) < 0.05, 0.0, 1.0)
    return Program(op.astype(np.int8), row.astype(np.int32), y[row], weight), p


def test_it_is_what_the_twin_says_at_every_operation():
    program, p = operations(400, 1)
    estimation, twin = Estimation(), NaiveEstimation()
    assert (estimation.accuracy(), estimation.error(), estimation.has_begun) == (None, None, False)
    for i in range(len(program.op)):
        estimation.follow(program.part(i, i + 1), p)
        if program.op[i] == PREDICT:
            twin.predict(p[program.row[i]].tolist())
        elif program.w[i]:
            twin.learn(p[program.row[i]].tolist(), program.y[i])
        assert estimation.accuracy() == pytest.approx(twin.accuracy(), abs=1e-12)
        assert estimation.error() == pytest.approx(twin.error(), abs=1e-12)
        estimation, before = Estimation(), estimation
        restore(estimation, before.state()._asdict())
    whole = Estimation()
    whole.follow(program, p)
    assert [a.tobytes() for a in whole.state()] == [a.tobytes() for a in estimation.state()]
