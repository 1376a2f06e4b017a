"""The commands of the quickstart and of README, as they are shown, on a real Kafka, with the output that is shown.

What is left out: the environment, a broker (there is one) and the browser. Rows come as fast as they can.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from riparian.app.stream_file.spec import load
from tests import forkserver
from tests.broker.harness import PATIENCE, ROOT, Worker, predictions, wait_for_records

pytestmark = pytest.mark.broker

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
QUICKSTART = (ROOT / "docs" / "start" / "quickstart.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = 45_312
LEFT_OUT = re.compile(r"^(?:make |\. |cp |kill |riparian (?:broker|worker|ui|audit) |riparian init --from-topic)")


def commands(page: str) -> list[list[str]]:
    lines = [line for language, text in BLOCK.findall(page) if language == "sh" for line in text.splitlines()]
    return [shlex.split(line, comments=True) for line in lines]


def run(words: list[str]) -> str:
    """The first command as users start it, the others without the seconds of its imports."""
    if words[:2] == ["riparian", "init"]:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    else:
        assert words[0] == "riparian"
        done = forkserver.run(["riparian.app.cli", *words[1:]], cwd=Path.cwd(), timeout=PATIENCE)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Any) -> Path:
    shutil.copy(ROOT / "app" / "demo" / "data" / "elec.csv.gz", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_quickstart_shows_what_happens(broker: str, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("RIPARIAN_BROKER", broker)
    tables = [text for language, text in BLOCK.findall(QUICKSTART) if not language]
    evaluated, audited = tables
    shown: list[str] = []
    for words in commands(QUICKSTART):
        line = shlex.join(words)
        if line == "riparian worker elec.yaml" and len(shown) < 3:
            first = Worker(folder / "elec.yaml", broker, folder)
        if LEFT_OUT.match(f"{line} "):
            continue
        shown.append(run(words[: words.index("--rate")] if "--rate" in words else words))
        if words[1] == "evaluate":
            assert evaluated in shown[-1]
    told = load(folder / "elec.yaml").topics.predictions
    with first:
        wait_for_records(broker, told, 1, first)
        first.kill()
    with Worker(folder / "elec.yaml", broker, folder) as second:
        wait_for_records(broker, told, ROWS, second)
        assert second.stop() == 0
    found = run(["riparian", "audit", "elec.yaml"])
    checkpoints = r"\d+ checkpoints?"  # as many as there was time for
    assert re.sub(checkpoints, "", found) == re.sub(checkpoints, "", audited)
    (said,) = [json.loads(text) for language, text in BLOCK.findall(QUICKSTART) if language == "json"]
    (sent,) = [one for one in predictions(broker, load(folder / "elec.yaml")) if one["id"] == said["id"]]
    sent["p"] = {name: round(p, 3) for name, p in sent["p"].items()}
    assert sent == said


def test_readme_has_the_commands_and_the_figures_of_the_quickstart() -> None:
    shown = [words[:3] for words in commands(QUICKSTART)]
    for words in commands(README):
        assert words[:3] in shown or words[0] in ("make", ".") or words[:2] == ["riparian", "init"], words
    table = next(text for language, text in BLOCK.findall(QUICKSTART) if not language)
    for model in ("champion", "last-label"):
        accuracy = re.search(rf"^{model} .*?([\d.]+)%", table, re.MULTILINE)
        assert accuracy is not None
        assert f"{float(accuracy[1]):.1f} %" in README
