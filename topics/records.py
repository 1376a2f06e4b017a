"""Data between topics and learners: raw batches, decoded columns, and the records that are written.

`Mapping` is the plain description of a stream's records that a codec is made from; the stream file builds it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from riparian.topics.places import IndexBits, place_of
from riparian.topics.vocabulary import Scalar, canonical

Floats = NDArray[np.float64]

# A path leads into a record, one field name a level: ("customer", "age"). The empty path is the record itself. A path
# of one name that begins with HEADER leads to a header of the Kafka record: ("@header:trace",).
Path = tuple[str, ...]
HEADER = "@header:"

Numbers = list[int] | NDArray[np.int64]

# The headers of a Kafka record in their order: a name may be there twice, and a value may be missing.
Headers = Sequence[tuple[str, bytes | None]]

CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_INSTANCE = "multi-instance"
ANOMALY = "anomaly"
VALUES = (REGRESSION, ANOMALY)  # whose predictions are one number, and labels too

NUMERIC = "numeric"
NOMINAL = "nominal"
BOOLEAN = "boolean"

# Of a feature record: its prediction has it, too.
MAX_KEY_BYTES = 16_384

# Why a record was rejected: a label of metrics and a header of dead letters, so there are few and they stay. REASONS
# has what each means.
TOMBSTONE = "tombstone"
EMPTY = "empty"
TOO_LARGE = "too-large"
UNREADABLE_BATCH = "unreadable-batch"
TOO_DEEP = "too-deep"
NOT_UTF8 = "not-utf8"
NOT_JSON = "not-json"
WRONG_TYPE = "wrong-type"
NOT_FINITE = "not-finite"
MISSING_ID = "missing-id"
MISSING_X = "missing-x"
EMPTY_BAG = "empty-bag"
TOO_MANY_INSTANCES = "too-many-instances"
WRONG_TIME = "wrong-time"
WRONG_LABEL = "wrong-label"
UNKNOWN_VALUE = "unknown-value"
NOMINAL_OVERFLOW = "nominal-overflow"
TOO_LONG = "too-long"
MALFORMED = "malformed"
NO_SCHEMA_ID = "no-schema-id"
UNKNOWN_SCHEMA = "unknown-schema"
UNUSABLE_SCHEMA = "unusable-schema"
WRONG_ENVELOPE = "wrong-envelope"

# Why a record is no instance or label, and no mistake either: it is counted, and no dead letter. A tombstone is one of
# them in the envelopes whose topics have them.
DELETE = "delete"  # a row that was deleted
NO_ROW = "no-row"  # a change that is about no row
UNAVAILABLE = "unavailable"  # a label that Debezium did not get
IGNORED = (TOMBSTONE, DELETE, NO_ROW, UNAVAILABLE)

WRONG_COMMAND = "wrong-command"
WRONG_LEARNED = "wrong-learned"

# Of a prediction, not of a record: its topic takes no batch of its size. The instance is learned all the same.
PREDICTION_TOO_LARGE = "prediction-too-large"

# What a rejected record has, or is.
REASONS = {
    TOMBSTONE: "has no value, as connectors and compaction write deletions",
    EMPTY: "has a value of no bytes",
    TOO_LARGE: "is larger than `record.max_bytes`, or is a feature record with a key of more than 16,384 bytes",
    UNREADABLE_BATCH: (
        "stands for a Kafka batch, or the rest of one, that cannot be unpacked: it takes more than 256 MiB, "
        "or its bytes are no records. The offset is the batch's last one, the detail names the first one and "
        "the cause, and there is no value"
    ),
    TOO_DEEP: "is nested more than 200 levels",
    NOT_UTF8: "holds bytes that are not text, or its key does where the key is the id",
    NOT_JSON: "is not JSON; neither are `NaN`, `Infinity`, and a text with half a surrogate pair",
    WRONG_TYPE: "has a field of another type than declared; the detail names it",
    NOT_FINITE: "has a number that a 64-bit float cannot hold, such as `1e999`, in a feature",
    MISSING_ID: "has no id, or one that is null or empty",
    MISSING_X: "has no object at `record.x`, or for bags no list of instances",
    EMPTY_BAG: "has an empty list there",
    TOO_MANY_INSTANCES: "has more than `record.max_instances` instances there",
    WRONG_TIME: "has a time that cannot be read, or is beyond the year 9999",
    WRONG_LABEL: (
        "has a label of the wrong type, or that a 64-bit float cannot hold; in the labels topic also a record "
        "without a label, unless it is `null`"
    ),
    UNKNOWN_VALUE: "has a nominal value or class that is not declared",
    NOMINAL_OVERFLOW: "has a new nominal value or class although `max_values` or `max_classes` are known already",
    TOO_LONG: "has an id or nominal value of more than 1,024 characters, or a new class beyond `max_class_bytes`",
    WRONG_ENVELOPE: (
        "is not what `record.envelope` or `label.envelope` says: no `payload`, an unknown `op`, no row, or no event"
    ),
    MALFORMED: "has bytes that its schema does not fit",
    NO_SCHEMA_ID: "names no schema, and the format is one of a registry",
    UNKNOWN_SCHEMA: "names a schema that the registry did not know for `registry.max_wait`",
    UNUSABLE_SCHEMA: "names a schema of another format, or one that cannot be read",
    WRONG_COMMAND: "stands in the control topic, and is no command",
    WRONG_LEARNED: "stands in the topic that all partitions learn, and no worker of this stream wrote it",
}

# Those whose detail begins with the field that it is about.
_OF_FIELDS = {
    WRONG_TYPE, NOT_FINITE, MISSING_ID, MISSING_X, EMPTY_BAG, TOO_MANY_INSTANCES, WRONG_TIME, WRONG_LABEL,
    UNKNOWN_VALUE, NOMINAL_OVERFLOW, TOO_LONG,
}  # fmt: skip
# Those that stay whatever a stream file says.
_FOR_GOOD = {TOMBSTONE, EMPTY, UNREADABLE_BATCH, TOO_DEEP, WRONG_COMMAND, WRONG_LEARNED}
_MOST_FIELD = 100  # characters


def is_curable(reason: str) -> bool:
    """Whether another stream file can read records that were rejected for this reason.

    >>> is_curable("not-json"), is_curable("tombstone"), is_curable("bad-luck")
    (True, False, False)
    """
    return reason in REASONS and reason not in _FOR_GOOD


def field_of(reason: str, detail: str) -> str:
    """The field that a rejection is about, without its places in lists; "" where it is about none.

    >>> field_of("wrong-type", "x.amount: expected a number, found a text")
    'x.amount'
    """
    field, colon, _ = detail.partition(": ")
    field = re.sub(r"\[\d+\]", "", field)
    return field if reason in _OF_FIELDS and colon and len(field) <= _MOST_FIELD else ""


class Feature(NamedTuple):
    """One feature: its name, its type ("numeric", "nominal" or "boolean"), where it stands in the record, and of a
    numeric one, whether its numbers may be texts there."""

    name: str
    type: str
    path: Path
    in_text: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether formats read it as it is, a text or anything else of one value."""
        return self.in_text or self.type == NOMINAL


