"""The course of one model over the rows: what is noted on the way, and the result."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from riparian.app.dataset.instances import Instances, Rejections
from riparian.app.dataset.verification_latency import Lateness
from riparian.app.evaluation.measures.alerts import Tally
from riparian.app.evaluation.measures.measured import FromFirstLabel, Measured
from riparian.app.evaluation.measures.measures import MOST_CLASSES, OF_CLASS, UNLEARNED
from riparian.app.partition.drift.detection import Finding
from riparian.app.partition.learner import LABELS_OF_ANOMALIES, PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.partition.predictions.reasons import Reasons
from riparian.app.stream_file.spec import Spec
from riparian.models.auto.auto import AUTO
from riparian.models.contract import Program
from riparian.models.memory import live_bytes
from riparian.topics.names import CHAMPION
from riparian.topics.records import VALUES


class Course:
    """One model on its way.

    Parameters
    ----------
    spec : Spec
        With the model as the champion.
    label_delay, timed : of the labels, see `app.evaluation.evaluate.evaluate_all`.
    detectors : sequence of str
        Over the model's errors.
    every : int
        Rows from a point of the curves to the next one, at least; at the end of the rows, labels.
    unlabelled : int, optional
        Rows, where there are no labels: points of the curve are at predictions, and alerts are counted.
    """

    def __init__(
        self,
        spec: Spec,
        label_delay: float,
        timed: bool,
        detectors: Sequence[str],
        every: int,
        unlabelled: int | None = None,
    ) -> None:
        self.spec = spec
        self.learner = PartitionLearner(spec)
        self.metrics = Measured(
            spec.task,
            self.learner.schema.n_outputs,
            window=spec.metrics.window,
            fading=spec.metrics.fading,
            detectors=detectors,
            seed=spec.seed,
            alerts=spec.has_alerts,
        )
        self.learner.roles[CHAMPION].metrics = self.metrics
        self._known: FromFirstLabel | None = None
        if label_delay and spec.task not in VALUES:
            own = Measured(spec.task, self.learner.schema.n_outputs, window=1)
            self._known = FromFirstLabel(self.metrics, own)
        self.timed = _Timed(self.learner)
        self.lateness = Lateness(self.learner, label_delay, timed)
        self.detectors = detectors
        self._tally = None if unlabelled is None else Tally(CHAMPION, unlabelled)
        self.points: list[dict[str, float]] = []
        self.rows, self.rejections = 0, Rejections()
        self._every, self._since = every, 0

    def warm_up(self) -> None:
        """Compile the kernels, or load them from the cache."""
        self.learner.warm_up()
        self.metrics.warm_up()

    def step(self, instances: Instances) -> Outcome:
        outcome = self.lateness.step(instances)
        if self._tally is not None:
            self._tally.add(outcome)
        self.rows += len(instances.times)
        self.rejections.add(instances)
        self._advance(len(instances.times))
        return outcome

    def finish(self, size: int) -> Iterator[Outcome]:
        for outcome in self.lateness.finish(size):
            self._advance(outcome.n_labels)
            yield outcome
        if self._since or not self.points:
            self._note()

    def _advance(self, n: int) -> None:
        self._since += n
        if self._since >= self._every:
            self._since = 0
            self._note()

    def _note(self) -> None:
        """A point of the curves: `app.evaluation.measures.measures`, RECENT, STANDING, and OF_CLASS of each
        class."""
        model, overall = self.learner.roles[CHAMPION].model, self.metrics.metrics()
        size = model.size()
        point = {**self.metrics.recent(), **self._besides(recent=True), **self.learner.intervals.windowed()}
        point["n"] = overall["n"] if self._tally is None else float(self._tally.n)
        if "accuracy" in overall:
            point["running_accuracy"] = overall["accuracy"]
            point["mean_running_accuracy"] = overall["mean_running_accuracy"]
        for k, shares in self.metrics.recent_by_class().items():
            if k < MOST_CLASSES:
                owner = self.learner.classes.texts[k] if self.learner.classes else k
                point |= {f"{name}:{owner}": shares[name] for name in OF_CLASS if name in shares}
        point |= {"n_nodes": size["n_nodes"], "n_leaves": size["n_leaves"]}
        point |= {"state_bytes": model.n_bytes, "live_bytes": live_bytes(model)}
        self.points.append(point | {"seconds": self.timed.cpu, "wall_seconds": self.timed.wall})

    def _besides(self, recent: bool = False) -> dict[str, float]:
        learner = self.learner
        return learner.servings[CHAMPION].besides(learner.roles[CHAMPION].metrics, recent)

    def curves(self) -> dict[str, list[float | None]]:
        """Columns: n, labels scored so far (or predictions), each number once, and what is known there; None where it
        is undefined."""
        after = [point["n"] for point in self.points[1:]] + [-1.0]
        kept = [point for point, n in zip(self.points, after, strict=True) if 0 < point["n"] != n]
        names = ["n", *dict.fromkeys(name for point in kept for name in point if name != "n")]
        return {name: [point.get(name) for point in kept] for name in names}

    def _by_class(self, names: Sequence[Any]) -> dict[str, dict[str, float]]:
        """`Measured.classes`, and of the first classes how often sets held their labels."""
        coverage = {str(names[k]): share for k, share in self.learner.intervals.whole_by_class().items()}
        found = self.metrics.classes(names)
        return {name: one | ({"coverage": coverage[name]} if name in coverage else {}) for name, one in found.items()}

    def result(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """See `app.evaluation.evaluate.evaluate_all`."""
        name, parameters = self.spec.models()[CHAMPION]
        seconds = self.timed.cpu
        pending = self.learner.pending.counts
        unpredicted = pending["joined"] - int(self.metrics.metrics()["n"])
        counts = {"unpredicted": unpredicted}
        counts |= {name: pending[name] for name in UNLEARNED}
        live = [point["live_bytes"] for point in self.points]
        classes = None if self.learner.classes is None else self.learner.classes.texts
        if self.spec.has_alerts:
            classes = LABELS_OF_ANOMALIES
        return {
            "model": name,
            "parameters": parameters,
            **({"auto": True} if self.spec.champion.model == AUTO else {}),
            **about,
            "seed": self.spec.seed,
            **(self.metrics.metrics() if self._tally is None else self._alerts(self._tally)),
            **self.metrics.ranked(),
            **self._besides(),
            **self.learner.intervals.metrics(),
            "instances_per_second": round(self.rows / seconds) if seconds > 0 else None,
            **self.learner.roles[CHAMPION].model.size(),
            "live_bytes": live[-1],
            "mean_live_bytes": round(sum(live) / len(live)),
            "peak_live_bytes": max(live),
            "state_bytes": self.points[-1]["state_bytes"],
            "peak_state_bytes": max(point["state_bytes"] for point in self.points),
            "seconds": round(seconds, 6),
            "wall_seconds": round(self.timed.wall, 6),
            **({} if classes is None or self._tally is not None else {"classes": self._by_class(classes)}),
            "curves": self.curves(),
            **({"detectors": list(self.detectors), "changes": self.metrics.changes} if self.detectors else {}),
            **{key: count for key, count in counts.items() if count},
            **self.rejections.result(),
            **({} if self._known is None else self._known.result(self.learner.servings[CHAMPION], classes)),
        }

    def _alerts(self, tally: Tally) -> dict[str, Any]:
        threshold = self._besides(recent=True).get("threshold")
        return {**tally.result(), **({} if threshold is None else {"threshold": threshold})}


class _Timed:
    """Seconds that the champion takes to predict and learn: of CPU, all its threads together, and by the clock.

    CPU time hardly depends on what else the machine does, so models that run at the same time can be compared.
    """

    def __init__(self, learner: PartitionLearner) -> None:
        self.cpu = self.wall = 0.0
        champion = learner.roles[CHAMPION]
        self._run = champion.run
        champion.run = self.run  # type: ignore[method-assign]

    def run(self, program: Program, reasons: Reasons | None = None) -> list[Finding]:
        cpu, wall = time.process_time(), time.perf_counter()
        findings = self._run(program, reasons)
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall
        return findings
