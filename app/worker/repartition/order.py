"""The order in which records of several topics are copied: by time, as a partition merges its features and labels.

A record goes when nothing earlier can still come from the others: because they have delivered something later, or
because it was there at some moment up to which they have been read (as in `PartitionGroup`, for any number of sources
whose records need no places). So a backlog is copied in the order of time, however it was partitioned.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from faust.types import TP
from numpy.typing import NDArray

from riparian.app.partition.records.partition_group import Piece, RecordQueue

LATEST = np.iinfo(np.int64).max


class Ordered(NamedTuple):
    """Records that may be copied now.

    pieces : source -> its next records
    order : (n,) number of the source (in the order of `pieces`) of each record, in the order of time. Records of one
        source are in their own.
    """

    pieces: dict[TP, Piece]
    order: NDArray[np.int64]


class CopyOrder:
    """The records of several sources that were fetched and not copied.

    Parameters
    ----------
    positions : mapping of TP to int
        Offset from which each source is read.
    copies : mapping of TP to int, optional
        How many copies each record of a source becomes, where these are several.
    """

    def __init__(self, positions: Mapping[TP, int], copies: Mapping[TP, int] | None = None) -> None:
        self._copies = np.array([(copies or {}).get(tp, 1) for tp in positions], np.int64)
        self.buffers = {tp: RecordQueue(offset) for tp, offset in positions.items()}

    @property
    def n_waiting(self) -> int:
        return sum(map(len, self.buffers.values()))

    def release(
        self, limit: int, below: Mapping[TP, int] | None = None, done: Collection[TP] = (), *, force: bool = False
    ) -> Ordered:
        """Remove and return what may be copied.

        Parameters
        ----------
        limit : int
            Most copies; one record at least.
        below, done : mapping of TP to int, and sources, optional
            Where the sources ended at a moment, and which of them have been read that far: what stands below need not
            wait for these.
        force : bool
            Whether nothing waits any more.
        """
        last = {tp: buffer.last_time for tp, buffer in self.buffers.items()}
        later = min(last.values(), default=0)  # all sources have delivered something of this time, or later
        rest = min((time for tp, time in last.items() if tp not in done), default=LATEST)  # those that are not done
        times = []
        for tp, buffer in self.buffers.items():
            found = buffer.times()
            if force:
                times.append(found)
                continue
            n = min(buffer.n_certain, int(np.searchsorted(found, later, side="right")))
            if below is not None:
                most = len(buffer) if tp in done else buffer.n_certain
                there = int(np.searchsorted(buffer.offsets(), below[tp]))
                n = max(n, min(most, there, int(np.searchsorted(found, rest, side="right"))))
            times.append(found[:n])
        source = np.repeat(np.arange(len(times)), [len(one) for one in times])
        order = source[np.argsort(np.concatenate(times), kind="stable")] if times else source
        order = order[: max(1, int(np.searchsorted(np.cumsum(self._copies[order]), limit, side="right")))]
        counts = np.bincount(order, minlength=len(times))
        pieces = {tp: buffer.take(int(n)) for (tp, buffer), n in zip(self.buffers.items(), counts, strict=True)}
        return Ordered(pieces, order)

    def nothing_below(self, ends: Mapping[TP, int]) -> bool:
        """Whether no record that waits stands below these offsets."""
        return not any(len(buffer) and buffer.first_offset < ends[tp] for tp, buffer in self.buffers.items())
