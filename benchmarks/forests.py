"""The figure of Xu et al. 2021: accuracy on a test set against labels learned, of streaming and batch trees.

    python -m benchmarks.forests [--data ../shared/data] [--sets "splice, nominal;pendigits"] [--seeds 6] [--points 5]
                                 [--pictures FOLDER]

Their split: of splice a random quarter (798) is the test set, pendigits has one of its own (the last 3,498 rows); the
training set is shuffled by the seed, and learned in batches of 100. Streaming learners go on from point to point,
scikit-learn's are fitted on everything up to each. "splice, ordinal" has its letters as the paper's numbers (A .25, C
.5, G .75, T 1, others 0), for all learners; in "splice, nominal" they are categories, one-hot for scikit-learn.

Writes one picture per data set, by the tools of `riparian evaluate --curve`. `python -m benchmarks.papers
streaming_forests` makes tables of the same runs. A learner that is not in the registry is left out, and named.
"""

import argparse
import gzip
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import NOMINAL, Table, read
from riparian.app.evaluation.figures.curves import Line, write
from riparian.models.contract import Floats, Schema
from riparian.models.registry import REGISTRY, create

ROOT = Path(__file__).resolve().parents[1]
BATCH = 100
ORDINAL = {"A": 0.25, "C": 0.5, "G": 0.75, "T": 1.0}
SETS = ("splice, nominal", "splice, ordinal", "pendigits")
TRAINING = {"pendigits": 7494, "cifar-10": 50_000}  # the first rows, where the test set comes after them

PAPER = {"n_trees": 100, "batch_size": BATCH, "window": 0, "replaced": "never"}
WINDOW = {"n_trees": 100, "batch_size": BATCH, "n_replaced": 3}
AVERAGE = {"vote": "average"}
REFERENCE = {**PAPER, "leaf_values": "overwrite", "bootstrap": True, "replaced": "fading"}
# Label -> model of the registry and its parameters.
STREAMING: dict[str, tuple[str, dict[str, Any]]] = {
    "SDF, window 1,000": ("streaming-decision-forest", WINDOW),
    "SDF, window 1,000, mean vote": ("streaming-decision-forest", WINDOW | AVERAGE),
    "SDF": ("streaming-decision-forest", PAPER),
    "SDF, mean vote": ("streaming-decision-forest", PAPER | AVERAGE),
    "SDF, overwritten": ("streaming-decision-forest", {**PAPER, "leaf_values": "overwrite"}),
    "SDF, as the reference": ("streaming-decision-forest", REFERENCE),
    "SDT, window 1,000": ("streaming-decision-tree", {"batch_size": BATCH}),
    "SDT": ("streaming-decision-tree", {"batch_size": BATCH, "window": 0}),
    "SDT, overwritten": ("streaming-decision-tree", {"batch_size": BATCH, "window": 0, "leaf_values": "overwrite"}),
    "Hoeffding tree": ("hoeffding-tree", {}),
    "Mondrian forest": ("mondrian-forest", {}),
    "Mondrian forest, as in its paper": (
        "mondrian-forest",
        {"aggregation": False, "split_below": 1.0, "vote_power": 0},
    ),
}
SHOWN = ("SDF, window 1,000", "SDF", "SDT", "Hoeffding tree", "Mondrian forest", "random forest", "decision tree")


class Split(NamedTuple):
    """One shuffle of a data set. batch_x, batch_test : what scikit-learn gets, numbers."""

    schema: Schema
    x: Floats
    y: Floats
    test: Floats
    test_y: Floats
    batch_x: Floats
    batch_test: Floats


def ordinal(path: Path) -> Floats:
    """The letters of splice as the paper's numbers."""
    with gzip.open(path, "rt") as file:
        rows = [line.rstrip("\n").split(",")[:-1] for line in file][1:]
    return np.array([[ORDINAL.get(letter, 0.0) for letter in row] for row in rows])


def numbers_of(name: str, table: Table, path: Path) -> Floats:
    """The features as scikit-learn gets them. path : of the data set."""
    if name == "splice, ordinal":
        return ordinal(path)
    columns = []
    for f, n_values in enumerate(table.schema.n_values):
        codes = table.x[:, f : f + 1]
        columns.append(codes == np.arange(n_values) if n_values else codes)
    return np.hstack(columns).astype(np.float64)


