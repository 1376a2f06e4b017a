"""A partition that is added to a stream: it begins as if it had been there."""

from typing import Any

import pytest

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.topics.names import LEARNED
from riparian.topics.records import RawBatch
from tests.app.shared_world import DECISIONS, World, commanded, lived, rows, stream


def fed(learner: PartitionLearner, world: World, raw: dict[str, list[tuple[int, bytes]]]) -> list[bytes]:
    """What a partition makes of these records of its own, behind all of the log."""
    merge, sent = PartitionGroup(learner.buffers()), list[bytes]()
    for role, found in {**raw, LEARNED: [(0, value) for value in world.log]}.items():
        at = learner.places[role]
        rest = list(enumerate(found))[at:]
        columns = [k for k, _ in rest], [t for _, (t, _) in rest], [None] * len(rest), [v for _, (_, v) in rest]
        merge.buffers[role].add(RawBatch(*columns))
    while (release := merge.release(EVERYTHING)).n:
        sent += learner.encode(learner.step(release))
    return sent


@pytest.mark.parametrize("of", [0, 2])
@pytest.mark.parametrize(
    "fields",
    [
        {"control": True},
        {"decision": DECISIONS["recall"], "predictions": {"coverage": 0.9, "calibrated": True, "reasons": 2}},
        {"drift": {"detectors": {"adwin": {}}, "features": "all", "distributions": {"window": 100}}},
    ],
)
def test_a_partition_begins_beside_another_as_the_fold_of_the_log(fields: dict[str, Any], of: int) -> None:
    spec = stream(3, **fields)
    world = commanded(spec) if spec.control else lived(spec)
    source = world.learners[of]
    own = World(stream(1, **fields))
    own.come(rows(200, seed=7))
    began = PartitionLearner(spec.with_partitions(4), 3)
    began.begin_beside(source.snapshot(), of)
    folded = PartitionLearner(spec.with_partitions(4), 3)
    assert fed(began, world, own.raw[0]) == fed(folded, world, own.raw[0])
    assert began.digest() == folded.digest()
    assert began.origin is None
    assert began.n_instances == 200
