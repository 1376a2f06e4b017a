"""What a stream is, guessed from records of its topics: where the id, the time, the label and each feature stand."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec

from riparian.app.dataset.column import Column, iso_time, number_of
from riparian.app.dataset.guessing.from_file import (
    FEW,
    IDS,
    SILENT,
    TIMES,
    check_left,
    forecast_of,
    is_called_label,
    is_key,
    is_time,
    judge,
    rarest,
    silent_class,
    task_of,
    words,
)
from riparian.app.errors import DataError
from riparian.app.stream_file.draft import Draft, DraftFeature, most_values, quoted
from riparian.app.stream_file.sections.record import KEY, OFFSET
from riparian.topics.decoding.envelopes import AROUND, DEBEZIUM
from riparian.topics.decoding.paths import dotted
from riparian.topics.records import ANOMALY, BOOLEAN, CLASSIFICATION, NOMINAL, NUMERIC, REGRESSION, Headers, Path
from riparian.topics.vocabulary import canonical

AHEAD = "1h"  # of a forecast
BY_CHANCE = 20  # a field that is not called an id is none where fewer than one of so many labels meet a record
NOT_SAID = "no", "yes"  # what a record is for which none says that it is what the labels are
SOON = (60.0, 300.0, 600.0, 1800.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 2 * 86_400.0, 7 * 86_400.0)  # seconds
NO_JSON = (
    "no record of it is one, and init reads JSON alone; of Avro, Protobuf or Arrow write the stream file yourself "
    "(docs/reference/formats.md), and look at it by riparian check --broker"
)
# What decides which field is the label, of a topic with features, and of one of labels.
OF_FEATURES = (
    "name it by --label FIELD, or the topic of the labels by --labels TOPIC, or say --task anomaly without one"
)
OF_LABELS = (
    "name it by --label FIELD, or, where each record says that something happened, such as a click, what it says by "
    "--is CLASS"
)
OF_CHANGES = 20  # changes of a row, or labels of a record, at most, where its id may still be one
MOST_FIELDS = 10_000
RARE = 50  # a field of numbers, or of times, has something else in one of so many records at most
DEEPEST = 20


class Message(NamedTuple):
    """A record of a topic.

    key : as text, None where there is none
    fields : the JSON object
    time : of the record, ms since 1970
    value : as it came, where that is not what `fields` are
    """

    key: str | None
    fields: dict[str, Any]
    time: int | None = None
    value: bytes | None = None
    headers: Headers = ()
    partition: int = 0

    def raw(self) -> bytes:
        return msgspec.json.encode(self.fields) if self.value is None else self.value


class TopicSample(NamedTuple):
    """What was read of one topic.

    partitions, replication : of the topic
    skipped : records that hold no JSON object
    envelope : around the rows that `messages` are (`app.dataset.guessing.envelopes`)
    """

    topic: str
    messages: Sequence[Message]
    partitions: int
    replication: int
    skipped: int = 0
    envelope: str | None = None


class FieldSample:
    """What stands at one path of the records. ids : its texts and whole numbers, as texts. odd : what stands in few
    records in the place of a number or a time."""

    def __init__(self) -> None:
        self.column, self.kinds = Column(False), set[str]()
        self.cells: list[str] = []
        self.ids: set[str] = set()
        self.odd: list[str] = []
        self._texts = set[str]()

    def add(self, value: Any) -> None:
        kind = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"
        if isinstance(value, list):
            self.kinds.add("list")
            return
        text = canonical(value)
        self.kinds.add(kind)
        self.cells.append(text)
        if kind == "text":
            self._texts.add(text)
        if kind == "text" or isinstance(value, int):
            self.ids.add(text)

    def look(self) -> None:
        """Once all have been added, take the column for one of numbers or times where few cells are none."""
        for of in (number_of, iso_time):
            odd = {text for text in self._texts if of(text) is None}
            found = [cell for cell in self.cells if cell in odd]
            if 0 < len(found) * RARE <= len(self.cells):
                column = Column(False)
                column.add([cell for cell in self.cells if cell not in odd])
                if column.is_time or (column.numeric and column.task == REGRESSION):  # and no codes
                    self.column, self.odd = column, found
                    if self._texts == odd:
                        self.kinds.discard("text")
                    return
        self.column.add(self.cells)


class ReadTopic:
    """A sample, read once.

    fields : every path at which a value stands, in the order of first sight
    time : the first of these at which times stand, under a name that means one

    Raises
    ------
    DataError
        There are none.
    """

    def __init__(self, sample: TopicSample) -> None:
        self.sample, self.messages = sample, sample.messages
        self.topic, self.partitions, self.envelope = sample.topic, sample.partitions, sample.envelope
        if not self.messages:
            cure = NO_JSON if sample.skipped else "it is empty, so write some records first"
            raise DataError(f"topic {self.topic} holds no JSON object: {cure}")
        self.fields = dict[Path, FieldSample]()
        for message in self.messages:
            for path, value in _walk(message.fields, ()):
                if path in self.fields or len(self.fields) < MOST_FIELDS:
                    self.fields.setdefault(path, FieldSample()).add(value)
        for field in self.fields.values():
            field.look()
        self.time = next((path for path, field in self.fields.items() if _is_time(path, field)), None)
        self._ids = dict[Path, list[str | None]]()

    @property
    def listing(self) -> str:
        """Names of the first fields."""
        names = [dotted(path) for path in self.fields]
        return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")

    def ids(self, place: Path) -> list[str | None]:
        """(n,), what stands at a path of each record, or its key, as text."""
        if place not in self._ids:
            at = [m.key if place == KEY else _at(m.fields, place) for m in self.messages]
            self._ids[place] = [None if one is None else str(one) for one in at]
        return self._ids[place]

    def partitions_of(self, place: Path) -> dict[str | None, set[int]]:
        """Id -> partitions with records of it."""
        found: dict[str | None, set[int]] = {}
        for message, one in zip(self.messages, self.ids(place), strict=True):
            found.setdefault(one, set()).add(message.partition)
        return found

    def rows(self, *without: Path | None) -> dict[Path, FieldSample]:
        """Fields of the rows themselves, and of no envelope around them."""
        return {p: field for p, field in self.fields.items() if p not in without and not p[0].startswith(AROUND)}

    def unique(self, repeated: int) -> list[Path]:
        """Paths at which all records have a text or a whole number, mostly another one. repeated : records of one id,
        on average, at most; of labels, of which a few may be odd, OF_CHANGES."""
        n, of_labels = len(self.messages), repeated == OF_CHANGES
        repeated = OF_CHANGES if self.envelope == DEBEZIUM else repeated
        return [
            path
            for path, field in self.fields.items()
            if field.kinds <= {"text", "number"}
            and len(field.cells) >= (0.95 * n if of_labels else n)
            and repeated * len(field.ids) > n
        ]

    def id_places(self, given: str | None, repeated: int = 2) -> list[Path]:
        """Where the id may stand, the likeliest first. given : there. repeated : as in `unique`."""
        if given == dotted(KEY):
            return [KEY]
        if given is not None:
            named = [path for path in self.fields if dotted(path) == given]
            if not named:
                raise DataError(f"no record of {self.topic} has a field {given!r}: its fields are {self.listing}")
            return named
        likely = [path for path in self.unique(repeated) if _name(path) in IDS or words(path[-1])[-1:] == ["id"]]
        likely.sort(key=lambda path: (path[0].startswith(AROUND), _name(path) not in IDS, len(path)))
        keys = self.ids(KEY)
        is_key = all(keys) and repeated * len(set(keys)) > len(keys)
        return [*likely, *([KEY] if is_key else [])]


def _walk(fields: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in fields.items():
        path = (*above, name)
        if isinstance(value, dict) and len(path) < DEEPEST:
            yield from _walk(value, path)
        elif value is not None:
            yield path, value


def _at(fields: Any, path: Path) -> Any:
    """What stands at a path of a record; None where nothing does."""
    for name in path:
        fields = fields.get(name) if isinstance(fields, dict) else None
    return fields


class Join:
    """Labels and their features, by ids.

    ours, theirs : where the ids stand
    met : label -> features, both by their places in the samples
    n_met : features that have a label
    waits : from the features to each label that met some, where their times are known, seconds
    """

    def __init__(self, features: ReadTopic, ours: Path, labels: ReadTopic, theirs: Path) -> None:
        self.features, self.ours, self.labels, self.theirs = features, ours, labels, theirs
        first = dict[str | None, int]()
        for i, one in enumerate(features.ids(ours)):
            first.setdefault(one, i)
        of_labels = labels.ids(theirs)
        self.met = {k: first[one] for k, one in enumerate(of_labels) if one is not None and one in first}
        self.n_met = len(set(self.met.values()))
        times = [(labels.messages[k].time, features.messages[i].time) for k, i in self.met.items()]
        self.waits = [(a - b) / 1000 for a, b in times if a is not None and b is not None]

    @property
    def wait(self) -> float:
        """Seconds from features to labels or back, median."""
        return median(map(abs, self.waits)) if self.waits else 0.0

    @property
    def late(self) -> float | None:
        """The most seconds from features to their label."""
        return max(self.waits, default=None)

    @property
    def is_named(self) -> bool:
        """Whether both topics give the field one name that says whose id it is."""
        return self.ours[-1] == self.theirs[-1] and self.ours != KEY and _name(self.ours) not in IDS

    def is_like(self, other: "Join") -> bool:
        """Whether both join the same records, but for a few."""
        same = sum(other.met.get(label) == one for label, one in self.met.items())
        return 10 * same >= 9 * min(len(self.met), len(other.met))

    @property
    def share(self) -> float:
        """The share of records that have a label: from the first that has one to before the last."""
        known = {self.labels.ids(self.theirs)[k] for k in self.met}
        in_time = sorted(
            zip(self.features.messages, self.features.ids(self.ours), strict=True), key=lambda one: one[0].time or 0
        )
        labelled = [i for i, (_, one) in enumerate(in_time) if one in known]
        return (len(labelled) - 1) / (labelled[-1] - labelled[0]) if len(labelled) > 1 else 0.0

    @property
    def soon(self) -> float | None:
        """Seconds after which what has no label will hardly get one; None where that is not known: of so short a topic,
        of one whose newer labels are mostly of records before it, or where it takes weeks."""
        times = [message.time for message in self.features.messages if message.time is not None]
        if self.late is None or not times:
            return None
        middle, of_labels = (min(times) + max(times)) / 2, enumerate(self.labels.messages)
        newer = [k in self.met for k, one in of_labels if one.time is not None and one.time >= middle]
        if 10 * sum(newer) < 9 * len(newer):
            return None
        return next((step for step in SOON if 2 * self.late <= step <= (max(times) - min(times)) / 2000), None)

    @property
    def apart(self) -> str:
        """Why both topics have to be copied by id, or ""."""
        ours, theirs = self.features, self.labels
        if ours.partitions != theirs.partitions:
            return f"{ours.topic} has {ours.partitions} partitions, {theirs.topic} {theirs.partitions}"
        here, there = ours.partitions_of(self.ours), theirs.partitions_of(self.theirs)
        both = (here.keys() & there.keys()) - {None}
        apart = sum(here[one].isdisjoint(there[one]) for one in both)
        if 3 * apart <= len(both):
            return ""
        return f"{apart:,} of {len(both):,} ids have their label in another partition than their features"

    @property
    def remark(self) -> str:
        """What is said of the labels that met a record."""
        met, n = len(self.met), len(self.labels.messages)
        others = "; the others may be of older ones, and come later" if 10 * met < 9 * n else ""
        return f"{met:,} of {n:,} labels met a record, by {dotted(self.theirs)}{others}"


def of_records(
    features: TopicSample,
    labels: TopicSample | None = None,
    *,
    name: str,
    label: str | None = None,
    id_: str | None = None,
    task: str | None = None,
    nominal: Sequence[str] = (),
    ignore: Sequence[str] = (),
    is_: str | None = None,
) -> Draft:
    """A stream for topics. label, id_, nominal, ignore : fields that are known already, as dotted paths; id_ : or
    "@key", the Kafka key, or "@offset", the place of the record. is_ : the class of every record of `labels`, in place
    of a label.

    Raises
    ------
    DataError
        The label or the id is not clear, or no record can be read.
    """
    ours, theirs = ReadTopic(features), None if labels is None else ReadTopic(labels)
    join = None if theirs is None else _join(ours, theirs, id_)
    if join is not None:
        id_path = join.ours
    else:
        id_path = OFFSET if id_ == dotted(OFFSET) else (ours.id_places(id_) or [OFFSET])[0]
    later = _later(ours, id_path) if join is None and label is None and task in (None, REGRESSION) else None
    goal: Path | None = None
    if later is not None:
        goal = later[0]
    elif join is not None and is_ is None:
        goal = _label_beside(join, label)
    elif join is None and (task != ANOMALY or label is not None or any(map(_is_called_label, ours.fields))):
        goal = _label(ours, ours.fields, label, {id_path, ours.time}, OF_FEATURES)
    column = None if goal is None else (ours if join is None else join.labels).fields[goal].column
    inside = goal if join is None and later is None else None
    if inside is not None and id_path == OFFSET and id_ is None:
        likely = ours.id_places(None, OF_CHANGES)
        id_path = next((one for one in likely if _is_filled_in(ours, one, inside)), OFFSET)
    updates = None if inside is None else _updates(ours, id_path, inside)
    met = join or updates
    beside = ours.rows(id_path, ours.time, inside)
    judged = [_feature(path, field, beside, nominal, ignore) for path, field in beside.items()]
    where = f"topic {ours.topic}"
    said = is_ if goal is None else dotted(goal)
    check_left(judged, said, where)
    kept = [path for path, one in zip(beside, judged, strict=True) if not one.dropped]
    if later is not None and later[1] is not None:
        kept.append(later[1])  # a field beside the features
    x = _common(ours.messages, kept)
    silent = None
    if join is not None:
        silent = SILENT.get(str(is_).lower(), NOT_SAID[str(is_).lower() == NOT_SAID[0]])
    if met is not None and column is not None:
        silent = silent_class(column, task)
    kind, classes, rare = ANOMALY, list[str](), None
    if later is not None:
        kind = REGRESSION
    elif met is not None and silent is not None:
        kind, classes = CLASSIFICATION, [silent, str(is_) if column is None else column.first]
        rare = (classes[-1], met.share) if met.share else None
    elif column is not None and said is not None:
        kind, classes = task_of(column, said, task, where)
        rare = rarest(column, classes)
    named = _named(judged, list(beside), x)
    draft = Draft(
        name=name,
        source=_source(ours, theirs),
        task=kind,
        label=said,
        features=named,
        classes=classes,
        rarest=rare,
        silent=silent,
        partitions=ours.partitions,
        replication=features.replication,
        topics={"features": ours.topic, "labels": None if theirs is None else theirs.topic},
        record=_unusual({"envelope": ours.envelope, "id": id_path, "time": ours.time, "x": x}),
    )
    if join is not None:
        of_label = {"envelope": join.labels.envelope, "id": join.theirs, **({"y": goal} if goal else {"is": is_})}
        return draft._replace(
            record=draft.record | ({"y": None} if ("y",) in ours.fields else {}),
            label_record=_unusual(of_label),
            rekey=join.apart,
            late=join.late,
            after=join.soon,
            hints=[join.remark],
        )
    if later is None:
        draft = draft._replace(record=draft.record | _unusual({"y": goal}))
        return draft if updates is None else draft._replace(late=updates.late, after=updates.soon)
    names = {path: one.name for path, one in zip(beside, named, strict=True)}
    return draft._replace(**_forecast(ours, later, names, x))


def _is_filled_in(topic: ReadTopic, place: Path, goal: Path) -> bool:
    """Whether records of an id come without a label first and with it later, and hardly ever the other way round."""
    filled, lost, known = 0, 0, dict[str | None, bool]()
    for message, one in zip(topic.messages, topic.ids(place), strict=True):
        has = _at(message.fields, goal) is not None
        filled += has and not known.get(one, True)
        lost += known.get(one, False) and not has
        known[one] = has
    return filled > 10 * lost


def _updates(topic: ReadTopic, id_path: Path, goal: Path) -> Join | None:
    """Records that came again with the label of their id, met with the first of it; None where none did."""
    labelled = [one for one in topic.messages if _at(one.fields, goal) is not None]
    if id_path == OFFSET or not labelled:
        return None
    join = Join(topic, id_path, ReadTopic(topic.sample._replace(messages=labelled)), id_path)
    return join if join.late else None


def _source(features: ReadTopic, labels: ReadTopic | None) -> str:
    """What was looked at, in words."""
    source = f"{len(features.messages):,} records of {features.topic}"
    skipped = features.sample.skipped
    if labels is not None:
        source += f" and {len(labels.messages):,} of {labels.topic}"
        skipped += labels.sample.skipped
    return source + (f" ({skipped:,} more hold no JSON object)" if skipped else "")


def _unusual(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of the sections `record` and `label` that are not the defaults."""
    plain = {"envelope": None, "id": ("id",), "time": None, "x": ("x",), "y": ("y",)}
    return {key: value for key, value in fields.items() if value != plain.get(key)}


