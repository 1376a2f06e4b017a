# ruff: noqa: E501  (signatures are compared as they print)
"""What we override in faust-streaming and aiokafka must still be there, with the signatures that we know."""

import asyncio
import importlib.metadata
import inspect
import types
from collections import OrderedDict

import aiokafka.consumer.fetcher as fetcher
import pytest
from aiohttp import web
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from aiokafka.errors import KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder, MessageAccumulator
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import TransactionManager
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequest_v1, MetadataRequest_v4, MetadataRequest_v5
from aiokafka.structs import OffsetAndMetadata
from faust.app.base import App
from faust.tables import recovery
from faust.tables.manager import TableManager
from faust.tables.table import Table
from faust.transport import consumer as faust_consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.web.drivers.aiohttp import Web

from riparian.app.kafka.connection import Connection
from riparian.app.kafka.wire_format import unpacking
from riparian.app.kafka.wire_format.unpacking import Unpacking
from riparian.app.partition.records.partition_group import concatenate
from riparian.app.worker.faust_client import transport
from riparian.app.worker.faust_client.end_offsets import EndOffsets, Seen
from riparian.topics.names import CHECKPOINT
from riparian.topics.records import RawBatch
from tests import batches
from tests.conftest import ROOT

LATEST = -1
SIGNATURES = {
    fetcher.PartitionRecords._unpack_records: "(self)",
    driver.AIOKafkaConsumerThread._create_worker_consumer: "(self, transport: 'Transport') -> aiokafka.consumer.consumer.AIOKafkaConsumer",
    driver.AIOKafkaConsumerThread.on_thread_stop: "(self) -> None",
    driver.AIOKafkaConsumerThread._fetch_records: "(self, consumer: aiokafka.consumer.consumer.AIOKafkaConsumer, active_partitions: Set[faust.types.tuples.TP], timeout: Optional[float] = None, max_records: Optional[int] = None) -> Mapping[faust.types.tuples.TP, List[Any]]",
    driver.AIOKafkaConsumerThread._keepalive2: "(self) -> None",
    driver.Consumer._new_consumer_thread: "(self) -> 'AIOKafkaConsumerThread'",
    faust_consumer.Consumer.perform_seek: "(self) -> None",
    faust_consumer.Consumer._wait_next_records: "(self, timeout: float) -> Tuple[Optional[Mapping[faust.types.tuples.TP, List[Any]]], Optional[Set[faust.types.tuples.TP]]]",
    faust_consumer.Consumer.commit: "(self, topics: Optional[AbstractSet[Union[str, faust.types.tuples.TP]]] = None, start_new_transaction: bool = True) -> bool",
    driver.Consumer.verify_event_path: "(self, now: float, tp: faust.types.tuples.TP) -> None",
    recovery.Recovery._restart_recovery.fun: "(self) -> None",
    recovery.Recovery.on_partitions_revoked: "(self, revoked: Set[faust.types.tuples.TP]) -> None",
    Table.on_key_set: "(self, key: ~KT, value: ~VT) -> None",
    Table.on_key_del: "(self, key: ~KT) -> None",
    Table.on_rebalance: "(self, assigned: Set[faust.types.tuples.TP], revoked: Set[faust.types.tuples.TP], newly_assigned: Set[faust.types.tuples.TP], generation_id: int = 0) -> None",
    Table.persisted_offset: "(self, tp: faust.types.tuples.TP) -> Optional[int]",
    GroupCoordinator._send_req: "(self, request)",
    AIOKafkaClient._metadata_update: "(self, cluster_metadata, topics)",
    AIOKafkaClient.send: "(self, node_id, request, *, group=<ConnectionGroup.DEFAULT: 0>)",
    Sender._sender_routine: "(self)",
    MessageAccumulator._append_batch: "(self, builder, tp)",
    SubscriptionState.assign_from_subscribed: "(self, assignment: 'set[TopicPartition]')",
    SubscriptionState.begin_reassignment: "(self)",
    fetcher.Fetcher.fetched_records: "(self, partitions, timeout=0, max_records=None)",
    fetcher.Fetcher._get_actions_per_node: "(self, assignment)",
    TransactionManager.maybe_add_partition_to_txn: "(self, tp: aiokafka.structs.TopicPartition)",
    TransactionManager.set_pid_and_epoch: "(self, pid: int, epoch: int)",
    driver.AIOKafkaConsumerThread._gather_remaining_tasks: "(self) -> None",
    driver.Transport._create_topic: "(self, owner: mode.services.Service, client: aiokafka.client.AIOKafkaClient, topic: str, partitions: int, replication: int, **kwargs: Any) -> None",
    fetcher.PartitionRecords._consume_aborted_up_to: "(self, batch_offset)",
    fetcher.PartitionRecords._contains_abort_marker: "(self, next_batch)",
    fetcher.PartitionRecords._consumer_record: "(self, tp, record)",
    web.BaseSite.start: "(self) -> None",
}


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__qualname__)
def test_overridden_methods_have_the_signatures_that_we_know(function):
    assert str(inspect.signature(function)) == SIGNATURES[function]


