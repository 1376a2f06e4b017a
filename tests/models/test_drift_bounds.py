"""Detectors against what their papers state: alarms a test where nothing changes, and delays where something does.

Statistical, with fixed seeds. The probabilities are the papers'; a margin of three standard errors is ours.
"""

import math

import numpy as np
import pytest

from benchmarks.detector_bounds import BOUNDED, alarm_bound, alarms_a_test, delay_bound, delays
from models.drift import create

RUNS = 150
CHANGES = [
    ("adwin", {}, 0.2, 0.4, False),
    ("adwin", {"clock": 1}, 0.05, 0.95, False),
    ("hddm-a", {}, 0.2, 0.4, True),
    ("hddm-a", {}, 0.05, 0.95, True),
    ("hddm-w", {}, 0.05, 0.95, False),
]


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("name", BOUNDED)
def test_alarms_a_test_are_as_rare_as_the_paper_says(name, rate):
    bound = alarm_bound(name, create(name).parameters())
    assert alarms_a_test(name, rate, streams=3, n=50_000) <= bound


@pytest.mark.parametrize(("name", "parameters", "low", "high", "even"), CHANGES)
def test_changes_are_found_as_soon_as_the_paper_says(name, parameters, low, high, even):
    within, probability = delay_bound(name, create(name, **parameters).parameters(), low, high)
    found = delays(name, low, high, RUNS, even, **parameters)
    margin = 3 * math.sqrt(probability * (1 - probability) / RUNS)
    assert np.mean(found <= within) >= probability - margin


def test_the_bounds_say_when_a_change_is_too_small():
    assert delay_bound("hddm-w", create("hddm-w").parameters(), 0.2, 0.4) is None
    assert delay_bound("adwin", create("adwin").parameters(), 0.2, 0.21) is None
    assert delay_bound("kswin", create("kswin").parameters(), 0.05, 0.95) is None


def significance(r, k):
    """P(distance >= k / r) of two samples of r values without ties, by counting the paths of their merged order."""
    paths = {0: 1}
    for _ in range(2 * r):
        paths = {
            place: paths.get(place - 1, 0) + paths.get(place + 1, 0) for place in range(-r, r + 1) if abs(place) < k
        }
    return 1 - paths[0] / math.comb(2 * r, r)


@pytest.mark.parametrize("alpha", [0.005, 0.05])
def test_kswin_s_first_test_has_the_exact_significance_of_its_threshold(alpha):
    """Which is above alpha (0.0065 for 0.005) and, as Dvoretzky, Kiefer and Wolfowitz say, below 2.17 alpha."""
    r, runs = 30, 20_000
    expected = significance(r, math.floor(math.sqrt(-math.log(alpha) / r) * r) + 1)
    assert alpha < expected < 2.17 * alpha
    draws = np.random.default_rng(0).random((runs, 100))
    alarms = sum(create("kswin", seed=seed, alpha=alpha).update_many(draws[seed])[-1] == 2 for seed in range(runs))
    assert alarms / runs == pytest.approx(expected, abs=4 * math.sqrt(expected / runs))
