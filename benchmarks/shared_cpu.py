"""What one model for all partitions costs the workers, on a real Kafka, beside models of their own.

    python -m benchmarks.shared_cpu [--rate 2000] [--rounds 2] [--backlog 400000] [--max-behind N]

Streams in two and in eight partitions, two workers, a Hoeffding tree, learning each for itself and shared in turn.
Live, instances come at a steady rate, labels half a second later: the processor time of both workers together, per
instance, over 12 seconds. A backlog is published at once, until all of its instances are learned by all.
"""

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.end_to_end import kafka
from benchmarks.failover import Load
from benchmarks.processes import MeasureError, Worker, cpu_seconds, ended_by_signals
from benchmarks.record import write
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.exposition.metric_names import BEHIND, PENDING

WORKERS = 2
WARM_SECONDS, SECONDS = 4.0, 12.0
PATIENCE_SECONDS = 300.0


def spent(workers: list[Worker]) -> float:
    """Processor seconds of all so far."""
    return sum(cpu_seconds(worker.pid) or 0.0 for worker in workers)


async def _live(spec: Spec, broker: str, workers: list[Worker], rate: int) -> float:
    load = Load(broker, spec, rate)
    sending, reading = asyncio.create_task(load.send()), asyncio.create_task(load.read())
    try:
        await asyncio.sleep(WARM_SECONDS)
        before, n = spent(workers), load.n
        await asyncio.sleep(SECONDS)
        found = (spent(workers) - before) / (load.n - n)
        load.stopping = True
        await sending
    finally:
        sending.cancel()
        reading.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
    return 1e6 * found


def _total(workers: list[Worker], name: str) -> float:
    return sum(value for worker in workers for key, value in worker.metrics().items() if key.startswith(name))


def _backlog(spec: Spec, broker: str, workers: list[Worker], n: int) -> float:
    topics = spec.topics.features, spec.topics.labels or ""
    backlog = workload.Backlog(broker, *topics, spec.partitions, workload.past(n))
    before, deadline = spent(workers), time.monotonic() + PATIENCE_SECONDS
    asyncio.run(backlog.publish(n, lambda _: None))
    while _total(workers, PENDING["joined"]) < n or _total(workers, BEHIND) > 0:
        if time.monotonic() > deadline:
            raise MeasureError("the backlog is not learned")
        time.sleep(0.3)
    return 1e6 * (spent(workers) - before) / n


def measure(broker: str, folder: Path, name: str, partitions: int, learning: Any, rate: int, n: int) -> float:
    """Microseconds of an instance. rate : of live instances a second; 0 for a backlog of n."""
    fields: dict[str, Any] = {"learning": learning}
    path, spec = workload.stream_file(folder, name, partitions, **fields)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(path, broker, folder)) for _ in range(WORKERS)]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(worker.partitions() for worker in workers):
            if time.monotonic() > deadline:
                raise MeasureError("a worker has no partition")
            time.sleep(0.2)
        return asyncio.run(_live(spec, broker, workers, rate)) if rate else _backlog(spec, broker, workers, n)


@click.command()
@click.option("--rate", default=2000, show_default=True, help="Live instances a second.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--backlog", default=400_000, show_default=True, help="Instances of the backlog.")
@click.option("--max-behind", type=int, help="The bound of shared learning. [default: that of a stream file]")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(rate: int, rounds: int, backlog: int, max_behind: int | None, broker: str | None) -> None:
    """Processor time of workers whose partitions learn one model, beside models of their own."""
    figures = list[dict[str, Any]]()
    table = Table("", "partitions", "own: µs an instance", "shared", "ratio of the means")
    try:
        with (
            ended_by_signals(),
            tempfile.TemporaryDirectory(prefix="riparian-bench-") as name,
            kafka(broker, Path(name)) as (address, _),
        ):
            for what, given in (("live", rate), ("backlog", 0)):
                for n in (2, 8):
                    found: dict[str, list[float]] = {"partition": [], "shared": []}
                    for k in range(rounds):
                        for learning, values in found.items():
                            stream = f"{what}-{n}-{learning}-{k}"
                            shares: Any = {} if max_behind is None else {"max_behind": max_behind}
                            kind = learning if learning == "partition" else shares
                            values.append(measure(address, Path(name), stream, n, kind, given, backlog))
                    figures.append({"load": what, "partitions": n, "microseconds": found})
                    own, shared = found.values()
                    told = [", ".join(f"{value:.1f}" for value in values) for values in (own, shared)]
                    table.add_row(what, str(n), *told, f"{sum(shared) / sum(own):.2f}")
    except MeasureError as error:
        raise click.ClickException(str(error)) from None
    Console(width=110).print(table)
    write("shared_cpu", figures)


if __name__ == "__main__":
    sys.exit(main())
