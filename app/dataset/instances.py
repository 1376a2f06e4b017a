"""Rows of a data file as a learner takes them: numbers and codes, and the moment of each row.

A row is decoded as a record is, by `topics.decoding.columns`: a file is a format of its own, so what a worker rejects
is rejected here, for the same reason. The codes of nominal values and classes are learned in the order of the rows, as
a worker learns them. So several learners of one stream can share what was read, and the vocabularies with it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.dataset.column import are_json_numbers, is_missing, number_of
from riparian.app.dataset.files.data import DataFile, Floats, Odd, RowBlock
from riparian.app.dataset.rows import JSON, cells_as_json, json_texts
from riparian.app.errors import DataError
from riparian.app.stream_file.sections.record import OFFSET
from riparian.app.stream_file.spec import Spec
from riparian.topics.decoding.columns import Bad, ColumnDecoder, no_record
from riparian.topics.decoding.headers import HeaderWriter
from riparian.topics.decoding.times import milliseconds
from riparian.topics.records import (
    BOOLEAN,
    NOMINAL,
    NOT_FINITE,
    NUMERIC,
    WRONG_LABEL,
    WRONG_TYPE,
    Feature,
    Mapping,
    Path,
    RawBatch,
    Rejected,
    Rows,
)
from riparian.topics.vocabulary import MISSING

if TYPE_CHECKING:
    from riparian.app.partition.learner import PartitionLearner

Ints = NDArray[np.int64]

ID: Path = ("id",)
NEVER = -1  # when no label comes
LONGEST_ESCAPE = 6  # characters that one of a text becomes in JSON, at most


class Instances(NamedTuple):
    """Consecutive rows.

    first : number of the first one
    y : class codes or targets, NaN where there is no label
    times : (n,) int64, the moment of each row, never less than the one before: its number, or milliseconds
    until : earliest possible moment of the next row
    rejected : rows that the worker would reject; their x has no meaning
    labels_rejected : likewise labels; their y is NaN
    sizes : of bags, how many rows of x each has, one bag after the other
    keys : as of `topics.records.Features`, also of rejected rows
    origin : ms since 1970 of time 0
    due : (n,) int64, when the label of each row comes, NEVER where none does; None where that is no column. A row with
        such a time and no label has a label that is null.
    """

    first: int
    x: Floats
    y: Floats
    times: Ints
    until: int
    rejected: Sequence[Rejected]
    labels_rejected: Sequence[Rejected]
    sizes: Ints | None = None
    keys: Sequence[Any] = ()
    origin: int = 0
    due: Ints | None = None


class Rejections:
    """What was rejected of a file, by reason."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}
        self._n_labels = 0  # that were taken

    def add(self, instances: Instances) -> None:
        self._n_labels += int(np.count_nonzero(~np.isnan(instances.y)))
        for of, rejected in (("rows", instances.rejected), ("labels", instances.labels_rejected)):
            for one in rejected:
                new = {"of": of, "reason": one.reason, "n": 0, "row": instances.first + one.position}
                self._found.setdefault((of, one.reason), new | {"detail": one.detail})["n"] += 1

    def result(self) -> dict[str, Any]:
        """rejected : how many rows and labels. rejections : of each kind, rows or labels and each reason, their number,
        and the number of the first row with what is wrong with it. Nothing where there are none. DataError where no
        label was taken."""
        found = list(self._found.values())
        labels = [one for one in found if one["of"] == "labels"]
        if labels and not self._n_labels:
            n, first = sum(one["n"] for one in labels), labels[0]
            raise DataError(
                f"each of {n:,} labels is rejected (row {first['row']:,}: {first['detail']}): name another by --label, "
                "or mend task or classes in the stream file"
            )
        return {"rejected": sum(one["n"] for one in found), "rejections": found} if found else {}


class _BlockRecords:
    """A block of rows: what stands at each path, and what is not of its type."""

    def __init__(
        self, n: int, x: Floats, columns: dict[Path, Any], written: Sequence[bytes] | None, wrong: Bad
    ) -> None:
        self.n, self.x, self.columns, self.written, self.wrong = n, x, columns, written, wrong

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> bytes:
        return b"" if self.written is None else self.written[i]