@dataclass(frozen=True)
class Mapping:
    """Where the fields of a stream's records are.

    Attributes
    ----------
    task : "classification", "regression", "multi-instance" or "anomaly".
    features : in the order of the columns of x. Their paths begin at the record; of bags, at each instance.
    n_hidden : how many of the last of them are no columns of x, but read for keys alone.
    keys : of each key its number among the features; None of the Kafka key.
    x : the object that must be there (features may stand elsewhere); () asks for none. Of bags, the list of instances.
    id, label_id : path of the id, or None where it is the Kafka key.
    partition : of the records, where the id of an instance is its place there; None where it has one.
    time, label_time : path of the event time, or None where there is none.
    y : path of a label inside the feature record, or None.
    label_y : path of the label in the labels topic; () where it is not in the value (see
    `topics.decoding.headers.inside`). label_is : the class of every record of that topic, whose `label_y` is (); None
    where records say it. envelope, label_envelope : what stands around the row (see
    `topics.decoding.envelopes`), or None. Paths begin at the record. max_bytes : largest value that is decoded, in
    bytes. max_instances : most instances of a bag.
    further : fields of a prediction that name the next offsets of input logs besides features and labels.
    has_intervals : whether predictions have an interval, or a set of classes.
    has_reasons : whether predictions have reasons.
    has_alerts : whether predictions have which scores are alerts.
    has_key_features : whether predictions have the features over the past of keys.
    """

    task: str
    features: tuple[Feature, ...]
    x: Path = ("x",)
    id: Path | None = ("id",)
    time: Path | None = None
    y: Path | None = ("y",)
    label_id: Path | None = ("id",)
    label_y: Path = ("y",)
    label_is: Scalar | None = None
    label_time: Path | None = None
    envelope: str | None = None
    label_envelope: str | None = None
    max_bytes: int = 262_144
    max_instances: int = 1000
    further: tuple[str, ...] = ()
    has_intervals: bool = False
    has_reasons: bool = False
    has_alerts: bool = False
    has_key_features: bool = False
    n_hidden: int = 0
    keys: tuple[int | None, ...] = ()
    partition: int | None = None

    @property
    def n_columns(self) -> int:
        """Columns of x."""
        return len(self.features) - self.n_hidden


