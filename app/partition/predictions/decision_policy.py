"""What mistakes cost, in a partition: labels that count more in learning, and which class a prediction names. Pure.

Each model decides for itself, by the costs of the stream file or by a threshold of its own: a challenger's predictions
can then be compared with the champion's, and after a promotion the threshold fits the probabilities that it is about.
What was decided waits beside the instance, and its label scores that.

A class of the stream file is found by its text once it is known; until then its weight, its costs and its threshold
change nothing. Probabilities of classes that no model has learned are 0, so it does not matter how long before its
first label a class is known.

Of anomalies, whose classes are no texts, a threshold on the scores says which are alerts.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from riparian.app.stream_file.sections.decision import amount_in
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Bags, Floats, Program
from riparian.models.evaluation.costs import OTHERWISE, Costs, Priced
from riparian.models.evaluation.prequential import Prequential
from riparian.models.predictions.decision import Threshold, by_cost
from riparian.topics.records import ANOMALY
from riparian.topics.vocabulary import Vocabulary

DECIDED = "/decided"
Weights = Mapping[str, float]
Prices = Mapping[str, Mapping[str, float | str]]


def decided_name(role: str) -> str:
    """Where the pending store keeps what a model's predictions named."""
    return f"{role}{DECIDED}"


def highest(row: Mapping[str, float | str]) -> float:
    """The highest cost where a class is true, amounts aside."""
    return max([OTHERWISE, *(cost for cost in row.values() if not isinstance(cost, str))])


class Stakes:
    """What labels count in learning, and what mistakes cost, by codes of classes.

    Parameters
    ----------
    classes : Vocabulary, optional
        Of the models, which grows. None: labels are numbers.
    weights : mapping, optional
        Class -> what its labels count; 1 where it is not named.
    prices : mapping, optional
        True class -> class named -> cost, or the feature that holds it, as a stream file says it; None: all mistakes
        are alike.
    target : (str, str), optional
        What is kept, and the class that it is about: naming one other class for another is no mistake then.
    features : iterable of str
        By column.

    Attributes
    ----------
    amount : str, optional
        The feature that holds amounts.
    costs : Costs, optional
        None before any class is looked up. To name none where a class is true costs as much as its dearest mistake in
        the stream file, whether or not the class that it names is known, since that depends on how records were cut
        into steps.
    """

    def __init__(
        self,
        classes: Vocabulary | None,
        weights: Weights | None,
        prices: Prices | None,
        target: tuple[str, str] | None = None,
        features: Iterable[str] = (),
    ) -> None:
        self.weights, self.prices, self.target = weights or {}, prices, target
        self.amount = amount_in(prices)
        self.costs: Costs | None = None
        self._column = self._column_in(features)
        self._classes = classes
        self._known, self._by_code = (0, 0), np.ones(0)

    @property
    def highest(self) -> float:
        """The highest cost of a mistake, amounts aside."""
        return max([OTHERWISE, *(highest(row) for row in (self.prices or {}).values())])

    def _column_in(self, features: Iterable[str]) -> int:
        """That holds amounts; -1 while there is none: a command may add it."""
        return next((j for j, name in enumerate(features) if name == self.amount), -1)

    def settle(self, spec: Spec) -> None:
        """Records have the features of this stream file from here on."""
        self._column = self._column_in(spec.features)
        if self.costs is not None:
            self.costs = self.costs._replace(column=self._column)

    def priced(self, x: Floats | Bags) -> Priced | None:
        """What mistakes cost in these rows; None where they are all alike."""
        if self.prices is None or self.costs is None or isinstance(x, Bags):
            return None
        return Priced(self.costs, x)

    def fit(self, n_outputs: int) -> None:
        """Look the classes up among those known now."""
        if self._classes is None or self._known == (len(self._classes), n_outputs):
            return
        self._known = len(self._classes), n_outputs
        self._look_up({text: code for code, text in enumerate(self._classes.texts)}, n_outputs)

    def _look_up(self, codes: Mapping[str, int], n_outputs: int) -> None:
        self._by_code = np.ones(max(n_outputs, len(codes)))
        for text, weight in self.weights.items():
            if text in codes:
                self._by_code[codes[text]] = weight
        fixed = np.full((n_outputs, 1 + n_outputs), OTHERWISE)
        by_amount = np.zeros(fixed.shape, np.bool_)
        np.fill_diagonal(fixed[:, 1:], 0.0)
        if self.target is not None:
            about = np.arange(n_outputs) == codes.get(self.target[1], -1)
            fixed[:, 1:][about[:, None] == about] = 0.0
        for true, row in (self.prices or {}).items():
            if true not in codes:
                continue
            own = codes[true]
            fixed[own, 0], by_amount[own, 0] = highest(row), amount_in({true: row}) is not None
            for named, cost in row.items():
                if named in codes:
                    at = own, 1 + codes[named]
                    fixed[at], by_amount[at] = (0.0, True) if isinstance(cost, str) else (cost, False)
        self.costs = Costs(fixed, by_amount, self._column, self.highest)

    def weighted(self, program: Program) -> Program:
        """The program as models learn it: with the weight of each label's class."""
        if not self.weights:
            return program
        w, learns = program.w.copy(), np.flatnonzero(program.op == LEARN)
        w[learns] *= self._by_code[program.y[learns].astype(np.int64)]
        return program._replace(w=w)


