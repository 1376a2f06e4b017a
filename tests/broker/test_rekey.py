"""Topics as they are: other partitions, other keys, several topics; each record is copied once, and learned as ever."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition

from riparian.app.kafka.reading import read_to_end
from riparian.app.kafka.sending import ask_in_vain
from riparian.app.kafka.sending import close as close_producer
from riparian.app.kafka.topics.lag import lag
from riparian.app.kafka.topics.partitioner import partitions_of
from riparian.app.replay import publish
from riparian.app.worker.faust_client.input_logs import Found
from riparian.app.worker.repartition import claims
from riparian.app.worker.repartition.copied import CopiedLogs
from riparian.topics.names import HEADER_SOURCE, source_of
from riparian.topics.records import Rows
from tests.broker.clients import Sent, delete_before, make_topics, read
from tests.broker.crashing import FREEZE
from tests.broker.harness import Page, Stream, Worker, instances
from tests.processes import until

pytestmark = pytest.mark.broker

SOURCES = {"orders": 6, "payments": 4, "chargebacks": 4}
LAST = {"champion": "last-label", "challengers": {}}


async def _send(broker: str, records: list[tuple[str, int, Sent]]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True) as producer:
        for topic, partition, r in records:
            await producer.send(
                topic, r.value, key=r.key, partition=partition, timestamp_ms=r.time, headers=[("own", b"1")]
            )
        await producer.flush()


def scattered(prefix: str, n: int, seed: int = 0, start: int = 0) -> list[tuple[str, int, Sent]]:
    """Topic, partition and record: features by customer on six partitions, labels by transaction on four, some of them
    in a second topic; among them records that cannot be read. All timestamps differ."""
    features, labels = instances(n, start, seed=seed)
    rng = random.Random(f"{seed}/{start}")
    records = []
    for at, (feature, label) in enumerate(zip(features, labels, strict=True)):
        stamp = 2 * (feature.time - features[0].time) + features[0].time  # even; labels are odd
        customer = rng.randrange(6)
        records.append((f"{prefix}.orders", customer, Sent(feature.value, stamp, f"customer-{customer}".encode())))
        topic = "chargebacks" if rng.random() < 0.3 else "payments"
        transaction = rng.randrange(4)
        key = f"transaction-{start + at}".encode()
        records.append((f"{prefix}.{topic}", transaction, Sent(label.value, stamp + 21, key)))
    records.insert(7, (f"{prefix}.orders", 5, Sent(b"{oops", records[6][2].time, b"k")))
    records.insert(30, (f"{prefix}.payments", 3, Sent(b'{"y": 1}', records[29][2].time, None)))
    return records


class Rekeyed(Stream):
    """A stream whose topics are copied, with the source topics. sources : partitions of each."""

    def __init__(self, broker: str, folder: Any, name: str, sources: dict[str, int] = SOURCES, **fields: Any) -> None:
        given = {role: f"{name}.{role}" for role in sources}
        if sources == SOURCES:
            both = [given["payments"], given["chargebacks"]]
            fields = {"partitions": 4, "rekey": {"features": given["orders"], "labels": both}, **fields}
        make_topics(broker, {given[role]: n for role, n in sources.items()})
        self.fields = fields
        super().__init__(broker, folder, name, **fields)

    def send(self, records: list[tuple[str, int, Sent]]) -> None:
        asyncio.run(_send(self.broker, records))

    def committed(self) -> list[tuple[str, int, Any]]:
        """Topic, partition and record of all copies."""
        found: list[tuple[str, int, Any]] = []
        tps = {TopicPartition(topic, k): 0 for _, topic, _ in self.spec.inputs for k in range(self.spec.partitions)}

        def take(tp: TopicPartition, records: list[Any]) -> None:
            found.extend((tp.topic, tp.partition, r) for r in records)

        asyncio.run(read_to_end(self.connection, tps, take))
        return found

    def copied(self, n: int, worker: Worker) -> list[tuple[str, int, Any]]:
        """Wait for n copies."""
        found: list[tuple[str, int, Any]] = []

        def there() -> bool:
            assert worker.process.poll() is None, worker.output[-3000:]
            found[:] = self.committed()
            return len(found) >= n

        until(there)
        return found

    def learned(self, n: int, worker: Worker) -> list[Any]:
        """The learners, when all n copies have been learned."""
        found = self.copied(n, worker)

        def end(topic: str | None, k: int) -> int:
            return max((r.offset + 1 for t, p, r in found if (t, p) == (topic, k)), default=0)

        topics = self.spec.topics
        return [
            self.reach(end(topics.features, k), end(topics.labels, k), worker, k) for k in range(self.spec.partitions)
        ]

    def runs(self, n: int, **options: Any) -> list[Any]:
        """A worker that learns n copies and is stopped; the learners."""
        with self.worker(**options) as worker:
            learners = self.learned(n, worker)
            assert worker.stop() == 0, worker.output[-3000:]
        return learners

    def sources(self) -> Counter[Any]:
        """How often each source record was copied."""
        return Counter(source_of(r.headers) for _, _, r in self.committed())

    def check_copies(self, sent: list[tuple[str, int, Sent]]) -> None:
        """Each source record once, unchanged."""
        wanted = {place: r for place, (_, _, r) in zip(places(sent), sent, strict=True)}
        for target, _, record in self.committed():
            source = source_of(record.headers)
            assert source is not None
            original = wanted[source]
            assert (record.key, record.value, record.timestamp) == (original.key, original.value, original.time)
            topics = self.spec.topics
            assert target == (topics.features if source[0].endswith("orders") else topics.labels)
            assert [name for name, _ in record.headers] == ["own", HEADER_SOURCE]
        assert self.sources() == Counter(dict.fromkeys(wanted, 1))


@pytest.fixture
def rekeyed(stream: Any) -> Any:
    def make(*sources: Any, **fields: Any) -> Rekeyed:
        return Rekeyed(*stream.args, *sources, **fields)

    return make


def places(sent: list[tuple[str, int, Sent]]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of each record in the source topics."""
    at, found = Counter[tuple[str, int]](), []
    for topic, partition, _ in sent:
        found.append((topic, partition, at[topic, partition]))
        at[topic, partition] += 1
    return found


