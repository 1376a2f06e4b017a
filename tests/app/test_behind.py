"""How far a shared model is behind the partition that it predicts for: the bound is kept, and what it costs is told."""

import json
from collections import deque
from typing import Any

import numpy as np
import pytest

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.records.partition_group import EMPTY, EVERYTHING, PartitionGroup, Release
from riparian.app.partition.shared.sharing import records
from riparian.app.stream_file.spec import Spec, build
from riparian.app.worker.shared.model_lag import ModelLag
from riparian.topics.names import FEATURES, LABELS, LEARNED
from riparian.topics.records import RawBatch
from riparian.topics.training_log import write
from tests.app.shared_world import lacked


def stream(learning: Any, **fields: Any) -> Spec:
    base = {"name": "s", "task": "classification", "features": {"a": "numeric"}, "champion": "last-label"}
    return build({**base, "challengers": {}, "partitions": 2, "learning": learning, **fields})


def of_log(merge: PartitionGroup) -> Release:
    """What the replica would learn while the partition waits."""
    pieces = {role: buffer.take(len(buffer) if role == LEARNED else 0) for role, buffer in merge.buffers.items()}
    return Release(pieces, {role: EMPTY for role in pieces if role != FEATURES})


@pytest.mark.parametrize(
    ("learning", "most", "n", "late"),
    [
        ({"max_behind": 10}, 10, 500, 0),
        ({"max_behind": 11}, 11, 500, 3),
        ({"max_behind": 11}, 11, 500, 5000),
        ({"max_behind": 64}, 64, 1000, 3),
        ("shared", 256, 3000, 0),  # once less than a turn of 128 is left, as live
    ],
)
def test_no_prediction_of_a_backlog_lacks_more_than_the_bound(learning: Any, most: int, n: int, late: int) -> None:
    """All records are there at once; what was joined comes back when it likes. Waits and ages are as an oracle counts
    them, in turns of the loop."""
    rng, now = np.random.default_rng(late + most), [0.0]
    features = [json.dumps({"id": str(i), "x": {"a": i % 7}}).encode() for i in range(n)]
    labels = [json.dumps({"id": str(i), "y": "pq"[i % 3 > 1]}).encode() for i in range(n)]
    learner = PartitionLearner(stream(learning), 0)
    merge, behind = PartitionGroup(learner.buffers()), ModelLag(learner.learning, lambda: now[0])

    def come(role: str, values: list[bytes], start: int, delay: int) -> None:
        offsets = list(range(start, start + len(values)))
        stamps = [1000 + i + delay for i in offsets]
        merge.buffers[role].add(RawBatch(offsets, stamps, [None] * len(values), values))

    come(FEATURES, features, 0, 0)
    come(LABELS, labels, 0, late)
    sent, log, came = list[dict[str, Any]](), list[bytes](), 0
    joined_at, waited = deque[float](), 0
    while len(sent) < n or merge.n_waiting:
        held = behind.holds_back(merge)
        outcome = learner.step(of_log(merge) if held else merge.release(EVERYTHING))
        assert not held or not len(outcome.offsets)
        waited += held and len(sent) < n
        sent += [json.loads(value) for value in learner.encode(outcome)]
        places = {role: learner.places[role] for role in (FEATURES, LABELS)}
        log += [write(one) for joint in outcome.joint for one in records(joint, 0, places, 7)]
        if outcome.joint:
            behind.has_joined()
        joined_at += [now[0]] * (learner.pending.counts["joined"] - len(joined_at))
        n_learned = learner.learning.learned
        assert behind.seconds == (now[0] - joined_at[n_learned] if n_learned < len(joined_at) else 0.0)
        now[0] += 1.0
        if rng.random() < 0.3 or len(sent) == n:
            stop = came + int(rng.integers(0, len(log) - came + 1))
            come(LEARNED, log[came:stop], came, 0)
            came = stop
    found = lacked(0, features, labels, sent, dict(enumerate(log)))
    assert max(found) <= most
    assert max(found) >= most // 2 or late == 5000
    assert behind.wait_seconds == waited
    assert waited > 0 or late == 5000


def test_what_was_predicted_before_does_not_wait() -> None:
    learner = PartitionLearner(stream({"max_behind": 30}), 0)
    merge, behind = PartitionGroup(learner.buffers()), ModelLag(learner.learning)
    learner.pending.counts["joined"] = 30
    assert not behind.holds_back(merge)  # nothing waits
    assert merge.limit == 10
    merge.buffers[FEATURES].add(RawBatch([0], [1], [None], [b"{}"]))
    assert behind.holds_back(merge)
    learner.pending.counts["joined"] = 29
    assert not behind.holds_back(merge)  # a step takes no more than is there
    merge.buffers[FEATURES].add(RawBatch(list(range(1, 50)), [1] * 49, [None] * 49, [b"{}"] * 49))
    learner.pending.counts["joined"] = 11
    assert behind.holds_back(merge)
    learner.pending.counts["joined"] = 10
    assert not behind.holds_back(merge)
    learner.pending.counts["joined"] = 11
    assert behind.holds_back(merge)
    merge._owed = {LABELS: 5}
    assert merge.follows
    assert not behind.holds_back(merge)


def test_more_labels_are_taken_where_each_comes_to_all_partitions_unless_a_bound_is_given() -> None:
    keyed = {
        "keys": {"card": {"max": 9}},
        "features": {"a": "numeric", "n": {"count": "card"}},
        "rekey": {"features": "raw", "labels": "late", "by": "card"},
    }
    found = []
    for learning, fields in (("shared", {}), ("shared", keyed), ({"max_behind": 30}, keyed), ("partition", keyed)):
        learner = PartitionLearner(stream(learning, **fields), 0)
        merge = PartitionGroup(learner.buffers())
        ModelLag(learner.learning).holds_back(merge)
        found.append(merge.copies)
    assert found == [1, 2, 1, 1]


def test_the_bound_may_change_at_a_restart() -> None:
    learner = PartitionLearner(stream("shared"), 0)
    for learning in ({"max_behind": 64}, {"max_behind": 999}, "shared"):
        again = PartitionLearner(stream(learning), 0)
        assert again.restore(learner.snapshot()) == []
        assert again.snapshot().meta == learner.snapshot().meta
        learner = again


def test_a_long_backlog_is_taken_in_longer_steps_as_far_as_the_models_know_much() -> None:
    learning = PartitionLearner(stream("shared"), 0).learning
    found = []
    for known, backlog in ((0, 10**6), (640, 10**6), (64_000, 10**6), (64_000, 50_000), (64_000, 0), (10**7, 10**7)):
        learning.lineup.n, learning.backlog = known, backlog  # type: ignore[misc]
        found.append((learning.turn, learning.most_at_once))
    assert found == [(8, 8), (80, 80), (500, 2000), (500, 500), (500, 500), (512, 8192)]
    bound = PartitionLearner(stream({"max_behind": 300}), 0).learning
    bound.backlog = 10**7
    assert (bound.turn, bound.most_at_once) == (100, 100)
