"""Finds the prediction of an id, the label that came for it, and the last records of a key.

Nothing indexes predictions by their ids. So the topic is read backwards in steps, first where Kafka's clients put the
id if it was the key, then in the other partitions; the newest prediction of the first partition that has one is taken.
"""

import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from aiokafka.structs import ConsumerRecord
from numpy.typing import NDArray

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import PartitionReader, reading
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.partition.keys.past import hashes_of, secret
from riparian.app.partition.learner import PartitionLearner
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import look_up, predictions
from riparian.app.stream_file.sections.record import OFFSET
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats
from riparian.topics.codecs import Codec
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.places import offset_of
from riparian.topics.records import Name, RawBatch, Text, Unknown, Whole


class ModelPrediction(msgspec.Struct):
    """What a model said, of the types that a prediction has in JSON. Anybody may have written it."""

    y: Text | Whole | float | bool | None = None
    p: dict[str, float | None] | float | None = None
    alert: bool | None = None
    model: Name | None = None


class Sent(ModelPrediction, kw_only=True):
    offset: Whole
    label_offset: Whole
    challengers: dict[Name, ModelPrediction] | None = None


STEP = 20_000  # records
MOST_LABELS = 1_000_000  # labels that are read after a prediction, at most
MOST_RECORDS = 500_000  # records that are read for those of a key, at most, and predictions for these


class FoundPrediction(NamedTuple):
    """A prediction.

    Attributes
    ----------
    partition, position : of its record in the predictions topic. time : ms, of that record.
    places : of the features and the next label then, and of further logs.
    sent : its fields.
    n_read : records that were read for it.
    """

    partition: int
    position: int
    time: int
    places: tuple[int, ...]
    sent: Mapping[str, Any]
    n_read: int


class FoundLabel(NamedTuple):
    """The label of an instance. offset : of its record in the labels topic. time : ms, of that record. y : by name, or
    a number; None of a null label."""

    offset: int
    time: int
    y: Any


