"""Topics as they are: other partitions, other keys, several topics; each record is copied once, and learned as ever."""

import asyncio
import json
import random
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError
from aiokafka.structs import TopicPartition
from click.testing import CliRunner

from app.cli import cli
from app.errors import TopicError
from app.kafka.connection import Connection
from app.kafka.lag import lag
from app.kafka.outputs import ask_in_vain
from app.kafka.outputs import close as close_producer
from app.kafka.partitioner import partitions_of
from app.kafka.ports import free_port
from app.kafka.reading import read_to_end
from app.replay import publish
from app.stream_file.spec import Spec
from app.worker import copy_claims
from app.worker.copied import Copied
from tests.broker.crashing import FREEZE
from tests.broker.harness import (
    PATIENCE,
    Sent,
    Worker,
    create_topics,
    instances,
    predictions,
    read,
    stream_file,
    wait_for_state,
)
from topics.names import HEADER_SOURCE, source_of
from topics.records import Rows

pytestmark = pytest.mark.broker

SOURCES = {"orders": 6, "payments": 4, "chargebacks": 4}


async def _make(broker: str, topics: dict[str, int]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, n, 1) for name, n in topics.items()])
        while not set(topics) <= set(await admin.list_topics()):  # known a moment after they are made
            await asyncio.sleep(0.02)
    finally:
        await admin.close()


