"""Walks JSON records that are alike but for their values, and fills columns at once.

Records of a topic mostly come from one program, which writes the same fields in the same order, with the same spaces.
So what stands between the values of one record is expected in the others, byte for byte (`program`). The kernel is
speculation: it takes a record only where nothing about it is unusual, and leaves all others to the decoder of
`layout`, which is the truth about values and reasons. What the kernel takes, it takes with the bits that the
decoder would give. Each read is checked against the end of its record.

`block` imports this module, and with it numba, when the first block is read.
"""

import numpy as np

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.words import digits_of, in_all, lower_bytes, same_bytes, zeros_below
from riparian.topics.formats.common.cells import REALS, TEXTS, TRUTHS, WHOLES
from riparian.topics.formats.json.number import MOST_DIGITS, decimal

# What a line of a program does, with its values a, b and c, all of them unsigned.
(
    END,  # the record ends here
    SAME,  # a : bytes. b : where they begin in `words`. c : bits of the last word that count, as a mask
    NUMBER,  # a : column
    FLAG,  # a : column
    VALUE,  # a : slot. b : what is taken there, the sum of some of these
    SKIP,  # any scalar
    THERE,  # a : slot
) = range(7)
TEXT, WHOLE, REAL, TRUTH, NULL = 1, 2, 4, 8, 16

# What became of a record.
LEFT, TAKEN = range(2)

MOST_OF_A_WHOLE = 18  # digits that an int64 surely holds
# Places are unsigned: numba would check signed ones, which could count from the end. Mixed with these, signed numbers
# would become float64.
_ONE, _THREE, _FOUR, _EIGHT, _TEN = (np.uint64(n) for n in (1, 3, 4, 8, 10))
_ANYTHING = np.uint64(TEXT | WHOLE | REAL | TRUTH | NULL)
_TEXT, _WHOLE, _REAL, _TRUTH, _MISSING = (np.uint64(kind) for kind in (TEXT, WHOLE, REAL, TRUTH, NULL))
_TOO_LARGE = np.uint64(10**MOST_OF_A_WHOLE)
_NOTHING = np.uint64(0)
_ZERO, _NINE = np.uint64(48), np.uint64(9)
_POWERS = np.array([10**i for i in range(9)], np.uint64)
_SPACES, _QUOTES, _BACKSLASHES, _HIGH = in_all(32), in_all(34), in_all(92), in_all(0x80)
# true, null, and all of false but its first byte, as one number of four bytes
_TRUE, _NULL, _ALSE = (np.uint64(int.from_bytes(text, "little")) for text in (b"true", b"null", b"alse"))
_FOUR_BYTES = np.uint64(0xFFFFFFFF)


@kernel(inline=True)
def _digits(data, p, end, digits, n):  # type: ignore[no-untyped-def]
    """The digits from p on: where they end, the number that they continue, and how many it has from the first that is
    not 0."""
    while p < end:
        d = np.uint64(data[p]) - _ZERO  # below 0 it is very large
        if d > _NINE:
            break
        digits = digits * _TEN + d
        n += (n > 0) | (d != _NOTHING)
        p += _ONE
    return p, digits, n


@kernel(inline=True)
def _run(words, p, end, digits, n):  # type: ignore[no-untyped-def]
    """As `_digits`, eight bytes at a time; zeros before the first other digit may count, up to seven. Where digits go
    on behind the end, the place is behind it."""
    while p < end:
        found, more = digits_of(words[p])
        digits = digits * _POWERS[found] + more
        n += np.int64(found) * ((n > 0) | (more != _NOTHING))
        p += found
        if found < _EIGHT:
            break
    return p, digits, n


@kernel(inline=True)
def _number(data, words, p, end):  # type: ignore[no-untyped-def]
    """The number at p: whether it is one, and no unusual one; where it ends, its digits, the power of ten, and whether
    it has a sign, and whether it is whole."""
    start, power, minus = p, np.int64(0), False
    d = np.uint64(data[p]) - _ZERO  # below 0 it is very large
    if d > _NINE:
        minus = data[p] == 45
        p += _ONE
        d = np.uint64(data[p]) - _ZERO
    first, leading = p, d
    good = p < end and d <= _NINE and (minus or p == start)
    # Here a digit at a time, since where the number goes on is then foretold, as branches are, and not waited for.
    p, digits, n = _digits(data, p + _ONE, end, d, np.int64(d != _NOTHING))
    good = good and (leading != _NOTHING or p - first == _ONE)
    whole = True
    if data[p] == 46 and p < end:
        whole = False
        p += _ONE
        point = p
        p, digits, n = _run(words, p, end, digits, n)
        power = -np.int64(p - point)
        good = good and p > point and p <= end
    if (data[p] | 32) == 101 and p < end:
        whole = False
        p += _ONE
        down = data[p] == 45
        p += np.uint64((down or data[p] == 43) and p < end)
        point = p
        p, exponent, n_more = _digits(data, p, end, _NOTHING, 0)
        good = good and p > point and n_more < 5
        power += -np.int64(exponent) if down else np.int64(exponent)
    good = good and n <= MOST_DIGITS and p - start < np.uint64(400)
    return good, p, digits, power, minus, whole


