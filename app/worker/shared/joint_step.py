"""Steps of all partitions of a worker at once, in the order of their records' times. Pure, but for the replica's lock.

A worker that has all partitions of a stream is the only one that appends to the log, so it knows its order before the
broker does. What was fetched of all partitions is decoded and joined, each partition by itself. Then they take turns of
some records, the one with the earliest record first: these are predicted by the models as they are, and the models
learn what was joined with them. That is a record of the log, and predictions name their place in it as ever: all is the
fold of that log, to the bit.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace
from time import perf_counter
from typing import NamedTuple, cast

import numpy as np

from riparian.app.partition.learner import Part, PartitionLearner
from riparian.app.partition.outcome import DeadLetter, Outcome, together
from riparian.app.partition.records.partition_group import Release
from riparian.app.partition.shared.replica import FollowedLearning, Replica
from riparian.app.partition.shared.sharing import after, order_of, records
from riparian.models.contract import LEARN, Floats
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import DriftRecord
from riparian.topics.training_log import write

# Features of a turn, and of one turn of each partition: what a partition lacks of its own labels, and is ahead of
# others'. Fewer as long as the models know little; up to eight times as many in a long backlog, where a turn is a small
# share of what they know, and costs about half a millisecond besides its features. `benchmarks/shared_learning.py`.
USUAL_TURN, MOST_TURN, MOST_SPAN, LEAST_TURN = 128, 1024, 1024, 8
KNOWN_SHARE, LONG_SHARE = 8, 64
TRANSLATED = 2048  # rows that get the models' codes at once


class Taken(NamedTuple):
    """What a joint step gives: the outcome of each partition, the records of the log, in order, and the seconds of each
    partition, without those of others."""

    outcomes: list[Outcome]
    log: list[bytes]
    seconds: list[float]


def step_together(
    learners: Sequence[PartitionLearner], releases: Sequence[Release], replica: Replica, first: int, timestamp: int
) -> Taken:
    """Predict, join and learn what was released of all partitions of a stream.

    The caller holds the lock of the replica, which all of them follow, and which has learned the log to its end.

    Parameters
    ----------
    first : int
        The offset that the next record of the log will have.
    timestamp : int
        That the records of the log will have, ms.
    """
    log = list[bytes]()
    courses = [_Course(*both, replica, first, log) for both in zip(learners, releases, strict=True)]
    usual = min(USUAL_TURN, MOST_SPAN // len(courses))
    turns = [(one.next_time, i) for i, one in enumerate(courses)]
    heapify(turns)
    while turns:
        _, i = turns[0]
        courses[i].turn(usual)
        if courses[i].ended:
            heappop(turns)
        else:
            heapreplace(turns, (courses[i].next_time, i))
    if log:
        for course in courses:
            course.mark(timestamp)
        assert replica.lineup is not None
        replica.lineup.last = first + len(log) - 1, timestamp, None, log[-1]
    return Taken([together(one.outcomes) for one in courses], log, [one.seconds for one in courses])


class _Logged(NamedTuple):
    """What the log gets of a turn: instances start to stop of those that the partition's step learns.

    number, n : of its records, among those of the joint step. until : the first feature that is predicted behind it.
    places, time : of the partition
    """

    start: int
    stop: int
    number: int
    n: int
    until: int
    places: dict[str, int]
    time: int


class _Rows:
    """Rows of a partition in the models' codes, many at once. x : (n, d) in its own."""

    def __init__(self, learning: FollowedLearning, x: Floats) -> None:
        self._learning, self._x, self.coded = learning, x, np.zeros_like(x)
        self._until, self._known = 0, tuple[int, ...]()

    def part(self, i: int, j: int) -> Floats:
        """Rows i to j, by what the models know; those before i stay as they were."""
        learning = self._learning
        known = learning.known_values()
        if known != self._known or j > self._until:
            learning.come_to_the_models()
            self._known, self._until = known, max(j, i + TRANSLATED)
            self.coded[i : self._until] = learning.translated(self._x[i : self._until])
        return self.coded[i:j]


