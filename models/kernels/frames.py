"""Arguments that a kernel is called with again and again, made ready once.

What numba makes of an argument before a kernel begins takes a twentieth to a tenth of a microsecond: of a tree's forty
arrays and numbers several times what the tree then does with one instance. A *frame* is an array of words in which they
lie as kernels have them; a call hands it on as one argument. It holds addresses: whoever makes one keeps what it was
made of while it is in use, and makes a new one where an array is replaced.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.core.types.containers import BaseTuple
from numba.extending import intrinsic
from numpy.typing import NDArray

ARRAY_WORDS = 5  # and two a dimension
# Types of values that are no arrays.
INTEGER: Any = types.int64
NUMBER: Any = types.float64
BOOLEAN: Any = types.boolean


def array_of(dtype: Any, ndim: int) -> Any:
    """The numba type of C-contiguous arrays."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")


class KernelFrame(NamedTuple):
    """words : what kernels take. values : what it was made of. Without the JIT, words are the values."""

    words: Any
    values: Any


# Of each class of values, the numba type.
_KINDS: dict[type, Any] = {}


@intrinsic  # type: ignore[untyped-decorator]
def put(_context: Any, words: Any, values: Any) -> Any:
    """In a kernel: fill words with values."""
    kind = _KINDS[values.instance_class]
    if values != kind:
        raise TypingError(f"expected {kind}, found {values}")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        wanted = context.get_value_type(kind)
        assert context.get_abi_sizeof(wanted) <= 8 * _n_words(kind)
        builder.store(arguments[1], _place(context, builder, signature.args[0], arguments[0], wanted))

    return types.void(words, values), generate


def framed(kinds: Any, fill: Any) -> tuple[Callable[[Any], KernelFrame], Any]:
    """What makes a frame of values of these types, and the function that gives a kernel the values of a frame's words.

    kinds : a NamedTuple of numba types, or of such NamedTuples; the values, and what a kernel gets, are like it.
    fill : fill(words, values), a kernel that calls `put`. It is the caller's, since it is compiled, and kept, for
        classes that the caller knows. A kernel is also kept for what it encloses, and functions for kernels are never
        twice the same: they have to be global names, of this module or the caller's.
    """
    if numba.config.DISABLE_JIT:
        return lambda values: KernelFrame(values, values), lambda words: words
    kind = _KINDS[type(kinds)] = _kind(kinds)
    n = _n_words(kind)

    @intrinsic  # type: ignore[untyped-decorator]
    def values_of(_context: Any, words: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            wanted = context.get_value_type(kind)
            return _load(builder, _place(context, builder, signature.args[0], arguments[0], wanted), wanted)

        return kind(words), generate

    def frame(values: Any) -> KernelFrame:
        words: NDArray[np.int64] = np.zeros(n, np.int64)
        fill(words, values)
        return KernelFrame(words, values)

    return frame, values_of


def _kind(kinds: Any) -> Any:
    """The type of a NamedTuple of values of these types."""
    if not isinstance(kinds, tuple):
        return kinds
    return BaseTuple.from_types([_kind(one) for one in kinds], type(kinds))


def _n_words(kind: Any) -> int:
    """Room enough for a value."""
    if isinstance(kind, BaseTuple):
        return sum(_n_words(one) for one in kind)
    return ARRAY_WORDS + 2 * int(kind.ndim) if isinstance(kind, types.Array) else 1


def _place(context: Any, builder: Any, array: Any, words: Any, wanted: Any) -> Any:
    """Where the values lie."""
    return builder.bitcast(context.make_array(array)(context, builder, words).data, wanted.as_pointer())


def _load(builder: Any, place: Any, wanted: Any) -> Any:
    """Part by part, so that what a kernel does not use is not loaded."""
    if not isinstance(wanted, ir.Aggregate):
        return builder.load(place)
    found = ir.Constant(wanted, ir.Undefined)
    for i, part in enumerate(wanted.elements):
        at = builder.gep(place, [ir.Constant(ir.IntType(32), 0), ir.Constant(ir.IntType(32), i)], inbounds=True)
        found = builder.insert_value(found, _load(builder, at, part), i)
    return found
