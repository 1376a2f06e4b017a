"""Makes records of fetched Kafka batches: those of the source topics a *piece* at a time, all others one by one.

A piece is several small batches or a part of a large one, about `PIECE_BYTES`, so that a reader can stop between two
pieces, however large a batch is, and continue later from the offset that it has reached. Records of transactions that
were aborted are left out where the consumer asks for that. A batch that cannot be decompressed within the bound is one
record, whose value is `Unread`, in place of the last of them; and so is what follows in a batch on what is no record.
No batch moves a reader beyond the offsets that it takes.

Records of pieces are not made into objects: a kernel finds where their keys and values stand
(`app.kafka.wire_format.record_batches`). Where it would be no gain, or something is damaged,
`app.kafka.wire_format.batches` reads them one by one. Only batches of older versions are left to the client.

The client has no hook for unpacking, so its classes are replaced in the whole process. Which records come in pieces is
each consumer's own affair: it says so by an `Unpacking`, which the client hands to these classes as the deserializer of
its values. Consumers that give none are given records.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from riparian.app.kafka.wire_format import batches, decompression
from riparian.app.kafka.wire_format.batches import BatchHeader, Row
from riparian.app.kafka.wire_format.decompression import UnreadableBatchError
from riparian.topics.records import Headers, RawBatch, Unread
from riparian.topics.slices import Slices

if TYPE_CHECKING:
    from riparian.app.kafka.wire_format.record_batches import Body

Rows = tuple[int, Iterator[Row]]  # of a batch: the offset behind it, and its records
Fetched = tuple[Any, memoryview, BatchHeader | None]  # a batch of the client's, its bytes, and what it says

PIECE_BYTES = 1024 * 1024
PIECE_RECORDS = 8192
LARGE = 64 * 1024  # bytes of an answer of one partition that take a fraction of a millisecond
LARGE_PACKED = 1024  # likewise, compressed
CODEC_AT, CODEC_BITS = 22, 7  # the byte of a batch that names its compression
LOG_OVERHEAD = 12  # bytes of a batch before those whose number they say
LEAST = 32  # records that together are sooner read by the kernel
SHARED_BYTES = 2 * PIECE_BYTES  # largest sum of decompressed batches whose records share one buffer, bytes
HEADER_BYTES = 150  # memory of a header besides its name and value, bytes: three objects, and a place in a list
RECORD_BYTES = 200  # memory of a record besides its key and value, bytes: four objects, and places in lists


class FetchedRecord(NamedTuple):
    """A record with the attributes of the client's own."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_type: int = 0
    checksum: None = None


def size_of(raw: RawBatch) -> int:
    """Bytes that records take in memory."""
    headers = 0 if raw.headers is None else sum(map(_header_bytes, raw.headers))
    return sum(_lengths(raw.keys)) + sum(_lengths(raw.values)) + headers + RECORD_BYTES * len(raw)


def _header_bytes(headers: Headers) -> int:
    return sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in headers)


def _lengths(column: Sequence[bytes | None]) -> Iterable[int]:
    return (int(column.lengths.sum()),) if isinstance(column, Slices) else map(len, filter(None, column))


def _older(batch: Any) -> Iterator[Row]:
    """The records of a batch of an older version, as the client reads them."""
    at, last = -1, batch.next_offset - 1
    try:
        for one in batch:
            if not at < one.offset <= last:
                raise ValueError(f"offset {one.offset} behind {at}")
            yield one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value, one.headers
            at = one.offset
    except Exception as error:  # whatever a sound batch holds
        if at < last:
            yield last, -1, None, Unread.batch(last if at < 0 else at + 1, last, str(error) or repr(error)), []


def _unread(header: BatchHeader, error: UnreadableBatchError) -> Rows:
    return header.last + 1, iter((header.unread(header.base, str(error)),))


