"""The runner of a partition: merges, steps, sends and checkpoints, from assignment to revocation.

A runner lives for one assignment: it begins with what the manifest and the recorded order say, and on revocation and
at a stop it writes a last checkpoint and is dropped. So a label is trained exactly once, whatever is killed when, and
no prediction is sent twice.

The order within a step never changes: predict and learn in memory, send the outputs, and only when those are
acknowledged write a manifest whose offsets lie behind them. What the owners before sent already (`Sent`) is predicted
and learned again, in the order that the predictions recorded, and not sent again.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from aiokafka.errors import KafkaError, ProducerFenced
from faust.types import TP

from app.errors import RiparianError
from app.partition import inputs
from app.partition.inputs import Gaps, Lost
from app.partition.learner import Outcome, PartitionLearner
from app.partition.merge import EVERYTHING, Buffer, Ends, Merge, Release
from app.state import checkpoint
from app.state.log import StateLog
from app.worker.outputs import Outputs
from app.worker.sent import Sent
from app.worker.transport import Fetched
from topics.names import CHAMPION, FEATURES, LABELS, OUTPUTS, dead_letter, dead_letter_headers
from topics.records import DriftRecord, MetricsRecord

if TYPE_CHECKING:
    from app.worker.engine import Engine

log = logging.getLogger(__name__)

BUFFER_LIMIT = 65_536  # records of one topic in memory, more than one fetch; fetching pauses there, resumes at half
POLL_SECONDS = 0.005  # while records wait for the other topic
IDLE_SECONDS = 0.5  # while none do
LAST_CHECKPOINT_SECONDS = 10.0  # how long a revocation may wait for the broker
TRUNCATE_BYTES = 1024 * 1024  # garbage at the front of the changelog that is worth a request


class Observer(Protocol):
    """What the engine reports to (Prometheus, the demo's table)."""

    def stepped(self, runner: "Runner", outcome: Outcome, seconds: float) -> None: ...
    def refused(self, runner: "Runner", reason: str) -> None: ...
    def checkpointed(self, runner: "Runner", seconds: float, n_bytes: int) -> None: ...
    def dropped(self, partition: int) -> None: ...


class Runner:
    """One partition in this worker, from assignment to revocation.

    Parameters
    ----------
    engine : Engine
    learner : PartitionLearner
        As the manifest left it.
    state : StateLog
        What the changelog holds.
    encoder : Encoder
        Writes the learner's checkpoints.
    outputs : Outputs
        Stopped with the runner.
    sent : Sent
        What was sent after the manifest.
    lost : mapping of str to Lost, optional
        Role of an input topic -> what it has lost, and from where on to take records.
    """

    def __init__(
        self,
        engine: "Engine",
        learner: PartitionLearner,
        state: StateLog,
        encoder: checkpoint.Encoder,
        outputs: Outputs,
        sent: Sent,
        lost: Mapping[str, Lost] | None = None,
    ) -> None:
        self.engine = engine
        self.learner = learner
        self.partition = learner.partition
        self.outputs = outputs
        self.state = state
        self.epochs: Mapping[TP, int] = {}
        self._early: list[tuple[TP, Fetched]] = []  # came before we were told our epochs
        self.features = Buffer(learner.feature_offset, learner.feature_time)
        self.labels = Buffer(learner.label_offset, learner.label_time)
        self.gaps = Gaps(lost or {})
        for role, (_, stop) in self.gaps.lost.items():
            buffer = self.features if role == FEATURES else self.labels
            buffer.next_offset = max(buffer.next_offset, stop)
        self.merge = Merge(self.features, self.labels, sent.script)
        # Source offset, exclusive.
        self.sent_offset = int(sent.script.offsets[-1]) + 1 if len(sent.script.offsets) else 0
        self.lost = False  # an error has ended it: there will be no last checkpoint
        self.n_forced = 0
        self.n_skipped = 0
        self.started = time.time()
        self.figures = learner.figures()
        self.changelog_bytes = state.n_bytes
        self.live_bytes = state.live_bytes
        self._sent = sent
        self._metrics_sent = dict(sent.metrics)
        # Drift events that nobody has been told of: see `_tell`. Those of a manifest are durable, and numbered below.
        events = [] if state.manifest is None else state.manifest.events
        self._held = [record for record in events if record.number >= sent.drift]
        self._told = learner.drift.n_events
        self._encoder = encoder
        self._sequence = state.manifest.sequence if state.manifest is not None else 0
        self._wake = asyncio.Event()
        self._ends: Ends | None = None  # where both topics ended when we last asked
        self._asked = 0.0
        self._paused: set[TP] = set()
        self._dirty = False
        self._checkpoint: asyncio.Task[None] | None = None
        self._checkpoint_due = time.monotonic() + engine.spec.checkpoint.every
        self._metrics_due = time.monotonic() + engine.spec.metrics.every
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._end: Exception | None = None  # what was fetched shows that we cannot go on; what was learned is sound

    # -- records in --------------------------------------------------------------------------------------------

    def start(self, epochs: Mapping[TP, int]) -> None:
        self.epochs = epochs
        self._task = asyncio.create_task(self._run(), name=f"partition-{self.partition}")
        early, self._early = self._early, []
        for tp, fetched in early:
            self.add(tp, fetched)

    def add(self, tp: TP, fetched: Fetched) -> None:
        """Take a fetched batch; one from before this assignment is dropped."""
        if not self.epochs:
            self._early.append((tp, fetched))
            return
        if fetched.epoch != self.epochs.get(tp):
            return
        if fetched.jump is not None and not self._jump(tp, *fetched.jump):
            return
        buffer = self.features if tp.topic == self.engine.features_topic else self.labels
        self.n_skipped += buffer.add(fetched.raw)
        if len(buffer) >= BUFFER_LIMIT and tp not in self._paused:
            self._paused.add(tp)
            self.engine.thread.pause(tp, True)
        self._wake.set()

    def _jump(self, tp: TP, start: int, stop: int) -> bool:
        """The topic does not hold `start`, and the client went on at `stop`. Whether to do so, too."""
        if stop > start and self.engine.spec.lost == inputs.SKIP:
            log.warning("Kafka has %s", inputs.gone(tp.topic, self.partition, start, stop))
            self.gaps.skip(FEATURES if tp.topic == self.engine.features_topic else LABELS, start, stop)
            self._dirty = True
            return True
        self._end = (
            inputs.refusal(tp.topic, self.partition, start, stop)
            if stop > start
            else KafkaError(f"{tp.topic} went back from offset {start} to {stop}")  # to be examined
        )
        self._wake.set()
        return False

    def _resume(self) -> None:
        for tp in list(self._paused):
            buffer = self.features if tp.topic == self.engine.features_topic else self.labels
            if len(buffer) <= BUFFER_LIMIT // 2:
                self._paused.discard(tp)
                self.engine.thread.pause(tp, False)

    # -- the loop ----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while not self._stopping:
                if self._end is not None:
                    raise self._end
                self._wake.clear()
                release = await self._release()
                if len(release.features.offsets) or len(release.labels.offsets):
                    await self._step(release)
                    self._resume()
                else:
                    await self._wait()
                await self._timers()
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            self.lost = True  # the client has cancelled what we waited for
            self.engine.again(self, "a request was cancelled")
        except ProducerFenced:
            self.lost = True
            self.engine.fenced(self)
        except KafkaError as error:
            self.lost = error is not self._end
            self.engine.again(self, repr(error))
        except RiparianError as error:
            self.lost = error is not self._end
            await self.engine.crash(error)
        except Exception as error:
            log.exception("partition %d stops: %s", self.partition, error)
            self.lost = True
            await self.engine.crash(error)

    async def _release(self) -> Release:
        if self.engine.labels_topic is None:
            return self.merge.release(EVERYTHING)
        release = self.merge.release()
        if len(release.features.offsets) or len(release.labels.offsets):
            return release
        if not (len(self.features) or len(self.labels)) or self.merge.script is not None:
            return release
        # Records wait, and nothing later has come from the other topic. Ask where both topics end now: once the other
        # one has been read that far, whatever is missing there was appended after what waits here had arrived.
        if self._ends is None:
            read = Ends(self.features.next_offset, self.labels.next_offset)  # before we ask: more may come meanwhile
            self._ends = await self.engine.ends(self.partition)
            self._asked = time.monotonic()
            if self._ends is None:
                return release
            if self._ends.features < read.features or self._ends.labels < read.labels:
                self._end = KafkaError(f"the topics end before what was read of partition {self.partition}")
                return release
        thread, engine, ends = self.engine.thread, self.engine, self._ends
        features = thread.reached(engine.tp_features(self.partition), ends.features, self.features.next_offset)
        labels = thread.reached(engine.tp_labels(self.partition), ends.labels, self.labels.next_offset)
        if not (features and labels):
            # What has come of one topic needs the other one only to be read that far. So a backlog of one, longer than
            # the buffer, goes on while the other rests.
            if features or labels:
                release = self.merge.release(Ends(ends.features if labels else 0, ends.labels if features else 0))
                if len(release.features.offsets) or len(release.labels.offsets):
                    self._asked = time.monotonic()
                    return release
            if time.monotonic() - self._asked < engine.spec.join.max_wait:
                return release
            self.n_forced += 1
            self._ends = None
        release = self.merge.release(ends)
        if self.features.first_offset >= ends.features and self.labels.first_offset >= ends.labels:
            self._ends = None  # nothing is left below them: ask again when something waits
        return release

    async def _wait(self) -> None:
        waiting = len(self.features) or len(self.labels)
        timeout = POLL_SECONDS if waiting else self._until_due()
        try:
            await asyncio.wait_for(self._wake.wait(), timeout)
        except TimeoutError:
            return

    def _until_due(self) -> float:
        """Seconds until there is something to do although nothing comes."""
        due: float = self._metrics_due
        if self._dirty and (self._checkpoint is None or self._checkpoint.done()):
            due = min(due, self._checkpoint_due)
        return min(IDLE_SECONDS, max(0.0, due - time.monotonic()))

    def _cut_outputs(self) -> dict[str, int]:
        """Role of an output topic -> nothing that belongs to records above a cut taken now stands below this offset.

        While what was sent is being replayed, it stands in the topics already, and the next owner needs it.
        """
        topics, refused = self.engine.spec.topics, self._sent.refused
        replaying = (
            self.learner.feature_offset < max(self.sent_offset, refused.get(self.engine.features_topic, 0))
            or self.learner.label_offset < refused.get(self.engine.labels_topic or "", 0)
        )  # fmt: skip
        positions = {**self.outputs.position, **self._sent.starts} if replaying else self.outputs.position
        return {role: positions[getattr(topics, role)] for role in OUTPUTS}

    async def _step(self, release: Release) -> None:
        started = time.monotonic()
        outcome, batches, letters, reasons = await self.engine.in_thread(self._work, release)
        self._dirty = True
        await self.outputs.send(self.engine.spec.topics.predictions, batches)
        await self.outputs.send(self.engine.spec.topics.deadletters, letters)
        for reason in reasons:
            self.engine.observer.refused(self, reason)
        # What the last worker sent already is in the topic, as are its predictions. Events behind these were not sent,
        # even where a changed stream file has fewer of them and their numbers come again.
        self._held += [d for d in outcome.drifts if d.number >= self._sent.drift or d.offset >= self.sent_offset]
        if outcome.ids and self._held:
            self._told = self.learner.drift.n_events - len(outcome.drifts) + outcome.n_settled
            await self._tell()
        self.engine.observer.stepped(self, outcome, time.monotonic() - started)

    def _work(self, release: Release) -> tuple[Outcome, list[Any], list[Any], list[str]]:
        """Off the event loop: decode, learn, encode. The outcome, batches of predictions and of dead letters, and why
        each of these is one."""
        outcome = self.learner.step(release)
        # What the last worker sent already is in the topic: do not send it again.
        first = int(np.searchsorted(outcome.offsets, self.sent_offset, side="left")) if self.sent_offset else 0
        spec, learner = self.engine.spec, self.learner
        roles = [role for role in outcome.p if role != CHAMPION] if spec.predictions.challengers else []
        values = learner.codec.encode_predictions(
            ids=outcome.ids[first:],
            p=outcome.p[CHAMPION][first:],
            classes=learner.classes,
            model=learner.model_names[CHAMPION],
            offsets=outcome.offsets[first:].tolist(),
            label_offsets=outcome.label_offsets[first:].tolist(),
            probabilities=spec.predictions.probabilities,
            challengers={role: outcome.p[role][first:] for role in roles} or None,
        )
        return outcome, self.outputs.build(outcome.keys[first:], values), *self._dead_letters(outcome)

    def _dead_letters(self, outcome: Outcome) -> tuple[list[Any], list[str]]:
        keys, values, headers, reasons = [], [], [], []
        for topic, refused in (
            (self.engine.features_topic, outcome.refused_features),
            (self.engine.labels_topic or "", outcome.refused_labels),
        ):
            sent = self._sent.refused.get(topic, 0)
            for one in refused:
                if one.offset >= sent:
                    key, value, sizes = dead_letter(one.key, one.value)
                    about = dead_letter_headers(topic, self.partition, one.offset, one.reason, one.detail)
                    keys.append(key)
                    values.append(value)
                    headers.append([*about, *sizes])
                    reasons.append(one.reason)
        return self.outputs.build(keys, values, headers), reasons

    async def _tell(self) -> None:
        """Send the drift events that will not be otherwise, whatever happens.

        After a crash the records beyond the last prediction may come in another order, and their errors with them. So
        an event is sent when a prediction behind it is with the broker, or a manifest that is cut behind it (and that
        holds it, in case we die before this): then all that it came from will be as it was.
        """
        due = [record for record in self._held if record.number < self._told]
        if not due:
            return
        self._held = self._held[len(due) :]
        await self.outputs.flush()
        for record in due:
            await self.outputs.send_one(self.engine.spec.topics.drift, None, msgspec.json.encode(record))

    # -- now and then ------------------------------------------------------------------------------------------

    async def _timers(self) -> None:
        now = time.monotonic()
        if now >= self._metrics_due:
            self._metrics_due = now + self.engine.spec.metrics.every
            await self._send_metrics()
        await self._tell()
        running = self._checkpoint is not None and not self._checkpoint.done()
        if self._checkpoint is not None and not running:
            self._checkpoint.result()  # a failed write ends the runner here
        if now >= self._checkpoint_due and self._dirty and not running:
            await self._begin_checkpoint(now)

    async def _begin_checkpoint(self, now: float) -> None:
        self._dirty = False
        outputs = self._cut_outputs()
        lost = self.gaps.behind({FEATURES: self.learner.feature_offset, LABELS: self.learner.label_offset})
        events = list(self._held)
        seconds = await self.engine.in_thread(self._take)
        self._checkpoint = asyncio.create_task(self._write(outputs, lost, events, now, seconds))

    async def _send_metrics(self) -> None:
        figures = self.figures = await self.engine.in_thread(self.learner.figures)
        spec = self.engine.spec
        for role, name in self.learner.model_names.items():
            # Each pair of offsets once, in order, whoever reported it.
            last = self._metrics_sent.get(role, (-1, -1))
            now = figures.offset, figures.label_offset
            if now == last or now[0] < last[0] or now[1] < last[1]:
                continue
            self._metrics_sent[role] = now
            overall = figures.overall[role]
            record = MetricsRecord(
                stream=spec.name,
                partition=self.partition,
                time=int(time.time() * 1000),
                model=role,
                name=name,
                offset=figures.offset,
                label_offset=figures.label_offset,
                n=int(overall.get("n", 0)),
                overall=dict(overall),
                window=None if spec.metrics.fading else dict(figures.recent[role]),
                fading=dict(figures.recent[role]) if spec.metrics.fading else None,
                counters=figures.counts,
                size=figures.sizes[role],
            )
            await self.outputs.send_one(spec.topics.metrics, None, msgspec.json.encode(record))

    # -- checkpoints -------------------------------------------------------------------------------------------

    def _take(self) -> float:
        """Between two steps, off the event loop: copy what changed. CPU seconds."""
        began = time.thread_time()
        self._encoder.take(self.learner.checkpoint())
        return time.thread_time() - began

    def _encode(
        self, outputs: Mapping[str, int], lost: Mapping[str, Lost], events: Sequence[DriftRecord]
    ) -> tuple[checkpoint.Encoded, float]:
        """Beside the steps: hash, compress, choose the older checkpoints to keep. And CPU seconds."""
        began = time.thread_time()
        settings = self.engine.spec.checkpoint
        encoded = self._encoder.encode(
            sequence=self._sequence + 1,
            created_ms=int(time.time() * 1000),
            outputs=outputs,
            lost=lost,
            events=events,
            keep=lambda chunks: self.state.keep(chunks, settings.keep, int(1000 * settings.keep_every)),
            written=self.state.needed(),
        )
        return encoded, time.thread_time() - began

    async def _write(
        self,
        outputs: Mapping[str, int],
        lost: Mapping[str, Lost],
        events: Sequence[DriftRecord],
        started: float,
        seconds: float,
    ) -> None:
        """Chunks first, then the manifest. Then cut off what nothing needs any more at the front of the log."""
        engine, partition, state = self.engine, self.partition, self.state
        await self.outputs.flush()
        encoded, more = await engine.in_thread(self._encode, outputs, lost, events)
        await self._append({checkpoint.chunk_key(partition, d): chunk for d, chunk in encoded.new.items()})
        await self._append({checkpoint.manifest_key(partition): encoded.data})
        self._sequence += 1
        if events:
            self._told = max(self._told, events[-1].number + 1)
        state.settle()
        meta = encoded.manifest.meta
        offsets = {engine.tp_features(partition): meta["feature_offset"]}
        if engine.labels_topic is not None:
            offsets[engine.tp_labels(partition)] = meta["label_offset"]
        engine.commit(offsets)
        n_bytes = len(encoded.data) + sum(map(len, encoded.new.values()))
        n_bytes += await self._clean(n_bytes)
        # What it costs is the processor; waiting for the broker, in an outage say, must not put off the next one.
        settings = engine.spec.checkpoint
        self._checkpoint_due = started + max(settings.every, (seconds + more) / settings.share)
        engine.observer.checkpointed(self, time.monotonic() - started, n_bytes)
        self._wake.set()  # the next one may be due already

    async def _append(self, records: Mapping[bytes, bytes]) -> None:
        """Append to the changelog; returns when the broker has them all, and raises what it refuses."""
        offsets = await self.outputs.write(self.engine.changelog, records.items())
        for offset, (key, value) in zip(offsets, records.items(), strict=True):
            self.state.append(offset, key, value)

    async def _clean(self, n_written: int) -> int:
        """Keep the changelog small; the bytes that were written for it."""
        state = self.state
        again = {checkpoint.chunk_key(self.partition, d): state.chunks[d] for d in state.to_copy(n_written)}
        await self._append(again)
        front, n_bytes = state.front()
        if n_bytes >= TRUNCATE_BYTES and await self.engine.delete_before(self.partition, front):
            state.cut_front(front)
        self.changelog_bytes, self.live_bytes = state.n_bytes, state.live_bytes
        return sum(map(len, again.values()))

    async def stop(self) -> None:
        """Finish the step in hand, write a last checkpoint if the broker lets us, and end."""
        self._stopping = True
        self._wake.set()
        try:
            async with asyncio.timeout(LAST_CHECKPOINT_SECONDS):
                if self._task is not None and self._task is not asyncio.current_task():
                    await asyncio.wait([self._task])
                    if self._task.cancelled() or self._task.exception() is not None or self.lost:
                        return  # the last manifest stands
                if self._checkpoint is not None:
                    await self._checkpoint
                if self._dirty:
                    await self._begin_checkpoint(time.monotonic())
                    await self._checkpoint  # type: ignore[misc]
                await self._send_metrics()
                await self._tell()
                await self.outputs.flush()
        except Exception as error:
            log.warning("partition %d: no last checkpoint (%r); the one before stands", self.partition, error)
        finally:
            tasks = [t for t in (self._task, self._checkpoint) if t is not None and t is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.outputs.stop()
