"""Streams that begin with the models of an exported state (`riparian import --models-only`), in memory: the same
arrays, and the same predictions, whatever kind of learning either has, and however many partitions."""

import json
from typing import Any

import numpy as np
import pytest

from riparian.app.errors import StateError
from riparian.app.partition.arrays import under
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import PartitionGroup
from riparian.app.partition.shared.shared_lineup import STATE
from riparian.app.state import checkpoint, portable
from riparian.app.state.checkpoint import Stored
from riparian.app.state.portable import begun, encoded, learned_from
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import FEATURES, LABELS
from tests.app.shared_world import World, lived, rows, stream

KINDS = {"own": (1, "partition"), "owns": (3, "partition"), "shared": (3, "shared"), "one shared": (1, "shared")}
ELSEWHERE = {"topics": {"features": "wide-features", "labels": "wide-labels"}}
FIELDS: dict[str, dict[str, Any]] = {
    "tree": {},
    "forest": {"champion": {"model": "adaptive-random-forest", "n_models": 3}, "drift": "none"},
    "pool": {"champion": {"model": "opinion-pool", "members": {"t": "hoeffding-tree", "n": "naive-bayes"}}},
}
MODELS = list(FIELDS)


def exported(learner: PartitionLearner) -> Stored:
    """What `riparian export` writes of a partition, and `riparian import` reads."""
    return portable.unpack(portable.pack_checkpoint(encoded(learner.spec, learner, 7), learner.partition), "f.state")


def restarted(spec: Spec, file: Stored) -> list[PartitionLearner]:
    """All partitions as workers load what the import has written."""
    found = []
    for p in range(spec.partitions):
        made = encoded(spec, begun(spec, file, p, "f.state")[0], 1)
        learner = PartitionLearner(spec, p)
        assert learner.restore(checkpoint.decode(made.manifest, made.new), spec.input_topics) == []
        found.append(learner)
    return found


def world_of(spec: Spec, learners: list[PartitionLearner]) -> World:
    world = World(spec)
    world.learners, world._merges = learners, [PartitionGroup(learner.buffers()) for learner in learners]
    return world


def models(learner: PartitionLearner) -> dict[str, Any]:
    arrays = under(learner._arrays(), "models/")
    left_out = {name.removeprefix("models/") for role in learner.roles.values() for name in role.incomparable}
    return {name: array for name, array in arrays.items() if name not in left_out}


def voted(world: World, p: int) -> list[tuple[Any, dict[str, float]]]:
    """What was predicted since the world began to be asked."""
    told = [json.loads(value) for value in world.sent[p]]
    return [(one["y"], {name: value for name, value in one["p"].items() if value}) for one in told]


@pytest.mark.parametrize(
    ("was", "kind", "model"),
    [
        (was, kind, MODELS[(i + j) % 3])
        for i, was in enumerate(("own", "owns", "shared"))
        for j, kind in enumerate(KINDS)
    ],
)
def test_all_partitions_begin_with_what_was_learned(was: str, kind: str, model: str) -> None:
    fields = FIELDS[model]
    before = lived(stream(*KINDS[was], **fields), 360)
    source = before.learners[len(before.learners) - 1]
    spec = stream(*KINDS[kind], **{**fields, "name": "wide", **ELSEWHERE})
    learners = restarted(spec, exported(source))
    for learner in learners:
        assert (learner.offsets[FEATURES], learner.offsets[LABELS]) == (0, 0)
        assert learner.vocabularies[1].values == source.vocabularies[1].values  # type: ignore[union-attr]
        assert learner.classes.values == source.classes.values  # type: ignore[union-attr]
        assert learner.figures().overall["champion"]["n"] == 0
        assert models(learner).keys() == models(source).keys()
        for name, array in models(source).items():
            np.testing.assert_array_equal(models(learner)[name], array, name)
    asked = rows(40, 5)
    for sent in before.sent:
        sent.clear()
    for x, _ in asked:
        before.raw[source.partition][FEATURES].append((10**6, json.dumps({"id": f"q{x}", "x": x}).encode()))
    before.step(source.partition)
    world = world_of(spec, learners)
    for p in range(spec.partitions):
        world.raw[p][FEATURES] += [(1, json.dumps({"id": f"q{i}", "x": x}).encode()) for i, (x, _) in enumerate(asked)]
        world.step(p)
        assert voted(world, p) == voted(before, source.partition)
    made = rows(150, 9)
    for at in range(0, 150, 15):
        world.come(made[at : at + 15])
        for p in range(spec.partitions):
            world.step(p, 3)
    world.finish()
    assert (len({one.lineup.digest() for one in world.learners}) == 1) == (spec.shares or spec.partitions == 1)


