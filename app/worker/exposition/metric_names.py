"""Every metric that a worker reports to Prometheus: name, kind, meaning and labels. Pure.

docs/reference/metrics.md is made from it (`python -m docs`). Labels are the stream, the partition, and what has few
values by design (model, scope, reason, topic, part, `le`): never an id or a key.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from riparian.app.partition.drift.events import ALARM

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LATENCY_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, MINUTE, HOUR)
STEP_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
WAIT_SECONDS = (  # the first: labels inside the features, or before them
    0.0, 0.01, 0.1, 1.0, 10.0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY
)  # fmt: skip
CHECKPOINT_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
BATCH_RECORDS = tuple(float(2**k) for k in range(15))


class Metric(NamedTuple):
    """One metric. labels : in METRICS besides stream and partition. text : what it is, with its unit."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


QUALITY = "over the whole stream (scope overall), the last labels (window) or with the past fading (fading)"
RECENT = "of the last labels (scope window) or with the past fading (fading)"

# metric of models.evaluation.prequential -> name, and what it is
_OF_MODEL = {
    "accuracy": ("riparian_accuracy_ratio", f"Prequential accuracy, {QUALITY}."),
    "kappa": ("riparian_kappa_ratio", f"Cohen's kappa, {QUALITY}."),
    "kappa_temporal": ("riparian_kappa_temporal_ratio", f"Kappa against repeating the label before, {QUALITY}."),
    "log_loss": ("riparian_log_loss_nats", f"Log loss in nats, {QUALITY}."),
    "f1_macro": ("riparian_f1_macro_ratio", f"Macro F1, {QUALITY}."),
    "balanced_accuracy": ("riparian_balanced_accuracy_ratio", f"Mean recall of the classes, {QUALITY}."),
    "auroc": (
        "riparian_auroc_ratio",
        "AUROC of two classes, of more the mean of each class against the rest, or of scores of anomalies, of the last "
        "labels (scope window).",
    ),
    "cost": ("riparian_mean_cost", f"Mean cost of a label (decision.costs), {QUALITY}."),
    "alert_rate": (
        "riparian_alert_rate_ratio",
        f"Share of the scored predictions that named the class of decision.class, {QUALITY}; of scores of anomalies, "
        "with or without labels, the share that were alerts.",
    ),
    "threshold": (
        "riparian_decision_threshold",
        "Probability, or score of anomalies, from which on that class is named now (scope window or fading).",
    ),
    "mae": ("riparian_mean_absolute_error", f"Mean absolute error, {QUALITY}."),
    "rmse": ("riparian_root_mean_squared_error", f"Root mean squared error, {QUALITY}."),
    "r2": ("riparian_r2_ratio", f"Coefficient of determination, {QUALITY}."),
    "calibration_error": (
        "riparian_calibration_error",
        f"Mean distance between confidence and accuracy, in 15 bins of confidence, {QUALITY}.",
    ),
    "coverage": ("riparian_coverage_ratio", f"Share of the labels that the interval or set held, {QUALITY}."),
    "interval_width": ("riparian_interval_width", f"Mean width of the intervals, in the target's unit, {QUALITY}."),
    "set_size": ("riparian_set_size_classes", f"Mean number of classes in a set, {QUALITY}."),
}
PREQUENTIAL = {field: name for field, (name, _) in _OF_MODEL.items()}

# figure of a class -> name, and what it is
_OF_CLASS = {
    "n": ("riparian_class_labels", f"Labels of a class among those that its shares are of, {RECENT}."),
    "recall": ("riparian_class_recall_ratio", f"Share of the labels of a class that were predicted, {RECENT}."),
    "precision": ("riparian_class_precision_ratio", f"Share of the predictions of a class that were right, {RECENT}."),
    "f1": ("riparian_class_f1_ratio", f"Harmonic mean of recall and precision of a class, {RECENT}."),
    "auroc": ("riparian_class_auroc_ratio", "AUROC of a class against the rest, of the last labels (scope window)."),
    "coverage": ("riparian_class_coverage_ratio", f"Share of the labels of a class that the set held, {RECENT}."),
}
OF_CLASS = {field: name for field, (name, _) in _OF_CLASS.items()}

