"""Soft Hoeffding trees, soft trees and pools on files: accuracy or mean absolute error, growth on noise, speed.

    python -m benchmarks.soft [--n 50000] [--seeds 5] [--data ../shared/data] [--only SoHoT …]
    python -m benchmarks.soft --against ../before --rounds 3 --only SoHoT "pool of 18 SoHoTs"

Test-then-train with immediate labels, in file order; figures are means and standard deviations over the seeds of the
learner. A single soft Hoeffding tree and a Hoeffding tree draw nothing: they have one figure a file. Noise is 20,000
rows of eight numeric features and a class, or a target, that has nothing to do with them, anew for each seed. Speed is
the processor time of the one thread in the kernel, predicting and learning, on the files and on `--n` instances of some
generated streams: other processes slow it by what they take of the caches and of a shared core only.

`--against` names a checkout of another commit (`git worktree add ../before COMMIT`): this tree and that one are
measured in turn, each round in a process of its own; given are the best round of each and their ratio. One seed.

What the paper measures is in benchmarks.papers.soft_hoeffding_trees.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
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
STREAMS = ("SEA(5e5)", "HYP .001", "AGR_a", "AGR_p")
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
    for name in (*FILES, *NOISE, *STREAMS):
        table = data.load(name, options.data) if name in FILES else None
        if name in STREAMS:
            table = data.generate(name, 1, options.n)
        for seed in range(1, options.seeds + 1):
            rows = noise(name, seed) if name in NOISE else table
            if rows is None or rows.schema.task not in REGISTRY[model].tasks:
                break
            found.setdefault(name, []).append(frame.run(model, rows, seed, **parameters))
            if name in STREAMS or (name in FILES and not draws(label)):
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


def rate(runs: list[frame.Run]) -> float:
    """Instances a second, of the fastest run."""
    return max(run.n[-1] / run.seconds for run in runs)


def rates(tree: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Instances a second of every learner and data set, measured by a checkout in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        given = ["--n", str(options.n), "--seeds", "1", "--data", str(options.data.resolve()), "--json", file.name]
        command = [sys.executable, "-m", "benchmarks.soft", *given, "--only", *options.only]
        subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
        measured = json.loads(Path(file.name).read_text())
    return {
        label: {name: figures["instances_per_second"] for name, figures in found.items()}
        for label, found in measured.items()
    }


def compare(options: argparse.Namespace) -> None:
    """Print the rates of this tree and another on what both have, and their ratio."""
    trees = {"before": options.against, "now": Path(__file__).resolve().parents[1]}
    best: dict[tuple[str, str, str], float] = {}
    for _ in range(options.rounds):
        for tree, path in trees.items():
            for label, found in rates(path, options).items():
                for name, rate in found.items():
                    best[tree, label, name] = max(rate, best.get((tree, label, name), 0.0))
    everywhere = [(tree, label) for tree in trees for label in options.only]
    columns = [
        name for name in dict.fromkeys(key[2] for key in best) if all((*one, name) in best for one in everywhere)
    ]
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, best of {options.rounds} rounds")
    head("thousand instances/s", columns)
    for label in options.only:
        for tree in trees:
            row(f"{label}, {tree}", [f"{best[tree, label, name] / 1e3:,.0f}" for name in columns])
        row(f"{label}, ratio", [f"{best['now', label, name] / best['before', label, name]:.2f}" for name in columns])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=50_000, help="instances per stream")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--only", nargs="*", default=list(LEARNERS), choices=list(LEARNERS), metavar="NAME")
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--against", type=Path, help="a checkout to compare the speed with")
    parser.add_argument("--rounds", type=int, default=3, help="of a comparison")
    options = parser.parse_args()
    if options.against:
        compare(options)
        return
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
    columns = [*STREAMS, *FILES]
    head("thousand instances/s", columns)
    for label, found in results.items():
        row(label, [f"{rate(found[name]) / 1e3:,.0f}" if name in found else "" for name in columns])
    if options.json:
        each = {
            label: {name: {"instances_per_second": rate(runs)} for name, runs in found.items()}
            for label, found in results.items()
        }
        options.json.write_text(json.dumps(each) + "\n")


if __name__ == "__main__":
    with printed("soft", "--against"):
        main()
