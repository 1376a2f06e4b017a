"""A first stream file, for somebody who has none: each guess has a line of its own, with its reason.

Columns that were left out are comments, which become features when the `#` is removed. The loader reads the text before
it is returned, so a draft is always a valid stream file.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from riparian.app.errors import SpecError
from riparian.app.stream_file.durations import format_duration, rounded_up
from riparian.app.stream_file.sections.learning import SINGLE
from riparian.app.stream_file.sections.outputs import long_enough
from riparian.app.stream_file.sections.record import LABEL, FeatureSpec
from riparian.app.stream_file.spec import Spec, loads
from riparian.models.auto.auto import TooSmallError
from riparian.topics.decoding.paths import Index, dotted, parse
from riparian.topics.names import FEATURES, LABELS, topic_name
from riparian.topics.records import ANOMALY, MULTI_INSTANCE, NUMERIC, Path

MOST_SHOWN = 12  # values of a nominal feature, or classes, in a comment
MOST_CLASSES: int = Spec.model_fields["max_classes"].default
CLASS_BYTES: int = Spec.model_fields["max_class_bytes"].default
FEW_VALUES = 10  # values of a nominal feature, at most
MOST_VALUES: int = FeatureSpec.model_fields["max_values"].default
DAY = 86_400.0  # seconds
ALERTS = 0.01  # a share of the predictions
NO_LABELS = "no labels: name a topic if some come, 1 of an anomaly, else 0"
MOST_SERIES = 100_000  # of a key that is only whose series a record is of
MOST_KEYS = 1_000_000  # keys that are proposed, at most
RARE = 0.05  # a share of the labels, below which a decision is proposed
WIDTH = 34  # column of the comments
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


class DraftFeature(NamedTuple):
    """A feature, or a column that was left out.

    type : as in a stream file
    path : where it stands in the record, from the top; None for its name inside `record.x`
    remark : what was seen
    dropped : whether it is written as a comment only
    max_values : of a nominal feature, where the file names it
    n_keys : of a column that is a key, how many values were seen
    in_text : of a numeric feature, whether its numbers are texts
    """

    name: str
    type: str
    remark: str = ""
    dropped: bool = False
    path: Path | None = None
    max_values: int | None = None
    n_keys: int | None = None
    in_text: bool = False


class Draft(NamedTuple):
    """What a stream file is written of.

    source : what was looked at, in words
    label : what the label is called there; None where there is none, of anomalies
    features : in their order
    classes : those seen, empty for a regression
    rarest : the class that the fewest labels have, and their share; beside `silent`, their share of the records
    silent : the class of records without a label, where all labels are of the other one
    partitions, replication : of the topics
    topics : role -> name, where it is not the default
    record, label_record : fields of the sections `record` and `label`, where they are not the defaults
    hints : lines of comment behind the topics
    late : seconds from features to their label, the most that was seen
    after : seconds after which silence counts, where labels come soon
    max_bytes : of the champion, where the default does not do
    clock : the column of times, of a forecast, or its topic
    rekey : why topics are copied by id, or by `rekey_by`, where they have to be
    keys : of a forecast, name -> where it stands
    moments : the column with the time of each row, of a file
    brought : sentences on what features over a key's past bring
    """

    name: str
    source: str
    task: str
    label: str | None
    features: Sequence[DraftFeature]
    classes: Sequence[str] = ()
    rarest: tuple[str, float] | None = None
    silent: str | None = None
    partitions: int = 1
    replication: int = 1
    topics: dict[str, str | None] = {}  # noqa: RUF012
    record: dict[str, Path | str | int | None] = {}  # noqa: RUF012
    label_record: dict[str, Path | str | int | None] = {}  # noqa: RUF012
    hints: Sequence[str] = ()
    late: float | None = None
    after: float | None = None
    rekey: str = ""
    max_bytes: int | None = None
    clock: str | None = None
    rekey_by: str | None = None
    keys: Mapping[str, Path] = {}
    moments: str | None = None
    brought: Sequence[str] = ()


def most_values(n: int) -> int | None:
    """What a file names as `max_values` of a feature of which `n` values were seen: a round figure, four times as many
    and no less than the default, so that nothing is rejected that would not be. None of few: `auto` reckons with ten
    where nothing is named (models/auto/values.py), and with many where something is."""
    if n <= FEW_VALUES:
        return None
    return round_figure(max(4 * n, MOST_VALUES))


def round_figure(wanted: int) -> int:
    """The least of 1, 2, 5, 10, 20, … that is no less."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= wanted:
                return digit * power
        power *= 10


