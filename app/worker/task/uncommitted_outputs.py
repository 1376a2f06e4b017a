"""The tail of a partition's outputs: what earlier owners sent after the last checkpoint, read back so that it is not
sent again."""

from collections.abc import Mapping, Sequence
from operator import lt
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.structs import TopicPartition

from riparian.app.errors import StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import EVERYTHING, read_to_end
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import RecordedOrder
from riparian.app.worker.shared.training_log import read_reached
from riparian.topics import reports
from riparian.topics.commands import read_event
from riparian.topics.names import (
    CONTROL,
    DRIFT,
    EVENTS,
    FEATURES,
    HEADER_INDEX,
    HEADER_OFFSET,
    HEADER_REASON,
    HEADER_RETRIED,
    HEADER_TOPIC,
    LABELS,
    METRICS,
    PREDICTIONS,
)
from riparian.topics.places import index_of, place_of
from riparian.topics.records import UNKNOWN_SCHEMA

if TYPE_CHECKING:
    from riparian.app.state.loading import Loaded
    from riparian.app.stream_file.spec import Spec


At = tuple[int, int]  # an offset, and an index in the record
MetricsPlace = tuple[At, At, At]  # place of a metrics record: of the next instance, label, and record of the log of all


class UncommittedOutputs(NamedTuple):
    """The outputs of a partition after its last checkpoint, and where they end.

    script : the order that the predictions record
    rejected : input topic -> next place after its last dead letter (`topics.places`)
    metrics : role of a model -> place of its last record
    stood : place of the checkpoint, at which metrics may have been sent before it; None without one
    starts, ends : output topic -> from where it was read, and its end
    drift : number of the next drift event
    events : number of the next answer to a command, or of a rule
    commanded : offset after the last command that was answered
    unknown : input topic -> offsets of records that were rejected because the registry did not know their schema
    joined : how many instances were appended to the log that partitions share
    n_unsent : how many of the script's last predictions only that log tells of
    """

    script: RecordedOrder
    rejected: dict[str, int]
    metrics: dict[str, MetricsPlace]
    starts: dict[str, int]
    ends: dict[str, int]
    drift: int = 0
    unknown: Mapping[str, Sequence[int]] = {}
    events: int = 0
    joined: int = 0
    n_unsent: int = 0
    stood: MetricsPlace | None = None
    commanded: int = 0

    @property
    def sent_offset(self) -> int:
        """The place after the last prediction that was sent."""
        sent = self.script.offsets[: len(self.script.offsets) - self.n_unsent]
        return int(sent[-1]) + 1 if len(sent) else 0

    def beyond(self, learner: PartitionLearner, dealt_with: int) -> bool:
        """Whether metrics, events of drift or answers were sent that a partition has not come to.

        By a changed stream file their numbers may never come again. But each was sent about a place before dealt_with,
        the one behind the last prediction or its dead letter, and each command is answered once.
        """
        place = metrics_place(learner)
        replays = learner.drift.last_place < dealt_with
        obeys = learner.learning.reached().get(CONTROL, 0) < self.commanded
        return (
            (replays and learner.drift.n_events < self.drift)
            or ((replays or obeys) and learner.promotion.n_events < self.events)
            or any(any(map(lt, place, told)) for told in self.metrics.values())
        )


def metrics_place(learner: PartitionLearner) -> MetricsPlace:
    """The place of metrics that are taken now."""
    next_one, next_label = (
        (learner.offsets[role], index_of(learner.places[role], learner.bits[role])) for role in (FEATURES, LABELS)
    )
    return next_one, next_label, (learner.learning.learned_place, 0)


