"""Online boosting (Oza and Russell 2001): AdaBoost whose sums run along."""

from riparian.models.contract import PREDICT
from riparian.models.ensemble.boosting import Boosting, Flight
from riparian.models.ensemble.chunks import AVERAGE, N_QUALITY, weigh
from riparian.models.ensemble.entries import ONLINE_BOOSTING
from riparian.models.kernels.draws import poisson, uniform_at
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

# Further columns of a member's quality: weight that it predicted correctly and wrongly, as boosting weighs.
RIGHT, WRONG = N_QUALITY, N_QUALITY + 1


class OnlineBoosting(Boosting):
    """AdaBoost on a stream (OzaBoost): Hoeffding trees of which each learns more of what those before it got wrong.

    Missing values, what teaches nothing, and bounds on memory: as HoeffdingTree, of which there are `n_models`.

    Threads pay less than in bagging, since members wait for each other: docs/evidence/learners/ensembles.md.

    Notes
    -----
    Members vote with log((1 - e) / e), at least 0, where e is the share of the boosted weight that they got wrong, from
    (wrong + 1) / (right + wrong + 2). Whether a member is right is asked before it learns a label, in the paper and in
    MOA after it: with large weights, a tree has then often just been made to agree. MOA leaves out all members from the
    first whose e is 0 or above 0.5 on, here a member whose e is above 0.5 has no vote.
    """

    entry = ONLINE_BOOSTING
    N_QUALITY = WRONG + 1

    def _first(self, flight: Flight, n: int) -> None:
        flight.margins[:n] = 1.0
        ordinal, w = flight.chunk.ordinal, flight.chunk.program.w
        draw(ordinal, w, flight.margins, self._parameters["poisson"], self._keys[0], flight.weights)

    def _next(self, slot: int, flight: Flight, n: int) -> None:
        op, row, _, w = flight.chunk.program
        weigh_and_boost(
            op, row, flight.chunk.ordinal, w, flight.seen, flight.errors[:n], self.FADING, self._quality[slot],
            flight.planes[slot], flight.factors[slot], flight.margins, self._parameters["poisson"],
            self._keys[min(slot + 1, len(self._keys) - 1)], flight.weights,
        )  # fmt: skip


@kernel
def draw(ordinal, w, rates, drawn, key, weights):
    """weights[i] = w[i] times a draw from Poisson(rates[i]), or times the rate itself. Mutates weights. O(n rate)."""
    for i in range(len(ordinal)):
        weights[i] = w[i]
        if ordinal[i] >= 0:
            weights[i] *= poisson(rates[i], uniform_at(key, ordinal[i])) if drawn else rates[i]


@kernel
def weigh_and_boost(
    op, row, ordinal, w, seen, errors, fading, quality, votes, factors, rates, drawn, next_key, weights
):  # fmt: skip
    """What follows a member: how much its predictions count, and the rate lambda of each label for the next member, in
    order, for which weights are drawn.

    Oza and Russell 2001, figure 3: half of all weight, seen[i], goes to what the member got right, half to the rest.
    Mutates quality, votes, factors, rates, weights.
    """
    weigh(op, row, ordinal, w, errors, AVERAGE, False, fading, quality, votes, factors)
    right, wrong = quality[RIGHT], quality[WRONG]  # not in place: others' rows lie beside, and other threads write them
    for i in range(len(op)):
        if op[i] == PREDICT:
            share = (wrong + 1.0) / (right + wrong + 2.0)
            factors[row[i]] = max(0.0, log((1.0 - share) / share))
        elif ordinal[i] >= 0:
            if errors[i] == 0.0:
                right += w[i] * rates[i]
                rates[i] *= seen[i] / (2.0 * right)
            else:
                wrong += w[i] * rates[i]
                rates[i] *= seen[i] / (2.0 * wrong)
    quality[RIGHT], quality[WRONG] = right, wrong
    draw(ordinal, w, rates, drawn, next_key, weights)
