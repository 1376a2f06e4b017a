"""Boosting on a stream: a member learns a label with a weight that depends on whether those before it were right.

The weight of member m depends on members before it only, and these on their own past only. So a member runs a whole
chunk and hands a column of weights on to the next. On several threads each has some of the members, that run one chunk
while those before them run the next: the same bits. How weights follow: smooth_boost.py, online_boosting.py.
"""

from abc import abstractmethod
from typing import Any

import numpy as np

from riparian.models.contract import Floats, Program, Schema
from riparian.models.ensemble.chunks import Gatherer, combine, length_of_chunks
from riparian.models.ensemble.members import LEARNED, Ensemble
from riparian.models.hoeffding.hoeffding_tree import HoeffdingTree
from riparian.models.kernels.draws import key
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.threads import CREW

BOOST = 2  # what draws are for
# On several threads, chunks of a program for each, and fewest operations of one: the more chunks, the sooner all have
# work, and the more calls.
ROUNDS, LEAST_FLIGHT = 1, 512


class Flight:
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
    """Hoeffding trees in a chain. Subclasses define how weights follow from errors."""

    def _set_up(self) -> None:
        self._weight = np.zeros(1)

    def _own_state(self) -> dict[str, Any]:
        return super()._own_state() | {"weight": self._weight}

    def _new_member(self, serial: int) -> Any:
        return HoeffdingTree(self.schema, seed=serial, **self._tree)

    def _prepare(self) -> None:
        self._let_fly(1)
        self._keys = [key(self.seed, serial, BOOST) for serial in self._serials.tolist()]

    def _let_fly(self, n_flights: int) -> None:
        """Room for so many chunks on their way."""
        n = len(self._members)
        self._length = length_of_chunks(n_flights * n, n_flights * self.schema.n_features, self.schema.n_outputs)
        self._flights = [Flight(self.schema, n, self._length) for _ in range(n_flights)]

    @abstractmethod
    def _first(self, flight: Flight, n: int) -> None:
        """Set the margins and weights of the first n operations, as the first member sees them."""

    @abstractmethod
    def _next(self, slot: int, flight: Flight, n: int) -> None:
        """After the member in `slot` has run and errors are known: what the next one sees."""

    def run(self, program: Program, slab: Floats, out: Floats) -> None:
        n, n_members = len(program.op), len(self._members)
        threads = min(CREW.n, n_members, n // LEAST_FLIGHT) if self._parts.worth(n) else 1
        if threads > 1 and 2 * threads > len(self._flights):
            self._let_fly(2 * threads)
        n_flights, length = len(self._flights), self._length
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

        def one_by_one() -> None:
            for number in range(n_chunks):
                for stage in range(n_stages):
                    stage_of(number, stage)

        if threads > 1:
            self._parts.pass_on(n, threads, n_chunks, n_stages, n_flights, stage_of)
        else:
            self._parts.alone(n, one_by_one)

    def _enter(self, flight: Flight, program: Program, slab: Floats) -> None:
        """Make the next chunk ready for the first member."""
        chunk = flight.gatherer.gather(program, slab, 0, self._n_classes, int(self._numbers[LEARNED]))
        self._numbers[LEARNED] += np.count_nonzero(chunk.ordinal >= 0)
        flight.chunk = chunk
        add_up(chunk.ordinal, chunk.program.w, self._weight, flight.seen)
        self._first(flight, len(chunk.program.op))

    def _fly(self, slot: int, flight: Flight) -> None:
        """Let a member run a chunk that those before it have run."""
        op, row, y, _ = flight.chunk.program
        weighted = Program(op, row, y, flight.weights[: len(op)])
        self._members[slot].run(weighted, flight.chunk.slab, flight.planes[slot], flight.errors[: len(op)])
        self._next(slot, flight, len(op))


@kernel
def add_up(ordinal, w, weight, seen):
    """seen[i] = weight of the labels up to i, from weight[0] on. Mutates weight and seen."""
    for i in range(len(ordinal)):
        if ordinal[i] >= 0:
            weight[0] += w[i]
        seen[i] = weight[0]
