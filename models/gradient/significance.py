"""The test that decides whether a tree changes: is the mean change of the loss other than 0?

Section 3.3 of the paper tests the mean L of n changes with Student's t (equation 16). The square of t is an
F(1, n - 1) statistic, and its p value is a regularised incomplete beta function: one kernel, a continued fraction
(modified Lentz; NIST Digital Library of Mathematical Functions, 8.17.22). No table, no normal approximation: leaves are
tested after a few dozen instances.
"""

import math

from riparian.models.kernels.elementary import exp, lgamma, log, log1p
from riparian.models.kernels.kernel import kernel

LOG_SQRT_PI = 0.5723649429247001
MOST_TERMS = 10_000
TINY = 1e-300
CLOSE = 1e-15


@kernel
def _fraction(a, b, x):
    """The continued fraction of the incomplete beta function. O(sqrt(max(a, b))) terms at worst."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
    if abs(d) < TINY:
        d = TINY
    d = 1.0 / d
    result = d
    for m in range(1, MOST_TERMS):
        even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        d = 1.0 + even * d
        c = 1.0 + even / c
        if abs(d) < TINY:
            d = TINY
        if abs(c) < TINY:
            c = TINY
        d = 1.0 / d
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        d = 1.0 + odd * d
        c = 1.0 + odd / c
        if abs(d) < TINY:
            d = TINY
        if abs(c) < TINY:
            c = TINY
        d = 1.0 / d
        factor = d * c
        result *= factor
        if abs(factor - 1.0) < CLOSE:
            break
    return result


@kernel
def p_value(f, freedom):
    """Probability that an F(1, `freedom`) variable is at least `f`: two-sided p of a t of square f.

    f : >= 0, may be infinite. freedom : > 0, need not be whole (weights). Relative error about 1e-12 up to 1e4 degrees
    of freedom.
    """
    if not f > 0.0:
        return 1.0
    if f == math.inf:
        return 0.0
    a = 0.5 * freedom
    # I_x(a, 1/2) with x = freedom / (freedom + f); 1 - x is kept apart, since x may round to 1.
    rest = f / (freedom + f)
    x = freedom / (freedom + f)
    log_front = lgamma(a + 0.5) - lgamma(a) - LOG_SQRT_PI - a * log1p(f / freedom) + 0.5 * log(rest)
    if x < (a + 1.0) / (a + 2.5):
        return exp(log_front) * _fraction(a, 0.5, x) / a
    return 1.0 - 2.0 * exp(log_front) * _fraction(0.5, a, rest)
