"""Throughput with checkpoints and without, in pairs within one run."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.grown import Source, stream_file
from benchmarks.processes import Sampler, Watched
from benchmarks.throughput import measure_worker, rates, read_predictions, spread
from benchmarks.workload import Backlog, create, delete, past
from riparian.app.kafka.admin import ensure_topics
from riparian.app.kafka.connection import Connection
from riparian.app.state import transfer
from riparian.app.state.changelog import bounds
from riparian.topics.names import changelog_topic

SECONDS = 300.0
SWITCH: dict[str, dict[str, Any]] = {"on": {}, "off": {"every": "1d"}}


def _pair(measured: Callable[[str, dict[str, Any]], dict[str, Any]], rounds: int) -> dict[str, Any]:
    """`measured(name, settings of checkpoints)` with checkpoints and without, in turn, the order changing; ratios."""
    runs = []
    for number in range(rounds):
        order = list(SWITCH) if number % 2 == 0 else list(reversed(SWITCH))
        runs.append({which: measured(f"{which}-{number}", SWITCH[which]) for which in order})
    return {"rounds": runs, "on_over_off": spread([run["on"]["per_second"] / run["off"]["per_second"] for run in runs])}


def usual(broker: str, folder: Path, n: int, rounds: int) -> dict[str, Any]:
    """The workload of benchmarks/throughput.py, everything else at its default."""
    inputs = {"features": "usual.features", "labels": "usual.labels"}
    asyncio.run(create(broker, list(inputs.values()), 1))
    asyncio.run(Backlog(broker, inputs["features"], inputs["labels"], 1, past(n)).publish(n, lambda _: None))

    def measured(name: str, settings: dict[str, Any]) -> dict[str, Any]:
        found = measure_worker(broker, folder, f"usual-{name}", inputs, 1, n, checkpoint=settings)
        return {field: found[field] for field in ("per_second", "cpu_us", "seconds", "n")}

    result = _pair(measured, rounds)
    asyncio.run(delete(broker, "usual"))
    return result


def large(broker: str, folder: Path, n_leaves: int, n_sent: int, n: int, rounds: int) -> dict[str, Any]:
    """The grown tree over the same records each time: a stream of its own, into which its state is imported."""
    _, spec = stream_file(folder, n_leaves)
    file = folder / "grown.riparian"
    asyncio.run(transfer.export_state(spec, Connection(broker), 0, file))
    source = Source(broker, spec.topics.features)
    source.n = n_sent
    asyncio.run(source.publish(n, seed=4))

    def measured(name: str, settings: dict[str, Any]) -> dict[str, Any]:
        path, spec = stream_file(folder, n_leaves, f"large-{name}", **settings)
        asyncio.run(ensure_topics(spec, Connection(broker)))
        asyncio.run(transfer.import_state(spec, Connection(broker), 0, transfer.read_file(file), file.name))
        with Watched(path, broker, folder) as worker, Sampler(worker.pid) as sampler:
            worker.wait_for_instances(n_sent + n, SECONDS)
            # What it has taken need not be delivered yet, and what is not delivered dies with it.
            delivered = partial(bounds, Connection(broker), spec.topics.predictions, 0)
            worker.wait(lambda: asyncio.run(delivered())[1] >= n, SECONDS, f"{n:,} predictions were not delivered")
            n_checkpoints = len(worker.heard("checkpoint"))
            worker.kill()  # without a last checkpoint, which would be the same for both
        written = asyncio.run(read_predictions(broker, spec.topics.predictions, [n], n_sent))
        seconds = max(written.last - written.first, 1e-3)
        cpu = sampler.cpu_between(written.first, written.last)
        asyncio.run(delete(broker, f"large-{name}"))
        asyncio.run(delete(broker, changelog_topic(spec.name)))
        return {**rates(max(1, written.n), seconds, cpu), "checkpoints": n_checkpoints}

    return _pair(measured, rounds)
