"""A trial decides between a model whose errors have risen and a fresh one that learns beside it. Pure.

At each label both models predict once more, right before they learn it. So they are compared as they are now: the
prediction that the older model made when the features came may be old, and would only show what the model knew then.
Predicting changes no state, so the older model goes on bit for bit as if there were no trial.

The fresh model wins when its error over the last `window` labels is lower by more than three standard errors of the
paired differences, and is dropped when it has not won after `patience` labels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over
from riparian.app.partition.drift.detection import MISTAKES, errors
from riparian.models.contract import LEARN, PREDICT, Bags, Floats, Learner, Program
from riparian.models.restoring import check_shapes, named

DEVIATIONS = (
    3.0  # standard errors of a mean difference; compared every `PACE` labels (app/partition/lineup/model_slot.py)
)

REPLACED, DROPPED = "replaced", "dropped"


class BackgroundLearner:
    """One trial, from the label after it began to its verdict.

    Parameters
    ----------
    model : Learner
        The fresh one, which has learned nothing yet.
    kind : str
        MISTAKES or ABSOLUTE: what is compared.
    window, patience : int
        Labels that are compared, and after which the trial ends at the latest.
    by : int
        Number of the detector that asked for it.
    """

    def __init__(self, model: Learner, kind: str, window: int, patience: int, by: int = 0) -> None:
        self.model = model
        self.kind = kind
        self.window, self.patience = window, patience
        self.numbers = np.array([0, by], np.int64)  # labels compared; the detector
        self.recent = np.zeros((0, 2))  # errors of the last labels: the older model's, the fresh one's

    @property
    def by(self) -> int:
        return int(self.numbers[1])

    def bound(self, window: int, patience: int) -> None:
        """Other bounds; a shorter window keeps the last labels."""
        self.window, self.patience = window, patience
        self.recent = self.recent[-window:].copy()

    def run(
        self, older: Learner, program: Program, slab: Floats | Bags, out: Floats, kept: Sequence[Floats] = ()
    ) -> None:
        """Execute `program` for the older model, as `older.run_with` would, and let the fresh one learn and both
        compare."""
        op = program.op
        learns = op == LEARN
        # Copies of the rows, and one more for each label, so an instance can be asked again beside its first answer.
        rows, own = np.unique(program.row, return_inverse=True)
        again = len(rows) + np.arange(np.count_nonzero(learns))
        chosen = np.concatenate((rows, program.row[learns]))
        x = slab.take(chosen) if isinstance(slab, Bags) else slab[chosen]
        place = np.repeat(np.arange(len(op)), np.where(learns, 2, 1))
        asked = np.flatnonzero(learns[place])[::2]
        both, row, y, w = op[place], own[place].astype(np.int32), program.y[place], program.w[place]
        both[asked], row[asked], y[asked] = PREDICT, again, np.nan
        answers, notes = np.zeros((len(x), out.shape[1])), [one[chosen] for one in kept]
        older.run_with(Program(both, row, y, w), x, answers, notes)
        for to, found in zip((out, *kept), (answers, *notes), strict=True):
            to[program.row[~learns]] = found[own[~learns]]
        if not len(asked):
            return
        only = learns[place]
        fresh = np.zeros_like(answers)
        self.model.run(Program(both[only], row[only], y[only], w[only]), x, fresh)
        labels = Program(op[learns], again.astype(np.int32), program.y[learns], program.w[learns])
        pair = np.column_stack([errors(self.kind, labels, of, finite=False)[1] for of in (answers, fresh)])
        if self.kind == MISTAKES:  # who does not know is wrong
            pair[np.isnan(pair)] = 1.0
        pair = pair[np.isfinite(pair).all(axis=1)]
        self.numbers[0] += len(pair)
        self.recent = np.concatenate((self.recent, pair))[-self.window :].copy()

    def verdict(self) -> str | None:
        """REPLACED, DROPPED, or None: not yet."""
        if len(self.recent) == self.window:
            gain = self.recent[:, 0] - self.recent[:, 1]
            if gain.mean() > DEVIATIONS * gain.std() / np.sqrt(self.window):
                return REPLACED
        return DROPPED if self.numbers[0] >= self.patience else None

    def means(self) -> tuple[float, float]:
        """Mean errors of the older and of the fresh model over the window; NaN before the first label."""
        if not len(self.recent):
            return np.nan, np.nan
        older, fresh = self.recent.mean(axis=0).tolist()
        return older, fresh

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays."""
        return {"numbers": self.numbers, "recent": self.recent} | over("model/", self.model.state()._asdict())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over all but the model, which is given restored. A shorter window keeps the last labels. ValueError
        where arrays are none of `state()`."""
        with named("a trial"):
            check_shapes(arrays, {"numbers": self.numbers, "recent": self.recent}, {"recent": "*"})
            self.numbers = arrays["numbers"].copy()
            self.recent = arrays["recent"][-self.window :].copy()
