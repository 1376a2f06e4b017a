"""Values that a kernel has found in the bytes of records, as columns of Python's values.

A kernel writes a cell for each record and slot: what it holds, and a number, or where a text begins and ends. Texts are
cut out of all records at once.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from riparian.topics.slices import Texts

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

# What a cell holds. Kernels that are in a cache were compiled with these numbers.
NONE, TEXTS, WHOLES, REALS, TRUTHS, SYMBOLS = range(6)


class Cells:
    """n records of m slots.

    Attributes
    ----------
    kinds : (m, n) uint8, what each cell holds.
    wholes, reals : (m, n) int64 and float64, on the same memory. A text begins at `wholes` and ends at `stops`.
    beyond : (m,) uint8, 1 where a text of the slot is not ASCII.
    """

    def __init__(self, m: int, n: int) -> None:
        self.kinds = np.zeros((m, n), np.uint8)
        self.wholes, self.stops = np.zeros((m, n), np.int64), np.zeros((m, n), np.int64)
        self.reals = self.wholes.view(np.float64)
        self.beyond = np.zeros(m, np.uint8)

    def columns(self, data: bytes, taken: NDArray[np.bool_], symbols: Sequence[str] = ()) -> tuple[list[Any], set[int]]:
        """The values of each slot, as a list or as Texts, and the records that hold a text which is not UTF-8.

        Parameters
        ----------
        data : of all records.
        taken : (n,) of which records the cells are; those of others count for nothing.
        symbols : values by number.
        """
        n = len(taken)
        if not taken.all():
            # A column of one kind is sooner made: what the others hold is that of another record.
            for array in (self.kinds, self.wholes, self.stops):
                array[:, ~taken] = array[:, [taken.argmax()]]
        columns: list[Any] = []
        damaged: set[int] = set()
        for kind, whole, stop, foreign in zip(self.kinds, self.wholes, self.stops, self.beyond, strict=True):
            if (kind == kind[0]).all():
                if kind[0] == TEXTS and not foreign:
                    columns.append(Texts(data, whole, stop))
                    continue
                column = _values(kind[0], whole, stop, data, symbols)
            else:
                column = [None] * n
                for each in np.unique(kind):
                    where = np.flatnonzero(kind == each)
                    found = _values(each, whole[where], stop[where], data, symbols)
                    for i, value in zip(where.tolist(), found, strict=True):
                        column[i] = value
            if foreign:
                damaged.update(i for i in np.flatnonzero(kind == TEXTS).tolist() if column[i] is None)
            columns.append(column)
        return columns, damaged


def _values(kind: int, wholes: Ints, stops: Ints, data: bytes, symbols: Sequence[str]) -> list[Any]:
    """The values of cells of one kind; None for a text that is not UTF-8."""
    if kind == NONE:
        return [None] * len(wholes)
    if kind == REALS:
        return list(wholes.view(np.float64).tolist())
    if kind == TRUTHS:
        return list(wholes.astype(bool).tolist())
    values: list[int] = wholes.tolist()
    if kind == SYMBOLS:
        return list(map(symbols.__getitem__, values))
    if kind == TEXTS:
        return [_text(data[begin:end]) for begin, end in zip(values, stops.tolist(), strict=True)]
    return values


def _text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def view(data: Bytes, kind: str) -> NDArray[Any]:
    """The numbers that begin at each byte: a view of unaligned numbers, which a kernel may read."""
    number = np.dtype(kind)
    return np.ndarray((max(0, data.size - number.itemsize + 1),), number, data.data, strides=(1,))