async def find(
    spec: Spec,
    connection: Connection,
    id_: str,
    *,
    since: int | None = None,
    before: FoundPrediction | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> FoundPrediction:
    """The newest prediction of an id.

    Parameters
    ----------
    before : FoundPrediction, optional
        Look in its partition for the one before it.
    since : int, optional
        ms since 1970: how far back to look; to the beginning of the topic without it.
    on_progress : callable
        Given how many records were read, and how many there are.

    Raises
    ------
    StateError
        There is none.
    """
    await know_predictions(spec)
    likely = int(partitions_of([id_.encode("utf-8", "surrogatepass")], spec.partitions)[0])
    partitions = sorted(range(spec.partitions), key=lambda k: k != likely) if before is None else [before.partition]
    n_read = 0
    for partition in partitions:
        async with reading(connection, spec.topics.predictions, partition) as sent:
            stop = sent.end if before is None else before.position + 1
            so_far, total = n_read, n_read + stop - sent.first
            async for found, start in _backwards(spec, partition, sent, {id_}, since, before):
                n_read = so_far + stop - start
                on_progress(n_read, total)
                if found:
                    return found[id_]._replace(n_read=n_read)
    where = "" if since is None else " of that time (look further back by --since, or without it)"
    what = "partition and offset, such as 0@17" if spec.record.id == OFFSET else "the one of the features"
    raise StateError(
        f"no prediction{where} in {spec.topics.predictions} has the id {id_!r}, in {n_read:,} records: the id is "
        f"{what}, and its record may be among the dead letters"
    )


async def know_predictions(spec: Spec) -> None:
    """Know the schema of predictions, where a registry has it."""
    registry = Registry.of(spec)
    if registry is not None:
        await predictions(registry, spec)


async def _backwards(
    spec: Spec,
    partition: int,
    sent: PartitionReader,
    ids: Collection[str],
    since: int | None,
    before: FoundPrediction | None = None,
) -> AsyncIterator[tuple[dict[str, FoundPrediction], int]]:
    """The last predictions of ids before another one, in steps backwards; and where each step begins."""
    stop = sent.end if before is None else before.position + 1  # a record may hold several
    while stop > sent.first:
        start = max(sent.first, stop - STEP)
        found, oldest = await _within(spec, partition, sent, start, stop, ids, since, before)
        yield found, start
        if since is not None and oldest is not None and oldest < since:
            return
        stop = start


async def _within(
    spec: Spec,
    partition: int,
    sent: PartitionReader,
    start: int,
    stop: int,
    ids: Collection[str],
    since: int | None,
    before: FoundPrediction | None,
) -> tuple[dict[str, FoundPrediction], int | None]:
    """The last prediction of each id between two offsets, and the time of the first record there."""
    codec, found, oldest = spec.make_codec(), dict[str, FoundPrediction](), None
    sent.seek(start)
    while records := await sent.read(stop):
        oldest = records[0].timestamp if oldest is None else oldest
        for record in records:
            if since is not None and record.timestamp < since:
                continue
            try:
                for value in codec.split_predictions(record.value):
                    made = codec.read_prediction(value)
                    id_ = str(made.get("id"))
                    if id_ in ids:
                        msgspec.convert(made, Sent)
                        places = codec.read_place(value).places(codec.index_bits)
                        if before is None or places[0] < before.places[0]:
                            found[id_] = FoundPrediction(partition, record.offset, record.timestamp, places, made, 0)
            except ValueError:  # somebody else's
                continue
    return found, oldest


async def label_of(
    spec: Spec, connection: Connection, found: FoundPrediction, learner: PartitionLearner, waited: bool = False
) -> tuple[FoundLabel | None, int]:
    """The first label of its id after a prediction, where it came in the labels topic; and how many were read.

    learner : of the same stream, whose classes may be added to.
    waited : whether one waited for the instance, so that it is the last one before the prediction.
    """
    bits, n_read, label = learner.bits[LABELS], 0, None
    if spec.topics.labels is None:
        return None, 0
    async with reading(connection, spec.topics.labels, found.partition) as labels:
        place = offset_of(found.places[1], bits)
        labels.seek(max(labels.first, place - MOST_LABELS if waited else place))
        while n_read < MOST_LABELS and (records := await labels.read(place if waited else labels.end)):
            batch = await unpacked(spec, learner.codec, LABELS, records)
            decoded = learner.codec.decode_labels(batch, learner.classes)
            n_read += len(records)
            ids = np.array(decoded.ids, object) == found.sent["id"]
            if ids.any():
                i = int(np.flatnonzero(ids)[-1 if waited else 0])
                at = i if decoded.position is None else decoded.position[i]
                y = decoded.y[i]
                named = None if math.isnan(y) else y if learner.classes is None else learner.classes.texts[int(y)]
                label = FoundLabel(offset_of(batch.offsets[at], bits), batch.timestamps[at], named)
                if not waited:
                    break
    return label, n_read


async def unpacked(spec: Spec, codec: Codec, role: str, records: Sequence[ConsumerRecord]) -> RawBatch:
    """Records of an input topic, once their schemas are known."""
    batch, registry = codec.unpack(role, RawBatch.of(records)), Registry.of(spec)
    unknown = codec.unknown(role, batch)
    if unknown and registry is not None:
        for key in await look_up(registry, spec, unknown):
            for i in unknown[key]:
                batch.values[i] = Unknown(b"")
    return batch


class KeyRecord(NamedTuple):
    """A record of a key.

    Attributes
    ----------
    partition, offset : in the features topic. time : ms, of the record.
    id : of its instance. x : (d,) its features.
    """

    partition: int
    offset: int
    time: int
    id: str
    x: Floats


async def records_of(
    connection: Connection,
    learner: PartitionLearner,
    key: str,
    hashed: NDArray[np.uint64],
    *,
    since: int | None,
    most: int,
    on_progress: Callable[[int, int], None],
) -> tuple[list[KeyRecord], int]:
    """The last records of a key in a partition, the oldest first, and how many were read for it.

    Parameters
    ----------
    learner : PartitionLearner
        Of the partition, whose values and classes may be added to.
    key : str
        Its name in the stream file.
    hashed : (2,)
        As `hashes_of` makes it.
    since : int, optional
        ms since 1970: how far back to look.
    most : int
        How many records to find.
    on_progress : callable
        Given how many records were read, and how many may be.
    """
    spec, found, n_read = learner.spec, list[KeyRecord](), 0
    column, bits, own = list(spec.keys).index(key), learner.bits[FEATURES], secret(spec.name)
    async with reading(connection, spec.topics.features, learner.partition) as features:
        stop, total = features.end, min(features.end - features.first, MOST_RECORDS)
        while stop > features.first and len(found) < most and n_read < total:
            start, newer, oldest = max(features.first, stop - STEP), list[KeyRecord](), None
            features.seek(start)
            while records := await features.read(stop):
                oldest = records[0].timestamp if oldest is None else oldest
                batch = await unpacked(spec, learner.codec, FEATURES, records)
                one = learner.decoder.features(batch, learner.vocabularies, learner.classes)
                for i in np.flatnonzero((hashes_of(own, one.keys[column]) == hashed).all(axis=1)).tolist():
                    at = i if one.position is None else one.position[i]
                    if since is None or batch.timestamps[at] >= since:
                        place = offset_of(batch.offsets[at], bits)
                        newer.append(KeyRecord(learner.partition, place, batch.timestamps[at], one.ids[i], one.x[i]))
            found, n_read, stop = newer + found, features.end - start, start
            on_progress(n_read, total)
            if since is not None and oldest is not None and oldest < since:
                break
    return found[-most:], n_read


async def predictions_of(
    spec: Spec, connection: Connection, records: Sequence[KeyRecord]
) -> dict[tuple[int, str], FoundPrediction]:
    """The newest prediction of each of these records that has one, by partition and id."""
    await know_predictions(spec)
    found = dict[tuple[int, str], FoundPrediction]()
    for partition in {one.partition for one in records}:
        left = {one.id for one in records if one.partition == partition}
        async with reading(connection, spec.topics.predictions, partition) as sent:
            async for made, start in _backwards(spec, partition, sent, left, None):
                found |= {(partition, id_): one for id_, one in made.items()}
                left.difference_update(made)
                if not left or sent.end - start >= MOST_RECORDS:
                    break
    return found
