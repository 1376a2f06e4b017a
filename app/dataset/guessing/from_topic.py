"""What a stream is, guessed from records of its topics: where the id, the time, the label and each feature stand."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

import msgspec

from riparian.app.dataset.column import Column
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
from riparian.app.stream_file.draft import Draft, DraftFeature, most_values
from riparian.topics.decoding.envelopes import AROUND, DEBEZIUM
from riparian.topics.records import ANOMALY, BOOLEAN, CLASSIFICATION, NOMINAL, NUMERIC, REGRESSION, Headers, Path
from riparian.topics.vocabulary import canonical

KEY, OFFSET = "@key", "@offset"
AHEAD = "1h"  # of a forecast
BY_CHANCE = 20  # a field that is not called an id is none where fewer than one of so many labels meet a record
NOT_SAID = "no", "yes"  # what a record is for which none says that it is what the labels are
SOON = (60.0, 300.0, 600.0, 1800.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 2 * 86_400.0, 7 * 86_400.0)  # seconds
NO_JSON = (
    "no record of it is one, and init reads JSON alone; of Avro, Protobuf or Arrow write the stream file yourself "
    "(docs/reference/formats.md), and look at it by riparian check --broker"
)
OF_CHANGES = 20  # changes of a row, or labels of a record, at most, where its id may still be one
MOST_FIELDS = 10_000
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
    """Records of one topic.

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
    """What stands at one path of the records. ids : its texts and whole numbers, as texts."""

    def __init__(self) -> None:
        self.column, self.kinds = Column(False), set[str]()
        self.cells: list[str] = []
        self.ids: set[str] = set()

    def add(self, value: Any) -> None:
        kind = "boolean" if isinstance(value, bool) else "number" if isinstance(value, int | float) else "text"
        if isinstance(value, list):
            self.kinds.add("list")
            return
        text = canonical(value)
        self.kinds.add(kind)
        self.cells.append(text)
        if kind == "text" or isinstance(value, int):
            self.ids.add(text)

    def close(self) -> "FieldSample":
        self.column.add(self.cells)
        return self


def leaves(messages: Sequence[Message]) -> dict[Path, FieldSample]:
    """Every path of the records at which a value stands, in the order of first sight."""
    found: dict[Path, FieldSample] = {}
    for message in messages:
        for path, value in _walk(message.fields, ()):
            if path in found or len(found) < MOST_FIELDS:
                found.setdefault(path, FieldSample()).add(value)
    return {path: leaf.close() for path, leaf in found.items()}


def _walk(fields: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, Any]]:
    for name, value in fields.items():
        path = (*above, name)
        if isinstance(value, dict) and len(path) < DEEPEST:
            yield from _walk(value, path)
        elif value is not None:
            yield path, value


