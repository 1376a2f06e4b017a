"""The stream file: what a stream is, declared and not programmed.

`load` reads a YAML file and returns a `Spec`, or raises a SpecError with one sentence that names the field. All
durations are float seconds in a Spec. docs/reference/stream-file.md is generated from the descriptions.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import PrivateAttr, ValidationError, model_validator

from riparian.app.errors import SpecError
from riparian.app.stream_file import columns
from riparian.app.stream_file.fields import Fields
from riparian.app.stream_file.lineup import RUNS, check_model, digest, models_of, place_of, steered, values_of
from riparian.app.stream_file.mapping import mapping_of
from riparian.app.stream_file.sections.base import Section
from riparian.app.stream_file.sections.codec import RECORD_NAME, TOPIC_NAME
from riparian.app.stream_file.sections.decision import amount_in, check_decision
from riparian.app.stream_file.sections.drift import DriftSpec, check_drift
from riparian.app.stream_file.sections.join import (
    JoinSpec,
    check_forecasts,
    check_presence,
    check_unlabelled,
    with_forecasts,
)
from riparian.app.stream_file.sections.kafka import PROVIDER
from riparian.app.stream_file.sections.keys import KeySpec, check_keys
from riparian.app.stream_file.sections.learning import PARTITION, SHARED, learning_of, usual_learning
from riparian.app.stream_file.sections.models import AUTO, ModelSpec
from riparian.app.stream_file.sections.outputs import MetricsSpec, check_segments
from riparian.app.stream_file.sections.promotion import PromotionSpec
from riparian.app.stream_file.sections.record import FeatureSpec
from riparian.app.stream_file.spec_errors import sentence
from riparian.app.stream_file.strict_yaml import parse_yaml, read_yaml
from riparian.app.stream_file.topic_checks import (
    check_anomaly,
    check_batched,
    check_coverage,
    check_numbered,
    check_packages,
    check_reactions,
    check_reasons,
    check_registry,
    check_topics,
)
from riparian.topics import codecs, records
from riparian.topics.names import (
    AS_IT_COMES,
    CHAMPION,
    CONTROL,
    EVENTS,
    FEATURES,
    INPUTS,
    LABELS,
    LEARNED,
    OUTPUTS,
    PREDICTIONS,
    STEERING,
    InputLog,
    group_id,
    rekey_group,
    topic_name,
)
from riparian.topics.schemas import Schemas
from riparian.topics.vocabulary import Vocabulary

if TYPE_CHECKING:
    from riparian.models.auto.auto import Resolved


# Fields of a stream file that `riparian apply` sends besides the models.
METRICS = ("window", "fading")
JOIN = ("horizon", "max_pending", "max_pending_bytes", "max_labels", "unlabelled")


class Spec(Fields):
    """A stream."""

    _models: dict[str, tuple[str, dict[str, Any]]] = PrivateAttr(default_factory=dict)
    _own_on_drift: dict[str, str | None] | None = PrivateAttr(default=None)  # where commands changed the models
    _mapping: records.Mapping = PrivateAttr()
    _gone: frozenset[str] = PrivateAttr(default_factory=frozenset)  # features that commands have dropped
    _schemas: Schemas = PrivateAttr(default_factory=Schemas)

    @model_validator(mode="before")
    @classmethod
    def _name_topics(cls, data: Any) -> Any:
        """Call the topics that have no name after the stream."""
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            return data
        data = with_forecasts(data)
        given = data.get("topics", {})
        if not isinstance(given, dict):
            return data
        roles = (*INPUTS, *OUTPUTS, *(STEERING if data.get("control") is True else ()))
        roles = (*roles, *((LEARNED,) if learning_of(data) == SHARED else ()))
        defaults: dict[str, str | None] = dict.fromkeys((*STEERING, LEARNED))
        defaults |= {role: topic_name(data["name"], role) for role in roles}
        return {"learning": usual_learning(data), **data, "topics": {**defaults, **given}}

    @model_validator(mode="after")
    def _check(self) -> "Spec":
        check_topics(self)
        check_packages(self)
        check_registry(self)
        check_batched(self)
        check_numbered(self)
        check_reasons(self)
        check_coverage(self)
        check_decision(self)
        self._check_classes()
        check_keys(self)
        check_forecasts(self)
        if self.predictions.calibrated and self.task in records.VALUES:
            raise ValueError(
                f"predictions.calibrated: expected false with task {self.task}, which has no probabilities, found "
                f"{str(self.predictions.calibrated).lower()}; remove it"
            )
        check_presence(self)
        check_unlabelled(self)
        self._mapping = mapping_of(self)
        for kind in self.copied:
            if self.make_codec().index_bits.of(kind):
                raise ValueError(
                    f"rekey.{kind}: expected records of one instance each, since a record is copied to the partition "
                    "of its id, found a codec whose records hold several; let their producer write one each"
                )
        self._models = models_of(self)
        self.check_drift()
        check_segments(self)
        if PROVIDER in self.kafka.settings and "code" not in self.trust:
            raise ValueError(
                f"trust: expected [code], since kafka.{PROVIDER} names code that would run, found nothing; add it "
                "where you trust that code, or name it in the properties file of the connection instead"
            )
        return self

    def subject(self, kind: str) -> str:
        """The subject of the schemas of a kind of record: "features", "labels" or "predictions". Of records that are
        copied it is that of the first topic that they come from."""
        assert self.registry is not None
        topic, style = self.copied.get(kind, [getattr(self.topics, kind)])[0], self.registry.subjects
        if style == TOPIC_NAME:
            return f"{topic}-value"
        name = "riparian.Prediction" if kind == PREDICTIONS else getattr(self.registry.records, kind)
        return str(name) if style == RECORD_NAME else f"{topic}-{name}"

    def _check_classes(self) -> None:
        bounds = sorted(self.model_fields_set & {"max_classes", "max_class_bytes"})
        given = [*sorted(self.model_fields_set & {"classes"}), *bounds]
        if self.task == records.MULTI_INSTANCE:
            if self.classes is None or len(self.classes) != 2:
                count = "none" if self.classes is None else f"{len(self.classes)}"
                raise ValueError(
                    f"classes: expected the two classes of the bags, the negative one first, found {count}; name two"
                )
            if bounds:
                raise ValueError(f"{bounds[0]}: expected only with task classification, found bags; remove it")
            return
        if "max_instances" in self.record.model_fields_set:
            raise ValueError(
                f'record.max_instances: expected only with task multi-instance, found task "{self.task}"; remove it'
            )
        if given and self.task != records.CLASSIFICATION:
            raise ValueError(f'{given[0]}: expected only with task classification, found task "{self.task}"; remove it')
        if self.classes is not None and bounds:
            raise ValueError(f"{bounds[0]}: expected this or classes, found both; remove {bounds[0]}")

    def challenger(self, role: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any], str | None]:
        """Learner, all its parameters and its own `on_drift` of a challenger that a command describes, as the stream
        file would. ValueError where that is none, or would run code that only a stream file may name."""
        from riparian.models.registry import FOREIGN

        try:
            model = ModelSpec.model_validate(dict(given))
        except ValidationError as error:
            raise ValueError(f"{place_of(role)}: {sentence(error, ModelSpec)}") from None
        if role == CHAMPION:
            raise ValueError(f'expected another name than "{CHAMPION}", which is taken')
        if model.model in FOREIGN:
            raise ValueError(
                f"{place_of(role)}: {model.model} runs code of somebody else, which only the stream file may name"
            )
        check_reactions(self, {place_of(role): model.on_drift})
        return *check_model(self, role, model), model.on_drift

    def lined_up(
        self, models: Mapping[str, tuple[str, dict[str, Any]]], own_on_drift: Mapping[str, str | None]
    ) -> "Spec":
        """This stream with the models that commands have left, the champion first."""
        changed = self.model_copy()
        changed._models, changed._own_on_drift = dict(models), dict(own_on_drift)
        return changed

    def models_digest(self) -> str:
        """Of what the file says of its models."""
        said = {CHAMPION: self.champion, **self.challengers}
        plain = {role: model.model_dump(mode="json") for role, model in said.items()}
        return digest(plain)

    def running(self, exclude_defaults: bool = False) -> dict[str, Any]:
        """What of the file takes effect while the stream runs, besides its models."""
        metrics, join = (
            part.model_dump(mode="json", include=set(fields), exclude_defaults=exclude_defaults)
            for part, fields in ((self.metrics, METRICS), (self.join, JOIN))
        )
        if "horizon" in join:
            join["horizon"] = f"{self.join.horizon!r}s"
        if join.get("unlabelled") is None:
            join.pop("unlabelled", None)
        drift, rule = (
            None if part is None else part.model_dump(mode="json", exclude_defaults=exclude_defaults)
            for part in (self.drift, self.promotion)
        )
        return {"drift": drift, "metrics": metrics, "join": join, "promotion": rule}

    def run_by(self, given: Mapping[str, Any]) -> "Spec":
        """This stream with what another file said (`running`). ValueError where it is nothing of the kind."""
        if set(given) != {"drift", "metrics", "join", "promotion"}:
            found = ", ".join(sorted(given)) or "nothing"
            raise ValueError(f"expected drift, metrics, join and promotion, found {found}")

        def checked(place: str, kind: type[Section]) -> Any:
            try:
                return kind.model_validate(given[place])
            except ValidationError as error:
                said = sentence(error, kind)
                raise ValueError(f"{place}{': ' if said.startswith('expected') else '.'}{said}") from None

        metrics, join = checked("metrics", MetricsSpec), checked("join", JoinSpec)
        changed = self.model_copy(
            update={
                "drift": checked("drift", DriftSpec),
                "metrics": self.metrics.model_copy(update={field: getattr(metrics, field) for field in METRICS}),
                "join": self.join.model_copy(update={field: getattr(join, field) for field in JOIN}),
                "promotion": None if given["promotion"] is None else checked("promotion", PromotionSpec),
            }
        )
        changed.check_drift()
        check_forecasts(changed)
        check_presence(changed)
        check_unlabelled(changed)
        return changed

    def running_digest(self) -> str:
        """Of what `running` gives; the same in a later version whose fields are more."""
        return digest(self.running(exclude_defaults=True))

    def resolved(self, **budget: Any) -> "Resolved | None":
        """What `auto` stands for here; None where the champion is named. budget : other than the stream file's."""
        if self.champion.model != AUTO:
            return None
        from riparian.models.auto import auto

        n_classes = 1
        if self.task not in records.VALUES:
            learned = (
                self.max_classes if "max_classes" in self.model_fields_set else min(self.max_classes, auto.UNNAMED)
            )
            n_classes = learned if self.classes is None else len(self.classes)
        return auto.resolve(self.task, values_of(self), n_classes, {**self.champion.parameters, **budget})

    def adopting(self, meta: Mapping[str, Any]) -> "Spec":
        """This stream as a state has it, where commands have left it so since this file; and with the state's champion,
        where `auto` chose it by the same budget: another version may choose another one. meta : of the state."""
        from riparian.models.auto.auto import CHOICES
        from riparian.models.registry import validate

        left, by_commands = meta.get("steering") or {}, self.control and RUNS in meta  # alone, at one place for all
        if "features" in left:
            known = columns.remembered(self, left["features"], by_commands)
            if known is not None:
                rest = {field: value for field, value in left.items() if field != "features"}
                return self.with_columns(*known).adopting({**meta, "steering": rest})
            left = {field: value for field, value in left.items() if field != "applied"}  # of other features
        elif by_commands:
            was, beyond = dict(meta.get("features") or ()), meta[RUNS].get("features")
            if (before := columns.not_yet_applied(self, was, beyond)) is not None:
                keys = columns.read_keys(meta[RUNS].get("keys") or {}) | self.keys
                return self.with_columns(before, frozenset(), keys).adopting(meta)
        runs = self.runs_by(meta)
        if runs is not None:
            with suppress(
                ValueError
            ):  # a model that this version does not know, or of code that the file does not name
                going: Spec = self.run_by(runs["settings"]).lined_up(*steered(self, meta["models"], runs["on_drift"]))
                same = repr(going.models()) == repr(self.models())  # also in the order of a pool's members
                same &= (going.running(), going.own_on_drift()) == (self.running(), self.own_on_drift())
                return self if same else going
        if self.running_digest() in left.get("applied", {}).get("files", ()):
            without = {**meta, "steering": {field: value for field, value in left.items() if field != "applied"}}
            return self.run_by(left["applied"]["settings"]).adopting(without)
        if self.models_digest() in left.get("files", ()):
            return self.lined_up(*steered(self, meta["models"], left["on_drift"]))
        if self.champion.model != AUTO or meta.get("auto") != self.champion.parameters:
            return self
        name, parameters = meta["models"][CHAMPION]
        if name not in CHOICES:  # `auto` never chose it
            return self
        try:
            chosen = name, validate(name, self.task, parameters)
        except ValueError:  # this version does not know it
            return self
        adopted = self.model_copy()
        adopted._models = {**self._models, CHAMPION: chosen}
        return adopted

    def runs_by(self, meta: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What a state goes on by, whatever of it this stream file says otherwise; None where the file counts. Models
        that all partitions learn change at one place for all: by a command, where the stream takes any. Where it takes
        none, a file counts that it was not steered under."""
        runs: Mapping[str, Any] | None = meta.get(RUNS)  # of models that all learn
        if runs is None or self.control:
            return runs
        return runs if meta.get("steering") and self.digests() in map(list, runs["files"]) else None

    def digests(self) -> list[str]:
        """Of what the file says of its models, and of what `running` gives."""
        return [self.models_digest(), self.running_digest()]

    @property
    def gone(self) -> frozenset[str]:
        """Features whose columns there are still, and that records do not have any more."""
        return self._gone

    @property
    def present(self) -> dict[str, FeatureSpec]:
        """Features that instances have."""
        return {name: feature for name, feature in self.features.items() if name not in self._gone}

    @property
    def recorded(self) -> dict[str, FeatureSpec]:
        """The present features without those over a key's past."""
        return {name: feature for name, feature in self.present.items() if feature.past is None}

    @property
    def made(self) -> dict[str, FeatureSpec]:
        """The present features over a key's past."""
        return {name: feature for name, feature in self.present.items() if feature.past is not None}

    def with_columns(
        self, features: Mapping[str, FeatureSpec], gone: frozenset[str], keys: Mapping[str, KeySpec]
    ) -> "Spec":
        """This stream with these columns, and those of these keys that it needs. ValueError where two of them read the
        same field."""
        asked = {one.key for name, one in features.items() if name not in gone} | {self.label.by}
        kept = {name: one for name, one in keys.items() if name in asked}
        changed = self.model_copy(update={"features": dict(features), "keys": kept})
        changed._gone = gone
        changed._mapping = mapping_of(changed)
        return changed

    def with_partitions(self, n: int) -> "Spec":
        """This stream with as many partitions, and with the kind of learning that it has. ValueError where features
        over a key's past would not be exact."""
        if n == self.partitions:
            return self
        of_records = next((name for name, one in self.made.items() if not one.of_labels), "")
        if of_records or self.label.of is not None:
            what = f"features.{of_records}" if of_records else "label.of"
            raise ValueError(
                f"{what}: expected {self.partitions} partitions, since with others the records of a key come elsewhere "
                f"than those before, found {n}"
            )
        changed = self.model_copy(update={"partitions": n})
        check_keys(changed)
        return changed

    def check_drift(self) -> None:
        """ValueError where what is watched cannot be."""
        check_anomaly(self)
        check_drift(self)

    def distributed(self) -> dict[str, int]:
        """Features whose distribution is tested, and their columns."""
        asked = self.drift.distributions
        if asked is None:
            return {}
        named = self.recorded if asked.features == "all" else asked.features
        return {n: j for j, n in enumerate(self.features) if n in named and n not in self._gone}

    def segmented(self) -> dict[str, int]:
        """Features by whose values quality is kept, and their columns."""
        return {name: j for j, name in enumerate(self.features) if name in self.metrics.segments}

    def watched(self) -> dict[str, int]:
        """Features that are watched for drift, and their columns."""
        asked, recorded = self.drift.features, self.recorded
        return {
            name: j
            for j, (name, feature) in enumerate(self.features.items())
            if name in recorded
            and feature.type == records.NUMERIC
            and (asked == "all" or (asked != "none" and name in asked))
        }

    def on_drift(self) -> dict[str, str]:
        """Role of a model -> what is done when its errors rise."""
        own = self.own_on_drift()
        return {role: own.get(role) or self.drift.on_drift for role in self._models}

    @property
    def is_steered(self) -> bool:
        """Whether the models are those that commands have left."""
        return self._own_on_drift is not None

    def own_on_drift(self) -> dict[str, str | None]:
        """Role of a model -> the `on_drift` that it has for itself."""
        if self._own_on_drift is not None:
            return dict(self._own_on_drift)
        named = {CHAMPION: self.champion, **self.challengers}
        return {role: named[role].on_drift if role in named else None for role in self._models}

    def models(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Role -> (name of the learner, all its parameters), the champion first."""
        return dict(self._models)

    @property
    def inputs(self) -> tuple[InputLog, ...]:
        """The input logs of the stream, the features first."""
        topics = {role: getattr(self.topics, role) for role in INPUTS}
        logs = [InputLog(role, topic) for role, topic in topics.items() if topic is not None]
        control = {PARTITION: self.topics.control, SHARED: None}[self.learning.kind]  # else with what all learn
        further = [InputLog(CONTROL, control, AS_IT_COMES)] if control is not None else []
        return (*logs, *further)

    @property
    def commanded(self) -> range:
        """The partitions that are told a command, and answer it: the first, where all learn one model."""
        return range({PARTITION: self.partitions, SHARED: 1}[self.learning.kind])

    @property
    def one_answers(self) -> bool:
        """Whether one of several partitions answers a command for all."""
        return len(self.commanded) < self.partitions

    @property
    def has_costs(self) -> bool:
        """Whether models are compared by what their mistakes cost."""
        return self.prices is not None

    @property
    def prices(self) -> dict[str, dict[str, float | str]] | None:
        """True class -> class named -> what that costs, or which feature says it; None: all mistakes are alike."""
        return None if self.decision is None else self.decision.costs

    @property
    def amount(self) -> str | None:
        """The feature whose value is what mistakes cost; None without one."""
        return amount_in(self.prices)

    @property
    def target(self) -> tuple[str, str] | None:
        """What a threshold keeps, and the class that it is about; None without one, and of anomalies."""
        if self.decision is None or self.decision.target is None or self.decision.class_ is None:
            return None
        return self.decision.target[0], self.decision.class_

    @property
    def has_alerts(self) -> bool:
        """Whether it is decided which scores of anomalies are alerts."""
        return self.decision is not None and self.task == records.ANOMALY

    @property
    def has_labels(self) -> bool:
        """Whether labels come, which of anomalies is so where a topic or a field of them is named alone, and never of
        forecasts, whose labels are later values of the stream."""
        if self.label.of is not None:
            return False
        return self.task != records.ANOMALY or self.topics.labels is not None or self.record.y is not None

    @property
    def shares(self) -> bool:
        """Whether all partitions learn one model."""
        return bool(self.of_all)

    @property
    def of_all(self) -> tuple[str, ...]:
        """Topics of one partition, which all partitions of the stream write and fold."""
        return () if self.topics.learned is None else (self.topics.learned,)

    def logs(self, partition: int) -> list[tuple[str, str, int]]:
        """Role, topic and partition of each log that a partition of the stream folds, the features first."""
        own = ((role, topic, partition) for role, topic, _ in self.inputs)
        return [*own, *((LEARNED, topic, 0) for topic in self.of_all)]

    @property
    def most_waiting(self) -> int:
        """Instances that wait for a label at most: none where they are learned without, and none can come later."""
        return 0 if self.task == records.ANOMALY and self.topics.labels is None else self.join.max_pending

    @property
    def remembers(self) -> bool:
        """Whether the ids of learned instances are: not where each record with a label inside is learned at once."""
        waits = self.join.unlabelled is not None or self.label.on_repeat == "correct"
        return waits or self.topics.labels is not None or self.label.of is not None

    @property
    def outputs(self) -> dict[str, str]:
        """Role of an output topic -> its name."""
        roles = (*OUTPUTS, EVENTS) if self.control else OUTPUTS
        return {role: getattr(self.topics, role) for role in roles}

    @property
    def input_topics(self) -> dict[str, str]:
        """Role of an input log -> its topic; "" where labels come inside the feature records."""
        return dict.fromkeys(INPUTS, "") | {log.role: log.topic for log in self.inputs}

    @property
    def copied(self) -> dict[str, tuple[str, ...]]:
        """Role of an input log whose records are copied -> the topics that they come from; empty without `rekey`."""
        named = {} if self.rekey is None else {role: getattr(self.rekey, role) for role in INPUTS}
        return {role: tuple(topics) for role, topics in named.items() if topics is not None}

    @property
    def labels_everywhere(self) -> bool:
        """Whether each label is copied to every partition, by `rekey.by`: only one knows that its instance is there."""
        return self.rekey is not None and self.rekey.by is not None and LABELS in self.copied

    @property
    def sources(self) -> dict[str, str]:
        """Topic that is copied -> role of the input log that it is copied to."""
        return {topic: role for role, topics in self.copied.items() for topic in topics}

    @property
    def rekey_group(self) -> str:
        """The consumer group in which workers copy."""
        return rekey_group(self.name, self.kafka.prefix)

    @property
    def group(self) -> str:
        """The consumer group of the workers."""
        return group_id(self.name, self.kafka.prefix)

    def mapping(self) -> records.Mapping:
        """Where the fields of the records are, as a codec needs it."""
        return self._mapping

    def make_codec(self, partition: int = 0) -> codecs.Codec:
        """What decodes and encodes the records of a partition. It keeps no state."""
        mapping = self._mapping
        if mapping.partition is not None:
            mapping = replace(mapping, partition=partition)
        return codecs.of_stream(self.codec.formats(), mapping, self._schemas)

    @property
    def schemas(self) -> Schemas:
        """What is known of the registry's schemas, for all codecs of this stream."""
        return self._schemas

    def header_topics(self) -> list[str]:
        """The input topics whose records are read with their headers: among them all copies, whose headers say where
        they come from."""
        asked, copied = self.make_codec().headers, self.copied
        wanted = {
            self.topics.features: asked.features or self.predictions.trace or FEATURES in copied,
            self.topics.labels: asked.labels or LABELS in copied,
        }
        return [topic for topic, is_wanted in wanted.items() if is_wanted and topic is not None]

    def vocabularies(self, recorded: bool = False) -> list[Vocabulary | None]:
        """A new vocabulary for each feature that is not numeric; None for the others. recorded : of those that records
        have."""
        new: list[Vocabulary | None] = []
        for feature in (self.recorded if recorded else self.features).values():
            if feature.type == records.BOOLEAN:
                new.append(Vocabulary(2, [False, True]))
            elif feature.type == records.NOMINAL:
                new.append(Vocabulary(feature.max_values, feature.values))
            else:
                new.append(None)
        return new

    def class_vocabulary(self) -> Vocabulary | None:
        """A new vocabulary of the classes; None where labels are numbers."""
        if self.task in records.VALUES:
            return None
        return Vocabulary(self.max_classes, self.classes, self.max_class_bytes)


def build(data: dict[str, Any], where: str = "stream") -> Spec:
    """A Spec from the fields of a stream file; `where` begins the sentence of a SpecError."""
    try:
        return Spec.model_validate(data)
    except ValidationError as error:
        said, cause = sentence(error, Spec), error.errors()[0].get("ctx", {}).get("error")
    raise SpecError(f"{where}: {said}") from cause


def loads(text: str, where: str = "stream") -> Spec:
    """A Spec from the text of a stream file. Raises SpecError as `load` does."""
    return build(parse_yaml(text, where), where)


def load(path: str | Path) -> Spec:
    """Read a stream file.

    Raises
    ------
    SpecError
        One sentence: the file, the field (or the line), what was expected, what was found, what to change.
    """
    return build(read_yaml(Path(path)), str(path))
