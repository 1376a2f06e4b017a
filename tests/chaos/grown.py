"""A campaign whose features and labels get more partitions meanwhile, and whose records go to those of their keys."""

import asyncio
import json
from collections.abc import Sequence

from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.state.changelog import n_partitions
from riparian.app.stream_file.spec import Spec
from tests.broker.clients import Sent, wait_on
from tests.chaos.load import FEATURES, LABELS, POISON
from tests.chaos.rekeyed import Copies


class Growth:
    """Where records were sent.

    Attributes
    ----------
    n : partitions of both topics now
    """

    def __init__(self, spec: Spec) -> None:
        self.n = spec.partitions
        self._topics = {FEATURES: spec.topics.features, LABELS: str(spec.topics.labels)}
        self._predictions = spec.topics.predictions
        self._at: dict[str, dict[str, int]] = {FEATURES: {}, LABELS: {}}  # role -> id -> how many partitions there were

    def place(self, role: str, record: Sent) -> tuple[str, int]:
        """The partition that a record is sent to next, as Kafka's clients choose it."""
        if record.value not in POISON[role]:
            self._at[role][json.loads(record.value or b"")["id"]] = self.n
        return self._topics[role], int(partitions_of([record.key or b""], self.n)[0])

    def grow(self, broker: str) -> None:
        """Both topics, one after the other, to twice as many partitions."""

        async def more() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=broker, request_timeout_ms=120_000)
            await admin.start()
            try:
                for topic in self._topics.values():
                    await admin.create_partitions({topic: NewPartitions(2 * self.n)})
            finally:
                await admin.close()

        asyncio.run(more())
        self.n *= 2

    def settled(self, broker: str) -> bool:
        """Whether the stream has as many partitions."""
        return wait_on(n_partitions(Connection(broker), self._predictions)) == self.n

    def differences(self, made: Sequence[Copies]) -> list[str]:
        """A sentence where labels of instances that had come before them are nowhere beside these."""
        sent, labels = self._at[FEATURES], self._at[LABELS]
        wanted = sum(1 for id_, n in labels.items() if sent.get(id_, n + 1) <= n)
        found = sum(one.n_labelled for one in made)
        return [f"labels: {found} beside their instances, of {wanted}"] if found < wanted else []