def dotted(path: Path) -> str:
    return ".".join(path)


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
    for topic in (features, labels):
        if topic is not None and not topic.messages:
            raise DataError(
                f"topic {topic.topic} holds no JSON object: "
                + (NO_JSON if topic.skipped else "it is empty, so write some records first")
            )
    found = leaves(features.messages)
    of_labels = {} if labels is None else leaves(labels.messages)
    id_path, label_id = _ids(features, labels, found, of_labels, id_)
    time = next((path for path, leaf in found.items() if _is_time(path, leaf)), None)
    taken = {id_path, time}
    goal: Path | None = None
    unlabelled = labels is None and label is None and task in (None, REGRESSION)
    later = _later(features, found, id_path, time) if unlabelled else None
    if later is not None:
        goal = later[0]
        goal_column = found[goal].column
    elif labels is None and (task != ANOMALY or label is not None or any(map(_is_called_label, found))):
        goal = _label(found, label, taken, features.topic)
        goal_column = found[goal].column
        taken.add(goal)
    elif labels is not None and is_ is None:
        ids = {_value(message, label_id) for message in labels.messages} - {None}
        rest = {
            path: leaf
            for path, leaf in of_labels.items()
            if leaf.ids != ids and not _is_time(path, leaf) and not path[0].startswith(AROUND)
        }
        goal = _label(rest, label, set(), labels.topic, of_labels)
        goal_column = of_labels[goal].column
    beside = {path: leaf for path, leaf in found.items() if path not in taken and not path[0].startswith(AROUND)}
    judged = [_feature(path, leaf, beside, nominal, ignore) for path, leaf in beside.items()]
    where = f"topic {features.topic}"
    said = is_ if goal is None else dotted(goal)
    check_left(judged, said, where)
    kept = [path for path, one in zip(beside, judged, strict=True) if not one.dropped]
    if later is not None and later[1] is not None:
        kept.append(later[1])  # a field beside the features
    x = _common(features.messages, kept)
    kind, classes = ANOMALY, list[str]()
    silent = None
    if labels is not None:
        silent = (
            silent_class(goal_column, task)
            if is_ is None
            else SILENT.get(is_.lower(), NOT_SAID[is_.lower() == NOT_SAID[0]])
        )
    if later is not None:
        kind = REGRESSION
    elif silent is not None:
        kind, classes = CLASSIFICATION, [silent, goal_column.first if is_ is None else is_]
    elif goal is not None:
        kind, classes = task_of(goal_column, dotted(goal), task, where)
    record: dict[str, Path | str | int | None] = {"envelope": features.envelope, "id": id_path, "time": time, "x": x}
    if labels is None:
        record["y"] = goal if later is None else ("y",)  # by default none
    elif ("y",) in found:
        record["y"] = None
    plain = {"envelope": None, "id": ("id",), "time": None, "x": ("x",), "y": ("y",)}
    of_label: dict[str, Path | str | int | None] = {}
    if labels is not None:
        of_label = {"envelope": labels.envelope, "id": label_id, **({"y": goal} if is_ is None else {"is": is_})}
    named = _named(judged, list(beside), x)
    forecast: dict[str, Any] = {}
    if later is not None:
        names = {path: one.name for path, one in zip(beside, named, strict=True)}
        forecast = _forecast(features, later, names, x)
    late = None if labels is None else _late(features, id_path, labels, label_id)
    hints, after = list[str](), None
    if labels is not None:
        joined = _joined(features, id_path, labels, label_id)
        hints, after = [_of_joined(joined, labels)], _soon(features, joined, labels, late)
    rare = None if goal is None or silent is not None else rarest(goal_column, classes)
    if silent is not None and labels is not None:
        share = _labelled(features, id_path, labels, label_id)
        rare = (classes[-1], share) if share else None
    source = f"{len(features.messages):,} records of {features.topic}"
    if labels is not None:
        source += f" and {len(labels.messages):,} of {labels.topic}"
    skipped = features.skipped + (labels.skipped if labels is not None else 0)
    draft = Draft(
        name=name,
        source=source + (f" ({skipped:,} more hold no JSON object)" if skipped else ""),
        task=kind,
        label=said,
        features=named,
        classes=classes,
        rarest=rare,
        silent=silent,
        partitions=features.partitions,
        replication=features.replication,
        topics={"features": features.topic, "labels": None if labels is None else labels.topic},
        rekey="" if labels is None else _apart(features, id_path, labels, label_id),
        record={key: value for key, value in record.items() if value != plain[key]},
        label_record={key: value for key, value in of_label.items() if value != plain.get(key)},
        late=late,
        hints=hints,
        after=after,
    )
    return draft._replace(**forecast)


def _later(
    topic: TopicSample, found: Mapping[Path, FieldSample], id_: Path | str, time: Path | None
) -> tuple[Path, Path | None] | None:
    """What may be forecast where no field is the label, and whose it is: of records with a time, or of something that
    measures."""
    rest = {path: leaf for path, leaf in found.items() if path not in (id_, time) and not path[0].startswith(AROUND)}
    if topic.envelope is not None or any(map(_is_called_label, rest)):
        return None
    paths = dict[str, Path]()
    for path in rest:
        paths.setdefault(path[-1], path)
    later = forecast_of({name: rest[path].column for name, path in paths.items()}, topic.topic)
    if later is None or (later.by is None and time is None):
        return None
    return paths[later.of], None if later.by is None else paths[later.by]


