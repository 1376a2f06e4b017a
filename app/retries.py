"""Dead letters read back: counted, shown, and written to their topics once more.

A retry writes the record of a letter to the end of the partition that it came from, and beside it, in the same
transaction, a *mark* into the partition of the dead letters: a record with an empty key and no value, whose header says
which letters were retried. So whatever is killed when, a letter is retried once or not yet, and the marks tell which;
they are kept as long as the letters before them. Two retries at once use the same transactional id: Kafka refuses what
the first one sends from then on, and only then does the second read the marks, as a worker does (`app.kafka.sending`).

Where a stream file still rejects a record, that letter is left alone, for a stream file to come.
"""

import asyncio
import base64
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import TopicPartition

from riparian.app.errors import BrokerError, TopicError
from riparian.app.kafka.admin import check_topics, largest_batches
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, Bounds, bounds_of, read_to_end, reading
from riparian.app.kafka.sending import ask_in_vain, close
from riparian.app.stream_file.spec import Spec
from riparian.topics import names
from riparian.topics.places import offset_of
from riparian.topics.records import NOMINAL_OVERFLOW, PREDICTION_TOO_LARGE, RawBatch, field_of

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Producer

CHUNK = 500  # letters of a transaction, at most
CHUNK_BYTES = 8_000_000
MOST_REASON = 100  # characters
MOST_MARK = CHUNK * 38  # bytes of what a mark says: as many ranges as a transaction has letters, of 18 digits each
TRANSACTION_MS = 30_000  # time after which the broker aborts what a killed retry has begun, ms; workers wait for it
RECORD_BYTES = 600 + names.MAX_LETTER_HEADER_BYTES  # bytes of a record in a batch besides key and value, with headers

SIZES = (names.HEADER_SIZE, names.HEADER_KEY_SIZE, names.HEADER_HEADERS_SIZE)

# Why a letter is not retried.
RETRIED = "retried already"
CUT_OFF = "cut off"
NO_VALUE = "without a value"
OTHER_TOPIC = "of a topic that the stream does not read"
TOO_LARGE = "larger than its topic takes"
STILL = "rejected still"

OnProgress = Callable[[int, int], None]  # how many records of how many have been looked at


class DeadLetterRecord(NamedTuple):
    """A dead letter. partition, offset, timestamp (ms) : its own. topic, source_partition, source_offset : of the
    record. source_index : which instance of it, where it held several. headers : that the record came with. sizes :
    bytes that value, key and headers had, where they were cut off."""

    partition: int
    offset: int
    timestamp: int
    topic: str
    source_partition: int
    source_offset: int
    reason: str
    detail: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    sizes: tuple[int | None, int | None, int | None]
    source_index: int | None = None

    @property
    def cut_off(self) -> bool:
        return any(size is not None for size in self.sizes)

    @property
    def field(self) -> str:
        """The field of the record that the reason is about; "" where it is about none."""
        return field_of(self.reason, self.detail)

    @property
    def hindrance(self) -> str | None:
        """Why it cannot be retried, whatever the stream file says; None where nothing hinders that."""
        if self.cut_off:
            return CUT_OFF
        return NO_VALUE if self.value is None or self.reason == PREDICTION_TOO_LARGE else None

    def plain(self) -> dict[str, Any]:
        """What JSON can hold; bytes that are no text in base64, under the name with _base64."""
        found = {
            name: value for name, value in self._asdict().items() if name not in ("key", "value", "headers", "sizes")
        }
        if self.source_index is None:
            del found["source_index"]
        found |= _texts([("key", self.key), ("value", self.value)])
        found["headers"] = _texts(self.headers)
        for name, size in zip(("value_bytes", "key_bytes", "headers_bytes"), self.sizes, strict=True):
            if size is not None:
                found[name] = size
        return found


def _texts(named: Iterable[tuple[str, bytes | None]]) -> dict[str, str | None]:
    found = dict[str, str | None]()
    for name, data in named:
        try:
            found[name] = None if data is None else data.decode()
        except UnicodeDecodeError:
            found[f"{name}_base64"] = base64.b64encode(data or b"").decode()
    return found


