"""Our exponential, logarithm and the like: against the truth to forty digits, and the same in NumPy and in kernels."""

import decimal
import itertools
import math

import numpy as np
import pytest

from riparian.models.kernels.elementary import erf, exp, expm1, exps, lgamma, log, log1p, logs, power
from riparian.models.kernels.kernel import kernel

D = decimal.Decimal
SPECIAL = [
    0.0,
    5e-324,
    1e-310,
    2.0**-1022,
    1e-300,
    0.5,
    1 - 2.0**-53,
    1.0,
    1 + 2.0**-52,
    2.0,
    1e300,
    1.7976931348623157e308,
]
SPECIAL += [math.inf, math.nan]
SPECIAL += [-x for x in SPECIAL]
NUMBERS = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def _digits():
    with decimal.localcontext() as context:
        context.prec, context.Emax, context.Emin = 40, 999_999, -999_999
        yield


@kernel
def _each_of_one(which, x, out):
    for i in range(len(x)):
        if which == 0:
            out[i] = exp(x[i])
        elif which == 1:
            out[i] = log(x[i])
        elif which == 2:
            out[i] = log1p(x[i])
        elif which == 3:
            out[i] = expm1(x[i])
        elif which == 4:
            out[i] = erf(x[i])
        else:
            out[i] = lgamma(x[i])


@kernel
def _each_power(x, y, out):
    for i in range(len(x)):
        out[i] = power(x[i], y[i])


ONE = {function: i for i, function in enumerate((exp, log, log1p, expm1, erf, lgamma))}


def ours(function, x, y=None):
    out = np.empty(len(x))
    if y is None:
        _each_of_one(ONE[function], np.asarray(x), out)
    else:
        _each_power(np.asarray(x), np.asarray(y), out)
    return out


def wrong_by(found, truth):
    """Units in the last place, at most, of finite results."""
    off = 0.0
    for result, true in zip(found.tolist(), truth, strict=True):
        near = float(true)
        if math.isinf(near) or math.isinf(result):
            assert result == near
        else:
            off = max(off, float(abs(D(result) - true) / D(math.ulp(near))))
    return off


def log_uniform(low, high, n):
    return np.ldexp(NUMBERS.uniform(1.0, 2.0, n), NUMBERS.integers(low, high, n))


def test_exp():
    x = np.concatenate((NUMBERS.uniform(-745.0, 709.7, 10_000), NUMBERS.normal(size=6_000), log_uniform(-60, 1, 2_000)))
    assert wrong_by(ours(exp, x), (D(one).exp() for one in x.tolist())) < 0.76  # a subnormal one is rounded twice
    assert ours(exp, [709.7827128933841, 1e300, math.inf]).tolist() == [math.inf] * 3
    assert ours(exp, [-745.2, -1e300, -math.inf]).tolist() == [0.0] * 3


def test_log():
    x = np.concatenate((log_uniform(-1022, 1024, 4_000), NUMBERS.uniform(0.5, 2.0, 6_000), [5e-324, 1e-310]))
    near = 1.0 + NUMBERS.normal(size=4_000) * np.ldexp(1.0, -NUMBERS.integers(3, 50, 4_000))
    x = np.concatenate((x, near))
    assert wrong_by(ours(log, x), (D(one).ln() for one in x.tolist())) < 0.52
    assert ours(log, [0.0, -0.0, math.inf]).tolist() == [-math.inf, -math.inf, math.inf]
    assert np.isnan(ours(log, [-1.0, -math.inf, math.nan])).all()


def test_power():
    x = np.concatenate((np.exp(NUMBERS.normal(size=3_000) * 20.0), 1.0 + NUMBERS.normal(size=3_000) * 1e-3, [1e-310]))
    y = NUMBERS.uniform(-700.0, 700.0, len(x)) * np.where(NUMBERS.random(len(x)) < 0.5, 1.0, 0.001) / np.log(x)
    assert (
        wrong_by(ours(power, x, y), ((D(b) * D(a).ln()).exp() for a, b in zip(x.tolist(), y.tolist(), strict=True)))
        < 0.7
    )
    whole = np.arange(-1074.0, 1024.0)
    assert ours(power, np.full(len(whole), 2.0), whole).tolist() == np.ldexp(1.0, whole.astype(int)).tolist()
    pairs = [(x, y) for x, y in itertools.product(SPECIAL, [*SPECIAL, 3.0]) if not np.signbit(x)]
    with np.errstate(all="ignore"):
        expected = np.array([np.power(x, y) for x, y in pairs])
    np.testing.assert_allclose(ours(power, *zip(*pairs, strict=True)), expected, rtol=1e-15, atol=5e-324)
    assert np.isnan(ours(power, [-1.0, -2.0], [2.0, 0.5])).all()


