"""Output topics: predictions, metrics, dead letters, each sent as produce batches in order.

One idempotent producer a worker: a lost acknowledgement repeats nothing. Batches are built off the event loop and sent
without waiting; `flush` waits for all of them, which a checkpoint does before it writes its manifest, so that an
output is never lost behind an offset that has moved on.
"""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

MAX_BATCH_BYTES = 900_000  # below the broker's default limit of 1 MB a batch
MAX_REQUEST_BYTES = 4_000_000
MAX_OUTSTANDING = 8  # batches of one partition on their way before a step waits


class Outputs:
    """The worker's producer. Batches of one partition go out in the order of `send`."""

    def __init__(self, broker: str) -> None:
        self._producer: AIOKafkaProducer | None = None
        self._broker = broker
        self._outstanding: dict[int, deque[asyncio.Future[Any]]] = {}

    async def start(self) -> None:
        """Connect; does nothing when connected."""
        if self._producer is not None:
            return
        producer = AIOKafkaProducer(
            bootstrap_servers=self._broker,
            enable_idempotence=True,
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            max_request_size=MAX_REQUEST_BYTES,
        )
        await producer.start()
        self._producer = producer

    async def stop(self) -> None:
        if self._producer is not None:
            producer, self._producer = self._producer, None
            await producer.stop()

    @property
    def producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise RuntimeError("outputs are used before start or after stop")
        return self._producer

    def build(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> list[Any]:
        """Batches of records without headers. Thread-safe; called off the event loop."""
        batches = []
        batch = self.producer.create_batch()
        now = int(time.time() * 1000)
        append = batch.append
        for key, value in zip(keys, values, strict=True):
            if append(timestamp=now, key=key, value=value) is None:
                batches.append(batch)
                batch = self.producer.create_batch()
                append = batch.append
                append(timestamp=now, key=key, value=value)
        if batch.record_count():
            batches.append(batch)
        return batches

    async def send(self, topic: str, partition: int, batches: Iterable[Any]) -> None:
        """Send batches built by `build`; waits only when too many are on their way."""
        for batch in batches:
            future = await self.producer.send_batch(batch, topic, partition=partition)
            await self._track(partition, future)

    async def send_one(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: Sequence[Any] = ()
    ) -> None:
        """Send a single record (metrics, dead letters) likewise."""
        future = await self.producer.send(topic, value=value, key=key, partition=partition, headers=list(headers))
        await self._track(partition, future)

    async def _track(self, partition: int, future: asyncio.Future[Any]) -> None:
        outstanding = self._outstanding.setdefault(partition, deque())
        outstanding.append(future)
        while len(outstanding) > MAX_OUTSTANDING or outstanding[0].done():
            await outstanding[0]  # raises what the broker refused
            outstanding.popleft()
            if not outstanding:
                break

    async def flush(self, partition: int) -> None:
        """Wait until all that was sent for a partition so far is acknowledged."""
        await asyncio.gather(*self._outstanding.get(partition, ()))


async def read_tail(broker: str, topic: str, partition: int, start: int) -> tuple[list[bytes], int]:
    """Values of `topic[partition]` from offset `start` to the end as it stands now, and that end offset."""
    tp = TopicPartition(topic, partition)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=100
    )
    await consumer.start()
    try:
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        first = (await consumer.beginning_offsets([tp]))[tp]
        values: list[bytes] = []
        if max(start, first) < end:
            consumer.seek(tp, max(start, first))
            while await consumer.position(tp) < end:
                found = await consumer.getmany(tp, timeout_ms=1000)
                values.extend(record.value for record in found.get(tp, ()) if record.offset < end)
        return values, end
    finally:
        await consumer.stop()
