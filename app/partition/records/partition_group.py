"""One order from several input logs: the records of a partition's topics, as the fold applies them.

A log takes part by one of two rules (`topics.names`). Logs *by timestamp*, features and labels, are merged by Kafka
record timestamp, the earlier one in the list first on a tie. A record is released when nothing earlier can still come
from the others: because they have delivered something later, or because the caller knows that the record was there at
some moment, and that the others have been read up to where they ended at that moment (`Ends`). So a backlog, a replay
and the live stream come out in the same order, wherever the fetched batches were cut; and what was acknowledged in one
topic before it was sent to another comes first. A log whose records are applied *as they come* waits for nothing: they
stand before whatever is released next.

Timestamps of one topic may run backwards (several producers, clock skew); offsets are the order that counts within a
topic. The *effective* time of a record is therefore the running maximum of the timestamps up to it, less those that
leap without the three records after them (`clock.orders`). A leap among the last records that were fetched, and what is
behind it, waits for these three, so that the order does not depend on where fetches were cut: unless the topic has been
read to its end, and there are none.

Each prediction records the next offset of every log. On a restart the order that really happened is read back from the
predictions topic, and overrides both rules (`RecordedOrder`) up to the last prediction that was sent.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.records.clock import orders
from riparian.topics.names import BY_TIME, FEATURES, INPUTS, LABELS
from riparian.topics.places import next_places, offset_of
from riparian.topics.records import Numbers, RawBatch
from riparian.topics.slices import chained

Ints = NDArray[np.int64]

EMPTY = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """Consecutive records of one topic.

    raw : the records as they came, unpacked where they hold several instances
    offsets : (n,) int64, their places (`topics.places`): offsets where a record is an instance
    stamps : (n,) int64 ms, their timestamps
    times : (n,) int64 ms, effective ones, for the merge alone
    nexts : (n,) int64, the place after each; none where they are offsets
    """

    raw: RawBatch
    offsets: Ints
    stamps: Ints
    times: Ints = EMPTY
    nexts: Ints = EMPTY

    def after(self) -> Ints:
        """(n,) int64, the place after each."""
        return self.nexts if len(self.nexts) else self.offsets + 1

    @property
    def end(self) -> int:
        """The place after the last; there is one."""
        return int(self.nexts[-1]) if len(self.nexts) else int(self.offsets[-1]) + 1

    def part(self, start: int, stop: int | None = None) -> "Piece":
        """Records start to stop."""
        kept = slice(start, stop)
        return Piece(self.raw.part(start, stop), *(column[kept] for column in self[1:]))

    def with_next(self, other: "Piece") -> "Piece":
        """These records and those behind them."""
        if not len(self.offsets):
            return other
        raw = concatenate([self.raw, other.raw])
        return Piece(raw, *(np.concatenate(both) for both in zip(self[1:], other[1:], strict=True)))

    def singly(self) -> list["Piece"]:
        """Each record by itself."""
        return [self.part(i, i + 1) for i in range(len(self.offsets))]


def concatenate(batches: list[RawBatch]) -> RawBatch:
    """Consecutive batches as one."""
    if len(batches) == 1:
        return batches[0]
    offsets, timestamps, keys, values, headers = zip(*batches, strict=True)
    # All batches of a topic have headers, or none.
    about = None if None in headers else list(chain.from_iterable(headers))
    key, value = chained(keys, values)
    return RawBatch(_numbers(offsets), _numbers(timestamps), key, value, about)


def _numbers(parts: Sequence[Numbers]) -> Numbers:
    """Consecutive columns as one."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [number for part in parts for number in (part.tolist() if isinstance(part, np.ndarray) else part)]


def empty_piece() -> Piece:
    return Piece(RawBatch([], [], [], []), EMPTY, EMPTY, EMPTY)


