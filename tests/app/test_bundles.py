"""Small produce requests of several producers go to a broker as one, and each learns what became of its own."""

import asyncio
import types

import pytest
from aiokafka.errors import KafkaConnectionError, RequestTimedOutError
from aiokafka.protocol.produce import ProduceRequest

from riparian.app.kafka.bundles import SMALL_BYTES, Bundles


def answer(*tps):
    """Of a broker: what became of a batch of each partition, of which the number is the offset here."""
    topics = {}
    for topic, partition in tps:
        topics.setdefault(topic, []).append((partition, 0, partition))
    return types.SimpleNamespace(API_VERSION=3, topics=list(topics.items()))


def request(topic, partition, batch=b"batch"):
    return ProduceRequest(None, -1, 1000, [(topic, [(partition, batch)])])


class Clients:
    """Clients of producers, which note what is sent by whom, and answer when they are told to."""

    def __init__(self, n):
        self.sent, self.answers = [], []
        bundles = Bundles()
        self.producers = [types.SimpleNamespace(client=types.SimpleNamespace(send=self._sender(i))) for i in range(n)]
        for producer in self.producers:
            bundles.join(producer)

    def _sender(self, i):
        async def send(node_id, request, **options):
            self.sent.append((i, node_id, getattr(request, "_topics", request)))
            self.answers.append(asyncio.get_running_loop().create_future())
            return await self.answers[-1]

        return send

    def send(self, i, *args, **options):
        return asyncio.create_task(self.producers[i].client.send(*args, **options))


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_sent_at_once_goes_together_and_what_comes_meanwhile_goes_next():
    async def run():
        clients = Clients(3)
        tasks = [clients.send(i, 0, request("p", i)) for i in range(2)]
        elsewhere = clients.send(2, 1, request("p", 2))
        await settle()
        tasks.append(clients.send(2, 0, request("q", 2)))
        await settle()
        together = (0, 0, [("p", [(0, b"batch"), (1, b"batch")])])
        assert clients.sent == [together, (2, 1, [("p", [(2, b"batch")])])]
        clients.answers[0].set_result(answer(("p", 1), ("p", 0)))
        await settle()
        assert clients.sent[2:] == [(2, 0, [("q", [(2, b"batch")])])]
        clients.answers[1].set_result(answer(("p", 2)))
        clients.answers[2].set_result(answer(("q", 2)))
        return [*await asyncio.gather(*tasks), await elsewhere]

    found = asyncio.run(run())
    own = [[("p", [(0, 0, 0)])], [("p", [(1, 0, 1)])], [("q", [(2, 0, 2)])], [("p", [(2, 0, 2)])]]
    assert [one.topics for one in found] == own
    assert {one.API_VERSION for one in found} == {3}


def test_a_request_names_a_partition_once_and_none_waits_for_another():
    """All partitions' owners write to the one partition of the log that they share."""

    async def run():
        clients = Clients(4)
        tasks = [clients.send(i, 0, request("log", 0, b"%d" % i)) for i in range(3)]
        tasks.append(clients.send(3, 0, request("p", 3)))
        await settle()
        first = (0, 0, [("log", [(0, b"0")]), ("p", [(3, b"batch")])])
        assert clients.sent == [first, *((i, 0, [("log", [(0, b"%d" % i)])]) for i in (1, 2))]
        clients.answers[0].set_result(answer(("log", 0), ("p", 3)))
        for sent in clients.answers[1:]:
            sent.set_result(answer(("log", 0)))
        return await asyncio.gather(*tasks)

    found = asyncio.run(run())
    assert [one.topics for one in found] == [[("log", [(0, 0, 0)])]] * 3 + [[("p", [(3, 0, 3)])]]


def test_what_is_large_or_no_idempotent_batch_goes_by_its_own_connection():
    async def run():
        clients = Clients(2)
        large = request("p", 1, bytes(SMALL_BYTES + 1))
        in_transaction = ProduceRequest("id", -1, 1000, [("p", [(1, b"batch")])])
        for one in (large, in_transaction, "another request"):
            clients.send(1, 0, one)
        await settle()
        assert [i for i, *_ in clients.sent] == [1, 1, 1]
        for sent in clients.answers:
            sent.set_result(None)
        await settle()

    asyncio.run(run())


@pytest.mark.parametrize("error", [RequestTimedOutError(), asyncio.CancelledError()])
def test_all_are_told_that_a_request_has_failed_and_later_ones_are_sent(error):
    """Where the first one's producer is closed, its connection's requests are cancelled: the others send theirs
    again."""

    async def run():
        clients = Clients(2)
        tasks = [clients.send(i, 0, request("p", i)) for i in range(2)]
        await settle()
        if isinstance(error, asyncio.CancelledError):
            clients.answers[0].cancel()
        else:
            clients.answers[0].set_exception(error)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        again = clients.send(1, 0, request("p", 1))
        await settle()
        clients.answers[1].set_result(answer(("p", 1)))
        return found, await again

    found, again = asyncio.run(run())
    kind = KafkaConnectionError if isinstance(error, asyncio.CancelledError) else type(error)
    assert [type(one) for one in found] == [kind, kind]
    assert found[0] is not found[1]
    assert all(one.retriable for one in found)
    assert again.topics == [("p", [(1, 0, 1)])]
