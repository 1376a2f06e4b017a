"""One worker at a live rate with few and with many partitions, beside an echo, a plain loop and Quix Streams.

    python -m benchmarks.live [--partitions 1,8,64] [--rate 1000] [--contestants echo,loop,shared] [--beside CHECKOUT]

Every 20 ms the client sends what features and labels are due, one by one, each to the partition of its id; the label
half a second after its features. In each round every contestant runs in turn, on topics of its own:

- `echo`: what Kafka and aiokafka take (benchmarks/floors.py): reads both topics, sends a record a feature record;
- `loop`: our tree in the same loop, with none of a worker's guarantees;
- `quix`: Quix Streams with River's tree, at least once; where it cannot be installed it is named and left out;
- `partition` and `shared`: `riparian worker` with a Hoeffding tree in each partition, and with one for all.

The broker's logs lie in memory, where the system has a file system there. The first records of a log make its two index
files grow, for 4 to 6 ms each on ext4: on new topics of 64 partitions that holds up what all contestants send for
seconds, at moments that differ from run to run.

Prints a table: CPU of the process a labelled instance, what that is of the echo's in the same round, and milliseconds
from sending an instance to seeing its prediction. With --beside, workers of another checkout run as well (such as
`git worktree add ../before COMMIT` makes), by this environment's Python. With --rate 0 nothing comes, and the table
says what share of a core each takes.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.end_to_end import ints, kafka, names_of
from benchmarks.kafka_peers import Loop, find
from benchmarks.latency import Client
from benchmarks.peers import FOLDER, PeerError
from benchmarks.processes import ROOT, Child, MeasureError, Sampler, Worker, ended_by_signals
from benchmarks.record import write
from benchmarks.workload import create, delete, stream_file

TITLES = {
    "echo": "echo",
    "loop": "plain loop",
    "quix": "Quix Streams with River",
    "partition": "worker, models each",
    "shared": "worker, one model",
}
FLOORS = {"echo": "echo", "loop": "learn"}
BEFORE = "-before"  # behind the name of a contestant of the other checkout
TICK_SECONDS = 0.02
SAMPLE_SECONDS = 0.1
LOGS = Path("/dev/shm")  # of the broker, where it is there
START_SECONDS = 300.0  # that a worker may take where kernels have to be compiled
SETTLE_SECONDS = 8.0  # after which a process at which nothing comes is at rest


def start(name: str, broker: str, folder: Path, topics: list[str], partitions: int, beside: Path | None) -> Child:
    """The process of a contestant, on topics that there are: features, labels and predictions."""
    features, labels, predictions = topics
    stream = features.rpartition(".")[0]
    if name in FLOORS:
        return Child("benchmarks.floors", FLOORS[name], broker, features, predictions, labels, folder=folder)
    if name == "quix":
        arguments = (stream, broker, f"{features},{labels}", predictions, str(folder / stream))
        return Loop("quix-two-topics", find("quix", FOLDER), *arguments, folder=folder)
    path, _ = stream_file(folder, stream, partitions, learning=name.removesuffix(BEFORE))
    return Worker(path, broker, folder, root=beside if beside is not None and name.endswith(BEFORE) else ROOT)


def measure(
    name: str, broker: str, folder: Path, partitions: int, rate: int, seconds: float, beside: Path | None
) -> dict[str, Any]:
    """CPU and latency of one contestant; of one at rest, where the rate is 0, the share of a core that it takes."""
    stream = f"live-{name}-{time.monotonic_ns()}"
    topics = [f"{stream}.{role}" for role in ("features", "labels", "predictions")]
    asyncio.run(create(broker, topics, partitions))
    features, labels, predictions = topics
    client = Client(broker, features, labels, predictions, partitions=partitions, tick=TICK_SECONDS)
    with start(name, broker, folder, topics, partitions, beside) as process:
        if isinstance(process, Worker):
            process.wait_for_partitions(partitions, START_SECONDS)
        time.sleep(0 if rate else SETTLE_SECONDS)
        with Sampler(process.pid, SAMPLE_SECONDS) as sampler:
            found = asyncio.run(client.run(rate, seconds)) if rate else {}
            time.sleep(2 * SAMPLE_SECONDS if rate else seconds)
        process.check()
        process.kill()
    asyncio.run(delete(broker, stream))
    if not rate:
        return {"share": sampler.share()}
    cpu = sampler.cpu_between(found["began"], found["ended"])
    return {**found, "cpu_us": None if cpu is None else 1e6 * cpu / found["n"]}


def rows(results: dict[int, dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Medians over the rounds, of each contestant with so many partitions."""
    found = []
    for partitions, contestants in results.items():
        floors = [run["cpu_us"] for run in contestants.get("echo", [])]
        for name, runs in contestants.items():
            cpu = [run["cpu_us"] for run in runs]
            known = [one for one in cpu if one is not None]
            ratios = [one / floor for one, floor in zip(cpu, floors, strict=False) if one and floor]
            found.append({
                "partitions": partitions,
                "": _title(name),
                "CPU µs each": f"{statistics.median(known):.0f}" if known else "-",
                "÷ echo's": f"{statistics.median(ratios):.1f}" if ratios else "-",
                **{f"{field} ms": f"{statistics.median(run[field] for run in runs):.1f}" for field in ("p50", "p99")},
            })  # fmt: skip
    return found


