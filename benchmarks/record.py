"""Where benchmarks and campaigns leave their figures: benchmarks/results/NAME.json, which documentation is filled from.

`write("state", {"recovery_seconds": 1.2}, seed=1)` writes figures, and `with printed("costs"): main()` those of a
benchmark whose tables are its figures. `<!-- figures: costs -->` in a page shows them, `python -m docs` fills it.
"""

import contextlib
import io
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
UNREAD = (":!benchmarks/results", ":!docs/**/*.md")  # by what is measured
RESULTS = Path(os.environ.get("RIPARIAN_RESULTS") or ROOT / "benchmarks" / "results")  # tests name another


def commit() -> str:
    """The commit that is checked out, with a plus where files differ from it, but for figures and pages; empty outside
    of a repository."""
    try:
        named = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        differs = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", ".", *UNREAD], cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return named.stdout.strip() + "+" * (differs.returncode != 0)


def command() -> str:
    """What was run, without the folders of files."""
    program = Path(sys.argv[0]).resolve()
    if not program.is_relative_to(ROOT):
        return ""
    module = ".".join(program.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    return shlex.join(["python", "-m", module, *(Path(one).name if "/" in one else one for one in sys.argv[1:])])


def processor() -> str:
    """The model of the processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write(name: str, figures: Any, *, seed: int | None = None, folder: Path = RESULTS) -> Path:
    """Write one run's figures, over those of the run before.

    Parameters
    ----------
    name : str
        Of the file, without its ending; a campaign's begins with "campaign-".
    figures : mapping or list
        What was counted and measured; JSON-serialisable, numpy numbers included.
    seed : int, optional
        What the run was drawn by.
    folder : Path

    Returns
    -------
    Path
        The file.
    """
    found = {
        "name": name,
        "commit": commit(),
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "command": command(),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "figures": figures,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, default=_plain) + "\n", encoding="utf-8")
    return path


class _Copied(io.TextIOBase):
    """Standard output that is kept as well."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click asks so whether a stream takes bytes
            raise TypeError("a text is written")
        self.kept.append(text)
        return sys.__stdout__.write(text) if sys.__stdout__ is not None else len(text)

    def flush(self) -> None:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()


def tables(text: str) -> list[dict[str, list[Any]]]:
    """The Markdown tables in a text: heads, and rows of cells."""
    found: list[dict[str, list[Any]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not inside:
            found.append({"heads": cells, "rows": []})
            inside = True
        elif set(line) - set("|-: "):
            found[-1]["rows"].append(cells)
    return found


@contextlib.contextmanager
def printed(name: str, *modes: str) -> Iterator[None]:
    """Write what is printed inside, unless it ends by an exception: its Markdown tables, and the other lines.

    modes : options that make it another benchmark; those that were given are part of the file's name, as in
    "anomaly-start" for `--start`.
    """
    copied = _Copied()
    with contextlib.redirect_stdout(copied):
        yield
    text = "".join(copied.kept)
    others = [line for line in text.splitlines() if line.strip() and not line.startswith("|")]
    given = [mode.strip("-") for mode in modes if mode in sys.argv]
    write("-".join([name, *given]), {"tables": tables(text), "lines": others})


def _plain(value: Any) -> Any:
    """Of numpy numbers and arrays, and of sets and paths, what JSON has."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)
