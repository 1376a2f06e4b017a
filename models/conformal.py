"""What a prediction says besides the likeliest answer: an interval, or a set of classes, that holds the label as often
as was asked for.

Adaptive conformal inference (Gibbs, Candès: Adaptive conformal inference under distribution shift. NeurIPS 2021). A
*score* says how far a prediction was from its label: the absolute error, or 1 minus the probability of the label's
class. An answer is in the interval or set where its score would be at most q, a quantile of the scores of the last
`WINDOW` labels. Its level is 1 - a, where a moves at each label by `step * (asked - missed)`: missed is 1 where what
had been said did not hold the label. So the share of labels that are missed comes to the one asked for, whatever the
model and the stream: over n labels it differs by (change of a) / (step * n). What follows the paper and what does not:

- The label of an instance scores the interval that was really said for it, however late it comes. With late labels the
  loop is slow to see what it does. So that it does not swing, the step is at most 1 / (`SWING` * labels that come in
  between) (the mean of the last about 100).
- Where a would ask for more than all scores (the paper says: the whole line), q is twice the largest score for each
  further 1 - coverage, so that intervals stay finite and still grow without bound.
- One label that is an outlier would make these intervals hundreds of times as wide. So an interval is at most
  2^`TAIL` times the score at the asked level, where a is 0, twice of that for each further 1 - coverage, and in between
  where a is. Errors of a normal or a Laplace distribution stay below that.
- a stays between `LOWEST` and `HIGHEST` times 1 - coverage, so that it finds back soon where intervals cannot be
  narrower (a constant target) or classes not be told apart.
- A set is never empty: the likeliest class is in it. Only what the threshold says moves a, so sets may hold the label
  more often than asked for, where the model is right more often than that.
- Nothing is said before there are so many scores that one of them is the quantile: 9 for 0.9, 99 for 0.99, and
  `WINDOW` where more would be needed (beyond .998); a then finds how far beyond the greatest is far enough.

A `Conformal` is a fold over predictions and labels in their order, held in arrays like a learner: the same bits however
they were cut into programs. A prediction costs O(n_outputs); a label also a place among `WINDOW` sorted scores.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import PREDICT, Floats, Program
from models.joined import rewound
from models.kernel import kernel
from models.layout import Layout

WINDOW = 500  # scores that the quantile is taken of
STEP = 0.005  # at most, by which a moves at a label
SWING = 8.0
TAIL = 2.0  # doublings from the score at the asked level to the most that an interval reaches where a is 0
LOWEST, HIGHEST = -20.0, 5.0
DELAY_STEP = 0.01

# places in `adaptation`: a minus (1 - coverage); mean number of labels between saying and scoring
SHIFT, DELAY = 0, 1
# places in `n`
SCORES, SAID, LABELS = 0, 1, 2
# columns of sums and ring
WEIGHT, COVERED, WIDTH = 0, 1, 2

N_SAID = {True: 3, False: 1}  # arrays beside instances, by whether it is a regression


class ConformalState(NamedTuple):
    """Everything a `Conformal` knows; K = n_outputs.

    n : (3,) int64, SCORES taken, labels for which something had been SAID, and LABELS learned.
    seen : (K,) uint8, 1 for classes that occurred as a label; none of a regression.
    scores : (WINDOW,) float64, the last ones: score i in place i % WINDOW.
    adaptation : (2,) float64, SHIFT and DELAY.
    sums : (3,) float64 over all labels for which something had been said: weight, weight of those that it held,
        weighted width (or number of classes).
    recent_sums : (3,) float64, the same, faded (zero without fading).
    ring : (window, 3) float64, the last labels (no rows with fading).
    """

    n: NDArray[np.int64]
    seen: NDArray[np.uint8]
    scores: Floats
    adaptation: Floats
    sums: Floats
    recent_sums: Floats
    ring: Floats


class Conformal:
    """Intervals or sets around the predictions of a stream, and how often they held the label.

    Parameters
    ----------
    task : str
        "regression", or one with classes.
    n_outputs : int
        Capacity of class codes; 1 for a regression.
    coverage : float
        Share of the labels that shall be held, in (0, 1).
    window, fading
        Of the metrics, as `models.prequential.Prequential` takes them.

    Examples
    --------
    >>> conformal, n = Conformal("regression", 1, 0.9), 3000
    >>> y, out, said = np.random.default_rng(1).normal(size=n), np.zeros((n, 1)), [np.zeros((n, 1)) for _ in range(3)]
    >>> rows = np.repeat(np.arange(n, dtype=np.int32), 2)
    >>> program = Program(np.tile(np.array([0, 1], np.int8), n), rows, y[rows], np.ones(2 * n))
    >>> conformal.run(program, out, said)
    >>> round(conformal.metrics()["coverage"], 2)
    0.9
    """

    layout: ClassVar[Layout] = Layout(rows={"seen ring": "*"})

    def __init__(
        self, task: str, n_outputs: int, coverage: float, *, window: int = 1000, fading: float | None = None
    ) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage is {coverage}: give a share between 0 and 1, such as 0.9")
        self.task, self.n_outputs, self.coverage, self.fading = task, n_outputs, coverage, fading
        self._regression = task == "regression"
        self._state = ConformalState(
            n=np.zeros(3, np.int64),
            seen=np.zeros(0 if self._regression else n_outputs, np.uint8),
            scores=np.zeros(WINDOW),
            adaptation=np.zeros(2),
            sums=np.zeros(3),
            recent_sums=np.zeros(3),
            ring=np.zeros((window if fading is None else 0, 3)),
        )
        self._sorted = np.zeros(WINDOW)  # the scores that there are, in ascending order

    @property
    def n_said(self) -> int:
        """How many arrays of n_outputs columns `run` needs beside the instances."""
        return N_SAID[self._regression]

    def run(self, program: Program, out: Floats, said: Sequence[Floats]) -> None:
        """Say something for each PREDICT of a program, and score at each LEARN what had been said.

        Parameters
        ----------
        program : Program
            Label codes must stay below n_outputs.
        out : (capacity, n_outputs) float64
            What a model predicted for the rows; NaN where it made no prediction.
        said : sequence of (capacity, n_outputs) float64
            `n_said` arrays, written at PREDICT and read at LEARN. Of a regression three, the lower end, the upper end,
            and n[LABELS] when this was said. Else one: for each class 0 where it is not in the set, or n[LABELS] + 1,
            with a minus where it is in the set only because it is the likeliest. NaN in column 0 of the first: nothing.
        """
        columns = (program.op, program.row, program.y, program.w, out)
        fading = 0.0 if self.fading is None else self.fading
        more = (1.0 - self.coverage, fading, self._sorted, *self._state)
        if self._regression:
            _run_values(*columns, *said, *more)
        else:
            _run_classes(*columns, *said, *more)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        nothing = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))
        self.run(nothing, np.zeros((0, 1)), [np.zeros((0, 1))] * self.n_said)

    def metrics(self) -> dict[str, float]:
        """`coverage`, and `interval_width` (mean, in the target's unit) or `set_size` (mean number of classes), over
        all labels for which something had been said; nothing before the first."""
        return self._told(self._state.sums)

    def windowed(self) -> dict[str, float]:
        """The same over the sliding window, or faded."""
        if self.fading is not None:
            return self._told(self._state.recent_sums)
        sums, n, ring = np.zeros(3), int(self._state.n[SAID]), self._state.ring
        for part in (ring[n % len(ring) :], ring[: n % len(ring)]):  # the oldest first: one sum for one window
            sums = np.cumsum(np.concatenate((sums[None], part)), axis=0)[-1]
        return self._told(sums)

    def _told(self, sums: Floats) -> dict[str, float]:
        if not sums[WEIGHT] > 0.0:
            return {}
        name = "interval_width" if self._regression else "set_size"
        return {"coverage": float(sums[COVERED] / sums[WEIGHT]), name: float(sums[WIDTH] / sums[WEIGHT])}

    def resize(self, n_outputs: int) -> None:
        """Raise the capacity of class codes; nothing said or scored so far changes."""
        if self._regression or n_outputs == self.n_outputs:
            return
        seen = np.zeros(n_outputs, np.uint8)
        seen[: self.n_outputs] = self._state.seen
        self._state, self.n_outputs = self._state._replace(seen=seen), n_outputs

    def settle(self, window: int, fading: float | None) -> None:
        """Go on with another window, or fading, of the metrics."""
        other = Conformal(self.task, self.n_outputs, self.coverage, window=window, fading=fading)
        other.restore(self._state._asdict())
        self._state, self.fading = other.state(), fading

    def state(self) -> ConformalState:
        """The live arrays: copy before the next `run`."""
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()`.

        Another coverage than it had goes on with its scores. A window of another length keeps the labels that fit in;
        a window where there was fading, or fading where there was a window, starts empty.
        """
        fresh = self._state
        arrays = {name: np.array(state[name], dtype=getattr(fresh, name).dtype, order="C") for name in fresh._fields}
        if len(arrays["ring"]) != len(fresh.ring):
            arrays["ring"] = rewound(int(arrays["n"][SAID]), arrays["ring"], len(fresh.ring))
        if self.fading is None:
            arrays["recent_sums"][:] = 0.0
        self._state = ConformalState(**arrays)
        n = min(int(self._state.n[SCORES]), WINDOW)
        self._sorted[:n] = np.sort(self._state.scores[:n])
        if not self._regression:
            self.n_outputs = len(self._state.seen)


def sets(said: Floats) -> NDArray[np.bool_]:
    """(n, K) of what `Conformal.run` wrote for classes -> whether each class is in the set of its row. Nowhere where
    nothing was said."""
    held: NDArray[np.bool_] = (said != 0.0) & ~np.isnan(said[:, :1])
    return held


@kernel
def _reach(missing, n, ordered, adaptation, values):
    """The largest score that is held now; NaN where nothing can be said. missing : 1 - coverage. values : whether it is
    the error of a value, which has no greatest one. O(1)."""
    m = min(n, len(ordered))
    asked = int(np.ceil((m + 1) * (1.0 - missing) - 1e-9))
    if asked > m and m < len(ordered):
        return np.nan
    asked = min(asked, m)
    a = missing + adaptation[SHIFT]
    rank = int(np.ceil((m + 1) * (1.0 - a) - 1e-9))
    if rank > m:
        reach = ordered[m - 1] * 2.0 ** ((1.0 / (m + 1) - a) / missing)
    else:
        reach = ordered[max(rank, 1) - 1]
    if values and a < missing:
        doublings = TAIL * min(1.0, (missing - a) / missing) + max(0.0, -a) / missing
        reach = min(reach, ordered[asked - 1] * 2.0**doublings)
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
def _scored(missed, held, width, since, weight, missing, fading, n, adaptation, sums, recent_sums, ring):
    """What was said meets its label; mutates the state arrays. missed : whether the threshold had missed it. held :
    whether what was said holds it. O(1)."""
    between = n[LABELS] - since
    if not between >= 0.0:  # no program writes that
        between = 0.0
    # The first labels tell of the delay at once: steps that are too large for it would take long to undo.
    adaptation[DELAY] += max(DELAY_STEP, 1.0 / (n[SAID] + 1.0)) * (between - adaptation[DELAY])
    step = min(STEP, 1.0 / (SWING * (1.0 + adaptation[DELAY])))
    shift = adaptation[SHIFT] + step * (missing - (1.0 if missed else 0.0))
    highest = min(HIGHEST * missing, 1.0) - missing
    adaptation[SHIFT] = min(max(shift, (LOWEST - 1.0) * missing), highest)
    covered = weight if held else 0.0
    sums[WEIGHT] += weight
    sums[COVERED] += covered
    sums[WIDTH] += weight * width
    if fading > 0.0:
        recent_sums[WEIGHT] = fading * recent_sums[WEIGHT] + weight
        recent_sums[COVERED] = fading * recent_sums[COVERED] + covered
        recent_sums[WIDTH] = fading * recent_sums[WIDTH] + weight * width
    else:
        slot = n[SAID] % len(ring)
        ring[slot, WEIGHT] = weight
        ring[slot, COVERED] = covered
        ring[slot, WIDTH] = weight * width
    n[SAID] += 1


@kernel
def _run_values(
    op, row, y, w, out, low, high, since, missing, fading, ordered, n, seen, scores, adaptation, sums, recent_sums, ring
):
    """Intervals; mutates low, high, since and the state arrays. O(1), and O(WINDOW) a label."""
    for i in range(len(op)):
        r = row[i]
        p = out[r, 0]
        if op[i] == PREDICT:
            reach = _reach(missing, n[SCORES], ordered, adaptation, True)
            if np.isfinite(p - reach) and np.isfinite(p + reach):
                low[r, 0], high[r, 0], since[r, 0] = p - reach, p + reach, n[LABELS]
            else:
                low[r, 0], high[r, 0], since[r, 0] = np.nan, np.nan, np.nan
            continue
        if not w[i] > 0.0 or not np.isfinite(y[i]):
            continue
        if np.isfinite(low[r, 0]) and np.isfinite(high[r, 0]):
            held = low[r, 0] <= y[i] <= high[r, 0]
            width = high[r, 0] - low[r, 0]
            _scored(not held, held, width, since[r, 0], w[i], missing, fading, n, adaptation, sums, recent_sums, ring)
        score = abs(y[i] - p)
        if np.isfinite(score):
            _take(score, n, scores, ordered)
        n[LABELS] += 1


@kernel
def _run_classes(
    op, row, y, w, out, said, missing, fading, ordered, n, seen, scores, adaptation, sums, recent_sums, ring
):
    """Sets; mutates said and the state arrays. O(n_outputs), and O(WINDOW) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT:
            reach = _reach(missing, n[SCORES], ordered, adaptation, False)
            best, highest = -1, 0.0
            for k in range(out.shape[1]):
                if out[r, k] > highest:
                    best, highest = k, out[r, k]
            if best < 0 or np.isnan(out[r, 0]) or np.isnan(reach):
                said[r, 0] = np.nan
                for k in range(1, said.shape[1]):
                    said[r, k] = 0.0  # and nothing of the instance that the row held before
                continue
            for k in range(out.shape[1]):
                within = (k == best or seen[k] == 1) and 1.0 - out[r, k] <= reach
                said[r, k] = n[LABELS] + 1.0 if within else 0.0
            if said[r, best] == 0.0:
                said[r, best] = -(n[LABELS] + 1.0)
            continue
        if not w[i] > 0.0:
            continue
        label = int(y[i])
        if not np.isnan(said[r, 0]):
            size, since = 0, 0.0
            for k in range(said.shape[1]):
                if said[r, k] != 0.0:
                    size += 1
                    since = abs(said[r, k]) - 1.0
            value = said[r, label]
            _scored(
                value <= 0.0, value != 0.0, size, since, w[i], missing, fading, n, adaptation, sums, recent_sums, ring
            )
        seen[label] = 1
        known = False
        for k in range(out.shape[1]):
            known = known or out[r, k] > 0.0
        if known and not np.isnan(out[r, 0]):
            _take(1.0 - out[r, label], n, scores, ordered)
        n[LABELS] += 1