# counter of the pending store -> name, and what it is
_OF_PENDING = {
    "joined": (
        "riparian_joined_instances_total",
        "Instances that met their label and were learned, since the stream began.",
    ),
    "expired": ("riparian_expired_instances_total", "Instances whose label did not come within the horizon."),
    "evicted": (
        "riparian_evicted_instances_total",
        "Instances pushed out, unlearned, by join.max_pending or join.max_pending_bytes.",
    ),
    "unmatched": (
        "riparian_unmatched_labels_total",
        "Labels that never met an instance, or pushed out by join.max_labels.",
    ),
    "repeated_ids": (
        "riparian_repeated_instances_total",
        "Instances that wait, or were learned, already: predicted, not learned.",
    ),
    "repeated_labels": ("riparian_repeated_labels_total", "Labels that waited, or were learned, already: dropped."),
    "corrected_labels": (
        "riparian_corrected_labels_total",
        "Labels other than the one that waited, or was learned: dropped.",
    ),
    "forgotten_ids": (
        "riparian_forgotten_ids_total",
        "Learned ids forgotten before join.horizon, by join.max_pending: their labels may come again unseen.",
    ),
    "null_labels": (
        "riparian_null_labels_total",
        "Instances that left unlearned for a label that is null: none will come.",
    ),
    "assumed": (
        "riparian_assumed_instances_total",
        "Instances learned without a label, as join.unlabelled says; they count as joined, too.",
    ),
    "corrections": (
        "riparian_corrections_total",
        "Labels that came for an instance which was learned by another one, and were learned, too.",
    ),
}
PENDING = {field: name for field, (name, _) in _OF_PENDING.items()}

INSTANCES = "riparian_instances_total"
LABELS = "riparian_labels_total"
WAITING = "riparian_waiting_instances"
LABELS_WAITING = "riparian_waiting_labels"
BEHIND = "riparian_model_behind_instances"
BEHIND_TIME = "riparian_model_behind_seconds"
BEHIND_WAIT = "riparian_model_behind_wait_seconds_total"
REJECTED = "riparian_rejected_records_total"
IGNORED = "riparian_ignored_records_total"
COMMANDS = "riparian_commands_total"
WAITED = "riparian_verification_latency_seconds"
DELAY = "riparian_label_delay_seconds"
LATENCY = "riparian_prediction_latency_seconds"
LAG = "riparian_consumer_lag_records"
BUFFERED = "riparian_buffered_records"
BUFFERED_BYTES = "riparian_buffered_bytes"
FORCED = "riparian_forced_merges_total"
UNKNOWN = "riparian_unknown_schemas"
SKIPPED = "riparian_skipped_records_total"
MOVED = "riparian_moved_labels_total"
LOST = "riparian_lost_records_total"
LEAPS = "riparian_timestamp_leaps_total"
BATCH = "riparian_batch_records"
STEP = "riparian_step_seconds"
DECODE = "riparian_decode_seconds_total"
KERNEL = "riparian_kernel_seconds_total"
SCORED = "riparian_scored_labels_total"
SCORED_UNTIL = "riparian_scored_until_timestamp_seconds"
NODES = "riparian_model_nodes"
LEAVES = "riparian_model_leaves"
DEPTH = "riparian_model_depth"
STATE = "riparian_state_bytes"
CHECKPOINT = "riparian_checkpoint_seconds"
CHECKPOINT_BYTES = "riparian_checkpoint_bytes_total"
CHECKPOINT_AGE = "riparian_checkpoint_age_seconds"
CHANGELOG = "riparian_changelog_bytes"
LIVE = "riparian_changelog_live_bytes"
FENCED = "riparian_fenced_partitions_total"
LOADED = "riparian_partition_loads_total"
STANDBYS = "riparian_standby_partitions"
APART = "riparian_ids_apart_ratio"
UNREAD = "riparian_unread_partitions"
UNMET = "riparian_labels_unmet"
REKEY_LAG = "riparian_rekey_lag_records"
BUILD = "riparian_build_info"
ASSIGNED = "riparian_assigned_timestamp_seconds"
DRIFTS = "riparian_drift_events_total"
DRIFT_TIME = "riparian_drift_last_event_timestamp_seconds"
ALERTING = "riparian_drift_alerting"
DISTANCE = "riparian_distribution_distance"
STABILITY = "riparian_population_stability_index"
MISSING = "riparian_missing_values_ratio"
UNSEEN = "riparian_unseen_values_ratio"
OUTSIDE = "riparian_out_of_range_values_ratio"
REPLACEMENTS = "riparian_model_replacements_total"
WAITS = "riparian_model_waits_total"
WAIT_TIME = "riparian_model_wait_seconds_total"
ESTIMATED = "riparian_estimated_accuracy_ratio"
ESTIMATE_ERROR = "riparian_estimated_accuracy_error"
OBSERVED = "riparian_observed_accuracy_ratio"
COVERAGE_TARGET = "riparian_coverage_target_ratio"
DECISION_TARGET = "riparian_decision_target_ratio"
ADVANTAGE = "riparian_challenger_advantage"
COMPARED = "riparian_challenger_compared_labels"
MODEL = "riparian_model_info"
SEGMENT_LABELS = "riparian_segment_labels"
SEGMENT_LOSS = "riparian_segment_loss"
SEGMENT_WORSE = "riparian_segment_worse"


