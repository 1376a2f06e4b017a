"""Avro's types, from a schema's text: parsed by fastavro, then held as small objects with names resolved.

Bytes are read here a value at a time (`Type.value`) or passed over (`Type.skip`); what a stream maps is looked up by
these types in `reader`. A count or a length that a record claims is bounded by the bytes that the record has: each
value takes at least one byte, or takes none and is not looked at, and a record of one value is that value, so steps are
in proportion to bytes. Types may contain themselves; how deep a record goes is bounded. fastavro's own reader has no
such bounds, and looks at what nobody maps.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from riparian.topics.decoding.times import UNITS, is_no_moment
from riparian.topics.formats.common.json_text import MAX_DEPTH
from riparian.topics.formats.common.schema_text import check, content
from riparian.topics.formats.common.slots import names_in
from riparian.topics.formats.common.varints import MalformedError, long
from riparian.topics.schemas import AVRO, RegisteredSchema, UnusableError

NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
)  # fmt: skip
PRIMITIVES = (NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING)
RECORD, ENUM, FIXED, ARRAY, MAP, UNION = "record", "enum", "fixed", "array", "map", "union"

_MS = {"timestamp-millis": 1.0, "timestamp-micros": 1e-3, "timestamp-nanos": 1e-6, "date": 86_400_000.0}
# Logical type of a moment -> the ms of one.
STAMPED = {prefix + name: ms for name, ms in _MS.items() for prefix in ("", "local-")}
TIMES_OF_DAY = ("time-millis", "time-micros")

_float, _double = Struct("<f").unpack_from, Struct("<d").unpack_from

MAX_SCALE = 1000  # largest scale of a decimal
MAX_FIXED = 2**31 - 1  # bytes of a fixed: no record of Kafka is larger
MOST_LEVELS = 200  # levels of types in types, those included that are named
_MOST_SHOWN = 40  # characters of a logical type, in a sentence

Value = Callable[[bytes, int], tuple[Any, int]]  # the value at a place, and where it ends


class TooDeepError(ValueError):
    """A record that is nested more than MAX_DEPTH levels."""


def length(v: bytes, p: int) -> tuple[int, int]:
    """The length of a text or of bytes, and where these begin. Whether they are there shows when the record ends."""
    n, p = long(v, p)
    if n < 0:
        raise MalformedError("a length below 0")
    return n, p


def text(v: bytes, p: int) -> tuple[str, int]:
    n, p = length(v, p)
    return v[p : p + n].decode(), p + n


def _bytes(v: bytes, p: int) -> tuple[bytes, int]:
    n, p = length(v, p)
    return v[p : p + n], p + n


def boolean(v: bytes, p: int) -> tuple[bool, int]:
    if v[p] > 1:
        raise MalformedError("a boolean that is neither 0 nor 1")
    return v[p] == 1, p + 1


_READ: dict[str, Value] = {
    NULL: lambda v, p: (None, p),
    BOOLEAN: boolean,
    INT: long,
    LONG: long,
    FLOAT: lambda v, p: (_float(v, p)[0], p + 4),
    DOUBLE: lambda v, p: (_double(v, p)[0], p + 8),
    BYTES: _bytes,
    STRING: text,
}


class Type:
    """A type of a schema.

    kind : one of the constants above. logical : its logical type, or None. name : full name of a record, enum or fixed.
    fields : of a record, (name, type); `taking` are those that take bytes, `blank` the others. symbols : of an enum.
    unit : of whole numbers that are moments, the ms of one. no_moment : whether their name is of none. size : of
    a fixed. item : of an array or a map. branches : of a union. scale : of a decimal. empty : whether its values take
    no bytes. whole : of a record of one value, and of nothing else that takes bytes, the type of that value; of any
    other type itself.
    """

    def __init__(self, kind: str, logical: str | None = None, name: str = "") -> None:
        self.kind, self.logical, self.name = kind, logical, name
        self.fields: list[tuple[str, Type]] = []
        self.taking: list[tuple[str, Type]] = []
        self.blank: dict[str, Type] = {}
        self.symbols: list[str] = []
        self.unit: float | None = None
        self.no_moment = False
        self.size = 0
        self.scale = 0
        self.item: Type = self
        self.branches: list[Type] = []
        self.empty = False
        self.whole: Type = self

    @property
    def spelled(self) -> str:
        """What a sentence calls it."""
        if self.kind == UNION:
            return "a union of " + " and ".join(branch.spelled for branch in self.branches)
        article = "an" if self.kind[0] in "aei" else "a"
        return f"{article} {self.kind}" + (f" ({self.logical})" if self.logical else "")

    def plain(self, v: bytes, p: int) -> tuple[Any, int]:
        """The value at p that has no others in it, and where it ends; logical types are left alone."""
        if self.kind == ENUM:
            i, p = long(v, p)
            if not 0 <= i < len(self.symbols):
                raise MalformedError(f"symbol {i} of an enum of {len(self.symbols)}")
            return self.symbols[i], p
        if self.kind == FIXED:
            return v[p : p + self.size], p + self.size
        return _READ[self.kind](v, p)

    def skip(self, v: bytes, p: int, depth: int) -> int:
        """Where the value at p ends. That may be behind the bytes there are."""
        kind = self.kind
        if depth > MAX_DEPTH:
            raise TooDeepError
        if self.empty:
            return p
        if self.whole is not self:
            return self.whole.skip(v, p, depth + 1)
        if kind in (INT, LONG, ENUM):
            return long(v, p)[1]
        if kind in (STRING, BYTES):
            n, p = length(v, p)
            return p + n
        if kind == DOUBLE:
            return p + 8
        if kind == UNION:
            i, p = self.branch(v, p)
            return self.branches[i].skip(v, p, depth + 1)
        if kind == RECORD:
            for _, inner in self.taking:
                p = inner.skip(v, p, depth + 1)
            return p
        if kind in (ARRAY, MAP):

            def item(v: bytes, p: int) -> int:
                if kind == MAP:
                    n, p = length(v, p)
                    p += n
                return self.item.skip(v, p, depth + 1)

            return self.each(v, p, item)
        if kind == BOOLEAN:
            return boolean(v, p)[1]
        return p + (4 if kind == FLOAT else self.size)

    def branch(self, v: bytes, p: int) -> tuple[int, int]:
        """Which branch of a union the value at p is of, and where that begins."""
        i, p = long(v, p)
        if not 0 <= i < len(self.branches):
            raise MalformedError(f"branch {i} of a union of {len(self.branches)}")
        return i, p

    def value(self, v: bytes, p: int, depth: int) -> tuple[Any, int]:
        """The value at p in Python's types (a map and a record as dict, without fields that take no bytes), and where
        it ends; logical types are left alone."""
        if depth > MAX_DEPTH:
            raise TooDeepError
        if self.kind == UNION:
            i, p = self.branch(v, p)
            return self.branches[i].value(v, p, depth + 1)
        if self.kind == RECORD:
            record = {}
            for name, inner in self.taking:
                record[name], p = inner.value(v, p, depth + 1)
            return record, p
        if self.kind not in (ARRAY, MAP):
            return self.plain(v, p)
        names, found = list[str](), list[Any]()

        def item(v: bytes, p: int) -> int:
            if self.kind == MAP:
                name, p = text(v, p)
                names.append(name)
            one, p = self.item.value(v, p, depth + 1)
            found.append(one)
            return p

        p = self.each(v, p, item)
        return (dict(zip(names, found, strict=True)) if self.kind == MAP else found), p

    def _block(self, v: bytes, p: int) -> tuple[int, int]:
        """How many items the block at p of a list or map has, and where they begin. 0 ends the list."""
        n, p = long(v, p)
        if n < 0:
            _, p = long(v, p)  # how many bytes they take
            n = -n
        if n > len(v) - p and not (self.kind == ARRAY and self.item.empty):
            raise MalformedError(f"{n} items in {max(0, len(v) - p)} bytes")
        return n, p

    def each(self, v: bytes, p: int, item: Callable[[bytes, int], int]) -> int:
        """Where the list or map at p ends. item : passes over one at a place. Values that take no bytes are none."""
        while True:
            n, p = self._block(v, p)
            if n == 0:
                return p
            for _ in range(0 if self.kind == ARRAY and self.item.empty else n):
                p = item(v, p)

    def names(self) -> list[str]:
        """Names of fields, some levels deep."""
        return names_in(self, lambda one: ((name for name, _ in one.fields), one.inner()))

    def inner(self) -> Iterator["Type"]:
        """The types in it."""
        yield from (inner for _, inner in self.fields)
        yield from self.branches
        if self.kind in (ARRAY, MAP):
            yield self.item


def parse(schema: RegisteredSchema) -> Type:
    """The type that a schema's text declares.

    Raises
    ------
    UnusableError
        It is no schema of Avro, or too large or too deep.
    """
    from fastavro import parse_schema

    check(schema, AVRO)
    named: dict[str, Any] = {}
    try:
        for text in [one.text for _, one in schema.references] + [schema.text]:
            parsed = parse_schema(_plain(text), named, _force=True)
        return _Builder(named).build(parsed, 0)
    except UnusableError:
        raise
    except RecursionError:
        raise UnusableError("it is nested too deeply") from None
    except Exception as error:  # whatever a text brings about in the parser
        raise UnusableError(f"it is no schema of Avro ({type(error).__name__}: {str(error)[:100]})") from None


def _plain(text: str) -> Any:
    """A schema's text as lists and dicts. A primitive type may stand there without quotes."""
    return text if text in PRIMITIVES else content(text)


