"""Partitions that learn one model, in memory: streams, what comes to them, a world of all partitions and their log, and
what has to be true of what they send."""

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, RecordedOrder, Release
from riparian.app.partition.shared.sharing import records
from riparian.app.stream_file.spec import Spec, build
from riparian.topics import commands
from riparian.topics.commands import Command, EventRecord
from riparian.topics.names import CONTROL, FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import LearnedRecord, command_at, read, write

RESETS: dict[str, Any] = {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}, "on_drift": "reset"}

DECISIONS: dict[str, Any] = {
    "costs": {"costs": {"p": {"q": "a"}, "s": {"r": 3}}},
    "recall": {"class": "q", "recall": 0.8},
    "precision": {"class": "q", "precision": 0.7},
    "alert_rate": {"class": "q", "alert_rate": 0.2},
}


def stream(n_partitions: int = 3, learning: str = "shared", **fields: Any) -> Spec:
    content: dict[str, Any] = {
        "name": "s",
        "task": "classification",
        "partitions": n_partitions,
        "learning": learning,
        "features": {"a": "numeric", "c": "nominal", "d": {"type": "nominal", "values": ["u", "v"]}},
        "champion": {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1},
        "challengers": {"nb": "naive-bayes"},
        "drift": RESETS,
    }
    content |= fields
    content.setdefault("metrics", {"segments": [name for name in ("c", "d") if name in content["features"]]})
    return build(content)


