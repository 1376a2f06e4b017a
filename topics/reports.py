"""Records of metrics, partitions and drift as JSON, which they are in every stream: written, and read back."""

import msgspec

from topics.records import DriftRecord, MetricsRecord, PartitionRecord, Place


class _Metrics(msgspec.Struct):
    """Of either kind: a partition's has no model."""

    offset: int
    label_offset: int
    index: int = 0
    label_index: int = 0
    learned_offset: int = 0
    model: str | None = None
    kind: str | None = None


class _Number(msgspec.Struct):
    number: int


_encode = msgspec.json.Encoder().encode
_metrics = msgspec.json.Decoder(_Metrics).decode
_number = msgspec.json.Decoder(_Number).decode
_drift = msgspec.json.Decoder(DriftRecord).decode
_model = msgspec.json.Decoder(MetricsRecord).decode
_partition = msgspec.json.Decoder(PartitionRecord).decode


def write(record: MetricsRecord | PartitionRecord | DriftRecord) -> bytes:
    """The bytes of a record."""
    return _encode(record)


def read_metrics(value: bytes | None) -> tuple[str | None, Place, int]:
    """The role of the model that a metrics record is of (None: of the partition), and the offsets up to which it
    counts: of the inputs, and of what all partitions learn (0 where it does not say). ValueError where it is none."""
    try:
        found = _metrics(value or b"")
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    if found.model is None and found.kind != "partition":
        raise ValueError("it has no model")
    place = Place(found.offset, found.label_offset, found.index, found.label_index)
    return found.model, place, found.learned_offset


def read_report(value: bytes | None) -> MetricsRecord | PartitionRecord:
    """A record of the metrics topic, whole. ValueError where it is none."""
    try:
        if _metrics(value or b"").kind == "partition":
            return _partition(value or b"")
        return _model(value or b"")
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def read_drift_number(value: bytes | None) -> int:
    """The number of a drift record. ValueError where it is none."""
    try:
        return _number(value or b"").number
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error


def read_drift(value: bytes | None) -> DriftRecord:
    """A drift record. ValueError where it is none."""
    try:
        return _drift(value or b"")
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
