"""Makes records of fetched Kafka batches: those of the source topics a *piece* at a time, all others one by one.

A piece is several small batches or a part of a large one, about `PIECE_BYTES`, so that a reader can stop between two
pieces, however large a batch is, and continue later from the offset that it has reached. Records of transactions that
were aborted are left out where the consumer asks for that. A batch that cannot be decompressed within the bound is one
record, whose value is `Unread`, in place of the last of them; and so is what follows in a batch where the name of a
header is no text.

Records whose headers nobody asks for are not made into objects: a kernel finds where their keys and values stand
(`app.kafka.record_batches`). Where it would be no gain, or something is unusual, the client reads them.

The client has no hook for unpacking, so its classes are replaced in the whole process. Which records come in pieces is
each consumer's own affair: it says so by an `Unpacking`, which the client hands to these classes as the deserializer of
its values. Consumers that give none are given records.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from app.kafka import decompression
from app.kafka.decompression import UnreadableBatchError
from topics.records import RawBatch, Unread
from topics.slices import Slices

if TYPE_CHECKING:
    from app.kafka.record_batches import Body

PIECE_BYTES = 1024 * 1024
PIECE_RECORDS = 8192
LARGE = 64 * 1024  # bytes of an answer of one partition that take a fraction of a millisecond
LARGE_PACKED = 1024  # likewise, compressed
CODEC_AT, CODEC_BITS = 22, 7  # the byte of a batch that names its compression
LOG_OVERHEAD = 12  # bytes of a batch before those whose number they say
NO_NAME = "the name of a header is not UTF-8"
FEW = 16  # records that are taken of a fetch before it is known how large they are
LEAST = 32  # records that together are sooner read by the kernel
SHARED_BYTES = 2 * PIECE_BYTES  # of batches, decompressed, up to which their records share one buffer
HEADER_BYTES = 150  # that a header takes besides its name and value: three objects, and a place in a list
RECORD_BYTES = 200  # that a record takes besides its key and value: four objects, and places in lists


class Unpacked(NamedTuple):
    """A record that stands for those of a batch, with the attributes of the client's own."""

    offset: int
    timestamp: int
    value: bytes
    key: bytes | None = None
    timestamp_type: int = 0
    headers: tuple[()] = ()
    checksum: None = None


def size_of(raw: RawBatch) -> int:
    """Bytes that records take in memory."""
    size = sum(_lengths(raw.keys)) + sum(_lengths(raw.values)) + RECORD_BYTES * len(raw)
    if raw.headers is not None:
        size += sum(HEADER_BYTES + len(name) + len(value or b"") for one in raw.headers for name, value in one)
    return size


