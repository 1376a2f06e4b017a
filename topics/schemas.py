"""Schemas of a registry as codecs know them: filled from outside, before the records that need them are decoded.

An id means the same schema for ever, so decoding stays a function of the records. Nothing here asks a registry:
`Codec.unknown_schemas` says which ids a batch needs and nobody has told us of, and whoever folds the batch asks first
(`app.registry`). Whether a registry answers is therefore no part of the fold.
"""

from collections.abc import Mapping
from typing import NamedTuple

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

# How a record names its schema: the number of four bytes, or the GUID (with hyphens) of the newer form.
Key = int | str


class Schema(NamedTuple):
    """A schema as a registry holds it. kind : AVRO, JSON or PROTOBUF. references : name -> what the text refers to by
    that name, each of them before those that refer to it. flaw : why no record can be read by it, where that was seen
    before its text was kept."""

    kind: str
    text: str
    references: tuple[tuple[str, "Schema"], ...] = ()
    flaw: str = ""

    @property
    def size(self) -> int:
        """Characters, with all that it refers to."""
        return len(self.text) + sum(len(one.text) for _, one in self.references)


class Written(NamedTuple):
    """The schema by which records of a kind are written, and its id."""

    id: int
    schema: Schema


class Schemas:
    """What is known of a registry's schemas; shared by the codecs of one stream.

    known : key -> schema. written : kind of record ("features", "labels" or "predictions") -> by what it is written.
    names : kind of record -> the full name of its schema, where the stream file gives one.
    """

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self.names = dict(names or {})
        self.known: dict[Key, Schema] = {}
        self.written: dict[str, Written] = {}


class NotToldError(Exception):
    """A record names a schema that was not asked for before it was decoded: a mistake of the program, not of the
    record."""


class UnusableError(ValueError):
    """A schema by which no record can be read."""
