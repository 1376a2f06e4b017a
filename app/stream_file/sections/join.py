"""The stream file's `join` section: how features wait for their labels."""

from typing import Any

from pydantic import Field, model_serializer

from riparian.app.stream_file.durations import duration, format_duration
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.sections.keys import spread_keys
from riparian.app.stream_file.sections.outputs import MATURED
from riparian.app.stream_file.sections.record import Label, check_class
from riparian.topics.records import CLASSIFICATION, NUMERIC, REGRESSION, VALUES
from riparian.topics.vocabulary import canonical

FORECASTS = ("above", "ahead", "by")  # fields of `label` that say more of `label.of`


class UnlabelledSpec(Section):
    """When an instance is learned whose label does not come; those that come before
    wait for that time."""

    is_: Label | None = Field(
        default=None, alias="is", description="Class as which it is learned. Left out: it is not learned."
    )
    after: duration("14d", 0.001) = Field(  # type: ignore[valid-type]
        description="How long after the instance, by record timestamps; at most `join.horizon`."
    )

    @model_serializer
    def plain(self) -> dict[str, Any]:
        """As a stream file has it."""
        said = {} if self.is_ is None else {"is": self.is_}
        return said | {"after": f"{self.after!r}s"}


class JoinSpec(Section):
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
        "large, and those of a worker lie in files of its `--data-dir`. A bag: 16 more, and 8 per feature of each of "
        "its instances.",
    )
    max_labels: int = Field(
        default=100_000,
        ge=1,
        le=10**12,
        description="Most labels that wait, per partition; beyond, the oldest is dropped.",
    )
    unlabelled: UnlabelledSpec | None = Field(
        default=None,
        description="When an instance is learned whose label does not come, and as which class: `{is: ok, after: "
        "14d}`. Labels that come before wait for that time; one that comes later corrects it.",
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

    @property
    def assumed(self) -> Label | None:
        """Class of an instance whose label does not come; None where it is of none."""
        return None if self.unlabelled is None else self.unlabelled.is_


def with_forecasts(data: dict[str, Any]) -> dict[str, Any]:
    """What a stream file stands for whose labels come from the stream itself: it reads none, and a key that is no
    more than a field, over whose past no feature is, need not be declared."""
    label = data.get("label")
    if not isinstance(label, dict) or label.get("of") is None:
        return data
    usual: dict[str, dict[str, Any]] = {"topics": {"labels": None}, "record": {"y": None}}
    by, features = label.get("by"), data.get("features")
    if isinstance(by, str):
        named = [one for one in features.values() if isinstance(one, dict)] if isinstance(features, dict) else []
        counted = any(by in (one.get("by"), one.get("count"), one.get("since")) for one in named)
        usual["keys"] = {} if counted or by in (data.get("keys") or {}) else {by: {"max": 1}}
    made = dict(data)
    for place, fields in usual.items():
        given = data.get(place, {})
        made |= {place: {**fields, **given}} if isinstance(given, dict) else {}
    usual_classes = label.get("above") is not None and data.get("task") == CLASSIFICATION and "classes" not in data
    return {**made, "classes": [False, True]} if usual_classes else made


def check_forecasts(spec: Any) -> None:
    """ValueError where labels are to come from the stream itself, and cannot."""
    label, given = spec.label, {name for name in FORECASTS if getattr(spec.label, name) is not None}
    if label.of is None:
        if given:
            name = min(given)
            raise ValueError(
                f"label.{name}: expected label.of beside it, the feature whose later value is the label, found none; "
                "add it, or remove the line"
            )
        return
    feature = spec.present.get(label.of)
    if feature is None or feature.past is not None or feature.type != NUMERIC:
        what = "nothing of that name" if feature is None else f"one that is {feature.type}"
        if feature is not None and feature.past is not None:
            what = "one that is over a key's past"
        raise ValueError(
            f'label.of: expected a numeric feature that records have, found "{label.of}", {what}; name another'
        )
    if label.ahead is None:
        raise ValueError("label.ahead: expected how much later the label is, such as 1h, found nothing; add it")
    if label.ahead >= spec.join.horizon:
        raise ValueError(
            f"label.ahead: expected less than join.horizon, {format_duration(spec.join.horizon)}, by which an instance "
            f"has left, found {format_duration(label.ahead)}; shorten it, or lengthen the horizon"
        )
    if spec.task not in (REGRESSION, CLASSIFICATION):
        raise ValueError(
            f"label.of: expected task regression, or classification with label.above, found task {spec.task}; change it"
        )
    if (spec.task == CLASSIFICATION) != (label.above is not None):
        raise ValueError(
            "label.above: expected a number, by which a value becomes a class, with task classification and no other, "
            f"found {'none' if label.above is None else f'{label.above:g}'} and task {spec.task}; "
            + ("add it" if label.above is None else "remove it, or change the task")
        )
    if spec.task == CLASSIFICATION and len(spec.classes or ()) != 2:
        raise ValueError(
            "classes: expected two with label.above, the second of values above it, found "
            f"{len(spec.classes or ())}; name two, or leave the line out"
        )
    if spec.topics.labels is not None or spec.record.y is not None:
        place = "topics.labels" if spec.topics.labels is not None else "record.y"
        raise ValueError(
            f"{place}: expected nothing beside label.of, since labels are later values of the stream itself, found "
            "one; remove the line, or label.of"
        )
    read = sorted(spec.label.model_fields_set & {"envelope", "id", "is_", "y", "time"})
    if read:
        raise ValueError(
            f"label.{read[0].rstrip('_')}: expected nothing beside label.of, since no label is read, found a value; "
            "remove the line"
        )
    if label.on_repeat != "ignore":
        raise ValueError("label.on_repeat: expected ignore beside label.of, since a label comes once; remove the line")
    if spec.join.unlabelled is not None:
        raise ValueError(
            "join.unlabelled: expected nothing beside label.of, whose labels come when another record does, found "
            "after; remove it, and write no longer a join.horizon than a label may take"
        )
    if spec.partitions > 1:
        if label.by is None:
            raise ValueError(
                "label.by: expected a key, since later records of a series have to come to its partition, found none "
                f"and {spec.partitions} partitions; name one, or write partitions: 1"
            )
        if label.by in spread_keys(spec):
            raise ValueError(
                f'label.by: expected a key by which the topic is partitioned, found "{label.by}", whose records would '
                f'be spread over {spec.partitions} partitions; write keys: {{{label.by}: {{from: "@key", max: '
                "1000000}} where producers key their records by it, have workers copy the topic by it "
                f"(rekey: {{features: TOPIC, by: {label.by}}}), or write partitions: 1"
            )


def check_presence(spec: Any) -> None:
    """ValueError where each record of the labels' topic is to be a label of one class, and cannot be, or nothing else
    would be learned."""
    given, other = spec.label.is_, spec.join.assumed
    if given is None:
        return
    if "y" in spec.label.model_fields_set:
        raise ValueError(
            "label.y: expected nothing beside label.is, by which every record of the topic is a label of that class, "
            "found a path; remove one of them"
        )
    if spec.task in VALUES:
        raise ValueError(
            f'label.is: expected nothing with task {spec.task}, whose labels are numbers, found "{given}"; name the '
            "field of the label by label.y, or change the task"
        )
    if spec.classes is not None:
        check_class("label.is", given, spec.classes)
    elif (long := spec.class_vocabulary().too_long(canonical(given))) is not None:
        raise ValueError(f"label.is: expected a class within max_class_bytes, found {long}; shorten it, or raise that")
    if other is None and (spec.record.y is None or "y" not in spec.record.model_fields_set):
        raise ValueError(
            "join.unlabelled: expected the class of records without a label beside label.is, since a model learns "
            "nothing of one class alone, found none; add it, such as unlabelled: {is: CLASS, after: 14d}, or name by "
            "record.y where labels of other classes are"
        )
    if other is not None and canonical(other) == canonical(given):
        raise ValueError(
            f'join.unlabelled.is: expected another class than label.is, found "{other}" for both; change one of them'
        )


def check_unlabelled(spec: Any) -> None:
    """ValueError where what has no label cannot be learned as the stream file says."""
    given = spec.join.unlabelled
    corrects = spec.label.on_repeat == "correct" or (given is not None and given.is_ is not None)
    named = next((name for name, one in spec.made.items() if one.of_labels), None)
    if corrects and spec.shares and named is not None:
        raise ValueError(
            f"features.{named}: expected learning: partition, since a correction would count there as one label more "
            "in the log that all partitions learn (join.unlabelled.is, label.on_repeat), found learning: shared; write "
            "learning: partition, or remove the feature"
        )
    if given is None:
        if spec.predictions.calibrated == MATURED:
            raise ValueError(
                "predictions.calibrated: expected true or false without join.unlabelled, since nothing matures where "
                "labels count when they come, found matured; say in join.unlabelled how long they wait, or write true"
            )
        return
    if spec.topics.labels is None and spec.record.y is None:
        raise ValueError(
            "join.unlabelled: expected labels, in topics.labels or record.y, found neither; name one, or remove "
            "join.unlabelled"
        )
    if given.after > spec.join.horizon:
        raise ValueError(
            f"join.unlabelled.after: expected at most join.horizon, {format_duration(spec.join.horizon)}, by which an "
            f"instance has left, found {format_duration(given.after)}; shorten it, or lengthen the horizon"
        )
    if given.is_ is not None:
        if spec.task in VALUES:
            raise ValueError(
                f"join.unlabelled.is: expected no class with task {spec.task}, whose labels are numbers, found "
                f'"{given.is_}"; leave it out, and after alone holds labels until then'
            )
        if spec.classes is None:
            raise ValueError(
                f'join.unlabelled.is: expected one of classes, found "{given.is_}" and no classes; name the classes'
            )
        check_class("join.unlabelled.is", given.is_, spec.classes)
        for name, feature in spec.features.items():
            if feature.share is not None and feature.half_life and feature.half_life * 10 < given.after:
                least = format_duration(given.after / 10)
                raise ValueError(
                    f"features.{name}.half_life: expected at least {least}, a tenth of join.unlabelled.after, since "
                    f"labels that old weigh next to nothing, found {format_duration(feature.half_life)}; lengthen it"
                )
