"""Many records of Avro at once: `kernel` walks their bytes, and what it leaves is the reader's.

The columns of a block are what `topics.decoding.columns` asks a format for: lists of Python's values, and an array of
numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from riparian.topics.formats.avro import kernel as k
from riparian.topics.formats.avro.program import AvroProgram, program
from riparian.topics.formats.common.blocks import Block, Shape
from riparian.topics.formats.common.cells import Cells, view
from riparian.topics.formats.common.framing import ID_BYTES, head_of
from riparian.topics.formats.common.tuples import Parsed

MOST_BYTES = 1 << 24  # largest block, bytes: its records are copied once
MOST_HEADS = 8  # schemas in a block that have a walk each; records of further ones are the reader's
MOST_PROGRAMS = 64  # programs that are kept, at most
MOST_SYMBOLS = 100_000  # symbols of enums in the programs that are kept, at most

_PADDING = bytes(8)
_NOBODY = b"\1" + bytes(16)  # the head of no schema


class AvroBlockReader:
    """Reads blocks of records of a shape.

    Parameters
    ----------
    shape : Shape
        Without instances: bags are the reader's.
    parsed : callable
        Gives the type of a schema; None where no record can be read by it.
    """

    def __init__(self, shape: Shape, parsed: Parsed) -> None:
        self._shape, self._parsed = shape, parsed
        self._programs: dict[bytes, AvroProgram | None] = {}
        self._symbols: list[str] = []

    def warm_up(self) -> None:
        """Compile the kernel, or load it from the cache."""
        empty = AvroProgram(np.array([[k.END, 0, 0, 0]], np.int64), np.zeros(1, np.int64))
        self._programs[_NOBODY] = empty
        self.read([_NOBODY + b"\0"], 2 * len(_NOBODY))
        del self._programs[_NOBODY]

    def read(self, values: Sequence[Any], max_bytes: int) -> Block | None:
        """See `topics.formats.common.blocks.Blocks`."""
        if set(map(type, values)) != {bytes}:
            values = [value if type(value) is bytes else b"" for value in values]
        n, m = len(values), len(self._shape.others)
        lengths = np.fromiter(map(len, values), np.int64, count=n)
        ends = lengths.cumsum()
        if not n or ends[-1] > MOST_BYTES:
            return None
        if len(self._programs) >= MOST_PROGRAMS or len(self._symbols) > MOST_SYMBOLS:
            self._programs.clear()
            self._symbols.clear()
        bytes_ = b"".join([*values, _PADDING])
        data = np.frombuffer(bytes_, np.uint8)
        doubles, floats = view(data, "<f8"), view(data, "<f4")
        begins, counts = ends - lengths, np.zeros(k.MOST_COUNTERS, np.int64)
        numbers = np.full((n, len(self._shape.numbers)), np.nan)
        cells, out = Cells(m, n), np.full(n, k.OTHER, np.uint8)
        rows = np.flatnonzero((lengths > ID_BYTES) & (lengths <= max_bytes))
        for _ in range(MOST_HEADS):
            if not rows.size:
                break
            head, made = self._program(values[rows[0]])
            if made is None:
                rows = rows[1:]
                continue
            k.walk(
                data, doubles, floats, begins, ends, rows, np.frombuffer(head, np.uint8), made.code, made.targets,
                counts, numbers, cells.kinds, cells.wholes, cells.reals, cells.stops, cells.beyond, out,
            )  # fmt: skip
            if (out == k.TAKEN).all():
                break
            rows = rows[out[rows] == k.OTHER]
        taken = out == k.TAKEN
        if not taken.any():
            return None
        columns, damaged = cells.columns(bytes_, taken, self._symbols)
        return Block(numbers, columns, sorted(damaged.union(np.flatnonzero(~taken).tolist())))

    def _program(self, value: bytes) -> tuple[bytes, AvroProgram | None]:
        """The head of a record, and the program of its schema."""
        found = head_of(value)
        if found is None:
            return b"", None
        head = value[: found.start]
        if head not in self._programs:
            schema = self._parsed(found.key)
            self._programs[head] = None if schema is None else program(self._shape, schema, self._symbols)
        return head, self._programs[head]