class Unread(bytes):
    """Stands for the value of records that could not be read; its text names which, and why."""

    @classmethod
    def batch(cls, first: int, last: int, why: str) -> "Unread":
        """Of a Kafka batch that holds offsets first to last."""
        return cls(f"the batch of offsets {first} to {last}: {why}".encode())


class Unknown(bytes):
    """The value of a record whose schema the registry does not know, as was known before the record was decoded.

    That is found out, and noted here, outside of the fold, so that folding again does not depend on the registry.
    """


class Packed:
    """The value of a record that holds several instances, as its format reads it.

    value : as it came
    first : place of the first instance
    """

    value: bytes
    first: int

    def one(self, place: int) -> bytes:
        """The instance at a place as a record of its own, for its dead letter."""
        raise NotImplementedError


class RawBatch(NamedTuple):
    """Consecutive records of one partition of one topic, as columns; `len()` is the number of records.

    Where a record holds several instances, they are the rows here once the codec has unpacked it, `offsets` are their
    places (`topics.places`), and the values of one record's instances are one and the same `Packed`.

    offsets, timestamps : of each record; timestamps in ms
    keys : bytes or None
    values : likewise; `Packed` of instances that share a record
    headers : of each record; None where the stream asks for none

    Columns are lists; of records that were not made into objects, arrays (int64) and Slices, which cannot be changed.
    """

    offsets: Numbers
    timestamps: Numbers
    keys: Sequence[bytes | None]
    values: Any
    headers: list[Headers] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @classmethod
    def of(cls, records: Sequence[Any]) -> "RawBatch":
        """The records of a client, which have these columns as attributes."""
        columns = zip(*((r.offset, r.timestamp, r.key, r.value, r.headers) for r in records), strict=True)
        return cls(*map(list, columns)) if records else cls([], [], [], [], [])

    def with_values(self, values: Sequence[Any]) -> "RawBatch":
        """These records with other values."""
        return RawBatch(self.offsets, self.timestamps, self.keys, values, self.headers)

    def listed(self) -> "RawBatch":
        """These records with their values as a list."""
        return self if isinstance(self.values, list) else self.with_values(list(self.values))

    def part(self, start: int, stop: int | None = None) -> "RawBatch":
        """Records start .. stop of these."""
        kept = slice(start, stop)
        headers = None if self.headers is None else self.headers[kept]
        return RawBatch(self.offsets[kept], self.timestamps[kept], self.keys[kept], self.values[kept], headers)


class Rows(NamedTuple):
    """Consecutive instances to be written as records; each cell is a JSON text, whatever the format.

    first : number of the first one
    ids : plain texts, not JSON
    features : one list per feature, in the stream file's order
    y : labels, None where there is none
    sizes : of bags, how many texts of each feature belong to each; None where it is one
    """

    first: int
    ids: list[str]
    features: list[list[str]]
    y: list[str | None]
    sizes: list[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, stop: int) -> "Rows":
        """Instances start .. stop of these."""
        a, b, sizes = start, stop, self.sizes
        if sizes is not None:
            a, b, sizes = sum(sizes[:start]), sum(sizes[:stop]), sizes[start:stop]
        features = [column[a:b] for column in self.features]
        return Rows(self.first + start, self.ids[start:stop], features, self.y[start:stop], sizes)


