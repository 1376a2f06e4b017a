"""Each challenger compared with the champion, by the predictions that both really made. Pure.

Losses, spans and intervals are those of models/comparison.py. A comparison is about two models: it begins anew when the
champion is another one.
"""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from app.partition.arrays import over, under
from app.partition.role import Role
from app.stream_file.spec import Spec
from models.comparison import Advantage, Comparison, warm_up
from models.contract import Program
from models.restoring import restore
from topics.names import CHAMPION

CONFIDENCE = 0.95  # that all intervals which are ever shown of one champion hold


class Comparing:
    """The comparisons of a partition.

    Parameters
    ----------
    spec : Spec
    roles : mapping
        Name -> role, as they are now.

    Attributes
    ----------
    error : float
        The probability, of each challenger, that one of its intervals is ever wrong.
    """

    def __init__(self, spec: Spec, roles: Mapping[str, Role]) -> None:
        self._task, self._roles = spec.task, dict(roles)
        self._of = {name: Comparison(spec.task) for name in roles if name != CHAMPION}

    @property
    def error(self) -> float:
        return (1.0 - CONFIDENCE) / max(1, len(self._of))

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        if self._of:
            warm_up(self._task)

    def line_up(self, roles: Mapping[str, Role]) -> None:
        """These are the roles from here on: a comparison goes on where both of its roles do, whatever their names."""
        known = {self._roles[name]: comparison for name, comparison in self._of.items()}
        if roles[CHAMPION] is not self._roles[CHAMPION]:
            known = {}
        self._roles = dict(roles)
        of = {name: known.get(role) for name, role in roles.items() if name != CHAMPION}
        self._of = {name: one or Comparison(self._task) for name, one in of.items()}

    def score(self, program: Program) -> None:
        """Take the labels of a program that all models have run."""
        champion = self._roles[CHAMPION].predictions
        for name, comparison in self._of.items():
            comparison.score(program, champion, self._roles[name].predictions)

    def figures(self) -> dict[str, dict[str, float]]:
        """Challenger -> what is said of it, of those that have been compared.

        labels, since : the span that tells most, and how many labels had been compared before it.
        difference, low, high : the champion's mean loss minus the challenger's over the span, and its interval.
        champion : the champion's mean loss over the span.
        confidence : of all intervals of all challengers together.
        reach : what an absolute error counts for at most; 1 in a classification.
        error : probability that an interval of this challenger is ever wrong.
        total_... : since the comparison began, to put partitions together: labels, difference, mean squared difference,
            the champion's mean loss, and how often these sums have begun.
        """
        found = {}
        for name, comparison in self._of.items():
            best, whole = comparison.telling(self.error), comparison.whole(self.error)
            if best is not None and whole is not None:
                found[name] = _told(best) | {
                    "confidence": CONFIDENCE,
                    "error": self.error,
                    "total_labels": whole.n,
                    "total_difference": whole.difference,
                    "total_squares": whole.squares,
                    "total_champion": whole.loss,
                    "total_begun": whole.begun,
                }
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, of those that have begun."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, comparison in self._of.items():
            if comparison.has_begun:
                arrays |= over(f"{name}/", comparison.state()._asdict())
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]], sources: Mapping[str, str | None]) -> None:
        """Take over what `state` gave. sources : name of a role -> the name that it had there; None: it begins afresh.

        ValueError where arrays are none of `state()`.
        """
        for name, comparison in self._of.items():
            mine = under(arrays, f"{sources.get(name, name)}/")
            if mine and sources.get(CHAMPION, CHAMPION) == CHAMPION:
                restore(comparison, mine, f"the comparison of {name}")


def _told(one: Advantage) -> dict[str, float]:
    return {
        "labels": one.n,
        "since": one.since,
        "difference": one.difference,
        "low": one.low,
        "high": one.high,
        "champion": one.loss,
        "reach": one.reach,
    }
