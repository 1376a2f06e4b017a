"""What models that several partitions share predict in one call (to the bit what they would alone: test_replica.py)."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from riparian.app.partition.joint_work import FEW, JointWork
from riparian.app.partition.predictions.joint_prediction import Unpredicted
from riparian.app.partition.shared.replica import FollowedLearning


def served(model: Any) -> tuple[Any, list[Any]]:
    kept = list[Any]()
    serving = SimpleNamespace(ask=model, keep=lambda rows, found: kept.append((rows.tolist(), found[0].tolist())))
    return ({"champion": None}, {"champion": serving}), kept


def test_each_gets_what_was_predicted_for_it_at_its_rows() -> None:
    joint, calls = JointWork[Unpredicted](), list[int]()

    def model(_: None, x: Any) -> list[Any]:
        calls.append(len(x))
        return [10 * x]

    partitions = [served(model) for _ in range(3)]
    made = [
        joint.wait(Unpredicted(*one, np.full((n, 1), float(n)), np.arange(n, dtype=np.int32) + 7))
        for (one, _), n in zip(partitions, (1, 3, 2), strict=True)
    ]
    for one in made:
        joint.do(one)
    assert calls == [6]
    assert [one.done for one in made] == [True] * 3
    assert [kept for _, kept in partitions] == [[([*range(7, 7 + n)], [[10.0 * n]] * n)] for n in (1, 3, 2)]


def test_a_model_that_fails_does_so_in_the_partition_whose_instance_it_is() -> None:
    joint, (one, kept) = JointWork[Unpredicted](), served(lambda *_: 1 // 0)
    made = [joint.wait(Unpredicted(*one, np.zeros((1, 1)), np.zeros(1, np.int32))) for _ in range(2)]
    joint.do(made[0])
    assert [one.done for one in made] == [False, False]
    assert not kept


@pytest.mark.parametrize(("n", "asks"), [(0, False), (1, True), (FEW, True), (FEW + 1, False)])
def test_partitions_ask_for_a_few_instances(n: int, asks: bool) -> None:
    learning: Any = SimpleNamespace(_replica=SimpleNamespace(prediction=JointWork()), translated=lambda x: x)
    learning.roles = learning.servings = {}
    rows = np.zeros(n, np.int32)
    batch: Any = SimpleNamespace(features=SimpleNamespace(x=np.zeros((n, 2))), joined=SimpleNamespace(predicted=rows))
    assert (FollowedLearning.ask(learning, batch) is not None) is asks
    learning._replica = None
    assert FollowedLearning.ask(learning, batch) is None
