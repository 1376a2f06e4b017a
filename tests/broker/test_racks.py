"""Brokers in two racks: a worker reads from the replica of its own."""

from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic

from tests.broker.clients import administer
from tests.broker.harness import Stream, instances
from tests.chaos.brokers import Brokers
from tests.chaos.proxy import Network, Proxy

pytestmark = pytest.mark.broker

N, KEY_BYTES = 500, 2000


def test_a_worker_reads_from_the_replica_in_its_rack(tmp_path: Path, topic_name: str) -> None:
    """The first broker leads both topics, the second follows. Proxies count what each sends to the worker."""
    brokers = Brokers(tmp_path, 2, n_slots=1, racks=True)
    try:
        brokers.start()
        with Network() as network:
            proxies = [Proxy(network, *ports) for ports in brokers.ports[0]]

            def passed(start: int, **fields: Any) -> list[int]:
                """Bytes of each broker while a worker learns N further instances."""
                before = [proxy.n_passed for proxy in proxies]
                s.change(**fields)
                s.give(_with_long_keys(instances(N, start)))
                s.run(start + N, broker=",".join(f"127.0.0.1:{advertised}" for advertised, _ in brokers.ports[0]))
                return [proxy.n_passed - count for proxy, count in zip(proxies, before, strict=True)]

            s = Stream(brokers.bootstrap, tmp_path, topic_name, topics_made=False, partitions=1)
            for topic in (s.spec.topics.features, str(s.spec.topics.labels)):
                made = NewTopic(topic, 1, 1)
                made.num_partitions = made.replication_factor = -1
                made.replica_assignments = {0: [1, 2]}
                administer(brokers.bootstrap, lambda client, made=made: client.create_topics([made]))
            s.create_topics()
            both = 2 * N * KEY_BYTES
            assert passed(0, partitions=1)[0] > both
            of_leader, of_follower = passed(N, partitions=1, kafka={"client.rack": "rack-2"})
            assert of_leader < both / 2 < both < of_follower
    finally:
        brokers.end()


def _with_long_keys(rows: Any) -> Any:
    return tuple([one._replace(key=bytes([65 + i % 26]) * KEY_BYTES) for i, one in enumerate(some)] for some in rows)
