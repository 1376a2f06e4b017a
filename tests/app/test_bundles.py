"""All producers' batches are sent in one pass, small ones together, and each learns what became of its own."""

import asyncio
import inspect
import types

import pytest
from aiokafka import errors
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition

from riparian.app.kafka import bundles as module
from riparian.app.kafka.bundles import SMALL_BYTES, Bundles
from riparian.app.kafka.sending import Outputs, close
from tests.processes import PATIENCE

NOT_LEADER, FENCED, TOO_LARGE = (
    errors.NotLeaderForPartitionError.errno,
    errors.InvalidProducerEpoch.errno,
    errors.MessageSizeTooLargeError.errno,
)


def sent_by(data):
    """Producer, number of the first record, and values of a batch."""
    batch = MemoryRecords(bytes(data)).next_batch()
    return batch.producer_id, batch.base_sequence, [bytes(record.value) for record in batch]


class Broker:
    """Brokers and the clients of producers, which note what is sent by whom, and answer when they are told to."""

    def __init__(self):
        self.sent, self.answers, self.updates = [], [], 0
        self.leaders = {}
        self.bundles = Bundles()

    async def producer(self, i):
        """The client's own classes, on a connection that is not there."""

        async def send(node_id, request):
            topics = {topic: {p: sent_by(data) for p, data in found} for topic, found in request._topics}
            self.sent.append((i, node_id, topics))
            self.answers.append(asyncio.get_running_loop().create_future())
            return await self.answers[-1]

        async def wait():
            await asyncio.sleep(0)

        async def disconnect():
            for (by, *_), one in zip(self.sent, self.answers, strict=True):
                if by == i and not one.done():
                    one.set_exception(errors.KafkaConnectionError())

        def update():
            self.updates += 1
            return asyncio.ensure_future(wait())

        cluster = types.SimpleNamespace(leader_for_partition=lambda tp: self.leaders.get(tp, 0))
        client = types.SimpleNamespace(
            send=send, cluster=cluster, force_metadata_update=update, _maybe_wait_metadata=wait, close=disconnect
        )
        manager = TransactionManager(None, 1000)
        manager.set_pid_and_epoch(i, 0)
        waiting = MessageAccumulator(cluster, 1 << 20, 0, 1000.0, txn_manager=manager)
        settings = {"acks": -1, "retry_backoff_ms": 1, "request_timeout_ms": 1000}
        sender = Sender(client, txn_manager=manager, message_accumulator=waiting, **settings)
        await sender.start()
        found = types.SimpleNamespace(client=client, _sender=sender, _message_accumulator=waiting, _txn_manager=manager)

        async def stop():
            await asyncio.wait(
                [asyncio.create_task(waiting.close()), sender.sender_task], return_when="FIRST_COMPLETED"
            )
            await sender.close()

        found.stop = stop
        await self.bundles.join(found)
        return found

    async def producers(self, n):
        return [await self.producer(i) for i in range(n)]

    def answer(self, number, *refused):
        """Answer a request: the offset of each batch is its partition. refused : partition -> code of an error."""
        codes, (_, _, topics) = dict(refused), self.sent[number]
        found = [(topic, [(p, codes.get(p, 0), p, -1, 0) for p in batches]) for topic, batches in topics.items()]
        self.answers[number].set_result(types.SimpleNamespace(API_VERSION=7, topics=found))


async def post(producer, topic, partition, value=b"v"):
    """Queue a record; the future of its acknowledgement."""
    tp = TopicPartition(topic, partition)
    return await producer._message_accumulator.add_message(tp, None, value, 1.0)


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def waits_again():
    """What waits to be tried again."""
    return [task for task in asyncio.all_tasks() if task.get_name() == "again"]


def run(test):
    """Run a test on a broker of its own."""
    asyncio.run(test(Broker()))


