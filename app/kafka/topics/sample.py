"""The first and the last records of a topic, as JSON objects: what `riparian init` guesses from."""

from typing import Any

from aiokafka.structs import TopicPartition

from riparian.app.dataset.guessing.from_topic import Message, TopicSample
from riparian.app.errors import TopicError
from riparian.app.kafka.admin import admin_client, described
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_ends
from riparian.topics.formats.common.json_text import read_object

RECORDS = 4000  # largest sample of a topic: half are the first of its partitions, half the last


async def sample(connection: Connection, topic: str, sibling: str | None = None) -> tuple[TopicSample, bool]:
    """Records of a topic, and whether there is a topic called `sibling`.

    Raises
    ------
    TopicError
        There is no such topic.
    BrokerError, KafkaError
    """
    async with admin_client(connection) as client:
        present = await described(client, [topic] if sibling is None else [topic, sibling])
    if topic not in present:
        raise TopicError(f"Kafka at {connection} has no topic {topic}: check --from-topic, --labels and --broker")
    partitions = present[topic]["partitions"]
    parts = [TopicPartition(topic, part["partition"]) for part in partitions]
    replication = min(len(part["replicas"]) for part in partitions)
    found: dict[tuple[TopicPartition, int], Any] = {}

    def take(tp: TopicPartition, records: list[Any]) -> None:
        found.update(((tp, record.offset), record) for record in records)

    await read_ends(connection, parts, max(1, RECORDS // (2 * len(parts))), take)
    messages, skipped = [], 0
    for (tp, _), record in found.items():
        try:
            fields = read_object(record.value)
        except ValueError:
            skipped += 1
            continue
        key, headers = _text(record.key), tuple(record.headers or ())
        messages.append(Message(key, fields, record.timestamp, record.value, headers, tp.partition))
    return TopicSample(topic, messages, len(parts), replication, skipped), sibling in present


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
