"""The bytes of a JSON record without its mapping: how deep it is nested, whether it is text, and all of its fields.

All of it depends on the bytes of one record alone. The depth is counted here, because the JSON decoder stops where the
interpreter's stack happens to end, and a record must not be good in one place and bad in another.
"""

import re
from typing import Any

import msgspec
import numpy as np

from riparian.topics.reports import reader

MAX_DEPTH = 200
# Values of at most this many bytes cannot be nested deeper than MAX_DEPTH: every level opens and closes.
SHALLOW_BYTES = 2 * MAX_DEPTH

# Always matches from a quote on, to the end of the text if need be: linear, whatever the bytes.
_STRING = re.compile(rb'"(?:[^"\\]|\\.?)*+(?:"|\Z)', re.DOTALL)
_MOST_OF_AN_INTEGER = 4300  # characters that the decoder reads
# A text, or an integer that may have more; what has a fraction or an exponent is none.
_LONG_INTEGER = re.compile(_STRING.pattern + rb"|(?<![0-9.eE+-])-?[0-9]{4300,}+(?![.eE])", re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


def too_deep(value: bytes) -> bool:
    """Whether a JSON text is nested deeper than MAX_DEPTH. Costs two scans, more only where brackets abound."""
    if len(value) <= SHALLOW_BYTES or value.count(b"[") + value.count(b"{") <= MAX_DEPTH:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", value).translate(None, _OTHERS), dtype=np.uint8)
    opens = (brackets == ord("[")) | (brackets == ord("{"))
    return bool(len(brackets)) and int(np.cumsum(np.where(opens, 1, -1)).max()) > MAX_DEPTH


def with_shorter_integers(value: bytes) -> bytes:
    """A JSON text with its integers cut to 4,300 characters. They are beyond float64, and longer than any id, still."""
    return _LONG_INTEGER.sub(
        lambda found: found[0] if found[0].startswith(b'"') else found[0][:_MOST_OF_AN_INTEGER], value
    )


def is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


_any = msgspec.json.Decoder().decode
# All fields of a record that is a JSON object. ValueError where it is none.
read_object = reader(dict[str, Any])


def plain(text: str) -> str:
    """What is in a JSON text: of Connect's {"schema", "payload"}, and of an object with one field, its value; any other
    text as it is."""
    try:
        found = _any(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return text
    if isinstance(found, dict):
        found = found.get("payload", found)
    while isinstance(found, dict) and len(found) == 1:
        (found,) = found.values()
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()
