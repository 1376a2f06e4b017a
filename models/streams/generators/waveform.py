"""The waveform stream: a random mixture of two out of three triangular waves, sampled at 21 points with noise.

Breiman, Friedman, Olshen, Stone: Classification and regression trees, 1984; the version of 40 features has 19 more of
noise alone. Order of waves and classes as in MOA's WaveformGenerator. Bayes rate: 14 % error.
"""

from functools import partial

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, normal, seeded, uniform
from riparian.models.streams import EndlessStream, numbered

N_POINTS = 21
PEAKS = (6, 14, 10)
WAVES = np.maximum(6.0 - np.abs(np.arange(N_POINTS) - np.array(PEAKS)[:, None]), 0.0)  # (3, 21)
PAIRS = np.array([[0, 1], [0, 2], [1, 2]])  # rows are classes


def source(seed: int = 0, *, n_irrelevant: int = 0) -> EndlessStream:
    """Waves. Features that mean nothing are standard normal."""
    d = N_POINTS + n_irrelevant
    return EndlessStream(partial(_fill, seeded(seed), WAVES, PAIRS), (0,) * d, numbered(d), len(PAIRS))


@kernel
def _fill(state, waves, pairs, x, y):
    """Write all rows of `x` and `y`; mutates the random state too."""
    for i in range(len(x)):
        wave = below(state, len(pairs))
        share = uniform(state)
        first, second = waves[pairs[wave, 0]], waves[pairs[wave, 1]]
        for j in range(x.shape[1]):
            x[i, j] = normal(state)
            if j < waves.shape[1]:
                x[i, j] += share * first[j] + (1.0 - share) * second[j]
        y[i] = wave
