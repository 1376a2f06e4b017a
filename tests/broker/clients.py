"""Clients of Kafka: topics that are made, records in and out."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError, NotLeaderForPartitionError
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.structs import ConsumerRecord, TopicPartition

from riparian.app.kafka.admin import ensure_topics, partition_counts
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import COMMITTED, counts
from riparian.app.stream_file.spec import Spec
from tests import shared

T = TypeVar("T")


def wait_on(coroutine: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`; in a thread of its own where this one has a loop already, as beside the browser's driver."""
    if not has_loop():
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def has_loop() -> bool:
    with suppress(RuntimeError):
        return bool(asyncio.get_running_loop())
    return False


class Sent(NamedTuple):
    """A record to send. time : Kafka timestamp in ms."""

    value: bytes | None
    time: int
    key: bytes | None = None


class Kept:
    """A client of the run's broker that a process keeps: to start one takes longer, here and in the broker, than to use
    it. Others are for one use: those of other brokers, and where the one that is kept is in use."""

    _loop: asyncio.AbstractEventLoop | None = None

    def __init__(self) -> None:
        self._lock, self._client = threading.Lock(), list[Any]()

    def use(self, broker: str, work: Callable[[Any], Coroutine[Any, Any, T]], make: Callable[[], Any]) -> T:
        """Await `work(client)`, of a client as `make` makes it."""
        if broker != shared.address() or not self._lock.acquire(blocking=False):
            return wait_on(self.once(work, make))
        try:
            if Kept._loop is None:
                Kept._loop = asyncio.new_event_loop()
                threading.Thread(target=Kept._loop.run_forever, daemon=True).start()
            return asyncio.run_coroutine_threadsafe(self._again(work, make), Kept._loop).result()
        finally:
            self._lock.release()

    @staticmethod
    async def once(work: Callable[[Any], Awaitable[T]], make: Callable[[], Any]) -> T:
        client = make()
        await _start(client)
        try:
            return await work(client)
        finally:
            await _stop(client)

    async def _again(self, work: Callable[[Any], Awaitable[T]], make: Callable[[], Any]) -> T:
        client = self._client.pop() if self._client else make()
        if not hasattr(client, "kept"):
            await _start(client)
            client.kept = True
        try:
            found = await work(client)
        except BaseException:
            await _stop(client)
            raise
        self._client.append(client)
        return found

    def end(self) -> None:
        while self._client and self._loop is not None:
            asyncio.run_coroutine_threadsafe(_stop(self._client.pop()), self._loop).result()


KEPT = CONSUMER, PRODUCER, ADMIN = Kept(), Kept(), Kept()


async def _stop(client: Any) -> None:
    await (client.close if isinstance(client, AIOKafkaAdminClient) else client.stop)()


async def _start(client: Any) -> None:
    for left in range(100, -1, -1):  # a broker that a test stops comes back
        try:
            return await client.start()
        except KafkaConnectionError:
            if not left:
                raise
            await asyncio.sleep(0.2)


async def _send(producer: Any, topic: str, partition: int, records: list[Sent], pause: float, chunk: int) -> None:
    for _ in range(100):
        if partition in await producer.partitions_for(topic):
            break
        await producer.client.force_metadata_update()  # it has grown
    for at in range(0, len(records), chunk):
        for r in records[at : at + chunk]:
            last = await producer.send(topic, r.value, key=r.key, partition=partition, timestamp_ms=r.time)
        await last
        await asyncio.sleep(pause)


def send(
    broker: str,
    topic: str,
    records: Sequence[Sent],
    *,
    partition: int = 0,
    pause: float = 0.0,
    chunk: int = 1000,
    compression: str | None = None,
) -> None:
    """Append records to one partition, in order; with a pause (seconds) after every chunk. compression : of batches."""

    def make() -> AIOKafkaProducer:
        return AIOKafkaProducer(
            bootstrap_servers=broker, enable_idempotence=True, max_request_size=8_000_000, compression_type=compression
        )

    def work(producer: Any) -> Coroutine[Any, Any, None]:
        return _send(producer, topic, partition, list(records), pause, chunk)

    if records and compression is None:
        PRODUCER.use(broker, work, make)
    elif records:
        wait_on(Kept.once(work, make))


def create_topics(spec: Spec, broker: str) -> None:
    wait_on(ensure_topics(spec, Connection(broker)))


