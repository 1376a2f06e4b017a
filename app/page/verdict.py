"""What the page says of a stream in one sentence: the worst that is true, then how good the champion is. Pure.

What it says is a list of pieces: text, or a time, which the browser words as people do ("12:07:31", "Thu 26 Nov").
"""

from typing import Any, NamedTuple

import numpy as np

from riparian.app import comparisons
from riparian.app.evaluation.measures.objective import ALERT_RATE, ENOUGH, number, percent
from riparian.app.page.segments import broken
from riparian.app.page.view import DAY_MS, Event, PartitionView, StreamView
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.sections.outputs import long_enough
from riparian.topics.commands import APPLIED, DEMOTE, PAUSE, PROMOTE, PROPOSED
from riparian.topics.names import CHAMPION
from riparian.topics.records import ANOMALY, REGRESSION, VALUES

QUIET_MS = 30_000
FEW = 100  # records that a partition may be behind without a word
BEHIND_SECONDS = 3.0
LATE_MS = 60_000
NEW_MS = 60_000  # time for which a drift is news, ms, however fast labels come
TREND_MS = 60_000  # time over which a lag grows or falls
IN_VAIN = 0.1  # share of labels without an instance that is told
MANY = 1.5  # times the alert rate that is asked for
CHANCE = 0.5  # the AUROC of scores that know nothing
RECOVERED = 0.25  # share of a fall from which on the stream recovers

DRIFTS = ("drift", "reset", "replace-started")  # kinds of events that a drift begins

UNREAD = (
    "They were added since the stream began. It goes on with them once features and labels have the same number; the "
    "worker's log says what else is missing."
)

GOOD, NEWS, WORSE, BAD, STALE = "good", "news", "worse", "bad", "stale"  # colours


class Verdict(NamedTuple):
    """kind : changes only where something else is the case, so that a screen reader is told no figures.
    level : one of the colours.
    state : it in a word or two.
    said : one sentence, as pieces. why : what stands below it, likewise.
    since : ms since when it is so, where that is known.
    cure : what to do: a `label`, and a `tab` of the page to open, a `command` to copy, or one to give (`give`).
    """

    kind: str
    level: str
    state: str
    said: list[dict[str, Any]]
    why: list[dict[str, Any]] = []  # noqa: RUF012
    since: int | None = None
    cure: dict[str, str] | None = None


def text(said: str) -> dict[str, Any]:
    return {"text": said}


def since(ms: int) -> dict[str, Any]:
    return {"since": ms}


def see(label: str, tab: str) -> dict[str, str]:
    return {"label": label, "tab": tab}


def start(path: str) -> dict[str, str]:
    return {"label": "Copy the start command", "command": f"riparian worker {path}"}


def signed(shown: str) -> str:
    """A number as people write it: with a minus, and none before zero."""
    return shown.replace("-", "−" if shown.strip("-0.,") else "")


