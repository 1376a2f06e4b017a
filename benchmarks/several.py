"""Two streams in one worker, against two workers: memory, threads, connections to Kafka, processor.

    python -m benchmarks.several [--rounds 3] [--instances 100000]

In each round two streams (a Hoeffding tree over ten numbers each, one partition) learn the same backlog twice: in a
worker of both, and in a worker each. Prints a table of medians and of the ratios within a round. Memory is what is
resident, where pages that processes share count in each of them, and proportional (PSS), where they count once.
"""

import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.partitions import connections, threads
from benchmarks.processes import Worker, cpu_seconds, resident_bytes
from benchmarks.record import write
from benchmarks.workload import Backlog, past, stream_file
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker

REST_SECONDS, IDLE_SECONDS = 8.0, 10.0  # until the last checkpoint is written; in which the processor is watched
PATIENCE_SECONDS = 300.0
SHAPES = {  # figure -> how it is shown
    "resident, MB": "{:.0f}",
    "proportional, MB": "{:.0f}",
    "threads": "{:.0f}",
    "connections": "{:.0f}",
    "CPU s until assigned": "{:.2f}",
    "CPU µs a labelled instance": "{:.1f}",
    "of a core while nothing comes, %": "{:.1f}",
}


def proportional_bytes(pid: int) -> int:
    """Resident memory, of which pages that n processes share count an n-th."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def run(broker: str, folder: Path, name: str, n: int, together: bool) -> dict[str, float]:
    """Two streams, from the start of their workers until they rest."""
    paths = []
    for kind in "ab":
        topics = {"features": f"{name}.x", "labels": f"{name}.y"}
        path, spec = stream_file(folder, f"{name}-{kind}", 1, topics)
        asyncio.run(ensure_topics(spec, Connection(broker)))
        paths.append(path)
    with ExitStack() as stack:
        starts = [(paths[0], str(paths[1]))] if together else [(path,) for path in paths]
        workers = [stack.enter_context(Worker(one, broker, folder, *more)) for one, *more in starts]
        pids, each = [worker.pid for worker in workers], 2 // len(workers)

        def spent() -> float:
            return sum(cpu_seconds(pid) or 0.0 for pid in pids)

        for worker in workers:
            worker.wait_for_partitions(each, PATIENCE_SECONDS)
        began = spent()
        asyncio.run(Backlog(broker, f"{name}.x", f"{name}.y", 1, past(n)).publish(n, lambda _: None))
        for worker in workers:
            worker.wait_for_labels(each * n, PATIENCE_SECONDS)
        learned = spent()
        time.sleep(REST_SECONDS)
        rested = spent()
        time.sleep(IDLE_SECONDS)
        idle = (spent() - rested) / IDLE_SECONDS
        figures = (
            sum(resident_bytes(pid) or 0 for pid in pids) / 1e6,
            sum(map(proportional_bytes, pids)) / 1e6,
            sum(map(threads, pids)),
            sum(map(connections, pids)),
            began,
            1e6 * (learned - began) / (2 * n),
            100 * idle,
        )
        for worker in workers:
            worker.stop()
    return dict(zip(SHAPES, map(float, figures), strict=True))


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Pairs.")
@click.option("--instances", default=100_000, show_default=True, help="Labelled instances that each stream learns.")
def main(rounds: int, instances: int) -> None:
    """Two streams in one worker, against two workers."""
    say, found = Console(stderr=True).print, list[tuple[dict[str, float], dict[str, float]]]()
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name, LocalBroker(Path(name) / "broker") as local:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            # What runs first in a round alternates.
            one, other = [
                run(local.bootstrap, Path(name), f"several-{number}-{int(kind)}", instances, kind)
                for kind in ((True, False) if number % 2 == 0 else (False, True))
            ]
            found.append((one, other) if number % 2 == 0 else (other, one))
    table = Table("two streams", "one worker", "two workers", "ratio")
    for figure, shape in SHAPES.items():
        pairs = [(one[figure], two[figure]) for one, two in found]
        ratios = [one / two for one, two in pairs if two]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
        table.add_row(figure, *(shape.format(statistics.median(column)) for column in zip(*pairs, strict=True)), spread)
    Console().print(table)
    write("several", [{"one_worker": one, "two_workers": two} for one, two in found])


if __name__ == "__main__":
    main()
