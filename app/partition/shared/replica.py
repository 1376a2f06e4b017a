"""One replica of the models that all partitions learn, for several partitions of a worker. Pure, but for a lock.

A partition's replica stands at some place of the log. So does this one, and no partition stands behind it when it
predicts. The replica learns between steps, of all partitions that take theirs together. Right before its next instance
is predicted a partition takes over all that follows from the log alone, by reference: models, scores, detectors,
trials, comparisons. Of the way there only commands, promotions and findings about drift concern a partition; it takes
them in their order, as if it had learned the records itself. So it predicts, tells and keeps, to the bit, what a
replica of its own would have come to.

Partitions that are loaded together recover behind one replica. It begins with the models of the one that has learned
least; the others keep a hash of theirs, and join it where it comes to their place, if both hold the same. It goes no
further than the next place of the log that one of them needs: where it joins, or where it made the next prediction that
was sent before.

Those that are loaded beside others which run, or far behind the rest, have a replica of their own until they have done
so. They move to the first one where both stand at one place, if these hold the same.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from threading import RLock
from typing import Any

import numpy as np

from riparian.app.partition.joint_work import FEW, JointWork
from riparian.app.partition.learning import JoinedBatch, Learning, Parts, Ran
from riparian.app.partition.outcome import DeadLetter, Joint, Outcome
from riparian.app.partition.predictions.joint_prediction import Unpredicted
from riparian.app.partition.records.partition_group import Piece, Release, concatenate, empty_piece
from riparian.app.partition.shared.shared_lineup import Learned, News, Obeyed, SharedLineup
from riparian.app.partition.shared.sharing import SharedLearning, after
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Program
from riparian.topics.names import FEATURES, LEARNED
from riparian.topics.records import DriftRecord, RawBatch

LED = ("models/", "metrics/", "compared/")  # names of arrays that a partition takes over from the replica
MOST_APART = 2**16  # instances learned between two partitions that recover together: more are not worth waiting for


class OvertakenError(Exception):
    """Another worker has appended to the log: it has taken a partition over."""


def gathered(reached: Mapping[int, tuple[int, int]]) -> list[list[int]]:
    """Of partitions that are loaded together those that recover behind one replica each, the one that has learned least
    first; the group that has learned most first. reached : partition -> the next place of the log, and how many
    instances have been learned.

    One that rests behind a command may have stood still for hours: the others do not wait until it has come to them.
    """
    order = sorted(reached, key=lambda p: (reached[p], p), reverse=True)
    cuts = [i for i, (p, q) in enumerate(pairwise(order), 1) if reached[p][1] - reached[q][1] > MOST_APART]
    return [order[i:j][::-1] for i, j in pairwise([0, *cuts, len(order)]) if i < j]


class Replica:
    """Models that learn the log for all partitions that follow them.

    Whoever learns, predicts or copies holds the lock; the event loop never waits for it. Records are added without it.

    Parameters
    ----------
    spec : Spec
        The stream file.

    Attributes
    ----------
    lock : RLock
    lineup : SharedLineup, optional
        None before the first partition has come.
    fetch_offset : int
        Of the next record of the log.
    common : dict
        For whoever makes checkpoints of the partitions: what the last one of any of them had of the models. Whoever
        looks at it holds the lock.
    stale : bool
        Whether something has been joined or learned since somebody asked for `behind`.
    prediction : JointWork
        Of what partitions have joined in a round. Whoever asks holds the lock.
    in_step : int
        Records of steps that have begun and not ended: each may join an instance that is not in `behind` yet. Only the
        event loop changes it.
    apart : Replica, optional
        One that has been found to hold something else: nobody moves to it.
    """

    def __init__(self, spec: Spec) -> None:
        self.lock = RLock()
        self.lineup: SharedLineup | None = None
        self.fetch_offset = 0
        self.common: dict[str, Any] = {}
        self.stale, self._behind, self.in_step = True, 0, 0
        self.apart: Replica | None = None
        self._alike: Replica | None = None  # holds the same wherever both stand
        self._spec = spec
        self._came: deque[RawBatch] = deque()
        self._appended: dict[int, RawBatch] = {}  # by offset: this worker's, ahead of what was read
        self._n_added = self._n_taken = 0  # each counted by one thread at a time
        self.prediction = JointWork[Unpredicted]()
        self._news: dict[Learning, list[News]] = {}
        self._bounds: dict[Learning, int] = {}

    @property
    def place(self) -> int:
        """The next one of the log that is to be learned; 0 before it has begun."""
        return 0 if self.lineup is None else self.lineup.place

    def __len__(self) -> int:
        """Records that wait to be learned."""
        return self._n_added - self._n_taken

    def add(self, raw: RawBatch) -> None:
        """Take fetched records; known ones are left out."""
        known = int(np.searchsorted(np.asarray(raw.offsets, np.int64), self.fetch_offset))
        raw = raw.part(known)
        if len(raw.offsets):
            self._take(raw)
            self._appended = {offset: one for offset, one in self._appended.items() if offset >= self.fetch_offset}
            self._go_on()

    def appended(self, offset: int, timestamp: int, value: bytes) -> None:
        """Take a record that this worker has appended, as the broker has acknowledged it: where it is the next one,
        nothing has to be read first."""
        if self.lineup is not None and offset >= self.fetch_offset:
            self._appended[offset] = RawBatch([offset], [timestamp], [None], [value])
            self._go_on()

    def _go_on(self) -> None:
        while (raw := self._appended.pop(self.fetch_offset, None)) is not None:
            self._take(raw)

    def _take(self, raw: RawBatch) -> None:
        self.fetch_offset = int(raw.offsets[-1]) + 1
        self._n_added += len(raw.offsets)
        self._came.append(raw)

    def begin(self, lineup: SharedLineup) -> None:
        """Begin with the models that a partition has restored, which gives them up for this."""
        self.lineup, self.fetch_offset, lineup.news = lineup, lineup.place, []

    @property
    def may_wait(self) -> bool:
        """Whether whoever learns may wait for the process that fits a model."""
        return self.lineup is not None and self.lineup.may_wait

    def hold(self) -> bool:
        """Have the lock, unless another thread has it, or whoever learns may wait: then call `let_go` as often, in the
        same thread."""
        return not self.may_wait and self.lock.acquire(blocking=False)

    def let_go(self) -> None:
        self.lock.release()

    def advance(self, until: int | None = None) -> None:
        """Learn what has come, below this place, and below those that partitions still need."""
        with self.lock:
            if self.lineup is None:
                return
            piece = self._taken(self._end(until))
            if len(piece.offsets):
                self.lineup.follow(piece)
                self._pass_on(self.lineup)

    def _end(self, until: int | None = None) -> int | None:
        return min([*self._bounds.values(), *([] if until is None else [until])], default=None)

    @property
    def n_due(self) -> int:
        """What `advance` learns now, in hundreds of bytes, about an instance each: a record has one or thousands."""
        until, n_bytes = self._end(), 0
        for raw in tuple(self._came):
            n_bytes += sum([len(value or b"") for value in raw.values[: below(raw, until)]])
        return -(-n_bytes // 100)

    def _pass_on(self, lineup: SharedLineup) -> None:
        self.stale = True
        for follower, news in list(self._news.items()) if lineup.news else ():
            news += [one for one in lineup.news if concerns(one, follower)]
        lineup.news = []

    def lead(self, teach: Callable[[], int], first: int) -> int:
        """Learn what nobody else can append something before, ahead of the broker. teach : has the models learn it, and
        gives how many records of the log it will be, which this returns. first : the offset of the first of them. The
        caller holds the lock. OvertakenError where somebody else has appended something."""
        assert self.lineup is not None
        if self._came:
            raise OvertakenError
        n = teach()
        self.fetch_offset = self.lineup.place = first + n
        self._pass_on(self.lineup)
        return n

    def _taken(self, until: int | None) -> Piece:
        found = list[RawBatch]()
        while self._came:
            raw = self._came.popleft()
            n = below(raw, until)
            if n:
                found.append(raw.part(0, n))
            if n < len(raw.offsets):
                self._came.appendleft(raw.part(n))
                break
        if not found:
            return empty_piece()
        raw = concatenate(found)
        self._n_taken += len(raw.offsets)
        stamps = np.asarray(raw.timestamps, np.int64)
        return Piece(raw, np.asarray(raw.offsets, np.int64), stamps, stamps)

    def join(self, learning: Learning) -> None:
        """A partition that stands where this does follows from here on."""
        self._news[learning], self.stale = [], True

    @property
    def behind(self) -> int:
        """Instances that the partitions which follow have joined, and the models have not learned."""
        if self.stale:  # each partition asks before each step
            self.stale = False
            self._behind = sum([one.behind for one in tuple(self._news)])
        return self._behind

    @property
    def n_followers(self) -> int:
        """Partitions that follow."""
        return len(self._news)

    @property
    def is_own(self) -> bool:
        """Whether all partitions follow: then nobody else appends to the log."""
        return len(self._news) == self._spec.partitions

    @property
    def used(self) -> bool:
        """Whether a partition follows, or is to join."""
        return bool(self._news or self._bounds)

    def agrees(self, other: "Replica") -> bool:
        """Whether both hold the same, where they stand at one place: then they will at every other. The caller holds
        both locks."""
        if other not in (self._alike, self.apart) and self.lineup is not None and other.lineup is not None:
            if self.lineup.fingerprint() == other.lineup.fingerprint():
                self._alike = other
            else:
                self.apart = other
        return self._alike is other

    def leave(self, learning: Learning) -> None:
        """A partition takes no step any more, or follows another replica. Needs no lock."""
        self._news.pop(learning, None)
        self._bounds.pop(learning, None)
        self.stale = True

    def hold_back(self, learning: Learning, place: int | None) -> None:
        """Go no further than this place, which a partition needs, and no place before it; None: as far as you like.
        Needs no lock."""
        if place is None:
            self._bounds.pop(learning, None)
        else:
            self._bounds[learning] = place

    def waits_for(self, learning: Learning) -> bool:
        """Whether this partition is at its turn, and another one may wait for it."""
        others = {*self._news, *self._bounds} - {learning}
        return bool(others) and self._bounds.get(learning) == self.place

    def first(self, learning: Learning) -> bool:
        """Whether a partition is the one that answers for what all of them hold together."""
        return next(iter(self._news), None) is learning

    def news_of(self, learning: Learning) -> list[News]:
        """What has happened since a partition last took it."""
        return self._news[learning]


def below(raw: RawBatch, until: int | None) -> int:
    """How many records stand below an offset."""
    return len(raw.offsets) if until is None else int(np.searchsorted(np.asarray(raw.offsets, np.int64), until))


def concerns(one: News, follower: Learning) -> bool:
    """Whether a partition has to know of it: what is told of the models is told by the first."""
    told = isinstance(one, DeadLetter) or (isinstance(one, Learned) and not one.decided)
    return follower.reports_models or not told


class FollowedLearning(SharedLearning):
    """Leaves it to a replica to learn the log."""

    _replica: Replica | None = None
    _ahead: tuple[Replica, list[Any]] | None = None  # that is to come to its place, and what it holds there

    @property
    def follows(self) -> bool:  # type: ignore[override]
        return self._replica is not None

    @property
    def joins(self) -> bool:  # type: ignore[override]
        return self._ahead is not None

    def wait_for(self, replica: Replica) -> None:
        """Right after it was restored: give the models up for a replica that stands there, or at a place before. One
        that has not begun begins with them."""
        with replica.lock:
            self._ahead = replica, self.lineup.fingerprint()
            if replica.lineup is None:
                replica.begin(self.lineup)
            replica.hold_back(self, self.logs.places[LEARNED])
            self._lead(replica)

    def _lead(self, replica: Replica) -> None:
        """Its models are these from here on."""
        assert replica.lineup is not None
        if replica.lineup is not self.lineup:
            self._written = {}
        self.lineup = self.drift.lineup = replica.lineup

    def join(self) -> bool:
        if self._ahead is None:
            return self.follows
        replica, holds = self._ahead
        with replica.lock:
            if replica.lineup is None or replica.place != self.logs.places[LEARNED]:
                return False
            if replica.lineup.fingerprint() != holds:
                self.apart = True
                return False
            replica.join(self)
            self._replica, self._ahead = replica, None
        return True

    def move(self, to: Replica) -> list[DriftRecord] | None:
        """While commands wait for an instance it stays: what they change is not taken over yet."""
        replica = self._replica
        if replica is None or replica.apart is to:
            return None
        with to.lock, replica.lock:
            to.advance()
            replica.advance(to.place)
            if to.lineup is None or replica.place != to.place or self.waits or not replica.agrees(to):
                return None
            drifts = self.catch_up(replica, [])
            replica.leave(self)
            to.join(self)
            self._replica = to
            self._lead(to)
        return drifts

    # -- following ---------------------------------------------------------------------------------------------

    def parts(self, release: Release) -> Parts:
        """A release holds no records of the log, which are the replica's to learn."""
        replica = self._replica
        if replica is None:
            raise RuntimeError("a partition takes a step before it has joined a replica")
        release = release.without(LEARNED)[0]
        features = release.pieces[FEATURES]
        if not len(features.offsets):
            return [(yield release)]
        letters, outcomes, at = list[DeadLetter](), list[Outcome](), 0
        with replica.lock:
            if self.waits:
                predicted = np.flatnonzero(self.decoder.predicted(features))
                if not len(predicted):
                    return [(yield release)]
                at = int(predicted[0])
            if at or (self.changes(replica) and any(found[0] for found in release.before.values())):
                before, release = release.parts([at])
                outcomes.append((yield before))
            drifts = self.catch_up(replica, letters)
            for part in self._cut(release):
                outcome = after(drifts, (yield part))
                if letters:
                    outcome = outcome._replace(rejected=outcome.rejected | self.of_log(letters))
                outcomes.append(outcome)
                drifts, letters = [], []
                self.decoder.settle(self._file)
        return outcomes

    def ask(self, batch: JoinedBatch) -> Unpredicted | None:
        replica, rows = self._replica, batch.joined.predicted
        if replica is None or not 0 < len(rows) <= FEW:
            return None
        x = self.translated(batch.features.x)
        return replica.prediction.wait(Unpredicted(self.roles, self.servings, x, rows))

    def run(self, batch: JoinedBatch, asked: Unpredicted | None = None) -> Ran:
        if self._replica is not None and asked is not None:
            self._replica.prediction.do(asked)
        return super().run(batch, asked)

    def joint(self, program: Program) -> list[Joint]:
        found = super().joint(program)
        if self._replica is not None:
            self._replica.stale = True
        return found

    def changes(self, replica: Replica) -> bool:
        """Whether what has happened in the replica matters to labels that come before an instance: they are joined and
        scored, and what the models learn is nothing to that."""
        return bool(replica.news_of(self)) or self.lineup.schema.n_outputs != self._n_outputs

    @property
    def waits(self) -> bool:  # type: ignore[override]
        """Whether the replica has obeyed commands, or passed over records that are none, which wait here for an
        instance that is predicted. Until then there is nothing that a checkpoint could hold: the models have learned
        what came behind them."""
        news = [] if self._replica is None else self._replica.news_of(self)
        return any(isinstance(one, Obeyed | DeadLetter) for one in news)

    @contextmanager
    def still(self) -> Iterator[list[DriftRecord] | None]:
        """It stands where the replica does, which learns nothing meanwhile."""
        replica = self._replica
        if replica is None:
            yield None
            return
        with replica.lock:
            yield None if self.waits else self.catch_up(replica, [])

    @property
    def common(self) -> dict[str, Any] | None:  # type: ignore[override]
        return None if self._replica is None else self._replica.common

    @property
    def held(self) -> tuple[str, ...]:  # type: ignore[override]
        return LED if self.follows or self.joins else ()

    @property
    def behind_all(self) -> int:  # type: ignore[override]
        return self.behind if self._replica is None else self._replica.behind + self._replica.in_step

    @property
    def n_beside(self) -> int:  # type: ignore[override]
        return 1 if self._replica is None else self._replica.n_followers

    def takes(self, n: int) -> None:
        if self._replica is not None:
            self._replica.in_step += n

    def hold(self) -> bool:
        """False also where another thread has the replica."""
        return super().hold() if self._replica is None else self._replica.hold()

    def let_go(self) -> None:
        if self._replica is not None:
            self._replica.let_go()

    def catch_up(self, replica: Replica, letters: list[DeadLetter]) -> list[DriftRecord]:
        """Come to the place of the replica."""
        if replica.place == self.logs.places[LEARNED]:
            return []
        news = replica.news_of(self)
        drifts = self._catch_up(list(news), letters)
        news.clear()
        return drifts

    def known_values(self) -> tuple[int, ...]:
        """How many values, and classes, the models know."""
        lineup = self.lineup
        return tuple(len(one) for one in (*lineup.vocabularies, lineup.classes) if one is not None)

    @property
    def steps_together(self) -> bool:  # type: ignore[override]
        """Whether nothing besides the models depends on where the log is, and no command waits."""
        serving = next(iter(self.servings.values()))
        spec, keys = self.lineup.spec, bool(self.lineup.keys)
        plain = spec.predictions.reasons is None and serving.decision is None and not keys
        return self.follows and plain and not self.waits and self.decoder.reads(self._file)

    def n_bytes(self) -> dict[str, int]:
        """Models that partitions hold together are counted for the first of them."""
        parts = super().n_bytes()
        if self._replica is None or self._replica.first(self):
            return parts
        keys = {"keys": self._past.n_bytes} if "keys" in parts else {}
        return {part: n for part, n in parts.items() if part not in self.roles} | keys
