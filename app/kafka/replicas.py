"""Whether the topics that a stream writes have as many replicas as those that it learns from, and what gives them more:
a lost broker would be a lost state."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from riparian.app.errors import TopicError
from riparian.app.kafka.admin import admin_client, listing, stream_topics
from riparian.app.kafka.connection import Connection
from riparian.topics.names import FEATURES, INPUTS, changelog_topic

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec


class Replicas(NamedTuple):
    """Which brokers have a topic. parts : for each partition, the leader of choice first."""

    topic: str
    parts: list[list[int]]

    @property
    def least(self) -> int:
        """Of its partitions."""
        return min(map(len, self.parts), default=0)

    def more(self, n: int, brokers: Sequence[int]) -> list[dict[str, object]]:
        """The same with n replicas of each partition, spread over the brokers."""
        found: list[dict[str, object]] = []
        for partition, there in enumerate(self.parts):
            start = brokers.index(there[0]) if there and there[0] in brokers else partition
            others = [one for one in (*brokers[start % len(brokers) :], *brokers) if one not in there]
            chosen = [*there, *dict.fromkeys(others)][: max(n, len(there))]
            found.append({"topic": self.topic, "partition": partition, "replicas": chosen})
        return found


async def warnings(spec: "Spec", connection: Connection) -> list[str]:
    """What to say where topics of a stream have fewer replicas than its features. TopicError where they have fewer than
    `min_insync_replicas`."""
    async with admin_client(connection) as client:
        found = [
            Replicas(
                one["topic"], [part["replicas"] for part in sorted(one["partitions"], key=lambda p: p["partition"])]
            )
            for one in await client.describe_topics()
            if one["error_code"] == 0
        ]
        brokers = sorted(broker.nodeId for broker in client._client.cluster.brokers())
    return judged(spec, {one.topic: one for one in found}, brokers, str(connection))


def judged(spec: "Spec", there: Mapping[str, Replicas], brokers: Sequence[int], servers: str) -> list[str]:
    """As `warnings`, of what a cluster has. there : of each of its topics. servers : as the command names them."""
    names = stream_topics(spec)
    features = spec.copied.get(FEATURES, (names[FEATURES],))
    wanted = max((there[topic].least for topic in features if topic in there), default=0)
    inputs = {names[role] for role in INPUTS if role in names and role not in spec.copied}
    ours = [there[name] for name in (*names.values(), changelog_topic(spec.name)) if name in there]
    ours = [one for one in ours if one.topic not in inputs]
    least = spec.min_insync_replicas or 0
    if few := [one.topic for one in ours if one.least < least]:
        raise TopicError(
            f"min_insync_replicas: expected at most the replicas of {listing(few)}, found {least}: Kafka would take no "
            "record; lower it, or give the topics more replicas"
        )
    weak = [one for one in ours if one.least < wanted]
    if not weak:
        return []
    parts = [part for one in weak for part in one.more(wanted, brokers)]
    plan = str({"version": 1, "partitions": parts}).replace("'", '"')  # JSON: names of topics have no quotes
    have = ", ".join(f"{one.topic} {one.least}" for one in weak)
    return [
        f"fewer replicas than the features have ({wanted}): {have}; whoever loses such a broker's disk loses what is "
        f"learned. Give them as many: write {plan} to a file and run kafka-reassign-partitions.sh "
        f"--bootstrap-server {servers} --reassignment-json-file FILE --execute"
    ]
