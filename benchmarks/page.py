"""What the live page costs with much to show: many streams, each with a week of history.

    python -m benchmarks.page [--streams 20] [--partitions 10]

fills the page's store with a record of each model and partition per minute for seven days, then starts its server
in this process, without Kafka, and prints: bytes on disk, seconds to load, memory, and the time and the bytes of
the answers that a browser asks for when it opens a stream.
"""

import argparse
import asyncio
import resource
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

from app.kafka.connection import Connection
from app.kafka.ports import free_port, listen
from app.page.models import ModelPages
from app.page.server import STATIC, Page
from app.page.store import Store
from app.page.view import DAY_MS, StreamView
from app.page.watch import Watch, now_ms
from app.stream_file.spec import Spec, loads
from topics import reports
from topics.records import MetricsRecord, PartitionRecord

STREAM = """
name: s{number}
task: classification
partitions: {partitions}
features: {{a: numeric}}
champion: last-label
challengers: {{one: last-label, two: last-label}}
"""
MINUTE = 60_000


def fill(specs: list[Spec], store: Store, now: int) -> None:
    """A week of records of one stream, stored as the page would have, under the name of each."""
    spec = specs[0]
    view, rng = StreamView(spec), np.random.default_rng(0)
    for minute in range(7 * 24 * 60):
        at, n = now - 7 * DAY_MS + minute * MINUTE, 1000 * minute
        for partition in range(spec.partitions):
            for role in spec.models():
                score = {"accuracy": float(rng.random())}
                model = MetricsRecord(spec.name, partition, at, role, "last-label", n, n, n, score, window=score)
                view.take_report(reports.write(model))
            part = PartitionRecord(
                spec.name, partition, at, now - 8 * DAY_MS, "w:1", "1", n, n, n, n, n, 5, {"features": minute % 100}, 9,
                1.0, latency_p50=0.01, latency_p99=0.1, delay_p50=2.0,
            )  # fmt: skip
            view.take_report(reports.write(part))
        if minute % 360 == 359:
            blocks = [block[1:] for block in view.dirty()]
            store.write({}, [(each.name, *block) for each in specs for block in blocks], [], now)


async def measure(page: Page, n: int) -> None:
    """Ask for what a browser asks for."""
    from aiohttp import web

    runner, port = web.AppRunner(page.application()), free_port()
    await runner.setup()
    await web.SockSite(runner, listen("127.0.0.1", port)).start()

    def asked(path: str) -> tuple[float, int]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept-Encoding": "gzip"})
        started = time.perf_counter()
        with urllib.request.urlopen(request) as answer:
            return time.perf_counter() - started, len(answer.read())

    now, total, size = now_ms(), 0.0, 0
    files = ["/", *(f"/static/{path.name}" for path in sorted(STATIC.glob("*.[cj]s*")))]
    week = f"/api/streams/s{n - 1}/history?from={now - 7 * DAY_MS}&to={now}&n=400"
    for path in [*files, "/api/streams", f"/api/streams/s{n - 1}", week]:
        seconds, length = min([await asyncio.to_thread(asked, path) for _ in range(3)])
        total, size = total + seconds, size + length
        if "api" in path:
            print(f"{path.partition('?')[0]}: {1000 * seconds:.0f} ms, {length / 1000:.1f} kB")
    print(f"everything that opens a stream with its week: {1000 * total:.0f} ms, {size / 1000:.0f} kB")
    await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=10)
    given = parser.parse_args()
    specs = [loads(STREAM.format(number=i, partitions=given.partitions)) for i in range(given.streams)]
    with tempfile.TemporaryDirectory() as folder:
        path, now = Path(folder) / "history.sqlite", now_ms()
        with Store(path) as store:
            fill(specs, store, now)
        print(f"{given.streams} streams of {given.partitions} partitions, a week: {path.stat().st_size / 1e6:.0f} MB")
        before = resident()
        with Store(path) as store:
            started = time.perf_counter()
            connection = Connection("127.0.0.1:9")
            watch = Watch([StreamView(spec) for spec in specs], connection, store)
            for view in watch.views:
                watch.restore(view)
            print(f"loaded in {time.perf_counter() - started:.2f} s, {resident() - before:.0f} MB of memory")
            page = Page(watch, {spec.name: "s.yaml" for spec in specs}, ModelPages(connection))
            asyncio.run(measure(page, len(specs)))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(f"the most memory of this process, filling included: {peak:.0f} MB")


def resident() -> float:
    """MB of memory that this process has now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


if __name__ == "__main__":
    main()