def by_id(s: Stream) -> dict[str, Any]:
    """Partition and values of each prediction, without its place."""
    return {
        p["id"]: (k, {name: v for name, v in p.items() if "offset" not in name})
        for k in range(s.spec.partitions)
        for p in s.predictions(k)
    }


def test_topics_as_they_are_give_the_predictions_of_topics_partitioned_alike(rekeyed: Any) -> None:
    fields: dict[str, Any] = {"join": {"max_wait": "300s"}, "learning": "partition"}  # in one order, so equal
    s, n = rekeyed(**fields), 1000
    sent = scattered(s.name, n)
    s.send(sent)
    learners = s.runs(len(sent))
    s.check_copies(sent)
    # The same records in topics that are partitioned alike.
    other = Rekeyed(s.broker, s.folder, f"{s.name}-alike", {}, partitions=4, **fields)
    place = {source_of(r.headers): k for _, k, r in s.committed()}
    topics = other.spec.topics
    alike = [
        (topics.features if source[0].endswith("orders") else str(topics.labels), place[source], r)
        for source, (_, _, r) in zip(places(sent), sent, strict=True)
    ]
    other.send(sorted(alike, key=lambda one: one[2].time))
    others = other.runs(len(sent))
    assert len(by_id(s)) == n
    assert by_id(s) == by_id(other)
    assert [one.pending.counts for one in learners] == [one.pending.counts for one in others]
    letters = [source_of(r.headers) for k in range(4) for r in s.read("deadletters", k)]
    bad = [source for source, (_, _, r) in zip(places(sent), sent, strict=True) if r.value in (b"{oops", b'{"y": 1}')]
    assert len(bad) == 2
    assert sorted(letters) == sorted(bad)