def test_every_override_stands_in_the_table():
    text = (ROOT / "docs/contribute/overrides.md").read_text(encoding="utf-8")
    names = [function.__qualname__.rpartition(".")[2] for function in SIGNATURES]
    assert [name for name in names if f"{name}`" not in text and name != "fun"] == []


def test_no_client_creates_a_topic_by_asking_for_it():
    """A broker would, where its auto.create.topics.enable is true, as by default."""
    asyncio.run(_made())
    for version in (MetadataRequest_v4, MetadataRequest_v5):
        assert MetadataRequest(["t"]).build(version).allow_auto_topic_creation is False
        assert MetadataRequest(["t"], True).build(version).allow_auto_topic_creation is False
    assert MetadataRequest(None).build(MetadataRequest_v1).topics is None


async def _made():
    connection = Connection("h:1")
    return connection.admin(), connection.consumer(), connection.producer()


def test_versions_are_the_pinned_ones():
    assert importlib.metadata.version("faust-streaming") == "0.15.3"
    assert importlib.metadata.version("aiokafka") == "0.14.0"


def test_attributes_that_are_read_are_there():
    names = {"_group_instance_id", "member_id", "generation", "_performed_join_prepare"}
    assert names <= set(GroupCoordinator.__init__.__code__.co_names)
    assert "_performed_join_prepare" in GroupCoordinator.ensure_active_group.__code__.co_names
    assert "_send_req" in GroupCoordinator._do_heartbeat.__code__.co_names  # all answers come by it
    state = TopicPartitionState.__init__.__code__.co_names
    assert "_position" in state
    assert "send" in fetcher.Fetcher._proc_fetch_request.__code__.co_names  # of the client, looked up at each fetch
    assert "transactional_id" in MessageAccumulator.create_builder.__code__.co_names  # decided for each batch
    assert list(inspect.signature(BatchBuilder.__init__).parameters)[1:3] == ["batch_size", "compression_type"]
    assert "_batch_size" in MessageAccumulator.create_builder.__code__.co_names
    metadata = set(ClusterMetadata.brokers.__code__.co_names) & set(ClusterMetadata.broker_metadata.__code__.co_names)
    assert "_bootstrap_brokers" in metadata  # what stands in for brokers as long as none are known
    assert "_value_deserializer" in AIOKafkaConsumer.start.__code__.co_names  # handed on to its fetcher
    assert "_value_deserializer" in fetcher.Fetcher._proc_fetch_request.__code__.co_names
    assert {"venusian", "attach"} <= set(App._task.__code__.co_names)  # so noting where it stands can be left out
    assert "_recovery" in TableManager.recovery.fget.__code__.co_names
    records = inspect.signature(unpacking.BatchRecords.__bases__[0].__init__).parameters
    assert list(records)[1:4] == ["tp", "records", "aborted_transactions"]
    assert {"_transport_handlers", "_runner", "_new_transport_tcp"} <= set(Web.__init__.__code__.co_names)
    assert {"_runner", "_ssl_context", "_server"} <= set(web.BaseSite.__slots__)
    assert "_sock" in web.SockSite.__slots__


def made(base: int, n: int, control: bool = False, value: bytes = b"v") -> bytes:
    """A batch of n records, or of none after compaction."""
    rows = [batches.record(i, value, b"k", 10 * i) for i in range(n)]
    return batches.batch(rows, base, last=max(0, n - 1), first=10 * base, flags=batches.CONTROL if control else 0)


def _records(tp, data, offset, asked):
    return unpacking.BatchRecords(tp, unpacking.FetchedBatches(b"".join(data)), None, offset, None, asked, False, 0)


def test_a_fetch_becomes_a_batch_without_control_records_and_known_records():
    data = [made(0, 4), made(4, 1, control=True), made(5, 2), made(7, 0)]
    records = _records(TopicPartition("source", 0), data, 2, Unpacking({"source"}))
    assert concatenate(list(records)) == RawBatch([2, 3, 5, 6], [20, 30, 50, 60], [b"k"] * 4, [b"v"] * 4)
    assert records.next_fetch_offset == 8


