"""The task of a partition: merges, steps, sends and checkpoints, for as long as the partition is this worker's.

It takes turns (app/worker/agent.py), one at a time, whenever it has something to do. A runner begins with what the
manifest and the recorded order say. At a rebalance it writes a checkpoint and goes on; when its partition goes to
another worker, and at a stop, it writes a last one, if the broker lets it, and is dropped. So a label is trained
exactly once, whatever is killed when, and no prediction is sent twice.

The order within a step never changes: predict and learn in memory, send the outputs, and only when those are
acknowledged write a manifest whose offsets lie behind them. What the owners before sent already (`UncommittedOutputs`)
is predicted and learned again, in the order that the predictions recorded, and not sent again.
"""

import asyncio
import contextlib
import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka.errors import KafkaError, ProducerFenced
from faust.types import TP

from riparian.app.kafka.sending import Outputs
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.kafka.wire_format.unpacking import RECORD_BYTES
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.learning import Learning, Stages
from riparian.app.partition.outcome import Figures, Outcome
from riparian.app.partition.records import inputs
from riparian.app.partition.records.inputs import Gaps, Lost
from riparian.app.partition.records.partition_group import NOTHING, PartitionGroup, Release, empty_piece
from riparian.app.registry.asking import Asking
from riparian.app.registry.client import Registry
from riparian.app.state import checkpoint
from riparian.app.state.log import StateLog
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.faust_client.fetches import Fetched
from riparian.app.worker.shared.replica import AloneError, ReplicaOfWorker
from riparian.app.worker.shared.training_log import SharedLog
from riparian.app.worker.task.checkpoints import Beside, Checkpoints
from riparian.app.worker.task.dead_letters import Sendable, letters, sendable
from riparian.app.worker.task.release_gate import Releases
from riparian.app.worker.task.reporter import Reporter
from riparian.app.worker.task.turns import IN_STEP, Brief, Life, Turns
from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs
from riparian.topics.decoding.headers import trace
from riparian.topics.names import FEATURES, LEARNED
from riparian.topics.places import place_of
from riparian.topics.records import UNKNOWN_SCHEMA, PartitionRecord

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # between two looks for what else is due while a schema is waited for: each goes through what waits
IDLE_SECONDS = 0.5  # between two turns of a partition of which nothing comes, at least; twice as many at most
LAST_CHECKPOINT_SECONDS = 10.0  # how long the last one may wait for the broker
STALLED_SECONDS = 10.0  # that partitions which recover together wait for one of them that does not go on
PATIENT_SECONDS = 0.5  # that others wait in a backlog for a partition, with earlier records, that does not go on
SECURE_SECONDS = 1.0  # that a rebalance may wait for a checkpoint: without it more has to be read back, and that is all


class Observer(Protocol):
    """What tasks report to (Prometheus, the demo's table)."""

    def stepped(self, runner: "PartitionTask", outcome: Outcome, seconds: float) -> None: ...
    def rejected(self, runner: "PartitionTask", reason: str) -> None: ...
    def checkpointed(self, runner: "PartitionTask", seconds: float, n_bytes: int) -> None: ...
    def of_partition(self, runner: "PartitionTask") -> PartitionRecord: ...
    def dropped(self, partition: int) -> None: ...


Made = tuple[Outcome, list[Any], list[Any], list[str]]


class Step(NamedTuple):
    """What a step gives: its outcome, batches of predictions and of dead letters, why each of these is one, and the
    seconds that it took as they passed, without what others did meanwhile: of work that was done together, its share by
    records."""

    outcome: Outcome
    predictions: list[Any]
    letters: list[Any]
    reasons: list[str]
    seconds: float


