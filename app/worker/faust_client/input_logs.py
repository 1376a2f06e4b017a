"""The input logs of a worker's partitions: how far each has come, where it ends, and what of it is in memory."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from faust.types import TP

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import COMMITTED, SideClient, close
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.faust_client.backpressure import Backpressure
from riparian.app.worker.faust_client.end_offsets import Seen
from riparian.app.worker.faust_client.transport import ConsumerThread

log = logging.getLogger(__name__)


class Found(NamedTuple):
    """Where input logs end, by role.

    below : all of these were read before any of `until`, so records below them can only be preceded by records that
    stand below `until` in the other logs.
    """

    below: Mapping[str, int]
    until: Mapping[str, int]


class InputLogs:
    """What partitions ask about the logs that they read.

    Parameters
    ----------
    app : faust.App
        Whose consumer fetches them.

    Attributes
    ----------
    asker : SideClient
        A consumer that asks where logs end: on the one that fetches, an answer would come after the pending fetch's.
    copying : float
        When it was last seen that missing copies were made (monotonic); 0 where nothing is copied (`rekey`).
    """

    copying = 0.0

    def __init__(self, app: Any, spec: Spec, connection: Connection) -> None:
        self.spec, self.connection = spec, connection
        self.backpressure = Backpressure(spec.join.max_buffered_bytes)
        self._app = app
        self.asker = SideClient(partial(connection.consumer, isolation_level=COMMITTED), close)
        self._questions = dict[int, asyncio.Future[Found | None]]()  # partition -> where its logs end
        self._asking: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        await self.asker.stop()

    @property
    def thread(self) -> ConsumerThread:
        thread: ConsumerThread = self._app.consumer.thread
        return thread

    def tps(self, partition: int) -> dict[str, TP]:
        """Role of each log -> its topic and partition."""
        return {role: TP(topic, partition) for role, topic, _ in self.spec.inputs}

    # -- how far they have come --------------------------------------------------------------------------------

    def reached(self, tp: TP, end: int, next_offset: int) -> bool:
        """Whether all records of a topic below `end` have been fetched. next_offset : after the last that came."""
        return self.thread.reached(tp, end, next_offset)

    def taken(self, tp: TP, next_offset: int) -> int:
        """Up to where a topic is taken: `next_offset`, or its end where only markers of transactions and what they
        aborted stand between."""
        end = self.end_offset(tp)
        known = end is not None and end > next_offset and self.thread.reached(tp, end, next_offset)
        return end if known and end is not None else next_offset

    def commit(self, offsets: Mapping[TP, int]) -> None:
        """Tell lag monitors what is durable; nothing depends on it."""
        self.thread.commit_sources(offsets)

    # -- what of them is in memory -----------------------------------------------------------------------------

    def add(self, tp: TP, next_offset: int, n_bytes: int) -> None:
        """What was fetched up to an offset takes so many bytes besides."""
        if self.backpressure.add(tp, next_offset, 0, n_bytes):
            self.thread.pause(tp, True)

    def learned(self, offsets: Mapping[TP, int]) -> None:
        """What stands before these offsets is not in memory any more: fetch on where that had stopped."""
        for tp, offset in offsets.items():
            for resumed in self.backpressure.release(tp, offset):
                self.thread.pause(resumed, False)

    # -- where they end ----------------------------------------------------------------------------------------

    def end_offset(self, tp: TP) -> int | None:
        """Where a topic ended at the last fetch, as far as it is known."""
        return self.thread.end_offset(tp)

    def ends_beside(self, tps: Mapping[str, TP], seen: Seen) -> Mapping[str, int] | None:
        """Role of each of these logs -> where it ended once an answer to another one had told this; None where that is
        not known of each."""
        ends = self.thread.answers.ends(seen, tps.values())
        return None if ends is None else dict(zip(tps, ends.values(), strict=True))

    async def ends(self, partition: int) -> Found | None:
        """Where the logs of a partition end now; None where the broker does not say.

        What several partitions ask for goes in one question.
        """
        answer = self._questions.get(partition)
        if answer is None:
            answer = self._questions[partition] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask(), name="ends")
        return await asyncio.shield(answer)

    async def _ask(self) -> None:
        while self._questions:
            asked, self._questions = self._questions, {}
            found: Mapping[int, Found] = {}
            try:
                found = await self._ends_of(list(asked))
            except KafkaError as error:
                log.debug("no end offsets: %r", error)
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
                log.debug("no end offsets: the question was cancelled")
            except Exception as error:
                for answer in asked.values():
                    answer.set_exception(error)
                continue
            for partition, answer in asked.items():
                answer.set_result(found.get(partition))
        self._asking = None

    async def _ends_of(self, partitions: Sequence[int]) -> dict[int, Found]:
        asker = await self.asker.connected()
        tps = {p: {r: TopicPartition(*tp) for r, tp in self.tps(p).items()} for p in partitions}
        every = [tp for of_partition in tps.values() for tp in of_partition.values()]
        below = until = await asker.end_offsets(every)
        # Brokers look at moments of their own. What is appended between these must not go by it.
        if len({asker._client.cluster.leader_for_partition(tp) for tp in every}) > 1:
            until = await asker.end_offsets(every)
        return {
            p: Found({r: below[tp] for r, tp in of.items()}, {r: until[tp] for r, tp in of.items()})
            for p, of in tps.items()
        }
