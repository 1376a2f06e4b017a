"""Prequential evaluation of models over a file, in memory, by the code that the worker runs.

Each row is an instance of a stream whose label comes later: `label_delay` rows, or a duration where a column holds the
time (`app.dataset.verification_latency`). Prediction, join, learning and scoring are `PartitionLearner.apply`; only
JSON and Kafka are left out. A stream file's bounds on waiting instances apply.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from riparian.app.dataset.files.data import COMMA, MOST_CLASSES, MOST_NOMINAL, DataFile
from riparian.app.dataset.guessing.from_file import likely_label
from riparian.app.dataset.instances import InstanceReader, Instances
from riparian.app.errors import DataError, SpecError
from riparian.app.evaluation.course import Course
from riparian.app.evaluation.setup import Setup
from riparian.app.partition.learner import PartitionLearner
from riparian.app.partition.outcome import Outcome
from riparian.app.stream_file.durations import format_duration
from riparian.app.stream_file.spec import Spec, build
from riparian.models.contract import Bags
from riparian.models.registry import FOREIGN, REGISTRY
from riparian.topics.records import ANOMALY, CLASSIFICATION, MULTI_INSTANCE, NOMINAL
from riparian.topics.vocabulary import MAX_TEXT

if TYPE_CHECKING:
    from riparian.app.dataset.files.table import Table

LARGEST_BATCH = 4096
CURVE_POINTS = 50
# Of a stream that no file describes.
MOST_BYTES = 100_000_000  # largest record, bytes
UNBOUNDED = {"max_pending_bytes": 10**15, "horizon": "36500d"}  # so that nothing is dropped


class FileStream(NamedTuple):
    """The stream that a file stands for, without a model.

    fields : of a stream file
    where : begins the sentence of a SpecError
    goal : name of the target column; None of a stream of anomalies without labels, whose alerts are counted
    n : rows
    remarks : sentences on what was inferred and may not be meant
    """

    fields: Mapping[str, Any]
    where: str
    goal: str | None
    n: int
    remarks: Sequence[str] = ()

    def spec(self, model: str, parameters: Mapping[str, Any], seed: int | None = None) -> Spec:
        """The stream with `model` as its only model. SpecError where that or a parameter is not valid."""
        seeded = {} if seed is None else {"seed": seed}
        allowed = {"as_champion": True} if model in REGISTRY and REGISTRY[model].slow else {}
        champion = {"model": model, **allowed, **parameters}
        # The caller has named the model, and no state is read.
        trusted = {"trust": ["code", "pickles"]} if model in FOREIGN else {}
        return build({**self.fields, **seeded, **trusted, "champion": champion, "challengers": {}}, self.where)


def problem_for(file: DataFile, **options: Any) -> FileStream:
    """The stream that a file stands for. options : as `Setup` has them."""
    setup = Setup(**options)
    stream, target, clock, limit, label_delay = setup.stream, setup.target, setup.clock, setup.limit, setup.label_delay
    if clock is not None:
        file.position(clock, "the time of a row")
    remarks: Sequence[str] = ()
    goal: str | None
    if stream is None:
        kept = [name for name in file.names if name not in setup.ignore]
        likely = kept[-1:] if target is None else [target]
        if clock in likely:
            raise SpecError(_both(clock))
        types = file.types(
            target=target,
            task=setup.task,
            nominal=setup.nominal,
            ignore=setup.ignore if clock is None else [*setup.ignore, clock],
            max_values=setup.max_values or MOST_NOMINAL,
            limit=limit,
        )
        if types.n_classes > MOST_CLASSES:
            raise DataError(
                f"column {types.target!r} of {file.path} has {types.n_classes} classes, at most {MOST_CLASSES} can be "
                f"told apart{types.example}: {types.cure}"
            )
        goal, n, remarks = types.target, types.n, types.remarks()
        meant = likely_label(kept)
        if target is None and meant not in (None, goal):
            cure = f"--label {quote(str(meant))} predicts {meant!r}"
            remarks = [f"{goal!r}, the last column, is predicted: {cure}", *remarks]
        fields: dict[str, Any] = {
            "name": re.sub(r"[^A-Za-z0-9_-]+", "-", file.path.name.partition(".")[0]).strip("-_") or "data",
            "task": types.task,
            "features": {
                name: {"type": NOMINAL, "max_values": types.n_values[name]}
                if types.n_values.get(name, 0) > MOST_NOMINAL
                else kind
                for name, kind in types.features.items()
            },
            "join": {**UNBOUNDED, "max_pending": max(1_000_000, n, int(label_delay) + 1)},
            "record": {"max_bytes": MOST_BYTES},
        }
        if types.task == CLASSIFICATION:
            fields |= {"max_classes": max(2, types.n_classes), "max_class_bytes": MAX_TEXT}
    else:
        for name in [name for name in ("task", "nominal", "ignore", "max_values") if getattr(setup, name)]:
            option = f"--{name.replace('_', '-')}"
            raise SpecError(f"{option} and --stream exclude each other: the stream file says what the data are")
        goal = stream.label.of
        if goal is not None:
            _check_forecasts(file, setup)
        elif target is not None or not _is_unlabelled(file, stream):
            goal = file.target(target, stream.features)[0]
        if goal is not None and clock == goal and stream.label.of is None:
            raise SpecError(_both(goal))
        n = file.count(limit)
        if file.separator != COMMA:
            file.survey(file.names, limit)
            remarks = list(file.spelling_remarks([*stream.features, *([] if goal is None else [goal])]))
        if stream.keys and clock is None:
            raise SpecError(
                f"keys of the stream file: expected the time of each row of {file.path}, since features over a key's "
                "past go by it, found none; name its column by --time"
            )
        if stream.join.unlabelled is not None and goal is not None and clock is None:
            raise SpecError(
                f"join.unlabelled of the stream file: expected the time of each row of {file.path}, since labels wait "
                "by it, found none; name its column by --time"
            )
        if n == 0:
            raise DataError(f"{file.path} has a header and no rows: expected at least one")
        fields = stream.model_dump(exclude={"champion", "challengers"}, exclude_unset=True)
        fields = {key: getattr(stream, key) for key in fields}
        none = ["learned"] if goal is not None else ["learned", "labels"]  # so that no instance waits
        # One fold learns all labels as it is.
        fields |= {"learning": "partition", "partitions": 1}
        fields["topics"] = stream.topics.model_copy(update=dict.fromkeys(none))
        if goal is None:
            fields["record"] = stream.record.model_copy(update={"y": None})
            fields["join"] = stream.join.model_copy(update={"unlabelled": None})
            fields.pop("label", None)
        if clock is not None and label_delay > stream.join.horizon:
            remarks = [
                *remarks,
                f"labels come {format_duration(label_delay)} late, and instances wait for "
                f"{format_duration(stream.join.horizon)} (join.horizon of the stream file): nothing is learned, unless "
                "the horizon is longer than the delay",
            ]
    if (metrics := _metrics(setup)) and stream is not None:
        metrics = stream.metrics.model_dump(include={"window", "fading"}) | metrics
    fields |= {"metrics": metrics} if metrics else {}
    if setup.coverage is not None or setup.calibrated:
        given = {} if stream is None else stream.predictions.model_dump()
        by = stream.predictions.coverage.by if stream is not None and stream.predictions.coverage else None
        asked = {"coverage": setup.coverage and {"share": setup.coverage, "by": by}, "calibrated": setup.calibrated}
        fields["predictions"] = given | {name: value for name, value in asked.items() if value}
    return FileStream(fields, str(file.path), goal, n, remarks)


def _check_forecasts(file: DataFile, setup: Setup) -> None:
    """SpecError where the options do not suit labels that come from the stream itself."""
    if setup.clock is None:
        raise SpecError(
            f"label.ahead of the stream file: expected the time of each row of {file.path}, by which a later row is "
            "the label of an earlier one, found none; name its column by --time"
        )
    for option, given in (
        ("--label", setup.target),
        ("--label-delay", setup.label_delay),
        ("--label-time", setup.label_clock),
    ):
        if given:
            raise SpecError(
                f"{option}: expected nothing, since labels are later values of the stream itself (label.of), found "
                f"{given}; leave it out"
            )


def _metrics(setup: Setup) -> dict[str, Any]:
    """What the options say of `metrics`."""
    return {name: one for name in ("window", "fading") if (one := getattr(setup, name)) is not None}


def _is_unlabelled(file: DataFile, stream: Spec) -> bool:
    """Whether there is nothing but alerts to tell of. SpecError where there is not even that."""
    if stream.task != ANOMALY:
        return False
    if not stream.has_labels:
        why = f"stream {stream.name} has no labels"
    elif file.holds(len(file.names) - 1, stream.features):
        why = f"the last column of {file.path} is a feature, and no column of labels was named by --label"
    else:
        return False
    if not stream.has_alerts:
        raise SpecError(
            f"{why}, so there is nothing to score: decision: {{alert_rate: 0.01}} in the stream file would name "
            "alerts, which an evaluation counts without labels"
        )
    return True


def _both(column: str | None) -> str:
    return f"column {column!r} would be the target and the time: name the target by --label"


def spec_for(
    file: DataFile, model: str, parameters: Mapping[str, Any], *, seed: int | None = None, **options: Any
) -> tuple[Spec, str | None, int]:
    """The stream that a file stands for, with `model` as its only model; options as `problem_for` takes them.

    Returns
    -------
    Spec, name of the target column, number of rows
    """
    problem = problem_for(file, **options)
    return problem.spec(model, parameters, seed), problem.goal, problem.n


def evaluate(
    file: DataFile,
    spec: Spec,
    goal: str | None,
    n: int,
    *,
    on_outcome: Callable[[Outcome], None] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Test, then train, over the rows of a file: `evaluate_all` of one model.

    on_outcome : given the outcome of every step (the predictions made).
    """
    watched = None if on_outcome is None else lambda _, outcome: on_outcome(outcome)
    (result,) = evaluate_all(file, [spec], goal, n, on_outcome=watched, **options)
    return result


