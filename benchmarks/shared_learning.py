"""How good one model of all partitions is beside that of one partition, on a real Kafka: in a backlog, and live.

    python -m benchmarks.shared_learning [--sets elec,…] [--models hoeffding-tree,…] [--partitions 1,4,8]
        [--late 64,200] [--rate 500] [--workers 1] [--own] [--in-memory]

The records of a data set are sent in file order, each to a partition that is drawn for it; a label is stamped, and
sent, as many records after its features. In a backlog all are there before the first worker starts. With `--rate` they
come so many a second. Accuracy in percent of all predictions, by seed; one before the first label is wrong. *late* is
the last record whose prediction was null, in multiples of the labels' delay. Instances a second are those between the
first prediction and the last.

In memory, a backlog goes through the steps of a worker with all partitions, from JSON to JSON, without Kafka: then a
second is one of processor time, which a busy machine makes no longer. `--models auto:1` tries one seed.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from aiokafka.structs import TopicPartition

from benchmarks import workload
from benchmarks.end_to_end import kafka
from benchmarks.processes import MeasureError, Worker, ended_by_signals
from benchmarks.record import write
from benchmarks.tables import NOMINAL, Table, read
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.reading import read_to_end
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.partition.shared.replica import FollowedLearning, Replica
from riparian.app.stream_file.spec import Spec, build, load
from riparian.app.worker.shared.joint_step import step_together
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch

ROOT = Path(__file__).resolve().parents[1]
MODELS = "hoeffding-tree,adaptive-random-forest,auto"
PATIENCE_SECONDS = 900.0
TAKEN = 16_384  # records of each topic at once, in memory

Records = tuple[list[bytes], list[bytes]]  # features and labels


class Measured(NamedTuple):
    """accuracy : percent. late : the last record without a prediction, in delays of the labels. rate : 1/s"""

    accuracy: float
    late: float
    rate: float


def texts(table: Table) -> Records:
    """The feature and label records of a data set."""
    features, labels = [], []
    for i, (x, y) in enumerate(zip(table.x.tolist(), table.y.tolist(), strict=True)):
        row = {
            f"f{j}": f"v{int(value)}" if n_values else value
            for j, (value, n_values) in enumerate(zip(x, table.schema.n_values, strict=True))
            if value == value
        }
        features.append(json.dumps({"id": i, "x": row}).encode())
        labels.append(json.dumps({"id": i, "y": f"k{int(y)}"}).encode())
    return features, labels


def fields_of(table: Table) -> dict[str, Any]:
    """Of a stream file for its records."""
    kinds = [{"type": "nominal", "max_values": max(2, k)} if k else "numeric" for k in table.schema.n_values]
    features = {f"f{j}": kind for j, kind in enumerate(kinds)}
    return {"name": "s", "task": "classification", "features": features}


async def _send(
    broker: str, spec: Spec, made: tuple[list[bytes], list[bytes]], seed: int, late: int, rate: int
) -> None:
    """Instance i, and the label that is due with it. rate : 0 for a backlog."""
    n, began = len(made[0]), time.time()
    where = np.random.default_rng(seed).integers(0, spec.partitions, n).tolist()
    topics = spec.topics.features, str(spec.topics.labels)
    async with workload.producing(broker, linger_ms=0 if rate else 20, max_batch_size=1 << 18) as producer:
        first, futures = int(1000 * began) - (0 if rate else n + late), list[Any]()
        for i in range(n + late):
            if rate and (ahead := i / rate - (time.time() - began)) > 0:
                await asyncio.sleep(ahead)
            for topic, column, at in zip(topics, made, (i, i - late), strict=True):
                if 0 <= at < n:
                    stamp = None if rate else first + i
                    key = str(at).encode()
                    sent = producer.send(topic, column[at], key, partition=where[at], timestamp_ms=stamp)
                    futures.append(await sent)
        await asyncio.gather(*futures)


def measured(spec: Spec, broker: str, table: Table, late: int) -> Measured:
    """What the predictions of a stream were."""
    right, last, stamps = 0, -1, list[int]()

    def take(_: TopicPartition, records: list[Any]) -> None:
        nonlocal right, last
        for record in records:
            i, named = _named(record.value)
            stamps.append(record.timestamp)
            right += named == f"k{int(table.y[i])}"
            last = max(last, -1 if named else i)

    tps = {TopicPartition(spec.topics.predictions, p): 0 for p in range(spec.partitions)}
    asyncio.run(read_to_end(Connection(broker), tps, take))
    if len(stamps) != len(table.y):
        raise MeasureError(f"{len(stamps):,} predictions of {len(table.y):,} instances")
    seconds = max(1, max(stamps) - min(stamps)) / 1000
    return Measured(100.0 * right / len(table.y), (last + 1) / late, len(stamps) / seconds)


def run(
    broker: str, folder: Path, table: Table, made: Records, fields: dict[str, Any],
    seed: int, late: int, rate: int, workers: int,
) -> Measured:  # fmt: skip
    """One stream of these fields, from its first record to its last label."""
    name = f"s{time.monotonic_ns()}"
    content = {**fields_of(table), **fields, "name": name, "seed": seed}
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(content))
    spec = load(path)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    if not rate:
        asyncio.run(_send(broker, spec, made, seed, late, 0))
    with ExitStack() as stack:
        begun = [stack.enter_context(Worker(path, broker, folder)) for _ in range(min(workers, spec.partitions))]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while sum(len(one.partitions()) for one in begun) < spec.partitions:
            begun[0].wait(lambda: True, 1.0, "")
            time.sleep(0.2)
        if rate:
            asyncio.run(_send(broker, spec, made, seed, late, rate))
        while sum(part["labels"] for one in begun for part in one.partitions().values()) < len(table.y):
            for one in begun:
                one.check()
            if time.monotonic() > deadline:
                raise MeasureError("the data set is not learned")
            time.sleep(0.2)
        for one in begun:
            one.stop()
    found = measured(spec, broker, table, late)
    asyncio.run(workload.delete(broker, name))
    return found


def measure_in_memory(table: Table, made: Records, fields: dict[str, Any], seed: int, late: int) -> Measured:
    """A backlog of these fields, as one worker takes it."""
    spec, n = build({**fields_of(table), **fields, "name": "s", "seed": seed}), len(made[0])
    replica = Replica(spec)
    kind = FollowedLearning if spec.shares else None
    learners = [PartitionLearner(spec, p, *([kind] if kind else [])) for p in range(spec.partitions)]
    for learner in learners if kind else ():
        learner.learning.wait_for(replica)
        learner.learning.join()
    learners[0].warm_up()
    groups = [PartitionGroup(learner.buffers(), limit=TAKEN) for learner in learners]
    where = np.random.default_rng(seed).integers(0, spec.partitions, n)
    right, last, seconds, n_logged = 0, -1, 0.0, 0
    for start in range(0, n + late, TAKEN):
        for p, group in enumerate(groups):
            for role, column, lag in ((FEATURES, made[0], 0), (LABELS, made[1], late)):
                rows = np.arange(max(0, start - lag), max(0, min(start + TAKEN - lag, n)))
                rows = rows[where[rows] == p]
                first = int(np.count_nonzero(where[: rows[0]] == p)) if len(rows) else 0
                keys, values = ([make(i) for i in rows.tolist()] for make in (lambda i: b"%d" % i, column.__getitem__))
                offsets = list(range(first, first + len(rows)))
                group.buffers[role].add(RawBatch(offsets, (1000 + lag + rows).tolist(), keys, values))
        began = time.thread_time()
        releases = [group.release(EVERYTHING) for group in groups]
        if kind:
            with replica.lock:
                outcomes, log = step_together(learners, releases, replica, n_logged, 0)
            n_logged += len(log)
        else:
            outcomes = [learner.step(one) for learner, one in zip(learners, releases, strict=True)]
        sent = [value for both in zip(learners, outcomes, strict=True) for value in both[0].encode(both[1])]
        seconds += time.thread_time() - began
        for value in sent:
            i, named = _named(value)
            right += named == f"k{int(table.y[i])}"
            last = max(last, -1 if named else i)
    return Measured(100.0 * right / n, (last + 1) / late, n / seconds)


def _named(value: bytes) -> tuple[int, str | None]:
    """The number of a prediction's instance, and its class; None where it is null."""
    one = json.loads(value)
    p = one["p"]
    return int(one["id"]), max(p, key=p.get) if p and max(p.values()) > 0.0 else None


