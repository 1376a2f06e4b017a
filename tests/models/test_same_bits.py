"""Predictions have the same bits on a processor without fused multiply-add, and in code for any processor.

Learners run as is, and in another process (`python -m tests.models.test_same_bits`, which reads lines of cases) with
what the libraries of C and NumPy choose by the processor switched off. A tree is compiled for any processor of this
kind, too.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

from riparian.models.auto.auto import resolve
from riparian.models.contract import LEARN, PREDICT, Bags, Program, Schema
from riparian.models.registry import REGISTRY, create

ROOT = Path(__file__).resolve().parents[2]
LATE = 10
N = 2_000
EAGER = {"grace_period": 20, "delta": 0.2}  # for trees that would hardly grow in so few
GROWN = {"hoeffding-tree", "hoeffding-adaptive-tree", "extremely-fast-decision-tree", "stochastic-gradient-tree"}
FEWER = {"miti": 900, "quick-diverse-density": 300}  # which are fitted again and again to what they keep
PLAIN = {
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2,-AVX2_Usable,-AVX512F",
    "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__[name]),
}
CASES = [  # what is fitted by a library is that library's
    *(("auto", task) for task in ("classification", "regression")),
    *(
        (name, task)
        for name, entry in REGISTRY.items()
        if not entry.slow and not entry.cls.startswith("riparian.models.batch.")
        for task in entry.tasks
    ),
]
# Each group compiles little where nothing is compiled yet: `auto` calls most kernels.
GROUPS = [CASES[:1], CASES[1:2], *(CASES[i : i + 6] for i in range(2, len(CASES), 6))]
GENERIC = [("hoeffding-tree", "classification")]  # compiled once more, for 5 s


def stream(n):
    """Four numbers, a value, and a label of each kind, whose concept changes half way."""
    rng = np.random.default_rng(11)
    x = np.column_stack(
        (rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0] + [0.0, 50.0, 0.0, -1.0], rng.integers(0, 5, n))
    )
    score = x[:, 0] + 0.05 * (x[:, 1] - 50.0) + 4.0 * x[:, 2] * x[:, 3] + 0.3 * (x[:, 4] == 2.0)
    score[n // 2 :] *= -1.0
    noisy = score + rng.normal(size=n)
    x[rng.random((n, 5)) < 0.02] = np.nan
    return x, noisy, np.digitize(noisy, [-0.7, 0.7]).astype(float)


def learner_of(name, task):
    schema = Schema((0, 0, 0, 0, 5), 3 if task == "classification" else 2 if task == "multi-instance" else 1, task)
    if name != "auto":
        return create(name, schema, seed=3, **(EAGER if name in GROWN else {}))
    found = resolve(task, schema.n_values, schema.n_outputs, {})
    return create(found.model, schema, seed=3, **found.parameters)


def bits_of(name, task):
    """A hash of all predictions of a learner, and of its state."""
    n = FEWER.get(name, N)
    x, value, label = stream(n)
    learner = learner_of(name, task)
    out = np.zeros((n, learner.schema.n_outputs))
    if task == "multi-instance":
        size = np.arange(n) % 3 + 1
        x, label = Bags(np.cumsum(size) - size, size, np.repeat(x, size, axis=0)), np.minimum(label, 1.0)
    ops, rows = [], []
    for i in range(n):
        ops += [PREDICT] + [LEARN] * (i >= LATE)
        rows += [i] + [i - LATE] * (i >= LATE)
    at = np.array(rows, np.int32)
    y = value if task == "regression" else label
    learner.run(Program(np.array(ops, np.int8), at, y[at], np.ones(len(at))), x, out)
    assert len(np.unique(out)) > 1
    assert name not in GROWN or learner.size()["depth"] > 1
    digest = hashlib.sha256(out.tobytes())
    for array in learner.state():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def libraries():
    steps = np.arange(-7_000, 7_000) * 0.1
    return {
        "math": hashlib.sha256(repr([math.exp(x) for x in steps]).encode()).hexdigest(),
        "numpy": hashlib.sha256(np.exp(steps).tobytes()).hexdigest(),
    }


def main():
    print(json.dumps(libraries()), flush=True)
    for line in sys.stdin:
        print(json.dumps([bits_of(*case) for case in json.loads(line)]), flush=True)


@contextmanager
def elsewhere(**environment):
    """What C's library and NumPy come to in a process of that environment, and a function: which of some learners have
    other bits there."""
    command = [sys.executable, "-m", "tests.models.test_same_bits"]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def answer():
        line = process.stdout.readline()
        assert line, f"the process ended with {process.wait()}"
        return json.loads(line)

    def differing(cases):
        here = [bits_of(*case) for case in cases]  # kernels are compiled by then
        print(json.dumps(cases), file=process.stdin, flush=True)
        return [case for case, one, other in zip(cases, here, answer(), strict=True) if one != other]

    with process:
        yield answer(), differing


@pytest.fixture(scope="module")
def plain():
    """One process for all: to start one takes as long as many learners."""
    if not __cpu_features__.get("FMA3"):
        pytest.skip("this processor has no fused multiply-add: nothing could be switched off")
    with elsewhere(**PLAIN) as found:
        yield found


@pytest.mark.parametrize("cases", GROUPS, ids=lambda cases: "-".join(dict.fromkeys(name for name, _ in cases)))
def test_predictions_do_not_depend_on_what_the_libraries_choose_by_the_processor(plain, cases):
    others, differing = plain
    assert {name for name, bits in libraries().items() if others[name] != bits} == {"math", "numpy"}
    assert differing(cases) == []


def test_predictions_do_not_depend_on_the_processor_that_kernels_are_compiled_for():
    with elsewhere(NUMBA_CPU_NAME="generic") as (_, differing):
        assert differing(GENERIC) == []


if __name__ == "__main__":
    main()
