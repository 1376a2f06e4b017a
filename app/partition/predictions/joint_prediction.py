"""Has models that several partitions share predict, in one call, what these have joined. Pure.

Live, a partition has an instance or two at a time, and a call costs more than these. An instance is predicted alike in
whichever batch it stands, as long as the models learn nothing in between.
"""

from collections.abc import Mapping
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.joint_work import JointItem
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.predictions.serving import Serving
from riparian.models.contract import Floats


class Unpredicted(JointItem):
    """What one partition has joined, to be predicted with what others have.

    Parameters
    ----------
    roles, servings : mapping of str to ModelSlot, and to Serving
        The models, and the partition's side of each.
    x : (n, d) float64
        In the models' codes.
    rows : (n,) int32
        Where it waits.

    Attributes
    ----------
    done : bool
        False where the partition has to predict it by itself.
    """

    def __init__(
        self, roles: Mapping[str, ModelSlot], servings: Mapping[str, Serving], x: Floats, rows: NDArray[np.int32]
    ) -> None:
        super().__init__(x.shape[1], len(rows))
        self.roles, self.servings, self.x, self.rows = roles, servings, x, rows
        self.done = False

    @staticmethod
    def together(group: "list[Unpredicted]") -> None:
        """By the models, which are the same of all that ask at one time."""
        first, x = group[0], np.concatenate([one.x for one in group])
        try:
            found = {name: first.servings[name].ask(role, x) for name, role in first.roles.items()}
        except Exception:  # the one whose instances these are comes to it again
            return
        edges = pairwise(accumulate((one.n for one in group), initial=0))
        for one, (i, j) in zip(group, edges, strict=True):
            for name, columns in found.items():
                one.servings[name].keep(one.rows, [column[i:j] for column in columns])
            one.done = True
