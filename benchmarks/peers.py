"""Speed and quality of our learners beside MOA's and River's, in one run: one thread each, the same instances.

    python -m benchmarks.peers [--models HT,HAT] [--streams agrawal] [--n 1000000] [--river-n 50000] [--rounds 3]

Every figure is CPU time of the thread that learns, reading and decoding left out: ours of one kernel call over a
program of test-then-train, MOA's what its own loop (EvaluatePrequential) reports over instances that were cached (and
so shuffled: the same ones in another order), River's of predict_one and learn_one over dicts made before. MOA is
compiled while it runs: give it a million instances. River is slow: it gets the first --river-n, and is compared with
ours over the same ones. Rounds are interleaved; ratios are taken within a round; medians count.

MOA comes from CapyMOA's wheel, River into an environment of its own, both below --folder, with pip, at the first run. A
peer that cannot be had is named, and the others are measured. A further learner is a line in MODELS.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import write
from benchmarks.tables import test_then_train
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.models.streams import Stream
from riparian.models.streams.generators import agrawal, friedman, led, random_rbf, sea

FOLDER = Path(__file__).resolve().parents[1] / ".riparian" / "peers"
JAR = "capymoa/jar/moa.jar"
STREAMS = {"agrawal": agrawal, "led": led, "rbf": random_rbf, "sea": sea, "fried": friedman}
REGRESSION = "fried"


class Model(NamedTuple):
    """A learner here and at the peers.

    ours : name and parameters
    moa : as its command line has it
    river : an expression; `nominal` is the list of nominal features. None where a peer has none.
    note : what is not alike
    """

    ours: tuple[str, dict[str, Any]]
    moa: str | None
    river: str | None
    regression: bool = False
    note: str = ""


# Of ensembles; the parameters of the tree alone.
MOA_TREE = "(trees.HoeffdingTree -c 0.001)"
RIVER_TREE = "tree.HoeffdingTreeClassifier(delta=1e-3, nominal_attributes=nominal)"

MODELS = {
    "HT": Model(
        ("hoeffding-tree", {}),
        "trees.HoeffdingTree -c 0.001",
        "tree.HoeffdingTreeClassifier(delta=1e-3, nominal_attributes=nominal)",
    ),
    "HAT": Model(
        ("hoeffding-adaptive-tree", {}),
        "trees.HoeffdingAdaptiveTree -c 0.001",
        "tree.HoeffdingAdaptiveTreeClassifier(delta=1e-3, nominal_attributes=nominal, seed=1)",
    ),
    "EFDT": Model(
        ("extremely-fast-decision-tree", {}),
        "trees.EFDT -c 0.001",
        "tree.ExtremelyFastDecisionTreeClassifier(delta=1e-3, nominal_attributes=nominal)",
    ),
    "OzaBag": Model(
        ("online-bagging", {}),
        f"meta.OzaBag -s 10 -l {MOA_TREE}",
        f"ensemble.BaggingClassifier({RIVER_TREE}, n_models=10, seed=1)",
    ),
    "LevBag": Model(
        ("leveraging-bagging", {}),
        f"meta.LeveragingBag -s 10 -l {MOA_TREE}",
        f"ensemble.LeveragingBaggingClassifier({RIVER_TREE}, n_models=10, seed=1)",
    ),
    "SmoothBoost": Model(
        ("smooth-boost", {}),
        f"meta.OnlineSmoothBoost -s 10 -l {MOA_TREE}",
        None,
    ),
    "OzaBoost": Model(
        ("online-boosting", {}),
        f"meta.OzaBoost -s 10 -l {MOA_TREE}",
        f"ensemble.AdaBoostClassifier({RIVER_TREE}, n_models=10, seed=1)",
    ),
    "ARF": Model(
        ("adaptive-random-forest", {}),
        "meta.AdaptiveRandomForest -s 10",
        "forest.ARFClassifier(n_models=10, seed=1, nominal_attributes=nominal)",
        note="ours looks at half of the features a leaf, MOA's at 60 %, River's at their square root",
    ),
    "SRP": Model(
        ("streaming-random-patches", {}),
        "meta.StreamingRandomPatches -s 10",
        "ensemble.SRPClassifier(model=tree.HoeffdingTreeClassifier(grace_period=50, delta=0.01, "
        "nominal_attributes=nominal), n_models=10, seed=1)",
    ),
    "SGT": Model(
        ("stochastic-gradient-tree", {}),
        "trees.StochasticGradientTree",
        "tree.SGTClassifier(nominal_attributes=nominal)",
        note="ours has its tuned preset, the others the paper's settings; River's knows two classes",
    ),
    "SGT-paper": Model(
        ("stochastic-gradient-tree", {"preset": "paper"}),
        "trees.StochasticGradientTree",
        "tree.SGTClassifier(nominal_attributes=nominal)",
        note="the paper's settings for all",
    ),
    "AMF": Model(
        ("mondrian-forest", {}),
        None,
        "forest.AMFClassifier(n_estimators=10, seed=1)",
        note="River has no bound and no scaling; ours 4,001 nodes a tree, and scaled features",
    ),
    "FIMT-DD": Model(
        ("fimt-dd", {}),
        "trees.FIMTDD",
        "tree.HoeffdingAdaptiveTreeRegressor(grace_period=100, delta=0.01, nominal_attributes=nominal, seed=1)",
        regression=True,
        note="River has no FIMT-DD: its adaptive regression tree is the nearest",
    ),
    "ARF-Reg": Model(
        ("adaptive-random-forest", {}),
        "meta.AdaptiveRandomForestRegressor -s 10",
        "forest.ARFRegressor(n_models=10, seed=1)",
        regression=True,
        note="ours looks at half of the features a leaf, MOA's at 60 %, River's at their square root",
    ),
}

RIVER = """
import json, sys, time
import numpy as np
from river import tree, ensemble, forest, naive_bayes
data = np.load(sys.argv[1])
n = int(sys.argv[2])
regression = sys.argv[3] == "regression"
n_values = data["n_values"].tolist()
nominal = [f"x{j}" for j, k in enumerate(n_values) if k]
names = [f"x{j}" for j in range(len(n_values))]
kinds = [int if k else float for k in n_values]
xs = [{name: kind(v) for name, kind, v in zip(names, kinds, row)} for row in data["x"][:n].tolist()]
ys = data["y"][:n].tolist() if regression else data["y"][:n].astype(int).tolist()
model = eval(sys.argv[4])
predicted = []
start = time.thread_time()
for x, y in zip(xs, ys):
    predicted.append(model.predict_one(x))
    model.learn_one(x, y)
