"""What a changed stream file means for a state that was made with an earlier one. Pure.

A checkpoint holds the models with their parameters and the `settings` that a fold depends on. At a start these are
compared with the stream file: what is equal is carried over, a challenger that is not equal is restarted or dropped,
and what would give the state another meaning is refused. A model is known by its name and parameters, not by its role,
so a stream file in which champion and challenger have changed places goes on with both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from riparian.app.stream_file.columns import digest_of, of_state, unfit
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.lineup import place_of
from riparian.app.stream_file.sections.decision import same_losses, same_target
from riparian.app.stream_file.sections.learning import PARTITION, SHARED
from riparian.app.stream_file.spec import Spec
from riparian.models.contract import Schema
from riparian.models.drift import DETECTORS as KNOWN
from riparian.models.drift import find
from riparian.models.registry import REGISTRY, exchanged
from riparian.topics.names import CHAMPION
from riparian.topics.records import CLASSIFICATION, NOMINAL, REGRESSION
from riparian.topics.vocabulary import Scalar, canonical

CARRIED = "carried over"
RESTARTED = "restarted"
DROPPED = "dropped"
REFUSED = "refused"

DETECTORS = "drift.detectors"  # the place of what watches for drift; events know it by this

DISTRIBUTIONS = "drift.distributions"
LEARNING = "learning"
ARITHMETIC = "arithmetic"  # 1: of C's library; 2: of models/kernels/elementary.py
LATEST_ARITHMETIC = 2
DECISION, CLASS_WEIGHTS = "decision", "class_weights"
UNLABELLED, ON_REPEAT = "join.unlabelled", "label.on_repeat"
SEGMENTS = "metrics.segments"
PRESENCE = "label.is"
FORECASTS = ("label.of", "label.ahead", "label.by", "label.above")

LATER = (
    "predictions.coverage",
    "predictions.calibrated",
    "predictions.reasons",
    "predictions.features",
    DECISION,
    CLASS_WEIGHTS,
    UNLABELLED,
    ON_REPEAT,
    PRESENCE,
    SEGMENTS,
    *FORECASTS,
)  # noted only where the stream file asks for them
NEW_FILE = "; a stream file with other models counts from then on"
OTHER_FILE = "; one in which these are edited counts from then on"
NEXT = "auto is another {} now: to get it, name it as a challenger, and as the champion once it is better"
BY_APPLY = "; riparian apply makes it count"
SEEN = "features.*"  # the place of features that a command may add and drop
BY_COMMAND = (
    "restore them in the stream file and start the workers, then riparian apply changes features while they run "
    "(control: true), or give the stream a new name to start afresh"
)
CURE = "restore it in the stream file, or give the stream a new name to start afresh"
RELEARNED = (
    ": records that wait would be learned a second time, or count as what they were not learned as; restore it in the "
    "stream file, or begin a stream of a new name with what was learned (riparian import --models-only)"
)

Model = tuple[str, dict[str, Any]]  # a learner's name and all its parameters


class Change(NamedTuple):
    """One thing that is not as it was. what : its place in the stream file. sentence : for people."""

    what: str
    fate: str
    sentence: str


class Changes(NamedTuple):
    """What becomes of a state.

    found : nothing where the stream file is as it was. takes : role of a model -> role that its model had in the state;
    None for one that starts afresh. steered : a sentence where commands have left other models than the stream file's.
    kept : a sentence where the state's champion is what `auto` was, and not what it is.
    other_features : whether the stream file names others than the state goes on with, or would refuse.
    keyed : whether the stream file or the state has keys.
    """

    found: list[Change]
    takes: dict[str, str | None]
    steered: str | None = None
    kept: str | None = None
    other_features: bool = False
    keyed: bool = True

    @property
    def refused(self) -> list[str]:
        """Sentences; a state with any of them cannot be used."""
        return [change.sentence for change in self.found if change.fate == REFUSED]


def next_origin(meta: Mapping[str, Any]) -> list[int]:
    """The origin (see `PartitionLearner`) of a state that is not the fold of the records before it any more."""
    before = meta.get("origin")
    return [meta["feature_offset"], meta["label_offset"], 1 if before is None else before[2] + 1]


def settings(spec: Spec) -> dict[str, Any]:
    """What the fold and its predictions depend on besides the models and the values known: place -> plain value."""
    found: dict[str, Any] = {"task": spec.task, "codec": spec.codec.plain(), "seed": spec.seed, "control": spec.control}
    found[ARITHMETIC] = LATEST_ARITHMETIC
    for place, part in (("record", spec.record), ("label", spec.label), ("predictions", spec.predictions)):
        found |= {f"{place}.{field}": value for field, value in part.model_dump(mode="json", by_alias=True).items()}
    found[PRESENCE] = None
    if spec.label.is_ is not None:
        found[PRESENCE] = canonical(spec.label.is_)
        del found["label.y"]  # read of no record
    found[DECISION] = None if spec.decision is None else spec.decision.plain()
    found[CLASS_WEIGHTS] = spec.class_weights
    found[UNLABELLED] = None if spec.join.unlabelled is None else spec.join.unlabelled.plain()
    found[SEGMENTS] = list(spec.metrics.segments)
    if found[ON_REPEAT] == "ignore":
        found[ON_REPEAT] = None
    for place in LATER:
        if not found[place] and not isinstance(found[place], float):  # a class may begin at 0.0
            del found[place]
    bounds = ("horizon", "max_pending", "max_pending_bytes", "max_labels")
    found |= {f"join.{field}": getattr(spec.join, field) for field in bounds}
    found |= {f"metrics.{field}": getattr(spec.metrics, field) for field in ("window", "fading")}
    found[DETECTORS] = spec.drift.detectors
    if spec.drift.detectors:
        found["drift.features"] = list(spec.watched())
        found |= {f"drift.{field}": getattr(spec.drift, field) for field in ("on_drift", "window", "patience")}
        overridden = {CHAMPION: spec.champion, **spec.challengers}
        found |= {f"{place_of(role)}.on_drift": m.on_drift for role, m in overridden.items() if m.on_drift is not None}
    if spec.drift.distributions is not None:
        found[DISTRIBUTIONS] = spec.drift.distributions.model_dump(mode="json") | {"features": list(spec.distributed())}
    if spec.promotion is not None:
        found |= {f"promotion.{field}": value for field, value in spec.promotion.model_dump(mode="json").items()}
    found |= {SHARED: {LEARNING: SHARED}, PARTITION: {}}[spec.learning.kind]
    for name, key in spec.keys.items():
        found |= {f"keys.{name}.max": key.max, f"keys.{name}.idle": key.idle}
        found[f"keys.{name}.from"] = None if key.from_ is None else [str(part) for part in key.from_]
    for name, feature in spec.features.items():
        if feature.past is not None:
            found[f"features.{name}"] = feature.written()
        if feature.from_ is not None:
            found[f"features.{name}.from"] = [str(part) for part in feature.from_]  # as in JSON, a place in a list, too
        if feature.text:
            found[f"features.{name}.text"] = True
        if feature.type == NOMINAL:
            found[f"features.{name}.max_values"] = None if feature.values is not None else feature.max_values
    if spec.task == CLASSIFICATION:
        found["max_classes"] = None if spec.classes is not None else spec.max_classes
        found["max_class_bytes"] = None if spec.classes is not None else spec.max_class_bytes
    return found


def differing(spec: Spec, other: Spec) -> dict[str, Any]:
    """Places of settings in which another file differs from this one, with its values; not those of single models."""
    was, now = settings(spec), settings(other)
    places = [*now, *(place for place in was if place not in now)]
    return {
        place: now.get(place)
        for place in places
        if was.get(place) != now.get(place) and not (place.endswith(".on_drift") and place != "drift.on_drift")
    }


def reconcile(
    spec: Spec,
    meta: Mapping[str, Any],
    vocabularies: Sequence[Sequence[Scalar] | None],
    topics: Mapping[str, str] | None = None,
) -> Changes:
    """Hold a state against the stream file.

    Parameters
    ----------
    meta : mapping
        Of its snapshot: models, classes, and (since format 2) settings, features, topics.
    vocabularies : for each feature the values known, in order of their codes; None for a numeric one.
    topics : mapping of str to str, optional
        The stream's `input_topics`, where the state must have been made with these.
    """
    declared, spec = spec, spec.adopting(meta)
    steered, kept, runs = [], None, spec.control and spec.runs_by(meta) is not None
    if runs and spec.models() != declared.models():
        now = ", ".join(f"{role} {name}" for role, (name, _) in spec.models().items())
        steered.append(f"the state goes on with its models ({now}), and not the stream file's{BY_APPLY}")
    elif spec is not declared and spec.models() != declared.models() and not spec.is_steered:
        was, now = spec.models()[CHAMPION][0], declared.models()[CHAMPION][0]
        kept = f"{CHAMPION}: the state goes on with the {was} that auto was when it began; {NEXT.format(now)}"
    elif spec is not declared and spec.models() != declared.models():
        now = ", ".join(f"{role} {name}" for role, (name, _) in spec.models().items())
        steered.append(f"the models are those that commands have left ({now}), and not the stream file's{NEW_FILE}")
    if other := {place: value for place, value in differing(declared, spec).items() if not _of_a_feature(place)}:
        places = ", ".join(f"{place} {_value(place, value)}" for place, value in other.items())
        stays = f"the state goes on with {places}" if runs else f"an applied file has left {places}"
        steered.append(f"{stays}, and the stream file says otherwise{BY_APPLY if runs else OTHER_FILE}")
    found = [*_topics(meta, topics or {}), *_task(spec, meta), *_learning(spec, meta)]
    arithmetic = _arithmetic(spec, meta)
    found += [change for change in arithmetic if change.fate == REFUSED]
    if found:
        return Changes(found, {})
    found, others = _features(spec, meta, vocabularies), digest_of(spec.present) != digest_of(declared.features)
    if found and found[0].what != SEEN:
        return Changes(found, {})
    if found:  # say what else would change with them
        others, spec = True, spec.with_columns(*of_state(spec, _columns(meta)))
        fresh = spec.vocabularies()[len(vocabularies) :]
        vocabularies = [*vocabularies, *(None if v is None else v.state() for v in fresh)]
    elif others:
        there = ", ".join(spec.present)
        goes_on_with = "the state goes on with" if runs else "an applied file has left"
        steered.append(f"{goes_on_with} the features {there}, and the stream file says otherwise{BY_APPLY}")
    found += [*_values(spec, vocabularies), *_classes(spec, meta)]
    models, takes = _models(spec, meta)
    if spec.control and (meta.get("steering") or {}).get("paused"):
        steered.append("predictions are paused, until riparian resume")
    left = "; also, ".join(steered) or None
    changes = [
        *found,
        *arithmetic,
        *models,
        *_settings(spec, meta, others),
    ]
    keyed = any(place.startswith("keys.") for place in (*(meta.get("settings") or ()), *settings(declared)))
    return Changes(changes, takes, left, kept, others, keyed)


def _of_a_feature(place: str) -> bool:
    """Whether a place of the stream file is one of a single feature."""
    return place.startswith("features.") and place != SEEN


def _topics(meta: Mapping[str, Any], topics: Mapping[str, str]) -> list[Change]:
    found = []
    for (role, now), was in zip(topics.items(), meta.get("topics") or (), strict=False):
        if was != now:
            sentence = f"topics.{role} was {was or 'none'}, is {now or 'none'}: offsets of one topic mean nothing in "
            found.append(Change(f"topics.{role}", REFUSED, f"{sentence}another; {CURE}"))
    return found


def _learning(spec: Spec, meta: Mapping[str, Any]) -> list[Change]:
    was = (meta.get("settings") or {}).get(LEARNING, PARTITION)
    if was == spec.learning.kind:
        return []
    remark = {
        SHARED: "is shared, the default from two partitions on: models of single partitions are not one model",
        PARTITION: "is partition: one model of all partitions is not one for each",
    }[spec.learning.kind]
    cure = f"write learning: {was} to go on as before, or begin a stream of a new name with what was learned"
    return [Change(LEARNING, REFUSED, f"{LEARNING} was {was}, {remark}; {cure} (riparian import --models-only)")]


def _arithmetic(spec: Spec, meta: Mapping[str, Any]) -> list[Change]:
    """Where all partitions learn one model, others may go on with its old last bits, and would not be equal."""
    if (meta.get("settings") or {}).get(ARITHMETIC, 1) == LATEST_ARITHMETIC:
        return []
    remark = "exponentials and logarithms were those of C's library, and are the same on every processor from here on"
    cure = (
        ": partitions of one model that are not at the same place would differ in last bits for good: let the version "
        "that wrote the state go on, or stop its workers, export one partition with it (riparian export) and begin a "
        "stream of a new name with that (riparian import --models-only)"
    )
    fate, more = {PARTITION: (CARRIED, ""), SHARED: (REFUSED, cure)}[spec.learning.kind]
    return [Change(ARITHMETIC, fate, remark + more)]


def _task(spec: Spec, meta: Mapping[str, Any]) -> list[Change]:
    was = (meta.get("settings") or {}).get("task") or (REGRESSION if meta["classes"] is None else CLASSIFICATION)
    if was == spec.task:
        return []
    return [Change("task", REFUSED, f"task was {was}, is {spec.task}: {CURE}")]


# features, values, classes -------------------------------------------------------------------------------------------


def _known_columns(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a state says of its features where commands have changed them (`Columns`)."""
    found: Mapping[str, Any] = (meta.get("steering") or {}).get("features") or {}
    return found


