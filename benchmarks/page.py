"""What the live page costs with much to show: many streams, each with a week of history.

    python -m benchmarks.page [--streams 20] [--partitions 10] [--updates 30]

fills the page's store with a record of each model and partition per minute for seven days. Then a process of its own
restores it and serves the page, without Kafka, while one record of each model and partition of every stream comes
every five seconds. Tables have: seconds to restore, memory and CPU of that process, and what a real Chromium, asked by
the DevTools protocol, says of a stream over a week, a day and an hour: bytes and requests, when it was painted and
ready, and its CPU for an update. The first row is of a Chromium that has just started.
"""

import argparse
import asyncio
import gzip
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import printed
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.ports import free_port, listen
from riparian.app.page.server import Page, serve
from riparian.app.page.store import Store
from riparian.app.page.tail import Tail
from riparian.app.page.view import DAY_MS, StreamView, now_ms
from riparian.app.page.watch import Watch
from riparian.app.stream_file.spec import Spec, loads
from riparian.topics import reports
from riparian.topics.records import MetricsRecord, PartitionRecord

STREAM = """
name: s{number}
task: classification
partitions: {partitions}
features: {{a: numeric}}
champion: last-label
challengers: {{one: last-label, two: last-label}}
"""
MINUTE = 60_000
KINDS = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
TOLD = """([stream, n]) => new Promise(done => {  // nothing is asked meanwhile: that would cost the browser more
    const events = new EventSource(`/api/streams/${stream}/live`);
    events.onmessage = () => { if (n-- === 0) { events.close(); setTimeout(done, 500); } };
})"""
EVERY = 5.0  # seconds between records of a model, as a worker's default
READY = """() => {
    const found = document.querySelector(".chart b");
    return found !== null && /\\d/.test(found.textContent) && performance.now();
}"""


def specs_of(n: int, partitions: int) -> list[Spec]:
    return [loads(STREAM.format(number=i, partitions=partitions)) for i in range(n)]


def tell(view: StreamView, at: int, minute: int, rng: np.random.Generator) -> None:
    """A record of each model and partition of a stream. at : ms."""
    spec, n = view.spec, 1000 * minute
    for partition in range(spec.partitions):
        for role in spec.models():
            score: dict[str, float | None] = {"accuracy": float(rng.random())}
            model = MetricsRecord(spec.name, partition, at, role, "last-label", n, n, n, score, window=score)
            view.take_report(reports.write(model))
        part = PartitionRecord(
            spec.name, partition, at, 1_000_000, "w:1", "1", n, n, n, n, n, 5, {"features": minute % 100}, 9,
            1.0, latency_p50=0.01, latency_p99=0.1, delay_p50=2.0,
        )  # fmt: skip
        view.take_report(reports.write(part))


def fill(specs: list[Spec], store: Store, now: int) -> None:
    """A week of records of one stream, stored as the page would have, under the name of each."""
    view, rng = StreamView(specs[0]), np.random.default_rng(0)
    for minute in range(7 * 24 * 60):
        tell(view, now - 7 * DAY_MS + minute * MINUTE, minute, rng)
        if minute % 360 == 359:
            blocks = [block[1:] for block in view.dirty()]
            store.write({}, [(each.name, *block) for each in specs for block in blocks], [], now)


class Fed(Watch):
    """Given records by itself instead of Kafka."""

    async def run(self) -> None:
        started = time.perf_counter()
        for view in self.views:
            self.restore(view)
        print(f"{time.perf_counter() - started:.2f}", flush=True)  # read by the process that started this one
        self.progress, rng, minute = None, np.random.default_rng(0), 20_000
        for view in self.views:
            tell(view, now_ms() - 5000, minute, rng)
        while True:
            spent, began = time.process_time(), time.perf_counter()
            for i, view in enumerate(self.views):
                tell(view, now_ms(), minute + i, rng)
            minute, self.version = minute + 1, self.version + 1
            await asyncio.sleep(EVERY)
            share = (time.process_time() - spent) / (time.perf_counter() - began)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            print(f"{100 * share:.1f} {peak:.0f}", flush=True)


