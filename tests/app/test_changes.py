"""What becomes of a state when the stream file has changed: every row of the table in docs/reference/state.md."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.errors import SpecError, StateError
from riparian.app.partition.changes import ARITHMETIC, CARRIED, DROPPED, REFUSED, RESTARTED, Changes, reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup, Release
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint
from riparian.app.state.checkpoint import Encoder
from riparian.app.stream_file.spec import Spec, build
from riparian.models.contract import Schema
from riparian.models.entry import without_retired
from riparian.models.registry import REGISTRY, create, validate
from riparian.topics.records import RawBatch
from riparian.topics.training_log import read, write
from tests.app.shared_world import lived
from tests.app.shared_world import stream as shared_stream
from tests.app.test_learner import records

ROOT = Path(__file__).resolve().parents[2]
FEATURES: dict[str, Any] = {"a": "numeric", "c": {"type": "nominal", "max_values": 20}, "b": "boolean"}
STREAM: dict[str, Any] = {
    "name": "s",
    "task": "classification",
    "features": FEATURES,
    "champion": {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1},
    "challengers": {"nb": "naive-bayes", "most": "majority-class"},
    "join": {"horizon": "10s", "max_pending": 100, "max_labels": 50},
    "metrics": {"window": 30},
    "max_classes": 10,
}
TREE, BAYES = STREAM["champion"], {"model": "naive-bayes"}


def changed(**fields: Any) -> Spec:
    return build({**STREAM, **fields}, "test")


def releases(n: int = 300, seed: int = 5) -> list[Release]:
    merge = PartitionGroup(limit=20)
    features, labels = records(seed, n)
    merge.buffers["features"].add(features)
    merge.buffers["labels"].add(
        RawBatch(labels.offsets, [time + 30 for time in labels.timestamps], labels.keys, labels.values)
    )
    found = []
    while merge.n_waiting:
        found.append(merge.release(EVERYTHING))
    return found


RELEASES = releases()
HALF = len(RELEASES) // 2


def fold(learner: PartitionLearner, parts: list[Release]) -> list[Outcome]:
    return [learner.step(part) for part in parts]


class Stored:
    """A checkpoint as it comes back from the changelog, and the learner that it was made of."""

    def __init__(self, **fields: Any) -> None:
        self.learner = PartitionLearner(changed(**fields))
        fold(self.learner, RELEASES[:HALF])
        spec = self.learner.spec
        features = [(name, feature.type) for name, feature in spec.features.items()]
        self.encoder = Encoder("s", 0, features, ["s.features", "s.labels"])
        self.encoder.take(self.learner.checkpoint())
        encoded = self.encoder.encode(sequence=1, created_ms=0, outputs={})
        self.manifest, self.chunks = checkpoint.decode_manifest(encoded.data), encoded.new
        self.known = [None if v is None else v.state() for v in self.learner.vocabularies]

    @property
    def meta(self) -> dict[str, Any]:
        return checkpoint.decode(self.manifest, self.chunks).meta

    def changes(self, spec: Spec) -> Changes:
        return reconcile(spec, self.meta, self.known, spec.input_topics)

    def restored(self, spec: Spec) -> tuple[PartitionLearner, list[str]]:
        learner = PartitionLearner(spec)
        return learner, learner.restore(checkpoint.decode(self.manifest, self.chunks), spec.input_topics)


@cache
def stored() -> Stored:
    """Made by the first test that asks, not by each process that collects this file."""
    return Stored()


@cache
def undisturbed() -> tuple[PartitionLearner, list[Outcome]]:
    """What the rest of the records makes of it where nothing has changed."""
    learner, _ = stored().restored(changed())
    return learner, fold(learner, RELEASES[HALF:])


# The classes and the values of `c` that it knows, in their order.
KNOWN = ["inline", "q", "p", 3, True]
VALUES = ["z", "u", "x", "v", "y", "!", "w"]


def test_the_state_is_worth_its_changes() -> None:
    learner = stored().learner
    assert (stored().meta["classes"], stored().known[1]) == (KNOWN, VALUES)
    assert learner.pending.n_waiting > 5
    assert learner.roles["champion"].model.size()["n_leaves"] > 1
    assert 3 < len(KNOWN) < 6
    assert len(VALUES) == 7


def test_detectors_go_on_where_they_are_the_same_and_with_the_model_that_they_watch() -> None:
    seen = {name: int(role.signal.totals[0]) for name, role in stored().learner.roles.items()}
    assert min(seen.values()) > 50
    swapped = changed(champion=BAYES, challengers={"most": "majority-class", "tree": TREE})
    learner, _ = stored().restored(swapped)
    assert {name: int(role.signal.totals[0]) for name, role in learner.roles.items()} == {
        "champion": seen["nb"], "most": seen["most"], "tree": seen["champion"]
    }  # fmt: skip
    nervous = Stored(drift={"detectors": {"hddm-w": {"drift_confidence": 0.3, "warning_confidence": 0.5}}})
    other, _ = nervous.restored(changed(drift={"detectors": "ddm"}))
    assert {int(role.signal.totals[0]) for role in other.roles.values()} == {0}
    off, said = nervous.restored(changed(drift="none"))
    assert list(off.drift.signals()) == []
    assert off.drift.n_events == other.drift.n_events == nervous.learner.drift.n_events > 0
    again = PartitionLearner(changed())
    again.restore(off.snapshot())
    assert again.drift.n_events == off.drift.n_events  # numbers go on
    assert any("drift.detectors was hddm-w (drift_confidence 0.3, " in sentence for sentence in said)


def test_a_state_from_before_drift_was_watched_for_is_watched_from_here_on() -> None:
    spec = changed(drift="none")
    off = Stored(drift="none")
    del off.manifest.meta["settings"]["drift.detectors"]  # as a version wrote it that had none
    learner, said = off.restored(changed())
    assert said == ["drift was not watched for: it is from here on"]
    assert learner.origin is not None
    assert off.restored(spec)[1] == []
    fold(learner, RELEASES[HALF:])
    assert learner.roles["champion"].signal.totals[0] > 0


def test_an_unchanged_stream_file_changes_nothing() -> None:
    learner, said = stored().restored(changed())
    assert said == []
    assert learner.origin is None
    assert learner.digest() == stored().learner.digest()


@pytest.mark.parametrize(
    "fields",
    [
        {"checkpoint": {"every": "1s", "keep": 1}},
        {"metrics": {"every": "1s", "window": 30}},
        {"retention": "10d"},
        {"replication": 3},
        {"standbys": 0},
        {"join": {**STREAM["join"], "max_wait": "5s"}},
    ],
)
def test_what_no_fold_depends_on_is_not_even_mentioned(fields: dict[str, Any]) -> None:
    assert stored().changes(changed(**fields)).found == []


GOES_ON = [
    # models
    (
        {"challengers": {**STREAM["challengers"], "last": "last-label"}},
        [("challengers.last", RESTARTED, "is new and starts afresh")],
    ),
    ({"challengers": {"nb": "naive-bayes"}}, [("challengers.most", DROPPED, "has learned is dropped")]),
    (
        {"challengers": {"nb": {**TREE, "grace_period": 11}, "most": "majority-class"}},
        [("challengers.nb", RESTARTED, "was naive-bayes (window none), is hoeffding-tree")],
    ),
    (
        {"champion": BAYES, "challengers": {"nb": TREE, "most": "majority-class"}},
        [
            ("champion", CARRIED, "naive-bayes (window none) and goes on with state and metrics of challengers.nb"),
            ("challengers.nb", CARRIED, "goes on with state and metrics of champion"),
        ],
    ),
    (
        {"champion": BAYES, "challengers": {"most": "majority-class"}},
        [
            ("champion", CARRIED, "goes on with state and metrics of challengers.nb"),
            ("champion", DROPPED, "champion (hoeffding-tree (grace_period 10, "),
        ],
    ),
    (
        {"champion": BAYES},
        [("champion", CARRIED, "of challengers.nb"), ("champion", DROPPED, "has learned is dropped")],
    ),
    (
        {"challengers": {"other": "naive-bayes", "most": "majority-class"}},
        [("challengers.other", CARRIED, "goes on with state and metrics of challengers.nb")],
    ),
    # classes and values
    ({"max_classes": 1000}, [("max_classes", CARRIED, "was 10, is 1000")]),
    ({"max_classes": len(KNOWN)}, [("max_classes", CARRIED, f"is {len(KNOWN)}")]),
    (
        {"max_classes": None, "classes": KNOWN},
        [("max_classes", CARRIED, "was 10, is closed"), ("max_class_bytes", CARRIED, "is closed")],
    ),
    (
        {"max_classes": None, "classes": [*KNOWN, "more"]},
        [
            ("classes", CARRIED, "more added"),
            ("max_classes", CARRIED, "closed"),
            ("max_class_bytes", CARRIED, "closed"),
        ],
    ),
    (
        {"features": {**FEATURES, "c": {"type": "nominal", "max_values": 7}}},
        [("features.c.max_values", CARRIED, "was 20, is 7")],
    ),
    (
        {"features": {**FEATURES, "c": {"type": "nominal", "max_values": 500}}},
        [("features.c.max_values", CARRIED, "was 20, is 500")],
    ),
    (
        {"features": {**FEATURES, "c": {"type": "nominal", "values": VALUES}}},
        [("features.c.max_values", CARRIED, "was 20, is closed")],
    ),
    # how to go on
    ({"join": {**STREAM["join"], "horizon": "1h"}}, [("join.horizon", CARRIED, "was 10s, is 1h")]),
    ({"join": {**STREAM["join"], "max_pending": 5}}, [("join.max_pending", CARRIED, "was 100, is 5")]),
    (
        {"join": {**STREAM["join"], "max_pending_bytes": 10**6}},
        [("join.max_pending_bytes", CARRIED, "was 1000000000, is 1000000")],
    ),
    ({"join": {**STREAM["join"], "max_labels": 5}}, [("join.max_labels", CARRIED, "was 50, is 5")]),
    ({"metrics": {"window": 50}}, [("metrics.window", CARRIED, "keeps the last labels that fit")]),
    ({"metrics": {"window": 10}}, [("metrics.window", CARRIED, "was 30, is 10")]),
    (
        {"metrics": {"window": 30, "fading": 0.9}},
        [("metrics.fading", RESTARTED, "was none, is 0.9: recent metrics start afresh")],
    ),
    ({"predictions": {"challengers": True}}, [("predictions.challengers", CARRIED, "was false, is true")]),
    ({"predictions": {"probabilities": False}}, [("predictions.probabilities", CARRIED, "")]),
    ({"record": {"time": "at"}}, [("record.time", CARRIED, "was none, is at")]),
    ({"label": {"y": "deep.y"}}, [("label.y", CARRIED, "was y, is deep.y")]),
    (
        {"features": {**FEATURES, "a": {"type": "numeric", "from": "x.age"}}},
        [("features.a.from", CARRIED, "was none, is x.age")],
    ),
    (
        {"features": {**FEATURES, "a": {"type": "numeric", "text": True}}},
        [("features.a.text", CARRIED, "was none, is true")],
    ),
    ({"drift": {"detectors": ["adwin", "ddm"]}}, [("drift.detectors", RESTARTED, "was adwin, is adwin, ddm: all")]),
    (
        {"drift": {"detectors": {"adwin": {"delta": 0.1}}}},
        [("drift.detectors", RESTARTED, "is adwin (delta 0.1): all")],
    ),
    ({"drift": {"features": "all"}}, [("drift.features", CARRIED, "was none, is a: those that are new")]),
    ({"drift": {"on_drift": "reset"}}, [("drift.on_drift", CARRIED, "was alert, is reset")]),
    ({"champion": {**TREE, "on_drift": "reset"}}, [("champion.on_drift", CARRIED, "was none, is reset")]),
    ({"seed": 7}, [("seed", CARRIED, "only what starts afresh has it")]),
]


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields put over STREAM; None takes one out."""
    return {name: value for name, value in {**STREAM, **fields}.items() if value is not None}