def _columns(meta: Mapping[str, Any]) -> dict[str, str]:
    """All features of a state, name -> type, in the order of their columns."""
    left = _known_columns(meta)
    return {name: one["type"] for name, one in left["features"].items()} if left else dict(meta.get("features") or ())


def _features(spec: Spec, meta: Mapping[str, Any], vocabularies: Sequence[Sequence[Scalar] | None]) -> list[Change]:
    """Models know features by their places only, so these have to be the same, but for what a command changes."""
    now, was = {name: feature.type for name, feature in spec.features.items()}, _columns(meta)
    if not was:  # format 1, early: only their number, and which of them have values, is known
        same = ["numeric" if known is None else "nominal or boolean" for known in spec.vocabularies()]
        kinds = ["numeric" if known is None else "nominal or boolean" for known in vocabularies]
        if kinds == same:
            return []
        sentence = f"there were {len(kinds)} features, there are {len(same)}"
        if len(kinds) == len(same):
            pairs = zip(now.items(), kinds, same, strict=True)
            sentence = "; ".join(f"{name} was {old}, is {kind}" for (name, kind), old, new in pairs if old != new)
        return [Change("features", REFUSED, f"the features have changed: {sentence}; {CURE}")]
    if list(was.items()) == list(now.items()):
        return []
    was = {name: kind for name, kind in was.items() if name not in _known_columns(meta).get("gone", ())}
    differences: list[str] = []
    gone, new = [name for name in was if name not in now], [name for name in now if name not in was]
    for name, other in zip(was, now, strict=False) if len(was) == len(now) else ():
        if name in gone and other in new and was[name] == now[other]:
            differences.append(
                f'{name} is called {other} (where only the field has a new name, write "{name}: {{from: ...}}")'
            )
            gone.remove(name)
            new.remove(other)
    differences += [f"{name} is gone" for name in gone] + [f"{name} is new" for name in new]
    differences += [f"{name} was {was[name]}, is {now[name]}" for name in was if now.get(name, was[name]) != was[name]]
    if [name for name in was if name in now] != [name for name in now if name in was]:
        differences.append(f"their order was {', '.join(was)}")
    if (gone or new) and unfit(spec, was, now) is None:
        return [Change(SEEN, REFUSED, f"the features have changed: {'; '.join(differences)}; {BY_COMMAND}")]
    return [Change("features", REFUSED, f"the features have changed: {'; '.join(differences)}; {CURE}")]


