"""Drift detectors over the errors of each model of a partition. Pure.

An error is 1 where the most probable class was wrong and 0 where it was right. In a regression it is the absolute
error e as 1 - exp(-e / m), m being the mean absolute error so far: in [0, 1), as the detectors' bounds want it. A label
whose instance got no prediction (nothing was known yet) counts for nothing.

Everything here is a function of the order of records alone: events, their figures and the state are the same bits
however the stream was cut into batches.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.contract import LEARN, PREDICT, Floats, Program
from models.drift import create
from models.drift.contract import DRIFT, WARNING

RECENT = 100  # errors that `after` is the mean of
LEVELS = {WARNING: "warning", DRIFT: "drift"}

# Places in the totals of a model: errors seen; their number and sum since the last drift; for a regression the number
# and sum of absolute errors.
SEEN, SINCE, SINCE_SUM, ABSOLUTE, ABSOLUTE_SUM = range(5)


class Change(NamedTuple):
    """A detector raised its level.

    n : errors of the model that it had seen. offset, label_offset, time : of the last prediction made before (the next
    label offset at that prediction; effective ms). before, after : mean error since the drift before, and of the last
    100 errors (`before` without these; NaN where there are no others).
    """

    model: str
    detector: str
    level: str
    n: int
    offset: int
    label_offset: int
    time: int
    before: float
    after: float


class _Model:
    """Detectors of one model, and what their events say."""

    def __init__(self, detectors: Mapping[str, Mapping[str, Any]], seed: int) -> None:
        self.detectors = {name: create(name, seed=seed, **given) for name, given in detectors.items()}
        self.totals = np.zeros(5)
        self.recent = np.zeros(0)  # the last errors, oldest first
        self.counts = np.zeros((len(self.detectors), 2), np.int64)  # warnings and drifts
        self.levels = np.zeros(len(self.detectors), np.int8)  # the last ones

    def state(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"totals": self.totals, "recent": self.recent, "counts": self.counts}
        arrays["levels"] = self.levels
        for name, detector in self.detectors.items():
            for field, array in detector.state()._asdict().items():
                arrays[f"{name}/{field}"] = array
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for field in ("totals", "recent", "counts", "levels"):
            setattr(self, field, arrays[field].copy())
        for name, detector in self.detectors.items():
            mine = {f.removeprefix(f"{name}/"): array for f, array in arrays.items() if f.startswith(f"{name}/")}
            detector.restore(mine)

    def scaled(self, absolute: Floats) -> Floats:
        """Absolute errors in [0, 1), each by the mean of those before it and itself."""
        sums = np.cumsum(np.concatenate((self.totals[ABSOLUTE_SUM:], absolute)))[1:]  # in order: the same bits always
        counts = self.totals[ABSOLUTE] + np.arange(1, len(absolute) + 1)
        self.totals[ABSOLUTE], self.totals[ABSOLUTE_SUM] = counts[-1], sums[-1]
        scaled: Floats = -np.expm1(-absolute / np.maximum(sums / counts, np.finfo(float).tiny))
        return scaled

    def update(self, errors: Floats) -> list[tuple[int, str, str, int, float, float]]:
        """(index of the error, detector, level, n, before, after) of each event, in order."""
        events = []
        for k, (name, detector) in enumerate(self.detectors.items()):
            levels = detector.update_many(errors)
            previous = np.concatenate((self.levels[k : k + 1], levels[:-1]))
            for i in np.flatnonzero((levels == DRIFT) | ((levels == WARNING) & (previous == 0))).tolist():
                events.append((i, k, name, int(levels[i])))
                self.counts[k, int(levels[i]) - 1] += 1
            self.levels[k] = levels[-1]
        events.sort()
        # The figures of events in order; a drift begins a new period. Sums run from the period's start, one by one.
        known = np.concatenate((self.recent, errors))
        seen, n, total, start, told = int(self.totals[SEEN]), self.totals[SINCE], self.totals[SINCE_SUM], 0, []
        for i, _, name, level in events:
            n, total, start = n + i + 1 - start, _sum(total, errors[start : i + 1]), i + 1
            after = known[max(0, len(self.recent) + i + 1 - RECENT) : len(self.recent) + i + 1]
            after = after[-int(n) :] if n else after[-1:]
            rest = n - len(after)
            before = float((total - after.sum()) / rest) if rest > 0 else np.nan
            told.append((i, name, LEVELS[level], seen + i + 1, before, float(after.mean())))
            if level == DRIFT:
                n = total = 0.0
        self.totals[SEEN] += len(errors)
        self.totals[SINCE], self.totals[SINCE_SUM] = n + len(errors) - start, _sum(total, errors[start:])
        self.recent = known[-RECENT:].copy()
        return told


def _sum(start: float, values: Floats) -> float:
    """`start` plus the values, added one by one."""
    return float(np.cumsum(np.concatenate(((start,), values)))[-1])


class Watch:
    """What watches the models of a partition.

    Parameters
    ----------
    task : str
        "classification" or "regression".
    roles : iterable of str
        The models.
    detectors : mapping
        Name of a detector -> its parameters, for each model alike. None: nothing is watched.
    seed : int
    """

    def __init__(
        self, task: str, roles: list[str], detectors: Mapping[str, Mapping[str, Any]], *, seed: int = 0
    ) -> None:
        self.classes = task == "classification"
        self.models = {role: _Model(detectors, seed) for role in roles} if detectors else {}
        self._last = np.zeros(3, np.int64)  # offset, label offset and time of the last prediction

    def update(
        self,
        program: Program,
        outs: Mapping[str, Floats],
        offsets: NDArray[np.int64],
        label_offsets: NDArray[np.int64],
        times: NDArray[np.int64],
    ) -> list[Change]:
        """Score every LEARN of `program` against what was predicted for its row.

        Parameters
        ----------
        outs : model -> (capacity, k) predictions by row.
        offsets, label_offsets, times : (n,) int64, of the n PREDICTs in order.
        """
        if not self.models:
            return []
        last = self._last
        if len(offsets):
            self._last = np.array([offsets[-1], label_offsets[-1], times[-1]], np.int64)
        learn = program.op == LEARN
        if not learn.any():
            return []
        rows, y = program.row[learn], program.y[learn]
        changes: list[Change] = []
        for role, model in self.models.items():
            p = outs[role][rows]
            if self.classes:
                scored = np.flatnonzero(p.max(axis=1) > 0.0)
                errors = (p[scored].argmax(axis=1) != y[scored]).astype(np.float64)
            else:
                absolute = np.abs(p[:, 0] - y)
                scored = np.flatnonzero(np.isfinite(absolute))
                errors = model.scaled(absolute[scored]) if len(scored) else absolute[:0]
            if not len(scored):
                continue
            for i, detector, level, n, before, after in model.update(errors):
                at = np.flatnonzero(learn)[scored[i]]
                predicted = int(np.count_nonzero(program.op[:at] == PREDICT)) - 1
                place = last if predicted < 0 else (offsets[predicted], label_offsets[predicted], times[predicted])
                offset, label_offset, time = map(int, place)
                changes.append(Change(role, detector, level, n, offset, label_offset, time, before, after))
        return changes

    def counts(self) -> dict[tuple[str, str, str], int]:
        """(model, detector, level) -> events since the stream began."""
        return {
            (role, name, LEVELS[level]): int(model.counts[k, level - 1])
            for role, model in self.models.items()
            for k, name in enumerate(model.detectors)
            for level in LEVELS
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays: everything that is known."""
        if not self.models:
            return {}
        arrays: dict[str, NDArray[Any]] = {"last": self._last}
        for role, model in self.models.items():
            for field, array in model.state().items():
                arrays[f"{role}/{field}"] = array
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what is there of an earlier `state()`: models and detectors that were not watched begin anew."""
        if "last" in arrays:
            self._last = arrays["last"].copy()
        for role, model in self.models.items():
            mine = {f.removeprefix(f"{role}/"): array for f, array in arrays.items() if f.startswith(f"{role}/")}
            known = {f.partition("/")[0] for f in mine if "/" in f}
            if known == set(model.detectors):
                try:
                    model.restore(mine)
                except ValueError:  # other parameters, other shapes
                    continue
