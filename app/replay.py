"""Replays: rows of data published to a stream's topics, features and labels each in their own time.

The timestamps of the records decide what order the worker sees, since it merges features and labels by them:

- With `rate`, instances are due at that rate from now on, in real time; a label is due `label_delay` after its features
  and is stamped with that moment.
- With times of their own (`times`) everything is sent as fast as Kafka takes it, stamped with these. Days of a file are
  days to a half-life, a horizon or an hour.
- Without either, everything is sent as fast as Kafka takes it, *stamped* as if 1,000 instances a second had come: 1 ms
  from one instance to the next. So a label delay of 30 s is 30,000 instances, as in `riparian evaluate --label-delay
  30000`. Wider steps would not change the order, and narrower ones are lost: Kafka's timestamps are whole
  milliseconds, and features go first on a tie, so that instances of one millisecond would all be predicted before the
  first of their labels is learned. The last stamp is about now: records with old stamps would be deleted by the
  topic's retention, and Kafka refuses stamps more than a minute ahead. Stamps must not begin before those that the
  topics hold already either, because time in a topic never runs backwards.

A worker that follows the replay live may see one topic before the other. With immediate labels each block's labels are
sent, and acknowledged, before its features: a label that comes early waits for its instance, so that nothing is lost
by being early, while features without their labels would be predicted by a model that has not learned yet. With late
labels the features go first. To have exactly the order of the stamps, start the worker after the replay.

Features and label of an instance have its id as their key, and go to the partition that Kafka's own partitioner
(murmur2) gives them.
"""

import asyncio
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, pairwise, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from msgspec.json import decode

from riparian.app.dataset.instances import NEVER
from riparian.app.errors import BrokerError, DataError, SpecError
from riparian.app.kafka.access.rights import enter
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_ends
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import inputs as schemas_of_inputs
from riparian.app.stream_file.spec import Spec
from riparian.topics.decoding.headers import HeaderWriter
from riparian.topics.names import FEATURES, LABELS, TIMESTAMP_AFTER_MS
from riparian.topics.records import Headers, Rows
from riparian.topics.vocabulary import canonical

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

BATCH_ROWS = 1000  # instances of a record that holds many
MAX_OUTSTANDING = 8  # batches of one topic on their way
STEP_MS = 1.0  # time between instances where there is no rate, ms
FUTURE_MS = TIMESTAMP_AFTER_MS - 5_000  # Kafka refuses stamps that are further ahead
RECORD_BYTES = 600_000  # texts in a record of many instances, bytes; Kafka takes 1 MB
TICK_SECONDS = 0.01  # how often a paced replay sends what is due
LAST = 10  # records of a partition that are read, markers of transactions among them
BROKER_SECONDS = 5.0  # how long an absent broker is waited for


class Published(NamedTuple):
    """What was sent.

    start, end : stamps (ms) of the first feature and of the last record
    seconds : that it took
    """

    features: int
    labels: int
    n_bytes: int
    start: int
    end: int
    seconds: float

    @property
    def records_per_second(self) -> float:
        return (self.features + self.labels) / self.seconds if self.seconds > 0 else 0.0


class Schedule(NamedTuple):
    """When instance i is due: start + i * step_ms, or times[i]. Its label: delay_ms later, or at due[i] (NEVER: it has
    none). Stamps are whole milliseconds."""

    start: int
    step_ms: float
    delay_ms: int
    times: Sequence[int] | None = None
    due: Sequence[int] | None = None

    def stamp(self, i: int) -> int:
        return self.start + int(i * self.step_ms) if self.times is None else self.times[i]

    def n_due(self, now: float) -> int:
        """How many instances are due at `now` (ms)."""
        n = max(0, int((now - self.start) / self.step_ms))
        while self.stamp(n) <= now:
            n += 1
        while n and self.stamp(n - 1) > now:
            n -= 1
        return n


Join = Callable[[Sequence[bytes]], bytes]


