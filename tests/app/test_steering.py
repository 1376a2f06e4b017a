"""What commands do to the models of a partition, and what a restart makes of it."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import strategies as st

from riparian.app.errors import StateError
from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.lineup.model_commands import KNOWN, CommandRefusedError, unsteerable
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.state import checkpoint
from riparian.app.state.audit.drift_proof import DriftProof
from riparian.app.state.audit.proof import SentRecords, differing_parts
from riparian.app.stream_file.spec import Spec
from riparian.topics import commands
from riparian.topics.commands import EventRecord
from riparian.topics.names import CONTROL
from riparian.topics.records import RawBatch

TREE = {"model": "hoeffding-tree", "grace_period": 5, "delta": 0.1}
CONTENT: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": {"a": "numeric"},
    "classes": ["p", "q"],
    "champion": TREE,
    "challengers": {"nb": "naive-bayes"},
    "control": True,
}


def spec(**fields: Any) -> Spec:
    return Spec.model_validate({**CONTENT, **fields})


class Fed:
    """A learner, and records for it."""

    def __init__(self, learner: PartitionLearner) -> None:
        self.learner = learner
        self.merge = PartitionGroup(learner.buffers())
        self.rng = np.random.default_rng(3)

    def go_on(self, n: int, *asked: Mapping[str, Any], labels: bool = True, turned: bool = False) -> Outcome:
        """n instances after these commands, and their labels after them. turned : whether these are the other ones."""
        at = {role: buffer.next_offset for role, buffer in self.merge.buffers.items()}
        a = self.rng.random(n).round(3).tolist()
        first, y = at["features"], ["pq"[(one > 0.5) != turned] for one in a]
        if self.learner.classes is None:
            y = a
        values = {
            "features": [json.dumps({"id": str(first + i), "x": {"a": a[i]}}).encode() for i in range(n)],
            "labels": [json.dumps({"id": str(first + i), "y": y[i]}).encode() for i in range(n * labels)],
            CONTROL: [json.dumps({"id": f"{at.get(CONTROL, 0) + i}", **one}).encode() for i, one in enumerate(asked)],
        }
        for role, kind in values.items():
            if role not in at:
                continue
            offsets = [at[role] + i for i in range(len(kind))]
            stamps = [1000 + 100 * at["features"] + (50 if role == "labels" else i) for i in range(len(kind))]
            self.merge.buffers[role].add(RawBatch(offsets, stamps, [None] * len(kind), kind))
        return self.learner.step(self.merge.release(EVERYTHING))


def said(outcome: Outcome) -> list[tuple[str, str]]:
    return [(event.command, event.event) for event in outcome.events]


def restored(fed: Fed, by: Spec) -> tuple[PartitionLearner, list[str]]:
    again = PartitionLearner(by)
    return again, again.restore(fed.learner.snapshot())


def lineup(learner: PartitionLearner) -> dict[str, str]:
    return {name: role.learner_name for name, role in learner.roles.items()}


def through_checkpoints(fed: Fed, *asked: Mapping[str, Any]) -> PartitionLearner:
    """What two checkpoints have, with instances that wait, and these commands in between."""
    encoder, chunks = checkpoint.Encoder("s", 0), dict[bytes, bytes]()
    for commands_of in ((), asked):
        fed.go_on(10, *commands_of, labels=False)
        encoder.take(fed.learner.checkpoint())
        encoded = encoder.encode(sequence=1, created_ms=0, outputs={}, written=list(chunks))
        chunks |= encoded.new
    again = PartitionLearner(fed.learner.spec)
    again.restore(checkpoint.decode(checkpoint.decode_manifest(encoded.data), chunks))
    return again


PROMOTE = {"command": "promote", "model": "nb"}


def test_a_promoted_model_takes_what_is_its_own_along() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(40)
    fed.go_on(10, labels=False)
    tree, nb = fed.learner.roles["champion"], fed.learner.roles["nb"]
    waiting = {name: out.copy() for name, out in fed.learner.pending.out.items()}
    outcome = fed.go_on(1, PROMOTE, labels=False)
    assert said(outcome) == [("promote", "applied")]
    assert fed.learner.roles == {"champion": nb, "hoeffding-tree": tree}
    rows = fed.learner.pending._instances.rows()[:10]
    out = fed.learner.pending.out
    assert np.array_equal(out["champion"][rows], waiting["nb"][rows])
    assert np.array_equal(out["hoeffding-tree"][rows], waiting["champion"][rows])
    assert json.loads(fed.learner.encode(outcome)[0])["model"] == "naive-bayes"
    # And back, under the name that it had.
    fed.go_on(1, {"command": "demote"})
    assert fed.learner.roles == {"champion": tree, "nb": nb}


@pytest.mark.parametrize(
    "fields",
    [
        {"decision": {"class": "q", "alert_rate": 0.2}},
        {"predictions": {"calibrated": True}},
        {"predictions": {"calibrated": "matured"}, "join": {"unlabelled": {"after": "1s"}}},
    ],
)
def test_what_a_challenger_that_came_never_said_is_nothing_in_a_checkpoint_too(fields: dict[str, Any]) -> None:
    """The instances that waited were written before it came."""
    fed = Fed(PartitionLearner(spec(**fields)))
    fed.go_on(40)
    again = through_checkpoints(fed, {"command": "add", "model": "late", "definition": TREE})
    assert differing_parts(again, fed.learner) == []


def test_a_name_that_is_taken_gets_a_number() -> None:
    fed = Fed(PartitionLearner(spec(challengers={"nb": "naive-bayes", "hoeffding-tree": "last-label"})))
    fed.go_on(1, PROMOTE)
    assert lineup(fed.learner) == {
        "champion": "naive-bayes",
        "hoeffding-tree-2": "hoeffding-tree",
        "hoeffding-tree": "last-label",
    }


def test_a_frozen_model_predicts_the_same_for_ever() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(60)
    fed.go_on(1, {"command": "freeze", "model": "champion"}, {"command": "freeze", "model": "champion"})
    before = {name: array.copy() for name, array in fed.learner.roles["champion"].state().items() if "models/" in name}
    outcome = fed.go_on(60)
    assert all(np.array_equal(fed.learner.roles["champion"].state()[name], was) for name, was in before.items())
    assert len(outcome.ids) == 60
    assert fed.learner.roles["champion"].metrics.metrics()["n"] > 100
    fed.go_on(1, {"command": "thaw", "model": "champion"})
    fed.go_on(60)
    after = fed.learner.roles["champion"].state()
    assert not all(np.array_equal(after[name], was, equal_nan=True) for name, was in before.items())


def test_what_cannot_be_done_says_why_and_changes_nothing() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(5)
    steering, before = fed.learner.lineup.steering, fed.learner.digest()
    for what, sentence in (
        (lambda: steering.promote("champion"), "is the champion already"),
        (lambda: steering.promote("other"), "there is no model other: name one of champion, nb"),
        (lambda: steering.demote(), "no champion of before"),
        (lambda: steering.drop("champion"), "cannot be dropped"),
        (lambda: steering.thaw("nb"), "is not frozen"),
        (lambda: steering.add("nb", {"model": "naive-bayes"}), "already"),
        (lambda: steering.add("new", {"model": "nobody"}), "nobody"),
        (lambda: steering.add("new", {"model": "hoeffding-tree", "depth": 3}), "depth"),
        (lambda: steering.add("new name", {"model": "naive-bayes"}), "letters"),
        (lambda: steering.add("new", {"model": "external"}), "code of somebody else"),
        (lambda: steering.apply({"model": "last-label"}, {}, "f"), "promote it first"),
    ):
        with pytest.raises(CommandRefusedError, match=sentence):
            what()
    assert fed.learner.digest() == before


def test_a_command_that_comes_again_is_left_out() -> None:
    fed = Fed(PartitionLearner(spec()))
    again = {"command": "reset", "model": "nb", "id": "same"}
    assert said(fed.go_on(3, again, again)) == [("reset", "applied")]
    assert said(fed.go_on(3, again, PROMOTE)) == [("promote", "applied")]
    assert fed.learner.offsets[CONTROL] == 4


def test_commands_of_before_are_not_taken_again_where_control_was_off_for_a_while() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(5)
    for _ in range(KNOWN):
        fed.go_on(1, {"command": "reset", "model": "nb"}, {"command": "checkpoint"})
    n = fed.learner.offsets[CONTROL]
    assert n == 2 * KNOWN
    off, notes = restored(fed, spec(control=False))
    assert notes == ["control was true, is false: no more commands"]
    off = Fed(off)
    off.go_on(20)
    again, notes = restored(off, spec(control=False))
    assert (notes, again.digest()) == ([], off.learner.digest())
    on, notes = restored(off, spec())
    assert len(notes) == 1
    assert notes[0].startswith("control was false, is true: predictions name the commands before them")
    assert on.offsets[CONTROL] == n == on.buffers()[CONTROL].next_offset
    assert on.promotion.n_events == n
    assert on.origin is not None  # the predictions of meanwhile do not say how many commands had been applied
    assert on.origin[2] == 2


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_command_at_a_prediction_that_was_too_large_is_applied_there_again(limit: int) -> None:
    """No prediction says that the command came before it; the one after it does."""

    def fold(sent: list[int]) -> tuple[list[int], str]:
        learner = PartitionLearner(spec())
        places = [(i, 0, int(i >= 5)) for i in sent]
        merge = PartitionGroup(learner.buffers(), RecordedOrder.of(list(learner.rules), places), limit=limit)
        values = [json.dumps({"id": str(i), "x": {"a": 0.1}}).encode() for i in range(10)]
        asked = json.dumps({"id": "1", **PROMOTE}).encode()
        for role, records in (("features", values), (CONTROL, [asked])):
            n = range(len(records))
            merge.buffers[role].add(RawBatch(list(n), list(n), [None for _ in n], records))
        told = []
        while merge.n_waiting:
            told += [event.offset for event in learner.step(merge.release(EVERYTHING)).events]
        return told, learner.digest()

    assert fold([i for i in range(10) if i != 5]) == fold(list(range(10)))
    assert fold(list(range(10)))[0] == [5]


def test_a_command_waits_for_an_instance() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(5)
    assert said(fed.go_on(0, PROMOTE)) == []
    assert fed.learner.offsets[CONTROL] == 0  # a checkpoint now stands before it
    assert said(fed.go_on(1)) == [("promote", "applied")]
    assert fed.learner.offsets[CONTROL] == 1


def test_the_state_wins_until_the_file_is_edited() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(30)
    fed.go_on(5, PROMOTE, {"command": "add", "model": "more", "definition": {"model": "last-label"}})
    learner, notes = restored(fed, spec())
    assert lineup(learner) == {"champion": "naive-bayes", "hoeffding-tree": "hoeffding-tree", "more": "last-label"}
    assert learner.digest() == fed.learner.digest()
    assert learner.origin is None
    assert len(notes) == 1
    assert "the models are those that commands have left (champion naive-bayes" in notes[0]
    known = [None]
    assert reconcile(spec(), fed.learner.snapshot().meta, known).steered == notes[0]
    # An edited file counts; the models go on where they are in it.
    edited = spec(champion="naive-bayes", challengers={"tree": TREE})
    learner, notes = restored(fed, edited)
    assert lineup(learner) == {"champion": "naive-bayes", "tree": "hoeffding-tree"}
    assert any("what challengers.more (last-label) has learned is dropped" in note for note in notes)
    # As does one that has the models as they were, once it was edited in between: nothing else is known of it.
    assert reconcile(edited, fed.learner.snapshot().meta, known).steered is None


def test_the_file_that_was_applied_and_the_one_before_both_go_on() -> None:
    fed, new = Fed(PartitionLearner(spec())), spec(challengers={"nb": "naive-bayes", "more": "last-label"})
    fed.go_on(30)
    plain = {name: {"model": model, **parameters} for name, (model, parameters) in new.models().items()}
    champion = plain.pop("champion")
    asked = {"command": "apply", "champion": champion, "challengers": plain, "file": new.models_digest()}
    assert said(fed.go_on(5, asked)) == [("apply", "applied")]
    assert lineup(fed.learner) == {"champion": "hoeffding-tree", "nb": "naive-bayes", "more": "last-label"}
    assert fed.learner.roles["nb"].metrics.metrics()["n"] > 20  # it went on
    for by, n in ((spec(), 1), (new, 0)):
        learner, notes = restored(fed, by)
        assert learner.digest() == fed.learner.digest()
        assert len(notes) == n
    other = spec(challengers={"more": "last-label"}, predictions={"probabilities": False}, join={"horizon": "1h"})
    (found,) = unsteerable(reconcile(other, fed.learner.snapshot().meta, [None]))
    assert found.startswith("predictions.probabilities was true, is false; this changes at a restart")


def test_commands_of_versions_that_had_threads_are_obeyed_again_without() -> None:
    bagging = {"model": "online-bagging", "n_models": 3, "threads": 2}
    pool = {"model": "opinion-pool", "members": {"b": bagging, "t": "hoeffding-tree"}}
    asked: list[dict[str, Any]] = [
        {"command": "add", "model": "b", "definition": bagging},
        {"command": "add", "model": "p", "definition": pool},
        {"command": "add", "model": "j", "definition": {**pool, "members": json.dumps(pool["members"])}},
        {"command": "apply", "file": "f", "champion": bagging, "challengers": {"b": bagging, "p": pool}},
    ]
    fed = Fed(PartitionLearner(spec(champion={"model": "online-bagging", "n_models": 3})))
    fed.go_on(30)
    assert said(fed.go_on(5, *asked)) == [*[("add", "applied")] * 3, ("apply", "applied")]
    assert lineup(fed.learner) == {"champion": "online-bagging", "b": "online-bagging", "p": "opinion-pool"}
    assert fed.learner.roles["b"].model.parameters()["n_models"] == 3
    assert fed.learner.roles["p"].model.parameters()["members"]["b"] == {"model": "online-bagging", "n_models": 3}
    unknown = {"command": "add", "model": "u", "definition": {**bagging, "fibres": 2}}
    assert said(fed.go_on(5, unknown)) == [("add", "refused")]


def test_a_command_whose_members_are_a_deep_text_is_refused() -> None:
    fed = Fed(PartitionLearner(spec()))
    deep = {"model": "opinion-pool", "members": '{"a":' * 5000 + "1" + "}" * 5000}
    asked = {"command": "add", "model": "deep", "definition": deep}
    assert said(fed.go_on(5, asked)) == [("add", "refused")]


def test_a_state_that_names_code_is_refused() -> None:
    fed = Fed(PartitionLearner(spec()))
    fed.go_on(5, PROMOTE)
    found = fed.learner.snapshot()
    for wrong in (["external", {"import_path": "os:system"}], ["nobody", {}], ["naive-bayes", {"no": 1}], 3):
        meta = {**found.meta, "models": {**found.meta["models"], "hoeffding-tree": wrong}}
        with pytest.raises(StateError):
            PartitionLearner(spec()).restore(found._replace(meta=meta))
    for wrong in ({"events": "x"}, {"ids": 3}, {"on_drift": 3, "files": [spec().models_digest()]}, 3):
        with pytest.raises(StateError):
            PartitionLearner(spec()).restore(found._replace(meta={**found.meta, "steering": wrong}))


def test_an_answer_that_was_altered_is_found() -> None:
    fed = Fed(PartitionLearner(spec()))
    outcome = fed.go_on(5, PROMOTE, {"command": "demote"}, {"command": "demote"})
    fed_on = fed.go_on(5, PROMOTE)
    events = [*outcome.events, *fed_on.events]

    def holds(told: list[EventRecord]) -> bool:
        sent = SentRecords(list(range(len(told))), [None] * len(told), [commands.write(one) for one in told])
        proof = DriftProof(sent, 0, read=commands.read_event, of=lambda one: one.events)
        proof.step(outcome)
        proof.step(fed_on)
        proof.settle()
        return proof.holds

    assert holds(events)
    assert not holds(events[1:])
    assert not holds([*events, events[0]])
    assert not holds([events[0], msgspec.structs.replace(events[1], sentence="another"), *events[2:]])


value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.sampled_from(["model", "on_drift"]), part),
    max_leaves=6,
)
asked = st.fixed_dictionaries(
    {"command": st.sampled_from(["promote", "add", "apply", "drop", "freeze"])},
    optional={
        "model": st.sampled_from(["nb", "champion", "x", "ü", "a/b", "champion/0"]),
        "definition": st.dictionaries(st.sampled_from(["model", "grace_period", "on_drift", "delta"]), value)
        | st.builds(lambda more: {"model": "hoeffding-tree", **more}, st.dictionaries(st.just("max_depth"), value)),
        "champion": st.dictionaries(st.just("model"), value),
        "challengers": st.dictionaries(st.sampled_from(["nb", "x", ""]), st.dictionaries(st.just("model"), value)),
        "file": st.text(max_size=3),
    },
)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_while_predictions_are_paused_they_say_nothing_and_all_models_learn(task: str) -> None:
    fields: dict[str, Any] = {"predictions": {"challengers": True}}
    if task == "regression":
        fields |= {"task": task, "classes": None, "champion": "mean", "challengers": {"nb": "fimt-dd"}}
    content = {field: value for field, value in {**CONTENT, **fields}.items() if value is not None}
    by = Spec.model_validate(content)
    fed, twin = Fed(PartitionLearner(by)), Fed(PartitionLearner(by))
    told: dict[Fed, list[dict[str, Any]]] = {fed: [], twin: []}
    for commands_of in ([], [{"command": "resume"}, {"command": "pause"}, {"command": "pause"}], [], ["resume"]):
        asked = [{"command": one} if isinstance(one, str) else one for one in commands_of]
        for one in (fed, twin):
            outcome = one.go_on(20, *asked if one is fed else [{"command": "checkpoint"}] * len(asked))
            told[one] += map(json.loads, one.learner.encode(outcome))
            again, notes = restored(one, by)
            assert again.digest() == one.learner.digest()
            assert again.lineup.steering.paused == any("paused, until riparian resume" in note for note in notes)
    for i, (one, other) in enumerate(zip(told[fed], told[twin], strict=True)):
        if 20 <= i < 60:
            assert (one["y"], one.get("p")) == (None, None)
            assert {name: it["y"] for name, it in one["challengers"].items()} == {"nb": None}
            other = {**other, "y": None, "challengers": one["challengers"]} | ({"p": None} if "p" in other else {})
        assert one == other
    assert differing_parts(fed.learner, twin.learner) == []
    fed.go_on(1, {"command": "pause"})
    for control_is_on in (True, False):  # nobody could resume it otherwise
        again, _ = restored(fed, Spec.model_validate({**content, "control": control_is_on}))
        assert again.lineup.steering.paused == control_is_on
