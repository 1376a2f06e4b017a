"""Which members of a pool rest: whoever has next to no weight neither predicts nor learns, but for trials.

A round is ROUND labels. After one, a member with less than `rest_below` of all weight loses it and rests, for one round
at first; then it is awake for a round, and has its chance. If it has as little weight after that, it rests twice as
long as before, MOST rounds at most. Rounds are counted in labels that teach, so what rests does not depend on how
programs are cut, nor on any clock. Nobody rests in the first EARLY labels: what learns slowly has no weight yet.

A member that rests has cast no vote, as one that is younger than the prediction (models.opinion_pool.pooling). One that
repeats labels takes no time: it has no weight while it rests, and goes on, since its votes tell blocks of labels apart
(models.opinion_pool.blocks).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats

ROUND = 512  # labels
EARLY = 2048  # labels
MOST = 8  # rounds: a trial is a ninth of the labels then
LEFT, LAST = 0, 1  # columns of `rests`


class Resting:
    """State: rests : (members, 2) int64, the rounds that a member still rests, 0 where it is awake, and the rounds of
    its last rest, 0 where its last trial went well. labels : (1,) int64, those that have taught."""

    def __init__(self, n_members: int, below: float) -> None:
        self.below = below
        self.rests = np.zeros((n_members, 2), np.int64)
        self.labels = np.zeros(1, np.int64)
        self.awake = np.ones(n_members, np.bool_)

    @property
    def left(self) -> int:
        """Labels of the round that have not come."""
        return ROUND - int(self.labels[0]) % ROUND

    def count(self, n: int, weights: Floats, shares: bool) -> None:
        """So many labels more, up to the end of the round. Mutates the weights, which sum to 1 where they are
        shares."""
        ends = n == self.left
        self.labels[0] += n
        if not ends or self.labels[0] < EARLY:
            return
        left, last = self.rests[:, LEFT], self.rests[:, LAST]
        poor = weights < self.below * weights.sum()
        poor[weights.argmax()] = False
        last[self.awake & ~poor] = 0
        again = self.awake & poor
        last[again] = np.clip(2 * last[again], 1, MOST)
        left[~self.awake] -= 1
        left[again] = last[again]
        weights[again] = 0.0
        if shares and again.any():
            weights /= weights.sum()
        self.awake[:] = left == 0

    def state(self) -> dict[str, NDArray[Any]]:
        return {"rests": self.rests, "labels": self.labels}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.rests = np.array(state["rests"], np.int64, order="C")
        self.labels = np.array(state["labels"], np.int64)
        self.awake[:] = self.rests[:, LEFT] == 0