class Rejected(NamedTuple):
    """A record that was not decoded.

    position : in its batch
    reason : one of REASONS, or of IGNORED where it is no dead letter
    detail : for people
    ignored : whether it is none
    """

    position: int
    reason: str
    detail: str
    ignored: bool = False


def rejections(rejected: Sequence[Rejected], n: int, topic: str) -> list[str]:
    """A sentence for each reason, with an example. n : records that were looked at."""
    counts = Counter(one.reason for one in rejected)
    first = {one.reason: one.detail for one in reversed(rejected)}
    return [f"{k:,} of {n:,} records of {topic} are rejected: {why} ({first[why]})" for why, k in counts.items()]


class Features(NamedTuple):
    """Decoded feature records, n of them.

    position : of each in its batch, or None where all were kept
    ids : n
    x : (n, d) float64, codes of nominal values, NaN where missing
    y : n class codes or targets, NaN where absent; None where no record has one
    times : n event times in ms since 1970, None where absent; None where the stream file names no field
    sizes : (n,) int64, of bags: how many rows of x each has, one bag after the other. None where a record is a row.
    keys : of each key of the stream the n texts; None where it is missing
    """

    position: list[int] | None
    ids: Sequence[str]
    x: Floats
    y: list[float] | Floats | None
    times: list[float | None] | None
    rejected: list[Rejected]
    sizes: NDArray[np.int64] | None = None
    keys: Sequence[Sequence[str | None]] = ()


class Labels(NamedTuple):
    """Decoded label records, n of them. y : n class codes or targets, NaN where the label is null: none will come. The
    rest as in `Features`."""

    position: list[int] | None
    ids: Sequence[str]
    y: list[float] | Floats
    times: list[float | None] | None
    rejected: list[Rejected]


class Place(msgspec.Struct, frozen=True):
    """Where an output record stands in the order of the input logs.

    offset, index : of a prediction's features in their topic; of metrics, the next one
    label_offset, label_index : of the next label then

    A stream with further input logs has a field more for each, `place_type`.
    """

    offset: int
    label_offset: int
    index: int = 0
    label_index: int = 0

    def places(self, bits: IndexBits) -> tuple[int, ...]:
        """In each log, the features first (`topics.places`). ValueError where one is none that Kafka can have."""
        place = place_of(self.offset, self.index, bits.features)
        found = place, place_of(self.label_offset, self.label_index, bits.labels), *self.further()
        if min(found) < 0 or max(found) >= 1 << 63:
            raise ValueError(f"it is of offset {max(self.offset, self.label_offset, *self.further())}")
        return found

    def further(self) -> tuple[int, ...]:
        """The next offsets of further input logs."""
        return astuple(self)[4:]


def place_type(further: Sequence[str]) -> Any:
    """`Place` with the fields `further` (`Mapping.further`) after its own; 0 where an earlier version wrote none."""
    fields = [(name, int, 0) for name in further]
    return msgspec.defstruct("Place", fields, bases=(Place,), frozen=True) if fields else Place


# Anybody may have written what is read back by these, so each number and text has a bound that no worker's record
# reaches: a whole number fits an int64 (floats are finite anyway), a name or text is one that can be kept and shown.
Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 50)]  # so that a sum over partitions fits an int64, too
Partition = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=1 << 52)]  # since 1970
Name = Annotated[str, msgspec.Meta(max_length=249)]  # of a model, a detector or an action
Text = Annotated[str, msgspec.Meta(max_length=1024)]  # of a feature or a worker
_FEW = msgspec.Meta(max_length=200)


class SegmentFigures(msgspec.Struct, omit_defaults=True):
    """How good predictions are of instances with one value of a feature.

    Attributes
    ----------
    feature : its name. value : null where it is missing, and of all values together that come too rarely (others).
    n, loss : labels that count, fading over the window, and the sum of their losses: mistakes, missed labels of the
        class that a target is about, costs, or absolute errors.
    n_before, loss_before : the same, fading over ten times as many labels.
    since : where the loss has surely risen by more than that of the other values, when that was found, ms; else 0.
    usual, rise : then its mean loss before, and how far it had risen: as a share of the greatest loss, of a regression
        of an error e as e / (e + mean error).
    """

    feature: Text
    n: float
    loss: float
    n_before: float
    loss_before: float
    value: str | int | float | bool | None = None
    others: bool = False
    since: Millis = 0
    usual: float = 0.0
    rise: float = 0.0

    @property
    def shown(self) -> str:
        """The value as a text."""
        return "(others)" if self.others else "(missing)" if self.value is None else canonical(self.value)


