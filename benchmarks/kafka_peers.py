"""One worker beside what people write around River today: throughput, CPU, memory, latency, and what a kill -9 costs.

    python -m benchmarks.kafka_peers [--peers quix,bytewax] [--rounds 3] [--json FILE]

The same records from one topic of one partition (an id, ten numbers, the label), the same broker, one process each, a
Hoeffding tree with the same settings; a prediction for each record goes to a topic. The programs are in
benchmarks/kafka_loops.py, each in an environment of its own below --folder, installed by pip at the first run; what
cannot be had is named and left out. docs/evidence/peers.md says what each column is.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from rich.console import Console
from rich.table import Table

from benchmarks.end_to_end import Say, kafka, machine, names_of, progress
from benchmarks.latency import Client
from benchmarks.peers import FOLDER, PeerError, command
from benchmarks.processes import Child, MeasureError, Sampler, Worker, ended_by_signals
from benchmarks.record import write
from benchmarks.throughput import spread
from benchmarks.workload import BATCH_RECORDS, Instances, create, instances, past, producing, stream_file
from riparian.app import __version__

LOOPS = Path(__file__).with_name("kafka_loops.py")
PACKAGES = {  # of each program besides River and orjson
    "confluent": "confluent-kafka",
    "quix": "quixstreams",
    "quix-exactly-once": "quixstreams",
    "bytewax": "bytewax[kafka]",
    "faust": "faust-streaming",
}
OURS = "riparian"
NAMES = {
    OURS: "riparian worker",
    "confluent": "a loop over confluent-kafka",
    "quix": "Quix Streams",
    "quix-exactly-once": "Quix Streams, exactly once",
    "bytewax": "Bytewax, with recovery",
    "faust": "a plain Faust agent",
}
PATIENCE_SECONDS = 180.0
QUIET_SECONDS = 15.0  # without a new prediction after which nothing more is waited for
WARM_RECORDS = 200
TREE = {"model": "hoeffding-tree", "delta": 1e-3}


class Prediction(msgspec.Struct, gc=False):
    """A prediction as every program writes it. seen : labels that the model had learned; None of a worker's."""

    id: str
    seen: int | None = None


class Read(NamedTuple):
    """A topic of predictions. stamps : ms, as the records have them; seen : of the last record."""

    ids: list[str]
    stamps: list[int]
    seen: int | None


def labelled(made: Instances) -> list[bytes]:
    """Records that hold features and label."""
    return [
        feature[:-1] + b"," + label[label.index(b'"y"') :]
        for feature, label in zip(made.features, made.labels, strict=True)
    ]


def find(name: str, folder: Path) -> Path:
    """The Python of an environment with the program's packages."""
    package = PACKAGES[name]
    home = folder / f"kafka-{package.partition('[')[0]}"
    python = home / "bin" / "python"
    if not (home / "installed").exists():
        command([sys.executable, "-m", "venv", str(home)])
        command([str(python), "-m", "pip", "install", "--quiet", "river", "orjson", package])
        (home / "installed").touch()
    return python


class Loop(Child):
    """A program of kafka_loops.py."""

    def __init__(self, name: str, python: Path, *arguments: str, folder: Path) -> None:
        super().__init__(name, *arguments, folder=folder, program=(str(python), str(LOOPS)))


async def publish(broker: str, topic: str, n: int, advance: Callable[[int], None]) -> None:
    """n records into one partition, in batches, stamped until about now."""
    start = past(n)
    async with producing(broker, max_batch_size=900_000, max_request_size=4_000_000) as producer:
        for first in range(0, n, BATCH_RECORDS):
            made = instances(first, min(BATCH_RECORDS, n - first))
            batch = producer.create_batch()
            for i, (key, value) in enumerate(zip(made.keys, labelled(made), strict=True)):
                batch.append(key=key, value=value, timestamp=start + first + i)
            await (await producer.send_batch(batch, topic, partition=0))
            advance(len(made.keys))