class ReplayRecords(NamedTuple):
    """Records of one topic in order."""

    keys: list[Any]  # bytes; None of records that hold several instances
    values: list[bytes]
    stamps: list[int]
    headers: list[Headers] | None = None


class Timeline:
    """Rows to feature and label messages with their stamps, label by label as they fall due."""

    def __init__(self, spec: Spec, schedule: Schedule) -> None:
        self.schedule = schedule
        self.has_labels = spec.topics.labels is not None
        self._class = None if spec.label.is_ is None else canonical(spec.label.is_)  # of every label, where it is one
        # Labels of other classes stand in the records, where silence does not say them.
        self._others = self._class is not None and spec.join.assumed is None
        inside = self._others or not self.has_labels
        self.writer = spec.make_codec().writer(labels_inside=inside)
        self.headers = HeaderWriter(spec.mapping(), labels_inside=inside)
        self._ids: deque[str] = deque()
        self._y: deque[str] = deque()
        self._due: deque[int] = deque()

    def features(self, rows: Rows) -> ReplayRecords:
        """Feature messages of the rows; their labels wait until they are due."""
        schedule, stop = self.schedule, rows.first + len(rows)
        stamps = [schedule.stamp(i) for i in range(rows.first, stop)]
        if self.has_labels:
            y, due = rows.y, None if schedule.due is None else schedule.due[rows.first : stop]
            if self._class is not None:  # rows of other classes have no record
                y = [one if one is not None and canonical(decode(one)) == self._class else None for one in y]
            if due is not None:
                self._at_their_own_time(rows.ids, y, due)
            else:
                there = [one is not None for one in y]
                self._ids.extend(compress(rows.ids, there))
                self._y.extend(one for one in y if one is not None)
                self._due.extend(stamp + schedule.delay_ms for stamp in compress(stamps, there))
            if self._others:
                others = [one if own is None else None for one, own in zip(rows.y, y, strict=True)]
                rows = Rows(rows.first, rows.ids, rows.features, others, rows.sizes)
        values, headers = self.writer.features(self.headers.inside(rows), stamps), self.headers.features(rows, stamps)
        return ReplayRecords(list(map(str.encode, rows.ids)), values, stamps, headers)

    def _at_their_own_time(self, ids: Sequence[str], y: Sequence[str | None], due: Sequence[int]) -> None:
        """Those of rows beside those that wait; null where a row has a time of its label alone."""
        new = [
            (at, name, one or "null")
            for at, name, one in zip(due, ids, y, strict=True)
            if at != NEVER and (one is not None or self._class is None)
        ]
        waiting = sorted([*zip(self._due, self._ids, self._y, strict=True), *new], key=lambda one: one[0])
        self._due = deque(at for at, _, _ in waiting)
        self._ids = deque(name for _, name, _ in waiting)
        self._y = deque(y for _, _, y in waiting)

    def labels(self, until: float, limit: int) -> ReplayRecords:
        """The messages of at most `limit` labels with stamps up to `until`."""
        n = min(limit, bisect_right(self._due, until))
        ids = [self._ids.popleft() for _ in range(n)]
        y = [self._y.popleft() for _ in range(n)]
        stamps = [self._due.popleft() for _ in range(n)]
        values, headers = self.writer.labels(ids, y, stamps), self.headers.labels(ids, y, stamps)
        return ReplayRecords(list(map(str.encode, ids)), values, stamps, headers)

    @property
    def next_label(self) -> int | None:
        """Stamp of the next label, if any waits."""
        return self._due[0] if self._due else None


