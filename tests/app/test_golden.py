"""States that earlier versions wrote are read and go on as they would have; a newer version's are refused."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.join.pending import N_COUNTERS_BEFORE
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.state import Snapshot
from riparian.app.state import checkpoint, portable
from riparian.app.stream_file.spec import Spec
from riparian.models.registry import REGISTRY
from tests.app.shared_world import World
from tests.golden.make import (
    AFTER,
    ANEW,
    APPLIED,
    BEFORE,
    FOLDER,
    JUDGED,
    LATE,
    LATEST,
    NEWER,
    PARTITION,
    RECORD,
    SINCE,
    TURNS,
    cases,
    change,
    changed,
    decided,
    file,
    fold,
    forecast,
    judged,
    keyed,
    learn,
    share,
    shared,
    steer,
    steered,
    stream,
    watched,
)

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))  # of today's format

SHARED_OUT = {
    "online-bagging",
    "adaptive-random-forest",
    "streaming-random-patches",
    "leveraging-bagging",
    "smooth-boost",
    "online-boosting",
    "streaming-decision-forest",
    "shrub-ensemble",
    "mondrian-forest",
    "opinion-pool",
}  # had a parameter `threads`

# Every format version that was ever written, and its cases.
GOLDEN = [
    (int(path.stem.removeprefix("state-v")), case, digests)
    for path in sorted(FOLDER.glob("state-v*.json"))
    for case, digests in json.loads(path.read_text(encoding="utf-8")).items()
]


def test_there_is_a_golden_state_of_every_model_and_task() -> None:
    assert set(RECORDED) == set(cases())
    assert {file(case, version) for version, case, _ in GOLDEN} == set(FOLDER.glob("state-*.bin"))


@pytest.fixture(autouse=True)
def _counted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests are of when threads were a parameter, and before naive Bayes had a window and pools weighed blocks of
    labels. Of formats 1 and 2, those of pools are of before votes were named after members, when they were counted,
    before members could rest, before labels were counted by class, and before Newton steps; those of shrubs and
    soft trees, of before they knew how far targets and errors usually are; those of half-space trees, of before
    they had a second profile; those of scores, of before they kept probabilities; those of what waits, of before
    joined ids were remembered, and two more things counted."""
    given = getattr(request.node, "callspec", None)
    version, path = (given.params.get(name) for name in ("version", "path")) if given else (None, None)
    every = PartitionLearner.comparable

    def named(self: PartitionLearner) -> Snapshot:
        found = every(self)
        blocks = ("/weights_of_blocks", "/block")
        models = {
            role: (
                name,
                ({"threads": 1} if name in SHARED_OUT else {})
                | {
                    key: value
                    for key, value in parameters.items()
                    if (name, key, value) != ("naive-bayes", "window", None)
                },
            )
            for role, (name, parameters) in found.meta["models"].items()
        }
        arrays = {name: one for name, one in found.arrays.items() if not name.endswith(blocks)}
        return found._replace(meta={**found.meta, "models": models}, arrays=arrays)

    monkeypatch.setattr(PartitionLearner, "comparable", named)
    if version not in (1, 2) and not (path is not None and path.stem.endswith("-v2")):
        return

    def counted(self: PartitionLearner) -> Snapshot:
        found = named(self)
        names = {f"pending/out/{one}": i for role in self.roles.values() for i, one in enumerate(role.kept_names)}
        arrays = {
            f"{name.rpartition('/')[0]}/{names[name]}" if name in names else name: array
            for name, array in found.arrays.items()
            if not name.endswith(("/class_counts", "/hessian", "/level", "/residuals"))
            and not (name.startswith("metrics/") and name.endswith("/probabilities"))
            and not name.startswith("pending/joined")
        }
        arrays["pending/counts"] = arrays["pending/counts"][:N_COUNTERS_BEFORE]
        models = {
            role: (
                name,
                {
                    key: value
                    for key, value in parameters.items()
                    if key != "rest_below" and (key, value) != ("max_window", None)
                },
            )
            for role, (name, parameters) in found.meta["models"].items()
        }
        return found._replace(meta={**found.meta, "models": models}, arrays=arrays)

    monkeypatch.setattr(PartitionLearner, "comparable", counted)


@pytest.mark.parametrize(("version", "case", "digests"), GOLDEN, ids=lambda value: str(value)[:40])
def test_a_golden_state_is_read_and_goes_on_as_it_would_have(version: int, case: str, digests: dict[str, str]) -> None:
    model, task = cases()[case]
    exported = portable.unpack(file(case, version).read_bytes(), case)
    assert exported.manifest.version == version
    learner = portable.restore(stream(model, task), exported)
    assert learner.digest(NEWER) == digests["restored"]
    assert (learner.offsets["features"], learner.offsets["labels"]) == (BEFORE, BEFORE - LATE)
    # Those without a label (every 50th) wait, too.
    assert learner.pending.n_waiting == LATE + len(range(0, BEFORE - LATE, 50))
    fold(learner, task, AFTER)
    assert learner.digest(NEWER) == digests["continued"]


