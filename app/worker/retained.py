"""At an assignment: what the input topics retain of what the partitions' states need next, and whether they are the
topics that the states were learned from."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiokafka.structs import TopicPartition

from app.partition import inputs
from app.partition.inputs import Lost, Mark, Position
from app.worker.reading import read_to_end
from topics.names import FEATURES, LABELS

if TYPE_CHECKING:
    from app.stream_file.spec import Spec
    from app.worker.engine import Loaded
    from app.worker.sent import Sent

log = logging.getLogger(__name__)


async def check_inputs(
    spec: "Spec", broker: str, loaded: Sequence["Loaded"], sent: Sequence["Sent"]
) -> list[dict[str, Lost]]:
    """For each partition: role of an input topic -> what it has lost, and the offset from which to take records.

    Raises
    ------
    KafkaError
        The broker does not answer.
    StateError
        A topic is not what it was; or records are lost, and the stream file says to stop.
    """
    places = [_positions(spec, one, what) for one, what in zip(loaded, sent, strict=True)]
    marks = {TopicPartition(p.topic, p.partition): p.mark for each in places for p in each.values()}
    found: dict[TopicPartition, Mark] = {}

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            if record.offset == starts[tp]:
                found[tp] = inputs.mark(record.offset, record.timestamp, record.key, record.value)

    starts = {tp: 0 if mark is None else mark.offset for tp, mark in marks.items()}
    stops = {tp: 0 if mark is None else mark.offset + 1 for tp, mark in marks.items()}
    bounds = await read_to_end(broker, starts, take, stops)
    checked = []
    for one, each in zip(loaded, places, strict=True):
        lost: dict[str, Lost] = {}
        for role, position in each.items():
            tp = TopicPartition(position.topic, position.partition)
            first, end = bounds[tp]
            n = inputs.check(position, first, end, found.get(tp))
            start = first if position.wanted is None else position.wanted
            if n and spec.lost == inputs.STOP:
                raise inputs.refusal(position.topic, position.partition, start, first)
            if n:
                log.warning("Kafka has %s", inputs.gone(position.topic, position.partition, start, first))
            before = one.manifest.lost.get(role, (0, 0))[0] if one.manifest is not None else 0
            # Without a manifest all that is kept was taken since the beginning: what the predictions tell of first may
            # have come with records before it, labels say that stood before one and the same instance.
            lost[role] = Lost(before + n, first if one.manifest is None else max(start, first))
        checked.append(lost)
    return checked


def _positions(spec: "Spec", loaded: "Loaded", sent: "Sent") -> dict[str, Position]:
    """Where a partition's state stands in its input topics, by role."""
    learner, manifest, script = loaded.learner, loaded.manifest, sent.script
    marks, before = learner.marks(), {} if manifest is None else manifest.lost
    # Label offsets that the predictions tell of; 0 is also what stands there when no label was taken.
    told = script.label_offsets[script.label_offsets > 0]
    places = {
        FEATURES: (spec.topics.features, learner.feature_offset, script.offsets),
        LABELS: (spec.topics.labels, learner.label_offset, told - 1),
    }
    found = {}
    for role, (topic, offset, taken) in places.items():
        if topic is None:
            continue
        wanted: int | None = max(offset, before[role][1] if role in before else 0)
        if manifest is None:  # there may be outputs all the same: then the state is made anew, from their beginning
            wanted = int(taken[0]) if len(taken) else None
        elif offset == 0 and role not in before:
            wanted = None
        seen = max(offset, sent.refused.get(topic, 0), int(taken[-1]) + 1 if len(taken) else 0)
        found[role] = Position(topic, learner.partition, wanted, seen, marks.get(role))
    return found
