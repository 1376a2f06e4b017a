"""A picture of the demo as it looks: one frame of a real run, in a terminal of 100 columns, as rich's own SVG.

    python -m benchmarks.demo_picture docs/demo.svg [--at 30000]

starts a broker and a worker as `riparian demo` does, streams the electricity data, and keeps the first frame with so
many instances sent. The picture refers to no font on another host, so nothing is fetched when it is shown.
"""

import argparse
import asyncio
import io
import re
import tempfile
from pathlib import Path

from rich.console import Console, RenderableType

from riparian.app.demo import run as demo
from riparian.app.demo import view

COLUMNS = 100


def frame(at: int) -> RenderableType:
    """What the terminal shows once `at` instances are sent."""
    frames: list[RenderableType] = []
    with tempfile.TemporaryDirectory() as folder, demo.local_broker(Path(folder), False, print) as connection:
        settings = {"rows": demo.N_ROWS, "rate": 1000.0, "label_delay": 0.0, "port": demo.choose_port(None)}
        plan = demo.make_plan(Path(folder), connection, "elec", **settings)
        heading, rate = f"stream {plan.spec.name} on {plan.connection}, metrics at {plan.metrics_url}", view.Rate()

        def show(sent: int, figures: view.WorkerFigures) -> None:
            speed = rate(figures.at, figures.instances)
            if sent >= at:
                frames.append(view.table(heading, sent, plan.rows, figures, speed))

        async def run() -> None:
            await demo.until_ready(plan, worker, print)
            await demo.stream(plan, worker, show)

        with demo.worker_process(plan) as worker:
            asyncio.run(run())
    return frames[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", type=int, default=30_000)
    given = parser.parse_args()
    console = Console(record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", file=io.StringIO())
    console.print(frame(given.at))
    svg = console.export_svg(title="riparian demo")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    given.out.write_text(re.sub(r"Fira Code", "ui-monospace, Menlo, Consolas", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
