"""The STAGGER concepts: three nominal features, and one of three rules.

Schlimmer, Granger: Incremental learning from noisy data. Machine Learning 1, 1986. Values are coded as in MOA's
STAGGERGenerator: size small, medium, large; colour red, blue, green; shape circle, square, triangle. Class 1 is the
concept. No noise.
"""

from functools import partial

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded
from riparian.models.streams import EndlessStream

NAMES = ("size", "colour", "shape")
SMALL, RED, GREEN, CIRCLE = 0.0, 0.0, 2.0, 0.0


def source(seed: int = 0, *, function: int = 0) -> EndlessStream:
    """Objects."""
    return EndlessStream(partial(_fill, seeded(seed), function), (3, 3, 3), NAMES, 2)


@kernel
def _fill(state, function, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        for j in range(3):
            x[i, j] = below(state, 3)
        size, colour, shape = x[i, 0], x[i, 1], x[i, 2]
        if function == 0:
            positive = size == SMALL and colour == RED
        elif function == 1:
            positive = colour == GREEN or shape == CIRCLE
        else:
            positive = size != SMALL
        y[i] = 1.0 if positive else 0.0
