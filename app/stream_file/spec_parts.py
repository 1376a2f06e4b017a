"""The parts of a stream file, each field with its type, default, range and meaning.

The descriptions are what docs/stream-file.md and the JSON Schema say (reference.py). Mistakes that pydantic cannot
see are ValueErrors that read on after the name of the field: "expected …, found …; do this".
"""

import math
import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from app.references import is_reference
from app.stream_file.durations import duration
from app.stream_file.spec_errors import found
from topics import records
from topics.codecs import CODECS, REGISTERED, Formats
from topics.headers import header_of
from topics.names import MAX_TOPIC_LENGTH, OUTPUTS, REKEY_END, changelog_topic, check_topic_name, topic_name
from topics.paths import MAX_INDEX, Index, check_paths, parse
from topics.vocabulary import MAX_TEXT, Scalar, Vocabulary, canonical

# Stands for the Kafka key where a path is expected.
KEY = ("@key",)
PROPOSE, AUTOMATIC = "propose", "automatic"
CONFIDENCE = 0.95  # by default, of all intervals of the challengers of one champion
PACE = 250  # labels between the places where a trial begins or ends, and where the rule of promotion looks
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _parse_path(value: Any) -> records.Path:
    """A path as a tuple of field names; () for ""."""
    parts = value
    if isinstance(value, str) and value:
        parts = (value,) if value.startswith(records.HEADER) else parse(value)
    if value == "" or value == ():
        return ()
    if not isinstance(parts, list | tuple) or not all(type(part) in (str, Index, int) for part in parts):
        raise ValueError(
            f"expected a path such as customer.age, found {found(value)}; write field names joined by dots"
        )
    path = tuple(Index(f"[{part}]") if isinstance(part, int) else part for part in parts)
    check_paths([path])
    if any(part.startswith(records.HEADER) for part in path) and (len(path) > 1 or not header_of(path)):
        raise ValueError(f'expected the name of a header, found {found(value)}; write "{records.HEADER}NAME", alone')
    return path


def _not_empty(path: records.Path) -> records.Path:
    if not path:
        raise ValueError('expected a path such as customer.age, found ""; name the field')
    return path


def _not_key(path: records.Path) -> records.Path:
    if path == KEY:
        raise ValueError('expected a path into the record, found "@key"; only an id can be the Kafka key')
    return path


def _not_header(path: records.Path) -> records.Path:
    if header_of(path) is not None:
        raise ValueError(f'expected a path into the record, found "{path[0]}"; a header holds one value only')
    return path


def _check_scalar(value: Any) -> Scalar:
    if not isinstance(value, str | int | float | bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"expected a text, a number, true or false, found {found(value)}; put it in quotes")
    if len(canonical(value)) > MAX_TEXT:
        raise ValueError(f"expected at most {MAX_TEXT} characters, found {len(canonical(value))}; shorten it")
    return value


def _check_distinct(values: list[Scalar]) -> list[Scalar]:
    if not values:
        raise ValueError("expected at least one value, found an empty list; add some, or remove the line")
    Vocabulary(1, values)
    return values


def _check_topic(name: str) -> str:
    check_topic_name(name)
    return name


def check_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ValueError(f'expected a name of letters, digits, ".", "_" and "-", found "{name}"; rename the stream')
    longest = MAX_TOPIC_LENGTH - max(len(changelog_topic("")), *(len(topic_name("", role)) for role in OUTPUTS))
    if len(name) > longest:
        raise ValueError(f"expected a name of at most {longest} characters, found {len(name)}; shorten it")
    if name.endswith(REKEY_END):
        raise ValueError(
            f'expected a name that does not end in "{REKEY_END}", by which workers call the consumer group that copies '
            f'topics for the stream {name.removesuffix(REKEY_END) or "before it"}, found "{name}"; rename the stream'
        )
    return name


def name_keys(value: Any) -> Any:
    """Feature names that are numbers in YAML are texts in JSON."""
    return {str(k) if type(k) is int else k: v for k, v in value.items()} if isinstance(value, dict) else value


