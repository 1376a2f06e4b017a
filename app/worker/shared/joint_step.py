"""Steps of all partitions of a worker at once, in the order of their records' times. Pure, but for the replica's lock.

A worker that has all partitions of a stream is the only one that appends to the log, so it knows its order before the
broker does. What was fetched of all partitions is decoded and joined, each partition by itself. Then they take turns of
some records, the one with the earliest record first: these are predicted by the models as they are, and the models
learn what was joined with them. That is a record of the log, and predictions name their place in it as ever: all is the
fold of that log, to the bit.
"""

from bisect import bisect_left
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, cast

import numpy as np

from riparian.app.partition.learner import Part, PartitionLearner
from riparian.app.partition.outcome import DeadLetter, Outcome, together
from riparian.app.partition.records.partition_group import Release
from riparian.app.partition.shared.replica import FollowedLearning, Replica
from riparian.app.partition.shared.sharing import after, records
from riparian.models.contract import LEARN, Floats
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import DriftRecord
from riparian.topics.training_log import write

# Features of a turn, and of one turn of each partition: what a partition lacks of its own labels, and is ahead of
# others'. Fewer as long as the models know little; up to four times as many in a long backlog, where a turn is a small
# share of what they know, and costs about a millisecond besides its features. `benchmarks/shared_learning.py`.
USUAL_TURN, MOST_TURN, MOST_SPAN, LEAST_TURN = 256, 1024, 2048, 8
KNOWN_SHARE, LONG_SHARE = 8, 64
TRANSLATED = 2048  # rows that get the models' codes at once