async def _send(broker: str, records: list[tuple[str, int, Sent]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True)
    await producer.start()
    try:
        for topic, partition, r in records:
            await producer.send(
                topic, r.value, key=r.key, partition=partition, timestamp_ms=r.time, headers=[("own", b"1")]
            )
        await producer.flush()
    finally:
        await producer.stop()


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


def stream(folder: Path, name: str, **fields: Any) -> tuple[Path, Spec]:
    rekey = {"features": f"{name}.orders", "labels": [f"{name}.payments", f"{name}.chargebacks"]}
    return stream_file(folder, name, **{"partitions": 4, "rekey": rekey, **fields})


def check_copies(broker: str, spec: Spec, sent: list[tuple[str, int, Sent]]) -> None:
    """Each source record once, unchanged."""
    at = Counter[tuple[str, int]]()
    wanted = {}
    for topic, partition, r in sent:
        wanted[topic, partition, at[topic, partition]] = r
        at[topic, partition] += 1
    found = Counter[tuple[str, int, int]]()
    for target, _, record in committed(broker, spec):
        source = source_of(record.headers)
        assert source is not None
        found[source] += 1
        original = wanted[source]
        assert (record.key, record.value, record.timestamp) == (original.key, original.value, original.time)
        assert target == (spec.topics.features if source[0].endswith("orders") else spec.topics.labels)
        assert [name for name, _ in record.headers] == ["own", HEADER_SOURCE]
    assert found == Counter(dict.fromkeys(wanted, 1))


def committed(broker: str, spec: Spec) -> list[tuple[str, int, Any]]:
    return asyncio.run(_committed(broker, spec))


async def _committed(broker: str, spec: Spec) -> list[tuple[str, int, Any]]:
    found: list[tuple[str, int, Any]] = []
    tps = {TopicPartition(topic, k): 0 for _, topic, _ in spec.inputs for k in range(spec.partitions)}
    await read_to_end(
        Connection(broker), tps, lambda tp, records: found.extend((tp.topic, tp.partition, r) for r in records)
    )
    return found


def wait_for_copies(broker: str, spec: Spec, n: int, worker: Worker) -> list[tuple[str, int, Any]]:
    while len(found := committed(broker, spec)) < n:
        assert worker.process.poll() is None, worker.output[-3000:]
        time.sleep(0.3)
    return found


def ends(found: list[tuple[str, int, Any]], topic: str | None, k: int) -> int:
    return max((r.offset + 1 for t, p, r in found if (t, p) == (topic, k)), default=0)


def learned(broker: str, spec: Spec, n: int, worker: Worker) -> list[Any]:
    """The learners, when all copies have been learned."""
    found = wait_for_copies(broker, spec, n, worker)
    return [
        wait_for_state(
            broker, spec, ends(found, spec.topics.features, k), ends(found, spec.topics.labels, k), k, worker
        )
        for k in range(spec.partitions)
    ]


def by_id(broker: str, spec: Spec) -> dict[str, Any]:
    """Partition and values of each prediction, without its place."""
    return {
        p["id"]: (k, {name: v for name, v in p.items() if "offset" not in name})
        for k in range(spec.partitions)
        for p in predictions(broker, spec, k)
    }


def test_topics_as_they_are_give_the_predictions_of_topics_partitioned_alike(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    fields: dict[str, Any] = {"join": {"max_wait": "300s"}, "learning": "partition"}  # in one order, so equal
    path, spec = stream(tmp_path, topic_name, **fields)
    asyncio.run(_make(broker, {f"{topic_name}.{name}": n for name, n in SOURCES.items()}))
    sent = scattered(topic_name, 2000)
    asyncio.run(_send(broker, sent))
    create_topics(spec, broker)
    with Worker(path, broker, tmp_path) as worker:
        learners = learned(broker, spec, len(sent), worker)
        assert worker.stop() == 0, worker.output[-3000:]
    check_copies(broker, spec, sent)
    # The same records in topics that are partitioned alike.
    other_path, other = stream_file(tmp_path, f"{topic_name}-alike", partitions=4, **fields)
    create_topics(other, broker)
    place = {source_of(r.headers): k for _, k, r in committed(broker, spec)}
    at = Counter[tuple[str, int]]()
    alike = []
    for topic, partition, r in sent:
        k = place[topic, partition, at[topic, partition]]
        at[topic, partition] += 1
        alike.append((other.topics.features if topic.endswith("orders") else other.topics.labels, k, r))
    alike.sort(key=lambda one: one[2].time)
    asyncio.run(_send(broker, alike))
    with Worker(other_path, broker, tmp_path) as worker:
        others = learned(broker, other, len(sent), worker)
        assert worker.stop() == 0, worker.output[-3000:]
    assert len(by_id(broker, spec)) == 2000
    assert by_id(broker, spec) == by_id(broker, other)
    assert [one.pending.counts for one in learners] == [one.pending.counts for one in others]
    letters = [r for k in range(4) for r in read(broker, spec.topics.deadletters, k)]
    sources = {source_of(r.headers) for r in letters}
    assert len(letters) == 2
    assert sources == {
        (f"{topic_name}.orders", 5, place_of(sent, b"{oops")),
        (f"{topic_name}.payments", 3, place_of(sent, b'{"y": 1}')),
    }


def place_of(sent: list[tuple[str, int, Sent]], value: bytes) -> int:
    """Source offset of a record."""
    topic, partition, _ = next(one for one in sent if one[2].value == value)
    return [r.value for t, p, r in sent if (t, p) == (topic, partition)].index(value)


def test_copiers_that_are_killed_and_frozen_repeat_nothing_and_lose_nothing(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    path, spec = stream(tmp_path, topic_name, champion="last-label", challengers={})
    asyncio.run(_make(broker, {f"{topic_name}.{name}": n for name, n in SOURCES.items()}))
    create_topics(spec, broker)
    rng = random.Random(topic_name)
    sent: list[tuple[str, int, Sent]] = []

    def more() -> None:
        batch = scattered(topic_name, 300, seed=1, start=300 * (len(sent) // 602))
        asyncio.run(_send(broker, batch))
        sent.extend(batch)

    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(path, broker, tmp_path, name=f"w{i}")) for i in range(2)]
        more()
        wait_for_copies(broker, spec, len(sent) // 2, workers[0])
        for fault in ("kill", "freeze", "kill", "freeze", "freeze"):
            victim = rng.randrange(2)
            before = len(committed(broker, spec))
            more()
            while len(committed(broker, spec)) == before:  # somewhere in the copying of these
                assert workers[victim].process.poll() is None, workers[victim].output[-3000:]
            if fault == "kill":
                workers[victim].kill()
                workers[victim] = stack.enter_context(Worker(path, broker, tmp_path, name=f"w{victim}"))
                continue
            workers[victim].process.send_signal(signal.SIGSTOP)
            more()
            wait_for_copies(broker, spec, len(sent), workers[1 - victim])  # the other one has taken over
            more()
            workers[victim].process.send_signal(signal.SIGCONT)
        learners = learned(broker, spec, len(sent), workers[0])
        while not all("Worker ready" in worker.output for worker in workers):  # before, a signal just ends them
            assert all(worker.process.poll() is None for worker in workers)
            time.sleep(0.1)
        assert [worker.stop() for worker in workers] == [0, 0], workers[0].output[-3000:]
    check_copies(broker, spec, sent)
    n = len(sent) // 602
    assert sum(learner.pending.counts["joined"] for learner in learners) == 300 * n
    assert len([r for k in range(4) for r in read(broker, spec.topics.deadletters, k)]) == 2 * n


def run(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [*map(str, arguments)])


def test_only_labels_are_copied_and_everybody_knows_how_far(broker: str, tmp_path: Path, topic_name: str) -> None:
    """Features are read as they are; the copying is told; and in a group without offsets it goes on where it was."""
    rekey = {"labels": f"{topic_name}.payments"}
    fields = {"partitions": 4, "rekey": rekey, "champion": "last-label", "challengers": {}, "join": {"max_wait": "9s"}}
    path, spec = stream_file(tmp_path, topic_name, **fields)
    waiting = run("check", path, "--broker", broker)
    assert isinstance(waiting.exception, TopicError)
    assert f"Expected the topic {topic_name}.payments of rekey.labels in the stream" in str(waiting.exception)
    asyncio.run(_make(broker, {f"{topic_name}.payments": 3}))
    create_topics(spec, broker)
    features, labels = instances(400)
    rng = random.Random(1)

    def give(start: int, stop: int) -> None:
        k = partitions_of([r.key or b"" for r in features], 4).tolist()
        batch = [(spec.topics.features, k[i], features[i]) for i in range(start, stop)]
        batch += [(f"{topic_name}.payments", rng.randrange(3), labels[i]) for i in range(start, stop)]
        asyncio.run(_send(broker, batch))

    give(0, 200)
    behind = [row for row in asyncio.run(lag(spec, Connection(broker))).rows if row.topic.endswith(".payments")]
    assert (len(behind), sum(row.end for row in behind), {row.processed for row in behind}) == (3, 200, {None})
    port = free_port()
    for stop in (200, 400):
        with Worker(path, broker, tmp_path, web_port=port) as worker:
            if stop == 400:
                give(200, 400)
            learners = learned(broker, spec, 2 * stop, worker)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE) as page:
                told = json.load(page)["rekey"]
            assert (len(told), sum(one["copied"] >= 1 for one in told), {one["lag"] for one in told}) == (3, 3, {0})
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
                lines = [x for x in page.read().decode().splitlines() if x.startswith("riparian_rekey_lag_records{")]
            assert [line.rpartition(" ")[2] for line in lines] == ["0.0"] * 3
            assert worker.stop() == 0, worker.output[-3000:]
        assert sum(learner.pending.counts["joined"] for learner in learners) == stop
        # A group of which Kafka knows no offsets, as of any after a week without members.
        path, spec = stream_file(tmp_path, topic_name, **{**fields, "kafka": {"prefix": "other."}})
    found = Counter(source_of(r.headers) for t, _, r in committed(broker, spec) if t == spec.topics.labels)
    assert set(found.values()) == {1}
    assert found.total() == 400
    audited = run("audit", path, "--broker", broker)
    assert audited.exit_code == 0, audited.output
    assert run("check", path, "--broker", broker).exit_code == 0


def test_what_is_replayed_or_retried_goes_to_the_topics_that_are_copied(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    rekey = {"features": f"{topic_name}.orders", "labels": [f"{topic_name}.payments", f"{topic_name}.chargebacks"]}
    path, spec = stream_file(
        tmp_path, topic_name, partitions=2, rekey=rekey, champion="last-label", challengers={}, classes=["yes", "may"]
    )
    asyncio.run(_make(broker, {f"{topic_name}.{name}": n for name, n in SOURCES.items()}))
    rows = [Rows(0, [str(i) for i in range(60)], [["1"] * 60, ["2"] * 60, ['"x"'] * 60], ['"yes"', '"no"'] * 30)]
    assert asyncio.run(publish(spec, rows, Connection(broker))).labels == 60
    assert {t for t, n in ends_of(broker, spec.sources).items() if n} == {
        f"{topic_name}.orders",
        f"{topic_name}.payments",
    }
    with Worker(path, broker, tmp_path) as worker:
        learners = learned(broker, spec, 120, worker)
        assert sum(learner.pending.counts["joined"] for learner in learners) == 30
        assert worker.stop() == 0, worker.output[-3000:]
    shown = run("deadletters", "show", path, "--broker", broker)
    assert f"{topic_name}.payments/" in shown.output
    path, spec = stream_file(
        tmp_path,
        topic_name,
        partitions=2,
        rekey=rekey,
        champion="last-label",
        challengers={},
        classes=["yes", "may", "no"],
    )
    retried = run("deadletters", "retry", path, "--broker", broker)
    assert retried.exit_code == 0, retried.output
    assert ends_of(broker, spec.sources)[f"{topic_name}.payments"] >= 90
    with Worker(path, broker, tmp_path) as worker:
        learners = learned(broker, spec, 150, worker)
        assert sum(learner.pending.counts["joined"] for learner in learners) == 60
        assert worker.stop() == 0, worker.output[-3000:]
    found = Counter(source_of(r.headers) for _, _, r in committed(broker, spec))
    assert set(found.values()) == {1}
    assert found.total() == 150


def ends_of(broker: str, topics: Iterable[str]) -> dict[str, int]:
    """Records of each topic, markers among them."""
    return {
        topic: sum(len(read(broker, topic, k)) for k in range(SOURCES[topic.rpartition(".")[2]])) for topic in topics
    }


def test_check_says_what_to_write_for_topics_that_are_not_partitioned_alike(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    path, spec = stream_file(tmp_path, topic_name, partitions=4)
    asyncio.run(_make(broker, {spec.topics.features: 6, str(spec.topics.labels): 4}))
    found = run("check", path, "--broker", broker)
    assert isinstance(found.exception, TopicError), found.output
    lines = (
        f"rekey: {{features: {topic_name}.features, labels: {topic_name}.labels}} and "
        f"topics: {{features: {topic_name}.features.copied, labels: {topic_name}.labels.copied}}"
    )
    assert lines in str(found.exception)
    # Whoever does as it says is understood.
    fields = {one.partition(": ")[0]: yaml.safe_load(one)[one.partition(": ")[0]] for one in lines.split(" and ")}
    path, spec = stream_file(tmp_path, topic_name, partitions=4, **fields)
    assert run("check", path, "--broker", broker).exit_code == 0
    create_topics(spec, broker)


async def _late_owner(broker: str, spec: Spec, ending: str) -> None:
    """An owner that was stopped in the middle of a transaction, and goes on after another has taken over."""
    connection, tp = Connection(broker), TopicPartition(next(iter(spec.sources)), 0)
    target, group = TopicPartition(spec.topics.features, 0), spec.rekey_group
    admin, asker = connection.admin(), connection.consumer()
    await admin.start()
    await asker.start()

    async def join() -> tuple[Any, copy_claims.Member]:
        consumer = connection.consumer(group_id=group, auto_offset_reset="earliest")
        consumer.subscribe(topics=[tp.topic])
        await consumer.start()
        while tp not in consumer.assignment():
            await consumer.getmany(timeout_ms=50)
        return consumer, copy_claims.Member(consumer._coordinator.generation, consumer._coordinator.member_id)

    async def write(producer: Any, offset: int) -> None:
        await producer.begin_transaction()
        headers = [(HEADER_SOURCE, f"{tp.topic}/0/{offset - 1}".encode())]
        await producer.send_and_wait(target.topic, b"{}", partition=0, headers=headers)

    first, one = await join()
    ids = [copy_claims.new_id(spec.name) for _ in range(2)]
    assert await copy_claims.positions(spec, connection, admin, asker, [tp]) == {tp: 0}
    old = await copy_claims.producer(connection, ids[0])
    await copy_claims.commit(admin, group, one, {tp: 0}, ids[0])
    await write(old, 5)
    await old.send_offsets_to_transaction({tp: (5, ids[0])}, group)
    if ending == "committed":
        await old.commit_transaction()
    await first.stop()
    second, two = await join()
    assert two.generation > one.generation
    with pytest.raises(KafkaError):  # a claim of an earlier generation
        await copy_claims.commit(admin, group, one, {tp: 0}, ids[0])
    held = 5 if ending == "committed" else 0
    assert await copy_claims.positions(spec, connection, admin, asker, [tp]) == {tp: held}
    new = await copy_claims.producer(connection, ids[1])
    await copy_claims.commit(admin, group, two, {tp: held}, ids[1])
    late = write(old, 6) if ending == "committed" else old.commit_transaction()
    with pytest.raises(KafkaError):
        await late
    await write(new, 7)
    await new.send_offsets_to_transaction({tp: (7, ids[1])}, group)
    await new.commit_transaction()
    assert await copy_claims.positions(spec, connection, admin, asker, [tp]) == {tp: 7}
    # What the copies themselves say, where Kafka has forgotten the offsets.
    assert await copy_claims.from_copies(spec, connection, [tp]) == {tp: 7}
    for client in (second, asker):
        await client.stop()
    for producer in (old, new):
        await close_producer(producer)
        ask_in_vain(producer)
    await admin.close()


@pytest.mark.parametrize("ending", ["open", "committed"])
def test_an_owner_that_wakes_up_late_can_neither_commit_nor_claim(
    broker: str, tmp_path: Path, topic_name: str, ending: str
) -> None:
    _, spec = stream_file(tmp_path, topic_name, rekey={"features": f"{topic_name}.orders"})
    asyncio.run(_make(broker, {f"{topic_name}.orders": 1}))
    create_topics(spec, broker)
    asyncio.run(_late_owner(broker, spec, ending))
    found = [source_of(r.headers) for _, _, r in committed(broker, spec)]
    assert [source and source[2] for source in found] == ([4, 6] if ending == "committed" else [6])


def test_a_worker_that_was_frozen_in_a_transaction_is_refused_and_copies_again_as_a_member(
    broker: str, tmp_path: Path, topic_name: str
) -> None:
    """Another takes its partitions and the epoch of its transactional id meanwhile: what it writes then comes late."""
    path, spec = stream(tmp_path, topic_name, partitions=1, champion="last-label", challengers={})
    asyncio.run(_make(broker, {f"{topic_name}.{name}": n for name, n in SOURCES.items()}))
    create_topics(spec, broker)
    armed = tmp_path / "armed"
    sent = scattered(topic_name, 50)
    asyncio.run(_send(broker, sent))
    with Worker(
        path, broker, tmp_path, name="zombie", entry=("tests.broker.crashing", "before copies are sent", str(armed))
    ) as zombie:
        wait_for_copies(broker, spec, len(sent), zombie)
        armed.write_text(FREEZE)
        more = scattered(topic_name, 50, start=50)
        asyncio.run(_send(broker, more))
        sent += more
        deadline = time.monotonic() + PATIENCE
        while armed.exists():  # it removes it, and stops
            assert time.monotonic() < deadline, zombie.output[-3000:]
            time.sleep(0.05)
        with Worker(path, broker, tmp_path, name="next") as other:
            wait_for_copies(broker, spec, len(sent), other)
            zombie.process.send_signal(signal.SIGCONT)
            while "copying goes on at the last transaction: ProducerFenced" not in zombie.output:
                assert zombie.process.poll() is None, zombie.output[-3000:]
                assert time.monotonic() < deadline, zombie.output[-3000:]
                time.sleep(0.05)
            more = scattered(topic_name, 50, start=100)
            asyncio.run(_send(broker, more))
            sent += more
            wait_for_copies(broker, spec, len(sent), other)
            assert [other.stop(), zombie.stop()] == [0, 0], zombie.output[-3000:]
    check_copies(broker, spec, sent)


async def _followed(broker: str, spec: Spec) -> None:
    connection, source = Connection(broker), TopicPartition(next(iter(spec.sources)), 0)
    admin, copied = connection.admin(), Copied(spec, connection)
    nobody = copy_claims.Member(-1, "")  # of a group without members
    labels = TopicPartition(str(spec.topics.labels), 0)
    await admin.start()
    producer = await copy_claims.producer(connection, copy_claims.new_id(spec.name))

    async def looked(times: int) -> None:
        for _ in range(times):
            before = copied._looked
            while copied._looked == before and not copied._tasks[0].done():
                await asyncio.sleep(0.01)

    try:
        # One of three labels has been copied, and what is in its transaction counts before it has ended.
        await producer.begin_transaction()
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        assert await copied.ends(0) == {"features": 2, "labels": 1}
        await looked(3)
        assert (copied.until(0, "features"), copied.until(0, "labels"), copied.moved) == (2, None, 0.0)
        await copy_claims.commit(admin, spec.rekey_group, nobody, {source: 1}, "")
        await looked(3)
        assert copied.until(0, "labels") is None
        assert copied.moved
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        await producer.send_and_wait(labels.topic, b"{}", partition=0)
        await copy_claims.commit(admin, spec.rekey_group, nobody, {source: 3}, "")
        while (until := copied.until(0, "labels")) is None:
            await asyncio.sleep(0.01)
        assert until == 3
        # Asked anew, it is not known any more.
        assert await copied.ends(0) == {"features": 2, "labels": 3}
        assert copied.until(0, "labels") is None
    finally:
        await producer.abort_transaction()
        await close_producer(producer)
        await copied.stop()
        await admin.close()


def test_a_partition_knows_whether_what_was_there_has_been_copied(broker: str, tmp_path: Path, topic_name: str) -> None:
    _, spec = stream_file(tmp_path, topic_name, rekey={"labels": f"{topic_name}.payments"})
    asyncio.run(_make(broker, {f"{topic_name}.payments": 1}))
    create_topics(spec, broker)
    features, labels = instances(3)
    batch = [(spec.topics.features, 0, r) for r in features[:2]] + [(f"{topic_name}.payments", 0, r) for r in labels]
    asyncio.run(_send(broker, batch))
    asyncio.run(_followed(broker, spec))


async def _delete(broker: str, topic: str, partition: int, before: int) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before)})
    finally:
        await admin.close()


def test_records_that_kafka_has_deleted_before_they_were_copied(broker: str, tmp_path: Path, topic_name: str) -> None:
    """Before the first start they are not missed; later they stop the worker, or are counted."""
    rekey = {"features": f"{topic_name}.orders"}
    fields = {"rekey": rekey, "champion": "last-label", "challengers": {}}
    path, spec = stream_file(tmp_path, topic_name, **fields)
    asyncio.run(_make(broker, {rekey["features"]: 1}))
    create_topics(spec, broker)
    features, _ = instances(100)

    def give(start: int, stop: int) -> None:
        asyncio.run(_send(broker, [(rekey["features"], 0, r) for r in features[start:stop]]))

    give(0, 30)
    asyncio.run(_delete(broker, rekey["features"], 0, 10))
    with Worker(path, broker, tmp_path) as worker:
        learned(broker, spec, 20, worker)
        assert worker.stop() == 0, worker.output[-3000:]
    give(30, 60)
    asyncio.run(_delete(broker, rekey["features"], 0, 50))
    with Worker(path, broker, tmp_path) as worker:
        assert worker.process.wait(PATIENCE) == 2, worker.output[-3000:]
        assert f"{rekey['features']}[0]" in worker.output
        assert "Traceback" not in worker.output
    path, spec = stream_file(tmp_path, topic_name, **fields, lost="skip")
    port = free_port()
    with Worker(path, broker, tmp_path, web_port=port) as worker:
        learned(broker, spec, 30, worker)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
            lines = [x for x in page.read().decode().splitlines() if x.startswith("riparian_lost_records_total{")]
        assert [x.rpartition(" ")[2] for x in lines if f'topic="{rekey["features"]}"' in x] == ["20.0"]
        assert worker.stop() == 0, worker.output[-3000:]
    found = [source_of(r.headers) for _, _, r in committed(broker, spec)]
    assert [source and source[2] for source in found] == [*range(10, 30), *range(50, 60)]
