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
from riparian.models.drift.adwin import CLOCK, MIN_SIDE, empty, forget, rises
from riparian.models.drift.scaling import is_wrong, new_scale, take
from riparian.models.ensemble.chunks import Chunk
from riparian.models.hoeffding.adaptation.error_window import ROW, add_error, cut, error_rate
from riparian.models.kernels.kernel import kernel

Ints = NDArray[np.int64]

# The windows, and events by the window that raised them.
WARNING, DRIFT = range(2)
STABLE = -1


@kernel
def first_events(first, last, ordinal, errors, start, stop, reached, events, deltas, windows):
    """Add the errors of some members at labels from operation start[m] on to both windows, up to the first at which one
    rises; the operation after it, and the event, DRIFT before WARNING; or `stop` and STABLE. Mutates reached, events
    and windows. O(1) a label, amortised, and O(log(width)) each 32."""
    for m in range(first, last):
        reached[m], events[m] = stop, STABLE
        for i in range(start[m], stop):
            if ordinal[i] < 0:
                continue
            for d in range(2):
                window = windows[m, d]
                if not add_error(window, np.int32(errors[m, i])):
                    continue
                before = error_rate(window)
                if cut(window, deltas[d]) and error_rate(window) > before:
                    events[m] = d
            if events[m] != STABLE:
                reached[m] = i + 1
                break


@kernel
def first_rises(
    first, last, ordinal, errors, start, stop, reached, events, deltas, scale, counts, sums, filled, totals, spreads
):  # fmt: skip
    """Find the first events among errors on a scale (first_events). Mutates reached, events, scale and the arrays of
    the windows. Cost as models.drift.adwin."""
    for m in range(first, last):
        reached[m], events[m] = stop, STABLE
        for i in range(start[m], stop):
            if ordinal[i] < 0 or errors[m, i] != errors[m, i]:
                continue
            if is_wrong(scale[m], True):
                forget(counts[m], sums[m], filled[m], totals[m], spreads[m])
            value = take(errors[m, i], scale[m], True)
            if value != value:
                continue
            for d in range(2):
                window = counts[m, d], sums[m, d], filled[m, d], totals[m, d], spreads[m, d]
                if rises(value, deltas[d], CLOCK, MIN_SIDE, *window):
                    events[m] = d
            if events[m] != STABLE:
                reached[m] = i + 1
                break


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
        windows = empty((n_members, 2))._asdict()
        scale = np.tile(new_scale(), (n_members, 1))
        return {"scale": scale} | {f"window_{name}": array for name, array in windows.items()}

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
