"""A partition that is added to a stream: it begins as if it had been there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from riparian.app.errors import TopicError
from riparian.app.kafka import admin
from riparian.app.kafka.admin import led_partitions
from riparian.app.kafka.connection import Connection
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EVERYTHING, PartitionGroup
from riparian.app.state.growing import prospect
from riparian.topics.names import LEARNED, changelog_topic
from riparian.topics.records import RawBatch
from tests.app.shared_world import DECISIONS, World, commanded, lived, rows, stream
from tests.broker.harness import stream_file


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


@pytest.mark.parametrize(
    ("grow", "features", "labels", "said"),
    [
        ("follow", 2, 2, None),
        ("follow", 4, 3, "have 3 partitions, the stream 2: it grows with a worker; 3 is no multiple of 2"),
        ("follow", 8, 8, "have 8 partitions, the stream 2: it grows with a worker"),
        ("ask", 4, 4, "have 4 partitions, the stream 2: the stream file says grow: ask, so run riparian grow"),
        ("ask", 4, 2, "s.features has 4 partitions, the stream 2: give the other input as many"),
    ],
)
def test_check_says_what_becomes_of_partitions_that_were_added(
    tmp_path: Path, grow: str, features: int, labels: int, said: str | None
) -> None:
    _, spec = stream_file(tmp_path, "s", partitions=2, grow=grow)
    found = prospect(spec, {"s.features": features, "s.labels": labels})
    assert found == said or (found is not None and said is not None and said in found)
    assert ("riparian_unmatched_labels_total" in (found or "")) == (min(features, labels) % 2 == 1)


@pytest.mark.parametrize(
    ("n_state", "n_learned", "said"),
    [
        (None, 1, None),
        (None, 4, r"Expected 1 partition of s\.learned, .* found 4"),
        (2, 4, None),  # of the log of a stream that has begun the first one is read, also while it runs
        (
            4,
            1,
            r"found 2 partitions in s\.features and s\.labels: .* let these have 4 partitions, too \(kafka-topics.sh",
        ),
    ],
)
def test_partitions_that_a_start_takes(
    monkeypatch: pytest.MonkeyPatch, n_state: int | None, n_learned: int, said: str | None
) -> None:
    spec = stream(2)
    present = dict.fromkeys(admin.stream_topics(spec).values(), 2) | {str(spec.topics.learned): n_learned}
    present |= {} if n_state is None else {changelog_topic(spec.name): n_state}

    @asynccontextmanager
    async def client(_: Connection) -> AsyncIterator[None]:
        yield None

    async def counts(*_: Any) -> dict[str, int]:
        return present

    monkeypatch.setattr(admin, "admin_client", client)
    monkeypatch.setattr(admin, "partition_counts", counts)
    check = admin.check_topics(spec, Connection("127.0.0.1:9"))
    if said is None:
        assert asyncio.run(check).missing == ()
    else:
        with pytest.raises(TopicError, match=said):
            asyncio.run(check)


def test_partitions_that_a_broker_does_not_tell_of_yet_are_waited_for() -> None:
    """It tells of new ones a moment after it has made them."""
    told = [[0, 1], [0, 1, -1, -1], [0, 1, 2, 0]]  # the leader of each partition

    class Late:
        async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
            partitions = [{"leader": leader} for leader in told.pop(0)]
            return [{"topic": names[0], "error_code": 0, "partitions": partitions}]

    assert asyncio.run(led_partitions(Late(), ["t"], 4)) == {"t": 4}
    assert not told
