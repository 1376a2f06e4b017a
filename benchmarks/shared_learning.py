"""How good one model of all partitions is beside that of one partition, on a real Kafka: in a backlog, and live.

    python -m benchmarks.shared_learning [--sets elec,…] [--models hoeffding-tree,…] [--partitions 1,4,8]
        [--late 64,200] [--rate 500] [--workers 1] [--own] [--over 1] [--in-memory]

The records of a data set are sent in file order, each to a partition that is drawn for it; a label is stamped, and
sent, as many records after its features. In a backlog all are there before the first worker starts. With `--rate` they
come so many a second. Accuracy in percent of all predictions, by seed; one before the first label is wrong. *late* is
the last record whose prediction was null, in multiples of the labels' delay. Instances a second are those between the
first prediction and the last.

In memory, a backlog goes through the steps of a worker with all partitions, or of several, from JSON to JSON, without
Kafka: then a second is one of processor time, of all workers, which a busy machine makes no longer, and kernels are
loaded before. `--models auto:1` tries one seed.
"""

import asyncio
import json
import math
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
from riparian.app.partition.shared.sharing import records, together
from riparian.app.stream_file.spec import Spec, build, load
from riparian.app.worker.shared.joint_step import step_together
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch
from riparian.topics.slices import Slices
from riparian.topics.training_log import write as write_record

ROOT = Path(__file__).resolve().parents[1]
MODELS = "hoeffding-tree,adaptive-random-forest,auto"
PATIENCE_SECONDS = 900.0
TAKEN = 16_384  # records of each topic at once, in memory
WARM = 4096  # records by which kernels are loaded before anything is measured, in memory

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


class Partitions:
    """Those of one worker, without Kafka.

    Attributes
    ----------
    joined : list of bytes
        What the last turn has joined, for the log.
    """

    def __init__(self, spec: Spec, partitions: Sequence[int]) -> None:
        self._replica, self._n_read, self.joined = Replica(spec), 0, list[bytes]()
        kind = FollowedLearning if spec.shares else None
        self.learners = [PartitionLearner(spec, p, *([kind] if kind else [])) for p in partitions]
        for learner in self.learners if kind else ():
            learner.learning.wait_for(self._replica)
            learner.learning.join()
            self._replica.hold_back(learner.learning, None)
        for learner in self.learners:
            learner.warm_up()
        self.groups = [PartitionGroup(learner.buffers(), limit=TAKEN) for learner in self.learners]

    @property
    def n_waiting(self) -> int:
        """Records that can be taken."""
        return sum(group.n_waiting for group in self.groups)

    def take(self, log: list[bytes]) -> list[bytes]:
        """Take all that is there, as the only worker does; what is sent. log : gets what was joined."""
        releases = [group.release(EVERYTHING) for group in self.groups]
        if self.learners[0].spec.shares:
            with self._replica.lock:
                outcomes, joined, _ = step_together(self.learners, releases, self._replica, len(log), 0)
            log += joined
        else:
            outcomes = [learner.step(one) for learner, one in zip(self.learners, releases, strict=True)]
        return [value for both in zip(self.learners, outcomes, strict=True) for value in both[0].encode(both[1])]

    def turn(self, log: list[bytes]) -> Sequence[bytes]:
        """Learn the log, and take one turn of the partition with the earliest features, as one worker of several does;
        what is sent."""
        n, new = self._n_read, log[self._n_read :]
        self._n_read = len(log)
        if new:
            self._replica.add(RawBatch(list(range(n, n + len(new))), [0] * len(new), [None] * len(new), new))
            self._replica.advance()
        waiting = [both for both in zip(self.learners, self.groups, strict=True) if both[1].n_waiting]
        learner, group = min(waiting, key=lambda both: _next_time(both[1]))
        learner.learning.backlog = len(group.buffers[FEATURES])
        group.limit, group.copies = learner.learning.most_at_once, learner.learning.copies
        outcome = learner.step(group.release(EVERYTHING))
        made = [records(one, learner.partition, learner.places, 0) for one in together(outcome.joint)]
        self.joined = [write_record(one) for found in made for one in found]
        return learner.encode(outcome)


def _next_time(group: PartitionGroup) -> float:
    """Of the next features; where there are only labels, after all others."""
    features = group.buffers[FEATURES]
    return features.first_time if len(features) else math.inf


