"""Many partitions and many workers: what grows with them, how long partitions stand still, and the assignor at a size
that no machine here could run.

    python -m benchmarks.partitions [--partitions 1,16,64] [--workers 8] [--learning shared] [--simulate 1000x100]

Three parts, each a table on standard output:

- One worker with so many partitions, each of which has predicted: its memory, threads, connections to Kafka, and its
  share of a core while nothing comes.
- The largest number of partitions at 10 instances a second each, and workers that join one after the other, of which
  then two are killed and two are stopped: for each change how long partitions stood still, those that stayed with their
  worker and those that moved. It counts from the end of a worker, or from when a new one has imported all: until then
  it takes the processor from the others. In the end every prediction was sent once, in order.
- Faust's assignor in memory: seconds that the group's leader computes, bytes that it sends, and partitions that move
  when a worker comes or goes.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
from faust.assignor.partition_assignor import PartitionAssignor
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.end_to_end import kafka
from benchmarks.failover import Group, Load
from benchmarks.processes import MeasureError, Watched, cpu_seconds, ended_by_signals, resident_bytes
from benchmarks.record import write
from benchmarks.throughput import read_predictions
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import changelog_topic, topic_name

REST_SECONDS, IDLE_SECONDS = 8.0, 10.0  # until the last checkpoint is written; in which the processor is watched
RATE = 10  # instances a second of a partition
SESSION_SECONDS = 6.0
CALM_SECONDS = 3.0  # between two changes
PATIENCE_SECONDS = 120.0


def connections(pid: int) -> int:
    """Established TCP connections of a process."""
    folder, own = Path(f"/proc/{pid}/fd"), set()
    for entry in os.listdir(folder):
        try:
            own.add(os.readlink(folder / entry))
        except OSError:
            continue
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return len(own & {f"socket:[{row[9]}]" for row in rows if row[3] == "01"})


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))


async def _predicted(load: Load, n: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while min(map(len, load.came.values())) < n:
        if time.monotonic() > deadline:
            raise MeasureError(f"a partition has not made {n} predictions")
        await asyncio.sleep(0.1)


async def _alone(spec: Spec, broker: str, group: Group, worker: Watched) -> dict[str, Any]:
    load = Load(broker, spec, RATE * spec.partitions)
    sending, reading = asyncio.create_task(load.send()), asyncio.create_task(load.read())
    try:
        await asyncio.to_thread(group.settle, spec.partitions, worker)
        await _predicted(load, 20)
        load.stopping = True
        await sending
    finally:
        sending.cancel()
        reading.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
    await asyncio.sleep(REST_SECONDS)
    before = cpu_seconds(worker.pid) or 0.0
    await asyncio.sleep(IDLE_SECONDS)
    spent = (cpu_seconds(worker.pid) or 0.0) - before
    assign, assigned = worker.heard("assign")[0], worker.heard("assigned")[-1]
    return {
        "memory": resident_bytes(worker.pid) or 0,
        "threads": threads(worker.pid),
        "connections": connections(worker.pid),
        "idle": spent / IDLE_SECONDS,
        "assignment": assigned["time"] - assign["time"],
    }


def alone(broker: str, folder: Path, sizes: list[int], fields: dict[str, Any]) -> Table:
    """One worker with so many partitions."""
    table = Table("partitions", "memory", "a partition more", "threads", "connections", "assignment", "idle, of a core")
    first: tuple[int, int] | None = None
    for n in sizes:
        path, spec = workload.stream_file(folder, f"alone-{n}", n, **fields)
        asyncio.run(ensure_topics(spec, Connection(broker)))
        with Group(path, broker, folder, SESSION_SECONDS) as group:
            found = asyncio.run(_alone(spec, broker, group, group.start()))
        first = first or (n, found["memory"])
        more = "" if n == first[0] else f"{(found['memory'] - first[1]) / (n - first[0]) / 1e6:.2f} MB"
        table.add_row(
            str(n),
            f"{found['memory'] / 1e6:.0f} MB",
            more,
            str(found["threads"]),
            str(found["connections"]),
            f"{found['assignment']:.2f} s",
            f"{100 * found['idle']:.1f} %",
        )
        for prefix in (spec.name, changelog_topic(spec.name)):
            asyncio.run(workload.delete(broker, prefix))
    return table


async def _moving(spec: Spec, broker: str, group: Group, n_workers: int, table: Table) -> None:
    load = Load(broker, spec, RATE * spec.partitions)
    sending, reading = asyncio.create_task(load.send()), asyncio.create_task(load.read())

    async def still(began: float, what: str, before: dict[int, Watched]) -> None:
        """How long each partition stood still since `began`."""
        await asyncio.sleep(CALM_SECONDS)
        now, after = time.time(), await asyncio.to_thread(group.owners)
        stayed, moved = list[float](), list[float]()
        for p in range(spec.partitions):
            (stayed if after.get(p) is before.get(p) else moved).append(load.gap(p, began, now))
        cells = [f"{len(moved)}"]
        for gaps in (stayed, moved):
            cells += [f"{statistics.median(gaps):.2f} s", f"{max(gaps):.2f} s"] if gaps else ["", ""]
        table.add_row(what, str(len(group.workers)), *cells)
        if sending.done() or reading.done():
            raise MeasureError("the load has ended")

    try:
        for k in range(n_workers):
            before = await asyncio.to_thread(group.owners)
            newest = group.start()
            await asyncio.to_thread(group.settle, spec.partitions, newest)
            if k:
                await still(newest.heard("prepare")[0]["time"], "a worker joins", before)
            else:
                await _predicted(load, 20)
        for how in ("killed", "killed", "stopped", "stopped"):
            if len(group.workers) == 1:
                break
            before = await asyncio.to_thread(group.owners)
            victim, began = group.workers.pop(0), time.time()
            await asyncio.to_thread(victim.kill if how == "killed" else victim.stop)
            await asyncio.sleep(SESSION_SECONDS if how == "killed" else 0.0)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while len(await asyncio.to_thread(group.owners)) < spec.partitions:
                if time.monotonic() > deadline:
                    raise MeasureError("a partition has no owner")
                await asyncio.sleep(0.1)
            await still(began, f"a worker is {how}", before)
        load.stopping = True
        await sending
        counts = [len(range(p, load.n, spec.partitions)) for p in range(spec.partitions)]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while [len(load.made[p]) for p in range(spec.partitions)] != counts:
            if time.monotonic() > deadline:
                raise MeasureError("predictions are missing")
            await asyncio.sleep(0.1)
    finally:
        sending.cancel()
        reading.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
    for worker in group.workers:
        await asyncio.to_thread(worker.stop)
    await read_predictions(broker, spec.topics.predictions, counts)  # each exactly once, in order


def moving(broker: str, folder: Path, n: int, n_workers: int, fields: dict[str, Any]) -> Table:
    """Workers that come and go under load."""
    table = Table("change", "workers", "move", "stayed: still, median", "longest", "moved: still, median", "longest")
    path, spec = workload.stream_file(folder, "moving", n, **fields)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    with Group(path, broker, folder, SESSION_SECONDS) as group:
        asyncio.run(_moving(spec, broker, group, n_workers, table))
    return table


class Simulated:
    """A group of workers of one stream, without workers.

    Parameters
    ----------
    n : int
        Partitions.
    standbys : int
    """

    def __init__(self, n: int, standbys: int) -> None:
        roles = ("features", "labels")
        self.topics = [*(topic_name("s", role) for role in roles), changelog_topic("s")]
        manager = SimpleNamespace(data={}, changelog_topics={self.topics[-1]})
        self._conf = SimpleNamespace(canonical_url="")
        self.assignor = PartitionAssignor(SimpleNamespace(conf=self._conf, tables=manager), replicas=standbys)  # type: ignore[arg-type]
        self._cluster = SimpleNamespace(partitions_for_topic=lambda _: set(range(n)))
        self._known: dict[str, bytes] = {}  # worker -> what it was told last

    def assign(self, workers: list[str]) -> tuple[float, int, int]:
        """Seconds, bytes that all are sent, and partitions whose owner is another one than before."""
        before = self._owners()
        asked = {w: SimpleNamespace(subscription=self.topics, user_data=self._metadata(w)) for w in workers}
        began = time.thread_time()
        found = self.assignor._perform_assignment(self._cluster, asked)  # type: ignore[arg-type]
        seconds = time.thread_time() - began
        self._known = {worker: one.user_data for worker, one in found.items()}
        after = self._owners()
        moved = sum(after[p] != owner for p, owner in before.items())
        return seconds, sum(len(one.encode()) for one in found.values()), moved

    def _metadata(self, worker: str) -> bytes:
        known = self._known.get(worker)
        if known is not None:
            return self.assignor._decompress(known)
        self._conf.canonical_url = f"http://{worker}:6066"
        self.assignor._assignment.actives, self.assignor._assignment.standbys = {}, {}
        found: bytes = self.assignor.metadata(set(self.topics)).user_data
        return found

    def _owners(self) -> dict[int, str]:
        found = dict[int, str]()
        for worker, known in self._known.items():
            told = self.assignor._get_client_metadata(
                SimpleNamespace(user_data=self.assignor._decompress(known))  # type: ignore[arg-type]
            )
            found |= dict.fromkeys(told.assignment.actives.get(self.topics[0], ()), worker)
        return found


def simulated(n: int, n_workers: int) -> Table:
    """Faust's assignor for n partitions."""
    table = Table("change", "workers", "leader computes", "sent to all", "partitions that move")
    group, workers = Simulated(n, 1), [f"worker-{i:04d}" for i in range(n_workers)]
    for what, members in (
        ("all come", workers),
        ("one more", [*workers, "worker-new"]),
        ("one goes", workers[1:]),
        ("nothing changes", workers[1:]),
    ):
        seconds, n_bytes, moved = group.assign(members)
        table.add_row(what, str(len(members)), f"{seconds:.2f} s", f"{n_bytes / 1e6:.2f} MB", str(moved))
    return table


