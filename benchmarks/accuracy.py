"""Prequential accuracy on the public data sets: test-then-train, file order, immediate labels, default parameters.

    python -m benchmarks.accuracy [--data ../shared/data] [--json accuracy.json] [--set delta=1e-7 …]

The anchors are MOA's figures on the same files, with confidence 1e-3. A prediction that is all zero (nothing is known
yet) counts as wrong. Values and classes get their codes in order of first sight.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.data import DataFile, texts
from models.contract import LEARN, PREDICT, Floats, Learner, Program, Schema
from models.registry import create

# Features that are categories though they look like numbers.
NOMINAL = {"elec": ("day",), "weather": (), "pendigits": (), "nursery": ("children",), "splice": ()}

TREES = ("hoeffding-tree", "extremely-fast-decision-tree")

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "last label": ("last-label", {}),
    "naive Bayes": ("naive-bayes", {}),
    "HT nba": ("hoeffding-tree", {}),
    "HT nb": ("hoeffding-tree", {"leaf_prediction": "nb"}),
    "HT mc": ("hoeffding-tree", {"leaf_prediction": "mc"}),
    "EFDT": ("extremely-fast-decision-tree", {}),
}

MOA = {
    "last label": {"elec": 85.33, "weather": 68.03, "pendigits": 10.29, "nursery": 23.94, "splice": 41.22},
    "naive Bayes": {"elec": 73.35, "weather": 69.22, "pendigits": 85.82, "nursery": 85.17, "splice": 93.86},
    "HT nba": {"elec": 81.94, "weather": 74.03, "pendigits": 89.18, "nursery": 90.74, "splice": 93.86},
    "HT mc": {"elec": 74.64, "weather": 72.19, "pendigits": 17.57, "nursery": 84.40, "splice": 51.82},
    "EFDT": {"elec": 82.32, "weather": 74.66, "pendigits": 88.76, "nursery": 89.90, "splice": 81.10},
}


class Table(NamedTuple):
    """x : (n, d) float64. y : (n,) class codes."""

    schema: Schema
    x: Floats
    y: Floats


def read(path: Path, nominal: tuple[str, ...]) -> Table:
    """A CSV whose last column is the class. nominal : features that are categories though they look like numbers."""
    file = DataFile(path)
    types = file.types(task="classification", nominal=nominal)
    wanted = [file.position(name, "a feature") for name in (*types.features, types.target)]
    x, y = [], []
    codes: list[dict[str, int]] = [{} for _ in wanted]
    for block in file.blocks(wanted):
        columns = [
            file.numbers(block, at, name) if kind == "numeric" else encode(block.columns[at], codes[at])
            for at, (name, kind) in enumerate(types.features.items())
        ]
        x.append(np.column_stack(columns))
        y.append(encode(block.columns[-1], codes[-1]))
    n_values = tuple(types.n_values.get(name, 0) for name in types.features)
    return Table(Schema(n_values, types.n_classes, "classification"), np.concatenate(x), np.concatenate(y))


def encode(column: list[str], codes: dict[str, int]) -> Floats:
    """Codes in order of first sight, NaN where missing. Mutates codes."""
    return np.array([np.nan if v is None else codes.setdefault(v, len(codes)) for v in texts(column)], dtype=np.float64)


def test_then_train(y: Floats) -> Program:
    """Predict row 0, learn row 0, predict row 1, …"""
    n = len(y)
    op = np.tile(np.array([PREDICT, LEARN], np.int8), n)
    labels = np.full(2 * n, np.nan)
    labels[1::2] = y
    return Program(op, np.repeat(np.arange(n, dtype=np.int32), 2), labels, np.ones(2 * n))


def accuracy(learner: Learner, table: Table) -> dict[str, Any]:
    out = np.zeros((len(table.y), learner.schema.n_outputs))
    learner.warm_up()
    start = time.perf_counter()
    learner.run(test_then_train(table.y), table.x, out)
    seconds = time.perf_counter() - start
    correct = (out.argmax(axis=1) == table.y) & (out.max(axis=1) > 0.0)
    return {
        "accuracy": 100.0 * float(correct.mean()),
        "n": len(table.y),
        "instances_per_second": len(table.y) / seconds,
        "state_bytes": learner.n_bytes,
        **learner.size(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="of the trees")
    options = parser.parse_args()
    extra = dict(pair.split("=", 1) for pair in options.set)
    tables = {name: read(options.data / f"{name}.csv.gz", nominal) for name, nominal in NOMINAL.items()}
    results: dict[str, dict[str, dict[str, Any]]] = {}
    print(f"{'accuracy % (MOA)':20}" + "".join(f"{name:>18}" for name in tables))
    for label, (model, parameters) in LEARNERS.items():
        more = extra if model in TREES else {}
        results[label] = {}
        for name, table in tables.items():
            results[label][name] = accuracy(create(model, table.schema, **parameters, **more), table)
        anchors = MOA.get(label, {})
        cells = (
            f"{figures['accuracy']:10.2f}" + (f" ({anchors[name]:5.2f})" if name in anchors else " " * 8)
            for name, figures in results[label].items()
        )
        print(f"{label:20}" + "".join(cells), flush=True)
    trees = [label for label, (model, _) in LEARNERS.items() if model in TREES]
    print("\nnodes, depth")
    for label in trees:
        cells = (f"{f['n_nodes']:>11}, {f['depth']:>3}   " for f in results[label].values())
        print(f"{label:20}" + "".join(cells))
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
