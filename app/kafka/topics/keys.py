"""Whether the features and the label of an id can meet, and whether records have the features, by a sample of topics.

Each partition has a learner of its own, which joins what comes to it. Clients choose the partition of a record by its
key, and not all in the same way: Java's and most others use murmur2, librdkafka uses CRC-32 by default. If two topics
of four partitions are written in these two ways, three labels in four never meet their features, and there is no other
sign of it. Ids that are written in two ways, and times that lie further apart than the horizon, are as quiet.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from aiokafka.structs import TopicPartition
from numpy.typing import NDArray

from riparian.app.kafka.admin import rekey_lines
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_ends
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.partition.join import meeting
from riparian.app.partition.join.meeting import shown
from riparian.app.registry.client import Registry
from riparian.app.registry.stream_schemas import look_up
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.mapping import series_field
from riparian.topics.codecs import Codec
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import dotted
from riparian.topics.formats.common.json_text import read_object
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.places import index_of, offset_of
from riparian.topics.records import RawBatch, Rejected, Unknown, rejections
from riparian.topics.schemas import Key
from riparian.topics.vocabulary import MISSING, Vocabulary

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

SAMPLE = 4000  # records of a topic, at most: half of them the first of its partitions, half the last
INSTANCES = 500  # instances reckoned in a record that holds several
ENOUGH = 30  # records of a topic, or ids in both, to judge by
LEAST_SECONDS = 60  # of a topic, to know its rate
OPENED = 200  # records whose fields are looked at

LAST_MS = 253_402_300_800_000  # the year 10000
Place = tuple[int, int]  # offset of a record, and index of an instance in it; or partition and time


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
    late : of the ids in both, those whose times lie further apart than the horizon
    horizon : seconds
    times : median time of the records of each topic, ms; None where they have none
    examples : an id of each topic, where none is in both
    differ : in what these two differ, where they would be equal else
    """

    both: int
    apart: int
    features: Keys
    labels: Keys
    lines: str = ""
    late: int = 0
    horizon: float = 0.0
    times: tuple[int, int] | None = None
    examples: tuple[str, str] | None = None
    differ: str | None = None

    @property
    def broken(self) -> bool:
        """Whether this is no rest of an earlier time: of two partitioners, each id meets its label by chance."""
        return 3 * self.apart > self.both

    @property
    def strange(self) -> bool:
        """Whether there is enough to say that labels will not meet their features, though partitions fit."""
        if not self.both:
            return min(self.features.n, self.labels.n) >= ENOUGH
        return self.both >= ENOUGH and 2 * self.late > self.both

    def sentence(self) -> str:
        """For people, with the remedy if something is wrong."""
        topics = f"{self.features.topic} and {self.labels.topic}"
        if not self.both:
            return f"no id was found both in {topics}, among the first and last records{self._examples()}"
        if self.strange:
            return (
                f"of {self.both:,} ids that were found both in {topics}, {self.late:,} have a label whose time is "
                f"further from their features' than join.horizon, {format_duration(self.horizon)}, so it is not "
                f"joined: {self._times()}{self._unit()}"
            )
        if not self.apart:
            return f"{self.both:,} ids were found both in {topics}, all of them in the same partition"
        return (
            f"{self.apart:,} of {self.both:,} ids that were found both in {topics} have their label in another "
            f"partition than their features, where it is never joined: {self._cure()}"
            + (f"; or let workers copy both topics by id: {self.lines}" if self.lines else "")
        )

    def _examples(self) -> str:
        if self.examples is None:
            return ""
        ours, theirs = map(shown, self.examples)
        sentence = f": features have ids such as {ours}, labels such as {theirs}"
        if self.differ is not None:
            sentence += f", which are equal but {self.differ}: write both in one way"
        elif self.times is not None:
            sentence += f"; {self._times()}: labels that come later than topics keep records have none either"
        return sentence

    def _times(self) -> str:
        if self.times is None:
            return "their times are unknown"
        ours, theirs = (f"{datetime.fromtimestamp(t / 1000, UTC):%Y-%m-%d %H:%M}" for t in self.times)
        return f"{self.features.topic} stands at {ours}, {self.labels.topic} at {theirs}"

    def _unit(self) -> str:
        """What may be wrong with the times."""
        old = [keys.topic for keys, t in zip((self.features, self.labels), self.times or (), strict=False) if t < 1e11]
        if len(old) == 1:
            return f"; {old[0]} may be stamped in seconds instead of ms"
        return "; raise join.horizon if labels come that late, and else compare the clocks of both"

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


