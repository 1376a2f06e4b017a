"""Verification latency: labels that come later than their features, in a file where they stand in one row.

The label of a row is due `delay` after the row itself: a number of rows, or of milliseconds where rows have a time; or
when a column of the file says. It comes after the features of that moment and before those of any later one, as a
worker merges two topics. Labels that are not due at the end of the file come at its end.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from riparian.app.dataset.instances import NEVER, Instances
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.partition_group import Ints, Piece, Release
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.records import Features, Labels, RawBatch


class Lateness:
    """Steps of a learner from instances whose labels come late.

    Parameters
    ----------
    delay : float
        Rows, or seconds.
    timed : bool
        Whether moments are times: then instances expire as the stream's horizon says. A number of rows is no time,
        and nothing expires.
    """

    def __init__(self, learner: PartitionLearner, delay: float, timed: bool = False) -> None:
        self.learner, self.timed = learner, timed
        self.delay = round(delay * 1000) if timed else int(delay)  # rows, or milliseconds
        # Waiting rows, in order: their numbers, their labels, and when these are due.
        self.rows, self.y, self.due = np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64)
        self.next_label = 0  # offset in the labels topic that there would be

    def step(self, instances: Instances) -> Outcome:
        """Predict the instances, and learn the labels that come between them."""
        first, n = instances.first, len(instances.times)
        rejected = {one.position for one in instances.rejected}
        kept = [i for i in range(n) if i not in rejected] if rejected else None
        positions = range(n) if kept is None else kept
        x = instances.x if kept is None else instances.x[kept]
        if instances.due is None:
            labelled, due = np.flatnonzero(~np.isnan(instances.y)), instances.times + self.delay
        else:
            labelled, due = np.flatnonzero(instances.due != NEVER), instances.due
        self.rows = np.concatenate((self.rows, first + labelled))
        self.y = np.concatenate((self.y, instances.y[labelled]))
        self.due = np.concatenate((self.due, due[labelled]))
        if instances.due is not None:
            order = np.argsort(self.due, kind="stable")
            self.rows, self.y, self.due = self.rows[order], self.y[order], self.due[order]
        before = np.searchsorted(self.due, instances.times, side="left")
        keys = [column if kept is None else [column[i] for i in kept] for column in instances.keys]
        features = Features(kept, [str(first + i) for i in positions], x, None, None, [], instances.sizes, keys)
        self.learner.past.origin = instances.origin
        times = instances.times if self.timed else np.zeros(n, np.int64)
        n_due = int(np.searchsorted(self.due, instances.until, side="left"))
        return self._apply(features, _piece(range(first, first + n), times), n_due, before.astype(np.int64))

    def finish(self, size: int) -> Iterator[Outcome]:
        """Learn the labels that are left, in steps of at most `size`."""
        none = np.zeros((0, self.learner.schema.n_features))
        features = Features(None, [], none, None, None, [], keys=[[]] * len(self.learner.spec.keys))
        nothing = np.zeros(0, np.int64)
        while len(self.rows):
            yield self._apply(features, _piece([], nothing), min(size, len(self.rows)), nothing)

    def _apply(self, features: Features, piece: Piece, n: int, before: Ints) -> Outcome:
        """A step that ends with the first `n` of the waiting labels."""
        ids, y, due = [str(row) for row in self.rows[:n].tolist()], self.y[:n].tolist(), self.due[:n]
        self.rows, self.y, self.due = self.rows[n:], self.y[n:], self.due[n:]
        offsets = range(self.next_label, self.next_label + n)
        self.next_label += n
        labels = Labels(None, ids, y, None, [])
        times = due if self.timed else np.zeros(n, np.int64)
        return self.learner.apply(
            features, labels, Release({FEATURES: piece, LABELS: _piece(offsets, times)}, {LABELS: before})
        )


def _piece(offsets: Sequence[int], times: Ints) -> Piece:
    n = len(offsets)
    nothing: list[Any] = [None] * n
    return Piece(RawBatch(list(offsets), [0] * n, nothing, nothing), np.array(offsets, dtype=np.int64), times)
