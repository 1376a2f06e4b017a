"""The notebook of the example, cell by cell: from a file of payments to a running stream."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.broker.harness import PATIENCE

pytestmark = pytest.mark.broker

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "payments" / "notebook.ipynb"


def test_each_cell_runs(broker: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RIPARIAN_BROKER", broker)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
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
