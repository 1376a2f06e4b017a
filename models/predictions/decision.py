"""Which class a prediction names, where that is not simply the likeliest: by costs, or by a threshold that is kept at a
target.

*Costs* (Elkan: The foundations of cost-sensitive learning. IJCAI 2001): with costs C[i, j] of naming class j where i is
true, the class named is the one of least expected cost, the sum over i of p_i C[i, j], among the classes whose
probability is above 0. Equal ones: the likelier, then the lower.

*A threshold* on the probability of one class: that class is named from the threshold on, and below it the likeliest of
the others. The threshold follows a target in the order of the records:

- `alert_rate`: the share of the predictions that name the class. Every prediction counts, at once.
- `recall`: the share of the labels of the class that it was named for. Every label of the class counts.
- `precision`: the share of the namings that were right. Every label counts.

Probabilities are counted in bins of log-odds, `WIDTH` wide, and the past fades: about the last `MEMORY` labels of the
class count, or of an alert rate a as many predictions as have `MEMORY` / 2 alerts. The threshold is the edge of a bin:
for a rate or a recall the one whose share from it on is next to the wanted share, for a precision the lowest from which
on the share of the class is at least the wanted one (or, where none is, the edge with the greatest share).

Counts alone would be off, since models learn and streams drift. So the wanted share is moved by what was really
predicted, as in adaptive conformal inference (Gibbs, Candès: Adaptive conformal inference under distribution shift.
NeurIPS 2021): its log-odds go up by `STEP` * (target - what happened), 1 or 0. Over n such moves the mean of what
happened differs from the target by (change of the log-odds) / (STEP * n), also where many probabilities are equal. They
stay within `BOUND` of the target's. With late labels the step is at most 1 / (`SWING` * labels that come in between),
as in models/predictions/conformal.py.

Before there are `FIRST` labels of the class, or predictions for that many alerts, the likeliest class is named. A class
whose probability is below about 4e-11 is never named by a threshold.

*Scores of anomalies* have an alert rate alone, since they need no labels: 1 is named from the threshold on, 0 below it,
and nothing before there is one. They are between 0 and 1 and no probabilities: most of them lie within a few bins of
log-odds, so their bins are as wide as each other. What was predicted is counted, too, since no label may ever come to
do it. There is no other alarm meanwhile, so one alert's predictions are enough for a first threshold: the greatest of n
scores is passed by the next one with a chance of 1 / (n + 1). A learner that has seen little gives greater scores than
it will, and these would hold the threshold up for long: of t scores the last counts for 2 / (t + 2) at least, so the
i-th for (i + 1) (i + 2) as much, until that is less than what fading alone takes.

A `Threshold` is a fold over predictions and labels in their order, held in arrays: the same bits however they were cut.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.evaluation.costs import Priced, amount_of, price
from riparian.models.kernels.elementary import exp, exps, log
from riparian.models.kernels.kernel import kernel
from riparian.models.statistic import Statistic

PRECISION, RECALL, ALERT_RATE = "precision", "recall", "alert_rate"
TARGETS = (PRECISION, RECALL, ALERT_RATE)

WIDTH, LOWEST = 0.1, -24.0  # of a bin of log-odds, and where the first one begins
BINS = 480
MEMORY = 200.0
FIRST, FIRST_SCORES = 10.0, 1.0
YOUNG = 2.0
STEP, SWING, BOUND = 0.05, 8.0, 5.0
DELAY_STEP = 0.01
UNIT_LIMIT = 1e100

DECIDED_WIDTH = 2  # columns beside instances: the class named, and how many labels had counted then

# columns of bins; of scores, what the share is of, predictions that had a threshold, and alerts
OWN, ALL = 0, 1
DECIDED, ALERTS = 1, 2
# places in `following`: log-odds of the wanted share less the target's, mean number of labels that counted between
# predicting and scoring, what one more counts for, all that count (of the class; of an alert rate, predictions)
SHIFT, DELAY, UNIT, TOTAL = 0, 1, 2, 3
# places in `n`: taken into the bins, and that counted; of scores, alerts
TAKEN, COUNTED, NAMED = 0, 1, 2


class ThresholdState(NamedTuple):
    """Everything a `Threshold` knows.

    n : (2,) int64, TAKEN (labels of the class, or predictions) and COUNTED; of scores (3,), with NAMED.
    bins : (480, 2) float64, weights in units of UNIT: of labels of the class, and of all that are looked at. Of scores
        (480, 3): of predictions, of those that had a threshold, and of alerts.
    following : (4,) float64, SHIFT, DELAY, UNIT and TOTAL.
    """

    n: NDArray[np.int64]
    bins: Floats
    following: Floats


class Threshold(Statistic):
    """A threshold on the probability of one class, or on scores of anomalies, kept at a target.

    Parameters
    ----------
    target : str
        One of TARGETS.
    share : float
        What it shall be, in (0, 1).
    scores : bool
        Whether predictions are scores of anomalies, of which an alert rate is kept.

    Examples
    --------
    >>> threshold, n, rng = Threshold("alert_rate", 0.05), 20_000, np.random.default_rng(1)
    >>> p = rng.random(n) ** 4
    >>> out, decided = np.column_stack((1.0 - p, p)), np.zeros((n, 2))
    >>> program = Program(np.zeros(n, np.int8), np.arange(n, dtype=np.int32), np.full(n, np.nan), np.ones(n))
    >>> threshold.run(program, out, decided, 1)
    >>> round(float(decided[10_000:, 0].mean()), 2)
    0.05
    """

    def __init__(self, target: str, share: float, scores: bool = False) -> None:
        if target not in TARGETS:
            raise ValueError(f"target is {target}: give one of {', '.join(TARGETS)}")
        if scores and target != ALERT_RATE:
            raise ValueError(f"target is {target}: give {ALERT_RATE}, which scores have without labels")
        if not 0.0 < share < 1.0:
            raise ValueError(f"{target} is {share}: give a share between 0 and 1, such as 0.9")
        self.target, self.share, self.scores = target, share, scores
        following = np.array([0.0, 0.0, 1.0, 0.0])
        self._state = ThresholdState(np.zeros(2 + scores, np.int64), np.zeros((BINS, 2 + scores)), following)

    def run(self, program: Program, out: Floats, decided: Floats, code: int) -> None:
        """Name a class at each PREDICT of a program, and follow the target.

        Parameters
        ----------
        out : (capacity, n_outputs) float64
            Probabilities of the rows, or scores; NaN where none were predicted.
        decided : (capacity, 2) float64
            Beside the instances: the code of the class named, and how many labels had counted then (NaN: there was no
            threshold). Written at PREDICT, read at LEARN. NaN in column 0: nothing was known, or of scores decided.
        code : int
            Of the class; -1 while it is not known. Of scores 1, what a label of an anomaly is.
        """
        asked = code, self._kind, self.share, self.scores
        _run(program.op, program.row, program.y, program.w, out, decided, *asked, *self._state)

    @property
    def _kind(self) -> int:
        return TARGETS.index(self.target)

    @property
    def value(self) -> float | None:
        """The probability, or score, from which on the class is named; None while there are too few labels."""
        edge = int(_edge(self._kind, self.share, self.scores, *self._state))
        if self.scores and edge >= 0:
            return edge / BINS
        return None if edge < 0 else float(1.0 / (1.0 + exps(-(LOWEST + WIDTH * edge))))

    def alert_rate(self, recent: bool) -> float | None:
        """Of scores, the share of the predictions with a threshold that were alerts, of all of them or of the past
        that counts; None before there is one."""
        n, bins, _ = self._state
        alerts, of = (bins[:, ALERTS].sum(), bins[:, DECIDED].sum()) if recent else (n[NAMED], n[COUNTED])
        return float(alerts / of) if of > 0 else None

    @property
    def has_begun(self) -> bool:
        """Whether anything was taken: for a precision, labels of other classes before the first of its own, too."""
        return bool(self._state.n[TAKEN] or self._state.following[TOTAL] or self._state.bins.any())


def by_cost(program: Program, out: Floats, decided: Floats, priced: Priced) -> None:
    """Name the class of least expected cost at each PREDICT of a program.

    Parameters
    ----------
    out, decided : as in `Threshold.run`
    priced : Priced
        Costs, and the rows with their amounts.
    """
    costs, x = priced
    _by_cost(program.op, program.row, out, decided, costs.fixed, costs.by_amount, costs.column, x)


@kernel
def _likeliest(out, r, but):
    """The likeliest class of row r other than `but`; -1 where nothing is known. O(n_outputs)."""
    best, highest = -1, 0.0
    for k in range(out.shape[1]):
        if k != but and out[r, k] > highest:
            best, highest = k, out[r, k]
    return best


@kernel
def _by_cost(op, row, out, decided, fixed, by_amount, column, x):
    """Write what is named into `decided`. O(n_outputs ** 2) a prediction."""
    for i in range(len(op)):
        if op[i] != PREDICT:
            continue
        r, best, least = row[i], -1, np.inf
        amount = amount_of(x, r, column)
        for j in range(out.shape[1]):
            if not out[r, j] > 0.0:
                continue
            expected = 0.0
            for k in range(out.shape[1]):
                if out[r, k] > 0.0:
                    expected += out[r, k] * price(fixed, by_amount, amount, k, j)
            if best < 0 or expected < least or (expected == least and out[r, j] > out[r, best]):
                best, least = j, expected
        decided[r, 0], decided[r, 1] = best if best >= 0 else np.nan, np.nan


@kernel
def _bin(p):
    """The bin of a probability. O(1)."""
    if not p > 0.0:
        return 0
    if p >= 1.0:
        return BINS - 1
    place = (log(p / (1.0 - p)) - LOWEST) / WIDTH
    return int(min(max(place, 0.0), BINS - 1.0))


@kernel
def _place(score):
    """The bin of a score. O(1)."""
    return int(min(max(score * BINS, 0.0), BINS - 1.0))


@kernel
def _edge(kind, share, scores, n, bins, following):
    """The first bin from which on the class is named; -1 while the likeliest class is. O(BINS)."""
    if n[TAKEN] * (share if kind == 2 else 1.0) < (FIRST_SCORES if scores else FIRST):
        return -1
    level = 1.0 / (1.0 + exp(-(log(share / (1.0 - share)) + following[SHIFT])))
    own, every = 0.0, 0.0
    if kind > 0:
        wanted = level * following[TOTAL]
        for b in range(BINS - 1, 0, -1):
            above = own
            own += bins[b, OWN]
            if own >= wanted:
                return b if own - wanted <= wanted - above else b + 1
        return 1
    found, every = -1, following[UNIT]  # one more that is not of the class: few labels prove little
    for b in range(BINS - 1, 0, -1):
        own += bins[b, OWN]
        every += bins[b, ALL]
        if own >= level * every:
            found = b
    if found >= 0:
        return found
    best, most, own, every = BINS - 1, -1.0, 0.0, following[UNIT]
    for b in range(BINS - 1, 0, -1):
        own += bins[b, OWN]
        every += bins[b, ALL]
        if own / every > most:
            best, most = b, own / every
    return best


@kernel
def _fade(decay, bins, following):
    """Make the past count less: the unit grows, and all is scaled back before it overflows. Amortised O(1)."""
    following[UNIT] /= decay
    if following[UNIT] > UNIT_LIMIT:
        for b in range(len(bins)):
            for j in range(bins.shape[1]):
                bins[b, j] /= following[UNIT]
        following[TOTAL] /= following[UNIT]
        following[UNIT] = 1.0


@kernel
def _follow(share, happened, between, n, following):
    """Move the wanted share by what happened, 1 or 0; mutates n and following. O(1)."""
    if not between >= 0.0:  # no program writes that
        between = 0.0
    following[DELAY] += max(DELAY_STEP, 1.0 / (n[COUNTED] + 1.0)) * (between - following[DELAY])
    step = min(STEP, 1.0 / (SWING * (1.0 + following[DELAY])))
    following[SHIFT] = min(max(following[SHIFT] + step * (share - happened), -BOUND), BOUND)
    n[COUNTED] += 1


@kernel
def _run(op, row, y, w, out, decided, code, kind, share, scores, n, bins, following):
    """Name, count and follow; mutates decided and the state arrays. kind : place in TARGETS. O(n_outputs + BINS)."""
    edge = _edge(kind, share, scores, n, bins, following)
    for i in range(len(op)):
        r = row[i]
        likeliest = -1 if scores else _likeliest(out, r, -1)
        known = (scores or likeliest >= 0) and not np.isnan(out[r, 0])
        p = out[r, 0] if scores else out[r, code] if code >= 0 else 0.0
        if op[i] == PREDICT:
            decided[r, 0], decided[r, 1] = np.nan, np.nan
            if not known:
                continue
            place = _place(p) if scores else _bin(p)
            if not scores:
                decided[r, 0] = likeliest
            if edge >= 0:
                decided[r, 1] = n[COUNTED]
                if place >= edge:
                    decided[r, 0] = code
                elif scores:
                    decided[r, 0] = 0.0
                elif likeliest == code:
                    other = _likeliest(out, r, code)
                    decided[r, 0] = other if other >= 0 else code
            if kind == 2:
                named = decided[r, 0] == code
                if edge >= 0:
                    _follow(share, 1.0 if named else 0.0, 0.0, n, following)
                faded = 2.0 * share / MEMORY
                if scores:
                    faded = max(faded, YOUNG / (n[TAKEN] + 1.0 + YOUNG))
                _fade(1.0 - faded, bins, following)
                bins[place, OWN] += following[UNIT]
                if scores and edge >= 0:
                    bins[place, DECIDED] += following[UNIT]
                    if named:
                        bins[place, ALERTS] += following[UNIT]
                        n[NAMED] += 1
                following[TOTAL] += following[UNIT]
                n[TAKEN] += 1
                edge = _edge(kind, share, scores, n, bins, following)
            continue
        if kind == 2 or not w[i] > 0.0 or not known:
            continue
        own, named = y[i] == code, decided[r, 0] == code
        if decided[r, 1] >= 0.0 and (own if kind == 1 else named):
            happened = 1.0 if own and named else 0.0
            _follow(share, happened, n[COUNTED] - decided[r, 1], n, following)
        if own:
            _fade(1.0 - 1.0 / MEMORY, bins, following)
            bins[_bin(p), OWN] += following[UNIT]
            following[TOTAL] += following[UNIT]
            n[TAKEN] += 1
        if kind == 0:
            bins[_bin(p), ALL] += following[UNIT]
        if kind == 0 or own:
            edge = _edge(kind, share, scores, n, bins, following)
