"""Grafana dashboards as JSON, out of panels with a query or several.

Of Grafana's model only what these dashboards need is here: three kinds of panels on a grid of 24 columns. Grafana's own
SDK for Python was turned down: its versions are epochs of one day (1769699998!10.1.0), so no range with an upper bound
holds it and the newest is of the oldest Grafana, for 300 kB of generated classes of which we would use a dozen.
"""

from typing import Any, NamedTuple

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
STAT_WIDTH, STAT_HEIGHT, WIDTH, HEIGHT = 4, 4, 12, 8


class Query(NamedTuple):
    """A query. expr : PromQL. legend : of its series, with {{label}}."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """A panel without its place.

    content : as Grafana has it
    width, height : on the grid
    """

    content: dict[str, Any]
    width: int
    height: int


class Row(NamedTuple):
    """Panels under a title."""

    title: str
    panels: list[Panel]


class Mark(NamedTuple):
    """A line in all graphs. own_time : whether the value of the query is its time, in ms."""

    name: str
    colour: str
    query: Query
    text: str
    tags: str
    shown: bool = True
    own_time: bool = True


def _targets(queries: tuple[Query, ...], instant: bool = False) -> list[dict[str, Any]]:
    more = {"format": "table"} if instant else {}
    return [
        {
            "refId": chr(ord("A") + i), "datasource": SOURCE, "expr": query.expr, "legendFormat": query.legend,
            "range": not instant, "instant": instant, **more,
        }
        for i, query in enumerate(queries)
    ]  # fmt: skip


def _panel(kind: str, title: str, about: str, queries: tuple[Query, ...], instant: bool = False) -> dict[str, Any]:
    panel = {"type": kind, "title": title, "description": about, "datasource": SOURCE}
    return {**panel, "targets": _targets(queries, instant)}


def stat(title: str, unit: str, about: str, expr: str, *, red_at: float | None = None) -> Panel:
    """One figure, its last value. red_at : from where on it is red."""
    steps: list[dict[str, Any]] = [{"color": "text", "value": None}]
    steps += [] if red_at is None else [{"color": "red", "value": red_at}]
    content = _panel("stat", title, about, (Query(expr),))
    content["fieldConfig"] = {
        "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}},
        "overrides": [],
    }
    content["options"] = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
    }  # fmt: skip
    return Panel(content, STAT_WIDTH, STAT_HEIGHT)


def graph(
    title: str,
    unit: str,
    about: str,
    *queries: Query,
    width: int = WIDTH,
    height: int = HEIGHT,
    least: float | None = 0,
    most: float | None = None,
    steps: bool = False,
    stacked: bool = False,
) -> Panel:
    """Lines over time. least, most : of the axis. steps : values hold until the next one."""
    bounds = {name: value for name, value in (("min", least), ("max", most)) if value is not None}
    custom = {
        "drawStyle": "line", "lineInterpolation": "stepAfter" if steps else "linear", "lineWidth": 1,
        "fillOpacity": 30 if stacked else 0, "showPoints": "never", "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }  # fmt: skip
    content = _panel("timeseries", title, about, queries)
    content["fieldConfig"] = {"defaults": {"unit": unit, "custom": custom, **bounds}, "overrides": []}
    content["options"] = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return Panel(content, width, height)


def last_times(title: str, about: str, expr: str) -> Panel:
    """A table of series, the latest first. expr : times in ms."""
    content = _panel("table", title, about, (Query(expr),), instant=True)
    properties = [{"id": "unit", "value": "dateTimeAsIso"}, {"id": "displayName", "value": "last"}]
    overrides = [{"matcher": {"id": "byName", "options": "Value"}, "properties": properties}]
    content["fieldConfig"] = {"defaults": {}, "overrides": overrides}
    organize = {"excludeByName": {"Time": True}, "indexByName": {}, "renameByName": {}}
    content["transformations"] = [{"id": "organize", "options": organize}]
    content["options"] = {"showHeader": True, "sortBy": [{"displayName": "last", "desc": True}]}
    return Panel(content, WIDTH, HEIGHT)


def choice(name: str, label: str, values: str, *, numbers: bool = False) -> dict[str, Any]:
    """A variable with the values of a label, all of them at first. values : label_values(…)."""
    return {
        "name": name, "label": label, "type": "query", "datasource": SOURCE, "definition": values,
        "query": {"query": values, "refId": "v"}, "refresh": 2, "sort": 3 if numbers else 1, "multi": True,
        "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}, "hide": 0,
        "options": [], "regex": "",
    }  # fmt: skip


def _mark(mark: Mark) -> dict[str, Any]:
    return {
        "name": mark.name, "datasource": SOURCE, "enable": mark.shown, "hide": False, "iconColor": mark.colour,
        "expr": mark.query.expr, "step": "10s", "titleFormat": mark.query.legend, "textFormat": mark.text,
        "tagKeys": mark.tags, "useValueForTime": mark.own_time,
    }  # fmt: skip


def _placed(rows: list[Row]) -> list[dict[str, Any]]:
    """Rows below each other, their panels from left to right."""
    placed: list[dict[str, Any]] = []
    y = 0

    def put(content: dict[str, Any], x: int, y: int, w: int, h: int) -> None:
        placed.append({"id": len(placed) + 1, **content, "gridPos": {"x": x, "y": y, "w": w, "h": h}})

    for row in rows:
        put({"type": "row", "title": row.title, "collapsed": False, "panels": []}, 0, y, COLUMNS, 1)
        y, x, height = y + 1, 0, 0
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                y, x, height = y + height, 0, 0
            put(panel.content, x, y, panel.width, panel.height)
            x, height = x + panel.width, max(height, panel.height)
        y += height
    return placed


def board(
    uid: str, title: str, about: str, choices: list[dict[str, Any]], rows: list[Row], marks: list[Mark]
) -> dict[str, Any]:
    """A dashboard, with links to the others that keep time and variables."""
    source = {
        "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {},
        "hide": 0, "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": "",
    }  # fmt: skip
    own = {
        "builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": True, "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard",
    }  # fmt: skip
    links = {
        "type": "dashboards", "title": "Riparian", "tags": ["riparian"], "asDropdown": False, "includeVars": True,
        "keepTime": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": "",
    }  # fmt: skip
    return {
        "uid": uid, "title": title, "description": f"{about} docs/run/monitor.md explains it.", "tags": ["riparian"],
        "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "timezone": "browser",
        "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timepicker": {}, "fiscalYearStartMonth": 0,
        "links": [links], "liveNow": False, "weekStart": "", "templating": {"list": [source, *choices]},
        "annotations": {"list": [own, *map(_mark, marks)]}, "panels": _placed(rows),
    }  # fmt: skip
