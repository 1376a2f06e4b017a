"""What to warn of before a worker runs: topics with too few replicas, that are compacted, or whose records may be
stamped years ahead."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from riparian.app.errors import TopicError
from riparian.app.kafka.admin import admin_client, configs_of, described, listing, stream_topics
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.durations import format_duration
from riparian.topics.names import FEATURES, INPUTS, TIMESTAMP_AFTER, TIMESTAMP_AFTER_MS, changelog_topic

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

POLICY = "cleanup.policy"
DIFFERENCE = "message.timestamp.difference.max.ms"  # before Kafka 3.6, and beside TIMESTAMP_AFTER until 4.0
YEAR_MS = 365 * 86_400_000

Configs = Mapping[str, Mapping[str, str | None]]  # topic -> its settings, none where they are not ours to read
Replicas = Mapping[str, Sequence[Sequence[int]]]  # topic -> brokers of each partition, the leader of choice first


async def warnings(spec: "Spec", connection: Connection, inputs: Sequence[str] = ()) -> list[str]:
    """A sentence for each thing to mend in the topics that are there. TopicError where some have fewer replicas than
    `min_insync_replicas`. inputs : topics whose timestamps are looked at, too."""
    names, servers = stream_topics(spec), str(connection)
    ours = {name for role, name in names.items() if role not in INPUTS or role in spec.copied}
    async with admin_client(connection) as client:
        found = await described(client, {*names.values(), *spec.sources, changelog_topic(spec.name)})
        configs = await configs_of(client, sorted({*ours, *inputs} & found.keys()))
        brokers = sorted(broker.nodeId for broker in client._client.cluster.brokers())
    replicas = {
        topic: [part["replicas"] for part in sorted(one["partitions"], key=lambda part: part["partition"])]
        for topic, one in found.items()
    }
    return [
        *far_ahead({topic: configs[topic] for topic in inputs if topic in configs}, servers),
        *fewer_replicas(spec, replicas, brokers, servers),
        *compacted({topic: configs[topic] for topic in sorted(ours) if topic in configs}, servers),
    ]


def _setting(topic: str, servers: str, name: str, value: object) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {name}={value}"
    )


def compacted(configs: Configs, servers: str) -> list[str]:
    """A sentence for each topic in which records of one key replace each other. servers : as the command names them."""
    return [
        f"{topic} has {POLICY}={policy}: records of one key replace each other, and one without a key is refused: "
        + _setting(topic, servers, POLICY, "delete")
        for topic, found in configs.items()
        if "compact" in (policy := found.get(POLICY) or "")
    ]


def far_ahead(configs: Configs, servers: str) -> list[str]:
    """A sentence for each topic that takes timestamps far ahead of Kafka's clock.

    After four records in a row with timestamps years ahead, everything that waits expires
    (app/partition/records/clock.py). Kafka can refuse such records when they are produced, so that their producer gets
    an error. Producers' clocks differ by seconds, so a minute is enough; by default Kafka 4 accepts up to an hour, and
    older brokers any timestamp.
    """
    sentences = []
    for topic, found in configs.items():
        known = {name: int(value) for name in (TIMESTAMP_AFTER, DIFFERENCE) if (value := found.get(name)) is not None}
        ahead = min(known.values(), default=0)
        if ahead <= TIMESTAMP_AFTER_MS or found.get("message.timestamp.type") == "LogAppendTime":  # the broker's clock
            continue
        how = f"up to {format_duration(ahead / 1000)} ahead" if ahead < YEAR_MS else "with any time ahead"
        sentences.append(
            f"{topic} takes records stamped {how}, and a few of these in a row would make all that waits expire: "
            + _setting(topic, servers, next(iter(known)), TIMESTAMP_AFTER_MS)
        )
    return sentences


def fewer_replicas(spec: "Spec", there: Replicas, brokers: Sequence[int], servers: str) -> list[str]:
    """A sentence where topics that a stream writes have fewer replicas than those that it learns from: a lost broker
    would be a lost state. TopicError as in `warnings`."""
    least = {topic: min(map(len, parts), default=0) for topic, parts in there.items()}
    names = stream_topics(spec)
    features = spec.copied.get(FEATURES, (names[FEATURES],))
    wanted = max((least[topic] for topic in features if topic in there), default=0)
    inputs = {names[role] for role in INPUTS if role in names and role not in spec.copied}
    ours = [name for name in (*names.values(), changelog_topic(spec.name)) if name in there and name not in inputs]
    in_sync = spec.min_insync_replicas or 0
    if few := [topic for topic in ours if least[topic] < in_sync]:
        raise TopicError(
            f"min_insync_replicas: expected at most the replicas of {listing(few)}, found {in_sync}: Kafka would take "
            "no record; lower it, or give the topics more replicas"
        )
    weak = [topic for topic in ours if least[topic] < wanted]
    if not weak:
        return []
    parts = [
        {"topic": topic, "partition": k, "replicas": _more(present, wanted, brokers, k)}
        for topic in weak
        for k, present in enumerate(there[topic])
    ]
    plan = str({"version": 1, "partitions": parts}).replace("'", '"')  # JSON: names of topics have no quotes
    have = ", ".join(f"{topic} {least[topic]}" for topic in weak)
    return [
        f"fewer replicas than the features have ({wanted}): {have}; whoever loses such a broker's disk loses what is "
        f"learned. Give them as many: write {plan} to a file and run kafka-reassign-partitions.sh "
        f"--bootstrap-server {servers} --reassignment-json-file FILE --execute"
    ]


def _more(present: Sequence[int], n: int, brokers: Sequence[int], partition: int) -> list[int]:
    """n brokers for a partition: those that have it, and others in turn."""
    start = brokers.index(present[0]) if present and present[0] in brokers else partition
    turn = (*brokers[start % len(brokers) :], *brokers)
    return list(dict.fromkeys([*present, *turn]))[: max(n, len(present))]
