"""Naive Bayes of Gaussians and nominal values as products, not as sums of logarithms: a label takes no logarithm.

With a = 1 / (2 variance), the likelihood of class c of weight w_c is, up to a factor that all classes share,

    w_c  prod_nominal (n_vc + 1) / (n_c + V')  prod_numeric sqrt(a) exp(-a (x - mean)^2)

over the features whose value is known (models.observers has the symbols). The factors of all features that do not
depend on the value, sqrt(a) and 1 / (n_c + V'), are one number a class, its *prior*: the leaf keeps it up to date. An
instance multiplies it with n_vc + 1, adds up a (x - mean)^2, and takes one exponential a class, and only for classes
other than the one of the least sum. Products of hundreds of features leave the range of float64: so they are kept as a
mantissa and an exponent of 2. Changing the exponent is exact; rounding is that of the multiplications, whenever it is
done.

A row of the cache, k numbers each: mantissa and exponent of the prior, the weight of the class; then of each feature

- numeric: mean, a; -1 for a class whose values are all the same (1 at the mean, 0 elsewhere), 0 for one not seen;
- nominal: n_c + V', infinite for a class not seen; then n_vc + 1 of each value.

Counts beyond MOST are taken for MOST, so that 16 of them can be multiplied at a time; weights are brought into LEAST ..
1 / LEAST, and a variance beyond 1 / LEAST gives likelihood 0.
"""

import decimal
import math
from typing import Any

import numpy as np

from models.contract import Floats, Schema
from models.kernel import kernel
from models.class_lanes import WIDEST, add, distances, exponents, load, mantissas, multiply, put, spread, subtract

MOST = 2.0**60
LEAST = 1e-300
N_FIRST = 3  # numbers a class before those of the first feature
BEYOND = WIDEST - 1  # numbers that may be read beyond a row's last
TOGETHER = np.int64(15)  # after 16 factors up to MOST the exponent is taken out of a product

MANTISSA = np.int64((1 << 52) - 1)
ONE = np.int64(1023 << 52)

# exp(x) = 2^n 2^(j / STEPS) exp(r), from a table of the second factor, each correctly rounded.
STEPS = 64
with decimal.localcontext() as context:
    context.prec = 40
    POWERS = np.array([float(decimal.Decimal(2) ** (decimal.Decimal(j) / STEPS)) for j in range(STEPS)])
    STEP = decimal.Decimal(2).ln() / STEPS
    STEPS_AN_E = float(1 / STEP)
    STEP_HIGH = math.ldexp(round(math.ldexp(float(STEP), 38)), -38)  # 32 bits: times a count of steps, it is exact
    STEP_LOW = float(STEP - decimal.Decimal(STEP_HIGH))
FARTHEST = -1e9


