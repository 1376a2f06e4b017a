"""JSON Schema as far as a stream asks of it: which types of value a schema allows at a path.

Drafts 4 to 2020-12: `type`, `enum`, `const`, `properties`, `additionalProperties`, `items`, `prefixItems`, `allOf`,
`anyOf`, `oneOf`, `$ref` into the schema itself and into what it refers to in the registry, and `format` of texts. What
a schema has beyond that (`not`, `if`, bounds, patterns) narrows values and not types, and is not looked at. Where it
says nothing, anything may be.
"""

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from riparian.topics.decoding.paths import Index
from riparian.topics.formats.common import slots as s
from riparian.topics.formats.common.schema_text import check, content
from riparian.topics.formats.common.slots import MOST_NAMES, SchemaMismatch, Slot, names_in, problem
from riparian.topics.schemas import JSON, RegisteredSchema, UnusableError

MOST_ALTERNATIVES = 200  # alternatives of one place: oneOf in oneOf
MOST_LEVELS = 100  # levels of references and alternatives, one behind the other
MOST_STEPS = 10_000  # into references and alternatives, in all
MOST_COPIED = 1_000_000  # parts of ways, in all

ANYTHING = "anything"
_EVERY = frozenset(("null", "boolean", "integer", "number", "string", "object", "array"))
_NAMES = {"boolean": "a boolean", "integer": "an integer", "number": "a number", "string": "a string"}
_NAMES |= {"object": "an object", "array": "an array"}
_FITTING = {
    s.ID: {"string", "integer"},
    s.TIME: {"string", "integer", "number"},
    s.SCALAR: {"string", "integer", "number", "boolean"},
    s.NUMBER: {"integer", "number"},
    s.TARGET: {"integer", "number"},
    s.FLAG: {"boolean"},
    s.OBJECT: {"object"},
    s.BAG: {"array"},
}
_TIMES = ("date-time", "date")
_MOST_FORMAT = 40  # characters, in a sentence


class _Subschema(NamedTuple):
    """A schema within a document, which its references are looked up in. kinds : the types that it allows."""

    content: dict[str, Any]
    document: Any
    kinds: set[str]


# What has to hold at a place, all of it; and the ways in which a value may be there, one of them.
_Way = tuple[_Subschema, ...]
_NO_BOUNDS: _Way = ()