def test_what_is_sent_at_once_goes_together_and_what_comes_meanwhile_goes_next():
    async def test(broker):
        broker.leaders[TopicPartition("p", 2)] = 1
        a, b, c = await broker.producers(3)
        futures = [await post(one, "p", i) for i, one in enumerate((a, b, c))]
        await settle()
        assert broker.sent == [
            (0, 0, {"p": {0: (0, 0, [b"v"]), 1: (1, 0, [b"v"])}}),
            (2, 1, {"p": {2: (2, 0, [b"v"])}}),
        ]
        futures += [await post(a, "p", 0, b"1"), await post(a, "p", 0, b"2"), await post(c, "q", 2)]
        await settle()
        assert len(broker.sent) == 2
        broker.answer(0)
        await settle()
        assert broker.sent[2:] == [(2, 0, {"q": {2: (2, 0, [b"v"])}, "p": {0: (0, 1, [b"1", b"2"])}})]
        broker.answer(1)
        broker.answer(2)
        assert [(await one).offset for one in futures] == [0, 1, 2, 0, 1, 2]  # a record's own number is added

    run(test)


def test_a_request_names_a_partition_once_and_none_waits_for_another():
    """All partitions' owners write to the one partition of the log that they share."""

    async def test(broker):
        *logs, other = await broker.producers(4)
        futures = [await post(one, "log", 0) for one in logs] + [await post(other, "p", 3)]
        await settle()
        first = (0, 0, {"log": {0: (0, 0, [b"v"])}, "p": {3: (3, 0, [b"v"])}})
        assert broker.sent == [first, *((i, 0, {"log": {0: (i, 0, [b"v"])}}) for i in (1, 2))]
        for number in range(3):
            broker.answer(number)
        await asyncio.gather(*futures)

    run(test)


def test_what_is_large_goes_by_its_own_connection_and_holds_up_nothing():
    async def test(broker):
        a, b = await broker.producers(2)
        large = await post(b, "p", 1, bytes(SMALL_BYTES + 1))
        await settle()
        small = await post(a, "p", 0)
        await settle()
        assert [(i, list(topics["p"])) for i, _, topics in broker.sent] == [(1, [1]), (0, [0])]
        broker.answer(1)
        await small
        broker.answer(0)
        await large

    run(test)


@pytest.mark.parametrize("error", [errors.RequestTimedOutError(), asyncio.CancelledError()])
def test_what_failed_is_sent_again_in_its_order_and_as_it_was(error):
    """Where the first one's producer is closed, its connection's requests are cancelled: the others send theirs
    again."""

    async def test(broker):
        a, b = await broker.producers(2)
        futures = [await post(a, "p", 0, b"1"), await post(b, "p", 1)]
        await settle()
        futures += [await post(a, "p", 0, b"2")]
        if isinstance(error, asyncio.CancelledError):
            broker.answers[0].cancel()
        else:
            broker.answers[0].set_exception(error)
        await until(lambda: len(broker.sent) > 1)
        while not all(one.done() for one in futures):
            for number, one in enumerate(broker.answers):
                if not one.done():
                    broker.answer(number)
            await asyncio.sleep(0.001)
        found = [(p, batch) for _, _, topics in broker.sent[1:] for p, batch in topics["p"].items()]
        assert [batch for p, batch in found if p == 0] == [(0, 0, [b"1"]), (0, 1, [b"2"])]
        assert [batch for p, batch in found if p == 1] == [(1, 0, [b"v"])]

    run(test)


def test_each_learns_what_became_of_its_own_and_asks_for_its_leader():
    async def test(broker):
        a, b, c, d = await broker.producers(4)
        futures = [await post(one, "p", i) for i, one in enumerate((a, b, c, d))]
        await settle()
        broker.answer(0, (1, NOT_LEADER), (2, FENCED), (3, TOO_LARGE))
        assert (await futures[0]).offset == 0
        with pytest.raises(errors.ProducerFenced):
            await futures[2]
        with pytest.raises(errors.MessageSizeTooLargeError):
            await futures[3]
        await until(lambda: len(broker.sent) > 1)
        assert broker.updates == 1
        assert broker.sent[1:] == [(1, 0, {"p": {1: (1, 0, [b"v"])}})]
        broker.answer(1)
        await futures[1]

    run(test)


