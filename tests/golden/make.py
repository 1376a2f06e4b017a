"""Golden states: exports of small learners, one of each registered model, that later versions must still read.

`python -m tests.golden.make` writes those that are missing, and into state-v3.json what they came to. It never writes
one again: a golden file is what an older version wrote. When the format changes, raise the version in the names and
keep the old files as long as they can be read. A change of a kernel that is meant to change results changes only the
recorded digest `continued`, by hand; where the scores so far, which are part of a state, came from other bits, the fold
from the beginning comes to a digest `beginning` of its own.

What states hold besides since the older ones were written (NEWER) is left out of digests: it begins where such a state
is read, as comparisons do that kept no batches (ANEW). `judged` has golden states of it: judged-v2.bin of comparisons
alone, estimated-v2.bin of estimates, too, compared-v2.bin of comparisons that keep batches, and judged-v3.bin of all.

The state of `watched` is in files of its own, drift-v3.bin and drift-v3.json: three models, of which one has been reset
and one has a fresh model on trial beside it. That of `steered` is in steered-v3.bin and steered-v3.json: commands have
promoted a challenger, frozen another model, and added one. In that of `changed`, changed-v3.bin and changed-v3.json, a
rule promotes, distributions are watched, and a file that was applied has added a feature and dropped another.
That of `decided`, with a threshold and weights, is in
decided-v3.bin and decided-v3.json. That of `keyed`, a partition of a shared stream with features over the past of keys,
is in keyed-v3.bin; keyed-whole-v3.bin is of before checkpoints had segments of what labels change. That of `forecast`,
whose labels are later records of a key, is in forecast-v3.bin and forecast-v3.json.

Of `shared`, whose partitions learn one model, shared-v3.log has the log: instances that do not name their features,
and commands. shared-v3.bin is a state in the middle of it, and shared-v3.json what the models came to there and at the
end.
"""

import json
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, Piece
from riparian.app.partition.shared.sharing import records as joined
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint, portable
from riparian.app.stream_file.columns import plain
from riparian.app.stream_file.spec import Spec, build
from riparian.models.registry import REGISTRY
from riparian.topics.names import LABELS
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedCommand
from riparian.topics.training_log import write as write_learned
from tests.app.shared_world import World

FOLDER = Path(__file__).parent
RECORD = FOLDER / f"state-v{checkpoint.VERSION}.json"
LATEST = ("calibration/", "ranking/")
ANEW = ("compared/",)  # comparisons of before batches were kept begin anew where a state is read
JUDGED = {  # file -> what is left out
    FOLDER / f"judged-v{checkpoint.VERSION}.json": LATEST[1:],
    FOLDER / "compared-v2.json": LATEST,
    FOLDER / "judged-v2.json": ("estimated/", *LATEST, *ANEW),
    FOLDER / "estimated-v2.json": (*LATEST, *ANEW),
}
DRIFT = FOLDER / f"drift-v{checkpoint.VERSION}.json"
DECIDED = FOLDER / f"decided-v{checkpoint.VERSION}.json"
STEERED = FOLDER / f"steered-v{checkpoint.VERSION}.json"
CHANGED = FOLDER / f"changed-v{checkpoint.VERSION}.json"
KEYED = FOLDER / f"keyed-v{checkpoint.VERSION}.json"
FORECAST = FOLDER / f"forecast-v{checkpoint.VERSION}.json"
SHARED = FOLDER / f"shared-v{checkpoint.VERSION}.json"
BEFORE, AFTER = 1200, 2000  # records folded before the export, and in all
LATE = 20  # instances that wait for their labels at the export
PARTITION = 1
FEATURE_TYPES = {"a": "numeric", "c": {"type": "nominal", "max_values": 6}, "b": "boolean"}
NEWER = ("compared/", "estimated/", *LATEST)
SINCE = ("drift/distributions/tests/",)  # begin anew where a state was written before there was a design effect
TURNS = 800  # the record from which on the concept of `watched` is the opposite


def cases() -> dict[str, tuple[str, str]]:
    """Name of a golden state -> (model, task)."""
    return {
        name if task == "classification" else f"{name}-{task}": (name, task)
        for name, entry in REGISTRY.items()
        if not entry.slow  # a pickle is of one version of its library
        for task in entry.tasks
    }


def file(case: str, version: int = checkpoint.VERSION) -> Path:
    return FOLDER / f"state-v{version}-{case}.bin"


