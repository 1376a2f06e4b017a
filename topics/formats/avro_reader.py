"""Reads what a stream maps of Avro records, by a function that is made for each schema.

A `Shape` says what a stream maps: a slot for each field, in the order of a tuple. `Shape.reader` makes, of the types of
one schema, a Python function from the bytes of a record to that tuple, straight from the binary encoding: what is not
mapped is passed over, floating-point numbers in a row are unpacked in one call. Only numbers and names of ours are ever
part of its text; what a schema says, its names and symbols, is data that it is given. A field that the schema lacks is
None, as if the record lacked it.

In one run on a busy machine, fastavro took 18 µs for a record of an id and ten numbers, and 28 where these may be null;
a function of this kind took 0.8 and 6.
"""

import math
from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any

from topics import records as r
from topics.formats import avro_types as a
from topics.formats.avro_types import MalformedError, TooDeepError, Type
from topics.formats.slots import (
    BAG,
    FLAG,
    ID,
    NUMBER,
    OBJECT,
    SCALAR,
    TARGET,
    TIME,
    Problem,
    RefusedError,
    Slot,
    problem,
)
from topics.formats.tuples import Read, Shape
from topics.paths import Index, dotted
from topics.records import Path
from topics.schemas import UnusableError
from topics.times import SECONDS_BELOW

_WHOLE, _REAL = (a.INT, a.LONG), (a.FLOAT, a.DOUBLE)
_MS = {"timestamp-millis": 1.0, "timestamp-micros": 1e-3, "timestamp-nanos": 1e-6, "date": 86_400_000.0}
# Logical type of a time -> the ms of one.
STAMPED: dict[str | None, float] = {prefix + name: ms for name, ms in _MS.items() for prefix in ("", "local-")}
_CODES = {a.DOUBLE: "d", a.FLOAT: "f"}
_SIZES = {a.DOUBLE: 8, a.FLOAT: 4}
_SHORT = (IndexError, struct_error)  # the bytes end before the record does


_Rest = list[tuple[Path, int]]  # what is left of the path of a slot, and the slot's number


def reader(shape: Shape, schema: Type, name: str) -> tuple[Read, list[Problem]]:
    """A function from the bytes of a record to its tuple, and where the schema does not fit. name : of the schema, for
    sentences. What the function raises, `why` explains."""
    made = _Maker(shape, schema, name, inside=False)
    return made.function(), made.problems()


def why(error: Exception) -> tuple[str, str]:
    """Reason and detail of a record that a reader has refused by an error."""
    if isinstance(error, RefusedError):
        return error.args  # type: ignore[return-value]
    if isinstance(error, UnicodeDecodeError):
        return r.NOT_UTF8, "bytes that are not text"
    if isinstance(error, TooDeepError | RecursionError):
        return r.TOO_DEEP, "nested more than 200 levels"
    if isinstance(error, MalformedError):
        return r.MALFORMED, f"the schema does not fit the bytes: {error}"
    return r.MALFORMED, "the schema does not fit the bytes: they end before the record"


READING = (RefusedError, MalformedError, TooDeepError, RecursionError, UnicodeDecodeError, *_SHORT)


