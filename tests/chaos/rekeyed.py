"""A campaign whose features and labels lie in topics as they are: other partitions than the stream's, and other keys.

What each partition of the stream must come to is then told by the copies, once these are known to be what was sent,
each record once.
"""

import asyncio
import json
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from riparian.app.kafka.admin import partition_counts
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import source_of
from tests.broker.clients import Sent
from tests.chaos.load import FEATURES, LABELS, POISON

N_SOURCES = {FEATURES: 6, LABELS: 4}


def fields(name: str, by: str | None, labels: bool) -> dict[str, Any]:
    """Of the stream file. labels : whether it has a topic of them."""
    sources = {role: f"{name}.given-{role}" for role in (FEATURES, LABELS) if role == FEATURES or labels}
    return {"partitions": 4, "rekey": {**sources, "by": by}}


def create_sources(spec: Spec, broker: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, N_SOURCES[role], 1) for topic, role in spec.sources.items()])
            while (await partition_counts(admin, spec.sources)).keys() < {*spec.sources}:  # known a moment later
                await asyncio.sleep(0.02)
        finally:
            await admin.close()

    asyncio.run(create())


class Sources:
    """What was sent where.

    Attributes
    ----------
    sent : of each partition of a source topic, its records in order
    """

    def __init__(self, spec: Spec) -> None:
        self._topics = {role: topic for topic, role in spec.sources.items()}
        self.sent: dict[tuple[str, int], list[Sent]] = {
            (topic, k): [] for role, topic in self._topics.items() for k in range(N_SOURCES[role])
        }

    def place(self, role: str, record: Sent) -> tuple[str, int]:
        """The partition that a record is sent to next: by a hash that is neither Kafka's nor of the same in both."""
        tp = self._topics[role], zlib.crc32(role.encode() + (record.key or b"")) % N_SOURCES[role]
        self.sent[tp].append(record)
        return tp

    @property
    def n(self) -> int:
        return sum(map(len, self.sent.values()))


class Copies:
    """The copies of one partition of the stream, as a worker reads them, in place of a `load.Generator`."""

    def __init__(self, records: dict[str, list[Any]], ahead: float | None) -> None:
        """ahead : seconds after which the record of a card is the label of one before it."""
        self.records = records
        self.poison = {
            role: {r.offset for r in found if r.value in POISON[role]} for role, found in self.records.items()
        }
        of = {role: [json.loads(r.value)["id"] for r in self._readable(role)] for role in POISON}
        # A label may have been copied to partitions that do not know its instance, or handed on to one twice.
        self.n_labelled = len({*of[FEATURES]} & {*of[LABELS]}) if ahead is None else self._n_followed(1000 * ahead)

    def _n_followed(self, ahead: float) -> int:
        """Records that one of the same card labels, at least `ahead` ms later: each behind those that came before."""
        waiting, n = defaultdict[str, deque[int]](deque), 0
        for record in self._readable(FEATURES):
            of_card = waiting[json.loads(record.value)["card"]]
            while of_card and of_card[0] <= record.timestamp - ahead:
                of_card.popleft()
                n += 1
            of_card.append(record.timestamp)
        return n

    def _readable(self, role: str) -> list[Any]:
        return [r for r in self.records[role] if r.offset not in self.poison[role]]

    def good(self, role: str) -> list[int]:
        """Offsets of the records that can be read."""
        return [r.offset for r in self._readable(role)]

    def end(self, role: str) -> int:
        return max((r.offset + 1 for r in self.records[role]), default=0)


def read_copies(broker: str, spec: Spec) -> list[Copies]:
    """Of each partition of the stream."""
    roles = {topic: role for role, topic, _ in spec.inputs if role in POISON}
    found: list[dict[str, list[Any]]] = [{role: [] for role in POISON} for _ in range(spec.partitions)]
    starts = {TopicPartition(topic, k): 0 for topic in roles for k in range(spec.partitions)}
    asyncio.run(
        read_to_end(
            Connection(broker), starts, lambda tp, records: found[tp.partition][roles[tp.topic]].extend(records)
        )
    )
    return [Copies(records, spec.label.ahead) for records in found]


def differences(spec: Spec, sources: Sources, copies: Sequence[Copies]) -> list[str]:
    """Sentences where a record was not copied once, unchanged; by a key, where a label that has an id was not copied to
    each partition."""
    found = Counter[tuple[str, int, int]]()
    n_labels = len(copies) if spec.rekey is not None and spec.rekey.by else 1
    wanted = {
        (*tp, i): n_labels if spec.sources[tp[0]] == LABELS and record.value not in POISON[LABELS] else 1
        for tp, sent in sources.sent.items()
        for i, record in enumerate(sent)
    }
    said, repeated = list[str](), list[tuple[str, int, int]]()
    for k, partition in enumerate(copies):
        in_this = Counter[tuple[str, int, int]]()
        for role, records in partition.records.items():
            for r in records:
                place = source_of(r.headers)
                if place is None or place[2] >= len(sources.sent.get(place[:2], ())):
                    said.append(f"{role}[{k}] at {r.offset}: a copy of nothing that was sent, {place}")
                    continue
                found[place] += 1
                in_this[place] += 1
                original = sources.sent[place[:2]][place[2]]
                if (r.key, r.value, r.timestamp) != (original.key, original.value, original.time):
                    said.append(f"{role}[{k}] at {r.offset}: not what was sent at {place}")
        repeated += [place for place, n in in_this.items() if n > 1]
    lost = [place for place, n in wanted.items() if found[place] < n]
    repeated += [place for place, n in found.items() if n > wanted[place]]
    if lost:
        said.append(f"copies: {len(lost)} lost, first of {lost[0]}")
    if repeated:
        said.append(f"copies: {len(repeated)} repeated, first of {repeated[0]}")
    return said