def evaluate_all(
    file: DataFile,
    specs: Sequence[Spec],
    goal: str | None,
    n: int,
    *,
    label_delay: float = 0,
    clock: str | None = None,
    limit: int | None = None,
    points: int | None = None,
    detectors: Sequence[str] = (),
    on_progress: Callable[[int], None] | None = None,
    on_outcome: Callable[[int, Outcome], None] | None = None,
) -> list[dict[str, Any]]:
    """Test, then train, over the rows of a file, which is read once for several models.

    Parameters
    ----------
    file, specs, goal, n
        The data, and what `FileStream.spec` made of them; the specs differ in the model and the seed only. Each model
        has a learner of its own, so its results do not depend on the others.
    label_delay : float
        From an instance's features to its label: instances, or seconds where there is a clock.
    clock : str, optional
        The column with the time of each row.
    limit : int, optional
        Rows to read.
    points : int, optional
        Points of the curve, about.
    detectors : sequence of str
        Drift detectors over the errors of each model, at their defaults (`app.partition.drift.detection`).
    on_progress : callable, optional
        Told the number of rows done.
    on_outcome : callable, optional
        Given the number of a model and the outcome of each of its steps.

    Returns
    -------
    list of dict
        JSON-serialisable: model, parameters, data, task, label_delay (and clock), seed, n (labels scored; without a
        goal what `app.evaluation.measures.alerts.Tally` has instead, and the threshold), the metrics
        that the task has (undefined ones are absent) as `models.evaluation.prequential` and
        `app.evaluation.measures.measured` have them; n_nodes, n_leaves, depth (and n_models) at the end;
        live_bytes, of the model's arrays as they lie in memory (`models.memory`), at the end, and mean_live_bytes and
        peak_live_bytes, over the points of the curves; state_bytes, of what a checkpoint stores of the model, at the
        end, and peak_state_bytes; seconds (CPU time of the learner alone: predicting and learning),
        instances_per_second by it, and wall_seconds by the clock; classes (`Measured.classes`, by name); curves
        (`Course.curves`: metrics over the sliding or fading window, the accuracy so far, sizes and times); with
        detectors their names (detectors) and the changes (detector, level, n errors seen, the mean error before
        and after, None where there is none); where they are not 0, the rows rejected, and the instances expired
        or evicted, which were never learned.
    """
    size, every = _steps(n, points)
    late = (label_delay, clock is not None)
    counted = n if goal is None else None
    runs = [Course(spec, *late, detectors, every, counted) for spec in specs]
    first = runs[0].learner
    for run in runs:
        run.warm_up()
    rows = 0
    for instances in InstanceReader(file, specs[0], goal, first, clock).read(limit, size):
        rows += len(instances.x)
        for k, run in enumerate(runs):
            _know(run.learner, first)
            outcome = run.step(instances)
            if on_outcome is not None:
                on_outcome(k, outcome)
        if on_progress is not None:
            on_progress(rows)
    for k, run in enumerate(runs):
        for outcome in run.finish(size):
            if on_outcome is not None:
                on_outcome(k, outcome)
    about: dict[str, Any] = {"data": file.path.name, "task": specs[0].task}
    if goal is not None:
        about |= {"target": goal, "label_delay": specs[0].label.ahead or label_delay}
    if clock is not None:
        about["clock"] = clock
    return [run.result(about) for run in runs]


