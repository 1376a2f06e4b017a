"""Reads partitions from an offset to their present end, with a consumer of its own: all at once, or in pieces."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import ConsumerRecord, TopicPartition

from riparian.app.errors import TopicError
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Consumer

# Input topics are read so by everybody, and end where the first open transaction begins. Without transactions it is the
# same as reading everything. What a partition's owner writes (outputs, changelog) is read to its very end: see outputs.
COMMITTED = "read_committed"
EVERYTHING = "read_uncommitted"
FETCH_BYTES = 8 * 1024 * 1024
POLL_MS = 10  # the end may be control records: they come, but as nothing, and the client waits for more
POLLS = 100  # that bring nothing until it is asked again where partitions end
PIECE = 4096  # records
NOWHERE = 2**62  # offset beyond every partition's end
Take = Callable[[TopicPartition, list[Any]], None]
PIECE_BYTES = 4 * 1024 * 1024
CLOSE_SECONDS = 5.0  # that each step of the end of a consumer may wait for a broker
Counts = Mapping[str, int | None]  # topic -> its partitions, of those that are there; None where we may not know


class Bounds(NamedTuple):
    """The first offset that a partition keeps, and the next one."""

    first: int
    end: int


async def close(consumer: "Consumer") -> None:
    """Stop a consumer, within seconds, and raise CancelledError only where it was our task that was cancelled.

    While the broker is away, the client cancels a fetch that waits for its next attempt, and lets that error out of
    `stop` before its connections are closed (aiokafka 0.14.0, `Fetcher.close`). The awaiting task would end silently.
    While the broker is there and silent, the client waits for its leave to go from the group, up to 90 s, and nobody
    could stop the worker.
    """
    with suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await consumer.stop()
        return
    ends = (
        (consumer._coordinator, "_stop_heartbeat_task"),
        (consumer._coordinator, "_stop_commit_offsets_refresh_task"),
        (consumer._fetcher, "close"),
        (consumer._client, "close"),
    )
    for of, end in ends:
        if hasattr(of, end):  # without a group, or before the start, there is less to end
            with suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await getattr(of, end)()
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@asynccontextmanager
async def started(consumer: "Consumer") -> AsyncIterator["Consumer"]:
    """A consumer that runs until it is not needed any more. Where the client cancels what is asked of it, that is a
    KafkaError: whoever asks would end silently."""
    try:
        await consumer.start()
        yield consumer
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise KafkaError("a request was cancelled") from error
    finally:
        await close(consumer)


class SideClient:
    """A client that is made and started when it is first wanted: once for all who want it.

    Parameters
    ----------
    make : callable
        Gives one that is not started.
    end : callable
        Ends one, whether it could be started or not.

    Attributes
    ----------
    running : the client, None before it is wanted
    """

    def __init__(self, make: Callable[[], Any], end: Callable[[Any], Awaitable[None]]) -> None:
        self.running: Any = None
        self._make, self._end, self._starting = make, end, asyncio.Lock()

    async def connected(self) -> Any:
        """The client. KafkaError where it cannot be started: whoever asks next makes another one."""
        async with self._starting:
            if self.running is None:
                client = self._make()
                try:
                    await client.start()
                except BaseException:
                    await self._end(client)
                    raise
                self.running = client
        return self.running

    async def stop(self) -> None:
        if self.running is not None:
            await self._end(self.running)


async def counts(consumer: "Consumer", topics: Iterable[str]) -> Counts:
    """Partitions of those of the topics that are there, whether the consumer reads them or not. KafkaError where no
    broker says."""
    known, named = ClusterMetadata(), list(topics)
    if not await consumer._client._metadata_update(known, named):
        raise KafkaError("no broker says which topics there are")
    found = {topic: len(known.partitions_for_topic(topic) or ()) for topic in named}
    return {topic: n for topic, n in found.items() if n} | dict.fromkeys(known.unauthorized_topics)


async def read_to_end(
    connection: Connection,
    starts: Mapping[TopicPartition, int],
    take: Take,
    stops: Mapping[TopicPartition, int] | None = None,
    isolation: str = COMMITTED,
) -> dict[TopicPartition, Bounds]:
    """Read partitions to where they end at the call, all at once; where each begins and ends.

    Parameters
    ----------
    starts : mapping of TopicPartition to int
        Where to begin; at the first offset kept where that is later.
    take : callable
        Given consecutive records (ConsumerRecord) of a partition, below its end.
    stops : mapping of TopicPartition to int, optional
        Where to stop reading, of partitions that shall not be read to their end.
    isolation : str
        COMMITTED or EVERYTHING.

    Raises
    ------
    KafkaError
        The broker does not answer, or has a partition anew, which ends before that.
    """
    if not starts:
        return {}
    asked = connection.consumer(
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=FETCH_BYTES,
        isolation_level=isolation,
    )
    async with started(asked) as consumer:
        tps = list(starts)
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        firsts = await consumer.beginning_offsets(tps)
        until = {tp: min(end, (stops or {}).get(tp, end)) for tp, end in ends.items()}
        left = set()
        for tp, start in starts.items():
            if max(start, firsts[tp]) < until[tp]:
                consumer.seek(tp, max(start, firsts[tp]))
                left.add(tp)
            else:
                consumer.pause(tp)
        n_polls = 0
        while left:
            found = await consumer.getmany(*left, timeout_ms=POLL_MS, max_records=PIECE)
            n_polls = 0 if found else n_polls + 1
            if n_polls % POLLS == POLLS - 1:
                now = await consumer.end_offsets(list(left))
                for tp in [tp for tp in left if now[tp] < until[tp]]:
                    raise KafkaError(f"{tp.topic}[{tp.partition}] ends at {now[tp]:,}, and ended at {ends[tp]:,}")
            for tp, records in found.items():
                if records[-1].offset >= until[tp]:
                    records = [record for record in records if record.offset < until[tp]]
                if records:
                    take(tp, records)
            for tp in [tp for tp in left if await consumer.position(tp) >= until[tp]]:
                left.discard(tp)
                consumer.pause(tp)
        return {tp: Bounds(firsts[tp], ends[tp]) for tp in tps}


async def bounds_of(
    connection: Connection, tps: Iterable[TopicPartition], isolation: str = COMMITTED
) -> dict[TopicPartition, Bounds]:
    """Where partitions begin and end."""
    return await read_to_end(connection, dict.fromkeys(tps, NOWHERE), lambda tp, records: None, isolation=isolation)


async def read_ends(
    connection: Connection, tps: Sequence[TopicPartition], n: int, take: Take, *, first: bool = True
) -> None:
    """Read the last n records of each partition, after its first n (if `first`)."""
    bounds = await bounds_of(connection, tps)
    if first:
        starts, stops = ({tp: b.first + at for tp, b in bounds.items()} for at in (0, n))
        await read_to_end(connection, starts, take, stops)
    await read_to_end(connection, {tp: max(b.first, b.end - n) for tp, b in bounds.items()}, take)


class PartitionReader:
    """A partition from an offset on, as far as its records are wanted.

    Attributes
    ----------
    first, end : int
        What the topic keeps, at the start.
    position : int
        Next offset.
    """

    def __init__(self, consumer: "Consumer", tp: TopicPartition, first: int, end: int) -> None:
        self._consumer, self._tp = consumer, tp
        self.first, self.end = first, end
        self.position = first
        self._held: list[ConsumerRecord] = []  # fetched, and not wanted yet

    def seek(self, offset: int) -> None:
        self.position, self._held = offset, []
        self._consumer.seek(self._tp, offset)

    async def read(self, stop: int, n: int = PIECE) -> list[ConsumerRecord]:
        """The next records below offset `stop`, at most n; none where there are no more."""
        stop = min(stop, self.end)
        while not self._held and self.position < stop:
            try:
                found = await self._consumer.getmany(self._tp, timeout_ms=POLL_MS, max_records=n)
            except OffsetOutOfRangeError as error:
                raise TopicError(
                    f"records of {self._tp.topic}[{self._tp.partition}] from offset {self.position:,} on were deleted "
                    "while they were being read: begin later"
                ) from error
            self._held = found.get(self._tp, [])
            if not self._held:
                self.position = await self._consumer.position(self._tp)  # behind control records, which nobody sees
        n_below = len(self._held)
        if self._held and self._held[-1].offset >= stop:
            n_below = next(i for i, record in enumerate(self._held) if record.offset >= stop)
        records, self._held = self._held[:n_below], self._held[n_below:]
        if self._held:
            self.position = max(self.position, stop)
        elif records:
            self.position = records[-1].offset + 1
        return records


@asynccontextmanager
async def reading(
    connection: Connection, topic: str, partition: int, fetch_bytes: int = PIECE_BYTES
) -> AsyncIterator[PartitionReader]:
    """A reader of a topic's partition. fetch_bytes : what a request brings at most, but a batch at least."""
    tp = TopicPartition(topic, partition)
    asked = connection.consumer(
        auto_offset_reset="none",
        fetch_max_wait_ms=100,
        max_partition_fetch_bytes=fetch_bytes,
        isolation_level=COMMITTED,
    )
    async with started(asked) as consumer:
        end = (await consumer.end_offsets([tp]))[tp]
        first = (await consumer.beginning_offsets([tp]))[tp]
        consumer.assign([tp])
        reader = PartitionReader(consumer, tp, first, end)
        reader.seek(first)
        yield reader


@asynccontextmanager
async def reading_logs(
    connection: Connection, logs: Iterable[tuple[str, str, int]]
) -> AsyncIterator[dict[str, PartitionReader]]:
    """A reader of each log, by role. logs : role, topic and partition."""
    async with AsyncExitStack() as stack:
        yield {role: await stack.enter_async_context(reading(connection, topic, k)) for role, topic, k in logs}
