"""How far the models that all partitions learn are behind a partition, and whether its predictions wait for them."""

import time
from collections import deque
from collections.abc import Callable

from riparian.app.partition.learning import Learning
from riparian.app.partition.records.partition_group import PartitionGroup
from riparian.topics.names import FEATURES


class ModelLag:
    """Of one partition, in one worker.

    Parameters
    ----------
    clock : callable
        Seconds that never go back.

    Attributes
    ----------
    held, lags : bool
        What `holds_back` found last, and whether that was for the models.
    """

    def __init__(self, learning: Learning, clock: Callable[[], float] = time.monotonic) -> None:
        self._learning, self._clock = learning, clock
        # (n, t): when n instances of the partition had been joined. Those of earlier owners count from here on.
        self._joined = deque([(learning.joined, clock())])
        self._since: float | None = None  # predictions wait
        self._waited = 0.0
        self.held = self.lags = False

    def has_joined(self) -> None:
        """A step has joined instances."""
        while self._joined and self._joined[0][0] <= self._learning.learned:
            self._joined.popleft()
        self._joined.append((self._learning.joined, self._clock()))

    @property
    def seconds(self) -> float:
        """How long ago the first instance was joined that the models have not learned; 0 where there is none."""
        n = self._learning.learned
        return next((self._clock() - at for joined, at in tuple(self._joined) if joined > n), 0.0)

    @property
    def wait_seconds(self) -> float:
        """How long predictions have waited for the models, in all."""
        return self._waited + (0.0 if self._since is None else self._clock() - self._since)

    def holds_back(self, merge: PartitionGroup, waits: Callable[[], bool] = bool) -> bool:
        """Whether nothing may be predicted or joined before the models have learned more, or others of the worker have
        had their turn; it gives the merge the size of its steps. What was predicted before this worker is predicted
        again as it was. waits : whether others come first."""
        merge.limit, merge.copies = self._learning.most_at_once, self._learning.copies
        n, n_waiting = len(merge.buffers[FEATURES]), merge.n_waiting
        may_wait = n_waiting > 0 and not merge.follows
        self.lags = may_wait and self._learning.lags(n, n_waiting)
        self.held = self.lags or (may_wait and waits())
        self._waited = self.wait_seconds
        self._since = self._clock() if self.held and n else None
        return self.held
