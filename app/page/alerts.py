"""What an alert of a stream is, by its stream file and its metrics, and what is missing for more. Pure."""

from typing import Any

import numpy as np

from riparian.app.evaluation.measures.objective import recent_of
from riparian.app.page.outcomes import MISSED, NEWEST, NO_LABEL, RIGHT, WAITING, WRONG, Outcomes, alert_class, prices
from riparian.app.page.view import StreamView
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY, REGRESSION

KINDS = (RIGHT, WRONG, WAITING, NO_LABEL, MISSED, NEWEST)  # what `only` may be
SHOWN = 100
NO_VALUES = "A value is no alert: alerts are of classes and of anomalies."
FORECAST = "Labels of label.of are not read here: whether forecasts were right stands in Overview and Models."
BEHIND = "Records are older than their predictions here: labels are waited for from when these were sent."


def about(
    view: StreamView, partition: int | None, outcomes: Outcomes | None = None, reasons: bool = True
) -> dict[str, Any]:
    """What alerts are about. outcomes : those that are shown with it. reasons : whether they are shown.

    Returns
    -------
    dict
        "class", "target" (such as ["alert_rate", 0.01]; None with costs), "threshold" (`threshold_of`), "matures" (ms
        that an instance waits for its label; None without `join.unlabelled`), and "missing": sentences on what to
        write into the stream file for alerts, reasons and scores, and on what is not known here.
    """
    spec = view.spec
    target = None if spec.decision is None else spec.decision.target
    return {
        "class": alert_class(spec),
        "task": spec.task,
        "target": target and list(target),
        "threshold": threshold_of(view, partition),
        "matures": None if spec.join.unlabelled is None else int(1000 * spec.join.unlabelled.after),
        "reasons": None if spec.predictions.reasons is None else spec.predictions.reasons.top,
        "missing": [*missing(spec, reasons), *([BEHIND] if outcomes is not None and outcomes.is_behind() else [])],
    }


def threshold_of(view: StreamView, partition: int | None) -> float | None:
    """From which score on a prediction is an alert: as the metrics tell it, over partitions their median; of costs of
    two classes where naming either costs the same."""
    spec = view.spec
    classes = spec.class_vocabulary()
    given = None if classes is None else prices(spec, classes.texts)
    if spec.prices is not None:
        return given and (given[1] / sum(given) if sum(given) else None)
    told = [recent_of(record).get("threshold") for record in view.of_role(CHAMPION, partition)]
    known = [value for value in told if value is not None]
    return float(np.median(known)) if known else None


def missing(spec: Spec, reasons: bool = True) -> list[str]:
    """What to write into the stream file, a sentence each."""
    found = [] if spec.label.of is None else [FORECAST]
    if spec.task == REGRESSION:
        return [NO_VALUES, *found]
    if spec.decision is None:
        line = "alert_rate: 0.01" if spec.task == ANOMALY else "class: CLASS, alert_rate: 0.01"
        found.append(f"No prediction is an alert. Write decision: {{{line}}} into the stream file.")
    if reasons and spec.decision is not None and spec.predictions.reasons is None:
        found.append("No reasons are written. Write predictions: {reasons: {top: 3, of: alerts}}.")
    if spec.task != ANOMALY and not spec.predictions.probabilities:
        found.append("Scores are not written. Remove predictions: {probabilities: false}.")
    return found