# What a batch learner is fitted to is its library's, and may change with that: going on from a state has no fits.
OURS = [case for case, (model, _) in cases().items() if not REGISTRY[model].cls.startswith("riparian.models.batch.")]


@pytest.mark.parametrize("case", OURS)
def test_todays_code_from_the_beginning_comes_to_the_same(case: str) -> None:
    model, task = cases()[case]
    learner = PartitionLearner(stream(model, task), PARTITION)
    fold(learner, task, AFTER)
    # Scores add up probabilities, whose last bits the version that wrote the state may have had otherwise.
    assert learner.digest(NEWER) == RECORDED[case].get("beginning", RECORDED[case]["continued"])


def test_the_golden_tree_has_grown() -> None:
    exported = portable.unpack(file("hoeffding-tree").read_bytes(), "tree")
    learner = portable.restore(stream("hoeffding-tree", "classification"), exported)
    assert learner.roles["champion"].model.size()["n_leaves"] > 2


def goes_on(
    learner: PartitionLearner,
    beginning: PartitionLearner,
    digests: dict[str, str],
    newer: tuple[str, ...] = (),
    turns: int = AFTER,
) -> None:
    """The learner of a golden state as it was, and after the rest, which today's code comes to from the beginning, too,
    but for what has changed since the state was written (`beginning`): last bits, and that rows of which two models
    knew nothing are not compared."""
    assert learner.digest(newer) == digests["restored"]
    for one, digest in ((learner, digests["continued"]), (beginning, digests.get("beginning", digests["continued"]))):
        fold(one, "classification", AFTER, turns)
        assert one.digest(newer) == digest


@pytest.mark.parametrize("path", sorted(FOLDER.glob("drift-*.json")), ids=lambda path: path.stem)
def test_a_golden_state_of_models_that_answer_drift_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    learner = portable.restore(watched(), portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    arrays = learner.snapshot().arrays
    parts = {name.split("/")[0] for name in arrays} - {name.rstrip("/") for name in NEWER}
    assert parts == {"models", "metrics", "pending", "drift", "vocabularies"}
    # On trial: the fresh model of the champion. Two arrays are the trial's own, the others its model's.
    own = {f"drift/trials/champion/{name}" for name in ("numbers", "recent")}
    fresh = {f"drift/trials/champion/model/{name}" for name in learner.roles["champion"].model.state()._fields}
    assert {name for name in arrays if name.startswith("drift/")} == {"drift/signals", *own, *fresh}
    assert counted(learner) == {"champion": [0, 0, 0], "reset": [1, 0, 0], "nb": [0, 0, 0]}
    goes_on(learner, PartitionLearner(watched(), PARTITION), digests, NEWER, TURNS)
    assert counted(learner)["champion"] == [0, 1, 0]


@pytest.mark.parametrize("path", JUDGED, ids=lambda path: path.stem)
def test_a_golden_state_of_what_is_said_about_models_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests, without = json.loads(path.read_text(encoding="utf-8")), JUDGED[path]
    learner = portable.restore(judged(), portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    names = learner.snapshot().arrays
    assert all(any(name.startswith(newer) for name in names) for newer in NEWER if newer not in without)
    assert ("tree" in learner.figures().compared) == (ANEW[0] not in without)
    goes_on(learner, PartitionLearner(judged(), PARTITION), digests, without)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("steered-*.json")), ids=lambda path: path.stem)
def test_a_golden_state_that_commands_have_changed_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    learner = portable.restore(steered(), portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    assert {name: role.learner_name for name, role in learner.roles.items()} == {
        "champion": "naive-bayes",
        "hoeffding-tree": "hoeffding-tree",
        "last": "last-label",
        "more": "majority-class",
    }
    assert [name for name, role in learner.roles.items() if role.frozen] == ["hoeffding-tree"]
    assert (learner.promotion.n_events, learner.roles["champion"].action) == (4, "reset")
    beginning = PartitionLearner(steered(), PARTITION)
    steer(beginning)
    goes_on(learner, beginning, digests, (*LATEST, *ANEW))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("changed-*.json")), ids=lambda path: path.stem)
