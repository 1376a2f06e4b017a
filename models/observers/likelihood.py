"""Naive Bayes of Gaussians and nominal values as products, not as sums of logarithms: a label takes no logarithm.

With a = 1 / (2 variance), the likelihood of class c of weight w_c is, up to a factor that all classes share,

    w_c  prod_nominal (n_vc + 1) / (n_c + V')  prod_numeric sqrt(a) exp(-a (x - mean)^2)

over the features whose value is known (models.observers.gaussians has the symbols). Products of hundreds of features
leave the range of float64: so they are kept as a number and an exponent of 2, which is taken out before it could be too
large. That is exact: rounding is that of the multiplications. A root, a division and an exponential a class remain.

A row of the cache: the weight of each class, 0 or brought into LEAST .. 1 / LEAST; then of each feature and class

- numeric: mean, a; 0 for a class not seen, -pi for one whose values are all the same: 1 at the mean and 0 elsewhere,
  where densities are 1 / sqrt(pi) of what is computed here;
- nominal: n_c + V', infinite for a class not seen; then n_vc + 1 of each value.

Counts beyond MOST are taken for MOST, so that 16 of them can be multiplied at a time; a variance beyond 1 / LEAST gives
likelihood 0.
"""

import math
from typing import Any

import numpy as np

from riparian.models.contract import Floats, Schema
from riparian.models.kernels.elementary import POWER_HIGH, STEP_HIGH, STEP_LOW, STEPS, STEPS_AN_E, two_to
from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import (
    WIDEST,
    add_exponents,
    counted,
    distances,
    halved,
    load_part,
    mantissas,
    put,
    root,
    spread_to,
)

MOST = 2.0**60
LEAST = 1e-300
BEYOND = WIDEST - 1  # numbers that may be read beyond a row's last
FARTHEST = -1e9


