"""The look at a leaf's tests before they are weighed: it never sees none where there is one, and mostly sees right."""

import math

import numpy as np
import pytest

from riparian.models.contract import Schema
from riparian.models.hoeffding.splitting.bounds import may_win, normal_below, times_log
from riparian.models.hoeffding.splitting.candidates import INFO_GAIN, MERIT, SECOND, best_split
from riparian.models.observers.gaussians import know_nothing, lay_out, observe

N_VALUES = (0, 3, 0, 5, 0, 2)
NO_CACHE = np.zeros(0)


def blocks(n, seed, n_classes):
    """Statistics of n leaves that saw 2 to 300 instances, some of them nearly pure, of features on any scale."""
    rng = np.random.default_rng(seed)
    schema = Schema(N_VALUES, n_classes, "classification")
    layout, width, _ = lay_out(schema)
    stats = np.zeros((n, width))
    for block in stats:
        size = int(rng.integers(2, 300))
        y = np.minimum(rng.geometric(rng.uniform(0.3, 0.99), size) - 1, n_classes - 1)
        informative = rng.random(len(N_VALUES)) * (rng.random(len(N_VALUES)) > 0.5)
        x = np.empty((size, len(N_VALUES)))
        for f, values in enumerate(N_VALUES):
            says = rng.random(size) < informative[f]
            noise = rng.integers(0, values, size) if values else rng.normal(0.0, 1.0, size).round(int(rng.integers(4)))
            x[:, f] = np.where(says, y % values if values else y + 0.1 * noise, noise)
            if not values:
                x[:, f] = x[:, f] * 10.0 ** rng.integers(-3, 4) + rng.integers(-2, 3)
        x[rng.random(x.shape) < 0.05] = np.nan
        for r in range(size):
            observe(
                block, NO_CACHE, False, know_nothing(schema), layout, n_classes, x, r, int(y[r]), rng.poisson(6) + 0.5,
                0.0,
            )  # fmt: skip
    return stats, layout


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4, 12])
def test_no_winner_is_overlooked(n_classes, binary):
    stats, layout = blocks(150, n_classes, n_classes)
    post, found = np.zeros((max(N_VALUES) + 1, n_classes)), np.zeros(4)
    seen = 0
    for least_share in (0.0, 0.01, 0.2):
        for i, block in enumerate(stats):
            observed = 1.02 * block[:n_classes].sum()
            best_split(stats, layout, i, n_classes, observed, 10, binary, INFO_GAIN, least_share, post, found)
            ahead = found[MERIT] - found[SECOND]
            for bound in (ahead - 1e-9, 0.5 * ahead):
                assert may_win(block, layout, n_classes, observed, 10, binary, least_share, bound)
            seen += not may_win(block, layout, n_classes, observed, 10, binary, least_share, ahead + 2e-3)
    assert seen > (1.0 if n_classes == 2 else 0.8) * 300


def test_statistics_that_overflow_are_not_judged():
    stats, layout = blocks(1, 1, 2)
    for place, value in ((0, 1e200), (2, math.inf), (4, 1e-320)):
        block = stats[0].copy()
        block[place] = value
        assert may_win(block, layout, 2, 100.0, 10, False, 0.01, 5.0)


def test_tables():
    for n in [*np.random.default_rng(1).uniform(0.0, 1e6, 2000), *np.exp2(np.arange(-20.0, 60.0)), 3.0, 1e-9]:
        assert times_log(n) == pytest.approx(n * math.log2(n), abs=1e-7 * n)
    assert times_log(0.0) == 0.0
    for z in [*np.random.default_rng(1).uniform(-8.0, 8.0, 2000), 0.0, -6.0, 6.0, 5.999999, math.inf, -math.inf]:
        assert normal_below(z) == pytest.approx(0.5 * (1.0 + math.erf(z / math.sqrt(2.0))), abs=1e-6)
