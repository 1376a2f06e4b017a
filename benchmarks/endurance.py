"""Whether learners stay as fast and as small over ten million instances.

    nice python -m benchmarks.endurance [--n 10000000] [--models HT,HAT] [--changing]
    nice python -m benchmarks.endurance --n 1000000 --part 100000 --models shrubs

Test-then-train over a stream that never ends, in ten programs a million (or --part): Agrawal's function 1, or
Friedman's. --changing: another function in each part, so that adaptive trees always have to adapt. Speed is CPU time of
the learning thread, the median program of a part; the last part is compared with the second, the first being growth.
Memory is the state's, against what `max_nodes` (shrubs: windows and trees) allows for this schema, and the resident
memory of the process.
"""

import argparse
import resource
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.peers import MODELS as PEERS
from benchmarks.peers import Model, chosen
from benchmarks.record import write
from benchmarks.tables import test_then_train
from riparian.models.contract import Learner, Schema
from riparian.models.ensemble.adaptation.watched_trees import WatchedTree
from riparian.models.ensemble.members import Ensemble
from riparian.models.mondrian.mondrian_forest import MondrianForest
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.generators import agrawal, friedman

MILLION = 1_000_000
SMALL = {"n_windows": 1, "window": 16, "n_trees": 4, "every": 1, "step": 2.0, "splits": "best", "ridge": 0.0}
MODELS = PEERS | {
    "shrubs": Model(("shrub-ensemble", {}), None, None),
    "shrubs-16": Model(("shrub-ensemble", SMALL), None, None),
}


def part_of(number: int, size: int, regression: bool, changing: bool) -> Stream:
    """The instances of one part; if `changing`, the concept depends on its number."""
    turn = number if changing else 0
    if regression:
        return friedman.source(100 + number, function=(0, 1, 2)[turn % 3]).take(size)
    return agrawal.source(100 + number, function=(0, 3, 1, 6)[turn % 4]).take(size)


def allowed(learner: Learner | WatchedTree) -> int:
    """Bytes that max_nodes rows of the widest arrays of the state can take; of an ensemble, all members, each array of
    theirs stored with room to double; of a watched tree, as much again for the background tree."""
    if isinstance(learner, Ensemble):
        return 2 * sum(allowed(member) for member in learner.members)
    if isinstance(learner, WatchedTree):
        return 2 * allowed(learner.tree)
    if learner.name == "shrub-ensemble":
        return allowed_shrubs(learner)
    state = learner.state()._asdict()
    if isinstance(learner, MondrianForest):  # (trees, capacity, ...)
        capacity, most = state["nodes"].shape[1], learner.most_nodes
        return sum(array.nbytes // capacity * most if array.ndim > 2 else array.nbytes for array in state.values())
    rows = len(state["links"])
    per_node = sum(array.nbytes // max(1, len(array)) for array in state.values() if len(array) == rows)
    blocks = state.get("blocks", state.get("stats"))
    if blocks is not None and len(blocks) != rows:
        per_node += blocks.nbytes // max(1, len(blocks))
    rest = sum(array.nbytes for name, array in state.items() if len(array) != rows and array is not blocks)
    most = getattr(learner, "most_nodes", None) or int(learner.parameters()["max_nodes"])
    return most * per_node + 2 * rest


def allowed_shrubs(learner: Learner) -> int:
    """Bytes of windows that are full of trees that are: a leaf of its own for each item."""
    parameters, schema = learner.parameters(), learner.schema
    n_trees, item = int(parameters["n_trees"]), 8 * (schema.n_features + 2)
    total = 0
    for k in range(int(parameters["n_windows"])):
        size = max(2, int(parameters["window"]) // 4**k)
        leaves = min(size, 2 ** min(int(parameters["max_depth"]), 40))
        tree = 2 * (2 * leaves - 1) + 8 * (leaves - 1) + (2 + 8 * schema.n_outputs) * leaves
        total += size * item + n_trees * (tree + 20) + 8 * n_trees * (n_trees + 1) // 2 + 128
    return total


def endure(name: str, n_parts: int, size: int, changing: bool) -> dict[str, Any]:
    model = MODELS[name]
    found: dict[str, Any] = {"instances_per_second": [], "quality": [], "n_nodes": [], "state_bytes": []}
    learner = None
    step = size // 10
    for number in range(n_parts):
        stream = part_of(number, size, model.regression, changing)
        if learner is None:
            task = "regression" if model.regression else "classification"
            learner = create(model.ours[0], Schema(stream.n_values, stream.n_classes or 1, task), **model.ours[1])
            learner.warm_up()
        out = np.zeros((step, learner.schema.n_outputs))
        seconds, quality = [], 0.0
        for at in range(0, size, step):
            x, y = np.ascontiguousarray(stream.x[at : at + step]), stream.y[at : at + step]
            program = test_then_train(y)
            start = time.thread_time()
            learner.run(program, x, out)
            seconds.append(time.thread_time() - start)
            quality += float(np.nansum(np.abs(out[:, 0] - y)) if model.regression else (out.argmax(axis=1) == y).sum())
        found["instances_per_second"].append(step / statistics.median(seconds))
        found["quality"].append((1.0 if model.regression else 100.0) * quality / size)
        found["n_nodes"].append(learner.size()["n_nodes"])
        found["state_bytes"].append(learner.n_bytes)
    assert learner is not None
    found["allowed_bytes"] = allowed(learner)
    found["resident_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    found["last_to_second"] = found["instances_per_second"][-1] / found["instances_per_second"][1]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=10 * MILLION)
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--part", type=int, default=MILLION, help="instances of which there is one figure")
    parser.add_argument("--changing", action="store_true", help="another function every part")
    options = parser.parse_args()
    names = chosen(parser, options.models, MODELS)
    n_parts = max(3, options.n // options.part)
    report = {}
    print("          2nd and last part: thousand/s, ratio; nodes; state and its bound, MB; resident MB; % or MAE")
    for name in names:
        report[name] = found = endure(name, n_parts, options.part, options.changing)
        rates, state = found["instances_per_second"], found["state_bytes"]
        print(
            f"{name:10}{rates[1] / 1e3:8,.0f}{rates[-1] / 1e3:8,.0f}{found['last_to_second']:7.2f}"
            f"{found['n_nodes'][1]:8,}{found['n_nodes'][-1]:8,}{state[1] / 1e6:8.1f}{state[-1] / 1e6:8.1f}"
            f"{found['allowed_bytes'] / 1e6:8.1f}{found['resident_mb']:8.0f}{found['quality'][-1]:8.2f}",
            flush=True,
        )
    write("campaign-endurance", report)


if __name__ == "__main__":
    main()
