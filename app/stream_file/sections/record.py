"""Where the fields of a stream's records are: its topics, `record`, `label` and `features` of a stream file."""

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, field_serializer, model_validator

from riparian.app.stream_file.durations import duration, format_duration
from riparian.app.stream_file.sections.base import Section, ShortForm
from riparian.app.stream_file.spec_errors import found
from riparian.topics import records
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import MAX_INDEX, Index, check_path, parse
from riparian.topics.names import check_topic_name
from riparian.topics.vocabulary import MAX_TEXT, Scalar, Vocabulary, canonical

# Stands for the Kafka key where a path is expected.
KEY = ("@key",)
# Stands for the place of a record where an id is expected that no record has.
OFFSET = ("@offset",)
LABEL = "label"  # stands for a record's label among features over a key's past
PASTS = ("count", "mean", "last", "since", "share", "ratio")
LEAST_HALF_LIFE, MOST_HALF_LIFE = 2.0, 3653 * 86_400.0  # seconds


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
    check_path(path)
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
    return _not_offset(path)


def _not_offset(path: records.Path) -> records.Path:
    if path == OFFSET:
        raise ValueError('expected a path into the record, found "@offset"; only record.id can be the place of one')
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


def check_class(place: str, value: Scalar, classes: list[Scalar]) -> None:
    """ValueError where a class is none of those that are named."""
    if canonical(value) not in map(canonical, classes):
        known = ", ".join(map(str, classes))
        raise ValueError(f'{place}: expected one of classes ({known}), found "{value}"; name one of them')


