"""What a worker tells Prometheus: the metrics of its partitions at `/metrics`, and whether they are alive at `/health`.

What there is to tell is in measures.py. A partition's series are there while the partition is assigned to this worker.

Counts of the stream (instances, labels, joined, …) are part of the state: they go on where they were after a restart.
Counts of the work (steps, seconds, latencies, rejected records) begin at zero with each assignment.

Arrays go into histograms whole, those of several small steps together (0.02 µs per record), and everything else is read
from the runners when somebody scrapes.
"""

import os
import socket
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from riparian.app import __version__
from riparian.app.partition.drift.distributions import MOST_TOLD
from riparian.app.partition.learner import LABELS_OF_ANOMALIES
from riparian.app.partition.lineup.model_slot import REACTIONS
from riparian.app.partition.outcome import Outcome
from riparian.app.stream_file.spec import Spec
from riparian.app.worker.exposition import metric_names
from riparian.app.worker.exposition.histogram import Histogram
from riparian.topics import names
from riparian.topics.records import PartitionRecord

if TYPE_CHECKING:
    from riparian.app.worker.assignment import Assignment
    from riparian.app.worker.task.partition_task import PartitionTask

RECENT_COUNTS, RECENT_VALUES = 50, 2000  # 800 kB a partition at most, of latencies and of delays
MOST_STEPS, MANY_RECORDS = 50, 512  # steps that are counted together, and records of one that is counted at once


class Series:
    """What is counted of one partition in this assignment."""

    def __init__(self, runner: "PartitionTask") -> None:
        self.runner = runner
        self.histograms = {
            name: Histogram(m.bounds) for name, m in metric_names.METRICS.items() if m.kind == metric_names.HISTOGRAM
        }
        self.rejected: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.commands: Counter[tuple[str, str]] = Counter()
        self.decode_seconds = 0.0
        self.kernel_seconds = 0.0
        self.checkpoint_bytes = 0
        self.first_step = self.last_step = 0.0  # of those that no checkpoint has, and of all, monotonic
        self.checkpoint_seconds: float | None = None  # of the last one
        # Values since the partition was told of last: of the newest RECENT_COUNTS, at most RECENT_VALUES of each.
        self.latencies: deque[Any] = deque(maxlen=RECENT_COUNTS)
        self.delays: deque[Any] = deque(maxlen=RECENT_COUNTS)
        self.last_snapshot = time.monotonic()
        # Of each, to count: when it ended, ms, times of features, delays, records and seconds.
        self.steps: list[tuple[float, Any, Any, int, float]] = []

    def count(self) -> None:
        """Count the last steps. Many of them cost little more than one."""
        if not self.steps:
            return
        (ends, times, waited, sizes, seconds), self.steps = zip(*self.steps, strict=True), []
        latencies = (np.repeat(ends, [len(of_step) for of_step in times]) - np.concatenate(times)) / 1000.0
        delays = np.concatenate(waited)
        # Negative ones: the sender's clock is ahead.
        self.histograms[metric_names.LATENCY].observe_many(latencies.clip(min=0.0))
        self.histograms[metric_names.WAITED].observe_many(delays.clip(min=0.0))
        self.histograms[metric_names.BATCH].observe_many(sizes)
        self.histograms[metric_names.STEP].observe_many(seconds)
        self.latencies.append(latencies[-RECENT_VALUES:].copy())
        self.delays.append(delays[-RECENT_VALUES:].copy())


