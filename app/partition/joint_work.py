"""Work of several partitions that is done in one call, as they take the stages of their steps together. Pure."""

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

from riparian.models.kernels.threads import busy_time

FEW = 16  # records of one partition, at most: a call for more costs less than they do


class JointItem:
    """What one partition has to do.

    Parameters
    ----------
    like : hashable
        Of work that is done in one call, equal.
    n : int
        Records.

    Attributes
    ----------
    seconds : float
        To be added to those that its stages have taken: its share, by records, of what was done together, less all of
        it where that was done in one of them. By `busy_time`, so never more than any clock has counted there.
    """

    def __init__(self, like: Hashable, n: int) -> None:
        self.like, self.n, self.seconds = like, n, 0.0

    @staticmethod
    def together(group: list[Any]) -> None:
        """Do what several have asked for, of one likeness, and leave it with them."""
        raise NotImplementedError


A = TypeVar("A", bound=JointItem)


class JointWork(Generic[A]):
    """Of partitions that take each stage of their steps together, in one thread: in one stage all ask, in the next each
    takes what came of it."""

    def __init__(self) -> None:
        self._waiting: list[A] = []

    def wait(self, asked: A | None) -> A | None:
        """Do this with what others ask for."""
        self._waiting += [] if asked is None else [asked]
        return asked

    def do(self, asked: A) -> A:
        """What waits, but for what nobody else asks for, in a stage of the partition that has asked for this, which is
        returned."""
        waiting, self._waiting = self._waiting, []
        alike = dict[Hashable, list[A]]()
        for one in waiting:
            alike.setdefault(one.like, []).append(one)
        for group in alike.values():
            if len(group) > 1:
                began = busy_time()
                type(asked).together(group)
                seconds = busy_time() - began
                asked.seconds -= seconds
                each = seconds / max(1, sum([one.n for one in group]))
                for one in group:
                    one.seconds += one.n * each
        return asked