def split(name: str, table: Table, numbers: Floats, seed: int) -> Split:
    """Of one shuffle. numbers : of `numbers_of`."""
    rng, n = np.random.default_rng(seed), len(table.y)
    if name in TRAINING:
        training, test = rng.permutation(TRAINING[name]), np.arange(TRAINING[name], n)
    else:
        order = rng.permutation(n)
        test, training = order[: n - 3 * n // 4], order[n - 3 * n // 4 :]
    schema, x = table.schema, table.x
    if name == "splice, ordinal":
        schema, x = Schema((0,) * schema.n_features, schema.n_outputs, schema.task), numbers
    return Split(schema, x[training], table.y[training], x[test], table.y[test], numbers[training], numbers[test])


def accuracy(out: Floats, y: Floats) -> float:
    return float((out.argmax(axis=1) == y).mean())


def stream(model: str, parameters: dict[str, Any], data: Split, points: list[int], seed: int) -> dict[str, Any]:
    learner = create(model, data.schema, seed=seed, **parameters)
    learner.warm_up()
    found, done = [], 0
    for n in points:
        for a in range(done, n, BATCH):
            learner.learn_many(data.x[a : a + BATCH], data.y[a : a + BATCH])
        found.append(accuracy(learner.predict_many(data.test), data.test_y))
        done = n
    return {"model": model, "seed": seed, "curves": {"n": points, "accuracy": found}}


def batch(new: Callable[..., Any], data: Split, points: list[int], seed: int) -> dict[str, Any]:
    """The same of a classifier of scikit-learn."""
    found = []
    for n in points:
        fitted = new(random_state=seed).fit(data.batch_x[:n], data.y[:n])
        found.append(float((fitted.predict(data.batch_test) == data.test_y).mean()))
    return {"model": new.__name__, "seed": seed, "curves": {"n": points, "accuracy": found}}


def measure(name: str, table: Table, numbers: Floats, seeds: int, n_points: int) -> dict[str, Line]:
    """Label -> curves of all seeds."""
    batch_learners: dict[str, Callable[..., Any]] = {}
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.tree import DecisionTreeClassifier

        batch_learners = {"random forest": RandomForestClassifier, "decision tree": DecisionTreeClassifier}
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(seeds):
        data = split(name, table, numbers, seed)
        last = len(data.y) // BATCH
        points = [BATCH * (last * (k + 1) // n_points) for k in range(n_points)]
        for label, (model, parameters) in STREAMING.items():
            if model in REGISTRY:
                runs.setdefault(label, []).append(stream(model, parameters, data, points, seed))
        for label, new in batch_learners.items():
            runs.setdefault(label, []).append(batch(new, data, points, seed))
        print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
    return {label: Line(label, found) for label, found in runs.items()}


def best_first(lines: dict[str, Line]) -> list[Line]:
    return sorted(lines.values(), key=lambda line: -sum(run["curves"]["accuracy"][-1] for run in line.runs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sets", default=";".join(SETS), help=f"separated by semicolons, of {'; '.join(SETS)}")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--points", type=int, default=5, help="of each curve")
    parser.add_argument(
        "--pictures", type=Path, default=ROOT / "docs/evidence/learners", help="folder for a picture a data set"
    )
    options = parser.parse_args()
    missing = sorted({model for model, _ in STREAMING.values()} - set(REGISTRY))
    if missing:
        print(f"left out, not in the registry: {', '.join(missing)}", file=sys.stderr)
    for name in options.sets.split(";"):
        if name not in SETS:
            parser.error(f"{name!r} is not one of {'; '.join(SETS)}")
        file = name.split(",")[0]
        path = options.data / f"{file}.csv.gz"
        if not path.exists():
            parser.error(f"there is no {path}: name the folder of the public data sets by --data")
        table = read(path, NOMINAL[file])
        numbers = numbers_of(name, table, path)
        found = measure(name, table, numbers, options.seeds, options.points)
        shown = [line for line in best_first(found) if line.label in SHOWN]
        picture = options.pictures / f"forests-{name.replace(', ', '-')}.svg"
        write(picture, shown, ["accuracy"], "the test set", along="labels learned")


if __name__ == "__main__":
    main()
