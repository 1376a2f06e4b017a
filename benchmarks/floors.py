"""Programs to compare a worker with, each a process of its own that writes one JSON object to its standard output.

    python -m benchmarks.floors consume BROKER FEATURES LABELS N       read N messages of both topics, and drop them
    python -m benchmarks.floors echo BROKER FEATURES TO [LABELS]       copy feature records until SIGTERM
    python -m benchmarks.floors learn BROKER FEATURES PREDICTIONS LABELS    predict and learn until SIGTERM

`consume` is the least that a Python program does with Kafka: aiokafka's own loop with the worker's client settings (2
MB per fetch, checksums verified). `echo` is the least that a program that answers does: each record is sent on as it
arrives, by a producer that waits for nothing; of labels, where they are named, it only reads. `learn` is the least that
a program that learns does: our tree, json, and a dict of the instances that wait for their label, all in memory. One
call of the tree predicts what a fetch brought of all partitions, and one learns it. It orders, scores, keeps and
guarantees nothing.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import ConsumerRecord

from benchmarks.workload import CLASSES, NAMES

FETCH_BYTES = 2 * 1024 * 1024


async def consume(broker: str, topics: list[str], n: int) -> dict[str, Any]:
    """Messages a second from the first fetch on, and CPU time."""
    consumer = AIOKafkaConsumer(
        *topics,
        bootstrap_servers=broker,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    await consumer.start()
    try:
        counted, first, last = 0, 0, 0.0
        started = cpu = 0.0
        while counted < n:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                counted += len(records)
            last = time.perf_counter()
            if not started and counted:
                started, first, cpu = last, counted, time.process_time()
        cpu = time.process_time() - cpu
    finally:
        await consumer.stop()
    return {"n": counted - first, "seconds": last - started, "cpu_seconds": cpu}


async def answer(broker: str, topics: list[str], act: Callable[[Any, list[ConsumerRecord]], Awaitable[None]]) -> None:
    """Until SIGTERM: `act` on what each fetch brings of all partitions of these topics, with a producer to send by."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = AIOKafkaConsumer(*topics, bootstrap_servers=broker, enable_auto_commit=False)
    producer = AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True)
    await consumer.start()
    await producer.start()
    try:
        await consumer.seek_to_beginning()
        gc.collect()
        gc.freeze()
        while not stop.is_set():
            fetched = await consumer.getmany(timeout_ms=200)
            await act(producer, [record for records in fetched.values() for record in records])
    finally:
        await producer.stop()
        await consumer.stop()


async def echo(broker: str, source: str, target: str, *labels: str) -> dict[str, Any]:
    copied = 0

    async def act(producer: Any, records: list[ConsumerRecord]) -> None:
        nonlocal copied
        for record in records:
            if record.topic == source:
                await producer.send(target, record.value, key=record.key, partition=record.partition)
                copied += 1

    await answer(broker, [source, *labels], act)
    return {"copied": copied}


async def learn(broker: str, source: str, target: str, labels: str) -> dict[str, Any]:
    from riparian.models.contract import Schema  # not in the other programs
    from riparian.models.registry import create

    tree = create("hoeffding-tree", Schema((0,) * len(NAMES), len(CLASSES), "classification"))
    tree.warm_up()
    waiting: dict[tuple[int, str], Any] = {}
    learned = 0

    async def act(producer: Any, records: list[ConsumerRecord]) -> None:
        nonlocal learned
        asked = [(one, json.loads(one.value)) for one in records if one.topic == source]
        if asked:
            x = np.array([[record["x"][name] for name in NAMES] for _, record in asked])
            for (one, record), row, p in zip(asked, x, tree.predict_many(x).tolist(), strict=True):
                waiting[one.partition, record["id"]] = row
                prediction = {"id": record["id"], "y": CLASSES[p.index(max(p))], "p": p}
                await producer.send(target, json.dumps(prediction).encode(), key=one.key, partition=one.partition)
        rows, y = [], []
        for one in records:
            if one.topic == labels:
                label = json.loads(one.value)
                row = waiting.pop((one.partition, label["id"]), None)
                if row is not None:
                    rows.append(row)
                    y.append(float(CLASSES.index(label["y"])))
        if rows:
            tree.learn_many(np.array(rows), np.array(y))
            learned += len(rows)

    await answer(broker, [source, labels], act)
    return {"learned": learned}


def main() -> None:
    role, broker, one, two, *rest = sys.argv[1:]
    if role == "consume":
        result = consume(broker, [one, two], int(rest[0]))
    else:
        programs: dict[str, Any] = {"echo": echo, "learn": learn}
        result = programs[role](broker, one, two, *rest)
    print(json.dumps(asyncio.run(result)))


if __name__ == "__main__":
    main()
