"""What a partition tells besides its predictions: drift events, answers to commands, metrics, and how it is.

Each event is told once, whoever had the partition before, and only when all that it came from is durable.
"""

import logging
import time
from collections.abc import Callable, Sequence
from operator import lt

from riparian.app.kafka.sending import Outputs
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Figures, Outcome
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.task.turns import Brief
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from riparian.topics import commands, reports
from riparian.topics.commands import EventRecord
from riparian.topics.names import CHAMPION, EVENTS, FEATURES
from riparian.topics.places import place_of
from riparian.topics.records import DriftRecord, MetricsRecord, PartitionRecord
from riparian.topics.reports import STILL_SECONDS

log = logging.getLogger(__name__)

GOLDEN_RATIO = 0.6180339887498949  # whose multiples lie far apart modulo 1, however many there are
SLOTS = 8  # of the time between metrics: partitions whose slot is the same send theirs in one round


def first_due(every: float, partition: int) -> float:
    """When a partition does for the first time what it does every so many seconds (monotonic). Partitions that begin
    together do it one after the other: all at once would hold up their predictions."""
    return time.monotonic() + every * (1.0 - partition * GOLDEN_RATIO % 1.0)


class Reporter:
    """What one task reports: metrics, drift events, answers to commands.

    Parameters
    ----------
    outputs : Outputs
        Of the partition.
    tail : UncommittedOutputs
        What was sent after the manifest.
    events : sequence of DriftRecord
        Of the manifest, that nobody may have been told of.
    sent_offset : int
        Place, exclusive, up to which predictions, or their dead letters, were sent before this task began.
    state : callable
        How the partition is.

    Attributes
    ----------
    figures : Figures
        As they were last taken.
    stale : bool
        Whether anything has been learned since.
    """

    def __init__(
        self,
        host: WorkerContext,
        learner: PartitionLearner,
        outputs: Outputs,
        tail: UncommittedOutputs,
        events: Sequence[DriftRecord],
        sent_offset: int,
        state: Callable[[], PartitionRecord],
    ) -> None:
        self.figures, self.stale = learner.reported(), True
        slot = host.spec.metrics.every / SLOTS
        self.due = slot * (first_due(host.spec.metrics.every, learner.partition) // slot)  # of the next metrics
        self._host, self._learner, self._outputs, self._tail = host, learner, outputs, tail
        self._sent_offset, self._state = sent_offset, state
        self._ignored = self.figures.counts["ignored_leaps"]  # that the log tells of
        self._metrics_sent = dict(tail.metrics)
        self._told_place, self._told_at = (-1, -1), 0.0  # of the last record of the partition
        # Drift events that are not sent yet: see `send_drifts`. Those of a manifest are durable, and numbered below.
        self._untold = [record for record in events if record.number >= tail.drift]
        self._told = learner.drift.n_events
        self._brief = Brief()

    @property
    def untold(self) -> list[DriftRecord]:
        """Drift events that nobody has been told of."""
        return list(self._untold)

    def keep(self, drifts: Sequence[DriftRecord]) -> None:
        """Keep drift events until they may be told. What the last worker sent already is in the topic, as are its
        predictions. Events behind these were not sent, even where a changed stream file has fewer of them and their
        numbers come again."""
        bits, sent = self._learner.bits[FEATURES], self._sent_offset
        self._untold += [d for d in drifts if d.number >= self._tail.drift or place_of(d.offset, d.index, bits) >= sent]

    async def stepped(self, outcome: Outcome) -> None:
        """Predictions of a step are on their way to the broker."""
        self.stale = True
        self.keep(outcome.drifts)
        if outcome.ids and self._untold:
            self._told = self._learner.drift.n_events - len(outcome.drifts) + outcome.n_settled
            await self.send_drifts()
        if outcome.events:
            await self._answer(outcome.events)

    def is_durable(self, events: Sequence[DriftRecord]) -> None:
        """They are in a manifest that is with the broker."""
        if events:
            self._told = max(self._told, events[-1].number + 1)

    async def send_drifts(self) -> None:
        """Send the drift events that will not be otherwise, whatever happens.

        After a crash the records beyond the last prediction may come in another order, and their errors with them. So
        an event is sent when a prediction behind it is with the broker, or a manifest that is taken behind it (and that
        holds it, in case we die before this): then all that it came from will be as it was.
        """
        due = [record for record in self._untold if record.number < self._told] if self._untold else []
        if not due:
            return
        self._untold = self._untold[len(due) :]
        await self._outputs.flush()
        for record in due:
            await self._outputs.send_one(self._host.spec.topics.drift, None, reports.write(record))

    async def _answer(self, events: Sequence[EventRecord]) -> None:
        """Send what became of commands, once predictions that record their places are with the broker. A command behind
        the last one that was answered has no answer yet, whatever numbers a changed stream file leaves."""
        topic = self._host.spec.outputs.get(EVENTS)
        number, command = self._tail.events, self._tail.commanded
        due = [
            one
            for one in events
            if one.number >= number or (one.control_offset is not None and one.control_offset >= command)
        ]
        if topic is None:  # a rule has steered a stream that takes no commands
            return
        if due:
            await self._outputs.flush()
        for event in due:
            log.info("partition %d: %s %s: %s", self._learner.partition, event.command, event.event, event.sentence)
            await self._outputs.send_one(topic, None, commands.write(event))

    def _take_figures(self) -> tuple[Figures, list[DriftRecord]]:
        """Figures, and drift events that were found on the way to them."""
        with self._learner.learning.still() as drifts:
            return self._learner.reported(), drifts or []

    async def send_metrics(self) -> None:
        """Take the figures of now, and send those that nobody has told."""
        every = self._host.spec.metrics.every
        self.due += every * (1 + (time.monotonic() - self.due) // every)
        if self.stale:
            self.stale = False
            self.figures, drifts = await self._brief.run(1, self._take_figures, self._learner.learning, self._host)
            self.keep(drifts)
        figures, spec = self.figures, self._learner.spec
        ignored = figures.counts["ignored_leaps"]
        if ignored > self._ignored:
            said = (
                "partition %d: timestamps ignored, as they are more than a minute ahead of the records around them: %d"
            )
            log.warning(said, self._learner.partition, ignored - self._ignored)
            self._ignored = ignored
        for role, running in self._learner.roles.items():
            if role not in figures.overall:  # a command has just brought it
                continue
            # Each place once, in order, whoever reported it.
            last, learned = self._metrics_sent.get(role, self._tail.stood), (figures.learned_offset, 0)
            now = (figures.offset, figures.feature_index), (figures.label_offset, figures.label_index), learned
            if last is not None and (now == last or any(map(lt, now, last))):
                continue
            self._metrics_sent[role] = now
            overall = figures.overall[role]
            record = MetricsRecord(
                stream=spec.name,
                partition=self._learner.partition,
                time=int(time.time() * 1000),
                model=role,
                name=running.learner_name,
                offset=figures.offset,
                label_offset=figures.label_offset,
                index=figures.feature_index,
                label_index=figures.label_index,
                n=int(overall.get("n", 0)),
                overall=dict(overall),
                window=None if spec.metrics.fading else dict(figures.recent[role]),
                fading=dict(figures.recent[role]) if spec.metrics.fading else None,
                counters=figures.counts,
                size=figures.sizes.get(role),
                learned_offset=figures.learned_offset,
                comparison=figures.compared.get(role),
                estimated=figures.estimated.get(role) or None,
                classes=figures.by_class.get(role) or None,
                segments=list(figures.segments) if role == CHAMPION else [],
                members={name: round(weight, 4) for name, weight in figures.members.get(role, {}).items()} or None,
            )
            await self._outputs.send_one(spec.topics.metrics, None, reports.write(record))
        await self._send_state_of_partition((figures.offset, figures.label_offset))

    async def _send_state_of_partition(self, place: tuple[int, int]) -> None:
        """Also while nothing comes: whoever looks at the topic sees that the partition has a worker."""
        now = time.monotonic()
        if place != self._told_place or now >= self._told_at + STILL_SECONDS:
            self._told_place, self._told_at = place, now
            record = self._state()
            await self._outputs.send_one(self._host.spec.topics.metrics, None, reports.write(record))
