"""Memory of a worker under floods of unusual records: it stays bounded, and every record is counted.

    python -m benchmarks.floods [--only labels,ids,nominal,poison,large] [--unbounded]

Each of FLOODS is a backlog on a real Kafka for a worker of its own, with one partition and naive Bayes. Its peak of
resident memory (VmHWM) is shown beside that of an idle worker. --unbounded: without `join.max_buffered_bytes`, to see
its effect.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.processes import MeasureError, Worker
from benchmarks.record import write
from benchmarks.workload import producing
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker
from riparian.app.stream_file.spec import load

SECONDS = 600.0
BATCH_BYTES = 5_000_000
MB = 1e6


class Flood(NamedTuple):
    """says : what it is. values : of the records, key of each is None."""

    says: str
    topic: str
    n: int
    compression: str | None = None

    def values(self, name: str) -> Iterator[bytes]:
        pad = b"x" * 200_000
        for i in range(self.n):
            if name == "labels":
                yield b'{"id":"unknown-%d","y":"a"}' % i
            elif name == "ids":
                yield b'{"id":"%01024d","x":{"a":1,"b":"v"}}' % i
            elif name == "nominal":
                yield b'{"id":"%d","x":{"a":1,"b":"value-%d"}}' % (i, i)
            elif name == "poison":
                yield b"poison %d" % i
            else:
                yield b'{"id":"%d","x":{"a":1,"b":"v"},"pad":"%s"}' % (i, pad)


FLOODS = {
    "labels": Flood("labels of ids that never come", "labels", 819_200),
    "ids": Flood("instances with ids of 1,024 characters, which all wait", "features", 400_000),
    "nominal": Flood("instances, each with another nominal value", "features", 500_000),
    "poison": Flood("records that are not JSON", "features", 500_000),
    "large": Flood("instances of 200 kB in gzip batches of 16 kB", "features", 20_000, "gzip"),
}


async def _fill(broker: str, topic: str, flood: Flood, name: str) -> None:
    async with producing(
        broker, compression_type=flood.compression, max_batch_size=BATCH_BYTES, max_request_size=2 * BATCH_BYTES
    ) as producer:
        now = int(time.time() * 1000) - 60_000
        batch, n, futures = producer.create_batch(), 0, list[Any]()

        async def send() -> None:
            futures.append(await producer.send_batch(batch, topic, partition=0))
            if len(futures) >= 8:
                await futures.pop(0)

        limit = BATCH_BYTES if flood.compression else 900_000
        for value in flood.values(name):
            if (n and n + len(value) > limit) or batch.append(timestamp=now, key=None, value=value) is None:
                await send()
                batch, n = producer.create_batch(), 0
                batch.append(timestamp=now, key=None, value=value)
            n += len(value) + 20
        await send()
        for future in futures:
            await future


def _peak_bytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024


def _counted(found: dict[str, float]) -> dict[str, int]:
    names = {
        "instances": "riparian_instances_total",
        "labels": "riparian_labels_total",
        "waiting": "riparian_waiting_instances",
        "labels waiting": "riparian_waiting_labels",
        "evicted": "riparian_evicted_instances_total",
        "unmatched": "riparian_unmatched_labels_total",
    }
    counts = {short: int(found.get(name, 0)) for short, name in names.items()}
    return counts | {"rejected": int(sum(v for k, v in found.items() if k.startswith("riparian_rejected_records")))}


def drown(broker: str, folder: Path, name: str, unbounded: bool) -> dict[str, Any]:
    """One flood, of a stream of its own."""
    flood = FLOODS[name]
    content: dict[str, Any] = {
        "name": f"flood-{name}",
        "task": "classification",
        "features": {"a": "numeric", "b": "nominal"},
        "champion": "naive-bayes",
        "challengers": {},
    }
    if unbounded:
        content["join"] = {"max_buffered_bytes": 10**15}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content))
    spec = load(path)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    with Worker(path, broker, folder, "--log-level", "info") as worker:
        worker.wait_for_partitions(1, SECONDS)
        idle = _peak_bytes(worker.pid)
    asyncio.run(_fill(broker, getattr(spec.topics, flood.topic), flood, name))
    with Worker(path, broker, folder, "--log-level", "info") as worker:
        started = time.monotonic()
        buffered = 0.0

        def done() -> bool:
            nonlocal buffered
            try:
                found = worker.metrics()
            except MeasureError:  # it starts
                return False
            sizes = [v for k, v in found.items() if k.startswith("riparian_buffered_bytes")]
            buffered = max([buffered, *sizes])
            counts = _counted(found)
            return counts["instances"] + counts["labels"] + counts["rejected"] >= flood.n

        worker.wait(done, SECONDS, f"{flood.n:,} records")
        seconds = time.monotonic() - started
        counts, peak = _counted(worker.metrics()), _peak_bytes(worker.pid)
        rejoined = worker.log.read_text(errors="replace").count("Joined group") - 1
    if flood.topic == "labels":
        assert counts["labels"] == counts["labels waiting"] + counts["unmatched"] == flood.n, counts
    else:
        assert counts["instances"] + counts["rejected"] == flood.n, counts
        assert counts["instances"] == counts["waiting"] + counts["evicted"], counts
    return {
        "records": flood.n,
        "idle_mb": round(idle / MB),
        "peak_mb": round(peak / MB),
        "buffered_mb": round(buffered / MB),
        "rejoined": rejoined,
        "seconds": round(seconds, 1),
        "counts": counts,
    }


def table(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Of what `drown` found, as pages show it."""
    rows = [
        [FLOODS[name].says, *(f"{one[what]:,}" for what in ("records", "peak_mb", "idle_mb"))]
        for name, one in found.items()
    ]
    return {"heads": ["flood", "records", "peak, MB", "idle, MB"], "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(FLOODS))
    parser.add_argument("--unbounded", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="floods-"))
    found = {}
    try:
        with LocalBroker(folder / "broker", report=print) as local:
            for name in given.only.split(","):
                found[name] = drown(local.bootstrap, folder, name, given.unbounded)
                print(f"{name}: {json.dumps(found[name])}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write("campaign-floods", {"tables": [table(found)], "runs": found})


if __name__ == "__main__":
    main()
