"""Measures what models/auto/costs.py reckons: microseconds and bytes of each member that `auto`'s pool may have.

    python -m benchmarks.auto [--data ../shared/data] [--sets elec,splice] [--rounds 3]

Each member alone learns each data set, test-then-train, in steps of STEP instances, with the parameters that `auto`
gives it where it has all bytes to itself. The figure is the CPU time of its one thread, the least of the rounds, which
take turns over the data sets, so that other processes influence it as little as possible. Least squares over the data
sets say what MICROSECONDS could be. Bytes are the most that it took in memory, beside what is reckoned for its bound.
Then what `auto` is at several budgets, and what its pool took.
"""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import printed
from benchmarks.tables import NOMINAL, test_then_train
from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.files.synthetic import Recipe, SyntheticFile
from riparian.app.dataset.files.table import Table, read_table
from riparian.app.errors import RiparianError
from riparian.models.auto import auto, costs
from riparian.models.auto.values import Sight, Values
from riparian.models.entry import CLASSIFICATION, REGRESSION
from riparian.models.memory import live_bytes
from riparian.models.registry import create

ROOT = Path(__file__).resolve().parents[1]
STEP = 4096  # instances
FILES = {**NOMINAL, "fried": (), "abalone": ()}
GENERATED = {
    "agrawal": Recipe("agrawal", 20_000, 1),
    "rbf": Recipe("random-rbf", 20_000, 1, {"n_features": 30, "n_classes": 5}),
    "led": Recipe("led", 20_000, 1),
}
BUDGETS = (10.0, 25.0, 100.0, 200.0)  # microseconds of whole pools


class Found(NamedTuple):
    """What a run took.

    microseconds : an instance
    n_bytes : at most
    """

    microseconds: float
    n_bytes: int


def learn(table: Table, model: str, parameters: Mapping[str, Any]) -> Found:
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
        most = max(most, live_bytes(learner))
    return Found(1e6 * seconds / len(table.y), most)


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
    for task in (CLASSIFICATION, REGRESSION):
        mine = {name: table for name, table in tables.items() if table.schema.task == task}
        if mine:
            members(task, mine, options.rounds)
            pools(task, mine)


def shape_of(table: Table) -> costs.StreamShape:
    return costs.StreamShape(table.schema.task, table.schema.n_values, table.schema.n_outputs)


def sight_of(table: Table) -> Sight:
    """Of a stream that lists its values."""
    shape = shape_of(table)
    return Sight(shape.task, Values(shape.n_values), shape.n_classes, 64_000_000, 1e6)


def members(task: str, tables: Mapping[str, Table], rounds: int) -> None:
    """Print microseconds and KB of each member, as found and as reckoned, and what the coefficients could be."""
    for step in auto.steps(task):
        least = {name: Found(np.inf, 0) for name in tables}
        chosen = {name: auto.within(sight_of(table), [step], 64_000_000) for name, table in tables.items()}
        for _ in range(rounds):
            for name, table in tables.items():
                bounded = chosen[name]
                if bounded is not None:
                    parameters = {key: value for key, value in bounded[0][step.name].items() if key != "model"}
                    found = learn(table, step.model, parameters)
                    least[name] = Found(min(least[name].microseconds, found.microseconds), found.n_bytes)
        print(f"\n{task}: {step.name}, {step.model} {dict(step.parameters)}\n")
        print(f"{'':<12}{'µs found':>10}{'reckoned':>10}{'KB found':>10}{'reckoned':>10}")
        rows, values = [], []
        for name, (took, n_bytes) in least.items():
            bounded, shape = chosen[name], shape_of(tables[name])
            if bounded is not None:
                reckoned = costs.microseconds(shape, step.kind, step.n_trees)
                cells = f"{took:>10.2f}{reckoned:>10.2f}{n_bytes / 1000:>10,.0f}{bounded[1] / 1000:>10,.0f}"
                print(f"{name:<12}{cells}")
                rows.append(shape.columns[: len(costs.MICROSECONDS[task][step.kind])])
                values.append(took / step.n_trees)
        fitted = ", ".join(f"{value:.3f}" for value in coefficients(rows, values))
        print(f"least squares: {fitted}; in use: {costs.MICROSECONDS[task][step.kind]}")


def pools(task: str, tables: Mapping[str, Table]) -> None:
    """Print what `auto` is at each budget, and what it takes, as found and as reckoned."""
    print(f"\n{task}: what auto is\n")
    print(f"{'':<12}{'budget':>7}{'µs found':>10}{'reckoned':>10}{'KB found':>10}{'reckoned':>10}  members")
    for name, table in tables.items():
        for budget in BUDGETS:
            shape = shape_of(table)
            resolved = auto.resolve(task, shape.n_values, shape.n_classes, {"max_microseconds": budget})
            found = learn(table, resolved.model, resolved.parameters)
            cells = f"{found.microseconds:>10.1f}{resolved.microseconds:>10.1f}{found.n_bytes / 1000:>10,.0f}"
            print(f"{name:<12}{budget:>7.0f}{cells}{resolved.n_bytes / 1000:>10,.0f}  {resolved.parts}", flush=True)


if __name__ == "__main__":
    with printed("auto"):
        main()
