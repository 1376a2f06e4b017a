"""The wire format of schema registries: which schema a record was written by, before the record itself.

0x00 and the id in four bytes, big-endian; or 0x01 and the 16 bytes of a GUID. Both stand at the beginning of the value,
or in the header `__value_schema_id`: then `inline` puts them there, so that all else knows one form.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from riparian.topics.schemas import Key, Schemas

HEADER = "__value_schema_id"
ID_BYTES, GUID_BYTES = 5, 17
_NO_ID = bytes(4)  # ids begin with 1
NO_HEAD = "it begins with neither 0x00 and four bytes, nor 0x01 and sixteen"


class SchemaFrame(NamedTuple):
    """Which schema, and where the record begins in the value."""

    key: Key
    start: int


def no_head(value: bytes) -> str:
    """Why a record has no head."""
    if value[:ID_BYTES] == b"\0" + _NO_ID:
        return (
            "it begins with an id of eight bytes, as Apicurio's own serializers write until 3.0; expected four: set "
            "apicurio.registry.id-handler to io.apicurio.registry.serde.Legacy4ByteIdHandler, and "
            "apicurio.registry.use-id to contentId"
        )
    return NO_HEAD


def head_of(value: bytes) -> SchemaFrame | None:
    """The head of a record; None where it has none."""
    if value[:1] == b"\0" and len(value) >= ID_BYTES and value[1:ID_BYTES] != _NO_ID:
        return SchemaFrame(int.from_bytes(value[1:ID_BYTES], "big"), ID_BYTES)
    if value[:1] == b"\1" and len(value) >= GUID_BYTES:
        return SchemaFrame(str(UUID(bytes=value[1:GUID_BYTES])), GUID_BYTES)
    return None


def head(schema_id: int) -> bytes:
    """The bytes before a record that is written by a schema."""
    return b"\0" + schema_id.to_bytes(4, "big")


def body_of(value: bytes | None) -> bytes:
    """What stands behind the head of a record. ValueError where it has none."""
    found = head_of(value or b"")
    if value is None or found is None:
        raise ValueError("it does not begin with the id of a schema")
    return value[found.start :]


def inline(values: list[bytes | None], headers: Sequence[Any] | None) -> list[bytes | None]:
    """The values, with what a header has of their schema before them."""
    if headers is None or not any(headers):
        return values
    return [
        value if not about or value is None or type(value) is not bytes else _inlined(value, about)
        for value, about in zip(values, headers, strict=True)
    ]


def _inlined(value: bytes, about: Sequence[tuple[str, bytes | None]]) -> bytes:
    for name, content in about:
        if name == HEADER and content is not None:
            found = head_of(content)
            if found is not None and found.start == len(content):
                return content + value
    return value


def unknown(values: Sequence[bytes | None], schemas: Schemas, max_bytes: int) -> dict[Key, list[int]]:
    """The schemas that records need and that are not known: key -> positions of the records that name it.

    max_bytes : larger records are refused, whatever their schema is.
    """
    if named(values) <= schemas.known.keys():
        return {}
    known, missing = schemas.known, dict[Key, list[int]]()
    for i, value in enumerate(values):
        if value and type(value) is bytes and len(value) <= max_bytes:
            found = head_of(value)
            if found is not None and found.key not in known:
                missing.setdefault(found.key, []).append(i)
    return missing


def named(values: Sequence[bytes | None]) -> set[Key]:
    """The schemas that records name."""
    # A set of a few heads, the usual case, costs 0.1 µs a record.
    heads = {value[:ID_BYTES] for value in values if value}
    if any(first[:1] == b"\1" for first in heads):
        heads |= {value[:GUID_BYTES] for value in values if value and value[:1] == b"\1"}
    return {found.key for first in heads if (found := head_of(first)) is not None}
