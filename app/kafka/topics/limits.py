"""How large a batch Kafka takes in a topic."""

from collections.abc import Sequence

from riparian.app.kafka.admin import configs_of
from riparian.app.kafka.connection import Connection

BY_DEFAULT = 1_048_588
MAX_MESSAGE_BYTES = "max.message.bytes"


async def largest_batches(connection: Connection, topics: Sequence[str]) -> dict[str, int]:
    """max.message.bytes of each topic; Kafka's own default where that is not ours to read.

    Raises
    ------
    KafkaError
        The broker does not answer.
    """
    client = connection.admin()
    try:
        await client.start()
        found = await configs_of(client, topics)
    finally:
        await client.close()
    return {topic: int(found.get(topic, {}).get(MAX_MESSAGE_BYTES) or BY_DEFAULT) for topic in topics}
