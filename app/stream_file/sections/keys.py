"""What is known of a record's keys: `keys` of a stream file, and the features over their past."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_serializer, model_validator

from riparian.app.stream_file.durations import duration, format_duration
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.sections.learning import PARTITION, SHARED
from riparian.app.stream_file.sections.record import KEY, LABEL, FeatureSpec, KeyPath, check_class
from riparian.topics.decoding.paths import dotted
from riparian.topics.records import BOOLEAN, CLASSIFICATION, MULTI_INSTANCE, NUMERIC

KEY_BYTES = 142  # of a key without its aggregates: entry with its hash, slots, queue, times
COLUMN_BYTES = 8  # of each number that is kept of one
WRITTEN_BYTES = 104  # of one whose labels stand apart, in segments of checkpoints: up to twice what these have of it
FOLD_BYTES = 1_600_000  # at most, of what happens in one step: two events for each record, and one for each label
WIDTHS = {"count": 2, "mean": 3, "last": 1, "since": 0, "share": 3}  # numbers that an aggregate keeps of a key


def _check_hash(value: bool) -> bool:
    if not value:
        raise ValueError("expected true, since no key stands in the state as it is, found false; remove the line")
    return value


class KeySpec(Section):
    """What records have in common that are of one card, device or user: features may be over its past."""

    from_: KeyPath | None = Field(
        default=None,
        alias="from",
        description="Path of the key, a text or a number, from the top of the record; `@key` for the Kafka key. "
        "Default: its name, inside `record.x`.",
    )
    max: int = Field(
        ge=1,
        le=100_000_000,
        description="Most keys that are known, per partition; beyond, the one that was idle longest goes.",
    )
    idle: duration("90d", 1.0) | None = Field(  # type: ignore[valid-type]
        default=None, description="How long a key may be idle, by record timestamps, before it is new again."
    )
    hash: Annotated[bool, AfterValidator(_check_hash)] = Field(
        default=True,
        description="Keys stand in the state as hashes of 128 bits, never as they are: always true.",
    )

    @field_serializer("idle")
    def _idle(self, seconds: float | None) -> str | None:
        """A duration in the stream file's form."""
        return None if seconds is None else format_duration(seconds)

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "max_bytes" in value:
            raise ValueError(
                "expected max, the most keys that are known, which bounds their bytes, too (riparian check says how "
                "many); write {max: 1_000_000}"
            )
        if "max" not in value:
            raise ValueError(
                f"expected max, the most keys that are known, found none; add it: 1,000,000 take {KEY_BYTES} MB a "
                f"partition, and {COLUMN_BYTES} more for each number that an aggregate keeps, which are up to three"
            )
        return value


def check_keys(spec: Any) -> None:
    """ValueError where keys, or the features over their past, cannot be."""
    _check_by(spec)
    made = spec.made
    if not made and spec.predictions.features:
        raise ValueError(
            "predictions.features: expected features over a key's past, which are written then, found none; add one, "
            "or remove the line"
        )
    if not made and not spec.keys:
        return
    if not spec.recorded:
        raise ValueError(
            "features: expected at least one that records have, found none but those over a key's past; add one"
        )
    asked = {feature.key for feature in made.values()}
    for name, feature in made.items():
        _check_feature(spec, name, feature)
    for name in spec.keys:
        if "/" in name or not name:
            raise ValueError(f'keys: expected names without "/", found "{name}"; rename it')
        if name not in asked and name != spec.label.by:
            raise ValueError(
                f"keys.{name}: expected a feature over its past, found none, so nothing would be kept; add one such as "
                f"{name}_count: {{count: {name}, half_life: 7d}}, or remove the key"
            )
    if spec.task == MULTI_INSTANCE:
        raise ValueError("keys: expected none with bags, whose records have many instances, found some; remove them")
    by = None if spec.rekey is None else spec.rekey.by
    spread = spread_keys(spec)
    if spec.partitions > 1:
        for name in spec.keys:
            of_records = next((n for n, one in made.items() if one.key == name and not one.of_labels), None)
            if name not in asked or (spec.shares and of_records is None):
                continue  # labels come to all partitions; those of label.by are checked there
            if name in spread:
                without = (
                    f"remove features.{of_records} and others over its records, since aggregates of labels are known "
                    "everywhere (share)"
                )
                alone = "or, of aggregates of labels alone (share), write learning: shared"
                cure = {SHARED: without, PARTITION: alone}[spec.learning.kind]
                raise ValueError(
                    f"keys.{name}: expected partitions: 1, since the records of one {name} would be spread over "
                    f"{spec.partitions} partitions, found partitions: {spec.partitions}; lower it, have workers copy "
                    f"the topics by this key alone (rekey.by), or let producers of features and labels key their "
                    f'records by it, and write from: "@key"; {cure}'
                )
            for role, part, path in (("features", "record", spec.record.id), ("labels", "label", spec.label.id)):
                if by is None and role in spec.copied and path != KEY:
                    raise ValueError(
                        f'keys.{name}: expected {part}.id: "@key", since rekey.{role} copies each record to the '
                        f'partition of its id, found "{dotted(path)}"; write so where the key is the id, or remove '
                        f"rekey.{role}, or give keys.{name} a path and name it as rekey.by"
                    )


