"""An array of a state overwritten with what no learner writes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FLOATS = (np.nan, np.inf, -np.inf, 1.7e308, -1e308, 5e-324, -1.0, 0.5, 3.0, 1e9, 1e18)
INTS = (-1, -2, 0, 1, 2, 7, 63, 64, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63), (1 << 64) - 1)
KINDS = (np.int8, np.int64, np.uint8, np.float32, np.float64, np.bool_)


def _value(array: Array, rng: np.random.Generator) -> Any:
    """One number for an array: an extreme, a length, one more or less than what is there, what stands elsewhere."""
    if array.dtype.kind == "f":
        return rng.choice([*FLOATS, rng.normal(0.0, 1e3), array.flat[rng.integers(array.size)] + 1.0])
    info = np.iinfo(array.dtype)
    there = int(array.flat[rng.integers(array.size)])
    near = [n + k for n in array.shape for k in (-1, 0, 1)] + [there, there + 1, there - 1]
    possible = [n for n in (*INTS, *near, *near) if info.min <= n <= info.max]
    return array.dtype.type(possible[rng.integers(len(possible))])


def _full(array: Array, rng: np.random.Generator) -> Array:
    return np.full_like(array, _value(array, rng))


def _some(array: Array, rng: np.random.Generator) -> Array:
    changed = array.copy()
    for i in rng.integers(array.size, size=rng.integers(1, 5)):
        changed.flat[i] = _value(array, rng)
    return changed


def _share(array: Array, rng: np.random.Generator) -> Array:
    changed = array.copy()
    changed[rng.random(array.shape) < rng.choice([0.02, 0.3])] = _value(array, rng)
    return changed


def _drawn(array: Array, rng: np.random.Generator) -> Array:
    """Numbers between those that are there."""
    if array.dtype.kind == "f":
        return rng.choice(array.ravel(), array.shape)
    found = rng.integers(array.min(), array.max(), array.shape, array.dtype, endpoint=True)
    return np.where(rng.random(array.shape) < rng.choice([0.02, 1.0]), found, array).astype(array.dtype)


def _column(array: Array, rng: np.random.Generator) -> Array:
    """A column shuffled, set or moved; of links a node that is its own child, or its parent's parent."""
    if array.ndim < 2 or not len(array):
        return _some(array, rng)
    changed, column = array.copy(), rng.integers(array.shape[-1])
    part = changed[..., column]
    rows = np.arange(part.size).reshape(part.shape)
    new = [rng.permutation(part.ravel()).reshape(part.shape), rows, rows - 1, rows + 1, part + 1, part - 1]
    which = rng.random(part.shape) < rng.choice([0.05, 1.0])
    changed[..., column] = np.where(which, new[rng.integers(len(new))], part).astype(array.dtype)
    return changed


def _moved(array: Array, rng: np.random.Generator) -> Array:
    """Two rows or numbers in each other's place, or all in others."""
    if rng.random() < 0.3:
        return rng.permutation(array.ravel()).reshape(array.shape)
    a, b = rng.integers(len(array), size=2)
    changed = array.copy()
    changed[[a, b]] = changed[[b, a]]
    return changed


def _bits(array: Array, rng: np.random.Generator) -> Array:
    """Bits that have flipped, or bytes by chance."""
    raw = np.frombuffer(bytearray(array.tobytes()), np.uint8)
    if rng.random() < 0.2:
        raw[:] = rng.integers(0, 256, len(raw))
    else:
        for i in rng.integers(len(raw), size=rng.integers(1, 9)):
            raw[i] ^= 1 << int(rng.integers(8))
    return raw.view(array.dtype).reshape(array.shape)


def _shaped(array: Array, rng: np.random.Generator) -> Array:
    """Of another shape."""
    axis = int(rng.integers(array.ndim))
    ways: list[Callable[[], Array]] = [
        lambda: np.delete(array, -1, axis),
        lambda: np.concatenate([array, np.take(array, [-1], axis)], axis),
        lambda: np.concatenate([array, array], axis),
        lambda: array[:0],
        lambda: array.ravel(),
        lambda: array[None],
        lambda: array.reshape(*array.shape, 1),
    ]
    return np.ascontiguousarray(ways[rng.integers(len(ways))]())


def _typed(array: Array, rng: np.random.Generator) -> Array:
    return array.astype(KINDS[rng.integers(len(KINDS))])


WAYS = {"full": _full, "some": _some, "share": _share, "drawn": _drawn, "column": _column, "moved": _moved,
        "bits": _bits, "shaped": _shaped, "typed": _typed}  # fmt: skip
SHARES = np.array([2, 6, 2, 3, 5, 3, 2, 1, 1]) / 25


def overwritten(array: Array, rng: np.random.Generator) -> tuple[str, Array]:
    """How an array was changed, and what it is now."""
    if not array.size:
        return "longer", np.ones([max(1, n) for n in array.shape], array.dtype)
    way = str(rng.choice(list(WAYS), p=SHARES))
    with np.errstate(all="ignore"):
        return way, WAYS[way](array, rng)
