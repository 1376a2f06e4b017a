"""A changed stream file that a running stream takes: at one place of the order, as a restart would, and for good."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.partition.changes import reconcile
from app.partition.learner import PartitionLearner
from app.state.proof import differing_parts
from app.stream_file.spec import Spec
from tests.app.test_steering import TREE, Fed, said, spec

FOREST = {"model": "adaptive-random-forest", "n_models": 3}
FILES: dict[str, dict[str, Any]] = {
    "as it was": {},
    "other detectors": {"drift": {"detectors": ["adwin", "ddm"], "on_drift": "reset"}},
    "no detectors": {"drift": "none"},
    "features": {"drift": {"features": "all", "on_drift": "replace", "window": 50, "patience": 500}},
    "shorter trials": {"drift": {"on_drift": "replace", "window": 60, "patience": 100}},
    "a window": {"metrics": {"window": 7}},
    "fading": {"metrics": {"fading": 0.9}},
    "a rule": {"promotion": {"mode": "automatic", "at_least": 250, "confidence": 0.6}},
    "bounds": {"join": {"horizon": "1s", "max_pending": 3, "max_labels": 2, "max_pending_bytes": 1_000_000}},
    "models": {"challengers": {"nb": "naive-bayes", "forest": {**FOREST, "n_models": 5}, "more": "majority-class"}},
    "on drift": {"champion": {**TREE, "on_drift": "reset"}, "challengers": {"nb": {"model": "naive-bayes"}}},
}
FIRST = {"challengers": {"nb": "naive-bayes", "forest": FOREST}}


def file(what: str) -> Spec:
    return spec(**{**FIRST, **FILES[what]})


def asked(by: Spec) -> dict[str, Any]:
    """As `riparian apply` asks."""
    own = by.own_on_drift()
    plain = {
        role: {"model": name, **parameters} | ({} if own[role] is None else {"on_drift": own[role]})
        for role, (name, parameters) in by.models().items()
    }
    champion = plain.pop("champion")
    return {
        "command": "apply",
        "champion": champion,
        "challengers": plain,
        "file": by.models_digest(),
        "settings": by.running(),
    }


def again(fed: Fed, by: Spec) -> tuple[Fed, list[str]]:
    """The state of a learner in a fresh one, and what it says of the stream file."""
    learner = PartitionLearner(by)
    notes = learner.restore(fed.learner.snapshot())
    new = Fed(learner)
    new.rng = fed.rng
    return new, notes


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_applied_does_what_a_restart_with_it_does(what: str) -> None:
    fed, twin = Fed(PartitionLearner(file("as it was"))), Fed(PartitionLearner(file("as it was")))
    for one in (fed, twin):
        one.go_on(300)
        one.go_on(20, labels=False)
    twin, _ = again(twin, file(what))
    outcome = fed.go_on(1, asked(file(what)))
    assert said(outcome) == [("apply", "applied")]
    twin.go_on(1)
    for _ in range(3):
        assert set(differing_parts(twin.learner, fed.learner)) <= {"control_offset", "steering"}, outcome.events
        for one in (fed, twin):
            one.go_on(60)
    assert fed.learner.origin is None
    (event,) = outcome.events
    assert ("nothing is new" in event.sentence) == (what == "as it was")
    assert said(fed.go_on(1, asked(file(what)))) == [("apply", "applied")]
    assert fed.learner.figures().overall.keys() == file(what).models().keys()


@examples(max_examples=10, deadline=None)
@given(
    files=st.lists(st.sampled_from(sorted(FILES)), min_size=1, max_size=4),
    lengths=st.lists(st.integers(1, 400), min_size=4, max_size=4),
    resets=st.lists(st.sampled_from(["champion", "nb", None]), min_size=4, max_size=4),
    turned=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_files_one_after_the_other_are_the_same_through_restarts_with_the_first(
    files: list[str], lengths: list[int], resets: list[str | None], turned: list[bool]
) -> None:
    whole, cut = Fed(PartitionLearner(file("as it was"))), Fed(PartitionLearner(file("as it was")))
    for number, (what, length, reset) in enumerate(zip(files, lengths, resets, strict=False)):
        commands = [asked(file(what)), *([{"command": "reset", "model": reset}] if reset else [])]
        for one in (whole, cut):
            one.go_on(length, turned=turned[number])
            one.go_on(1 + length // 3, *commands, labels=number % 2 == 0)
        cut, notes = again(cut, file("as it was"))
        assert cut.learner.digest() == whole.learner.digest(), notes
        assert cut.learner.origin is None
    for one in (whole, cut):
        one.go_on(50, turned=turned[4])
    assert cut.learner.digest() == whole.learner.digest()


def test_an_older_file_says_so_and_follows_and_an_edited_one_counts() -> None:
    fed = Fed(PartitionLearner(file("as it was")))
    fed.go_on(50)
    fed.go_on(5, asked(file("a window")))
    older, notes = again(fed, file("as it was"))
    assert len(notes) == 1
    assert notes[0].startswith("an applied file has left metrics.window 7, and the stream file says otherwise")
    assert older.learner.spec.metrics.window == 7
    assert older.learner.digest() == fed.learner.digest()
    newer, notes = again(fed, file("a window"))
    assert (notes, newer.learner.digest()) == ([], fed.learner.digest())
    edited, notes = again(fed, spec(**FIRST, metrics={"window": 9}))
    assert any("metrics.window was 7, is 9" in note for note in notes)
    assert edited.learner.spec.metrics.window == 9
    assert edited.learner.origin is not None
    assert reconcile(spec(**FIRST, metrics={"window": 9}), edited.learner.snapshot().meta, [None]).found == []


def test_what_cannot_be_applied_says_why_and_changes_nothing() -> None:
    fed = Fed(PartitionLearner(file("as it was")))
    fed.go_on(30)
    good = asked(file("a window"))
    wrong = {
        "expected drift, metrics, join and promotion": {"settings": {"drift": {}}},
        "metrics.window: expected a number of at least 1": {"settings": {**good["settings"], "metrics": {"window": 0}}},
        "drift.features: expected numeric": {"settings": {**good["settings"], "drift": {"features": ["nothing"]}}},
        "promotion: expected fields of its own": {"settings": {**good["settings"], "promotion": "UP"}},
        "promote it first": {"champion": {"model": "last-label"}},
        "unknown model": {"challengers": {"more": {"model": "nobody"}}},
    }
    for sentence, changed in wrong.items():
        before = fed.learner.snapshot().meta["settings"]
        models = fed.learner.roles.copy()
        (event,) = fed.go_on(1, {**good, **changed}).events
        assert event.event == "refused"
        assert sentence in event.sentence
        assert (fed.learner.snapshot().meta["settings"], fed.learner.roles) == (before, models)


def test_settings_belong_to_apply_alone() -> None:
    fed = Fed(PartitionLearner(file("as it was")))
    outcome = fed.go_on(1, {"command": "demote", "settings": {}})
    assert [letter.reason for letter in outcome.rejected["control"]] == ["wrong-command"]
