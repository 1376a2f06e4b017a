"""Speed of the learners' kernels alone, against a floor measured in the same run; compile times, cold and warm.

    python -m benchmarks.kernels [--n 1000000] [--rounds 3]

A program of test-then-train (predict row r, learn row r) over a slab of generated rows runs in one kernel call. The
floor runs the same program over the same slab and learns nothing: it reads every feature of the row and writes a
prediction. Rounds are interleaved, the best one counts; wall-clock time of one thread. "late" is the same learner
with labels that come 1,000 instances later, so nothing of a prediction can be used again when its label is learned.
Compile times are those of a fresh process that warms up a tree and naive Bayes, with an empty and with a full cache.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np

from benchmarks.record import write
from riparian.models.contract import LEARN, PREDICT, Floats, Program, Schema
from riparian.models.kernels.kernel import kernel
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.generators import agrawal, led, random_rbf

LATE = 1_000

CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "HT nba": ("hoeffding-tree", {}, 0),
    "HT nba, late": ("hoeffding-tree", {}, LATE),
    "HT nb": ("hoeffding-tree", {"leaf_prediction": "nb"}, 0),
    "HT mc": ("hoeffding-tree", {"leaf_prediction": "mc"}, 0),
    "HT histograms": ("hoeffding-tree", {"observer": "histogram"}, 0),
    "EFDT": ("extremely-fast-decision-tree", {}, 0),
    "naive Bayes": ("naive-bayes", {}, 0),
    "majority class": ("majority-class", {}, 0),
}

COMPILE = """
import json, time
start = time.perf_counter()
from riparian.models.contract import Schema
from riparian.models.registry import create
schema = Schema((0, 3), 2, "classification")
learners = [create(name, schema) for name in ("hoeffding-tree", "naive-bayes")]
seconds = {"import": time.perf_counter() - start}
for learner in learners:
    start = time.perf_counter()
    learner.warm_up()
    seconds[learner.name] = time.perf_counter() - start
print(json.dumps(seconds))
"""


class Result(NamedTuple):
    """What a learner took.

    seconds : best of the rounds
    accuracy : %, of the whole stream
    """

    seconds: float
    accuracy: float
    state_bytes: int
    n_nodes: int


def test_then_train(y: Floats, delay: int) -> Program:
    """Predict row i, then learn row i - delay; the last labels follow at the end."""
    n = len(y)
    order = np.concatenate([np.arange(n) * 2.0, (np.arange(n) + delay) * 2.0 + 1.0]).argsort(kind="stable")
    op = np.repeat(np.array([PREDICT, LEARN], np.int8), n)[order]
    row = np.tile(np.arange(n, dtype=np.int32), 2)[order]
    return Program(op, row, np.where(op == LEARN, y[row], np.nan), np.ones(2 * n))


@kernel
def pass_over(op, row, y, w, slab, out, totals):
    """The floor: every feature of a row is read, a prediction is written, a number a class is kept."""
    for i in range(len(op)):
        r = row[i]
        sum_of_row = 0.0
        for f in range(slab.shape[1]):
            sum_of_row += slab[r, f]
        if op[i] == PREDICT:
            for c in range(out.shape[1]):
                out[r, c] = totals[c] + sum_of_row
        else:
            totals[int(y[i])] += w[i]


def timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(stream: Stream, rounds: int) -> tuple[float, dict[str, Result]]:
    """Best seconds of the floor, and the result of every case."""
    schema = Schema(stream.n_values, stream.n_classes, "classification")
    out = np.zeros((len(stream.y), stream.n_classes))
    totals = np.zeros(stream.n_classes)
    programs = {delay: test_then_train(stream.y, delay) for delay in (0, LATE)}
    pass_over(*test_then_train(stream.y[:1], 0), stream.x, out, totals)
    for name, parameters, _ in CASES.values():
        create(name, schema, **parameters).warm_up()
    floor = np.inf
    results: dict[str, Result] = {}
    for _ in range(rounds):
        floor = min(floor, timed(lambda: pass_over(*programs[0], stream.x, out, totals)))
        for label, (name, parameters, delay) in CASES.items():
            learner = create(name, schema, **parameters)
            out[:] = 0.0
            seconds = timed(partial(learner.run, programs[delay], stream.x, out))
            if label in results:
                seconds = min(seconds, results[label].seconds)
            correct = (out.argmax(axis=1) == stream.y) & (out.max(axis=1) > 0.0)
            results[label] = Result(seconds, 100.0 * float(correct.mean()), learner.n_bytes, learner.size()["n_nodes"])
    return floor, results


def compile_seconds() -> dict[str, dict[str, float]]:
    """Of a process with an empty cache, and of the next one."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        found = {}
        for state in ("cold", "warm"):
            done = subprocess.run(
                [sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True, check=True
            )
            found[state] = json.loads(done.stdout)
            found[state]["total"] = sum(found[state].values())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1_000_000, help="instances per stream")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report: dict[str, Any] = {
        "n": options.n,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
        "compile_seconds": compile_seconds(),
        "streams": {},
    }
    for state, seconds in report["compile_seconds"].items():
        print(f"compile, {state}: " + ", ".join(f"{part} {value:.2f} s" for part, value in seconds.items()))
    generators = {"agrawal": agrawal, "led": led, "random_rbf": random_rbf}
    for name, module in generators.items():
        floor, results = measure(module.source(1).take(options.n), options.rounds)
        report["streams"][name] = {
            "floor_instances_per_second": options.n / floor,
            **{
                label: {
                    "instances_per_second": options.n / result.seconds,
                    "of_the_floor": floor / result.seconds,
                    **result._asdict(),
                }
                for label, result in results.items()
            },
        }
        title = f"{name}, {options.n:,} instances"
        print(f"\n{title:36}{'M inst./s':>10}{'floor':>8}{'acc. %':>8}{'nodes':>7}{'KB':>9}")
        print(f"{'floor':36}{options.n / floor / 1e6:10.2f}{1.0:8.3f}")
        for label, result in results.items():
            print(
                f"{label:36}{options.n / result.seconds / 1e6:10.2f}{floor / result.seconds:8.3f}"
                f"{result.accuracy:8.2f}{result.n_nodes:7}{result.state_bytes / 1e3:9.0f}",
                flush=True,
            )
    write("kernels", report)


if __name__ == "__main__":
    main()
