"""Prediction records as Protobuf: the fields of the JSON ones, by one schema for every stream.

No member of `y` is set where a model knows nothing (or has no finite value); p is empty then, too, and where it is not
asked for, of regression, and in a record of more than MAX_BYTES. Where intervals, sets, reasons or alerts are asked
for, the schema has fields more. An integer beyond 64 bits is written as text. They are written byte by byte, as Avro's
are; protobuf reads them back.
"""

import math
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

from riparian.topics.formats.common.binary_predictions import BinaryWriter, Encode, Shares, shares_between
from riparian.topics.formats.common.framing import body_of
from riparian.topics.formats.common.registered import FURTHER, Predictions
from riparian.topics.formats.common.varints import MalformedError, varint
from riparian.topics.formats.protobuf.types import MessageTypes, class_of, indexes_at
from riparian.topics.names import LEARNED, place_field
from riparian.topics.records import place_type
from riparian.topics.schemas import PROTOBUF, RegisteredSchema
from riparian.topics.vocabulary import Scalar

_TEXT = """syntax = "proto3";
package riparian;

message Prediction {
  // Of the features, in their topic.
  optional int64 offset = 1;
  // Of the next label when it was made.
  optional int64 label_offset = 2;
  string id = 3;
  string model = 4;
  // The likeliest class, or the value.
  oneof y {
    bool y_bool = 5;
    int64 y_int = 6;
    double y_double = 7;
    string y_string = 8;
  }
  // Probabilities by class.
  map<string, double> p = 9;
  map<string, Opinion> challengers = 10;
%s}

message Opinion {
  oneof y {
    bool y_bool = 5;
    int64 y_int = 6;
    double y_double = 7;
    string y_string = 8;
  }
  map<string, double> p = 9;
%s}
%s"""
_FIELDS = """  // An interval around the value.
  optional double lower = 11;
  optional double upper = 12;
  // The classes in the set.
  repeated Class set = 13;
"""
_CLASS = """
message Class {
  oneof y {
    bool y_bool = 5;
    int64 y_int = 6;
    double y_double = 7;
    string y_string = 8;
  }
}
"""
_REASONS = """  // What features added to y, the largest first.
  repeated Reason reasons = 14;
"""
_REASON = """
message Reason {
  string feature = 1;
  double value = 2;
}
"""
_ALERT = """  // Whether y is an alert.
  optional bool alert = 16;
"""
_MADE = """  // Features over the past of keys.
  map<string, double> features = 17;
"""
_NUMBERS = {place_field(LEARNED): 15}  # of fields that name places of further input logs


@cache
def schemas_of(further: tuple[str, ...] = ()) -> Predictions:
    """Of predictions. further : `Mapping.further`."""
    places = "".join(f"  // {FURTHER[name]}\n  optional int64 {name} = {_NUMBERS[name]};\n" for name in further)
    why = _FIELDS + _REASONS, _CLASS + _REASON
    alerts = why[0] + _ALERT, _ALERT, why[1]
    every = ("", "", ""), (_FIELDS, "", _CLASS), (why[0], "", why[1]), alerts, (alerts[0] + _MADE, *alerts[1:])
    return tuple(RegisteredSchema(PROTOBUF, _TEXT % (more + places, *others)) for more, *others in every)


_pack = Struct("<d").pack


def _whole(n: int) -> bytes:
    """A whole number of 64 bits as Protobuf writes it."""
    return varint(n & 2**64 - 1)


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return _whole(number << 3 | 2) + _whole(len(data)) + data


def _number(number: int) -> Encode:
    """Writes a whole number into a field."""
    tag = _whole(number << 3)
    return lambda value: tag + _whole(value)


def _double(number: int) -> Encode:
    """Writes a float into a field, which is left out where it is none."""
    tag = _whole(number << 3 | 1)
    return lambda value: tag + _pack(value) if value is not None and math.isfinite(value) else b""