def _values(spec: Spec, vocabularies: Sequence[Sequence[Scalar] | None]) -> list[Change]:
    found = []
    for (name, feature), known in zip(spec.features.items(), vocabularies, strict=True):
        if known is not None and feature.type == NOMINAL:
            found += _known(known, feature.values, feature.max_values, f"features.{name}", "values", "max_values")
    return found


def _classes(spec: Spec, meta: Mapping[str, Any]) -> list[Change]:
    known = meta["classes"]
    return [] if known is None else _known(known, spec.classes, spec.max_classes, "", "classes", "max_classes")


def _known(
    known: Sequence[Scalar], declared: Sequence[Scalar] | None, limit: int, where: str, listed: str, bound: str
) -> list[Change]:
    """Known values have their codes for good: declared ones must begin with them, a bound must leave them room."""
    prefix = f"{where}." if where else ""
    if declared is None:
        if len(known) <= limit:
            return []
        remark = f"{prefix}{bound} is {limit}, and the state knows {len(known)}: raise it"
        return [Change(prefix + bound, REFUSED, remark)]
    texts, new = [canonical(value) for value in known], [canonical(value) for value in declared]
    if texts != new[: len(texts)]:
        remark = f"{prefix}{listed} must begin with those that the state knows, in their order: {', '.join(texts)}"
        return [Change(prefix + listed, REFUSED, remark)]
    if len(texts) < len(new):
        remark = f"{prefix}{listed}: {', '.join(new[len(texts) :])} added"
        return [Change(prefix + listed, CARRIED, remark)]
    return []


