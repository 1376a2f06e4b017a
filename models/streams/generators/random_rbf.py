"""The random RBF stream: clouds around centroids that move.

As in MOA's RandomRBFGeneratorDrift: a centroid has a place in the unit cube, a class, a weight and a spread; an
instance lies in a random direction from a centroid picked by weight, at a normal distance. After each instance every
centroid moves by `speed` along its direction and turns back at the walls.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, normal, seeded, uniform
from riparian.models.streams import EndlessStream, numbered


def source(
    seed: int = 0, *, n_features: int = 10, n_classes: int = 4, n_centroids: int = 50, speed: float = 0.001
) -> EndlessStream:
    """Points."""
    state = seeded(seed)
    fill = partial(_fill, state, *_centroids(state, n_centroids, n_features, n_classes), speed)
    return EndlessStream(fill, (0,) * n_features, numbered(n_features), n_classes)


def _centroids(
    state: NDArray[np.uint64], n_centroids: int, n_features: int, n_classes: int
) -> tuple[NDArray[np.float64], ...]:
    """Places and unit directions (n_centroids, n_features), classes, spreads and cumulated weights (n_centroids,)."""
    centres, directions = np.empty((n_centroids, n_features)), np.empty((n_centroids, n_features))
    classes, spreads, weights = np.empty(n_centroids), np.empty(n_centroids), np.empty(n_centroids)
    for c in range(n_centroids):
        centres[c] = [uniform(state) for _ in range(n_features)]
        directions[c] = [uniform(state) for _ in range(n_features)]
        directions[c] /= np.sqrt((directions[c] * directions[c]).sum())
        classes[c], spreads[c], weights[c] = below(state, n_classes), uniform(state), uniform(state)
    return centres, directions, classes, spreads, np.cumsum(weights)


@kernel
def _fill(state, centres, directions, classes, spreads, cumulated, speed, x, y):
    """Write all rows of `x` and `y`; mutates the random state, `centres` and `directions` too. O(d * centroids)."""
    n_centroids, d = centres.shape
    for i in range(len(x)):
        if speed > 0.0:
            for c in range(n_centroids):
                for j in range(d):
                    centres[c, j] += directions[c, j] * speed
                    if centres[c, j] > 1.0 or centres[c, j] < 0.0:
                        centres[c, j] = 1.0 if centres[c, j] > 1.0 else 0.0
                        directions[c, j] = -directions[c, j]
        c = min(np.searchsorted(cumulated, uniform(state) * cumulated[-1], "right"), n_centroids - 1)
        squared = 0.0
        for j in range(d):
            x[i, j] = 2.0 * uniform(state) - 1.0
            squared += x[i, j] * x[i, j]
        distance = normal(state) * spreads[c] / np.sqrt(squared)
        for j in range(d):
            x[i, j] = centres[c, j] + x[i, j] * distance
        y[i] = classes[c]
