"""End-to-end throughput and latency of one worker on real Kafka, against floors measured in the same run.

    python -m benchmarks.end_to_end [--quick] [--memory] [--model adaptive-random-forest] [--json FILE]

What is measured is in docs/evidence/speed.md. Tables go to standard output, progress to standard error, every figure
to a JSON file (benchmarks/results/ unless said otherwise). The broker is a real Kafka of its own in a
temporary directory, or the one that --broker names, whose topics `bench*`, `budget*`, `latency*` and `memory*` are
deleted.
"""

import asyncio
import contextlib
import importlib.metadata
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks import latency, memory, throughput
from benchmarks.budget import STAGES
from benchmarks.processes import Child, MeasureError, ended_by_signals
from benchmarks.record import processor, write
from benchmarks.workload import LABEL_DELAY_MS, NAMES, Backlog, delete, past, stream_file
from riparian.app import __version__
from riparian.app.cli.terminal.parsing import parse_model
from riparian.app.errors import RiparianError
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.local_broker.java import kafka_version
from riparian.models.auto.auto import AUTO, PARAMETERS
from riparian.models.entry import checked
from riparian.models.kernels.threads import n_cores
from riparian.models.registry import validate
from riparian.topics.records import CLASSIFICATION

GOALS = {  # name -> (what, at least or at most, value)
    "worker_over_bare": ("worker's instances/s ÷ bare loop's messages/s", ">=", 0.49),
    "worker_over_plain": ("worker ÷ plain agent", ">=", 25.0),
    "latency_p50": ("features to prediction at 2,000 instances/s, p50 ÷ bare echo's", "<=", 1.67),
    "latency_p99": ("features to prediction at 2,000 instances/s, p99 ÷ bare echo's", "<=", 1.33),
    "memory": ("memory's growth over the second half", "<=", memory.FLAT_SHARE),
}
GOAL_RATE = 2000

Say = Callable[[str, int | None], Callable[[int], None]]


def machine() -> dict[str, Any]:
    return {
        "cores": n_cores(),
        "cpu": processor(),
        "system": f"{platform.system()} {platform.release()}",
        "load_before": os.getloadavg()[0],
    }


def versions(kafka: str) -> dict[str, str]:
    packages = {"numba": "numba", "numpy": "numpy", "faust": "faust-streaming", "aiokafka": "aiokafka"}
    found = {name: importlib.metadata.version(package) for name, package in packages.items()}
    return {"riparian": __version__, "python": platform.python_version(), "kafka": kafka, **found}


@contextlib.contextmanager
def progress(console: Console) -> Iterator[Say]:
    """A line for each thing that takes long, on standard error."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:

        def say(what: str, total: int | None) -> Callable[[int], None]:
            if not console.is_terminal:
                console.print(what, highlight=False)
            task = bar.add_task(what, total=1 if total is None else total)
            return lambda n: bar.advance(task, n)

        yield say


@contextlib.contextmanager
def kafka(address: str | None, folder: Path) -> Iterator[tuple[str, str]]:
    """Bootstrap address and version of the broker."""
    if address is not None:
        yield address, "named by --broker"
        return
    with LocalBroker(folder / "broker") as local:
        yield local.bootstrap, kafka_version()


def piecewise(broker: str, folder: Path, n: int, rounds: int, say: Say, **fields: Any) -> dict[str, Any]:
    """The budget of benchmarks/budget.py, the median of each stage."""
    path, spec = stream_file(folder, "budget", 1, **fields)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    backlog = Backlog(broker, spec.topics.features, spec.topics.labels or "", 1, past(n))
    asyncio.run(backlog.publish(n, say(f"publishing {n:,} instances for the budget", n)))
    runs = []
    for number in range(rounds):
        done = say(f"budget, round {number + 1} of {rounds}", None)
        with Child("benchmarks.budget", broker, str(path), str(n), folder=folder) as child:
            runs.append(child.result())
        done(1)
    asyncio.run(delete(broker, "budget."))
    us = {stage: statistics.median(run["us"][stage] for run in runs) for stage in STAGES}
    return {"n": n, "steps": runs[0]["steps"], "us": us, "sum_us": sum(us.values()), "rounds": runs}


def goals(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was to be reached, what was, and whether."""
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in GOALS}
    for part in result["throughput"]:
        where = f"{part['partitions']} partition{'' if part['partitions'] == 1 else 's'}"
        for name in ("worker_over_bare", "worker_over_plain"):
            found[name].append((where, part["ratios"][name]["median"]))
    for part in result["latency"]:
        if part["rate"] == GOAL_RATE:
            for name in ("p50", "p99"):
                found[f"latency_{name}"].append(("1 partition", part["worker"][name] / part["echo"][name]))
    if result["memory"] is not None:
        found["memory"].append((f"{result['memory']['instances'][-1]:,} instances", result["memory"]["growth"]))
    rows = []
    for name, values in found.items():
        text, sign, goal = GOALS[name]
        for where, value in values:
            met = value >= goal if sign == ">=" else value <= goal
            rows.append(
                {"name": name, "text": text, "where": where, "sign": sign, "goal": goal, "value": value, "met": met}
            )
    return rows


