"""Two-sample tests of many series, looked at again and again: a reference of each against its newest values.

Values are counted in bins that were set by a sample *before* the reference. So under the hypothesis that a series does
not change (its values are exchangeable), the counts of a bin in the two windows are hypergeometric, given their sum,
whatever the distribution is: each test is exact (Fisher: The logic of inductive inference. JRSS 98, 1935), with no
approximation for rare values. Bins that were set by the reference itself would not do: the values that are frequent in
it are less so in what follows, and what it lacks is sure to come where values are many.

Time goes in panes, a tenth of a window. A series lives through three stages, and then stays in the last:

1. sampling: half a window (of which the first 500 values at most are kept); then its bins are set;
2. counting the reference: a window;
3. testing: at the end of each pane the last ten panes, or as many as there are, against the reference, which panes join
   when a window has passed since they were among the last ten.

Of a numeric series the bins are ten between quantiles of the sample, one below it and one above; tested are the shares
up to each inner edge, and of both outer bins. Of a nominal one, the bins are the 61 values most frequent in the
sample, its others, and those it had not; tested is the share of each. Missing values have a bin, and a test, of their
own. The p-value of a series is its least one (two-sided: twice the smaller tail) times the number of its tests.

Values that follow those before them, or a time of day, are fewer than they seem: shares of panes vary more than those
of independent values would. So counts are divided by a *design effect* before they are tested, which gives the
effective counts of Rao and Scott (The analysis of categorical data from complex sample surveys. JASA 76, 1981). It is
measured on the panes of the reference: the variance of a pane's tested shares over that of independent values, times
(1 + r) / (1 - r), where r is their correlation with those of the pane before (Bartlett: On the theoretical
specification and sampling properties of autocorrelated time-series. JRSS Supplement 8, 1946, of a first-order
autoregression). Both are of recursive residuals (Brown, Durbin, Evans: Techniques for testing the constancy of
regression relationships over time. JRSS B 37, 1975): a pane's shares less the mean of the panes before it, which of
independent panes are uncorrelated. A series has two effects, of at least 1: of the shares of what its sample held, and
of what is beyond (outside its range, unseen, missing), which may swing less, or more; of the latter, five values are
taken to have come with the former effect, until there are more. They outlive an alarm, since a series that swings goes
on swinging.

Errors add up over looks and series. The k-th look of a series may spend 1 / (k (k + 1)) of its share, which sums to
one; the series share by Holm's step-down rule (Holm: A simple sequentially rejective multiple test procedure. Scand. J.
Statist. 6, 1979), which holds however they depend on each other. So the probability that any series which does not
change ever raises an alarm is at most `false_alarms`, until there was such an alarm; its series then begins anew. With
values that are not independent this holds as far as the design effect is known, which takes some periods of a season.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.scaling import sort
from riparian.models.kernels.elementary import exp, lgamma, logs
from riparian.models.kernels.kernel import kernel
from riparian.models.statistic import Statistic

PANES = 10  # panes of a window
SAMPLE = 500  # values that set the bins, at most
QUANTILES = 10  # bins of a numeric series within the range of its sample
OWN = 61  # values of a nominal series with a bin of their own
OTHER, UNSEEN, MISSING, BINS = OWN, OWN + 1, OWN + 2, OWN + 3
PREDICTION = -1  # in place of a column: what was predicted

VALUES, ABSENT, NEW, RANGE = range(4)  # what a test was about
RING = 2 * PANES  # panes that are kept apart: the newest ten, and those that wait to join the reference
FADING = 0.999  # share of what is known of the design effect that a pane leaves
MOST_ALIKE = 0.995  # correlation of panes, at most
PRIOR = 5.0  # values beyond the sample that are taken to swing as the others do
NEAR = 6.0  # squared deviations within which a p-value counts as 1, which saves its computation


class TwoSampleState(NamedTuple):
    """Everything that is known of m series.

    panes : (m,) int64, whole panes since each series began.
    in_pane : (1,) int64, values since the last pane ended.
    sample : (m, s) float64. While sampling, values as they come, NaN where missing. Then its first `n_edges` are, of a
        numeric series, least value, inner edges and greatest value; of a nominal one, the codes seen, ascending.
    slots : (m, s) int8, the bin of each of these codes.
    n_edges : (m,) int64.
    reference : (m, 64) int64, counts by bin. While sampling: of missing values only.
    recent : (m, 20, 64) int64, those of the last panes, a ring.
    residual : (m, 64) float64, of the tested shares of the pane that joined the reference last.
    spread : (m, 2, 4) float64, of values that the sample held and of those beyond, faded sums over panes of: squared
        residuals, what these are of independent values, products of residuals with those of the pane before, and the
        mean of both squares.
    """

    panes: NDArray[np.int64]
    in_pane: NDArray[np.int64]
    sample: NDArray[np.float64]
    slots: NDArray[np.int8]
    n_edges: NDArray[np.int64]
    reference: NDArray[np.int64]
    recent: NDArray[np.int64]
    residual: NDArray[np.float64]
    spread: NDArray[np.float64]


class DistributionChange(NamedTuple):
    """A series differs from its reference.

    series : its number. p : corrected for tests, looks and series. kind : what differs most, VALUES, ABSENT, NEW or
    RANGE. bin : in which, or of numeric VALUES up to which.
    """

    series: int
    p: float
    kind: int
    bin: int


class TwoSample(Statistic):
    """Tests of m series.

    Parameters
    ----------
    columns : sequence of int
        Of x, of each series; PREDICTION for what was predicted.
    nominal : sequence of bool
    window : int
        Values of the reference, and of the window that it is compared with; a multiple of 10.
    false_alarms : float
        Probability of a false alarm that is allowed, of all series and looks together.
    """

    def __init__(self, columns: list[int], nominal: list[bool], window: int, false_alarms: float) -> None:
        m, self.pane = len(columns), window // PANES
        self.columns, self.nominal = np.array(columns, np.int64), np.array(nominal, np.bool_)
        self.window, self.false_alarms = window, false_alarms
        s = min(SAMPLE, window // 2)
        self.n_sampling = -(-s // self.pane)  # panes
        self._work = np.empty(s)
        self._p, self._corrected, self._what = np.empty(m), np.empty(m), np.empty((m, 2), np.int64)
        self._counts = np.empty((3, BINS), np.int64)
        zeros = np.zeros(m, np.int64)
        self._state = TwoSampleState(
            zeros,
            np.zeros(1, np.int64),
            np.full((m, s), np.nan),
            np.zeros((m, s), np.int8),
            zeros.copy(),
            np.zeros((m, BINS), np.int64),
            np.zeros((m, RING, BINS), np.int64),
            np.zeros((m, BINS)),
            np.zeros((m, 2, 4)),
        )

    def update(
        self, x: NDArray[np.float64], predicted: NDArray[np.float64], start: int = 0
    ) -> tuple[int, list[DistributionChange]]:
        """Take instances x[start:], up to the first one with an alarm.

        Whoever calls looks at `counts` of the series that were found, lets them `begin` anew, and goes on.

        Parameters
        ----------
        x : (n, d) float64, NaN where missing. predicted : (n,) float64, a class or value; NaN for nothing.

        Returns
        -------
        How many instances were taken, and what was found at the last of them.
        """
        done, n = _update(
            x, predicted, start, self.columns, self.nominal, self.pane, self.n_sampling, self.false_alarms,
            self._work, self._p, self._corrected, self._what, self._counts, *self._state,
        )  # fmt: skip
        if not n:
            return int(done), []
        p, what = self._corrected.tolist(), self._what.tolist()
        return int(done), [DistributionChange(j, p[j], *what[j]) for j in range(len(p)) if p[j] >= 0.0]

    def begin(self, j: int) -> None:
        """A series begins anew: the next values set its bins. Its design effect stays."""
        s = self._state
        s.panes[j] = s.n_edges[j] = 0
        s.sample[j], s.slots[j], s.reference[j], s.recent[j], s.residual[j] = np.nan, 0, 0, 0, 0.0

    def is_testing(self, j: int) -> bool:
        """Whether a series has a whole reference."""
        return bool(self._state.panes[j] >= self.n_sampling + PANES)

    def counts(self, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(64,) counts of the reference and of the newest values, by bin."""
        s, newest = self._state, np.zeros(BINS, np.int64)
        stage = int(s.panes[j]) - self.n_sampling - (s.in_pane[0] == 0)
        _newest(s.recent, j, stage, newest)
        return s.reference[j].copy(), newest

    def design_effects(self, j: int) -> tuple[float, float]:
        """How many values of a series weigh as much as one would if they were independent, 1 or more: of those that its
        sample held, and of those beyond."""
        inside, beyond = _design_effects(self._state.spread[j], self.pane)
        return float(inside), float(beyond)

    def bins(self, j: int) -> list[int]:
        """The bins that a series has, in the order in which people look at them."""
        n = int(self._state.n_edges[j])
        if not self.nominal[j]:
            return [*range(n + 1), MISSING]
        return [*range(min(n, OWN)), OTHER, UNSEEN, MISSING]

    def edges(self, j: int) -> list[float]:
        """Of a numeric series: least value, inner edges and greatest value of the sample; empty where all was
        missing."""
        found: list[float] = self._state.sample[j, : self._state.n_edges[j]].tolist()
        return found

    def codes(self, j: int) -> list[int]:
        """Of a nominal series: the codes with a bin of their own, the most frequent first."""
        n = self._state.n_edges[j]
        by_slot = {
            int(slot): int(code) for code, slot in zip(self._state.sample[j, :n], self._state.slots[j, :n], strict=True)
        }
        return [by_slot[slot] for slot in sorted(by_slot) if slot < OWN]


