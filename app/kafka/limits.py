"""How large a batch Kafka takes in a topic."""

from collections.abc import Sequence

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

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
        answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    finally:
        await client.close()
    found = dict.fromkeys(topics, BY_DEFAULT)
    for _, _, _, topic, entries in (resource for answer in answers for resource in answer.resources):
        for entry in entries:
            if entry[0] == MAX_MESSAGE_BYTES and entry[1] is not None:
                found[topic] = int(entry[1])
    return found