class MetricsRecord(msgspec.Struct, omit_defaults=True):
    """How one model of one partition is doing, written every few seconds.

    time : ms since 1970
    model : its role ("champion", or the name of a challenger)
    name : of the learner
    offset, label_offset : next offsets of the inputs, up to which the figures count
    index, label_index : which instance of these records is the next one
    learned_offset : likewise of what all partitions learn, where this partition reports their model
    n : predictions scored
    overall, window, fading : metric name -> value, null where it is not defined yet
    counters : joined, expired, … of the partition
    size : nodes, leaves, bytes, … of the model
    estimated : accuracy of the last predictions before their labels come, the error of confidence that it
        has subtracted, and the accuracy that the partition's last labels show (observed)
    classes : class -> n (weight of its labels), recall, precision and f1 over the window or fading, and
        over the window auroc, of the champion coverage where sets are asked for
    comparison : of a challenger, how many fewer mistakes it makes than the champion
    segments : of the champion, by the values of the features of `metrics.segments`
    members : of a pool, each member's weight

    Where all partitions learn one model, the first partition's records are of all labels. Those of the others have
    counters, estimated, and of overall, window or fading what is of their own labels: n is 0, and there is no size,
    comparison, classes and members.
    """

    stream: Name
    partition: Partition
    time: Millis
    model: Name
    name: Name
    offset: Count
    label_offset: Count
    n: Count
    overall: dict[str, float | None]
    window: dict[str, float | None] | None = None
    fading: dict[str, float | None] | None = None
    counters: dict[str, Count] | None = None
    size: dict[str, Count] | None = None
    index: Count = 0
    label_index: Count = 0
    comparison: dict[str, float] | None = None
    estimated: dict[str, float] | None = None
    classes: dict[str, dict[str, float]] | None = None
    learned_offset: Count = 0
    segments: list[SegmentFigures] = []
    members: Annotated[dict[Name, float], msgspec.Meta(max_length=64)] | None = None


class Distance(msgspec.Struct, omit_defaults=True):
    """How far a feature, or what a model predicts, is from its reference.

    Attributes
    ----------
    signal : the feature's name, or "prediction". model : role; None for a feature.
    hellinger, psi : distance of the newest values, and population stability index.
    missing : share of the newest values that are missing.
    unseen : likewise, values that the sample of the reference had not; None where numeric.
    outside : likewise, values beyond its least and greatest; None where nominal.
    """

    signal: Text
    hellinger: float
    psi: float
    missing: float
    model: Name | None = None
    unseen: float | None = None
    outside: float | None = None


