"""Prequential curves as CSV, SVG or PNG: accuracy or MAE over the window, against the labels scored."""

import csv
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from app.dataset.data import Floats
from app.errors import DataError, RiparianError, SpecError

FORMS = (".csv", ".svg", ".png")
MOST_COLOURS = 10  # lines that the legend names; others are grey
INCHES = (9.0, 4.5)
DPI = 120
DRIFT = "drift"
NAMES = {"accuracy": "accuracy", "mae": "MAE"}


class Line(NamedTuple):
    """The curves of a candidate, the best candidate first. runs : results of its repeats."""

    label: str
    runs: Sequence[Mapping[str, Any]]


def check(path: Path) -> None:
    """Before anything is run: SpecError for another kind of file, RiparianError where matplotlib is missing."""
    if path.suffix.lower() not in FORMS:
        raise SpecError(f"--curve is {str(path)!r}: name a file that ends in {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    if path.suffix.lower() != ".csv" and importlib.util.find_spec("matplotlib") is None:
        raise RiparianError(
            f"a picture such as {path.name} needs matplotlib, which is not installed: "
            "pip install 'riparian[plot]', or write the curve as .csv"
        )


def write(
    path: Path,
    lines: Sequence[Line],
    measure: str,
    past: str,
    drifts: Sequence[int] = (),
    along: str = "labels scored",
) -> None:
    """Write the curves; the kind of file is that of its name.

    Parameters
    ----------
    measure : "accuracy" or "mae".
    past : what a point is over, for the picture: "the last 1,000 labels".
    drifts : labels scored at known changes of the concept, marked in the picture.
    along : what points are counted in, for the picture.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    try:
        if path.suffix.lower() == ".csv":
            _write_csv(path, lines, measure)
        else:
            _draw(path, lines, measure, past, drifts, along)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error}): check the path") from None


def _write_csv(path: Path, lines: Sequence[Line], measure: str) -> None:
    """A row a point: the candidate, its model and seed, labels scored so far, and the measure."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label", "model", "seed", "n", measure])
        for line in lines:
            for run in line.runs:
                points = zip(run["curves"]["n"], run["curves"][measure], strict=True)
                writer.writerows([line.label, run["model"], run["seed"], *point] for point in points)


def band(runs: Sequence[Mapping[str, Any]], measure: str) -> tuple[Floats, Floats, Floats]:
    """Labels scored, mean and standard error of the curves of repeats, at the points of the first, which are those of
    all unless labels are missing in other places. Points where the measure is undefined are left out, and so are curves
    without a point (no label was scored)."""
    curves = []
    for run in runs:
        columns = [run["curves"]["n"], run["curves"].get(measure) or [None] * len(run["curves"]["n"])]
        points = np.array(columns, dtype=np.float64)
        curves.append(points[:, np.isfinite(points[1])])
    curves = [curve for curve in curves if curve.size]
    if not curves:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    n = curves[0][0]
    values = np.array([np.interp(n, *curve) for curve in curves])
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(len(n))
    return n, values.mean(axis=0), error


def _draw(path: Path, lines: Sequence[Line], measure: str, past: str, drifts: Sequence[int], along: str) -> None:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    # A figure of its own: no window, no state that others share. Same curves, same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "riparian"}):
        figure = Figure(figsize=INCHES, layout="constrained")
        axes = figure.add_subplot()
        for k, line in reversed(list(enumerate(lines))):  # the best on top
            n, mean, error = band(line.runs, measure)
            named = k < MOST_COLOURS
            style = {"color": f"C{k}", "label": line.label} if named else {"color": "0.75", "linewidth": 0.8}
            axes.plot(n, mean, zorder=3 if named else 2, **style)
            if named and error.any():
                axes.fill_between(n, mean - error, mean + error, color=f"C{k}", alpha=0.2, linewidth=0)
            found = [change["n"] for run in line.runs for change in run.get("changes", ()) if change["level"] == DRIFT]
            if named and found and len(n):  # where a detector found the model's errors changed
                axes.plot(
                    found,
                    np.interp(found, n, mean),
                    "v",
                    color=f"C{k}",
                    markersize=9,
                    markeredgecolor="white",
                    zorder=4,
                )
        for i, drift in enumerate(drifts):
            axes.axvline(drift, color="0.4", linestyle="--", linewidth=1, label="" if i else "drift", zorder=1)
        axes.set_xlabel(along)
        axes.set_ylabel(f"{NAMES[measure]} over {past}")
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(color="0.9")
        handles, labels = axes.get_legend_handles_labels()
        best_first = [i for i in range(len(labels)) if labels[i] != "drift"][::-1]
        order = best_first + [i for i in range(len(labels)) if labels[i] == "drift"]
        axes.legend([handles[i] for i in order], [labels[i] for i in order], fontsize="small", framealpha=0.8)
        kind = path.suffix.lower()[1:]
        figure.savefig(path, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else {"Software": None})
