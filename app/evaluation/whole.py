"""A stream file as it is, over a file's rows, in memory: all of its models beside each other in one learner, with what
its `promotion` and `drift` would have said and done, and when."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from riparian.app.dataset.instances import InstanceReader, Instances, Rejections
from riparian.app.dataset.verification_latency import Lateness
from riparian.app.evaluation.evaluate import LARGEST_BATCH, problem_for
from riparian.app.evaluation.measures.alerts import Tally
from riparian.app.evaluation.measures.by_value import tables
from riparian.app.evaluation.measures.measured import FromFirstLabel, by_name, decided_classes
from riparian.app.evaluation.measures.measures import UNLEARNED
from riparian.app.evaluation.measures.objective import most_frequent, objective_of
from riparian.app.evaluation.setup import Setup
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.stream_file.spec import Spec, build
from riparian.models.contract import Learner
from riparian.models.evaluation.prequential import Prequential
from riparian.models.memory import live_bytes
from riparian.topics.commands import EventRecord
from riparian.topics.names import CHAMPION
from riparian.topics.records import VALUES, DriftRecord

MODELS = ("champion", "challengers")


def sizes(model: Learner) -> dict[str, int]:
    """Bytes of a model: of its arrays, and of what a checkpoint stores of it."""
    return {"live_bytes": live_bytes(model), "state_bytes": model.n_bytes}


class Whole:
    """What is to be run. DataError or SpecError where it cannot be.

    Attributes
    ----------
    spec : Spec
        The stream file's.
    name : of the data
    total : rows
    remarks : sentences on what may not be meant
    learner : PartitionLearner
        That `run` teaches.
    """

    def __init__(self, setup: Setup) -> None:
        stream = setup.stream
        assert stream is not None
        self._file = setup.open()
        problem = problem_for(self._file, **setup._asdict())
        if problem.goal is None:
            setup.check_unlabelled()
        fields = dict(problem.fields)
        fields |= {name: getattr(stream, name) for name in MODELS if name in stream.model_fields_set}
        fields |= {} if setup.seed is None else {"seed": setup.seed}
        self.spec: Spec = build(fields, problem.where)
        self.name, self.total, self._goal = self._file.path.name, problem.n, problem.goal
        self.remarks = problem.remarks
        self._setup, self._delay = setup, setup.label_delay
        self.learner = PartitionLearner(self.spec)

    def outcomes(self) -> Iterator[tuple[Instances | None, Outcome, float]]:
        """Step by step: the rows, what came of them and of labels that came meanwhile, and CPU seconds. At the end,
        without rows, what comes of the labels that are still to come; where the file says when, it ends with the last
        row."""
        clock = self._setup.clock
        lateness = Lateness(self.learner, self._delay, clock is not None)
        reader = InstanceReader(self._file, self.spec, self._goal, self.learner, clock, self._setup.label_clock)
        for instances in reader.read(self._setup.limit, min(LARGEST_BATCH, self.total)):
            start = time.process_time()
            outcome = lateness.step(instances)
            yield instances, outcome, time.process_time() - start
        if self._setup.label_clock is None:
            for outcome in lateness.finish(LARGEST_BATCH):
                yield None, outcome, 0.0

    def run(self, on_progress: Callable[[int], None], write: Callable[[bytes], object] | None = None) -> dict[str, Any]:
        """JSON-serialisable. on_progress : rows done. write : takes each prediction, a line of JSON.

        objective : what the stream is judged by, as `app.evaluation.measures.objective` has it
        models : role at the end -> learner, its metrics over all labels (`overall`, with `classes` where the stream has
            a decision; `from_first_label` without those whose rows came before it, of late labels) and over the window
            or fading (`recent`), `estimated` accuracy before labels come and its error, of the first 20 `classes` their
            figures over the window or fading; without labels what `app.evaluation.measures.alerts.Tally` has, and
            `live_bytes` and `state_bytes` at the end
        seconds, instances_per_second : without labels, of CPU, of all models together
        waiting : with times of labels, rows that are not learned at the time of the last row
        compared : role of a challenger -> how it does beside the champion
        promotions : what the rule did (`applied`) or proposed: the first `row` predicted after it, a sentence, models
        drifts : what was found, as records of the drift topic have it, with the `row` of the last prediction before
        segments : of each feature of `metrics.segments` its values (`app.evaluation.measures.by_value.tables`)
        distances : how far features and predictions are from their references at the end
        """
        learner, clock, rows = self.learner, self._setup.clock, 0
        learner.warm_up()
        promotions, drifts, rejections = list[EventRecord](), list[DriftRecord](), Rejections()
        unlabelled, seconds = self._goal is None, 0.0
        known = list[FromFirstLabel]()
        if (self._delay or self._setup.label_clock) and self.spec.task not in VALUES:
            for one in learner.roles.values():
                own = Prequential(self.spec.task, learner.schema.n_outputs, window=1)
                known.append(FromFirstLabel(one.metrics, own))
        tallies = {role: Tally(role, self.total) for role in learner.roles if unlabelled}

        def note(outcome: Outcome) -> None:
            for tally in tallies.values():
                tally.add(outcome)
            if write is not None:
                for record in learner.encode(outcome):
                    write(record + b"\n")
            promotions.extend(outcome.events)
            drifts.extend(outcome.drifts)

        for instances, outcome, took in self.outcomes():
            note(outcome)
            if instances is not None:
                seconds += took
                rows += len(instances.times)
                rejections.add(instances)
                on_progress(rows)
        classes = None if unlabelled else decided_classes(learner)
        figures, speed = learner.figures(), round(rows / seconds) if seconds > 0 else None
        return {
            "data": self.name,
            "rows": rows,
            "task": self.spec.task,
            **({} if unlabelled else {"target": self._goal, "label_delay": self.spec.label.ahead or self._delay}),
            **({} if clock is None else {"clock": clock}),
            **({} if self._setup.label_clock is None else {"label_clock": self._setup.label_clock}),
            **({} if self._setup.label_clock is None else {"waiting": learner.pending.n_unlearned}),
            "seed": self.spec.seed,
            "window": self.spec.metrics.window,
            "objective": objective_of(self.spec, most_frequent([figures.by_class.get(CHAMPION) or {}]))._asdict(),
            "models": {
                role: {
                    "learner": one.learner_name,
                    "overall": figures.overall[role]
                    | ({} if classes is None else {"classes": by_name(one.metrics, classes)}),
                    "recent": figures.recent[role],
                    **next(
                        (late.result(learner.servings[role], classes) for late in known if late.metrics is one.metrics),
                        {},
                    ),
                    "estimated": figures.estimated[role],
                    **({"classes": figures.by_class[role]} if figures.by_class.get(role) else {}),
                    **(tallies[role].result() | sizes(one.model) if unlabelled else {}),
                }
                for role, one in learner.roles.items()
            },
            **({"seconds": round(seconds, 6), "instances_per_second": speed} if unlabelled else {}),
            "compared": dict(figures.compared),
            "promotions": [
                {"row": one.offset, **{name: getattr(one, name) for name in ("event", "model", "sentence", "models")}}
                for one in promotions
            ],
            "drifts": [{"row": one.offset, **msgspec.to_builtins(one)} for one in drifts],
            **({"segments": by_segment} if (by_segment := tables(self.spec, figures.segments)) else {}),
            "distances": [msgspec.to_builtins(one) for one in figures.distances],
            **rejections.result(),
            **{name: n for name, n in learner.pending.counts.items() if name in UNLEARNED and n},
        }