def _know(learner: PartitionLearner, reader: PartitionLearner) -> None:
    """Let a learner know the values and classes that were read for another one, of the same stream file but for its
    models. Both only ever append."""
    own, known = ([*one.vocabularies, one.classes] for one in (learner, reader))
    for vocabulary, other in zip(own, known, strict=True):
        if vocabulary is not None and other is not None and len(vocabulary) < len(other):
            vocabulary.restore(other.state())


def evaluate_bags(
    table: "Table", model: str, parameters: Mapping[str, Any], setup: Setup, data: str, seed: int
) -> dict[str, Any]:
    """Test, then train, over the bags of a file in its order. data : its name. The rest as in `evaluate_all`."""
    label_delay = int(setup.label_delay)
    kinds = {name: {"type": NOMINAL, "values": table.values[name]} for name in table.values}
    fields: dict[str, Any] = {
        "name": "bags",
        "task": MULTI_INSTANCE,
        "classes": table.classes,
        "features": {name: kinds.get(name, kind) for name, kind in table.features.items()},
        "join": {**UNBOUNDED, "max_pending": max(1_000_000, label_delay + 1)},
        "metrics": _metrics(setup),
        "seed": seed,
        "champion": {"model": model, **parameters},
    }
    n = len(table.y)
    size, every = _steps(n, setup.points)
    run = Course(build(fields, data), label_delay, False, (), every)
    run.warm_up()
    for first in range(0, n, size):
        rows = np.arange(first, min(first + size, n))
        bags = table.take(rows)
        assert isinstance(bags, Bags)
        run.step(Instances(first, bags.x, table.y[rows], rows, int(rows[-1]) + 1, [], [], bags.size))
    for _ in run.finish(size):
        pass
    return run.result({"data": data, "task": MULTI_INSTANCE, "target": table.target, "label_delay": label_delay})


def _steps(n: int, points: int | None) -> tuple[int, int]:
    """Rows of a step, and from a point of the curves to the next one, of n rows."""
    every = max(1, math.ceil(n / (points or CURVE_POINTS)))
    return min(LARGEST_BATCH, every), every
