"""Drift detectors over a series: the errors of a model, or the values of a numeric feature. Pure.

An error of a classification is 1 where the most probable class was wrong and 0 where it was right; of a regression it
is the absolute error. Left out are missing values, and labels whose instance got no prediction because the model knew
nothing yet. Detectors assume values in [0, 1], so they get

- errors of a classification as they are;
- an absolute error e as 1 - exp(-e / m), and a feature's value as 1 / (1 + exp(-z)). The scale is measured on the first
  values and stays. Where it no longer fits by far, it is measured anew, the detectors forget what they have seen, and a
  new period begins (models/drift/scaling.py).

Everything here depends on the order of the values alone: events, their figures and the state have the same bits,
however the series was divided into updates.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import EMPTY, over, under
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.drift import create, find
from riparian.models.drift.contract import DRIFT, WARNING
from riparian.models.drift.scaling import CENTRE, FIRST, LEAST, WIDTH, bring, new_scale
from riparian.models.evaluation.costs import likeliest
from riparian.models.kernels.kernel import kernel
from riparian.models.restoring import DamagedError, check, check_shapes, named
from riparian.topics.records import Shift

RECENT = 100  # values that `after` is the mean of
CLEARLY = 2.0  # errors have clearly risen where their mean is higher by more than so many standard errors

LEVELS = ("warning", "drift", "improvement")  # the last: a detector fired because errors have fallen

# What a series holds, and how it is scaled.
MISTAKES, ABSOLUTE, VALUES = "mistakes", "absolute", "values"

# Places in a signal's totals: values seen; number and sum of those of this period, since the last drift or new scale;
# how many had been seen at the last drift that was no improvement (0: none); the mean of the last values of the period
# before (NaN: none).
SEEN, SINCE, SINCE_SUM, LAST, REFERENCE = range(5)

FIELDS = ("totals", "scale", "recent", "counts", "times", "levels")  # what a signal knows besides its detectors


class Detection(NamedTuple):
    """A detector raised its level at a value of a series.

    A period of the series begins at a drift, or where the scale was measured anew.

    Attributes
    ----------
    i : place of the value in the update.
    detector : its name.
    level : one of LEVELS; "" where a trial ended, which no detector said.
    n : values of the series so far.
    before : mean of the values of this period without the last 100. Where it has no more than these (a detector may
        find one change in two steps), the mean of the last 100 of the period before; NaN where there was none.
    after : mean of the last 100 values of this period, in the series' own unit like `before`.
    """

    i: int
    detector: str
    level: str
    n: int
    before: float
    after: float

    @property
    def is_drift(self) -> bool:
        return self.level == LEVELS[1]

    @property
    def rose(self) -> bool:
        """Whether it is known that the mean has risen."""
        return self.level != LEVELS[2] and self.after > self.before


class Finding(NamedTuple):
    """What is to be said of one place in a program.

    place : of the operation.
    role : of the model whose errors or predictions changed; None for a feature.
    name : "error", "prediction", or the feature's name.
    stamp : given `found` and a time, ms, remembers when it was.
    found : what changed, and how.
    action : what is done about it; None for nothing.
    shift : how its distribution changed, where that was tested.
    """

    place: int
    role: str | None
    name: str
    stamp: Callable[[Detection, int], None]
    found: Detection
    action: str | None
    shift: Shift | None = None


class Signal:
    """Detectors of one series, and what their events say.

    Parameters
    ----------
    detectors : mapping
        Name of a detector -> its parameters.
    kind : str
        MISTAKES, ABSOLUTE or VALUES. Detectors that are about rates of errors do not watch VALUES.
    """

    def __init__(self, detectors: Mapping[str, Mapping[str, Any]], kind: str, *, seed: int = 0) -> None:
        self.kind = kind
        self.detectors = {
            name: create(name, seed=seed, **given)
            for name, given in detectors.items()
            if kind != VALUES or not find(name).errors_only
        }
        n = len(self.detectors)
        self.totals = np.array([0.0, 0.0, 0.0, 0.0, np.nan])
        self.scale = new_scale() if kind != MISTAKES else np.zeros(3)
        self.recent = np.zeros(0)  # the last values, oldest first
        self.counts = np.zeros((n, len(LEVELS)), np.int64)
        self.times = np.zeros((n, len(LEVELS)), np.int64)  # ms of the last event
        self.levels = np.zeros(n, np.int8)  # the last ones

    def update(self, values: Floats) -> list[Detection]:
        """Take finite values; what the detectors found, in order."""
        if not len(values):
            return []
        told: list[Detection] = []
        fired = self._fired(values)
        start = self._note(values, fired, told) if fired else 0
        if len(self.recent) < RECENT:  # room for more, in front, from where values move on
            more = min(len(values), RECENT - len(self.recent))
            self.recent = np.concatenate((np.zeros(more), self.recent))
        _follow(values, start, self.totals, self.recent)
        return told

    def _note(self, values: Floats, fired: list[tuple[int, int, str, int]], told: list[Detection]) -> int:
        """The figures of events in order; a drift begins a new period. Sums run from the period's start, one by one.
        Returns up to which of the values the totals know them."""
        known = np.concatenate((self.recent, values))
        seen, n, total, start = int(self.totals[SEEN]), self.totals[SINCE], self.totals[SINCE_SUM], 0
        for i, k, name, level in sorted(fired):
            if k < 0:  # the scale is another one from here on
                n, now = n + i - start, len(self.recent) + i
                self.totals[REFERENCE] = known[now - min(int(n), RECENT) : now].mean() if n else np.nan
                n, total, start = 0.0, 0.0, i
                continue
            if told and told[-1].i == i and told[-1].level != LEVELS[0]:  # the same values, seen by another detector
                which = LEVELS.index(told[-1].level) if level == DRIFT else 0
                self.counts[k, which] += 1
                told.append(told[-1]._replace(detector=name, level=LEVELS[which]))
                continue
            n, total, start = n + i + 1 - start, _sum(total, values[start : i + 1]), i + 1
            after = known[max(0, len(self.recent) + i + 1 - RECENT) : len(self.recent) + i + 1]
            after = after[-int(n) :] if n else after[-1:]
            rest = n - len(after)
            before = float((total - after.sum()) / rest if rest > 0 else self.totals[REFERENCE])
            mean = float(after.mean())
            which = level - WARNING
            if level == DRIFT:
                follows = self.totals[LAST] == seen + i + 1 - n  # the event before was no improvement
                n = total = 0.0
                self.totals[REFERENCE] = mean
                if self.kind != VALUES and _fallen(before, after, rest > 0, follows):
                    which += 1
                else:
                    self.totals[LAST] = seen + i + 1
            self.counts[k, which] += 1
            told.append(Detection(i, name, LEVELS[which], seen + i + 1, before, mean))
        self.totals[[SINCE, SINCE_SUM]] = n, total
        return start

    def _fired(self, values: Floats) -> list[tuple[int, int, str, int]]:
        """Place, number, name and level of detectors that raised theirs; -1 for the number where the scale changed."""
        fired, start, stop = [], 0, len(values)
        scaled = values if self.kind == MISTAKES else np.empty(len(values))
        while start < len(values):
            if self.kind != MISTAKES:
                stop = int(bring(values, scaled, start, self.scale, self.kind == ABSOLUTE))
            for k, (name, detector) in enumerate(self.detectors.items() if stop > start else ()):
                levels = detector.update_many(scaled[start:stop])
                if not np.count_nonzero(levels):
                    self.levels[k] = 0
                    continue
                previous = np.concatenate((self.levels[k : k + 1], levels[:-1]))
                fires = (levels == DRIFT) | ((levels == WARNING) & (previous == 0))
                if fires.any():
                    fired += [(start + i, k, name, int(levels[i])) for i in np.flatnonzero(fires).tolist()]
                self.levels[k] = levels[-1]
            if stop < len(values):
                fired.append((stop, -1, "", 0))
                self._begin_anew()
            start = stop
        return fired

    def _begin_anew(self) -> None:
        for detector in self.detectors.values():
            detector.reset()
        self.levels[:] = 0

    def stamp(self, found: Detection, time: int) -> None:
        """Remember when an event was."""
        self.times[list(self.detectors).index(found.detector), LEVELS.index(found.level)] = time

    def forget(self) -> None:
        """Begin a new period with new detectors: the errors to come are another model's."""
        self._begin_anew()
        self.scale[:] = 0.0
        self.totals[[SINCE, SINCE_SUM, REFERENCE]] = 0.0, 0.0, np.nan
        self.recent = np.zeros(0)

    def alarmed(self, n: int) -> bool:
        """Whether there was a drift (no improvement) among the last n values."""
        return bool(self.totals[LAST] > 0 and self.totals[SEEN] - self.totals[LAST] < n)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        twin = Signal({name: detector.parameters() for name, detector in self.detectors.items()}, self.kind)
        twin.update(np.zeros(1))
        errors(self.kind, EMPTY, np.zeros((0, 1)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays: everything that is known."""
        arrays: dict[str, NDArray[Any]] = {field: getattr(self, field) for field in FIELDS}
        for name, detector in self.detectors.items():
            arrays |= over(f"{name}/", detector.state()._asdict())
        return arrays

    def copy(self) -> dict[str, NDArray[Any]]:
        """`state`, copied."""
        return {field: array.copy() for field, array in self.state().items()}

    def restore_from_outside(self, arrays: Mapping[str, NDArray[Any]], name: str) -> None:
        """Restore detectors of anybody's; DamagedError where arrays are none of `state()`. name : of the series, for
        its sentence."""
        with named(f"the detectors of {name}"):
            check_shapes(arrays, {field: getattr(self, field) for field in FIELDS}, {"recent scale": "*"})
            if len(arrays["scale"]) not in (3, len(new_scale())):
                raise DamagedError(f"scale has {len(arrays['scale'])} numbers, not {len(new_scale())}")
            for k, detector in self.detectors.items():
                check(detector, under(arrays, f"{k}/"))
            self.restore(arrays)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()` of the same detectors."""
        for field in FIELDS:
            setattr(self, field, arrays[field].copy())
        if self.kind != MISTAKES and len(self.scale) == 3:
            self.scale = _scale_of(self.scale, self.kind == ABSOLUTE)
        for name, detector in self.detectors.items():
            detector.restore(under(arrays, f"{name}/"))


def _scale_of(sums: Floats, errors: bool) -> Floats:
    """The scale of a state that kept running sums: number and sum of errors, or number, mean and summed squared
    deviation of values."""
    scale, n = new_scale(), sums[0]
    if n >= FIRST:
        scale[CENTRE] = 0.0 if errors else sums[1]
        scale[WIDTH] = max(sums[1] / n if errors else math.sqrt(sums[2] / n), LEAST)
    return scale


def errors(kind: str, program: Program, out: Floats, finite: bool = True) -> tuple[NDArray[np.int64], Floats]:
    """Places in `program` of the LEARNs, and their errors against what was predicted for their rows. finite : leave out
    those for which nothing was predicted, which are NaN."""
    places, found = np.empty(len(program.op), np.int64), np.empty(len(program.op))
    n = _score(program.op, program.row, program.y, out, kind == MISTAKES, finite, places, found)
    return places[:n], found[:n]


@kernel
def _score(op, row, y, out, classes, finite, places, found):
    """Write place and error of each LEARN into `places` and `found`; their number. finite : leave out what is not.
    O(n_outputs) a label."""
    n = 0
    for i in range(len(op)):
        if op[i] != LEARN:
            continue
        r, error = row[i], np.nan
        if classes:
            best = likeliest(out, r)
            if best >= 0:
                error = 0.0 if best == y[i] else 1.0
        elif np.isfinite(out[r, 0]):
            error = abs(out[r, 0] - y[i])
        if finite and not np.isfinite(error):
            continue
        places[n], found[n] = i, error
        n += 1
    return n


@kernel
def _follow(values, start, totals, recent):
    """Values go by, of which totals of the period know those before `start`: add the others, one by one, and put the
    last of them all behind the recent ones. Mutates totals and recent. O(values and recent)."""
    totals[SEEN] += len(values)
    totals[SINCE] += len(values) - start
    for i in range(start, len(values)):
        totals[SINCE_SUM] += values[i]
    n_left = max(0, len(recent) - len(values))
    for i in range(n_left):
        recent[i] = recent[len(recent) - n_left + i]
    for i in range(n_left, len(recent)):
        recent[i] = values[len(values) - len(recent) + i]


def _fallen(before: float, after: Floats, measured: bool, follows_drift: bool) -> bool:
    """Whether a detector fired because errors have become fewer.

    measured : `before` is a mean of this period; else it is what the last event ended with, or NaN where none was. A
    detector finds one change in several steps: one that follows an improvement is part of it, unless errors have
    clearly risen since; equal means are, too, but after a drift. In the first values there is nothing to compare with
    but their own older half.
    """
    mean = float(after.mean())
    if math.isnan(before):
        half = len(after) // 2
        return half > 0 and float(after[half:].mean()) < float(after[:half].mean())
    if follows_drift:
        return mean < before
    if measured:
        return mean <= before
    return mean - before <= CLEARLY * float(after.std()) / math.sqrt(len(after))


def _sum(start: float, values: Floats) -> float:
    """`start` plus the values, added one by one."""
    return float(np.cumsum(np.concatenate(((start,), values)))[-1])
