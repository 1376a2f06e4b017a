"""Whether the features and the label of an id come to the same partition, seen in a sample of both topics.

Each partition has a learner of its own, which joins what comes to it. Clients choose the partition of a record by its
key, and not all in the same way: Java's and most others take murmur2, librdkafka takes CRC-32 unless it is told
otherwise. Of two topics written in two ways, with four partitions, three labels in four never meet their features, and
nothing else goes wrong.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokafka.structs import TopicPartition

from app.replay import partitions_of
from app.worker.reading import read_to_end
from topics.codecs import CODECS
from topics.records import RawBatch

if TYPE_CHECKING:
    from app.stream_file.spec import Spec

SAMPLE = 4000  # records of a topic, at most: half of them the first of its partitions, half the last
NOWHERE = 2**62


class Keys(NamedTuple):
    """What was found in a sample of one topic. n : records that can be read. keyless : those without a key.
    murmur2 : those with a key that are where murmur2 sends it."""

    topic: str
    n: int
    keyless: int
    murmur2: int


class Ids(NamedTuple):
    """both : ids that were found in both topics. apart : those whose label is in no partition of their features."""

    both: int
    apart: int
    features: Keys
    labels: Keys

    @property
    def broken(self) -> bool:
        """Whether this is no rest of an earlier time: of two partitioners, each id meets its label by chance."""
        return 3 * self.apart > self.both

    def sentence(self) -> str:
        """For people, with the cure where there is something to mend."""
        topics = f"{self.features.topic} and {self.labels.topic}"
        if not self.both:
            return f"no id was found both in {topics}, among the first and last records"
        if not self.apart:
            return f"{self.both:,} ids were found both in {topics}, all of them in the same partition"
        return (
            f"{self.apart:,} of {self.both:,} ids that were found both in {topics} have their label in another "
            f"partition than their features, where it is never joined: {self._cure()}"
        )

    def _cure(self) -> str:
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


async def sample(spec: "Spec", broker: str) -> Ids | None:
    """Look at the first and last records of the features and labels. None where there is nothing to compare: one
    partition, no topic of labels, or one that is empty. Both topics must exist."""
    if spec.partitions == 1 or spec.topics.labels is None:
        return None
    topics = (spec.topics.features, spec.topics.labels)
    parts = [TopicPartition(topic, k) for topic in topics for k in range(spec.partitions)]
    bounds = await read_to_end(broker, dict.fromkeys(parts, NOWHERE), lambda tp, records: None)
    n = max(1, SAMPLE // (2 * spec.partitions))
    found: dict[TopicPartition, dict[int, Any]] = {part: {} for part in parts}

    def take(tp: TopicPartition, records: list[Any]) -> None:
        found[tp] |= {record.offset: record for record in records}

    await read_to_end(
        broker, {tp: b.first for tp, b in bounds.items()}, take, {t: b.first + n for t, b in bounds.items()}
    )
    await read_to_end(broker, {tp: max(b.first, b.end - n) for tp, b in bounds.items()}, take)
    features, about_features = _read(spec, topics[0], found)
    labels, about_labels = _read(spec, topics[1], found)
    if not features or not labels:
        return None
    both = features.keys() & labels.keys()
    return Ids(len(both), sum(features[i].isdisjoint(labels[i]) for i in both), about_features, about_labels)


def _read(
    spec: "Spec", topic: str, found: Mapping[TopicPartition, Mapping[int, Any]]
) -> tuple[dict[str, set[int]], Keys]:
    """Id -> the partitions where it was found, and what the keys are."""
    codec, where = CODECS[spec.codec](spec.mapping()), dict[str, set[int]]()
    n = keyless = murmur2 = 0
    for (name, partition), by_offset in found.items():
        if name != topic or not by_offset:
            continue
        records = list(by_offset.values())
        batch = RawBatch(
            [r.offset for r in records], [r.timestamp for r in records], [r.key for r in records],
            [r.value for r in records],
        )  # fmt: skip
        if topic == spec.topics.features:
            decoded: Any = codec.decode_features(batch, spec.vocabularies(), spec.class_vocabulary())
        else:
            decoded = codec.decode_labels(batch, spec.class_vocabulary())
        for id_ in decoded.ids:
            where.setdefault(id_, set()).add(partition)
        keys = [key for key in batch.keys if key is not None]
        n += len(records)
        keyless += len(records) - len(keys)
        murmur2 += int((partitions_of(keys, spec.partitions) == partition).sum()) if keys else 0
    return where, Keys(topic, n, keyless, murmur2)
