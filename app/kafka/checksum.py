"""CRC-32C, which record batches carry, by the processor's own instruction; the client's table where there is none.

The instruction takes eight bytes and three cycles, but begins one in every cycle. So three parts of the data go side by
side: their checksums are put together by what zeros behind them would make of each, which is linear (`_moved`).
"""

import platform
from typing import Any

import llvmlite.binding
import llvmlite.ir
import numba
import numpy as np
from aiokafka.record.util import calc_crc32c
from numba.core import cgutils, types
from numba.extending import intrinsic

from models.kernel import kernel
from topics.formats.cells import view

SMALL = 8192  # bytes up to which calling the kernel would be no gain
_PART = 8192  # bytes of each of three parts
_POLYNOMIAL = 0x82F63B78


def _is_there() -> bool:
    """Whether kernels are compiled for a processor that has the instruction."""
    here = platform.machine() in ("x86_64", "AMD64") and not (numba.config.CPU_NAME or numba.config.CPU_FEATURES)
    return bool(here and not numba.config.DISABLE_JIT and llvmlite.binding.get_host_cpu_features().get("sse4.2"))


BY_INSTRUCTION = _is_there()


def _applied(matrix: list[int], bits: int) -> int:
    found = 0
    for i, column in enumerate(matrix):
        found ^= column * (bits >> i & 1)
    return found


def _moved(n_bytes: int) -> Any:
    """(4, 256) uint64: by each of its bytes, what a checksum becomes behind so many zeros, a power of two."""
    matrix = [_POLYNOMIAL, *(1 << i for i in range(31))]  # of one bit
    for _ in range((8 * n_bytes).bit_length() - 1):
        matrix = [_applied(matrix, column) for column in matrix]
    return np.array([[_applied(matrix, value << 8 * i) for value in range(256)] for i in range(4)], np.uint64)


_BEHIND_ONE, _BEHIND_TWO = _moved(_PART), _moved(2 * _PART)
_BYTE, _8, _16, _24 = (np.uint64(n) for n in (255, 8, 16, 24))
_ONE, _EIGHT, _STEP = np.uint64(1), np.uint64(8), np.uint64(_PART)
_ALL = np.uint64(0xFFFFFFFF)


def _instruction(name: str, width: int, of: int) -> Any:
    """LLVM's name for it, for a checksum so many bits wide, and of so many bits of data."""

    @intrinsic  # type: ignore[untyped-decorator]
    def taken(_context: Any, checksum: Any, data: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            wide, own = llvmlite.ir.IntType(width), llvmlite.ir.IntType(of)
            function = cgutils.get_or_insert_function(
                builder.module, llvmlite.ir.FunctionType(wide, [wide, own]), f"llvm.x86.sse42.crc32.{name}"
            )
            state, more = arguments
            state = state if width == 64 else builder.trunc(state, wide)
            more = more if of == 64 else builder.trunc(more, own)
            found = builder.call(function, [state, more])
            return found if width == 64 else builder.zext(found, llvmlite.ir.IntType(64))

        return types.uint64(types.uint64, types.uint64), generate

    return taken


_eight_bytes, _one_byte = _instruction("64.64", 64, 64), _instruction("32.8", 32, 8)


@kernel(inline=True)
def _behind(table, state):  # type: ignore[no-untyped-def]
    return (
        table[0, state & _BYTE]
        ^ table[1, state >> _8 & _BYTE]
        ^ table[2, state >> _16 & _BYTE]
        ^ table[3, state >> _24 & _BYTE]
    )


@kernel
def _crc32c(data, words):  # type: ignore[no-untyped-def]
    """data : uint8. words : uint64, the number that begins at each of these bytes."""
    p, end, state = np.uint64(0), np.uint64(len(data)), _ALL
    while end - p >= _STEP + _STEP + _STEP:
        first, second, third, stop = state, np.uint64(0), np.uint64(0), p + _STEP
        while p < stop:
            first = _eight_bytes(first, words[p])
            second = _eight_bytes(second, words[p + _STEP])
            third = _eight_bytes(third, words[p + _STEP + _STEP])
            p += _EIGHT
        state = _behind(_BEHIND_TWO, first) ^ _behind(_BEHIND_ONE, second) ^ third
        p += _STEP + _STEP
    while end - p >= _EIGHT:
        state = _eight_bytes(state, words[p])
        p += _EIGHT
    while p < end:
        state = _one_byte(state, np.uint64(data[p]))
        p += _ONE
    return np.int64(state ^ _ALL)


def crc32c(data: Any) -> int:
    """Of bytes, or what has them. Large ones without holding Python's lock."""
    if len(data) <= SMALL or not BY_INSTRUCTION:
        return int(calc_crc32c(data))
    return by_instruction(data)


def by_instruction(data: Any) -> int:
    """The same by the kernel, of any length."""
    found = np.frombuffer(data, np.uint8)
    found.flags.writeable = False  # one type for the kernel
    return int(_crc32c(found, view(found, "<u8")))


def warm_up() -> None:
    """Compile the kernel, or load it from the cache."""
    if BY_INSTRUCTION:
        by_instruction(bytes(16))  # of two words at least: one alone would be another type to numba
