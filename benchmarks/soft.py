"""Soft Hoeffding trees, soft trees and pools: cross-entropy and AUROC on streams, accuracy on files, speed.

    python -m benchmarks.soft [--n 200000] [--seeds 3] [--data ../shared/data] [--only SoHoT …] [--json soft.json]
    python -m benchmarks.soft --against ../before --rounds 3 --n 50000 --only SoHoT "pool of 18 SoHoTs"

Test-then-train with immediate labels. Streams as in the paper's Table 1, from our own generators; figures are means
over the seeds. A prediction that is all zero counts as the uniform one, and as wrong. Speed is the processor time of
the one thread in the kernel, predicting and learning: other processes slow it by what they take of the caches and of a
shared core only. "features" is the mean share of features that matter in a rule (Eq. 5), over the last 10,000 instances
of a stream.

`--against` names a checkout of another commit (`git worktree add ../before COMMIT`): this tree and that one are
measured in turn, each round in a process of its own; given are the best round of each and their ratio. One seed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import NOMINAL, read, test_then_train
from models.contract import Floats, Learner, Schema
from models.registry import create
from models.soft.base import SoftModel
from models.streams.registry import Drift, open_source

# The middle of what the paper's Table 2 tunes, growth as slow.
PAPER = {"alpha": 0.3, "gamma": 1.0, "delta": 1e-7, "tie_threshold": 0.05, "grace_period": 400, "beta1": 0.9}
PAPER_GRID = (
    "max_depth=5,6,7; gamma=1,0.1; alpha=0.2,0.3,0.4; delta=1e-7; tie_threshold=0.05; grace_period=400; beta1=0.9"
)

LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SoHoT": ("soft-hoeffding-tree", {}),
    "SoHoT, alpha .3": ("soft-hoeffding-tree", {"alpha": 0.3}),
    "SoHoT, paper's settings": ("soft-hoeffding-tree", PAPER),
    "pool of 18 SoHoTs": ("model-pool", {}),
    "pool, paper's grid": ("model-pool", {"candidates": PAPER_GRID}),
    "soft tree": ("soft-tree", {}),
    "5 soft trees": ("soft-tree", {"n_trees": 5}),
    "pool of 18 soft trees": ("model-pool", {"of": "soft-tree"}),
    "HT mc": ("hoeffding-tree", {"leaf_prediction": "mc"}),
    "HT nba": ("hoeffding-tree", {}),
}


class Data(NamedTuple):
    schema: Schema
    x: Floats
    y: Floats


def drifting(functions: tuple[int, ...], n: int) -> list[Drift]:
    """Abrupt drifts to the functions after the first, at equal distances."""
    return [Drift(i * n // len(functions), 0, {"function": f}) for i, f in enumerate(functions) if i]


def streams(n: int, seed: int) -> Iterator[tuple[str, Data]]:
    """The paper's streams. Agrawal's functions count from 0: AGR_a goes through the paper's 1, 3, 4 and 7."""
    sea, agrawal = (0, 1, 2, 3), (0, 2, 3, 6)
    opened = {
        "SEA": open_source("sea", seed, {"noise": 0.0}, drifting(sea, n)),
        "HYP .0001": open_source("hyperplane", seed, {"n_drift": 10, "speed": 1e-4}),
        "HYP .001": open_source("hyperplane", seed, {"n_drift": 10, "speed": 1e-3}),
        "AGR_a": open_source("agrawal", seed, {"perturbation": 0.0}, drifting(agrawal, n)),
        "AGR_p": open_source("agrawal", seed, {"function": 0, "perturbation": 0.2}),
    }
    for name, source in opened.items():
        made = source.take(n)
        yield name, Data(Schema(made.n_values, made.n_classes, "classification"), made.x, made.y)


def auroc(score: Floats, y: Floats) -> float:
    """Area under the ROC curve of a score for class 1; ties count half."""
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2.0)[place]
    positive = y == 1
    p, q = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - p * (p + 1) / 2.0) / (p * q))


