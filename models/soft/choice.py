"""Which models of a pool learn an instance, and which one predicts.

Gunasekara et al. 2022, as Köbschall et al. use it: the model with the least estimated loss predicts, and of n models
those with the least loss learn. The loss fades; all models predict every labelled instance for it. Some of the places
are drawn among the others, so that a model that was bad once, or knows nothing, can show what it has become.

The paper's code sorts the losses the wrong way and trains the worst. Until WARM_UP instances were learned, all learn.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import below, seeded
from riparian.models.running_scale import held

# Places in PoolChoice.state: the model that predicts; labels learned.
BEST, LEARNED = range(2)
# Places in PoolChoice.places.
LEARNING, DRAWN = range(2)

WARM_UP = 100
LEAST_PROBABILITY = 1e-6  # one mistake of a certain model costs 14, not infinity
HIGHEST_LOSS = 1e200


class PoolChoice(NamedTuple):
    """What a pool knows of its M models.

    faded : (M + 1,) float64, sums of losses, faded, and last of the weights.
    state : (2,) int64.
    learned : (M,) int64, labels learned by each.
    random : (4,) uint64.
    losses : (M,) float64.
    chosen : (M,) uint8, of the current label: scratch.
    places : (2,) int64, how many learn, and how many of these are drawn; 0 of a model that is in no pool.
    fading : (1,) float64.
    """

    faded: Floats
    state: NDArray[np.int64]
    learned: NDArray[np.int64]
    random: NDArray[np.uint64]
    losses: Floats
    chosen: NDArray[np.uint8]
    places: NDArray[np.int64]
    fading: Floats


def pool_of(n: int, n_learning: int, n_drawn: int, fading: float, seed: int) -> PoolChoice:
    """A pool of n models that knows nothing. n_learning : how many learn a label; n_drawn : of these, drawn."""
    return PoolChoice(
        np.zeros(n + 1),
        np.zeros(2, np.int64),
        np.zeros(n, np.int64),
        seeded(seed),
        np.zeros(n),
        np.ones(n, np.uint8),
        np.array([n_learning, n_drawn], np.int64),
        np.array([fading]),
    )


@kernel
def loss_of(prediction, y, regression):
    """Cross-entropy of class probabilities, or the squared error: NaN where nothing was predicted."""
    if regression:
        error = prediction[0] - y
        return min(error * error, HIGHEST_LOSS) if error == error else np.nan
    return -log(max(prediction[int(y)], LEAST_PROBABILITY))


@kernel
def choose(pool):
    """Mark who learns the current label. Mutates pool.chosen and pool.random. O(M places)."""
    chosen = pool.chosen
    n = len(chosen)
    n_learning = pool.places[LEARNING]
    n_drawn = pool.places[DRAWN]
    if n_learning >= n or pool.state[LEARNED] < WARM_UP:
        chosen[:] = 1
        return
    chosen[:] = 0
    for _ in range(n_learning - n_drawn):
        best = -1
        for m in range(n):
            if chosen[m] == 0 and (best < 0 or pool.faded[m] < pool.faded[best]):
                best = m
        chosen[best] = 1
    for j in range(n_drawn):
        skip = below(pool.random, n - (n_learning - n_drawn) - j)
        for m in range(n):
            if chosen[m] == 0:
                if skip == 0:
                    chosen[m] = 1
                    break
                skip -= 1


@kernel
def account(pool, w, regression):
    """Enter the losses of the current label, of weight w. Mutates pool.

    A squared error counts as far as models.running_scale lets it; cross-entropy has a bound.

    A model that predicted nothing has the greatest loss of the others; where all knew nothing, losses stay as they are.
    """
    best = 0
    n = len(pool.losses)
    greatest = -1.0
    for m in range(n):
        greatest = max(greatest, pool.losses[m]) if pool.losses[m] == pool.losses[m] else greatest
    for m in range(n):
        pool.losses[m] = pool.losses[m] if pool.losses[m] == pool.losses[m] else max(greatest, 0.0)
        if regression and pool.faded[n] > 0.0:
            pool.losses[m] = held(pool.losses[m], pool.faded[m] / pool.faded[n], pool.faded[n])
    if greatest < 0.0:
        w = 0.0
    pool.faded[n] = pool.fading[0] * pool.faded[n] + w
    for m in range(n):
        pool.faded[m] = pool.fading[0] * pool.faded[m] + w * pool.losses[m]
        pool.learned[m] += pool.chosen[m]
        if pool.faded[m] < pool.faded[best]:
            best = m
    pool.state[BEST] = best
    pool.state[LEARNED] += 1
