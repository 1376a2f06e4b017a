"""--log-format json: every line on standard error is an object, whatever wrote it."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from riparian.app.cli import cli
from riparian.app.cli.operate import control
from riparian.app.cli.terminal.messages import JsonFormatter
from riparian.app.errors import SpecError
from riparian.app.kafka import command_client
from riparian.app.kafka.access import rights
from riparian.app.stream_file import spec

ROOT = Path(__file__).resolve().parents[2]


def run(code: str) -> list[dict[str, str]]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_a_line_has_time_level_logger_and_message() -> None:
    record = logging.LogRecord("a.b", logging.WARNING, "", 0, "%d lines\n“two”", (2,), None)
    record.created = 1_790_000_000.0625
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2026-09-21T14:13:20.062Z",
        "level": "warning",
        "logger": "a.b",
        "message": "2 lines\n“two”",
    }


def test_own_lines_those_of_libraries_and_the_last_traceback_are_objects() -> None:
    lines = run(
        "import logging\nfrom riparian.app.cli.terminal.messages import configure, show\n"
        "configure('json', 'warning')\nshow('begins')\n"
        "logging.getLogger('aiokafka.x').info('not this')\nlogging.getLogger('aiokafka.x').error('that')\n"
        "raise ValueError('no room')"
    )
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("info", "riparian", "begins"),
        ("error", "aiokafka.x", "that"),
        ("critical", "riparian", "ValueError: no room"),
    ]
    assert "Traceback" in lines[-1]["exception"]


def test_the_sentence_that_a_worker_ends_with_is_an_object(tmp_path: Path) -> None:
    stream = tmp_path / "s.yaml"
    stream.write_text("name: s\ntask: classification\nfeatures: {a: numeric}\n")
    code = (
        "import sys\nfrom riparian.app.cli import main\n"
        f"sys.argv = ['riparian', 'worker', {str(stream)!r}, '--broker', '127.0.0.1:1', '--wait', '0', "
        "'--log-format', 'json']\nmain()"
    )
    lines = run(code)
    assert (lines[-1]["level"], lines[-1]["logger"]) == ("error", "riparian")
    assert "127.0.0.1:1" in lines[-1]["message"]


@pytest.mark.parametrize(
    ("command", "meant"), [("train", "worker or evaluate"), ("evalute", "evaluate"), ("deadletter", "deadletters")]
)
def test_a_command_that_is_not_there_is_answered_by_one_that_is(command: str, meant: str) -> None:
    result = CliRunner().invoke(cli, [command])
    assert result.exit_code == 2
    assert f"No such command '{command}': did you mean {meant}?" in result.output
    assert "No such command 'xyzzy'" in CliRunner().invoke(cli, ["xyzzy"]).output


@pytest.mark.parametrize("command", ["reset", "drop"])
def test_what_loses_a_model_asks_at_a_terminal(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    stream = tmp_path / "s.yaml"
    gone = CliRunner().invoke(cli, [command, str(stream), "nb"], input="y\n")
    assert isinstance(gone.exception, SpecError)
    assert not gone.output  # nothing is asked about a file that is not there
    stream.write_text((ROOT / "examples" / "elec.yaml").read_text() + "control: true\n")
    monkeypatch.setattr(control, "load", lambda stream, connection: spec.load(stream))
    monkeypatch.setattr(rights, "enter", AsyncMock())
    sent = AsyncMock(return_value={})
    monkeypatch.setattr(command_client, "ask", sent)
    for options, given, asks, n in (([], "n\n", True, 0), ([], "y\n", True, 1), (["--yes"], "", False, 2)):
        result = CliRunner().invoke(cli, [command, str(stream), "nb", "--json", *options], input=given)
        assert ("nb loses what it has learned. Go on? [y/N]" in result.stderr) == asks
        assert "loses" not in result.stdout
        assert (result.exit_code, sent.await_count) == (1, n)  # no partition answers
