"""What `riparian evaluate` prints for people: one result, or a table of several."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape

from riparian.app.cli.terminal import by_value
from riparian.app.cli.terminal.console import plain_table, stdout_console
from riparian.app.errors import safe
from riparian.app.evaluation.measures.measures import FROM_FIRST, MEASURES, UNLEARNED, from_first, quality
from riparian.app.evaluation.measures.objective import Objective
from riparian.app.stream_file.durations import format_duration

COUNTS = {
    "n": ("labels scored", "{:,}"),
    "predictions": ("predictions", "{:,}"),
    "alerts": ("alerts", "{:,}"),
    "threshold": ("threshold of the score", "{:.4f}"),
    "unpredicted": ("labels not scored, nothing was known", "{:,}"),
    "unforeseen": ("labels whose class had probability 0, 34.5 each in log loss", "{:,}"),
    "auroc_error": ("AUROC wrong by at most", "{:.1g}"),
    "expired": ("instances expired (join.horizon)", "{:,}"),
    "evicted": ("instances evicted (join.max_pending, join.max_pending_bytes)", "{:,}"),
    "null_labels": ("instances whose label is null", "{:,}"),
}
# In the table of several: heading, form of the mean, factor, form of the standard error.
COLUMNS = {
    "accuracy": ("accuracy %", "{:.2f}", 100.0, "{:.2f}"),
    "kappa": ("kappa", "{:.4f}", 1.0, "{:.4f}"),
    "log_loss": ("log loss", "{:.4f}", 1.0, "{:.4f}"),
    "auroc": ("AUROC", "{:.4f}", 1.0, "{:.4f}"),
    "alert_rate": ("alerts %", "{:.3f}", 100.0, "{:.3f}"),
    "mae": ("MAE", "{:.5g}", 1.0, "{:.2g}"),
    "rmse": ("RMSE", "{:.5g}", 1.0, "{:.2g}"),
    "r2": ("R²", "{:.4f}", 1.0, "{:.4f}"),
    "coverage": ("coverage %", "{:.2f}", 100.0, "{:.2f}"),
    "interval_width": ("width", "{:.5g}", 1.0, "{:.2g}"),
    "set_size": ("set size", "{:.3f}", 1.0, "{:.3f}"),
    "instances_per_second": ("instances/s", "{:,.0f}", 1.0, ""),
    "n_leaves": ("leaves", "{:,.0f}", 1.0, ""),
    "peak_live_bytes": ("bytes", "{:,.0f}", 1.0, ""),
}
MOST_CHANGES = 20  # lines of drifts
MOST_CLASSES = 20  # lines of classes
STEPS = "▁▂▃▄▅▆▇█"
_table = partial(plain_table, whole=True)


def show_one(result: dict[str, Any], past: str) -> None:
    """past : what a point of the curve is over."""
    console = Console(highlight=False)
    given = ", ".join(f"{key}={value}" for key, value in result["parameters"].items())
    auto = " (auto)" if result.get("auto") else ""
    console.print(f"[bold]{result['model']}[/bold]{auto} on {result['data']}, {_predicted(result)}{_delay(result)}")
    if given:
        console.print(given, style="dim")
    table = plain_table((), show_header=False)
    rows = {key: (measure.text, measure.form) for key, measure in MEASURES.items()}
    of_worker = result
    result = from_first(result)
    for key, (name, form) in (rows | COUNTS).items():
        if result.get(key) is not None:
            table.add_row(name, form.format(result[key]))
    console.print(table)
    _show_rejections(console, result)
    _show_left_out(console, result, f": accuracy {MEASURES['accuracy'].form.format(of_worker.get('accuracy', 0.0))}")
    if len(result.get("classes", ())) > 0:
        _show_classes(console, result["classes"])
    if "tenths" in result:
        _show_tenths(console, {"alerts": result})
    measure = "alert_rate" if "tenths" in result else quality(result["task"])
    values = [value for value in result["curves"].get(measure, []) if value is not None]
    if len(values) > 1:
        low, high = min(values), max(values)
        marks = [STEPS[round((v - low) / (high - low) * (len(STEPS) - 1)) if high > low else 0] for v in values]
        console.print(
            f"{''.join(marks)}  {MEASURES[measure].text} over {past}: {low:.4g} .. {high:.4g}, now {values[-1]:.4g}"
        )
    changes = result.get("changes", ())
    for change in [change for change in changes if change["level"] == "drift"][:MOST_CHANGES]:
        before = "" if change["before"] is None else f"{change['before']:.4g} before, "
        console.print(f"{change['detector']}: drift at {change['n']:,}, mean error {before}{change['after']:.4g} after")
    for (detector, level), n in Counter((change["detector"], change["level"]) for change in changes).items():
        console.print(f"{detector}: {n:,} {level}{'s' if n > 1 else ''}", style="dim")


def show_whole(found: dict[str, Any]) -> None:
    """A stream file as it is (`app.evaluation.whole`)."""
    console, objective = stdout_console(), Objective(**found["objective"])
    if any("tenths" in one for one in found["models"].values()):
        _show_alerts(console, found)
        return
    form = "{:.4%}" if objective.share else MEASURES[objective.key].form

    def overall(one: dict[str, Any]) -> float | None:
        all_labels = from_first({**one["overall"], FROM_FIRST: one.get(FROM_FIRST, {})})
        return objective.value(all_labels, all_labels.get("classes"))

    def recent(one: dict[str, Any]) -> float | None:
        return objective.value(one["recent"], one.get("classes"))

    estimated = objective.key == "accuracy" and any(one["estimated"] for one in found["models"].values())
    # AUROC is that of a window: a worker, which this is, keeps no more scores.
    whole = any(overall(one) is not None for one in found["models"].values())
    title = MEASURES["accuracy"].text if objective.key == "accuracy" else objective.title
    # In two lines, so that the figures fit a terminal of 80 columns.
    last = "of the\nlast labels" if whole else f"{title} of\nthe last labels"
    table = _table(["model", "learner"], [*([title] * whole), last, *(["expected\nbefore labels"] * estimated)])

    def formatted(value: float | None) -> str:
        return "" if value is None else form.format(value)

    for role, one in found["models"].items():
        expected = [formatted(one["estimated"].get("accuracy"))] * estimated
        table.add_row(role, one["learner"], *([formatted(overall(one))] * whole), formatted(recent(one)), *expected)
    console.print(f"{found['rows']:,} rows of {found['data']}, {_predicted(found)}{_delay(found)}")
    console.print(table)
    areas = {role: one["recent"]["auroc"] for role, one in found["models"].items() if "auroc" in one["recent"]}
    if areas and objective.key != "auroc":
        texts = ", ".join(f"{role} {MEASURES['auroc'].form.format(area)}" for role, area in areas.items())
        console.print(f"AUROC of the last labels: {texts}", soft_wrap=True)
    for role, one in found["models"].items():
        held = [key for key in ("coverage", "interval_width", "set_size") if key in one["overall"]]
        if held:
            shown = [f"{MEASURES[key].text} {MEASURES[key].form.format(one['overall'][key])}" for key in held]
            console.print(f"{role}: {', '.join(shown)}", soft_wrap=True)
    for role, one in found["models"].items():
        decided = from_first({**one["overall"], FROM_FIRST: one.get(FROM_FIRST, {})})
        show_decided(console, role, decided, decided.get("classes", {}))
    left_out = [one[FROM_FIRST] for one in found["models"].values() if FROM_FIRST in one]
    _show_left_out(console, min(left_out, key=lambda one: one["left_out"], default={}), "")
    by_value.show(found.get("segments", ()))
    _show_drifts(console, found)


def show_decided(console: Console, name: str, scores: dict[str, Any], classes: dict[str, dict[str, float]]) -> None:
    """What a model's decision comes to, of each class, too; nothing without classes."""
    if classes:
        asked = [(MEASURES[key], scores[key]) for key in ("alert_rate", "cost") if key in scores]
        shown = [f"{measure.text} {measure.form.format(value)}" for measure, value in asked]
        console.print(f"{name}: {', '.join(shown)}", markup=False)
        _show_classes(console, classes)