def test_a_partition_without_a_leader_is_sent_when_there_is_one():
    async def test(broker):
        tp = TopicPartition("p", 0)
        broker.leaders[tp] = -1
        (a,) = await broker.producers(1)
        future = await post(a, "p", 0)
        await until(lambda: broker.updates > 2)
        assert broker.sent == []
        broker.leaders[tp] = 7
        await until(lambda: broker.sent)
        assert [node for _, node, _ in broker.sent] == [7]
        broker.answer(0)
        await future

    run(test)


def test_a_producer_that_is_closed_waits_for_what_is_on_its_way_and_sends_no_more():
    async def test(broker):
        a, b = await broker.producers(2)
        future = await post(a, "p", 0)
        await settle()
        closing = asyncio.create_task(close(a))
        await settle()
        assert not closing.done()
        broker.answer(0)
        await closing
        assert future.done()
        with pytest.raises(errors.ProducerClosed):
            await post(a, "p", 0)
        other = await post(b, "p", 1)
        await settle()
        broker.answer(1)
        await other

    run(test)


def test_closing_ends_without_a_broker(monkeypatch):
    monkeypatch.setattr("riparian.app.kafka.sending.CLOSE_SECONDS", 0.01)

    async def test(broker):
        a, b = await broker.producers(2)
        await post(a, "p", 0)
        await settle()
        broker.answers[0].set_exception(errors.KafkaConnectionError())
        await settle()
        await close(a)
        assert a._sender.sender_task.done()
        sent = len(broker.sent)
        await post(b, "p", 1)
        await until(lambda: len(broker.sent) > sent)
        assert [i for i, *_ in broker.sent[sent:]] == [1]

    run(test)


def test_what_nobody_expects_ends_a_producer():
    async def test(broker):
        a, b = await broker.producers(2)
        futures = [await post(a, "p", 0), await post(b, "p", 1)]
        await settle()
        later = await post(a, "p", 0)
        broker.answers[0].set_exception(ValueError("an answer is cut off"))
        for future in (*futures, later):
            with pytest.raises(errors.KafkaError, match="Unexpected"):
                await future
        for producer in (a, b):
            with pytest.raises(errors.KafkaError, match="Unexpected"):
                await post(producer, "p", 5)
        await settle()
        assert len(broker.sent) == 1

    run(test)


def broken(*_, **__):
    raise MemoryError("no room for a batch")


@pytest.mark.parametrize("step", ["set_producer_state", "drain_ready", "get_data_buffer"])
def test_a_batch_that_cannot_be_made_ends_its_producer_alone(step):
    async def test(broker):
        a, b, c = await broker.producers(3)
        lost = [await post(a, "p", p) for p in range(3)]
        others = [await post(b, "q", 0), await post(c, "q", 1)]
        setattr(a._message_accumulator._batches[TopicPartition("p", 1)][0], step, broken)
        for future in lost:
            with pytest.raises(errors.KafkaError, match="Unexpected"):
                await asyncio.wait_for(future, PATIENCE)
        await asyncio.wait_for(a._message_accumulator.flush(), PATIENCE)
        await until(lambda: broker.sent)
        assert {p for _, _, topics in broker.sent for p in topics["q"]} == {0, 1}
        assert all("p" not in topics for _, _, topics in broker.sent)
        broker.answer(0)
        await asyncio.gather(*others)

    run(test)


def test_what_is_queued_when_its_producer_is_given_up_learns_of_it():
    """A batch that waits for one before it is queued by the client whatever has happened since."""

    async def test(broker):
        (a,) = await broker.producers(1)
        waiting = a._message_accumulator
        a._sender._in_flight.add(0)
        first = await post(a, "p", 0)
        batch = waiting.create_builder()
        batch.append(timestamp=None, key=None, value=b"v")
        behind = asyncio.create_task(waiting.add_batch(batch, TopicPartition("p", 0), 1.0))
        await settle()
        a._sender._in_flight.clear()
        second = await post(a, "p", 1)
        waiting._batches[TopicPartition("p", 1)][0].get_data_buffer = broken
        for future in (first, second):
            with pytest.raises(errors.KafkaError, match="Unexpected"):
                await asyncio.wait_for(future, PATIENCE)
        with pytest.raises(errors.KafkaError, match="Unexpected"):
            await asyncio.wait_for(await behind, PATIENCE)
        assert broker.sent == []

    run(test)


