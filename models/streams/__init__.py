"""Seeded generators of the field's synthetic streams, each with the concept as a parameter.

Each module has `source(seed, **parameters) -> Source`, a stream that goes on. Same seed and parameters give the same
bits, however the instances are taken: all at once or in pieces. `registry` lists the modules by name, `concept_drift`
turns one stream into another.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Stream(NamedTuple):
    """Labelled instances.

    x : (n, d) float64, nominal features as codes.
    y : (n,) float64 class codes, or targets.
    n_values : d int, 0 for a numeric feature, else the number of its codes.
    names : of the d features.
    n_classes : int, 0 for a regression.
    """

    x: Floats
    y: Floats
    n_values: tuple[int, ...]
    names: tuple[str, ...]
    n_classes: int


class EndlessStream(NamedTuple):
    """A stream that goes on: its schema as in `Stream`, and what makes the next instances.

    fill : writes the next len(x) instances into x (n, d) and y (n,); keeps the state of the stream.
    classes : their names, where they have some.
    ids : of the names, those that are no features: a time, or whom an instance belongs to.
    """

    fill: Callable[[Floats, Floats], None]
    n_values: tuple[int, ...]
    names: tuple[str, ...]
    n_classes: int
    classes: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def take(self, n: int) -> Stream:
        """The next n instances."""
        x, y = np.empty((n, len(self.names))), np.empty(n)
        self.fill(x, y)
        return Stream(x, y, self.n_values, self.names, self.n_classes)


def numbered(d: int) -> tuple[str, ...]:
    """Names of d features: x1, x2, …"""
    return tuple(f"x{j + 1}" for j in range(d))
