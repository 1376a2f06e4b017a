"""Topics as they are: other partitions, other keys, several topics; each record is copied once, and learned as ever."""

import asyncio
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import TopicPartition

from app.kafka.connection import Connection
from app.kafka.reading import read_to_end
from app.stream_file.spec import Spec
from tests.broker.harness import (
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

pytestmark = pytest.mark.broker

SOURCES = {"orders": 6, "payments": 4, "chargebacks": 4}


async def _make(broker: str, topics: dict[str, int]) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, n, 1) for name, n in topics.items()])
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
    path, spec = stream(tmp_path, topic_name, join={"max_wait": "300s"})
    asyncio.run(_make(broker, {f"{topic_name}.{name}": n for name, n in SOURCES.items()}))
    sent = scattered(topic_name, 2000)
    asyncio.run(_send(broker, sent))
    create_topics(spec, broker)
    with Worker(path, broker, tmp_path) as worker:
        learners = learned(broker, spec, len(sent), worker)
        assert worker.stop() == 0, worker.output[-3000:]
    check_copies(broker, spec, sent)
    # The same records in topics that are partitioned alike.
    other_path, other = stream_file(tmp_path, f"{topic_name}-alike", partitions=4, join={"max_wait": "300s"})
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
