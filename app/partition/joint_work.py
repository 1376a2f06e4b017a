"""Work of several partitions that is done in one call, as they take the stages of their steps together. Pure."""

from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar


class JointItem(Protocol):
    """What one partition has to do. like : of work that is done in one call, equal."""

    @property
    def like(self) -> Hashable: ...


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

    def do(self) -> None:
        """What waits, but for what nobody else asks for."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        alike = dict[Hashable, list[A]]()
        for one in waiting:
            alike.setdefault(one.like, []).append(one)
        for group in alike.values():
            if len(group) > 1:
                self._work(group)
