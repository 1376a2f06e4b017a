"""Features over a key's past: against the naive twin, however the stream is cut and wherever it is restarted."""

import json
import math
import random
from itertools import pairwise

import numpy as np
import pytest

from riparian.app.dataset.files.data import DataFile
from riparian.app.dataset.rows import rows_of_file
from riparian.app.errors import DataError, SpecError, StateError
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.partition.join.ids import write_hashes
from riparian.app.partition.join.waiting import TAG, find_hash, take_out
from riparian.app.partition.join.waiting_index import WaitingIndex
from riparian.app.partition.keys.fold import Events, fold
from riparian.app.partition.keys.past import AHEAD_MS, Past, hashes_of, secret
from riparian.app.partition.keys.powers import place, table
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.clock import LATEST_MS, Clock
from riparian.app.partition.records.partition_group import Piece, Release
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file.sections.keys import key_bytes
from riparian.app.stream_file.spec import build
from riparian.topics.commands import Command, write
from riparian.topics.names import CONTROL, FEATURES, LABELS
from riparian.topics.records import RawBatch
from tests.app.naive_aggregates import Key, NaiveAggregates
from tests.app.naive_aggregates import place as naive_place

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_700_000_000_000
CLASSES = {
    "task": "classification",
    "classes": ["ok", "fraud"],
    "features": {
        "risk": {"share": "fraud", "by": "terminal", "half_life": "30d"},
        "ever": {"share": "ok", "by": "card"},
        "smooth": {"share": "fraud", "by": "terminal", "half_life": "2h", "smooth": 3},
    },
}
NUMBERS = {
    "task": "regression",
    "features": {
        "mean_label": {"mean": "label", "by": "card", "half_life": "3h"},
        "last_label": {"last": "label", "by": "terminal"},
    },
}
COMMON = {
    "n": {"count": "card", "half_life": "7d"},
    "n_ever": {"count": "terminal"},
    "short": {"count": "card", "half_life": "2s"},
    "mean": {"mean": "amount", "by": "card", "half_life": "1h"},
    "mean_ever": {"mean": "amount", "by": "card"},
    "last": {"last": "amount", "by": "terminal"},
    "since": {"since": "card"},
    "times": {"ratio": "amount", "to": "mean"},
    "trend": {"ratio": "mean", "to": "mean_ever"},
    "step": {"ratio": "amount", "to": "last"},
    "pace": {"ratio": "n", "to": "since"},
}
MILLISECONDS = {"7d": 7 * DAY, "30d": 30 * DAY, "1h": HOUR, "2h": 2 * HOUR, "3h": 3 * HOUR, "2s": 2000}


def spec_of(kind, most=1000, idle=None, **fields):
    keys = {"max": most} if idle is None else {"max": most, "idle": f"{idle}ms"}
    made = COMMON | kind["features"]
    return build(
        {
            "name": "payments",
            "champion": "majority-class" if kind["task"] == "classification" else "mean",
            **kind,
            "features": {"amount": "numeric", **made},
            "keys": {"card": keys, "terminal": {**keys, "from": "terminal"}},
            "join": {"horizon": "36500d"},
            **fields,
        }
    )


def drawn(seed, kind, n, late=0.1, cards=7):
    """Events in the order of the fold: stamp, record, or None and a label record; some rejected, some repeated."""
    draws, now, waiting, events = random.Random(seed), START, [], []
    for i in range(n):
        now += int(draws.expovariate(1) * draws.choice([0, 1000, 60_000, HOUR, DAY]))
        if draws.random() < 0.02:
            now += draws.choice([200, 700, 3000]) * HOUR  # over epochs of the short half-lives
        stamp = now - int(draws.expovariate(1) * 5 * HOUR) * (draws.random() < late)
        amount = draws.choice([draws.lognormvariate(0, 3), -draws.random(), 0.0, 1e99, 3e100, None])
        new = draws.random() < 0.95 or not waiting
        record = {
            "id": str(i) if new else draws.choice(waiting),
            "x": {"amount": "none" if draws.random() < 0.03 else amount, "card": draws.choice([*range(cards), None])},
            "terminal": draws.choice(["a", "b", "c", "d", "é", ""]),
        }
        events.append((stamp, record, None))
        waiting += [record["id"]] if new and record["x"]["amount"] != "none" else []
        while waiting and draws.random() < 0.45:
            id_ = waiting.pop(draws.randrange(len(waiting)))
            y = draws.choice(["ok", "fraud"]) if kind is CLASSES else draws.choice([draws.gauss(0, 5), 0.0])
            events.append((now, None, {"id": id_, "y": y}))
    return events


