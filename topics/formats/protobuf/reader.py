"""Reads what a stream maps of Protobuf messages, as tuples.

protobuf parses a record into a message of its schema: bounded by the bytes that it has, and to a depth of 100. What the
stream maps is then taken from the message by functions that are made once for each message of a schema. A field that
cannot show whether it is there (a number of proto3 without `optional`) has its default where it is not: 0, "" or false.
Any other field that is not there is missing.
"""

import math
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from google.protobuf import timestamp_pb2
from google.protobuf.message import DecodeError

from riparian.topics import records as r
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.decoding.times import in_unit
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.blocks import Shape
from riparian.topics.formats.common.slots import RejectedRecordError, SchemaMismatch, Slot, lacks_all, names_in, problem
from riparian.topics.formats.common.tuples import Read
from riparian.topics.formats.common.varints import MalformedError
from riparian.topics.formats.protobuf.types import Descriptor, MessageTypes, class_of, indexes_at
from riparian.topics.records import Path
from riparian.topics.schemas import UnusableError

# Kinds of values, as sentences call them.
_BOOL, _TEXT, _BYTES, _WHOLE, _REAL, _ENUM = "a bool", "a string", "bytes", "a whole number", "a float", "an enum"
TIMESTAMP, _WRAPPERS = (
    "google.protobuf.Timestamp",
    {
        f"google.protobuf.{name}Value"
        for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
    },
)
_FITTING = {
    s.ID: {_TEXT, _WHOLE},
    s.TIME: {_TEXT, _WHOLE, _REAL, "a Timestamp"},
    s.SCALAR: {_TEXT, _WHOLE, _REAL, _ENUM, _BOOL},
    s.NUMBER: {_WHOLE, _REAL},
    s.TARGET: {_WHOLE, _REAL},
    s.FLAG: {_BOOL},
}
_has = timestamp_pb2.Timestamp.HasField  # of any message: one of its fields may have the name of a method
_FIRST: tuple[int, ...] = (0,)  # the first message of a schema
MOST_READERS = 1000  # readers of the messages of one schema, that are kept
ERRORS = (MalformedError, DecodeError, IndexError)

Out = list[Any]
Take = Callable[[Any, Out], None]  # from a message, or a value, into the slots of a record
_Rest = list[tuple[Path, int]]  # what is left of the path of a slot, and the slot's number


def reader(shape: Shape, messages: MessageTypes) -> Read:
    """A function (value, where the record begins) -> tuple. What it raises, `why` explains."""
    made: dict[tuple[int, ...], tuple[Any, Callable[[Any], Any]]] = {}

    def read(value: bytes, start: int) -> Any:
        # The usual case: the first message, in one byte.
        indexes, at = (_FIRST, start + 1) if value[start : start + 1] == b"\0" else indexes_at(value, start)
        known = made.get(indexes)
        if known is None:
            found = messages.at(indexes)
            if found is None:
                raise MalformedError(f"the schema has no message at {'.'.join(map(str, indexes[:9]))}")
            if len(made) >= MOST_READERS:
                made.clear()
            try:
                known = made[indexes] = class_of(found), _Maker(shape, found, "").whole()
            except UnusableError as error:
                raise RejectedRecordError(r.UNUSABLE_SCHEMA, f"it cannot be used: {error}") from None
        message, take = known
        return take(message.FromString(value[at:]))

    return read


def problems(shape: Shape, messages: MessageTypes, name: str, full_name: str | None = None) -> list[SchemaMismatch]:
    """Where a message of a schema does not fit. full_name : of the message, None for the first one."""
    maker = _Maker(shape, messages.named(full_name), name)
    maker.function()
    return maker.problems()