def test_copiers_that_are_killed_and_frozen_repeat_nothing_and_lose_nothing(rekeyed: Any) -> None:
    s = rekeyed(**LAST)
    rng = random.Random(s.name)
    sent: list[tuple[str, int, Sent]] = []

    def more() -> None:
        batch = scattered(s.name, 200, seed=1, start=200 * (len(sent) // 402))
        s.send(batch)
        sent.extend(batch)

    with ExitStack() as stack:
        workers = [stack.enter_context(s.worker(name=f"w{i}")) for i in range(2)]
        more()
        s.copied(len(sent) // 2, workers[0])
        for fault in ("kill", "freeze", "freeze"):
            victim = rng.randrange(2)
            before = len(s.committed())
            more()
            s.copied(before + 1, workers[victim])  # somewhere in the copying of these
            if fault == "kill":
                workers[victim].kill()
                workers[victim] = stack.enter_context(s.worker(name=f"w{victim}"))
                continue
            workers[victim].process.send_signal(signal.SIGSTOP)
            more()
            s.copied(len(sent), workers[1 - victim])  # the other one has taken over
            more()
            workers[victim].process.send_signal(signal.SIGCONT)
        learners = s.learned(len(sent), workers[0])
        for worker in workers:  # before, a signal just ends them
            worker.wait_for("Worker ready")
        assert [worker.stop() for worker in workers] == [0, 0], workers[0].output[-3000:]
    s.check_copies(sent)
    n = len(sent) // 402
    assert sum(learner.pending.counts["joined"] for learner in learners) == 200 * n
    assert len([r for k in range(4) for r in s.read("deadletters", k)]) == 2 * n


def test_only_labels_are_copied_and_everybody_knows_how_far(rekeyed: Any, stream: Any) -> None:
    """Features are read as they are; the copying is told; and in a group without offsets it goes on where it was."""
    _, _, name = stream.args
    fields = {"partitions": 4, "rekey": {"labels": f"{name}.payments"}, **LAST, "join": {"max_wait": "1s"}}
    waiting = stream(topics_made=False, **fields).riparian("check", code=2)
    assert f"Expected the topic {name}.payments of rekey.labels in the stream" in waiting
    s = rekeyed({"payments": 3}, **fields)
    features, labels = instances(400)
    rng = random.Random(1)

    def give(start: int, stop: int) -> None:
        k = partitions_of([r.key or b"" for r in features], 4).tolist()
        batch = [(s.spec.topics.features, k[i], features[i]) for i in range(start, stop)]
        s.send([*batch, *((f"{name}.payments", rng.randrange(3), labels[i]) for i in range(start, stop))])

    give(0, 200)
    behind = [row for row in asyncio.run(lag(s.spec, s.connection)).rows if row.topic.endswith(".payments")]
    assert (len(behind), sum(row.end for row in behind), {row.processed for row in behind}) == (3, 200, {None})
    page = Page()
    for stop in (200, 400):
        with s.worker(web_port=page.port) as worker:
            if stop == 400:
                give(200, 400)
            learners = s.learned(2 * stop, worker)
            told = page.health()["rekey"]
            assert (len(told), sum(one["copied"] >= 1 for one in told), {one["lag"] for one in told}) == (3, 3, {0})
            assert page.values("riparian_rekey_lag_records") == [0.0] * 3
            # Copies end with markers of transactions, which are no records.
            until(lambda: {row.lag for row in asyncio.run(lag(s.spec, s.connection)).rows} == {0})
            assert set(page.values("riparian_consumer_lag_records")) == {0.0}
            assert worker.stop() == 0, worker.output[-3000:]
        assert sum(learner.pending.counts["joined"] for learner in learners) == stop
        # A group of which Kafka knows no offsets, as of any after a week without members.
        s.change(**fields, kafka={"prefix": "other."})
    labelled = [source_of(r.headers) for t, _, r in s.committed() if t == s.spec.topics.labels]
    assert len(labelled) == len(set(labelled)) == 400
    s.riparian("audit")
    s.riparian("check")


def test_what_is_replayed_or_retried_goes_to_the_topics_that_are_copied(rekeyed: Any) -> None:
    s = rekeyed(**{**LAST, "partitions": 2, "classes": ["yes", "may"]})
    rows = [Rows(0, [str(i) for i in range(60)], [["1"] * 60, ["2"] * 60, ['"x"'] * 60], ['"yes"', '"no"'] * 30)]
    assert asyncio.run(publish(s.spec, rows, s.connection)).labels == 60
    orders, payments = f"{s.name}.orders", f"{s.name}.payments"
    assert {t for t, n in ends_of(s.broker, s.spec.sources).items() if n} == {orders, payments}
    assert sum(learner.pending.counts["joined"] for learner in s.runs(120)) == 30
    assert f"{payments}/" in s.riparian("deadletters show")
    s.change(**{**s.fields, "classes": ["yes", "may", "no"]})
    s.riparian("deadletters retry")
    assert ends_of(s.broker, s.spec.sources)[payments] >= 90
    assert sum(learner.pending.counts["joined"] for learner in s.runs(150)) == 60
    found = s.sources()
    assert set(found.values()) == {1}
    assert found.total() == 150


def ends_of(broker: str, topics: Iterable[str]) -> dict[str, int]:
    """Records of each topic, markers among them."""
    return {
        topic: sum(len(read(broker, topic, k)) for k in range(SOURCES[topic.rpartition(".")[2]])) for topic in topics
    }


def test_check_says_what_to_write_for_topics_that_are_not_partitioned_alike(stream: Any) -> None:
    s = stream(topics_made=False, partitions=4)
    make_topics(s.broker, {s.spec.topics.features: 6, str(s.spec.topics.labels): 4})
    lines = (
        f"rekey: {{features: {s.name}.features, labels: {s.name}.labels}} and "
        f"topics: {{features: {s.name}.features.copied, labels: {s.name}.labels.copied}}"
    )
    assert lines in s.riparian("check", code=2)
    # Whoever does as it says is understood.
    fields = {one.partition(": ")[0]: yaml.safe_load(one)[one.partition(": ")[0]] for one in lines.split(" and ")}
    s.change(partitions=4, **fields)
    s.riparian("check")
    s.create_topics()


async def _late_owner(s: Stream, ending: str) -> None:
    """An owner that was stopped in the middle of a transaction, and goes on after another has taken over."""
    spec, connection = s.spec, s.connection
    tp = TopicPartition(next(iter(spec.sources)), 0)
    target, group = TopicPartition(spec.topics.features, 0), spec.rekey_group
    admin, asker = connection.admin(), connection.consumer()
    await admin.start()
    await asker.start()

    async def join() -> tuple[Any, claims.Member]:
        consumer = connection.consumer(group_id=group, auto_offset_reset="earliest")
        consumer.subscribe(topics=[tp.topic])
        await consumer.start()
        while tp not in consumer.assignment():
            await consumer.getmany(timeout_ms=50)
        return consumer, claims.Member(consumer._coordinator.generation, consumer._coordinator.member_id)

    async def write(producer: Any, offset: int) -> None:
        await producer.begin_transaction()
        headers = [(HEADER_SOURCE, f"{tp.topic}/0/{offset - 1}".encode())]
        await producer.send_and_wait(target.topic, b"{}", partition=0, headers=headers)

    first, one = await join()
    ids = [claims.new_id(spec.name) for _ in range(2)]
    assert await claims.positions(spec, connection, admin, asker, [tp]) == {tp: 0}
    old = await claims.producer(connection, ids[0])
    await claims.commit(admin, group, one, {tp: 0}, ids[0])
    await write(old, 5)
    await old.send_offsets_to_transaction({tp: (5, ids[0])}, group)
    if ending == "committed":
        await old.commit_transaction()
    await first.stop()
    second, two = await join()
    assert two.generation > one.generation
    with pytest.raises(KafkaError):  # a claim of an earlier generation
        await claims.commit(admin, group, one, {tp: 0}, ids[0])
    held = 5 if ending == "committed" else 0
    assert await claims.positions(spec, connection, admin, asker, [tp]) == {tp: held}
    new = await claims.producer(connection, ids[1])
    await claims.commit(admin, group, two, {tp: held}, ids[1])
    late = write(old, 6) if ending == "committed" else old.commit_transaction()
    with pytest.raises(KafkaError):
        await late
    await write(new, 7)
    await new.send_offsets_to_transaction({tp: (7, ids[1])}, group)
    await new.commit_transaction()
    assert await claims.positions(spec, connection, admin, asker, [tp]) == {tp: 7}
    # What the copies themselves say, where Kafka has forgotten the offsets.
    assert await claims.from_copies(spec, connection, [tp]) == {tp: 7}
    for client in (second, asker):
        await client.stop()
    for producer in (old, new):
        await close_producer(producer)
        ask_in_vain(producer)
    await admin.close()


@pytest.mark.parametrize("ending", ["open", "committed"])
def test_an_owner_that_wakes_up_late_can_neither_commit_nor_claim(rekeyed: Any, stream: Any, ending: str) -> None:
    s = rekeyed({"orders": 1}, rekey={"features": f"{stream.args[2]}.orders"})
    asyncio.run(_late_owner(s, ending))
    found = [source_of(r.headers) for _, _, r in s.committed()]
    assert [source and source[2] for source in found] == ([4, 6] if ending == "committed" else [6])


def test_a_worker_that_was_frozen_in_a_transaction_is_refused_and_copies_again_as_a_member(rekeyed: Any) -> None:
    """Another takes its partitions and the epoch of its transactional id meanwhile: what it writes then comes late."""
    s = rekeyed(**{"partitions": 1, **LAST})
    armed = s.folder / "armed"
    sent: list[tuple[str, int, Sent]] = []

    def more() -> None:
        batch = scattered(s.name, 50, start=len(sent) // 102 * 50)
        s.send(batch)
        sent.extend(batch)

    more()
    entry = ("tests.broker.crashing", "before copies are sent", str(armed))
    with s.worker(name="zombie", entry=entry) as zombie:
        s.copied(len(sent), zombie)
        armed.write_text(FREEZE)
        more()
        until(lambda: not armed.exists())  # it removes it, and stops
        with s.worker(name="next") as other:
            s.copied(len(sent), other)
            zombie.process.send_signal(signal.SIGCONT)
            zombie.wait_for("copying goes on at the last transaction: ProducerFenced")
            more()
            s.copied(len(sent), other)
            assert [other.stop(), zombie.stop()] == [0, 0], zombie.output[-3000:]
    s.check_copies(sent)


async def _followed(s: Stream) -> None:
    spec, connection = s.spec, s.connection
    source = TopicPartition(next(iter(spec.sources)), 0)
    admin, copied = connection.admin(), CopiedLogs(None, spec, connection)
    nobody = claims.Member(-1, "")  # of a group without members
    labels = TopicPartition(str(spec.topics.labels), 0)
    await admin.start()
    producer = await claims.producer(connection, claims.new_id(spec.name))

    async def looked(times: int) -> None:
        for _ in range(times):
            before = copied._looked
            while copied._looked == before and not copied._tasks[0].done():
                await asyncio.sleep(0.01)

    try:
        # One of three labels has been copied, and what is in its transaction counts before it has ended.
        await producer.begin_transaction()
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        assert await copied.ends(0) == Found(*[{"features": 2, "labels": 1}] * 2)
        await looked(3)
        assert (copied.until(0, "features"), copied.until(0, "labels"), copied.copying) == (2, None, 0.0)
        await claims.commit(admin, spec.rekey_group, nobody, {source: 1}, "")
        await looked(3)
        assert copied.until(0, "labels") is None
        assert copied.copying
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        await claims.commit(admin, spec.rekey_group, nobody, {source: 3}, "")
        while (until := copied.until(0, "labels")) is None:
            await asyncio.sleep(0.01)
        assert until == 3
        # Asked anew, it is not known any more.
        assert await copied.ends(0) == Found(*[{"features": 2, "labels": 3}] * 2)
        assert copied.until(0, "labels") is None
    finally:
        await producer.abort_transaction()
        await close_producer(producer)
        await copied.stop()
        await admin.close()


def test_a_partition_knows_whether_what_was_there_has_been_copied(rekeyed: Any, stream: Any) -> None:
    payments = f"{stream.args[2]}.payments"
    s = rekeyed({"payments": 1}, rekey={"labels": payments})
    features, labels = instances(3)
    s.send([*((s.spec.topics.features, 0, r) for r in features[:2]), *((payments, 0, r) for r in labels)])
    asyncio.run(_followed(s))


def test_records_that_kafka_has_deleted_before_they_were_copied(rekeyed: Any, stream: Any) -> None:
    """Before the first start they are not missed; later they stop the worker, or are counted."""
    orders = f"{stream.args[2]}.orders"
    fields = {"rekey": {"features": orders}, **LAST}
    s = rekeyed({"orders": 1}, **fields)
    features, _ = instances(60)

    def give(start: int, stop: int, lost: int) -> None:
        s.send([(orders, 0, r) for r in features[start:stop]])
        delete_before(s.broker, orders, lost)

    give(0, 30, 10)
    s.runs(20)
    give(30, 60, 50)
    assert f"{orders}[0]" in s.fails()
    s.change(**fields, lost="skip")
    page = Page()
    with s.worker(web_port=page.port) as worker:
        s.learned(30, worker)
        assert page.values("riparian_lost_records_total", topic=orders) == [20.0]
        assert worker.stop() == 0, worker.output[-3000:]
    found = [source_of(r.headers) for _, _, r in s.committed()]
    assert [source and source[2] for source in found] == [*range(10, 30), *range(50, 60)]
