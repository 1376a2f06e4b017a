"""Records of a stream as the live page takes them, and what it says of them: for the tests."""

from types import SimpleNamespace

from riparian.app.page.verdict import verdict
from riparian.app.page.view import HOUR_MS, StreamView
from riparian.app.stream_file.spec import loads
from riparian.topics import reports
from riparian.topics.names import dead_letter_headers
from riparian.topics.records import DriftRecord, MetricsRecord, PartitionRecord, Shift

NOW = 1_790_000_000_000
STREAM = """
name: taps
task: {task}
partitions: 2
learning: partition
features: {{a: numeric}}
champion: {{model: last-label}}
challengers: {{second: {{model: last-label}}}}
"""


def view_of(task="classification"):
    models = "half-space-trees" if task == "anomaly" else "last-label"
    return StreamView(loads(STREAM.format(task=task).replace("last-label", models)), clock=lambda: NOW)


def model(role="champion", partition=0, time=NOW, n=5000, comparison=None, estimated=None, counters=None, **window):
    record = MetricsRecord(
        "taps", partition, time, role, "last-label", n, n, n, {},
        window=window, size={"n_nodes": 3}, comparison=comparison, estimated=estimated, counters=counters,
    )  # fmt: skip
    return reports.write(record)


def compared(n=5000, difference=0.05, low=0.03, high=0.07, since=0):
    """What a challenger's record says beside the champion's."""
    return {
        **{"labels": n - since, "since": since, "difference": difference, "low": low, "high": high, "champion": 0.14},
        **{"confidence": 0.95, "reach": 1.0, "error": 0.05, "total_labels": n, "total_difference": difference},
        **{"total_variance": 0.1, "total_champion": 0.14, "total_begun": 1},
    }


def part(partition=0, time=NOW, **fields):
    given = {
        "started": NOW - HOUR_MS, "worker": "here:6066", "version": "1", "offset": 900, "label_offset": 900,
        "instances": 900, "labels": 900, "learned": 900, "waiting": 0, "lag": {"features": 0, "labels": 0},
        "state_bytes": 1000, "checkpoint_age": 1.0,
    }  # fmt: skip
    return reports.write(PartitionRecord("taps", partition, time, **(given | fields)))


def drift(partition=0, stream="taps", **fields):
    given = {
        "signal": "error",
        "detector": "adwin",
        "offset": 5,
        "label_offset": 5,
        "time": 7,
        "n": 90,
        "level": "drift",
    }
    return reports.write(
        DriftRecord(stream, partition, 0, **(given | {"model": "champion", "before": 0.15, "after": 0.28} | fields))
    )


def letter(headers=None, time=NOW, partition=0, offset=0):
    """A record of the dead letters; with some of its headers otherwise."""
    made = dict(dead_letter_headers("taps.features", 1, 12, "not-json", "why")) | (headers or {})
    return SimpleNamespace(
        partition=partition, offset=offset, timestamp=time, key=b"k", value=b"\xff<b>", headers=tuple(made.items())
    )


def told(view, now=NOW + 1000):
    found = verdict(view, now, "taps.yaml")
    said, why = ("".join(piece.get("text", "#") for piece in pieces) for pieces in (found.said, found.why))
    return found, f"{said} {why}".strip()


def living(view, **fields):
    """Two partitions that move."""
    for partition in (0, 1):
        before = {"offset": 800, "instances": 800, "learned": 800} | fields.pop("before", {})
        view.take_report(part(partition, NOW - 1000, **before))
        view.take_report(part(partition, **fields))
        view.take_report(model(partition=partition, accuracy=0.86))
    return view


SHIFT = Shift("values", 1e-9, 0.31, 0.8, [0, 500, 400, 100, 0], [0, 90, 210, 690, 10], 0.5, [0.0, 0.5, 1.0, 2.0])
