"""Synthetic streams as data files: rows are generated when they are read, so code that reads a file can read these.

Nominal values are texts, v0, v1, …, and classes c0, c1, … unless they have names: a column of codes would be taken for
numbers. The target is the last column, `class` or `target`. Numbers have the fewest digits that read back to the same
bits; what is missing is null among numbers, and else nothing.
"""

import gzip
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from riparian.app.dataset.files.data import BLOCK, DataFile, Floats, RowBlock
from riparian.app.dataset.rows import numbers
from riparian.app.errors import DataError, SpecError
from riparian.models.registry import REGISTRY as LEARNERS
from riparian.models.streams import EndlessStream
from riparian.models.streams.registry import ConceptDrift, find, open_source, validate
from riparian.topics.records import CLASSIFICATION, NOMINAL, NUMERIC

LEVEL = 6  # gzip's level of compression


class Recipe(NamedTuple):
    """What to generate.

    name : of models.streams.registry
    n : instances
    parameters : as `--set` gives them
    """

    name: str
    n: int
    seed: int = 0
    parameters: Mapping[str, Any] = {}
    drifts: Sequence[ConceptDrift] = ()

    def open(self) -> EndlessStream:
        """The stream from its beginning. SpecError where a name or parameter is not valid."""
        try:
            return open_source(self.name, self.seed, self.parameters, self.drifts)
        except ValueError as error:
            raise SpecError(str(error)) from None

    def plain(self) -> dict[str, Any]:
        """The recipe for JSON: every parameter with its value."""
        return {
            "name": self.name,
            "n": self.n,
            "seed": self.seed,
            "parameters": validate(self.name, self.parameters),
            "drifts": [
                {
                    "at": drift.at,
                    "width": drift.width,
                    "parameters": validate(self.name, {**self.parameters, **drift.parameters}),
                }
                for drift in self.drifts
            ],
        }


class SyntheticFile(DataFile):
    """A file that is never written.

    Parameters
    ----------
    recipe : Recipe
        What its rows are.

    Raises
    ------
    SpecError
        The recipe is not valid.
    """

    typed = True

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.path = recipe, Path(recipe.name)
        source = recipe.open()
        target = "class" if source.n_classes else "target"
        self.names = (*source.names, target)
        # of each column, the texts of its codes; None for numbers
        self.texts: list[list[str] | None] = [[f"v{c}" for c in range(k)] if k else None for k in source.n_values]
        classes = [*source.classes] or [f"c{c}" for c in range(source.n_classes)]
        self.texts.append(classes or None)
        self.ids = source.ids
        for drift in recipe.drifts:
            if drift.at >= recipe.n:
                raise SpecError(
                    f"a drift at {drift.at:,} is beyond the {recipe.n:,} instances: give more by -n, or drift earlier"
                )

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        source, n = self.recipe.open(), self.count(limit)
        for first in range(0, n, size):
            part = source.take(min(size, n - first))
            yield RowBlock(
                [self._column(part.y if j == len(self.names) - 1 else part.x[:, j], self.texts[j]) for j in columns],
                list(range(first + 2, first + 2 + len(part.y))),  # where they would stand in a file with a header
            )

    def _column(self, values: Floats, codes: list[str] | None) -> list[str]:
        if codes is None:
            return numbers(values)
        return ["" if math.isnan(code) else codes[int(code)] for code in values.tolist()]

    def count(self, limit: int | None = None) -> int:
        return int(min(self.recipe.n, math.inf if limit is None else limit))

    def stream_file(self) -> dict[str, Any]:
        """A stream file for it, as a mapping."""
        task = find(self.recipe.name).tasks[0]
        features = {
            name: NUMERIC if values is None else {"type": NOMINAL, "values": values}
            for name, values in zip(self.names[:-1], self.texts[:-1], strict=True)
            if name not in self.ids
        }
        data: dict[str, Any] = {"name": self.recipe.name, "task": task, "features": features}
        if task == CLASSIFICATION:
            data["classes"] = self.texts[-1]
        data["champion"] = next(learner.name for learner in LEARNERS.values() if task in learner.tasks)
        return data


def write_csv(file: DataFile, path: Path, on_progress: Callable[[int], None] | None = None) -> int:
    """Write `file` as CSV with a header, gzipped if `path` ends in .gz; the same rows give the same bytes.

    The file appears when it is complete. on_progress : told the number of rows written. Returns the size in bytes.
    DataError where it cannot be written.
    """
    try:
        with _replacing(path) as raw:
            if path.suffix == ".gz":  # no name and no time in the header
                with gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
                    _write_rows(file, packed, on_progress)
            else:
                _write_rows(file, raw, on_progress)
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"{path} cannot be written ({error.strerror or error}): check the path") from None


def _write_rows(file: DataFile, out: IO[bytes] | gzip.GzipFile, on_progress: Callable[[int], None] | None) -> None:
    out.write((",".join(file.names) + "\n").encode())
    done = 0
    for block in file.blocks(range(len(file.names))):
        out.write("".join([f"{row}\n" for row in map(",".join, zip(*block.columns, strict=True))]).encode())
        done += len(block)
        if on_progress is not None:
            on_progress(done)


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when all went well, and is removed otherwise."""
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        with open(part, "xb") as raw:  # not what a link of this name leads to
            yield raw
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
