"""What all partitions of a stream have joined, on its way to one of them (`learning: shared`).

Faust gives out partitions, and this log has one that every runner reads. So each runner has a consumer of its own.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from app.errors import StateError
from app.kafka import unpacking
from app.kafka.connection import Connection
from app.kafka.reading import EVERYTHING, read_to_end
from app.partition.inputs import Mark, check_log, mark
from app.partition.merge import Buffer
from topics.learned import read
from topics.names import LEARNED
from topics.records import RawBatch

if TYPE_CHECKING:
    from app.kafka.connection import Consumer
    from app.state.loading import Loaded
    from app.stream_file.spec import Spec

log = logging.getLogger(__name__)

MOST_WAITING = 1000  # records in memory that the partition has not learned, beyond which no more are fetched
PAUSE_SECONDS = 0.01
RETRY_SECONDS = 0.5


class Reached:
    """How far a partition's owners before have come, by the last record that one of them appended.

    n : instances that they have appended. places : role of an input log -> its next place then
    """

    def __init__(self) -> None:
        self.n = 0
        self.places: dict[str, int] = {}


async def read_reached(spec: "Spec", connection: Connection, loaded: Sequence["Loaded"]) -> dict[int, Reached]:
    """For each loaded partition, what was appended since its manifest. KafkaError where the broker does not answer;
    StateError where the log is not the one that a state has learned, or does not reach back to it."""
    found = {one.learner.partition: Reached() for one in loaded}
    if spec.topics.learned is None or not loaded:
        return found
    tp = TopicPartition(spec.topics.learned, 0)
    marks = {one.learner.partition: one.learner.marks().get(LEARNED) for one in loaded}
    offsets = {known.offset for known in marks.values() if known is not None}
    there: dict[int, Mark] = {}  # by offset

    def take(_: TopicPartition, records: list[Any]) -> None:
        for record in records:
            if record.offset in offsets:
                there[record.offset] = mark(record.offset, record.timestamp, record.key, record.value)
            if record.offset < start:
                continue
            try:
                one = read(record.value)
            except ValueError:  # the fold says what is wrong
                continue
            if one.partition in found:
                reached = found[one.partition]
                reached.n, reached.places = max(reached.n, one.first + one.n), one.places

    start = min(one.learner.places[LEARNED] for one in loaded)
    bounds = (await read_to_end(connection, {tp: min([start, *offsets])}, take, isolation=EVERYTHING))[tp]
    for state in loaded:
        learner = state.learner
        known = marks[learner.partition]
        last = known, None if known is None else there.get(known.offset)
        check_log(tp.topic, learner.partition, learner.places[LEARNED], last, *bounds)
    return found


class LearnedFeed:
    """Fetches the log into a runner's buffer.

    Parameters
    ----------
    connection : Connection
    topic : str
    buffer : Buffer
    wake : callable
        Called when records have come.
    failed : callable
        Told why it cannot go on.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        buffer: Buffer,
        wake: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._connection, self._tp = connection, TopicPartition(topic, 0)
        self._buffer, self._wake, self._failed = buffer, wake, failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"learned-{self._tp.topic}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch()
            except OffsetOutOfRangeError:
                self._failed(
                    StateError(
                        f"{self._tp.topic} does not hold offset {self._buffer.fetch_offset:,} any more, which the "
                        "state has not learned yet: give it a longer retention than checkpoints are kept for, and "
                        "give the stream a new name to start afresh"
                    )
                )
                return
            except (KafkaError, OSError) as error:
                log.warning("%s cannot be read (%r): trying again", self._tp.topic, error)
            except Exception as error:
                self._failed(error)
                return
            await asyncio.sleep(RETRY_SECONDS)

    async def _fetch(self) -> None:
        unpacking.install()
        consumer: Consumer = self._connection.consumer(
            auto_offset_reset="none", isolation_level=EVERYTHING, fetch_max_wait_ms=500
        )
        await consumer.start()
        try:
            consumer.assign([self._tp])
            consumer.seek(self._tp, self._buffer.fetch_offset)
            while True:
                while len(self._buffer) > MOST_WAITING:
                    await asyncio.sleep(PAUSE_SECONDS)
                found = await consumer.getmany(self._tp, timeout_ms=1000, max_records=MOST_WAITING)
                for records in found.values():
                    self._buffer.add(RawBatch.of(records))
                    self._wake()
        finally:
            await consumer.stop()
