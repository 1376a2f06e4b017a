"""Labels from the stream itself: the pending store, learners and evaluations against a twin in plain Python, written
from docs/build/forecasts.md alone."""

import asyncio
import csv
import gzip
import json
import random
import re
from collections import Counter
from math import nan
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from riparian.app.cli import cli
from riparian.app.errors import SpecError, StateError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.topics import keys
from riparian.app.partition import mapped
from riparian.app.partition.join import series, waiting_index
from riparian.app.partition.join.meeting import LEAST
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.join.room import QUEUE_BYTES
from riparian.app.partition.join.series import Follow
from riparian.app.partition.keys.past import AHEAD_MS, hashes_of, secret
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file import columns
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.spec import build
from riparian.app.worker.task.join_watchdog import JoinWatchdog
from riparian.models.contract import LEARN
from riparian.topics.records import RawBatch
from riparian.topics.training_log import read
from tests.app.naive_forecasts import NaiveForecasts
from tests.app.shared_world import lived, replayed
from tests.app.test_columns import Fold
from tests.app.test_past import DAY, HOUR, START, assert_same_however_cut, folded, release_of, watched
from tests.app.test_pending import Checkpoints, everything_small, in_files

HORIZON, MOST = 400, 12
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _warm():
    new(1).warm_up()


def new(ahead, most=MOST):
    bounds = {"max_pending": most, "max_labels": 10_000, "horizon": HORIZON / 1000}
    return PendingStore(1, {"m": 2}, **bounds, ahead_ms=ahead)


def join(store, records):
    """One batch of id, stream time, own time, key, value; what is learned."""
    n, keys = len(records), [0 if key is None else key + 1 for _, _, _, key, _ in records]
    joined = store.join(
        [str(one[0]) for one in records],
        np.array([float(one[0]) for one in records]).reshape(-1, 1),
        [one[1] for one in records],
        None,
        [],
        [],
        [],
        np.zeros(n, np.int64),
        follow=Follow(
            np.array([one[2] for one in records], np.int64),
            np.array([[key, 7 * (key > 0)] for key in keys], np.uint64).reshape(n, 2),
            np.array([one[4] for one in records], np.float64),
        ),
    )
    op, row, y, _ = joined.program
    x = store.slab[:, 0]
    assert (joined.waited >= store.ahead_ms / 1000).all()
    return [(float(x[r]), float(v)) for o, r, v in zip(op, row, y, strict=True) if o == LEARN]


def check(stream, batches, ahead, most):
    naive, store = NaiveForecasts(HORIZON, ahead=ahead, most=most), new(ahead, most)
    records, time = [], 1000
    for id_, passes, late, key, value in stream:
        time += passes
        records.append((id_, time, time + late, key, value))
    learned, at, written = [], 0, Checkpoints()
    with everything_small():
        for size, then in batches * (1 + len(records)):
            learned += join(store, records[at : at + size])
            at += size
            if then in ("cut", "crash"):
                written.take(store.checkpoint())
            if then in ("crash", "state"):
                saved, store = store.state() if then == "state" else written.arrays, new(ahead, most)
                store.restore(saved)
            if at >= len(records):
                break
    for id_, when, own, key, value in records:
        naive.record(str(id_), float(id_), when, own, None if key is None else str(key), value)
    assert learned == naive.learned
    assert {name: n for name, n in store.counts.items() if n and name != "forgotten_ids"} == naive.counts
    assert store.n_waiting == len(naive.waiting)
    return naive


steps = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from([0, 0, 1, 7, 40, 150, 70_000]),  # ms that pass
        st.sampled_from([0, 0, 0, -30, -60, 50]),  # the record's own time is late, or ahead, by so much
        st.sampled_from([None, 0, 0, 1, 2]),
        st.sampled_from([nan, 1.0, 2.0, 3.0]),
    ),
    max_size=80,
)


@settings(max_examples=75)
@given(
    steps,
    st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["", "cut", "cut", "crash", "state"])), min_size=1),
    st.sampled_from([1, 40, 100, HORIZON]),
    st.sampled_from([3, MOST]),
)
def test_the_store_is_the_one_of_the_page_however_it_is_cut_and_restored(stream, batches, ahead, most):
    check(stream, batches, ahead, most)


