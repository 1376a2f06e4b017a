"""The states of an ensemble's members as one: each array of theirs stacked, padded with zeros.

A stacked array is (slots, capacity, ...), its capacity the power of two at or above the longest member's, so that one
member that grows does not move the others: a checkpoint stores what has changed. What a member's arrays measure without
padding stands in `shapes`. Both follow from the states alone, never from how programs were cut.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

PREFIX = "member_"

State = Mapping[str, NDArray[Any]]


def _stacked_shape(arrays: Sequence[NDArray[Any]]) -> tuple[int, ...]:
    sizes = np.array([array.shape for array in arrays], np.int64).max(axis=0)
    if len(sizes):
        sizes[0] = 1 << (int(sizes[0]) - 1).bit_length() if sizes[0] else 0
    return (len(arrays), *(int(size) for size in sizes))


def stack(states: Sequence[State]) -> dict[str, NDArray[Any]]:
    """shapes : (slots, all dimensions of all fields, by their names) int64; a stacked array a field, named PREFIX and
    its name."""
    names = sorted(states[0])
    shapes = np.array([[n for name in names for n in state[name].shape] for state in states], np.int64)
    found: dict[str, NDArray[Any]] = {"shapes": shapes}
    for name in names:
        arrays = [state[name] for state in states]
        stacked = np.zeros(_stacked_shape(arrays), arrays[0].dtype)
        for slot, array in zip(stacked, arrays, strict=True):
            slot[tuple(map(slice, array.shape))] = array
        found[PREFIX + name] = stacked
    return found


def stacked_bytes(states: Sequence[State]) -> int:
    """Bytes of what `stack` makes."""
    total = 8 * len(states) * sum(array.ndim for array in states[0].values())
    for name in states[0]:
        arrays = [state[name] for state in states]
        total += int(np.prod(_stacked_shape(arrays))) * arrays[0].itemsize
    return total


def unstack(state: State, slot: int) -> dict[str, NDArray[Any]]:
    """The state of the member in a slot, as views."""
    sizes = iter(state["shapes"][slot].tolist())
    found = {}
    for name in sorted(name for name in state if name.startswith(PREFIX)):
        part = state[name][slot]
        found[name.removeprefix(PREFIX)] = part[tuple(slice(next(sizes)) for _ in range(part.ndim))]
    return found