async def read(broker: str, topic: str, n: int, check: Callable[[], None]) -> Read:
    """The committed predictions: until n records have one each, or no further one comes."""
    tp = TopicPartition(topic, 0)
    decode = msgspec.json.Decoder(Prediction).decode
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker, enable_auto_commit=False, isolation_level="read_committed",
        max_partition_fetch_bytes=8 << 20,
    )  # fmt: skip
    found = Read([], [], None)
    await consumer.start()
    try:
        consumer.assign([tp])
        await consumer.seek_to_beginning(tp)
        # The end alone is asked for while the program runs: reading would take its processor.
        end, news, deadline = 0, time.monotonic(), time.monotonic() + PATIENCE_SECONDS + n / 500
        while end < n and time.monotonic() < deadline and time.monotonic() < news + 4 * QUIET_SECONDS:
            check()
            now = (await consumer.end_offsets([tp]))[tp]
            if now > end:
                end, news = now, time.monotonic()
            await asyncio.sleep(0.5)
        known: set[str] = set()
        news = time.monotonic()
        while len(known) < n and time.monotonic() < news + QUIET_SECONDS:
            for record in (await consumer.getmany(tp, timeout_ms=1000)).get(tp, ()):
                prediction = decode(record.value)
                found.ids.append(prediction.id)
                found.stamps.append(record.timestamp)
                found = found._replace(seen=prediction.seen)
                known.add(prediction.id)
                news = time.monotonic()
    finally:
        await consumer.stop()
    return found


class Contender:
    """A program under test.

    Parameters
    ----------
    python : Path or None
        Of its environment; None for our worker.
    """

    def __init__(self, name: str, python: Path | None, broker: str, folder: Path) -> None:
        self.name, self.python, self.broker, self.folder = name, python, broker, folder
        self.source = self.target = ""

    def version(self) -> str:
        """Of its client library."""
        if self.python is None:
            return __version__
        package = PACKAGES[self.name].partition("[")[0]
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return command([str(self.python), "-c", code]).strip()

    def prepare(self, source: str, run: str) -> None:
        """Everything of its own for a run over a topic: consumer group, state, and the topic `target`."""
        self.source, self.target = source, f"{run}-{self.name}.predictions"
        self._group, self._state = f"{run}-{self.name}", self.folder / f"state-{run}-{self.name}"
        self._state.mkdir()
        if self.python is None:
            topics: dict[str, Any] = {"features": source, "labels": None, "predictions": self.target}
            self._stream, _ = stream_file(self.folder, self._group, 1, topics, champion=TREE)
        # Stamped by the broker: Quix gives a prediction the time of its record.
        asyncio.run(create(self.broker, [self.target], 1, {"message.timestamp.type": "LogAppendTime"}))

    def start(self) -> Child:
        """Its process, which goes on from what an earlier one left behind."""
        if self.python is None:
            return Worker(self._stream, self.broker, self.folder)
        arguments = (self._group, self.broker, self.source, self.target, str(self._state))
        return Loop(self.name, self.python, *arguments, folder=self.folder)

    def learned(self, process: Child, found: Read) -> int:
        """Labels that the model at the end has learned."""
        if isinstance(process, Worker):
            return int(process.metrics()["riparian_joined_instances_total"])  # since the stream began
        return found.seen or 0


def through_backlog(contender: Contender, topic: str, n: int, run: str) -> dict[str, Any]:
    """Records/s, CPU and memory over the n records of a topic."""
    contender.prepare(topic, run)
    with contender.start() as process, Sampler(process.pid, 0.05) as sampler:
        found = asyncio.run(read(contender.broker, contender.target, n, process.check))
        process.kill()
    if len(set(found.ids)) != n:
        raise MeasureError(f"{NAMES[contender.name]} answered {len(set(found.ids)):,} of {n:,} records")
    first, last = min(found.stamps) / 1000, max(found.stamps) / 1000
    after = max(1, sum(stamp / 1000 > first for stamp in found.stamps))
    cpu = sampler.cpu_between(first, last)
    return {
        "per_second": after / max(last - first, 1e-3),
        "cpu_us": None if cpu is None else 1e6 * cpu / after,
        "resident_mb": max(sample[2] for sample in sampler.samples) / 1e6,
    }


