"""The stream file's `join` section: how features wait for their labels."""

from typing import Any

from pydantic import Field, model_serializer

from riparian.app.stream_file.durations import duration, format_duration
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.sections.record import Label
from riparian.topics.records import VALUES
from riparian.topics.vocabulary import canonical


class UnlabelledSpec(Section):
    """When an instance is learned whose label does not come ([late labels](late-labels.md)); those that come before
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
        "large. A bag: 16 more, and 8 per feature of each of its instances.",
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
        "14d}`. Labels that come before wait for that time; one that comes later corrects it ([late "
        "labels](late-labels.md#when-no-label-means-nothing-happened)).",
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


def check_unlabelled(spec: Any) -> None:
    """ValueError where what has no label cannot be learned as the stream file says."""
    given = spec.join.unlabelled
    corrects = spec.label.on_repeat == "correct" or (given is not None and given.is_ is not None)
    named = next((name for name, one in spec.features.items() if one.past is not None and one.of_labels), None)
    if corrects and spec.shares and named is not None:
        raise ValueError(
            f"features.{named}: expected learning: partition, since a correction would count there as one label more "
            "in the log that all partitions learn (join.unlabelled.is, label.on_repeat), found learning: shared; write "
            "learning: partition, or remove the feature"
        )
    if given is None:
        return
    if spec.topics.labels is None:
        raise ValueError(
            "join.unlabelled: expected a topic of labels, since nothing waits where labels come inside the records, "
            "found none; name topics.labels, or remove join.unlabelled"
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
        if canonical(given.is_) not in map(canonical, spec.classes):
            known = ", ".join(map(str, spec.classes))
            raise ValueError(
                f'join.unlabelled.is: expected one of classes ({known}), found "{given.is_}"; name one of them'
            )
        for name, feature in spec.features.items():
            if feature.share is not None and feature.half_life and feature.half_life * 10 < given.after:
                least = format_duration(given.after / 10)
                raise ValueError(
                    f"features.{name}.half_life: expected at least {least}, a tenth of join.unlabelled.after, since "
                    f"labels that old weigh next to nothing, found {format_duration(feature.half_life)}; lengthen it"
                )
