"""What the mistakes of a classification cost, as a stream file says it: weights of classes in learning, and how a
prediction is decided; and which scores of anomalies are alerts. Classes are known by their canonical texts, as in
`topics.vocabulary`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.spec_errors import found
from riparian.topics.records import ANOMALY, CLASSIFICATION, NUMERIC
from riparian.topics.vocabulary import canonical

ALERT_RATE = "alert_rate"
TARGETS = ("precision", "recall", ALERT_RATE)


def _text(value: Any) -> Any:
    """A class as its text: the keys of YAML may be numbers, or true."""
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"expected a class, found {found(value)}; write one as labels have it")
    return canonical(value)


def _by_class(value: Any) -> Any:
    return {_text(key): one for key, one in value.items()} if isinstance(value, dict) else value


Weights = Annotated[dict[str, Annotated[float, Field(gt=0, le=1e6)]], BeforeValidator(_by_class)]
_NUMBER, _FEATURE = "[cost]", "[feature]"  # which of both a mistake is about, as `spec_errors` leaves out
_Number = Annotated[float, Field(ge=0, le=1e9), Tag(_NUMBER)]
_Cost = Annotated[
    _Number | Annotated[str, Tag(_FEATURE)],
    Discriminator(lambda value: _FEATURE if isinstance(value, str) else _NUMBER),
]
_Row = Annotated[dict[str, _Cost], BeforeValidator(_by_class)]
_Costs = Annotated[dict[str, _Row], BeforeValidator(_by_class)]


def _share(text: str) -> Any:
    return Field(default=None, gt=0, lt=1, description=text)


class DecisionSpec(Section):
    """Which class a prediction names, by costs or by a threshold that is kept at a target. The
    probabilities stay what they are. Of the task `anomaly`, `alert_rate` alone."""

    costs: _Costs | None = Field(
        default=None,
        description="What naming a class costs by the class that is true, `{TRUE: {NAMED: COST}}`, such as "
        "`{fraud: {ok: 20}}`: the class of least expected cost is named. A mistake that is left out costs "
        "1, what is right 0. A numeric feature may stand for a cost, `{fraud: {ok: amount}}`: at most 1e9 of it "
        "counts, and 1 where it is missing, negative or infinite.",
    )
    class_: Annotated[str | None, BeforeValidator(lambda value: value if value is None else _text(value))] = Field(
        default=None, alias="class", description="The class that the target is about."
    )
    precision: float | None = _share("Share of the predictions that name the class which shall be right.")
    recall: float | None = _share("Share of the labels of the class that it shall have been named for.")
    alert_rate: float | None = Field(
        default=None,
        ge=0.0001,
        le=0.5,
        description="Share of all predictions that shall name the class, or of anomalies, be alerts.",
    )

    @model_validator(mode="after")
    def _check(self) -> "DecisionSpec":
        given = [name for name in ("costs", *TARGETS) if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"expected one of costs, {', '.join(TARGETS)}, found {' and '.join(given) or 'none'}; write one"
            )
        if self.costs is not None and self.class_ is not None:
            raise ValueError(
                f'expected costs alone, since they name their classes, found class "{self.class_}"; remove it'
            )
        return self

    @property
    def target(self) -> tuple[str, float] | None:
        """Its name, and what it shall be; None with costs."""
        return next(((name, getattr(self, name)) for name in TARGETS if getattr(self, name) is not None), None)

    def plain(self) -> dict[str, Any]:
        """What was said, as plain values."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def amount_in(costs: Mapping[str, Mapping[str, float | str]] | None) -> str | None:
    """The feature that stands in place of costs."""
    return next((cost for row in (costs or {}).values() for cost in row.values() if isinstance(cost, str)), None)


