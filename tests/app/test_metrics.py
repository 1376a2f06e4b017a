"""What Prometheus is told: right numbers, under the names and labels that the documentation lists."""

import gzip
import math
import re
import time
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from riparian.app.partition.join.pending import COUNTERS
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.records.inputs import Gaps
from riparian.app.partition.records.partition_group import Piece, RecordQueue, Release
from riparian.app.stream_file.spec import Spec, loads
from riparian.app.worker.exposition import metric_names as names
from riparian.app.worker.exposition import metrics as exposition
from riparian.app.worker.exposition.histogram import Histogram
from riparian.app.worker.exposition.metric_names import BUILD, METRICS, OF_WORKER, PREQUENTIAL
from riparian.app.worker.exposition.metrics import Metrics
from riparian.app.worker.exposition.scrape import registry
from riparian.app.worker.exposition.web import health, health_of, ready, scraped_page
from riparian.app.worker.shared.model_lag import ModelLag
from riparian.models.evaluation.prequential import Prequential
from riparian.models.opinion_pool.opinion_pool import OpinionPool
from riparian.topics import reports
from riparian.topics.names import AS_IT_COMES, CONTROL, FEATURES, INPUTS, LABELS
from riparian.topics.records import Place, RawBatch, SegmentFigures

STREAM = """
name: taps
task: {task}
partitions: 2
learning: partition
features: {{a: numeric, b: numeric}}
champion: {{model: last-label}}
challengers: {{second: {{model: last-label}}}}
"""


def stream(task: str = "classification", **extra: str) -> Spec:
    return loads(STREAM.format(task=task) + "".join(f"{key}: {value}\n" for key, value in extra.items()))


class PartitionTask:
    """A runner without Kafka: what the metrics read of one."""

    def __init__(self, spec: Spec, partition: int = 0, ends: dict[TP, int] | None = None) -> None:
        self.partition = partition
        self.learner = PartitionLearner(spec, partition)
        self.figures = self.learner.reported()
        self.buffers = {role: RecordQueue() for role in INPUTS}
        self.n_forced = self.n_skipped = self.n_moved = self.n_unknown_schemas = 0
        self.shared = SimpleNamespace(behind=ModelLag(self.learner.learning))
        self.checkpoints = SimpleNamespace(changelog_bytes=0, live_bytes=0)
        self.sent_offset = 0
        self.gaps = Gaps({})
        self.started = 1_700_000_000.0
        topics = {FEATURES: spec.topics.features, LABELS: spec.topics.labels}
        self.tps = {role: TP(topic, partition) for role, topic in topics.items() if topic is not None}
        backpressure = SimpleNamespace(bytes_of=lambda tp: 0)
        inputs = SimpleNamespace(end_offset=lambda tp: (ends or {}).get(tp), backpressure=backpressure)
        inputs.taken = lambda tp, after: after
        self.host = SimpleNamespace(inputs=inputs, topics=SimpleNamespace(unread={}))

    def work(self, rows: list[tuple[str, float, str | None]], labels: list[tuple[str, str]] = []) -> Outcome:  # noqa: B006
        """Apply feature records (id, a, inline label), then label records (id, y)."""
        now = int(time.time() * 1000)

        def piece(start: int, values: Iterable[bytes]) -> Piece:
            listed = list(values)
            offsets = np.arange(start, start + len(listed))
            times = np.full(len(listed), now)
            raw = RawBatch(offsets.tolist(), times.tolist(), [None] * len(listed), list(listed))
            return Piece(raw, offsets, times)

        def features() -> Iterable[bytes]:
            for id_, a, y in rows:
                tail = "" if y is None else f', "y": "{y}"'
                yield f'{{"id": "{id_}", "x": {{"a": {a}, "b": 0}}{tail}}}'.encode()

        release = Release(
            {
                FEATURES: piece(self.learner.offsets["features"], features()),
                LABELS: piece(
                    self.learner.offsets["labels"], (f'{{"id": "{id_}", "y": "{y}"}}'.encode() for id_, y in labels)
                ),
            },
            {LABELS: np.zeros(len(rows), dtype=np.int64)},
        )
        outcome = self.learner.step(release)
        self.figures = self.learner.reported()
        return outcome