def at_a_rate(contender: Contender, rate: int, seconds: float, run: str) -> dict[str, Any]:
    """Milliseconds from record to prediction."""
    topic = f"{run}-{contender.name}"
    asyncio.run(create(contender.broker, [topic], 1))
    contender.prepare(topic, run)
    with contender.start() as process:
        if isinstance(process, Worker):
            process.wait_for_partitions(1)
        client = Client(contender.broker, topic, None, contender.target, labelled)
        found = asyncio.run(client.run(rate, seconds))
        process.kill()
    return found


async def _feed(broker: str, topic: str, first: int, n: int, rate: int, at: Callable[[int], None]) -> None:
    """Records `first` to `first + n`, each when it is due; `at` is told how many are sent."""
    made = instances(first, n)
    records = labelled(made)
    async with producing(broker) as producer:
        begun, sent = time.perf_counter(), 0
        while sent < n:
            due = min(n, int(rate * (time.perf_counter() - begun)) + 1)
            for i in range(sent, due):
                await producer.send(topic, records[i], key=made.keys[i], partition=0)
            sent = due
            at(sent)
            await asyncio.sleep(0.005)


def through_a_kill(contender: Contender, rate: int, seconds: float, run: str) -> dict[str, Any]:
    """What kill -9 in the middle of a steady stream costs: the program is started again at once.

    lost : records without a prediction; twice : predictions of records that had one; forgotten : labels that the model
    at the end has not learned; learned_twice : how often it has learned a label again, at least; silent_seconds :
    from the kill to the next prediction.
    """
    n, topic = int(rate * seconds), f"{run}-{contender.name}"
    asyncio.run(create(contender.broker, [topic], 1))
    contender.prepare(topic, run)
    running = [contender.start()]
    killed: list[float] = []

    def at(sent: int) -> None:
        if not killed and sent >= n // 2:
            running[-1].kill()
            killed.append(time.time())
            running.append(contender.start())

    try:
        # It is at work before the clock begins.
        asyncio.run(_feed(contender.broker, topic, 0, WARM_RECORDS, rate, lambda _: None))
        asyncio.run(read(contender.broker, contender.target, WARM_RECORDS, running[-1].check))
        asyncio.run(_feed(contender.broker, topic, WARM_RECORDS, n, rate, at))
        n += WARM_RECORDS
        found = asyncio.run(read(contender.broker, contender.target, n, running[-1].check))
        if isinstance(running[-1], Worker):
            running[-1].wait_for_instances(n, PATIENCE_SECONDS)
        counts = Counter(found.ids)
        learned = contender.learned(running[-1], found)
    finally:
        for process in running:
            process.__exit__(None, None, None)
    back = [stamp / 1000 - killed[0] for stamp in found.stamps if stamp / 1000 > killed[0]]
    return {
        "n": n,
        "lost": n - len(counts),
        "twice": sum(counts.values()) - len(counts),
        "forgotten": max(0, n - learned),
        "learned_twice": max(0, learned - n),
        "silent_seconds": min(back, default=None),
    }


def contenders(names: list[str], folder: Path, broker: str, temporary: Path) -> Iterator[Contender]:
    for name in names:
        if name == OURS:
            yield Contender(name, None, broker, temporary)
            continue
        try:
            yield Contender(name, find(name, folder), broker, temporary)
        except PeerError as error:
            click.echo(f"{NAMES[name]} is left out: {error}", err=True)


