"""The figures of the page's first view, beside the verdict (app/page/verdict.py). Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from riparian.app.evaluation.measures.measures import quality
from riparian.app.evaluation.measures.objective import ALERT_RATE, Objective, beside
from riparian.app.page.segments import by_feature
from riparian.app.page.verdict import (
    DRIFTS,
    NEW_MS,
    against,
    fallen,
    gone,
    is_of_all,
    last_drift,
    proposed,
    standing,
    unread,
    verdict,
)
from riparian.app.page.view import DAY_MS, HOUR_MS, StreamView, latency
from riparian.app.stream_file.sections.models import AUTO
from riparian.topics.commands import PROMOTE
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY, MetricsRecord

SHOWN_EVENTS = 10
LOOKS = 8  # colours of models
WITHOUT_LABEL = ("expired", "unmatched", "null_labels", "assumed", "corrections")  # counters


def looks(view: StreamView, names: Iterable[str]) -> dict[str, int]:
    """Name of a model -> number of its colour, which it keeps: by its name, the next one where that is taken. A model
    that neither runs nor was champion as far as events tell gives its colour back."""
    wanted, promoted = {*names}, {event.model for event in view.events if event.action == PROMOTE}
    kept = wanted | promoted | view.spec.models().keys() | {role for role, _ in view.models} | {view.reigns()[0][1]}
    for name in view.looks.keys() - kept:
        del view.looks[name]
    for name in sorted(wanted - view.looks.keys()):
        first = crc32(name.encode()) % LOOKS
        free = [each % LOOKS for each in range(first, first + LOOKS) if each % LOOKS not in view.looks.values()]
        view.looks[name] = free[0] if free else first
    return view.looks


def titled(view: StreamView, name: str) -> str:
    """What people call a model by the name that it keeps (`StreamView.reigns`): `auto` as the stream file does."""
    return AUTO if view.spec.champion.model == AUTO and name == view.reigns()[0][1] else name


def models(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """A row per model, over one partition or all: of those that run, or else of those in the stream file.

    role, name : what it is called, the champion by the name that it keeps (`StreamView.reigns`), and title for people.
    look : its colour.
    value, low, high : the objective, and its interval. beside : further figures. against : how it does beside the
    champion, as `app.comparisons` has it.
    members : of a pool, the one that is believed most first.
    """
    rows = []
    partition = view.of_models(partition)
    declared, running = view.spec.models(), {role for role, _ in view.models}
    shown = [role for role in declared if role in running or not running]
    objective, reigning = view.objective, view.reigns(partition)[-1][1]
    compared = {row.challenger: row for row in view.compared(partition)}  # of all together, where there are several
    roles = [*shown, *sorted(running - declared.keys())]  # commands add and rename models
    chosen = declared[CHAMPION][0]  # what auto is
    known = looks(view, (reigning if role == CHAMPION else role for role in roles))
    for role in roles:
        name, parameters = declared.get(role, ("", {}))
        records = view.of_role(role, partition)
        sizes = [record.size or {} for record in records]
        called = reigning if role == CHAMPION else role
        learner = records[0].name if records else name
        row = compared.get(role)
        rows.append(
            {
                "role": role,
                "name": called,
                "look": known[called],
                "title": titled(view, called),
                "learner": AUTO if (titled(view, called), learner) == (AUTO, chosen) else learner,
                "parameters": parameters,
                **valued(view, objective, role, partition),
                "beside": [_figure(view, one, role, partition) for one in beside(view.spec, objective)],
                "against": None
                if row is None
                else dict(zip(("said", "sure"), against(view, row), strict=True)) | {"verdict": row.verdict},
                "coverage": _coverage(records),
                "members": _members(records),
                "n": sum(record.n for record in records),
                "nodes": sum(size.get("n_nodes", 0) for size in sizes),
                "depth": max((size.get("depth", 0) for size in sizes), default=0),
                "bytes": sum(size.get("n_bytes", 0) for size in sizes),
            }
        )
    return rows


def valued(view: StreamView, objective: Objective, role: str, partition: int | None) -> dict[str, Any]:
    """A figure of a model with its interval, and how many labels it is of."""
    value, weight = view.weighed(role, partition, objective)
    interval = None if value is None else objective.interval(value, weight)
    low, high = interval or (None, None)
    return {"value": value, "low": low, "high": high, "labels": round(weight) if value is not None else 0}


def _figure(view: StreamView, objective: Objective, role: str, partition: int | None) -> dict[str, Any]:
    shown = {"title": objective.title, "share": objective.share, "greater": objective.greater}
    return shown | valued(view, objective, role, partition)


def judged(view: StreamView, now: int, partition: int | None = None) -> dict[str, Any]:
    """The first figure of the page: what the stream is judged by, how good the champion is, of which labels, as of
    when, and how that went since the last drift (`fall`), or in an hour (`change`)."""
    objective, partition_ = view.objective, view.of_models(partition)
    told = [seen for p, seen in view.partitions.items() if partition in (None, p)]
    value = view.recent(CHAMPION, partition_)
    series = view.over(f"{objective.key}:{CHAMPION}", now - HOUR_MS - NEW_MS, now - HOUR_MS + NEW_MS, 2, partition_)
    before = next((float(v) for v in series.mean if v == v), None) if series is not None else None
    drift = last_drift(view)
    known = [seen.learned_at for seen in told if seen.learned_at is not None]
    until = [seen.last.scored_until for seen in told if seen.last.scored_until is not None]
    return {
        **objective._asdict(),
        **valued(view, objective, CHAMPION, partition_),
        "champion": titled(view, view.reigns(partition_)[-1][1]),
        "beside": [
            _figure(view, one, CHAMPION, partition_) for one in beside(view.spec, objective) if one != ALERT_RATE
        ],
        "as_of": max(known, default=None),
        "scored_until": min(until, default=None),
        "fall": None if drift is None else fallen(view, drift.time, now, partition_),
        "change": None if value is None or before is None else value - before,
        "fading": view.spec.metrics.fading is not None,
        "window": view.spec.metrics.window,
        "target": None if view.spec.decision is None else view.spec.decision.target,
        "labelled": view.spec.task != ANOMALY or view.spec.has_labels,
    }


def _members(records: Iterable[MetricsRecord]) -> list[str]:
    weights: dict[str, float] = {}
    for name, weight in (each for record in records for each in (record.members or {}).items()):
        weights[name] = weights.get(name, 0.0) + weight
    return sorted(weights, key=lambda name: -weights[name])


def _coverage(records: Iterable[MetricsRecord]) -> dict[str, float]:
    """Class -> share of its last labels that sets held, over partitions; empty where none is told."""
    sums: dict[str, tuple[float, float]] = {}
    for record in records:
        for name, figures in (record.classes or {}).items():
            n, coverage = figures.get("n"), figures.get("coverage")
            if n is not None and n > 0.0 and coverage is not None:
                weight, held = sums.get(name, (0.0, 0.0))
                sums[name] = weight + n, held + n * coverage
    return {name: held / weight for name, (weight, held) in sums.items()}


def partitions(view: StreamView, now: int) -> list[dict[str, Any]]:
    """A row per partition of the stream file."""
    rows = []
    drifts = [event for event in view.events if event.kind in DRIFTS]
    of_all = next((event.time for event in reversed(drifts) if is_of_all(view, event)), 0)
    newest = {event.partition: event.time for event in drifts}
    for partition in range(view.spec.partitions):
        seen = view.partitions.get(partition)
        row: dict[str, Any] = {"partition": partition, "state": standing(view, partition, now)}
        row["lag"] = view.lag(partition, now)
        if seen is not None:
            last = seen.last
            row |= {
                "worker": last.worker,
                "version": last.version,
                "since": last.started,
                "told": last.time,
                "rate": seen.rate_in,
                "learned": seen.rate_learned,
                "waiting": last.waiting,
                "instances": last.instances,
                "delay": last.delay_p50,
                "scored_until": last.scored_until,
                "p50": latency(last.latency_p50),
                "p99": latency(last.latency_p99),
                "score": view.own(partition),
                "checkpoint_age": last.checkpoint_age,
                "checkpoint_seconds": last.checkpoint_seconds,
                "bytes": last.state_bytes,
                "last_drift": max(of_all, newest.get(partition, 0)) or None,
            }
        rows.append(row)
    return rows


def distances(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """How far features and predictions are from their references now, the farthest first."""
    found = [
        {"partition": k, **msgspec.to_builtins(one)}
        for k, seen in view.partitions.items()
        if partition in (None, k)
        for one in seen.last.distances
    ]
    return sorted(found, key=lambda row: -row["hellinger"])


def tiles(view: StreamView, now: int, rows: list[dict[str, Any]], partition: int | None = None) -> dict[str, Any]:
    """The figures at the head of the page, of one partition or all. What only a worker knows is None where there is
    none, and `since` says when one has told it last."""
    asked = [row for row in rows if partition in (None, row["partition"])]
    kept = [row for row in asked if row["state"] != "nobody"]
    told = [row for row in asked if "worker" in row]

    def known(field: str, rows: list[dict[str, Any]]) -> list[float]:
        return [row[field] for row in rows if row.get(field) is not None]

    def counted(name: str) -> int:
        return sum((one.counters or {}).get(name, 0) for one in view.of_role(CHAMPION, partition))

    most = max((row for row in asked if row["lag"]), key=lambda row: row["lag"], default=None)
    return {
        "rate": sum(known("rate", kept)) if known("rate", kept) else None,
        "workers": len({row["worker"] for row in kept}),
        "partitions": len(kept),
        "p50": max(known("p50", kept), default=None),
        "p99": max(known("p99", kept), default=None),
        "lag": sum(known("lag", asked)) if known("lag", asked) else None,
        "lag_of": None if most is None else most["partition"],
        "waiting": sum(known("waiting", told)) if told else None,
        "delay": max(known("delay", told), default=None),
        "alert_rate": view.recent(CHAMPION, partition, ALERT_RATE),
        "without_label": {name: n for name in WITHOUT_LABEL if (n := counted(name))},
        "since": max((row["told"] for row in told), default=None) if not kept else None,
        **dict(zip(("expected", "expected_error"), view.expected(partition), strict=True)),
    }


def comparison(view: StreamView, partition: int | None = None) -> dict[str, Any]:
    """Challengers beside the champion, as `riparian compare` has them, the rule that promotes, and what it proposes."""
    rows = view.compared(partition)
    rule = view.spec.promotion
    return {
        "metric": "cost" if view.spec.has_costs else quality(view.spec.task),
        "rows": [row._asdict() for row in rows],
        "rule": None if rule is None else rule.model_dump(),
        "proposed": [
            {"challenger": role, "partition": k, "time": time}
            for (role, k), time in proposed(view).items()
            if partition in (None, k)
        ],
    }


def steered(view: StreamView) -> dict[str, Any]:
    """What commands have left. frozen : models that are, and in how many partitions. paused, running : whether there
    are partitions that withhold predictions, and that do not. before : whom undoing a promotion makes champion.
    shared : whether one partition answers for all. told : whether each of them says so."""
    known = [view.partitions[k].last for k in view.spec.commanded if k in view.partitions]
    return {
        "frozen": dict(Counter(role for one in known for role in one.frozen or ())),
        "partitions": len(known),
        "paused": any(one.paused for one in known),
        "running": not all(one.paused for one in known) or not known,
        "before": next((one.before for one in known if one.before), None),
        "told": len(known) == len(view.spec.commanded) and all(one.frozen is not None for one in known),
        "shared": view.spec.one_answers,
    }


def _reigns(view: StreamView, partition: int | None) -> list[dict[str, Any]]:
    """Who was champion since when (ms), the oldest first."""
    found = view.reigns(partition)
    known = looks(view, (name for _, name in found))
    return [{"since": since_, "name": titled(view, name), "look": known[name]} for since_, name in found]


def status(
    view: StreamView, now: int, path: str, partition: int | None = None, away: int | None = None
) -> dict[str, Any]:
    """All of it: what the browser is told every few seconds. now : ms. away : ms since when Kafka does not answer, so
    that all is as it was then."""
    then = now if away is None else min(now, away)
    rows = partitions(view, then)
    found = verdict(view, then, path) if away is None else gone(away)
    figures = tiles(view, then, rows, partition)
    if away is not None:
        figures |= dict.fromkeys(("rate", "p50", "p99", "lag", "lag_of")) | {"since": figures["since"] or away}
    return {
        "name": view.spec.name,
        "task": view.spec.task,
        "now": now,
        "newest": view.newest,
        "works": any(row["state"] != "nobody" for row in rows),
        "file_said": view.file_said,
        "unread": unread(view),
        "verdict": found._asdict(),
        "objective": judged(view, then, partition),
        "reigns": _reigns(view, partition),
        "tiles": figures,
        "segments": by_feature(view, partition),
        "steered": steered(view),
        "models": models(view, partition),
        "partitions": rows,
        "events": [e for e in view.events if partition in (None, e.partition)][-SHOWN_EVENTS:],
        "n_retried": view.n_marks,
        "watched": {
            "detectors": list(view.spec.drift.detectors),
            "features": list(view.spec.watched()),
            "distributions": list(view.spec.distributed()),
            "on_drift": view.spec.drift.on_drift,
        },
        "n_letters": sum(view.letters_since(now - DAY_MS).values()),
        "left_out": [
            {"topic": view.spec.outputs[role], "why": why, "n": n} for (role, why), n in sorted(view.left_out.items())
        ],
    }
