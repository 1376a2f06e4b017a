"""Brokers are asked for what the client would ask them for; only less is looked at."""

import asyncio
import collections
import random
import types

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.fetcher import Fetcher, FetchError
from aiokafka.consumer.subscription_state import SubscriptionState
from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.structs import TopicPartition

from riparian.app.worker.faust_client.fetch_plan import look_less

SOURCES = ("features", "labels")
TPS = [TopicPartition(topic, k) for topic in (*SOURCES, "changelog") for k in range(6)]


def a_fetcher(random_: random.Random, n_brokers: int, some: float) -> Fetcher:
    """One in any state: some of its partitions are paused, without a position or a leader, or were fetched."""
    cluster = ClusterMetadata()
    brokers = [(broker, "h", 1, None) for broker in range(n_brokers)]
    topics = [
        (topic, [(0, k, random_.randrange(n_brokers) if random_.random() > some / 2 else -1, [], []) for k in range(6)])
        for topic in (*SOURCES, "changelog")
    ]
    cluster.update_metadata(MetadataResponse_v1(brokers, 0, [(0, topic, False, of) for topic, of in topics]))
    found = object.__new__(Fetcher)
    found._client = types.SimpleNamespace(cluster=cluster)
    found._fetch_max_wait_ms, found._fetch_min_bytes, found._fetch_max_bytes = 250, 1, 1000
    found._isolation_level, found._client_rack, found._max_partition_fetch_bytes = 1, None, 100
    found._prefetch_backoff, found._fetcher_timeout, found._preferred_read_replica = 0.1, 0.2, {}
    found._subscriptions = SubscriptionState()
    found._subscriptions.assign_from_user(TPS)
    for tp in TPS:
        state = found._subscriptions.subscription.assignment.state_value(tp)
        if random_.random() > some / 2 or tp.topic not in SOURCES:
            state.reset_to(random_.randrange(100))
        if random_.random() < some or tp.topic not in SOURCES:
            state.pause()
    found._records = collections.OrderedDict()
    for tp in TPS[:12]:
        if random_.random() < some:
            found._records[tp] = FetchError(error=None, backoff=random_.choice([0.0, 1000.0]))
    found._in_flight = {broker for broker in range(n_brokers) if random_.random() < some}
    return found


def asked_for(actions: tuple) -> dict:
    """What is asked of each broker, whatever the order."""
    fetches, resets, *_ = actions
    found = {("fetch", node): sorted((t, sorted(of)) for t, of in request.topics) for node, request in fetches}
    return found | {("reset", node): sorted(tps) for node, tps in resets.items()}


@pytest.mark.parametrize("n_brokers", [1, 2, 3])
@pytest.mark.parametrize("some", [0.0, 0.1, 0.4])
def test_what_is_asked_for_is_the_clients(n_brokers: int, some: float) -> None:
    async def run() -> None:
        random_, short = random.Random(n_brokers), 0
        for _ in range(200):
            one = a_fetcher(random_, n_brokers, some)
            assignment = one._subscriptions.subscription.assignment
            expected = asked_for(Fetcher._get_actions_per_node(one, assignment))
            look_less(one, SOURCES)
            found = one._get_actions_per_node(assignment)
            if found == ([], {}, 0.1, False, []):  # every broker is at work
                short += 1
                assert not any(kind == "fetch" for kind, _ in expected)
                continue
            assert asked_for(found) == expected
            states = [assignment.state_value(tp) for tp in TPS[:12]]
            assert set(found[4]) <= {state.resume_fut for state in states if state.paused}
        assert (short > 0) == (some > 0)

    asyncio.run(run())
