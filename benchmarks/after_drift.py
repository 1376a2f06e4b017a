"""Accuracy after an abrupt drift: our adaptive trees and forests beside MOA's, on the same instances.

    python -m benchmarks.after_drift [--at 50000] [--after 10000] [--seeds 5]

Test-then-train in one order for all. The concept changes at instance --at (counted from 0), and the accuracy is that of
the --after instances from there on. Functions are counted from 1, as in the papers and in MOA (ours count from 0):
Agrawal 1 to 4, perturbation 0.05; SEA 1 to 3, noise 10 %. MOA's tree runs with the confidence of ours, 1e-3, its
forests with its defaults and ten trees, as ours.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import FOLDER, PeerError, find_moa, moa_rows, write_arff
from benchmarks.record import printed
from benchmarks.tables import test_then_train
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.generators import agrawal, sea

STREAMS = {"Agrawal 1 to 4": (agrawal, 0, 3), "SEA 1 to 3": (sea, 0, 2)}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "HT": ("hoeffding-tree", {}),
    "HAT": ("hoeffding-adaptive-tree", {}),
    "HAT, no early prediction": ("hoeffding-adaptive-tree", {"early_prediction": False}),
    "HAT, bootstrap": ("hoeffding-adaptive-tree", {"bootstrap": True}),
    "EFDT": ("extremely-fast-decision-tree", {}),
    "ARF": ("adaptive-random-forest", {}),
    "SRP": ("streaming-random-patches", {}),
}
MOA = {
    "MOA HAT": "trees.HoeffdingAdaptiveTree -c 0.001",
    "MOA ARF": "meta.AdaptiveRandomForest -s 10",
    "MOA SRP": "meta.StreamingRandomPatches -s 10",
}


def changing(kind: str, at: int, after: int, seed: int) -> Stream:
    """`at` instances of one concept, then `after` of another."""
    module, first, second = STREAMS[kind]
    one = module.source(2 * seed, function=first).take(at)
    two = module.source(2 * seed + 1, function=second).take(after)
    return one._replace(x=np.vstack([one.x, two.x]), y=np.concatenate([one.y, two.y]))


def ours(model: str, stream: Stream, at: int) -> float:
    """Accuracy in % from instance `at` on."""
    name, parameters = OURS[model]
    learner = create(name, Schema(stream.n_values, stream.n_classes, "classification"), seed=1, **parameters)
    out = np.zeros((len(stream.y), stream.n_classes))
    learner.run(test_then_train(stream.y), stream.x, out)
    return 100.0 * float((out.argmax(axis=1) == stream.y)[at:].mean())


def moas(jar: Path, model: str, stream: Stream, at: int, folder: Path) -> float:
    path = folder / "drift.arff"
    write_arff(path, stream)
    n = len(stream.y)
    window = f"(WindowClassificationPerformanceEvaluator -w {n - at})"
    task = f"EvaluatePrequential -l ({MOA[model]}) -s (ArffFileStream -f {path}) -e {window} -i {n} -f {n}"
    return float(moa_rows(jar, task)[-1]["classifications correct (percent)"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--at", type=int, default=50_000)
    parser.add_argument("--after", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where MOA is kept")
    options = parser.parse_args()
    jar = None
    try:
        jar = find_moa(options.folder)
    except PeerError as error:
        print(f"MOA is left out: {error}", file=sys.stderr)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in STREAMS:
            for seed in range(1, options.seeds + 1):
                stream = changing(kind, options.at, options.after, seed)
                for model in OURS:
                    told = ours(model, stream, options.at)
                    found.setdefault(model, {}).setdefault(kind, []).append(told)
                for model in () if jar is None else MOA:
                    assert jar is not None
                    told = moas(jar, model, stream, options.at, Path(folder))
                    found.setdefault(model, {}).setdefault(kind, []).append(told)
    print(f"| of {options.after:,} after it, % | {' | '.join(STREAMS)} |\n{'|---' * (1 + len(STREAMS))}|")
    for model, each in found.items():
        cells = (f"{statistics.mean(one):.2f} ({' '.join(f'{value:.2f}' for value in one)})" for one in each.values())
        print(f"| {model} | {' | '.join(cells)} |")


if __name__ == "__main__":
    with printed("campaign-after-drift"):
        main()