def stream(model: str, task: str) -> Spec:
    """The stream file of a golden state."""
    bags = {"classes": ["no", "yes"]} if task == "multi-instance" else {}
    parameters: dict[tuple[str, str], dict[str, Any]] = {
        ("hoeffding-tree", "classification"): {"grace_period": 50, "delta": 0.05},
        ("hoeffding-adaptive-tree", "classification"): {"grace_period": 50, "delta": 0.05},
        ("mondrian-forest", "classification"): {"n_trees": 2, "max_nodes": 101},
        ("opinion-pool", "classification"): {"members": {"tree": "hoeffding-tree", "last": "last-label"}},
        ("opinion-pool", "regression"): {"members": {"tree": "hoeffding-regression-tree", "mean": "mean"}},
        ("mondrian-forest", "regression"): {"n_trees": 2, "max_nodes": 101},
        ("fimt-dd", "regression"): {"max_nodes": 2000},
        ("hoeffding-regression-tree", "regression"): {"max_nodes": 2000},
        ("orto", "regression"): {"max_nodes": 2000},
        ("adaptive-random-forest", "regression"): {"n_models": 2},
        ("streaming-random-patches", "regression"): {"n_models": 2},
        ("online-bagging", "regression"): {"n_models": 2},
        ("online-bagging", "classification"): {"n_models": 3, "grace_period": 50, "delta": 0.05, "vote": "weighted"},
        ("leveraging-bagging", "classification"): {"n_models": 3, "grace_period": 50, "delta": 0.05},
        ("smooth-boost", "classification"): {"n_models": 3, "grace_period": 50, "delta": 0.05},
        ("online-boosting", "classification"): {"n_models": 3, "grace_period": 50, "delta": 0.05},
        ("adaptive-random-forest", "classification"): {"n_models": 3, "warning_delta": 0.9, "drift_delta": 0.3},
        ("streaming-random-patches", "classification"): {"n_models": 3, "warning_delta": 0.9, "drift_delta": 0.3},
        ("model-pool", "regression"): {"candidates": "depth=2,3; learning_rate=0.01,0.03"},  # or else 300 KB
        ("shrub-ensemble", "regression"): {"window": 128},  # the same
        ("nearest-neighbours", "classification"): {"window": 128, "long": 64, "minimum": 16},
        ("nearest-neighbours", "regression"): {"window": 128, "long": 64, "minimum": 16},
        ("half-space-trees", "anomaly"): {"n_trees": 5, "height": 8, "window": 100},
        ("online-isolation-forest", "anomaly"): {"n_trees": 4, "window": 200, "leaf_size": 6},
    }
    if REGISTRY[model].cls.startswith("riparian.models.batch."):
        # Small; and no fit takes its place after the export: what it comes to is the library's, and its version's.
        parameters[model, task] = {"window": 300, "refit_every": 100_000}
        parameters[model, task] |= {"ccp_alpha": 0.01} if model == "cart" else {"n_trees": 3}
    content: dict[str, Any] = {
        "name": "golden",
        "task": task,
        "partitions": 2,
        "learning": "partition",
        "features": FEATURE_TYPES,
        "champion": {"model": model, **parameters.get((model, task), {})},
        "metrics": {"window": 50},
        "drift": "none",
        **bags,
    }
    return build(content, "golden")


def watched() -> Spec:
    """The stream file of the golden state in which drift was answered."""
    tree = {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05}
    content = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "features": FEATURE_TYPES,
        "champion": {**tree, "on_drift": "replace"},
        "challengers": {"reset": {**tree, "on_drift": "reset"}, "nb": "naive-bayes"},
        "metrics": {"fading": 0.99},
        "drift": {"detectors": {"adwin": {"delta": 0.01}, "hddm-w": {}}, "features": "all", "window": 200},
    }
    return build(content, "golden")


def steered() -> Spec:
    """The stream file of the golden state in which commands were obeyed."""
    content = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "features": FEATURE_TYPES,
        "champion": {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05},
        "challengers": {"nb": {"model": "naive-bayes", "on_drift": "reset"}, "last": "last-label"},
        "control": True,
    }
    return build(content, "golden")


COMMANDS: list[dict[str, Any]] = [
    {"command": "promote", "model": "nb"},
    {"command": "freeze", "model": "hoeffding-tree"},
    {"command": "add", "model": "more", "definition": {"model": "majority-class"}},
    {"command": "drop", "model": "nobody"},
]