class _Course:
    """Of one partition through a joint step. log : of all partitions, which has an empty place for what the models have
    learned and nobody has written yet."""

    def __init__(
        self, learner: PartitionLearner, release: Release, replica: Replica, first: int, log: list[bytes]
    ) -> None:
        self._began = perf_counter()
        learning = cast(FollowedLearning, learner.learning)
        self._learner, self._learning, self._replica = learner, learning, replica
        self._first, self._log = first, log
        self._places = dict(learner.places)
        self._time = max(learner.clocks[role].time for role in (FEATURES, LABELS))
        self._batch = batch = learner.join(release)
        pieces = {role: release.piece(role) for role in (FEATURES, LABELS)}
        self._times = {role: piece.times for role, piece in pieces.items()}
        self._after = {role: piece.after() for role, piece in pieces.items()}
        joined, program = batch.joined, batch.joined.program
        self._program, self._reached = program, joined.reached  # operations before each feature
        self._kept = batch.features.position  # numbers of those that are no dead letters; None: all
        self._before = release.before.get(LABELS, np.zeros(len(self._times[FEATURES]), np.int64))
        learns = program.op == LEARN
        self._learns = np.concatenate((np.zeros(1, np.int64), learns.cumsum()))  # before each operation
        self._rows, self._y = program.row[learns], program.y[learns]
        self._x = learning.features_of(self._rows)
        self._n_joined = learner.pending.counts["joined"] - len(self._y)  # before this step
        batch.next_offsets[LEARNED] = np.zeros(len(batch.features.ids), np.int64)
        self._features, self._learned = _Rows(learning, batch.features.x), _Rows(learning, self._x)
        self._f = 0  # records of the features that have been taken
        self._i = self._at = 0  # features that have been predicted, and operations that the models have
        self._calibrated = 0  # operations whose predictions are as they stay
        self._turns: list[_Logged] = []  # that nobody has written yet
        self._ordered = 0  # features whose order the log has
        self._from = (0, 0)  # feature and operation after the last outcome
        self.outcomes: list[Outcome] = []
        self._letters: list[DeadLetter] = []
        self._drifts: list[DriftRecord] = []
        self.ended = False
        self._left = perf_counter()  # from when on others have their turns

    @property
    def seconds(self) -> float:
        """What it took, without the turns of others."""
        return self._left - self._began

    @property
    def next_time(self) -> int:
        """Of the next feature; where there is none, of the last labels."""
        times = self._times[FEATURES]
        return int(times[self._f]) if len(times) else 0

    def turn(self, usual: int) -> None:
        """Predict the next features, and have the models learn what is joined before the one behind them."""
        others = perf_counter() - self._left
        self._began, self._batch = self._began + others, self._batch._replace(started=self._batch.started + others)
        learning, n = self._learning, len(self._before)
        known = learning.lineup.n
        most = max(usual, min(usual * MOST_TURN // USUAL_TURN, known // LONG_SHARE))
        stop = min(n, self._f + max(LEAST_TURN, min(most, known // KNOWN_SHARE)))
        i, j = self._i, stop if self._kept is None else bisect_left(self._kept, stop)
        self._f = self._place(j)
        self.ended = self._f == n
        if i < j:
            self._come_to_the_replica()
            self._batch.next_offsets[LEARNED][i:j] = learning.logs.places[LEARNED]
            learning.predict(self._features.part(i, j), self._batch.joined.predicted[i:j])
        self._i = j
        self._learn(int(self._reached[j]) if j < len(self._reached) else len(self._program.op))
        if self.ended:
            self._finish(len(self._program.op))
        self._left = perf_counter()

    def mark(self, timestamp: int) -> None:
        """Note which record of the log the partition has taken last."""
        logs, n = self._learning.logs, self._learning.logs.places[LEARNED] - self._first
        if n > 0:
            logs.last_taken[LEARNED] = self._first + n - 1, timestamp, None, self._log[n - 1]

    def _place(self, i: int) -> int:
        """Which record feature i is, or how many there are."""
        kept = range(len(self._before)) if self._kept is None else self._kept
        return kept[i] if i < len(kept) else len(self._before)

    def _come_to_the_replica(self) -> None:
        """Right before an instance is predicted."""
        learning, replica = self._learning, self._replica
        if learning.changes(replica):
            at = int(self._reached[self._i])
            self._learn(at)
            if at > self._from[1] or self._i > self._from[0]:
                self._finish(at)
            self._drifts = learning.catch_up(replica, self._letters)
        else:
            learning.stand()

    def _learn(self, end: int) -> None:
        """Have the models learn what was joined up to an operation."""
        at, self._at = self._at, end
        if self._learning.scales:
            self._calibrate(end)
        start, stop = int(self._learns[at]), int(self._learns[end])
        if start == stop:
            return
        places, f = dict(self._places), self._place(self._i)
        n_labels = int(self._before[f]) if f < len(self._before) else len(self._times[LABELS])
        for role, n in ((FEATURES, f), (LABELS, n_labels)):
            if n:
                places[role] = int(self._after[role][n - 1])
                self._time = max(self._time, int(self._times[role][n - 1]))
        part, number = slice(start, stop), len(self._log)
        teach = partial(
            self._learning.teach,
            *(self._rows[part], self._x[part], self._y[part], partial(self._learned.part, start, stop), self._time),
        )
        n = self._replica.lead(teach, self._first + number)
        self._log += [b""] * n
        self._turns.append(_Logged(start, stop, number, n, self._i, places, self._time))

    def _calibrate(self, end: int) -> None:
        """What was predicted up to an operation stays as it is then."""
        at, self._calibrated = self._calibrated, end
        self._learning.calibrate(self._program.part(at, end), self._batch.joined.instead[at:end])

    def _write(self) -> None:
        """The records of what the models have learned, for the log."""
        if not self._turns:
            return
        batch, learner, begin = self._batch, self._learner, self._ordered
        self._ordered = end = self._turns[-1].until
        next_offsets = {role: found[begin:end] for role, found in batch.next_offsets.items()}
        whole = order_of(learner.rules, batch.offsets[begin:end], next_offsets)
        moves = np.diff(whole, axis=0, prepend=0)
        at = 0
        for start, stop, number, n, until, places, time in self._turns:
            rows = self._rows[start:stop]
            joint = self._learning.joined_rows(rows, self._x[start:stop], self._y[start:stop], self._n_joined + start)
            if at < until - begin:
                moves[at] = whole[at]
            order = moves[at : until - begin].ravel().tolist()
            made = records(joint, learner.partition, places, time, order=order or None)
            if len(made) != n:
                raise AssertionError(f"{n} records were counted, and {len(made)} are written")
            self._log[number : number + n] = map(write, made)
            at = until - begin
        self._turns = []

    def _finish(self, at: int) -> None:
        """What came up to an operation, as far as there is no outcome of it yet."""
        self._write()
        self._calibrate(at)
        part = Part(self._from[0], self._i, self._from[1], at)
        self._from = part.stop, part.end
        rows = self._batch.joined.predicted[part.start : part.stop]
        program, x = self._program.part(part.at, part.end), self._features.coded[part.start : part.stop]
        ran = self._learning.ran(self._learning.scored(program), x, rows, None)
        outcome = after(self._drifts, self._learner.finish(self._batch, ran, part))
        rejected = outcome.rejected | self._learning.of_log(self._letters)
        self._drifts, self._letters = [], []
        self.outcomes.append(outcome._replace(rejected=rejected))
