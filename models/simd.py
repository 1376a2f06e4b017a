"""Four numbers at a time in kernels: a numba type whose operations are one vector instruction where there is one.

The number of lanes is fixed here and not by the processor, so a sum over lanes has the same order, and the same bits,
on any machine; one with narrower registers takes two instructions. LLVM's own vectoriser does as well on long loops,
but takes the width of the machine, leaves the rest of a division by it to single steps, and asks at each loop whether
its arrays overlap: too much for the ten or twenty weights of a gate. Products are rounded before they are added (no
fused multiply-add), as everywhere in kernels without `fastmath`.

In a kernel `a * b + c` of lanes, or of lanes and numbers, is element by element.
"""

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

WIDTH = 4

VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class LanesType(types.Type):
    """Four float64."""

    def __init__(self) -> None:
        super().__init__("Lanes")


lanes = LanesType()


@register_model(LanesType)
class _Model(PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, VECTOR)


def _spread(builder, value):
    """A number in all lanes; lanes as they are."""
    if value.type == VECTOR:
        return value
    found = ir.Constant(VECTOR, ir.Undefined)
    for i in range(WIDTH):
        found = builder.insert_element(found, value, ir.Constant(ir.IntType(32), i))
    return found


def _element_by_element(operation, instruction):
    """Make an operator of Python one of lanes with lanes, and of lanes with a float64."""

    @type_callable(operation)
    def typed(context):
        def of(a, b):
            if {a, b} <= {lanes, types.float64} and lanes in (a, b):
                return lanes

        return of

    def lowered(context, builder, signature, given):
        return getattr(builder, instruction)(*(_spread(builder, value) for value in given))

    for kinds in ((LanesType, LanesType), (LanesType, types.Float), (types.Float, LanesType)):
        lower_builtin(operation, *kinds)(lowered)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _element_by_element(_operation, _instruction)


def _pointer(context, builder, array, values, i):
    """To element i of an array of one dimension, side by side in memory."""
    data = context.make_array(array)(context, builder, values).data
    return builder.gep(data, [i])


def _is_row(array):
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


@intrinsic
def load(typing, row, i):
    """row[i : i + 4] as lanes."""
    if not _is_row(row):
        return None

    def lower(context, builder, signature, given):
        pointer = _pointer(context, builder, signature.args[0], *given)
        return builder.load(builder.bitcast(pointer, VECTOR.as_pointer()), align=8)

    return lanes(row, types.uint64), lower


@intrinsic
def store(typing, row, i, value):
    """row[i : i + 4] = lanes."""
    if not _is_row(row):
        return None

    def lower(context, builder, signature, given):
        pointer = _pointer(context, builder, signature.args[0], *given[:2])
        builder.store(given[2], builder.bitcast(pointer, VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(row, types.uint64, lanes), lower


@intrinsic
def of_four(typing, a, b, c, d):
    """Four numbers as lanes."""

    def lower(context, builder, signature, given):
        found = ir.Constant(VECTOR, ir.Undefined)
        for i, value in enumerate(given):
            found = builder.insert_element(found, value, ir.Constant(ir.IntType(32), i))
        return found

    return lanes(*[types.float64] * 4), lower


@intrinsic
def each(typing, value):
    """Lanes as a tuple of four numbers."""

    def lower(context, builder, signature, given):
        parts = [builder.extract_element(given[0], ir.Constant(ir.IntType(32), i)) for i in range(WIDTH)]
        return cgutils.pack_array(builder, parts)

    return types.UniTuple(types.float64, WIDTH)(lanes), lower


@intrinsic
def spread(typing, number):
    """A number in all lanes."""
    return lanes(types.float64), lambda context, builder, signature, given: _spread(builder, given[0])


def _of_one(name):
    """An intrinsic function of LLVM, element by element."""

    @intrinsic
    def function(typing, value):
        def lower(context, builder, signature, given):
            kind = ir.FunctionType(VECTOR, [VECTOR])
            return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{WIDTH}f64"), given)

        return lanes(lanes), lower

    return function


square_root = _of_one("llvm.sqrt")
magnitude = _of_one("llvm.fabs")


@intrinsic
def where_less(typing, a, b, yes, no):
    """yes where a < b, no elsewhere and where a or b is not a number; element by element."""

    def lower(context, builder, signature, given):
        return builder.select(builder.fcmp_ordered("<", *given[:2]), *given[2:])

    return lanes(lanes, lanes, lanes, lanes), lower


@intrinsic
def select(typing, condition, yes, no):
    """yes where the condition holds, no elsewhere, of two numbers of a type, and without a branch: for what chance
    decides, which a processor cannot foresee."""
    if condition != types.boolean or yes != no:
        return None
    return yes(condition, yes, no), lambda context, builder, signature, given: builder.select(*given)