def test_the_store_is_the_one_of_the_page_over_a_long_stream():
    rng, total = np.random.default_rng(0), Counter()
    for ahead, most, n_keys in ((60, 10_000, 5), (20, 30, 40), (100, 10_000, 1)):
        stream = []
        for i in range(1500):
            id_ = max(0, i - int(rng.geometric(0.03))) if rng.random() < 0.1 else i
            passes = int(rng.choice([0, 1, 3, 9, 70_000], p=[0.4, 0.3, 0.2, 0.098, 0.002]))
            late = int(rng.choice([0, -20, 15], p=[0.9, 0.05, 0.05]))
            key = None if rng.random() < 0.03 else int(rng.integers(n_keys))
            stream.append((id_, passes, late, key, float(rng.choice([0.0, 1.0, nan]))))
        batches = [(int(rng.integers(1, 100)), str(rng.choice(["", "cut", "crash", "state"]))) for _ in range(99)]
        total.update(check(stream, batches, ahead, most).counts)
    assert all(total[name] > 20 for name in ("joined", "expired", "evicted", "repeated_ids")), total


def test_keys_that_begin_in_one_place_of_the_table_keep_their_queues():
    linked = series.KeyQueues.linked

    def crowded(self, *arguments):
        """Each key has the same first slot."""
        return linked(self._replace(key=np.zeros(2, np.uint64)), *arguments)

    with mock.patch.object(series.KeyQueues, "linked", crowded):
        for seed in range(3):
            rng = np.random.default_rng(seed)
            stream = [(i, int(rng.integers(9)), 0, int(rng.integers(12)), 1.0) for i in range(400)]
            check(stream, [(7, ""), (5, "state")], 30, 10_000)


def test_the_bytes_of_series_are_counted():
    plain, held = PendingStore(1, {"m": 2}, horizon=1, max_pending=9, max_labels=9), new(1)
    plain.join(["1"], np.ones((1, 1)), [1], None, [], [], [], np.zeros(1, np.int64))
    join(held, [(1, 1000, 1000, 0, 1.0)])
    capacity = len(held._instances.entries)
    assert held.n_bytes - plain.n_bytes == capacity * (24 + 4) + 8 * len(held._series.slots) - 16
    assert held._limits().row_bytes - plain._limits().row_bytes == 24


def test_queues_lie_in_files_but_for_the_slots_that_check_counts():
    n = 3000
    with in_files():
        held = new(1, n)
        for i in range(n):
            join(held, [(i, 1000, 1000, i, 1.0)])
            queues = held._series
            assert queues.slots.nbytes <= QUEUE_BYTES * max(i + 1, waiting_index.LEAST_ROWS)
        assert None not in map(mapped._map_of, (queues.about, queues.next))
        check([(i, i % 3, 0, i % 7, 1.0) for i in range(300)], [(7, "cut"), (5, "state"), (9, "crash")], 30, 10_000)


# -- learners ---------------------------------------------------------------------------------------------------------

AHEAD = {"of": "amount", "ahead": "5h", "by": "card"}


def spec_of(**fields):
    return build(
        {
            "name": "payments", "task": "regression", "champion": "mean", "label": AHEAD, "join": {"horizon": "30d"},
            "features": {
                "amount": "numeric",
                "seen": {"mean": "label", "by": "card"},
                "newest": {"last": "label", "by": "terminal"},
            },
            "keys": {"card": {"max": 1000}, "terminal": {"from": "terminal", "max": 1000}},
            **fields,
        }
    )  # fmt: skip


def drawn(seed, n, slow=1.0):
    """Records in the order of the fold: late ones, ties, repeats, rejected ones, pauses of days."""
    draws, now, events = random.Random(seed), START, []
    for i in range(n):
        now += int(draws.expovariate(1) * draws.choice([0, 1000, 60_000, HOUR, slow * 3 * HOUR]))
        now += 2 * DAY * (draws.random() < 0.01)
        stamp = now - int(draws.expovariate(1) * 5 * HOUR) * (draws.random() < 0.1)
        stamp += draws.choice([HOUR, 8 * DAY]) * (draws.random() < 0.02)  # clocks that are wrong
        record = {
            "id": str(i),
            "x": {
                "amount": draws.choice(["none", None, *(round(draws.gauss(0, 5), 2) for _ in range(18))]),
                "card": draws.choice([*range(5), None]),
            },
            "terminal": draws.choice(["a", "b"]),
        }
        if draws.random() < 0.03 and events:  # delivered again
            record = draws.choice(events)[1]
        events.append((stamp, record, None))
    return events


