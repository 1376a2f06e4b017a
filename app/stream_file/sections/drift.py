"""What watches for concept drift, and what is done about it: `drift` of a stream file."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from riparian.app.stream_file.sections.base import Section, as_list, check_once
from riparian.app.stream_file.sections.models import OnDrift
from riparian.app.stream_file.spec_errors import found
from riparian.topics.records import MULTI_INSTANCE, NUMERIC


def drift_form(value: Any) -> Any:
    return {"detectors": []} if value == "none" else value


def _detectors_form(value: Any) -> Any:
    """One name or a list of names as a mapping to parameters."""
    names = as_list(value)
    if not isinstance(names, list):
        return {k: {} if v is None else v for k, v in value.items()} if isinstance(value, dict) else value
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"expected the name of a detector, found {found(name)}; write it as adwin or [adwin, ddm]")
    check_once(names, "detector")
    return {name: {} for name in names}


def _check_detectors(value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    from riparian.models.drift import validate

    return {name: validate(name, value[name]) for name in sorted(value)}  # a state knows them by their places


def _features_or(*words: str) -> Any:
    """The type of a field that is one of these words, or a list of features."""

    def check(value: Any) -> Any:
        if value in words:
            return value
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            expected = f"{', '.join(words)} or a list of features"
            raise ValueError(f"expected {expected}, found {found(value)}; write it as [age, income]")
        check_once(value, "feature")
        return value

    schema = {"anyOf": [{"enum": [*words]}, {"type": "array", "items": {"type": "string"}}]}
    return Annotated[Any, BeforeValidator(check), WithJsonSchema(schema)]


def _distributions_form(value: Any) -> Any:
    if isinstance(value, bool):
        return {} if value else None
    return value


class DistributionsSpec(Section):
    """Tests of how features and predictions are distributed, without labels. `distributions: true` for the
    defaults."""

    window: int = Field(
        default=1000,
        multiple_of=10,
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
    features: _features_or("all") = Field(  # type: ignore[valid-type]
        default="all",
        description="Features of any type that are tested beside the predictions: `all`, or a list of names.",
    )


class DriftSpec(Section):
    """What watches for concept drift, and what is done about it. `drift: none` for nothing."""

    detectors: Annotated[
        dict[str, dict[str, Any]], BeforeValidator(_detectors_form), AfterValidator(_check_detectors)
    ] = Field(
        default={"adwin": {}},
        description="Detectors of each model's errors: `{adwin: {delta: 0.01}, ddm: {}}`, or just names, "
        "`[adwin, ddm]`.",
    )
    features: _features_or("none", "all") = Field(  # type: ignore[valid-type]
        default="none",
        description="Numeric features that are watched as well: `none`, `all`, or a list of names.",
    )
    distributions: Annotated[DistributionsSpec | None, BeforeValidator(_distributions_form)] = Field(
        default=None,
        description="Whether features and predictions are compared with a reference, without labels: `true`, or how.",
    )
    on_drift: OnDrift = Field(
        default="alert",
        description="What is done when the errors of a model rise: `nothing` (it is only written and counted), "
        "`alert`, `reset` (the model starts from scratch) or `replace` (a fresh one learns beside it, and takes its "
        "place when it is better). A model may have an `on_drift` of its own.",
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


def check_drift(spec: Any) -> None:
    """What is watched has to be there, and to be watchable."""
    from riparian.models.drift import find

    numeric = [name for name, feature in spec.recorded.items() if feature.type == NUMERIC]
    for name in spec.drift.features if isinstance(spec.drift.features, list) else ():
        if name not in numeric:
            raise ValueError(
                f'drift.features: expected numeric features, found "{name}"; use some of {", ".join(numeric)}'
                if numeric
                else f'drift.features: expected none, as no feature is numeric, found "{name}"; remove it'
            )
    _check_distributions(spec)
    if spec.watched() and spec.drift.detectors and all(find(name).errors_only for name in spec.drift.detectors):
        raise ValueError(
            f"drift.features: expected a detector that can watch values, found {', '.join(spec.drift.detectors)}, "
            "which are about errors only; add another to drift.detectors, such as adwin"
        )


def _check_distributions(spec: Any) -> None:
    asked = spec.drift.distributions
    if asked is None:
        return
    if spec.task == MULTI_INSTANCE:
        raise ValueError(
            "drift.distributions: expected instances that are independent of each other, found bags "
            "(task: multi-instance), whose rows are not; remove it"
        )
    recorded = spec.recorded
    for name in asked.features if isinstance(asked.features, list) else ():
        if name not in recorded:
            raise ValueError(
                f'drift.distributions.features: expected features, found "{name}"; use some of {", ".join(recorded)}'
            )
