"""The baselines against their definitions."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.baseline.last_label import LastLabel
from riparian.models.baseline.majority_class import MajorityClass
from riparian.models.baseline.mean import Mean
from riparian.models.contract import LEARN, PREDICT, Program, Schema

K = 4
CLASSES = Schema((0,), K, "classification")
VALUES = Schema((0,), 1, "regression")

steps = st.lists(st.tuples(st.integers(-1, K), st.sampled_from([0.0, 0.5, 1.0, 3.0, -1.0])), max_size=30)


def run(learner, items):
    """Predict before each label; the predictions."""
    n = len(items)
    op = np.array([PREDICT, LEARN] * n, np.int8)
    row = np.repeat(np.arange(n, dtype=np.int32), 2)
    y = np.array([v for label, _ in items for v in (np.nan, label)], np.float64)
    w = np.array([v for _, weight in items for v in (1.0, weight)], np.float64)
    out = np.full((n, learner.schema.n_outputs), -1.0)
    learner.run(Program(op, row, y, w), np.zeros((n, 1)), out)
    return out


@given(steps)
@settings(max_examples=60, deadline=None)
def test_majority_class_predicts_the_frequencies(items):
    out = run(MajorityClass(CLASSES), items)
    counts = Counter()
    for found, (label, weight) in zip(out, items, strict=True):
        total = sum(counts.values())
        assert found.tolist() == [counts[k] / total if total else 0.0 for k in range(K)]
        if 0 <= label < K and weight > 0:
            counts[label] += weight


@given(steps)
@settings(max_examples=60, deadline=None)
def test_last_label_repeats_it(items):
    out = run(LastLabel(CLASSES), items)
    values = run(LastLabel(VALUES), items)
    last, value = None, np.nan
    for found, number, (label, weight) in zip(out, values, items, strict=True):
        assert found.tolist() == [float(k == last) for k in range(K)]
        np.testing.assert_array_equal(number, [value])
        if weight > 0:
            value = float(label)
            last = label if 0 <= label < K else last


@given(steps, st.sampled_from([1.0, 0.9, 0.5, 0.0]))
@settings(max_examples=60, deadline=None)
def test_mean_predicts_the_weighted_mean(items, fading):
    out = run(Mean(VALUES, fading=fading), items)
    learned = []
    for found, (label, weight) in zip(out[:, 0], items, strict=True):
        weights = [fading**age * w for age, (_, w) in enumerate(reversed(learned))][::-1]
        expected = np.average([y for y, _ in learned], weights=weights) if learned else np.nan
        assert found == pytest.approx(expected, nan_ok=True, abs=1e-9)
        if weight > 0:
            learned.append((float(label), weight))


def test_describe_shows_what_is_known():
    majority, last, value = MajorityClass(CLASSES), LastLabel(CLASSES), LastLabel(VALUES)
    assert last.describe()[0]["value"] == [0.0] * K
    for learner in (majority, last, value):
        learner.learn_many(np.zeros((3, 1)), np.array([1.0, 1.0, 2.0]))
        assert learner.describe()[0]["weight"] == 3.0
    assert majority.describe()[0]["value"] == [0.0, 2.0, 1.0, 0.0]
    assert last.describe()[0]["value"] == [0.0, 0.0, 1.0, 0.0]
    assert value.describe()[0]["value"] == [2.0]
