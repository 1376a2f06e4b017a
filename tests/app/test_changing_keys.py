"""Features over a key's past, and keys, that come and go while a stream runs: against the naive twin, with models of
each partition and with models of all, in folds that are cut and restarted."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from riparian.app.cli.operate import control
from riparian.app.errors import StateError
from riparian.app.kafka import command_client
from riparian.app.partition.changes import reconcile
from riparian.app.partition.keys.past import hashes_of, secret
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.lineup.model_commands import unsteerable
from riparian.app.state import asked as checkpoints_asked
from riparian.app.state import loading
from riparian.app.stream_file import columns
from riparian.app.stream_file.spec import Spec
from riparian.topics import commands
from riparian.topics.commands import Command
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.training_log import WITH_FEATURES, WITH_KEYS, LearnedCommand, LearnedRecord, command_at, read
from tests.app.naive_aggregates import Key, NaiveAggregates, NaiveSharedAggregates
from tests.app.shared_world import World, replayed, said, stream
from tests.app.test_replica import lived
from tests.app.test_shared_keys import Payments, payments

KEYS: dict[str, Any] = {"card": {"max": 1000}, "terminal": {"max": 1000}, "shop": {"max": 1000, "from": "x.at"}}
RECORDED: dict[str, Any] = {"a": "numeric", "b": "numeric"}
PASTS: dict[str, Any] = {
    "n": {"count": "card", "half_life": "2s"},
    "mean": {"mean": "a", "by": "card", "half_life": "10s"},
    "b_mean": {"mean": "b", "by": "card"},
    "last": {"last": "a", "by": "card"},
    "since": {"since": "card"},
    "times": {"ratio": "a", "to": "mean"},
    "risk": {"share": "q", "by": "terminal", "half_life": "10s"},
    "smooth": {"share": "q", "by": "terminal", "half_life": "2s", "smooth": 3},
    "ever": {"share": "p", "by": "card"},
    "shop_risk": {"share": "q", "by": "shop"},
}
OF_RECORDS: dict[str, Any] = {"visits": {"count": "shop"}, "shop_last": {"last": "b", "by": "shop"}}  # of one partition
FIRST = ("a", "n", "risk")
MILLISECONDS = {"2s": 2000, "10s": 10_000}
TREE: dict[str, Any] = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
N = 480


def keyed(names: Any = FIRST, learning: str = "shared", most: int = 1000, **fields: Any) -> Spec:
    """A stream with these of all features, and the keys that they are over."""
    every = RECORDED | PASTS | OF_RECORDS
    features = {name: every[name] for name in names}
    asked = {key for one in features.values() if isinstance(one, dict) for key in one.values()}
    keys = {name: {**one, "max": most} for name, one in KEYS.items() if name in asked}
    many = {"shared": 3, "partition": 1}[learning]
    copied = {"rekey": {"features": "raw", "labels": "late", "by": "card"}} if many > 1 else {}
    usual = {"classes": ["p", "q", "r", "s"], "predictions": {"features": True}, "champion": TREE, "drift": "none"}
    return stream(many, learning, features=features, keys=keys, control=True, **copied, **(usual | fields))


def file(number: int, spec: Spec, **fields: Any) -> dict[str, Any]:
    """As `riparian apply` sends it."""
    plain = {"features": columns.plain(spec.features), "keys": columns.plain_keys(spec.keys)}
    wide = {"nb": {"model": "naive-bayes"}, f"wide{number}": TREE}
    return {"what": "apply", "champion": {}, "challengers": wide, "file": f"{number}", "settings": spec.running()} | {
        **plain,
        **fields,
    }


def drawn(seed: int, learning: str, most: int) -> list[dict[str, Any]]:
    """Files one after the other, each with some of all features."""
    rng, asked = np.random.default_rng(seed), list[dict[str, Any]]()
    every = list(PASTS if learning == "shared" else PASTS | OF_RECORDS)
    for i in range(7):
        names = ["a", "n", *(["b"] if rng.random() < 0.7 else [])]
        names += [name for name in rng.permutation(every).tolist() if rng.random() < 0.5 and name not in names]
        names = [n for n in names if n not in ("b_mean", "shop_last") or "b" in names]
        names = [n for n in names if n != "times" or "mean" in names]
        asked.append(file(i, keyed(names, learning, most)))
    return asked


def given_to(spec: Spec) -> list[tuple[dict[str, Any], Any]]:
    """As other payments, of shops, with one more number."""
    rng = np.random.default_rng(spec.seed)
    made = payments("classification", spec.seed, N)
    for x, _ in made:
        x |= {"b": round(float(rng.random()), 3)} if rng.random() < 0.9 else {}
        x |= {"at": f"s{rng.integers(5)}"} if rng.random() < 0.9 else {}
        x["a"] = "wrong" if rng.random() < 0.05 else x["a"]
    return made


def twins(told: dict[str, Any]) -> tuple[dict[str, Key], dict[str, Any]]:
    """Keys and features of a command, as the twin takes them."""
    pasts = {name: {**PASTS, **OF_RECORDS}[name] for name in told["features"] if name in {**PASTS, **OF_RECORDS}}
    made = {
        name: {**one, **({"half_life": MILLISECONDS[one["half_life"]]} if "half_life" in one else {})}
        for name, one in pasts.items()
    }
    return {name: Key(one["max"], None) for name, one in told["keys"].items()}, made


def labelled(pasts: dict[str, Any]) -> set[str]:
    return {one["by"] for one in pasts.values() if "share" in one}


def keys_of(x: dict[str, Any], names: Any) -> dict[str, Any]:
    return {name: x.get({"shop": "at"}.get(name, name)) for name in names}


def values_of(x: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The features of a record by a file."""
    return {name: value for name, value in x.items() if name in RECORDED and name in told["features"]}