def rows(n: int, seed: int = 0, classes: str = "pqrs") -> list[tuple[dict[str, Any], Any]]:
    """Instances whose values and classes come little by little, some values missing; the concept changes half way."""
    rng, made = np.random.default_rng(seed), []
    for i in range(n):
        a, c = round(float(rng.random()), 3), f"c{rng.integers(1 + i * 6 // n)}"
        y = classes[(int(a > 0.5) + (c == "c1") + (i > n // 2)) % (2 + i * (len(classes) - 1) // n)]
        x = {"a": a, "c": c, "d": "uv"[rng.integers(2)]}
        made.append(({name: value for name, value in x.items() if rng.random() > 0.05}, y))
    return made


class World:
    """Partitions whose records come in turn, and their log."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.log: list[bytes] = []
        self.learners = [PartitionLearner(spec, p) for p in range(spec.partitions)]
        self.outcomes: list[list[Outcome]] = [[] for _ in self.learners]
        self.sent: list[list[bytes]] = [[] for _ in self.learners]
        roles = tuple(log.role for log in spec.inputs)
        self.raw: list[dict[str, list[tuple[int, bytes]]]] = [{role: [] for role in roles} for _ in self.learners]
        self._taken = [dict.fromkeys((*roles, LEARNED), 0) for _ in self.learners]
        self._asked = 0
        self._merges = [PartitionGroup(learner.buffers()) for learner in self.learners]
        self._n = 0

    @property
    def n_given(self) -> int:
        """Instances that have come."""
        return self._n

    def replace(self, p: int, learner: PartitionLearner) -> None:
        """A partition goes on with another learner, that stands where it does."""
        self.learners[p], self._merges[p] = learner, PartitionGroup(learner.buffers())

    def events(self, p: int) -> list[EventRecord]:
        return [event for outcome in self.outcomes[p] for event in outcome.events]

    def come(self, given: list[tuple[dict[str, Any], Any]], late: int = 5) -> None:
        """Features and labels, to partitions in turn; labels `late` ms later."""
        for x, y in given:
            at, self._n = self.raw[self._n % len(self.learners)], self._n + 1
            id_ = str(self._n)
            at[FEATURES].append((1000 + 10 * self._n, json.dumps({"id": id_, "x": x}).encode()))
            if LABELS not in at:
                continue
            at[LABELS].append((1000 + 10 * self._n + late, json.dumps({"id": id_, "y": y}).encode()))

    def ask(self, what: str, again: bool = False, **fields: Any) -> None:
        """A command, as the worker of the first partition appends it; it comes to other kinds of learning by itself."""
        value = commands.write(Command(id=f"c{self._asked}", command=what, by="me", **fields))  # type: ignore[arg-type]
        self.ask_bytes(value, again)

    def ask_bytes(self, value: bytes | None, again: bool = False) -> None:
        if self.spec.shares:
            made = write(command_at(self._asked, value))
            self.log += [made, made] if again else [made]
        else:
            for at in self.raw:
                at[CONTROL].append((0, value or b""))
        self._asked += 1

    def step(self, p: int, n_learned: int | None = None) -> None:
        """A partition takes what has come, and of the log so many records more."""
        self.took(p, self.learners[p].step(self.release(p, n_learned)))

    def release(self, p: int, n_learned: int | None = None) -> Release:
        """What it takes."""
        merge, taken = self._merges[p], self._taken[p]
        stop = len(self.log) if n_learned is None else min(len(self.log), taken[LEARNED] + n_learned)
        every = dict(self.raw[p])
        if LEARNED in merge.buffers:
            every[LEARNED] = [(0, value) for value in self.log[:stop]]
        for role, found in every.items():
            fresh = found[taken[role] :]
            offsets = list(range(taken[role], len(found)))
            merge.buffers[role].add(
                RawBatch(offsets, [t for t, _ in fresh], [None] * len(fresh), [v for _, v in fresh])
            )
            taken[role] = len(found)
        return merge.release(EVERYTHING)

    def took(self, p: int, outcome: Outcome) -> None:
        """What came of it."""
        learner = self.learners[p]
        self.outcomes[p].append(outcome)
        self.sent[p] += learner.encode(outcome)
        places = {role: learner.places.get(role, 0) for role in (FEATURES, LABELS)}
        self.log += [write(one) for joint in outcome.joint for one in records(joint, p, places, self.time_of(p))]

    def time_of(self, p: int) -> int:
        """What records of the log have as the stream time of their partition."""
        return 7

    def finish(self) -> None:
        for p in range(len(self.learners)):
            self.step(p)
        for p in range(len(self.learners)):
            self.step(p)


def lived(spec: Spec, n: int = 600, seed: int = 0, chunk: int = 12, made: Any = None) -> World:
    world, rng = World(spec), np.random.default_rng(seed)
    given = made or rows(n, seed)
    for start in range(0, n, chunk):
        world.come(given[start : start + chunk])
        for p in rng.permutation(spec.partitions):
            world.step(int(p), int(rng.integers(0, 6)))
    world.finish()
    return world


RULE = {"margin": 0.0, "at_least": 250, "confidence": 0.6, "mode": "automatic"}
NB, FOREST = {"model": "naive-bayes"}, {"model": "adaptive-random-forest", "n_models": 2}
TREE = {"model": "hoeffding-tree", "grace_period": 10}


def pool(**members: Any) -> dict[str, Any]:
    return {"model": "opinion-pool", "members": members}


RUNNING: dict[str, Any] = {"drift": {}, "metrics": {}, "join": {}, "promotion": None}
FILES: list[dict[str, Any]] = [  # as `riparian apply` sends them
    {
        "challengers": {"nb": NB, "more": FOREST, "pool": pool(late="last-label", n={**NB, "frozen": True})},
        "settings": {
            "drift": {"detectors": {"hddm-a": {"drift_confidence": 0.2}}, "on_drift": "replace", "window": 50}
            | {"patience": 150, "features": ["a"], "distributions": {"window": 100}},
            "metrics": {"window": 40},
            "join": {"max_pending": 30, "horizon": "1h"},
            "promotion": RULE,
        },
    },
    {
        "challengers": {
            "nb": NB,
            "late": {"model": "majority-class"},
            "more": {**FOREST, "n_models": 3},
            "pool": pool(n="naive-bayes", t=TREE, late="majority-class"),  # names that were other members'
        },
        "settings": {**RUNNING, "drift": {"detectors": {}}, "metrics": {"fading": 0.99}},
    },
]
COMMANDS: list[dict[str, Any]] = [
    {"what": "add", "model": "pool", "definition": pool(t=TREE, n="naive-bayes")},
    {"what": "promote", "model": "nb"},
    {"what": "add", "model": "tree", "definition": TREE},
    {"what": "freeze", "model": "champion"},
    {"what": "promote", "model": "tree", "again": True},
    {"what": "thaw", "model": "nb"},
    {"what": "drop", "model": "nb"},
    {"what": "pause"},
    {"what": "reset", "model": "champion"},
    {"what": "add", "model": "nb", "definition": {"model": "naive-bayes"}},  # a name that was another model's
    {"what": "apply", "champion": {}, "file": "f", **FILES[0]},
    {"what": "resume"},
    {"what": "drop", "model": "nobody"},
    {"what": "add", "model": "late", "definition": {"model": "last-label"}},
    {"what": "drop", "model": "late"},
    {"what": "add", "model": "late", "definition": {"model": "majority-class"}},
    {"what": "promote", "model": "nb"},
    {"what": "demote"},
    {"what": "apply", "champion": {}, "file": "g", **FILES[1]},
    {"what": "reset", "model": "more"},
]


def commanded(spec: Spec, n: int = 720, seed: int = 0, chunk: int = 12) -> World:
    """As `lived`, with commands at places of the log that are no ends of steps, and one that is none."""
    world, rng, given = World(spec), np.random.default_rng(seed), rows(n, seed)
    asked = list(COMMANDS)
    for i, start in enumerate(range(0, n, chunk)):
        world.come(given[start : start + chunk])
        for k, p in enumerate(rng.permutation(spec.partitions)):
            world.step(int(p), int(rng.integers(0, 12)))
            if (i == 0 or i % 3 == 1) and k == 1 and asked:
                world.ask(**asked.pop(0))
        if i == 20:
            world.ask_bytes(b'{"command": "promote"}')
    assert not asked
    world.finish()
    return world


def said(one: dict[str, Any]) -> dict[str, Any]:
    """A prediction, whatever else was in its batch, and in any format: None is null, or left out, and 0 what is not
    listed."""
    parts = {name: said(part) for name, part in one.get("challengers", {}).items()}
    listed = {label: p for label, p in (one.get("p") or {}).items() if p}
    return one | {"p": listed, "challengers": parts, "set": one.get("set"), "reasons": one.get("reasons")}


def replayed(world: World, p: int, cuts: list[int], restarts: set[int]) -> tuple[PartitionLearner, list[bytes]]:
    """The fold of a partition once more, by the order that its predictions recorded."""
    learner, sent = PartitionLearner(world.spec, p), list[bytes]()
    codec = learner.codec
    script = RecordedOrder.of(
        list(learner.rules), [codec.read_place(v).places(codec.index_bits) for v in world.sent[p]]
    )
    every = {**world.raw[p], LEARNED: [(0, value) for value in world.log]}
    merge = PartitionGroup(learner.buffers(), script, limit=37)
    for i, cut in enumerate([*cuts, 10**9]):
        for role in merge.buffers:
            found = every[role]
            at = learner.places[role] + len(merge.buffers[role])
            fresh = list(enumerate(found))[at : at + cut]
            columns = [k for k, _ in fresh], [t for _, (t, _) in fresh], [None] * len(fresh), [v for _, (_, v) in fresh]
            merge.buffers[role].add(RawBatch(*columns))
        while (release := merge.release(EVERYTHING if cut == 10**9 else None)).n:
            outcome = learner.step(release)
            sent += learner.encode(outcome)
        if i in restarts:
            snapshot = learner.checkpoint() if i == min(restarts) else learner.snapshot()
            if i == min(restarts):  # all that waits is in the first one
                snapshot = learner.snapshot()
            learner = PartitionLearner(world.spec, p)
            arrays = {name: array.copy() for name, array in snapshot.arrays.items()}
            learner.restore(
                snapshot._replace(meta=msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot.meta)), arrays=arrays)
            )
            rest = script.part(int(np.searchsorted(script.offsets, learner.places[FEATURES])))
            merge = PartitionGroup(learner.buffers(), rest, limit=37)
    return learner, sent


def lacked(
    partition: int,
    features: Sequence[bytes],
    labels: Sequence[bytes],
    sent: Sequence[dict[str, Any]],
    log: Mapping[int, bytes],
) -> list[int]:
    """For each prediction of a partition, how many instances it had joined that the model lacked, by the definition.

    features, labels : values of the topics, from offset 0 on; an id comes once, and its label in another record.
    log : offset -> value
    """
    features_at, labels_at = ({json.loads(value)["id"]: i for i, value in enumerate(t)} for t in (features, labels))
    joined = np.array([(at, labels_at[id_]) for id_, at in features_at.items() if id_ in labels_at])
    own = {at: one for at, one in ((at, read(value)) for at, value in log.items()) if isinstance(one, LearnedRecord)}
    own = {at: one for at, one in own.items() if one.partition == partition}
    offsets, learned = list(own), [0, *np.maximum.accumulate([one.first + one.n for one in own.values()]).tolist()]
    found = []
    for one in sent:
        before = (joined[:, 0] < one["offset"]) & (joined[:, 1] < one["label_offset"])
        found.append(int(np.count_nonzero(before)) - learned[bisect_left(offsets, one["learned_offset"])])
    return found
