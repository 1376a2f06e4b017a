"""The cost of keeping earlier owners of a partition from writing: three ways to send the same batches.

    python -m benchmarks.fencing [--small] [--json FILE]

- *plain*: an idempotent producer, which fences nobody;
- *fenced*: as the worker sends (app/kafka/sending.py): an abort marker with the next epoch once, then plain sends;
- *transactions*: one transaction a batch, by the same kind of producer.

In every round each way sends the same batches one after the other, awaiting each, and once more with several on their
way, where that is possible: transactions of one producer cannot overlap. What is compared are ratios within a round.
Besides: what it takes to get the producer, which happens once an assignment. Tables go to standard output, progress to
standard error, every figure to a JSON file.
"""

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import numpy as np
from aiokafka import AIOKafkaProducer
from aiokafka.structs import TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.end_to_end import Say, kafka, machine, progress, versions
from benchmarks.processes import ended_by_signals
from benchmarks.record import write
from benchmarks.throughput import spread
from benchmarks.workload import create, delete
from riparian.app.kafka.connection import MAX_BATCH_BYTES, MAX_REQUEST_BYTES, Connection
from riparian.app.kafka.sending import MAX_OUTSTANDING, fenced_producer

WAYS = ("plain", "fenced", "transactions")
RECORD_BYTES = 120  # a prediction
BATCHES = {2000: 150, 50: 300}  # records per batch -> batches per round and way: a backlog's, and a live stream's
TOPIC = "fencing"


@contextlib.asynccontextmanager
async def producer_of(way: str, broker: str, number: int) -> AsyncIterator[AIOKafkaProducer]:
    """A producer for one way, started."""
    if way == "fenced":
        producer = await fenced_producer(Connection(broker), f"fencing-{number}", [TopicPartition(TOPIC, 0)])
    else:
        more = {"transactional_id": f"transactions-{number}"} if way == "transactions" else {"enable_idempotence": True}
        producer = AIOKafkaProducer(
            bootstrap_servers=broker,
            acks="all",
            max_batch_size=MAX_BATCH_BYTES,
            max_request_size=MAX_REQUEST_BYTES,
            **more,
        )
        await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


def build(producer: AIOKafkaProducer, n_records: int) -> Any:
    batch, now = producer.create_batch(), int(time.time() * 1000)
    for i in range(n_records):
        batch.append(key=b"%08d" % i, value=b"x" * RECORD_BYTES, timestamp=now)
    return batch


async def one_by_one(way: str, producer: AIOKafkaProducer, n_records: int, n_batches: int) -> dict[str, float]:
    """Each batch awaited: latencies in ms and records a second. Building the batches is not counted."""
    seconds = []
    for _ in range(n_batches):
        batch = build(producer, n_records)
        began = time.perf_counter()
        if way == "transactions":
            await producer.begin_transaction()
            await (await producer.send_batch(batch, TOPIC, partition=0))
            await producer.commit_transaction()
        else:
            await (await producer.send_batch(batch, TOPIC, partition=0))
        seconds.append(time.perf_counter() - began)
    ms = 1000 * np.array(seconds)
    return {
        "p50": float(np.percentile(ms, 50)),
        "p99": float(np.percentile(ms, 99)),
        "per_second": n_records * n_batches / sum(seconds),
    }


async def overlapping(producer: AIOKafkaProducer, n_records: int, n_batches: int) -> float:
    """Records a second with as many batches on their way as the worker has."""
    batches = [build(producer, n_records) for _ in range(n_batches)]
    outstanding: deque[Any] = deque()
    began = time.perf_counter()
    for batch in batches:
        if len(outstanding) >= MAX_OUTSTANDING:
            await outstanding.popleft()
        outstanding.append(await producer.send_batch(batch, TOPIC, partition=0))
    await asyncio.gather(*outstanding)
    return n_records * n_batches / (time.perf_counter() - began)


async def sends(broker: str, rounds: int, share: float, say: Say) -> list[dict[str, Any]]:
    """All sizes of batches; the ways in turn within a round, each round in another order."""
    results = []
    for n_records, whole in BATCHES.items():
        n_batches = max(5, round(share * whole))
        done = say(f"batches of {n_records:,} records, {rounds} rounds", rounds)
        runs: list[dict[str, dict[str, float]]] = []
        async with contextlib.AsyncExitStack() as stack:
            producers = {way: await stack.enter_async_context(producer_of(way, broker, n_records)) for way in WAYS}
            for way, producer in producers.items():  # connections, metadata
                await one_by_one(way, producer, n_records, 3)
            for number in range(rounds):
                run = {}
                for i in range(len(WAYS)):
                    way = WAYS[(i + number) % len(WAYS)]
                    run[way] = await one_by_one(way, producers[way], n_records, n_batches)
                    if way != "transactions":
                        run[way]["overlapping"] = await overlapping(producers[way], n_records, n_batches)
                runs.append(run)
                done(1)
        results.append({"records": n_records, "batches": n_batches, "rounds": runs, "ratios": ratios(runs)})
    return results