def scalar(text: str | None) -> str:
    """A text, or null, as YAML reads it back, in a flow sequence too."""
    if text is None:
        return "null"
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else quoted(text)


def quoted(text: str) -> str:
    """A text in quotes, with escapes for what YAML refuses to read."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def quoted_bytes(text: str) -> bytes:
    """A text as JSON has it, without the quotes."""
    return msgspec.json.encode(text)[1:-1]


def write(draft: Draft) -> tuple[str, Spec]:
    """The text of a stream file, and what it declares.

    Raises
    ------
    SpecError
        The draft makes no valid stream, such as one with a name that Kafka does not take.
    """
    text = _text(draft)
    try:
        return text, loads(text, draft.name)
    except SpecError as error:
        cause = error.__cause__ and error.__cause__.__cause__
        if not isinstance(cause, TooSmallError) or draft.max_bytes is not None:
            raise
        return write(draft._replace(max_bytes=round_figure(2 * cause.least)))


def _text(draft: Draft) -> str:
    lines = [*_head(draft), "", *_places(draft), *_features(draft), "", *_models(draft), *_watch(draft)]
    return "\n".join(lines) + "\n"


def _line(text: str, remark: str) -> str:
    return f"{text:{WIDTH}}  # {_one_line(remark)}" if remark else text


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in " ".join(text.split()))


def _head(draft: Draft) -> list[str]:
    named = {role: draft.topics.get(role, topic_name(draft.name, role)) for role in (FEATURES, LABELS)}
    replication = _line(f"replication: {draft.replication}", "of the topics that riparian creates")
    return [
        f"# Written by `riparian init` after a look at {_one_line(draft.source)}. Every line is a guess:",
        "# correct it, then run `riparian check` on this file. docs/reference/stream-file.md explains each field; what",
        "# is not here has its default.",
        "",
        _line(f"name: {scalar(draft.name)}", f"outputs go to {topic_name(draft.name, 'predictions')} and others"),
        _line(f"task: {draft.task}", _about_label(draft)),
        _line(f"partitions: {draft.partitions}", _about_partitions(draft)),
        *([replication] if draft.replication > 1 else []),
        *_topics(draft, named),
    ]


def _topics(draft: Draft, named: Mapping[str, str | None]) -> list[str]:
    later = draft.clock is not None
    inside = "labels are later values of the stream" if later else "labels come inside the feature records"
    if not draft.rekey:
        return [
            _line(
                f"topics: {{features: {scalar(named[FEATURES])}, labels: {scalar(named[LABELS])}}}",
                "" if named[LABELS] else NO_LABELS if draft.label is None else inside,
            )
        ]
    if draft.rekey_by is not None:
        return [
            f"# {_one_line(draft.rekey)}, so workers copy the topic by it:",
            f"rekey: {{features: {scalar(named[FEATURES])}, by: {scalar(draft.rekey_by)}}}",
            f"topics: {{features: {scalar(topic_name(draft.name, FEATURES) + '.copied')}}}",
        ]
    copies = ", ".join(f"{role}: {scalar(topic_name(draft.name, role) + '.copied')}" for role in named)
    sources = ", ".join(f"{role}: {scalar(topic)}" for role, topic in named.items())
    return [
        f"# {_one_line(draft.rekey)}, so workers copy both topics by id:",
        f"rekey: {{{sources}}}",
        f"topics: {{{copies}}}",
    ]


def _about_partitions(draft: Draft) -> str:
    if draft.partitions == 1:
        return "of every topic; one partition has one model"
    if draft.task not in SINGLE:
        return "each partition has models of its own, which see its records only"
    return "all partitions learn one model; `learning: partition` gives each its own"


def _about_label(draft: Draft) -> str:
    if draft.label is None:
        return "scores from features alone"
    if draft.task == ANOMALY:
        return f"scores from features alone; {draft.label!r}, 1 of an anomaly, ranks the scores"
    if draft.clock is not None:
        return f"predicts {draft.label!r} as it is later: see label"
    what = listed(draft.classes, "classes") if draft.classes else "a number"
    return f"predicts {draft.label!r}, {what}"


def listed(values: Sequence[str], what: str) -> str:
    """ "3 values: a, b, c", and not more of them than a line holds."""
    shown = ", ".join(quoted(value[:30]) for value in values[:MOST_SHOWN])
    return f"{len(values):,} {what}: {shown}{', …' if len(values) > MOST_SHOWN else ''}"


def _path(path: Path | str | int | None) -> str:
    """A path, or the text that stands for one, as the stream file has it."""
    if isinstance(path, int):
        return str(path)
    if path is None or isinstance(path, str):
        return "null" if path is None else quoted(path)
    if path and parse(dotted(path)) != path:
        return f"[{', '.join(part[1:-1] if isinstance(part, Index) else quoted(part) for part in path)}]"
    return scalar(dotted(path))


def _places(draft: Draft) -> list[str]:
    """Sections `record` and `label`, or what a record looks like by default."""
    lines = [f"# {_one_line(hint)}" for hint in draft.hints]
    for section, fields in (("record", draft.record), ("label", draft.label_record)):
        if fields:
            lines.append(f"{section}: {{{', '.join(f'{key}: {_path(value)}' for key, value in fields.items())}}}")
    if draft.keys:
        keys = ", ".join(
            f"{scalar(name)}: {{from: {_path(at)}, max: {MOST_SERIES}}}" for name, at in draft.keys.items()
        )
        lines.append(f"keys: {{{keys}}}")
    return [*lines, ""] if lines else []


def _features(draft: Draft) -> list[str]:
    lines = ["features:"]
    for feature in draft.features:
        value = feature.type
        more = ["text: true"] if feature.in_text else []
        more += [] if feature.max_values is None else [f"max_values: {feature.max_values}"]
        more += [] if feature.path is None else [f"from: {_path(feature.path)}"]
        if more:
            value = f"{{{', '.join([f'type: {feature.type}', *more])}}}"
        lines.append(_line(f"  {'# ' if feature.dropped else ''}{scalar(feature.name)}: {value}", feature.remark))
    return [*lines, *_keys(draft)]


def proposed(draft: Draft) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, Any]]]:
    """Features over the past of keys, and these keys, as a stream file has them. Of a stream of several partitions
    those that labels change: all records of a key come to one where the topics are copied by it."""
    found = [one for one in draft.features if one.n_keys is not None and "/" not in one.name]
    alone, labelled = draft.partitions == 1, draft.label is not None and draft.task != ANOMALY
    if draft.task == MULTI_INSTANCE or not (alone or (labelled and draft.task in SINGLE)):
        return {}, {}
    taken, features, keys = {one.name for one in draft.features}, dict[str, dict[str, str]](), dict[str, Any]()
    number = next((one.name for one in draft.features if one.type == NUMERIC and not one.dropped), None)

    def add(key: str, what: str, **aggregate: str) -> None:
        name = f"{key}_{what}"
        while name in taken:
            name += "_"
        taken.add(name)
        features[name] = aggregate

    for one in found:
        if alone:
            add(one.name, "count", count=one.name, half_life="7d")
            if number is not None:
                add(one.name, "mean", mean=number, by=one.name, half_life="7d")
        if labelled and draft.classes:
            rare = draft.classes[-1] if draft.rarest is None else draft.rarest[0]
            add(one.name, "share", share=rare, by=one.name, half_life="30d")
        elif labelled:
            add(one.name, "label", mean=LABEL, by=one.name, half_life="30d")
        keys[one.name] = {} if one.path is None else {"from": one.path}
        keys[one.name]["max"] = min(round_figure(4 * (one.n_keys or 1)), MOST_KEYS)
    return features, keys


def of_labels(features: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Names of those that labels change."""
    return [name for name, one in features.items() if "share" in one or one.get("mean") == LABEL]


