"""Floats as the shortest JSON text that reads back to the same bits, without Python: to the byte what msgspec writes.

The digits are found as in Giulietti 2020, The Schubfach way to render doubles: of the decimals of a length that lie
between a number's neighbours, the shortest length that has one decides, and of several the nearest.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import eight_digits, product, zeros_above, zeros_below

LONGEST = 32  # bytes of a number, with those behind it that are written, too
_SMALLEST, _LARGEST = -292, 324  # powers of ten that scale a double


def _power_of_ten(k: int) -> int:
    """The first 128 bits of 10**k, rounded up."""
    if k >= 0:
        power: int = 10**k
        shift = power.bit_length() - 128
        return -(-power >> shift) if shift > 0 else power << -shift
    power = 10**-k
    return -(-(1 << (127 + power.bit_length())) // power) if k else 1 << 127


_TENS = np.array(
    [[power >> 64, power & (2**64 - 1)] for power in map(_power_of_ten, range(_SMALLEST, _LARGEST + 1))], np.uint64
)
_HIDDEN, _FRACTION = np.uint64(1 << 52), np.uint64((1 << 52) - 1)
_ZERO, _ONE, _TWO, _THREE, _FOUR, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 2, 3, 4, 7, 8))
_NINE, _TEN, _FORTY = np.uint64(9), np.uint64(10), np.uint64(40)
_POWERS = np.array([10**i for i in range(19)], np.uint64)
_8_DIGITS = np.uint64(10**8)
_DIGIT, _DIGITS = np.uint64(48), np.uint64(0x3030303030303030)
_NOUGHT, _NULL = (np.uint64(int.from_bytes(text, "little")) for text in (b"0.000000", b"null"))


@kernel(inline=True)
def _scaled(high, low, c):  # type: ignore[no-untyped-def]
    """The high 64 bits of a product of 192 bits, odd where those below are not all 0 but for the first."""
    over, _ = product(low, c)
    top, rest = product(high, c)
    rest += over
    if rest < over:
        top += _ONE
    return top | np.uint64(rest > _ONE)


@kernel
def shortest(bits):  # type: ignore[no-untyped-def]
    """The digits of a finite number that is not 0, and the power of ten that they are times. bits : uint64, its sign
    does not count."""
    fraction, power = bits & _FRACTION, np.int64((bits >> np.uint64(52)) & np.uint64(2047))
    if power != 0:
        c, q = fraction | _HIDDEN, power - 1075
        if -52 <= q <= 0 and c & ((_ONE << np.uint64(-q)) - _ONE) == _ZERO:
            return c >> np.uint64(-q), np.int64(0)
    else:
        c, q = fraction, np.int64(-1074)
    odd = c & _ONE
    nearer = np.uint64(fraction == _ZERO and power > 1)  # the neighbour below
    k = (q * 1262611 - (524031 if nearer else 0)) >> 22
    shift = np.uint64(q + ((-k * 1741647) >> 19) + 1)
    high, low = _TENS[-k - _SMALLEST, 0], _TENS[-k - _SMALLEST, 1]
    lower = _scaled(high, low, (_FOUR * c - _TWO + nearer) << shift) + odd
    at = _scaled(high, low, (_FOUR * c) << shift)
    upper = _scaled(high, low, (_FOUR * c + _TWO) << shift) - odd
    s = at // _FOUR
    if s >= _TEN:
        tenth = s // _TEN
        below, above = lower <= _FORTY * tenth, _FORTY * tenth + _FORTY <= upper
        if below != above:
            return tenth + np.uint64(above), k + 1
    below, above = lower <= _FOUR * s, _FOUR * s + _FOUR <= upper
    if below != above:
        return s + np.uint64(above), k
    middle = _FOUR * s + _TWO
    return s + np.uint64(at > middle or (at == middle and s & _ONE == _ONE)), k


@kernel(inline=True)
def whole(words, at, number):  # type: ignore[no-untyped-def]
    """Write the digits of a number at a place; the place behind them. number, at : uint64."""
    if number < _8_DIGITS:
        return _first(words, at, number)
    high = number // _8_DIGITS
    if high < _8_DIGITS:
        at = _first(words, at, high)
    else:
        at = _first(words, at, high // _8_DIGITS)
        words[at] = eight_digits(high % _8_DIGITS) | _DIGITS
        at += _EIGHT
    words[at] = eight_digits(number - high * _8_DIGITS) | _DIGITS
    return at + _EIGHT


@kernel(inline=True)
def _first(words, at, number):  # type: ignore[no-untyped-def]
    """Write a number below 10**8, without zeros before it."""
    digits = eight_digits(number)
    missing = zeros_below(digits | _ONE << np.uint64(56)) & ~_SEVEN  # bits before the first digit
    words[at] = (digits | _DIGITS) >> missing
    return at + _EIGHT - (missing >> _THREE)


@kernel
def real(out, words, at, bits):  # type: ignore[no-untyped-def]
    """Write a float at a place; the place behind it.

    Parameters
    ----------
    out, words : the same memory, as bytes and as words, with room for LONGEST bytes more
    bits : uint64 of the float; null where it is not finite
    """
    if (bits >> np.uint64(52)) & np.uint64(2047) == np.uint64(2047):
        words[at] = _NULL
        return at + _FOUR
    if bits >> np.uint64(63) == _ONE:
        out[at] = 45
        at += _ONE
    if bits << _ONE == _ZERO:
        words[at] = _NOUGHT  # 0.0
        return at + _THREE
    digits, power = shortest(bits)
    # With zeros behind, so that there are 17 digits: one, eight, eight. How many of them there were, by bits
    n = (np.uint64(64) - zeros_above(digits)) * np.uint64(1233) >> np.uint64(12)
    n += np.uint64(digits >= _POWERS[n])
    exponent = power + np.int64(n) - 1  # of the first digit
    digits *= _POWERS[np.uint64(17) - n]
    high = digits // _8_DIGITS
    first = high // _8_DIGITS
    middle, last = eight_digits(high - first * _8_DIGITS), eight_digits(digits - high * _8_DIGITS)
    if last != _ZERO:
        n = np.uint64(17) - (zeros_above(last) >> _THREE)
    elif middle != _ZERO:
        n = np.uint64(9) - (zeros_above(middle) >> _THREE)
    else:
        n = _ONE
    middle, last = middle | _DIGITS, last | _DIGITS
    if -5 <= exponent < 0:
        words[at] = _NOUGHT
        at += np.uint64(1 - exponent)
        out[at] = np.uint8(_DIGIT + first)
        words[at + _ONE], words[at + _NINE] = middle, last
        return at + n
    # All digits one place further on; then those before the point move to the left of it.
    out[at] = out[at + _ONE] = np.uint8(_DIGIT + first)
    words[at + _TWO], words[at + _TEN] = middle, last
    if 0 <= exponent <= 15:
        ahead = np.uint64(exponent + 1)
        for i in range(_ONE, ahead):
            out[at + i] = out[at + i + _ONE]
        out[at + ahead] = 46
        if n > ahead:
            return at + n + _ONE
        out[at + ahead + _ONE] = 48
        return at + ahead + _TWO
    if n > _ONE:
        out[at + _ONE] = 46
        at += n
    at += _ONE
    out[at] = 101
    at += _ONE
    if exponent < 0:
        out[at] = 45
        at += _ONE
    return whole(words, at, np.uint64(abs(exponent)))