def steer(learner: PartitionLearner) -> None:
    """Fold to half of BEFORE, and a hundred more with the commands."""
    fold(learner, "classification", BEFORE // 2)
    values = [json.dumps({"id": str(i), "by": "maker", "asked": i, **one}).encode() for i, one in enumerate(COMMANDS)]
    n = len(values)
    fold(learner, "classification", BEFORE // 2 + 100, control=RawBatch(list(range(n)), [0] * n, [None] * n, values))


def changed(features: dict[str, Any] | None = None) -> Spec:
    """The stream file of the golden state whose features have changed; features : of the one that is applied."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "features": features or {"a": "numeric", "c": {"type": "nominal", "max_values": 6}},
        "champion": "last-label",
        "challengers": {"tree": "hoeffding-tree", **({"wide": {"model": "hoeffding-tree"}} if features else {})},
        "drift": {"distributions": {"window": 200}},
        "promotion": {"mode": "automatic", "at_least": 250},
        "control": True,
    }
    return build(content, "golden")


APPLIED = {"a": "numeric", "b": "boolean"}


def change(learner: PartitionLearner) -> None:
    """Fold to half of BEFORE, and a hundred more with the file that is applied."""
    fold(learner, "classification", BEFORE // 2)
    file = changed(APPLIED)
    challengers = {"last-label": {"model": "last-label"}, "wide": {"model": "hoeffding-tree"}}  # the rule has promoted
    asked = {"id": "0", "command": "apply", "champion": {}, "challengers": challengers, "file": file.models_digest()}
    asked |= {"settings": file.running(), "features": plain(file.features)}
    control = RawBatch([0], [0], [None], [json.dumps(asked).encode()])
    fold(learner, "classification", BEFORE // 2 + 100, control=control)


def judged(task: str = "classification") -> Spec:
    """The stream file of the golden states of what is said about models."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": task,
        "partitions": 2,
        "learning": "partition",
        "features": FEATURE_TYPES,
        "champion": "last-label",
        "challengers": {"tree": "hoeffding-tree" if task == "classification" else "fimt-dd"},
    }
    return build(content, "golden")


def decided() -> Spec:
    """The stream file of the golden state with thresholds."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "features": FEATURE_TYPES,
        "champion": "naive-bayes",
        "challengers": {"tree": "hoeffding-tree"},
        "class_weights": {"yes": 3},
        "decision": {"class": "yes", "precision": 0.7},
    }
    return build(content, "golden")


def keyed() -> Spec:
    """The stream file of the golden state with keys, of a model that all partitions learn."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": "classification",
        "classes": ["no", "yes"],
        "partitions": 2,
        "keys": {"card": {"max": 12}, "terminal": {"max": 200, "idle": "3s"}},
        "features": {
            "a": "numeric",
            "n": {"count": "card", "half_life": "2s"},
            "mean": {"mean": "a", "by": "card", "half_life": "5s"},
            "since": {"since": "card"},
            "of_card": {"share": "yes", "by": "card", "smooth": 3},
            "risk": {"share": "yes", "by": "terminal", "half_life": "4s"},
        },
        "rekey": {"features": "raw", "labels": "late", "by": "card"},
        "champion": {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05},
        "drift": "none",
    }
    return build(content, "golden")


