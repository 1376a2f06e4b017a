"""Writes the Grafana dashboards: python -m riparian.deploy.boards

Each metric's name and labels are in docs/reference/metrics.md, and what the dashboards are for in docs/run/monitor.md.
"""

import json
from pathlib import Path
from typing import Any

from riparian.deploy.boards.build import Mark, Panel, Query, Row, board, choice, graph, last_times, stat

FOLDER = Path(__file__).resolve().parents[1] / "grafana"
STREAM = 'stream=~"$stream"'
PARTITION = f'{STREAM}, partition=~"$partition"'
MODEL = f'{PARTITION}, model=~"$model"'
WORKER = f'{STREAM}, instance=~"$instance"'
RECENT = 'scope!="overall"'
LATENCY = "From the features' Kafka timestamp to the prediction with the producer."
ALERTS = 'ALERTS{alertname=~"Riparian.+"'

STREAMS = choice("stream", "Stream", "label_values(riparian_instances_total, stream)")
PARTITIONS = choice(
    "partition", "Partition", 'label_values(riparian_instances_total{stream=~"$stream"}, partition)', numbers=True
)
MODELS = choice("model", "Model", 'label_values(riparian_model_info{stream=~"$stream"}, model)')
WORKERS = choice("instance", "Worker", 'label_values(riparian_assigned_timestamp_seconds{stream=~"$stream"}, instance)')


def rate(metric: str, labels: str) -> str:
    return f"rate({metric}{{{labels}}}[$__rate_interval])"


def by_stream(metric: str, legend: str, labels: str) -> Query:
    """A second, all partitions together."""
    return Query(f"sum by (stream) ({rate(metric, labels)})", f"{{{{stream}}}}{legend}")


def quantiles(metric: str, labels: str) -> list[Query]:
    buckets = f"sum by (le, stream) ({rate(f'{metric}_bucket', labels)})"
    return [
        Query(f"histogram_quantile({q}, {buckets})", f"{{{{stream}}}} p{name}")
        for q, name in (("0.5", "50"), ("0.9", "90"), ("0.99", "99"))
    ]


def events(labels: str) -> str:
    """Drifts in the time shown. Counts go on when a partition moves, so it is the growth of the count."""
    counts = f'riparian_drift_events_total{{level="drift", {labels}}}'
    return f"max_over_time({counts}[$__range]) - min_over_time({counts}[$__range])"


def champion(metric: str, labels: str) -> str:
    return f'{metric}{{{RECENT}, model="champion", {labels}}}'


def glance(labels: str, of_model: str) -> Row:
    """Six figures."""
    return Row(
        "At a glance",
        [
            stat(
                "Accuracy of the champion", "percentunit",
                "Of the last labels (metrics.window), mean over the partitions.",
                f"avg({champion('riparian_accuracy_ratio', labels)})",
            ),
            stat(
                "Mean absolute error of the champion", "short",
                "Of a regression: of the last labels, in the target's unit.",
                f"avg({champion('riparian_mean_absolute_error', labels)})",
            ),
            stat("Drifts", "short", "Seen by the detectors in the time shown.", f"sum({events(of_model)})", red_at=1),
            stat("Instances a second", "ops", "Predicted.", f"sum({rate('riparian_instances_total', labels)})"),
            stat("Records behind", "short", "Not applied yet, of both topics.",
                 f"sum(riparian_consumer_lag_records{{{labels}}})"),
            stat("Alerts firing", "short", "Of the rules in deploy/prometheus.",
                 f'count({ALERTS}, alertstate="firing"}}) or vector(0)', red_at=1),
        ],
    )  # fmt: skip


def alerts(width: int) -> Panel:
    return graph(
        "Alerts", "short", "Of the rules in deploy/prometheus, pending or firing.",
        Query(f"count by (alertname, alertstate) ({ALERTS}}})", "{{alertname}} {{alertstate}}"),
        width=width, steps=True,
    )  # fmt: skip


