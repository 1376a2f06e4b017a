"""The Grafana dashboards as files: what Grafana would trip over, and names that no worker has.

Grafana itself is not run; tests/broker/test_prometheus.py asks every query of a real Prometheus.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from riparian.deploy.boards.__main__ import texts
from tests.deploy.metric_names import exposed, named

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "grafana"
BOARDS: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))
}
CHOICES = {
    "overview": {"datasource", "stream"},
    "stream": {"datasource", "stream", "partition", "model"},
    "worker": {"datasource", "stream", "instance"},
}
each_board = pytest.mark.parametrize("name", CHOICES)


def drawn(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def marks(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [mark for mark in board["annotations"]["list"] if not mark.get("builtIn")]


def variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in board["templating"]["list"]}


def test_the_files_are_those_that_the_code_makes() -> None:
    assert set(BOARDS) == set(CHOICES)
    made = texts()
    assert set(made) == {f"{name}.json" for name in BOARDS}
    for file, text in made.items():
        assert (FOLDER / file).read_text(encoding="utf-8") == text, f"{file}: run python -m riparian.deploy.boards"


@each_board
def test_panels_have_ids_and_titles_of_their_own(name: str) -> None:
    panels = BOARDS[name]["panels"]
    assert len(drawn(BOARDS[name])) >= 10
    for field in ("id", "title"):
        values = [(panel["type"] == "row", panel[field]) for panel in panels]
        assert len(set(values)) == len(values), field


@each_board
def test_panels_lie_beside_each_other_on_the_grid(name: str) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in BOARDS[name]["panels"]:
        at = panel["gridPos"]
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24, panel["title"]
        assert at["h"] > 0, panel["title"]
        for cell in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize(
    "panel", [panel for board in BOARDS.values() for panel in drawn(board)], ids=lambda panel: panel["title"]
)
def test_a_panel_asks_the_chosen_source_and_has_a_unit(panel: dict[str, Any]) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    assert all(target["datasource"] == source for target in panel["targets"])
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs) > 0
    assert panel["type"] in ("timeseries", "stat", "table")
    assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"]


def test_names_of_metrics_are_in_the_documentation() -> None:
    expressions = [t["expr"] for board in BOARDS.values() for panel in drawn(board) for t in panel["targets"]]
    expressions += [mark["expr"] for board in BOARDS.values() for mark in marks(board)]
    chosen = [v["definition"] for board in BOARDS.values() for v in variables(board).values() if "definition" in v]
    read = set().union(*map(named, [*expressions, *chosen]))
    assert len(read) > 30
    assert read <= exposed()


def test_labels_in_legends_come_out_of_the_query() -> None:
    """A legend may only use what the outermost aggregation keeps."""
    for panel in [panel for board in BOARDS.values() for panel in drawn(board)]:
        for target in panel["targets"]:
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", target["expr"]))))
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert wanted <= kept | {"instance"}, panel["title"]


@each_board
def test_variables_are_declared_and_used(name: str) -> None:
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARDS[name])))
    assert set(variables(BOARDS[name])) == CHOICES[name]
    assert used - {"__rate_interval", "__range", "__all"} == CHOICES[name]


def test_drifts_are_marked_at_their_own_time() -> None:
    drifts = {mark["name"]: mark for mark in marks(BOARDS["stream"])}["Drifts"]
    assert drifts["enable"]
    assert drifts["useValueForTime"]
    assert 'level="drift"' in drifts["expr"]
    assert drifts["expr"].endswith("* 1000")  # Grafana's marks are in ms


def test_what_grafana_is_provisioned_with_fits() -> None:
    source = yaml.safe_load((FOLDER / "provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())["global"]["scrape_interval"]
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scraped
    folder = yaml.safe_load((FOLDER / "provisioning/dashboards/riparian.yaml").read_text())["providers"][0]
    compose = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
    grafana = compose["services"]["grafana"]
    for name in BOARDS:
        assert f"./grafana/{name}.json:{folder['options']['path']}/{name}.json:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder['options']['path']}/overview.json"
