"""How far the accuracy that is expected before labels come is from the one that labels show later.

    python -m benchmarks.estimated DATA

DATA is a folder with elec and weather (.csv.gz), in time order. Every 250 rows, the mean distance in points from the
accuracy of the last predictions, faded as the estimate is: of the accuracy that the last labels show, of the mean
calibrated confidence alone, and of the estimate.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.opinion_pool import late
from benchmarks.record import printed
from benchmarks.tables import NOMINAL, Table, read
from riparian.models.contract import PREDICT, Floats
from riparian.models.evaluation.estimation import FADING, Estimation
from riparian.models.registry import create

MODELS = (
    *(("hoeffding-tree", 0), ("mondrian-forest", 0), ("adaptive-random-forest", 0), ("adaptive-random-forest", 1)),
    ("auto", 0),
)
DELAYS = (200, 2000)
LOOK = 250


def distances(table: Table, model: str, seed: int, delay: int) -> Floats:
    """In points, of the last labels, of confidence alone, and of the estimate."""
    program, out = late(table, delay), np.zeros((len(table.y), table.schema.n_outputs))
    learner = create(model, table.schema, seed=seed)
    learner.run_with(program, table.x, out, [np.full_like(out, np.nan) for _ in range(learner.n_memos)])
    right = (out.argmax(1) == table.y) & (out.max(1) > 0.0)
    estimation, found, at = Estimation(), [], 0
    ends = np.flatnonzero(program.op == PREDICT) + 1
    for last in range(delay + 1000, len(table.y), LOOK):
        estimation.follow(program.part(at, ends[last]), out)
        at = ends[last]
        weights = FADING ** np.arange(last, -1, -1)
        truth = (weights * right[: last + 1]).sum() / weights.sum()
        observed, error, expected = estimation.observed(), estimation.error(), estimation.accuracy()
        assert observed is not None
        assert error is not None
        assert expected is not None
        found.append([abs(x - truth) for x in (observed, expected + error, expected)])
    return 100.0 * np.array(found).mean(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    print("| data | model | seed | labels late | the last labels | confidence alone | the estimate |")
    print("|---|---|---|---|---|---|---|")
    for name in ("elec", "weather"):
        table = read(folder / f"{name}.csv.gz", NOMINAL[name])
        for model, seed in MODELS:
            for delay in DELAYS:
                cells = " | ".join(f"{x:.2f}" for x in distances(table, model, seed, delay))
                print(f"| {name} | {model} | {seed} | {delay:,} | {cells} |", flush=True)


if __name__ == "__main__":
    with printed("estimated"):
        main()
