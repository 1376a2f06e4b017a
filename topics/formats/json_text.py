"""The bytes of a JSON record without its mapping: how deep it is nested, whether it is text, and all of its fields.

All of it depends on the bytes of one record alone. The depth is counted here, because the JSON decoder stops where the
interpreter's stack happens to end, and a record must not be good in one place and bad in another.
"""

import re
from typing import Any

import msgspec
import numpy as np

MAX_DEPTH = 200
# Values of at most this many bytes cannot be nested deeper than MAX_DEPTH: every level opens and closes.
SHALLOW_BYTES = 2 * MAX_DEPTH

# Always matches from a quote on, to the end of the text if need be: linear, whatever the bytes.
_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def too_deep(value: bytes) -> bool:
    """Whether a JSON text is nested deeper than MAX_DEPTH. Costs two scans, more only where brackets abound."""
    if len(value) <= SHALLOW_BYTES or value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", value).translate(None, _OTHERS), dtype=np.uint8)
    opens = (brackets == ord("[")) | (brackets == ord("{"))
    return bool(len(brackets)) and int(np.cumsum(np.where(opens, 1, -1)).max()) > MAX_DEPTH


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_fields = msgspec.json.Decoder(dict[str, Any]).decode


def read_object(value: bytes | None) -> dict[str, Any]:
    """All fields of a record that is a JSON object. ValueError where it is none."""
    try:
        return _fields(value or b"")
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
