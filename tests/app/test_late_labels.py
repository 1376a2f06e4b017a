"""Labels that come late, or never: the pending store against a join in plain Python, written from the page alone."""

import random
import re
from collections import Counter
from math import nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import SpecError, StateError
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.partition.changes import CARRIED, reconcile
from riparian.app.partition.join.maturity import AMENDED, EXCHANGED, MATURED
from riparian.app.partition.join.pending import COUNTERS, PendingStore, Unlabelled
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.lineup.model_commands import CommandRefusedError
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file.spec import build
from riparian.models.contract import LEARN, PREDICT
from riparian.topics.training_log import read
from tests.app.naive_late import NaiveJoin
from tests.app.shared_world import World, lived, replayed, rows, stream
from tests.app.test_past import CLASSES, START, assert_same_however_cut, drawn, folded, release_of, spec_of
from tests.app.test_pending import Checkpoints, everything_small, in_files

HORIZON = 400


@pytest.fixture(scope="module", autouse=True)
def _warm():
    PendingStore(1, {"m": 2}, horizon=1, max_pending=1, max_labels=1).warm_up()


def new(after: int | None, assumed: float, repeats: bool, horizon: int = HORIZON) -> PendingStore:
    unlabelled = None if after is None else Unlabelled(after, assumed)
    bounds = {"max_pending": 10_000, "max_labels": 10_000, "horizon": horizon / 1000}
    return PendingStore(1, {"m": 2}, **bounds, unlabelled=unlabelled, corrects=repeats)


Event = tuple[bool, int, int, float]  # a label?, id, time, label


def join(store: PendingStore, events: list[Event]) -> tuple[list[tuple[float, float]], list[tuple[float, float, bool]]]:
    """One batch; what is learned, and what shares count."""
    features, labels = [e for e in events if not e[0]], [e for e in events if e[0]]
    before = [sum(one[0] for one in events[:i]) for i, e in enumerate(events) if not e[0]]
    joined = store.join(
        [str(e[1]) for e in features],
        np.array([float(e[1]) for e in features]).reshape(-1, 1),
        [e[2] for e in features],
        [e[3] for e in features],
        [str(e[1]) for e in labels],
        [e[3] for e in labels],
        [e[2] for e in labels],
        np.array(before, np.int64),
    )
    x = store.slab[:, 0]
    op, row, y, _ = joined.program
    assert set(op.tolist()) <= {PREDICT, LEARN}
    learned = [(float(x[r]), float(v)) for o, r, v in zip(op, row, y, strict=True) if o == LEARN]
    op, row, y, _ = joined.events
    told = [
        (float(x[r]), float(v), o in (AMENDED, EXCHANGED))
        for o, r, v in zip(op, row, y, strict=True)
        if o not in (PREDICT, MATURED)
    ]
    assert (joined.waited >= 0.0).all()
    return learned, told


steps = st.lists(
    st.tuples(
        st.sampled_from([False, True, True]),
        st.integers(0, 15),
        st.sampled_from([0, 0, 1, 7, 40, 150, 70_000]),  # ms that pass
        st.sampled_from([0, 0, 0, -30, 50]),  # the label's topic, or the record, is late by so much
        st.sampled_from([0.0, 1.0, 1.0, nan]),
        st.sampled_from([nan, nan, nan, nan, 1.0]),
    ),
    max_size=80,
)


