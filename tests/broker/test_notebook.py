"""The notebook of the example, cell by cell: from a file of payments to a running stream."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.broker.harness import PATIENCE, ROOT

pytestmark = pytest.mark.broker

# `riparian` without the seconds of its imports; asked to end, it asks for the same.
COMMAND = f"""#!{sys.executable}
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
from tests.forkserver import Process
process = Process(["riparian.app.cli", *sys.argv[1:]], stdout=1, stderr=2, cwd=os.getcwd())
signal.signal(signal.SIGTERM, lambda *_: process.terminate())
sys.exit(process.wait())
"""
NOTEBOOK = ROOT / "examples" / "payments" / "notebook.ipynb"


def test_each_cell_runs(broker: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIPARIAN_BROKER", broker)
    command = tmp_path / "bin" / "riparian"
    command.parent.mkdir()
    command.write_text(COMMAND)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    names: dict[str, Any] = {}
    shown = ""
    try:
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] != "code" or "broker" in cell["metadata"].get("tags", []):
                continue
            if text.startswith("!"):
                done = subprocess.run(text[1:], shell=True, capture_output=True, text=True, timeout=PATIENCE)
                assert done.returncode == 0, text + done.stderr
                shown = done.stdout
            else:
                exec(compile(text, str(NOTEBOOK), "exec"), names)
    finally:
        if "worker" in names:
            names["worker"].kill()
            names["worker"].wait()
    auroc = names["auroc"]
    assert auroc["with the past"] > auroc["amount alone"] + 0.1
    assert "19999" in shown