def outcome(n: int = 0, ages_ms: list[float] | None = None, waited: list[float] | None = None, **extra: Any) -> Outcome:
    """An outcome with nothing in it but what the test is about."""
    ages = ages_ms if ages_ms is not None else [0.0] * n
    times = np.array([time.time() * 1000 - age for age in ages]).astype(np.int64)
    fields: dict[str, Any] = {
        "ids": [str(i) for i in range(len(times))],
        "keys": [None] * len(times),
        "offsets": np.arange(len(times)),
        "next_offsets": {LABELS: np.zeros(len(times), np.int64)},
        "p": {},
        "waited": np.array(waited or []),
        "feature_times": times,
        "n_labels": 0,
        "rejected": {},
        "decode_seconds": 0.0,
        "kernel_seconds": 0.0,
    }
    return Outcome(**{**fields, **extra})


class Scrape:
    """An exposition, parsed from its text."""

    def __init__(self, metrics: Metrics) -> None:
        self.text = generate_latest(registry([metrics])).decode()
        self.families = {family.name: family for family in text_string_to_metric_families(self.text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        return [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]

    def value(self, name: str, **labels: str) -> float:
        found = self.values(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0]


def test_scores_that_wait_for_a_time_name_the_record_time_up_to_which_they_count() -> None:
    held = {"classes": "[no, yes]", "join": "{horizon: 60d, unlabelled: {is: no, after: 14d}}"}
    metrics, runner = Metrics(stream(**held)), PartitionTask(stream(**held))
    runner.figures = runner.figures._replace(scored_until=1_700_000_000_500)
    metrics.stepped(runner, outcome(), 0.1)  # type: ignore[arg-type]
    found = metrics.of_partition(runner)  # type: ignore[arg-type]
    assert found.scored_until == 1_700_000_000_500
    assert reports.read_report(reports.write(found)) == found
    assert Scrape(metrics).value(names.SCORED_UNTIL) == 1_700_000_000.5


@given(
    bounds=st.lists(st.floats(0, 100), min_size=1, max_size=8, unique=True).map(sorted),
    batches=st.lists(st.lists(st.one_of(st.floats(0, 200), st.integers(0, 100).map(float)), max_size=20), max_size=5),
)
def test_a_histogram_of_arrays_counts_as_a_loop_does(bounds: list[float], batches: list[list[float]]) -> None:
    many, single = Histogram(bounds), Histogram(bounds)
    for batch in batches:
        many.observe_many(batch)
        for value in batch:
            single.observe(value)
    values = [value for batch in batches for value in batch]
    expected = [float(sum(value <= bound for value in values)) for bound in [*bounds, math.inf]]
    assert [n for _, n in many.buckets()] == expected
    assert [n for _, n in single.buckets()] == expected
    assert many.sum == pytest.approx(sum(values))
    assert many.buckets()[-1][0] == "+Inf"


def test_a_partition_is_told_of_as_it_is_and_what_is_since_the_last_time() -> None:
    spec = stream()
    metrics, runner = Metrics(spec, "here:1"), PartitionTask(spec, 1, {TP("taps.features", 1): 9})
    runner.work([("1", 0.5, "yes"), ("2", 0.1, None)])
    metrics.stepped(runner, outcome(ages_ms=[40.0] * 98 + [4000.0] * 2, waited=[5.0] * 3), 0.1)  # type: ignore[arg-type]
    metrics.rejected(runner, "not-json")  # type: ignore[arg-type]
    metrics.checkpointed(runner, 0.25, 10)  # type: ignore[arg-type]
    found = metrics.of_partition(runner)  # type: ignore[arg-type]
    assert (found.stream, found.partition, found.worker) == ("taps", 1, "here:1")
    assert (found.instances, found.learned, found.waiting, found.offset) == (2, 1, 1, 2)
    assert found.lag == {"features": 7}
    assert found.rejected == {"not-json": 1}
    assert found.checkpoint_seconds == 0.25
    assert found.latency_p50 is not None
    assert found.latency_p99 is not None
    assert found.delay_p50 is not None
    assert 0.04 <= found.latency_p50 < 1.0 < found.latency_p99
    assert found.delay_p50 == 5.0
    assert found.scored_until is None
    again = metrics.of_partition(runner)  # type: ignore[arg-type]
    assert (again.latency_p50, again.latency_p99, again.delay_p50) == (None, None, None)
    for record in (found, again):
        assert reports.read_report(reports.write(record)) == record
    assert reports.read_metrics(reports.write(again)) == (None, Place(2, 0), 0)


def test_counts_and_quality_of_a_real_learner_reach_the_exposition() -> None:
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    # last-label: nothing known, then right, then wrong; d waits; the label of z comes early
    metrics.stepped(runner, runner.work([("a", 1, "X"), ("b", 2, "X"), ("c", 3, "Y"), ("d", 4, None)]), 0.25)
    metrics.stepped(runner, runner.work([], [("z", "X")]), 0.25)
    scrape = Scrape(metrics)
    here = {"stream": "taps", "partition": "0"}
    assert scrape.value(names.INSTANCES, **here) == 4
    assert scrape.value(names.LABELS, **here) == 1
    assert scrape.value("riparian_joined_instances_total", **here) == 3
    assert scrape.value(names.WAITING, **here) == 1
    assert scrape.value(names.LABELS_WAITING, **here) == 1
    for model in ("champion", "second"):
        assert scrape.value(names.SCORED, **here, model=model) == 3
        assert scrape.value("riparian_accuracy_ratio", **here, model=model, scope="overall") == 1 / 3
        assert scrape.value("riparian_accuracy_ratio", **here, model=model, scope="window") == 1 / 3
        assert scrape.value(names.STATE, **here, part=model) > 0
        assert scrape.value(names.MODEL, **here, model=model, learner="last-label") == 1
        # Confidence in a to d: nothing, then certainty, until c was wrong.
        f = 0.999
        confidence, error = (f**2 + f + (f + 10) / (f + 11)) / (f**3 + f**2 + f + 1), 1 / (f**2 + f + 1)
        assert scrape.value(names.ESTIMATED, **here, model=model) == pytest.approx(confidence - error)
        assert scrape.value(names.ESTIMATE_ERROR, **here, model=model) == pytest.approx(error)
        assert scrape.value(names.OBSERVED, **here, model=model) == pytest.approx(f / (f**2 + f + 1))
        assert not scrape.values("riparian_auroc_ratio", scope="overall")
        for label, n, recall in (("X", 2, 0.5), ("Y", 1, 0.0)):
            of = {**here, "model": model, "scope": "window", "class": label}
            assert scrape.value("riparian_class_labels", **of) == n
            assert scrape.value("riparian_class_recall_ratio", **of) == recall
        # Nobody knew of Y at any of the three.
        assert scrape.value("riparian_auroc_ratio", **here, model=model, scope="window") == 0.5
    assert scrape.value(names.COMPARED, **here, model="second") == 2  # both knew no class for a
    bounds = [scrape.value(names.ADVANTAGE, **here, model="second", bound=bound) for bound in ("low", "mean", "high")]
    assert bounds == [-1, 0, 1]
    assert scrape.value(names.BATCH + "_count", **here) == 2
    assert scrape.value(names.BATCH + "_sum", **here) == 5
    assert scrape.value(names.BATCH + "_bucket", **here, le="4.0") == 2
    assert scrape.value(names.BATCH + "_bucket", **here, le="2.0") == 1
    assert scrape.value(names.STEP + "_sum", **here) == 0.5
    assert scrape.value(names.KERNEL) > 0
    assert scrape.value(names.DECODE) > 0


def test_of_a_model_for_all_partitions_each_tells_what_is_its_own() -> None:
    """Counters, and scores by the partition's own labels; the first one the rest, once."""
    spec = loads(STREAM.format(task="classification").replace("learning: partition", "learning: shared"))
    metrics, runners = Metrics(spec), [PartitionTask(spec, p) for p in range(2)]
    for p, runner in enumerate(runners):
        metrics.stepped(runner, runner.work([("a", 1, "X"), ("b", 2, "X"), ("c", 3, None)][p:]), 0.25)
    scrape = Scrape(metrics)
    assert scrape.values(names.INSTANCES) == [3, 2]
    assert scrape.values("riparian_joined_instances_total") == [2, 1]
    assert scrape.values(names.WAITING) == [1, 1]
    for name in (names.MODEL, names.SCORED, names.NODES):
        assert {s.labels["partition"] for s in scrape.samples if s.name == name} == {"0"}, name
    own = {"calibration_error"}
    for role in spec.models():
        assert runners[1].figures.overall[role].keys() <= own
        assert runners[1].figures.recent[role].keys() <= own
        assert "n" in runners[0].figures.overall[role]
    whole = runners[1].learner.figures()
    assert "n" in whole.overall["champion"]
    assert runners[1].figures.estimated == whole.estimated


def test_of_a_pool_each_member_s_weight_is_told() -> None:
    pool = STREAM.format(task="classification").replace(
        "champion: {model: last-label}", "champion: {model: opinion-pool}"
    )
    runner = PartitionTask(loads(pool))
    runner.work([(str(i), i, "XY"[i % 2]) for i in range(8)])
    model = runner.learner.roles["champion"].model
    assert isinstance(model, OpinionPool)
    assert runner.figures.members == {"champion": model.weights, "second": {}}


def test_a_learner_of_somebody_s_own_may_call_its_arrays_weights() -> None:
    runner = PartitionTask(stream())
    for role in runner.learner.roles.values():
        role.model.weights = np.ones(3)  # type: ignore[attr-defined]
    runner.work([(str(i), i, "XY"[i % 2]) for i in range(8)])
    assert not any(runner.figures.members.values())


def test_of_many_classes_the_first_twenty_have_figures() -> None:
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    metrics.stepped(runner, runner.work([(f"{i}", 1, f"c{i % 40}") for i in range(200)]), 0.0)
    scrape = Scrape(metrics)
    found = [s.labels["class"] for s in scrape.samples if s.name == "riparian_class_f1_ratio"]
    assert sorted(found) == sorted(2 * [f"c{i}" for i in range(20)])
    assert scrape.value("riparian_class_labels", model="champion", **{"class": "c19"}) == 5
    ranked = {s.labels["class"]: s.value for s in scrape.samples if s.name == "riparian_class_auroc_ratio"}
    assert sorted(ranked) == sorted(f"c{i}" for i in range(20))
    area = scrape.value("riparian_auroc_ratio", model="champion", scope="window")
    assert area == pytest.approx(sum(ranked.values()) / 20)  # of those alone


def test_drift_events_their_time_the_alert_and_what_models_did_are_told() -> None:
    spec = stream(drift="{detectors: {hddm-w: {}}, features: [a], on_drift: reset}")
    metrics, runner = Metrics(spec), PartitionTask(spec)

    def rows(start: int, n: int, labels: str, size: float) -> list[tuple[str, float, str | None]]:
        return [(f"{start + i}", size, labels[i % len(labels)]) for i in range(n)]

    metrics.stepped(runner, runner.work(rows(0, 400, "X", 1.0)), 0.0)
    quiet = Scrape(metrics)
    here = {"stream": "taps", "partition": "0"}
    watched = [("champion", "error"), ("second", "error"), ("", "a")]
    for model, signal in watched:
        for level in ("warning", "drift", "improvement"):
            labels = {**here, "model": model, "signal": signal, "detector": "hddm-w", "level": level}
            assert quiet.value(names.DRIFTS, **labels) == 0
            assert not quiet.values(names.DRIFT_TIME, **labels)
        assert quiet.value(names.ALERTING, **here, model=model) == 0
    found = runner.work(rows(400, 200, "XYZ", 9.0))
    metrics.stepped(runner, found, 0.0)
    scrape = Scrape(metrics)
    for model, signal in watched:
        raised = [d for d in found.drifts if d.signal == signal and (d.model or "") == model and d.level == "drift"]
        assert raised
        labels = {**here, "model": model, "signal": signal, "detector": "hddm-w", "level": "drift"}
        assert scrape.value(names.DRIFTS, **labels) == len(raised)
        assert scrape.value(names.DRIFT_TIME, **labels) == raised[-1].time / 1000.0
        assert scrape.value(names.ALERTING, **here, model=model) == 1
    resets = sum(d.action == "reset" for d in found.drifts if d.model == "champion")
    assert resets
    assert scrape.value(names.REPLACEMENTS, **here, model="champion", action="reset") == resets
    assert scrape.value(names.REPLACEMENTS, **here, model="champion", action="replaced") == 0


def test_how_far_features_and_predictions_are_from_their_references() -> None:
    spec = stream(drift="{distributions: {window: 100}}")
    metrics, runner = Metrics(spec), PartitionTask(spec)
    rows: list[tuple[str, float, str | None]] = [(f"{i}", float(i % 10), "XY"[i % 2]) for i in range(150)]
    metrics.stepped(runner, runner.work(rows), 0.0)
    assert not Scrape(metrics).values(names.DISTANCE)
    assert metrics.of_partition(runner).distances == []
    metrics.stepped(runner, runner.work([(f"{150 + i}", float(i % 10), "XY"[i % 2]) for i in range(50)]), 0.0)
    here = {"stream": "taps", "partition": "0", "model": "", "signal": "a"}
    quiet = Scrape(metrics)
    assert quiet.value(names.DISTANCE, **here) == pytest.approx(0.0, abs=1e-6)
    assert quiet.value(names.OUTSIDE, **here) == 0.0
    metrics.stepped(runner, runner.work([(f"{200 + i}", 99.0, "XY"[i % 2]) for i in range(5)]), 0.0)
    scrape = Scrape(metrics)
    share = scrape.value(names.OUTSIDE, **here)
    assert 0.0 < share < 1.0
    assert scrape.value(names.DISTANCE, **here) > 0.1
    assert scrape.value(names.STABILITY, **here) > 0.1
    assert scrape.value(names.MISSING, **here) == 0.0
    assert not scrape.values(names.UNSEEN, **here)
    record = metrics.of_partition(runner).distances[0]
    assert (record.signal, record.model, record.outside, record.unseen) == ("a", None, share, None)


def test_every_counter_of_the_pending_store_has_a_metric() -> None:
    assert set(names.PENDING) == set(COUNTERS)
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    metrics.stepped(runner, outcome(), 0.0)
    for value, counter in enumerate(COUNTERS):
        runner.learner.pending.counts[counter] = 10 + value
    scrape = Scrape(metrics)
    assert [scrape.value(names.PENDING[c]) for c in COUNTERS] == [10 + i for i in range(len(COUNTERS))]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_prequential_metric_has_a_name(task: str) -> None:
    evaluation = Prequential(task, 2 if task == "classification" else 1)
    from riparian.models.contract import Program

    y = np.array([0.0, 1.0, 1.0, 0.0])
    out = np.array([[0.9, 0.1]] * 4) if task == "classification" else np.array([[0.3]] * 4)
    evaluation.score(Program(np.ones(4, np.int8), np.arange(4, dtype=np.int32), y, np.ones(4)), out)
    found = set(evaluation.metrics()) - {"n"}
    assert found
    assert found <= set(PREQUENTIAL)


def test_prediction_latency_is_from_the_kafka_timestamp_and_never_negative() -> None:
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    metrics.stepped(runner, outcome(ages_ms=[-5_000, 40_000, 40_000, 50_000]), 0.0)
    scrape = Scrape(metrics)
    assert scrape.value(names.LATENCY + "_count") == 4
    assert scrape.value(names.LATENCY + "_bucket", le="0.001") == 1
    assert scrape.value(names.LATENCY + "_bucket", le="10.0") == 1
    assert scrape.value(names.LATENCY + "_bucket", le="60.0") == 4
    assert scrape.value(names.LATENCY + "_sum") == pytest.approx(130, abs=5)


def test_predictions_sent_before_a_restart_have_no_latency() -> None:
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    runner.sent_offset = 3
    metrics.stepped(runner, outcome(ages_ms=[0.0] * 5), 0.0)
    assert Scrape(metrics).value(names.LATENCY + "_count") == 2


def test_lag_is_what_was_not_applied_and_lost_what_never_can_be() -> None:
    spec = stream()
    ends = {TP("taps.features", 1): 100, TP("taps.labels", 1): 7}
    metrics, runner = Metrics(spec), PartitionTask(spec, 1, ends)
    runner.learner.places["features"], runner.learner.places["labels"] = 90, 9
    runner.buffers["features"].add(RawBatch([90, 91], [0, 0], [None] * 2, [b""] * 2))
    runner.gaps.skip("labels", 6, 9)
    metrics.stepped(runner, outcome(), 0.0)
    scrape = Scrape(metrics)
    assert scrape.value(names.LOST, topic="taps.features") == 0
    assert scrape.value(names.LOST, topic="taps.labels") == 3
    assert scrape.value(names.LAG, topic="taps.features", partition="1") == 10
    assert scrape.value(names.LAG, topic="taps.labels", partition="1") == 0
    assert scrape.value(names.BUFFERED, topic="taps.features") == 2
    ends.clear()  # the assignment has gone: nothing is known
    assert not Scrape(metrics).values(names.LAG)


def test_a_command_that_waits_for_an_instance_is_no_lag() -> None:
    """Sent to a silent stream, it may wait for hours, and the worker can do nothing about it."""
    spec = stream(control="true")
    tp = TP("taps.control", 0)
    runner, queue = PartitionTask(spec, ends={tp: 2}), RecordQueue(rule=AS_IT_COMES)
    runner.tps[CONTROL], runner.buffers[CONTROL] = tp, queue
    metrics = Metrics(spec)
    metrics.stepped(runner, outcome(), 0.0)
    queue.add(RawBatch([0], [0], [None], [b""]))
    assert Scrape(metrics).value(names.LAG, topic=tp.topic) == 2  # fetched, and for the next round
    queue.take(1)
    assert runner.learner.offsets[CONTROL] == 0
    assert Scrape(metrics).value(names.LAG, topic=tp.topic) == 1  # and one that was not fetched
    assert metrics.of_partition(runner).lag[CONTROL] == 1  # type: ignore[arg-type]


def test_the_age_of_a_checkpoint_is_that_of_the_work_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, now = stream(), 1000.0
    monkeypatch.setattr(exposition.time, "monotonic", lambda: now)
    metrics, runner = Metrics(spec), PartitionTask(spec)

    def age() -> float:
        return Scrape(metrics).value(names.CHECKPOINT_AGE)

    metrics.rejected(runner, "empty")
    assert age() == 0  # nothing was done yet
    now = 5000.0
    metrics.stepped(runner, outcome(), 0.0)
    assert age() == 0  # one step, however long ago a checkpoint was written
    now = 5030.0
    metrics.stepped(runner, outcome(), 0.0)
    now = 9000.0  # nothing comes
    assert age() == 30
    metrics.checkpointed(runner, 3985.0, 1)  # cut between the two steps
    assert age() == 15
    metrics.checkpointed(runner, 0.0, 1)
    assert age() == 0
    now = 9100.0
    metrics.stepped(runner, outcome(), 0.0)
    now = 9107.0
    metrics.stepped(runner, outcome(), 0.0)
    assert age() == 7


def test_a_dropped_partition_leaves_no_series() -> None:
    spec = stream()
    metrics = Metrics(spec)
    for partition in (0, 1):
        metrics.stepped(PartitionTask(spec, partition), outcome(), 0.0)
    assert {s.labels.get("partition") for s in Scrape(metrics).samples} >= {"0", "1"}
    metrics.dropped(1)
    scrape = Scrape(metrics)
    assert "1" not in {s.labels.get("partition") for s in scrape.samples}
    assert scrape.value(names.INSTANCES, partition="0") == 0
    metrics.dropped(1)  # twice is no error


def test_a_new_assignment_counts_its_work_from_zero() -> None:
    spec = stream()
    metrics = Metrics(spec)
    metrics.rejected(PartitionTask(spec), "empty")
    metrics.stepped(PartitionTask(spec), outcome(), 0.0)
    scrape = Scrape(metrics)
    assert not scrape.values(names.REJECTED)
    assert scrape.value(names.BATCH + "_count") == 1


def test_health_names_partitions_and_failure() -> None:
    spec = stream()
    runner = PartitionTask(spec)
    worker = SimpleNamespace(failure=None)
    assignment = SimpleNamespace(spec=spec, worker=worker, runners={0: runner}, copier=None, recovering=True)
    runner.work([("a", 1, None)])
    assert (health(assignment)[0], health(assignment)[1]["status"]) == (200, "recovering")  # not dead, and not ready
    assert ready([assignment]) == (503, {"status": "recovering"})
    assignment.recovering = False
    assert ready([assignment]) == (200, {"status": "ok"})
    status, body = health(assignment)
    assert (status, body["status"], body["stream"]) == (200, "ok", "taps")
    assert body["partitions"]["0"] == {"offset": 1, "label_offset": 0, "instances": 1, "labels": 0, "waiting": 1}
    worker.failure = ValueError("the disk is full")
    status, body = health(assignment)
    assert (status, body["status"], body["failure"]) == (503, "failed", "the disk is full")
    assert ready([assignment])[0] == 503


def test_of_several_streams_health_has_an_entry_each_and_the_worst_counts() -> None:
    def assignment(name: str, failure: Exception | None = None, *, recovering: bool = False) -> Any:
        worker = SimpleNamespace(failure=failure)
        return SimpleNamespace(
            spec=SimpleNamespace(name=name), worker=worker, runners={}, copier=None, recovering=recovering
        )

    status, body = health_of([assignment("a"), assignment("b")])
    assert (status, body["status"], {name: one["status"] for name, one in body["streams"].items()}) == (
        200,
        "ok",
        {"a": "ok", "b": "ok"},
    )
    assert body["streams"]["a"]["partitions"] == {}
    assert ready([assignment("a"), assignment("b")]) == (200, {"status": "ok"})
    late = [assignment("a"), assignment("b", recovering=True)]
    assert health_of(late)[0] == 200
    assert ready(late) == (503, {"status": "recovering"})
    status, body = health_of([*late, assignment("c", failure=ValueError("the disk is full"))])
    assert (status, body["status"], body["streams"]["c"]["failure"]) == (503, "failed", "the disk is full")


def test_several_streams_are_scraped_as_one_page_of_their_series() -> None:
    first, second = stream(), loads(STREAM.format(task="classification").replace("taps", "other"))
    one, two = Metrics(first), Metrics(second)
    one.rejected(PartitionTask(first), "empty")
    two.rejected(PartitionTask(second), "empty")
    faust = [CollectorRegistry(), CollectorRegistry()]
    for n, counted in enumerate(faust):
        Counter("faust_total_events", "Total events received", registry=counted).inc(n)
    text = generate_latest(registry([one, two], faust)).decode()
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    samples = {s.labels.get("stream"): s.value for f in families for s in f.samples if s.name == names.REJECTED}
    assert samples == {"taps": 1, "other": 1}
    counts = {s.labels["stream"]: s.value for f in families for s in f.samples if s.name == "faust_total_events_total"}
    assert counts == {"taps": 0, "other": 1}


def test_names_follow_the_conventions_and_no_label_grows_without_bound() -> None:
    assert set(PREQUENTIAL.values()) <= set(METRICS)
    assert set(names.PENDING.values()) <= set(METRICS)
    for name, measure in METRICS.items():
        assert re.fullmatch(r"riparian_[a-z0-9]+(_[a-z0-9]+)+", name)
        assert name.endswith("_total") == (measure.kind == names.COUNTER), name
        assert set(measure.labels) <= {
            "model", "learner", "scope", "reason", "topic", "outcome", "part", "detector", "signal", "level", "action",
            "target", "bound", "command", "event", "class", "feature", "value", "span",
        }, name  # fmt: skip
        assert measure.text.endswith("."), name
        assert bool(measure.bounds) == (measure.kind == names.HISTOGRAM), name
        assert list(measure.bounds) == sorted(set(measure.bounds)), name


def test_every_metric_is_exposed() -> None:
    spec = stream()
    metrics, runner = Metrics(spec), PartitionTask(spec)
    metrics.stepped(runner, runner.work([("a", 1, "X"), ("b", 2, "X"), ("c", 3, "Y")]), 0.0)
    exposed = {name for name in Scrape(metrics).families if name.startswith("riparian_")}
    assert exposed == {name.removesuffix("_total") for name in (*METRICS, *OF_WORKER)}


def test_a_scraper_gets_the_format_and_compression_that_it_takes() -> None:
    scraped = registry([Metrics(stream())])
    for accepted, told in (
        ("", "text/plain; version=0.0.4"),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", "application/openmetrics-text; "),
    ):
        plain, headers = scraped_page(scraped, {"Accept": accepted})
        assert headers["Content-Type"].startswith(told)
        assert "Content-Encoding" not in headers
        assert f"{BUILD}{{".encode() in plain
        assert plain.endswith(b"# EOF\n") == ("openmetrics" in told)
    packed, headers = scraped_page(scraped, {"Accept": accepted, "Accept-Encoding": "gzip, deflate"})
    assert headers["Content-Encoding"] == "gzip"
    assert len(gzip.decompress(packed)) == pytest.approx(len(plain), rel=0.01)


def test_quality_by_value_is_told_of_each_value_once() -> None:
    spec = stream()
    runner = PartitionTask(spec)
    runner.work([("a", 1, "X"), ("b", 2, "X")])
    segments = [
        SegmentFigures("c", n=3.0, loss=1.5, n_before=4.0, loss_before=1.0, value="(others)", since=7),
        SegmentFigures("c", n=0.0, loss=0.0, n_before=5.0, loss_before=1.0, others=True),
    ]
    runner.figures = runner.figures._replace(segments=segments)
    metrics = Metrics(spec)
    metrics.stepped(runner, outcome(1), 0.0)
    told = Scrape(metrics)
    assert told.value("riparian_segment_worse", feature="c", value="(others)") == 1
    assert told.value("riparian_segment_labels", feature="c", value="(others)", span="before") == 4
    assert told.value("riparian_segment_loss", span="now") == 0.5
