"""Hour and weekday of columns of times, as columns of their own. A tree learns nothing from a time, which occurs once,
but can learn from hours and weekdays, which recur.

The new columns follow the one from which they are made and are named after it, `at_hour` (a number, 0 to 23) and
`at_weekday` (a text, Mon to Sun). A time in ISO 8601 is taken as it is written, whatever its offset from UTC; seconds
since 1970 are UTC.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from riparian.app.dataset.column import MISSING, is_missing, iso_time
from riparian.app.dataset.files.data import BLOCK, DataFile, RowBlock, Types
from riparian.app.errors import DataError

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
PARTS: dict[str, Callable[[datetime], str]] = {
    "hour": lambda moment: str(moment.hour),
    "weekday": lambda moment: WEEKDAYS[moment.weekday()],
}


class DatedFile(DataFile):
    """A file with the parts of some columns of times beside them.

    Parameters
    ----------
    columns : sequence of str
        Columns of times.

    Raises
    ------
    DataError
        There is no such column, or one of its parts has the name of another column.
    """

    def __init__(self, file: DataFile, columns: Sequence[str]) -> None:
        self.file, self.path, self.columns = file, file.path, tuple(dict.fromkeys(columns))
        self.dictionaries, self.separator, self.index = file.dictionaries, file.separator, file.index
        self.typed = file.typed
        for name in self.columns:
            file.position(name, "--date-parts")
        # Of each column: where its text stands in the file, and which part of it is taken, if not all.
        self._sources: list[tuple[int, str | None]] = []
        names: list[str] = []
        for j, name in enumerate(file.names):
            for part in (None, *(PARTS if name in self.columns else ())):
                names.append(name if part is None else f"{name}_{part}")
                self._sources.append((j, part))
        self.names = tuple(names)
        for name in self.names:
            if self.names.count(name) > 1:
                raise DataError(f"{file.path} has a column {name!r} already: rename it, or do without --date-parts")

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        wanted = [self._sources[j] for j in columns]
        read = list(dict.fromkeys(source for source, _ in wanted))
        for block in self.file.blocks(read, limit, size):
            texts = dict(zip(read, block.columns, strict=True))
            yield RowBlock(
                [
                    texts[source] if part is None else self._parts(texts[source], block.lines, source, part)
                    for source, part in wanted
                ],
                block.lines,
            )

    def _parts(self, texts: list[str], lines: list[int], source: int, part: str) -> list[str]:
        take, known = PARTS[part], dict.fromkeys(MISSING, "")
        for text, line in zip(texts, lines, strict=True):
            if text not in known:
                known[text] = self._part(text, line, source, take)
        return [known[text] for text in texts]

    def _part(self, text: str, line: int, source: int, take: Callable[[datetime], str]) -> str:
        if is_missing(text.strip()):
            return ""
        try:
            return take(iso_time(text) or datetime.fromtimestamp(float(text), UTC))
        except (ValueError, OverflowError, OSError):
            raise DataError(
                f"line {line} of {self.path} has {text[:40]!r} in column {self.file.names[source]!r}: expected a time "
                "such as 2026-11-21T12:00:00Z, or seconds since 1970, or nothing where it is missing"
            ) from None

    def position(self, name: str, role: str) -> int:
        """The index of a column; if the column is a part that was not requested, the DataError says how to request
        it."""
        column = next((name.removesuffix(end) for end in map("_{}".format, PARTS) if name.endswith(end)), None)
        if name not in self._places and column in self.file.names:
            raise DataError(
                f"{self.path} has no column {name!r} for {role}: --date-parts {column} makes it of {column!r}"
            )
        return super().position(name, role)

    def types(self, **options: Any) -> Types:
        """Types of a file's columns, without the remark that columns of times are not features."""
        found = super().types(**options)
        return found._replace(times=tuple(name for name in found.times if name not in self.columns))

    def count(self, limit: int | None = None) -> int:
        return self.file.count(limit)