class _Maker:
    """Makes the function that takes a record from a message, out of one for each field."""

    def __init__(self, shape: Shape, message: Descriptor, name: str) -> None:
        self.shape, self.message, self.name = shape, message, name
        self.fits: list[set[str]] = [set() for _ in shape.slots]  # slot -> "" where it fits, what was found elsewhere
        self.inner: list[SchemaMismatch] = []  # of the instances
        self._places = {i: place for place, i in enumerate([*shape.others, *shape.numbers])}

    def whole(self) -> Callable[[Any], Any]:
        """Of records, and not of the instances in them."""
        take = self.function()
        if self.shape.needs_one and lacks_all(self.shape.slots, self.fits):
            return self._refusing
        return take

    def _refusing(self, message: Any) -> Any:
        raise RejectedRecordError(r.UNUSABLE_SCHEMA, s.NO_FEATURES.format(self.message.full_name[:100]))

    def function(self) -> Callable[[Any], Any]:
        takes = self._inside(self.message, [(slot.path, i) for i, slot in enumerate(self.shape.slots)])
        n, first_number = len(self.shape.slots), len(self.shape.others)

        def take(message: Any) -> Any:
            out = [None] * n
            for one in takes:
                one(message, out)
            return (*out[:first_number], tuple(out[first_number:]))

        return take

    def _inside(self, message: Descriptor, slots: _Rest) -> list[Take]:
        """What takes the fields of a message."""
        below: dict[str, _Rest] = {}
        for rest, i in slots:
            below.setdefault(rest[0], []).append((rest[1:], i))
        takes, plain = list[Take](), list[tuple[str, int, bool]]()
        for name, inside in below.items():
            field = message.fields_by_name.get(name)
            if isinstance(name, Index):
                takes.append(self._refused(inside, _type_name(message)))
            elif field is not None:
                rest, i = inside[0]
                if not rest and self._is_plain(field, i):
                    self.fits[i].add("")
                    plain.append((name, self._places[i], field.has_presence))
                else:
                    takes.append(self._field(field, inside))
        return [*takes, *([_plain(plain)] if plain else [])]

    def _is_plain(self, field: Any, i: int) -> bool:
        """Whether a value goes into its slot as it is, and 0 or false is what stands for none."""
        kind = self.shape.slots[i].kind
        if field.is_repeated or field.message_type is not None or kind not in (s.NUMBER, s.FLAG):
            return False
        return _kind(field) in _FITTING[kind] and not field.default_value

    def _field(self, field: Any, slots: _Rest) -> Take:
        name = field.name
        if field.is_repeated:
            inside = self._map(field, slots) if _is_map(field) else self._list(field, slots)
            return lambda message, out: inside(getattr(message, name), out)
        put = self._value(field, slots)
        if not field.has_presence:
            return lambda message, out: put(getattr(message, name), out)

        def take(message: Any, out: Out) -> None:
            if _has(message, name):
                put(getattr(message, name), out)

        return take

    def _map(self, field: Any, slots: _Rest) -> Take:
        parts = [self._objects(slots, "a map")]
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        below: dict[Any, _Rest] = {}
        for rest, i in slots:
            if rest:
                below.setdefault(rest[0], []).append((rest[1:], i))
        for name, inside in below.items():
            if isinstance(name, Index):
                parts.append(self._refused(inside, "a map"))
            elif (known := _key(key, name)) is not None:
                parts.append(_of_key(known, self._value(value, inside)))
        return _all(parts)

    def _list(self, field: Any, slots: _Rest) -> Take:
        parts, below = list[Take](), dict[int, _Rest]()
        for rest, i in slots:
            if not rest and self.shape.slots[i].kind == s.BAG and field.message_type is not None:
                parts.append(self._bag(field, i))
            elif rest and isinstance(rest[0], Index):
                below.setdefault(rest[0].number, []).append((rest[1:], i))
            else:
                parts.append(self._refused([(rest, i)], "a list"))
        return _all([*parts, *(_of_place(at, self._value(field, inside)) for at, inside in below.items())])

    def _bag(self, field: Any, i: int) -> Take:
        assert self.shape.instances is not None
        inner, place = _Maker(self.shape.instances, field.message_type, self.name), self._places[i]
        take = inner.function()
        self.inner = inner.problems()
        self.fits[i].add("")

        def put(value: Any, out: Out) -> None:
            out[place] = list(map(take, value))

        return put

    def _value(self, field: Any, slots: _Rest) -> Take:
        """What takes one value of a field's type."""
        message, (rest, i) = field.message_type, slots[0]
        if message is None:
            return self._scalar(field, i, None) if not rest else self._refused(slots, _kind(field))
        if not rest and message.full_name in _WRAPPERS:
            return self._scalar(message.fields_by_name["value"], i, attrgetter("value"))
        if not rest and message.full_name == TIMESTAMP and self.shape.slots[i].kind == s.TIME:
            self.fits[i].add("")
            return _converted(self._places[i], _milliseconds)
        objects, inside = self._objects(slots, _type_name(message)), [(rest, i) for rest, i in slots if rest]
        return _all([objects, *self._inside(message, inside)])

    def _objects(self, slots: _Rest, sentence: str) -> Take:
        """Of the slots of an object, those that are the object itself: it is there, or it is not what they want."""
        itself = [(rest, i) for rest, i in slots if not rest]
        wanted = [i for _, i in itself if self.shape.slots[i].kind == s.OBJECT]
        for i in wanted:
            self.fits[i].add("")
        puts = [_converted(self._places[i], lambda _: True) for i in wanted]
        others = [(rest, i) for rest, i in itself if i not in wanted]
        return _all([*puts, *([self._refused(others, sentence)] if others else [])])

    def _scalar(self, field: Any, i: int, inside: Callable[[Any], Any] | None) -> Take:
        slot, kind = self.shape.slots[i], _kind(field)
        if kind not in _FITTING.get(slot.kind, ()):
            return self._refused([((), i)], kind)
        self.fits[i].add("")
        convert: Callable[[Any], Any] | None = None
        if kind == _REAL and slot.kind != s.NUMBER:
            convert = partial(_finite, slot)
        elif kind == _TEXT:
            convert = partial(_checked_text, slot)
        elif kind == _ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}  # the first of those alike
            convert = lambda number: names.get(number, number)  # noqa: E731
        if inside is not None:
            return _converted(self._places[i], inside if convert is None else lambda value: convert(inside(value)))
        return _converted(self._places[i], convert)

    def _refused(self, slots: _Rest, sentence: str) -> Take:
        """The value is not what these slots want."""
        for _, i in slots:
            self.fits[i].add(sentence)
        slot = self.shape.slots[slots[0][1]]
        detail = f"{dotted(slot.path)}: expected {slot.kind.strip()}, found {sentence}"
        detail += s.in_text(slot, sentence)

        def refuse(value: Any, out: Out) -> None:
            raise RejectedRecordError(slot.reason, detail[:200])

        return refuse

    def problems(self) -> list[SchemaMismatch]:
        found = list[SchemaMismatch]()
        for slot, fits in zip(self.shape.slots, self.fits, strict=True):
            found += problem(slot, fits, self.name, self._names)
        return found + self.inner

    def _names(self) -> list[str]:
        """Names of fields, some levels deep."""

        def fields_of(message: Descriptor) -> Any:
            below = (field.message_type for field in message.fields)
            return (field.name for field in message.fields), (one for one in below if one is not None)

        return names_in(self.message, fields_of)


