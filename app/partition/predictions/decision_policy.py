"""What mistakes cost, in a partition: labels that count more in learning, and which class a prediction names. Pure.

Each model decides for itself, by the costs of the stream file or by a threshold of its own: a challenger's predictions
can then be compared with the champion's, and after a promotion the threshold fits the probabilities that it is about.
What was decided waits beside the instance, and its label scores that.

A class of the stream file is found by its text once it is known; until then its weight, its costs and its threshold
change nothing. Probabilities of classes that no model has learned are 0, so it does not matter how long before its
first label a class is known.

Of anomalies, whose classes are no texts, a threshold on the scores says which are alerts.
"""

from collections.abc import Mapping

import numpy as np

from riparian.app.stream_file.spec import Spec
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.predictions.decision import Threshold, by_cost
from riparian.topics.records import ANOMALY
from riparian.topics.vocabulary import Vocabulary

DECIDED = "/decided"
Weights = Mapping[str, float]
Prices = Mapping[str, Mapping[str, float]]
OTHERWISE = 1.0  # cost of a mistake that the stream file does not name


def decided_name(role: str) -> str:
    """Where the pending store keeps what a model's predictions named."""
    return f"{role}{DECIDED}"


class Stakes:
    """What labels count in learning, and what mistakes cost, by codes of classes.

    Parameters
    ----------
    classes : Vocabulary, optional
        Of the models, which grows. None: labels are numbers.
    weights : mapping, optional
        Class -> what its labels count; 1 where it is not named.
    prices : mapping, optional
        True class -> class named -> cost, as a stream file says it; None: all mistakes are alike.
    target : (str, str), optional
        What is kept, and the class that it is about: naming one other class for another is no mistake then.

    Attributes
    ----------
    costs : (n_outputs, n_outputs) float64, optional
        Of naming class j where i is true; None before any class is looked up.
    worst : (n_outputs,) float64
        Of naming none where class i is true: as much as its dearest mistake in the stream file, whether or not the
        class that it names is known, since that depends on how records were cut into steps.
    """

    def __init__(
        self,
        classes: Vocabulary | None,
        weights: Weights | None,
        prices: Prices | None,
        target: tuple[str, str] | None = None,
    ) -> None:
        self.weights, self.prices, self.target = weights or {}, prices, target
        self.costs: Floats | None = None
        self.worst = np.zeros(0)
        self._classes = classes
        self._known, self._by_code = (0, 0), np.ones(0)

    @property
    def highest(self) -> float:
        """The highest cost of a mistake."""
        return max(OTHERWISE, *(cost for row in (self.prices or {}).values() for cost in row.values()), OTHERWISE)

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
        self.costs = np.full((n_outputs, n_outputs), OTHERWISE)
        np.fill_diagonal(self.costs, 0.0)
        if self.target is not None:
            about = np.arange(n_outputs) == codes.get(self.target[1], -1)
            self.costs[about[:, None] == about] = 0.0
        self.worst = np.full(n_outputs, OTHERWISE)
        for true, row in (self.prices or {}).items():
            if true in codes:
                self.worst[codes[true]] = max(OTHERWISE, *row.values(), OTHERWISE)
            for named, cost in row.items():
                if true in codes and named in codes:
                    self.costs[codes[true], codes[named]] = cost

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
        super().__init__(classes, spec.class_weights, spec.prices)
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
    def costs(self) -> Floats | None:
        """Costs of errors: see `DecisionPolicy`."""
        return self._deciding.costs

    @property
    def worst(self) -> Floats:
        """The worst costs: see `DecisionPolicy`."""
        return self._deciding.worst

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

    def run(self, program: Program, out: Floats, decided: Floats) -> None:
        """Decide at each PREDICT of a program, and learn. out, decided : as `models.predictions.decision` has them."""
        if self.threshold is not None:
            self.threshold.run(program, out, decided, self._deciding.code)
        elif self._deciding.costs is not None:
            by_cost(program, out, decided, self._deciding.costs)

    def metrics(self, confusion: Floats, recent: bool) -> dict[str, float]:
        """`cost`, the mean of a label; or with a threshold `alert_rate`, the share of the labels that its class was
        named for (of anomalies of the predictions, since labels may never come), and where it is recent `threshold`.
        confusion : as `Prequential.counts` has it."""
        total = confusion.sum()
        found: dict[str, float] = {}
        if self.threshold is not None:
            if self.threshold.scores:
                rate = self.threshold.alert_rate(recent)
                found |= {} if rate is None else {"alert_rate": rate}
            elif total > 0.0:
                named = confusion[:, 1 + self._deciding.code].sum() if self._deciding.code >= 0 else 0.0
                found["alert_rate"] = float(named / total)
            if recent and self.threshold.value is not None:
                found["threshold"] = self.threshold.value
        elif self._deciding.costs is not None and total > 0.0:
            k = len(confusion)
            costs = self._deciding.costs[:k, :k]
            found["cost"] = float((confusion * np.column_stack((self.worst[:k], costs))).sum() / total)
        return found
