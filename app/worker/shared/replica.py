"""A replica of the shared models in a worker (`learning: shared`): it reads the log of all partitions, once for those
that follow it (app/partition/shared/replica.py says what it is).

A worker has one for all of its partitions, and one more for each load of some while these recover.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from aiokafka.errors import KafkaError

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.learning import Learning
from riparian.app.partition.records.partition_group import Release
from riparian.app.partition.shared.replica import OvertakenError, Replica
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.shared.joint_step import Taken, step_together
from riparian.app.worker.shared.training_log import Feed
from riparian.app.worker.task.turns import Brief
from riparian.topics.names import LEARNED
from riparian.topics.records import DriftRecord

log = logging.getLogger(__name__)


class AloneError(Exception):
    """A partition cannot recover behind the replica; it is to be loaded again, with one of its own."""


class ReplicaOfWorker:
    """Reads the log and learns it, for partitions of a worker.

    Parameters
    ----------
    group : list of ReplicaOfWorker
        Those of the worker, in which this one is once it has started.
    learned : callable
        Called when the models have learned more.

    Attributes
    ----------
    models : Replica
    """

    def __init__(
        self,
        worker: WorkerContext,
        replica: Replica,
        group: "list[ReplicaOfWorker]",
        learned: Callable[[], None],
    ) -> None:
        self._topic = str(worker.spec.topics.learned)
        self.models = replica
        self._worker, self._group, self._learned = worker, group, learned
        self._came, self._brief = asyncio.Event(), Brief()
        self._feed = Feed(worker.connection, self._topic, self.models, self._came.set, worker.fail)
        self._task: asyncio.Task[None] | None = None

    @property
    def first(self) -> "ReplicaOfWorker":
        """The one that all partitions of the worker come to follow."""
        return self._group[0]

    def start(self) -> None:
        """Learn, from where the replica stands."""
        self._group.append(self)
        if self._task is None and self.models.lineup is not None:
            self._feed.start()
            self._task = asyncio.create_task(self._run(), name="replica")

    async def join(self, learning: Learning) -> bool:
        """Let a partition follow from its place on, if the replica has come there. AloneError where it has learned
        otherwise."""
        if learning.logs.places[LEARNED] != self.models.place or not await self._worker.in_thread(learning.join):
            if learning.apart:
                raise AloneError("it has learned otherwise than the partitions beside it")
            return False
        self._log_joined(learning)
        return True

    def appended(self, offset: int, timestamp: int, value: bytes) -> None:
        """Give the replica a record that the broker has taken."""
        self.models.appended(offset, timestamp, value)
        self._came.set()

    async def has_learned(self, end: int) -> bool:
        """Whether the models have learned all that stands below an offset of the log."""
        return not len(self.models) and await self._feed.has_read(end)

    def step_together(
        self, learners: Sequence[PartitionLearner], releases: Sequence[Release], first: int, time_ms: int
    ) -> Taken:
        """As `joint_step.step_together`, of all partitions that follow. Thread-safe. KafkaError where another worker
        has appended something meanwhile."""
        try:
            with self.models.lock:
                return step_together(learners, releases, self.models, first, time_ms)
        except OvertakenError:
            raise KafkaError(f"another worker has appended to {self._topic}") from None

    def hurry(self) -> None:
        """A partition waits for what the models learn next."""
        self._feed.hurry()

    def hold_back(self, learning: Learning, place: int | None) -> None:
        """Keep the replica from going beyond `place` for this partition (`Replica.hold_back`)."""
        self.models.hold_back(learning, place)
        self._came.set()

    async def leave(self, learning: Learning) -> None:
        """Nothing more comes for a partition: others need not wait for it. A replica that nobody follows ends."""
        self.models.leave(learning)
        self._came.set()
        if not self.models.used and self in self._group:
            self._group.remove(self)
            await self.stop()

    def _log_joined(self, learning: Learning) -> None:
        said = "partition %d: the worker's replica learns for it from offset %d of %s on"
        log.info(said, learning.partition, learning.logs.places[LEARNED], self._topic)

    async def move(self, learning: Learning, to: "ReplicaOfWorker") -> list[DriftRecord] | None:
        """Let a partition follow another replica (`Learning.move`). None where it stays."""
        if self.models.apart is to.models:
            return None
        drifts: list[DriftRecord] | None = None
        to.models.join(learning)  # before it comes: others may leave meanwhile, and the replica has to go on
        try:
            drifts = await self._worker.in_thread(learning.move, to.models)
        finally:
            if drifts is None:
                await to.leave(learning)
        if drifts is not None:
            to._log_joined(learning)
        elif self.models.apart is to.models:
            log.warning(
                "partition %d has learned otherwise than others of this worker, and keeps a replica beside theirs: a "
                "changed stream file has begun at another place in it, where the stream takes no commands; with "
                "control: true and riparian apply it begins at one place in all",
                learning.partition,
            )
        return drifts

    async def _advance(self) -> None:
        """Learn what has come: in another thread where that may take long, or a step has the replica there."""
        await self._brief.run(self.models.n_due, self.models.advance, self.models, self._worker)

    async def stop(self) -> None:
        await self._feed.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        known = self.models.place  # by those whom it wakes; one that moves may take the replica on, too
        while True:
            await self._came.wait()
            self._came.clear()
            try:
                await self._advance()
            except Exception as error:
                self._worker.fail(error)
                return
            if self.models.place != known:
                known = self.models.place
                self._learned()
