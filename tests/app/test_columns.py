"""Features that come and go while a stream runs: who knew them goes on to the bit, and a restart comes to the same."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.changes import REFUSED, reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.lineup.model_commands import unsteerable
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file import columns
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import CONTROL
from riparian.topics.records import RawBatch

TREE = {"model": "hoeffding-tree", "grace_period": 20, "delta": 0.1}
FOREST = {"model": "adaptive-random-forest", "n_models": 3, "grace_period": 20}
C = {"type": "nominal"}
OLD: dict[str, Any] = {"a": "numeric", "c": C}
NEW: dict[str, Any] = {"b": "numeric", "c": C, "a": "numeric", "d": "boolean"}
LATER: dict[str, Any] = {"b": "numeric", "d": "boolean"}
WIDE = {"nb": "naive-bayes", "forest": FOREST, "wide": TREE}


def spec(features: Mapping[str, Any] = OLD, **fields: Any) -> Spec:
    content: dict[str, Any] = {
        "name": "s",
        "task": "classification",
        "features": dict(features),
        "classes": ["p", "q"],
        "champion": TREE,
        "challengers": {"nb": "naive-bayes", "forest": FOREST},
        "drift": {"on_drift": "replace", "features": "all", "window": 50, "patience": 200},
        "predictions": {"challengers": True, "reasons": 2},
        "control": True,
    }
    return Spec.model_validate({**content, **fields})


def apply(number: int, features: Mapping[str, Any], challengers: Mapping[str, Any] = WIDE) -> bytes:
    """The command by which a file takes effect, as `riparian apply` makes it."""
    file = spec(features, challengers=challengers)
    plain = {name: {"model": model, **parameters} for name, (model, parameters) in file.models().items()}
    asked = {"id": f"{number}", "command": "apply", "champion": plain.pop("champion"), "challengers": plain}
    asked |= {"file": file.models_digest(), "settings": file.running(), "features": columns.plain(file.features)}
    return json.dumps(asked).encode()


def records(start: int, n: int) -> dict[str, list[bytes]]:
    """What decides is a, then b and d."""
    rng = np.random.default_rng(start)
    found: dict[str, list[bytes]] = {"features": [], "labels": []}
    for i in range(start, start + n):
        a, b = rng.random(2).round(3).tolist()
        y = (b > 0.4) != (i % 2 == 0) if start >= 600 else a > 0.5
        x = {"a": a, "b": b, "c": "xyz"[i % 3], "d": i % 2 == 0}
        found["features"].append(json.dumps({"id": i, "x": x}).encode())
        found["labels"].append(json.dumps({"id": i, "y": "pq"[y]}).encode())
    return found


STEPS: list[tuple[int, list[bytes]]] = [(300, []), (300, [apply(0, NEW)]), (600, [apply(1, LATER)]), (100, [])]


class Fold:
    """A learner, its records, and what it has sent."""

    def __init__(self, learner: PartitionLearner) -> None:
        self.learner, self.sent, self.events = learner, list[bytes](), list[Any]()

    def take(self, values: Mapping[str, Sequence[bytes]], cut: int = 10_000) -> Outcome:
        merge, outcome = PartitionGroup(self.learner.buffers(), limit=cut), None
        for role, buffer in merge.buffers.items():
            found, at = list(values.get(role, ())), buffer.next_offset
            stamps = [1000 * (at + i) + (500 if role == "labels" else 0) for i in range(len(found))]
            buffer.add(RawBatch([at + i for i in range(len(found))], stamps, [None] * len(found), found))
        while merge.n_waiting:
            outcome = self.learner.step(merge.release(EVERYTHING))
            self.sent += self.learner.encode(outcome)
            self.events += outcome.events
        assert outcome is not None
        return outcome


def lived(by: Spec, cut: int = 10_000, restarts: Sequence[Spec] = (), steps: Sequence[Any] = STEPS) -> Fold:
    """The steps; after each a restart, by these stream files."""
    fold, at = Fold(PartitionLearner(by)), 0
    for i, (n, asked) in enumerate(steps):
        fold.take({**records(at, n), CONTROL: asked}, cut)
        at += n
        if i < len(restarts):
            again = PartitionLearner(restarts[i])
            again.restore(fold.learner.snapshot())
            assert again.digest() == fold.learner.digest()
            fold.learner = again
    return fold


def test_who_knew_the_features_goes_on_as_if_none_had_come() -> None:
    """The oracle: a stream that never heard of them. Its models say the same to the bit, of what they knew."""
    changed, plain = lived(spec(), steps=STEPS[:2]), lived(spec(), steps=[(n, []) for n, _ in STEPS[:2]])
    assert [one.event for one in changed.events] == ["applied"]
    assert changed.events[0].sentence == "added: wide; changed: drift.features; features added: b, d"
    one, two = ([json.loads(value) for value in fold.sent] for fold in (changed, plain))
    for role in ("nb", "forest"):
        assert [now["challengers"][role] for now in one] == [was["challengers"][role] for was in two]
    assert [(now["y"], now["p"], now["reasons"]) for now in one] == [
        (was["y"], was["p"], was["reasons"]) for was in two
    ]
    roles, others = changed.learner.roles, plain.learner.roles
    assert [roles[name].columns for name in roles] == [[0, 1], [0, 1], [0, 1], None]
    for role in others:
        was, now = others[role].state(), roles[role].state()
        assert was.keys() == now.keys()
        assert all(was[name].tobytes() == now[name].tobytes() for name in was)


def test_a_model_that_begins_with_them_learns_from_them_and_is_promoted() -> None:
    fold = lived(spec())
    told = [one.sentence for one in fold.events]
    assert told[1] == "changed: drift.features; features dropped: a, c"
    accuracy = {name: found["accuracy"] for name, found in fold.learner.figures().recent.items()}
    assert accuracy["wide"] > accuracy["champion"] + 0.1, accuracy
    fold.take({**records(1300, 200), CONTROL: [b'{"id": "9", "command": "promote", "model": "wide"}']})
    assert fold.learner.roles["champion"].columns is None
    last = json.loads(fold.sent[-1])
    assert {"b", "d"} & {*last["reasons"]}
    # A new model in the place of one that knew less knows all.
    name = next(name for name, role in fold.learner.roles.items() if role.columns == [0, 1])
    fold.take({**records(1500, 50), CONTROL: [json.dumps({"id": "10", "command": "reset", "model": name}).encode()]})
    assert fold.learner.roles[name].columns is None
    assert fold.learner.roles[name].model.schema.n_features == 4


@pytest.mark.parametrize("cut", [3, 400])
def test_batches_and_restarts_change_no_bit(cut: int) -> None:
    """By the file of the moment, by the first one, and by one whose features stand in another order."""
    whole = lived(spec())
    mixed = dict(reversed(NEW.items()))
    files = [spec(), spec(mixed, challengers=WIDE), spec(), spec(LATER, challengers=WIDE)]
    other = lived(spec(), cut, files)
    assert other.sent == whole.sent
    assert other.events == whole.events
    assert other.learner.digest() == whole.learner.digest()


def test_a_feature_that_came_may_be_the_amount_of_costs_and_stays_as_long() -> None:
    applied = lived(spec(), steps=STEPS[:2])
    priced = PartitionLearner(spec(NEW, challengers=WIDE, decision={"costs": {"q": {"p": "b"}, "p": {"q": 0.2}}}))
    priced.restore(applied.learner.snapshot())
    fold, given = Fold(priced), records(600, 200)
    fold.take({**given, CONTROL: [apply(1, {"a": "numeric", "d": "boolean"})]})
    (event,) = fold.events
    assert (event.event, event.sentence) == (
        "refused",
        "features: expected b, which decision.costs names, found none; restore it",
    )
    for value, said in zip(given["features"], map(json.loads, fold.sent), strict=True):
        q, p = said["p"].get("q", 0.0) * json.loads(value)["x"]["b"], said["p"].get("p", 0.0) * 0.2
        assert said["y"] == ("q" if q > p else "p")
    assert 0.0 < fold.learner.figures().overall["champion"]["cost"] < 1.0


def test_what_waits_goes_on_without_the_new_features() -> None:
    fold, values = Fold(PartitionLearner(spec())), records(0, 40)
    fold.take({"features": values["features"]})
    fold.take({"features": records(40, 1)["features"], CONTROL: [apply(0, NEW)]})
    assert fold.learner.pending.n_features == 4
    x = fold.learner.pending.state()["x"]
    assert np.isnan(x[:40, 2:]).all()
    assert not np.isnan(x[40]).any()
    again = PartitionLearner(spec(NEW, challengers=WIDE))
    again.restore(fold.learner.snapshot())
    for learner in (fold.learner, again):
        fold.learner = learner
        fold.take({"labels": values["labels"]})
    assert again.n_labels == 40


def test_a_record_that_only_the_new_file_rejects_does_not_take_the_command() -> None:
    fold = Fold(PartitionLearner(spec()))
    values = records(0, 6)["features"]
    values[1:3] = [value.replace(b'"b": ', b'"b": "x", "was": ') for value in values[1:3]]
    fold.take({"features": values[:1]})
    outcome = fold.take({"features": values[1:], CONTROL: [apply(0, NEW)]})
    assert outcome.offsets.tolist() == [1, 2, 3, 4, 5]
    assert [json.loads(value)["control_offset"] for value in fold.sent] == [0, 0, 0, 1, 1, 1]
    assert [one.offset for one in fold.events] == [3]


def test_what_cannot_change_is_refused_with_a_sentence() -> None:
    fold = Fold(PartitionLearner(spec()))
    fold.take({**records(0, 20), CONTROL: [apply(0, NEW)]})
    for i, features in enumerate(({"a": "nominal"}, {"a": {"type": "numeric", "from": "x.q"}, "b": "numerc"}, {})):
        asked = {**json.loads(apply(i + 1, NEW)), "features": features}
        fold.take({"features": records(20 + i, 1)["features"], CONTROL: [json.dumps(asked).encode()]})
    said = [one.sentence for one in fold.events if one.event == "refused"]
    assert said[0].startswith("features.a was numeric, is nominal: a model knows it as it was")
    assert said[1].startswith("features.b: type: expected")
    assert said[2].startswith("features: expected 1 to")
    assert list(fold.learner.spec.features) == ["a", "c", "b", "d"]
    bags = spec(task="multi-instance", champion="majority-class", challengers={}, drift="none", predictions={})
    assert "do not change while a stream with task: multi-instance" in str(columns.unfit(bags, {}, {}))


def test_a_restart_by_a_file_that_nobody_applied_is_refused_and_says_how() -> None:
    fold = lived(spec(), steps=STEPS[:2])
    more = {**NEW, "e": "numeric"}
    with pytest.raises(StateError, match=r"e is new; .* riparian apply changes features while they run"):
        PartitionLearner(spec(more, challengers=WIDE)).restore(fold.learner.snapshot())
    meta = fold.learner.snapshot().meta
    known = [None if v is None else v.state() for v in fold.learner.vocabularies]
    changes = reconcile(spec(more, challengers=WIDE, seed=3), meta, known)
    assert [one.what for one in changes.found if one.fate == REFUSED] == ["features.*"]
    assert changes.other_features
    (said,) = unsteerable(changes)  # nothing else changes with them unseen
    assert said.startswith("seed was 0, is 3")
    steered = reconcile(spec(challengers=WIDE), meta, known)
    assert steered.other_features
    assert "an applied file has left the features a, c, b, d" in str(steered.steered)


@pytest.mark.parametrize(
    "damage",
    [
        {"gone": ["a", "c", "b", "d"]},
        {"gone": ["nobody"]},
        {"features": {"a": {"type": "numeric"}}},
        {"features": {"a": {"type": "vector"}, "c": C, "b": "numeric", "d": "boolean"}},
        {"knows": {"champion": [0, 9]}},
        {"knows": {"champion": [1, 0]}},
        {"knows": {"champion": []}},
        {"knows": {"champion": [0]}},
        {"knows": 3},
    ],
    ids=str,
)
def test_a_state_whose_columns_are_damaged_is_a_sentence(damage: dict[str, Any]) -> None:
    fold = lived(spec(), steps=[(30, []), (30, [apply(0, NEW)])])
    snapshot = fold.learner.snapshot()
    steering = snapshot.meta["steering"]
    meta = {**snapshot.meta, "steering": {**steering, "features": {**steering["features"], **damage}}}
    with pytest.raises(StateError, match=r"^the state of partition 0 (cannot be used|does not fit)"):
        PartitionLearner(spec(NEW, challengers=WIDE)).restore(snapshot._replace(meta=meta))
