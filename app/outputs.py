"""What a partition's owner writes: predictions, metrics, dead letters and state, by one producer that can be fenced.

Only one worker may write for a partition: the last one that it was assigned to. A worker that was stopped, or cut off,
until its partitions moved does not know that they did. So every owner takes the next epoch of the partition's
transactional id from the broker, and writes an abort marker of that epoch into the partition of each topic that it
will write to: a transaction with nothing in it. From that moment the broker refuses everything that carries an older
epoch (`ProducerFenced`), in all of these topics. What it sends afterwards is not transactional, so it costs what an
idempotent producer's sends cost, and a consumer needs no isolation level. The order at an assignment is therefore:
fence, then read (state and outputs, to their ends), then go on.

The client knows this only as transactions: its manager is told to forget the transactional id after the marker, which
leaves an idempotent producer with the id's producer id and epoch. tests/app/test_transport.py checks the private names.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError
from aiokafka.structs import TopicPartition

log = logging.getLogger(__name__)

MAX_BATCH_BYTES = 900_000  # below the broker's default limit of 1 MB a batch
MAX_REQUEST_BYTES = 4_000_000
MAX_OUTSTANDING = 8  # batches of one topic on their way before a step waits
FENCE_TIMEOUT_MS = 10_000  # after which the broker aborts the marker's transaction by itself


def transactional_id(stream: str, partition: int) -> str:
    """The id that the owners of a partition share."""
    return f"riparian-{stream}-{partition}"


async def fenced_producer(broker: str, stream: str, tps: Iterable[TopicPartition]) -> AIOKafkaProducer:
    """A producer, after every earlier one of the same stream and partition has lost the right to write to `tps`.

    Raises
    ------
    KafkaError
        The broker does not answer, or does not allow it.
    """
    tps = list(tps)
    producer = AIOKafkaProducer(
        bootstrap_servers=broker,
        transactional_id=transactional_id(stream, tps[0].partition),
        transaction_timeout_ms=FENCE_TIMEOUT_MS,
        acks="all",
        max_batch_size=MAX_BATCH_BYTES,
        max_request_size=MAX_REQUEST_BYTES,
    )
    try:
        await producer.start()
        await producer.begin_transaction()
        manager = producer._txn_manager
        for tp in tps:
            manager.maybe_add_partition_to_txn(tp)
        await producer.abort_transaction()
        # The answer means that the markers will be written. A second transaction begins only after they have been.
        await producer.begin_transaction()
        manager.maybe_add_partition_to_txn(tps[0])
        await producer.abort_transaction()
        manager.transactional_id = None
    except BaseException:
        await producer.stop()
        raise
    return producer


class Outputs:
    """What is sent for one partition, by a fenced producer; each topic in the order of sending.

    Parameters
    ----------
    producer : AIOKafkaProducer
        Of `fenced_producer`; closed by `stop`.
    partition : int
    ends : mapping of str to int
        Where each topic's partition ended when the producer was fenced: nobody else has written since.
    """

    def __init__(self, producer: AIOKafkaProducer, partition: int, ends: Mapping[str, int]) -> None:
        self._producer = producer
        self.partition = partition
        # Counted as sent, not as acknowledged: a cut taken now must know where its own outputs end.
        self.position = dict(ends)
        self._outstanding: dict[str, deque[asyncio.Future[Any]]] = {}

    async def stop(self) -> None:
        await self._producer.stop()

    def build(self, keys: Sequence[bytes | None], values: Sequence[bytes]) -> list[Any]:
        """Batches of records without headers. Thread-safe; called off the event loop."""
        batches = []
        batch = self._producer.create_batch()
        now = int(time.time() * 1000)
        append = batch.append
        for key, value in zip(keys, values, strict=True):
            if append(timestamp=now, key=key, value=value) is None:
                batches.append(batch)
                batch = self._producer.create_batch()
                append = batch.append
                append(timestamp=now, key=key, value=value)
        if batch.record_count():
            batches.append(batch)
        return batches

    async def send(self, topic: str, batches: Iterable[Any]) -> None:
        """Send batches built by `build`; waits only when too many are on their way."""
        for batch in batches:
            self.position[topic] += batch.record_count()
            future = await self._patiently(self._producer.send_batch, batch, topic, partition=self.partition)
            await self._track(topic, future)

    async def send_one(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Any] = ()
    ) -> asyncio.Future[Any]:
        """Send a single record likewise; the future of its acknowledgement."""
        self.position[topic] += 1
        future: asyncio.Future[Any] = await self._patiently(
            self._producer.send, topic, value=value, key=key, partition=self.partition, headers=list(headers)
        )
        await self._track(topic, future)
        return future

    async def _patiently(self, send: Any, *args: Any, **named: Any) -> Any:
        """Hand something to the client, which gives up when the broker has been away for so long that it is full."""
        while True:
            try:
                return await send(*args, **named)
            except KafkaTimeoutError:
                log.warning("partition %d: no broker takes what is sent; trying again", self.partition)

    async def write(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> list[int]:
        """Append records and return their offsets when the broker has them all; raises what it refuses."""
        futures = [await self.send_one(topic, key, value) for key, value in records]
        return [(await future).offset for future in futures]

    async def _track(self, topic: str, future: asyncio.Future[Any]) -> None:
        outstanding = self._outstanding.setdefault(topic, deque())
        outstanding.append(future)
        while len(outstanding) > MAX_OUTSTANDING or outstanding[0].done():
            await outstanding[0]  # raises what the broker refused
            outstanding.popleft()
            if not outstanding:
                break

    async def flush(self) -> None:
        """Wait until all that was sent so far is acknowledged."""
        await asyncio.gather(*(future for futures in list(self._outstanding.values()) for future in futures))
