"""Partitions that learn one model, in memory: replicas that are equal, and what one model of one partition would have
learned; and which streams share one."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from riparian.app.errors import SpecError, StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.stream_file.spec import build
from riparian.topics.names import LABELS
from riparian.topics.training_log import LearnedRecord, read, write
from tests.app.shared_world import DECISIONS, RESETS, World, lived, pool, replayed, rows, stream


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"drift": {**RESETS, "on_drift": "replace", "window": 50, "patience": 150}},
        {"champion": {"model": "adaptive-random-forest", "n_models": 3}, "predictions": {"coverage": 0.9}},
        {"decision": DECISIONS["costs"], "predictions": {"calibrated": True}},
        {"decision": DECISIONS["precision"]},
    ],
    ids=["reset", "replace", "forest", "costs", "precision"],
)
def test_replicas_are_equal_and_learn_each_instance_once(fields: dict[str, Any]) -> None:
    world = lived(stream(**fields))
    assert len({learner.lineup.digest() for learner in world.learners}) == 1
    first = world.learners[0]
    for name in first.roles:
        assert len({one.roles[name].metrics.state().probabilities.tobytes() for one in world.learners}) == 1
    assert first.learning.lineup.n == 600
    assert first.learning.lineup.numbers == {0: 200, 1: 200, 2: 200}
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
        *((name, None) for name in ("hoeffding-tree", "mondrian-forest", "opinion-pool")),
        *(("naive-bayes", name) for name in DECISIONS),
    ],
)
def test_one_partition_that_waits_for_its_log_is_one_that_learns_for_itself(model: str, decision: str | None) -> None:
    """The twin: a fold that learns each label at once. Whoever learns its log before each instance does the same."""
    tree = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
    members: dict[str, Any] = {"members": {"t": tree, "n": "naive-bayes"}} if model == "opinion-pool" else {}
    alerts = decision not in (None, "costs")
    told: dict[str, Any] = {"coverage": 0.8, "reasons": {"top": 2, "of": "alerts" if alerts else "all"}}
    members |= {"grace_period": 10, "delta": 0.1} if model == "hoeffding-tree" else {}
    fields = {"champion": {"model": model, **members}, "predictions": told, "classes": ["p", "q"]}
    if decision is not None:
        asked = {"costs": {"p": {"q": "a"}}} if decision == "costs" else DECISIONS[decision]
        fields |= {"decision": asked, "champion": "majority-class", "challengers": {"nb": "naive-bayes"}}
        told["challengers"] = told["calibrated"] = True
    # A value that no label has come with is missing to shared models, and a new code to others: here all are declared.
    fields["features"] = {"a": "numeric", "c": {"type": "nominal", "values": [f"c{i}" for i in range(6)]}}
    shared, alone = World(stream(1, **fields)), World(stream(1, "partition", **fields))
    for row in rows(200, classes="pq"):
        for world in (shared, alone):
            world.come([row])
            world.step(0)
    shared.step(0)
    told_by, own = ([json.loads(value) for value in world.sent[0]] for world in (shared, alone))
    assert [one.pop("learned_offset") for one in told_by] == list(range(200))
    assert told_by == own
    assert any(one["reasons"] for one in told_by) or decision is not None
    one, two = (world.learners[0] for world in (shared, alone))
    assert one.figures().overall == two.figures().overall
    assert one.figures().recent == two.figures().recent
    assert one.figures().compared == two.figures().compared
    assert ("threshold" in one.figures().recent["nb"]) == (decision not in (None, "costs"))
    for name, role in one.roles.items():
        for field, array in role.state().items():
            if field not in role.incomparable:
                np.testing.assert_array_equal(array, two.roles[name].state()[field], field)
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
    assert one.lineup.digest() == other.lineup.digest()
    assert one.figures().overall["champion"]["n"] == 400
    likeliest = [json.loads(value) for value in world.sent[0]]
    assert any(one["y"] != max(one["p"], key=one["p"].get) for one in likeliest if one["p"])


@pytest.mark.parametrize("target", [("precision", "q"), ("recall", "p"), None])
def test_comparisons_begin_anew_where_the_log_has_another_target(target: tuple[str, str] | None) -> None:
    """None: records of before, of which no target is known."""
    world = lived(stream(1, decision={"class": "q", "recall": 0.9}))
    first = list[bytes]()
    for one in map(read, world.log[: len(world.log) // 2]):
        assert isinstance(one, LearnedRecord)
        assert one.terms is not None
        assert one.terms.target == ("recall", "q")
        first.append(write(msgspec.structs.replace(one, terms=msgspec.structs.replace(one.terms, target=target))))
    whole = replayed(world, 0, [], set())[0].figures().compared
    n = sum(one.n for one in map(read, world.log[len(first) :]) if isinstance(one, LearnedRecord))
    world.log[: len(first)] = first
    for restarts in (set[int](), {0}):
        learner = replayed(world, 0, [len(first) + 1], restarts)[0]
        for name, one in learner.figures().compared.items():
            assert one["total_labels"] == n < whole[name]["total_labels"]


def test_partitions_share_states_of_before_that_stood_at_different_places() -> None:
    """When scores kept no probabilities; they begin where such a state is read."""
    world = lived(stream(2))
    one, other = world.learners
    metrics = one.roles["champion"].metrics
    metrics.restore({name: array for name, array in metrics.state()._asdict().items() if name != "probabilities"})
    assert np.isnan(metrics.state().probabilities).any()
    assert one.lineup.digest() == other.lineup.digest()


@pytest.mark.parametrize("champion", ["fimt-dd", pool(tree={"model": "fimt-dd"}, last={"model": "last-label"})])
def test_a_regression_is_shared_too(champion: Any) -> None:
    spec = stream(task="regression", champion=champion, challengers={"last": "last-label"})
    made = [(x, round(x.get("a", 0.0) * 3 - 1, 3)) for x, _ in rows(600)]
    world = lived(spec, made=made)
    n_joined = sum(learner.learning.joined for learner in world.learners)
    assert world.learners[0].lineup.n == n_joined > 500  # also of what a member knew nothing of
    assert len({learner.lineup.digest() for learner in world.learners}) == 1
    assert world.learners[0].figures().overall["champion"]["mae"] < 0.6


def test_more_classes_than_allowed_over_all_partitions_are_left_out() -> None:
    world = World(stream(2, max_classes=2))
    world.come([({"a": 0.1}, "p"), ({"a": 0.2}, "q"), ({"a": 0.3}, "r"), ({"a": 0.4}, "s")] * 5)
    for _ in range(3):
        for p in (0, 1):
            world.step(p)
    assert [sorted(learner.classes.texts) for learner in world.learners if learner.classes] == [["p", "r"]] * 2
    assert len({learner.lineup.digest() for learner in world.learners}) == 1
    assert {learner.figures().overall["champion"]["n"] for learner in world.learners} == {10}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"topics": {"learned": None}},
            "topics.learned: expected a topic, since learning is shared, found none",
        ),
        ({"learning": "partition", "topics": {"learned": "l"}}, "topics.learned: expected no topic"),
        ({"topics": {"learned": "s.labels"}}, "topics.learned: expected a topic of its own"),
    ],
)
def test_what_cannot_be_shared_is_said_at_the_start(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecError) as found:
        stream(**fields)
    assert sentence in str(found.value)


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