# -- tables ---------------------------------------------------------------------------------------------------------


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def show(result: dict[str, Any], console: Console) -> None:
    """All tables."""
    console.print(
        f"{result['machine']['cores']} cores, {result['machine']['cpu']}; load before: "
        f"{result['machine']['load_before']:.1f}; " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()),
        highlight=False,
    )
    for part in result["throughput"]:
        _show_throughput(part, console)
    if result["budget"] is not None:
        _show_budget(result["budget"], console)
    if result["latency"]:
        _show_latency(result["latency"], console)
    if result["memory"] is not None:
        _show_memory(result["memory"], console)
    table = Table("goal", "where", "", "found", "met", title="Goals")
    for row in result["goals"]:
        met = "[green]yes[/]" if row["met"] else "[red]no[/]"
        table.add_row(row["text"], row["where"], f"{row['sign']} {row['goal']:g}", f"{row['value']:.3g}", met)
    console.print(table)


def _show_throughput(part: dict[str, Any], console: Console) -> None:
    n, rounds = part["rounds"][0]["worker"]["predictions"], len(part["rounds"])
    title = f"Through a backlog: {part['partitions']} partition(s), {n:,} labelled instances, {rounds} round(s)"
    table = Table("", "unit", "median /s", "min", "max", "CPU µs each", title=title)
    units = {"bare": "messages", "worker": "labelled instances", "plain": "labelled instances"}
    names = {"bare": "bare aiokafka loop", "worker": "riparian worker", "plain": "plain Faust agent"}
    for role in ("bare", "worker", "plain"):
        rates = [r[role]["per_second"] for r in part["rounds"]]
        found = part["medians"][role]
        table.add_row(
            names[role],
            units[role],
            *(_number(v) for v in (found["per_second"], min(rates), max(rates))),
            _number(found["cpu_us"], 2),
        )
    console.print(table)
    cores, loop = (
        statistics.median(r["worker"][name] or 0.0 for r in part["rounds"]) for name in ("cores", "loop_cores")
    )
    console.print(f"  worker: {cores:.2f} cores, of which its event loop {loop:.2f}", highlight=False)
    for name in ("worker_over_bare", "worker_over_plain"):
        ratio = part["ratios"][name]
        console.print(
            f"  {GOALS[name][0]}: {ratio['median']:.3g} ({ratio['min']:.3g} to {ratio['max']:.3g})", highlight=False
        )


def _show_budget(budget: dict[str, Any], console: Console) -> None:
    title = f"Piecewise, CPU µs a labelled instance ({budget['n']:,} instances in {budget['steps']} steps)"
    table = Table("stage", "µs", title=title)
    for stage, us in budget["us"].items():
        table.add_row(stage, f"{us:.2f}")
    table.add_section()
    table.add_row("sum", f"{budget['sum_us']:.2f}")
    console.print(table)


def _show_latency(parts: list[dict[str, Any]], console: Console) -> None:
    columns = (*(f"p{p}" for p in latency.PERCENTILES), "max")
    table = Table("instances/s", "", *columns, "client late p99", title="Features to prediction, ms")
    for part in parts:
        for role, text in (("echo", "bare echo (floor)"), ("worker", "riparian worker")):
            figures = [f"{part[role][column]:.1f}" for column in (*columns, "client_late_p99")]
            table.add_row(f"{part['rate']:,}", text, *figures)
    console.print(table)


def _show_memory(found: dict[str, Any], console: Console) -> None:
    table = Table("labelled instances", "resident MB", "state MB", title="Memory of the worker")
    n = len(found["instances"])
    for i in sorted({0, *(round(k * (n - 1) / 8) for k in range(1, 9))}):
        table.add_row(f"{found['instances'][i]:,}", f"{found['resident_mb'][i]:,.0f}", f"{found['state_mb'][i]:,.1f}")
    console.print(table)
    text = "flat" if found["flat"] else "not flat"
    console.print(f"  {text}: {100 * found['growth']:+.1f} % over the second half, peak {found['peak_mb']:,.0f} MB")


# -- the command ----------------------------------------------------------------------------------------------------