def name_keys(value: Any) -> Any:
    """Feature names that are numbers in YAML are texts in JSON."""
    return {str(k) if type(k) is int else k: v for k, v in value.items()} if isinstance(value, dict) else value


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
KeyPath = Annotated[_IdPath, AfterValidator(_not_offset)]
Topic = Annotated[str, AfterValidator(_check_topic)]
_Scalar = Annotated[Any, BeforeValidator(_check_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Label = _Scalar
_Envelope = Literal["debezium", "connect", "cloudevents"] | None
Values = Annotated[list[_Scalar], AfterValidator(_check_distinct)]


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


class TopicsSpec(Section):
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


class RecordSpec(Section):
    """Where the fields of a feature record are."""

    envelope: _Envelope = Field(
        default=None,
        description="What stands around the row: `debezium`, `connect` or `cloudevents`; null for nothing. Paths "
        "begin at the row.",
    )

    id: _IdPath = Field(
        default="id",
        description="Path of the id, a text or an integer; `@key` for the Kafka key, `@offset` for partition and "
        "offset of the record (`0@17`), where labels do not come by id.",
    )
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


class LabelSpec(Section):
    """Where the fields of a label record are."""

    envelope: _Envelope = Field(
        default=None, description="What stands around the label's row, as in `record.envelope`."
    )

    id: KeyPath = Field(default="id", description="Path of the id, a text or an integer; `@key` for the Kafka key.")
    y: _FieldPath = Field(default="y", description="Path of the label.")
    is_: Label | None = Field(
        default=None,
        alias="is",
        description="Class of every record of the topic, in place of `y`, as of clicks or chargebacks.",
    )
    time: _FieldPath | None = Field(default=None, description="Path of the event time, as in `record.time`.")
    on_repeat: Literal["ignore", "correct"] = Field(
        default="ignore",
        description="What another label of an instance does that has one: it is dropped and counted (`ignore`), or "
        "learned, too (`correct`), for which instances wait on, learned, for the whole horizon.",
    )
    of: str | None = Field(
        default=None,
        description="A numeric feature, whose value in a later record is the label, in place of labels that come.",
    )
    ahead: duration("1h", 0.001) | None = Field(  # type: ignore[valid-type]
        default=None, description="How much later that record is, at least, by record timestamps."
    )
    by: str | None = Field(
        default=None,
        description="What both records have in common: a key of `keys`, or a field inside `record.x`; null: any later "
        "record is it.",
    )
    above: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Of a classification: the label is whether the value is above this. `classes` are `[false, true]`, "
        "if left out.",
    )


# What is not known of a past -> what is expected in its place, and what to write.
ELSE = {
    "within": ("expected half_life, the age at which a record counts half", "write half_life"),
    "n": ("expected the last value alone", "leave n out, or write mean with a half_life in place of last"),
    "deviation": ("expected a mean", "write mean, and a ratio to it"),
}


class FeatureSpec(ShortForm):
    """One feature. `age: numeric` is short for `age: {type: numeric}`. Those with `count`, `mean`, `last`, `since`,
    `share` or `ratio` are numbers that records do not have: they are over a key's past."""

    brief = ("type", (str,))

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
        description="Most values that are learned; a record with a new one beyond is rejected. `champion: auto` "
        "expects few values, unless this says more than ten.",
    )
    text: bool = Field(
        default=False,
        description='Of a numeric feature: whether numbers may be texts (`"12.30"`).',
    )
    from_: _FieldPath | None = Field(
        default=None,
        alias="from",
        description="Path of the value from the top of the record (for bags, of the instance). Default: its name, "
        "inside `record.x`.",
    )
    count: str | None = Field(
        default=None, description="How many records of a key of `keys` have come, this one included."
    )
    mean: str | None = Field(
        default=None,
        description="Mean of a numeric feature over the records of the key `by`, this one included; `label`: of their "
        "labels that have come, for regression.",
    )
    last: str | None = Field(
        default=None,
        description="Last value of a numeric feature among the records of the key `by`, or of their labels (`label`).",
    )
    since: str | None = Field(default=None, description="Seconds since the last record of a key of `keys`.")
    share: _Scalar | None = Field(
        default=None, description="Share of a class among the labels that have come for records of the key `by`."
    )
    ratio: str | None = Field(
        default=None, description="A feature, as it is with this record, divided by the feature `to`."
    )
    by: str | None = Field(default=None, description="The key of `keys` whose past `mean`, `last` or `share` is over.")
    to: str | None = Field(default=None, description="What `ratio` divides by, as it was before this record.")
    half_life: duration("7d") | None = Field(  # type: ignore[valid-type]
        default=None,
        description="Age at which a record counts half in a `count`, `mean` or `share`, from 2s to 3653d; null: each "
        "counts alike for ever.",
    )
    smooth: int = Field(
        default=0, ge=0, le=1_000_000, description="Labels of the share over all keys that are added to a `share`."
    )

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, value: Any) -> Any:
        """What is over a past is a number."""
        over_past = isinstance(value, dict) and not value.keys().isdisjoint(PASTS)
        for field, (expected, cure) in ELSE.items():
            if isinstance(value, dict) and field in value and (over_past or field == "deviation"):
                raise ValueError(f"{expected}, found {field}; {cure}")
        return {"type": records.NUMERIC, **value} if over_past else value

    @property
    def past(self) -> str | None:
        """Which of PASTS it is; None of what records have."""
        return next((kind for kind in PASTS if getattr(self, kind) is not None), None)

    @property
    def key(self) -> str | None:
        """The key whose past it is over."""
        return self.by or self.count or self.since

    @field_serializer("half_life")
    def _half_life(self, seconds: float | None) -> str | None:
        """A half-life in the stream file's form."""
        return None if seconds is None else format_duration(seconds)

    def written(self) -> dict[str, Any]:
        """What one over a past is, as plain values; nothing of what records have."""
        of_pasts = {*PASTS, "by", "to", "half_life", "smooth"}
        return self.model_dump(include=of_pasts, exclude_defaults=True, exclude_none=True)

    @property
    def of_labels(self) -> bool:
        """Whether it is over labels, and not over records."""
        return self.share is not None or LABEL in (self.mean, self.last)

    @model_validator(mode="after")
    def _check(self) -> "FeatureSpec":
        if self.type != records.NOMINAL and self.model_fields_set & {"values", "max_values"}:
            name = "values" if "values" in self.model_fields_set else "max_values"
            raise ValueError(f'expected {name} only with type nominal, found type "{self.type}"; change one of them')
        if self.text and (self.type != records.NUMERIC or self.past is not None):
            what = f'type "{self.type}"' if self.past is None else self.past
            raise ValueError(f"expected text only with a number that records have, found {what}; remove text")
        if self.values is not None and "max_values" in self.model_fields_set:
            raise ValueError("expected values or max_values, found both; remove max_values")
        given = [kind for kind in PASTS if getattr(self, kind) is not None]
        allowed = {"by": ("mean", "last", "share"), "to": ("ratio",), "half_life": ("count", "mean", "share")}
        for field, kinds in {**allowed, "smooth": ("share",)}.items():
            if field in self.model_fields_set and getattr(self, field) is not None and self.past not in kinds:
                known = " or ".join(filter(None, [", ".join(kinds[:-1]), kinds[-1]]))
                raise ValueError(
                    f"expected {field} only beside {known}, found {given[0] if given else 'none of them'}; remove it"
                )
            if field in ("by", "to") and self.past in kinds and getattr(self, field) is None:
                what = "the key whose past it is over" if field == "by" else "what it divides by"
                raise ValueError(f"expected {field}, {what}, beside {self.past}, found none; add it")
        if given and (len(given) > 1 or self.type != records.NUMERIC or self.from_ is not None):
            also = given[1] if len(given) > 1 else "from" if self.from_ is not None else f"type {self.type}"
            raise ValueError(f"expected {given[0]} alone, found {also} beside it; remove one of them")
        if self.half_life is not None and not LEAST_HALF_LIFE <= self.half_life <= MOST_HALF_LIFE:
            raise ValueError(
                f"expected a half_life from 2s to 3653d, found {format_duration(self.half_life)}; change it"
            )
        return self