def _all(kind: str, given: Mapping[str, tuple[str, str]], labels: tuple[str, ...] = ()) -> dict[str, Metric]:
    return {name: Metric(kind, text, labels) for name, text in given.values()}


METRICS: dict[str, Metric] = {
    INSTANCES: Metric(COUNTER, "Instances predicted, since the stream began."),
    LABELS: Metric(COUNTER, "Valid records of the labels topic, since the stream began."),
    **_all(COUNTER, _OF_PENDING),
    WAITING: Metric(GAUGE, "Instances that wait for their label."),
    LABELS_WAITING: Metric(GAUGE, "Labels that wait for their instance."),
    SCORED_UNTIL: Metric(GAUGE, "Record time, Unix, up to which all is scored, where labels wait for a time."),
    BEHIND: Metric(GAUGE, "Instances joined here that the shared model has not learned yet (learning: shared)."),
    BEHIND_TIME: Metric(GAUGE, "Seconds since the first of these was joined, 0 where there are none."),
    BEHIND_WAIT: Metric(COUNTER, "Seconds that predictions have waited for the shared model to learn them."),
    REJECTED: Metric(COUNTER, "Records sent to the dead letters, by reason.", ("reason",)),
    COMMANDS: Metric(COUNTER, "Commands to the stream, and what became of them.", ("command", "event")),
    IGNORED: Metric(COUNTER, "Deletes, tombstones and other changes that are no instances.", ("reason",)),
    DELAY: Metric(
        GAUGE, "Mean time from features to label, of the labels of a class since the assignment.", ("class",)
    ),
    WAITED: Metric(HISTOGRAM, "From features to label, by their Kafka timestamps.", (), WAIT_SECONDS),
    LATENCY: Metric(
        HISTOGRAM, "From the features' Kafka timestamp to the prediction with the producer.", (), LATENCY_SECONDS
    ),
    LAG: Metric(
        GAUGE, "Records of an input topic not applied yet, but for commands that wait for an instance.", ("topic",)
    ),
    BUFFERED: Metric(GAUGE, "Records of an input topic in memory, waiting to be merged.", ("topic",)),
    BUFFERED_BYTES: Metric(GAUGE, "Bytes of records of an input topic in memory, until they are learned.", ("topic",)),
    UNKNOWN: Metric(GAUGE, "Schemas that records wait for and the registry has not sent, or does not have."),
    FORCED: Metric(COUNTER, "Merges that no longer waited for the other topic (join.max_wait)."),
    SKIPPED: Metric(COUNTER, "Records fetched again that the state knew already."),
    MOVED: Metric(COUNTER, "Labels handed on to where their keys went before the topics grew."),
    LOST: Metric(COUNTER, "Records that Kafka deleted before they were taken, since the stream began.", ("topic",)),
    LEAPS: Metric(
        COUNTER,
        "Timestamps more than a minute ahead: how often others confirmed it, and records that none did, since the "
        "stream began.",
        ("topic", "outcome"),
    ),
    BATCH: Metric(HISTOGRAM, "Instances and labels in a step.", (), BATCH_RECORDS),
    STEP: Metric(
        HISTOGRAM,
        "A step's own time, as it passes: decode, join, predict, learn, encode. Of joint work its share, by records.",
        (),
        STEP_SECONDS,
    ),
    DECODE: Metric(COUNTER, "Seconds spent decoding records."),
    KERNEL: Metric(COUNTER, "Seconds spent in the models and their evaluation."),
    WAITS: Metric(COUNTER, "Times that the stream waited for a batch learner's fit.", ("model",)),
    WAIT_TIME: Metric(COUNTER, "Seconds that it waited.", ("model",)),
    SCORED: Metric(COUNTER, "Predictions of a model that met their label, since the stream began.", ("model",)),
    **_all(GAUGE, _OF_MODEL, ("model", "scope")),
    **_all(GAUGE, _OF_CLASS, ("model", "scope", "class")),
    COVERAGE_TARGET: Metric(GAUGE, "Share of the labels that predictions.coverage asks for."),
    DECISION_TARGET: Metric(GAUGE, "What decision asks for of a class.", ("target", "class")),
    ESTIMATED: Metric(
        GAUGE,
        "Accuracy expected of the last predictions, before labels come: by how much confidence has changed.",
        ("model",),
    ),
    ESTIMATE_ERROR: Metric(
        GAUGE, "Calibrated confidence minus the accuracy that the last labels show; it is subtracted.", ("model",)
    ),
    OBSERVED: Metric(
        GAUGE, "Accuracy that about the last 1,000 labels of the partition show, the newest counting most.", ("model",)
    ),
    SEGMENT_LABELS: Metric(
        GAUGE,
        "Labels by value of a feature (metrics.segments), fading over the window (span now) or ten (before); 32 values "
        "at most, (missing) and (others).",
        ("feature", "value", "span"),
    ),
    SEGMENT_LOSS: Metric(
        GAUGE,
        "Their mean loss: mistakes, missed labels of the class of decision, cost, or absolute error.",
        ("feature", "value", "span"),
    ),
    SEGMENT_WORSE: Metric(GAUGE, "1 while that has surely risen by more than the others'.", ("feature", "value")),
    ADVANTAGE: Metric(
        GAUGE,
        "Champion's mean loss minus a challenger's (bound mean), and the interval around it that holds at all times "
        "(low, high): errors per label, or in the target's unit.",
        ("model", "bound"),
    ),
    COMPARED: Metric(GAUGE, "Labels that this advantage is the mean of.", ("model",)),
    DRIFTS: Metric(
        COUNTER,
        "Changes that drift detectors saw in a model's errors or predictions, or (model empty) in a feature, since the "
        "stream began.",
        ("model", "detector", "signal", "level"),
    ),
    DRIFT_TIME: Metric(
        GAUGE, "Kafka timestamp at the last of these (Unix time).", ("model", "detector", "signal", "level")
    ),
    ALERTING: Metric(
        GAUGE, f"1 for {ALARM:,} labels (values) after a drift; none where on_drift is nothing.", ("model",)
    ),
    DISTANCE: Metric(
        GAUGE,
        "Hellinger distance of the newest values of a feature (model empty), or of what a model predicts, from the "
        "reference: 0 to 1.",
        ("model", "signal"),
    ),
    STABILITY: Metric(GAUGE, "Population stability index of the same.", ("model", "signal")),
    MISSING: Metric(GAUGE, "Share of the newest values that are missing.", ("model", "signal")),
    UNSEEN: Metric(
        GAUGE, "Share of the newest values that the sample of the reference had not (nominal).", ("model", "signal")
    ),
    OUTSIDE: Metric(
        GAUGE, "Share of the newest values beyond the range of the reference's sample (numeric).", ("model", "signal")
    ),
    REPLACEMENTS: Metric(
        COUNTER, "Models that were reset or replaced after a drift, and fresh ones dropped.", ("model", "action")
    ),
    NODES: Metric(GAUGE, "Nodes of a model.", ("model",)),
    LEAVES: Metric(GAUGE, "Leaves of a model.", ("model",)),
    DEPTH: Metric(GAUGE, "Depth of a model.", ("model",)),
    STATE: Metric(
        GAUGE,
        "Bytes of state: each model, the pending store, and drift (detectors, models on trial).",
        ("part",),
    ),
    CHECKPOINT: Metric(HISTOGRAM, "From a checkpoint's snapshot until it is durable.", (), CHECKPOINT_SECONDS),
    CHECKPOINT_BYTES: Metric(COUNTER, "Bytes written to the changelog by checkpoints, compressed."),
    CHECKPOINT_AGE: Metric(GAUGE, "Seconds of work that the last checkpoint lacks."),
    CHANGELOG: Metric(GAUGE, "Bytes that the partition's changelog keeps, at the last checkpoint."),
    LIVE: Metric(GAUGE, "Bytes of it that are live: the last checkpoint, and older ones kept to roll back to."),
    ASSIGNED: Metric(GAUGE, "When the partition was assigned to this worker (Unix time)."),
    MODEL: Metric(GAUGE, "1, with the learner behind each model.", ("model", "learner")),
}