def same_target(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether what a threshold has learned is about the same target and class. was, now : `DecisionSpec.plain`, or
    nothing."""

    def about(one: Mapping[str, Any] | None) -> tuple[Any, set[str]] | None:
        return None if one is None else (one.get("class"), set(one))

    return about(was) == about(now)


def same_losses(was: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> bool:
    """Whether models are compared by the same losses as before. was, now : `DecisionSpec.plain`, or nothing."""
    return same_target(was, now) and (was or {}).get("costs") == (now or {}).get("costs")


def check_decision(spec: Any) -> None:
    """Weights and decisions that fit the rest of a stream file."""
    asked = {"class_weights": spec.class_weights, "decision": spec.decision}
    given = {place: part for place, part in asked.items() if part is not None}
    if not given:
        return
    if spec.task == ANOMALY and spec.decision is not None and spec.class_weights is None:
        _check_alerts(spec.decision)
        return
    if spec.task != CLASSIFICATION:
        raise ValueError(
            f'{next(iter(given))}: expected only with task classification, found task "{spec.task}"; remove it'
        )
    if spec.decision is not None and spec.decision.target is not None and spec.decision.class_ is None:
        name = spec.decision.target[0]
        raise ValueError(f"decision: expected the class that {name} is about, found none; name it at class")
    _check_amount(spec)
    if spec.class_weights and spec.decision is not None and spec.decision.costs is not None:
        raise ValueError(
            "class_weights: expected these or decision.costs, since a mistake would count twice, found both; remove one"
        )
    if spec.classes is None:
        return
    known = [canonical(value) for value in spec.classes]
    for place, text in _named(spec):
        if text not in known:
            raise ValueError(f'{place}: expected one of the classes, found "{text}"; use {", ".join(known)}')


def _check_amount(spec: Any) -> None:
    """Of costs that stand in records."""
    costs = {} if spec.decision is None or spec.decision.costs is None else spec.decision.costs
    asked = [(f"{t}.{n}", cost) for t, row in costs.items() for n, cost in row.items() if isinstance(cost, str)]
    for place, name in asked:
        known = [one for one, feature in spec.present.items() if feature.type == NUMERIC]
        if name not in known:
            found = f'"{name}"' + (f", which is {spec.present[name].type}" if name in spec.present else "")
            cure = f"use {', '.join(known)}" if known else "write a number"
            if _is_number(name):
                cure = "write digits, without quotes"
            raise ValueError(
                f"decision.costs.{place}: expected a number of at least 0, or a numeric feature, found {found}; {cure}"
            )
        if name != asked[0][1]:
            raise ValueError(
                f'decision.costs.{place}: expected one feature in all costs, "{asked[0][1]}", found "{name}"; name one'
            )


def _is_number(text: str) -> bool:
    """Whether a text looks like one, also one that YAML or JSON cannot have: "-1", ".inf"."""
    try:
        float(text.lstrip("+-."))
    except ValueError:
        return False
    return True


def _check_alerts(decision: DecisionSpec) -> None:
    """Of scores of anomalies."""
    given = "costs" if decision.target is None else decision.target[0]
    if given != ALERT_RATE:
        raise ValueError(
            f"decision.{given}: expected {ALERT_RATE} with task {ANOMALY}, whose labels may never come, found {given}; "
            f"write decision: {{{ALERT_RATE}: 0.01}}"
        )
    if decision.class_ is not None:
        raise ValueError(
            f"decision.class: expected none with task {ANOMALY}, whose scores are decided and no classes, found "
            f'"{decision.class_}"; remove it'
        )


def _named(spec: Any) -> Iterator[tuple[str, str]]:
    """Each class that is named, with its place."""
    for text in spec.class_weights or ():
        yield f"class_weights.{text}", text
    if spec.decision is None:
        return
    if spec.decision.class_ is not None:
        yield "decision.class", spec.decision.class_
    costs: Mapping[str, Mapping[str, float | str]] = spec.decision.costs or {}
    for true, row in costs.items():
        yield f"decision.costs.{true}", true
        for named in row:
            yield f"decision.costs.{true}.{named}", named
