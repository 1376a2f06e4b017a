"""The Grafana dashboard as a file: what Grafana would trip over, and names that no worker has.

Grafana itself is not run; tests/broker/test_prometheus.py asks every query of a real Prometheus.
"""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.metric_names import documented, named

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "grafana"
BOARD: dict[str, Any] = json.loads((FOLDER / "drift.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = BOARD["panels"]
DRAWN = [panel for panel in PANELS if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in BOARD["templating"]["list"]}
MARKS = [mark for mark in BOARD["annotations"]["list"] if not mark.get("builtIn")]
EXPRESSIONS = [target["expr"] for panel in DRAWN for target in panel["targets"]] + [mark["expr"] for mark in MARKS]


def test_panels_have_ids_and_titles_of_their_own() -> None:
    assert len(DRAWN) > 20
    for field in ("id", "title"):
        values = [panel[field] for panel in PANELS]
        assert len(set(values)) == len(values), field


def test_panels_lie_beside_each_other_on_the_grid() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in PANELS:
        at = panel["gridPos"]
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24, panel["title"]
        assert at["h"] > 0, panel["title"]
        for cell in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} lies on {taken[cell]}"
            taken[cell] = panel["title"]


@pytest.mark.parametrize("panel", DRAWN, ids=lambda panel: panel["title"])
def test_a_panel_asks_the_chosen_source_and_has_a_unit(panel: dict[str, Any]) -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == source
    assert all(target["datasource"] == source for target in panel["targets"])
    refs = [target["refId"] for target in panel["targets"]]
    assert len(set(refs)) == len(refs) > 0
    assert panel["type"] in ("timeseries", "stat", "table")
    assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"]


def test_names_of_metrics_are_in_the_documentation() -> None:
    read = set().union(*map(named, EXPRESSIONS), *(named(VARIABLES[v]["definition"]) for v in ("stream", "model")))
    assert len(read) > 30
    assert read <= documented()


def test_labels_in_legends_come_out_of_the_query() -> None:
    """A legend may only use what the outermost aggregation keeps."""
    for panel in DRAWN:
        for target in panel["targets"]:
            kept = set(re.findall(r"\w+", " ".join(re.findall(r"\bby \(([^)]*)\)", target["expr"]))))
            wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert wanted <= kept | {"instance"}, panel["title"]


def test_variables_are_declared_and_used() -> None:
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(BOARD)))
    assert set(VARIABLES) == {"datasource", "stream", "partition", "model"}
    assert used - {"__rate_interval", "__range", "__all"} == set(VARIABLES)


def test_drifts_are_marked_at_their_own_time() -> None:
    marks = {mark["name"]: mark for mark in MARKS}
    drifts = marks["Drifts"]
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
    assert (
        f"./grafana/drift.json:{folder['options']['path']}/drift.json:ro" in compose["services"]["grafana"]["volumes"]
    )