def _later(topic: ReadTopic, id_: Path) -> tuple[Path, Path | None] | None:
    """What may be forecast where no field is the label, and whose it is: of records with a time, or of something that
    measures."""
    rest = topic.rows(id_, topic.time)
    if topic.envelope is not None or any(map(_is_called_label, rest)):
        return None
    paths = dict[str, Path]()
    for path in rest:
        paths.setdefault(path[-1], path)
    later = forecast_of({name: rest[path].column for name, path in paths.items()}, topic.topic)
    if later is None or (later.by is None and topic.time is None):
        return None
    return paths[later.of], None if later.by is None else paths[later.by]


def _forecast(topic: ReadTopic, later: tuple[Path, Path | None], names: Mapping[Path, str], x: Path) -> dict[str, Any]:
    """Fields of the draft. later : of `_later`. names : of features. x : where these stand."""
    of, whose = names[later[0]], later[1]
    hints = [f"No field is called as labels are: the label is a later {of} (docs/build/forecasts.md)"]
    found: dict[str, Any] = {"label": of, "clock": topic.topic, "hints": hints}
    found["label_record"] = {"of": of, "ahead": (AHEAD,)}
    if whose is None:
        if topic.partitions > 1:
            raise DataError(
                f"{topic.topic} has {topic.partitions} partitions, and no field says whose record one is, by which "
                "they could be forecast: name the label by --label, or call that field a sensor, station or machine"
            )
        return found
    by = found["label_record"]["by"] = names[whose]
    keyed = topic.partitions > 1 and topic.ids(KEY) == topic.ids(whose)
    if keyed or whose != (*x, by):
        found["keys"] = {by: KEY if keyed else whose}
    if topic.partitions > 1 and not keyed:
        found |= {"rekey": f"the records of one {by} may come to several partitions of {topic.topic}", "rekey_by": by}
    return found