def test_what_is_known_of_keys_goes_on_and_is_written_anew() -> None:
    keys = {"keys": {"d": {"max": 1000}}, "features": {"a": "numeric", "n": {"count": "d", "half_life": "2s"}}}
    before = lived(stream(1, "partition", **keys)).learners[0]
    (learner,) = restarted(stream(1, "partition", name="wide", **ELSEWHERE, **keys), exported(before))
    assert len(before.past.state()["d/sums"]) == 2
    for name, array in before.past.state().items():
        np.testing.assert_array_equal(learner.past.state()[name], array, name)


def test_a_partition_goes_on_in_the_topics_that_its_models_have_learned() -> None:
    before = lived(stream(1, "partition"))
    file = exported(before.learners[0])
    other = stream(3, "shared", name="wide", topics={"features": "s.features", "labels": "s.labels"})
    assert learned_from(other, file.manifest)
    places = [(one.offsets[FEATURES], one.offsets[LABELS], bool(one.marks())) for one in restarted(other, file)]
    assert places == [(600, 600, True), (0, 0, False), (0, 0, False)]
    assert restarted(other, file)[0].clocks[FEATURES].time == before.learners[0].clocks[FEATURES].time
    assert not learned_from(stream(3, name="wide"), file.manifest)


def test_models_that_the_state_does_not_have_begin_anew_and_the_champion_has_to_be_there() -> None:
    file = exported(lived(stream(1, "partition")).learners[0])
    learner, anew = begun(stream(2, challengers={"more": "majority-class"}), file, 0, "f.state")
    assert anew == ["more"]
    assert learner.roles["champion"].model.size()["n_nodes"] > 1
    tree = {"model": "hoeffding-tree", "grace_period": 10, "delta": 0.1}
    swapped, anew = begun(stream(2, champion="naive-bayes", challengers={"tree": tree}), file, 0, "f.state")
    assert anew == []
    assert swapped.roles["tree"].model.size() == learner.roles["champion"].model.size()
    with pytest.raises(StateError, match=r"cannot begin with the models of f.state: .* the state has no such model"):
        begun(stream(2, champion="majority-class"), file, 0, "f.state")
    with pytest.raises(StateError, match="a is gone"):
        begun(stream(2, features={"c": "nominal"}), file, 0, "f.state")
    with pytest.raises(StateError, match="classes must begin with those that the state knows"):
        begun(stream(2, classes=["z", "q"]), file, 0, "f.state")


def test_the_stream_file_says_which_of_the_models_is_champion_whatever_commands_have_left() -> None:
    world = World(stream(3, control=True))
    made = rows(200)
    for at in range(0, 200, 20):
        world.come(made[at : at + 20])
        if at == 100:
            world.ask("promote", model="nb")
        for p in range(3):
            world.step(p)
    world.finish()
    source = world.learners[0]
    assert source.roles["champion"].learner_name == "naive-bayes"
    file = exported(source)
    assert STATE in file.manifest.meta
    (learner,) = restarted(stream(1, "partition", control=True, name="narrow", **ELSEWHERE), file)
    assert learner.roles["champion"].learner_name == "hoeffding-tree"
    tree = next(name for name, role in source.roles.items() if role.learner_name == "hoeffding-tree")
    for name, array in under(source._arrays(), f"models/{tree}/").items():
        np.testing.assert_array_equal(under(learner._arrays(), "models/champion/")[name], array)


def test_a_forest_goes_on_with_its_seed_where_the_stream_file_has_another() -> None:
    """Which features its nodes have counted follows from it."""
    forest = FIELDS["forest"]
    source = lived(stream(1, "partition", **forest)).learners[0]
    learner = PartitionLearner(stream(1, "partition", seed=7, **forest))
    for _ in range(2):  # and so at each start from then on
        found = exported(source)
        learner = PartitionLearner(learner.spec)
        learner.restore(checkpoint.decode(*found))
        for name, array in models(source).items():
            np.testing.assert_array_equal(models(learner)[name], array, name)
        source = learner
