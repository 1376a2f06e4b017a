"""Programs to compare a worker with, each a process of its own that writes one JSON object to its standard output.

    python -m benchmarks.floors consume BROKER FEATURES LABELS N    read N messages of both topics, and drop them
    python -m benchmarks.floors echo BROKER FROM TO                 copy records until SIGTERM

`consume` is the least that a Python program does with Kafka: aiokafka's own loop with the worker's client settings (2
MB per fetch, checksums verified). `echo` is the least that a program that answers does: each record is sent on as it
arrives, by a producer that waits for nothing.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

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


async def echo(broker: str, source: str, target: str) -> dict[str, Any]:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, enable_auto_commit=False)
    producer = AIOKafkaProducer(bootstrap_servers=broker, enable_idempotence=True)
    await consumer.start()
    await producer.start()
    copied = 0
    try:
        tp = TopicPartition(source, 0)
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        gc.collect()
        gc.freeze()
        while not stop.is_set():
            for record in (await consumer.getmany(tp, timeout_ms=200)).get(tp, ()):
                await producer.send(target, record.value, key=record.key, partition=0)
                copied += 1
    finally:
        await producer.stop()
        await consumer.stop()
    return {"copied": copied}


def main() -> None:
    role, broker, one, two, *rest = sys.argv[1:]
    result = consume(broker, [one, two], int(rest[0])) if role == "consume" else echo(broker, one, two)
    print(json.dumps(asyncio.run(result)))


if __name__ == "__main__":
    main()