def _is_time(path: Path, field: FieldSample) -> bool:
    """Whether a field's name means a time and its values are times."""
    if not TIMES & set(words(path[-1].removeprefix(AROUND))) or not field.cells:
        return False
    return is_time(path[-1], field.column)


def _join(features: ReadTopic, labels: ReadTopic, given: str | None) -> Join:
    """By which ids both belong together."""
    named, equals, of_label = (given or "").partition("=")
    ours = features.id_places(named if given is not None else None)
    called = bool(ours)
    ours = ours or [p for p in features.unique(2) if features.fields[p].kinds == {"text"} and p != features.time]
    theirs = labels.id_places(of_label if equals else None, OF_CHANGES)
    joins = [Join(features, a, labels, b) for a in ours for b in theirs]
    if equals:
        return joins[0]
    others = [path for path in labels.unique(OF_CHANGES) if path not in theirs]
    by_any = [Join(features, a, labels, b) for a in ours for b in others]
    joins += [one for one in by_any if one.met and BY_CHANCE * len(one.met) >= len(labels.messages)]
    most = max((one.n_met for one in joins), default=0)
    if not (called or most):
        raise DataError(
            f"it is not clear which field of {features.topic} is the id: name it by {_pair(features, labels)}, or say "
            f"--id @key for the Kafka key (its fields are {features.listing})"
        )
    if not most:
        raise DataError(
            f"no id was found both in {features.topic} and {labels.topic}: say by {_pair(features, labels)} where it "
            f"stands in both (those of {labels.topic} are {labels.listing}), or wait until labels have come"
        )
    # A label's own serial id meets records as well, only not as soon.
    joins = [one for one in joins if 2 * one.n_met >= most]
    soonest = min(one.wait for one in joins)
    joins = [one for one in joins if one.wait <= 2 * soonest]
    best = max(joins, key=lambda one: (one.is_named, one.n_met))
    other = None if best.is_named else next((one for one in joins if not one.is_like(best)), None)
    if other is not None:
        both = " or ".join(f"--id {dotted(one.ours)}={dotted(one.theirs)}" for one in (best, other))
        raise DataError(f"it is not clear by which ids {features.topic} and {labels.topic} belong together: say {both}")
    return best