class RecordQueue:
    """The records of one topic that were fetched and not yet released.

    Parameters
    ----------
    next_offset : int
        Place from which on records are taken; earlier ones are skipped as known.
    time, stamps : int, sequence of int
        Of the `clock.Clock` after the last record before `next_offset`.
    rule : str
        By which the topic is merged with others, see `topics.names`.
    bits : int
        Of the index in places (`topics.places`).
    unpack : callable, optional
        Given fetched records, their instances, where a record holds several.
    """

    def __init__(
        self,
        next_offset: int = 0,
        time: int = 0,
        stamps: Sequence[int] = (),
        rule: str = BY_TIME,
        bits: int = 0,
        unpack: Callable[[RawBatch], RawBatch] | None = None,
    ) -> None:
        self.rule = rule
        self.bits = bits
        self._unpack = unpack
        self.next_offset = next_offset
        self.last_time = time  # effective time of the last record that ever arrived, of those where it is certain
        self._uncertain = np.array(stamps, np.int64)  # timestamps of those behind it, in here or gone: at most three
        self._pieces: deque[Piece] = deque()
        self._n = 0
        if len(stamps):
            self._settle(self._uncertain)

    def __len__(self) -> int:
        return self._n

    @property
    def first_offset(self) -> int:
        """Place of the first record that waits here; the next one, where none does."""
        return int(self._pieces[0].offsets[0]) if self._pieces else self.next_offset

    @property
    def first_time(self) -> int:
        """Effective time of the first record that waits here; there is one."""
        return int(self._pieces[0].times[0])

    @property
    def fetch_offset(self) -> int:
        """Kafka's offset of the record that comes next, or that is to be read once more for the rest of it."""
        found: int = offset_of(self.next_offset, self.bits)
        return found

    @property
    def done_offset(self) -> int:
        """Kafka's offset below which nothing waits here."""
        found: int = offset_of(self.first_offset, self.bits)
        return found

    def add(self, raw: RawBatch, below: int | None = None) -> int:
        """Append fetched records, skipping those below `next_offset`. Returns how many were skipped.

        below : a place from which on nothing is taken. A record that holds it can be added again, for the rest.
        """
        if self._unpack is not None:
            raw = self._unpack(raw)
        offsets = np.asarray(raw.offsets, dtype=np.int64)
        nexts = next_places(offsets, self.bits) if self.bits else EMPTY
        skipped = int(offsets.searchsorted(self.next_offset)) if len(offsets) and offsets[0] < self.next_offset else 0
        if below is not None:
            n = max(skipped, int(offsets.searchsorted(below)))
            offsets, nexts, raw = offsets[:n], nexts[:n], raw.part(0, n)
        if skipped == len(offsets):
            return skipped
        if skipped:
            offsets, nexts = offsets[skipped:], nexts[skipped:]
            raw = raw.part(skipped)
        stamps = np.asarray(raw.timestamps, dtype=np.int64)
        before = len(self._uncertain)
        times = self._settle(np.concatenate((self._uncertain, stamps)) if before else stamps)
        # Those that were uncertain, as far as they are here still, stand where they do now.
        at = before
        for piece in reversed(self._pieces):
            if at == 0:
                break
            n = min(at, len(piece.times))
            piece.times[-n:] = times[at - n : at]
            at -= n
        piece = Piece(raw, offsets, stamps, times[before:], nexts)
        self._pieces.append(piece)
        self._n += len(offsets)
        self.next_offset = piece.end
        return skipped

    def _settle(self, stamps: Ints) -> Ints:
        """Effective times of the records that are uncertain, and of those that come after them."""
        times, n = orders(stamps, self.last_time)
        if n:
            self.last_time = int(times[n - 1])
        self._uncertain = stamps[n:].copy() if n < len(stamps) else EMPTY
        return times

    @property
    def n_certain(self) -> int:
        """How many of the records here have an effective time that stays."""
        return max(0, self._n - len(self._uncertain))

    def _column(self, index: int) -> Ints:
        if not self._pieces:
            return EMPTY
        if len(self._pieces) == 1:
            return self._pieces[0][index]  # type: ignore[return-value]
        return np.concatenate([piece[index] for piece in self._pieces])

    def times(self) -> Ints:
        return self._column(3)

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
            *(np.concatenate(column) for column in list(zip(*taken, strict=True))[1:]),
        )


