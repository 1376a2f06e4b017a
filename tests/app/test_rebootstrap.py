"""Clients that ask for metadata again."""

import asyncio
import contextlib
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from riparian.app.kafka.client import rebootstrap
from riparian.app.kafka.connection import Connection


@pytest.mark.parametrize(
    ("answers", "asked"),
    [
        ([(True, {"t", "u"})], 1),
        ([(False, set()), (False, set()), (True, {"t", "u"})], 3),  # while no broker is there
        ([(True, {"t"}), (True, {"t", "u", "v"})], 2),  # one that has just started does not know all
    ],
)
def test_a_client_asks_again_until_it_knows_its_topics(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[bool, set[str]]], asked: int
) -> None:
    """The leader of a group gives out no partition of a topic that it does not know."""
    monkeypatch.setattr(rebootstrap, "AGAIN_SECONDS", 0.0)

    class Cluster:
        known: frozenset[str] | set[str] = frozenset()

        def topics(self, exclude_internal_topics: bool = True) -> frozenset[str] | set[str]:
            return self.known

    class Client:
        hosts = ()

        def __init__(self) -> None:
            self.cluster, self.n, self.tasks = Cluster(), 0, list[Any]()

        async def _metadata_update(self, metadata: Cluster, topics: list[str]) -> bool:
            self.n += 1
            answered, metadata.known = answers.pop(0)
            return answered

        def force_metadata_update(self) -> None:
            self.tasks.append(asyncio.create_task(self._metadata_update(self.cluster, ["t", "u"])))

    rebootstrap.install(Client)

    async def run() -> int:
        client = Client()
        client.force_metadata_update()
        while client.tasks:
            await client.tasks.pop()
            await asyncio.sleep(0.01)
        return client.n

    assert asyncio.run(run()) == asked


def test_a_client_of_no_topics_does_not_ask_for_all_there_are() -> None:
    """But for one that is told to; a broker of many streams sends 60 bytes of each topic."""
    asked = list[Any]()

    class Broker:
        async def send(self, request: Any) -> Any:
            asked.append(request._topics)
            raise TimeoutError

        async def __call__(self, *_: object, **__: object) -> "Broker":
            return self

    async def run() -> None:
        client = Connection("127.0.0.1:1").admin()._client
        client._get_conn = Broker()
        client.cluster._brokers = {1: rebootstrap._as_brokers(client)["bootstrap-127.0.0.1:1"]._replace(nodeId=1)}
        await client._metadata_update(client.cluster, set())
        assert set(map(repr, asked)) == {"[]"}
        asked.clear()
        client._topics = {"t"}
        await client._metadata_update(client.cluster, client._topics)
        with contextlib.suppress(KafkaError):
            await client.fetch_all_metadata()
        assert set(map(repr, asked)) == {"['t']", "None"}

    asyncio.run(run())
