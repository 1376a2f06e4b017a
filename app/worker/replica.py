"""The replica of the shared models in a worker (`learning: shared`): it reads the log of all partitions, once for all
partitions that the worker has (app/partition/replica.py says what it is).

It begins with the models of the first partition that has replayed what was sent before, and goes on as long as the
worker does: a partition that comes later finds it there.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from app.kafka.connection import Connection
from app.partition.merge import Piece
from app.partition.replica import LedLearner, Replica
from app.stream_file.spec import Spec
from app.worker.learned import Feed
from topics.names import LEARNED
from topics.records import DriftRecord

log = logging.getLogger(__name__)


class ReplicaOfWorker:
    """Reads the log and learns it, for all partitions of a worker.

    Parameters
    ----------
    spec : Spec
    connection : Connection
    in_thread : callable
        Calls a function off the event loop.
    learned : callable
        Called when the models have learned more.
    failed : callable
        Told why they cannot.
    """

    def __init__(
        self,
        spec: Spec,
        connection: Connection,
        in_thread: Callable[..., Any],
        learned: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        assert spec.topics.learned is not None
        self._topic: str = spec.topics.learned
        self._replica = Replica(spec)
        self._in_thread, self._learned, self._failed = in_thread, learned, failed
        self._came = asyncio.Event()
        self._feed = Feed(connection, self._topic, self._replica, self._came.set, failed)
        self._task: asyncio.Task[None] | None = None

    async def meet(self, learner: LedLearner, piece: Piece) -> list[DriftRecord]:
        """Between two steps of a partition: let it follow from here on, where both stand at one place.

        piece : records of the log that came for it. Returns the events of drift in them.
        """
        drifts: list[DriftRecord] = await self._in_thread(learner.meet, self._replica, piece)
        if learner.follows:
            said = "partition %d: the worker's replica learns for it from offset %d of %s on"
            log.info(said, learner.partition, learner.places[LEARNED], self._topic)
        if learner.apart:
            said = "partition %d: it has learned otherwise than the partitions beside it, and keeps models of its own"
            log.warning(said, learner.partition)
        if self._task is None and self._replica.learner is not None:
            self._feed.start()
            self._task = asyncio.create_task(self._run(), name="replica")
        return drifts

    async def stop(self) -> None:
        await self._feed.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._came.wait()
            self._came.clear()
            try:
                await self._in_thread(self._replica.advance)
            except Exception as error:
                self._failed(error)
                return
            self._learned()
