"""A rare class among many others, as fraud among payments: one instance in 500 by default.

Instances of class 0 are standard normal in every feature. One of class 1 is of one of two kinds, with equal
probability, each of which has two features of its own shifted by `shift`. So the classes overlap, and no threshold
finds all of class 1 without many of class 0. Own; the mixture of kinds is to be more than one line can cut off.
"""

from functools import partial

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import normal, seeded, uniform
from riparian.models.streams import EndlessStream, numbered

N_FEATURES = 8


def source(seed: int = 0, *, ratio: float = 0.002, shift: float = 2.5, function: int = 0) -> EndlessStream:
    """Normal instances, of which a few are shifted. Of an instance of class 1 two features are shifted: x1 and x2, or
    x3 and x4; by function 1 x5 and x6, or x7 and x8."""
    first = 4 * function
    return EndlessStream(partial(_fill, seeded(seed), ratio, shift, first), (0,) * N_FEATURES, numbered(N_FEATURES), 2)


@kernel
def _fill(state, ratio, shift, first, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        y[i] = 1.0 if uniform(state) < ratio else 0.0
        kind = first + (0 if uniform(state) < 0.5 else 2)
        for j in range(x.shape[1]):
            x[i, j] = normal(state)
            if y[i] == 1.0 and kind <= j < kind + 2:
                x[i, j] += shift