@click.command()
@click.option("--partitions", default="1,16,64", show_default=True, help="Of one worker, separated by commas.")
@click.option("--workers", default=8, show_default=True, help="That join, one after the other.")
@click.option("--learning", type=click.Choice(["partition", "shared"]), default="partition", show_default=True)
@click.option("--simulate", default="1000x100", show_default=True, help="Partitions and workers of the simulation.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(partitions: str, workers: int, learning: str, simulate: str, broker: str | None) -> None:
    """Many partitions and many workers."""
    console, fields, tables = Console(width=110), {"learning": learning}, list[Table]()

    def show(table: Table) -> None:
        tables.append(table)
        console.print(table)

    sizes = [int(n) for n in partitions.split(",")]
    n, _, n_workers = simulate.partition("x")
    show(simulated(int(n), int(n_workers)))
    try:
        with (
            ended_by_signals(),
            tempfile.TemporaryDirectory(prefix="riparian-bench-") as name,
            kafka(broker, Path(name)) as (address, _),
        ):
            show(alone(address, Path(name), sizes, fields))
            show(moving(address, Path(name), sizes[-1], workers, fields))
    except MeasureError as error:
        raise click.ClickException(str(error)) from None
    write(
        "partitions",
        [
            {
                "heads": [column.header for column in table.columns],
                "rows": [list(row) for row in zip(*(column.cells for column in table.columns), strict=True)],
            }
            for table in tables
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
