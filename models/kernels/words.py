"""Eight bytes at a time, in kernels: what one instruction does with them, or a few.

Kernels see bytes also as `words`, the number that begins at each of them (an array of unaligned
numbers with a stride of one), with bytes to spare behind the last. The first byte is the lowest of its word.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from riparian.models.kernels.kernel import kernel

SPARE = 16  # bytes behind what is read or written


def in_all(byte: int) -> np.uint64:
    """A word of equal bytes."""
    return np.uint64(byte * 0x0101010101010101)


_64, _128 = ir.IntType(64), ir.IntType(128)
_EIGHT, _10, _16, _20, _32 = (np.uint64(n) for n in (8, 10, 16, 20, 32))
_TEN, _HUNDRED, _10_000 = np.uint64(10), np.uint64(100), np.uint64(10_000)
_OF_FOUR, _OF_TWO = np.uint64(0x7F0000007F), np.uint64(0x000F000F000F000F)
_HUNDREDTH, _TENTH = np.uint64(10486), np.uint64(103)  # of 2**20 and 2**10, rounded up


@intrinsic  # type: ignore[untyped-decorator]
def product(_context: Any, a: Any, b: Any) -> Any:
    """The high and the low 64 bits of a product of uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = [builder.zext(one, _128) for one in arguments]
        found = builder.mul(*wide)
        halves = [builder.trunc(one, _64) for one in (builder.lshr(found, ir.Constant(_128, 64)), found)]
        return context.make_tuple(builder, signature.return_type, halves)

    return UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


def _zeros(where: str) -> Any:
    """Counts the bits that are 0 at one end of a number; 64 of 0."""

    @intrinsic  # type: ignore[untyped-decorator]
    def zeros(_context: Any, number: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            return getattr(builder, where)(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    return zeros


zeros_below, zeros_above = _zeros("cttz"), _zeros("ctlz")


_ONES, _TOPS, _DIGITS, _TO_TOP = in_all(1), in_all(0x80), in_all(48), in_all(0x80 - 10)
# Neighbours together, three times: to numbers of two digits, of four, of eight.
_PAIRS, _FOURS, _EIGHTS = np.uint64(2561), np.uint64(6553601), np.uint64(42949672960001)
_OF_PAIR, _OF_FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_FOUR, _THREE = np.uint64(4), np.uint64(3)


@kernel(inline=True)
def same_bytes(word, bytes_):  # type: ignore[no-untyped-def]
    """Not 0 where a byte of a word is that of the other one, whose bytes are equal. The lowest bit that is set is the
    top of the first such byte."""
    word ^= bytes_
    return (word - _ONES) & ~word & _TOPS


@kernel(inline=True)
def lower_bytes(word, bytes_):  # type: ignore[no-untyped-def]
    """Likewise where a byte is lower than that of the other one, of at most 128."""
    return (word - bytes_) & ~word & _TOPS


@kernel(inline=True)
def digits_of(word):  # type: ignore[no-untyped-def]
    """How many bytes at the beginning of a word are digits, and their number."""
    word ^= _DIGITS
    n = min(zeros_below((word | (word + _TO_TOP)) & _TOPS) >> _THREE, _EIGHT)
    half = (_EIGHT - n) * _FOUR  # in two steps: one of 64 bits would be none
    word = word << half << half
    word = word * _PAIRS >> _EIGHT
    word = (word & _OF_PAIR) * _FOURS >> _16
    return n, (word & _OF_FOURS) * _EIGHTS >> _32


@kernel(inline=True)
def eight_digits(number):  # type: ignore[no-untyped-def]
    """The digits of a number below 10**8 with zeros before it, each in a byte."""
    # Four digits and four, then pairs, then single ones: each in the lower part of what it came from.
    high = number // _10_000
    word = high | (number - high * _10_000) << _32
    high = word * _HUNDREDTH >> _20 & _OF_FOUR
    word = high | (word - high * _HUNDRED) << _16
    high = word * _TENTH >> _10 & _OF_TWO
    return high | (word - high * _TEN) << _EIGHT


@kernel(inline=True)
def copied(out, at, words, start, length):  # type: ignore[no-untyped-def]
    """Copy bytes to the words `out`, and up to seven behind them; the place behind those that were meant."""
    n = np.uint64(0)
    while n < length:
        out[at + n] = words[start + n]
        n += _EIGHT
    return at + length
