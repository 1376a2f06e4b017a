"""What `riparian top` draws: the same figures and words as the live page (app/page/telling.py), on a terminal."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.cli.deadletters import safe
from app.page import telling
from app.page.telling import number, percent
from app.page.view import DAY_MS, HOUR_MS, StreamView

if TYPE_CHECKING:
    from rich.console import RenderableType

BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 20  # of a sparkline
STYLES = {"good": "green", "news": "cyan", "worse": "yellow", "bad": "bold red"}


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """A bar a value between `low` and `high`, a space for NaN."""
    if high <= low:
        return "".join(" " if value != value else BARS[3] for value in values)
    scale = (len(BARS) - 1) / (high - low)
    return "".join(" " if value != value else BARS[round((value - low) * scale)] for value in values)


def span(seconds: float | None) -> str:
    """Seconds, as people say them."""
    if seconds is None:
        return "–"
    if seconds < 1.0:
        return f"{1000.0 * seconds:.3g} ms"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def said(pieces: Sequence[Mapping[str, Any]], now: int) -> str:
    """A verdict's pieces as text."""
    words = []
    for piece in pieces:
        if "ago" in piece:
            words.append(f"{span((now - piece['ago']) / 1000.0)} ago")
        elif "since" in piece:
            words.append(time.strftime("%H:%M:%S", time.localtime(piece["since"] / 1000.0)))
        else:
            words.append(piece["text"])
    return safe("".join(words))


def frame(
    views: Sequence[StreamView], paths: Mapping[str, str], chosen: int, now: int, away: int | None, broker: str
) -> "RenderableType":
    """All of a screen: a line for each stream where there are several, and the chosen one whole. now, away : ms."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    if away is not None:
        parts.append(Text(f"Kafka at {broker} has not answered for {span((now - away) / 1000.0)}", style="bold red"))
    told = {view.spec.name: telling.status(view, now, paths[view.spec.name]) for view in views}
    if len(views) > 1:
        parts.append(_streams(views, told, chosen, now))
    view = views[chosen]
    status = told[view.spec.name]
    verdict = status["verdict"]
    parts.append(Text.assemble((f"{view.spec.name}  ", "bold"), (said(verdict["said"], now), STYLES[verdict["level"]])))
    parts += [_models(view, status, now), _partitions(status, now), Text(_foot(view, now))]
    return Group(*parts)


def _table(*columns: tuple[str, bool]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name, right in columns:
        table.add_column(name, justify="right" if right else "left", no_wrap=True)
    return table


def _row(table: Any, *cells: str, style: str | None = None) -> None:
    from rich.text import Text

    table.add_row(*(Text(safe(cell)) for cell in cells), style=style)


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _score(value: float | None, metric: str) -> str:
    if metric == "accuracy":
        return percent(value)
    return "–" if value is None else number(value)


def _streams(views: Sequence[StreamView], told: Mapping[str, Any], chosen: int, now: int) -> Any:
    table = _table(
        ("stream", False), ("score", True), ("in/s", True), ("lag", True), ("dead letters", True), ("", False)
    )
    for i, view in enumerate(views):
        status = told[view.spec.name]
        tiles = status["tiles"]
        level = status["verdict"]["level"]
        _row(
            table, ("▸ " if i == chosen else "  ") + view.spec.name, _score(tiles["score"], tiles["metric"]),
            _count(tiles["rate"]), _count(tiles["lag"]), _count(status["n_letters"]),
            said(status["verdict"]["said"], now)[:60], style=STYLES[level] if i == chosen else None,
        )  # fmt: skip
    return table


def _models(view: StreamView, status: Mapping[str, Any], now: int) -> Any:
    table = _table(
        ("model", False), ("learner", False), (status["tiles"]["metric"], True), ("the last hour", False),
        ("labels", True), ("nodes", True),
    )  # fmt: skip
    over = {
        row["role"]: [] if found is None else [float(value) for value in found.mean][-COLUMNS:]
        for row in status["models"]
        for found in (view.over(f"score:{row['role']}", now - HOUR_MS, now, COLUMNS),)
    }
    known = [value for values in over.values() for value in values if value == value]
    low, high = min(known, default=0.0), max(known, default=0.0)
    for row in status["models"]:
        line = sparkline(over[row["role"]], low, high)
        score = _score(row["score"], status["tiles"]["metric"])
        _row(table, row["role"], row["learner"], score, line, _count(row["n"]), _count(row["nodes"]))
    return table


def _partitions(status: Mapping[str, Any], now: int) -> Any:
    table = _table(
        ("partition", True), ("state", False), ("worker", False), ("in/s", True), ("lag", True), ("waiting", True),
        ("p99", True), ("last drift", True),
    )  # fmt: skip
    for row in status["partitions"]:
        drift = row.get("last_drift")
        style = {"nobody": "red", "behind": "yellow"}.get(row["state"])
        _row(
            table, str(row["partition"]), row["state"], row.get("worker") or "–", _count(row.get("rate")),
            _count(row.get("lag")), _count(row.get("waiting")), span(row.get("p99")),
            "–" if drift is None else f"{span((now - drift) / 1000.0)} ago", style=style,
        )  # fmt: skip
    return table


def _foot(view: StreamView, now: int) -> str:
    letters = view.letters_since(now - DAY_MS)
    if not letters:
        return "No dead letters in a day."
    reasons = ", ".join(f"{safe(reason)} {n:,}" for reason, n in list(letters.items())[:5])
    return f"Dead letters in a day: {sum(letters.values()):,} ({reasons})"
