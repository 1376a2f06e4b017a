"""The effect of each choice in stochastic gradient trees: one row per variant, one column per data set.

    python -m benchmarks.gradient_trees [--data ../shared/data] [--rows 10000] [--only tuned paper …] [--shuffle SEED …]

Test-then-train in file order, immediate labels; accuracy in % (a prediction that is all zero is wrong), mean absolute
error for fried and abalone. Agrawal: function 0, perturbation 0.05, 100,000 instances, seed 1. With --shuffle rows come
in as many other orders as seeds are given: mean and standard error.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.frame import spread
from benchmarks.record import printed
from benchmarks.tables import NOMINAL, Table, read, test_then_train
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.streams.generators import agrawal

REGRESSIONS = ("fried", "abalone")
LEARNER = "stochastic-gradient-tree"

# What the paper's learner becomes step by step, and what the default loses or wins by each choice.
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {"preset": "paper"},
    "paper, grace 50, delta .01": {"preset": "paper", "grace_period": 50, "delta": 0.01},
    "paper, warm-up 100 replayed": {"preset": "paper", "warm_up": 100, "replay": True},
    "paper, bins made anew": {"preset": "paper", "rebin_period": 2000},
    "paper, one value against the rest": {"preset": "paper", "multiway": False},
    "paper, lambda on the mean": {"preset": "paper", "penalty_on": "mean"},
    "paper, linear leaves .1": {"preset": "paper", "linear_rate": 0.1},
    "paper, leaves move at every instance": {"preset": "paper", "leaf_update": "every-instance"},
    "tuned (default)": {},
    "leaves move when tested": {"leaf_update": "tested"},
    "no decay": {"decay": 1.0},
    "decay .9": {"decay": 0.9},
    "step x1": {"learning_rate": 1.0},
    "steps not bounded": {"largest_step": 1e9},
    "grace 200": {"grace_period": 200},
    "delta 1e-7": {"delta": 1e-7},
    "warm-up 1,000": {"warm_up": 1000},
    "warm-up not replayed": {"replay": False},
    "bins never made anew": {"rebin_period": 0},
    "quantile bins": {"binning": "quantiles"},
    "32 bins": {"n_bins": 32},
    "16 bins": {"n_bins": 16},
    "branch for each value": {"multiway": True},
    "not paired": {"paired": False},
    "gamma 0": {"node_cost": 0.0},
    "lambda .1": {"penalty": 0.1},
    "resets, delta .002": {"reset_delta": 0.002},
    "one tree for all classes": {"outputs": "one-tree"},
    "constant leaves": {"linear_rate": 0.0},
    "linear leaves .03": {"linear_rate": 0.03},
    "linear leaves .3": {"linear_rate": 0.3},
    "10 stages": {"n_stages": 10},
    "10 stages, one tree each": {"n_stages": 10, "outputs": "one-tree"},
    "boosted": {"preset": "boosted"},
    "boosted, all features": {"preset": "boosted", "feature_share": 1.0},
    "boosted, all instances": {"preset": "boosted", "poisson": False},
    "boosted, shrinkage .1": {"preset": "boosted", "shrinkage": 0.1},
    "boosted, resets .002": {"preset": "boosted", "reset_delta": 0.002},
    "boosted, constant leaves": {"preset": "boosted", "linear_rate": 0.0},
}


def tables(folder: Path, rows: int | None, shuffle: int | None) -> dict[str, Table]:
    found = {name: read(folder / f"{name}.csv.gz", nominal) for name, nominal in NOMINAL.items()}
    stream = agrawal.source(1).take(100_000)
    schema = Schema(stream.n_values, stream.n_classes, "classification")
    found["agrawal"] = Table(schema, stream.x, stream.y.astype(np.float64))
    found |= {name: read(folder / f"{name}.csv.gz", task="regression") for name in REGRESSIONS}
    for name, table in found.items():
        order = np.arange(len(table.y))
        if shuffle is not None:
            order = np.random.default_rng(shuffle).permutation(len(table.y))
        order = order[:rows]
        found[name] = Table(table.schema, np.ascontiguousarray(table.x[order]), np.ascontiguousarray(table.y[order]))
    return found


def measure(table: Table, parameters: dict[str, Any]) -> float:
    """Accuracy in %, or mean absolute error."""
    learner = create(LEARNER, table.schema, **parameters)
    out = np.zeros((len(table.y), table.schema.n_outputs))
    learner.run(test_then_train(table.y), table.x, out)
    if table.schema.task == "regression":
        return float(np.nanmean(np.abs(out[:, 0] - table.y)))  # NaN before the first label
    return 100.0 * float(((out.argmax(axis=1) == table.y) & (out.max(axis=1) > 0.0)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--rows", type=int, help="of each data set, from the beginning")
    parser.add_argument("--shuffle", type=int, nargs="+", metavar="SEED", help="in random orders instead of the files'")
    parser.add_argument("--only", nargs="+", metavar="VARIANT", help="variants whose names begin so")
    options = parser.parse_args()
    orders = [tables(options.data, options.rows, seed) for seed in options.shuffle or [None]]
    variants = {
        name: parameters
        for name, parameters in VARIANTS.items()
        if options.only is None or any(name.startswith(start) for start in options.only)
    }
    print(f"| | {' | '.join(orders[0])} |\n|{'---|' * (len(orders[0]) + 1)}")
    for variant, parameters in variants.items():
        cells = [
            spread([measure(data[name], parameters) for data in orders], 2 if name in REGRESSIONS else 1)
            for name in orders[0]
        ]
        print(f"| {variant} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    with printed("gradient_trees", "--shuffle"):
        main()
