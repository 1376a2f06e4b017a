"""Schemas of a registry as codecs know them: filled from outside, before the records that need them are decoded.

An id means the same schema for ever, so decoding stays a function of the records. Nothing here asks a registry:
`Codec.unknown` gives the ids that a batch needs and that are not known yet, and whoever folds the batch asks first
(`app.registry`). Whether a registry answers is therefore no part of the fold.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

MAX_SCHEMA = 1_000_000  # characters of a schema and all that it refers to
# Characters of those that are known at a time. What is made of them takes up to thirty times as much.
MOST_KNOWN = 8_000_000
_ITSELF = 1000  # characters that each counts for beside its own

# How a record names its schema: the number of four bytes, or the GUID (with hyphens) of the newer form.
Key = int | str


class RegisteredSchema(NamedTuple):
    """A schema as a registry holds it. kind : AVRO, JSON or PROTOBUF. references : name -> what the text refers to by
    that name, each of them before those that refer to it. flaw : why no record can be read by it, where that was seen
    before its text was kept."""

    kind: str
    text: str
    references: tuple[tuple[str, "RegisteredSchema"], ...] = ()
    flaw: str = ""

    @property
    def size(self) -> int:
        """Characters, with all that it refers to."""
        return len(self.text) + sum(len(one.text) for _, one in self.references)


class Written(NamedTuple):
    """The schema by which records of a kind are written, and its id."""

    id: int
    schema: RegisteredSchema


class Schemas:
    """What is known of a registry's schemas; shared by the codecs of one stream.

    Those that were used least recently are forgotten where all of them are too large, with all that was made of them.
    An id means the same schema for ever, so one that was forgotten is asked for again.

    known : key -> schema. written : kind of record ("features", "labels" or "predictions") -> by what it is written.
    names : kind of record -> the full name of its schema, where the stream file gives one.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = dict(names or {})
        self.known: dict[Key, RegisteredSchema] = {}
        self.written: dict[str, Written] = {}
        self._made: dict[Key, WeakKeyDictionary[Any, Any]] = {}
        self._held: dict[Any, frozenset[Key]] = {}
        self._used: dict[Key, int] = {}  # when, in calls
        self._n_calls = 0

    def know(self, found: Mapping[Key, RegisteredSchema]) -> None:
        """Take in what a registry has answered, and forget what is too much then."""
        self.known.update(found)
        self._use(found)
        size = sum(_ITSELF + schema.size for schema in self.known.values())
        held = frozenset[Key]().union(*self._held.values())
        for key in sorted(self.known, key=lambda key: self._used.get(key, 0)) if size > MOST_KNOWN else ():
            if size > MOST_KNOWN and key not in held and key not in found:
                size -= _ITSELF + self.known.pop(key).size
                self._used.pop(key, None)
                self._made.pop(key, None)

    def hold(self, owner: Any, keys: Iterable[Key]) -> None:
        """Keep these for an owner, and no longer those that it held before: it is about to decode records by them."""
        held = frozenset(key for key in keys if key in self.known)
        self._use(held)
        if held:
            self._held[owner] = held
        else:
            self._held.pop(owner, None)

    def _use(self, keys: Iterable[Key]) -> None:
        self._n_calls += 1
        self._used.update(dict.fromkeys(keys, self._n_calls))

    def made(self, key: Key, owner: Any, make: Callable[[RegisteredSchema], Any]) -> Any:
        """What an owner makes of a schema, once for as long as the schema is known and the owner is there. May be
        called off the event loop, of what is held."""
        there = self._made.get(key)
        if there is None:
            there = self._made.setdefault(key, WeakKeyDictionary())
        found = there.get(owner)
        if found is None:
            schema = self.known.get(key)
            if schema is None:
                raise UnknownSchemaError(f"nobody has asked the registry for schema {key}")
            found = there[owner] = make(schema)
        return found


class UnknownSchemaError(Exception):
    """A record names a schema that was not asked for before it was decoded: a mistake of the program, not of the
    record."""


class UnusableError(ValueError):
    """A schema by which no record can be read."""
