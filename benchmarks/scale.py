"""What more workers bring: a backlog through one worker, two, four, as far as there are cores.

    python -m benchmarks.scale [--workers 1,2] [--partitions 8] [--models auto] [--learning partition,shared]

The records are in the topics before the workers start. All workers start at once; what counts begins when each has its
partitions, and ends when all labels are learned: so neither starting nor rebalancing is in it. Kafka runs on the same
cores.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.end_to_end import ints, kafka, names_of
from benchmarks.processes import MeasureError, Worker, cpu_seconds, ended_by_signals
from benchmarks.record import write
from benchmarks.workload import Backlog, create, delete, past, stream_file
from riparian.models.kernels.threads import n_cores

INSTANCES = {"hoeffding-tree": 1_600_000, "adaptive-random-forest": 400_000, "auto": 60_000}
LEARNING = ("partition", "shared")
SHARED_SHARE = 4  # of the instances with models of their own, one model gets this part: it is slower
PATIENCE_SECONDS = 600.0
POLL_SECONDS = 0.1


def counts(workers: Sequence[Worker]) -> list[dict[str, dict[str, int]]]:
    """The partitions of each worker, with their counts."""
    for one in workers:
        one.check()
    return [one.partitions() for one in workers]


def measure(
    broker: str, folder: Path, inputs: dict[str, str], partitions: int, n: int, workers: int, **fields: Any
) -> dict[str, float]:
    """Instances a second of all workers, and their processor time; `fields` of the stream file."""
    name = f"scale-{time.monotonic_ns()}"
    path, _ = stream_file(folder, name, partitions, inputs, **fields)
    deadline = time.monotonic() + PATIENCE_SECONDS
    with ExitStack() as stack:
        begun = [stack.enter_context(Worker(path, broker, folder)) for _ in range(workers)]

        def poll() -> tuple[list[int], int, float, float]:
            """Partitions of each worker, labels and processor seconds of all, and the time."""
            if time.monotonic() > deadline:
                raise MeasureError("the backlog is not learned")
            time.sleep(POLL_SECONDS)
            found = counts(begun)
            labels = sum(part["labels"] for parts in found for part in parts.values())
            return list(map(len, found)), labels, sum(cpu_seconds(one.pid) or 0.0 for one in begun), time.monotonic()

        owned, first, cpu, began = poll()
        while min(owned) < partitions // workers or not first:
            owned, first, cpu, began = poll()
        last, cpu_then, ended = first, cpu, began
        while last < n:
            _, last, cpu_then, ended = poll()
        for one in begun:
            one.stop()
    asyncio.run(delete(broker, name))
    done = last - first
    if done < n // 4:
        raise MeasureError(f"{first:,} of {n:,} instances were learned before all workers had their partitions")
    seconds, spent = ended - began, cpu_then - cpu
    return {"per_second": done / seconds, "n": done, "cpu_us": 1e6 * spent / done, "cores": spent / seconds}


def rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row of each learner and way of learning, beside its first number of workers."""
    made = []
    for one in found:
        alone = next(o for o in found if (o["model"], o["learning"]) == (one["model"], one["learning"]))
        made.append({
            "learner": f"`{one['model']}`",
            "learning": one["learning"],
            "workers": one["workers"],
            "instances/s": f"{one['per_second']:,.0f}",
            "ratio": f"{one['per_second'] / alone['per_second']:.2f}",
            "cores": f"{one['cores']:.2f}",
            "CPU µs each": f"{one['cpu_us']:.1f}",
        })  # fmt: skip
    return made


@click.command()
@click.option("--workers", callback=ints, default=",".join(str(2**k) for k in range(n_cores().bit_length())),
              show_default=True, help="Numbers of workers.")  # fmt: skip
@click.option("--partitions", default=8, show_default=True)
@click.option("--models", default=",".join(INSTANCES), show_default=True, callback=names_of(INSTANCES))
@click.option("--learning", default=",".join(LEARNING), show_default=True, callback=names_of(LEARNING))
@click.option("--scale", default=1.0, show_default=True, help="Of the backlog, for a shorter run.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(
    workers: list[int], partitions: int, models: list[str], learning: list[str], scale: float, broker: str | None
) -> None:
    """What more workers bring in a backlog: models each, and one model."""
    say = Console(stderr=True).print
    found = list[dict[str, Any]]()
    with (
        ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="riparian-bench-") as name,
        kafka(broker, Path(name)) as (address, _),
    ):
        for model in models:
            for way in learning:
                n = int(scale * INSTANCES[model] / (SHARED_SHARE if way == "shared" else 1))
                prefix = f"backlog-{time.monotonic_ns()}"
                inputs = {"features": f"{prefix}.features", "labels": f"{prefix}.labels"}
                asyncio.run(create(address, list(inputs.values()), partitions))
                say(f"publishing {n:,} instances to {partitions} partitions")
                backlog = Backlog(address, inputs["features"], inputs["labels"], partitions, past(n))
                asyncio.run(backlog.publish(n, lambda _: None))
                for count in workers:
                    say(f"{model}, {way}: {count} worker{'s' * (count > 1)}")
                    fields: dict[str, Any] = {"champion": model, "learning": way}
                    try:
                        run = measure(address, Path(name), inputs, partitions, n, count, **fields)
                    except MeasureError as error:
                        raise click.ClickException(str(error)) from None
                    found.append({"model": model, "learning": way, "workers": count, **run})
                asyncio.run(delete(address, prefix))
    made = rows(found)
    table = Table(*made[0], title=f"A backlog of {partitions} partitions")
    for row in made:
        table.add_row(*map(str, row.values()))
    Console(width=110).print(table)
    write("scale", {"partitions": partitions, "load_before": os.getloadavg()[0], "rows": made, "runs": found})


if __name__ == "__main__":
    sys.exit(main())
