"""How good predictions are by the value of a feature, and for which values they have become worse than for the others.

What is kept is bounded. As long as no more than `SLOTS` values have come, each has a row of its own. After that a new
value takes the row of the one that has come least lately, and is believed to have come as often; what was known of that
one goes to the others (Metwally, Agrawal, El Abbadi: Efficient computation of frequent and top-k elements in data
streams. ICDT 2005). So each value of more than 1 / `SLOTS` of the labels has a row.

A label has a loss: 1 of a mistake and 0 of none, of a missed label of the class that a target is about (others do not
count), what a mistake costs, or the absolute error. Sums of losses fade twice, over about `span` labels, which is now,
and over `LONG` times as many, which is before. The shares of values times their mean losses, now less before, add up
to the rise of the mean loss.

*Which value is worse.* Of each label the loss, a number in [0, 1] (a cost as a share of the highest of its row), less
the mean loss of all labels of other values since the last one of this value: what happens to all of them at once, a
drift or an hour of the day, cancels out. In periods of a value, which are 1,024, 2,048, ... 16,384 labels of it long,
this excess is compared with that of the period before: over the whole period, and over spans of 64, 256, 1,024 and
4,096 labels, each beginning anew when it is full. With the long-run variance V, the sum of n excesses is

    n M +- sqrt((V n + D) (1 + T / n) (log(1 + n / T) + 2 log(1 / a)))

at all n at once with probability 1 - a, as in `models.evaluation.comparison`, for T = 128 labels and D = `DOUBT`. V is
estimated by batches, as there. What m batches show is taken to be 2 sqrt(2 / m) larger, two standard errors, and V is
the largest that any length of batches shows, of which the period had 4 and sqrt(n) / 8, or half the V before.

The value is worse where the lower end of a span is above the upper end of the period before, and its own loss has risen
by half as much at least: else the others have improved. The error is divided: 1 / (t (t + 1)) to the t-th value that
gets a row, half of that to periods before and half to spans, and 1 / (s (s + 1)) of it to what begins for the s-th
time.

It stays worse until its loss over a span of the length by which that was found has risen by less than half as much. A
period does not end while it is worse, nor while the last 256 excesses are two standard errors above those before, but
when it is four times as long: then that is usual.
"""

from typing import NamedTuple

import numpy as np

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.evaluation.costs import NO_COSTS, Costs, amount_of, likeliest, paid
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel
from riparian.models.statistic import Statistic

SLOTS = 64
LONG = 10  # how many times as many labels are before as are now
MISSING, OTHERS, FIRST = range(3)  # rows: of a value that is missing, of values without a row; from there on slots

MISTAKES, MISSED, COSTS, ERRORS = range(4)  # what is lost by a label

SHORTEST, LONGEST, PATIENCE = 1024, 16_384, 4  # labels of a period, and periods after which worse is usual
N_BATCHES, FEWEST, THINNED = 6, 4, 8.0  # lengths 1, 4, ... 1,024; see `comparison`
N_SPANS, SPAN, SETTLED = 4, 64, 256  # SETTLED: a span after which a period may end
TUNED, DOUBT = 128.0, 4.0
LOOK = 4  # labels of a value from one look to the next
UNIT_LIMIT = 1e100

# columns of a row: faded weight and loss, now and before; weight of what had the row before, which it may have had, too
NOW, LOSS_NOW, BEFORE, LOSS_BEFORE, INHERITED = range(5)
# the number of the value that has the row, of periods begun, and of labels in this one; sums of excess and loss in it
NUMBER, PERIOD, N, EXCESS, LOSS = range(5, 10)
# of the period before: labels, mean excess and loss, variance
N_USUAL, EXCESS_USUAL, LOSS_USUAL, VARIANCE = range(10, 14)
# mean loss of the others; labels and losses of all at the last label; worse by spans of this number, 0: it is not, how
# far the loss had risen then, and since when, ms
BASE, SEEN, SEEN_LOSS, WORSE, RISE, SINCE = range(14, 20)
# of each length of batches squared sums and the sum in progress; where each span began
SQUARES, PROGRESS = 20, 20 + N_BATCHES
BEGUN, BEGUN_LOSS = 20 + 2 * N_BATCHES, 20 + 2 * N_BATCHES + N_SPANS
N_COLUMNS = 20 + 2 * N_BATCHES + 2 * N_SPANS

# places in the totals: labels, losses in [0, 1], values that got a row, units of both sums, and the time, ms
LABELS, LOSSES, VALUES, UNIT, UNIT_BEFORE, TIME = range(6)