seconds = time.thread_time() - start
if regression:
    quality = sum(abs((p or 0.0) - y) for p, y in zip(predicted, ys)) / n
else:
    quality = 100.0 * sum(p == y for p, y in zip(predicted, ys)) / n
print(json.dumps({"seconds": seconds, "quality": quality}))
"""


class PeerError(Exception):
    """A peer cannot be had, or has failed; says why."""


class Figure(NamedTuple):
    """What a learner reached.

    rate : instances/s of CPU time
    quality : accuracy in %, or mean absolute error
    """

    rate: float
    quality: float


def command(arguments: list[str], seconds: float = 1800.0) -> str:
    """Standard output of a process. PeerError where it fails."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{arguments[0]}: {error}") from error
    if done.returncode != 0:
        raise PeerError(f"{Path(arguments[0]).name} failed: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def find_moa(folder: Path) -> Path:
    """MOA's jar, out of CapyMOA's wheel. PeerError without Java or network."""
    if shutil.which("java") is None:
        raise PeerError("there is no java")
    jar = folder / "moa.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as temporary:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary, "capymoa"]
            command(pip)
            with zipfile.ZipFile(next(Path(temporary).glob("*.whl"))) as wheel:
                unpacked = Path(wheel.extract(JAR, temporary))
            shutil.copyfile(unpacked, jar.with_suffix(".part"))
        jar.with_suffix(".part").rename(jar)
    return jar


def find_river(folder: Path) -> Path:
    """The Python of an environment with River."""
    python = folder / "river" / "bin" / "python"
    if not (folder / "river" / "installed").exists():
        command([sys.executable, "-m", "venv", str(folder / "river")])
        command([str(python), "-m", "pip", "install", "--quiet", "river"])
        (folder / "river" / "installed").touch()
    return python


def write_arff(path: Path, stream: Stream) -> None:
    """As MOA reads it; numbers to the last bit, what is missing as a question mark."""
    kinds = [(f"x{j}", values) for j, values in enumerate(stream.n_values)] + [("y", stream.n_classes)]
    columns = [
        ["?" if value != value else form(value) for value in column.tolist()]
        for (_, values), column in zip(kinds, [*stream.x.T, stream.y], strict=True)
        for form in ("{:.0f}".format if values else repr,)
    ]
    with path.open("w") as file:
        file.write("@relation stream\n")
        for name, values in kinds:
            kind = "numeric" if not values else "{" + ",".join(map(str, range(values))) + "}"
            file.write(f"@attribute {name} {kind}\n")
        file.write("@data\n")
        file.writelines(",".join(row) + "\n" for row in zip(*columns, strict=True))


def quality_of(out: np.ndarray, stream: Stream) -> float:
    """Accuracy in %, a prediction that is all zero counted as wrong; or the mean absolute error."""
    if stream.n_classes == 0:
        return float(np.nanmean(np.abs(out[:, 0] - stream.y)))  # NaN before the first label
    return 100.0 * float(((out.argmax(axis=1) == stream.y) & (out.max(axis=1) > 0.0)).mean())


def run_ours(model: Model, stream: Stream) -> Figure:
    name, parameters = model.ours
    schema = Schema(stream.n_values, stream.n_classes or 1, "regression" if model.regression else "classification")
    learner = create(name, schema, seed=1, **parameters)
    learner.warm_up()
    out = np.zeros((len(stream.y), schema.n_outputs))
    program = test_then_train(stream.y)
    start = time.thread_time()
    learner.run(program, stream.x, out)
    seconds = time.thread_time() - start
    return Figure(len(stream.y) / seconds, quality_of(out, stream))


def moa_rows(jar: Path, task: str, seconds: float = 1800.0) -> list[dict[str, str]]:
    """What a task of MOA prints, one row an evaluation. seconds : when it is given up."""
    java = ["java", "-XX:+UseSerialGC", "-Xmx4g", "-cp", str(jar), "moa.DoTask", task]
    lines = command(java, seconds).splitlines()
    heads = [i for i, line in enumerate(lines) if line.startswith("learning evaluation instances")]
    if not heads:
        raise PeerError(f"MOA printed no figures for {task}")
    names = lines[heads[0]].split(",")
    return [dict(zip(names, line.split(","), strict=False)) for line in lines[heads[0] + 1 :] if line]


def run_moa(jar: Path, model: Model, path: Path, n: int) -> Figure:
    evaluator, error = ("BasicClassificationPerformanceEvaluator", "classifications correct (percent)")
    task = "EvaluatePrequential"
    if model.regression:
        evaluator, error, task = ("BasicRegressionPerformanceEvaluator", "mean absolute error", f"{task}Regression")
    cached = f"(CacheShuffledStream -s (ArffFileStream -f {path}) -m {n})"
    row = moa_rows(jar, f"{task} -l ({model.moa}) -s {cached} -e {evaluator} -i {n} -f {n}")[-1]
    return Figure(n / float(row["evaluation time (cpu seconds)"]), float(row[error]))


def run_river(python: Path, model: Model, path: Path, n: int) -> Figure:
    task = "regression" if model.regression else "classification"
    found = json.loads(command([str(python), "-c", RIVER, str(path), str(n), task, str(model.river)]))
    return Figure(n / found["seconds"], found["quality"])


def measure(
    model: Model, stream: Stream, files: tuple[Path, Path], peers: dict[str, Path], river_n: int, rounds: int
) -> dict[str, list[Figure]]:
    """Figures of each round, by "ours", "ours_first" (over River's instances) and peer; a peer that fails is left out
    from then on."""
    figures: dict[str, list[Figure]] = {"ours": [], "ours_first": []}
    first = stream._replace(x=stream.x[:river_n], y=stream.y[:river_n])
    able = {peer for peer in peers if getattr(model, peer) is not None}
    for _ in range(rounds):
        figures["ours"].append(run_ours(model, stream))
        figures["ours_first"].append(run_ours(model, first))
        for peer in sorted(able):
            try:
                if peer == "moa":
                    figure = run_moa(peers[peer], model, files[0], len(stream.y))
                else:
                    figure = run_river(peers[peer], model, files[1], min(river_n, len(stream.y)))
                figures.setdefault(peer, []).append(figure)
            except PeerError as error:
                print(f"{peer}: {error}", file=sys.stderr)
                able.discard(peer)
    return figures


def summary(figures: dict[str, list[Figure]]) -> dict[str, Any]:
    """Medians, and the ratio of our rate to each peer's within a round."""
    found: dict[str, Any] = {}
    for who, rounds in figures.items():
        found[who] = {
            "instances_per_second": statistics.median(figure.rate for figure in rounds),
            "quality": rounds[0].quality,
        }
        if who in ("moa", "river"):
            own = figures["ours" if who == "moa" else "ours_first"]
            ratios = [ours.rate / figure.rate for ours, figure in zip(own, rounds, strict=False)]
            found[who] |= {"ratio": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
    return found


def available(folder: Path) -> dict[str, Path]:
    """The peers that can be had; says which cannot, and why."""
    peers = {}
    for peer, find in (("moa", find_moa), ("river", find_river)):
        try:
            peers[peer] = find(folder)
        except PeerError as error:
            print(f"{peer} is left out: {error}", file=sys.stderr)
    return peers


def line(name: str, stream: str, found: dict[str, Any]) -> str:
    ours, first = found["ours"], found["ours_first"]
    cells = [f"{name:13}{stream:9}{ours['instances_per_second'] / 1e3:9,.0f}{ours['quality']:8.3f}"]
    for peer in ("moa", "river"):
        if peer == "river":
            cells.append(f"{first['instances_per_second'] / 1e3:9,.0f}{first['quality']:8.3f}")
        if peer in found:
            f = found[peer]
            cells.append(f"{f['instances_per_second'] / 1e3:8,.1f}{f['quality']:8.3f}{f['ratio']:8.1f}")
        else:
            cells.append(f"{'-':>8}{'-':>8}{'-':>8}")
    return "".join(cells)


def chosen(parser: argparse.ArgumentParser, names: str, known: Collection[str]) -> list[str]:
    """Names between commas; an error of the parser where one is not known."""
    found = names.split(",")
    for name in found:
        if name not in known:
            parser.error(f"{name!r} is not one of {', '.join(known)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--streams", default=f"agrawal,{REGRESSION}", help=f"of {', '.join(STREAMS)}")
    parser.add_argument("--n", type=int, default=1_000_000, help="instances, ours and MOA's")
    parser.add_argument("--river-n", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the peers are kept")
    options = parser.parse_args()
    models, streams = chosen(parser, options.models, MODELS), chosen(parser, options.streams, STREAMS)
    peers = available(options.folder)
    report: dict[str, Any] = {
        "n": options.n, "river_n": options.river_n, "rounds": options.rounds, "cores": os.cpu_count(),
        "python": platform.python_version(), "numpy": np.__version__, "results": {},
    }  # fmt: skip
    heads = f"{'ours':>17}{'MOA, ratio':>24}{'ours, first':>17}{'River, ratio':>24}"
    print(f"thousand/s, % or MAE{heads}")
    with tempfile.TemporaryDirectory() as temporary:
        for kind in streams:
            stream = STREAMS[kind].source(1).take(options.n)
            files = Path(temporary) / f"{kind}.arff", Path(temporary) / f"{kind}.npz"
            if "moa" in peers:
                write_arff(files[0], stream)
            few = slice(0, options.river_n)
            np.savez(files[1], x=stream.x[few], y=stream.y[few], n_values=np.array(stream.n_values))
            for name in models:
                if MODELS[name].regression != (stream.n_classes == 0):
                    continue
                figures = measure(MODELS[name], stream, files, peers, options.river_n, options.rounds)
                report["results"][f"{name}, {kind}"] = summary(figures)
                print(line(name, kind, summary(figures)), flush=True)
            files[0].unlink(missing_ok=True)
    for name in models:
        if MODELS[name].note:
            print(f"{name}: {MODELS[name].note}")
    write("campaign-peers", report)


if __name__ == "__main__":
    main()
