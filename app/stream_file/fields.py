"""The fields of a stream file, each with its type, default, range and meaning. Fields that are
sections have a module each in sections/, but for `predictions`, `metrics` and `checkpoint`, which share outputs.py.

The descriptions are what docs/reference/stream-file.md and the JSON Schema say (json_schema.py). Mistakes that pydantic
cannot see are ValueErrors that read on after the name of the field: "expected …, found …; do this".
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from riparian.app.stream_file.durations import duration
from riparian.app.stream_file.sections.base import NAME, Section, as_list, check_name
from riparian.app.stream_file.sections.codec import CodecSpec, RegistrySpec, codec_form
from riparian.app.stream_file.sections.decision import DecisionSpec, Weights
from riparian.app.stream_file.sections.drift import DriftSpec, drift_form
from riparian.app.stream_file.sections.join import JoinSpec
from riparian.app.stream_file.sections.kafka import KafkaSpec
from riparian.app.stream_file.sections.keys import KeySpec
from riparian.app.stream_file.sections.learning import LearningSpec
from riparian.app.stream_file.sections.models import AUTO, ModelSpec
from riparian.app.stream_file.sections.outputs import CheckpointSpec, MetricsSpec, PredictionsSpec
from riparian.app.stream_file.sections.promotion import PromotionSpec
from riparian.app.stream_file.sections.record import FeatureSpec, LabelSpec, RecordSpec, TopicsSpec, Values, name_keys
from riparian.app.stream_file.sections.rekey import RekeySpec


class Fields(Section):
    """What a stream file says."""

    name: Annotated[str, AfterValidator(check_name)] = Field(
        description="Name of the stream: of its topics, its consumer group and its metrics.",
        json_schema_extra={"pattern": f"^{NAME.pattern}$"},
    )
    task: Literal["classification", "regression", "multi-instance", "anomaly"] = Field(
        description="Task of the learners: `classification`, `regression`, `multi-instance`, the classification of "
        "bags of instances, or `anomaly`, which needs no labels."
    )
    partitions: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="Partitions with which topics are made. A stream goes on with those that its features and labels "
        "get.",
    )
    learning: LearningSpec = Field(
        default=LearningSpec(kind="partition"),
        description="What learns: `shared`, all partitions learn one model, "
        "`partition`, each has models of its own that see its records only, or `{max_behind: N}`, shared learning with "
        "a bound. Default: `shared` with two `partitions` or more and task `classification` or `regression`, else "
        "`partition`.",
    )
    replication: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Replication factor of the topics that Riparian creates; null for the broker's default "
        "(`default.replication.factor`).",
    )
    min_insync_replicas: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="`min.insync.replicas` of the topics that Riparian creates: how many replicas have a record before "
        "it is acknowledged; null for the broker's default.",
    )
    create_topics: Literal["missing", "never"] = Field(
        default="missing",
        description="Which topics Riparian creates: those that are `missing`, or `never` any. Then a start without "
        "them stops, with the commands that create them.",
    )
    grow: Literal["follow", "ask"] = Field(
        default="follow",
        description="Where features and labels got more partitions: `follow`, workers go on with them at once; `ask`, "
        "they wait for `riparian grow` ([more partitions](../run/scale.md#more-partitions)).",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none",
        description="Compression of the predictions and dead letters that workers write. The state is compressed by "
        "itself.",
    )
    standbys: int = Field(
        default=1, ge=0, le=10, description="Other workers that keep a copy of each partition's state in memory."
    )
    retention: duration("30d", 1.0) | None = Field(  # type: ignore[valid-type]
        default=None, description="How long the topics that Riparian creates keep records; null for ever."
    )
    lost: Literal["stop", "skip"] = Field(
        default="stop",
        description="What a worker does if Kafka has deleted records before they were learned: `stop`, or `skip` "
        "them and count.",
    )
    control: bool = Field(
        default=False,
        description="Whether the stream takes commands while it runs, from a topic of its own: `riparian promote` and "
        "others.",
    )
    topics: TopicsSpec = Field(default_factory=TopicsSpec, description="Names of topics.")
    rekey: RekeySpec | None = Field(
        default=None,
        description="Topics as they are, whatever their partitions and keys, which workers copy by the ids of their "
        "records.",
    )
    record: RecordSpec = Field(default_factory=RecordSpec, description="Where the fields of a feature record are.")
    label: LabelSpec = Field(default_factory=LabelSpec, description="Where the fields of a label record are.")
    features: Annotated[dict[str, FeatureSpec], BeforeValidator(name_keys)] = Field(
        min_length=1, description="Features by name, each with its type. Their order is the order of the columns."
    )
    keys: Annotated[dict[str, KeySpec], BeforeValidator(name_keys)] = Field(
        default_factory=dict,
        description="What records have in common that features may be over the past of, such as a card or a device, by "
        "a name of yours.",
    )
    classes: Values | None = Field(
        default=None,
        min_length=2,
        description="Class labels; any other label is rejected. If left out, classes are learned as they come. For "
        "bags: the two classes, the negative one first.",
    )
    max_classes: int = Field(
        default=100,
        ge=2,
        le=1000,
        description="Most classes that are learned; a label with a new one beyond is rejected.",
    )
    max_class_bytes: int = Field(
        default=128,
        ge=1,
        le=1024,
        description="Longest class that is learned, in bytes of its JSON text; a longer label is rejected. "
        "Predictions list every class.",
    )
    class_weights: Weights | None = Field(
        default=None,
        description="How much a label of a class counts in learning, such as `{fraud: 20}`; 1 of those left out. It "
        "raises the probabilities of the class.",
    )
    decision: DecisionSpec | None = Field(
        default=None,
        description="Which class a prediction names, where that is not the likeliest: by costs, or by a threshold that "
        "is kept at a target. Of the task `anomaly`: `{alert_rate: 0.01}`, for which share of the "
        "predictions `alert` is true.",
    )
    champion: ModelSpec = Field(
        default=ModelSpec(model=AUTO),
        description="Model whose predictions count: `{model: NAME, parameter: value, ...}` or just its name. Default: "
        "`auto`, a pool of learners that fits `max_bytes` (64,000,000) and `max_microseconds` an instance (100), and "
        "if challengers are left out, some to compare it with.",
    )
    challengers: Annotated[dict[str, ModelSpec], BeforeValidator(name_keys)] = Field(
        default_factory=dict, description="Models that run beside it on the same records, by a name of yours."
    )
    join: JoinSpec = Field(default_factory=JoinSpec, description="How features wait for their labels.")
    checkpoint: CheckpointSpec = Field(
        default_factory=CheckpointSpec, description="How often checkpoints are written, and which are kept."
    )
    drift: Annotated[DriftSpec, BeforeValidator(drift_form)] = Field(
        default_factory=DriftSpec, description="What watches for concept drift; `none` for nothing."
    )
    promotion: PromotionSpec | None = Field(
        default=None,
        description="Whether a challenger that is better becomes the champion: `automatic`, `propose`, or more. "
        "It needs `control: true`.",
    )
    metrics: MetricsSpec = Field(default_factory=MetricsSpec, description="How quality is reported.")
    predictions: PredictionsSpec = Field(default_factory=PredictionsSpec, description="What a prediction record holds.")
    codec: Annotated[CodecSpec, BeforeValidator(codec_form)] = Field(
        default_factory=CodecSpec, description="Format of the records: `json`, or one for each kind of record."
    )
    kafka: KafkaSpec = Field(
        default_factory=KafkaSpec,
        description="Settings of the connection under librdkafka's names, such as `security.protocol`. "
        "A secret may only be a reference.",
    )
    registry: RegistrySpec | None = Field(
        default=None,
        description="Schema registry of the formats whose records name a schema (`avro`, `json-schema`, `protobuf`).",
    )
    trust: Annotated[list[Literal["code", "pickles"]], BeforeValidator(as_list)] = Field(
        default_factory=list,
        description="What workers may run besides Riparian: `code` that this file names (a model's `import_path`), and "
        "`pickles` of such models in the state, which have to be signed. A file with `trust` is a program: "
        "review it as one.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="Seed of the learners' random numbers; each partition adds its number.",
    )