class SegmentLossesState(NamedTuple):
    """Everything a `SegmentLosses` knows.

    values : (SLOTS + 2,) float64, the value of each row, NaN of the first two and of free ones.
    rows : (SLOTS + 2, N_COLUMNS) float64. totals : (6,) float64.
    """

    values: Floats
    rows: Floats
    totals: Floats


class Loss(NamedTuple):
    """What is lost by a label.

    kind : MISTAKES, MISSED, COSTS or ERRORS. code : of the class whose labels count, of MISSED; -1 while not known.
    costs : of COSTS.
    """

    kind: int
    code: int = -1
    costs: Costs = NO_COSTS


class Segment(NamedTuple):
    """Of one value.

    value : NaN where it is missing, None of all that have no row here.
    n, loss : labels now, faded, and the sum of their losses. n_before, loss_before : of before.
    worse : whether its loss has surely risen by more than that of the others. since : when that was found, ms; 0.
    usual, found : its mean loss before, and how far it had risen then, in [0, 1]; 0 where it is not worse.
    """

    value: float | None
    n: float
    loss: float
    n_before: float
    loss_before: float
    worse: bool = False
    since: int = 0
    usual: float = 0.0
    found: float = 0.0


class SegmentLosses(Statistic):
    """Losses by the value of one feature.

    Parameters
    ----------
    span : float
        Labels over which the sums of now fade, 2 or more.
    error : float
        Probability that any value is ever said to be worse which is not, where the losses of a value come in runs that
        are short beside the longest batch; it is spent anew when the features or what a loss is change.

    Examples
    --------
    >>> segments, n = SegmentLosses(100.0, 0.01), 5000
    >>> program = Program(np.ones(n, np.int8), np.arange(n, dtype=np.int32), np.zeros(n), np.ones(n))
    >>> x = np.arange(n, dtype=np.float64)[:, None] % 2
    >>> right = np.column_stack((x[:, 0] + np.arange(n) < 4000, x[:, 0] + np.arange(n) >= 4000)).astype(np.float64)
    >>> right[x[:, 0] == 0] = [1.0, 0.0]
    >>> segments.run(program, x, 0, right, Loss(MISTAKES), np.zeros(n))
    >>> [one.value for one in segments.found() if one.worse]
    [1.0]
    """

    def __init__(self, span: float, error: float) -> None:
        self.error = error
        self.fade_over(span)
        totals = np.zeros(6)
        totals[UNIT] = totals[UNIT_BEFORE] = 1.0
        n = FIRST + SLOTS
        self._state = SegmentLossesState(np.full(n, np.nan), np.zeros((n, N_COLUMNS)), totals)

    def run(
        self,
        program: Program,
        x: Floats,
        column: int,
        out: Floats,
        loss: Loss,
        times: Floats,
        named: Floats | None = None,
    ) -> None:
        """Take every LEARN of a program, in order. Left out are labels of weight 0, and those of rows that were not
        predicted (NaN); where nothing was known, a classification is wrong.

        Parameters
        ----------
        x : (capacity, d) float64
            Rows of the program, of which `column` holds the value.
        out : (capacity, n_outputs) float64
            What was predicted for them.
        times : (n,) float64
            Of each operation, ms.
        named : (capacity, m) float64, optional
            The code of the class that each prediction named, in column 0; NaN: the likeliest.
        """
        decided = np.zeros((0, 1)) if named is None else named
        columns = program.op, program.row, program.y, program.w
        kind, code, costs = loss
        _run(*columns, x, column, out, decided, times, kind, code, *costs, self.span, self.error, *self._state)

    def found(self, most: int = 32, least: float = 0.01) -> list[Segment]:
        """The values that come most, the missing one, and all others together; without those that never came. most : of
        those that have a share of at least `least`."""
        values, rows, totals = self._state
        weight = rows[:, BEFORE].sum()
        if not weight > 0.0:
            return []
        often = FIRST + np.argsort(-rows[FIRST:, BEFORE], kind="stable")[:most]
        order = [int(i) for i in often if rows[i, BEFORE] >= least * weight]
        rest = [i for i in range(OTHERS, len(rows)) if i not in order]
        units = totals[[UNIT, UNIT, UNIT_BEFORE, UNIT_BEFORE]]
        made = list[Segment]()
        for i in [*order, MISSING]:
            if rows[i, BEFORE] > 0.0:
                made.append(_segment(float(values[i]), rows[i, :INHERITED] / units))
                if rows[i, WORSE]:
                    usual, rise = float(rows[i, LOSS_USUAL]), float(rows[i, RISE])
                    made[-1] = made[-1]._replace(worse=True, since=int(rows[i, SINCE]), usual=usual, found=rise)
        others = _segment(None, rows[rest, :INHERITED].sum(axis=0) / units)
        return [*made, others] if others.n_before > 0.0 else made

    def fade_over(self, span: float) -> None:
        """Let the sums of now fade over as many labels from here on, and those of before over `LONG` times as many."""
        self.span = max(span, 2.0)

    @property
    def has_begun(self) -> bool:
        """Whether anything was taken."""
        return bool(self._state.totals[[LABELS, TIME]].any())


