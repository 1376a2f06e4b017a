"""The demo over several seeds, in memory, and its picture.

    python -m benchmarks.demo recall [--seeds 1,2,3]
    python -m benchmarks.demo picture docs/demo.svg [--at 130000]

`recall` runs the demo's stream over its payments by the code of `riparian evaluate --stream`, promotes and freezes the
tree as the demo does, and says which share of the fraud was among the 1 % of greatest probability, of 5,000 payments
each: the last before fraud changes, the first after, and the last of the new pattern; of `auto` and of the frozen tree;
and after how many payments of the new pattern `auto` has half its recall of before.

`picture` starts a broker and a worker as `riparian demo` does, and keeps the first frame with so many predictions, in
a terminal of 100 columns, as rich's own SVG. It refers to no font on another host: nothing is fetched when it is shown.
"""

import argparse
import io
import re
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType

from benchmarks.record import write
from riparian.app.demo import run as demo
from riparian.app.demo import view
from riparian.app.evaluation.setup import Setup
from riparian.app.evaluation.whole import Whole
from riparian.app.stream_file.durations import parse_duration
from riparian.app.stream_file.spec import load
from riparian.models.contract import Floats

COLUMNS = 100
AUTO, FROZEN = "opinion-pool", "hoeffding-tree"
STEP = 250  # payments between two looks for what is back


def scores(seed: int) -> tuple[dict[str, Floats], Floats, list[int], list[int]]:
    """Learner -> probability of fraud of each payment; their labels; where fraud changes; where models are promoted."""
    payments = demo.recipe(seed=seed)
    drawn = payments.open().take(payments.n)
    found = {name: np.zeros(payments.n) for name in (AUTO, FROZEN)}
    promoted, done, frozen = list[int](), 0, False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "payments.csv"
        with path.open("w") as file:
            file.write("time,card,terminal,amount,class\n")
            for i, ((_, card, terminal, amount, _), y) in enumerate(
                zip(drawn.x.tolist(), drawn.y.tolist(), strict=True)
            ):
                label = ("ok", "fraud")[int(y)]
                file.write(f"{1.7e9 + i / demo.RATE:.3f},v{card:.0f},v{terminal:.0f},{amount},{label}\n")
        delay = parse_duration(demo.LABEL_DELAY)
        whole = Whole(Setup(data=path, stream=load(demo.TEMPLATE), clock="time", label_delay=delay))
        steering = whole.learner.lineup.steering
        steering.promote(demo.TREE)
        names: dict[str, str] = {}
        for instances, outcome, _ in whole.outcomes():
            if instances is None:
                break
            names = {role: model.learner_name for role, model in whole.learner.roles.items()} | names
            for role, p in outcome.p.items():
                found[names[role]][done : done + len(p)] = p[:, 1]
            done += len(instances.times)
            promoted += [done for _ in outcome.events]
            names = {role: model.learner_name for role, model in whole.learner.roles.items()}
            if not frozen and done >= demo.FROZEN_AT:
                steering.freeze(next(role for role, name in names.items() if name == FROZEN))
                frozen = True
    return found, drawn.y, demo.changes(payments), promoted


def recall(p: Floats, y: Floats, start: int) -> float:
    """Share of the fraud in the window that begins at `start`."""
    part = slice(start, start + view.WINDOW)
    alerts = np.argsort(-p[part], kind="stable")[: view.WINDOW // 100]
    return float(y[part][alerts].sum() / y[part].sum())


def run_recall(seeds: list[int]) -> None:
    runs = []
    for seed in seeds:
        found, y, changes, promoted = scores(seed)
        ends = [*changes[1:], len(y)]
        for k, (change, end) in enumerate(zip(changes, ends, strict=True), 1):
            one: dict[str, Any] = {"seed": seed, "change": k, "promoted": promoted}
            for name, p in found.items():
                starts = change - view.WINDOW, change, end - view.WINDOW
                one[name] = dict(zip(("before", "at", "later"), (recall(p, y, at) for at in starts), strict=True))
            back = range(change, end - view.WINDOW, STEP)
            half = one[AUTO]["before"] / 2
            one["back"] = next((at - change for at in back if recall(found[AUTO], y, at) >= half), None)
            runs.append(one)
            print(one, flush=True)
    write("demo", {"means": means(runs), "payments": demo.WORLD, "runs": runs})


def means(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each model at each change, recalls in percent."""
    found: dict[str, dict[str, float]] = {}
    for k, name in product(sorted({one["change"] for one in runs}), (AUTO, FROZEN)):
        of = [one[name] for one in runs if one["change"] == k]
        found[f"{name}, change {k}"] = {f"{when}, %": round(100 * np.mean([o[when] for o in of]), 1) for when in of[0]}
    return found


def frame(at: int) -> RenderableType:
    """What the terminal shows once `at` payments are predicted."""
    frames: list[RenderableType] = []
    with tempfile.TemporaryDirectory() as folder, demo.local_broker(Path(folder), False, print) as connection:
        plan = demo.make_plan(Path(folder), connection, "payments", demo.N_ROWS, demo.choose_port(None))
        heading = f"stream {plan.spec.name} on {plan.connection}, metrics at {plan.metrics_url}"
        story = view.Story(plan.rows, demo.changes(demo.recipe()))

        def show(figures: view.WorkerFigures, said: str | None) -> None:
            story.note(figures, said)
            if figures.instances >= at and not frames:
                frames.append(view.table(heading, figures, story))

        with demo.worker_process(plan) as worker:
            demo.until_ready(worker, plan.health_url, print)
            demo.stream(plan, worker, show)
    return frames[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recall", "picture"))
    parser.add_argument("out", type=Path, nargs="?", default=Path("docs/demo.svg"))
    parser.add_argument("--at", type=int, default=130_000)
    parser.add_argument("--seeds", default="1,2,3")
    given = parser.parse_args()
    if given.what == "recall":
        run_recall([int(seed) for seed in given.seeds.split(",")])
        return
    console = Console(record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", file=io.StringIO())
    console.print(frame(given.at))
    svg = console.export_svg(title="riparian demo")
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)
    given.out.write_text(re.sub(r"Fira Code", "ui-monospace, Menlo, Consolas", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
