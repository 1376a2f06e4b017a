"""What a stream file's features over a key's past are made of, as numbers that a kernel goes by."""

from typing import NamedTuple

import numpy as np

from riparian.app.partition.join.ids import Ints
from riparian.app.partition.keys.fold import (
    BEGIN,
    COLUMNS,
    COUNT,
    LABEL_LAST,
    LABEL_MEAN,
    LAST,
    MEAN,
    OF_AGGREGATE,
    SHARE,
    SINCE,
)
from riparian.app.stream_file.sections.record import FeatureSpec
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Floats
from riparian.topics.vocabulary import canonical

KINDS = {"count": COUNT, "mean": MEAN, "last": LAST, "since": SINCE, "share": SHARE}
OF_LABELS = {"mean": LABEL_MEAN, "last": LABEL_LAST, "share": SHARE}
EVER = 2**62


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


def plan(spec: Spec, name: str, outs: dict[str, int]) -> Plan:
    """outs : feature -> its column among those over the past of keys."""
    columns, key = {feature: j for j, feature in enumerate(spec.features)}, spec.keys[name]
    records, labels, at = list[list[int]](), list[list[int]](), BEGIN
    last = [*range(BEGIN)]  # columns that are missing until there is something
    for feature, one in sorted(spec.features.items()):  # by name: a stream file may order them anew
        if one.past in (None, "ratio") or one.key != name:
            continue
        of_labels = one.of_labels
        kind = (OF_LABELS if of_labels else KINDS)[str(one.past)]
        half_life = 0 if one.half_life is None else round(one.half_life * 1000)
        found = [kind, _source(spec, one, columns), half_life, at, outs[feature], one.smooth]
        (labels if of_labels else records).append(found)
        last += [at] if COLUMNS[kind] else []
        at += COLUMNS[kind]
    blank = np.zeros(at)
    blank[last] = np.nan
    idle = EVER if key.idle is None else int(key.idle * 1000)
    return Plan(key.max, idle, _table(records), _table(labels), blank)


def _source(spec: Spec, one: FeatureSpec, columns: dict[str, int]) -> int:
    if one.share is not None:
        return list(map(canonical, spec.classes or ())).index(canonical(one.share))
    return columns.get(one.mean or one.last or "", -1)


def _table(rows: list[list[int]]) -> Ints:
    return np.array(rows, np.int64).reshape(-1, OF_AGGREGATE)


def ratios(spec: Spec, outs: dict[str, int]) -> list[Ratio]:
    """All ratios of a stream."""
    columns = {feature: -2 - j for j, feature in enumerate(spec.features)} | outs
    return [
        Ratio(outs[name], columns[str(one.ratio)], columns[str(one.to)])
        for name, one in spec.features.items()
        if one.past == "ratio"
    ]