def why(error: Exception) -> tuple[str, str]:
    """Reason and detail of a record that a reader has refused by an error."""
    if isinstance(error, IndexError):
        return r.MALFORMED, "the bytes end before the message"
    sentence = str(error)
    if isinstance(error, DecodeError):
        sentence = sentence.partition("': ")[2] or sentence
        if "UTF-8" in sentence:
            return r.NOT_UTF8, "bytes that are not text"
        if "MaxDepth" in sentence:
            return r.TOO_DEEP, "messages that are nested more than 100 levels"
    return r.MALFORMED, f"the schema does not fit the bytes: {sentence}"[:200]


def _all(takes: list[Take]) -> Take:
    if len(takes) == 1:
        return takes[0]

    def take(value: Any, out: Out) -> None:
        for one in takes:
            one(value, out)

    return take


def _plain(fields: list[tuple[str, int, bool]]) -> Take:
    """Takes numbers as they are, in one call: name, place, and whether the field can show that it is not there. It is
    asked only where it has no other value than one that is not there."""
    get, places = attrgetter(*(name for name, _, _ in fields)), [place for _, place, _ in fields]
    asked = [(name, place) for name, place, has_presence in fields if has_presence]

    def ask(message: Any, out: Out) -> None:
        for name, place in asked:
            if not out[place] and not _has(message, name):
                out[place] = None

    def take(message: Any, out: Out) -> None:
        values = get(message)
        for place, value in zip(places, values, strict=True):
            out[place] = value
        if not all(values):
            ask(message, out)

    def take_one(message: Any, out: Out) -> None:
        out[places[0]] = get(message)
        ask(message, out)

    return take if len(fields) > 1 else take_one


def _converted(place: int, convert: Callable[[Any], Any] | None) -> Take:
    def put(value: Any, out: Out) -> None:
        out[place] = value

    def put_converted(value: Any, out: Out) -> None:
        out[place] = convert(value)  # type: ignore[misc]

    return put if convert is None else put_converted


def _of_key(key: Any, put: Take) -> Take:
    def take(value: Any, out: Out) -> None:
        if key in value:  # a map of messages would make one by looking it up
            put(value[key], out)

    return take


def _of_place(at: int, put: Take) -> Take:
    def take(value: Any, out: Out) -> None:
        if at < len(value):
            put(value[at], out)

    return take


def _finite(slot: Slot, value: float) -> float | None:
    """NaN is a missing value; float64 has to hold the others."""
    if value - value == 0:
        return value
    if math.isnan(value):
        return None
    raise RejectedRecordError(r.NOT_FINITE, f"{dotted(slot.path)}: a number that is not finite")


def _checked_text(slot: Slot, value: Any) -> str:
    """What proto2 does not check."""
    if type(value) is not str:
        raise RejectedRecordError(r.NOT_UTF8, f"{dotted(slot.path)}: bytes that are not text")
    return value


def _milliseconds(value: Any) -> float:
    """A Timestamp as `topics.decoding.times` wants numbers."""
    return in_unit(value.seconds * 1000 + value.nanos / 1_000_000, 1.0)


def _kind(field: Any) -> str:
    if field.message_type is not None:
        return _type_name(field.message_type)
    kinds = {
        field.TYPE_BOOL: _BOOL, field.TYPE_STRING: _TEXT, field.TYPE_BYTES: _BYTES, field.TYPE_ENUM: _ENUM,
        field.TYPE_DOUBLE: _REAL, field.TYPE_FLOAT: _REAL,
    }  # fmt: skip
    return kinds.get(field.type, _WHOLE)


def _type_name(message: Descriptor) -> str:
    return f"a message ({message.full_name})"


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _key(field: Any, name: str) -> Any:
    """A name of the stream file as the key of a map; None where it is none."""
    kind = _kind(field)
    if kind == _TEXT:
        return str(name)
    if kind == _BOOL:
        return {"true": True, "false": False}.get(name)
    return int(name) if name.removeprefix("-").isdecimal() and name.isascii() and len(name) < 21 else None