def _text(number: int) -> Encode:
    """Writes a text into a field."""
    return lambda value: _field(number, value.encode())


def _answer(value: Scalar | None) -> bytes:
    """A member of y."""
    if isinstance(value, bool):
        return b"\x28\1" if value else b"\x28\0"
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return b"\x30" + _whole(value)
    if isinstance(value, float):
        return _ANSWER(value)
    return b"" if value is None else _field(8, str(value).encode())


_ANSWER, _name, _value = _double(7), _text(1), _double(2)


class ProtobufPredictionWriter(BinaryWriter):
    """Writes predictions as Protobuf."""

    head = b"\0"  # the first message of the schema
    encode: ClassVar[dict[str, Encode]] = {
        "offset": _number(1), "label_offset": _number(2), **{name: _number(i) for name, i in _NUMBERS.items()},
        "id": _text(3), "model": _text(4), "y": _answer, "lower": _double(11), "upper": _double(12),
        "set": lambda classes: b"".join(_field(13, _answer(one)) for one in classes or ()),
        "reasons": lambda found: b"".join(_field(14, _name(one) + _value(x)) for one, x in (found or {}).items()),
        "features": lambda found: b"".join(_field(17, _name(one) + _value(x)) for one, x in (found or {}).items()),
        "alert": lambda alert: b"" if alert is None else _number(16)(alert),
    }  # fmt: skip

    def shares(self, names: Sequence[str]) -> Shares:
        entries = [_field(9, _name(name) + _value(0.0)) for name in names]
        return shares_between([entry[:-8] for entry in entries])

    def challengers(self, names: Sequence[str], opinions: Sequence[bytes]) -> bytes:
        parts = zip(names, opinions, strict=True)
        return b"".join(_field(10, _name(name) + _field(2, opinion)) for name, opinion in parts)


class ProtobufPredictionReader:
    """Reads predictions back. What is none is a ValueError."""

    def __init__(self, further: tuple[str, ...] = ()) -> None:
        self._message = class_of(MessageTypes(schemas_of(further)[-1]).at((0,)))
        self._names, self._place = ("offset", "label_offset", *further), place_type(further)

    def place(self, value: bytes | None) -> Any:
        """Where a prediction record stands."""
        found = self._read(value)
        return self._place(found.offset, found.label_offset, 0, 0, *[getattr(found, name) for name in self._names[2:]])

    def read(self, value: bytes | None) -> dict[str, Any]:
        """All fields of a prediction record."""
        found = self._read(value)
        read = {name: getattr(found, name) for name in (*self._names, "id", "model")}
        read |= _opinion(found)
        if found.challengers:
            read["challengers"] = {name: _challenger(one) for name, one in found.challengers.items()}
        read |= {name: getattr(found, name) for name in ("lower", "upper", "alert") if found.HasField(name)}
        if found.set:
            read["set"] = [_scalar(one) for one in found.set]
        if found.features:
            read["features"] = dict(found.features)
        if found.reasons:
            read["reasons"] = {one.feature: one.value for one in found.reasons}
        return read

    def _read(self, value: bytes | None) -> Any:
        body = body_of(value)
        try:
            indexes, start = indexes_at(body, 0)
            if indexes != (0,):
                raise MalformedError(f"the message at {indexes} of the schema is no prediction")
            found = self._message.FromString(body[start:])
        except (IndexError, DecodeError, MalformedError) as error:
            raise ValueError(str(error)) from error
        if not all(map(found.HasField, self._names)):
            raise ValueError("it has no place")
        return found


def _opinion(message: Any) -> dict[str, Any]:
    return {"y": _scalar(message), "p": dict(message.p) or None}


def _challenger(message: Any) -> dict[str, Any]:
    return _opinion(message) | ({"alert": message.alert} if message.HasField("alert") else {})


def _scalar(message: Any) -> Any:
    member = message.WhichOneof("y")
    return None if member is None else getattr(message, member)
