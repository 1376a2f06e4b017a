"""Random numbers by counter: draw i of a key is a pure function of both, in whatever order draws are asked for.

So members of an ensemble can be run one after the other, or at once, over programs cut anywhere, and each label draws
what it draws. The numbers are splitmix64's (Steele, Lea and Flood 2014), started at the key.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.kernels.elementary import exp, exps
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.randomness import seeded

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
LARGEST_RATE = 500.0  # exp(-rate) is not far from underflow beyond it


def key(*numbers: int) -> np.uint64:
    """A key from a seed and what distinguishes draws: the member, what the draws are for."""
    mixed = 0
    for number in numbers:
        mixed = int(seeded(mixed ^ (number & ((1 << 64) - 1)))[1])
    return np.uint64(mixed)


N_STEPS = 64


class PoissonTable(NamedTuple):
    """Of Poisson(rate).

    below : P(k or less) for k = 0, 1, ..., summed as `poisson` does, the last one 1 or more.
    first : (N_STEPS,) int64, the count at j / N_STEPS, where the search for a place beyond it begins.
    """

    below: Floats
    first: NDArray[np.int64]


def poisson_table(rate: float) -> PoissonTable:
    """rate : 0 .. LARGEST_RATE."""
    p = total = float(exps(-rate))
    below = [total]
    while p > 0.0 and total < 1.0:
        p *= rate / len(below)
        if total + p == total and len(below) > rate:
            break
        total += p
        below.append(total)
    below[-1] = max(below[-1], 1.0)
    cumulated = np.array(below)
    return PoissonTable(cumulated, np.searchsorted(cumulated, np.arange(N_STEPS) / N_STEPS, side="right"))


@kernel(inline=True)
def poisson_from(table, u):
    """The count whose place in the distribution is u in [0, 1). O(1)."""
    k = table.first[np.int64(u * N_STEPS)]
    while u >= table.below[k]:
        k += 1
    return np.float64(k)


@kernel(inline=True)
def uniform_at(key, i):
    """Draw i >= 0 of a uint64 key: a float64 in [0, 1), a multiple of 2^-53. O(1)."""
    z = key + (np.uint64(i) + np.uint64(1)) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def poisson(rate, u):
    """The count of Poisson(rate), rate >= 0, whose place in the distribution is u in [0, 1): by inversion. O(count).

    Beyond LARGEST_RATE the rate itself, rounded: it is within a few percent.
    """
    if rate > LARGEST_RATE:
        return np.floor(rate + 0.5)
    p = exp(-rate)
    below = p
    k = 0.0
    while u >= below and p > 0.0:
        k += 1.0
        p *= rate / k
        below += p
    return k
