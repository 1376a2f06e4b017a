"""Exponential, logarithm, power and what is built of them: the same bits on every processor and with every C library.

Those of C and of NumPy are chosen by what the processor can do, and give other last bits with fused multiply-add than
without. Here are float64 sums, products and divisions alone, which IEEE 754 rounds in one way, and whole numbers.

exp and log go by tables (Tang, ACM TOMS 15, 1989, and 16, 1990): with x = m ln(2) / 64 + r, exp(x) = 2^(m / 64) exp(r);
with x = 2^k z, log(x) = k ln(2) - log(c) + log(1 + r), r = z c - 1, where c has so few bits that r is exact. A power is
the exponential of a logarithm that is kept as two numbers (Dekker, Numer. Math. 18, 1971). erf is a Taylor polynomial
about the nearest sixteenth, lgamma Stirling's series. Entries of tables have what their rounding left beside them; they
are made of whole numbers, when this module is imported.

- `exp`, `log`, `log1p`, `expm1`, `power`, `erf`, `lgamma`: of a number, for kernels; from Python each takes its
  time to load. NaN, infinities and zeros are as in C, but a negative number has no power (NaN), and `lgamma` is that of
  positive numbers. They are wrong by less than 0.8 units in the last place, expm1 by less than 1.1, lgamma by less
  than 3 from 13 on and by less than 1e-14 below.
- `exps`, `logs`: of a number or an array, outside of kernels; the same bits.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.kernels.kernel import kernel

Floats = NDArray[np.float64]

# tables: whole numbers, in units of 2^-BITS --------------------------------------------------------------------------

BITS = 128
ONE = 1 << BITS


def _parts(value: int, bits: int | None = None) -> tuple[float, float]:
    """A number rounded to float64, or to a multiple of 2^-bits, and what is left of it."""
    high = value / ONE if bits is None else math.ldexp((value + (ONE >> bits + 1)) >> (BITS - bits), -bits)
    return high, (value - int(math.ldexp(high, BITS))) / ONE


def _arc_tangent(n: int, sign: int) -> int:
    """arctan(1 / n); of sign 1, artanh(1 / n)."""
    total, power, i = 0, ONE // n, 1
    while power:
        total, power, i = total + power // i, sign * (power // (n * n)), i + 2
    return total


LN_2_WHOLE = 2 * _arc_tangent(3, 1)
PI_WHOLE = 4 * (4 * _arc_tangent(5, -1) - _arc_tangent(239, -1))


def _powers() -> Floats:
    """2^(j / 64) for j < 64, in two parts."""
    found, root = [ONE], 2 * ONE
    for _ in range(6):
        root = math.isqrt(root << BITS)
        found = [power * factor >> BITS for power in found for factor in (ONE, root)]
    return np.array([_parts(power) for power in sorted(found)])


def _logs() -> Floats:
    """For each of 256 parts of [0.6875, 1.375), parted as float64 are: c, and -log(c) in two parts."""
    inverses = [2 * round(256 / (0.6875 + (j + 0.5) / 512)) for j in range(160)]  # in 512ths: 8 bits, or 9
    inverses += [512, *(round(512 / (1.0 + (j + 0.5) / 256)) for j in range(1, 96))]  # of what begins with 1: 1
    logs = {512: 0}
    for n in range(512, max(inverses)):
        logs[n + 1] = logs[n] - 2 * _arc_tangent(2 * n + 1, 1)
    for n in range(511, min(inverses) - 1, -1):
        logs[n] = logs[n + 1] + 2 * _arc_tangent(2 * n + 1, 1)
    return np.array([(n / 512, *_parts(logs[n], 42)) for n in inverses])


def _error_function() -> Floats:
    """For each j / 16 up to 6: erf in two parts, the coefficient of h in its Taylor series less 1, and
    those of h^2, ..., h^9."""
    rows, area, height = [], 0, ONE  # of exp(-t^2) from 0 to j / 16, and at j / 16
    scale = (2 * ONE << BITS) // math.isqrt(PI_WHOLE << BITS)
    for j in range(97):
        terms = [height, -j * height >> 3]  # of the series of exp(-t^2): y' = -2 t y
        while len(terms) < 18:
            terms.append(-((j * terms[-1] >> 3) + 2 * terms[-2]) // len(terms))
        slopes = [(term * scale >> BITS) / (n + 1) / ONE for n, term in enumerate(terms[:9])]
        rows.append([*_parts(area * scale >> BITS), ((height * scale >> BITS) - ONE) / ONE, *slopes[1:]])
        area += sum((term >> 4 * (n + 1)) // (n + 1) for n, term in enumerate(terms))
        height = sum(term >> 4 * n for n, term in enumerate(terms))
    return np.array(rows)


STEPS = 64
POWER_HIGH, POWER_LOW = (column.copy() for column in _powers().T)
INVERSE, LOG_HIGH, LOG_LOW = (column.copy() for column in _logs().T)
ERRORS = _error_function()
LN_2 = LN_2_WHOLE / ONE
LN_2_HIGH, LN_2_LOW = _parts(LN_2_WHOLE, 42)  # times an exponent, plus an entry of LOG_HIGH, the first is exact
STEP_HIGH, STEP_LOW = _parts(LN_2_WHOLE // STEPS, 38)  # times a count of steps, the first is exact
STEPS_AN_E = STEPS * ONE / LN_2_WHOLE
LOG_ROOT_2_PI = 0.9189385332046727

SHIFT = 6755399441055744.0  # 1.5 2^52: a number plus it is rounded to a whole, which stands in its last bits
SHIFT_BITS = np.int64(0x4338000000000000)
FIRST = np.int64(0x3FE6000000000000)  # 0.6875
EXPONENT = np.int64(-1 << 52)
UPPER = np.int64(-1 << 27)  # the bits of a number's upper half
LEAST_NORMAL = 2.0**-1022
MADE_NORMAL = 54  # the exponent by which a subnormal number becomes a normal one
WITHIN = 708.0  # argument up to which its exponential and that of its negative are normal numbers
LEAST_EXP, LARGEST_EXP = -746.0, 710.0  # it is 0, and infinite
FAR = 60.0  # one more or less changes no bit
LARGE = 2.0**60
BEYOND_ERF = 6.0  # it is 1

# what they are made of: in kernels of a number, outside of an array ---------------------------------------------------


@kernel(inline=True)
def _exp_parts(x, low):
    """exp(x + low) as a number in [0.99, 2) and an exponent of 2; abs(x) < 1,000, low is tiny."""
    shifted = x * STEPS_AN_E + SHIFT
    k = np.float64(shifted).view(np.int64) - SHIFT_BITS
    steps = shifted - SHIFT
    r = ((x - steps * STEP_HIGH) - steps * STEP_LOW) + low
    square = r * r
    rest = r + square * ((0.5 + r * (1.0 / 6.0)) + square * ((1.0 / 24.0 + r * (1.0 / 120.0)) + square * (1.0 / 720.0)))
    j = np.uint64(k & np.int64(STEPS - 1))
    high = POWER_HIGH[j]
    return high + (POWER_LOW[j] + high * rest), k >> np.int64(6)


@kernel(inline=True)
def two_to(n):
    """2^n, for n in -1022 .. 1023; 0 for -1023."""
    return np.int64((n + np.int64(1023)) << np.int64(52)).view(np.float64)


@kernel(inline=True)
def _log_parts(x, exponent):
    """Of x 2^exponent, for a normal x above 0: r, -log(c) + k log(2) as an exact number and a small one, c / 2^k."""
    bits = np.float64(x).view(np.int64)
    beyond = bits - FIRST
    row = np.uint64((beyond >> np.int64(44)) & np.int64(255))
    z_bits = bits - (beyond & EXPONENT)
    z = np.int64(z_bits).view(np.float64)
    upper = np.int64(z_bits & UPPER).view(np.float64)
    c = INVERSE[row]
    r = (upper * c - 1.0) + (z - upper) * c
    k = np.float64((beyond >> np.int64(52)) + exponent)
    factor = c * np.int64((np.int64(1023) - (beyond >> np.int64(52))) << np.int64(52)).view(np.float64)
    return r, k * LN_2_HIGH + LOG_HIGH[row], k * LN_2_LOW + LOG_LOW[row], factor


@kernel(inline=True)
def _log_of_parts(r, whole, low):
    """whole + log(1 + r) + low."""
    square = r * r
    rest = square * (
        (r * (1.0 / 3.0) - 0.5) + square * ((r * (1.0 / 5.0) - 0.25) + square * (r * (1.0 / 7.0) - 1.0 / 6.0))
    )
    high = whole + r
    return high + (((whole - high) + r) + (low + rest))


# of a number, for kernels --------------------------------------------------------------------------------------------


@kernel
def _exp_far(x, low):
    """exp(x + low) where it is no normal number, or not far from it."""
    if x != x:
        return x
    if x > LARGEST_EXP:
        return math.inf
    if x < LEAST_EXP:
        return 0.0
    y, n = _exp_parts(x, low)
    return y * two_to(n >> np.int64(1)) * two_to(n - (n >> np.int64(1)))


@kernel(inline=True)
def exp(x):
    """e^x."""
    if not abs(x) < WITHIN:
        return _exp_far(x, 0.0)
    y, n = _exp_parts(x, -0.0)
    return y * two_to(n)


@kernel
def _log_far(x):
    """log(x) where x is no normal number above 0."""
    if x == 0.0:
        return -math.inf
    if not x < math.inf:
        return x
    if x < 0.0:
        return math.nan
    r, whole, low, _ = _log_parts(x * 2.0**MADE_NORMAL, -MADE_NORMAL)
    return _log_of_parts(r, whole, low)


@kernel(inline=True)
def log(x):
    """The natural logarithm."""
    if not (x >= LEAST_NORMAL and x < math.inf):
        return _log_far(x)
    r, whole, low, _ = _log_parts(x, 0)
    return _log_of_parts(r, whole, low)


@kernel
def log1p(x):
    """log(1 + x)."""
    if not (x > -1.0 and x < LARGE):
        return log(x) if x >= LARGE else (-math.inf if x == -1.0 else math.nan)
    if x == 0.0:
        return x
    above = 1.0 + x
    below = 1.0 - (above - x) if x > 1.0 else x - (above - 1.0)  # 1 + x is the sum of both
    r, whole, low, factor = _log_parts(above, 0)
    more = below * factor
    together = r + more
    return _log_of_parts(together, whole, low + ((r - together) + more))


@kernel
def expm1(x):
    """e^x - 1."""
    if not abs(x) < FAR:
        return exp(x) if not x < 0.0 else -1.0
    if x == 0.0:
        return x
    shifted = x * STEPS_AN_E + SHIFT
    k = np.float64(shifted).view(np.int64) - SHIFT_BITS
    steps = shifted - SHIFT
    near = x - steps * STEP_HIGH
    r = near - steps * STEP_LOW
    square = r * r
    rest = square * ((0.5 + r * (1.0 / 6.0)) + square * ((1.0 / 24.0 + r * (1.0 / 120.0)) + square * (1.0 / 720.0)))
    rest += (near - r) - steps * STEP_LOW
    j = np.uint64(k & np.int64(STEPS - 1))
    scale = two_to(k >> np.int64(6))
    high = scale * POWER_HIGH[j]
    whole = high - 1.0
    left = (high - (whole + 1.0)) if high < 1.0 else (high - whole) - 1.0
    part = high * r
    together = whole + part
    return together + (((whole - together) + part) + (left + (scale * POWER_LOW[j] + high * rest)))


@kernel(inline=True)
def _upper(x):
    """The first 26 bits of a number: the product of two such is exact."""
    return np.int64(np.float64(x).view(np.int64) & UPPER).view(np.float64)


@kernel(inline=True)
def _power_parts(x, y, exponent):
    """log(x 2^exponent) y, for a normal x above 0, as a number and a small one."""
    r, whole, low, _ = _log_parts(x, exponent)
    # log(x) = high + low: whole + r - r^2 / 2 by exact sums and products, and the rest.
    upper = _upper(r)
    half = 0.5 * upper * upper
    square = r * r
    rest = (
        r
        * square
        * (
            ((1.0 / 3.0 - r * 0.25) + square * (1.0 / 5.0 - r * (1.0 / 6.0)))
            + square * square * ((1.0 / 7.0 - r * 0.125) + square * (1.0 / 9.0 - r * 0.1))
        )
    )
    first = whole + r
    second = first - half
    low += (((whole - first) + r) + ((first - second) - half)) + (rest - 0.5 * (r - upper) * (r + upper))
    high = second + low
    low += second - high
    product = y * high
    y_upper, upper = _upper(y), _upper(high)
    y_lower, lower = y - y_upper, high - upper
    return product, ((y_upper * upper - product) + (y_upper * lower + y_lower * upper)) + (y_lower * lower + y * low)


@kernel
def _power_far(x, y):
    """x^y where one of both, or the result, is 0, infinite or no number, or not far from it."""
    if y == 0.0 or x == 1.0:
        return 1.0
    if x != x or y != y or x < 0.0:
        return math.nan
    product, low = math.inf if (x > 1.0) == (y > 0.0) else -math.inf, 0.0
    if LEAST_NORMAL <= x < math.inf:
        product, low = _power_parts(x, y, 0)
    elif 0.0 < x < math.inf:
        product, low = _power_parts(x * 2.0**MADE_NORMAL, y, -MADE_NORMAL)
    return _exp_far(product, low)


@kernel(inline=True)
def power(x, y):
    """x^y, for x >= 0."""
    if LEAST_NORMAL <= x < math.inf:
        product, low = _power_parts(x, y, 0)
        if abs(product) < WITHIN:
            found, n = _exp_parts(product, low)
            return found * two_to(n)
    return _power_far(x, y)


@kernel
def erf(x):
    """The error function."""
    far = abs(x)
    if not far < BEYOND_ERF:
        return x if x != x else math.copysign(1.0, x)
    j = np.uint64(far * 16.0 + 0.5)
    h = far - np.float64(j) * 0.0625
    slope = ERRORS[j, 10]
    for i in range(9, 1, -1):
        slope = ERRORS[j, i] + h * slope
    near = ERRORS[j, 0]
    together = near + h
    return math.copysign(together + (((near - together) + h) + (ERRORS[j, 1] + h * slope)), x)


@kernel
def lgamma(x):
    """The logarithm of the gamma function, for x > 0."""
    if not (x > 0.0 and x < math.inf):
        return x if x == math.inf else math.nan
    below = 1.0
    while x < 13.0:
        below *= x
        x += 1.0
    inverse = 1.0 / x
    s = inverse * inverse
    rest = 1.0 / 12.0 - s * (
        1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s * (1.0 / 1188.0 - s * (691.0 / 360360.0))))
    )
    found = (x - 0.5) * (log(x) - 1.0) + (LOG_ROOT_2_PI - 0.5 + rest * inverse)
    return found if below == 1.0 else found - log(below)


# of arrays, outside of kernels ---------------------------------------------------------------------------------------


def _python(function: Any) -> Any:
    """What a kernel is made of."""
    return getattr(function, "py_func", function)


def exps(x: Any) -> Any:
    """e^x of a number or of each of an array."""
    given = np.asarray(x, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        y, n = _python(_exp_parts)(np.clip(np.nan_to_num(given), LEAST_EXP, LARGEST_EXP), -0.0)
        half = n >> np.int64(1)
        found = y * _python(two_to)(half) * _python(two_to)(n - half)
    return np.where(np.isnan(given), given, found)[()]


def logs(x: Any) -> Any:
    """The natural logarithm of a number or of each of an array."""
    given = np.asarray(x, np.float64)
    normal = (given >= LEAST_NORMAL) & (given < np.inf)
    small = (given > 0.0) & (given < LEAST_NORMAL)
    of = np.asarray(np.where(normal, given, 1.0))
    of[small] = given[small] * 2.0**MADE_NORMAL
    r, whole, low, _ = _python(_log_parts)(of, np.where(small, -MADE_NORMAL, 0))
    found = _python(_log_of_parts)(r, whole, low)
    special = np.where(given == 0.0, -np.inf, np.where(given < 0.0, np.nan, given))
    return np.where(normal | small, found, special)[()]