def _keys(draft: Draft) -> list[str]:
    """Keys, and features over their past, as comments."""
    features, keys = proposed(draft)
    if not keys:
        return []
    lines, labelled = list[str](), of_labels(features)
    for name, one in features.items():
        remark = "of its labels that have come" if name in labelled else ""
        remark = "its records, each worth half after 7 days" if "count" in one else remark
        written = ", ".join(
            f"{field}: {value if field == 'half_life' else scalar(value)}" for field, value in one.items()
        )
        lines.append(_line(f"  # {scalar(name)}: {{{written}}}", remark))
    wanted = []
    for name, key in keys.items():
        path = f"from: {_path(key['from'])}, " if "from" in key else ""
        wanted.append(f"{scalar(name)}: {{{path}max: {key['max']}}}")
    hints = [
        "Without their #, the last features and the next line give each record what is known of its key's past",
        "(docs/build/keys.md). What that brings, above all the labels, is not known before it is tried:",
        "evaluate the file with and without, by --stream and --time."
        + (" A share needs the line classes below." if draft.classes else ""),
        *draft.brought,
    ]
    if draft.partitions > 1 and draft.silent is not None:
        hints.append("Beside join.unlabelled they need learning: partition, too.")
    if draft.partitions > 1:
        hints.append("A key's counts and means need its records in one partition (docs/build/keys.md).")
    return [*lines, *(f"# {_one_line(hint)}" for hint in hints), f"# keys: {{{', '.join(wanted)}}}"]


