"""A draft that takes the records it was made from: they are decoded by the draft itself, and what it rejects is changed
or left out, with the reason."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from riparian.app.dataset.files.data import BLOCK, MOST_NOMINAL, DataFile
from riparian.app.dataset.guessing.envelopes import inside, unwrapped
from riparian.app.dataset.guessing.from_file import FEW, check_left
from riparian.app.dataset.guessing.from_topic import RARE, TopicSample, of_records
from riparian.app.dataset.instances import InstanceReader, Rejections
from riparian.app.errors import DataError
from riparian.app.stream_file.draft import Draft, DraftFeature, most_values, write
from riparian.app.stream_file.spec import Spec
from riparian.topics.formats.json.codec import JsonCodec
from riparian.topics.records import (
    CLASSIFICATION,
    NOMINAL,
    NOMINAL_OVERFLOW,
    TOO_LARGE,
    TOO_LONG,
    UNKNOWN_VALUE,
    WRONG_LABEL,
    WRONG_TIME,
    Mapping,
    RawBatch,
    Rejected,
    rejections,
)
from riparian.topics.vocabulary import Vocabulary

OF_LABELS = (WRONG_LABEL, UNKNOWN_VALUE, NOMINAL_OVERFLOW, TOO_LONG)


def of_topics(features: TopicSample, labels: TopicSample | None, **known: Any) -> Draft:
    """A draft for topics, whatever their envelopes. The rest as in `app.dataset.guessing.from_topic.of_records`; fields
    may be named from the top of the record, too."""
    rows, of_labels = unwrapped(features), None if labels is None else unwrapped(labels)
    if "label" in known:
        known["label"] = inside(known["label"], rows if of_labels is None else of_labels)
    if known.get("id_") is not None:
        ours, equals, theirs = known["id_"].partition("=")
        known["id_"] = f"{inside(ours, rows)}{equals}{theirs if of_labels is None else inside(theirs, of_labels)}"
    for key in ("nominal", "ignore"):
        known[key] = [inside(one, rows) for one in known.get(key, ())]
    return fitted(of_records(rows, of_labels, **known), rows, of_labels)


def of_rows(draft: Draft, file: DataFile) -> Draft:
    """A draft for a file, with room for records of its rows. What else of the first rows it rejects is noted."""
    for _ in range(2):
        spec = write(draft)[1]
        rejections, reader = Rejections(), InstanceReader(file, spec, draft.label)
        for rows in reader.read(BLOCK, BLOCK):
            rejections.add(rows)
        if reader.form.largest <= spec.record.max_bytes:
            break
        draft = draft._replace(record={**draft.record, "max_bytes": room(reader.form.largest)})
    found = rejections.result().get("rejections", ())
    notes = [f"{one['n']:,} {one['of']} would be rejected: {one['reason']} ({one['detail']})" for one in found]
    return draft._replace(hints=[*draft.hints, *notes])


def fitted(draft: Draft, features: TopicSample, labels: TopicSample | None) -> Draft:
    """The draft, changed where it rejects records of these samples.

    Raises
    ------
    DataError
        It takes none of the labels, or no feature is left.
    """
    batch = _batch(features)
    for _ in range(3):  # the size of records, their time, and features
        spec = write(draft)[1]
        rejected = _rejected(spec.mapping(), spec, batch)
        if not rejected:
            break
        draft = _mended(draft, spec, batch, rejected, features.topic)
    spec = write(draft)[1]
    notes = rejections(_rejected(spec.mapping(), spec, batch), len(batch), features.topic)
    if labels is not None:
        of_labels = _batch(labels)
        wrong = _counting(spec.make_codec().decode_labels(of_labels, spec.class_vocabulary()).rejected)
        _check_labels(draft, wrong, len(of_labels), labels.topic)
        notes += rejections(wrong, len(of_labels), labels.topic)
    return draft._replace(hints=[*draft.hints, *notes])


def _mended(draft: Draft, spec: Spec, batch: RawBatch, rejected: Sequence[Rejected], topic: str) -> Draft:
    mapping = spec.mapping()
    sizes = [len(batch.values[one.position] or b"") for one in rejected if one.reason == TOO_LARGE]
    if sizes:
        return draft._replace(record={**draft.record, "max_bytes": room(max(sizes))})
    base = _rejected(replace(mapping, features=(), n_hidden=0), spec, batch)
    if RARE * sum(one.reason == WRONG_TIME for one in base) > len(batch):
        return draft._replace(record={key: path for key, path in draft.record.items() if key != "time"})
    if mapping.y is not None:
        _check_labels(draft, [one for one in base if one.reason in OF_LABELS], len(batch), topic)
    known = {one.position for one in base}
    kept = {feature.name: feature for feature in mapping.features}
    changed = [
        feature if feature.dropped else _fitting(feature, kept[feature.name], spec, batch, known)
        for feature in draft.features
    ]
    check_left(changed, draft.label, f"topic {topic}")
    return draft._replace(features=changed)


def _fitting(feature: DraftFeature, mapped: Any, spec: Spec, batch: RawBatch, known: set[int]) -> DraftFeature:
    """A feature of a type that takes what stands there, or left out."""
    mapping = replace(spec.mapping(), features=(mapped,), n_hidden=0)
    wrong = [one for one in _rejected(mapping, spec, batch) if one.position not in known]
    if not wrong:
        return feature
    values = Vocabulary(MOST_NOMINAL)
    nominal = replace(mapping, features=(mapped._replace(type=NOMINAL, in_text=False),))
    still = [one for one in _rejected(nominal, spec, batch, values) if one.position not in known]
    if feature.type != NOMINAL and not still and len(values) <= FEW:
        few = most_values(len(values))
        return feature._replace(type=NOMINAL, remark="texts stand for its values", max_values=few, in_text=False)
    if len(wrong) * RARE <= len(batch):
        return feature
    remark = f"left out: {len(wrong):,} of {len(batch):,} records would be rejected by it: {wrong[0].detail}"
    return feature._replace(dropped=True, remark=remark)


def _check_labels(draft: Draft, wrong: Sequence[Rejected], n: int, topic: str) -> None:
    if 2 * len(wrong) > n:
        cure = "name another --label" if draft.task == CLASSIFICATION else "say --task classification, or name another"
        raise DataError(
            f"{len(wrong):,} of {n:,} records of {topic} have a label that is none of a {draft.task} "
            f"({wrong[0].detail}): {cure}"
        )


def room(n_bytes: int) -> int:
    """`max_bytes` for records of which the largest that was seen has so many: twice as many, as a power of two."""
    return int(min(1 << (2 * n_bytes - 1).bit_length(), 104_857_600))


def _batch(topic: TopicSample) -> RawBatch:
    records = topic.messages
    n = len(records)
    keys = [None if one.key is None else one.key.encode() for one in records]
    headers = [one.headers for one in records]
    return RawBatch(list(range(n)), [one.time or 0 for one in records], keys, [one.raw() for one in records], headers)


def _rejected(mapping: Mapping, spec: Spec, batch: RawBatch, values: Vocabulary | None = None) -> list[Rejected]:
    """values : of the only feature."""
    declared = dict(zip(spec.features, spec.vocabularies(), strict=True))
    recorded = mapping.features[: mapping.n_columns]
    mapping = replace(mapping, features=recorded, keys=(), n_hidden=0)  # what is read for keys alone
    vocabularies = [declared[one.name] if values is None else values for one in recorded]
    return _counting(JsonCodec(mapping).decode_features(batch, vocabularies, spec.class_vocabulary()).rejected)


def _counting(rejected: Sequence[Rejected]) -> list[Rejected]:
    return [one for one in rejected if not one.ignored]
