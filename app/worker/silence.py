"""Features and labels that never meet: noticed by what is joined, and made sure of by where the ids are.

Where two clients choose partitions in two ways, no record is wrong and nothing lags; instances and labels come, wait
and leave, and few are joined, by chance: half with two partitions, a quarter with four. So a worker counts what comes
to its partitions. Once there are `LEAST` instances and `LEAST` labels, and fewer than `SHARE` of the rarer kind were
joined, it looks at the ids themselves: in a sample of all partitions, of the last records, or with the first ones
where these have no ids in common. Few joins alone warn nobody, since they need not be wrong: labels of other streams
in the topic, labels of some instances only. No joins at all do, once instances have expired: the horizon is too short.
"""

import logging
import time
from collections.abc import Iterable, Sequence

from aiokafka.errors import KafkaError

from app.errors import RiparianError
from app.kafka.connection import Connection
from app.kafka.keys import Ids, sample
from app.partition.learner import PartitionLearner
from app.stream_file.durations import format_duration
from app.stream_file.spec import Spec

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
LEAST = 1000
SHARE = 0.75  # of two partitions, half meet by chance
ENOUGH = 30  # ids that are in both topics, to judge by
AGAIN_SECONDS = 600.0  # between two samples of up to 4,000 records a topic

Counts = tuple[int, int, int]  # instances, labels, joined


def _counts(learner: PartitionLearner) -> Counts:
    return learner.n_instances, learner.n_labels, learner.pending.counts["joined"]


def few(counts: Counts) -> bool | None:
    """Whether few of what came were joined; None before enough has come to say."""
    instances, labels, joined = counts
    rarer = min(instances, labels)
    return None if rarer < LEAST else joined < SHARE * rarer


class Silence:
    """Watches the partitions of a worker.

    Attributes
    ----------
    apart : float
        Share of the sampled ids whose label is in another partition than their features; 0 where nothing is wrong.
    """

    def __init__(self, spec: Spec, connection: Connection) -> None:
        self.spec, self.connection = spec, connection
        self.apart = 0.0
        self._vain = False  # whether the horizon was warned of
        self._known: dict[int, Counts] = {}
        self._since: Counts = (0, 0, 0)
        self._next_sample = 0.0

    def begin(self, learner: PartitionLearner) -> None:
        """A state was loaded: count what comes after it."""
        self._known[learner.partition] = _counts(learner)

    def count(self, learners: Iterable[PartitionLearner]) -> None:
        """Add what has come since the last call."""
        for learner in learners:
            now = _counts(learner)
            added = zip(self._since, now, self._known.get(learner.partition, now), strict=True)
            self._known[learner.partition] = now
            instances, labels, joined = (since + n - before for since, n, before in added)
            self._since = instances, labels, joined

    async def look(self, learners: Sequence[PartitionLearner]) -> None:
        """Now and then: count, judge, and where few are joined, look at the ids."""
        if self.spec.topics.labels is None:
            return
        self.count(learners)
        found = few(self._since)
        if found is None:
            return
        counts, self._since = self._since, (0, 0, 0)
        if not found:
            self.apart, self._vain = 0.0, False
        elif self.spec.partitions > 1 and time.monotonic() >= self._next_sample:
            try:
                self._judge(counts, await self._sample())
            except (KafkaError, RiparianError, OSError) as error:
                log.debug("ids were not compared: %r", error)
        if found and not self.apart:
            self._warn_of_horizon(counts, sum(learner.pending.counts["expired"] for learner in learners))

    def _warn_of_horizon(self, counts: Counts, expired: int) -> None:
        """Where no label at all met an instance, and instances have expired. Said once, until some meet again."""
        instances, labels, joined = counts
        if joined or expired < LEAST or self._vain:
            return
        self._vain = True
        log.warning(
            "no label meets its instance: of the last %d instances and %d labels, none was joined, and %d instances "
            "waited for %s in vain (join.horizon); labels come later than that, or have other ids",
            instances, labels, expired, format_duration(self.spec.join.horizon),
        )  # fmt: skip

    async def _sample(self) -> Ids | None:
        ids = await sample(self.spec, self.connection, first=False)
        if ids is None or ids.both < ENOUGH:
            ids = await sample(self.spec, self.connection)
        self._next_sample = time.monotonic() + AGAIN_SECONDS
        return ids

    def _judge(self, counts: Counts, ids: Ids | None) -> None:
        if ids is None:
            return
        text = "few labels meet their instances: of the last %d instances and %d labels, %d were joined; %s"
        broken = ids.both >= ENOUGH and ids.broken
        if not broken or not self.apart:  # said once, until it is mended
            log.log(logging.WARNING if broken else logging.INFO, text, *counts, ids.sentence())
        self.apart = ids.apart / ids.both if broken else 0.0
