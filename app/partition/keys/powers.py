"""Powers of two by square roots and products alone, which IEEE 754 fixes to the last bit on every processor."""

import math

import numpy as np

from riparian.models.contract import Floats
from riparian.models.kernels.kernel import kernel

STEPS = 1024  # steps of one half-life
EPOCH = 256  # half-lives, after which sums are scaled
FADED = 3  # epochs, after which nothing is left
DOWN = 2.0**-EPOCH
SMALLEST = 2.0**-600  # a sum below it is 0 once it is scaled


def table() -> Floats:
    """(1024 + 256,) powers: 2^(i / 1024) as the product of the square roots of its bits, the highest first; then
    2^0 to 2^255."""
    roots = [math.sqrt(2.0)]
    while len(roots) < 10:
        roots.append(math.sqrt(roots[-1]))
    parts = [math.prod(root for j, root in enumerate(roots) if i >> (9 - j) & 1) for i in range(STEPS)]
    return np.array([*parts, *(2.0**e for e in range(EPOCH))], np.float64)


@kernel(inline=True)
def place(powers, half_life, time):
    """The epoch of a time, and 2^(time / half-life) less the epochs before. half_life : ms; 0 of none, where each
    event weighs 1. time : ms, below 2^53 either way."""
    if half_life == 0:
        return 0, 1.0
    tick = (time << 10) // half_life
    halves = tick >> 10
    return halves >> 8, powers[tick & (STEPS - 1)] * powers[STEPS + (halves & (EPOCH - 1))]


@kernel(inline=True)
def scaled(value, epochs):
    """What was relative to an epoch, relative to one that is so many later."""
    if epochs <= 0:
        return value
    if epochs >= FADED:
        return 0.0
    for _ in range(epochs):
        value *= DOWN
    return value if abs(value) >= SMALLEST else 0.0
