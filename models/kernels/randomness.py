"""Random numbers for kernels: xoshiro256** seeded by splitmix64 (Blackman and Vigna, 2018).

The state is four uint64 in an array that the caller owns and every kernel takes as an argument, so that results repeat
bit for bit and can be saved. numpy's generators cannot be used in kernels, and numba's have one hidden state a thread.
"""

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.elementary import log
from riparian.models.kernels.kernel import kernel

MASK = (1 << 64) - 1


def seeded(seed: int) -> NDArray[np.uint64]:
    """A state, (4,) uint64, from any int: the first four outputs of splitmix64."""
    words = []
    z = seed & MASK
    for _ in range(4):
        z = (z + 0x9E3779B97F4A7C15) & MASK
        mixed = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        words.append(mixed ^ (mixed >> 31))
    return np.array(words, dtype=np.uint64)


@kernel(inline=True)
def advanced(s0, s1, s2, s3):
    """The next 64 random bits as uint64, and the four words of the state behind them: for loops that keep it in
    registers. O(1)."""
    x = s1 * np.uint64(5)
    bits = ((x << np.uint64(7)) | (x >> np.uint64(57))) * np.uint64(9)
    s2 ^= s0
    s3 ^= s1
    return bits, s0 ^ s3, s1 ^ s2, s2 ^ (s1 << np.uint64(17)), (s3 << np.uint64(45)) | (s3 >> np.uint64(19))


@kernel(inline=True)
def in_unit(bits):
    """A float64 in [0, 1), a multiple of 2^-53, of 64 random bits."""
    return np.float64(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def draw(state):
    """The next 64 random bits as uint64. Mutates `state`. O(1)."""
    bits, state[0], state[1], state[2], state[3] = advanced(state[0], state[1], state[2], state[3])
    return bits


@kernel
def uniform(state):
    """A float64 in [0, 1), a multiple of 2^-53. Mutates `state`. O(1)."""
    return in_unit(draw(state))


@kernel
def below(state, n):
    """An int64 in 0 .. n-1, n below 2^31 (bias below n / 2^53). Mutates `state`. O(1)."""
    return np.int64(uniform(state) * n)


@kernel
def normal(state):
    """A standard normal float64 by Marsaglia's polar method (the second value is thrown away). Mutates `state`."""
    while True:
        a = 2.0 * uniform(state) - 1.0
        b = 2.0 * uniform(state) - 1.0
        s = a * a + b * b
        if 0.0 < s < 1.0:
            return a * np.sqrt(-2.0 * log(s) / s)
