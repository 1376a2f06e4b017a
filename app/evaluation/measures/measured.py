"""Prequential metrics, and measures that a worker does not have, since they would make its state too large or are of no
use to it: AUROC over the whole run, over a fading past, and of any number of classes, the mean of the running accuracy,
and drift detectors over the errors."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.dataset.files.data import MOST_CLASSES
from riparian.app.evaluation.measures.auroc import Ranking
from riparian.app.evaluation.measures.measures import FROM_FIRST
from riparian.app.partition.drift.detection import ABSOLUTE, MISTAKES, Signal, errors
from riparian.app.partition.learner import LABELS_OF_ANOMALIES, PartitionLearner
from riparian.app.partition.predictions.serving import Serving
from riparian.models.contract import LEARN, Floats, Program
from riparian.models.evaluation import auroc
from riparian.models.evaluation.costs import Priced
from riparian.models.evaluation.prequential import NEGLIGIBLE, Prequential
from riparian.models.kernels.elementary import exps, logs
from riparian.topics.records import ANOMALY, VALUES

NOTHING = -1  # was known
FADED = 1e-9  # the weight of a label at which its scores are forgotten


def _scored(program: Program, out: Floats) -> NDArray[np.int64]:
    """Places in the program of the labels that count, of instances that were predicted."""
    return np.flatnonzero((program.op == LEARN) & (program.w > 0.0) & ~np.isnan(out[program.row, 0]))


class Recent(NamedTuple):
    """The last labels of a fading past: their codes y, probabilities p and weights w."""

    y: NDArray[np.int64]
    p: Floats
    w: Floats


class Measured(Prequential):
    """Metrics of one model in an evaluation.

    Parameters
    ----------
    task, n_outputs, window, fading, alerts
        As Prequential takes them.
    detectors : sequence of str
        Drift detectors over the errors, at their defaults.
    seed : int
        Of the detectors.
    """

    n_ranked: ClassVar[int] = MOST_CLASSES

    def __init__(
        self,
        task: str,
        n_outputs: int,
        *,
        window: int = 1000,
        fading: float | None = None,
        detectors: Sequence[str] = (),
        seed: int = 0,
        alerts: bool = False,
    ) -> None:
        super().__init__(task, n_outputs, window=window, fading=fading, alerts=alerts)
        kind = ABSOLUTE if task in VALUES else MISTAKES
        self._signal = Signal({name: {} for name in detectors}, kind, seed=seed)
        self.changes: list[dict[str, Any]] = []
        self._ranking = Ranking()
        self._reach = 0 if fading is None else math.ceil(math.log(FADED) / math.log(fading))
        self._recent = Recent(np.zeros(0, np.int64), np.zeros((0, n_outputs)), np.zeros(0))
        self._hits = self._weight = self._running = 0.0
        self._n = self._unforeseen = 0

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        self._signal.warm_up()

    def score(self, program: Program, out: Floats, decided: Floats | None = None, priced: Priced | None = None) -> None:
        """Score predictions by their labels, in order: see `Prequential.score`."""
        known = None if self.task in VALUES else self.state().seen.astype(bool)
        super().score(program, out, decided, priced)
        if self._signal.detectors:
            for found in self._signal.update(errors(self._signal.kind, program, out)[1]):
                fields = {key: getattr(found, key) for key in ("detector", "level", "n", "before", "after")}
                self.changes.append({key: None if value != value else value for key, value in fields.items()})
        if known is None and self.task != ANOMALY:
            return
        scored = _scored(program, out)
        y, w, p = program.y[scored].astype(np.int64), program.w[scored], out[program.row[scored]]
        if known is None:
            self._ranking.add(y, np.hstack((1.0 - p[:, :1], p[:, :1])), w)
            return
        if not len(scored):
            return
        guess = np.where(p.max(axis=1) > 0.0, p.argmax(axis=1), NOTHING)
        if decided is not None:
            named = decided[program.row[scored], 0]
            guess = np.where((guess == NOTHING) | np.isnan(named), guess, named).astype(np.int64)
        self._count_hits(w * (guess == y), w)
        unknown = guess == NOTHING
        self._unforeseen += int((p[np.arange(len(y)), y] == 0.0)[~unknown].sum())
        if unknown.any():  # even over the classes known by then, as in the log loss
            seen = np.logical_or.accumulate(np.eye(len(known), dtype=bool)[y], axis=0) | known
            p[unknown] = (seen / seen.sum(axis=1, keepdims=True))[unknown]
        self._ranking.add(y, p, w)
        if self.fading is None:
            return
        before = self._recent._replace(p=np.pad(self._recent.p, ((0, 0), (0, p.shape[1] - self._recent.p.shape[1]))))
        parts = zip(before, (y, p, w), strict=True)
        self._recent = Recent(*(np.concatenate(pair)[-self._reach :] for pair in parts))

    def _count_hits(self, hits: Floats, w: Floats) -> None:
        """Labels are added one by one, so that sums do not depend on how labels were divided into programs."""
        so_far = np.cumsum(np.concatenate(([self._hits], hits)))[1:]
        weight = np.cumsum(np.concatenate(([self._weight], w)))[1:]
        self._hits, self._weight = float(so_far[-1]), float(weight[-1])
        self._running = float(np.cumsum(np.concatenate(([self._running], so_far / weight)))[-1])
        self._n += len(w)

    def metrics(self) -> dict[str, float]:
        """The measures of `Prequential.metrics`, with the mean of the running accuracy: of the accuracy over all labels
        so far, at each label; and with how many labels were of classes that had no probability, if any were."""
        found = super().metrics()
        found |= {"mean_running_accuracy": self._running / self._n} if self._n else {}
        return found | ({"unforeseen": self._unforeseen} if self._unforeseen else {})

    def ranked(self) -> dict[str, float]:
        """auroc over the whole run, and auroc_error where it may be wrong (app.evaluation.measures.auroc). See
        `classes`."""
        area, error = auroc.mean(self._ranking.areas()), self._ranking.error()
        return {} if area is None else {"auroc": area} | ({"auroc_error": error} if error > 0.0 else {})

    def recent(self) -> dict[str, float]:
        """The measures of `windowed`, with the AUROC over the fading past, too, of classes that are in it."""
        found = super().windowed()
        if self.fading is None:
            return found
        y, p, w = self._recent
        w = w * exps(np.arange(len(w) - 1.0, -1.0, -1.0) * logs(np.float64(self.fading)))
        there = np.bincount(y, w)[y] > NEGLIGIBLE * w.sum()  # labels of classes that have not faded away
        area = auroc.mean(auroc.areas(y[there], p[there], w[there]))
        return found if area is None else found | {"auroc": area}

    def classes(self, names: Sequence[Any]) -> dict[str, dict[str, float]]:
        """Name of a class -> n (weight of its labels), recall, precision, f1, auroc (against the rest); what is
        undefined is absent. names : by code."""
        areas, found = self._ranking.areas(), self.by_class()
        return {str(names[k]): one | ({"auroc": areas[k]} if k in areas else {}) for k, one in found.items()}


def by_name(metrics: Prequential, names: Sequence[Any]) -> dict[str, dict[str, float]]:
    """Name of a class -> figures, as `Prequential.by_class` has them. names : by code."""
    return {str(names[k]): one for k, one in metrics.by_class().items()}


def decided_classes(learner: PartitionLearner) -> list[str] | None:
    """The classes that a decision is about, by code; None where the stream has none."""
    if learner.spec.decision is None:
        return None
    return LABELS_OF_ANOMALIES if learner.classes is None else learner.classes.texts


class FromFirstLabel:
    """Metrics of what a model predicted once it knew something. The rows before are many where labels come late, and a
    worker counts them as wrong, whatever the model.

    Parameters
    ----------
    metrics : Prequential
        Of the model, which are scored as they are. From now on what they score is scored here, too.
    own : Prequential
        That has scored nothing.
    """

    def __init__(self, metrics: Prequential, own: Prequential) -> None:
        self.metrics, self.own, self.left_out = metrics, own, 0
        self._knows = False  # whether a label was scored here
        self._score = metrics.score
        metrics.score = self._both  # type: ignore[method-assign]

    def _both(self, program: Program, out: Floats, decided: Floats | None = None, priced: Priced | None = None) -> None:
        self._score(program, out, decided, priced)
        if not self._knows:
            scored = _scored(program, out)
            knew = out[program.row[scored]].max(axis=1, initial=0.0) > 0.0
            self._knows, first = bool(knew.any()), int(np.append(knew, True).argmax())
            self.left_out += first
            w = program.w.copy()
            w[scored[:first]] = 0.0
            program = program._replace(w=w)
        self.own.resize(out.shape[1])
        self.own.score(program, out, decided, priced)

    def result(self, serving: Serving, classes: Sequence[Any] | None = None) -> dict[str, Any]:
        """FROM_FIRST: left_out, how many labels are not in these figures; n and the metrics of the others, and of an
        evaluation of one model AUROC and classes. Nothing where none was left out. serving : of the model."""
        if not self.left_out:
            return {}
        found: dict[str, Any] = {"left_out": self.left_out, **serving.overall(self.own)}
        if isinstance(self.own, Measured):
            found |= {**self.own.ranked(), "classes": self.own.classes(classes or ())}
        elif classes is not None:
            found["classes"] = by_name(self.own, classes)
        return {FROM_FIRST: found}