class LetterFilter(NamedTuple):
    """Which letters: of these reasons and about these fields (none: of all), made since (ms), at these partitions and
    offsets (none: all)."""

    reasons: Collection[str] = ()
    since: int = 0
    places: Collection[tuple[int, int]] = ()
    fields: Collection[str] = ()

    def has(self, letter: DeadLetterRecord) -> bool:
        return (
            letter.timestamp >= self.since
            and (not self.reasons or letter.reason in self.reasons)
            and (not self.fields or letter.field in self.fields)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )


class Ranges:
    """A set of offsets, as ranges: what marks say."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int) -> None:
        """Offsets start to stop, exclusive."""
        first = bisect_right(self._starts, start)
        if first and self._stops[first - 1] >= start:
            first -= 1
            start, stop = self._starts[first], max(stop, self._stops[first])
        last = bisect_right(self._starts, stop)
        stop = max([stop, *self._stops[first:last]])
        self._starts[first:last], self._stops[first:last] = [start], [stop]

    def keep(self, n: int) -> None:
        """Only the last n ranges."""
        del self._starts[:-n], self._stops[:-n]

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._starts, offset)
        return bool(at) and offset < self._stops[at - 1]


class Group(NamedTuple):
    """Letters of one reason, field, topic and partition. field : as `DeadLetterRecord.field`. first, last : timestamps
    (ms). retried : how many of them were."""

    reason: str
    field: str
    topic: str
    partition: int
    n: int
    first: int
    last: int
    retried: int


class RetryReport(NamedTuple):
    """What a retry did, or would do. retried : topic -> letters. left : why not -> letters. reasons : why those that
    are rejected still are."""

    retried: Mapping[str, int]
    left: Mapping[str, int]
    reasons: Mapping[str, int]


def _number(text: bytes, below: int = 1 << 63) -> int:
    """A number from 0 on in a header. ValueError where it is none."""
    if re.fullmatch(rb"\d{1,19}", text) is None or int(text) >= below:
        raise ValueError(f"expected a number below {below}, found {text[:30]!r}")
    return int(text)


def letter_of(record: Any) -> DeadLetterRecord | None:
    """The dead letter that a record is; None where it is none that a worker wrote."""
    headers = dict(record.headers)
    try:
        topic, reason = headers[names.HEADER_TOPIC].decode(), headers[names.HEADER_REASON].decode()
        if not 0 < len(topic) <= names.MAX_TOPIC_LENGTH or not 0 < len(reason) <= MOST_REASON:
            return None
        place = _number(headers[names.HEADER_PARTITION], 1 << 31), _number(headers[names.HEADER_OFFSET])
        detail = (headers.get(names.HEADER_DETAIL) or b"").decode()
        n_value, n_key, n_headers, index = (
            None if headers.get(name) is None else _number(headers[name]) for name in (*SIZES, names.HEADER_INDEX)
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    own = tuple((name, value) for name, value in record.headers if name not in names.RESERVED)
    return DeadLetterRecord(
        record.partition, record.offset, record.timestamp, topic, *place, reason, detail, record.key, record.value,
        own, (n_value, n_key, n_headers), index,
    )  # fmt: skip


def marked(record: Any) -> list[tuple[int, int]]:
    """The offsets that a record marks as retried, as ranges with exclusive ends; none where it is no mark."""
    text = dict(record.headers).get(names.HEADER_RETRIED) or b""
    if len(text) > MOST_MARK:
        return []
    found = re.findall(rb"(\d{1,18})(?:-(\d{1,18}))?", text)
    return [(int(first), int(last or first) + 1) for first, last in found if int(last or first) >= int(first)]


def mark(offsets: Sequence[int]) -> bytes:
    """What the header of a mark says of letters, in order: `3-17,20`."""
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in ranges).encode()


async def partitions(spec: Spec, connection: Connection) -> list[TopicPartition]:
    """The partitions of the dead letters; TopicError where a topic that is needed is missing."""
    found = (await check_topics(spec, connection)).partitions
    topics = spec.topics
    for topic in (topics.deadletters, topics.features, topics.labels):
        if topic is not None and topic not in found:
            raise TopicError(
                f"Kafka at {connection} has no topic {topic} of the stream {spec.name}: a worker creates it when it "
                "starts; check --broker and topics in the stream file"
            )
    return [TopicPartition(topics.deadletters, k) for k in range(found[topics.deadletters])]


class Overview:
    """Letters as they were read, a few bytes each: how many of which, and which were retried."""

    def __init__(self, wanted: LetterFilter) -> None:
        self.wanted = wanted
        self.n_other = 0  # records that are neither letter nor mark
        self.retried: dict[int, Ranges] = {}
        self._numbers: dict[tuple[str, str, str, int], int] = {}  # what a group is of -> its number
        self._spans: list[tuple[int, int]] = []  # of each group: its first and last timestamp
        self._letters: dict[int, tuple[array[int], array[int]]] = {}  # partition -> offsets, and numbers of groups

    def take(self, letter: DeadLetterRecord) -> None:
        if not self.wanted.has(letter):
            return
        group = letter.reason, letter.field, letter.topic, letter.source_partition
        number = self._numbers.setdefault(group, len(self._numbers))
        if number == len(self._spans):
            self._spans.append((letter.timestamp, letter.timestamp))
        first, last = self._spans[number]
        self._spans[number] = min(first, letter.timestamp), max(last, letter.timestamp)
        offsets, numbers = self._letters.setdefault(letter.partition, (array("q"), array("q")))
        offsets.append(letter.offset)
        numbers.append(number)

    def mark(self, partition: int, ranges: Iterable[tuple[int, int]]) -> None:
        retried = self.retried.setdefault(partition, Ranges())
        for start, stop in ranges:
            retried.add(start, stop)

    def left(self, partition: int) -> list[int]:
        """Offsets of the letters of a partition that are wanted and were not retried."""
        retried = self.retried.get(partition, Ranges())
        return [offset for offset in self._letters.get(partition, ((), ()))[0] if offset not in retried]

    def n(self, partition: int) -> int:
        """How many letters of a partition are wanted."""
        return len(self._letters.get(partition, ((), ()))[0])

    def groups(self) -> list[Group]:
        """The most frequent first."""
        counts, done = Counter[int](), Counter[int]()
        for partition, (offsets, numbers) in self._letters.items():
            retried = self.retried.get(partition, Ranges())
            counts.update(numbers)
            done.update(number for offset, number in zip(offsets, numbers, strict=True) if offset in retried)
        found = [Group(*group, counts[i], *self._spans[i], done[i]) for group, i in self._numbers.items()]
        return sorted(found, key=lambda group: (-group.n, *group[:4]))


async def read(
    tps: Sequence[TopicPartition],
    connection: Connection,
    take: Callable[[DeadLetterRecord], None],
    overview: Overview,
    on_progress: OnProgress | None = None,
) -> dict[TopicPartition, Bounds]:
    """Every letter to `take`, every mark to the overview; where the partitions begin and end."""
    bounds = await bounds_of(connection, tps)
    begin = {tp: b.first for tp, b in bounds.items()}
    position = dict(begin)
    total = sum(b.end - b.first for b in bounds.values())

    def each(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            letter = letter_of(record)
            if letter is not None:
                take(letter)
            elif ranges := marked(record):
                overview.mark(tp.partition, ranges)
            else:
                overview.n_other += 1
        position[tp] = records[-1].offset + 1
        if on_progress is not None:
            on_progress(sum(position[tp] - begin[tp] for tp in tps), total)

    await read_to_end(connection, begin, each, {tp: b.end for tp, b in bounds.items()})
    return bounds


async def letter_at(spec: Spec, connection: Connection, partition: int, offset: int) -> DeadLetterRecord | None:
    """The dead letter at a place of their topic; None where there is none any more."""
    async with reading(connection, spec.topics.deadletters, partition) as log:
        log.seek(offset)
        records = await log.read(offset + 1) if log.first <= offset < log.end else []
    return letter_of(records[0]) if records and records[0].offset == offset else None


async def retry(
    spec: Spec,
    connection: Connection,
    wanted: LetterFilter,
    *,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> RetryReport:
    """Write the records of letters that were not retried yet to their topics once more.

    Parameters
    ----------
    dry_run : bool
        Write nothing, and say what would be done.
    on_progress : callable, optional
        Told how many letters of how many have been looked at.

    Raises
    ------
    TopicError
        There are no dead letters, or a topic is missing.
    BrokerError
        Kafka refuses, or another retry has begun. What was retried is marked: a retry that follows goes on from there.
    """
    tps = await partitions(spec, connection)
    inputs = [topic for topic in (spec.topics.features, spec.topics.labels, *spec.sources) if topic is not None]
    work = _Retry(spec, connection, wanted, await largest_batches(connection, inputs), on_progress, dry_run)
    bounds = await bounds_of(connection, tps, EVERYTHING)
    try:
        await work.run({tp: b for tp, b in bounds.items() if b.end > b.first})
    except ProducerFenced as error:
        raise BrokerError(
            f"another riparian deadletters retry of the stream {spec.name} has begun, and goes on where this one was: "
            "wait until it has ended; what was retried is not retried again"
        ) from error
    except KafkaError as error:
        raise BrokerError(
            f"Kafka at {connection} did not take the records ({error}): see the broker's log, and run the command "
            "again; what was retried is not retried again"
        ) from error
    return RetryReport(work.retried, work.left, work.reasons)


class _Retry:
    """A retry on its way."""

    def __init__(
        self,
        spec: Spec,
        connection: Connection,
        wanted: LetterFilter,
        limits: Mapping[str, int],
        on_progress: OnProgress | None,
        dry_run: bool,
    ) -> None:
        self.retried, self.left, self.reasons = Counter[str](), Counter[str](), Counter[str]()
        self._spec, self._connection, self._wanted, self._limits = spec, connection, wanted, limits
        self._on_progress, self._dry_run = on_progress, dry_run
        self._codec = spec.make_codec()

    async def run(self, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """All letters of these partitions."""
        done, total = 0, sum(b.end - b.first for b in bounds.values())
        for tp, (first, end) in bounds.items():
            producer = None if self._dry_run else self._producer(tp.partition)
            try:
                if producer is not None:
                    await producer.start()
                    await (
                        producer.begin_transaction()
                    )  # what an earlier retry began has ended, and it can begin no more
                    await producer.abort_transaction()
                async for position in self._partition(tp, producer):
                    if self._on_progress is not None:
                        self._on_progress(done + position - first, total)
            finally:
                if producer is not None:
                    await close(producer)
            done += end - first

    def _producer(self, partition: int) -> "Producer":
        return self._connection.producer(
            transactional_id=names.retry_id(self._spec.name, partition),
            transaction_timeout_ms=TRANSACTION_MS,
            max_request_size=max(CHUNK_BYTES, *self._limits.values()),
            max_batch_size=min(self._limits.values()),
        )

    async def _partition(self, tp: TopicPartition, producer: "Producer | None") -> AsyncIterator[int]:
        """The letters of a partition; yields the offsets that it has come to."""
        overview = Overview(self._wanted)
        bounds = await read([tp], self._connection, overview.take, overview)
        left = overview.left(tp.partition)
        self.left[RETRIED] += overview.n(tp.partition) - len(left)
        if not left:
            return
        async with reading(self._connection, tp.topic, tp.partition) as reader:
            reader.seek(left[0])
            wanted = set(left)
            while records := await reader.read(bounds[tp].end, CHUNK):
                found = [letter for letter in map(letter_of, records) if letter and letter.offset in wanted]
                fit = await asyncio.to_thread(self._fit, found)  # decoding would hold up whoever else is in this loop
                for some in _in_pieces(fit):
                    if producer is not None:
                        await self._write(producer, tp, some)
                    self.retried.update(self._target(letter)[0] for letter in some)
                yield reader.position

    def _fit(self, letters: list[DeadLetterRecord]) -> list[DeadLetterRecord]:
        """Those that can be retried; the others are counted."""
        found = []
        for letter in letters:
            why = self._hindrance(letter)
            if why is None:
                found.append(letter)
            else:
                self.left[why] += 1
        rejected = self._rejected(found)
        self.left[STILL] += len(rejected)
        self.reasons.update(rejected.values())
        return [letter for letter in found if letter.offset not in rejected]

    def _target(self, letter: DeadLetterRecord) -> tuple[str, int | None]:
        """Topic and partition that a record is written to once more. Of a copy (`rekey`) it is the topic that it came
        from, for by this stream file its id may be another; and whichever partition its key has."""
        source = names.source_of(letter.headers)
        role = self._spec.sources.get(source[0]) if source is not None else None
        if source is not None and role is not None and letter.topic == getattr(self._spec.topics, role):
            return source[0], None
        return letter.topic, letter.source_partition

    def _hindrance(self, letter: DeadLetterRecord) -> str | None:
        if letter.value is None or letter.hindrance is not None:
            return letter.hindrance
        if letter.topic not in self._limits or letter.source_partition != letter.partition:
            return OTHER_TOPIC
        if len(letter.key or b"") + len(letter.value) + RECORD_BYTES > self._limits[self._target(letter)[0]]:
            return TOO_LARGE
        return None

    def _rejected(self, letters: list[DeadLetterRecord]) -> dict[int, str]:
        """Offset of each letter whose record the stream file rejects -> its reason. What a worker has learned of
        nominal values decides about new ones: they are let through."""
        found: dict[int, str] = {}
        for topic in self._limits:
            of_topic = [letter for letter in letters if letter.topic == topic]
            if not of_topic:
                continue
            role = names.FEATURES if topic == self._spec.topics.features else names.LABELS
            bits = self._codec.index_bits.of(role)
            batch = RawBatch(
                list(range(len(of_topic))),
                [letter.timestamp for letter in of_topic],
                [letter.key for letter in of_topic],
                [letter.value for letter in of_topic],
                [letter.headers for letter in of_topic],
            )
            batch, classes = self._codec.unpack(role, batch), self._spec.class_vocabulary()
            rejected = (
                self._codec.decode_features(batch, self._spec.vocabularies(recorded=True), classes).rejected
                if role == names.FEATURES
                else self._codec.decode_labels(batch, classes).rejected
            )
            whose = [offset_of(place, bits) for place in batch.offsets]  # a record may hold several instances
            left = Counter(whose)
            for one in rejected:
                if one.reason != NOMINAL_OVERFLOW:
                    left[whose[one.position]] -= 1
                    if not left[whose[one.position]]:
                        found[of_topic[whose[one.position]].offset] = one.reason
        return found

    async def _write(self, producer: "Producer", tp: TopicPartition, letters: list[DeadLetterRecord]) -> None:
        """Records and mark, in one transaction."""
        records: list[tuple[str, bytes | None, bytes | None, int | None, list[tuple[str, bytes | None]]]] = []
        for letter in letters:
            of = f"{tp.topic}/{tp.partition}/{letter.offset}".encode()
            headers = [*(one for one in letter.headers if one[0] != names.HEADER_RETRY_OF), (names.HEADER_RETRY_OF, of)]
            topic, partition = self._target(letter)
            if partition is None:
                headers = [one for one in headers if one[0] != names.HEADER_SOURCE]
            records.append((topic, letter.value, letter.key, partition, headers))
        done: list[tuple[str, bytes | None]] = [(names.HEADER_RETRIED, mark([letter.offset for letter in letters]))]
        records.append((tp.topic, None, b"", tp.partition, done))
        await producer.begin_transaction()
        sent = []
        try:
            for topic, value, key, partition, headers in records:
                sent.append(await producer.send(topic, value, key, partition, headers=headers))
        finally:
            answers = await asyncio.gather(*sent, return_exceptions=True)
            ask_in_vain(producer)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        await producer.commit_transaction()


def _in_pieces(letters: list[DeadLetterRecord]) -> list[list[DeadLetterRecord]]:
    """Letters in pieces: as many together as a transaction may have bytes."""
    pieces: list[list[DeadLetterRecord]] = []
    room = 0
    for letter in letters:
        n_bytes = len(letter.key or b"") + len(letter.value or b"") + RECORD_BYTES
        if n_bytes > room or not pieces:
            pieces.append([])
            room = CHUNK_BYTES
        pieces[-1].append(letter)
        room -= n_bytes
    return pieces
