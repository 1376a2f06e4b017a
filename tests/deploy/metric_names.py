"""The metrics that an expression names, and those that a worker has."""

import re
from pathlib import Path

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
OTHERS = {"up", "ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"}  # not of Riparian's own code


def named(expression: str) -> set[str]:
    """Names of series in an expression: what holds an underscore or a colon, or is in OTHERS, outside labels."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on|without|group_left)\s*\([^)]*\)', " ", expression)
    words = set(re.findall(r"[a-zA-Z_:][\w:]*", bare))
    functions = set(re.findall(r"([a-z_]+)\s*\(", bare))
    return {word for word in words - functions if "riparian" in word or word in OTHERS or "_" in word}


def documented() -> set[str]:
    """Names in the tables of docs/metrics.md, histograms by their series, and OTHERS."""
    found = set(OTHERS)
    for name, kind in re.findall(r"^\| `(riparian_\w+)` \| (\w+)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE):
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return found