def twin_of(spec, events):
    """The twin, and what features over labels are of each record that is predicted."""
    ahead = round(spec.label.ahead * 1000)
    twin, clock, found = NaiveForecasts(round(spec.join.horizon * 1000), ahead=ahead), Clock(), []
    keys, sums, newest, taken = {}, {}, {}, 0
    for i, (stamp, record, _) in enumerate(events):
        time = int(clock.advance(np.array([stamp]))[0])
        amount, card, terminal = record["x"]["amount"], record["x"]["card"], record["terminal"]
        if amount == "none":
            continue
        known = time or stamp
        own = stamp if stamp <= known + max(AHEAD_MS, 3 * ahead) else known
        keys[float(i)] = card, terminal
        value = nan if amount is None else amount if spec.label.above is None else float(amount > spec.label.above)
        key = str(card) if card is not None else None
        twin.record(record["id"], float(i), time, own, key if spec.label.by else "all", value)
        for x, y, _ in twin.told[taken:]:
            n, total = sums.get(keys[x][0], (0, 0.0))
            sums[keys[x][0]] = n + 1, total + y
            newest[keys[x][1]] = y
        taken = len(twin.told)
        n, total = sums.get(card, (0, 0.0)) if card is not None else (0, 0.0)
        found.append([nan if amount is None else amount, total / n if n else nan, newest.get(terminal, nan)])
    return twin, np.array(found)


@pytest.mark.parametrize("by", ["card", None])
@pytest.mark.parametrize("seed", range(2))
def test_a_learner_does_as_the_page_says_with_late_records_repeats_and_pauses(seed, by):
    spec, events = spec_of(label={**AHEAD, "by": by}), drawn(seed, 700)
    twin, wanted = twin_of(spec, events)
    x, learner = folded(spec, events, [])
    assert {name: n for name, n in learner.pending.counts.items() if n} == twin.counts
    assert min(twin.counts[name] for name in ("joined", "repeated_ids", *(["expired"] if by else []))) > 3
    np.testing.assert_array_equal(x[:, 0], wanted[:, 0])
    np.testing.assert_allclose(x[:, 1], wanted[:, 1], rtol=1e-12)
    np.testing.assert_array_equal(x[:, 2], wanted[:, 2])
    assert learner.figures().overall["champion"]["n"] <= twin.counts["joined"]


def test_hours_apart_a_label_is_the_next_hour_although_stream_time_is_three_records_late():
    spec = spec_of(label={**AHEAD, "ahead": "1h", "by": None}, join={"horizon": "7d"})
    hourly = [(START + HOUR * i, {"id": str(i), "x": {"amount": float(i), "card": 1}}, None) for i in range(50)]
    pause = [(at + 9 * HOUR * (i > 30), one, None) for i, (at, one, _) in enumerate(hourly)]
    for events in (hourly, pause):
        x, learner = folded(spec, [(at, {**one, "terminal": "t"}, None) for at, one, _ in events], [])
        assert learner.pending.counts["joined"] == 49
        np.testing.assert_array_equal(x[1:, 2], np.arange(1.0, 50.0))


@pytest.mark.parametrize("above", [None, 0.0, 3.0])
def test_a_learner_comes_to_the_same_however_its_stream_is_cut_and_restarted(above):
    fields = {}
    if above is not None:
        fields = {"task": "classification", "champion": "majority-class", "label": {**AHEAD, "above": above}}
        fields |= {"features": {"amount": "numeric", "seen": {"share": True, "by": "card"}}}
        fields["keys"] = {"card": {"max": 1000}}
    spec, events = spec_of(**fields), drawn(5, 400)
    assert assert_same_however_cut(spec, events).pending.counts["joined"] > 100


def test_a_class_is_whether_the_value_is_above():
    fields = {"features": {"amount": "numeric"}, "keys": {}, "champion": "majority-class"}
    spec = spec_of(task="classification", label={**AHEAD, "above": 0.0}, **fields)
    assert spec.classes == [False, True]
    events = drawn(2, 300)
    twin, _ = twin_of(spec, events)
    _, learner = folded(spec, events, [])
    classes = learner.figures().by_class["champion"]
    joined = Counter(y for _, y in twin.learned)
    assert joined[1.0] > 20
    assert joined[0.0] > 20
    assert learner.pending.counts["joined"] == sum(joined.values())
    assert set(classes) == {"false", "true"}