# models --------------------------------------------------------------------------------------------------------------


def _complete(model: Sequence[Any]) -> Model:
    """A model of a state, with the defaults of parameters that are newer than it. What a state says is data: it is
    compared with the stream file, and never checked by making what it names."""
    name, parameters = model
    defaults = REGISTRY[name].defaults() if name in REGISTRY else {}
    return name, defaults | dict(parameters)


def same(was: Model, now: Model) -> bool:
    """Whether nothing differs, nor the order of members."""
    return was[0] == now[0] and _ordered(was[1]) == _ordered(now[1])


def _ordered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as they are compared: the arrays of a pool have its members in their order."""
    members = parameters.get("members")
    return {**parameters, "members": list(members.items())} if isinstance(members, Mapping) else dict(parameters)


def goes_on(was: Model, now: Model) -> bool:
    """Whether a model's state is one of another model, too: nothing differs that its arrays depend on."""
    if was[0] != now[0] or was[0] not in REGISTRY:
        return False
    free, before = REGISTRY[was[0]].free, _ordered(was[1])
    return all(before.get(name) == value for name, value in _ordered(now[1]).items() if name not in free)


def in_part(task: str, was: Model, now: Model) -> str | None:
    """Where parts of a model's state go on in another one: what becomes of its parts, in words."""
    if was[0] != now[0]:
        return None
    try:
        return exchanged(now[0], task, was[1], now[1])
    except (ValueError, TypeError, AttributeError):  # a state may say anything
        return None