def _few(n_bytes: int, mean: int) -> int:
    """How many records of `mean` bytes complete a piece that has n_bytes."""
    return min(PIECE_RECORDS, (PIECE_BYTES - n_bytes) // mean + 1)


def _nothing(with_headers: bool) -> tuple[list[Any], ...]:
    return tuple([] for _ in range(5 if with_headers else 4))


def _lengths(column: Sequence[bytes | None]) -> Iterable[int]:
    return (int(column.lengths.sum()),) if isinstance(column, Slices) else map(len, filter(None, column))


_COLUMNS = attrgetter("offset", "timestamp", "key", "value")
_WITH_HEADERS = attrgetter("offset", "timestamp", "key", "value", "headers")


def _unread(batch: Any, first: int, why: str) -> Unpacked:
    """Stands for the records of a batch from offset `first` on."""
    last = batch.next_offset - 1
    return Unpacked(last, batch.first_timestamp, Unread.batch(first, last, why))


class _Rows:
    """The columns of a batch's records, some at a time. The client cannot read on behind a name that is no text."""

    def __init__(self, batch: Any, records: Iterator[Any], with_headers: bool) -> None:
        self._batch, self._left = batch, records
        self._columns = _WITH_HEADERS if with_headers else _COLUMNS
        self._last: int | None = None
        self.ended = False

    def take(self, n: int) -> list[tuple[Any, ...]]:
        """The next n; fewer where the batch ends."""
        rows: list[tuple[Any, ...]] = []
        try:
            rows.extend(map(self._columns, islice(self._left, n)))  # in C; what came before an error stays
            self.ended = len(rows) < n
        except UnicodeDecodeError:
            last = rows[-1][0] if rows else self._last
            first = self._batch.base_offset if last is None else last + 1
            rows.append(self._columns(_unread(self._batch, first, NO_NAME)))
            self.ended = True
        self._last = rows[-1][0] if rows else self._last
        return rows


class Answer:
    """The batches of a fetch, as the client's `MemoryRecords` has them, and the bytes of the last that was taken."""

    def __init__(self, data: bytes) -> None:
        self._left, self._data, self._end = MemoryRecords(data), memoryview(data), 0
        self.packed = len(data) > CODEC_AT and bool(data[CODEC_AT] & CODEC_BITS)  # as its first batch says
        self.has_next, self.size_in_bytes = self._left.has_next, self._left.size_in_bytes
        self.raw = self._data[:0]

    def next_batch(self) -> Any:
        batch = self._left.next_batch()
        start = self._end
        self._end = start + LOG_OVERHEAD + int.from_bytes(self._data[start + 8 : start + LOG_OVERHEAD], "big")
        self.raw = self._data[start : self._end]
        return batch


class Unpacking:
    """What one consumer wants unpacked to RawBatches: its `value_deserializer`.

    Parameters
    ----------
    topics : iterable of str
        Whose records come in pieces.
    header_topics : iterable of str
        Those of them whose headers are kept.

    Attributes
    ----------
    positions : dict of TopicPartition to int
        Where the next fetch of a partition shall begin.
    jumps : dict of TopicPartition to (int, int)
        Where it began elsewhere, from and to.
    """

    def __init__(self, topics: Iterable[str], header_topics: Iterable[str] = ()) -> None:
        from app.kafka import record_batches

        record_batches.warm_up()
        self.kernel = record_batches
        self.topics, self.header_topics = frozenset(topics), frozenset(header_topics)
        self.positions: dict[TopicPartition, int] = {}
        self.jumps: dict[TopicPartition, tuple[int, int]] = {}
        install()

    def __call__(self, value: bytes | None) -> bytes | None:
        """The value of a record of another topic, as it is."""
        return value


class BatchRecords(aiokafka_fetcher.PartitionRecords):  # type: ignore[misc]
    """Fetched records of a partition; those of the topics of the consumer's Unpacking come out as RawBatches.

    What comes next may be made ahead, by another thread (`read_ahead`). The client sees of it what it has taken: until
    then a seek, or another assignment, drops what was fetched.
    """

    next_fetch_offset: int
    _records_iterator: Iterator[Any] | None

    def __init__(self, tp: TopicPartition, records: Any, *args: Any) -> None:
        super().__init__(tp, records, *args)
        asked = self._value_deserializer
        self._asked: Any = asked if isinstance(asked, Unpacking) and tp.topic in asked.topics else None
        self._at = self.next_fetch_offset  # behind what was made
        self._ahead: deque[tuple[Any, int]] = (
            deque()
        )  # a piece, what was raised, or None at the end; the offset behind it
        self._begun = False

    def is_large(self) -> bool:
        """Whether it takes so long to unpack that an event loop had better not wait for it."""
        if self._asked is None or not isinstance(self._records, Answer):
            return False
        return bool(self._records.size_in_bytes() > (LARGE_PACKED if self._records.packed else LARGE))

    def read_ahead(self, n: int) -> int:
        """Make the next n pieces; how many there are. One thread at a time."""
        while len(self._ahead) < n and self._records_iterator is not None:
            try:
                made = next(self._records_iterator, None)
            except Exception as error:
                made = error
            if made is None or isinstance(made, Exception):
                self._records_iterator = None  # with this object it is a cycle, as an exception is with its frame
            self._ahead.append((made, self._at))
        return len(self._ahead)

    def __next__(self) -> Any:
        asked, tp = self._asked, self._tp
        if asked is not None and not self._begun:
            expected = asked.positions.get(tp, self.next_fetch_offset)
            if expected != self.next_fetch_offset:
                asked.jumps[tp] = expected, self.next_fetch_offset
        self._begun = True
        if not self._ahead:
            self.read_ahead(1)
        made, self.next_fetch_offset = self._ahead.popleft() if self._ahead else (None, self._at)
        if asked is not None:
            asked.positions[tp] = self.next_fetch_offset
        if made is None:
            raise StopIteration
        if isinstance(made, Exception):
            raise made
        return made

    def _unpack_records(self) -> Iterator[Any]:
        if self._asked is not None:
            yield from self._pieces()
            return
        for batch in self._visible():
            first = self._at
            for record in self._readable(batch):
                if record.offset >= first:
                    self._at = record.offset + 1
                    yield self._consumer_record(self._tp, record)
            self._at = batch.next_offset

    def _batches(self) -> Iterator[tuple[Any, bool]]:
        """Batches, and whether they may hold records: those of aborted transactions, and control batches, do not."""
        records = self._records
        while records.has_next():
            batch = records.next_batch()
            if self._check_crcs and not self._sound(batch):
                raise aiokafka_fetcher.Errors.CorruptRecordException(f"Invalid CRC - {self._tp}")
            yield batch, not (self._aborted(batch) or batch.is_control_batch)

    def _sound(self, batch: Any) -> bool:
        asked = self._value_deserializer
        if isinstance(asked, Unpacking) and isinstance(self._records, Answer):
            return bool(asked.kernel.sound(self._records.raw, batch))
        return bool(batch.validate_crc())

    def _visible(self) -> Iterator[Any]:
        """Batches that may hold records; `next_fetch_offset` is moved over the others."""
        for batch, visible in self._batches():
            if visible:
                yield batch
            else:
                self._at = batch.next_offset

    def _aborted(self, batch: Any) -> bool:
        """Whether a batch is of a transaction that was aborted: as the client finds out where it unpacks records."""
        if self._isolation_level != aiokafka_fetcher.READ_COMMITTED or batch.producer_id is None:
            return False
        self._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and self._contains_abort_marker(batch):
            self._aborted_producers.discard(batch.producer_id)
        return batch.is_transactional and batch.producer_id in self._aborted_producers

    def _readable(self, batch: Any) -> Iterator[Any]:
        """The records of a batch one by one, as `_rows` has them."""
        last = None
        try:
            for last in self._opened(batch):
                yield last
        except UnicodeDecodeError:
            yield _unread(batch, batch.base_offset if last is None else last.offset + 1, NO_NAME)

    @staticmethod
    def _opened(batch: Any) -> Iterator[Any]:
        """The records of a batch."""
        try:
            return chain(iter(batch))  # which does not like to be asked for an iterator once it was begun
        except UnreadableBatchError as error:
            return iter((_unread(batch, batch.base_offset, str(error)),))

    def _pieces(self) -> Iterator[RawBatch]:
        if self._tp.topic in self._asked.header_topics or not isinstance(self._records, Answer):
            yield from self._listed(self._visible())
        else:
            for group in self._groups():
                if sum(self._asked.kernel.count_of(raw) for _, raw in group) < LEAST:
                    yield from self._listed(batch for batch, _ in group)
                else:
                    yield from self._sliced(group)

    def _listed(self, batches: Iterable[Any]) -> Iterator[RawBatch]:
        """The records of batches as the client reads them, in pieces."""
        tp, mean = self._tp, PIECE_BYTES // FEW
        with_headers = tp.topic in self._asked.header_topics
        piece, n_bytes = _nothing(with_headers), 0
        for batch in batches:
            first, left = self._at, _Rows(batch, self._opened(batch), with_headers)
            # A pass at a time, of as many records as make a piece if they are as large as the last ones.
            while rows := left.take(_few(n_bytes, mean)):
                if rows[0][0] < first:
                    rows = [row for row in rows if row[0] >= first]
                if rows:
                    part = RawBatch(*map(list, zip(*rows, strict=True)))
                    size = size_of(part)
                    n_bytes += size
                    for i, column in enumerate(piece):
                        column.extend(part[i])  # type: ignore[arg-type]
                    self._at = part.offsets[-1] + 1
                    mean = size // len(rows)
                if left.ended:
                    self._at = batch.next_offset
                if n_bytes >= PIECE_BYTES or len(piece[0]) >= PIECE_RECORDS:
                    yield RawBatch(*piece)
                    piece, n_bytes = _nothing(with_headers), 0
                if left.ended:
                    break
            self._at = batch.next_offset
        if piece[0]:
            yield RawBatch(*piece)

    def _groups(self) -> Iterator[list[tuple[Any, memoryview]]]:
        """Batches that may hold records, with their bytes: about as many at a time as make a piece."""
        group: list[tuple[Any, memoryview]] = []
        n_bytes = n_records = 0
        try:
            for batch, visible in self._batches():
                if visible:
                    group.append((batch, self._records.raw))
                    n_bytes += len(self._records.raw)
                    n_records += self._asked.kernel.count_of(self._records.raw)
                if group and (not visible or n_bytes >= PIECE_BYTES or n_records >= PIECE_RECORDS):
                    yield group
                    group, n_bytes, n_records = [], 0, 0
                if not visible:
                    self._at = batch.next_offset
        except aiokafka_fetcher.Errors.CorruptRecordException:
            if group:
                yield group  # what comes before it is sound
            raise
        if group:
            yield group

    def _sliced(self, group: Iterable[tuple[Any, memoryview]]) -> Iterator[RawBatch]:
        """The records of batches as slices of what was fetched, in pieces; as the client reads them, where something is
        unusual."""
        ready: list[tuple[Any, Body]] = []
        for batch, raw in group:
            try:
                body = self._asked.kernel.body(raw)
            except UnreadableBatchError:
                body = None
            if ready and (body is None or sum(len(one.data) for _, one in ready) + len(body.data) > SHARED_BYTES):
                yield from self._parsed(ready)
                ready = []
            if body is None:
                yield from self._listed([batch])
            else:
                ready.append((batch, body))
        if ready:
            yield from self._parsed(ready)

    def _parsed(self, ready: list[tuple[Any, "Body"]]) -> Iterator[RawBatch]:
        parser = self._asked.kernel.Parser([body for _, body in ready], self._at, SHARED_BYTES)
        while parser.state != self._asked.kernel.ENDED:
            piece, at = parser.piece(PIECE_RECORDS, PIECE_BYTES, RECORD_BYTES), parser.batch
            if len(piece):
                done = ready[at - 1][0].next_offset if at and parser.begins_batch else 0
                self._at = max(int(piece.offsets[-1]) + 1, done)
                yield piece
            if parser.state == self._asked.kernel.UNUSUAL:
                yield from self._listed([ready[at][0]])
                parser.skip()
        self._at = ready[-1][0].next_offset


def install() -> None:
    """Have the client unpack and decompress so, in all of this process."""
    aiokafka_fetcher.PartitionRecords, aiokafka_fetcher.MemoryRecords = BatchRecords, Answer
    decompression.install()
