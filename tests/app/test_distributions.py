"""Drift without labels, in the fold: events of features and predictions, odd worlds, states of before and to come."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file.spec import Spec, build
from riparian.topics.records import RawBatch
from riparian.topics.reports import read_drift, write
from tests.app.test_drift import fold

N = 6000


def stream(columns: Any, champion: Any = "naive-bayes", **drift: Any) -> Spec:
    asked = {"detectors": [], "distributions": {"window": 400}} | drift
    given = {"name": "s", "task": "classification", "features": columns, "champion": champion, "drift": asked}
    return build(given, "s")


def data(columns: dict[str, list[Any]], labels: bool = True, late: int = 3) -> tuple[RawBatch, RawBatch]:
    n = len(next(iter(columns.values())))
    rows = [{name: column[i] for name, column in columns.items()} for i in range(n)]
    features = [json.dumps({"id": str(i), "x": x}).encode() for i, x in enumerate(rows)]
    label = [json.dumps({"id": str(i), "y": "ab"[i % 2]}).encode() for i in range(n)] if labels else []
    offsets, times = list(range(n)), [1000 + 2 * i for i in range(n)]
    due = [time + 2 * late + 1 for time in times]
    count = len(label)
    return (
        RawBatch(offsets, times, [None] * n, features),
        RawBatch(offsets[:count], due[:count], [None] * count, label),
    )


def shifts(events: list[Any], signal: str | None = None) -> list[Any]:
    return [e for e in events if e.shift is not None and (signal is None or e.signal == signal)]


RNG = np.random.default_rng(0)
LATE = np.arange(N) >= 3000
STEADY = RNG.normal(size=N).tolist()
MOVED = (RNG.normal(size=N) + 2.0 * LATE).tolist()


@pytest.mark.parametrize(("labels", "late"), [(True, 3), (True, 280_000_000), (False, 3)], ids=["soon", "week", "none"])
def test_a_moved_feature_is_told_with_both_distributions_whenever_labels_come(labels: bool, late: int) -> None:
    spec = stream({"a": "numeric", "b": "numeric"})
    learner, events, _ = fold(spec, data({"a": STEADY, "b": MOVED}, labels, late), N)
    assert learner.pending.counts["joined"] == N * labels
    (event,) = shifts(events, "b")
    assert (event.detector, event.level, event.action, event.model) == ("two-sample", "drift", "alert", None)
    assert 3000 <= event.offset < 3400
    shift = event.shift
    assert shift.kind in ("values", "range")
    assert len(shift.before) == len(shift.after) == len(shift.edges) + 2
    assert sum(shift.before) % 40 == 0
    assert sum(shift.before) >= 400
    assert 0 < sum(shift.after) <= 400
    assert shift.edges == sorted(shift.edges)
    assert shift.values is None
    assert shift.hellinger > 0.1
    assert shift.psi > 0.1
    assert shift.p <= 0.01
    assert not shifts(events, "a")
    assert read_drift(write(event)) == event
    assert [e.number for e in events] == list(range(len(events)))


def test_what_the_champion_predicts_is_watched() -> None:
    """A tree that has learned that b tells the class: b moves, and labels stop coming."""
    rng = np.random.default_rng(1)
    b = rng.random(N) * np.where(LATE, 0.4, 1.0)
    rows, labels = data({"b": b.tolist()})
    labels = RawBatch(
        labels.offsets[:2500],
        labels.timestamps[:2500],
        labels.keys[:2500],
        [json.dumps({"id": str(i), "y": "ab"[int(b[i] > 0.5)]}).encode() for i in range(2500)],
    )
    spec = stream({"b": "numeric"}, {"model": "hoeffding-tree", "grace_period": 50})
    learner, events, _ = fold(spec, (rows, labels), N)
    found = [e for e in shifts(events, "prediction") if e.offset >= 3000]
    assert found[0].model == "champion"
    assert set(found[0].shift.values) == {"a", "b"}
    assert found[0].shift.kind == "values"
    assert len(found[0].shift.before) == 2 + 3
    counted = {(role, signal): n for role, signal, _, _, n, _ in learner.drift.events()}
    assert counted["champion", "prediction"] == len(shifts(events, "prediction"))
    assert counted["", "b"] == len(shifts(events, "b"))


def test_events_and_states_are_the_same_for_every_cut_and_across_restarts() -> None:
    features = {"a": "numeric", "b": "numeric", "c": {"type": "nominal", "max_values": 50}, "d": "boolean"}
    columns = {
        "a": [None if i % 7 == 0 and i > 4000 else v for i, v in enumerate(STEADY)],
        "b": MOVED,
        "c": [f"v{i % 5}" if i < 3500 or i % 9 else "new" for i in range(N)],
        "d": (RNG.random(N) < np.where(LATE, 0.9, 0.2)).tolist(),
    }
    spec = stream(features, {"model": "hoeffding-tree", "grace_period": 50}, detectors="adwin", features=["b"])
    rows = data(columns)
    whole, events, _ = fold(spec, rows, N)
    assert {e.signal for e in shifts(events)} >= {"a", "b", "c", "d"}
    assert {e.detector for e in events} == {"adwin", "two-sample"}
    for limit, restart in ((700, 1), (64, 7)):
        learner, found, _ = fold(spec, rows, limit, restart)
        assert found == events
        assert learner.digest() == whole.digest()
        assert learner.figures().distances == whole.figures().distances


def kinds(events: list[Any], signal: str) -> list[str]:
    return [e.shift.kind for e in shifts(events, signal)]


ODD: list[tuple[str, Any, list[Any], list[str]]] = [
    ("a constant", "numeric", [3] * N, []),
    ("a constant that changes", "numeric", [3] * 3000 + [4] * 3000, ["range"]),
    ("all missing", "numeric", [None] * N, []),
    ("missing, then not", "numeric", [None] * 3000 + [1] * 3000, ["range"]),
    ("goes missing", "numeric", STEADY[:3000] + [None] * 3000, ["missing"]),
    ("forty values", "nominal", [f"v{int(k)}" for k in RNG.integers(0, 40, N)], []),
    ("nominal, all missing", "nominal", [None] * N, []),
    ("first seen late", "nominal", ["x" if i < 5000 or i % 5 else "new" for i in range(N)], ["values", "unseen"]),
    ("each its own", {"type": "nominal", "max_values": 10_000}, [f"id{i}" for i in range(N)], []),
]


@pytest.mark.parametrize(("kind", "column", "expected"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_odd_columns(kind: Any, column: list[Any], expected: list[str]) -> None:
    learner, events, _ = fold(stream({"only": kind}), data({"only": column}, labels=False), 900)
    found = kinds(events, "only")
    assert len(found) == bool(expected)
    assert set(found) <= set(expected)
    (distance,) = learner.figures().distances  # nothing was predicted, so nothing is said of it
    assert distance.signal == "only"
    assert 0.0 <= distance.hellinger <= 1.0
    assert np.isfinite(distance.psi)
    json.loads(msgspec.json.encode(events))


def test_two_partitions_are_tested_apart() -> None:
    spec = build(
        {
            "name": "s",
            "task": "regression",
            "partitions": 2,
            "features": {"b": "numeric"},
            "champion": "mean",
            "drift": {"distributions": {"window": 400}},
        },
        "s",
    )
    first, second = PartitionLearner(spec, 0), PartitionLearner(spec, 1)
    assert first.drift.distributions is not second.drift.distributions
    assert first.drift.distributions is not None
    assert not any(array.any() for name, array in first.drift.state().items() if name.endswith("reference"))


def test_only_the_features_that_are_named_are_tested() -> None:
    spec = stream({"a": "numeric", "b": "numeric"}, distributions={"window": 400, "features": ["a"]})
    _, events, _ = fold(spec, data({"a": STEADY, "b": MOVED}, labels=False), N)
    assert not shifts(events)


def test_a_state_without_it_is_read_and_begins_here() -> None:
    rows = data({"b": MOVED}, labels=False)
    off = stream({"b": "numeric"}, distributions=False, detectors="adwin")
    before, _, _ = fold(off, rows, N)
    assert not any("distributions" in name for name in before.snapshot().arrays)
    on = PartitionLearner(stream({"b": "numeric"}, detectors="adwin"))
    (said,) = on.restore(before.snapshot())
    assert said == ("drift.distributions was none, is window 400, false_alarms 0.01, of b: all references begin anew")
    assert on.drift.distances() == []
    again = PartitionLearner(off)
    on.snapshot()
    (said,) = again.restore(on.snapshot())
    assert said.endswith("is none")


def test_other_windows_begin_anew() -> None:
    rows = data({"b": STEADY}, labels=False)
    learner, _, _ = fold(stream({"b": "numeric"}), rows, N)
    other = PartitionLearner(stream({"b": "numeric"}, distributions={"window": 500}))
    (said,) = other.restore(learner.snapshot())
    assert said.endswith("all references begin anew")
    assert other.drift.distances() == []
    assert learner.drift.distances() != []


def test_a_state_that_was_torn_is_refused() -> None:
    rows = data({"b": STEADY, "c": ["xyz"[i % 3] for i in range(N)]}, labels=False)
    spec = stream({"b": "numeric", "c": "nominal"})
    cut = fold(spec, rows, N)[0].snapshot()
    names = [name for name in cut.arrays if name.startswith("drift/distributions/")]
    assert len(names) == 13
    for name in names:
        for wrong in (cut.arrays[name][None], cut.arrays[name][:0]):
            with pytest.raises(StateError, match=r"cannot be used: drift\.distributions"):
                PartitionLearner(spec).restore(Snapshot(cut.meta, {**cut.arrays, name: wrong}))


def test_a_stream_file_that_is_applied_turns_it_on_changes_it_and_turns_it_off() -> None:
    rows = data({"b": STEADY}, labels=False)
    learner, _, _ = fold(stream({"b": "numeric"}), rows, N)
    known = learner.drift.distances()
    assert known
    learner.lineup.settle(stream({"b": "numeric"}, on_drift="nothing"))
    assert learner.drift.distances() == known
    learner.lineup.settle(stream({"b": "numeric"}, distributions={"window": 500}))
    assert learner.drift.distances() == []
    learner.lineup.settle(stream({"b": "numeric"}, distributions=False))
    assert learner.drift.distributions is None
    assert not any("distributions" in name for name in learner.snapshot().arrays)
    learner.lineup.settle(stream({"b": "numeric"}))
    assert learner.drift.distributions is not None