def ratios(runs: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Way -> figure -> its ratio to plain, over the rounds."""
    return {
        way: {name: spread([run[way][name] / run["plain"][name] for run in runs]) for name in runs[0][way]}
        for way in WAYS[1:]
    }


async def fences(broker: str, n: int) -> dict[str, Any]:
    """Milliseconds to get a producer: plain, and with the fence over as many topics as a partition has."""
    topics = [f"{TOPIC}-{i}" for i in range(4)]
    await create(broker, topics, 1)
    tps = [TopicPartition(topic, 0) for topic in topics]
    found: dict[str, list[float]] = {"plain": [], "fenced": []}
    for _ in range(n):
        began = time.perf_counter()
        async with producer_of("plain", broker, 0):
            found["plain"].append(1000 * (time.perf_counter() - began))
        began = time.perf_counter()
        producer = await fenced_producer(Connection(broker), "fences", tps)
        found["fenced"].append(1000 * (time.perf_counter() - began))
        await producer.stop()
    return {
        name: {"median": statistics.median(ms), "p90": float(np.percentile(ms, 90)), "max": max(ms)}
        for name, ms in found.items()
    }


def measure(address: str | None, rounds: int, share: float, n_fences: int, say: Say) -> dict[str, Any]:
    """Everything, on the broker at an address or on one of its own."""
    result: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}

    async def run(broker: str) -> None:
        await create(broker, [TOPIC], 1)
        done = say(f"taking the fence {n_fences} times", None)
        result["fence_ms"] = await fences(broker, n_fences)
        done(1)
        result["sends"] = await sends(broker, rounds, share, say)
        await delete(broker, TOPIC)

    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name, kafka(address, Path(name)) as (broker, version):
        result["versions"] = versions(version)
        asyncio.run(run(broker))
    result["machine"]["load_after"] = os.getloadavg()[0]
    return result


def show(result: dict[str, Any], console: Console) -> None:
    """All tables."""
    found = result["machine"]
    console.print(
        f"{found['cores']} cores, {found['cpu']}; load {found['load_before']:.1f} before, {found['load_after']:.1f} "
        "after; " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()),
        highlight=False,
    )
    for part in result["sends"]:
        title = f"{part['batches']} batches of {part['records']:,} records, {len(part['rounds'])} rounds (÷ plain)"
        table = Table("", "p50 ms", "p99 ms", "records/s, one by one", "records/s, overlapping", title=title)
        for way in WAYS:
            cells = []
            for name, digits in (("p50", 1), ("p99", 1), ("per_second", 0), ("overlapping", 0)):
                values = [run[way][name] for run in part["rounds"] if name in run[way]]
                if not values:
                    cells.append("-")
                    continue
                ratio = part["ratios"].get(way, {}).get(name)
                shown = f"{statistics.median(values):,.{digits}f}"
                cells.append(shown if ratio is None else f"{shown} ({ratio['median']:.2f})")
            table.add_row(way, *cells)
        console.print(table)
    table = Table("", "median ms", "p90", "max", title="Until a producer is ready")
    for name, text in (("plain", "plain"), ("fenced", "with the fence over four topics")):
        table.add_row(text, *(f"{value:.1f}" for value in result["fence_ms"][name].values()))
    console.print(table)


@click.command()
@click.option("--rounds", default=7, show_default=True, help="Rounds of all ways; medians are shown.")
@click.option("--share", default=1.0, show_default=True, help="Share of the usual number of batches.")
@click.option("--fences", "n_fences", default=20, show_default=True, help="How often the fence is taken.")
@click.option("--small", is_flag=True, help="A sanity run of seconds.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(rounds: int, share: float, n_fences: int, small: bool, broker: str | None) -> None:
    """What it costs that an earlier owner of a partition can write nothing."""
    if small:
        rounds, share, n_fences = 1, 0.05, 2
    with ended_by_signals(), progress(Console(stderr=True)) as say:
        result = measure(broker, rounds, share, n_fences, say)
    target = write("fencing", result)
    show(result, Console(width=max(Console().width, 100)))
    click.echo(f"figures: {target}")


if __name__ == "__main__":
    sys.exit(main())