def together(messages: ReplayRecords, join: Join, most: int) -> ReplayRecords:
    """Records that hold several instances each, up to `most`, with the stamp of the last of them."""
    if messages.headers is not None:
        raise SpecError(
            "a replay cannot put fields into headers (@header) where a record holds many rows, which would share them: "
            "replay through a stream file that maps columns"
        )
    edges, n_bytes = [0], 0
    for i, value in enumerate(messages.values):
        n_bytes += len(value)
        if i - edges[-1] >= most or n_bytes > RECORD_BYTES:
            edges.append(i)
            n_bytes = len(value)
    parts = [slice(a, b) for a, b in pairwise([*edges, len(messages.values)]) if b > a]
    try:
        values = [join(messages.values[part]) for part in parts]
    except ValueError as error:
        raise DataError(f"rows that cannot be written as a batch: {error}") from error
    return ReplayRecords([None] * len(parts), values, [messages.stamps[part.stop - 1] for part in parts])


class _Sender:
    """Messages to produce batches, a topic and partition at a time; few of them on their way at once."""

    def __init__(
        self, producer: "Producer", n_partitions: Mapping[str, int], joined: Mapping[str, Join], batch_rows: int
    ) -> None:
        self.producer, self.n_partitions = producer, n_partitions
        self._joined, self._batch_rows = joined, batch_rows
        self.outstanding: deque[asyncio.Future[Any]] = deque()
        self.n_bytes = 0

    async def send(self, topic: str, messages: ReplayRecords) -> None:
        n_partitions = self.n_partitions[topic]
        if n_partitions == 1:
            await self._send(topic, 0, messages)
            return
        where = partitions_of(messages.keys, n_partitions)
        for partition in range(n_partitions):
            chosen = np.flatnonzero(where == partition).tolist()
            part = ReplayRecords(*(None if column is None else [column[i] for i in chosen] for column in messages))  # type: ignore[arg-type]
            await self._send(topic, partition, part)

    async def _send(self, topic: str, partition: int, messages: ReplayRecords) -> None:
        join = self._joined.get(topic)
        if join is not None:
            messages = together(messages, join, self._batch_rows)
        batch = self.producer.create_batch()
        headers: Iterable[Headers] = repeat([]) if messages.headers is None else messages.headers
        for key, value, stamp, about in zip(*messages[:3], headers, strict=messages.headers is not None):
            if batch.append(timestamp=stamp, key=key, value=value, headers=about) is None:
                await self._post(batch, topic, partition)
                batch = self.producer.create_batch()
                if batch.append(timestamp=stamp, key=key, value=value, headers=about) is None:
                    raise DataError(
                        f"the record of {(key or b'').decode()} has {len(value)} bytes, more than a batch may have"
                    )
        if batch.record_count():
            await self._post(batch, topic, partition)

    async def _post(self, batch: Any, topic: str, partition: int) -> None:
        self.n_bytes += batch.size()
        while len(self.outstanding) >= MAX_OUTSTANDING:
            await self.outstanding.popleft()
        self.outstanding.append(await self.producer.send_batch(batch, topic, partition=partition))

    async def flush(self) -> None:
        """Wait until everything is acknowledged."""
        while self.outstanding:
            await self.outstanding.popleft()


