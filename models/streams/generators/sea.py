"""The SEA stream: two of three features, and whether their sum passes a threshold.

Street, Kim: A streaming ensemble algorithm (SEA) for large-scale classification. KDD 2001. The paper's four concepts
are thresholds of 8, 9, 7 and 9.5, with 10 % of the classes inverted; class 0 is the side up to the threshold, as in
MOA's SEAGenerator.
"""

from functools import partial

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded, uniform
from riparian.models.streams import EndlessStream, numbered

THRESHOLDS = (8.0, 9.0, 7.0, 9.5)


def source(seed: int = 0, *, function: int = 0, noise: float = 0.1) -> EndlessStream:
    """Points in a cube of side 10. Concept 0 is block 1 of the paper."""
    return EndlessStream(partial(_fill, seeded(seed), THRESHOLDS[function], noise), (0, 0, 0), numbered(3), 2)


@kernel
def _fill(state, threshold, noise, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        for j in range(3):
            x[i, j] = 10.0 * uniform(state)
        label = 0.0 if x[i, 0] + x[i, 1] <= threshold else 1.0
        y[i] = 1.0 - label if uniform(state) < noise else label
