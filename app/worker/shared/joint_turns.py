"""What the partitions of a stream do together, where one worker has them all: append to the log that they share, and
take turns in a backlog.

Only this worker appends to that log then, by a producer of its own (`log_id`), which is fenced by whoever takes a
partition over, before that reads the log. Once it has that producer, each partition writes a checkpoint: one that was
taken over unnoticed is refused there, and whoever takes one over later fences the producer. Live, partitions go on by
their own producers until all have. Then what they append in a round is one batch: Kafka takes one of a partition in a
request, whoever sends it. Before a rebalance gives partitions to others, each goes on by its own producer.

In a backlog, the worker knows the offsets of what it will append, and its models learn that before the broker has it
(app/worker/shared/joint_step.py). Nothing of it is seen before the broker has acknowledged the records at these
offsets: predictions are sent then, and checkpoints come behind them. If they stand elsewhere, or never come there, all
partitions are loaded again from their checkpoints, and the log alone counts.

A record of the log names the predictions before it, as they are sent after it: a successor makes and sends those that
were not.
"""

import asyncio
import logging
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from riparian.app.errors import RiparianError
from riparian.app.kafka.sending import Outputs, close, fenced_producer
from riparian.app.partition.records.partition_group import Release
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.shared.replica import ReplicaOfWorker
from riparian.app.worker.task.partition_task import PartitionTask, Step
from riparian.topics.names import changelog_topic, log_id

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

log = logging.getLogger(__name__)

LEAST, MOST = 512, 16_384  # features in one turn, about
FEW_EACH = 32  # of a partition in one turn: a turn of fewer takes about as long, as partitions cost more than these
TURN_SECONDS = 0.3  # that a turn takes, about: a stop waits for it
LONGEST_SECONDS = 2.0  # likewise, for the sake of FEW_EACH
POLL_SECONDS = 0.002
PATIENT_SECONDS = 1.0  # that a turn waits until the models have learned all of the log
AGAIN_SECONDS = 5.0  # until a producer for all partitions is asked for again, where one of them could not join in
PAUSE_SECONDS = 1.0  # that a rebalance waits for a turn


