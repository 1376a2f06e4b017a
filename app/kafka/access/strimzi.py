"""A stream's topics and rights as custom resources of Strimzi, which runs Kafka on Kubernetes.

The same topics as `creating.planned`, the same rights as `acls.needed`: here is only how they are written.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from riparian.app.kafka.topics.creating import planned

if TYPE_CHECKING:
    from riparian.app.kafka.access.acls import Right
    from riparian.app.stream_file.spec import Spec

GROUP = "kafka.strimzi.io"
CLUSTER_LABEL = "strimzi.io/cluster"
KINDS = {"transactional-id": "transactionalId"}  # "topic" and "group" are the same
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def longest_name(authentication: str | None = None) -> int:
    """Characters that a resource's name may have. authentication : of a KafkaUser, whose name is its certificate's."""
    return 64 if authentication == "tls" else 253


def resource_name(name: str, longest: int = 253) -> str:
    """A name that Kubernetes takes: `name` itself where it can be, else one made of it that no other name has."""
    if len(name) <= longest and _NAME.fullmatch(name):
        return name
    made = re.sub(r"[^a-z0-9]+", "-", name.lower())[: longest - 9].strip("-")
    return f"{made or 'topic'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def topics(spec: "Spec", cluster: str, api: str) -> list[dict[str, Any]]:
    """A KafkaTopic for each topic that workers would create."""
    return [
        {
            "apiVersion": f"{GROUP}/{api}",
            "kind": "KafkaTopic",
            "metadata": {"name": resource_name(one.name), "labels": {CLUSTER_LABEL: cluster}},
            "spec": {
                "topicName": one.name,
                "partitions": one.partitions,
                **({} if one.replication is None else {"replicas": one.replication}),
                "config": {name: int(v) if v.lstrip("-").isdecimal() else v for name, v in one.configs.items()},
            },
        }
        for one in planned(spec)
    ]


def user(name: str, cluster: str, rights: Iterable["Right"], authentication: str, api: str) -> dict[str, Any]:
    """A KafkaUser with exactly `rights`. authentication : scram-sha-512, tls or tls-external. api :
    v1 or v1beta2."""
    operations: dict[tuple[str, str, bool], list[str]] = {}
    for right in rights:
        operations.setdefault((right.kind, right.name, right.prefixed), []).append(right.operation)
    return {
        "apiVersion": f"{GROUP}/{api}",
        "kind": "KafkaUser",
        "metadata": {"name": name, "labels": {CLUSTER_LABEL: cluster}},
        "spec": {
            "authentication": {"type": authentication},
            "authorization": {
                "type": "simple",
                "acls": [
                    {
                        "resource": {
                            "type": KINDS.get(kind, kind),
                            "name": of,
                            "patternType": "prefix" if prefixed else "literal",
                        },
                        "operations": list(dict.fromkeys(found)),
                    }
                    for (kind, of, prefixed), found in operations.items()
                ],
            },
        },
    }