def check(stream, batches, after, assumed, repeats):
    """Hold both against each other over a stream; the twin."""
    assumed = nan if after is None else assumed
    naive, store = NaiveJoin(HORIZON, after, assumed, repeats), new(after, assumed, repeats)
    events, time = list[Event](), 1000
    for is_label, id_, passes, late, label, inside in stream:
        time += passes
        events.append((is_label, id_, time + late, label if is_label else inside))
    learned, told, at, written = [], [], 0, Checkpoints()
    with everything_small(), in_files(len(stream) % 2 == 1):
        for size, then in batches * (1 + len(events)):
            window = events[at : at + size]
            for found, more in zip((learned, told), join(store, window), strict=True):
                found += more
            for is_label, id_, when, label in window:
                if is_label:
                    naive.label(str(id_), label, when)
                else:
                    naive.features(str(id_), float(id_), when, label)
            at += size
            if then in ("cut", "crash"):
                written.take(store.checkpoint())
            if then in ("crash", "state"):
                saved, store = store.state() if then == "state" else written.arrays, new(after, assumed, repeats)
                store.restore(saved)
            if at >= len(events):
                break
    assert learned == naive.learned
    assert told == naive.told
    assert {name: n for name, n in store.counts.items() if n and name != "forgotten_ids"} == naive.counts
    assert store.n_waiting == len(naive.waiting)
    unscored = [one.arrived for one in naive.waiting if not one.matured]
    assert store.scored_until == (None if after is None else (unscored or [naive.now])[0])
    return naive


def test_a_label_that_waits_for_its_time_has_met_its_instance():
    """So whoever looks whether labels meet anything need not wait for it, nor look at all that waits."""
    store = new(100, 0.0, repeats=False)
    join(store, [(False, 1, 1000, nan), (False, 2, 1000, nan), (True, 1, 1010, 1.0), (True, 2, 1010, nan)])
    assert (store.n_met, store.counts["joined"], store.counts["null_labels"]) == (2, 0, 1)
    join(store, [(False, 3, 1200, nan)])  # the first matures: it was counted
    assert (store.n_met, store.counts["joined"]) == (2, 1)
    join(store, [(False, 4, 1400, nan)])  # the third is assumed: no label has come
    assert (store.n_met, store.counts["joined"], store.counts["assumed"]) == (2, 2, 1)


@settings(max_examples=75)
@given(
    steps,
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "cut", "cut", "crash", "state"])), min_size=1),
    st.sampled_from([None, 0, 60, 100, HORIZON]),
    st.sampled_from([nan, 0.0, 0.0]),
    st.booleans(),
)
def test_the_store_is_the_one_of_the_page_however_it_is_cut_and_restored(stream, batches, after, assumed, repeats):
    check(stream, batches, after, assumed, repeats)


