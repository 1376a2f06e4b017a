"""What all partitions of a stream have joined, and commands to their models, on the way to the log that all of them
learn (`learning: shared`), and back.

Faust gives out partitions, and this log has one that every replica reads. So each replica has a consumer of its own, as
has the task of the first partition for the control topic.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.structs import TopicPartition

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, read_to_end, started
from riparian.app.kafka.sending import Outputs
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Joint, Outcome
from riparian.app.partition.records.inputs import Mark, check_log, mark
from riparian.app.partition.records.partition_group import Ints
from riparian.app.partition.shared.replica import Replica
from riparian.app.partition.shared.sharing import order_of, records, together
from riparian.app.worker.context import WorkerContext
from riparian.app.worker.shared.model_lag import ModelLag
from riparian.app.worker.task.turns import FEW, Turns
from riparian.topics.commands import MAX_COMMAND_BYTES
from riparian.topics.names import CONTROL, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedCommand, LearnedRecord, command_at, read, write

if TYPE_CHECKING:
    from riparian.app.kafka.connection import Consumer
    from riparian.app.state.loading import Loaded
    from riparian.app.stream_file.spec import Spec

log = logging.getLogger(__name__)

MOST_WAITING = 1000  # records in memory that the partition has not learned, beyond which no more are fetched
PAUSE_SECONDS = 0.02  # between two fetches, where there is no backlog, and nobody waits for what comes
KNOWN = 10  # pauses, where nobody else appends, and all that came was known before the broker gave it back
RETRY_SECONDS = 0.5
# That what was joined may wait for more to be appended with it: each record costs all partitions. So those of a worker
# together append about as many records a second, however many they are.
SHARE_SECONDS, PARTITION_SECONDS, MOST_SECONDS = 0.05, 1 / 160, 0.5
RIDE_SECONDS = 0.1  # that it waits beyond that for a turn which has something else to do
MOST_OUTSTANDING = 8  # records of a partition on their way before a step waits


class Reached:
    """How far a partition's owners before have come, by the last record that one of them appended.

    n : instances that they have appended. places : role of an input log -> its next place then. order : places of
    predictions that the records name
    """

    def __init__(self) -> None:
        self.n = 0
        self.places: dict[str, int] = {}
        self.order: list[list[int]] = []


async def read_reached(spec: "Spec", connection: Connection, loaded: Sequence["Loaded"]) -> dict[int, Reached]:
    """For each loaded partition, what was appended since its manifest. KafkaError where the broker does not answer;
    StateError where the log is not the one that a state has learned, or does not reach back to it."""
    found = {one.learner.partition: Reached() for one in loaded}
    for topic in spec.of_all if loaded else ():
        await _read_reached(connection, TopicPartition(topic, 0), loaded, found)
    return found


async def _read_reached(
    connection: Connection, tp: TopicPartition, loaded: Sequence["Loaded"], found: dict[int, Reached]
) -> None:
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
            if isinstance(one, LearnedRecord) and one.partition in found:
                reached = found[one.partition]
                if one.first <= max(reached.n, learned[one.partition]):  # others are nobody's
                    reached.n, reached.places = max(reached.n, one.first + one.n), one.places
                    reached.order += one.predicted()

    learned = {one.learner.partition: one.learner.learning.learned for one in loaded}
    start = min(one.learner.places[LEARNED] for one in loaded)
    bounds = (await read_to_end(connection, {tp: min([start, *offsets])}, take, isolation=EVERYTHING))[tp]
    for state in loaded:
        learner = state.learner
        known = marks[learner.partition]
        last = known, None if known is None else there.get(known.offset)
        check_log(tp.topic, learner.partition, learner.places[LEARNED], last, *bounds)


class Commands:
    """Commands of the control topic that are not appended yet to the log. Only the first partition fetches them.

    Parameters
    ----------
    next_command : int
        The offset of the first that the partition has not obeyed.
    """

    is_own = False  # whether nobody else appends to the topic

    def __init__(self, next_command: int) -> None:
        self.fetch_offset = next_command
        self._waiting: list[LearnedCommand] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, raw: RawBatch) -> None:
        for offset, value in zip(raw.offsets, raw.values, strict=True):
            # One byte more than a command may have says as much as all of them.
            cut = None if value is None else bytes(value[: MAX_COMMAND_BYTES + 1])
            self._waiting.append(command_at(int(offset), cut))
            self.fetch_offset = int(offset) + 1

    def begin(self, first: int, topic: str) -> None:
        """The topic holds nothing before this offset: commands that nobody took are lost."""
        if first > self.fetch_offset:
            log.warning("%s begins at offset %d: commands from %d on were deleted", topic, first, self.fetch_offset)
            self.fetch_offset = first

    def taken(self) -> list[LearnedCommand]:
        """All that wait, which do not any more."""
        found, self._waiting = self._waiting, []
        return found


class Feed:
    """Fetches the first partition of a topic.

    Parameters
    ----------
    connection : Connection
    topic : str
    buffer : Replica or Commands
        Where fetched records wait.
    wake : callable
        Called when records have come.
    failed : callable
        Told why it cannot go on.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        buffer: Replica | Commands,
        wake: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._connection, self._tp = connection, TopicPartition(topic, 0)
        self._consumer: Consumer | None = None
        self._buffer, self._wake, self._failed = buffer, wake, failed
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"feed-{self._tp.topic}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def hurry(self) -> None:
        """Somebody waits for what comes next."""
        self._hurry.set()

    async def has_read(self, end: int) -> bool:
        """Whether all that stands below an offset has been added."""
        return self._consumer is not None and await self._consumer.position(self._tp) >= end

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch()
            except OffsetOutOfRangeError:
                self._failed(StateError(self._gone()))
                return
            except (KafkaError, OSError) as error:
                log.warning("%s cannot be read (%r): trying again", self._tp.topic, error)
            except Exception as error:
                self._failed(error)
                return
            self._consumer = None
            await asyncio.sleep(RETRY_SECONDS)

    def _gone(self) -> str:
        """The sentence where the topic does not hold what comes next."""
        return (
            f"{self._tp.topic} lacks offset {self._buffer.fetch_offset:,}, which the state has not learned yet: its "
            "records were deleted, or it was made anew; restore it, or give the stream a new name to start afresh, and "
            "the topic a longer retention than checkpoints are kept for"
        )

    async def _begin(self, consumer: "Consumer") -> None:
        """Before the first record is asked for."""

    async def _fetch(self) -> None:
        asked = self._connection.consumer(auto_offset_reset="none", isolation_level=EVERYTHING, fetch_max_wait_ms=500)
        async with started(asked) as consumer:
            consumer.assign([self._tp])
            await self._begin(consumer)
            consumer.seek(self._tp, self._buffer.fetch_offset)
            self._consumer = consumer
            while True:
                while len(self._buffer) > MOST_WAITING:
                    await asyncio.sleep(PAUSE_SECONDS)
                found = await consumer.getmany(self._tp, timeout_ms=1000, max_records=MOST_WAITING)
                for records in found.values():
                    known = self._buffer.fetch_offset
                    self._buffer.add(RawBatch.of(records))
                    own = self._buffer.is_own and self._buffer.fetch_offset == known
                    self._wake()
                    if len(records) < MOST_WAITING:  # each fetch costs, and what comes meanwhile comes together
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(PAUSE_SECONDS * (KNOWN if own else 1)):
                                await self._hurry.wait()
                    self._hurry.clear()


