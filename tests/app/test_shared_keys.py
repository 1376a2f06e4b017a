"""Features over a key's past where partitions learn one model: against the naive twin, in workers that lose partitions
and get them back, and in folds of what they recorded."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import numpy as np
import pytest
from msgspec.structs import replace

from riparian.app.dataset.files.data import DataFile
from riparian.app.errors import SpecError, StateError
from riparian.app.evaluation.evaluate import evaluate, spec_for
from riparian.app.kafka.connection import Connection
from riparian.app.page.keys import looked_up
from riparian.app.partition.join.segments import decode as rows_of
from riparian.app.partition.keys.past import LabelPast, hashes_of, secret
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.clock import Clock
from riparian.app.partition.records.partition_group import Piece, Release
from riparian.app.state.audit.backtest import of_models
from riparian.app.state.checkpoint import Encoder, decode
from riparian.app.stream_file.columns import plain
from riparian.app.stream_file.sections.keys import key_bytes
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedKeys, LearnedRecord, read, write
from tests.app.naive_aggregates import Key, NaiveSharedAggregates
from tests.app.shared_world import COMMANDS, World, replayed, said, stream
from tests.app.test_replica import Led, lived

N = 480
RECORDS: dict[str, Any] = {
    "n": {"count": "card", "half_life": "2s"},
    "mean": {"mean": "a", "by": "card", "half_life": "10s"},
    "last": {"last": "a", "by": "card"},
    "since": {"since": "card"},
    "times": {"ratio": "a", "to": "mean"},
}
OF_CLASSES: dict[str, Any] = {
    "risk": {"share": "q", "by": "terminal", "half_life": "10s"},
    "ever": {"share": "p", "by": "card"},
    "smooth": {"share": "q", "by": "terminal", "half_life": "2s", "smooth": 3},
    "both": {"ratio": "risk", "to": "mean"},
}
OF_NUMBERS: dict[str, Any] = {
    "mean_label": {"mean": "label", "by": "terminal", "half_life": "10s"},
    "last_label": {"last": "label", "by": "card"},
    "both": {"ratio": "mean_label", "to": "last_label"},
}
MILLISECONDS = {"2s": 2000, "10s": 10_000}


def keyed(task: str = "classification", most: int = 1000, idle: str | None = None, **fields: Any) -> Spec:
    bounds = {"max": most} | ({} if idle is None else {"idle": idle})
    features = {"a": "numeric", **RECORDS, **(OF_CLASSES if task == "classification" else OF_NUMBERS)}
    of_task: dict[str, Any] = {"classes": ["p", "q", "r", "s"]}
    if task == "regression":
        of_task = {"champion": "fimt-dd", "challengers": {"mean": "mean"}, "drift": "none"}
    copied = {"rekey": {"features": "raw", "labels": "late", "by": "card"}}
    keys, asked = {"card": bounds, "terminal": bounds}, {"features": True}
    return stream(
        **{"task": task, "features": features, "keys": keys, "predictions": asked} | copied | of_task | fields
    )


class Payments(Led):
    """Records that come late, at one time, and after long pauses; some have no terminal. Checkpoints write what has
    changed."""

    _now = 1_000_000

    def time_of(self, p: int) -> int:
        return max(self.learners[p].clocks[role].time for role in (FEATURES, LABELS))

    def cut(self, p: int) -> tuple[dict[str, Any], dict[str, Any]]:
        meta, arrays, frozen, kept, _ = self.learners[p].checkpoint()
        before = self.kept[p]
        return meta, {**arrays, **frozen, **{name: before.arrays[name] for name in kept if before is not None}}

    def come(self, given: list[tuple[dict[str, Any], Any]], late: int = 12) -> None:
        for x, y in given:
            self._n += 1
            self._now += int(self.rng.choice([0, 0, 10, 100, 1000, 600_000 if self._n % 97 == 0 else 3]))
            stamp = self._now - int(self.rng.choice([0, 0, 0, 0, 150, 4000]))
            at = self.raw[self._n % len(self.raw)]
            if self.rng.random() < 0.1:
                at[FEATURES].append((self._now, b"{"))
            at[FEATURES].append((stamp, json.dumps({"id": str(self._n), "x": x}).encode()))
            self.labels.append(json.dumps({"id": str(self._n), "y": y}).encode())
            if self._n > late:
                n = self._n - late
                self.raw[n % len(self.raw)][LABELS].append((self._now, self.labels[n - 1]))


def payments(task: str, seed: int, n: int = N) -> list[tuple[dict[str, Any], Any]]:
    """Each has an amount of its own; cards are those of the partition that its record comes to."""
    rng, made = np.random.default_rng(seed), []
    for i in range(n):
        x: dict[str, Any] = {"a": i + 0.25, "card": f"{(i + 1) % 3}-{rng.integers(6)}"}
        if rng.random() < 0.9:
            x["terminal"] = f"t{rng.integers(8)}"
        bad = x.get("terminal") in ("t1", "t2")
        y: Any = "q" if bad != (rng.random() < 0.1) else str(rng.choice(["p", "r", "s"]))
        made.append((x, y if task == "classification" else round(float(rng.normal(5.0 * bad)), 3)))
    return made


def expected(world: Led, given: list[tuple[dict[str, Any], Any]]) -> list[list[dict[str, float]]]:
    """The features of each prediction of each partition, by the twin: records in their order, and labels in that of the
    log, up to the place that the prediction recorded."""
    spec, plain = world.spec, {}
    for name, one in spec.features.items():
        if one.past is not None:
            told = {field: getattr(one, field) for field in one.model_fields_set - {"type", "half_life"}}
            plain[name] = told | ({} if one.half_life is None else {"half_life": round(one.half_life * 1000)})
    idle = {name: None if key.idle is None else round(key.idle * 1000) for name, key in spec.keys.items()}
    twin = NaiveSharedAggregates({n: Key(key.max, idle[n]) for n, key in spec.keys.items()}, plain, spec.partitions)
    tables = [*twin.own, twin.labels]
    arrived: list[dict[str, dict[str, int]]] = [{name: {} for name in spec.keys} for _ in tables]
    nows = [0 for _ in tables]

    def at(i: int, now: int) -> None:
        nows[i] = max(nows[i], now)
        for name, rows in tables[i].rows.items():
            while rows and idle[name] is not None and nows[i] - arrived[i][name][next(iter(rows))] > idle[name]:
                rows.popitem(last=False)

    def touched(i: int, keys: dict[str, Any], names: Any) -> None:
        for name in names:
            if keys[name] is not None:
                arrived[i][name][keys[name]] = nows[i]

    stamps = [[stamp for stamp, _ in found[FEATURES]] for found in world.raw]
    times = [Clock().advance(np.array(one)).tolist() for one in stamps]
    by_amount = {}
    for found in world.raw:
        for stamp, value in found[FEATURES]:
            if value != b"{":
                x = json.loads(value)["x"]
                by_amount[x["a"]] = stamp, {name: x.get(name) for name in spec.keys}
    of_amount = {x["a"]: y for x, y in given}
    of_records = {one.key for one in spec.features.values() if one.key and not one.of_labels}
    of_labels = {one.key for one in spec.features.values() if one.key and one.of_labels}
    log = [read(value) if value else None for value in world.log]
    known, place = dict[int, int](), 0
    sent = [[json.loads(one) for one in found] for found in world.sent]
    order = sorted((one["learned_offset"], p, i) for p, found in enumerate(sent) for i, one in enumerate(found))
    made: list[list[dict[str, float]]] = [[] for _ in sent]
    for learned, p, i in order:
        for record in log[place:learned]:
            if not isinstance(record, LearnedRecord):
                continue  # a command
            new = max(0, known.get(record.partition, 0) - record.first)
            known[record.partition] = max(known.get(record.partition, 0), record.first + record.n)
            for amount in record.columns()[0][new:, 0].tolist():
                time, keys = by_amount[amount]
                at(len(sent), record.time)
                twin.label(time, keys, of_amount[amount])
                touched(len(sent), keys, of_labels)
        place = learned
        offset = sent[p][i]["offset"]
        amount = json.loads(world.raw[p][FEATURES][offset][1])["x"]["a"]
        time, keys = by_amount[amount]
        at(p, times[p][offset] or stamps[p][offset])
        values = twin.observe(p, time, keys, {"a": amount})
        touched(p, keys, of_records)
        made[p].append({name: value for name, value in values.items() if value == value})
    return made


@pytest.mark.parametrize(
    ("task", "most", "idle", "seed"),
    [
        ("regression", 3, None, 1),
        ("classification", 1000, "5s", 2),
        ("classification", 4, "20s", 3),
    ],
)
def test_features_equal_the_twins_in_workers_that_lose_partitions(task, most, idle, seed):
    spec, given = keyed(task, most, idle), payments(task, seed)
    world = lived(spec, n=N, seed=seed, made=given, kind=Payments)
    assert world.n_restarts
    assert world.n_recovered
    wanted = expected(world, given)
    for p, found in enumerate(world.sent):
        assert [json.loads(one)["features"] for one in found] == wanted[p]
    names = {name for found in wanted for one in found for name in one}
    assert names == {name for name, one in spec.features.items() if one.past is not None}
    offsets = {json.loads(one)["learned_offset"] for found in world.sent for one in found}
    assert len(offsets) > 30
    leads = world.replica.lineup
    assert leads is not None
    for p, learner in enumerate(world.learners):
        assert learner.places[LEARNED] == len(world.log)
        assert learner.lineup.keys is leads.keys
        rng = np.random.default_rng(seed)
        alone, sent = replayed(world, p, rng.integers(1, 60, 15).tolist(), {3, 7, 8})
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        assert alone.lineup.digest() == leads.digest()
        restored = PartitionLearner(spec, p)
        restored.restore(world.kept[p])
        assert restored.digest() == learner.digest()


def test_a_checkpoint_writes_the_keys_that_labels_touched_since_the_partitions_last_one():
    world, given = Payments(keyed(), 14), payments("classification", 14, 480)
    for i, (x, _) in enumerate(given[:360]):
        x["terminal"] = f"t{i}"
    encoders = [Encoder("s", p) for p in range(3)]
    manifests: list[Any] = [None for _ in encoders]
    written: list[dict[bytes, bytes]] = [{} for _ in encoders]

    def write(p: int) -> int:
        """A checkpoint; how many rows of terminals are among what is new."""
        replica = world.replicas[p]
        with world.learners[p].learning.still() as drifts:
            assert drifts is not None
            encoders[p].take(world.learners[p].checkpoint(), replica.common)
        encoded = encoders[p].encode(sequence=1, created_ms=0, outputs={}, written=written[p])
        manifests[p], world.kept[p] = encoded.manifest, decode(encoded.manifest, written[p] | encoded.new)
        written[p] |= encoded.new
        restored = PartitionLearner(world.spec, p)
        restored.restore(world.kept[p])
        assert restored.digest() == world.learners[p].digest()
        segments = {n: one for n, one in encoded.manifest.arrays.items() if n.startswith("learned/keys/terminal/rows/")}
        fresh = [n for n, (_, _, digests) in segments.items() if not encoded.new.keys().isdisjoint(digests)]
        return sum(len(rows_of(world.kept[p].arrays[n])["serial"]) for n in fresh if not n.endswith("alive"))

    def learn(part: list[Any]) -> None:
        world.come(part)
        world.finish()
        world.finish()
        world.replica.advance()

    learn(given[:360])
    assert [write(p) for p in (0, 1)] == [348] * 2
    for part in (given[360:420], given[420:]):
        learn(part)
        assert 0 < write(0) <= 20
    assert 0 < write(1) <= 40
    assert write(2) >= 348
    assert [write(p) for p in range(3)] == [0] * 3
    world.restart_all()
    encoders = [Encoder("s", p, last=manifests[p], arrays=world.kept[p].arrays) for p in range(3)]
    world.recover()
    assert [write(p) for p in range(3)] == [0] * 3


def test_workers_that_are_restarted_one_by_one_with_other_bounds_hold_the_same():
    """How many keys there are goes by the file of whoever joined a label; of records, by a partition's own."""
    given = payments("classification", 5)
    world = Payments(keyed(most=1000), 5)
    world.one_file = False
    for i, start in enumerate(range(0, N, 12)):
        if i in (15, 20, 25):
            world.spec = keyed(most=3, idle="20s")
            world.keep(i // 5 - 3)
            world.restart(i // 5 - 3)
            world.recover()
        world.come(given[start : start + 12])
        for p in world.rng.permutation(3).tolist():
            world.step(p, int(world.rng.integers(0, 12)))
    world.restart_all()
    world.recover()
    world.finish()
    bounds = {tuple(record.keys.bounds) for record in map(read, world.log)}
    assert bounds == {((1000, 2**62),) * 2, ((3, 20_000),) * 2}
    (digest,) = {one.lineup.digest() for one in world.learners}
    assert digest
    assert [len(rows) for rows in world.learners[0].lineup.keys._known.values()] == [3, 3]


def test_a_key_is_forgotten_in_all_partitions_and_by_their_model():
    spec, given = keyed(control=True), payments("classification", 6, 300)
    world = Payments(spec, 6)
    hashed = {name: hashes_of(secret(spec.name), [value]) for name, value in (("card", "0-1"), ("terminal", "t1"))}

    def where() -> set[str]:
        return {
            name.rpartition("/")[0]
            for p in range(3)
            for name, array in world.learners[p].snapshot().arrays.items()
            if any(one.tobytes()[:8] in array.tobytes("A") for one in hashed.values())
        }

    for start in range(0, 240, 12):
        world.come(given[start : start + 12])
        for p in range(3):
            world.step(p)
    assert where() == {"pending", "keys/card", "learned/keys/card", "learned/keys/terminal"}
    for key, one in hashed.items():
        world.ask("forget", key=key, hash=one.tobytes().hex())
    rest = [({"a": x["a"], "card": f"{(i + 1) % 3}-9"}, y) for i, (x, y) in enumerate(given[240:])]
    world.come(rest[:12])
    for p in range(3):
        world.step(p)
    world.finish()
    world.replica.advance()
    for p in range(3):
        world.keep(p)
    events = [event.sentence for event in world.events(0)]
    assert ["is forgotten" in sentence for sentence in events] == [True, True]
    assert where() == set()
    for p in range(3):
        alone, sent = replayed(world, p, [50] * 9, {4})
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == world.learners[p].digest()


def test_records_of_the_log_that_name_other_keys_are_passed_over():
    spec, given = keyed(), payments("classification", 7, 60)
    world = Payments(spec, 7)
    world.come(given)
    for p in range(3):
        world.step(p)
    record = next(one for one in map(read, world.log) if one.n > 1)
    keys, n = record.keys, record.n
    rows = keys.columns().copy()
    rows[:, 0] = 2**60
    for other in (
        None,
        LearnedKeys([], bytes(8 * n)),
        LearnedKeys([(1, 1)], bytes(24 * n)),
        LearnedKeys([(1, 1)] * 3, bytes(56 * n)),
    ):
        value = write(replace(record, keys=other))
        assert read(value).keys == other
        lineup = PartitionLearner(spec).lineup
        with pytest.raises(ValueError, match="it has other keys"):
            lineup._read(value)
    for damaged in (
        LearnedKeys(keys.bounds, keys.rows[8:]),
        LearnedKeys(keys.bounds[:1], keys.rows),
        LearnedKeys([(0, 5)] * 2, keys.rows),
        LearnedKeys([(5, 0)] * 2, keys.rows),
        LearnedKeys(keys.bounds, rows.tobytes()),
    ):
        value = write(replace(record, keys=damaged))
        with pytest.raises(ValueError, match="its keys are none"):
            read(value)


def test_damaged_shares_are_refused():
    world = Payments(keyed(), 8)
    world.come(payments("classification", 8, 120))
    world.finish()
    world.finish()
    snapshot = world.learners[0].snapshot()
    for name, damaged in (
        ("learned/keys/card/sums", lambda a: a[1:]),
        ("learned/keys/terminal/hashes", lambda a: a[:-3]),
        ("learned/keys/bounds", lambda a: a[:1]),
    ):
        arrays = {**snapshot.arrays, name: damaged(snapshot.arrays[name])}
        assert len(snapshot.arrays[name]) > 1
        with pytest.raises(StateError, match="cannot be used"):
            PartitionLearner(world.spec).restore(snapshot._replace(arrays=arrays))


def test_records_of_a_key_come_to_one_partition_and_labels_of_any():
    shares = {"risk": {"share": "q", "by": "terminal"}}
    assert stream(features={"a": "numeric", **shares}, keys={"terminal": {"max": 9}}, classes=["p", "q"]).shares
    with pytest.raises(SpecError, match=r"keys.terminal: expected partitions: 1.*remove features.n and others"):
        stream(
            features={"a": "numeric", **shares, "n": {"count": "terminal"}},
            keys={"terminal": {"max": 9}},
            classes=["p", "q"],
        )
    with pytest.raises(SpecError, match=r"keys.terminal: expected partitions: 1.*write learning: shared"):
        stream(
            learning="partition",
            features={"a": "numeric", **shares},
            keys={"terminal": {"max": 9}},
            classes=["p", "q"],
        )


def test_keys_take_no_more_than_is_promised_and_are_counted_once_a_worker():
    world = Payments(keyed(most=40), 9)
    world.come(payments("classification", 9))
    world.finish()
    world.finish()
    promised = sum(key_bytes(world.spec, name) for name in world.spec.keys)
    parts = [one.n_bytes["keys"] for one in world.learners]
    own = [one.past.n_bytes for one in world.learners]
    assert [n - o for n, o in zip(parts, own, strict=True)] == [world.learners[0].lineup.keys.n_bytes, 0, 0]
    assert 0 < max(parts) <= promised


@pytest.mark.parametrize("most", [1, 900, 20_000])
def test_labels_take_no_more_than_is_promised_with_what_checkpoints_have_of_them(most):
    fields: dict[str, Any] = {"classes": ["p", "q"], "features": {"a": "numeric", "risk": OF_CLASSES["risk"]}}
    spec, draws, n = stream(keys={"terminal": {"max": most}}, **fields), np.random.default_rng(1), 8192
    past = LabelPast(spec)
    for i in range(most // n + 12):
        rows = draws.integers(1, 2**62, (n, 3))
        rows[:, 0] = 10**12 + i
        past.fold(["terminal"], [(most, 2**62)], rows, rows[:, 0].copy(), np.zeros(n))
        past.checkpoint()
        assert past.written
        assert past.n_bytes <= key_bytes(spec, "terminal")


def test_a_worker_compiles_the_kernels_before_the_first_record():
    from riparian.app.partition.keys.fold import fold

    world = Payments(keyed(), 10)
    before = [one.digest() for one in world.learners]
    for learner in world.learners:
        learner.warm_up()
    assert [one.digest() for one in world.learners] == before
    known = len(fold.signatures)
    world.come(payments("classification", 10, 120))
    world.finish()
    world.finish()
    assert world.learners[0].lineup.n
    assert len(fold.signatures) == known > 0


def test_a_stream_begins_with_what_a_fold_of_all_records_or_another_stream_knows_of_keys():
    given = payments("classification", 11, 240)
    alone: dict[str, Any] = {"rekey": None, "n_partitions": 1, "learning": "partition"}
    own, shared = World(keyed(**alone)), Payments(keyed(), 11)
    for world in (own, shared):
        world.come(given)
        world.finish()
        world.finish()
    x = {"a": 0.5, "card": "1-2", "terminal": "t1"}
    for source, now in ((own, 3500), (shared, shared._now)):
        learners = [PartitionLearner(keyed(name="new"), p) for p in range(3)]
        told = []
        for learner in learners:
            assert learner.begin_with(source.learners[0].snapshot(), 0) == []
            raw = RawBatch([0], [now], [None], [json.dumps({"id": "n", "x": x}).encode()])
            piece = Piece(raw, np.zeros(1, np.int64), np.array([now]), np.array([now]))
            outcome = learner.step(Release({FEATURES: piece}, {}))
            told.append(json.loads(learner.encode(outcome)[0])["features"])
        assert len({learner.lineup.digest() for learner in learners}) == 1
        assert {one["risk"] for one in told} == {told[0]["risk"]}
        assert 0.3 < told[0]["risk"] < 1.0
        assert (told[1]["n"] > 1.0) == (source is own)  # of a shared stream it is the past of records of one partition
    with pytest.raises(StateError, match="write learning: shared"):
        PartitionLearner(keyed(name="new", **alone)).begin_with(shared.learners[0].snapshot(), 0)


def test_a_share_begins_with_what_is_known_also_where_records_tell_nothing_of_its_key():
    fields: dict[str, Any] = {"features": {"a": "numeric", "risk": OF_CLASSES["ever"]}, "keys": {"card": {"max": 100}}}
    given = payments("classification", 13, 120)
    own = World(keyed(rekey=None, n_partitions=1, learning="partition", **fields))
    for source in (own, Payments(keyed(**fields), 13)):
        source.come(given)
        source.finish()
        source.finish()
        world = Payments(keyed(name="new", **fields), 13)
        for learner in world.learners:
            learner.begin_with(source.learners[0].snapshot(), 0)
        world.come(given[:9])
        world.step(1)
        assert ["risk" in json.loads(one)["features"] for one in world.sent[1]] == [True] * 3


@pytest.mark.parametrize("of", [{"n": {"count": "card"}}, {"risk": {"share": "q", "by": "card"}}])
def test_what_began_in_a_stream_of_another_name_forgets_no_key_and_has_no_card(of):
    fields: dict[str, Any] = {"features": {"a": "numeric", **of}, "keys": {"card": {"max": 100}}, "control": True}
    given, new = payments("classification", 13, 120), keyed(name="new", **fields)
    own = World(keyed(rekey=None, n_partitions=1, learning="partition", **fields))
    for source in (own, Payments(keyed(**fields), 13)):
        source.come(given)
        source.finish()
        world = Payments(new, 13)
        for learner in world.learners:
            learner.begin_with(source.learners[0].snapshot(), 0)
        world.come(given[:60])
        world.finish()
        for p in range(3):
            world.keep(p)
        world.restart_all()
        world.recover()
        world.ask("forget", key="card", hash=hashes_of(secret("new"), ["1-2"]).tobytes().hex())
        world.come(given[60:])
        world.finish()
        (event,) = world.events(0)
        assert (event.event, "begin a stream of a new name" in event.sentence) == ("refused", True)
        state_of = AsyncMock(return_value=SimpleNamespace(learner=world.learners[0]))
        with pytest.raises(StateError, match=r"began in a stream of another name, .* begin a stream of a new name"):
            asyncio.run(looked_up(new, Connection("h:1"), state_of, "card", "1-2"))
        assert sum(map(len, world.sent)) == len(given)


def test_a_backtest_of_a_partition_has_its_own_features_alone():
    own = {"risk": {"share": "q", "by": "card"}, "n": {"count": "card"}}
    spec = keyed(features={"a": "numeric", **own}, keys={"card": {"max": 9}})
    assert not of_models(spec, [("naive-bayes", {})]).shares
    with pytest.raises(SpecError, match=r"keys.terminal: expected a key whose records all come to one partition"):
        of_models(keyed(), [("naive-bayes", {})])


def test_commands_and_applied_files_leave_features_as_they_are():
    spec, given = keyed(idle="20s", control=True), payments("classification", 12, 720)
    for i, (x, _) in enumerate(given):
        x["z"] = i % 7
    files = iter([plain(spec.features) | {"z": {"type": "numeric"}}, plain(spec.features)])
    commands = [one | ({"features": next(files)} if one["what"] == "apply" else {}) for one in COMMANDS]
    world = lived(spec, n=720, seed=12, made=given, kind=Payments, commands=commands)
    assert len(world.events(0)) > 10
    assert world.learners[0].spec.gone == {"z"}
    wanted = expected(world, given)
    for p, learner in enumerate(world.learners):
        assert [json.loads(one)["features"] for one in world.sent[p]] == wanted[p]
        alone, sent = replayed(world, p, [], set())
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()


def test_an_evaluation_counts_labels_of_all_records_whatever_their_partitions(tmp_path):
    path, spec = tmp_path / "payments.csv", keyed()
    given = payments("classification", 13, 200)
    lines = [f"{x['a']},{x['card']},{x.get('terminal', '')},{i},{y}" for i, (x, y) in enumerate(given)]
    path.write_text("\n".join(["a,card,terminal,at,y", *lines]))
    data, made = DataFile(path), []
    one, goal, n = spec_for(data, "naive-bayes", {}, stream=spec, clock="at")
    assert (one.partitions, one.learning.kind) == (1, "partition")
    evaluate(data, one, goal, n, clock="at", label_delay=5.0, on_outcome=lambda outcome: made.extend(outcome.made))
    assert len(made) == 200
    assert not np.isnan(made[-1]).all()
