"""The metrics that an expression names, and those that a worker has."""

import re

from riparian.app.worker.exposition.metric_names import HISTOGRAM, all_metrics

OTHERS = {"up", "ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"}  # not of Riparian's own code


def named(expression: str) -> set[str]:
    """Names of series in an expression: what holds an underscore or a colon, or is in OTHERS, outside labels."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|on|without|group_left)\s*\([^)]*\)', " ", expression)
    words = set(re.findall(r"[a-zA-Z_:][\w:]*", bare))
    functions = set(re.findall(r"([a-z_]+)\s*\(", bare))
    return {word for word in words - functions if "riparian" in word or word in OTHERS or "_" in word}


def exposed() -> set[str]:
    """Names of series that a worker has, histograms by theirs, and OTHERS."""
    found = set(OTHERS)
    for name, metric, _ in all_metrics():
        found |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if metric.kind == HISTOGRAM else {name}
    return found
