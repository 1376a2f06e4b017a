"""What a worker tells Prometheus: the metrics of its partitions at `/metrics`, and whether they are alive at `/health`.

All names are in METRICS, once; docs/metrics.md explains them. Labels are the stream, the partition, and what has few
values by design (model, scope, reason, topic, part, `le`): never an id or a key. A partition's series are there while
the partition is assigned to this worker.

Counts of the stream (instances, labels, joined, …) are part of the state: they go on where they were after a restart.
Counts of the work (steps, seconds, latencies, rejected records) begin at zero with each assignment.

A step costs 11 µs here, and 0.02 µs per record: arrays go into histograms whole, and everything else is read from the
runners when somebody scrapes.
"""

import os
import socket
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from app import __version__
from app.partition.distributions import MOST_TOLD
from app.partition.drift import ALARM
from app.partition.outcome import Outcome
from app.partition.role import REACTIONS
from app.stream_file.spec import Spec
from app.worker.histogram import Histogram
from topics import names
from topics.records import PartitionRecord

if TYPE_CHECKING:
    from app.worker.engine import Engine
    from app.worker.runner import Runner

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LATENCY_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, MINUTE, HOUR)
STEP_SECONDS = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
WAIT_SECONDS = (  # the first: labels inside the features, or before them
    0.0, 0.01, 0.1, 1.0, 10.0, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY
)  # fmt: skip
CHECKPOINT_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
RECENT_STEPS, RECENT_VALUES = 500, 200  # 800 kB a partition at most, of latencies and of delays
BATCH_RECORDS = tuple(float(2**k) for k in range(15))


