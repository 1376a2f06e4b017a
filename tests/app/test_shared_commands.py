"""Commands to models that all partitions learn, and stream files that change: at one place of their log."""

import json
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.worker.shared.training_log import Commands
from riparian.topics import commands
from riparian.topics.names import CONTROL, FEATURES, LABELS
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedRecord, read, write
from tests.app.shared_world import (
    COMMANDS,
    DECISIONS,
    NB,
    RUNNING,
    TREE,
    World,
    commanded,
    pool,
    replayed,
    rows,
    stream,
)


@cache
def steered() -> World:
    return commanded(stream(control=True))


def test_commands_take_effect_at_one_place_of_the_log_and_the_first_partition_answers() -> None:
    world = steered()
    assert len({learner.lineup.digest() for learner in world.learners}) == 1
    first = world.learners[0]
    assert {learner.learning.lineup.n for learner in world.learners} == {720}
    roles = [{name: role.learner_name for name, role in learner.roles.items()} for learner in world.learners]
    assert roles[0] == roles[1] == roles[2] == world.events(0)[-1].models
    assert roles[0]["late"] == "majority-class"
    events = world.events(0)
    assert [(event.command, event.id) for event in events if event.id is not None] == [
        (one["what"], f"c{i if i < 8 else i + 1}") for i, one in enumerate(COMMANDS)
    ]
    assert [event.number for event in events] == list(range(len(events)))
    asked = [event for event in events if event.id is not None]
    assert [event.command for event in asked if event.event == "refused"] == ["drop"]
    assert {event.control_offset for event in asked} == {*range(21)} - {8}
    assert world.events(1) == world.events(2) == []
    letters = [[one for outcome in each for one in outcome.rejected.get(CONTROL, [])] for each in world.outcomes]
    assert [[(one.offset, one.reason) for one in found] for found in letters] == [[(8, "wrong-command")], [], []]
    assert (first.learning.lineup.n_commands, first.learning.lineup.next_command) == (21, 21)
    told = [json.loads(value) for value in world.sent[1]]
    assert {None} < {one["y"] for one in told[40:]}  # paused for a while


def test_commands_wait_for_the_log_and_those_that_were_deleted_are_passed_over(caplog: Any) -> None:
    waiting = Commands(3)
    waiting.begin(2, "s.control")
    assert waiting.fetch_offset == 3
    assert not caplog.records
    waiting.begin(5, "s.control")
    assert caplog.messages == ["s.control begins at offset 5: commands from 3 on were deleted"]
    waiting.add(RawBatch([5, 7], [0, 0], [None, None], [b"x" * 100_000, None]))
    assert (len(waiting), waiting.fetch_offset) == (2, 8)
    large, none = (read(write(one)) for one in waiting.taken())
    assert (large.offset, none.offset, none.value) == (5, 7, None)  # type: ignore[union-attr]
    with pytest.raises(commands.WrongCommandError, match="more than 65536"):
        commands.read_command(large.value)  # type: ignore[union-attr]
    assert len(waiting) == 0


