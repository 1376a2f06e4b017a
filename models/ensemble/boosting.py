"""Boosting on a stream: a member learns a label with a weight that depends on whether those before it were right.

SmoothBoost: Servedio 2003, online after Chen, Lin and Lu 2012. A weight is never above 1, so noise cannot be given ever
more: it falls with the margin by which the members before were right. Online boosting: Oza and Russell 2001, AdaBoost
whose sums run along.

The weight of member m depends on members before it only, and these on their own past only. So a member runs a whole
chunk and hands a column of weights on to the next. On several threads the members form as many groups, and while one
runs a chunk, the group before it runs the next chunk: the same bits.
"""

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from models.contract import PREDICT, Floats, Program, Schema
from models.ensemble.chunks import AVERAGE, CHUNK, N_QUALITY, Gatherer, combine, count_labels, weigh
from models.ensemble.draws import key, poisson, uniform_at
from models.ensemble.members import LEARNED, WORTH_A_THREAD, Ensemble
from models.hoeffding.tree import HoeffdingTree
from models.kernel import kernel
from models.threads import pool

BOOST = 2  # what draws are for
# Further columns of a member's quality: weight that it predicted correctly and wrongly, as boosting weighs.
RIGHT, WRONG = N_QUALITY, N_QUALITY + 1


