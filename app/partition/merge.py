"""One order from two topics: features and labels of a partition, merged by Kafka record timestamp.

Features go first on a tie. A record is released when nothing earlier can still come from the other topic: because the
other topic has delivered something later, or because the caller knows that the other topic has been read to where it
ended at a moment when the record was there (`Ends`). So a backlog, a replay and the live stream come out in the same
order, wherever the fetched batches were cut; and what was acknowledged in one topic before it was sent to the other
comes first.

Timestamps of one topic may run backwards (several producers, clock skew); offsets are the order that counts within a
topic. The *effective* time of a record is therefore the running maximum of the timestamps up to it.

On a restart the interleaving that really happened, read back from the predictions topic, overrides the timestamps
(`Script`), up to the last prediction that was sent.
"""

from collections import deque
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topics.records import RawBatch

Ints = NDArray[np.int64]

EMPTY = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """Consecutive records of one topic. offsets : (n,) int64; times : (n,) int64 effective milliseconds."""

    raw: RawBatch
    offsets: Ints
    times: Ints

    def part(self, start: int, stop: int | None = None) -> "Piece":
        """Records start to stop."""
        return Piece(part(self.raw, start, stop), self.offsets[start:stop], self.times[start:stop])


def part(raw: RawBatch, start: int, stop: int | None = None) -> RawBatch:
    """Records start to stop of a batch."""
    kept = slice(start, stop)
    return RawBatch(raw.offsets[kept], raw.timestamps[kept], raw.keys[kept], raw.values[kept])


def concatenate(batches: list[RawBatch]) -> RawBatch:
    """Consecutive batches as one."""
    if len(batches) == 1:
        return batches[0]
    offsets, timestamps, keys, values = (list(chain.from_iterable(column)) for column in zip(*batches, strict=True))
    return RawBatch(offsets, timestamps, keys, values)


def empty_piece() -> Piece:
    return Piece(RawBatch([], [], [], []), EMPTY, EMPTY)


class Buffer:
    """The records of one topic that were fetched and not yet released.

    Parameters
    ----------
    next_offset : int
        Offset from which on records are taken; earlier ones are skipped as known.
    time : int
        Effective time (ms) of the last record before `next_offset`.
    """

    def __init__(self, next_offset: int = 0, time: int = 0) -> None:
        self.next_offset = next_offset
        self.last_time = time  # effective time of the last record that ever arrived
        self._pieces: deque[Piece] = deque()
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def first_offset(self) -> int:
        """Offset of the first record that waits here; the next one, where none does."""
        return int(self._pieces[0].offsets[0]) if self._pieces else self.next_offset

    def add(self, raw: RawBatch) -> int:
        """Append fetched records, skipping those below `next_offset`. Returns how many were skipped."""
        offsets = np.asarray(raw.offsets, dtype=np.int64)
        skipped = int(np.searchsorted(offsets, self.next_offset, side="left"))
        if skipped == len(offsets):
            return skipped
        if skipped:
            offsets = offsets[skipped:]
            raw = part(raw, skipped)
        times = np.asarray(raw.timestamps, dtype=np.int64)
        if times[0] < self.last_time:
            times[0] = self.last_time
        times = np.maximum.accumulate(times)
        self._pieces.append(Piece(raw, offsets, times))
        self._n += len(offsets)
        self.next_offset = int(offsets[-1]) + 1
        self.last_time = int(times[-1])
        return skipped

    def _column(self, index: int) -> Ints:
        if not self._pieces:
            return EMPTY
        if len(self._pieces) == 1:
            return self._pieces[0][index]  # type: ignore[return-value]
        return np.concatenate([piece[index] for piece in self._pieces])

    def times(self) -> Ints:
        return self._column(2)

    def offsets(self) -> Ints:
        return self._column(1)

    def take(self, n: int) -> Piece:
        """Remove and return the first n records."""
        if n == 0:
            return empty_piece()
        self._n -= n
        taken: list[Piece] = []
        while n:
            piece = self._pieces.popleft()
            size = len(piece.offsets)
            if size > n:
                head, tail = piece.part(0, n), piece.part(n)
                self._pieces.appendleft(tail)
                piece, size = head, n
            taken.append(piece)
            n -= size
        if len(taken) == 1:
            return taken[0]
        return Piece(
            concatenate([piece.raw for piece in taken]),
            np.concatenate([piece.offsets for piece in taken]),
            np.concatenate([piece.times for piece in taken]),
        )