@kernel
def walk(  # type: ignore[no-untyped-def]
    data, words, begins, ends, rows, program, wanted, numbers, kinds, wholes, reals, stops, beyond, found, bits, out
):  # fmt: skip
    """Fills the columns of the records that it takes.

    Parameters
    ----------
    data : uint8, the bytes of all records, and at least 16 more that are 0
    words : uint64, the number that begins at each of these bytes
    begins, ends : uint64, of each record in data
    rows : uint64, the records to walk
    program : (lines, 4) uint64
    wanted : uint64, the bytes that have to be the same, as numbers
    numbers : (n, columns) float64, filled in
    kinds, wholes, reals, stops, beyond : of `topics.formats.common.cells.Cells`, filled in
    found, bits : (1,) float64 and uint64 on the same memory
    out : (n,) uint8, filled in with what became of each record
    """
    for i in rows:
        p, end, pc = begins[i], ends[i], _NOTHING
        out[i] = LEFT
        while True:
            op, a, b, c = program[pc, 0], program[pc, 1], program[pc, 2], program[pc, 3]
            pc += _ONE
            if op == SAME:
                if end - p < a:
                    break
                stop, differs = p + a, _NOTHING
                while p + _EIGHT <= stop:
                    differs |= words[p] ^ wanted[b]
                    p += _EIGHT
                    b += _ONE
                differs |= (words[p] ^ wanted[b]) & c
                p = stop
                if differs != _NOTHING:
                    break
            elif op == NUMBER:
                if data[p] == 110:
                    if end - p < _FOUR or words[p] & _FOUR_BYTES != _NULL:
                        break
                    numbers[i, a] = np.nan
                    p += _FOUR
                    continue
                good, p, digits, power, minus, whole = _number(data, words, p, end)
                if not good or (minus and whole and digits == _NOTHING) or not decimal(digits, power, found, bits):
                    break
                numbers[i, a] = -found[0] if minus else found[0]
            elif op in (VALUE, SKIP):
                keeps = op == VALUE
                allowed = b if keeps else _ANYTHING
                first = data[p]
                if p >= end:
                    break
                if first == 34:
                    if allowed & _TEXT == _NOTHING:
                        break
                    p += _ONE
                    begin, high = p, _NOTHING
                    while p < end:
                        word = words[p]
                        odd = same_bytes(word, _QUOTES) | same_bytes(word, _BACKSLASHES) | lower_bytes(word, _SPACES)
                        if odd == _NOTHING:
                            high |= word
                            p += _EIGHT
                        else:
                            behind_it = odd & (_NOTHING - odd)  # the lowest of its bits: above it is something else
                            high |= word & (behind_it - _ONE)
                            p += zeros_below(odd) >> _THREE
                            break
                    if p >= end or data[p] != 34:
                        break
                    high &= _HIGH
                    if keeps:
                        if high != _NOTHING:
                            beyond[a] = 1
                        kinds[a, i], wholes[a, i], stops[a, i] = TEXTS, np.int64(begin), np.int64(p)
                    elif high != _NOTHING:
                        break
                    p += _ONE
                elif first == 116 or first == 102:
                    p += np.uint64(first == 102)
                    if allowed & _TRUTH == _NOTHING or end - p < _FOUR:
                        break
                    if words[p] & _FOUR_BYTES != (_TRUE if first == 116 else _ALSE):
                        break
                    if keeps:
                        kinds[a, i], wholes[a, i] = TRUTHS, np.int64(first == 116)
                    p += _FOUR
                elif first == 110:
                    if allowed & _MISSING == _NOTHING or end - p < _FOUR or words[p] & _FOUR_BYTES != _NULL:
                        break
                    p += _FOUR
                else:
                    good, p, digits, power, minus, whole = _number(data, words, p, end)
                    if not good or (minus and whole and digits == _NOTHING):
                        break
                    if whole and allowed & _WHOLE != _NOTHING:
                        if digits >= _TOO_LARGE:
                            break
                        if keeps:
                            kinds[a, i] = WHOLES
                            wholes[a, i] = -np.int64(digits) if minus else np.int64(digits)
                    elif allowed & _REAL != _NOTHING:
                        if not decimal(digits, power, found, bits):
                            break
                        if keeps:
                            kinds[a, i] = REALS
                            reals[a, i] = -found[0] if minus else found[0]
                    else:
                        break
            elif op == FLAG:
                first = data[p]
                p += np.uint64(first == 102 and p < end)
                if end - p < _FOUR:
                    break
                word = words[p] & _FOUR_BYTES
                if first == 116 and word == _TRUE:
                    numbers[i, a] = 1.0
                elif first == 102 and word == _ALSE:
                    numbers[i, a] = 0.0
                elif first != 110 or word != _NULL:
                    break
                p += _FOUR
            elif op == THERE:
                kinds[a, i], wholes[a, i] = TRUTHS, 1
            else:
                if p == end:
                    out[i] = TAKEN
                break
        if out[i] != TAKEN:  # another program may take it
            numbers[i] = np.nan
            kinds[:, i] = 0
