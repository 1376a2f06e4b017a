"""Reads the metrics, drift and dead-letter topics of the streams, from where the page stopped the last time.

At the first time the last hour is read first, so that there is something to look at, and the week before it after that.
One consumer follows all topics; it belongs to no group and commits nothing.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from riparian.app.kafka.admin import stream_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, Counts, close, counts, read_to_end
from riparian.app.page.store import Store
from riparian.app.page.view import DAY_MS, HOUR_MS, DeadLetterRow, Event, StreamView, now_ms
from riparian.app.retries import marked
from riparian.topics.names import DEADLETTERS, DRIFT, EVENTS, FEATURES, LABELS, METRICS, PREDICTIONS

log = logging.getLogger(__name__)

DAYS = 7  # days of history that are read
POLL_MS = 500
STORE_SECONDS = 30.0
AGAIN_SECONDS = 3.0  # pause after the broker was away, s
ASK_SECONDS = 5.0  # time between two questions whether the broker is there, s
REQUEST_MS = 4000
MOST_NOTES = 20_000  # events, letters and marks that wait for the store
MARKS, LAST = "marks", "last"  # notes: which letters were retried; the last records of a partition


class Watch:
    """Keeps the views of all streams up to date.

    Attributes
    ----------
    away_since : ms since when Kafka does not answer; None while it does.
    progress : share of the history that has been read; None once it is there.
    version : grows whenever something came.
    """

    def __init__(self, views: Sequence[StreamView], connection: Connection, store: Store) -> None:
        self.views = list(views)
        self.away_since: int | None = None
        self.progress: float | None = 0.0
        self.version = 0
        self.connection, self._store = connection, store
        self._topics = {topic for view in views for topic in stream_topics(view.spec).values()}
        self._of = {
            topic: (view, role) for view in views for role, topic in view.spec.outputs.items() if role != PREDICTIONS
        }
        self._positions = {TopicPartition(*tp): offset for tp, offset in store.positions().items() if tp[0] in self._of}
        self._notes: list[tuple[str, str, int, int, bytes]] = []
        self._left: dict[TopicPartition, tuple[int, int]] = {}  # of the history that was not read yet: from, to
        self._n_known = 0  # partitions

    def restore(self, view: StreamView) -> None:
        """What was stored of a stream."""
        name = view.spec.name
        for _, _, data in self._store.notes(name, LAST):  # before the series, which have them already
            for value in msgspec.msgpack.decode(data, type=list[bytes]):
                view.take_report(value)
        view.restore(self._store.blocks(name))
        for kind in (DRIFT, EVENTS):
            for _, _, data in self._store.notes(name, kind):
                view._note(msgspec.msgpack.decode(data, type=Event))
        for _, _, data in self._store.notes(name, DEADLETTERS):
            view.keep_letter(msgspec.msgpack.decode(data, type=DeadLetterRow))
        for home, _, data in self._store.notes(name, MARKS):
            view.take_marks(home, msgspec.msgpack.decode(data, type=list[tuple[int, int]]))

    async def run(self) -> None:
        """Until it is cancelled. While the broker is away it is tried again."""
        for i, view in enumerate(self.views):  # the server answers meanwhile
            await asyncio.to_thread(self.restore, view)
            self.progress = 0.99 * (i + 1) / len(self.views)
        while True:
            try:
                await self._follow()
            except (KafkaError, OSError) as error:
                if self.away_since is None:
                    self.away_since = now_ms()
                    log.warning("Kafka does not answer (%s); trying again", error)
                self.version += 1
                await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self) -> None:
        consumer = self.connection.consumer(
            auto_offset_reset="earliest",
            fetch_max_wait_ms=POLL_MS,
            request_timeout_ms=REQUEST_MS,
            isolation_level=EVERYTHING,
        )
        try:
            await consumer.start()
            history = await self._assign(consumer)
            self.away_since = None
            task = asyncio.create_task(self._read_history(history))
            try:
                await self._poll(consumer)
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, KafkaError):
                    await task
        finally:
            await close(consumer)

    def _partitions(self, present: Counts) -> list[TopicPartition]:
        for view in self.views:
            n = present.get(view.spec.topics.predictions) or 0
            if n > view.spec.partitions:  # it has grown
                view.grow(n)
        return [
            TopicPartition(topic, p)
            for topic, (view, _) in self._of.items()
            if present.get(topic)
            for p in range(view.spec.partitions)
        ]

    async def _assign(self, consumer: Any) -> dict[TopicPartition, tuple[int, int]]:
        """Follow every partition from where it is known, or from an hour ago. What is older: partition -> offsets."""
        tps = self._partitions(await counts(consumer, self._topics))
        self._n_known = len(tps)
        consumer.assign(tps)
        if not tps:
            return {}
        firsts, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        unknown = [tp for tp in tps if not firsts[tp] <= self._positions.get(tp, -1) <= ends[tp]]
        now = now_ms()
        recent = await consumer.offsets_for_times(dict.fromkeys(unknown, now - HOUR_MS)) if unknown else {}
        oldest = await consumer.offsets_for_times(dict.fromkeys(unknown, now - DAYS * DAY_MS)) if unknown else {}
        for tp in tps:
            if tp in unknown:
                at = recent[tp].offset if recent.get(tp) else ends[tp]
                since = oldest[tp].offset if oldest.get(tp) else at
                if since < at:
                    self._left[tp] = since, at
                self._positions[tp] = at
            consumer.seek(tp, self._positions[tp])
        return dict(self._left)

    async def _read_history(self, history: dict[TopicPartition, tuple[int, int]]) -> None:
        """The days before the last hour, the latest first: it is the one that is looked at."""
        total = sum(stop - start for start, stop in history.values())
        done = 0

        def take(tp: TopicPartition, records: list[Any]) -> None:
            nonlocal done
            for record in records:
                self._take(record)
            done += len(records)
            self.progress = min(0.99, done / max(1, total))

        self.progress = 0.0 if history else None
        until = {tp: stop for tp, (_, stop) in history.items()}
        for starts in await self._days(history):
            await read_to_end(self.connection, starts, take, until, isolation=EVERYTHING)
            until |= starts
            for tp, start in starts.items():  # where the broker goes away now, it goes on from here
                self._left[tp] = history[tp][0], start
            self.version += 1
        self._left.clear()
        self.progress = None
        self.version += 1

    async def _days(self, history: dict[TopicPartition, tuple[int, int]]) -> list[dict[TopicPartition, int]]:
        """Where each day begins, the last day first; of the partitions that have something older."""
        if not history:
            return []
        consumer = self.connection.consumer(request_timeout_ms=REQUEST_MS)
        try:
            await consumer.start()
            now, found = now_ms(), []
            before = {tp: stop for tp, (_, stop) in history.items()}
            for day in range(1, DAYS + 1):
                at = await consumer.offsets_for_times(dict.fromkeys(history, now - day * DAY_MS))
                starts = {}
                for tp, (first, _) in history.items():
                    start = max(first, at[tp].offset) if day < DAYS and at.get(tp) else first
                    if start < before[tp]:
                        starts[tp] = before[tp] = start
                if starts:
                    found.append(starts)
            return found
        finally:
            await close(consumer)

    async def _poll(self, consumer: Any) -> None:
        stored = asked = time.monotonic()
        while True:
            found = await consumer.getmany(timeout_ms=POLL_MS)
            for tp, records in found.items():
                for record in records:
                    self._take(record)
                self._positions[tp] = records[-1].offset + 1
                self.version += 1
            now = time.monotonic()
            if now - asked > ASK_SECONDS:  # the client is silent about a broker that is not there
                asked = now
                async with asyncio.timeout(REQUEST_MS / 1000.0):
                    tps = self._partitions(known := await counts(consumer, self._topics))
                    if self.progress is None:  # before, nobody knows what has been taken
                        await self._ask_ends(consumer, known)
                if len(tps) != self._n_known:
                    return  # topics were made since: begin anew
            if now - stored > STORE_SECONDS and self.progress is None:
                stored = now
                await asyncio.to_thread(self.save)

    async def _ask_ends(self, consumer: Any, known: Counts) -> None:
        """Where the input topics begin and end."""
        found = {
            TopicPartition(topic, p): (view, role)
            for view in self.views
            for role, topic in view.spec.input_topics.items()
            if role in (FEATURES, LABELS)
            for p in range(min(view.spec.partitions, known.get(topic) or 0))
        }
        if not found:
            return
        firsts, ends = await consumer.beginning_offsets(list(found)), await consumer.end_offsets(list(found))
        for view in self.views:
            of = {(role, tp.partition): (firsts[tp], ends[tp]) for tp, (each, role) in found.items() if each is view}
            view.take_ends(of, now_ms())
        self.version += 1

    def _take(self, record: Any) -> None:
        view, kind = self._of[record.topic]
        name = view.spec.name
        if kind == METRICS:
            view.take_report(record.value)
        elif kind in (DRIFT, EVENTS):
            take = view.take_drift if kind == DRIFT else view.take_command
            self._keep(name, kind, record, take(record.value, record.timestamp))
        elif ranges := marked(record):
            view.take_marks(record.partition, ranges)
            self._keep(name, MARKS, record, ranges)
        else:
            self._keep(name, DEADLETTERS, record, view.take_letter(record))

    def _keep(self, stream: str, kind: str, record: Any, note: Any) -> None:
        """A note for the store, unless it is None. Of too many, the last of each kind and partition."""
        if note is None:
            return
        self._notes.append((stream, kind, record.partition, record.offset, msgspec.msgpack.encode(note)))
        if len(self._notes) > MOST_NOTES:
            self._notes.sort()
            left = {key: list(notes) for key, notes in groupby(self._notes, lambda one: one[:3])}
            most = max(1, MOST_NOTES // 2 // len(left))
            self._notes = [note for notes in left.values() for note in notes[-most:]]

    def save(self) -> None:
        """Write what changed to the store; nothing before the history is there, which would be missing then."""
        if self.progress is not None:
            return
        notes, self._notes = self._notes, []
        for view in self.views:
            for partition, values in view.last_records().items():
                notes.append((view.spec.name, LAST, partition, 0, msgspec.msgpack.encode(values)))
        gone = {view.spec.name: view.forgotten for view in self.views}
        for view in self.views:
            view.forgotten = set()
        blocks = [block for view in self.views for block in view.dirty()]
        positions = {(tp.topic, tp.partition): offset for tp, offset in self._positions.items()}
        self._store.write(positions, blocks, notes, now_ms(), gone)