def shares(results: dict[int, dict[str, list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """Likewise, of contestants at rest."""
    return [
        {
            "partitions": partitions,
            "": _title(name),
            "% of a core": f"{100 * statistics.median(run['share'] for run in runs):.1f}",
        }
        for partitions, contestants in results.items()
        for name, runs in contestants.items()
    ]


def _title(name: str) -> str:
    return TITLES[name.removesuffix(BEFORE)] + (", before" if name.endswith(BEFORE) else "")


def shown(found: list[dict[str, Any]]) -> Table:
    table = Table(*found[0], title="One worker")
    for row in found:
        table.add_row(*map(str, row.values()))
    return table


@click.command()
@click.option("--partitions", default="1,8,64", show_default=True, callback=ints, help="Numbers of partitions.")
@click.option("--rate", default=1000, show_default=True, help="Instances a second, and as many labels; 0: none.")
@click.option("--seconds", default=10.0, show_default=True, help="How long the rate is kept up.")
@click.option("--rounds", default=1, show_default=True, help="Of all contestants; medians are shown.")
@click.option("--contestants", default=",".join(TITLES), show_default=True, callback=names_of(TITLES))
@click.option(
    "--beside",
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    help="Another checkout, whose workers run as well.",
)
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(
    partitions: list[int],
    rate: int,
    seconds: float,
    rounds: int,
    contestants: list[str],
    beside: Path | None,
    broker: str | None,
) -> None:
    """One worker at a live rate, beside an echo, a plain loop and Quix Streams with River."""
    say = Console(stderr=True).print
    if "quix" in contestants:
        try:
            find("quix", FOLDER)
        except PeerError as error:
            say(f"{TITLES['quix']} is left out: {error}")
            contestants.remove("quix")
    names = [
        one
        for name in contestants
        for one in ([f"{name}{BEFORE}", name] if beside is not None and name in ("partition", "shared") else [name])
    ]
    results: dict[int, dict[str, list[dict[str, Any]]]] = {n: {name: [] for name in names} for n in partitions}
    with (
        ended_by_signals(),
        tempfile.TemporaryDirectory(prefix="riparian-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="riparian-bench-", dir=LOGS if LOGS.is_dir() else None) as logs,
        kafka(broker, Path(logs)) as (address, _),
    ):
        for number in range(rounds):
            for n in partitions:
                for name in names:
                    say(f"round {number + 1} of {rounds}, {n} partitions: {name}")
                    try:
                        run = measure(name, address, Path(folder), n, rate, seconds, beside)
                    except MeasureError as error:
                        raise click.ClickException(str(error)) from None
                    results[n][name].append(run)
    found = rows(results) if rate else shares(results)
    Console(width=110).print(shown(found))
    write("live" if rate else "live-idle", {"rate": rate, "seconds": seconds, "rows": found, "results": results})


if __name__ == "__main__":
    main()
