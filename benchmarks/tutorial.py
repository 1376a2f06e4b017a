"""What the commands of docs/start/fraud.md print that need no Kafka, as the page shows it, in minutes.

    python -m benchmarks.tutorial

And the tree once more, without `keys` and the features of these.
"""

import gzip
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks.record import ROOT, write

PAGE = ROOT / "docs" / "start" / "fraud.md"
BLOCK = re.compile(r"^```(sh|yaml)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main() -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    (stream,) = (text for kind, text in blocks if kind == "yaml" and text.startswith("name:"))
    shown = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    lines = [line for line in shown if line.startswith(("riparian generate", "riparian evaluate"))]
    with tempfile.TemporaryDirectory() as folder:

        def run(line: str) -> list[str]:
            words = [sys.executable, "-m", "riparian.app.cli", *shlex.split(line)[1:]]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
            print(f"{line}\n{done.stdout}", flush=True)
            return done.stdout.splitlines()

        path = Path(folder) / "payments.yaml"
        path.write_text(stream, encoding="utf-8")
        printed = {line: run(line) for line in lines}
        with gzip.open(Path(folder) / "payments.csv.gz", "rt") as rows:
            labels = [row.rstrip().rpartition(",")[2] for row in rows][1:]
        fields = yaml.safe_load(stream)
        del fields["keys"]
        fields["features"] = {name: what for name, what in fields["features"].items() if isinstance(what, str)}
        path.write_text(yaml.safe_dump(fields), encoding="utf-8")
        share = round(100 * labels.count("fraud") / len(labels), 2)
        write("tutorial", {"fraud, %": share, "printed": printed, "without keys": run(lines[-1])})


if __name__ == "__main__":
    main()
