"""The first and the last records of a topic, as JSON objects: what `riparian init` guesses from."""

from typing import Any

from aiokafka.structs import TopicPartition

from riparian.app.dataset.guess_records import Message, Sampled
from riparian.app.errors import TopicError
from riparian.app.kafka.admin import admin_client
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.topics.formats.json_text import read_object

RECORDS = 4000  # of a topic, at most: half of them the first of its partitions, half the last
NOWHERE = 2**62


async def sample(connection: Connection, topic: str, sibling: str | None = None) -> tuple[Sampled, bool]:
    """Records of a topic, and whether there is a topic called `sibling`.

    Raises
    ------
    TopicError
        There is no such topic.
    BrokerError, KafkaError
    """
    async with admin_client(connection) as client:
        # All topics are asked for: a request that names a topic would create it where the broker creates topics.
        present = {found["topic"]: found["partitions"] for found in await client.describe_topics()}
    if topic not in present:
        raise TopicError(f"Kafka at {connection} has no topic {topic}: check --from-topic, --labels and --broker")
    parts = [TopicPartition(topic, part["partition"]) for part in present[topic]]
    replication = min(len(part["replicas"]) for part in present[topic])
    found: dict[tuple[TopicPartition, int], Any] = {}

    def take(tp: TopicPartition, records: list[Any]) -> None:
        found.update(((tp, record.offset), record) for record in records)

    bounds = await read_to_end(connection, dict.fromkeys(parts, NOWHERE), take)
    n = max(1, RECORDS // (2 * len(parts)))
    await read_to_end(
        connection, {tp: b.first for tp, b in bounds.items()}, take, {tp: b.first + n for tp, b in bounds.items()}
    )
    await read_to_end(connection, {tp: max(b.first, b.end - n) for tp, b in bounds.items()}, take)
    messages, skipped = [], 0
    for (tp, _), record in found.items():
        try:
            fields = read_object(record.value)
        except ValueError:
            skipped += 1
            continue
        key, headers = _text(record.key), tuple(record.headers or ())
        messages.append(Message(key, fields, record.timestamp, record.value, headers, tp.partition))
    return Sampled(topic, messages, len(parts), replication, skipped), sibling in present


def _text(key: bytes | None) -> str | None:
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return None