@pytest.mark.parametrize("by", [changed(), changed(APPLIED)], ids=["the file of before", "the one that was applied"])
def test_a_golden_state_whose_features_have_changed_is_read_and_goes_on_as_it_would_have(by: Spec, path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    learner = portable.restore(by, portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    assert {name: (role.learner_name, role.columns) for name, role in learner.roles.items()} == {
        "champion": ("hoeffding-tree", [0, 1]),
        "last-label": ("last-label", [0, 1]),
        "wide": ("hoeffding-tree", None),
    }
    assert (list(learner.spec.features), learner.spec.gone) == (["a", "c", "b"], {"c"})
    beginning = PartitionLearner(changed(), PARTITION)
    change(beginning)
    goes_on(learner, beginning, digests, (*SINCE, *ANEW))
    assert {one.signal for one in learner.drift.distances()} == {"a", "b", "prediction"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("keyed-*.json")), ids=lambda path: path.stem)
def test_a_golden_state_of_a_shared_stream_with_keys_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    exported = portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem)
    learner, world = portable.restore(keyed(), exported), World(keyed())
    assert learner.digest() == digests["restored"]
    assert any(name.startswith("learned/keys/card/rows/") for name in exported.manifest.arrays) == (
        "whole" not in path.stem
    )
    share(world, BEFORE)
    assert world.learners[PARTITION].digest() == learner.digest()
    assert learner.pending.n_waiting > 50
    world.replace(PARTITION, learner)
    share(world, AFTER)
    assert world.learners[PARTITION].digest() == digests["continued"]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("shared-*.json")), ids=lambda path: path.stem)
def test_a_golden_log_is_learned_by_fresh_models_and_by_those_of_a_golden_state(path: Path) -> None:
    """Its records do not name their features, and a command that does was refused."""
    digests, log = (
        json.loads(path.read_text(encoding="utf-8")),
        msgspec.msgpack.decode(path.with_suffix(".log").read_bytes()),
    )
    learner = portable.restore(shared(), portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    assert learner.lineup.digest() == digests["restored"]
    fresh = PartitionLearner(shared(), 1)
    for one in (learner, fresh):
        assert len(log) > (one.lineup.place or 0) + 3
        learn(log, one)
        assert one.lineup.digest() == digests["continued"]
        assert (list(one.spec.features), one.roles["champion"].learner_name) == (["a", "c"], "naive-bayes")
        assert "more" in one.roles


@pytest.mark.parametrize("path", sorted(FOLDER.glob("decided-*.json")), ids=lambda path: path.stem)
def test_a_golden_state_with_thresholds_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    learner = portable.restore(decided(), portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem))
    assert all(
        one.decision and one.decision.threshold and one.decision.threshold.value for one in learner.servings.values()
    )
    goes_on(learner, PartitionLearner(decided(), PARTITION), digests, ANEW)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("forecast-*.json")), ids=lambda path: path.stem)
def test_a_golden_state_of_labels_of_the_stream_itself_is_read_and_goes_on_as_it_would_have(path: Path) -> None:
    digests = json.loads(path.read_text(encoding="utf-8"))
    exported = portable.unpack(path.with_suffix(".bin").read_bytes(), path.stem)
    learner = portable.restore(forecast(), exported)
    counts = learner.pending.counts
    assert min(counts["joined"], counts["expired"], learner.pending.n_waiting) > 20
    assert len(np.unique(learner.pending._series.about[learner.pending._instances.rows(), 1:], axis=0)) == 6  # of c
    goes_on(learner, PartitionLearner(forecast(), PARTITION), digests)
    with pytest.raises(StateError, match=r"label\.ahead was 0\.03, is 0\.02"):
        portable.restore(forecast("20ms"), exported)


def counted(learner: PartitionLearner) -> dict[str, list[int]]:
    """Role -> how often its model was reset, replaced, and kept after a trial."""
    return {name: role.reactions.tolist() for name, role in learner.roles.items()}


def test_newer_formats_are_refused_with_a_sentence() -> None:
    data = file("last-label").read_bytes()
    content = msgspec.msgpack.decode(data[len(portable.MAGIC) : -portable.DIGEST_BYTES])

    def written(**changed: object) -> bytes:
        body = portable.MAGIC + msgspec.msgpack.encode({**content, **changed})
        return body + portable._digest(body)

    assert portable.unpack(written(), "state.bin").manifest.sequence == 1
    with pytest.raises(StateError, match=r"state.bin was written in export format 2, and this version .* reads 1"):
        portable.unpack(written(format=2), "state.bin")
    manifest = {**msgspec.msgpack.decode(content["manifest"]), "version": checkpoint.VERSION + 1}
    with pytest.raises(
        StateError, match=rf"format {checkpoint.VERSION + 1}, .* reads 1 and 2 and {checkpoint.VERSION}"
    ):
        portable.unpack(written(manifest=msgspec.msgpack.encode(manifest)), "state.bin")
