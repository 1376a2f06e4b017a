"""One stream as the page knows it: the last record of each model and partition, events, dead letters, and their series
over time. Pure: records go in, and what the browser shows comes out (app/page/verdict.py, app/page/summary.py).
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar

import msgspec
import numpy as np

from riparian.app import comparisons
from riparian.app.evaluation.measures.objective import (
    Objective,
    candidates,
    most_frequent,
    objective_of,
    pooled,
    recent_of,
)
from riparian.app.page.history import SeriesSpan, TimeSeries, together
from riparian.app.retries import Ranges, letter_of
from riparian.app.stream_file.spec import Spec
from riparian.topics import reports
from riparian.topics.commands import APPLIED, DEMOTE, PAUSE, PROMOTE, PROPOSED, REFUSED, RESUME, EventRecord, read_event
from riparian.topics.names import CHAMPION, DEADLETTERS, DRIFT, FEATURES, LABELS, METRICS
from riparian.topics.names import EVENTS as COMMANDS
from riparian.topics.records import REASONS, DriftRecord, MetricsRecord, PartitionRecord, Shift, field_of, is_curable

LETTERS = 1000  # dead letters that are kept
SHOWN_BYTES = 200  # bytes shown of a dead letter, at most
MARKED = 10_000  # ranges of letters that were retried, of a partition
EVENTS = 2000  # events kept in memory, at most
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
COUNTED_HOURS = 8 * 24  # hours for which dead letters are counted
OTHERS = 20  # models that commands and rules have named, beside those of the stream file
AHEAD_MS = 600_000  # time by which a record may be ahead of this machine's clock, ms
MOST_FIELDS = 200  # reasons and fields by which dead letters are counted
OTHER = "another reason"  # reason of a dead letter that this version does not know
# Why a record is left out.
UNREADABLE, FOREIGN, AHEAD = "unreadable", "foreign", "ahead"
# How the series of partitions become one.
TOGETHER = {"in": "sum", "learned": "sum", "lag": "sum", "waiting": "sum", "p50": "mean", "p99": "max", "delay": "mean"}
# Series of models: what a stream may be judged by, and their size.
MODEL_SERIES = ("recall", "precision", "cost", "accuracy", "balanced_accuracy", "auroc", "mae", "nodes")
COMPARED = "compared:"  # series of labels compared, for since when a challenger has been: not drawn
BELIEVED = "believed"  # series of a pool's members: their weights


def role_of(name: str) -> str:
    """The model that a series is of; "" where it is of none."""
    return [*name.split(":"), ""][1]


def weights_of(record: MetricsRecord) -> dict[str, float]:
    """Name of a series -> the weight of a pool's member."""
    return {f"{BELIEVED}:{record.model}:{name}": weight for name, weight in (record.members or {}).items()}


def latency(seconds: float | None) -> float | None:
    """None where records were of long ago when they were predicted: a replay, or a backlog of days."""
    return seconds if seconds is not None and 1000.0 * seconds < DAY_MS else None


def now_ms() -> int:
    return int(time.time() * 1000)


_R = TypeVar("_R", bound=MetricsRecord | PartitionRecord | DriftRecord | EventRecord)


class Event(msgspec.Struct, omit_defaults=True):
    """Something that happened, for the timeline and the marks.

    Attributes
    ----------
    kind : "drift", "warning", "improvement", "replace-started", "replaced", "dropped", "reset",
        "assigned", or of a command "applied" or "refused" (action says which), or of a rule
        "applied" or "proposed".
    time : ms, when it was told of.
    partition : where.
    model, signal, detector, before, after, n, offset : as in `topics.records.DriftRecord`.
    action : what was done, likewise. shift : how a distribution changed, likewise.
    worker : who was given the partition.
    by, said : of a command, who asked, as they say, and the partition's sentence.
    """

    kind: str
    time: int
    partition: int
    model: str | None = None
    signal: str | None = None
    detector: str | None = None
    before: float | None = None
    after: float | None = None
    n: int = 0
    offset: int = 0
    action: str | None = None
    worker: str | None = None
    by: str | None = None
    said: str | None = None
    shift: Shift | None = None


