"""What large state costs: recovery, checkpoints, the changelog, pauses, throughput. On a real Kafka, by real workers.

    python -m benchmarks.state [--small] [--json FILE]

The state is a Hoeffding tree (benchmarks/grown.py). What is measured and how to read it is in docs/evidence/speed.md.
Tables go to standard output, progress to standard error, every figure to a JSON file.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.checkpointing import SECONDS, SWITCH, large, usual
from benchmarks.end_to_end import Say, kafka, machine, progress, versions
from benchmarks.grown import LEAF_BYTES, STREAM, Leaves, Source, stored, stream_file
from benchmarks.processes import MeasureError, Watched, ended_by_signals
from benchmarks.record import write
from benchmarks.workload import MAX_BATCH_BYTES, delete, producing
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics.lag import lag
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state.changelog import bounds
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import changelog_topic

GROWTH = 80  # instances per leaf
SHARE = 0.01  # of the leaves learn something between two checkpoints
PATTERNS = ("contiguous", "scattered")
POLL_SECONDS = 0.2

GOALS = {  # name -> (what, at least or at most, value)
    "recovery_seconds": ("process start to ready without imports and kernels, slowest, s", "<=", 5.0),
    "checkpoint_mb": ("MB written by a checkpoint with 1 % of the leaves changed, mean", "<=", 3.0),
    "changelog": ("changelog ÷ live state, highest", "<=", 3.0),
    "take_ms": ("learner held by a checkpoint, longest, ms", "<=", 50.0),
    "stall_ms": ("event loop held up during a checkpoint, longest, ms", "<=", 50.0),
    "large_on_over_off": ("throughput with checkpoints ÷ without, the grown tree", ">=", 0.9),
    "usual_on_over_off": ("throughput with checkpoints ÷ without, the usual workload", ">=", 0.9),
}
PAUSES = {
    "take_ms": "learner held, ms",
    "take_cpu_ms": "… CPU",
    "encode_cpu_ms": "hash and compress, CPU ms",
    "stall_ms": "event loop late during a checkpoint, ms",
    "stall_between_ms": "event loop late between two, ms",
}

# -- what is measured -----------------------------------------------------------------------------------------------


def summary(values: Sequence[float]) -> dict[str, float]:
    if not values:
        raise MeasureError("nothing was measured")
    return {"median": statistics.median(values), "p99": float(np.percentile(values, 99)), "max": max(values)}


def pauses(worker: Watched, first: int = 0) -> dict[str, Any]:
    """How long checkpoints held the learner and the event loop, from a line of what the worker said on."""
    takes = worker.heard("take", first)
    checkpoints = worker.heard("checkpoint", first)
    between = [line["stall_between"] for line in worker.heard("begin", first)]
    return {
        "n": len(checkpoints),
        "take_ms": summary([1000 * line["seconds"] for line in takes]),
        "take_cpu_ms": summary([1000 * line["cpu_seconds"] for line in takes]),
        "encode_cpu_ms": summary([1000 * line["cpu_seconds"] for line in worker.heard("encode", first)]),
        "stall_ms": summary([1000 * line["stall"] for line in checkpoints]),
        "stall_between_ms": summary([1000 * value for value in between]),
        "seconds": summary([line["seconds"] for line in checkpoints]),
    }


def grow(broker: str, folder: Path, n_leaves: int) -> dict[str, Any]:
    """A worker learns until the tree is full."""
    path, spec = stream_file(folder, n_leaves)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    source = Source(broker, spec.topics.features)
    n = GROWTH * n_leaves
    asyncio.run(source.publish(n, seed=1))
    with Watched(path, broker, folder, ticker=True) as worker:
        began = worker.wait_to_hear("ready")["time"]
        worker.wait_for_instances(n, SECONDS)
        seconds = time.time() - began
        worker.stop()
        worker.wait_to_hear("stopped")
        found = pauses(worker)
        last = worker.heard("checkpoint")[-1]
    learner = asyncio.run(stored(broker, spec))
    return {
        "n_instances": n,
        "seconds": seconds,
        "n_leaves": learner.roles["champion"].model.size()["n_leaves"],
        "state_bytes": learner.n_bytes["champion"],
        "live_bytes": last["live_bytes"],
        "pauses": found,
    }


def recover(broker: str, folder: Path, n_leaves: int, kills: int) -> dict[str, Any]:
    """From process start to ready; each worker but the last is killed."""
    path, spec = stream_file(folder, n_leaves)
    runs = []
    for _ in range(kills):
        # A member that was killed holds up the next one until its session has timed out: benchmarks/failover.py.
        while asyncio.run(lag(spec, Connection(broker))).workers:
            time.sleep(POLL_SECONDS)
        with Watched(path, broker, folder, "--session-timeout", "6") as worker:
            ready = worker.wait_to_hear("ready")["time"]
            imported, assign = worker.heard("imported")[0]["time"], worker.heard("assign")[0]["time"]
            took = {name: worker.heard(name)[0]["seconds"] for name in ("warm", "fence", "read", "sent")}
            took |= {name: worker.heard(name)[0]["seconds"] for name in ("decode", "restore", "restored")}
            worker.kill()
        runs.append(
            {
                "total": ready - worker.started,
                "import": imported - worker.started,
                "kernels": took["warm"],
                "counted": ready - imported - took["warm"],
                "start": assign - imported - took["warm"],
                "fence": took["fence"],
                "read": took["read"],
                "decode": took["decode"],
                "restore": took["restore"],
                "encoder": took["restored"] - took["decode"] - took["restore"],
                "outputs": took["sent"],
                "rest": ready - assign - took["fence"] - took["read"] - took["restored"] - took["sent"],
            }
        )
    return {"runs": runs, "median": {name: statistics.median(run[name] for run in runs) for name in runs[0]}}


async def _feed(
    broker: str, spec: Spec, worker: Watched, source: Source, leaves: Leaves, n_checkpoints: int, n_touched: int
) -> list[dict[str, Any]]:
    """Have a share of the leaves learn, wait for the checkpoint that holds it, and again."""
    lines = []
    async with producing(broker, max_batch_size=MAX_BATCH_BYTES) as producer:
        for number in range(n_checkpoints):
            # The first half of the patterns' rounds one, then the other; whatever comes after is scattered.
            pattern = PATTERNS[0] if number < n_checkpoints // 4 else PATTERNS[1]
            rows = leaves.choose(pattern, n_touched)
            after = len(worker.said)
            await source.send(producer, source.records(leaves.x[rows], leaves.y[rows]))
            line = await asyncio.to_thread(worker.wait_to_hear, "checkpoint", 30.0, after, offset=source.n)
            lines.append({"pattern": pattern, **line})
    return lines


def steady(
    broker: str, folder: Path, n_leaves: int, n_checkpoints: int, n_sent: int, kafka_folder: Path
) -> dict[str, Any]:
    """Checkpoints as fast as they go, each with a share of the leaves changed."""
    path, spec = stream_file(folder, n_leaves, every="100ms", share=1.0)
    learner = asyncio.run(stored(broker, spec))
    leaves = Leaves(learner, np.random.default_rng(2))
    source = Source(broker, spec.topics.features)
    source.n = n_sent
    n_touched = max(1, round(SHARE * leaves.n))
    with Watched(path, broker, folder, ticker=True) as worker:
        worker.wait_to_hear("ready")
        first = len(worker.said)
        began = time.monotonic()
        lines = asyncio.run(_feed(broker, spec, worker, source, leaves, n_checkpoints, n_touched))
        seconds = time.monotonic() - began
        found = pauses(worker, first)
        every = worker.heard("checkpoint", first)
        worker.stop()
    start, end = asyncio.run(bounds(Connection(broker), changelog_topic(spec.name), 0))
    on_disk = {".log": 0, ".deleted": 0}
    for file in (kafka_folder / f"{changelog_topic(spec.name)}-0").glob("*.log*"):
        on_disk[file.suffix] = on_disk.get(file.suffix, 0) + file.stat().st_size
    half = lines[len(lines) // 2 :]
    ratios = [line["log_bytes"] / line["live_bytes"] for line in every]
    own = [line["log_bytes"] / line["own_bytes"] for line in every]
    return {
        "n": n_checkpoints,
        "n_made": len(every),
        "seconds": seconds,
        "leaves_touched": n_touched,
        "leaves": leaves.n,
        "bytes": {p: summary([line["bytes"] for line in lines if line["pattern"] == p]) for p in PATTERNS},
        "bytes_steady": summary([line["bytes"] for line in half]),
        "bytes_mean": statistics.mean(line["bytes"] for line in half),
        "ratio": {"last": ratios[-1], "max": max(ratios)},
        "ratio_without_past": {"last": own[-1], "max": max(own)},
        "log_bytes": every[-1]["log_bytes"],
        "live_bytes": every[-1]["live_bytes"],
        "n_records": end - start,
        "disk_bytes": on_disk[".log"] if kafka_folder.exists() else None,
        "disk_deleted_bytes": on_disk[".deleted"] if kafka_folder.exists() else None,
        "pauses": found,
        "n_sent": source.n,
    }


def rows_of(sizes: Sequence[int], n_bytes: int) -> list[dict[str, Any]]:
    """The same with rows of other sizes, made by hand: a checkpoint after 1 % of the rows changed, in memory."""
    rng = np.random.default_rng(3)
    found = []
    for size in sizes:
        rows = rng.random((n_bytes // size, size // 8))
        encoder = checkpoint.Encoder("rows", 0)
        written: set[bytes] = set()

        def take(encoder: Any = encoder, rows: Any = rows, written: Any = written) -> int:
            encoder.take(Snapshot({}, {"rows": rows}))
            encoded = encoder.encode(sequence=1, created_ms=0, outputs={}, written=written)
            written |= set(encoded.new)
            return len(encoded.data) + sum(map(len, encoded.new.values()))

        whole, n = take(), max(1, round(SHARE * len(rows)))
        n_bytes_of = {}
        for pattern in PATTERNS:
            chosen = np.arange(n) if pattern == PATTERNS[0] else rng.choice(len(rows), n, replace=False)
            rows[chosen] += 1.0
            n_bytes_of[pattern] = take()
        found.append({"row_bytes": size, "whole": whole, **n_bytes_of})
    return found


# -- the command ----------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """How much is measured.

    megabytes : of state
    kills : recoveries
    checkpoints : one after the other
    usual, large : instances of a round of each throughput
    rounds : of these
    """

    megabytes: float
    kills: int
    checkpoints: int
    usual: int
    large: int
    rounds: int


SMALL = Sizes(megabytes=2.0, kills=1, checkpoints=8, usual=0, large=2_000, rounds=1)


def measure(address: str | None, sizes: Sizes, say: Say) -> dict[str, Any]:
    """Everything, on the broker at an address or on one of its own."""
    n_leaves = max(50, round(1e6 * sizes.megabytes / LEAF_BYTES))
    result: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    result["settings"] = sizes._asdict()
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name:
        folder = Path(name)
        with kafka(address, folder) as (broker, version):
            result["versions"] = versions(version)

            def part(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
                done = say(what, None)
                found = function(broker, folder, *arguments)
                done(1)
                return found

            grown = result["grown"] = part(f"growing {sizes.megabytes:g} MB of state", grow, n_leaves)
            n = grown["n_instances"]
            result["recovery"] = part(f"recovering {sizes.kills} times", recover, n_leaves, sizes.kills)
            what = f"{sizes.checkpoints:,} checkpoints"
            steadily = part(what, steady, n_leaves, sizes.checkpoints, n, folder / "broker" / "kafka")
            result["steady"] = steadily
            what = f"throughput with {sizes.megabytes:g} MB, with and without checkpoints"
            n = steadily["n_sent"]
            result["large"] = part(what, large, n_leaves, n, sizes.large, sizes.rounds) if sizes.large else None
            what = "throughput of the usual workload, with and without checkpoints"
            result["usual"] = part(what, usual, sizes.usual, sizes.rounds) if sizes.usual else None
            for prefix in (f"{STREAM}.", changelog_topic(STREAM)):
                asyncio.run(delete(broker, prefix))
    result["rows"] = rows_of((40_000, 4_000, 800), int(1e6 * sizes.megabytes))
    result["machine"]["load_after"] = os.getloadavg()[0]
    result["goals"] = goals(result)
    return result


def goals(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was to be reached, what was, and whether."""
    steady = result["steady"]
    values = {
        "recovery_seconds": max(run["counted"] for run in result["recovery"]["runs"]),
        "checkpoint_mb": steady["bytes_mean"] / 1e6,
        "changelog": steady["ratio"]["max"],
        "take_ms": steady["pauses"]["take_ms"]["max"],
        "stall_ms": steady["pauses"]["stall_ms"]["max"],
    }
    for name in ("large", "usual"):
        if result[name] is not None:
            values[f"{name}_on_over_off"] = result[name]["on_over_off"]["median"]
    rows = []
    for name, value in values.items():
        text, sign, goal = GOALS[name]
        met = value >= goal if sign == ">=" else value <= goal
        rows.append({"name": name, "text": text, "sign": sign, "goal": goal, "value": value, "met": met})
    return rows


