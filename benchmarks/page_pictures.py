"""Pictures of the live page as it looks: a real broker, worker and page, and a real Chromium.

    python -m benchmarks.page_pictures docs [--seconds 255]

streams a concept that turns round every 75 seconds over two partitions, and writes live-page.png and live-page-tree.png
into the folder after so many seconds.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from app.demo.run import local_broker
from app.kafka.ports import free_port

STREAM = Path(__file__).parents[1] / "deploy" / "streams" / "sine.yaml"
REPLAYED = ["--generate", "sine", "-n", "200000", "--rate", "400", "--label-delay", "2s"]
for turn in (1, 2, 3):  # the concept turns round
    REPLAYED += ["--drift", str(30_000 * turn), "--to", f"function={turn % 2}"]
SCALE = 1.0  # device pixels per pixel


def pictures(out: Path, port: int) -> None:
    """Write the pictures of the page at a port."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, tab, scheme, part in (
            ("live-page", "overview", "light", "body"),
            ("live-page-tree", "models", "light", "main > section:last-of-type"),
        ):
            view = {"width": 1280, "height": 900}
            context = browser.new_context(viewport=view, color_scheme=scheme, device_scale_factor=SCALE)
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{port}/?tab={tab}&range=15m")
            page.wait_for_selector(".tree svg" if tab == "models" else ".marks button")
            page.wait_for_timeout(1500)
            page.locator(part).first.screenshot(path=out / f"{name}.png")
            context.close()
        browser.close()


def wait_for_worker(port: int) -> None:
    """Until it has both partitions; it may have kernels to compile."""
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
            if len(json.load(answer)["partitions"]) == 2:
                return
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=255.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, local_broker(Path(name), False, print) as connection:
        folder, port, web = Path(name), free_port(), free_port()
        stream = folder / "sine.yaml"
        stream.write_text(
            STREAM.read_text(encoding="utf-8") + "partitions: 2\nmetrics: {every: 1s}\n", encoding="utf-8"
        )
        riparian = [sys.executable, "-m", "app.cli"]
        broker = ["--broker", str(connection)]
        commands = (
            [*riparian, "worker", str(stream), *broker, "--web-port", str(web), "--data-dir", str(folder / "w")],
            [*riparian, "ui", str(stream), *broker, "--port", str(port), "--data-dir", str(folder / "ui")],
            [*riparian, "replay", str(stream), *broker, *REPLAYED],
        )
        started = []
        try:
            for command in commands:
                started.append(subprocess.Popen(command))
                if command[3] == "worker":
                    wait_for_worker(web)
            time.sleep(given.seconds)
            pictures(given.out, port)
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
