"""Two-sample tests of many series: against a slow twin that keeps every value, and their promise on streams without
drift."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import hypergeom

from riparian.models.drift.two_sample import (
    ABSENT,
    MISSING,
    NEW,
    OTHER,
    OWN,
    PREDICTION,
    RANGE,
    UNSEEN,
    VALUES,
    TwoSample,
    fisher,
    hellinger,
    stability_index,
)


class NaiveSeries:
    """One series, with all its values in a list, and all its panes in another."""

    def __init__(self, nominal: bool, window: int) -> None:
        self.nominal, self.window, self.pane = nominal, window, window // 10
        self.kept = min(500, window // 2)
        self.sampling = -(-self.kept // self.pane) * self.pane
        self.spread: list[np.ndarray] = []  # of each pane that joined but the first, ever: a row for each test
        self.begin()

    def begin(self) -> None:
        self.values: list[float] = []
        self.panes: list[np.ndarray] = []  # since the sample: what is tested of each
        self.joined: list[np.ndarray] = []  # those of the reference
        self.residual: np.ndarray | None = None

    def tests(self, values: list[float]) -> list[tuple[int, int, int]]:
        """Kind and bin of each test, and its count in a pane."""
        sample = [v for v in self.values[: self.kept] if not np.isnan(v)]
        tests = []

        def count(kind, bin, holds):
            tests.append((kind, bin, sum(bool(holds(v)) for v in values)))

        if self.nominal:
            often = sorted(Counter(sample).items(), key=lambda pair: (-pair[1], pair[0]))
            own, known = [code for code, _ in often[:OWN]], set(sample)
            for bin, code in enumerate(own):
                count(VALUES, bin, lambda v, code=code: v == code)
            if len(known) > OWN:
                count(VALUES, OTHER, lambda v: v in known and v not in own)
            count(NEW, UNSEEN, lambda v: v not in known and not np.isnan(v))
        elif sample:
            ordered = sorted(sample)
            n = len(ordered)
            inner = sorted({ordered[int(np.ceil(b * n / 10)) - 1] for b in range(1, 10)} - {ordered[0], ordered[-1]})
            count(RANGE, 0, lambda v: v < ordered[0])
            for bin, edge in enumerate(inner, 1):
                count(VALUES, bin, lambda v, edge=edge: v <= edge)
            count(RANGE, len(inner) + 2, lambda v: v > ordered[-1])
        else:
            count(RANGE, 0, lambda v: not np.isnan(v))
        count(ABSENT, MISSING, np.isnan)
        return tests

    def join(self, pane: np.ndarray) -> None:
        k = len(self.joined)
        if k:
            left = (pane / self.pane - np.mean(self.joined, axis=0) / self.pane) * np.sqrt(k / (k + 1))
            mean = np.mean([*self.joined, pane], axis=0) / self.pane
            alike = both = np.zeros(len(left))
            if self.residual is not None:
                alike, both = left * self.residual, (left**2 + self.residual**2) / 2
            sums = np.column_stack([left**2, mean * (1 - mean) / self.pane, alike, both])
            kinds = np.array([kind == VALUES for kind, *_ in self.tests([])])
            self.spread.append(np.array([sums[kinds].sum(axis=0), sums[~kinds].sum(axis=0)]))
            self.residual = left
        self.joined.append(pane)

    def effects(self) -> list[float]:
        """Of values that the sample held, and of those beyond."""
        found = []
        for part in range(2):
            rows = [sums[part] * 0.999**age for age, sums in enumerate(reversed(self.spread))]
            squares, expected, alike, both = np.sum(rows, axis=0) if rows else np.zeros(4)
            r = min(max(alike / both, 0.0), 0.995) if both else 0.0
            found.append((max(1.0, squares / expected * (1 + r) / (1 - r)) if expected else 1.0, expected))
        (inside, _), (beyond, expected) = found
        values = expected * self.pane**2
        return [inside, (values * beyond + 5 * inside) / (values + 5)]

    def p(self) -> tuple[float, int, int] | None:
        """At the end of a pane: corrected for tests and looks; kind and bin of the least. None before the first."""
        if len(self.values) <= self.sampling:
            return None
        tests = self.tests(self.values[-self.pane :])
        self.panes.append(np.array([count for *_, count in tests]))
        t = len(self.panes) - 1
        if t < 10:
            self.join(self.panes[t])
            return None
        if t >= 30:
            self.join(self.panes[t - 20])
        effects, newest = self.effects(), self.panes[10:][-10:]
        found = []
        for (kind, bin, _), *counts in zip(tests, np.sum(self.joined, axis=0), np.sum(newest, axis=0), strict=True):
            sizes = (self.pane * len(panes) for panes in (self.joined, newest))
            n, m, a, b = (np.floor(count / effects[kind != VALUES] + 0.5) for count in (*sizes, *counts))
            p = 1.0
            if n and m:
                mean = m * (a + b) / (n + m)
                var = mean * (1 - (a + b) / (n + m)) * n / (n + m - 1)
                if 0 < 6 * var <= (b - mean) ** 2:
                    law = hypergeom(n + m, a + b, m)
                    p = min(1.0, 2 * min(law.cdf(b), law.sf(b - 1)))
            found.append((p, kind, bin))
        look = t - 9
        least = min(found, key=lambda one: one[0])
        return min(1.0, least[0] * len(found)) * look * (look + 1), least[1], least[2]


def naive(columns, nominal, window, false_alarms, x, y):
    """Instance, series, p, kind and bin of every alarm."""
    series = [NaiveSeries(flag, window) for flag in nominal]
    told = []
    for i in range(len(x)):
        for one, column in zip(series, columns, strict=True):
            one.values.append(y[i] if column == PREDICTION else x[i, column])
        if (i + 1) % (window // 10):
            continue
        for one, column in zip(series, columns, strict=True):
            if column == PREDICTION and len(one.values) <= one.sampling and np.isnan(one.values).any():
                one.begin()
        found = {j: p for j, one in enumerate(series) if (p := one.p()) is not None}
        most = 0.0
        alarms = []
        for r, (j, (p, kind, bin)) in enumerate(sorted(found.items(), key=lambda pair: pair[1][0])):
            most = max(most, p * (len(series) - r))
            if most > false_alarms:
                break
            alarms.append((i, j, most, kind, bin))
        for alarm in sorted(alarms, key=lambda alarm: alarm[1]):
            told.append(alarm)
            series[alarm[1]].begin()
    return told


def run(tests, x, y, limit=10**9):
    told = []
    for first in range(0, len(x), limit):
        part, start = slice(first, first + limit), 0
        while start < len(x[part]):
            stop, found = tests.update(x[part], y[part], start)
            for one in found:
                told.append((first + stop - 1, one.series, one.p, one.kind, one.bin))
                tests.begin(one.series)
            start = stop
    return told


def swinging(seed, n=4000):
    """Columns that follow their own past, and a period of 700, of which the mean moves late in one."""
    rng = np.random.default_rng(seed)
    noise, x = rng.normal(size=(n, 3)), np.zeros((n, 3))
    for i in range(1, n):
        x[i] = [0.9, 0.99, 0.5] * x[i - 1] + noise[i]
    season = np.sin(np.arange(n) / 700 * 2 * np.pi)[:, None] + noise
    moved = season + 9.0 * (np.arange(n) > 0.8 * n)[:, None]
    steps = (season[:, :1] > 0.3) + 2.0 * (x[:, :1] > 1)
    return np.hstack([x, season[:, :1], moved[:, :1], steps, noise[:, :1], x[:, 2:]]), np.zeros(n)


def world(seed, n=4000):
    """Columns that change in every way, and predictions that begin late."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) >= n // 2
    x = np.column_stack(
        [
            rng.normal(size=n) + 0.8 * late,
            np.where(rng.random(n) < np.where(late, 0.3, 0.05), np.nan, rng.random(n).round(1)),
            np.where(late & (rng.random(n) < 0.1), 50, rng.integers(0, 40, n)),
            rng.zipf(1.4, n) % 3000,
            np.full(n, 3.0),
            np.where(late, 1.0, np.nan),
            rng.normal(size=n) * np.where(late, 3.0, 1.0),
        ]
    )
    y = np.where(late & (rng.random(n) < 0.5), 0, rng.integers(0, 3, n)).astype(float)
    y[:77] = np.nan
    return x, y


