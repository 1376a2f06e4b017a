"""Learners of anomalies beside others' of the same name, in one run: AUROC, and microseconds of CPU an instance.

    python -m benchmarks.anomaly [--n 5000] [--rounds 1] [--capymoa PYTHON]

Half-space trees run beside River's, in the environment of `benchmarks.peers` and behind its MinMaxScaler, as its
documentation advises; the online isolation forest beside CapyMOA's, by the Python of an environment that has it. All
score an instance before they learn it, and the first 250 are left out of the AUROC. Rounds are interleaved; medians
count.
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
# Of half-space trees: River's defaults, the paper's. Of the isolation forest: the authors', for both.
SIZES = ({"n_trees": 10, "height": 8}, {"n_trees": 25, "height": 15})
FOREST = {"n_trees": 32, "window": 2048, "leaf_size": 32}
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
CAPYMOA = """
import json, sys, time
import numpy as np
from capymoa.anomaly import OnlineIsolationForest
from capymoa.stream import NumpyStream
x = np.load(sys.argv[1])
stream = NumpyStream(x, np.arange(len(x)) % 2, dataset_name="x")
model = OnlineIsolationForest(schema=stream.get_schema(), random_seed=1, num_trees=int(sys.argv[2]),
    window_size=int(sys.argv[3]), max_leaf_samples=int(sys.argv[4]), n_jobs=1)
scores, start = [], time.process_time()
while stream.has_more_instances():
    instance = stream.next_instance()
    scores.append(float(model.score_instance(instance)))
    model.train(instance)
print(json.dumps({"seconds": time.process_time() - start, "scores": scores}))
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


def ours(name: str, parameters: dict[str, int], x: Floats, y: Floats) -> tuple[float, float]:
    schema = Schema((0,) * x.shape[1], 1, "anomaly")
    learner = create(name, schema, seed=1, **parameters)
    learner.warm_up()
    op, row = np.tile([PREDICT, LEARN], len(x)).astype(np.int8), np.repeat(np.arange(len(x), dtype=np.int32), 2)
    out = np.zeros((len(x), 1))
    program = Program(op, row, np.full(len(op), np.nan), np.ones(len(op)))
    start = time.thread_time()
    learner.run(program, x, out)
    return 1e6 * (time.thread_time() - start) / len(x), area(out[:, 0], y)


def theirs(python: Path, script: str, parameters: dict[str, int], path: Path, y: Floats) -> tuple[float, float]:
    found = json.loads(command([str(python), "-c", script, str(path), *map(str, parameters.values())]).splitlines()[-1])
    return 1e6 * found["seconds"] / len(y), area(np.array(found["scores"]), y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--capymoa", type=Path, metavar="PYTHON", help="of an environment that has CapyMOA")
    given = parser.parse_args()
    river = find_river(given.folder)
    runs: list[tuple[str, dict[str, int], Path | None, str]] = [
        ("half-space-trees", {**size, "window": WINDOW}, river, RIVER) for size in SIZES
    ]
    runs.append(("online-isolation-forest", FOREST, given.capymoa, CAPYMOA))
    print("| stream | learner | ours µs | AUROC | theirs µs | AUROC | times as fast |\n|---|---|---|---|---|---|---|")
    for name, drift in (("clusters", 0.0), ("moving clusters", 40.0)):
        x, y = stream(given.n, drift)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.npy"
            np.save(path, x)
            for learner, parameters, python, script in runs:
                rounds = [
                    (
                        ours(learner, parameters, x, y),
                        (np.nan, np.nan) if python is None else theirs(python, script, parameters, path, y),
                    )
                    for _ in range(given.rounds)
                ]
                mine, other = (statistics.median(one[side][0] for one in rounds) for side in (0, 1))
                ratio = statistics.median(their / own for (own, _), (their, _) in rounds)
                areas = [rounds[0][side][1] for side in (0, 1)]
                told = ", ".join(map(str, parameters.values()))
                print(f"| {name} | `{learner}` {told} | {mine:.1f} | {areas[0]:.4f} | {other:.0f} | {areas[1]:.4f} "
                      f"| {ratio:.0f} |")  # fmt: skip


if __name__ == "__main__":
    main()