def _pair(features: ReadTopic, labels: ReadTopic) -> str:
    """The option that names the id of both: the fields with most values in common, of those that may tell ids apart."""
    pairs = [(a, b) for a in features.unique(OF_CHANGES) for b in labels.unique(OF_CHANGES)]
    common = [len(features.fields[a].ids & labels.fields[b].ids) for a, b in pairs]
    most = max(common, default=0)
    if BY_CHANCE * most < len(labels.messages):
        return "--id FIELD=FIELD"
    ours, theirs = pairs[common.index(most)]
    return f"--id {dotted(ours)}={dotted(theirs)}"


def _name(path: Path) -> str:
    return path[-1].removeprefix(AROUND).lower()


def _is_called_label(path: Path) -> bool:
    return any(map(is_called_label, path))


def _label_beside(join: Join, given: str | None) -> Path:
    """The label in a topic of labels: neither what repeats the ids, nor a time."""
    topic = join.labels
    ids = set(topic.ids(join.theirs)) - {None}
    rest = {path: one for path, one in topic.rows().items() if one.ids != ids and not _is_time(path, one)}
    found = _label(topic, rest, given, set(), OF_LABELS)
    # A click's position is no label: most records have none, and nothing calls it one.
    if given is None and not _is_called_label(found) and len(topic.fields[found].column) > 2 and join.share < 0.5:
        raise _unclear(topic, OF_LABELS)
    return found