def _segment(value: float | None, sums: Floats) -> Segment:
    n, loss, n_before, loss_before = sums.tolist()
    return Segment(value, n, loss, n_before, loss_before)


@kernel
def _loss(out, r, label, decided, kind, code, fixed, by_amount, amount):
    """The loss of the prediction in row r; -1 where the label does not count. O(n_outputs)."""
    if kind == ERRORS:
        return abs(out[r, 0] - label)
    if kind == MISSED and label != code:
        return -1.0
    if kind == COSTS:
        return paid(likeliest(out, r), r, decided, int(label), fixed, by_amount, amount)
    named = -1
    if len(decided) > 0 and not np.isnan(decided[r, 0]):
        named = int(decided[r, 0])
    elif out.shape[1] > 1:
        named = likeliest(out, r)
    return 0.0 if named == int(label) else 1.0


@kernel
def _slot(value, values, rows, totals):
    """The row of a value, which gets one where it has none; mutates all. O(SLOTS)."""
    if np.isnan(value):
        if rows[MISSING, NUMBER] == 0.0:
            totals[VALUES] += 1.0
            rows[MISSING, NUMBER] = totals[VALUES]
        return MISSING
    least, weight = FIRST, rows[FIRST, BEFORE] + rows[FIRST, INHERITED]
    for i in range(FIRST, len(values)):
        if values[i] == value:
            return i
        if np.isnan(values[i]):
            least, weight = i, 0.0
            break
        if rows[i, BEFORE] + rows[i, INHERITED] < weight:
            least, weight = i, rows[i, BEFORE] + rows[i, INHERITED]
    for c in range(INHERITED):
        rows[OTHERS, c] += rows[least, c]
    for c in range(rows.shape[1]):
        rows[least, c] = 0.0
    rows[least, INHERITED] = weight
    values[least] = value
    totals[VALUES] += 1.0
    rows[least, NUMBER] = totals[VALUES]
    return least


@kernel
def _bound(n, variance, wide):
    """How far the sum of n excesses is from what it would be in the long run. wide : 2 log(1 / error)."""
    return np.sqrt((variance * n + DOUBT) * (1.0 + TUNED / n) * (log(1.0 + n / TUNED) + wide))


@kernel
def _begin(row):
    """Begin a period; mutates row."""
    row[PERIOD] += 1.0
    row[N] = row[EXCESS] = row[LOSS] = row[WORSE] = row[RISE] = row[SINCE] = 0.0
    for c in range(SQUARES, N_COLUMNS):
        row[c] = 0.0


@kernel
def _end(row):
    """What is usual is what was in the period that ends; mutates row."""
    n, largest, length = row[N], 0.0, 1.0
    for b in range(N_BATCHES):
        whole = np.floor(n / length)
        if b > 0 and whole < max(FEWEST, np.sqrt(n) / THINNED):
            break
        total = row[EXCESS] - row[PROGRESS + b]
        rough = 1.0 + 2.0 * np.sqrt(2.0 / whole)
        largest = max(largest, rough * (row[SQUARES + b] - total * total / whole) / ((whole - 1.0) * length))
        length *= 4.0
    row[N_USUAL], row[EXCESS_USUAL], row[LOSS_USUAL] = n, row[EXCESS] / n, row[LOSS] / n
    row[VARIANCE] = max(0.5 * row[VARIANCE], largest)
    _begin(row)


@kernel
def _look(row, error, time):
    """Whether the value is worse in any span; mutates row. O(N_SPANS)."""
    n, s = row[N], row[PERIOD] - 1.0
    wide = -2.0 * log(error / (row[NUMBER] * (row[NUMBER] + 1.0)) * 0.5 / (s * (s + 1.0)))
    usual = row[EXCESS_USUAL] + _bound(row[N_USUAL], row[VARIANCE], wide) / row[N_USUAL]
    best, length = 0.0, SPAN
    for k in range(N_SPANS + 1):
        m, excess, loss, often = n, row[EXCESS], row[LOSS], 1.0
        if k > 0:
            often = np.floor(n / length) + 1.0
            m = n - (often - 1.0) * length
            excess -= row[BEGUN + k - 1]
            loss -= row[BEGUN_LOSS + k - 1]
            length *= 4
        if m < LOOK:
            continue
        share = wide + 2.0 * log((k + 1.0) * (k + 2.0) * often * (often + 1.0))
        low = (excess - _bound(m, row[VARIANCE], share)) / m - usual
        rise = loss / m - row[LOSS_USUAL]
        if low > best and 2.0 * rise >= excess / m - row[EXCESS_USUAL]:
            best = low
            row[WORSE], row[RISE], row[SINCE] = k + 1.0, rise, time


