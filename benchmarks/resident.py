"""What memory a worker has resident, by its champion: when it has its partition, and at most through a backlog.

    python -m benchmarks.resident [--n 20000]

And with a tree whose kernels it has to compile, as at the first start of a machine, where they are from no cache.
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

from benchmarks.processes import Sampler, Worker, resident_bytes
from benchmarks.record import printed
from benchmarks.workload import Backlog, past, stream_file
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.broker import LocalBroker

KERNELS = "NUMBA_CACHE_DIR"
SECONDS = 900.0


def measure(broker: str, folder: Path, name: str, champion: str, n: int) -> tuple[float, float]:
    """MB when it is ready, and at most."""
    path, spec = stream_file(folder, name, 1, champion=champion)
    asyncio.run(ensure_topics(spec, Connection(broker)))
    with Worker(path, broker, folder) as worker:
        worker.wait_for_partitions(1, SECONDS)
        ready = (resident_bytes(worker.pid) or 0) / 1e6
        with Sampler(worker.pid) as sampler:
            backlog = Backlog(broker, spec.topics.features, spec.topics.labels or "", 1, past(n))
            asyncio.run(backlog.publish(n, lambda _: None))
            worker.wait_for_labels(n, SECONDS)
        worker.stop()
    return ready, max(sample[2] for sample in sampler.samples) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What memory a worker has resident.")
    parser.add_argument("--n", type=int, default=20_000, help="labelled records of the backlog")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as text, LocalBroker(Path(text) / "kafka") as broker:
        folder, found = Path(text), list[tuple[str, float, float]]()
        for title, name, champion in (("Hoeffding tree", "tree", "hoeffding-tree"), ("`auto`", "auto", "auto")):
            found.append((title, *measure(broker.bootstrap, folder, name, champion, options.n)))
        (folder / "kernels").mkdir()
        before, os.environ[KERNELS] = os.environ.get(KERNELS), str(folder / "kernels")
        title = "Hoeffding tree, whose kernels it compiles"
        found.append((title, *measure(broker.bootstrap, folder, "compiled", "hoeffding-tree", options.n)))
        os.environ.pop(KERNELS) if before is None else os.environ.update({KERNELS: before})
        print("| champion | MB when it is ready | MB at most, in a backlog |\n|---|---|---|")
        for title, ready, most in found:
            print(f"| {title} | {ready:.0f} | {most:.0f} |")


if __name__ == "__main__":
    with printed("resident"):
        main()