def _model_text(model: Model, other: Model | None = None) -> str:
    """A model in words; beside `other` of the same name, by the parameters that differ."""
    name, parameters = model
    if other is not None and other[0] == name:
        here, there = _ordered(parameters), _ordered(other[1])
        parameters = {key: value for key, value in parameters.items() if there.get(key, ...) != here[key]}
    return f"{name} ({_listed(parameters)})" if parameters else name


def _models(spec: Spec, meta: Mapping[str, Any]) -> tuple[list[Change], dict[str, str | None]]:
    was = {role: _complete(model) for role, model in meta["models"].items()}
    takes: dict[str, str | None] = {}
    found = []
    for role, model in spec.models().items():
        candidates = [(fits, old) for fits in (same, goes_on) for old in (role, *was) if old in was]
        source = next((old for fits, old in candidates if fits(was[old], model)), None)
        before = was.get(role)
        parts = None if source is not None or before is None else in_part(spec.task, before, model)
        takes[role] = role if parts is not None else source
        if source == role and before is not None and same(before, model):
            continue
        where, now = place_of(role), _model_text(model, before)
        if parts is not None:
            found.append(Change(where, CARRIED, f"{where} is {model[0]} with other members: {parts}"))
        elif source == role and before is not None:
            found.append(Change(where, CARRIED, f"{where} was {_model_text(before, model)}, is {now}: it goes on"))
        elif source is not None:
            remark = f"{where} is {now} and goes on with state and metrics of {place_of(source)}"
            found.append(Change(where, CARRIED, remark))
        elif role == CHAMPION:
            before = before or ("nothing", {})
            remark = f"{where} was {_model_text(before, model)}, is {now}, and the state has no such model: let it run "
            remark += "as a challenger first, restore the stream file, or give the stream a new name to start afresh"
            found.append(Change(where, REFUSED, remark))
        elif before is None:
            found.append(Change(where, RESTARTED, f"{where} ({now}) is new and starts afresh"))
        else:
            remark = f"{where} was {_model_text(before, model)}, is {now}: it starts afresh"
            found.append(Change(where, RESTARTED, remark))
    for role, model in was.items():
        if role not in takes.values() and takes.get(role, role) is not None:
            remark = f"what {place_of(role)} ({_model_text(model)}) has learned is dropped"
            found.append(Change(place_of(role), DROPPED, remark))
    return found, takes


