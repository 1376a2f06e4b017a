"""Where the fields of a stream's records stand, from what the stream file says of paths and envelopes."""

from collections.abc import Iterator, Mapping
from typing import Any

from riparian.app.stream_file.sections.record import KEY, OFFSET, FeatureSpec, LabelSpec, RecordSpec
from riparian.topics import codecs, records
from riparian.topics.decoding.envelopes import AROUND, CLOUDEVENTS, CONNECT, placed
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import check_path, dotted, first_conflict
from riparian.topics.names import INPUTS, LEARNED, place_field

BESIDE = (KEY, OFFSET)  # what stands beside the value of a record, or in no record


def mapping_of(spec: Any) -> records.Mapping:
    bags = spec.task == records.MULTI_INSTANCE
    record, label = _places("record", spec.record), _places("label", spec.label)
    if spec.label.is_ is not None:
        label["y"] = None
    for kind, part in (("features", spec.record), ("labels", spec.label)):
        form = getattr(spec.codec, kind)
        if part.envelope is not None and form not in codecs.ENVELOPED[part.envelope]:
            wanted = " or ".join(codecs.ENVELOPED[part.envelope])
            cure = "change one of them"
            if part.envelope == CONNECT:
                cure = "remove the envelope, since Kafka Connect writes the row alone in other formats"
            raise ValueError(
                f"codec.{kind}: expected {wanted}, since the records have an envelope, {part.envelope}, found "
                f"{form}; {cure}"
            )
    inside = () if bags else spec.record.x
    features = tuple(
        records.Feature(name, feature.type, path, feature.text and header_of(path) is None)
        for name, feature, path in _feature_paths(spec, inside)
    )
    hidden, keys = _keys(spec, inside, features)
    owners = {f"record.{field}": record[field] for field in ("id", "time", "y")}
    places = {f"features.{feature.name}": feature.path for feature in features}
    places |= {f"keys.{feature.name}": feature.path for feature in hidden}
    if bags:
        if not spec.record.x:
            raise ValueError('record.x: expected the path of the list of instances, found ""; name the field')
        for owner, path in places.items():
            if header_of(path) is not None:
                raise ValueError(
                    f'{owner}: expected a path into each instance of a bag, found "{path[0]}", which the whole '
                    "record has once; give it a path in the instance, or leave it out"
                )
        _check_owners({**owners, "record.x": record["x"]})
        _check_owners(places)
    else:
        _check_owners({**owners, **places})
    _check_owners({f"label.{field}": path for field, path in label.items()})
    return records.Mapping(
        task=spec.task,
        features=(*features, *hidden),
        keys=keys,
        n_hidden=len(hidden),
        x=record["x"] or (),
        id=None if record["id"] in BESIDE else record["id"],
        partition=0 if record["id"] == OFFSET else None,
        time=record["time"],
        y=record["y"],
        label_id=None if label["id"] == KEY else label["id"],
        label_y=label["y"] or (),
        label_is=spec.label.is_,
        label_time=label["time"],
        envelope=spec.record.envelope,
        label_envelope=spec.label.envelope,
        max_bytes=spec.record.max_bytes,
        max_instances=spec.record.max_instances,
        has_intervals=spec.predictions.coverage is not None,
        has_reasons=spec.predictions.reasons is not None,
        has_alerts=spec.has_alerts,
        has_key_features=spec.predictions.features,
        further=(
            *(place_field(log.role) for log in spec.inputs if log.role not in INPUTS),
            *(place_field(LEARNED) for _ in spec.of_all),
        ),
    )


def _feature_paths(spec: Any, inside: records.Path) -> Iterator[tuple[str, FeatureSpec, records.Path]]:
    """Each feature that records have, and where it stands; of bags, in an instance."""
    for name, feature in spec.recorded.items():
        path = feature.from_ or (*inside, name)
        if spec.task != records.MULTI_INSTANCE:
            path = _placed(f"features.{name}", path, spec.record.envelope)
        yield name, feature, path


def _keys(
    spec: Any, inside: records.Path, features: tuple[records.Feature, ...]
) -> tuple[list[records.Feature], tuple[int | None, ...]]:
    """What is read besides the features, as if it were nominal ones, since keys need it; and where each key stands
    among them all."""
    hidden, keys = list[records.Feature](), list[int | None]()
    for name, key in spec.keys.items():
        if key.from_ == KEY:
            keys.append(None)
            continue
        path = _placed(f"keys.{name}", key.from_ or (*inside, name), spec.record.envelope)
        same = [i for i, feature in enumerate(features) if feature.path == path]
        if same and features[same[0]].type != records.NOMINAL:
            raise ValueError(
                f'keys.{name}: expected a field that is no number, found "{dotted(path)}", which '
                f"features.{features[same[0]].name} reads as {features[same[0]].type}; remove that feature, or make it "
                "nominal"
            )
        if not same and name in spec.features:
            raise ValueError(
                f"keys.{name}: expected the name of no feature, or the field of that feature, found another field; "
                "rename one of them"
            )
        keys.append(same[0] if same else len(features) + len(hidden))
        if not same:
            hidden.append(records.Feature(name, records.NOMINAL, path))
    return hidden, tuple(keys)


def series_field(spec: Any) -> tuple[int, records.Path] | None:
    """Which of the keys `label.by` is, by its place, and where it stands; None where labels go by none, or by a
    feature's field."""
    if spec.label.by is None:
        return None
    mapping, i = spec.mapping(), list(spec.keys).index(spec.label.by)
    at = mapping.keys[i]
    if at is None:
        return i, KEY
    return (i, mapping.features[at].path) if at >= mapping.n_columns else None


def _placed(owner: str, path: records.Path, envelope: str | None) -> records.Path:
    try:
        return placed(path, envelope)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def _places(owner: str, part: RecordSpec | LabelSpec) -> dict[str, records.Path | None]:
    """Where each field of `record` or `label` stands, from the top of the record. An event brings its own time, and an
    id of what it is about the features of."""
    found: dict[str, records.Path | None] = {}
    for field in ("id", "time", "y", *(("x",) if isinstance(part, RecordSpec) else ())):
        path = getattr(part, field)
        own = field == "time" or (field == "id" and isinstance(part, RecordSpec))
        if part.envelope == CLOUDEVENTS and own and field not in part.model_fields_set:
            path = (f"{AROUND}{field}",)
        found[field] = path if path is None or path in BESIDE else _placed(f"{owner}.{field}", path, part.envelope)
    return found


def _check_owners(owners: Mapping[str, records.Path | None]) -> None:
    """ValueError where two fields of the stream file read places of a record that exclude each other."""
    mapped = [(owner, path) for owner, path in owners.items() if path is not None and path not in BESIDE]
    for owner, path in mapped:
        try:
            check_path(path)
        except ValueError as error:
            raise ValueError(f"{owner}: {error}") from None
    pair = first_conflict([path for _, path in mapped])
    if pair is None:
        return
    (one, path), (other, other_path) = mapped[pair[0]], mapped[pair[1]]
    if path == other_path:
        cure = "give one of them another path"
        if one == "record.y":
            cure += ", or set record.y to null"
        raise ValueError(f'{other}: expected a field of its own, found "{dotted(path)}", which {one} reads too; {cure}')
    raise ValueError(
        f'{other}: expected a path beside "{dotted(path)}", which {one} reads, found "{dotted(other_path)}"; '
        "a field holds a value or other fields, so map one of them elsewhere"
    )
