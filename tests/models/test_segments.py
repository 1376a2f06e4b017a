"""Losses by the value of a feature, beside a slow twin of plain Python, and how often a value is named that is not
worse."""

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.models.contract import Program
from riparian.models.evaluation.costs import Costs
from riparian.models.evaluation.segments import COSTS, ERRORS, MISSED, MISTAKES, SLOTS, Loss, SegmentLosses
from riparian.models.restoring import DamagedError, restore

SPANS, BATCHES = (64, 256, 1024, 4096), (1, 4, 16, 64, 256, 1024)


class Naive:
    """The twin: it keeps all that ever came."""

    def __init__(self, span, error):
        self.span, self.error, self.of, self.n_values = max(span, 2.0), error, {}, 0
        self.all, self.others, self.labels = [], [0.0] * 4, 0

    def take(self, value, loss, part):
        """part : the loss in [0, 1]."""
        for sums in [self.others, *(one["sums"] for one in self.of.values())]:
            for i in range(4):
                sums[i] *= 1.0 - 1.0 / (self.span * (1 if i < 2 else 10))
        for one in self.of.values():
            one["inherited"] *= 1.0 - 1.0 / (self.span * 10)
        one = self.row(value)
        one["sums"] = [a + b for a, b in zip(one["sums"], (1.0, loss, 1.0, loss), strict=True)]
        others = [p for v, p in self.all[one["seen"] :] if v != value]
        if others:
            one["base"] = sum(others) / len(others)
        self.all.append((value, part))
        one["seen"] = len(self.all)
        if one["base"] is not None:
            self.test(one, part)

    def row(self, value):
        if value in self.of:
            return self.of[value]
        inherited, taken = 0.0, [v for v in self.of if v is not None]
        if value is not None and len(taken) == SLOTS:
            least = min(taken, key=lambda v: (self.weight(v), self.of[v]["slot"]))
            inherited, slot = self.weight(least), self.of[least]["slot"]
            self.others = [a + b for a, b in zip(self.others, self.of.pop(least)["sums"], strict=True)]
        else:
            slot = len(taken)
        self.n_values += 1
        self.of[value] = {
            "sums": [0.0] * 4, "inherited": inherited, "slot": slot, "number": self.n_values, "seen": 0, "base": None,
            "usual": None, "period": 1, "excess": [], "loss": [], "variance": 0.0, "worse": None, "rise": 0.0,
        }  # fmt: skip
        return self.of[value]

    def weight(self, value):
        return self.of[value]["sums"][2] + self.of[value]["inherited"]

    def test(self, one, part):
        one["excess"].append(part - one["base"])
        one["loss"].append(part)
        n = len(one["loss"])
        if one["worse"] is None and one["usual"] and n % 4 == 0:
            self.look(one)
        if one["worse"] is not None:
            length = SPANS[one["worse"] - 1] if one["worse"] else SPANS[-1]
            if n % length == 0 and 2 * (np.mean(one["loss"][-length:]) - one["usual"][2]) < one["rise"]:
                self.begin(one)
                return
        period, rises = min(1024 * 2 ** (one["period"] - 1), 16384), one["worse"] is not None
        if one["usual"] and n % 256 == 0:
            ahead = np.mean(one["excess"][-256:]) - one["usual"][1]
            rises |= ahead > 2 * math.sqrt(one["variance"] / 256)
        if n >= 4 * period or (n >= period and n % 256 == 0 and not rises):
            self.end(one)

    def begin(self, one):
        one |= {"excess": [], "loss": [], "worse": None, "rise": 0.0, "period": one["period"] + 1}

    def end(self, one):
        excess, n = one["excess"], len(one["excess"])
        one["variance"] /= 2
        for length in BATCHES:
            m = n // length
            if length > 1 and m < max(4, math.sqrt(n) / 8):
                break
            sums = [sum(excess[i * length : (i + 1) * length]) for i in range(m)]
            found = np.var(sums, ddof=1) / length * (1 + 2 * math.sqrt(2 / m))
            one["variance"] = max(one["variance"], found)
        one["usual"] = n, np.mean(excess), np.mean(one["loss"])
        self.begin(one)

    def look(self, one):
        n, s = len(one["loss"]), one["period"] - 1
        error = self.error / (one["number"] * (one["number"] + 1)) / 2 / (s * (s + 1))

        def bound(n, error):
            wide = math.log(1 + n / 128) + 2 * math.log(1 / error)
            return math.sqrt((one["variance"] * n + 4) * (1 + 128 / n) * wide) / n

        best, (m, excess, loss) = 0.0, one["usual"]
        for k, length in enumerate((n, *SPANS)):
            often = 1 if k == 0 else n // length + 1
            size = n - (often - 1) * length if k else n
            if size < 4:
                continue
            rise = np.mean(one["loss"][-size:]) - loss
            found = np.mean(one["excess"][-size:]) - excess
            low = found - bound(size, error / ((k + 1) * (k + 2) * often * (often + 1))) - bound(m, error)
            if low > best and 2 * rise >= found:
                best, one["worse"], one["rise"] = low, k, rise


