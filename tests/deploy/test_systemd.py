"""deploy/systemd: the unit as systemd reads it, and its command as we do."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from riparian.app.cli import cli
from riparian.app.worker.faust_client.membership import instance_id
from riparian.app.worker.task.partition_task import LAST_CHECKPOINT_SECONDS

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "riparian@.service"


def service() -> dict[str, str]:
    parser = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(UNIT.read_text().replace("\\\n", " "))
    return dict(parser["Service"])


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here")
    unit = tmp_path / UNIT.name
    # Where Riparian is installed is checked, too.
    unit.write_text(UNIT.read_text().replace("/opt/riparian/bin/riparian", "/bin/sh"))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "riparian@orders.service")]
    (tmp_path / "riparian@orders.service").symlink_to(unit)
    done = subprocess.run(command, capture_output=True, text=True)
    own = [line for line in done.stderr.splitlines() if "riparian" in line]
    assert not own, own
    unit.write_text(unit.read_text().replace("KillMode=mixed", "KillMood=mixed"))
    assert "KillMood" in subprocess.run(command, capture_output=True, text=True).stderr  # it does look


def test_the_command_has_the_options_that_are_given() -> None:
    program, name, *arguments = shlex.split(re.sub(r"%[iH]", "orders", service()["ExecStart"]))
    assert program == "/opt/riparian/bin/riparian"
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    context = command.make_context(name, arguments)
    assert instance_id(context.params["instance_id"], None, {}) == "orders"
    assert context.params["log_format"] == "json"


def test_a_stop_has_time_for_the_last_checkpoint_and_the_folders_are_those_that_are_made() -> None:
    found = service()
    assert int(found["TimeoutStopSec"]) >= 2 * LAST_CHECKPOINT_SECONDS
    assert f"/var/lib/{found['StateDirectory']}" in found["ExecStart"]
    assert f"NUMBA_CACHE_DIR=/var/cache/{found['CacheDirectory']}" in found["Environment"]