def piece_of(records, first):
    n = len(records)
    raw = RawBatch(
        list(range(first, first + n)),
        [stamp for stamp, _ in records],
        [None] * n,
        [json.dumps(record).encode() for _, record in records],
    )
    stamps = np.array([stamp for stamp, _ in records], np.int64)
    return Piece(raw, np.arange(first, first + n), stamps, stamps)


def release_of(events, at):
    """at : places of the next feature and label."""
    features = [(stamp, record) for stamp, record, _ in events if record is not None]
    labels = [(stamp, label) for stamp, _, label in events if label is not None]
    before, count = [], 0
    for _, record, _ in events:
        before += [count] if record is not None else []
        count += record is None
    release = Release(
        {FEATURES: piece_of(features, at[0]), LABELS: piece_of(labels, at[1])}, {LABELS: np.array(before, np.int64)}
    )
    return release, (at[0] + len(features), at[1] + len(labels))


def watched(learner, found):
    """Append to `found` the features of all that is predicted."""
    observe = learner.past.observe

    def noted(*arguments):
        features = observe(*arguments)
        found.extend(features.x.tolist())
        return features

    learner.past.observe = noted
    return learner


def restarted(learner, stored, found):
    """The learner that comes of checkpoints. stored : arrays of those before."""
    snapshot = learner.checkpoint()
    kept = {name: stored[name] for name in snapshot.kept}
    stored.clear()
    stored |= kept | {name: np.array(a) for name, a in {**snapshot.frozen, **snapshot.arrays}.items()}
    other = PartitionLearner(learner.spec)
    other.restore(Snapshot(snapshot.meta, dict(stored)))
    assert other.digest() == learner.digest()
    return watched(other, found)


def folded(spec, events, cuts, restarts=()):
    """Features of all records that are predicted, and the learner; a new one at each of the restarts."""
    found, stored, at = [], {}, (0, 0)
    learner = watched(PartitionLearner(spec), found)
    edges = sorted({0, len(events), *cuts, *restarts})
    for start, stop in pairwise(edges):
        release, at = release_of(events[start:stop], at)
        learner.step(release)
        if stop in restarts:
            learner = restarted(learner, stored, found)
    return np.array(found), learner


def assert_same_however_cut(spec, events):
    """Features and state of a stream, at drawn cuts and restarts, are those of it whole; the learner of the whole."""
    (x, whole), draws = folded(spec, events, []), random.Random(3)
    for _ in range(2):
        cuts, restarts = (draws.sample(range(1, len(events)), n) for n in (30, 12))
        found, learner = folded(spec, events, cuts, restarts)
        np.testing.assert_array_equal(found, x)
        assert learner.digest() == whole.digest()
    return whole


def expected(spec, events):
    """The same by the twin, with the rules of the fold: a record's own time, no rejected record, each id once, and a
    key that has been idle by stream time goes."""
    names = [name for name in spec.features if name != "amount"]
    plain = {}
    for name, one in spec.features.items():
        if name != "amount":
            said = {field: getattr(one, field) for field in one.model_fields_set - {"type", "half_life"}}
            plain[name] = said | ({} if one.half_life is None else {"half_life": round(one.half_life * 1000)})
    idle = {name: None if key.idle is None else round(key.idle * 1000) for name, key in spec.keys.items()}
    twin = NaiveAggregates({name: Key(key.max, idle[name]) for name, key in spec.keys.items()}, plain)
    clock, waiting, found, arrived, now = Clock(), {}, [], {name: {} for name in spec.keys}, 0

    def expire():
        for name, rows in twin.rows.items():
            while rows and idle[name] is not None and now - arrived[name][next(iter(rows))] > idle[name]:
                rows.popitem(last=False)

    def arrive(keys, names):
        for name in names:
            if keys[name] is not None:
                arrived[name][keys[name]] = now

    for stamp, record, label in events:
        if label is not None:
            expire()
            if label["id"] in waiting:
                time, keys = waiting.pop(label["id"])
                twin.label(time, keys, label["y"])
                arrive(keys, {one.key for one in spec.features.values() if one.past and one.of_labels})
            continue
        time = int(clock.advance(np.array([stamp]))[0]) or stamp
        if record["x"]["amount"] == "none":
            continue
        now = time
        expire()
        keys = {"card": record["x"]["card"], "terminal": record["terminal"] or None}
        if record["id"] in waiting:
            found.append(None)
            continue
        own = stamp if stamp <= time + AHEAD_MS else time
        values = twin.observe(own, keys, {"amount": record["x"]["amount"]})
        arrive(keys, keys)
        amount = record["x"]["amount"]
        found.append([math.nan if amount is None else amount, *(values[name] for name in names)])
        waiting[record["id"]] = own, keys
    return found


