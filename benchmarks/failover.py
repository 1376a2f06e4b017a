"""How long a partition is without predictions when its worker is killed, or stopped, under a steady load.

    python -m benchmarks.failover [--small] [--json FILE]

Workers share the partitions of a stream, instances come at a steady rate, and the predictions are read as they come.
Again and again one worker that owns a partition is ended and, when its partitions have moved, another one started; or
it is started again at once, with an instance id and without. What is measured and how to read it is in
docs/evidence/recovery.md. Tables go to standard output, progress to standard error, every figure to a JSON file.
"""

import asyncio
import contextlib
import os
import signal
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
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks import workload
from benchmarks.end_to_end import Say, kafka, machine, progress, versions
from benchmarks.processes import MeasureError, Watched, ended_by_signals
from benchmarks.record import write
from benchmarks.throughput import read_predictions
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import changelog_topic

ALLOWANCE_SECONDS = 3.0  # beyond the session timeout
LABEL_SECONDS = 0.5
WARM_SECONDS = 2.0  # of load before the first end
SETTLE_SECONDS = 2.5  # between the moment when all partitions have an owner and the next end
PATIENCE_SECONDS = 120.0
PARTITIONS = 2
WORKERS = 2
RESTARTS_WITHOUT = 2  # an instance id: the session's timeout each
RESTART_GOAL = 2.0  # seconds, the median under an instance id
CHUNK = 5_000  # instances made at once

PARTS = {
    "start": "until the worker is back and assigned",
    "detect": "until the survivor is told",
    "rebalance": "join and assignment",
    "fence": "… fence",
    "read": "… changelog",
    "restored": "… decode, restore",
    "sent": "… own outputs",
    "load": "load",
    "answer": "to the first step",
    "seen": "to the reader",
    "total": "end to first new prediction",
    "gap": "longest gap in its predictions",
    "other_gap": "longest gap in the other partition",
}


class Scenario(NamedTuple):
    """What is measured.

    standbys : of each partition
    ends : how often a worker is ended, by `signal`
    again : whether the same worker is started again at once
    named : whether workers have instance ids
    """

    name: str
    standbys: int
    signal: signal.Signals
    ends: int
    again: bool = False
    named: bool = False


