"""One worker over the same instances as JSON records and as Arrow batches, on real Kafka, in interleaved rounds.

    python -m benchmarks.batches [--instances 300000] [--rounds 3] [--rows 5000] [--broker HOST:PORT]

Labelled instances a second and the worker's processor time for each, from the stamp of its first prediction record to
that of its last: as `benchmarks.throughput`, by which the JSON records are made, too. The last column is the rate over
that of JSON, the median of the rounds. `arrow` has features and labels in batches, and predictions as JSON records;
`arrow both ways` has these in batches, too.
"""

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from aiokafka.structs import TopicPartition

from app.kafka.broker import LocalBroker
from app.kafka.connection import Connection
from app.kafka.reading import read_to_end
from benchmarks.processes import MeasureError, Sampler, Worker
from benchmarks.throughput import PATIENCE_SECONDS, SLOWEST
from benchmarks.workload import LABEL_DELAY_MS, STEP_MS, create, instances, past, producing, stream_file
from topics.formats.arrow_columns import written

JSON, ARROW, BOTH = "json", "arrow", "arrow both ways"
CODECS: dict[str, Any] = {JSON: "json", ARROW: {"features": "arrow", "labels": "arrow"}, BOTH: "arrow"}
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def batch(values: list[bytes]) -> bytes:
    """JSON records as one Arrow batch of flat columns."""
    rows = [(one := _decode(value)) | one.pop("x", {}) for value in values]
    return written(pa.RecordBatch.from_pylist(rows))


async def publish(broker: str, n: int, n_rows: int) -> None:
    """The same instances to both pairs of topics. A batch has the time of its last instance, and so do its records."""
    for form in (JSON, ARROW):
        await create(broker, [f"batches.{form}.f", f"batches.{form}.l"], 1)
    start = past(n)
    async with producing(broker, max_batch_size=900_000, max_request_size=4_000_000) as producer:
        for first in range(0, n, n_rows):
            size = min(n_rows, n - first)
            made, stamp = instances(first, size), start + (first + size - 1) * STEP_MS
            for topic, values, at in (("f", made.features, stamp), ("l", made.labels, stamp + LABEL_DELAY_MS)):
                await producer.send(f"batches.{ARROW}.{topic}", batch(values), timestamp_ms=at, partition=0)
                for key, value in zip(made.keys, values, strict=True):
                    await producer.send(f"batches.{JSON}.{topic}", value, key, timestamp_ms=at, partition=0)
        await producer.flush()


def measure(broker: str, folder: Path, kind: str, name: str, n: int) -> dict[str, float]:
    form = JSON if kind == JSON else ARROW
    inputs = {"features": f"batches.{form}.f", "labels": f"batches.{form}.l"}
    record = {"record": {"x": ""}} if form == ARROW else {}
    path, spec = stream_file(folder, name, 1, inputs, codec=CODECS[kind], **record)
    with Worker(path, broker, folder) as worker, Sampler(worker.pid) as sampler:
        worker.wait_for_labels(n, PATIENCE_SECONDS + n / SLOWEST)
        worker.stop()
    codec, found = spec.make_codec(), list[tuple[float, int]]()

    def take(_: TopicPartition, records: list[Any]) -> None:
        found.extend((one.timestamp / 1000, len(codec.split_predictions(one.value))) for one in records)

    asyncio.run(read_to_end(Connection(broker), {TopicPartition(spec.topics.predictions, 0): 0}, take))
    if sum(k for _, k in found) != n:
        raise MeasureError(f"{sum(k for _, k in found):,} predictions of {n:,} instances")
    first, last = found[0][0], found[-1][0]
    done = sum(k for stamp, k in found if stamp > first)
    cpu = sampler.cpu_between(first, last)
    return {"per_second": done / (last - first), "cpu_us": 1e6 * (cpu or 0.0) / done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--broker")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if options.broker is not None:
            return report(options.broker, folder, options)
        with LocalBroker(folder / "broker") as local:
            return report(local.bootstrap, folder, options)


def report(broker: str, folder: Path, options: argparse.Namespace) -> None:
    n = options.instances
    asyncio.run(publish(broker, n, options.rows))
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in CODECS}
    for turn in range(options.rounds):
        for k, kind in enumerate(CODECS):
            runs[kind].append(measure(broker, folder, kind, f"batches-{k}-{turn}", n))
    print(f"{n:,} labelled instances, {options.rows:,} rows a batch, {options.rounds} rounds")
    for kind, done in runs.items():
        ratio = statistics.median(one["per_second"] / j["per_second"] for one, j in zip(done, runs[JSON], strict=True))
        rate, cpu = (statistics.median(one[name] for one in done) for name in ("per_second", "cpu_us"))
        print(f"{kind:16s} {rate:9,.0f} labelled instances/s {cpu:6.1f} µs of CPU each   {ratio:4.2f} of JSON")


if __name__ == "__main__":
    main()