def _text(name: Any) -> str:
    """A name of a schema; fastavro takes anything for one."""
    if type(name) is not str:
        raise UnusableError("it has a name that is no text")
    return name


def _bounded(schema: Any, name: str, most: int, what: str) -> int:
    """A number of a schema, 0 where it is not there."""
    number = schema.get(name, 0)
    if type(number) is not int or not 0 <= number <= most:
        raise UnusableError(f"it has a {what} of {str(number)[:40]}, expected a whole number of at most {most:,}")
    return number


def _scale(schema: Any) -> int:
    """Digits behind the point of a decimal; other types may have an attribute of this name for themselves."""
    is_decimal = schema.get("logicalType") == "decimal"
    return _bounded(schema, "scale", MAX_SCALE, "decimal with a scale") if is_decimal else 0


def _logical(schema: Any) -> str | None:
    logical = schema.get("logicalType")
    return logical[:_MOST_SHOWN] if isinstance(logical, str) else None


class _Builder:
    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._made: dict[str, Type] = {}

    def build(self, schema: Any, depth: int) -> Type:
        if depth > MOST_LEVELS:
            raise UnusableError(f"it is nested too deeply, more than {MOST_LEVELS} levels")
        if isinstance(schema, list):
            union = Type(UNION)
            union.branches = [self.build(branch, depth + 1) for branch in schema]
            return union
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return self._primitive(schema, {})
            return self._made[schema] if schema in self._made else self.build(self._named[schema], depth + 1)
        kind = schema["type"]
        if kind in ("error", "record"):
            return self._record(schema, depth)
        if kind == ENUM:
            made = self._made[schema["name"]] = Type(ENUM, name=schema["name"])
            made.symbols = list(map(_text, schema["symbols"]))
            return made
        if kind == FIXED:
            made = self._made[schema["name"]] = Type(FIXED, _logical(schema), schema["name"])
            made.size, made.scale = _bounded(schema, "size", MAX_FIXED, "fixed with a size"), _scale(schema)
            made.empty = made.size == 0
            return made
        if kind in (ARRAY, MAP):
            made = Type(kind)
            made.item = self.build(schema["items" if kind == ARRAY else "values"], depth + 1)
            return made
        if isinstance(kind, str) and kind in PRIMITIVES:
            return self._primitive(kind, schema)
        return self.build(kind, depth + 1)  # {"type": {"type": …}}

    def _record(self, schema: Any, depth: int) -> Type:
        made = self._made[schema["name"]] = Type(RECORD, name=schema["name"])
        made.fields = [(_text(field["name"]), self.build(field["type"], depth + 1)) for field in schema["fields"]]
        made.taking = [field for field in made.fields if not field[1].empty]
        made.blank = {name: inner for name, inner in made.fields if inner.empty}
        made.empty = not made.taking
        if len(made.taking) == 1:
            made.whole = made.taking[0][1].whole
        return made

    def _primitive(self, kind: str, schema: Any) -> Type:
        made = Type(kind, _logical(schema))
        made.scale = _scale(schema)
        made.empty = kind == NULL
        if kind in (INT, LONG):
            name, logical = schema.get("connect.name"), made.logical or ""
            made.unit = UNITS.get(name) if isinstance(name, str) else None
            made.unit = STAMPED.get(logical) if made.unit is None else made.unit
            made.no_moment = made.unit is None and (is_no_moment(name) or logical in TIMES_OF_DAY)
            made.logical = logical or (name.rpartition(".")[2][:_MOST_SHOWN] if made.no_moment and name else None)
        return made
