"""Work of several partitions that is done in one call, as they take the stages of their steps together. Pure."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from riparian.models.kernels.threads import busy_time


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


A = TypeVar("A", bound=JointItem)


class JointWork(Generic[A]):
    """In one stage all ask, in the next each takes what came of it.

    Parameters
    ----------
    work : callable
        Does what several have asked for, of one likeness, and leaves it with them.
    """

    def __init__(self, work: Callable[[list[A]], None]) -> None:
        self._work = work
        self._waiting: list[A] = []

    def wait(self, asked: A) -> A:
        """Do this with what others ask for."""
        self._waiting.append(asked)
        return asked

    def do(self, asked: A) -> None:
        """What waits, but for what nobody else asks for, in a stage of the partition that has asked for this."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        alike = dict[Hashable, list[A]]()
        for one in waiting:
            alike.setdefault(one.like, []).append(one)
        for group in alike.values():
            if len(group) > 1:
                began = busy_time()
                self._work(group)
                seconds = busy_time() - began
                asked.seconds -= seconds
                each = seconds / max(1, sum([one.n for one in group]))
                for one in group:
                    one.seconds += one.n * each
