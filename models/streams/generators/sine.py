"""The sine streams: points of the unit square above or below a curve, and features that mean nothing.

Gama, Medas, Castillo, Rodrigues: Learning with drift detection. SBIA 2004: SINE1 (y < sin(x)), SINE2
(y < 0.5 + 0.3 sin(3 pi x)), and each reversed, which is the paper's drift; SINIRREL1 and 2 with two irrelevant
features. Class 0 is the paper's positive class, as in MOA's SineGenerator. No noise.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.streams import EndlessStream, numbered


def source(seed: int = 0, *, function: int = 0, n_irrelevant: int = 2) -> EndlessStream:
    """Points."""
    d = 2 + n_irrelevant
    return EndlessStream(partial(_fill, seeded(seed), function), (0,) * d, numbered(d), 2)


@kernel
def _fill(state, function, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        for j in range(x.shape[1]):
            x[i, j] = uniform(state)
        curve = np.sin(x[i, 0]) if function < 2 else 0.5 + 0.3 * np.sin(3.0 * np.pi * x[i, 0])
        below = x[i, 1] < curve
        y[i] = 0.0 if below == (function % 2 == 0) else 1.0
