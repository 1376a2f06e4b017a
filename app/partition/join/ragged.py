"""The instances of waiting bags: a slab whose rows have different lengths.

Bags are appended to one array, in which the instances of a bag lie together. What leaves makes a gap. When there is no
room at the end, the bags that wait are moved together, or into a larger array. So a bag takes only the room of its own
instances, however large the largest bag is, and moving costs a constant time per instance on average.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.ids import Ints
from riparian.app.partition.join.room import PLACE_BYTES
from riparian.app.partition.mapped import grown, zeros
from riparian.models.contract import Bags, Floats, indices


class Ragged:
    """Bags by row."""

    def __init__(self, n_features: int) -> None:
        self.bags = Bags(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, n_features)))
        self._end = 0

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.bags)

    def weights(self, sizes: Ints) -> Ints:
        """Bytes that bags of these sizes take."""
        return PLACE_BYTES + sizes * np.int64(8 * self.bags.x.shape[1])

    def reserve(self, capacity: int) -> None:
        """Room for more rows."""
        start, size, x = self.bags
        self.bags = Bags(grown(start, capacity), grown(size, capacity), x)

    def put(self, rows: NDArray[Any], sizes: Ints, x: Floats, waiting: Callable[[], Ints]) -> None:
        """Put bags into rows. x : (sum of sizes, d), one bag after the other. waiting : gives the rows that are still
        needed; what stands in others may be overwritten."""
        start, size, room = self.bags
        if self._end + len(x) > len(room):
            live = waiting()
            pieces = indices(start[live], size[live])
            needed = len(pieces) + len(x)
            moved = zeros((2 * needed, room.shape[1])) if 2 * needed > len(room) else room
            moved[: len(pieces)] = room[pieces]
            start[live] = np.cumsum(size[live]) - size[live]
            self.bags, self._end = Bags(start, size, moved), len(pieces)
        self.bags.x[self._end : self._end + len(x)] = x
        size[rows] = sizes
        start[rows] = self._end + np.cumsum(sizes) - sizes
        self._end += len(x)