def show(result: dict[str, Any], console: Console) -> None:
    """All tables."""
    machine, grown, steady = result["machine"], result["grown"], result["steady"]
    console.print(
        f"{machine['cores']} cores, {machine['cpu']}; load {machine['load_before']:.1f} before, "
        f"{machine['load_after']:.1f} after; " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()),
        highlight=False,
    )
    console.print(
        f"{grown['state_bytes'] / 1e6:.1f} MB in {grown['n_leaves']:,} leaves, {grown['live_bytes'] / 1e6:.1f} MB "
        f"stored; from {grown['n_instances']:,} instances in {grown['seconds']:.1f} s",
        highlight=False,
    )
    table = Table("", "median s", "max s", title=f"Process start to ready ({len(result['recovery']['runs'])} times)")
    for name, seconds in result["recovery"]["median"].items():
        table.add_row(name, f"{seconds:.2f}", f"{max(run[name] for run in result['recovery']['runs']):.2f}")
    console.print(table)
    title = f"{steady['n']:,} checkpoints, {steady['leaves_touched']} of {steady['leaves']:,} leaves changed in each"
    on_disk = "?" if steady["disk_bytes"] is None else f"{steady['disk_bytes'] / 1e6:.0f}"
    table = Table("", "median", "p99", "max", title=title)
    for pattern in PATTERNS:
        table.add_row(f"MB written, {pattern}", *(f"{v / 1e6:.2f}" for v in steady["bytes"][pattern].values()))
    for name, text in PAUSES.items():
        table.add_row(text, *(f"{v:.1f}" for v in steady["pauses"][name].values()))
    console.print(table)
    console.print(
        f"  written a checkpoint, mean of the second half: {steady['bytes_mean'] / 1e6:.2f} MB; changelog "
        f"{steady['log_bytes'] / 1e6:.0f} MB, {steady['ratio']['last']:.2f} times what is live (at most "
        f"{steady['ratio']['max']:.2f}; without older checkpoints {steady['ratio_without_past']['max']:.2f}); on disk "
        f"{on_disk} MB",
        highlight=False,
    )
    table = Table("", "median", "p99", "max", title=f"{grown['pauses']['n']} checkpoints while everything changes")
    for name, text in PAUSES.items():
        table.add_row(text, *(f"{v:.1f}" for v in grown["pauses"][name].values()))
    console.print(table)
    table = Table(
        "bytes a row", "whole", *PATTERNS, title="By hand, in memory: MB of a checkpoint, 1 % of the rows changed"
    )
    for row in result["rows"]:
        table.add_row(f"{row['row_bytes']:,}", *(f"{row[name] / 1e6:.2f}" for name in ("whole", *PATTERNS)))
    console.print(table)
    table = Table("instances/s", "with", "without", "ratio", title="Throughput with checkpoints and without")
    for name, text in (("large", "the grown tree"), ("usual", "the usual workload")):
        if result[name] is not None:
            both = [statistics.median(run[which]["per_second"] for run in result[name]["rounds"]) for which in SWITCH]
            ratio = result[name]["on_over_off"]
            shown = f"{ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f})"
            table.add_row(text, *(f"{value:,.0f}" for value in both), shown)
    console.print(table)
    table = Table("goal", "", "found", "met", title="Goals")
    for row in result["goals"]:
        met = "[green]yes[/]" if row["met"] else "[red]no[/]"
        table.add_row(row["text"], f"{row['sign']} {row['goal']:g}", f"{row['value']:.3g}", met)
    console.print(table)


@click.command()
@click.option("--megabytes", default=100.0, show_default=True, help="Size of the state.")
@click.option("--kills", default=3, show_default=True, help="Recoveries.")
@click.option("--checkpoints", default=1000, show_default=True, help="Checkpoints, one after the other.")
@click.option(
    "--usual", default=1_000_000, show_default=True, help="Instances a round of the usual workload; 0 for none."
)
@click.option("--large", default=400_000, show_default=True, help="Instances a round with the grown tree; 0 for none.")
@click.option("--rounds", default=2, show_default=True, help="Rounds of both throughputs.")
@click.option("--small", is_flag=True, help="A sanity run of half a minute, with tiny sizes for all of these.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(small: bool, broker: str | None, **sizes: Any) -> None:
    """What large state costs: recovery, checkpoints, the changelog, pauses, throughput."""
    try:
        with ended_by_signals(), progress(Console(stderr=True)) as say:
            result = measure(broker, SMALL if small else Sizes(**sizes), say)
    except MeasureError as error:
        raise click.ClickException(str(error)) from None
    target = write("state", result)
    show(result, Console(width=max(Console().width, 100)))
    click.echo(f"figures: {target}")


if __name__ == "__main__":
    sys.exit(main())
