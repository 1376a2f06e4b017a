"""Ids of instances that were learned, so that what is delivered again is known for what it is.

An id takes 16 bytes: 64 bits of its hash, 32 of its features' and 32 of its label's. They stand in a ring in the order
in which they were joined, and are found by a table with open addressing; an id that is joined again takes a new place.
Two ids of a million have the same hash once in forty million streams.

They are forgotten at `join.horizon` after they were joined, or up to a 64th of it later, and before that, which is
counted, where there are more than may be. All of it depends on the order of the records alone.

Checkpoints write blocks of BLOCK places. A full one never changes, so it is written once.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.gaps import NEVER
from riparian.app.partition.join.ids import Hashes, Ints
from riparian.app.partition.join.remembering import FIRST, GRAINS, N_REMEMBERED, N_TIMES, NEXT, place_all
from riparian.app.partition.mapped import zeros

BLOCK = 2_048
LEAST = 1_024
NAME = "joined"


class JoinedIds(NamedTuple):
    """What was joined, with room for C.

    ring : (C, 2) uint64, C a power of two: position p, counted since the stream began, stands in row p mod C.
    slots : (2 C,) uint32, the table: row + 1, 0 where free.
    times : (2 GRAINS, 2) int64: from when on, in ms of stream time, and from which position on ids were joined.
    at : the numbers that remembering.py names.
    key : (1,) uint64, of the table.
    """

    ring: Hashes
    slots: NDArray[np.uint32]
    times: Ints
    at: Ints
    key: Hashes

    @classmethod
    def empty(cls, key: Hashes, first: int = 0, room: int = LEAST) -> "JoinedIds":
        """None yet, with room for so many. first : the next position."""
        room = 1 << (max(room, LEAST) - 1).bit_length()
        at = np.zeros(N_REMEMBERED, np.int64)
        at[[FIRST, NEXT]] = first
        times = np.zeros((2 * GRAINS, 2), np.int64)
        return cls(zeros((room, 2), np.uint64), np.zeros(2 * room, np.uint32), times, at, key[:1] | np.uint64(1))

    def __len__(self) -> int:
        return int(self.at[NEXT] - self.at[FIRST])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self)

    def reserve(self, n: int, most: int) -> "JoinedIds":
        """One (this, or a larger copy) with room for n more, where there are at most `most`, or as many as now."""
        known = len(self)
        wanted = min(known + n, max(most, known))
        if wanted <= len(self.ring):
            return self
        larger = JoinedIds.empty(self.key, int(self.at[FIRST]), max(wanted, 2 * len(self.ring)))
        first, stop = self.at[[FIRST, NEXT]].tolist()
        for start in range(first, stop, BLOCK):
            place_all(larger, self.part(start, min(start + BLOCK, stop)))
        larger.times[:], larger.at[:] = self.times, self.at
        return larger

    def spare(self, most: int) -> int:
        """For how many more there is room, where there are at most `most`, or as many as now."""
        known = len(self)
        return NEVER if max(most, known) <= len(self.ring) else len(self.ring) - known

    def part(self, start: int, stop: int) -> Hashes:
        """A copy of what stands at positions start to stop."""
        found: Hashes = self.ring[np.arange(start, stop) & (len(self.ring) - 1)]
        return found

    def numbers(self) -> Ints:
        """Positions and times, as they are written."""
        return np.concatenate((self.at[[FIRST, NEXT]], self.times[: self.at[N_TIMES]].ravel()))

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of everything; nothing before the first that was joined."""
        first, stop = self.at[[FIRST, NEXT]].tolist()
        return {NAME: self.numbers(), f"{NAME}/all": self.part(first, stop)} if stop else {}

    @property
    def n_full_blocks(self) -> int:
        return int(self.at[NEXT]) // BLOCK

    def checkpoint(self, written: int) -> tuple[dict[str, NDArray[Any]], list[str]]:
        """New or changed arrays, and names of those that have not changed. written : full blocks at the last one."""
        first, stop = self.at[[FIRST, NEXT]].tolist()
        if not stop:
            return {}, []
        blocks = range(first // BLOCK, -(-stop // BLOCK))
        arrays: dict[str, NDArray[Any]] = {NAME: self.numbers()}
        for k in blocks[max(0, written - blocks.start) :]:
            arrays[f"{NAME}/{k}"] = self.part(k * BLOCK, min((k + 1) * BLOCK, stop))
        return arrays, [f"{NAME}/{k}" for k in blocks if k < written]

    @classmethod
    def restored(cls, key: Hashes, arrays: Mapping[str, NDArray[Any]]) -> "JoinedIds":
        """From what `state` gave, or what all checkpoints together came to. ValueError where it is damaged."""
        numbers = arrays.get(NAME)
        if numbers is None:
            return cls.empty(key)
        if numbers.ndim != 1 or numbers.dtype != np.int64 or len(numbers) < 2 or len(numbers) % 2:
            raise ValueError("the numbers of joined ids are damaged")
        (first, stop), times = numbers[:2].tolist(), numbers[2:].reshape(-1, 2)
        bounds = np.concatenate(([first], times[:, 1], [stop]))
        sound = 0 <= first <= stop < NEVER and stop - first <= 2**31 and len(times) <= 2 * GRAINS
        if not sound or (np.diff(bounds[1:]) < 0).any() or (np.diff(times[:, 0]) < 0).any():
            raise ValueError("the numbers of joined ids are damaged")
        if (stop > first) != (len(times) > 0) or (len(times) > 0 and times[0, 1] > first):
            raise ValueError("the numbers of joined ids are damaged")
        if f"{NAME}/all" in arrays:
            parts = [arrays[f"{NAME}/all"]]
        else:
            blocks = range(first // BLOCK, -(-stop // BLOCK)) if stop > first else range(0)
            if any(f"{NAME}/{k}" not in arrays for k in blocks):
                raise ValueError("blocks of joined ids are missing")
            parts = [arrays[f"{NAME}/{k}"] for k in blocks]
            if parts:
                parts[0] = parts[0][first - blocks.start * BLOCK :]
        if any(part.dtype != np.uint64 or part.shape[1:] != (2,) for part in parts):
            raise ValueError("the joined ids are damaged")
        if sum(map(len, parts)) != stop - first:
            raise ValueError("the joined ids are damaged")
        joined = cls.empty(key, first, stop - first)
        for part in parts:
            place_all(joined, np.ascontiguousarray(part))
        joined.times[: len(times)] = times
        joined.at[N_TIMES] = len(times)
        return joined