def hellinger(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Distance of the shares of two counts, 0 (the same) to 1 (nothing in common)."""
    p, q = a / a.sum(), b / b.sum()
    return math.sqrt(max(0.0, 1.0 - float(np.sqrt(p * q).sum())))


def stability_index(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """Population stability index of two counts: sum of (q - p) ln(q / p), each bin counted half an instance more, since
    an empty one would make it infinite."""
    p, q = (a + 0.5) / (a.sum() + 0.5 * len(a)), (b + 0.5) / (b.sum() + 0.5 * len(b))
    return float(((q - p) * logs(q / p)).sum())


@kernel
def _bin(value, nominal, row, sample, slots, n):
    """The bin of a value. O(log n)."""
    if not math.isfinite(value):
        return MISSING
    low, high = 0, n  # how many edges are below the value
    while low < high:
        middle = (low + high) // 2
        if sample[row, middle] < value:
            low = middle + 1
        else:
            high = middle
    if nominal:
        return slots[row, low] if low < n and sample[row, low] == value else UNSEEN
    if low == 0 and n > 0 and value == sample[row, 0]:
        return 1
    return low


@kernel
def _set_bins(nominal, row, sample, slots, n_edges, work):
    """Make the edges of a sample, in its place. Mutates sample, slots, n_edges, work. O(s^1.5)."""
    s, n = sample.shape[1], 0
    for i in range(s):
        if math.isfinite(sample[row, i]):
            sample[row, n] = sample[row, i]
            n += 1
    sort(sample[row, :n])
    if n == 0:
        n_edges[row] = 0
        return
    if nominal:
        k = 0
        for i in range(n):
            if i == 0 or sample[row, i] != sample[row, k - 1]:
                sample[row, k] = sample[row, i]
                work[k] = 0.0
                k += 1
            work[k - 1] += 1.0
        for i in range(k):
            slots[row, i] = OTHER
        for slot in range(min(k, OWN)):
            most = 0
            for i in range(1, k):
                if work[i] > work[most]:
                    most = i
            slots[row, most], work[most] = slot, 0.0
    else:
        least, greatest = sample[row, 0], sample[row, n - 1]
        work[0], k = least, 1
        for b in range(1, QUANTILES):
            edge = sample[row, (b * n + QUANTILES - 1) // QUANTILES - 1]
            if edge < greatest and (k == 1 or edge > work[k - 1]):
                work[k] = edge
                k += 1
        work[k] = greatest
        k += 1
        for i in range(k):
            sample[row, i] = work[i]
    n_edges[row] = k


@kernel
def fisher(a, n, b, m):
    """Two-sided p-value of a of n against b of m: twice the smaller tail of the hypergeometric distribution of b given
    a + b; 1 where b is near what is expected. O(deviations beyond b)."""
    both, total = a + b, n + m
    if n <= 0 or m <= 0:
        return 1.0
    mean = m * (both / total)
    variance = mean * (1.0 - both / total) * (n / (total - 1.0))
    if variance <= 0.0 or (b - mean) * (b - mean) < NEAR * variance:
        return 1.0
    term = 1.0
    tail = 1.0  # in units of the probability of b itself
    k = b
    while term > 1e-17 * tail:
        if b > mean:
            if k >= both or k >= m:
                break
            term *= (both - k) * (m - k) / ((k + 1.0) * (total - both - m + k + 1.0))
            k += 1
        else:
            if k <= 0 or both - k >= n:
                break
            term *= k * (total - both - m + k) / ((both - k + 1.0) * (m - k + 1.0))
            k -= 1
        tail += term
    here = (
        lgamma(both + 1.0) - lgamma(b + 1.0) - lgamma(a + 1.0)
        + lgamma(total - both + 1.0) - lgamma(m - b + 1.0) - lgamma(n - a + 1.0)
        - lgamma(total + 1.0) + lgamma(m + 1.0) + lgamma(n + 1.0)
    )  # fmt: skip
    return min(1.0, 2.0 * tail * exp(here))


@kernel
def _newest(recent, row, stage, counts):
    """Write the counts of the last ten panes of a series, of those since the reference, up to pane `stage`."""
    counts[:] = 0
    for pane in range(max(PANES, stage - PANES + 1), stage + 1):
        for bin in range(BINS):
            counts[bin] += recent[row, pane % RING, bin]


@kernel
def _tested(nominal, edges, counts, found):
    """Write what is tested of counts by bin: up to each inner edge of a numeric series, else of the bin itself; -1
    where a bin has no test."""
    last, up_to = min(edges, OWN) - 1 if nominal else edges, 0  # the last of the first bins
    for bin in range(BINS):
        found[bin] = -1
        if last < bin < OTHER or (not nominal and OTHER <= bin < MISSING) or (bin == OTHER and edges <= OWN):
            continue
        found[bin] = counts[bin]
        if nominal or bin > last:
            continue
        up_to += counts[bin]
        if 0 < bin < last:
            found[bin] = up_to if bin < last - 1 else -1  # the next one finds it, too


@kernel
def _kind(nominal, edges, bin):
    """What a test of a bin is about."""
    if bin == MISSING:
        return ABSENT
    if bin == UNSEEN:
        return NEW
    return RANGE if not nominal and bin in (0, edges) else VALUES


@kernel
def _join(nominal, row, slot, n_edges, reference, recent, residual, spread, counts):
    """A pane joins the reference, and what is known of the design effect. O(64)."""
    n, m, pane = 0, 0, recent[row, slot]
    for bin in range(BINS):
        n, m = n + reference[row, bin], m + pane[bin]
    if n > 0:
        _tested(nominal[row], n_edges[row], reference[row], counts[0])
        _tested(nominal[row], n_edges[row], pane, counts[1])
        scale = math.sqrt(n / (n + m))
        for part in range(2):
            for at in range(4):
                spread[row, part, at] *= FADING
        for bin in range(BINS):
            if counts[0, bin] >= 0:
                sums = spread[row, int(_kind(nominal[row], n_edges[row], bin) != VALUES)]
                share = (counts[0, bin] + counts[1, bin]) / (n + m)
                left, before = (counts[1, bin] / m - counts[0, bin] / n) * scale, residual[row, bin]
                sums[0] += left * left
                sums[1] += share * (1.0 - share) / m
                if n > m:  # there are residuals of a pane before it
                    sums[2] += left * before
                    sums[3] += 0.5 * (left * left + before * before)
                residual[row, bin] = left
    for bin in range(BINS):
        reference[row, bin] += pane[bin]


@kernel
def _design_effect(sums):
    if sums[1] <= 0.0:
        return 1.0
    alike = min(max(sums[2] / sums[3], 0.0), MOST_ALIKE) if sums[3] > 0.0 else 0.0
    return max(1.0, sums[0] / sums[1] * (1.0 + alike) / (1.0 - alike))


@kernel
def _design_effects(spread, pane):
    inside, values = _design_effect(spread[0]), spread[1, 1] * pane * pane
    return inside, (values * _design_effect(spread[1]) + PRIOR * inside) / (values + PRIOR)


@kernel
def _effective(count, effect):
    return math.floor(count / effect + 0.5)


@kernel
def _test(nominal, row, pane, stage, n_edges, reference, recent, spread, counts, what):
    """Least p-value of a series times the number of its tests; writes what that test was about."""
    edges = n_edges[row]
    inside, beyond = _design_effects(spread[row], pane)
    _newest(recent, row, stage, counts[2])
    n, m = 0, 0
    for bin in range(BINS):
        n, m = n + reference[row, bin], m + counts[2, bin]
    _tested(nominal, edges, reference[row], counts[0])
    _tested(nominal, edges, counts[2], counts[1])
    least, tests = 2.0, 0
    for bin in range(BINS):
        if counts[0, bin] < 0:
            continue
        tests += 1
        kind = _kind(nominal, edges, bin)
        effect = inside if kind == VALUES else beyond
        p = fisher(
            _effective(counts[0, bin], effect), _effective(n, effect),
            _effective(counts[1, bin], effect), _effective(m, effect),
        )  # fmt: skip
        if p < least:
            least = p
            what[row, 0], what[row, 1] = kind, bin
    return min(1.0, least * tests)


@kernel
def _holm(p, false_alarms, corrected):
    """Write the p-values that Holm's rule rejects into `corrected`, for their number, and -1 in place of the others.
    How many it rejects. p may hold numbers above 1. O(m) for each rejection."""
    m, rejected, most = len(p), 0, 0.0
    corrected[:] = -1.0
    while rejected < m:
        best = -1
        for j in range(m):
            if corrected[j] < 0.0 and (best < 0 or p[j] < p[best]):
                best = j
        most = max(most, p[best] * (m - rejected))
        if most > false_alarms:
            break
        corrected[best] = most
        rejected += 1
    return rejected


@kernel
def _update(
    x, predicted, start, columns, nominal, pane, n_sampling, false_alarms, work, p, corrected, what, counts,
    panes, in_pane, sample, slots, n_edges, reference, recent, residual, spread,
):  # fmt: skip
    """Fold instances, up to the first look that finds something. O(m log s) an instance, and O(64 m) a pane and ten
    more where values differ. Returns how far it came, and how many series were found there; their p-values stand in
    `corrected`, -1 for the others."""
    m, n = len(columns), len(x)
    while start < n:
        if in_pane[0] == 0:
            _make_room(nominal, panes, n_sampling, n_edges, reference, recent, residual, spread, counts)
        stop = min(n, start + pane - in_pane[0])
        for j in range(m):
            column, stage = columns[j], panes[j] - n_sampling
            at = panes[j] * pane + in_pane[0]
            for i in range(start, stop):
                value = predicted[i] if column == PREDICTION else x[i, column]
                if stage < 0:
                    if not math.isfinite(value):
                        reference[j, MISSING] += 1
                        value = np.nan
                    if at < sample.shape[1]:
                        sample[j, at] = value
                    at += 1
                    continue
                recent[j, stage % RING, _bin(value, nominal[j], j, sample, slots, n_edges[j])] += 1
        in_pane[0] += stop - start
        start = stop
        if in_pane[0] < pane:
            continue
        in_pane[0] = 0
        for j in range(m):
            stage = panes[j] - n_sampling
            look = stage - PANES + 1.0
            p[j] = 2.0
            if look >= 1.0:
                least = _test(nominal[j], j, pane, stage, n_edges, reference, recent, spread, counts, what)
                p[j] = least * look * (look + 1.0)
            elif stage >= 0:
                _join(nominal, j, stage % RING, n_edges, reference, recent, residual, spread, counts)
        found = _holm(p, false_alarms, corrected)
        for j in range(m):
            panes[j] += 1
            stage = panes[j] - n_sampling
            if stage > 0:
                continue
            if columns[j] == PREDICTION and reference[j, MISSING] > 0:
                panes[j] = 0  # until the model knows something
            elif stage == 0:
                _set_bins(nominal[j], j, sample, slots, n_edges, work)
            if panes[j] == 0 or stage == 0:
                reference[j, MISSING] = 0
        if found > 0:
            return start, found
    return start, 0


@kernel
def _make_room(nominal, panes, n_sampling, n_edges, reference, recent, residual, spread, counts):
    """Make room for the pane to come: the oldest one joins the reference, if it has not yet."""
    for j in range(len(panes)):
        stage = panes[j] - n_sampling
        if stage >= RING + PANES:
            _join(nominal, j, stage % RING, n_edges, reference, recent, residual, spread, counts)
        if stage >= 0:
            recent[j, stage % RING] = 0
