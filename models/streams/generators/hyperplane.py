"""The rotating hyperplane: on which side of a plane through the middle of the unit cube, while the plane turns.

Hulten, Spencer, Domingos: Mining time-changing data streams. KDD 2001; as in MOA's HyperplaneGenerator: after each
instance the first `n_drift` weights move by `speed` in their direction, which turns round with probability `turn`.
Unlike MOA's, the plane moves by default.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.streams import EndlessStream, numbered


def source(
    seed: int = 0,
    *,
    n_features: int = 10,
    n_drift: int = 2,
    speed: float = 0.001,
    turn: float = 0.1,
    noise: float = 0.05,
) -> EndlessStream:
    """Points in the unit cube."""
    if n_drift > n_features:
        raise ValueError(f"n_drift is {n_drift}: there are {n_features} features")
    state = seeded(seed)
    weights = np.array([uniform(state) for _ in range(n_features)])
    fill = partial(_fill, state, weights, np.ones(n_drift), speed, turn, noise)
    return EndlessStream(fill, (0,) * n_features, numbered(n_features), 2)


@kernel
def _fill(state, weights, directions, speed, turn, noise, x, y):
    """Write all rows of `x` and `y`; mutates the random state, `weights` and `directions` too. O(d) a row."""
    for i in range(len(x)):
        total, middle = 0.0, 0.0
        for j in range(x.shape[1]):
            x[i, j] = uniform(state)
            total += weights[j] * x[i, j]
            middle += weights[j]
        label = 1.0 if total >= 0.5 * middle else 0.0
        y[i] = 1.0 - label if uniform(state) < noise else label
        for j in range(len(directions)):  # drawn at speed 0 as well: instances do not shift with the speed
            weights[j] += directions[j] * speed
            if uniform(state) < turn:
                directions[j] = -directions[j]
