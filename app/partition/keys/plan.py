"""What a stream file's features over a key's past are made of, as numbers that a kernel goes by."""

from typing import NamedTuple

import numpy as np

from riparian.app.partition.join.ids import Ints
from riparian.app.partition.keys.fold import (
    AT,
    BEGIN,
    COLUMNS,
    COUNT,
    KIND,
    LABEL_LAST,
    LABEL_MEAN,
    LAST,
    MEAN,
    OF_AGGREGATE,
    OUT,
    SHARE,
    SINCE,
)
from riparian.app.stream_file.sections.keys import labelled_keys
from riparian.app.stream_file.sections.record import FeatureSpec
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats
from riparian.topics.vocabulary import canonical

KINDS = {"count": COUNT, "mean": MEAN, "last": LAST, "since": SINCE, "share": SHARE}
OF_LABELS = {"mean": LABEL_MEAN, "last": LABEL_LAST, "share": SHARE}
EVER = 2**62
UNCOUNTED = 10**9, EVER  # bounds of a key that labels count for no longer: more than a stream file may say


class Plan(NamedTuple):
    """Of one key.

    most, idle : as `app.partition.keys.fold.fold` takes them, and records, labels, blank.
    """

    most: int
    idle: int
    records: Ints
    labels: Ints
    blank: Floats


class Ratio(NamedTuple):
    """A feature that is made of two others. Each is a column of aggregates or, below -1, of x: -2 is its column 0.

    out, above, below : columns.
    """

    out: int
    above: int
    below: int


def outs_of(spec: Spec) -> dict[str, int]:
    """Feature over the past of a key -> its column among these."""
    return {name: i for i, name in enumerate(name for name, one in spec.features.items() if one.past is not None)}


def plan(spec: Spec, name: str, of_labels: bool | None = None) -> Plan:
    """Of one key. of_labels : whether it has the features that labels change, or those that records change; None :
    all."""
    columns, key, outs = {feature: j for j, feature in enumerate(spec.features)}, spec.keys[name], outs_of(spec)
    records, labels, at = list[list[int]](), list[list[int]](), BEGIN
    last = [*range(BEGIN)]  # columns that are missing until there is something
    for feature, one in sorted(spec.made.items()):  # by name: a stream file may order them anew
        if one.past == "ratio" or one.key != name or of_labels not in (None, one.of_labels):
            continue
        kind = (OF_LABELS if one.of_labels else KINDS)[str(one.past)]
        half_life = 0 if one.half_life is None else round(one.half_life * 1000)
        found = [kind, _source(spec, one, columns), half_life, at, outs[feature], one.smooth]
        (labels if one.of_labels else records).append(found)
        last += [at] if COLUMNS[kind] else []
        at += COLUMNS[kind]
    blank = np.zeros(at)
    blank[last] = np.nan
    idle = EVER if key.idle is None else int(key.idle * 1000)
    return Plan(key.max, idle, _table(records), _table(labels), blank)


def columns_of(plan: Plan) -> dict[int, range]:
    """Column of what is written of an aggregate -> its columns of a row."""
    rows = (*plan.records, *plan.labels)
    return {int(row[OUT]): range(row[AT], row[AT] + COLUMNS[row[KIND]]) for row in rows}


def kept_of(was: Plan, now: Plan) -> tuple[list[int], list[int]]:
    """Columns of a row by one plan, and those by another one that have the same."""
    before, after = columns_of(was), columns_of(now)
    both = [out for out in before if out in after]
    old, new = ([*range(BEGIN), *(j for out in both for j in of[out])] for of in (before, after))
    return old, new


def bounds_of(spec: Spec) -> list[tuple[int, int]]:
    """Of each key that labels count for, by name: how many are known at most, and for how many ms one may be idle."""
    plans = {name: plan(spec, name) for name in spec.keys}
    bounds = {name: (one.most, one.idle) for name, one in plans.items()}
    return [bounds.get(name, UNCOUNTED) for name in labelled_keys(spec.features)]


def _source(spec: Spec, one: FeatureSpec, columns: dict[str, int]) -> int:
    if one.share is not None:
        return list(map(canonical, spec.classes or ())).index(canonical(one.share))
    return columns.get(one.mean or one.last or "", -1)


def _table(rows: list[list[int]]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, OF_AGGREGATE)


def ratios(spec: Spec) -> list[Ratio]:
    """All ratios of a stream."""
    outs = outs_of(spec)
    columns = {feature: -2 - j for j, feature in enumerate(spec.features)} | outs
    return [
        Ratio(outs[name], columns[str(one.ratio)], columns[str(one.to)])
        for name, one in spec.made.items()
        if one.past == "ratio"
    ]
