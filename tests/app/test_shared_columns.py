"""Features that come and go where partitions learn one model: against a plain twin, in workers that lose partitions and
get them back, and in folds of what they recorded."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import DeadLetter
from riparian.app.partition.records.partition_group import Piece
from riparian.app.partition.shared.sharing import records, together
from riparian.app.stream_file import columns
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Schema
from riparian.models.registry import create
from riparian.topics.commands import Command
from riparian.topics.commands import write as write_command
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedCommand, LearnedRecord, read, write
from tests.app.shared_world import NB, World, replayed, said, stream
from tests.app.test_replica import Led, lived

BASE: dict[str, Any] = {"a": "numeric", "c": "nominal", "d": {"type": "nominal", "values": ["u", "v"]}}
MORE: dict[str, Any] = {"b": "numeric", "e": "nominal", "f": "boolean", "g": {"type": "nominal", "values": [1, 2]}}
TREE: dict[str, Any] = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
SHALLOW: dict[str, Any] = {**TREE, "max_depth": 2}
CLASSES = ["p", "q", "r"]
N = 480


def growing(n_partitions: int = 3, **fields: Any) -> Spec:
    usual: dict[str, Any] = {"control": True, "features": BASE, "classes": CLASSES, "champion": TREE, "drift": "none"}
    return stream(n_partitions, **{**usual, "predictions": {"challengers": True}, **fields})


def file(number: int, features: dict[str, Any], challengers: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """As `riparian apply` sends it."""
    spec = growing(features=features)
    plain = columns.plain(spec.features)
    return {"what": "apply", "champion": {}, "challengers": challengers, "file": f"{number}", "features": plain} | {
        "settings": {**spec.running(), **settings}
    }


def drawn(seed: int) -> list[dict[str, Any]]:
    """Files that add and drop features, with models that begin, one after the other, and what else changes models."""
    rng, every = np.random.default_rng(seed), BASE | MORE
    asked, challengers = list[dict[str, Any]](), {"nb": NB}
    for i in range(7):
        names = [name for name in rng.permutation(list(every)).tolist() if rng.random() < 0.6] or ["b"]
        challengers = {**challengers, f"wide{i}": [TREE, SHALLOW, NB][i % 3]}
        challengers.pop(f"wide{i - 2}", None)
        asked.append(file(i, {name: every[name] for name in names}, challengers))
        if rng.random() < 0.4:
            asked.append({"what": "reset", "model": ["champion", "nb", f"wide{i}"][rng.integers(3)]})
    return asked


def given(seed: int, n: int = N) -> list[tuple[dict[str, Any], Any]]:
    """Instances with all features, some missing, and some of a wrong type."""
    rng, made = np.random.default_rng(seed), []
    for i in range(n):
        a, b = rng.random(2).round(3).tolist()
        x = {"a": a, "b": b, "c": f"c{rng.integers(1 + i * 5 // n)}", "d": "uv"[rng.integers(2)]}
        x |= {"e": f"e{rng.integers(4)}", "f": bool(rng.random() < 0.5), "g": int(rng.integers(1, 3))}
        y = CLASSES[(int(a > 0.5) + int(b > 0.4) * (i > n // 2)) % 3]
        x = {name: value for name, value in x.items() if rng.random() > 0.05}
        if rng.random() < 0.1:
            x[["b", "f", "g"][rng.integers(3)]] = "wrong"
        made.append((x, y))
    return made


class Twin:
    """What a shared stream does while features come and go, from its topics: with names, and no columns.

    A command takes effect before the first prediction whose place in the log is behind it. The record of this
    prediction is read by the file before, which the models' new features are missing in.
    """

    def __init__(self, world: World) -> None:
        self.log = [read(value) for value in world.log]
        self.sent = [[json.loads(value) for value in sent] for sent in world.sent]
        self.rows, self.joined = list[dict[int, dict[str, Any]]](), list[list[tuple[dict[str, Any], str]]]()
        self.files: list[tuple[int, dict[str, Any]]] = [(-1, BASE)]
        for place, one in enumerate(self.log):
            if isinstance(one, LearnedCommand):
                command = msgspec.json.decode(one.value or b"{}")
                if command.get("command") == "apply":
                    self.files.append((place, command["features"]))
        for p, at in enumerate(world.raw):
            self.read(p, at)

    def file_at(self, place: int) -> dict[str, Any]:
        return [features for since, features in self.files if since < place][-1]

    def read(self, p: int, at: dict[str, list[tuple[int, bytes]]]) -> None:
        """The instances of a partition, by offset, and those that meet a label, in order."""
        rows, by_id, place = dict[int, dict[str, Any]](), dict[str, dict[str, Any]](), 0
        places = {one["offset"]: one["learned_offset"] for one in self.sent[p]}
        for offset, (_, value) in enumerate(at[FEATURES]):
            try:
                record = json.loads(value)
            except ValueError:
                assert offset not in places
                continue
            known = self.file_at(place)
            if any(record["x"].get(name) == "wrong" for name in known):
                assert offset not in places, "a record is predicted that the file of the prediction before rejects"
                continue
            assert offset in places, "a record is rejected that the file of the prediction before takes"
            place = places[offset]
            rows[offset] = by_id[record["id"]] = {n: v for n, v in record["x"].items() if n in known}
        self.rows.append(rows)
        labels = [json.loads(value) for _, value in at[LABELS]]
        self.joined.append([(by_id[one["id"]], one["y"]) for one in labels if one["id"] in by_id])

    def run(self) -> list[dict[int, dict[str, Any]]]:
        """Of each partition, offset of an instance -> model -> what it predicts."""
        names, codes = list(BASE), {"d": {"u": 0, "v": 1}, "f": {False: 0, True: 1}, "g": {1: 0, 2: 1}}
        models: dict[str, tuple[list[str], Any]] = {}

        def begin(role: str, definition: dict[str, Any]) -> None:
            parameters = {name: value for name, value in definition.items() if name != "model"}
            known = [(BASE | MORE)[name] for name in names]
            n_values = tuple({"numeric": 0, "nominal": 32}.get(str(one), 2) for one in known)
            learner = create(definition["model"], Schema(n_values, len(CLASSES), "classification"), **parameters)
            models[role] = list(names), (learner, definition)

        def coded(row: dict[str, Any], known: list[str]) -> list[float]:
            found = []
            for name in known:
                value = row.get(name, np.nan)
                if (BASE | MORE)[name] != "numeric" and name in row:
                    value = codes.get(name, {}).get(value, np.nan)
                found.append(float(value))
            return found

        begin("champion", TREE)
        begin("nb", NB)
        n_learned, asked, place = [0] * len(self.rows), list[Any](), 0
        for p, sent in enumerate(self.sent):
            asked += [(one["learned_offset"], p, one["offset"]) for one in sent]
        found: list[dict[int, dict[str, Any]]] = [{} for _ in self.rows]
        for until, p, offset in sorted(asked):
            for one in self.log[place:until]:
                if isinstance(one, LearnedCommand):
                    command = json.loads(one.value or b"{}")
                    if command.get("command") == "apply":
                        names += [name for name in command["features"] if name not in names]
                        for role in [role for role in models if role not in (*command["challengers"], "champion")]:
                            del models[role]
                        for role, definition in command["challengers"].items():
                            if role not in models:
                                begin(role, definition)
                    elif command.get("command") == "reset":
                        begin(command["model"], models[command["model"]][1][1])
                    continue
                fresh = self.joined[one.partition][n_learned[one.partition] : one.first + one.n]
                n_learned[one.partition] += len(fresh)
                for name, listed in zip(names, one.values if fresh else (), strict=False):
                    for value in listed or ():
                        codes.setdefault(name, {}).setdefault(value, len(codes.get(name, {})))
                for row, label in fresh:
                    for known, (learner, _) in models.values():
                        learner.learn_many([coded(row, known)], [CLASSES.index(label)])
            place = max(place, until)
            row = self.rows[p][offset]
            found[p][offset] = {
                role: dict(zip(CLASSES, learner.predict_many([coded(row, known)])[0].tolist(), strict=True))
                for role, (known, (learner, _)) in models.items()
            }
        return found


@pytest.mark.parametrize("seed", [1])
def test_models_learn_and_predict_by_names_whatever_columns_there_are(seed: int) -> None:
    """Commands come once: what happens to those that come again is asked elsewhere."""
    world = lived(growing(), n=N, seed=seed, made=given(seed), kind=Once, commands=drawn(seed))
    events = world.events(0)
    assert {one.event for one in events if one.command == "apply"} == {"applied"}
    assert any("features added" in one.sentence for one in events)
    assert any("features dropped" in one.sentence for one in events)
    assert world.n_restarts
    assert world.n_recovered
    twin = Twin(world)
    for p, (found, sent) in enumerate(zip(twin.run(), twin.sent, strict=True)):
        assert found.keys() == {one["offset"] for one in sent}
        for one in sent:
            told = {"champion": one["p"]} | {role: part["p"] for role, part in one.get("challengers", {}).items()}
            mine = found[one["offset"]]
            assert told.keys() == mine.keys(), (p, one)
            for role, probabilities in told.items():
                wanted, said_of = ({n: v for n, v in of.items() if v} for of in (mine[role], probabilities or {}))
                assert said_of == wanted, (p, role, one)
    for p, learner in enumerate(world.learners):
        alone, again = replayed(world, p, [50, 90, 130] * 3, {0, 2, 3, 5})
        assert list(map(said, map(json.loads, again))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        assert alone.lineup.digest() == learner.lineup.digest()
        assert alone.lineup.fingerprint() == learner.lineup.fingerprint()


class Once(Led):
    """A worker to whose partition 0 commands come once."""

    def ask_again(self) -> None:
        pass


@pytest.mark.parametrize("seed", [0, 1])
def test_commands_that_come_again_promotions_and_drift_go_on_over_features(seed: int) -> None:
    """The twin: each partition folds its own topics and the whole log, by the order that its predictions recorded."""
    resets = {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}, "on_drift": ["reset", "replace"][seed]}
    wide = {"nb": NB, "wide": SHALLOW}
    asked = [
        file(0, BASE | MORE, wide),
        {"what": "promote", "model": "wide"},
        file(1, {"b": "numeric", "c": "nominal", "g": MORE["g"]}, {"nb": NB, "hoeffding-tree": TREE}, drift=resets),
        {"what": "reset", "model": "nb"},
        file(2, {**BASE, "b": "numeric", "e": "nominal"}, {"nb": NB, "late": TREE}),
        {"what": "demote"},
        file(3, {**BASE, "f": "boolean"}, {"nb": NB}, drift=resets),
    ]
    spec = growing(predictions={"challengers": True, "coverage": 0.9, "calibrated": True, "reasons": 2}, drift=resets)
    world = lived(spec, n=N, seed=seed, made=given(seed), commands=asked)
    assert world.n_again
    assert sum(one.event == "applied" for one in world.events(0)) >= 6
    for p, learner in enumerate(world.learners):
        alone, sent = replayed(world, p, [70] * 9, {1, 4})
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        assert alone.lineup.fingerprint() == learner.lineup.fingerprint()


def short(*commands: dict[str, Any]) -> World:
    """One partition, with commands before its last instances."""
    world = World(growing(1, metrics={}))
    for one in (None, *commands):
        if one is not None:
            world.ask(**one)
        world.come(given(1, 20))
        world.step(0)
        world.step(0)
    return world


def test_what_was_joined_with_other_features_is_no_part_of_one_record() -> None:
    """Also where the same models predicted it: a worker appends together what several steps have joined."""
    world = short(file(0, {**BASE, "b": "numeric"}, {"nb": NB}), file(1, BASE, {"nb": NB}))
    joined = [one for outcome in world.outcomes[0] for one in outcome.joint]
    pieces = together(joined)
    assert [one.x.shape[1] for one in pieces] == [3, 4]
    assert sum(len(one.y) for one in pieces) == sum(len(one.y) for one in joined) == world.learners[0].lineup.n
    fresh = PartitionLearner(world.spec, 0)
    commands = [value for value in world.log if isinstance(read(value), LearnedCommand)]
    first, second = ([write(one) for one in records(piece, 0, {}, 7)] for piece in pieces)
    feed(fresh, [*first, *commands, *second])
    assert fresh.lineup.n == world.learners[0].lineup.n
    assert not any(isinstance(one, DeadLetter) for one in fresh.lineup.news)


def test_a_command_of_an_earlier_version_changes_no_features() -> None:
    """Workers of that version have refused it, and so does every fold of that log."""
    world = World(growing(1))
    world.come(given(1, 20))
    world.step(0)
    asked = {name: value for name, value in file(0, MORE, {"nb": NB}).items() if name != "what"}
    command = Command(id="c", command="apply", by="me", **asked)
    world.log.append(write(LearnedCommand(2, 0, write_command(command))))
    world.come(given(1, 20))
    world.step(0)
    (event,) = world.events(0)
    assert event.event == "refused"
    assert event.sentence.startswith("features do not change while a stream with learning: shared runs: give the new")
    assert list(world.learners[0].spec.features) == list(BASE)


def test_instances_of_earlier_versions_have_the_features_that_the_stream_began_with() -> None:
    """Of records that a worker appended which did not name them, also after features came."""
    world = short(file(0, BASE | MORE, {"nb": NB}))
    found = [one for one in map(read, world.log) if isinstance(one, LearnedRecord)]
    names = list(dict.fromkeys(one.features for one in found))
    assert len(names) == 2
    before = next(one for one in found if one.features == names[0])
    learner = PartitionLearner(world.spec, 0)
    learner.restore(world.learners[0].snapshot())
    for one in (learner, world.learners[0]):
        known = before if one is learner else msgspec.structs.replace(before, features=None)
        lineup = one.lineup
        numbered = write(msgspec.structs.replace(known, first=lineup.numbers[0]))
        assert len(lineup.vocabularies) == len(BASE | MORE)
        feed(one, [*world.log, numbered])
    assert learner.lineup.n == sum(one.n for one in found) + before.n
    assert learner.lineup.fingerprint()[1:] == world.learners[0].lineup.fingerprint()[1:]


def feed(learner: PartitionLearner, log: list[bytes]) -> None:
    """The records of the log that a learner has not taken."""
    at = learner.lineup.place
    offsets = np.arange(at, len(log))
    none = np.zeros(len(offsets), np.int64)
    raw = RawBatch(offsets.tolist(), none.tolist(), [None] * len(offsets), log[at:])
    learner.lineup.follow(Piece(raw, offsets, none, none))


def test_models_that_have_other_columns_than_the_log_stop_with_a_sentence() -> None:
    """A worker of an earlier version passed over the command, or began by another file: unequal models are not held in
    silence."""
    world = short(file(0, BASE | MORE, {"nb": NB}), file(1, {"b": "numeric"}, {"nb": NB}))
    passed = PartitionLearner(world.spec, 0)
    with pytest.raises(StateError, match=r"have not come to have: .*riparian rollback"):
        feed(passed, [value for value in world.log if isinstance(read(value), LearnedRecord)])
    for features in ({**BASE, "b": "numeric"}, {"a": "numeric"}, {**BASE, "d": "nominal"} | {"c": "boolean"}):
        with pytest.raises(StateError, match="begin with the stream file that the stream began with"):
            feed(PartitionLearner(growing(1, features=features, metrics={}), 0), world.log)


def test_the_state_has_its_columns_whatever_the_file_says_that_a_worker_starts_with() -> None:
    world = short(file(0, {"a": "numeric", "b": "numeric"}, {"nb": NB}))
    learner = world.learners[0]
    for features in (BASE, {"a": "numeric", "b": "numeric"}, {"e": "nominal"}):
        again = PartitionLearner(growing(1, features=features, metrics={}), 0)
        said_of = "; ".join(again.restore(learner.snapshot()))
        assert ("the state goes on with the features a, b, and" in said_of) == ("b" not in features)
        assert ("riparian apply makes it count" in said_of) == ("b" not in features)
        assert list(again.spec.features) == ["a", "c", "d", "b"]
        assert again.digest() == learner.digest()
        assert again.lineup.fingerprint() == learner.lineup.fingerprint()


@pytest.mark.parametrize(
    "features",
    [{"b": "numeric", **BASE, "g": MORE["g"]}, {"b": "numeric", "a": "nominal"}, dict(reversed(BASE.items()))],
)
def test_a_worker_may_start_with_features_that_are_not_applied_yet(features: dict[str, Any]) -> None:
    """Its partitions take the command at its place, as those of a worker that has the file of before."""
    world = short()
    learner, more = world.learners[0], growing(1, features=features, metrics={})
    snapshot = learner.snapshot()
    kept = [(name, one.type) for name, one in learner.spec.features.items()]
    snapshot = snapshot._replace(meta={**snapshot.meta, "features": kept})
    again, told = PartitionLearner(more, 0), "the state goes on with the features a, c, d, and the stream file says"
    found = again.restore(snapshot)
    assert ([one.partition(" otherwise")[0] for one in found] == [told]) == (features.keys() != BASE.keys())
    changes = reconcile(more, snapshot.meta, [None, ["c0"], ["u", "v"]])
    assert changes.other_features == bool(found)
    assert again.digest() == learner.digest()
    world.ask(**file(0, BASE | {"b": "numeric", "g": MORE["g"]}, {"nb": NB}))
    feed(again, world.log)
    feed(learner, world.log)
    assert list(again.lineup.spec.features) == [*BASE, "b", "g"]
    assert again.lineup.fingerprint() == learner.lineup.fingerprint()
    before = {**snapshot.meta["runs"]}
    del before["features"]  # a state of an earlier version does not say what else is known of a feature
    snapshot = snapshot._replace(meta={**snapshot.meta, "runs": before})
    if BASE.items() <= features.items():
        assert PartitionLearner(more, 0).restore(snapshot) == found
    else:
        with pytest.raises(StateError, match=r"c is gone.*riparian apply changes|a was numeric, is nominal"):
            PartitionLearner(more, 0).restore(snapshot)


@pytest.mark.parametrize("widths", [[3], [3, 3], [4, 3], []])
def test_a_state_whose_columns_are_damaged_is_a_sentence(widths: list[int]) -> None:
    world = short(file(0, {**BASE, "b": "numeric"}, {"nb": NB}))
    meta, *rest = world.learners[0].snapshot()
    assert meta["shared"]["columns"] == [3, 4]
    damaged = {**meta, "shared": {**meta["shared"], "columns": widths}}
    with pytest.raises(StateError, match="go back to an older checkpoint"):
        PartitionLearner(world.spec, 0).restore(type(world.learners[0].snapshot())(damaged, *rest))
