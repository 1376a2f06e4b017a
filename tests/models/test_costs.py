"""Costs that are numbers or amounts of rows: what is named, what is paid and which model is better, against slow twins
that go row by row."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import LEARN, PREDICT, Program
from riparian.models.evaluation.comparison import ByCost, Comparison
from riparian.models.evaluation.costs import Costs, Paid, Priced
from riparian.models.predictions.decision import by_cost
from riparian.models.restoring import restore
from tests.models.naive_comparison import NaiveCosts
from tests.models.naive_decision import cheapest, counted

AMOUNT = "amount"
TABLES = [
    [[0.0, 2.0], [AMOUNT, 0.0]],
    [[0.0, 1.0, 3.0], [AMOUNT, 0.0, AMOUNT], [0.5, 20.0, 0.0]],
    [[0.0, AMOUNT, 0.25], [7.0, 0.0, 1.0], [AMOUNT, 4.0, 0.0]],
    [[0.0, 1.0], [20.0, 0.0]],
]
ODD = [0.0, -0.0, 1e9, 1e12, math.nan, -3.0, math.inf, -math.inf, 1e-300, 17.5]


def costs_of(table):
    """As `Stakes` makes them. table : rows of the true class; AMOUNT stands for that of the row."""
    numbers = np.array([[0.0 if cost == AMOUNT else cost for cost in row] for row in table])
    by_amount = np.array([[cost == AMOUNT for cost in row] for row in table])
    worst, any_amount = np.maximum(numbers.max(axis=1), 1.0), by_amount.any(axis=1)
    fixed = np.column_stack((worst, numbers))
    return Costs(fixed, np.column_stack((any_amount, by_amount)), 1 if by_amount.any() else -1, float(worst.max()))


def of_row(table, amount):
    """The costs of one row as numbers, and what naming none costs."""
    costs = [[counted(amount) if cost == AMOUNT else cost for cost in row] for row in table]
    return costs, [max([1.0, *row]) for row in costs]


def paid_for(table, amount, p, named, label):
    """What one prediction cost."""
    costs, worst = of_row(table, amount)
    if max(p) <= 0.0:
        return worst[label]
    return costs[label][p.index(max(p)) if math.isnan(named) else int(named)]


def world(table, n, seed):
    """Labels, probabilities of which some know nothing or were not made, and rows with odd amounts in column 1."""
    rng, k = np.random.default_rng(seed), len(table)
    y, p = rng.integers(0, k, n), rng.dirichlet(np.ones(k), n)
    p[rng.random(n) < 0.05] = 0.0
    p[rng.random(n) < 0.05] = np.nan
    x = np.column_stack((rng.random(n), np.where(rng.random(n) < 0.5, rng.choice(ODD, n), rng.lognormal(3, 1, n))))
    return y, p, x


def learned(y, w=None):
    n = len(y)
    return Program(
        np.full(n, LEARN, np.int8), np.arange(n, dtype=np.int32), y.astype(float), np.ones(n) if w is None else w
    )


@given(
    st.sampled_from(TABLES),
    st.lists(
        st.tuples(st.sampled_from([*ODD, 2.0, 60.0]), st.lists(st.integers(0, 4), min_size=3, max_size=3)), max_size=8
    ),
)
@settings(max_examples=80, deadline=None)
def test_the_class_of_least_expected_cost_of_each_row_is_named(table, rows):
    k, n = len(table), len(rows)
    p = np.array([one for _, one in rows], float).reshape(n, 3)[:, :k] / 4.0
    x = np.array([[9.0, amount] for amount, _ in rows]).reshape(n, 2)
    decided = np.zeros((n, 2))
    program = Program(np.full(n, PREDICT, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n))
    by_cost(program, p, decided, Priced(costs_of(table), x))
    expected = [cheapest(one, of_row(table, amount)[0]) for one, (amount, _) in zip(p.tolist(), rows, strict=True)]
    assert [None if np.isnan(one) else int(one) for one in decided[:, 0]] == expected


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("window", "fading"), [(50, None), (1000, None), (1000, 0.9)])
def test_what_was_paid_is_what_each_label_cost(table, window, fading):
    y, p, x = world(table, 400, 3)
    priced, rng = Priced(costs_of(table), x), np.random.default_rng(1)
    decided = np.full((400, 2), np.nan)
    decided[:, 0] = np.where(rng.random(400) < 0.5, rng.integers(0, len(table), 400), np.nan)
    w = rng.integers(0, 3, 400).astype(float)
    program, one, many = learned(y, w), Paid(window, fading), Paid(window, fading)
    one.run(program, p, priced, decided)
    for start, stop in itertools.pairwise((0, 1, 7, 200, 399, 400)):
        many.run(program.part(start, stop), p, priced, decided)
        again = Paid(window, fading)
        restore(again, {name: array.copy() for name, array in many.state()._asdict().items()})
        many = again
    assert [a.tobytes() for a in one.state()] == [a.tobytes() for a in many.state()]
    assert one.metrics(recent=True) == many.metrics(recent=True)
    met = [
        (w[i], w[i] * paid_for(table, x[i, 1], p[i].tolist(), decided[i, 0], y[i]))
        for i in range(400)
        if w[i] > 0.0 and not np.isnan(p[i, 0])
    ]
    faded = np.ones(len(met)) if fading is None else fading ** np.arange(len(met))[::-1]
    last = slice(None) if fading is not None else slice(-window, None)
    weights, costs = np.array(met).T
    assert one.metrics()["cost"] == pytest.approx(costs.sum() / weights.sum(), rel=1e-12)
    recent = (faded * costs)[last].sum() / (faded * weights)[last].sum()
    assert one.metrics(recent=True)["cost"] == pytest.approx(recent, rel=1e-9)


def test_a_window_of_another_length_keeps_what_fits_and_another_kind_begins():
    table = TABLES[0]
    y, p, x = world(table, 300, 4)
    paid, priced = Paid(100), Priced(costs_of(table), x)
    assert paid.metrics() == {}
    paid.run(learned(y), p, priced)
    for window, fading in ((40, None), (200, None), (100, 0.99)):
        other = Paid(window, fading)
        restore(other, paid.state()._asdict())
        assert other.metrics() == paid.metrics()
        if fading is not None:
            assert other.metrics(recent=True) == {}
            continue
        short = Paid(min(window, 100))
        short.run(learned(y), p, priced)
        assert other.metrics(recent=True) == short.metrics(recent=True)
        other.run(learned(y), p, priced)
        assert other.metrics(recent=True)["cost"] > 0.0
    faded, windowed = Paid(100, 0.99), Paid(100)
    faded.run(learned(y), p, priced)
    restore(windowed, faded.state()._asdict())
    assert windowed.metrics(recent=True) == {}


@pytest.mark.parametrize("jumps", [[], [(1700, 200.0)], [(1500, 1e-3)]])
def test_models_are_compared_by_what_each_label_cost(jumps):
    """Of amounts nobody knows the highest: a cost counts up to ten times what is at stake on average."""
    table, n = TABLES[1], 4200
    y, older, x = world(table, n, 5)
    newer = np.where(np.isnan(older), np.nan, np.random.default_rng(8).dirichlet(np.ones(3), n))
    if jumps:
        x[x[:, 1] > 1e8, 1] = 30.0
    for place, factor in jumps:
        x[place:, 1] *= factor
    named = np.full((n, 2), np.nan)
    given = ByCost(costs_of(table), x, named, named)
    comparison, twin = Comparison("classification", 0.0), NaiveCosts()
    for start, stop in itertools.pairwise((0, 1, 99, 103, 120, 1050, 2300, n)):
        comparison.score(learned(y).part(start, stop), older, newer, given)
        for i in range(start, stop):
            if not np.isnan(older[i, 0]):
                costs = (paid_for(table, x[i, 1], out[i].tolist(), math.nan, y[i]) for out in (older, newer))
                twin.pay(*costs, max(20.0, counted(x[i, 1])))
        found = [(one.since, *one[1:5]) for one in comparison.advantages(0.05)]
        np.testing.assert_allclose(
            np.array(found).reshape(-1, 5), np.array(twin.advantages(0.05)).reshape(-1, 5), rtol=1e-8, atol=1e-12
        )
        before, comparison = comparison, Comparison("classification", 0.0)
        restore(comparison, before.state()._asdict())
    assert (len(twin.starts) > 1) == (jumps == [(1700, 200.0)])
    assert comparison.advantage(0.05).reach == pytest.approx(twin.reach)
