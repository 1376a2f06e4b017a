"""Whether labels of one class come much earlier than others, or alone, by the first records of both topics."""

from typing import TYPE_CHECKING, Any

import numpy as np
from aiokafka.structs import TopicPartition

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import bounds_of, read_to_end
from riparian.app.kafka.topics.keys import LAST_MS, decoded
from riparian.app.partition.join.label_delays import LabelDelays, alone, apart
from riparian.topics.names import FEATURES, LABELS

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

MOST = 100_000  # records of each topic that are read


async def early_labels(spec: "Spec", connection: Connection) -> str | None:
    """The sentence of `apart` or `alone`, with the cure. Both topics must exist; None where labels wait already."""
    classes = spec.class_vocabulary()
    if classes is None or spec.topics.labels is None or spec.join.unlabelled is not None:
        return None
    came, codec = dict[str, int](), spec.make_codec()
    found = list[tuple[float, float, int]]()  # class, delay in ms, and when it came

    def take_features(_: TopicPartition, records: list[Any]) -> None:
        batch, columns, positions = decoded(spec, codec, FEATURES, records, classes)
        came.update(zip(columns.ids, np.array(batch.timestamps)[positions].tolist(), strict=True))

    def take_labels(_: TopicPartition, records: list[Any]) -> None:
        batch, columns, positions = decoded(spec, codec, LABELS, records, classes)
        times = np.array(batch.timestamps)[positions].tolist()
        for id_, y, time in zip(columns.ids, columns.y, times, strict=True):
            if y == y and id_ in came and min(time, came[id_]) >= 0 and time < LAST_MS:
                found.append((y, max(0, time - came[id_]), time))

    for topic, take in ((spec.topics.features, take_features), (spec.topics.labels, take_labels)):
        bounds = await bounds_of(connection, [TopicPartition(topic, k) for k in range(spec.partitions)])
        stops = {tp: one.first + MOST // spec.partitions for tp, one in bounds.items()}
        await read_to_end(connection, {tp: one.first for tp, one in bounds.items()}, take, stops)
    joined = np.array([one for one in found if one[1] <= spec.join.horizon * 1000]).reshape(-1, 3)
    if not len(joined):
        return None
    delays = LabelDelays()
    delays.add(joined[:, 0], joined[:, 1] / 1000.0, int(joined[:, 2].max()))
    delays.first = int(joined[:, 2].min())
    told, until = [(delays, classes.texts)], delays.last - joined[:, 1].max()
    without = sum(time < until for time in came.values()) - len(joined)
    return apart(told, spec.join.horizon) or alone(told, without)