class PartitionTask(Turns):
    """One partition in this worker, until it goes to another one.

    Parameters
    ----------
    learner : PartitionLearner
        As the manifest left it.
    state : StateLog
        What the changelog holds.
    encoder : Encoder
        Writes the learner's checkpoints.
    outputs : Outputs
        Stopped with the task.
    tail : UncommittedOutputs
        What was sent after the manifest.
    lost : mapping of str to Lost, optional
        Role of an input topic -> what it has lost, and from where on to take records.
    replica : ReplicaOfWorker, optional
        Behind which the partition recovers, where all learn one model.
    """

    def __init__(
        self,
        worker: WorkerContext,
        observer: Observer,
        learner: PartitionLearner,
        state: StateLog,
        encoder: checkpoint.Encoder,
        outputs: Outputs,
        tail: UncommittedOutputs,
        lost: Mapping[str, Lost] | None = None,
        replica: ReplicaOfWorker | None = None,
    ) -> None:
        super().__init__(worker)
        self.observer = observer
        self.learner = learner
        self.replica = replica
        self.partition = learner.partition
        self.outputs = outputs
        self.tps = {role: TP(topic, self.partition) for role, topic, _ in worker.spec.inputs}
        self._roles = {tp: role for role, tp in self.tps.items()}
        topics = {role: getattr(worker.spec.topics, role) for role in learner.learning.reached()}
        self._applied = {role: topic for role, topic in topics.items() if topic is not None}  # all whose records are
        self._bits = {topic: learner.bits.get(role, 0) for role, topic in self._applied.items()}
        self.epochs: Mapping[TP, int] = {}
        self._early: list[tuple[TP, Fetched]] = []  # came before we were told our epochs
        self.buffers = learner.buffers()
        self.gaps = Gaps(lost or {})
        for role, (_, stop) in self.gaps.lost.items():
            buffer = self.buffers[role]
            buffer.next_offset = max(buffer.next_offset, place_of(stop, 0, buffer.bits))
        self.merge = PartitionGroup(self.buffers, tail.script)
        self._releases = Releases(self.merge, self.tps, worker.inputs, self)
        self._replays = learner.learning.joins  # what was sent before us, and the replica waits for us
        self._stood, self._moved = (-1, -1), 0.0  # in the features and the shared log, and since when
        self.shared = SharedLog(worker, learner, outputs, tail.joined, self, self._acknowledged)
        self.released_at = 0.0  # when records last were (monotonic); at first, when it started
        self.stalls = False  # others have waited for it in vain, and do not until it goes on
        # Source place, exclusive.
        self.sent_offset = tail.sent_offset
        self.n_skipped = 0
        self.n_moved = 0  # labels that were handed on to another partition
        self.started = time.time()
        self._tail = tail
        events = [] if state.manifest is None else state.manifest.events
        # Instead of a prediction that its topic does not take there is a dead letter.
        self._dealt_with = max(self.sent_offset, tail.rejected.get(self.tps[FEATURES].topic, 0))
        self.reporter = Reporter(
            worker,
            learner,
            outputs,
            tail,
            events,
            self._dealt_with,
            lambda: observer.of_partition(self),
        )
        given = learner, state, encoder, outputs, self.flush, self.reporter
        self.checkpoints = Checkpoints(worker, *given, self._has_checkpoint)
        self._brief = Brief()
        self._rest: Release | None = None  # of a release: what waits for schemas
        self._asking = None if worker.registry is None else self._ask(worker.registry, tail)

    def _ask(self, registry: Registry, tail: UncommittedOutputs) -> Asking:
        refused = {role: tail.unknown.get(tp.topic, ()) for role, tp in self.tps.items()}
        # Records of a registry's formats are instances: their places are offsets.
        others = {role: int(found[-1]) for role, found in tail.script.next_offsets.items() if len(found)}
        order = tail.script.offsets
        taken = {FEATURES: int(order[-1]) + 1 if len(order) else 0, **others}
        return Asking(registry, self.host.spec, self.partition, refused, taken)

    # -- records in --------------------------------------------------------------------------------------------

    def start(self, epochs: Mapping[TP, int]) -> None:
        self.epochs, self.life, self.released_at = epochs, Life.RUNNING, time.monotonic()
        self.shared.start()
        early, self._early = self._early, []
        for tp, fetched in early:
            self.add(tp, fetched)
        self.wake()

    @property
    def figures(self) -> Figures:
        """As they were last taken, for metrics."""
        return self.reporter.figures

    @property
    def n_forced(self) -> int:
        """How often the merge went on without what it waited for (`Releases.n_forced`)."""
        return self._releases.n_forced

    @property
    def n_unknown_schemas(self) -> int:
        """Schemas that records wait for: the registry does not answer, or does not have them."""
        return 0 if self._asking is None else self._asking.n_unknown

    def add(self, tp: TP, fetched: Fetched) -> None:
        """Take a fetched batch; one from before this assignment is dropped."""
        if self.life is Life.CREATED:
            self._early.append((tp, fetched))
            return
        if fetched.epoch != self.epochs.get(tp):
            return
        if fetched.jump is not None and not self._jump(tp, *fetched.jump):
            return
        buffer = self.buffers[self._roles[tp]]
        before = len(buffer)
        skipped = buffer.add(fetched.raw)
        self.n_skipped += skipped
        n = len(buffer) - before + skipped - len(fetched.raw)
        if n:  # where a record holds several instances, each has a place in memory besides
            self.host.inputs.add(tp, int(fetched.raw.offsets[-1]) + 1, n * RECORD_BYTES)
        # Whoever adds begins a round.
        if self._releases.fetched(self._roles[tp], fetched.seen):
            self.awake = True
        else:
            self.due = min(self.due, self._releases.due)

    def _jump(self, tp: TP, start: int, stop: int) -> bool:
        """The topic does not hold `start`, and the client went on at `stop`. Whether to do so, too."""
        if stop > start and self.host.spec.lost == inputs.SKIP:
            log.warning("Kafka has %s", inputs.gone(tp.topic, self.partition, start, stop))
            self.gaps.skip(self._roles[tp], start, stop)
            self.checkpoints.dirty = True
            return True
        self._end = (
            inputs.records_lost(tp.topic, self.partition, start, stop)
            if stop > start
            else KafkaError(f"{tp.topic} went back from offset {start} to {stop}")  # to be examined
        )
        self.awake = True
        return False

    # -- turns -------------------------------------------------------------------------------------------------

    async def follows(self) -> bool:
        """Leave it to a replica to learn the shared log: to the one behind which we recover, and then to that of the
        worker, once both stand at one place. Returns whether steps may be taken."""
        learning, replica = self.learner.learning, self.replica
        if replica is None:
            return True
        if learning.joins and not await replica.join(learning):
            return False
        if self._replays:
            self._replay(learning, replica)
        elif learning.follows and replica is not (first := replica.first):
            drifts = await replica.move(learning, first)
            if drifts is not None:
                self.replica = first
                self.reporter.keep(drifts)
                self.checkpoints.dirty = True
                await replica.leave(learning)
        return True

    def _replay(self, learning: Learning, replica: ReplicaOfWorker) -> None:
        """The next prediction that was sent before us was made at a place of the shared log: the replica comes there
        and waits. Records are released up to the first that was predicted behind it."""
        place = None
        if self.merge.follows or self._rest is not None:
            place = self._tail.script.next_place(LEARNED, learning.logs.places[FEATURES])
        self.buffers[LEARNED].next_offset = replica.models.place
        stands = learning.logs.places[FEATURES], replica.models.place
        if stands != self._stood:
            self._stood, self._moved = stands, time.monotonic()
            replica.hold_back(learning, place)
        elif replica.models.waits_for(learning) and time.monotonic() > self._moved + STALLED_SECONDS:
            raise AloneError(f"nothing has come for {STALLED_SECONDS:.0f} s, and others wait for it")
        if place is None:
            replica.hold_back(learning, None)
            self._replays = False

    def learned_more(self) -> None:
        """A replica of the worker has."""
        self.checkpoints.dirty = self.reporter.stale = True
        moves = self.replica is not None and self.replica is not self.replica.first
        if self._replays or moves or self.shared.behind.held:
            self.wake()

    def _acknowledged(self, offset: int, timestamp: int, value: bytes) -> None:
        if self.replica is not None:
            self.replica.appended(offset, timestamp, value)

    @property
    def next_time(self) -> int:
        """Of the next of its features that were fetched; 0 where none were."""
        features = self.buffers[FEATURES]
        return features.first_time if len(features) else 0

    def _holds_back(self) -> bool:
        """Whether nothing may be predicted or joined before models that others learn, too, have come further."""
        end = self.host.inputs.end_offset(self.tps[FEATURES])
        learning = self.learner.learning
        learning.backlog = 0 if end is None else max(0, end - self.buffers[FEATURES].done_offset)
        return self.shared.behind.holds_back(self.merge, self._waits_for_others)

    def _waits_for_others(self) -> bool:
        """Whether other partitions, which learn the same models, have earlier records: in a backlog they go in turn."""
        features = self.buffers[FEATURES]
        if len(features) < self.learner.learning.turn:
            return False
        place, tasks = (features.first_time, self.partition), self.host.tasks.values()
        patient = time.monotonic() <= max((task.released_at for task in tasks), default=0.0) + PATIENT_SECONDS
        for other in tasks:
            if other is self or other.stalls or not other.running:
                continue
            theirs = other.buffers[FEATURES]
            if (theirs.first_time, other.partition) < place if len(theirs) else other.comes:
                if patient:
                    return True
                other.stalls = True
        return False

    @property
    def comes(self) -> bool:
        """Whether features that are there are still to be fetched."""
        return self._comes(FEATURES)

    def _comes(self, role: str) -> bool:
        tp = self.tps[role]
        end = self.host.inputs.end_offset(tp)
        return end is None or not self.host.inputs.reached(tp, end, self.buffers[role].fetch_offset)

    # -- with all other partitions (shared/joint_turns.py) -----------------------------------------------------

    @property
    def appends_together(self) -> bool:
        """Whether it has come to the place of the worker's other partitions, goes on, and can write checkpoints."""
        replica = self.replica
        return (
            self.running
            and self._end is None
            and replica is not None
            and replica is replica.first
            and not (self._replays or self.merge.follows or self.learner.learning.waits)
        )

    @property
    def steps_together(self) -> bool:
        """Whether its next step may be taken with those of all other partitions."""
        features = self.buffers[FEATURES]
        return (
            self.appends_together
            and self._asking is None
            and not self.shared.has_commands
            and (len(features) > 0 or self.stalls or not self.comes)
            and self.learner.learning.steps_together
        )

    @property
    def n_waiting(self) -> int:
        """Features that were fetched and not taken."""
        return len(self.buffers[FEATURES])

    def horizon(self, most: int) -> float:
        """The time up to which all records are there, of the first so many features."""
        features, found = self.buffers[FEATURES], math.inf
        for role in self.tps:
            if len(self.buffers[role]) and self._comes(role):
                found = min(found, self.buffers[role].last_time)
        return min(found, int(features.times()[most - 1])) if len(features) > most else found

    def release_until(self, until: float, most: int) -> Release:
        """What may go, up to about this time; of each log not more than `most` records, also where times are alike."""
        counts = [int(self.buffers[role].times().searchsorted(until, side="right")) for role in self.tps]
        self.merge.limit = max(1, min(most, max(counts)))
        release = self._releases.next()
        if release.n:
            self.released_at, self.stalls = time.monotonic(), False
        empty = {role: empty_piece() for role in self.buffers}
        return release if release.pieces else Release(empty, {})

    async def sends(self, step: Step) -> None:
        """Send what came of a step, and tell of it."""
        self.checkpoints.dirty = True
        await self.send_predictions(step)
        if step.reasons:
            await self.send_dead_letters(step)
        if step.outcome.moved:
            await self.hand_on_labels(step)
        if step.outcome.joint:  # to the log that all partitions learn
            await self.shared.keep(step.outcome.joint, self.merge.limit)
        await self.report(step)

    def leave_to(self, turn: "asyncio.Task[None]") -> None:
        """Take no turn before this one has ended."""
        self.awake, self._turns = False, turn

    def go_on(self, more: bool) -> None:
        """That turn has ended. more : there may be more to do."""
        self.due = self._next_due()
        if more or self.awake:
            self.wake()
        else:
            self.host.fetches.ask_at(self.due)

    async def prove(self) -> None:
        """Write a checkpoint, where one can be made now. The broker refuses it where another worker has taken the
        partition over."""
        await self.checkpoints.settle()
        await self.shared.append()
        await self.checkpoints.begin(self._beside)
        await self.checkpoints.settle()

    def proved_since(self, since: float) -> bool:
        """Whether a checkpoint is written that was begun after then (monotonic)."""
        return self.checkpoints.begun > since

    def ask_checkpoint(self) -> None:
        """Write one with the next turn that can."""
        self.checkpoints.dirty, self.checkpoints.due = True, 0.0
        self.wake()

    async def fails(self, error: BaseException) -> None:
        """A turn of all partitions has."""
        if self.life is not Life.LOST:
            await self._fail(error)

    def has_more(self, n: int) -> bool:
        """After a turn that has taken n records: whether there may be more that can go now."""
        return self.waits_for_schema or (n > 0 and self._releases.more)

    @property
    def waits_for_schema(self) -> bool:
        """Whether a part of what was released waits until the registry has told its schemas, or that it has none."""
        return self._rest is not None

    async def schemas(self) -> None:
        """Wait for the registry, or until it is to be asked again."""
        if self._asking is not None:
            await self._asking.wait(POLL_SECONDS)

    def release(self) -> Release:
        """What may be learned next, with all its schemas known."""
        if self._rest is not None:
            release, self._rest = self._rest, None
        elif self.replica is not None and self._holds_back():
            # The models have to learn first, or others to go: these wake it, unless none of them does.
            self._releases.due = math.inf if self.shared.behind.lags else time.monotonic() + PATIENT_SECONDS
            if self.shared.behind.lags:
                self.replica.hurry()
            for task in () if self.host.held else self.host.tasks.values():  # what is joined later: `SharedLog.keep`
                if task.shared.hasten():
                    task.wake()
            self.host.held.add(self)
            return NOTHING
        else:
            self.host.held.discard(self)
            release = self._releases.next()
            if release.n:
                self.released_at, self.stalls = time.monotonic(), False
        if self._asking is not None and release.n:
            release, rest = self._asking.ready(release)
            self._rest = rest if rest.n else None
        return release

    def _next_due(self) -> float:
        """When there is something to do although nothing comes."""
        # All in one round. Not the next one: of many partitions most have had a turn until it comes.
        idle = IDLE_SECONDS * (time.monotonic() // IDLE_SECONDS + 2)
        if self.learner.learning.joins:  # until the replica has come to its place it does nothing: `learned_more`
            return idle
        due: float = min(self.reporter.due, self._releases.due, self.shared.latest, idle)
        if self.checkpoints.wanted:
            due = min(due, self.checkpoints.due)
        return due

    def _output_positions(self) -> dict[str, int]:
        """Role of an output topic -> offset from which an owner that restores a checkpoint of now reads what was sent.

        While this worker replays what was sent before it, those outputs stand in the topics already, and the next owner
        needs them, too.
        """
        reached = self.learner.learning.reached()
        replaying = (
            reached[FEATURES] < self.sent_offset
            or any(reached[role] < self._tail.rejected.get(topic, 0) for role, topic in self._applied.items())
            or self._tail.beyond(self.learner, self._dealt_with)
        )
        positions = {**self.outputs.position, **self._tail.starts} if replaying else self.outputs.position
        return {role: positions[topic] for role, topic in self.host.spec.outputs.items()}

    async def step(self, release: Release) -> Step:
        """Decode, join, predict, learn and encode: in memory. In another thread, where that may take long."""
        n, learning = release.n, self.learner.learning
        learning.takes(n)
        try:
            if await self._brief.has(n, learning, self.host):
                try:
                    step, seconds = await self._in_stages(release, self._brief.clock(n))
                finally:
                    learning.let_go()
            else:
                step, seconds = await self.host.in_thread(self._timed, release, self._brief.clock(n))
        finally:
            learning.takes(-n)
        self._brief.judge(n, seconds)
        return step

    async def send_predictions(self, step: Step) -> None:
        topics = self.host.spec.topics
        if UNKNOWN_SCHEMA in step.reasons:  # the next owner has to decide likewise: it reads this first
            await self.outputs.send(topics.deadletters, step.letters)
            await self.outputs.flush()
            step.letters.clear()
        futures = await self.outputs.send(topics.predictions, step.predictions)
        if self.replica is not None:
            await self.shared.sends(step.outcome, futures)

    async def send_dead_letters(self, step: Step) -> None:
        await self.outputs.send(self.host.spec.topics.deadletters, step.letters)
        for reason in step.reasons:
            self.observer.rejected(self, reason)

    async def hand_on_labels(self, step: Step) -> None:
        """To the partitions in which their instances wait since before the topics grew."""
        moved, grown = step.outcome.moved, self.learner.grown
        if grown is None:
            return
        topic = str(self.host.spec.topics.labels)
        homes = partitions_of([one.by for one in moved], grown[0]).tolist()
        for home, one in zip(homes, moved, strict=True):
            await self.outputs.hand_on(topic, home, *one[1:])
        self.n_moved += len(moved)

    async def report(self, step: Step) -> None:
        """Drift events, answers to commands, and what the step was."""
        await self.reporter.stepped(step.outcome)
        if self.learner.promotion.asks_checkpoint:
            self.checkpoints.due = 0.0
        self.observer.stepped(self, step.outcome, step.seconds)
        if self._asking is not None:
            self._asking.stepped()
        if self.replica is not None:
            for task in self.host.held:
                task.wake()
        if self._rest is None:
            self.host.inputs.learned({tp: self.buffers[role].done_offset for role, tp in self.tps.items()})

    async def _in_stages(self, release: Release, clock: Callable[[], float]) -> tuple[Step, float]:
        """Stage by stage with other partitions. And how long it took by a clock (`Brief`)."""
        stages, seconds, judged = self._stages(release), 0.0, 0.0
        made: Made | None = None
        while made is None:
            began, clock_began = time.perf_counter(), clock()
            try:
                share = next(stages)
            except StopIteration as end:
                made, share = end.value
            judged += clock() - clock_began + share
            seconds += time.perf_counter() - began + share
            if made is None:
                await IN_STEP
        return Step(*made, seconds), judged

    def _timed(self, release: Release, clock: Callable[[], float]) -> tuple[Step, float]:
        """Likewise, off the event loop."""
        began, clock_began = time.perf_counter(), clock()
        made = self.made_of(self.learner.step(release))
        return Step(*made, time.perf_counter() - began), clock() - clock_began

    def _stages(self, release: Release) -> Stages[tuple["Made", float]]:
        """Decode, join, learn, encode."""
        outcome = yield from self.learner.stages(release, self.host.decoding)
        asked = self.host.encoding.wait(self.learner.unencoded(outcome))
        yield 0.0
        if asked is None:
            return self.made_of(outcome), 0.0
        return self.made_of(outcome, self.host.encoding.do(asked).found), asked.seconds

    def made_of(self, outcome: Outcome, encoded: Sequence[bytes] | None = None) -> "Made":
        """An outcome with batches of predictions and of dead letters, and why each of these is one. encoded : its
        predictions, where they are already."""
        # What the last worker sent already is in the topics: do not send it again.
        topics, limits, sent = self.host.spec.topics, self.host.limits, self._tail.rejected
        lettered = min(self.sent_offset, sent.get(topics.features, 0))
        start, first = bisect_left(outcome.offsets, lettered), bisect_left(outcome.offsets, self.sent_offset)
        room = limits[topics.predictions]
        join = self.learner.codec.join_predictions
        packed = None if join is None else self.learner.pack(outcome, first, room)
        if packed is not None:
            predictions = Sendable([None] * len(packed), packed, [])
        else:
            offsets, keys, values = (
                outcome.offsets[start:],
                outcome.keys[start:],
                self.learner.encode(outcome, start) if encoded is None else encoded[start:],
            )
            traces = None
            if self.host.spec.predictions.trace and outcome.headers is not None:
                traces = list(map(trace, outcome.headers[start:]))
            predictions = sendable(offsets, keys, values, room, first - start, traces)
            if join is not None:
                values = join(predictions.values, room)
                predictions = Sendable([None] * len(values), values, predictions.too_large)
        keys, values, large, traces = predictions
        batches = self.outputs.build(keys, values, traces)
        if not (large or any(outcome.rejected.values())):
            return outcome, batches, [], []
        rejected = {topic: outcome.rejected.get(role, []) for role, topic in self._applied.items()}
        rejected[topics.features] = sorted([*rejected[topics.features], *large], key=lambda one: one.offset)
        made = letters(self.partition, rejected, sent, limits[topics.deadletters], self._bits)
        return outcome, batches, self.outputs.build(*made[:3]), made.reasons

    # -- now and then ------------------------------------------------------------------------------------------

    async def punctuate(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        if now >= self.reporter.due:
            await self.reporter.send_metrics()
            self.host.inputs.commit({})  # what was refused before: of a silent topic no more is to come
        await self.reporter.send_drifts()
        self.checkpoints.check()  # a failed write ends the task here
        if now >= self.shared.due:
            await self.shared.append()
        if now >= self.checkpoints.due and self.checkpoints.wanted:
            await self.shared.append()
            await self.checkpoints.begin(self._beside)

    # -- checkpoints, and the end ------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Wait until all that was sent so far is acknowledged."""
        await self.shared.flush()
        await self.outputs.flush()

    def _beside(self) -> Beside:
        lost = self.gaps.behind(self.learner.offsets)
        return Beside(self._output_positions(), lost, self.reporter.untold)

    def _has_checkpoint(self, seconds: float, n_bytes: int) -> None:
        self.observer.checkpointed(self, seconds, n_bytes)
        self._written.set()
        self.wake()  # the next one may be due already

    async def secure(self) -> None:
        """Go on, and return when a checkpoint has been written: whoever takes the partition over then has little to
        read back. Returns without one where there is nothing to write, or where it takes long."""
        if not self.running or not (self.checkpoints.dirty or self.checkpoints.writing):
            return
        if not self.checkpoints.writing:
            self.checkpoints.due = 0.0
        self._written.clear()
        self.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECURE_SECONDS):
                await self._written.wait()

    async def stop(self) -> None:
        """Finish the step in hand, write a last checkpoint if the broker lets us, and end."""
        self.life = self.life if self.life is Life.LOST else Life.CLOSED
        turns = None if self._turns is asyncio.current_task() else self._turns
        try:
            async with asyncio.timeout(LAST_CHECKPOINT_SECONDS):
                if turns is not None:
                    await asyncio.wait([turns])
                    if turns.cancelled() or turns.exception() is not None:
                        return
                if self.life is Life.LOST:
                    return  # the last manifest stands
                await self.checkpoints.settle()
                await self.shared.append()
                if self.checkpoints.dirty:
                    await self.checkpoints.begin(self._beside)
                    await self.checkpoints.settle()
                await self.reporter.send_metrics()
                await self.reporter.send_drifts()
                await self.flush()
        except ProducerFenced:
            log.info("partition %d: another worker has it; it goes on at the checkpoint before", self.partition)
        except Exception as error:
            log.warning("partition %d: no last checkpoint (%r); the one before stands", self.partition, error)
        finally:
            if turns is not None:
                turns.cancel()
                await asyncio.gather(turns, return_exceptions=True)
            self.host.held.discard(self)  # what was left of a turn may have added it
            if self._asking is not None:
                self._asking.stop()
            self._releases.stop()
            await self.shared.stop()
            await self.checkpoints.cancel()
            if self.replica is not None:
                await self.replica.leave(self.learner.learning)
            await self.outputs.stop()
