"""Files of figures, as numbers or as pictures: what kind of file, and matplotlib where it is wanted."""

import csv
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from riparian.app.errors import DataError, RiparianError, SpecError
from riparian.models.extras import installation

FORMS = (".csv", ".svg", ".png")
DPI = 120


def check(path: Path, option: str) -> None:
    """Before anything is run: SpecError for another kind of file, RiparianError where matplotlib is missing."""
    if path.suffix.lower() not in FORMS:
        raise SpecError(f"{option} is {str(path)!r}: name a file that ends in {', '.join(FORMS[:-1])} or {FORMS[-1]}")
    if path.suffix.lower() != ".csv" and importlib.util.find_spec("matplotlib") is None:
        raise RiparianError(
            f"a picture such as {path.name} needs matplotlib, which is not installed: {installation('plot')}, or "
            "write it as .csv"
        )


def write(
    path: Path,
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    draw: Callable[[Any], None],
    inches: tuple[float, float],
) -> None:
    """Write the file; its kind is that of its name.

    header, rows : of a CSV. draw : puts a picture into a `matplotlib.figure.Figure`. inches : width and height.

    Raises
    ------
    DataError
        The file cannot be written.
    """
    try:
        if path.suffix.lower() == ".csv":
            with open(path, "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                writer.writerows(rows)
        else:
            _draw(path, draw, inches)
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error}): check the path") from None


def _draw(path: Path, draw: Callable[[Any], None], inches: tuple[float, float]) -> None:
    import matplotlib
    from matplotlib.figure import Figure

    # A figure of its own: no window, no state that others share. Same figures, same bytes.
    with matplotlib.rc_context({"svg.hashsalt": "riparian"}):
        figure = Figure(figsize=inches, layout="constrained")
        draw(figure)
        kind = path.suffix.lower()[1:]
        figure.savefig(path, format=kind, dpi=DPI, metadata={"Date": None} if kind == "svg" else {"Software": None})
