"""The picture of mean ranks with their critical difference (Demšar 2006, figure 1): models on an axis of ranks, and
bars over those that do not differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from riparian.app.evaluation.figures import files

FORMS = (".svg", ".png")
SCALE = 4.0  # inches, of the axis of ranks
CHARACTER = 0.075  # inches
LINE = 0.22  # inches, a model, a bar


def write(path: Path, labels: Sequence[str], ranks: Sequence[float], limit: float) -> None:
    """Draw models and their mean ranks, which ascend; limit : the critical difference. DataError where that fails."""
    height = LINE * (7 + len(groups(ranks, limit)) + (len(labels) + 1) // 2)
    beside = CHARACTER * (8 + max(map(len, labels)))
    files.write(
        path, (), (), lambda figure: _draw(figure, labels, ranks, limit, height, beside), (SCALE + 2 * beside, height)
    )


def groups(ranks: Sequence[float], limit: float) -> list[tuple[int, int]]:
    """First and last of all runs of models, two or more, whose ranks differ by no more than the limit; none that is
    part of another one."""
    found: list[tuple[int, int]] = []
    for i in range(len(ranks)):
        last = max(j for j in range(i, len(ranks)) if ranks[j] - ranks[i] <= limit)
        if last > i and (not found or last > found[-1][1]):
            found.append((i, last))
    return found


def _draw(
    figure: Any, labels: Sequence[str], ranks: Sequence[float], limit: float, height: float, beside: float
) -> None:
    """height : of the picture, beside : of the axis, for the labels; in inches."""
    k, bars, top = len(labels), groups(ranks, limit), height / LINE - 4.0  # in lines from below
    axes = figure.add_subplot()
    axes.set_axis_off()
    margin = (k - 1) * beside / SCALE
    axes.set_xlim(1 - margin, k + margin)
    axes.set_ylim(0, height / LINE)
    ink = {"color": "black", "linewidth": 1.0, "clip_on": False}
    axes.plot([1, k], [top, top], **ink)
    for tick in range(1, k + 1):
        axes.plot([tick, tick], [top, top + 0.4], **ink)
        axes.text(tick, top + 0.6, str(tick), ha="center", va="bottom", fontsize="small")
    end = min(1 + limit, k + margin)
    axes.plot([1, end], [top + 2.4, top + 2.4], **ink)
    for x in (1, 1 + limit) if end == 1 + limit else (1,):
        axes.plot([x, x], [top + 2.15, top + 2.65], **ink)
    axes.text((1 + end) / 2, top + 2.7, f"critical difference {limit:.3g}", ha="center", va="bottom", fontsize="small")
    for i, (first, last) in enumerate(bars):
        bar = top - 0.8 - i
        overhang = 0.01 * (k - 1)
        axes.plot([ranks[first] - overhang, ranks[last] + overhang], [bar, bar], color="C0", linewidth=4, clip_on=False)
    below = top - 1.2 - len(bars)
    for i, (label, rank) in enumerate(zip(labels, ranks, strict=True)):
        left = i < (k + 1) // 2
        y = below - (i if left else k - 1 - i)
        x, side = (1 - 0.03 * (k - 1), "right") if left else (k + 0.03 * (k - 1), "left")
        axes.plot([rank, rank, x], [top, y, y], **{**ink, "linewidth": 0.7})
        text = f"{label}  {rank:.2f}" if left else f"{rank:.2f}  {label}"
        axes.text(x, y, f" {text} ", ha=side, va="center", fontsize="small")