class Waiting:
    """What waits for a label in a partition: its time, and the keys that labels will count for."""

    def __init__(self, began: dict[str, Any]) -> None:
        self.ever, self.rows = labelled(twins(began)[1]), dict[str, tuple[int, dict[str, Any]]]()

    def become(self, told: dict[str, Any]) -> None:
        self.ever |= labelled(twins(told)[1])

    def add(self, id_: str, time: int, keys: dict[str, Any]) -> None:
        self.rows[id_] = time, {name: value for name, value in keys.items() if name in self.ever}


class Own(World):
    """Labels so many instances later, between two features."""

    def come(self, given: list[tuple[dict[str, Any], Any]], late: int = 12) -> None:
        (at,) = self.raw
        for x, y in given:
            self._n += 1
            at[FEATURES].append((1000 + 300 * self._n, json.dumps({"id": str(self._n), "x": x}).encode()))
            at.setdefault("told", []).append((0, json.dumps({"id": str(self._n), "y": y}).encode()))
            if self._n > late:
                at[LABELS].append((1000 + 300 * self._n - 2, at["told"][self._n - late - 1][1]))

    def step(self, p: int, n_learned: int | None = None) -> None:
        told = self.raw[p].pop("told")
        super().step(p, n_learned)
        self.raw[p]["told"] = told


@pytest.mark.parametrize(("seed", "most"), [(0, 1000), (2, 3)])
def test_features_equal_the_twins_while_they_come_and_go_in_a_partition(seed: int, most: int) -> None:
    began = keyed(FIRST, "partition", most, seed=seed)
    world, asked, given = Own(began), drawn(seed, "partition", most), given_to(began)
    for i, start in enumerate(range(0, N, 12)):
        world.come(given[start : start + 12])
        if i % 5 == 1 and asked:
            world.ask(**asked.pop(0))
        world.step(0)
    assert not asked
    events = world.events(0)
    assert {one.event for one in events} == {"applied"}, [one.sentence for one in events]
    assert any("keys added" in one.sentence for one in events)
    assert any("keys dropped" in one.sentence for one in events)
    del world.raw[0]["told"]
    plain = {"features": columns.plain(began.features), "keys": columns.plain_keys(began.keys)}
    twin, waits = NaiveAggregates(*twins(plain)), Waiting(plain)
    n_labels = n_commands = 0
    features, labels, told = (world.raw[0][role] for role in (FEATURES, LABELS, "control"))
    for one in map(json.loads, world.sent[0]):
        for _, value in labels[n_labels : one["label_offset"]]:
            label = json.loads(value)
            if label["id"] in waits.rows:
                time, keys = waits.rows.pop(label["id"])
                twin.label(time, keys, label["y"])
        n_labels = one["label_offset"]
        for _, value in told[n_commands : one["control_offset"]]:
            command = json.loads(value)
            twin.change(*twins(command))
            waits.become(command)
            plain = command
        n_commands = one["control_offset"]
        time, value = features[one["offset"]]
        record = json.loads(value)
        keys = keys_of(record["x"], twin.keys)
        found = twin.observe(time, keys, values_of(record["x"], plain))
        waits.add(record["id"], time, keys)
        assert one.get("features", {}) == {name: value for name, value in found.items() if value == value}
    for cuts, restarts in (([], set[int]()), ([17, 60, 31] * 9, {3, 9, 15})):
        alone, again = replayed(world, 0, cuts, restarts)
        assert list(map(said, map(json.loads, again))) == list(map(said, map(json.loads, world.sent[0])))
        assert alone.digest() == world.learners[0].digest()


