"""What is done in one call for several partitions, and whose seconds these are."""

from types import SimpleNamespace

import pytest

from riparian.app.partition import joint_work as module
from riparian.app.partition.joint_work import JointItem, JointWork


def test_each_has_its_share_of_what_was_done_together_whoever_came_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, groups = SimpleNamespace(now=0.0), list[list[int]]()
    monkeypatch.setattr(module, "busy_time", lambda: clock.now)

    class Item(JointItem):
        @staticmethod
        def together(group: list[JointItem]) -> None:
            groups.append([one.n for one in group])
            clock.now += 16.0 if group[0].like == "a" else 6.0

    joint = JointWork[Item]()
    asked = [Item(like, n) for like, n in (("a", 1), ("b", 4), ("a", 3), ("c", 9), ("b", 2))]
    assert [joint.wait(one) for one in asked] == asked
    for one in asked[::-1]:  # the last comes to it first
        joint.do(one)
    assert groups == [[1, 3], [4, 2]]  # and nobody else asks for what the fourth does
    assert [one.seconds for one in asked] == [4.0, 4.0, 12.0, 0.0, 2.0 - 22.0]
    assert sum(one.seconds for one in asked) == 0.0  # they have taken 22 s together, in the stage of the last


def test_who_asks_alone_does_it_alone() -> None:
    joint = JointWork[JointItem]()
    one = JointItem("a", 5)  # which has no way to be done with others
    assert joint.wait(one) is one
    assert joint.wait(None) is None
    assert joint.do(joint.do(one)) is one
    assert one.seconds == 0.0