def test_the_store_is_the_one_of_the_page_over_a_long_stream():
    rng, total = np.random.default_rng(0), Counter[str]()
    for after, assumed, repeats in ((60, 0.0, False), (100, nan, False), (60, 0.0, True), (None, nan, True)):
        stream = []
        for i in range(1200):
            id_ = max(0, i // 3 - int(rng.geometric(0.03))) if rng.random() < 0.7 else i // 3
            passes = int(rng.choice([0, 1, 3, 9, 70_000], p=[0.4, 0.3, 0.2, 0.098, 0.002]))
            late = int(rng.choice([0, -20, 15], p=[0.9, 0.05, 0.05]))
            stream.append((rng.random() < 0.6, id_, passes, late, float(rng.choice([0.0, 1.0, nan])), nan))
        batches = [(int(rng.integers(1, 100)), str(rng.choice(["", "cut", "crash", "state"]))) for _ in range(99)]
        total.update(check(stream, batches, after, assumed, repeats).counts)
    assert all(total[name] > 20 for name in COUNTERS if name not in ("evicted", "forgotten_ids")), total


DAY = 86_400_000
LATE = {"horizon": "36500d", "unlabelled": {"is": "ok", "after": "20h"}}


def with_nulls(seed: int, n: int) -> list:
    """Events whose labels are mostly of fraud, some null, some repeated."""
    draws, events = random.Random(seed), []
    for stamp, record, label in drawn(seed, CLASSES, n):
        if label is None:
            events.append((stamp, record, None))
        elif draws.random() < 0.8:
            y = draws.choice(["fraud", "fraud", "ok", None])
            events.append((stamp, None, {"id": label["id"], "y": y}))
            if draws.random() < 0.2:
                events.append((stamp + DAY * draws.randrange(4), None, {"id": label["id"], "y": "ok"}))
    return events


@pytest.mark.parametrize("repeats", ["ignore", "correct"])
@pytest.mark.parametrize("seed", [1, 2])
def test_shares_count_labels_when_they_come_and_corrections_for_their_class(seed, repeats):
    spec, events = spec_of(CLASSES, join=LATE, label={"on_repeat": repeats}), with_nulls(seed, 600)
    x, learner = folded(spec, events, [])
    column = list(spec.features).index("ever")
    twin, clocks = NaiveJoin(36_500 * DAY, 20 * DAY // 24, 0.0, repeats == "correct"), (Clock(), Clock())
    cards, shares, taken, row = {}, {}, 0, 0

    def take() -> None:
        nonlocal taken
        for at, y, correction in twin.told[taken:]:
            n, ok = shares.get(cards[at], (0, 0))
            if cards[at] is not None and (n or not correction):
                n += not correction
                shares[cards[at]] = n, min(n, ok + (y == 0.0))
        taken = len(twin.told)

    for i, (stamp, record, label) in enumerate(events):
        time = int(clocks[label is not None].advance(np.array([stamp]))[0])
        if label is not None:
            twin.label(label["id"], {"ok": 0.0, "fraud": 1.0}.get(label["y"], nan), time)
        elif record["x"]["amount"] != "none":
            cards[float(i)] = record["x"]["card"]
            twin.tick(time)
            take()
            n, ok = shares.get(record["x"]["card"], (0, 0))
            np.testing.assert_array_equal(x[row, column], ok / n if n else nan)
            row += 1
            twin.features(record["id"], float(i), time)
        take()
    counted = {name: n for name, n in learner.pending.counts.items() if n}
    assert counted == twin.counts
    assert min(counted[name] for name in ("assumed", "corrections", "null_labels", "joined")) > 9


def test_records_that_are_of_one_class_by_being_there_are_labels_of_it_to_the_bit():
    said = [(stamp, record, label) for stamp, record, label in drawn(7, CLASSES, 500) if (label or {}).get("y") != "ok"]
    bare = [(stamp, record, label and {"id": label["id"], "at": stamp}) for stamp, record, label in said]
    specs = [spec_of(CLASSES, join=LATE, champion="hoeffding-tree", label=one) for one in ({}, {"is": "fraud"})]
    (x, twin), (found, learner) = (folded(spec, events, [90]) for spec, events in zip(specs, (said, bare), strict=True))
    np.testing.assert_array_equal(found, x)
    assert learner.digest() == twin.digest()
    assert min(learner.pending.counts[name] for name in ("assumed", "corrections", "joined")) > 9
    snapshot = twin.checkpoint()
    (change,) = reconcile(specs[1], snapshot.meta, [None] * len(specs[1].features)).found
    assert (change.fate, change.sentence) == (CARRIED, "label.is was none, is fraud")
    assert not reconcile(specs[0], snapshot.meta, [None] * len(specs[1].features)).found
    (change,) = reconcile(specs[0], learner.checkpoint().meta, [None] * len(specs[1].features)).found
    assert change.sentence == "label.is was fraud, is none"
    named = spec_of(CLASSES, join=LATE, champion="hoeffding-tree", label={"y": "outcome"})
    meta = PartitionLearner(named, 0).checkpoint().meta
    (change,) = reconcile(specs[1], meta, [None] * len(specs[1].features)).found
    assert change.sentence == "label.is was none, is fraud"


@pytest.mark.parametrize("repeats", ["ignore", "correct"])
def test_a_learner_comes_to_the_same_however_its_stream_is_cut_and_restarted(repeats):
    spec, events = spec_of(CLASSES, join=LATE, label={"on_repeat": repeats}), with_nulls(5, 400)
    assert_same_however_cut(spec, events)


def test_what_a_model_kept_before_it_began_anew_is_gone_after_a_restart_too():
    drift = {"detectors": {"page-hinkley": {"threshold": 1, "min_values": 5}}, "on_drift": "reset"}
    spec, events = spec_of(CLASSES, champion="opinion-pool", join=LATE, drift=drift), with_nulls(5, 200)
    _, whole = folded(spec, events, [])
    assert whole.roles["champion"].memos.since
    _, learner = folded(spec, events, [], random.Random(1).sample(range(1, len(events)), 20))
    assert learner.digest() == whole.digest()


def test_partitions_that_share_a_model_append_what_matured():
    spec = stream(join={"unlabelled": {"is": "p", "after": "40ms"}}, classes=["p", "q", "r", "s"])
    world = lived(spec)
    ys = []
    for value in world.log:
        record = read(value)
        ys += [record.classes[int(y)] for y in record.columns()[1]]
    joined = sum(learner.pending.counts["joined"] for learner in world.learners)
    assert len(ys) == joined > 500
    assert len({learner.digest(("pending", "vocabularies")) for learner in world.learners}) >= 1
    for p, learner in enumerate(world.learners):
        again, sent = replayed(world, p, [50, 90], {1})
        assert sent == world.sent[p]
        assert again.digest() == learner.digest()


@pytest.mark.parametrize("learning", ["shared", "partition"])
@pytest.mark.parametrize(
    ("join", "sentence"),
    [
        ({"unlabelled": {"is": "nope", "after": "40ms"}}, 'one of classes (p, q, r, s), found "nope"'),
        ({"unlabelled": {"after": "14d"}, "horizon": "1d"}, "shorten it, or lengthen the horizon"),
    ],
)
def test_an_applied_file_that_cannot_be_meant_is_refused_and_the_worker_goes_on(learning, join, sentence):
    spec = stream(2, learning, control=True, classes=["p", "q", "r", "s"])
    world, settings = World(spec), spec.running()
    world.come(rows(40))
    world.finish()
    settings["join"] |= join
    same = {name: {"model": one.model} for name, one in spec.challengers.items()}
    world.ask("apply", champion={}, challengers=same, file="f", settings=settings)
    world.come(rows(40, 1))
    world.finish()
    assert [(event.event, sentence in event.sentence) for event in world.events(0)] == [("refused", True)]
    assert [len(sent) for sent in world.sent] == [40, 40]
    assert [learner.spec.running() for learner in world.learners] == [spec.running()] * 2


def test_a_share_of_labels_that_all_learn_refuses_an_applied_file_that_corrects_them():
    risk = {"risk": {"share": "p", "by": "card"}}
    spec = stream(features={"a": "numeric", **risk}, keys={"card": {"max": 9}}, classes=["p", "q"])
    settings = spec.running()
    settings["join"] |= {"unlabelled": {"is": "p", "after": "1d"}}
    with pytest.raises(ValueError, match=r"features\.risk: expected learning: partition"):
        spec.run_by(settings)


@pytest.mark.parametrize("after", [None, 500_000, 1_000_000])
@pytest.mark.parametrize("size", [1, 3, 9])
def test_a_pause_that_is_forgotten_protects_nothing_however_the_stream_is_cut(after, size):
    """Nine pauses within the horizon: the first is the shortest, and the ninth takes its place."""
    store, naive = new(after, nan, False, horizon=1_000_000), NaiveJoin(1_000_000, after)
    join(store, [(False, 0, 1000, nan), (False, 1, 62_000, nan)])
    naive.features("0", 0.0, 1000)
    naive.features("1", 1.0, 62_000)
    events: list[Event] = [(False, i, 62_000 + 100_000 * (i - 1), nan) for i in range(2, 9)]
    events += [(True, 0, 1_010_000, 1.0), (True, 1, 1_010_001, 1.0)]
    for start in range(0, len(events), size):
        join(store, events[start : start + size])
    for is_label, id_, time, y in events:
        if is_label:
            naive.label(str(id_), y, time)
        else:
            naive.features(str(id_), float(id_), time)
    assert naive.counts["expired"] == 1
    assert {name: n for name, n in store.counts.items() if n} == naive.counts


def test_all_that_matures_at_once_is_remembered():
    store, n = new(1_000_000, 0.0, False, horizon=10**9), 3000
    for i in range(0, n, 50):
        join(store, [(False, k, 1000 + i, nan) for k in range(i, i + 50)])
        join(store, [(True, k, 1000 + i, 1.0) for k in range(i, i + 50)])
    learned, _ = join(store, [(True, n, 10_000, nan), (True, n, 3_000_000, nan)])
    assert learned == [(float(k), 1.0) for k in range(n)]
    join(store, [(True, k, 3_000_001, 0.0) for k in range(n)])
    assert {name: count for name, count in store.counts.items() if count} == {
        "joined": n, "repeated_labels": 1, "corrected_labels": n
    }  # fmt: skip


def test_labels_that_wait_beside_instances_take_8_bytes_each():
    plain, held = new(None, nan, False), new(100, nan, False)
    for store in (plain, held):
        join(store, [(False, 1, 1000, nan)])
    assert held.n_bytes - plain.n_bytes == 8 * len(held._instances.entries)


def test_a_time_that_is_named_while_instances_wait_holds_for_them():
    store = new(None, nan, False)
    join(store, [(False, 1, 1000, nan), (False, 2, 1001, nan)])
    store.checkpoint()
    store.bound(HORIZON / 1000, 10_000, 10_000, 10**9, Unlabelled(100, 0.0))
    again = new(100, 0.0, False)
    again.restore(store.state())
    for one in (store, again):
        assert join(one, [(True, 2, 1002, 1.0), (False, 3, 1102, nan)])[0] == [(1.0, 0.0), (2.0, 1.0)]


BASE = {"name": "s", "task": "classification", "classes": ["ok", "fraud"], "features": {"a": "numeric"}}


FOLD = {**BASE, "champion": "majority-class", "learning": "partition"}
CORRECT, OK, HELD = {"on_repeat": "correct"}, {"is": "ok", "after": "5s"}, {"after": "5s"}


def waiting_by(label=None, unlabelled=None):
    return build({**FOLD, "label": label or {}, "join": {"horizon": "60d", "unlabelled": unlabelled}}, "s")


def test_a_file_whose_stream_reads_labels_of_one_class_is_evaluated_as_its_topics_would_be(tmp_path):
    """Other labels of the file have no record, and count when silence does."""
    draws, results = random.Random(2), []
    rows = [(i, draws.random(), draws.random() < 0.2) for i in range(400)]
    for label, other in (({"is": "fraud"}, "ok"), ({"is": "fraud"}, ""), ({}, "")):
        data = tmp_path / "data.csv"
        data.write_text("at,a,class\n" + "".join(f"{i},{a},{'fraud' if y else other}\n" for i, a, y in rows))
        spec = build({**FOLD, "label": label, "join": {"horizon": "60d", "unlabelled": OK}})
        options = {"clock": "at", "target": "class", "label_delay": 7.0}
        file = DataFile(data)
        of_file = spec_for(file, "naive-bayes", {}, stream=spec, **options)
        found = evaluate(file, *of_file, label_delay=7.0, clock="at")
        results.append({name: one for name, one in found.items() if "second" not in name and name != "curves"})
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ((CORRECT, None), (None, None), "label.on_repeat was correct, is ignore"),
        ((CORRECT, HELD), (None, HELD), "label.on_repeat was correct, is ignore"),
        ((CORRECT, None), (CORRECT, OK), "join.unlabelled was none, is {is: ok, after: 5s}"),
        ((CORRECT, OK), (CORRECT, None), "join.unlabelled was {is: ok, after: 5s}, is none"),
        (
            (None, OK),
            (None, {**OK, "is": "fraud"}),
            "join.unlabelled was {is: ok, after: 5s}, is {is: fraud, after: 5s}",
        ),
        ((None, OK), (None, HELD), "join.unlabelled was {is: ok, after: 5s}, is {after: 5s}"),
        ((None, HELD), (None, OK), "join.unlabelled was {after: 5s}, is {is: ok, after: 5s}"),
        ((None, HELD), (None, None), "join.unlabelled was {after: 5s}, is none"),
        ((None, None), (None, OK), ""),
        ((None, None), (CORRECT, OK), ""),
        ((None, OK), (CORRECT, OK), ""),
        ((None, OK), (None, {**OK, "after": "9s"}), ""),
    ],
)
def test_a_change_by_which_records_would_be_learned_again_is_refused_with_the_cure(before, after, sentence):
    learner, at, n = PartitionLearner(waiting_by(*before)), (0, 0), 20
    events = [(START + 1000 * i, {"id": str(i), "x": {"a": i}}, None) for i in range(n)]
    events += [(START + 1000 * n, None, {"id": str(i), "y": "fraud"}) for i in range(1, n, 2)]
    release, at = release_of(events, at)
    learner.step(release)
    snapshot, spec = learner.checkpoint(), waiting_by(*after)
    again = PartitionLearner(spec)
    saved = Snapshot(snapshot.meta, {**snapshot.frozen, **snapshot.arrays})
    if before[0] == after[0]:
        command = {"champion": {}, "challengers": {}, "file": spec.models_digest(), "settings": spec.running()}
        if sentence:
            with pytest.raises(CommandRefusedError, match=f"{re.escape(sentence)}.*import --models-only"):
                learner.lineup.steering.apply(**command)
        else:
            learner.lineup.steering.apply(**command)
    if sentence:
        with pytest.raises(StateError, match=f"{re.escape(sentence)}.*import --models-only"):
            again.restore(saved)
        return
    again.restore(saved)
    release, _ = release_of([(START + 1000 * n + 20_000, {"id": "z", "x": {"a": 1}}, None)], at)
    again.step(release)
    counts = again.pending.counts
    assert counts["joined"] == n + counts["corrections"]  # each once


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"join": {"unlabelled": {"is": "ok", "after": "8d"}}}, "shorten it, or lengthen the horizon"),
        ({"join": {"unlabelled": {"is": "good", "after": "1d"}}}, 'one of classes (ok, fraud), found "good"'),
        ({"classes": None, "join": {"unlabelled": {"is": "ok", "after": "1d"}}}, "name the classes"),
        (
            {"task": "regression", "classes": None, "join": {"unlabelled": {"is": "ok", "after": "1d"}}},
            "after alone holds labels until then",
        ),
        (
            {
                **{"task": "anomaly", "champion": "half-space-trees", "classes": None, "topics": {"labels": None}},
                **{"record": {"y": None}, "join": {"unlabelled": {"after": "1d"}}},
            },
            "join.unlabelled: expected labels, in topics.labels or record.y, found neither",
        ),
        ({"join": {"unlabelled": {"is": "ok"}}}, "join.unlabelled.after"),
        ({"label": {"on_repeat": "twice"}}, "label.on_repeat"),
        (
            {
                "label": {"on_repeat": "correct"},
                "learning": "shared",
                "partitions": 2,
                "keys": {"card": {"max": 10}},
                "features": {"a": "numeric", "risk": {"share": "fraud", "by": "card"}},
            },
            "write learning: partition, or remove the feature",
        ),
        (
            {
                "join": {"horizon": "60d", "unlabelled": {"is": "ok", "after": "14d"}},
                "keys": {"card": {"max": 10}},
                "features": {"a": "numeric", "risk": {"share": "fraud", "by": "card", "half_life": "1d"}},
            },
            "a tenth of join.unlabelled.after",
        ),
    ],
)
def test_a_stream_file_that_cannot_be_meant_is_refused_with_the_cure(fields, sentence):
    given = {name: one for name, one in {**BASE, **fields}.items() if one is not None}
    with pytest.raises(SpecError, match=re.escape(sentence)):
        build(given, "s")


def test_an_evaluation_needs_times_to_hold_labels(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,y\n1,ok\n2,fraud\n")
    spec = build({**BASE, "join": {"unlabelled": {"is": "ok", "after": "1d"}}}, "s")
    with pytest.raises(SpecError, match="name its column by --time"):
        spec_for(DataFile(file), "majority-class", {}, stream=spec)
