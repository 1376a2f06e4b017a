"""What mistakes cost, by the classes and by an amount that stands in the row, and what was paid for predictions.

A cost is a number, or the amount: a missed fraud costs what was paid. So what was paid cannot be told from how often
each class was named for which; it is summed label by label (`Paid`), as `models.evaluation.prequential` counts.
(Elkan: The foundations of cost-sensitive learning. IJCAI 2001, section 1, has costs by example as here.)

An amount counts up to `MOST`. One that is missing, negative or infinite counts `OTHERWISE`, as a mistake that nobody
has priced.
"""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import PREDICT, Floats, Program
from riparian.models.kernels.kernel import kernel
from riparian.models.layout import StateLayout
from riparian.models.statistic import WindowStatistic

OTHERWISE = 1.0  # cost of a mistake that has no other
MOST = 1e9  # that an amount counts
WEIGHT, COST = 0, 1  # columns of sums


class Costs(NamedTuple):
    """What naming a class costs by the class that is true.

    fixed : (K, 1 + K) float64, of naming class j where i is true in column 1 + j, and of naming none in column 0.
    by_amount : (K, 1 + K) bool, where the amount of the row counts, if it is more than `fixed`.
    column : of the rows, which holds the amount; -1: none does.
    highest : of all mistakes, amounts aside, whether or not their classes are known.
    """

    fixed: Floats
    by_amount: NDArray[np.bool_]
    column: int
    highest: float


NO_COSTS = Costs(np.zeros((0, 1)), np.zeros((0, 1), np.bool_), -1, OTHERWISE)
UNDECIDED = np.zeros((0, 1))


class Priced(NamedTuple):
    """Costs, and rows: x (capacity, d) float64, of which a column holds amounts."""

    costs: Costs
    x: Floats


class PaidState(NamedTuple):
    """Everything a `Paid` knows.

    n : (1,) int64, labels. sums, recent : (2,) float64, weight and cost, of all, and faded (zero without fading).
    ring : (window, 2) float64, of the last labels: label n in row n % window. No rows before the first one, and with
        fading.
    """

    n: NDArray[np.int64]
    sums: Floats
    recent: Floats
    ring: Floats


class Paid(WindowStatistic):
    """What was paid for the predictions of one model, label by label.

    Parameters
    ----------
    window, fading : as of `Prequential`.

    Examples
    --------
    >>> costs = Costs(np.array([[1.0, 0, 2], [1, 0, 0]]), np.array([[0, 0, 0], [1, 1, 0]], bool), 0, 2.0)
    >>> x, y = np.array([[50.0], [70.0], [9.0]]), np.array([1.0, 1.0, 0.0])
    >>> program = Program(np.ones(3, np.int8), np.arange(3, dtype=np.int32), y, np.ones(3))
    >>> paid = Paid()
    >>> paid.run(program, np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), Priced(costs, x))
    >>> round(paid.metrics()["cost"], 3)
    17.333
    """

    _state: PaidState
    layout: ClassVar[StateLayout] = StateLayout(rows={"ring": "labels ="})

    def __init__(self, window: int = 1000, fading: float | None = None) -> None:
        self.window, self.fading = window, fading
        self._state = PaidState(np.zeros(1, np.int64), np.zeros(2), np.zeros(2), np.zeros((0, 2)))

    def run(self, program: Program, out: Floats, priced: Priced, decided: Floats = UNDECIDED) -> None:
        """Count what each LEARN of a program cost, by what PREDICT wrote for its row. Left out are labels of weight 0,
        and those of rows that were not predicted (NaN).

        Parameters
        ----------
        out : (capacity, K) float64
        decided : (capacity, m) float64
            The code of the class that each prediction named, in column 0; NaN, or no rows: the likeliest.
        """
        if self.fading is None and not len(self._state.ring):
            self._state = self._state._replace(ring=np.zeros((self.window, 2)))
        columns, costs = (program.op, program.row, program.y, program.w), priced.costs
        rows = costs.fixed, costs.by_amount, costs.column, priced.x
        _pay(*columns, out, decided, *rows, self.fading or 0.0, *self._state)

    def metrics(self, recent: bool = False) -> dict[str, float]:
        """`cost`, the mean of a label, of all or over the window, or faded; nothing before the first one."""
        weight, cost = (self._recent() if recent else self._state.sums).tolist()
        return {"cost": cost / weight} if weight > 0.0 else {}

    def _recent(self) -> Floats:
        if self.fading is not None:
            return self._state.recent
        n, ring = int(self._state.n[0]), self._state.ring
        if n <= len(ring):
            return np.asarray(ring[:n].sum(axis=0))
        return np.asarray(np.roll(ring, -(n % len(ring)), axis=0).sum(axis=0))

    @property
    def has_begun(self) -> bool:
        """Whether a label was taken."""
        return bool(self._state.n[0])


@kernel
def amount_of(x, r, column):
    """What the amount of row r counts. O(1)."""
    if column < 0 or not 0.0 <= x[r, column] < np.inf:
        return OTHERWISE
    return min(x[r, column], MOST)


@kernel
def price(fixed, by_amount, amount, true, named):
    """What naming a class costs, -1 of none. O(1)."""
    cost = fixed[true, 1 + named]
    return max(cost, amount) if by_amount[true, 1 + named] else cost


@kernel
def likeliest(out, r):
    """The most probable class of row r, the first of several; -1 where none is known. O(n_outputs)."""
    best, highest = -1, 0.0
    for k in range(out.shape[1]):
        if out[r, k] > highest:
            best, highest = k, out[r, k]
    return best


@kernel
def paid(named, r, decided, label, fixed, by_amount, amount):
    """What the prediction of row r cost. named : the likeliest class, which another one was named for if one stands in
    `decided`. O(1)."""
    if named >= 0 and len(decided) > 0 and 0.0 <= decided[r, 0] < len(fixed):
        named = int(decided[r, 0])
    return price(fixed, by_amount, amount, label, named)


@kernel
def _pay(op, row, y, w, out, decided, fixed, by_amount, column, x, decay, n, sums, recent, ring):
    """Count the labels of a program; mutates n, sums, recent and ring. O(n_outputs) a label."""
    for i in range(len(op)):
        r = row[i]
        if op[i] == PREDICT or not w[i] > 0.0 or np.isnan(y[i]) or np.isnan(out[r, 0]):
            continue
        cost = w[i] * paid(likeliest(out, r), r, decided, int(y[i]), fixed, by_amount, amount_of(x, r, column))
        sums[WEIGHT] += w[i]
        sums[COST] += cost
        if decay > 0.0:
            recent[WEIGHT] = decay * recent[WEIGHT] + w[i]
            recent[COST] = decay * recent[COST] + cost
        else:
            at = n[0] % len(ring)
            ring[at, WEIGHT], ring[at, COST] = w[i], cost
        n[0] += 1
