"""The same rows give the same predictions and the same models in every format and envelope, to the last bit."""

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.written import rows_of_arrays, tell
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.replay import ReplayRecords, Schedule, Timeline
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.codecs import CODECS, REGISTERED
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch
from riparian.topics.schemas import Written

N, BLOCK = 250, 37
OF_PLACES = ("drift/signals",)  # which name records by their places
FIELDS = ("id", "y", "p", "challengers", "lower", "upper", "set", "alert")
REGISTRY = {"registry": {"url": "http://127.0.0.1:1"}}
FEATURES_: dict[str, Any] = {
    **{f"n{i}": "numeric" for i in range(6)},
    "b": "boolean",
    "c": {"type": "nominal", "max_values": 12},
    "far": {"type": "numeric", "from": "more.deep.far"},
    "n_k": {"count": "k", "half_life": "20s"},
    "far_c": {"mean": "far", "by": "c"},
}
KEYS = {"k": {"from": "more.k", "max": 4}, "c": {"max": 100}}
STREAM = {
    "name": "s",
    "topics": {"features": "f", "labels": "l"},
    "features": FEATURES_,
    "keys": KEYS,
    "champion": {"model": "hoeffding-tree", "grace_period": 20},
    "challengers": {"nb": "naive-bayes", "last": "last-label"},
    "predictions": {"challengers": True, "coverage": 0.8},
}
REGRESSION = {"task": "regression", "champion": {"model": "fimt-dd", "grace_period": 20}, "challengers": {}}
ANOMALY = {
    "task": "anomaly",
    "champion": {"model": "half-space-trees", "window": 30},
    "challengers": {},
    "predictions": {},
    "decision": {"alert_rate": 0.2},
}
# One topic, of which no column is an id: an instance is called by its place, and its label is a later value.
FORECAST = {
    **REGRESSION,
    "topics": {"features": "f", "labels": None},
    "label": {"of": "n0", "ahead": "2s", "by": "k"},
    "record": {"id": "@offset"},
}
TASKS: dict[str, dict[str, Any]] = {"classification": {}, "regression": REGRESSION, "anomaly": ANOMALY}
TASKS["forecast"] = FORECAST
# What a stream file says besides; features in headers and rows in envelopes are JSON's.
ENVELOPES = ("debezium", "connect", "cloudevents")
IN_HEADERS = {"n5": {"type": "numeric", "from": "@header:n5"}, "c": {**FEATURES_["c"], "from": "@header:c"}}
WAYS: dict[str, dict[str, Any]] = {
    **{codec: {"codec": codec} for codec in CODECS if codec != "json"},
    **{
        name: {"record": {"x": "", "envelope": name}, "label": {"envelope": name}}
        for name in ENVELOPES
    },
    "headers": {
        "features": {**FEATURES_, **IN_HEADERS},
        "keys": {"k": {"from": "@header:k", "max": 4}, "c": {"from": "@header:c", "max": 100}},
        "record": {"id": "@header:i"},
        "label": {"y": "@header:y"},
    },
    "mixed": {"codec": {"features": "avro", "labels": "json-schema", "predictions": "json"}},
}  # fmt: skip


def rows(spec: Spec, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, len(spec.mapping().features)))
    x[:, 6], x[:, 7], x[:, 9] = rng.integers(0, 2, N), rng.integers(0, 10, N), rng.integers(0, 7, N)
    y: Any = x[:, 0] * x[:, 1] + x[:, 7] if spec.task == "regression" else (x[:, 0] + x[:, 8] > 0).astype(float)
    x[rng.random(x.shape) < 0.1] = np.nan
    (found,) = rows_of_arrays(spec, x, y)
    return found


def topic(messages: ReplayRecords, join: Any, late: int) -> RawBatch:
    """Messages as they lie in a topic: blocks of the same time, which of some formats are a record each."""
    n, values = len(messages.keys), messages.values
    if join is not None:
        values = [join(values[at : at + BLOCK]) for at in range(0, n, BLOCK)]
    each = BLOCK if join is None else 1
    stamps = [1000 * (i // each) + late for i in range(len(values))]
    return RawBatch(list(range(len(values))), stamps, messages.keys[: len(values)], list(values), messages.headers)


def fold(way: dict[str, Any], task: dict[str, Any], limit: int) -> tuple[list[Any], list[bytes], dict[str, bytes]]:
    """Predictions as they are read back, the bits of all, and those of the state."""
    content = {**STREAM, "task": "classification", **task, **way}
    if "label" in task:
        content |= {"label": task["label"], "record": {**way.get("record", {}), **task["record"]}}
    codec = content.get("codec", "json")
    if {codec} & REGISTERED.keys() if isinstance(codec, str) else set(codec.values()) & REGISTERED.keys():
        content |= REGISTRY
    spec = build(content, "s")
    tell(spec.schemas, spec.codec.formats(), spec.mapping())
    learner, bits, read = PartitionLearner(spec), [], []
    if learner.codec.prediction is not None:
        spec.schemas.written["predictions"] = Written(9, learner.codec.prediction)
        spec.schemas.known[9] = learner.codec.prediction
    timeline, buffers = Timeline(spec, Schedule(1_700_000_000_000, 1.0, 0)), learner.buffers()
    features = timeline.features(rows(spec))
    labels = [(LABELS, timeline.labels(float("inf"), N), 500)] if spec.topics.labels is not None else []
    for role, messages, late in ((FEATURES, features, 0), *labels):
        buffers[role].add(topic(messages, getattr(timeline.writer, f"join_{role}", None), late))
    merge = PartitionGroup(buffers, None, limit)
    while (release := merge.release(EVERYTHING)).n:
        outcome = learner.step(release)
        assert not any(outcome.rejected.values())
        bits += [p.tobytes() for p in outcome.p.values()] if limit > N else []
        sent, join = learner.encode(outcome), learner.codec.join_predictions
        for value in sent if join is None or not sent else join(sent, 10**6):
            for one in learner.codec.split_predictions(value):
                found = learner.codec.read_prediction(one)
                read.append({name: found.get(name) for name in FIELDS})
    arrays = learner.snapshot().arrays
    return read, bits, {name: arrays[name].tobytes() for name in arrays if name not in OF_PLACES}


@cache
def plain(task: str) -> Any:
    """The fold of JSON records, of one size of steps."""
    return fold({}, TASKS[task], 10_000)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_give_the_same_bits(way: str, task: str) -> None:
    wanted = plain(task)
    assert len(wanted[0]) == N
    if task == "forecast":
        assert [one["id"] for one in wanted[0]] == [f"0@{i}" for i in range(N)]
        if way == "arrow":  # whose records hold several
            ids = [f"0@{i // BLOCK}.{i % BLOCK}" for i in range(N)]
            wanted = [one | {"id": id_} for one, id_ in zip(wanted[0], ids, strict=True)], *wanted[1:]
    assert len({json.dumps(one["y"]) for one in wanted[0]}) > 2
    assert wanted[0][-1][{"anomaly": "alert", "classification": "set"}.get(task, "upper")] is not None
    for limit in (10_000, 43):
        read, bits, state = fold(WAYS[way], TASKS[task], limit)
        assert read == wanted[0]
        assert bits in ([], wanted[1])
        assert state.keys() == wanted[2].keys()
        other = [name for name in state if state[name] != wanted[2][name]]
        assert [name for name in other if task != "forecast" or not name.startswith("pending/")] == []
