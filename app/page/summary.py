"""What the page says of a stream now: one verdict in words, and figures. Pure.

The verdict is the worst that is true, then how good the champion is. It is a list of pieces: text, text that matters
(`strong`), or a time (`ms`), which the browser words against its own clock ("12 s ago").
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from riparian.app import comparisons
from riparian.app.page.view import DAY_MS, Event, PartitionView, StreamView, as_json
from riparian.app.partition.drift.events import ALARM
from riparian.app.stream_file.durations import format_duration
from riparian.topics.commands import APPLIED, DEMOTE, PAUSE, PROMOTE, PROPOSED
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY, REGRESSION, VALUES, MetricsRecord

QUIET_MS = 30_000
FEW = 100  # records that a partition may be behind without a word
BEHIND_SECONDS = 3.0
LATE_MS = 60_000
NEW_MS = 60_000  # time for which a drift is news, ms, however fast labels come
SHOWN_EVENTS = 10
CHANCE = 0.5  # the AUROC of scores that know nothing

# of a model that are shown, by task
FIELDS = {REGRESSION: ("mae", "rmse", "r2"), ANOMALY: ("auroc",)}

WITHOUT_LABEL = ("null_labels", "assumed", "corrections")  # counters
DRIFTS = ("drift", "reset", "replace-started")  # kinds of events that a drift begins

UNREAD = (
    ": they were added since the stream began. It goes on with them once features and labels have the same number; the "
    "worker's log says what else is missing."
)

GOOD, NEWS, WORSE, BAD = "good", "news", "worse", "bad"  # colours


class Verdict(NamedTuple):
    """kind : changes only where something else is the case, so that a screen reader is told no figures.
    level : one of the colours.
    said : pieces.
    """

    kind: str
    level: str
    said: list[dict[str, Any]]


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def strong(said: str) -> dict[str, Any]:
    return {"text": said, "strong": True}


def ago(ms: int) -> dict[str, Any]:
    return {"ago": ms}


def since(ms: int) -> dict[str, Any]:
    return {"since": ms}


def percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100.0 * value:.{digits}f} %"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


def listed(partitions: list[int]) -> str:
    """`partition 2`, `partitions 1 and 3`."""
    if len(partitions) == 1:
        return f"partition {partitions[0]}"
    if len(partitions) > 4:
        return f"{len(partitions)} partitions"
    return f"partitions {', '.join(map(str, partitions[:-1]))} and {partitions[-1]}"


def _capital(said: str) -> str:
    return said[:1].upper() + said[1:]


def lag_of(seen: PartitionView) -> int:
    return sum(seen.last.lag.values())


def is_behind(seen: PartitionView) -> bool:
    lag = lag_of(seen)
    rate = (seen.rate_in or 0.0) + (seen.rate_learned or 0.0)
    return lag > FEW and lag > BEHIND_SECONDS * rate


def standing(view: StreamView, partition: int, now: int) -> str:
    """The state of a partition, for the table: "up to date", "behind", or "nobody"."""
    if not view.works(partition, now):
        return "nobody"
    return "behind" if is_behind(view.partitions[partition]) else "up to date"


def verdict(view: StreamView, now: int, path: str) -> Verdict:
    """The worst that is true of a stream. now : ms. path : of its stream file, for commands."""
    spec = view.spec
    if not view.models and not view.partitions:
        nothing = f"Nothing in {spec.topics.metrics} yet. A worker writes the first figures "
        return Verdict(
            "empty", NEWS,
            [text(f"{nothing}{spec.metrics.every:g} s after it starts: "), strong(f"riparian worker {path}")],
        )  # fmt: skip
    alone = [p for p in range(spec.partitions) if not view.works(p, now)]
    quality = _quality(view)
    if alone:
        known = [view.partitions[p].last.time for p in alone if p in view.partitions]
        said = [text("Nobody works on "), strong(listed(alone))]
        said += [text(" since "), since(max(known))] if known else []
        return Verdict("nobody", BAD, [*said, text(f". Start a worker: riparian worker {path}"), *_then(quality)])
    added = unread(view)
    if added:
        where = [f"{listed(partitions)} of {topic}" for topic, partitions in added.items()]
        verb = "is" if sum(map(len, added.values())) == 1 else "are"
        said = [strong(f"{_capital(' and '.join(where))} {verb} not read"), text(UNREAD)]
        return Verdict("unread", BAD, [*said, *_then(quality)])
    withheld = _paused(view)
    if withheld is not None:
        return Verdict("paused", WORSE, [*withheld, *_then(quality)])
    behind = [p for p, seen in view.partitions.items() if is_behind(seen)]
    drift = _drift_now(view, now)
    if drift is not None:
        return Verdict("drift", BAD, [*drift, *_then(_behind(view, behind)), *_then(_better(view) or quality)])
    if behind:
        return Verdict("behind", WORSE, [*_behind(view, behind), *_then(quality)])
    late = _labels(view, now)
    if late is not None:
        return late
    early = next((seen.last.early for seen in view.partitions.values() if seen.last.early), None)
    if early is not None:
        return Verdict("early", NEWS, [text(f"{_capital(early)}."), *_then(quality)])
    better = _better(view)
    if better is not None:
        return Verdict("better", NEWS, [*better])
    rests = max((seen.moved_at for seen in view.partitions.values()), default=0)
    if now - rests > QUIET_MS:
        return Verdict("quiet", GOOD, [text("Nothing new since "), since(rests), text("."), *_then(quality)])
    found = view.recent(CHAMPION)
    if spec.task == ANOMALY and found is not None and found <= CHANCE:
        return Verdict("poor", NEWS, quality)
    n = len(view.partitions)
    keeps = "its partition keeps up" if n == 1 else f"{n} partitions keep up"
    return Verdict("good", GOOD, [text("All is well. "), *quality[:-1], text(f"{quality[-1]['text'][:-1]}; {keeps}.")])


def unread(view: StreamView) -> dict[str, list[int]]:
    """Input topic -> partitions that were added to it and that no worker reads, as the newest record says."""
    newest = max(view.partitions.values(), key=lambda seen: seen.last.time, default=None)
    told = {} if newest is None else newest.last.unread
    return {topic: told[topic] for topic in view.spec.input_topics.values() if told.get(topic)}


def gone(away: int) -> Verdict:
    """Kafka does not answer."""
    said = [strong("Kafka does not answer"), text(" since "), since(away), text(". What is shown is of then.")]
    return Verdict("away", BAD, said)


def _paused(view: StreamView) -> list[dict[str, Any]] | None:
    """Where predictions are withheld by a command."""
    found = {k: event for k, event in view.paused.items() if event.action == PAUSE}
    if not found or not view.spec.control:
        return None
    first = min(found.values(), key=lambda event: event.time)
    by = f" by {first.by}" if first.by else ""
    where = f" in {listed(sorted(found))}" if len(view.spec.commanded) > 1 else ""
    said = [strong("Predictions are paused"), text(f"{where}{by} since "), since(first.time)]
    return [*said, text(": they come without a value, and everything is learned. riparian resume goes on.")]


def _then(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [text(" "), *said] if said else []


def _quality(view: StreamView) -> list[dict[str, Any]]:
    """How good the champion is, in a sentence."""
    found = view.recent(CHAMPION)
    if found is None:
        return [text("The champion has not been scored yet.")]
    spec = view.spec
    learned = sum(seen.last.learned for seen in view.partitions.values())
    window = min(spec.metrics.window, learned) if learned else spec.metrics.window
    span = "labels lately" if spec.metrics.fading else f"the last {window:,} labels"
    if spec.task == REGRESSION:
        return [text("The champion is off by "), strong(number(found)), text(f" (mean of {span}).")]
    if spec.task == ANOMALY:
        chance = f", no better than by chance, {CHANCE}" if found <= CHANCE else ""
        said = text("The champion ranks anomalies with an AUROC of ")
        return [said, strong(number(found)), text(f" ({span}{chance}).")]
    of = "of the" if spec.metrics.fading else "of"
    return [text("The champion is right on "), strong(percent(found)), text(f" {of} {span}.")]


def _value(view: StreamView, event: Event, value: float | None, digits: int = 0) -> str:
    if value is None:
        return "–"
    return percent(value, digits) if event.signal == "error" and view.spec.task not in VALUES else number(value)


def _drift_now(view: StreamView, now: int) -> list[dict[str, Any]] | None:
    """The newest drift of the champion or a feature, while it is among the last labels, and for a minute at least."""
    alarmed = [p for p, seen in view.partitions.items() if CHAMPION in seen.last.alarms or "" in seen.last.alarms]
    found = [
        event
        for event in view.events
        if (event.partition in alarmed or now - event.time < NEW_MS)
        and event.model in (CHAMPION, None)
        and event.kind in DRIFTS
    ]
    if not found:
        return None
    event = found[-1]
    where = "" if _of_all(view, event) else f" in partition {event.partition}"
    said = [strong("Drift "), ago(event.time), text(f"{where}. ")]
    values = ""
    if event.before is not None and event.after is not None:
        digits = 0 if round(event.before, 2) != round(event.after, 2) else 1
        values = f" from {_value(view, event, event.before, digits)} to {_value(view, event, event.after, digits)}"
    if event.shift is not None:
        said.append(text(_shifted(event)))
    elif event.model is None:
        said.append(text(f"The mean of {event.signal} went{values} ({event.detector})."))
    else:
        said.append(text(f"Errors of the {event.model} rose{values} ({event.detector})."))
    done = {
        "reset": " The model has begun anew.",
        "replace-started": " A fresh model is on trial beside it.",
    }.get(event.action or "")
    return [*said, text(done)] if done else said


def _of_all(view: StreamView, event: Event) -> bool:
    """Whether an event is of a model that all partitions learn."""
    return len(view.spec.commanded) < view.spec.partitions and event.model is not None


def _shifted(event: Event) -> str:
    """How the values of a feature, or the predictions, are distributed otherwise than before."""
    shift = event.shift
    assert shift is not None
    whose = f"predictions of the {event.model}" if event.model is not None else f"values of {event.signal}"
    what = {"missing": "missing", "unseen": "not seen before", "range": "beyond the range of before"}.get(shift.kind)
    if what is None:
        what = (
            f"up to {number(float(shift.at))}" if shift.edges and isinstance(shift.at, int | float) else str(shift.at)
        )
    shares = f"{percent(event.before, 0)} before, {percent(event.after, 0)} now"
    return f"The {whose} are distributed otherwise: {what}, {shares}."


def _behind(view: StreamView, behind: list[int]) -> list[dict[str, Any]]:
    if not behind:
        return []
    lag = sum(lag_of(view.partitions[p]) for p in behind)
    said = [
        strong(_capital(f"{listed(behind)} {'is' if len(behind) == 1 else 'are'} behind")),
        text(f" by {lag:,} records"),
    ]
    before = [seen.before for p in behind if (seen := view.partitions[p]).before is not None]
    seconds = sum((view.partitions[b.partition].last.time - b.time) / 1000.0 for b in before) / max(1, len(before))
    faster = (sum(sum(b.lag.values()) for b in before) - lag) / seconds if before and seconds else 0.0
    if faster > 0.0:
        said.append(text(f", and catches up in about {_span(lag / faster)}."))
    else:
        said.append(text(", and falls further behind." if before else "."))
    return said


def _span(seconds: float) -> str:
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(1.0, seconds):.0f} s"


def _labels(view: StreamView, now: int) -> Verdict | None:
    """Where labels do not come."""
    instances = sum(seen.last.instances for seen in view.partitions.values())
    learned = sum(seen.last.learned for seen in view.partitions.values())
    waiting = sum(seen.last.waiting for seen in view.partitions.values())
    if instances and (not learned or any(seen.last.unmet for seen in view.partitions.values())):
        return _unlearned(view, instances, learned)
    at = max((seen.learned_at or seen.last.started for seen in view.partitions.values()), default=now)
    moved = max((seen.moved_at for seen in view.partitions.values()), default=0)
    usual = 1000.0 * max((seen.last.delay_p50 or 0.0 for seen in view.partitions.values()), default=0.0)
    if waiting and moved - at > max(LATE_MS, 5 * usual):
        said = [
            strong("No labels since "),
            since(at),
            text(". Scores are of then; drift would not be seen. "),
        ]
        said.append(text(f"{waiting:,} instances wait."))
        expected, _ = view.expected()
        if expected is not None:
            said += [
                text(" Without labels, "),
                strong(percent(expected)),
                text(" of the predictions lately are expected to be right."),
            ]
        return Verdict("late", WORSE, said)
    return None


def _unlearned(view: StreamView, instances: int, learned: int) -> Verdict:
    """Where no label has met its instance, or next to none lately."""
    labels = sum(seen.last.labels for seen in view.partitions.values())
    if not labels:
        said = strong(f"{instances:,} predictions are out and no label has come.")
        return Verdict("no labels", NEWS, [said, text(" Nothing can be scored yet.")])
    met = f"{learned or 'none'} of the {labels:,} labels that came {'were' if learned > 1 else 'was'} theirs"
    said = strong(f"{instances:,} predictions are out, and {met}.")
    why = next((seen.last.unmet for seen in view.partitions.values() if seen.last.unmet), None)
    if why is not None:
        return Verdict("unjoined", WORSE, [said, text(f" {_capital(why)}.")])
    expired = sum((one.counters or {}).get("expired", 0) for one in view.of_role(CHAMPION))
    if not expired:
        return Verdict("unjoined", NEWS, [said, text(" Nothing can be scored yet.")])
    horizon = format_duration(view.spec.join.horizon)
    why = (
        f" {expired:,} instances waited for {horizon} in vain: labels come later than join.horizon, or have other ids."
    )
    return Verdict("unjoined", WORSE, [said, text(why)])


def _better(view: StreamView) -> list[dict[str, Any]] | None:
    """A challenger that is better than the champion for sure, in no partition worse."""
    rows = view.compared()
    doubtful = {row.challenger for row in rows if row.verdict == comparisons.WORSE}
    found = [row for row in rows if row.verdict == comparisons.BETTER and row.challenger not in doubtful]
    if not found:
        return None
    row = max(found, key=lambda row: (row.partition is None, row.difference))
    of_values, costs = view.spec.task == REGRESSION, view.spec.has_costs
    values = [number(v) if of_values or costs else f"{100 * v:.1f}" for v in (row.difference, row.low, row.high)]
    more = "less mean absolute error" if of_values else "less mean cost" if costs else "points more are right"
    alone = row.partition is not None and len(view.spec.commanded) > 1
    where = f" in partition {row.partition}" if alone else ""
    return [
        strong(f"{row.challenger} is better than the champion{where}: "),
        text(f"{values[0]} {more}, surely {values[1]} to {values[2]}, over {row.labels:,} labels."),
    ]


# -- figures -----------------------------------------------------------------------------------------------------------


def models(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """A row per model, over one partition or all: of those that run, or else of those in the stream file."""
    rows = []
    partition = view.of_models(partition)
    declared, running = view.spec.models(), {role for role, _ in view.models}
    shown = [role for role in declared if role in running or not running]
    for role in [*shown, *sorted(running - declared.keys())]:  # commands add and rename models
        name, parameters = declared.get(role, ("", {}))
        records = view.of_role(role, partition)
        n = sum(record.n for record in records)

        def mean(field: str, scope: str, records: list[MetricsRecord] = records) -> float | None:
            scores = [r.overall if scope == "overall" else r.window or r.fading or {} for r in records]
            pairs = zip((values.get(field) for values in scores), (r.n for r in records), strict=True)
            known = [(value, n) for value, n in pairs if value is not None]
            total = sum(n for _, n in known)
            return sum(value * n for value, n in known) / total if total else None

        fields = FIELDS.get(view.spec.task, ("accuracy", "kappa", "log_loss"))
        sizes = [record.size or {} for record in records]
        rows.append(
            {
                "role": role,
                "learner": records[0].name if records else name,
                "parameters": parameters,
                "recent": {field: mean(field, "window") for field in fields},
                "overall": {field: mean(field, "overall") for field in fields},
                "coverage": _coverage(records),
                "score": view.recent(role, partition),
                "n": n,
                "nodes": sum(size.get("n_nodes", 0) for size in sizes),
                "depth": max((size.get("depth", 0) for size in sizes), default=0),
                "bytes": sum(size.get("n_bytes", 0) for size in sizes),
            }
        )
    return rows


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
    of_all = next((event.time for event in reversed(drifts) if _of_all(view, event)), 0)
    last_drift = {event.partition: event.time for event in drifts}
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
                "p50": last.latency_p50,
                "p99": last.latency_p99,
                "score": view.own(partition),
                "checkpoint_age": last.checkpoint_age,
                "checkpoint_seconds": last.checkpoint_seconds,
                "bytes": last.state_bytes,
                "last_drift": max(of_all, last_drift.get(partition, 0)) or None,
            }
        rows.append(row)
    return rows


def distances(view: StreamView, partition: int | None = None) -> list[dict[str, Any]]:
    """How far features and predictions are from their references now, the farthest first."""
    found = [
        {"partition": k, **as_json(one)}
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

    earlier = view.over(f"score:{CHAMPION}", now - 3_660_000, now - 3_540_000, 2, partition)
    before = next((float(v) for v in earlier.mean if v == v), None) if earlier is not None else None
    score = view.recent(CHAMPION, partition)
    most = max((row for row in asked if row["lag"]), key=lambda row: row["lag"], default=None)
    return {
        "metric": view.score,
        "score": score,
        "change": None if score is None or before is None else score - before,
        "rate": sum(known("rate", kept)) if known("rate", kept) else None,
        "workers": len({row["worker"] for row in kept}),
        "partitions": len(kept),
        "p50": max(known("p50", kept), default=None),
        "p99": max(known("p99", kept), default=None),
        "lag": sum(known("lag", asked)) if known("lag", asked) else None,
        "lag_of": None if most is None else most["partition"],
        "waiting": sum(known("waiting", told)) if told else None,
        "delay": max(known("delay", told), default=None),
        "scored_until": min(known("scored_until", told), default=None),
        "without_label": {name: n for name in WITHOUT_LABEL if (n := counted(name))},
        "since": max((row["told"] for row in told), default=None) if not kept else None,
        **dict(zip(("expected", "expected_error"), view.expected(partition), strict=True)),
    }


def comparison(view: StreamView, partition: int | None = None) -> dict[str, Any]:
    """Challengers beside the champion, as `riparian compare` has them, the rule that promotes, and what it proposes."""
    rows = view.compared(partition)
    rule = view.spec.promotion
    proposed: dict[tuple[str, int], int] = {}
    for event in view.events:  # in order: a promotion ends what was proposed in its partition
        if event.kind == PROPOSED and event.model is not None:
            proposed[event.model, event.partition] = event.time
        elif event.kind == APPLIED and event.action in (PROMOTE, DEMOTE):
            proposed = {key: time for key, time in proposed.items() if key[1] != event.partition}
    return {
        "metric": "cost" if view.spec.has_costs else view.score,
        "rows": [row._asdict() for row in rows],
        "rule": None if rule is None else rule.model_dump(),
        "proposed": [
            {"challenger": role, "partition": k, "time": time}
            for (role, k), time in proposed.items()
            if partition in (None, k)
        ],
    }


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
        "alarm": ALARM,
        "verdict": found._asdict(),
        "tiles": figures,
        "models": models(view, partition),
        "partitions": rows,
        "events": [as_json(e) for e in view.events if partition in (None, e.partition)][-SHOWN_EVENTS:],
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
