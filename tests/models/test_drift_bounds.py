"""Detectors against what their papers state: alarms a test where nothing changes, and delays where something does.

Statistical, with fixed seeds. The probabilities are the papers'; a margin of three standard errors is ours.
"""

import math

import numpy as np
import pytest

from benchmarks.detector_bounds import BOUNDED, alarm_bound, alarms_a_test, delay_bound, delays
from riparian.models.drift import create

RUNS = 150
CHANGES = [
    ("adwin", {}, 0.2, 0.4, False),
    ("adwin", {"clock": 1}, 0.05, 0.95, False),
    ("hddm-a", {}, 0.2, 0.4, True),
    ("hddm-a", {}, 0.05, 0.95, True),
    ("hddm-w", {}, 0.05, 0.95, False),
]


@pytest.mark.parametrize("name", BOUNDED)
def test_alarms_a_test_are_as_rare_as_the_paper_says(name):
    bound = alarm_bound(name, create(name).parameters())
    assert alarms_a_test(name, 0.2, streams=3, n=50_000) <= bound


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
