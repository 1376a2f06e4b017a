"""The rows of one key, as many as there are keys: found by the key's hash, and written as segments of changed rows.

The index of what waits serves (waiting_index.py): a key that is touched goes to the end of its queue, so the oldest is
the one that was idle longest, and what was touched since a checkpoint stands behind the place where that was made.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.gaps import NEVER
from riparian.app.partition.join.ids import Bytes, Ints, new_key
from riparian.app.partition.join.segments import Columns, PendingCheckpoint, Segments
from riparian.app.partition.join.waiting import ARRIVED, NEXT_SERIAL, ROW_BITS, find_hash, take_out
from riparian.app.partition.join.waiting_index import HASH_BYTES, WaitingIndex, entry_columns
from riparian.app.partition.keys.fold import OUT, READ, Events, fold
from riparian.app.partition.keys.plan import Plan, columns_of, kept_of
from riparian.app.partition.keys.powers import table
from riparian.app.partition.mapped import grown, zeros
from riparian.models.contract import Floats

POWERS = table()


class KeyRows:
    """What is known of the keys of one kind."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._index = WaitingIndex.empty(new_key(), hashed=True)
        self._rows = np.zeros((0, len(plan.blank)))
        self._shares = np.zeros((len(plan.labels), 2))
        self._segments = Segments("rows")

    def __len__(self) -> int:
        return self._index.n_waiting

    @property
    def n_bytes(self) -> int:
        return self._index.n_bytes + self._rows.nbytes

    def settle(self, plan: Plan) -> None:
        """Other bounds from here on, or other aggregates: those that are new begin empty."""
        was, self.plan = self.plan, plan
        if was.labels is plan.labels or columns_of(was) == columns_of(plan):
            return
        old, new = kept_of(was, plan)
        rows = zeros((len(self._rows), len(plan.blank)))
        rows[:] = plan.blank
        rows[:, new] = self._rows[:, old]
        shares, self._rows = dict(zip(was.labels[:, OUT].tolist(), self._shares, strict=True)), rows
        self._shares = np.array([shares.get(out, np.zeros(2)) for out in plan.labels[:, OUT].tolist()]).reshape(-1, 2)
        self._segments.outdate()

    def fold(self, events: Events, hashes: NDArray[np.uint64], x: Floats, before: Floats, after: Floats) -> None:
        """Fold events into the rows of their keys, by the kernel. hashes : (n, 2) of the events' keys."""
        self._reserve(len(events.kind))
        self._fold(events, hashes, x, before, after, self.plan.most)

    def read(self, times: Ints, hashes: NDArray[np.uint64], before: Floats, after: Floats) -> None:
        """What is known of the keys of records of these times, (n,) ms: nothing changes, and no key goes."""
        n = len(times)
        past = np.full(n, -NEVER)  # of stream time, by which no key is idle
        events = Events(np.full(n, READ, np.int8), np.arange(n), times, past, np.zeros(n))
        self._fold(events, hashes, before, before, after, NEVER)

    def _fold(
        self, events: Events, hashes: NDArray[np.uint64], x: Floats, before: Floats, after: Floats, most: int
    ) -> None:
        plan = self.plan
        fold(
            self._index, self._rows, plan.blank, self._shares, plan.records, plan.labels, events, hashes.view(np.int64),
            x, POWERS, before, after, most, plan.idle,
        )  # fmt: skip

    def _reserve(self, n: int) -> None:
        self._index = self._index.reserve(n, 0, self.plan.most)
        if len(self._index.entries) > len(self._rows):
            self._rows = grown(self._rows, len(self._index.entries))

    def forget(self, hashed: NDArray[np.uint64]) -> bool:
        """Drop a key, (2,), also from what is written: segments keep what has left. Whether it was known."""
        self._segments.outdate()
        row = self.row_of(hashed)
        if row >= 0:
            self._rows[row] = self.plan.blank
            take_out(self._index, row)
        return row >= 0

    def row_of(self, hashed: NDArray[np.uint64]) -> int:
        """The row of a key, (2,); below 0 where it is not known."""
        return int(find_hash(self._index, *hashed.view(np.int64)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Copies of all rows, in order of the last touch: independent of places, batches and checkpoints."""
        rows = self._index.rows()
        return {
            "hashes": self._index.ids(rows)[0],
            "touched": self._index.entries[rows, ARRIVED],
            "sums": self._rows[rows],
            "shares": self._shares.copy(),
        }

    def checkpoint(self) -> PendingCheckpoint:
        """What a checkpoint writes now: rows that were touched since the last one. Call it between steps."""
        changed = self._segments.checkpoint(self._index, self._columns)
        numbers = np.array([int(self._index.at[NEXT_SERIAL]), self._segments.next], np.int64)
        return PendingCheckpoint({**changed.arrays, "numbers": numbers, "shares": self._shares.copy()}, changed.kept)

    def _columns(self, rows: Ints) -> Columns:
        return {**entry_columns(self._index, rows), "sums": self._rows[rows]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave, or what all checkpoints together came to. Nothing of a key that is new.

        ValueError where these are not what a table holds.
        """
        if "shares" not in arrays:
            return
        self._shares = _checked(arrays["shares"], self._shares.shape)
        if "sums" in arrays:
            text: Bytes = arrays["hashes"].copy()
            ends = np.arange(HASH_BYTES, len(text) + 1, HASH_BYTES)
            self._index, rows = self._index.refill(text, ends, arrays["touched"].copy())
            self._fill(self._index, rows, arrays, slice(None))
        else:
            serial, segment = arrays["numbers"].tolist()
            if min(serial, segment) < 0 or max(serial, segment << ROW_BITS) >= NEVER:
                raise ValueError("the numbers of its keys are damaged")
            self._segments.next = segment
            self._index = self._segments.restore(self._index, arrays, serial, True, self._fill)

    def _fill(self, index: WaitingIndex, rows: Ints, columns: Mapping[str, NDArray[Any]], which: Any) -> None:
        """The sums of keys that were saved."""
        self._index = index
        self._reserve(0)
        self._rows[rows] = _checked(columns["sums"][which], (len(rows), self._rows.shape[1]))


def _checked(array: NDArray[Any], shape: tuple[int, ...]) -> Floats:
    if array.shape != shape or array.dtype != np.float64 or np.isinf(array).any():
        raise ValueError("the sums of its keys are damaged")
    return array.copy()