def _is_rare(share: float, n_classes: int) -> bool:
    """Whether a decision is about this class; of many classes most are rare."""
    return n_classes <= MOST_SHOWN and share < min(RARE, 0.25 / n_classes)


def _of_rare(text: str, share: float, what: str) -> list[str]:
    """What finds a class that is hardly ever the likeliest one."""
    rate = float(f"{min(max(2.0 * share, 1e-4), 0.5):.1g}")
    return [
        f"# {_one_line(quoted(text))} is {100 * share:.2g} % of the {what}, so it may never be the likeliest class.",
        f"# Without its #, the next line names it for {100 * rate:.2g} % of the records, those where it is likeliest,",
        "# and the line after it judges by enough of them; docs/build/rare-classes.md has other ways.",
        f"# decision: {{class: {scalar(text)}, alert_rate: {rate:g}}}",
        f"# metrics: {{window: {long_enough(share)}}}  # labels, of which some hundred are {_one_line(quoted(text))}",
    ]


def _models(draft: Draft) -> list[str]:
    classes = f"classes: [{', '.join(map(scalar, draft.classes))}]"
    lines = []
    if draft.task == MULTI_INSTANCE:
        lines += [classes, "champion: stochastic-gradient-tree"]
    else:
        if draft.silent is not None:
            lines.append(_line(classes, f"{draft.silent}: what gets no label; all that came were the other"))
        elif 2 <= len(draft.classes) <= MOST_SHOWN:
            lines.append(_line(f"# {classes}", "without the first #: any other label is rejected"))
        if draft.rarest is not None and draft.task != ANOMALY and _is_rare(draft.rarest[1], len(draft.classes)):
            lines += _of_rare(*draft.rarest, "labels" if draft.silent is None else "records")
        if len(draft.classes) > MOST_CLASSES:
            lines.append(_line(f"max_classes: {len(draft.classes)}", "as many as were seen"))
        longest = max((len(quoted_bytes(one)) for one in draft.classes), default=0)
        if longest > CLASS_BYTES:
            lines.append(_line(f"max_class_bytes: {longest}", "the longest class that was seen"))
        auto = (
            "half-space trees"
            if draft.task == ANOMALY
            else "a pool of learners that fits 64 MB and 100 µs per instance"
        )
        if draft.max_bytes is None:
            lines.append(_line("champion: auto", f"{auto}; `riparian models` lists others"))
        else:
            why = "what fits this, which is more than usual, since there are many features"
            lines.append(_line(f"champion: {{model: auto, max_bytes: {draft.max_bytes}}}", why))
        if draft.task == ANOMALY:
            most = f"`alert` is true for the {100 * ALERTS:g} % of greatest score; docs/build/anomalies.md#alerts"
            lines.append(_line(f"decision: {{alert_rate: {ALERTS:g}}}", most))
    if draft.silent is not None:
        return [*lines, *_silence(draft)]
    return lines if draft.label is None else [*lines, _horizon(draft.late)]


def _watch(draft: Draft) -> list[str]:
    """What sees a field that was renamed, or goes missing, without labels; data with a period need a window by it."""
    if draft.task == MULTI_INSTANCE:
        return []
    return [_line("# drift: {distributions: true}", "alerts where values change, or go missing: docs/build/drift.md")]


def _silence(draft: Draft) -> list[str]:
    """What is said of records without a label, where all labels are of one class."""
    silent, late = scalar(draft.silent), draft.late or 0.0
    after, horizon = "14d", f"{max(60, 2 * math.ceil(late / DAY))}d"
    if draft.after is not None:
        after, horizon = format_duration(draft.after), format_duration(max(4 * draft.after, 3600.0))
    seen = "" if draft.late is None else f": those seen came up to {rounded_up(late)} later"
    has_null = "is" not in draft.label_record and draft.topics.get(LABELS, "") is not None
    null = "" if not has_null else " One that can never get a label, as it was blocked, needs a null."
    return [
        f"# A record without a label is learned as {_one_line(silent)} after {after}; a later one corrects it",
        f"# (docs/build/late-labels.md). By then most labels should have come{seen}.{null}",
        f"join: {{horizon: {horizon}, unlabelled: {{is: {silent}, after: {after}}}}}",
    ]


def _horizon(late: float | None) -> str:
    """Seven days, or twice what was seen."""
    waits = "how long an instance waits for its label"
    if late is None or 2 * late <= 7 * DAY:
        return _line("join: {horizon: 7d}", waits)
    days = -(-late // DAY)
    return _line(
        f"join: {{horizon: {2 * days:.0f}d}}", f"{waits}: those that were seen came up to {days:.0f} days late"
    )
