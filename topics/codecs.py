"""Codecs: bytes of records to columns, predictions to bytes, and predictions read back.

A format is a class with the methods of `Codec`, listed in `CODECS` under the name by which a stream file asks for it.
It has to know how a record is read (`topics.decoding.columns.Reader`), and how a prediction is written and read back.
What the values of a record mean, and which records are rejected, is the same for every format
(`topics.decoding.columns`).

Features, labels and predictions of a stream may be of different formats (`Formats`), which `of_stream` puts together.
Metrics and drift records are JSON in every stream (`topics.reports`).
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from riparian.topics.decoding.headers import HeaderSelection
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.names import FEATURES, LABELS
from riparian.topics.places import IndexBits
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.records import Features, Labels, Mapping, Place, RawBatch, Rows
from riparian.topics.schemas import Key, RegisteredSchema, Schemas
from riparian.topics.vocabulary import Vocabulary

__all__ = ["BATCHED", "CODECS", "ENVELOPED", "REGISTERED", "Codec", "Formats", "JsonCodec", "of_stream"]


class Codec(Protocol):
    """What a format does for one stream. Nothing that a feature or label record holds raises."""

    headers: HeaderSelection  # of which records the batches have to have their headers
    prediction: RegisteredSchema | None  # by which predictions are written, where they have one
    index_bits: IndexBits  # of the places of its records, see `topics.places`

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache, before the first record."""

    def unpack(self, role: str, batch: RawBatch) -> RawBatch:
        """The instances of whole records of an input log, with their places; the same batch where each is one. A
        record that holds none, or cannot be read, is one that will be rejected."""

    def decode_features(
        self, batch: RawBatch, vocabularies: Sequence[Vocabulary | None], classes: Vocabulary | None = None
    ) -> Features:
        """vocabularies : one per feature, None for numeric ones. classes : for labels inside the feature records
        (None: regression)."""

    def decode_labels(self, batch: RawBatch, classes: Vocabulary | None = None) -> Labels:
        """classes : None for regression."""

    def ids(self, kind: str, batch: RawBatch) -> list[str | None]:
        """The ids of records of "features" or "labels", as decoding gives them; None where there is none."""

    def texts_of(self, key: int, batch: RawBatch) -> list[str | None]:
        """The texts of a key of the stream in feature records, by its number; None where it is missing, or nothing of
        the record can be read."""

    def unknown(self, kind: str, batch: RawBatch) -> dict[Key, list[int]]:
        """The schemas of a registry that records of "features" or "labels" need and that are not known, each with the
        positions of the records that name it. Whoever decodes them asks for these first, or makes their values
        `Unknown`."""

    def named(self, kind: str, batch: RawBatch) -> set[Key]:
        """The schemas of a registry that records of "features" or "labels" name, known or not."""

    def prepare(self, keys: Collection[Key]) -> None:
        """Make of schemas that have just come what takes long, off the event loop for example; decoding would."""

    def problems(self, kind: str, schema: RegisteredSchema, name: str) -> list[Any]:
        """Where a schema of the registry does not fit what the stream maps of "features" or "labels": sentences, each
        with what it is about (`topics.formats.common.slots.SchemaMismatch`). name : of the schema."""

    def writer(self, labels_inside: bool = False) -> "RecordWriter":
        """What writes the records that this codec reads. labels_inside : whether labels go into the feature records."""

    # Of a format that sends several predictions as one record: these, and the bytes that a record may have -> records.
    join_predictions: Callable[[Sequence[bytes], int], list[bytes]] | None

    def encode_predictions(self, columns: PredictionColumns, /) -> Any:
        """A prediction record an id: a sequence of bytes, list or Slices."""

    def pack_predictions(self, room: int, columns: PredictionColumns) -> list[bytes] | None:
        """`join_predictions` of what `encode_predictions` makes of these columns, at once. None where it cannot be, or
        the format has neither."""

    def split_predictions(self, value: bytes | None) -> Sequence[bytes | None]:
        """The predictions of a record, as `encode_predictions` gives them. ValueError where it is none."""

    def read_place(self, value: bytes | None) -> Place:
        """Where a prediction record stands, `place_type(mapping.further)`. ValueError where it is no prediction."""

    def read_prediction(self, value: bytes | None) -> dict[str, Any]:
        """All fields of a prediction record, by their names in JSON. ValueError where it is none."""


