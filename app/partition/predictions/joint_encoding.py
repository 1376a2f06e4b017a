"""Encodes what several partitions have predicted in one call. Pure.

Live, a partition has a prediction or two at a time, and a call costs more than these. A prediction is written alike in
whichever batch it stands, as long as one model made them all and nothing is told besides what it predicted. What is not
usual each partition encodes for itself.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from riparian.app.partition.joint_work import JointItem
from riparian.app.partition.outcome import Outcome
from riparian.topics.names import CHAMPION


class Unencoded(JointItem):
    """What one partition has to encode, with others that have to.

    Parameters
    ----------
    encode : callable
        As the partition would by itself.

    Attributes
    ----------
    found : list of bytes, optional
        None where it has to do so itself.
    """

    def __init__(self, encode: Callable[[Outcome], Sequence[bytes]], outcome: Outcome, like: Hashable) -> None:
        super().__init__(like, len(outcome.ids))
        self.encode, self.outcome = encode, outcome
        self.found: Sequence[bytes] | None = None

    @staticmethod
    def together(group: "list[Unencoded]") -> None:
        """By the first of them."""
        outcomes = [one.outcome for one in group]
        first = outcomes[0]
        whole = first._replace(
            ids=list(chain.from_iterable(one.ids for one in outcomes)),
            p={CHAMPION: np.concatenate([one.p[CHAMPION] for one in outcomes])},
            offsets=np.concatenate([one.offsets for one in outcomes]),
            next_offsets={
                role: np.concatenate([one.next_offsets[role] for one in outcomes]) for role in first.next_offsets
            },
        )
        try:
            values = list(group[0].encode(whole))
        except Exception:  # the one whose predictions these are comes to it again
            return
        edges = pairwise(accumulate((len(one.ids) for one in outcomes), initial=0))
        for one, (i, j) in zip(group, edges, strict=True):
            one.found = values[i:j]