class IdSample(NamedTuple):
    """ids : None where there is nothing to compare. wrong : a sentence for each feature that no record has, and each
    reason why records are rejected. rate : instances a second of the partition that has most, by their times; None
    where these say nothing."""

    ids: Ids | None
    wrong: list[str]
    rate: float | None = None


async def sample(spec: "Spec", connection: Connection, first: bool = True) -> IdSample:
    """Look at the last records of the features and labels, and at the first ones if wanted. Both topics must exist."""
    topics = (spec.topics.features, *([spec.topics.labels] if spec.topics.labels is not None else []))
    parts = [TopicPartition(topic, k) for topic in topics for k in range(spec.partitions)]
    n = max(1, SAMPLE // (2 * spec.partitions))
    if any(spec.make_codec().index_bits):
        n = max(1, n // INSTANCES)  # a record holds so many, say
    found: dict[TopicPartition, dict[Place, _Seen]] = {part: {} for part in parts}
    rejected: dict[str, list[Rejected]] = {topic: [] for topic in topics}
    codec = spec.make_codec()
    unknown: set[Key] = set()

    def look(tp: TopicPartition, records: list[Any]) -> None:
        batch = RawBatch.of(records)
        unknown.update(codec.unknown(FEATURES if tp.topic == topics[0] else LABELS, batch))

    def take(tp: TopicPartition, records: list[Any]) -> None:
        known = found[tp]
        seen, wrong = _seen(spec, tp.topic, [record for record in records if (record.offset, 0) not in known])
        known.update(seen)
        rejected[tp.topic] += wrong

    registry = Registry.of(spec)
    if registry is not None:
        await read_ends(connection, parts, n, look, first=first)
        await look_up(registry, spec, unknown)
    await read_ends(connection, parts, n, take, first=first)
    wrong = _absent(spec, [seen for tp, by in found.items() if tp.topic == topics[0] for seen in by.values()])
    for topic in topics:
        wrong += rejections(rejected[topic], sum(len(by) for tp, by in found.items() if tp.topic == topic), topic)
    rate = max(filter(None, (_rate(by) for tp, by in found.items() if tp.topic == topics[0])), default=None)
    if len(topics) == 1:
        return IdSample(None, wrong, rate)
    features, about_features = _summed(spec, topics[0], found)
    labels, about_labels = _summed(spec, topics[1], found)
    if not features or not labels:
        return IdSample(None, wrong, rate)
    both = features.keys() & labels.keys()
    apart = sum({k for k, _ in features[i]}.isdisjoint(k for k, _ in labels[i]) for i in both)
    horizon = spec.join.horizon * 1000
    late = sum(min(abs(t - u) for _, t in features[i] for _, u in labels[i]) > horizon for i in both)
    ids = Ids(len(both), apart, about_features, about_labels, "" if spec.copied else rekey_lines(spec), late)
    ids = ids._replace(horizon=spec.join.horizon, times=_times(features, labels))
    if not both:
        differ, ours, theirs = meeting.written_otherwise(features, labels) or (None, min(features), min(labels))
        ids = ids._replace(examples=(ours, theirs), differ=differ)
    return IdSample(ids, wrong, rate)


def _rate(seen: "Mapping[Place, _Seen]") -> float | None:
    """Instances a second of a partition, from the first to the last that was looked at; None where that is less than a
    minute."""
    timed = {place: one.time for place, one in seen.items() if 0 <= one.time < LAST_MS}
    if not timed:
        return None
    first, last = min(timed), max(timed)
    seconds = (timed[last] - timed[first]) / 1000
    each = len(timed) / len({offset for offset, _ in timed})
    return (last[0] - first[0]) * each / seconds if seconds >= LEAST_SECONDS else None


def _times(*topics: Mapping[str, set[tuple[int, int]]]) -> tuple[int, int] | None:
    """The median time of the records of each."""
    found = [[t for places in by_id.values() for _, t in places if t >= 0] for by_id in topics]
    ours, theirs = (int(median(times)) if times else -1 for times in found)
    return (ours, theirs) if min(ours, theirs) >= 0 and max(ours, theirs) < LAST_MS else None


def _absent(spec: "Spec", seen: "list[_Seen]") -> list[str]:
    """A sentence for each feature of the stream file that no record has, and for the field of `label.by`."""
    found = [one.has for one in seen if one.has is not None]
    if len(found) < ENOUGH:
        return []
    mapping, sentences = spec.mapping(), []
    paths = {feature.path: "it is learned as missing" for feature in mapping.features[: mapping.n_columns]}
    series = series_field(spec)  # other fields are read for keys alone
    paths |= {} if series is None else {series[1]: "none gets a label"}
    for (path, so), has in zip(paths.items(), np.logical_or.reduce(found), strict=True):
        if not has:
            where = path[:-1] if header_of(path) is None else ()
            there = {name for one in seen if one.value is not None for name in _names(one.value, where)}
            sentences.append(meeting.absent(dotted(path), len(found), there, so))
    return sentences


def _names(value: bytes, path: tuple[str, ...]) -> list[str]:
    """Names of the fields of the object that stands there; none where the record is no JSON."""
    try:
        found: Any = read_object(value)
    except ValueError:
        return []
    for name in ("payload", "after", "data", *path):
        inner = found.get(name) if isinstance(found, dict) else None
        if name in path and not isinstance(inner, dict | list):
            return []
        found = inner if isinstance(inner, dict | list) else found
        found = found[0] if isinstance(found, list) and found else found
    return list(found) if isinstance(found, dict) else []


class _Seen(NamedTuple):
    """What is kept of a record, which may be large. id, has : None where it cannot be read. time : ms, -1 for none.
    has : which features are not missing, and at last the field of `label.by` (series_field). value : of the first
    ones."""

    id: str | None
    key: bytes | None
    time: int = -1
    has: NDArray[np.bool_] | None = None
    value: bytes | None = None


def _seen(spec: "Spec", topic: str, records: list[Any]) -> tuple[dict[Place, _Seen], list[Rejected]]:
    """Offset and index of each instance -> what is kept of it. And those that are rejected."""
    role, codec = FEATURES if topic == spec.topics.features else LABELS, spec.make_codec()
    bits = codec.index_bits.of(role)
    batch, columns, positions = decoded(spec, codec, role, records, spec.class_vocabulary())
    ids = dict(zip(positions, columns.ids, strict=True))
    has = dict[int, NDArray[np.bool_]]()
    if role == FEATURES:
        there = ~np.isnan(columns.x)
        if (series := series_field(spec)) is not None:
            there = np.column_stack([there, [text not in MISSING for text in columns.keys[series[0]]]])
        if columns.sizes is not None:
            rows = np.repeat(np.arange(len(columns.sizes)), columns.sizes)
            there = np.array([there[rows == i].any(axis=0) for i in range(len(columns.sizes))])
        has = dict(zip(positions, there, strict=True))
    seen = {
        (offset_of(place, bits), index_of(place, bits)): _Seen(
            ids.get(i), key, int(batch.timestamps[i]), has.get(i), _kept(batch.values[i]) if i < OPENED else None
        )
        for i, (place, key) in enumerate(zip(batch.offsets, batch.keys, strict=True))
    }
    return seen, [one for one in columns.rejected if not one.ignored]


def decoded(
    spec: "Spec", codec: Codec, role: str, records: list[Any], classes: Vocabulary | None
) -> tuple[RawBatch, Any, list[int]]:
    """The instances or labels of records, what was read of them, and the places of those that can be read. Those whose
    schema is not known cannot."""
    batch = codec.unpack(role, RawBatch.of(records))
    for unknown in codec.unknown(role, batch).values():
        for i in unknown:
            batch.values[i] = Unknown(batch.values[i] or b"")
    if role == FEATURES:
        columns: Any = codec.decode_features(batch, spec.vocabularies(recorded=True), classes)
    else:
        columns = codec.decode_labels(batch, classes)
    return batch, columns, list(range(len(batch))) if columns.position is None else list(columns.position)


def _kept(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes) and len(value) <= 65_536 else None


def _summed(
    spec: "Spec", topic: str, found: Mapping[TopicPartition, Mapping[Place, _Seen]]
) -> tuple[dict[str, set[Place]], Keys]:
    """Id -> partition and time of where it was found, and what the keys are."""
    where = dict[str, set[Place]]()
    n = keyless = murmur2 = 0
    for (name, partition), by_offset in found.items():
        if name != topic or not by_offset:
            continue
        for seen in by_offset.values():
            if seen.id is not None:
                where.setdefault(seen.id, set()).add((partition, seen.time))
        keys = [seen.key for seen in by_offset.values() if seen.key is not None]
        n += len(by_offset)
        keyless += len(by_offset) - len(keys)
        murmur2 += int((partitions_of(keys, spec.partitions) == partition).sum()) if keys else 0
    role = FEATURES if topic == spec.topics.features else LABELS
    return where, Keys(topic, n, keyless, murmur2, bool(spec.make_codec().index_bits.of(role)))