def _show_alerts(console: Console, found: dict[str, Any]) -> None:
    """A stream file as it is, over rows without labels."""
    speed = found["instances_per_second"]
    formatted = "" if speed is None else f", {MEASURES['instances_per_second'].form.format(speed)} instances/s"
    console.print(f"{found['rows']:,} rows of {found['data']}, {_delay(found)}{formatted}")
    table = _table(["model", "learner"], ["predictions", "alerts", "alert rate", "threshold", "bytes"])
    for role, one in found["models"].items():
        rate, threshold = one["overall"].get("alert_rate"), one["recent"].get("threshold")
        table.add_row(
            role,
            one["learner"],
            *(f"{one[name]:,}" for name in ("predictions", "alerts")),
            "" if rate is None else MEASURES["alert_rate"].form.format(rate),
            "" if threshold is None else COUNTS["threshold"][1].format(threshold),
            MEASURES["live_bytes"].form.format(one["live_bytes"]),
        )
    console.print(table)
    _show_tenths(console, found["models"])
    _show_drifts(console, found)


def _show_tenths(console: Console, found: dict[str, dict[str, Any]]) -> None:
    """found : heading -> what `app.evaluation.measures.alerts.Tally` has. Alerts of each tenth of the rows,
    and their share."""
    table = _table([], ["from row", *found])
    for parts in zip(*(one["tenths"] for one in found.values()), strict=True):
        cells = [f"{one['alerts']:,} ({one['alerts'] / max(1, one['predictions']):.2%})" for one in parts]
        table.add_row(f"{parts[0]['row']:,}", *cells)
    console.print(table)


