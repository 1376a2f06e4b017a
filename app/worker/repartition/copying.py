"""Copies the topics of `rekey`, each record to the partition of its id: then features and labels meet, whatever keys
and partitions their producers have. With `rekey.by` features go to the partition of a key of theirs, and labels, of
which nobody here knows where their instance is, to every partition.

Workers share the partitions of these topics in a consumer group of their own. Each copies those that it has in the
order of time (`order`), with key, value, headers and timestamp as they are, and one header more, which says where
a record comes from. Copies and the offsets up to which they go are one transaction (`copy_claims`), so every record is
copied once, whatever is killed or stopped when; copies are read as input topics always are, read_committed.

A record whose id cannot be read goes to a partition, too: the fold says why, as it does for any other.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import TopicPartition
from faust.types import TP

from riparian.app.errors import RegistryError
from riparian.app.kafka.access.rights import denied
from riparian.app.kafka.reading import COMMITTED, close
from riparian.app.kafka.sending import ask_in_vain, broker_error
from riparian.app.kafka.sending import close as close_producer
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.kafka.wire_format.unpacking import Unpacking, size_of
from riparian.app.partition.records import inputs
from riparian.app.partition.records.partition_group import concatenate
from riparian.app.registry.client import Registry
from riparian.app.registry.questions import Questions
from riparian.app.registry.stream_schemas import look_up
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.faust_client import membership
from riparian.app.worker.faust_client.backpressure import POLL_PIECES, Backpressure
from riparian.app.worker.repartition import claims
from riparian.app.worker.repartition.claims import Member
from riparian.app.worker.repartition.order import CopyOrder, Ordered
from riparian.topics.names import FEATURES, HEADER_SOURCE, HEADER_UNREAD, LABELS
from riparian.topics.records import RawBatch, Unknown, Unread
from riparian.topics.schemas import Key

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Admin, Consumer, Producer

log = logging.getLogger(__name__)

MAX_BYTES = 64_000_000  # fetched and not copied yet
RECORDS = 8192  # copies of a transaction, at most, unless one record has more
BYTES = 4_000_000  # likewise, about
FETCH_MAX_WAIT_MS = 100
IDLE_MS = 200  # that a poll waits for records
SOON_MS = 5  # while records wait for those of other topics
PAUSE_SECONDS = 1.0  # after an error
CYCLE_SECONDS = 60.0  # after which a transaction is given up
REBALANCE_MS = 10_000  # that a rebalance waits for a member that is alive
SCHEMA_SECONDS = 0.5  # between two questions about schemas
SAY_SECONDS = 30.0
ATTEMPTS = 5  # that a consumer is kept for


class MovedError(Exception):
    """The partitions that were ours may be another's now."""


class CopiedBatch(NamedTuple):
    """Records for one partition of a copy's topic."""

    topic: str
    partition: int
    builder: BatchBuilder