# everything else -----------------------------------------------------------------------------------------------------


def _settings(spec: Spec, meta: Mapping[str, Any], others: bool = False) -> list[Change]:
    """Settings that only say how to go on. others : whether the stream file names other features."""
    was, now = meta.get("settings") or {}, settings(spec)
    found = []
    if now[DETECTORS] and DETECTORS not in was:
        found.append(Change("drift", RESTARTED, "drift was not watched for: it is from here on"))
    if was:
        for place in [*now, *(place for place in was if place not in now)]:
            if place == ARITHMETIC or (place == "label.y" and PRESENCE in now):
                continue
            old, new = was.get(place), now.get(place)
            if spec.is_steered and place.endswith(".on_drift") and place != "drift.on_drift":
                continue  # the state's models come with their own
            if others and (_of_a_feature(place) or (place.startswith("keys.") and (place in was) != (place in now))):
                continue  # a command changes them
            # A setting that this version has and the one before had not was what it is by default.
            if old != new and (
                place in was
                or place.startswith(("features.", "keys.", "promotion.", *LATER, DISTRIBUTIONS))
                or place.endswith(".on_drift")
            ):
                if place.startswith("drift.") and DETECTORS not in was:
                    continue
                fate, remark = (REFUSED, RELEARNED) if _relearns(place, was, now) else _going_on(place, old, new)
                remark = f"{place} was {_value(place, old)}, is {_value(place, new)}{remark}"
                found.append(Change(place, fate, remark))
    return found


