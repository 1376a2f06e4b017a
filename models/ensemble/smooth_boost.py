"""SmoothBoost: weights that never exceed 1, so that noise cannot be given ever more.

Servedio 2003, online after Chen, Lin and Lu 2012. A weight falls with the margin by which the members before were
right.
"""

import numpy as np

from riparian.models.ensemble.boosting import Boosting, Flight
from riparian.models.ensemble.chunks import weigh
from riparian.models.ensemble.entries import SMOOTH_BOOST
from riparian.models.kernels.elementary import exps, logs
from riparian.models.kernels.kernel import kernel


class SmoothBoost(Boosting):
    """Hoeffding trees of which each learns with less weight what those before it got right.

    Missing values, what teaches nothing, and bounds on memory: as HoeffdingTree, of which there are `n_models`.

    Threads pay less than in bagging, since members wait for each other: docs/evidence/learners/ensembles.md.

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
        margins = np.array([[2.0 * hits - m * (1.0 + gamma / (2.0 + gamma)) for hits in range(n)] for m in range(n)])
        self._smooth = np.minimum(1.0, exps(0.5 * margins * logs(1.0 - gamma)))

    def _first(self, flight: Flight, n: int) -> None:
        flight.margins[:n] = 0.0
        flight.weights[:n] = flight.chunk.program.w

    def _next(self, slot: int, flight: Flight, n: int) -> None:
        op, row, _, w = flight.chunk.program
        weigh_and_smooth(
            op, row, flight.chunk.ordinal, w, flight.errors[:n], self._vote, self.FADING, self._quality[slot],
            flight.planes[slot], flight.factors[slot], self._smooth[slot + 1], flight.margins, flight.weights,
        )  # fmt: skip


@kernel
def weigh_and_smooth(op, row, ordinal, w, errors, vote, fading, quality, votes, factors, table, hits, weights):
    """What follows a member: `weigh`, and what the next one learns with, w[i] times table[members that were right].
    O(n n_outputs).

    Servedio 2003, figure 1. errors : of the member that has just run. Mutates hits, weights.
    """
    weigh(op, row, ordinal, w, errors, vote, False, fading, quality, votes, factors)
    for i in range(len(ordinal)):
        if ordinal[i] >= 0:
            if errors[i] == 0.0:
                hits[i] += 1.0
            weights[i] = w[i] * table[np.int64(hits[i])]
