"""Whether learners stay as fast and as small as they were over ten million instances.

    nice python -m benchmarks.endurance [--n 10000000] [--models HT,HAT] [--changing] [--json endurance.json]

Test-then-train over a stream that never ends, in programs of 100,000 instances: Agrawal's function 1, or Friedman's.
--changing: another function every million, so that adaptive trees have something to do all the time. Speed is CPU time
of the learning thread, the median program of a million; the last million is held against the second, the first being
growth. Memory is the state's, against what `max_nodes` allows for this schema, and the resident memory of the process.
"""

import argparse
import json
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import MODELS
from benchmarks.tables import test_then_train
from models.contract import Learner, Schema
from models.ensemble.adaptation import WatchedTree
from models.ensemble.members import Ensemble
from models.registry import create
from models.streams import Stream, agrawal, friedman

MILLION = 1_000_000
STEP = 100_000


def million(number: int, regression: bool, changing: bool) -> Stream:
    """The instances of one million; if `changing`, the concept depends on its number."""
    turn = number if changing else 0
    if regression:
        return friedman.generate(MILLION, 100 + number, function=(0, 1, 2)[turn % 3])
    return agrawal.generate(MILLION, 100 + number, function=(0, 3, 1, 6)[turn % 4])


def allowed(learner: Learner | WatchedTree) -> int:
    """Bytes that max_nodes rows of the widest arrays of the state can take; of an ensemble, all members, each array of
    theirs stored with room to double; of a watched tree, as much again for the background tree."""
    if isinstance(learner, Ensemble):
        return 2 * sum(allowed(member) for member in learner.members)
    if isinstance(learner, WatchedTree):
        return 2 * allowed(learner.tree)
    state = learner.state()._asdict()
    if state["links"].ndim == 3:  # (trees, capacity, ...)
        capacity, most = state["links"].shape[1], int(learner.parameters()["max_nodes"])
        return sum(array.nbytes // capacity * most if array.ndim > 2 else array.nbytes for array in state.values())
    rows = len(state["links"])
    per_node = sum(array.nbytes // max(1, len(array)) for array in state.values() if len(array) == rows)
    blocks = state.get("blocks", state.get("stats"))
    if blocks is not None and len(blocks) != rows:
        per_node += blocks.nbytes // max(1, len(blocks))
    rest = sum(array.nbytes for name, array in state.items() if len(array) != rows and array is not blocks)
    return int(learner.parameters()["max_nodes"]) * per_node + 2 * rest


def endure(name: str, n_millions: int, changing: bool) -> dict[str, Any]:
    model = MODELS[name]
    found: dict[str, Any] = {"instances_per_second": [], "quality": [], "n_nodes": [], "state_bytes": []}
    learner = None
    for number in range(n_millions):
        stream = million(number, model.regression, changing)
        if learner is None:
            task = "regression" if model.regression else "classification"
            learner = create(model.ours[0], Schema(stream.n_values, stream.n_classes or 1, task), **model.ours[1])
            learner.warm_up()
        out = np.zeros((STEP, learner.schema.n_outputs))
        seconds, quality = [], 0.0
        for at in range(0, MILLION, STEP):
            x, y = np.ascontiguousarray(stream.x[at : at + STEP]), stream.y[at : at + STEP]
            program = test_then_train(y)
            start = time.thread_time()
            learner.run(program, x, out)
            seconds.append(time.thread_time() - start)
            quality += float(np.abs(out[:, 0] - y).sum() if model.regression else (out.argmax(axis=1) == y).sum())
        found["instances_per_second"].append(STEP / statistics.median(seconds))
        found["quality"].append((1.0 if model.regression else 100.0) * quality / MILLION)
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
    parser.add_argument("--changing", action="store_true", help="another function every million")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    n_millions = max(3, options.n // MILLION)
    report = {}
    print("          2nd and last million: thousand/s, ratio; nodes; state and its bound, MB; resident MB; % or MAE")
    for name in options.models.split(","):
        if name not in MODELS:
            parser.error(f"{name!r} is not one of {', '.join(MODELS)}")
        report[name] = found = endure(name, n_millions, options.changing)
        rates, state = found["instances_per_second"], found["state_bytes"]
        print(
            f"{name:10}{rates[1] / 1e3:8,.0f}{rates[-1] / 1e3:8,.0f}{found['last_to_second']:7.2f}"
            f"{found['n_nodes'][1]:8,}{found['n_nodes'][-1]:8,}{state[1] / 1e6:8.1f}{state[-1] / 1e6:8.1f}"
            f"{found['allowed_bytes'] / 1e6:8.1f}{found['resident_mb']:8.0f}{found['quality'][-1]:8.2f}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
