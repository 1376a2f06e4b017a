"""How far ahead of its own clock Kafka lets producers stamp the records of a topic.

After four records in a row with timestamps years ahead, everything that waits expires (app/partition/clock.py). Kafka
can refuse such records when they are produced, so that their producer gets an error. Producers' clocks differ by
seconds, so a minute is enough; by default Kafka 4 accepts up to an hour, and older brokers any timestamp.
"""

from collections.abc import Sequence

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from riparian.app.kafka.admin import admin_client
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.durations import format_duration
from riparian.topics.names import TIMESTAMP_AFTER, TIMESTAMP_AFTER_MS

DIFFERENCE = "message.timestamp.difference.max.ms"  # before Kafka 3.6, and beside the other one until 4.0
YEAR_MS = 365 * 86_400_000


async def warnings(connection: Connection, topics: Sequence[str]) -> list[str]:
    """A sentence for each of the (existing) topics that accepts timestamps far ahead."""
    async with admin_client(connection) as client:
        answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    found = []
    for _, _, _, topic, entries in (resource for answer in answers for resource in answer.resources):
        configs = {entry[0]: entry[1] for entry in entries}
        if configs.get("message.timestamp.type") == "LogAppendTime":
            continue  # the broker's own clock
        known = [name for name in (TIMESTAMP_AFTER, DIFFERENCE) if configs.get(name) is not None]
        if not known:
            continue  # not ours to read
        ahead = min(int(configs[name]) for name in known)
        if ahead <= TIMESTAMP_AFTER_MS:
            continue
        how = f"up to {format_duration(ahead / 1000)} ahead" if ahead < YEAR_MS else "with any time ahead"
        found.append(
            f"{topic} takes records stamped {how}, and a few of these in a row would make all that waits expire: "
            f"kafka-configs.sh --bootstrap-server {connection} --alter --entity-type topics --entity-name {topic} "
            f"--add-config {TIMESTAMP_AFTER if TIMESTAMP_AFTER in known else DIFFERENCE}={TIMESTAMP_AFTER_MS}"
        )
    return found
