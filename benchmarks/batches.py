"""One worker over the same instances as JSON records and as Arrow batches, on real Kafka, in interleaved rounds.

    python -m benchmarks.batches [--instances 1000000] [--rounds 3] [--rows 500,5000] [--broker HOST:PORT] [--stages]

Labelled instances a second and the worker's processor time for each, from the stamp of its first prediction record to
that of its last: as `benchmarks.throughput`. Beside each, what a bare aiokafka loop takes to read the same topics and
drop them. Predictions are of the format of the records. An instance has an id, ten float64 and one of two classes; the
label comes a second later in a topic of its own, or `inside` the feature record. Ratios are to JSON with its labels in
the same place, medians of the rounds. With --stages the budget of benchmarks/budget.py for each, too.
"""

import argparse
import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from aiokafka.structs import TopicPartition

from benchmarks.budget import STAGES
from benchmarks.processes import Child, MeasureError, Sampler, Worker
from benchmarks.record import printed
from benchmarks.throughput import PATIENCE_SECONDS, SLOWEST
from benchmarks.workload import (
    CLASSES,
    LABEL_DELAY_MS,
    NAMES,
    STEP_MS,
    create,
    delete,
    instances,
    past,
    producing,
    rows,
    stream_file,
)
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.kafka.reading import read_to_end
from riparian.app.stream_file.spec import Spec
from riparian.topics.formats.arrow.columns import written

JSON, ARROW = "json", "arrow"
TEXTS, NUMBERS = "text ids", "int64 ids"
JSON_RECORDS = 500  # in a produce batch


class Kind(NamedTuple):
    """form : JSON or ARROW. inside : whether the label is. n_rows : of a record. ids : TEXTS or NUMBERS."""

    form: str
    inside: bool
    n_rows: int = 1
    ids: str = TEXTS

    @property
    def name(self) -> str:
        said = f"arrow, {self.n_rows:,} rows, {self.ids}" if self.form == ARROW else JSON
        return f"{said}, label inside" if self.inside else said

    @property
    def topics(self) -> dict[str, str]:
        prefix = f"batches.{self.form}-{self.n_rows}-{self.ids[:3]}-{int(self.inside)}"
        return {"features": f"{prefix}.f"} | ({} if self.inside else {"labels": f"{prefix}.l"})

    def stream(self, folder: Path, name: str) -> tuple[Path, Spec]:
        record: dict[str, Any] = {"x": ""} if self.form == ARROW else {}
        record |= {"y": "y"} if self.inside else {}
        topics = self.topics | ({"labels": None} if self.inside else {})
        return stream_file(folder, name, 1, topics, codec=self.form, record=record)


def kinds(n_rows: Sequence[int]) -> list[Kind]:
    return [
        kind
        for inside in (False, True)
        for kind in (
            Kind(JSON, inside),
            *(Kind(ARROW, inside, n, ids) for n in n_rows for ids in ((TEXTS, NUMBERS) if not inside else (TEXTS,))),
        )
    ]


async def publish(broker: str, kind: Kind, n: int, start: int) -> None:
    """n instances. An Arrow record has the time of its last one."""
    await create(broker, list(kind.topics.values()), 1)
    async with producing(broker, max_batch_size=900_000, max_request_size=4_000_000) as producer:
        for first in range(0, n, kind.n_rows if kind.form == ARROW else JSON_RECORDS):
            if kind.form == ARROW:
                size = min(kind.n_rows, n - first)
                x, y = rows(first, size)
                ids = np.arange(first, first + size)
                each: dict[str, Any] = {"id": ids if kind.ids == NUMBERS else [f"{i:08d}" for i in ids]}
                classes = {"y": [CLASSES[int(one)] for one in y]}
                features = each | {name: x[:, j] for j, name in enumerate(NAMES)} | (classes if kind.inside else {})
                stamp = start + (first + size - 1) * STEP_MS
                for topic, columns, late in zip(
                    kind.topics.values(), (features, each | classes), (0, LABEL_DELAY_MS), strict=False
                ):
                    value = written(pa.record_batch(columns))
                    await producer.send(topic, value, timestamp_ms=stamp + late, partition=0)
                continue
            made = instances(first, min(JSON_RECORDS, n - first))
            values = made.features
            if kind.inside:
                values = [a[:-1] + b"," + b.partition(b",")[2] for a, b in zip(values, made.labels, strict=True)]
            for topic, column, late in zip(
                kind.topics.values(), (values, made.labels), (0, LABEL_DELAY_MS), strict=False
            ):
                batch = producer.create_batch()
                for i, (key, value) in enumerate(zip(made.keys, column, strict=True)):
                    batch.append(key=key, value=value, timestamp=start + (first + i) * STEP_MS + late)
                await producer.send_batch(batch, topic, partition=0)
        await producer.flush()