def test_a_fetch_that_begins_elsewhere_than_the_last_one_ended_is_noticed():
    tp = TopicPartition("source", 0)
    ours, others = Unpacking({"source"}), Unpacking({"source"})
    ours.positions[tp] = 3

    def fetch(offset, *data, asked=ours):
        return [piece.offsets for piece in _records(tp, data, offset, asked)]

    # From where it was sought to, over control records, over what compaction has left out, and a fetch without records.
    assert fetch(3, made(3, 2), made(5, 1, control=True)) == [[3, 4]]
    assert fetch(6, made(9, 2)) == [[9, 10]]
    # Another consumer of this process reads the same topic from elsewhere: that is its own affair.
    assert fetch(2, made(2, 1), asked=others) == [[2]]
    assert fetch(11, made(11, 1, control=True)) == []
    assert fetch(12, made(12, 1)) == [[12]]
    assert ours.jumps == {}
    assert fetch(20, made(20, 1)) == [[20]]
    assert ours.jumps.pop(tp) == (13, 20)
    assert fetch(0, made(0, 1)) == [[0]]
    assert ours.jumps == {tp: (21, 0)}
    assert others.positions == {tp: 3}
    assert others.jumps == {}


@pytest.mark.parametrize("asked", [None, bytes, Unpacking(["another"])])
def test_a_consumer_that_does_not_ask_for_pieces_of_a_topic_is_given_records(monkeypatch, asked):
    monkeypatch.setattr(fetcher.PartitionRecords, "_consumer_record", lambda self, tp, record: (tp, record.offset))
    tp = TopicPartition("source", 0)
    assert list(_records(tp, [made(3, 2)], 4, asked)) == [(tp, 4)]


def test_an_assignment_goes_on_where_partitions_stay_and_begins_an_epoch_where_they_do_not():
    """On the client's own record of a group's assignments, which its fetcher reads."""
    stays, paused, goes, comes, reset = (TopicPartition("source", p) for p in range(5))

    async def run() -> None:
        subscriptions = SubscriptionState()
        thread = types.SimpleNamespace(
            _consumer=types.SimpleNamespace(_subscription=subscriptions), epochs={}, _to_commit={}, answers=EndOffsets()
        )
        for name in ("_fetch_on", "_moved"):
            setattr(thread, name, types.MethodType(getattr(transport.ConsumerThread, name), thread))
        thread._fetch_on()
        subscriptions.subscribe({"source"})
        subscriptions.assign_from_subscribed({stays, paused, goes, reset})
        before = subscriptions.subscription.assignment
        thread.answers._seen = {tuple(tp): Seen(0, 1, 0, 99) for tp in (stays, goes)}
        for tp in (stays, paused, goes):
            subscriptions.seek(tp, 10 + tp.partition)
        before.state_value(reset).await_reset(LATEST)
        subscriptions.pause(paused)
        known = dict(thread.epochs)

        subscriptions.begin_reassignment()
        assert not subscriptions.reassignment_in_progress  # the fetcher hands on what it has
        subscriptions.assign_from_subscribed({stays, paused, comes, reset})
        assert not before.active
        after = subscriptions.subscription.assignment
        assert [after.state_value(tp)._position for tp in (stays, paused, comes, reset)] == [10, 11, None, None]
        assert [thread.answers.seen(TP(*tp)) is not None for tp in (stays, goes)] == [True, False]
        assert after.state_value(reset).reset_strategy == LATEST
        assert subscriptions.paused_partitions() == {paused}
        changed = {
            tp.partition for tp in (stays, paused, goes, comes, reset) if _epoch(thread, tp) != _epoch(known, tp)
        }
        assert changed == {goes.partition, comes.partition}

        # Away and back: what was loaded before may be another's by now.
        subscriptions.assign_from_subscribed({paused})
        subscriptions.assign_from_subscribed({stays, paused})
        assert _epoch(thread, stays) > _epoch(known, stays)
        assert _epoch(thread, paused) == _epoch(known, paused)

    asyncio.run(run())


def _epoch(of, tp):
    return getattr(of, "epochs", of).get(TP(*tp), 0)


def test_what_was_handed_on_and_is_on_its_way_has_not_arrived():
    """The client's position is ahead of the buffer: a backlog of features went ahead of its labels."""
    tp, position = TP("labels", 0), 600
    thread = object.__new__(transport.ConsumerThread)
    thread.drained = {tp: 600}
    thread._position = lambda _: position  # type: ignore[method-assign]
    assert not thread.reached(tp, 600, 0)
    assert thread.reached(tp, 600, 600)
    assert not thread.reached(tp, 601, 600)
    position = 601  # the end of a transaction is no record
    assert thread.reached(tp, 601, 600)
    assert not thread.reached(tp, 601, 599)
    assert not thread.reached(tp, 602, 600)


