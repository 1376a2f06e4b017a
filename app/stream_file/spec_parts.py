"""Small parts of a stream file: a model, `join`, `checkpoint`, `promotion`, `metrics` and `predictions`; and what
all parts are. The fields of the file itself are in fields.py.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_serializer, model_validator

from riparian.app.stream_file.durations import duration
from riparian.topics.names import MAX_TOPIC_LENGTH, OUTPUTS, REKEY_END, changelog_topic, topic_name

PROPOSE, AUTOMATIC = "propose", "automatic"
CONFIDENCE = 0.95  # by default, of all intervals of the challengers of one champion
PACE = 250  # labels between the places where a trial begins or ends, and where the rule of promotion looks
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


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


def as_list(value: Any) -> Any:
    """One text as a list of one."""
    return [value] if isinstance(value, str) else value


def check_once(names: Sequence[str], what: str) -> None:
    """ValueError where one comes twice. what : they are."""
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f'expected every {what} once, found "{name}" twice; remove one')


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)


class Brief(Part):
    """A part for which the value of one field may stand, where the others are as by default.

    brief : that field's name, and the types of its values.
    """

    brief: ClassVar[tuple[str, tuple[type, ...]]]

    @model_validator(mode="before")
    @classmethod
    def _of_brief(cls, value: Any) -> Any:
        name, kinds = cls.brief
        return {name: value} if isinstance(value, kinds) and not isinstance(value, bool) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler(core_schema)
        found = handler.resolve_ref_schema(schema)
        whole = found.copy()
        field = {**whole["properties"][cls.brief[0]]}
        del field["description"], field["title"]
        field.pop("default", None)
        found.clear()
        found.update(description=whole.pop("description"), anyOf=[field, whole])
        return schema


class Terse(Brief):
    """One that is also written so."""

    @model_serializer
    def plain(self) -> Any:
        """What was said, as plain values."""
        name, fields = self.brief[0], type(self).model_fields
        found = {key: getattr(self, key) for key in fields}
        alone = all(value == fields[key].default for key, value in found.items() if key != name)
        return found[name] if alone else found


NOTHING, ALERT, RESET, REPLACE = "nothing", "alert", "reset", "replace"
OnDrift = Literal["nothing", "alert", "reset", "replace"]
AUTO = "auto"


class ModelSpec(Brief):
    """A learner of `riparian models`, and its parameters beside it."""

    brief = ("model", (str,))
    model_config = ConfigDict(extra="allow", protected_namespaces=())

    model: str = Field(description="Name of a learner. Its parameters are fields beside it: see `riparian models`.")
    on_drift: OnDrift | None = Field(
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


class PromotionSpec(Brief):
    """The rule by which a challenger becomes the champion. `promotion: automatic` for the mode alone."""

    brief = ("mode", (str,))

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


ALL, ALERTS = "all", "alerts"


class ReasonsSpec(Terse):
    """The features that moved a prediction most. `reasons: 3` for `top` alone."""

    brief = ("top", (int,))

    top: int = Field(default=3, ge=1, le=20, description="How many features of a prediction are written.")
    of: Literal["all", "alerts"] = Field(
        default="all",
        description="`alerts`: of those predictions alone that name the class of `decision`, or of anomalies are "
        "alerts. The others have none, and are not asked about.",
    )


class CoverageSpec(Terse):
    """How often an interval or set shall hold the label. `coverage: 0.9` for `share` alone."""

    brief = ("share", (int, float))

    share: float = Field(ge=0.5, le=0.999, description="Share of the labels that shall be held, such as 0.9.")
    by: Literal["class"] | None = Field(
        default=None,
        description="`class`: that share of the labels of each class, also of a rare one "
        "([by class](intervals.md#by-class)).",
    )


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
    coverage: CoverageSpec | None = Field(
        default=None,
        description="An interval around the predicted value (`lower`, `upper`), or a set of classes (`set`), is "
        "written beside the prediction, and holds the label as often as this says ([intervals](intervals.md)).",
    )
    reasons: ReasonsSpec | None = Field(
        default=None,
        description="The features that moved a prediction most are written beside it, each with what it added "
        "([reasons](reasons.md)).",
    )
    trace: bool = Field(
        default=False,
        description="Whether a prediction has the headers `traceparent` and `tracestate` of its feature record (W3C "
        "Trace Context).",
    )
