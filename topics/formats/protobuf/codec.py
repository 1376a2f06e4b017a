"""Protobuf records, each with the id of its schema in a registry before it, and which message of the schema it is.

A record is read by the schema that it was written by. What a stream maps is looked up in its message by name, so fields
may come and go from one schema to the next. A field that a message lacks is missing.
"""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

from google.protobuf import json_format

from riparian.topics.formats.common.registered import Encode
from riparian.topics.formats.common.tuples import TupleCodec, TupleFormat
from riparian.topics.formats.protobuf.predictions import ProtobufPredictionReader, ProtobufPredictionWriter, schemas_of
from riparian.topics.formats.protobuf.reader import ERRORS, TIMESTAMP, problems, reader, why
from riparian.topics.formats.protobuf.types import Descriptor, MessageTypes, class_of, head_of
from riparian.topics.names import INPUTS
from riparian.topics.records import Mapping
from riparian.topics.schemas import RegisteredSchema, Schemas


class ProtobufCodec(TupleCodec):
    """The codec of Protobuf: see `topics.codecs.Codec`."""

    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        features, labels = (
            TupleFormat(MessageTypes, reader, partial(problems, full_name=schemas.names.get(kind)), ERRORS, why)
            for kind in INPUTS
        )
        super().__init__(mapping, schemas, (features, labels), schemas_of(mapping.further))
        self.encode_predictions = ProtobufPredictionWriter(schemas).write
        predictions = ProtobufPredictionReader(mapping.further)
        self.read_place, self.read_prediction = predictions.place, predictions.read

    def encoder(self, schema: RegisteredSchema, kind: str) -> Encode:
        messages = MessageTypes(schema)
        places = messages.places(self._schemas.names.get(kind))
        before, descriptor = head_of(places), messages.at(places)
        message = class_of(descriptor)

        def encode(value: bytes) -> bytes:
            row = json.loads(value)
            _write_times(row, descriptor)
            made: bytes = json_format.ParseDict(row, message()).SerializeToString()
            return before + made

        return encode


def _write_times(row: dict[str, Any], message: Descriptor) -> None:
    """Numbers of milliseconds become what protobuf takes for a Timestamp."""
    for name, value in row.items():
        field = message.fields_by_name.get(name)
        below = None if field is None or field.is_repeated else field.message_type
        if below is None:
            continue
        if below.full_name == TIMESTAMP and isinstance(value, int | float):
            row[name] = f"{datetime.fromtimestamp(value / 1000, UTC).replace(tzinfo=None).isoformat()}Z"
        elif isinstance(value, dict):
            _write_times(value, below)