def test_what_comes_while_there_are_no_keys_counts_for_none() -> None:
    """Labels of it come once a share is back, and its rows were others' before."""
    began, without = (keyed(names, "partition", predictions={}) for names in (("a", "risk"), ("a",)))
    world, given = Own(began), given_to(began)
    asked = {120: without, 180: began}
    for start in range(0, N, 12):
        world.come(given[start : start + 12], late=60)
        if start in asked:
            world.ask(**file(start, asked[start]))
        world.step(0)
    assert [one.event for one in world.events(0)] == ["applied"] * 2
    del world.raw[0]["told"]
    alone, again = replayed(world, 0, [17, 60, 31] * 9, {3, 9, 15})
    assert again == world.sent[0]
    assert alone.digest() == world.learners[0].digest()


@pytest.mark.parametrize("learning", ["shared", "partition"])
def test_a_key_that_was_dropped_is_forgotten_by_what_waits(learning: str) -> None:
    world = World(keyed(FIRST, learning))
    given = [(x | {"terminal": "t1"}, y) for x, y in given_to(world.spec)[:24]]
    words = hashes_of(secret("s"), ["t1"])[0]

    def steps() -> None:
        for _ in range(2):
            for p in range(len(world.learners)):
                world.step(p)

    world.come(given)
    for at in world.raw:
        at[LABELS].clear()
    steps()
    world.come(given)
    world.ask(**file(0, keyed(("a", "n"), learning)))
    steps()
    world.come(given)
    for key in ("terminal", "shop"):
        world.ask("forget", key=key, hash=words.astype("<u8").tobytes().hex())
    steps()
    world.come(given)
    steps()
    assert [one.event for one in world.events(0)] == ["applied", "applied", "refused"]
    assert "is forgotten" in world.events(0)[1].sentence
    for learner in world.learners:
        waits = learner.pending.past[learner.pending._instances.rows()]
        assert len(waits) > 0
        assert not (waits[:, 1:3] == words.view(np.int64)).all(axis=1).any()