class Metrics:
    """The observer of a stream's tasks in this worker, and what Prometheus scrapes of them (`scrape`).

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
        self._engine: Assignment | None = None

    # -- what the tasks report ---------------------------------------------------------------------------------

    def stepped(self, runner: "PartitionTask", outcome: Outcome, seconds: float) -> None:
        """A batch was applied and its predictions were handed to the producer."""
        series = self._of(runner)
        # A restarted worker goes through instances again whose predictions were sent before: they have no latency.
        fresh = outcome.feature_times[bisect_left(outcome.offsets, runner.sent_offset) :]
        n = len(outcome.ids) + outcome.n_labels
        series.steps.append((time.time() * 1000.0, fresh, outcome.waited, n, seconds))
        if len(series.steps) >= MOST_STEPS or n > MANY_RECORDS:
            series.count()
        if outcome.ignored or outcome.events:
            series.ignored.update(outcome.ignored)
            series.commands.update((event.command, event.event) for event in outcome.events)
        series.decode_seconds += outcome.decode_seconds
        series.kernel_seconds += outcome.kernel_seconds
        before, series.last_step = series.last_step, time.monotonic()
        series.first_step = series.first_step if before > series.last_snapshot else series.last_step

    def rejected(self, runner: "PartitionTask", reason: str) -> None:
        """A record went to the dead letters."""
        self._of(runner).rejected[reason] += 1

    def checkpointed(self, runner: "PartitionTask", seconds: float, n_bytes: int) -> None:
        """A manifest is durable; `seconds` ago its snapshot was taken."""
        series = self._of(runner)
        series.histograms[metric_names.CHECKPOINT].observe(seconds)
        series.checkpoint_bytes += n_bytes
        series.last_snapshot = time.monotonic() - seconds
        series.checkpoint_seconds = seconds

    def of_partition(self, runner: "PartitionTask") -> PartitionRecord:
        """How a partition is doing, since the last call as far as latency and delay are meant."""
        series, learner, figures = self._of(runner), runner.learner, runner.figures
        series.count()
        p50, p99 = _quantiles(series.latencies, (0.5, 0.99))
        (delay,) = _quantiles(series.delays, (0.5,))
        ends = {role: runner.host.inputs.end_offset(tp) for role, tp in runner.tps.items()}
        offsets = {**_applied(runner), names.FEATURES: figures.offset, names.LABELS: figures.label_offset}
        offsets |= {role: runner.host.inputs.taken(tp, offsets[role]) for role, tp in runner.tps.items()}
        return PartitionRecord(
            stream=self.spec.name,
            partition=runner.partition,
            time=int(time.time() * 1000),
            started=int(runner.started * 1000),
            worker=self.worker,
            version=__version__,
            offset=offsets[names.FEATURES],
            label_offset=offsets[names.LABELS],
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
            scored_until=figures.scored_until,
            rejected=dict(series.rejected),
            unmet=None if self._engine is None else self._engine.silence.unmet,
            early=None if self._engine is None else self._engine.silence.early,
            alarms=[
                role
                for role, on in learner.drift.alarms().items()
                if on and (learner.learning.reports_models or not role)
            ],
            distances=sorted(figures.distances, key=lambda one: -one.hellinger)[:MOST_TOLD],
            unread={topic: added[:MOST_TOLD] for topic, added in runner.host.topics.unread.items()},
            frozen=[role for role, slot in learner.roles.items() if slot.frozen],
            paused=learner.lineup.steering.paused,
            before=learner.lineup.steering.before,
        )

    def dropped(self, partition: int) -> None:
        """The partition is no longer ours: its series end."""
        self._series.pop(partition, None)

    def _of(self, runner: "PartitionTask") -> Series:
        series = self._series.get(runner.partition)
        if series is None or series.runner is not runner:  # assigned anew
            series = self._series[runner.partition] = Series(runner)
        return series

    # -- what is scraped ---------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Any]:
        """All families; called at each scrape."""
        kinds = {
            metric_names.COUNTER: CounterMetricFamily,
            metric_names.GAUGE: GaugeMetricFamily,
            metric_names.HISTOGRAM: HistogramMetricFamily,
        }
        families: dict[str, Any] = {
            name: kinds[metric.kind](name, metric.text, labels=labels)
            for name, metric, labels in metric_names.all_metrics()
            if name != metric_names.BUILD
        }
        runners = {partition: series.runner for partition, series in self._series.items()}
        if self._engine is not None:
            runners |= self._engine.runners
        for partition, runner in sorted(runners.items()):
            series = self._of(runner)
            series.count()
            first = (self.spec.name, str(partition))
            for name, labels, value in self._values(series):
                families[name].add_metric((*first, *labels), value)
            for name, histogram in series.histograms.items():
                families[name].add_metric(first, histogram.buckets(), histogram.sum)
        for name, labels, value in self._of_worker():
            families[name].add_metric((self.spec.name, *labels), value)
        yield from families.values()

    def _of_worker(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Name, labels but for the stream, and value of what is no partition's."""
        engine = self._engine
        yield metric_names.FENCED, (), 0 if engine is None else engine.n_fenced
        yield metric_names.LOADED, (), 0 if engine is None else engine.n_loaded
        yield metric_names.APART, (), 0 if engine is None else engine.silence.apart
        yield metric_names.UNMET, (), 0 if engine is None else int(engine.silence.unmet is not None)
        yield metric_names.STANDBYS, (), 0 if engine is None else len(engine.states.standbys)
        for topic in (self.spec.topics.features, self.spec.topics.labels):
            if topic is not None:
                n = 0 if engine is None else len(engine.worker.topics.unread.get(topic, ()))
                yield metric_names.UNREAD, (topic,), n
        if engine is not None and engine.copier is not None:
            for tp, n in sorted(engine.copier.lags().items()):
                yield metric_names.REKEY_LAG, (str(tp.partition), tp.topic), n
            for tp, n in engine.copier.lost.items():
                yield metric_names.LOST, (str(tp.partition), tp.topic), n

    def _values(self, series: Series) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Name, labels and value of all that is not a histogram."""
        runner, learner, figures = series.runner, series.runner.learner, series.runner.figures
        # Plain numbers that a step in another thread may be changing: each is whole, and the next scrape is near.
        yield metric_names.INSTANCES, (), learner.n_instances
        yield metric_names.LABELS, (), learner.n_labels
        yield metric_names.WAITING, (), learner.pending.n_waiting
        yield metric_names.LABELS_WAITING, (), learner.pending.n_labels_waiting
        for _ in self.spec.of_all:
            yield metric_names.BEHIND, (), learner.learning.behind
            yield metric_names.BEHIND_TIME, (), runner.shared.behind.seconds
            yield metric_names.BEHIND_WAIT, (), runner.shared.behind.wait_seconds
        if figures.scored_until is not None:
            yield metric_names.SCORED_UNTIL, (), figures.scored_until / 1000.0
        for counter, name in metric_names.PENDING.items():
            yield name, (), learner.pending.counts[counter]
        for name, seconds in learner.delays.means(
            learner.decoder.classes.texts if learner.decoder.classes else ()
        ).items():
            yield metric_names.DELAY, (name,), seconds
        yield metric_names.FORCED, (), runner.n_forced
        yield metric_names.UNKNOWN, (), runner.n_unknown_schemas
        yield metric_names.SKIPPED, (), runner.n_skipped
        yield metric_names.MOVED, (), runner.n_moved
        yield metric_names.DECODE, (), series.decode_seconds
        yield metric_names.KERNEL, (), series.kernel_seconds
        yield metric_names.CHECKPOINT_BYTES, (), series.checkpoint_bytes
        yield metric_names.CHECKPOINT_AGE, (), self._age(series)
        yield metric_names.CHANGELOG, (), runner.checkpoints.changelog_bytes
        yield metric_names.LIVE, (), runner.checkpoints.live_bytes
        yield metric_names.ASSIGNED, (), runner.started
        for reason, n in series.rejected.items():
            yield metric_names.REJECTED, (reason,), n
        for reason, n in series.ignored.items():
            yield metric_names.IGNORED, (reason,), n
        for labels, n in series.commands.items():
            yield metric_names.COMMANDS, labels, n
        yield from self._inputs(runner)
        scope = "fading" if learner.spec.metrics.fading else "window"
        for role, overall in figures.overall.items():
            if role not in learner.roles:  # a command has just dropped it
                continue
            for field, name in metric_names.PREQUENTIAL.items():
                for span, found in (("overall", overall), (scope, figures.recent[role])):
                    if field in found:
                        yield name, (role, span), found[field]
        for role, running in learner.roles.items() if learner.learning.reports_models else ():
            yield metric_names.MODEL, (role, running.learner_name), 1
            if role not in figures.overall:  # a command has just brought it
                continue
            yield metric_names.SCORED, (role,), figures.overall[role].get("n", 0)
            for text, known in figures.by_class.get(role, {}).items():
                for field, value in known.items():
                    yield metric_names.OF_CLASS[field], (role, scope, text), value
            size = figures.sizes[role]
            for field, name in (
                ("n_nodes", metric_names.NODES),
                ("n_leaves", metric_names.LEAVES),
                ("depth", metric_names.DEPTH),
            ):
                yield name, (role,), size.get(field, 0)
            if running.model.n_waits is not None:
                yield metric_names.WAITS, (role,), running.model.n_waits
                yield metric_names.WAIT_TIME, (role,), running.model.wait_seconds
            for action, n in zip(REACTIONS, running.reactions.tolist(), strict=True) if running.watched else ():
                yield metric_names.REPLACEMENTS, (role, action), n
        if self.spec.predictions.coverage is not None:
            yield metric_names.COVERAGE_TARGET, (), self.spec.predictions.coverage.share
        decision = learner.spec.decision
        if decision is not None and decision.target is not None:
            of = LABELS_OF_ANOMALIES[1] if decision.class_ is None else decision.class_
            yield metric_names.DECISION_TARGET, (decision.target[0], of), decision.target[1]
        for role, estimated in figures.estimated.items():
            for field, name in (
                ("accuracy", metric_names.ESTIMATED),
                ("error", metric_names.ESTIMATE_ERROR),
                ("observed", metric_names.OBSERVED),
            ):
                if field in estimated:
                    yield name, (role,), estimated[field]
        for role, compared in figures.compared.items():
            yield metric_names.COMPARED, (role,), compared["labels"]
            for bound, field in (("mean", "difference"), ("low", "low"), ("high", "high")):
                yield metric_names.ADVANTAGE, (role, bound), compared[field]
        segments = {(segment.feature, segment.shown): segment for segment in reversed(figures.segments)}  # names once
        for about, segment in segments.items():
            yield metric_names.SEGMENT_WORSE, about, int(segment.since > 0)
            spans = ("now", segment.n, segment.loss), ("before", segment.n_before, segment.loss_before)
            for span, weight, loss in spans:
                yield metric_names.SEGMENT_LABELS, (*about, span), weight
                if weight > 0.0:
                    yield metric_names.SEGMENT_LOSS, (*about, span), loss / weight
        for role, signal, detector, level, n, last in learner.drift.events():
            if role and not learner.learning.reports_models:
                continue
            yield metric_names.DRIFTS, (role, detector, signal, level), n
            if n:
                yield metric_names.DRIFT_TIME, (role, detector, signal, level), last / 1000.0
        for one in figures.distances:
            shares = (
                (metric_names.DISTANCE, one.hellinger),
                (metric_names.STABILITY, one.psi),
                (metric_names.MISSING, one.missing),
            )
            for name, share in (*shares, (metric_names.UNSEEN, one.unseen), (metric_names.OUTSIDE, one.outside)):
                if share is not None:
                    yield name, (one.model or "", one.signal), share
        for role, alerting in learner.drift.alarms().items():
            if not role or learner.learning.reports_models:
                yield metric_names.ALERTING, (role,), alerting
        for part, n_bytes in figures.n_bytes.items():
            yield metric_names.STATE, (part,), n_bytes

    def _inputs(self, runner: "PartitionTask") -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Lag and buffer of each input topic."""
        host, learner, applied = runner.host, runner.learner, _applied(runner)
        for role, tp in runner.tps.items():
            buffer = runner.buffers[role]
            yield metric_names.BUFFERED, (tp.topic,), len(buffer)
            yield metric_names.BUFFERED_BYTES, (tp.topic,), host.inputs.backpressure.bytes_of(tp)
            yield metric_names.LOST, (tp.topic,), runner.gaps.n(role)
            for outcome, n in zip(("believed", "ignored"), learner.clocks[role].leaps, strict=True):
                yield metric_names.LEAPS, (tp.topic, outcome), n
            end = host.inputs.end_offset(tp)
            if end is not None:
                yield metric_names.LAG, (tp.topic,), max(0, end - host.inputs.taken(tp, applied[role]))

    def watch(self, assignment: "Assignment") -> None:
        """Show the partitions of an assignment from now on, also those that have learned nothing yet."""
        self._engine = assignment

    @staticmethod
    def _age(series: Series) -> float:
        """Seconds of work that only memory holds: none is added while nothing comes, though a command that all
        partitions share lets none of them write a checkpoint before its next instance."""
        return max(0.0, series.last_step - max(series.first_step, series.last_snapshot))


def _applied(runner: "PartitionTask") -> dict[str, int]:
    """Role of an input log -> its next offset. A command that waits for the next instance, however long none comes, is
    where it has to be."""
    commands = {role: one.done_offset for role, one in runner.buffers.items() if one.rule == names.AS_IT_COMES}
    return {**runner.learner.offsets, **{role: commands[role] for role in runner.tps if role in commands}}


def _quantiles(steps: deque[Any], shares: Sequence[float]) -> list[float | None]:
    """Quantiles of the values of some steps, which are forgotten; None without any."""
    values = np.concatenate(steps).clip(min=0.0) if steps else np.zeros(0)
    steps.clear()
    if not len(values):
        return [None] * len(shares)
    values.sort()  # and between two of them: numpy's own takes ten times as long for few
    return [float(np.interp(share * (len(values) - 1), np.arange(len(values)), values)) for share in shares]
