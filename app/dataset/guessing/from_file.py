"""A stream guessed from a data file: types of features, the label, and the columns from which a model cannot learn.

If something is not clear, it is not guessed: a `DataError` asks for the option that decides it. Columns are judged as
`riparian evaluate` judges them (`app.dataset.column.Column`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, NamedTuple

from riparian.app.dataset.column import MOST_TEXTS, MOST_VALUES, Column
from riparian.app.dataset.files.data import LIKE_A_DATE, MOST_NOMINAL, NUMBERS_ALONE, DataFile
from riparian.app.dataset.files.data import task_of as task_of_column
from riparian.app.errors import DataError
from riparian.app.stream_file.draft import Draft, DraftFeature, listed, most_values, quoted, quoted_bytes
from riparian.app.stream_file.sections.base import NAME
from riparian.topics.decoding.paths import check_path
from riparian.topics.records import (
    ANOMALY,
    BOOLEAN,
    CLASSIFICATION,
    MULTI_INSTANCE,
    NOMINAL,
    NUMERIC,
    REGRESSION,
    VALUES,
    Path,
)
from riparian.topics.vocabulary import MAX_TEXT

LABELS = frozenset(
    {"label", "class", "target", "y", "outcome", "fraud", "fraudulent", "churn", "churned", "default", "defaulted"}
    | {"click", "clicked", "converted", "conversion", "purchased", "bought", "survived", "anomaly"}
    | {"fail", "failed", "failure", "fault", "faulty"}
)
IDS = ("id", "uuid", "guid", "key", "index", "rowid", "unnamed: 0")
# Whose records these may be, by the last word of a column's name: features may be over a past of theirs.
KEYS = frozenset(
    {"card", "customer", "client", "user", "account", "terminal", "merchant", "device", "member", "session", "seller"}
    | {"buyer", "store", "vehicle", "sensor", "station", "machine", "player", "patient", "iban", "id", "uuid"}
)
SENSORS = frozenset({"sensor", "station", "machine", "device", "vehicle", "meter", "turbine", "pump"})
PEOPLE = frozenset({"user", "customer", "client", "member", "account", "card", "session", "buyer", "seller"})
MOST_REASONS = 10  # columns left out that a sentence names, at most
FEW = 20  # whole numbers of so few values may be codes
OFTEN = 10  # rows of each text, on average: a feature may be made of a column that is left out
OTHER = "other", "none"
SILENT = {"1": "0", "true": "false", "yes": "no"}  # the class of all labels -> that of records without one
TRUTHS = {"true", "false"}
TIMES = {"time", "timestamp", "at", "date", "datetime", "ts"}
_ENDING = re.compile(r"(\.[ct]sv)?(\.(gz|bz2|xz|zip))?$")
EPOCH_SECONDS, EPOCH_MILLISECONDS = 5e8, 5e11  # numbers of a column called a time, from 1985 on


def words(name: str) -> list[str]:
    """ "customerId", "customer_id" and "Customer-ID" to ["customer", "id"]."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).lower().replace("_", " ").replace("-", " ").split()


def is_called_label(name: str) -> bool:
    """Whether a name means a label: class, is_fraud, isFraud."""
    lower = name.lower().replace("_", "").replace("-", "")
    return lower in LABELS or lower.removeprefix("is") in LABELS or lower.removeprefix("has") in LABELS


def likely_label(names: Sequence[str]) -> str | None:
    """The one name that means a label; else the last name of which a part does; None where that is not clear."""
    named = [name for name in names if is_called_label(name)]
    if named:
        return named[0] if len(named) == 1 else None
    return names[-1] if names and set(words(names[-1])) & LABELS else None


def is_id(name: str, column: Column) -> bool:
    """Whether a column is an id, by its name, and its values do not contradict that."""
    called = name.lower() in IDS or words(name)[-1:] in (["id"], ["uuid"])
    return called and not column.fractional and (not column.values or len(column) * 2 > column.n)


def is_key(name: str, column: Column) -> bool:
    """Whether a column says whose record a row is, such as a card: by the last word of its name, and by its many values
    that come again."""
    called = not KEYS.isdisjoint(words(name)[-1:])
    return called and column.repeats and len(column) > FEW and not (column.fractional or column.grows)


def is_time(name: str, column: Column) -> bool:
    """Whether a column holds times: as texts, or as numbers since 1970 under a name that means a time."""
    return column.is_time or (
        column.numeric and bool(TIMES & set(words(name))) and float(column.first or 0.0) > EPOCH_SECONDS
    )