def measure(learner: Learner, data: Data) -> dict[str, float]:
    n, k = len(data.y), data.schema.n_outputs
    out = np.zeros((n, k))
    learner.warm_up()
    program = test_then_train(data.y)
    start = time.thread_time()
    learner.run(program, data.x, out)
    seconds = time.thread_time() - start
    known = out.max(axis=1) > 0.0
    p = np.where(known, out[np.arange(n), data.y.astype(int)], 1.0 / k)
    found = {
        "cross_entropy": float(-np.log(np.clip(p, 1e-15, 1.0)).mean()),
        "accuracy": 100.0 * float(((out.argmax(axis=1) == data.y) & known).mean()),
        "instances_per_second": n / seconds,
        "n_nodes": learner.size()["n_nodes"],
        "state_bytes": learner.n_bytes,
    }
    if k == 2:
        found["auroc"] = auroc(out[:, 1], data.y)
    if isinstance(learner, SoftModel):
        found["features"] = learner.important_features(data.x[-10_000:])
    return found


def row(label: str, cells: list[str]) -> None:
    print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def head(title: str, columns: list[str]) -> None:
    print(f"\n{title}\n")
    row("", columns)
    print("|---" * (len(columns) + 1) + "|")


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
    """Print the rates of this tree and another, and their ratio."""
    trees = {"before": options.against, "now": Path(__file__).resolve().parents[1]}
    best: dict[tuple[str, str, str], float] = {}
    for _ in range(options.rounds):
        for tree, path in trees.items():
            for label, found in rates(path, options).items():
                for name, rate in found.items():
                    best[tree, label, name] = max(rate, best.get((tree, label, name), 0.0))
    columns = list(dict.fromkeys(name for _, _, name in best))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, best of {options.rounds} rounds")
    head("thousand instances/s", columns)
    for label in options.only:
        for tree in trees:
            row(f"{label}, {tree}", [f"{best[tree, label, name] / 1e3:,.0f}" for name in columns])
        row(f"{label}, ratio", [f"{best['now', label, name] / best['before', label, name]:.2f}" for name in columns])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=200_000, help="instances a stream")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--only", nargs="*", default=list(LEARNERS), choices=list(LEARNERS), metavar="NAME")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--against", type=Path, help="a checkout to compare the speed with")
    parser.add_argument("--rounds", type=int, default=3, help="of a comparison")
    options = parser.parse_args()
    if options.against:
        compare(options)
        return
    tables = {name: Data(*read(options.data / f"{name}.csv.gz", nominal)) for name, nominal in NOMINAL.items()}
    results: dict[str, dict[str, dict[str, float]]] = {}
    for label in options.only:
        model, parameters = LEARNERS[label]
        runs: dict[str, list[dict[str, float]]] = {}
        for seed in range(1, options.seeds + 1):
            for name, data in streams(options.n, seed):
                runs.setdefault(name, []).append(measure(create(model, data.schema, seed=seed, **parameters), data))
        for name, data in tables.items():
            runs[name] = [measure(create(model, data.schema, seed=1, **parameters), data)]
        results[label] = {
            name: {figure: float(np.mean([run[figure] for run in found])) for figure in found[0]}
            for name, found in runs.items()
        }
        print(f"{label} done", flush=True)
    synthetic = [name for name in next(iter(results.values())) if name not in tables]
    head("cross-entropy / AUROC", synthetic)
    for label, found in results.items():
        row(label, [f"{found[s]['cross_entropy']:.3f} / {found[s]['auroc']:.3f}" for s in synthetic])
    head("accuracy, %, file order", list(tables))
    for label, found in results.items():
        row(label, [f"{found[name]['accuracy']:.2f}" for name in tables])
    head("thousand instances/s", [*synthetic, *tables])
    for label, found in results.items():
        row(label, [f"{found[name]['instances_per_second'] / 1e3:,.0f}" for name in [*synthetic, *tables]])
    head("features that matter in a rule, %", [*synthetic, *tables])
    for label, found in results.items():
        if "features" in found[synthetic[0]]:
            shares = [100.0 * found[name]["features"] for name in [*synthetic, *tables]]
            row(label, ["-" if np.isnan(share) else f"{share:.0f}" for share in shares])  # without a gate
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
