"""The runner of a partition: merges, steps, sends and checkpoints, from assignment to revocation.

A runner lives for one assignment: it begins with what the manifest and the recorded order say, and on revocation and
at a stop it writes a last checkpoint and is dropped. So a label is trained exactly once, whatever is killed when, and
no prediction is sent twice.

The order within a step never changes: predict and learn in memory, send the predictions, and only when those are
acknowledged write a manifest whose offsets lie behind them.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from faust.types import TP

from app.learner import Cut, Outcome, PartitionLearner, Refused
from app.merge import EVERYTHING, Buffer, Ends, Merge, Release, Script
from app.state import checkpoint
from app.transport import Fetched
from topics.names import CHAMPION, dead_letter_headers
from topics.records import MetricsRecord

if TYPE_CHECKING:
    from app.engine import Engine

log = logging.getLogger(__name__)

BUFFER_LIMIT = 65_536  # records of one topic in memory, more than one fetch; fetching pauses there, resumes at half
POLL_SECONDS = 0.005  # while records wait for the other topic
LAST_CHECKPOINT_SECONDS = 10.0  # how long a revocation may wait for the broker
CHECKPOINT_SHARE = 0.1  # checkpoints may take this share of the time


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
    sequence : int
        Number of the last manifest.
    written : set of bytes
        Hashes of the chunks that the changelog holds.
    tail : Script
        Predictions sent after the manifest.
    outputs : tuple of int
        Where in the predictions topic the tail was read from, and where it ends.
    """

    def __init__(
        self,
        engine: "Engine",
        learner: PartitionLearner,
        sequence: int,
        written: set[bytes],
        tail: Script,
        outputs: tuple[int, int],
    ) -> None:
        self.engine = engine
        self.learner = learner
        self.partition = learner.partition
        self.epochs: Mapping[TP, int] = {}
        self._early: list[tuple[TP, Fetched]] = []  # came before we were told our epochs
        self.features = Buffer(learner.feature_offset, learner.feature_time)
        self.labels = Buffer(learner.label_offset, learner.label_time)
        self.merge = Merge(self.features, self.labels, tail)
        self.sent_offset = int(tail.offsets[-1]) + 1 if len(tail.offsets) else 0  # source offset, exclusive
        self.n_forced = 0
        self.n_skipped = 0
        self.started = time.time()
        self.figures = learner.figures()
        self._sequence = sequence
        self._written = written
        # Counted as sent, not as acknowledged: a cut taken now must know where its own predictions end.
        self._tail_offset, self._outputs_offset = outputs
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
        buffer = self.features if tp.topic == self.engine.features_topic else self.labels
        self.n_skipped += buffer.add(fetched.raw)
        if len(buffer) >= BUFFER_LIMIT and tp not in self._paused:
            self._paused.add(tp)
            self.engine.thread.pause(tp, True)
        self._wake.set()

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
                self._wake.clear()
                release = await self._release()
                if len(release.features.offsets) or len(release.labels.offsets):
                    await self._step(release)
                    self._resume()
                else:
                    await self._wait()
                await self._timers()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.exception("partition %d stops: %s", self.partition, error)
            await self.engine.crash(error)

    async def _release(self) -> Release:
        if self.engine.labels_topic is None:
            return self.merge.release(EVERYTHING)
        release = self.merge.release()
        if len(release.features.offsets) or len(release.labels.offsets):
            return release
        if not (len(self.features) or len(self.labels)) or self.merge.script is not None:
            return release
        # Records wait, and nothing later has come from the other topic. Ask where both topics end now: once both have
        # been read that far, whatever is missing was appended after what waits here had arrived.
        if self._ends is None:
            self._ends = await self.engine.ends(self.partition)
            self._asked = time.monotonic()
            if self._ends is None:
                return release
        thread, engine, ends = self.engine.thread, self.engine, self._ends
        reached = thread.reached(engine.tp_features(self.partition), ends.features, self.features.next_offset) and (
            thread.reached(engine.tp_labels(self.partition), ends.labels, self.labels.next_offset)
        )
        if not reached:
            if time.monotonic() - self._asked < engine.spec.join.max_wait:
                return release
            self.n_forced += 1
        self._ends = None
        return self.merge.release(ends)

    async def _wait(self) -> None:
        waiting = len(self.features) or len(self.labels)
        timeout = POLL_SECONDS if waiting else 0.5
        try:
            await asyncio.wait_for(self._wake.wait(), timeout)
        except TimeoutError:
            return

    def _cut_outputs_offset(self) -> int:
        """Predictions topic: nothing that belongs to records above a cut taken now stands below this offset.

        While the tail is being replayed, its predictions stand in the topic already, and the next worker needs them.
        """
        return self._tail_offset if self.learner.feature_offset < self.sent_offset else self._outputs_offset

    async def _step(self, release: Release) -> None:
        started = time.monotonic()
        outcome, batches = await self.engine.in_thread(self._work, release)
        self._dirty = True
        self._outputs_offset += sum(batch.record_count() for batch in batches)
        await self.engine.outputs.send(self.engine.spec.topics.predictions, self.partition, batches)
        for topic, refused in (
            (self.engine.features_topic, outcome.refused_features),
            (self.engine.labels_topic, outcome.refused_labels),
        ):
            for record in refused:
                await self._dead_letter(topic or "", record)
        self.engine.observer.stepped(self, outcome, time.monotonic() - started)

    def _work(self, release: Release) -> tuple[Outcome, list[Any]]:
        """Off the event loop: decode, learn, encode."""
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
        return outcome, self.engine.outputs.build(outcome.keys[first:], values)

    async def _dead_letter(self, topic: str, refused: Refused) -> None:
        headers = dead_letter_headers(topic, self.partition, refused.offset, refused.reason, refused.detail)
        await self.engine.outputs.send_one(
            self.engine.spec.topics.deadletters, self.partition, refused.key, refused.value, headers
        )
        self.engine.observer.refused(self, refused.reason)

    # -- now and then ------------------------------------------------------------------------------------------

    async def _timers(self) -> None:
        now = time.monotonic()
        if now >= self._metrics_due:
            self._metrics_due = now + self.engine.spec.metrics.every
            await self._send_metrics()
        running = self._checkpoint is not None and not self._checkpoint.done()
        if now >= self._checkpoint_due and self._dirty and not running:
            if self._checkpoint is not None:
                self._checkpoint.result()  # a failed write ends the runner here
            self._dirty = False
            cut = await self.engine.in_thread(self.learner.cut)
            self._checkpoint = asyncio.create_task(self._write(cut, self._cut_outputs_offset(), now))

    async def _send_metrics(self) -> None:
        figures = self.figures = await self.engine.in_thread(self.learner.figures)
        spec = self.engine.spec
        for role, name in self.learner.model_names.items():
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
            await self.engine.outputs.send_one(spec.topics.metrics, self.partition, None, msgspec.json.encode(record))

    async def _write(self, cut: Cut, outputs_offset: int, started: float) -> None:
        """Chunks first, then the manifest, then delete what no manifest needs any more."""
        engine, partition = self.engine, self.partition
        await engine.outputs.flush(partition)
        began = time.monotonic()
        encoded = await engine.in_thread(self._encode, cut, outputs_offset)
        # What it costs is the encoding; waiting for the broker, in an outage say, must not put off the next one.
        spent = time.monotonic() - began
        key = checkpoint.chunk_key
        await engine.store.write(partition, {key(partition, d): chunk for d, chunk in encoded.new.items()})
        await engine.store.write(partition, {checkpoint.manifest_key(partition): encoded.manifest})
        self._sequence += 1
        await engine.store.write(partition, {key(partition, d): None for d in self._written - encoded.needed})
        self._written = encoded.needed
        offsets = {engine.tp_features(partition): cut.meta["feature_offset"]}
        if engine.labels_topic is not None:
            offsets[engine.tp_labels(partition)] = cut.meta["label_offset"]
        await engine.commit(offsets)
        self._checkpoint_due = started + max(engine.spec.checkpoint.every, spent / CHECKPOINT_SHARE)
        engine.observer.checkpointed(
            self, time.monotonic() - started, len(encoded.manifest) + sum(map(len, encoded.new.values()))
        )

    def _encode(self, cut: Cut, outputs_offset: int) -> checkpoint.Encoded:
        return checkpoint.encode(
            cut,
            stream=self.engine.spec.name,
            partition=self.partition,
            sequence=self._sequence + 1,
            created_ms=int(time.time() * 1000),
            outputs_offset=outputs_offset,
            written=self._written,
            features=self.engine.features,
        )

    async def stop(self) -> None:
        """Finish the step in hand, write a last checkpoint if the broker lets us, and end."""
        self._stopping = True
        self._wake.set()
        if self._task is not None and self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
            if self._task.cancelled() or self._task.exception() is not None:
                return  # the last manifest stands
        try:
            async with asyncio.timeout(LAST_CHECKPOINT_SECONDS):
                if self._checkpoint is not None:
                    await self._checkpoint
                if self._dirty:
                    await self._write(self.learner.cut(), self._cut_outputs_offset(), time.monotonic())
                await self._send_metrics()
        except Exception as error:
            log.warning("partition %d: no last checkpoint (%r); the one before stands", self.partition, error)
