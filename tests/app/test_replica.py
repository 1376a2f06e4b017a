"""One replica of the shared models for several partitions of a worker: to the bit what each would have learned for
itself, by the order that its predictions recorded."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app.partition.joint_work import JointWork
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.predictions.joint_prediction import Unpredicted
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder
from riparian.app.partition.shared.replica import MOST_APART, FollowedLearning, Replica, gathered
from riparian.app.partition.state import Snapshot
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.shared import training_log
from riparian.app.worker.shared.replica import ReplicaOfWorker
from riparian.app.worker.shared.training_log import Feed
from riparian.app.worker.task import turns
from riparian.app.worker.task.turns import Brief
from riparian.topics.names import CONTROL, FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import is_command
from tests.app.shared_world import (
    COMMANDS,
    DECISIONS,
    FOREST,
    RESETS,
    RULE,
    RUNNING,
    World,
    replayed,
    rows,
    said,
    stream,
)
from tests.broker.harness import engine_of


class Led(World):
    """A worker with all partitions: those that it loads replay behind a replica what was sent before, and come to
    follow the worker's then."""

    def __init__(self, spec: Spec, seed: int = 0) -> None:
        super().__init__(spec)
        self.replicas = [Replica(spec)] * spec.partitions  # that each follows; the worker's is the first in use
        self.order = self.replicas[:1]
        self.learners: list[PartitionLearner] = [
            PartitionLearner(spec, p, FollowedLearning) for p in range(spec.partitions)
        ]
        self.kept: list[Snapshot | None] = [None for _ in self.learners]
        self.drifts: list[list[Any]] = [[] for _ in self.learners]
        self.rng = np.random.default_rng(seed)
        self.n_restarts = self.n_recovered = self.n_waited = self.n_moved = 0
        self.replaying: dict[int, tuple[RecordedOrder, list[Any]]] = {}  # what was sent, and is to be sent again
        self.labels: list[bytes] = []
        self.letters: list[set[int]] = [set() for _ in self.learners]
        self.wrong: set[int] = set()  # commands that are none
        self.n_again, self.chance = 0, np.random.default_rng(seed + 1)
        self.one_file = True  # by which a fold of all records comes to the same
        for learner in self.learners:
            learner.learning.wait_for(self.replica)
        for p in range(spec.partitions):
            assert self.learners[p].learning.join()
            self.replica.hold_back(self.learners[p].learning, None)

    @property
    def replica(self) -> Replica:
        """The worker's."""
        return self.order[0]

    def come(self, given: list[tuple[dict[str, Any], Any]], late: int = 12) -> None:
        """As in every world, with labels so many instances later, between two features, and some records rejected."""
        for x, y in given:
            self._n += 1
            at, time = self.raw[self._n % len(self.raw)], 1000 + 10 * self._n
            if self.rng.random() < 0.2:
                at[FEATURES].append((time - 4, b"{"))
            at[FEATURES].append((time, json.dumps({"id": str(self._n), "x": x}).encode()))
            self.labels.append(json.dumps({"id": str(self._n), "y": y}).encode())
            if self._n > late:
                n = self._n - late
                self.raw[n % len(self.raw)][LABELS].append((time - 2, self.labels[n - 1]))

    def ask_again(self) -> None:
        """A new owner of the first partition does not know how far the one before has come with the commands."""
        known = [*dict.fromkeys(value for value in self.log if is_command(value))]
        if known:
            self.log += known[int(self.chance.integers(len(known))) :]
            self.n_again += 1

    def step(self, p: int, n_learned: int | None = None) -> None:
        if self.ready(p, n_learned):
            super().step(p, n_learned)

    def ready(self, p: int, n_learned: int | None = None) -> bool:
        """Whether it may take a step of what has come; else it has taken one of those that recover."""
        learner, replica = self.learners[p], self.replicas[p]
        for one in {replica, self.replica}:
            self.feed(one, n_learned)
        if p in self.replaying:
            self.replay(p)
            return False
        if replica is not self.replica and (drifts := learner.learning.move(self.replica)) is not None:
            self.drifts[p] += drifts
            self.n_moved += 1
            self.follow(p, self.replica)
        self._taken[p][LEARNED] = len(self.log)  # it fetches none itself
        return True

    def took(self, p: int, outcome: Outcome) -> None:
        super().took(p, outcome)
        self.drifts[p] += outcome.drifts
        self.letters[p] |= {one.offset for one in outcome.rejected.get(CONTROL, [])}

    def feed(self, replica: Replica, n: int | None = None) -> None:
        """So many more records of the log come to a replica."""
        at, new = replica.fetch_offset, self.log[replica.fetch_offset :][:n]
        if new:
            replica.add(RawBatch(list(range(at, at + len(new))), [0] * len(new), [None] * len(new), new))
        replica.advance()

    def keep(self, p: int) -> None:
        """A checkpoint, if one can be made now."""
        learner = self.learners[p]
        with learner.learning.still() as drifts:
            if drifts is None:
                self.n_waited += 1
                return
            self.drifts[p] += drifts
            meta, arrays = self.cut(p)
            meta = msgspec.msgpack.decode(msgspec.msgpack.encode(meta))
            self.kept[p] = Snapshot(meta, {name: array.copy() for name, array in arrays.items()})
            if self.chance.random() < 0.03 and self.one_file:
                assert folded(self, p).digest() == learner.digest()

    def cut(self, p: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a checkpoint of a partition comes to."""
        return self.learners[p].snapshot()[:2]

    def follow(self, p: int, replica: Replica) -> None:
        """A partition follows another one. One that nobody follows ends."""
        self.replicas[p] = replica
        if replica not in self.order:
            self.order.append(replica)
        self.order = [one for one in self.order if one.used]

    def restart(self, p: int) -> None:
        """The partition is loaded again, from its last checkpoint, beside others that run."""
        self.load([p])
        self.n_restarts += 1

    def restored(self, p: int) -> PartitionLearner:
        self.replicas[p].leave(self.learners[p].learning)
        made = PartitionLearner(self.spec, p, FollowedLearning)
        snapshot = self.kept[p]
        if snapshot is not None:
            made.restore(snapshot)
        return made

    def recorded(self, p: int, made: PartitionLearner) -> tuple[PartitionGroup, int]:
        """What a partition did since, in the order that was recorded, and how many predictions were sent before."""
        codec = made.codec
        places = [codec.read_place(v).places(codec.index_bits) for v in self.sent[p]]
        script = RecordedOrder.of(list(made.rules), places)
        n_before = int(np.searchsorted(script.offsets, made.places[FEATURES]))
        merge = PartitionGroup(made.buffers(), script.part(n_before))
        for role, found in self.raw[p].items():
            at, stop = made.places[role], self._taken[p][role]
            fresh = found[at:stop]
            columns = list(range(at, stop)), [t for t, _ in fresh], [None] * len(fresh), [v for _, v in fresh]
            merge.buffers[role].add(RawBatch(*columns))
        return merge, n_before

    def restart_all(self) -> None:
        """The worker dies: all partitions are loaded together, and recover behind one replica."""
        self.load(list(range(self.spec.partitions)))
        self.n_recovered += 1

    def load(self, partitions: list[int]) -> None:
        """Partitions come to the worker."""
        made = {p: self.restored(p) for p in partitions}
        (order,) = gathered({p: (one.places[LEARNED], one.lineup.n) for p, one in made.items()})
        assert sorted(order) == partitions
        replica = Replica(self.spec)
        for p in order:
            made[p].learning.wait_for(replica)
            assert made[p].learning.joins
            self._merges[p], n_before = self.recorded(p, made[p])
            told = [said(json.loads(one)) for one in self.sent[p][n_before:]]
            self.learners[p], self.replaying[p] = made[p], (self._merges[p].script or RecordedOrder(), told)
            self.follow(p, replica)

    def replay(self, p: int) -> None:
        """A step of a partition that recovers, as far as the replica has come."""
        (script, told), learner, merge = self.replaying[p], self.learners[p], self._merges[p]
        replica = self.replicas[p]
        replica.advance()
        if learner.learning.joins and not learner.learning.join():
            assert not learner.learning.apart
            return
        place = script.next_place(LEARNED, learner.places[FEATURES]) if merge.follows else None
        replica.hold_back(learner.learning, place)
        if place is None and not merge.follows:
            assert not told
            del self.replaying[p]
            return
        merge.buffers[LEARNED].next_offset = replica.place
        outcome = learner.step(merge.release())
        again = [said(json.loads(one)) for one in learner.encode(outcome)]
        assert again == told[: len(again)]
        del told[: len(again)]
        self.drifts[p] += outcome.drifts
        self.letters[p] |= {one.offset for one in outcome.rejected.get(CONTROL, [])}

    def recover(self) -> None:
        """Until all partitions are where they were."""
        for _ in range(100_000):
            if not self.replaying:
                return
            self.step(int(self.rng.integers(self.spec.partitions)), int(self.rng.integers(0, 6)))
        raise AssertionError(f"{sorted(self.replaying)} do not go on")


class InStages(Led):
    """All partitions that can take a step take each stage of it, before any of them goes on."""

    def step(self, p: int, n_learned: int | None = None) -> None:
        ready = [q for q in range(self.spec.partitions) if self.ready(q, n_learned)]
        took, decoding = {}, JointWork[Any]()
        going = {q: self.learners[q].stages(self.release(q, n_learned), decoding) for q in ready}
        assert all(self.learners[q].learning.hold() for q in ready)
        while going:
            for q, stages in list(going.items()):
                try:
                    next(stages)
                except StopIteration as end:
                    took[q] = end.value
                    del going[q]
        for q, outcome in took.items():
            self.learners[q].learning.let_go()
            self.took(q, outcome)


def folded(world: World, p: int) -> PartitionLearner:
    """What a partition that learns the log itself holds at the places where this one stands, as an audit finds it."""
    learner, places = PartitionLearner(world.spec, p), world.learners[p].places
    codec = learner.codec
    script = RecordedOrder.of(
        list(learner.rules), [codec.read_place(v).places(codec.index_bits) for v in world.sent[p]]
    )
    merge = PartitionGroup(learner.buffers(), script.part(0, int(np.searchsorted(script.offsets, places[FEATURES]))))
    for role, found in {**world.raw[p], LEARNED: [(0, value) for value in world.log]}.items():
        part = found[: places[role]]
        columns = list(range(len(part))), [t for t, _ in part], [None] * len(part), [v for _, v in part]
        merge.buffers[role].add(RawBatch(*columns))
    while (release := merge.release(EVERYTHING)).n:
        learner.step(release)
    return learner


def lived(
    spec: Spec,
    n: int = 720,
    seed: int = 0,
    chunk: int = 12,
    made: Any = None,
    kind: type["Led"] = Led,
    commands: list[dict[str, Any]] = COMMANDS,
) -> Led:
    """As a worker would have lived that loses partitions and gets them back, with commands where they are taken."""
    world, given = kind(spec, seed), made or rows(n, seed)
    rng, asked = world.rng, list(commands) if spec.control else []
    for i, start in enumerate(range(0, n, chunk)):
        live = start < n - 5 * chunk  # and then all come to an end
        if not live:
            world.recover()
        world.come(given[start : start + chunk])
        for k, p in enumerate(rng.permutation(spec.partitions).tolist()):
            world.step(p, int(rng.integers(0, 12)) if live else None)
            if (i == 0 or i % 3 == 1) and k == 1 and asked:
                world.ask(**asked.pop(0))
            if live and spec.control and rng.random() < 0.1:
                world.wrong.add(world._asked)
                world.ask_bytes(b"")
            if live and spec.control and world.chance.random() < 0.1:
                world.ask_again()
            if rng.random() < 0.4:
                world.keep(int(rng.integers(spec.partitions)))
            if live and rng.random() < 0.06:
                world.restart(p)
        if live and (i == 20 or rng.random() < 0.06):
            world.restart_all()
    assert not asked
    world.finish()
    world.step(0)  # which hands the rest of the log on
    world.replica.advance()
    for p in range(spec.partitions):
        world.keep(p)
    return world


POOL = {"t": "hoeffding-tree", "n": "naive-bayes"}
FIELDS: dict[str, dict[str, Any]] = {
    "reset": {"predictions": {"coverage": 0.9, "calibrated": True, "reasons": 2, "challengers": True}},
    "replace": {"drift": {**RESETS, "on_drift": "replace", "window": 50, "patience": 150}},
    "forest": {"champion": {"model": "adaptive-random-forest", "n_models": 3}, "decision": DECISIONS["recall"]},
    "commands": {"control": True, "predictions": {"challengers": True, "coverage": 0.9, "calibrated": True}},
    "rule": {"control": True, "promotion": RULE, "predictions": {"coverage": 0.9}},
    "unwatched": {"control": True, "drift": "none", "challengers": {"nb": {"model": "opinion-pool", "members": POOL}}},
    "pool": {"champion": {"model": "opinion-pool", "members": POOL}, "decision": DECISIONS["costs"]},
}


FEW = 3  # the seed of worlds whose steps have few instances: one in each partition


@pytest.mark.parametrize(
    ("name", "seed"), [*zip(FIELDS, [0, 1, 2] * 3, strict=False), ("replace", FEW), ("commands", FEW)]
)
def test_partitions_that_follow_one_replica_do_what_each_would_do_for_itself(
    name: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: each partition folds its own topics and the whole log, by the order that its predictions recorded."""
    few, groups = seed == FEW, list[Sequence[Unpredicted]]()
    predict = Unpredicted.together

    def noted(group: list[Unpredicted]) -> None:
        groups.append(group)
        predict(group)

    monkeypatch.setattr(Unpredicted, "together", noted)
    n = 960 if name == "rule" else 720 if "control" in FIELDS[name] and not few else 360
    kind = InStages if seed in (2, FEW) else Led
    world = lived(stream(**FIELDS[name]), n=n, seed=seed, chunk=3 if few else 12, kind=kind)
    assert bool(groups) is (kind is InStages)
    assert all(one.done for group in groups for one in group)
    assert {len(group) for group in groups} <= {2, 3}
    assert world.n_restarts
    assert world.n_recovered
    assert world.n_moved or few
    assert all(learner.learning.follows for learner in world.learners)
    assert world.letters == [world.wrong, set(), set()]
    leads = world.replica.lineup
    assert leads is not None
    assert all(one.model is leads.roles[n].model for learner in world.learners for n, one in learner.roles.items())
    for p, learner in enumerate(world.learners):
        assert learner.places[LEARNED] == len(world.log)
        alone, sent = replayed(world, p, [], set())
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        told = {event.number: event for event in world.drifts[p]}  # a restart finds again what it had found
        assert sorted(told) == list(range(alone.drift.n_events))
        assert all(told[event.number] == event for event in world.drifts[p])
        assert (len(told) > 0) == (p == 0)
        assert alone.lineup.digest() == leads.digest()
        restored = PartitionLearner(world.spec, p)
        restored.restore(world.kept[p])  # type: ignore[arg-type]
        assert restored.digest() == learner.digest()


@pytest.mark.parametrize("action", ["reset", "replace"])
def test_a_partition_that_takes_a_file_late_leaves_the_replica_as_it_is(action: str) -> None:
    """What the models have learned and done since the file was applied stays, whoever comes to it later."""
    drift = {"detectors": {"page-hinkley": {"threshold": 0.5, "min_values": 5}}, "on_drift": action, "window": 100}
    running = {**RUNNING, "drift": {**drift, "patience": 1000}}
    world = Led(stream(2, control=True, challengers={"more": FOREST}))
    given, done = rows(1800), 0
    for n, n_models in ((0, 2), (600, 2), (1200, 3)):
        file = {"champion": {}, "challengers": {"more": {**FOREST, "n_models": n_models}}, "file": f"{n}"}
        for start in range(n, n + 600, 10):
            world.come(given[start : start + 10])
            world.step(0)
            if n == 0 or start == n:
                world.step(1)
            if n and start == n:
                world.ask("apply", **file, settings=running)
        leads = world.replica.lineup
        assert leads is not None
        with world.learners[1].learning.still() as drifts:
            assert (drifts is None) == (n > 0)  # the file waits for its next instance
        done += sum(one.reactions.sum() if one.trial is None else 1 for one in leads.roles.values())
    world.finish()
    world.step(0)
    world.replica.advance()
    assert done
    assert {event.event for event in world.events(0)} == {"applied"}
    for p, learner in enumerate(world.learners):
        world.keep(p)
        alone, sent = replayed(world, p, [], set())
        assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
        assert alone.digest() == learner.digest()
        assert alone.lineup.digest() == learner.lineup.digest()


LIMITED: dict[str, Any] = {"a": "numeric", "d": {"type": "nominal", "values": ["u", "v"]}}
CHANGED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # stream files that follow each other at a restart
    "costs": ({"decision": DECISIONS["alert_rate"]}, {"decision": DECISIONS["costs"], "control": True}),
    "weights": ({"class_weights": {"q": 3}}, {"class_weights": {"p": 5}, "seed": 9}),
    "bounds": (
        {"max_classes": 2, "features": {"c": {"type": "nominal", "max_values": 3}, **LIMITED}},
        {"max_classes": 3, "features": {"c": {"type": "nominal", "max_values": 5}, **LIMITED}},
    ),
    "declared": (
        {"classes": ["p", "q"], "features": {"c": {"type": "nominal", "values": ["c0"]}, **LIMITED}},
        {
            "classes": ["p", "q", "s", "r"],
            "features": {"c": {"type": "nominal", "values": ["c0", "c2", "c1"]}, **LIMITED},
        },
    ),
    "own": (
        {"decision": DECISIONS["recall"], "predictions": {"coverage": 0.9, "calibrated": True}},
        {"predictions": {"reasons": 2, "challengers": True}, "join": {"horizon": "1h", "max_pending": 20}},
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_workers_that_are_restarted_one_by_one_with_another_file_hold_one_model_again(name: str) -> None:
    """What a label counts and a mistake costs, and how many values there are, goes by the file of whoever joined it."""
    before, after = CHANGED[name]
    world, given = Led(stream(**before)), rows(720)
    world.one_file = False
    for i, start in enumerate(range(0, len(given), 12)):
        if i in (20, 30, 40):
            world.spec = stream(**after)
            world.keep(i // 10 - 2)
            world.restart(i // 10 - 2)
            world.recover()
        world.come(given[start : start + 12])
        for p in world.rng.permutation(3).tolist():
            world.step(p, int(world.rng.integers(0, 12)))
    for p in range(3):
        world.keep(p)
    world.restart_all()  # as a worker that takes all over
    world.recover()
    world.finish()
    for p in range(3):
        world.keep(p)
    assert all(one.learning.follows for one in world.learners)
    assert len(set(map(id, world.replicas))) == 1
    (digest,) = {one.lineup.digest() for one in world.learners}
    assert digest


def recovering() -> tuple[Led, dict[int, PartitionLearner]]:
    """Three partitions at different places of the log, right after they were loaded together."""
    world = Led(stream())
    given = rows(120)
    for start, p in ((0, 1), (40, 2), (80, 0)):
        world.come(given[start : start + 40])
        for q in range(3):
            world.step(q)
        world.keep(p)
    for q in range(3):
        world.step(q)
    world.restart_all()
    return world, dict(enumerate(world.learners))


def test_a_replica_that_partitions_recover_behind_stops_where_one_of_them_joins() -> None:
    world, learners = recovering()
    places = {p: one.places[LEARNED] for p, one in learners.items()}
    assert sorted(places, key=lambda p: places[p]) == [1, 2, 0]
    assert len(set(places.values())) == 3
    replica = world.replica
    assert replica.place == places[1]
    at = replica.fetch_offset
    replica.add(RawBatch(list(range(at, len(world.log))), [0] * 99, [None] * 99, world.log[at:]))
    replica.advance()
    assert replica.place == places[1], "it has not waited"
    assert [learners[p].learning.join() for p in (0, 1, 2)] == [False, True, False]
    with learners[0].learning.still() as drifts:
        assert drifts is None, "a checkpoint of a partition without its models"
    assert replica.waits_for(learners[1].learning)
    replica.hold_back(learners[1].learning, None)
    replica.advance()
    assert replica.place == places[2]
    assert not replica.waits_for(learners[1].learning)
    world.replica.leave(learners[2].learning)  # its runner has ended
    replica.advance()
    assert replica.place == places[0]
    assert learners[0].learning.join()
    replica.hold_back(learners[0].learning, None)
    replica.advance()
    assert replica.place == len(world.log)
    assert [one.is_own for one in (Led(world.spec).replica, replica)] == [True, False], "one partition has left"


def test_a_partition_that_holds_something_else_at_its_place_does_not_join() -> None:
    """Of two that began a challenger at different places, say."""
    world, learners = recovering()
    for p in (1, 2):
        assert not learners[p].learning.apart
    other = PartitionLearner(world.spec, 2, FollowedLearning)
    other.restore(world.kept[2])  # type: ignore[arg-type]
    other.roles["nb"].reset()
    world.replica.leave(learners[2].learning)
    other.learning.wait_for(world.replica)
    learners[1].learning.join()
    world.replica.hold_back(learners[1].learning, None)
    at = world.replica.fetch_offset
    world.replica.add(RawBatch(list(range(at, len(world.log))), [0] * 99, [None] * 99, world.log[at:]))
    world.replica.advance()
    assert world.replica.place == other.places[LEARNED]
    assert not other.learning.join()
    assert other.learning.apart
    assert not other.learning.follows


def test_partitions_of_a_replica_that_holds_something_else_do_not_move() -> None:
    world, learners = recovering()
    replica, other = world.replica, Replica(world.spec)
    lone = PartitionLearner(world.spec, 1, FollowedLearning)
    lone.restore(world.kept[1])  # type: ignore[arg-type]
    world.replica.leave(learners[1].learning)
    lone.learning.wait_for(other)
    lone.learning.join()
    other.hold_back(lone.learning, None)
    for p in (2, 0):
        world.feed(replica)
        replica.advance()
        assert learners[p].learning.join()
        replica.hold_back(learners[p].learning, None)
    world.feed(replica)
    world.feed(other)
    replica.advance()
    other.advance()
    assert other.lineup is not None
    known = next(one for one in other.lineup.roles["nb"].state().values() if one.dtype == float)
    known += 1.0
    assert lone.learning.move(replica) is None
    assert other.apart is replica
    known -= 1.0
    assert lone.learning.move(replica) is None, "it was compared again"
    other.apart = None
    assert lone.learning.move(replica) is not None
    assert not other.used
    assert lone.roles["nb"].model is learners[0].roles["nb"].model


async def behind_one_each(assignment: Any, spec: Spec) -> tuple[list[ReplicaOfWorker], list[Any]]:
    """Two replicas of a worker, and what a partition has that has joined each."""
    ones = [ReplicaOfWorker(assignment.worker, Replica(spec), assignment.replicas, lambda: None) for _ in range(2)]
    learners = [PartitionLearner(spec, p, FollowedLearning).learning for p in range(2)]
    for one, learner in zip(ones, learners, strict=True):
        learner.wait_for(one.models)
        assert not one.models.is_own
        assert await one.join(learner)
        one.hold_back(learner, None)
    assignment.replicas += ones
    return ones, learners


def test_a_worker_ends_the_replica_that_its_partitions_have_left_and_they_go_on_behind_the_other(
    tmp_path: Path,
) -> None:
    async def moved() -> None:
        spec = stream(2)
        assignment = engine_of(spec, tmp_path)
        ones, learners = await behind_one_each(assignment, spec)
        assert ones[1].first is ones[0]
        assert await ones[1].move(learners[1], ones[0]) == []
        await ones[1].leave(learners[1])
        assert assignment.replicas == ones[:1]
        assert ones[0].models.used
        assert not ones[1].models.used
        with learners[1].still() as drifts:
            assert drifts == []
        for learner in learners:
            await ones[0].leave(learner)
        assert not assignment.replicas
        await assignment.stop()

    asyncio.run(moved())


@pytest.mark.parametrize("comes", [True, False])
def test_a_replica_that_all_others_leave_while_a_partition_moves_to_it_ends_only_if_that_stays(
    tmp_path: Path, comes: bool
) -> None:
    async def moved() -> None:
        spec = stream(2)
        assignment = engine_of(spec, tmp_path)
        worker = assignment.worker
        ones, learners = await behind_one_each(assignment, spec)
        in_thread = worker.in_thread

        async def slow(function: Any, *args: Any) -> Any:
            await ones[0].leave(learners[0])  # its partition is dropped
            return await in_thread(function, *args) if comes else None

        worker.in_thread = slow  # type: ignore[method-assign]
        assert await ones[1].move(learners[1], ones[0]) == ([] if comes else None)
        assert assignment.replicas == (ones if comes else ones[1:])
        assert [one.models.used for one in ones] == [comes, not comes]
        worker.in_thread = in_thread  # type: ignore[method-assign]
        await assignment.stop()

    asyncio.run(moved())


def test_a_partition_that_moves_and_takes_the_replica_on_wakes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for it to come to their place, and the move was faster."""
    monkeypatch.setattr(Feed, "start", lambda self: None)

    async def learned() -> None:
        world, learners = recovering()
        woken = list[int]()
        assignment = engine_of(world.spec, tmp_path)
        replica = world.replica
        one = ReplicaOfWorker(assignment.worker, replica, assignment.replicas, lambda: woken.append(replica.place))
        one.start()
        await asyncio.sleep(0)
        one._brief.most = len(world.log)
        assert learners[1].learning.join()
        one.hold_back(learners[1].learning, None)
        world.feed(replica)
        replica.advance()  # as a move does
        assert not woken
        for _ in range(5):
            await asyncio.sleep(0)
        assert woken == [replica.place] == [learners[2].learning.logs.places[LEARNED]]
        await one.stop()
        await assignment.stop()

    asyncio.run(learned())


class Endless:
    """A consumer whose every fetch brings a record."""

    def __init__(self, **_: Any) -> None:
        self.n = 0

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    def assign(self, tps: Any) -> None: ...
    def seek(self, *_: Any) -> None: ...

    async def getmany(self, tp: Any, **_: Any) -> Any:
        self.n += 1
        return {tp: [SimpleNamespace(offset=self.n - 1, timestamp=0, key=None, value=b"", headers=())]}


@pytest.mark.parametrize(
    ("seconds", "known", "new", "all_own"),
    [(1e6, 1.0, False, True), (1e-9, 1e15, False, True), (1e6, 1e-15, True, True), (1e6, 1e-15, False, False)],
)
def test_who_waits_for_the_log_ends_the_pause_between_two_fetches(
    seconds: float, known: float, new: bool, all_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is longer where all that came was known, and nobody else appends: what another worker has joined may stand
    right behind it."""
    monkeypatch.setattr(training_log, "PAUSE_SECONDS", seconds)
    monkeypatch.setattr(training_log, "KNOWN", known)

    class Waiting:
        fetch_offset, is_own = 0, all_own

        def add(self, _: object) -> None:
            self.fetch_offset += new

        def __len__(self) -> int:
            return 0

    async def fed() -> None:
        came = asyncio.Queue[None]()
        feed = Feed(SimpleNamespace(consumer=Endless), "log", Waiting(), lambda: came.put_nowait(None), pytest.fail)  # type: ignore[arg-type]
        feed.start()
        for _ in range(3):
            await came.get()
            for _ in range(5):
                await asyncio.sleep(0)
            assert came.empty()
            feed.hurry()
        await feed.stop()

    asyncio.run(fed())


def test_a_partition_that_rests_far_behind_is_not_waited_for() -> None:
    assert gathered({}) == []
    assert gathered({0: (7, 70), 1: (5, 50), 2: (7, 70)}) == [[1, 0, 2]]
    far = MOST_APART + 11
    assert gathered({0: (0, 0), 1: (90, far), 2: (95, far + MOST_APART), 3: (5, 10)}) == [[1, 2], [0, 3]]


def test_what_a_worker_has_appended_is_taken_in_the_order_of_the_log_and_once() -> None:
    spec = stream()

    def read(*offsets: int) -> RawBatch:
        return RawBatch(list(offsets), [7] * len(offsets), [None] * len(offsets), [b"read"] * len(offsets))

    replica = Replica(spec)
    replica.appended(0, 7, b"own")
    assert len(replica) == 0  # it has not begun, and will read it
    replica.begin(PartitionLearner(spec, 0).learning.lineup)  # type: ignore[arg-type]
    replica.appended(0, 7, b"own")
    replica.appended(3, 7, b"own")
    assert (len(replica), replica.fetch_offset) == (1, 1)
    replica.appended(2, 7, b"own")
    replica.add(read(0, 1))
    assert (len(replica), replica.fetch_offset) == (4, 4)
    replica.appended(5, 7, b"own")
    replica.appended(1, 7, b"own")
    replica.add(read(4, 5, 6))
    replica.add(read(6))
    taken = replica._taken(None)
    assert taken.offsets.tolist() == list(range(7))
    assert list(taken.raw.values) == [b"own", b"read", b"own", b"own", b"read", b"read", b"read"]
    assert replica._appended == {}


def test_what_the_replica_learns_on_the_event_loop_is_judged_by_instances_that_it_may_learn_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A record of another worker's backlog has thousands, one of a live stream has one; the rest of a backlog may be
    behind a place that a partition needs first."""
    spec, who, ways = stream(2), object(), list[str]()
    replica = Replica(spec)
    replica.begin(PartitionLearner(spec, 0).learning.lineup)  # type: ignore[arg-type]
    monkeypatch.setattr(replica, "advance", lambda: replica._taken(min(replica._bounds.values(), default=None)))
    monkeypatch.setattr(replica, "hold", lambda: ways.append("loop") or True)
    monkeypatch.setattr(replica, "let_go", lambda: None)

    async def in_thread(work: Any, *args: Any) -> Any:
        ways.append("thread")
        return work(*args)

    monkeypatch.setattr(turns, "perf_counter", lambda: 0.0)
    one = SimpleNamespace(models=replica, _brief=Brief(), _worker=SimpleNamespace(in_thread=in_thread))

    def come(*sizes: int) -> None:
        at, n = replica.fetch_offset, len(sizes)
        replica.add(RawBatch(list(range(at, at + n)), [0] * n, [None] * n, [b"x" * size for size in sizes]))

    def learned() -> tuple[int, str]:
        n, before = len(replica), replica.n_due
        asyncio.run(ReplicaOfWorker._advance(one))  # type: ignore[arg-type]
        assert replica.n_due == 0 or before == 0
        return n - len(replica), ways.pop()

    come(300)
    assert learned() == (1, "thread")
    come(300, 300)
    assert learned() == (2, "loop")
    come(500_000)
    assert learned() == (1, "thread")
    come(20, 500_000, 500_000)
    replica.hold_back(who, 5)  # type: ignore[arg-type]
    assert learned() == (1, "loop")
    assert learned() == (0, "loop")
    replica.leave(who)  # type: ignore[arg-type]
    assert learned() == (2, "thread")
    replica.add(RawBatch([7], [0], [None], [None]))
    assert learned() == (1, "loop")