class RecordWriter(Protocol):
    """Writes the values of feature and label records, for replays; what goes into headers is left out of the rows
    (`topics.decoding.headers.HeaderWriter.inside`). times : ms since 1970, for streams whose records hold one.

    A format whose records hold several has `join_features` and `join_labels`, too, which make one record of these.
    """

    def features(self, rows: Rows, times: Sequence[int]) -> list[bytes]:
        """A record a row."""

    def labels(self, ids: Sequence[str], y: Sequence[str], times: Sequence[int]) -> list[bytes]:
        """A record each. y : JSON texts."""


def _json(mapping: Mapping, schemas: Schemas) -> Codec:
    return JsonCodec(mapping)


def _json_schema(mapping: Mapping, schemas: Schemas) -> Codec:
    from riparian.topics.formats.json_schema.codec import JsonSchemaCodec

    return JsonSchemaCodec(mapping, schemas)


def _protobuf(mapping: Mapping, schemas: Schemas) -> Codec:
    from riparian.topics.formats.protobuf.codec import ProtobufCodec  # protobuf is an extra

    return ProtobufCodec(mapping, schemas)


def _avro(mapping: Mapping, schemas: Schemas) -> Codec:
    from riparian.topics.formats.avro.codec import AvroCodec  # fastavro is an extra

    return AvroCodec(mapping, schemas)


def _arrow(mapping: Mapping, schemas: Schemas) -> Codec:
    from riparian.topics.formats.arrow.codec import ArrowCodec  # pyarrow is an extra

    return ArrowCodec(mapping)


# name in a stream file -> what makes the codec of a stream
CODECS: dict[str, Callable[[Mapping, Schemas], Codec]] = {
    "json": _json,
    "avro": _avro,
    "json-schema": _json_schema,
    "protobuf": _protobuf,
    "arrow": _arrow,
}
# Envelope -> those of them whose records may have it. Connect's is JSON's alone: in other formats it writes the row.
ENVELOPED = {
    "debezium": ("json", "json-schema", "avro", "protobuf"),
    "connect": ("json", "json-schema"),
    "cloudevents": ("json", "json-schema"),
}
# Those of them whose records hold many instances each -> the package that they need.
BATCHED = {"arrow": "pyarrow"}
# Those of them whose records name a schema of a registry -> the module that they need.
REGISTERED: dict[str, str | None] = {"avro": "fastavro", "json-schema": None, "protobuf": "google.protobuf"}


class Formats(NamedTuple):
    """The name of the format of each kind of record."""

    features: str = "json"
    labels: str = "json"
    predictions: str = "json"


class _StreamWriter:
    def __init__(self, features: RecordWriter, labels: RecordWriter) -> None:
        self.features, self.labels = features.features, labels.labels
        self.join_features = getattr(features, "join_features", None)
        self.join_labels = getattr(labels, "join_labels", None)


def _by_kind(method: str) -> Callable[..., Any]:
    return lambda self, kind, *given: getattr(self.inputs[kind], method)(kind, *given)


class _StreamCodec:
    """The codec of a stream whose records are of several formats."""

    def __init__(self, features: Codec, labels: Codec, predictions: Codec) -> None:
        self.inputs, self._predictions = {FEATURES: features, LABELS: labels}, predictions
        self.headers = HeaderSelection(features.headers.features, labels.headers.labels)
        self.index_bits = IndexBits(features.index_bits.features, labels.index_bits.labels)
        self.decode_features, self.decode_labels = features.decode_features, labels.decode_labels

    unpack, ids, unknown, named, problems = map(_by_kind, ("unpack", "ids", "unknown", "named", "problems"))

    def __getattr__(self, name: str) -> Any:
        """All else is about predictions."""
        return getattr(self._predictions, name)

    def warm_up(self) -> None:
        for codec in dict.fromkeys((*self.inputs.values(), self._predictions)):
            codec.warm_up()

    def prepare(self, keys: Collection[Key]) -> None:
        for codec in dict.fromkeys(self.inputs.values()):
            codec.prepare(keys)

    def writer(self, labels_inside: bool = False) -> RecordWriter:
        return _StreamWriter(self.inputs[FEATURES].writer(labels_inside), self.inputs[LABELS].writer())


def of_stream(formats: Formats, mapping: Mapping, schemas: Schemas) -> Codec:
    """The codec of a stream, each kind of record in its own format. schemas : what is known of its registry."""
    made = {name: CODECS[name](mapping, schemas) for name in dict.fromkeys(formats)}
    several: Any = _StreamCodec
    return several(*(made[name] for name in formats)) if len(made) > 1 else made[formats.features]
