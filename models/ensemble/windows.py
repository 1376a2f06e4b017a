"""The two ADWIN windows of a watched tree, over the errors that it made on labels before it learned them.

Bifet and Gavaldà 2007. One window is sensitive and warns, the other one finds a drift; only a rise of the mean counts.
Errors of a classification are 0 or 1, and their windows rows of integers (models.hoeffding.error_window). Those of a
regression are |y - prediction| on a scale that is measured on them and stays (models.drift.scaling); where it has
become a wrong one, and where another tree takes over, it is measured anew. Their windows are those of
models.drift.adwin.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.contract import Floats
from models.drift.adwin import ROWS, rises
from models.drift.entries import ADWIN
from models.drift.scaling import is_wrong, new_scale, take
from models.ensemble.chunks import Chunk
from models.hoeffding.error_window import ROW, add_error, cut, error_rate
from models.kernel import kernel

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


class ErrorWindows:
    """The two windows over errors of a classification, each 0 or 1."""

    def __init__(self, warning_delta: float, drift_delta: float) -> None:
        self._deltas = warning_delta, drift_delta
        self._windows = np.zeros((2, ROW), np.int32)

    def first_event(self, chunk: Chunk, errors: Floats, start: int, stop: int) -> tuple[int, int]:
        """As the kernel."""
        at, event = first_event(chunk.ordinal, errors, start, stop, self._windows, *self._deltas)
        return int(at), int(event)

    def forget(self, windows: int | slice) -> None:
        """Begin WARNING, or slice(None), both, anew."""
        self._windows[windows] = 0

    def state(self) -> dict[str, NDArray[Any]]:
        """windows : (2, 193) int32."""
        return {"windows": self._windows}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._windows = np.array(state["windows"], np.int32, order="C")


class ResidualWindows:
    """The two windows over absolute errors of a regression. Methods: as ErrorWindows."""

    def __init__(self, warning_delta: float, drift_delta: float) -> None:
        self._deltas = np.array([warning_delta, drift_delta])
        self._scale = new_scale()
        self._counts = np.zeros((2, 3), np.int64)
        self._sums = np.zeros((2, 2))
        self._filled = np.zeros((2, ROWS), np.int64)
        self._totals, self._spreads = np.zeros((2, 2, ROWS, MAX_BUCKETS + 1))

    def first_event(self, chunk: Chunk, errors: Floats, start: int, stop: int) -> tuple[int, int]:
        at, event = first_rise(
            chunk.ordinal, errors, start, stop, self._deltas,
            self._scale, self._counts, self._sums, self._filled, self._totals, self._spreads,
        )  # fmt: skip
        return int(at), int(event)

    def forget(self, windows: int | slice) -> None:
        for array in (self._counts, self._sums, self._filled, self._totals, self._spreads):
            array[windows] = 0
        if windows != WARNING:
            self._scale[:] = 0.0

    def state(self) -> dict[str, NDArray[Any]]:
        """scale : of models.drift.scaling. The others: two of each array of models.drift.adwin.AdwinState."""
        return {
            "scale": self._scale,
            "window_counts": self._counts,
            "window_sums": self._sums,
            "window_filled": self._filled,
            "window_totals": self._totals,
            "window_spreads": self._spreads,
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """A state that has no scale held windows of other values: all begins anew."""
        if "scale" in state:
            for name, array in self.state().items():
                array[...] = state[name]
        else:
            self.forget(slice(None))


@kernel
def first_rise(ordinal, errors, start, stop, deltas, scale, counts, sums, filled, totals, spreads):
    """As first_event, of errors on a scale. Mutates scale and the arrays of the windows. Cost as models.drift.adwin."""
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
