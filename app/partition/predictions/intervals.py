"""The intervals, or sets of classes, that a partition says around its predictions. Pure.

They belong to the stream: whichever model is the champion when an instance comes, the interval is said around what
that one predicts. It waits beside the instance, and its label scores it as it was said. At a promotion they go on as
they are; what labels then tell is how far the new champion's own predictions were off.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import kept_names, over, under
from riparian.app.partition.join.pending import PendingStore
from riparian.app.partition.predictions.serving import Serving
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats, Program
from riparian.models.predictions.conformal import Conformal, sets
from riparian.models.restoring import restore
from riparian.topics.records import REGRESSION

SAID = ".interval"  # name in the pending store; no model is called so
STATE = "interval/"


class Intervals:
    """What is said besides the champion's predictions; nothing where the stream file does not ask for it.

    Parameters
    ----------
    n_outputs : int
        Of the models.
    pending : PendingStore
        Where what is said waits beside its instance.
    """

    def __init__(self, spec: Spec, n_outputs: int, pending: PendingStore) -> None:
        coverage, self._regression, self._pending = spec.predictions.coverage, spec.task == REGRESSION, pending
        self._conformal: Conformal | None = None
        self.names: list[str] = []  # of arrays in the pending store
        if coverage is not None:
            window, fading = spec.metrics.window, spec.metrics.fading
            self._conformal = Conformal(
                spec.task,
                n_outputs,
                coverage.share,
                by_class=coverage.by is not None,
                window=window,
                fading=fading,
            )
            self.names = kept_names(SAID, range(self._conformal.n_regions))
            pending.keep(self.names, n_outputs)

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        if self._conformal is not None:
            self._conformal.warm_up()

    def settle(self, spec: Spec) -> None:
        """Go on as this stream file says of metrics."""
        if self._conformal is not None:
            self._conformal.settle(spec.metrics.window, spec.metrics.fading)

    def resize(self, n_outputs: int) -> None:
        """Make room for classes seen since."""
        if self._conformal is not None:
            self._conformal.resize(n_outputs)

    def run(self, program: Program, champions: Sequence[tuple[int, Serving]]) -> None:
        """Say and score what a program has, after all models have run it.

        champions : each champion in it, with the place of its first operation.
        """
        if self._conformal is None:
            return
        said = [self._pending.out[name] for name in self.names]
        ends = [*(start for start, _ in champions[1:]), len(program.op)]
        for (start, served), end in zip(champions, ends, strict=True):
            self._conformal.run(program.part(start, end), served.predictions, said)

    def regions(self, rows: NDArray[np.int32], withheld: bool = False) -> Floats | None:
        """What was said for rows of the pending store, as `Outcome.said` has it. withheld : nothing is told of it."""
        if self._conformal is None:
            return None
        parts = [self._pending.out[name][rows] for name in self.names]
        if self._regression:
            ends = np.column_stack([part[:, 0] for part in parts[:2]])
            return np.full_like(ends, np.nan) if withheld else ends
        held = sets(parts[0]).astype(np.float64)
        return np.zeros_like(held) if withheld else held

    def metrics(self) -> dict[str, float]:
        """`Conformal.metrics`: how often, and how wide, over the whole stream."""
        return {} if self._conformal is None else self._conformal.metrics()

    def windowed(self) -> dict[str, float]:
        """Measures over the window, or fading."""
        return {} if self._conformal is None else self._conformal.windowed()

    def recent_by_class(self) -> dict[int, float]:
        """`Conformal.recent_by_class`: of each of the first classes."""
        return {} if self._conformal is None else self._conformal.recent_by_class()

    def whole_by_class(self) -> dict[int, float]:
        """`Conformal.whole_by_class`: over the whole stream."""
        return {} if self._conformal is None else self._conformal.whole_by_class()

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, by their names in a state."""
        return {} if self._conformal is None else over(STATE, self._conformal.state()._asdict())

    def restore(self, arrays: Mapping[str, NDArray[Any]], n_outputs: int) -> None:
        """Take over what `state` gave, among the arrays of a state: those of before, or without coverage, have none."""
        mine = under(arrays, STATE)
        if self._conformal is not None and mine:
            restore(self._conformal, mine, "the intervals")
            self._conformal.resize(n_outputs)