def told(segments, values):
    return {(None if one.value is None else values.get(one.value)): one for one in segments.found(most=1000, least=0.0)}


def program_of(n):
    return Program(np.ones(n, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n))


def run(segments, wrong, values, cuts=(), times=None):
    n = len(wrong)
    x, out = np.array(values, np.float64)[:, None], np.column_stack((1.0 - wrong, wrong)).astype(np.float64)
    program, times = program_of(n), np.arange(n, dtype=np.float64) if times is None else times
    for start, stop in zip([0, *cuts], [*cuts, n], strict=True):
        segments.run(program.part(start, stop), x, 0, out, Loss(MISTAKES), times[start:stop])
    return segments


def world(seed, n, k, broken=True):
    """Values of any share, and mistakes at rates of their own; some of them break, and recover."""
    rng = np.random.default_rng(seed)
    values = rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
    rate = rng.uniform(0.0, 0.3, k)[values]
    for _ in range(3 if broken else 0):
        start, stop = sorted(rng.integers(0, n, 2).tolist())
        rate = np.where((values == rng.integers(k)) & (np.arange(n) >= start) & (np.arange(n) < stop), 0.8, rate)
    values = values.astype(np.float64)
    values[rng.random(n) < 0.05] = np.nan
    return rng.random(n) < rate, values


