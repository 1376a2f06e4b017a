"""What a column of texts holds, as far as its cells tell: numbers, times, or nominal values."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from riparian.topics.records import CLASSIFICATION, REGRESSION
from riparian.topics.vocabulary import JSON_NUMBER, canonical

MISSING = ("", "?")
# In lower case: what R, pandas, Python and SQL write where a number is missing. In a column of texts they are values:
# "NA" is Namibia, too.
NO_NUMBER = frozenset({"na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>"})
# A target of numbers is a regression when it has more values than this, or fractional ones.
MOST_NUMERIC_CLASSES = 20
MOST_TEXTS = 50  # a column of so many texts, nearly all of them different, names rows
# Distinct values kept while types are inferred; a column that has looked numeric so far needs few.
MOST_VALUES = 1_000_000
MOST_NUMBERS = 2_000
_JSON_NUMBERS = re.compile(rf"(?:{JSON_NUMBER}\n)*")
# Of a column of numbers that never fall: rows that show it, and how many of them each greater than the one before.
ENOUGH_ROWS, MOSTLY_RISING = 100, 0.5


class Column:
    """What is known of a column from the values seen so far.

    numeric, time : whether all are numbers, or moments. fractional : whether a number has a fraction. first : the first
    value; example : the first that is no number. n : values; those of NO_NUMBER are none of a numeric column. `len()` :
    distinct values, `MOST_VALUES` once they were too many to keep.

    texts : whether texts are texts, whatever they look like
    """

    def __init__(self, nominal: bool, texts: bool = False) -> None:
        self.numeric = self.time = not nominal
        self._texts = texts
        self.fractional = False
        self.n, self.first = 0, ""
        self.example: str | None = None
        self._known: dict[str, int] | None = {}
        self._by_value: dict[str, int] | None = None  # of what is known so far
        self._no_numbers = Counter[str]()  # in the place of numbers, as long as all others are numbers
        self._many_numbers = False
        self._n_again = 0  # values that came again within the cells of one call
        # The last number, and how often one was greater than the one before, as long as none was less.
        self._last, self._n_rises = -math.inf, 0

    @property
    def mostly_numbers(self) -> bool:
        """Of a column that is not numeric, whether most of its values are numbers all the same."""
        known = self._known or {}
        return self.example is not None and (
            self._many_numbers or 2 * sum(number_of(text) is not None for text in known) > len(known)
        )

    @property
    def stray(self) -> str | None:
        """Of a column that would be a regression's label but for its texts, the first of these."""
        known = [number for text in self._known or {} if (number := number_of(text)) is not None]
        several = self._many_numbers or len(known) > MOST_NUMERIC_CLASSES or any(v != int(v) for v in known)
        return self.example if self.mostly_numbers and several else None

    @property
    def names_rows(self) -> bool:
        """Whether it holds many texts, of which nearly all come once."""
        many = len(self) >= MOST_TEXTS and len(self) > 0.9 * self.n
        return not self.numeric and not self.mostly_numbers and many

    @property
    def grows(self) -> bool:
        """Whether it holds numbers that never fall and mostly rise from row to row."""
        return self.numeric and self.n >= ENOUGH_ROWS and self._n_rises > MOSTLY_RISING * self.n

    @property
    def repeats(self) -> bool:
        """Whether its values come again: twice each on average, or, where they are too many to keep, now and then in
        rows that stand near each other."""
        if self._known is None:
            return 50 * self._n_again >= self.n
        return 2 * len(self) <= self.n

    @property
    def is_time(self) -> bool:
        return self.time and not self.numeric

    @property
    def task(self) -> str:
        """What predicting it would be: a regression where it holds fractions, or many numbers."""
        many = len(self) > MOST_NUMERIC_CLASSES
        return REGRESSION if self.numeric and (self.fractional or many) else CLASSIFICATION

    @property
    def as_json(self) -> bool | None:
        """Whether all are numbers as JSON writes them, also of a nominal column; None where they were too many to
        keep."""
        if self._known is None:
            return None
        numbers = [text for text in self._known if text.lower() not in NO_NUMBER]
        return not self._texts and are_json_numbers(numbers) and None not in map(number_of, numbers)

    @property
    def values(self) -> list[str]:
        """The distinct values in the order of their first sight; none where they were too many to keep. Numbers by
        what they are, where all are numbers as JSON has them: 1.0 is 1."""
        return list(self._counts())

    def _counts(self) -> dict[str, int]:
        if self._by_value is None:
            self._by_value = self._known or {}
            if self.as_json:
                found = Counter[str]()
                for text, n in self._by_value.items():
                    found[text if text.lower() in NO_NUMBER else value_text(text)] += n
                self._by_value = found
        return self._by_value

    @property
    def instead(self) -> list[str]:
        """Of a numeric column, what stands where a number is missing. As labels of classes they are classes."""
        return list(self._no_numbers)

    def share(self, value: str) -> float:
        """Of the values so far, where `values` or `instead` has it."""
        return (self._counts() | self._no_numbers)[value] / (self.n + self._no_numbers.total())

    def __len__(self) -> int:
        return MOST_VALUES if self._known is None else len(self._counts())

    def add(self, cells: Sequence[str]) -> None:
        self._by_value = None
        known = Counter(map(str.strip, cells))
        for text in MISSING:
            known.pop(text, None)
        if self.numeric:
            self._no_numbers.update({text: known.pop(text) for text in list(known) if text.lower() in NO_NUMBER})
        if not known:
            return
        if self.numeric:
            found = [number_of(text) for text in known]
            if None in found:
                self.numeric, self.example = False, list(known)[found.index(None)]
                known.update(self._no_numbers)
                self._no_numbers.clear()
            else:
                self.fractional |= any(v != int(v) for v in found if v is not None)
                numbers = dict(zip(known, found, strict=True))
                self._follow([numbers[text] for text in map(str.strip, cells) if text in numbers])
        self.n += known.total()
        self._n_again += known.total() - len(known)
        self.first = self.first or next(iter(known))
        self.time &= not self.numeric and all(iso_time(text) or text.lower() in NO_NUMBER for text in known)
        if self._known is not None:
            for text, n in known.items():
                self._known[text] = self._known.get(text, 0) + n
            if len(self._known) > (MOST_NUMBERS if self.numeric else MOST_VALUES):
                self._known, self._many_numbers = None, self.numeric

    def _follow(self, numbers: Sequence[float | None]) -> None:
        """Count the rises of a column of numbers; none count any more once it has fallen."""
        if self._last == math.inf:
            return
        values = np.array([self._last, *numbers], np.float64)
        steps = np.diff(values)
        self._n_rises += int((steps > 0.0).sum())
        self._last = values[-1]
        if (steps < 0.0).any():
            self._last, self._n_rises = math.inf, 0


def iso_time(text: str) -> datetime | None:
    """The moment that an ISO 8601 text stands for, with the offset from UTC that it has, if any; None for another
    text."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        return None


def number_of(text: str) -> float | None:
    """The finite number that `text` is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_json_number(text: str) -> bool:
    """Whether `text` is a finite number as JSON writes them; 007 is none."""
    return are_json_numbers([text]) and number_of(text) is not None


def are_json_numbers(texts: Sequence[str]) -> bool:
    """Whether all are numbers as JSON writes them, be they finite or not: 0.05 µs each."""
    return _JSON_NUMBERS.fullmatch("\n".join([*texts, ""])) is not None


def value_text(text: str) -> str:
    """The canonical text (`topics.vocabulary`) of a number as JSON writes it: what a record with it has."""
    return canonical(float(text)) if set(text) & set(".eE") else text


def is_missing(text: str) -> bool:
    """Whether a stripped cell says that a number, a time or a truth is missing."""
    return text in MISSING or text.lower() in NO_NUMBER
