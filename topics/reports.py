"""Records of metrics, partitions and drift as JSON, which they are in every stream: written, and read back."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from riparian.topics.records import Count, DriftRecord, MetricsRecord, PartitionRecord, Place

STILL_SECONDS = 10.0  # longest time between two records of a partition at rest


class _Metrics(msgspec.Struct):
    """Of either kind: a partition's has no model."""

    offset: Count
    label_offset: Count
    index: Count = 0
    label_index: Count = 0
    learned_offset: Count = 0
    model: str | None = None
    kind: str | None = None


class _Number(msgspec.Struct):
    number: Count


_T = TypeVar("_T")


def reader(of: type[_T]) -> Callable[[bytes | None], _T]:
    """Reads JSON as a type: it or ValueError comes of any bytes, and nothing else."""
    decode = msgspec.json.Decoder(of).decode

    def read(value: bytes | None) -> _T:
        try:
            return decode(value or b"")
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(str(error)) from error

    return read


_encode = msgspec.json.Encoder().encode
_metrics, _model, _partition = reader(_Metrics), reader(MetricsRecord), reader(PartitionRecord)
_number = reader(_Number)
read_drift = reader(DriftRecord)  # a drift record; ValueError where it is none


def write(record: MetricsRecord | PartitionRecord | DriftRecord) -> bytes:
    """The bytes of a record."""
    return _encode(record)


def read_metrics(value: bytes | None) -> tuple[str | None, Place, int]:
    """The role of the model that a metrics record is of (None: of the partition), and the offsets up to which it
    counts: of the inputs, and of what all partitions learn (0 where it has none). ValueError where it is none."""
    found = _metrics(value)
    if found.model is None and found.kind != "partition":
        raise ValueError("it has no model")
    place = Place(found.offset, found.label_offset, found.index, found.label_index)
    return found.model, place, found.learned_offset


def read_report(value: bytes | None) -> MetricsRecord | PartitionRecord:
    """A record of the metrics topic, whole. ValueError where it is none."""
    return _partition(value) if _metrics(value).kind == "partition" else _model(value)


def read_drift_number(value: bytes | None) -> int:
    """The number of a drift record. ValueError where it is none."""
    return _number(value).number
