"""Seeded generators of the field's synthetic streams: Agrawal, LED, random RBF with moving centroids.

Each module has `generate(n, seed, **parameters) -> Stream`. Same seed and parameters give the same bits, and the
first rows of a longer stream are those of a shorter one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Stream(NamedTuple):
    """Labelled instances.

    x : (n, d) float64, nominal features as codes. y : (n,) float64 class codes. n_values : d int, 0 for a numeric
    feature, else the number of its codes. names : of the d features. n_classes : int.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    n_values: tuple[int, ...]
    names: tuple[str, ...]
    n_classes: int
