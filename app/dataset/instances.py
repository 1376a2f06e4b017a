"""Rows of a data file as a learner takes them: numbers and codes, and the moment of each row.

The codes of nominal values and classes are learned in the order of the rows, as a worker learns them. So several
learners of one stream can share what was read, and the vocabularies with it.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import NamedTuple

import numpy as np

from app.dataset.column import iso_time, texts
from app.dataset.data import Block, DataFile, Floats
from app.errors import DataError
from app.partition.learner import PartitionLearner
from app.partition.merge import Ints
from app.stream_file.spec import Spec
from topics.records import BOOLEAN, NUMERIC
from topics.vocabulary import Vocabulary


class Instances(NamedTuple):
    """Consecutive rows.

    first : number of the first one
    y : class codes or targets, NaN where there is no label
    times : (n,) int64, the moment of each row, never less than the one before: its number, or milliseconds
    until : earliest possible moment of the next row
    rejected : rows that the worker would reject, because they have a new value or class beyond the maximum; their x has
        no meaning. If only the label is rejected, y is NaN.
    labels_rejected : number of rejected labels
    sizes : of bags, how many rows of x each has, one bag after the other
    """

    first: int
    x: Floats
    y: Floats
    times: Ints
    until: int
    rejected: list[int]
    labels_rejected: int
    sizes: Ints | None = None


class InstanceReader:
    """Blocks of a file to instances.

    Parameters
    ----------
    file, spec, goal
        The data, the stream they stand for, and the name of the target column; None where there are no labels.
    learner : PartitionLearner
        Whose vocabularies are taught.
    clock : str, optional
        The column with the time of each row: seconds since 1970, or ISO 8601 (UTC where it says nothing else). A time
        before that of an earlier row counts as that one, as in a topic. Times are counted from the first row's.
        Without it the time of a row is its number.
    """

    def __init__(
        self, file: DataFile, spec: Spec, goal: str | None, learner: PartitionLearner, clock: str | None = None
    ) -> None:
        self.file, self.goal, self.learner, self.clock = file, goal, learner, clock
        self.features = [(name, feature.type) for name, feature in spec.features.items()]
        self.columns = [file.position(name, "a feature of the stream") for name, _ in self.features]
        if goal is not None:
            self.columns.append(file.target(goal)[1])
        if clock is not None:
            self.columns.append(file.position(clock, "the time of a row"))
        self._origin: int | None = None
        self._now = 0

    def read(self, limit: int | None, size: int) -> Iterator[Instances]:
        first = 0
        for block in self.file.blocks(self.columns, limit, size):
            yield self._instances(block, first)
            first += len(block)

    def _instances(self, block: Block, first: int) -> Instances:
        n = len(block)
        x = np.empty((n, len(self.features)))
        coded: list[tuple[int, list[str | None], Vocabulary]] = []
        for j, (name, kind) in enumerate(self.features):
            vocabulary = self.learner.vocabularies[j]
            if kind == NUMERIC:
                x[:, j] = self.file.numbers(block, j, name)
            elif kind == BOOLEAN:
                x[:, j] = [math.nan if v is None else float(v) for v in self.file.booleans(block, j, name)]
            elif vocabulary is not None:
                coded.append((j, texts(block.columns[j]), vocabulary))
        codes, rejected = encode([(values, vocabulary) for _, values, vocabulary in coded])
        for (j, _, _), column in zip(coded, codes, strict=True):
            x[:, j] = column
        classes, at, labels_rejected = self.learner.classes, len(self.features), 0
        if self.goal is None:
            y = np.full(n, np.nan)
        elif classes is None:
            y = self.file.numbers(block, at, self.goal)
        else:
            (labels,), unlabelled = encode([(texts(block.columns[at]), classes)])
            y, labels_rejected = np.array(labels), len(unlabelled)
        if self.clock is None:
            times, until = np.arange(first, first + n), first + n
        else:
            found = moments(self.file, block, at + (self.goal is not None), self.clock)
            if self._origin is None:
                self._origin = int(found[0])
            times = np.maximum.accumulate(np.maximum(found - self._origin, self._now))
            until = self._now = int(times[-1])
        return Instances(first, x, y, times, until, rejected, labels_rejected)


def moments(file: DataFile, block: Block, at: int, name: str) -> Ints:
    """Column `at` of `block` as (n,) int64 milliseconds since 1970. DataError with the line of what is no time."""
    column = block.columns[at]
    try:
        seconds = np.array(list(map(float, column)))
    except ValueError:
        seconds = np.array([_seconds(file, line, text, name) for text, line in zip(column, block.lines, strict=True)])
    wrong = np.flatnonzero(~(np.abs(seconds) < 1e12))
    if len(wrong):
        raise _no_time(file, block.lines[wrong[0]], column[wrong[0]], name)
    return np.round(seconds * 1000.0).astype(np.int64)


def _seconds(file: DataFile, line: int, text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    moment = iso_time(text)
    if moment is None:
        raise _no_time(file, line, text, name)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _no_time(file: DataFile, line: int, text: str, name: str) -> DataError:
    return DataError(
        f"line {line} of {file.path} has {text[:40]!r} in column {name!r}: expected a time, as seconds since 1970 or "
        "2026-11-21T12:00:00Z"
    )


def encode(columns: Sequence[tuple[list[str | None], Vocabulary]]) -> tuple[list[list[float]], list[int]]:
    """Codes of columns of values, NaN where missing, and the rows that were rejected.

    As the codec does it: row by row where there are new values, and a row that one vocabulary does not take is shown to
    none of them.
    """
    try:
        return [list(map(vocabulary.codes.__getitem__, values)) for values, vocabulary in columns], []
    except KeyError:
        pass
    rows: set[int] = set()
    for values, vocabulary in columns:
        new = set(values).difference(vocabulary.codes)
        rows.update(i for i, value in enumerate(values) if value in new)
    rejected = []
    for i in sorted(rows):
        found = [(values[i], vocabulary) for values, vocabulary in columns]
        if not all(value is None or vocabulary.admits(value) for value, vocabulary in found):
            rejected.append(i)
            continue
        for value, vocabulary in found:
            if value is not None:
                vocabulary.code(value)
    bad = set(rejected)
    return [
        [math.nan if i in bad else vocabulary.codes[value] for i, value in enumerate(values)]
        for values, vocabulary in columns
    ], rejected