def test_a_key_that_is_forgotten_gets_no_label_more():
    spec, events = spec_of(label={**AHEAD, "by": "card"}), drawn(1, 300)
    _, learner = folded(spec, events, [])
    waits = learner.pending.n_waiting
    words = hashes_of(secret("payments"), ["3"])[0]
    assert learner.past.forget("card", words.astype("<u8").tobytes().hex(), learner.pending)
    assert not learner.past.forget("card", words.astype("<u8").tobytes().hex(), learner.pending)
    assert learner.pending.n_waiting == waits
    snapshot = learner.checkpoint()
    again = PartitionLearner(spec)
    again.restore(Snapshot(snapshot.meta, {**snapshot.frozen, **snapshot.arrays}))
    about = [one.pending._series.about[one.pending._instances.rows()] for one in (learner, again)]
    assert not (about[0][:, 1:] == words.view(np.int64)).all(axis=1).any()
    np.testing.assert_array_equal(*about)
    for one in (learner, again):
        watched(one, [])


def test_partitions_that_share_a_model_append_labels_of_their_own_stream():
    label = {"of": "a", "ahead": "100ms", "by": "c", "above": 0.5}
    spec = build(
        {
            "name": "s", "task": "classification", "partitions": 3, "features": {"a": "numeric", "c": "nominal"},
            "label": label, "rekey": {"features": "as.it.is", "by": "c"},
            "champion": {"model": "hoeffding-tree", "grace_period": 10}, "challengers": {"nb": "naive-bayes"},
        }
    )  # fmt: skip
    assert spec.shares
    world = lived(spec)
    ys = [y for value in world.log for y in read(value).columns()[1]]
    joined = sum(learner.pending.counts["joined"] for learner in world.learners)
    assert len(ys) == joined > 500
    for p, learner in enumerate(world.learners):
        again, sent = replayed(world, p, [50, 90], {1})
        assert sent == world.sent[p]
        assert again.digest() == learner.digest()


@pytest.mark.parametrize("label", [{**AHEAD, "ahead": "6h"}, {**AHEAD, "by": "terminal"}, {**AHEAD, "of": "other"}, {}])
def test_another_label_is_refused_under_a_state_with_the_cure(label):
    features = {"amount": "numeric", "other": "numeric"}
    keys = {"card": {"max": 9}, "terminal": {"from": "terminal", "max": 9}}
    made = {"n": {"count": "card"}, "m": {"count": "terminal"}}
    learner = PartitionLearner(spec_of(features=features | made, keys=keys))
    snapshot = learner.checkpoint()
    again = PartitionLearner(spec_of(features=features | made, keys=keys, label=label))
    with pytest.raises(StateError, match=r"label\.(ahead|by|of) was .*new name"):
        again.restore(Snapshot(snapshot.meta, {**snapshot.frozen, **snapshot.arrays}))


# -- the stream file --------------------------------------------------------------------------------------------------