def measure_in_memory(
    table: Table, made: Records, fields: dict[str, Any], seed: int, late: int, workers: int
) -> Measured:
    """A backlog of these fields, as one worker takes it; or several, which take turns at the same time: each when it
    has learned what all had joined before."""
    spec, n = build({**fields_of(table), **fields, "name": "s", "seed": seed}), len(made[0])
    workers = min(workers, spec.partitions)
    begun = [Partitions(spec, range(i, spec.partitions, workers)) for i in range(workers)]
    groups = {p: one.groups[j] for i, one in enumerate(begun) for j, p in enumerate(range(i, spec.partitions, workers))}
    where = np.random.default_rng(seed).integers(0, spec.partitions, n)
    right, last, seconds, log = 0, -1, 0.0, list[bytes]()
    for start in range(0, n + late, TAKEN):
        for p, group in groups.items():
            for role, column, lag in ((FEATURES, made[0], 0), (LABELS, made[1], late)):
                rows = np.arange(max(0, start - lag), max(0, min(start + TAKEN - lag, n)))
                rows = rows[where[rows] == p]
                first = int(np.count_nonzero(where[: rows[0]] == p)) if len(rows) else 0
                makes = (lambda i: b"%d" % i, column.__getitem__)
                keys, values = (Slices.of([make(i) for i in rows.tolist()]) for make in makes)
                offsets = np.arange(first, first + len(rows))
                group.buffers[role].add(RawBatch(offsets, 1000 + lag + rows, keys, values))
        began = time.thread_time()
        sent = begun[0].take(log) if workers == 1 else []
        while acting := [one for one in begun if one.n_waiting]:
            sent += [value for one in acting for value in one.turn(log)]
            log += [value for one in acting for value in one.joined]
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


def shown(figures: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The table of the documentation: of each stream and delay, all numbers of partitions in a row."""
    counts = sorted({one["partitions"] for one in figures if one["partitions"] > 1})
    heads = ["data set", "learner", "labels late", "one partition", *(f"{n} partitions" for n in counts), "most lost"]
    alike: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for one in figures:
        if one["partitions"] == 1 or one["learning"] != "partition":
            alike.setdefault((one["set"], one["model"], one["delay"]), []).append(one)
    rows = []
    for (name, model, delay), ones in alike.items():
        by_n = {one["partitions"]: one for one in ones}
        most = max((one["loss"] or 0.0 for one in ones), default=0.0)
        pace = [f"{np.median(by_n[n]['rate']) / np.median(by_n[1]['rate']):.2f}" for n in counts if n in by_n]
        cells = [f"{min(by_n[n]['accuracy']):.2f}" if n in by_n else "" for n in (1, *counts)]
        rows.append([name, f"`{model}`", f"{delay:,}", *cells, f"{most:.2f}", ", ".join(pace)])
    return {"heads": [*heads, f"a second, of one: {', '.join(map(str, counts))}"], "rows": rows}


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
@click.option("--over", default=1, help="Times that a data set comes over again.")
@click.option("--in-memory", is_flag=True, help="Without Kafka: a backlog.")
@click.option("--broker", metavar="HOST:PORT", help="Use this broker instead of one of its own.")
def main(
    data: Path, sets: str, models: str, partitions: str, late: str, seeds: int, rate: int, workers: int, own: bool,
    max_behind: int | None, over: int, in_memory: bool, broker: str | None,
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
    options |= {"over": over} if over > 1 else {}
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
                    table = table._replace(x=np.tile(table.x, (over, 1)), y=np.tile(table.y, over))
                    made = texts(table)
                    for delay in _numbers(late):
                        alone: list[Measured] = []
                        for n, learning in ways:
                            fields = {"partitions": n, "learning": learning, "champion": model}
                            if in_memory:
                                few = table._replace(x=table.x[:WARM], y=table.y[:WARM])
                                measure_in_memory(few, (made[0][:WARM], made[1][:WARM]), fields, 0, delay, 1)
                            found = [
                                measure_in_memory(table, made, fields, seed, delay, workers)
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
                            found_so_far = {**options, "tables": [shown(figures)], "streams": figures}
                            write("shared_learning" + "-workers" * (workers > 1), found_so_far)
    except MeasureError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