def assert_same(found, wanted):
    assert len(found) == len(wanted)
    for i, (row, want) in enumerate(zip(found.tolist(), wanted, strict=True)):
        if want is not None:  # of a repeated id
            np.testing.assert_array_equal(np.array(row), np.array(want), err_msg=str(i))


@pytest.mark.parametrize("kind", [CLASSES, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize("most", [1000, 3])
@pytest.mark.parametrize("idle", [None, 20 * HOUR])
def test_features_equal_the_twins_to_the_last_bit(kind, most, idle):
    spec = spec_of(kind, most, idle)
    for seed in range(2):
        events = drawn(seed, kind, 400)
        found, _ = folded(spec, events, cuts=range(0, len(events), 50))
        assert_same(found, expected(spec, events))
        assert np.isnan(found).any(axis=0).all()
        assert (~np.isnan(found)).any(axis=0).all()


@pytest.mark.parametrize("kind", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_cuts_and_restarts_change_no_bit(kind):
    draws = random.Random(5)
    for seed, most, idle in ((0, 1000, None), (1, 3, None), (2, 5, 20 * HOUR), (3, 2, 20 * HOUR)):
        spec, events = spec_of(kind, most, idle), drawn(seed, kind, 300)
        whole, learner = folded(spec, events, cuts=())
        for _ in range(2):
            cuts = draws.sample(range(len(events)), draws.choice([5, 100]))
            restarts = draws.sample(range(1, len(events)), draws.choice([1, 5, 20]))
            found, other = folded(spec, events, cuts, restarts)
            np.testing.assert_array_equal(found, whole)
            assert other.digest() == learner.digest()


def test_labels_that_met_count_with_their_instances():
    """Between a join and the end of its step the event loop may look: labels that met then count with neither."""
    learner = PartitionLearner(spec_of(CLASSES))
    release, _ = release_of(drawn(1, CLASSES, 200), (0, 0))
    batch = learner.join(release)
    assert (learner.n_instances, learner.n_labels, learner.n_met) == (0, 0, 0)
    assert learner.pending.n_met > 0
    learner.finish(batch, learner.learning.run(batch))
    assert learner.n_met == learner.pending.n_met


def test_what_is_predicted_with_is_what_is_learned():
    spec = spec_of(CLASSES, 50)
    learner, found = PartitionLearner(spec), []
    watched(learner, found)
    events = drawn(9, CLASSES, 100)
    release, _ = release_of(events, (0, 0))
    waiting = learner.step(release)
    rows = learner.pending._instances.rows()
    by_id = dict(zip(waiting.ids, found, strict=True))  # the last of an id: none repeats while it waits
    ids, ends = learner.pending._instances.ids(rows)
    names = [bytes(ids[a:b]).decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    once = [name for name in names if waiting.ids.count(name) == 1]
    assert len(once) > 10
    for row, name in zip(rows, names, strict=True):
        if name in once:
            np.testing.assert_array_equal(learner.pending.slab[row], by_id[name])


def test_a_checkpoint_writes_the_keys_that_were_touched():
    spec = spec_of(CLASSES, 100_000)
    record = {"x": {"amount": 1.0}, "terminal": "a"}
    events = [(START + i, {"id": str(i), **record, "x": {"amount": 1.0, "card": i}}, None) for i in range(20_000)]
    learner, at = PartitionLearner(spec), (0, 0)
    release, at = release_of(events, at)
    learner.step(release)
    first = learner.checkpoint()
    few = [(START + 20_000 + i, {"id": f"_{i}", **record, "x": {"amount": 1.0, "card": 7 * i}}, None) for i in range(9)]
    release, at = release_of(few, at)
    learner.step(release)
    second = learner.checkpoint()

    def written(snapshot):
        return sum(a.nbytes for name, a in snapshot.frozen.items() if name.startswith("keys/card/rows"))

    assert written(first) > 20_000 * 100
    assert written(second) < written(first) / 50
    assert [name for name in second.kept if name.startswith("keys/card/rows")]


def test_a_record_far_ahead_counts_at_stream_time():
    spec = spec_of(CLASSES)
    stamps = [START + i * 1000 for i in range(5)] + [START + 400 * DAY] + [START + 6000, START + 7000]
    events = [
        (stamp, {"id": str(i), "x": {"amount": 1.0, "card": 1}, "terminal": "t"}, None)
        for i, stamp in enumerate(stamps)
    ]
    found, _ = folded(spec, events, cuts=())
    assert_same(found, expected(spec, events))
    since = list(spec.features).index("since")
    assert found[1:, since].tolist() == [1, 1, 1, 1, 0, 2, 1]


def test_many_touches_keep_keys_apart():
    spec = spec_of(CLASSES, 100_000)
    draws, counts, wanted, events = random.Random(1), {}, [], []
    for i in range(40_000):
        card = int(draws.paretovariate(0.5)) % 3000
        counts[card] = counts.get(card, 0) + 1
        wanted.append(counts[card])
        record = {"id": str(i), "x": {"amount": 1.0}, "terminal": f"terminal {card}"}
        events.append((START + i, record, None))
    found, learner = folded(spec, events, cuts=range(0, 40_000, 700), restarts=(10_000, 30_000))
    assert found[:, list(spec.features).index("n_ever")].tolist() == wanted
    assert len(learner.past._known["terminal"]) == len(counts)


def test_keys_of_one_tag_are_kept_apart():
    """With numbers of 1 in the index, the tag of a hash is the sum of its words."""
    one, other = 2**50, 2**60
    hashes = np.array([[one, other], [other, one]], np.int64)
    index = WaitingIndex.empty(np.zeros(2, np.uint64), hashed=True)
    index, rows = index.refill(hashes.reshape(-1).view(np.uint8), np.array([16, 32]), np.array([START, START]))
    assert len(set(index.entries[rows, TAG].tolist())) == 1
    assert [find_hash(index, *words) for words in hashes] == rows.tolist()
    assert find_hash(index, one, one) == find_hash(index, other, other) == -1
    take_out(index, rows[0])
    assert [find_hash(index, *words) for words in hashes] == [-1, rows[1]]
    assert index.ids(rows[1:])[0].tobytes() == hashes[1].tobytes()


def test_evictions_keep_the_state_small():
    spec = spec_of(CLASSES, 100)
    events = [
        (START + i, {"id": str(i), "x": {"amount": 1.0, "card": i}, "terminal": str(i % 1000)}, None)
        for i in range(30_000)
    ]
    events = [one for i, event in enumerate(events) for one in (event, (START + i, None, {"id": str(i), "y": "ok"}))]
    _, learner = folded(spec, events, cuts=range(0, 60_000, 500))
    assert len(learner.past._known["card"]) == len(learner.past._known["terminal"]) == 100
    assert learner.past.n_bytes < 1_000_000


def test_other_bounds_go_on_and_another_meaning_is_refused():
    spec, events = spec_of(CLASSES, 1000), drawn(2, CLASSES, 100)
    _, learner = folded(spec, events, cuts=())
    assert len(learner.past._known["card"]) == 7

    def restored(most=1000, features=CLASSES["features"], **fields):
        other = PartitionLearner(spec_of({**CLASSES, "features": features}, most, **fields))
        return other, other.restore(learner.snapshot())

    same, said = restored()
    assert said == []
    assert same.digest() == learner.digest()
    fewer, said = restored(most=2)
    assert said == [f"keys.{name}.max was 1000, is 2: from here on" for name in ("card", "terminal")]
    release, _ = release_of([(START + 10**10, {"id": "n", "x": {"amount": 1, "card": "new"}}, None)], (100, 100))
    fewer.step(release)
    assert (len(fewer.past._known["card"]), len(fewer.past._known["terminal"])) == (2, 2)
    shorter = CLASSES["features"] | {"risk": {"share": "fraud", "by": "terminal", "half_life": "7d"}}
    with pytest.raises(StateError, match=r"features.risk was share fraud, by terminal, half_life 30d, is .* 7d"):
        restored(features=shorter)
    with pytest.raises(StateError, match=r"keys.terminal.from was terminal, is x.terminal: what is known is of other"):
        restored(keys={"card": {"max": 1000}, "terminal": {"max": 1000, "from": "x.terminal"}})


def test_the_kafka_key_can_be_the_key():
    spec = spec_of(CLASSES, keys={"card": {"from": "@key", "max": 9}, "terminal": {"max": 9}})
    two = {"card": {"from": "@key", "max": 9}, "terminal": {"from": "@key", "max": 9}}
    assert spec_of(CLASSES, keys=two, partitions=2, learning="partition").mapping().keys == (None, None)
    keys = [b"a", b"b", b"a", None, b"\xff", b"a", b"", b"\xff", b"a" * 1025]
    piece = piece_of([(START, {"id": str(i), "x": {"amount": 1.0}}) for i in range(len(keys))], 0)
    piece = piece._replace(raw=RawBatch(piece.raw.offsets, piece.raw.timestamps, keys, piece.raw.values))
    found = []
    learner = watched(PartitionLearner(spec), found)
    outcome = learner.step(Release({FEATURES: piece, LABELS: piece_of([], 0)}, {LABELS: np.zeros(len(keys), np.int64)}))
    assert [one.reason for one in outcome.rejected[FEATURES]] == ["too-long"]
    counts = [row[1 + list(COMMON).index("n")] for row in found]
    np.testing.assert_array_equal(counts, [1, 1, 2, np.nan, 1, 3, np.nan, 2])


def test_files_have_the_column_of_a_key_and_the_time_of_each_row(tmp_path):
    path = tmp_path / "payments.csv"
    path.write_text("amount,card,terminal,at,y\n1,a,t,10,ok\n2,a,t,20,ok\n")
    data, spec = DataFile(path), spec_of(CLASSES)
    with pytest.raises(
        SpecError, match="since features over a key's past go by it, found none; name its column by --time"
    ):
        spec_for(data, "majority-class", {}, stream=spec)
    other = tmp_path / "other.csv"
    other.write_text(path.read_text().replace("terminal", "place"))
    one, goal, n = spec_for(DataFile(other), "majority-class", {}, stream=spec, clock="at")
    with pytest.raises(DataError, match="no column 'terminal' for a feature or key of the stream"):
        evaluate(DataFile(other), one, goal, n, clock="at")
    one, goal, n = spec_for(data, "majority-class", {}, stream=spec, clock="at")
    assert evaluate(data, one, goal, n, clock="at", label_delay=5.0)["n"] == 2
    rows = next(rows_of_file(data, spec, "y"))
    assert rows.features == [["1", "2"], ['"a"', '"a"'], ['"t"', '"t"']]
    keyed = spec_of(CLASSES, keys={"card": {"from": "@key", "max": 9}, "terminal": {"max": 9}})
    with pytest.raises(DataError, match=r"expected paths, since rows of .* have no Kafka key but their id"):
        next(rows_of_file(data, keyed, "y"))
    one, goal, n = spec_for(data, "majority-class", {}, stream=keyed, clock="at")
    assert evaluate(data, one, goal, n, clock="at", label_delay=5.0)["n"] == 2


def test_a_worker_compiles_the_kernels_before_the_first_record():
    spec, events = spec_of(CLASSES), drawn(1, CLASSES, 50)
    learner = PartitionLearner(spec)
    before = learner.digest()
    learner.warm_up()
    assert learner.digest() == before
    known = [len(kernel.signatures) for kernel in (fold, write_hashes)]
    assert min(known) > 0
    at = (0, 0)
    for start in range(0, len(events), 7):
        release, at = release_of(events[start : start + 7], at)
        learner.step(release)
    assert [len(kernel.signatures) for kernel in (fold, write_hashes)] == known


def test_a_key_is_forgotten_also_by_labels_that_come():
    spec = spec_of(CLASSES, control=True)
    records = [
        (START + i, {"id": str(i), "x": {"amount": 1.0, "card": "4711"}, "terminal": "t"}, None) for i in range(3)
    ]
    other = (START, {"id": "o", "x": {"amount": 1.0, "card": 1}, "terminal": "t"}, None)
    again = (START + 9, {"id": "n", "x": {"amount": 1.0, "card": 4711}, "terminal": "t"}, None)
    late = [(START + 8, None, {"id": id_, "y": "ok"}) for id_ in ("0", "o")]

    def asked(value, key="card"):
        hashed = hashes_of(secret("payments"), [value]).tobytes().hex()
        command = write(Command(id=f"{key} {value}", command="forget", key=key, hash=hashed))
        return Piece(RawBatch([0], [START], [None], [command]), *(np.array([n]) for n in (0, START, START)))

    found, stored = [], {}
    learner = watched(PartitionLearner(spec), found)
    release, at = release_of([other, *records], (0, 0))
    learner.step(release)
    learner = restarted(learner, stored, found)
    for value, key, said in (
        ("4711", "card", "is forgotten"),
        ("4711", "card", "nothing is known of card"),
        ("1", "terminal", "nothing is known of terminal"),
        ("1", "country", "there is no key country"),
    ):
        learner.learning._commands.append(asked(value, key)._replace(offsets=np.array([learner.places[CONTROL]])))
        one = (START + 5, {"id": f"{value} {said}", "x": {"amount": 1.0}, "terminal": "u"}, None)
        release, at = release_of([one], at)
        (event,) = learner.step(release).events
        assert said in event.sentence
        assert "4711" not in event.sentence
        learner.lineup.steering._ids.clear()
    learner = restarted(learner, stored, found)
    release, at = release_of([*late, again], at)
    learner.step(release)
    names = list(spec.features)
    assert found[-1][names.index("n_ever")] == 5.0  # of the terminal
    assert found[-1][names.index("n")] == 1.0
    assert math.isnan(found[-1][names.index("ever")])
    assert len(learner.past._known["card"]) == 2


def test_damaged_sums_are_refused():
    spec = spec_of(CLASSES)
    _, learner = folded(spec, drawn(2, CLASSES, 50), cuts=())
    snapshot = learner.snapshot()
    for name, damaged in (
        ("keys/card/sums", lambda a: a[:, 1:]),
        ("keys/card/sums", lambda a: a + math.inf),
        ("keys/card/sums", lambda a: a[1:]),
        ("keys/card/hashes", lambda a: a[:-3]),
        ("keys/terminal/shares", lambda a: a[:1]),
    ):
        arrays = {**snapshot.arrays, name: damaged(snapshot.arrays[name])}
        with pytest.raises(StateError, match="cannot be used"):
            PartitionLearner(spec).restore(snapshot._replace(arrays=arrays))


def test_keys_and_features_in_another_order_have_the_same_past():
    spec, events = spec_of(CLASSES), drawn(3, CLASSES, 60)
    made = {"amount": "numeric", **dict(reversed((COMMON | CLASSES["features"]).items()))}
    other = spec_of(CLASSES, features=made, keys={"terminal": {"max": 1000, "from": "terminal"}, "card": {"max": 1000}})
    assert [*other.features] != [*spec.features]
    _, learner = folded(spec, events[:50], cuts=())
    assert learner.pending.n_waiting > 5
    at = tuple(sum(one[i] is not None for one in events[:50]) for i in (1, 2))
    rows = []
    for again in (spec, other):
        found, restored = [], PartitionLearner(again)
        assert restored.restore(learner.snapshot()) == []
        release, _ = release_of(events[50:], at)
        watched(restored, found).step(release)
        rows.append([dict(zip(again.features, row, strict=True)) for row in found])
    assert len(rows[0]) > 3
    for one, two in zip(*rows, strict=True):
        np.testing.assert_array_equal([one[name] for name in one], [two[name] for name in one])


def test_no_checkpoint_after_a_key_was_forgotten_has_its_hash():
    spec, stored, at = spec_of(CLASSES), {}, (0, 0)
    records = [
        (START + i, {"id": str(i), "x": {"amount": 1.0, "card": i % 50}, "terminal": "t"}, None) for i in range(500)
    ]
    left = [(START + 500, None, {"id": str(i), "y": "ok"}) for i in range(500) if i % 50 == 17]
    learner, hashed = PartitionLearner(spec), hashes_of(secret("payments"), ["17"]).tobytes()

    def where():
        nonlocal stored
        snapshot = learner.checkpoint()
        kept = {name: stored[name] for name in snapshot.kept}
        stored = kept | {name: np.array(a) for name, a in {**snapshot.frozen, **snapshot.arrays}.items()}
        return {name.split("/")[0] for name, array in stored.items() if hashed[:8] in array.tobytes("A")}

    for events in (records, left):
        release, at = release_of(events, at)
        learner.step(release)
        there = where()
    assert there == {"keys", "pending"}
    assert learner.past.forget("card", hashed.hex(), learner.pending)
    assert where() == set()


@pytest.mark.parametrize(
    ("classes", "share", "there"),
    [
        ([0, 1], 1.0, True),
        ([0, 1], "1", True),
        ([1.0, 2.5], 1, True),
        ([False, True], "true", True),
        ([0, 1], True, False),
        ([False, True], 1, False),
        ([0, 1], 0, True),
    ],
)
def test_a_share_is_of_a_class_by_its_text(classes, share, there):
    kind = {"task": "classification", "classes": classes, "features": {"risk": {"share": share, "by": "card"}}}
    if there:
        Past(spec_of(kind))
        assert spec_of(kind).features["risk"].written()["share"] == share
    else:
        with pytest.raises(SpecError, match=r"features.risk.share: expected one of classes"):
            spec_of(kind)


def test_half_lives_are_kept_to_the_millisecond():
    record = {"x": {"amount": 1.0, "card": 1}, "terminal": "t"}
    found, _ = folded(spec_of(CLASSES), [(START + i * 2000, {"id": str(i), **record}, None) for i in range(2)], cuts=())
    assert found[:, 1 + list(COMMON).index("short")].tolist() == [1.0, 1.5]
    powers, draws = table(), random.Random(1)
    for half_life in (2000, 2001, HOUR, 7 * DAY, 3653 * DAY):
        for time in (0, -1, 1, -half_life, LATEST_MS, 2 * LATEST_MS, *(draws.randint(-(10**13), 10**13),) * 9):
            assert place(powers, half_life, time) == naive_place(time, half_life)


@pytest.mark.parametrize("most", [1, 900, 20_000, 33_000])
def test_keys_take_no_more_than_is_promised(most):
    spec, draws, n = spec_of(CLASSES, most), np.random.default_rng(1), 8192
    known, width = Past(spec)._known, len(spec.features)
    for i in range(most // n + 2):
        now = np.full(n, START + i)
        events = Events(np.zeros(n, np.int8), np.arange(n), now, now, np.zeros(n))
        for name, rows in known.items():
            out = np.zeros((n, width))
            rows.fold(events, draws.integers(1, 2**63, (n, 2), dtype=np.uint64), np.zeros((n, width)), out, out.copy())
            assert rows.n_bytes <= key_bytes(spec, name)
    assert [len(rows) for rows in known.values()] == [most, most]


def test_predictions_have_the_features_that_were_predicted_with():
    spec = spec_of(CLASSES, predictions={"features": True})
    found, learner = folded(spec, drawn(4, CLASSES, 60), cuts=())
    names = list(spec.features)[1:]
    assert learner.spec.predictions.features
    record = {"id": "n", "x": {"amount": 2.0, "card": 1}, "terminal": "a"}
    release, _ = release_of([(START + 10**10, record, None)], (90, 90))
    outcome = learner.step(release)
    row = dict(zip(names, outcome.made[0].tolist(), strict=True))
    (record,) = learner.encode(outcome)
    assert json.loads(record)["features"] == {name: value for name, value in row.items() if value == value}
    assert len(found)
    plain = PartitionLearner(spec_of(CLASSES))
    first = plain.step(release_of([(START, {"id": "n", "x": {"amount": 2.0, "card": 1}}, None)], (0, 0))[0])
    assert "features" not in json.loads(plain.encode(first)[0])
    with pytest.raises(SpecError, match=r"predictions.features: expected features over a key's past"):
        build({"name": "s", "task": "regression", "features": {"a": "numeric"}, "predictions": {"features": True}})
