"""Streams in each state that the live page tells apart, by their records of an hour: for tests, and to be seen.

    PAGE_PICTURES=FOLDER pytest tests/app/test_page_states.py

writes a picture of each, wide and as on a phone, into the folder.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from riparian.app.page.view import StreamView, now_ms
from riparian.app.stream_file.spec import loads
from riparian.topics import commands, reports
from riparian.topics.records import MetricsRecord, PartitionRecord, SegmentFigures
from tests.app.page_records import drift
from tests.app.page_server import Fed, serving_of

EVERY, HOUR = 10_000, 3_600_000
HEAD = "name: {name}\npartitions: 2\nlearning: shared\nfeatures: {{amount: numeric, country: nominal}}\n"
FRAUD = HEAD + (
    "task: classification\nchampion: {{model: adaptive-random-forest}}\n"
    "challengers: {{patches: {{model: streaming-random-patches}}, tree: {{model: hoeffding-tree}}}}\n"
    "decision: {{class: fraud, alert_rate: 0.01}}\ncontrol: true\npromotion: propose\n"
)
PLAIN = HEAD + (
    "task: classification\nchampion: {{model: hoeffding-tree}}\n"
    "challengers: {{nb: {{model: naive-bayes}}, last: {{model: last-label}}}}\n"
)
VALUES = HEAD + (
    "task: regression\nchampion: {{model: hoeffding-regression-tree}}\n"
    "challengers: {{last: {{model: last-label}}}}\npredictions: {{coverage: 0.9}}\n"
)
SCORES = (
    HEAD.replace("shared", "partition")
    + "task: anomaly\nchampion: {{model: half-space-trees}}\ndecision: {{alert_rate: 0.01}}\n"
    + "topics: {{labels: null}}\nrecord: {{y: null}}\n"
)


class World(NamedTuple):
    """stream : its file. tell : of a view and now, ms, the records. said : what the verdict says. first : the first
    figure. away : whether Kafka does not answer."""

    stream: str
    tell: Callable[[StreamView, int], None]
    said: str
    first: str
    away: bool = False

    def view(self, name: str) -> StreamView:
        return StreamView(loads(self.stream.format(name=name)))


def noise(i: int, k: int = 0) -> float:
    """A number from -1 to 1, the same in each run."""
    return math.sin(12.9898 * (i + 1) + 78.233 * k) * math.cos(4.1414 * i + k)


def minutes(now: int) -> Iterator[tuple[int, int, float]]:
    """(number, ms, share of the hour) of each record."""
    n = HOUR // EVERY
    return ((i, now - HOUR + EVERY * (i + 1), i / n) for i in range(n))


def partition(view: StreamView, k: int, time: int, i: int, **fields: Any) -> None:
    n = 148 * (i + 1)
    taken = dict.fromkeys(("offset", "label_offset", "instances", "labels", "learned"), n)
    given = taken | {
        "started": time - EVERY * (i + 1), "worker": f"worker-{k}:6066", "version": "0.1.0", "state_bytes": 41_000_000,
        "lag": {"features": int(3 + 2 * noise(i, k)), "labels": 0}, "waiting": 31_000 + int(2000 * noise(i, k)),
        "latency_p50": 0.008 + 0.002 * noise(i, k), "latency_p99": 0.046 + 0.01 * noise(i, k + 3),
        "checkpoint_age": 1.0, "delay_p50": 2000.0,
    }  # fmt: skip
    view.take_report(reports.write(PartitionRecord(view.spec.name, k, time, **(given | fields))))


def model(view: StreamView, role: str, name: str, time: int, i: int, **fields: Any) -> None:
    size = {"n_nodes": 80 + i // 4, "depth": 7, "n_bytes": 41_000_000 if role == "champion" else 3_000_000}
    given = {"n": 148 * (i + 1), "overall": {}, "size": size}
    view.take_report(reports.write(MetricsRecord(view.spec.name, 0, time, role, name, 1, 1, **(given | fields))))


def frauds(recall: float, precision: float, n: float) -> dict[str, Any]:
    """Figures of a stream with a rare class."""
    return {
        "window": {
            "accuracy": 0.992,
            "auroc": 0.95,
            "alert_rate": 0.01 + 0.002 * (0.74 - recall),
            "kappa": 0.4,
            "balanced_accuracy": 0.8,
        },
        "classes": {
            "ok": {"n": 1000.0 - n, "recall": 0.99},
            "fraud": {"n": n, "recall": recall, "precision": precision},
        },
    }


def against(labels: int, difference: float, low: float, high: float) -> dict[str, float]:
    return {
        **{"labels": labels, "since": 0, "difference": difference, "low": low, "high": high, "champion": 0.014},
        **{"confidence": 0.95, "reach": 1.0, "error": 0.05, "total_labels": labels, "total_difference": difference},
        **{"total_variance": 0.01, "total_champion": 0.014, "total_begun": 1},
    }


def command(view: StreamView, event: str, what: str, time: int, role: str, said: str) -> None:
    value = commands.EventRecord(view.spec.name, 0, 0, event, what, 3, 3, 0, said, model=role, by="ann")
    view.take_command(commands.write(value), time)


def falls(at: float, before: float, worst: float, back: float) -> Callable[[float], float]:
    """A figure that falls at a share of the hour and comes back so far."""

    def value(t: float) -> float:
        if t < at:
            return before
        return worst + (before - worst) * math.exp(-(t - at) * 40) + back * max(0.0, t - at - 0.08)

    return value


def payments(
    view: StreamView, now: int, champion: Callable[[float], float], forest: float = 0.0, n: float = 400.0
) -> None:
    command(
        view, "applied", "promote", now - 50 * 60_000, "patches", "patches (streaming-random-patches) is the champion"
    )
    for i, time, t in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i)
        value = champion(t)
        model(
            view,
            "champion",
            "streaming-random-patches",
            time,
            i,
            **frauds(value + 0.01 * noise(i), 0.33 + 0.01 * noise(i, 2), n),
        )
        beside = against(148 * (i + 1), forest, forest - 0.002, forest + 0.002)
        model(
            view,
            "adaptive-random-forest",
            "adaptive-random-forest",
            time,
            i,
            comparison=beside,
            **frauds(min(0.9, value + 0.03 + 10 * forest * t) + 0.01 * noise(i, 5), 0.36, n),
        )
        model(
            view,
            "tree",
            "hoeffding-tree",
            time,
            i,
            comparison=against(148 * (i + 1), -0.012, -0.015, -0.009),
            **frauds(value - 0.12 - (0.14 if t > 0.55 else 0.0) + 0.01 * noise(i, 7), 0.2, n),
        )


def drifted(view: StreamView, at: int, **fields: Any) -> None:
    view.take_drift(drift(stream=view.spec.name, **({"before": 0.006, "after": 0.011} | fields)), at)


def tell_again(view: StreamView, record: Any, now: int, **changes: Any) -> None:
    view.take_report(reports.write(msgspec.structs.replace(record, time=now + 1, **changes)))


def empty(view: StreamView, now: int) -> None:
    """Nothing."""


def young(view: StreamView, now: int) -> None:
    for i, time, _ in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i, labels=0, learned=0, label_offset=0, waiting=148 * (i + 1), delay_p50=None)


def fine(view: StreamView, now: int) -> None:
    payments(view, now, lambda t: 0.74)


def broken(view: StreamView, now: int) -> None:
    """Frauds of one country are caught no more."""
    payments(view, now, falls(0.9, 0.74, 0.62, 0.0))

    def of(value: str, n: float, loss: float, before: float, **found: Any) -> SegmentFigures:
        return SegmentFigures("country", n, loss, 10.0 * n, 10.0 * before, value=value, **found)

    found = [
        of("PT", 40.0, 25.0, 10.0, since=now - 5 * 60_000, usual=0.25, rise=0.37),
        *(of(value, n, 0.27 * n, 0.26 * n) for value, n in (("ES", 70.0), ("FR", 50.0), ("DE", 30.0))),
        SegmentFigures("country", 10.0, 2.0, 100.0, 25.0, others=True),
    ]
    tell_again(view, view.models["champion", 0], now, segments=found)


def drifting(view: StreamView, now: int) -> None:
    payments(view, now, falls(0.97, 0.74, 0.5, 0.0))
    tell_again(view, view.partitions[0].last, now, alarms=["champion"])
    drifted(view, now - 2 * 60_000)
    drifted(view, now - 110_000, model=None, signal="amount", before=38.0, after=51.0)


def recovering(view: StreamView, now: int) -> None:
    payments(view, now, falls(0.55, 0.74, 0.5, 0.35), forest=0.006)
    command(view, "applied", "apply", now - 45 * 60_000, "champion", "stream file 18")
    tell_again(view, view.partitions[0].last, now, alarms=["champion"])
    drifted(view, now - int(0.45 * HOUR))
    for k in range(9):
        drifted(
            view, now - (k + 1) * 5 * 60_000, model="tree" if k % 2 else None, signal="error" if k % 2 else "amount"
        )


def rare(view: StreamView, now: int) -> None:
    payments(view, now, lambda t: 0.6, n=5.0)


def few(view: StreamView, now: int) -> None:
    """As many labels as the window holds have not come yet."""
    rare(view, now)
    tell_again(view, view.models["champion", 0], now, n=900)


def proposed(view: StreamView, now: int) -> None:
    payments(view, now, lambda t: 0.66, forest=0.006)
    command(view, "proposed", "promote", now - 42 * 60_000, "adaptive-random-forest", "it is better")


def undecided(view: StreamView, now: int) -> None:
    for i, time, _ in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i)
        for role, value in (("champion", 0.995), ("nb", 0.99), ("last", 0.994)):
            shares = {"a": {"n": 995.0, "recall": 1.0}, "b": {"n": 5.0, "recall": 0.2}}
            figures = {
                "accuracy": value,
                "auroc": value - 0.1 + 0.02 * noise(i, len(role)),
                "kappa": 0.2,
                "balanced_accuracy": 0.6,
            }
            model(view, role, role, time, i, window=figures, classes=shares)


def plain(view: StreamView, now: int) -> None:
    for i, time, _ in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i)
        for role, value in (("champion", 0.86), ("nb", 0.81), ("last", 0.84)):
            shares = {"up": {"n": 420.0, "recall": 0.8}, "down": {"n": 580.0, "recall": 0.9}}
            figures = {"accuracy": value + 0.01 * noise(i, len(role)), "kappa": 0.7, "log_loss": 0.4, "auroc": 0.9}
            model(
                view,
                role,
                {"champion": "hoeffding-tree", "nb": "naive-bayes", "last": "last-label"}[role],
                time,
                i,
                window=figures,
                classes=shares,
                **({"estimated": {"accuracy": 0.85, "error": 0.01, "observed": 0.86}} if role == "champion" else {}),
            )


def regression(view: StreamView, now: int) -> None:
    for i, time, _ in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i)
        for role, name, value in (("champion", "hoeffding-regression-tree", 3.1), ("last", "last-label", 5.8)):
            figures = {"mae": value + 0.1 * noise(i, len(role)), "rmse": 1.4 * value, "r2": 0.7, "coverage": 0.904}
            beside = {"comparison": against(148 * (i + 1), -2.7, -2.9, -2.5)} if role == "last" else {}
            model(view, role, name, time, i, window=figures, **beside)


def anomaly(view: StreamView, now: int) -> None:
    for i, time, t in minutes(now):
        for k in (0, 1):
            partition(view, k, time, i, labels=0, learned=0, label_offset=0, delay_p50=None)
        model(
            view,
            "champion",
            "half-space-trees",
            time,
            i,
            n=0,
            window={"alert_rate": 0.01 + (0.02 if t > 0.8 else 0.0) + 0.001 * noise(i)},
        )


def alone(view: StreamView, now: int) -> None:
    payments(view, now - 25 * 60_000, lambda t: 0.74)
    for i, time, t in minutes(now):
        if t > 0.58:
            partition(view, 0, time, i)
    view.take_ends({("features", 1): (0, 64_000), ("labels", 1): (0, 53_300)}, now)


def paused(view: StreamView, now: int) -> None:
    payments(view, now, lambda t: 0.74)
    command(view, "applied", "pause", now - 5 * 60_000, "champion", "predictions are paused")


WORLDS = {
    "empty": World(FRAUD, empty, "No worker has run yet.", ""),
    "young": World(FRAUD, young, "106,560 predictions are out, and labels are awaited.", "–"),
    "fine": World(FRAUD, fine, "All is well: 73.3 % of fraud is caught.", "73.3"),
    "one-segment-broken": World(
        FRAUD + "metrics: {{segments: [country]}}\n", broken, "Recall fell for country PT, from 75 to 38 %.", "6"
    ),
    "drifting": World(FRAUD, drifting, "Recall at 1 % alerts fell from 75 % to 5", "5"),
    "recovering": World(FRAUD, recovering, "and is 6", "6"),
    "rare": World(FRAUD, rare, "Of the last 1,000 labels 5 are fraud: too few to judge.", "59"),
    "few": World(FRAUD, few, "5 labels of fraud so far: too few to judge.", "59"),
    "proposed": World(FRAUD, proposed, "adaptive-random-forest makes 0.6 fewer errors in 100 than the champion.", "65"),
    "undecided": World(PLAIN, undecided, "All is well: AUROC is 0.", "0."),
    "plain": World(PLAIN, plain, "All is well: 85.4 % of the predictions are right.", "85.4"),
    "regression": World(VALUES, regression, "All is well: predictions are off by 3.", "3."),
    "anomaly": World(
        SCORES, anomaly, "More alerts than usual: 2.9 % of the predictions, where 1.0 % are asked.", "2.9"
    ),
    "worker-gone": World(FRAUD, alone, "Nobody works on partition 1.", "7"),
    "broker-gone": World(FRAUD, fine, "Kafka does not answer: these figures are old.", "73.3", away=True),
    "paused": World(FRAUD, paused, "Predictions are paused by ann.", "73.3"),
}


@contextmanager
def shown(folder: Path, names: list[str], actions: bool = False, told: bool = True) -> Iterator[tuple[str, Fed]]:
    """The address of a page over these states, each a stream. told : with their records."""
    now = now_ms()
    views = [WORLDS[name].view(name) for name in names]
    for name, view in zip(names, views, strict=True):
        (folder / f"{name}.yaml").write_text(WORLDS[name].stream.format(name=name))
        if told:
            WORLDS[name].tell(view, now)
    with serving_of(folder, *views, actions=actions) as (watch, serving):
        watch.progress = None
        watch.away_since = now if told and any(WORLDS[name].away for name in names) else None
        with serving() as url:
            yield url, watch