def test_what_is_made_ahead_is_taken_later():
    """By another thread, while the client may be sought elsewhere: until it takes a piece, it sees nothing of it."""
    tp, asked = TopicPartition("source", 0), Unpacking({"source"}, {"source"})
    asked.positions[tp] = 3

    def fetch(begin: int) -> unpacking.BatchRecords:
        large = bytes(unpacking.PIECE_BYTES // 2)
        data = [made(begin, 2, value=large), made(begin + 2, 1, control=True), made(begin + 3, 2, value=large)]
        return _records(tp, data, begin, asked)

    plain = [piece.offsets for piece in fetch(3)]
    assert (plain, asked.positions[tp]) == ([[3, 4], [6, 7]], 8)
    asked.positions[tp] = 3
    for n in range(1, 5):
        records = fetch(3)
        assert records.read_ahead(n) == min(n, 3)  # with the end
        assert (records.next_fetch_offset, asked.positions[tp]) == (3, 3)  # as if nothing had been made
    assert [piece.offsets for piece in records] == plain
    assert (records.next_fetch_offset, asked.positions[tp]) == (8, 8)
    dropped = fetch(9)
    dropped.read_ahead(2)
    assert not asked.jumps  # it was never taken
    assert next(dropped).offsets == [9, 10]
    assert asked.jumps == {tp: (8, 9)}


def test_what_is_small_is_taken_before_a_backlog_that_came_first():
    """A command that was there before the worker began takes effect before what waited with it."""
    backlog, commands, others = (TopicPartition(name, 0) for name in ("features", "control", "others"))
    asked = Unpacking({tp.topic for tp in (backlog, commands, others)})
    pieces = [made(i, 1, value=bytes(unpacking.PIECE_BYTES)) for i in range(5)]

    async def run() -> None:
        client = object.__new__(fetcher.Fetcher)
        subscriptions = SubscriptionState()
        subscriptions.subscribe({tp.topic for tp in (backlog, commands, others)})
        subscriptions.assign_from_subscribed({backlog, commands, others})
        client._subscriptions, client._wait_consume_future, client._records = subscriptions, None, OrderedDict()
        for tp, data in ((others, pieces), (backlog, pieces), (commands, [made(0, 1)])):
            subscriptions.seek(tp, 0)
            records, assignment = _records(tp, data, 0, asked), subscriptions.subscription.assignment
            found = fetcher.FetchResult(tp, assignment=assignment, partition_records=records, backoff=0)
            client._records[tp] = found
        tps = {backlog, commands}
        n = await transport._unpacked(client, tps, 0.0, 2)
        taken = await client.fetched_records(tps, max_records=n)
        assert [(tp, len(found)) for tp, found in taken.items()] == [(commands, 1), (backlog, 2)]

    asyncio.run(run())


def test_offsets_that_were_refused_are_committed_later_where_partitions_stay():
    stays, goes = (TP("source", p) for p in range(2))
    committed, pause = [], asyncio.Event()

    async def run() -> None:
        thread = types.SimpleNamespace(epochs={stays: 1, goes: 1}, _to_commit={}, _committing=None)

        async def commit(offsets) -> None:
            if not committed:
                committed.append("refused")
                thread.epochs[goes] = 2  # another worker had it meanwhile
                raise KafkaError
            committed.append(dict(offsets))

        consumer = types.SimpleNamespace(
            _coordinator=types.SimpleNamespace(_performed_join_prepare=False),
            assignment=lambda: {TopicPartition(*stays), TopicPartition(*goes)},
            commit=commit,
        )
        thread._ensure_consumer, thread.sleep = lambda: consumer, lambda _: pause.wait()
        for name in ("commit_sources", "_commit_all"):
            setattr(thread, name, types.MethodType(getattr(transport.ConsumerThread, name), thread))
        thread.commit_sources({stays: 5, goes: 6})
        await thread._committing
        assert committed == ["refused"]
        thread.commit_sources({})
        while len(committed) < 2:
            await asyncio.sleep(0)
        for offset in (7, 8):  # what comes in the pause is one request
            thread.commit_sources({stays: offset})
        pause.set()
        await thread._committing
        assert committed[1:] == [{TopicPartition(*stays): OffsetAndMetadata(offset, CHECKPOINT)} for offset in (5, 8)]
        done = thread._committing
        thread.commit_sources({})
        assert thread._committing is done  # nothing is left

    asyncio.run(run())
