"""The changelog partitions that this worker keeps in memory: its own, and those for which it is a standby.

A standby is tailed all the time, so that a worker that takes it over has little left to read.
"""

import asyncio
import logging
from collections.abc import Iterable

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, FETCH_BYTES, close, read_to_end
from riparian.app.state.log import RECREATED, StateLog

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0


class Follower:
    """The logs of this worker's partitions.

    Parameters
    ----------
    connection : Connection
    topic : str
        The changelog.
    """

    def __init__(self, connection: Connection, topic: str) -> None:
        self.connection = connection
        self.topic = topic
        self.logs: dict[int, StateLog] = {}
        self.standbys: frozenset[int] = frozenset()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def catch_up(self, partitions: Iterable[int]) -> None:
        """Read partitions to where they end now.

        Raises
        ------
        KafkaError
            The broker does not answer.
        StateError
            The changelog is not the one that was read before.
        """
        logs = {TopicPartition(self.topic, p): self._log(p) for p in partitions}
        starts = {tp: state.position for tp, state in logs.items()}
        bounds = await read_to_end(self.connection, starts, self._take, isolation=EVERYTHING)
        for tp, found in logs.items():
            if bounds[tp].end < found.position:
                raise StateError(
                    f"the changelog of partition {tp.partition} ends at {bounds[tp].end:,} and was read up to "
                    f"{found.position:,}: {RECREATED}"
                )
            # After reading: live records before the first record that is kept have been appended again since.
            found.truncate(bounds[tp].first)
            found.settle()

    def _log(self, partition: int) -> StateLog:
        return self.logs.setdefault(partition, StateLog(partition, self.logs))

    def _take(self, tp: TopicPartition, records: list) -> None:  # type: ignore[type-arg]
        found = self.logs.get(tp.partition)
        if found is not None:
            for record in records:
                if record.offset >= found.position:
                    found.append(record.offset, record.key, record.value)

    def stand_by(self, standbys: Iterable[int], owned: Iterable[int]) -> None:
        """Tail `standbys` from now on; forget every partition that is neither one of them nor `owned`."""
        self.standbys = frozenset(standbys)
        for partition in set(self.logs) - self.standbys - set(owned):
            del self.logs[partition]
        for partition in self.standbys:
            self._log(partition)
        self._changed.set()
        if self.standbys and self._task is None:
            self._task = asyncio.create_task(self._tail(), name="standbys")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _tidy(self, state: StateLog) -> None:
        """Forget what is not live; its owner deletes that too."""
        try:
            state.settle()
        except StateError as error:
            log.warning(
                "standby of partition %d: %s", state.partition, error
            )  # a worker that takes the partition over will refuse it
        else:
            state.truncate(state.front()[0])

    async def _tail(self) -> None:
        while True:
            try:
                await self._tail_until_lost()
            except (KafkaError, OSError) as error:
                log.debug("standbys: %r", error)
            except Exception:
                log.exception("standbys are not kept warm; trying again")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _tail_until_lost(self) -> None:
        consumer = self.connection.consumer(auto_offset_reset="earliest", max_partition_fetch_bytes=FETCH_BYTES)
        await consumer.start()
        try:
            self._changed.set()
            while True:
                if self._changed.is_set():
                    self._changed.clear()
                    tps = [TopicPartition(self.topic, partition) for partition in sorted(self.standbys)]
                    consumer.unsubscribe()
                    consumer.assign(tps)
                    for tp in tps:
                        consumer.seek(tp, self.logs[tp.partition].position)
                if not self.standbys:
                    await self._changed.wait()
                    continue
                for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                    if tp.partition in self.standbys:
                        self._take(tp, records)
                        self._tidy(self.logs[tp.partition])
        finally:
            await close(consumer)