class JsonSchema:
    """A schema of the registry, and what it refers to.

    Raises UnusableError where it is no JSON Schema, or too large.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        check(schema, JSON)
        self._others = {name: _parsed(one.text) for name, one in schema.references}
        self._resolutions: dict[tuple[str, int], tuple[Any, Any]] = {}  # of a reference in a document
        self._indexes: dict[int, dict[Any, Any]] = {}  # document -> its definitions by ids and anchors
        self._kinds: dict[int, set[str]] = {}  # schema -> the types that it allows by itself
        self._steps = self._copied = 0
        document = _parsed(schema.text)
        self._tops = self._flat(document, document, 0)

    def problems(
        self, slots: Sequence[Slot], instances: Sequence[Slot] | None, name: str, tops: list[_Way] | None = None
    ) -> list[SchemaMismatch]:
        """Where it does not fit what a stream maps. instances : the slots of each instance of a bag. name : of the
        schema, for sentences. tops : what the slots are in, None for the whole."""
        tops = self._tops if tops is None else tops
        found: list[SchemaMismatch] = []
        for slot in slots:
            ways, around = tops, set[str]()
            for part in slot.path:
                around |= _types(ways) - {ANYTHING, "null", "array" if isinstance(part, Index) else "object"}
                ways = self._below(ways, part)
            kinds = _types(ways)
            fits = {"" if _is_fit(slot, kind) else kind for kind in kinds - {"null"}} | around
            if kinds == {"null"}:
                fits = {""}
            if "number" in fits:
                fits.discard("integer")
            found += problem(slot, {_name_of(kind) for kind in fits}, name, lambda: self._names(tops))
            if slot.kind == s.BAG and instances is not None and "" in fits:
                found += self.problems(instances, None, name, self._below(ways, Index("[0]")))
        return found

    def _below(self, ways: list[_Way], name: str) -> list[_Way]:
        """The ways of a field of an object, or of a place of an array."""
        kind, found = "array" if isinstance(name, Index) else "object", list[_Way]()
        for way in ways:
            if kind not in _kinds(way):
                continue
            inside, is_closed = list[tuple[Any, Any]](), False
            for part in way:
                declared = _place(part.content, name) if isinstance(name, Index) else _field(part.content, name)
                if declared is False:
                    is_closed = True
                elif declared is not None:
                    inside.append((declared, part.document))
            if inside:
                together: list[_Way] = [_NO_BOUNDS]
                for content, document in inside:
                    together = self._each_with_each(together, self._flat(content, document, 0))
                found += together
            elif not is_closed:
                found.append(_NO_BOUNDS)
        if len(found) > MOST_ALTERNATIVES:
            raise UnusableError(f"a place of it may hold one of more than {MOST_ALTERNATIVES:,} schemas")
        return found

    def _flat(self, content: Any, document: Any, depth: int) -> list[_Way]:
        """A schema as the ways that it allows, with its references and its alternatives resolved."""
        if content is False:
            return []
        if not isinstance(content, dict) or not content:
            return [_NO_BOUNDS]
        self._steps += 1
        if depth > MOST_LEVELS or self._steps > MOST_STEPS:
            raise UnusableError("its references lead in a circle, or there are too many")
        if id(content) not in self._kinds:
            self._kinds[id(content)] = _own_types(content)
        ways: list[_Way] = [(_Subschema(content, document, self._kinds[id(content)]),)]
        reference = content.get("$ref")
        if isinstance(reference, str):
            target, where = self._resolved(reference, document)
            ways = self._each_with_each(ways, self._flat(target, where, depth + 1))
        for word in ("anyOf", "oneOf"):
            if isinstance(content.get(word), list):
                ways = self._each_with_each(
                    ways, [w for one in content[word] for w in self._flat(one, document, depth + 1)]
                )
        if isinstance(content.get("allOf"), list):
            for one in content["allOf"]:
                ways = self._each_with_each(ways, self._flat(one, document, depth + 1))
        return [way for way in ways if _kinds(way)]

    def _each_with_each(self, ways: list[_Way], others: list[_Way]) -> list[_Way]:
        if len(ways) * len(others) > MOST_ALTERNATIVES:
            raise UnusableError(f"a place of it may hold one of more than {MOST_ALTERNATIVES:,} schemas")
        found = [one + other for one in ways for other in others]
        self._copied += sum(map(len, found))
        if self._copied > MOST_COPIED:
            raise UnusableError("its references and alternatives hold too much")
        return found

    def _resolved(self, reference: str, document: Any) -> tuple[Any, Any]:
        """What a $ref names, and the document that it is in; anything where nobody has it."""
        key = reference, id(document)
        if key not in self._resolutions:
            self._resolutions[key] = self._looked_up(reference, document)
        return self._resolutions[key]

    def _looked_up(self, reference: str, document: Any) -> tuple[Any, Any]:
        name, _, pointer = reference.partition("#")
        if name:
            ends = (one for known, one in self._others.items() if known == name or known.endswith("/" + name))
            by_id = [one for one in self._others.values() if _id(one) in (name, reference)]
            index = self._index(document)
            by_id += [index["id", one] for one in (name, reference) if ("id", one) in index]
            found = next(ends, by_id[0] if by_id else None)
            if found is None:
                return True, document
            document = found
        if not pointer:
            return document, document
        if not pointer.startswith("/"):
            index = self._index(document)
            return index.get(("anchor", pointer), index.get(("id", f"#{pointer}"), True)), document
        return _below(document, pointer), document

    def _index(self, document: Any) -> dict[Any, Any]:
        """The definitions of a document by their ids and anchors: the first of each."""
        index = self._indexes.get(id(document))
        if index is None:
            index = self._indexes[id(document)] = {}
            for one in _bundled(document):
                for kind, name in (("id", _id(one)), ("anchor", one.get("$anchor"))):
                    if isinstance(name, str):
                        index.setdefault((kind, name), one)
        return index

    def _names(self, tops: list[_Way]) -> list[str]:
        """Names of fields of the schema, some levels deep."""

        def fields_of(ways: list[_Way]) -> tuple[list[str], list[list[_Way]]]:
            declared = (part.content.get("properties") for way in ways for part in way)
            names = list(islice(chain.from_iterable(one for one in declared if isinstance(one, dict)), MOST_NAMES))
            items = [Index("[0]")] if "array" in set().union(*map(_kinds, ways)) else []
            return names, [self._below(ways, name) for name in (*dict.fromkeys(names), *items)]

        return names_in(tops, fields_of)


def _parsed(text: str) -> Any:
    found = content(text)
    if not isinstance(found, dict | bool):
        raise UnusableError("it is no JSON Schema: neither an object nor true or false")
    return found


def _below(document: Any, pointer: str) -> Any:
    """What a JSON pointer leads to; anything where it leads nowhere."""
    found = document
    for part in pointer[1:].split("/"):
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and len(part) < 10 and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        elif isinstance(found, dict) and part in found:
            found = found[part]
        else:
            return True
    return found


def _id(content: Any) -> Any:
    return content.get("$id", content.get("id")) if isinstance(content, dict) else None


def _bundled(document: Any) -> list[Any]:
    """The schemas among the definitions of a document."""
    if not isinstance(document, dict):
        return []
    groups = [document.get(word) for word in ("$defs", "definitions")]
    return [one for group in groups if isinstance(group, dict) for one in group.values() if isinstance(one, dict)]


def _field(content: dict[str, Any], name: str) -> Any:
    """What a schema declares of a field: a schema; False where it may not be there; None where nothing is declared."""
    fields = content.get("properties")
    if isinstance(fields, dict) and name in fields:
        return fields[name]
    further = content.get("additionalProperties")
    if content.get("patternProperties"):
        return True
    if isinstance(further, dict | bool):
        return further
    # Other fields may be there, but a schema that lists fields would list one that a stream maps.
    return False if isinstance(fields, dict) else None


def _place(content: dict[str, Any], place: Index) -> Any:
    """The schema of a place in an array."""
    listed, items = content.get("prefixItems"), content.get("items")
    rest = items if listed is not None else content.get("additionalItems")
    if listed is None and isinstance(items, list):
        listed = items
    if not isinstance(listed, list):
        return items if isinstance(items, dict | bool) else None
    return listed[place.number] if place.number < len(listed) else (rest if isinstance(rest, dict | bool) else None)


def _kinds(way: _Way) -> set[str]:
    kinds = set(_EVERY)
    for part in way:
        kinds &= part.kinds
    return kinds


def _types(ways: list[_Way]) -> set[str]:
    """The types that values may have, a text with the format that it is to have: `string (uuid)`."""
    found = set[str]()
    for way in ways:
        kinds = _kinds(way)
        if kinds == _EVERY:
            found.add(ANYTHING)
            continue
        forms = [part.content["format"][:_MOST_FORMAT] for part in way if isinstance(part.content.get("format"), str)]
        if "string" in kinds and forms:
            kinds = kinds - {"string"} | {f"string ({forms[0]})"}
        found |= kinds
    return found


def _own_types(content: dict[str, Any]) -> set[str]:
    """The types that one schema allows by `type`, `enum` and `const`."""
    kinds, declared = set(_EVERY), content.get("type")
    if isinstance(declared, str | list):
        kinds &= {kind for kind in ([declared] if isinstance(declared, str) else declared) if isinstance(kind, str)}
        kinds |= {"integer"} if "number" in kinds else set()
    values = content.get("enum") if isinstance(content.get("enum"), list) else None
    if "const" in content:
        values = [content["const"]]
    if values is not None:
        kinds &= set(map(_type_of, values))
    return kinds


def _type_of(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    kinds = {int: "integer", float: "number", str: "string", dict: "object"}
    return kinds.get(type(value), "array")


def _is_fit(slot: Slot, kind: str) -> bool:
    if kind == ANYTHING:
        return True
    plain, _, form = kind.partition(" ")
    if slot.kind == s.TIME and plain == "string" and form:
        return form[1:-1] in _TIMES
    return plain in _FITTING[slot.kind]


def _name_of(kind: str) -> str:
    plain, _, form = kind.partition(" ")
    return (_NAMES.get(plain, plain) + (f" {form}" if form else "")) if kind else ""
