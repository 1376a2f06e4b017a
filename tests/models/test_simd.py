"""Lanes against plain numbers: the same bits, element by element."""

import math

import numba
import numpy as np
import pytest

from riparian.models.kernels.kernel import kernel
from riparian.models.kernels.simd import WIDTH, each, load, magnitude, of_four, spread, square_root, store, where_less
from riparian.models.soft.passes.forward import linear_form


@kernel
def compute(x, y, out):
    a = load(x, np.uint64(1))
    b = load(y, np.uint64(0))
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = each(a * b + a)
    store(out[1], np.uint64(0), 3.0 - a / b)
    store(out[2], np.uint64(0), square_root(magnitude(a)) * 2.0)
    store(out[3], np.uint64(0), where_less(a, b, a, spread(-1.0)))
    store(out[4], np.uint64(0), of_four(x[4], y[3], x[0], y[0]))


def expected(x, y):
    of = range(WIDTH)
    return [
        [x[1 + i] * y[i] + x[1 + i] for i in of],  # rounded twice: no fused multiply-add
        [3.0 - x[1 + i] / y[i] for i in of],
        [math.sqrt(abs(x[1 + i])) * 2.0 for i in of],
        [x[1 + i] if x[1 + i] < y[i] else -1.0 for i in of],
        [x[4], y[3], x[0], y[0]],
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_lane_is_computed_as_a_number(seed):
    rng = np.random.default_rng(seed)
    x, y, out = rng.normal(size=5), rng.normal(size=4), np.zeros((5, WIDTH))
    compute(x, y, out)
    assert out.tolist() == expected(x.tolist(), y.tolist())


def test_a_comparison_with_what_is_no_number_is_false():
    out = np.zeros((5, WIDTH))
    compute(np.array([0.0, math.nan, 1.0, -math.inf, 3.0]), np.array([1.0, math.nan, 0.0, 9.0]), out)
    assert out[3].tolist() == [-1.0, -1.0, -math.inf, 3.0]


def test_they_stay_together_and_nothing_is_contracted():
    """As the code says, on whatever processor: vectors of four, no fused or reordered arithmetic."""
    of = numba.float64[::1]
    compiled = numba.njit((of, of, numba.float64[:, ::1]), error_model="numpy", _nrt=False)(compute.py_func)
    (code,) = compiled.inspect_llvm().values()
    for operation in ("@llvm.sqrt.v4f64", "fdiv <4 x double>", "fmul <4 x double>"):
        assert operation in code
    for word in (" fast ", "contract", "reassoc", "llvm.fma", "llvm.fmuladd"):
        assert word not in code


@kernel
def form(weights, z, active, n_active):
    return linear_form(weights, z, active, n_active)


@pytest.mark.parametrize("n_active", range(10))
def test_a_linear_form_is_four_sums(n_active):
    """Every fourth term, of the dense part and then of the indicators."""
    rng = np.random.default_rng(n_active)
    dense = 4 * (1 + n_active % 3)
    z, weights = rng.normal(size=dense), rng.normal(size=dense + 40)
    active = (dense + rng.permutation(40)[: n_active + 2]).astype(np.int32)
    sums = [0.0] * 4
    for j in range(dense):
        sums[j % 4] += float(weights[j]) * float(z[j])
    for j in range(n_active):
        sums[j % 4] += float(weights[active[j]])
    assert form(weights, z, active, n_active) == (sums[0] + sums[2]) + (sums[1] + sums[3])