def scratch_of(schema: Schema) -> Floats:
    """What `score` works on: a row for mantissas, or probabilities in the end, one for exponents, one for sums."""
    return np.zeros((3, -(-schema.n_outputs // WIDEST) * WIDEST))


@kernel(inline=True)
def exp_parts(x):
    """exp(x) for x <= 0 as a number in [0.99, 2) and an exponent, which knows no underflow."""
    x = max(x, FARTHEST)
    i = np.int64(x * STEPS_AN_E - 0.5)
    steps = np.float64(i)
    r = (x - steps * STEP_HIGH) - steps * STEP_LOW
    square = r * r
    rest = r + square * ((0.5 + r * (1.0 / 6.0)) + square * (1.0 / 24.0 + r * (1.0 / 120.0)))
    scale = POWER_HIGH[np.uint64(i & np.int64(STEPS - 1))]
    return scale + scale * rest, i >> np.int64(6)


@kernel(inline=True)
def precision(n, m2):
    """1 / (2 variance) of weight n and sum of squared deviations m2, or what stands for it in a row of the cache."""
    if n > 1.0 and m2 > LEAST * (n - 1.0):
        a = 0.5 * (n - 1.0) / m2
        return a if a >= LEAST else 0.0
    return -math.pi if n > 0.0 else 0.0


@kernel(inline=True)
def known_weight(weight):
    """A class's weight as the cache has it."""
    return min(max(weight, LEAST), 1.0 / LEAST) if weight > 0.0 else 0.0


@kernel(inline=True)
def count_plus(count, more):
    """count + more, at most MOST."""
    return min(count + more, MOST)


@kernel
def refresh(block, cached, n_seen, layout, class_weights):
    """Compute the whole cache row of a block. n_seen : Known.n_seen. class_weights : (n_classes,). Mutates cached."""
    k = np.uint64(len(class_weights))
    for c in range(k):
        cached[c] = known_weight(class_weights[c])
        for f in range(len(layout.n_values)):
            i = layout.offset[f] + c
            j = layout.cached[f] + c
            if layout.n_values[f] == 0:
                cached[j] = block[i + k]
                cached[j + k] = precision(block[i], block[i + k + k])
                continue
            cached[j] = count_plus(block[i], n_seen[f]) if block[i] > 0.0 else math.inf
            for v in range(np.uint64(layout.n_values[f])):
                step = v * k + k
                cached[j + step] = count_plus(block[i + step], 1.0)


def _sums(n: int) -> Any:
    @kernel(inline=True)
    def sums(rows, block, n_values, offset, n_classes, g, x, r, joint):
        """Put into joint what `score` multiplies and adds up over the features, for the n classes from g on."""
        k = np.uint64(n_classes)
        zero = np.uint64(0)
        one = np.uint64(1)
        two = np.uint64(2)
        # Products over the features, and exponents taken out of them: of n_vc + 1, n_c + V' and a.
        counts = spread_to(1.0, n)
        n_counts = spread_to(0.0, n)
        below = spread_to(1.0, n)
        n_below = spread_to(0.0, n)
        above = spread_to(1.0, n)
        n_above = spread_to(0.0, n)
        squares = spread_to(0.0, n)
        for f in range(len(n_values)):
            value = x[r, f]
            j = offset[f] + g
            if n_values[f] > 0:
                if value >= 0.0 and value < n_values[f]:
                    total = load_part(rows, block, j, n)
                    below = below * total
                    counts = counts * load_part(rows, block, j + np.uint64(value) * k + k, n)
                    squares = squares + (total - total)  # NaN where it is infinite
            elif value - value == 0.0:
                a = load_part(rows, block, j + k, n)
                above = above * mantissas(a)
                n_above = add_exponents(n_above, a)
                squares = squares + distances(value - load_part(rows, block, j, n), a)
            if f & 15 == 15:
                n_counts = add_exponents(n_counts, counts)
                counts = mantissas(counts)
                n_below = add_exponents(n_below, below)
                below = mantissas(below)
                n_above = add_exponents(n_above, above)
                above = mantissas(above)
        weight = load_part(rows, block, g, n)
        n_counts = add_exponents(add_exponents(n_counts, counts), weight)
        n_below = add_exponents(n_below, below)
        n_above = add_exponents(n_above, above)
        prior = mantissas(weight) * root(mantissas(above), n_above) / mantissas(below)
        put(mantissas(counts) * prior, joint, zero, g)
        put(counted(n_counts) + halved(n_above) - counted(n_below), joint, one, g)
        put(squares, joint, two, g)

    return sums


_sums_of_two = _sums(2)
_sums_of_eight = _sums(8)
_sums_of_sixteen = _sums(16)


@kernel(inline=True)
def score(rows, block, n_values, offset, n_classes, x, r, joint):
    """Naive Bayes from a fresh row of the cache: joint[0, c] = likelihood of class c times its weight, up to a factor.

    n_values, offset : Layout.n_values and Layout.cached (few arguments: this is the hottest call). joint : scratch of
    `scratch_of`. Returns the likeliest class, ties to the lowest, or -1 where all have likelihood 0. Mutates joint.
    O(d n_classes).
    """
    k = np.uint64(n_classes)
    at = np.uint64(block)
    if k <= np.uint64(8):
        _sums_of_eight(rows, at, n_values, offset, n_classes, np.uint64(0), x, r, joint)
    else:
        for group in range((k + np.uint64(15)) // np.uint64(16)):
            g = np.uint64(group) * np.uint64(16)
            _sums_of_sixteen(rows, at, n_values, offset, n_classes, g, x, r, joint)
    least = math.inf
    most = -math.inf
    for c in range(k):
        if rows[at, c] > 0.0 and joint[2, c] < math.inf:
            least = min(least, joint[2, c])
            most = max(most, joint[2, c])
        else:
            joint[0, c] = 0.0
    if least == math.inf:
        return -1
    if most > least:
        for c in range(k):
            if joint[0, c] > 0.0:
                part, n = exp_parts(least - joint[2, c])
                joint[0, c] *= part
                joint[1, c] += np.float64(n)
    top = -math.inf
    for c in range(k):
        if joint[0, c] > 0.0:
            top = max(top, joint[1, c])
    best = np.int64(-1)
    most = 0.0
    for c in range(k):
        below = max(joint[1, c] - top, -1023.0)
        p = joint[0, c] * (two_to(np.int64(below)) if below > -1023.0 else 0.0)
        joint[0, c] = p
        if p > most:
            most = p
            best = np.int64(c)
    return best


@kernel(inline=True)
def score_two(rows, block, n_values, offset, x, r, joint):
    """`score` for two classes, the same bits.

    Not called by `score`: arrays and loops over two classes take longer than the sums.
    """
    at = np.uint64(block)
    _sums_of_two(rows, at, n_values, offset, 2, np.uint64(0), x, r, joint)
    m0 = joint[0, 0]
    m1 = joint[0, 1]
    n0 = np.int64(joint[1, 0])
    n1 = np.int64(joint[1, 1])
    s0 = joint[2, 0]
    s1 = joint[2, 1]
    first = rows[at, 0] > 0.0 and s0 < math.inf
    second = rows[at, 1] > 0.0 and s1 < math.inf
    if not (first and second):
        joint[0, 0] = 1.0 if first else 0.0
        joint[0, 1] = 1.0 if second else 0.0
        return 0 if first else (1 if second else -1)
    part, n = exp_parts(-abs(s1 - s0))
    nearer = s0 < s1
    m0 *= 1.0 if nearer else part
    m1 *= part if nearer else 1.0
    n0 += np.int64(0) if nearer else n
    n1 += n if nearer else np.int64(0)
    top = max(n0, n1)
    m0 *= two_to(max(n0 - top, np.int64(-1023)))
    m1 *= two_to(max(n1 - top, np.int64(-1023)))
    joint[0, 0] = m0
    joint[0, 1] = m1
    return 1 if m1 > m0 else 0


@kernel(inline=True)
def score_leaf(stats, cached, fresh, block, weights, node, n_seen, layout, x, r, joint):
    """`score` for a leaf: first its row of the cache is computed anew, where `fresh` marks that it is out of date.

    stats : blocks of models.observers.gaussians. cached, fresh : models.observers.gaussians.Cache. block, node : the
        leaf's row in these,
    and in weights : (n, n_classes). Mutates cached, fresh, joint. O(d n_classes).
    """
    if fresh[block] == 0:
        refresh(stats[block], cached[block], n_seen, layout, weights[node])
        fresh[block] = 1
    if weights.shape[1] == 2:
        return score_two(cached, block, layout.n_values, layout.cached, x, r, joint)
    return score(cached, block, layout.n_values, layout.cached, weights.shape[1], x, r, joint)
