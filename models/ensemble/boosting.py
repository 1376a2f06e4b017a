"""Boosting on a stream: a member learns a label with a weight that depends on whether those before it were right.

SmoothBoost: Servedio 2003, online after Chen, Lin and Lu 2012. A weight is never above 1, so noise cannot be given ever
more: it falls with the margin by which the members before were right. Online boosting: Oza and Russell 2001, AdaBoost
whose sums run along.

The weight of member m depends on members before it only, and these on their own past only. So a member runs a whole
chunk and hands a column of weights on to the next. On several threads each has some of the members, that run one chunk
while those before them run the next: the same bits.
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from riparian.models.contract import PREDICT, Floats, Program, Schema
from riparian.models.draws import key, poisson, uniform_at
from riparian.models.ensemble.chunks import AVERAGE, N_QUALITY, Gatherer, combine, count_labels, length_of_chunks, weigh
from riparian.models.ensemble.entries import ONLINE_BOOSTING, SMOOTH_BOOST
from riparian.models.ensemble.members import LEARNED, Ensemble
from riparian.models.hoeffding.tree import HoeffdingTree
from riparian.models.kernel import kernel
from riparian.models.threads import pass_on

BOOST = 2  # what draws are for
# On several threads, chunks of a program for each, and fewest operations of one: the more chunks, the sooner all have
# work, and the more calls.
ROUNDS, LEAST_FLIGHT = 1, 512
# Further columns of a member's quality: weight that it predicted correctly and wrongly, as boosting weighs.
RIGHT, WRONG = N_QUALITY, N_QUALITY + 1


class _Flight:
    """A chunk on its way through the members, and what they write.

    margins : (length,) float64, of each label what decides on the weight that the next member learns it with. seen :
    (length,) float64, the weight of all labels up to this one.
    """

    def __init__(self, schema: Schema, n_members: int, length: int) -> None:
        self.gatherer = Gatherer(schema.n_features, length)
        self.planes = np.zeros((n_members, length, schema.n_outputs))
        self.factors = np.zeros((n_members, length))
        self.errors = np.zeros(length)
        self.weights = np.zeros(length)
        self.margins = np.zeros(length)
        self.seen = np.zeros(length)
        self.chunk: Any = None


class Boosting(Ensemble):
    """Hoeffding trees in a chain. Subclasses say how weights follow from errors."""

    def _set_up(self) -> None:
        self._weight = np.zeros(1)

    def _own_state(self) -> dict[str, Any]:
        return super()._own_state() | {"weight": self._weight}

    def _new_member(self, serial: int) -> Any:
        return HoeffdingTree(self.schema, seed=serial, **self._tree)

    def _prepare(self) -> None:
        n = len(self._members)
        threads = self._parameters["threads"]
        n_flights = 1 if threads == 1 else 2 * threads
        self._length = length_of_chunks(n_flights * n, n_flights * self.schema.n_features, self.schema.n_outputs)
        self._flights = [_Flight(self.schema, n, self._length) for _ in range(n_flights)]
        self._keys = [key(self.seed, serial, BOOST) for serial in self._serials.tolist()]

    @abstractmethod
    def _first(self, flight: _Flight, n: int) -> None:
        """Set the margins and weights of the first n operations, as the first member sees them."""

    @abstractmethod
    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        """After the member in `slot` has run and errors are known: what the next one sees."""

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        n, n_members, n_flights = len(program.op), len(self._members), len(self._flights)
        threads = max(1, min(self._parameters["threads"], n // LEAST_FLIGHT))
        length = self._length
        if threads > 1:
            length = min(length, max(LEAST_FLIGHT, -(-n // (ROUNDS * threads))))

        def stage_of(number: int, stage: int) -> None:
            flight = self._flights[number % n_flights]
            if stage == 0:
                self._enter(flight, program.part(number * length, (number + 1) * length), slab)
            elif stage <= n_members:
                self._fly(stage - 1, flight)
            else:
                op, row, _, _ = flight.chunk.program
                combine(op, row, flight.chunk.source, flight.planes, flight.factors, out)

        n_chunks, n_stages = -(-n // length), n_members + 2
        if threads > 1:
            pass_on(threads, n_chunks, n_stages, n_flights, stage_of)
            return
        for number in range(n_chunks):
            for stage in range(n_stages):
                stage_of(number, stage)

    def _enter(self, flight: _Flight, program: Program, slab: Floats) -> None:
        """Make the next chunk ready for the first member."""
        chunk = flight.gatherer.gather(program, slab, 0, self._n_classes, int(self._numbers[LEARNED]))
        self._numbers[LEARNED] += count_labels(chunk.ordinal)
        flight.chunk = chunk
        add_up(chunk.ordinal, chunk.program.w, self._weight, flight.seen)
        self._first(flight, len(chunk.program.op))

    def _fly(self, slot: int, flight: _Flight) -> None:
        """Let a member run a chunk that those before it have run."""
        op, row, y, _ = flight.chunk.program
        weighted = Program(op, row, y, flight.weights[: len(op)])
        self._members[slot].run(weighted, flight.chunk.slab, flight.planes[slot], flight.errors[: len(op)])
        self._next(slot, flight, len(op))


class SmoothBoost(Boosting):
    """Hoeffding trees of which each learns with less weight what those before it got right.

    Missing values, what teaches nothing, and bounds on memory: as HoeffdingTree, of which there are `n_models`.

    Parameters
    ----------
    schema : Schema
        Task "classification".
    seed : int
        Not used: nothing is random.
    n_models : int
        Members, >= 1.
    threads : int
        Threads that run members, >= 1; the results are the same. They pay less than in bagging, since members wait for
        each other: see docs/ensembles.md.
    vote : {"average", "weighted", "majority"}
        As in OnlineBagging.
    gamma : float
        The advantage over guessing that members are trusted to have, in (0, 1).
    **tree
        Parameters of HoeffdingTree.

    Notes
    -----
    With theta = gamma / (2 + gamma) and h of the first m members right, member m + 1 learns a label with the weight
    min(1, (1 - gamma)^(z / 2)), z = 2 h - m (1 + theta). More classes than two: right counts 1 and wrong -1, as in MOA.

    References
    ----------
    R. A. Servedio: Smooth boosting and learning with malicious noise. Journal of Machine Learning Research 4, 2003.
    S.-T. Chen, H.-T. Lin and C.-J. Lu: An online boosting algorithm with theoretical justifications. ICML 2012.
    """

    entry = SMOOTH_BOOST

    def _prepare(self) -> None:
        super()._prepare()
        gamma, n = self._parameters["gamma"], len(self._members) + 1
        margins = ([2.0 * hits - m * (1.0 + gamma / (2.0 + gamma)) for hits in range(n)] for m in range(n))
        self._smooth = np.array([[min(1.0, (1.0 - gamma) ** (z / 2.0)) for z in row] for row in margins])

    def _first(self, flight: _Flight, n: int) -> None:
        flight.margins[:n] = 0.0
        flight.weights[:n] = flight.chunk.program.w

    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        op, row, _, w = flight.chunk.program
        weigh_and_smooth(
            op, row, flight.chunk.ordinal, w, flight.errors[:n], self._vote, self.FADING, self._quality[slot],
            flight.planes[slot], flight.factors[slot], self._smooth[slot + 1], flight.margins, flight.weights,
        )  # fmt: skip


class OnlineBoosting(Boosting):
    """AdaBoost on a stream (OzaBoost): Hoeffding trees of which each learns more of what those before it got wrong.

    Missing values, what teaches nothing, and bounds on memory: as HoeffdingTree, of which there are `n_models`.

    Parameters
    ----------
    schema : Schema
        Task "classification".
    seed : int
        Of the draws.
    n_models : int
        Members, >= 1.
    threads : int
        Threads that run members, >= 1; the results are the same. They pay less than in bagging, since members wait for
        each other: see docs/ensembles.md.
    poisson : bool
        A member learns a label as often as a draw from Poisson(lambda) says. False: with the weight lambda.
    **tree
        Parameters of HoeffdingTree.

    Notes
    -----
    Members vote with log((1 - e) / e), at least 0, where e is the share of the boosted weight that they got wrong, from
    (wrong + 1) / (right + wrong + 2). Whether a member is right is asked before it learns a label, in the paper and in
    MOA after it: with large weights, a tree has then often just been made to agree. MOA leaves out all members from the
    first whose e is 0 or above 0.5 on, here a member whose e is above 0.5 has no vote.

    References
    ----------
    N. C. Oza and S. Russell: Online bagging and boosting. AISTATS 2001.
    """

    entry = ONLINE_BOOSTING
    N_QUALITY = WRONG + 1

    def _first(self, flight: _Flight, n: int) -> None:
        flight.margins[:n] = 1.0
        ordinal, w = flight.chunk.ordinal, flight.chunk.program.w
        draw(ordinal, w, flight.margins, self._parameters["poisson"], self._keys[0], flight.weights)

    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        op, row, _, w = flight.chunk.program
        weigh_and_boost(
            op, row, flight.chunk.ordinal, w, flight.seen, flight.errors[:n], self.FADING, self._quality[slot],
            flight.planes[slot], flight.factors[slot], flight.margins, self._parameters["poisson"],
            self._keys[min(slot + 1, len(self._keys) - 1)], flight.weights,
        )  # fmt: skip


@kernel
def add_up(ordinal, w, weight, seen):
    """seen[i] = weight of the labels up to i, from weight[0] on. Mutates weight and seen."""
    for i in range(len(ordinal)):
        if ordinal[i] >= 0:
            weight[0] += w[i]
        seen[i] = weight[0]


@kernel
def smooth(ordinal, w, errors, table, hits, weights):
    """What the next member learns with: weights[i] = w[i] times table[members that were right]. Mutates hits, weights.

    Servedio 2003, figure 1. errors : of the member that has just run.
    """
    for i in range(len(ordinal)):
        if ordinal[i] >= 0:
            if errors[i] == 0.0:
                hits[i] += 1.0
            weights[i] = w[i] * table[np.int64(hits[i])]


@kernel
def boost(op, row, ordinal, w, seen, errors, quality, rates, factors):
    """How much a member's predictions count, and the rate lambda of each label for the next member, in order.

    Oza and Russell 2001, figure 3: half of all weight, seen[i], goes to what the member got right, half to the rest.
    Mutates quality, rates, factors.
    """
    right, wrong = quality[RIGHT], quality[WRONG]  # not in place: others' rows lie beside, and other threads write them
    for i in range(len(op)):
        if op[i] == PREDICT:
            share = (wrong + 1.0) / (right + wrong + 2.0)
            factors[row[i]] = max(0.0, math.log((1.0 - share) / share))
        elif ordinal[i] >= 0:
            if errors[i] == 0.0:
                right += w[i] * rates[i]
                rates[i] *= seen[i] / (2.0 * right)
            else:
                wrong += w[i] * rates[i]
                rates[i] *= seen[i] / (2.0 * wrong)
    quality[RIGHT], quality[WRONG] = right, wrong


@kernel
def draw(ordinal, w, rates, drawn, key, weights):
    """weights[i] = w[i] times a draw from Poisson(rates[i]), or times the rate itself. Mutates weights. O(n rate)."""
    for i in range(len(ordinal)):
        weights[i] = w[i]
        if ordinal[i] >= 0:
            weights[i] *= poisson(rates[i], uniform_at(key, ordinal[i])) if drawn else rates[i]


@kernel
def weigh_and_smooth(op, row, ordinal, w, errors, vote, fading, quality, votes, factors, table, hits, weights):
    """What follows a member of SmoothBoost, in one call: `weigh`, `smooth`. O(n n_outputs)."""
    weigh(op, row, ordinal, w, errors, vote, False, fading, quality, votes, factors)
    smooth(ordinal, w, errors, table, hits, weights)


@kernel
def weigh_and_boost(
    op, row, ordinal, w, seen, errors, fading, quality, votes, factors, rates, drawn, next_key, weights
):  # fmt: skip
    """What follows a member of online boosting, in one call: `weigh`, `boost`, and `draw` for the next member."""
    weigh(op, row, ordinal, w, errors, AVERAGE, False, fading, quality, votes, factors)
    boost(op, row, ordinal, w, seen, errors, quality, rates, factors)
    draw(ordinal, w, rates, drawn, next_key, weights)
