"""Each challenger beside the champion, by the predictions that both really made, and the rule that promotes. Pure.

Losses, spans and intervals are those of models/evaluation/comparison.py. Where predictions are decided, mistakes are of
the class that was named: of a rare class the likeliest would be right who says nothing. With a target they are about
its class alone: which of the others was named decides nothing. A comparison is about two models: it begins anew when
the champion is another one. The rule looks after every `PACE` labels that were learned, counted since the stream began,
so that it looks at the same labels however batches were divided.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.partition.arrays import over, under
from riparian.app.partition.lineup.model_slot import ModelSlot
from riparian.app.partition.predictions.decision_policy import Stakes
from riparian.app.stream_file.lineup import check_champion
from riparian.app.stream_file.sections.promotion import AUTOMATIC, CONFIDENCE, PACE
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Bags, Program
from riparian.models.evaluation.comparison import Advantage, ByCost, Comparison, warm_up
from riparian.models.restoring import restore
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY


class PromotionDecision(NamedTuple):
    """The rule found a better challenger.

    place : of the label in the program, after which it is so. role : the challenger. by : how much better.
    promoted : whether it is the champion from there on; else it is only proposed.
    """

    place: int
    role: ModelSlot
    by: Advantage
    promoted: bool


class Comparing:
    """The comparisons of a partition.

    Parameters
    ----------
    roles : mapping
        Name -> role, as they are now.
    stakes : Stakes
        What mistakes cost.

    Attributes
    ----------
    confidence, error : float
        Of all intervals of all challengers together; the probability, of each challenger, that one is ever wrong.
    """

    def __init__(self, spec: Spec, roles: Mapping[str, ModelSlot], stakes: Stakes) -> None:
        self._task, self._stakes = spec.task, stakes
        self.settle(spec)
        self._champion = roles[CHAMPION]
        self._of = self._begun(roles, {})
        self._proposed: set[ModelSlot] = set()
        self._ahead = 0  # promotions that were decided on and not carried out yet

    def _begun(
        self, roles: Mapping[str, ModelSlot], known: Mapping[ModelSlot, Comparison]
    ) -> dict[ModelSlot, Comparison]:
        """Of each challenger. Scores of anomalies have no losses: each learner has a scale of its own."""
        if self._task == ANOMALY:
            return {}
        return {role: known.get(role) or self._fresh() for n, role in roles.items() if n != CHAMPION}

    def _fresh(self) -> Comparison:
        return Comparison(self._task, self._stakes.highest if self._stakes.amount is None else 0.0)

    def settle(self, spec: Spec) -> None:
        """The rule of this stream file holds from here on. Comparisons go on."""
        self._rule = spec.promotion
        self.confidence = CONFIDENCE if self._rule is None else self._rule.confidence

    @property
    def error(self) -> float:
        return (1.0 - self.confidence) / max(1, len(self._of))

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""
        if self._of:
            warm_up(self._task)

    def line_up(self, roles: Mapping[str, ModelSlot]) -> None:
        """These are the roles from here on: a comparison goes on where both of its roles do, whatever their names."""
        if self._ahead:
            self._ahead -= 1
            if self._ahead:
                return
        known = self._of if roles[CHAMPION] is self._champion else {}
        self._champion = roles[CHAMPION]
        self._of = self._begun(roles, known)
        self._proposed = {role for role in self._proposed if role in known and role in self._of}

    @property
    def by_cost(self) -> bool:
        """Whether models are compared by what their mistakes cost."""
        return self._stakes.prices is not None

    def begin_by(self, stakes: Stakes) -> None:
        """Mistakes cost this from here on: where that is something else, all comparisons begin anew."""
        other = (stakes.prices, stakes.target) != (self._stakes.prices, self._stakes.target)
        self._stakes = stakes
        if other:
            self._of, self._proposed = {role: self._fresh() for role in self._of}, set()

    def score(self, program: Program, n_learned: int) -> list[PromotionDecision]:
        """Take the labels of a program that all models have run; what the rule has decided, in order.

        n_learned : labels learned since the stream began, those of the program among them.
        """
        found, at = [], 0
        for end in self._looks(program, n_learned):
            self._score(program.part(at, end))
            at, decision = end, self._decide(end - 1)
            found += [] if decision is None else [decision]
        if at < len(program.op):
            self._score(program.part(at) if at else program)
        self._ahead = sum(one.promoted for one in found)
        return found

    def _looks(self, program: Program, n_learned: int) -> list[int]:
        """The ends of the pieces after which the rule looks."""
        if self._rule is None:
            return []
        learns = np.flatnonzero(program.op == LEARN)
        ends: list[int] = (learns[-(n_learned - len(learns) + 1) % PACE :: PACE] + 1).tolist()
        return ends

    def _score(self, program: Program) -> None:
        champion, stakes, x = self._champion, self._stakes, self._champion.slab
        for role, comparison in self._of.items():
            by_cost, one, other = None, champion.labelled_named, role.labelled_named
            if stakes.costs is not None and one is not None and other is not None and not isinstance(x, Bags):
                by_cost = ByCost(stakes.costs, x, one, other)
            comparison.score(program, champion.scored, role.scored, by_cost)

    def _decide(self, place: int) -> PromotionDecision | None:
        """The challenger that is surely better by most, if any; mutates who is champion."""
        best: PromotionDecision | None = None
        rule = self._rule
        if rule is None:
            return None
        automatic = rule.mode == AUTOMATIC
        for role, comparison in self._of.items():
            found = comparison.better(self.error, rule.margin, rule.at_least)
            if found is None or role in self._proposed or not _may_lead(role):
                continue
            if best is None or found.low > best.by.low:
                best = PromotionDecision(place, role, found, automatic)
        if best is not None and automatic:
            others = [self._champion, *(role for role in self._of if role is not best.role)]
            self._champion, self._proposed = best.role, set()
            self._of = {role: self._fresh() for role in others}
        elif best is not None:
            self._proposed.add(best.role)
        return best

    def figures(self) -> dict[str, dict[str, float]]:
        """Challenger -> what is said of it, of those that have been compared.

        labels, since : the span that tells most, and how many labels had been compared before it.
        difference, low, high : the champion's mean loss minus the challenger's over the span, and its interval.
        champion : the champion's mean loss over the span.
        confidence : of all intervals of all challengers together.
        reach : what an absolute error counts for at most; 1 in a classification.
        error : probability that an interval of this challenger is ever wrong.
        total_... : since the comparison began, to put partitions together: labels, difference, the long-run variance
            of a label's, the champion's mean loss, and how often these sums have begun.
        """
        found = {}
        for role, comparison in self._of.items():
            best, whole = comparison.advantage(self.error), comparison.whole(self.error)
            if best is not None and whole is not None:
                found[role.name] = _summary(best) | {
                    "confidence": self.confidence,
                    "error": self.error,
                    "total_labels": whole.n,
                    "total_difference": whole.difference,
                    "total_variance": whole.variance,
                    "total_champion": whole.loss,
                    "total_begun": whole.begun,
                }
        return found

    def state(self) -> dict[str, NDArray[Any]]:
        """Live arrays, of those that have begun."""
        arrays: dict[str, NDArray[Any]] = {}
        for role, comparison in self._of.items():
            if comparison.has_begun:
                arrays |= over(f"{role.name}/", comparison.state()._asdict())
        return arrays

    def proposed(self) -> list[str]:
        """Challengers that were proposed; the rule does not propose them again while there is this champion."""
        return sorted(role.name for role in self._proposed)

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], proposed: list[str], sources: Mapping[str, str | None]
    ) -> None:
        """Take over what `state` and `proposed` gave.

        sources : name of a role -> the name that it had there; None: it begins afresh. ValueError where arrays are none
        of `state()`.
        """
        if sources.get(CHAMPION, CHAMPION) != CHAMPION:
            return
        for role, comparison in self._of.items():
            source = sources.get(role.name, role.name)
            mine = under(arrays, f"{source}/")
            if "sums" in mine:  # those of before batches were kept begin anew
                restore(comparison, mine, f"the comparison of {role.name}")
                if source in proposed:
                    self._proposed.add(role)


def _may_lead(role: ModelSlot) -> bool:
    try:
        check_champion(role.learner_name, role.model.parameters())
    except ValueError:
        return False
    return True


def _summary(one: Advantage) -> dict[str, float]:
    return {
        "labels": one.n,
        "since": one.since,
        "difference": one.difference,
        "low": one.low,
        "high": one.high,
        "champion": one.loss,
        "reach": one.reach,
    }