def judge(name: str, column: Column, path: Path | None = None, may_be_key: bool = True) -> DraftFeature:
    """One feature, or why the column is not one. may_be_key : whether it may be a key, too."""

    def left_out(kind: str, remark: str, most: int | None = None) -> DraftFeature:
        return DraftFeature(name, kind, f"left out: {remark}", True, path, most)

    kind = NUMERIC if column.numeric else NOMINAL
    try:
        check_path(path or (name,))
    except ValueError:
        return left_out(kind, "no record may have a field of this name, so rename it")
    if not len(column):
        return left_out(kind, "it is empty everywhere")
    if len(column) == 1:
        return left_out(kind, f"it is {quoted(column.values[0][:40])} everywhere")
    if not column.numeric and max(map(len, column.values), default=0) > MAX_TEXT:
        return left_out(kind, f"it has texts of more than {MAX_TEXT:,} characters, which no record may have")
    if may_be_key and is_key(name, column) and not is_time(name, column):
        values = len(column) if len(column) < MOST_VALUES else MOST_VALUES
        remark = "it says whose record a row is, which is a key and no feature: see below"
        return left_out(kind, remark, most_values(len(column)))._replace(n_keys=values)
    if is_id(name, column):
        return left_out(kind, "it looks like an id, which teaches a model nothing")
    if is_time(name, column):
        return left_out(kind, "it holds times, which no later row repeats")
    if column.grows:
        return left_out(
            kind, "it grows from row to row, as ids and clocks do; what is learned of it holds for no later one"
        )
    if column.numeric:
        codes = not column.fractional and len(column) <= FEW
        return DraftFeature(
            name, kind, f"{len(column)} whole numbers; nominal, if they are codes" if codes else "", path=path
        )
    if {value.lower() for value in column.values} == TRUTHS:
        return DraftFeature(name, BOOLEAN, path=path)
    if len(column) > MOST_NOMINAL or (len(column) >= MOST_TEXTS and len(column) > 0.9 * column.n):
        example = quoted((column.example or "")[:30])
        if column.mostly_numbers:
            return left_out(NUMERIC, f"it holds numbers and texts such as {example}, where a number is expected")
        most = most_values(len(column)) if len(column) <= column.n // OFTEN else None
        dates = ", and times are written as 2026-11-21T12:00:00" if LIKE_A_DATE.match(column.example or "") else ""
        return left_out(
            NOMINAL, f"it has {len(column):,} texts such as {example}; nominal features have few{dates}", most
        )
    remark = listed(column.values, "values")
    if column.mostly_numbers:
        example = quoted((column.example or "")[:30])
        remark = f"{len(column):,} values, most of them numbers: numeric, if nothing is written in place of {example}"
    return DraftFeature(name, NOMINAL, remark, path=path, max_values=most_values(len(column)))


