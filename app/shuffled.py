"""The rows of a data file in another order."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from app.data import BLOCK, Block, DataFile


class ShuffledFile(DataFile):
    """A file whose first `limit` rows come in random order. They are read once and held in memory, as texts.

    Parameters
    ----------
    file : DataFile
    seed : int
        Same seed, same order.
    limit : int, optional
        Rows to take; all without it.
    """

    def __init__(self, file: DataFile, seed: int, limit: int | None = None) -> None:
        self.file, self.path, self.names = file, file.path, file.names
        self.seed, self.limit = seed, limit
        self._rows: Block | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}  # another process reads the file itself

    def _load(self) -> Block:
        if self._rows is None:
            everything = Block([[] for _ in self.names], [])
            same: dict[str, str] = {}  # one object a text: numbers come again, categories always
            for block in self.file.blocks(range(len(self.names)), self.limit):
                for column, part in zip(everything.columns, block.columns, strict=True):
                    column.extend([same.setdefault(text, text) for text in part])
                everything.lines.extend(block.lines)
            order = np.random.default_rng(self.seed).permutation(len(everything)).tolist()
            columns = [[column[i] for i in order] for column in everything.columns]
            self._rows = Block(columns, [everything.lines[i] for i in order])
        return self._rows

    def blocks(self, columns: Sequence[int], limit: int | None = None, size: int = BLOCK) -> Iterator[Block]:
        rows = self._load()
        n = len(rows) if limit is None else min(limit, len(rows))
        for first in range(0, n, size):
            kept = slice(first, min(first + size, n))
            yield Block([rows.columns[j][kept] for j in columns], rows.lines[kept])

    def count(self, limit: int | None = None) -> int:
        return len(self._load()) if limit is None else min(limit, len(self._load()))
