"""What Kafka's access lists (ACLs) must allow for each command, and the commands of Kafka's own tool that allow it.

`RIGHTS` is the one place that says what a command needs; docs/run/security.md shows it.
"""

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from riparian.app.kafka.admin import stream_topics
from riparian.app.kafka.connection import Connection
from riparian.topics.names import (
    CONTROL,
    DEADLETTERS,
    DRIFT,
    EVENTS,
    FEATURES,
    LABELS,
    LEARNED,
    METRICS,
    PREDICTIONS,
    changelog_topic,
    transactional_id,
)

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

READ, WRITE, CREATE, DELETE, DESCRIBE, CONFIGS = "Read", "Write", "Create", "Delete", "Describe", "DescribeConfigs"
ALTER = "Alter"
# The changelog, the workers' group, and their transactional ids.
STATE, GROUP, OWNERS = "state", "group", "owners"
# Of `rekey`: the topics that are copied, those that copies go to, and the group that copies.
SOURCES, COPIES, COPIERS = "sources", "copies", "copiers"
TOPIC, TRANSACTIONAL_ID = "topic", "transactional-id"  # with "group": what kafka-acls.sh calls them

_ANY = (FEATURES, LABELS, PREDICTIONS, METRICS, DRIFT, DEADLETTERS, CONTROL, EVENTS, LEARNED)
_STATE_ONLY: dict[str, tuple[str, ...]] = {STATE: (READ,)}
_LAG: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_ANY, (DESCRIBE,)),
    **dict.fromkeys((PREDICTIONS, METRICS), (READ,)),
    STATE: (DESCRIBE,),
    SOURCES: (DESCRIBE,),
    **dict.fromkeys((GROUP, COPIERS), (DESCRIBE,)),
}
_REPLACING: dict[str, tuple[str, ...]] = {**_LAG, STATE: (READ, WRITE, CONFIGS, CREATE), OWNERS: (WRITE,)}
RIGHTS: dict[str, dict[str, tuple[str, ...]]] = {
    "worker": {
        **dict.fromkeys((FEATURES, LABELS, CONTROL), (READ, CREATE)),
        **dict.fromkeys((PREDICTIONS, METRICS, DRIFT, DEADLETTERS, EVENTS, LEARNED), (READ, WRITE, CONFIGS, CREATE)),
        STATE: (READ, WRITE, DELETE, CONFIGS, CREATE),
        GROUP: (READ,),
        OWNERS: (WRITE,),
        SOURCES: (READ,),
        COPIES: (WRITE,),
        COPIERS: (READ,),
    },
    "replay": {
        **dict.fromkeys(_ANY, (DESCRIBE, CREATE)),
        **dict.fromkeys((FEATURES, LABELS), (READ, WRITE, CREATE)),
        SOURCES: (READ, WRITE),
        STATE: (DESCRIBE,),
    },
    "check": {
        **dict.fromkeys(_ANY, (DESCRIBE,)),
        **dict.fromkeys((FEATURES, LABELS), (READ, CONFIGS)),
        STATE: (READ,),
        SOURCES: (DESCRIBE, CONFIGS),
    },
    "lag": _LAG,
    "compare": {**dict.fromkeys(_ANY, (DESCRIBE,)), METRICS: (READ,), STATE: (DESCRIBE,)},
    "audit": {
        **dict.fromkeys(_ANY, (READ,)),
        **dict.fromkeys((METRICS, DEADLETTERS), (DESCRIBE,)),
        STATE: (READ,),
    },
    "backtest": {**dict.fromkeys((FEATURES, LABELS, PREDICTIONS), (READ,)), STATE: (DESCRIBE,)},
    "explain": {**dict.fromkeys((FEATURES, LABELS, PREDICTIONS, CONTROL, LEARNED), (READ,)), STATE: (READ,)},
    "ui": {**dict.fromkeys(_ANY, (READ,)), STATE: (READ,)},
    "deadletters": {**dict.fromkeys(_ANY, (DESCRIBE,)), DEADLETTERS: (READ,), STATE: (DESCRIBE,)},
    "retry": {
        **dict.fromkeys(_ANY, (DESCRIBE,)),
        **dict.fromkeys((FEATURES, LABELS), (WRITE, CONFIGS)),
        DEADLETTERS: (READ, WRITE),
        STATE: (DESCRIBE,),
        OWNERS: (WRITE,),
        SOURCES: (WRITE, CONFIGS),
    },
    "control": {CONTROL: (WRITE,), EVENTS: (READ,), STATE: (DESCRIBE,)},
    "apply": {CONTROL: (WRITE,), EVENTS: (READ,), STATE: (READ,)},
    "export": _STATE_ONLY,
    "inspect": _STATE_ONLY,
    "state": _STATE_ONLY,
    "import": _REPLACING,
    "rollback": _REPLACING,
    "grow": {**dict.fromkeys(_ANY, (DESCRIBE,)), STATE: (ALTER, DESCRIBE)},
}


