"""The topics that a stream needs, as Riparian creates them, and the commands of Kafka's own tool that create the same.

`planned` is the one place that says how a topic is made: by a worker, by a replay, or by hand.
"""

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from riparian.app.errors import TopicError
from riparian.topics.names import (
    CONTROL,
    DEADLETTERS,
    INPUTS,
    LEARNED,
    OUTPUTS,
    STEERING,
    TIMESTAMP_AFTER,
    TIMESTAMP_AFTER_MS,
    changelog_topic,
)

if TYPE_CHECKING:
    from aiokafka.admin import NewTopic

    from riparian.app.stream_file.spec import Spec

# A dead letter holds the record as it came, which may fill the broker's 1 MB, and headers that say why.
DEADLETTER_BYTES = 2_000_000
# An instance with what all models predicted for it can be larger than that, too.
# Of copies (`rekey`): whatever their source takes, as far as Kafka takes it by default (socket.request.max.bytes), and
# with the timestamp that they have there.
COPY_BYTES = 100_000_000
ANY_TIME = str(2**63 - 1)
# Of the changelog. Records stay until we delete them. Kafka frees the disk by whole segments, so these are small.
CHANGELOG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.bytes": str(16 * 1024 * 1024),
    "message.timestamp.type": "CreateTime",
}


BROKERS_DEFAULT = -1  # in place of a replication factor; since Kafka 2.4


class Planned(NamedTuple):
    """A topic to create. replication : None for the broker's default. configs : its settings, by Kafka's names; all
    others are the broker's defaults."""

    name: str
    partitions: int
    replication: int | None
    configs: dict[str, str]

    def new(self) -> "NewTopic":
        """The request of the admin client."""
        from aiokafka.admin import NewTopic

        made = NewTopic(self.name, self.partitions, self.replication or 1, topic_configs=dict(self.configs))
        if self.replication is None:
            made.replication_factor = BROKERS_DEFAULT  # which the client refuses to be given
        return made

    def command(self, servers: str, command_config: str | None = None) -> str:
        """A command of kafka-topics.sh, quoted for a shell."""
        words = ["kafka-topics.sh", "--bootstrap-server", servers]
        words += [] if command_config is None else ["--command-config", command_config]
        words += ["--create", "--if-not-exists", "--topic", self.name, "--partitions", str(self.partitions)]
        words += [] if self.replication is None else ["--replication-factor", str(self.replication)]
        words += [word for name, value in self.configs.items() for word in ("--config", f"{name}={value}")]
        return shlex.join(words)


def planned(spec: "Spec") -> list[Planned]:
    """All topics of a stream, its inputs first and its changelog last."""
    durable = {} if spec.min_insync_replicas is None else {"min.insync.replicas": str(spec.min_insync_replicas)}
    named = {role: getattr(spec.topics, role) for role in (*INPUTS, *OUTPUTS, *STEERING, LEARNED)}
    found = {name: _configs(spec, role) for role, name in named.items() if name is not None}
    found[changelog_topic(spec.name)] = CHANGELOG
    counts = {spec.topics.learned: 1}
    return [
        Planned(name, counts.get(name, spec.partitions), spec.replication, configs | durable)
        for name, configs in found.items()
    ]


def _configs(spec: "Spec", role: str) -> dict[str, str]:
    retention_ms = -1 if spec.retention is None else round(1000 * spec.retention)
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(retention_ms),
        "message.timestamp.type": "CreateTime",
    }
    if role in spec.copied:
        configs |= {TIMESTAMP_AFTER: ANY_TIME, "max.message.bytes": str(COPY_BYTES)}
    elif role in (*INPUTS, CONTROL):
        configs[TIMESTAMP_AFTER] = str(TIMESTAMP_AFTER_MS)
    if role in (DEADLETTERS, LEARNED):
        configs["max.message.bytes"] = str(DEADLETTER_BYTES)
    return configs


def not_ours(spec: "Spec", missing: Sequence[str], servers: str, *more: str) -> TopicError:
    """What to say where topics are missing that somebody else creates. more : topics that may be."""
    plural = len(missing) > 1
    lines = [one.command(servers) for one in planned(spec) if one.name in (*missing, *more)]
    return TopicError(
        f"The topic{'s' if plural else ''} {', '.join(missing)} of the stream {spec.name} {'are' if plural else 'is'} "
        "missing, and the stream file says create_topics: never: create what is missing by these commands, or leave "
        "create_topics out\n" + "\n".join(lines)
    )