class Measure(NamedTuple):
    """One metric. labels : besides stream and partition. text : what it is, with its unit."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()


# metric of models.prequential -> name
PREQUENTIAL = {
    "accuracy": "riparian_accuracy_ratio",
    "kappa": "riparian_kappa_ratio",
    "kappa_temporal": "riparian_kappa_temporal_ratio",
    "log_loss": "riparian_log_loss_nats",
    "f1_macro": "riparian_f1_macro_ratio",
    "balanced_accuracy": "riparian_balanced_accuracy_ratio",
    "auroc": "riparian_auroc_ratio",
    "cost": "riparian_mean_cost",
    "alert_rate": "riparian_alert_rate_ratio",
    "threshold": "riparian_decision_threshold",
    "mae": "riparian_mean_absolute_error",
    "rmse": "riparian_root_mean_squared_error",
    "r2": "riparian_r2_ratio",
    "calibration_error": "riparian_calibration_error",
    "coverage": "riparian_coverage_ratio",
    "interval_width": "riparian_interval_width",
    "set_size": "riparian_set_size_classes",
}

# figure of a class -> name
OF_CLASS = {
    "n": "riparian_class_labels",
    "recall": "riparian_class_recall_ratio",
    "precision": "riparian_class_precision_ratio",
    "f1": "riparian_class_f1_ratio",
}

# counter of the pending store -> name
PENDING = {
    "joined": "riparian_joined_instances_total",
    "expired": "riparian_expired_instances_total",
    "evicted": "riparian_evicted_instances_total",
    "unmatched": "riparian_unmatched_labels_total",
    "repeated_ids": "riparian_repeated_instances_total",
    "repeated_labels": "riparian_repeated_labels_total",
}

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
LATENCY = "riparian_prediction_latency_seconds"
LAG = "riparian_consumer_lag_records"
BUFFERED = "riparian_buffered_records"
BUFFERED_BYTES = "riparian_buffered_bytes"
FORCED = "riparian_forced_merges_total"
SKIPPED = "riparian_skipped_records_total"
LOST = "riparian_lost_records_total"
LEAPS = "riparian_timestamp_leaps_total"
BATCH = "riparian_batch_records"
STEP = "riparian_step_seconds"
DECODE = "riparian_decode_seconds_total"
KERNEL = "riparian_kernel_seconds_total"
SCORED = "riparian_scored_labels_total"
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
REKEY_LAG = "riparian_rekey_lag_records"
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

QUALITY = "over the whole stream (scope overall), the last labels (window) or with the past fading (fading)"
RECENT = "of the last labels (scope window) or with the past fading (fading)"
BY_CLASS = ("model", "scope", "class")

METRICS: dict[str, Measure] = {
    INSTANCES: Measure(COUNTER, "Instances predicted, since the stream began."),
    LABELS: Measure(COUNTER, "Records of the labels topic taken, since the stream began."),
    PENDING["joined"]: Measure(COUNTER, "Instances that met their label and were learned, since the stream began."),
    WAITING: Measure(GAUGE, "Instances that wait for their label."),
    LABELS_WAITING: Measure(GAUGE, "Labels that wait for their instance."),
    BEHIND: Measure(GAUGE, "Instances joined here that the shared model has not learned yet (learning: shared)."),
    BEHIND_TIME: Measure(GAUGE, "Seconds since the first of these was joined, 0 where there are none."),
    BEHIND_WAIT: Measure(COUNTER, "Seconds that predictions have waited for the shared model to learn them."),
    PENDING["expired"]: Measure(COUNTER, "Instances whose label did not come within the horizon."),
    PENDING["evicted"]: Measure(
        COUNTER, "Instances pushed out, unlearned, by join.max_pending or join.max_pending_bytes."
    ),
    PENDING["unmatched"]: Measure(COUNTER, "Labels that never met an instance, or pushed out by join.max_labels."),
    PENDING["repeated_ids"]: Measure(COUNTER, "Instances whose id was waiting already: predicted, not learned."),
    PENDING["repeated_labels"]: Measure(COUNTER, "Labels of an id whose label was waiting already: dropped."),
    REJECTED: Measure(COUNTER, "Records sent to the dead letters, by reason.", ("reason",)),
    COMMANDS: Measure(COUNTER, "Commands to the stream, and what became of them.", ("command", "event")),
    IGNORED: Measure(COUNTER, "Deletes, tombstones and other changes that are no instances.", ("reason",)),
    WAITED: Measure(HISTOGRAM, "From features to label, by their Kafka timestamps.", (), WAIT_SECONDS),
    LATENCY: Measure(
        HISTOGRAM, "From the features' Kafka timestamp to the prediction with the producer.", (), LATENCY_SECONDS
    ),
    LAG: Measure(GAUGE, "Records of an input topic that were not applied yet.", ("topic",)),
    BUFFERED: Measure(GAUGE, "Records of an input topic in memory, waiting to be merged.", ("topic",)),
    BUFFERED_BYTES: Measure(GAUGE, "Bytes of records of an input topic in memory, until they are learned.", ("topic",)),
    FORCED: Measure(COUNTER, "Merges that no longer waited for the other topic (join.max_wait)."),
    SKIPPED: Measure(COUNTER, "Records fetched again that the state knew already."),
    LOST: Measure(COUNTER, "Records that Kafka deleted before they were taken, since the stream began.", ("topic",)),
    LEAPS: Measure(
        COUNTER,
        "Timestamps more than a minute ahead: how often others confirmed it, and records that none did, since the "
        "stream began.",
        ("topic", "outcome"),
    ),
    BATCH: Measure(HISTOGRAM, "Instances and labels in a step.", (), BATCH_RECORDS),
    STEP: Measure(HISTOGRAM, "A step: decode, join, predict, learn, encode, hand to the producer.", (), STEP_SECONDS),
    DECODE: Measure(COUNTER, "Seconds spent decoding records."),
    KERNEL: Measure(COUNTER, "Seconds spent in the models and their evaluation."),
    WAITS: Measure(COUNTER, "Times that the stream waited for a batch learner's fit.", ("model",)),
    WAIT_TIME: Measure(COUNTER, "Seconds that it waited.", ("model",)),
    SCORED: Measure(COUNTER, "Predictions of a model that met their label, since the stream began.", ("model",)),
    PREQUENTIAL["accuracy"]: Measure(GAUGE, f"Prequential accuracy, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["kappa"]: Measure(GAUGE, f"Cohen's kappa, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["kappa_temporal"]: Measure(
        GAUGE, f"Kappa against repeating the label before, {QUALITY}.", ("model", "scope")
    ),
    PREQUENTIAL["log_loss"]: Measure(GAUGE, f"Log loss in nats, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["f1_macro"]: Measure(GAUGE, f"Macro F1, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["balanced_accuracy"]: Measure(GAUGE, f"Mean recall of the classes, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["auroc"]: Measure(
        GAUGE, f"AUROC of two classes, or of scores of anomalies, {QUALITY}.", ("model", "scope")
    ),
    PREQUENTIAL["cost"]: Measure(GAUGE, f"Mean cost of a label (decision.costs), {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["alert_rate"]: Measure(
        GAUGE, f"Share of the scored predictions that named the class of decision.class, {QUALITY}.", ("model", "scope")
    ),
    PREQUENTIAL["threshold"]: Measure(
        GAUGE, "Probability from which on that class is named now (scope window or fading).", ("model", "scope")
    ),
    PREQUENTIAL["mae"]: Measure(GAUGE, f"Mean absolute error, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["rmse"]: Measure(GAUGE, f"Root mean squared error, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["r2"]: Measure(GAUGE, f"Coefficient of determination, {QUALITY}.", ("model", "scope")),
    PREQUENTIAL["calibration_error"]: Measure(
        GAUGE,
        f"Mean distance between confidence and accuracy, in 15 bins of confidence, {QUALITY}.",
        ("model", "scope"),
    ),
    PREQUENTIAL["coverage"]: Measure(
        GAUGE, f"Share of the labels that the interval or set said for them held, {QUALITY}.", ("model", "scope")
    ),
    PREQUENTIAL["interval_width"]: Measure(
        GAUGE, f"Mean width of the intervals, in the target's unit, {QUALITY}.", ("model", "scope")
    ),
    PREQUENTIAL["set_size"]: Measure(GAUGE, f"Mean number of classes in a set, {QUALITY}.", ("model", "scope")),
    OF_CLASS["n"]: Measure(GAUGE, f"Labels of a class among those that its shares are of, {RECENT}.", BY_CLASS),
    OF_CLASS["recall"]: Measure(GAUGE, f"Share of the labels of a class that were predicted, {RECENT}.", BY_CLASS),
    OF_CLASS["precision"]: Measure(GAUGE, f"Share of the predictions of a class that were right, {RECENT}.", BY_CLASS),
    OF_CLASS["f1"]: Measure(GAUGE, f"Harmonic mean of recall and precision of a class, {RECENT}.", BY_CLASS),
    COVERAGE_TARGET: Measure(GAUGE, "Share of the labels that predictions.coverage asks for."),
    DECISION_TARGET: Measure(GAUGE, "What decision asks for of a class.", ("target", "class")),
    ESTIMATED: Measure(
        GAUGE, "Accuracy expected of the last predictions, by calibrated confidence, before labels come.", ("model",)
    ),
    ESTIMATE_ERROR: Measure(GAUGE, "What was expected minus the accuracy that the last labels show.", ("model",)),
    OBSERVED: Measure(
        GAUGE, "Accuracy that about the last 1,000 labels of the partition show, the newest counting most.", ("model",)
    ),
    ADVANTAGE: Measure(
        GAUGE,
        "Champion's mean loss minus a challenger's (bound mean), and the interval around it that holds at all times "
        "(low, high): errors per label, or in the target's unit.",
        ("model", "bound"),
    ),
    COMPARED: Measure(GAUGE, "Labels that this advantage is the mean of.", ("model",)),
    DRIFTS: Measure(
        COUNTER,
        "Changes that drift detectors saw in a model's errors or predictions, or (model empty) in a feature, since the "
        "stream began.",
        ("model", "detector", "signal", "level"),
    ),
    DRIFT_TIME: Measure(
        GAUGE, "Kafka timestamp at the last of these (Unix time).", ("model", "detector", "signal", "level")
    ),
    ALERTING: Measure(
        GAUGE, f"1 for {ALARM:,} labels (values) after a drift; none where on_drift is nothing.", ("model",)
    ),
    DISTANCE: Measure(
        GAUGE,
        "Hellinger distance of the newest values of a feature (model empty), or of what a model predicts, from the "
        "reference: 0 to 1.",
        ("model", "signal"),
    ),
    STABILITY: Measure(GAUGE, "Population stability index of the same.", ("model", "signal")),
    MISSING: Measure(GAUGE, "Share of the newest values that are missing.", ("model", "signal")),
    UNSEEN: Measure(
        GAUGE, "Share of the newest values that the sample of the reference had not (nominal).", ("model", "signal")
    ),
    OUTSIDE: Measure(
        GAUGE, "Share of the newest values beyond the range of the reference's sample (numeric).", ("model", "signal")
    ),
    REPLACEMENTS: Measure(
        COUNTER, "Models that were reset or replaced after a drift, and fresh ones dropped.", ("model", "action")
    ),
    NODES: Measure(GAUGE, "Nodes of a model.", ("model",)),
    LEAVES: Measure(GAUGE, "Leaves of a model.", ("model",)),
    DEPTH: Measure(GAUGE, "Depth of a model.", ("model",)),
    STATE: Measure(GAUGE, "Bytes of state by part: each model, and the pending store.", ("part",)),
    CHECKPOINT: Measure(HISTOGRAM, "From a checkpoint's snapshot to its offsets committed.", (), CHECKPOINT_SECONDS),
    CHECKPOINT_BYTES: Measure(COUNTER, "Bytes written to the changelog by checkpoints, compressed."),
    CHECKPOINT_AGE: Measure(GAUGE, "Age of the last checkpoint, or 0 when nothing happened since."),
    CHANGELOG: Measure(GAUGE, "Bytes that the partition's changelog keeps, at the last checkpoint."),
    LIVE: Measure(GAUGE, "Bytes of it that are live: the last checkpoint, and older ones kept to roll back to."),
    ASSIGNED: Measure(GAUGE, "When the partition was assigned to this worker (Unix time)."),
    MODEL: Measure(GAUGE, "1, with the learner behind each model.", ("model", "learner")),
}


class Series:
    """What is counted of one partition in this assignment."""

    def __init__(self, runner: "Runner") -> None:
        self.runner = runner
        self.histograms = {name: Histogram(m.bounds) for name, m in METRICS.items() if m.kind == HISTOGRAM}
        self.rejected: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.commands: Counter[tuple[str, str]] = Counter()
        self.decode_seconds = 0.0
        self.kernel_seconds = 0.0
        self.checkpoint_bytes = 0
        self.last_step = 0.0  # monotonic
        self.checkpoint_seconds: float | None = None  # of the last one
        # Values since the partition was told of last: the newest RECENT_STEPS steps, at most RECENT_VALUES of each.
        self.latencies: deque[Any] = deque(maxlen=RECENT_STEPS)
        self.delays: deque[Any] = deque(maxlen=RECENT_STEPS)
        self.last_snapshot = time.monotonic()


class Metrics:
    """The observer of a stream's runners in this worker, and what Prometheus scrapes of them (`scrape`).

    Parameters
    ----------
    spec : Spec
        The stream whose partitions are reported.
    worker : str, optional
        What the worker is called in the records of its partitions: host and port of its web server.
    """

    def __init__(self, spec: Spec, worker: str | None = None) -> None:
        self.spec = spec
        self.worker = worker or f"{socket.gethostname()} (process {os.getpid()})"
        self._series: dict[int, Series] = {}
        self._engine: Engine | None = None

    # -- what the runners report -------------------------------------------------------------------------------

    def stepped(self, runner: "Runner", outcome: Outcome, seconds: float) -> None:
        """A batch was applied and its predictions were handed to the producer."""
        series = self._of(runner)
        histograms = series.histograms
        # A restarted worker goes through instances again whose predictions were sent before: they have no latency.
        fresh = outcome.feature_times[outcome.offsets.searchsorted(runner.sent_offset) :]
        latency = (time.time() * 1000.0 - fresh) / 1000.0
        latency, waited = latency.clip(min=0.0), outcome.waited.clip(min=0.0)  # negative: the sender's clock is ahead
        histograms[LATENCY].observe_many(latency)
        histograms[WAITED].observe_many(waited)
        series.latencies.append(latency[-RECENT_VALUES:].copy())
        series.delays.append(waited[-RECENT_VALUES:].copy())
        histograms[BATCH].observe(len(outcome.ids) + outcome.n_labels)
        histograms[STEP].observe(seconds)
        series.ignored.update(outcome.ignored)
        series.commands.update((event.command, event.event) for event in outcome.events)
        series.decode_seconds += outcome.decode_seconds
        series.kernel_seconds += outcome.kernel_seconds
        series.last_step = time.monotonic()

    def rejected(self, runner: "Runner", reason: str) -> None:
        """A record went to the dead letters."""
        self._of(runner).rejected[reason] += 1

    def checkpointed(self, runner: "Runner", seconds: float, n_bytes: int) -> None:
        """A manifest is durable; `seconds` ago its snapshot was taken."""
        series = self._of(runner)
        series.histograms[CHECKPOINT].observe(seconds)
        series.checkpoint_bytes += n_bytes
        series.last_snapshot = time.monotonic() - seconds
        series.checkpoint_seconds = seconds

    def of_partition(self, runner: "Runner") -> PartitionRecord:
        """How a partition is doing, since the last call as far as latency and delay are meant."""
        series, learner, figures = self._of(runner), runner.learner, runner.figures
        p50, p99 = _quantiles(series.latencies, (0.5, 0.99))
        (delay,) = _quantiles(series.delays, (0.5,))
        ends = {role: runner.host.end_offset(tp) for role, tp in runner.tps.items()}
        offsets = {**learner.offsets, names.FEATURES: figures.offset, names.LABELS: figures.label_offset}
        return PartitionRecord(
            stream=self.spec.name,
            partition=runner.partition,
            time=int(time.time() * 1000),
            started=int(runner.started * 1000),
            worker=self.worker,
            version=__version__,
            offset=figures.offset,
            label_offset=figures.label_offset,
            instances=figures.n_instances,
            labels=figures.n_labels,
            learned=figures.counts["joined"],
            waiting=figures.n_waiting,
            lag={role: max(0, end - offsets[role]) for role, end in ends.items() if end is not None},
            state_bytes=sum(figures.n_bytes.values()),
            checkpoint_age=round(self._age(series), 3),
            checkpoint_seconds=series.checkpoint_seconds,
            latency_p50=p50,
            latency_p99=p99,
            delay_p50=delay,
            rejected=dict(series.rejected),
            alarms=[role for role, on in learner.drift.alarms().items() if on and (learner.tells or not role)],
            distances=sorted(figures.distances, key=lambda one: -one.hellinger)[:MOST_TOLD],
        )

    def dropped(self, partition: int) -> None:
        """The partition is no longer ours: its series end."""
        self._series.pop(partition, None)

    def _of(self, runner: "Runner") -> Series:
        series = self._series.get(runner.partition)
        if series is None or series.runner is not runner:  # assigned anew
            series = self._series[runner.partition] = Series(runner)
        return series

    # -- what is scraped ---------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """All families; called at each scrape."""
        kinds = {COUNTER: CounterMetricFamily, GAUGE: GaugeMetricFamily, HISTOGRAM: HistogramMetricFamily}
        families: dict[str, Any] = {
            name: kinds[measure.kind](name, measure.text, labels=("stream", "partition", *measure.labels))
            for name, measure in METRICS.items()
        }
        runners = {partition: series.runner for partition, series in self._series.items()}
        if self._engine is not None:
            runners |= self._engine.runners
        for partition, runner in sorted(runners.items()):
            series = self._of(runner)
            first = (self.spec.name, str(partition))
            for name, labels, value in self._values(series):
                families[name].add_metric((*first, *labels), value)
            for name, histogram in series.histograms.items():
                families[name].add_metric(first, histogram.buckets(), histogram.sum)
        copier = None if self._engine is None else self._engine.copier
        if copier is not None:
            for tp, n in copier.lost.items():
                families[LOST].add_metric((self.spec.name, str(tp.partition), tp.topic), n)
        yield from families.values()
        engine = self._engine
        fenced = CounterMetricFamily(FENCED, "Partitions lost to another worker while writing.", labels=("stream",))
        fenced.add_metric((self.spec.name,), 0 if engine is None else engine.n_fenced)
        yield fenced
        loaded = CounterMetricFamily(
            LOADED, "Partitions loaded from their last checkpoint by this worker.", labels=("stream",)
        )
        loaded.add_metric((self.spec.name,), 0 if engine is None else engine.n_loaded)
        yield loaded
        apart = GaugeMetricFamily(
            APART,
            "Share of sampled ids whose label is in another partition; 0 while joins are usual.",
            labels=("stream",),
        )
        apart.add_metric((self.spec.name,), 0 if engine is None else engine.silence.apart)
        yield apart
        lag = GaugeMetricFamily(
            REKEY_LAG,
            "Records of a partition of a topic of rekey, copied by this worker, that were not copied yet.",
            labels=("stream", "partition", "topic"),
        )
        if copier is not None:
            for tp, n in sorted(copier.lags().items()):
                lag.add_metric((self.spec.name, str(tp.partition), tp.topic), n)
        yield lag
        standbys = GaugeMetricFamily(STANDBYS, "Partitions whose state is kept warm here.", labels=("stream",))
        standbys.add_metric((self.spec.name,), 0 if engine is None else len(engine.follower.standbys))
        yield standbys

    def _values(self, series: Series) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Name, labels and value of all that is not a histogram."""
        runner, learner, figures = series.runner, series.runner.learner, series.runner.figures
        # Plain numbers that a step in another thread may be changing: each is whole, and the next scrape is near.
        yield INSTANCES, (), learner.n_instances
        yield LABELS, (), learner.n_labels
        yield WAITING, (), learner.pending.n_waiting
        yield LABELS_WAITING, (), learner.pending.n_labels_waiting
        if learner.sharing is not None:
            yield BEHIND, (), learner.sharing.behind
        if runner.shared is not None:
            yield BEHIND_TIME, (), runner.shared.behind.seconds
            yield BEHIND_WAIT, (), runner.shared.behind.wait_seconds
        for counter, name in PENDING.items():
            yield name, (), learner.pending.counts[counter]
        yield FORCED, (), runner.n_forced
        yield SKIPPED, (), runner.n_skipped
        yield DECODE, (), series.decode_seconds
        yield KERNEL, (), series.kernel_seconds
        yield CHECKPOINT_BYTES, (), series.checkpoint_bytes
        yield CHECKPOINT_AGE, (), self._age(series)
        yield CHANGELOG, (), runner.checkpoints.changelog_bytes
        yield LIVE, (), runner.checkpoints.live_bytes
        yield ASSIGNED, (), runner.started
        for reason, n in series.rejected.items():
            yield REJECTED, (reason,), n
        for reason, n in series.ignored.items():
            yield IGNORED, (reason,), n
        for labels, n in series.commands.items():
            yield COMMANDS, labels, n
        yield from self._inputs(runner)
        scope = "fading" if learner.spec.metrics.fading else "window"
        for role, overall in figures.overall.items():
            if role not in learner.roles:  # a command has just dropped it
                continue
            for field, name in PREQUENTIAL.items():
                for span, found in (("overall", overall), (scope, figures.recent[role])):
                    if field in found:
                        yield name, (role, span), found[field]
        for role, running in learner.roles.items() if learner.tells else ():
            yield MODEL, (role, running.learner_name), 1
            if role not in figures.overall:  # a command has just brought it
                continue
            yield SCORED, (role,), figures.overall[role].get("n", 0)
            for text, known in figures.by_class.get(role, {}).items():
                for field, value in known.items():
                    yield OF_CLASS[field], (role, scope, text), value
            size = figures.sizes[role]
            for field, name in (("n_nodes", NODES), ("n_leaves", LEAVES), ("depth", DEPTH)):
                yield name, (role,), size.get(field, 0)
            if running.model.n_waits is not None:
                yield WAITS, (role,), running.model.n_waits
                yield WAIT_TIME, (role,), running.model.wait_seconds
            for action, n in zip(REACTIONS, running.reactions.tolist(), strict=True) if running.watched else ():
                yield REPLACEMENTS, (role, action), n
        if self.spec.predictions.coverage is not None:
            yield COVERAGE_TARGET, (), self.spec.predictions.coverage
        decision = learner.spec.decision
        if decision is not None and decision.target is not None and decision.class_ is not None:
            yield DECISION_TARGET, (decision.target[0], decision.class_), decision.target[1]
        for role, estimated in figures.estimated.items():
            for field, name in (("accuracy", ESTIMATED), ("error", ESTIMATE_ERROR), ("observed", OBSERVED)):
                if field in estimated:
                    yield name, (role,), estimated[field]
        for role, compared in figures.compared.items():
            yield COMPARED, (role,), compared["labels"]
            for bound, field in (("mean", "difference"), ("low", "low"), ("high", "high")):
                yield ADVANTAGE, (role, bound), compared[field]
        for role, signal, detector, level, n, last in learner.drift.events():
            if role and not learner.tells:
                continue
            yield DRIFTS, (role, detector, signal, level), n
            if n:
                yield DRIFT_TIME, (role, detector, signal, level), last / 1000.0
        for one in figures.distances:
            shares = ((DISTANCE, one.hellinger), (STABILITY, one.psi), (MISSING, one.missing))
            for name, share in (*shares, (UNSEEN, one.unseen), (OUTSIDE, one.outside)):
                if share is not None:
                    yield name, (one.model or "", one.signal), share
        for role, alerting in learner.drift.alarms().items():
            if not role or learner.tells:
                yield ALERTING, (role,), alerting
        for part, n_bytes in figures.n_bytes.items():
            yield STATE, (part,), n_bytes

    def _inputs(self, runner: "Runner") -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Lag and buffer of each input topic."""
        host, learner = runner.host, runner.learner
        for role, tp in runner.tps.items():
            yield BUFFERED, (tp.topic,), len(runner.buffers[role])
            yield BUFFERED_BYTES, (tp.topic,), host.buffered_bytes(tp)
            yield LOST, (tp.topic,), runner.gaps.n(role)
            for outcome, n in zip(("believed", "ignored"), learner.clocks[role].leaps, strict=True):
                yield LEAPS, (tp.topic, outcome), n
            end = host.end_offset(tp)
            if end is not None:
                yield LAG, (tp.topic,), max(0, end - learner.offsets[role])

    def watch(self, engine: "Engine") -> None:
        """Show the partitions of an engine from now on, also those that have learned nothing yet."""
        self._engine = engine

    @staticmethod
    def _age(series: Series) -> float:
        """Seconds of work that only memory holds."""
        return time.monotonic() - series.last_snapshot if series.last_step > series.last_snapshot else 0.0


def _quantiles(steps: deque[Any], shares: Sequence[float]) -> list[float | None]:
    """Quantiles of the values of some steps, which are forgotten; None without any."""
    values = np.concatenate(steps) if steps else np.zeros(0)
    steps.clear()
    return np.quantile(values, shares).tolist() if len(values) else [None] * len(shares)
