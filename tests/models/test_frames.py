"""Arguments that are made ready once."""

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from riparian.models.kernels.frames import BOOLEAN, INTEGER, NUMBER, array_of, framed, put
from riparian.models.kernels.kernel import kernel
from tests.conftest import jit


class Inner(NamedTuple):
    table: Any
    codes: Any


class Outer(NamedTuple):
    first: Any
    inner: Any
    flag: Any
    share: Any
    sums: Any


@kernel
def _fill(words, values):
    put(words, values)


_inner = Inner(array_of(np.float64, 2), array_of(np.int32, 1))
frame_of, values_of = framed(Outer(INTEGER, _inner, BOOLEAN, NUMBER, array_of(np.float64, 1)), _fill)


@kernel
def _fold(words):
    values = values_of(words)
    table, codes = values.inner
    for i in range(len(codes)):
        for j in range(table.shape[1]):
            values.sums[j] += table[codes[i], j] * values.share if values.flag else 1.0
    return values.first + table.shape[0]


def _values(rng, n, first=7, flag=True):
    return Outer(first, Inner(rng.random((n, 3)), rng.integers(0, n, 5).astype(np.int32)), flag, 0.5, np.zeros(3))


def test_a_kernel_gets_what_a_frame_was_made_of():
    """Shapes, contents and what it writes, call after call."""
    rng = np.random.default_rng(1)
    for n, flag in ((1, True), (4, False), (9, True)):
        values = _values(rng, n, first=n, flag=flag)
        frame = frame_of(values)
        assert frame.values is values
        for call in (1, 2):
            assert _fold(frame.words) == n + n
            rows = values.inner.table[values.inner.codes]
            assert values.sums == pytest.approx(call * (rows.sum(axis=0) * 0.5 if flag else np.full(3, 5.0)))
        values.inner.table[:] = 0.0  # the same memory
        before = values.sums.copy()
        _fold(frame.words)
        assert (values.sums == before).all() == flag


@jit
@pytest.mark.parametrize(
    "wrong", [{"first": 1.5}, {"sums": np.zeros((3, 3))[:, 0]}, {"sums": np.zeros(3, np.float32)}], ids=str
)
def test_values_of_other_types_are_refused(wrong):
    """They would lie elsewhere than a kernel looks."""
    with pytest.raises(numba.TypingError, match="expected Outer"):
        frame_of(_values(np.random.default_rng(1), 2)._replace(**wrong))
