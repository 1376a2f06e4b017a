"""Floats as the shortest JSON text that reads back to the same bits, without Python: to the byte what msgspec writes.

The digits are found as in Giulietti 2020, The Schubfach way to render doubles: of the decimals of a length that lie
between a number's neighbours, the shortest length that has one decides, and of several the nearest.
"""

import numpy as np

from models.kernel import kernel
from topics.formats.json_number import product

LONGEST = 26  # bytes of a number
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
_ZERO, _ONE, _TWO, _FOUR, _TEN, _FORTY = (np.uint64(n) for n in (0, 1, 2, 4, 10, 40))
_DIGIT = np.uint64(48)


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
def whole(out, at, number):  # type: ignore[no-untyped-def]
    """Write the digits of a number at a place; the place behind them. number, at : uint64."""
    n, left = _ONE, number
    while left >= _TEN:
        left //= _TEN
        n += _ONE
    place = at + n
    while place > at:
        place -= _ONE
        out[place] = np.uint8(_DIGIT + number % _TEN)
        number //= _TEN
    return at + n


@kernel
def real(out, at, bits):  # type: ignore[no-untyped-def]
    """Write a float at a place; the place behind it. bits : uint64 of the float; null where it is not finite."""
    if (bits >> np.uint64(52)) & np.uint64(2047) == np.uint64(2047):
        for i, letter in enumerate((110, 117, 108, 108)):
            out[at + np.uint64(i)] = letter
        return at + _FOUR
    if bits >> np.uint64(63) == _ONE:
        out[at] = 45
        at += _ONE
    if bits << _ONE == _ZERO:
        out[at], out[at + _ONE], out[at + _TWO] = 48, 46, 48
        return at + np.uint64(3)
    digits, power = shortest(bits)
    while digits % _TEN == _ZERO:
        digits //= _TEN
        power += 1
    # The digits first, one place further on; then those before the point move to the left of it.
    end = whole(out, at + _ONE, digits)
    n = np.int64(end - at) - 1
    exponent = power + n - 1  # of the first digit
    if 0 <= exponent <= 15:
        ahead = min(n, exponent + 1)
        for i in range(ahead):
            out[at + np.uint64(i)] = out[at + np.uint64(i + 1)]
        for i in range(ahead, exponent + 1):
            out[at + np.uint64(i)] = 48
        at += np.uint64(exponent + 1)
        out[at] = 46
        if n > exponent + 1:
            return end
        out[at + _ONE] = 48
        return at + _TWO
    if -5 <= exponent < 0:
        moved = np.uint64(-exponent)  # 0, point and further zeros, of which one place is there
        for i in range(n):
            out[end + moved - np.uint64(i + 1)] = out[end - np.uint64(i + 1)]
        out[at], out[at + _ONE] = 48, 46
        for i in range(2, 1 - exponent):
            out[at + np.uint64(i)] = 48
        return end + moved
    out[at] = out[at + _ONE]
    if n > 1:
        out[at + _ONE] = 46
        at = end
    else:
        at += _ONE
    out[at] = 101
    at += _ONE
    if exponent < 0:
        out[at] = 45
        at += _ONE
    return whole(out, at, np.uint64(abs(exponent)))