def _forecast(
    topic: TopicSample, later: tuple[Path, Path | None], names: Mapping[Path, str], x: Path
) -> dict[str, Any]:
    """Fields of the draft. later : of `_later`. names : of features. x : where these stand."""
    of, whose = names[later[0]], later[1]
    by = None if whose is None else names[whose]
    hints = [f"No field is called as labels are: the label is a later {of} (docs/build/forecasts.md)"]
    found: dict[str, Any] = {"label": of, "clock": topic.topic, "hints": hints}
    found["label_record"] = {"of": of, "ahead": (AHEAD,)} | ({} if by is None else {"by": by})
    if by is None or whose is None:
        if topic.partitions > 1:
            raise DataError(
                f"{topic.topic} has {topic.partitions} partitions, and no field says whose record one is, by which "
                "they could be forecast: name the label by --label, or call that field a sensor, station or machine"
            )
        return found
    keyed = topic.partitions > 1 and all(message.key == _value(message, whose) for message in topic.messages)
    if keyed or whose != (*x, by):
        found["keys"] = {by: KEY if keyed else whose}
    if topic.partitions > 1 and not keyed:
        found |= {"rekey": f"the records of one {by} may come to several partitions of {topic.topic}", "rekey_by": by}
    return found


def _apart(features: TopicSample, id_: Path | str, labels: TopicSample, label_id: Path | str) -> str:
    """Why both topics have to be copied by id, or ""."""
    if features.partitions != labels.partitions:
        return f"{features.topic} has {features.partitions} partitions, {labels.topic} {labels.partitions}"
    where: dict[str | None, set[int]] = {}
    for message in features.messages:
        where.setdefault(_value(message, id_), set()).add(message.partition)
    theirs: dict[str | None, set[int]] = {}
    for message in labels.messages:
        theirs.setdefault(_value(message, label_id), set()).add(message.partition)
    both = (where.keys() & theirs.keys()) - {None}
    apart = sum(where[one].isdisjoint(theirs[one]) for one in both)
    if 3 * apart <= len(both):
        return ""
    return f"{apart:,} of {len(both):,} ids have their label in another partition than their features"


def _late(features: TopicSample, id_: Path | str, labels: TopicSample, label_id: Path | str) -> float | None:
    """The most seconds from features to their label, by the records' timestamps, of ids that are in both samples."""
    first: dict[str | None, int] = {}
    for message in features.messages:
        if message.time is not None:
            first.setdefault(_value(message, id_), message.time)
    waits = [
        message.time - first[value]
        for message in labels.messages
        if message.time is not None and (value := _value(message, label_id)) is not None and value in first
    ]
    return max(waits) / 1000 if waits else None