class _Format:
    """Reads these as `topics.decoding.columns` asks for it.

    max_bytes : largest record that is taken; largest : that came, of those that were written
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.largest = max_bytes, 0

    def decode(self, batch: RawBatch, bad: Bad) -> Any:
        records: _BlockRecords = batch.values
        for i, value in enumerate(records.written or ()):
            self.largest = max(self.largest, len(value))
            if (refused := no_record(value, self.max_bytes)) is not None:
                bad[i] = refused
        for i, refused in records.wrong.items():
            bad.setdefault(i, refused)
        return records

    def column(self, records: Any, path: Path) -> Any:
        return records.columns[path]

    feature = column

    def numbers(self, instances: Any) -> Floats:
        found: Floats = instances.x
        return found

    def missing(self, records: Any, path: Path) -> list[int]:
        return []

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        """Never: an empty cell is no label."""
        return False


class InstanceReader:
    """Blocks of a file to instances.

    Parameters
    ----------
    file, spec, goal
        The data, the stream they stand for, and the name of the target column; None where there are no labels. It is
        not read where labels are later values of a feature.
    learner : PartitionLearner, optional
        Whose vocabularies are taught; without it those of a stream that has learned nothing.
    clock : str, optional
        The column with the time of each row: seconds since 1970, or ISO 8601 (UTC where it says nothing else). A time
        before that of an earlier row counts as that one, as in a topic. Times are counted from the first row's.
        Without it the time of a row is its number.
    label_clock : str, optional
        The column with the time at which the label of each row comes, as `clock` has it.
    """

    def __init__(
        self,
        file: DataFile,
        spec: Spec,
        goal: str | None,
        learner: "PartitionLearner | None" = None,
        clock: str | None = None,
        label_clock: str | None = None,
    ) -> None:
        goal = goal if spec.label.of is None else None
        self.file, self.goal, self.clock, self.label_clock = file, goal, clock, label_clock
        self.vocabularies = spec.vocabularies() if learner is None else learner.vocabularies
        self.classes = spec.class_vocabulary() if learner is None else learner.classes
        mapping, self.form = spec.mapping(), _Format(spec.record.max_bytes)
        # Those that rows have; behind them what is read for keys alone, and the numbers of all in x.
        self.features = [(feature.name, feature.type) for feature in mapping.features]
        self._n_written, keys = len(self.features), list[int]()
        for name, at in zip(spec.keys, mapping.keys, strict=True):
            keys.append(len(self.features) if at is None else at)
            self.features += [(name, NOMINAL)] if at is None else []  # a file has no keys beside its rows
        recorded = spec.recorded
        self._own = [j for j, name in enumerate(spec.features) if name in recorded]
        self._n_features = len(spec.features)
        self.columns = [file.position(name, "a feature or key of the stream") for name, _ in self.features]
        if goal is not None:
            self.columns.append(file.target(goal)[1])
        if clock is not None:
            self.columns.append(file.position(clock, "the time of a row"))
        if label_clock is not None:
            self.columns.append(file.position(label_clock, "the time of a label"))
        self._origin: int | None = None
        self._now = 0
        self._inside = goal is not None and spec.topics.labels is None
        self._y: Path = (goal or "",)
        # Where every record of the topic is of one class, none says the others of the file: silence does.
        self._class = None if spec.join.assumed is None else spec.label.is_
        self._decoder = ColumnDecoder(
            Mapping(
                task=spec.task,
                features=tuple(Feature(name, kind, ("x", name)) for name, kind in self.features),
                x=(),
                id=ID,
                y=self._y if self._inside else None,
                label_id=ID,
                label_y=self._y,
                max_bytes=self.form.max_bytes,
                n_hidden=len(self.features) - len(self._own),
                keys=tuple(keys),
            ),
            self.form,
            self.form,
        )
        self._writer = spec.make_codec().writer(self._inside) if spec.codec.features == JSON else None
        self._headers = HeaderWriter(mapping, self._inside)
        self._label_writer = spec.make_codec().writer() if spec.codec.labels == JSON else None
        self._empty = 0  # bytes of a record without values
        self._before_number = "0@" if spec.record.id == OFFSET else ""  # as in a topic that holds the file

    def read(self, limit: int | None, size: int) -> Iterator[Instances]:
        texts = [name for name, kind in self.features if kind == NOMINAL]
        self.file.survey([*texts, *([] if self.goal is None or self.classes is None else [self.goal])], limit)
        first = 0
        for block in self.file.blocks(self.columns, limit, size):
            yield self._instances(block, first)
            first += len(block)

    def _instances(self, block: RowBlock, first: int) -> Instances:
        n, d, file = len(block), len(self.features), self.file
        x = np.full((n, d), np.nan)
        columns: dict[Path, Any] = {}
        wrong = Bad()
        for j, (name, kind) in enumerate(self.features):
            odd: Odd = {}
            if kind == NUMERIC:
                x[:, j] = file.numbers(block, j, name, odd)
            elif kind == BOOLEAN:
                x[:, j] = [math.nan if v is None else float(v) for v in file.booleans(block, j, name, odd)]
            else:
                columns["x", name] = file.values(block, j, name)
            for i, text in odd.items():
                wrong.setdefault(i, _wrong(name, kind, text))
        labels: Any = None
        odd = {}
        if self.goal is not None:
            plain = self.classes is None
            labels = file.numbers(block, d, self.goal, odd) if plain else file.values(block, d, self.goal)
        no_labels = {i: _wrong(self._y[0], NUMERIC, text, WRONG_LABEL) for i, text in odd.items()}
        if self._inside:
            columns[self._y] = labels
            for i, why in no_labels.items():
                wrong.setdefault(i, why)
        columns[ID] = [f"{self._before_number}{i}" for i in range(first, first + n)]
        records = _BlockRecords(n, x, columns, self._written(block, first, labels), wrong)
        vocabularies = [self.vocabularies[j] for j in self._own]
        found = self._decoder.decode_features(_batch(records), vocabularies, self.classes)
        y, labels_rejected = np.full(n, np.nan), list[Rejected]()
        kept = slice(None) if found.position is None else found.position
        if self._inside:
            y[kept] = np.nan if found.y is None else found.y
        elif labels is not None:
            y, labels_rejected = self._labels(labels, first, no_labels)
        if len(self._own) == d:
            x[kept] = found.x
        else:
            x = np.full((n, self._n_features), np.nan)
            x[np.arange(n)[kept, None], self._own] = found.x
        keys = [_of_all(column, found.position, n) for column in found.keys]
        if self.clock is None:
            times, until = np.arange(first, first + n), first + n
        else:
            moment = moments(file, block, d + (self.goal is not None), self.clock)
            if self._origin is None:
                self._origin = min(0, int(moment[0]))  # Kafka has no time before 1970
            times = np.maximum.accumulate(np.maximum(moment - self._origin, self._now))
            until = self._now = int(times[-1])
        origin, due = self._origin or 0, None
        if self.label_clock is not None:
            due = moments(file, block, len(self.columns) - 1, self.label_clock, missing=NEVER)
            due = _not_before(np.where(due == NEVER, NEVER, due - origin), times)
            due[[one.position for one in (*found.rejected, *labels_rejected)]] = NEVER
        return Instances(first, x, y, times, until, found.rejected, labels_rejected, keys=keys, origin=origin, due=due)

    def _labels(self, labels: Any, first: int, none: dict[int, tuple[str, str]]) -> tuple[Floats, list[Rejected]]:
        """The labels that there are, as records of their own. none : row -> why what stands there is no label."""
        missing = np.isnan(labels) if isinstance(labels, np.ndarray) else np.array([v in MISSING for v in labels], bool)
        missing[list(none)] = False
        there = np.flatnonzero(~missing)
        given = labels[there] if isinstance(labels, np.ndarray) else [labels[i] for i in there.tolist()]
        ids = [str(first + i) for i in there.tolist()]
        written = None
        if self._label_writer is not None and not isinstance(given, np.ndarray):
            longest = max(map(len, given), default=0) * LONGEST_ESCAPE
            if longest + self._empty_record() > self.form.max_bytes:
                written = self._label_writer.labels(ids, json_texts(given), [_NOW] * len(ids))
        wrong = Bad({int(np.searchsorted(there, i)): why for i, why in none.items()})
        records = _BlockRecords(len(there), np.zeros((len(there), 0)), {ID: ids, self._y: given}, written, wrong)
        found = self._decoder.decode_labels(_batch(records), self.classes)
        y = np.full(len(labels), np.nan)
        y[there if found.position is None else there[found.position]] = found.y
        if self._class is not None and self.classes is not None:
            y[y != self.classes.find(self._class)] = np.nan
        return y, [one._replace(position=int(there[one.position])) for one in found.rejected]

    def _written(self, block: RowBlock, first: int, labels: Any) -> Sequence[bytes] | None:
        """The rows as a replay would send them, where one may be too large."""
        n, inside = len(block), block.columns[: self._n_written + self._inside]
        longest = sum(max(map(len, column), default=0) for column in inside) * LONGEST_ESCAPE
        if self._writer is None or longest + self._empty_record() <= self.form.max_bytes:
            return None
        features = [
            cells_as_json(self.file, block, j, name, kind, JSON)
            for j, (name, kind) in enumerate(self.features[: self._n_written])
        ]
        y = ["null"] * n if labels is None or not self._inside else json_texts(labels)
        rows = Rows(first, [str(first + i) for i in range(n)], features, list(y))
        return self._writer.features(self._headers.inside(rows), [_NOW] * n)

    def _empty_record(self) -> int:
        """Bytes that a record has besides its values, at most."""
        if not self._empty and self._writer is not None:
            rows = Rows(0, ["9" * 20], [["null"] for _ in self.features], ["null"])
            self._empty = len(self._writer.features(self._headers.inside(rows), [_NOW])[0])
        return self._empty


def _wrong(where: str, kind: str, text: str, reason: str | None = None) -> tuple[str, str]:
    """Why a record with this in place of a number or boolean is rejected. reason : None: of its kind."""
    huge = kind == NUMERIC and are_json_numbers([text])
    expected = "a finite number" if kind == NUMERIC else "true or false"
    return reason or (NOT_FINITE if huge else WRONG_TYPE), f"{where}: expected {expected}, found {text[:40]!r}"


def _of_all(column: Sequence[Any], kept: Sequence[int] | None, n: int) -> Sequence[Any]:
    """A column of the rows that were kept as one of all rows."""
    if kept is None:
        return column
    found: list[Any] = [None] * n
    for i, value in zip(kept, column, strict=True):
        found[i] = value
    return found


_NOW = 1_700_000_000_000


def _batch(records: _BlockRecords) -> RawBatch:
    n = len(records)
    return RawBatch(range(n), [0] * n, [None] * n, records)  # type: ignore[arg-type]


def moments(file: DataFile, block: RowBlock, at: int, name: str, missing: int | None = None) -> Ints:
    """Column `at` of `block` as (n,) int64 milliseconds since 1970, `missing` where there is none, if that may be.
    DataError with the line of what is no time."""
    column = file.plain(block, at, name)
    if missing is not None:
        column = [str(missing / 1000.0) if is_missing(text.strip()) else text for text in column]
    try:
        seconds = np.array(list(map(float, column)))
    except ValueError:
        seconds = np.array(list(map(_seconds, column)))
    wrong = np.flatnonzero(~(np.abs(seconds) < 1e12))
    if len(wrong):
        raise DataError(
            f"line {block.lines[wrong[0]]} of {file.path} has {column[wrong[0]][:40]!r} in column {name!r}: expected "
            "a time, as seconds since 1970 or 2026-11-21T12:00:00Z"
        )
    return np.round(seconds * 1000.0).astype(np.int64)


def times_of(file: DataFile, name: str, limit: int | None = None) -> list[int]:
    """The moments of all rows by column `name`; one before that of an earlier row is that one. DataError as above."""
    at = file.position(name, "the time of a row")
    found = np.concatenate([np.zeros(0, np.int64), *(moments(file, b, 0, name) for b in file.blocks([at], limit))])
    times: list[int] = np.maximum.accumulate(found).tolist()
    return times


def label_times_of(file: DataFile, name: str, times: Sequence[int]) -> list[int]:
    """When the label of each row comes by column `name`, not before its row's own of `times`; NEVER where none does."""
    at = file.position(name, "the time of a label")
    parts = [moments(file, block, 0, name, NEVER) for block in file.blocks([at], len(times))]
    due: list[int] = _not_before(np.concatenate([np.zeros(0, np.int64), *parts]), np.array(times, np.int64)).tolist()
    return due


def _not_before(due: Ints, times: Ints) -> Ints:
    found: Ints = np.where(due == NEVER, NEVER, np.maximum(due, times))
    return found


def _seconds(text: str) -> float:
    """NaN of what is no time."""
    number = number_of(text)
    try:
        return milliseconds(text.strip()) / 1000.0 if number is None else number
    except ValueError:
        return math.nan