def feature_form(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def model_form(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


_PATH_SCHEMA = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0, "maximum": MAX_INDEX}]},
        },
    ]
}
_AnyPath = Annotated[Any, BeforeValidator(_parse_path), AfterValidator(_not_key), WithJsonSchema(_PATH_SCHEMA)]
_ObjectPath = Annotated[_AnyPath, AfterValidator(_not_header)]
_FieldPath = Annotated[_AnyPath, AfterValidator(_not_empty)]
_IdPath = Annotated[Any, BeforeValidator(_parse_path), AfterValidator(_not_empty), WithJsonSchema(_PATH_SCHEMA)]
Topic = Annotated[str, AfterValidator(_check_topic)]
_Scalar = Annotated[Any, BeforeValidator(_check_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]
_Envelope = Literal["debezium", "connect", "cloudevents"] | None
Values = Annotated[list[_Scalar], AfterValidator(_check_distinct)]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


def _no_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _topic(role: str, text: str) -> Any:
    """A topic's field. The default depends on the stream's name, so `Spec` fills it in before validation."""
    return Field(
        "",
        validate_default=False,
        json_schema_extra=_no_default,
        description=f"Topic of the {text}. Default: `NAME.{role}`.",
    )


class TopicsSpec(Part):
    """Names of topics. Topics that are left out are named after the stream."""

    features: Topic = _topic("features", "features")
    labels: Topic | None = _topic("labels", "labels, or null where labels only come inside the feature records")
    predictions: Topic = _topic("predictions", "predictions")
    metrics: Topic = _topic("metrics", "metrics")
    drift: Topic = _topic("drift", "drift events")
    deadletters: Topic = _topic("deadletters", "rejected records")
    control: Topic | None = _topic("control", "commands, where `control` is true")
    events: Topic | None = _topic("events", "answers to commands, where `control` is true")
    learned: Topic | None = _topic("learned", "labelled instances of all partitions, where `learning` is shared")


class RecordSpec(Part):
    """Where the fields of a feature record are."""

    envelope: _Envelope = Field(
        default=None,
        description="What stands around the row: `debezium`, `connect` or `cloudevents`; null for nothing. Paths "
        "begin at the row.",
    )

    id: _IdPath = Field(default="id", description="Path of the id, a text or an integer; `@key` for the Kafka key.")
    time: _FieldPath | None = Field(
        default=None,
        description="Path of the event time: epoch milliseconds, epoch seconds (numbers below 1e11) or ISO 8601 (UTC "
        "unless it says so).",
    )
    x: _ObjectPath = Field(
        default="x",
        description='Path of the object that holds the features; "" for the record itself. Of bags: of '
        "the list of instances, each an object.",
    )
    y: _FieldPath | None = Field(
        default="y", description="Path of a label inside the feature record, used if it is present; null to ignore it."
    )
    max_bytes: int = Field(
        default=262_144, ge=1, le=104_857_600, description="Largest record that is decoded, in bytes."
    )
    max_instances: int = Field(
        default=1000, ge=1, le=1_000_000, description="Most instances of a bag; a larger one is rejected."
    )


class LabelSpec(Part):
    """Where the fields of a label record are."""

    envelope: _Envelope = Field(
        default=None, description="What stands around the label's row, as in `record.envelope`."
    )

    id: _IdPath = Field(default="id", description="Path of the id, a text or an integer; `@key` for the Kafka key.")
    y: _FieldPath = Field(default="y", description="Path of the label.")
    time: _FieldPath | None = Field(default=None, description="Path of the event time, as in `record.time`.")


class FeatureSpec(Part):
    """One feature. `age: numeric` is short for `age: {type: numeric}`."""

    type: Literal["numeric", "nominal", "boolean"] = Field(
        description="Type of the value: `numeric` (a JSON number), `nominal` (a text, number or boolean that is one of "
        "a set) or `boolean` (true or false)."
    )
    values: Values | None = Field(
        default=None,
        description="Values of a nominal feature; a record with any other value is rejected. If left out, values are "
        "learned as they come.",
    )
    max_values: int = Field(
        default=1000,
        ge=1,
        le=1_000_000,
        description="Most values that are learned; a record with a new one beyond is rejected.",
    )
    from_: _FieldPath | None = Field(
        default=None,
        alias="from",
        description="Path of the value from the top of the record (for bags, of the instance). Default: its name, "
        "inside `record.x`.",
    )

    @model_validator(mode="after")
    def _check(self) -> "FeatureSpec":
        if self.type != records.NOMINAL and self.model_fields_set & {"values", "max_values"}:
            name = "values" if "values" in self.model_fields_set else "max_values"
            raise ValueError(f'expected {name} only with type nominal, found type "{self.type}"; change one of them')
        if self.values is not None and "max_values" in self.model_fields_set:
            raise ValueError("expected values or max_values, found both; remove max_values")
        return self


NOTHING, ALERT, RESET, REPLACE = "nothing", "alert", "reset", "replace"
_OnDrift = Literal["nothing", "alert", "reset", "replace"]


AUTO = "auto"


class ModelSpec(Part):
    """A learner of `riparian models`, and its parameters beside it."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: str = Field(description="Name of a learner. Its parameters are fields beside it: see `riparian models`.")
    on_drift: _OnDrift | None = Field(
        default=None, description="What is done when its errors rise. Default: what `drift.on_drift` says."
    )

    @property
    def parameters(self) -> dict[str, Any]:
        """As written in the file; `Spec.models()` has them complete and checked."""
        return dict(self.model_extra or {})


class JoinSpec(Part):
    """How features wait for their labels."""

    horizon: duration("7d", 0.001) = Field(  # type: ignore[valid-type]
        default="7d",
        description="How long an instance waits for its label, and a label for its instance, by record timestamps.",
    )
    max_pending: int = Field(
        default=1_000_000,
        ge=1,
        le=10**12,
        description="Most instances that wait, per partition; beyond, the oldest is dropped.",
    )
    max_pending_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000_000,
        le=10**15,
        description="Most bytes that waiting instances take, per partition; beyond, the oldest is dropped. An instance "
        "counts as 128 bytes, its id, 8 per feature, and 8 for each output of each model; the arrays may be twice as "
        "large. A bag: 16 more, and 8 per feature of each of its instances.",
    )
    max_labels: int = Field(
        default=100_000,
        ge=1,
        le=10**12,
        description="Most labels that wait, per partition; beyond, the oldest is dropped.",
    )
    max_buffered_bytes: int = Field(
        default=268_435_456,
        ge=1_000_000,
        le=10**15,
        description="Most bytes of records that a worker has fetched and not learned yet, of all its partitions "
        "together; for a moment it can be one poll more.",
    )
    max_wait: duration("2s") = Field(  # type: ignore[valid-type]
        default="2s",
        description="How long one topic may keep the other waiting, in real time, before records are taken out of the "
        "order of their timestamps.",
    )


def trust_form(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def promotion_form(value: Any) -> Any:
    return {"mode": value} if isinstance(value, str) else value


def drift_form(value: Any) -> Any:
    return {"detectors": []} if value == "none" else value


def _detectors_form(value: Any) -> Any:
    """One name or a list of names as a mapping to parameters."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list):
        return {k: {} if v is None else v for k, v in value.items()} if isinstance(value, dict) else value
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"expected the name of a detector, found {found(name)}; write it as adwin or [adwin, ddm]")
        if names.count(name) > 1:
            raise ValueError(f'expected every detector once, found "{name}" twice; remove one')
    return {name: {} for name in names}


