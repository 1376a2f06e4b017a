"""Which features moved a prediction most, asked of the model that made it, when it made it. Pure.

What each feature adds is its Shapley value (models/explanation/shapley.py), by permutations that the record's id draws.
Models are asked as they are at that moment: programs are therefore run in pieces that predict last, which changes no
bit (models/contract.py), and after each piece the model is asked. Nothing of this waits, or is state: it is written
with the prediction.

Reasons of alerts alone are asked for once it is known which predictions are alerts. A program is decided when the
models have run it, so `Ahead` decides it piece by piece beforehand, by copies of what decides.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.join.ids import packed, tags
from riparian.app.partition.predictions.decision_policy import Decision
from riparian.models.contract import PREDICT, Bags, Floats, Learner, Program
from riparian.models.explanation.shapley import contributions, largest
from riparian.models.predictions.calibration import Calibration
from riparian.models.predictions.prior_shift import PriorShift

_KEY = np.zeros(2, np.uint64)  # the same in each process


def keys_of(ids: Sequence[str]) -> NDArray[np.uint64]:
    """By which the permutations of these records are drawn."""
    return tags(_KEY, *packed(ids)).astype(np.uint64)


def pieces(program: Program) -> Iterator[Program]:
    """A program in pieces, each of which predicts last: behind it the model is what predicted."""
    ends = np.flatnonzero((program.op[:-1] == PREDICT) & (program.op[1:] != PREDICT)) + 1
    for start, stop in zip([0, *ends.tolist()], [*ends.tolist(), len(program.op)], strict=True):
        if stop > start:
            yield program.part(start, stop)


def asked_about(out: Floats, named: Floats | None = None) -> NDArray[np.int64]:
    """(n,) the class of each prediction whose probability is explained: the one that it names, if it names one, else
    the likeliest; 0 of values and scores. out : (n, n_outputs). named : (n,) codes, NaN where there is none."""
    likeliest = np.asarray(out.argmax(axis=1), np.int64)
    if named is None or out.shape[1] == 1:
        return likeliest
    return np.where(np.isnan(named), likeliest, np.nan_to_num(named)).astype(np.int64)


class Ahead:
    """What the predictions of a program name, known as soon as each is made.

    Parameters
    ----------
    decision, calibration, shift : of the model; copies follow the program. None of what is not asked for; a calibration
        only where it scales probabilities. Without a decision the likeliest class is named.
    out, named, beside : of the rows of the pending store what was predicted, what that named, and how it was scaled, or
        what it is shifted.
    instead : as `PriorShift.run` takes it.
    x : (capacity, d), what stands in these rows, of which costs may have an amount.
    """

    def __init__(
        self,
        program: Program,
        decision: Decision | None,
        calibration: Calibration | None,
        shift: PriorShift | None,
        out: Floats,
        named: Floats,
        beside: Floats,
        instead: Floats,
        x: Floats | Bags,
    ) -> None:
        self._rows = np.unique(program.row)
        self._decision = None if decision is None else decision.copy()
        self._calibration = None if calibration is None else calibration.scaling_alike()
        self._shift, self._instead = None if shift is None else shift.copy(), instead
        self._out, self._named = out[self._rows], named if decision is None else named[self._rows]
        self._beside = beside if calibration is None and shift is None else beside[self._rows]
        self._x = x if isinstance(x, Bags) else x[self._rows]

    def follow(self, part: Program, out: Floats) -> Floats:
        """(n,) what the predictions of the next operations name, n of them; NaN where nothing is named. out : as the
        model wrote it for the rows of the pending store."""
        place = np.searchsorted(self._rows, part.row)
        predicted = place[part.op == PREDICT]
        self._out[predicted] = out[part.row[part.op == PREDICT]]
        own, said = part._replace(row=place.astype(np.int32)), self._out
        if self._shift is not None:
            said, now = self._beside, len(part.op)
            self._shift.run(own, self._out, said, self._instead[:now])
            self._instead = self._instead[now:]
        elif self._calibration is not None:
            self._calibration.run(own, said, self._beside)
        if self._decision is None:
            return asked_about(said[predicted]).astype(np.float64)
        self._decision.run(own, said, self._named, self._x)
        return np.array(self._named[predicted, 0])


class Reasons:
    """The features that moved each prediction of a program most.

    Parameters
    ----------
    keys : (n,) uint64
        Of its predictions, as `keys_of` gives them.
    most : int
        Features of a prediction.
    alert : int, optional
        The class whose namings alone are asked about; None: all predictions are.
    ahead_of : callable, optional
        Gives what decides at an operation of the program, up to which it has run; None: nothing does while it runs.

    Attributes
    ----------
    found : (n, most, 2) float64
        Of each prediction, in the order of the program, the number of a feature and what it added, the largest first;
        NaN behind the last one that added anything, and where nothing was known, or asked.
    """

    def __init__(
        self,
        program: Program,
        keys: NDArray[np.uint64],
        most: int,
        alert: int | None = None,
        ahead_of: Callable[[int], Ahead | None] | None = None,
    ) -> None:
        rows = program.row[program.op == PREDICT]
        self._place = np.argsort(rows, kind="stable")
        self._rows, self._keys, self._alert, self._ahead_of = rows[self._place], keys, alert, ahead_of
        self.begin_at(0)
        self.found = np.full((len(rows), most, 2), np.nan)

    def begin_at(self, start: int) -> None:
        """The program is run from this operation on."""
        self._ahead = None if self._ahead_of is None else self._ahead_of(start)

    def ask(
        self,
        model: Learner,
        slab: Floats | Bags,
        part: Program,
        out: Floats,
        columns: Sequence[int] | None = None,
        named: Floats | None = None,
    ) -> None:
        """Ask a model that has just run the next operations what it went by.

        out : (capacity, n_outputs), as the model wrote it. columns : the numbers of its features among those of the
        stream. named : what these predictions name, (n,) codes, where it is decided.
        """
        rows = part.row[part.op == PREDICT]
        self.found[self._place[np.searchsorted(self._rows, rows)]] = np.nan  # of a model before this one
        if self._ahead is not None:
            named = self._ahead.follow(part, out)
        about = asked_about(out[rows], named)
        if self._alert is not None:
            chosen = np.zeros(len(rows), np.bool_) if named is None else named == self._alert
            rows, about = rows[chosen], about[chosen]
        if not len(rows):
            return
        places = self._place[np.searchsorted(self._rows, rows)]
        added = contributions(model, slab, rows, about, self._keys[places])
        known = np.arange(added.shape[1] - 1) if columns is None else np.array(columns, np.int64)
        largest(added, known, places, self.found)


def named(found: Floats, features: list[str]) -> list[dict[str, float] | None]:
    """Of each prediction the features and what they added, as a record has them; null where no feature added anything.

    found : (n, most, 2), as `Reasons` has it.
    """
    reasons = ({features[int(feature)]: added for feature, added in one if added == added} for one in found.tolist())
    return [one or None for one in reasons]