async def publish(
    spec: Spec,
    rows: Iterable[Rows],
    connection: Connection,
    *,
    rate: float | None = None,
    label_delay: float = 0.0,
    n: int | None = None,
    times: Sequence[int] | None = None,
    due: Sequence[int] | None = None,
    batch_rows: int = BATCH_ROWS,
    on_progress: Callable[[int], None] | None = None,
) -> Published:
    """Publish instances and their labels to the topics of a stream, which are created where they are missing.

    Parameters
    ----------
    spec : Spec
        The stream.
    rows : iterable of Rows
        Instances, such as app.dataset.rows.rows_of_file gives them.
    connection : Connection
    rate : float, optional
        Instances a second, in real time. Without it: as fast as possible, stamped 1 ms apart.
    label_delay : float
        Seconds from an instance's features to its label, by their stamps.
    n : int, optional
        Number of instances: then the stamps of an unpaced replay end about now. Without it they begin now.
    times : sequence of int, optional
        The stamp (ms) of each instance, never less than the one before. Not with `rate`.
    due : sequence of int, optional
        Beside `times`: the stamp (ms) of each instance's label, NEVER where it has none.
    batch_rows : int
        Most instances of a record, in formats whose records hold many.
    on_progress : callable, optional
        Told the number of instances sent.

    Raises
    ------
    BrokerError, TopicError, DataError, SpecError
    """
    if spec.topics.labels is None and (label_delay > 0 or due is not None):
        raise SpecError(
            f"stream {spec.name} has its labels inside the feature records, and replay sends them together: "
            f"leave --label-{'delay' if due is None else 'time'} out, or name a topic of labels"
        )
    await enter(spec, connection, "replay", BROKER_SECONDS)
    report = await ensure_topics(spec, connection)
    counts = {**report.partitions, **report.sources}
    registry = Registry.of(spec)
    if registry is not None:
        await schemas_of_inputs(registry, spec)
    inputs = [topic for topic in written(spec) if topic is not None]
    latest = await last_stamp(
        connection, [TopicPartition(t, p) for t in inputs if t not in report.created for p in range(counts[t])]
    )
    schedule = plan(spec, latest, rate=rate, label_delay=label_delay, n=n, times=times, due=due)
    producer = connection.producer(enable_idempotence=True)
    try:
        await producer.start()
        try:
            replay = _Replay(spec, producer, counts, schedule, batch_rows, on_progress)
            return await (replay.burst(rows) if rate is None else replay.paced(rows))
        finally:
            await producer.stop()
    except KafkaError as error:
        raise BrokerError(f"Kafka at {connection} did not take the records ({error}): see the broker's log") from error


def written(spec: Spec) -> tuple[str, str | None]:
    """The topics that a replay writes features and labels to: of those that are copied (`rekey`), the first."""
    copied = spec.copied
    labels = copied.get(LABELS, (spec.topics.labels,))[0]
    return copied.get(FEATURES, (spec.topics.features,))[0], labels


def plan(
    spec: Spec,
    latest: int,
    *,
    rate: float | None = None,
    label_delay: float = 0.0,
    n: int | None = None,
    times: Sequence[int] | None = None,
    due: Sequence[int] | None = None,
) -> Schedule:
    """When instances are due, after `latest`, the last stamp (ms) that the topics hold. The rest as in `publish`."""
    delay_ms = round(label_delay * 1000)
    now = int(time.time() * 1000)
    if times:
        if times[0] < latest:
            raise DataError(
                f"the topics of stream {spec.name} hold records of a later time than the first row, and time in a "
                "topic does not run backwards: use a new stream, or leave --time out"
            )
        if max([times[-1] + delay_ms, *(due or [])]) > now + FUTURE_MS:
            raise DataError(
                "the last row, or its label, has a time that is more than a minute ahead, which Kafka refuses: "
                "use --limit, or leave --time out"
            )
        return Schedule(times[0], STEP_MS, delay_ms, times, due)
    if rate is not None:
        return Schedule(max(now, latest + 1), 1000.0 / rate, delay_ms)
    span = 0 if n is None else int(n * STEP_MS) + delay_ms
    start = max(now - span, latest + 1)
    if n is not None and start + span > now + FUTURE_MS:
        seconds = (start + span - now - FUTURE_MS) // 1000
        raise DataError(
            f"the topics of stream {spec.name} hold records up to a moment ago, and {n:,} rows stamped 1 ms apart "
            f"would reach more than a minute ahead, which Kafka refuses: begin {seconds:,} s later, or use --limit, "
            "--rate, or a new stream"
        )
    return Schedule(start, STEP_MS, delay_ms)


async def last_stamp(connection: Connection, partitions: Sequence[TopicPartition]) -> int:
    """The largest stamp (ms) among the last records of `partitions`; 0 where they are empty."""
    stamps = [0]
    await read_ends(
        connection, partitions, LAST, lambda _, records: stamps.extend(one.timestamp for one in records), first=False
    )
    return max(stamps)


