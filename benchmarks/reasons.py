"""What reasons cost, and how often they name the feature that adds most.

    python -m benchmarks.reasons elec.csv.gz abalone.csv.gz ...

The target is in the last column; more than 20 different ones are a regression. A learner learns 4,000 rows, or all but
300. Of the 200 behind them: microseconds of CPU of this thread to predict one, and for the reasons of one, alone
and 200 together; and the share of them in which the feature that adds most is the one of the exact Shapley values, over
all sets of features. Also the share of a label's time that its prediction takes.
"""

import argparse
import time
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import write
from benchmarks.tables import NOMINAL, Table, read
from riparian.models.contract import Floats, Learner
from riparian.models.explanation.shapley import PERMUTATIONS, contributions, n_asked
from riparian.models.registry import create

LEARNED, ASKED, SEED = 4000, 200, 1
FOREST, POOL = "adaptive-random-forest", "opinion-pool"  # auto is the latter
LEARNERS = {"classification": ("hoeffding-tree", FOREST, POOL), "regression": ("fimt-dd", FOREST, POOL)}


def exact(learner: Learner, x: Floats, about: np.ndarray[Any, np.dtype[np.int64]]) -> Floats:
    """Shapley values over all sets of features, (n, d)."""
    n, d = x.shape
    known = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(np.bool_)
    values = np.array(
        [learner.predict_many(np.where(known, one, np.nan))[:, k] for one, k in zip(x, about, strict=True)]
    )
    size, found = known.sum(axis=1), np.zeros((n, d))
    weight = np.array([1.0 / (d * comb(d - 1, s)) for s in range(d)])
    for f in range(d):
        without = np.flatnonzero(~known[:, f])
        found[:, f] = ((values[:, without | 1 << f] - values[:, without]) * weight[size[without]]).sum(axis=1)
    return found


def measured(name: str, table: Table) -> dict[str, Any]:
    """The figures of one learner on one data set."""
    learner, n = create(name, table.schema, seed=SEED), min(LEARNED, len(table.y) - 300)
    learner.learn_many(table.x[: n // 2], table.y[: n // 2])
    began = time.thread_time()
    learner.learn_many(table.x[n // 2 : n], table.y[n // 2 : n])
    learning = 1e6 * (time.thread_time() - began) / (n - n // 2)
    x = np.ascontiguousarray(table.x[n : n + ASKED])
    about, rows = learner.predict_many(x).argmax(axis=1), np.arange(len(x), dtype=np.int32)
    keys = np.random.default_rng(SEED).integers(0, 2**31, len(x)).astype(np.uint64)

    def microseconds(what: Any) -> float:
        what()
        began = time.thread_time()
        what()
        return 1e6 * (time.thread_time() - began) / len(x)

    def singly() -> None:
        for i in range(len(x)):
            contributions(learner, x, rows[i : i + 1], about[i : i + 1], keys[i : i + 1])

    predicting = microseconds(lambda: [learner.predict_many(x) for _ in range(20)]) / 20
    found, truth = contributions(learner, x, rows, about, keys)[:, :-1], exact(learner, x, about)
    some = np.abs(truth).max(axis=1) > 1e-12
    same = np.abs(found).argmax(axis=1) == np.abs(truth).argmax(axis=1)
    return {
        "learner": name,
        "features": table.schema.n_features,
        "asked": n_asked(table.schema.n_features),
        "predict_us": predicting,
        "predicting_share": predicting / (predicting + learning),
        "reasons_us": microseconds(lambda: contributions(learner, x, rows, about, keys)),
        "reasons_alone_us": microseconds(singly),
        "with_reasons": float(some.mean()),
        "same_top": float(same[some].mean()),
    }


def shown(figures: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The table of the documentation."""
    heads = ["data", "learner", "to predict, µs", "reasons, µs, in blocks of 200", "one by one", "same feature first"]
    rows = [
        [
            each["data"],
            f"`{each['learner']}`",
            f"{each['predict_us']:.1f}",
            f"{each['reasons_us']:,.0f}",
            f"{each['reasons_alone_us']:,.0f}",
            f"{100 * each['same_top']:.0f} %",
        ]
        for each in figures
    ]
    return {"heads": heads, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    figures = []
    for file in parser.parse_args().files:
        name = file.name.split(".")[0]
        table = read(file, NOMINAL.get(name, ()))
        if table.schema.n_outputs > 20:
            table = read(file, NOMINAL.get(name, ()), "regression")
        for learner in LEARNERS[table.schema.task]:
            figures.append({"data": name} | measured(learner, table))
            print(" ".join(f"{v:.3g}" if isinstance(v, float) else str(v) for v in figures[-1].values()), flush=True)
    write("reasons", {"permutations": PERMUTATIONS, "tables": [shown(figures)], "rows": figures}, seed=SEED)


if __name__ == "__main__":
    main()
