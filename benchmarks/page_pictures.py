"""Pictures of the live page as it looks: a real broker, two workers and the page, and a real Chromium.

    python -m benchmarks.page_pictures docs [--seconds 135]

streams a concept that turns round after 60 seconds and again after 120, over two partitions, in which the sensor x3 is
off from 90 seconds on, and writes live-page*.webp into the folder after so many seconds.
"""

import argparse
import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from riparian.app.demo.run import local_broker
from riparian.app.kafka.local_broker.ports import free_port

STREAM = Path(__file__).parents[1] / "deploy" / "streams" / "sine.yaml"
MORE = """partitions: 2
metrics: {every: 1s}
control: true
promotion: propose
drift: {features: [x1, x2], distributions: true}
"""
RATE = 300  # instances a second
GENERATED = ["sine", "-n", str(240 * RATE)]
for turn in (1, 2):  # the concept turns round
    GENERATED += ["--drift", str(60 * RATE * turn), "--to", f"function={turn % 2}"]
OFF_FROM, COLUMN = 90 * RATE, 2  # where the sensor x3 is off


class Picture(NamedTuple):
    """name : of the file. tab : of the page. part : selector of what is taken. ready : of what has to be there.
    width : of the browser. scheme : light or dark. height : of what is taken at most, pixels."""

    name: str
    tab: str
    part: str
    ready: str
    width: int = 1280
    scheme: Literal["light", "dark"] = "light"
    height: int | None = None


PICTURES = (
    Picture("live-page", "overview", "body", ".marks button"),
    Picture("live-page-compared", "models", "main > section:nth-of-type(2)", ".interval"),
    Picture("live-page-tree", "models", "main > section:last-of-type", ".tree svg"),
    Picture("live-page-drift", "drift", "body", ".strip", height=800),
    Picture("live-page-shift", "drift", "main > section:nth-of-type(3)", ".histogram"),
    Picture("live-page-phone", "overview", "body", ".marks button", width=390, scheme="dark", height=1100),
)


def pictures(out: Path, port: int) -> None:
    """Write the pictures of the page at a port."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for one in PICTURES:
            context = browser.new_context(viewport={"width": one.width, "height": 900}, color_scheme=one.scheme)
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port}/?tab={one.tab}&range=15m")
            page.wait_for_selector(one.ready)
            page.wait_for_selector(".pill.live")
            page.wait_for_timeout(1500)
            taken = io.BytesIO(page.locator(one.part).first.screenshot())
            picture = Image.open(taken).convert("RGB")
            if one.height is not None:
                picture = picture.crop((0, 0, picture.width, min(picture.height, one.height)))
            picture.save(out / f"{one.name}.webp", lossless=True, method=6)
            context.close()
        browser.close()


def write_rows(path: Path) -> None:
    """The generated stream, as a sensor that is off has it."""
    subprocess.run([sys.executable, "-m", "riparian.app.cli", "generate", *GENERATED, str(path)], check=True)
    heading, *rows = path.read_text(encoding="utf-8").splitlines()
    for i, row in enumerate(rows[OFF_FROM:], OFF_FROM):
        values = row.split(",")
        values[COLUMN] = f"{0.25 + 0.6 * float(values[COLUMN]):.4f}"
        rows[i] = ",".join(values)
    path.write_text("\n".join([heading, *rows, ""]), encoding="utf-8")


def wait_for_workers(ports: Sequence[int]) -> None:
    """Until each has a partition; they may have kernels to compile."""
    for port in ports:
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
                if len(json.load(answer)["partitions"]) == 1:
                    break
            time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=135.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, local_broker(Path(name), False, print) as connection:
        folder, port, web = Path(name), free_port(), (free_port(), free_port())
        stream = folder / "sine.yaml"
        stream.write_text(STREAM.read_text(encoding="utf-8") + MORE, encoding="utf-8")
        rows = folder / "sine.csv"
        write_rows(rows)
        riparian = [sys.executable, "-m", "riparian.app.cli"]
        broker = ["--broker", str(connection)]
        workers = [
            [*riparian, "worker", str(stream), *broker, "--port", str(each), "--data-dir", str(folder / f"w{each}")]
            for each in web
        ]
        started = []
        try:
            started += [subprocess.Popen(command) for command in workers]
            wait_for_workers(web)
            shown = ["--port", str(port), "--data-dir", str(folder / "ui"), "--actions"]
            started.append(subprocess.Popen([*riparian, "ui", str(stream), *broker, *shown]))
            replayed = ["replay", str(stream), str(rows), *broker, "--rate", str(RATE), "--label-delay", "2s"]
            started.append(subprocess.Popen([*riparian, *replayed]))
            time.sleep(given.seconds)
            pictures(given.out, port)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