@pytest.mark.parametrize(("fields", "expected"), GOES_ON, ids=lambda value: str(value)[:60])
def test_what_goes_on(fields: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    spec = build(without_none(fields), "test")
    changes = stored().changes(spec)
    assert [(change.what, change.fate) for change in changes.found] == [(what, fate) for what, fate, _ in expected]
    for change, (_, _, said) in zip(changes.found, expected, strict=True):
        assert said in change.sentence
    learner, sentences = stored().restored(spec)
    assert sentences == [change.sentence for change in changes.found]
    assert learner.origin == [stored().learner.offsets["features"], stored().learner.offsets["labels"], 1]
    # What goes on is what it was, to the bit, whatever its role is now.
    before = stored().learner
    for role, source in changes.takes.items():
        if source is None:
            assert learner.roles[role].model.size()["n_nodes"] <= 1
            assert learner.roles[role].metrics.metrics() == {"n": 0}
        else:
            assert learner.roles[role].metrics.metrics() == before.roles[source].metrics.metrics()
    assert learner.pending.n_waiting == before.pending.n_waiting
    assert learner.pending.counts == before.pending.counts
    # It can be stored, by an encoder that knows what the changelog holds, and restored without any more changes.
    features = [(name, feature.type) for name, feature in spec.features.items()]
    arrays = checkpoint.decode(stored().manifest, stored().chunks).arrays
    encoder = Encoder("s", 0, features, [], stored().manifest, arrays)
    encoder.take(learner.checkpoint())
    encoded = encoder.encode(sequence=2, created_ms=0, outputs={}, written=stored().manifest.chunks())
    again = PartitionLearner(spec)
    chunks = {**stored().chunks, **encoded.new}
    assert again.restore(checkpoint.decode(checkpoint.decode_manifest(encoded.data), chunks)) == []
    assert (again.digest(), again.origin) == (learner.digest(), learner.origin)
    # And both go on learning, to the same.
    outcomes = fold(learner, RELEASES[HALF:])
    fold(again, RELEASES[HALF:])
    assert again.digest() == learner.digest()
    if fields.keys() & {"join", "record", "label", "drift"} or any(feature.from_ for feature in spec.features.values()):
        return
    # Models that are carried over go on as if nothing had changed, whatever their roles.
    model, expected_outcomes = undisturbed()
    for one, other in zip(expected_outcomes, outcomes, strict=True):
        assert one.offsets.tolist() == other.offsets.tolist()
        for role, source in changes.takes.items():
            if source is not None:
                assert one.p[source][:, : len(KNOWN)].tobytes() == other.p[role][:, : len(KNOWN)].tobytes()
    for role, source in changes.takes.items():
        if source is not None:
            assert learner.roles[role].metrics.metrics() == model.roles[source].metrics.metrics()


REFUSALS = [
    ({"champion": {**TREE, "grace_period": 11}}, "champion", "was hoeffding-tree (grace_period 10), is hoeffding-tree "
     "(grace_period 11), and the state has no such model: let it run as a challenger first"),
    ({"champion": "last-label"}, "champion", "is last-label, and the state has no such model"),
    ({"features": {**FEATURES, "d": "numeric"}}, "features.*", "the features have changed: d is new; restore"),
    ({"features": {"a": "numeric", "c": FEATURES["c"]}}, "features.*", "b is gone"),
    ({"features": {"a": "numeric", "k": FEATURES["c"], "b": "boolean"}}, "features", "c is called k (where only the"),
    ({"features": {"z": "boolean", "c": FEATURES["c"], "b": "boolean"}}, "features.*", "a is gone; z is new"),
    ({"features": {"c": FEATURES["c"], "a": "numeric", "b": "boolean"}}, "features", "their order was a, c, b"),
    ({"features": {**FEATURES, "b": "nominal"}}, "features", "b was boolean, is nominal"),
    ({"features": {**FEATURES, "a": "nominal"}}, "features", "a was numeric, is nominal"),
    ({"task": "regression", "champion": "last-label", "challengers": {}, "max_classes": None}, "task",
     "task was classification, is regression"),
    ({"max_classes": len(KNOWN) - 1}, "max_classes", f"and the state knows {len(KNOWN)}: raise it"),
    ({"max_classes": None, "classes": [*KNOWN[::-1]]}, "classes", "must begin with those that the state knows"),
    ({"max_classes": None, "classes": KNOWN[:-1]}, "classes", "must begin with"),
    ({"features": {**FEATURES, "c": {"type": "nominal", "max_values": 6}}}, "features.c.max_values", "knows 7: raise"),
    ({"features": {**FEATURES, "c": {"type": "nominal", "values": ["u", "v"]}}}, "features.c.values", "must begin"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "what", "said"), REFUSALS, ids=lambda value: str(value)[:60])
def test_what_is_refused(fields: dict[str, Any], what: str, said: str) -> None:
    spec = build(without_none(fields), "test")
    changes = stored().changes(spec)
    assert [change.what for change in changes.found if change.fate == REFUSED] == [what]
    assert said in changes.refused[0]
    with pytest.raises(StateError, match=r"^the state of partition 0 does not fit the stream s: ") as caught:
        stored().restored(spec)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_topics_are_refused_where_they_are_asked_for() -> None:
    for topics, said in (
        ({"features": "other", "labels": "s.labels"}, "topics.features was s.features, is other"),
        ({"features": "s.features", "labels": ""}, "topics.labels was s.labels, is none"),
    ):
        assert said in reconcile(changed(), stored().meta, stored().known, topics).refused[0]
        with pytest.raises(StateError, match="offsets of one topic mean nothing in another"):
            PartitionLearner(changed()).restore(checkpoint.decode(stored().manifest, stored().chunks), topics)
    assert reconcile(changed(), stored().meta, stored().known).found == []


def test_a_state_without_names_of_features_is_known_by_their_kinds() -> None:
    meta = {name: value for name, value in stored().meta.items() if name not in ("features", "topics", "settings")}
    assert [change.what for change in reconcile(changed(), meta, stored().known).found] == ["arithmetic", "drift"]
    for features, said in (
        ({**FEATURES, "d": "numeric"}, "there were 3 features, there are 4"),
        ({**FEATURES, "a": "boolean"}, "a was numeric, is boolean"),
        ({**FEATURES, "b": "numeric"}, "b was nominal or boolean, is numeric"),
    ):
        assert said in reconcile(changed(features=features), meta, stored().known).refused[0]


def test_closed_values_are_opened_and_extended() -> None:
    closed = Stored(features={**FEATURES, "c": {"type": "nominal", "values": list("uvwxyz!")}})
    opened = closed.changes(changed())
    assert [(change.what, change.fate) for change in opened.found] == [("features.c.max_values", CARRIED)]
    spec = changed(features={**FEATURES, "c": {"type": "nominal", "values": list("uvwxyz!?")}})
    assert [change.sentence for change in closed.changes(spec).found] == ["features.c.values: ? added"]
    learner, _ = closed.restored(spec)
    assert learner.vocabularies[1] is not None
    assert learner.vocabularies[1].find("?") == 7
    fold(learner, RELEASES[HALF:])


def test_a_new_challenger_is_not_scored_for_what_it_never_predicted() -> None:
    """As if it had begun with the stream, but had no predictions to make until now."""
    learner, _ = stored().restored(changed(challengers={**STREAM["challengers"], "again": BAYES}))
    fresh, _ = stored().restored(changed(challengers={**STREAM["challengers"], "again": "last-label"}))
    waiting = learner.pending.n_waiting
    counted = learner.roles["nb"].metrics.metrics()["n"]
    fold(learner, RELEASES[HALF:])
    fold(fresh, RELEASES[HALF:])
    assert (
        learner.roles["again"].metrics.metrics() == learner.roles["nb"].metrics.metrics()
    )  # naive Bayes has one already
    joined = fresh.roles["nb"].metrics.metrics()["n"] - counted
    unscored = joined - fresh.roles["again"].metrics.metrics()["n"]
    assert 0 < unscored <= waiting
    learned = fresh.roles["again"].model.state()._asdict()["last"]
    assert learned[1] == joined  # learned from all of them


def test_lowered_bounds_push_out_what_is_above_them() -> None:
    learner, _ = stored().restored(changed(join={**STREAM["join"], "max_pending": 5, "max_labels": 2}))
    assert learner.pending.n_waiting > 5
    assert learner.pending.n_labels_waiting > 2
    before = dict(learner.pending.counts)
    fold(learner, RELEASES[HALF : HALF + 2])
    assert learner.pending.n_waiting <= 5
    assert learner.pending.n_labels_waiting <= 2
    assert learner.pending.counts["evicted"] > before["evicted"]
    assert learner.pending.counts["unmatched"] > before["unmatched"]


@pytest.mark.parametrize("name", REGISTRY)
def test_the_parameters_of_a_stream_file_are_those_of_its_models(name: str) -> None:
    """`reconcile` compares the ones with the others."""
    for task in REGISTRY[name].tasks:
        schema = Schema((0, 2), 2 if task == "classification" else 1, task)
        assert create(name, schema).parameters() == validate(name, task, {})


def test_the_page_lists_the_parameters_that_may_change() -> None:
    page = (ROOT / "docs" / "reference" / "state.md").read_text(encoding="utf-8")
    table = page.partition("| model | parameters |")[2].partition("\n\n")[0]
    listed: dict[str, list[str]] = {}
    for row in table.splitlines()[2:]:
        models, parameters = (re.findall(r"`([^`]+)`", cell) for cell in row.strip("|").split("|"))
        listed |= dict.fromkeys(models, parameters)
    assert listed == {name: list(entry.free) for name, entry in REGISTRY.items() if entry.free}
    assert f"The manifest's format version is {checkpoint.VERSION} " in page
    shown = CliRunner().invoke(cli, ["models", "online-bagging"]).output
    assert "Its state goes on where these change: n_models" in shown


def test_a_state_whose_models_had_threads_is_read_without() -> None:
    """Earlier versions wrote the parameter into every state; nothing depends on it."""
    members = {"forest": {"model": "online-bagging", "n_models": 3}, "tree": "hoeffding-tree"}
    models = {
        "champion": ["opinion-pool", {"members": members, "rate": 0.1}],
        "tree": ["hoeffding-tree", {}],
        "strange": "no model",
    }
    before = {
        **models,
        "champion": [
            "opinion-pool",
            {"members": {**members, "forest": {**members["forest"], "threads": 2}}, "rate": 0.1, "threads": 4},
        ],
    }
    budget: dict[str, Any] = {"max_bytes": 5_000_000, "members": members}
    of_auto = {**budget, "members": before["champion"][1]["members"]}  # type: ignore[index]
    written = msgspec.structs.replace(stored().manifest, meta={**stored().meta, "models": before, "auto": of_auto})
    found = checkpoint.decode_manifest(checkpoint.encode_manifest(written)).meta
    assert (found["models"], found["auto"]) == (models, budget)
    assert without_retired({"members": json.dumps(members)}) == {"members": json.dumps(members)}  # as the file has it


@pytest.mark.parametrize("champion", [{"threads": 2}, {"n_models": 3, "threads": 1}])
def test_a_stream_file_that_sets_threads_is_told_to_leave_that(champion: dict[str, int]) -> None:
    with pytest.raises(SpecError, match=r"champion: .* no parameter 'threads' any more: .* where that pays, remove it"):
        changed(champion={"model": "online-bagging", **champion})


def of_before(meta: dict[str, Any]) -> dict[str, Any]:
    """As versions wrote it whose exponentials were those of C's library."""
    return {**meta, "settings": {place: value for place, value in meta["settings"].items() if place != ARITHMETIC}}


def test_a_state_with_other_last_bits_goes_on_and_an_audit_begins_there() -> None:
    snapshot = checkpoint.decode(stored().manifest, stored().chunks)
    learner = PartitionLearner(changed())
    notes = learner.restore(snapshot._replace(meta=of_before(snapshot.meta)))
    assert [note for note in notes if "C's library" in note]
    assert learner.origin == [stored().meta["feature_offset"], stored().meta["label_offset"], 1]
    again, notes = PartitionLearner(changed()), []
    notes = again.restore(Snapshot(learner._meta(), learner.snapshot().arrays))
    assert (notes, again.origin) == ([], learner.origin)


def test_a_shared_model_with_other_last_bits_is_refused_and_another_stream_begins_with_it() -> None:
    spec = shared_stream()
    learner = lived(spec).learners[0]
    snapshot = learner.snapshot()
    before = snapshot._replace(meta=of_before(snapshot.meta))
    with pytest.raises(StateError, match=r"C's library.*partitions of one model.*riparian import --models-only"):
        PartitionLearner(spec, 0).restore(before)
    PartitionLearner(spec, 0).restore(snapshot)
    begun = PartitionLearner(spec, 1)
    begun.begin_with(before, 0)
    assert begun.roles["champion"].model.size() == learner.roles["champion"].model.size()
    assert begun._meta()["settings"][ARITHMETIC] == 2


def test_a_log_with_records_of_an_earlier_version_is_refused() -> None:
    world = lived(shared_stream())
    (old,) = (msgspec.structs.replace(one, version=1) for one in [read(world.log[0])])
    with pytest.raises(StateError, match=r"a record of format 1, of a worker of an earlier version"):
        world.learners[0].learning.lineup._read(write(old))
