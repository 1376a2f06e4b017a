"""What a prediction has besides the likeliest answer: an interval, or a set of classes, that holds the label as often
as was asked for.

Adaptive conformal inference (Gibbs, Candès: Adaptive conformal inference under distribution shift. NeurIPS 2021). A
*score* is how far a prediction was from its label: the absolute error, or 1 minus the probability of the label's
class. An answer is in the interval or set where its score would be at most q, a quantile of the scores of the last
`WINDOW` labels. Its level is 1 - a, where a moves at each label by `step * (asked - missed)`: missed is 1 where what
had been predicted did not hold the label. So the share of labels that are missed comes to the one asked for, whatever
the model and the stream: over n labels it differs by (change of a) / (step * n). What follows the paper and what does
not:

- The label of an instance scores the interval that was really predicted for it, however late it comes. With late
  labels the loop is slow to see what it does. So that it does not swing, the step is at most 1 / (`SWING` * labels that
  come in between) (the mean of the last about 100).
- Where a would ask for more than all scores (in the paper: the whole line), q is twice the largest score for each
  further 1 - coverage, so that intervals stay finite and still grow without bound.
- One label that is an outlier would make these intervals hundreds of times as wide. So an interval is at most
  2^`TAIL` times the score at the asked level, where a is 0, twice of that for each further 1 - coverage, and in between
  where a is. Errors of a normal or a Laplace distribution stay below that.
- a stays between `LOWEST` and `HIGHEST` times 1 - coverage, so that it finds back soon where intervals cannot be
  narrower (a constant target) or classes not be distinguished.
- All classes are scored together, so of a rare class few labels may be held. By class, each of the first `CLASSES`
  classes has scores and an a of its own, and is in the set by its own quantile (label-conditional prediction; Vovk:
  Conditional validity of inductive conformal predictors. Machine Learning 92, 2013). Labels that come in between are
  then those of the class. A class with too few scores for its quantile is in each set; the others go together.
- A set is never empty: the likeliest class is in it. Only what the threshold gives moves a, so sets may hold the label
  more often than asked for, where the model is right more often than that.
- There is none before there are so many scores that one of them is the quantile: 9 for 0.9, 99 for 0.99, and
  `WINDOW` where more would be needed (beyond .998); a then finds how far beyond the greatest is far enough.

A `Conformal` is a fold over predictions and labels in their order, held in arrays like a learner: the same bits however
they were cut into programs. A prediction costs O(n_outputs); a label also a place among `WINDOW` sorted scores.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.evaluation.costs import likeliest
from riparian.models.joined import grown
from riparian.models.kernels.elementary import power
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.statistic import WindowStatistic

WINDOW = 500  # scores that the quantile is taken of
STEP = 0.005  # largest step of a at a label
SWING = 8.0
TAIL = 2.0  # doublings from the score at the asked level to the most that an interval reaches where a is 0
LOWEST, HIGHEST = -20.0, 5.0
DELAY_STEP = 0.01

CLASSES = 20  # classes with figures, and with scores of their own where sets are by class, at most

# places in `adaptation`: a minus (1 - coverage); mean number of labels between predicting and scoring
SHIFT, DELAY = 0, 1
# places in `n`
SCORES, SCORED, LABELS = 0, 1, 2
# columns of sums and ring
WEIGHT, COVERED, WIDTH = 0, 1, 2

NEWER = ("class_sums", "recent_class_sums", "ring_class", "class_n", "class_scores", "class_shift")
GROUPED = ("class_n", "class_scores", "class_shift")
N_REGIONS = {True: 3, False: 1}  # arrays beside instances, by whether it is a regression


class ConformalState(NamedTuple):
    """Everything a `Conformal` knows; K = n_outputs.

    n : (3,) int64, SCORES taken, labels SCORED by a region, and LABELS learned.
    seen : (K,) uint8, 1 for classes that occurred as a label; none of a regression.
    scores : (WINDOW,) float64, the last ones: score i in place i % WINDOW.
    adaptation : (2,) float64, SHIFT and DELAY.
    sums : (3,) float64 over all labels that met a region: weight, weight of those that it held,
        weighted width (or number of classes).
    recent_sums : (3,) float64, the same, faded (zero without fading).
    ring : (window, 3) float64, the last labels (no rows with fading).
    class_sums, recent_class_sums : (CLASSES, 2) float64, weight and weight of those held, as sums and recent_sums; of
        the first classes.
    ring_class : (window, 1) float64, code + 1 of the last labels; 0 of a value.
    class_n, class_scores, class_shift : (CLASSES,) int64, (CLASSES, WINDOW) float64 and (CLASSES,) float64, scores and
        SHIFT of each of the first classes; no rows unless by class.
    """

    n: NDArray[np.int64]
    seen: NDArray[np.uint8]
    scores: Floats
    adaptation: Floats
    sums: Floats
    recent_sums: Floats
    ring: Floats
    class_sums: Floats
    recent_class_sums: Floats
    ring_class: Floats
    class_n: NDArray[np.int64]
    class_scores: Floats
    class_shift: Floats


class Conformal(WindowStatistic):
    """Intervals or sets around the predictions of a stream, and how often they held the label.

    Parameters
    ----------
    task : str
        "regression", or one with classes.
    n_outputs : int
        Capacity of class codes; 1 for a regression.
    coverage : float
        Share of the labels that shall be held, in (0, 1).
    by_class : bool
        Whether that share shall be held of each class.
    window, fading
        Of the metrics, as `models.evaluation.prequential.Prequential` takes them.

    Examples
    --------
    >>> conformal, n = Conformal("regression", 1, 0.9), 3000
    >>> y, out = np.random.default_rng(1).normal(size=n), np.zeros((n, 1))
    >>> regions = [np.zeros((n, 1)) for _ in range(3)]
    >>> rows = np.repeat(np.arange(n, dtype=np.int32), 2)
    >>> program = Program(np.tile(np.array([0, 1], np.int8), n), rows, y[rows], np.ones(2 * n))
    >>> conformal.run(program, out, regions)
    >>> round(conformal.metrics()["coverage"], 2)
    0.9
    """

    rings = ("ring", "ring_class")
    faded = ("recent_sums", "recent_class_sums")
    scored = SCORED
    layout: ClassVar[StateLayout] = StateLayout(
        rows={"seen": "*", "ring ring_class": "window", "class_n class_scores class_shift": "groups"}
    )

    def __init__(
        self,
        task: str,
        n_outputs: int,
        coverage: float,
        *,
        by_class: bool = False,
        window: int = 1000,
        fading: float | None = None,
    ) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: give a share between 0 and 1, such as 0.9")
        self.task, self.n_outputs, self.coverage = task, n_outputs, coverage
        self.window, self.fading = window, fading
        self.by_class, self._regression = by_class, task == "regression"
        groups, rows = (CLASSES if by_class else 0), (window if fading is None else 0)
        self._state = ConformalState(
            n=np.zeros(3, np.int64),
            seen=np.zeros(0 if self._regression else n_outputs, np.uint8),
            scores=np.zeros(WINDOW),
            adaptation=np.zeros(2),
            sums=np.zeros(3),
            recent_sums=np.zeros(3),
            ring=np.zeros((rows, 3)),
            class_sums=np.zeros((CLASSES, 2)),
            recent_class_sums=np.zeros((CLASSES, 2)),
            ring_class=np.zeros((rows, 1)),
            class_n=np.zeros(groups, np.int64),
            class_scores=np.zeros((groups, WINDOW)),
            class_shift=np.zeros(groups),
        )
        self._sorted = np.zeros(WINDOW)  # the scores that there are, in ascending order
        self._class_sorted = np.zeros((groups, WINDOW))
        self._reaches = np.zeros(groups)  # scratch

    @property
    def n_regions(self) -> int:
        """How many arrays of n_outputs columns `run` needs beside the instances."""
        return N_REGIONS[self._regression]

    def run(self, program: Program, out: Floats, regions: Sequence[Floats]) -> None:
        """Write a region for each PREDICT of a program, and score it at each LEARN.

        Parameters
        ----------
        program : Program
            Label codes must stay below n_outputs.
        out : (capacity, n_outputs) float64
            What a model predicted for the rows; NaN where it made no prediction.
        regions : sequence of (capacity, n_outputs) float64
            `n_regions` arrays, written at PREDICT and read at LEARN. Of a regression three, the lower end, the upper
            end, and n[LABELS] when this was written. Else one: for each class 0 where it is not in the set, or
            n[LABELS] + 1, with a minus where it is in the set only because it is the likeliest. NaN in column 0 of the
            first: nothing.
        """
        columns = (program.op, program.row, program.y, program.w, out)
        fading = 0.0 if self.fading is None else self.fading
        more = (1.0 - self.coverage, fading, self._sorted, *self._state)
        if self._regression:
            _run_values(*columns, *regions, *more)
        else:
            _run_classes(*columns, *regions, self._class_sorted, self._reaches, *more)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        nothing = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
        self.run(nothing, np.zeros((0, 1)), [np.zeros((0, 1))] * self.n_regions)

    def metrics(self) -> dict[str, float]:
        """`coverage`, and `interval_width` (mean, in the target's unit) or `set_size` (mean number of classes), over
        all labels that met a region; nothing before the first."""
        return self._figures(self._state.sums)

    def windowed(self) -> dict[str, float]:
        """The figures over the sliding window, or faded."""
        if self.fading is not None:
            return self._figures(self._state.recent_sums)
        sums, n, ring = np.zeros(3), int(self._state.n[SCORED]), self._state.ring
        for part in (ring[n % len(ring) :], ring[: n % len(ring)]):  # the oldest first: one sum for one window
            sums = np.cumsum(np.concatenate((sums[None], part)), axis=0)[-1]
        return self._figures(sums)

    def recent_by_class(self) -> dict[int, float]:
        """Code of each of the first classes -> `coverage` of its labels over the sliding window, or faded; without
        classes whose labels met no region."""
        if self._regression:
            return {}
        sums, ring, owners = self._state.recent_class_sums, self._state.ring, self._state.ring_class[:, 0]
        if self.fading is None:
            codes = range(CLASSES)
            sums = np.array([ring[owners == code + 1.0][:, [WEIGHT, COVERED]].sum(axis=0) for code in codes])
        return _shares(sums)

    def whole_by_class(self) -> dict[int, float]:
        """The figures by class over all labels."""
        return {} if self._regression else _shares(self._state.class_sums)

    def _figures(self, sums: Floats) -> dict[str, float]:
        if not sums[WEIGHT] > 0.0:
            return {}
        name = "interval_width" if self._regression else "set_size"
        return {"coverage": float(sums[COVERED] / sums[WEIGHT]), name: float(sums[WIDTH] / sums[WEIGHT])}

    def resize(self, n_outputs: int) -> None:
        """Raise the capacity of class codes; no region or score so far changes."""
        if self._regression or n_outputs == self.n_outputs:
            return
        self._state = self._state._replace(seen=grown(self._state.seen, n_outputs))
        self.n_outputs = n_outputs

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()`, windows as `WindowStatistic` does. Another
        coverage than it had goes on with its scores. The scores of classes start empty where sets were not by class,
        and their figures in a state of before these."""
        fresh = {name: getattr(self._state, name) for name in NEWER}
        known = fresh | {"ring_class": np.zeros((len(state["ring"]), 1))} | dict(state)
        if len(known["class_n"]) != len(fresh["class_n"]):
            known |= {name: fresh[name] for name in GROUPED}
        super().restore(known)
        n = min(int(self._state.n[SCORES]), WINDOW)
        self._sorted[:n] = np.sort(self._state.scores[:n])
        for k, taken in enumerate(self._state.class_n):
            n = min(int(taken), WINDOW)
            self._class_sorted[k, :n] = np.sort(self._state.class_scores[k, :n])
        if not self._regression:
            self.n_outputs = len(self._state.seen)


def _shares(sums: Floats) -> dict[int, float]:
    return {k: float(covered / weight) for k, (weight, covered) in enumerate(sums) if weight > 0.0}


def sets(regions: Floats) -> NDArray[np.bool_]:
    """(n, K) of what `Conformal.run` wrote for classes -> whether each class is in the set of its row. Nowhere where
    there was no region."""
    held: NDArray[np.bool_] = (regions != 0.0) & ~np.isnan(regions[:, :1])
    return held


@kernel
def _reach(missing, n, ordered, shift, values):
    """The largest score that is held now; NaN where there are too few scores. missing : 1 - coverage. values : whether
    it is the error of a value, which has no greatest one. O(1)."""
    m = min(n, len(ordered))
    asked = int(np.ceil((m + 1) * (1.0 - missing) - 1e-9))
    if asked > m and m < len(ordered):
        return np.nan
    asked = min(asked, m)
    a = missing + shift
    rank = int(np.ceil((m + 1) * (1.0 - a) - 1e-9))
    if rank > m:
        reach = ordered[m - 1] * power(2.0, (1.0 / (m + 1) - a) / missing)
    else:
        reach = ordered[max(rank, 1) - 1]
    if values and a < missing:
        doublings = TAIL * min(1.0, (missing - a) / missing) + max(0.0, -a) / missing
        reach = min(reach, ordered[asked - 1] * power(2.0, doublings))
    return reach


@kernel
def _take(score, n, scores, ordered):
    """A score comes, and the oldest one goes; mutates n, scores and ordered. O(WINDOW)."""
    size = len(scores)
    slot, m = n[SCORES] % size, min(n[SCORES], size)
    if m == size:
        at = np.searchsorted(ordered, scores[slot])
        for i in range(at, size - 1):
            ordered[i] = ordered[i + 1]
        m -= 1
    at = np.searchsorted(ordered[:m], score)
    for i in range(m, at, -1):
        ordered[i] = ordered[i - 1]
    ordered[at] = score
    scores[slot] = score
    n[SCORES] += 1


@kernel
def _scored(
    missed, held, width, since, weight, label, share, shift, at, missing, fading, n, adaptation, sums, recent_sums,
    ring, class_sums, recent_class_sums, ring_class,
):  # fmt: skip
    """Score a region by its label; mutates the state arrays. missed : whether the threshold had missed it. held :
    whether the region holds it. label : -1 for a value. share : of the labels that move shift[at]. O(1)."""
    between = n[LABELS] - since
    if not between >= 0.0:  # no program writes that
        between = 0.0
    # The first labels show the delay at once: steps that are too large for it would take long to undo.
    adaptation[DELAY] += max(DELAY_STEP, 1.0 / (n[SCORED] + 1.0)) * (between - adaptation[DELAY])
    step = min(STEP, 1.0 / (SWING * (1.0 + share * adaptation[DELAY])))
    moved = shift[at] + step * (missing - (1.0 if missed else 0.0))
    highest = min(HIGHEST * missing, 1.0) - missing
    shift[at] = min(max(moved, (LOWEST - 1.0) * missing), highest)
    covered = weight if held else 0.0
    sums[WEIGHT] += weight
    sums[COVERED] += covered
    sums[WIDTH] += weight * width
    counted = 0 <= label < len(class_sums)
    if counted:
        class_sums[label, WEIGHT] += weight
        class_sums[label, COVERED] += covered
    if fading > 0.0:
        recent_sums[WEIGHT] = fading * recent_sums[WEIGHT] + weight
        recent_sums[COVERED] = fading * recent_sums[COVERED] + covered
        recent_sums[WIDTH] = fading * recent_sums[WIDTH] + weight * width
        if label >= 0:
            for k in range(len(class_sums)):
                recent_class_sums[k, WEIGHT] *= fading
                recent_class_sums[k, COVERED] *= fading
        if counted:
            recent_class_sums[label, WEIGHT] += weight
            recent_class_sums[label, COVERED] += covered
    else:
        slot = n[SCORED] % len(ring)
        ring[slot, WEIGHT] = weight
        ring[slot, COVERED] = covered
        ring[slot, WIDTH] = weight * width
        ring_class[slot, 0] = label + 1.0
    n[SCORED] += 1


@kernel
def _run_values(
    op, row, y, w, out, low, high, since, missing, fading, ordered, n, seen, scores, adaptation, sums, recent_sums,
    ring, class_sums, recent_class_sums, ring_class, class_n, class_scores, class_shift,
):  # fmt: skip
    """Intervals; mutates low, high, since and the state arrays. O(1), and O(WINDOW) a label."""
    for i in range(len(op)):
        r = row[i]
        p = out[r, 0]
        if op[i] == PREDICT:
            reach = _reach(missing, n[SCORES], ordered, adaptation[SHIFT], True)
            if np.isfinite(p - reach) and np.isfinite(p + reach):
                low[r, 0], high[r, 0], since[r, 0] = p - reach, p + reach, n[LABELS]
            else:
                low[r, 0], high[r, 0], since[r, 0] = np.nan, np.nan, np.nan
            continue
        if not w[i] > 0.0 or not np.isfinite(y[i]):
            continue
        if np.isfinite(low[r, 0]) and np.isfinite(high[r, 0]):
            held = low[r, 0] <= y[i] <= high[r, 0]
            _scored(
                not held, held, high[r, 0] - low[r, 0], since[r, 0], w[i], -1, 1.0, adaptation, SHIFT, missing, fading,
                n, adaptation, sums, recent_sums, ring, class_sums, recent_class_sums, ring_class,
            )  # fmt: skip
        score = abs(y[i] - p)
        if np.isfinite(score):
            _take(score, n, scores, ordered)
        n[LABELS] += 1


@kernel
def _run_classes(
    op, row, y, w, out, regions, class_ordered, reaches, missing, fading, ordered, n, seen, scores, adaptation, sums,
    recent_sums, ring, class_sums, recent_class_sums, ring_class, class_n, class_scores, class_shift,
):  # fmt: skip
    """Sets; mutates regions, class_ordered, reaches and the state arrays. O(n_outputs), and O(WINDOW) a label."""
    groups = len(class_n)
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT:
            pooled = _reach(missing, n[SCORES], ordered, adaptation[SHIFT], False)
            known = not np.isnan(pooled)
            for k in range(groups):
                reaches[k] = _reach(missing, class_n[k], class_ordered[k], class_shift[k], False)
                known = known or not np.isnan(reaches[k])
            best = likeliest(out, r)
            if best < 0 or np.isnan(out[r, 0]) or not known:
                regions[r, 0] = np.nan
                for k in range(1, regions.shape[1]):
                    regions[r, k] = 0.0  # and nothing of the instance that the row held before
                continue
            for k in range(out.shape[1]):
                reach = reaches[k] if k < groups else pooled
                within = seen[k] == 1 if np.isnan(reach) else (k == best or seen[k] == 1) and 1.0 - out[r, k] <= reach
                regions[r, k] = n[LABELS] + 1.0 if within else 0.0
            if regions[r, best] == 0.0:
                regions[r, best] = -(n[LABELS] + 1.0)
            continue
        if not w[i] > 0.0:
            continue
        label = int(y[i])
        own = label < groups
        if not np.isnan(regions[r, 0]):
            size, since = 0, 0.0
            for k in range(regions.shape[1]):
                if regions[r, k] != 0.0:
                    size += 1
                    since = abs(regions[r, k]) - 1.0
            value = regions[r, label]
            shift, at, share = adaptation, SHIFT, 1.0
            if own:
                shift, at, share = class_shift, label, min(1.0, (class_n[label] + 1.0) / (n[LABELS] + 1.0))
            _scored(
                value <= 0.0, value != 0.0, size, since, w[i], label, share, shift, at, missing, fading,
                n, adaptation, sums, recent_sums, ring, class_sums, recent_class_sums, ring_class,
            )  # fmt: skip
        seen[label] = 1
        predicted = False
        for k in range(out.shape[1]):
            predicted = predicted or out[r, k] > 0.0
        if predicted and not np.isnan(out[r, 0]):
            if own:
                _take(1.0 - out[r, label], class_n[label : label + 1], class_scores[label], class_ordered[label])
            else:
                _take(1.0 - out[r, label], n, scores, ordered)
        n[LABELS] += 1
