"""Parquet and Arrow files, and sets of files, as the data files that everything else reads.

Cells become the texts that a CSV file of the same rows would have: numbers in the shortest form that reads back to the
same value (1.0 is 1), times in ISO 8601, null as nothing. So the same rows give the same predictions in every form.
What a dictionary column holds is nominal, whatever it looks like.

pyarrow is an extra, and is imported where such a file is opened.
"""

import glob
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from riparian.app.dataset.files.data import BLOCK, COMMA, DataFile, RowBlock
from riparian.app.errors import DataError
from riparian.models.extras import installation
from riparian.topics.vocabulary import canonical

_PARQUET, _ARROW, _STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"


def open_data(path: str | Path) -> DataFile:
    """A data file by its content: CSV, plain or gzip, Parquet, or Arrow (IPC file or stream). A folder, or a pattern
    such as `day-*.parquet`, is the set of its files in the order of their names.

    Raises
    ------
    DataError
        It is none, or pyarrow is missing.
    """
    path = Path(path)
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.is_file() and one.name[0] not in "._")
    elif not path.exists() and glob.has_magic(str(path)):
        found = sorted(one for one in map(Path, glob.glob(str(path))) if one.is_file())
    else:
        return _one(path)
    if not found:
        raise DataError(f"{path} holds no file: name a file, a folder of files, or a pattern in quotes")
    return DataFiles(path, [_one(one) for one in found])


def _one(path: Path) -> DataFile:
    try:
        with path.open("rb") as file:
            begin = file.read(6)
    except OSError:
        return DataFile(path)  # which says what is wrong
    if begin.startswith((_PARQUET, _ARROW, _STREAM)):
        return ArrowFile(path)
    return DataFile(path)


class ArrowFile(DataFile):
    """A Parquet or Arrow file."""

    typed = True

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        pa = _pyarrow(self.path)
        try:
            with self.path.open("rb") as file:
                self._begin = file.read(6)
                file.seek(0)
                found = self._open(pa, file)
                schema = found.schema_arrow if self._is_parquet else found.schema
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None
        self.names = tuple(name.strip() for name in schema.names)
        self._check_header()
        kinds = zip(self.names, schema.types, strict=True)
        self.dictionaries = [name for name, kind in kinds if pa.types.is_dictionary(kind)]

    def _damaged(self, error: Exception) -> DataError:
        reason = " ".join(str(error).split())[:200]
        return DataError(f"{self.path} cannot be read ({reason}): get a complete copy")

    @property
    def _is_parquet(self) -> bool:
        return self._begin.startswith(_PARQUET)

    def _open(self, pa: Any, file: Any) -> Any:
        if self._is_parquet:
            return pa.parquet.ParquetFile(file)
        return pa.ipc.open_file(file) if self._begin == _ARROW else pa.ipc.open_stream(file)

    def _batches(self, pa: Any, file: Any, columns: Sequence[int], size: int) -> Iterator[list[Any]]:
        """The columns asked for, at most `size` rows at a time."""
        reader = self._open(pa, file)
        if self._is_parquet:
            names = [reader.schema_arrow.names[j] for j in columns]
            for batch in reader.iter_batches(batch_size=size, columns=list(dict.fromkeys(names))):
                yield [batch.column(name) for name in names]
            return
        n = getattr(reader, "num_record_batches", None)
        for batch in reader if n is None else map(reader.get_batch, range(n)):
            for start in range(0, batch.num_rows, size):
                part = batch.slice(start, size)
                yield [part.column(j) for j in columns]

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        """Consecutive rows in blocks; a row's line is its number, from 1."""
        pa = _pyarrow(self.path)
        first, columns = 1, list(columns)
        most = math.inf if limit is None else limit
        try:
            with self.path.open("rb") as file:
                for arrays in self._batches(pa, file, columns or [0], size):
                    if first > most:
                        return
                    n = int(min(len(arrays[0]), most - first + 1))
                    if n:
                        cells = [
                            self._texts(pa, array.slice(0, n), self.names[j])
                            for j, array in zip(columns, arrays[: len(columns)], strict=True)
                        ]
                        yield RowBlock(cells, list(range(first, first + n)))
                        first += n
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(error) from None

    def _texts(self, pa: Any, array: Any, name: str) -> list[str]:
        kind, types = array.type, pa.types
        if types.is_dictionary(kind):
            return self._texts(pa, array.dictionary_decode(), name)
        if types.is_boolean(kind):
            return ["" if v is None else "true" if v else "false" for v in array.to_pylist()]
        if types.is_floating(kind):
            return ["" if v is None or v != v else canonical(v) for v in array.to_pylist()]
        if types.is_integer(kind) or types.is_decimal(kind):
            return ["" if v is None else str(v) for v in array.to_pylist()]
        if types.is_timestamp(kind):
            # Finer than microseconds is cut off: Python's times end there.
            zone = "" if kind.tz is None else "+00:00"
            plain = array.cast(pa.timestamp(kind.unit)).cast(pa.timestamp("us"), safe=False).to_pylist()
            return ["" if v is None else v.isoformat() + zone for v in plain]
        if types.is_date(kind):
            return ["" if v is None else v.isoformat() for v in array.to_pylist()]
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return ["" if v is None else v for v in array.to_pylist()]
        if types.is_null(kind):
            return [""] * len(array)
        raise DataError(
            f"column {name!r} of {self.path} holds {kind}: expected numbers, texts, booleans or times; leave the "
            "column out, or write it as one of them"
        )


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{path} is a Parquet or Arrow file, for which pyarrow is missing: {installation('arrow')}"
        ) from None
    return pyarrow


class DataFiles(DataFile):
    """Several data files with the same columns, one after the other.

    path : the folder or pattern; while a file is read, that file, so that an error names it.
    """

    def __init__(self, path: Path, files: Sequence[DataFile]) -> None:
        self.path, self.files, self.names = path, files, files[0].names
        self.index, self.typed = files[0].index, all(file.typed for file in files)
        self.separator = next((file.separator for file in files if file.separator != COMMA), COMMA)
        self.dictionaries = list(dict.fromkeys(name for file in files for name in file.dictionaries))
        for file in files[1:]:
            if file.names != self.names:
                raise DataError(
                    f"{file.path} has the columns {', '.join(file.names[:12])}, and {files[0].path} has "
                    f"{', '.join(self.names[:12])}: a set of files has the same columns in the same order"
                )

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        """The blocks of each file in turn; lines are those of the file."""
        of_all, left = self.path, limit
        try:
            for file in self.files:
                self.path = file.path
                for block in file.blocks(columns, left, size):
                    yield block
                    left = None if left is None else left - len(block)
                if left is not None and left <= 0:
                    return
        finally:
            self.path = of_all