class RecordedOrder(NamedTuple):
    """An order that happened, as predictions record it.

    offsets : (n,) int64, places of the features that were predicted
    next_offsets : role of every other input log -> (n,) int64, its next place when each of them was predicted
    reached : role of a log -> place below which its records were applied after the last of them, before any other
    """

    offsets: Ints = EMPTY
    next_offsets: Mapping[str, Ints] = {}
    reached: Mapping[str, int] = {}

    @classmethod
    def of(cls, roles: Sequence[str], places: Sequence[Sequence[int]]) -> "RecordedOrder":
        """From the places of predictions: offsets in the logs `roles`, the features first."""
        offsets, *others = np.array(places, np.int64).reshape(-1, len(roles)).T
        return cls(offsets, dict(zip(roles[1:], others, strict=True)))

    def part(self, start: int, stop: int | None = None) -> "RecordedOrder":
        """Predictions start to stop."""
        kept = slice(start, stop)
        return RecordedOrder(self.offsets[kept], {role: found[kept] for role, found in self.next_offsets.items()})

    def next_place(self, role: str, at: int) -> int | None:
        """The next place of a log when the first prediction from place `at` of the features on was made; None where
        there is none."""
        i = int(np.searchsorted(self.offsets, at))
        return int(self.next_offsets[role][i]) if i < len(self.offsets) else None

    def taken(self, role: str) -> Ints:
        """Places that had been taken from a log, in order; of some of them (or right after them in their record)."""
        if role == FEATURES:
            return self.offsets
        told = self.next_offsets.get(role, EMPTY)
        return told[told > 0] - 1  # 0 is also what stands there when nothing was taken


class Ends(NamedTuple):
    """What is known of where the input logs end.

    below : role of a log -> place below which its records need not wait for the other logs: where it ended at a moment
    up to which all others have been read. None: no record needs to wait.
    unread : roles of the logs that have not been read up to that moment themselves, so that their last records wait for
    those behind them.
    """

    below: Mapping[str, int] | None
    unread: Collection[str] = ()


EVERYTHING = Ends(None)


class Release(NamedTuple):
    """What may be processed now, in one order.

    pieces : role of an input log -> its records
    before : role of a log other than the features -> (n,) int64, how many of its records come before each feature
    Between two features the logs come in the order of `pieces`.
    """

    pieces: dict[str, Piece]
    before: Mapping[str, Ints]

    @property
    def n(self) -> int:
        """Records of all logs."""
        return sum([len(piece.offsets) for piece in self.pieces.values()])

    def piece(self, role: str) -> Piece:
        """Of a log that the stream may not have."""
        return self.pieces.get(role) or empty_piece()

    def without(self, role: str) -> tuple["Release", Piece, Ints]:
        """What is left without a log, which the stream may not have; its records, and how many of them come before each
        feature."""
        pieces, before = dict(self.pieces), dict(self.before)
        piece, n = pieces.pop(role, None), len(pieces[FEATURES].offsets)
        come = before.pop(role, np.zeros(n, np.int64))
        return Release(pieces, before), piece or empty_piece(), come

    def parts(self, features: Sequence[int]) -> list["Release"]:
        """Cut before each of these features, numbers that ascend: what comes before it in any log comes in a part
        before its own."""
        edges = {
            role: [0, *before[features].tolist(), len(self.pieces[role].offsets)]
            for role, before in self.before.items()
        }
        starts = edges[FEATURES] = [0, *features, len(self.pieces[FEATURES].offsets)]
        return [
            Release(
                {role: piece.part(edges[role][i], edges[role][i + 1]) for role, piece in self.pieces.items()},
                {role: found[starts[i] : starts[i + 1]] - edges[role][i] for role, found in self.before.items()},
            )
            for i in range(len(features) + 1)
        ]

    def split(self, role: str, at: int) -> tuple["Release", "Release"]:
        """In two: what comes before record `at` of a log, and the rest, which begins with it."""
        if role == FEATURES:
            first, rest = self.parts([at])
            return first, rest
        n = int(np.searchsorted(self.before[role], at, side="right"))  # features before it
        counts = {FEATURES: n, role: at}
        came = False  # whether the log is the cut one, or comes behind it between two features
        for other, found in self.before.items():
            came = came or other == role
            if other != role:
                edges = [0, *found.tolist(), len(self.pieces[other].offsets)]
                counts[other] = edges[n] if came else edges[n + 1]
        return (
            Release(
                {one: piece.part(0, counts[one]) for one, piece in self.pieces.items()},
                {one: found[:n] for one, found in self.before.items()},
            ),
            Release(
                {one: piece.part(counts[one]) for one, piece in self.pieces.items()},
                {one: found[n:] - counts[one] for one, found in self.before.items()},
            ),
        )

    def runs(self) -> list["Release"]:
        """Runs of features, each with what follows it in other logs: nothing within one needs interleaving."""
        changed = [np.diff(before, prepend=0) != 0 for before in self.before.values()]
        return self.parts(np.flatnonzero(np.any(changed, axis=0)).tolist())


