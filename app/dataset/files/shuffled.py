"""The rows of a data file in another order."""

from collections.abc import Iterator, Sequence

import numpy as np

from riparian.app.dataset.files.data import BLOCK, DataFile, RowBlock
from riparian.app.dataset.spelling import Spelling


class ShuffledFile(DataFile):
    """A file whose first `limit` rows come in random order. They are in memory, as texts, while they are read.

    Parameters
    ----------
    seed : int
        Same seed, same order.
    limit : int, optional
        Rows to take; all without it.
    """

    def __init__(self, file: DataFile, seed: int, limit: int | None = None) -> None:
        self.file, self.path, self.names = file, file.path, file.names
        self.separator, self.index = file.separator, file.index
        self.seed, self.limit = seed, limit

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[RowBlock]:
        found = RowBlock([[] for _ in columns], [])
        same: dict[str, str] = {}  # one object a text: numbers come again, categories always
        for block in self.file.blocks(columns, self.limit):
            for column, part in zip(found.columns, block.columns, strict=True):
                column.extend([same.setdefault(text, text) for text in part])
            found.lines.extend(block.lines)
        order = np.random.default_rng(self.seed).permutation(len(found)).tolist()[:limit]
        for first in range(0, len(order), size):
            part = order[first : first + size]
            yield RowBlock([[column[i] for i in part] for column in found.columns], [found.lines[i] for i in part])

    def survey(self, names: Sequence[str], limit: int | None = None) -> None:
        self.file.survey(names, self.limit)

    def spelling(self, name: str) -> Spelling:
        return self.file.spelling(name)

    def count(self, limit: int | None = None) -> int:
        return self.file.count(min((n for n in (limit, self.limit) if n is not None), default=None))
