"""The channel of a stream's agent, whose events are what fetches brought: each begins a round of its partitions."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import faust
from faust.types import TP
from mode.utils.queues import ThrowableQueue

from riparian.app.worker.faust_client.end_offsets import Seen
from riparian.topics.records import RawBatch


class Fetched(NamedTuple):
    """The records of one partition that arrived together.

    epoch : number of the seek that they follow. jump : the offset that was asked for and the one where the client went
    on, where these differ: the records between were deleted, or (backwards) the topic is not what it was. seen : the
    answer that brought them, where it may tell the ends of others.
    """

    raw: RawBatch
    epoch: int
    jump: tuple[int, int] | None = None
    seen: Seen | None = None


Fetch = Sequence[tuple[TP, Fetched]]  # what a fetch brought, by partition; nothing, where a partition has to do


class Fetches(faust.Channel):  # type: ignore[misc]
    """A channel with one queue, which a rebalance leaves alone: partitions that stay go on."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def queue(self) -> ThrowableQueue:
        root = self._root or self
        if root._queue is None:
            root._queue = ThrowableQueue(flow_control=self.app.flow_control)  # which is not asked to clear it
        return root._queue

    def bring(self, fetch: Fetch = ()) -> None:
        """Hand over what a fetch brought; nothing, to begin a round."""
        self.queue.put_nowait(fetch)

    def ask(self) -> None:
        """Begin a round soon; one does for all that ask before it `begins`."""
        if not self._asked:
            self._asked = True
            self.bring()

    def ask_at(self, when: float) -> None:
        """Begin a round then (monotonic)."""
        if self._timer is None or when < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.bring()

    def begins(self) -> None:
        """A round does."""
        self._asked = False
