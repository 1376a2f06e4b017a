"""Whole-batch delivery: Faust's transport, with the records of the source topics going straight to the agent.

Faust spends about 75 µs on every delivered message, and about 1 ms on every delivered event when an event is a whole
batch. What a fetch brought of the source topics is therefore handed to the agent as one value (app/worker/agent.py),
without passing Faust's consumer. Changelog topics are delivered one message at a time, as Faust does it; what
a recovery reads of them is in states.py.

A worker whose broker goes away while Faust starts would end with a traceback; here what needs a broker to start waits.

Six habits of Faust and its client are replaced for the source topics. The first two cost time, the others lose or
repeat records:

- Faust's consumer has a thread with an event loop of its own. Python runs one thread at a time, so each fetch then
  waits for the interpreter's lock, and what it brought for another wake-up. Here the consumer lives in the worker's own
  loop, and a thread is asked only to unpack what is large.
- In a rebalance Faust and its client take nothing from any partition until the group has agreed, and then begin at what
  was committed. Here partitions are fetched on, and those that are assigned again go on where they were: the new
  assignment takes over their positions in the moment when it comes.
- In Faust, records arrive between recovery and the seek. Here partitions are held back until `perform_seek` has asked
  `Assignment` for the offsets of its manifests and sought to them. Every seek starts a new *epoch*, stamped on what is
  fetched after it, and so does an assignment without the partition; so a batch that was fetched before can never be
  taken for one after it, and an epoch that is still the same says that no assignment has taken the partition away.
- Offsets are committed as events are acknowledged, ahead of the state, and an error of a commit ends the worker. Here
  `Assignment` commits the offsets of its manifests, when the broker lets it; they are for lag monitors only.
- Where the broker does not have the offset that is asked for, the client goes on from the first that there is, and
  tells nobody. Here the batch that follows says so (`Fetched.jump`).
- A full buffer leaves fetched records inside the client, which then stops asking for the other partitions. Here
  everything fetched is drained at once, and back-pressure pauses the partition in the client (`backpressure`).

Private methods of faust-streaming 0.15.3 and aiokafka 0.14.0 are overridden; tests/app/test_transport.py checks that
they are still there with the same signatures.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import faust
from aiokafka.errors import ConsumerStoppedError, KafkaError
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from riparian.app.kafka.access.rights import denied
from riparian.app.kafka.reading import COMMITTED, close
from riparian.app.kafka.wire_format.unpacking import BatchRecords, Unpacking, size_of
from riparian.app.partition.records.partition_group import concatenate
from riparian.app.worker.faust_client import membership
from riparian.app.worker.faust_client.access import out_of_group
from riparian.app.worker.faust_client.backpressure import Backpressure
from riparian.app.worker.faust_client.end_offsets import EndOffsets
from riparian.app.worker.faust_client.fetch_plan import look_less
from riparian.app.worker.faust_client.fetches import Fetched, Fetches
from riparian.app.worker.naming import STREAM
from riparian.topics.names import CHECKPOINT

log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS = 250
FETCH_BYTES = 16 * 1024 * 1024  # of an answer, compressed; the client asks a broker again when it is unpacked
START_PAUSE_SECONDS = 0.5
COMMIT_PAUSE_SECONDS = 1.0  # between two commits: what many partitions commit meanwhile is one request

Seeks = Callable[[set[TP]], Awaitable[Collection[TP]]]


class Way(NamedTuple):
    """What becomes of a worker's records: each app's transport has its own.

    Attributes
    ----------
    stream : str
        Its name.
    unpacking : Unpacking
        Of the source topics, whose records go to `fetches`.
    seeks : callable
        Told all that is assigned; returns what of it may be fetched, once that is sought.
    fetches : Fetches
        Takes what a fetch brought.
    refused : callable
        Told why the client may not go on.
    backpressure : Backpressure
    rack : str, optional
        From whose replicas to fetch.
    inputs : tuple of str
        Topics of which what is fetched of one waits for the others (`EndOffsets`), and the first of them shall wait
        least; none where nothing does.
    """

    stream: str
    unpacking: Unpacking
    seeks: Seeks
    fetches: Fetches
    refused: Callable[[BaseException], None]
    backpressure: Backpressure
    rack: str | None
    inputs: tuple[str, ...]


async def when_there(service: Any, action: Callable[[], Awaitable[None]]) -> None:
    """Do what needs a broker while `service` starts; while it is away, again and again."""
    while not service.should_stop:
        try:
            return await action()
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and not error.retriable:
                raise
            log.warning("%s cannot start yet (%r): trying again", service.label, error)
        await asyncio.sleep(START_PAUSE_SECONDS)


async def _unpacked(fetcher: Any, tps: set[TP], seconds: float, n: int) -> int:
    """Wait until a client has fetched something of `tps`. What is large is unpacked by another thread: n pieces; what
    is small comes before it, so that commands wait for no backlog. Returns how many pieces to take at once."""
    if tps.isdisjoint(fetcher._records):
        waiter = fetcher._create_fetch_waiter()
        await asyncio.wait([waiter], timeout=seconds)
        if not waiter.done():
            waiter.cancel()
            return n
        waiter.result()  # what the client may not do
    fetched = {
        tp: records
        for tp, found in fetcher._records.items()
        if tp in tps and (records := getattr(found, "_partition_records", None)) is not None
    }
    large = [tp for tp, records in fetched.items() if records.is_large()]
    if large:
        for tp in large:
            fetcher._records.move_to_end(tp)
        await asyncio.to_thread(_read_ahead, [fetched[tp] for tp in large], n)
    return n + len(fetched) - len(large)


def _read_ahead(fetched: Iterable[BatchRecords], n: int) -> None:
    """Make the next n pieces, in the order in which the client takes them."""
    for records in fetched:
        if n > 0:
            n -= records.read_ahead(n)


class InLoop:
    """Stands for a thread: what would run there is a task of the event loop."""

    def __init__(self, service: Any) -> None:
        self._service = service
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="fetching")

    async def _run(self) -> None:
        try:
            await self._service._serve()
        except Exception:  # of which it has told
            self._service.set_shutdown()

    def stop(self) -> None:
        """It has ended by itself."""


class ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """What fetches: Faust's thread, without a thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.way: Way = self.transport.way
        self.epochs: dict[TP, int] = {}
        self.drained: dict[TP, int] = {}  # next offset after the last record that was handed on
        self.answers = EndOffsets(frozenset(self.way.inputs[:1]))
        self._to_commit: dict[TP, int] = {}
        self._committing: asyncio.Task[None] | None = None

    async def _gather_remaining_tasks(self) -> None:
        """Faust's would cancel whatever its loop still has to do."""

    async def _keepalive2(self) -> None:
        """Faust's wakes its thread up, and takes a busy event loop for a thread that does not answer."""

    async def on_start(self) -> None:
        STREAM.set(self.way.stream)  # of this task, and of the client's
        await when_there(self, self._connect)

    async def _connect(self) -> None:
        try:
            await super().on_start()
        except KafkaError:
            await close(self._consumer)
            raise
        coordinator, seconds = self._consumer._coordinator, self._consumer._session_timeout_ms / 1000
        push = coordinator._push_error_to_user

        async def pushed(error: BaseException) -> None:
            said = out_of_group(error, seconds)
            if said is not None:
                self.way.refused(said)
            await push(error)

        coordinator._push_error_to_user = pushed
        self._fetch_on()
        look_less(self._consumer._fetcher, self.way.unpacking.topics)
        self.answers.watch(self._consumer._client)
        membership.guard(
            coordinator,
            coordinator.group_id,
            coordinator._group_instance_id,
            self.way.refused,
        )

    def _fetch_on(self) -> None:
        """Have the client hand on what it fetches during a rebalance, and keep its place where a partition stays."""
        subscriptions = self._consumer._subscription
        assign = subscriptions.assign_from_subscribed

        def assigned(tps: Any) -> None:
            before = subscriptions.subscription.assignment
            assign(tps)
            self._moved(before, subscriptions.subscription.assignment)

        subscriptions.assign_from_subscribed = assigned
        subscriptions.begin_reassignment = lambda: None

    def _moved(self, before: Any, after: Any) -> None:
        """There is a new assignment, of which nothing has been fetched yet."""
        had = frozenset() if before is None else before.tps
        for topic_partition in had & after.tps:
            old, new = before.state_value(topic_partition), after.state_value(topic_partition)
            if old.has_valid_position:
                new.seek(old.position)
            elif old.awaiting_reset:
                new.await_reset(old.reset_strategy)
            if old.paused:
                new.pause()
        self.answers.forget(had ^ after.tps)
        for topic_partition in had ^ after.tps:
            tp = TP(*topic_partition)
            self.epochs[tp] = self.epochs.get(tp, 0) + 1
            self._to_commit.pop(tp, None)

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # While a fetch for a silent topic is out, a topic that was just drained has to wait: keep that short.
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        consumer._isolation_level = COMMITTED
        consumer._fetch_max_bytes = FETCH_BYTES
        consumer._client_rack = self.way.rack
        consumer._value_deserializer = self.way.unpacking
        return consumer

    async def on_thread_stop(self) -> None:
        # As the driver's, but for `close`: an error here would leave who stops it waiting for ever.
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        if self._consumer is not None:
            if self._committing is not None:
                await asyncio.wait([self._committing], timeout=COMMIT_PAUSE_SECONDS)
            await close(self._consumer)

    async def _fetch_records(
        self, consumer: Any, active_partitions: set[TP], timeout: float | None = None, max_records: int | None = None
    ) -> Any:
        """Hand source records to the agent as they come; none is left for Faust."""
        deadline = time.monotonic() + (timeout or 0.0)
        fetcher, way = consumer._fetcher, self.way
        while True:
            left = max(0.0, deadline - time.monotonic())
            if consumer._closed or fetcher._closed:
                raise ConsumerStoppedError
            try:
                with fetcher._subscriptions.fetch_context():
                    n = await _unpacked(fetcher, active_partitions, left, max_records or 1)
                    found = await fetcher.fetched_records(active_partitions, timeout=0, max_records=n)
            except KafkaError as error:
                if not denied(error):
                    raise
                self.way.refused(error)
                await asyncio.sleep(START_PAUSE_SECONDS)  # until the worker ends
                return {}
            fetch = list[tuple[TP, Fetched]]()
            for tp, items in found.items():
                raw = concatenate(items)
                self.drained[tp] = end = int(raw.offsets[-1]) + 1
                if way.backpressure.add(tp, end, len(raw), size_of(raw)):
                    self.pause(tp, True)
                jump = way.unpacking.jumps.pop(tp, None)
                seen = self.answers.seen(tp) if tp.topic in way.inputs else None
                fetch.append((tp, Fetched(raw, self.epochs.get(tp, 0), jump, seen)))
            if fetch:
                way.fetches.bring(fetch)
            if not active_partitions or self.app.should_stop or time.monotonic() >= deadline:
                return {}
            await asyncio.sleep(0)  # heartbeats go on while a large batch comes piece by piece

    async def seek_sources(self, offsets: Mapping[TP, int]) -> dict[TP, int]:
        """Seek source partitions, beginning a new epoch for each; the epochs."""
        consumer, unpacking = self._ensure_consumer(), self.way.unpacking
        self.way.backpressure.begin(offsets)
        for tp, offset in offsets.items():
            topic_partition = TopicPartition(tp.topic, tp.partition)
            consumer.resume(topic_partition)  # an earlier task may have left it paused
            consumer.seek(topic_partition, offset)
            unpacking.positions[topic_partition] = offset
            unpacking.jumps.pop(topic_partition, None)
            self.epochs[tp] = self.epochs.get(tp, 0) + 1
            self.drained[tp] = 0
        return {tp: self.epochs[tp] for tp in offsets}

    def commit_sources(self, offsets: Mapping[TP, int]) -> None:
        """Commit offsets, and those that could not be committed before, when that can be done."""
        self._to_commit.update(offsets)
        if self._to_commit and (self._committing is None or self._committing.done()):
            self._committing = asyncio.get_running_loop().create_task(self._commit_all())

    async def _commit_all(self) -> None:
        consumer = self._ensure_consumer()
        # Between two generations of the group a commit is refused. The client would then join once more, or even as a
        # new member, while the group waits for the old one until that times out.
        while self._to_commit and not consumer._coordinator._performed_join_prepare:
            offsets, self._to_commit = self._to_commit, {}
            epochs = {tp: self.epochs.get(tp) for tp in offsets}
            assigned = consumer.assignment()
            wanted = {
                TopicPartition(*tp): OffsetAndMetadata(offset, CHECKPOINT)
                for tp, offset in offsets.items()
                if TopicPartition(*tp) in assigned
            }
            try:
                if wanted:
                    await consumer.commit(wanted)
            except (KafkaError, AssertionError) as error:  # a rebalance, or the broker is away
                log.debug("offsets were not committed: %r", error)
                stay = {tp: offset for tp, offset in offsets.items() if self.epochs.get(tp) == epochs[tp]}
                self._to_commit = stay | self._to_commit
                return
            await self.sleep(COMMIT_PAUSE_SECONDS)  # less where the worker stops

    def pause(self, tp: TP, paused: bool) -> None:
        """Stop or resume asking the broker for a partition."""
        consumer, topic_partition = self._ensure_consumer(), TopicPartition(tp.topic, tp.partition)
        if topic_partition in consumer.assignment():
            (consumer.pause if paused else consumer.resume)(topic_partition)

    def reached(self, tp: TP, end: int, next_offset: int) -> bool:
        """Whether all records below `end` have arrived at `next_offset`, or are none (control records, say).

        The client's position moves when records are handed on, and over what is no record.
        """
        return next_offset >= end or (next_offset >= self.drained.get(tp, 0) and self._position(tp) >= end)

    def _position(self, tp: TP) -> int:
        """Of the client, in an assigned partition; 0 where there is none."""
        topic_partition = TopicPartition(tp.topic, tp.partition)
        subscription = None if self._consumer is None else self._consumer._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        if assignment is None or topic_partition not in assignment.tps:
            return 0
        return assignment.state_value(topic_partition)._position or 0

    def end_offset(self, tp: TP) -> int | None:
        """Where the partition ended at the last answered fetch: before the first transaction that is open."""
        seen = self.answers.seen(tp)
        return None if seen is None else seen.end