SENSORS = {
    "name": "s", "task": "regression", "features": {"t": "numeric", "h": "numeric", "c": "nominal"},
    "champion": "mean", "label": {"of": "t", "ahead": "1h", "by": "sensor"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"label": {"ahead": "1h"}}, "label.ahead: expected label.of beside it"),
        ({"label": {"of": "u", "ahead": "1h"}}, 'found "u", nothing of that name; name another'),
        ({"label": {"of": "c", "ahead": "1h"}}, 'found "c", one that is nominal; name another'),
        ({"label": {"of": "t"}}, "label.ahead: expected how much later"),
        ({"label": {"of": "t", "ahead": "7d"}}, "shorten it, or lengthen the horizon"),
        ({"task": "anomaly", "champion": "half-space-trees"}, "found task anomaly; change it"),
        ({"task": "classification", "champion": "majority-class"}, "found none and task classification; add it"),
        ({"label": {**SENSORS["label"], "above": 1}}, "found 1 and task regression; remove it, or change the task"),
        (
            {
                "task": "classification", "champion": "majority-class", "classes": ["a", "b", "c"],
                "label": {**SENSORS["label"], "above": 1},
            },
            "classes: expected two with label.above",
        ),
        ({"topics": {"labels": "there"}}, "topics.labels: expected nothing beside label.of"),
        ({"record": {"y": "y"}}, "record.y: expected nothing beside label.of"),
        ({"label": {**SENSORS["label"], "id": "key"}}, "label.id: expected nothing beside label.of"),
        ({"label": {**SENSORS["label"], "on_repeat": "correct"}}, "label.on_repeat: expected ignore"),
        ({"join": {"unlabelled": {"after": "1d"}}}, "join.unlabelled: expected nothing beside label.of"),
        ({"partitions": 2}, "label.by: expected a key by which the topic is partitioned"),
        ({"partitions": 2, "label": {"of": "t", "ahead": "1h"}}, "label.by: expected a key, since"),
        (
            {"features": {"t": "numeric", "n": {"count": "sensor", "half_life": "1h"}}},
            'features.n.count: expected one of keys (none), found "sensor"; add it to keys',
        ),
        (
            {"features": {"t": "numeric", "mean": {"mean": "t", "by": "sensor"}}},
            'features.mean.by: expected one of keys (none), found "sensor"; add it to keys',
        ),
    ],
)  # fmt: skip
def test_a_stream_file_that_cannot_be_meant_is_refused_with_the_cure(fields, sentence):
    with pytest.raises(SpecError) as refused:
        build({**SENSORS, **fields}, "s")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"rekey": {"features": "as.it.is", "by": "sensor"}},
        {"keys": {"sensor": {"from": "@key", "max": 9}}},
        {"keys": {"sensor": {"from": "@key", "max": 9}}, "learning": "partition"},
    ],
)
def test_records_of_a_key_come_to_one_partition(fields):
    spec = build({**SENSORS, **fields, "partitions": 4})
    assert [log.role for log in spec.inputs] == ["features"]


@pytest.mark.parametrize(
    ("changed", "sentence", "goes_on"),
    [
        (
            {"features": {"h": {"type": "numeric"}}},
            'label.of: expected a numeric feature that records have, found "t"',
            ("7d", ""),
        ),
        ({"horizon": "1m"}, "label.ahead: expected less than join.horizon, 1m", ("7d", "")),
        ({"horizon": "2h"}, None, ("2h", "")),
        ({"features": {"t": {"type": "numeric"}}}, None, ("7d", "ch")),
    ],
)
def test_a_command_under_which_labels_cannot_be_is_refused_and_changes_nothing(changed, sentence, goes_on):
    spec = build({**SENSORS, "control": True})
    fold, running = Fold(PartitionLearner(spec)), spec.running()
    running["join"]["horizon"] = changed.get("horizon", running["join"]["horizon"])
    asked = {"id": "0", "command": "apply", "champion": {}, "challengers": {}, "file": "f", "settings": running}
    asked |= {"features": changed["features"]} if "features" in changed else {}
    fold.take({"control": [json.dumps(asked).encode()]})
    fold.take({"features": [json.dumps({"id": "a", "x": {"t": 1.0, "h": 2.0, "c": "u", "sensor": "b"}}).encode()]})
    (event,) = fold.events
    assert (event.event, event.sentence[: len(sentence or "")]) == (
        ("applied", "") if sentence is None else ("refused", sentence)
    )
    after = fold.learner.spec
    assert (format_duration(after.join.horizon), "".join(sorted(after.gone))) == goes_on


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_keys_before_that_of_the_series_go_and_come_before_an_instance_has_its_field(before, after):
    def with_count(counts):
        features = {"v": "numeric"} | ({"n": {"count": "card"}} if counts else {})
        keys = ({"card": {"max": 9}} if counts else {}) | {"sensor": {"max": 9}}
        label = {"of": "v", "ahead": "1s", "by": "sensor"}
        common = {"name": "s", "task": "regression", "champion": "mean", "control": True, "predictions": {}}
        return build({**common, "features": features, "keys": keys, "label": label})

    def records(ids):
        return [json.dumps({"id": id_, "x": {"v": 1.0, "card": "c"}}).encode() for id_ in ids]

    spec, changed = with_count(before), with_count(after)
    fold = Fold(PartitionLearner(spec))
    fold.take({"features": records("abcde")})
    again = PartitionLearner(spec)
    again.restore(fold.learner.snapshot())
    fold.learner = again
    asked = {"id": "0", "command": "apply", "champion": {}, "challengers": {}, "file": "f"}
    asked |= {"settings": changed.running(), "features": columns.plain(changed.features)}
    fold.take({"control": [json.dumps(asked | {"keys": columns.plain_keys(changed.keys)}).encode()]})
    fold.take({"features": records("f")})
    fold.take({"features": records("g")})
    assert [one.event for one in fold.events] == ["applied"]
    assert again.decoder.never_seen() == ["x.sensor"]


