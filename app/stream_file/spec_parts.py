"""The parts of a stream file, each field with its type, default, range and meaning.

The descriptions are what docs/stream-file.md and the JSON Schema say (reference.py). Mistakes that pydantic cannot
see are ValueErrors that read on after the name of the field: "expected …, found …; do this".
"""

import math
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from app.stream_file.durations import duration
from app.stream_file.spec_errors import found
from topics import records
from topics.layout import check_paths
from topics.names import MAX_TOPIC_LENGTH, OUTPUTS, check_topic_name, topic_name
from topics.vocabulary import MAX_TEXT, Scalar, Vocabulary, canonical

# Stands for the Kafka key where a path is expected.
KEY = ("@key",)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def _parse_path(value: Any) -> records.Path:
    """A path as a tuple of field names; () for ""."""
    parts = value.split(".") if isinstance(value, str) and value else value
    if value == "" or value == ():
        return ()
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise ValueError(
            f"expected a path such as customer.age, found {found(value)}; write field names joined by dots"
        )
    path = tuple(parts)
    check_paths([path])
    return path


def _not_empty(path: records.Path) -> records.Path:
    if not path:
        raise ValueError('expected a path such as customer.age, found ""; name the field')
    return path


def _not_key(path: records.Path) -> records.Path:
    if path == KEY:
        raise ValueError('expected a path into the record, found "@key"; only an id can be the Kafka key')
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
    longest = MAX_TOPIC_LENGTH - max(len(topic_name("", role)) for role in OUTPUTS)
    if len(name) > longest:
        raise ValueError(f"expected a name of at most {longest} characters, found {len(name)}; shorten it")
    return name


def name_keys(value: Any) -> Any:
    """Feature names that are numbers in YAML are texts in JSON."""
    return {str(k) if type(k) is int else k: v for k, v in value.items()} if isinstance(value, dict) else value


def feature_form(value: Any) -> Any:
    return {"type": value} if isinstance(value, str) else value


def model_form(value: Any) -> Any:
    return {"model": value} if isinstance(value, str) else value


_PATH_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_AnyPath = Annotated[Any, BeforeValidator(_parse_path), AfterValidator(_not_key), WithJsonSchema(_PATH_SCHEMA)]
_FieldPath = Annotated[_AnyPath, AfterValidator(_not_empty)]
_IdPath = Annotated[Any, BeforeValidator(_parse_path), AfterValidator(_not_empty), WithJsonSchema(_PATH_SCHEMA)]
_Topic = Annotated[str, AfterValidator(_check_topic)]
_Scalar = Annotated[Any, BeforeValidator(_check_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]
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
    """Names of topics. Those that are left out are called after the stream."""

    features: _Topic = _topic("features", "features")
    labels: _Topic | None = _topic("labels", "labels, or null where labels only come inside the feature records")
    predictions: _Topic = _topic("predictions", "predictions")
    metrics: _Topic = _topic("metrics", "metrics")
    drift: _Topic = _topic("drift", "drift events")
    deadletters: _Topic = _topic("deadletters", "rejected records")


class RecordSpec(Part):
    """Where everything stands in a feature record."""

    id: _IdPath = Field(default="id", description="Path of the id, a text or an integer; `@key` for the Kafka key.")
    time: _FieldPath | None = Field(
        default=None,
        description="Path of the event time: epoch milliseconds, epoch seconds (numbers below 1e11) or ISO 8601 (UTC "
        "unless it says so).",
    )
    x: _AnyPath = Field(
        default="x",
        description='Path of the object that holds the features; "" for the record itself. Of bags: of '
        "the list of instances, each an object.",
    )
    y: _FieldPath | None = Field(
        default="y", description="Path of a label inside the feature record, used where it is there; null to ignore it."
    )
    max_bytes: int = Field(
        default=262_144, ge=1, le=104_857_600, description="Largest record that is decoded, in bytes."
    )
    max_instances: int = Field(
        default=1000, ge=1, le=1_000_000, description="Most instances of a bag; a larger one is rejected."
    )


class LabelSpec(Part):
    """Where everything stands in a label record."""

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
        description="Values of a nominal feature. It is closed then: records with another value are rejected. Left "
        "out, values are learned as they come.",
    )
    max_values: int = Field(
        default=1000, ge=1, le=1_000_000, description="Most values learned; a record with one more is rejected."
    )
    from_: _FieldPath | None = Field(
        default=None,
        alias="from",
        description="Path of the value from the record's top, of bags from the instance. Default: its name, inside "
        "`record.x`.",
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

    model: str = Field(description="Name of a learner. Its parameters stand beside it: see `riparian models`.")
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
        default=1_000_000, ge=1, le=10**12, description="Most instances that wait, a partition; the oldest leaves."
    )
    max_pending_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000_000,
        le=10**15,
        description="Most bytes that waiting instances take, a partition; the oldest leaves. An instance is reckoned "
        "at 128 bytes, its id, 8 a feature, and 8 for each output of each model; the arrays may be twice as large. A "
        "bag: 16 more, and 8 a feature of each of its instances.",
    )
    max_labels: int = Field(
        default=100_000, ge=1, le=10**12, description="Most labels that wait, a partition; the oldest leaves."
    )
    max_wait: duration("2s") = Field(  # type: ignore[valid-type]
        default="2s",
        description="How long one topic may keep the other waiting, in real time, before records are taken out of the "
        "order of their timestamps.",
    )


def trust_form(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


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


_WATCHED_SCHEMA = {"anyOf": [{"enum": ["none", "all"]}, {"type": "array", "items": {"type": "string"}}]}


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
    on_drift: _OnDrift = Field(
        default="alert",
        description="What is done when the errors of a model rise: `nothing` (it is written and counted only), "
        "`alert`, `reset` (the model begins anew) or `replace` (a fresh one learns beside it, and takes its place when "
        "it is better). A model may say otherwise.",
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


class CheckpointSpec(Part):
    """How often state is made safe."""

    every: duration("5s", 0.1) = Field(  # type: ignore[valid-type]
        default="5s", description="Time between two checkpoints of a partition."
    )
    share: float = Field(
        default=0.1,
        gt=0,
        le=1,
        description="Share of a processor core that checkpoints of a partition may take; they get rarer to keep it.",
    )
    keep: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Older checkpoints kept to roll back to, as far as they take little room beside the state.",
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


class PredictionsSpec(Part):
    """What a prediction record holds."""

    challengers: bool = Field(
        default=False, description="Whether predictions of challengers are written beside the champion's."
    )
    probabilities: bool = Field(default=True, description="Whether the probabilities of the classes are written.")