def _check_detectors(value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    from models.drift import validate

    return {name: validate(name, value[name]) for name in sorted(value)}  # a state knows them by their places


def _check_watched(value: Any) -> Any:
    if value in ("none", "all"):
        return value
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"expected none, all or a list of features, found {found(value)}; write it as [age, income]")
    for name in value:
        if value.count(name) > 1:
            raise ValueError(f'expected every feature once, found "{name}" twice; remove one')
    return value


_DISTRIBUTED_SCHEMA = {"anyOf": [{"enum": ["all"]}, {"type": "array", "items": {"type": "string"}}]}
_WATCHED_SCHEMA = {"anyOf": [{"enum": ["none", "all"]}, {"type": "array", "items": {"type": "string"}}]}


def _distributions_form(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    return value


def _check_distributed(value: Any) -> Any:
    if value != "all" and not isinstance(value, list):
        raise ValueError(f"expected all or a list of features, found {found(value)}; write it as [age, income]")
    return _check_watched(value)


def _check_tenths(value: int) -> int:
    if value % 10:
        raise ValueError(f"expected a multiple of 10, found {value}; give {value - value % 10}")
    return value


class DistributionsSpec(Part):
    """Tests of how features and predictions are distributed, without labels. `distributions: true` for the
    defaults."""

    window: Annotated[int, AfterValidator(_check_tenths)] = Field(
        default=1000,
        ge=100,
        le=100_000,
        description="Instances of the reference, and of the newest ones that are compared with it; a multiple of 10.",
    )
    false_alarms: float = Field(
        default=0.01,
        gt=0,
        lt=1,
        description="Probability that a stream which does not change ever raises an alarm, of all features and looks "
        "together.",
    )
    features: Annotated[Any, BeforeValidator(_check_distributed), WithJsonSchema(_DISTRIBUTED_SCHEMA)] = Field(
        default="all",
        description="Features of any type that are tested beside the predictions: `all`, or a list of names.",
    )


class DriftSpec(Part):
    """What watches for concept drift, and what is done about it. `drift: none` for nothing."""

    detectors: Annotated[
        dict[str, dict[str, Any]], BeforeValidator(_detectors_form), AfterValidator(_check_detectors)
    ] = Field(
        default={"adwin": {}},
        description="Detectors of each model's errors: `{adwin: {delta: 0.01}, ddm: {}}`, or just names, "
        "`[adwin, ddm]`.",
    )
    features: Annotated[Any, BeforeValidator(_check_watched), WithJsonSchema(_WATCHED_SCHEMA)] = Field(
        default="none",
        description="Numeric features that are watched as well: `none`, `all`, or a list of names.",
    )
    distributions: Annotated[DistributionsSpec | None, BeforeValidator(_distributions_form)] = Field(
        default=None,
        description="Whether features and predictions are compared with a reference, without labels: `true`, or how "
        "([drift](drift.md#without-labels)).",
    )
    on_drift: _OnDrift = Field(
        default="alert",
        description="What is done when the errors of a model rise: `nothing` (it is only written and counted), "
        "`alert`, `reset` (the model begins anew) or `replace` (a fresh one learns beside it, and takes its place when "
        "it is better). A model may have an `on_drift` of its own.",
    )
    window: int = Field(
        default=1000, ge=50, le=1_000_000, description="Labels over which a fresh model has to be better (`replace`)."
    )
    patience: int = Field(
        default=10_000,
        ge=50,
        le=1_000_000_000,
        description="Labels after which a fresh model that is not better is dropped (`replace`).",
    )


class PromotionSpec(Part):
    """The rule by which a challenger becomes the champion. `promotion: automatic` for the mode alone."""

    mode: Literal["propose", "automatic"] = Field(
        description="`automatic`: a challenger that is surely better becomes the champion. `propose`: an event says "
        "so, once, and `riparian promote` does it."
    )
    margin: float = Field(
        default=0.0,
        ge=0,
        description="By how much its mean loss has to be lower for sure: 0.01 is one error in a hundred labels; of a "
        "regression, in the target's unit.",
    )
    at_least: int = Field(
        default=1000, ge=PACE, le=1_000_000_000, description="Labels over which it has to be better, at least."
    )
    confidence: float = Field(
        default=CONFIDENCE,
        gt=0.5,
        lt=1,
        description="Probability that no interval of a challenger beside one champion is ever wrong.",
    )


class CheckpointSpec(Part):
    """How often checkpoints are written, and which are kept."""

    every: duration("5s", 0.1) = Field(  # type: ignore[valid-type]
        default="5s", description="Time between two checkpoints of a partition."
    )
    share: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Share of a processor core that checkpoints of a worker's partitions may take together; they "
        "become rarer to keep within it.",
    )
    keep: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Older checkpoints kept to roll back to, as long as they take little room beside the state.",
    )
    keep_every: duration("10m", 0.0) = Field(  # type: ignore[valid-type]
        default="10m", description="Time between two checkpoints that are kept."
    )