async def read_tails(spec: "Spec", connection: Connection, loaded: Sequence["Loaded"]) -> list[UncommittedOutputs]:
    """For each loaded partition, what was sent since its manifest. KafkaError where the broker does not answer."""
    topics = spec.outputs
    starts: dict[TopicPartition, int] = {}
    places: dict[int, list[tuple[int, ...]]] = {}  # of the predictions
    rejected: dict[int, dict[str, int]] = {}
    unknown: dict[int, dict[str, list[int]]] = {}
    metrics: dict[int, dict[str, MetricsPlace]] = {}
    drift = {one.learner.partition: 0 for one in loaded}
    events, commanded = dict(drift), dict(drift)
    first = {one.learner.partition: one.learner.places[FEATURES] for one in loaded}
    codec = spec.make_codec()
    read_place, bits = codec.read_place, codec.index_bits
    bits_of = {topic: bits.of(role) for role, topic, _ in spec.inputs}
    for learner, _, manifest, _ in loaded:
        partition = learner.partition
        places[partition], rejected[partition], unknown[partition], metrics[partition] = [], {}, {}, {}
        for role, topic in topics.items():
            start = 0 if manifest is None else manifest.outputs.get(role, 0)
            starts[TopicPartition(topic, partition)] = start

    def take(tp: TopicPartition, records: list[Any]) -> None:
        partition = tp.partition
        try:
            for record in records:
                if tp.topic == topics[PREDICTIONS]:
                    known = places[partition]
                    for value in codec.split_predictions(record.value):
                        place = read_place(value).places(bits)
                        if place[0] < first[partition]:
                            continue
                        if known and (place[0] == known[-1][0] or any(map(lt, place, known[-1]))):
                            raise ValueError(f"it is of {_listed(place)}, after {_listed(known[-1])}")
                        known.append(place)
                elif tp.topic == topics[METRICS]:
                    model, told, learned = reports.read_metrics(record.value)
                    if model is not None:
                        own = (told.offset, told.index), (told.label_offset, told.label_index)
                        metrics[partition][model] = *own, (learned, 0)
                elif tp.topic == topics[DRIFT]:
                    drift[partition] = max(drift[partition], reports.read_drift_number(record.value) + 1)
                elif tp.topic == topics.get(EVENTS):
                    event = read_event(record.value)
                    events[partition] = max(events[partition], event.number + 1)
                    if event.control_offset is not None:
                        commanded[partition] = max(commanded[partition], event.control_offset + 1)
                elif HEADER_RETRIED not in (headers := dict(record.headers)):  # a mark of app.retries is no letter
                    source, offset = headers[HEADER_TOPIC].decode(), int(headers[HEADER_OFFSET])
                    after = place_of(offset, int(headers.get(HEADER_INDEX, b"0")), bits_of.get(source, 0)) + 1
                    rejected[partition][source] = max(after, rejected[partition].get(source, 0))
                    if headers.get(HEADER_REASON) == UNKNOWN_SCHEMA.encode():
                        unknown[partition].setdefault(source, []).append(offset)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise StateError(
                f"the record at offset {record.offset:,} of {tp.topic}[{partition}] is none that a worker of the "
                f"stream {spec.name} wrote there ({type(error).__name__}: {error}): give the stream output topics of "
                "its own"
            ) from error

    bounds = await read_to_end(connection, starts, take, isolation=EVERYTHING)
    cleared = {tp: 0 for tp, start in starts.items() if start > bounds[tp].end}
    if cleared:  # deleted and created again, or named otherwise: what is there belongs to records since
        bounds |= await read_to_end(connection, cleared, take, isolation=EVERYTHING)
        starts |= cleared
    shared = await read_reached(spec, connection, loaded)
    n_sent = {p: len(found) for p, found in places.items()}
    for p, found in places.items():
        for place in map(tuple, shared[p].order):
            if place[0] >= first[p] and (not found or place[0] > found[-1][0]):
                found.append(place)
    return [
        UncommittedOutputs(
            RecordedOrder.of(list(one.learner.rules), places[p])._replace(reached=shared[p].places),
            rejected[p],
            metrics[p],
            {topic: starts[TopicPartition(topic, p)] for topic in topics.values()},
            {topic: bounds[TopicPartition(topic, p)].end for topic in topics.values()},
            drift[p],
            unknown[p],
            events[p],
            shared[p].n,
            len(places[p]) - n_sent[p],
            None if one.manifest is None else metrics_place(one.learner),
            commanded[p],
        )
        for p, one in zip(first, loaded, strict=True)
    ]


def _listed(place: tuple[int, ...]) -> str:
    return " and ".join(map(str, place))
