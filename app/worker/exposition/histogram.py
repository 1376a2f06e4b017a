"""Prometheus histograms that take a whole array at once.

The client library's own histogram takes one value at a time, at about a microsecond each; a step has thousands of
values. Here an array is sorted into buckets by numpy, and the counts are handed out when somebody scrapes.
"""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from prometheus_client.utils import floatToGoString


class Histogram:
    """Counts of values by bucket, and their sum, since it was made.

    Parameters
    ----------
    bounds : sequence of float
        Upper bounds of the buckets, ascending, each inclusive (Prometheus' `le`); above the last is `+Inf`.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = np.asarray(bounds, dtype=np.float64)
        self._list: list[float] = self._bounds.tolist()
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._list, value)] += 1
        self.sum += value

    def observe_many(self, values: ArrayLike) -> None:
        """Count an array of values, none of them NaN. O(n log buckets)."""
        array = np.asarray(values, dtype=np.float64)
        if not len(array):
            return
        buckets = np.searchsorted(self._bounds, array, side="left")
        self._counts += np.bincount(buckets, minlength=len(self._counts))
        self.sum += float(array.sum())

    def buckets(self) -> list[tuple[str, float]]:
        """(`le`, values at or below it), as an exposition wants them; the last is all of them."""
        cumulative = np.cumsum(self._counts).tolist()
        bounds = [*map(floatToGoString, self._list), "+Inf"]
        return list(zip(bounds, map(float, cumulative), strict=True))
