"""What models do about drift, in the fold: the same bits for every cut, and what a slow twin does label by label."""

import json
from typing import Any

import numpy as np
import pytest

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordQueue
from riparian.app.state import checkpoint
from riparian.app.stream_file.sections.promotion import PACE
from riparian.app.stream_file.spec import Spec, build
from riparian.models.registry import create
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import RawBatch
from tests.chaos.load import FEATURES, LABELS, Generator

N, CHANGE, DELAY = 5000, 2500, 3
TREE = {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.01}


FILE = {
    "name": "s",
    "task": "classification",
    "features": {"c": {"type": "nominal", "max_values": 20}, "a": "numeric", "b": "numeric"},
    "champion": TREE,
    "join": {"max_pending": 500},
    "metrics": {"window": 100},
}


POOL = {"model": "opinion-pool", "rate": 0.02, "members": {"tree": TREE, "last": "last-label", "bayes": "naive-bayes"}}
VALUES = {"model": "opinion-pool", "members": {"last": "last-label", "mean": "mean"}}


def stream(task: str = "classification", pool: bool = False, **drift: Any) -> Spec:
    given = {"detectors": {"adwin": {"delta": 0.01}}, "window": 200, "patience": 1000, **drift}
    champion: Any = TREE if task == "classification" else "last-label"
    if pool:  # it keeps what its members said
        champion = POOL if task == "classification" else VALUES
    return build({**FILE, "task": task, "champion": champion, "drift": given}, "s")


