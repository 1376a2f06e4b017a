"""What a partition's owner writes: predictions, metrics, dead letters and state, by one producer that can be fenced.

Only one worker may write for a partition: the last one that it was assigned to. A worker that was stopped or
disconnected while its partitions moved does not know that they did. So every owner takes the next epoch of the
partition's transactional id from the broker, and writes an abort marker of that epoch into the partition of each topic
that it will write to: a transaction with nothing in it. From then on the broker refuses everything with an older epoch
(`ProducerFenced`) in all of these topics. What it sends afterwards is not transactional, so it costs what an idempotent
producer's sends cost, and a consumer needs no isolation level. The order at an assignment is therefore: fence, then
read (state and outputs, to their ends), then go on.

The client supports this only for transactions: after the marker, its transaction manager is told to forget the
transactional id, which leaves an idempotent producer with that id's producer id and epoch. tests/app/test_transport.py
checks the private names.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from aiokafka.errors import (
    BrokerResponseError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownProducerId,
)
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import TopicPartition

from riparian.app.errors import AccessError, BrokerError, RiparianError
from riparian.app.kafka.client.error_codes import INVALID_RECORD
from riparian.app.kafka.connection import MAX_BATCH_BYTES, MAX_REQUEST_BYTES, Connection
from riparian.topics.names import transactional_id
from riparian.topics.slices import Slices

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

log = logging.getLogger(__name__)

LEAST_BATCH_BYTES = 16_384  # if a topic takes less, the records are too large
MAX_OUTSTANDING = 8  # batches of one topic on their way before a step waits
FENCE_TIMEOUT_MS = 10_000  # time after which the broker itself aborts the marker's transaction, ms
CLOSE_SECONDS = 3.0  # longest wait at the end for what was sent to be acknowledged, s

# By the numbers of Kafka's record format.
COMPRESSION = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

# Errors after which a new producer can succeed. The client itself retries all that can be retried.
LOST_TRACK = (ProducerFenced, OutOfOrderSequenceNumber, UnknownProducerId)
TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


async def fenced_producer(
    connection: Connection,
    stream: str,
    tps: Iterable[TopicPartition],
    limits: Iterable[int] = (),
    id_: str | None = None,
) -> "Producer":
    """A producer, after every earlier one of the same stream and partition has lost the right to write to `tps`.

    Parameters
    ----------
    limits : iterable of int
        How large a batch each of the topics takes. A batch of several records is not larger than the smallest limit,
        and every record that the largest limit allows is accepted.
    id_ : str, optional
        The transactional id, of others than the owners of the partition.

    Raises
    ------
    KafkaError
        The broker does not answer, or does not allow it.
    """
    tps, limits = list(tps), list(limits)
    producer = connection.producer(
        transactional_id=id_ or transactional_id(stream, tps[0].partition),
        transaction_timeout_ms=FENCE_TIMEOUT_MS,
        max_batch_size=max(LEAST_BATCH_BYTES, min(MAX_BATCH_BYTES, *limits)) if limits else MAX_BATCH_BYTES,
        max_request_size=max(MAX_REQUEST_BYTES, *limits) if limits else MAX_REQUEST_BYTES,
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


async def close(producer: "Producer") -> None:
    """Close a producer; records that no broker accepts within seconds are dropped.

    The client would wait for the broker however long it is away, and nobody could stop the worker.
    """
    for end in (producer.stop, producer._sender.close, producer.client.close):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(end(), CLOSE_SECONDS)
            if end == producer.stop:
                return


def ask_in_vain(producer: "Producer") -> None:
    """Look at the errors that a transactional producer keeps for nobody once it is fenced: asyncio would log each as
    one that was overlooked."""
    batches = [batch for waiting in producer._message_accumulator._batches.values() for batch in waiting]
    for future in (producer._txn_manager.wait_for_transaction_end(), *(batch._drain_waiter for batch in batches)):
        if future is not None and future.done() and not future.cancelled():
            future.exception()


def broker_error(topic: str, error: KafkaError) -> Exception:
    """The exception for an error of `topic`: with a sentence if Kafka refuses the record for good, whichever worker
    sends it."""
    if error.retriable or isinstance(error, LOST_TRACK) or not isinstance(error, BrokerResponseError):
        found: Exception = error
        return found
    if isinstance(error, TopicAuthorizationFailedError):
        return AccessError(
            f"Kafka does not let this client write to {topic}: grant the ACL Write on it (riparian deploy acls prints "
            "how), and start again; a worker goes on from its last checkpoint"
        )
    cure, name = "see the broker's log", type(error).__name__
    if error.errno == INVALID_RECORD:
        cure = (
            "a topic with cleanup.policy=compact takes no record without a key, so set cleanup.policy=delete; or see "
            "what the broker's log says of its validation"
        )
    if isinstance(error, TOO_LARGE):
        cure = f"set the topic's max.message.bytes to 1 MB or more (batches have up to {MAX_BATCH_BYTES:,} bytes)"
    return BrokerError(
        f"Kafka refuses what is written to {topic} ({name}): {cure}, and start the worker again; it "
        "goes on from its last checkpoint"
    )


class Outputs:
    """What is sent for one partition, by a fenced producer; each topic in the order of sending.

    Parameters
    ----------
    producer : AIOKafkaProducer
        Of `fenced_producer`; closed by `stop`.
    ends : mapping of str to int
        Where each topic's partition ended when the producer was fenced: nobody else has written since.
    compression : str
        Of the batches that `build` makes, one of COMPRESSION. Single records (the state's chunks) come as they are.
    homes : mapping of str to int, optional
        Topic -> the partition to write to, where that is not `partition`.
    """

    def __init__(
        self,
        producer: "Producer",
        partition: int,
        ends: Mapping[str, int],
        compression: str = "none",
        homes: Mapping[str, int] | None = None,
    ) -> None:
        self._producer = producer
        self._homes = homes or {}
        self._codec = COMPRESSION[compression]
        self.partition = partition
        # Counted as sent, not as acknowledged: a snapshot that is taken now must know where its own outputs end.
        self.position = dict(ends)
        self._outstanding: dict[str, deque[asyncio.Future[Any]]] = {}
        self._aside: list[tuple[str, asyncio.Future[Any]]] = []  # what was handed on
        self._refused = False
        self._tps: dict[str, TopicPartition] = {}  # topic -> its partition, where the client is known to know it

    async def stop(self) -> None:
        """Close the producer; what is not acknowledged within seconds is given up."""
        await close(self._producer)
        for future in (future for futures in self._outstanding.values() for future in futures):
            if not future.done():
                future.set_exception(KafkaError("the producer was closed"))  # somebody may wait for it
            if not future.cancelled():
                future.exception()  # somebody else has raised what is to be said

    def build(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        headers: Iterable[list[tuple[str, bytes | None]]] | None = None,
        time_ms: int | None = None,
    ) -> list[Any]:
        """Batches of records. Thread-safe; called off the event loop. time_ms : their stamp, now where it is left
        out."""
        if not len(values):
            return []
        now = int(time.time() * 1000) if time_ms is None else time_ms
        if headers is None and isinstance(values, Slices):
            from riparian.app.kafka.wire_format.written_batches import written  # numba, which takes a while to import

            columns = keys if isinstance(keys, Slices) else Slices.of(keys)
            return written(columns, values, self._producer._message_accumulator._batch_size, self._codec, now)
        batches = []
        batch = self._batch()
        append = batch.append
        for key, value, more in zip(keys, values, headers or repeat([]), strict=False):
            if append(timestamp=now, key=key, value=value, headers=more) is None:
                batches.append(batch)
                batch = self._batch()
                append = batch.append
                append(timestamp=now, key=key, value=value, headers=more)
        if batch.record_count():
            batches.append(batch)
        return batches

    def _batch(self) -> BatchBuilder:
        """An empty batch. The producer's own are compressed as it is, and it is the state's, too."""
        return BatchBuilder(self._producer._message_accumulator._batch_size, self._codec)

    async def send(self, topic: str, batches: Iterable[Any]) -> "list[asyncio.Future[Any]]":
        """Send batches built by `build`; waits only when too many are on their way. The futures of their
        acknowledgements."""
        futures = []
        for batch in batches:
            self.position[topic] += batch.record_count()
            future = await self._patiently(topic, self._queue, batch, topic)
            await self._track(topic, future)
            futures.append(future)
        return futures

    async def _queue(self, batch: Any, topic: str) -> "asyncio.Future[Any]":
        """Hand a batch to the client, as its `send_batch`, which looks at all partitions of the topic each time. Waits
        while one of this partition is there that nothing was sent of."""
        tp = self._tps.get(topic)
        if tp is not None:
            waiting = self._producer._message_accumulator
            if not (waiting._closed or waiting._exception is not None or waiting._batches.get(tp)):
                queued: asyncio.Future[Any] = waiting._append_batch(batch, tp).future
                return queued
        future: asyncio.Future[Any] = await self._producer.send_batch(batch, topic, partition=self.partition)
        self._tps[topic] = TopicPartition(topic, self.partition)
        return future

    async def send_one(self, topic: str, key: bytes | None, value: bytes) -> asyncio.Future[Any]:
        """Send a single record likewise, stamped now; the future of its acknowledgement."""
        future = await self._one(topic, value=value, key=key)
        await self._track(topic, future)
        return future

    async def append(self, topic: str, value: bytes, time_ms: int) -> asyncio.Future[Any]:
        """Likewise, without a key, for whoever looks at the acknowledgement, and bounds how many there are."""
        future = await self._one(topic, value=value, timestamp_ms=time_ms)
        outstanding = self._outstanding.setdefault(topic, deque())
        while outstanding and outstanding[0].done():
            outstanding.popleft()
        outstanding.append(future)
        return future

    async def _one(self, topic: str, **record: Any) -> asyncio.Future[Any]:
        self.position[topic] += 1
        partition = self._homes.get(topic, self.partition)
        future: asyncio.Future[Any] = await self._patiently(
            topic, self._producer.send, topic, partition=partition, **record
        )
        return future

    async def hand_on(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, stamp: int, headers: Any
    ) -> None:
        """Send a single record to another partition, where nobody is fenced by it: it may come twice. `flush` waits for
        it; where Kafka refuses it, that is logged once."""
        named = {"key": key, "value": value, "partition": partition, "timestamp_ms": stamp, "headers": list(headers)}
        try:
            self._aside.append((topic, await self._patiently(topic, self._producer.send, topic, **named)))
        except RiparianError as error:
            self._refuse(error)

    def _refuse(self, error: Exception) -> None:
        if not self._refused:
            self._refused = True
            log.warning("partition %d: labels are not handed on: %s", self.partition, error)

    async def _patiently(self, topic: str, send: Any, *args: Any, **named: Any) -> Any:
        """Hand something to the client, again and again while its buffer is full because the broker is away."""
        while True:
            try:
                return await send(*args, **named)
            except KafkaTimeoutError:
                log.warning("partition %d: no broker takes what is sent; trying again", self.partition)
            except KafkaError as error:
                raise broker_error(topic, error) from error

    async def write(self, topic: str, records: Iterable[tuple[bytes, bytes]]) -> list[int]:
        """Append records and return their offsets when the broker has them all; raises what it refuses."""
        futures = [await self.send_one(topic, key, value) for key, value in records]
        offsets = [(await self.acknowledged(topic, future)).offset for future in futures]
        if min(offsets, default=0) < 0:  # the broker took it for a repetition of an earlier batch
            raise KafkaError(f"the broker does not say where the records of {topic} stand")
        return offsets

    @staticmethod
    async def acknowledged(topic: str, future: asyncio.Future[Any]) -> Any:
        """The broker's answer; raises what it refuses."""
        try:
            return await asyncio.shield(future)  # others may be waiting for it
        except KafkaError as error:
            raise broker_error(topic, error) from error

    async def _track(self, topic: str, future: asyncio.Future[Any]) -> None:
        outstanding = self._outstanding.setdefault(topic, deque())
        outstanding.append(future)
        while len(outstanding) > MAX_OUTSTANDING or outstanding[0].done():
            await self.acknowledged(topic, outstanding[0])
            outstanding.popleft()
            if not outstanding:
                break

    async def flush(self) -> None:
        """Wait until all that was sent so far is acknowledged."""
        for topic, future in [(topic, f) for topic, futures in self._outstanding.items() for f in futures]:
            await self.acknowledged(topic, future)
        while self._aside:
            try:
                await self.acknowledged(*self._aside[-1])
            except RiparianError as error:
                self._refuse(error)
            self._aside.pop()
