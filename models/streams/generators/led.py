"""The LED stream: the digit shown by seven segments, each inverted with some probability.

Breiman, Friedman, Olshen, Stone: Classification and regression trees, 1984; as in MOA's LEDGenerator with 17 further
features that mean nothing. With 10 % noise no classifier exceeds 74 % by much (Bayes rate 26 % error). The concept is
how many segments have changed places with features that mean nothing, as in MOA's LEDGeneratorDrift.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded, uniform
from riparian.models.streams import EndlessStream

N_SEGMENTS = 7
# rows are digits: upper, upper left, upper right, middle, lower left, lower right, lower segment
SEGMENTS = np.array(
    [[int(lit) for lit in digit] for digit in (
        "1110111", "0010010", "1011101", "1011011", "0111010", "1101011", "1101111", "1010010", "1111111", "1111011"
    )],
    dtype=np.float64,
)  # fmt: skip


def source(seed: int = 0, *, noise: float = 0.1, n_irrelevant: int = 17, n_swapped: int = 0) -> EndlessStream:
    """Digits. The segments that `n_swapped` names stand where the first coins were, and these where the segments
    were."""
    if n_swapped > min(N_SEGMENTS, n_irrelevant):
        raise ValueError(f"n_swapped is {n_swapped}: there are {N_SEGMENTS} segments and {n_irrelevant} other features")
    d = N_SEGMENTS + n_irrelevant
    place = np.arange(d)
    place[:n_swapped] += N_SEGMENTS
    place[N_SEGMENTS : N_SEGMENTS + n_swapped] -= N_SEGMENTS
    fill = partial(_fill, seeded(seed), SEGMENTS, place, noise)
    return EndlessStream(fill, (2,) * d, tuple(f"led{j + 1}" for j in range(d)), len(SEGMENTS))


@kernel
def _fill(state, segments, place, noise, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        digit = below(state, len(segments))
        y[i] = digit
        for j in range(x.shape[1]):
            if j < segments.shape[1]:
                lit = segments[digit, j]
                x[i, place[j]] = 1.0 - lit if uniform(state) < noise else lit
            else:
                x[i, place[j]] = below(state, 2)
