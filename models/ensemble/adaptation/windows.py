"""The two ADWIN windows of a watched tree, over the errors that it made on labels before it learned them.

Bifet and Gavaldà 2007. One window is sensitive and warns, the other one finds a drift; only a rise of the mean counts.
Errors of a classification are 0 or 1, and their windows rows of integers (models.hoeffding.adaptation.error_window).
Those of a regression are |y - prediction| on a scale that is measured on them and stays (models.drift.scaling); where
it has become a wrong one, and where another tree takes over, it is measured anew. Their windows are those of
models.drift.adwin.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.models.contract import Floats
from riparian.models.drift.adwin import ROWS, rises
from riparian.models.drift.entries import ADWIN
from riparian.models.drift.scaling import is_wrong, new_scale, take
from riparian.models.ensemble.chunks import Chunk
from riparian.models.hoeffding.adaptation.error_window import ROW, add_error, cut, error_rate
from riparian.models.kernels.kernel import kernel

Ints = NDArray[np.int64]

# The windows, and events by the window that raised them.
WARNING, DRIFT = range(2)
STABLE = -1

_ADWIN = {parameter.name: parameter.default for parameter in ADWIN.parameters}
CLOCK, MIN_SIDE, MAX_BUCKETS = _ADWIN["clock"], _ADWIN["min_side"], _ADWIN["max_buckets"]


@kernel
def first_event(ordinal, errors, start, stop, windows, warning_delta, drift_delta):
    """Add the errors of labels from operation `start` on to both windows, up to the first at which one rises; the
    operation after it, and the event, DRIFT before WARNING; or `stop` and STABLE. Mutates windows. O(1) a label,
    amortised, and O(log(width)) each 32."""
    for i in range(start, stop):
        if ordinal[i] < 0:
            continue
        event = STABLE
        for d in range(2):
            window = windows[d]
            if not add_error(window, np.int32(errors[i])):
                continue
            before = error_rate(window)
            if cut(window, warning_delta if d == WARNING else drift_delta) and error_rate(window) > before:
                event = d
        if event != STABLE:
            return i + 1, event
    return stop, STABLE


@kernel
def first_rise(ordinal, errors, start, stop, deltas, scale, counts, sums, filled, totals, spreads):
    """Find the first event among errors on a scale (first_event). Mutates scale and the arrays of the windows. Cost as
    models.drift.adwin."""
    for i in range(start, stop):
        if ordinal[i] < 0 or errors[i] != errors[i]:
            continue
        if is_wrong(scale, True):
            counts[:] = 0
            sums[:] = 0.0
            filled[:] = 0
            totals[:] = 0.0
            spreads[:] = 0.0
        value = take(errors[i], scale, True)
        if value != value:
            continue
        event = STABLE
        for d in range(2):
            if rises(value, deltas[d], CLOCK, MIN_SIDE, counts[d], sums[d], filled[d], totals[d], spreads[d]):
                event = d
        if event != STABLE:
            return i + 1, event
    return stop, STABLE


@kernel
def first_events(first, last, ordinal, errors, start, stop, reached, events, deltas, windows):
    """`first_event` of some members, each from start[m] on. Mutates reached, events and windows."""
    for m in range(first, last):
        reached[m], events[m] = first_event(ordinal, errors[m], start[m], stop, windows[m], deltas[0], deltas[1])


@kernel
def first_rises(
    first, last, ordinal, errors, start, stop, reached, events, deltas, scale, counts, sums, filled, totals, spreads
):  # fmt: skip
    """`first_rise` of some members, each from start[m] on. Mutates reached, events, scale and windows."""
    for m in range(first, last):
        reached[m], events[m] = first_rise(
            ordinal, errors[m], start[m], stop, deltas, scale[m], counts[m], sums[m], filled[m], totals[m], spreads[m],
        )  # fmt: skip


class ErrorWindows:
    """The two windows of each of some members, over errors of a classification, each 0 or 1."""

    def __init__(self, n_members: int, warning_delta: float, drift_delta: float) -> None:
        self._deltas = np.array([warning_delta, drift_delta])
        self._arrays = self._new_arrays(n_members)

    def _new_arrays(self, n_members: int) -> dict[str, NDArray[Any]]:
        """By their names in a state, with a row a member. windows : (2, 193) int32 each."""
        return {"windows": np.zeros((n_members, 2, ROW), np.int32)}

    def first_events(
        self, first: int, last: int, chunk: Chunk, errors: Floats, start: Ints, stop: int, reached: Ints, events: Ints
    ) -> None:
        """Find the first event of each member: the kernel of its errors."""
        first_events(
            first, last, chunk.ordinal, errors, start, stop, reached, events, self._deltas, *self._arrays.values()
        )

    def forget(self, member: int, windows: int | slice) -> None:
        """Begin WARNING, or slice(None), both, anew."""
        for array in self._arrays.values():
            array[member, windows] = 0

    def state(self, member: int) -> dict[str, NDArray[Any]]:
        return {name: array[member] for name, array in self._arrays.items()}

    def restore(self, member: int, state: Mapping[str, NDArray[Any]]) -> None:
        for name, array in self.state(member).items():
            array[...] = state[name]


class ResidualWindows(ErrorWindows):
    """Over absolute errors of a regression."""

    def _new_arrays(self, n_members: int) -> dict[str, NDArray[Any]]:
        """scale : of models.drift.scaling. The others: two of each array of models.drift.adwin.AdwinState."""
        buckets = n_members, 2, ROWS, MAX_BUCKETS + 1
        return {
            "scale": np.tile(new_scale(), (n_members, 1)),
            "window_counts": np.zeros((n_members, 2, 3), np.int64),
            "window_sums": np.zeros((n_members, 2, 2)),
            "window_filled": np.zeros((n_members, 2, ROWS), np.int64),
            "window_totals": np.zeros(buckets),
            "window_spreads": np.zeros(buckets),
        }

    def first_events(
        self, first: int, last: int, chunk: Chunk, errors: Floats, start: Ints, stop: int, reached: Ints, events: Ints
    ) -> None:
        first_rises(
            first, last, chunk.ordinal, errors, start, stop, reached, events, self._deltas, *self._arrays.values()
        )

    def forget(self, member: int, windows: int | slice) -> None:
        for name, array in self._arrays.items():
            if name != "scale":
                array[member, windows] = 0
            elif windows != WARNING:
                array[member] = 0.0

    def restore(self, member: int, state: Mapping[str, NDArray[Any]]) -> None:
        """A state that has no scale held windows of other values: all begins anew."""
        if "scale" in state:
            super().restore(member, state)
        else:
            self.forget(member, slice(None))