class Load:
    """Instances at a steady rate to all partitions in turn, their labels a little later, and all predictions read."""

    def __init__(self, broker: str, spec: Spec, rate: int) -> None:
        self.broker, self.spec, self.rate = broker, spec, rate
        self.n = 0
        # By partition: when each prediction was made (the record's stamp) and when it came here; seconds since 1970.
        self.made: dict[int, list[float]] = {p: [] for p in range(spec.partitions)}
        self.came: dict[int, list[float]] = {p: [] for p in range(spec.partitions)}
        self.stopping = False

    async def send(self) -> None:
        """Until told to stop; returns when all labels are out too."""
        topics = self.spec.topics
        waiting: list[tuple[float, int, bytes, bytes]] = []
        begun, chunk, first = time.monotonic(), workload.instances(0, CHUNK), 0
        async with workload.producing(self.broker) as producer:
            while not self.stopping or waiting:
                now = time.monotonic()
                while not self.stopping and begun + self.n / self.rate <= now:
                    if self.n - first == CHUNK:
                        first = self.n
                        chunk = workload.instances(first, CHUNK)
                    i, partition = self.n - first, self.n % self.spec.partitions
                    await producer.send(topics.features, chunk.features[i], key=chunk.keys[i], partition=partition)
                    waiting.append((now + LABEL_SECONDS, partition, chunk.keys[i], chunk.labels[i]))
                    self.n += 1
                while waiting and waiting[0][0] <= now:
                    _, partition, key, value = waiting.pop(0)
                    await producer.send(topics.labels or "", value, key=key, partition=partition)
                await asyncio.sleep(0.002)

    async def read(self) -> None:
        """For ever."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.broker, enable_auto_commit=False, auto_offset_reset="earliest", fetch_max_wait_ms=20
        )
        await consumer.start()
        try:
            consumer.assign([TopicPartition(self.spec.topics.predictions, p) for p in range(self.spec.partitions)])
            while True:
                for tp, records in (await consumer.getmany(timeout_ms=1000)).items():
                    now = time.time()
                    self.made[tp.partition] += [record.timestamp / 1000 for record in records]
                    self.came[tp.partition] += [now] * len(records)
        finally:
            await consumer.stop()

    async def after(self, partition: int, moment: float) -> float:
        """When the first prediction made after `moment` came."""
        deadline, at = time.monotonic() + PATIENCE_SECONDS, 0
        made = self.made[partition]
        while time.monotonic() < deadline:
            while at < len(made) and made[at] <= moment:
                at += 1
            if at < len(made):
                return self.came[partition][at]
            await asyncio.sleep(0.01)
        raise MeasureError(f"no prediction of partition {partition} within {PATIENCE_SECONDS:.0f} s")

    def gap(self, partition: int, first: float, last: float) -> float:
        """Longest time between two predictions that came between two moments."""
        came = np.array(self.came[partition])
        inside = came[(came >= first) & (came <= last)]
        return float(np.diff(np.concatenate(([first], inside, [last]))).max())


class Group:
    """The workers of the stream."""

    def __init__(self, path: Path, broker: str, folder: Path, session_timeout: float) -> None:
        self._arguments = (path, broker, folder, "--session-timeout", str(session_timeout))
        self.workers: list[Watched] = []
        self.ids: dict[Watched, str] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, instance_id: str = "none") -> Watched:
        worker = self._stack.enter_context(Watched(*self._arguments, "--instance-id", instance_id))
        self.workers.append(worker)
        self.ids[worker] = instance_id
        return worker

    def owners(self) -> dict[int, Watched]:
        """Partition -> the worker that runs it, as the workers say themselves."""
        return {int(p): worker for worker in self.workers for p in worker.partitions()}

    def settle(self, n_partitions: int, newest: Watched) -> dict[int, Watched]:
        """Wait until the newest has been assigned what it gets and every partition has an owner; the owners."""
        newest.wait_to_hear("assigned", seconds=PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.owners()) < n_partitions:
            if time.monotonic() > deadline:
                raise MeasureError(f"not all of {n_partitions} partitions have an owner")
            time.sleep(0.1)
        time.sleep(SETTLE_SECONDS)
        return self.owners()


def _first(lines: Sequence[dict[str, Any]], event: str, least: float = 0.0) -> dict[str, Any]:
    for line in lines:
        if line["event"] == event and line["time"] >= least:
            return line
    raise MeasureError(f"the survivor did not say {event!r}")


async def _end(load: Load, group: Group, victim: Watched, partition: int, how: signal.Signals) -> dict[str, Any]:
    """End a worker; how long its partition stood still, and why."""
    group.workers.remove(victim)
    heard = {worker: len(worker.said) for worker in group.workers}
    began = time.time()
    if how is signal.SIGKILL:
        await asyncio.to_thread(victim.kill)
        moment = time.time()  # what is stamped later was made by somebody else
    else:
        await asyncio.to_thread(victim.stop)
        moment = _first(victim.said, "stopped")["time"]
    seen = await load.after(partition, moment)
    await asyncio.sleep(0.2)  # the workers' last lines
    lines = next(
        worker.said[at:]
        for worker, at in heard.items()
        if any(line["event"] == "answered" and line["partition"] == partition for line in worker.said[at:])
    )
    told, assign = _first(lines, "revoked"), _first(lines, "assign")
    assigned = _first(lines, "assigned", assign["time"])
    answered = next(line for line in lines if line["event"] == "answered" and line["partition"] == partition)
    others = [p for p in range(load.spec.partitions) if p != partition]
    return {
        "total": seen - began,
        "detect": told["time"] - began,
        "rebalance": assign["time"] - told["time"],
        **{name: _first(lines, name, assign["time"])["seconds"] for name in ("fence", "read", "restored", "sent")},
        "load": assigned["time"] - assign["time"],
        "answer": answered["time"] - assigned["time"],
        "seen": seen - answered["time"],
        "gap": load.gap(partition, began - 0.5, time.time()),
        "other_gap": max((load.gap(p, began - 0.5, time.time()) for p in others), default=0.0),
    }


async def _again(load: Load, group: Group, victim: Watched, partition: int) -> tuple[dict[str, Any], Watched]:
    """Kill a worker and start it again at once: how long its partition stood still; and the worker."""
    group.workers.remove(victim)
    began = time.time()
    await asyncio.to_thread(victim.kill)
    moment = time.time()
    newest = group.start(group.ids[victim])
    seen = await load.after(partition, moment)
    await asyncio.sleep(0.2)  # the worker's last lines
    others = [p for p in range(load.spec.partitions) if p != partition]
    found = {
        "total": seen - began,
        "gap": load.gap(partition, began - 0.5, time.time()),
        "other_gap": max((load.gap(p, began - 0.5, time.time()) for p in others), default=0.0),
    }
    answered = [line for line in newest.heard("answered") if line["partition"] == partition]
    if answered:  # it got its partition back
        assign, assigned = _first(newest.said, "assign"), _first(newest.said, "assigned")
        found |= {
            "start": assign["time"] - moment,
            "load": assigned["time"] - assign["time"],
            "answer": answered[0]["time"] - assigned["time"],
            "seen": seen - answered[0]["time"],
        }
    return found, newest


async def _campaign(
    scenario: Scenario, spec: Spec, broker: str, group: Group, rate: int, advance: Callable[[int], None]
) -> tuple[list[dict[str, Any]], list[int]]:
    """All ends of a scenario, and the instances that were sent to each partition."""
    load = Load(broker, spec, rate)
    sending, reading = asyncio.create_task(load.send()), asyncio.create_task(load.read())
    ends = []
    try:
        for number in range(WORKERS):
            newest = group.start(f"worker-{number}" if scenario.named else "none")
            await asyncio.to_thread(group.settle, spec.partitions, newest)
        await asyncio.sleep(WARM_SECONDS)
        for number in range(scenario.ends):
            owners = await asyncio.to_thread(group.owners)
            partition = number % spec.partitions
            if scenario.again:
                found, newest = await _again(load, group, owners[partition], partition)
                ends.append(found)
            else:
                ends.append(await _end(load, group, owners[partition], partition, scenario.signal))
            advance(1)
            if number + 1 < scenario.ends:
                newest = newest if scenario.again else group.start()
                await asyncio.to_thread(group.settle, spec.partitions, newest)
            if sending.done() or reading.done():
                raise MeasureError("the load has ended")
        load.stopping = True
        await sending
        counts = [len(range(p, load.n, spec.partitions)) for p in range(spec.partitions)]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while [len(load.made[p]) for p in range(spec.partitions)] != counts:
            if time.monotonic() > deadline:
                raise MeasureError(f"{counts} predictions were not made: {[len(made) for made in load.made.values()]}")
            await asyncio.sleep(0.1)
    finally:
        sending.cancel()
        reading.cancel()
        await asyncio.gather(sending, reading, return_exceptions=True)
    for worker in group.workers:
        await asyncio.to_thread(worker.stop)
    await read_predictions(broker, spec.topics.predictions, counts)  # each exactly once, in order
    return ends, counts


def _parts(ends: Sequence[dict[str, Any]]) -> list[str]:
    """What was measured at all."""
    return [part for part in PARTS if any(part in end for end in ends)]


def _values(ends: Sequence[dict[str, Any]], part: str) -> list[float]:
    return [end[part] for end in ends if part in end]


def run(
    scenario: Scenario, broker: str, folder: Path, rate: int, session_timeout: float, advance: Callable[[int], None]
) -> dict[str, Any]:
    """One scenario on a stream of its own."""
    name = f"failover-{scenario.name}"
    path, spec = workload.stream_file(folder, name, PARTITIONS, standbys=scenario.standbys)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    with Group(path, broker, folder, session_timeout) as group:
        ends, counts = asyncio.run(_campaign(scenario, spec, broker, group, rate, advance))
    for prefix in (name, changelog_topic(name)):
        asyncio.run(workload.delete(broker, prefix))
    return {
        "name": scenario.name,
        "standbys": scenario.standbys,
        "signal": scenario.signal.name,
        "instances": sum(counts),
        "ends": ends,
        "median": {part: statistics.median(_values(ends, part)) for part in _parts(ends)},
        "max": {part: max(_values(ends, part)) for part in _parts(ends)},
    }


# -- the command ----------------------------------------------------------------------------------------------------


def measure(
    address: str | None,
    say: Say,
    *,
    kills: int,
    alone: int,
    stops: int,
    restarts: int,
    rate: int,
    session_timeout: float,
) -> dict[str, Any]:
    """All scenarios, on the broker at an address or on one of its own."""
    scenarios = [
        Scenario("kill-standby", 1, signal.SIGKILL, kills),
        Scenario("kill-no-standby", 0, signal.SIGKILL, alone),
        Scenario("stop-standby", 1, signal.SIGTERM, stops),
        Scenario("restart-named", 0, signal.SIGKILL, restarts, again=True, named=True),
        Scenario("restart", 0, signal.SIGKILL, min(restarts, RESTARTS_WITHOUT), again=True),
    ]
    result: dict[str, Any] = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    result["settings"] = {
        "session_timeout": session_timeout,
        "rate": rate,
        "partitions": PARTITIONS,
        "workers": WORKERS,
        "label_seconds": LABEL_SECONDS,
    }
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as name:
        folder = Path(name)
        with kafka(address, folder) as (broker, version):
            result["versions"] = versions(version)
            result["scenarios"] = [
                run(
                    scenario,
                    broker,
                    folder,
                    rate,
                    session_timeout,
                    say(f"{scenario.signal.name} {scenario.ends} times, {scenario.standbys} standbys", scenario.ends),
                )
                for scenario in scenarios
                if scenario.ends
            ]
    result["machine"]["load_after"] = os.getloadavg()[0]
    goal = session_timeout + ALLOWANCE_SECONDS
    by_name = {scenario["name"]: scenario for scenario in result["scenarios"]}
    result["goals"] = []
    for name, said, of, most in (
        ("kill-standby", "kill -9 to the first new prediction: at most", "max", goal),
        ("restart-named", "kill -9 and a restart under an instance id, median", "median", RESTART_GOAL),
    ):
        if name in by_name:
            value = by_name[name][of]["total"]
            result["goals"].append({"name": name, "said": said, "goal": most, "value": value, "met": value <= most})
    return result


def show(result: dict[str, Any], console: Console) -> None:
    """All tables."""
    found, settings = result["machine"], result["settings"]
    console.print(
        f"{found['cores']} cores, {found['cpu']}; load {found['load_before']:.1f} before, {found['load_after']:.1f} "
        "after; " + ", ".join(f"{k} {v}" for k, v in result["versions"].items()),
        highlight=False,
    )
    console.print(
        f"{settings['workers']} workers, {settings['partitions']} partitions, {settings['rate']} instances/s, session "
        f"timeout {settings['session_timeout']:g} s",
        highlight=False,
    )
    for scenario in result["scenarios"]:
        ends = scenario["ends"]
        how = {"restart-named": ", started again with its instance id", "restart": ", started again"}
        title = (
            f"{scenario['signal']} of an owner{how.get(scenario['name'], '')}, {len(ends)} times, "
            f"{scenario['standbys']} standbys: seconds"
        )
        table = Table("", "min", "median", "p90", "max", title=title)
        for part in _parts(ends):
            text, values = PARTS[part], _values(ends, part)
            figures = (min(values), statistics.median(values), float(np.percentile(values, 90)), max(values))
            table.add_row(text, *(f"{value:.2f}" for value in figures))
        console.print(table)
    for goal in result["goals"]:
        met = "met" if goal["met"] else "not met"
        console.print(f"  {goal['said']} {goal['value']:.2f} s, goal {goal['goal']:g}: {met}")


@click.command()
@click.option("--kills", default=20, show_default=True, help="How often an owner is killed, with a standby.")
@click.option("--alone", default=4, show_default=True, help="How often it is killed without one.")
@click.option("--stops", default=4, show_default=True, help="How often it is stopped by SIGTERM, with a standby.")
@click.option("--restarts", default=20, show_default=True, help="How often it is killed and started again at once.")
@click.option("--rate", default=400, show_default=True, help="Instances a second, all partitions together.")
@click.option("--session-timeout", default=6.0, show_default=True, help="Seconds; brokers allow 6 or more.")
@click.option("--small", is_flag=True, help="A sanity run: one kill, one stop.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(small: bool, broker: str | None, **settings: Any) -> None:
    """How long a partition is without predictions when its worker is killed, or stopped."""
    if small:
        settings |= {"kills": 1, "alone": 0, "stops": 1, "restarts": 1}
    try:
        with ended_by_signals(), progress(Console(stderr=True)) as say:
            result = measure(broker, say, **settings)
    except MeasureError as error:
        raise click.ClickException(str(error)) from None
    target = write("failover", result)
    show(result, Console(width=max(Console().width, 100)))
    click.echo(f"figures: {target}")


if __name__ == "__main__":
    sys.exit(main())
