"""How the cells of a column are written: what a comma or a point in its numbers means, and whether all of its values
are numbers.

That is a matter of the whole column, not of a cell: 1,234 is a number of thousands beside 951 and a fraction beside
0,87, and 1.0 is a number beside 2.0 and a text beside 1.0.2.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from riparian.app.dataset.column import MISSING, NO_NUMBER, is_json_number, number_of, value_text

MOST_KNOWN = 50_000  # cells that are remembered as seen
_NUMBER = re.compile(r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_GROUPS = re.compile(r"[+-]?[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*")
_GROUPS_AND_FRACTION = re.compile(r"[+-]?[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*(?!\1)[.,][0-9]+")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")  # thousands, or a fraction of three digits
_OTHER = {",": ".", ".": ","}


class Spelling(NamedTuple):
    """What is known of a column.

    numbers : whether all of its values are numbers as JSON has them, but for these marks
    point, thousands : the marks in its numbers; thousands may be ""
    either : a number that may mean two things, and nothing in the file says which
    """

    numbers: bool = False
    point: str = "."
    thousands: str = ""
    either: str = ""

    def plain(self, cells: Sequence[str]) -> Sequence[str]:
        """The cells with numbers as Python writes them."""
        if self.thousands:
            cells = [cell.replace(self.thousands, "") for cell in cells]
        return cells if self.point == "." else [cell.replace(self.point, ".") for cell in cells]

    def values(self, cells: Sequence[str]) -> list[str | None]:
        """The values of a nominal column: None where missing, and numbers by what they are."""
        known: dict[str, str | None] = {}
        for cell in set(cells):
            text: str = cell.strip()
            if self.numbers and text not in MISSING and text.lower() not in NO_NUMBER:
                text = value_text(self.plain([text])[0])
            known[cell] = None if text in MISSING else text
        return [known[cell] for cell in cells]

    def remark(self, name: str) -> str:
        """A sentence on what may not be meant, or ""."""
        if not self.either:
            return ""
        meant, other = "thousands", "fractions"
        if not self.thousands:
            meant, other = other, meant
        return (
            f"column {name!r} has numbers such as {self.either}, which are read as {meant}; if they are {other}, write "
            f"them as {_as_other(self.either, other)}"
        )


def _as_other(text: str, meaning: str) -> str:
    head, tail = re.split("[.,]", text)
    return head + tail if meaning == "thousands" else f"{head}.{tail}0"


class ColumnSpelling:
    """What the cells of a column show, as far as they were seen.

    marks : whether numbers may have a comma for a point, and marks between thousands
    """

    def __init__(self, marks: bool) -> None:
        self._marks = marks
        self.texts = False  # whether one is no number
        self._json = True
        self._fractions, self._thousands = set[str](), set[str]()  # marks that stand for these beyond doubt
        self._either: dict[str, str] = {}  # mark -> a number in which it may be one or the other
        self._short = self._long = False  # whether there are whole numbers of up to three digits, and of more
        self._seen: set[str] = set()

    def add(self, cells: Iterable[str]) -> None:
        if self.texts:
            return
        new = set(cells) - self._seen
        if len(self._seen) > MOST_KNOWN:
            self._seen.clear()
        self._seen |= new
        for text in map(str.strip, new):
            if text not in MISSING and text.lower() not in NO_NUMBER:
                self._look(text)

    def _look(self, text: str) -> None:
        points, commas = text.count("."), text.count(",")
        if not self._marks or points + commas == 0:
            self.texts |= number_of(text) is None
            digits = len(text.lstrip("+-"))
            self._short, self._long = self._short or digits <= 3, self._long or digits > 3
            self._json &= is_json_number(text)
            return
        self._json &= is_json_number(re.sub("[.,]", "", text)) or text.lstrip("-")[:2] in ("0.", "0,")
        if points + commas == 1:
            mark = "." if points else ","
            if _EITHER.fullmatch(text):
                self._either.setdefault(mark, text)
            elif _NUMBER.fullmatch(text):
                self._fractions.add(mark)
            else:
                self.texts = True
        elif found := _GROUPS.fullmatch(text):
            self._thousands.add(found[1])
        elif found := _GROUPS_AND_FRACTION.fullmatch(text):
            self._thousands.add(found[1])
            self._fractions.add(_OTHER[found[1]])
        else:
            self.texts = True

    @property
    def point(self) -> str:
        """The mark of fractions, "" where nothing says which."""
        if self.texts:
            return ""
        found = self._fractions | {_OTHER[mark] for mark in self._thousands}
        return found.pop() if len(found) == 1 else ""

    def spelling(self, of_others: str) -> Spelling:
        """of_others : the mark of fractions in the other columns of the file, "" where nothing says which."""
        if self.texts or self._thousands & self._fractions or len(self._thousands) > 1:
            return Spelling()
        if self._thousands:
            (thousands,) = self._thousands
            return Spelling(self._json, _OTHER[thousands], thousands)
        if len(self._fractions) > 1:  # of both kinds, and none between thousands
            return Spelling(self._json, ",")
        point = self.point or of_others
        if point:
            return Spelling(self._json, point, _OTHER[point] if _OTHER[point] in self._either else "")
        if len(self._either) != 1:
            return Spelling(self._json and not self._either)
        ((mark, text),) = self._either.items()
        fits = self._short and not self._long  # a number of more digits has no mark between its thousands
        if mark == "," and fits:
            return Spelling(self._json, ".", ",", text)
        return Spelling(self._json, mark, "", text if mark == "," or fits else "")