@settings(max_examples=6)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 5, 90, 300]), st.sampled_from([1.0, 30.0, 1000.0]))
def test_it_agrees_with_a_twin_that_keeps_all(seed, k, span):
    n = 6000 if k < 10 else 1000
    wrong, values = world(seed, n, k)
    segments, naive = run(SegmentLosses(span, 0.05), wrong, values), Naive(span, 0.05)
    for value, lost in zip(values.tolist(), wrong.tolist(), strict=True):
        naive.take(None if math.isnan(value) else value, float(lost), float(lost))
    known, rows, totals = segments.state()
    found = {None if i == 0 else known[i]: rows[i] for i in range(len(rows)) if i == 0 or not np.isnan(known[i])}
    for value, one in naive.of.items():
        row = found[value]
        assert row[:4] / totals[[3, 3, 4, 4]] == pytest.approx(
            np.array(one["sums"]) * (1.0 - 1.0 / (naive.span * np.array([1, 1, 10, 10]))), abs=1e-9
        )
        assert (row[6], row[7], row[17]) == (
            one["period"] if one["base"] is not None else 0,
            len(one["loss"]),
            0 if one["worse"] is None else one["worse"] + 1,
        )
        assert row[18] == pytest.approx(one["rise"])
        if one["usual"]:
            assert row[10:14] == pytest.approx([*one["usual"], one["variance"]])
    assert set(naive.of) == {value for value in found if value is not None or rows[0, 2] > 0}


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sets(st.integers(0, 4999), max_size=5), st.sampled_from([3, 200]))
def test_it_has_the_same_bits_however_it_is_cut_and_restored(seed, cuts, k):
    wrong, values = world(seed, 5000, k)
    whole = run(SegmentLosses(100.0, 0.5), wrong, values).state()
    parts, at = SegmentLosses(100.0, 0.5), 0
    for stop in [*sorted(cuts), 5000]:
        fresh = SegmentLosses(100.0, 0.5)
        restore(fresh, parts.state()._asdict())
        run(fresh, wrong[at:stop], values[at:stop], times=np.arange(at, stop, dtype=np.float64))
        parts, at = fresh, stop
    for one, other in zip(whole, parts.state(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("k", [5, 500])
def test_what_is_told_comes_to_all_labels_and_losses_and_is_bounded(k):
    wrong, values = world(3, 20_000, k, broken=False)
    found = run(SegmentLosses(500.0, 0.01), wrong, values).found()
    assert sum(one.n for one in found) == pytest.approx(499.0)
    assert sum(one.n_before for one in found) == pytest.approx(4999.0, rel=0.02)
    weights = (1 - 1 / 500) ** np.arange(20_000)[::-1]
    assert sum(one.loss for one in found) == pytest.approx((weights * wrong).sum() * (1 - 1 / 500), rel=1e-6)
    assert len(found) <= 34
    assert {one.value is None for one in found} == ({False} if k == 5 else {False, True})


def test_losses_are_those_of_their_kind():
    out = np.array([[0.9, 0.1], [0.2, 0.8], [0.0, 0.0], [0.4, 0.6], [np.nan, np.nan]])
    program = Program(np.ones(6, np.int8), np.array([0, 1, 2, 3, 4, 3], np.int32), np.array([1.0, 1, 1, 0, 1, 0]),
                      np.array([1.0, 1, 1, 1, 1, 0]))  # fmt: skip
    x, times = np.zeros((5, 1)), np.zeros(6)
    costs = Costs(np.array([[1.0, 0.0, 1.0], [20.0, 20.0, 0.0]]), np.zeros((2, 3), np.bool_), -1, 20.0)
    named = np.array([[1.0, 0], [1.0, 0], [np.nan, 0], [1.0, 0], [np.nan, 0]])

    def lost(loss, out=out, named=None):
        segments = SegmentLosses(1e9, 0.01)
        segments.run(program, x, 0, out, loss, times, named)
        (one,) = segments.found()
        return round(one.n), round(one.loss, 6)

    assert lost(Loss(MISTAKES)) == (4, 3.0)
    assert lost(Loss(MISSED, 1)) == (3, 2.0)
    assert lost(Loss(MISSED, 1), named=named) == (3, 1.0)
    assert lost(Loss(COSTS, -1, costs)) == (4, 41.0)
    by_amount = Costs(costs.fixed, costs.fixed == 20.0, 0, 1.0)  # amounts are 0, and of none the worst number counts
    assert lost(Loss(COSTS, -1, by_amount)) == (4, 41.0)
    x[:] = 50.0
    assert lost(Loss(COSTS, -1, by_amount)) == (4, 101.0)
    assert lost(Loss(ERRORS), out[:, :1].copy()) == (4, pytest.approx(0.1 + 0.8 + 1.0 + 0.4))
    segments = SegmentLosses(1e9, 0.01)
    segments.run(program, x, 0, out, Loss(MISSED, -1), times)  # of a class that is not known yet
    assert segments.found() == []


def test_an_infinite_error_is_a_very_large_one():
    """Every later label would have no loss otherwise."""
    y, out = np.array([1.0, 1.0, -1e308, 1.0]), np.array([[2.0], [3.0], [1.5e308], [2.5]])
    program = Program(np.ones(4, np.int8), np.arange(4, dtype=np.int32), y, np.ones(4))
    segments = SegmentLosses(100.0, 0.01)
    segments.run(program, np.array([[0.0], [1.0], [0.0], [1.0]]), 0, out, Loss(ERRORS), np.zeros(4))
    assert all(np.isfinite(one.loss) for one in segments.found())
    assert np.isfinite(segments._state.totals).all()


def test_a_value_that_breaks_is_named_until_it_recovers():
    rng, n = np.random.default_rng(5), 60_000
    values, at = rng.integers(0, 10, n), np.arange(n)
    bad = (values == 3) & (at >= 30_000) & (at < 45_000)
    wrong = rng.random(n) < np.where(bad, 0.4, 0.05)
    segments, named = SegmentLosses(1000.0, 0.01), defaultdict(list)
    for stop in range(0, n, 500):
        part = slice(stop, stop + 500)
        run(segments, wrong[part], values[part], times=at[part].astype(np.float64))
        for one in segments.found():
            if one.worse:
                named[one.value].append((stop + 500, one.since))
    assert set(named) == {3.0}
    first, last = named[3.0][0], named[3.0][-1]
    assert 30_000 < first[1] < first[0] < 36_000
    assert 45_000 < last[0] < 58_000


@pytest.mark.parametrize(
    "what", ["nothing", "all fall", "the others improve", "a daily cycle", "a block a day", "runs", "learning"]
)
def test_nothing_is_named_where_no_value_breaks(what):
    for seed in range(10):
        rng, n = np.random.default_rng(seed), 30_000
        values, at, rate = rng.integers(0, 3, n), np.arange(n), np.full(n, 0.1)
        if what == "all fall":
            rate = np.where(at < 20_000, 0.05, 0.4)
        elif what == "the others improve":
            rate = np.where((values == 0) | (at < 20_000), 0.3, 0.05)
        elif what == "a daily cycle":
            rate = 0.15 * (1 + np.sin(at / 1000))
        elif what == "a block a day":
            rate = rng.uniform(0.05, 0.3, 100)[at // 300]
        elif what == "runs":
            rate = np.repeat(rng.random(n // 10) < 0.1, 10) * 0.9
        elif what == "learning":
            rate = 0.05 + 0.4 * np.exp(-at / 3000) * (1 + values) / 3
        segments = SegmentLosses(1000.0, 0.01)
        for start in range(0, n, 1000):
            part = slice(start, start + 1000)
            run(segments, rng.random(1000) < rate[part], values[part])
            assert not [one for one in segments.found() if one.worse]


def test_a_damaged_state_is_a_sentence():
    state = SegmentLosses(10.0, 0.1).state()._asdict()
    with pytest.raises(DamagedError, match="rows has shape"):
        restore(SegmentLosses(10.0, 0.1), state | {"rows": np.zeros((3, 3))}, "segments")