def marks(labels: str) -> list[Mark]:
    series = "stream, partition, model, detector, signal, level"

    def of(level: str) -> str:
        last = f'riparian_drift_last_event_timestamp_seconds{{level="{level}", {labels}}}'
        return f"max by ({series}) ({last} > 0) * 1000"

    place, tags = "{{stream}}/{{partition}} {{model}}", "model,detector,signal"
    said = "{{detector}} on {{signal}}"
    return [
        Mark("Drifts", "red", Query(of("drift"), f"drift: {said}"), place, tags),
        Mark("Warnings", "orange", Query(of("warning"), f"warning: {said}"), place, tags, shown=False),
        Mark(
            "Replacements", "blue",
            Query(f"changes(riparian_model_replacements_total{{{labels}}}[1m]) > 0", "{{action}}: {{model}}"),
            "{{stream}}/{{partition}}", "model,action", own_time=False,
        ),
    ]  # fmt: skip


def overview() -> dict[str, Any]:
    """All streams, one line each."""
    accuracy = champion("riparian_accuracy_ratio", STREAM)
    error = champion("riparian_mean_absolute_error", STREAM)
    rows = [
        glance(STREAM, STREAM),
        Row("Each stream", [
            graph("Accuracy of each champion", "percentunit", "Of the last labels, mean over the partitions.",
                  Query(f"avg by (stream) ({accuracy})", "{{stream}}"), most=1, least=None),
            graph("Error of each champion", "short", "Of a regression: the mean absolute error of the last labels.",
                  Query(f"avg by (stream) ({error})", "{{stream}}")),
            graph("Instances of each stream", "ops", "Predicted a second.",
                  by_stream("riparian_instances_total", "", STREAM), width=8),
            graph("Records behind, of each stream", "short", "Not applied yet, of all its input topics.",
                  Query(f"sum by (stream) (riparian_consumer_lag_records{{{STREAM}}})", "{{stream}}"), width=8),
            graph("Waiting for labels", "short", "Instances that were predicted, and whose label has not come.",
                  Query(f"sum by (stream) (riparian_waiting_instances{{{STREAM}}})", "{{stream}}"), width=8),
            graph("Prediction latency, p99", "s", LATENCY,
                  quantiles("riparian_prediction_latency_seconds", STREAM)[2], width=8),
            graph("Drifts of each stream", "short", "In the time shown.",
                  Query(f"sum by (stream) ({events(STREAM)})", "{{stream}}"), width=8, steps=True),
            graph("Dead letters of each stream", "ops", "Records a second that could not be read.",
                  by_stream("riparian_rejected_records_total", "", STREAM), width=8),
        ]),
        Row("Workers and alerts", [
            graph("Workers of each stream", "short", "Those that have a partition.",
                  Query("count by (stream) (count by (stream, instance) "
                        f"(riparian_assigned_timestamp_seconds{{{STREAM}}}))", "{{stream}}"), steps=True),
            alerts(12),
        ]),
    ]  # fmt: skip
    about = "All streams at a glance: how good, how fast, how far behind."
    return board("riparian-overview", "Riparian: overview", about, [STREAMS], rows, marks(STREAM))


