"""Has models that several partitions share predict, in one call, what these have joined. Pure.

Live, a partition has an instance or two at a time, and a call costs more than these. An instance is predicted alike in
whichever batch it stands, as long as the models learn nothing in between.
"""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.joint_work import JointItem, JointWork
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.predictions.serving import Serving
from riparian.models.contract import Floats

FEW = 16  # instances of a partition, at most: a call for more costs less than they do


class Served(Protocol):
    """A partition that models serve, which are the same of all that ask at one time."""

    @property
    def roles(self) -> Mapping[str, ModelSlot]: ...
    @property
    def servings(self) -> Mapping[str, Serving]: ...


class Unpredicted(JointItem):
    """What one partition has joined.

    Parameters
    ----------
    x : (n, d) float64
        In the models' codes.
    rows : (n,) int32
        Where it waits.

    Attributes
    ----------
    done : bool
        False where the partition has to predict it by itself.
    """

    def __init__(self, served: Served, x: Floats, rows: NDArray[np.int32]) -> None:
        super().__init__(x.shape[1], len(rows))
        self.served, self.x, self.rows = served, x, rows
        self.done = False


class JointPrediction(JointWork[Unpredicted]):
    """Of partitions that take each stage of their steps together, in one thread."""

    def __init__(self) -> None:
        super().__init__(_predict)


def _predict(group: list[Unpredicted]) -> None:
    served, x = group[0].served, np.concatenate([one.x for one in group])
    try:
        found = {name: served.servings[name].ask(role, x) for name, role in served.roles.items()}
    except Exception:  # the one whose instances these are comes to it again
        return
    edges = pairwise(accumulate((one.n for one in group), initial=0))
    for one, (i, j) in zip(group, edges, strict=True):
        for name, columns in found.items():
            one.served.servings[name].keep(one.rows, [column[i:j] for column in columns])
        one.done = True
