"""CSV files with a header, as blocks of columns: what `riparian evaluate` and `riparian replay` read.

Plain, or packed (`app.dataset.files.packed`). Cells are separated by commas, or by semicolons or tabs where the header
is one column by commas and several by them. Between these a number may have a comma for its point, or marks between its
thousands, as spreadsheets write it in half of Europe: `app.dataset.spelling` sees which by the whole column. A cell is
missing where it is empty or "?", and among numbers where it is "NA", "NaN" or "null" as well. Column types are given by
a stream file, or inferred in a first pass: numeric where every value is a number, a time where every value is one in
ISO 8601, else nominal. A nominal column of many values is probably an id, and is refused: a model would store something
for each value. Rows are read in blocks, so memory stays bounded whatever the size of the file.
"""

import csv
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.app.dataset.column import MOST_NUMBERS, MOST_VALUES, Column, is_missing, number_of
from riparian.app.dataset.files.packed import DAMAGES, open_text
from riparian.app.dataset.spelling import ColumnSpelling, Spelling
from riparian.app.errors import DataError
from riparian.topics.records import ANOMALY, CLASSIFICATION, NOMINAL, NUMERIC, VALUES, Feature

INDEX = "Unnamed: 0"  # pandas' name for the column without a name that it writes first
BLOCK = 8192  # rows
FIRST = 200  # rows that say whether a column holds times
# Values of a nominal feature, unless more are allowed: as many as a stream file allows by default.
MOST_NOMINAL = 1_000
MOST_CLASSES = 1_000
NUMBERS_ALONE = "where these are numbers, write them alone, without signs, units or marks"
COMMA, SEMICOLON, TAB = ",", ";", "\t"
LIKE_A_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b")

BOOLEANS = {
    **dict.fromkeys(("true", "t", "yes", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "0", "0.0"), False),
}

Floats = NDArray[np.float64]
Odd = dict[int, str]  # row of a block -> what stands there in place of a value of the column's type


class RowBlock(NamedTuple):
    """Consecutive rows.

    columns : texts, one list per requested column
    lines : where each row ends in the file
    """

    columns: list[list[str]]
    lines: list[int]

    def __len__(self) -> int:
        return len(self.lines)


class Types(NamedTuple):
    """What a first pass over a file found.

    features : name -> "numeric" or "nominal", in the file's order
    n_values : name of a nominal feature -> number of its values
    n_classes : of a classification's target, else 0
    n : rows
    times : columns of times, which are no features: each value comes once
    stray : name of a nominal feature that is mostly numbers -> the first of its texts
    growing : numeric features that grow from row to row
    spellings : sentences on what was read and may not be meant
    naming : nominal columns that are left out, since nearly every row has a value of its own -> their first text
    example, cure : of a target with classes, parts of a sentence that says there are too many
    """

    features: dict[str, str]
    n_values: dict[str, int]
    target: str
    task: str
    n_classes: int
    n: int
    times: tuple[str, ...] = ()
    stray: Mapping[str, str] = {}
    growing: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    naming: Mapping[str, str] = {}
    example: str = ""
    cure: str = ""

    def remarks(self) -> list[str]:
        """Sentences on what was inferred and may be wrong."""
        times = [
            f"column {name!r} holds times and is left out; --date-parts {quote(name)} makes features of its hour and "
            f"weekday, --ignore {quote(name)} silences this"
            for name in self.times
        ]
        stray = [
            f"column {name!r} is nominal, since {text[:40]!r} in it is no number; write nothing where a number is "
            f"missing, or say --nominal {quote(name)}, which silences this"
            for name, text in self.stray.items()
        ]
        growing = [
            f"column {name!r} grows from row to row, as ids and clocks do, and what a model learns of it holds for no "
            f"later row; --ignore {quote(name)} leaves it out"
            for name in self.growing
        ]
        naming = [_about_naming(name, text) for name, text in self.naming.items()]
        return [*self.spellings, *times, *naming, *stray, *growing]


def _about_naming(name: str, text: str) -> str:
    return (
        f"column {name!r} has another text in nearly each row, such as {text[:40]!r}, and is left out; "
        f"{NUMBERS_ALONE}; --nominal {quote(name)} takes it, --ignore {quote(name)} silences this"
    )