class Consumer(driver.Consumer):  # type: ignore[misc]
    """Faust's consumer, with offsets and seeks of the source topics in the hands of `Assignment`."""

    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sought = asyncio.Event()
        self._flowing: set[TP] = set()  # source partitions to fetch

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon, thread_loop=self.loop, Worker=InLoop)

    @property
    def thread(self) -> ConsumerThread:
        return self._thread

    async def perform_seek(self) -> None:
        """Have `Assignment` seek the source partitions that are new, to the offsets of their manifests; then let them
        flow."""
        if not self.flow_active:
            return  # asked for at the beginning of a rebalance: everything is sought again at its end
        assigned = self.assignment()
        way: Way = self.transport.way
        self._flowing.intersection_update(assigned)
        self._flowing.update(await way.seeks({tp for tp in assigned if tp.topic in way.unpacking.topics}))
        self._sought.set()

    async def _wait_next_records(self, timeout: float) -> Any:
        """Fetch what flows, whether the group rebalances or not."""
        if not self._flowing:
            await self.wait(self._sought, timeout=timeout)
            self._sought.clear()
            return {}, set()
        return await self._getmany(active_partitions=self._flowing, timeout=timeout), self._flowing

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Faust commits nothing: `Assignment` commits the offsets of its manifests."""
        return False

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Faust's watchdog counts acknowledged messages; the lag is among our own metrics."""


class Producer(driver.Producer):  # type: ignore[misc]
    """Faust's producer: it writes nothing."""

    async def on_start(self) -> None:
        await when_there(self, self._connect)

    async def _connect(self) -> None:
        try:
            await super().on_start()
        except KafkaError:
            await self._producer.stop()
            raise


class Transport(driver.Transport):  # type: ignore[misc]
    Consumer = Consumer
    Producer = Producer

    def __init__(self, app: faust.App, way: Way) -> None:
        super().__init__(app.conf.broker_consumer, app)
        self.way = way

    async def _create_topic(self, owner: Any, *args: Any, **kwargs: Any) -> None:
        """All topics are there before the app starts: asking for one again would only need the right to create it."""
