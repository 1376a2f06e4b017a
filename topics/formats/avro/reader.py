"""Reads what a stream maps of Avro records: the truth about values and reasons, where the kernel leaves a record.

A `Shape` has what a stream maps: a slot for each field, in the order of a tuple. The paths of the slots are followed
into a record by the types of its schema, and what is not mapped is passed over. A field that the schema lacks is None,
as if the record lacked it.
"""

import math
from collections.abc import Iterator
from struct import error as struct_error
from typing import Any

from riparian.topics import records as r
from riparian.topics.decoding.paths import Index, dotted
from riparian.topics.decoding.times import in_unit
from riparian.topics.formats.avro import types as a
from riparian.topics.formats.avro.types import TooDeepError, Type
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.blocks import Shape
from riparian.topics.formats.common.slots import RejectedRecordError, SchemaMismatch, Slot, lacks_all, problem
from riparian.topics.formats.common.tuples import Read
from riparian.topics.formats.common.varints import MalformedError
from riparian.topics.vocabulary import UNAVAILABLE

_WHOLE, _REAL = (a.INT, a.LONG), (a.FLOAT, a.DOUBLE)
# Types of the numbers and texts that a slot takes as they are.
_TAKES = {
    s.ID: (*_WHOLE, a.STRING),
    s.TIME: (*_WHOLE, *_REAL, a.STRING),
    s.SCALAR: (*_WHOLE, *_REAL, a.STRING, a.ENUM, a.BOOLEAN),
    s.NUMBER: (*_WHOLE, *_REAL),
    s.TARGET: (*_WHOLE, *_REAL),
    s.FLAG: (a.BOOLEAN,),
}


def reader(shape: Shape, schema: Type) -> Read:
    """A function from the bytes of a record to its tuple. What it raises, `why` explains."""
    made, others = _SlotReader(shape), lacking(shape, schema)

    def read(v: bytes, p: int) -> Any:
        if others:
            kind = schema.branches[schema.branch(v, p)[0]] if schema.kind == a.UNION else schema
            if kind in others:
                raise RejectedRecordError(r.UNUSABLE_SCHEMA, s.NO_FEATURES.format(kind.name[:100]))
        return made.read(schema, v, p, True)[0]

    return read


def lacking(shape: Shape, schema: Type) -> set[Type]:
    """Of the types that a record may be, those that have none of the features."""
    if not shape.needs_one:
        return set()
    made, kinds = _SlotReader(shape), schema.branches if schema.kind == a.UNION else [schema]
    return {kind for kind in kinds if kind.kind == a.RECORD and lacks_all(shape.slots, made.found(kind)[0])}


def problems(shape: Shape, schema: Type, name: str) -> list[SchemaMismatch]:
    """Where a schema does not fit what the stream maps. name : of the schema, for sentences."""
    return _SlotReader(shape).problems(schema, name)


def why(error: Exception) -> tuple[str, str]:
    """Reason and detail of a record that a reader has refused by an error."""
    if isinstance(error, UnicodeDecodeError):
        return r.NOT_UTF8, "bytes that are not text"
    if isinstance(error, TooDeepError | RecursionError):
        return r.TOO_DEEP, "nested more than 200 levels"
    if isinstance(error, MalformedError):
        return r.MALFORMED, f"the schema does not fit the bytes: {error}"
    return r.MALFORMED, "the schema does not fit the bytes: they end before the record"


# IndexError and struct.error: the bytes end before the record does.
READING = (MalformedError, TooDeepError, RecursionError, UnicodeDecodeError, IndexError, struct_error)


class _Destination:
    """A value on the way to slots.

    here : slots that are the value itself. names, places : what lies below it, by names of fields and places of items.
    """

    def __init__(self) -> None:
        self.here: list[int] = []
        self.names: dict[str, _Destination] = {}
        self.places: dict[int, _Destination] = {}

    def slots(self) -> Iterator[int]:
        """Those that are the value, and those below it."""
        yield from self.here
        for node in (*self.names.values(), *self.places.values()):
            yield from node.slots()

    def below(self, name: str) -> "_Destination":
        if isinstance(name, Index):
            return self.places.setdefault(name.number, _Destination())
        return self.names.setdefault(name, _Destination())


