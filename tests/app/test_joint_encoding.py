"""What several partitions encode in one call is to the byte what each would encode for itself."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from riparian.app.partition.joint_work import FEW, JointWork
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.predictions.joint_encoding import Unencoded
from riparian.app.partition.records.partition_group import PartitionGroup
from riparian.app.stream_file.spec import build
from riparian.topics.names import CONTROL
from riparian.topics.records import RawBatch
from tests.app.test_joint_decoding import STREAM, Streams
from tests.app.test_joint_decoding import STREAMS as DECODED

TREE = {"model": "hoeffding-tree", "grace_period": 10}
STREAMS: dict[str, dict[str, Any]] = {
    "classes": {},
    "names": {"predictions": {"probabilities": False}},
    "numbers": {"task": "regression", "champion": "fimt-dd"},
    "commands": {"control": True},
    "challengers": {"challengers": {"other": TREE}, "predictions": {"challengers": True}},
    "sets": {"predictions": {"coverage": 0.9}},
    "reasons": {"predictions": {"reasons": {"top": 1}}},
    "past": {**DECODED["keys"], "predictions": {"features": True}},
    "arrow": {"codec": {"predictions": "arrow"}},
    "several": {"codec": {"features": "arrow"}},
    "costs": {"decision": {"costs": {"1": {"other": 5}}}},
}


def told_together(learners: Sequence[PartitionLearner], outcomes: Sequence[Outcome]) -> list[Sequence[bytes] | None]:
    encoding = JointWork[Unencoded]()
    asked = [encoding.wait(one.unencoded(outcome)) for one, outcome in zip(learners, outcomes, strict=True)]
    found = [None if one is None else encoding.do(one).found for one in asked]
    assert not encoding._waiting
    return found


@pytest.mark.parametrize("name", STREAMS)
def test_partitions_encode_together_what_each_would_for_itself(name: str) -> None:
    streams = Streams(build({**STREAM, **STREAMS[name]}, name), len(name))
    learners, n_together = streams.workers[0], 0
    for _ in range(80):
        for p in range(4):
            streams.come(p, "features")
            streams.come(p, "labels")
        outcomes = [alone for alone, _ in streams.round()]
        for learner, outcome, values in zip(learners, outcomes, told_together(learners, outcomes), strict=True):
            n_together += values is not None
            assert values is None or list(values) == list(learner.encode(outcome))
    assert (n_together > 0) == (name in ("classes", "names", "numbers", "commands"))


def test_partitions_whose_predictions_say_otherwise_encode_for_themselves() -> None:
    """One has obeyed a promotion, one is of a file that asks for names alone, and one's model was called otherwise."""
    fields = {**STREAM, "partitions": 5, "control": True, "classes": ["1", "2"]}
    streams, n_together = Streams(build(fields, "s"), 5), [0] * 5
    learners, merges = streams.workers[0], streams.merges[0]
    learners[2] = PartitionLearner(build({**fields, "predictions": {"probabilities": False}}, "s"), 2)
    merges[2] = PartitionGroup(learners[2].buffers())
    asked: list[dict[str, Any]] = [
        {"command": "add", "model": "other", "definition": {"model": "majority-class"}},
        {"command": "promote", "model": "other"},
        {"command": "drop", "model": "hoeffding-tree"},
    ]
    commands = [json.dumps({"id": str(i), **one}).encode() for i, one in enumerate(asked)]
    merges[1].buffers[CONTROL].add(RawBatch([0, 1, 2], [1000] * 3, [None] * 3, commands))
    for _ in range(40):
        for p in range(5):
            streams.come(p, "features")
            streams.come(p, "labels")
        outcomes = [alone for alone, _ in streams.round()]
        outcomes[4] = outcomes[4]._replace(lineups=[one._replace(model="other") for one in outcomes[4].lineups])
        for p, values in enumerate(told_together(learners, outcomes)):
            n_together[p] += values is not None
            assert values is None or list(values) == list(learners[p].encode(outcomes[p]))
    assert {name: one.learner_name for name, one in learners[1].roles.items()} == {"champion": "majority-class"}
    assert [n > 0 for n in n_together] == [True, False, False, True, False]


def test_an_error_of_one_partition_s_predictions_is_that_partition_s_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(build(STREAM, "s"), 3)
    learners = streams.workers[0]
    for p in range(4):
        while not len(streams.merges[0][p].buffers["features"]):
            streams.come(p, "features")
    outcomes = [alone for alone, _ in streams.round()]

    def ends(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(learners[0].codec, "encode_predictions", ends)
    assert told_together(learners, outcomes) == [None] * 4
    assert all(len(one.ids) <= FEW for one in outcomes)
