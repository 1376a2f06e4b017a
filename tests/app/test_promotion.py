"""The rule of promotion in the fold: the same for every cut and restart, and what a slow twin does label by label."""

import json

import numpy as np
import pytest

from riparian.app.errors import SpecError, StateError
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.topics.records import RawBatch

N, DELAY = 5000, 3
TREE = {"model": "hoeffding-tree", "grace_period": 50, "delta": 0.01}
FILE = {
    "name": "s",
    "task": "classification",
    "control": True,
    "features": {"a": "numeric", "b": "numeric"},
    "champion": "last-label",
    "challengers": {"tree": TREE, "most": "majority-class"},
    "drift": {"detectors": {"adwin": {"delta": 0.01}}},
    "predictions": {"challengers": True},
    "metrics": {"window": 100},
}


def stream(promotion="automatic", **changes):
    return build({**FILE, "promotion": promotion, **changes}, "s")


def records(n=N, seed=0, turns=(), values=False):
    """A concept on a; from a turn on labels are repeated for a while, which the last label knows best."""
    rng = np.random.default_rng(seed)
    columns, y, bounds = ([], []), "up", [*turns, n]
    for i in range(n):
        a, b = rng.random(2).round(6).tolist()
        repeats = sum(i >= turn for turn in bounds) % 2
        if not repeats:
            y = "up" if (a > 0.5) != (rng.random() < 0.05) else "down"
        elif rng.random() < 0.02:
            y = "up" if y == "down" else "down"
        columns[0].append(b"{" if i % 53 == 0 else json.dumps({"id": str(i), "x": {"a": a, "b": b}}).encode())
        value = (10 * a + float(rng.normal())) if values else y
        columns[1].append(json.dumps({"id": str(i) if i % 97 else f"other {i}", "y": value}).encode())
    offsets, times = list(range(n)), [1000 + 2 * i for i in range(n)]
    late = [time + 2 * DELAY + 1 for time in times]
    return RawBatch(offsets, times, [None] * n, columns[0]), RawBatch(offsets, late, [None] * n, columns[1])


def fold(spec, data, limit, restart=0):
    learner, sent, events, drifts, steps = PartitionLearner(spec), [], [], [], 0
    merge = PartitionGroup(learner.buffers(), limit=limit)
    for name, raw in zip(("features", "labels"), data, strict=True):
        merge.buffers[name].add(raw)
    while merge.n_waiting:
        outcome = learner.step(merge.release(EVERYTHING))
        sent += learner.encode(outcome)
        events += outcome.events
        drifts += outcome.drifts
        steps += 1
        if restart and steps % restart == 0:
            cut = learner.snapshot()
            learner = PartitionLearner(spec)
            learner.restore(cut)
    return learner, [json.loads(one) for one in sent], events, drifts


COVERAGE = {"coverage": 0.8, "calibrated": True, "challengers": True}
BY_CLASS = {**COVERAGE, "coverage": {"share": 0.8, "by": "class"}}
WATCHED = {"detectors": {"adwin": {"delta": 0.01}}, "on_drift": "reset", "distributions": {"window": 200}}
VALUES = {"task": "regression", "champion": "mean", "challengers": {"tree": {"model": "fimt-dd", "grace_period": 50}}}
CASES = {
    "plain": ("propose", {}),
    "costs": ("automatic", {"decision": {"costs": {"up": {"down": "b"}}}, "predictions": COVERAGE}),
    "recall": ("automatic", {"decision": {"class": "up", "recall": 0.9}, "predictions": BY_CLASS}),
    "precision": ("automatic", {"decision": {"class": "up", "precision": 0.97}, "class_weights": {"up": 2}}),
    "alert rate": ("automatic", {"decision": {"class": "up", "alert_rate": 0.2}, "drift": WATCHED}),
    "values": ("automatic", {**VALUES, "predictions": {"coverage": 0.8, "challengers": True}}),
}


