"""What every drift detector is: a fold over a stream of values, held in arrays.

Invariants that the tests hold every detector to:

- `update_many` of one array equals `update_many` of any cut of it, and `update` of each value, bit for bit.
- `restore(state())` into a new detector of the same parameters continues as if nothing had happened.
- A value that is not finite is skipped: level 0, nothing changes.
- After level 2 the detector has forgotten what came before the change (each docstring states how much).
- Memory is constant.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from riparian.models.drift.entries import DetectorEntry
from riparian.models.entry import documented
from riparian.models.statistic import Statistic

STABLE = 0
WARNING = 1
DRIFT = 2

EXAMPLE = """\
>>> levels = {}().update_many(np.repeat([0.0, 1.0], 500))  # errors: none, then all
>>> levels[:500].any(), int(levels.max())
(np.False_, 2)
"""

Floats = NDArray[np.float64]
Levels = NDArray[np.int8]


class Detector(Statistic, ABC):
    """Base class of all detectors. Subclasses define what their state is and which kernel folds a value into it.

    A subclass has an `entry` of `models.drift.entries`, where its name and its parameters are declared. They are
    checked here, whether a stream file or a caller gives them, and stand in `self._parameters`.

    Parameters
    ----------
    seed : int
        Of the detector's own random numbers, where it draws any.
    **parameters
        Those of the entry; the default of each that is left out.

    Raises
    ------
    ValueError
        One sentence that names the parameter, what was given, and what would do.
    """

    entry: ClassVar[DetectorEntry]
    name: ClassVar[str]  # the entry's

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "entry" in vars(cls):
            cls.name = cls.entry.name
            doc = documented(vars(cls).get("__doc__"), cls.entry)
            cls.__doc__ = f"{doc}\n\nExamples\n--------\n" + EXAMPLE.format(cls.__name__)

    def __init__(self, *, seed: int = 0, **parameters: Any) -> None:
        self.seed = seed
        self._parameters = self.entry.valid(parameters)
        self._state = self._fresh()
        self._one = np.zeros(1)
        self._level = np.zeros(1, np.int8)

    @abstractmethod
    def _fresh(self) -> Any:
        """The state before the first value, a NamedTuple of arrays."""

    @abstractmethod
    def _update(self, x: Floats, level: Levels) -> None:
        """Fold `x` in order into the state, one level for each value."""

    def update_many(self, x: Any) -> Levels:
        """x : (n,) float64 -> (n,) int8, the level after each value: 0 stable, 1 warning, 2 drift."""
        values = np.ascontiguousarray(x, dtype=np.float64)
        if values.ndim != 1:
            raise ValueError(f"values have {values.ndim} dimensions: give one array of n values")
        level = np.zeros(len(values), np.int8)
        self._update(values, level)
        return level

    def update(self, x: float) -> int:
        """One value; its level."""
        self._one[0] = x
        self._update(self._one, self._level)
        return int(self._level[0])

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()` of the same parameters."""
        fresh = self._fresh()
        for name in fresh._fields:
            have, want = np.asarray(state[name]), getattr(fresh, name)
            if have.shape != want.shape:
                raise ValueError(
                    f"{self.name}: {name} has shape {have.shape}, not {want.shape}: restore with the parameters it had"
                )
            want[...] = have
        self._state = fresh

    def reset(self) -> None:
        """Forget everything."""
        self._state = self._fresh()

    def parameters(self) -> dict[str, Any]:
        """The parameters as given or defaulted, without the seed."""
        return dict(self._parameters)
