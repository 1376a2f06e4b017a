"""Which of two models is better: sums and intervals against a naive twin, and how often they are wrong."""

import itertools

import numpy as np
import pytest

from benchmarks.promotion import equal_pair, looked_at
from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.evaluation.comparison import ByCost, Comparison, share
from riparian.models.evaluation.costs import Costs
from riparian.models.restoring import restore
from tests.models.naive_comparison import NaiveComparison

ALIKE_COSTS = Costs(np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]), np.zeros((2, 3), np.bool_), -1, 1.0)


def score(comparison, y, older, newer):
    n = len(y)
    program = Program(np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), np.array(y, float), np.ones(n))
    comparison.score(program, older, newer)


def scored(comparison, *labels):
    """The scale behind these labels."""
    score(comparison, *labels)
    return comparison.state().scale


def classified(n, seed, older=0.3, newer=0.25):
    """Labels of three classes, and two models' probabilities; some know nothing, some were not asked."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    outs = []
    for rate in (older, newer):
        said = np.where(rng.random(n) < rate, (y + rng.integers(1, 3, n)) % 3, y)
        p = np.full((n, 3), 0.1)
        p[np.arange(n), said] = 0.8
        p[rng.random(n) < 0.02] = 0.0
        p[rng.random(n) < 0.02] = np.nan
        p[rng.random(n) < 0.02] = 0.3
        outs.append(p)
    return y, *outs


def valued(n, seed, jumps=()):
    """Targets, and two models' predictions, whose errors grow or shrink by a factor from some labels on."""
    rng = np.random.default_rng(seed)
    size = np.ones(n)
    for place, factor in jumps:
        size[place:] *= factor
    y = rng.normal(size=n)
    older, newer = (y + size * rng.standard_t(3, n) * width for width in (1.1, 1.0))
    older[rng.random(n) < 0.02] = np.nan
    return y, older[:, None], newer[:, None]


STREAMS = {
    "classification": ("classification", classified(5200, 1)),
    "long": ("classification", classified(17_500, 6)),
    "regression": ("regression", valued(5200, 2)),
    "errors that grow": ("regression", valued(5200, 3, [(1700, 30.0)])),
    "errors that shrink": ("regression", valued(9200, 4, [(1000, 1e-4)])),
    "no errors at first": ("regression", valued(3000, 5, [(0, 0.0)])),
}


@pytest.mark.parametrize("name", STREAMS)
def test_the_sums_and_intervals_are_those_of_the_twin(name):
    task, (y, older, newer) = STREAMS[name]
    comparison, twin = Comparison(task), NaiveComparison(task)
    stops = [0, 1, 99, 130, 1000, 1050, 2300, len(y)]
    for start, stop in itertools.pairwise(stops):
        score(comparison, y[start:stop], older[start:stop], newer[start:stop])
        for i in range(start, stop):
            twin.score(y[i], older[i].tolist(), newer[i].tolist())
        found = [(one.since, *one[1:5]) for one in comparison.advantages(0.05)]
        np.testing.assert_allclose(found, twin.advantages(0.05), rtol=1e-9, atol=1e-12)
        comparison, before = Comparison(task), comparison
        restore(comparison, before.state()._asdict())
    whole = Comparison(task)
    score(whole, y, older, newer)
    assert [a.tobytes() for a in whole.state()] == [a.tobytes() for a in comparison.state()]
    if name.startswith("errors that"):
        assert len(twin.starts) > 1


def test_a_reach_that_was_measured_is_kept_where_no_label_was_compared_yet():
    comparison, (_, (y, older, newer)) = Comparison("regression"), STREAMS["regression"]
    assert not comparison.has_begun
    i = next(i for i in range(200) if scored(comparison, y[i : i + 1], older[i : i + 1], newer[i : i + 1])[2])
    assert (i >= 99, comparison.state().n[0], *comparison.state().scale[:2]) == (True, 0, 0.0, 0.0)
    assert comparison.has_begun


def test_only_labels_that_count_are_compared():
    comparison = Comparison("classification")
    program = Program(
        np.array([PREDICT, LEARN, LEARN], np.int8), np.zeros(3, np.int32), np.zeros(3), np.array([1.0, 0.0, 1.0])
    )
    comparison.score(program, np.array([[0.0, 1.0]]), np.array([[1.0, 0.0]]))
    assert comparison.state().n[0] == 1
    assert comparison.advantage(0.05).difference == 1.0


@pytest.mark.parametrize("by_cost", [None, ByCost(ALIKE_COSTS, *[np.full((6, 1), np.nan)] * 3)])
def test_rows_of_which_both_models_knew_nothing_are_no_errors(by_cost):
    """As all are that were predicted before the first label came: of four rows, three were known to one model."""
    nothing, right, wrong = (0.0, 0.0), (0.0, 1.0), (1.0, 0.0)
    older, newer = (
        np.array([nothing, nothing, nothing, right, right, wrong]),
        np.array([nothing, nothing, right, nothing, right, right]),
    )
    comparison = Comparison("classification")
    program = Program(np.full(6, LEARN, np.int8), np.arange(6, dtype=np.int32), np.ones(6), np.ones(6))
    comparison.score(program, older, newer, by_cost)
    found = comparison.advantage(0.05)
    assert (found.n, found.loss, found.difference) == (4, 2 / 4, 2 / 4 - 1 / 4)


def test_the_shares_of_the_error_probability_add_up():
    shares = sum(share(k, begun) for k in range(17) for begun in range(1, 3000))
    assert 0.9 < shares < 1.0


def test_models_that_are_equal_are_seldom_called_better_where_mistakes_come_in_runs():
    """Of 20 streams of 10,000 labels; 5 % may be. By sums of squares alone it would be 74 %."""
    found = [
        any(one.better(0.05) for one in looked_at(equal_pair(np.random.default_rng([9, i]), 10_000, 0.9)))
        for i in range(20)
    ]
    assert np.mean(found) <= 0.05


def test_a_challenger_that_is_better_is_found():
    rng = np.random.default_rng(5)
    pair = rng.random(8000) < 0.2, rng.random(8000) < 0.14
    assert any(one.better(0.05) for one in looked_at(pair))
