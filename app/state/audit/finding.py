"""Finds the prediction of an id, and the label that came for it.

Nothing indexes predictions by their ids. So the topic is read backwards in steps, first where Kafka's clients put the
id if it was the key, then in the other partitions; the newest prediction of the first partition that has one is taken.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import PartitionReader, reading
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.partition.learner import PartitionLearner
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import look_up, predictions
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import LABELS
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
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> FoundPrediction:
    """The newest prediction of an id.

    Parameters
    ----------
    since : int, optional
        ms since 1970: how far back to look; to the beginning of the topic without it.
    on_progress : callable
        Given how many records were read, and how many there are.

    Raises
    ------
    StateError
        There is none.
    """
    registry = Registry.of(spec)
    if registry is not None:
        await predictions(registry, spec)
    likely = int(partitions_of([id_.encode("utf-8", "surrogatepass")], spec.partitions)[0])
    n_read = 0
    for partition in sorted(range(spec.partitions), key=lambda k: k != likely):
        async with reading(connection, spec.topics.predictions, partition) as sent:
            before, total = n_read, n_read + sent.end - sent.first
            stop = sent.end
            while stop > sent.first:
                start = max(sent.first, stop - STEP)
                found, oldest = await _within(spec, partition, sent, start, stop, id_, since)
                n_read = before + sent.end - start
                on_progress(n_read, total)
                if found is not None:
                    return found._replace(n_read=n_read)
                if since is not None and oldest is not None and oldest < since:
                    break
                stop = start
    where = "" if since is None else " of that time (look further back with --last, or without it)"
    raise StateError(
        f"no prediction{where} in {spec.topics.predictions} has the id {id_!r}, in {n_read:,} records: the id is the "
        "one of the features, and their record may be among the dead letters"
    )


async def _within(
    spec: Spec, partition: int, sent: PartitionReader, start: int, stop: int, id_: str, since: int | None
) -> tuple[FoundPrediction | None, int | None]:
    """The last prediction of the id between two offsets, and the time of the first record there."""
    codec, found, oldest = spec.make_codec(), None, None
    sent.seek(start)
    while records := await sent.read(stop):
        oldest = records[0].timestamp if oldest is None else oldest
        for record in records:
            if since is not None and record.timestamp < since:
                continue
            try:
                for value in codec.split_predictions(record.value):
                    made = codec.read_prediction(value)
                    if made.get("id") == id_:
                        msgspec.convert(made, Sent)
                        places = codec.read_place(value).places(codec.index_bits)
                        found = FoundPrediction(partition, record.offset, record.timestamp, places, made, 0)
            except ValueError:  # somebody else's
                continue
    return found, oldest


async def label_of(
    spec: Spec, connection: Connection, found: FoundPrediction, learner: PartitionLearner
) -> tuple[FoundLabel | None, int]:
    """The first label of its id after a prediction, where it came in the labels topic; and how many were read.

    learner : of the same stream, whose classes may be added to.
    """
    registry, bits, n_read = Registry.of(spec), learner.bits[LABELS], 0
    if spec.topics.labels is None:
        return None, 0
    async with reading(connection, spec.topics.labels, found.partition) as labels:
        labels.seek(max(labels.first, offset_of(found.places[1], bits)))
        while n_read < MOST_LABELS and (records := await labels.read(labels.end)):
            batch = learner.codec.unpack(LABELS, RawBatch.of(records))
            unknown = learner.codec.unknown(LABELS, batch)
            if unknown and registry is not None:
                for key in await look_up(registry, spec, unknown):
                    for i in unknown[key]:
                        batch.values[i] = Unknown(b"")
            decoded = learner.codec.decode_labels(batch, learner.classes)
            n_read += len(records)
            if found.sent["id"] in decoded.ids:
                i = decoded.ids.index(found.sent["id"])
                at = i if decoded.position is None else decoded.position[i]
                y = decoded.y[i]
                named = None if math.isnan(y) else y if learner.classes is None else learner.classes.texts[int(y)]
                return FoundLabel(offset_of(batch.offsets[at], bits), batch.timestamps[at], named), n_read
    return None, n_read
