"""Our forests beside MOA's on two streams of two features: squares that move, and a chessboard shown field by field.

    python -m benchmarks.two_features [--n 40000] [--seeds 1,2,3]

Test-then-train over the same rows in the same order, ten trees, the defaults: mean and standard deviation of the
accuracy in % over the seeds, which draw rows and trees of ours (MOA's have its one seed). MOA: see benchmarks.peers.
"""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import FOLDER, find_moa, moa_rows, quality_of, write_arff
from benchmarks.record import printed
from benchmarks.tables import test_then_train
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.generators import moving_squares, transient_chessboard

STREAMS = {"moving-squares": moving_squares, "transient-chessboard": transient_chessboard}
BOTH = "-o (Specified m (integer value)) -m 2"
ALONE = {"max_features": "all", "drift_detection": False}
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "random forest": ("adaptive-random-forest", {}),
    "patches": ("streaming-random-patches", {}),
    "patches, all features, no drift detection": ("streaming-random-patches", ALONE),
    "leveraging bagging": ("leveraging-bagging", {}),
}
MOA = {
    "MOA's random forest": "meta.AdaptiveRandomForest -s 10",
    "MOA's random forest, both features": f"meta.AdaptiveRandomForest -s 10 {BOTH}",
    "MOA's patches": "meta.StreamingRandomPatches -s 10",
    "MOA's patches, no drift detection": "meta.StreamingRandomPatches -s 10 -u",
    "MOA's leveraging bagging": "meta.LeveragingBag -s 10",
}


def ours(name: str, parameters: dict[str, Any], stream: Stream, seed: int) -> float:
    learner = create(name, Schema(stream.n_values, stream.n_classes, "classification"), seed=seed, **parameters)
    out = np.zeros((len(stream.y), stream.n_classes))
    learner.run(test_then_train(stream.y), stream.x, out)
    return quality_of(out, stream)


def moa(jar: Path, learner: str, path: Path, n: int) -> float:
    """In the order of the file."""
    task = f"EvaluatePrequential -l ({learner}) -s (ArffFileStream -f {path}) -i {n} -f {n}"
    row = moa_rows(jar, f"{task} -e BasicClassificationPerformanceEvaluator")[-1]
    return float(row["classifications correct (percent)"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=40_000, help="instances")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where MOA is kept")
    options = parser.parse_args()
    jar = find_moa(options.folder)
    found: dict[str, dict[str, list[float]]] = {who: {kind: [] for kind in STREAMS} for who in (*OURS, *MOA)}
    for kind, module in STREAMS.items():
        for seed in map(int, options.seeds.split(",")):
            stream = module.source(seed).take(options.n)
            with tempfile.TemporaryDirectory() as temporary:
                path = Path(temporary) / "stream.arff"
                write_arff(path, stream)
                for who, (name, parameters) in OURS.items():
                    found[who][kind].append(ours(name, parameters, stream, seed))
                for who, learner in MOA.items():
                    found[who][kind].append(moa(jar, learner, path, options.n))
    print(f"| | {' | '.join(f'`{kind}`' for kind in STREAMS)} |\n{'|---' * (1 + len(STREAMS))}|")
    for who, each in found.items():
        cells = (f"{statistics.mean(one):.1f} ± {statistics.pstdev(one):.1f}" for one in each.values())
        print(f"| {who} | {' | '.join(cells)} |")


if __name__ == "__main__":
    with printed("two_features"):
        main()