NOTHING = Release({}, {})


class PartitionGroup:
    """The one order of a partition's input logs.

    Parameters
    ----------
    buffers : mapping of str to RecordQueue, optional
        Role of each input log -> its buffer, the features first; those that go by timestamp in the order in which they
        come on a tie. Features and labels, from their beginnings, where it is left out.
    script : RecordedOrder, optional
        The recorded order to follow before timestamps decide.
    limit : int
        Largest number of records of one log in one release.

    Attributes
    ----------
    copies : int
        How many times as many labels, where all partitions have them all: most are another's.
    """

    def __init__(
        self, buffers: Mapping[str, RecordQueue] | None = None, script: RecordedOrder | None = None, limit: int = 8192
    ) -> None:
        self.buffers = {role: RecordQueue() for role in INPUTS} if buffers is None else buffers
        self.limit, self.copies = limit, 1
        self.script = script if script is not None and len(script.offsets) else None
        self._timed = [role for role, buffer in self.buffers.items() if buffer.rule == BY_TIME]
        reached = {} if script is None else script.reached
        self._owed = {role: place for role, place in reached.items() if role in self._timed and role != FEATURES}

    @property
    def follows(self) -> bool:
        """Whether it is recorded what comes next."""
        return self.script is not None or bool(self._owed)

    @property
    def n_waiting(self) -> int:
        """Records of all logs that were fetched and not released."""
        return sum([buffer._n for buffer in self.buffers.values()])

    def release(self, ends: Ends | None = None) -> Release:
        """Remove and return what may be processed.

        ends : below which records go without waiting.
        """
        counts, before = self._counts(ends)
        pieces = {role: buffer.take(counts[role]) for role, buffer in self.buffers.items()}
        offsets = pieces[FEATURES].offsets
        if self.script is not None and len(offsets) and offsets[-1] >= self.script.offsets[-1]:
            self.script = None
        return Release(pieces, before)

    def _counts(self, ends: Ends | None) -> tuple[dict[str, int], dict[str, Ints]]:
        """How many records of each log go, and how many of them before each feature."""
        if self.script is not None and self.buffers[FEATURES].first_offset > self.script.offsets[-1]:
            self.script = None  # what it tells of is gone from the topic
        if self.script is not None:
            return self._scripted(self.script)
        return self._reaching() if self._owed else self._by_time(ends)

    def _reaching(self) -> tuple[dict[str, int], dict[str, Ints]]:
        """What was applied after the last prediction that was sent."""
        counts = dict.fromkeys(self.buffers, 0)
        for role, place in list(self._owed.items()):
            buffer = self.buffers[role]
            counts[role] = min(self.limit, int(np.searchsorted(buffer.offsets(), place)))
            if buffer.next_offset >= place and counts[role] < self.limit:
                del self._owed[role]
        return counts, {role: EMPTY for role in self.buffers if role != FEATURES}

    def _by_time(self, ends: Ends | None) -> tuple[dict[str, int], dict[str, Ints]]:
        timed, buffers, limit = self._timed, self.buffers, self.limit
        times = {role: buffers[role].times() for role in timed}
        # Times that are not certain count where no record is known of that could still change them: then the records of
        # the log go by them, and those of the others before these.
        most, last = {}, {}
        for role, found in times.items():
            most[role], last[role] = buffers[role].n_certain, buffers[role].last_time
            if len(timed) == 1 or (ends is not None and role not in ends.unread):
                most[role] = len(found)
                if most[role]:
                    last[role] = max(last[role], int(found[-1]))
        counts = {role: min(len(buffer), limit) for role, buffer in buffers.items()}
        for role in timed:
            n = most[role]
            for other in timed:
                if other != role:
                    n = self._earlier(times, role, other, last[other], n)
            if ends is not None and n < most[role]:
                below = most[role]
                if ends.below is not None:
                    below = bisect_left(buffers[role].offsets(), ends.below.get(role, 0))
                n = max(n, min(most[role], below))
            counts[role] = n
        # Cut to the limit without breaking the order: what stays behind must come after all that goes.
        for role in timed:
            room = limit * (self.copies if role == LABELS else 1)
            if counts[role] > room:
                counts[role] = room
                for other in timed:
                    if other != role:
                        counts[other] = self._earlier(times, other, role, int(times[role][room]), counts[other])
        f_times = times[FEATURES][: counts[FEATURES]]
        before = {
            role: times[role][: counts[role]].searchsorted(f_times)
            if role in times
            else np.full(len(f_times), counts[role])  # as it comes: before all that goes now
            for role in buffers
            if role != FEATURES
        }
        return counts, before

    def _earlier(self, times: Mapping[str, Ints], role: str, than: str, time: int, most: int) -> int:
        """How many of the first `most` records of a log come before one of another log with this time."""
        if not most:
            return 0
        first = self._timed.index(role) < self._timed.index(than)
        return (bisect_right if first else bisect_left)(times[role], time, 0, most)

    def _scripted(self, script: RecordedOrder) -> tuple[dict[str, int], dict[str, Ints]]:
        features, others = self.buffers[FEATURES], {r: b for r, b in self.buffers.items() if r != FEATURES}
        f_offsets = features.offsets()
        n_f = int(np.searchsorted(f_offsets, script.offsets[-1], side="right"))
        # A feature record without a prediction (a dead letter) waits for the next one that has one.
        at = np.searchsorted(script.offsets, f_offsets[:n_f], side="left")
        wanted = {role: script.next_offsets[role][at] for role in others}
        told = script.offsets[at] == f_offsets[:n_f]
        before = {}
        for role, buffer in others.items():
            n_f = min(n_f, int(np.searchsorted(wanted[role], buffer.next_offset, side="right")))
            before[role] = np.searchsorted(buffer.offsets(), wanted[role], side="left").astype(np.int64)
            if buffer.rule == BY_TIME and not told.all():
                # Where it is no dead letter, but its prediction was lost: between its neighbours, time is the best
                # guess.
                by_time = np.searchsorted(buffer.times(), features.times()[: len(at)], side="left")
                earliest = np.maximum.accumulate(np.where(told, before[role], 0))
                before[role] = np.where(told, before[role], np.clip(by_time, earliest, before[role]))
        n_f = min(n_f, self.limit)
        if n_f == 0:
            # What comes before the first of them may go ahead, so that a full buffer cannot stand still.
            ahead = {
                role: np.searchsorted(others[role].offsets(), found[0]) for role, found in wanted.items() if len(at)
            }
            counts = {role: min(int(ahead.get(role, 0)), self.limit) for role in others}
            return {FEATURES: 0, **counts}, dict.fromkeys(others, EMPTY)
        last = n_f - 1
        n_f = min([n_f, *(int(np.searchsorted(found[:n_f], self.limit, side="right")) for found in before.values())])
        counts = {role: min(int(found[min(n_f, last)]), self.limit) for role, found in before.items()}
        return {FEATURES: n_f, **counts}, {role: found[:n_f] for role, found in before.items()}