class TurnSize:
    """How many features a turn of all partitions has, by what the turn before took.

    Attributes
    ----------
    most : int
    """

    def __init__(self, n_partitions: int) -> None:
        self._few = FEW_EACH * n_partitions
        self.most = LEAST

    def judge(self, n: int, seconds: float) -> None:
        """A turn of n features took so long. One that was held up by something else makes the next no less than half
        as large."""
        if n:
            in_one = n / max(seconds, 1e-9)  # a second
            wanted = min(2 * self.most, int(TURN_SECONDS * in_one))
            few = min(self._few, int(LONGEST_SECONDS * in_one))
            self.most = min(MOST, max(1, self.most // 2, wanted, few))

    def pays(self, n: int) -> bool:
        """Whether n that wait are a backlog, and not what live records leave for a moment."""
        return n >= max(LEAST, min(MOST, self._few))


class JointTurns:
    """Of one worker.

    Attributes
    ----------
    paused : bool
        Whether others may get partitions of this worker.
    """

    def __init__(self, worker: WorkerContext) -> None:
        self._worker = worker
        (self._topic,) = worker.spec.of_all
        self._outputs: Outputs | None = None  # to the log
        self._made_at = math.inf  # when that was (monotonic)
        self._used = False  # all partitions have appended by it
        self._making: asyncio.Task[Outputs | None] | None = None
        self.paused, self._again = True, 0.0
        self._task: asyncio.Task[None] | None = None  # in which turns are taken
        self._fencing = asyncio.Lock()
        self._next = -1  # offset of the next record of the log, while turns are taken
        self._usable: bool = worker.spec.learning.max_behind is None
        self._more = True
        self._size = TurnSize(worker.spec.partitions)

    async def fence(self) -> None:
        """From here on nobody appends for all partitions who has begun to before."""
        async with self._fencing:
            await self.stop()
            await close(await self._producer())

    def pause(self) -> None:
        """Others may get partitions, and fence the producer for all: each goes on by its own."""
        self.paused, self._worker.appender = True, None

    async def settle(self) -> None:
        """End that producer, once the turn in hand has ended."""
        if self._task is not None:
            await asyncio.wait([self._task], timeout=PAUSE_SECONDS)
        if self._task is None or self._task.done():
            await self.stop()

    async def stop(self) -> None:
        if self._making is not None:
            self._making.cancel()
        await self._end()

    async def _end(self) -> None:
        outputs, self._outputs, self._worker.appender, self._used = self._outputs, None, None, False
        if outputs is not None:
            await outputs.stop()

    @property
    def _failed(self) -> bool:
        """Whether the producer was refused something."""
        return self._used and self._worker.appender is None

    async def _producer(self) -> "Producer":
        name, limits = self._worker.spec.name, [self._worker.limits[self._topic]]
        # The marker that is perhaps still to come behind `fenced_producer` stands in the first of them, not in the log.
        tps = [TopicPartition(topic, 0) for topic in (changelog_topic(name), self._topic)]
        return await fenced_producer(self._worker.connection, name, tps, limits, log_id(name))

    async def _made(self) -> Outputs | None:
        """To the log; None where that cannot be had, and is asked for again later."""
        self._again = time.monotonic() + AGAIN_SECONDS
        try:
            async with self._fencing:
                if self._failed:
                    await self._end()
                if self._outputs is None:
                    producer = await self._producer()
                    await self._worker.bundles.join(producer)
                    self._made_at = time.monotonic()
                    self._outputs = Outputs(producer, 0, {self._topic: 0}, self._worker.spec.compression)
        except (KafkaError, RiparianError, OSError) as error:
            log.warning("no producer for all partitions (%r): each appends by its own", error)
            return None
        self._again = 0.0
        return self._outputs

    def _left(self, tasks: Sequence[PartitionTask]) -> list[PartitionTask]:
        """Of which it is not known that they are this worker's since the producer was made."""
        return [task for task in tasks if not task.proved_since(self._made_at)]

    def _connect(self, tasks: Sequence[PartitionTask]) -> None:
        """Have all partitions append by one producer, once it is there and all are known to be this worker's since.
        Nothing waits for that: their checkpoints are asked for, and say so."""
        now = time.monotonic()
        if self._making is not None and not self._making.done():
            return
        if self._outputs is None or self._failed:
            if now >= self._again:
                self._making = asyncio.create_task(self._made(), name="appender")
        elif not (left := self._left(tasks)):
            self._append_by(self._outputs)
        elif now >= self._again:
            self._again = now + AGAIN_SECONDS
            for task in left:
                task.ask_checkpoint()

    def _append_by(self, outputs: Outputs) -> None:
        self._worker.appender, self._used, self._again = outputs, True, 0.0
        log.info("all partitions append to %s by one producer from here on", self._topic)

    async def _connected(self, tasks: Sequence[PartitionTask]) -> Outputs | None:
        """To the log, once all partitions have been this worker's since it was fenced; None where that is not known."""
        outputs = await self._made()
        if outputs is None or self._worker.appender is not None:
            return outputs
        left = self._left(tasks)
        proofs = await asyncio.gather(*(task.prove() for task in left), return_exceptions=True)
        for task, proof in zip(left, proofs, strict=True):
            if proof is not None:
                await task.fails(proof)
        if self.paused or outputs is not self._outputs or self._left(tasks):
            self._again = time.monotonic() + AGAIN_SECONDS
            return None
        self._append_by(outputs)
        return outputs

    def begin(self, tasks: Sequence[PartitionTask]) -> None:
        """Take turns of these, if they are all partitions and there is a backlog. Else have them append together."""
        if self.paused or len(tasks) != self._worker.spec.partitions:
            return
        connected = self._worker.appender is not None
        if (connected or time.monotonic() >= self._again) and self._can(tasks):
            if not any(task.busy for task in tasks):
                self._task = asyncio.create_task(self._take(tasks), name="joint-turns")
                for task in tasks:
                    task.leave_to(self._task)
                self._task.add_done_callback(lambda _: self._ended(tasks))
        elif (
            not connected
            and len(tasks) > 1
            and any(task.shared.appends for task in tasks)
            and all(task.appends_together for task in tasks)
        ):
            self._connect(tasks)

    def _can(self, tasks: Sequence[PartitionTask]) -> bool:
        return (
            self._usable
            and not self.paused
            and self._size.pays(sum(task.n_waiting for task in tasks))
            and all(task.steps_together for task in tasks)
        )

    async def _take(self, tasks: Sequence[PartitionTask]) -> None:
        self._more, self._next = True, -1  # others may have appended since the last one
        try:
            outputs = await self._connected(tasks)
            while outputs is not None and self._more and self._can(tasks):
                self._more = await self._turn(tasks, outputs)
                await asyncio.sleep(0)
        except BaseException as error:
            for task in tasks:
                await task.fails(error)
            if isinstance(error, asyncio.CancelledError) and asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise

    def _ended(self, tasks: Sequence[PartitionTask]) -> None:
        for task in tasks:
            if task.running:
                task.go_on(self._more)

    async def _turn(self, tasks: Sequence[PartitionTask], outputs: Outputs) -> bool:
        """One of each; whether something was taken."""
        for task in tasks:
            if not await task.follows():
                return False
            await task.punctuate()
            await task.shared.append()
        for task in tasks:
            await task.flush()
        replica = tasks[0].replica
        first = None if replica is None else await self._first(replica)
        if replica is None or first is None or not self._can(tasks):
            return False
        most = max(1, self._size.most // len(tasks))
        until = min(task.horizon(most) for task in tasks)
        releases = [task.release_until(until, most) for task in tasks]
        if not any(release.n for release in releases):
            return False
        started, now = time.monotonic(), int(1000 * time.time())
        steps, batches = await self._worker.in_thread(self._work, tasks, outputs, replica, releases, first, now)
        self._size.judge(sum(len(step.outcome.ids) for step in steps), time.monotonic() - started)
        await self._append(outputs, batches, first, now)
        for task, step in zip(tasks, steps, strict=True):
            await task.sends(step)
        return True

    async def _first(self, replica: ReplicaOfWorker) -> int | None:
        """The offset of what is appended next, once the models have learned all before; None where they do not."""
        if replica.models.fetch_offset == self._next and await replica.has_learned(0):
            return self._next
        deadline = time.monotonic() + PATIENT_SECONDS
        tp = TopicPartition(self._topic, 0)
        end = (await (await self._worker.inputs.asker.connected()).end_offsets([tp]))[tp]
        replica.hurry()
        while not await replica.has_learned(end):
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(POLL_SECONDS)
        return int(end)

    def _work(
        self,
        tasks: Sequence[PartitionTask],
        outputs: Outputs,
        replica: ReplicaOfWorker,
        releases: Sequence[Release],
        first: int,
        time_ms: int,
    ) -> tuple[list[Step], list[Any]]:
        """Off the event loop: what each partition sends, and batches for the log."""
        taken = replica.step_together([task.learner for task in tasks], releases, first, time_ms)
        steps = list[Step]()
        for task, one, seconds in zip(tasks, taken.outcomes, taken.seconds, strict=True):
            began = time.perf_counter()
            made = task.made_of(one)
            steps.append(Step(*made, seconds + time.perf_counter() - began))
        return steps, outputs.build([None] * len(taken.log), taken.log, time_ms=time_ms)

    async def _append(self, outputs: Outputs, batches: Sequence[Any], first: int, time_ms: int) -> None:
        """Append to the log, and wait until the broker has all at the offsets that were reckoned with."""
        sizes = [batch.record_count() for batch in batches]
        futures = await outputs.send(self._topic, batches)
        for n, future in zip(sizes, futures, strict=True):
            done = await outputs.acknowledged(self._topic, future)
            # The stamp of a repetition, which the broker had already, comes back as one of the broker's own.
            restamped = done.timestamp_type and done.timestamp != time_ms
            if restamped:  # then no mark of a record could be known beforehand
                self._usable = False
            if done.offset != first or restamped:
                raise KafkaError(f"records of {self._topic} stand at offset {done.offset}, not at {first}, as reckoned")
            first += n
        self._next = first
