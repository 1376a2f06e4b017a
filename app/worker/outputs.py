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
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLargeError,
    UnknownProducerId,
)
from aiokafka.structs import TopicPartition

from app.errors import BrokerError

log = logging.getLogger(__name__)

MAX_BATCH_BYTES = 900_000  # below the broker's default limit of 1 MB a batch
MAX_REQUEST_BYTES = 4_000_000
MAX_OUTSTANDING = 8  # batches of one topic on their way before a step waits
FENCE_TIMEOUT_MS = 10_000  # after which the broker aborts the marker's transaction by itself
CLOSE_SECONDS = 3.0  # for what was sent to be acknowledged, before it is given up

# Answers after which a new producer does better. All that can be tried again is, by the client.
LOST_TRACK = (ProducerFenced, OutOfOrderSequenceNumber, UnknownProducerId)
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


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
        await close(producer)
        raise
    return producer


async def close(producer: AIOKafkaProducer) -> None:
    """Close a producer; while no broker takes what it holds, give that up.

    The client would wait for the broker however long it is away, and nobody could stop the worker.
    """
    for end in (producer.stop, producer._sender.close, producer.client.close):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(end(), CLOSE_SECONDS)
            if end == producer.stop:
                return


def refused(topic: str, error: KafkaError) -> Exception:
    """What to raise for an error of `topic`: a sentence where Kafka will not have the record, whoever sends it."""
    if error.retriable or isinstance(error, LOST_TRACK) or not isinstance(error, BrokerResponseError):
        found: Exception = error
        return found
    cure = "see the broker's log"
    if isinstance(error, TOO_LARGE):
        cure = f"set the topic's max.message.bytes to 1 MB or more (batches have up to {MAX_BATCH_BYTES:,} bytes)"
    return BrokerError(
        f"Kafka refuses what is written to {topic} ({type(error).__name__}): {cure}, and start the worker again; it "
        "goes on from its last checkpoint"
    )


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
        """Close the producer; what is not acknowledged within seconds is given up."""
        await close(self._producer)
        for future in (future for futures in self._outstanding.values() for future in futures):
            if future.done() and not future.cancelled():
                future.exception()  # somebody else has raised what is to be said

    def build(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Iterable[list[tuple[str, bytes]]] | None = None,
    ) -> list[Any]:
        """Batches of records. Thread-safe; called off the event loop."""
        batches = []
        batch = self._producer.create_batch()
        now = int(time.time() * 1000)
        append = batch.append
        for key, value, more in zip(keys, values, headers or repeat([]), strict=False):
            if append(timestamp=now, key=key, value=value, headers=more) is None:
                batches.append(batch)
                batch = self._producer.create_batch()
                append = batch.append
                append(timestamp=now, key=key, value=value, headers=more)
        if batch.record_count():
            batches.append(batch)
        return batches

    async def send(self, topic: str, batches: Iterable[Any]) -> None:
        """Send batches built by `build`; waits only when too many are on their way."""
        for batch in batches:
            self.position[topic] += batch.record_count()
            future = await self._patiently(topic, self._producer.send_batch, batch, topic, partition=self.partition)
            await self._track(topic, future)

    async def send_one(self, topic: str, key: bytes | None, value: bytes) -> asyncio.Future[Any]:
        """Send a single record likewise; the future of its acknowledgement."""
        self.position[topic] += 1
        future: asyncio.Future[Any] = await self._patiently(
            topic, self._producer.send, topic, value=value, key=key, partition=self.partition
        )
        await self._track(topic, future)
        return future

    async def _patiently(self, topic: str, send: Any, *args: Any, **named: Any) -> Any:
        """Hand something to the client, which gives up when the broker has been away for so long that it is full."""
        while True:
            try:
                return await send(*args, **named)
            except KafkaTimeoutError:
                log.warning("partition %d: no broker takes what is sent; trying again", self.partition)
            except KafkaError as error:
                raise refused(topic, error) from error

    async def write(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> list[int]:
        """Append records and return their offsets when the broker has them all; raises what it refuses."""
        futures = [await self.send_one(topic, key, value) for key, value in records]
        offsets = [(await self._acknowledged(topic, future)).offset for future in futures]
        if min(offsets, default=0) < 0:  # taken for a repetition of what stands there, somewhere
            raise KafkaError(f"the broker does not say where the records of {topic} stand")
        return offsets

    @staticmethod
    async def _acknowledged(topic: str, future: asyncio.Future[Any]) -> Any:
        try:
            return await asyncio.shield(future)  # others may be waiting for it
        except KafkaError as error:
            raise refused(topic, error) from error

    async def _track(self, topic: str, future: asyncio.Future[Any]) -> None:
        outstanding = self._outstanding.setdefault(topic, deque())
        outstanding.append(future)
        while len(outstanding) > MAX_OUTSTANDING or outstanding[0].done():
            await self._acknowledged(topic, outstanding[0])
            outstanding.popleft()
            if not outstanding:
                break

    async def flush(self) -> None:
        """Wait until all that was sent so far is acknowledged."""
        for topic, future in [(topic, f) for topic, futures in self._outstanding.items() for f in futures]:
            await self._acknowledged(topic, future)
