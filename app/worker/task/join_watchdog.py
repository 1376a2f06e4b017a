"""Features and labels that never meet: noticed by what is joined, and made sure of by where the ids are.

No record is wrong and nothing lags; instances and labels come, wait and leave. A worker counts what comes to its
partitions. Once there are `LEAST` instances and `LEAST` labels (meeting.py), and fewer than `SHARE` of the rarer kind
were joined, it looks at the ids themselves: in a sample of all partitions, of the last records, or with the first ones
where these have no ids in common.

- Few are joined, and ids lie in two partitions: two clients choose them in two ways. By chance half meet with two.
- Next to none is joined, for whatever reason: other ids, other times, another horizon. The warning has an example of
  each side and the two times, the metric and the partition's record have it until labels meet again.

Few joins without ids apart warn nobody, since they need not be wrong: labels of other streams in the topic, labels of
some instances only. A feature that none of `LEAST` instances had is told once, as is the field of
`label.by`. So is that labels of one class come much earlier than those of another (label_delays.py).
"""

import logging
import time
from collections.abc import Iterable, Sequence

from aiokafka.errors import KafkaError

from riparian.app.errors import RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.keys import ENOUGH, Ids, sample
from riparian.app.partition.join.meeting import LEAST, Counts, few, none
from riparian.app.partition.learner import PartitionLearner, early_labels
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.mapping import series_field
from riparian.app.stream_file.spec import Spec
from riparian.topics.decoding.paths import dotted

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
AGAIN_SECONDS = 600.0  # between two samples of up to 4,000 records a topic


class JoinWatchdog:
    """Watches the partitions of a worker.

    Attributes
    ----------
    apart : float
        Share of the sampled ids whose label is in another partition than their features; 0 where nothing is wrong.
    unmet : str, optional
        While next to nothing is joined, what the log says of it.
    early : str, optional
        What it says of labels of one class that come much earlier than those of another.
    """

    def __init__(self, spec: Spec, connection: Connection) -> None:
        self.spec, self.connection = spec, connection
        self.apart = 0.0
        self.unmet: str | None = None
        self._known: dict[int, Counts] = {}
        self._since: Counts = (0, 0, 0)
        self._next_sample = 0.0
        self._instances: dict[int, int] = {}  # of each partition, when its state was loaded
        self._absent = set[str]()  # features that were told of
        self.early: str | None = None

    def begin(self, learner: PartitionLearner) -> None:
        """A state was loaded: count what comes after it."""
        self._known[learner.partition] = self._counts(learner)
        self._instances[learner.partition] = learner.n_instances

    def _counts(self, learner: PartitionLearner) -> Counts:
        """With rekey.by each label comes to every partition, and joins in one."""
        copies = self.spec.partitions if self.spec.labels_everywhere else 1
        return learner.n_instances, learner.n_labels // copies, learner.n_met

    def count(self, learners: Iterable[PartitionLearner]) -> None:
        """Add what has come since the last call."""
        for learner in learners:
            now = self._counts(learner)
            added = zip(self._since, now, self._known.get(learner.partition, now), strict=True)
            self._known[learner.partition] = now
            instances, labels, joined = (since + n - before for since, n, before in added)
            self._since = instances, labels, joined

    async def look(self, learners: Sequence[PartitionLearner]) -> None:
        """Now and then: count, judge, and where few are joined, look at the ids."""
        self._look_for_features(learners)
        self._look_at_delays(learners)
        if self.spec.topics.labels is None:
            return
        self.count(learners)
        found = few(self._since)
        if found is None:
            return
        counts, self._since = self._since, (0, 0, 0)
        if not found:
            self.apart, self.unmet = 0.0, None
            return
        vain, ids = bool(none(counts)), None
        if (self.spec.partitions > 1 or (vain and self.unmet is None)) and time.monotonic() >= self._next_sample:
            try:
                ids = await self._sample()
                self._judge(counts, ids)
            except (KafkaError, RiparianError, OSError) as error:
                log.debug("ids were not compared: %r", error)
        if not vain:
            self.unmet = None
        elif not self.apart and self.unmet is None:  # said once, until some meet again
            self.unmet = self._unmet(counts, ids, sum(learner.pending.counts["expired"] for learner in learners))
            log.warning("%s", self.unmet)

    def _unmet(self, counts: Counts, ids: Ids | None, expired: int) -> str:
        instances, labels, joined = counts
        said = (
            f"labels do not meet their instances: of the last {instances:,} instances and {labels:,} labels, "
            f"{joined or 'none'} {'were' if joined > 1 else 'was'} joined"
        )
        if ids is not None and ids.strange:
            return f"{said}; {ids.sentence()}"
        horizon = format_duration(self.spec.join.horizon)
        vain = f", and {expired:,} instances waited for {horizon} in vain" if expired else ""
        why = f"labels come later than join.horizon ({horizon}), belong to instances before, or have other ids"
        return f"{said}{vain}: {why}"

    def _look_for_features(self, learners: Sequence[PartitionLearner]) -> None:
        """Tell once of each feature that no instance had."""
        n = sum(learner.n_instances - self._instances.get(learner.partition, 0) for learner in learners)
        if n < LEAST:
            return
        absent = set.intersection(*(set(learner.decoder.never_seen()) for learner in learners)) - self._absent
        series = series_field(self.spec)
        for name in sorted(absent):
            so = "and is learned so" if series is None or name != dotted(series[1]) else "and none gets a label"
            log.warning(
                "%s was missing in each of %d instances, %s: correct its name in the stream file, or leave it out "
                "(riparian check --broker says what fields records have)", name, n, so
            )  # fmt: skip
        self._absent |= absent

    def _look_at_delays(self, learners: Iterable[PartitionLearner]) -> None:
        """Warn once of labels of one class that come first."""
        before, self.early = self.early, early_labels(learners)
        if before is None and self.early is not None:
            log.warning("%s", self.early)

    async def _sample(self) -> Ids | None:
        ids = (await sample(self.spec, self.connection, first=False)).ids
        if ids is None or ids.both < ENOUGH:
            ids = (await sample(self.spec, self.connection)).ids
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
