"""Eight or sixteen float64 side by side, in registers: what a loop over classes should be to the processor.

A loop over ten classes within a loop over features keeps its sums in memory, and LLVM makes no vectors of it: it does
so for sixteen numbers and more. So kernels say it. `load` takes `n` numbers of a row into lanes, `spread` the same
number; `add`, `subtract`, `multiply`, `divide` work lane by lane, and `put` writes them. `n` is a constant to the
compiler, which makes of lanes what the processor has (one or two AVX-512 registers, two or four of AVX, ...). Each lane
rounds as a float64 does and nothing is fused: the bits are those of a loop. Lanes beyond the numbers that are meant
hold whatever comes next in the row; rows are that much longer.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, models, register_model

WIDEST = 16
MANTISSA = (1 << 52) - 1
ONE = 1023 << 52


class Lanes(types.Type):  # type: ignore[misc]
    """The type of a kernel's variable that holds `n` float64."""

    def __init__(self, n: int) -> None:
        self.n = n
        super().__init__(name=f"Lanes({n})")


@register_model(Lanes)
class LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector of LLVM's."""

    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), kind.n))


def _constant(x: float, n: int) -> Any:
    return ir.Constant(ir.VectorType(ir.DoubleType(), n), [x] * n)


def _whole(x: int, n: int) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(64), n), [x] * n)


def _place(context: Any, builder: Any, kind: Any, array: Any, row: Any, start: Any, n: int) -> Any:
    """A pointer to lanes within a row of a two-dimensional array in C order."""
    made = context.make_array(kind)(context, builder, array)
    width = builder.extract_value(made.shape, 1)
    place = builder.gep(made.data, [builder.add(builder.mul(row, width), start)])
    return builder.bitcast(place, ir.PointerType(ir.VectorType(ir.DoubleType(), n)))


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def load(typing: Any, array: Any, row: Any, start: Any, n: Any) -> Any:
    """array[row, start : start + n]; row and start are uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, row, start, _ = arguments
        value = builder.load(_place(context, builder, array, rows, row, start, n.literal_value))
        value.align = 8
        return value

    return Lanes(n.literal_value)(array, types.uint64, types.uint64, n), generate


@intrinsic  # type: ignore[untyped-decorator]
def put(typing: Any, lanes: Any, array: Any, row: Any, start: Any) -> Any:
    """array[row, start : start + n] = lanes; row and start are uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, rows, row, start = arguments
        builder.store(value, _place(context, builder, array, rows, row, start, lanes.n)).align = 8
        return context.get_dummy_value()

    return types.void(lanes, array, types.uint64, types.uint64), generate


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def spread(typing: Any, x: Any, n: Any) -> Any:
    """The same number in each of n lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.DoubleType(), n.literal_value)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), arguments[0], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None))

    return Lanes(n.literal_value)(types.float64, n), generate


def _of_two(operation: str) -> Any:
    """An operation on two of the same type, lane by lane."""

    @intrinsic  # type: ignore[untyped-decorator]
    def of_two(typing: Any, a: Any, b: Any) -> Any:
        return a(a, b), lambda context, builder, signature, arguments: getattr(builder, operation)(*arguments)

    return of_two


add, subtract, multiply, divide = map(_of_two, ("fadd", "fsub", "fmul", "fdiv"))


@intrinsic  # type: ignore[untyped-decorator]
def distances(typing: Any, apart: Any, a: Any) -> Any:
    """a apart^2, rounded as (a apart) apart. Where a is not above 0: infinite, but 0 where a < 0 and apart is 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        apart, a = arguments
        zero, infinite = _constant(0.0, signature.args[0].n), _constant(float("inf"), signature.args[0].n)
        same = builder.and_(builder.fcmp_ordered("==", apart, zero), builder.fcmp_ordered("<", a, zero))
        square = builder.fmul(builder.fmul(a, apart), apart)
        return builder.select(builder.fcmp_ordered(">", a, zero), square, builder.select(same, zero, infinite))

    return apart(apart, a), generate


# Exponents of 2 are counted in lanes whose bits are int64; `spread(0.0, n)` is none.


@intrinsic  # type: ignore[untyped-decorator]
def add_exponents(typing: Any, counts: Any, lanes: Any) -> Any:
    """counts + floor(log2(abs(x))) of each normal x."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        counts, bits = (builder.bitcast(a, ir.VectorType(ir.IntType(64), lanes.n)) for a in arguments)
        biased = builder.and_(builder.lshr(bits, _whole(52, lanes.n)), _whole(2047, lanes.n))
        counts = builder.add(counts, builder.sub(biased, _whole(1023, lanes.n)))
        return builder.bitcast(counts, ir.VectorType(ir.DoubleType(), lanes.n))

    return lanes(lanes, lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def counted(typing: Any, counts: Any) -> Any:
    """Counts as float64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), counts.n))
        return builder.sitofp(whole, ir.VectorType(ir.DoubleType(), counts.n))

    return counts(counts), generate


@intrinsic  # type: ignore[untyped-decorator]
def root(typing: Any, lanes: Any, counts: Any) -> Any:
    """sqrt(x 2^n) of each, without its exponent: of x, or of 2 x where the count n is odd."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, counts = (builder.bitcast(a, ir.VectorType(ir.IntType(64), lanes.n)) for a in arguments)
        odd = builder.shl(builder.and_(counts, _whole(1, lanes.n)), _whole(52, lanes.n))
        doubled = builder.bitcast(builder.add(bits, odd), ir.VectorType(ir.DoubleType(), lanes.n))
        kind = ir.FunctionType(doubled.type, [doubled.type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{lanes.n}f64"), [doubled])

    return lanes(lanes, counts), generate


@intrinsic  # type: ignore[untyped-decorator]
def halved(typing: Any, counts: Any) -> Any:
    """floor(n / 2) of each count, as float64: the exponent of `root`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), counts.n))
        return builder.sitofp(builder.ashr(whole, _whole(1, counts.n)), ir.VectorType(ir.DoubleType(), counts.n))

    return counts(counts), generate


@intrinsic  # type: ignore[untyped-decorator]
def mantissas(typing: Any, lanes: Any) -> Any:
    """x / 2^exponent of each, in [1, 2)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], ir.VectorType(ir.IntType(64), lanes.n))
        kept = builder.or_(builder.and_(bits, _whole(MANTISSA, lanes.n)), _whole(ONE, lanes.n))
        return builder.bitcast(kept, ir.VectorType(ir.DoubleType(), lanes.n))

    return lanes(lanes), generate
