"""Friedman's regression: five of ten uniform features, a sine, a square and two lines, with normal noise.

Friedman: Multivariate adaptive regression splines. Annals of Statistics 19, 1991. Functions 1 and 2 give the features
other parts, as the global drifts of Ikonomovska, Gama, Džeroski: Learning model trees from evolving data streams. Data
Mining and Knowledge Discovery 23, 2011.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import normal, seeded, uniform
from riparian.models.streams import EndlessStream, numbered

N_FEATURES = 10
# rows are functions: the features of the sine (two), of the square, and of the lines of slope 10 and 5
PARTS = np.array([[0, 1, 2, 3, 4], [3, 4, 1, 0, 2], [1, 4, 3, 2, 0]])


def source(seed: int = 0, *, function: int = 0, noise: float = 1.0) -> EndlessStream:
    """Points in the unit cube and their targets."""
    return EndlessStream(
        partial(_fill, seeded(seed), PARTS[function], noise), (0,) * N_FEATURES, numbered(N_FEATURES), 0
    )


@kernel
def _fill(state, parts, noise, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        row = x[i]
        for j in range(len(row)):
            row[j] = uniform(state)
        a, b, c, d, e = row[parts[0]], row[parts[1]], row[parts[2]], row[parts[3]], row[parts[4]]
        clean = 10.0 * np.sin(np.pi * a * b) + 20.0 * (c - 0.5) * (c - 0.5) + 10.0 * d + 5.0 * e
        y[i] = clean + noise * normal(state)
