"""Avro records, each with the id of its schema in a registry before it.

A record is read by the schema that it was written by. What a stream maps is looked up in that schema by name, so fields
may come, go and change their places from one schema to the next. A field that a schema lacks is missing; defaults are
those of a reader's schema, and the stream file has none. NaN is a missing number.
"""

import json
from io import BytesIO
from typing import Any

from riparian.topics.formats.avro.predictions import AvroPredictionReader, AvroPredictionWriter, schemas_of
from riparian.topics.formats.avro.reader import READING, problems, reader, why
from riparian.topics.formats.avro.types import parse
from riparian.topics.formats.common.blocks import Blocks, Shape
from riparian.topics.formats.common.registered import Encode
from riparian.topics.formats.common.tuples import Parsed, TupleCodec, TupleFormat
from riparian.topics.records import Mapping
from riparian.topics.schemas import RegisteredSchema, Schemas


def _blocks(shape: Shape, parsed: Parsed) -> Blocks:
    from riparian.topics.formats.avro.block import AvroBlockReader  # numba, which takes a while to import

    return AvroBlockReader(shape, parsed)


class AvroCodec(TupleCodec):
    """The codec of Avro: see `topics.codecs.Codec`."""

    def __init__(self, mapping: Mapping, schemas: Schemas) -> None:
        way = TupleFormat(parse, reader, problems, READING, why, _blocks)
        super().__init__(mapping, schemas, (way, way), schemas_of(mapping.further))
        self.encode_predictions = AvroPredictionWriter(schemas).write
        predictions = AvroPredictionReader(schemas, mapping.further)
        self.read_place, self.read_prediction = predictions.place, predictions.read

    def encoder(self, schema: RegisteredSchema, kind: str) -> Encode:
        from fastavro import parse_schema, schemaless_writer

        named: dict[str, Any] = {}
        for _, reference in schema.references:
            parse_schema(json.loads(reference.text), named)
        parsed = parse_schema(json.loads(schema.text), named)

        def encode(value: bytes) -> bytes:
            data = BytesIO()
            schemaless_writer(data, parsed, json.loads(value))
            return data.getvalue()

        return encode
