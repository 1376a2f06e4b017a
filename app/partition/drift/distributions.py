"""How the features and the predictions of a partition are distributed now, beside a reference: without labels. Pure.

The tests are those of `models/drift/two_sample.py`. Here they get names: a series is a feature, or what the champion
predicted, and what was found becomes an event of drift (drift.py) with the counts of both windows. Everything depends
on the order of the instances alone. A series with an alarm begins anew at the next instance: its reference is then the
first whole window after the one that set its bins.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, under
from riparian.app.partition.drift.detection import Detection, Finding
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats
from riparian.models.drift.two_sample import (
    ABSENT,
    MISSING,
    NEW,
    PREDICTION,
    RANGE,
    UNSEEN,
    VALUES,
    TwoSample,
    hellinger,
    stability_index,
)
from riparian.models.restoring import check, check_shapes, named
from riparian.topics.names import CHAMPION
from riparian.topics.records import NUMERIC, REGRESSION, Distance, Shift
from riparian.topics.vocabulary import Scalar, Vocabulary

DETECTOR, SIGNAL = "two-sample", "prediction"
KINDS = {VALUES: "values", ABSENT: "missing", NEW: "unseen", RANGE: "range"}
MOST_TEXT = 100  # characters of a value in an event
MOST_TOLD = 100  # series in a record of the metrics topic


class Distributions:
    """Everything that is watched of a partition without labels.

    Parameters
    ----------
    spec : Spec
        Whose `drift.distributions` is not None.
    vocabularies, classes : of the partition, which grow.
    """

    def __init__(self, spec: Spec, vocabularies: Sequence[Vocabulary | None], classes: Vocabulary | None) -> None:
        asked = spec.drift.distributions
        assert asked is not None
        columns = spec.distributed()
        self.names = [*columns, SIGNAL]
        self._values = [*(vocabularies[j] for j in columns.values()), classes]
        nominal = [spec.features[name].type != NUMERIC for name in columns]
        regression = spec.task == REGRESSION
        self._regression = regression
        self._tests = TwoSample(
            [*columns.values(), PREDICTION], [*nominal, not regression], asked.window, asked.false_alarms
        )
        n = len(self.names)
        self.seen = np.zeros(1, np.int64)
        # Of each series: alarms, ms of the last one, and how many instances had been seen then.
        self.counts, self.times, self.last = (np.zeros(n, np.int64) for _ in range(3))

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        twin = TwoSample([0], [False], 10, 0.5)
        twin.update(np.zeros((0, 1)), np.zeros(0))

    def watch(self, places: NDArray[np.int64], x: Floats, p: Floats, action: str | None) -> list[Finding]:
        """What is found in instances.

        Parameters
        ----------
        places : (n,) int64, of their operations in the program.
        x : (n, d) float64. p : (n, k) float64, what the champion predicted.
        action : what is done about it.
        """
        predicted = (
            p[:, 0] if self._regression else np.where(p.max(axis=1, initial=0.0) > 0.0, p.argmax(axis=1), np.nan)
        )
        predicted = np.ascontiguousarray(predicted, np.float64)
        findings, start = [], 0
        while start < len(x):
            stop, found = self._tests.update(x, predicted, start)
            for one in found:
                j = one.series
                shift = self._shift(j, one.p, one.kind, one.bin)
                n = int(self.seen[0]) + stop
                before, after = self._shares(j, one.kind, one.bin)
                self.counts[j], self.last[j] = self.counts[j] + 1, n
                role = CHAMPION if j == len(self.names) - 1 else None
                said = Detection(stop - 1, DETECTOR, "drift", n, before, after)
                findings.append(
                    Finding(int(places[stop - 1]), role, self.names[j], partial(self._stamp, j), said, action, shift)
                )
                self._tests.begin(j)
            start = stop
        self.seen += len(x)
        return findings

    def _stamp(self, j: int, found: Detection, time: int) -> None:
        """Remember when the last event of a series was."""
        self.times[j] = time

    # -- what is told ------------------------------------------------------------------------------------------

    def _shift(self, j: int, p: float, kind: int, bin: int) -> Shift:
        bins = self._tests.bins(j)
        before, after = (counts[bins] for counts in self._tests.counts(j))
        edges = values = None
        at: Scalar | None = None
        if self._tests.nominal[j]:
            values = [self._value(j, code) for code in self._tests.codes(j)]
            at = values[bin] if bin < len(values) else None
        else:
            edges = self._tests.edges(j)
            at = edges[bin] if kind == VALUES else edges[-1 if bin else 0] if kind == RANGE and edges else None
        return Shift(
            kind=KINDS[kind],
            p=p,
            hellinger=hellinger(before, after),
            psi=stability_index(before, after),
            before=before.tolist(),
            after=after.tolist(),
            at=at,
            edges=edges,
            values=values,
        )

    def _value(self, j: int, code: int) -> Scalar:
        """A value of a nominal series, short enough for an event."""
        known = self._values[j]
        value = code if known is None else known.values[code]
        return value[:MOST_TEXT] if isinstance(value, str) else value

    def _shares(self, j: int, kind: int, bin: int) -> tuple[float, float]:
        """The share that differs most, of the reference and of the newest values."""
        below = not self._tests.nominal[j] and kind == VALUES  # the share up to an edge
        found = [(counts[: bin + 1].sum() if below else counts[bin]) / counts.sum() for counts in self._tests.counts(j)]
        return float(found[0]), float(found[1])

    def distances(self) -> list[Distance]:
        """How far each series is from its reference; without those that have none yet."""
        found = []
        for j, name in enumerate(self.names):
            before, after = self._tests.counts(j)
            if not self._tests.is_testing(j) or not after.sum():
                continue
            bins, n = self._tests.bins(j), after.sum()
            nominal = bool(self._tests.nominal[j])
            outer = {0, bins[-2]}
            found.append(
                Distance(
                    signal=name,
                    model=CHAMPION if j == len(self.names) - 1 else None,
                    hellinger=hellinger(before[bins], after[bins]),
                    psi=stability_index(before[bins], after[bins]),
                    missing=float(after[MISSING] / n),
                    unseen=float(after[UNSEEN] / n) if nominal else None,
                    outside=None if nominal else float(sum(after[bin] for bin in outer) / n),
                )
            )
        return found

    def events(self) -> Iterator[tuple[str, str, str, str, int, int]]:
        """Counts and times of drifts, by model and signal: see `Drift.events`."""
        for j, name in enumerate(self.names):
            role = CHAMPION if j == len(self.names) - 1 else ""
            yield role, name, DETECTOR, "drift", int(self.counts[j]), int(self.times[j])

    def alarmed(self, n: int) -> tuple[bool, bool]:
        """Whether a feature, and whether the predictions, had an alarm among the last n instances."""
        lately = (self.last > 0) & (self.seen[0] - self.last < n)
        return bool(lately[:-1].any()), bool(lately[-1])

    @property
    def n_bytes(self) -> int:
        return sum(array.nbytes for array in self.state().values())

    # -- state -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays: everything that is known."""
        own = {name: getattr(self, name) for name in ("seen", "counts", "times", "last")}
        return own | over("tests/", self._tests.state()._asdict())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of what `state` gave. DamagedError where it is none. The tests of a state from before there
        was a design effect begin anew."""
        own, found = ("seen", "counts", "times", "last"), under(arrays, "tests/")
        with named("drift.distributions"):
            check_shapes(arrays, {name: getattr(self, name) for name in own})
            for name in own:
                setattr(self, name, arrays[name].copy())
            if "spread" not in found:
                return
            check(self._tests, found)
            self._tests.restore(found)
