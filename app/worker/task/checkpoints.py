"""The checkpoints of a partition: what changed is copied between two steps, and written beside the steps.

Chunks first, then the manifest, whose offsets lie behind all outputs; then what nothing needs any more is cut off at
the front of the changelog. A failed write shows at the next `check`.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from riparian.app.kafka.sending import Outputs
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.inputs import Lost
from riparian.app.state import checkpoint
from riparian.app.state.log import StateLog
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.task.reporter import Reporter, first_due
from riparian.app.worker.task.turns import Brief
from riparian.topics.names import changelog_topic, state_field
from riparian.topics.records import DriftRecord

TRUNCATE_BYTES = 1024 * 1024  # garbage at the front of the changelog that is worth a request


class Beside(NamedTuple):
    """What a manifest holds besides the learner's state, at the same place.

    outputs : role of an output topic -> where a successor begins to read what was sent. lost : role of an input topic
    -> what it has lost. events : drift events that nobody has been told of.
    """

    outputs: Mapping[str, int]
    lost: Mapping[str, Lost]
    events: Sequence[DriftRecord]


class Checkpoints:
    """Takes, writes and cleans up the checkpoints of one task.

    Parameters
    ----------
    state : StateLog
        What the changelog holds.
    encoder : Encoder
        Writes the learner's checkpoints.
    outputs : Outputs
        Of the partition.
    flush : callable
        Waits until all is acknowledged that a manifest stands behind.
    reporter : Reporter
        Sends drift events, which have to be durable first.
    done : callable
        Told how many seconds a checkpoint took and how many bytes were written.
    """

    def __init__(
        self,
        host: WorkerContext,
        learner: PartitionLearner,
        state: StateLog,
        encoder: checkpoint.Encoder,
        outputs: Outputs,
        flush: Callable[[], Awaitable[None]],
        reporter: Reporter,
        done: Callable[[float, int], None],
    ) -> None:
        self.dirty = False  # something is known that no checkpoint has, nor will have once written
        self.due = self._slot = first_due(host.spec.checkpoint.every, learner.partition)
        self.begun = -math.inf  # when the last one was that is written (monotonic)
        self.state = state
        self.changelog_bytes = state.n_bytes
        self.live_bytes = state.live_bytes
        self._host = host
        self._learner = learner
        self._partition = learner.partition
        self._changelog = changelog_topic(host.spec.name)
        self._encoder = encoder
        self._outputs, self._flush = outputs, flush
        self._reporter, self._done = reporter, done
        self._sequence = state.manifest.sequence if state.manifest is not None else 0
        self._task: asyncio.Task[None] | None = None
        self._brief = Brief()

    @property
    def writing(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def wanted(self) -> bool:
        """Whether one is to be made once it is `due`."""
        return self.dirty and not self.writing

    def check(self) -> None:
        """Raise what the last write failed for."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def begin(self, beside: Callable[[], Beside]) -> None:
        """Between two steps: copy what changed, and go on to write it, with what is beside it then. Where no checkpoint
        can be made now, maybe for hours (`FollowedLearning.waits`), the next one is due as ever: one that was asked for
        behind the next step."""
        self.dirty, now = False, time.monotonic()
        seconds, drifts = await self._brief.run(1, self._take, self._learner.learning, self._host)
        if drifts is None:
            self.dirty, self.due = True, now + self._host.spec.checkpoint.every
            return
        self._reporter.keep(drifts)
        self._learner.promotion.asks_checkpoint = False
        self.due = math.inf  # unless one is asked for meanwhile
        self._task = asyncio.create_task(self._write(beside(), now, seconds))

    async def settle(self) -> None:
        """Wait for what is being written; raises what it failed for."""
        if self._task is not None:
            await self._task

    async def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _take(self) -> tuple[float, list[DriftRecord] | None]:
        """Copy what changed. CPU seconds, and drift events; None: nothing was copied."""
        with self._learner.learning.still() as drifts:
            began = time.thread_time()
            if drifts is not None:
                self._encoder.features = [(name, one.type) for name, one in self._learner.spec.features.items()]
                self._encoder.take(self._learner.checkpoint(), self._learner.learning.common)
            return time.thread_time() - began, drifts

    def _encode(self, beside: Beside) -> tuple[checkpoint.Encoded, float]:
        """Off the event loop: hash, compress, choose the older checkpoints to keep. And CPU seconds."""
        began = time.thread_time()
        settings = self._host.spec.checkpoint
        encoded = self._encoder.encode(
            sequence=self._sequence + 1,
            created_ms=int(time.time() * 1000),
            outputs=beside.outputs,
            lost=beside.lost,
            events=beside.events,
            keep=lambda chunks: self.state.keep(chunks, settings.keep, int(1000 * settings.keep_every)),
            written=self.state.needed(),
        )
        return encoded, time.thread_time() - began

    async def _write(self, beside: Beside, started: float, seconds: float) -> None:
        await self._flush()
        encoded, more = await self._host.in_thread(self._encode, beside)
        await self._append({checkpoint.chunk_key(self._partition, d): chunk for d, chunk in encoded.new.items()})
        await self._append({checkpoint.manifest_key(self._partition): encoded.data})
        self._sequence += 1
        self.state.settle()
        self._reporter.is_durable(beside.events)
        self.begun = started
        meta, tps = encoded.manifest.meta, self._host.inputs.tps(self._partition)
        self._host.inputs.commit({tp: meta[state_field(role, "offset")] for role, tp in tps.items()})
        n_bytes = len(encoded.data) + sum(map(len, encoded.new.values()))
        n_bytes += await self._clean(n_bytes)
        # What it costs is the processor; waiting for the broker, in an outage say, must not put off the next one. The
        # worker's partitions share what checkpoints may take: that others cost as much is likely.
        settings = self._host.spec.checkpoint
        cost = max(1, len(self._host.states)) * (seconds + more)
        # In slots of its own: a rebalance has all partitions write at once, and a command may.
        self._slot += settings.every * (1 + (started - self._slot) // settings.every)
        self.due = min(self.due, max(self._slot, started + cost / settings.share))
        self._done(time.monotonic() - started, n_bytes)

    async def _append(self, records: Mapping[bytes, bytes]) -> None:
        """Append to the changelog; returns when the broker has them all, and raises what it refuses."""
        offsets = await self._outputs.write(self._changelog, records.items())
        for offset, (key, value) in zip(offsets, records.items(), strict=True):
            self.state.append(offset, key, value)

    async def _clean(self, n_written: int) -> int:
        """Keep the changelog small; the bytes that were written for it."""
        state = self.state
        copied = {checkpoint.chunk_key(self._partition, d): bytes(state.chunks[d]) for d in state.to_copy(n_written)}
        await self._append(copied)
        front, n_bytes = state.front()
        if n_bytes >= TRUNCATE_BYTES and await self._host.states.delete_before(self._partition, front):
            state.truncate(front)
        self.changelog_bytes, self.live_bytes = state.n_bytes, state.live_bytes
        return sum(map(len, copied.values()))
