"""The effect of each choice in shrub ensembles, and what they reach: one row per variant, one column per data set.

    python -m benchmarks.shrubs [--data ../shared/data] [--seeds 1] [--rows N] [--only default …] [--shuffle SEED]
    python -m benchmarks.shrubs --goals [--seeds 5]     the best setting of each data set, over several seeds

Test-then-train in file order, immediate labels; accuracy in % (a prediction that is all zero is wrong), mean absolute
error for fried and abalone; the mean over seeds. "Running" is the mean over the stream of the accuracy so far, which is
what the paper prints. Bytes are of the whole model in memory (models.memory), those of the state as it is stored are
"packed"; of both the most. Tables are markdown.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gradient_trees import REGRESSIONS, tables
from benchmarks.record import printed
from benchmarks.tables import Table, test_then_train
from riparian.models.memory import live_bytes
from riparian.models.registry import create

LEARNER = "shrub-ensemble"
# The paper's Algorithm 1: one gradient step a tree. Its authors' program takes 5 or 10 further ones.
PAPER: dict[str, Any] = {
    "n_windows": 1, "every": 1, "ridge": 0.0, "splits": "best", "window": 256, "max_depth": 8, "step": 0.5, "burn_in": 0
}  # fmt: skip

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper's, window 256": PAPER,
    "paper's, window 16": {**PAPER, "window": 16},
    "paper's, window 1,024, every 16th": {**PAPER, "window": 1024, "every": 16},
    "step 4": {**PAPER, "step": 4.0},
    "cross-entropy": {**PAPER, "loss": "cross-entropy"},
    "burn-in 5": {**PAPER, "burn_in": 5},
    "burn-in 20": {**PAPER, "burn_in": 20},
    "random splits": {**PAPER, "splits": "random"},
    "sqrt(d) features a node": {**PAPER, "max_features": "sqrt"},
    "random subspaces": {**PAPER, "max_features": "subspace"},
    "ridge .1": {**PAPER, "ridge": 0.1},
    "half out of bag": {**PAPER, "train_share": 0.5},
    "half out of bag, ridge .1": {**PAPER, "train_share": 0.5, "ridge": 0.1},
    "newest 32, equal weights": {**PAPER, "weighting": "equal"},
    "every 4th": {**PAPER, "every": 4},
    "depth 15": {**PAPER, "max_depth": 15},
    "4 members": {**PAPER, "n_trees": 4},
    "default, 1 window": {"n_windows": 1},
    "default, 2 windows": {"n_windows": 2},
    "default, best splits": {"splits": "best"},
    "default, ridge 0": {"ridge": 0.0},
    "default, ridge .1": {"ridge": 0.1},
    "default, half out of bag": {"train_share": 0.5},
    "default, equal weights": {"weighting": "equal"},
    "default, sqrt(d) features a node": {"max_features": "sqrt"},
    "default, random subspaces": {"max_features": "subspace"},
    "default, 16 trees": {"n_trees": 16},
    "default, every 32nd": {"every": 32},
    "default, step 4": {"step": 4.0},
}
ONE = {"n_windows": 1, "ridge": 0.0}
# The best of a grid, which was chosen on these rows, and what was to be reached with how many bytes.
GOALS: dict[str, tuple[dict[str, Any], float, int]] = {
    "elec": ({**ONE, "window": 16, "n_trees": 4, "every": 1, "step": 2.0, "splits": "best"}, 94.0, 2_000),
    "weather": (
        {
            **ONE, "window": 1024, "n_trees": 32, "every": 4, "max_depth": 8, "step": 0.5, "ridge": 0.3,
            "train_share": 0.5, "splits": "best",
        },
        78.5,
        1_000_000,
    ),
    "pendigits": ({"n_windows": 1, "window": 1024, "every": 4, "ridge": 0.1}, 97.2, 1_000_000),
    "nursery": ({**ONE, "window": 256, "every": 1, "step": 8.0, "splits": "best"}, 97.0, 1_000_000),
    "splice": ({"n_windows": 1, "window": 1024, "every": 8, "ridge": 0.1}, 93.4, 1_000_000),
}  # fmt: skip


def measure(table: Table, parameters: dict[str, Any], seed: int) -> dict[str, float]:
    learner = create(LEARNER, table.schema, seed=seed, **parameters)
    out = np.zeros((len(table.y), table.schema.n_outputs))
    program = test_then_train(table.y)
    most, packed, piece = 0, 0, 2 * max(1, len(table.y) // 16)
    for at in range(0, len(program.op), piece):
        learner.run(program.part(at, at + piece), table.x, out)
        most, packed = max(most, live_bytes(learner)), max(packed, learner.n_bytes)
    if table.schema.task == "regression":
        off = np.abs(out[:, 0] - table.y)
        known = ~np.isnan(off)  # not before the first label
        so_far = np.cumsum(np.where(known, off, 0.0)) / np.maximum(np.cumsum(known), 1)
    else:
        right = (out.argmax(axis=1) == table.y) & (out.max(axis=1) > 0.0)
        so_far = 100.0 * np.cumsum(right) / np.arange(1, len(table.y) + 1)
    scores = {"score": float(so_far[-1]), "running": float(so_far.mean())}
    return {**scores, "bytes": most, "packed": packed}


def mean(table: Table, parameters: dict[str, Any], seeds: int) -> dict[str, float]:
    """Over the seeds; of bytes the most of all. "deviation" is that of the scores."""
    found = [measure(table, parameters, seed) for seed in range(seeds)]
    scores = [one["score"] for one in found]
    return {
        "score": statistics.mean(scores),
        "deviation": statistics.pstdev(scores),
        "running": statistics.mean(one["running"] for one in found),
        "bytes": max(one["bytes"] for one in found),
        "packed": max(one["packed"] for one in found),
    }


def row(cells: list[str]) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def header(cells: list[str]) -> None:
    row(cells)
    print("|" + "---|" * len(cells))


def ablation(data: dict[str, Table], variants: dict[str, dict[str, Any]], seeds: int) -> None:
    header(["", *data, "KB on elec (packed)"])
    for name, parameters in variants.items():
        found = {
            key: mean(table, parameters, seeds)
            for key, table in data.items()
            if not (key in REGRESSIONS and parameters.get("loss") == "cross-entropy")
        }
        cells = [f"{found[key]['score']:.{2 if key in REGRESSIONS else 1}f}" if key in found else "" for key in data]
        row([name, *cells, f"{found['elec']['bytes'] / 1e3:,.1f} ({found['elec']['packed'] / 1e3:,.1f})"])


def goals(data: dict[str, Table], seeds: int) -> None:
    kinds = ["accuracy, %", "running, %", "KB, at most (packed)"]
    header(["", "setting", *kinds, "goal (packed)", *(f"default: {kind}" for kind in kinds)])
    for name, (parameters, goal, n_bytes) in GOALS.items():
        best, usual = mean(data[name], parameters, seeds), mean(data[name], {}, seeds)
        setting = ", ".join(f"{key} {value}" for key, value in parameters.items())
        cells = [
            [
                f"{found['score']:.2f} ± {found['deviation']:.2f}",
                f"{found['running']:.2f}",
                f"{found['bytes'] / 1e3:,.1f} ({found['packed'] / 1e3:,.1f})",
            ]
            for found in (best, usual)
        ]
        row([name, setting, *cells[0], f"{goal}, {n_bytes / 1e3:,.0f} KB", *cells[1]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, help="of each data set, from the beginning")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="in random order instead of the files'")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="variants whose names begin so")
    parser.add_argument("--goals", action="store_true", help="the best setting of each data set")
    options = parser.parse_args()
    data = tables(options.data, options.rows, options.shuffle)
    data.pop("agrawal")
    create(LEARNER, data["splice"].schema).warm_up()
    if options.goals:
        goals(data, options.seeds)
    else:
        wanted = {
            name: parameters
            for name, parameters in VARIANTS.items()
            if options.only is None or any(name.startswith(start) for start in options.only)
        }
        ablation(data, wanted, options.seeds)


if __name__ == "__main__":
    with printed("shrubs", "--goals"):
        main()
