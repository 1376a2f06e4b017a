"""JSON records with the id of their JSON Schema in a registry before them.

The JSON is read as that of any stream: what the stream file maps has to be of the types that it names, and nothing else
is looked at. So which schema a record names changes nothing about how it is read; records are not held against it. At
the start the latest schema of each topic is held against the stream file.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from riparian.topics import records as r
from riparian.topics.decoding.columns import Bad, FeatureReader, LabelReader, no_record
from riparian.topics.decoding.headers import inside
from riparian.topics.formats.common.framing import ID_BYTES, body_of, head_of, inline, no_head
from riparian.topics.formats.common.registered import FURTHER, Predictions, RegisteredCodec, written_by
from riparian.topics.formats.common.slots import SchemaMismatch, Slot, of_features, of_labels
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.formats.json_schema.types import JsonSchema
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Mapping, Path, Place, RawBatch
from riparian.topics.schemas import JSON, Key, RegisteredSchema, Schemas, UnknownSchemaError

_Y = {"type": ["string", "integer", "number", "boolean", "null"]}
_P = {"type": ["object", "null"], "additionalProperties": {"type": ["number", "null"]}}
_OPINION: dict[str, Any] = {"type": "object", "properties": {"y": _Y, "p": _P}, "required": ["y"]}
_PROPERTIES = {
    "id": {"type": "string"},
    "y": {**_Y, "description": "The likeliest class, or the value."},
    "p": {**_P, "description": "Probabilities by class."},
    "model": {"type": "string"},
    "offset": {"type": "integer", "description": "Of the features, in their topic."},
    "label_offset": {"type": "integer", "description": "Of the next label when it was made."},
    "challengers": {"type": "object", "additionalProperties": _OPINION},
}
_REGION = {
    "lower": {"type": ["number", "null"], "description": "The interval begins here."},
    "upper": {"type": ["number", "null"], "description": "The interval ends here."},
    "set": {"type": ["array", "null"], "items": _Y, "description": "Classes in the set."},
}

_WHY = {
    "type": ["object", "null"],
    "additionalProperties": {"type": "number"},
    "description": "What features added to y, the largest first.",
}
_ALERT = {"type": ["boolean", "null"], "description": "Whether y is an alert."}
_FEATURES = {**_WHY, "description": "Features over the past of keys."}


@cache
def schemas_of(further: tuple[str, ...] = ()) -> Predictions:
    """Of predictions. further : `Mapping.further`."""
    plain = _PROPERTIES | {name: {"type": "integer", "description": FURTHER[name]} for name in further}
    why = {**plain, **_REGION, "reasons": _WHY}
    others = {**_OPINION, "properties": {**_OPINION["properties"], "alert": _ALERT}}
    alerts = {**why, "challengers": {"type": "object", "additionalProperties": others}, "alert": _ALERT}
    return tuple(map(_schema, (plain, {**plain, **_REGION}, why, alerts, {**alerts, "features": _FEATURES})))


def _schema(properties: dict[str, Any]) -> RegisteredSchema:
    content = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "riparian.Prediction",
        "type": "object",
        "properties": properties,
        "required": ["id", "y", "model", "offset", "label_offset"],
    }
    return RegisteredSchema(JSON, json.dumps(content))


class _JsonSchemaReader:
    """The reader of plain JSON, behind the ids of schemas."""

    def __init__(
        self, plain: Any, schemas: Schemas, slots: Sequence[Slot], instances: Sequence[Slot] | None = None
    ) -> None:
        self._plain, self._schemas = plain, schemas
        self._slots = slots, instances
        self.max_bytes: int = plain.max_bytes

    def __getattr__(self, name: str) -> Any:
        """How columns are made."""
        return getattr(self._plain, name)

    def decode(self, batch: RawBatch, bad: Bad) -> list[Any]:
        values: list[Any] = inline(batch.values, batch.headers)
        refused = Bad()
        if self._is_usual(values):
            values = [value[ID_BYTES:] for value in values]
        else:
            values = [self._body(i, value, refused) for i, value in enumerate(values)]
        records: list[Any] = self._plain.decode(RawBatch(*batch[:3], values, batch.headers), bad)
        bad.update(refused)
        return records

    def _is_usual(self, values: list[Any]) -> bool:
        """Whether all are records with an id of four bytes, of schemas that are JSON Schemas."""
        if not set(map(type, values)) <= {bytes} or max(map(len, values), default=0) > self.max_bytes:
            return False
        if min(map(len, values), default=0) <= ID_BYTES:
            return False
        heads = map(head_of, {value[:ID_BYTES] for value in values})
        return all(found is not None and self._refused(found.key) is None for found in heads)

    def _refused(self, key: Key) -> str | None:
        """Why no record of a schema is read; None where they are. NotToldError where it is not known."""
        schema = self._schemas.known.get(key)
        if schema is None:
            raise UnknownSchemaError(f"nobody has asked the registry for schema {key}")
        flaw = schema.flaw or ("" if schema.kind == JSON else f"it is a schema of {schema.kind}, not of JSON")
        return f"schema {key} cannot be used: {flaw}" if flaw else None

    def _body(self, i: int, value: Any, refused: Bad) -> Any:
        """The JSON of a record. Where there is no record, the value stays: the reader of JSON finds what is wrong."""
        if no_record(value, self.max_bytes) is not None:
            return value
        found = head_of(value)
        if found is None:
            refused[i] = r.NO_SCHEMA_ID, no_head(value)
            return None
        reason = self._refused(found.key)
        if reason is not None:
            refused[i] = r.UNUSABLE_SCHEMA, reason
            return None
        if len(value) == found.start:
            refused[i] = r.NOT_JSON, "no bytes behind the id of the schema"
            return None
        return value[found.start :]

    def is_null(self, batch: RawBatch, i: int, path: Path) -> bool:
        value: Any = batch.values[i]
        found = head_of(value)
        bare = value if found is None else value[found.start :]
        return bool(self._plain.is_null(RawBatch([0], [0], [None], [bare]), 0, path))

    def prepare(self, key: Key) -> None:
        """Nothing: no schema is about how its records are read."""

    def problems(self, schema: RegisteredSchema, name: str) -> list[SchemaMismatch]:
        return JsonSchema(schema).problems(*self._slots, name)


class JsonSchemaCodec(RegisteredCodec):
    """The codec of JSON with schemas: see `topics.codecs.Codec`."""

    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        self._plain = JsonCodec(mapping)
        features, labels = self._plain.readers
        values = inside(mapping)
        one, other = (
            _JsonSchemaReader(features, schemas, *of_features(values)),
            _JsonSchemaReader(labels, schemas, of_labels(values)),
        )
        super().__init__(
            mapping, schemas, cast(FeatureReader, one), cast(LabelReader, other), schemas_of(mapping.further)
        )

    def encode_predictions(self, columns: PredictionColumns) -> list[bytes]:
        before = written_by(self._schemas, "predictions")[0]
        return [before + value for value in self._plain.encode_predictions(columns)]

    def read_place(self, value: bytes | None) -> Place:
        return self._plain.read_place(body_of(value))

    def read_prediction(self, value: bytes | None) -> dict[str, Any]:
        return self._plain.read_prediction(body_of(value))