def records(task: str, n: int = N, seed: int = 0, delay: int = DELAY) -> tuple[RawBatch, RawBatch]:
    """The concept turns round at CHANGE, a's mean moves at 3500; labels come DELAY later, some never, some twice."""
    rng = np.random.default_rng(seed)
    columns: tuple[list[bytes], list[bytes]] = ([], [])
    for i in range(n):
        a, b = rng.random(2).round(6).tolist()
        high = (a > 0.5) != (i >= CHANGE)
        y: Any = "up" if high != (rng.random() < 0.05) else "down"
        if task == "regression":
            y = float(rng.normal(0, 1 if i < CHANGE else 8))
        x = {"a": None if i % 41 == 0 else a + 3.0 * (i >= 3500), "b": b, "c": "klmnopqr"[min(7, i // 700)]}
        columns[0].append(json.dumps({"id": str(i), "x": x}).encode())
        columns[1].append(json.dumps({"id": str(i) if i % 97 else f"other {i}", "y": y}).encode())
    offsets, times = list(range(n)), [1000 + 2 * i for i in range(n)]
    late = [time + 2 * delay + 1 for time in times]
    return RawBatch(offsets, times, [None] * n, columns[0]), RawBatch(offsets, late, [None] * n, columns[1])


def fold(spec: Spec, data: tuple[RawBatch, RawBatch], limit: int, restart: int = 0):
    """Fold in steps of at most `limit`; every so many, into a new learner restored from a checkpoint. Also all
    drift events and predictions."""
    learner, encoder, chunks = PartitionLearner(spec), checkpoint.Encoder("s", 0), dict[bytes, bytes]()
    merge = PartitionGroup({role: RecordQueue(offset) for role, offset in learner.offsets.items()}, limit=limit)
    for buffer, raw in zip((merge.buffers["features"], merge.buffers["labels"]), data, strict=True):
        buffer.add(raw)
    found, predicted, steps = [], [], 0
    while True:
        release = merge.release(EVERYTHING)
        if not len(release.pieces["features"].offsets) + len(release.pieces["labels"].offsets):
            return learner, found, np.concatenate(predicted)
        outcome = learner.step(release)
        assert [d.number for d in outcome.drifts] == list(range(len(found), len(found) + len(outcome.drifts)))
        assert 0 <= outcome.n_settled <= len(outcome.drifts)
        found += outcome.drifts
        predicted += [outcome.p["champion"]] if outcome.ids else []
        steps += 1
        if restart and steps % restart == 0:
            encoder.take(learner.checkpoint())
            encoded = encoder.encode(sequence=steps, created_ms=0, outputs={}, written=list(chunks))
            chunks |= encoded.new
            manifest = checkpoint.decode_manifest(encoded.data)
            cut = checkpoint.decode(manifest, chunks)
            learner, encoder = PartitionLearner(spec), checkpoint.Encoder("s", 0, last=manifest, arrays=cut.arrays)
            assert learner.restore(cut) == []


def folded_in_cuts(spec: Spec, data: tuple[RawBatch, RawBatch], whole: tuple[int, int], *cuts: tuple[int, int]):
    """The learner of the whole and its events, which are those of all cuts."""
    learner, events, predicted = fold(spec, data, *whole)
    for cut in cuts:
        other, found, same = fold(spec, data, *cut)
        assert found == events
        assert same.tobytes() == predicted.tobytes()
        assert other.digest() == learner.digest()
    return learner, events


@pytest.mark.parametrize(
    ("task", "action", "more"),
    [
        ("classification", "reset", {"features": "all"}),
        ("late", "reset", {}),
        ("classification", "replace", {}),
        ("classification", "alert", {"detectors": ["hddm-w", "kswin"], "features": ["a"]}),
        ("regression", "replace", {}),
        ("late regression", "reset", {}),
        ("late pool classification", "reset", {}),
        ("late pool classification", "replace", {}),
        ("pool regression", "replace", {}),
    ],
)
def test_events_states_and_actions_are_the_same_for_every_cut(task: str, action: str, more: dict[str, Any]) -> None:
    delay, pool = 90 if "late" in task else DELAY, "pool" in task
    task = "regression" if "regression" in task else "classification"
    spec, data = stream(task, pool, on_drift=action, **more), records(task, delay=delay)
    whole, events = folded_in_cuts(spec, data, (N, 0), (150, 5))
    assert events
    assert {event.level for event in events} <= {"warning", "drift", "improvement", None}
    assert sum(n for *_, n, _ in whole.drift.events()) == sum(event.level is not None for event in events)
    assert action in " ".join(event.action or "" for event in events)
    if "features" in more:
        moved = [event for event in events if event.signal == "a" and event.level == "drift" and event.offset >= 3500]
        assert moved
        assert moved[0].offset < 3700
        if "detectors" not in more:  # KSWIN fires too often for a mean before
            assert moved[0].before < 1.0 < moved[0].after


def test_records_of_all_kinds_make_no_difference_to_the_cut() -> None:
    """Repeats, holes, early and late labels, bad records; detectors that fire all the time."""
    nervous = {"hddm-w": {"drift_confidence": 0.2, "warning_confidence": 0.4}}
    content = {
        "name": "s",
        "task": "classification",
        "features": {"a": "numeric", "b": "numeric", "c": "nominal"},
        "champion": TREE,
        "challengers": {"nb": {"model": "naive-bayes", "on_drift": "replace"}, "last": "last-label"},
        "drift": {"detectors": nervous, "features": "all", "on_drift": "reset", "window": 100},
    }
    spec, made = build(content, "s"), list(Generator(1, 0, 1e12, poison=0.02).until(1e12 + 3000, 1000.0))
    data = tuple(
        RawBatch(list(range(len(rows))), [int(r.time) for r in rows], [r.key for r in rows], [r.value for r in rows])
        for rows in ([record for role, record in made if role == wanted] for wanted in (FEATURES, LABELS))
    )
    whole, events = folded_in_cuts(spec, data, (8192, 0), (333, 1), (60, 4))
    assert whole.roles["champion"].reactions[0] >= 2
    assert "replace-started" in {event.action for event in events}


def labelled(data: tuple[RawBatch, RawBatch]):
    """The merged order as (0, i) for features i and (1, i) for the label of instance i, where there is one."""
    order = [(time, 0, i) for time, i in zip(data[0].timestamps, range(N), strict=True)]
    order += [(time, 1, i) for time, i in zip(data[1].timestamps, range(N), strict=True) if i % 97]
    return [(kind, i) for _, kind, i in sorted(order)]


def instances(spec: Spec, data: tuple[RawBatch, RawBatch]):
    learner = PartitionLearner(spec)
    features = learner.codec.decode_features(data[0], learner.vocabularies, learner.classes)
    labels = learner.codec.decode_labels(data[1], learner.classes)
    learner.lineup.fit_schema()
    learner.learning.fit_schema()
    return learner.schema, features.x, np.array(labels.y)


@pytest.mark.parametrize(("action", "delay"), [("reset", DELAY), ("replace", 60)])
def test_actions_are_those_of_a_twin_that_goes_label_by_label(action: str, delay: int) -> None:
    """One instance, one label at a time, with models that never see more: predictions and actions are the same."""
    from riparian.models.drift import create as detector_of

    spec, data = stream(on_drift=action), records("classification", delay=delay)
    learner, events, predicted = fold(spec, data, 512)
    schema, x, y = instances(spec, data)
    # The twin works with the whole vocabulary from the start: predictions do not depend on room.
    fresh = lambda: create("hoeffding-tree", schema, **{k: v for k, v in TREE.items() if k != "model"})  # noqa: E731
    model, trial, asked, detector = fresh(), None, False, detector_of("adwin", delta=0.01)
    errors: list[float] = []  # since the drift before
    reference, generation, made = np.nan, 0, {}  # which model predicted an instance
    pairs: list[tuple[bool, bool]] = []
    acts, out, learned, seen, last = [], {}, 0, 0, -1

    def wrong(m, i) -> bool:
        p = m.predict_many(x[i : i + 1])[0]
        return bool(p.max() <= 0.0 or p.argmax() != y[i])

    for kind, i in labelled(data):
        if kind == 0:
            out[i], last, made[i] = model.predict_many(x[i : i + 1])[0], i, generation
            continue
        if trial is not None:
            pairs.append((wrong(model, i), wrong(trial, i)))
            trial.learn_many(x[i : i + 1], y[i : i + 1])
        model.learn_many(x[i : i + 1], y[i : i + 1])
        learned += 1
        if out[i].max() > 0.0 and made[i] == generation:
            seen += 1
            errors.append(float(out[i].argmax() != y[i]))
            if detector.update(errors[-1]) == 2:
                before, after = errors[:-100], errors[-100:]
                old = sum(before) / len(before) if before else reference
                rose = sum(after) / len(after) > old
                errors, reference = [], sum(after) / len(after)
                if rose and action == "reset":
                    acts.append(("reset", last, seen))
                    model, detector, reference = fresh(), detector_of("adwin", delta=0.01), np.nan
                    generation += 1
                elif rose and trial is None and not asked:
                    acts.append(("replace-started", last, seen))
                    asked = True
        if learned % PACE or action == "reset":
            continue
        if trial is not None:
            gains = [one - other for one, other in pairs[-200:]]
            mean = sum(gains) / len(gains)
            deviation = (sum((gain - mean) ** 2 for gain in gains) / len(gains)) ** 0.5
            if len(gains) == 200 and mean > 3.0 * deviation / 200**0.5:
                acts.append(("replaced", last, seen))
                model, trial, errors, reference = trial, None, [], np.nan
                detector, generation = detector_of("adwin", delta=0.01), generation + 1
            elif len(pairs) >= 1000:
                acts.append(("dropped", last, seen))
                trial = None
        elif asked:
            trial, asked, pairs = fresh(), False, []
    assert [(e.action, e.offset, e.n) for e in events if e.action not in (None, "alert")] == acts
    assert acts
    assert (action != "replace") or ("replaced" in {act for act, *_ in acts})
    assert np.array_equal(predicted, np.array([out[i] for i in range(N)])[:, :2])
    counted = learner.roles["champion"].reactions.tolist()
    assert counted == [sum(act == name for act, *_ in acts) for name in ("reset", "replaced", "dropped")]


def test_a_model_may_do_otherwise_than_the_others_and_nothing_is_watched_where_it_is_said() -> None:
    content = {**FILE, "drift": {"detectors": {"adwin": {"delta": 0.01}}, "on_drift": "reset"}}
    quiet = build({**content, "champion": {**TREE, "on_drift": "nothing"}, "challengers": {"b": TREE}}, "s")
    assert quiet.on_drift() == {"champion": "nothing", "b": "reset"}
    learner, events, _ = fold(quiet, records("classification"), 900)
    assert {event.action for event in events if event.model == "champion"} == {None}
    assert "reset" in {event.action for event in events if event.model == "b"}
    assert learner.drift.alarms() == {"b": False}
    off = PartitionLearner(build({**content, "drift": "none"}, "s"))
    assert off.drift.state() == {}
    assert list(off.drift.events()) == []


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_predictions_of_who_knew_nothing_are_null_and_say_nothing_of_the_model(task: str) -> None:
    """Labels 90 late: a null each until the first one comes. Of a regression they are not scored; a class that was not
    named is wrong. Detectors see neither."""
    learner, _, predicted = fold(stream(task), records(task, delay=90), 64)
    unknown = np.isnan(predicted[:, 0]) if task == "regression" else (predicted == 0.0).all(axis=1)
    n_unknown = 92  # the very first label never comes
    assert np.flatnonzero(unknown).tolist() == list(range(n_unknown))
    columns = PredictionColumns(["0", "1"], predicted[[0, 200]], learner.classes, "m", [0, 1], [0, 0])
    written = learner.codec.encode_predictions(columns)
    null, known = map(json.loads, written)
    assert null["y"] is None
    assert known["y"] is not None
    joined = learner.pending.counts["joined"]
    nothing = n_unknown - 1  # that were learned
    scored = joined - nothing if task == "regression" else joined
    assert learner.roles["champion"].metrics.metrics()["n"] == scored
    assert learner.roles["champion"].signal.totals[0] == joined - nothing
    if task == "classification":  # the others have no predicted class
        assert learner.roles["champion"].metrics.confusion().sum() == joined - nothing