def spread_keys(spec: Any) -> list[str]:
    """The keys whose records come to more than one partition."""
    by = None if spec.rekey is None else spec.rekey.by
    if spec.partitions == 1:
        return []
    return [name for name, key in spec.keys.items() if (name != by if by is not None else key.from_ != KEY)]


def _check_by(spec: Any) -> None:
    by = None if spec.rekey is None else spec.rekey.by
    if by is None:
        return
    if by not in spec.keys:
        known = ", ".join(spec.keys) or "none"
        raise ValueError(f'rekey.by: expected one of keys ({known}), found "{by}"; name one, or remove the line')
    if spec.keys[by].from_ == KEY:
        raise ValueError(
            'rekey.by: expected a key that stands in the record, found one from "@key"; key the topics by it, or give '
            f"keys.{by} a path"
        )
    for role in ("features", *(["labels"] if spec.topics.labels is not None else [])):
        if role not in spec.copied:
            raise ValueError(
                f"rekey.{role}: expected a topic, since rekey.by says to which partitions its records go, found none; "
                "name it, or remove rekey.by"
            )


def _check_feature(spec: Any, name: str, feature: FeatureSpec) -> None:
    where, kind = f"features.{name}", str(feature.past)
    if kind == "ratio":
        for field, other in (("ratio", feature.ratio), ("to", feature.to)):
            one = spec.present.get(str(other))
            if one is None:
                raise ValueError(f'{where}.{field}: expected a feature, found "{other}"; name one')
            if one.past == "ratio":
                raise ValueError(
                    f'{where}.{field}: expected a feature that is no ratio itself, found "{other}"; name what that is '
                    "a ratio of"
                )
            if one.type not in (NUMERIC, BOOLEAN):
                raise ValueError(
                    f'{where}.{field}: expected a number, found "{other}", which is {one.type}; name another feature'
                )
        return
    if feature.key not in spec.keys:
        known = ", ".join(spec.keys) or "none"
        field = kind if feature.by is None else "by"
        raise ValueError(
            f'{where}.{field}: expected one of keys ({known}), found "{feature.key}"; add it to keys, with from and max'
        )
    value: Any = getattr(feature, kind)
    if kind == "share":
        if spec.task != CLASSIFICATION or spec.classes is None:
            task = f'task "{spec.task}"' if spec.task != CLASSIFICATION else "no classes"
            cure = "write mean: label for the mean of the labels" if spec.task != CLASSIFICATION else "name the classes"
            raise ValueError(f"{where}.share: expected one of classes, found {task}; {cure}")
        check_class(f"{where}.share", value, spec.classes)
    if kind in ("mean", "last"):
        if value == LABEL:
            if spec.task == CLASSIFICATION:
                raise ValueError(
                    f"{where}.{kind}: expected a feature, since labels are classes, found label; write share: CLASS"
                )
            return
        found = spec.present.get(value)
        if found is None or found.past is not None or found.type not in (NUMERIC, BOOLEAN):
            what = "nothing of that name"
            if found is not None:
                what = f"one that is {found.type}" if found.past is None else "one that is over a key's past itself"
            raise ValueError(
                f'{where}.{kind}: expected a feature that records have, and a number, found "{value}", {what}; name '
                "another"
            )


def labelled_keys(features: Mapping[str, FeatureSpec]) -> list[str]:
    """The keys that labels count for, or did once, by name: a state has hashes of them in this order. A waiting
    instance keeps its time, and a hash of each of them. features : all columns."""
    return sorted({str(one.key) for one in features.values() if one.past is not None and one.of_labels})


def past_width(spec: Any) -> int:
    """How many numbers of 8 bytes that are."""
    labelled = labelled_keys(spec.features)
    return 1 + 2 * len(labelled) if labelled else 0


def key_bytes(spec: Any, name: str) -> int:
    """Bytes that a key's past takes at most, per partition. Aggregates of labels stand apart where all partitions share
    it, once a worker."""
    found = [one for one in spec.made.values() if one.key == name]
    apart = {SHARED: [one for one in found if one.of_labels], PARTITION: []}[spec.learning.kind]
    width = COLUMN_BYTES * sum(WIDTHS[str(one.past)] for one in (*found, *apart, *apart))
    n = 1 + (0 < len(apart) < len(found))
    return int(spec.keys[name].max * (n * KEY_BYTES + WRITTEN_BYTES * bool(apart) + width) + n * FOLD_BYTES)


def memory_sentence(spec: Any, name: str) -> str:
    """A sentence on the memory that a key takes."""
    n = sum(one.key == name for one in spec.made.values())
    return (
        f"{spec.keys[name].max:,} of {name} x {n} aggregate{'s'[: n != 1]}: {key_bytes(spec, name) / 1e6:,.0f} MB a "
        "partition"
    )