def forecast(ahead: str = "30ms") -> Spec:
    """The stream file of the golden state whose labels come from the stream itself."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "learning": "partition",
        "keys": {"c": {"max": 4}},
        "features": {**FEATURE_TYPES, "seen": {"share": True, "by": "c"}},
        "label": {"of": "a", "ahead": ahead, "by": "c", "above": 0.5},
        "join": {"horizon": "40ms"},
        "rekey": {"features": "raw", "by": "c"},
        "champion": {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05},
        "drift": "none",
    }
    return build(content, "golden")


def share(world: World, stop: int) -> None:
    """Have records up to this number come to both partitions; every seventh has no label."""
    for i in range(world.n_given, stop):
        terminal = int(40 * _draw(i, "terminal"))
        x = {"a": round(_draw(i, "a"), 6), "card": f"{i % 2}-{int(9 * _draw(i, 'card'))}", "terminal": f"t{terminal}"}
        world.come([(x, "yes" if (terminal < 8) != (_draw(i, "noise") < 0.05) else "no")])
        if i % 7 == 0:
            world.raw[i % 2][LABELS].pop()
        if i % 60 == 59:
            for p in range(2):
                world.step(p)


def shared() -> Spec:
    """The stream file of the golden log of models that partitions share."""
    content: dict[str, Any] = {
        "name": "golden",
        "task": "classification",
        "partitions": 2,
        "features": {"a": "numeric", "c": {"type": "nominal", "max_values": 6}},
        "champion": {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.05},
        "challengers": {"nb": "naive-bayes"},
        "drift": "none",
        "control": True,
    }
    return build(content, "golden")


def learn(log: list[bytes], learner: PartitionLearner) -> None:
    """Have the models of a partition learn the log from where they stand on."""
    at, n = learner.lineup.place or 0, len(log)
    offsets, none = np.arange(at, n), np.zeros(n - at, np.int64)
    raw = RawBatch(offsets.tolist(), none.tolist(), [None] * len(none), log[at:])
    learner.lineup.follow(Piece(raw, offsets, none, none))  # type: ignore[attr-defined]


def logged() -> tuple[list[bytes], PartitionLearner]:
    """The log of half of BEFORE in each partition, with commands, one of which names other features; and the first
    partition in its middle."""
    spec, log = shared(), list[bytes]()
    learners = [PartitionLearner(spec, p) for p in range(2)]
    merges = [PartitionGroup(one.buffers()) for one in learners]
    features, labels = records("classification")
    plain_of = {"challengers": {"nb": {"model": "naive-bayes"}}, "settings": spec.running(), "file": "f"}
    asked: list[dict[str, Any]] = [
        {"command": "promote", "model": "nb"},
        {"command": "apply", "champion": {}, **plain_of, "features": {"a": {"type": "numeric"}}},
        {"command": "add", "model": "more", "definition": {"model": "majority-class"}},
    ]
    for start in range(0, BEFORE, 100):
        if start % 300 == 200 and asked:
            one = {"id": str(start), "by": "maker", "asked": start, **asked.pop(0)}
            log.append(write_learned(LearnedCommand(2, start, json.dumps(one).encode())))
        p = start // 100 % 2
        learner, merge = learners[p], merges[p]
        for role, batch in (("features", features), ("labels", labels)):
            values = batch.part(start, start + 100)
            at = merge.buffers[role].next_offset
            numbered = list(range(at, at + 100))
            merge.buffers[role].add(RawBatch(numbered, values.timestamps, values.keys, values.values))
        at = merge.buffers["learned"].next_offset
        n = len(log) - at
        merge.buffers["learned"].add(RawBatch([*range(at, len(log))], [0] * n, [None] * n, log[at:]))
        outcome = learner.step(merge.release(EVERYTHING))
        log += [write_learned(one) for joint in outcome.joint for one in joined(joint, p, {}, 1000 + start)]
        if start == BEFORE // 2:
            middle = PartitionLearner(spec, 0)
            middle.restore(learners[0].snapshot())
    return log, middle


def _draw(*key: Any) -> float:
    """A number in [0, 1) that no random generator's version changes."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big") / 2**32


@cache
def records(task: str, turns: int = AFTER) -> tuple[RawBatch, RawBatch]:
    """AFTER features, and their labels LATE ms later, the opposite from record `turns` on; every 50th label has no
    features."""
    times, features, labels = [], [], []
    for i in range(AFTER):
        a, c, b = round(_draw(i, "a"), 6), "uvwxyz"[int(6 * _draw(i, "c"))], _draw(i, "b") < 0.5
        high = ((a > 0.5 and c != "u") or _draw(i, "noise") < 0.05) != (i >= turns)
        y: Any = round(10 * a + high, 6) if task == "regression" else ("yes" if high else "no")
        y = int(high) if task == "anomaly" else y
        x: Any = {"a": None if i % 31 == 0 else a, "c": c, "b": b}
        if task == "multi-instance":
            x = [x, *({"a": 0.5 * a, "c": c} for _ in range(i % 3))]
        times.append(1000 + i)
        features.append(json.dumps({"id": f"i{i}", "x": x}).encode())
        labels.append(json.dumps({"id": f"i{i}" if i % 50 else f"early{i}", "y": y}).encode())
    offsets, keys = list(range(AFTER)), [None] * AFTER
    return RawBatch(offsets, times, keys, features), RawBatch(offsets, [t + LATE for t in times], keys, labels)


