"""Many JSON records at once: `kernel` walks their bytes, and what it leaves is the decoder's."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from riparian.topics.decoding import text_kernel
from riparian.topics.formats.common.blocks import Block, Shape
from riparian.topics.formats.common.cells import Cells, view
from riparian.topics.formats.json import kernel as k
from riparian.topics.formats.json.program import JsonProgram, program
from riparian.topics.slices import Slices

MOST_BYTES = 1 << 24  # largest block, bytes: its records are copied once
MOST_PROGRAMS = 8  # programs that are known at a time
MOST_NEW = 2  # programs that are made in a block, at most
REST = 30  # blocks that are not tried, after one of which more than half was left


class JsonBlockReader:
    """Reads blocks of records of a shape.

    Parameters
    ----------
    shape : Shape
        Without instances: bags are the decoder's.
    usable : callable
        Whether the decoder takes a record.
    """

    def __init__(self, shape: Shape, usable: Callable[[bytes], bool]) -> None:
        self._shape, self._usable = shape, usable
        self._programs: list[JsonProgram] = []  # the last that took anything first
        self._rest = 0
        self._found = np.zeros(1)

    def warm_up(self) -> None:
        """Compile the kernel, or load it from the cache."""
        self._programs.append(JsonProgram(np.array([[k.END, 0, 0, 0]], np.uint64), np.zeros(1, np.uint64)))
        self.read([b""], 1)
        self._programs.clear()
        self._rest = 0
        text_kernel.warm_up()

    def read(self, values: Sequence[Any], max_bytes: int) -> Block | None:
        """The records as columns; None where it would be no gain. max_bytes : larger records are left."""
        if self._rest:
            self._rest -= 1
            return None
        if not isinstance(values, Slices):
            values = Slices.of([value if type(value) is bytes else b"" for value in values])
        n, lengths = len(values), values.lengths
        if not n or lengths.sum() > MOST_BYTES:
            return None
        values = values.compact()
        text = values.data
        data = np.frombuffer(text, np.uint8)
        begins = values.starts.astype(np.uint64)
        words, ends = view(data, "<u8"), begins + lengths.astype(np.uint64)
        numbers, cells = np.full((n, len(self._shape.numbers)), np.nan), Cells(len(self._shape.others), n)
        out = np.full(n, k.LEFT, np.uint8)
        rows = np.flatnonzero(lengths <= max_bytes).astype(np.uint64)
        known, n_new = list(self._programs), 0
        useful: list[JsonProgram] = []
        while rows.size and (known or n_new < MOST_NEW):
            if known:
                made = known.pop(0)
            else:
                n_new += 1
                value = values[rows[0]] or b""
                found = program(self._shape, value) if self._usable(value) else None
                if found is None:
                    rows = rows[1:]
                    continue
                made = found
            k.walk(
                data, words, begins, ends, rows, made.code, made.wanted,
                numbers, cells.kinds, cells.wholes, cells.reals, cells.stops, cells.beyond,
                self._found, self._found.view(np.uint64), out,
            )  # fmt: skip
            before, rows = rows.size, rows[out[rows] == k.LEFT]
            if rows.size < before:
                useful.append(made)
        kept = [one for one in self._programs if not any(one is other for other in useful)]
        self._programs = [*useful, *kept][:MOST_PROGRAMS]
        taken = out == k.TAKEN
        if 2 * taken.sum() < n:
            self._rest = REST
            if not taken.any():
                return None
        columns, damaged = cells.columns(text, taken)
        return Block(numbers, columns, sorted(damaged.union(np.flatnonzero(~taken).tolist())))
