"""How far a stream's workers are behind: `riparian lag`, and what must not run beside workers."""

from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.errors import GroupAuthorizationFailedError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from riparian.app.errors import AccessError, TopicError
from riparian.app.kafka.access.acls import DESCRIBE, GROUP, Right
from riparian.app.kafka.admin import (
    admin_client,
    check_sources,
    check_topics,
    group_members,
    group_offsets,
    listing,
    stream_topics,
)
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import bounds_of, read_to_end
from riparian.app.kafka.topics.creating import not_ours
from riparian.topics import reports
from riparian.topics.names import CHECKPOINT, INPUTS

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

TAIL = 100  # last records of an output topic, markers among them


class PartitionLag(NamedTuple):
    """One partition of an input topic, in offsets.

    start, end : the first offset kept, and the one that the next record will get
    processed : the next offset that a worker will take, as far as its outputs tell; None while they tell nothing
    committed : the next offset of the last checkpoint, from which a worker would go on; None before the first one
    lag : end - processed, in records; None while nothing was processed
    copied : whether it is a topic of `rekey`, and its records are processed in another one, once they are copied
    foreign : the offset that somebody else has committed for the group; None where it is the checkpoint's
    """

    topic: str
    partition: int
    start: int
    end: int
    processed: int | None
    committed: int | None
    lag: int | None
    copied: bool = False
    foreign: int | None = None


class LagReport(NamedTuple):
    """How far a stream is behind. workers : members of its consumer group."""

    group: str
    workers: int
    rows: tuple[PartitionLag, ...]


def lag_of(part: TopicPartition, start: int, end: int, known: list[int], committed: int | None) -> PartitionLag:
    """known : offsets up to which records were taken, as far as anybody has told. What Kafka has deleted is not waited
    for."""
    taken = min(max(known), end) if known else None
    behind = None if taken is None else end - max(taken, start)
    return PartitionLag(part.topic, part.partition, start, end, taken, committed, behind)


async def lag(spec: "Spec", connection: Connection) -> LagReport:
    """How many records of the features and labels topics the stream's workers have not taken yet, per partition; and
    how many of the topics of `rekey` they have not copied.

    What they have taken is known from the last records of their predictions and metrics. Offsets that workers commit
    are those of the last checkpoint, so they are older by up to the time between two checkpoints. Those that somebody
    else has committed say nothing: workers go on from their state.

    Raises
    ------
    TopicError
        An input topic is missing, or has another number of partitions than the stream file says.
    AccessError
        Kafka does not tell us of a consumer group.
    """
    names = stream_topics(spec)
    inputs = [names[role] for role in INPUTS if role in names]
    report = await check_topics(spec, connection)
    absent = [name for name in inputs if name in report.missing]
    if absent and spec.create_topics == "never":
        raise not_ours(spec, absent, str(connection))
    if absent:
        raise TopicError(
            f"Expected the topic{'' if len(absent) == 1 else 's'} {listing(absent)} of the stream {spec.name} at "
            f"{connection}, found none: start a worker or a replay, which create what is missing, or see topics in the "
            f"stream file."
        )
    check_sources(spec, report)
    sources = [TopicPartition(name, k) for name, n in report.sources.items() for k in range(n)]
    parts = [TopicPartition(name, k) for name in dict.fromkeys(inputs) for k in range(report.partitions[name])]
    group = spec.group
    outputs = [spec.topics.predictions, spec.topics.metrics]
    tails = [TopicPartition(name, k) for name in outputs for k in range(report.partitions.get(name, 0))]
    async with admin_client(connection) as client:
        bounds = await bounds_of(connection, [*sources, *parts, *tails])
        committed, workers = await _committed(client, connection, group)
        copied = (await _committed(client, connection, spec.rekey_group))[0] if sources else {}
    processed = await _processed(spec, connection, {tp: max(0, bounds[tp].end - TAIL) for tp in tails})
    rows = []
    for part in sources:
        offset = copied[part].offset if part in copied else None
        known = [] if offset is None else [offset]
        rows.append(lag_of(part, *bounds[part], known, offset)._replace(copied=True))
    for part in parts:
        found = committed.get(part)
        own = found.offset if found is not None and found.metadata == CHECKPOINT else None
        known = [offset for offset in (processed.get(part), own) if offset is not None]
        foreign = found.offset if found is not None and own is None else None
        rows.append(lag_of(part, *bounds[part], known, own)._replace(foreign=foreign))
    return LagReport(group, workers, tuple(rows))


async def _processed(
    spec: "Spec", connection: Connection, starts: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The next offsets of the input topics after the last of the predictions and metrics records from `starts` on."""
    codec, found = spec.make_codec(), dict[TopicPartition, int]()

    def take(tp: TopicPartition, records: list[Any]) -> None:
        for record in records:
            try:
                if tp.topic == spec.topics.predictions:
                    # Of its features a prediction names its own offset, not the next one.
                    value = codec.split_predictions(record.value)[-1]
                    place, after = codec.read_place(value), 0 if codec.index_bits.features else 1
                else:
                    place, after = reports.read_metrics(record.value)[1], 0
            except (ValueError, IndexError):  # not one of ours: that is for a worker to complain about
                continue
            offsets = place.offset + after, place.label_offset, *place.further()
            for topic, offset in zip(spec.input_topics.values(), offsets, strict=False):  # metrics name no further logs
                if topic:
                    part = TopicPartition(topic, tp.partition)
                    found[part] = max(offset, found.get(part, 0))

    await read_to_end(connection, starts, take)
    return found


async def _committed(
    client: Any, connection: Connection, group: str
) -> tuple[dict[TopicPartition, OffsetAndMetadata], int]:
    """What a group has committed, and how many members it has now."""
    try:
        offsets = await group_offsets(client, group)
        members = await group_members(client, group)
    except GroupAuthorizationFailedError as error:
        reason = Right(GROUP, group, DESCRIBE).sentence(connection)
        raise AccessError(f"Kafka at {connection}: {reason}") from error
    return {part: found for part, found in offsets.items() if found.offset >= 0}, members