class _Flight:
    """A chunk on its way through the members, and what they write.

    margins : (CHUNK,) float64, of each label what decides on the weight that the next member learns it with. seen :
    (CHUNK,) float64, the weight of all labels up to this one.
    """

    def __init__(self, schema: Schema, n_members: int) -> None:
        self.gatherer = Gatherer(schema.n_features)
        self.planes = np.zeros((n_members, CHUNK, schema.n_outputs))
        self.factors = np.zeros((n_members, CHUNK))
        self.errors = np.zeros(CHUNK)
        self.weights = np.zeros(CHUNK)
        self.margins = np.zeros(CHUNK)
        self.seen = np.zeros(CHUNK)
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
        self._n_groups = min(self._parameters["threads"], n)
        self._flights = [_Flight(self.schema, n) for _ in range(self._n_groups)]
        self._keys = [key(self.seed, serial, BOOST) for serial in self._serials.tolist()]

    @abstractmethod
    def _first(self, flight: _Flight, n: int) -> None:
        """Set the margins and weights of the first n operations, as the first member sees them."""

    @abstractmethod
    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        """After the member in `slot` has run and errors are known: what the next one sees."""

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        n_chunks = -(-len(program.op) // CHUNK)
        n_groups = self._n_groups if len(program.op) >= WORTH_A_THREAD else 1
        for step in range(n_chunks + n_groups - 1):
            if step < n_chunks:
                self._enter(self._flights[step % n_groups], program, slab, step * CHUNK)
            under_way = [(g, self._flights[(step - g) % n_groups]) for g in range(n_groups) if 0 <= step - g < n_chunks]
            if n_groups == 1:
                self._fly(range(len(self._members)), self._flights[0])
            else:
                bounds = [round(g * len(self._members) / n_groups) for g in range(n_groups + 1)]
                parts = [(range(bounds[g], bounds[g + 1]), flight) for g, flight in under_way]
                list(pool(n_groups).map(lambda part: self._fly(*part), parts))
            if step >= n_groups - 1:
                flight = self._flights[(step - n_groups + 1) % n_groups]
                chunk = flight.chunk
                op, row = chunk.program.op, chunk.program.row
                combine(op, row, chunk.source, flight.planes, flight.factors, out)

    def _enter(self, flight: _Flight, program: Program, slab: Floats, start: int) -> None:
        """Make the chunk from `start` on ready for the first member."""
        chunk = flight.gatherer.gather(program, slab, start, self._n_classes, int(self._numbers[LEARNED]))
        self._numbers[LEARNED] += count_labels(chunk.ordinal)
        flight.chunk = chunk
        add_up(chunk.ordinal, chunk.program.w, self._weight, flight.seen)
        self._first(flight, len(chunk.program.op))

    def _fly(self, slots: range, flight: _Flight) -> None:
        """Let the members of some slots run a chunk, one after the other."""
        chunk = flight.chunk
        op, row, y, _ = chunk.program
        n = len(op)
        for slot in slots:
            weighted = Program(op, row, y, flight.weights[:n])
            self._members[slot].run(weighted, chunk.slab, flight.planes[slot], flight.errors[:n])
            self._next(slot, flight, n)

    def _weigh_flight(self, slot: int, flight: _Flight, errors: Floats, vote: int) -> None:
        """Say how much the predictions of a member count, and keep its quality."""
        chunk = flight.chunk
        op, row, _, w = chunk.program
        weigh(
            op, row, chunk.ordinal, w, errors, vote, False, self.FADING,
            self._quality[slot], flight.planes[slot], flight.factors[slot],
        )  # fmt: skip


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
        Threads that run members, >= 1; the results are the same.
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

    name = "smooth-boost"

    def _prepare(self) -> None:
        super()._prepare()
        gamma, n = self._parameters["gamma"], len(self._members) + 1
        margins = ([2.0 * hits - m * (1.0 + gamma / (2.0 + gamma)) for hits in range(n)] for m in range(n))
        self._smooth = np.array([[min(1.0, (1.0 - gamma) ** (z / 2.0)) for z in row] for row in margins])

    def _first(self, flight: _Flight, n: int) -> None:
        flight.margins[:n] = 0.0
        flight.weights[:n] = flight.chunk.program.w

    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        errors, chunk = flight.errors[:n], flight.chunk
        self._weigh_flight(slot, flight, errors, self._vote)
        smooth(chunk.ordinal, chunk.program.w, errors, self._smooth[slot + 1], flight.margins, flight.weights)


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
        Threads that run members, >= 1; the results are the same.
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

    name = "online-boosting"
    N_QUALITY = WRONG + 1

    def _first(self, flight: _Flight, n: int) -> None:
        flight.margins[:n] = 1.0
        self._draw(0, flight, n)

    def _next(self, slot: int, flight: _Flight, n: int) -> None:
        errors, chunk = flight.errors[:n], flight.chunk
        op, row, _, w = chunk.program
        self._weigh_flight(slot, flight, errors, AVERAGE)
        boost(op, row, chunk.ordinal, w, flight.seen, errors, self._quality[slot], flight.margins, flight.factors[slot])
        if slot + 1 < len(self._members):
            self._draw(slot + 1, flight, n)

    def _draw(self, slot: int, flight: _Flight, n: int) -> None:
        """The weights that a member learns with, from its rates, which are the margins."""
        chunk = flight.chunk
        drawn = self._parameters["poisson"]
        draw(chunk.ordinal, chunk.program.w, flight.margins, drawn, self._keys[slot], flight.weights)


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
    for i in range(len(op)):
        if op[i] == PREDICT:
            wrong = (quality[WRONG] + 1.0) / (quality[RIGHT] + quality[WRONG] + 2.0)
            factors[row[i]] = max(0.0, math.log((1.0 - wrong) / wrong))
        elif ordinal[i] >= 0:
            side = RIGHT if errors[i] == 0.0 else WRONG
            quality[side] += w[i] * rates[i]
            rates[i] *= seen[i] / (2.0 * quality[side])


@kernel
def draw(ordinal, w, rates, drawn, key, weights):
    """weights[i] = w[i] times a draw from Poisson(rates[i]), or times the rate itself. Mutates weights. O(n rate)."""
    for i in range(len(ordinal)):
        weights[i] = w[i]
        if ordinal[i] >= 0:
            weights[i] *= poisson(rates[i], uniform_at(key, ordinal[i])) if drawn else rates[i]
