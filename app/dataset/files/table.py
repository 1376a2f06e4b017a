"""A data file as a whole, in memory. Cross-validations and bags of instances need that; a stream needs rows only.

In a file of bags a row is an instance, and a column says which bag it is of; the rows of a bag follow each other and
have one label. Classes are in the order of their texts, so for bags the negative class is the one that sorts first ("0"
of "0" and "1", "no" of "no" and "yes"); nominal values have codes in order of first sight.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from riparian.app.dataset.files.data import MOST_CLASSES, MOST_NOMINAL, DataFile, Floats
from riparian.app.errors import DataError
from riparian.models.contract import Bags, Schema
from riparian.models.entry import MULTI_INSTANCE
from riparian.topics.records import CLASSIFICATION, NUMERIC, VALUES


class Table(NamedTuple):
    """n rows, or bags.

    x : (n, d) float64, or Bags
    y : (n,) class codes or targets
    classes : texts, empty for a regression
    ids : of bags
    features : name -> "numeric" or "nominal"
    values : of the nominal ones, by code
    target : name of the column of y
    remarks : sentences on what was inferred and may not be meant
    """

    x: Floats | Bags
    y: Floats
    schema: Schema
    classes: list[str]
    ids: list[str]
    features: dict[str, str]
    values: dict[str, list[str]]
    target: str
    remarks: Sequence[str] = ()

    def take(self, rows: np.ndarray) -> Floats | Bags:
        """x of some of them."""
        return self.x.take(rows) if isinstance(self.x, Bags) else self.x[rows]


def read_table(
    file: DataFile,
    *,
    bag: str | None = None,
    target: str | None = None,
    task: str | None = None,
    nominal: Sequence[str] = (),
    ignore: Sequence[str] = (),
    max_values: int = MOST_NOMINAL,
    limit: int | None = None,
) -> Table:
    """The rows of a file that have a label; with `bag`, the column that says so, its bags. The rest as in
    `DataFile.types`.

    Raises
    ------
    DataError
        A cell or a row is not what it should be; a bag has several labels, or comes in two places.
    """
    if bag is not None:
        file.position(bag, "the bag of a row")
        if target is None and bag != "label" and "label" in file.names:
            target = "label"
    if bag is not None and bag == target:
        raise DataError(f"column {bag!r} of {file.path} would be the bag and the target: name the target by --label")
    types = file.types(
        target=target,
        task=CLASSIFICATION if bag is not None else task,
        nominal=nominal,
        ignore=ignore if bag is None else [*ignore, bag],
        max_values=max_values,
        limit=limit,
    )
    if types.n_classes > MOST_CLASSES:
        raise DataError(f"column {types.target!r} of {file.path} has {types.n_classes} classes: use --task regression")
    features = types.features
    columns = [*features, types.target, *([] if bag is None else [bag])]
    codes: dict[str, dict[str, int]] = {name: {} for name, kind in features.items() if kind != NUMERIC}
    x: list[Floats] = []
    labels: list[str | None] = []
    owners: list[str] = []
    lines: list[int] = []
    for block in file.blocks([file.position(name, "a feature") for name in columns], limit):
        part = np.empty((len(block), len(features)))
        for j, name in enumerate(features):
            if name in codes:
                known = codes[name]
                part[:, j] = [
                    math.nan if v is None else known.setdefault(v, len(known)) for v in file.values(block, j, name)
                ]
            else:
                part[:, j] = file.numbers(block, j, name)
        x.append(part)
        if types.task in VALUES:
            labels += [None if v != v else repr(v) for v in file.numbers(block, len(features), types.target).tolist()]
        else:
            labels += file.values(block, len(features), types.target)
        lines += block.lines
        if bag is not None:
            owners += [text.strip() for text in block.columns[-1]]
    rows = np.concatenate(x)
    slab: Floats | Bags = rows
    if bag is not None:
        starts = _starts(file, owners, labels, lines, bag)
        slab = Bags.of(np.diff(starts, append=len(rows)), rows)
        labels, owners = [labels[i] for i in starts], [owners[i] for i in starts]
    kept = np.array([i for i, label in enumerate(labels) if label is not None])
    named = [label for label in labels if label is not None]
    slab = slab.take(kept) if isinstance(slab, Bags) else slab[kept]
    classes = [] if types.task in VALUES else sorted(set(named))
    if bag is not None and len(classes) != 2:
        raise DataError(f"column {types.target!r} of {file.path} has {len(classes)} classes: bags have two")
    place = {name: float(code) for code, name in enumerate(classes)}
    y = [float(v) if types.task in VALUES else place[v] for v in named]
    n_values = tuple(0 if kind == NUMERIC else max(1, len(codes[name])) for name, kind in features.items())
    goal = types.task if bag is None else MULTI_INSTANCE
    schema = Schema(n_values, 1 if goal in VALUES else max(2, len(classes)), goal)
    ids = [owners[i] for i in kept] if bag is not None else []
    values = {name: list(known) for name, known in codes.items()}
    return Table(slab, np.array(y), schema, classes, ids, features, values, types.target, types.remarks())


def _starts(file: DataFile, owners: list[str], labels: list[str | None], lines: list[int], bag: str) -> list[int]:
    """Where each bag begins."""
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(owners), 1) if a != b)]
    seen: dict[str, int] = {}
    for start, stop in pairwise([*starts, len(owners)]):
        owner = owners[start]
        if owner in seen:
            raise DataError(
                f"line {lines[start]} of {file.path} goes on with bag {owner!r}, which began in line {seen[owner]} and "
                f"ended: sort the rows by {bag!r}"
            )
        seen[owner] = lines[start]
        for i in range(start, stop):
            if labels[i] != labels[start]:
                raise DataError(
                    f"line {lines[i]} of {file.path} gives bag {owner!r} the label {labels[i]!r}, and line "
                    f"{lines[start]} gave it {labels[start]!r}: a bag has one"
                )
    return starts