def listed(partitions: list[int]) -> str:
    """`partition 2`, `partitions 1 and 3`."""
    if len(partitions) == 1:
        return f"partition {partitions[0]}"
    if len(partitions) > 4:
        return f"{len(partitions)} partitions"
    several = sorted(partitions)
    return f"partitions {', '.join(map(str, several[:-1]))} and {several[-1]}"


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
    spec, quality_now = view.spec, _quality(view)
    if not view.models and not view.partitions:
        nothing = f"Nothing is in {spec.topics.metrics} yet. A worker writes the first figures "
        why = [text(f"{nothing}{spec.metrics.every:g} s after it starts.")]
        return Verdict("empty", NEWS, "Empty", [text("No worker has run yet.")], why, cure=start(path))
    alone = [p for p in range(spec.partitions) if not view.works(p, now)]
    if alone:
        known = [view.partitions[p].last.time for p in alone if p in view.partitions]
        lag = sum(view.lag(p, now) or 0 for p in alone)
        why = [text(f"{lag:,} records wait."), *_then(quality_now)] if lag else quality_now
        said = [text(f"Nobody works on {listed(alone)}.")]
        return Verdict("nobody", BAD, "Worker gone", said, why, max(known, default=None), start(path))
    added = unread(view)
    if added:
        where = [f"{listed(partitions)} of {topic}" for topic, partitions in added.items()]
        verb = "is" if sum(map(len, added.values())) == 1 else "are"
        said = [text(f"{_capital(' and '.join(where))} {verb} not read.")]
        return Verdict(
            "unread",
            BAD,
            "Not read",
            said,
            [text(UNREAD), *_then(quality_now)],
            cure=see("See the partitions", "partitions"),
        )
    paused = _paused(view, path)
    if paused is not None:
        return paused._replace(why=[*paused.why, *_then(quality_now)])
    behind = [p for p, seen in view.partitions.items() if is_behind(seen)]
    drift = _drift_now(view, now)
    broke = broken(view)
    if drift is not None:
        named = [] if broke is None else [text(broke[0])]
        why = [*named, *(_then(drift.why) if named else drift.why)]
        return drift._replace(why=[*why, *_then(_behind(view, behind)), *_then(_better(view) or [])])
    if broke is not None:
        cure = see("See what changed", "drift")
        why = [*quality_now, *_then(_behind(view, behind)), *_then(_better(view) or [])]
        return Verdict("segment", BAD, "One value broke", [text(broke[0])], why, broke[1], cure)
    if behind:
        cure = see("See the partitions", "partitions")
        pieces = _behind(view, behind)
        return Verdict("behind", WORSE, "Behind", pieces[:1], [*pieces[1:], *_then(quality_now)], cure=cure)
    late = _labels(view, now)
    if late is not None:
        return late
    early = next((seen.last.early for seen in view.partitions.values() if seen.last.early), None)
    if early is not None:
        return Verdict("early", NEWS, "Early labels", [text(f"{_capital(early)}.")], quality_now)
    better = _better(view)
    if better is not None:
        asked = proposed(view)
        since_ = max(asked.values(), default=None)
        state = "Promotion proposed" if asked else "Better challenger"
        cure = see("Compare and decide", "models")
        return Verdict("better", NEWS, state, better[:1], [*better[1:], *_then(quality_now)], since_, cure)
    value, weight = view.weighed(CHAMPION)
    if value is not None and view.objective.of is not None and weight < ENOUGH:
        return _young(view, weight)
    rests = max((seen.moved_at for seen in view.partitions.values()), default=0)
    if now - rests > QUIET_MS:
        return Verdict("quiet", GOOD, "Quiet", [text("Nothing new comes.")], quality_now, rests)
    if value is not None and view.objective.key == "auroc" and value <= CHANCE:
        said = [text(f"Scores rank no better than by chance: AUROC {number(value)}.")]
        return Verdict(
            "poor",
            WORSE,
            "No use yet",
            said,
            [text(f"By chance it is {CHANCE}.")],
            cure=see("Look at the models", "models"),
        )
    if value is None:
        return Verdict("good", GOOD, "Healthy", [text("All is well, and not judged yet.")], quality_now)
    n = len(view.partitions)
    keeps = "Labels come, its partition keeps up." if n == 1 else f"Labels come, {n} partitions keep up."
    return Verdict("good", GOOD, "Healthy", [text(f"All is well: {view.objective.phrase(value)}.")], [text(keeps)])


def _young(view: StreamView, weight: float) -> Verdict:
    """Where too few labels have come of what the stream is judged by."""
    objective, metrics, champions = view.objective, view.spec.metrics, view.of_role(CHAMPION)
    if metrics.fading is None and min(one.n for one in champions) >= metrics.window:  # more labels change nothing
        seen = metrics.window * len(champions)
        of = "are of alerts" if objective.key == "precision" else f"are {objective.of}"
        said = [text(f"Of the last {seen:,} labels {weight:,.0f} {of}: too few to judge.")]
        why = [text(f"Set metrics.window to {long_enough(weight / seen):,} to judge by some hundred.")]
        return Verdict("short", NEWS, "Short window", said, why)
    of = "alerts with a label" if objective.key == "precision" else f"labels of {objective.of}"
    said = [text(f"{weight:,.0f} {of} so far: too few to judge.")]
    return Verdict("young", NEWS, "Young", said, [text(f"{objective.title} says something from {ENOUGH:g} on.")])


def unread(view: StreamView) -> dict[str, list[int]]:
    """Input topic -> partitions that were added to it and that no worker reads, as the newest record says."""
    newest = max(view.partitions.values(), key=lambda seen: seen.last.time, default=None)
    told = {} if newest is None else newest.last.unread
    return {topic: told[topic] for topic in view.spec.input_topics.values() if told.get(topic)}


def gone(away: int) -> Verdict:
    """Kafka does not answer."""
    said = [text("Kafka does not answer: these figures are old.")]
    why = [text("They are of "), since(away), text(". The page asks again every few seconds.")]
    return Verdict("away", STALE, "Stale", said, why, away)


