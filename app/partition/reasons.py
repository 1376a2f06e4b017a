"""Which features moved a prediction most, told by the model that made it, when it made it. Pure.

Models say what each feature adds (`Learner.contributions`) as they are at that moment. Programs are therefore run in
pieces that predict only or learn only, which changes no bit (models/contract.py), and after each piece that predicts
the model is asked. Nothing of this waits, or is state: it is written with the prediction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import SpecError
from models.contract import PREDICT, Floats, Learner, Program
from models.contributions import largest
from topics.records import VALUES

FEATURE, ADDED = 0, 1  # of a reason
TELLING = (  # learners that say what features add to a prediction
    *("hoeffding-tree", "extremely-fast-decision-tree", "hoeffding-adaptive-tree", "fimt-dd"),
    *("hoeffding-regression-tree", "orto", "adaptive-random-forest", "streaming-random-patches", "online-bagging"),
    *("leveraging-bagging", "smooth-boost", "online-boosting", "mondrian-forest", "stochastic-gradient-tree"),
    *("shrub-ensemble", "streaming-decision-tree", "streaming-decision-forest", "cart", "bagging", "random-forest"),
    *("adaboost", "gradient-boosting", "xgboost", "opinion-pool", "naive-bayes"),
    *("soft-tree", "soft-hoeffding-tree", "model-pool"),
)


def untold(learner: str, parameters: Mapping[str, Any]) -> SpecError:
    """The stream file asks for reasons, and this champion cannot say them."""
    return SpecError(
        f"predictions.reasons: expected a champion that keeps what its nodes have, found {learner} "
        f"{'with vote: majority' if parameters.get('vote') == 'majority' else ''}".rstrip()
        + f", which cannot say them; remove it, or use one of {', '.join(sorted(TELLING))}"
    )


def pieces(program: Program) -> Iterator[Program]:
    """The same operations in pieces of one kind."""
    ends = np.flatnonzero(np.diff(program.op)) + 1
    for start, stop in zip([0, *ends.tolist()], [*ends.tolist(), len(program.op)], strict=True):
        if stop > start:
            yield program.part(start, stop)


def asked_about(out: Floats, task: str) -> NDArray[np.int64]:
    """(n,) the likeliest class of each prediction, whose probability is told of; -1 of values."""
    if task in VALUES:
        return np.full(len(out), -1, np.int64)
    return np.asarray(out.argmax(axis=1), np.int64)


class Reasons:
    """The `most` features that moved each prediction of a program most.

    Parameters
    ----------
    program : Program
    most : int
    task : str

    Attributes
    ----------
    found : (n, most, 2) float64
        Of each prediction, in the order of the program, the number of a feature and what it added, the largest first;
        NaN behind the last one that added anything, and where nothing was known.
    """

    def __init__(self, program: Program, most: int, task: str) -> None:
        rows = program.row[program.op == PREDICT]
        self._place = np.argsort(rows, kind="stable")
        self._rows = rows[self._place]
        self._task = task
        self.found = np.full((len(rows), most, 2), np.nan)

    def ask(
        self,
        model: Learner,
        slab: Any,
        rows: NDArray[np.int32],
        predictions: Floats,
        columns: Sequence[int] | None = None,
    ) -> None:
        """Note what the model says of predictions that it has just made.

        predictions : as `slab`, by rows. columns : the numbers of the model's features among those of the stream.
        """
        if not len(rows) or not model.tells_why:
            return
        added = model.contributions(slab, rows, asked_about(predictions[rows], self._task))
        named = np.arange(added.shape[1] - 1) if columns is None else np.array(columns, np.int64)
        largest(added, named, self._place[np.searchsorted(self._rows, rows)], self.found)


def named(found: Floats, features: list[str]) -> list[dict[str, float] | None]:
    """Of each prediction the features and what they added, as a record has them; null where no feature added anything.

    found : (n, most, 2), as `Reasons` has it.
    """
    told: list[dict[str, float] | None] = []
    for one in found.tolist():
        reasons = {features[int(feature)]: added for feature, added in one if added == added}
        told.append(reasons or None)
    return told
