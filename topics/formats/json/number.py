"""Decimal numbers as the nearest float64, without Python: to the bit what `float` makes of the same text.

Up to 53 bits of digits and a power of ten up to 22 are exact, and so their product or quotient is rounded once (Clinger
1990). All others go by 128 bits of a power of five, whose product with the digits decides how to round (Lemire 2021,
Number Parsing at a Gigabyte per Second, algorithm 1). What is subnormal, infinite, or of more than 19 digits is left to
others.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import product, zeros_above

SMALLEST, LARGEST = -330, 308  # powers of ten
MOST_DIGITS = 19  # 64 bits hold them
_EXACT_POWER = 22
_EXACT = np.uint64(1 << 53)
_TENS = np.array([float(10**i) for i in range(_EXACT_POWER + 1)])


def _power_of_five(q: int) -> int:
    """The first 128 bits of 5**q, rounded down; of a fraction, rounded up."""
    if q >= 0:
        power: int = 5**q
        shift = power.bit_length() - 128
        return power >> shift if shift > 0 else power << -shift
    power = 5**-q
    n = power.bit_length()
    shift = n + 127 if q >= -27 else 2 * n + 128
    found: int = (1 << shift) // power + 1
    return found >> max(0, found.bit_length() - 128)


_FIVES = np.array(
    [[power >> 64, power & (2**64 - 1)] for power in map(_power_of_five, range(SMALLEST, LARGEST + 1))], np.uint64
)

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_UNSURE = np.uint64(0x1FF)  # the bits below those of a rounded number
_HIDDEN = np.uint64(1 << 52)
_SHIFT_OF_NUMBER = np.uint64(9)  # 64 - 52 - 3


@kernel
def _rounded(digits, power, bits):  # type: ignore[no-untyped-def]
    """Round a decimal of digits above 0 into bits; false where it is not sure."""
    if power < SMALLEST or power > LARGEST:
        return False
    zeros = zeros_above(digits)
    w = digits << zeros
    high, low = product(w, _FIVES[power - SMALLEST, 0])
    if high & _UNSURE == _UNSURE:
        more, _ = product(w, _FIVES[power - SMALLEST, 1])
        low += more
        if more > low:
            high += _ONE
    if low == _ALL and not -27 <= power <= 55:
        return False
    upper = high >> np.uint64(63)
    shift = upper + _SHIFT_OF_NUMBER
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - np.int64(zeros) + 1023
    if exponent <= 0:
        return False
    if low <= _ONE and -4 <= power <= 23 and mantissa & _THREE == _ONE and mantissa << shift == high:
        mantissa &= ~_ONE  # half way between two numbers: to the even one
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _TWO * _HIDDEN:
        mantissa = _HIDDEN
        exponent += 1
    if exponent >= 2047:
        return False
    bits[0] = (mantissa & ~_HIDDEN) | (np.uint64(exponent) << np.uint64(52))
    return True


@kernel(inline=True)
def decimal(digits, power, out, bits):  # type: ignore[no-untyped-def]
    """digits * 10**power, rounded to the nearest.

    Parameters
    ----------
    digits : uint64
    power : int64
    out, bits : (1,) float64 and uint64 on the same memory, filled in

    Returns
    -------
    bool : False where others have to tell.
    """
    if digits <= _EXACT and -_EXACT_POWER <= power <= _EXACT_POWER:
        if power < 0:
            out[0] = np.float64(digits) / _TENS[-power]
        else:
            out[0] = np.float64(digits) * _TENS[power]
        return True
    if digits == 0:
        out[0] = 0.0
        return True
    return _rounded(digits, power, bits)
