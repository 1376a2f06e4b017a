"""Where a worker's time goes, beside another checkout of this repository: pairs of `benchmarks.budget`, in alternation.

    python -m benchmarks.pairs OTHER [--rounds 3] [--instances 300000]

OTHER is a folder, such as `git worktree add ../before COMMIT` makes. Both run by this environment's Python, on the same
records of the same broker, one after the other; what counts are the ratios within a round. Prints a table: CPU µs a
labelled instance by stage, medians, and the median ratio with the lowest and highest.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.budget import STAGES
from benchmarks.processes import ROOT
from benchmarks.record import printed
from benchmarks.workload import Backlog, past, stream_file
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker


def budget(checkout: Path, broker: str, stream: Path, n: int) -> dict[str, float]:
    """CPU µs by stage, as one run in a checkout finds them, and their sum."""
    command = [sys.executable, "-m", "benchmarks.budget", broker, str(stream), str(n)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    found = subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE)
    result = json.loads(found.stdout)
    return {**result["us"], "sum": result["sum_us"]}


def shown(before: list[dict[str, float]], after: list[dict[str, float]]) -> Table:
    table = Table("stage", "before", "after", "ratio", title="CPU µs a labelled instance")
    for stage in (*STAGES, "sum"):
        pairs = [(one[stage], other[stage]) for one, other in zip(before, after, strict=True)]
        ratios = [b / a for a, b in pairs if a]  # a stage may have taken no time at all
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else ""
        table.add_row(stage, *(f"{statistics.median(column):.2f}" for column in zip(*pairs, strict=True)), spread)
    return table


@click.command()
@click.argument("other", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--rounds", default=3, show_default=True, help="Pairs.")
@click.option("--instances", default=300_000, show_default=True, help="Labelled instances of each run.")
def main(other: Path, rounds: int, instances: int) -> None:
    """Where a worker's time goes, beside another checkout of this repository."""
    say = Console(stderr=True).print
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name, LocalBroker(Path(name) / "broker") as local:
        stream, spec = stream_file(Path(name), "budget", 1)
        asyncio.run(ensure_topics(spec, Connection(local.bootstrap)))
        backlog = Backlog(local.bootstrap, spec.topics.features, spec.topics.labels or "", 1, past(instances))
        say(f"publishing {instances:,} instances")
        asyncio.run(backlog.publish(instances, lambda n: None))
        found: dict[Path, list[dict[str, float]]] = {other.resolve(): [], ROOT: []}
        for number in range(rounds):
            for checkout, runs in found.items():
                say(f"round {number + 1} of {rounds}: {checkout}")
                runs.append(budget(checkout, local.bootstrap, stream, instances))
    Console().print(shown(found[other.resolve()], found[ROOT]))


if __name__ == "__main__":
    with printed("pairs"):
        main()
