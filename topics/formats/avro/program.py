"""The program by which `kernel` reads the records of one schema: the way of `reader` through its types, as
lines of numbers.

A program is made from the types of a schema and from what the stream maps. Where a record may hold what only the reader
can tell (a value of a wrong type, a type that contains itself, names of a map), the line is UNUSUAL, which leaves the
record to it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from riparian.topics.formats.avro import kernel as k
from riparian.topics.formats.avro import types as a
from riparian.topics.formats.avro.reader import lacking
from riparian.topics.formats.avro.types import Type
from riparian.topics.formats.common.blocks import Shape
from riparian.topics.formats.common.slots import BAG, FLAG, ID, NUMBER, OBJECT, SCALAR, TARGET, TIME
from riparian.topics.records import Path

MOST_LINES = 4000  # types that are named again and again are written out each time
MOST_SCALE = 15  # a power of ten that is exact in float64
_WHOLE, _REAL = (a.INT, a.LONG), {a.FLOAT: 4, a.DOUBLE: 8}
_Rest = list[tuple[Path, int]]  # what is left of the path of a slot, and the slot's number


class AvroProgram(NamedTuple):
    """code : (lines, 4) int64, an operation and its values a line. targets : int64, lines that branches of unions begin
    with."""

    code: NDArray[np.int64]
    targets: NDArray[np.int64]


class _NoProgramError(Exception):
    """Every record of the schema is one for the reader, or the program would be too long."""


def program(shape: Shape, schema: Type, symbols: list[str]) -> AvroProgram | None:
    """The program of a schema; None where all its records are the reader's.

    symbols : of enums, to which this program's are added.
    """
    made = _Compiler(shape, schema, symbols)
    try:
        made.read(schema, [(slot.path, i) for i, slot in enumerate(shape.slots)])
    except (_NoProgramError, RecursionError):
        return None
    made.line(k.END)
    return AvroProgram(np.array(made.lines, np.int64).reshape(-1, 4), np.array(made.targets or [0], np.int64))


class _Compiler:
    def __init__(self, shape: Shape, schema: Type, symbols: list[str]) -> None:
        self.lines: list[tuple[int, int, int, int]] = []
        self.targets: list[int] = []
        self._shape, self._symbols, self._lacking = shape, symbols, lacking(shape, schema)
        self._columns = {i: column for column, i in enumerate(shape.numbers)}
        self._places = {i: place for place, i in enumerate(shape.others)}
        self._begins: dict[Type, int] = {}  # enum -> of its symbols
        self._open: list[Type] = []  # types that are being written: one of them again contains itself
        self._choices = 0  # unions and lists around: what stands in them is not in every record
        self._counters = 0

    def line(self, op: int, a_: int = 0, b: int = 0, c: int = 0) -> int:
        """Add a line. Its number."""
        if len(self.lines) >= MOST_LINES:
            raise _NoProgramError
        self.lines.append((op, a_, b, c))
        return len(self.lines) - 1

    def _unusual(self) -> None:
        if not self._choices:
            raise _NoProgramError
        self.line(k.UNUSUAL)

    def read(self, schema: Type, slots: _Rest) -> None:
        """Lines that read a value into its slots, as `reader` does."""
        kind = schema.kind
        if schema in self._open or schema in self._lacking:
            self._unusual()
            return
        self._open.append(schema)
        if kind == a.UNION:
            self._union(schema, slots)
        elif kind == a.RECORD:
            self._record(schema, slots)
        elif not slots or (kind == a.MAP and self._only_there(slots)):
            self._skip(schema)
        elif kind != a.NULL and not (len(slots) == 1 and slots[0][0] == () and self._value(schema, slots[0][1])):
            self._unusual()
        self._open.pop()

    def _only_there(self, slots: _Rest) -> bool:
        """Whether all that is asked of an object is that it is there; says so in its slot."""
        if any(rest or self._shape.slots[i].kind != OBJECT for rest, i in slots):
            return False
        for _, i in slots:
            self.line(k.THERE, self._places[i])
        return True

    def _record(self, schema: Type, slots: _Rest) -> None:
        here = [(rest, i) for rest, i in slots if not rest]
        if here and not self._only_there(here):
            self._unusual()
            return
        below: dict[str, _Rest] = {}
        for rest, i in slots:
            if rest:
                below.setdefault(rest[0], []).append((rest[1:], i))
        for name, inner in schema.fields:
            if not inner.empty or name in below:  # what takes no bytes may have any number of fields below it
                self.read(inner, below.get(name, []))

    def _union(self, schema: Type, slots: _Rest) -> None:
        if self._maybe_double(schema, slots):
            return
        n, first = len(schema.branches), len(self.targets)
        self.targets += [0] * n
        self.line(k.BRANCH, n, first)
        self._choices += 1
        ends = []
        for i, branch in enumerate(schema.branches):
            self.targets[first + i] = len(self.lines)
            self.read(branch, slots)
            ends.append(self.line(k.JUMP))
        self._choices -= 1
        for at in ends:
            self.lines[at] = (k.JUMP, len(self.lines), 0, 0)

    def _maybe_double(self, schema: Type, slots: _Rest) -> bool:
        """A double or null, the usual number, is one line."""
        kinds = [branch.kind for branch in schema.branches]
        if sorted(kinds) != [a.DOUBLE, a.NULL]:
            return False
        column = -1
        if slots:
            rest, i = slots[0]
            if len(slots) > 1 or rest or self._shape.slots[i].kind != NUMBER:
                return False
            column = self._columns[i]
        self.line(k.MAYBE_DOUBLE, column, kinds.index(a.NULL))
        return True

    def _skip(self, schema: Type) -> None:
        kind = schema.kind
        if kind in (a.STRING, a.BYTES):
            self.line(k.SKIP_BYTES)
        elif kind in (a.INT, a.LONG, a.ENUM):
            self.line(k.SKIP_LONG)
        elif kind == a.BOOLEAN:
            self.line(k.SKIP_BOOLEAN)
        elif kind in (a.ARRAY, a.MAP):
            if self._counters >= k.MOST_COUNTERS or (kind == a.ARRAY and schema.item.empty):
                self._unusual()
                return
            begin = self.line(k.LIST)
            counter, self._counters, self._choices = self._counters, self._counters + 1, self._choices + 1
            if kind == a.MAP:
                self.line(k.SKIP_BYTES)
            self.read(schema.item, [])
            self.line(k.NEXT, counter, begin)
            self._counters, self._choices = counter, self._choices - 1
            self.lines[begin] = (k.LIST, counter, len(self.lines), 0)
        elif not schema.empty:
            self.line(k.SKIP, _REAL.get(kind, schema.size))

    def _value(self, schema: Type, i: int) -> bool:
        """A line that reads a value into slot i; False where only the reader can tell what it is."""
        kind, slot = schema.kind, self._shape.slots[i].kind
        if slot in (BAG, OBJECT):
            return False
        if slot in (NUMBER, FLAG):
            return self._number(schema, slot, self._columns[i])
        place = self._places[i]
        if kind == a.STRING and slot in (ID, TIME, SCALAR):
            self.line(k.TEXT, place)
        elif kind == a.ENUM and slot == SCALAR and schema.symbols:
            if schema not in self._begins:
                self._begins[schema] = len(self._symbols)
                self._symbols += schema.symbols
            self.line(k.SYMBOL, place, self._begins[schema], len(schema.symbols))
        elif slot == TIME and schema.no_moment:
            return False
        elif slot == TIME and schema.unit is not None:
            unit = schema.unit
            self.line(k.STAMP, place, *((int(unit), 1) if unit >= 1 else (1, round(1 / unit))))
        elif kind in _WHOLE:
            self.line(k.WHOLE, place)
        elif kind in _REAL and slot in (TIME, SCALAR, TARGET):
            self.line(k.REAL, place, _REAL[kind])
        elif kind == a.BOOLEAN and slot == SCALAR:
            self.line(k.TRUTH, place)
        else:
            return self._shape.slots[i].takes_decimals and self._decimal(schema, -1 - place)
        return True

    def _number(self, schema: Type, slot: str, column: int) -> bool:
        kind = schema.kind
        if slot == FLAG:
            if kind != a.BOOLEAN:
                return False
            self.line(k.BOOLEAN, column)
        elif kind == a.DOUBLE:
            self.line(k.DOUBLE, column)
        elif kind == a.FLOAT:
            self.line(k.FLOAT, column)
        elif kind in _WHOLE:
            self.line(k.LONG, column)
        else:
            return self._decimal(schema, column)
        return True

    def _decimal(self, schema: Type, to: int) -> bool:
        if schema.logical != "decimal" or schema.kind not in (a.BYTES, a.FIXED):
            return False
        if not 0 <= schema.scale <= MOST_SCALE:
            return False
        self.line(k.DECIMAL, to, 10**schema.scale, schema.size if schema.kind == a.FIXED else -1)
        return True