@kernel
def _test(row, loss, error, time):
    """Take a label of the value, by its loss in [0, 1]; mutates row."""
    excess = loss - row[BASE]
    if row[PERIOD] == 0.0:
        _begin(row)
    row[N] += 1.0
    row[EXCESS] += excess
    row[LOSS] += loss
    n, length = row[N], 1.0
    for b in range(N_BATCHES):
        row[PROGRESS + b] += excess
        if n % length == 0.0:
            row[SQUARES + b] += row[PROGRESS + b] * row[PROGRESS + b]
            row[PROGRESS + b] = 0.0
        length *= 4.0
    if row[WORSE] == 0.0 and row[PERIOD] > 1.0 and n % LOOK == 0.0:
        _look(row, error, time)
    length = 1.0 * SPAN
    recovered, rises = False, row[WORSE] > 0.0
    for k in range(N_SPANS):
        if n % length == 0.0:
            mean = (row[LOSS] - row[BEGUN_LOSS + k]) / length
            recovers = row[WORSE] == k + 2.0 or (row[WORSE] == 1.0 and k == N_SPANS - 1)
            recovered |= recovers and 2.0 * (mean - row[LOSS_USUAL]) < row[RISE]
            if length == SETTLED and row[PERIOD] > 1.0:
                ahead = (row[EXCESS] - row[BEGUN + k]) / length - row[EXCESS_USUAL]
                rises |= ahead > 2.0 * np.sqrt(row[VARIANCE] / length)
            row[BEGUN + k], row[BEGUN_LOSS + k] = row[EXCESS], row[LOSS]
        length *= 4.0
    if recovered:
        _begin(row)
        return
    period = min(1.0 * SHORTEST * (1 << int(min(row[PERIOD] - 1.0, 20.0))), 1.0 * LONGEST)
    if n >= PATIENCE * period or (n >= period and n % SETTLED == 0.0 and not rises):
        _end(row)


@kernel
def _run(
    op, row, y, w, x, column, out, decided, times, kind, code, fixed, by_amount, amounts, highest, span, error,
    values, rows, totals,
):  # fmt: skip
    """Take the labels of a program; mutates values, rows and totals. O(n_outputs + SLOTS) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT or not w[i] > 0.0 or np.isnan(y[i]) or np.isnan(out[r, 0]):
            continue
        amount = amount_of(x, r, amounts)
        loss = _loss(out, r, y[i], decided, kind, code, fixed, by_amount, amount)
        if not loss >= 0.0:
            continue
        loss = min(loss, UNIT_LIMIT)  # an error may be infinite
        part, known = loss / max(highest, amount), True
        if kind == ERRORS:
            weight = lost = 0.0
            for j in range(len(rows)):
                weight += rows[j, BEFORE]
                lost += rows[j, LOSS_BEFORE]
            known = lost > 0.0
            part = loss / (loss + lost / weight) if known else 0.0
        at = _slot(x[r, column], values, rows, totals)
        here, n = rows[at], totals[LABELS]
        others = n - here[SEEN]
        if others > 0.0:
            here[BASE] = (totals[LOSSES] - here[SEEN_LOSS]) / others
        known &= others > 0.0 or here[PERIOD] > 0.0
        here[NOW] += totals[UNIT]
        here[LOSS_NOW] += totals[UNIT] * loss
        here[BEFORE] += totals[UNIT_BEFORE]
        here[LOSS_BEFORE] += totals[UNIT_BEFORE] * loss
        totals[LABELS] += 1.0
        totals[LOSSES] += part
        here[SEEN], here[SEEN_LOSS] = totals[LABELS], totals[LOSSES]
        if known:
            _test(here, part, error, times[i])
        totals[UNIT] /= 1.0 - 1.0 / span
        totals[UNIT_BEFORE] /= 1.0 - 1.0 / (LONG * span)
        if totals[UNIT] > UNIT_LIMIT or totals[UNIT_BEFORE] > UNIT_LIMIT:
            for j in range(len(rows)):
                for c in range(2):
                    rows[j, c] /= totals[UNIT]
                    rows[j, 2 + c] /= totals[UNIT_BEFORE]
                rows[j, INHERITED] /= totals[UNIT_BEFORE]
            totals[UNIT] = totals[UNIT_BEFORE] = 1.0