class FetchedBatches:
    """The batches of a fetch, as the client's `MemoryRecords` has them, and the bytes of the last that was taken."""

    def __init__(self, data: bytes) -> None:
        self._left, self.data, self._data, self._end = MemoryRecords(data), data, memoryview(data), 0
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
        from riparian.app.kafka.wire_format import record_batches

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
        if self._asked is None:
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
            data = self._records.data
            found = batches.plain(data, self._check_crcs) if len(data) <= LARGE else None
            if found is None:
                yield from self._pieces()
            elif sum(header.n_records for header, _ in found) < LEAST:  # as most fetches of many partitions
                yield from self._listed((header.last + 1, batches.rows(header, body)) for header, body in found)
            else:
                yield from self._parsed([self._asked.kernel.Body(*one) for one in found])
            return
        for batch, raw, visible in self._batches():
            end, rows = self._rows(batch, raw, batches.head(raw)) if visible else (batch.next_offset, iter(()))
            first = self._at
            for row in rows:
                if row[0] >= first:
                    self._at = row[0] + 1
                    yield self._consumer_record(self._tp, FetchedRecord(*row))
            self._pass(end)

    def _pass(self, end: int) -> None:
        """A batch is read whose offsets end before `end`; it may lie before where the fetch was to begin."""
        self._at = max(self._at, end)

    def _batches(self) -> Iterator[tuple[Any, memoryview, bool]]:
        """Batches, their bytes, and whether they may hold records: those of aborted transactions, and control batches,
        do not."""
        records = self._records
        while records.has_next():
            batch = records.next_batch()
            if self._check_crcs and not batches.sound(records.raw, batch):
                raise aiokafka_fetcher.Errors.CorruptRecordException(f"Invalid CRC - {self._tp}")
            yield batch, records.raw, not (self._aborted(batch) or batch.is_control_batch)

    def _aborted(self, batch: Any) -> bool:
        """Whether a batch is of a transaction that was aborted: as the client finds out where it unpacks records."""
        if self._isolation_level != aiokafka_fetcher.READ_COMMITTED or batch.producer_id is None:
            return False
        self._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and self._contains_abort_marker(batch):
            self._aborted_producers.discard(batch.producer_id)
        return batch.is_transactional and batch.producer_id in self._aborted_producers

    @staticmethod
    def _rows(batch: Any, raw: memoryview, header: BatchHeader | None) -> Rows:
        """The records of a batch one by one."""
        if header is None:
            return batch.next_offset, _older(batch)
        try:
            return header.last + 1, batches.rows(header, batches.body(raw))
        except UnreadableBatchError as error:
            return _unread(header, error)

    def _pieces(self) -> Iterator[RawBatch]:
        for group in self._groups():
            if sum(header.n_records for _, _, header in group if header is not None) < LEAST:
                yield from self._listed(self._rows(*one) for one in group)
            else:
                yield from self._sliced(group)

    def _listed(self, of_batches: Iterable[Rows]) -> Iterator[RawBatch]:
        """The records of batches one by one, in pieces."""
        n_columns = 5 if self._tp.topic in self._asked.header_topics else 4
        piece, n_bytes = list[Row](), 0
        for end, rows in of_batches:
            first = self._at
            for row in rows:
                if row[0] < first:
                    continue
                piece.append(row)
                at, _, key, value, headers = row
                n_bytes += (
                    RECORD_BYTES + len(key or b"") + len(value or b"") + (_header_bytes(headers) if headers else 0)
                )
                self._at = at + 1
                if n_bytes >= PIECE_BYTES or len(piece) >= PIECE_RECORDS:
                    yield RawBatch(*map(list, islice(zip(*piece, strict=True), n_columns)))
                    piece, n_bytes = [], 0
            self._pass(end)
        if piece:
            yield RawBatch(*map(list, islice(zip(*piece, strict=True), n_columns)))

    def _groups(self) -> Iterator[list[Fetched]]:
        """Batches that may hold records: about as many at a time as make a piece."""
        group: list[Fetched] = []
        n_bytes = n_records = 0
        try:
            for batch, raw, visible in self._batches():
                if visible:
                    header = batches.head(raw)
                    group.append((batch, raw, header))
                    n_bytes += len(raw)
                    n_records += 0 if header is None else header.n_records
                if group and (not visible or n_bytes >= PIECE_BYTES or n_records >= PIECE_RECORDS):
                    yield group
                    group, n_bytes, n_records = [], 0, 0
                if not visible:
                    self._pass(batch.next_offset)
        except aiokafka_fetcher.Errors.CorruptRecordException:
            if group:
                yield group  # what comes before it is sound
            raise
        if group:
            yield group

    def _sliced(self, group: Iterable[Fetched]) -> Iterator[RawBatch]:
        """The records of batches as slices of what was fetched, in pieces; one by one, where something is unusual."""
        ready: list[Body] = []
        for batch, raw, header in group:
            body = None
            if header is None or header.n_records <= 0:
                rows = self._rows(batch, raw, header)
            else:
                try:
                    body = self._asked.kernel.Body(header, batches.body(raw))
                except UnreadableBatchError as error:
                    rows = _unread(header, error)
            if ready and (body is None or sum(len(one.data) for one in ready) + len(body.data) > SHARED_BYTES):
                yield from self._parsed(ready)
                ready = []
            if body is None:
                yield from self._listed([rows])
            else:
                ready.append(body)
        if ready:
            yield from self._parsed(ready)

    def _parsed(self, ready: list["Body"]) -> Iterator[RawBatch]:
        header_bytes = HEADER_BYTES if self._tp.topic in self._asked.header_topics else None
        parser = self._asked.kernel.Parser(ready, self._at, SHARED_BYTES, header_bytes)
        while parser.state != self._asked.kernel.ENDED:
            piece, at = parser.piece(PIECE_RECORDS, PIECE_BYTES, RECORD_BYTES), parser.batch
            if len(piece):
                done = ready[at - 1].header.last + 1 if at and parser.begins_batch else 0
                self._at = max(int(piece.offsets[-1]) + 1, done)
                yield piece
            if parser.state == self._asked.kernel.DAMAGED:
                header, data = ready[at]
                yield from self._listed([(header.last + 1, batches.rows(header, data))])
                parser.skip()
        self._pass(ready[-1].header.last + 1)


def install() -> None:
    """Have the client unpack and decompress so, in all of this process."""
    aiokafka_fetcher.PartitionRecords, aiokafka_fetcher.MemoryRecords = BatchRecords, FetchedBatches
    decompression.install()
