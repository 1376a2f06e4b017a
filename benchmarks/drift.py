"""The cost of drift detection: a worker's processing (decode, join, learn, score) with and without it, in pairs.

    python -m benchmarks.drift [--instances 100000] [--rounds 5]
    python -m benchmarks.drift --features      what detectors say of features, scaled as a worker does
    python -m benchmarks.drift --answers CSV.GZ NOMINAL,...      accuracy by what is done about drift

A stream of SEA, labels 50 ms later, steps of at most 4,096 records of a topic; CPU seconds of the process. Every round
folds the same records by each stream file in turn, and ratios are to `drift: none` in the same round; their median is
printed. Kafka's part of a worker's time (fetching, encoding, producing) is not included; with it, the shares would be
smaller.
"""

import argparse
import csv
import gzip
import json
import statistics
import time
from typing import Any

import numpy as np

from benchmarks.record import printed
from riparian.app.partition.drift.detection import VALUES, Signal
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import Spec, build
from riparian.models.drift import DETECTORS
from riparian.models.streams.registry import ConceptDrift, open_source
from riparian.topics.records import RawBatch

LIMIT, DELAY = 4096, 50
TREE = {"model": "hoeffding-tree"}
STREAMS: dict[str, Any] = {
    "none": "none",
    "adwin (default)": {},
    "adwin, reset": {"on_drift": "reset"},
    "adwin, replace": {"on_drift": "replace"},
    "adwin, ddm, hddm-w": {"detectors": ["adwin", "ddm", "hddm-w"]},
    "kswin": {"detectors": "kswin"},
    "adwin, 3 features": {"features": "all"},
    "adwin, distributions": {"distributions": True},
}


def stream(drift: Any) -> Spec:
    content = {
        "name": "s",
        "task": "classification",
        "features": dict.fromkeys(("a", "b", "c"), "numeric"),
        "champion": TREE,
        "challengers": {"nb": "naive-bayes"},
        "drift": drift,
    }
    return build(content, "s")


def records(n: int) -> tuple[RawBatch, RawBatch]:
    """Features and labels; the concept changes in the middle."""
    made = open_source("sea", 1, {"function": 0, "noise": 0.1}, [ConceptDrift(n // 2, 0, {"function": 2})]).take(n)
    features, labels = [], []
    for i in range(n):
        x = dict(zip("abc", made.x[i].tolist(), strict=True))
        features.append(json.dumps({"id": str(i), "x": x}).encode())
        labels.append(json.dumps({"id": str(i), "y": int(made.y[i])}).encode())
    offsets = list(range(n))
    late = [i + DELAY for i in offsets]
    return RawBatch(offsets, offsets, [None] * n, features), RawBatch(offsets, late, [None] * n, labels)


def fold(spec: Spec, data: tuple[RawBatch, RawBatch], learner: PartitionLearner | None = None) -> tuple[float, int]:
    """CPU seconds, and drift events."""
    learner, found = learner or PartitionLearner(spec), 0
    merge = PartitionGroup(limit=LIMIT)
    merge.buffers["features"].add(data[0])
    merge.buffers["labels"].add(data[1])
    started = time.process_time()
    while merge.n_waiting:
        found += len(learner.step(merge.release(EVERYTHING)).drifts)
    return time.process_time() - started, found


def features(runs: int = 20) -> None:
    """False drifts in 50,000 steady values of a feature, and the delay when its mean moves by a standard deviation."""
    print("| detector | false in 100,000, normal | log-normal | delay | found |")
    print("|---|---|---|---|---|")
    for name in [name for name, entry in DETECTORS.items() if not entry.errors_only]:
        false, delays = {"normal": 0, "log-normal": 0}, []
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            steady = {"normal": rng.normal(40, 7, 50_000), "log-normal": rng.lognormal(3, 1, 50_000)}
            for kind, values in steady.items():
                found = Signal({name: {}}, VALUES, seed=seed).update(values)
                false[kind] += sum(one.level == "drift" for one in found)
            moved = rng.normal(40, 7, 10_000) + 7.0 * (np.arange(10_000) >= 5000)
            found = Signal({name: {}}, VALUES, seed=seed).update(moved)
            delays += [one.n - 5000 for one in found if one.level == "drift" and one.n > 5000][:1]
        rates = " | ".join(f"{2 * n / runs:.1f}" for n in false.values())
        print(f"| {name} | {rates} | {np.mean(delays) if delays else np.nan:.0f} | {len(delays)}/{runs} |")


def answers(path: str, nominal: str) -> None:
    """Prequential accuracy on a file (the last column is the class) by on_drift and by how late labels are."""
    with gzip.open(path, "rt", newline="") as file:
        names, *rows = csv.reader(file)
    *names, target = names
    types = {name: "nominal" if name in nominal.split(",") else "numeric" for name in names}
    data = []
    for i, row in enumerate(rows):
        x = {n: v if types[n] == "nominal" else float(v) for n, v in zip(names, row[:-1], strict=True) if v}
        data.append((json.dumps({"id": str(i), "x": x}).encode(), json.dumps({"id": str(i), "y": row[-1]}).encode()))
    features, labels = map(list, zip(*data, strict=True))
    offsets = list(range(len(rows)))
    print(f"{path}, class {target}: accuracy (reset, replaced, dropped)")
    for detector in ("adwin", "ddm", "hddm-a"):
        for delay in (0, 500):
            late = RawBatch(offsets, [i + delay for i in offsets], [None] * len(rows), labels)
            told = []
            for action in ("alert", "reset", "replace"):
                drift = {"detectors": detector, "on_drift": action}
                content = {"name": "s", "task": "classification", "features": types, "champion": TREE, "drift": drift}
                spec = build(content, "s")
                learner = PartitionLearner(spec)
                fold(spec, (RawBatch(offsets, offsets, [None] * len(rows), features), late), learner)
                accuracy = learner.roles["champion"].metrics.metrics()["accuracy"]
                told.append(f"{action} {accuracy:.4f} {tuple(learner.roles['champion'].reactions.tolist())}")
            print(f"{detector}, labels {delay} later: {', '.join(told)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--answers", nargs=2)
    given = parser.parse_args()
    if given.features or given.answers:
        return features() if given.features else answers(*given.answers)
    specs = {name: stream(drift) for name, drift in STREAMS.items()}
    data, small = records(given.instances), records(1000)
    events = {}
    for spec in specs.values():
        PartitionLearner(spec).warm_up()
        fold(spec, small)
    seconds: dict[str, list[float]] = {name: [] for name in specs}
    for _ in range(given.rounds):
        for name, spec in specs.items():
            took, events[name] = fold(spec, data)
            seconds[name].append(took)
    print("| drift | us an instance | to none | us a label and model more | events |")
    print("|---|---|---|---|---|")
    for name, all_took in seconds.items():
        ratio = statistics.median(one / none for one, none in zip(all_took, seconds["none"], strict=True))
        each = statistics.median(all_took) / given.instances * 1e6
        more = statistics.median(a - b for a, b in zip(all_took, seconds["none"], strict=True))
        print(f"| {name} | {each:.2f} | {ratio:.3f} | {more / given.instances / 2 * 1e6:.3f} | {events[name]} |")


if __name__ == "__main__":
    with printed("drift", "--features", "--answers"):
        main()
