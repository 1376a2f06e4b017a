"""Half-space trees beside River's, in one run: AUROC, and microseconds of CPU an instance to score and learn it.

    python -m benchmarks.anomaly [--n 5000] [--rounds 1]

River runs in the environment of `benchmarks.peers`, behind its MinMaxScaler, as its documentation advises. Both score
an instance before they learn it, and the first window is left out of the AUROC. Rounds are interleaved; medians count.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from app.evaluation import auroc
from benchmarks.peers import FOLDER, command, find_river
from models.contract import LEARN, PREDICT, Floats, Program, Schema
from models.registry import create

WINDOW = 250
SIZES = ((10, 8), (25, 15))  # trees and height: River's defaults, the paper's
RIVER = """
import json, sys, time
import numpy as np
from river import anomaly, preprocessing
x = np.load(sys.argv[1])
rows = [dict(enumerate(row)) for row in x.tolist()]
model = preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(
    n_trees=int(sys.argv[2]), height=int(sys.argv[3]), window_size=int(sys.argv[4]), seed=1)
scores, start = [], time.thread_time()
for row in rows:
    scores.append(model.score_one(row))
    model.learn_one(row)
print(json.dumps({"seconds": time.thread_time() - start, "scores": scores}))
"""


def stream(n: int, drift: float) -> tuple[Floats, Floats]:
    """Two clusters of five features that move by `drift` over the stream; one instance in a hundred lies anywhere."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 5)) + 4.0 * rng.integers(0, 2, (n, 1)) + drift * np.linspace(0.0, 1.0, n)[:, None]
    y = (rng.random(n) < 0.01).astype(float)
    anywhere = rng.uniform(-4.0, 8.0, (n, 5)) + drift * np.linspace(0.0, 1.0, n)[:, None]
    return np.where(y[:, None] == 1.0, anywhere, x), y


def area(scores: Floats, y: Floats) -> float:
    p = scores[WINDOW:]
    return auroc.area(y[WINDOW:].astype(np.int64), np.column_stack((1.0 - p, p)), np.ones(len(p)))[1]


def ours(x: Floats, y: Floats, n_trees: int, height: int) -> tuple[float, float]:
    schema = Schema((0,) * x.shape[1], 1, "anomaly")
    learner = create("half-space-trees", schema, seed=1, n_trees=n_trees, height=height, window=WINDOW)
    learner.warm_up()
    op, row = np.tile([PREDICT, LEARN], len(x)).astype(np.int8), np.repeat(np.arange(len(x), dtype=np.int32), 2)
    out = np.zeros((len(x), 1))
    program = Program(op, row, np.full(len(op), np.nan), np.ones(len(op)))
    start = time.thread_time()
    learner.run(program, x, out)
    return 1e6 * (time.thread_time() - start) / len(x), area(out[:, 0], y)


def river(python: Path, path: Path, y: Floats, n_trees: int, height: int) -> tuple[float, float]:
    found = json.loads(command([str(python), "-c", RIVER, str(path), str(n_trees), str(height), str(WINDOW)]))
    return 1e6 * found["seconds"] / len(y), area(np.array(found["scores"]), y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args()
    python = find_river(given.folder)
    print(
        "| stream | trees, height | ours µs | AUROC | River µs | AUROC | times as fast |\n|---|---|---|---|---|---|---|"
    )
    for name, drift in (("clusters", 0.0), ("moving clusters", 40.0)):
        x, y = stream(given.n, drift)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.npy"
            np.save(path, x)
            for size in SIZES:
                rounds = [(ours(x, y, *size), river(python, path, y, *size)) for _ in range(given.rounds)]
                mine, theirs = (statistics.median(one[side][0] for one in rounds) for side in (0, 1))
                ratio = statistics.median(other / own for (own, _), (other, _) in rounds)
                areas = [rounds[0][side][1] for side in (0, 1)]
                print(f"| {name} | {size[0]}, {size[1]} | {mine:.1f} | {areas[0]:.4f} | {theirs:.0f} | {areas[1]:.4f} "
                      f"| {ratio:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
