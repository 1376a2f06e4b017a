"""Arrays of a state, and what is kept beside instances, by their names, whose parts are set apart by slashes."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Program

EMPTY = Program(np.zeros(0, np.int8), np.zeros(0, np.int32), np.zeros(0), np.zeros(0))


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, by what follows it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def over(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays by their names behind `prefix`."""
    return {prefix + name: array for name, array in arrays.items()}


def kept_names(role: str, kept: Iterable[object]) -> list[str]:
    """Of the arrays that a model keeps beside instances, in the pending store."""
    return [f"{role}/{one}" for one in kept]


def shifted_name(role: str) -> str:
    """Where the pending store keeps the probabilities of a model where they are shifted."""
    return f"{role}/shifted"


def renamed(name: str, names: Mapping[str, str]) -> str:
    """The name of an output, where its model is called otherwise. names : of models, before -> from here on."""
    role, slash, i = name.partition("/")
    return names.get(role, role) + slash + i
