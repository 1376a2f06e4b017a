"""A campaign whose features and labels lie in topics as they are: other partitions than the stream's, and other keys.

What each partition of the stream must come to is then told by the copies, once these are known to be what was sent,
each record once.
"""

import asyncio
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import source_of
from tests.broker.harness import Sent
from tests.chaos.load import FEATURES, LABELS, POISON

N_SOURCES = {FEATURES: 6, LABELS: 4}


def fields(name: str) -> dict[str, Any]:
    """Of the stream file."""
    return {"partitions": 4, "rekey": {FEATURES: f"{name}.given-features", LABELS: f"{name}.given-labels"}}


def create_sources(spec: Spec, broker: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(topic, N_SOURCES[role], 1) for topic, role in spec.sources.items()])
            while not set(spec.sources) <= set(await admin.list_topics()):  # known a moment after they are made
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

    def __init__(self, records: dict[str, list[Any]]) -> None:
        self.records = records
        self.poison = {
            role: {r.offset for r in found if r.value in POISON[role]} for role, found in self.records.items()
        }
        self.n_labelled = sum(r.value not in POISON[LABELS] for r in self.records[LABELS])

    def good(self, role: str) -> list[int]:
        """Offsets of the records that can be read."""
        return [r.offset for r in self.records[role] if r.offset not in self.poison[role]]

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
    return [Copies(records) for records in found]


def differences(sources: Sources, copies: Sequence[Copies]) -> list[str]:
    """Sentences where a record was not copied once, unchanged."""
    found = Counter[tuple[str, int, int]]()
    said = []
    for k, partition in enumerate(copies):
        for role, records in partition.records.items():
            for r in records:
                place = source_of(r.headers)
                if place is None or place[2] >= len(sources.sent.get(place[:2], ())):
                    said.append(f"{role}[{k}] at {r.offset}: a copy of nothing that was sent, {place}")
                    continue
                found[place] += 1
                original = sources.sent[place[:2]][place[2]]
                if (r.key, r.value, r.timestamp) != (original.key, original.value, original.time):
                    said.append(f"{role}[{k}] at {r.offset}: not what was sent at {place}")
    lost = [(*tp, i) for tp, sent in sources.sent.items() for i in range(len(sent)) if (*tp, i) not in found]
    repeated = [place for place, n in found.items() if n > 1]
    if lost:
        said.append(f"copies: {len(lost)} lost, first of {lost[0]}")
    if repeated:
        said.append(f"copies: {len(repeated)} repeated, first of {repeated[0]}")
    return said