@pytest.mark.parametrize(("seed", "most"), [(1, 3), (2, 1000)])
def test_features_equal_the_twins_while_they_come_and_go_for_all_partitions(seed: int, most: int) -> None:
    began = keyed(FIRST, "shared", most, seed=seed)
    given = given_to(began)
    world = lived(began, n=N, seed=seed, made=given, kind=Payments, commands=drawn(seed, "shared", most))
    assert world.n_restarts
    assert world.n_recovered
    events = world.events(0)
    assert {one.event for one in events if one.command == "apply"} == {"applied"}, [one.sentence for one in events]
    assert any("keys dropped" in one.sentence for one in events)
    plain = {"features": columns.plain(began.features), "keys": columns.plain_keys(began.keys)}
    twin, log = NaiveSharedAggregates(*twins(plain), 3), [read(value) for value in world.log]
    done = set[int]()  # commands, by their offset: some stand in the log twice
    files = [plain] * 3  # by which a partition predicts
    waits = [Waiting(plain) for _ in range(3)]
    joined = [list[tuple[int, dict[str, Any], Any]]() for _ in range(3)]  # by its order of joining
    obeyed, labels_at = [set[int]() for _ in range(3)], [0] * 3
    known, place, behind = dict[int, int](), 0, [0] * 3
    sent = [[json.loads(one) for one in found] for found in world.sent]
    order = sorted((one["learned_offset"], p, i) for p, found in enumerate(sent) for i, one in enumerate(found))

    def meet(p: int, until: int) -> None:
        """Labels that come to a partition before one of its predictions."""
        for _, value in world.raw[p][LABELS][labels_at[p] : until]:
            label = json.loads(value)
            if label["id"] in waits[p].rows:
                joined[p].append((*waits[p].rows.pop(label["id"]), label["y"]))
        labels_at[p] = max(labels_at[p], until)

    for learned, p, i in order:
        while place < learned:
            record, place = log[place], place + 1
            if isinstance(record, LearnedCommand):
                if record.offset not in done and record.value:
                    done.add(record.offset)
                    twin.change_labels(*twins(json.loads(record.value)))
                continue
            assert isinstance(record, LearnedRecord)
            new = max(0, known.get(record.partition, 0) - record.first)
            known[record.partition] = max(known.get(record.partition, 0), record.first + record.n)
            q = record.partition
            if len(joined[q]) < record.first + record.n:  # labels behind its last prediction so far
                meet(q, record.places[LABELS])
            for time, keys, y in joined[q][record.first + new : record.first + record.n]:
                twin.label(time, keys, y)
        one = sent[p][i]
        meet(p, one["label_offset"])
        reads = files[p]
        for record in log[behind[p] : learned]:
            if isinstance(record, LearnedCommand) and record.value and record.offset not in obeyed[p]:
                obeyed[p].add(record.offset)
                files[p] = json.loads(record.value)
                twin.change_own(p, *twins(files[p]))
                waits[p].become(files[p])
        behind[p] = learned
        stamp, value = world.raw[p][FEATURES][one["offset"]]
        came = json.loads(value)
        keys = keys_of(came["x"], reads["keys"])  # the first one is read by the file before
        wanted = twin.observe(p, stamp, keys, values_of(came["x"], reads))
        waits[p].add(came["id"], stamp, keys)
        assert one.get("features", {}) == {n: v for n, v in wanted.items() if v == v}, (p, i)
    leads = world.replica.lineup
    assert leads is not None
    for p, learner in enumerate(world.learners):
        cuts = np.random.default_rng(seed).integers(1, 60, 15).tolist()
        alone, again = replayed(world, p, cuts, {3, 7, 8})
        assert list(map(said, map(json.loads, again))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        assert alone.lineup.digest() == leads.digest()
        assert alone.lineup.fingerprint() == leads.fingerprint()
        restored = PartitionLearner(world.spec, p)
        restored.restore(world.kept[p])  # type: ignore[arg-type]
        assert restored.digest() == learner.digest()


@pytest.mark.parametrize("learning", ["shared", "partition"])
def test_what_cannot_be_exact_is_refused_with_a_sentence(learning: str) -> None:
    """By the partitions, whatever was sent."""
    world = World(keyed((*FIRST, "b", "ever"), learning))
    fine, wrong = keyed(("a", "n"), learning), list[tuple[dict[str, Any], str]]()
    other = {**PASTS["n"], "half_life": "1h"}
    features = columns.plain(keyed(FIRST, learning).features)
    elsewhere = columns.plain_keys(keyed(FIRST, learning).keys) | {"terminal": {"from": "x.t", "max": 9}}
    wrong.append((file(0, fine, features=features | {"n": other}), "features.n was otherwise over its key's past"))
    wrong.append((file(1, fine, features=features, keys=elsewhere), "keys.terminal stood elsewhere"))
    wrong.append((file(2, fine, keys=None), "expected keys beside features over a key's past"))
    wrong.append((file(3, fine, features=features, keys={"card": {"max": 9}, "terminal": {}}), "keys.terminal: "))
    circle = features | {"r": {"ratio": "mean", "to": "a"}}
    wrong.append((file(4, fine, features=circle), 'features.r.ratio: expected a feature, found "mean"'))
    unknown = features | {"m": {"count": "nobody"}}
    wrong.append((file(5, fine, features=unknown), "features.m.count: expected one of keys"))
    if learning == "shared":  # its records are not those of one partition
        spread = {
            "features": features | {"visits": OF_RECORDS["visits"]},
            "keys": {"shop": {"max": 9}, "card": {"max": 9}},
        }
        wrong.append((file(6, fine, **spread), "keys.shop: expected partitions: 1"))
    for asked, _ in wrong:
        world.ask(**asked)
    world.ask(**file(7, fine))
    world.come(given_to(world.spec)[:24])
    for _ in range(2):
        for p in range(len(world.learners)):
            world.step(p)
    events = world.events(0)
    assert [one.event for one in events] == ["refused"] * len(wrong) + ["applied"]
    for one, (_, sentence) in zip(events, wrong, strict=False):
        assert sentence in one.sentence
    assert events[-1].sentence.endswith("features dropped: b, ever, risk; keys dropped: terminal")
    assert list(world.learners[0].spec.keys) == ["card"]


@pytest.mark.parametrize("learning", ["shared", "partition"])
def test_a_file_with_other_keys_is_applied_and_a_worker_starts_with_either(learning: str) -> None:
    before, after = keyed(FIRST, learning), keyed(("a", "b", "last", "shop_risk"), learning)
    world = World(before)
    world.come(given_to(before)[:24])
    world.step(0)
    snapshot = world.learners[0].snapshot()  # and what a checkpoint says of features
    snapshot = snapshot._replace(meta=snapshot.meta | {"features": [(n, f.type) for n, f in before.features.items()]})
    known = [None for _ in before.features]
    assert unsteerable(reconcile(after, snapshot.meta, known)) == []
    bounds = keyed(("a", "n", "risk", "ever"), learning, most=5)
    assert any("keys.card.max" in one for one in unsteerable(reconcile(bounds, snapshot.meta, known)))
    if learning == "partition":
        with pytest.raises(StateError, match="riparian apply changes features while they run"):
            PartitionLearner(after).restore(snapshot)
    else:
        early = PartitionLearner(after)
        assert any("n, risk" in note for note in early.restore(snapshot))
        assert early.digest() == world.learners[0].digest()
        assert list(early.spec.keys) == ["card", "terminal"]
    world.ask(**file(0, after))
    world.come(given_to(before)[24:48])
    for _ in range(2):
        for p in range(len(world.learners)):
            world.step(p)
    learner = world.learners[0]
    assert learner.spec.features["n"].past is not None  # its column stays
    assert [*learner.spec.made] == ["last", "shop_risk"]
    for spec in (before, after):
        again = PartitionLearner(spec)
        again.restore(learner.snapshot())
        assert again.digest() == learner.digest()
        assert sorted(again.spec.keys) == ["card", "shop"]


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        (("a",), ("a", "b"), None),  # also workers read it that know no keys in a command
        (FIRST, ("a", "b"), {}),
        (("a",), FIRST, {"card": {"max": 1000}, "terminal": {"max": 1000}}),
    ],
)
def test_a_command_has_keys_where_the_file_or_the_state_has_some(
    before: Any, after: Any, keys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, declared = (keyed(names, "partition", predictions={}) for names in (before, after))
    world, sent = World(began), list[Command]()
    world.come(given_to(began)[:24])
    world.step(0)
    meta = world.learners[0].snapshot().meta | {"features": [(n, f.type) for n, f in began.features.items()]}

    async def settle(*_: Any) -> list[int]:
        return []

    async def prospects(spec: Spec, connection: Any, partitions: range) -> dict[int, Any]:
        return dict.fromkeys(partitions, (1, reconcile(spec, meta, [None for _ in began.features])))

    def run(stream: Any, connection: Any, made: Any, *rest: Any) -> None:
        sent.append(made(command_client.command, declared))

    monkeypatch.setattr(checkpoints_asked, "settle", settle)
    monkeypatch.setattr(loading, "prospects", prospects)
    monkeypatch.setattr(control, "_run", run)
    found = CliRunner().invoke(control.apply, ["s.yaml"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    assert [(one.keys, list(one.features or ())) for one in sent] == [(keys, [*declared.features])]


def test_a_worker_that_could_not_obey_does_not_read_the_command() -> None:
    asked = file(0, keyed(FIRST))
    what = asked.pop("what")
    for fields, version in ((asked, WITH_KEYS), ({**asked, "keys": None}, WITH_FEATURES)):
        value = commands.write(Command(id="1", command=what, **fields))
        assert command_at(0, value).version == version
    with pytest.raises(ValueError, match="`keys` only with `features`"):
        commands.read_command(commands.write(Command(id="1", command=what, **{**asked, "features": None})))
