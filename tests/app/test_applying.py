"""A changed stream file that a running stream takes: at one place of the order, as a restart would, and for good."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from riparian.app.partition.changes import reconcile
from riparian.app.partition.learner import PartitionLearner
from riparian.app.state import portable
from riparian.app.state.audit.proof import differing_parts
from riparian.app.stream_file.columns import plain
from riparian.app.stream_file.sections.promotion import PACE
from riparian.app.stream_file.spec import Spec
from tests.app.test_begun import exported
from tests.app.test_steering import TREE, Fed, said, spec

FOREST = {"model": "adaptive-random-forest", "n_models": 3}
LAST, MOST, BAYES = "last-label", "majority-class", "naive-bayes"


def pool_of(**members: Any) -> dict[str, Any]:
    return {"model": "opinion-pool", "rate": 0.05, "members": members}


FROZEN = pool_of(last=LAST, most={"model": MOST, "frozen": True})
FROZEN_MOST = {"most": {"model": MOST, "frozen": True}}
ERRORS = {"detectors": {"page-hinkley": {"threshold": 2, "min_values": 5}}}
FILES: dict[str, dict[str, Any]] = {
    "a member more": {
        "challengers": {"nb": BAYES, "forest": FOREST, "pool": pool_of(bayes=BAYES, last=LAST, most=MOST)}
    },
    "all members but one": {"challengers": {"nb": BAYES, "forest": FOREST, "pool": pool_of(said=MOST, last=LAST)}},
    "a member of another model": {
        "challengers": {"nb": BAYES, "forest": FOREST, "pool": pool_of(last=MOST, most=MOST)}
    },
    "a frozen member": {"challengers": {"nb": BAYES, "forest": FOREST, "pool": FROZEN}},
    "a frozen member where drift resets": {
        "challengers": {"nb": BAYES, "forest": FOREST, "pool": FROZEN},
        "drift": {**ERRORS, "on_drift": "reset"},
    },
    "a frozen member where drift replaces": {
        "challengers": {"nb": BAYES, "forest": FOREST, "pool": FROZEN},
        "drift": {**ERRORS, "on_drift": "replace", "window": 50, "patience": 500},
    },
    "turned members": {"challengers": {"nb": BAYES, "forest": FOREST, "pool": pool_of(most=MOST, last=LAST)}},
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
FIRST = {"challengers": {"nb": "naive-bayes", "forest": FOREST, "pool": pool_of(last=LAST, most=MOST)}}


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
        "promotion.mode: expected": {"settings": {**good["settings"], "promotion": "UP"}},
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


@pytest.mark.parametrize("action", ["reset", "replace", "nothing"])
def test_frozen_members_keep_what_they_know_in_a_model_that_begins_anew(action: str) -> None:
    """Whoever decides it: drift, a trial (which was running when the member was frozen), or a command."""
    drift = {**ERRORS, "on_drift": action, "window": 100, "patience": 1000}
    pool = {"tree": TREE, "most": MOST, "nb": BAYES}
    first, then = (spec(challengers={"pool": pool_of(**one)}, drift=drift) for one in (pool, {**pool, **FROZEN_MOST}))
    fed = Fed(PartitionLearner(first))
    fed.go_on(400)
    role = fed.learner.roles["pool"]
    known = members_of(role.model)["most"]
    if action == "replace":
        while role.trial is None:
            fed.go_on(PACE, turned=True)
        fed.go_on(3, labels=False)
        assert members_of(role.trial.model)["most"] != members_of(role.model)["most"]
        known = members_of(role.model)["most"]
        at_restart = again(fed, then)[0].learner.roles["pool"]
        for one in (at_restart.model, at_restart.trial.model):  # type: ignore[union-attr]
            assert members_of(one)["most"] == known
    (event,) = fed.go_on(1, asked(then), labels=False).events
    assert event.sentence == "with other parameters: pool (go on: tree, most, nb; frozen from here on: most)"
    if action == "nothing":
        fed.go_on(1, {"command": "reset", "model": "pool"}, labels=False)
    else:
        before, n = role.model, 0
        while role.model is before or (action == "replace" and not role.reactions[1]):
            fed.go_on(PACE, turned=True)
            assert members_of(role.model)["most"] == known
            if role.trial is not None:
                assert members_of(role.trial.model)["most"] == known
            assert (n := n + 1) < 50
    assert members_of(role.model)["most"] == known
    fed.go_on(100, turned=True)
    assert members_of(role.model)["most"] == known
    assert again(fed, then)[0].learner.digest() == fed.learner.digest()
    assert [one.tolist() for one in role.model.members["most"].predict_many([[0.5]])] != [[0.0, 0.0]]  # type: ignore[attr-defined]


def members_of(model: Any) -> dict[str, list[bytes]]:
    return {name: [one.tobytes() for one in member.state()] for name, member in model.members.items()}


@pytest.mark.parametrize("what", ["a member more", "a frozen member", "turned members"])
def test_a_changed_pool_is_exported_and_folded_again_from_before(what: str) -> None:
    """As after a rollback to a checkpoint before the command, with the stream file of then."""
    fed = Fed(PartitionLearner(file("as it was")))
    fed.go_on(200)
    fed.go_on(20, labels=False)
    older, _ = again(fed, file("as it was"))
    older.rng = deepcopy(fed.rng)
    for one in (fed, older):
        one.go_on(1, asked(file(what)))
        one.go_on(100)
    assert older.learner.digest() == fed.learner.digest()
    state = exported(fed.learner)
    assert portable.restore(file(what), state).digest() == fed.learner.digest()
    pool, other = file(what).models()["pool"][1], {"bayes": BAYES, "last": LAST}
    for members in (pool["members"], other):
        wide = spec(name="wide", challengers={"pool": pool_of(**members)})
        begun, anew = portable.begun(wide, state, 0, "f.state")
        assert anew == []
        last, as_it_was = (members_of(one.roles["pool"].model)["last"] for one in (begun, fed.learner))
        assert last == as_it_was


def test_frozen_members_do_not_learn_features_that_come() -> None:
    fed = Fed(PartitionLearner(spec(challengers={"pool": FROZEN})))
    fed.go_on(30)
    wide = spec(challengers={"pool": FROZEN}, features={"a": "numeric", "b": "numeric"})
    fed.go_on(1, {**asked(wide), "features": plain(wide.features)})
    (event,) = fed.go_on(1, {"command": "reset", "model": "pool"}).events
    assert event.event == "refused"
    assert event.sentence.startswith("pool has frozen members (most), which know only the features of before: let them")
    learning = spec(challengers={"pool": pool_of(last=LAST, most=MOST)}, features=wide.features)
    events = fed.go_on(1, asked(learning), {"command": "reset", "model": "pool"}).events
    assert [event.event for event in events] == ["applied", "applied"]
    assert fed.learner.roles["pool"].columns is None
