"""What copying topics by id (`rekey`) costs: the same records with it and without it, one worker, on a real Kafka.

    python -m benchmarks.rekey [--instances 100000] [--rate 200] [--seconds 15] [--rounds 3]

- *backlog*: instances and their labels stand in the topics; the time until the worker has learned all of them. With
  `rekey` it copies from four partitions to one.
- *latency*: from features to prediction, as a client sees it (benchmarks/latency.py).

Both ways take turns; what is shown are medians, and their ratio.
"""

import argparse
import asyncio
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.latency import Client
from benchmarks.processes import Worker
from benchmarks.record import printed
from benchmarks.workload import Backlog, create, delete, past, stream_file
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker

SOURCES = 4
MAX_SECONDS = 600.0


def stream(broker: str, folder: Path, name: str, copied: bool, partitions: int) -> tuple[Path, str, str]:
    """A stream whose topics there are, and the topics that producers write to."""
    given = {"features": f"{name}.given", "labels": f"{name}.told"}
    if copied:
        asyncio.run(create(broker, list(given.values()), partitions))
    path, spec = stream_file(folder, name, 1, **({"rekey": given} if copied else {}))
    asyncio.run(ensure_topics(spec, Connection(broker)))
    return path, *(given.values() if copied else (spec.topics.features, str(spec.topics.labels)))


def backlog(broker: str, folder: Path, name: str, copied: bool, n: int) -> float:
    """Seconds from the worker's first partition until all are learned."""
    path, features, labels = stream(broker, folder, name, copied, SOURCES)
    load = Backlog(broker, features, labels, SOURCES if copied else 1, past(n))
    asyncio.run(load.publish(n, lambda _: None))
    with Worker(path, broker, folder) as worker:
        worker.wait_for_partitions(1)
        began = time.monotonic()
        while worker.metrics()["riparian_joined_instances_total"] < n:
            worker.check()
            assert time.monotonic() - began < MAX_SECONDS, worker.metrics()
            time.sleep(0.1)
        took = time.monotonic() - began
        worker.stop()
    return took


def latency(broker: str, folder: Path, name: str, copied: bool, rate: int, seconds: float) -> dict[str, Any]:
    """Percentiles in ms."""
    path, features, labels = stream(broker, folder, name, copied, 1)
    with Worker(path, broker, folder) as worker:
        worker.wait_for_partitions(1)
        found = asyncio.run(Client(broker, features, labels, f"{name}.predictions").run(rate, seconds))
        worker.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rekey-"))
    took: dict[bool, list[float]] = {True: [], False: []}
    waited: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    try:
        with LocalBroker(folder / "broker", report=print) as local:
            for number in range(given.rounds):
                for copied in (False, True):
                    name = f"rekey-{number}-{int(copied)}"
                    took[copied].append(backlog(local.bootstrap, folder, f"{name}-b", copied, given.instances))
                    waited[copied].append(
                        latency(local.bootstrap, folder, f"{name}-l", copied, given.rate, given.seconds)
                    )
                    asyncio.run(delete(local.bootstrap, name))
                    print(f"rekey {copied}: {took[copied][-1]:.1f} s, {json.dumps(waited[copied][-1])}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = {copied: statistics.median(found) for copied, found in took.items()}
    print(f"backlog of {given.instances:,}: {seconds[True]:.1f} s, without rekey {seconds[False]:.1f}; "
          f"ratio {seconds[True] / seconds[False]:.2f}")  # fmt: skip
    for p in ("p50", "p99"):
        ms = {copied: statistics.median(one[p] for one in found) for copied, found in waited.items()}
        print(f"latency {p}: {ms[True]:.0f} ms, without rekey {ms[False]:.0f}; {ms[True] - ms[False]:.0f} more")


if __name__ == "__main__":
    with printed("rekey"):
        main()
