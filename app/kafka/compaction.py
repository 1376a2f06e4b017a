"""Topics that a stream writes, and that Kafka compacts: records of one key replace each other, and one without a key is
refused."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from riparian.app.kafka.admin import admin_client, stream_topics
from riparian.app.kafka.connection import Connection
from riparian.topics.names import INPUTS

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

POLICY = "cleanup.policy"


async def warnings(spec: "Spec", connection: Connection) -> list[str]:
    """A sentence for each topic of a stream that is there, that workers write, and that is compacted."""
    ours = {name for role, name in stream_topics(spec).items() if role not in INPUTS or role in spec.copied}
    async with admin_client(connection) as client:
        # All topics are asked for: a request that names one may create it.
        there = sorted(ours & {one["topic"] for one in await client.describe_topics() if one["error_code"] == 0})
        if not there:
            return []
        answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in there])
    policies = {
        topic: next((entry[1] for entry in entries if entry[0] == POLICY), None)  # None: not ours to read
        for answer in answers
        for _, _, _, topic, entries in answer.resources
    }
    return judged(policies, str(connection))


def judged(policies: Mapping[str, str | None], servers: str) -> list[str]:
    """As `warnings`. policies : topic -> what it says. servers : as the command names them."""
    return [
        f"{topic} has {POLICY}={policy}: records of one key replace each other, and one without a key is refused: "
        f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {POLICY}=delete"
        for topic, policy in policies.items()
        if "compact" in (policy or "")
    ]
