"""The messages of a Protobuf schema: its text, and what it refers to, in a pool of their own.

protobuf's pool resolves names and checks the rest; a schema of a registry never meets another one, nor the messages of
this process. What is imported and stands neither among the references nor among google/protobuf is left out: it is used
by options alone, or the pool names the type that is not there.
"""

import base64
import binascii
from typing import Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)  # fmt: skip
from google.protobuf.message import DecodeError

from riparian.topics.formats.common.schema_text import check
from riparian.topics.formats.common.varints import MalformedError, long, whole
from riparian.topics.formats.protobuf.proto_text import file_of
from riparian.topics.schemas import PROTOBUF, RegisteredSchema, UnusableError

MOST_INDEXES = 100  # indexes of a message in messages
MOST_REACHED = 2000  # messages that one leads to by its fields, and by theirs
MOST_STEPS = 200  # steps from one to the next: protobuf makes their classes one within the other
_WELL_KNOWN = {
    module.DESCRIPTOR.name: module.DESCRIPTOR
    for module in (
        any_pb2, source_context_pb2, type_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2,
        struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip
_NAME = "riparian/schema.proto"  # of the schema itself, which has none

Descriptor = Any


class MessageTypes:
    """The messages of a schema.

    Raises UnusableError where it is no Protobuf schema.
    """

    def __init__(self, schema: RegisteredSchema) -> None:
        check(schema, PROTOBUF)
        self._lists: dict[str, list[Descriptor]] = {}  # full name of a message -> those in it; "" : of the file
        self._pool = descriptor_pool.DescriptorPool()
        self._there = set[str]()
        for name, reference in schema.references:
            if name not in _WELL_KNOWN and name not in self._there:
                self._add(name, reference.text)
        self._file = self._add(_NAME, schema.text)

    def _add(self, name: str, text: str) -> Any:
        try:
            made = _of_bytes(text) or file_of(name, text)
            made.name = name
            imported = list(made.dependency)
            for one in imported:
                self._add_well_known(one)
            del made.dependency[:], made.public_dependency[:], made.weak_dependency[:]
            made.dependency.extend(dict.fromkeys(one for one in imported if one in self._there))
            self._pool.Add(made)
            self._there.add(name)
            return self._pool.FindFileByName(name)
        except UnusableError:
            raise
        except (TypeError, KeyError, ValueError) as error:  # of the pool, or of a text that is none
            reason = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise UnusableError(f"it is no schema of Protobuf ({reason[:200]})") from None

    def _add_well_known(self, name: str) -> None:
        if name in _WELL_KNOWN and name not in self._there:
            for below in _WELL_KNOWN[name].dependencies:
                self._add_well_known(below.name)
            self._pool.Add(descriptor_pb2.FileDescriptorProto.FromString(_WELL_KNOWN[name].serialized_pb))
            self._there.add(name)

    def at(self, indexes: tuple[int, ...]) -> Descriptor | None:
        """The message at these places: of the file, of the message there, and so on. None where there is none."""
        found, among = None, self._listed(None)
        for i in indexes:
            if not 0 <= i < len(among):
                return None
            found = among[i]
            among = self._listed(found)
        return found

    def _listed(self, message: Descriptor | None) -> list[Descriptor]:
        """Messages in the order of the text, as serializers count them: without those that maps are made of."""
        name = "" if message is None else message.full_name
        if name not in self._lists:
            types = self._file.message_types_by_name if message is None else message.nested_types_by_name
            self._lists[name] = [one for one in types.values() if not one.GetOptions().map_entry]
        return self._lists[name]

    def named(self, name: str | None) -> Descriptor:
        """The message with this full name, the first one for None. UnusableError where there is none."""
        return self.at(self.places(name))

    def places(self, name: str | None) -> tuple[int, ...]:
        """Where it is, for `at`."""
        left: list[tuple[tuple[int, ...], Descriptor]] = [((i,), one) for i, one in enumerate(self._listed(None))]
        for places, one in left:  # which grows meanwhile
            if name in (None, one.full_name):
                return places
            left += [((*places, i), below) for i, below in enumerate(self._listed(one))]
        raise UnusableError("it has no message" + (f" {name}" if name else ""))


def class_of(descriptor: Descriptor) -> Any:
    """The class of a message. UnusableError where it leads to too many others."""
    _check_reach(descriptor)
    try:
        return message_factory.GetMessageClass(descriptor)
    except RecursionError:  # the stack was nearly used up before
        raise UnusableError(f"{descriptor.full_name[:100]} leads to too many messages, one behind the other") from None


def _check_reach(descriptor: Descriptor) -> None:
    """UnusableError where classes of too many messages would be made, or too many one within the other. Messages are
    visited as protobuf does."""
    seen, way = {descriptor.full_name}, [iter(descriptor.fields)]
    while way:
        field = next(way[-1], None)
        if field is None:
            way.pop()
        elif field.message_type is not None and field.message_type.full_name not in seen:
            seen.add(field.message_type.full_name)
            way.append(iter(field.message_type.fields))
            if len(seen) > MOST_REACHED or len(way) > MOST_STEPS:
                raise UnusableError(
                    f"{descriptor.full_name[:100]} leads to more than {MOST_REACHED:,} messages, or to {MOST_STEPS} "
                    "one behind the other"
                )


def _of_bytes(text: str) -> Any | None:
    """The descriptor that stands as base64 in place of a text, as Confluent's Python client registers it."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        return descriptor_pb2.FileDescriptorProto.FromString(data) if data else None
    except (binascii.Error, ValueError, DecodeError):
        return None


def head_of(indexes: tuple[int, ...]) -> bytes:
    """The bytes that name which message of its schema a record is."""
    return b"\0" if indexes == (0,) else b"".join(map(whole, (len(indexes), *indexes)))


def indexes_at(value: bytes, p: int) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a record is, and where it begins. MalformedError where the places are none."""
    n, p = long(value, p)
    if n == 0:
        return (0,), p
    if not 0 < n <= MOST_INDEXES:
        raise MalformedError(f"{n} places of a message in messages")
    found = []
    for _ in range(n):
        one, p = long(value, p)
        found.append(one)
    return tuple(found), p