def test_a_producer_that_is_given_up_before_it_sends_holds_up_no_other():
    async def test(broker):
        a, b = await broker.producers(2)
        lost, other = await post(a, "p", 0), await post(b, "p", 1)
        a._message_accumulator.fail_all(errors.KafkaError("given up"))
        with pytest.raises(errors.KafkaError, match="given up"):
            await lost
        await until(lambda: broker.sent)
        assert broker.sent == [(1, 0, {"p": {1: (1, 0, [b"v"])}})]
        broker.answer(0)
        await other

    run(test)


def test_a_producer_that_is_given_up_while_it_waits_to_send_again_ends_its_request():
    async def test(broker):
        (a,) = await broker.producers(1)
        lost = await post(a, "p", 0)
        await settle()
        broker.answers[0].set_exception(errors.RequestTimedOutError())
        await until(waits_again)
        a._message_accumulator.fail_all(errors.KafkaError("given up"))
        (again,) = waits_again()
        await again
        assert (a._sender._in_flight, a._sender._muted_partitions) == (set(), set())
        with pytest.raises(errors.KafkaError, match="given up"):
            await lost

    run(test)


@pytest.mark.parametrize("leader", [-1, 0])
def test_what_is_asked_of_the_cluster_in_vain_holds_up_nothing(leader):
    """Neither where the leader is looked for nor before a batch is sent again."""

    async def test(broker):
        tp = TopicPartition("p", 0)
        broker.leaders[tp] = leader
        (a,) = await broker.producers(1)
        asked = []

        def refuse(*_):
            asked.append(None)
            broker.leaders[tp] = 0
            raise errors.KafkaConnectionError

        a.client.force_metadata_update = a.client._maybe_wait_metadata = refuse
        future = await post(a, "p", 0)
        await settle()
        if not leader:
            broker.answers[0].set_exception(errors.RequestTimedOutError())
        await until(lambda: asked and not waits_again())
        await until(lambda: broker.answers and not broker.answers[-1].done())
        broker.answer(len(broker.answers) - 1)
        await asyncio.wait_for(future, PATIENCE)

    run(test)


def test_batches_that_are_made_already_wait_for_those_before_them():
    async def test(broker):
        (a,) = await broker.producers(1)
        a.looks = 0

        async def send_batch(batch, topic, *, partition):
            a.looks += 1
            return await a._message_accumulator.add_batch(batch, TopicPartition(topic, partition), 1.0)

        a.send_batch = send_batch
        outputs = Outputs(a, 0, {"p": 0})
        values = [b"%d" % i for i in range(5)]
        for value in values[:2]:
            await outputs.send("p", outputs.build([None], [value]))
            await settle()
        assert a.looks == 1  # at the partitions of the topic
        third = asyncio.create_task(outputs.send("p", outputs.build([None], [values[2]])))
        await settle()
        assert not third.done()
        broker.answer(0)
        await third
        broker.answer(1)
        await until(lambda: len(broker.sent) == 3)
        broker.answer(2)
        await outputs.flush()
        assert [topics["p"][0] for _, _, topics in broker.sent] == [(0, i, [values[i]]) for i in range(3)]
        assert outputs.position == {"p": 3}

    run(test)


def test_names_of_the_client_that_are_used_are_there():
    names = set(Sender._sender_routine.__code__.co_names) | set(Sender.__init__.__code__.co_names)
    assert {"_in_flight", "_muted_partitions", "_message_accumulator", "_sender_task", "_retry_backoff"} <= names
    assert "_append_batch" in MessageAccumulator.add_message.__code__.co_names
    assert "_append_batch" in MessageAccumulator.add_batch.__code__.co_names
    assert "partitions_for_topic" in AIOKafkaClient._wait_on_metadata.__code__.co_names
    assert "_partitions" in ClusterMetadata.partitions_for_topic.__code__.co_names
    drain = inspect.signature(MessageAccumulator.drain_by_nodes)
    assert str(drain) == "(self, ignore_nodes, muted_partitions=frozenset())"
    done = module.SendProduceReqHandler.do.__code__.co_names
    assert {"_to_reenqueue", "_can_retry", "reenqueue", "_maybe_wait_metadata", "handle_response"} <= set(done)