def _label(
    topic: ReadTopic, fields: Mapping[Path, FieldSample], given: str | None, taken: set[Path | None], cure: str
) -> Path:
    names = [path for path in fields if path not in taken]
    if given is not None:
        chosen = [path for path in fields if dotted(path) == given]
    else:
        chosen = [path for path in names if _is_called_label(path)] if len(names) > 1 else names
    if len(chosen) != 1:
        raise _unclear(topic, cure)
    return chosen[0]


def _unclear(topic: ReadTopic, cure: str) -> DataError:
    return DataError(
        f"it is not clear which field of {topic.topic} is the label: {cure} (its fields are {topic.listing})"
    )


def _feature(
    path: Path, leaf: FieldSample, beside: Mapping[Path, FieldSample], nominal: Sequence[str], ignore: Sequence[str]
) -> DraftFeature:
    """One feature with its path, or why the field is not one."""
    name = dotted(path)
    column = leaf.column
    if name in ignore:
        return DraftFeature(name, NUMERIC if column.numeric else NOMINAL, "left out by --ignore", True, path)
    if "list" in leaf.kinds:
        return DraftFeature(name, NOMINAL, "left out: it holds lists", True, path)
    if any(len(other) > len(path) and other[: len(path)] == path for other in beside):
        return DraftFeature(
            name, NOMINAL, "left out: it holds a value in some records and an object in others", True, path
        )
    if name in nominal:
        return DraftFeature(name, NOMINAL, path=path, max_values=most_values(len(column)))
    if is_key(path[-1], column):
        return judge(path[-1], column, path)._replace(name=name)
    if "text" in leaf.kinds and column.numeric and len(column) > FEW:
        found = judge(path[-1], column, path)._replace(name=name, in_text=True)
        if found.dropped:
            return found
        if column.fractional:
            return found._replace(remark="numbers as texts")
        codes = "left out: whole numbers as texts: numeric with text: true, or nominal"  # a card's number, a postcode
        return found._replace(dropped=True, remark=codes)
    if leaf.kinds == {"boolean"} and len(column) == 2:
        return DraftFeature(name, BOOLEAN, path=path)
    found = judge(path[-1], column, path)._replace(name=name)
    if leaf.odd and not found.dropped:
        none = "is no number" if len(leaf.odd) == 1 else "are no numbers"
        remark = f"{len(leaf.odd):,} of {len(leaf.cells):,} {none}, such as {quoted(leaf.odd[0][:30])}"
        return found._replace(remark=remark)
    if found.type != NUMERIC or "number" in leaf.kinds:
        return found
    return found._replace(type=NOMINAL, max_values=most_values(len(column)))


def _common(messages: Sequence[Message], paths: Sequence[Path]) -> Path:
    """The object that holds all these paths and stands in every record; () for the record itself."""
    x = paths[0][:-1]
    for path in paths:
        while path[: len(x)] != x or len(path) == len(x):
            x = x[:-1]
    while x and not all(isinstance(_at(message.fields, x), dict) for message in messages):
        x = x[:-1]
    return x


def _named(judged: Sequence[DraftFeature], paths: Sequence[Path], x: Path) -> list[DraftFeature]:
    """Features with names of their own: of those that stand in x the field's, of others the path's."""
    used = {path[-1] for path in paths if path[:-1] == x}
    named = []
    for feature, path in zip(judged, paths, strict=True):
        if path[:-1] == x:
            named.append(feature._replace(name=path[-1], path=None))
            continue
        name = "_".join(path[len(x) :] if path[: len(x)] == x else path)
        while name in used:
            name += "_"
        used.add(name)
        named.append(feature._replace(name=name))
    return named
