"""Arrays of a state by their names, whose parts are set apart by slashes."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names begin with `prefix`, by what follows it."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def over(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays by their names behind `prefix`."""
    return {prefix + name: array for name, array in arrays.items()}
