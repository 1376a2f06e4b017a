"""Soft Hoeffding trees, soft trees and pools on files: accuracy or mean absolute error, growth on noise.

    python -m benchmarks.soft [--seeds 5] [--data ../shared/data] [--only SoHoT …]

Test-then-train with immediate labels, in file order; figures are means and standard deviations over the seeds of the
learner. A single soft Hoeffding tree and a Hoeffding tree draw nothing: they have one figure a file. Noise is 20,000
rows of eight numeric features and a class, or a target, that has nothing to do with them, anew for each seed.

What the paper measures is in benchmarks.papers.soft_hoeffding_trees.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers import data, frame
from benchmarks.papers.soft_hoeffding_trees import GRIDS, PAPER_TREE
from benchmarks.record import printed
from benchmarks.tables import Table
from riparian.models.contract import Schema
from riparian.models.registry import REGISTRY

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SoHoT": ("soft-hoeffding-tree", {}),
    "SoHoT, significance 1": ("soft-hoeffding-tree", {"significance": 1.0}),
    "SoHoT, alpha .3": ("soft-hoeffding-tree", {"alpha": 0.3}),
    "SoHoT, paper's settings": ("soft-hoeffding-tree", PAPER_TREE),
    "pool of 18 SoHoTs": ("model-pool", {"of": "soft-hoeffding-tree"}),
    "pool, paper's grid": ("model-pool", {"of": "soft-hoeffding-tree", "candidates": GRIDS["SoHoT"]}),
    "soft tree": ("soft-tree", {}),
    "5 soft trees": ("soft-tree", {"n_trees": 5}),
    "pool of 18 soft trees": ("model-pool", {"of": "soft-tree"}),
    "HT mc": ("hoeffding-tree", {"leaf_prediction": "mc"}),
    "HT nba": ("hoeffding-tree", {}),
    "FIMT-DD": ("fimt-dd", {}),
}
FILES = ("elec", "weather", "pendigits", "nursery", "splice", "fried", "abalone")
NOISE = ("noise, 2 classes", "noise, values")
N_NOISE = 20_000


def noise(name: str, seed: int) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N_NOISE, 8))
    if name.endswith("values"):
        return Table(Schema((0,) * 8, 1, "regression"), x, rng.normal(size=N_NOISE))
    return Table(Schema((0,) * 8, 2, "classification"), x, rng.integers(0, 2, N_NOISE).astype(float))


def draws(label: str) -> bool:
    """Whether a seed changes what a learner does."""
    return LEARNERS[label][0] in ("model-pool", "soft-tree")


def measure(label: str, options: argparse.Namespace) -> dict[str, list[frame.Run]]:
    """The runs of a learner by data set, one a seed."""
    model, parameters = LEARNERS[label]
    found: dict[str, list[frame.Run]] = {}
    for name in (*FILES, *NOISE):
        table = data.load(name, options.data) if name in FILES else None
        for seed in range(1, options.seeds + 1):
            rows = noise(name, seed) if name in NOISE else table
            if rows is None or rows.schema.task not in REGISTRY[model].tasks:
                break
            found.setdefault(name, []).append(frame.run(model, rows, seed, **parameters))
            if name in FILES and not draws(label):
                break
    return found


def row(label: str, cells: list[str]) -> None:
    print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def head(title: str, columns: list[str]) -> None:
    print(f"\n{title}\n")
    row("", columns)
    print("|---" * (len(columns) + 1) + "|")


def told(values: list[float], digits: int) -> str:
    """Mean and standard deviation."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def quality(runs: list[frame.Run]) -> str:
    if np.isnan(runs[0].mae):
        return told([run.accuracy for run in runs], 2)
    return told([run.mae for run in runs], 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--only", nargs="*", default=list(LEARNERS), choices=list(LEARNERS), metavar="NAME")
    options = parser.parse_args()
    results = {}
    for label in options.only:
        results[label] = measure(label, options)
        print(f"{label} done", flush=True)
    head("accuracy, %; of fried and abalone mean absolute error", list(FILES))
    for label, found in results.items():
        row(label, [quality(found[name]) if name in found else "" for name in FILES])
    head("nodes on noise", list(NOISE))
    for label, found in results.items():
        if LEARNERS[label][0] == "soft-hoeffding-tree":
            row(label, [told([run.n_nodes for run in found[name]], 1) for name in NOISE])


if __name__ == "__main__":
    with printed("soft"):
        main()