# Of a worker as a whole, without partition but for REKEY_LAG.
OF_WORKER: dict[str, Metric] = {
    FENCED: Metric(COUNTER, "Partitions lost to another worker while writing.", ("stream",)),
    LOADED: Metric(COUNTER, "Partitions loaded from their last checkpoint by this worker.", ("stream",)),
    APART: Metric(
        GAUGE, "Share of sampled ids whose label is in another partition; 0 while joins are usual.", ("stream",)
    ),
    UNREAD: Metric(
        GAUGE,
        "Partitions of an input topic that came after the stream began, and that no worker reads.",
        ("stream", "topic"),
    ),
    UNMET: Metric(
        GAUGE, "1 while next to none of the last instances and labels, 1,000 or more, met; 0 otherwise.", ("stream",)
    ),
    REKEY_LAG: Metric(
        GAUGE,
        "Records of a partition of a topic of rekey, copied by this worker, that were not copied yet.",
        ("stream", "partition", "topic"),
    ),
    STANDBYS: Metric(GAUGE, "Partitions whose state is kept warm here.", ("stream",)),
    BUILD: Metric(
        GAUGE, "1, with the worker's versions.", ("version", "python", "numba", "numpy", "aiokafka", "faust")
    ),
}


def all_metrics() -> Iterator[tuple[str, Metric, tuple[str, ...]]]:
    """Name, metric and all labels of each."""
    for name, metric in METRICS.items():
        yield name, metric, ("stream", "partition", *metric.labels)
    for name, metric in OF_WORKER.items():
        yield name, metric, metric.labels
