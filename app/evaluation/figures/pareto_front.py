"""The front of accuracy, or MAE, against bytes in memory: the models for which no other is at least as good in both and
better in one (Pareto)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from riparian.app.evaluation.figures import files
from riparian.app.evaluation.measures.measures import MEASURES

BYTES = "peak_live_bytes"
INCHES = (8.0, 6.0)


def mark(entries: Sequence[dict[str, Any]], by: str) -> None:
    """Set `front` of the entries of a summary (`app.evaluation.figures.summary.summarise`) that are on it.

    by : the measure that is compared beside BYTES. Means of repeats are compared; an entry that lacks one of them is
    not on the front, and of equal ones all are.
    """
    sign = -1.0 if MEASURES[by].greater else 1.0
    able = [entry for entry in entries if by in entry["mean"] and BYTES in entry["mean"]]
    places = [(sign * entry["mean"][by], entry["mean"][BYTES]) for entry in able]
    for entry, mine in zip(able, places, strict=True):
        entry["front"] = not any(a <= mine[0] and b <= mine[1] and (a, b) != mine for a, b in places)


def write(path: Path, summary: Sequence[dict[str, Any]], by: str) -> None:
    """Write every entry of a summary as a point; the kind of file is that of its name. DataError where that fails."""
    able = [entry for entry in summary if by in entry["mean"] and BYTES in entry["mean"]]
    able.sort(key=lambda entry: (entry["mean"][BYTES], entry["label"]))
    rows = [[e["label"], e["model"], e["mean"][BYTES], e["mean"][by], int(e["front"])] for e in able]
    header = ["label", "model", BYTES, by, "front"]
    files.write(path, header, rows, lambda figure: _draw(figure, able, by), INCHES)


def _draw(figure: Any, able: Sequence[dict[str, Any]], by: str) -> None:
    axes = figure.add_subplot()
    axes.set_xscale("log")
    on = [(entry["mean"][BYTES], entry["mean"][by], entry["label"]) for entry in able if entry["front"]]
    off = [(entry["mean"][BYTES], entry["mean"][by]) for entry in able if not entry["front"]]
    if off:
        axes.plot(*zip(*off, strict=True), "o", color="0.7", markersize=4)
    if on:
        x, y, labels = zip(*on, strict=True)
        axes.plot(x, y, drawstyle="steps-post", color="C0", linewidth=1)
        numbers: dict[tuple[float, float], list[str]] = {}
        for i, (label, *place) in enumerate(zip(labels, x, y, strict=True), 1):
            axes.plot(*place, "o", color="C0", markersize=6, label=f"{i}  {label}")
            numbers.setdefault((place[0], place[1]), []).append(str(i))
        for at, which in numbers.items():
            axes.annotate(", ".join(which), at, xytext=(-3, 6), textcoords="offset points", fontsize="small")
        figure.legend(loc="outside lower left", fontsize="x-small", handlelength=0, frameon=False)
    axes.set_xlabel(MEASURES[BYTES].text)
    axes.set_ylabel(MEASURES[by].text)
    axes.grid(color="0.9")