def _show_drifts(console: Console, found: dict[str, Any]) -> None:
    """What promotion and detectors did to a stream file as it is."""
    for one in found["promotions"]:
        console.print(f"row {one['row']:,}: {one['event']}: {one['sentence']}", soft_wrap=True)
    drifts = [one for one in found["drifts"] if one.get("level") == "drift"]
    for one in drifts[:MOST_CHANGES]:
        of = f"predictions of {one['model']}" if one["signal"] == "prediction" else one["signal"]
        of = f"errors of {one['model']}" if one["signal"] == "error" else of
        console.print(f"row {one['row']:,}: {one['detector']}: {of}, {change_text(one)}")
    if len(drifts) > MOST_CHANGES:
        console.print(f"{len(drifts) - MOST_CHANGES:,} more drifts: --json lists them", style="dim")
    if not found["promotions"] and not drifts:
        console.print("no promotion, no drift", style="dim")
    _show_rejections(console, found)
    if found.get("waiting"):
        console.print(f"rows that waited for their labels at the last row, not scored: {found['waiting']:,}")
    for key in [key for key in UNLEARNED if key in found]:
        text, form = COUNTS[key]
        console.print(f"{text}, never learned: {form.format(found[key])}")


def _show_left_out(console: Console, found: dict[str, Any], so: str) -> None:
    """found : with `left_out`, where there is one (`app.evaluation.measures.measured.FromFirstLabel`)."""
    if "left_out" in found:
        text = f"{found['left_out']:,} rows before the first label came are left out; a worker counts them as wrong"
        console.print(text + so, soft_wrap=True)


def _show_rejections(console: Console, found: dict[str, Any]) -> None:
    """What a worker rejects, too (`app.dataset.instances.Rejections`)."""
    for one in found.get("rejections", ()):
        first = f"row {one['row']:,}: {one['detail']}"
        text = f"{one['of']} rejected, as by a worker: {one['n']:,} {one['reason']} ({safe(first)})"
        console.print(text, markup=False, soft_wrap=True)


def change_text(one: dict[str, Any]) -> str:
    """Of a record of drift, the means before and after."""
    before, after = ("?" if one.get(name) is None else f"{one[name]:.4g}" for name in ("before", "after"))
    return f"{before} before, {after} after"


