"""`auto` within few microseconds beside `auto` within 100: quality, time, and who is a member.

    python -m benchmarks.light [--data ../shared/data] [--budgets 25,10] [-n 20000]

Data sets go by in file order, generated streams are those of benchmarks/frontier.py; test-then-train, labels at once.
Figures are accuracy in percent, of fried and abalone the mean absolute error. Microseconds are CPU time of one thread
an instance, of runs in turns, and those that are estimated.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.frontier import generated, shown, table_of
from benchmarks.opinion_pool import late, timed
from benchmarks.record import printed
from benchmarks.tables import Table
from riparian.models.auto.auto import resolve

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = 100.0  # microseconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("RIPARIAN_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=default, help="folder of elec.csv.gz, …; or RIPARIAN_DATA")
    parser.add_argument("--budgets", default="25,10", help="microseconds, separated by commas")
    parser.add_argument("-n", type=int, default=20_000, help="instances of generated streams")
    parser.add_argument("--delay", type=int, default=0, help="instances that labels are late")
    options = parser.parse_args(arguments)
    budgets = [DEFAULT, *map(float, options.budgets.split(","))]
    heads = [f"{what}{budget:g} µs" for budget in budgets for what in ("", "took, of ", "estimated, of ")]
    print("| | " + " | ".join([*heads, "members within the least"]) + " |\n" + "|---" * (len(heads) + 2) + "|")
    lost: dict[float, list[float]] = {budget: [] for budget in budgets}
    for world in [*shown(options.data), *generated(options.n)]:
        rows = table_of(world)
        table = Table(rows.schema, np.ascontiguousarray(rows.x), rows.y)
        schema, cells, parts = table.schema, [], ""
        for budget in budgets:
            found = resolve(schema.task, schema.n_values, schema.n_outputs, {"max_microseconds": budget})
            value, took = timed(table, late(table, options.delay), found.model, found.parameters, 1)
            cells += [
                f"{value:.{3 if schema.task == 'regression' else 2}f}",
                f"{took:.1f}",
                f"{found.microseconds:.1f}",
            ]
            parts = ", ".join(found.parameters.get("members", [found.model]))
            if schema.task != "regression":
                lost[budget].append(value)
        print("| " + " | ".join([world.name, *cells, parts]) + " |", flush=True)
    print("means of accuracy: " + ", ".join(f"{budget:g} µs {np.mean(each):.2f}" for budget, each in lost.items()))


if __name__ == "__main__":
    with printed("light"):
        main()
