"""Whether the features and the label of an id are in the same partition, by a sample of both topics.

Each partition has a learner of its own, which joins what comes to it. Clients choose the partition of a record by its
key, and not all in the same way: Java's and most others use murmur2, librdkafka uses CRC-32 by default. If two topics
of four partitions are written in these two ways, three labels in four never meet their features, and there is no other
sign of it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.structs import TopicPartition

from app.kafka.admin import rekey_lines
from app.kafka.connection import Connection
from app.kafka.partitioner import partitions_of
from app.kafka.reading import read_to_end
from app.registry.client import Registry
from app.registry.telling import tell
from topics.names import FEATURES, LABELS
from topics.places import index_of, offset_of
from topics.records import RawBatch, Unknown
from topics.schemas import Key

if TYPE_CHECKING:
    from app.stream_file.spec import Spec

SAMPLE = 4000  # records of a topic, at most: half of them the first of its partitions, half the last
NOWHERE = 2**62
INSTANCES = 500  # of a record that holds several

Place = tuple[int, int]  # offset of a record, and index of an instance in it


class Keys(NamedTuple):
    """What was found in a sample of one topic.

    n : records that can be read
    keyless : those without a key
    murmur2 : those with a key that are where murmur2 sends it
    batched : whether a record holds many instances, whose key is not theirs
    """

    topic: str
    n: int
    keyless: int
    murmur2: int
    batched: bool = False


class Ids(NamedTuple):
    """What two samples have in common.

    both : ids that were found in both topics
    apart : those whose label is in no partition of their features
    lines : what to write in the stream file so that workers copy both
    """

    both: int
    apart: int
    features: Keys
    labels: Keys
    lines: str = ""

    @property
    def broken(self) -> bool:
        """Whether this is no rest of an earlier time: of two partitioners, each id meets its label by chance."""
        return 3 * self.apart > self.both

    def sentence(self) -> str:
        """For people, with the remedy if something is wrong."""
        topics = f"{self.features.topic} and {self.labels.topic}"
        if not self.both:
            return f"no id was found both in {topics}, among the first and last records"
        if not self.apart:
            return f"{self.both:,} ids were found both in {topics}, all of them in the same partition"
        return (
            f"{self.apart:,} of {self.both:,} ids that were found both in {topics} have their label in another "
            f"partition than their features, where it is never joined: {self._cure()}"
            + (f"; or let workers copy both topics by id: {self.lines}" if self.lines else "")
        )

    def _cure(self) -> str:
        if self.features.batched or self.labels.batched:
            return "write each instance and its label into the partition that murmur2 gives its id, as replays do"
        for keys in (self.features, self.labels):
            if 2 * keys.keyless > keys.n:
                return f"records of {keys.topic} have no key, so give both topics the id as their key"
        odd = [keys.topic for keys in (self.features, self.labels) if keys.murmur2 < 0.9 * keys.n]
        if len(odd) == 1:
            return (
                f"{odd[0]} is not partitioned by murmur2, as the other one is, so write it with the same partitioner "
                "(of librdkafka: partitioner=murmur2_random)"
            )
        return (
            "write both with the id as their key and the same partitioner (of librdkafka: partitioner=murmur2_random)"
        )


async def sample(spec: "Spec", connection: Connection, first: bool = True) -> Ids | None:
    """Look at the last records of the features and labels, and at the first ones if wanted. None where there is nothing
    to compare: one partition, no topic of labels, or one that is empty. Both topics must exist."""
    if spec.partitions == 1 or spec.topics.labels is None:
        return None
    topics = (spec.topics.features, spec.topics.labels)
    parts = [TopicPartition(topic, k) for topic in topics for k in range(spec.partitions)]
    bounds = await read_to_end(connection, dict.fromkeys(parts, NOWHERE), lambda tp, records: None)
    n = max(1, SAMPLE // (2 * spec.partitions))
    if any(spec.make_codec().index_bits):
        n = max(1, n // INSTANCES)  # a record holds so many, say
    found: dict[TopicPartition, dict[Place, _Seen]] = {part: {} for part in parts}
    codec = spec.make_codec()
    unknown: set[Key] = set()

    def look(tp: TopicPartition, records: list[Any]) -> None:
        batch = RawBatch.of(records)
        unknown.update(codec.unknown_features(batch) if tp.topic == topics[0] else codec.unknown_labels(batch))

    def take(tp: TopicPartition, records: list[Any]) -> None:
        known = found[tp]
        known.update(_seen(spec, tp.topic, [record for record in records if (record.offset, 0) not in known]))

    async def read(take: Callable[[TopicPartition, list[Any]], None]) -> None:
        if first:
            starts, stops = ({tp: b.first + at for tp, b in bounds.items()} for at in (0, n))
            await read_to_end(connection, starts, take, stops)
        await read_to_end(connection, {tp: max(b.first, b.end - n) for tp, b in bounds.items()}, take)

    registry = Registry.of(spec)
    if registry is not None:
        await read(look)
        await tell(registry, spec, unknown)
    await read(take)
    features, about_features = _summed(spec, topics[0], found)
    labels, about_labels = _summed(spec, topics[1], found)
    if not features or not labels:
        return None
    both = features.keys() & labels.keys()
    apart = sum(features[i].isdisjoint(labels[i]) for i in both)
    return Ids(len(both), apart, about_features, about_labels, "" if spec.copied else rekey_lines(spec))


class _Seen(NamedTuple):
    """What is kept of a record, which may be large. id : None where it cannot be read."""

    id: str | None
    key: bytes | None


def _seen(spec: "Spec", topic: str, records: list[Any]) -> dict[Place, _Seen]:
    """Offset and index of each instance -> what is kept of it."""
    is_features = topic == spec.topics.features
    role, codec = FEATURES if is_features else LABELS, spec.make_codec()
    batch, bits = codec.unpack(role, RawBatch.of(records)), codec.index_bits.of(role)
    for unknown in (codec.unknown_features(batch) if is_features else codec.unknown_labels(batch)).values():
        for i in unknown:
            batch.values[i] = Unknown(batch.values[i] or b"")
    if topic == spec.topics.features:
        decoded: Any = codec.decode_features(batch, spec.vocabularies(), spec.class_vocabulary())
    else:
        decoded = codec.decode_labels(batch, spec.class_vocabulary())
    positions = range(len(batch)) if decoded.position is None else decoded.position
    ids = dict(zip(positions, decoded.ids, strict=True))
    return {
        (offset_of(place, bits), index_of(place, bits)): _Seen(ids.get(i), key)
        for i, (place, key) in enumerate(zip(batch.offsets, batch.keys, strict=True))
    }


def _summed(
    spec: "Spec", topic: str, found: Mapping[TopicPartition, Mapping[Place, _Seen]]
) -> tuple[dict[str, set[int]], Keys]:
    """Id -> the partitions where it was found, and what the keys are."""
    where = dict[str, set[int]]()
    n = keyless = murmur2 = 0
    for (name, partition), by_offset in found.items():
        if name != topic or not by_offset:
            continue
        for seen in by_offset.values():
            if seen.id is not None:
                where.setdefault(seen.id, set()).add(partition)
        keys = [seen.key for seen in by_offset.values() if seen.key is not None]
        n += len(by_offset)
        keyless += len(by_offset) - len(keys)
        murmur2 += int((partitions_of(keys, spec.partitions) == partition).sum()) if keys else 0
    role = FEATURES if topic == spec.topics.features else LABELS
    return where, Keys(topic, n, keyless, murmur2, bool(spec.make_codec().index_bits.of(role)))