class MetricsSpec(Part):
    """How quality is reported."""

    every: duration("5s", 0.1) = Field(default="5s", description="Time between two metrics records.")  # type: ignore[valid-type]
    window: int = Field(
        default=1000, ge=1, le=10_000_000, description="Labels in the sliding window of the recent metrics."
    )
    fading: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Factor by which the past fades at each label, such as 0.999, instead of the window.",
    )


def _check_format(value: Any) -> Any:
    if not isinstance(value, str) or value not in CODECS:
        known = " or ".join(f'"{name}"' for name in CODECS)
        raise ValueError(f"expected {known}, found {found(value)}; write {known}")
    return value


def codec_form(value: Any) -> Any:
    """One format for all records as one for each kind."""
    if isinstance(value, dict | CodecSpec):
        return value
    return dict.fromkeys(Formats._fields, _check_format(value))


_Format = Annotated[Any, BeforeValidator(_check_format), WithJsonSchema({"enum": list(CODECS)})]


class CodecSpec(Part):
    """The formats of the records. `codec: json` for all of them."""

    features: _Format = Field(default="json", description="Format of the feature records.")
    labels: _Format = Field(default="json", description="Format of the label records.")
    predictions: _Format = Field(default="json", description="Format of the predictions.")

    def formats(self) -> Formats:
        return Formats(self.features, self.labels, self.predictions)

    def registered(self) -> dict[str, str]:
        """Kind of record -> its format, where records of it name a schema of a registry."""
        return {kind: name for kind, name in self.formats()._asdict().items() if name in REGISTERED}

    def plain(self) -> Any:
        """The name of the format where all are of one; else role -> name."""
        formats = self.formats()
        return formats.features if len(set(formats)) == 1 else formats._asdict()


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f'expected the address of a registry, found "{url}"; write it like https://registry:8081')
    if parts.username is not None or parts.password is not None:
        raise ValueError("expected an address without user and password; give them as username and password")
    return url.rstrip("/")