def fold(learner: PartitionLearner, task: str, stop: int, turns: int = AFTER, control: RawBatch | None = None) -> None:
    """Go on from the learner's offsets to `stop`, labels to LATE before it."""
    features, labels = records(task, turns)
    merge = PartitionGroup(learner.buffers(), limit=64)
    merge.buffers["features"].add(features.part(learner.offsets["features"], stop))
    if "labels" in merge.buffers:
        merge.buffers["labels"].add(labels.part(learner.offsets["labels"], stop - LATE))
    if control is not None:
        merge.buffers["control"].add(control)
    while merge.n_waiting:
        learner.step(merge.release(EVERYTHING))


def items_of(
    cut: Snapshot, stream: str, partition: int, *, sequence: int = 1, outputs: dict[str, int] | None = None
) -> dict[bytes, bytes]:
    """What a changelog holds after one checkpoint: key -> value."""
    encoder = checkpoint.Encoder(stream, partition)
    encoder.take(cut)
    encoded = encoder.encode(sequence=sequence, created_ms=0, outputs=outputs or {})
    items = {checkpoint.chunk_key(partition, digest): chunk for digest, chunk in encoded.new.items()}
    return {**items, checkpoint.manifest_key(partition): encoded.data}


def write(
    learner: PartitionLearner, task: str, path: Path, turns: int = AFTER, without: tuple[str, ...] = NEWER
) -> dict[str, str]:
    """Fold to BEFORE, export to `path`, and fold to AFTER; the digests at both places."""
    fold(learner, task, BEFORE, turns)
    items = items_of(learner.checkpoint(), "golden", PARTITION, outputs={"predictions": BEFORE})
    path.write_bytes(portable.pack(items, PARTITION))
    restored = learner.digest(without)
    fold(learner, task, AFTER, turns)
    return {"restored": restored, "continued": learner.digest(without)}


def main() -> None:
    found = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for case, (model, task) in cases().items():
        if file(case).exists():
            continue
        found[case] = write(PartitionLearner(stream(model, task), PARTITION), task, file(case))
    if not DRIFT.exists():
        digests = write(PartitionLearner(watched(), PARTITION), "classification", DRIFT.with_suffix(".bin"), TURNS)
        DRIFT.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not STEERED.exists():
        learner = PartitionLearner(steered(), PARTITION)
        steer(learner)
        digests = write(learner, "classification", STEERED.with_suffix(".bin"), without=(*LATEST, *ANEW))
        STEERED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not CHANGED.exists():
        learner = PartitionLearner(changed(), PARTITION)
        change(learner)
        digests = write(learner, "classification", CHANGED.with_suffix(".bin"), without=(*SINCE, *ANEW))
        CHANGED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not SHARED.exists():
        log, middle = logged()
        items = items_of(middle.checkpoint(), "golden", 0)
        SHARED.with_suffix(".bin").write_bytes(portable.pack(items, 0))
        SHARED.with_suffix(".log").write_bytes(msgspec.msgpack.encode(log))
        digests = {"restored": middle.lineup.digest()}
        learn(log, middle)
        digests["continued"] = middle.lineup.digest()
        SHARED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not DECIDED.exists():
        learner = PartitionLearner(decided(), PARTITION)
        digests = write(learner, "classification", DECIDED.with_suffix(".bin"), without=ANEW)
        DECIDED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not KEYED.exists():
        world, encoder, items = World(keyed()), checkpoint.Encoder("golden", PARTITION), dict[bytes, bytes]()
        for stop in range(BEFORE // 4, BEFORE + 1, BEFORE // 4):
            share(world, stop)
            encoder.take(world.learners[PARTITION].checkpoint())
            encoded = encoder.encode(sequence=1, created_ms=0, outputs={"predictions": BEFORE})
            items |= {checkpoint.chunk_key(PARTITION, digest): chunk for digest, chunk in encoded.new.items()}
        items = {key: items[key] for key in (checkpoint.chunk_key(PARTITION, d) for d in encoded.manifest.chunks())}
        items[checkpoint.manifest_key(PARTITION)] = encoded.data
        KEYED.with_suffix(".bin").write_bytes(portable.pack(items, PARTITION))
        digests = {"restored": world.learners[PARTITION].digest()}
        share(world, AFTER)
        digests["continued"] = world.learners[PARTITION].digest()
        KEYED.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    if not FORECAST.exists():
        digests = write(
            PartitionLearner(forecast(), PARTITION), "classification", FORECAST.with_suffix(".bin"), without=()
        )
        FORECAST.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    for path, without in JUDGED.items():
        if not path.exists():
            learner = PartitionLearner(judged(), PARTITION)
            digests = write(learner, "classification", path.with_suffix(".bin"), without=without)
            path.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")
    RECORD.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