COLUMNS = [0, 1, 2, 3, 4, 5, 6, PREDICTION]
NOMINAL = [False, False, True, True, False, False, False, True]


@pytest.mark.parametrize(("seed", "window"), [(0, 400), (1, 400), (2, 1200)])
def test_alarms_are_those_of_a_slow_twin(seed: int, window: int) -> None:
    x, y = world(seed)
    tests = TwoSample(COLUMNS, NOMINAL, window, 0.2)
    found, expected = run(tests, x, y), naive(COLUMNS, NOMINAL, window, 0.2, x, y)
    assert [(i, j, kind) for i, j, _, kind, _ in found] == [(i, j, kind) for i, j, _, kind, _ in expected]
    assert [p for _, _, p, _, _ in found] == pytest.approx([p for _, _, p, _, _ in expected], rel=1e-6, abs=1e-280)
    assert {j for _, j, *_ in found} >= {0, 1, 2, 5, 6}
    assert {kind for *_, kind, _ in found} >= {VALUES, ABSENT}


def test_a_slow_twin_counts_values_that_follow_their_past_for_as_few_as_they_are() -> None:
    x, y = swinging(0)
    nominal = [False] * 5 + [True] + [False] * 2
    tests = TwoSample([*range(8)], nominal, 400, 0.2)
    found, expected = run(tests, x, y), naive([*range(8)], nominal, 400, 0.2, x, y)
    assert [one[:2] for one in found] == [one[:2] for one in expected]
    assert [p for _, _, p, _, _ in found] == pytest.approx([p for _, _, p, _, _ in expected], rel=1e-6, abs=1e-280)
    assert [j for _, j, *_ in found] == [4]
    effects = [tests.design_effects(j)[0] for j in range(8)]
    assert min(effects[1], effects[3]) > 20 > 18 > effects[0] > 5 > 3 > effects[7] > 1.5 > effects[6] >= 1


