"""Memory that will be needed: a kernel that knows its way asks for it before it goes there."""

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 64  # bytes


@intrinsic
def fetch(typing, rows, i):
    """Bring row i of a two-dimensional array in C order into the cache: a hint, which waits for nothing."""

    def lower(context, builder, signature, given):
        array = context.make_array(signature.args[0])(context, builder, given[0])
        width = builder.extract_value(array.shape, 1)
        size = builder.mul(width, ir.Constant(width.type, signature.args[0].dtype.bitwidth // 8))
        first = builder.gep(array.data, [builder.mul(given[1], width)])
        first = builder.bitcast(first, ir.IntType(8).as_pointer())
        whole = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [first.type, whole, whole, whole])
        hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        with cgutils.for_range_slice(builder, ir.Constant(size.type, 0), size, ir.Constant(size.type, LINE)) as (at, _):
            builder.call(hint, [builder.gep(first, [at]), whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return types.void(rows, types.uint64), lower
