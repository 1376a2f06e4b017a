"""Prequential curves as CSV, SVG or PNG: measures over the window, or as they stand, against the labels scored."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from riparian.app.dataset.files.data import Floats
from riparian.app.errors import SpecError
from riparian.app.evaluation.figures import files
from riparian.app.evaluation.measures.measures import STANDING, curve_text

MOST_COLOURS = 10  # lines that the legend names; others are grey
INCHES = (9.0, 4.5)
PANEL = 0.7  # height of a further panel
DRIFT = "drift"


class Line(NamedTuple):
    """The curves of a candidate, the best candidate first. runs : results of its repeats."""

    label: str
    runs: Sequence[Mapping[str, Any]]


def write(
    path: Path,
    lines: Sequence[Line],
    measures: Sequence[str],
    past: str,
    drifts: Sequence[int] = (),
    along: str = "labels scored",
) -> None:
    """Write the curves; the kind of file is that of its name. A picture has a panel a measure.

    Parameters
    ----------
    measures : of `app.evaluation.measures.measures`, RECENT or STANDING, or of a class, such as "recall:yes".
    past : what a point of those of RECENT is over, for the picture: "the last 1,000 labels".
    drifts : labels scored at known changes of the concept, marked in the picture.
    along : what points are counted in, for the picture.

    Raises
    ------
    DataError
        The file cannot be written.
    SpecError
        None of the runs has one of the measures.
    """
    known = dict.fromkeys(name for line in lines for run in line.runs for name in run["curves"] if name != "n")
    for measure in measures:
        if known and measure not in known:
            raise SpecError(f"none of the runs has a curve of {measure!r}: use {', '.join(known)}")

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(measures), sharex=True, squeeze=False)[:, 0]
        for axes, measure in zip(panels, measures, strict=True):
            _draw(axes, lines, measure, past, drifts)
        _name(panels[0])
        panels[-1].set_xlabel(along)

    width, height = INCHES
    files.write(
        path,
        ["label", "model", "seed", "n", *measures],
        _rows(lines, measures),
        draw,
        (width, height * (1 + PANEL * (len(measures) - 1))),
    )


def _rows(lines: Sequence[Line], measures: Sequence[str]) -> Iterator[list[Any]]:
    """A row a point: the candidate, its model and seed, labels scored so far, and the measures, empty where one is
    undefined."""
    for line in lines:
        for run in line.runs:
            nothing = [None] * len(run["curves"]["n"])
            columns = [run["curves"]["n"], *(run["curves"].get(measure, nothing) for measure in measures)]
            for point in zip(*columns, strict=True):
                yield [line.label, run["model"], run["seed"], *point]


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


def _draw(axes: Any, lines: Sequence[Line], measure: str, past: str, drifts: Sequence[int]) -> None:
    """One panel."""
    from matplotlib.ticker import StrMethodFormatter

    for k, line in reversed(list(enumerate(lines))):  # the best on top
        n, mean, error = band(line.runs, measure)
        named = k < MOST_COLOURS
        style = {"color": f"C{k}", "label": line.label} if named else {"color": "0.75", "linewidth": 0.8}
        axes.plot(n, mean, zorder=3 if named else 2, **style)
        if named and error.any():
            axes.fill_between(n, mean - error, mean + error, color=f"C{k}", alpha=0.2, linewidth=0)
        found = [change["n"] for run in line.runs for change in run.get("changes", ()) if change["level"] == DRIFT]
        if named and found and len(n):  # where a detector found the model's errors changed
            height = np.interp(found, n, mean)
            axes.plot(found, height, "v", color=f"C{k}", markersize=9, markeredgecolor="white", zorder=4)
    for i, drift in enumerate(drifts):
        axes.axvline(drift, color="0.4", linestyle="--", linewidth=1, label="" if i else "drift", zorder=1)
    axes.set_ylabel(curve_text(measure) + ("" if measure in STANDING else f" over {past}"))
    for axis in (axes.xaxis, axes.yaxis) if measure in STANDING else (axes.xaxis,):
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.grid(color="0.9")


def _name(axes: Any) -> None:
    """The legend, the best line first, drifts last."""
    handles, labels = axes.get_legend_handles_labels()
    best_first = [i for i in range(len(labels)) if labels[i] != "drift"][::-1]
    order = best_first + [i for i in range(len(labels)) if labels[i] == "drift"]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], fontsize="small", framealpha=0.8)
