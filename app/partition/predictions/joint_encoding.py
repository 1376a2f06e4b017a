"""Encodes what several partitions have predicted in one call. Pure.

Live, a partition has a prediction or two at a time, and a call costs more than these. A prediction is written alike in
whichever batch it stands, as long as one model made them all and nothing is told besides what it predicted. What is not
usual each partition encodes for itself.
"""

from collections.abc import Hashable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Protocol

import numpy as np

from riparian.app.partition.joint_work import JointItem, JointWork
from riparian.app.partition.outcome import Outcome
from riparian.topics.names import CHAMPION

FEW = 16  # predictions of an outcome, at most: a call for more costs less than they do


class PredictionEncoder(Protocol):
    """What encodes the predictions of a partition. Where likenesses are equal, one encodes as the other; None: what was
    predicted is not usual."""

    def encode(self, outcome: Outcome) -> Sequence[bytes]: ...
    def encoding_likeness(self, outcome: Outcome) -> Hashable | None: ...


class Unencoded(JointItem):
    """What one partition has to encode.

    Attributes
    ----------
    found : list of bytes, optional
        None where it has to do so itself.
    """

    def __init__(self, learner: PredictionEncoder, outcome: Outcome, like: Hashable) -> None:
        super().__init__(like, len(outcome.ids))
        self.learner, self.outcome = learner, outcome
        self.found: Sequence[bytes] | None = None


class JointEncoding:
    """Of partitions that take each stage of their steps together, in one thread."""

    def __init__(self) -> None:
        self._work = JointWork[Unencoded](_encode)

    def ask(self, learner: PredictionEncoder, outcome: Outcome) -> Unencoded | None:
        """Encode all of an outcome with what others ask for; None where it is no usual one."""
        like = learner.encoding_likeness(outcome) if 0 < len(outcome.ids) <= FEW else None
        return None if like is None else self._work.wait(Unencoded(learner, outcome, like))

    def answer(self, asked: Unencoded) -> Sequence[bytes] | None:
        """What `ask` has asked for; None where the partition has to encode it by itself."""
        self._work.do(asked)
        return asked.found


def _encode(group: list[Unencoded]) -> None:
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
        values = list(group[0].learner.encode(whole))
    except Exception:  # the one whose predictions these are comes to it again
        return
    edges = pairwise(accumulate((len(one.ids) for one in outcomes), initial=0))
    for one, (i, j) in zip(group, edges, strict=True):
        one.found = values[i:j]