@pytest.mark.parametrize(
    ("fields", "name", "sentence"),
    [
        ({}, "sensor", None),
        ({}, "Sensor", "x.sensor is in none of the 40 records looked at (did you mean Sensor?): none gets a label"),
        ({"keys": {"sensor": {"from": "who.it", "max": 1}}}, "sensor", "who.it is in none of the 40 records looked at"),
        ({"keys": {"sensor": {"from": "@key", "max": 1}}}, "sensor", "@key is in none of the 40 records looked at"),
        ({"label": {**SENSORS["label"], "by": "c"}}, "sensor", None),
    ],
)
def test_a_name_of_the_series_that_no_record_has_is_named_by_check_and_workers(fields, name, sentence, caplog):
    spec, at = build({**SENSORS, **fields}), (0, 0)
    events = [(START + i, {"id": str(i), "x": {"t": 1.0, "h": 2.0, "c": "u", name: "a"}}, None) for i in range(LEAST)]
    records = [
        SimpleNamespace(offset=i, timestamp=stamp, key=None, value=json.dumps(record).encode(), headers=())
        for i, (stamp, record, _) in enumerate(events[:40])
    ]
    seen, rejected = keys._seen(spec, spec.topics.features, records)
    assert not rejected
    found = keys._absent(spec, [*seen.values()])
    assert [one[: len(sentence or "")] for one in found] == ([] if sentence is None else [sentence])
    learner, watchdog = PartitionLearner(spec), JoinWatchdog(spec, Connection("h:1"))
    watchdog.begin(learner)
    for part in (events[:10], events[10:]):
        release, at = release_of(part, at)
        learner.step(release)
    asyncio.run(watchdog.look([learner]))
    told = [one.getMessage() for one in caplog.records if "was missing in each of" in one.getMessage()]
    assert [one.partition(":")[0] for one in told] == [
        f"{one.partition(' ')[0]} was missing in each of {LEAST} instances, and none gets a label" for one in found
    ]


# -- evaluations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"topics": {"labels": "l"}}, 'record.id: expected a field, or "@key", since labels in topics.labels name'),
        ({"label": {"id": "@offset"}}, 'label.id: expected a path into the record, found "@offset"; only record.id'),
        ({"keys": {"k": {"from": "@offset", "max": 9}}}, "keys.k.from: expected a path into the record"),
        ({"features": {"a": {"type": "numeric", "from": "@offset"}}}, "features.a.from: expected a path into the"),
        ({"topics": {"labels": None}, "rekey": {"features": "raw"}}, "rekey.by: expected a key beside record.id"),
    ],
)
def test_an_id_that_is_a_place_is_refused_where_something_else_has_to_know_it(fields, sentence):
    plain = {"name": "s", "task": "regression", "features": {"a": "numeric"}, "record": {"id": "@offset"}}
    with pytest.raises(SpecError, match=re.escape(sentence)):
        build({**plain, **fields})
    spec = build({**plain, "topics": {"labels": None}, "partitions": 2})
    records = [b'{"x": {"a": 1}, "y": 2}', b"{", b'{"x": {"a": 3}, "y": 2}']
    batch = RawBatch([7, 8, 9], [1, 2, 3], [None, b"k", b"k"], records)
    assert PartitionLearner(spec, 1).decoder.features(batch).ids == ["1@7", "1@9"]