def measure(broker: str, folder: Path, kind: Kind, name: str, n: int) -> dict[str, float]:
    path, spec = kind.stream(folder, name)
    with Worker(path, broker, folder) as worker, Sampler(worker.pid) as sampler:
        wait = worker.wait_for_instances if kind.inside else worker.wait_for_labels
        wait(n, PATIENCE_SECONDS + n / SLOWEST)
        worker.stop()
    codec, found = spec.make_codec(), list[tuple[float, int]]()

    def take(_: TopicPartition, records: list[Any]) -> None:
        found.extend((one.timestamp / 1000, count(codec, one.value)) for one in records)

    asyncio.run(read_to_end(Connection(broker), {TopicPartition(spec.topics.predictions, 0): 0}, take))
    if sum(k for _, k in found) != n:
        raise MeasureError(f"{sum(k for _, k in found):,} predictions of {n:,} instances")
    first, last = found[0][0], found[-1][0]
    done = sum(k for stamp, k in found if stamp > first)
    cpu = sampler.cpu_between(first, last)
    asyncio.run(delete(broker, spec.topics.predictions))
    return {"per_second": done / max(last - first, 1e-3), "cpu_us": 1e6 * (cpu or 0.0) / max(done, 1)}


def count(codec: Any, value: bytes) -> int:
    """How many predictions a record has."""
    if codec.join_predictions is None:
        return 1
    with pa.ipc.open_stream(value) as stream:
        return sum(batch.num_rows for batch in stream)


def bare(broker: str, folder: Path, kind: Kind, n: int) -> dict[str, float]:
    """A loop that reads the topics and drops what it reads."""
    features, *labels = kind.topics.values()
    messages = len(kind.topics) * -(-n // kind.n_rows)
    arguments = (broker, features, *(labels or [features]), str(messages))
    with Child("benchmarks.floors", "consume", *arguments, folder=folder) as child:
        result = child.result()
    done = n * result["n"] / messages
    return {"per_second": done / max(result["seconds"], 1e-6), "cpu_us": 1e6 * result["cpu_seconds"] / max(done, 1)}


def stages(broker: str, folder: Path, kind: Kind, name: str, n: int) -> dict[str, float]:
    path, spec = kind.stream(folder, name)
    asyncio.run(create(broker, [spec.topics.predictions], 1))
    with Child("benchmarks.budget", broker, str(path), str(n), folder=folder) as child:
        found: dict[str, float] = child.result()["us"]
    asyncio.run(delete(broker, spec.topics.predictions))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default="500,5000")
    parser.add_argument("--only", default="", help="kinds whose name holds one of these, separated by semicolons")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if options.broker is not None:
            return report(options.broker, folder, options)
        with LocalBroker(folder / "broker") as local:
            return report(local.bootstrap, folder, options)


def report(broker: str, folder: Path, options: argparse.Namespace) -> None:
    n, only = options.instances, options.only.split(";")
    chosen = kinds([int(one) for one in options.rows.split(",")])
    chosen = [kind for kind in chosen if any(part in kind.name for part in only)]
    start = past(n)
    for kind in chosen:
        asyncio.run(publish(broker, kind, n, start))
    runs: dict[Kind, list[dict[str, float]]] = {kind: [] for kind in chosen}
    floors: dict[Kind, list[dict[str, float]]] = {kind: [] for kind in chosen}
    for turn in range(options.rounds):
        for k, kind in enumerate(chosen):
            floors[kind].append(bare(broker, folder, kind, n))
            runs[kind].append(measure(broker, folder, kind, f"batches-{k}-{turn}", n))
    print(f"{n:,} labelled instances, {options.rounds} round(s)")
    print("| | labelled instances/s | of JSON | CPU µs each | of JSON | bare loop, CPU µs each |")
    print("|---|---|---|---|---|---|")
    for kind, done in runs.items():
        rate, cpu = (statistics.median(one[name] for one in done) for name in ("per_second", "cpu_us"))
        plain = runs.get(Kind(JSON, kind.inside), done)
        ratios = [
            statistics.median(one[name] / other[name] for one, other in zip(done, plain, strict=True))
            for name in ("per_second", "cpu_us")
        ]
        floor = statistics.median(one["cpu_us"] for one in floors[kind])
        print(f"| {kind.name} | {rate:,.0f} | {ratios[0]:.2f} | {cpu:.2f} | {ratios[1]:.2f} | {floor:.2f} |")
    if options.stages:
        parts = {kind: stages(broker, folder, kind, f"stages-{k}", n) for k, kind in enumerate(chosen)}
        print("\n| CPU µs an instance | " + " | ".join(kind.name for kind in chosen) + " |")
        print("|---|" + "---|" * len(chosen))
        for stage in STAGES:
            print(f"| {stage} | " + " | ".join(f"{us[stage]:.2f}" for us in parts.values()) + " |")
        print("| sum | " + " | ".join(f"{sum(us.values()):.2f}" for us in parts.values()) + " |")


if __name__ == "__main__":
    with printed("batches"):
        main()
