"""`riparian dashboard`: the files, where they are wanted."""

import json
from pathlib import Path

from click.testing import CliRunner

from riparian.app.cli.setup import dashboard
from riparian.app.errors import RiparianError


def test_files_are_written_and_never_replaced_unasked(tmp_path: Path) -> None:
    def run(*more: str):
        return CliRunner().invoke(dashboard.command, ["--out", str(tmp_path / "new"), *more])

    done = run()
    written = {path.relative_to(tmp_path / "new") for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert {Path("prometheus/alerts.yaml"), Path("prometheus/tests/drift.yaml"), Path("grafana/stream.json")} <= written
    assert set(map(Path, done.output.split())) == {tmp_path / "new" / path for path in written}
    for path in written:
        assert (tmp_path / "new" / path).read_bytes() == (dashboard.FILES / path).read_bytes()

    alerts = tmp_path / "new" / "prometheus" / "alerts.yaml"
    again = run("--json")  # nothing differs
    assert {*json.loads(again.output)["files"]} == {*done.output.split()}
    alerts.write_text("mine")
    refused = run().exception
    assert isinstance(refused, RiparianError)
    assert str(alerts) in str(refused)
    assert alerts.read_text() == "mine"
    assert run("--force").exit_code == 0
    assert alerts.read_bytes() == (dashboard.FILES / "prometheus" / "alerts.yaml").read_bytes()

    assert run("--docs", "https://docs.example.org/a", "--force").exit_code == 0
    assert "runbook_url: https://docs.example.org/a/run/runbook.html#riparianstuck\n" in alerts.read_text()
    assert dashboard.SITE not in alerts.read_text()
