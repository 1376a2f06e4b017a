"""The recording rules and alerts of deploy/prometheus, by promtool: valid, and each alert fires and stays silent."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from riparian.app.cli.setup.dashboard import SITE
from tests.deploy.metric_names import exposed, named

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
CASES = sorted((FOLDER / "tests").glob("*.yaml"))

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here: apt-get install prometheus"
)


def promtool(*arguments: object) -> str:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rules(name: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS, RECORDED = rules("alerts.yaml"), rules("rules.yaml")


@needs_promtool
def test_the_configuration_is_valid() -> None:
    found = promtool("check", "config", "--lint=all", "--lint-fatal", FOLDER / "prometheus.yaml")
    assert "2 rule files found" in found


@needs_promtool
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_silent(case: Path) -> None:
    promtool("test", "rules", case)


def test_every_alert_is_tested_both_ways() -> None:
    checks = [
        check
        for case in CASES
        for test in yaml.safe_load(case.read_text(encoding="utf-8"))["tests"]
        for check in test["alert_rule_test"]
    ]
    measured = {
        (check["alertname"], alert["exp_labels"].get("measure"))
        for check in checks
        for alert in check.get("exp_alerts", ())
    }
    silent = {check["alertname"] for check in checks if not check.get("exp_alerts")}
    assert measured == {(rule["alert"], rule["labels"].get("measure")) for rule in ALERTS}
    assert silent == {rule["alert"] for rule in ALERTS}


def test_every_severity_has_its_way_to_somebody() -> None:
    path = FOLDER / "alertmanager.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    root, receivers = content["route"], {each["name"] for each in content["receivers"]}
    ways = {route["matchers"][0]: route["receiver"] for route in root["routes"]}
    assert ways == {'severity="critical"': "on-call"}
    assert {root["receiver"], *ways.values()} == receivers
    labels = {name for rule in ALERTS for name in rule["labels"]} | {"alertname", "stream"}
    assert set(root["group_by"]) <= labels
    if shutil.which("amtool") is not None:
        done = subprocess.run(["amtool", "check-config", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_windows_are_in_the_recording_rules_only() -> None:
    assert sum("[" in rule["expr"] for rule in RECORDED) > 5
    assert [rule["alert"] for rule in ALERTS if re.search(r"\[|\boffset\b", rule["expr"])] == []


def test_every_series_that_a_rule_reads_is_there() -> None:
    recorded = [rule["record"] for rule in RECORDED]
    assert len(set(recorded)) == len(recorded)
    read = {name for rule in [*ALERTS, *RECORDED] for name in named(rule["expr"])}
    levels = {name for name in read if ":" in name}
    assert levels <= set(recorded)
    assert set(recorded) - levels == set(), "recorded, and nobody reads it"
    assert read - levels <= exposed()


def test_every_alert_says_what_to_do() -> None:
    guide = (ROOT / "docs" / "run" / "runbook.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (Riparian\w+)$", guide, re.MULTILINE)
    assert sorted(headings) == sorted({rule["alert"] for rule in ALERTS})
    for rule in ALERTS:
        notes = rule["annotations"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert notes["summary"]
        assert notes["description"]
        assert notes["runbook_url"] == f"{SITE}run/runbook.html#{rule['alert'].lower()}"
    assert f"\nsite_url: {SITE}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_every_section_of_the_runbook_has_its_four_parts_and_its_row() -> None:
    guide = (ROOT / "docs" / "run" / "runbook.md").read_text(encoding="utf-8")
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}
    assert dict(re.findall(r"^\| \[(\w+)\]\(#\w+\) \| (\w+) \|", guide, re.MULTILINE)) == severities
    for section in re.split(r"^## ", guide, flags=re.MULTILINE)[1:]:
        if section.startswith("Riparian"):
            parts = re.findall(r"^\*\*(.+?)\.\*\* \S", section, re.MULTILINE)
            assert parts == ["Means", "Look first", "Do", "Over when"], section
