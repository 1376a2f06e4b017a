"""What is counted label by label: a NamedTuple of arrays, which a checkpoint writes and a start reads."""

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from riparian.models.joined import copied, rewound


class Statistic:
    """Everything that one knows is `_state`."""

    _state: Any

    def state(self) -> Any:
        """A NamedTuple of the live arrays: copy before more is taken."""
        return self._state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()`."""
        self._state = copied(state, self._state)

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays of `state()`."""
        return sum(array.nbytes for array in self._state)


class WindowStatistic(Statistic):
    """One with figures of the last labels: of a sliding window, or with fading of all, the past less and less.

    window : labels
    fading : factor by which the past fades at each label, in place of the window; None without
    rings : fields that have label i of the window in row i % window, and no rows with fading
    faded : fields of what fades, zero without fading
    scored : place in the field `n` of how many labels there were
    """

    rings: ClassVar[tuple[str, ...]] = ("ring",)
    faded: ClassVar[tuple[str, ...]] = ("recent",)
    scored: ClassVar[int] = 0
    window: int
    fading: float | None

    def settle(self, window: int, fading: float | None) -> None:
        """Go on with another window, or fading."""
        self.window, self.fading = window, fading
        self.restore(self._state._asdict())

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take over copies of the arrays of an earlier `state()._asdict()`. A window of another length keeps the labels
        that fit in; a window where there was fading, or fading where there was a window, starts empty."""
        found = copied(state, self._state)
        length, n = self.window if self.fading is None else 0, int(found.n[self.scored])
        rings = {name: getattr(found, name) for name in self.rings}
        found = found._replace(**{k: rewound(n, ring, length) for k, ring in rings.items() if len(ring) != length})
        for name in self.faded if self.fading is None else ():
            getattr(found, name)[:] = 0.0
        self._state = found