def test_log1p_and_expm1():
    x = np.concatenate((NUMBERS.normal(size=3_000), log_uniform(-70, 600, 3_000), -log_uniform(-70, 0, 3_000)))
    with decimal.localcontext() as context:
        context.prec = 70
        assert wrong_by(ours(log1p, x[x > -1.0]), ((1 + D(one)).ln() for one in x[x > -1.0].tolist())) < 0.52
        x = np.concatenate((NUMBERS.normal(size=3_000) * 30.0, log_uniform(-70, 9, 3_000), -log_uniform(-70, 9, 3_000)))
        x = x[x < 709.0]
        assert wrong_by(ours(expm1, x), (D(one).exp() - 1 for one in x.tolist())) < 1.1
    for function in (log1p, expm1):
        found = ours(function, [*SPECIAL, -1.0])
        with np.errstate(all="ignore"):
            expected = getattr(np, function.__name__)(np.array([*SPECIAL, -1.0]))
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=0.0)
        assert (np.signbit(found) == np.signbit(expected))[found == 0.0].all()


def true_erf(x):
    """exp(-x^2) 2 / sqrt(pi) sum of 2^n x^(2 n + 1) / (1 3 5 ... (2 n + 1))."""
    x, total, term, n = D(x), D(0), D(x), 0
    while abs(term) > D("1e-45") * abs(x):
        total, n = total + term, n + 1
        term *= 2 * x * x / (2 * n + 1)
    return total * (-x * x).exp() * 2 / D("3.1415926535897932384626433832795028841971693993751").sqrt()


def test_erf():
    x = np.concatenate((NUMBERS.normal(size=1_500) * 1.5, log_uniform(-60, 3, 500), np.arange(-97, 97) / 32.0))
    assert wrong_by(ours(erf, x), map(true_erf, x.tolist())) < 0.76
    assert ours(erf, [6.0, math.inf, -6.0, -math.inf]).tolist() == [1.0, 1.0, -1.0, -1.0]
    assert np.signbit(ours(erf, [0.0, -0.0])).tolist() == [False, True]
    assert np.isnan(ours(erf, [math.nan]))


def true_lgamma(x):
    """Stirling's series from 60 on."""
    x, below = D(x), D(1)
    while x < 60:
        below, x = below * x, x + 1
    terms = ("1/12", "-1/360", "1/1260", "-1/1680", "1/1188", "-691/360360", "1/156", "-3617/122400")
    rest = sum(D(top) / D(under) / x ** (2 * i + 1) for i, (top, under) in enumerate(t.split("/") for t in terms))
    return (x - D("0.5")) * x.ln() - x + D("0.918938533204672741780329736405617639861397473637783") + rest - below.ln()


def test_lgamma():
    x = np.concatenate((NUMBERS.uniform(0.0, 40.0, 2_000), np.arange(1.0, 1_000.0) / 2.0, log_uniform(-400, 400, 500)))
    found = ours(lgamma, x)
    true = [true_lgamma(one) for one in x.tolist()]
    below = x < 13.0
    assert wrong_by(found[~below], [one for one, small in zip(true, below, strict=True) if not small]) < 3.0
    off = [abs(D(a) - b) / max(1, abs(b)) for a, b, small in zip(found.tolist(), true, below, strict=True) if small]
    assert max(off) < D("1e-14")
    assert ours(lgamma, [math.inf])[0] == math.inf
    assert np.isnan(ours(lgamma, [0.0, -1.5, -math.inf, math.nan])).all()


def bits(x):
    return np.where(np.isnan(x), np.nan, x).tobytes()


@pytest.mark.parametrize(("array", "function"), [(exps, exp), (logs, log)])
def test_outside_of_kernels_the_bits_are_the_same(array, function):
    x = np.concatenate((SPECIAL, NUMBERS.uniform(-760.0, 760.0, 10_000), log_uniform(-1022, 1024, 10_000)))
    assert bits(array(x)) == bits(ours(function, x))
    assert bits(array(x[:24].reshape(4, 3, 2))) == bits(ours(function, x[:24]))
    one = array(2.5)
    assert isinstance(one, float)
    assert one == ours(function, [2.5])[0]


@kernel
def _sums_of_products(a, b, c, out):
    total = 0.0
    for i in range(len(a)):
        out[i] = a[i] * b[i] + c[i]
        total += a[i] * b[i]
    return total


def test_kernels_round_a_product_before_they_add_to_it():
    """As NumPy does, which has two loops; a processor with fused multiply-add would round once."""
    a, b = NUMBERS.normal(size=(2, 1_001))
    c, out = -(a * b) * (1.0 + 2.0**-52), np.empty(1_001)
    total = _sums_of_products(a, b, c, out)
    assert out.tobytes() == (a * b + c).tobytes()
    assert total == sum((a * b).tolist(), 0.0)