def _quality() -> Row:
    place = "{{stream}}/{{partition}} {{model}}"

    def of(metric: str, labels: str = MODEL) -> str:
        return f"max by (stream, partition, model) ({metric}{{{RECENT}, {labels}}})"

    def of_class(metric: str) -> str:
        return f"max by (stream, partition, model, class) ({metric}{{{RECENT}, {MODEL}}})"

    of_champion = f"max by (stream, partition) ({champion('riparian_accuracy_ratio', PARTITION)})"
    others = of("riparian_accuracy_ratio", f'{MODEL}, model!="champion"')
    regression = "Of a regression, in the target's unit."
    return Row("Quality of each model", [
        graph("Accuracy", "percentunit",
              "Prequential, of the last labels. Red marks are drifts, blue ones are models reset or replaced.",
              Query(of("riparian_accuracy_ratio"), place), width=24, height=9, least=None),
        graph("Kappa", "percentunit", "Cohen's kappa of the last labels: 0 is chance.",
              Query(of("riparian_kappa_ratio"), place), least=None, most=1),
        graph("Challengers against the champion", "percentunit",
              "Accuracy of the last labels, less the champion's: above 0 the challenger is better.",
              Query(f"{others} - on (stream, partition) group_left () {of_champion}", place), least=None),
        graph("Expected before labels come", "percentunit",
              "Accuracy of the last labels, and by how much the models' confidence has changed since. It cannot see "
              "that the same instances have other labels than before.",
              Query(f"max by (stream, partition, model) (riparian_estimated_accuracy_ratio{{{MODEL}}})", place),
              least=None),
        graph("Accuracy of each partition", "percentunit",
              "By about the last 1,000 labels of the partition alone, also where all partitions learn one model.",
              Query(f"max by (stream, partition, model) (riparian_observed_accuracy_ratio{{{MODEL}}})", place),
              least=None),
        graph("Error of confidence", "percentunit",
              "Calibrated confidence minus the accuracy of the labels that came, which is subtracted from what is "
              "expected: where it moves, that cannot be trusted.",
              Query(f"max by (stream, partition, model) (riparian_estimated_accuracy_error{{{MODEL}}})", place),
              least=None),
        graph("Advantage of each challenger", "short",
              "By how much the champion's mean loss is higher, and its interval, which holds however often one looks: "
              "errors per label, or in the target's unit. Above 0 for sure where low is.",
              Query(f"max by (stream, partition, model, bound) (riparian_challenger_advantage{{{MODEL}}})",
                    f"{place} {{{{bound}}}}"), width=16, least=None),
        graph("Labels compared", "short", "Those that the advantage is the mean of.",
              Query(f"max by (stream, partition, model) (riparian_challenger_compared_labels{{{MODEL}}})", place),
              width=8),
        graph("Log loss", "short", "Of the last labels, in nats.",
              Query(of("riparian_log_loss_nats"), place), width=8, least=None),
        graph("Macro F1", "percentunit", "Mean F1 over the classes, of the last labels.",
              Query(of("riparian_f1_macro_ratio"), place), width=8, least=None, most=1),
        graph("Temporal kappa", "percentunit",
              "Against repeating the label before: below 0, that would have been better.",
              Query(of("riparian_kappa_temporal_ratio"), place), width=8, least=None, most=1),
        graph("AUROC", "percentunit",
              "Of the last labels: of two classes, of more the mean of each against the rest, or of anomalies' scores. "
              "0.5 is chance.",
              Query(of("riparian_auroc_ratio"), place), width=8, least=None, most=1),
        graph("Recall of each class", "percentunit", "Share of its last labels that were predicted.",
              Query(of_class("riparian_class_recall_ratio"), f"{place} {{{{class}}}}"), width=8, most=1),
        graph("Precision of each class", "percentunit", "Share of its predictions that were right, of the last labels.",
              Query(of_class("riparian_class_precision_ratio"), f"{place} {{{{class}}}}"), width=8, most=1),
        graph("Mean cost", "short", "Of a label, where decision.costs says what mistakes cost.",
              Query(of("riparian_mean_cost"), place), width=8),
        graph("Alert rate", "percentunit", "Share of the predictions that named the class of decision, or were alerts.",
              Query(of("riparian_alert_rate_ratio"), place), width=8),
        graph("Threshold", "percentunit", "Probability, or score, from which on that is so.",
              Query(of("riparian_decision_threshold"), place), width=8, most=1),
        graph("Mean absolute error", "short", regression, Query(of("riparian_mean_absolute_error"), place), width=8),
        graph("Root mean squared error", "short", regression,
              Query(of("riparian_root_mean_squared_error"), place), width=8),
        graph("R²", "short", "Of a regression: the share of the variance explained.",
              Query(of("riparian_r2_ratio"), place), width=8, least=None, most=1),
        graph("Labels held by intervals and sets", "percentunit",
              "Of the last labels, where predictions.coverage asks for it.",
              Query(of("riparian_coverage_ratio"), place), least=None, most=1),
        graph("Width of intervals, or classes in a set", "short", "On average, of the last labels.",
              Query(f"{of('riparian_interval_width')} or {of('riparian_set_size_classes')}", place)),
    ])  # fmt: skip


