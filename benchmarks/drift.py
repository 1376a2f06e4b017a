"""The cost of drift detection: a worker's processing (decode, join, learn, score) with and without it, in pairs.

    python -m benchmarks.drift [--instances 100000] [--rounds 5]
    python -m benchmarks.drift --features      what detectors say of features, scaled as a worker does
    python -m benchmarks.drift --answers DATA      accuracy on elec and weather, by what is done about drift

A stream of SEA, labels 50 ms later, steps of at most 4,096 records of a topic; CPU seconds of the process. Every round
folds the same records by each stream file in turn, and ratios are to `drift: none` in the same round: their median, and
the least and greatest. Kafka's part of a worker's time (fetching, encoding, producing) is not included; with it, the
shares would be smaller.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import printed
from benchmarks.tables import NOMINAL, read
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


def answers(folder: Path) -> None:
    """Prequential accuracy on files, by on_drift and by how late labels are."""
    print("| data | detector | labels late by | `alert` | `reset` (resets) | `replace` (replaced, dropped) |")
    print("|---|---|---|---|---|---|")
    for name in ("elec", "weather"):
        table = read(folder / f"{name}.csv.gz", NOMINAL[name])
        types = {f"f{i}": "nominal" if n else "numeric" for i, n in enumerate(table.schema.n_values)}
        features, labels = [], []
        for i, (row, y) in enumerate(zip(table.x.tolist(), table.y.tolist(), strict=True)):
            x = {n: str(v) if types[n] == "nominal" else v for n, v in zip(types, row, strict=True) if v == v}
            features.append(json.dumps({"id": str(i), "x": x}).encode())
            labels.append(json.dumps({"id": str(i), "y": str(y)}).encode())
        offsets = list(range(len(table.y)))
        first = RawBatch(offsets, offsets, [None] * len(offsets), features)
        for delay in (0, 500):
            late = RawBatch(offsets, [i + delay for i in offsets], [None] * len(offsets), labels)
            for detector in ("adwin", "ddm", "hddm-a"):
                cells = []
                for action, counts in (("alert", ()), ("reset", (0,)), ("replace", (1, 2))):
                    drift = {"detectors": detector, "on_drift": action}
                    content = {"name": "s", "task": "classification", "features": types, "champion": TREE}
                    spec = build({**content, "drift": drift}, "s")
                    learner = PartitionLearner(spec)
                    fold(spec, (first, late), learner)
                    champion = learner.roles["champion"]
                    done = ", ".join(str(champion.reactions.tolist()[i]) for i in counts)
                    cells.append(f"{champion.metrics.metrics()['accuracy']:.4f}" + (f" ({done})" if done else ""))
                print(f"| {name} | `{detector}` | {delay} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--features", action="store_true")
    parser.add_argument("--answers", type=Path, metavar="DATA", help="folder of elec.csv.gz and weather.csv.gz")
    given = parser.parse_args()
    if given.features or given.answers:
        return features() if given.features else answers(given.answers)
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
    print("| drift | CPU, of that without | least | most | events |")
    print("|---|---|---|---|---|")
    for name, all_took in seconds.items():
        ratios = sorted(one / none for one, none in zip(all_took, seconds["none"], strict=True))
        found = " | ".join(f"{ratio:.2f}" for ratio in (statistics.median(ratios), ratios[0], ratios[-1]))
        print(f"| {name} | {found} | {events[name]} |")


if __name__ == "__main__":
    with printed("drift", "--features", "--answers"):
        main()
