"""Reads the predictions and labels of the page's streams: the last ones at the start, then what comes.

It is apart from `Watch`, since these topics may be large: where they come faster than they are read here, it goes on at
their ends. One consumer, of no group, that commits nothing; records are decoded off the event loop.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from riparian.app.errors import RiparianError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import COMMITTED, close
from riparian.app.page.outcomes import MOST, Outcomes, meaning
from riparian.app.page.view import StreamView
from riparian.app.partition.records.decoder import PartitionDecoder
from riparian.app.state.audit.finding import know_predictions, unpacked
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import FEATURES, LABELS, PREDICTIONS
from riparian.topics.places import offset_of
from riparian.topics.records import RawBatch

log = logging.getLogger(__name__)

POLL_MS = 500
PIECE = 2_000  # records that are decoded together
AGAIN_SECONDS = 3.0  # pause after the broker was away, s
LOOK_SECONDS = 5.0  # time between two looks at which partitions there are, s
REQUEST_MS = 4000
LOGS = (FEATURES, LABELS)  # as the places of a prediction name them


def labels_in(spec: Spec) -> tuple[str, str]:
    """The input log in which labels come, and its topic: "" where no record has one."""
    if spec.topics.labels is not None:
        return LABELS, spec.topics.labels
    return FEATURES, spec.topics.features if spec.record.y is not None else ""


def n_read(spec: Spec, role: str) -> int:
    """Partitions that are read: of labels that come to every partition the first alone, which has them all."""
    return 1 if role == LABELS and spec.labels_everywhere else spec.partitions


class Tail:
    """Keeps the outcomes of all streams up to date.

    Attributes
    ----------
    outcomes : name of a stream -> its `Outcomes`.
    read : whether the last predictions are there; before, they are being read.
    """

    def __init__(self, views: Sequence[StreamView], connection: Connection) -> None:
        self.read = False
        self._views, self._connection = list(views), connection
        self.outcomes = {view.spec.name: self._outcomes(view) for view in views}
        self._of: dict[TopicPartition, tuple[StreamView, str]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._decoders: dict[tuple[str, int], PartitionDecoder] = {}

    def _outcomes(self, view: StreamView) -> Outcomes:
        return Outcomes(view.spec, MOST // len(self._views))

    def _is_changed(self, view: StreamView) -> bool:
        """Whether the stream file means other alerts than those that are kept."""
        return meaning(view.spec) != meaning(self.outcomes[view.spec.name].spec)

    def _renew(self) -> None:
        """Begin anew with streams whose files have changed: their last predictions are read again."""
        for view in filter(self._is_changed, self._views):
            self.read = False
            self.outcomes[view.spec.name] = self._outcomes(view)
            topics = view.spec.topics.predictions, labels_in(view.spec)[1]
            self._positions = {tp: at for tp, at in self._positions.items() if tp.topic not in topics}
            self._decoders = {key: one for key, one in self._decoders.items() if key[0] != view.spec.name}

    async def run(self) -> None:
        """Until it is cancelled. While the broker is away it is tried again."""
        while True:
            try:
                await self._follow()
            except (KafkaError, OSError, RiparianError) as error:
                log.warning("predictions and labels cannot be read (%s); trying again", error)
            except Exception:  # of one record of somebody's; the rest of the page goes on
                log.warning("predictions and labels cannot be read; trying again", exc_info=True)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self) -> None:
        self._renew()
        for view in self._views:
            await know_predictions(view.spec)
        consumer = self._connection.consumer(
            auto_offset_reset="latest",
            fetch_max_wait_ms=POLL_MS,
            request_timeout_ms=REQUEST_MS,
            isolation_level=COMMITTED,
        )
        try:
            await consumer.start()
            self._of = await self._partitions(consumer)
            consumer.assign(list(self._of))
            for role in (PREDICTIONS, LABELS):  # the predictions say from where on labels can be theirs
                await self._seek(consumer, [tp for tp, (_, each) in self._of.items() if each == role])
                if role == PREDICTIONS:
                    await self._catch_up(consumer)
            self.read = True
            await self._poll(consumer)
        finally:
            await close(consumer)

    async def _partitions(self, consumer: Any) -> dict[TopicPartition, tuple[StreamView, str]]:
        present = await consumer.topics()
        found: dict[TopicPartition, tuple[StreamView, str]] = {}
        for view in self._views:
            for role, topic in ((PREDICTIONS, view.spec.topics.predictions), (LABELS, labels_in(view.spec)[1])):
                if topic in present:
                    found |= {TopicPartition(topic, p): (view, role) for p in range(n_read(view.spec, role))}
        return found

    def _most(self, tp: TopicPartition) -> int:
        """Records of a partition that are read, at most."""
        view, role = self._of[tp]
        return MOST // len(self._views) // n_read(view.spec, role)

    async def _seek(self, consumer: Any, tps: list[TopicPartition]) -> None:
        """Go on where it stopped, or begin at the last records; not further back than what is kept."""
        if not tps:
            return
        firsts, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        for tp in tps:
            at = self._positions.get(tp, firsts[tp])
            at = at if firsts[tp] <= at <= ends[tp] else firsts[tp]
            self._positions[tp] = max(at, ends[tp] - self._most(tp))
            consumer.seek(tp, self._positions[tp])

    async def _catch_up(self, consumer: Any) -> None:
        """Read the predictions to where they end, before any label."""
        tps = [tp for tp, (_, role) in self._of.items() if role == PREDICTIONS]
        ends = await consumer.end_offsets(tps) if tps else {}
        while left := [tp for tp in tps if await consumer.position(tp) < ends[tp]]:
            await self._take(await consumer.getmany(*left, timeout_ms=POLL_MS, max_records=PIECE))

    async def _poll(self, consumer: Any) -> None:
        looked = time.monotonic()
        while True:
            found = await consumer.getmany(timeout_ms=POLL_MS, max_records=PIECE)
            await self._take(found)
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                async with asyncio.timeout(REQUEST_MS / 1000.0):
                    present = await self._partitions(consumer)
                if present.keys() != self._of.keys() or any(map(self._is_changed, self._views)):
                    return  # topics or partitions were made since, or a stream file was written: begin anew
                self._skip(consumer)

    def _skip(self, consumer: Any) -> None:
        """Where more has come than is kept, what would be dropped anyway is not read."""
        for tp in self._of:
            end, most = consumer.highwater(tp), self._most(tp)
            if end is not None and end - self._positions[tp] > most:
                self._positions[tp] = end - most
                consumer.seek(tp, end - most)

    async def _take(self, found: Mapping[TopicPartition, list[Any]]) -> None:
        for tp, records in sorted(found.items(), key=lambda one: self._of[one[0]][1] == LABELS):
            view, role = self._of[tp]
            decoder = self._decoder(view, tp.partition)
            if role == PREDICTIONS:
                await asyncio.to_thread(self._take_predictions, view, decoder, tp.partition, records)
            else:
                kind, _ = labels_in(view.spec)
                batch = await unpacked(view.spec, decoder.codec, kind, records)
                await asyncio.to_thread(self._take_labels, view, decoder, tp.partition, kind, batch)
            self._positions[tp] = records[-1].offset + 1

    def _decoder(self, view: StreamView, partition: int) -> PartitionDecoder:
        key = view.spec.name, partition
        if key not in self._decoders:
            self._decoders[key] = PartitionDecoder(view.spec, partition)
        self._decoders[key].settle(view.spec)
        return self._decoders[key]

    def _take_predictions(
        self, view: StreamView, decoder: PartitionDecoder, partition: int, records: list[Any]
    ) -> None:
        outcomes, codec = self.outcomes[view.spec.name], decoder.codec
        kind, labels = labels_in(view.spec)
        for record in records:
            with contextlib.suppress(ValueError):  # somebody else's
                for index, value in enumerate(codec.split_predictions(record.value)):
                    made = codec.read_prediction(value)
                    outcomes.take(partition, record.offset, index, record.timestamp, made)
                    at = TopicPartition(labels, partition)
                    if at not in self._positions and not view.spec.labels_everywhere:
                        place = codec.read_place(value).places(codec.index_bits)[LOGS.index(kind)]
                        self._positions[at] = offset_of(place, codec.index_bits.of(kind))

    def _take_labels(
        self, view: StreamView, decoder: PartitionDecoder, partition: int, kind: str, batch: RawBatch
    ) -> None:
        outcomes = self.outcomes[view.spec.name]
        found: Any = decoder.labels(batch) if kind == LABELS else decoder.features(batch)
        if found.y is None:
            return
        for i, (id_, y) in enumerate(zip(found.ids, found.y, strict=True)):
            at = i if found.position is None else found.position[i]
            if kind == LABELS or not math.isnan(y):
                named: Any = None if math.isnan(y) else float(y)
                if named is not None and decoder.classes is not None:
                    named = decoder.classes.texts[int(y)]
                source = (
                    offset_of(batch.offsets[at], decoder.codec.index_bits.of(FEATURES)) if kind == FEATURES else None
                )
                outcomes.label(partition, id_, named, batch.timestamps[at], source)