@pytest.mark.parametrize(
    ("rule", "decides"),
    [(None, True), ({"margin": 0.0, "at_least": 250, "confidence": 0.6}, False)],
    ids=["decides by commands", "by rule"],
)
def test_one_partition_that_waits_for_its_log_obeys_as_one_that_learns_for_itself(rule: Any, decides: bool) -> None:
    """The twin: commands in the order of the partition's own records."""
    tree = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
    fields: dict[str, Any] = {
        "features": {"a": "numeric", "c": {"type": "nominal", "values": [f"c{i}" for i in range(6)]}},
        "classes": ["p", "q"],
        "champion": tree if rule is None else "majority-class",
        "predictions": {"coverage": 0.8},
        "control": True,
        "promotion": rule and {**rule, "mode": "automatic"},
    }
    if decides:
        fields["decision"] = DECISIONS["recall"]
    worlds = [World(stream(1, "shared", **fields)), World(stream(1, "partition", **fields))]
    asked = [one for one in COMMANDS if not one.get("again")]
    for i, row in enumerate(rows(480 if rule is None else 900, classes="pq")):
        for world in worlds:
            if rule is None and i % 20 == 7 and i // 20 < len(asked):
                world.ask(**asked[i // 20])
            world.come([row])
            world.step(0)
    worlds[0].step(0)
    told = [[json.loads(value) for value in world.sent[0]] for world in worlds]
    for one, own in zip(*told, strict=True):
        one.pop("learned_offset")
        own.pop("control_offset", None)
        assert one == own
    events = [[msgspec.structs.replace(event, time=0) for event in world.events(0)] for world in worlds]
    assert events[0] == events[1]  # a command of the log is told at the time of the next instance
    assert len(events[0]) > (0 if rule else 14)
    learners = [world.learners[0] for world in worlds]
    assert learners[0].figures().overall == learners[1].figures().overall
    for name, role in learners[0].roles.items():
        for field, array in role.state().items():
            if field not in role.incomparable:
                np.testing.assert_array_equal(array, learners[1].roles[name].state()[field], field)


def test_a_model_that_a_changed_file_brings_gets_a_key_of_its_own() -> None:
    """By its key the log names what a model predicted: the champion was called nb when it began."""
    world = World(stream(1, control=True))
    for i, made in enumerate((rows(60)[:30], rows(60)[30:])):
        world.come(made)
        world.step(0)
        if i == 0:
            world.ask("promote", model="nb")
    world.step(0)
    assert {name: role.key for name, role in world.learners[0].roles.items()} == {
        "champion": "nb",
        "hoeffding-tree": "champion",
    }
    for found, key in (("majority-class", "nb+"), ("naive-bayes", "nb+")):  # that one takes over from the champion
        spec = stream(1, champion="naive-bayes", challengers={"new": "last-label", "nb": found})
        world.learners[0], before = PartitionLearner(spec, 0), world.learners[0]
        world.learners[0].restore(before.snapshot())
        assert {name: role.key for name, role in world.learners[0].roles.items()} == {
            "champion": "nb",
            "new": "new",
            "nb": key,
        }
        world.learners[0] = before


def test_a_changed_file_counts_by_a_command_alone_where_the_stream_takes_any() -> None:
    """Else it would begin in each partition where its checkpoint stands, and the replicas would differ."""
    metrics = {"window": 9, "segments": ["c", "d"]}  # which each partition has of its own labels
    changed: dict[str, Any] = {"challengers": {"late": "last-label"}, "metrics": metrics, "drift": "none"}
    learner = steered().learners[1]
    for fields, notes in (({}, 2), (changed, 2), ({"champion": "last-label"}, 2)):
        again = PartitionLearner(stream(control=True, **fields), 1)
        said = again.restore(learner.snapshot())
        assert len(said) == 1, said
        assert len(said[0].split("; also, ")) == notes
        assert said[0].count("; riparian apply makes it count") == notes, said
        assert again.digest() == learner.digest()
        assert again.spec.models() == learner.spec.models()
        assert again.origin is None
        assert again.files[0] == learner.files[0]
    turned = PartitionLearner(stream(control=True, challengers={"pool": pool(n=NB, t=TREE)}), 1)
    again = PartitionLearner(stream(control=True, challengers={"pool": pool(t=TREE, n=NB)}), 1)
    assert again.restore(turned.snapshot()) == []
    assert list(again.roles["pool"].model.members) == ["n", "t"]  # type: ignore[attr-defined]
    fresh = PartitionLearner(stream(control=True), 1)
    assert PartitionLearner(stream(control=True), 1).restore(fresh.snapshot()) == []
    with pytest.raises(StateError, match=r"the features have changed: .*; restore it in the stream file, or give"):
        PartitionLearner(stream(control=True, features={"a": "numeric", "c": "nominal"}), 1).restore(learner.snapshot())
    runs = {"model": "hoeffding-tree", "grace_period": 10}
    own = PartitionLearner(stream(champion=runs, **changed), 1)  # without control it counts at a restart
    assert any("metrics.fading was" in note for note in own.restore(learner.snapshot()))
    assert own.spec.models().keys() == {"champion", "late"}


def test_what_members_of_a_name_said_before_is_not_another_ones() -> None:
    """A partition to which no features come obeys late, and appends what a member said that is gone elsewhere: the
    other one of its name said nothing of it."""
    world, given = World(stream(2, control=True, challengers={"pool": pool(t=TREE, n="naive-bayes")})), rows(400)
    for start in range(0, 200, 10):
        world.come(given[start : start + 10])
        for p in (0, 1):
            world.step(p)
    world.come(given[200:260])
    late = [[at[LABELS].pop() for _ in range(30)][::-1] for at in world.raw]
    for p in (0, 1):
        world.step(p)
    file = {"pool": pool(n="naive-bayes", t={**TREE, "grace_period": 50})}
    world.ask("apply", champion={}, challengers=file, file="f", settings=RUNNING)
    world.come(given[260:262])
    for role in (FEATURES, LABELS):
        world.raw[1][role].pop()
    world.step(0)
    before = len(world.log)
    for at, labels in zip(world.raw, late, strict=True):
        at[LABELS] += labels
    for p in (1, 0):
        world.step(p)
    assert [learner.roles["pool"].memos.begun.keys() for learner in world.learners] == [{"member-t"}, set()]
    begun = world.learners[0].roles["pool"].memos.begun["member-t"]
    world.come(given[262:400])
    world.finish()
    log, n_old = world.log[:before], 0
    for one in map(read, world.log[before:]):
        assert isinstance(one, LearnedRecord)
        at, out = one.columns()[2:]
        votes = out["pool/member-t"].copy()
        n_old += int((~np.isnan(votes[at < begun])).any(axis=1).sum())
        votes[at < begun] = np.nan
        log.append(
            write(msgspec.structs.replace(one, out={**one.out, "pool/member-t": (len(votes[0]), votes.tobytes())}))
        )
    assert n_old >= 30
    twin = World(world.spec)
    twin.log, twin.raw, twin.sent = log, world.raw, world.sent
    for p in (0, 1):
        assert replayed(world, p, [5, 7, 40], {0, 2})[0].digest() == world.learners[p].digest()
        assert replayed(twin, p, [], set())[0].digest() == world.learners[p].digest()