def _drift() -> Row:
    of = "stream, partition, model, detector, signal, level"
    place = "{{stream}}/{{partition}} {{model}}"
    return Row("Drift", [
        graph("Events of each detector", "short",
              "Warnings and drifts, counted since the stream began: each step is an event.",
              Query(f"max by ({of}) (riparian_drift_events_total{{{MODEL}}})",
                    f"{place} {{{{detector}}}} {{{{signal}}}} {{{{level}}}}"), steps=True),
        last_times("Last event of each detector", "By the time of the record that raised it.",
                   f"max by ({of}) (riparian_drift_last_event_timestamp_seconds{{{MODEL}}} > 0) * 1000"),
        graph("Models reset or replaced", "short", "By a drift, counted since the stream began.",
              Query(f"max by (stream, partition, model, action) (riparian_model_replacements_total{{{MODEL}}})",
                    f"{place} {{{{action}}}}"), width=8, steps=True),
        graph("Drift lately", "short",
              "1 while a drift lies among the last 1,000 labels of a model, or values of any feature (no model).",
              Query(f"max by (stream, partition, model) (riparian_drift_alerting{{{MODEL}}})", place),
              width=8, steps=True),
        alerts(8),
    ])  # fmt: skip


def _steering() -> Row:
    return Row("Commands", [
        graph("Commands to the stream", "short",
              "Applied or refused since the partition was assigned: promotions, by somebody or by the rule, too.",
              Query(f"sum by (stream, partition, command, event) (riparian_commands_total{{{PARTITION}}})",
                    "{{stream}}/{{partition}} {{command}} {{event}}"), width=24, steps=True),
    ])  # fmt: skip


def _labels() -> Row:
    unused = [
        ("expired", "instances"), ("evicted", "instances"), ("unmatched", "labels"), ("repeated", "instances"),
        ("repeated", "labels"), ("corrected", "labels"), ("null", "labels"),
    ]  # fmt: skip
    return Row("Labels", [
        graph("Label delay", "s",
              "From an instance's features to its label (verification latency), by their Kafka timestamps.",
              *quantiles("riparian_verification_latency_seconds", PARTITION)),
        graph("Waiting", "short", "Instances that wait for their label, labels that wait for their instance.",
              *(Query(f"max by (stream, partition) (riparian_waiting_{what}{{{PARTITION}}})",
                      f"{{{{stream}}}}/{{{{partition}}}} {what}") for what in ("instances", "labels"))),
        graph("Never learned", "ops",
              "Instances that were not learned and labels that were not used, a second, by reason.",
              *(by_stream(f"riparian_{why}_{what}_total", f" {why} {what}", PARTITION) for why, what in unused)),
        graph("Dead letters", "ops", "Records a second that could not be read, by reason.",
              Query(f"sum by (stream, reason) ({rate('riparian_rejected_records_total', PARTITION)})",
                    "{{stream}} {{reason}}")),
    ])  # fmt: skip


def _throughput() -> Row:
    counted = (("instances", "predicted"), ("labels", "labels"), ("joined_instances", "learned"))
    return Row("Throughput", [
        graph("Instances and labels", "ops", "A second: predicted, labels taken, learned.",
              *(by_stream(f"riparian_{metric}_total", f" {legend}", PARTITION) for metric, legend in counted)),
        graph("Lag", "short", "Records that were not applied yet.",
              Query(f"max by (stream, partition, topic) (riparian_consumer_lag_records{{{PARTITION}}})",
                    "{{topic}}/{{partition}}")),
        graph("Prediction latency", "s", LATENCY,
              *quantiles("riparian_prediction_latency_seconds", PARTITION)),
        core(PARTITION),
    ])  # fmt: skip