class Taken(NamedTuple):
    """What a joint step gives: the outcome of each partition, and the records of the log, in order."""

    outcomes: list[Outcome]
    log: list[bytes]


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
    courses = [_Course(*both, replica) for both in zip(learners, releases, strict=True)]
    usual = min(USUAL_TURN, MOST_SPAN // len(courses))
    log, turns = list[bytes](), [(one.next_time, i) for i, one in enumerate(courses)]
    heapify(turns)
    while turns:
        _, i = turns[0]
        made = courses[i].turn(usual)
        if made:
            replica.lead(first + len(log), timestamp, made)
            log += made
        if courses[i].ended:
            heappop(turns)
        else:
            heapreplace(turns, (courses[i].next_time, i))
    return Taken([together(one.outcomes) for one in courses], log)


class _Course:
    """Of one partition through a joint step."""

    def __init__(self, learner: PartitionLearner, release: Release, replica: Replica) -> None:
        learning = cast(FollowedLearning, learner.learning)
        self._learner, self._learning, self._replica = learner, learning, replica
        self._places = dict(learner.places)
        self._time = max(learner.clocks[role].time for role in (FEATURES, LABELS))
        self._batch = batch = learner.join(release)
        self._pieces = {role: release.piece(role) for role in (FEATURES, LABELS)}
        n, joined = len(batch.features.ids), batch.joined
        self._program, self._reached = joined.program, joined.reached  # operations before each feature
        self._kept = batch.features.position  # numbers of those that are no dead letters; None: all
        self._before = release.before.get(LABELS, np.zeros(len(self._pieces[FEATURES].times), np.int64))
        self._learns = np.cumsum(joined.program.op == LEARN)
        batch.next_offsets[LEARNED] = np.zeros(n, np.int64)
        self._f = 0  # records of the features that have been taken
        self._i = self._at = 0  # features that have been predicted, and operations that the log has
        self._ordered = 0  # features whose order the log has
        self._from = (0, 0)  # feature and operation after the last outcome
        self.outcomes: list[Outcome] = []
        self._letters: list[DeadLetter] = []
        self._drifts: list[DriftRecord] = []
        self._x: Floats = np.zeros((n, batch.features.x.shape[1]))
        self._x_until, self._known = 0, tuple[int, ...]()
        self.ended = False

    @property
    def next_time(self) -> int:
        """Of the next feature; where there is none, of the last labels."""
        times = self._pieces[FEATURES].times
        return int(times[self._f]) if len(times) else 0

    def turn(self, usual: int) -> list[bytes]:
        """Predict the next features, and join the labels before the one behind them; what the log gets."""
        learning, n = self._learning, len(self._before)
        known = learning.lineup.n
        most = max(usual, min(usual * MOST_TURN // USUAL_TURN, known // LONG_SHARE))
        stop = min(n, self._f + max(LEAST_TURN, min(most, known // KNOWN_SHARE)))
        i, j = self._i, stop if self._kept is None else bisect_left(self._kept, stop)
        self._f = self._place(j)
        self.ended = self._f == n
        made = list[bytes]()
        if i < j:
            made += self._come_to_the_replica()
            self._batch.next_offsets[LEARNED][i:j] = learning.logs.places[LEARNED]
            learning.predict(self._translated(i, j), self._batch.joined.predicted[i:j])
        self._i = j
        made += self._record(int(self._reached[j]) if j < len(self._reached) else len(self._program.op))
        if self.ended:
            self._finish(len(self._program.op))
        return made

    def _place(self, i: int) -> int:
        """Which record feature i is, or how many there are."""
        kept = range(len(self._before)) if self._kept is None else self._kept
        return kept[i] if i < len(kept) else len(self._before)

    def _come_to_the_replica(self) -> list[bytes]:
        """Right before an instance is predicted. Returns what the log gets of labels before it."""
        made, learning, replica = list[bytes](), self._learning, self._replica
        if learning.changes(replica):
            at = int(self._reached[self._i])
            made = self._record(at)
            if at > self._from[1] or self._i > self._from[0]:
                self._finish(at)
            self._drifts = learning.catch_up(replica, self._letters)
        else:
            learning.stand(replica)
        return made

    def _translated(self, i: int, j: int) -> Floats:
        """Rows i to j in the models' codes."""
        learning = self._learning
        known = learning.known_values()
        if known != self._known or j > self._x_until:
            learning.come_to_the_models()
            self._known, self._x_until = known, max(j, i + TRANSLATED)
            self._x[i : self._x_until] = learning.translated(self._batch.features.x[i : self._x_until])
        return self._x[i:j]

    def _record(self, end: int) -> list[bytes]:
        """Calibrate what was predicted up to an operation; what was joined up to there, for the log."""
        at, self._at = self._at, end
        program = self._program.part(at, end)
        self._learning.calibrate(program, self._batch.joined.instead[at:end])
        n_before, n_behind = (int(self._learns[k - 1]) if k else 0 for k in (at, end))
        if n_before == n_behind:
            return []
        places, time, f = dict(self._places), self._time, self._place(self._i)
        n_labels = int(self._before[f]) if f < len(self._before) else len(self._pieces[LABELS].times)
        for role, n in ((FEATURES, f), (LABELS, n_labels)):
            if n:
                places[role] = int(self._pieces[role].after()[n - 1])
                time = max(time, int(self._pieces[role].times[n - 1]))
        self._time = time
        batch, new = self._batch, slice(self._ordered, self._i)
        self._ordered = self._i
        others = [batch.next_offsets[role][new] for role in self._learner.rules if role != FEATURES]
        order = np.diff(np.column_stack([batch.offsets[new], *others]), axis=0, prepend=0).ravel().tolist()
        joint = self._learning.joint(program, int(self._learns[-1]) - n_behind)
        made = [records(one, self._learner.partition, places, time, order=order or None) for one in joint]
        return [write(one) for found in made for one in found]

    def _finish(self, at: int) -> None:
        """What came up to an operation, as far as there is no outcome of it yet."""
        part = Part(self._from[0], self._i, self._from[1], at)
        self._from = part.stop, part.end
        rows = self._batch.joined.predicted[part.start : part.stop]
        program, x = self._program.part(part.at, part.end), self._x[part.start : part.stop]
        ran = self._learning.ran(self._learning.scored(program), x, rows, None)
        (outcome,) = after(self._drifts, [self._learner.finish(self._batch, ran, part)])
        rejected = outcome.rejected | self._learning.of_log(self._letters)
        self._drifts, self._letters = [], []
        self.outcomes.append(outcome._replace(rejected=rejected))
