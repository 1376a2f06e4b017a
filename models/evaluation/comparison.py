"""Which of two models makes fewer mistakes, by the predictions that they really made: valid however often one looks.

Each label gives a difference d in [-1, 1], the older model's loss minus the newer one's. The loss of a classification
is 1 for a wrong class and 0 for the right one, or where mistakes have costs that of the class that was named, as a
share of the highest, `reach`. That of a regression is the absolute error, counted as `reach` at most,
as a share of it: `reach` is known before the label is. Of costs by the amounts of records it is ten times the mean at
stake of the first labels, right or wrong, and is changed where it is below 2 or above 100 times the mean of the last.

Over n labels of which the sum of the differences has the long-run variance V, the mean difference M is

    M +- sqrt((V + 10) (1 + 1000 / n) (log(1 + n / 1000) + 2 log(1 / a))) / n

at all n at once with probability 1 - a: the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy,
Ramdas: Time-uniform central limit theory and asymptotic confidence sequences (Annals of Statistics 52, 2024, theorem
2.2; its 1 / rho^2 is 1,000 labels, by which it is narrowest at about 12,000). It stands on an approximation of the sums
by a Brownian motion, which losses have that depend on each other and forget (Berkes, Liu, Wu: Komlos-Major-Tusnady
approximation under dependence. Annals of Probability 42, 2014), where V is the variance of that motion. So losses may
come in runs, as those of one spell of weather or one wave of fraud do, as long as the runs are short beside the
longest batch. The 10 is as though ten more labels had differed by the whole: while differences are few or small beside
rare large ones, the approximation is none.

V is estimated by means of batches (Flegal, Jones: Batch means and spectral variance estimators in Markov chain Monte
Carlo. Annals of Statistics 38, 2010): how far the sums of b consecutive labels are from b M. Short batches do not see
that losses come in runs, and long ones are few. So batches of 1, 5, 25, 125, 500, 2,000 and 8,000 labels are all
kept, and the largest variance counts that any of them shows of which there are at least 8 and sqrt(n) / 4: both the
longest batch and the number of batches grow with n. M is the mean advantage over just these labels.

Models change, so one interval since the beginning would notice too late that the better one has become the worse. Sums
are therefore kept over several spans: since the beginning, and 1,000, 2,000, 4,000, ... labels long, each beginning
anew when it is full. The error probability is divided: half of it to the sums since the beginning, and to the span
number k = 0, 1, ... the share 1 / ((k + 1) (k + 2)) of the other half, each time that sums begin for the s-th time 1 /
(s (s + 1)) of their share. So all intervals that are ever shown hold together, and one may choose among them. The
length of a span is a multiple of every batch that it uses, so that one batch in progress serves all spans.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.evaluation.costs import NO_COSTS, Costs, amount_of, likeliest, paid
from riparian.models.kernels.elementary import logs
from riparian.models.kernels.kernel import kernel
from riparian.models.statistic import Statistic

SHORTEST = 1000  # labels of the shortest span; also those between two looks at the reach
N_SPANS = 17  # the first one is since the beginning, the last one 32,768,000 labels long
BATCHES = np.array([1, 5, 25, 125, 500, 2000, 8000])  # labels of a batch
FEWEST = 8  # batches that a variance is estimated from; and the root of the labels divided by THINNED
THINNED = 4.0
TUNED = 1000.0  # labels: 1 / rho^2 of the paper
DOUBT = 10.0  # squared differences that count besides those that were seen

# columns of a span: labels, sum of differences, of the older model's losses, how often it began, and from SQUARES on of
# each length of batches the sum of their squared sums
N, SUM, LOSSES, BEGUN, SQUARES = range(5)

# places in the scale of a regression, or of amounts: labels since the last look, their losses, or twice their stakes,
# and the reach (0: not known yet)
SINCE, TOTAL, REACH = range(3)
FIRST = 100  # labels by which the first reach is measured; they are not compared
WIDE = 5.0  # the first reach, in mean absolute errors of both models
WIDE_STAKE = 10.0  # of costs by amount in mean stakes: what the dearest mistake would cost, right or wrong
STEP = 8.0  # factor by which a reach is changed where it fits no more
MOST, LEAST = 0.5, 0.01  # mean loss of both models, in reaches, above and below which it does not fit
LARGEST = 1e100


class ComparisonState(NamedTuple):
    """Everything a `Comparison` knows.

    n : (1,) int64, labels compared.
    sums : (17, 11) float64, of each span.
    unfinished : (7,) float64, sum of the differences in the batch in progress, of each length.
    scale : (3,) float64, of a regression or of costs by amount.
    """

    n: NDArray[np.int64]
    sums: Floats
    unfinished: Floats
    scale: Floats


class Advantage(NamedTuple):
    """How much smaller the newer model's mean loss is over a span of labels, and within which bounds that is sure.

    Attributes
    ----------
    since : number of the span's first label among all that were compared, from 0.
    n : labels of the span.
    difference, low, high : the older model's mean loss minus the newer one's, and its interval; errors per label, or in
        the target's unit.
    loss : the older model's mean loss.
    variance : of the sum of the differences in the long run, divided by n.
    reach : what an absolute error counts for at most; 1 in a classification.
    begun : how often these sums have begun.
    """

    since: int
    n: int
    difference: float
    low: float
    high: float
    loss: float
    variance: float
    reach: float
    begun: int


class ByCost(NamedTuple):
    """Costs of mistakes, and what was named.

    costs : Costs
    x : (capacity, d) float64, rows with amounts.
    older, newer : (capacity, m) float64, code of the class that each named in column 0; NaN: the likeliest.
    """

    costs: Costs
    x: Floats
    older: Floats
    newer: Floats


ALIKE = ByCost(NO_COSTS, *[np.zeros((0, 1))] * 3)  # all mistakes


class Comparison(Statistic):
    """The losses of two models over a stream, label by label.

    Parameters
    ----------
    task : str
        "regression", or one with classes.
    reach : float
        The highest cost, where mistakes have costs; 0 where the amounts of records are costs, as nobody knows it.

    Examples
    --------
    >>> comparison, n = Comparison("classification"), 500
    >>> program = Program(np.ones(n, np.int8), np.zeros(n, np.int32), np.zeros(n), np.ones(n))
    >>> comparison.score(program, np.array([[0.2, 0.8]]), np.array([[0.6, 0.4]]))
    >>> found = comparison.advantage(0.05)
    >>> found.n, found.difference, found.low > 0.8
    (500, 1.0, True)
    """

    def __init__(self, task: str, reach: float = 1.0) -> None:
        self.task = task
        sums = np.zeros((N_SPANS, SQUARES + len(BATCHES)))
        sums[:, BEGUN] = 1.0
        self._state = ComparisonState(np.zeros(1, np.int64), sums, np.zeros(len(BATCHES)), np.zeros(3))
        self._measured = task == "regression" or reach == 0.0
        if not self._measured:
            self._state.scale[REACH] = reach

    def score(self, program: Program, older: Floats, newer: Floats, by_cost: ByCost | None = None) -> None:
        """Compare the predictions of both models at every LEARN of `program`, in order.

        Left out are labels of weight 0, those for which a model was not asked (NaN), and those for which both knew no
        class, as before the first label comes. Where one alone knew none, it is wrong.

        Parameters
        ----------
        older, newer : (capacity, n_outputs) float64
            What each predicted for the program's rows.
        by_cost : ByCost, optional
            What mistakes cost, and which classes were named.
        """
        columns, scales = (program.op, program.row, program.y, program.w), (self.task == "regression", self._measured)
        costs, *rows = by_cost or ALIKE
        _compare(*columns, older, newer, *costs, *rows, *scales, BATCHES, *self._state)

    def advantages(self, error: float) -> Iterator[Advantage]:
        """Of each span that has begun, the shortest first. All of them hold at all times with probability 1 - error."""
        n, reach = int(self._state.n[0]), float(self._state.scale[REACH])
        unfinished = self._state.unfinished.tolist()
        rows = [(row[N], k, row) for k, row in enumerate(self._state.sums.tolist()) if row[N]]
        for count, k, row in sorted(rows):
            difference, variance = row[SUM] / count, _variance(row, unfinished)
            width = bound(int(count), variance * count, error * share(k, int(row[BEGUN]))) / count
            low, high = max(-1.0, difference - width), min(1.0, difference + width)
            yield Advantage(
                since=n - int(count),
                n=int(count),
                difference=difference * reach,
                low=low * reach,
                high=high * reach,
                loss=row[LOSSES] / count * reach,
                variance=variance * reach * reach,
                reach=reach,
                begun=int(row[BEGUN]),
            )

    def advantage(self, error: float) -> Advantage | None:
        """The shortest span by which one model is better, or else the one with the narrowest interval; None before the
        first label."""
        found = list(self.advantages(error))
        decided = (one for one in found if one.low > 0.0 or one.high < 0.0)
        return next(decided, min(found, key=lambda one: one.high - one.low, default=None))

    def better(self, error: float, margin: float = 0.0, at_least: int = 0) -> Advantage | None:
        """The shortest span of `at_least` labels in which the newer model is better by more than `margin`, unless it is
        worse in a shorter one; None where there is none."""
        if not (self._state.sums[:, SUM] > 0.0).any():
            return None
        for one in self.advantages(error):
            if one.high < 0.0:
                return None
            if one.low > margin and one.n >= at_least:
                return one
        return None

    def whole(self, error: float) -> Advantage | None:
        """Since the beginning; None before the first label."""
        n = self._state.sums[0, N]
        return next((one for one in self.advantages(error) if one.n == n), None)

    @property
    def has_begun(self) -> bool:
        """Whether a label was taken."""
        scale = self._state.scale
        return bool(self._state.n[0] or scale[SINCE] or (self._measured and scale[REACH]))


def share(k: int, begun: int) -> float:
    """Of the error probability, what span k has when its sums begin for the `begun`-th time."""
    of_span = 0.5 if k == 0 else 0.5 / (k * (k + 1))
    return of_span / (begun * (begun + 1))


def bound(n: int, variance: float, error: float) -> float:
    """How far the sum of n differences is from what it would be in the long run, at most, at all n with probability 1 -
    error. variance : of the sum."""
    wide = float(logs(1.0 + n / TUNED) + 2.0 * logs(1.0 / error))
    return math.sqrt((variance + DOUBT) * (1.0 + TUNED / n) * wide)


def _variance(row: list[float], unfinished: list[float]) -> float:
    """The largest variance that batches of a span show, by label. O(lengths of batches)."""
    largest = 0.0
    for at, length in enumerate(BATCHES.tolist()):
        whole = row[N] // length
        if whole < 2.0 or (at > 0 and whole < max(FEWEST, math.sqrt(row[N]) / THINNED)):
            break
        total = row[SUM] - unfinished[at]
        largest = max(largest, (row[SQUARES + at] - total * total / whole) / ((whole - 1.0) * length))
    return largest


def warm_up(task: str) -> None:
    """Compile the kernels, or load them from the cache."""
    nothing = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
    Comparison(task).score(nothing, np.zeros((0, 1)), np.zeros((0, 1)))


@kernel
def _compare(
    op, row, y, w, older, newer, fixed, by_amount, column, highest, x, older_named, newer_named, values, measured,
    batches, n, sums, unfinished, scale,
):  # fmt: skip
    """Add the labels of a program; mutates n, sums, unfinished and scale. O(n_outputs + spans) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT or not w[i] > 0.0 or np.isnan(older[r, 0]) or np.isnan(newer[r, 0]):
            continue
        known, stake = scale[REACH] > 0.0, 0.0
        if values:
            a, b = abs(older[r, 0] - y[i]), abs(newer[r, 0] - y[i])
        else:
            one, other, label = likeliest(older, r), likeliest(newer, r), int(y[i])
            if one < 0 and other < 0:
                continue
            if len(fixed) > 0:
                amount = amount_of(x, r, column)
                a = paid(one, r, older_named, label, fixed, by_amount, amount)
                b = paid(other, r, newer_named, label, fixed, by_amount, amount)
                stake = max(highest, amount)
            else:
                a, b = 0.0 if one == label else 1.0, 0.0 if other == label else 1.0
        if known:
            a, b = min(a / scale[REACH], 1.0), min(b / scale[REACH], 1.0)
        if measured:
            scale[SINCE] += 1.0
            if values:
                scale[TOTAL] += min(a, LARGEST) + min(b, LARGEST)
            else:
                scale[TOTAL] += 2.0 * (min(stake / scale[REACH], STEP) if known else stake)
            if not known:
                if scale[SINCE] >= FIRST and scale[TOTAL] > 0.0:
                    scale[REACH] = (WIDE if values else WIDE_STAKE) * scale[TOTAL] / (2.0 * scale[SINCE])
                    scale[SINCE] = scale[TOTAL] = 0.0
                continue
        _add(a - b, a, batches, sums, unfinished)
        n[0] += 1
        if measured and scale[SINCE] >= SHORTEST:
            mean = scale[TOTAL] / (2.0 * scale[SINCE])
            scale[SINCE] = scale[TOTAL] = 0.0
            if mean > MOST or mean < LEAST:
                reach = scale[REACH] * STEP if mean > MOST else scale[REACH] / STEP
                if 1.0 / LARGEST < reach < LARGEST:
                    scale[REACH] = reach
                    unfinished[:] = 0.0
                    for k in range(len(sums)):
                        _begin(sums, k)


@kernel
def _add(difference, loss, batches, sums, unfinished):
    """Add a label to all spans, and batches that are full to theirs; mutates sums and unfinished."""
    for k in range(len(sums)):
        if k > 0 and sums[k, N] == SHORTEST * 2 ** (k - 1):
            _begin(sums, k)
        sums[k, N] += 1.0
        sums[k, SUM] += difference
        sums[k, LOSSES] += loss
    for at in range(len(batches)):
        unfinished[at] += difference
        if sums[0, N] % batches[at] == 0.0:
            for k in range(len(sums)):
                if sums[k, N] >= batches[at]:
                    sums[k, SQUARES + at] += unfinished[at] * unfinished[at]
            unfinished[at] = 0.0


@kernel
def _begin(sums, k):
    """Let the sums of span k begin anew; mutates sums."""
    begun = sums[k, BEGUN]
    sums[k, :] = 0.0
    sums[k, BEGUN] = begun + 1.0
