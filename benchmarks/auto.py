"""Measures what models/auto.py estimates: microseconds per tree of a forest, and bytes of a forest at its bound.

    python -m benchmarks.auto [--data ../shared/data] [--sets elec,splice] [--rounds 3]

Forests of TREES trees learn each data set, test-then-train, in steps of STEP instances. The figure is the CPU time of
their one thread, the least of the rounds, which take turns over the data sets, so that other processes influence it as
little as possible. Least squares over the data sets say what MICROSECONDS could be. Then what `auto` is where memory is
scarce, so that the trees come to their bound, and its bytes.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.dataset.data import DataFile
from app.dataset.synthetic import Recipe, SyntheticFile
from app.dataset.table import Table, read_table
from app.errors import RiparianError
from benchmarks.tables import NOMINAL, test_then_train
from models import auto
from models.contract import Learner
from models.registry import create

ROOT = Path(__file__).resolve().parents[1]
TREES = 10
STEP = 4096  # instances
FILES = {**NOMINAL, "fried": (), "abalone": ()}
GENERATED = {
    "agrawal": Recipe("agrawal", 20_000, 1),
    "rbf": Recipe("random-rbf", 20_000, 1, {"n_features": 30, "n_classes": 5}),
    "led": Recipe("led", 20_000, 1),
}
BYTES = {"max_bytes": 1_000_000, "max_microseconds": 1000.0}  # a budget that trees come to the bound of


class Found(NamedTuple):
    """What a run took.

    microseconds : an instance, of all trees
    n_bytes : at most
    learner : at the end
    """

    microseconds: float
    n_bytes: int
    learner: Learner


def learn(table: Table, model: str, **parameters: object) -> Found:
    learner = create(model, table.schema, **parameters)
    learner.warm_up()
    out = np.zeros((len(table.y), table.schema.n_outputs))
    program = test_then_train(table.y)
    seconds, most = 0.0, 0
    for at in range(0, len(program.op), 2 * STEP):
        part = program.part(at, at + 2 * STEP)
        started = time.thread_time()
        learner.run(part, table.x, out)
        seconds += time.thread_time() - started
        most = max(most, learner.n_bytes)
    return Found(1e6 * seconds / len(table.y), most, learner)


def n_looked_at(table: Table) -> int:
    """As models.auto.resolve has it."""
    d = table.schema.n_features
    return min(d, int(auto.SHARE * d) + 1)


def coefficients(rows: Sequence[Sequence[float]], found: Sequence[float]) -> list[float]:
    """Of the columns, by least squares of the relative errors; 0 for those that would be negative."""
    x, ones = np.array(rows) / np.array(found)[:, None], np.ones(len(found))
    best, least = np.zeros(x.shape[1]), np.inf
    for n in range(1, x.shape[1] + 1):
        for kept in map(list, itertools.combinations(range(x.shape[1]), n)):
            fitted = np.linalg.lstsq(x[:, kept], ones, rcond=None)[0]
            error = float(((x[:, kept] @ fitted - ones) ** 2).sum())
            if error < least and (fitted >= 0.0).all():
                best, least = np.zeros(x.shape[1]), error
                best[kept] = fitted
    return [float(value) for value in best]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("RIPARIAN_DATA") or ROOT.parent / "shared" / "data")
    parser.add_argument("--data", type=Path, default=default, help="folder of elec.csv.gz, …; or RIPARIAN_DATA")
    parser.add_argument("--sets", default=",".join([*FILES, *GENERATED]), help="data sets, separated by commas")
    parser.add_argument("--limit", type=int, default=20_000, help="rows of each")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    try:
        tables = {
            name: read_table(DataFile(options.data / f"{name}.csv.gz"), nominal=FILES[name], limit=options.limit)
            if name in FILES
            else read_table(SyntheticFile(GENERATED[name]), limit=options.limit)
            for name in options.sets.split(",")
        }
    except (RiparianError, KeyError) as error:
        sys.exit(f"auto: {error}")
    for task in (auto.CLASSIFICATION, auto.REGRESSION):
        mine = {name: table for name, table in tables.items() if table.schema.task == task}
        if mine:
            speeds(task, mine, options.rounds)
            sizes(task, mine)


def speeds(task: str, tables: Mapping[str, Table], rounds: int) -> None:
    """Print microseconds of a tree, as found and as estimated."""
    least = dict.fromkeys(tables, np.inf)
    for _ in range(rounds):
        for name, table in tables.items():
            least[name] = min(least[name], learn(table, auto.FOREST, n_models=TREES).microseconds / TREES)
    print(f"\n{task}: microseconds of a tree, of {TREES}\n")
    print(f"{'':<12}{'looked at':>10}{'classes':>9}{'found':>8}{'estimated':>10}")
    rows = []
    for name, table in tables.items():
        looked_at, n_classes = n_looked_at(table), table.schema.n_outputs
        estimated = auto.tree_microseconds(task, looked_at, n_classes)
        print(f"{name:<12}{looked_at:>10}{n_classes:>9}{least[name]:>8.2f}{estimated:>10.2f}")
        rows.append((1, looked_at, n_classes) if task == auto.CLASSIFICATION else (1, looked_at))
    fitted = ", ".join(f"{value:.3f}" for value in coefficients(rows, list(least.values())))
    print(f"least squares: {fitted}; estimates use: {auto.MICROSECONDS[task]}")


def sizes(task: str, tables: Mapping[str, Table]) -> None:
    """Print bytes of what `auto` is where memory is scarce, as found and as estimated."""
    print(f"\n{task}: KB with max_bytes {BYTES['max_bytes']:,}\n")
    print(f"{'':<12}{'model':<28}{'trees':>6}{'max_nodes':>10}{'nodes':>8}{'found':>8}{'estimated':>10}")
    for name, table in tables.items():
        resolved = auto.resolve(task, table.schema.n_values, table.schema.n_outputs, BYTES)
        found = learn(table, resolved.model, **resolved.parameters)
        n_trees, n_nodes = resolved.parameters.get("n_models", 1), resolved.parameters["max_nodes"]
        mean = found.learner.size()["n_nodes"] / n_trees
        cells = f"{n_trees:>6}{n_nodes:>10}{mean:>8.0f}{found.n_bytes / 1000:>8,.0f}{resolved.n_bytes / 1000:>10,.0f}"
        print(f"{name:<12}{resolved.model:<28}{cells}")


if __name__ == "__main__":
    main()
