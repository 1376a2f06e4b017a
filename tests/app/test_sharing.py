"""Partitions that learn one model, in memory: replicas that are equal, whatever was cut where, and what one model of
one partition would have learned."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import SpecError, StateError
from app.partition.learner import PartitionLearner
from app.partition.merge import EVERYTHING, Merge, Script
from app.partition.outcome import Outcome
from app.partition.role import TELLING
from app.partition.sharing import records, together
from app.stream_file.spec import Spec, build
from app.worker.learned import Commands
from topics import commands
from topics.commands import Command, EventRecord
from topics.learned import LearnedCommand, LearnedRecord, read, write
from topics.names import CONTROL, FEATURES, LABELS, LEARNED
from topics.records import RawBatch
from topics.schemas import Written

RESETS: dict[str, Any] = {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}, "on_drift": "reset"}

DECISIONS: dict[str, Any] = {
    "costs": {"costs": {"p": {"q": 5}, "s": {"r": 3}}},
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
    return build(content | fields)


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
        roles = (FEATURES, LABELS, *([CONTROL] if spec.control and not spec.shares else []))
        self.raw: list[dict[str, list[tuple[int, bytes]]]] = [{role: [] for role in roles} for _ in self.learners]
        self._taken = [dict.fromkeys((*roles, LEARNED), 0) for _ in self.learners]
        self._asked = 0
        self._merges = [Merge(learner.buffers()) for learner in self.learners]
        self._n = 0

    def events(self, p: int) -> list[EventRecord]:
        return [event for outcome in self.outcomes[p] for event in outcome.events]

    def come(self, given: list[tuple[dict[str, Any], Any]], late: int = 5) -> None:
        """Features and labels, to partitions in turn; labels `late` ms later."""
        for x, y in given:
            at, self._n = self.raw[self._n % len(self.learners)], self._n + 1
            id_ = str(self._n)
            at[FEATURES].append((1000 + 10 * self._n, json.dumps({"id": id_, "x": x}).encode()))
            at[LABELS].append((1000 + 10 * self._n + late, json.dumps({"id": id_, "y": y}).encode()))

    def ask(self, what: str, again: bool = False, **fields: Any) -> None:
        """A command, as the worker of the first partition appends it; it comes to other kinds of learning by itself."""
        value = commands.write(Command(id=f"c{self._asked}", command=what, by="me", **fields))  # type: ignore[arg-type]
        self.ask_bytes(value, again)

    def ask_bytes(self, value: bytes | None, again: bool = False) -> None:
        if self.spec.shares:
            made = write(LearnedCommand(1, self._asked, value))
            self.log += [made, made] if again else [made]
        else:
            for at in self.raw:
                at[CONTROL].append((0, value or b""))
        self._asked += 1

    def step(self, p: int, n_learned: int | None = None) -> None:
        """A partition takes what has come, and of the log so many records more."""
        merge, taken, learner = self._merges[p], self._taken[p], self.learners[p]
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
        outcome = learner.step(merge.release(EVERYTHING))
        self.outcomes[p].append(outcome)
        self.sent[p] += learner.encode(outcome)
        places = {role: learner.places[role] for role in (FEATURES, LABELS)}
        self.log += [write(one) for joint in outcome.joint for one in records(joint, p, places, 7)]

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


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"drift": {**RESETS, "on_drift": "replace", "window": 50, "patience": 150}},
        {"champion": {"model": "adaptive-random-forest", "n_models": 3}, "predictions": {"coverage": 0.9}},
        {
            "champion": {"model": "opinion-pool", "members": {"t": "hoeffding-tree", "n": "naive-bayes"}},
            "predictions": {"calibrated": True},
        },
        {"decision": DECISIONS["costs"], "predictions": {"calibrated": True}},
        *({"decision": DECISIONS[target]} for target in ("recall", "precision", "alert_rate")),
    ],
    ids=["reset", "replace", "forest", "pool", *DECISIONS],
)
def test_replicas_are_equal_and_learn_each_instance_once(fields: dict[str, Any]) -> None:
    world = lived(stream(**fields))
    assert len({learner.learned_digest() for learner in world.learners}) == 1
    first = world.learners[0]
    assert first.sharing is not None
    assert first.sharing.n == 600
    assert first.sharing.numbers == {0: 200, 1: 200, 2: 200}
    assert first.classes is not None
    assert sorted(first.classes.texts) == ["p", "q", "r", "s"]
    scores = [learner.figures().overall["champion"] for learner in world.learners]
    assert scores[0]["n"] == 600
    own = ("calibration_error", "coverage", "set_size")  # what a partition says is scored by its own labels
    shared = [{name: value for name, value in one.items() if not name.startswith(own)} for one in scores]
    assert shared[0] == shared[1] == shared[2]
    if "decision" in fields:  # each prediction is scored once, by what it named
        of = {id_: y for raw in world.raw for _, value in raw[LABELS] for id_, y in [json.loads(value).values()]}
        sent = [json.loads(value) for values in world.sent for value in values]
        assert scores[0]["accuracy"] == pytest.approx(np.mean([one["y"] == of[one["id"]] for one in sent]))
        named = [one for one in sent if one["p"] and one["y"] != max(one["p"], key=one["p"].get)]
        assert len(named) > 10
    events = [[one for outcome in outcomes for one in outcome.drifts] for outcomes in world.outcomes]
    assert [event.number for event in events[0]] == list(range(len(events[0])))
    assert events[1:] == [[], []], "another partition tells of a drift that the first one tells"
    assert len(events[0]) > 0


@pytest.mark.parametrize(
    ("model", "decision"),
    [
        *((m, None) for m in ("hoeffding-tree", "adaptive-random-forest", "naive-bayes", "mondrian-forest")),
        ("opinion-pool", None),
        *(("naive-bayes", name) for name in DECISIONS),
    ],
)
def test_one_partition_that_waits_for_its_log_is_one_that_learns_for_itself(model: str, decision: str | None) -> None:
    """The twin: a fold that learns each label at once. Whoever learns its log before each instance does the same."""
    tree = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
    members: dict[str, Any] = {"members": {"t": tree, "n": "naive-bayes"}} if model == "opinion-pool" else {}
    told = {"coverage": 0.8, **({"reasons": 2} if model in TELLING else {})}
    members |= {"grace_period": 10, "delta": 0.1} if model in ("hoeffding-tree", "adaptive-random-forest") else {}
    fields = {"champion": {"model": model, **members}, "predictions": told, "classes": ["p", "q"]}
    if decision is not None:
        asked = {"costs": {"p": {"q": 5}}} if decision == "costs" else DECISIONS[decision]
        fields |= {"decision": asked, "champion": "majority-class", "challengers": {"nb": "naive-bayes"}}
        told["challengers"] = told["calibrated"] = True
    # A value that no label has come with is missing to shared models, and a new code to others: here all are declared.
    fields["features"] = {"a": "numeric", "c": {"type": "nominal", "values": [f"c{i}" for i in range(6)]}}
    shared, alone = World(stream(1, **fields)), World(stream(1, "partition", **fields))
    for row in rows(300, classes="pq"):
        for world in (shared, alone):
            world.come([row])
            world.step(0)
    shared.step(0)
    told_by, own = ([json.loads(value) for value in world.sent[0]] for world in (shared, alone))
    assert [one.pop("learned_offset") for one in told_by] == list(range(300))
    assert told_by == own
    assert any(one.get("reasons") for one in told_by) == (model in TELLING)
    one, two = (world.learners[0] for world in (shared, alone))
    assert one.figures().overall == two.figures().overall
    assert one.figures().recent == two.figures().recent
    assert one.figures().compared == two.figures().compared
    assert ("threshold" in one.figures().recent["nb"]) == (decision not in (None, "costs"))
    for name, role in one.roles.items():
        for field, array in role.learned_state().items():
            if field not in role.incomparable:
                np.testing.assert_array_equal(array, two.roles[name].learned_state()[field], field)
    assert [[d.n, d.action] for o in shared.outcomes[0] for d in o.drifts] == [
        [d.n, d.action] for o in alone.outcomes[0] for d in o.drifts
    ]


@pytest.mark.parametrize("target", ["recall", "alert_rate"])
def test_a_target_is_kept_in_each_partition_by_a_threshold_of_its_own(target: str) -> None:
    asked = DECISIONS[target]
    rng = np.random.default_rng(3)
    made = [({"a": a}, "q" if rng.random() < a**2 else "p") for a in rng.random(3000).round(4).tolist()]
    spec = stream(classes=["p", "q"], champion="naive-bayes", challengers={}, drift="none", decision=asked)
    world = lived(spec, 3000, chunk=40, made=made)
    thresholds = [learner.figures().recent["champion"]["threshold"] for learner in world.learners]
    assert len({*thresholds}) > 1
    for raw, sent in zip(world.raw, world.sent, strict=True):
        of = dict(json.loads(value).values() for _, value in raw[LABELS])
        met = [(one["y"] == "q", of[one["id"]] == "q") for one in map(json.loads, sent)]
        named, own = np.array(met[100:]).T
        assert {"recall": named[own].mean(), "alert_rate": named.mean()}[target] == pytest.approx(
            asked[target], abs=0.04
        )


def test_a_worker_that_knows_of_no_decision_yet_scores_what_others_named() -> None:
    """Workers take a new stream file one after the other, and scores of all have to stay equal."""
    world = World(stream(2, decision=DECISIONS["recall"]))
    world.learners[1] = PartitionLearner(stream(2), 1)
    made = rows(400)
    for at in range(0, 400, 20):
        world.come(made[at : at + 20])
        for p in (0, 1):
            world.step(p)
    world.finish()
    one, other = world.learners
    assert one.learned_digest() == other.learned_digest()
    assert one.figures().overall["champion"]["n"] == 400
    likeliest = [json.loads(value) for value in world.sent[0]]
    assert any(one["y"] != max(one["p"], key=one["p"].get) for one in likeliest if one["p"])


def test_a_regression_is_shared_too() -> None:
    spec = stream(task="regression", champion="fimt-dd", challengers={"last": "last-label"})
    made = [(x, round(x.get("a", 0.0) * 3 - 1, 3)) for x, _ in rows(600)]
    world = lived(spec, made=made)
    assert len({learner.learned_digest() for learner in world.learners}) == 1
    assert world.learners[0].figures().overall["champion"]["mae"] < 0.6


RULE = {"margin": 0.0, "at_least": 250, "confidence": 0.6, "mode": "automatic"}
NB, FOREST = {"model": "naive-bayes"}, {"model": "adaptive-random-forest", "n_models": 2}
RUNNING: dict[str, Any] = {"drift": {}, "metrics": {}, "join": {}, "promotion": None}
FILES: list[dict[str, Any]] = [  # as `riparian apply` sends them
    {
        "challengers": {"nb": NB, "more": FOREST},
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
        },
        "settings": {**RUNNING, "drift": {"detectors": {}}, "metrics": {"fading": 0.99}},
    },
]
COMMANDS: list[dict[str, Any]] = [
    {"what": "promote", "model": "nb"},
    {"what": "add", "model": "tree", "definition": {"model": "hoeffding-tree", "grace_period": 10}},
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
            if i % 3 == 1 and k == 1 and asked:
                world.ask(**asked.pop(0))
        if i == 20:
            world.ask_bytes(b'{"command": "promote"}')
    assert not asked
    world.finish()
    return world


WORLDS = {"commands": commanded(stream(control=True))}


def test_commands_take_effect_at_one_place_of_the_log_and_the_first_partition_answers() -> None:
    world = WORLDS["commands"]
    assert len({learner.learned_digest() for learner in world.learners}) == 1
    first = world.learners[0]
    assert {learner.sharing.n for learner in world.learners if learner.sharing} == {720}
    roles = [{name: role.learner_name for name, role in learner.roles.items()} for learner in world.learners]
    assert roles[0] == roles[1] == roles[2] == world.events(0)[-1].models
    assert roles[0]["late"] == "majority-class"
    events = world.events(0)
    assert [(event.command, event.id) for event in events if event.id is not None] == [
        (one["what"], f"c{i if i < 7 else i + 1}") for i, one in enumerate(COMMANDS)
    ]
    assert [event.number for event in events] == list(range(len(events)))
    asked = [event for event in events if event.id is not None]
    assert [event.command for event in asked if event.event == "refused"] == ["drop"]
    assert {event.control_offset for event in asked} == {*range(20)} - {7}
    assert world.events(1) == world.events(2) == []
    letters = [[one for outcome in each for one in outcome.rejected.get(CONTROL, [])] for each in world.outcomes]
    assert [[(one.offset, one.reason) for one in found] for found in letters] == [[(7, "wrong-command")], [], []]
    assert first.sharing is not None
    assert (first.sharing.n_commands, first.sharing.next_command) == (20, 20)
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


@pytest.mark.parametrize("rule", [None, {"margin": 0.0, "at_least": 250, "confidence": 0.6}], ids=["commands", "rule"])
@pytest.mark.parametrize("decides", [False, True], ids=["likeliest", "decides"])
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
        fields["decision"] = DECISIONS["recall"] if rule is None else {"costs": {"p": {"q": 3}}}
    worlds = [World(stream(1, "shared", **fields)), World(stream(1, "partition", **fields))]
    asked = [one for one in COMMANDS if not one.get("again")]
    for i, row in enumerate(rows(900, classes="pq")):
        for world in worlds:
            if rule is None and i % 30 == 7 and i // 30 < len(asked):
                world.ask(**asked[i // 30])
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
        for field, array in role.learned_state().items():
            if field not in role.incomparable:
                np.testing.assert_array_equal(array, learners[1].roles[name].learned_state()[field], field)


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
    script = Script.of(list(learner.rules), [codec.read_place(v).places(codec.index_bits) for v in world.sent[p]])
    every = {**world.raw[p], LEARNED: [(0, value) for value in world.log]}
    merge = Merge(learner.buffers(), script, limit=37)
    for i, cut in enumerate([*cuts, 10**9]):
        for role, found in every.items():
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
            merge = Merge(learner.buffers(), rest, limit=37)
    return learner, sent


WORLD = lived(stream(predictions={"coverage": 0.9, "calibrated": True, "reasons": 2}))
STEERED = commanded(stream(control=True, promotion=RULE, predictions={"coverage": 0.9, "calibrated": True}))
DECIDED = [lived(stream(predictions={"challengers": True}, decision=one)) for one in DECISIONS.values()]
DECIDED += [commanded(stream(control=True, decision=DECISIONS[name])) for name in ("costs", "recall")]


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from([WORLD, STEERED, *DECIDED]),
    st.integers(0, 2),
    st.lists(st.integers(1, 80), max_size=8),
    st.sets(st.integers(0, 7), max_size=3),
)
def test_the_recorded_order_gives_the_same_bits_however_cut_and_restarted(world, p, cuts, restarts):
    learner, sent = replayed(world, p, cuts, {i for i in restarts if i < len(cuts)})
    assert list(map(said, map(json.loads, sent))) == list(map(said, map(json.loads, world.sent[p])))
    assert learner.digest() == world.learners[p].digest()


@pytest.mark.parametrize("name", ["avro", "json-schema", "protobuf"])
def test_predictions_of_a_registry_record_the_order_as_those_in_json_do(name: str) -> None:
    """What they say, and what is read back of them, is what JSON has; so are the bits of a fold by them."""
    fields = {"predictions": {"coverage": 0.9, "reasons": 2, "challengers": True}}
    registered = {"codec": {"predictions": name}, "registry": {"url": "http://127.0.0.1:1"}}
    spec = stream(2, **fields, **registered)
    codec = spec.make_codec()
    assert codec.prediction is not None
    spec.schemas.written["predictions"] = Written(7, codec.prediction)
    world, plain = lived(spec, 300), lived(stream(2, **fields), 300)
    places: set[int] = set()
    for p in (0, 1):
        told = [json.loads(value) for value in plain.sent[p]]
        assert list(map(said, map(codec.read_prediction, world.sent[p]))) == list(map(said, told))
        places |= {one["learned_offset"] for one in told}
        learner, sent = replayed(world, p, [30, 7, 50], {1})
        assert list(map(said, map(codec.read_prediction, sent))) == list(map(said, told))
        assert learner.digest() == world.learners[p].digest()
    assert len(places) > 10


def test_what_was_appended_is_joined_again_after_the_last_prediction() -> None:
    """An owner dies after it has appended what it joined. Its successor has to take the labels that this came from
    before any other feature, although a feature with an earlier time has come in the meantime."""
    world = World(stream(1))
    world.come(rows(30))
    world.step(0)
    learner = world.learners[0]
    assert learner.places[LABELS] == 30
    reached = {FEATURES: learner.places[FEATURES], LABELS: learner.places[LABELS]}
    world.raw[0][FEATURES].append((1000, json.dumps({"id": "29", "x": {"a": 0.5}}).encode()))  # again, and early
    other = PartitionLearner(world.spec, 0)
    codec = other.codec
    places = [codec.read_place(value).places(codec.index_bits) for value in world.sent[0]]
    merge = Merge(other.buffers(), Script.of(list(other.rules), places)._replace(reached=reached))
    for role in (LABELS, FEATURES):
        found = world.raw[0][role]
        columns = list(range(len(found))), [t for t, _ in found], [None] * len(found), [v for _, v in found]
        merge.buffers[role].add(RawBatch(*columns))
    joined: list[LearnedRecord] = []
    while merge.follows:
        release = merge.release()
        assert release.n
        joined += [one for joint in other.step(release).joint for one in records(joint, 0, reached, 7)]
    assert other.places == {FEATURES: 30, LABELS: 30, LEARNED: 0}
    first = records(world.outcomes[0][0].joint[0], 0, reached, 7)
    labels = [[str(one.classes[int(y)]) for one in found for y in np.frombuffer(one.y)] for found in (joined, first)]
    assert labels[0] == labels[1]
    assert len(labels[0]) == 30
    a = [np.concatenate([one.columns()[0][:, 0] for one in found]) for found in (joined, first)]
    np.testing.assert_array_equal(*a)


def test_what_several_steps_have_joined_is_one_record_of_the_same_instances() -> None:
    world = lived(stream(1), 200)
    single = [read(value) for value in world.log]
    joined = [one for outcome in world.outcomes[0] for one in outcome.joint]
    whole = [read(write(one)) for joint in together(joined) for one in records(joint, 0, {}, 7)]
    assert len(whole) == 1 < len(single)
    learner = PartitionLearner(world.spec, 0)
    merge = Merge(learner.buffers())
    merge.buffers[LEARNED].add(RawBatch([0], [0], [None], [write(whole[0])]))
    learner.step(merge.release())
    learner.places[LEARNED] = world.learners[0].places[LEARNED]
    assert learner.learned_digest() == world.learners[0].learned_digest()


def test_a_record_that_comes_twice_is_learned_once_and_a_gap_stops() -> None:
    world = lived(stream(1), 60)
    learner, whole = PartitionLearner(world.spec, 0), world.log
    again = [whole[0], whole[1], whole[0], whole[1], *whole[2:]]
    merge = Merge(learner.buffers())
    merge.buffers[LEARNED].add(RawBatch(list(range(len(again))), [0] * len(again), [None] * len(again), again))
    learner.step(merge.release())
    assert learner.sharing is not None
    assert learner.sharing.n == 60
    other = PartitionLearner(world.spec, 0)
    merge = Merge(other.buffers())
    merge.buffers[LEARNED].add(RawBatch([0], [0], [None], whole[1:2]))
    with pytest.raises(StateError, match="records before it were deleted"):
        other.step(merge.release())


def broken() -> list[LearnedRecord]:
    one = read(lived(stream(1), 60).log[0])
    change = msgspec.structs.replace
    nan = np.full(one.n, np.nan).tobytes()
    return [
        change(one, version=2),
        change(one, first=-1),
        change(one, x=one.x[:-8]),
        change(one, y=b""),
        change(one, y=nan),
        change(one, y=np.full(one.n, 99.0).tobytes()),
        change(one, at=np.full(one.n, -1).tobytes()),
        change(one, values=one.values[:-1]),
        change(one, classes=None),
        change(one, values=[["x"], *one.values[1:]]),
        change(one, out={"champion": (3, b"12345678")}),
        change(one, x=np.full((one.n, 3), 0.5).tobytes()),
    ]


@pytest.mark.parametrize("record", [b"", b"{}", b"\xff\xff", None, *(write(one) for one in broken())])
def test_what_no_worker_has_written_is_a_sentence(record: bytes | None) -> None:
    learner = PartitionLearner(stream(1))
    merge = Merge(learner.buffers())
    merge.buffers[LEARNED].add(RawBatch([3], [0], [None], [record]))
    with pytest.raises(StateError, match=r"the record at offset 3 of s\.learned is none that a worker"):
        learner.step(merge.release())


def test_predictions_of_more_classes_than_there_are_stop_with_a_sentence() -> None:
    one = read(lived(stream(1), 60).log[0])
    wide = np.zeros((one.n, 99)).tobytes()
    learner = PartitionLearner(stream(1))
    merge = Merge(learner.buffers())
    value = write(msgspec.structs.replace(one, out={"champion": (99, wide)}))
    merge.buffers[LEARNED].add(RawBatch([3], [0], [None], [value]))
    with pytest.raises(StateError, match="has predictions for more classes than came with labels"):
        learner.step(merge.release())


def test_more_classes_than_allowed_over_all_partitions_are_left_out() -> None:
    world = World(stream(2, max_classes=2))
    world.come([({"a": 0.1}, "p"), ({"a": 0.2}, "q"), ({"a": 0.3}, "r"), ({"a": 0.4}, "s")] * 5)
    for _ in range(3):
        for p in (0, 1):
            world.step(p)
    assert [sorted(learner.classes.texts) for learner in world.learners if learner.classes] == [["p", "r"]] * 2
    assert len({learner.learned_digest() for learner in world.learners}) == 1
    assert {learner.figures().overall["champion"]["n"] for learner in world.learners} == {10}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"topics": {"learned": None}}, "topics.learned: expected a topic, since learning is shared, found none"),
        ({"learning": "partition", "topics": {"learned": "l"}}, "topics.learned: expected no topic"),
        ({"topics": {"learned": "s.labels"}}, "topics.learned: expected a topic of its own"),
        (
            {"task": "anomaly", "champion": "half-space-trees", "challengers": {}, "drift": "none"},
            "learning: expected partition with task anomaly",
        ),
    ],
)
def test_what_cannot_be_shared_is_said_at_the_start(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as found:
        stream(**fields)
    assert sentence in str(found.value)


def test_a_model_that_a_changed_file_brings_gets_a_key_of_its_own() -> None:
    """By its key the log names what a model predicted: the champion was called nb when it began."""
    world = World(stream(1))  # which counts at a restart where nothing can be applied
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
    changed: dict[str, Any] = {"challengers": {"late": "last-label"}, "metrics": {"window": 9}, "drift": "none"}
    learner = WORLDS["commands"].learners[1]
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
    fresh = PartitionLearner(stream(control=True), 1)
    assert PartitionLearner(stream(control=True), 1).restore(fresh.snapshot()) == []
    with pytest.raises(StateError, match=r"the features have changed: .*; restore it in the stream file, or give"):
        PartitionLearner(stream(control=True, features={"a": "numeric", "c": "nominal"}), 1).restore(learner.snapshot())
    runs = {"model": "hoeffding-tree", "grace_period": 10}
    own = PartitionLearner(stream(champion=runs, **changed), 1)  # without control it counts at a restart
    assert any("metrics.fading was" in note for note in own.restore(learner.snapshot()))
    assert own.spec.models().keys() == {"champion", "late"}


def test_features_are_not_applied_where_partitions_share_the_rows() -> None:
    world = World(stream(1, control=True))
    features = {"a": "numeric", "c": "nominal", "d": {"type": "nominal", "values": ["u", "v"]}}
    for named in (features, {**features, "e": "numeric"}):
        file = {"champion": {}, "challengers": {"nb": NB}, "file": "f", "settings": RUNNING, "features": named}
        world.ask("apply", **file)
        world.come(rows(3))
        world.step(0)
    applied, refused = world.events(0)
    assert (applied.event, refused.event) == ("applied", "refused")
    assert refused.sentence.startswith("features do not change while a stream with learning: shared runs: give the new")


def test_the_kind_of_learning_cannot_change() -> None:
    for before, after, is_now in (
        ("shared", "partition", "partition: one model of all"),
        ("partition", "shared", "shared, the default from two partitions on: models of single"),
    ):
        world = lived(stream(2, before), 30)
        said = (
            f"learning was {before}, is {is_now} partitions .*; write learning: {before} to go on as before, or begin"
        )
        with pytest.raises(StateError, match=said):
            PartitionLearner(stream(2, after)).restore(world.learners[0].snapshot())


@pytest.mark.parametrize(
    ("fields", "learning"),
    [
        ({}, "partition"),
        ({"partitions": 1}, "partition"),
        ({"partitions": 2}, "shared"),
        ({"partitions": 8, "task": "regression"}, "shared"),
        ({"partitions": 8, "task": "anomaly"}, "partition"),
        ({"partitions": 8, "task": "multi-instance", "classes": ["n", "y"]}, "partition"),
        ({"partitions": 8, "learning": "partition"}, "partition"),
        ({"learning": "shared"}, "shared"),
        ({"partitions": 2, "learning": {}}, "shared"),
        ({"partitions": 2, "learning": {"max_behind": 64}}, "shared"),
        ({"learning": {"kind": "partition"}}, "partition"),
    ],
)
def test_all_partitions_learn_one_model_by_default(fields: dict[str, Any], learning: str) -> None:
    """By the stream file alone."""
    spec = build({"name": "s", "task": "classification", "features": {"a": "numeric"}} | fields)
    assert (spec.learning.kind, spec.topics.learned) == (learning, "s.learned" if learning == "shared" else None)