def scratch_of(schema: Schema) -> Floats:
    """What `score` works on: a row for mantissas, or probabilities in the end, one for exponents, one for sums."""
    return np.zeros((3, -(-schema.n_outputs // WIDEST) * WIDEST))


@kernel(inline=True)
def exponent(x):
    """floor(log2(x)) of a normal x > 0."""
    return (np.float64(x).view(np.int64) >> np.int64(52)) - np.int64(1023)


@kernel(inline=True)
def mantissa(x):
    """x / 2^exponent(x), in [1, 2)."""
    return np.int64((np.float64(x).view(np.int64) & MANTISSA) | ONE).view(np.float64)


@kernel(inline=True)
def power(n):
    """2^n, for n in -1022 .. 1023."""
    return np.int64((n + np.int64(1023)) << np.int64(52)).view(np.float64)


@kernel(inline=True)
def exp_parts(x):
    """exp(x) for x <= 0 as a number in [0.99, 2) and an exponent, which knows no underflow."""
    x = max(x, FARTHEST)
    i = np.int64(x * STEPS_AN_E - 0.5)
    steps = np.float64(i)
    r = (x - steps * STEP_HIGH) - steps * STEP_LOW
    square = r * r
    rest = r + square * ((0.5 + r * (1.0 / 6.0)) + square * (1.0 / 24.0 + r * (1.0 / 120.0)))
    scale = POWERS[np.uint64(i & np.int64(STEPS - 1))]
    return scale + scale * rest, i >> np.int64(6)


@kernel(inline=True)
def prior(cached, n_values, offset, k, c, x, r):
    """Mantissa (0 where the likelihood is 0) and exponent of the prior of class c, from the rest of a cache row.

    x : None for a prior over all features; or else it is over those that are known in row r of x. k, c : uint64.
    """
    above = 1.0
    n_above = np.int64(0)
    below = 1.0
    n_below = np.int64(0)
    for f in range(len(n_values)):
        if x is not None:
            value = x[r, f]
            if value - value != 0.0 or (n_values[f] > 0 and not (value >= 0.0 and value < n_values[f])):
                continue
        j = offset[f] + c
        if n_values[f] > 0:
            count = cached[j]
            if not count < math.inf:
                return 0.0, np.int64(0)
            below *= mantissa(count)
            n_below += exponent(count)
        else:
            a = cached[j + k]
            if a == 0.0:
                return 0.0, np.int64(0)
            if a > 0.0:
                above *= mantissa(a)
                n_above += exponent(a)
        if f & 511 == 511:
            n_above += exponent(above)
            above = mantissa(above)
            n_below += exponent(below)
            below = mantissa(below)
    n_above += exponent(above)
    above = mantissa(above)
    if n_above & np.int64(1):
        n_above -= np.int64(1)
        above *= 2.0
    weight = min(max(cached[k + k + c], LEAST), 1.0 / LEAST)
    shift = exponent(weight) + (n_above >> np.int64(1)) - n_below - exponent(below)
    return mantissa(weight) * math.sqrt(above) / mantissa(below), shift


@kernel(inline=True)
def cache_prior(cached, n_values, offset, k, c):
    """Bring the prior of class c up to date. Mutates cached."""
    part, shift = prior(cached, n_values, offset, k, c, None, 0)
    cached[c] = part
    cached[k + c] = np.float64(shift)


@kernel
def times_partial_priors(cached, n_values, offset, n_classes, x, r, joint):
    """Multiply joint[0, c] 2^joint[1, c] with the prior of class c over the features that are known in row r of x."""
    k = np.uint64(n_classes)
    for c in range(k):
        part = 0.0
        if cached[k + k + c] > 0.0:
            part, shift = prior(cached, n_values, offset, k, c, x, r)
            joint[1, c] += np.float64(shift)
        joint[0, c] *= part


@kernel(inline=True)
def precision(n, m2):
    """1 / (2 variance) of weight n and sum of squared deviations m2, or what stands for it in a row of the cache."""
    if n > 1.0 and m2 > LEAST * (n - 1.0):
        a = 0.5 * (n - 1.0) / m2
        return a if a >= LEAST else 0.0
    return -1.0 if n > 0.0 else 0.0


@kernel(inline=True)
def count_plus(count, more):
    """count + more, at most MOST."""
    return min(count + more, MOST)


@kernel
def refresh(block, cached, n_seen, layout, class_weights):
    """Compute the whole cache row of a block. n_seen : Known.n_seen. class_weights : (n_classes,). Mutates cached."""
    k = np.uint64(len(class_weights))
    for c in range(k):
        cached[k + k + c] = class_weights[c]
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
        cached[c] = 0.0
        if class_weights[c] > 0.0:
            cache_prior(cached, layout.n_values, layout.cached, k, c)


@kernel(inline=True)
def distance(value, mean, a):
    """a (value - mean)^2, or what stands for it where a is -1 or 0."""
    apart = value - mean
    if a > 0.0:
        return a * apart * apart
    return 0.0 if apart == 0.0 and a < 0.0 else math.inf


def _sums(n: int) -> Any:
    @kernel(inline=True)
    def sums(rows, block, n_values, offset, n_classes, g, x, r, joint):
        """What `score` adds up for the n classes from g on, into joint. Returns whether all values are known."""
        k = np.uint64(n_classes)
        zero = np.uint64(0)
        one = np.uint64(1)
        two = np.uint64(2)
        products = spread(1.0, n)
        powers = spread(0.0, n)
        squares = spread(0.0, n)
        n_factors = np.int64(0)
        n_known = 0
        for f in range(len(n_values)):
            value = x[r, f]
            j = offset[f] + g
            if n_values[f] > 0:
                if value >= 0.0 and value < n_values[f]:
                    n_known += 1
                    products = multiply(products, load(rows, block, j + np.uint64(value) * k + k, n))
                    n_factors += np.int64(1)
                    if n_factors & TOGETHER == 0:
                        powers = add(powers, exponents(products))
                        products = mantissas(products)
            elif value - value == 0.0:
                n_known += 1
                apart = subtract(spread(value, n), load(rows, block, j, n))
                squares = add(squares, distances(apart, load(rows, block, j + k, n)))
        powers = add(powers, exponents(products))
        products = mantissas(products)
        if n_known == len(n_values):
            products = multiply(products, load(rows, block, g, n))
            powers = add(powers, load(rows, block, k + g, n))
        put(products, joint, zero, g)
        put(powers, joint, one, g)
        put(squares, joint, two, g)
        return n_known == len(n_values)

    return sums


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
        known = _sums_of_eight(rows, at, n_values, offset, n_classes, np.uint64(0), x, r, joint)
    else:
        known = True
        for group in range((k + np.uint64(15)) // np.uint64(16)):
            g = np.uint64(group) * np.uint64(16)
            known = _sums_of_sixteen(rows, at, n_values, offset, n_classes, g, x, r, joint)
    if not known:
        times_partial_priors(rows[block], n_values, offset, n_classes, x, r, joint)
    least = math.inf
    most = -math.inf
    for c in range(k):
        if joint[0, c] > 0.0 and joint[2, c] < math.inf:
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
        p = joint[0, c] * (power(np.int64(below)) if below > -1023.0 else 0.0)
        joint[0, c] = p
        if p > most:
            most = p
            best = np.int64(c)
    return best


@kernel(inline=True)
def score_two(cached, n_values, offset, x, r, joint):
    """`score` for two classes, the same bits: without the arrays it takes half the time.

    Called by the loop over the program, not by `score`: with both in one function it takes 73 ns.
    """
    one = np.uint64(1)
    two = np.uint64(2)
    three = np.uint64(3)
    p0 = p1 = 1.0
    s0 = s1 = 0.0
    n0 = n1 = np.int64(0)
    known = True
    n_factors = np.int64(0)
    for f in range(len(n_values)):
        value = x[r, f]
        i = offset[f]
        if n_values[f] > 0:
            if value >= 0.0 and value < n_values[f]:
                j = i + np.uint64(value) * two + two
                p0 *= cached[j]
                p1 *= cached[j + one]
                n_factors += np.int64(1)
                if n_factors & TOGETHER == 0:
                    n0 += exponent(p0)
                    n1 += exponent(p1)
                    p0 = mantissa(p0)
                    p1 = mantissa(p1)
            else:
                known = False
        elif value - value == 0.0:
            a = cached[i + two]
            b = cached[i + three]
            near = value - cached[i]
            far = value - cached[i + one]
            if min(a, b) > 0.0:
                s0 += a * near * near
                s1 += b * far * far
            else:
                s0 += distance(value, cached[i], a)
                s1 += distance(value, cached[i + one], b)
        else:
            known = False
    m0 = mantissa(p0)
    m1 = mantissa(p1)
    n0 += exponent(p0)
    n1 += exponent(p1)
    if known:
        m0 *= cached[0]
        m1 *= cached[1]
        n0 += np.int64(cached[2])
        n1 += np.int64(cached[3])
    else:
        joint[0, 0] = m0
        joint[0, 1] = m1
        joint[1, 0] = np.float64(n0)
        joint[1, 1] = np.float64(n1)
        times_partial_priors(cached, n_values, offset, 2, x, r, joint)
        m0 = joint[0, 0]
        m1 = joint[0, 1]
        n0 = np.int64(joint[1, 0])
        n1 = np.int64(joint[1, 1])
    joint[0, 0] = 0.0
    joint[0, 1] = 0.0
    if not (m1 > 0.0 and s1 < math.inf):
        joint[0, 0] = m0 if s0 < math.inf else 0.0
        return 0 if joint[0, 0] > 0.0 else -1
    if not (m0 > 0.0 and s0 < math.inf):
        joint[0, 1] = m1
        return 1
    part, n = exp_parts(-abs(s1 - s0))
    nearer = s0 < s1
    m0 *= 1.0 if nearer else part
    m1 *= part if nearer else 1.0
    n0 += np.int64(0) if nearer else n
    n1 += n if nearer else np.int64(0)
    top = max(n0, n1)
    m0 *= power(max(n0 - top, np.int64(-1023)))
    m1 *= power(max(n1 - top, np.int64(-1023)))
    joint[0, 0] = m0
    joint[0, 1] = m1
    return 1 if m1 > m0 else 0
