"""Arrays of a state: the type that has those of several parts, a part read back from it, and room for more."""

from collections import namedtuple
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray


def joined(name: str, *fields: Iterable[str]) -> Any:
    """A NamedTuple of the fields of several parts, in their order."""
    return namedtuple(name, [field for part in fields for field in part])


Joined = TypeVar("Joined", bound=tuple[Any, ...])


@cache
def _types(kind: Any) -> tuple[Any, ...]:
    """Of each field its numbers' type, NDArray[...]; None of one that is no array."""
    hints = (get_args(hint) for hint in get_type_hints(kind).values())
    return tuple(get_args(hint[1])[0] if hint else None for hint in hints)


def zeros(kind: type[Joined], *shapes: Any) -> Joined:
    """A NamedTuple of arrays of zeros, of the types that its fields say. shapes : of each, or what is no array."""
    made = zip(shapes, _types(kind), strict=True)
    return kind(*(shape if of is None else np.zeros(shape, of) for shape, of in made))


@cache
def _named(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


def named(name: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The arrays as a NamedTuple called `name`."""
    return _named(name, tuple(arrays))(**arrays)


def prefixed(prefix: str, kind: Any) -> list[str]:
    """The fields of a NamedTuple, each behind `prefix`."""
    return [prefix + field for field in kind._fields]


def copied(state: Mapping[str, NDArray[Any]], like: Any, prefix: str = "") -> Any:
    """The part of a state that `like` is, of the same types: copies of the arrays under its fields behind `prefix`."""
    fields = zip(like._fields, like, strict=True)
    return type(like)(*(np.array(state[prefix + field], array.dtype, order="C") for field, array in fields))


def enlarge(array: NDArray[Any], needed: int) -> NDArray[Any]:
    """`array`, or a copy with room for `needed` rows, zero beyond what was there."""
    if needed <= len(array):
        return array
    larger = np.zeros((max(needed, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def grown(array: NDArray[Any], *shape: int, fill: float = 0) -> NDArray[Any]:
    """A copy of that shape, filled beyond what was there."""
    larger = np.full(shape, fill, array.dtype)
    larger[tuple(slice(size) for size in array.shape)] = array
    return larger


def rewound(n: int, old: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """The last of n rows that the ring `old` took, laid out for another length."""
    ring = np.zeros((length, old.shape[1]))
    for i in range(max(0, n - min(len(old), length)), n):
        ring[i % length] = old[i % len(old)]
    return ring
