"""How long after their features labels come, by class, and whether it differs so much that a model errs by it. Pure.

Labels of one class that come earlier than those of the other are learned alone in between: p of that class is too
large then, until the others have come, and after each change of the stream again.
"""

import math
import threading
from collections.abc import Iterable, Sequence

import numpy as np

from riparian.app.partition.join.ids import Ints
from riparian.app.partition.join.maturity import CAME
from riparian.app.stream_file.durations import format_duration
from riparian.models.contract import LEARN, Floats, Program

MOST_CLASSES = 20  # whose delays are known, the first by their codes
LEAST = 100  # labels of a class to judge by
ERRORS = 6.0  # standard errors between two means that are no chance
SHARE = 0.5  # of the longer delay, by which the other has to be shorter
BETWEEN = 1000  # labels that come in between, from which on a model errs by it
FEW = 9  # records without a label beside one with it, from which on a class may be what has none
N, SUM, SQUARES = 0, 1, 2
MOST_LABELS = 512  # that are counted later: those of many steps together cost little more than those of one


class LabelDelays:
    """Of one partition, since it was taken over: not part of the state. A step may add to it in one thread while
    another reads it.

    Attributes
    ----------
    first, last : stream time at the first label and at the latest, ms
    """

    def __init__(self) -> None:
        self._sums = np.zeros((MOST_CLASSES, 3))
        self._steps: list[tuple[Floats, Floats]] = []  # codes and seconds, to count
        self._n_left = 0  # labels of these
        self._lock = threading.Lock()  # of the three
        self.first: int | None = None
        self.last = 0

    @property
    def sums(self) -> Floats:
        """(MOST_CLASSES, 3) float64: labels, the sum of their delays, s, and of the squares of these."""
        with self._lock:
            self._count()
            return self._sums.copy()

    def note(self, events: Program, seconds: Floats, now: int) -> None:
        """A step has joined labels. events, seconds : as `Joined` has them, where these are of the same labels. now :
        ms."""
        if len(seconds):
            self.add(events.y[(events.op == LEARN) | (events.op == CAME)], seconds, now)

    def add(self, codes: Floats, seconds: Floats, now: int) -> None:
        """Labels have come. codes : (n,) of their classes. seconds : (n,) after their features. now : ms."""
        if not len(codes):
            return
        self.first, self.last = now if self.first is None else self.first, now
        with self._lock:
            self._steps.append((codes, seconds))
            self._n_left += len(codes)
            if self._n_left > MOST_LABELS:
                self._count()

    def _count(self) -> None:
        if not self._steps:
            return
        codes, seconds = (np.concatenate(column) for column in zip(*self._steps, strict=True))
        self._steps, self._n_left = [], 0
        found: Ints = codes.astype(np.int64)
        known = found < MOST_CLASSES
        for column, weights in ((N, np.ones(len(seconds))), (SUM, seconds), (SQUARES, seconds * seconds)):
            self._sums[:, column] += np.bincount(found[known], weights[known], MOST_CLASSES)

    def means(self, names: Sequence[str]) -> dict[str, float]:
        """Class -> mean delay of its labels, s."""
        known = self.sums[: len(names)]
        return {names[k]: float(row[SUM] / row[N]) for k, row in enumerate(known) if row[N]}


def apart(found: Iterable[tuple[LabelDelays, Sequence[str]]], horizon: float) -> str | None:
    """A sentence where labels of one class come so much earlier than those of another that models err by it. found : of
    each partition, and the names of its classes. horizon : s, that records wait."""
    sums, spans, total = dict[str, np.ndarray](), list[float](), 0.0
    for one, names in found:
        for name, row in zip(names, one.sums, strict=False):
            sums[name] = sums.get(name, np.zeros(3)) + row
        spans += [] if one.first is None else [(one.last - one.first) / 1000.0]
        total += float(one.sums[:, N].sum())
    judged = {name: row for name, row in sums.items() if row[N] >= LEAST}
    if len(judged) < 2 or not max(spans, default=0.0):
        return None
    means = {name: float(row[SUM] / row[N]) for name, row in judged.items()}
    early, late = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
    difference = means[late] - means[early]
    error = math.sqrt(sum(_variance(judged[name]) / judged[name][N] for name in (early, late)))
    if difference <= max(ERRORS * error, SHARE * means[late]) or total * difference / max(spans) < BETWEEN:
        return None
    after = min(rounded(means[late] + 2.0 * math.sqrt(_variance(judged[late]))), horizon)
    return (
        f"labels of {early} come {format_duration(rounded(difference))} before those of {late}, on average, and "
        f"predictions name {early} too often until these have come: join: {{unlabelled: {{after: "
        f"{format_duration(after)}}}}} in the stream file has labels of both wait for the same time "
        "(docs/build/late-labels.md#labels-of-one-class-that-come-first)"
    )


def alone(found: Iterable[tuple[LabelDelays, Sequence[str]]], n_without: int) -> str | None:
    """A sentence where all labels are of one class, and few records have one. found : as in `apart`. n_without :
    records for which none has come in time."""
    counts = dict[str, float]()
    for one, names in found:
        counts |= {name: counts.get(name, 0.0) + row[N] for name, row in zip(names, one.sums, strict=False) if row[N]}
    n = int(sum(counts.values()))
    if len(counts) != 1 or n < LEAST or n_without < FEW * n:
        return None
    return (
        f"all of {n:,} labels are {next(iter(counts))}, and {n_without:,} records have none: a model that learns one "
        "class names no other; where no label is a label, say which in the stream file: join: {unlabelled: {is: CLASS, "
        "after: 14d}} (docs/build/late-labels.md#when-no-label-means-nothing-happened)"
    )


def _variance(row: Floats) -> float:
    mean = row[SUM] / row[N]
    return max(0.0, float(row[SQUARES] / row[N] - mean * mean))


def rounded(seconds: float) -> float:
    """To two digits of a day, an hour, a minute, a second or a millisecond."""
    unit = next((one for one in (86_400.0, 3600.0, 60.0, 1.0) if seconds >= one), 0.001)
    return float(max(1, round(float(f"{seconds / unit:.2g}")))) * unit
