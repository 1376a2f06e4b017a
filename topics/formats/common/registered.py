"""What all formats of a registry have in common: their records name a schema, and are written by one that it has."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, cast

from riparian.topics.decoding.columns import ColumnDecoder, FeatureReader, LabelReader, Reader
from riparian.topics.decoding.headers import HeaderSelection, inside
from riparian.topics.formats.common.framing import head, inline, named, unknown
from riparian.topics.formats.common.json_rows import Renderer
from riparian.topics.formats.common.slots import SchemaMismatch
from riparian.topics.names import FEATURES, LABELS, LEARNED, place_field
from riparian.topics.records import Mapping, RawBatch, Rows
from riparian.topics.schemas import Key, RegisteredSchema, Schemas, UnknownSchemaError, UnusableError

Encode = Callable[[bytes], bytes]

# Places of further input logs for which the schemas of predictions have a field -> what it says.
FURTHER = {place_field(LEARNED): "Of the next record that all partitions learn, when it was made."}


# Of predictions as of any stream, with regions besides, with reasons, too, with alerts, and with features of keys.
Predictions = tuple[RegisteredSchema, ...]


def written_by(schemas: Schemas, kind: str) -> tuple[bytes, RegisteredSchema]:
    """The bytes before records of a kind, and the schema by which these are written."""
    written = schemas.written.get(kind)
    if written is None:
        raise UnknownSchemaError(f"nobody has asked the registry for the schema of {kind}")
    return head(written.id), written.schema


class SchemaReader(Reader, Protocol):
    """A reader of records that name a schema."""

    def problems(self, schema: RegisteredSchema, name: str) -> list[SchemaMismatch]:
        """Where a schema does not fit what the stream maps. name : of the schema. UnusableError where it is none."""

    def prepare(self, key: Key) -> None:
        """Make of a known schema what takes long."""

    def warm_up(self) -> None:
        """Compile what there is to compile, or load it."""


class RegisteredCodec(ColumnDecoder):
    """The half of a format of a registry that is the same for all of them: see `topics.codecs.Codec`. features and
    labels are each a SchemaReader, too. predictions : of a stream with the `further` places of the mapping."""

    def __init__(
        self, mapping: Mapping, schemas: Schemas, features: FeatureReader, labels: LabelReader, predictions: Predictions
    ) -> None:
        super().__init__(mapping, features, labels)
        self.headers = HeaderSelection(True, True)  # the schema may be named there
        self._schemas = schemas
        self._readers = {FEATURES: cast(SchemaReader, features), LABELS: cast(SchemaReader, labels)}
        wider = mapping.has_intervals, mapping.has_reasons, mapping.has_alerts, mapping.has_key_features
        self.prediction: RegisteredSchema | None = predictions[
            max((i for i, one in enumerate(wider, 1) if one), default=0)
        ]

    def warm_up(self) -> None:
        for reader in self._readers.values():
            reader.warm_up()

    def unknown(self, kind: str, batch: RawBatch) -> dict[Key, list[int]]:
        return unknown(inline(batch.values, batch.headers), self._schemas, self.mapping.max_bytes)

    def named(self, kind: str, batch: RawBatch) -> set[Key]:
        return named(inline(batch.values, batch.headers))

    def prepare(self, keys: Collection[Key]) -> None:
        for key in keys:
            for reader in self._readers.values():
                reader.prepare(key)

    def problems(self, kind: str, schema: RegisteredSchema, name: str) -> list[SchemaMismatch]:
        return self._readers[kind].problems(schema, name)

    def encoder(self, schema: RegisteredSchema, kind: str) -> Encode:
        """What makes a record of this kind of its JSON."""
        return lambda value: value

    def writer(self, labels_inside: bool = False) -> "RegisteredRecordWriter":
        return RegisteredRecordWriter(self.mapping, self._schemas, labels_inside, self.encoder)


class RegisteredRecordWriter:
    """Feature and label records by the schemas of `schemas.written`, for replays: see `topics.codecs.RecordWriter`."""

    def __init__(
        self,
        mapping: Mapping,
        schemas: Schemas,
        labels_inside: bool,
        encoder: Callable[[RegisteredSchema, str], Encode],
    ) -> None:
        self._plain = Renderer(inside(mapping), labels_inside)
        self._schemas, self._encoder = schemas, encoder

    def features(self, rows: Rows, times: Sequence[int]) -> list[bytes]:
        return self._write("features", self._plain.features(rows, times))

    def labels(self, ids: Sequence[str], y: Sequence[str], times: Sequence[int]) -> list[bytes]:
        return self._write("labels", self._plain.labels(ids, y, times))

    def _write(self, kind: str, plain: list[bytes]) -> list[bytes]:
        before, schema = written_by(self._schemas, kind)
        encode, made = self._encoder(schema, kind), []
        for value in plain:
            try:
                made.append(before + encode(value))
            except Exception as error:  # ValueError, TypeError, KeyError, AttributeError: as the value fails to fit
                raise UnusableError(
                    f"the schema of {kind} has no place for {value.decode()[:200]} ({type(error).__name__}: {error})"
                ) from None
        return made
