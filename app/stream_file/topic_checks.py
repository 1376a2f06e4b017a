"""What topics, copies, formats and a schema registry have to be beside each other in a stream file."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from riparian.app.stream_file.lineup import place_of
from riparian.app.stream_file.sections.codec import TOPIC_NAME
from riparian.app.stream_file.sections.learning import check_learning
from riparian.app.stream_file.sections.models import REPLACE
from riparian.app.stream_file.sections.outputs import ALERTS
from riparian.app.stream_file.sections.record import KEY, OFFSET
from riparian.models.extras import installation
from riparian.topics import codecs
from riparian.topics.decoding.headers import header_of
from riparian.topics.decoding.paths import dotted
from riparian.topics.names import FEATURES, INPUTS, LABELS, LEARNED, OUTPUTS, PREDICTIONS, STEERING, changelog_topic
from riparian.topics.records import ANOMALY, MULTI_INSTANCE, REGRESSION, Path


def check_topics(spec: Any) -> None:
    if None not in (spec.min_insync_replicas, spec.replication) and spec.min_insync_replicas > spec.replication:
        raise ValueError(
            f"min_insync_replicas: expected at most replication, {spec.replication}, found "
            f"{spec.min_insync_replicas}: Kafka would take no record; lower it, or raise replication"
        )
    roles: dict[str, str] = {}
    for role in STEERING:
        if (getattr(spec.topics, role) is not None) != spec.control:
            expected = "a topic" if spec.control else "no topic"
            raise ValueError(
                f"topics.{role}: expected {expected}, since control is {str(spec.control).lower()}, found "
                f"{'none' if spec.control else getattr(spec.topics, role)}; change one of them"
            )
    if spec.promotion is not None and not spec.control:
        raise ValueError(
            "promotion: expected control: true, whose events tell of it and whose commands undo it, found "
            "control: false; add it, or remove promotion"
        )
    check_learning(spec)
    for role in (*INPUTS, *OUTPUTS, *STEERING, LEARNED):
        name = getattr(spec.topics, role)
        if name in roles:
            raise ValueError(
                f'topics.{role}: expected a topic of its own, found "{name}", which is topics.{roles[name]} too; '
                "rename one of them"
            )
        _check_not_state(spec, f"topics.{role}", name)
        if name is not None:
            roles[name] = role
    if spec.topics.labels is None and spec.label.of is None:
        if spec.record.y is None and spec.task != ANOMALY:
            raise ValueError(
                "topics.labels: expected a topic, or labels inside the feature records, found neither; name the "
                "topic, or give record.y a path"
            )
        read = sorted(spec.label.model_fields_set - {"on_repeat"})
        if read:
            raise ValueError(
                f"label.{read[0].rstrip('_')}: expected only with a topic of labels, found topics.labels without one; "
                "remove it"
            )
    _check_rekey(spec, roles)


def _check_not_state(spec: Any, field: str, topic: str | None) -> None:
    """A worker deletes what is in front of its state's records, in the topic of the state."""
    if topic == changelog_topic(spec.name):
        raise ValueError(f'{field}: expected another topic than that of the state, found "{topic}"; name another')


def _check_rekey(spec: Any, roles: Mapping[str, str]) -> None:
    """roles : topic of the stream -> its role."""
    owner: dict[str, str] = {}
    for kind, topics in spec.copied.items():
        if getattr(spec.topics, kind) is None:
            raise ValueError(
                f"rekey.{kind}: expected only with a topic of {kind}, found topics.{kind} without one; remove one "
                "of them"
            )
        for topic in topics:
            _check_not_state(spec, f"rekey.{kind}", topic)
            if topic in roles:
                raise ValueError(
                    f'rekey.{kind}: expected a topic that is not the stream\'s own, found "{topic}", which is '
                    f"topics.{roles[topic]}, where the copies go; rename that one"
                    if roles[topic] == kind
                    else f'rekey.{kind}: expected a topic that is not the stream\'s own, found "{topic}", which is '
                    f"topics.{roles[topic]}; name another"
                )
            if topic in owner:
                raise ValueError(
                    f'rekey.{kind}: expected other topics than rekey.{owner[topic]} has, found "{topic}" in both; '
                    "remove one of them"
                )
            owner[topic] = kind


def check_reactions(spec: Any, on_drift: Mapping[str, str | None]) -> None:
    """on_drift : place in the stream file -> what is done on drift."""
    for place, action in on_drift.items():
        if spec.task == ANOMALY and action == REPLACE:
            raise ValueError(
                f"{place}.on_drift: expected nothing, alert or reset, since models of anomalies learn without labels "
                "and are not compared by errors, found replace; change it"
            )


def check_reasons(spec: Any) -> None:
    """Where reasons of alerts alone are asked for, it is decided which ones these are (docs/build/confidence.md)."""
    reasons, decision = spec.predictions.reasons, spec.decision
    if reasons is None or reasons.of != ALERTS or (decision is not None and decision.target is not None):
        return
    cure = "alert_rate: 0.01" if spec.task == ANOMALY else "class: NAME, alert_rate: 0.01"
    found = "none" if decision is None else "one by costs, which marks none"
    raise ValueError(
        f"predictions.reasons.of: expected a decision that names alerts, such as decision: {{{cure}}}, found {found}; "
        "write one, or of: all"
    )