def page(folder: Path, port: int, specs: list[Spec]) -> None:
    """The page, until it is killed."""
    with Store(folder / "history.sqlite") as store:
        connection = Connection("127.0.0.1:9")
        watch = Fed([StreamView(spec) for spec in specs], connection, store)
        shown = Page(watch, {spec.name: "s.yaml" for spec in specs}, Tail(watch.views, connection))
        asyncio.run(serve(shown, listen("127.0.0.1", port)))


def asked(port: int, path: str) -> tuple[float, bytes]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept-Encoding": "gzip"})
    started = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        found = answer.read()
    return time.perf_counter() - started, found


def look(port: int, stream: str, updates: int) -> None:
    """The table of what a browser needs for the stream."""
    from playwright.sync_api import sync_playwright

    print("\n| shown | kB | requests | painted, ms | ready, ms | CPU of an update, ms | scripts | layout, styles |")
    print("|---|---|---|---|---|---|---|---|")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, range_ in (
            ("a week, first", "7d"), ("a week", "7d"), ("a day", "24h"), ("an hour", "1h"),
        ):  # fmt: skip
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            shown = context.new_page()
            tools = context.new_cdp_session(shown)
            sizes: list[float] = []
            tools.on("Network.loadingFinished", lambda e, sizes=sizes: sizes.append(e["encodedDataLength"]))
            tools.send("Network.enable")
            tools.send("Performance.enable")
            shown.goto(f"http://127.0.0.1:{port}/?stream={stream}&range={range_}")
            ready = shown.wait_for_function(READY).json_value()
            paint = shown.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0")
            cells = [name, f"{sum(sizes) / 1000:.0f}", str(len(sizes)), f"{paint:.0f}", f"{ready:.0f}"]

            def spent(tools: Any = tools) -> Any:
                found = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
                return np.array([found[kind] for kind in KINDS])

            if "first" not in name:
                before = spent()
                shown.evaluate(TOLD, [stream, updates])
                in_all, scripts, *looks = 1000 * (spent() - before) / updates
                cells += [f"{value:.1f}" for value in (in_all, scripts, sum(looks))]
            print(f"| {' | '.join(cells)} |{' |' * (8 - len(cells))}", flush=True)
            context.close()
        browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--updates", type=int, default=30)
    parser.add_argument("--serve", nargs=2, metavar=("FOLDER", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    specs = specs_of(given.streams, given.partitions)
    if given.serve:
        page(Path(given.serve[0]), int(given.serve[1]), specs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, now, port = Path(folder) / "history.sqlite", now_ms(), free_port()
        with Store(path) as store:
            fill(specs, store, now)
        size = path.stat().st_size / 1e6
        command = [sys.executable, "-m", "benchmarks.page", "--serve", folder, str(port)]
        command += ["--streams", str(given.streams), "--partitions", str(given.partitions)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            stream = specs[-1].name
            while True:
                try:
                    if json.loads(gzip.decompress(asked(port, f"/api/streams/{stream}")[1]))["progress"] is None:
                        break
                except OSError:
                    pass
                time.sleep(0.2)
            now = now_ms()
            week = f"/api/streams/{stream}/history?from={now - 7 * DAY_MS}&to={now}&n=400"
            seconds, found = min(asked(port, week) for _ in range(3))
            look(port, stream, given.updates)
        finally:
            process.terminate()
            restored, *told = process.communicate()[0].splitlines()
    shares, peaks = zip(*(map(float, line.split()) for line in told), strict=True)
    print(f"\n| | {given.streams} streams of {given.partitions} partitions |\n|---|---|")
    print(f"| a week of history on disk | {size:.0f} MB |")
    print(f"| restored at the start | {restored} s |")
    print(f"| answer with the week of a stream | {1000 * seconds:.0f} ms, {len(found) / 1000:.0f} kB |")
    print(f"| memory of the process, at most | {max(peaks):.0f} MB |")
    print(f"| a record of each model and partition every 5 s | {statistics.median(shares):.1f} % of a core |")


if __name__ == "__main__":
    with printed("page"):
        main()
