"""A partition's learner is a fold over its order: however it is cut into steps, stopped and restored."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, Release
from riparian.app.stream_file.spec import build
from riparian.topics.records import RawBatch

STREAM = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric", "c": {"type": "nominal", "max_values": 6}, "b": "boolean"},
    "champion": {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1},
    "challengers": {"nb": "naive-bayes", "last": "last-label", "most": "majority-class"},
    "join": {"horizon": "40ms", "max_pending": 8, "max_labels": 5},
    "metrics": {"window": 7, "segments": ["c", "b"]},
}
BAGS = {
    **STREAM,
    "task": "multi-instance",
    "classes": [0, 1],
    "record": {"max_instances": 3},
    "champion": {"model": "miti", "window": 20, "refit_every": 8},
    "challengers": {"qdd": {"model": "quick-diverse-density", "window": 10, "max_steps": 5}, "last": "last-label"},
    "join": {"horizon": "40ms", "max_pending": 8, "max_labels": 5},
    "metrics": {"window": 7},
}


def records(seed: int, n: int, bags: bool = False) -> tuple[RawBatch, RawBatch]:
    """Features and labels with repeats, holes, late and early labels, clocks that run backwards, far ahead, or stand
    for an hour, bad records."""
    rng, odd = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    columns: list[list] = [[], [], [], []]
    for kind in range(2):
        stamps, values = [], []
        clock = 1000
        for i in range(n):
            clock += int(rng.integers(0, 4)) - (2 if rng.random() < 0.1 else 0)
            id_ = str(max(0, i + int(rng.integers(-3, 4)) * (rng.random() < 0.3)))
            if rng.random() < 0.05:
                value = [b"{", None, b'{"id": 1, "x": {"a": "no"}, "y": []}', b"[]", b'{"id": 1, "x": []}'][
                    rng.integers(4 + bags)
                ]
            elif kind == 0:
                instances = []
                for _ in range(1 + int(rng.integers(4)) if bags else 1):
                    x = {"a": float(rng.normal()), "c": "uvwxyz!"[rng.integers(7)], "b": bool(rng.integers(2))}
                    instances.append({name: None if rng.random() < 0.1 else v for name, v in x.items()})
                record = {"id": id_, "x": instances if bags else instances[0]}
                if rng.random() < 0.05:
                    record["y"] = 1 if bags else "inline"
                value = json.dumps(record).encode()
            else:
                y = [0, 1, 1, 0][rng.integers(4)] if bags else ["p", "q", 3, True][rng.integers(4)]
                value = json.dumps({"id": id_, "y": y}).encode()
            ahead = 3_600_000 * (i >= n // 2) + 221_845_392_000_000 * (odd.random() < 0.02)
            stamps.append(clock + (5 if kind else 0) + ahead)
            values.append(value)
        columns[2 * kind], columns[2 * kind + 1] = stamps, values
    offsets = list(range(n))
    return (
        RawBatch(offsets, columns[0], [None] * n, columns[1]),
        RawBatch(offsets, columns[2], [b"k"] * n, columns[3]),
    )


def in_stages(learner: PartitionLearner, release: Release) -> Outcome:
    """A step, each stage by itself."""
    stages = learner.stages(release)
    while True:
        try:
            next(stages)
        except StopIteration as end:
            return end.value


def fold(features: RawBatch, labels: RawBatch, limit: int, restart_every: int = 0, stream=STREAM):
    """Fold both topics in steps of at most `limit`; every so often, into a new learner restored from a cut."""
    spec = build(stream, "test")
    learner = PartitionLearner(spec)
    merge = PartitionGroup(limit=limit)
    merge.buffers["features"].add(features)
    merge.buffers["labels"].add(labels)
    made, rejected, steps = [], [], 0
    while merge.n_waiting:
        release = merge.release(EVERYTHING)
        outcome = in_stages(learner, release) if steps % 2 else learner.step(release)
        width = {role: p.shape[1] for role, p in outcome.p.items()}
        for i, id_ in enumerate(outcome.ids):
            p = {role: [v for v in outcome.p[role][i].tolist() if v] for role in width}
            made.append((id_, int(outcome.offsets[i]), int(outcome.next_offsets["labels"][i]), p))
        rejected += [("f", r.offset, r.reason) for r in outcome.rejected["features"]]
        rejected += [("l", r.offset, r.reason) for r in outcome.rejected["labels"]]
        steps += 1
        if restart_every and steps % restart_every == 0:
            cut = learner.snapshot()
            learner = PartitionLearner(spec)
            learner.restore(cut)
    return made, sorted(rejected), learner


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 3), st.booleans())
def test_the_same_fold_however_it_is_cut_and_restarted(seed, limit, restart_every, bags):
    features, labels = records(seed, 120, bags)
    whole = fold(features, labels, 10_000, stream=BAGS if bags else STREAM)
    parts = fold(features, labels, limit, restart_every, BAGS if bags else STREAM)
    assert parts[0] == whole[0]
    assert parts[1] == whole[1]
    assert parts[2].digest() == whole[2].digest()
    one, other = parts[2].snapshot().meta, whole[2].snapshot().meta
    assert (one["stamps"], one["leaps"]) == (other["stamps"], other["leaps"])
    counts = whole[2].pending.counts
    # Every feature record is predicted or rejected; every label ends in exactly one place.
    assert len(whole[0]) + sum(1 for kind, _, _ in whole[1] if kind == "f") == 120
    inline = sum(1 for value in features.values if value and b"inline" in value)
    assert counts["joined"] <= 120 + inline
    if not bags:
        return
    assert {"empty-bag", "too-many-instances"} & {reason for _, _, reason in whole[1]}
    assert whole[2].roles["champion"].model.size()["n_nodes"] > 1
    assert {"accuracy", "kappa", "log_loss"} <= whole[2].roles["qdd"].metrics.metrics().keys()


def test_everything_that_can_happen_to_a_record_happens_in_these_streams():
    total: dict[str, int] = {}
    reasons = set()
    for seed in range(20):
        _, rejected, learner = fold(*records(seed, 120), limit=50)
        reasons |= {reason for _, _, reason in rejected}
        for name, n in learner.pending.counts.items():
            total[name] = total.get(name, 0) + n
        for name, n in learner.figures().counts.items():
            total[name] = max(n, total.get(name, 0))
    late = {"assumed", "corrections", "null_labels"}  # tests/app/test_late_labels.py
    assert {name for name, n in total.items() if n == 0} == late, total
    assert {"not-json", "tombstone", "wrong-type", "nominal-overflow"} <= reasons