def _paused(view: StreamView, path: str) -> Verdict | None:
    """Where predictions are withheld by a command."""
    found = {k: event for k, event in view.paused.items() if event.action == PAUSE}
    if not found or not view.spec.control:
        return None
    first = min(found.values(), key=lambda event: event.time)
    by = f" by {first.by}" if first.by else ""
    where = f" in {listed(sorted(found))}" if len(view.spec.commanded) > 1 else ""
    said = [text(f"Predictions are paused{where}{by}.")]
    why = [text("They come without a value, and everything is learned.")]
    cure = {"label": "Resume predictions", "command": f"riparian resume {path}", "give": "resume"}
    return Verdict("paused", WORSE, "Paused", said, why, first.time, cure)


def _then(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [piece for each in said for piece in (text(" "), each)]


def _quality(view: StreamView) -> list[dict[str, Any]]:
    """How good the champion is, in a sentence."""
    value, objective = view.recent(CHAMPION), view.objective
    return [text("The champion has not been judged yet." if value is None else f"{_capital(objective.phrase(value))}.")]


def _value(view: StreamView, event: Event, value: float | None, digits: int = 0) -> str:
    if value is None:
        return "–"
    return percent(value, digits) if event.signal == "error" and view.spec.task not in VALUES else number(value)


def last_drift(view: StreamView) -> Event | None:
    """The newest drift of the champion's errors, or of a feature or predictions where it has none."""
    found = [event for event in view.events if event.model in (CHAMPION, None) and event.kind in DRIFTS]
    errors = [event for event in found if _of_errors(event)]
    return next(iter([*errors[-1:], *found[-1:]]), None)


def _drift_now(view: StreamView, now: int) -> Verdict | None:
    """The newest drift of the champion or a feature: while it is among the last labels, for a minute at least, and of
    the champion's errors for a day while it is surely worse than before."""
    alarmed = [p for p, seen in view.partitions.items() if CHAMPION in seen.last.alarms or "" in seen.last.alarms]
    found = [
        event
        for event in view.events
        if (event.partition in alarmed or now - event.time < NEW_MS)
        and event.model in (CHAMPION, None)
        and event.kind in DRIFTS
    ]
    event = next((one for one in reversed(found) if _of_errors(one)), found[-1] if found else None)
    if event is None:
        event = next((one for one in reversed(view.events) if one.kind in DRIFTS and _of_errors(one)), None)
        if event is None or now - event.time > DAY_MS or not _surely_worse(view, event.time, now):
            return None
    where = "" if is_of_all(view, event) else f" in partition {event.partition}"
    values = ""
    if event.before is not None and event.after is not None:
        digits = 0 if round(event.before, 2) != round(event.after, 2) else 1
        values = f" from {_value(view, event, event.before, digits)} to {_value(view, event, event.after, digits)}"
    if event.shift is not None:
        what = _shifted(event)
    elif event.model is None:
        what = f"The mean of {event.signal} went{values}"
    else:
        what = f"Errors of the {event.model} rose{values}"
    done = {
        "reset": " The model has begun anew.",
        "replace-started": " A fresh model is on trial beside it.",
    }.get(event.action or "", "")
    detail = f"{what}{where} ({event.detector}).{done}"
    cure = see("See what changed", "drift")
    fall = fallen(view, event.time, now)
    if fall is None:
        return Verdict(
            "drift",
            BAD if event.model else WORSE,
            "Drift",
            [text(f"{what}{where}.")],
            [text(f"Found by {event.detector}.{done}")],
            event.time,
            cure,
        )
    objective = view.objective
    before, worst, value = (
        objective.text(fall[name], 0 if objective.share else 1) for name in ("before", "worst", "value")
    )
    verb = "fell" if objective.greater else "rose"
    if fall["recovers"]:
        said = f"{objective.title} {verb} from {before} to {worst}, and is {value} now."
        return Verdict("drift", WORSE, "Drift, recovering", [text(said)], [text(detail)], event.time, cure)
    return Verdict(
        "drift",
        BAD,
        "Drift",
        [text(f"{objective.title} {verb} from {before} to {value}.")],
        [text(detail)],
        event.time,
        cure,
    )


def _of_errors(event: Event) -> bool:
    """Whether an event is of the champion's errors."""
    return event.model == CHAMPION and event.signal == "error"


def _surely_worse(view: StreamView, since_: int, now: int) -> bool:
    """Whether the champion's objective is worse than before a moment, by the interval that it has."""
    objective, fall, (value, weight) = view.objective, fallen(view, since_, now), view.weighed(CHAMPION)
    interval = None if fall is None or value is None else objective.interval(value, weight)
    if fall is None or interval is None:
        return False
    before = float(fall["before"])
    return interval[1] < before if objective.greater else interval[0] > before


def fallen(view: StreamView, since: int, now: int, partition: int | None = None) -> dict[str, Any] | None:
    """How the champion's objective went since a moment (ms): what it was `before`, the `worst` since and when (`at`),
    the `value` it has, and whether it `recovers`. None where it was not known before, or is no worse."""
    objective, value = view.objective, view.recent(CHAMPION, partition)
    series = view.over(f"{objective.key}:{CHAMPION}", since - 10 * NEW_MS, now, 200, partition)
    if series is None or value is None:
        return None
    times = series.start + series.width * np.arange(len(series.mean))
    known = ~np.isnan(series.mean)
    earlier, later = series.mean[known & (times + series.width <= since)], known & (times + series.width > since)
    if not len(earlier) or not later.any():
        return None
    sign = 1.0 if objective.greater else -1.0
    before, after = float(earlier[-1]), sign * series.mean[later]
    worst = min(sign * value, float(after.min()))
    fall = sign * before - worst
    if fall <= 0.005 * max(abs(before), 1e-9):
        return None
    return {
        "since": since,
        "before": before,
        "worst": sign * worst,
        "at": int(times[later][int(after.argmin())]),
        "value": value,
        "recovers": sign * value - worst > RECOVERED * fall,
    }


def is_of_all(view: StreamView, event: Event) -> bool:
    """Whether an event is of all partitions: of the only one, or of a model that all learn."""
    return view.spec.partitions == 1 or (view.spec.one_answers and event.model is not None)


def _shifted(event: Event) -> str:
    """How the values of a feature, or the predictions, are distributed otherwise than before."""
    shift = event.shift
    assert shift is not None
    whose = f"predictions of the {event.model}" if event.model is not None else f"values of {event.signal}"
    what = {"missing": "missing", "unseen": "not seen before", "range": "beyond the range of before"}.get(shift.kind)
    if what is None:
        at = shift.at
        what = f"up to {number(float(at))}" if shift.edges and isinstance(at, int | float) else str(at)
    return f"The {whose} have changed: {percent(event.after, 0)} {what}, {percent(event.before, 0)} before"


def _behind(view: StreamView, behind: list[int]) -> list[dict[str, Any]]:
    if not behind:
        return []
    lag, newest = sum(lag_of(view.partitions[p]) for p in behind), max(view.partitions[p].last.time for p in behind)
    said = text(f"{_capital(listed(behind))} {'is' if len(behind) == 1 else 'are'} behind by {lag:,} records.")
    before = [view.over("lag", newest - TREND_MS, newest, 30, p) for p in behind]
    rows = [
        (each.start + each.width * i, float(v)) for each in before if each for i, v in enumerate(each.mean) if v == v
    ]
    if not rows:
        return [said]
    first = min(time for time, _ in rows)
    was = sum(next((float(v) for v in each.mean if v == v), 0.0) for each in before if each)
    faster = (was - lag) / max(1.0, (newest - first) / 1000.0)
    pronoun = "It" if len(behind) == 1 else "They"
    if faster > 0.0:
        verb = "catches" if len(behind) == 1 else "catch"
        return [said, text(f"{pronoun} {verb} up in about {_span(lag / faster)}.")]
    if was < lag and newest - first > 1:
        return [said, text(f"{pronoun} {'falls' if len(behind) == 1 else 'fall'} further behind.")]
    return [said]


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
    vain, came = view.labels_in_vain()
    if vain >= FEW and vain >= IN_VAIN * came:
        said = [text(f"{percent(vain / came, 0)} of the labels found no instance: {vain:,} of the last {came:,}.")]
        horizon = format_duration(view.spec.join.horizon)
        why = [text(f"Their instances had waited for join.horizon, {horizon}, and left unlearned, or have other ids.")]
        return Verdict("in vain", WORSE, "Labels too late", said, [*why, *_then(_quality(view))])
    at = max((seen.learned_at or seen.last.started for seen in view.partitions.values()), default=now)
    moved = max((seen.moved_at for seen in view.partitions.values()), default=0)
    usual = 1000.0 * max((seen.last.delay_p50 or 0.0 for seen in view.partitions.values()), default=0.0)
    if waiting and moved - at > max(LATE_MS, 5 * usual):
        why = [text(f"{waiting:,} instances wait. Figures are of then; a drift would not be seen.")]
        expected, _ = view.expected()
        if expected is not None:
            why.append(text(f" Without labels, {percent(expected)} of the predictions are expected to be right."))
        return Verdict("late", WORSE, "Labels stopped", [text("Labels come no more.")], why, at)
    return None


def _unlearned(view: StreamView, instances: int, learned: int) -> Verdict:
    """Where no label has met its instance, or next to none lately."""
    labels = sum(seen.last.labels for seen in view.partitions.values())
    decision, rate = view.spec.decision, view.recent(CHAMPION, None, ALERT_RATE)
    if not labels and view.spec.task == ANOMALY and decision is not None and rate is not None:  # they may never come
        asked, unknown = decision.alert_rate or 1.0, [text("How good these are is not known: no label has come.")]
        if rate > MANY * asked:
            more = text(
                f"More alerts than usual: {percent(rate)} of the predictions, where {percent(asked)} are asked."
            )
            return Verdict("alerts", WORSE, "Many alerts", [more], unknown, cure=see("See what changed", "drift"))
        fine = text(f"All is well: {percent(rate)} of the predictions are alerts.")
        return Verdict("good", GOOD, "Healthy", [fine], unknown)
    if not labels:
        said = [text(f"{instances:,} predictions are out, and labels are awaited.")]
        return Verdict("no labels", NEWS, "Young", said, [text("Nothing can be judged until the first come.")])
    met = f"{learned or 'none'} of the {labels:,} labels that came {'were' if learned > 1 else 'was'} theirs"
    said = [text(f"{instances:,} predictions are out, and {met}.")]
    told = next((seen.last.unmet for seen in view.partitions.values() if seen.last.unmet), None)
    if told is not None:
        return Verdict("unjoined", WORSE, "Labels do not meet", said, [text(f"{_capital(told)}.")])
    expired = sum((one.counters or {}).get("expired", 0) for one in view.of_role(CHAMPION))
    if not expired:
        return Verdict("unjoined", NEWS, "Young", said, [text("Nothing can be judged yet.")])
    horizon = format_duration(view.spec.join.horizon)
    why = f"{expired:,} instances waited for {horizon} in vain: labels come later than join.horizon, or have other ids."
    return Verdict("unjoined", WORSE, "Labels do not meet", said, [text(why)])


def _better(view: StreamView) -> list[dict[str, Any]] | None:
    """A challenger that is better than the champion for sure, in no partition worse."""
    rows = view.compared()
    doubtful = {row.challenger for row in rows if row.verdict == comparisons.WORSE}
    found = [row for row in rows if row.verdict == comparisons.BETTER and row.challenger not in doubtful]
    if not found:
        return None
    row = max(found, key=lambda row: (row.partition is None, row.difference))
    alone = row.partition is not None and len(view.spec.commanded) > 1
    where = f" in partition {row.partition}" if alone else ""
    said, surely = against(view, row)
    verb = "has" if view.spec.task == REGRESSION or view.spec.has_costs else "makes"
    return [
        text(f"{row.challenger} {verb} {said} than the champion{where}."),
        text(f"{_capital(surely)}, over {row.labels:,} labels."),
    ]


def against(view: StreamView, row: comparisons.ChallengerComparison) -> tuple[str, str]:
    """How much less a challenger errs than the champion, or more, and the interval of that."""
    of_values, costs = view.spec.task == REGRESSION, view.spec.has_costs
    sign = -1.0 if row.difference < 0.0 else 1.0
    values = [
        signed(number(sign * v) if of_values or costs else f"{100 * sign * v:.1f}")
        for v in (row.difference, row.low, row.high)
    ]
    first, last = values[1:] if sign > 0.0 else values[:0:-1]
    less, more = (
        ("lower mean absolute error", "higher mean absolute error")
        if of_values
        else ("lower mean cost", "higher mean cost")
        if costs
        else ("fewer errors in 100", "more errors in 100")
    )
    return f"{values[0]} {less if sign > 0.0 else more}", f"surely {first} to {last}"


def proposed(view: StreamView) -> dict[tuple[str, int], int]:
    """(role, partition) -> ms when the rule has proposed it, where nobody has decided since."""
    found: dict[tuple[str, int], int] = {}
    for event in view.events:  # in order: a promotion ends what was proposed in its partition
        if event.kind == PROPOSED and event.model is not None:
            found[event.model, event.partition] = event.time
        elif event.kind == APPLIED and event.action in (PROMOTE, DEMOTE):
            found = {key: time for key, time in found.items() if key[1] != event.partition}
    return found