def check_coverage(spec: Any) -> None:
    """Only classes can be told apart (docs/build/confidence.md)."""
    coverage = spec.predictions.coverage
    if spec.task == REGRESSION and coverage is not None and coverage.by is not None:
        raise ValueError(
            "predictions.coverage.by: expected nothing, since a regression has no classes, found "
            f"{coverage.by}; give predictions.coverage: {coverage.share:g}"
        )


def check_anomaly(spec: Any) -> None:
    """What has no meaning for scores of anomalies."""
    if spec.task != ANOMALY:
        return
    own = {place_of(role): action for role, action in spec.own_on_drift().items()}
    check_reactions(spec, {"drift": spec.drift.on_drift, **own})
    if spec.promotion is not None:
        raise ValueError(
            "promotion: expected nothing, since scores of anomalies have no errors to compare, found a rule; remove it"
        )
    if spec.predictions.coverage is not None:
        raise ValueError(
            "predictions.coverage: expected nothing, since a score of an anomaly is no guess of a label, found "
            f"{spec.predictions.coverage.share:g}; remove it"
        )
    if spec.metrics.fading is not None:
        raise ValueError(
            "metrics.fading: expected a window, since a rank is among the scores of a window, found "
            f"{spec.metrics.fading:g}; remove it"
        )


def check_registry(spec: Any) -> None:
    registered = spec.codec.registered()
    if not registered:
        if spec.registry is not None:
            raise ValueError(
                f"registry: expected only with a codec of a registry ({', '.join(codecs.REGISTERED)}), found none; "
                "name one at codec, or remove registry"
            )
        return
    further = [log.role for log in spec.inputs if log.role not in INPUTS]
    if PREDICTIONS in registered and further:
        raise ValueError(
            f"codec.predictions: expected json, since predictions name their place in {further[0]}, found "
            f"{registered[PREDICTIONS]}, whose schema has no field for it; write json there"
        )
    if spec.registry is None:
        name = next(iter(registered.values()))
        raise ValueError(
            f"registry: expected the schema registry of codec {name}, found nothing; add registry, with its url"
        )
    given = spec.registry.records
    spec.schemas.names = {kind: name for kind in INPUTS if (name := getattr(given, kind)) is not None}
    if spec.registry.subjects == TOPIC_NAME:
        return
    for kind in registered:
        topic = getattr(spec.topics, kind)
        if kind != PREDICTIONS and topic is not None and getattr(spec.registry.records, kind) is None:
            raise ValueError(
                f"registry.records.{kind}: expected the full name of the schema, since subjects are named by "
                f"{spec.registry.subjects}, found nothing; write it like com.shop.Order"
            )


def check_numbered(spec: Any) -> None:
    """Where the id of a record is its place in the topic."""
    if spec.record.id != OFFSET:
        return
    if spec.topics.labels is not None:
        raise ValueError(
            'record.id: expected a field, or "@key", since labels in topics.labels name the id of their record, found '
            '"@offset", which they cannot know; name it, or write topics: {labels: null} where they come otherwise'
        )
    if FEATURES in spec.copied and spec.rekey.by is None:
        raise ValueError(
            'rekey.by: expected a key beside record.id: "@offset", since a place says to which partition a record '
            "goes no more, found none; name one, or remove rekey"
        )


def check_batched(spec: Any) -> None:
    """Where a record holds many instances (`topics.codecs.BATCHED`)."""
    formats = spec.codec.formats()._asdict()
    batched = {kind: name for kind, name in formats.items() if name in codecs.BATCHED}
    if FEATURES in batched:
        _check_id("record", spec.record.id, batched[FEATURES])
        if spec.task == MULTI_INSTANCE:
            raise ValueError(
                "codec.features: expected a format with a record an instance, since these are bags, found "
                f"{batched[FEATURES]}; choose another one"
            )
    if LABELS in batched and spec.topics.labels is not None:
        _check_id("label", spec.label.id, batched[LABELS])
    if PREDICTIONS in batched and spec.predictions.trace:
        raise ValueError(
            f"predictions.trace: expected false, since predictions in {batched[PREDICTIONS]} share a record and its "
            "headers, found true; leave it out, or choose another codec.predictions"
        )
    registered = spec.codec.registered().get(PREDICTIONS)
    inputs = [kind for kind in batched if kind != PREDICTIONS]
    if registered is not None and inputs:
        raise ValueError(
            f"codec.predictions: expected json or {batched[inputs[0]]}, since predictions name their instance in its "
            f"record, found {registered}, whose schema has no field for it; choose one of these"
        )


def _check_id(owner: str, path: Path | str, name: str) -> None:
    if path == KEY or header_of(path) is not None:  # type: ignore[arg-type]
        found = path if isinstance(path, str) else dotted(path)
        raise ValueError(
            f"{owner}.id: expected a column, since the instances of a record in {name} share its key and its headers, "
            f'found "{found}"; name the column of the ids'
        )


def check_packages(spec: Any) -> None:
    """What the formats need that is no part of every installation."""
    needed = codecs.BATCHED | codecs.REGISTERED
    for name in spec.codec.formats():
        package = needed.get(name)
        if package is not None and not _is_there(package):
            raise ValueError(
                f"codec: expected the Python package {package.removeprefix('google.')} for {name}, found none; install "
                f"it with {installation(name)}, or choose another codec"
            )


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False
