"""Several float64 side by side in kernels: a numba type whose operations are one vector instruction where there is one.

The number of lanes is fixed by the kernel and not by the processor, so a sum over lanes has the same order, and the
same bits, on any machine; one with narrower registers takes several instructions. LLVM's own vectoriser does as well on
long loops, but takes the width of the machine, leaves the rest of a division by it to single steps, and asks at each
loop whether its arrays overlap: too much for the ten or twenty weights of a gate. Of a loop over ten classes within a
loop over features it makes no vectors at all. Products are rounded before they are added (no fused multiply-add), as
everywhere in kernels without `fastmath`.

In a kernel `a * b + c` of lanes, or of lanes and numbers, is element by element. Rows of numbers are read four at a
time (`load`, `store`), classes eight or sixteen (`load_part`, `put`): lanes beyond the numbers that are meant hold
whatever comes next in the row, which is that much longer.
"""

import operator

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel.models import PrimitiveModel
from numba.extending import intrinsic, lower_builtin, register_model, type_callable

WIDTH = 4
WIDEST = 16
MANTISSA = (1 << 52) - 1
ONE = 1023 << 52


class Lanes(types.Type):
    """n float64."""

    def __init__(self, n: int) -> None:
        self.n = n
        super().__init__(f"Lanes({n})")


FOUR = Lanes(WIDTH)


def _vector(n):
    return ir.VectorType(ir.DoubleType(), n)


@register_model(Lanes)
class _Model(PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, _vector(fe_type.n))


def _constant(x, n):
    return ir.Constant(_vector(n), [x] * n)


def _whole(x, n):
    return ir.Constant(ir.VectorType(ir.IntType(64), n), [x] * n)


def _spread(builder, value, n):
    """A number in all lanes; lanes as they are."""
    if value.type == _vector(n):
        return value
    first = builder.insert_element(ir.Constant(_vector(n), ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), n), None))


def _element_by_element(operation, instruction):
    """Make an operator of Python one of lanes with lanes, and of lanes with a float64."""

    @type_callable(operation)
    def typed(context):
        def of(a, b):
            found = a if isinstance(a, Lanes) else b
            if isinstance(found, Lanes) and {a, b} <= {found, types.float64}:
                return found

        return of

    def lowered(context, builder, signature, given):
        n = signature.return_type.n
        return getattr(builder, instruction)(*(_spread(builder, value, n) for value in given))

    for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
        lower_builtin(operation, *kinds)(lowered)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _element_by_element(_operation, _instruction)


def _place(context, builder, kind, array, at, n):
    """A pointer to n lanes of an array in C order: from element at[0] of a row, or element at[1] of a table's row
    at[0]."""
    made = context.make_array(kind)(context, builder, array)
    if len(at) > 1:
        at = [builder.add(builder.mul(at[0], builder.extract_value(made.shape, 1)), at[1])]
    return builder.bitcast(builder.gep(made.data, at), _vector(n).as_pointer())


def _is_array(array, ndim):
    return isinstance(array, types.Array) and array.ndim == ndim and array.layout == "C"


@intrinsic
def load(typing, row, i):
    """row[i : i + 4] as lanes."""
    if not _is_array(row, 1):
        return None

    def lower(context, builder, signature, given):
        return builder.load(_place(context, builder, row, given[0], given[1:], WIDTH), align=8)

    return FOUR(row, types.uint64), lower


@intrinsic(prefer_literal=True)
def load_part(typing, array, row, start, n):
    """array[row, start : start + n] as lanes; n is a constant."""
    if not _is_array(array, 2):
        return None

    def lower(context, builder, signature, given):
        return builder.load(_place(context, builder, array, given[0], given[1:3], n.literal_value), align=8)

    return Lanes(n.literal_value)(array, types.uint64, types.uint64, n), lower


@intrinsic
def store(typing, row, i, value):
    """row[i : i + 4] = lanes."""
    if not _is_array(row, 1):
        return None

    def lower(context, builder, signature, given):
        builder.store(given[2], _place(context, builder, row, given[0], given[1:2], WIDTH), align=8)
        return context.get_dummy_value()

    return types.void(row, types.uint64, FOUR), lower


@intrinsic
def put(typing, value, array, row, start):
    """array[row, start : start + n] = lanes."""
    if not _is_array(array, 2):
        return None

    def lower(context, builder, signature, given):
        builder.store(given[0], _place(context, builder, array, given[1], given[2:], value.n), align=8)
        return context.get_dummy_value()

    return types.void(value, array, types.uint64, types.uint64), lower


@intrinsic
def of_four(typing, a, b, c, d):
    """Four numbers as lanes."""

    def lower(context, builder, signature, given):
        found = ir.Constant(_vector(WIDTH), ir.Undefined)
        for i, value in enumerate(given):
            found = builder.insert_element(found, value, ir.Constant(ir.IntType(32), i))
        return found

    return FOUR(*[types.float64] * 4), lower


