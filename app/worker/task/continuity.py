"""Looks, at an assignment, whether the topics are all there, whether the input topics still hold the records that each
partition's state needs next, and whether they are the topics that the states were learned from."""

import logging
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from aiokafka.structs import TopicPartition

from riparian.app.errors import TopicError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.app.partition.records import inputs
from riparian.app.partition.records.inputs import Lost, Mark, Position
from riparian.app.worker.faust_client.topic_watch import deleted
from riparian.topics.names import changelog_topic
from riparian.topics.places import begun, offset_of

if TYPE_CHECKING:
    from riparian.app.state.loading import Loaded
    from riparian.app.stream_file.spec import Spec
    from riparian.app.worker.task.uncommitted_outputs import UncommittedOutputs

log = logging.getLogger(__name__)


def check_topics(
    spec: "Spec", there: Container[str], assigned: Container[TopicPartition], partitions: Sequence[int]
) -> None:
    """TopicError where a topic of the stream was deleted while this worker ran.

    there : topics that the broker has. assigned : what the consumer group gave to this worker.
    """
    read = [log.topic for log in spec.inputs]
    for topic in (*read, changelog_topic(spec.name), *spec.outputs.values(), *spec.of_all):
        if topic not in there:
            raise deleted(spec, topic)
    for topic in read:
        if not all(TopicPartition(topic, partition) in assigned for partition in partitions):
            raise TopicError(
                f"the consumer group does not give out all partitions of {topic}: it was deleted and created again "
                "while the worker ran; start the worker again"
            )


async def check_inputs(
    spec: "Spec", connection: Connection, loaded: Sequence["Loaded"], tails: Sequence["UncommittedOutputs"]
) -> list[dict[str, Lost]]:
    """For each partition: role of an input topic -> what it has lost, and the offset from which to take records.

    Raises
    ------
    KafkaError
        The broker does not answer.
    StateError
        A topic is not what it was; or records are lost, and the stream file says to stop.
    """
    places = [_positions(spec, one, tail) for one, tail in zip(loaded, tails, strict=True)]
    marks = {TopicPartition(p.topic, p.partition): p.mark for each in places for p in each.values()}
    found: dict[TopicPartition, Mark] = {}

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            if record.offset == starts[tp]:
                found[tp] = inputs.mark(record.offset, record.timestamp, record.key, record.value)

    starts = {tp: 0 if mark is None else mark.offset for tp, mark in marks.items()}
    stops = {tp: 0 if mark is None else mark.offset + 1 for tp, mark in marks.items()}
    bounds = await read_to_end(connection, starts, take, stops)
    checked = []
    for one, each in zip(loaded, places, strict=True):
        lost: dict[str, Lost] = {}
        for role, position in each.items():
            tp = TopicPartition(position.topic, position.partition)
            first, end = bounds[tp]
            n = inputs.check(position, first, end, found.get(tp))
            start = first if position.wanted is None else position.wanted
            if n and spec.lost == inputs.STOP:
                raise inputs.records_lost(position.topic, position.partition, start, first)
            if n:
                log.warning("Kafka has %s", inputs.gone(position.topic, position.partition, start, first))
            before = one.manifest.lost.get(role, (0, 0))[0] if one.manifest is not None else 0
            # Without a manifest all that is kept was taken since the beginning: what the predictions tell of first may
            # have come with records before it, labels say that stood before one and the same instance.
            lost[role] = Lost(before + n, first if one.manifest is None else max(start, first))
        checked.append(lost)
    return checked


def _positions(spec: "Spec", loaded: "Loaded", tail: "UncommittedOutputs") -> dict[str, Position]:
    """Where a partition's state stands in its input topics, by role."""
    learner, manifest = loaded.learner, loaded.manifest
    marks, before = learner.marks(), {} if manifest is None else manifest.lost
    found = {}
    for role, topic, _ in spec.inputs:
        offset, taken = learner.offsets[role], tail.script.taken(role)
        wanted: int | None = max(offset, before[role][1] if role in before else 0)
        if manifest is None:  # there may be outputs all the same: then the state is made anew, from their beginning
            wanted = offset_of(int(taken[0]), learner.bits[role]) if len(taken) else None
        elif offset == 0 and role not in before:
            wanted = None
        next_place = max(learner.places[role], tail.rejected.get(topic, 0), int(taken[-1]) + 1 if len(taken) else 0)
        seen = begun(next_place, learner.bits[role])
        found[role] = Position(topic, learner.partition, wanted, seen, marks.get(role))
    return found