def ints(_context: Any, _parameter: Any, value: str) -> list[int]:
    try:
        return [int(part) for part in value.split(",") if part]
    except ValueError:
        raise click.BadParameter(f"expected numbers separated by commas, found {value!r}") from None


def names_of(known: Collection[str]) -> Callable[[Any, Any, str], list[str]]:
    """For an option of names with commas between them, all of which are to be known."""

    def read(_context: Any, _parameter: Any, value: str) -> list[str]:
        found = [name for name in value.split(",") if name]
        for name in found:
            if name not in known:
                raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}")
        return found

    return read


def _model(_context: Any, _parameter: Any, value: str) -> dict[str, Any]:
    try:
        name, parameters = parse_model(value)
        if name == AUTO:
            checked(name, PARAMETERS, parameters)
        else:
            validate(name, CLASSIFICATION, parameters)
    except (RiparianError, ValueError) as error:
        raise click.BadParameter(str(error)) from None
    return {"model": name, **parameters}


QUICK = {
    "instances": 100_000,
    "plain": 3_000,
    "rounds": 1,
    "partitions": [1],
    "rates": [500],
    "seconds": 5.0,
    "budget_instances": 50_000,
}


@click.command()
@click.option("--instances", default=1_000_000, show_default=True, help="Labelled instances of worker and bare loop.")
@click.option("--plain", default=20_000, show_default=True, help="Labelled instances of the plain agent (it is slow).")
@click.option("--rounds", default=3, show_default=True, help="Interleaved rounds; medians are shown.")
@click.option("--partitions", default="1,4", show_default=True, callback=ints, help="Numbers of partitions.")
@click.option("--batch-records", default=2000, show_default=True, help="Records in a produce batch of the backlog.")
@click.option(
    "--rates", default="500,2000,50000", show_default=True, callback=ints, help="Instances a second for latency."
)
@click.option("--seconds", default=20.0, show_default=True, help="How long each rate is kept up.")
@click.option("--latency-rounds", default=1, show_default=True, help="Repetitions of each rate.")
@click.option("--budget-instances", default=200_000, show_default=True, help="Instances of the budget; 0 to leave out.")
@click.option("--memory", "memory_instances", is_flag=False, flag_value=10_000_000, type=int, default=0,
              help="Watch memory over so many instances (10,000,000 if no number is given; minutes).")  # fmt: skip
@click.option("--model", default="hoeffding-tree", show_default=True, callback=_model,
              help="The champion, with parameters as in `riparian evaluate`.")  # fmt: skip
@click.option("--learning", type=click.Choice(["partition", "shared"]), default="partition", show_default=True,
              help="Of several partitions: a model for each, or one for all.")  # fmt: skip
@click.option("--quick", is_flag=True, help="A sanity run of a minute: small sizes, one round, one partition.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
@click.pass_context
def main(context: click.Context, /, **options: Any) -> None:
    """Throughput and latency of one worker on real Kafka, against floors measured in the same run."""
    if options["quick"]:
        for name, value in QUICK.items():
            given = context.get_parameter_source(name)
            if given is None or given.name == "DEFAULT":
                options[name] = value
    try:
        with ended_by_signals():
            result = run(options)
    except MeasureError as error:
        raise click.ClickException(str(error)) from None
    target = write("end_to_end", result)
    terminal = Console()
    show(result, Console(width=max(terminal.width, 100)))  # narrower columns would break words
    click.echo(f"figures: {target}")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Measure everything that the options ask for."""
    result: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name:
        folder = Path(name)
        with kafka(options["broker"], folder) as (broker, version), progress(console) as say:
            result["versions"] = versions(version)
            result["settings"] = {
                **{name: value for name, value in options.items() if name not in ("broker", "quick")},
                "features": len(NAMES),
                "label_delay_ms": LABEL_DELAY_MS,
                "latency_label_seconds": latency.LABEL_SECONDS,
            }
            champion = options["model"]
            sizes = throughput.Sizes(
                options["instances"], options["plain"], options["rounds"], options["batch_records"]
            )
            result["throughput"] = [
                throughput.measure(
                    broker, folder, partitions, sizes, say, champion=champion, learning=options["learning"]
                )
                for partitions in options["partitions"]
            ]
            n = options["budget_instances"]
            result["budget"] = piecewise(broker, folder, n, options["rounds"], say, champion=champion) if n else None
            result["latency"] = latency.measure(
                broker, folder, options["rates"], options["seconds"], options["latency_rounds"], say, champion=champion
            )
            n = options["memory_instances"]
            result["memory"] = memory.measure(broker, folder, n, say, champion=champion) if n else None
    result["goals"] = goals(result)
    return result


if __name__ == "__main__":
    sys.exit(main())