def core(labels: str) -> Panel:
    parts = (("kernel_seconds_total", "models"), ("decode_seconds_total", "decoding"), ("step_seconds_sum", "steps"))
    return graph(
        "Share of a processor core", "percentunit", "In the models, in decoding, and in steps altogether.",
        *(Query(f"sum by (stream, partition) ({rate(f'riparian_{metric}', labels)})",
                f"{{{{stream}}}}/{{{{partition}}}} {legend}") for metric, legend in parts),
    )  # fmt: skip


def state(labels: str) -> Row:
    place = "{{stream}}/{{partition}}"
    return Row("State", [
        graph("State", "bytes", "Bytes of each model and of what waits.",
              Query(f"max by (stream, partition, part) (riparian_state_bytes{{{labels}}})", f"{place} {{{{part}}}}"),
              width=8, stacked=True),
        graph("Changelog", "bytes", "Bytes kept, and those of them that are live.",
              Query(f"max by (stream, partition) (riparian_changelog_bytes{{{labels}}})", f"{place} kept"),
              Query(f"max by (stream, partition) (riparian_changelog_live_bytes{{{labels}}})", f"{place} live"),
              width=8),
        graph("Age of the last checkpoint", "s", "What a crash would make a worker do again; 0 at rest.",
              Query(f"max by (stream, partition) (riparian_checkpoint_age_seconds{{{labels}}})", place), width=8),
    ])  # fmt: skip


def stream() -> dict[str, Any]:
    """One stream, its partitions and models."""
    leaves = graph(
        "Leaves", "short", "Of each model that is a tree.",
        Query(f"max by (stream, partition, model) (riparian_model_leaves{{{MODEL}}})",
              "{{stream}}/{{partition}} {{model}}"), width=24,
    )  # fmt: skip
    kept = state(PARTITION)
    rows = [
        glance(PARTITION, MODEL),
        _quality(),
        _drift(),
        _steering(),
        _labels(),
        _throughput(),
        Row("State and models", [*kept.panels, leaves]),
    ]
    about = "How good each model of a stream is, when it drifted, and how its partitions do."
    return board("riparian-stream", "Riparian: stream", about, [STREAMS, PARTITIONS, MODELS], rows, marks(MODEL))


def worker() -> dict[str, Any]:
    """The workers: what each has, and what it takes."""
    has = f"and on (instance) riparian_assigned_timestamp_seconds{{{WORKER}}}"
    rows = [
        Row("Each worker", [
            graph("Partitions of each worker", "short", "Those that it works on.",
                  Query(f"count by (stream, instance) (riparian_assigned_timestamp_seconds{{{WORKER}}})",
                        "{{stream}} {{instance}}"), width=8, steps=True),
            graph("Memory of each worker", "bytes", "Resident.",
                  Query(f"process_resident_memory_bytes {has}", "{{instance}}"), width=8),
            graph("Processor of each worker", "short", "Cores.",
                  Query(f"rate(process_cpu_seconds_total[$__rate_interval]) {has}", "{{instance}}"), width=8),
        ]),
        Row("Its partitions", [
            core(WORKER),
            graph("Instances of each worker", "ops", "Predicted a second.",
                  Query(f"sum by (instance) ({rate('riparian_instances_total', WORKER)})", "{{instance}}")),
            graph("Lag of each worker", "short", "Records of its partitions that were not applied yet.",
                  Query(f"sum by (instance) (riparian_consumer_lag_records{{{WORKER}}})", "{{instance}}")),
            graph("Waiting for labels, of each worker", "short", "Instances of its partitions without their label.",
                  Query(f"sum by (instance) (riparian_waiting_instances{{{WORKER}}})", "{{instance}}")),
        ]),
        state(WORKER),
    ]  # fmt: skip
    about = "What each worker has and takes: partitions, processor, memory, state, checkpoints."
    return board("riparian-worker", "Riparian: worker", about, [STREAMS, WORKERS], rows, [])


BOARDS = {"overview": overview, "stream": stream, "worker": worker}


def texts() -> dict[str, str]:
    """File name -> what is in it."""
    return {f"{name}.json": json.dumps(made(), indent=2, ensure_ascii=False) + "\n" for name, made in BOARDS.items()}


if __name__ == "__main__":
    for file, text in texts().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
