"""How long kernels take to compile where none is in the cache, also beside another checkout of this repository.

    python -m benchmarks.compile_time [--beside ../before] [--models hoeffding-tree,adaptive-random-forest,auto]
        [--rounds 1]

Each run is a process of its own with an empty folder of kernels; runs of the checkouts alternate, by this environment's
Python. What counts is CPU time, of one process that compiles one kernel after the other: seconds in all, Python and its
imports among them, and how many kernels (of ours, and of numba inside them) were compiled. The schema is eight numeric
features and two nominal ones, and two classes. Figures go to benchmarks/results/compile_time.json after each run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.record import ROOT, write

MODELS = "hoeffding-tree,adaptive-random-forest,auto"
RUN = """
import json, sys, time
from numba.core import event
from riparian.models.auto import auto
from riparian.models.contract import Schema
from riparian.models.registry import create

with event.install_recorder("numba:compile") as compiled:
    schema, name, parameters = Schema((0,) * 8 + (3, 3), 2, "classification"), sys.argv[1], {}
    if name == "auto":
        found = auto.resolve(schema.task, schema.n_values, schema.n_outputs, {})
        name, parameters = found.model, found.parameters
    create(name, schema, seed=1, **parameters).warm_up()
started = sum(one.is_start for _, one in compiled.buffer)
print(json.dumps({"cpu_seconds": round(time.process_time(), 2), "compiled": started}))
"""


def run(checkout: Path, model: str) -> dict[str, Any]:
    """One model's kernels, all compiled anew."""
    with tempfile.TemporaryDirectory(prefix="riparian-bench-") as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(checkout)}
        command = [sys.executable, "-c", RUN, model]
        done = subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def commit_of(checkout: Path) -> str:
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty=+"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--beside", type=Path, help="folder of another checkout")
    parser.add_argument("--models", default=MODELS, help="separated by commas")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args(arguments)
    checkouts = [ROOT] if given.beside is None else [given.beside.resolve(), ROOT]
    figures: list[dict[str, Any]] = []
    for model in given.models.split(","):
        for number in range(given.rounds):
            for checkout in checkouts:
                row = {"model": model, "round": number, "of": commit_of(checkout), **run(checkout, model)}
                print(f"{model:24} {row['of']:14} {row['cpu_seconds']:8.1f} s  {row['compiled']} compiled", flush=True)
                figures.append(row)
                write("compile_time", figures)


if __name__ == "__main__":
    main()