class DecisionPolicy(Stakes):
    """What the stream file says of classes, by their codes.

    Parameters
    ----------
    classes : Vocabulary, optional
        As of `Stakes`.

    Attributes
    ----------
    code : int
        Of the class that a target is about; -1 while it is not known. Of anomalies 1, as their labels have it.
    """

    def __init__(self, spec: Spec, classes: Vocabulary | None) -> None:
        super().__init__(classes, spec.class_weights, spec.prices, features=spec.features)
        self.asked = spec.decision
        self.of_scores = spec.task == ANOMALY
        self.code = 1 if self.of_scores else -1

    def _look_up(self, codes: Mapping[str, int], n_outputs: int) -> None:
        super()._look_up(codes, n_outputs)
        if self.asked is not None:
            self.code = codes.get(self.asked.class_ or "", -1) if self.asked.target is not None else -1


class Decision:
    """How the predictions of one model are decided.

    deciding : of its stream, whose `asked` is not None.
    """

    def __init__(self, deciding: DecisionPolicy) -> None:
        assert deciding.asked is not None
        self._deciding, target = deciding, deciding.asked.target
        self.threshold = None if target is None else Threshold(*target, scores=deciding.of_scores)

    @property
    def costs(self) -> Costs | None:
        """Of mistakes: see `Stakes`."""
        return self._deciding.costs

    def copy(self) -> "Decision":
        """One that goes on by itself as this one would."""
        made = Decision(self._deciding)
        if made.threshold is not None and self.threshold is not None:
            made.threshold.restore(self.threshold.state()._asdict())
        return made

    @property
    def alert(self) -> int:
        """The code of the class whose naming is an alert; -1 while it is not known, or with costs, which have none."""
        return self._deciding.code

    def run(self, program: Program, out: Floats, decided: Floats, x: Floats | Bags) -> None:
        """Decide at each PREDICT of a program, and learn. out, decided : as `models.predictions.decision` has them.
        x : (capacity, d), of which a column may hold amounts."""
        if self.threshold is not None:
            self.threshold.run(program, out, decided, self._deciding.code)
        elif (priced := self._deciding.priced(x)) is not None:
            by_cost(program, out, decided, priced)

    def metrics(self, metrics: Prequential, recent: bool) -> dict[str, float]:
        """With a threshold `alert_rate`, the share of the labels that its class was named for (of anomalies of the
        predictions, since labels may never come), and where it is recent `threshold`. metrics : of its model."""
        found: dict[str, float] = {}
        if self.threshold is not None:
            if self.threshold.scores:
                rate = self.threshold.alert_rate(recent)
                found |= {} if rate is None else {"alert_rate": rate}
            elif (total := (confusion := metrics.counts(recent)).sum()) > 0.0:
                named = confusion[:, 1 + self._deciding.code].sum() if self._deciding.code >= 0 else 0.0
                found["alert_rate"] = float(named / total)
            if recent and self.threshold.value is not None:
                found["threshold"] = self.threshold.value
        return found
