"""What an evaluation measures, by name, as plain data: what to call it, how to write it, and what is better."""

from collections.abc import Mapping
from typing import Any, NamedTuple

AS_GIVEN = "given"  # an order: that of the models as they were named
FROM_FIRST = "from_first_label"  # field of a result: see app.evaluation.measures.measured.FromFirstLabel.result


class Measure(NamedTuple):
    """A measure, as it is shown.

    text : for people
    greater : whether more is better
    form : of its value
    """

    text: str
    greater: bool
    form: str


MEASURES = {
    "accuracy": Measure("accuracy", True, "{:.4%}"),
    "kappa": Measure("kappa", True, "{:.4f}"),
    "kappa_temporal": Measure("kappa temporal", True, "{:.4f}"),
    "log_loss": Measure("log loss", False, "{:.4f}"),
    "f1_macro": Measure("macro F1", True, "{:.4f}"),
    "balanced_accuracy": Measure("balanced accuracy", True, "{:.4%}"),
    "auroc": Measure("AUROC", True, "{:.4f}"),
    "cost": Measure("mean cost", False, "{:.6g}"),
    "alert_rate": Measure("alert rate", False, "{:.4%}"),
    "mean_running_accuracy": Measure("mean of running accuracy", True, "{:.4%}"),
    "mae": Measure("MAE", False, "{:.6g}"),
    "rmse": Measure("RMSE", False, "{:.6g}"),
    "r2": Measure("R²", True, "{:.4f}"),
    "calibration_error": Measure("calibration error", False, "{:.4f}"),
    "coverage": Measure("labels held by interval or set", True, "{:.4%}"),
    "interval_width": Measure("mean width of intervals", False, "{:.6g}"),
    "set_size": Measure("mean number of classes in a set", False, "{:.4f}"),
    "instances_per_second": Measure("instances/s", True, "{:,}"),
    "seconds": Measure("seconds of CPU", False, "{:.3f}"),
    "wall_seconds": Measure("seconds by the clock", False, "{:.3f}"),
    "n_nodes": Measure("nodes", False, "{:,}"),
    "n_leaves": Measure("leaves", False, "{:,}"),
    "live_bytes": Measure("bytes in memory", False, "{:,}"),
    "mean_live_bytes": Measure("bytes in memory on average", False, "{:,}"),
    "peak_live_bytes": Measure("bytes in memory at most", False, "{:,}"),
    "state_bytes": Measure("bytes of a checkpoint", False, "{:,}"),
    "peak_state_bytes": Measure("bytes of a checkpoint at most", False, "{:,}"),
}
UNLEARNED = ("expired", "evicted", "null_labels")  # counts of instances that left so, as they came
# Of a curve: over the window or the fading past, or as it stands at the point.
RECENT = (
    *("accuracy", "kappa", "kappa_temporal", "log_loss", "f1_macro", "balanced_accuracy", "auroc"),
    *("cost", "alert_rate"),
    *("mae", "rmse", "r2", "calibration_error", "coverage", "interval_width", "set_size"),
)
STANDING = {
    "running_accuracy": "accuracy so far",
    "threshold": "threshold",
    "mean_running_accuracy": MEASURES["mean_running_accuracy"].text,
    **{
        name: MEASURES[name].text
        for name in ("n_nodes", "n_leaves", "live_bytes", "state_bytes", "seconds", "wall_seconds")
    },
}


OF_CLASS = ("recall", "precision", "f1")  # over the window, "recall:CLASS"
MOST_CLASSES = 50  # classes that have curves, at most


def curve_text(name: str) -> str:
    """What a curve shows, for people."""
    kind, colon, owner = name.partition(":")
    return f"{kind} of {owner}" if colon else STANDING.get(name) or MEASURES[name].text


def from_first(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with the figures from the first label on, where it has these."""
    return {**result, **result.get(FROM_FIRST, {})}


def quality(task: str) -> str:
    """By what models of a task are compared unless something else is said."""
    return {"regression": "mae", "anomaly": "auroc"}.get(task, "accuracy")