class PartitionRecord(msgspec.Struct, omit_defaults=True, tag_field="kind", tag="partition"):
    """How a partition is doing in its worker, beside the records of its models: every `metrics.every` while it moves,
    and every ten seconds while it rests.

    Attributes
    ----------
    time : ms since 1970. started : when the worker was given the partition, likewise.
    worker : host and port of the worker's web server; host and process where it has none.
    version : of Riparian.
    offset, label_offset : next offsets of the inputs.
    lag : role of an input topic -> records that were not taken yet, where Kafka has given its end.
    instances, labels, learned : counts of the stream, predicted, read and joined.
    waiting : instances without their label yet.
    latency_p50, latency_p99 : seconds from features to prediction, of the predictions since the record before; None
        without any.
    delay_p50 : seconds from features to label, of the labels since the record before; None without any.
    scored_until : record time, ms since 1970, up to which all is scored, where labels wait for a time
        (`join.unlabelled`); None elsewhere.
    rejected : reason -> records sent to the dead letters since `started`.
    checkpoint_age : seconds of work that only memory holds.
    checkpoint_seconds : what the last checkpoint took; None before the first.
    state_bytes : of all models, what waits and what watches for drift.
    unmet : a sentence of the worker on it while next to no label meets its instance; None where they do.
    early : a sentence of it on labels of one class that come much earlier than those of another; None where none do.
    alarms : models ("" for features) with a drift among the last 1,000 labels or values.
    distances : how far features and predictions are from their references, the farthest 100; empty where that is not
        watched, or no reference is whole yet.
    unread : input topic -> partitions that were added to it since the stream began, and that no worker reads.
    frozen : models that do not learn. paused : whether predictions are withheld. before : the champion before the last
        promotion; None where none is there. Workers that do not tell these have frozen and paused None.
    """

    stream: Name
    partition: Partition
    time: Millis
    started: Millis
    worker: Text
    version: Name
    offset: Count
    label_offset: Count
    instances: Count
    labels: Count
    learned: Count
    waiting: Count
    lag: Annotated[dict[Name, Count], msgspec.Meta(max_length=16)]
    state_bytes: Count
    checkpoint_age: float
    checkpoint_seconds: float | None = None
    latency_p50: float | None = None
    latency_p99: float | None = None
    delay_p50: float | None = None
    scored_until: Millis | None = None
    rejected: Annotated[dict[Name, Count], _FEW] = {}
    unmet: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    early: Annotated[str, msgspec.Meta(max_length=2000)] | None = None
    alarms: list[Name] = []
    distances: Annotated[list[Distance], _FEW] = []
    unread: Annotated[dict[Name, Annotated[list[Partition], _FEW]], _FEW] = {}
    frozen: Annotated[list[Name], _FEW] | None = None
    paused: bool | None = None
    before: Name | None = None


class Shift(msgspec.Struct, omit_defaults=True):
    """How the distribution of a feature or of the predictions differs from its reference.

    Attributes
    ----------
    kind : what differs most: "values", "missing", "unseen" (values that the sample of the reference had not) or "range"
        (beyond its least and greatest value).
    p : corrected for tests, looks and series.
    hellinger, psi : distance of the two windows, and population stability index.
    before, after : counts of the reference and of the newest window, by bin. Of a numeric series: below the range,
        between each two edges, above the range, missing. Of a nominal one: of each of `values`, other values of the
        sample, values that it had not, missing.
    at : the edge up to which, or the value whose share differs most; None for the bins at the end.
    edges : of a numeric series: least value, inner edges, greatest value; a value on an inner edge counts below it.
    values : of a nominal series, the most frequent first, 61 at most; texts cut to 100 characters.
    """

    kind: Name
    p: float
    hellinger: float
    psi: float
    before: Annotated[list[Count], _FEW]
    after: Annotated[list[Count], _FEW]
    at: Name | Whole | float | bool | None = None
    edges: Annotated[list[float], _FEW] | None = None
    values: Annotated[list[Name | Whole | float | bool], msgspec.Meta(max_length=64)] | None = None


class DriftRecord(msgspec.Struct, omit_defaults=True):
    """A detector saw a change in what it watches, or a fresh model on trial was decided upon.

    number : of the partition's events, from 0, without gaps
    model : its role, None for a feature
    signal : "error", "prediction", or the feature's name
    level : "warning", "drift", or "improvement" (errors have fallen); None at the end of a trial
    action : "alert", "reset", "replace-started", "replaced", "dropped", or None
    offset, label_offset, time : of the last prediction made before: its source offset, the next label then, its
        effective time in ms
    index, label_index : which instance of these records
    n : values of the signal so far
    after : mean of the last 100 values
    before : mean of the values between the previous drift and these 100; where there are none, `after` of that drift.
        At the end of a trial they are the mean errors of the fresh and of the old model. None where there were no
        values.
    shift : of the detector "two-sample", how a distribution changed. `before` and `after` are then the shares that
        differ most: of the values up to `shift.at` (numeric), of that value, or of what `shift.kind` names.
    """

    stream: Name
    partition: Partition
    number: Count
    signal: Text
    detector: Name
    offset: Whole
    label_offset: Whole
    time: Whole
    n: Count
    model: Name | None = None
    level: Name | None = None
    action: Name | None = None
    before: float | None = None
    after: float | None = None
    index: Count = 0
    label_index: Count = 0
    shift: Shift | None = None
