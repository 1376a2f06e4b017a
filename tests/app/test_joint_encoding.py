"""What several partitions encode in one call is to the byte what each would encode for itself."""

from collections.abc import Sequence
from typing import Any

import pytest

from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.predictions.joint_encoding import FEW, JointEncoding
from riparian.app.stream_file.spec import build
from tests.app.test_joint_decoding import STREAM, Streams

TREE = {"model": "hoeffding-tree", "grace_period": 10}
STREAMS: dict[str, dict[str, Any]] = {
    "classes": {},
    "names": {"predictions": {"probabilities": False}},
    "numbers": {"task": "regression", "champion": "fimt-dd"},
    "commands": {"control": True},
    "challengers": {"challengers": {"other": TREE}, "predictions": {"challengers": True}},
    "sets": {"predictions": {"coverage": 0.9}},
    "reasons": {"predictions": {"reasons": {"top": 1}}},
    "costs": {"decision": {"costs": {"1": {"other": 5}}}},
}


def told_together(learners: Sequence[PartitionLearner], outcomes: Sequence[Outcome]) -> list[Sequence[bytes] | None]:
    encoding = JointEncoding()
    asked = [encoding.ask(*both) for both in zip(learners, outcomes, strict=True)]
    found = [None if one is None else encoding.answer(one) for one in asked]
    assert not encoding._work._waiting
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