def show(result: dict[str, Any], console: Console) -> None:
    """Both tables: medians, and every kill."""
    columns = ("records/s", "worker's ÷ its", "CPU µs each", "MB", "p50 ms", "p99 ms")
    table = Table("", *columns, title="One worker beside its peers")
    kills = Table(
        "", "records", "lost", "twice", "forgotten", "learned twice", "silent s", title="kill -9, and started again"
    )
    for name, parts in result["results"].items():
        title = f"{NAMES[name]} {parts['version']}".strip()

        def median(part: str, field: str, digits: int, parts: dict[str, Any] = parts) -> str:
            values = [run[field] for run in parts[part] if run[field] is not None]
            return f"{statistics.median(values):,.{digits}f}" if values else "-"

        over = parts.get("worker_over")
        ratio = f"{over['median']:.1f} ({over['min']:.1f} to {over['max']:.1f})" if over else "-"
        figures = [median("backlog", "cpu_us", 1), median("backlog", "resident_mb", 0)]
        latency = [median("latency", field, 1) for field in ("p50", "p99")]
        table.add_row(title, median("backlog", "per_second", 0), ratio, *figures, *latency)
        for run in parts["kill"]:
            cells = [f"{run[field]:,}" for field in ("n", "lost", "twice", "forgotten", "learned_twice")]
            silent = run["silent_seconds"]
            kills.add_row(title, *cells, "-" if silent is None else f"{silent:.1f}")
    console.print(table)
    console.print(kills)


def measure(options: dict[str, Any], broker: str, folder: Path, say: Say) -> dict[str, Any]:
    """Every contender in every round, one after the other; a peer that fails is named, and left out from then on."""
    found = list(contenders(options["peers"], options["folder"], broker, folder))
    sizes = {"few": options["records"], "many": options["worker_records"]}
    for topic, n in sizes.items():
        asyncio.run(create(broker, [topic], 1))
        asyncio.run(publish(broker, topic, n, say(f"publishing {n:,} records", n)))
    results: dict[str, Any] = {
        contender.name: {"version": contender.version(), "backlog": [], "latency": [], "kill": []}
        for contender in found
    }
    for number in range(options["rounds"]):
        for contender in list(found):
            parts, size = results[contender.name], "many" if contender.name == OURS else "few"
            steps: dict[str, Callable[[str], dict[str, Any]]] = {
                "backlog": partial(through_backlog, contender, size, sizes[size]),
                "latency": partial(at_a_rate, contender, options["rate"], options["seconds"]),
                "kill": partial(through_a_kill, contender, options["rate"], options["seconds"]),
            }
            if not options["kill"]:
                del steps["kill"]
            try:
                for part, step in steps.items():
                    done = say(f"round {number + 1} of {options['rounds']}: {NAMES[contender.name]}, {part}", None)
                    parts[part].append(step(f"{part}{number}"))
                    done(1)
            except MeasureError as error:
                if contender.name == OURS:
                    raise
                click.echo(f"{NAMES[contender.name]} is left out: {error}", err=True)
                found.remove(contender)
    if OURS in results:
        own = [part["per_second"] for part in results[OURS]["backlog"]]
        for parts in results.values():
            ratios = [ours / part["per_second"] for ours, part in zip(own, parts["backlog"], strict=False)]
            parts["worker_over"] = spread(ratios) if ratios else None
    return results


@click.command()
@click.option("--peers", default=",".join(NAMES), show_default=True, callback=names_of(NAMES))
@click.option("--rounds", default=3, show_default=True, help="Interleaved rounds; medians are shown.")
@click.option("--records", default=100_000, show_default=True, help="Backlog of the peers.")
@click.option("--worker-records", default=1_000_000, show_default=True, help="Backlog of the worker.")
@click.option("--rate", default=500, show_default=True, help="Records a second, for latency and kill -9.")
@click.option("--seconds", default=20.0, show_default=True, help="How long rates are kept up.")
@click.option("--kill/--no-kill", default=True, show_default=True, help="Whether each is killed, too.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
@click.option("--folder", type=click.Path(path_type=Path), default=FOLDER, help="Where the peers are kept.")
def main(**options: Any) -> None:
    """One worker beside what people write around River today, on a real Kafka."""
    result: dict[str, Any] = {"machine": machine(), "settings": {k: v for k, v in options.items() if k != "folder"}}
    with tempfile.TemporaryDirectory(prefix="riparian-peers-") as name, ended_by_signals():
        temporary = Path(name)
        with kafka(options["broker"], temporary) as (broker, _), progress(Console(stderr=True)) as say:
            try:
                result["results"] = measure(options, broker, temporary, say)
            except MeasureError as error:
                raise click.ClickException(str(error)) from None
    show(result, Console(width=max(Console().width, 120)))
    write("kafka_peers", result)


if __name__ == "__main__":
    main()