class _SlotReader:
    def __init__(self, shape: Shape) -> None:
        self._shape, self._root = shape, _Destination()
        for i, slot in enumerate(shape.slots):
            node = self._root
            for name in slot.path:
                node = node.below(name)
            node.here.append(i)
        self._instances = None if shape.instances is None else _SlotReader(shape.instances)

    def read(self, schema: Type, v: bytes, p: int, whole: bool) -> tuple[Any, int]:
        """The tuple of the value at p, and where it ends. whole : whether the bytes have to end there, too."""
        shape, out = self._shape, [None] * (len(self._shape.slots) + 1)  # the last is why it is refused
        p = self._into(schema, self._root, v, p, out)
        if whole and p != len(v):
            raise MalformedError("they do not end where the record ends")
        if out[-1] is not None:
            raise RejectedRecordError(*out[-1])
        return (*[out[i] for i in shape.others], tuple([out[i] for i in shape.numbers])), p

    def _into(self, schema: Type, node: _Destination, v: bytes, p: int, out: list[Any]) -> int:
        """Read the value at p into the slots of a node. Where it ends."""
        kind = schema.kind
        if kind == a.UNION:
            i, p = schema.branch(v, p)
            return self._into(schema.branches[i], node, v, p, out)
        if kind == a.NULL:
            return p
        if self._is_object(schema, node):
            objects, others = self._of_object(schema, node)
            for i in objects:
                out[i] = True
            if others:
                self._refuse(schema, others, out)
            return self._inside(schema, node, v, p, out)
        if not self._suits(schema, node):
            self._refuse(schema, list(node.slots()), out)
            return schema.skip(v, p, 0)
        (i,) = node.here
        out[i], p = self._value(schema, self._shape.slots[i], v, p, out)
        return p

    def _inside(self, schema: Type, node: _Destination, v: bytes, p: int, out: list[Any]) -> int:
        """Read what lies in a record, a map or a list at p. Where it ends."""
        names = node.names
        if schema.kind == a.RECORD:
            for name, inner in schema.taking:
                below = names.get(name)
                p = inner.skip(v, p, 0) if below is None else self._into(inner, below, v, p, out)
            for name in schema.blank.keys() & names.keys():
                self._into(schema.blank[name], names[name], v, p, out)
            return p
        number = -1

        def item(v: bytes, p: int) -> int:
            nonlocal number
            if schema.kind == a.ARRAY:
                number += 1
                below = node.places.get(number)
            else:
                name, p = a.text(v, p)
                below = names.get(name)
            return schema.item.skip(v, p, 0) if below is None else self._into(schema.item, below, v, p, out)

        return schema.each(v, p, item)

    @staticmethod
    def _is_object(schema: Type, node: _Destination) -> bool:
        """Whether something may lie in a value."""
        indexed = schema.kind == a.ARRAY and node.places and not (node.here or node.names)
        return schema.kind in (a.RECORD, a.MAP) or bool(indexed)

    def _of_object(self, schema: Type, node: _Destination) -> tuple[list[int], list[int]]:
        """Slots that want an object, and those that want something else."""
        objects = [i for i in node.here if self._shape.slots[i].kind == s.OBJECT]
        others = [i for i in node.here if i not in objects]
        if schema.kind == a.MAP:
            others += [i for below in node.places.values() for i in below.slots()]
        return objects, others

    def _suits(self, schema: Type, node: _Destination) -> bool:
        """Whether a value is what the slot at the end of a way wants."""
        if len(node.here) != 1 or node.names or node.places:
            return False
        kind, slot = schema.kind, self._shape.slots[node.here[0]]
        if slot.kind == s.BAG:
            return kind == a.ARRAY and not schema.item.empty
        if slot.kind == s.TIME and schema.no_moment:
            return False
        return kind in _TAKES.get(slot.kind, ()) or (slot.takes_decimals and _is_decimal(schema))

    def _value(self, schema: Type, slot: Slot, v: bytes, p: int, out: list[Any]) -> tuple[Any, int]:
        """The value of a slot, and where it ends."""
        if slot.kind == s.BAG:
            return self._bag(schema, v, p)
        value, p = schema.plain(v, p)
        if slot.kind == s.TIME and schema.unit is not None:
            return in_unit(value, schema.unit), p
        if _is_decimal(schema):
            value = _number(value, schema.scale)
        elif schema.kind not in _REAL or slot.kind == s.NUMBER:
            return value, p
        # NaN is a missing value; float64 has to hold the others.
        if math.isinf(value):
            out[-1] = out[-1] or (r.NOT_FINITE, f"{dotted(slot.path)}: a number that is not finite")
        return (value if math.isfinite(value) else None), p

    def _bag(self, schema: Type, v: bytes, p: int) -> tuple[list[Any], int]:
        found, instances = list[Any](), self._instances
        assert instances is not None

        def item(v: bytes, p: int) -> int:
            one, p = instances.read(schema.item, v, p, False)
            found.append(one)
            return p

        return found, schema.each(v, p, item)

    def _refuse(self, schema: Type, slots: list[int], out: list[Any]) -> None:
        """The value is not what these slots want."""
        slot = self._shape.slots[min(slots)]
        detail = f"{dotted(slot.path)}: expected {slot.kind.strip()}, found {schema.spelled}"
        detail += s.in_text(slot, schema.spelled)
        out[-1] = out[-1] or (slot.reason, detail[:200])

    # -- what does not fit -------------------------------------------------------------------------------------

    def problems(self, schema: Type, name: str) -> list[SchemaMismatch]:
        """Where a schema does not fit what the stream maps. name : of the schema."""
        fits, bag = self.found(schema)
        slots = zip(self._shape.slots, fits, strict=True)
        found = [each for slot, of in slots for each in problem(slot, of, name, schema.names)]
        return found if bag is None or self._instances is None else found + self._instances.problems(bag, name)

    def found(self, schema: Type) -> tuple[list[set[str]], Type | None]:
        """What a schema has for each slot, as in `problem`; and the type of the instances of a bag."""
        fits: list[set[str]] = [set() for _ in self._shape.slots]  # "" where one fits, what was found elsewhere
        bag: Type | None = None
        left, seen = [(schema, self._root)], set[tuple[Type, _Destination]]()
        while left:
            one, node = left.pop()
            if (one, node) in seen:
                continue
            seen.add((one, node))
            if one.kind == a.UNION:
                left += [(branch, node) for branch in one.branches if branch.kind != a.NULL]
                continue
            fitting, others = list(node.slots()), list[int]()
            if self._is_object(one, node):
                fitting, others = self._of_object(one, node)
                if one.kind == a.RECORD:
                    left += [(inner, node.names[field]) for field, inner in one.fields if field in node.names]
                else:  # only the record knows what there is
                    fitting += [i for below in (*node.names.values(), *node.places.values()) for i in below.slots()]
            elif one.kind != a.NULL and not self._suits(one, node):
                fitting, others = [], fitting
            elif one.kind == a.ARRAY:
                bag = one.item
            for i in fitting:
                fits[i].add("")
            for i in others:
                fits[i].add(one.spelled)
        return fits, bag


def _is_decimal(schema: Type) -> bool:
    return schema.logical == "decimal" and schema.kind in (a.BYTES, a.FIXED)


def _number(data: bytes, scale: int) -> float:
    """The float64 that is nearest to a decimal."""
    if data == UNAVAILABLE.encode():
        return math.nan
    try:
        return float(int.from_bytes(data, "big", signed=True) / 10**scale)
    except OverflowError:
        return math.inf