def _labelled(features: TopicSample, id_: Path | str, labels: TopicSample, label_id: Path | str) -> float:
    """The share of records that have a label, of the older half, whose labels should have come."""
    known = {_value(message, label_id) for message in labels.messages}
    n = len(features.messages)
    older = sorted(features.messages, key=lambda one: one.time or 0)[: n - n // 2]
    return sum(_value(one, id_) in known for one in older) / len(older)


def _soon(features: TopicSample, joined: "_Join", labels: TopicSample, late: float | None) -> float | None:
    """Seconds after which what has no label will hardly get one; None where that is not known: of so short a topic, of
    one whose newer labels are mostly of records before it, or where it takes weeks."""
    times = [message.time for message in features.messages if message.time is not None]
    if late is None or not times:
        return None
    middle = (min(times) + max(times)) / 2
    newer = [k in joined.met for k, one in enumerate(labels.messages) if one.time is not None and one.time >= middle]
    if 10 * sum(newer) < 9 * len(newer):
        return None
    return next((step for step in SOON if 2 * late <= step <= (max(times) - min(times)) / 2000), None)


def _of_joined(joined: "_Join", labels: TopicSample) -> str:
    """What is said of the labels that met a record."""
    met, n = len(joined.met), len(labels.messages)
    others = "; the others may be of older ones, and come later" if 10 * met < 9 * n else ""
    return f"{met:,} of {n:,} labels met a record, by {_place(joined.theirs)}{others}"


def _value(message: Message, id_: Path | str) -> str | None:
    """The id of a message, as Leaf.ids has it."""
    if isinstance(id_, str):
        return message.key
    value: Any = message.fields
    for name in id_:
        value = value.get(name) if isinstance(value, dict) else None
    return None if value is None else str(value)


def _is_time(path: Path, leaf: FieldSample) -> bool:
    """Whether a field's name means a time and its values are times."""
    if not TIMES & set(words(path[-1].removeprefix(AROUND))) or not leaf.cells:
        return False
    return is_time(path[-1], leaf.column)


def _ids(
    features: TopicSample,
    labels: TopicSample | None,
    found: Mapping[Path, FieldSample],
    of_labels: Mapping[Path, FieldSample],
    given: str | None,
) -> tuple[Path | str, Path | str]:
    """Where the id stands in both records."""
    if labels is None and given == OFFSET:
        return OFFSET, OFFSET
    named, of_label = given, None
    if labels is not None and given is not None and "=" in given:
        named, _, of_label = given.partition("=")
    ours = _candidates(features, found, named) or ([OFFSET] if labels is None else [])
    if not ours:
        raise DataError(
            f"it is not clear which field of {features.topic} is the id: name it by --id, or say --id @key for the "
            f"Kafka key (its fields are {_listing(found)})"
        )
    if labels is None:
        return ours[0], ours[0]
    theirs = _candidates(labels, of_labels, of_label, repeated=OF_CHANGES)
    if of_label is not None:
        return ours[0], theirs[0]
    joins = [_joined(features, a, labels, b) for a in ours for b in theirs]
    others = [path for path in _unique(labels, of_labels, repeated=OF_CHANGES) if path not in theirs]
    known = {a: found[a].ids if isinstance(a, tuple) else {one.key for one in features.messages} for a in ours}
    met = [(a, b) for a in ours for b in others if not known[a].isdisjoint(of_labels[b].ids)]
    by_any = [_joined(features, a, labels, b) for a, b in met]
    joins += [one for one in by_any if BY_CHANCE * len(one.met) >= len(labels.messages)]
    most = max((one.n_met for one in joins), default=0)
    if not most:
        raise DataError(
            f"no id was found both in {features.topic} and {labels.topic}: say by --id FIELD=FIELD where it stands in "
            f"both (those of {labels.topic} are {_listing(of_labels)}), or wait until labels have come"
        )
    # A label's own serial id meets records as well, only not as soon.
    joins = [one for one in joins if 2 * one.n_met >= most]
    soonest = min(one.wait for one in joins)
    joins = [one for one in joins if one.wait <= 2 * soonest]
    best = max(joins, key=lambda one: (one.is_named, one.n_met))
    other = None if best.is_named else next((one for one in joins if not one.is_like(best)), None)
    if other is not None:
        both = " or ".join(f"--id {_place(one.ours)}={_place(one.theirs)}" for one in (best, other))
        raise DataError(f"it is not clear by which ids {features.topic} and {labels.topic} belong together: say {both}")
    return best.ours, best.theirs


class _Join(NamedTuple):
    """Labels and their features, by ids.

    ours, theirs : where the ids stand
    met : label -> features, both by their places in the samples
    n_met : features that have a label
    wait : from features to labels or back, median, ms
    """

    ours: Path | str
    theirs: Path | str
    met: dict[int, int]
    n_met: int
    wait: float

    @property
    def is_named(self) -> bool:
        """Whether both topics give the field one name that says whose id it is."""
        return self.ours[-1] == self.theirs[-1] and not isinstance(self.ours, str) and _name(self.ours) not in IDS

    def is_like(self, other: "_Join") -> bool:
        """Whether both join the same records, but for a few."""
        same = sum(other.met.get(label) == one for label, one in self.met.items())
        return 10 * same >= 9 * min(len(self.met), len(other.met))


def _joined(features: TopicSample, ours: Path | str, labels: TopicSample, theirs: Path | str) -> _Join:
    first = dict[str | None, int]()
    for i, message in enumerate(features.messages):
        first.setdefault(_value(message, ours), i)
    ids = [_value(message, theirs) for message in labels.messages]
    met = {k: first[one] for k, one in enumerate(ids) if one is not None and one in first}
    times = [(labels.messages[k].time, features.messages[i].time) for k, i in met.items()]
    waits = [abs(a - b) for a, b in times if a is not None and b is not None]
    return _Join(ours, theirs, met, len(set(met.values())), median(waits) if waits else 0.0)


def _candidates(
    topic: TopicSample, found: Mapping[Path, FieldSample], given: str | None, repeated: int = 2
) -> list[Path | str]:
    """Where the id may stand, the likeliest first. repeated : as in `_unique`."""
    if given == KEY:
        return [KEY]
    if given is not None:
        named: list[Path | str] = [path for path in found if dotted(path) == given]
        if not named:
            raise DataError(f"no record of {topic.topic} has a field {given!r}: its fields are {_listing(found)}")
        return named
    likely = [path for path in _unique(topic, found, repeated) if _name(path) in IDS or words(path[-1])[-1:] == ["id"]]
    likely.sort(key=lambda path: (path[0].startswith(AROUND), _name(path) not in IDS, len(path)))
    keys = [message.key for message in topic.messages if message.key]
    is_key = len(keys) == len(topic.messages) and repeated * len(set(keys)) > len(keys)
    return [*likely, *([KEY] if is_key else [])]


def _unique(topic: TopicSample, found: Mapping[Path, FieldSample], repeated: int) -> list[Path]:
    """Paths at which all records have a text or a whole number, mostly another one. repeated : records of one id, on
    average, at most; of labels, of which a few may be odd, OF_CHANGES."""
    n, of_labels = len(topic.messages), repeated == OF_CHANGES
    repeated = OF_CHANGES if topic.envelope == DEBEZIUM else repeated
    return [
        path
        for path, leaf in found.items()
        if leaf.kinds <= {"text", "number"}
        and len(leaf.cells) >= (0.95 * n if of_labels else n)
        and repeated * len(leaf.ids) > n
    ]


def _name(path: Path) -> str:
    return path[-1].removeprefix(AROUND).lower()


def _is_called_label(path: Path) -> bool:
    return any(map(is_called_label, path))


def _label(
    found: Mapping[Path, FieldSample],
    given: str | None,
    taken: set[Any],
    topic: str,
    of_labels: Mapping[Path, FieldSample] | None = None,
) -> Path:
    """of_labels : all fields, of a topic of labels."""
    names = [path for path in found if path not in taken]
    if given is not None:
        chosen = [path for path in found if dotted(path) == given]
    else:
        chosen = [path for path in names if _is_called_label(path)] if len(names) > 1 else names
    if len(chosen) != 1:
        cure = (
            "name it by --label FIELD, or the topic of the labels by --labels TOPIC, or say --task anomaly without one"
        )
        if of_labels is not None:
            cure = (
                "name it by --label FIELD, or, where each record says that something happened, such as a click, what "
                "it says by --is CLASS"
            )
        listing = _listing(found if of_labels is None else of_labels)
        raise DataError(f"it is not clear which field of {topic} is the label: {cure} (its fields are {listing})")
    return chosen[0]


def _place(path: Path | str) -> str:
    return path if isinstance(path, str) else dotted(path)


def _listing(found: Mapping[Path, FieldSample]) -> str:
    names = [dotted(path) for path in found]
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


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
    if found.type != NUMERIC or "number" in leaf.kinds:
        return found
    return found._replace(type=NOMINAL, max_values=most_values(len(column)))


def _common(messages: Sequence[Message], paths: Sequence[Path]) -> Path:
    """The object that holds all these paths and stands in every record; () for the record itself."""
    x = paths[0][:-1]
    for path in paths:
        while path[: len(x)] != x or len(path) == len(x):
            x = x[:-1]
    while x and not all(_holds(message.fields, x) for message in messages):
        x = x[:-1]
    return x


def _holds(fields: Any, path: Path) -> bool:
    for name in path:
        fields = fields.get(name) if isinstance(fields, dict) else None
    return isinstance(fields, dict)


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