class DataFile:
    """A CSV file.

    Parameters
    ----------
    path : path
        CSV or gzip CSV with a header, in UTF-8.

    Attributes
    ----------
    names : tuple of str
        The columns of the header.
    separator : str
        What stands between cells.
    dictionaries : sequence of str
        The columns that the file itself has as nominal, whatever their values look like.

    Raises
    ------
    DataError
        One sentence that names the file, and the line where that makes sense.
    """

    separator = COMMA
    index: Sequence[str] = ()  # the column of row numbers, where there is one
    dictionaries: Sequence[str] = ()
    typed = False  # whether texts are texts, whatever they look like
    _spellings: Mapping[str, Spelling] = {}
    _header_remarks: tuple[str, ...] = ()
    _line = 0  # the last one of the rows read so far

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        for self.separator in (COMMA, SEMICOLON, TAB):
            header = self._header()
            if len(header) > 1:
                break
        else:
            self.separator = COMMA
            header = self._header()
        self.names = tuple(name.strip() for name in header)
        if len(self.names) > 2 and not self.names[0] and INDEX not in self.names:
            self.names, self.index = (INDEX, *self.names[1:]), (INDEX,)
        self._check_header()

    def _header(self) -> list[str]:
        with self._reader() as reader:
            header = next(reader, None)
        if header is None:
            raise DataError(f"{self.path} is empty: expected a header with column names, then rows")
        found: list[str] = header
        return found

    def _check_header(self) -> None:
        if self.names[:1] == ("[",) or (self.names and self.names[0].startswith(("{", "[{"))):
            raise DataError(
                f"{self.path} holds JSON: expected CSV with a header, so write it as CSV, or send its records to a "
                "topic (riparian init --from-topic)"
            )
        if len(self.names) < 2:
            column = f"one column, {self.names[0][:40]!r}" if self.names else "a blank first line"
            raise DataError(
                f"{self.path} has {column}: expected features and a target, separated by commas, semicolons or tabs"
            )
        if all(number_of(name) is not None for name in self.names):
            raise DataError(
                f"{self.path} begins with numbers ({', '.join(self.names[:3])}, …): expected a header, "
                "add a first line with column names"
            )
        if "" in self.names:
            raise DataError(f"column {self.names.index('') + 1} of {self.path} has no name: add it to the header")
        for name, n in Counter(self.names).items():
            if n > 1:
                raise DataError(f"{self.path} has two columns called {name!r}: rename one in the header")

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        """A csv reader over the decompressed text; whatever goes wrong while reading is a DataError."""
        try:
            with open_text(self.path) as lines:
                yield csv.reader(lines, delimiter=self.separator)
        except FileNotFoundError:
            raise DataError(f"there is no file {self.path}: check the path") from None
        except DAMAGES as error:
            raise DataError(f"{self.path} is damaged ({error}): get a complete copy") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path} is not UTF-8 text ({error.reason}): convert it") from None
        except csv.Error as error:
            where = f" behind line {self._line}" if self._line else ""
            raise DataError(f"{self.path} is not CSV{where} ({error}): check quotes and separators") from None
        except OSError as error:
            raise DataError(f"{self.path} cannot be read ({error.strerror or error}): check the path") from None

    def position(self, name: str, role: str) -> int:
        """Index of the column `name`; `role` is what it is wanted for, for the error."""
        if name not in self._places:
            known = ", ".join(self.names[:12]) + (", …" if len(self.names) > 12 else "")
            raise DataError(f"{self.path} has no column {name!r} for {role}: its columns are {known}")
        return self._places[name]

    def find(self, features: Iterable[Feature]) -> None:
        """Where no column has the name of a feature, take the one with the last name of its path for it, unless another
        feature may mean that column."""
        meant = defaultdict[str, set[tuple[str, ...]]](set)
        for one in features:
            for name in (one.name, one.path[-1]):
                meant[name].add(one.path)
        for one in features:
            last = one.path[-1]
            if one.name not in self._places and last in self._places and meant[last] == {one.path}:
                self._places[one.name] = self._places[last]

    def holds(self, at: int, features: Iterable[str]) -> bool:
        """Whether column `at` is one of these features."""
        return any(self._places.get(name) == at for name in features)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.names)}

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        """The rows in blocks of at most `size`, reduced to `columns`; at most `limit` rows. Blank lines are skipped.

        Raises
        ------
        DataError
            A row has another number of cells than the header (with its line).
        """
        left = math.inf if limit is None else limit
        rows: list[list[str]] = []
        lines: list[int] = []
        with self._reader() as reader:
            next(reader, None)
            self._line = reader.line_num
            for row in reader:
                if left <= 0:
                    break
                if len(row) != len(self.names):
                    if row:
                        raise self._wrong_row(row, self._line + 1, reader.line_num)
                    self._line = reader.line_num
                    continue
                if reader.line_num > self._line + 1 and row[-1].endswith(("\n", "\r")):  # the file ends in a quote
                    raise self._wrong_row(row, self._line + 1, reader.line_num)
                self._line = reader.line_num
                rows.append(row)
                lines.append(reader.line_num)
                left -= 1
                if len(rows) >= size:
                    yield _transposed(rows, lines, columns)
                    rows, lines = [], []
        if rows:
            yield _transposed(rows, lines, columns)

    def _wrong_row(self, row: list[str], first: int, last: int) -> DataError:
        if last > first:
            return DataError(
                f"line {first} of {self.path} begins a row that ends in line {last}, since a quote in it is not closed "
                "before: close it, or double a quote that is a character of a cell"
            )
        return DataError(
            f"line {last} of {self.path} has {len(row)} cells, the header has {len(self.names)}: correct or remove the "
            "line"
        )

    def survey(self, names: Sequence[str], limit: int | None = None) -> None:
        """Read the file, at most `limit` rows, to know how these columns are written. Where that is not known of a
        column that `numbers` or `values` is asked for, it is surveyed by itself."""
        names = [self.names[self._places[name]] for name in names]
        if self.typed:
            self._spellings = {**self._spellings, **dict.fromkeys(names, Spelling())}
            return
        marks = self.separator != COMMA
        wanted = [name for name in (self.names if marks else names) if name not in self._spellings]
        if not wanted:
            return
        looked = {name: ColumnSpelling(marks) for name in wanted}
        for block in self.blocks([self._places[name] for name in wanted], limit):
            for cells, column in zip(looked.values(), block.columns, strict=True):
                cells.add(column)
            if all(cells.texts for cells in looked.values()):
                break
        points = {cells.point for cells in looked.values()} - {""}
        point = points.pop() if len(points) == 1 else ""
        found = {name: cells.spelling(point) for name, cells in looked.items()}
        self._spellings = {**self._spellings, **found}

    def spelling(self, name: str) -> Spelling:
        """How a column is written."""
        name = self.names[self._places[name]]
        if name not in self._spellings:
            self.survey([name])
        return self._spellings[name]

    def plain(self, block: RowBlock, at: int, name: str) -> Sequence[str]:
        """Column `at` of `block` with its numbers as Python writes them."""
        return block.columns[at] if self.separator == COMMA else self.spelling(name).plain(block.columns[at])

    def values(self, block: RowBlock, at: int, name: str) -> list[str | None]:
        """Column `at` of `block` as values of a nominal column, None where missing. Where all of the column are
        numbers, each is its canonical text, as of a record: 1.0 is 1."""
        return self.spelling(name).values(block.columns[at])

    def count(self, limit: int | None = None) -> int:
        """Number of rows (checked as `blocks` does)."""
        return sum(len(block) for block in self.blocks((0,), limit))

    def numbers(self, block: RowBlock, at: int, name: str, odd: Odd | None = None) -> Floats:
        """Column `at` of `block` as (n,) float64, NaN where missing, and where a value is no number, which goes to
        `odd`. DataError with the line of such a value without `odd`, or where texts leave open what marks in the
        numbers beside them mean."""
        column = self.plain(block, at, name)
        try:
            values = np.array(list(map(float, column)))
            if np.isfinite(values).all():
                return values
        except ValueError:
            pass
        values = np.empty(len(column))
        for i, text in enumerate(map(str.strip, column)):
            number = math.nan if is_missing(text) else number_of(text)
            if number is None and odd is not None and self.separator == COMMA:
                odd[i], number = text, math.nan
            if number is None:
                found = block.columns[at][i].strip()[:40]
                raise DataError(
                    f"line {block.lines[i]} of {self.path} has {found!r} in column {name!r}: expected a finite "
                    "number, or nothing where it is missing (a feature may be declared nominal instead)"
                )
            values[i] = number
        return values

    def booleans(self, block: RowBlock, at: int, name: str, odd: Odd | None = None) -> list[bool | None]:
        """Column `at` of `block` as booleans, None where missing, and where a value is none, which goes to `odd`.
        Without that a DataError with its line."""
        values: list[bool | None] = []
        for i, text in enumerate(map(str.strip, block.columns[at])):
            value = BOOLEANS.get(text.lower())
            if value is None and not is_missing(text):
                if odd is None:
                    raise DataError(
                        f"line {block.lines[i]} of {self.path} has {text[:40]!r} in column {name!r}: expected true or "
                        "false"
                    )
                odd[i] = text
            values.append(value)
        return values

    def look(
        self,
        *,
        nominal: Sequence[str] = (),
        ignore: Sequence[str] = (),
        limit: int | None = None,
        target: str | None = None,
    ) -> tuple[dict[str, Column], int]:
        """Read the file once: what each column holds, those of `ignore` left out, and the number of rows. The rest as
        in `types`; a target is looked for before anything is read."""
        for role, named in (("a nominal feature", nominal), ("--ignore", ignore)):
            for name in named:
                self.position(name, role)
        ignore = [*ignore, *self.index]
        kept = [name for name in self.names if name not in ignore]
        target, _ = self.target(kept[-1] if target is None and kept else target)
        if target in ignore:
            raise DataError(f"column {target!r} of {self.path} would be the target and ignored: name another --label")
        columns = {name: Column(name in nominal or name in self.dictionaries, self.typed) for name in kept}
        if self.separator != COMMA:
            self.survey(kept, limit)
        n = 0
        for block in self.blocks([self._places[name] for name in columns], limit):
            n += len(block)
            for at, (name, column) in enumerate(columns.items()):
                column.add(self.plain(block, at, name))
        if n == 0:
            raise DataError(f"{self.path} has a header and no rows: expected at least one")
        self._header_remarks = self._header_is_a_row(columns)
        known = {name: Spelling(as_json) for name, one in columns.items() if (as_json := one.as_json) is not None}
        self._spellings = known | {**self._spellings}
        return columns, n

    def _header_is_a_row(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        """A sentence, where names look like values: numbers that do not count the columns, or values of the column.
        A column of numbers whose name is none shows that they are names: `fraud` may be a class of that name."""
        odd = [name for at, name in enumerate(self.names) if name not in (str(at - 1), str(at), str(at + 1))]
        numbers = [name for name in odd if number_of(name) is not None]
        values = [name for name in odd if name in columns and name in columns[name].values]
        named = any(one.numeric and number_of(name) is None for name, one in columns.items())
        if not numbers and (named or not values):
            return ()
        what = f"{values[0]!r} is a value of its column, too" if values else f"{numbers[0]!r} is a number"
        return (
            f"the first line of {self.path} is taken for names, and {what}: if it is a row, add a line of names above "
            "it",
        )

    def types(
        self,
        *,
        target: str | None = None,
        task: str | None = None,
        nominal: Sequence[str] = (),
        ignore: Sequence[str] = (),
        max_values: int = MOST_NOMINAL,
        limit: int | None = None,
    ) -> Types:
        """Read the file once and infer the type of every column.

        Parameters
        ----------
        target : str, optional
            The column to predict; by default the last one that is not ignored.
        task : str, optional
            "classification", "regression" or "anomaly". By default a classification, unless the target is numeric with
            more than 20 values or fractional ones.
        nominal : sequence of str
            Columns that are nominal although they look like numbers, or like times.
        ignore : sequence of str
            Columns that are not looked at.
        max_values : int
            Most values of a nominal feature; one with more is a DataError.
        limit : int, optional
            Rows to look at.
        """
        columns, n = self.look(nominal=nominal, ignore=ignore, limit=limit, target=target)
        kept = [name for name in self.names if name not in ignore]
        target = kept[-1] if target is None else target
        if target in nominal:
            task = task or CLASSIFICATION
        goal = columns.pop(target)
        if not len(goal):
            raise DataError(f"column {target!r} of {self.path} is empty: choose another target by --label")
        if goal.is_time:
            raise self._holds_times(target)
        task = task_of(goal, target, task, str(self.path), "--label")
        naming = {
            name: column.first
            for name, column in columns.items()
            if column.names_rows and len(column) <= min(max_values, MOST_NOMINAL) and name not in nominal
        }
        features = {name: one for name, one in columns.items() if not one.is_time and name not in naming}
        if not features:
            raise DataError(
                f"{self.path} has no feature left beside the target {target!r}: expected at least one, so ignore fewer "
                "columns, or make features of a column of times by --date-parts"
                + "".join(f" ({_about_naming(*one)})" for one in [*naming.items()][:1])
            )
        large = [name for name, column in features.items() if not column.numeric and len(column) > max_values]
        if large:
            raise self._too_many(large, columns[large[0]], max_values)
        return Types(
            features={name: NUMERIC if column.numeric else NOMINAL for name, column in features.items()},
            n_values={name: len(column) for name, column in features.items() if not column.numeric},
            target=target,
            task=task,
            n_classes=len(goal) + len(goal.instead) if task == CLASSIFICATION else 0,
            n=n,
            times=tuple(name for name, column in columns.items() if column.is_time),
            stray={
                name: column.example for name, column in features.items() if column.example and column.mostly_numbers
            },
            growing=tuple(name for name, column in features.items() if column.grows),
            spellings=self.reading_remarks([*features, target]),
            naming=naming,
            example="" if goal.example is None else f", such as {goal.example[:40]!r}",
            cure="use --task regression, or another --label" if goal.numeric else NUMBERS_ALONE,
        )

    def reading_remarks(self, names: Sequence[str]) -> tuple[str, ...]:
        """Sentences on what may be read otherwise than meant, after a `look`: names that look like a row, and numbers
        of these columns."""
        return (*self._header_remarks, *self.spelling_remarks(names))

    def spelling_remarks(self, names: Sequence[str]) -> tuple[str, ...]:
        """Sentences on columns whose numbers may mean two things."""
        names = [self.names[self._places[name]] for name in names if name in self._places]
        return tuple(
            remark for name in names if name in self._spellings and (remark := self._spellings[name].remark(name))
        )

    def _too_many(self, names: Sequence[str], column: Column, max_values: int) -> DataError:
        """column : the first of `names`."""
        name, *others = names
        n, example = len(column), (column.example or "")[:40]
        values = f"{n:,} values" if n < MOST_VALUES else f"more than {MOST_NUMBERS:,} values"
        cure = f"leave the column out by --ignore {name}, or take it as it is by --max-values {n}"
        if column.mostly_numbers:
            values += f", of which {example!r} is no number"
            cure = f"write nothing where a number is missing, or {cure}"
        elif example:
            values += f", such as {example!r}"
            if LIKE_A_DATE.match(example):
                cure = f"write its times as 2026-11-21T12:00:00, or {cure}"
        if others:
            values += f" (as have {', '.join(map(repr, others))})"
        return DataError(
            f"column {name!r} of {self.path} has {values}, and a nominal feature has at most {max_values:,}: {cure}"
        )

    def target(self, name: str | None, features: Collection[str] = ()) -> tuple[str, int]:
        """The target's name and index: the last column unless `name` says otherwise; it must not be a feature, nor
        hold times where nobody has named it."""
        named, name = name is not None, self.names[-1] if name is None else name
        at = self.position(name, "the target")
        if self.holds(at, features):
            raise DataError(
                f"column {name!r} of {self.path} would be the target and is a feature: name the target by --label"
            )
        if features and not named:
            column = Column(False, self.typed)
            for block in self.blocks([at], FIRST):
                column.add(block.columns[0])
            if column.is_time:
                raise self._holds_times(name)
        return name, at

    def _holds_times(self, target: str) -> DataError:
        return DataError(f"column {target!r} of {self.path} holds times: name the column to predict by --label")


def task_of(goal: Column, name: str, task: str | None, where: str, option: str) -> str:
    """The task of predicting a column, where it is not said. option : by which another column is named.

    Raises
    ------
    DataError
        It holds numbers and texts, or its texts are no labels of the task.
    """
    found = task or goal.task
    example = (goal.example or goal.first)[:40]
    if task != CLASSIFICATION and goal.stray is not None:
        raise DataError(
            f"column {name!r} of {where} holds numbers, and {goal.stray[:40]!r} in it is none: write nothing where a "
            "label is missing, or say --task classification if each number is a class"
        )
    if found == ANOMALY and not goal.numeric:
        raise DataError(
            f"column {name!r} of {where} has {example!r}: expected 1 of an anomaly, and 0 of what is none; write it "
            "so, or use --task classification"
        )
    if found in VALUES and not goal.numeric:
        cure = "use --task classification" if len(goal) <= MOST_CLASSES else f"name another {option}"
        raise DataError(f"column {name!r} of {where} is not numeric, as {example!r} shows: {NUMBERS_ALONE}, or {cure}")
    return found


def _transposed(rows: list[list[str]], lines: list[int], columns: Sequence[int]) -> RowBlock:
    return RowBlock([[row[j] for row in rows] for j in columns], lines)