def _check_secret(value: str) -> str:
    if not is_reference(value):  # not shown: it may be the secret itself
        raise ValueError(
            "expected where the secret stands, found something else; write ${NAME} for an environment variable, or "
            "file:PATH"
        )
    return value


_Url = Annotated[str, AfterValidator(_check_url)]
_Secret = Annotated[str, AfterValidator(_check_secret)]
TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = "topic-name", "record-name", "topic-record-name"


class RecordNames(Part):
    """Full names of the records' schemas, for subjects that are named after them."""

    features: str | None = Field(default=None, description="Of the feature records.")
    labels: str | None = Field(default=None, description="Of the label records.")


class RegistrySpec(Part):
    """Where the schemas of the records are."""

    url: _Url = Field(description="Address of the registry, of Confluent's API: `https://registry:8081`.")
    username: str | None = Field(default=None, description="User (basic authentication).")
    password: _Secret | None = Field(default=None, description="Password: `${NAME}` or `file:PATH`.")
    token: _Secret | None = Field(default=None, description="Bearer token: `${NAME}` or `file:PATH`.")
    ca: str | None = Field(
        default=None, description="PEM file of the certificates to trust. Default: those of the system."
    )
    certificate: str | None = Field(default=None, description="PEM file of the client's certificate (mutual TLS).")
    key: str | None = Field(default=None, description="PEM file of its key. Default: the same file.")
    key_password: _Secret | None = Field(default=None, description="Password of the key: `${NAME}` or `file:PATH`.")
    subjects: Literal["topic-name", "record-name", "topic-record-name"] = Field(
        default="topic-name",
        description="How subjects are named: `topic-name` (`TOPIC-value`), `record-name` (the schema's full name) or "
        "`topic-record-name` (`TOPIC-` and the full name).",
    )
    records: RecordNames = Field(
        default_factory=RecordNames,
        description="Full names of the schemas, where subjects are named after them; of Protobuf, which message of a "
        "schema is meant, by default the first one. Predictions are `riparian.Prediction`.",
    )
    max_wait: duration("10s") = Field(  # type: ignore[valid-type]
        default="10s",
        description="How long a record waits for a schema that the registry does not know, before it is rejected. "
        "While the registry does not answer, it waits on.",
    )

    @model_validator(mode="after")
    def _check(self) -> "RegistrySpec":
        if (self.username is None) != (self.password is None):
            missing = "username" if self.username is None else "password"
            raise ValueError(f"expected username and password together, found no {missing}; add it or remove both")
        if self.token is not None and self.username is not None:
            raise ValueError("expected username and password or token, found both; remove one of them")
        for name in ("key", "key_password"):
            if getattr(self, name) is not None and self.certificate is None:
                raise ValueError(f"expected certificate beside {name}, found none; name its PEM file")
        for name in ("ca", "certificate"):
            if getattr(self, name) is not None and not self.url.startswith("https:"):
                raise ValueError(f'expected {name} only with https, found "{self.url}"; write https, or remove {name}')
        return self


class PredictionsSpec(Part):
    """What a prediction record holds."""

    challengers: bool = Field(
        default=False, description="Whether predictions of challengers are written beside the champion's."
    )
    probabilities: bool = Field(default=True, description="Whether the probabilities of the classes are written.")
    calibrated: bool = Field(
        default=False,
        description="Whether the probabilities are scaled, as labels come, so that they mean what they say "
        "([calibration](intervals.md#calibrated-probabilities)).",
    )
    coverage: float | None = Field(
        default=None,
        ge=0.5,
        le=0.999,
        description="Share of the labels, such as 0.9, that an interval around the predicted value (`lower`, "
        "`upper`), or a set of classes (`set`), shall hold. It is then written beside the prediction "
        "([intervals](intervals.md)).",
    )
    reasons: int | None = Field(
        default=None,
        ge=1,
        le=20,
        description="How many of the features that moved a prediction most are written beside it, each with what it "
        "added ([reasons](reasons.md)).",
    )
    trace: bool = Field(
        default=False,
        description="Whether a prediction has the headers `traceparent` and `tracestate` of its feature record (W3C "
        "Trace Context).",
    )
