"""By which figure a stream is judged: chosen from its stream file, in one place, for the page and for commands."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.topics.records import ANOMALY, REGRESSION, MetricsRecord

if TYPE_CHECKING:
    from riparian.app.stream_file.spec import Spec

RARE = 0.9  # share of the labels from which on a class alone makes accuracy say little
ANOMALIES = "1"  # the class of anomalies, as figures by class have it
Z = 1.959964  # of 95 %
ENOUGH = 30.0  # labels that a share is of, from which on it is judged

Figures = Mapping[str, float | None]
ByClass = Mapping[str, Mapping[str, float]]
Numbers = float | NDArray[np.float64]


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100.0 * value:.{digits}f} %"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


class Objective(NamedTuple):
    """What a stream is judged by.

    key : of the measure, as `app.evaluation.measures.measures.MEASURES` or figures by class have it
    title : for people, such as "Recall at 1 % alerts"
    greater : whether more is better
    share : whether it is one, written as a percentage
    of : the class that it is about; None of all
    per : what its value is multiplied by to be shown
    """

    key: str
    title: str
    greater: bool = True
    share: bool = True
    of: str | None = None
    per: float = 1.0

    def value(self, recent: Figures, classes: ByClass | None) -> float | None:
        """Of the figures of a model, and those of its classes; None where it is not known yet."""
        found = recent.get(self.key) if self.of is None else (classes or {}).get(self.of, {}).get(self.key)
        return None if found is None else found * self.per

    def weight(self, recent: Figures, classes: ByClass | None, labels: float) -> float:
        """How many labels the value is of. labels : of the window, or the fading past."""
        if self.of is None:
            return labels
        if self.key == "precision":  # of those that were named
            return labels * (recent.get("alert_rate") or 0.0)
        return (classes or {}).get(self.of, {}).get("n", 0.0)

    def interval(self, value: float, weight: float) -> tuple[float, float] | None:
        """Of 95 %, by Wilson's score; None of what is no share of single labels."""
        counted = self.key in ("recall", "precision", "accuracy", "coverage")
        if not counted or not weight > 0.0:
            return None
        low, high = wilson(value, weight)
        return float(low), float(high)

    def text(self, value: float | None, digits: int = 1) -> str:
        """A value for people."""
        if value is None:
            return "–"
        if self.share:
            return percent(value, digits)
        return number(value)

    def phrase(self, value: float) -> str:
        """What a value means, as a sentence without its full stop."""
        shown = self.text(value)
        of = "anomalies are" if self.of == ANOMALIES else f"{self.of} is"
        return {
            "recall": f"{shown} of {of} caught",
            "precision": f"{shown} of the alerts are right",
            "cost": f"mistakes cost {shown} per 1,000 labels",
            "accuracy": f"{shown} of the predictions are right",
            "balanced_accuracy": f"{shown} of a class is right, on average",
            "mae": f"predictions are off by {shown} on average",
        }.get(self.key, f"{self.title} is {shown}")


def recent_of(record: MetricsRecord) -> Figures:
    """The figures over the last labels."""
    return record.window or record.fading or {}


def pooled(objective: Objective, records: Iterable[MetricsRecord], window: int) -> tuple[float | None, float]:
    """A figure over the last labels of the records of a model, one a partition, and how many labels it is of: the mean
    by these. None without any. window : labels of a partition that it is over, at most."""
    parts = []
    for record in records:
        recent = recent_of(record)
        value = objective.value(recent, record.classes)
        if value is not None and (record.n or objective == ALERT_RATE):
            parts.append((value, max(objective.weight(recent, record.classes, min(record.n, window)), 1e-9)))
    total = sum(weight for _, weight in parts)
    return (sum(value * weight for value, weight in parts) / total if total else None), total


ALERT_RATE = Objective("alert_rate", "Alert rate")


def wilson(share: Numbers, n: Numbers) -> tuple[Any, Any]:
    """The interval of 95 % of shares of n labels each (Wilson 1927): its ends, of the same shape. What a record says
    beyond 0 and 1 counts as these.

    >>> [round(float(each), 3) for each in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    share, z2 = np.clip(share, 0.0, 1.0), Z * Z / n
    middle, width = share + z2 / 2.0, Z * np.sqrt(share * (1.0 - share) / n + z2 / (4.0 * n))
    return np.maximum(0.0, (middle - width) / (1.0 + z2)), np.minimum(1.0, (middle + width) / (1.0 + z2))


def objective_of(spec: "Spec", most: float = 0.0) -> Objective:
    """What a stream is judged by.

    most : share of the most frequent class among its labels. Without a decision, accuracy says little from RARE on.
    """
    decision = spec.decision
    if spec.task == REGRESSION:
        return Objective("mae", "Mean absolute error", greater=False, share=False)
    if decision is not None and decision.target is not None:
        name, share = decision.target
        of = ANOMALIES if spec.task == ANOMALY else decision.class_
        at = f"{100.0 * share:g} %"
        kept = {"alert_rate": f"at {at} alerts", "precision": f"at {at} precision", "recall": f"at {at} recall"}[name]
        key = "precision" if name == "recall" else "recall"
        return Objective(key, f"{key.capitalize()} {kept}", of=of)
    if decision is not None:
        title = "Cost per 1,000 labels" + (f" (by {spec.amount})" if spec.amount is not None else "")
        return Objective("cost", title, greater=False, share=False, per=1000.0)
    if spec.task == ANOMALY or (most >= RARE and spec.metrics.fading is None):
        return Objective("auroc", "AUROC", share=False)
    if most >= RARE:
        return Objective("balanced_accuracy", "Balanced accuracy")
    return Objective("accuracy", "Accuracy")


def most_frequent(classes: "list[ByClass]") -> float:
    """Share of the most frequent class among the labels of some figures by class; 0 without labels."""
    weights: dict[str, float] = {}
    for one in classes:
        for name, figures in one.items():
            weights[name] = weights.get(name, 0.0) + figures.get("n", 0.0)
    total = sum(weights.values())
    return max(weights.values()) / total if total > 0.0 else 0.0


def beside(spec: "Spec", objective: Objective) -> list[Objective]:
    """The figures that stand beside the first one."""
    of = objective.of
    ranked = Objective("auroc", "AUROC", share=False, of=None if of == ANOMALIES else of)
    shares = {
        "recall": [Objective("precision", "Precision", of=of), ranked, ALERT_RATE],
        "precision": [Objective("recall", "Recall", of=of), ranked, ALERT_RATE],
        "cost": [Objective("balanced_accuracy", "Balanced accuracy"), Objective("log_loss", "Log loss", False, False)],
        "accuracy": [Objective("kappa", "Kappa", share=False), Objective("log_loss", "Log loss", False, False)],
        "auroc": [ALERT_RATE] if spec.task == ANOMALY else [Objective("balanced_accuracy", "Balanced accuracy")],
        "balanced_accuracy": [Objective("kappa", "Kappa", share=False)],
        "mae": [Objective("rmse", "RMSE", False, False), Objective("r2", "R²", share=False)],
    }
    held = [Objective("coverage", "Held by interval or set")] if spec.predictions.coverage is not None else []
    return shares[objective.key] + held


def candidates(spec: "Spec") -> dict[str, Objective]:
    """Key -> whatever a stream may be judged by, as its labels come to be."""
    return {one.key: one for one in (objective_of(spec, most) for most in (0.0, 1.0))}