class Right(NamedTuple):
    """What one ACL allows.

    kind, operation : as kafka-acls.sh has them
    prefixed : all names that begin with `name`
    """

    kind: str
    name: str
    operation: str
    prefixed: bool = False

    @property
    def dispensable(self) -> bool:
        """Whether a command goes on without it: by Kafka's defaults where it may not read a topic's settings."""
        return self.operation == CONFIGS

    def sentence(self, connection: Connection, principal: str | None = None) -> str:
        """That it is missing, and how to grant it."""
        grant = " ".join(line([self], principal or connection.principal, str(connection)))
        what = f"{self.kind.replace('-', ' ')}{'s that begin with' if self.prefixed else ''} {self.name}"
        without = ", without which Kafka's default settings are assumed" if self.dispensable else ""
        there = f"the {self.kind} {self.name} is not there, and " if self.operation == CREATE else ""
        return f"{there}the ACL {self.operation} on the {what} is missing{without}: grant it by {grant}"


def needed(spec: "Spec", command: str) -> list[Right]:
    """What a command needs, among it Create for topics that are not there. command : one of RIGHTS."""
    names = {**stream_topics(spec), STATE: changelog_topic(spec.name)}
    unused = {CREATE} if spec.create_topics == "never" else set[str]()
    found = []
    for role, operations in RIGHTS[command].items():
        if role == GROUP:
            found += [Right(GROUP, spec.group, operation) for operation in operations]
        elif role == COPIERS:
            found += [Right(GROUP, spec.rekey_group, operation) for operation in operations if spec.copied]
        elif role in (SOURCES, COPIES):
            topics = spec.sources if role == SOURCES else [names[role] for role in spec.copied]
            found += [Right(TOPIC, topic, operation) for topic in topics for operation in operations]
        elif role == OWNERS:
            stem = transactional_id(spec.name, 0).removesuffix("0")
            found += [Right(TRANSACTIONAL_ID, stem, operation, prefixed=True) for operation in operations]
        elif role in names:
            found += [Right(TOPIC, names[role], operation) for operation in operations if operation not in unused]
    return found


# commands of kafka-acls.sh -------------------------------------------------------------------------------------------


def line(rights: Sequence[Right], principal: str, servers: str, command_config: str | None = None) -> list[str]:
    """The words of one command that grants rights of one kind, quoted for a shell."""
    operations = dict.fromkeys(right.operation for right in rights)
    names = dict.fromkeys(right.name for right in rights)
    words = ["kafka-acls.sh", "--bootstrap-server", servers]
    words += [] if command_config is None else ["--command-config", command_config]
    words += ["--add", "--allow-principal", principal]
    words += [word for operation in operations for word in ("--operation", operation)]
    words += ["--resource-pattern-type", "prefixed"] if rights[0].prefixed else []
    words += [word for name in names for word in (f"--{rights[0].kind}", name)]
    return [shlex.quote(word) for word in words]


def lines(rights: Iterable[Right], principal: str, servers: str, command_config: str | None = None) -> list[str]:
    """The commands that grant all of `rights`: one for all that may be done with the same things."""
    operations: dict[tuple[str, str, bool], dict[str, Right]] = {}
    for right in rights:
        operations.setdefault((right.kind, right.name, right.prefixed), {})[right.operation] = right
    alike: dict[tuple[str, bool, tuple[str, ...]], list[Right]] = {}
    for (kind, _, prefixed), found in operations.items():
        alike.setdefault((kind, prefixed, tuple(found)), []).extend(found.values())
    return [" ".join(line(group, principal, servers, command_config)) for group in alike.values()]