class Script(NamedTuple):
    """An interleaving that happened: feature `offsets[i]` was predicted when `label_offsets[i]` was the next label."""

    offsets: Ints
    label_offsets: Ints


class Ends(NamedTuple):
    """Offsets below which records of a topic need not wait for the other one: where the topic ended at a moment up to
    which the other one has been read; 0 where it has not."""

    features: int
    labels: int


EVERYTHING = Ends(2**62, 2**62)


class Release(NamedTuple):
    """What may be processed now: `labels_before[i]` of the labels come before feature i."""

    features: Piece
    labels: Piece
    labels_before: Ints


class Merge:
    """The merged order of one partition's two topics.

    Parameters
    ----------
    features, labels : Buffer
    script : Script, optional
        The recorded interleaving to follow before timestamps decide.
    limit : int
        Largest number of features, and of labels, in one release.
    """

    def __init__(self, features: Buffer, labels: Buffer, script: Script | None = None, limit: int = 8192) -> None:
        self.features = features
        self.labels = labels
        self.limit = limit
        self.script = script if script is not None and len(script.offsets) else None

    def release(self, ends: Ends | None = None) -> Release:
        """Remove and return what may be processed.

        ends : below which records go without waiting.
        """
        n_f, n_l, labels_before = self._counts(ends)
        features = self.features.take(n_f)
        if self.script is not None and n_f and features.offsets[-1] >= self.script.offsets[-1]:
            self.script = None
        return Release(features, self.labels.take(n_l), labels_before)

    def _counts(self, ends: Ends | None) -> tuple[int, int, Ints]:
        if self.script is not None and self.features.first_offset > self.script.offsets[-1]:
            self.script = None  # what it tells of is gone from the topic
        if self.script is not None:
            return self._scripted(self.script)
        f_times, l_times = self.features.times(), self.labels.times()
        n_f = int(np.searchsorted(f_times, self.labels.last_time, side="right"))
        n_l = int(np.searchsorted(l_times, self.features.last_time, side="left"))
        if ends is not None:
            n_f = max(n_f, int(np.searchsorted(self.features.offsets(), ends.features)))
            n_l = max(n_l, int(np.searchsorted(self.labels.offsets(), ends.labels)))
        # Cut to the limit without breaking the order: what stays behind must come after all that goes.
        if n_f > self.limit:
            n_f = self.limit
            n_l = min(n_l, int(np.searchsorted(l_times, f_times[n_f], side="left")))
        if n_l > self.limit:
            n_l = self.limit
            n_f = min(n_f, int(np.searchsorted(f_times, l_times[n_l], side="right")))
        return n_f, n_l, np.searchsorted(l_times[:n_l], f_times[:n_f], side="left").astype(np.int64)

    def _scripted(self, script: Script) -> tuple[int, int, Ints]:
        f_offsets, l_offsets = self.features.offsets(), self.labels.offsets()
        n_f = int(np.searchsorted(f_offsets, script.offsets[-1], side="right"))
        # A feature record without a prediction (a dead letter) waits for the next one that has one.
        at = np.searchsorted(script.offsets, f_offsets[:n_f], side="left")
        wanted = script.label_offsets[at]
        n_f = min(int(np.searchsorted(wanted, self.labels.next_offset, side="right")), self.limit)
        if n_f == 0:
            # The labels up to the first wanted one may go ahead, so that a full buffer cannot stand still.
            n_l = int(np.searchsorted(l_offsets, wanted[0], side="left")) if len(wanted) else 0
            return 0, min(n_l, self.limit), EMPTY
        labels_before = np.searchsorted(l_offsets, wanted[:n_f], side="left").astype(np.int64)
        told = script.offsets[at[:n_f]] == f_offsets[:n_f]
        if not told.all():
            # Where it is no dead letter, but its prediction was lost: between its neighbours, time is the best guess.
            by_time = np.searchsorted(self.labels.times(), self.features.times()[:n_f], side="left")
            earliest = np.maximum.accumulate(np.where(told, labels_before, 0))
            labels_before = np.where(told, labels_before, np.clip(by_time, earliest, labels_before))
        n_l = int(labels_before[-1])
        if n_l > self.limit:
            n_f = int(np.searchsorted(labels_before, self.limit, side="right"))
            n_l = self.limit
        return n_f, n_l, labels_before[:n_f]
