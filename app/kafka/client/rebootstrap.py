"""A client that knows no broker that answers asks its bootstrap servers again, as those of KIP-899 do.

aiokafka asks them once, when it starts. Two things leave such a client without a broker for good, and it says "Unable
to update metadata" until it is killed: a cluster that answered with an empty list (a KRaft broker that is fenced, as it
is right after its start or when its machine is too busy for its heartbeats) over a connection that ended since; and
brokers that all came back under other addresses, as those of a cluster that was moved or made anew.

One that was not answered, or not about all of its topics, asks again soon; aiokafka's would after five minutes. Until
then the leader of a group, which gives out partitions by what it knows of the topics, would give out none.

One of no topics asks for the brokers: aiokafka's would ask for all topics that there are.
"""

import asyncio
import functools
from collections.abc import Sequence
from typing import Any

AGAIN_SECONDS = 1.0


class _None(list[str]):
    """No topics; aiokafka takes an empty list for all."""

    def __bool__(self) -> bool:
        return True


def install(client: Any) -> None:
    """Give all clients of this process that behaviour. client : aiokafka's AIOKafkaClient, the class."""
    ask_known = client._metadata_update

    @functools.wraps(ask_known)
    async def update(self: Any, metadata: Any, topics: Sequence[str]) -> bool:
        """Ask for metadata by aiokafka's own way; then by the bootstrap servers if no broker that is known could
        say."""
        topics = _None() if metadata is self.cluster and not topics else topics
        servers = _as_brokers(self)
        self.cluster._bootstrap_brokers = servers  # what ClusterMetadata takes for brokers as long as it knows none
        answered = await ask_known(self, metadata, topics) or await _ask_servers(self, metadata, topics, servers)
        if metadata is not self.cluster:
            return answered
        loop, due = asyncio.get_running_loop(), getattr(self, "_asks_again", 0.0)
        if due <= loop.time() and not (answered and self.cluster.topics(False) >= set(topics)):
            self._asks_again = loop.time() + AGAIN_SECONDS
            loop.call_at(self._asks_again, self.force_metadata_update)
        return answered

    client._metadata_update = update


def _as_brokers(client: Any) -> dict[str, Any]:
    from aiokafka.structs import BrokerMetadata

    named = {f"bootstrap-{host}:{port}": (host, port) for host, port, _ in client.hosts}
    return {name: BrokerMetadata(name, host, port, None) for name, (host, port) in named.items()}


async def _ask_servers(client: Any, metadata: Any, topics: Sequence[str], servers: dict[str, Any]) -> bool:
    from aiokafka.errors import KafkaError
    from aiokafka.protocol.metadata import MetadataRequest

    for name in servers:
        connection = await client._get_conn(name)
        if connection is None:
            continue
        try:
            answer = await connection.send(MetadataRequest(list(topics) if topics else None))
        except (KafkaError, TimeoutError):
            continue
        if answer.brokers:
            metadata.update_metadata(answer)
            return True
    return False