def _numbers(text: str) -> list[int]:
    return list(map(int, text.split(",")))


@click.command()
@click.option("--data", type=Path, default=ROOT.parent / "shared" / "data", show_default=True)
@click.option("--sets", default=",".join(NOMINAL), show_default=True)
@click.option("--models", default=MODELS, show_default=True)
@click.option("--partitions", default="1,4,8", show_default=True)
@click.option("--late", default="64,200", show_default=True, help="Records by which labels come later.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--rate", default=0, help="Instances a second.  [default: a backlog]")
@click.option("--workers", default=1, show_default=True)
@click.option("--own", is_flag=True, help="Models of its own in each partition, too.")
@click.option("--max-behind", type=int, help="The bound.  [default: that of a stream file]")
@click.option("--in-memory", is_flag=True, help="Without Kafka: a backlog in one worker.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(
    data: Path, sets: str, models: str, partitions: str, late: str, seeds: int, rate: int, workers: int, own: bool,
    max_behind: int | None, in_memory: bool, broker: str | None,
) -> None:  # fmt: skip
    """Accuracy and pace of one model of all partitions, beside one partition."""
    shared: Any = "shared" if max_behind is None else {"max_behind": max_behind}
    ways: Sequence[tuple[int, Any]] = [
        (n, learning)
        for n in _numbers(partitions)
        for learning in (["partition"] if n == 1 else [*(["partition"] if own else []), shared])
    ]
    figures = list[dict[str, Any]]()
    options = {"in_memory": in_memory, "rate": rate, "workers": workers, "max_behind": max_behind, "seeds": seeds}
    print("| data set | learner | late | partitions | learning | accuracy, by seed | worst loss | null until | 1/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    try:
        with (
            ended_by_signals(),
            tempfile.TemporaryDirectory(prefix="riparian-bench-") as name,
            kafka("" if in_memory else broker, Path(name)) as (address, _),
        ):
            for model, _, tried in (text.partition(":") for text in models.split(",")):
                for one in sets.split(","):
                    table = read(data / f"{one}.csv.gz", NOMINAL[one])
                    made = texts(table)
                    for delay in _numbers(late):
                        alone: list[Measured] = []
                        for n, learning in ways:
                            fields = {"partitions": n, "learning": learning, "champion": model}
                            found = [
                                measure_in_memory(table, made, fields, seed, delay)
                                if in_memory
                                else run(address, Path(name), table, made, fields, seed, delay, rate, workers)
                                for seed in range(int(tried or seeds))
                            ]
                            alone = alone or (found if n == 1 else [])
                            losses = [a.accuracy - b.accuracy for a, b in zip(alone, found, strict=False)]
                            figures.append(
                                {"set": one, "model": model, "delay": delay, "partitions": n, "learning": learning}
                                | {"loss": max(losses, default=None)}
                                | {what: [getattr(f, what) for f in found] for what in Measured._fields}
                            )
                            cells = [one, model, delay, n, "shared" if learning == shared else learning]
                            cells += [" ".join(f"{f.accuracy:.2f}" for f in found)]
                            cells += [f"{max(losses):.2f}" if losses else "", f"{max(f.late for f in found):.2f}"]
                            cells += [f"{np.median([f.rate for f in found]):,.0f}"]
                            print("|", " | ".join(map(str, cells)), "|", flush=True)
                            write("shared_learning", {**options, "streams": figures})
    except MeasureError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
