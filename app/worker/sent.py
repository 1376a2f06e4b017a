"""What the owners of a partition before us have sent beyond the last checkpoint: read back, so as not to repeat it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from aiokafka.structs import TopicPartition

from app.errors import StateError
from app.partition.merge import Script
from app.worker.reading import read_to_end
from topics.names import DRIFT, HEADER_OFFSET, HEADER_TOPIC, METRICS, OUTPUTS, PREDICTIONS

if TYPE_CHECKING:
    from app.stream_file.spec import Spec
    from app.worker.engine import Loaded


class _Prediction(msgspec.Struct):
    offset: int
    label_offset: int


class _Metrics(msgspec.Struct):
    model: str
    offset: int
    label_offset: int


class _Drift(msgspec.Struct):
    number: int


class Sent(NamedTuple):
    """The outputs of a partition beyond its last checkpoint, and where they end.

    script : the interleaving that the predictions record. refused : input topic -> next offset after its last dead
    letter. metrics : role of a model -> offset and label offset of its last record. starts, ends : output topic -> from
    where it was read, and its end. drift : number of the next drift event.
    """

    script: Script
    refused: dict[str, int]
    metrics: dict[str, tuple[int, int]]
    starts: dict[str, int]
    ends: dict[str, int]
    drift: int = 0


async def read_sent(spec: "Spec", broker: str, loaded: Sequence["Loaded"]) -> list[Sent]:
    """For each loaded partition, what was sent since its manifest. KafkaError where the broker does not answer."""
    topics = {role: getattr(spec.topics, role) for role in OUTPUTS}
    starts: dict[TopicPartition, int] = {}
    offsets: dict[int, list[int]] = {}
    label_offsets: dict[int, list[int]] = {}
    refused: dict[int, dict[str, int]] = {}
    metrics: dict[int, dict[str, tuple[int, int]]] = {}
    drift = {one.learner.partition: 0 for one in loaded}
    first = {one.learner.partition: one.learner.feature_offset for one in loaded}
    for learner, _, manifest, _ in loaded:
        partition = learner.partition
        offsets[partition], label_offsets[partition], refused[partition], metrics[partition] = [], [], {}, {}
        if manifest is not None:
            # One may have been sent at exactly the checkpoint, and stand before it.
            metrics[partition] = dict.fromkeys(learner.models, (learner.feature_offset, learner.label_offset))
        for role, topic in topics.items():
            start = 0 if manifest is None else manifest.outputs.get(role, 0)
            starts[TopicPartition(topic, partition)] = start
    prediction, metric = msgspec.json.Decoder(_Prediction), msgspec.json.Decoder(_Metrics)
    event = msgspec.json.Decoder(_Drift)

    def take(tp: TopicPartition, records: list[Any]) -> None:
        partition = tp.partition
        try:
            for record in records:
                if tp.topic == topics[PREDICTIONS]:
                    made = prediction.decode(record.value)
                    if made.offset < first[partition]:
                        continue
                    known, told = offsets[partition], label_offsets[partition]
                    if known and (made.offset <= known[-1] or made.label_offset < told[-1]):
                        raise ValueError(
                            f"it is of {made.offset} and {made.label_offset}, after {known[-1]}, {told[-1]}"
                        )
                    known.append(made.offset)
                    told.append(made.label_offset)
                elif tp.topic == topics[METRICS]:
                    entry = metric.decode(record.value)
                    metrics[partition][entry.model] = entry.offset, entry.label_offset
                elif tp.topic == topics[DRIFT]:
                    drift[partition] = max(drift[partition], event.decode(record.value).number + 1)
                else:
                    headers = dict(record.headers)
                    source, offset = headers[HEADER_TOPIC].decode(), int(headers[HEADER_OFFSET])
                    refused[partition][source] = max(offset + 1, refused[partition].get(source, 0))
        except (msgspec.MsgspecError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise StateError(
                f"the record at offset {record.offset:,} of {tp.topic}[{partition}] is none that a worker of the "
                f"stream {spec.name} wrote there ({type(error).__name__}: {error}): give the stream output topics of "
                "its own"
            ) from error

    bounds = await read_to_end(broker, starts, take)
    cleared = {tp: 0 for tp, start in starts.items() if start > bounds[tp].end}
    if cleared:  # deleted and created again, or named otherwise: what is there belongs to records since
        bounds |= await read_to_end(broker, cleared, take)
        starts |= cleared
    return [
        Sent(
            Script(np.array(offsets[p], np.int64), np.array(label_offsets[p], np.int64)),
            refused[p],
            metrics[p],
            {topic: starts[TopicPartition(topic, p)] for topic in topics.values()},
            {topic: bounds[TopicPartition(topic, p)].end for topic in topics.values()},
            drift[p],
        )
        for p in first
    ]