@intrinsic
def each(typing, value):
    """Lanes as a tuple of four numbers."""

    def lower(context, builder, signature, given):
        parts = [builder.extract_element(given[0], ir.Constant(ir.IntType(32), i)) for i in range(WIDTH)]
        return cgutils.pack_array(builder, parts)

    return types.UniTuple(types.float64, WIDTH)(FOUR), lower


@intrinsic
def spread(typing, number):
    """A number in all of four lanes."""
    return FOUR(types.float64), lambda context, builder, signature, given: _spread(builder, given[0], WIDTH)


@intrinsic(prefer_literal=True)
def spread_to(typing, number, n):
    """A number in all of n lanes; n is a constant."""
    found = Lanes(n.literal_value)
    return found(types.float64, n), lambda context, builder, signature, given: _spread(builder, given[0], found.n)


def _of_one(name):
    """An intrinsic function of LLVM, element by element."""

    @intrinsic
    def function(typing, value):
        def lower(context, builder, signature, given):
            return _call(builder, name, given[0], value.n)

        return value(value), lower

    return function


def _call(builder, name, value, n):
    kind = ir.FunctionType(_vector(n), [_vector(n)])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"{name}.v{n}f64"), [value])


square_root = _of_one("llvm.sqrt")
magnitude = _of_one("llvm.fabs")


@intrinsic
def where_less(typing, a, b, yes, no):
    """yes where a < b, no elsewhere and where a or b is not a number; element by element."""

    def lower(context, builder, signature, given):
        return builder.select(builder.fcmp_ordered("<", *given[:2]), *given[2:])

    return a(a, a, a, a), lower


@intrinsic
def select(typing, condition, yes, no):
    """yes where the condition holds, no elsewhere, of two numbers of a type, and without a branch: for what chance
    decides, which a processor cannot foresee."""
    if condition != types.boolean or yes != no:
        return None
    return yes(condition, yes, no), lambda context, builder, signature, given: builder.select(*given)


@intrinsic
def distances(typing, apart, a):
    """a apart^2, rounded as (a apart) apart. Where a is not above 0: infinite, but 0 where a < 0 and apart is 0."""

    def lower(context, builder, signature, arguments):
        apart, a = arguments
        zero, infinite = _constant(0.0, signature.args[0].n), _constant(float("inf"), signature.args[0].n)
        same = builder.and_(builder.fcmp_ordered("==", apart, zero), builder.fcmp_ordered("<", a, zero))
        square = builder.fmul(builder.fmul(a, apart), apart)
        return builder.select(builder.fcmp_ordered(">", a, zero), square, builder.select(same, zero, infinite))

    return apart(apart, a), lower


# Exponents of 2 are counted in lanes whose bits are int64; `spread_to(0.0, n)` is none.


@intrinsic
def add_exponents(typing, counts, lanes):
    """counts + floor(log2(abs(x))) of each normal x."""

    def lower(context, builder, signature, arguments):
        counts, bits = (builder.bitcast(a, ir.VectorType(ir.IntType(64), lanes.n)) for a in arguments)
        biased = builder.and_(builder.lshr(bits, _whole(52, lanes.n)), _whole(2047, lanes.n))
        counts = builder.add(counts, builder.sub(biased, _whole(1023, lanes.n)))
        return builder.bitcast(counts, _vector(lanes.n))

    return lanes(lanes, lanes), lower


@intrinsic
def counted(typing, counts):
    """Counts as float64."""

    def lower(context, builder, signature, arguments):
        whole = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), counts.n))
        return builder.sitofp(whole, _vector(counts.n))

    return counts(counts), lower


@intrinsic
def root(typing, lanes, counts):
    """sqrt(x 2^n) of each, without its exponent: of x, or of 2 x where the count n is odd."""

    def lower(context, builder, signature, arguments):
        bits, counts = (builder.bitcast(a, ir.VectorType(ir.IntType(64), lanes.n)) for a in arguments)
        odd = builder.shl(builder.and_(counts, _whole(1, lanes.n)), _whole(52, lanes.n))
        doubled = builder.bitcast(builder.add(bits, odd), _vector(lanes.n))
        return _call(builder, "llvm.sqrt", doubled, lanes.n)

    return lanes(lanes, counts), lower


@intrinsic
def halved(typing, counts):
    """floor(n / 2) of each count, as float64: the exponent of `root`."""

    def lower(context, builder, signature, arguments):
        whole = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), counts.n))
        return builder.sitofp(builder.ashr(whole, _whole(1, counts.n)), _vector(counts.n))

    return counts(counts), lower


@intrinsic
def mantissas(typing, lanes):
    """x / 2^exponent of each, in [1, 2)."""

    def lower(context, builder, signature, arguments):
        bits = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), lanes.n))
        kept = builder.or_(builder.and_(bits, _whole(MANTISSA, lanes.n)), _whole(ONE, lanes.n))
        return builder.bitcast(kept, _vector(lanes.n))

    return lanes(lanes), lower
