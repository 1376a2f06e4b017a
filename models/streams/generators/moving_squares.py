"""Moving squares: four squares of points side by side, one a class, that go to and fro along one axis.

Losing, Hammer and Wersing: KNN classifier with self adjusting memory for heterogeneous concept drift. ICDM 2016. What
was learned of a place turns wrong soon: with the paper's speed another class is there 120 instances later. Sizes are
those of the published data set, which has the classes in a fixed order; here each class is drawn.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded, uniform
from riparian.models.streams import EndlessStream, numbered

N_CLASSES = 4
SIDE = 0.05
DISTANCE = 0.08  # distance of the left edges of two neighbours
REACH = 1.0 - (N_CLASSES - 1) * DISTANCE - SIDE  # how far the left edge of the first square goes


def source(seed: int = 0, *, speed: float = 0.00025) -> EndlessStream:
    """Points of a strip of length 1. The squares turn back at the ends."""
    return EndlessStream(partial(_fill, seeded(seed), np.array([0.0, speed])), (0, 0), numbered(2), N_CLASSES)


@kernel
def _fill(state, place, x, y):
    """Write all rows of `x` and `y`; mutates the random state and place : (2,), the left edge of the first square and
    its next step."""
    for i in range(len(x)):
        c = below(state, N_CLASSES)
        x[i, 0] = place[0] + DISTANCE * c + SIDE * uniform(state)
        x[i, 1] = SIDE * uniform(state)
        y[i] = c
        place[0] += place[1]
        if place[0] > REACH or place[0] < 0.0:
            place[0] = REACH if place[0] > REACH else 0.0
            place[1] = -place[1]