def test_an_evaluation_scores_what_the_sensor_says_an_hour_later(tmp_path):
    rng, data, stream = np.random.default_rng(0), tmp_path / "r.csv", tmp_path / "s.yaml"
    values = {"a": np.cumsum(rng.normal(size=500)), "b": 100 + np.cumsum(rng.normal(size=500))}
    with data.open("w") as file:
        out = csv.writer(file)
        out.writerow(["at", "sensor", "t", "h", "c"])
        for i in range(500):
            out.writerows([1_700_000_000 + 600 * i, one, values[one][i], i % 7, "u"] for one in "ab")
    stream.write_text(json.dumps({**SENSORS, "challengers": {"last": "last-label"}, "record": {"x": ""}}))
    arguments = ["evaluate", str(data), "--stream", str(stream), "--time", "at"]
    done = CliRunner().invoke(cli, [*arguments, "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == "t"
    last = found["models"]["last"]["overall"]
    errors = [abs(one[i] - one[i + 6]) for one in values.values() for i in range(494)]
    assert last["n"] == len(errors) - 12  # the first six of both, until there is a label
    assert last["mae"] == pytest.approx(np.mean(errors), rel=0.02)
    done = CliRunner().invoke(cli, arguments)
    assert "labels 1h late" in done.stdout
    done = CliRunner().invoke(cli, [*arguments, "--model", "mean", "--json"])
    assert json.loads(done.stdout)["runs"][0]["mae"] == found["models"]["champion"]["overall"]["mae"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "name its column by --time"),
        (["--time", "at", "--label", "t"], "--label: expected nothing"),
        (["--time", "at", "--label-delay", "1h"], "--label-delay: expected nothing"),
    ],
)
def test_options_that_labels_of_the_stream_do_not_go_with_are_refused(tmp_path, options, sentence):
    data, stream = tmp_path / "r.csv", tmp_path / "s.yaml"
    data.write_text("at,sensor,t,h,c\n1,a,1,1,u\n2,a,1,1,u\n")
    stream.write_text(json.dumps(SENSORS))
    done = CliRunner().invoke(cli, ["evaluate", str(data), "--stream", str(stream), *options])
    assert isinstance(done.exception, SpecError)
    assert sentence in str(done.exception)


def test_a_file_of_sensors_without_a_label_begins_as_a_forecast(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with open("r.csv", "w") as file:
        out = csv.writer(file)
        out.writerow(["time", "sensor", "temperature", "humidity"])
        for i in range(400):
            at = 1_700_000_000 + 600 * i
            out.writerows([at, sensor, round(rng.normal(), 3), round(rng.normal(), 3)] for sensor in (1, 2))
    done = CliRunner().invoke(cli, ["init", "r.csv"])
    assert done.exit_code == 0, done.exception
    assert "riparian evaluate r.csv --stream r.yaml --time time" in done.stdout
    text = (tmp_path / "r.yaml").read_text()
    assert 'label: {of: "temperature", ahead: "1h", by: "sensor"}' in text
    assert "  sensor: nominal" in text
    done = CliRunner().invoke(cli, ["check", "r.yaml"])
    assert (done.exit_code, "leave it out" in done.stdout) == (0, False)
    evaluated = ["evaluate", "r.csv", "--stream", "r.yaml", "--time", "time", "--model", "mean", "--json"]
    assert json.loads(CliRunner().invoke(cli, evaluated).stdout)["runs"][0]["n"] == 2 * 394 - 12
    (tmp_path / "plain.csv").write_text("sensor,temperature\na,1.5\nb,2.5\n")
    done = CliRunner().invoke(cli, ["init", "plain.csv"])
    assert str(done.exception).startswith("it is not clear which of the columns of plain.csv is the label")


def test_a_model_is_nearer_to_the_demand_of_three_hours_later_than_its_last_value(tmp_path):
    with gzip.open(ROOT / "app" / "demo" / "data" / "elec.csv.gz", "rt") as file:
        header, *lines = [line.rstrip().rpartition(",")[0] for line in file][:6001]
    data, stream = tmp_path / "elec.csv", tmp_path / "elec.yaml"
    times = [831_420_000 + 1800 * i for i in range(len(lines))]
    data.write_text("\n".join([f"at,{header}", *(f"{at},{one}" for at, one in zip(times, lines, strict=True)), ""]))
    features = dict.fromkeys(("period", "nswprice", "nswdemand", "vicdemand"), "numeric")
    fields = {"name": "demand", "task": "regression", "features": features, "record": {"x": ""}}
    fields |= {"label": {"of": "nswdemand", "ahead": "3h"}, "champion": "fimt-dd"}
    stream.write_text(json.dumps({**fields, "challengers": {"last": "last-label", "mean": "mean"}}))
    done = CliRunner().invoke(cli, ["evaluate", str(data), "--stream", str(stream), "--time", "at", "--json"])
    errors = {role: one["overall"]["mae"] for role, one in json.loads(done.stdout)["models"].items()}
    assert errors["champion"] < 0.8 * min(errors["last"], errors["mean"])
