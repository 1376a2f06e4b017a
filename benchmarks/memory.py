"""Whether the memory of a worker stays flat over many records.

The records are published in chunks, each after the worker has finished the one before, and deleted from the topics as
soon as their predictions are written, so that the disk holds a few chunks only. Resident memory is read from /proc
after every chunk, when nothing waits.

Flat means: over the second half of the run, memory grows by less than `FLAT_SHARE` of what it was in the middle. The
first half is left out, since the tree, the pools of the allocators and the kernels' code come to their size there.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from aiokafka.admin import RecordsToDelete
from aiokafka.structs import TopicPartition

from benchmarks.processes import Sampler, Worker
from benchmarks.workload import Backlog, admin, delete, past, stream_file
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.stream_file.spec import Spec

CHUNK = 250_000
CHUNK_SECONDS = 120.0
FLAT_SHARE = 0.05


async def _forget(broker: str, spec: Spec) -> None:
    """Delete everything that the topics of records hold now."""
    topics = [t for t in (spec.topics.features, spec.topics.labels, spec.topics.predictions) if t is not None]
    async with admin(broker) as client:
        # -1: up to the end as it stands
        await client.delete_records({TopicPartition(t, 0): RecordsToDelete(before_offset=-1) for t in topics})


def growth(instances: list[int], resident: list[float]) -> float:
    """Growth over the second half, as a share of its beginning: the line through the samples, end against start."""
    half = len(instances) // 2
    x, y = np.array(instances[half:], float), np.array(resident[half:], float)
    if len(x) < 2:
        return 0.0
    slope, start = np.polyfit(x - x[0], y, 1)
    return float(slope * (x[-1] - x[0]) / start)


def measure(
    broker: str, folder: Path, n: int, say: Callable[[str, int | None], Any], chunk: int = CHUNK, **fields: Any
) -> dict[str, Any]:
    """One worker over n labelled instances; `fields` of its stream file."""
    path, spec = stream_file(folder, "memory", 1, **fields)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    backlog = Backlog(broker, spec.topics.features, spec.topics.labels or "", 1, past(n))
    done = say(f"memory over {n:,} labelled instances", n)
    taken: list[int] = []
    resident: list[float] = []
    state: list[float] = []
    with Worker(path, broker, folder) as worker, Sampler(worker.pid) as sampler:
        worker.wait_for_partitions(1)
        while backlog.n < n:
            size = min(chunk, n - backlog.n)
            asyncio.run(backlog.publish(size, lambda _: None))
            worker.wait_for_labels(backlog.n, CHUNK_SECONDS)
            taken.append(backlog.n)
            resident.append(sampler.samples[-1][2] / 1e6)
            metrics = worker.metrics()
            state.append(sum(v for k, v in metrics.items() if k.startswith("riparian_state_bytes")) / 1e6)
            asyncio.run(_forget(broker, spec))
            done(size)
        peak = max(sample[2] for sample in sampler.samples) / 1e6
        worker.stop()
    asyncio.run(delete(broker, "memory."))
    share = growth(taken, resident)
    return {
        "instances": taken,
        "resident_mb": resident,
        "state_mb": state,
        "peak_mb": peak,
        "growth": share,
        "flat": share < FLAT_SHARE,
    }