class _Maker:
    """Makes the text of one reader."""

    def __init__(self, shape: Shape, schema: Type, name: str, inside: bool) -> None:
        self.shape, self.schema, self.name, self.inside = shape, schema, name, inside
        self.lines: list[str] = []
        self.known: dict[str, Any] = {"L": a.long, "N": a.length, "M": MalformedError, "R": RefusedError, "Z": ()}
        self.fits: list[set[str]] = [set() for _ in shape.slots]  # slot -> "" where it fits, what was found elsewhere
        self.wrong = False
        self.inner: list[Problem] = []  # of the instances

    # -- the text ----------------------------------------------------------------------------------------------

    def function(self) -> Read:
        slots: _Rest = [(slot.path, i) for i, slot in enumerate(self.shape.slots)]
        try:
            self._read(self.schema, slots, 1)
        except RecursionError:
            raise UnusableError("it is nested too deeply") from None
        names = [f"s{i}" for i in range(len(self.shape.slots))]
        head = ["def read(v,p):", " n=len(v)"]
        if names:
            head.append(f" {'='.join(names)}=None")
        if self.wrong:
            head.append(" w=None")
        tail = [] if self.inside else [" if p!=n: raise M(E)"]
        if self.wrong:
            tail.append(" if w is not None: raise R(*w)")
        numbers = "".join(f"s{i}," for i in self.shape.numbers)
        made = "(" + "".join(f"s{i}," for i in self.shape.others) + f"({numbers}),)"
        tail.append(f" return {made},p" if self.inside else f" return {made}")
        self.known["E"] = "they do not end where the record ends"
        try:
            exec("\n".join([*head, *self.lines, *tail]), self.known)
        except (SyntaxError, RecursionError, MemoryError):  # Python nests 100 levels of blocks
            raise UnusableError("it is nested too deeply") from None
        read: Read = self.known["read"]
        return read

    def _line(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def _give(self, value: Any) -> str:
        """A name by which the text knows a value."""
        name = f"k{len(self.known)}"
        self.known[name] = value
        return name

    def _skip(self, schema: Type, depth: int) -> None:
        size = {a.NULL: 0, a.DOUBLE: 8, a.FLOAT: 4, a.FIXED: schema.size}.get(schema.kind)
        if size is None:
            self._line(depth, f"p={self._give(schema.skip)}(v,p,0)")
        elif size:
            self._line(depth, f"p+={size}")

    def _refuse(self, schema: Type, slots: _Rest, depth: int) -> None:
        """The value is not what these slots want."""
        for _, i in slots:
            slot = self.shape.slots[i]
            self.fits[i].add(schema.said)
            detail = f"{dotted(slot.path)}: expected {slot.kind.strip()}, found {schema.said}"
            self.wrong = True
            self._line(depth, f"w=w or {self._give((slot.reason, detail[:200]))}")

    def _read(self, schema: Type, slots: _Rest, depth: int) -> None:
        """Lines that read the value at p into its slots, and leave p behind it."""
        if not slots:
            self._skip(schema, depth)
        elif schema.kind == a.UNION:
            self._line(depth, "b=v[p]")
            self._line(depth, "if b<128: p+=1")
            self._line(depth, "else:")
            self._line(depth + 1, "b,p=L(v,p)")
            self._line(depth + 1, "b*=2")
            word = "if"
            for i, branch in enumerate(schema.branches):
                self._line(depth, f"{word} b=={2 * i}:")
                self._line(depth + 1, "pass")
                if branch.kind != a.NULL:
                    self._read(branch, slots, depth + 1)
                word = "elif"
            self._line(depth, f"{'else' if schema.branches else 'if True'}: raise M('no such branch of a union')")
        elif schema.kind == a.RECORD:
            self._record(schema, slots, depth)
        elif schema.kind == a.MAP or (
            schema.kind == a.ARRAY and all(rest[:1] and _is_index(rest[0]) for rest, _ in slots)
        ):
            self._open(schema, slots, depth)
        elif schema.kind == a.NULL:
            for _, i in slots:
                self.fits[i].add("")
        else:
            rest, i = slots[0]
            if rest == () and len(slots) == 1 and self._value(schema, i, depth):
                self.fits[i].add("")
            else:
                self._skip(schema, depth)
                self._refuse(schema, slots, depth)

    def _objects(self, slots: _Rest, depth: int) -> tuple[_Rest, _Rest]:
        """Of the slots of an object: those that lie in it, and those that want another kind of value."""
        for rest, i in slots:
            if rest == () and self.shape.slots[i].kind == OBJECT:
                self.fits[i].add("")
                self._line(depth, f"s{i}=True")
        inside = [(rest, i) for rest, i in slots if rest]
        return inside, [(rest, i) for rest, i in slots if not rest and self.shape.slots[i].kind != OBJECT]

    def _record(self, schema: Type, slots: _Rest, depth: int) -> None:
        inside, others = self._objects(slots, depth)
        self._refuse(schema, others, depth)
        below: dict[str, _Rest] = {}
        for rest, i in inside:
            below.setdefault(rest[0], []).append((rest[1:], i))
        at = 0
        while at < len(schema.fields):
            run = self._run(schema.fields[at:], below)
            if len(run) > 1:
                self._together(run, below, depth)
            else:
                run = schema.fields[at : at + 1]
                self._read(run[0][1], below.get(run[0][0], []), depth)
            at += len(run)

    def _open(self, schema: Type, slots: _Rest, depth: int) -> None:
        """A map or an array: its names, or how many it has, only the record knows."""
        inside, others = self._objects(slots, depth)
        self._refuse(schema, others, depth)
        if not inside:
            self._skip(schema, depth)
            return
        self._line(depth, f"d,p={self._give(schema.value)}(v,p,0)")
        for rest, i in inside:
            self.fits[i].add("")
            self.wrong = True
            self._line(depth, f"x={self._give(_Walk(rest, self.shape.slots[i]).find)}(d)")
            self._line(depth, "if type(x) is tuple: w=w or x")
            self._line(depth, f"else: s{i}=x")

    # -- floating-point numbers in a row -----------------------------------------------------------------------

    def _run(self, fields: list[tuple[str, Type]], below: dict[str, _Rest]) -> list[tuple[str, Type]]:
        """The fields at the beginning that are numbers alike, plain or nullable, and mapped as features if at all."""
        form, run = self._form(*fields[0], below), []
        if form is not None:
            for field in fields:
                if self._form(*field, below) != form:
                    break
                run.append(field)
        return run

    def _form(self, name: str, schema: Type, below: dict[str, _Rest]) -> int | None:
        """Of a number for a numeric feature, or for nobody: -1, or the place of null in its union. Else None."""
        slots = below.get(name, [])
        if len(slots) > 1 or any(rest or self.shape.slots[i].kind != NUMBER for rest, i in slots):
            return None
        if schema.kind in _REAL:
            return -1
        kinds = [branch.kind for branch in schema.branches]
        if len(kinds) == 2 and a.NULL in kinds and any(kind in _REAL for kind in kinds):
            return kinds.index(a.NULL)
        return None

    def _together(self, run: list[tuple[str, Type]], below: dict[str, _Rest], depth: int) -> None:
        """One call for a row of numbers; where one of them is null, a field at a time."""
        null = self._form(*run[0], below)
        assert null is not None
        plain = [schema if null < 0 else schema.branches[1 - null] for _, schema in run]
        slots = [below[name][0][1] if below.get(name) else None for name, _ in run]
        for i in slots:
            if i is not None:
                self.fits[i].add("")
        names = ["_" if i is None else f"s{i}" for i in slots]
        size = sum(_SIZES[one.kind] for one in plain)
        if null < 0:
            if any(i is not None for i in slots):
                unpack = self._give(Struct("<" + "".join(_CODES[one.kind] for one in plain)).unpack_from)
                self._line(depth, f"{','.join(names)},={unpack}(v,p)")
            self._line(depth, f"p+={size}")
            return
        size += len(run)
        unpack = self._give(Struct("<" + "".join("B" + _CODES[one.kind] for one in plain)).unpack_from)
        tags = self._give((2 * (1 - null),) * len(run))
        self._line(depth, f"t={unpack}(v,p) if n-p>={size} else Z")
        self._line(depth, f"if t[::2]=={tags}:")
        self._line(depth + 1, f"{','.join(names)},=t[1::2]")
        self._line(depth + 1, f"p+={size}")
        self._line(depth, "else:")
        for name, schema in run:
            self._read(schema, below.get(name, []), depth + 1)
            if not below.get(name):
                self._line(depth + 1, "pass")

    # -- values ------------------------------------------------------------------------------------------------

    def _value(self, schema: Type, i: int, depth: int) -> bool:
        """Lines that read a value into slot i; False, and none, where it may not be of this type."""
        kind, slot, logical = schema.kind, self.shape.slots[i].kind, schema.logical
        say, s = self._line, f"s{i}"
        if slot == BAG and kind == a.ARRAY and self.shape.instances is not None:
            inner = _Maker(self.shape.instances, schema.item, self.name, inside=True)
            read = inner.function()
            self.inner = inner.problems()
            say(depth, f"{s},p={self._give(schema.items)}(v,p,{self._give(read)})")
        elif kind == a.STRING and slot in (ID, TIME, SCALAR):
            self._text(s, depth)
            say(depth, f"{s}={s}.decode()")
        elif kind == a.ENUM and slot == SCALAR:
            say(depth, "x,p=L(v,p)")
            say(depth, f"{s}={self._give(schema.symbol)}(x)")
        elif kind in _WHOLE and slot in (ID, TIME, SCALAR, NUMBER, TARGET):
            say(depth, "b=v[p]")
            say(depth, "if b<128:")
            say(depth + 1, "p+=1")
            say(depth + 1, f"{s}=(b>>1)^-(b&1)")
            say(depth, f"else: {s},p=L(v,p)")
            if slot == TIME and logical in _STAMPS:
                say(depth, f"{s}={self._give(_STAMPS[logical])}({s})")
        elif kind in _REAL and slot in (TIME, SCALAR, NUMBER, TARGET):
            say(depth, f"{s},={self._give(Struct('<' + _CODES[kind]).unpack_from)}(v,p)")
            say(depth, f"p+={_SIZES[kind]}")
            if slot != NUMBER:
                self._finite(s, i, depth)
        elif kind == a.BOOLEAN and slot in (SCALAR, FLAG):
            say(depth, f"{s},p={self._give(a.boolean)}(v,p)")
        elif kind in (a.BYTES, a.FIXED) and logical == "decimal" and slot in (NUMBER, TARGET):
            if kind == a.BYTES:
                self._text(s, depth)
            else:
                say(depth, f"{s}=v[p:p+{schema.size}]")
                say(depth, f"p+={schema.size}")
            say(depth, f"{s}={self._give(_Decimal(schema.scale).number)}({s})")
            self._finite(s, i, depth)
        else:
            return False
        return True

    def _text(self, name: str, depth: int) -> None:
        self._line(depth, "b=v[p]")
        self._line(depth, "if b<128 and not b&1: p+=1;m=b>>1")
        self._line(depth, "else: m,p=N(v,p)")
        self._line(depth, f"{name}=v[p:p+m]")
        self._line(depth, "p+=m")

    def _finite(self, name: str, i: int, depth: int) -> None:
        """NaN is a missing value; float64 has to hold the others."""
        slot = self.shape.slots[i]
        said = self._give((r.NOT_FINITE, f"{dotted(slot.path)}: a number that is not finite"))
        self.wrong = True
        self._line(depth, f"if {name}-{name}!=0:")
        self._line(depth + 1, f"if {name}=={name}: w=w or {said}")
        self._line(depth + 1, f"{name}=None")

    # -- what does not fit -------------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        found = list[Problem]()
        for slot, fits in zip(self.shape.slots, self.fits, strict=True):
            found += problem(slot, fits, self.name, self._names)
        return found + self.inner

    def _names(self) -> list[str]:
        """Names of fields of the schema, some levels deep."""
        names, left = list[str](), [(self.schema, 0)]
        while left and len(names) < 1000:
            schema, depth = left.pop()
            if depth < 6:
                names += [name for name, _ in schema.fields]
                left += [(inner, depth + 1) for _, inner in schema.fields]
                left += [(inner, depth + 1) for inner in schema.branches]
                left += [(schema.item, depth + 1)] if schema.kind in (a.ARRAY, a.MAP) else []
        return names


class _Decimal:
    def __init__(self, scale: int) -> None:
        self._divisor = 10**scale

    def number(self, data: bytes) -> float:
        """The nearest float64."""
        try:
            return float(int.from_bytes(data, "big", signed=True) / self._divisor)
        except OverflowError:
            return math.inf


def _stamp(factor: float) -> Callable[[int], float]:
    """Times that say their unit, as `topics.times` wants numbers: seconds where it would take them for seconds."""

    def made(value: int) -> float:
        ms = value * factor if factor >= 1 else value / round(1 / factor)
        return ms / 1000 if -SECONDS_BELOW < ms < SECONDS_BELOW else ms

    return made


_STAMPS = {name: _stamp(factor) for name, factor in STAMPED.items()}


def _is_index(name: str) -> bool:
    return isinstance(name, Index)


class _Walk:
    """The way to a slot through a map or an array."""

    def __init__(self, path: Path, slot: Slot) -> None:
        self._path, self._slot = path, slot

    def find(self, value: Any) -> Any:
        """What the slot holds; reason and detail, as a tuple, where it may not be that."""
        for name in self._path:
            if value is None:
                return None
            if isinstance(name, Index) and type(value) is list:
                value = value[name.number] if name.number < len(value) else None
            elif type(value) is dict and not isinstance(name, Index):
                value = value.get(name)
            else:
                return self._wrong(value)
        kind, of = self._slot.kind, type(value)
        if value is None:
            return None
        if kind == OBJECT:
            return True if of is dict else self._wrong(value)
        if of is float and kind not in (ID, FLAG):
            if kind == NUMBER or math.isfinite(value):
                return value
            return (r.NOT_FINITE, f"{dotted(self._slot.path)}: a number that is not finite") if value == value else None
        if (
            (of is int and kind not in (FLAG, BAG))
            or (of is str and kind in (ID, TIME, SCALAR))
            or (of is bool and kind in (SCALAR, FLAG))
        ):
            return value
        return self._wrong(value)

    def _wrong(self, value: Any) -> tuple[str, str]:
        found = {str: "a text", bytes: "bytes", dict: "an object", list: "a list", bool: "a boolean"}
        said = f"expected {self._slot.kind.strip()}, found {found.get(type(value), 'a number')}"
        return self._slot.reason, f"{dotted(self._slot.path)}: {said}"
