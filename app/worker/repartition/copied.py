"""How far the topics of `rekey` have been copied, as a partition's merge has to know it.

A record of one input log may go before anything later has come of the other, once the other has been read as far as it
reached when the record was there already (`partition.records.partition_group`). Where the other log is made of copies,
its end says little: what stood in its sources at that moment may not be copied yet. So its sources are asked where
they end, then it is waited until the copiers have come so far, and only then the log is asked for its end.
"""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from faust.types import TP

from riparian.app.kafka.admin import partition_counts
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, SideClient, close
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.faust_client.input_logs import Found, InputLogs
from riparian.app.worker.repartition import claims

LOOK_SECONDS = 0.02  # between two looks at what was copied
KEPT_SECONDS = 0.02  # that one partition's look serves the others
COUNTED_SECONDS = 30.0  # that the numbers of partitions are taken to stay


class CopiedLogs(InputLogs):
    """Input logs of which some are copies, and what a worker knows of the copying of all workers."""

    def __init__(self, app: Any, spec: Spec, connection: Connection) -> None:
        super().__init__(app, spec, connection)
        self._roles = {topic: role for role, topic, _ in spec.inputs}
        self._until: dict[int, dict[str, int]] = {}  # partition -> role -> where that log has to be read to
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # Asks where records end, also those of transactions under way.
        self._written = SideClient(partial(connection.consumer, isolation_level=EVERYTHING), close)
        self._admin = SideClient(connection.admin, methodcaller("close"))
        self._sources: list[TopicPartition] = []
        self._offsets: dict[TopicPartition, int] = {}
        self._looked = 0.0
        self._counted = -COUNTED_SECONDS

    async def stop(self) -> None:
        for partition in list(self._tasks):
            self._forget(partition)
        await self._written.stop()
        await self._admin.stop()
        await super().stop()

    def _forget(self, partition: int) -> None:
        task = self._tasks.pop(partition, None)
        if task is not None:
            task.cancel()
        self._until.pop(partition, None)

    async def _ends_of(self, partitions: Sequence[int]) -> dict[int, Found]:
        """From now on `until` says how far the others have to be read."""
        found = {}
        for partition in partitions:
            self._forget(partition)
            ends = await self._ends(partition)
            self._tasks[partition] = asyncio.create_task(self._follow(partition), name=f"copied-{partition}")
            found[partition] = Found(ends, ends)
        return found

    def reached(self, tp: TP, end: int, next_offset: int) -> bool:
        """And those that were to be copied to it when `end` was asked for."""
        until = self.until(tp.partition, self._roles[tp.topic])
        return until is not None and super().reached(tp, max(end, until), next_offset)

    def until(self, partition: int, role: str) -> int | None:
        """Where a log has to be read to since `ends` was asked; None as long as copies are missing in it."""
        return self._until.get(partition, {}).get(role)

    async def _ends(self, partition: int) -> dict[str, int]:
        found = {}
        for role, topic, _ in self.spec.inputs:
            # A transaction under way is a copier's, and soon over: what is in it counts. Of others it may be long open.
            asker = self._written if role in self.spec.copied else self.asker
            part = TopicPartition(topic, partition)
            found[role] = (await (await asker.connected()).end_offsets([part]))[part]
        return found

    async def _follow(self, partition: int) -> None:
        left = dict(self.spec.copied)
        sources: dict[TopicPartition, int] | None = None
        known = {}
        while True:
            with contextlib.suppress(KafkaError, OSError):
                if sources is None:
                    sources = await self._source_ends()
                    self._until[partition] = known = {
                        role: end for role, end in (await self._ends(partition)).items() if role not in left
                    }
                await self._look()
                for role, topics in list(left.items()):
                    if all(self._offsets.get(tp, -1) >= end for tp, end in sources.items() if tp.topic in topics):
                        known[role] = (await self._ends(partition))[role]
                        del left[role]
                if not left:
                    return
            await asyncio.sleep(LOOK_SECONDS)

    async def _source_ends(self) -> dict[TopicPartition, int]:
        if time.monotonic() - self._counted > COUNTED_SECONDS:
            counts = await partition_counts(await self._admin.connected(), set(self.spec.sources))
            self._sources = [TopicPartition(topic, k) for topic, n in counts.items() for k in range(n)]
            self._counted = time.monotonic()
        found: dict[TopicPartition, int] = await (await self.asker.connected()).end_offsets(self._sources)
        return found

    async def _look(self) -> None:
        """Ask where the copiers are, unless somebody just did."""
        now = time.monotonic()
        if now - self._looked < KEPT_SECONDS:
            return
        self._looked = now
        found = await claims.offsets(await self._admin.connected(), self.spec.rekey_group, self._sources)
        offsets = {tp: one.offset for tp, one in found.items()}
        if any(offset > self._offsets.get(tp, -1) for tp, offset in offsets.items()):
            self.copying = time.monotonic()
        self._offsets = offsets
