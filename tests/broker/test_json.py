"""`--json` of every command: one document that a program can read, and nothing beside it on standard output."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from riparian.app.cli import cli
from tests.app.test_mistakes import commands
from tests.broker.clients import Sent
from tests.broker.harness import instances, invoke
from tests.broker.test_ui import Ui

pytestmark = pytest.mark.broker

N = 300
KEYED = {
    "keys": {"kind": {"from": "c", "max": 100}},
    "features": {"a": "numeric", "c": {"type": "nominal"}, "n": {"count": "kind", "half_life": "1h"}},
}
ELSEWHERE = {("broker", "start"): "tests/broker/test_broker.py", ("demo",): "tests/app/test_demo_view.py"}


def documents(text: str) -> list[Any]:
    """Those among the lines of a log."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_every_command_prints_one_document(stream: Any, tmp_path: Path) -> None:
    s = stream(control=True, **KEYED)
    features, labels = instances(N)
    s.give(([*features, Sent(b"{", features[-1].time)], labels))
    with s.worker(web_port=None, options=("--json",)) as worker:
        s.reach(N + 1, N, worker)
        assert worker.stop() == 0, worker.output
    (said,) = documents(worker.output)
    assert [one["stream"] for one in said["streams"]] == [s.name]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", said["metrics"])
    with Ui(tmp_path, s.broker, s.path, options=("--json",)) as ui:
        (said,) = documents(ui.log.read_text())
        assert said == {"streams": [s.name], "broker": s.broker, "address": f"{ui.url}/", "token": None}

    rows, state, data = tmp_path / "rows.csv", tmp_path / "p0.state", ["--data", tmp_path / "no-broker"]
    rows.write_text("kind,a,c,y\n" + "".join(f"{i},{i % 7},{'xy'[i % 2]},{['no', 'yes'][i % 2]}\n" for i in range(40)))
    file, model = [s.path], [s.path, "nb"]
    asked = {
        ("init",): [rows, "--label", "y", "--out", tmp_path / "new.yaml"],
        ("check",): file,
        ("models",): [],
        ("generate",): ["sea", tmp_path / "sea.csv", "-n", 10],
        ("broker", "stop"): data,
        ("broker", "status"): data,
        ("lag",): file,
        ("deploy", "topics"): file,
        ("deploy", "acls"): [*file, "--principal", "User:me"],
        ("deploy", "kubernetes"): [*file, "--cluster", "main"],
        ("dashboard",): ["--out", tmp_path / "dashboard"],
        ("evaluate",): [rows, "--model", "majority-class", "--jobs", 1],
        ("backtest",): file,
        ("compare",): file,
        ("explain",): [*file, "0000007"],
        ("inspect",): file,
        ("apply",): file,
        ("add",): [*file, "new", "naive-bayes"],
        **{(name,): model for name in ("drop", "promote", "freeze", "thaw", "reset")},
        **{(name,): file for name in ("demote", "pause", "resume", "checkpoint", "grow", "audit", "rollback")},
        ("forget",): [*file, "--key", "kind=x"],
        ("deadletters", "list"): file,
        ("deadletters", "show"): file,
        ("deadletters", "retry"): [*file, "--dry-run"],
        ("state", "show"): file,
        ("state", "verify"): file,
        ("export",): [*file, state],
        ("import",): [*file, state, "--replace"],
        ("replay",): [*file, rows, "--label", "y", "--limit", 5],
    }
    known = dict(commands(cli, apart=()))
    assert {*asked, *ELSEWHERE, ("worker",), ("ui",)} == {*known}
    assert all(any("--json" in one.opts for one in command.params) for command in known.values())
    for path, arguments in asked.items():
        options = {option for one in known[path].params for option in one.opts}
        arguments = [*arguments, *(["--broker", s.broker] if "--broker" in options else [])]
        # No worker runs, so that no command to the stream is answered.
        waits = ["--wait", 0] if "--by" in options else []
        done = invoke(*path, *arguments, *waits, "--json")
        assert done.exit_code in ((1,) if waits or path == ("broker", "status") else (0,)), (path, done.output)
        assert isinstance(json.loads(done.stdout), dict | list), path