def stream_name(text: str) -> str:
    """A name for a stream, of the name of a file."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")
    return name if NAME.fullmatch(name) else "stream"


def of_file(
    file: DataFile,
    *,
    name: str | None = None,
    label: str | None = None,
    task: str | None = None,
    nominal: Sequence[str] = (),
    ignore: Sequence[str] = (),
    bag: str | None = None,
) -> Draft:
    """A stream for a file. label, task, nominal, ignore, bag : what is known already.

    Raises
    ------
    DataError
        It is not clear which column is the label, or no feature is left.
    """
    for known, role in ((label, "the label"), (bag, "the bag of a row")):
        if known is not None:
            file.position(known, role)
    columns, n = file.look(nominal=nominal, ignore=[*ignore, *([] if bag is None else [bag])], target=label)
    where = str(file.path)
    label = label or likely_label(list(columns))
    later = forecast_of(columns) if label is None and task in (None, REGRESSION) and bag is None else None
    if later is None:
        label = settle(label, list(columns), where, task)
    goal = None if label is None else columns.pop(label)
    features = [
        judge(one, column, may_be_key=bag is None and one not in (*nominal, *ignore)) for one, column in columns.items()
    ]
    moments = None
    for at, feature in enumerate(features):
        column = columns[feature.name]
        if is_time(feature.name, column) and (column.is_time or float(column.first) < EPOCH_MILLISECONDS):
            parts = f"{feature.name}_hour and {feature.name}_weekday"
            hour = f"; --date-parts {quote(feature.name)} makes {parts} of it"
            features[at] = feature._replace(remark=feature.remark + hour)
            moments = moments or feature.name
    check_left(features, label, where)
    found, classes = ANOMALY if later is None else REGRESSION, list[str]()
    silent = None if goal is None or bag is not None or goal.n == n else silent_class(goal, task)
    if goal is not None and silent is not None:
        found, classes = CLASSIFICATION, [silent, goal.first]
    elif label is not None and goal is not None:
        found, classes = task_of(goal, label, task if bag is None else CLASSIFICATION, where)
    shown = {f.name: _example(columns[f.name]) for f in features if not f.dropped}
    rare = rarest(goal, classes) if bag is None and silent is None and goal is not None else None
    if goal is not None and silent is not None:
        rare = goal.first, goal.n / n
    stream = name or stream_name(_ENDING.sub("", file.path.name))
    x = json.dumps(shown, ensure_ascii=False)
    hints = [
        "Records as `riparian replay` makes them of the file, the id being the number of the row:",
        f'  {stream}.features  {{"id": "17", "x": {x if len(x) <= 80 else x[:78] + " …}"}}}',
    ]
    if goal is not None:
        hints.append(f'  {stream}.labels    {{"id": "17", "y": {json.dumps(_example(goal), ensure_ascii=False)}}}')
    forecast: dict[str, Any] = {}
    if later is not None:
        by = next((one for one in features if one.name == later.by), None)
        features = [one._replace(type=NOMINAL) if one is by else one for one in features]
        keyed = {} if by is None else {"by": by.name}
        forecast = {"label_record": {"of": later.of, "ahead": "1h", **keyed}, "clock": later.clock}
        forecast |= {"label": later.of, "record": {}}
        hints.append(f"No column is called as labels are: the label is a later {later.of} (docs/build/forecasts.md)")
    draft = Draft(
        name=stream,
        source=f"{n:,} rows of {file.path.name}",
        task=MULTI_INSTANCE if bag is not None else found,
        label=label,
        features=features,
        classes=classes if bag is None else sorted(classes),
        rarest=rare,
        silent=silent,
        topics={} if goal is not None else {"labels": None},
        record={} if goal is not None else {"y": None},
        hints=hints if bag is None else (),
        moments=moments,
    )
    return draft._replace(**forecast)


class Later(NamedTuple):
    """Columns of a forecast: what is forecast, whose it is, and the time."""

    of: str
    by: str | None
    clock: str


def forecast_of(columns: Mapping[str, Column], clock: str | None = None) -> Later | None:
    """What may be forecast where no column is the label: the first number that is no code, of rows that have a time,
    and numbers beside it alone, or something that measures. clock : that gives them theirs."""
    clock = clock or next((name for name, column in columns.items() if is_time(name, column)), None)
    rest = {name: column for name, column in columns.items() if not is_time(name, column) and not column.grows}
    of = next((name for name, one in rest.items() if one.numeric and one.fractional and len(one) > FEW), None)
    whose = [
        name
        for name, one in rest.items()
        if not SENSORS.isdisjoint(words(name)[-1:]) and one.repeats and not one.fractional and "/" not in name
    ]
    of_people = any(not PEOPLE.isdisjoint(words(name)[-1:]) for name in rest)  # whose phone is no sensor
    if clock is None or of is None or of_people or not (whose or all(one.numeric for one in rest.values())):
        return None
    return Later(of, whose[0] if whose else None, clock)


def settle(label: str | None, names: Sequence[str], where: str, task: str | None) -> str | None:
    """The label, which anomalies may do without."""
    if label is None and task != ANOMALY:
        listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        raise DataError(
            f"it is not clear which of the columns of {where} is the label: name it by --label ({listed}), or "
            "say --task anomaly where there is none"
        )
    return label


def check_left(features: Sequence[DraftFeature], label: str | None, where: str) -> None:
    if all(feature.dropped for feature in features):
        beside = "" if label is None else f" beside the label {label!r}"
        why = [f"{one.name!r} is {one.remark}" for one in features[:MOST_REASONS]]
        more = "" if len(features) <= MOST_REASONS else f"; and {len(features) - MOST_REASONS:,} more"
        raise DataError(
            f"{where} has no feature left{beside}: expected a column of numbers, or of few texts"
            + (f" ({'; '.join(why)}{more})" if why else "")
        )


def task_of(goal: Column, label: str, task: str | None, where: str) -> tuple[str, list[str]]:
    """Task and classes."""
    if len(goal) < 2:
        raise DataError(
            f"column {label!r} of {where} has {len(goal)} value: name another --label, or show more records; where a "
            "record without a label is of another class, leave that of such rows empty (docs/build/late-labels.md)"
        )
    found = task_of_column(goal, label, task, where, "--label")
    if found in VALUES:
        return found, []
    if len(goal) > MOST_NOMINAL:
        example = (goal.example or goal.first)[:40]
        raise DataError(
            f"column {label!r} of {where} has {len(goal):,} values, such as {example!r}: name another --label; "
            f"{NUMBERS_ALONE}"
        )
    classes = goal.values + goal.instead
    long = next((one for one in classes if len(quoted_bytes(one)) > MAX_TEXT), None)
    if long is not None:
        raise DataError(
            f"column {label!r} of {where} has a class of {len(long):,} characters, such as {long[:40]!r}: expected "
            f"{MAX_TEXT:,} at most, so shorten it, or name another --label"
        )
    return found, classes


def silent_class(goal: Column, task: str | None) -> str | None:
    """The class of records without a label, where all labels that come are of one; None where they are of several."""
    if len(goal) != 1 or task not in (None, CLASSIFICATION):
        return None
    return SILENT.get(goal.first.lower(), OTHER[goal.first == OTHER[0]])


def rarest(goal: Column, classes: Sequence[str]) -> tuple[str, float] | None:
    """The class that the fewest labels have, and their share."""
    found = [(goal.share(value), value) for value in classes]
    return (min(found)[1], min(found)[0]) if found else None


def _example(column: Column) -> Any:
    """A value of a column as JSON has it."""
    if not column.numeric:
        return column.first
    return float(column.first) if column.fractional else int(float(column.first))
