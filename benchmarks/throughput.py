"""Labelled instances per second of one worker through a backlog, between the floors, in interleaved rounds.

Every round runs the bare loop, the plain agent and the worker one after the other on the same topics, so that what
slows the machine down slows all of them; the ratios are taken within a round, and their median is what counts. The
records are in the topics before anything runs.

The worker's rate is that of its predictions: from the stamp of the first batch to that of the last, all of them read
back from the topic and counted, each source offset exactly once. A prediction is stamped when its step has predicted
and learned, so the steps between the two stamps did all of the work for the predictions after the first stamp. The
worker must also report that every instance has been learned.
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from benchmarks.processes import Child, MeasureError, Sampler, Worker
from benchmarks.workload import Backlog, create, delete, past, stream_file

PATIENCE_SECONDS = 120.0
SLOWEST = 2_000.0  # instances a second; slower than this is an error


class Sizes(NamedTuple):
    """How much is measured.

    instances : labelled instances of the worker and of the bare loop
    plain : of the plain agent
    rounds : pairs
    """

    instances: int
    plain: int
    rounds: int
    batch_records: int


class Written(NamedTuple):
    """What the predictions topic holds.

    n : predictions after the first stamp
    first, last : stamps in seconds
    """

    n: int
    first: float
    last: float


class _Offset(msgspec.Struct):
    offset: int


async def read_predictions(broker: str, topic: str, counts: list[int], first_offset: int = 0) -> Written:
    """The predictions of all partitions: one for each of `counts` source offsets from `first_offset` on."""
    partitions = len(counts)
    decode = msgspec.json.Decoder(_Offset).decode
    tps = [TopicPartition(topic, p) for p in range(partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=broker, enable_auto_commit=False, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        offsets: dict[int, list[int]] = {p: [] for p in range(partitions)}
        stamps: list[int] = []
        for tp in tps:
            while await consumer.position(tp) < ends[tp]:
                for found, records in (await consumer.getmany(timeout_ms=500)).items():
                    offsets[found.partition] += [decode(record.value).offset for record in records]
                    stamps += [record.timestamp for record in records]
    finally:
        await consumer.stop()
    for p, n in enumerate(counts):
        if offsets[p] != list(range(first_offset, first_offset + n)):
            raise MeasureError(
                f"{topic}[{p}] holds {len(offsets[p]):,} predictions, not one for each of {n:,} instances"
            )
    times = np.array(stamps)
    first, last = int(times.min()), int(times.max())
    return Written(int((times > first).sum()), first / 1000, last / 1000)


def rates(n: int, seconds: float, cpu_seconds: float | None) -> dict[str, float | None]:
    return {
        "per_second": n / seconds,
        "n": n,
        "seconds": seconds,
        "cpu_us": None if cpu_seconds is None else 1e6 * cpu_seconds / n,
    }


def measure_worker(
    broker: str, folder: Path, name: str, inputs: dict[str, str], partitions: int, n: int, **fields: Any
) -> Any:
    """One worker over the whole backlog, from its very first assignment to its end; `fields` of its stream file."""
    path, spec = stream_file(folder, name, partitions, inputs, **fields)
    with Worker(path, broker, folder) as worker, Sampler(worker.pid) as sampler:
        worker.wait_for_labels(n, PATIENCE_SECONDS + n / SLOWEST)
        metrics = worker.metrics()
        worker.stop()
    counts = [len(range(p, n, partitions)) for p in range(partitions)]
    written = asyncio.run(read_predictions(broker, spec.topics.predictions, counts))
    # Everything fits into one batch at tiny sizes, where no rate can be told.
    seconds = max(written.last - written.first, 1e-3)
    cpu, loop = (sampler.cpu_between(written.first, written.last, column) for column in (1, 3))
    steps = max(1.0, metrics["riparian_step_seconds_count"])
    return {
        **rates(max(1, written.n), seconds, cpu),
        "cores": None if cpu is None else cpu / seconds,
        "loop_cores": None if loop is None else loop / seconds,  # of the event loop
        "predictions": n,
        "learned": int(metrics["riparian_joined_instances_total"]),
        "forced_merges": int(metrics["riparian_forced_merges_total"]),
        "accuracy": metrics.get("riparian_accuracy_ratio{champion,overall}"),
        "records_per_step": metrics["riparian_batch_records_sum"] / steps,
        "step_us": 1e6 * metrics["riparian_step_seconds_sum"] / n,
        "decode_us": 1e6 * metrics["riparian_decode_seconds_total"] / n,
        "kernel_us": 1e6 * metrics["riparian_kernel_seconds_total"] / n,
        "resident_mb": max(sample[2] for sample in sampler.samples) / 1e6,
    }


def measure_bare(broker: str, folder: Path, inputs: dict[str, str], n: int) -> Any:
    with Child(
        "benchmarks.floors", "consume", broker, inputs["features"], inputs["labels"], str(2 * n), folder=folder
    ) as child:
        result = child.result()
    # At tiny sizes a single fetch may bring everything.
    return rates(max(1, result["n"]), max(result["seconds"], 1e-6), result["cpu_seconds"])


def measure_plain(broker: str, folder: Path, inputs: dict[str, str], target: str, partitions: int, n: int) -> Any:
    asyncio.run(create(broker, [target], partitions))
    arguments = (broker, inputs["features"], inputs["labels"], target, str(partitions), str(n))
    with Child(
        "benchmarks.plain_agent", *arguments, str(folder / f"plain-{time.monotonic_ns()}"), folder=folder
    ) as child:
        result = child.result()
    return {**rates(result["n"], result["seconds"], result["cpu_seconds"]), "learned": result["learned"]}


def spread(ratios: list[float]) -> dict[str, float]:
    return {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}


def measure(
    broker: str,
    folder: Path,
    partitions: int,
    sizes: Sizes,
    say: Callable[[str, int | None], Any],
    **fields: Any,
) -> dict[str, Any]:
    """All rounds with one number of partitions; `fields` of the worker's stream file.

    Parameters
    ----------
    say : callable
        Given what is going on and how many steps it has (None: one); returns a function that is told the steps done.
    """
    prefix = f"bench{partitions}"
    inputs = {"features": f"{prefix}.features", "labels": f"{prefix}.labels"}
    small = {"features": f"{prefix}-plain.features", "labels": f"{prefix}-plain.labels"}
    asyncio.run(create(broker, [*inputs.values(), *small.values()], partitions))
    n_bytes = 0
    for topics, n in ((inputs, sizes.instances), (small, sizes.plain)):
        backlog = Backlog(broker, topics["features"], topics["labels"], partitions, past(n), sizes.batch_records)
        asyncio.run(backlog.publish(n, say(f"publishing {n:,} instances to {partitions} partition(s)", n)))
        n_bytes += backlog.n_bytes if topics is inputs else 0
    rounds = []
    for number in range(sizes.rounds):
        where = f"round {number + 1} of {sizes.rounds}, {partitions} partition(s)"
        name = f"{prefix}-{number}"
        done = say(f"{where}: bare loop", None)
        bare = measure_bare(broker, folder, inputs, sizes.instances)
        done(1)
        done = say(f"{where}: worker", None)
        worker = measure_worker(broker, folder, name, inputs, partitions, sizes.instances, **fields)
        done(1)
        done = say(f"{where}: plain agent", None)
        plain = measure_plain(broker, folder, small, f"{name}-plain.predictions", partitions, sizes.plain)
        done(1)
        rounds.append({"bare": bare, "worker": worker, "plain": plain})
        asyncio.run(delete(broker, f"{name}.predictions"))
    asyncio.run(delete(broker, prefix))
    return {
        "partitions": partitions,
        "bytes_per_instance": n_bytes / sizes.instances,
        "rounds": rounds,
        "medians": {
            role: {
                field: statistics.median(r[role][field] for r in rounds if r[role][field] is not None)
                if any(r[role][field] is not None for r in rounds)
                else None
                for field in ("per_second", "cpu_us")
            }
            for role in ("bare", "worker", "plain")
        },
        "ratios": {
            f"worker_over_{role}": spread([r["worker"]["per_second"] / r[role]["per_second"] for r in rounds])
            for role in ("bare", "plain")
        },
    }