def administer(broker: str, action: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
    """Await `action(admin client)`."""

    async def work(client: AIOKafkaAdminClient) -> Any:
        return await action(client)

    return ADMIN.use(broker, work, lambda: Connection(broker).admin())  # makes no topic by asking for it


def make_topics(broker: str, topics: Mapping[str, int], **settings: str) -> None:
    """Topics of so many partitions each. settings : of all of them, with _ for the dots of their names."""
    configured = {name.replace("_", "."): value for name, value in settings.items()}

    async def make(client: AIOKafkaAdminClient) -> None:
        await client.create_topics([NewTopic(name, n, 1, topic_configs=configured) for name, n in topics.items()])
        while (await partition_counts(client, topics)).keys() < set(topics):  # known a moment after they are made
            await asyncio.sleep(0.02)

    administer(broker, make)


def delete_before(broker: str, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the records below an offset; -1: all."""
    where = {TopicPartition(topic, partition): RecordsToDelete(offset)}
    administer(broker, lambda client: client.delete_records(where))


def append(broker: str, topic: str, key: bytes | None, value: bytes | None) -> None:
    """Append a record to partition 0, as nobody should."""

    async def run() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker, max_request_size=2_000_000) as producer:
            await producer.send_and_wait(topic, value, key=key, partition=0)

    wait_on(run())


def produce(broker: str, topic: str, data: bytes, partition: int = 0) -> None:
    """Append a record batch as it is (`tests.batches`), by a plain Produce request."""

    async def run() -> None:
        client = AIOKafkaClient(bootstrap_servers=broker)
        try:
            await client.bootstrap()
            await client.add_topic(topic)
            error = NotLeaderForPartitionError.errno  # as right after the topic was created
            while error == NotLeaderForPartitionError.errno:
                while (node := client.cluster.leader_for_partition(TopicPartition(topic, partition))) in (None, -1):
                    await client.force_metadata_update()
                answer = await client.send(node, ProduceRequest(None, 1, 5000, [(topic, [(partition, data)])]))
                error = answer.topics[0][1][0][1]
            assert error == 0, answer
        finally:
            await client.close()

    wait_on(run())


def _consumer(broker: str, **settings: Any) -> Any:
    """One that reads, as workers do, what is no part of a transaction that was aborted."""
    return Connection(broker).consumer(auto_offset_reset="earliest", isolation_level=COMMITTED, **settings)


class Reader:
    """Reads a partition from its beginning on, as records come. consumer : one that runs, and goes on."""

    def __init__(self, broker: str, topic: str, partition: int = 0, consumer: Any = None) -> None:
        self._broker, self._tp = broker, TopicPartition(topic, partition)
        self._given, self._reads = consumer, False

    async def __aenter__(self) -> "Reader":
        self._consumer = self._given or _consumer(self._broker)
        if self._given is None:
            await self._consumer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._given is None:
            await self._consumer.stop()
        elif self._reads:
            self._consumer.pause(self._tp)

    async def is_there(self) -> bool:
        """Whether there is such a topic; from then on it can be read."""
        if not self._reads:
            if not await counts(self._consumer, [self._tp.topic]):  # of a run's thousands, this one
                return False
            self._consumer.assign([self._tp])
            self._reads = True
        return True

    async def more(self, seconds: float) -> list[ConsumerRecord]:
        """What has come, as soon as anything has."""
        return (await self._consumer.getmany(self._tp, timeout_ms=int(1000 * seconds))).get(self._tp, [])

    async def to_the_end(self) -> list[ConsumerRecord]:
        """All that is there."""
        found: list[ConsumerRecord] = []
        if await self.is_there():
            end = (await self._consumer.end_offsets([self._tp]))[self._tp]
            while await self._consumer.position(self._tp) < end:
                found += await self.more(0.5)
        return found


async def _read(broker: str, topic: str, partition: int, consumer: Any) -> list[ConsumerRecord]:
    async with Reader(broker, topic, partition, consumer) as reader:
        return await reader.to_the_end()


def read(broker: str, topic: str, partition: int = 0) -> list[ConsumerRecord]:
    """All records of a partition as it stands now."""

    def make() -> Any:
        # Between two reads nothing is asked for; what is asked for at the end of one holds up the next.
        return _consumer(broker, fetch_max_wait_ms=1)

    return CONSUMER.use(broker, lambda consumer: _read(broker, topic, partition, consumer), make)
