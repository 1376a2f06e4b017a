"""Prediction records as Avro: the fields of the JSON ones, by one schema for every stream.

Where intervals, sets, reasons, alerts or features are asked for it is another schema, with fields more at the end, and
from alerts on one more of each challenger. The places that a prediction was made at come first and stay first, so that
they can be read whatever comes behind them; those of further input logs, which a stream has from its beginning, come
right behind the labels'.
y is null where a model knows nothing (or has no finite value); p is null then, too, and where it is not asked for, of
regression, and in a record of more than MAX_BYTES. An integer beyond 64 bits is written as text.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, ClassVar

from riparian.topics.formats.avro import types as avro_types
from riparian.topics.formats.common.binary_predictions import BESIDES, BinaryWriter, Encode, Shares, shares_between
from riparian.topics.formats.common.framing import head_of
from riparian.topics.formats.common.registered import FURTHER, Predictions
from riparian.topics.formats.common.varints import MalformedError, whole
from riparian.topics.records import place_type
from riparian.topics.schemas import AVRO, Key, RegisteredSchema, Schemas
from riparian.topics.vocabulary import Scalar

_Y = ["null", "boolean", "long", "double", "string"]
_P = ["null", {"type": "map", "values": "double"}]
_OPINION: dict[str, Any] = {
    "type": "record",
    "name": "Opinion",
    "fields": [{"name": "y", "type": _Y}, {"name": "p", "type": _P, "default": None}],
}
_PREDICTION: dict[str, Any] = {
    "type": "record",
    "name": "Prediction",
    "namespace": "riparian",
    "fields": [
        {"name": "offset", "type": "long", "doc": "Of the features, in their topic."},
        {"name": "label_offset", "type": "long", "doc": "Of the next label when it was made."},
        {"name": "id", "type": "string"},
        {"name": "model", "type": "string"},
        {"name": "y", "type": _Y, "doc": "The likeliest class, or the value."},
        {"name": "p", "type": _P, "default": None, "doc": "Probabilities by class."},
        {"name": "challengers", "type": ["null", {"type": "map", "values": _OPINION}], "default": None},
    ],
}
_REGION = [
    {"name": "lower", "type": ["null", "double"], "default": None, "doc": "The interval begins here."},
    {"name": "upper", "type": ["null", "double"], "default": None, "doc": "The interval ends here."},
    {"name": "set", "type": ["null", {"type": "array", "items": _Y}], "default": None, "doc": "Classes in the set."},
]
_REASON = {
    "type": "record",
    "name": "Reason",
    "fields": [{"name": "feature", "type": "string"}, {"name": "value", "type": "double"}],
}
_WHY = {
    "name": "reasons",
    "type": ["null", {"type": "array", "items": _REASON}],
    "default": None,
    "doc": "What features added to y, the largest first.",
}

_ALERT: dict[str, Any] = {
    "name": "alert",
    "type": ["null", "boolean"],
    "default": None,
    "doc": "Whether y is an alert.",
}
_FEATURES: dict[str, Any] = {
    "name": "features",
    "type": _P,
    "default": None,
    "doc": "Features over the past of keys.",
}


@cache
def schemas_of(further: tuple[str, ...] = ()) -> Predictions:
    """Of predictions. further : `Mapping.further`."""
    offset, label_offset, *rest = _PREDICTION["fields"]
    # The default lets a registry take it as compatible where subjects are named by records, so that streams share one.
    more = [{"name": name, "type": "long", "default": 0, "doc": FURTHER[name]} for name in further]
    fields = [offset, label_offset, *more, *rest]
    others = {**_OPINION, "fields": [*_OPINION["fields"], _ALERT]}
    challengers = {**fields[-1], "type": ["null", {"type": "map", "values": others}]}
    alerts = [*fields[:-1], challengers, *_REGION, _WHY, _ALERT]
    every = (fields, [*fields, *_REGION], [*fields, *_REGION, _WHY], alerts, [*alerts, _FEATURES])
    return tuple(RegisteredSchema(AVRO, json.dumps({**_PREDICTION, "fields": some})) for some in every)


_NULL = b"\0"
_double = Struct("<d").pack


def text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return whole(len(data)) + data


def scalar(value: Scalar | None) -> bytes:
    """A value in the union of y."""
    if isinstance(value, bool):
        return b"\2\1" if value else b"\2\0"
    if isinstance(value, int):
        return b"\4" + whole(value) if -(2**63) <= value < 2**63 else b"\x08" + text(str(value))
    if isinstance(value, float):
        return b"\6" + _double(value) if math.isfinite(value) else _NULL
    return _NULL if value is None else b"\x08" + text(value)


def _end(value: float | None) -> bytes:
    """Of an interval."""
    return _NULL if value is None or math.isnan(value) else b"\2" + _double(value)


def _listed(items: Sequence[bytes]) -> bytes:
    """A list or a map that is there; null where it would be empty."""
    return b"".join((b"\2", whole(len(items)), *items, _NULL)) if items else _NULL


class AvroPredictionWriter(BinaryWriter):
    """Writes predictions as Avro."""

    nothing = _NULL
    encode: ClassVar[dict[str, Encode]] = {
        **dict.fromkeys(("offset", "label_offset", *FURTHER), whole),
        **dict.fromkeys(("id", "model"), text),
        **dict.fromkeys(("y", "alert"), scalar),
        **dict.fromkeys(("lower", "upper"), _end),
        "set": lambda classes: _listed(list(map(scalar, classes or ()))),
        "features": lambda found: _listed([text(name) + _double(value) for name, value in (found or {}).items()]),
        "reasons": lambda found: _listed([text(name) + _double(value) for name, value in (found or {}).items()]),
    }

    def shares(self, names: Sequence[str]) -> Shares:
        before = list(map(text, names))
        before[0] = b"\2" + whole(len(names)) + before[0]
        return shares_between(before, _NULL)

    def challengers(self, names: Sequence[str], opinions: Sequence[bytes]) -> bytes:
        return _listed([text(name) + opinion for name, opinion in zip(names, opinions, strict=True)])


class AvroPredictionReader:
    """Reads predictions back. What is none is a ValueError."""

    def __init__(self, schemas: Schemas, further: tuple[str, ...] = ()) -> None:
        self._schemas, self._further, self._place = schemas, further, place_type(further)
        self._types = {schema: avro_types.parse(schema) for schema in schemas_of(further)}

    def place(self, value: bytes | None) -> Any:
        """Where a prediction record stands."""
        record = self.read(value)
        return self._place(record["offset"], record["label_offset"], 0, 0, *[record[name] for name in self._further])

    def read(self, value: bytes | None) -> dict[str, Any]:
        """All fields of a prediction record."""
        found = head_of(value or b"")
        if value is None or found is None:
            raise ValueError("it does not begin with the id of a schema")
        *more, least = self._likely(found.key)
        for one in more:
            try:
                record = _record(one, value, found.start)
                break
            except ValueError:
                continue
        else:
            record = _record(least, value, found.start)
        absent = [name for name in ("challengers", *BESIDES) if record.get(name) is None]
        fields: dict[str, Any] = {name: value for name, value in record.items() if name not in absent}
        if "reasons" in fields:
            fields["reasons"] = {one["feature"]: one["value"] for one in fields["reasons"]}
        for one in fields.get("challengers", {}).values():
            if one.get("alert", 0) is None:
                del one["alert"]
        return fields

    def _likely(self, key: Key) -> list[avro_types.Type]:
        """What a record may be of: first what it names, then those that a stream may have had before, from what says
        most on, since others would take the alert of a challenger for the end of them all."""
        named = self._schemas.written.get("predictions")
        known = list(self._types)[::-1]
        if named is not None and key == named.id:
            known.sort(key=lambda schema: schema != named.schema)
        return [self._types[schema] for schema in known]


def _record(schema: avro_types.Type, value: bytes, start: int) -> dict[str, Any]:
    """ValueError where the value is no record of this schema."""
    try:
        record, p = schema.value(value, start, 0)
    except (IndexError, UnicodeDecodeError, OverflowError, MalformedError) as error:
        raise ValueError(str(error)) from error
    except Exception as error:  # struct.error
        raise ValueError("it ends too early") from error
    if p != len(value):
        raise ValueError("it does not end where a prediction ends")
    found: dict[str, Any] = record
    return found