class Copier(ConsumerRebalanceListener):  # type: ignore[misc]
    """One worker's share of the copying.

    Parameters
    ----------
    worker : WorkerContext
        Of a stream with `rekey`.
    session_timeout : float
        Seconds that a killed worker blocks the partitions that it copies.

    Attributes
    ----------
    copied : dict of TP to int
        The next offset of each partition that is ours.
    lost : Counter of TP
        Records that Kafka had deleted before they were copied (`lost: skip`), since the start.
    """

    def __init__(self, worker: WorkerContext, session_timeout: float) -> None:
        self.spec, self.connection = worker.spec, worker.connection
        spec = worker.spec
        self.copied: dict[TP, int] = {}
        self.lost = Counter[TP]()
        self._worker, self._session = worker, session_timeout
        by = spec.rekey.by if spec.rekey is not None else None
        self._by = None if by is None else list(spec.keys).index(by)
        self._codec, self._registry = spec.make_codec(), Registry.of(spec)
        self._unpacking = Unpacking(spec.sources, spec.sources)
        self._targets = {topic: getattr(spec.topics, role) for topic, role in spec.sources.items()}
        self._consumer: Consumer | None = None
        self._asker: Consumer | None = None
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        self._id = ""
        self._member: Member | None = None  # None between two assignments
        self._assigned: frozenset[TP] = frozenset()
        self._order = CopyOrder({})
        self._backpressure = Backpressure(MAX_BYTES)
        self._ends: dict[TP, int] | None = None  # where the sources ended when we last asked
        self._asked = 0.0
        self._questions = Questions(spec.registry.max_wait if spec.registry is not None else 0.0)
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[None] | None = None

    # -- beginning and end -------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="copying")

    async def stop(self) -> None:
        """End after the transaction in hand, and leave the partitions to others."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=10.0)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while not self._stopping:
            try:
                await self._serve()
            except asyncio.CancelledError:
                if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                    raise
                log.warning("copying begins anew: a request was cancelled")
            except (KafkaError, OSError, TimeoutError) as error:
                if denied(error):
                    return await self._worker.crash(error)
                log.warning("copying begins anew: %r", error)
            except Exception as error:
                return await self._worker.crash(error)
            if not self._stopping:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _serve(self) -> None:
        """Copy as a member of the group, until there is something that only new clients could mend."""
        try:
            self._asker = self.connection.consumer(isolation_level=COMMITTED)
            await self._asker.start()
            self._admin = self.connection.admin()
            await self._admin.start()
            self._consumer = self.connection.consumer(
                group_id=self.spec.rekey_group,
                group_instance_id=self.connection.instance_id,
                isolation_level=COMMITTED,
                value_deserializer=self._unpacking,
                auto_offset_reset="earliest",
                session_timeout_ms=int(1000 * self._session),
                heartbeat_interval_ms=1000,
                max_poll_interval_ms=2**31 - 1,  # a registry may be away for long
                rebalance_timeout_ms=max(REBALANCE_MS, int(1000 * self._session)),
                metadata_max_age_ms=60_000,  # of partitions that are added
                fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            )
            self._consumer.subscribe(topics=list(self._targets), listener=self)
            await self._consumer.start()
            membership.guard(
                self._consumer._coordinator, self.spec.rekey_group, self.connection.instance_id, self._replaced
            )
            failed = 0
            while not self._stopping:
                try:
                    await self._hold()
                    failed = 0
                except (MovedError, IllegalStateError):
                    await self._drop()
                except (KafkaError, OSError, TimeoutError) as error:
                    failed += 1
                    if denied(error) or failed == ATTEMPTS:
                        raise
                    log.warning("copying goes on at the last transaction: %r", error)
                    await self._drop()
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            await self._drop()
            for client in (self._consumer, self._asker):
                if client is not None:
                    await close(client)
            if self._admin is not None:
                await self._admin.close()
            self._consumer = self._asker = self._admin = None

    def _replaced(self, error: BaseException) -> None:
        self._ending = asyncio.ensure_future(self._worker.crash(error))

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._member = None

    async def on_partitions_assigned(self, assigned: Any) -> None:
        coordinator = self._consumer._coordinator  # type: ignore[union-attr]
        self._assigned = frozenset(TP(*tp) for tp in assigned)
        self._member = Member(coordinator.generation, coordinator.member_id)

    # -- one assignment ----------------------------------------------------------------------------------------

    def _check(self, member: Member | None) -> None:
        if member is None or self._member != member:
            raise MovedError

    async def _drop(self) -> None:
        """Forget what was fetched, and give up what was begun: the next owner, or we, go on at the last transaction."""
        self.copied = {}
        self._order, self._ends = CopyOrder({}), None
        self._backpressure.end(list(self._assigned))
        producer, self._producer = self._producer, None
        if producer is not None:
            await close_producer(producer)
            ask_in_vain(producer)

    async def _hold(self) -> None:
        """Copy what is assigned to us, as long as it is."""
        consumer, member = self._consumer, self._member
        assert consumer is not None
        if member is None or not self._assigned:
            await consumer.getmany(timeout_ms=SOON_MS if member is None else IDLE_MS)  # nothing, but it has to be asked
            return
        tps = sorted(self._assigned)
        async with asyncio.timeout(CYCLE_SECONDS):
            await self._take_over(tps, member)
        try:
            while not self._stopping:
                self._check(member)
                await self._cycle(consumer, tps, member)
        finally:
            await self._drop()

    async def _take_over(self, tps: list[TP], member: Member) -> None:
        assert self._admin is not None
        assert self._consumer is not None
        assert self._asker is not None
        parts = [TopicPartition(*tp) for tp in tps]
        self._id = claims.new_id(self.spec.name)
        positions = await claims.positions(self.spec, self.connection, self._admin, self._asker, parts)
        self._producer = await claims.producer(self.connection, self._id, self.spec.compression)
        self._check(member)
        await claims.commit(self._admin, self.spec.rekey_group, member, positions, self._id)
        self._check(member)
        self._backpressure.begin(tps)
        every = {tp: self.spec.partitions for tp in tps if self._goes_everywhere(tp)}
        self._order = CopyOrder({tp: positions[part] for tp, part in zip(tps, parts, strict=True)}, every)
        for tp, part in zip(tps, parts, strict=True):
            self._unpacking.positions[part] = positions[part]
            self._unpacking.jumps.pop(part, None)
            self._consumer.resume(part)
            self._consumer.seek(part, positions[part])
            self.copied[tp] = positions[part]
        log.info("copying %d partitions of %s", len(tps), ", ".join(self._targets))

    async def _cycle(self, consumer: "Consumer", tps: list[TP], member: Member) -> None:
        """Fetch, and copy what may be copied."""
        wait = SOON_MS if self._order.n_waiting else IDLE_MS
        found = await consumer.getmany(timeout_ms=wait, max_records=POLL_PIECES)
        self._check(member)
        for part, pieces in found.items():
            self._take(consumer, part, concatenate(pieces))
        release = self._order.release(self._limit())
        if not len(release.order) and self._order.n_waiting:
            release = await self._waited(consumer, tps)
        if len(release.order):
            async with asyncio.timeout(CYCLE_SECONDS if self._registry is None else None):
                await self._copy(consumer, release, member)
        else:
            await self._pass_markers(consumer, member)

    def _take(self, consumer: "Consumer", part: TopicPartition, raw: RawBatch) -> None:
        tp, jump = TP(*part), self._unpacking.jumps.pop(part, None)
        if jump is not None:
            start, stop = jump
            if stop < start:
                raise KafkaError(f"{tp.topic} went back from offset {start} to {stop}")
            if self.spec.lost != inputs.SKIP:
                raise inputs.records_lost(tp.topic, tp.partition, start, stop)
            log.warning("Kafka has %s", inputs.gone(tp.topic, tp.partition, start, stop))
            self.lost[tp] += stop - start
        self._order.buffers[tp].add(raw)
        if self._backpressure.add(tp, raw.offsets[-1] + 1, len(raw), size_of(raw)):
            consumer.pause(part)

    def _limit(self) -> int:
        """How many copies make a transaction."""
        mean = self._backpressure.n_bytes // max(1, self._order.n_waiting)
        return max(1, min(RECORDS, BYTES // max(1, mean)))

    async def _waited(self, consumer: "Consumer", tps: list[TP]) -> Ordered:
        """What may go although nothing later has come from the other sources, as they end."""
        assert self._asker is not None
        if self._ends is None:
            ends = await self._asker.end_offsets([TopicPartition(*tp) for tp in tps])
            self._ends, self._asked = {TP(*part): end for part, end in ends.items()}, time.monotonic()
        done = [tp for tp in tps if await self._position(consumer, tp) >= self._ends[tp]]
        release = self._order.release(self._limit(), self._ends, done)
        if len(release.order):
            self._asked = time.monotonic()
        elif len(done) < len(tps) and time.monotonic() - self._asked > self.spec.join.max_wait:
            release, self._ends = self._order.release(self._limit(), force=True), None
            return release
        if self._order.nothing_below(self._ends):
            self._ends = None
        return release

    async def _position(self, consumer: "Consumer", tp: TP) -> int:
        """Offset up to which a source has been read: behind markers of transactions, too."""
        fetched = self._order.buffers[tp].next_offset
        return max(fetched, int(await consumer.position(TopicPartition(*tp))))

    async def _pass_markers(self, consumer: "Consumer", member: Member) -> None:
        """Nothing waits: say that we have come to the end where markers of transactions stand there, too."""
        passed = {}
        for tp, buffer in self._order.buffers.items():
            if not len(buffer) and (position := await self._position(consumer, tp)) > self.copied[tp]:
                passed[tp] = position
        if passed:
            assert self._admin is not None
            found = {TopicPartition(*tp): position for tp, position in passed.items()}
            await claims.commit(self._admin, self.spec.rekey_group, member, found, self._id)
            self.copied.update(passed)

    # -- one transaction ---------------------------------------------------------------------------------------

    async def _copy(self, consumer: "Consumer", release: Ordered, member: Member) -> None:
        producer = self._producer
        assert producer is not None
        waited = await self._ask(release)
        batches = await self._worker.in_thread(self._build, producer, release)
        self._check(member)
        offsets = {tp: int(piece.offsets[-1]) + 1 for tp, piece in release.pieces.items() if len(piece.offsets)}
        await producer.begin_transaction()
        sent = []
        for one in batches:
            sent.append((one.topic, await producer.send_batch(one.builder, one.topic, partition=one.partition)))
        for topic, future in sent:
            try:
                await future
            except KafkaError as error:
                raise broker_error(topic, error) from error
        claimed = {TopicPartition(*tp): (offset, self._id) for tp, offset in offsets.items()}
        await producer.send_offsets_to_transaction(claimed, self.spec.rekey_group)
        await producer.commit_transaction()
        self.copied.update(offsets)
        for tp, offset in offsets.items():
            for resumed in self._backpressure.release(tp, offset):
                consumer.resume(TopicPartition(*resumed))
        if waited:
            self._questions.wait(time.monotonic())

    async def _ask(self, release: Ordered) -> bool:
        """Have the codec know the schemas that ids are read by, or the registry say, for as long as the fold asks, that
        it does not know them. Waits as long as it does not answer. Returns whether it has asked."""
        late: set[Key] = set()
        said, waits = -SAY_SECONDS, False
        while self._registry is not None and (missing := self._missing(release, late)):
            waits = True
            asked, questions = time.monotonic(), self._questions
            questions.wait(asked)
            late |= questions.remembered(missing, asked)
            keys = questions.next([key for key in missing if key not in late], asked)
            try:
                if keys:
                    late |= questions.answered(await look_up(self._registry, self.spec, keys), asked, time.monotonic())
            except RegistryError as error:
                questions.failed(time.monotonic())
                if asked - said >= SAY_SECONDS:
                    said = asked
                    log.warning("copying waits for a schema: %s", error)
            if self._stopping or self._member is None:
                raise MovedError
            if not keys:
                await asyncio.sleep(min(SCHEMA_SECONDS, max(0.0, questions.due() - time.monotonic())))
        if waits:
            self._questions.settled()
        else:
            self._questions.passed()
        return waits

    def _unknown(self, topic: str, raw: RawBatch) -> Mapping[Key, list[int]]:
        return self._codec.unknown(self.spec.sources[topic], raw)

    def _missing(self, release: Ordered, late: set[Key]) -> list[Key]:
        """The schemas of a release that are neither known nor given up. Those that are stay known."""
        pieces = [(tp.topic, piece.raw) for tp, piece in release.pieces.items()]
        named = {key for topic, raw in pieces for key in self._codec.named(self.spec.sources[topic], raw)}
        self.spec.schemas.hold(self, named)
        if named <= self.spec.schemas.known.keys():
            return []
        return list(dict.fromkeys(key for topic, raw in pieces for key in self._unknown(topic, raw) if key not in late))

    def _goes_everywhere(self, tp: TP) -> bool:
        return self.spec.labels_everywhere and self.spec.sources[tp.topic] == LABELS

    def _partitions(self, tp: TP, raw: RawBatch) -> list[Sequence[int]]:
        """To which partitions each record goes; that of its source's number where its id cannot be read."""
        values = list(raw.values)
        for positions in self._unknown(tp.topic, raw).values():
            for i in positions:
                values[i] = Unknown(values[i] or b"")
        ids = self._codec.ids(self.spec.sources[tp.topic], raw.with_values(values))
        n = self.spec.partitions
        if self._by is not None and self.spec.sources[tp.topic] == FEATURES:
            keys = self._codec.texts_of(self._by, raw.with_values(values))
            ids = [id_ if key is None else key for id_, key in zip(ids, keys, strict=True)]
        hashed = partitions_of([(one or "").encode("utf-8", "surrogatepass") for one in ids], n).tolist()
        if self._goes_everywhere(tp):
            every = range(n)  # which of them its instance is in only that one knows
            return [[tp.partition % n] if one is None else every for one in ids]
        return [[tp.partition % n if one is None else k] for one, k in zip(ids, hashed, strict=True)]

    def _build(self, producer: "Producer", release: Ordered) -> list[CopiedBatch]:
        """Off the event loop: batches of copies."""
        columns, last = [], dict[tuple[str, int], CopiedBatch]()
        for tp, piece in release.pieces.items():
            raw = piece.raw
            stem, target = f"{tp.topic}/{tp.partition}/", self._targets[tp.topic]
            headers = raw.headers if raw.headers is not None else [()] * len(raw)
            partitions = self._partitions(tp, raw)
            offsets, stamps = np.asarray(raw.offsets).tolist(), np.asarray(raw.timestamps).tolist()
            rows = zip(offsets, stamps, raw.keys, raw.values, headers, partitions, strict=True)
            columns.append((stem, target, iter(rows)))
        made: list[CopiedBatch] = []
        for source in release.order.tolist():
            stem, target, rows_left = columns[source]
            offset, stamp, key, value, own, places = next(rows_left)
            more = [*own, (HEADER_SOURCE, f"{stem}{offset}".encode())]
            if isinstance(value, Unread):
                more, value = [*more, (HEADER_UNREAD, bytes(value))], None
            stamp = max(0, stamp)
            for partition in places:
                batch = last.get((target, partition))
                if batch is None or batch.builder.append(timestamp=stamp, key=key, value=value, headers=more) is None:
                    batch = last[target, partition] = CopiedBatch(target, partition, producer.create_batch())
                    made.append(batch)
                    batch.builder.append(timestamp=stamp, key=key, value=value, headers=more)
        return made

    # -- what others ask ---------------------------------------------------------------------------------------

    def lags(self) -> dict[TP, int]:
        """Records of each partition of ours that were not copied yet, as far as it is known."""
        found, consumer = {}, self._consumer
        for tp, copied in self.copied.items():
            try:
                end = None if consumer is None else consumer.last_stable_offset(TopicPartition(*tp))
            except (IllegalStateError, AssertionError):
                end = None
            if end is not None:
                found[tp] = max(0, end - copied)
        return found
