"""The index of what waits: each instance, or label, is found by its id and in order of arrival.

Everything is a flat array, so that one of a million costs little more than one of ten thousand. (With a dictionary of
ids a label took 0.8 µs at ten thousand and 6 at a million, and every two million the dictionary made its table anew,
for 0.3 s.) The kernels that change these arrays are in waiting.py.

- An id is found by its hash in a table with open addressing, and then compared byte by byte: two ids are never taken
  for one.
- A queue holds rows in order of arrival, with -1 where one has left. The oldest is the first that is not -1.
- What leaves after it was part of a checkpoint is noted by its *home*, its place there (segments.py).

Queue and text are compacted when they are full and half of them is not needed any more. So a record costs the same on
average, however many wait.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.gaps import NEVER
from riparian.app.partition.join.ids import Bytes, Ints, gathered, tags
from riparian.app.partition.join.waiting import (
    ARRIVED,
    ENTRY_COLUMNS,
    EXTRA_LIVE,
    HASHED,
    HEAD,
    HOME,
    LENGTH,
    MARK,
    N_AT,
    N_FREE,
    N_LEFT,
    NEXT_SERIAL,
    PLACE,
    SERIAL,
    SINCE,
    START,
    TAIL,
    TEXT_END,
    TEXT_LIVE,
    WEIGHED,
    Batch,
    N,
    ascends,
    compact,
    put_all,
    put_hashes,
    rehash,
)
from riparian.app.partition.mapped import give_back, grown, next_size, zeros

Rows = NDArray[np.int32]

LEAST_ROWS, LEAST_SLOTS = 1024, 256
HASH_BYTES = 16


class WaitingIndex(NamedTuple):
    """What waits, with room for C rows.

    slots : (power of two,) int64, the hash table: tag << 32 | row + 1, 0 where free; at most three of four are taken.
    entries : (C, 8) int64, by row, in the columns
        TAG : 31 bits of the id's hash.
        START, LENGTH : of the id in `text`; of a hash its first word, and 0.
        PLACE : in `queue`.
        ARRIVED : ms of stream time.
        SERIAL : number of the arrival since the stream began.
        HOME : place in the last checkpoint (app/partition/join/segments.py), -1 where it is not in there.
        MARK : 32 bits of the instance's features; of a hash its second word.
    queue : int32, rows in order of arrival, -1 where one has left.
    text : uint8, ids in order of arrival.
    free : (C,) int32, a stack of free rows.
    left : (C,) int64, homes of those that left since the last checkpoint.
    key : (2,) uint64, of the hash.
    at : (14,) int64, the numbers that waiting.py names.
    extra : (C,) int64, by row: bytes beside those that all instances take; (0,) where there are none.
    """

    slots: Ints
    entries: Ints
    queue: Rows
    text: Bytes
    free: Rows
    left: Ints
    key: NDArray[np.uint64]
    at: Ints
    extra: Ints

    @classmethod
    def empty(cls, key: NDArray[np.uint64], weighed: bool = False, hashed: bool = False) -> "WaitingIndex":
        """An index without room. weighed : whether rows have bytes beside those that all have. hashed : whether ids are
        hashes of HASH_BYTES."""
        at = np.zeros(N_AT, np.int64)
        at[WEIGHED], at[HASHED] = weighed, hashed
        return cls(
            slots=np.zeros(LEAST_SLOTS, np.int64),
            entries=np.zeros((0, ENTRY_COLUMNS), np.int64),
            queue=np.zeros(0, np.int32),
            text=np.zeros(0, np.uint8),
            free=np.zeros(0, np.int32),
            left=np.zeros(0, np.int64),
            key=key,
            at=at,
            extra=np.zeros(0, np.int64),
        )

    @property
    def n_waiting(self) -> int:
        return int(self.at[N])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self)

    def reserve(self, n: int, n_bytes: int, most: int = NEVER) -> "WaitingIndex":
        """An index (this one, or a larger copy) with room for n more rows, whose ids have n_bytes. most : that are in
        use at once; each beyond it takes the row of one that has left."""
        index, at = self, self.at.tolist()
        rows, n_text = at[N] + n, at[TEXT_LIVE] + n_bytes
        used = min(rows, most)
        if at[N_FREE] < used - at[N]:
            wanted = max(next_size(self.entries, len(self.entries) + n), LEAST_ROWS)
            index = index._with_rows(min(wanted, most))
        if 4 * used > 3 * len(index.slots):
            slots = np.zeros(1 << (4 * used // 3).bit_length(), np.int64)
            rehash(index.slots, slots)
            index = index._replace(slots=slots)
        if at[TAIL] + n > len(index.queue) < 2 * rows:
            index = index._replace(queue=grown(index.queue, max(3 * rows, LEAST_ROWS)))
        if at[TEXT_END] + n_bytes > len(index.text) < 2 * n_text:
            index = index._replace(text=grown(index.text, max(3 * n_text, LEAST_ROWS)))
        if at[TAIL] + n > len(index.queue) or at[TEXT_END] + n_bytes > len(index.text):
            compact(index, index.queue, index.text)
            give_back()
        return index

    def spare(self) -> tuple[int, int]:
        """For how many rows more, and bytes of their ids, there is room whatever happens to those that wait."""
        at = self.at.tolist()
        rows = min(at[N_FREE], 3 * len(self.slots) // 4 - at[N], len(self.queue) - at[TAIL])
        return rows, len(self.text) - at[TEXT_END]

    def in_order(self, next_serial: int) -> "WaitingIndex":
        """This index with its queue in order of arrival, where rows of other numbers were put into it in any order, and
        with the number of the next. ValueError where these are no numbers of arrivals."""
        waiting, index = self.queue[: self.at[TAIL]], self
        if not ascends(self, next_serial):
            serials = zeros(waiting.shape, np.int64)
            np.take(self.entries[:, SERIAL], waiting, out=serials, mode="clip")
            waiting[:] = waiting[np.argsort(serials, kind="stable")]
            index = self._replace(text=zeros(self.text.shape, np.uint8))
            compact(self, self.queue, index.text)
        if not ascends(index, next_serial):
            raise ValueError("the numbers of what waits are damaged")  # a kernel would look for the next one for ever
        self.at[NEXT_SERIAL] = next_serial
        give_back()
        return index

    def _with_rows(self, capacity: int) -> "WaitingIndex":
        old, n_free = len(self.entries), int(self.at[N_FREE])
        free, last = grown(self.free, capacity), self.free[:n_free].copy()
        # New rows at the bottom of the stack, the lowest on top: those that were used are taken first.
        free[: capacity - old] = np.arange(capacity - 1, old - 1, -1)
        free[capacity - old : capacity - old + n_free] = last
        self.at[N_FREE] += capacity - old
        index = self._replace(entries=grown(self.entries, capacity), left=grown(self.left, capacity), free=free)
        index.entries[old:, SERIAL] = -1  # of no arrival, until there is one
        return index._replace(extra=grown(self.extra, capacity)) if self.at[WEIGHED] else index

    def weigh(self, rows: Ints, extra: Ints) -> None:
        """Say how many bytes rows take beside those that all take; they wait, and have had none of these so far."""
        self.extra[rows] = extra
        self.at[EXTRA_LIVE] += extra.sum()

    def take(self, n: int) -> Rows:
        """n free rows, ascending where they are fresh; `reserve` comes before."""
        stop = int(self.at[N_FREE])
        self.at[N_FREE] -= n
        return self.free[stop - n : stop][::-1].copy()

    def rows(self) -> Ints:
        """Rows of all that wait, in order of arrival."""
        queue = self.queue[self.at[HEAD] : self.at[TAIL]]
        return queue[queue >= 0].astype(np.int64)

    def fresh(self) -> Ints:
        """Rows of those that arrived since the last call and still wait, in order of arrival."""
        since = self.queue[self.at[SINCE] : self.at[TAIL]]
        self.at[SINCE] = self.at[TAIL]
        return since[since >= 0].astype(np.int64)

    def not_written(self, rows: list[Ints]) -> Ints:
        """Of rows that were to be written anew, those that still wait, and are not new themselves."""
        if not rows:
            return np.zeros(0, np.int64)
        found = np.unique(np.concatenate(rows))
        place = self.entries[found, PLACE]
        there = place < min(self.at[SINCE], len(self.queue))
        found, place = found[there], place[there]
        waiting: Ints = found[(self.queue[place] == found) & (self.entries[found, HOME] < 0)]
        return waiting

    def leavers(self) -> Ints:
        """Homes of those that have left since the last call (`left`), ascending."""
        n_left, self.at[N_LEFT] = int(self.at[N_LEFT]), 0
        return np.sort(self.left[:n_left])

    def ids(self, rows: Ints) -> tuple[Bytes, Ints]:
        """Ids of rows: UTF-8, or hashes, in one array, and the end of each."""
        if self.at[HASHED]:
            return self.entries[rows][:, (START, MARK)].reshape(-1).view(np.uint8), _ends_of_hashes(len(rows))
        starts, lengths = self.entries[rows, START], self.entries[rows, LENGTH]
        return gathered(self.text, starts, lengths)

    def refill(self, text: Bytes, ends: Ints, arrived: Ints) -> tuple["WaitingIndex", Ints]:
        """An empty index filled with what waits, in order of arrival; the index and the rows.

        ValueError where these cannot be ids: kernels that were given them would write anywhere.
        """
        lengths = np.diff(ends, prepend=0)
        kinds = text.dtype == np.uint8 and ends.dtype == arrived.dtype == np.int64
        flat = text.ndim == ends.ndim == arrived.ndim == 1 and len(ends) == len(arrived)
        if not (kinds and flat and (lengths >= 0).all() and lengths.sum() == len(text)):
            raise ValueError("the ids that wait are damaged")
        if self.at[HASHED]:
            if (ends != _ends_of_hashes(len(ends))).any():
                raise ValueError("the hashes of its keys are damaged")
            index = self.reserve(len(ends), 0)
            rows = index.take(len(ends))
            put_hashes(index, rows, text.view(np.int64).reshape(-1, 2), arrived)
            return index, rows.astype(np.int64)
        index = self.reserve(len(ends), len(text))
        rows = index.take(len(ends))
        put_all(index, rows, Batch(text, ends, tags(index.key, text, ends), arrived, np.zeros(0)))
        return index, rows.astype(np.int64)


def _ends_of_hashes(n: int) -> Ints:
    return np.arange(1, n + 1, dtype=np.int64) * HASH_BYTES


def entry_columns(index: WaitingIndex, rows: Ints) -> dict[str, NDArray[Any]]:
    """What a segment has of rows, whatever they are of."""
    text, ends = index.ids(rows)
    lengths = np.diff(ends, prepend=0).astype(np.int32)
    return {
        "serial": index.entries[rows, SERIAL],
        "arrived": index.entries[rows, ARRIVED],
        "lengths": lengths,
        "ids": text,
    }
