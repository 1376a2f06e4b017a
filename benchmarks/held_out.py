"""`auto` on streams by which nothing of it was chosen: beside itself in 10 µs, without `recent`, and its peers.

    python -m benchmarks.held_out [--n 10000] [--seeds 3] [--only bananas,mv] [--delay 0]

Data sets and generators are River's, which goes into an environment of its own below --folder, with pip, at the first
run. Generated streams have --n instances; *mixed* and *sine* turn round at each third, *friedman* changes at two
places. Test-then-train in the order given. Figures are accuracy in percent, of the last four the mean absolute error:
means over the seeds, with their standard error. The best single learner is the one whose mean is best, afterwards.
River's forest of ten is run once, where labels come at once.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.opinion_pool import late, singles, timed
from benchmarks.papers.frame import spread
from benchmarks.peers import FOLDER, MODELS, PeerError, command, find_river, run_river
from benchmarks.record import printed
from benchmarks.tables import Table
from riparian.models.auto.auto import resolve
from riparian.models.contract import Schema

# Name -> task, and River's expression; `n` is asked for, `turned(a, b)` changes from a to b and back.
STREAMS = {
    "bananas": ("classification", "datasets.Bananas()"),
    "image segments": ("classification", "datasets.ImageSegments()"),
    "phishing": ("classification", "datasets.Phishing()"),
    "random tree": (
        "classification",
        "synth.RandomTree(seed_tree=11, seed_sample=12, n_classes=4, n_num_features=5, n_cat_features=5, "
        "n_categories_per_feature=4, max_tree_depth=6, first_leaf_level=3, fraction_leaves_per_level=0.15)",
    ),
    "mixed": ("classification", "turned(*(synth.Mixed(classification_function=k, seed=13 + k) for k in (0, 1)))"),
    "sine": (
        "classification",
        "turned(*(synth.Sine(classification_function=k, seed=15 + k, has_noise=True) for k in (2, 3)))",
    ),
    "waveform": ("classification", "synth.Waveform(seed=17, has_noise=True)"),
    "mv": ("regression", "synth.Mv(seed=18)"),
    "planes": ("regression", "synth.Planes2D(seed=19)"),
    "friedman": (
        "regression",
        "synth.FriedmanDrift(drift_type='gsg', position=(n // 3, 2 * n // 3), transition_window=n // 10, seed=20)",
    ),
    "approval": ("regression", "datasets.TrumpApproval()"),
}
# Rows as arrays; what is no number gets codes in order of first sight, as do features of few whole numbers by name.
EXPORT = """
import itertools, sys
import numpy as np
from river import datasets
from river.datasets import synth
n = int(sys.argv[2])
def turned(a, b):
    a, b = iter(a.take(n)), iter(b.take(n))
    return [next(b if 3 * i // n == 1 else a) for i in range(n)]
rows = list(itertools.islice(iter(eval(sys.argv[3])), n))
names = list(rows[0][0])
codes, x = {}, np.zeros((len(rows), len(names)))
for j, name in enumerate(names):
    values = [row[name] for row, _ in rows]
    if isinstance(values[0], str) or str(name).startswith("x_cat"):
        known = codes.setdefault(j, {})
        values = [known.setdefault(value, len(known)) for value in values]
    x[:, j] = values
y = [label for _, label in rows]
classes = {}
if sys.argv[4] == "classification":
    y = [classes.setdefault(label, len(classes)) for label in y]
n_values = np.array([len(codes.get(j, ())) for j in range(len(names))])
np.savez(sys.argv[1], x=x, y=np.array(y, float), n_values=n_values)
"""
SHAPES: Mapping[str, Mapping[str, Any]] = {"auto": {}, "auto, 10 µs": {"max_microseconds": 10}}


def exported(python: Path, path: Path, n: int, task: str, expression: str) -> Table:
    command([str(python), "-c", EXPORT, str(path), str(n), expression, task])
    found = np.load(path)
    y = found["y"]
    n_outputs = 1 if task == "regression" else int(y.max()) + 1
    return Table(Schema(tuple(found["n_values"].tolist()), n_outputs, task), found["x"], y)


def row_of(table: Table, delay: int, seeds: int) -> dict[str, str]:
    """Cells by columns."""
    schema, program = table.schema, late(table, delay)
    sign, digits = (-1.0, 3) if schema.task == "regression" else (1.0, 2)

    def values(model: str, parameters: Mapping[str, Any]) -> list[float]:
        return [timed(table, program, model, dict(parameters), seed)[0] for seed in range(1, seeds + 1)]

    cells = {}
    for name, budget in SHAPES.items():
        found = resolve(schema.task, schema.n_values, schema.n_outputs, budget)
        every = found.parameters["members"]
        rest = {key: one for key, one in every.items() if key != "recent"}
        cells[name] = spread(values(found.model, found.parameters), digits)
        without = values(found.model, {**found.parameters, "members": rest}) if rest != every else None
        cells[f"{name}, without `recent`"] = spread(without, digits) if without else ""
    alone = {name: values(model, parameters) for name, (model, parameters) in singles(schema.task).items()}
    best = max(alone, key=lambda name: sign * float(np.mean(alone[name])))
    return cells | {"best single learner": f"{spread(alone[best], digits)} ({best})"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10_000, help="instances of generated streams")
    parser.add_argument("--delay", type=int, default=0, help="instances that labels are late")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default=",".join(STREAMS), help="streams, separated by commas")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where River is kept")
    options = parser.parse_args(arguments)
    try:
        python = find_river(options.folder)
    except PeerError as error:
        sys.exit(f"held_out: {error}")
    columns = None
    for name in options.only.split(","):
        task, expression = STREAMS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.npz"
            table = exported(python, path, options.n, task, expression)
            cells = {"stream": name, "rows": f"{len(table.y):,}", **row_of(table, options.delay, options.seeds)}
            if not options.delay:
                model, digits = ("ARF-Reg", 3) if task == "regression" else ("ARF", 2)
                cells["River's forest"] = f"{run_river(python, MODELS[model], path, len(table.y)).quality:.{digits}f}"
        if columns is None:
            columns = list(cells)
            print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
        print("| " + " | ".join(cells[column] for column in columns) + " |", flush=True)


if __name__ == "__main__":
    with printed("held_out"):
        main()