@pytest.mark.parametrize("case", CASES)
def test_all_that_is_said_is_the_same_however_the_fold_is_cut_and_restarted_and_through_promotions(case):
    """Promotions, decisions, coverage, calibration, comparisons, estimates, drift with and without labels."""
    mode, fields = CASES[case]
    values = case == "values"
    n = 3000 if case in ("alert rate", "costs") else 1500  # of which one in five decides
    data = records(n, turns=() if values else (n // 2,), values=values)
    spec = stream({"mode": mode, "at_least": 250}, **fields)
    whole, sent, events, drifts = fold(spec, data, 100_000)
    assert events
    assert [event.number for event in events] == list(range(len(events)))
    groups = {name.split("/")[0] for name in whole.snapshot().arrays}
    assert groups >= {"compared", "drift", *(["interval"] if "predictions" in fields else [])}
    for limit, restart in ((64, 7), (7, 101)):
        learner, *told = fold(spec, data, limit, restart)
        assert told == [sent, events, drifts]
        assert learner.digest() == whole.digest()
        assert learner.figures() == whole.figures()._replace(n_bytes=learner.figures().n_bytes)


def test_the_better_one_predicts_from_the_next_instance_on_and_goes_when_it_is_worse():
    learner, sent, events, _ = fold(stream(), records(turns=(2500,)), 500)
    first, second = events[:2]
    assert (first.event, first.command, first.by, first.model) == ("applied", "promote", "promotion", "tree")
    assert first.models == {"champion": "hoeffding-tree", "last-label": "last-label", "most": "majority-class"}
    assert 1000 <= first.label_offset < 1600
    assert (second.model, second.models["champion"]) == ("last-label", "last-label")
    assert 2500 < second.label_offset < 5000
    for event, before, after in ((first, "last-label", "hoeffding-tree"), (second, "hoeffding-tree", "last-label")):
        at = next(i for i, one in enumerate(sent) if one["offset"] >= event.offset)
        assert (sent[at]["offset"], sent[at]["label_offset"]) == (event.offset, event.label_offset)
        assert (sent[at - 1]["model"], sent[at]["model"]) == (before, after)
        assert event.label_offset > sent[at - 1]["label_offset"]
    assert "errors than the champion over the last" in first.sentence
    assert {one["model"] for one in sent[:900]} == {"last-label"}
    assert learner.roles["champion"].learner_name == "last-label"
    # Whoever is called champion, the predictions of each model are those of a stream without a rule.
    plain = fold(build({**FILE}, "s"), records(turns=(2500,)), 500)[1]
    at = next(i for i, one in enumerate(sent) if one["offset"] >= first.offset)
    assert [one["p"] for one in sent[:at]] == [one["p"] for one in plain[:at]]
    stop = next(i for i, one in enumerate(sent) if one["offset"] >= second.offset)
    assert [one["p"] for one in sent[at:stop]] == [one["challengers"]["tree"]["p"] for one in plain[at:stop]]


def test_what_is_proposed_is_proposed_once_and_nothing_changes():
    learner, sent, events, _ = fold(stream("propose"), records(), 500)
    assert [(event.event, event.model) for event in events] == [("proposed", "tree")]
    assert {one["model"] for one in sent} == {"last-label"}
    assert learner.lineup.comparing.proposed() == ["tree"]
    learner.lineup.line_up({name: role for name, role in learner.roles.items() if name != "tree"})
    assert learner.lineup.comparing.proposed() == [], "a model that was dropped"


def test_a_decision_is_the_first_place_at_which_the_interval_says_so():
    """A twin with no rule is asked after every 250 labels learned."""
    data, found = records(), []
    learner = PartitionLearner(build(FILE, "s"))
    merge = PartitionGroup(learner.buffers(), limit=1)
    for name, raw in zip(("features", "labels"), data, strict=True):
        merge.buffers[name].add(raw)
    while merge.n_waiting and not found:
        learner.step(merge.release(EVERYTHING))
        if learner.pending.counts["joined"] % 250 == 0 and learner.figures().compared:
            told = next(c for role, c in learner.lineup.comparing._of.items() if role.name == "tree")
            if told.better(0.05 / 2, 0.1, 500):
                found.append(learner.places["labels"])
    event = fold(stream({"mode": "propose", "margin": 0.1, "at_least": 500}), data, 200)[2][0]
    assert found == [event.label_offset]
    assert not fold(stream({"mode": "propose", "margin": 0.6}), data, 200)[2]


def test_a_regression_has_a_rule_too():
    changes = {"task": "regression", "champion": "mean", "challengers": {"tree": "fimt-dd"}}
    data = records(values=True)
    learner, _, events, _ = fold(stream(**changes), data, 500)
    assert events[0].models["champion"] == "fimt-dd"
    assert "mean absolute error" in events[0].sentence
    assert fold(stream(**changes), data, 64, 9)[0].digest() == learner.digest()


def test_a_rule_needs_the_topics_that_tell_of_it():
    with pytest.raises(SpecError, match="promotion: expected control: true"):
        stream(control=False)
    with pytest.raises(SpecError, match="promotion"):
        stream("sometimes")
    assert stream("propose").promotion.margin == 0.0


def test_a_rule_that_is_new_begins_where_the_state_is_read_and_comparisons_go_on():
    learner = fold(build(FILE, "s"), records(900), 500)[0]
    with_rule = PartitionLearner(stream())
    said = with_rule.restore(learner.snapshot())
    assert any("promotion.mode was none, is automatic" in sentence for sentence in said), said
    assert with_rule.origin is not None
    assert with_rule.figures().compared == learner.figures().compared


def test_a_state_that_nobody_writes_is_refused():
    learner = fold(stream("propose"), records(), 500)[0]
    cut = learner.snapshot()
    for promotion in (
        {"due": 1, "proposed": []},
        {"due": [{"event": 3}], "proposed": []},
        {"due": [], "proposed": [1]},
        {},
    ):
        with pytest.raises(StateError):
            PartitionLearner(stream("propose")).restore(cut._replace(meta={**cut.meta, "promotion": promotion}))