class DeadLetterRow(msgspec.Struct):
    """A dead letter, as far as it is shown.

    Attributes
    ----------
    time : ms. topic, partition, offset : of the record that was rejected.
    reason, detail : why. size : bytes of its value.
    home, at : partition and offset of the letter itself, among the dead letters.
    whole : whether it holds a record that can be written once more.
    """

    time: int
    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    size: int
    home: int = -1
    at: int = -1
    whole: bool = True


@dataclass
class PartitionView:
    """What is known of one partition.

    Attributes
    ----------
    last : its newest record.
    rate_in, rate_learned : instances/s between the one before and this one.
    learned_at : ms, when a label was learned last.
    moved_at : ms, when anything was.
    """

    last: PartitionRecord
    rate_in: float | None = None
    rate_learned: float | None = None
    learned_at: int | None = None
    moved_at: int = 0


def _places(record: PartitionRecord) -> tuple[int, int]:
    """How far a partition has come."""
    return record.offset, record.label_offset


@dataclass
class StreamView:
    """Everything that is known of a stream.

    Attributes
    ----------
    spec : Spec
    series : name of a series and partition -> Series. Names: "KEY:ROLE" for each of MODEL_SERIES that the stream may be
        judged by, "compared:ROLE" (labels), "believed:ROLE:MEMBER" (weights in a pool), "alert-rate:champion",
        "estimated:champion" (accuracy before labels come), "estimate-error:champion" (of it), and those in TOGETHER.
    models : (role, partition) -> newest record.
    partitions : partition -> Seen.
    events : the oldest first.
    letters : the newest last.
    n_letters : (hour since 1970, reason, field) -> dead letters.
    retried : partition of the dead letters -> offsets of those that were retried. n_marks : records that said so.
    paused : partition -> the last event that paused its predictions, or went on with them.
    newest : ms of the newest record of the metrics topic; 0 where there is none.
    left_out : topic's role and why -> records that were not taken: they are none of ours (UNREADABLE); of another
        stream, a partition that this one has not, or a model that neither the stream file names nor a command can have
        brought (FOREIGN); stamped more than AHEAD_MS from now (AHEAD).
    others : models that the stream file does not name, the one told of longest ago first; at most OTHERS.
    forgotten : series that are kept no more, as `dirty` names them.
    ends : role of an input topic and partition -> its first offset and its end, as Kafka has said last.
    looks : name of a model -> number of its colour.
    file_said : why the stream file as it is now cannot be followed; None where it is.
    """

    spec: Spec
    clock: Callable[[], int] = now_ms
    series: dict[tuple[str, int], TimeSeries] = field(default_factory=dict)
    models: dict[tuple[str, int], MetricsRecord] = field(default_factory=dict)
    partitions: dict[int, PartitionView] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    letters: deque[DeadLetterRow] = field(default_factory=lambda: deque(maxlen=LETTERS))
    n_letters: Counter[tuple[int, str, str]] = field(default_factory=Counter)
    retried: dict[int, Ranges] = field(default_factory=dict)
    paused: dict[int, Event] = field(default_factory=dict)
    n_marks: int = 0
    newest: int = 0
    n_letters_since: int = 0  # hour
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    others: dict[str, None] = field(default_factory=dict)
    forgotten: set[str] = field(default_factory=set)
    ends: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)
    file_said: str | None = None
    _about: set[tuple[str, str]] = field(default_factory=set)
    _labels: dict[int, deque[tuple[int, int, int]]] = field(default_factory=dict)  # ms, joined, unmatched: an hour's
    earlier: dict[int, PartitionRecord] = field(default_factory=dict)  # the last that was read of the days before

    @property
    def objective(self) -> Objective:
        """What the stream is judged by."""
        return objective_of(self.spec, most_frequent([one.classes or {} for one in self.of_role(CHAMPION)]))

    @property
    def silent_ms(self) -> int:
        """A partition whose worker says nothing for so long has none."""
        return int(2500 * max(reports.STILL_SECONDS, self.spec.metrics.every))

    def _add(self, name: str, partition: int, time: int, value: float | None) -> None:
        if value is None:
            return
        series = self.series.get((name, partition))
        if series is None:
            series = self.series[name, partition] = TimeSeries()
        series.add(time, value)

    def renew(self, spec: Spec) -> None:
        """Go on with the stream file as it is now."""
        fixed = [(each.name, each.outputs, each.input_topics) for each in (self.spec, spec)]
        if fixed[0] != fixed[1]:
            self.file_said = "it names another stream or other topics"
            return
        try:
            self.spec, self.file_said = spec.with_partitions(self.spec.partitions), None
        except ValueError as error:
            self.file_said = str(error)
            return
        for role in self.others.keys() & spec.models().keys():
            del self.others[role]

    def grow(self, n: int) -> None:
        """The stream has as many partitions by now."""
        self.spec = self.spec.with_partitions(n)

    # -- records in --------------------------------------------------------------------------------------------

    def _read(self, role: str, read: Callable[[bytes | None], _R], value: bytes | None, time: int | None) -> _R | None:
        """A record of an output topic, which anybody may have written: bounded, of this stream and of now, or None and
        counted. time : ms, where it is not the record's own."""
        try:
            record = read(value)
        except ValueError:
            why = UNREADABLE
        else:
            if record.stream != self.spec.name or record.partition >= self.spec.partitions:
                why = FOREIGN
            elif (record.time if time is None else time) > self.clock() + AHEAD_MS:
                why = AHEAD
            else:
                return record
        self.left_out[role, why] += 1
        return None

    def take_report(self, value: bytes | None) -> None:
        """A record of the metrics topic."""
        record = self._read(METRICS, reports.read_report, value, None)
        if isinstance(record, PartitionRecord):
            self._take_partition(record)
        elif record is not None and not self._knows(record.model):
            self.left_out[METRICS, FOREIGN] += 1
            return
        elif record is not None:
            self._take_model(record)
        self.newest = max(self.newest, 0 if record is None else record.time)

    def _knows(self, role: str) -> bool:
        """Whether the stream can have a model of this name. Where commands or a rule steer it, any: the last OTHERS."""
        if role in self.spec.models():
            return True
        if not self.spec.control and self.spec.promotion is None:
            return False
        self.others.pop(role, None)
        self.others[role] = None
        if len(self.others) > OTHERS:
            self._forget(next(iter(self.others)))
        return True

    def _forget(self, role: str) -> None:
        del self.others[role]
        self._drop([key for key in self.series if role_of(key[0]) == role])
        for key in [key for key in self.models if key[0] == role]:
            del self.models[key]

    def _drop(self, keys: Iterable[tuple[str, int]]) -> None:
        for name, partition in keys:
            del self.series[name, partition]
            self.forgotten.add(f"{partition}/{name}")

    def _take_model(self, record: MetricsRecord) -> None:
        key = record.model, record.partition
        recent = recent_of(record)
        for name, objective in candidates(self.spec).items():
            value = objective.value(recent, record.classes) if record.n else None
            self._add(f"{name}:{record.model}", record.partition, record.time, value)
        if record.model == CHAMPION:
            self._add(f"alert-rate:{CHAMPION}", record.partition, record.time, recent.get("alert_rate"))
        self._add(f"nodes:{record.model}", record.partition, record.time, (record.size or {}).get("n_nodes"))
        if record.comparison is not None and comparisons.is_compared(record):
            self._add(COMPARED + record.model, record.partition, record.time, record.comparison["total_labels"])
        if record.model == CHAMPION and record.estimated is not None:
            self._add(f"estimated:{CHAMPION}", record.partition, record.time, record.estimated.get("accuracy"))
            self._add(f"estimate-error:{CHAMPION}", record.partition, record.time, record.estimated.get("error"))
        known, weights = self.models.get(key), weights_of(record)
        if known is None or record.time >= known.time:
            self.models[key] = record
            if known is None or weights_of(known).keys() != weights.keys():  # of members that are gone nothing is kept
                of = f"{BELIEVED}:{record.model}:"
                pool = [k for k in self.series if k[0].startswith(of) and k[1] == record.partition]
                self._drop(k for k in pool if k[0] not in weights)
        has = weights_of(self.models[key])
        for name, weight in weights.items():
            self._add(name, record.partition, record.time, weight if name in has else None)
        if record.model == CHAMPION and record.counters is not None:
            self._count_labels(record.partition, record.time, record.counters)
        if record.model == CHAMPION and known is not None and record.time > known.time:
            # All models of a partition are told of at once: one that was not with the champion before is gone.
            gone = [k for k, one in self.models.items() if k[1] == record.partition and one.time < known.time]
            for each in gone:
                del self.models[each]

    def _count_labels(self, partition: int, time_: int, counters: Mapping[str, int]) -> None:
        counts = self._labels.setdefault(partition, deque())
        if not counts or time_ > counts[-1][0]:  # the last hour is read first, in order
            counts.append((time_, counters.get("joined", 0), counters.get("unmatched", 0)))
            while time_ - counts[0][0] > HOUR_MS:
                counts.popleft()

    def labels_in_vain(self) -> tuple[int, int]:
        """Of the last hour: labels that found no instance, and all that were joined or found none."""
        ends = [(counts[0], counts[-1]) for counts in self._labels.values()]
        joined, unmatched = (sum(last[i] - first[i] for first, last in ends) for i in (1, 2))
        return unmatched, joined + unmatched

    def _take_partition(self, record: PartitionRecord) -> None:
        partition, seen = record.partition, self.partitions.get(record.partition)
        if seen is not None and record.time <= seen.last.time:  # of the days before, which are read later
            before, self.earlier[partition] = self.earlier.get(partition), record
            if before is None or before.started != record.started or before.time >= record.time:
                self._note(Event("assigned", record.started, partition, worker=record.worker))
                before = None
            rates = rates_between(before, record)
            if _places(record) == _places(seen.last):  # what is as it was then did not move since
                seen.moved_at = min(seen.moved_at, record.time)
            if (record.started, record.learned) == (
                seen.last.started,
                seen.last.learned,
            ) and seen.learned_at is not None:
                seen.learned_at = min(seen.learned_at, record.time)
        elif seen is None or record.started != seen.last.started:
            first = self.partitions[partition] = PartitionView(record, moved_at=record.time)
            if seen is None or record.started > seen.last.started:
                self._note(Event("assigned", record.started, partition, worker=record.worker))
            begun = record.time if record.learned else None  # as far as is known, until earlier records are read
            first.learned_at = begun if seen is None else seen.learned_at
            if seen is not None and _places(seen.last) == _places(record):  # another worker, and nothing new
                first.moved_at = seen.moved_at
            rates = None, None
        else:
            before, seen.last = seen.last, record
            rates = seen.rate_in, seen.rate_learned = rates_between(before, record)
            if record.learned > before.learned:
                seen.learned_at = record.time
            if _places(record) != _places(before):
                seen.moved_at = record.time
        figures = {
            "in": rates[0],
            "learned": rates[1],
            "lag": sum(record.lag.values()),
            "waiting": record.waiting,
            "p50": latency(record.latency_p50),
            "p99": latency(record.latency_p99),
            "delay": record.delay_p50,
        }
        for name, value in figures.items():
            self._add(name, partition, record.time, value)

    def take_ends(self, ends: Mapping[tuple[str, int], tuple[int, int]], now: int) -> None:
        """Where the input topics begin and end. Where nobody works on a partition, that is its lag."""
        self.ends = dict(ends)
        for partition in self.partitions:
            if not self.works(partition, now):
                self._add("lag", partition, now, self.lag(partition, now))

    def works(self, partition: int, now: int) -> bool:
        """Whether a worker has told of a partition lately."""
        seen = self.partitions.get(partition)
        return seen is not None and now - seen.last.time <= self.silent_ms

    def lag(self, partition: int, now: int) -> int | None:
        """Records of a partition that were not taken yet: as its worker says, or without one, as the topics say."""
        seen = self.partitions.get(partition)
        known = None if seen is None else sum(seen.last.lag.values())
        if self.works(partition, now):
            return known
        taken = {FEATURES: 0, LABELS: 0}
        if seen is not None:
            taken = {FEATURES: seen.last.offset, LABELS: seen.last.label_offset}
        ends = {role: self.ends[role, partition] for role in taken if (role, partition) in self.ends}
        if not ends:
            return known
        return sum(max(0, end - max(first, taken[role])) for role, (first, end) in ends.items())

    def _note(self, event: Event) -> None:
        if event.kind == APPLIED and event.action in (PAUSE, RESUME):
            known = self.paused.get(event.partition)
            if known is None or event.time >= known.time:
                self.paused[event.partition] = event
        at = len(self.events)
        while at and self.events[at - 1].time > event.time:
            at -= 1
        if event not in self.events[max(0, at - 100) : at + 1]:
            self.events.insert(at, event)
            del self.events[:-EVENTS]

    def take_drift(self, value: bytes | None, time: int) -> Event | None:
        """A record of the drift topic. time : ms, when it was sent: its own time is that of the features."""
        record = self._read(DRIFT, reports.read_drift, value, time)
        if record is None:
            return None
        event = of_drift(record, time)
        self._note(event)
        return event

    def take_command(self, value: bytes | None, time: int) -> Event | None:
        """A record of the events topic: what became of a command. time : ms, when it was sent."""
        record = self._read(COMMANDS, read_event, value, time)
        if record is None:
            return None
        event = Event(
            record.event if record.event in (APPLIED, REFUSED, PROPOSED) else APPLIED,
            time,
            record.partition,
            model=record.model,
            offset=record.offset,
            action=record.command,
            by=record.by[:SHOWN_BYTES],
            said=record.sentence[:SHOWN_BYTES],
        )
        self._note(event)
        return event

    def take_letter(self, record: Any) -> DeadLetterRow | None:
        """A record of the dead letters that is no mark. Its headers should be a worker's, its value is anybody's."""
        found = letter_of(record)
        if found is None or found.timestamp > self.clock() + AHEAD_MS:
            self.left_out[DEADLETTERS, UNREADABLE if found is None else AHEAD] += 1
            return None
        letter = DeadLetterRow(
            found.timestamp, found.topic, found.source_partition, found.source_offset,
            found.reason if found.reason in REASONS else OTHER, found.detail[:SHOWN_BYTES],
            len(found.value or b""), found.partition, found.offset, found.hindrance is None,
        )  # fmt: skip
        self.keep_letter(letter)
        return letter

    def take_marks(self, home: int, ranges: Iterable[Sequence[int]]) -> None:
        """Offsets of dead letters that were retried, with exclusive ends."""
        self.n_marks += 1
        marked = self.retried.setdefault(home, Ranges())
        for start, stop in ranges:
            marked.add(start, stop)
        marked.keep(MARKED)

    def is_retried(self, letter: DeadLetterRow) -> bool:
        return letter.home in self.retried and letter.at in self.retried[letter.home]

    def may_retry(self, letter: DeadLetterRow) -> bool:
        """Whether a letter can be retried, as far as its row tells, and was not yet."""
        return letter.whole and letter.at >= 0 and is_curable(letter.reason) and not self.is_retried(letter)

    def keep_letter(self, letter: DeadLetterRow) -> None:
        at = len(self.letters)
        while at and self.letters[at - 1].time > letter.time:
            at -= 1
        if at or len(self.letters) < LETTERS:
            if len(self.letters) == LETTERS:
                self.letters.popleft()
                at -= 1
            self.letters.insert(at, letter)
        hour = letter.time // HOUR_MS
        if hour > self.n_letters_since + COUNTED_HOURS:
            self.n_letters_since = hour - COUNTED_HOURS
            for key in [key for key in self.n_letters if key[0] < self.n_letters_since]:
                del self.n_letters[key]
            self._about = {(reason, field) for _, reason, field in self.n_letters}
        if hour >= self.n_letters_since:
            about = letter.reason, field_of(letter.reason, letter.detail)
            if about not in self._about and len(self._about) >= MOST_FIELDS:
                about = letter.reason, ""
            self._about.add(about)
            self.n_letters[hour, *about] += 1

    # -- series out --------------------------------------------------------------------------------------------

    def history(
        self, start: int, stop: int, n: int, partition: int | None = None, pool: str | None = None
    ) -> dict[str, SeriesSpan]:
        """Name -> the series between two times (ms), of one partition or of all together. pool : role of the one whose
        members' weights are among them."""
        objective, hidden = self.objective.key, {*MODEL_SERIES, COMPARED[:-1]} - {"nodes"}
        found = {}
        for name in dict.fromkeys(name for name, _ in self.series):
            kind, colon, role = name.partition(":")
            if (kind in hidden and kind != objective) or (kind == BELIEVED and role_of(name) != pool):
                continue
            series = self.over(name, start, stop, n, partition)
            if series is not None:
                found[f"objective{colon}{role}" if kind == objective else name] = series
        return found | self._by_model(found, partition)

    def _by_model(self, found: Mapping[str, SeriesSpan], partition: int | None) -> dict[str, SeriesSpan]:
        """The objective of each model that is or was champion, under its name, whatever its role was."""
        reigning = found.get(f"objective:{CHAMPION}")
        if reigning is None:
            return {}
        since, names = zip(*self.reigns(partition), strict=True)
        times = reigning.start + reigning.width * (np.arange(len(reigning.mean)) + 0.5)
        at = np.maximum(0, np.searchsorted(since, times, side="right") - 1)
        made = {}
        for name in dict.fromkeys(names):
            own = found.get(f"objective:{name}")
            reigned = np.isin(at, [i for i, each in enumerate(names) if each == name])
            fields = [
                np.where(reigned, getattr(reigning, field), np.nan if own is None else getattr(own, field))
                for field in ("low", "high", "mean")
            ]
            made[f"objective:{name}"] = SeriesSpan(reigning.start, reigning.width, *fields)
        return made

    def over(self, name: str, start: int, stop: int, n: int, partition: int | None = None) -> SeriesSpan | None:
        """One series of `history`; None where there is none."""
        if name.partition(":")[0] in (*MODEL_SERIES, BELIEVED):
            partition = self.of_models(partition)
        partitions = range(self.spec.partitions) if partition is None else (partition,)
        several = [self.series[name, k] for k in partitions if (name, k) in self.series]
        # Each tells its value at moments of its own: what one has told stands until it tells another, or has no worker.
        carry = self.silent_ms if len(several) > 1 else 0
        ranges = [series.between(start, stop, n, carry) for series in several]
        return together(ranges, TOGETHER.get(name, "mean")) if ranges else None

    def dirty(self) -> Iterator[tuple[str, str, int, int, bytes]]:
        """What of the series is to be stored: stream, name and partition, tier, block, values."""
        for (name, partition), series in self.series.items():
            for tier, block, data in series.blocks():
                yield self.spec.name, f"{partition}/{name}", tier, block, data

    def last_records(self) -> dict[int, list[bytes]]:
        """Partition -> its newest records of the metrics topic, to be taken again before `restore`."""
        found: dict[int, list[bytes]] = {}
        records: list[MetricsRecord | PartitionRecord] = [*self.models.values()]
        for record in [*records, *(seen.last for seen in self.partitions.values())]:
            found.setdefault(record.partition, []).append(reports.write(record))
        return found

    def restore(self, rows: Iterable[tuple[str, int, int, bytes]]) -> None:
        """Take back what was stored of the series, all at once: others may read them meanwhile, in another thread."""
        found: dict[tuple[str, int], TimeSeries] = {}
        for (key, tier), blocks in groupby(rows, lambda row: row[:2]):
            partition, _, name = key.partition("/")
            role = role_of(name)
            if int(partition) >= self.spec.partitions or (role and not self._knows(role)):
                continue
            series = found.setdefault((name, int(partition)), TimeSeries())
            series.restore(tier, [(block, data) for _, _, block, data in blocks])
        self.series = found

    # -- figures that several places need ----------------------------------------------------------------------

    def of_role(self, role: str, partition: int | None = None) -> list[MetricsRecord]:
        """The newest records of a model, of one partition or all."""
        partitions = range(self.spec.partitions) if partition is None else (partition,)
        return [self.models[role, k] for k in partitions if (role, k) in self.models]

    def of_models(self, partition: int | None) -> int | None:
        """Which partition tells what its models are: any, where all have the same and one of them tells it."""
        return None if self.spec.one_answers else partition

    def own(self, partition: int) -> float | None:
        """How good the champion is in a partition alone."""
        if self.of_models(partition) is not None:
            return self.recent(CHAMPION, partition)
        record = self.models.get((CHAMPION, partition))
        if record is None or record.estimated is None or self.objective.key != "accuracy":
            return None
        return record.estimated.get("observed")

    def recent(self, role: str, partition: int | None = None, of: Objective | None = None) -> float | None:
        """The objective of a model over its last labels: see `weighed`."""
        return self.weighed(role, partition, of)[0]

    def weighed(
        self, role: str, partition: int | None = None, of: Objective | None = None
    ) -> tuple[float | None, float]:
        """What a model is judged by over its last labels, and how many labels that is of: the mean over partitions, by
        these. Of a model that all partitions learn, over those of all. of : another figure."""
        records = self.of_role(role, self.of_models(partition))
        return pooled(of or self.objective, records, self.spec.metrics.window)

    def reigns(self, partition: int | None = None) -> list[tuple[int, str]]:
        """(ms, name) of who is champion from when on, the oldest first: a model keeps its name, whatever its role is.
        The name is that of its learner until it was a challenger. Of one partition, or the first."""
        partition = self.of_models(partition) or 0
        changes = [
            event
            for event in self.events
            if event.kind == APPLIED and event.action in (PROMOTE, DEMOTE) and event.partition == partition
        ]
        declared = self.spec.models()[CHAMPION][0]
        declared = CHAMPION if declared in self.spec.models() else declared
        found = [(0, declared)]
        for event in changes:
            before = found[-2][1] if len(found) > 1 else declared
            found.append((event.time, event.model if event.action == PROMOTE and event.model else before))
        return found

    def compared(self, partition: int | None = None) -> list[comparisons.ChallengerComparison]:
        """Challengers beside the champion, of one partition or of each and of all together."""
        partition = self.of_models(partition)
        known = {
            key: record
            for key, record in self.models.items()
            if key[0] != CHAMPION and comparisons.is_compared(record) and partition in (None, key[1])
        }

        def since(record: MetricsRecord, labels: float) -> int | None:
            series = self.series.get((COMPARED + record.model, record.partition))
            return None if series is None else series.since(labels)

        return comparisons.rows_of(known, since)

    def expected(self, partition: int | None = None) -> tuple[float | None, float | None]:
        """The accuracy that is expected of the champion before labels come, and the error of confidence that it has
        subtracted: the mean over partitions."""
        known = [record.estimated for record in self.of_role(CHAMPION, partition)]
        found = [
            [each[name] for each in known if each is not None and each.get(name) is not None]
            for name in ("accuracy", "error")
        ]
        accuracy, error = (sum(values) / len(values) if values else None for values in found)
        return accuracy, error

    def letters_since(self, since: int) -> dict[tuple[str, str], int]:
        """(reason, field) -> dead letters of the hours that end after `since` (ms), the most frequent first."""
        found: Counter[tuple[str, str]] = Counter()
        for (hour, *about), n in self.n_letters.items():
            if (hour + 1) * HOUR_MS > since:
                found[about[0], about[1]] += n
        return dict(found.most_common())

    def alike(self) -> list[tuple[DeadLetterRow, int, int]]:
        """Of the last dead letters the newest of each topic, reason and detail that may still be retried, or else the
        newest; how many there are, and how many of these were retried. Those with the newest letter come first."""
        found = dict[tuple[str, str, str], tuple[DeadLetterRow, int, int]]()
        for letter in reversed(self.letters):
            alike = letter.topic, letter.reason, letter.detail
            shown, n, n_retried = found.get(alike, (letter, 0, 0))
            if self.may_retry(letter) and not self.may_retry(shown):
                shown = letter
            found[alike] = shown, n + 1, n_retried + self.is_retried(letter)
        return list(found.values())


def rates_between(before: PartitionRecord | None, record: PartitionRecord) -> tuple[float | None, float | None]:
    """Instances/s that were predicted and learned between two records of one worker, the later one second."""
    if before is None:
        return None, None
    seconds = (record.time - before.time) / 1000.0
    return (
        max(0, record.instances - before.instances) / seconds,
        max(0, record.learned - before.learned) / seconds,
    )


def of_drift(record: DriftRecord, time: int) -> Event:
    """The event of a drift record."""
    started = record.action == "replace-started"
    ended = record.level is None
    kind = (record.action or "drift") if ended or record.action == "reset" else record.level or "drift"
    return Event(
        "replace-started" if started else kind,
        time,
        record.partition,
        model=record.model,
        signal=record.signal,
        detector=record.detector,
        before=record.before,
        after=record.after,
        n=record.n,
        offset=record.offset,
        action=record.action,
        shift=record.shift,
    )