def _relearns(place: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether what was learned of records that wait is not known any more by this change. A state has when a record
    matured, and not by which label it was learned, nor whether it was before there was a time to mature."""
    old, new = was.get(place), now.get(place)
    if place == UNLABELLED and old is not None:
        return new is None or old.get("is") != new.get("is")
    return (place == UNLABELLED and ON_REPEAT in was) or (place == ON_REPEAT and old is not None)


def relearns(spec: Spec, other: Spec) -> str | None:
    """Why a running stream cannot go on by this other file, which has its labels wait otherwise; None: it can."""
    found = _settings(other, {"settings": settings(spec)})
    return next((one.sentence for one in found if one.what == UNLABELLED and one.fate == REFUSED), None)


def _going_on(place: str, old: Any, new: Any) -> tuple[str, str]:
    """The fate of what a setting decides, and what to say of it."""
    if place == "metrics.fading" and (old is None or new is None):
        return RESTARTED, ": recent metrics start afresh"
    if place in FORECASTS:
        return REFUSED, f": what was learned is of other labels; {CURE}"
    if place.startswith("features.") and isinstance(old or new, dict):
        return REFUSED, f": what is known of keys is of what it was; {CURE}, or give the feature another name"
    if place.startswith("keys.") and place.endswith(".from"):
        return REFUSED, f": what is known is of other keys; {CURE}"
    if place.startswith("keys."):
        return CARRIED, ": from here on"
    if place == "metrics.window":
        return CARRIED, ": it keeps the last labels that fit"
    if place == DETECTORS:
        return RESTARTED, ": all detectors start afresh"
    if place == DISTRIBUTIONS:
        return RESTARTED, ": all references begin anew" if new else ""
    if place == DECISION:
        begun = "begun anew" if not same_target(old, new) else "and what mistakes cost begins anew"
        kept = same_losses(old, new)
        return (CARRIED if kept else RESTARTED), ": from the next prediction on" + ("" if kept else f", {begun}")
    if place == CLASS_WEIGHTS:
        return CARRIED, ": of the labels to come"
    if place == SEGMENTS:
        return CARRIED, ": those that are new are counted from here on" if new else ""
    if place == "drift.features":
        return CARRIED, ": those that are new are watched from here on"
    if place == "control":
        return CARRIED, ": predictions name the commands before them from here on" if new else ": no more commands"
    if place == "seed":
        return CARRIED, ": only what starts afresh has it"
    return CARRIED, ""


def _detector(name: str, parameters: Mapping[str, Any]) -> str:
    """A detector in words: the parameters that are not the defaults."""
    usual = {parameter.name: parameter.default for parameter in find(name).parameters} if name in KNOWN else {}
    other = {key: value for key, value in parameters.items() if usual.get(key, ...) != value}
    return f"{name} ({_listed(other)})" if other else name


def _listed(fields: Mapping[str, Any], between: str = " ") -> str:
    return ", ".join(f"{key}{between}{_plain(value)}" for key, value in fields.items())


def _plain(value: Any) -> str:
    """As people write it in the stream file, but for what is not set."""
    if isinstance(value, Mapping):
        return f"{{{_listed(value, ': ')}}}"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else f"{value}"


def _value(place: str, value: Any) -> str:
    if place == ON_REPEAT:
        return value or "ignore"
    if value is None:
        return "closed" if place.endswith(("max_values", "max_classes", "max_class_bytes")) else "none"
    if place == "join.horizon":
        return format_duration(value)
    if place == DETECTORS:
        return ", ".join(_detector(name, parameters) for name, parameters in value.items()) or "none"
    if place in ("drift.features", SEGMENTS):
        return ", ".join(value) or "none"
    if place == DISTRIBUTIONS:
        remark = {**value, "features": f"of {', '.join(value['features']) or 'no feature'}"}
        return _listed(remark).replace("features of", "of")
    if place.endswith(".idle"):
        return format_duration(value)
    if place == UNLABELLED:
        remark = {**value, "after": format_duration(float(value["after"].removesuffix("s")))}
        return _plain(remark)
    if isinstance(value, dict) and place.startswith("features."):
        return _listed(value)
    if isinstance(value, list | tuple):
        return ".".join(value) or '""'
    return _plain(value)


def room_of(meta: Mapping[str, Any], known: Sequence[Sequence[Scalar] | None], first: Schema) -> Schema | None:
    """The capacities that the arrays of a state have; None in states that were written before these were noted.

    known : values of the nominal features. first : the room of a fresh state. ValueError where there is more room than
    that, and than a vocabulary of these values and of the classes reserves (Vocabulary.capacity): arrays of any size
    would be made for it.
    """
    if "room" not in meta:
        return None
    n_values, n_outputs = meta["room"]
    classes = meta["classes"]
    counts = [0 if values is None else max(2, 2 * len(values)) for values in known]
    most = list(map(max, counts, first.n_values))
    fits = all(min(1, top) <= n <= top for n, top in zip(n_values, most, strict=True))
    if not fits or not 1 <= n_outputs <= max(first.n_outputs, 0 if classes is None else 2 * len(classes)):
        raise ValueError("the room that it names is not that of its values and classes")
    return Schema(tuple(n_values), n_outputs, first.task)