class CommandFeed(Feed):
    """Fetches commands: those that were deleted unread are passed over."""

    _buffer: Commands

    def _gone(self) -> str:
        return (
            f"{self._tp.topic} ends before offset {self._buffer.fetch_offset:,}, and commands up to there were obeyed: "
            "it was made anew; restore it, or give the stream a new name to start afresh"
        )

    async def _begin(self, consumer: "Consumer") -> None:
        self._buffer.begin((await consumer.beginning_offsets([self._tp]))[self._tp], self._tp.topic)


class SharedLog:
    """What a task appends to the log; nothing, where models are of one partition.

    Parameters
    ----------
    host : WorkerContext
    learner : PartitionLearner
    outputs : Outputs
    appended : int
        Instances that owners before have appended.
    turns : Turns
        Of the partition.
    acknowledged : callable
        Given the offset, stamp and value of a record that the broker has taken.

    Attributes
    ----------
    behind : ModelLag
    """

    def __init__(
        self,
        host: WorkerContext,
        learner: PartitionLearner,
        outputs: Outputs,
        appended: int,
        turns: Turns,
        acknowledged: Callable[[int, int, bytes], None],
    ) -> None:
        topics, learning = host.spec.topics, learner.learning
        self._host, self._learner, self._outputs, self._appended = host, learner, outputs, appended
        self.behind, self._acknowledged = ModelLag(learning), acknowledged
        self._topic = str(topics.learned)
        self._appender = outputs  # what has appended last
        self._outstanding = deque[asyncio.Future[Any]]()
        self._joined: list[Joint] = []  # and not appended yet
        self._sending = deque[tuple[asyncio.Future[Any], Ints]]()  # predictions on their way, and their places
        self._due = inf
        self._commands = Commands(learning.lineup.next_command)
        self._feed: CommandFeed | None = None
        carries = CONTROL not in learner.rules and learner.partition in host.spec.commanded
        if topics.control is not None and carries:  # else they come in an input log
            self._feed = CommandFeed(host.connection, topics.control, self._commands, turns.wake, turns.cannot)

    def start(self) -> None:
        if self._feed is not None:
            self._feed.start()

    async def stop(self) -> None:
        if self._feed is not None:
            await self._feed.stop()

    @property
    def due(self) -> float:
        """When to append what waits, with a turn that is taken then (monotonic); never, where nothing does."""
        return 0.0 if self._commands else self._due

    @property
    def latest(self) -> float:
        """When to take a turn for that alone: what a turn before has sent is with the broker by then, mostly."""
        return 0.0 if self._commands else self._due + RIDE_SECONDS

    @property
    def appends(self) -> bool:
        """Whether something waits to be appended."""
        return self.due < inf

    @property
    def has_commands(self) -> bool:
        """Whether commands are to be appended."""
        return bool(self._commands)

    def hasten(self) -> bool:
        """Append with the next turn what waits; whether something does."""
        if self._joined:
            self._due = 0.0
        return bool(self._joined)

    async def keep(self, joined: Sequence[Joint], limit: int) -> None:
        """What was joined is appended with what comes next, where nobody waits for it, or now where it is much: half
        the limit."""
        self.behind.has_joined()
        if self._host.held:
            self._due = 0.0
        elif not self._joined:
            self._due = time.monotonic() + min(
                max(SHARE_SECONDS, len(self._host.states) * PARTITION_SECONDS), MOST_SECONDS
            )
        self._joined += joined
        if 2 * sum(len(one.y) for one in self._joined) >= limit:
            await self.append()

    async def append(self) -> None:
        """Append what was joined. The predictions that it comes from, and the places in it, are the order in which a
        successor joins the same: it names those that the broker has not acknowledged. Commands, which nothing has to be
        known of.

        Records come in order by one producer only: by that of all partitions, while there is one (`JointTurns`).
        Raises what the broker refuses, ever again: what is behind that must not be appended.
        """
        values = [write(command) for command in self._commands.taken()]
        if self._joined:
            joined, self._joined, self._due = self._joined, [], inf
            order, brief = await self._order(), sum(len(one.y) for one in joined) <= FEW
            values += (
                self._records(joined, order) if brief else await self._host.in_thread(self._records, joined, order)
            )
        while self._outstanding and (self._outstanding[0].done() or len(self._outstanding) > MOST_OUTSTANDING):
            await self._outputs.acknowledged(self._topic, self._outstanding[0])
            self._outstanding.popleft()  # nobody else takes one
        if not values:
            return
        while (appender := self._host.appender or self._outputs) is not self._appender:
            await self.flush()
            self._appender = appender  # which may have ended meanwhile
        time_ms = int(1000 * time.time())
        for value in values:
            future = await self._appender.append(self._topic, value, time_ms)
            future.add_done_callback(partial(self._has_appended, value, time_ms))
            self._outstanding.append(future)

    async def flush(self) -> None:
        """Wait until the broker has all that was appended so far. Checkpoints ask beside the turns."""
        for future in tuple(self._outstanding):
            await self._outputs.acknowledged(self._topic, future)

    def _has_appended(self, value: bytes, time_ms: int, future: "asyncio.Future[Any]") -> None:
        if future.cancelled() or future.exception() is not None:  # whoever waits for it says so
            if self._host.appender is self._appender:
                self._host.appender = None  # others need not meet it
            return
        done = future.result()
        # A broker that took it for a repetition of an earlier batch does not say where that stands.
        if done.log_start_offset is not None and done.log_start_offset >= 0:
            self._acknowledged(done.offset, done.timestamp if done.timestamp_type else time_ms, value)

    async def sends(self, outcome: Outcome, futures: Sequence["asyncio.Future[Any]"]) -> None:
        """Predictions are on their way. futures : of their acknowledgements, in order."""
        await self._forget()
        if futures:
            self._sending.append((futures[-1], order_of(self._learner.rules, outcome.offsets, outcome.next_offsets)))

    async def _forget(self) -> None:
        """What the broker has; raises what it refuses."""
        while self._sending and self._sending[0][0].done():
            future, _ = self._sending.popleft()
            await self._outputs.acknowledged(self._host.spec.topics.predictions, future)

    async def _order(self) -> list[int] | None:
        """Of the predictions that the broker has not acknowledged (`LearnedRecord`)."""
        await self._forget()
        if not self._sending:
            return None
        places: Ints = np.concatenate([places for _, places in self._sending])
        steps = places.copy()  # a few rows: `np.diff` costs more than all else here
        steps[1:] -= places[:-1]
        return steps.ravel().tolist()  # type: ignore[no-any-return]

    def _records(self, joined: list[Joint], order: list[int] | None) -> list[bytes]:
        """The records of what was joined and not appended by an owner before."""
        learner = self._learner
        roles = [role for role, _, _ in self._host.spec.inputs]
        places = {role: learner.places[role] for role in roles}
        time_ms = max(learner.clocks[role].time for role in roles)
        made = list[LearnedRecord]()
        for one in together(joined):
            named = None if made else order
            made += records(one, learner.partition, places, time_ms, self._appended, named)
        return list(map(write, made))