@pytest.mark.parametrize("limit", [1, 7, 40, 999])
def test_alarms_and_state_have_the_same_bits_for_every_cut(limit: int) -> None:
    x, y = world(3, 2500)
    whole, cut = (TwoSample(COLUMNS, NOMINAL, 400, 0.05) for _ in range(2))
    assert run(whole, x, y) == run(cut, x, y, limit)
    for name, array in whole.state()._asdict().items():
        np.testing.assert_array_equal(array, getattr(cut.state(), name), name)


def test_p_values_are_those_of_the_hypergeometric_distribution() -> None:
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(3000):
        n, m = rng.integers(1, 300, 2).tolist()
        a, b = int(rng.integers(0, n + 1)), int(rng.integers(0, m + 1))
        law = hypergeom(n + m, a + b, m)
        p = fisher(a, n, b, m)
        if p < 1.0:
            seen += 1
            assert p == pytest.approx(min(1.0, 2 * min(law.cdf(b), law.sf(b - 1))), rel=1e-7, abs=1e-300)
        else:
            assert 2 * min(law.cdf(b), law.sf(b - 1)) > 0.001
    assert seen > 1000


def test_distances() -> None:
    a, b = np.array([5, 5, 0]), np.array([0, 10, 0])
    assert hellinger(a, a) == 0.0
    assert hellinger(a, np.array([0, 0, 9])) == 1.0
    assert hellinger(a, b) == pytest.approx(np.sqrt(1 - np.sqrt(0.5)))
    assert stability_index(a, a) == 0.0
    p, q = np.array([5.5, 5.5, 0.5]) / 11.5, np.array([0.5, 10.5, 0.5]) / 11.5
    assert stability_index(a, b) == pytest.approx(((q - p) * np.log(q / p)).sum())