class _Replay:
    """One replay on its way."""

    def __init__(
        self,
        spec: Spec,
        producer: "Producer",
        n_partitions: Mapping[str, int],
        schedule: Schedule,
        batch_rows: int,
        on_progress: Callable[[int], None] | None,
    ) -> None:
        self.feature_topic, self.label_topic = written(spec)
        self.schedule = schedule
        self.timeline = Timeline(spec, schedule)
        joined = dict[str, Join]()
        for topic, name in ((self.feature_topic, "join_features"), (self.label_topic, "join_labels")):
            join = getattr(self.timeline.writer, name, None)
            if topic is not None and join is not None:
                joined[topic] = join
        self.sender = _Sender(producer, n_partitions, joined, batch_rows)
        self.on_progress = on_progress
        self.n_features = self.n_labels = 0
        self.end = schedule.start
        self.began = time.perf_counter()

    async def burst(self, rows: Iterable[Rows]) -> Published:
        """Everything as fast as Kafka takes it, blocks in the order of the stamps."""
        size = 1
        for block in rows:
            size = max(size, len(block))
            features = self.timeline.features(block)
            await self._send(features, self.timeline.labels(features.stamps[-1], 2 * size))
        while self.timeline.next_label is not None:
            await self._send(ReplayRecords([], [], []), self.timeline.labels(float("inf"), size))
        return await self._finish()

    async def paced(self, rows: Iterable[Rows]) -> Published:
        """Each record when it is due."""
        blocks = _Queue(rows)
        while True:
            now = time.time() * 1000
            due = blocks.take(self.schedule.n_due(now) - self.n_features)
            features = self.timeline.features(due) if due is not None else ReplayRecords([], [], [])
            labels = self.timeline.labels(now, 1 << 30)
            if features.keys or labels.keys:
                await self._send(features, labels)
                await self.sender.flush()
            nexts = [] if self.timeline.next_label is None else [self.timeline.next_label]
            if not blocks.exhausted:
                nexts.append(self.schedule.stamp(self.n_features))
            if not nexts:
                return await self._finish()
            await asyncio.sleep(max(TICK_SECONDS, min(nexts) / 1000 - time.time()))

    async def _send(self, features: ReplayRecords, labels: ReplayRecords) -> None:
        """One block of both topics: immediate labels ahead of their features, late ones behind."""
        parts = [(self.feature_topic, features), (self.label_topic, labels)]
        at_once = self.schedule.delay_ms == 0 and self.schedule.due is None
        if at_once:
            parts.reverse()
        for topic, messages in parts:
            if topic is not None and messages.keys:
                await self.sender.send(topic, messages)
                if topic == self.label_topic and at_once:
                    await self.sender.flush()
                self.end = max(self.end, messages.stamps[-1])
        self.n_features += len(features.keys)
        self.n_labels += len(labels.keys)
        if self.on_progress is not None:
            self.on_progress(self.n_features)

    async def _finish(self) -> Published:
        await self.sender.flush()
        seconds = time.perf_counter() - self.began
        return Published(self.n_features, self.n_labels, self.sender.n_bytes, self.schedule.start, self.end, seconds)


class _Queue:
    """Rows taken from blocks in any number."""

    def __init__(self, rows: Iterable[Rows]) -> None:
        self._blocks: Iterator[Rows] = iter(rows)
        self._rest: Rows | None = next(self._blocks, None)

    @property
    def exhausted(self) -> bool:
        return self._rest is None

    def take(self, n: int) -> Rows | None:
        """The next at most n rows, not beyond a block; None where there are none."""
        rest = self._rest
        if rest is None or n <= 0:
            return None
        if n >= len(rest):
            self._rest = next(self._blocks, None)
            return rest
        self._rest = rest.part(n, len(rest))
        return rest.part(0, n)
