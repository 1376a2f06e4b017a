"""The stream file's `predictions`, `metrics` and `checkpoint` sections: what is written, and how often."""

import math
from typing import Any, Literal

from pydantic import Field

from riparian.app.stream_file.durations import duration
from riparian.app.stream_file.sections.base import Section, Terse, check_once
from riparian.topics.records import ANOMALY, MULTI_INSTANCE, NUMERIC

MATURED = "matured"  # of `calibrated`
MOST_SEGMENTS = 4
MOST_WINDOW = 10_000_000
MANY = 100  # labels of a class that a share of it is better judged by


class CheckpointSpec(Section):
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


class MetricsSpec(Section):
    """How quality is reported."""

    every: duration("5s", 0.1) = Field(default="5s", description="Time between two metrics records.")  # type: ignore[valid-type]
    window: int = Field(
        default=1000, ge=1, le=MOST_WINDOW, description="Labels in the sliding window of the recent metrics."
    )
    fading: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="Factor by which the past fades at each label, such as 0.999, instead of the window.",
    )
    segments: list[str] = Field(
        default=[],
        description="Nominal or boolean features, four at most, by whose values quality is kept, too.",
    )


def long_enough(share: float) -> int:
    """Labels in a window of which some hundred are of a class, where it has this share: of one digit, rounded up.

    >>> long_enough(0.012)
    9000
    """
    wanted = MANY / max(share, MANY / MOST_WINDOW)
    power = 10.0 ** math.floor(math.log10(wanted))
    return int(power * math.ceil(wanted / power))


def check_segments(spec: Any) -> None:
    """Features of few values, and labels."""
    asked, place, features = spec.metrics.segments, "metrics.segments", spec.features
    if not asked:
        return
    check_once(asked, f"feature of {place}")
    if len(asked) > MOST_SEGMENTS:
        raise ValueError(
            f"{place}: expected at most {MOST_SEGMENTS} features, found {len(asked)}; name those that matter most"
        )
    for name in asked:
        if name not in features:
            raise ValueError(f'{place}: expected features, found "{name}"; use some of {", ".join(features)}')
        if features[name].type == NUMERIC:
            raise ValueError(
                f'{place}: expected nominal or boolean features, found "{name}", which is numeric; have the producer '
                f"send a nominal one of few values, such as a band of {name}, or remove it"
            )
    if spec.task == MULTI_INSTANCE:
        raise ValueError(f"{place}: expected none of bags, which have several values each, found {asked[0]}; remove it")
    if spec.task == ANOMALY and not (spec.has_alerts and spec.has_labels):
        raise ValueError(
            f"{place}: expected labels and decision with task anomaly, since a score alone is neither right nor wrong, "
            f"found {asked[0]}; write decision: {{alert_rate: 0.01}} and name the labels, or remove it"
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
        description="`class`: that share of the labels of each class, also of a rare one.",
    )


class PredictionsSpec(Section):
    """What a prediction record holds."""

    challengers: bool = Field(
        default=False, description="Whether predictions of challengers are written beside the champion's."
    )
    probabilities: bool = Field(default=True, description="Whether the probabilities of the classes are written.")
    calibrated: bool | Literal["matured"] = Field(
        default=False,
        description="Whether the probabilities are scaled, as labels come, so that they mean what they say. `matured`: "
        "shifted instead, to the shares among records that matured.",
    )
    coverage: CoverageSpec | None = Field(
        default=None,
        description="An interval around the predicted value (`lower`, `upper`), or a set of classes (`set`), is "
        "written beside the prediction, and holds the label as often as this says.",
    )
    reasons: ReasonsSpec | None = Field(
        default=None,
        description="The features that moved a prediction most are written beside it, each with what it added.",
    )
    features: bool = Field(
        default=False,
        description="Whether the features over a key's past that an instance was predicted with are written, too.",
    )
    trace: bool = Field(
        default=False,
        description="Whether a prediction has the headers `traceparent` and `tracestate` of its feature record (W3C "
        "Trace Context).",
    )
