"""What passes between topics and learners: raw batches, decoded columns, the records that are written.

`Mapping` is the plain description of a stream's records that a codec is made from; the stream file builds it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A path leads into a record, one field name a level: ("customer", "age"). The empty path is the record itself.
Path = tuple[str, ...]

CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_INSTANCE = "multi-instance"

NUMERIC = "numeric"
NOMINAL = "nominal"
BOOLEAN = "boolean"

# Of a feature record: its prediction has it, too.
MAX_KEY_BYTES = 16_384

# Why a record was rejected: a label of metrics and a header of dead letters, so there are few and they stay.
TOMBSTONE = "tombstone"  # no value at all, as compaction and connectors write it
EMPTY = "empty"  # a value of no bytes
TOO_LARGE = "too-large"  # more than record.max_bytes, or a feature's key of more than MAX_KEY_BYTES
TOO_DEEP = "too-deep"  # nested more than 200 levels
NOT_UTF8 = "not-utf8"  # bytes that are not text
NOT_JSON = "not-json"  # text that is not JSON
WRONG_TYPE = "wrong-type"  # a field is not of the type that the stream file says
NOT_FINITE = "not-finite"  # a number that float64 cannot hold
MISSING_ID = "missing-id"  # no id, null, or ""
MISSING_X = "missing-x"  # the object that holds the features is absent or null
EMPTY_BAG = "empty-bag"  # a list of no instances
TOO_MANY_INSTANCES = "too-many-instances"  # more than record.max_instances
WRONG_TIME = "wrong-time"  # neither a number nor ISO 8601, or beyond the year 9999
WRONG_LABEL = "wrong-label"  # absent (in the labels topic), or not of the task's type
UNKNOWN_VALUE = "unknown-value"  # a nominal value or class that the stream file does not declare
NOMINAL_OVERFLOW = "nominal-overflow"  # a new nominal value or class, where max_values or max_classes are known
TOO_LONG = "too-long"  # an id or nominal value of more than 1,024 characters, or a class beyond max_class_bytes

REASONS = (
    TOMBSTONE,
    EMPTY,
    TOO_LARGE,
    TOO_DEEP,
    NOT_UTF8,
    NOT_JSON,
    WRONG_TYPE,
    NOT_FINITE,
    MISSING_ID,
    MISSING_X,
    EMPTY_BAG,
    TOO_MANY_INSTANCES,
    WRONG_TIME,
    WRONG_LABEL,
    UNKNOWN_VALUE,
    NOMINAL_OVERFLOW,
    TOO_LONG,
)


class Feature(NamedTuple):
    """One feature: its name, its type ("numeric", "nominal" or "boolean") and where it stands in the record."""

    name: str
    type: str
    path: Path


@dataclass(frozen=True)
class Mapping:
    """Where everything stands in a stream's records.

    Attributes
    ----------
    task : "classification", "regression" or "multi-instance".
    features : in the order of the columns of x. Their paths begin at the record; of bags, at each instance.
    x : the object that must be there (features may stand elsewhere); () asks for none. Of bags, the list of instances.
    id, label_id : path of the id, or None where it is the Kafka key.
    time, label_time : path of the event time, or None where there is none.
    y : path of a label inside the feature record, or None.
    label_y : path of the label in the labels topic.
    max_bytes : largest value that is decoded, in bytes.
    max_instances : most instances of a bag.
    """

    task: str
    features: tuple[Feature, ...]
    x: Path = ("x",)
    id: Path | None = ("id",)
    time: Path | None = None
    y: Path | None = ("y",)
    label_id: Path | None = ("id",)
    label_y: Path = ("y",)
    label_time: Path | None = None
    max_bytes: int = 262_144
    max_instances: int = 1000


class RawBatch(NamedTuple):
    """Consecutive records of one partition of one topic, as columns; `len()` is the number of records.

    timestamps : Kafka record timestamps in ms.
    """

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]

    def __len__(self) -> int:
        return len(self.offsets)


class Rejected(NamedTuple):
    """A record that was not decoded. position : in its batch. reason : one of REASONS. detail : for people."""

    position: int
    reason: str
    detail: str


class Features(NamedTuple):
    """Decoded feature records, n of them.

    position : of each in its batch, or None where all were kept. ids : n. x : (n, d) float64, codes of nominal
    values, NaN where missing. y : n class codes or targets, NaN where absent; None where no record has one.
    times : n event times in ms since 1970, None where absent; None where the stream file names no field.
    sizes : (n,) int64, of bags: how many rows of x each has, one bag after the other. None where a record is a row.
    """

    position: list[int] | None
    ids: list[str]
    x: Floats
    y: list[float] | None
    times: list[float | None] | None
    rejected: list[Rejected]
    sizes: NDArray[np.int64] | None = None


class Labels(NamedTuple):
    """Decoded label records, n of them. y : n class codes or targets. The rest as in `Features`."""

    position: list[int] | None
    ids: list[str]
    y: list[float]
    times: list[float | None] | None
    rejected: list[Rejected]


class MetricsRecord(msgspec.Struct, omit_defaults=True):
    """How one model of one partition is doing, written every few seconds.

    time : ms since 1970. model : its role ("champion", or the name of a challenger). name : of the learner.
    offset, label_offset : next offsets of the inputs, up to which the figures count. n : predictions scored.
    overall, window, fading : metric name -> value, null where it is not defined yet.
    counters : joined, expired, … of the partition. size : nodes, leaves, bytes, … of the model.
    """

    stream: str
    partition: int
    time: int
    model: str
    name: str
    offset: int
    label_offset: int
    n: int
    overall: dict[str, float | None]
    window: dict[str, float | None] | None = None
    fading: dict[str, float | None] | None = None
    counters: dict[str, int] | None = None
    size: dict[str, int] | None = None


class DriftRecord(msgspec.Struct, omit_defaults=True):
    """A detector saw a change in what it watches, or a fresh model on trial was decided upon.

    number : of the partition's events, from 0, without a hole. model : its role, None for a feature. signal : "error",
    or the feature's name. level : "warning", "drift", or "improvement" (errors have fallen); None at the end of a
    trial. action : "alert", "reset", "replace-started", "replaced", "dropped", or None. offset, label_offset, time : of
    the last prediction made before: its source offset, the next label then, its effective time in ms. n : values of the
    signal so far. after : mean of the last 100 values; before : of those since the drift before that came before these,
    or `after` of that drift. At the end of a trial the mean errors of the old and of the fresh model. None where there
    were no values.
    """

    stream: str
    partition: int
    number: int
    signal: str
    detector: str
    offset: int
    label_offset: int
    time: int
    n: int
    model: str | None = None
    level: str | None = None
    action: str | None = None
    before: float | None = None
    after: float | None = None