def _show_classes(console: Console, classes: dict[str, dict[str, float]]) -> None:
    """Classes, those with the most labels first."""
    figures = {"recall": "recall", "precision": "precision", "f1": "F1", "auroc": "AUROC", "coverage": "coverage"}
    figures = {key: text for key, text in figures.items() if any(key in found for found in classes.values())}
    table = _table(["class"], ["labels", *figures.values()])
    by_size = sorted(classes.items(), key=lambda item: -item[1]["n"])
    for name, found in by_size[:MOST_CLASSES]:
        shares = [f"{found[key]:.4f}" if key in found else "" for key in figures]
        table.add_row(escape(safe(name)), f"{found['n']:,.10g}", *shares)
    console.print(table)
    if len(by_size) > MOST_CLASSES:
        console.print(f"and {len(by_size) - MOST_CLASSES:,} classes of fewer labels, which --json lists", style="dim")


def past(window: int, fading: float | None) -> str:
    """What a point of a curve is over."""
    return f"the last {window:,} labels" if fading is None else f"a past that fades by {fading}"


def past_predictions(n: int) -> str:
    """What a point of a curve is over where there are no labels."""
    return f"about the last {n:,} predictions"


def show_all(summary: Sequence[dict[str, Any]], result: dict[str, Any], shuffled: bool) -> None:
    """summary : of `app.evaluation.figures.summary.summarise`. result : of any run, for what all have in common."""
    console, repeats = stdout_console(), summary[0]["repeats"]
    texts = [
        f"[bold]{result['data']}[/bold]",
        _predicted(result) + (f"{result['folds']} folds" if "folds" in result else _delay(result)),
    ]
    if repeats > 1:
        texts.append(f"mean ± standard error of {repeats} repeats")
    if shuffled:
        texts.append("rows shuffled")
    console.print(", ".join(texts))
    table = _table(["", "model"], [])
    parameters = list(dict.fromkeys(name for entry in summary for name in entry["parameters"]))
    for name in parameters:
        table.add_column(name, justify="right")
    keys = [key for key in COLUMNS if any(key in entry["mean"] for entry in summary)]
    detectors = list(summary[0].get("drifts", ()))
    for heading in [*(COLUMNS[key][0] for key in keys), *(f"{name} drifts" for name in detectors)]:
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in summary:
        given = [str(entry["parameters"].get(name, "")) for name in parameters]
        drifts = [f"{entry['drifts'][name]:,.10g}" for name in detectors]
        cells = [entry["model"], *given, *(_cell(entry, key) for key in keys), *drifts]
        marks = ("*" if entry["best"] else "") + ("°" if entry["front"] else "")
        table.add_row(marks, *cells, style="bold" if entry["best"] else "")
    console.print(table)
    _show_rejections(console, result)
    _show_left_out(console, result.get(FROM_FIRST, {}), "")
    if len(summary) > 1 and any(entry["best"] for entry in summary):
        what = COLUMNS[quality(result["task"])][0].removesuffix(" %")
        console.print(f"* the best; ° none is as good in {what} and in bytes, and better in one", style="dim")


def _cell(entry: dict[str, Any], key: str) -> str:
    _, form, factor, error_form = COLUMNS[key]
    if key not in entry["mean"]:
        return ""
    mean = form.format(factor * entry["mean"][key])
    if error_form and key in entry["standard_error"]:
        return f"{mean} ± {error_form.format(factor * entry['standard_error'][key])}"
    return mean


def _predicted(result: dict[str, Any]) -> str:
    return f"target {escape(repr(result['target']))}, " if "target" in result else ""


def _delay(result: dict[str, Any]) -> str:
    delay = result.get("label_delay")
    if delay is None:
        return "no labels"
    if "label_clock" in result:
        return f"labels at their own time ({escape(result['label_clock'])})"
    if delay == 0:
        return "labels at once"
    if "clock" in result:
        return f"labels {format_duration(delay)} late"
    return f"labels {delay:,} instance{'s' if delay > 1 else ''} late"
